//! The tailer's thread: looks for files, gives each that has something to read a turn, hands over what they gave.
//!
//! A round gives every file that is due one turn of a chunk, so none waits longer for a large one than for a small one.
//! What a round has read is handed over when it is large or old enough, and at its end: rows and positions together.
//! Positions move nowhere else, so whatever is not committed is read again.
//!
//! Here is the loop; `adopt` decides what a file that was found is, `rotation` what became of one that was followed,
//! `change` what becomes of all of them when the configuration does.

use super::change::{Change, PreparedTail, open_max};
use super::discover::Discovery;
use super::file_content::FileStamp;
use super::file_reader::{ReadContext, ReadOutcome, TailEnd};
use super::followed_file::FileAccess;
use super::followed_files::FollowedFiles;
use super::idle_files::IdleFiles;
use super::ignored_files::IgnoredFile;
use super::options::{TailOptions, TailTimings};
use super::source_index::SourceIndex;
use super::wakeup::Wakeup;
use crate::batcher::Batcher;
use crate::counters::{SourceCounters, SourceEvent};
use crate::route::Router;
use crate::tail::WatchMode;
use daytable_model::path_text::PathText;
use daytable_model::time::Ticks;
use daytable_platform::memory;
use daytable_store::{Ack, CommitQueue, SourceKind, SourceState, SourceStatus, Submission, SubmitError};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Bytes of rows that are handed over at once.
const SUBMISSION_BYTES: usize = 4 << 20;
/// How long the buffer is kept while nothing is read.
const BUFFER_KEPT: Duration = Duration::from_secs(10);

/// For how long a stop reads on.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// All that the thread has.
pub(super) struct Follower {
    pub(super) blocks: Vec<TailOptions>,
    pub(super) counters: Vec<Arc<SourceCounters>>,
    pub(super) timings: TailTimings,
    pub(super) wakeup: Wakeup,
    pub(super) discovery: Discovery,
    pub(super) idle_files: IdleFiles,
    pub(super) sources: SourceIndex,
    pub(super) files: FollowedFiles,
    /// Paths that were found and are no source, or none yet.
    pub(super) ignored: HashMap<PathBuf, IgnoredFile>,
    /// States of sources that are not followed, for the next submission.
    pub(super) detached: Vec<SourceState>,
    /// Whether every file that is found was there before the daemon.
    pub(super) is_first_look: bool,
    /// Of each block, whether it has no source from an earlier run.
    pub(super) is_first_run: Vec<bool>,
    host: String,
    router: Router,
    pub(super) intake: CommitQueue,
    epoch: u64,
    batcher: Batcher,
    /// The newest time of the rows that are gathered.
    newest: Option<Ticks>,
    buffer: Vec<u8>,
    last_read: Instant,
    /// When the oldest row in `batcher` was read.
    oldest: Option<Instant>,
    /// Number of the last submission, and of the last that is committed.
    submitted: u64,
    committed: Arc<AtomicU64>,
    gauged_at: Option<Instant>,
}

impl Follower {
    /// Nothing is found yet. `counters` are those of the blocks, in their order.
    pub(super) fn new(
        PreparedTail { blocks, patterns }: PreparedTail,
        router: Router,
        host: String,
        intake: CommitQueue,
        counters: Vec<Arc<SourceCounters>>,
        timings: TailTimings,
    ) -> io::Result<Follower> {
        let wakeup = Wakeup::new()?;
        let with_events = blocks.iter().any(|block| block.watch == WatchMode::Auto);
        let (epoch, sources) = intake.sources();
        let is_new = |block: &TailOptions| !sources.iter().any(|state| is_tailed(state) && state.block == block.name);
        Ok(Follower {
            is_first_run: blocks.iter().map(is_new).collect(),
            counters,
            timings,
            discovery: Discovery::new(patterns, with_events.then_some(&wakeup)),
            idle_files: IdleFiles::default(),
            wakeup,
            sources: SourceIndex::new(sources.into_iter().filter(is_tailed)),
            files: FollowedFiles::new(open_max(&blocks)),
            ignored: HashMap::new(),
            detached: Vec::new(),
            is_first_look: true,
            blocks,
            host,
            router,
            intake,
            epoch,
            batcher: Batcher::default(),
            newest: None,
            buffer: Vec::new(),
            last_read: Instant::now(),
            oldest: None,
            submitted: 0,
            committed: Arc::default(),
            gauged_at: None,
        })
    }

    /// Follows files until it is told to stop, or the store takes nothing more.
    pub(super) fn run(mut self, changes: &Receiver<Change>) {
        self.resume_all();
        while !self.wakeup.is_stopping() {
            if self.wakeup.was_called() {
                changes.try_iter().for_each(|change| self.change(change));
            }
            match self.round() {
                Ok(()) => self.wait(),
                Err(SubmitError::Stale) => self.rewind(),
                Err(SubmitError::Closed) => return,
            }
        }
        // What is not handed over is read again by the next daemon.
        let _ = self.read_rest();
    }

    /// Reads once more what was written until now, as far as that goes in [`LAST_LOOK`]: the folder may go with the process,
    /// and the files with both.
    fn read_rest(&mut self) -> Result<(), SubmitError> {
        let until = Instant::now() + LAST_LOOK;
        self.discovery.hurry();
        self.discover();
        for identity in self.files.identities() {
            // An outbox that is full is passed by one submission a source at a stop, no more.
            let is_over = |follower: &Follower| Instant::now() >= until || follower.intake.is_full();
            let is_read = |file: &super::followed_file::FollowedFile| file.status() != SourceStatus::Ended;
            let mut has_more = self.files.file(identity).is_some_and(is_read);
            while has_more && !is_over(self) {
                self.check_file(identity);
                if self.batcher.bytes() >= SUBMISSION_BYTES {
                    self.submit()?;
                }
                has_more = self.files.file(identity).is_some_and(|file| file.has_more);
            }
        }
        self.submit()
    }

    /// Looks for files, and at those that are due, and hands over what they gave.
    pub(super) fn round(&mut self) -> Result<(), SubmitError> {
        if self.intake.epoch() != self.epoch {
            return Err(SubmitError::Stale);
        }
        self.discover();
        for identity in self.due(Instant::now()) {
            self.check_file(identity);
            let is_old = self.oldest.is_some_and(|oldest| oldest.elapsed() >= self.timings.submit);
            if is_old || self.batcher.bytes() >= SUBMISSION_BYTES {
                self.submit()?;
                if self.wakeup.is_stopping() {
                    return Ok(());
                }
            }
            if self.discovery.is_due(Instant::now(), &self.timings) {
                self.discover();
            }
        }
        // While there is more to read, batches fill up over rounds.
        if !self.files.iter().any(|file| file.has_more) {
            self.submit()?;
        }
        self.remove_ended();
        self.update_gauges();
        if self.last_read.elapsed() >= BUFFER_KEPT && self.buffer.capacity() > 0 {
            self.buffer = Vec::new();
            memory::release_free();
        }
        Ok(())
    }

    fn due(&self, now: Instant) -> Vec<u64> {
        let is_due = |file: &&super::followed_file::FollowedFile| {
            file.status() != SourceStatus::Ended && (file.has_more || file.schedule.next <= now)
        };
        self.files.iter().filter(is_due).map(|file| file.state().identity).collect()
    }

    /// Sleeps until a file is due, a folder is, or something is noted.
    fn wait(&self) {
        let now = Instant::now();
        let looked_at = self.files.iter().filter(|file| file.status() != SourceStatus::Ended);
        let next = looked_at.map(|file| if file.has_more { now } else { file.schedule.latest() }).min();
        let wait =
            next.map_or(self.timings.folders, |next| next.saturating_duration_since(now)).min(self.timings.folders);
        if !wait.is_zero() || next.is_some_and(|next| next > now) {
            // Files that are due at about the same time are served by one round.
            self.wakeup.wait(wait.max(self.timings.poll_min), self.idle_files.events());
        }
    }

    fn discover(&mut self) {
        let now = Instant::now();
        let errors = self.discovery.errors();
        let is_poll = self.discovery.is_due(now, &self.timings);
        let folder_changes = self.wakeup.take();
        let listed = self.discovery.list_changed(&folder_changes, now, &self.timings);
        self.wake_idle(folder_changes.is_all, &listed.folders);
        for found in listed.found {
            self.consider(found);
        }
        for path in listed.rotated {
            self.consider_rotated(path);
        }
        if let Some(block) = self.counters.first() {
            block.count(SourceEvent::ReadError, self.discovery.errors() - errors);
        }
        self.is_first_look = false;
        if is_poll {
            self.check_ignored();
        }
    }

    /// Looks whether a file has changed, and reads on in it.
    pub(super) fn check_file(&mut self, identity: u64) {
        let now = Instant::now();
        let Some(file) = self.files.file_mut(identity) else { return };
        let unread = file.unread();
        if file.has_more {
            return self.read_chunk(identity, TailEnd::Open, unread);
        }
        let stamp = match (file.access, &file.reader.content) {
            (FileAccess::Descriptor, Some(content)) => content.stamp().map(Some),
            (FileAccess::Descriptor, None) => Err(io::ErrorKind::NotFound.into()),
            (FileAccess::Path, _) => FileStamp::at(&file.path),
        };
        match stamp {
            Ok(Some(stamp)) if stamp.is_same_file(&file.stamp) => {
                let is_quiet = stamp == FileStamp { links: stamp.links, ..file.stamp };
                file.stamp = stamp;
                if is_quiet {
                    return self.file_is_quiet(identity, now);
                }
                file.is_final = false;
                file.schedule.after_change(now, &self.timings);
                self.wake(identity);
                self.read_chunk(identity, TailEnd::Open, unread);
            }
            Err(error) if !is_gone(&error) => self.read_failed(identity, error),
            _ => {
                self.wake(identity);
                self.file_moved(identity, unread);
            }
        }
    }

    fn file_is_quiet(&mut self, identity: u64, now: Instant) {
        let Some(file) = self.files.file_mut(identity) else { return };
        file.schedule.after_quiet(now, self.blocks[file.block].poll, &self.timings);
        let quiet = file.schedule.quiet_for(now);
        if quiet >= self.timings.poll_max {
            file.reader.forget_parser();
        }
        if let Some(wait) = file.reader.open() {
            if quiet >= wait {
                let (unread, size) = (file.unread(), file.stamp.size);
                return self.read_chunk(identity, TailEnd::FinalRecord { size }, unread);
            }
            file.schedule.next = file.schedule.next.min(now + wait - quiet);
        }
        if file.status() == SourceStatus::Live {
            return self.watch_if_idle(identity, now);
        }
        if quiet < self.timings.line_final {
            // A second of rest must not make five seconds of quiet six.
            file.schedule.next = file.schedule.next.min(now + self.timings.line_final - quiet);
        } else if !file.is_final {
            let unread = file.unread();
            self.read_chunk(identity, TailEnd::Final, unread);
        } else if file.access == FileAccess::Descriptor && file.stamp.links == 0 || quiet >= self.timings.rotated {
            self.end(identity);
        }
    }

    /// Reads a chunk. `unread`: how much there was to read before the file changed, if it did.
    fn read_chunk(&mut self, identity: u64, tail_end: TailEnd, unread: u64) {
        let version = self.router.version();
        self.router.refresh();
        if self.router.version() != version {
            self.files.iter_mut().for_each(|file| file.reader.forget_parser());
        }
        match self.files.reopen(identity) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return self.file_moved(identity, unread),
            Err(error) => return self.read_failed(identity, error),
        }
        let Some(file) = self.files.file_mut(identity) else { return };
        let block = file.block;
        let mut context = ReadContext {
            buffer: &mut self.buffer,
            router: &self.router,
            batcher: &mut self.batcher,
            options: &self.blocks[block],
            counters: &self.counters[block],
            host: &self.host,
            now: daytable_model::time::now(),
            newest: &mut self.newest,
        };
        let is_compressed = file.reader.content.as_ref().is_some_and(|content| content.is_compressed());
        let before = (file.state().position, file.state().ledger.lost_bytes);
        let outcome = file.reader.read_chunk(if is_compressed { TailEnd::Final } else { tail_end }, &mut context);
        file.is_in_use = true;
        self.last_read = Instant::now();
        if (file.state().position, file.state().ledger.lost_bytes) != before {
            file.is_changed = true;
            self.oldest.get_or_insert_with(Instant::now);
        }
        match outcome {
            Ok(outcome @ (ReadOutcome::More | ReadOutcome::AtEnd)) => {
                file.has_more = outcome == ReadOutcome::More;
                file.is_final = tail_end == TailEnd::Final && outcome == ReadOutcome::AtEnd;
                file.failed = None;
                if outcome == ReadOutcome::AtEnd && (tail_end != TailEnd::Open || file.state().position == before.0) {
                    // Its last line has waited, or waits now.
                    file.reader.forget_parser();
                }
                if outcome == ReadOutcome::AtEnd && is_compressed {
                    // It has its whole content: what decodes it takes more memory than it is worth.
                    file.reader.content = None;
                }
            }
            Ok(ReadOutcome::Rewritten) => self.rewritten(identity, unread),
            Err(error) => self.read_failed(identity, error),
        }
    }

    /// Notes that a file cannot be read; it is tried again later, and the others go on.
    fn read_failed(&mut self, identity: u64, error: io::Error) {
        let Some(file) = self.files.file_mut(identity) else { return };
        self.counters[file.block].count(SourceEvent::ReadError, 1);
        if file.failed.replace(error.kind()) != Some(error.kind()) {
            tracing::warn!(path = %file.path.escaped(), %error, "cannot read file");
        }
        file.has_more = false;
        if file.access == FileAccess::Path {
            file.reader.content = None;
        }
        file.schedule.after_trouble(Instant::now(), &self.timings);
    }

    /// Hands over the rows that were read, with the positions they were read up to.
    pub(super) fn submit(&mut self) -> Result<(), SubmitError> {
        let number = self.submitted + 1;
        let seen = daytable_model::time::now();
        let mut advances: Vec<_> = self.detached.drain(..).map(Arc::new).collect();
        for file in self.files.iter_mut().filter(|file| file.is_changed) {
            file.is_changed = false;
            let state = file.submit(number, seen);
            self.sources.put(state.clone());
            advances.push(state);
        }
        self.oldest = None;
        if advances.is_empty() {
            return Ok(());
        }
        self.submitted = number;
        let committed = self.committed.clone();
        let done = Ack::new(move |is_committed| {
            if is_committed {
                committed.fetch_max(number, Ordering::Release);
            }
        });
        self.intake.submit(Submission {
            batches: self.batcher.take(),
            advances,
            newest: self.newest.take(),
            epoch: self.epoch,
            ack: done,
            ..Submission::default()
        })
    }

    /// A commit failed: all that is not committed is read again.
    pub(super) fn rewind(&mut self) {
        let (epoch, sources) = self.intake.sources();
        tracing::warn!(epoch, "a commit failed, files are read again from what is committed");
        self.epoch = epoch;
        self.batcher.take();
        self.newest = None;
        self.detached.clear();
        self.oldest = None;
        self.ignored.clear();
        let mut committed: HashMap<u64, Arc<SourceState>> =
            sources.into_iter().filter(is_tailed).map(|state| (state.identity, state)).collect();
        let now = Instant::now();
        let done = self.committed.load(Ordering::Acquire);
        for file in self.files.iter_mut() {
            file.was_committed(done);
            file.rewind(committed.get(&file.state().identity), now);
            committed.insert(file.state().identity, Arc::new(file.state().clone()));
        }
        self.sources = SourceIndex::new(committed.into_values());
        self.resume_all();
    }

    /// Lets go of files that were read to their end, once that is committed.
    fn remove_ended(&mut self) {
        let committed = self.committed.load(Ordering::Acquire);
        let is_over = |file: &&super::followed_file::FollowedFile| {
            file.status() == SourceStatus::Ended && !file.is_changed && file.submitted <= committed
        };
        let over: Vec<u64> = self.files.iter().filter(is_over).map(|file| file.state().identity).collect();
        for identity in over {
            self.files.remove(identity);
        }
    }

    /// Brings the gauges up to date, once a second.
    fn update_gauges(&mut self) {
        if self.gauged_at.is_some_and(|gauged_at| gauged_at.elapsed() < Duration::from_secs(1)) {
            return;
        }
        self.gauged_at = Some(Instant::now());
        let now = daytable_model::time::now();
        let committed = self.committed.load(Ordering::Acquire);
        for file in self.files.iter_mut() {
            file.note_lag(now);
            file.was_committed(committed);
        }
        for (number, block) in self.counters.iter().enumerate() {
            let files = || self.files.iter().filter(|file| file.block == number);
            block.followed_files.store(files().count() as u64, Ordering::Relaxed);
            let open = files().filter(|file| file.reader.content.is_some()).count();
            block.open_files.store(open as u64, Ordering::Relaxed);
            let bytes = files().map(|file| file.unread()).max();
            block.lag_bytes.store(bytes.unwrap_or(0), Ordering::Relaxed);
            let since = files().filter_map(|file| file.lag.since()).min();
            block.unread_since.store(since.map_or(0, |since| since.get().unsigned_abs()), Ordering::Relaxed);
        }
    }

    /// The counts of a block.
    pub(super) fn counters_of(&self, block: usize) -> &SourceCounters {
        &self.counters[block]
    }
}

pub(super) fn is_tailed(state: &Arc<SourceState>) -> bool {
    state.kind == SourceKind::Tail
}

/// Whether an error says that a path leads nowhere.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput)
}
