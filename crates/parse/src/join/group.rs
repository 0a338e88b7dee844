//! The records after a cut, until the next cut is known. Each stream has at most one open record.

use super::part::{LinePiece, RecordPart};
use crate::envelope::OutputStream;
use crate::lines::Lines;
use crate::raw_record::RawRecord;
use crate::redact::Redactor;
use crate::source_profile::{Join, ParseOptions, SourceProfile};
use std::time::Duration;

/// The lines after a cut, as far as they were read.
#[derive(Default)]
pub(super) struct LineGroup<'a> {
    /// The open record of each stream.
    open: [Option<RecordPart<'a>>; 3],
    /// The closed records, in the order in which they closed.
    pub(super) closed: Vec<RecordPart<'a>>,
    pub(super) lines: u32,
}

fn slot_of(stream: OutputStream) -> usize {
    match stream {
        OutputStream::Only => 0,
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 2,
    }
}

impl<'a> LineGroup<'a> {
    pub(super) fn open(&mut self, piece: LinePiece<'a>, profile: &SourceProfile, options: &ParseOptions) {
        let part = RecordPart {
            end: piece.end,
            empty: 0,
            last: piece.envelope.time,
            is_partial: piece.envelope.is_partial,
            is_begun: piece.envelope.is_partial,
            may_continue: profile.may_continue(&piece.text, options),
            is_in_key: piece.leaves_key_open(false, options),
            record: piece.into_record(),
        };
        self.lines += 1;
        let slot = slot_of(part.record.envelope.stream);
        self.open[slot] = Some(part);
    }

    /// Whether the text of a line continues the open record of its stream.
    pub(super) fn goes_on(&self, piece: &LinePiece<'_>, profile: &SourceProfile, options: &ParseOptions) -> bool {
        let part = self.open[slot_of(piece.envelope.stream)].as_ref();
        part.is_some_and(|part| {
            let is_of_key = part.is_in_key && Redactor::goes_on_with_key(&piece.text);
            part.is_partial
                || is_of_key
                || part.may_continue && profile.goes_on(&part.record.text, &piece.text, options)
        })
    }

    /// The common case without any bookkeeping: there is one record, and `piece` begins the next.
    pub(super) fn ended_by(&mut self, piece: &LinePiece<'_>) -> Option<RawRecord<'a>> {
        let is_only = self.closed.is_empty() && self.open.iter().flatten().count() == 1;
        let part = self.open[slot_of(piece.envelope.stream)].take_if(|_| is_only && !piece.text.is_empty())?;
        Some(part.record)
    }

    /// How long the open records wait.
    pub(super) fn wait(&self, profile: &SourceProfile, options: &ParseOptions) -> Duration {
        let of = |part: &RecordPart<'_>| {
            if part.is_partial { options.join.wait } else { profile.wait(&part.record.text, options) }
        };
        self.open.iter().flatten().map(of).max().unwrap_or_default()
    }

    /// Closes the records whose wait had ended when `piece` came.
    pub(super) fn close_over(&mut self, piece: &LinePiece<'_>, join: Join) {
        let is_over = |part: &mut RecordPart<'_>| {
            piece.envelope.time.zip(part.last).is_some_and(|(now, last)| now.since(last) > join.wait)
        };
        let over = self.open.iter_mut().filter_map(|part| part.take_if(is_over));
        self.closed.extend(over);
    }

    /// Adds a line to its record, or begins a record with it.
    pub(super) fn add(
        &mut self,
        piece: LinePiece<'a>,
        goes_on: bool,
        lines: &Lines<'a>,
        profile: &SourceProfile,
        options: &ParseOptions,
    ) {
        let slot = slot_of(piece.envelope.stream);
        match &mut self.open[slot] {
            Some(part) if piece.text.is_empty() && !part.is_partial => part.empty += 1,
            Some(part) if goes_on => {
                part.is_in_key = piece.leaves_key_open(part.is_in_key, options);
                part.append(piece, lines);
                self.lines += 1;
                if part.is_begun && !part.is_partial {
                    // Only the complete line shows whether the record may continue, for example by the end of an
                    // object.
                    part.may_continue = profile.may_continue(&part.record.text, options);
                    part.is_begun = false;
                }
            }
            _ if piece.text.is_empty() => {}
            part => {
                self.closed.extend(part.take());
                self.open(piece, profile, options);
            }
        }
        let is_done = |part: &mut RecordPart<'_>| !part.is_partial && !part.may_continue && !part.is_in_key;
        self.closed.extend(self.open[slot].take_if(is_done));
    }

    /// The last cut, if lines were read up to `end`; the start of the group if there is none.
    pub(super) fn cut(&self, end: usize) -> usize {
        let mut cut = self.open.iter().flatten().map(|part| part.record.start).min().unwrap_or(end);
        while let Some(across) = self.closed.iter().find(|part| part.record.start < cut && cut < part.end) {
            cut = across.record.start;
        }
        cut
    }

    /// Closes every open record and returns all records.
    pub(super) fn close(mut self) -> Vec<RecordPart<'a>> {
        self.closed.extend(self.open.into_iter().flatten());
        self.closed
    }
}
