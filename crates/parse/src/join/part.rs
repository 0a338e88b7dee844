//! A line without its envelope, and the record that such lines are put together to.

use super::RawRecord;
use crate::envelope::Envelope;
use crate::lines::{Line, Lines};
use crate::source_profile::{ParseOptions, SourceProfile};
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// A line without its envelope.
pub(super) struct LinePiece<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: Cow<'a, str>,
    pub(super) envelope: Envelope,
    pub(super) cut: usize,
    pub(super) is_invalid: bool,
}

impl<'a> LinePiece<'a> {
    pub(super) fn of(line: &Line<'a>, learned: &SourceProfile, reading: &ParseOptions) -> LinePiece<'a> {
        let (text, envelope) = match &line.text {
            Cow::Borrowed(text) => {
                let inner = learned.unwrap(text, reading);
                (inner.text, inner.envelope)
            }
            Cow::Owned(text) => {
                let inner = learned.unwrap(text, reading);
                (Cow::Owned(inner.text.into_owned()), inner.envelope)
            }
        };
        let mut piece =
            LinePiece { start: line.start, end: line.end, text, envelope, cut: line.cut, is_invalid: line.is_invalid };
        if line.cut > 0
            && let Some(redactor) = &reading.redactor
        {
            let kept = redactor.keep_of_cut(&piece.text);
            piece.cut += piece.text.len() - kept;
            piece.text = match piece.text {
                Cow::Borrowed(text) => Cow::Borrowed(&text[..kept]),
                Cow::Owned(mut text) => {
                    text.truncate(kept);
                    Cow::Owned(text)
                }
            };
        }
        piece
    }

    /// Whether it is a record, whatever comes behind it.
    pub(super) fn is_alone(&self, learned: &SourceProfile, reading: &ParseOptions) -> bool {
        !self.envelope.is_partial && !learned.may_continue(&self.text, reading) && !self.leaves_key_open(false, reading)
    }

    /// Whether it is a record because `next` begins another: what most lines are that might go on, so it is asked before
    /// anything is put together. Only of lines without an envelope, which have no streams to be told apart.
    pub(super) fn is_whole_before(&self, next: &Line<'_>, learned: &SourceProfile, reading: &ParseOptions) -> bool {
        if self.envelope != Envelope::default() || self.leaves_key_open(false, reading) {
            return false;
        }
        let next = learned.unwrap(&next.text, reading);
        next.envelope == Envelope::default()
            && !next.text.is_empty()
            && !learned.goes_on(&self.text, &next.text, reading)
    }

    /// Whether a private key that is to be replaced goes on in the next line.
    pub(super) fn leaves_key_open(&self, is_open: bool, reading: &ParseOptions) -> bool {
        reading.redactor.as_ref().is_some_and(|redactor| redactor.leaves_key_open(is_open, &self.text))
    }

    pub(super) fn into_record(self) -> RawRecord<'a> {
        RawRecord {
            start: self.start,
            text: self.text,
            envelope: self.envelope,
            lines: 1,
            cut: self.cut,
            is_invalid: self.is_invalid,
        }
    }
}

/// A record that is being put together, or has been.
pub(super) struct RecordPart<'a> {
    pub(super) record: RawRecord<'a>,
    /// Where its last line ends.
    pub(super) end: usize,
    /// Empty lines behind that: they belong to it if it goes on.
    pub(super) empty: usize,
    /// When the runtime read its last line.
    pub(super) last: Option<Ticks>,
    /// Whether its last line goes on in the next one.
    pub(super) is_partial: bool,
    /// Whether its first line is in pieces of which the last has not come.
    pub(super) is_begun: bool,
    /// Whether lines may be joined to it.
    pub(super) may_continue: bool,
    /// Whether its last line is one of a private key that goes on.
    pub(super) is_in_key: bool,
}

impl<'a> RecordPart<'a> {
    pub(super) fn append(&mut self, piece: LinePiece<'a>, lines: &Lines<'a>) {
        let record = &mut self.record;
        let gap = &lines.bytes()[self.end..piece.start];
        let is_as_it_lies = |text: &Cow<'_, str>, start: usize, end: usize| matches!(text, Cow::Borrowed(text) if text.len() == end - start);
        let is_contiguous = !self.is_partial
            && is_as_it_lies(&record.text, record.start, self.end)
            && is_as_it_lies(&piece.text, piece.start, piece.end)
            && gap.iter().all(|byte| *byte == b'\n');
        match lines.text().filter(|_| is_contiguous) {
            Some(text) => record.text = Cow::Borrowed(&text[record.start..piece.end]),
            None => {
                let text = record.text.to_mut();
                if !self.is_partial {
                    let is_empty_lines = gap.iter().all(|byte| matches!(byte, b'\n' | b'\r'));
                    let between = if is_empty_lines { gap.iter().filter(|byte| **byte == b'\n').count() } else { 1 };
                    text.extend(std::iter::repeat_n('\n', between + self.empty));
                }
                text.push_str(&piece.text);
            }
        }
        record.lines += 1;
        record.cut += piece.cut;
        record.is_invalid |= piece.is_invalid;
        self.end = piece.end;
        self.empty = 0;
        self.last = piece.envelope.time;
        self.is_partial = piece.envelope.is_partial;
    }
}
