//! Splits bytes into lines of text at newlines, without the carriage return before a newline.
//!
//! UTF-8 is checked once for a whole chunk; only if that fails, line by line. Only lines with invalid UTF-8 are copied.
//! A NUL is an ordinary character.

use super::json::rest::{ObjectRest, RestScanner};
use super::timestamp::FullTime;
use memchr::memchr;
use std::borrow::Cow;

/// What a limit cut off a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCut {
    /// How many bytes.
    pub bytes: usize,
    /// What an object has among these bytes.
    pub(crate) rest: Option<ObjectRest>,
}

/// One line of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// Offset of its first byte in the chunk.
    pub(super) start: usize,
    /// Offset of its newline, or the end of the chunk.
    pub(super) end: usize,
    /// Its text up to the limit, without the end of line. Never empty.
    pub(super) text: Cow<'a, str>,
    /// The full time at its start, if it was read already.
    pub(super) full_time: FullTime,
    /// What the limit cut off.
    pub(super) cut: Option<Box<LineCut>>,
    /// Whether some bytes were not UTF-8.
    pub(super) is_invalid: bool,
}

/// The lines of a chunk without empty lines. The text after the last newline is a line too.
pub(crate) struct Lines<'a> {
    bytes: &'a [u8],
    text: Option<&'a str>,
    at: usize,
    limit: usize,
    /// Whether the chunk is the beginning of a file or a body.
    is_beginning: bool,
}

/// The mark that some programs write at the start of a UTF-8 file. It does not belong to the first line.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

impl<'a> Lines<'a> {
    /// Reads a chunk that begins at the start of a line. Lines are cut at `limit` bytes.
    pub(super) fn new(bytes: &'a [u8], limit: usize) -> Lines<'a> {
        Lines { bytes, text: std::str::from_utf8(bytes).ok(), at: 0, limit, is_beginning: false }
    }

    /// Declares the chunk the beginning of a file or a body, and skips a byte order mark.
    pub(super) fn begin(&mut self) {
        self.is_beginning = true;
    }

    /// Moves to the start of another line.
    pub(super) fn go_to(&mut self, start: usize) {
        self.at = start;
    }

    /// Moves over empty lines, also over one that has no newline at the end of the chunk.
    pub(super) fn skip_empty(&mut self) {
        while let Some(length) = match self.bytes.get(self.at..) {
            Some([b'\n', ..] | [b'\r']) => Some(1),
            Some([b'\r', b'\n', ..]) => Some(2),
            _ => None,
        } {
            self.at += length;
        }
    }

    /// The next line, if it begins and ends as an object, is text up to its newline, and no empty line follows.
    #[inline]
    pub(super) fn whole_object(&self) -> Option<&'a str> {
        let rest = self.bytes.get(self.at..)?;
        if rest.first() != Some(&b'{') {
            return None;
        }
        let length = memchr(b'\n', rest)?;
        let ends_well = rest[length - 1] == b'}' && !matches!(rest.get(length + 1), Some(b'\n' | b'\r'));
        let line = self.text?.get(self.at..self.at + length)?;
        (ends_well && length <= self.limit).then_some(line)
    }

    /// The place where the next line begins.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The bytes of the chunk.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The chunk as text, if it is valid UTF-8.
    pub(super) fn text(&self) -> Option<&'a str> {
        self.text
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        loop {
            let start = self.at;
            let rest = &self.bytes[start..];
            if rest.is_empty() {
                return None;
            }
            let newline = memchr(b'\n', rest);
            let length = newline.unwrap_or(rest.len());
            let end = start + length;
            self.at = end + usize::from(newline.is_some());
            let length = if rest[..length].ends_with(b"\r") { length - 1 } else { length };
            if length > 0 {
                let whole = self.text.map(|text| &text[start..start + length]);
                let mut line = Line { end, ..line(start, &rest[..length], whole, self.limit) };
                if self.is_beginning && start == 0 {
                    without_mark(&mut line.text);
                }
                return Some(line);
            }
        }
    }
}

/// Removes a byte order mark from the front of a text.
pub(super) fn without_mark(text: &mut Cow<'_, str>) {
    match text {
        Cow::Borrowed(text) => *text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text),
        Cow::Owned(text) if text.starts_with(BYTE_ORDER_MARK) => _ = text.remove(0),
        Cow::Owned(_) => {}
    }
}

/// The line with these bytes; `cut` further bytes were not read, in which an object had `rest`.
pub(super) fn cut_line(bytes: &[u8], limit: usize, cut: usize, rest: Option<ObjectRest>) -> Line<'_> {
    let line = line(0, bytes, std::str::from_utf8(bytes).ok(), limit);
    let bytes = cut + line.cut.as_ref().map_or(0, |cut| cut.bytes);
    Line { cut: (bytes > 0).then(|| Box::new(LineCut { bytes, rest })), ..line }
}

#[inline]
fn line<'a>(start: usize, bytes: &'a [u8], text: Option<&'a str>, limit: usize) -> Line<'a> {
    let kept = char_boundary(bytes, limit);
    let text = match text {
        Some(text) => Cow::Borrowed(&text[..kept]),
        None => String::from_utf8_lossy(&bytes[..kept]),
    };
    let is_invalid = matches!(text, Cow::Owned(_));
    let cut_off = || Box::new(LineCut { bytes: bytes.len() - kept, rest: rest_of(bytes, kept) });
    let cut = (kept < bytes.len()).then(cut_off);
    Line { start, end: start + bytes.len(), text, full_time: FullTime::default(), cut, is_invalid }
}

/// What the object in a line has behind its first `kept` bytes.
pub(crate) fn rest_of(line: &[u8], kept: usize) -> Option<ObjectRest> {
    let mut scanner = RestScanner::default();
    scanner.scan(&line[..kept]);
    scanner.cut();
    scanner.scan(&line[kept..]);
    scanner.finish()
}

/// The last character boundary at or before `limit`.
fn char_boundary(bytes: &[u8], limit: usize) -> usize {
    if bytes.len() <= limit {
        return bytes.len();
    }
    let continues = |at: &usize| bytes[*at] & 0xc0 == 0x80;
    // A character has at most three continuation bytes; a longer run is not UTF-8 and may be cut anywhere.
    (limit.saturating_sub(3)..=limit).rev().find(|at| !continues(at)).unwrap_or(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_their_ends() {
        for (bytes, expected) in [
            (&b"a\nb\n"[..], &["a", "b"][..]),
            (b"a\r\nb\r\r\n", &["a", "b\r"]),
            (b"\n\r\n\na", &["a"]),
            (b"a\0b\n", &["a\0b"]),
            (b"a\xffb\nc\xc3\xa4\n", &["a\u{fffd}b", "c\u{e4}"]),
            (b"123456789\n", &["12345678"]),
            ("1234567\u{e4}\n".as_bytes(), &["1234567"]),
            (b"", &[]),
        ] {
            let lines: Vec<_> = Lines::new(bytes, 8).map(|line| line.text.into_owned()).collect();
            assert_eq!(lines, expected, "{bytes:?}");
        }
    }

    #[test]
    fn cut_bytes_are_counted() {
        let bytes_of = |line: &Line<'_>| line.cut.as_ref().map_or(0, |cut| cut.bytes);
        let line = Lines::new("1234567\u{e4}9\n".as_bytes(), 8).next().expect("a line");
        assert_eq!((&*line.text, bytes_of(&line), line.is_invalid), ("1234567", 3, false));
        let line = cut_line(b"123456789", 8, 100, None);
        assert_eq!((&*line.text, bytes_of(&line)), ("12345678", 101));
    }

    proptest! {
        /// Chunks cut at any newline give the lines of the whole, with the same starts.
        #[test]
        fn chunks_do_not_matter(bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..60),
                                cut in 0usize..60) {
            let whole: Vec<_> = Lines::new(&bytes, 8).collect();
            let cut = memchr::memrchr(b'\n', &bytes[..cut.min(bytes.len())]).map_or(0, |at| at + 1);
            let parts: Vec<_> = Lines::new(&bytes[..cut], 8)
                .chain(Lines::new(&bytes[cut..], 8).map(|line| Line { start: line.start + cut, end: line.end + cut, ..line }))
                .collect();
            prop_assert_eq!(&whole, &parts);
            for line in whole {
                prop_assert!(line.text.len() <= 8 * 3 && !line.text.is_empty() || line.cut.is_some());
                prop_assert!(line.start == 0 || bytes[line.start - 1] == b'\n');
            }
        }
    }
}
