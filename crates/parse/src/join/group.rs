//! The records behind a cut, while it is not known where the next one is: one of each stream at most is open.

use super::RawRecord;
use super::part::{Part, Piece};
use crate::envelope::Stream;
use crate::learned::{Join, Learned, Reading};
use crate::lines::Lines;
use crate::redact::Redactor;
use std::time::Duration;

/// What lies behind a cut, up to where it was read.
#[derive(Default)]
pub(super) struct Group<'a> {
    /// By stream.
    open: [Option<Part<'a>>; 3],
    /// In the order in which they were closed.
    pub(super) closed: Vec<Part<'a>>,
    pub(super) lines: u32,
}

fn slot_of(stream: Stream) -> usize {
    match stream {
        Stream::Only => 0,
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    }
}

impl<'a> Group<'a> {
    pub(super) fn open(&mut self, piece: Piece<'a>, learned: &Learned, reading: &Reading) {
        let part = Part {
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
    pub(super) fn goes_on(&self, piece: &Piece<'_>, learned: &Learned, reading: &Reading) -> bool {
        let part = self.open[slot_of(piece.envelope.stream)].as_ref();
        part.is_some_and(|part| {
            let is_of_key = part.is_in_key && Redactor::goes_on_with_key(&piece.text);
            part.is_partial
                || is_of_key
                || part.may_continue && learned.goes_on(&part.record.text, &piece.text, reading)
        })
    }

    /// The common case, for which nothing is put down: there is one record, and `piece` begins the next one.
    pub(super) fn ended_by(&mut self, piece: &Piece<'_>) -> Option<RawRecord<'a>> {
        let is_only = self.closed.is_empty() && self.open.iter().flatten().count() == 1;
        let part = self.open[slot_of(piece.envelope.stream)].take_if(|_| is_only && !piece.text.is_empty())?;
        Some(part.record)
    }

    /// How long the open records wait.
    pub(super) fn wait(&self, learned: &Learned, reading: &Reading) -> Duration {
        let of = |part: &Part<'_>| {
            if part.is_partial { reading.join.wait } else { learned.wait(&part.record.text, reading) }
        };
        self.open.iter().flatten().map(of).max().unwrap_or_default()
    }

    /// Closes what had waited for too long when `piece` came.
    pub(super) fn close_over(&mut self, piece: &Piece<'_>, join: Join) {
        let is_over = |part: &mut Part<'_>| {
            piece.envelope.time.zip(part.last).is_some_and(|(now, last)| now.since(last) > join.wait)
        };
        let over = self.open.iter_mut().filter_map(|part| part.take_if(is_over));
        self.closed.extend(over);
    }

    /// Puts a line where it belongs.
    pub(super) fn take(
        &mut self,
        piece: Piece<'a>,
        goes_on: bool,
        lines: &Lines<'a>,
        learned: &Learned,
        reading: &Reading,
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
        let is_done = |part: &mut Part<'_>| !part.is_partial && !part.may_continue && !part.is_in_key;
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
    pub(super) fn close(mut self) -> Vec<Part<'a>> {
        self.closed.extend(self.open.into_iter().flatten());
        self.closed
    }
}
