//! Lines become records of several lines: a stack trace is one record, and so is what a container runtime tore apart.
//!
//! An [`Assembler`] is given a chunk of whole lines that begins where a record begins, and gives out the records that
//! are known to be whole. The last one may go on in lines that are not read yet: it stays **open** until a line comes
//! that begins the next one, or its source is quiet for so long that nobody waits any more ([`Ending::Closed`]). What is
//! open is not consumed, so a source's position never passes the start of its oldest open record, and whoever starts
//! again there comes to the same records. What is closed stays closed: a line that goes on with it later is a record of
//! its own.
//!
//! **Streams.** Under a container runtime the lines of stdout and stderr come as they were written, each with its
//! stream's name, and are joined apart. As the position is one number, records are given out up to a **cut**: a start of
//! a line with no record on both sides of it and no open one before it. Learning happens at cuts and nowhere else, and
//! what lies behind a cut is looked at again with what was learnt: so it does not matter whether a cut is where a chunk
//! ended, or where the process was killed. (Each line is looked at three times at most: a cut moves past the start of a
//! record only when that is closed.)
//!
//! **Bounds.** What lies between two cuts has at most `join.lines_max` lines and as many bytes as a line may have. At
//! either bound what is open is closed and what goes on is a record of its own, so nothing is cut off; only a single
//! line that is too long for itself is. A record is closed, too, when the runtime's own times say that more than
//! `join.wait` passed after its last line, as whoever followed the file then did not wait for more.
//!
//! Empty lines begin nothing. Inside a record they are kept, between records they are passed over.

mod group;
mod part;

use super::envelope::Envelope;
use super::lines::{Line, Lines, cut_line, without_mark};
use super::source_profile::{Join, ParseOptions, SourceProfile};
use group::LineGroup;
use part::{LinePiece, RecordPart};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

/// A record as it lies in a chunk, before anything is read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Offset of its first byte in the chunk.
    pub start: usize,
    /// Its lines without envelopes, `\n` between them. Borrowed where it lies in the chunk just so.
    pub text: Cow<'a, str>,
    /// That of its first line.
    pub envelope: Envelope,
    /// How many lines it has, empty ones not counted.
    pub lines: u32,
    /// Bytes that the limit cut off.
    pub cut: usize,
    /// Whether bytes of it were no UTF-8; U+FFFD stands for them.
    pub is_invalid: bool,
}

/// What becomes of a record that is open where a chunk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It waits: more lines may come.
    Open,
    /// It is as whole as it gets.
    Closed,
}

/// The records of a chunk.
pub struct Assembler<'a> {
    lines: Lines<'a>,
    /// Bytes of an unfinished line behind the chunk.
    unfinished: usize,
    bytes_max: usize,
    join: Join,
    ending: Ending,
    /// The line that was read last, where it belongs to what comes next.
    ahead: Option<Line<'a>>,
    /// Records before the last cut that were not given out yet.
    ready: VecDeque<RawRecord<'a>>,
    /// The last cut.
    consumed: usize,
    /// How long what lies behind the last cut waits, where something does.
    open: Option<Duration>,
    /// Whether the chunk is the beginning of what it is of.
    is_beginning: bool,
}

impl RawRecord<'_> {
    /// The same of a record that a file or body begins with: a byte order mark is no part of it. Where it begins stays.
    pub fn at_beginning(mut self) -> Self {
        without_mark(&mut self.text);
        self
    }
}

impl<'a> Assembler<'a> {
    /// Of the whole lines of a chunk, behind which lie `unfinished` bytes of a line that is not. A line has at most
    /// `bytes_max` bytes, and so has what is joined.
    pub fn new(
        chunk: &'a [u8],
        unfinished: usize,
        bytes_max: usize,
        reading: &ParseOptions,
        ending: Ending,
    ) -> Assembler<'a> {
        Assembler {
            lines: Lines::new(chunk, bytes_max),
            unfinished,
            bytes_max,
            join: reading.join,
            ending,
            ahead: None,
            ready: VecDeque::new(),
            consumed: 0,
            open: None,
            is_beginning: false,
        }
    }

    /// The same where the chunk `is_beginning` of a file or a body, in front of which there may be a byte order mark.
    pub fn at_beginning(mut self, is_beginning: bool) -> Self {
        self.is_beginning = is_beginning;
        if is_beginning {
            self.lines.begin();
        }
        self
    }

    /// The next record that is whole; none where there is no other. What is learnt from a record is to be learnt before
    /// the next one is asked for.
    pub fn next(&mut self, learned: &SourceProfile, reading: &ParseOptions) -> Option<RawRecord<'a>> {
        let record = self.next_record(learned, reading)?;
        // One of several lines lies in the chunk as it was written.
        let is_first = self.is_beginning && record.start == 0;
        Some(if is_first { record.at_beginning() } else { record })
    }

    fn next_record(&mut self, learned: &SourceProfile, reading: &ParseOptions) -> Option<RawRecord<'a>> {
        if let Some(record) = self.ready.pop_front() {
            return Some(record);
        }
        while self.open.is_none() {
            let Some(line) = self.next_line() else {
                self.consumed = self.lines.bytes().len();
                break;
            };
            let piece = LinePiece::of(&line, learned, reading);
            if piece.text.is_empty() {
                continue;
            }
            if self.join.lines_max.get() == 1 || piece.is_alone(learned, reading) {
                self.consumed = self.lines.at();
                return Some(piece.into_record());
            }
            if let Some(next) = self.next_line() {
                let at = next.start;
                let is_whole = piece.is_whole_before(&next, learned, reading);
                self.ahead = Some(next);
                if is_whole {
                    self.consumed = at;
                    return Some(piece.into_record());
                }
            }
            return self.group(piece, learned, reading);
        }
        None
    }

    /// How many bytes of the chunk need not be seen again, once all records were given out.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// How long a source is to be quiet until its open record is as whole as it gets, once all others were given out.
    /// None where no record is open.
    pub fn open(&self) -> Option<Duration> {
        self.open
    }

    fn next_line(&mut self) -> Option<Line<'a>> {
        self.ahead.take().or_else(|| self.lines.next())
    }

    /// Gathers lines from `first` on until there is a cut behind it, and gives out the first record before that.
    fn group(
        &mut self,
        first: LinePiece<'a>,
        learned: &SourceProfile,
        reading: &ParseOptions,
    ) -> Option<RawRecord<'a>> {
        let start = first.start;
        let mut group = LineGroup::default();
        group.open(first, learned, reading);
        loop {
            let Some(line) = self.next_line() else {
                let size = self.lines.bytes().len() + self.unfinished - start;
                if self.ending == Ending::Closed || size > self.bytes_max {
                    return self.give_out(group.close(), self.lines.bytes().len());
                }
                (self.consumed, self.open) = (start, Some(group.wait(learned, reading)));
                return None;
            };
            let at = line.start;
            if line.end - start > self.bytes_max || group.lines >= u32::from(self.join.lines_max.get()) {
                self.ahead = Some(line);
                return self.give_out(group.close(), at);
            }
            let piece = LinePiece::of(&line, learned, reading);
            let goes_on = group.goes_on(&piece, learned, reading);
            if !goes_on && let Some(whole) = group.ended_by(&piece) {
                self.ahead = Some(line);
                self.consumed = at;
                return Some(whole);
            }
            let before = group.closed.len();
            group.close_over(&piece, self.join);
            group.take(piece, goes_on, &self.lines, learned, reading);
            if group.closed.len() > before {
                let cut = group.cut(self.lines.at());
                if cut > start {
                    if cut == at {
                        self.ahead = Some(line);
                    } else {
                        self.lines.go_to(cut);
                    }
                    return self.give_out(group.closed, cut);
                }
            }
        }
    }

    /// Makes the cut behind which nothing of `closed` lies that is given out.
    fn give_out(&mut self, mut closed: Vec<RecordPart<'a>>, cut: usize) -> Option<RawRecord<'a>> {
        closed.sort_by_key(|part| part.record.start);
        self.ready.extend(closed.into_iter().map(|part| part.record).take_while(|record| record.start < cut));
        self.consumed = cut;
        self.ready.pop_front()
    }
}

/// The record of a single line over the limit, of which `bytes` were read and `cut` more were passed over.
pub fn cut_record<'a>(
    bytes: &'a [u8],
    bytes_max: usize,
    cut: usize,
    learned: &SourceProfile,
    reading: &ParseOptions,
) -> RawRecord<'a> {
    LinePiece::of(&cut_line(bytes, bytes_max, cut), learned, reading).into_record()
}

#[cfg(test)]
mod tests;
