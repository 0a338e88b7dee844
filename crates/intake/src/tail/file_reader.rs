//! Reads one source from its position on, in chunks, and writes its records to batches.
//!
//! Each chunk begins with the bytes before the position, which are compared with the newest mark. So the read that
//! brings new lines also notices that the file was truncated and written again, however long the file is now.
//!
//! A last line without an end becomes a record once its file was quiet for long enough (`unended_after`), and what comes
//! behind it in the same line is a record of its own. The profile of the source has the length of such a line: a file
//! from which its writer takes the line back is read on as if the line had not been read.
//!
//! Before that, an unfinished last line, and a last record that may continue in more lines ([`daytable_parse::Assembler`]), are left
//! and read again with the bytes after them. Their bytes are kept meanwhile: if the file loses them, they are final. A line or
//! record that is longer than a chunk is read in one piece, up to the limit. A line over the limit is skipped, chunk by chunk,
//! up to its newline, and then becomes a record of its first bytes. Until then the position stays at the start of the line, so a
//! kill in between changes nothing. The profile of the source changes only together with the position.
//!
//! Zeros end what is read: those that may still be written, and holes (`holes`). Behind a hole, a line begins.
//!
//! An imported file may have entries of the journal instead of lines (`entries`).

use super::containers::ContainerFields;
use super::file_content::FileContent;
use super::holes::{Stop, StopKind, ZeroSearch};
use super::identity::{Fit, MARK_BYTES_MAX, mark_at, note_marks};
use super::options::TailOptions;
use crate::batcher::Batcher;
use crate::counters::{LEVEL_CODES, SourceCounters, SourceEvent, count};
use crate::journal::export::{JournalEntry, JournalParser};
use crate::journal::record::{JournalReading, JournalRecord};
use crate::own_output;
use crate::route::{self, Origin, RouteCache, Router};
use daytable_model::path_text::PathText;
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::source_id::{SourceId, SourceStart};
use daytable_model::time::Ticks;
use daytable_model::window::Admission;
use daytable_parse::{Assembler, Ending, Format, RawRecord, RestScanner, SourceProfile, cut_record, reuse};
use daytable_store::{Mark, SourceState};
use memchr::{memchr, memmem, memrchr};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are read at once, including those before the position.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Bytes of a record or line at the end of a file that are kept while it waits.
const HELD_BYTES_MAX: usize = 16 << 10;
/// Bytes of the file that one entry of the journal may have.
const ENTRY_SPAN_BYTES_MAX: usize = 64 << 20;

/// A source, its open file, and the state of reading.
///
/// There may be tens of thousands of idle files. An idle file keeps only its state, which is shared with its other
/// owners.
pub(super) struct FileReader {
    /// The state to be committed with the records that were read.
    pub(super) state: Arc<SourceState>,
    /// The file, while it is open.
    pub(super) content: Option<FileContent>,
    /// A line over the limit, whose newline was not found yet.
    long_line: Option<Box<LongLine>>,
    zeros: ZeroSearch,
    /// Whether reading waits at zeros that may still be written.
    waits_at_zeros: bool,
    /// The offset at which the bytes of the file ended, if the last chunk ended there. Zeros may follow.
    data_end: Option<u64>,
    /// Whether bytes were read since garbage was counted.
    has_advanced: bool,
    /// How long the last record waits at the end of the file, because it may continue.
    open: Option<Duration>,
    /// What waits behind the position, a record or a line without an end, unless it is long: if the file loses it, it is
    /// final.
    held: Box<[u8]>,
    /// None until the first record.
    parser: Option<Box<RecordParser>>,
    /// How the entries of the journal are read, if the file has such entries instead of lines.
    entries: Option<Box<JournalReading>>,
}

/// A line over the limit.
struct LongLine {
    /// The offset up to which it has no newline.
    passed: u64,
    scanner: RestScanner,
}

/// Makes rows of the records of a source. Everything here follows from the state and the configuration.
struct RecordParser {
    profile: SourceProfile,
    routes: FileRoutes,
    /// The path that is the source of its records.
    source: String,
    /// The unescaped path, if it differs from `source`. It still chooses instances and tables, because existing rows
    /// were stored by it.
    named_by: Option<Box<str>>,
    /// The fields from this path; none until the first record.
    file_fields: Option<Vec<(String, String)>>,
    /// The fields of the container whose log this is.
    container: ContainerFields,
}

/// The outside parts that reading needs.
pub(super) struct ReadContext<'a> {
    pub(super) buffer: &'a mut Vec<u8>,
    pub(super) router: &'a Router,
    pub(super) batcher: &'a mut Batcher,
    pub(super) options: &'a TailOptions,
    pub(super) counters: &'a SourceCounters,
    pub(super) host: &'a str,
    pub(super) now: Ticks,
    /// Zeros before this offset are final.
    pub(super) zeros_final_before: u64,
    /// The newest time that a line gave and that its day admitted.
    pub(super) newest: &'a mut Option<Ticks>,
    /// Counts records of lines that are read once more.
    pub(super) rereading: Option<&'a mut Rereading>,
}

/// Lines that are read once more, because what was read after them is missing in the file now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rereading {
    /// A position behind everything that was read of the source.
    pub(super) end: u64,
    /// The time of the last record that was read.
    pub(super) newest: Ticks,
    /// Records before `end` that are not newer: they were read before.
    pub(super) records: u64,
}

/// How much of the end of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TailEnd {
    /// All but an unfinished line and a record that may continue.
    Open,
    /// Also the last record: it waited long enough. But not if the file has more than `size` bytes now.
    FinalRecord {
        /// The size of the file when it was found quiet.
        size: u64,
    },
    /// Also a last line without an end: it waited long enough. But not if the file has more than `size` bytes now.
    FinalLine {
        /// The size of the file when it was found quiet.
        size: u64,
    },
    /// Everything, because no more bytes come. The end of an incomplete compressed file is still not read.
    Final,
}

/// The result of reading a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// Every byte was read, except for those that wait.
    AtEnd,
    /// There may be more bytes.
    More,
    /// The bytes before the position differ from those that were read.
    Rewritten,
}

impl FileReader {
    /// A source that is read from its position on.
    pub(super) fn new(state: impl Into<Arc<SourceState>>, content: Option<FileContent>) -> FileReader {
        FileReader {
            state: state.into(),
            content,
            long_line: None,
            zeros: ZeroSearch::default(),
            waits_at_zeros: false,
            data_end: None,
            has_advanced: false,
            open: None,
            held: Box::default(),
            parser: None,
            entries: None,
        }
    }

    /// The same source, whose bytes are entries of the journal.
    pub(super) fn of_entries(self, reading: JournalReading) -> FileReader {
        FileReader { entries: Some(Box::new(reading)), ..self }
    }

    /// The state, to be changed.
    pub(super) fn state_mut(&mut self) -> &mut SourceState {
        Arc::make_mut(&mut self.state)
    }

    /// The state, which is copied on a change if it is shared, and the parser.
    fn parts(&mut self) -> (&mut Arc<SourceState>, &mut RecordParser) {
        let parser = self.parser.get_or_insert_with(|| Box::new(RecordParser::of(&self.state)));
        (&mut self.state, parser)
    }

    /// Returns to a committed or initial state.
    pub(super) fn rewind(&mut self, state: Arc<SourceState>) {
        self.state = state;
        self.has_advanced = false;
        self.zeros = ZeroSearch::default();
        self.long_line = None;
        self.open = None;
        self.held = Box::default();
        self.parser = None;
    }

    /// Drops the parser: the configuration has changed, or the file is quiet and the memory is worth more.
    pub(super) fn forget_parser(&mut self) {
        self.parser = None;
    }

    /// Whether reading waits at zeros that may still be written.
    pub(super) fn waits_at_zeros(&self) -> bool {
        self.waits_at_zeros
    }

    /// The offset at which the bytes of the file ended, if the last chunk ended there. Zeros may follow.
    pub(super) fn data_end(&self) -> Option<u64> {
        self.data_end
    }

    /// How long the file must be quiet until its last record is final; none if no record waits.
    pub(super) fn open(&self) -> Option<Duration> {
        self.open
    }

    /// Reads a chunk and writes its records.
    pub(super) fn read_chunk(&mut self, tail_end: TailEnd, context: &mut ReadContext<'_>) -> io::Result<ReadOutcome> {
        let outcome = self.read_on(tail_end, context)?;
        if outcome == ReadOutcome::AtEnd {
            self.count_garbage(context.counters);
        }
        Ok(outcome)
    }

    /// Writes what waited at the end of the file, which the file has lost. Returns its bytes.
    pub(super) fn write_held(&mut self, context: &mut ReadContext<'_>) -> u64 {
        let held = std::mem::take(&mut self.held);
        let used = self.records(&held, 0, TailEnd::Final, context);
        if used > 0 {
            let unended = unended_bytes(&held[..used]);
            self.note_rest_of_line(0, held[0], unended > 0, context.counters);
            self.advance(used as u64, &held[..used], unended, context.counters);
        }
        used as u64
    }

    /// Counts the garbage after compressed content, in the submission of its last records. So a restart does not count
    /// it again.
    fn count_garbage(&mut self, counters: &SourceCounters) {
        let garbage = self.content.as_ref().map_or(0, FileContent::garbage_bytes);
        if garbage == 0 || !std::mem::take(&mut self.has_advanced) {
            return;
        }
        tracing::warn!(path = %self.state.path.escaped(), bytes = garbage, "the bytes after the gzip content are not read");
        self.state_mut().ledger.lost_bytes += garbage;
        counters.count(SourceEvent::BytesDestroyed, garbage);
    }

    /// Tells the parser when the file was written last, and at its beginning which years and days its times leave out.
    /// Only sources with such times pay for it.
    fn note_time_of_file(&mut self, context: &ReadContext<'_>) -> io::Result<()> {
        let is_beginning = self.state.position == 0;
        let needs = |parser: &RecordParser| parser.profile.needs_calendar();
        if self.entries.is_some() || !(is_beginning || self.parser.as_deref().is_some_and(needs)) {
            return Ok(());
        }
        let Some(content) = &mut self.content else { return Ok(()) };
        let stat = content.stat()?;
        let Some(written) = Ticks::from_unix(stat.modified.0, u32::try_from(stat.modified.1).unwrap_or(0)) else {
            return Ok(());
        };
        let parser = self.parser.get_or_insert_with(|| Box::new(RecordParser::of(&self.state)));
        if is_beginning && !content.is_compressed() {
            let read_at = |offset: u64, buffer: &mut [u8]| content.read_at(offset, buffer);
            return parser.profile.begin_file(stat.size, written, &context.options.reading, read_at);
        }
        parser.profile.note_written(written);
        Ok(())
    }

    fn read_on(&mut self, tail_end: TailEnd, context: &mut ReadContext<'_>) -> io::Result<ReadOutcome> {
        let Some(content) = &mut self.content else { return Ok(ReadOutcome::AtEnd) };
        let position = self.state.position;
        let mark = self.state.marks.last().copied().filter(|mark| mark.position == position).unwrap_or_default();
        let before = mark.length as usize;
        // While nothing is read, only the first line is known.
        let proof = if position == 0 { self.state.head } else { mark };
        let proven = proof.length as usize;

        self.open = None;
        self.waits_at_zeros = false;
        self.data_end = None;
        context.buffer.resize(CHUNK_BYTES, 0);
        let mut n = content.read_at(position - u64::from(mark.length), context.buffer)?;
        if n < proven || proven > 0 && xxh3_64(&context.buffer[..proven]) != proof.hash {
            return Ok(ReadOutcome::Rewritten);
        }
        self.held = Box::default();
        if let Some(line) = self.long_line.take() {
            return self.pass_over(line, tail_end, context);
        }
        self.note_time_of_file(context)?;
        let limit = context.options.line_bytes_max;
        // The bytes of the buffer before the data, and the zeros of the file between the position and the data.
        let (mut before, mut hole) = (before, 0);
        loop {
            let start = position + hole;
            let stop = self.stop(&context.buffer[before..n], start, tail_end, context.zeros_final_before)?;
            if let Some(Stop { at: 0, kind: StopKind::Hole(next) }) = stop {
                (before, hole) = (0, next - position);
                context.buffer.resize(CHUNK_BYTES, 0);
                let Some(content) = &mut self.content else { return Ok(ReadOutcome::AtEnd) };
                n = content.read_at(next, context.buffer)?;
                continue;
            }
            let length = stop.map_or(n - before, |stop| stop.at);
            let is_at_end = stop.is_some() || n < context.buffer.len();
            let outcome = self.outcome_at(stop, is_at_end, start + length as u64);
            let is_cut = self.content.as_ref().is_some_and(FileContent::is_cut);
            let tail_end = match tail_end {
                // Nothing continues a line across a hole.
                _ if matches!(stop, Some(Stop { kind: StopKind::Hole(_), .. })) => TailEnd::Final,
                _ if !is_at_end || is_cut => TailEnd::Open,
                TailEnd::FinalRecord { size } | TailEnd::FinalLine { size } if start + length as u64 > size => {
                    TailEnd::Open
                }
                tail_end => tail_end,
            };
            let buffer = std::mem::take(context.buffer);
            let data = &buffer[before..before + length];
            let used = match self.entries.take() {
                None => Ok(self.records(data, hole, tail_end, context)),
                Some(entries) => {
                    let used = self.entries(&entries, data, tail_end, context);
                    self.entries = Some(entries);
                    used
                }
            };
            let used = used?;
            // The last record of an incomplete file waits for the rest of the file.
            self.open.take_if(|_| is_cut);
            if used > 0 {
                self.pass_hole(hole, start);
                let window = &buffer[..before + used];
                // Behind a hole, a line begins.
                let ends = self.entries.is_some() || matches!(stop, Some(Stop { kind: StopKind::Hole(_), .. }));
                let unended = if ends { 0 } else { unended_bytes(&data[..used]) };
                self.note_rest_of_line(hole, data[0], unended > 0, context.counters);
                self.advance(hole + used as u64, window, unended, context.counters);
            }
            let waiting = &buffer[before + used..before + length];
            let is_behind_position = used > 0 || hole == 0;
            if is_at_end && is_behind_position && self.entries.is_none() && waiting.len() <= HELD_BYTES_MAX {
                self.held = waiting.into();
            }
            *context.buffer = buffer;
            if self.entries.is_some() {
                if used > 0 || is_at_end {
                    return Ok(if is_at_end && used == length { ReadOutcome::AtEnd } else { ReadOutcome::More });
                }
                // An entry that is longer than a chunk.
                let longer = n + CHUNK_BYTES.max(length);
                if length >= ENTRY_SPAN_BYTES_MAX {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "an entry is longer than 64 MiB"));
                }
                context.buffer.resize(longer, 0);
                let Some(content) = &mut self.content else { return Ok(ReadOutcome::AtEnd) };
                n += content.read_at(start + length as u64, &mut context.buffer[n..])?;
                continue;
            }
            if used > 0 || is_at_end && length <= limit {
                return Ok(outcome);
            }
            if length > limit && hole > 0 {
                // The line begins at the position then, and is read as any other.
                self.pass_hole(hole, start);
                self.advance(hole, &[0; MARK_BYTES_MAX], 0, context.counters);
                return Ok(ReadOutcome::More);
            }
            if length > limit {
                let mut scanner = RestScanner::default();
                scanner.scan(&context.buffer[before..before + limit]);
                scanner.cut();
                scanner.scan(&context.buffer[before + limit..before + length]);
                self.long_line = Some(Box::new(LongLine { passed: start + length as u64, scanner }));
                return Ok(outcome);
            }
            // A line or record that is longer than a chunk. One byte more than the limit tells whether it is over the
            // limit.
            context.buffer.resize(before + limit + 1, 0);
            let Some(content) = &mut self.content else { return Ok(ReadOutcome::AtEnd) };
            n += content.read_at(start + length as u64, &mut context.buffer[n..])?;
        }
    }

    /// The first zeros in `data` that end what is read; `data` begins at the offset `start`. Zeros are final in a file that
    /// gets no more bytes. Entries of the journal may have any bytes.
    fn stop(&mut self, data: &[u8], start: u64, tail_end: TailEnd, final_before: u64) -> io::Result<Option<Stop>> {
        let is_complete = tail_end == TailEnd::Final || self.content.as_ref().is_some_and(FileContent::is_compressed);
        let final_before = if is_complete { u64::MAX } else { final_before };
        match &mut self.content {
            Some(content) if self.entries.is_none() => self.zeros.stop(content, data, start, final_before),
            _ => Ok(None),
        }
    }

    /// The outcome of a chunk that ends at a stop, or perhaps at the end of the file.
    fn outcome_at(&mut self, stop: Option<Stop>, is_at_end: bool, end: u64) -> ReadOutcome {
        match stop.map(|stop| stop.kind) {
            Some(StopKind::Hole(_) | StopKind::Searching) => ReadOutcome::More,
            Some(StopKind::Waiting) => {
                self.waits_at_zeros = true;
                ReadOutcome::AtEnd
            }
            None if !is_at_end => ReadOutcome::More,
            Some(StopKind::EndOfFile) | None => {
                self.data_end = Some(end);
                ReadOutcome::AtEnd
            }
        }
    }

    /// Logs a hole before the offset `end` that is passed over.
    fn pass_hole(&self, hole: u64, end: u64) {
        if hole > 0 {
            tracing::info!(path = %self.state.path.escaped(), bytes = hole, before = end, "passed over zeros, where nothing was written");
        }
    }

    /// Writes the records in `data`, which begins behind a hole of this many bytes at the position. Returns their
    /// length in bytes.
    fn records(&mut self, data: &[u8], hole: u64, tail_end: TailEnd, context: &mut ReadContext<'_>) -> usize {
        if data.is_empty() {
            return 0;
        }
        let whole = match tail_end {
            TailEnd::Final | TailEnd::FinalLine { .. } => data.len(),
            _ => memrchr(b'\n', data).map_or(0, |newline| newline + 1),
        };
        let ending = if tail_end == TailEnd::Open { Ending::Open } else { Ending::Closed };
        let (reading, unfinished) = (&context.options.reading, data.len() - whole);
        let mut records = Assembler::new(&data[..whole], unfinished, context.options.line_bytes_max, reading, ending)
            .at_beginning(self.state.position + hole == 0);
        let (state, parser) = self.parts();
        let mut next = records.next(&parser.profile, reading);
        if next.is_some() {
            let state = Arc::make_mut(state);
            while let Some(mut record) = next {
                record.note_end();
                parser.record(&record, hole, state, context);
                let mut by_level = [0; LEVEL_CODES];
                while let Some((start, parsed)) = records.next_by_layout(&mut parser.profile, reading, context.now) {
                    by_level[usize::from(parsed.record.level.map_or(0, Level::code))] += 1;
                    let origin = (state.identity, state.position + hole + start as u64);
                    parser.write(parsed.record, origin, None, state, context);
                }
                state.ledger.records += by_level.iter().sum::<u64>();
                context.counters.count_records(Format::Json, &by_level);
                next = records.next(&parser.profile, reading);
            }
        }
        parser.profile.note_gap(records.gap());
        let (open, consumed) = (records.open(), records.consumed());
        self.open = open;
        consumed
    }

    /// Writes the entries of the journal in `data`, which begins at the position. Returns their length in bytes.
    ///
    /// # Errors
    ///
    /// The first bytes are not an entry.
    fn entries(
        &mut self,
        reading: &JournalReading,
        data: &[u8],
        tail_end: TailEnd,
        context: &mut ReadContext<'_>,
    ) -> io::Result<usize> {
        let mut entries = JournalParser::new(context.options.line_bytes_max);
        let (state, parser) = self.parts();
        let state = Arc::make_mut(state);
        let (mut at, mut consumed) = (0, 0);
        while at < data.len() {
            // An entry ends with an empty line, and only there may the parser be between two entries.
            let end = match data[at..] {
                [b'\n', ..] => at + 1,
                _ => match memmem::find(&data[at..], b"\n\n") {
                    Some(found) => at + found + 2,
                    None if tail_end == TailEnd::Final => data.len(),
                    None => break,
                },
            };
            let start = consumed;
            let mut each = |entry: JournalEntry<'_>| parser.entry(&entry, reading, start, state, context);
            let mut fed = entries.feed(&data[at..end], &mut each);
            if fed.is_ok() && end == data.len() && tail_end == TailEnd::Final {
                fed = entries.finish(&mut each);
            }
            at = end;
            if entries.is_between() {
                consumed = end;
            }
            match fed {
                Err(malformed) if consumed == 0 => return Err(io::Error::new(io::ErrorKind::InvalidData, malformed)),
                // The next read finds it at the beginning.
                Err(_) => break,
                Ok(()) => {}
            }
        }
        Ok(consumed)
    }

    /// Looks for the end of a line over the limit.
    fn pass_over(
        &mut self,
        mut line: Box<LongLine>,
        tail_end: TailEnd,
        context: &mut ReadContext<'_>,
    ) -> io::Result<ReadOutcome> {
        let passed = line.passed;
        let Some(content) = &mut self.content else { return Ok(ReadOutcome::AtEnd) };
        let n = content.read_at(passed, context.buffer)?;
        let stop = self.stop(&context.buffer[..n], passed, tail_end, context.zeros_final_before)?;
        let length = stop.map_or(n, |stop| stop.at);
        let is_at_end = stop.is_some() || n < context.buffer.len();
        let outcome = self.outcome_at(stop, is_at_end, passed + length as u64);
        let Some(content) = &mut self.content else { return Ok(ReadOutcome::AtEnd) };
        let is_hole = matches!(stop, Some(Stop { kind: StopKind::Hole(_), .. }));
        let is_last = match tail_end {
            TailEnd::Final => true,
            TailEnd::FinalLine { size } => passed + length as u64 <= size,
            TailEnd::Open | TailEnd::FinalRecord { .. } => false,
        };
        let is_final = is_hole || is_last && outcome == ReadOutcome::AtEnd && !content.is_cut();
        let newline = memchr(b'\n', &context.buffer[..length]);
        line.scanner.scan(&context.buffer[..newline.unwrap_or(length)]);
        let (end, next) = match newline {
            Some(newline) => (passed + newline as u64, passed + newline as u64 + 1),
            None if is_final => (passed + length as u64, passed + length as u64),
            None => {
                line.passed += length as u64;
                self.long_line = Some(line);
                return Ok(outcome);
            }
        };
        let position = self.state.position;
        // The byte after the limit tells whether the limit is within a character.
        let mut kept = vec![0; context.options.line_bytes_max + 1];
        let n = content.read_at(position, &mut kept)?;
        let mut before = [0; MARK_BYTES_MAX];
        let start = next.saturating_sub(MARK_BYTES_MAX as u64);
        let marked = content.read_at(start, &mut before)?;
        if n < kept.len() || start + (marked as u64) < next {
            return Ok(ReadOutcome::Rewritten);
        }
        let cut = usize::try_from(end - position).unwrap_or(usize::MAX).saturating_sub(kept.len());
        let (limit, reading) = (context.options.line_bytes_max, &context.options.reading);
        let (state, parser) = self.parts();
        let record = cut_record(&kept, limit, cut, line.scanner.finish(), &parser.profile, reading);
        let record = if position == 0 { record.at_beginning() } else { record };
        parser.record(&record, 0, Arc::make_mut(state), context);
        let window = &before[..usize::try_from(next - start).unwrap_or(0).min(marked)];
        let unended = if next > end || is_hole { 0 } else { next - position };
        self.note_rest_of_line(0, kept[0], unended > 0, context.counters);
        self.advance(next - position, window, unended, context.counters);
        Ok(ReadOutcome::More)
    }

    /// Counts a line without an end, and the rest of such a line, whose first byte is `first`, behind a hole of this
    /// many bytes.
    fn note_rest_of_line(&mut self, hole: u64, first: u8, is_unended: bool, counters: &SourceCounters) {
        if is_unended {
            counters.count(SourceEvent::LineUnended, 1);
        }
        if hole == 0 && !matches!(first, b'\n' | b'\r') && self.parts().1.profile.unended() > 0 {
            counters.count(SourceEvent::LineContinued, 1);
        }
    }

    /// Moves the position behind records. `window` ends there. The last `unended` bytes are a line without an end.
    fn advance(&mut self, by: u64, window: &[u8], unended: u64, counters: &SourceCounters) {
        let (state, parser) = self.parts();
        let state = Arc::make_mut(state);
        state.position += by;
        state.ledger.bytes += by;
        parser.profile.note_unended(unended);
        state.profile = parser.profile.save();
        // The start of such a line has a mark of its own, because its writer may take it back.
        let lines = window.len().saturating_sub(usize::try_from(unended).unwrap_or(usize::MAX));
        if unended > 0 && state.position > unended && lines > 0 {
            note_marks(&mut state.marks, state.position - unended, &window[..lines]);
        }
        note_marks(&mut state.marks, state.position, window);
        self.has_advanced = true;
        count(&counters.bytes, by);
    }

    /// Goes back to the start of a last line without an end, if that line is no longer in the file and everything before it
    /// is: as if the line had not been read.
    pub(super) fn go_before_unended(&mut self) -> io::Result<bool> {
        let unended = SourceProfile::restore(&self.state.profile).unended();
        let start = self.state.position.saturating_sub(unended);
        let mark = self.state.marks.iter().find(|mark| mark.position == start).copied();
        let (Some(mark), Some(content)) = (mark.filter(|_| unended > 0), &mut self.content) else { return Ok(false) };
        let (head, fits) = content.fits(self.state.head, &[mark])?;
        if (head, fits.as_slice()) != (Fit::Equal, &[Fit::Equal]) {
            return Ok(false);
        }
        self.go_to(start)?;
        Ok(true)
    }

    /// Skips all complete lines. Returns the number of skipped bytes.
    pub(super) fn skip_to_end(&mut self, size: u64) -> io::Result<u64> {
        let Some(content) = &mut self.content else { return Ok(0) };
        let Some(end) = last_newline_end(content, size)? else { return Ok(0) };
        let skipped = end.saturating_sub(self.state.position);
        if skipped > 0 {
            self.go_to(end)?;
            self.state_mut().ledger.skipped_bytes += skipped;
        }
        Ok(skipped)
    }

    /// Moves to a position without reading the bytes before it. Later marks are dropped.
    pub(super) fn go_to(&mut self, position: u64) -> io::Result<()> {
        let Some(content) = &mut self.content else { return Ok(()) };
        let mut before = [0; MARK_BYTES_MAX];
        let start = position.saturating_sub(MARK_BYTES_MAX as u64);
        let length = usize::try_from(position - start).unwrap_or(MARK_BYTES_MAX);
        let n = content.read_at(start, &mut before[..length])?;
        if n < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let state = self.state_mut();
        state.ledger.returned_bytes += state.position.saturating_sub(position);
        let marks = &mut state.marks;
        marks.retain(|mark: &Mark| mark.position < position);
        if position > 0 {
            marks.push(mark_at(position, &before[..length]));
        }
        state.position = position;
        self.held = Box::default();
        let (state, parser) = self.parts();
        parser.profile.note_unended(0);
        Arc::make_mut(state).profile = parser.profile.save();
        self.long_line = None;
        Ok(())
    }

    /// Unread bytes of a file of `size` bytes.
    pub(super) fn unread(&self, size: u64) -> u64 {
        size.saturating_sub(self.state.position)
    }
}

impl RecordParser {
    /// The parser of a source, as the state has it.
    fn of(state: &SourceState) -> RecordParser {
        let (text, lossy) = (state.path.text(), state.path.to_string_lossy());
        RecordParser {
            profile: SourceProfile::restore(&state.profile),
            routes: FileRoutes::default(),
            named_by: (text != lossy).then(|| lossy.into()),
            source: text.into_owned(),
            file_fields: None,
            container: ContainerFields::default(),
        }
    }

    /// Writes a record of bytes behind a hole of this many bytes at the position.
    fn record(&mut self, raw: &RawRecord<'_>, hole: u64, state: &mut SourceState, context: &mut ReadContext<'_>) {
        let parsed = self.profile.raw_record(raw, &context.options.reading, context.now);
        let (mut record, format) = (parsed.record, parsed.format);
        if format == Format::Syslog && own_output::is_record(&record) {
            state.ledger.own_records += 1;
            return own_output::pass_over(&self.source);
        }
        if raw.cut.is_some() {
            record.fields.push(Field { name: "truncated".into(), value: Value::Boolean(true) });
        }
        count_record(record.level, format, raw.is_invalid, raw.cut_bytes(), state, context);
        let origin = (state.identity, state.position + hole + raw.start as u64);
        self.write(record, origin, None, state, context);
    }

    /// Writes an entry of the journal, which begins `start` bytes after the position. Its host takes the place of this
    /// host in the name of the instance.
    fn entry(
        &mut self,
        entry: &JournalEntry<'_>,
        reading: &JournalReading,
        start: usize,
        state: &mut SourceState,
        context: &mut ReadContext<'_>,
    ) {
        if own_output::is_entry(|name| entry.text(name)) {
            state.ledger.own_records += 1;
            return own_output::pass_over(&self.source);
        }
        let JournalRecord { record, format, origin, is_invalid_utf8 } = reading.record(entry, context.now);
        count_record(record.level, format, is_invalid_utf8, entry.cut, state, context);
        let of_cursor = |(name, position)| (SourceId::new(SourceStart::NONE, context.router.host(), name), position);
        let origin = origin.map_or((state.identity, state.position + start as u64), of_cursor);
        let host = reading.host(entry);
        let host = host.as_deref().unwrap_or(context.host);
        self.write(record, origin, Some(host), state, context);
    }

    /// Writes a record with the identity and position of its row key. `host` is its host, if it names one.
    fn write(
        &mut self,
        record: Record<'_>,
        (identity, position): (SourceId, u64),
        host: Option<&str>,
        state: &mut SourceState,
        context: &mut ReadContext<'_>,
    ) {
        // It borrows the fields of the path, too.
        let mut record: Record<'_> = record;
        let options = context.options;
        let path = self.named_by.as_deref().unwrap_or(&self.source);
        if options.containers && self.container.refresh(Path::new(path), &options.container_labels) {
            self.file_fields = None;
        }
        let container = self.container.fields();
        let fields = self.file_fields.get_or_insert_with(|| fields_of(options, &self.source, container));
        if !fields.is_empty() {
            // First, because a query by name gets the first field: a line must not forge a field of the path.
            let fields = fields
                .iter()
                .map(|(name, value)| Field { name: name.as_str().into(), value: Value::String(value.as_str().into()) });
            record.fields.splice(0..0, fields);
        }
        // Only a time from a line is kept for later records. A file without any times has the time of arrival in each
        // record.
        let time = record.time.or(state.last_time).unwrap_or(context.now);
        if let Some(again) = &mut context.rereading
            && position < again.end
            && time <= again.newest
        {
            again.records += 1;
        }
        state.last_time = record.time.or(state.last_time);
        let origin = Origin { identity, position, source: &self.source, tenant: None };
        let route = self.routes.of(&record, self.named_by.as_deref().unwrap_or(&self.source), host, context);
        let admission = route.push(context.router, context.batcher, &record, time, origin, context.now);
        if admission != Admission::Own {
            context.counters.count_misplaced(route.table(), admission);
            state.ledger.late_records += u64::from(admission == Admission::Late);
        }
        // A line from the year 9999 must not vouch for any clock.
        if admission != Admission::Early {
            *context.newest = record.time.max(*context.newest);
        }
        reuse(record);
    }
}

/// The length of the last line of `bytes`, if the line has no end.
fn unended_bytes(bytes: &[u8]) -> u64 {
    let lines = memrchr(b'\n', bytes).map_or(0, |newline| newline + 1);
    (bytes.len() - lines) as u64
}

/// Counts a record.
fn count_record(
    level: Option<Level>,
    format: Format,
    is_invalid: bool,
    cut: usize,
    state: &mut SourceState,
    context: &ReadContext<'_>,
) {
    let (ledger, counters) = (&mut state.ledger, context.counters);
    ledger.records += 1;
    counters.count_record(level);
    count(&counters.by_format[format.number()], 1);
    if is_invalid {
        ledger.invalid_utf8_records += 1;
        count(&counters.invalid_utf8, 1);
    }
    if cut > 0 {
        ledger.truncated_records += 1;
        ledger.truncated_bytes += cut as u64;
        count(&counters.truncated, 1);
    }
}

/// The fields of every record of the file at `path`: those of the block, those of the path, and those of its container.
fn fields_of(options: &TailOptions, path: &str, container: &[(String, String)]) -> Vec<(String, String)> {
    let of_path = options.fields_from_path.iter().flat_map(|pattern| pattern.of(path));
    let of_path = of_path.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut fields: Vec<(String, String)> = options.fields.iter().cloned().chain(of_path).collect();
    // Of two fields of one name the configured one counts.
    let configured = fields.len();
    for (name, value) in container {
        if !fields[..configured].iter().any(|(own, _)| own == name) {
            fields.push((name.clone(), value.clone()));
        }
    }
    fields
}

/// The offset after the last newline of a plain file of `size` bytes; none if the last 2 MiB have no newline. Zeros at the
/// end are not there.
pub(super) fn last_newline_end(content: &mut FileContent, size: u64) -> io::Result<Option<u64>> {
    let mut end = size;
    let mut data_end = None;
    let mut chunk = vec![0; CHUNK_BYTES];
    while end > 0 && data_end.unwrap_or(end) - end <= LINE_BYTES_LIMIT {
        let start = end.saturating_sub(CHUNK_BYTES as u64);
        let length = usize::try_from(end - start).unwrap_or(CHUNK_BYTES);
        let n = content.read_at(start, &mut chunk[..length])?;
        if let Some(newline) = memrchr(b'\n', &chunk[..n]) {
            return Ok(Some(start + newline as u64 + 1));
        }
        if data_end.is_none() && chunk[..n].iter().any(|byte| *byte != 0) {
            data_end = Some(end);
        }
        end = start;
    }
    Ok(None)
}

/// The upper limit of `line_bytes_max`.
const LINE_BYTES_LIMIT: u64 = 2 << 20;

/// The routes of a source's instances.
#[derive(Default)]
struct FileRoutes {
    /// The route of every record, if no field names the instance.
    fixed: Option<RouteCache>,
    by_name: route::RouteCaches,
}

impl FileRoutes {
    fn of(
        &mut self,
        record: &Record<'_>,
        source: &str,
        host: Option<&str>,
        context: &ReadContext<'_>,
    ) -> &mut RouteCache {
        let named = host.unwrap_or(context.host);
        let instance = || context.options.instance.render(named, source, |name| record.text(name));
        if context.options.instance.is_fixed() && host.is_none() {
            return self.fixed.get_or_insert_with(|| RouteCache::new(context.router, &instance(), source));
        }
        self.by_name.get(context.router, &instance(), source)
    }
}
