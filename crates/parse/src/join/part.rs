//! A line without its envelope, and the record that such lines are joined to.

use crate::envelope::Envelope;
use crate::lines::{Line, LineCut, Lines};
use crate::raw_record::RawRecord;
use crate::source_profile::{ParseOptions, SourceProfile};
use crate::timestamp::FullTime;
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// A line without its envelope.
pub(super) struct LinePiece<'a> {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: Cow<'a, str>,
    pub(super) envelope: Envelope<'a>,
    /// The full time at its start, if it was read already.
    full_time: FullTime,
    cut: Option<Box<LineCut>>,
    pub(super) is_invalid: bool,
}

impl<'a> LinePiece<'a> {
    pub(super) fn of(line: &Line<'a>, profile: &SourceProfile, options: &ParseOptions) -> LinePiece<'a> {
        let mut cut = line.cut.clone();
        let (text, envelope) = match &line.text {
            Cow::Borrowed(text) => {
                let inner = profile.unwrap_line(text, cut.as_deref_mut(), options);
                (inner.text, inner.envelope)
            }
            Cow::Owned(text) => {
                let inner = profile.unwrap_line(text, cut.as_deref_mut(), options);
                (Cow::Owned(inner.text.into_owned()), inner.envelope.into_owned())
            }
        };
        let Line { start, end, full_time, is_invalid, .. } = *line;
        let mut piece = LinePiece { start, end, text, envelope, full_time, cut, is_invalid };
        if let Some(cut) = &mut piece.cut
            && let Some(redactor) = &options.redactor
        {
            let kept = redactor.keep_of_cut(&piece.text);
            cut.bytes += piece.text.len() - kept;
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

    /// Whether the line is a record by itself, whatever follows.
    pub(super) fn is_alone(&self, profile: &SourceProfile, options: &ParseOptions) -> bool {
        !self.envelope.is_partial && !profile.may_continue(&self.text, options) && !self.leaves_key_open(false, options)
    }

    /// Whether the line is a record by itself because `next` begins another. Most lines that could continue end this
    /// way, so this test comes before any joining. It applies only to lines without an envelope, which have one stream.
    /// The time of `next` is noted in it.
    pub(super) fn is_whole_before(&self, next: &mut Line<'_>, profile: &SourceProfile, options: &ParseOptions) -> bool {
        if self.envelope != Envelope::default() || self.leaves_key_open(false, options) {
            return false;
        }
        let inner = profile.unwrap(&next.text, options);
        if inner.envelope != Envelope::default() || inner.text.is_empty() {
            return false;
        }
        let full_time = profile.full_time(&inner.text, options);
        if full_time.is_some() && (self.full_time.is_some() || profile.full_time(&self.text, options).is_some()) {
            next.full_time = full_time;
            return true;
        }
        !profile.goes_on(&self.text, &inner.text, options)
    }

    /// Whether a private key that must be replaced continues in the next line.
    pub(super) fn leaves_key_open(&self, is_open: bool, options: &ParseOptions) -> bool {
        options.redactor.as_ref().is_some_and(|redactor| redactor.leaves_key_open(is_open, &self.text))
    }

    #[inline(always)]
    pub(super) fn into_record(self) -> RawRecord<'a> {
        RawRecord {
            start: self.start,
            text: self.text,
            envelope: self.envelope,
            full_time: self.full_time,
            lines: 1,
            cut: self.cut,
            is_unended: false,
            is_invalid: self.is_invalid,
            before: &[],
            written: &[],
            is_mixed: false,
        }
    }
}

/// A record under construction.
pub(super) struct RecordPart<'a> {
    pub(super) record: RawRecord<'a>,
    /// The end of its last line.
    pub(super) end: usize,
    /// Empty lines after that; they belong to the record if it continues.
    pub(super) empty: usize,
    /// When the runtime read its last line.
    pub(super) last: Option<Ticks>,
    /// Whether its last line continues in the next.
    pub(super) is_partial: bool,
    /// Whether its first line is split and still incomplete.
    pub(super) is_begun: bool,
    /// Whether lines may be joined to it.
    pub(super) may_continue: bool,
    /// Whether its last line is inside a private key.
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
        if let Some(cut) = piece.cut {
            record.cut.get_or_insert_default().bytes += cut.bytes;
        }
        record.is_invalid |= piece.is_invalid;
        self.end = piece.end;
        self.empty = 0;
        self.last = piece.envelope.time;
        self.is_partial = piece.envelope.is_partial;
    }
}
