//! `key=value` pairs in logfmt's syntax, and values typed by their form.
//!
//! A key is `[A-Za-z_@][A-Za-z0-9_.@/-]*`. A bare value ends at the next space or tab; it may be empty and may contain
//! `=`. A quoted value stands in double quotes, with JSON's escapes, or in single quotes as it is written. A bare value gets a type only if the typed value
//! prints as the same text, so `007`, `1.50` and `1e3` stay text. A value in quotes is always text.

use super::scan;
use daytable_model::digits;
use daytable_model::record::Value;
use memchr::{memchr, memchr2};
use std::borrow::Cow;

/// Digits that an f64 always reproduces.
const DOUBLE_DIGITS: usize = 15;

/// Digits that always fit an i64.
pub(super) const DIGITS_MAX: usize = 18;

/// The bytes that may follow the first byte of a key: a table, because each byte of a key is looked up.
const IN_KEY: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        let more = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'@' | b'/' | b'-');
        table[byte as usize] = more;
        byte += 1;
    }
    table
};

/// A value as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PairValue<'a> {
    Bare(&'a str),
    /// With its quotes.
    Quoted(&'a str),
}

impl<'a> PairValue<'a> {
    /// The value as text.
    pub(super) fn text(self) -> Cow<'a, str> {
        match self {
            PairValue::Bare(text) => Cow::Borrowed(text),
            PairValue::Quoted(quoted) => unquote(quoted),
        }
    }

    /// The value, typed by its form.
    #[inline(always)]
    pub(super) fn value(self) -> Value<'a> {
        match self {
            PairValue::Bare(text) => typed(text),
            PairValue::Quoted(quoted) => Value::String(unquote(quoted)),
        }
    }
}

/// A pair at some place of a line.
pub(super) struct KeyValue<'a> {
    pub(super) key: &'a str,
    pub(super) value: PairValue<'a>,
    /// The place after it.
    pub(super) end: usize,
}

impl<'a> KeyValue<'a> {
    /// The value, typed by its form. `line` is the line of the pair.
    #[inline(always)]
    pub(super) fn value_in(&self, line: &'a str) -> Value<'a> {
        if let PairValue::Bare(text) = self.value
            && let Some((number, length)) = digits::leading(&line.as_bytes()[self.end - text.len()..])
            && length == text.len()
            && (length == 1 || !text.is_empty() && !text.starts_with('0'))
        {
            return Value::Int64(number.cast_signed());
        }
        self.value.value()
    }
}

/// The pair that begins at `at` and ends before a space, a tab or the end of the line.
#[inline(always)]
pub(super) fn pair_at(line: &str, at: usize) -> Option<KeyValue<'_>> {
    let bytes = line.as_bytes();
    let equals = key_end(bytes, at)?;
    if bytes.get(equals) != Some(&b'=') {
        return None;
    }
    let start = equals + 1;
    let (end, quoted) = match bytes.get(start) {
        Some(b'"') => (quoted_end(bytes, start)?, true),
        Some(b'\'') if let Some(end) = single_quoted_end(bytes, start) => (end, true),
        _ => (scan::space(bytes, start), false),
    };
    if quoted && !bytes.get(end).is_none_or(|byte| is_space(*byte)) {
        return None;
    }
    let value = line.get(start..end)?;
    let value = if quoted { PairValue::Quoted(value) } else { PairValue::Bare(value) };
    Some(KeyValue { key: line.get(at..equals)?, value, end })
}

/// The end of the key that begins at `at`, if one does.
#[inline]
pub(super) fn key_end(bytes: &[u8], at: usize) -> Option<usize> {
    let (first, rest) = bytes.get(at..)?.split_first()?;
    if !matches!(first, b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'@') {
        return None;
    }
    Some(at + 1 + rest.iter().position(|byte| !IN_KEY[usize::from(*byte)]).unwrap_or(rest.len()))
}

/// The next place from `at` on that is not a space.
#[inline]
pub(super) fn skip_spaces(bytes: &[u8], at: usize) -> usize {
    let mut at = at;
    while bytes.get(at).is_some_and(|byte| is_space(*byte)) {
        at += 1;
    }
    at
}

#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The text in double quotes that begins at `at`, with its quotes.
pub(super) fn quoted_at(text: &str, at: usize) -> Option<&str> {
    text.get(at..quoted_end(text.as_bytes(), at)?)
}

/// The place after the single quote that closes the one at `start`: a space or the end follows. A quote that nothing
/// closes is a letter of a bare value.
#[cold]
fn single_quoted_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = bytes.get(start + 1..)?;
    let ends = |at: &usize| rest.get(at + 1).is_none_or(|byte| is_space(*byte));
    memchr::memchr_iter(b'\'', rest).find(ends).map(|at| start + at + 2)
}

/// The place after the quote that closes the one at `start`.
fn quoted_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// The meaning of a string in double quotes. A string that JSON would refuse (`"C:\Users"`, half a surrogate pair) is
/// taken as written, without its quotes.
#[inline]
pub(super) fn unquote(quoted: &str) -> Cow<'_, str> {
    let written = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or(quoted);
    if memchr(b'\\', written.as_bytes()).is_none() {
        return Cow::Borrowed(written);
    }
    serde_json::from_str::<String>(quoted).map_or(Cow::Borrowed(written), Cow::Owned)
}

/// A bare value, typed by its form: only a value that prints as written is more than text.
#[inline(always)]
pub(super) fn typed(text: &str) -> Value<'_> {
    match text.as_bytes() {
        bytes @ ([b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..]) => match whole(bytes, 0) {
            // An integer cannot reproduce the sign of a negative zero.
            Some((number, end)) if end == bytes.len() && (number != 0 || end == 1) => Value::Int64(number),
            _ => number(text).unwrap_or(Value::String(Cow::Borrowed(text))),
        },
        b"true" => Value::Boolean(true),
        b"false" => Value::Boolean(false),
        _ => Value::String(Cow::Borrowed(text)),
    }
}

/// The whole number that begins at `at` and the place after it; `None` if it may not fit an i64.
#[inline]
pub(super) fn whole(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(negative);
    let (mut number, mut end) = (0i64, start);
    if let Some((leading, length)) = digits::leading(bytes.get(start..)?) {
        (number, end) = (leading.cast_signed(), start + length);
    }
    while let Some(byte @ b'0'..=b'9') = bytes.get(end) {
        if end - start == DIGITS_MAX {
            return None;
        }
        number = number * 10 + i64::from(byte - b'0');
        end += 1;
    }
    let is_whole = match bytes.get(start..)? {
        [b'0', ..] => end == start + 1,
        _ => end > start,
    };
    if !is_whole || matches!(bytes.get(end), Some(b'.' | b'e' | b'E')) {
        return None;
    }
    Some((if negative { -number } else { number }, end))
}

fn number(text: &str) -> Option<Value<'_>> {
    let unsigned = match text.as_bytes() {
        [b'-', unsigned @ ..] => unsigned,
        unsigned => unsigned,
    };
    let whole = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if unsigned[0] == b'0' && whole > 1 {
        return None;
    }
    match unsigned.get(whole..)? {
        // A negative zero.
        [] if unsigned[0] == b'0' && text.len() > 1 => None,
        [] => text.parse().ok().map(Value::Int64),
        [b'.', fraction @ ..] => {
            let zeros = fraction.iter().take_while(|byte| **byte == b'0').count();
            let ends_well = match fraction {
                [] => false,
                [_] => true,
                [.., last] => *last != b'0',
            };
            // Smaller numbers print with an exponent.
            let not_tiny = unsigned[0] != b'0' || zeros < 4;
            if !ends_well || !not_tiny || whole + fraction.len() > DOUBLE_DIGITS {
                return None;
            }
            fraction.iter().all(u8::is_ascii_digit).then(|| text.parse().ok().map(Value::Double))?
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_typed_by_their_form() {
        for (text, value) in [
            ("0", Value::Int64(0)),
            ("-7", Value::Int64(-7)),
            ("9223372036854775807", Value::Int64(i64::MAX)),
            ("-9223372036854775808", Value::Int64(i64::MIN)),
            ("1.5", Value::Double(1.5)),
            ("-0.25", Value::Double(-0.25)),
            ("1.0", Value::Double(1.0)),
            ("0.0005", Value::Double(0.0005)),
            ("true", Value::Boolean(true)),
            ("false", Value::Boolean(false)),
        ] {
            assert_eq!(typed(text), value, "{text}");
        }
        for text in [
            "",
            "-",
            "-0",
            "+1",
            "007",
            "1.50",
            "1.",
            ".5",
            "1e3",
            "1.5e3",
            "0x1f",
            "NaN",
            "inf",
            "True",
            "10.0.75.70",
            "9223372036854775808",
            "0.00001",
            "0.1234567890123456",
            "118ms",
            "1_000",
            "1.5x",
            "00.5",
        ] {
            assert_eq!(typed(text), Value::String(text.into()), "{text}");
        }
    }

    #[test]
    fn pairs_bare_and_quoted() {
        for (line, key, value) in [
            ("a=1", "a", "1"),
            ("a=", "a", ""),
            ("a= b", "a", ""),
            ("a=b=c d", "a", "b=c"),
            ("@x/y.z-1=b\td", "@x/y.z-1", "b"),
            (r#"a="b c" d"#, "a", "b c"),
            (r#"a="""#, "a", ""),
            (r#"a="say \"hi\" \\ \u00e9""#, "a", r#"say "hi" \ é"#),
            (r#"a="C:\Users""#, "a", r"C:\Users"),
            (r#"a=b"c"#, "a", "b\"c"),
            ("a='op=login x=\"y\"' d=1", "a", "op=login x=\"y\""),
            ("a='b c=d", "a", "'b"),
        ] {
            let pair = pair_at(line, 0).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((pair.key, &*pair.value.text()), (key, value), "{line}");
        }
        for line in ["", "a", "=b", "1a=b", "a b=c", "é=1", r#"a="b"#, r#"a="b\""#, r#"a="b"c"#, r#"a=""#, "a=\"\\"] {
            assert!(pair_at(line, 0).is_none(), "{line}");
        }
    }

    #[test]
    fn a_quoted_number_is_text() {
        let pair = pair_at("a=\"1\"", 0).expect("a pair");
        assert_eq!(pair.value.value(), Value::String("1".into()));
    }

    proptest! {
        /// A typed value prints as its text, in Rust and in JSON.
        #[test]
        fn typed_values_print_as_they_were_written(text in "-?[0-9]{1,20}(\\.[0-9]{0,16})?") {
            match typed(&text) {
                Value::String(kept) => prop_assert_eq!(&*kept, &*text),
                Value::Int64(number) => prop_assert_eq!(number.to_string(), text),
                Value::Double(number) => {
                    prop_assert_eq!(format!("{number:?}"), text.clone());
                    prop_assert_eq!(serde_json::to_string(&number).expect("a number"), text);
                }
                Value::Boolean(_) | Value::Binary(_) => prop_assert!(false, "no number is that"),
            }
        }

        /// Text quoted as in JSON comes back unchanged.
        #[test]
        fn quoted_text_comes_back(text in any::<String>()) {
            let line = format!("key={} next", serde_json::to_string(&text).expect("a string"));
            let pair = pair_at(&line, 0).expect("a pair");
            prop_assert_eq!(pair.value.text(), text);
            prop_assert_eq!(&line[pair.end..], " next");
        }
    }
}
