//! A scanner that takes a line apart from left to right, for the parsers of structured formats.
//!
//! Each method either consumes the part it is named after, or returns `None`. Methods copy nothing, and read no byte
//! beyond the part and the byte that ends it.

use super::pairs::{self, skip_spaces};
use super::scan;
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use memchr::{memchr, memchr2};
use std::borrow::Cow;

/// The unread rest of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineScanner<'a> {
    pub(super) rest: &'a str,
}

impl<'a> LineScanner<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        LineScanner { rest: line }
    }

    /// A record whose message is the rest of the line.
    pub(super) fn into_record(self, time: Ticks, level: Level, fields: Vec<Field<'a>>) -> Record<'a> {
        let message = Cow::Borrowed(self.rest);
        Record { time: Some(time), level: Some(level), message, fields, ..Record::default() }
    }

    /// The next `length` bytes.
    #[inline]
    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a str> {
        let (piece, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(piece)
    }

    /// The ASCII character `byte`.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) -> Option<()> {
        (self.rest.as_bytes().first() == Some(&byte)).then_some(())?;
        self.bytes(1).map(|_| ())
    }

    /// The characters `text`.
    #[inline]
    pub(super) fn text(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// The text before the next `byte`; consumes `byte` too.
    #[inline]
    pub(super) fn until(&mut self, byte: u8) -> Option<&'a str> {
        let piece = self.bytes(memchr(byte, self.rest.as_bytes())?)?;
        self.byte(byte)?;
        Some(piece)
    }

    /// The text before the next space or tab, or before the end; may be empty.
    #[inline]
    pub(super) fn word(&mut self) -> &'a str {
        let end = scan::space(self.rest.as_bytes(), 0);
        self.bytes(end).unwrap_or_default()
    }

    /// Any number of spaces and tabs.
    #[inline]
    pub(super) fn spaces(&mut self) {
        self.rest = self.rest.get(skip_spaces(self.rest.as_bytes(), 0)..).unwrap_or_default();
    }

    /// A whole number without a sign, of at most 18 digits; leading zeros are allowed.
    #[inline]
    pub(super) fn number(&mut self) -> Option<i64> {
        let length = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=pairs::DIGITS_MAX).contains(&length) {
            return None;
        }
        self.bytes(length)?.parse().ok()
    }

    /// The text between a double quote and the next quote without a backslash before it, as written.
    pub(super) fn quoted(&mut self) -> Option<&'a str> {
        let bytes = self.rest.as_bytes();
        if bytes.first() != Some(&b'"') {
            return None;
        }
        let mut at = 1;
        loop {
            at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
            if bytes.get(at) == Some(&b'"') {
                break;
            }
            at += 2;
        }
        self.bytes(at + 1)?.get(1..at)
    }
}

/// A text field.
#[inline]
pub(super) fn text<'a>(name: &'a str, text: &'a str) -> Field<'a> {
    Field { name: Cow::Borrowed(name), value: Value::String(Cow::Borrowed(text)) }
}

/// A field with a whole number.
#[inline]
pub(super) fn number(name: &str, number: i64) -> Field<'_> {
    Field { name: Cow::Borrowed(name), value: Value::Int64(number) }
}

/// A field typed by its form.
#[inline]
pub(super) fn typed<'a>(name: &'a str, text: &'a str) -> Field<'a> {
    Field { name: Cow::Borrowed(name), value: pairs::typed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_of_a_line() {
        let mut cut = LineScanner::new(r#"[a b]  word 007 "say \"hi\"" é"#);
        assert_eq!(cut.byte(b'['), Some(()));
        assert_eq!(cut.until(b']'), Some("a b"));
        cut.spaces();
        assert_eq!(cut.word(), "word");
        assert_eq!(cut.number(), None);
        assert_eq!((cut.byte(b' '), cut.number()), (Some(()), Some(7)));
        assert_eq!((cut.text(" "), cut.quoted()), (Some(()), Some(r#"say \"hi\""#)));
        assert_eq!((cut.until(b'x'), cut.bytes(2), cut.rest), (None, None, " é"));
    }

    #[test]
    fn an_unclosed_quote_is_rejected() {
        for text in ["", "\"", "\"a", "\"a\\\"", "\"\\", "a\"b\"", "\"\\é"] {
            let mut cut = LineScanner::new(text);
            assert_eq!((cut.quoted(), cut.rest), (None, text));
        }
    }

    proptest! {
        /// The consumed parts and the rest make up the line.
        #[test]
        fn the_parts_and_the_rest_give_the_line(line in "[a-z0-9 \\]\"\\\\é]{0,24}", steps in proptest::collection::vec(0u8..6, 0..8)) {
            let mut cut = LineScanner::new(&line);
            for step in steps {
                let before = cut.rest;
                let taken = match step {
                    0 => cut.until(b']').map(|piece| piece.len() + 1),
                    1 => Some(cut.word().len()),
                    2 => cut.number().and(None),
                    3 => cut.quoted().map(|piece| piece.len() + 2),
                    4 => cut.byte(b'"').map(|()| 1),
                    _ => cut.bytes(3).map(str::len),
                };
                prop_assert!(before.ends_with(cut.rest));
                if let Some(taken) = taken {
                    prop_assert_eq!(before.len() - cut.rest.len(), taken);
                }
            }
        }
    }
}
