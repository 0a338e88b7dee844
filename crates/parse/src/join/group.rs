//! The records behind a cut, while it is not known where the next one is: one of each stream at most is open.

use super::RawRecord;
use super::part::{LinePiece, RecordPart};
use crate::envelope::OutputStream;
use crate::lines::Lines;
use crate::redact::Redactor;
use crate::source_profile::{Join, ParseOptions, SourceProfile};
use std::time::Duration;

/// What lies behind a cut, up to where it was read.
#[derive(Default)]
pub(super) struct LineGroup<'a> {
    /// By stream.
    open: [Option<RecordPart<'a>>; 3],
    /// In the order in which they were closed.
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
    pub(super) fn open(&mut self, piece: LinePiece<'a>, learned: &SourceProfile, reading: &ParseOptions) {
        let part = RecordPart {
            end: piece.end,
            empty: 0,
            last: piece.envelope.time,
            is_partial: piece.envelope.is_partial,
            is_begun: piece.envelope.is_partial,
            may_continue: learned.may_continue(&piece.text, reading),
            is_in_key: piece.leaves_key_open(false, reading),
            record: piece.into_record(),
        };
        self.lines += 1;
        let slot = slot_of(part.record.envelope.stream);
        self.open[slot] = Some(part);
    }

    /// Whether a line goes on with the open record of its stream, as far as its text says.
    pub(super) fn goes_on(&self, piece: &LinePiece<'_>, learned: &SourceProfile, reading: &ParseOptions) -> bool {
        let part = self.open[slot_of(piece.envelope.stream)].as_ref();
        part.is_some_and(|part| {
            let is_of_key = part.is_in_key && Redactor::goes_on_with_key(&piece.text);
            part.is_partial
                || is_of_key
                || part.may_continue && learned.goes_on(&part.record.text, &piece.text, reading)
        })
    }

    /// The common case, for which nothing is put down: there is one record, and `piece` begins the next one.
    pub(super) fn ended_by(&mut self, piece: &LinePiece<'_>) -> Option<RawRecord<'a>> {
        let is_only = self.closed.is_empty() && self.open.iter().flatten().count() == 1;
        let part = self.open[slot_of(piece.envelope.stream)].take_if(|_| is_only && !piece.text.is_empty())?;
        Some(part.record)
    }

    /// How long the open records wait.
    pub(super) fn wait(&self, learned: &SourceProfile, reading: &ParseOptions) -> Duration {
        let of = |part: &RecordPart<'_>| {
            if part.is_partial { reading.join.wait } else { learned.wait(&part.record.text, reading) }
        };
        self.open.iter().flatten().map(of).max().unwrap_or_default()
    }

    /// Closes what had waited for too long when `piece` came.
    pub(super) fn close_over(&mut self, piece: &LinePiece<'_>, join: Join) {
        let is_over = |part: &mut RecordPart<'_>| {
            piece.envelope.time.zip(part.last).is_some_and(|(now, last)| now.since(last) > join.wait)
        };
        let over = self.open.iter_mut().filter_map(|part| part.take_if(is_over));
        self.closed.extend(over);
    }

    /// Puts a line where it belongs.
    pub(super) fn take(
        &mut self,
        piece: LinePiece<'a>,
        goes_on: bool,
        lines: &Lines<'a>,
        learned: &SourceProfile,
        reading: &ParseOptions,
    ) {
        let slot = slot_of(piece.envelope.stream);
        match &mut self.open[slot] {
            Some(part) if piece.text.is_empty() && !part.is_partial => part.empty += 1,
            Some(part) if goes_on => {
                part.is_in_key = piece.leaves_key_open(part.is_in_key, reading);
                part.append(piece, lines);
                self.lines += 1;
                if part.is_begun && !part.is_partial {
                    // Its first piece did not say what the whole line does, as the end of an object.
                    part.may_continue = learned.may_continue(&part.record.text, reading);
                    part.is_begun = false;
                }
            }
            _ if piece.text.is_empty() => {}
            part => {
                self.closed.extend(part.take());
                self.open(piece, learned, reading);
            }
        }
        let is_done = |part: &mut RecordPart<'_>| !part.is_partial && !part.may_continue && !part.is_in_key;
        self.closed.extend(self.open[slot].take_if(is_done));
    }

    /// The last cut there is, where the lines were read up to `end`; its own start where there is none behind it.
    pub(super) fn cut(&self, end: usize) -> usize {
        let mut cut = self.open.iter().flatten().map(|part| part.record.start).min().unwrap_or(end);
        while let Some(across) = self.closed.iter().find(|part| part.record.start < cut && cut < part.end) {
            cut = across.record.start;
        }
        cut
    }

    /// Closes all that is open. Gives every record.
    pub(super) fn close(mut self) -> Vec<RecordPart<'a>> {
        self.closed.extend(self.open.into_iter().flatten());
        self.closed
    }
}
