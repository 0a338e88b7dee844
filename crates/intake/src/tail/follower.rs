//! The loop of the tail thread: discovers files, reads those that changed, and submits what was read.
//!
//! ```text
//! discovery -> discovered_files -+-> followed_files -> chunk_reader -> submissions -> commit queue
//!  (paths)     (which source      |   (checked by      (a chunk of     (rows with
//!               is the file?)     |    schedule)        one file)       positions)
//!                                 +-> ignored_files
//! ```
//!
//! A round reads at most one chunk of each file that is due. So a small file does not wait for a large one. A round submits
//! when there are many rows or old ones, and at its end.
//!
//! [`TailFollower`] connects the parts. Each part keeps its own state: the blocks, the files and their sources, the rows that
//! wait, the files that are ignored, the watches of quiet files. `discovered_files`, `rotation`, `resume` and `change` are
//! what the follower does with a file that appears, that moves, that an earlier run knew, and that gets another block.

use super::blocks::{BlockChange, PreparedTail, TailBlocks};
use super::chunk_reader::ChunkReader;
use super::discovery::Discovery;
use super::file_content::FileStat;
use super::file_reader::{ReadOutcome, TailEnd};
use super::followed_file::FileAccess;
use super::followed_files::FollowedFiles;
use super::ignored_files::{IgnoreReason, IgnoredFiles};
use super::options::TailTimings;
use super::related_files::RelatedFiles;
use super::source_index::SourceIndex;
use super::submissions::Submissions;
use super::wakeup::Wakeup;
use super::write_watches::WriteWatches;
use crate::counters::{SourceCounters, SourceEvent};
use crate::route::Router;
use daytable_model::path_text::PathText;
use daytable_model::source_id::SourceId;
use daytable_store::{CommitQueue, SourceStatus, SubmitError};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// How long a stop reads on.
const FINAL_READ: Duration = Duration::from_secs(1);
/// Time between two updates of the gauges.
const GAUGES_EVERY: Duration = Duration::from_secs(1);

/// Files with a line without an end that are shown.
const UNENDED_SHOWN_MAX: usize = 1000;

/// State of the tail thread.
pub(super) struct TailFollower {
    pub(super) blocks: TailBlocks,
    pub(super) timings: TailTimings,
    pub(super) wakeup: Wakeup,
    pub(super) discovery: Discovery,
    pub(super) watches: WriteWatches,
    pub(super) sources: SourceIndex,
    pub(super) files: FollowedFiles,
    pub(super) ignored: IgnoredFiles,
    pub(super) submissions: Submissions,
    pub(super) chunk_reader: ChunkReader,
    /// Whether every file that is discovered was there before the daemon.
    pub(super) is_first_discovery: bool,
    gauged_at: Option<Instant>,
}

impl TailFollower {
    /// A follower without discovered files. `counters` are those of the blocks, in their order. Fails if the process
    /// has no descriptor left.
    pub(super) fn new(
        PreparedTail { blocks, patterns }: PreparedTail,
        router: Router,
        host: String,
        queue: CommitQueue,
        counters: Vec<Arc<SourceCounters>>,
        timings: TailTimings,
    ) -> io::Result<TailFollower> {
        let wakeup = Wakeup::new()?;
        let (submissions, sources) = Submissions::new(queue);
        let blocks = TailBlocks::new(blocks, counters, |block| !sources.iter().any(|state| state.block == block.name));
        Ok(TailFollower {
            discovery: Discovery::new(patterns, blocks.want_events().then_some(&wakeup)),
            files: FollowedFiles::new(blocks.open_files_max()),
            blocks,
            timings,
            wakeup,
            watches: WriteWatches::default(),
            sources: SourceIndex::new(sources, router.host()),
            ignored: IgnoredFiles::default(),
            submissions,
            chunk_reader: ChunkReader::new(router, host),
            is_first_discovery: true,
            gauged_at: None,
        })
    }

    /// Follows files until it is stopped, or until the store is closed.
    pub(super) fn run(mut self, changes: &Receiver<BlockChange>) {
        self.resume_all();
        while !self.wakeup.is_stopping() {
            if self.wakeup.was_called() {
                changes.try_iter().for_each(|change| self.change(change));
            }
            let round_began = Instant::now();
            match self.round() {
                Ok(()) => self.wait(round_began),
                Err(SubmitError::Stale) => self.rewind(),
                Err(SubmitError::Closed) => return,
            }
        }
        // The next daemon reads refused rows again.
        let _ = self.read_finally();
    }

    /// Reads the last written bytes, for [`FINAL_READ`] at most: the folder may be removed together with the process.
    fn read_finally(&mut self) -> Result<(), SubmitError> {
        let until = Instant::now() + FINAL_READ;
        self.discovery.force_due();
        self.discover();
        for identity in self.files.identities() {
            // At a stop, each source may pass a full outbox with one submission.
            let is_over = |follower: &TailFollower| Instant::now() >= until || follower.submissions.is_queue_full();
            let mut has_more = self.files.file(identity).is_some_and(|file| !file.has_ended());
            while has_more && !is_over(self) {
                self.check_file(identity);
                if self.submissions.are_large() {
                    self.submit()?;
                }
                has_more = self.files.file(identity).is_some_and(|file| file.has_more);
            }
        }
        self.submit()
    }

    /// Discovers files, reads those that are due, and submits what was read.
    pub(super) fn round(&mut self) -> Result<(), SubmitError> {
        if self.submissions.is_stale() {
            return Err(SubmitError::Stale);
        }
        self.discover();
        for identity in self.files.due(Instant::now()) {
            self.check_file(identity);
            if self.submissions.are_older_than(self.timings.submit_after) || self.submissions.are_large() {
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
        if !self.files.have_more() {
            self.submit()?;
        }
        self.files.remove_ended(self.submissions.committed());
        self.update_gauges();
        self.chunk_reader.release_unused_buffer();
        Ok(())
    }

    /// Sleeps until a file is due, a folder is, or something wakes the thread.
    fn wait(&self, round_began: Instant) {
        let now = Instant::now();
        let next = self.files.next_check(now);
        let folders = self.timings.folders;
        let wait = next.map_or(folders, |next| next.saturating_duration_since(now)).min(folders);
        if !wait.is_zero() || next.is_some_and(|next| next > now) {
            // One round reads the files that were written, or are due, at about the same time.
            let since = round_began.elapsed();
            let is_woken = since < self.timings.poll_min && self.wakeup.wait(self.timings.poll_min - since, None);
            if !is_woken {
                self.wakeup.wait(wait.max(self.timings.poll_min), self.watches.events());
            }
        }
    }

    fn discover(&mut self) {
        let now = Instant::now();
        let errors = self.discovery.errors().to_vec();
        let is_poll = self.discovery.is_due(now, &self.timings);
        let folder_changes = self.wakeup.take_folder_changes();
        let listing = self.discovery.list_changed(&folder_changes, now, &self.timings);
        self.watches.wake_written(&mut self.files, folder_changes.is_all, &listing.folders);
        for discovered in listing.included {
            self.consider(discovered);
        }
        for path in listing.rotated {
            self.consider_rotated(path);
        }
        for (counters, (now, before)) in self.blocks.all_counters().zip(self.discovery.errors().iter().zip(errors)) {
            counters.count(SourceEvent::ReadError, now - before);
        }
        self.is_first_discovery = false;
        if is_poll {
            self.check_ignored();
        }
    }

    /// Reads on in a file if it has changed, or could not be read.
    pub(super) fn check_file(&mut self, identity: SourceId) {
        let now = Instant::now();
        let Some(file) = self.files.file_mut(identity) else { return };
        let unread = file.unread();
        if file.has_more {
            return self.read_chunk(identity, TailEnd::Open, unread);
        }
        let stat = match (file.access, &file.reader.content) {
            (FileAccess::Descriptor, Some(content)) => content.stat().map(Some),
            (FileAccess::Descriptor, None) => Err(io::ErrorKind::NotFound.into()),
            (FileAccess::Path, _) => FileStat::at(&file.path),
        };
        match stat {
            Ok(Some(stat)) if stat.is_same_file(&file.stat) => {
                let are_zeros_final = file.have_zeros_become_final(now, self.timings.zeros_final);
                let is_quiet = stat.is_same_content(&file.stat);
                file.stat = stat;
                if is_quiet && file.failed.is_none() && !are_zeros_final {
                    return self.file_is_quiet(identity, now);
                }
                if !is_quiet {
                    file.is_final = false;
                    self.watches.wake(file);
                    file.schedule.after_change(now, &self.timings);
                }
                self.read_chunk(identity, TailEnd::Open, unread);
                self.schedule_next(identity, now);
            }
            Err(error) if !is_gone(&error) => self.read_failed(identity, error),
            _ => {
                self.watches.wake(file);
                self.file_moved(identity, unread);
            }
        }
    }

    /// Schedules what follows a read: the end of an open record's wait, and the watch of a file that changes rarely.
    fn schedule_next(&mut self, identity: SourceId, now: Instant) {
        let Some(file) = self.files.file_mut(identity).filter(|file| !file.has_more && file.failed.is_none()) else {
            return;
        };
        file.note_zeros(now, self.timings.zeros_final);
        let options = self.blocks.options(file.block);
        if let Some(wait) = file.reader.open().or(options.unended_after.filter(|_| file.has_unended_line())) {
            file.schedule.check_by(now + wait);
        }
        if file.status() == SourceStatus::Live {
            self.watches.watch_if_quiet(file, options.watch, now, &self.timings);
        }
    }

    fn file_is_quiet(&mut self, identity: SourceId, now: Instant) {
        let Some(file) = self.files.file_mut(identity) else { return };
        let options = self.blocks.options(file.block);
        file.schedule.after_quiet(now, options.poll, &self.timings);
        file.note_zeros(now, self.timings.zeros_final);
        let quiet = file.schedule.quiet_for(now);
        if quiet >= self.timings.poll_max {
            file.reader.forget_parser();
        }
        if let Some(wait) = file.reader.open() {
            if quiet >= wait {
                let (unread, size) = (file.unread(), file.stat.size);
                return self.read_chunk(identity, TailEnd::FinalRecord { size }, unread);
            }
            file.schedule.check_by(now + wait - quiet);
        }
        if file.status() == SourceStatus::Live {
            let is_waiting = file.has_unended_line() && !options.is_older(&file.stat, daytable_model::time::now());
            let after = options.unended_after.filter(|_| is_waiting);
            if after.is_some_and(|after| quiet >= after) {
                let (unread, size) = (file.unread(), file.stat.size);
                return self.read_chunk(identity, TailEnd::FinalLine { size }, unread);
            }
            self.watches.watch_if_quiet(file, options.watch, now, &self.timings);
            if let Some(after) = after {
                file.schedule.check_by(now + after - quiet);
            }
            return;
        }
        let line_final = options.unended_after.unwrap_or(self.timings.line_final);
        if quiet < line_final {
            // A second of waiting must not make five seconds of quiet six.
            file.schedule.check_by(now + line_final - quiet);
        } else if !file.is_final {
            let unread = file.unread();
            self.read_chunk(identity, TailEnd::Final, unread);
        } else if file.access == FileAccess::Descriptor && file.stat.links == 0 || quiet >= self.timings.rotated {
            let path = file.path.clone();
            self.end(identity);
            // A file that is there now may have waited for the end of this one.
            if self.ignored.get(&path).is_some_and(|file| file.reason == IgnoreReason::Unfinished) {
                self.ignored.remove(&path);
                self.consider_path(path);
            }
        }
    }

    /// Reads a chunk. `unread` is the number of unread bytes before the file changed.
    fn read_chunk(&mut self, identity: SourceId, tail_end: TailEnd, unread: u64) {
        if self.chunk_reader.refresh_router() {
            self.files.iter_mut().for_each(|file| file.reader.forget_parser());
        }
        match self.files.reopen(identity) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return self.file_moved(identity, unread),
            Err(error) => return self.read_failed(identity, error),
        }
        let Some(file) = self.files.file_mut(identity) else { return };
        match self.chunk_reader.read(file, tail_end, &self.blocks, &mut self.submissions) {
            Ok(ReadOutcome::More | ReadOutcome::AtEnd) => {}
            Ok(ReadOutcome::Rewritten) => self.file_rewritten(identity, unread),
            Err(error) => self.read_failed(identity, error),
        }
    }

    /// A file cannot be read: it is tried again later, and the others are read meanwhile.
    pub(super) fn read_failed(&mut self, identity: SourceId, error: io::Error) {
        let Some(file) = self.files.file_mut(identity) else { return };
        self.blocks.counters(file.block).count(SourceEvent::ReadError, 1);
        if file.failed.replace(error.kind()) != Some(error.kind()) {
            tracing::warn!(path = %file.path.escaped(), %error, "failed to read a file, retrying");
        }
        file.has_more = false;
        if file.access == FileAccess::Path {
            file.reader.content = None;
        }
        file.schedule.after_trouble(Instant::now(), &self.timings);
    }

    /// Submits the rows that were read. Waits while the commit queue is full.
    pub(super) fn submit(&mut self) -> Result<(), SubmitError> {
        self.submissions.submit(&mut self.files, &mut self.sources)
    }

    /// A commit failed: everything that is not committed is read again.
    pub(super) fn rewind(&mut self) {
        let sources = self.submissions.restart();
        tracing::warn!(
            epoch = self.submissions.epoch(),
            "a commit failed, files are read again from the committed positions"
        );
        self.ignored.clear();
        let mut committed: HashMap<_, _> = sources.into_iter().map(|state| (state.identity, state)).collect();
        let (now, last_committed) = (Instant::now(), self.submissions.committed());
        for file in self.files.iter_mut() {
            file.was_committed(last_committed);
            file.rewind(committed.get(&file.state().identity), now);
            committed.insert(file.state().identity, Arc::new(file.state().clone()));
        }
        self.sources = SourceIndex::new(committed.into_values(), self.sources.host());
        self.resume_all();
    }

    fn update_gauges(&mut self) {
        if self.gauged_at.is_some_and(|gauged_at| gauged_at.elapsed() < GAUGES_EVERY) {
            return;
        }
        self.gauged_at = Some(Instant::now());
        let (now, committed) = (daytable_model::time::now(), self.submissions.committed());
        for file in self.files.iter_mut() {
            file.note_lag(now);
            file.was_committed(committed);
        }
        let followed = self.files.iter().filter(|file| file.has_unended_line());
        let followed = followed.map(|file| (file.path.as_path(), file.block, file.unread()));
        let waiting = followed.chain(self.ignored.waiting()).take(UNENDED_SHOWN_MAX);
        let waiting: Vec<_> = waiting.map(|(path, block, bytes)| (path.to_path_buf(), block, bytes)).collect();
        for (block, counters) in self.blocks.all_counters().enumerate() {
            self.files.measure(block, counters);
            let of_block = waiting.iter().filter(|(_, of, _)| *of == block);
            counters.set_unended(of_block.map(|(path, _, bytes)| (path, *bytes)));
        }
    }

    /// A view of the files and sources, to compare a file with them.
    pub(super) fn related_files(&self) -> RelatedFiles<'_> {
        let TailFollower { files, sources, ignored, discovery, .. } = self;
        RelatedFiles { files, sources, ignored, discovery }
    }

    /// Ignores a file from now on.
    pub(super) fn ignore(&mut self, path: PathBuf, block: usize, stat: FileStat, reason: IgnoreReason) {
        self.ignored.insert(path, block, stat, reason, None);
    }

    /// Ignores a file that cannot be read, until it is tried again.
    pub(super) fn ignore_failed(&mut self, path: PathBuf, block: usize, error: io::Error) {
        self.blocks.counters(block).count(SourceEvent::ReadError, 1);
        let reason = IgnoreReason::Failed(error.kind());
        self.ignored.insert(path, block, FileStat::default(), reason, Some(error));
    }
}

/// Whether an error means that there is no file at the path.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput)
}
