//! Reads an object whose line was cut, as far as the object goes.
//!
//! Members that are whole are read as `json` reads them. Of the member in which the text ends, a string, an array and an
//! object too deep for fields are kept as far as they go, and of any other object its whole members are. A number or a
//! word that touches the end is left out, because the rest of it could say something else. A name without a value is
//! left out, too.
//!
//! A text that is not an object for another reason than its end is not read.

use super::fast::string_end;
use super::{DEPTH_MAX, PREFIX_BYTES_MAX, number, read_object};
use crate::builder::RecordBuilder;
use crate::pairs::unquote;
use crate::scan::special;
use crate::timestamp::TimestampDefaults;
use daytable_model::record::{Record, Value};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Bytes of `\u0041`.
const CODE_BYTES: usize = 6;

/// Reads the first bytes of an object, and `rest`: an object of its members that came later in the line.
pub(crate) fn parse<'a>(text: &'a str, rest: Option<&'a str>, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut builder = RecordBuilder::new(defaults);
    let mut cursor = Cursor { text, at: 0 };
    cursor.skip_space();
    let (mut members, _) = cursor.object(&mut builder, "", 0)?;
    cursor.skip_space();
    if cursor.at < text.len() {
        return None;
    }
    if let Some(rest) = rest {
        members += read_object(rest, &mut builder, "", 0).ok()?;
    }
    (members > 0).then(|| builder.finish())
}

/// The meaning of a string without its first quote, if the text ends within the string.
pub(crate) fn cut_string(text: &str) -> Option<Cow<'_, str>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    // Half of a pair of codes means nothing.
    let mut half = None;
    let end = loop {
        let next = special(bytes, at);
        half = half.filter(|_| next == at);
        at = next;
        match bytes.get(at..)? {
            [] | [b'\\'] => break at,
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => (at, half) = (at + 2, None),
            [b'\\', b'u', code @ ..] => {
                let digits = &code[..code.len().min(CODE_BYTES - 2)];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                if digits.len() < CODE_BYTES - 2 {
                    break at;
                }
                let is_first_half = matches!(digits, [b'd' | b'D', b'8'..=b'9' | b'a' | b'b' | b'A' | b'B', ..]);
                half = is_first_half.then_some(at);
                at += CODE_BYTES;
            }
            _ => return None,
        }
    };
    let kept = text.get(..half.unwrap_or(end))?;
    Some(match kept.contains('\\') {
        false => Cow::Borrowed(kept),
        true => Cow::Owned(unquote(&format!("\"{kept}\"")).into_owned()),
    })
}

/// Whether a part ends within the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Cut,
}

/// A text, and how far it is read. A method returns `None` if the text is not an object.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Adds the members of an object and returns their number. `prefix` is the name of the object, empty at depth 0.
    fn object(&mut self, builder: &mut RecordBuilder<'a>, prefix: &str, depth: usize) -> Option<(usize, End)> {
        self.take(b'{')?;
        self.skip_space();
        if self.take(b'}').is_some() {
            return Some((0, End::Whole));
        }
        let mut members = 0;
        loop {
            self.skip_space();
            let Some(name) = self.name()? else { return Some((members, End::Cut)) };
            let name = if depth == 0 { name } else { Cow::Owned(format!("{prefix}.{name}")) };
            let (is_read, end) = self.value(builder, name, depth)?;
            members += usize::from(is_read);
            self.skip_space();
            if end == End::Cut || self.is_at_end() {
                return Some((members, End::Cut));
            }
            if self.take(b',').is_none() {
                self.take(b'}')?;
                return Some((members, End::Whole));
            }
        }
    }

    /// A name, up to its value; `Some(None)` if the text ends before that.
    fn name(&mut self) -> Option<Option<Cow<'a, str>>> {
        if self.is_at_end() {
            return Some(None);
        }
        self.take(b'"')?;
        let Some(end) = string_end(self.text.as_bytes(), self.at) else {
            return cut_string(self.text.get(self.at..)?).map(|_| None);
        };
        let name = unquote(self.text.get(self.at - 1..end)?);
        self.at = end;
        self.skip_space();
        if self.is_at_end() {
            return Some(None);
        }
        self.take(b':')?;
        self.skip_space();
        Some((!self.is_at_end()).then_some(name))
    }

    /// Reads a value, and whether it counts as a member: what is too short to mean anything does not.
    fn value(&mut self, builder: &mut RecordBuilder<'a>, name: Cow<'a, str>, depth: usize) -> Option<(bool, End)> {
        let start = self.at;
        let rest = self.text.get(start..)?;
        let (value, end) = match *rest.as_bytes().first()? {
            b'"' => match string_end(rest.as_bytes(), 1) {
                Some(end) => {
                    self.at += end;
                    (Value::String(unquote(&rest[..end])), End::Whole)
                }
                None => {
                    self.at = self.text.len();
                    (Value::String(cut_string(&rest[1..])?), End::Cut)
                }
            },
            b'{' if depth < DEPTH_MAX && name.len() <= PREFIX_BYTES_MAX => {
                match self.object(builder, &name, depth + 1)? {
                    // An empty object has no members to become fields.
                    (0, End::Whole) => (Value::String(Cow::Borrowed(self.text.get(start..self.at)?)), End::Whole),
                    (members, end) => return Some((members > 0, end)),
                }
            }
            first => {
                let (written, end) = self.written()?;
                let value = match first {
                    b'[' | b'{' => Value::String(Cow::Borrowed(written)),
                    _ if end == End::Cut => return Some((false, End::Cut)),
                    b't' => Value::Boolean(true),
                    b'f' => Value::Boolean(false),
                    b'n' => return Some((true, End::Whole)),
                    _ => number(written),
                };
                (value, end)
            }
        };
        builder.add(name, value);
        Some((true, end))
    }

    /// A value as written, which serde_json judges.
    fn written(&mut self) -> Option<(&'a str, End)> {
        let rest = self.text.get(self.at..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let (length, end) = match values.next()? {
            // More digits could follow.
            Ok(value) => {
                let is_open = value.get().len() == rest.len() && !rest.ends_with([']', '}']);
                (value.get().len(), if is_open { End::Cut } else { End::Whole })
            }
            Err(error) if error.is_eof() => (rest.len(), End::Cut),
            Err(_) => return None,
        };
        self.at += length;
        Some((&rest[..length], end))
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.text.as_bytes().get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.text.as_bytes().get(self.at) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::judged;
    use super::*;
    use daytable_model::record::{Field, Level};
    use proptest::prelude::*;

    fn read<'a>(text: &'a str, rest: Option<&'a str>) -> Option<Record<'a>> {
        parse(text, rest, &TimestampDefaults::default())
    }

    fn fields(record: &Record<'_>) -> Vec<(String, Value<'static>)> {
        let owned = |value: &Value<'_>| match value {
            Value::String(text) => Value::String(text.clone().into_owned().into()),
            Value::Int64(number) => Value::Int64(*number),
            Value::Double(number) => Value::Double(*number),
            Value::Boolean(is) => Value::Boolean(*is),
            Value::Binary(_) => unreachable!("JSON has none"),
        };
        record.fields.iter().map(|Field { name, value }| (name.to_string(), owned(value))).collect()
    }

    #[test]
    fn an_object_is_read_as_far_as_it_goes() {
        let text = |text: &str| Value::String(text.to_owned().into());
        for (cut, expected) in [
            (r#"{"a":"xy","b":"va"#, vec![("a", text("xy")), ("b", text("va"))]),
            (r#"{"a":"xy","b":"va\"#, vec![("a", text("xy")), ("b", text("va"))]),
            (r#"{"a":"xy","b":"v\n\u00"#, vec![("a", text("xy")), ("b", text("v\n"))]),
            (r#"{"b":"v\ud83d"#, vec![("b", text("v"))]),
            (r#"{"b":"v\ud83d\ude0"#, vec![("b", text("v"))]),
            (r#"{"b":"v\ud83d\ude00"#, vec![("b", text("v\u{1f600}"))]),
            (r#"{"a":1,"b":12"#, vec![("a", Value::Int64(1))]),
            (r#"{"a":1,"b":tru"#, vec![("a", Value::Int64(1))]),
            (r#"{"a":1,"b":true"#, vec![("a", Value::Int64(1))]),
            (r#"{"a":1,"b":true "#, vec![("a", Value::Int64(1)), ("b", Value::Boolean(true))]),
            (r#"{"a":1,"b""#, vec![("a", Value::Int64(1))]),
            (r#"{"a":1,"#, vec![("a", Value::Int64(1))]),
            (r#"{"a":1,"b":"#, vec![("a", Value::Int64(1))]),
            (
                r#" {"a" : 1 , "b" : {"c":2.5,"d":"x"#,
                vec![("a", Value::Int64(1)), ("b.c", Value::Double(2.5)), ("b.d", text("x"))],
            ),
            (r#"{"a":1,"b":["x","y"#, vec![("a", Value::Int64(1)), ("b", text(r#"["x","y"#))]),
            (r#"{"a":1,"b":{}"#, vec![("a", Value::Int64(1)), ("b", text("{}"))]),
            (r#"{"\u0061":1,"b":{"#, vec![("a", Value::Int64(1))]),
        ] {
            let record = read(cut, None).unwrap_or_else(|| panic!("{cut}"));
            let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(fields(&record), expected, "{cut}");
        }
        let head = r#"{"time":"2026-11-26T08:00:00Z","level":"error","msg":"out of mem"#;
        let record = read(head, None).expect("an object");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2026-11-26T08:00:00Z"));
        assert_eq!((record.level, &*record.message), (Some(Level::Error), "out of mem"));
        let record = read(r#"{"dump":"xx"#, Some(r#"{"level":"error","msg":"m"}"#)).expect("an object");
        assert_eq!((record.level, &*record.message), (Some(Level::Error), "m"));
    }

    #[test]
    fn other_texts_are_no_objects() {
        for text in [
            "",
            "{",
            "{}",
            "{} x",
            "[1",
            "words",
            "{words",
            r#"{"a":1,}"#,
            r#"{"a" 1"#,
            r#"{"a":x"#,
            r#"{"a":"\x"#,
            "{\"a\":\"\tb",
            r#"{"a":[1}"#,
            r#"{"a":1}x"#,
        ] {
            assert_eq!(read(text, None), None, "{text}");
        }
    }

    proptest! {
        /// A whole object is read as the parser of whole objects reads it. Of each beginning of it, every field is one of the
        /// whole object, or the beginning of one.
        #[test]
        fn a_cut_object_says_nothing_that_the_whole_one_does_not(
            members in prop::collection::vec(("[a-c]{1,2}", prop_oneof![
                any::<String>().prop_map(|text| serde_json::to_string(&text).expect("a string")),
                r#""[a-z \\/u0-9d]{0,12}""#,
                "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?(e[0-9])?",
                Just("true".to_owned()),
                Just("null".to_owned()),
                Just(r#"[1,{"x":"]"}]"#.to_owned()),
                Just(r#"{"d":{"e":"f\ud83d\ude00g","h":[]}, "i":{}}"#.to_owned()),
            ]), 1..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let members: Vec<_> = members.into_iter().enumerate().map(|(n, (name, value))| format!("\"{name}{n}\":{value}")).collect();
            let text = format!("{{{}}}", members.join(","));
            let Some(whole) = judged(&text, &TimestampDefaults::default()) else { return Ok(()) };
            let read_whole = read(&text, None);
            prop_assert_eq!(Some(&whole), read_whole.as_ref(), "{}", text);
            let whole = fields(&whole);
            let text = &text[..text.floor_char_boundary(cut.index(text.len()))];
            let Some(part) = read(text, None) else { return Ok(()) };
            let part = fields(&part);
            for (number, (field, of_whole)) in part.iter().zip(&whole).enumerate() {
                let is_last = number + 1 == part.len();
                let begins = match (&field.1, &of_whole.1) {
                    (Value::String(part), Value::String(whole)) => is_last && whole.starts_with(&**part),
                    _ => false,
                };
                prop_assert!(field == of_whole || field.0 == of_whole.0 && begins, "{text}: {field:?} of {of_whole:?}");
            }
        }

        /// Any text is read or is not an object; none makes the reader panic.
        #[test]
        fn any_text(text in r#"\{?"?([a{}\[\],:"\\ue1é0-9tn. -]|\PC){0,30}"#) {
            let _ = read(&text, Some(&text));
        }
    }
}
