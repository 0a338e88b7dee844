//! Reads a JSON object in one pass: the fast path for the lines of nearly all programs.
//!
//! It accepts all values, and names without escapes. Members are added as they are read. At anything else (an escape in
//! a name, a control character, a surplus comma) it gives up without a verdict, and `json` starts again. So serde_json
//! remains the only judge of what is JSON, and the fast path changes only the time. The properties at the end of the
//! file check this: a record from the fast path equals the record from the slow path.

use super::{self as json, DEPTH_MAX, PREFIX_BYTES_MAX};
use crate::builder::RecordBuilder;
use crate::key_cache::KeyCache;
use crate::names::{Role, role_of};
use crate::pairs::{unquote, whole};
use crate::scan::special;
use crate::timestamp::TimestampDefaults;
use daytable_model::line::with_fewest_escapes;
use daytable_model::record::{Record, Value};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::RefCell;

thread_local! {
    /// One cache a thread: the objects of one file come by the hundred.
    static KEY_CACHE: RefCell<KeyCache> = const { RefCell::new(KeyCache::new()) };
}

/// Reads a line that is one object; `None` leaves the decision to serde_json.
pub(super) fn read<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut builder = RecordBuilder::new(defaults);
    KEY_CACHE.with_borrow_mut(|cache| {
        cache.begin();
        let mut cursor = Cursor { line, bytes: line.as_bytes(), at: 0, cache };
        cursor.skip_space();
        cursor.object(&mut builder, "", 0)?;
        cursor.skip_space();
        (cursor.at == line.len()).then_some(())
    })?;
    Some(builder.finish())
}

/// A line, and how far it is read. Each method begins at the part it is named after and ends after it.
struct Cursor<'a, 'f> {
    line: &'a str,
    bytes: &'a [u8],
    at: usize,
    cache: &'f mut KeyCache,
}

impl<'a> Cursor<'a, '_> {
    /// Adds the members of an object and returns their number. `prefix` is the name of the object, empty at depth 0.
    fn object(&mut self, builder: &mut RecordBuilder<'a>, prefix: &str, depth: usize) -> Option<usize> {
        self.take(b'{')?;
        self.skip_space();
        if self.take(b'}').is_some() {
            return Some(0);
        }
        let mut members = 0;
        loop {
            if depth > 0 {
                let name = self.name()?;
                self.skip_space();
                self.member(builder, Cow::Owned(format!("{prefix}.{name}")), depth)?;
            } else {
                let (name, meaning) = self.name_at(members)?;
                self.skip_space();
                if !self.simple_member(builder, name, meaning)? {
                    self.member(builder, Cow::Borrowed(name), depth)?;
                }
            }
            members += 1;
            self.skip_space();
            if self.take(b',').is_none() {
                self.take(b'}')?;
                return Some(members);
            }
            self.skip_space();
        }
    }

    /// Reads and adds a value of one of the two most common kinds; false for another kind.
    #[inline(always)]
    fn simple_member(
        &mut self,
        builder: &mut RecordBuilder<'a>,
        name: &'a str,
        meaning: Option<(Role, u8)>,
    ) -> Option<bool> {
        if self.bytes.get(self.at) == Some(&b'"') {
            let (start, end) = (self.at + 1, special(self.bytes, self.at + 1));
            if self.bytes.get(end) != Some(&b'"') {
                return Some(false);
            }
            let text = self.line.get(start..end)?;
            self.at = end + 1;
            builder.add_borrowed_as(meaning, name, |_| Value::String(Cow::Borrowed(text)));
            return Some(true);
        }
        match whole(self.bytes, self.at) {
            Some((number, end)) => {
                self.at = end;
                builder.add_borrowed_as(meaning, name, |_| Value::Int64(number));
                Some(true)
            }
            None => Some(false),
        }
    }

    /// Reads and adds a value of any kind.
    fn member(&mut self, builder: &mut RecordBuilder<'a>, name: Cow<'a, str>, depth: usize) -> Option<()> {
        let start = self.at;
        let value = match *self.bytes.get(start)? {
            b'"' => {
                self.at = string_end(self.bytes, start + 1)?;
                Value::String(unquote(self.line.get(start..self.at)?))
            }
            b'-' | b'0'..=b'9' => {
                self.number()?;
                json::number(self.line.get(start..self.at)?)
            }
            b't' => self.word("true").map(|()| Value::Boolean(true))?,
            b'f' => self.word("false").map(|()| Value::Boolean(false))?,
            b'n' => return self.word("null"),
            b'{' if depth < DEPTH_MAX && name.len() <= PREFIX_BYTES_MAX => {
                if self.object(builder, &name, depth + 1)? > 0 {
                    return Some(());
                }
                // An empty object has no members to become fields.
                Value::String(Cow::Borrowed(self.line.get(start..self.at)?))
            }
            _ => Value::String(with_fewest_escapes(self.cut()?)),
        };
        builder.add(name, value);
        Some(())
    }

    /// A name at depth 0 with its colon, and the role of the name.
    #[inline(always)]
    fn name_at(&mut self, place: usize) -> Option<(&'a str, Option<(Role, u8)>)> {
        if let Some((length, meaning)) = self.cache.name_at(place, self.bytes.get(self.at..)?) {
            let name = self.line.get(self.at + 1..self.at + length - 2)?;
            self.at += length;
            return Some((name, meaning));
        }
        let name = self.name()?;
        let meaning = role_of(name);
        self.cache.note(place, name, meaning);
        Some((name, meaning))
    }

    /// A name without escapes, and its colon.
    fn name(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let (start, end) = (self.at, special(self.bytes, self.at));
        self.at = end;
        self.take(b'"')?;
        self.skip_space();
        self.take(b':')?;
        self.line.get(start..end)
    }

    /// A number in JSON's grammar.
    fn number(&mut self) -> Option<()> {
        let _sign = self.take(b'-');
        if self.take(b'0').is_none() {
            self.digits()?;
        }
        if self.take(b'.').is_some() {
            self.digits()?;
        }
        if self.take(b'e').or_else(|| self.take(b'E')).is_some() {
            let _sign = self.take(b'+').or_else(|| self.take(b'-'));
            self.digits()?;
        }
        Some(())
    }

    /// Digits, at least one.
    fn digits(&mut self) -> Option<()> {
        let length = self.bytes.get(self.at..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += length;
        (length > 0).then_some(())
    }

    #[inline]
    fn word(&mut self, word: &str) -> Option<()> {
        let ends = self.bytes.get(self.at..)?.starts_with(word.as_bytes());
        self.at += word.len();
        ends.then_some(())
    }

    /// An array or an object as written; serde_json finds its end.
    #[cold]
    fn cut(&mut self) -> Option<&'a str> {
        let mut values = serde_json::Deserializer::from_str(self.line.get(self.at..)?).into_iter::<&RawValue>();
        let written = values.next()?.ok()?.get();
        self.at += values.byte_offset();
        Some(written)
    }

    #[inline]
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.bytes.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }
}

/// The place after the closing quote of the string that contains `at`; `None` for an escape that JSON does not have.
pub(crate) fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = special(bytes, at);
        match bytes.get(at..)? {
            [b'"', ..] => return Some(at + 1),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => at += 2,
            [b'\\', b'u', a, b, c, d, ..] if [a, b, c, d].into_iter().all(u8::is_ascii_hexdigit) => at += 6,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks the claim of this module for one line.
    fn check(line: &str) -> Result<(), TestCaseError> {
        if let Some(record) = read(line, &TimestampDefaults::default()) {
            prop_assert_eq!(Some(record), json::judged(line, &TimestampDefaults::default()), "{}", line);
        }
        Ok(())
    }

    const LINE: &str = concat!(
        r#"{"time":"2026-11-20T00:00:00.054356Z", "level" : "INFO","message":"a \"b\"\n\u00e9/","status":200,"#,
        r#""took":-1.5e3,"ok":true,"no":false,"none":null,"path":"C:\\x","many":123456789012345678901,"#,
        r#""http":{"é":1,"request":{"id":"x"},"none":{ }},"list":[1,{"a":"]"}],"empty":""}"#,
    );

    /// A value as a program may write it, with inner objects and arrays.
    fn values() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            any::<String>().prop_map(|text| serde_json::to_string(&text).expect("a string")),
            "\"[a-z \\\\\"/u0-9d]{0,12}\"",
            "-?[0-9]{1,21}",
            "-?[0-9]{1,3}(\\.[0-9]{0,3})?([eE][-+]?[0-9]{0,3})?",
            "true|false|null|nul|True",
        ];
        scalar.prop_recursive(4, 24, 4, |inner| {
            let member = ("[a-z.]{0,6}", "[ \t\r\n]{0,2}", inner.clone())
                .prop_map(|(name, space, value)| format!("\"{name}\"{space}:{space}{value}{space}"));
            prop_oneof![
                proptest::collection::vec(inner, 0..4).prop_map(|values| format!("[{}]", values.join(","))),
                proptest::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    #[test]
    fn common_lines_take_the_fast_path() {
        for line in ["{}", " { } ", r#"{"a":1}"#, "\t{ \"a\" : \"\" }\r\n", r#"{"a":{"b":{}},"c":[[]]}"#, LINE] {
            assert!(
                read(line, &TimestampDefaults::default()).is_some()
                    && read(line, &TimestampDefaults::default()) == json::judged(line, &TimestampDefaults::default()),
                "{line}"
            );
        }
    }

    #[test]
    fn other_lines_are_left_to_serde_json() {
        for line in [
            "",
            "{",
            "[]",
            "{}x",
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":-}"#,
            r#"{"a":1.}"#,
            r#"{"a":1e}"#,
            r#"{"a":truth}"#,
            r#"{"\u0061":1}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u00g0"}"#,
            r#"{"a":"\"#,
            r#"{"a":[1}"#,
            "{\"a\":\"\t\"}",
            "\u{c}{}",
        ] {
            assert_eq!(read(line, &TimestampDefaults::default()), None, "{line}");
        }
    }

    #[test]
    fn depth_and_name_limits_agree_with_the_slow_path() {
        for depth in [DEPTH_MAX, DEPTH_MAX + 1, DEPTH_MAX + 3, 1000] {
            let line = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
            assert!(
                read(&line, &TimestampDefaults::default()).is_some()
                    && read(&line, &TimestampDefaults::default()) == json::judged(&line, &TimestampDefaults::default()),
                "{depth}"
            );
        }
        for length in [PREFIX_BYTES_MAX, PREFIX_BYTES_MAX + 1] {
            let line = format!("{{\"{}\":{{\"a\":1}}}}", "n".repeat(length));
            assert!(
                read(&line, &TimestampDefaults::default()).is_some()
                    && read(&line, &TimestampDefaults::default()) == json::judged(&line, &TimestampDefaults::default()),
                "{length}"
            );
        }
    }

    proptest! {
        /// On any text that begins like an object, the fast path agrees with the slow path or gives up.
        #[test]
        fn agrees_on_any_text(line in "[ ]?\\{\"?.*") {
            check(&line)?;
        }

        /// The same for objects and near misses.
        #[test]
        fn agrees_on_objects(values in proptest::collection::vec(("[a-z@]{0,5}|time|msg|level", values()), 0..6)) {
            let members: Vec<_> = values.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            check(&format!("{{{}}}", members.join(",")))?;
        }

        /// The same for a line in which some bytes were changed or lost.
        #[test]
        fn agrees_on_broken_lines(
            faults in proptest::collection::vec((0..LINE.len(), prop::option::of(0u8..128), any::<bool>()), 1..4),
        ) {
            let mut bytes = LINE.as_bytes().to_vec();
            for (at, byte, from_the_line) in faults {
                let at = at.min(bytes.len() - 1);
                match byte {
                    Some(byte) if from_the_line => bytes[at] = bytes[usize::from(byte).min(bytes.len() - 1)],
                    Some(byte) => bytes[at] = byte,
                    None => drop(bytes.remove(at)),
                }
            }
            check(&String::from_utf8_lossy(&bytes))?;
        }
    }
}
