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

use super::learned::{Envelope, Join, Learned, Reading, Stream};
use super::lines::{Line, Lines, cut_line};
use crate::redact::Redactor;
use crate::time::Ticks;
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
}

impl<'a> Assembler<'a> {
    /// Of the whole lines of a chunk, behind which lie `unfinished` bytes of a line that is not. A line has at most
    /// `bytes_max` bytes, and so has what is joined.
    pub fn new(
        chunk: &'a [u8],
        unfinished: usize,
        bytes_max: usize,
        reading: &Reading,
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
        }
    }

    /// The next record that is whole; none where there is no other. What is learnt from a record is to be learnt before
    /// the next one is asked for.
    pub fn next(&mut self, learned: &Learned, reading: &Reading) -> Option<RawRecord<'a>> {
        if let Some(record) = self.ready.pop_front() {
            return Some(record);
        }
        while self.open.is_none() {
            let Some(line) = self.next_line() else {
                self.consumed = self.lines.bytes().len();
                break;
            };
            let piece = Piece::of(&line, learned, reading);
            if piece.text.is_empty() {
                continue;
            }
            if self.join.lines_max.get() == 1 || piece.is_alone(learned, reading) {
                self.consumed = self.lines.at();
                return Some(piece.into_record());
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
    fn group(&mut self, first: Piece<'a>, learned: &Learned, reading: &Reading) -> Option<RawRecord<'a>> {
        let start = first.start;
        let mut group = Group::default();
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
            let piece = Piece::of(&line, learned, reading);
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
    fn give_out(&mut self, mut closed: Vec<Part<'a>>, cut: usize) -> Option<RawRecord<'a>> {
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
    learned: &Learned,
    reading: &Reading,
) -> RawRecord<'a> {
    Piece::of(&cut_line(bytes, bytes_max, cut), learned, reading).into_record()
}

/// A line without its envelope.
struct Piece<'a> {
    start: usize,
    end: usize,
    text: Cow<'a, str>,
    envelope: Envelope,
    cut: usize,
    is_invalid: bool,
}

impl<'a> Piece<'a> {
    fn of(line: &Line<'a>, learned: &Learned, reading: &Reading) -> Piece<'a> {
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
            Piece { start: line.start, end: line.end, text, envelope, cut: line.cut, is_invalid: line.is_invalid };
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
    fn is_alone(&self, learned: &Learned, reading: &Reading) -> bool {
        !self.envelope.is_partial && !learned.may_continue(&self.text, reading) && !self.leaves_key_open(false, reading)
    }

    /// Whether a private key that is to be replaced goes on in the next line.
    fn leaves_key_open(&self, is_open: bool, reading: &Reading) -> bool {
        reading.redactor.as_ref().is_some_and(|redactor| redactor.leaves_key_open(is_open, &self.text))
    }

    fn into_record(self) -> RawRecord<'a> {
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
struct Part<'a> {
    record: RawRecord<'a>,
    /// Where its last line ends.
    end: usize,
    /// Empty lines behind that: they belong to it if it goes on.
    empty: usize,
    /// When the runtime read its last line.
    last: Option<Ticks>,
    /// Whether its last line goes on in the next one.
    is_partial: bool,
    /// Whether lines may be joined to it.
    may_continue: bool,
    /// Whether its last line is one of a private key that goes on.
    is_in_key: bool,
}

impl<'a> Part<'a> {
    fn append(&mut self, piece: Piece<'a>, lines: &Lines<'a>) {
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

/// What lies behind a cut, up to where it was read.
#[derive(Default)]
struct Group<'a> {
    /// By stream.
    open: [Option<Part<'a>>; 3],
    /// In the order in which they were closed.
    closed: Vec<Part<'a>>,
    lines: u32,
}

fn slot_of(stream: Stream) -> usize {
    match stream {
        Stream::Only => 0,
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    }
}

impl<'a> Group<'a> {
    fn open(&mut self, piece: Piece<'a>, learned: &Learned, reading: &Reading) {
        let part = Part {
            end: piece.end,
            empty: 0,
            last: piece.envelope.time,
            is_partial: piece.envelope.is_partial,
            may_continue: learned.may_continue(&piece.text, reading),
            is_in_key: piece.leaves_key_open(false, reading),
            record: piece.into_record(),
        };
        self.lines += 1;
        let slot = slot_of(part.record.envelope.stream);
        self.open[slot] = Some(part);
    }

    /// Whether a line goes on with the open record of its stream, as far as its text says.
    fn goes_on(&self, piece: &Piece<'_>, learned: &Learned, reading: &Reading) -> bool {
        let part = self.open[slot_of(piece.envelope.stream)].as_ref();
        part.is_some_and(|part| {
            let is_of_key = part.is_in_key && Redactor::goes_on_with_key(&piece.text);
            part.is_partial
                || is_of_key
                || part.may_continue && learned.goes_on(&part.record.text, &piece.text, reading)
        })
    }

    /// The common case, for which nothing is put down: there is one record, and `piece` begins the next one.
    fn ended_by(&mut self, piece: &Piece<'_>) -> Option<RawRecord<'a>> {
        let is_only = self.closed.is_empty() && self.open.iter().flatten().count() == 1;
        let part = self.open[slot_of(piece.envelope.stream)].take_if(|_| is_only && !piece.text.is_empty())?;
        Some(part.record)
    }

    /// How long the open records wait.
    fn wait(&self, learned: &Learned, reading: &Reading) -> Duration {
        let of = |part: &Part<'_>| {
            if part.is_partial { reading.join.wait } else { learned.wait(&part.record.text, reading) }
        };
        self.open.iter().flatten().map(of).max().unwrap_or_default()
    }

    /// Closes what had waited for too long when `piece` came.
    fn close_over(&mut self, piece: &Piece<'_>, join: Join) {
        let is_over = |part: &mut Part<'_>| {
            piece.envelope.time.zip(part.last).is_some_and(|(now, last)| now.since(last) > join.wait)
        };
        let over = self.open.iter_mut().filter_map(|part| part.take_if(is_over));
        self.closed.extend(over);
    }

    /// Puts a line where it belongs.
    fn take(&mut self, piece: Piece<'a>, goes_on: bool, lines: &Lines<'a>, learned: &Learned, reading: &Reading) {
        let slot = slot_of(piece.envelope.stream);
        match &mut self.open[slot] {
            Some(part) if piece.text.is_empty() && !part.is_partial => part.empty += 1,
            Some(part) if goes_on => {
                part.is_in_key = piece.leaves_key_open(part.is_in_key, reading);
                part.append(piece, lines);
                self.lines += 1;
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
    fn cut(&self, end: usize) -> usize {
        let mut cut = self.open.iter().flatten().map(|part| part.record.start).min().unwrap_or(end);
        while let Some(across) = self.closed.iter().find(|part| part.record.start < cut && cut < part.end) {
            cut = across.record.start;
        }
        cut
    }

    /// Closes all that is open. Gives every record.
    fn close(mut self) -> Vec<Part<'a>> {
        self.closed.extend(self.open.into_iter().flatten());
        self.closed
    }
}

#[cfg(test)]
mod tests;
