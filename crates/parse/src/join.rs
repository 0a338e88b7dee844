//! Lines become records of several lines: a stack trace is one record, and so are the parts of a line that a container
//! runtime split.
//!
//! An [`Assembler`] gets a chunk of whole lines that begins at the start of a record, and returns the complete records.
//! The last record stays **open**, because later lines may continue it. It closes when a line begins the next record,
//! or when its source is quiet for long enough ([`Ending::Closed`]). An open record is not consumed: the position of a
//! source never passes the start of its oldest open record, so a restart produces the same records. A closed record
//! stays closed; a later line that would continue it becomes a record of its own.
//!
//! **Streams.** Under a container runtime, the lines of stdout and stderr come interleaved, each with the name of its
//! stream, and are joined per stream. The position is one number, so records are returned up to a **cut**: the start of
//! a line that no record spans and that has no open record before it. The profile learns only at cuts, and lines after
//! a cut are parsed again with the new profile. So the cut has the same effect whether a chunk ended there or the
//! process was killed. (Each line is parsed at most three times: a cut passes the start of a record only when the
//! record is closed.)
//!
//! **Bounds.** Between two cuts there are at most `join.lines_max` lines, and as many bytes as one line may have. At
//! either bound the open record closes, and the rest becomes a record of its own. Only a single line over the limit
//! loses bytes. A record also closes when the runtime's times show a gap of more than `join.wait` after its last line.
//! A live reader would have closed the record then.
//!
//! Empty lines begin no record. Inside a record they are kept; between records they are skipped.

mod group;
mod part;

use super::Parsed;
use super::json::rest::ObjectRest;
use super::lines::{Line, Lines, cut_line, without_mark};
use super::raw_record::RawRecord;
use super::source_profile::{Join, ParseOptions, SourceProfile};
use daytable_model::time::Ticks;
use group::LineGroup;
use part::{LinePiece, RecordPart};
use std::collections::VecDeque;
use std::time::Duration;

/// The fate of a record that is open at the end of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The record waits for more lines.
    Open,
    /// The record closes.
    Closed,
}

/// The records of a chunk.
pub struct Assembler<'a> {
    lines: Lines<'a>,
    /// Bytes of an unfinished line after the chunk.
    unfinished: usize,
    bytes_max: usize,
    join: Join,
    ending: Ending,
    /// The last line read, if it belongs to the next record.
    ahead: Option<Line<'a>>,
    /// Records before the last cut that were not returned yet.
    ready: VecDeque<RawRecord<'a>>,
    /// The last cut.
    consumed: usize,
    /// The end of the bytes that returned records have.
    returned: usize,
    /// How long the lines after the last cut wait, if there are any.
    open: Option<Duration>,
    /// Whether the chunk is the beginning of a file or a body.
    is_beginning: bool,
}

impl<'a> Assembler<'a> {
    /// Reads the whole lines of a chunk; `unfinished` bytes of an incomplete line follow the chunk. A line, and a
    /// joined record, has at most `bytes_max` bytes.
    pub fn new(
        chunk: &'a [u8],
        unfinished: usize,
        bytes_max: usize,
        options: &ParseOptions,
        ending: Ending,
    ) -> Assembler<'a> {
        Assembler {
            lines: Lines::new(chunk, bytes_max),
            unfinished,
            bytes_max,
            join: options.join,
            ending,
            ahead: None,
            ready: VecDeque::new(),
            consumed: 0,
            returned: 0,
            open: None,
            is_beginning: false,
        }
    }

    /// Sets whether the chunk is the beginning of a file or a body, where a byte order mark may stand.
    pub fn at_beginning(mut self, is_beginning: bool) -> Self {
        self.is_beginning = is_beginning;
        if is_beginning {
            self.lines.begin();
        }
        self
    }

    /// The next complete record, or `None`. The caller must learn from each record before it asks for the next.
    pub fn next(&mut self, profile: &SourceProfile, options: &ParseOptions) -> Option<RawRecord<'a>> {
        let mut record = self.next_record(profile, options)?;
        let bytes = self.lines.bytes();
        if record.start >= self.returned {
            record.before = &bytes[self.returned..record.start];
        }
        self.returned = self.returned.max(record.start + record.written.len());
        // A record of several lines lies in the chunk as it was written.
        if self.is_beginning && record.start == 0 {
            without_mark(&mut record.text);
        }
        Some(record)
    }

    /// The next record and its offset in the chunk, if its line has the layout of an earlier object of the source: such
    /// a line is a record by itself, whatever surrounds it. `None` leaves the line to [`Assembler::next`].
    ///
    /// Most lines of a file of objects are read here. So they are neither unwrapped nor asked whether they go on.
    #[inline]
    pub fn next_by_layout(
        &mut self,
        profile: &mut SourceProfile,
        options: &ParseOptions,
        seen: Ticks,
    ) -> Option<(usize, Parsed<'a>)> {
        let start = self.lines.at();
        // The next record also has the bytes before it that no record has.
        if start != self.returned || self.ahead.is_some() || self.open.is_some() || !self.ready.is_empty() {
            return None;
        }
        let line = self.lines.whole_object()?;
        let parsed = profile.object_by_layout(line, options, seen)?;
        let end = start + line.len() + 1;
        self.lines.go_to(end);
        (self.consumed, self.returned) = (end, end);
        Some((start, parsed))
    }

    // Inlined: a record is large, and moving it costs as much as finding its end.
    #[inline(always)]
    fn next_record(&mut self, profile: &SourceProfile, options: &ParseOptions) -> Option<RawRecord<'a>> {
        if let Some(record) = self.ready.pop_front() {
            return Some(record);
        }
        while self.open.is_none() {
            let Some(line) = self.next_line() else {
                self.consumed = self.lines.bytes().len();
                break;
            };
            let piece = LinePiece::of(&line, profile, options);
            if piece.text.is_empty() {
                continue;
            }
            if self.join.lines_max.get() == 1 || piece.is_alone(profile, options) {
                self.lines.skip_empty();
                self.consumed = self.lines.at();
                return Some(self.lying(piece.into_record()));
            }
            if let Some(mut next) = self.next_line() {
                let at = next.start;
                let is_whole = piece.is_whole_before(&mut next, profile, options);
                self.ahead = Some(next);
                if is_whole {
                    self.consumed = at;
                    return Some(self.lying(piece.into_record()));
                }
            }
            return self.group(piece, profile, options);
        }
        None
    }

    /// Bytes of the chunk that need not be read again, after the last record was returned.
    pub fn consumed(&self) -> usize {
        self.consumed
    }

    /// The consumed bytes after the last returned record: empty lines, which the next record of the source keeps
    /// ([`SourceProfile::note_gap`]).
    pub fn gap(&self) -> &'a [u8] {
        self.lines.bytes().get(self.returned..self.consumed).unwrap_or_default()
    }

    /// How long the source must be quiet until its open record closes, after the last record was returned. `None`
    /// without an open record.
    pub fn open(&self) -> Option<Duration> {
        self.open
    }

    /// A record that has all bytes of the chunk up to the cut.
    #[inline(always)]
    fn lying(&self, mut record: RawRecord<'a>) -> RawRecord<'a> {
        record.written = &self.lines.bytes()[record.start..self.consumed];
        record
    }

    fn next_line(&mut self) -> Option<Line<'a>> {
        self.ahead.take().or_else(|| self.lines.next())
    }

    /// Collects lines from `first` until a cut follows them, and returns the first record before the cut.
    fn group(
        &mut self,
        first: LinePiece<'a>,
        profile: &SourceProfile,
        options: &ParseOptions,
    ) -> Option<RawRecord<'a>> {
        let start = first.start;
        let mut group = LineGroup::default();
        group.open(first, profile, options);
        loop {
            let Some(line) = self.next_line() else {
                let size = self.lines.bytes().len() + self.unfinished - start;
                if self.ending == Ending::Closed || size > self.bytes_max {
                    return self.give_out(group.close(), self.lines.bytes().len());
                }
                (self.consumed, self.open) = (start, Some(group.wait(profile, options)));
                return None;
            };
            let at = line.start;
            if line.end - start > self.bytes_max || group.lines >= u32::from(self.join.lines_max.get()) {
                self.ahead = Some(line);
                return self.give_out(group.close(), at);
            }
            let piece = LinePiece::of(&line, profile, options);
            let goes_on = group.goes_on(&piece, profile, options);
            if !goes_on && let Some(whole) = group.ended_by(&piece) {
                self.ahead = Some(line);
                self.consumed = at;
                return Some(self.lying(whole));
            }
            let before = group.closed.len();
            group.close_over(&piece, self.join);
            group.add(piece, goes_on, &self.lines, profile, options);
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

    /// Makes the cut before which all of `closed` is returned.
    fn give_out(&mut self, mut closed: Vec<RecordPart<'a>>, cut: usize) -> Option<RawRecord<'a>> {
        closed.sort_by_key(|part| part.record.start);
        closed.retain(|part| part.record.start < cut);
        let starts = closed.iter().map(|part| part.record.start).skip(1).chain([cut]);
        let nexts: Vec<usize> = starts.collect();
        // Lines of two streams may come by turns.
        let is_mixed = closed.iter().zip(&nexts).any(|(part, next)| part.end > *next);
        for (number, (part, next)) in closed.iter_mut().zip(nexts).enumerate() {
            let end = if is_mixed && number == 0 { cut } else { next };
            let start = if is_mixed && number > 0 { end } else { part.record.start };
            part.record.is_mixed = is_mixed;
            part.record.is_unended = part.is_partial;
            part.record.written = &self.lines.bytes()[start..end];
        }
        self.ready.extend(closed.into_iter().map(|part| part.record));
        self.consumed = cut;
        self.ready.pop_front()
    }
}

/// The record of a single line over the limit: `bytes` were read, and `cut` more were skipped, in which an object had `rest`.
pub fn cut_record<'a>(
    bytes: &'a [u8],
    bytes_max: usize,
    cut: usize,
    rest: Option<ObjectRest>,
    profile: &SourceProfile,
    options: &ParseOptions,
) -> RawRecord<'a> {
    LinePiece::of(&cut_line(bytes, bytes_max, cut, rest), profile, options).into_record()
}

#[cfg(test)]
mod tests;
