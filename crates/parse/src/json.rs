//! JSON: one object a line.
//!
//! `json::fast` reads most lines in one pass. This module reads the rest, and alone decides whether a line is JSON.
//!
//! Every value is first cut out as written, and then read by its first byte. So a number too large for any type keeps
//! its digits, and an array stays the text it was, with the fewest escapes. A string without escapes is borrowed, and no tree of values is
//! built. An inner object is cut in the same way, to a depth of [`DEPTH_MAX`], which bounds the stack and the time.
//!
//! `json::cut` reads an object whose line was cut, and `json::rest` finds what such a line had behind the cut.

pub(super) mod cut;
pub(super) mod fast;
pub(super) mod rest;

use super::builder::RecordBuilder;
use super::pairs::unquote;
use super::timestamp::TimestampDefaults;
use daytable_model::line::with_fewest_escapes;
use daytable_model::record::{Record, Value};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Depth to which members of inner objects become fields of their own; deeper objects stay JSON text.
pub(super) const DEPTH_MAX: usize = 32;
/// Bytes of the name of an object whose members become fields of their own: the longest name that a property may have.
/// Without this limit, one long name with many short members would take memory quadratic in the line.
pub(super) const PREFIX_BYTES_MAX: usize = 255;

/// Reads a line that is one object.
pub(super) fn parse<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    if !line.trim_ascii_start().starts_with('{') {
        return None;
    }
    fast::read(line, defaults).or_else(|| judged(line, defaults))
}

/// Reads a line with serde_json as the judge.
pub(super) fn judged<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut builder = RecordBuilder::new(defaults);
    read_object(line, &mut builder, "", 0).ok()?;
    Some(builder.finish())
}

/// Adds the members of the object `text` and returns their number.
fn read_object<'a>(
    text: &'a str,
    builder: &mut RecordBuilder<'a>,
    prefix: &str,
    depth: usize,
) -> serde_json::Result<usize> {
    let mut input = serde_json::Deserializer::from_str(text);
    let members = input.deserialize_map(Members { builder, prefix, depth })?;
    input.end()?;
    Ok(members)
}

struct Members<'d, 'a> {
    builder: &'d mut RecordBuilder<'a>,
    /// The name of the object with these members; empty for the line itself.
    prefix: &'d str,
    depth: usize,
}

impl<'a> Visitor<'a> for Members<'_, 'a> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(mut self, mut map: A) -> Result<usize, A::Error> {
        let mut members = 0;
        while let Some(name) = map.next_key_seed(Name)? {
            let written: &'a RawValue = map.next_value()?;
            let name = if self.depth == 0 { name } else { Cow::Owned(format!("{}.{name}", self.prefix)) };
            self.add(name, written.get()).map_err(A::Error::custom)?;
            members += 1;
        }
        Ok(members)
    }
}

impl<'a> Members<'_, 'a> {
    #[inline]
    fn add(&mut self, name: Cow<'a, str>, written: &'a str) -> serde_json::Result<()> {
        let value = match written.as_bytes().first() {
            Some(b'"') => Value::String(unquote(written)),
            Some(b'-' | b'0'..=b'9') => number(written),
            Some(b't') => Value::Boolean(true),
            Some(b'f') => Value::Boolean(false),
            Some(b'n') => return Ok(()),
            Some(b'{') if self.depth < DEPTH_MAX && name.len() <= PREFIX_BYTES_MAX => {
                if read_object(written, self.builder, &name, self.depth + 1)? > 0 {
                    return Ok(());
                }
                // An empty object has no members to become fields.
                Value::String(Cow::Borrowed(written))
            }
            _ => Value::String(with_fewest_escapes(written)),
        };
        self.builder.add(name, value);
        Ok(())
    }
}

/// A number in JSON's grammar; text if no type holds the number.
pub(super) fn number(written: &str) -> Value<'_> {
    if let Ok(number) = written.parse() {
        return Value::Int64(number);
    }
    let is_whole = !written.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
    match written.parse::<f64>() {
        Ok(number) if number.is_finite() && !is_whole => Value::Double(number),
        _ => Value::String(Cow::Borrowed(written)),
    }
}

/// The name of a member, borrowed if it has no escapes.
struct Name;

impl<'a> DeserializeSeed<'a> for Name {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, input: D) -> Result<Cow<'a, str>, D::Error> {
        input.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Name {
    type Value = Cow<'a, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'a str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Cow<'a, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::{Field, Level};
    use proptest::prelude::*;

    fn fields(line: &str) -> Vec<(String, Value<'_>)> {
        let record = judged(line, &TimestampDefaults::default()).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(parse(line, &TimestampDefaults::default()).as_ref(), Some(&record), "{line}");
        record.fields.into_iter().map(|Field { name, value }| (name.into_owned(), value)).collect()
    }

    #[test]
    fn a_line_of_the_corpus() {
        let line = r#"{"time":"2026-11-20T00:00:00.054356Z","level":"INFO","instance":"worker-28","message":"blob chunk stored","status":200,"client":"10.4.144.214"}"#;
        let record = parse(line, &TimestampDefaults::default()).expect("json");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2026-11-20T00:00:00.054356Z"));
        assert_eq!((record.level, &*record.message), (Some(Level::Info), "blob chunk stored"));
        assert!(matches!(record.message, Cow::Borrowed(_)));
        let expected = [
            ("instance".to_owned(), Value::String("worker-28".into())),
            ("status".to_owned(), Value::Int64(200)),
            ("client".to_owned(), Value::String("10.4.144.214".into())),
        ];
        assert_eq!(fields(line), expected);
    }

    #[test]
    fn values_by_type() {
        for (written, value) in [
            ("1", Value::Int64(1)),
            ("-9223372036854775808", Value::Int64(i64::MIN)),
            ("9223372036854775808", Value::String("9223372036854775808".into())),
            ("123456789012345678901234567890", Value::String("123456789012345678901234567890".into())),
            ("-18446744073709551616", Value::String("-18446744073709551616".into())),
            ("1.5", Value::Double(1.5)),
            ("1e3", Value::Double(1000.0)),
            ("1e999", Value::String("1e999".into())),
            ("true", Value::Boolean(true)),
            ("false", Value::Boolean(false)),
            ("\"\"", Value::String("".into())),
            (r#""a\nb\"c\u00e9\ud83d\ude00""#, Value::String("a\nb\"cé😀".into())),
            (r#""half \ud83d""#, Value::String(r"half \ud83d".into())),
            ("[1, \"a\",{ }]", Value::String("[1, \"a\",{ }]".into())),
            (r#"["caf\u00e9", "a\nb"]"#, Value::String(r#"["café", "a\nb"]"#.into())),
            ("{}", Value::String("{}".into())),
        ] {
            assert_eq!(fields(&format!("{{\"k\": {written} }}")), [("k".to_owned(), value)], "{written}");
        }
        assert_eq!(fields(r#"{"k":null,"\u006b":1}"#), [("k".to_owned(), Value::Int64(1))]);
    }

    #[test]
    fn inner_objects_are_flattened() {
        let line =
            r#"{"http":{"status":200,"request":{"id":"x"},"none":null},"log":{"level":"warn"},"message":{"a":1}}"#;
        let expected = [
            ("http.status".to_owned(), Value::Int64(200)),
            ("http.request.id".to_owned(), Value::String("x".into())),
            ("message.a".to_owned(), Value::Int64(1)),
        ];
        assert_eq!(fields(line), expected);
        let record = parse(line, &TimestampDefaults::default()).expect("json");
        assert_eq!((record.level, &*record.message), (Some(Level::Warn), ""));
    }

    #[test]
    fn anything_but_one_object_is_not_json() {
        for line in [
            "",
            "[]",
            "1",
            "{",
            "{}{}",
            "{} x",
            "{\"a\":1,}",
            "{'a':1}",
            "{\"a\":01}",
            "{\"a\":nul}",
            "{\"a\" 1}",
            "{\"a\":\"\u{1}\"}",
            "{\"a\":{\"b\":1}",
            "\u{a0}{}",
        ] {
            assert_eq!(parse(line, &TimestampDefaults::default()), None, "{line}");
        }
        assert_eq!(parse("{}", &TimestampDefaults::default()), Some(Record::default()));
    }

    #[test]
    fn depth_is_bounded_and_deeper_objects_stay_text() {
        let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let flat = nested(DEPTH_MAX + 1);
        assert_eq!(fields(&flat), [(vec!["a"; DEPTH_MAX + 1].join("."), Value::Int64(1))]);
        let deeper = nested(DEPTH_MAX + 3);
        assert_eq!(fields(&deeper), [(vec!["a"; DEPTH_MAX + 1].join("."), Value::String(nested(2).into()))]);
        let deepest = format!("{{\"a\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(fields(&deepest).len(), 1);
        assert_eq!(fields(&nested(100_000)).len(), 1);
    }

    #[test]
    fn a_long_name_is_not_repeated_for_each_member() {
        let long = "n".repeat(PREFIX_BYTES_MAX + 1);
        let line = format!("{{\"{long}\":{{\"a\":1,\"b\":2}}}}");
        assert_eq!(fields(&line), [(long, Value::String("{\"a\":1,\"b\":2}".into()))]);
    }

    proptest! {
        /// Any names and texts come back unchanged, however they were escaped.
        #[test]
        fn strings_come_back(members in proptest::collection::vec((any::<String>(), any::<String>()), 0..8)) {
            let members: Vec<_> = members.into_iter().map(|(name, text)| (format!("k{name}"), text)).collect();
            let quote = |text: &str| serde_json::to_string(text).expect("a string");
            let line: Vec<_> = members.iter().map(|(name, text)| format!("{}:{}", quote(name), quote(text))).collect();
            let line = format!("{{{}}}", line.join(","));
            let expected: Vec<_> =
                members.iter().map(|(name, text)| (name.clone(), Value::String(text.as_str().into()))).collect();
            prop_assert_eq!(fields(&line), expected);
        }

        /// Any number that fits a type comes back as the same number.
        #[test]
        fn numbers_come_back(int in any::<i64>(), double in proptest::num::f64::NORMAL) {
            let line = format!("{{\"i\":{int},\"d\":{double:?}}}");
            let expected = [("i".to_owned(), Value::Int64(int)), ("d".to_owned(), Value::Double(double))];
            prop_assert_eq!(fields(&line), expected);
        }

        /// A line is an object here exactly if serde_json reads an object.
        #[test]
        fn agrees_with_serde_json(tokens in proptest::collection::vec(
            prop::sample::select(vec!["\"a\"", "\"a\":", ":", ",", "1", "-0.5", "01", "true", "nul", "{", "}", "[", "]", " "]),
            0..10,
        )) {
            let line = format!("{{{}}}", tokens.concat());
            let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&line).is_ok();
            prop_assert_eq!(parse(&line, &TimestampDefaults::default()).is_some(), is_object, "{}", line);
        }
    }
}
