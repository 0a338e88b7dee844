//! A record as it lies in its source, before it is parsed.

use super::envelope::Envelope;
use super::lines::{LineCut, rest_of, without_mark};
use super::redact::Redactor;
use super::timestamp::FullTime;
use std::borrow::Cow;

/// A record as it lies in a chunk, before parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Offset of the first byte in the chunk.
    pub start: usize,
    /// The lines without envelopes, joined with `\n`. Borrowed if the chunk has the same bytes.
    pub text: Cow<'a, str>,
    /// The envelope of the first line.
    pub envelope: Envelope<'a>,
    /// Number of lines, without empty ones.
    pub lines: u32,
    /// The full time at its start, if the joining of lines read it.
    pub(crate) full_time: FullTime,
    /// What the limit cut off. In a box, because most records are whole.
    pub cut: Option<Box<LineCut>>,
    /// Whether its last line had no end when the record was closed.
    pub is_unended: bool,
    /// Whether some bytes were not UTF-8; U+FFFD replaces them.
    pub is_invalid: bool,
    /// The bytes of the chunk between the record before and this one: empty lines.
    pub before: &'a [u8],
    /// The bytes of the record in the chunk, with the end of its last line and the empty lines after it. Empty for a
    /// line over the limit.
    pub written: &'a [u8],
    /// Whether the lines of several records come by turns. The first of these records has the bytes of all, and the
    /// others have none.
    pub is_mixed: bool,
}

/// Larger values are moved by a call, and a record is moved several times.
const _: () = assert!(size_of::<RawRecord<'_>>() <= 128);

impl<'a> RawRecord<'a> {
    /// A message that came by itself, without an end of line. `text` is its bytes as text.
    pub fn of_message(text: Cow<'a, str>, bytes: &'a [u8]) -> RawRecord<'a> {
        let is_invalid = matches!(text, Cow::Owned(_));
        RawRecord {
            start: 0,
            text,
            envelope: Envelope::default(),
            lines: 1,
            full_time: FullTime::default(),
            cut: None,
            is_unended: false,
            is_invalid,
            before: &[],
            // What is valid is its own bytes.
            written: if is_invalid { bytes } else { &[] },
            is_mixed: false,
        }
    }

    /// The first `bytes_max` bytes of a message that may be longer.
    pub fn of_long_message(text: &'a str, bytes_max: usize, redactor: Option<&Redactor>) -> RawRecord<'a> {
        let kept = text.floor_char_boundary(bytes_max);
        if kept == text.len() {
            return RawRecord::of_message(Cow::Borrowed(text), &[]);
        }
        let rest = rest_of(text.as_bytes(), kept);
        let kept = redactor.map_or(kept, |redactor| redactor.keep_of_cut(&text[..kept]));
        let raw = RawRecord::of_message(Cow::Borrowed(&text[..kept]), &[]);
        RawRecord { cut: Some(Box::new(LineCut { bytes: text.len() - kept, rest })), ..raw }
    }
}

impl RawRecord<'_> {
    /// Whether the text lacks its end.
    pub fn is_cut(&self) -> bool {
        self.cut.is_some() || self.is_unended
    }

    /// Bytes that the limit cut off.
    pub fn cut_bytes(&self) -> usize {
        self.cut.as_ref().map_or(0, |cut| cut.bytes)
    }

    /// Notes whether a record, which lies at the end of a file, has no end of its last line.
    pub fn note_end(&mut self) {
        self.is_unended |= !self.written.is_empty() && !self.written.ends_with(b"\n");
    }

    /// Removes a byte order mark from the first record of a file or a body. `start` does not change.
    pub fn at_beginning(mut self) -> Self {
        without_mark(&mut self.text);
        self
    }
}
