//! The thread of one journal: entries come from `journalctl`, and rows go to the store together with the cursor of the last
//! entry.
//!
//! Reading resumes *at* the last entry, not after it. The first entry must be the last one again, and is skipped. If it is
//! another entry, the journal has removed entries (vacuumed, or lost with `/run`). The gap is counted as far as the
//! journal's own numbers tell.

use super::cursor::{self, JournalCursor};
use super::export::{JournalEntry, JournalParser};
use super::program::{JournalQuery, Start};
use super::record::{JournalReading, JournalRecord};
use crate::counters::{SourceCounters, SourceEvent, count};
use crate::journal::JournalOptions;
use crate::own_output;
use crate::record_writer::RecordWriter;
use crate::route::{Origin, RouteCaches, Router};
use crate::source::ReadFrom;
use daytable_model::path_text::PathText;
use daytable_model::source_id::{SourceId, SourceStart};
use daytable_model::time::{self, Ticks};
use daytable_store::{CommitQueue, SourceKind, SourceState, Submission, SubmitError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// The bytes of rows that are submitted together.
const SUBMISSION_BYTES: usize = 4 << 20;
/// The age at which even a few rows are submitted.
const HAND_OVER: Duration = Duration::from_millis(100);
/// The interval of the check for a stop while no entry comes.
const IDLE: Duration = Duration::from_millis(250);
/// How long `journalctl` may take to find the beginning or the end of the journal.
const ANSWER: Duration = Duration::from_secs(60);
/// The pause after `journalctl` ended: the first pause, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Entries that the journal removed before they were read.
const VACUUMED: SourceEvent = SourceEvent::RecordsDropped("vacuumed");

/// The events that a journal counts.
pub(super) const EVENTS: [SourceEvent; 3] = [VACUUMED, SourceEvent::JournalGap, SourceEvent::ReadError];

/// The state of the thread.
pub(super) struct JournalFollower {
    query: JournalQuery,
    config: JournalOptions,
    reading: JournalReading,
    /// The source of its records.
    source: String,
    host: String,
    queue: CommitQueue,
    epoch: u64,
    counters: Arc<SourceCounters>,
    stop: Arc<AtomicBool>,
    /// The position of reading, and whether the store knows the journal.
    state: SourceState,
    is_begun: bool,
    /// The first cursor, if the first start was in this run.
    beginning: Option<String>,
    /// Whether `state` is ahead of the last submission.
    is_changed: bool,
    routes: RouteCaches,
    rows: RecordWriter,
    /// The arrival of the oldest row.
    oldest: Option<Instant>,
    pause: Duration,
}

/// Why reading ended.
enum ReadEnd {
    /// The daemon stops.
    Stopped,
    /// The store refuses submissions of this epoch, or all submissions.
    Refused(SubmitError),
    /// The process ended, or its output is malformed.
    Failed(String),
}

impl From<SubmitError> for ReadEnd {
    fn from(refused: SubmitError) -> ReadEnd {
        ReadEnd::Refused(refused)
    }
}

impl JournalFollower {
    pub(super) fn new(
        config: JournalOptions,
        router: Router,
        host: String,
        queue: CommitQueue,
        counters: Arc<SourceCounters>,
        stop: Arc<AtomicBool>,
    ) -> JournalFollower {
        let path = config.directory.clone().unwrap_or_else(|| PathBuf::from("journal"));
        let source = match &config.directory {
            None => "journal".to_owned(),
            Some(directory) => format!("journal:{}", directory.escaped()),
        };
        let name = xxhash_rust::xxh3::xxh3_64(format!("{}\n{source}", config.name).as_bytes());
        let identity = SourceId::new(SourceStart::NONE, router.host(), name);
        let state = SourceState::new(identity, SourceKind::Journal, config.name.clone(), path);
        let (directory, units) = (config.directory.clone(), config.units.clone());
        let mut follower = JournalFollower {
            query: JournalQuery { directory, units, level_at_least: config.level_at_least },
            reading: JournalReading::new(config.reading.clone()),
            config,
            source,
            host,
            rows: RecordWriter::new(router),
            epoch: queue.epoch(),
            queue,
            counters,
            stop,
            state,
            is_begun: false,
            beginning: None,
            is_changed: false,
            routes: RouteCaches::default(),
            oldest: None,
            pause: PAUSES.0,
        };
        follower.rewind();
        follower
    }

    /// Reads until the daemon stops or the store is closed.
    pub(super) fn run(mut self) {
        while !self.is_stopping() {
            let end = match self.follow() {
                Ok(()) | Err(ReadEnd::Stopped) => break,
                Err(ReadEnd::Failed(error)) => self.fail(error),
                Err(ReadEnd::Refused(refused)) => Err(refused),
            };
            match end {
                Ok(()) => {}
                Err(SubmitError::Stale) => self.rewind(),
                Err(SubmitError::Closed) => return,
            }
        }
        // A refused submission is not a loss, because its entries are read again.
        let _ = self.hand_over();
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Returns to the committed position.
    fn rewind(&mut self) {
        let (epoch, sources) = self.queue.sources();
        self.epoch = epoch;
        let committed = sources.into_iter().find(|source| source.identity == self.state.identity);
        self.is_changed = false;
        match committed {
            Some(committed) => {
                self.state = SourceState::clone(&committed);
                self.is_begun = true;
            }
            // The first cursor stays, so that entries since then are read.
            None => {
                self.state.cursor = self.beginning.clone().unwrap_or_default();
                (self.state.position, self.state.ledger) = Default::default();
                self.is_begun = self.beginning.is_some();
                self.is_changed = self.is_begun;
            }
        }
        self.rows.take();
        self.oldest = None;
    }

    /// Logs a failure of the process, and pauses.
    fn fail(&mut self, error: String) -> Result<(), SubmitError> {
        self.counters.count(SourceEvent::ReadError, 1);
        if self.pause < PAUSES.1 {
            tracing::warn!(block = self.config.name, error, "reading the journal was interrupted, retrying");
        }
        self.hand_over()?;
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(PAUSES.1);
        while !self.is_stopping() && Instant::now() < until {
            std::thread::sleep(PAUSES.0.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Chooses the first position of a new journal and commits it, so that every later entry is read even after a crash.
    fn begin(&mut self) -> Result<(), ReadEnd> {
        if self.config.read_from == ReadFrom::End {
            self.state.cursor = self.first_cursor(&self.query.of_all(), Start::Newest)?.unwrap_or_default();
        }
        self.beginning = Some(self.state.cursor.clone());
        self.is_begun = true;
        self.is_changed = true;
        Ok(self.hand_over()?)
    }

    /// The cursor of the first entry in the output. `None` without entries.
    fn first_cursor(&self, query: &JournalQuery, start: Start<'_>) -> Result<Option<String>, ReadEnd> {
        let failed = |error: std::io::Error| ReadEnd::Failed(format!("failed to run journalctl: {error}"));
        let mut reader = query.once(start).map_err(failed)?;
        let (mut entries, mut buffer, mut cursor) = (JournalParser::new(1 << 10), vec![0; 4 << 10], None);
        let deadline = Instant::now() + ANSWER;
        while cursor.is_none() && Instant::now() < deadline {
            if self.is_stopping() {
                return Err(ReadEnd::Stopped);
            }
            match reader.read(&mut buffer, IDLE).map_err(failed)? {
                None => {}
                Some(0) => {
                    let ended = reader.end();
                    return if ended.is_success { Ok(None) } else { Err(ReadEnd::Failed(ended.how)) };
                }
                Some(read) => entries
                    .feed(&buffer[..read], |entry| {
                        cursor = cursor.take().or_else(|| entry.text("__CURSOR").map(str::to_owned));
                    })
                    .map_err(|error| ReadEnd::Failed(error.to_string()))?,
            }
        }
        cursor.map(Some).ok_or_else(|| ReadEnd::Failed("journalctl does not answer".into()))
    }

    /// Reads until an end.
    fn follow(&mut self) -> Result<(), ReadEnd> {
        if !self.is_begun {
            self.begin()?;
        }
        let cursor = self.state.cursor.clone();
        let start = if cursor.is_empty() { Start::Beginning } else { Start::At(&cursor) };
        let failed = |error: std::io::Error| ReadEnd::Failed(format!("failed to run journalctl: {error}"));
        let mut reader = self.query.follow(start).map_err(failed)?;
        let mut entries = JournalParser::new(usize::try_from(self.config.entry_bytes_max.get()).unwrap_or(1 << 20));
        let mut is_expected = !cursor.is_empty();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if self.is_stopping() {
                return Err(ReadEnd::Stopped);
            }
            if self.queue.epoch() != self.epoch {
                return Err(SubmitError::Stale.into());
            }
            let patience = if self.oldest.is_some() { HAND_OVER } else { IDLE };
            match reader.read(&mut buffer, patience).map_err(failed)? {
                Some(0) => return Err(ReadEnd::Failed(reader.end().how)),
                Some(read) => {
                    let now = time::now();
                    let mut refused = Ok(());
                    let fed = entries.feed(&buffer[..read], |entry| {
                        if std::mem::take(&mut is_expected) && self.is_last(&entry) {
                            return;
                        }
                        self.take(&entry, now);
                        if refused.is_ok() && self.rows.bytes() >= SUBMISSION_BYTES {
                            refused = self.hand_over();
                        }
                    });
                    refused?;
                    fed.map_err(|error| ReadEnd::Failed(format!("journalctl printed a malformed entry: {error}")))?;
                }
                None => self.counters.unread_since.store(0, Ordering::Relaxed),
            }
            if self.oldest.is_some_and(|oldest| oldest.elapsed() >= HAND_OVER) {
                self.hand_over()?;
            }
        }
    }

    /// Whether the first entry is the last one that was read. If not, the journal has removed that one, or the configuration now
    /// filters it.
    fn is_last(&mut self, entry: &JournalEntry<'_>) -> bool {
        let found = entry.text("__CURSOR").unwrap_or_default();
        if is_same(found, &self.state.cursor) {
            return true;
        }
        let first = match self.query.is_choosy() {
            false => Ok(Some(found.to_owned())),
            true => self.first_cursor(&self.query.of_all(), Start::At(&self.state.cursor)),
        };
        let first = first.ok().flatten().unwrap_or_else(|| found.to_owned());
        if !is_same(&first, &self.state.cursor) {
            self.note_gap(&first);
        }
        false
    }

    /// Counts the entries between the last one that was read and the oldest present one.
    fn note_gap(&mut self, first: &str) {
        let last = JournalCursor::read(&self.state.cursor);
        let missing = last.zip(JournalCursor::read(first)).and_then(|(last, first)| last.missing_before(&first));
        self.counters.count(SourceEvent::JournalGap, 1);
        self.counters.count(VACUUMED, missing.unwrap_or(0));
        self.state.ledger.lost_records += missing.unwrap_or(0);
        let (block, last) = (&self.config.name, &self.state.cursor);
        match missing {
            Some(entries) => tracing::warn!(
                block,
                last,
                first,
                entries,
                "the journal was freed of entries before they were read, those of other units and levels among them; \
                 going on with the oldest that is left"
            ),
            None => tracing::warn!(
                block,
                last,
                first,
                "the journal is another one than before: what it had and was not read is gone; going on with its \
                 oldest entry since then"
            ),
        }
    }

    /// Writes an entry to its batch.
    fn take(&mut self, entry: &JournalEntry<'_>, now: Ticks) {
        if own_output::is_entry(|name| entry.text(name)) {
            own_output::pass_over(&self.source);
            // Committed together with the next foreign entry. A commit of its own could cause a log line, which would again cause
            // a commit.
            if let Some(cursor) = entry.text("__CURSOR") {
                self.state.cursor.clear();
                self.state.cursor.push_str(cursor);
            }
            return;
        }
        let JournalRecord { record, format, origin, is_invalid_utf8 } = self.reading.record(entry, now);
        let Some(cursor) = entry.text("__CURSOR") else {
            // `journalctl` gives every entry a cursor. Reading could not resume after an entry without a cursor.
            self.counters.count(VACUUMED, 1);
            self.state.ledger.lost_records += 1;
            return;
        };
        let (name, position) = origin.unwrap_or_else(|| cursor::origin(cursor));
        let identity = SourceId::new(SourceStart::NONE, self.rows.host(), name);
        let (counters, ledger) = (&*self.counters, &mut self.state.ledger);
        let bytes = entry.bytes();
        count(&counters.bytes, bytes);
        count(&counters.by_format[format.number()], 1);
        ledger.records += 1;
        ledger.bytes += bytes;
        if entry.cut > 0 {
            count(&counters.truncated, 1);
            ledger.truncated_records += 1;
            ledger.truncated_bytes += entry.cut as u64;
        }
        if is_invalid_utf8 {
            count(&counters.invalid_utf8, 1);
            ledger.invalid_utf8_records += 1;
        }
        let time = record.time.unwrap_or(now);
        let instance = self.config.instance.render(&self.host, &self.source, |name| record.text(name));
        let origin = Origin { identity, position, source: &self.source, tenant: None };
        self.rows.write(&mut self.routes, &instance, &record, origin, now, counters);
        counters.unread_since.store(time.get().unsigned_abs(), Ordering::Relaxed);
        self.state.cursor.clear();
        self.state.cursor.push_str(cursor);
        self.state.position += 1;
        self.state.last_time = Some(time);
        self.is_changed = true;
        self.pause = PAUSES.0;
        self.oldest.get_or_insert_with(Instant::now);
    }

    /// Submits the rows with the cursor of the last entry. Blocks while the commit queue is full.
    fn hand_over(&mut self) -> Result<(), SubmitError> {
        self.oldest = None;
        if !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        self.state.seen = time::now();
        let (batches, newest) = self.rows.take();
        self.queue.submit(Submission {
            batches,
            advances: vec![self.state.clone().into()],
            newest,
            epoch: self.epoch,
            ..Submission::default()
        })
    }
}

/// Whether two cursors identify one entry.
fn is_same(one: &str, other: &str) -> bool {
    one == other || JournalCursor::read(one).is_some_and(|read| JournalCursor::read(other) == Some(read))
}
