//! Splits a CSV record into its values.
//!
//! A value in double quotes may contain the separator, newlines, and doubled quotes. In a value that does not begin
//! with a quote, quotes are ordinary characters.

use memchr::memchr;
use std::borrow::Cow;

/// A value as written, without its surrounding quotes.
#[derive(Clone, Copy)]
pub(super) struct Cell<'a> {
    pub(super) written: &'a str,
    pub(super) is_quoted: bool,
    /// Whether it contains doubled quotes.
    has_quotes: bool,
}

impl<'a> Cell<'a> {
    /// The value with doubled quotes replaced.
    pub(super) fn text(&self) -> Cow<'a, str> {
        if self.has_quotes { Cow::Owned(self.written.replace("\"\"", "\"")) } else { Cow::Borrowed(self.written) }
    }
}

/// The values of a record, in order.
pub(super) struct CsvFields<'a> {
    /// `None` after the last value.
    rest: Option<&'a str>,
    separator: u8,
    /// Whether the last value has an unclosed quote.
    pub(super) is_open: bool,
    /// Whether text follows a closing quote.
    pub(super) is_broken: bool,
}

impl<'a> CsvFields<'a> {
    pub(super) fn new(text: &'a str, separator: u8) -> Self {
        CsvFields { rest: Some(text), separator, is_open: false, is_broken: false }
    }

    fn bare(&mut self, text: &'a str) -> Cell<'a> {
        let end = memchr(self.separator, text.as_bytes());
        let written = end.and_then(|end| text.get(..end)).unwrap_or(text);
        self.rest = end.and_then(|end| text.get(end + 1..));
        Cell { written, is_quoted: false, has_quotes: false }
    }

    fn quoted(&mut self, text: &'a str) -> Cell<'a> {
        let bytes = text.as_bytes();
        let (mut at, mut has_quotes) = (0, false);
        let end = loop {
            match bytes.get(at..).and_then(|rest| memchr(b'"', rest)) {
                Some(quote) if bytes.get(at + quote + 1) == Some(&b'"') => {
                    has_quotes = true;
                    at += quote + 2;
                }
                Some(quote) => break at + quote,
                None => {
                    self.is_open = true;
                    break text.len();
                }
            }
        };
        let after = text.get(end + 1..).unwrap_or_default();
        self.rest = match after.as_bytes().first() {
            Some(byte) if *byte == self.separator => after.get(1..),
            Some(_) => {
                self.is_broken = true;
                None
            }
            None => None,
        };
        Cell { written: text.get(..end).unwrap_or(text), is_quoted: true, has_quotes }
    }
}

impl<'a> Iterator for CsvFields<'a> {
    type Item = Cell<'a>;

    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let text = self.rest.take()?;
        Some(match text.strip_prefix('"') {
            Some(inner) => self.quoted(inner),
            None => self.bare(text),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_and_separators() {
        for (text, values, is_open, is_broken) in [
            ("", &[""][..], false, false),
            ("a,,b", &["a", "", "b"], false, false),
            (",", &["", ""], false, false),
            ("\"a,b\",\"c \"\"d\"\"\",\"\"", &["a,b", "c \"d\"", ""], false, false),
            ("a\"b,c", &["a\"b", "c"], false, false),
            ("\"a\nb", &["a\nb"], true, false),
            ("\"a\"b,c", &["a"], false, true),
            ("\"a\"\"", &["a\""], true, false),
        ] {
            let mut cells = CsvFields::new(text, b',');
            let found: Vec<_> = cells.by_ref().map(|cell| cell.text()).collect();
            assert_eq!(
                (found.as_slice(), cells.is_open, cells.is_broken),
                (&values.iter().map(|v| Cow::Borrowed(*v)).collect::<Vec<_>>()[..], is_open, is_broken),
                "{text}"
            );
        }
    }

    proptest! {
        /// Values without quotes come back as written.
        #[test]
        fn bare_values_come_back(values in proptest::collection::vec("[^\",]{0,8}", 1..8)) {
            let text = values.join(",");
            let found: Vec<_> = CsvFields::new(&text, b',').map(|cell| cell.text().into_owned()).collect();
            prop_assert_eq!(found, values);
        }
    }
}
