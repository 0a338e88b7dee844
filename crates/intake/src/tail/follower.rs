//! The tailer's thread: looks for files, gives each that has something to read a turn, hands over what they gave.
//!
//! A round gives every file that is due one turn of a chunk, so none waits longer for a large one than for a small one.
//! What a round has read is handed over when it is large or old enough, and at its end: rows and positions together.
//! Positions move nowhere else, so whatever is not committed is read again.
//!
//! Here is the loop; `adopt` decides what a file that was found is, `rotation` what became of one that was followed,
//! `change` what becomes of all of them when the configuration does.

use super::change::{Change, PreparedTail, open_max};
use super::content::Facts;
use super::cursor::{Desk, Rest, Turn};
use super::discover::Discovery;
use super::drowsy::Drowsy;
use super::files::Files;
use super::followed::Hold;
use super::hints::Hints;
use super::known::Known;
use super::options::{Pace, TailOptions};
use super::parked::Parked;
use crate::batcher::Batcher;
use crate::counters::{SourceCounters, SourceEvent};
use crate::route::Router;
use crate::tail::Watch;
use daytable_model::path_text::PathText;
use daytable_model::time::Ticks;
use daytable_platform::memory;
use daytable_store::{Done, Intake, Refused, SourceKind, SourceState, SourceStatus, Submission};
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
    pub(super) pace: Pace,
    pub(super) hints: Hints,
    pub(super) discovery: Discovery,
    pub(super) drowsy: Drowsy,
    pub(super) known: Known,
    pub(super) files: Files,
    /// Paths that were found and are no source, or none yet.
    pub(super) parked: HashMap<PathBuf, Parked>,
    /// States of sources that are not followed, for the next submission.
    pub(super) loose: Vec<SourceState>,
    /// Whether every file that is found was there before the daemon.
    pub(super) is_first_look: bool,
    /// Of each block, whether it has no source from an earlier run.
    pub(super) is_first_run: Vec<bool>,
    host: String,
    router: Router,
    pub(super) intake: Intake,
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
    gauged: Option<Instant>,
}

impl Follower {
    /// Nothing is found yet. `counters` are those of the blocks, in their order.
    pub(super) fn new(
        PreparedTail { blocks, patterns }: PreparedTail,
        router: Router,
        host: String,
        intake: Intake,
        counters: Vec<Arc<SourceCounters>>,
        pace: Pace,
    ) -> io::Result<Follower> {
        let hints = Hints::new()?;
        let with_events = blocks.iter().any(|block| block.watch == Watch::Auto);
        let (epoch, sources) = intake.sources();
        let is_new = |block: &TailOptions| !sources.iter().any(|state| is_tailed(state) && state.block == block.name);
        Ok(Follower {
            is_first_run: blocks.iter().map(is_new).collect(),
            counters,
            pace,
            discovery: Discovery::new(patterns, with_events.then_some(&hints)),
            drowsy: Drowsy::default(),
            hints,
            known: Known::new(sources.into_iter().filter(is_tailed)),
            files: Files::new(open_max(&blocks)),
            parked: HashMap::new(),
            loose: Vec::new(),
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
            gauged: None,
        })
    }

    /// Follows files until it is told to stop, or the store takes nothing more.
    pub(super) fn run(mut self, changes: &Receiver<Change>) {
        self.resume_all();
        while !self.hints.is_stopping() {
            if self.hints.was_called() {
                changes.try_iter().for_each(|change| self.change(change));
            }
            match self.round() {
                Ok(()) => self.rest(),
                Err(Refused::Stale) => self.rewind(),
                Err(Refused::Closed) => return,
            }
        }
        // What is not handed over is read again by the next daemon.
        let _ = self.last_look();
    }

    /// Reads once more what was written until now, as far as that goes in [`LAST_LOOK`]: the folder may go with the process,
    /// and the files with both.
    fn last_look(&mut self) -> Result<(), Refused> {
        let until = Instant::now() + LAST_LOOK;
        self.discovery.hurry();
        self.discover();
        for identity in self.files.identities() {
            // An outbox that is full is passed by one submission a source at a stop, no more.
            let is_over = |follower: &Follower| Instant::now() >= until || follower.intake.is_full();
            let is_read = |file: &super::followed::Followed| file.status() != SourceStatus::Ended;
            let mut has_more = self.files.file(identity).is_some_and(is_read);
            while has_more && !is_over(self) {
                self.look(identity);
                if self.batcher.bytes() >= SUBMISSION_BYTES {
                    self.hand_over()?;
                }
                has_more = self.files.file(identity).is_some_and(|file| file.has_more);
            }
        }
        self.hand_over()
    }

    /// Looks for files, and at those that are due, and hands over what they gave.
    pub(super) fn round(&mut self) -> Result<(), Refused> {
        if self.intake.epoch() != self.epoch {
            return Err(Refused::Stale);
        }
        self.discover();
        for identity in self.due(Instant::now()) {
            self.look(identity);
            let is_old = self.oldest.is_some_and(|oldest| oldest.elapsed() >= self.pace.hand_over);
            if is_old || self.batcher.bytes() >= SUBMISSION_BYTES {
                self.hand_over()?;
                if self.hints.is_stopping() {
                    return Ok(());
                }
            }
            if self.discovery.is_due(Instant::now(), &self.pace) {
                self.discover();
            }
        }
        // While there is more to read, batches fill up over rounds.
        if !self.files.iter().any(|file| file.has_more) {
            self.hand_over()?;
        }
        self.forget_ended();
        self.gauge();
        if self.last_read.elapsed() >= BUFFER_KEPT && self.buffer.capacity() > 0 {
            self.buffer = Vec::new();
            memory::release_free();
        }
        Ok(())
    }

    fn due(&self, now: Instant) -> Vec<u64> {
        let is_due = |file: &&super::followed::Followed| {
            file.status() != SourceStatus::Ended && (file.has_more || file.look.next <= now)
        };
        self.files.iter().filter(is_due).map(|file| file.state().identity).collect()
    }

    /// Sleeps until a file is due, a folder is, or something is noted.
    fn rest(&self) {
        let now = Instant::now();
        let looked_at = self.files.iter().filter(|file| file.status() != SourceStatus::Ended);
        let next = looked_at.map(|file| if file.has_more { now } else { file.look.latest() }).min();
        let wait = next.map_or(self.pace.folders, |next| next.saturating_duration_since(now)).min(self.pace.folders);
        if !wait.is_zero() || next.is_some_and(|next| next > now) {
            // Files that are due at about the same time are served by one round.
            self.hints.wait(wait.max(self.pace.look_min), self.drowsy.events());
        }
    }

    fn discover(&mut self) {
        let now = Instant::now();
        let errors = self.discovery.errors();
        let is_poll = self.discovery.is_due(now, &self.pace);
        let heard = self.hints.take();
        let listed = self.discovery.look(&heard, now, &self.pace);
        self.stir_all(heard.is_all, &listed.folders);
        for found in listed.found {
            self.meet(found);
        }
        for path in listed.rotated {
            self.meet_rotated(path);
        }
        if let Some(block) = self.counters.first() {
            block.count(SourceEvent::ReadError, self.discovery.errors() - errors);
        }
        self.is_first_look = false;
        if is_poll {
            self.look_at_parked();
        }
    }

    /// Looks whether a file has changed, and reads on in it.
    pub(super) fn look(&mut self, identity: u64) {
        let now = Instant::now();
        let Some(file) = self.files.file_mut(identity) else { return };
        let unread = file.unread();
        if file.has_more {
            return self.turn(identity, Rest::Waits, unread);
        }
        let facts = match (file.hold, &file.cursor.content) {
            (Hold::Descriptor, Some(content)) => content.facts().map(Some),
            (Hold::Descriptor, None) => Err(io::ErrorKind::NotFound.into()),
            (Hold::Path, _) => Facts::at(&file.path),
        };
        match facts {
            Ok(Some(facts)) if facts.is_same_file(&file.facts) => {
                let is_quiet = facts == Facts { links: facts.links, ..file.facts };
                file.facts = facts;
                if is_quiet {
                    return self.was_quiet(identity, now);
                }
                file.is_final = false;
                file.look.after_change(now, &self.pace);
                self.stir(identity);
                self.turn(identity, Rest::Waits, unread);
            }
            Err(error) if !is_gone(&error) => self.fail(identity, error),
            _ => {
                self.stir(identity);
                self.missed(identity, unread);
            }
        }
    }

    fn was_quiet(&mut self, identity: u64, now: Instant) {
        let Some(file) = self.files.file_mut(identity) else { return };
        file.look.after_quiet(now, self.blocks[file.block].poll, &self.pace);
        let quiet = file.look.quiet_for(now);
        if quiet >= self.pace.look_max {
            file.cursor.forget_reader();
        }
        if let Some(wait) = file.cursor.open() {
            if quiet >= wait {
                let (unread, size) = (file.unread(), file.facts.size);
                return self.turn(identity, Rest::Record { size }, unread);
            }
            file.look.next = file.look.next.min(now + wait - quiet);
        }
        if file.status() == SourceStatus::Live {
            return self.doze(identity, now);
        }
        if quiet < self.pace.line_final {
            // A second of rest must not make five seconds of quiet six.
            file.look.next = file.look.next.min(now + self.pace.line_final - quiet);
        } else if !file.is_final {
            let unread = file.unread();
            self.turn(identity, Rest::Everything, unread);
        } else if file.hold == Hold::Descriptor && file.facts.links == 0 || quiet >= self.pace.rotated {
            self.end(identity);
        }
    }

    /// Reads a chunk. `unread`: how much there was to read before the file changed, if it did.
    fn turn(&mut self, identity: u64, rest: Rest, unread: u64) {
        let version = self.router.version();
        self.router.refresh();
        if self.router.version() != version {
            self.files.iter_mut().for_each(|file| file.cursor.forget_reader());
        }
        match self.files.reopen(identity) {
            Ok(()) => {}
            Err(error) if is_gone(&error) => return self.missed(identity, unread),
            Err(error) => return self.fail(identity, error),
        }
        let Some(file) = self.files.file_mut(identity) else { return };
        let block = file.block;
        let mut desk = Desk {
            buffer: &mut self.buffer,
            router: &self.router,
            batcher: &mut self.batcher,
            options: &self.blocks[block],
            counters: &self.counters[block],
            host: &self.host,
            now: daytable_model::time::now(),
            newest: &mut self.newest,
        };
        let is_compressed = file.cursor.content.as_ref().is_some_and(|content| content.is_compressed());
        let before = (file.state().position, file.state().ledger.lost_bytes);
        let turn = file.cursor.turn(if is_compressed { Rest::Everything } else { rest }, &mut desk);
        file.is_in_use = true;
        self.last_read = Instant::now();
        if (file.state().position, file.state().ledger.lost_bytes) != before {
            file.is_changed = true;
            self.oldest.get_or_insert_with(Instant::now);
        }
        match turn {
            Ok(turn @ (Turn::More | Turn::AtEnd)) => {
                file.has_more = turn == Turn::More;
                file.is_final = rest == Rest::Everything && turn == Turn::AtEnd;
                file.failed = None;
                if turn == Turn::AtEnd && (rest != Rest::Waits || file.state().position == before.0) {
                    // Its last line has waited, or waits now.
                    file.cursor.forget_reader();
                }
                if turn == Turn::AtEnd && is_compressed {
                    // It has its whole content: what decodes it takes more memory than it is worth.
                    file.cursor.content = None;
                }
            }
            Ok(Turn::Rewritten) => self.rewritten(identity, unread),
            Err(error) => self.fail(identity, error),
        }
    }

    /// Notes that a file cannot be read; it is tried again later, and the others go on.
    fn fail(&mut self, identity: u64, error: io::Error) {
        let Some(file) = self.files.file_mut(identity) else { return };
        self.counters[file.block].count(SourceEvent::ReadError, 1);
        if file.failed.replace(error.kind()) != Some(error.kind()) {
            tracing::warn!(path = %file.path.escaped(), %error, "cannot read file");
        }
        file.has_more = false;
        if file.hold == Hold::Path {
            file.cursor.content = None;
        }
        file.look.after_trouble(Instant::now(), &self.pace);
    }

    /// Hands over the rows that were read, with the positions they were read up to.
    pub(super) fn hand_over(&mut self) -> Result<(), Refused> {
        let number = self.submitted + 1;
        let seen = daytable_model::time::now();
        let mut advances: Vec<_> = self.loose.drain(..).map(Arc::new).collect();
        for file in self.files.iter_mut().filter(|file| file.is_changed) {
            file.is_changed = false;
            let state = file.submit(number, seen);
            self.known.put(state.clone());
            advances.push(state);
        }
        self.oldest = None;
        if advances.is_empty() {
            return Ok(());
        }
        self.submitted = number;
        let committed = self.committed.clone();
        let done = Done::new(move |is_committed| {
            if is_committed {
                committed.fetch_max(number, Ordering::Release);
            }
        });
        self.intake.submit(Submission {
            batches: self.batcher.take(),
            advances,
            newest: self.newest.take(),
            epoch: self.epoch,
            done,
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
        self.loose.clear();
        self.oldest = None;
        self.parked.clear();
        let mut committed: HashMap<u64, Arc<SourceState>> =
            sources.into_iter().filter(is_tailed).map(|state| (state.identity, state)).collect();
        let now = Instant::now();
        let done = self.committed.load(Ordering::Acquire);
        for file in self.files.iter_mut() {
            file.was_committed(done);
            file.rewind(committed.get(&file.state().identity), now);
            committed.insert(file.state().identity, Arc::new(file.state().clone()));
        }
        self.known = Known::new(committed.into_values());
        self.resume_all();
    }

    /// Lets go of files that were read to their end, once that is committed.
    fn forget_ended(&mut self) {
        let committed = self.committed.load(Ordering::Acquire);
        let is_over = |file: &&super::followed::Followed| {
            file.status() == SourceStatus::Ended && !file.is_changed && file.submitted <= committed
        };
        let over: Vec<u64> = self.files.iter().filter(is_over).map(|file| file.state().identity).collect();
        for identity in over {
            self.files.remove(identity);
        }
    }

    /// Brings the gauges up to date, once a second.
    fn gauge(&mut self) {
        if self.gauged.is_some_and(|gauged| gauged.elapsed() < Duration::from_secs(1)) {
            return;
        }
        self.gauged = Some(Instant::now());
        let now = daytable_model::time::now();
        let committed = self.committed.load(Ordering::Acquire);
        for file in self.files.iter_mut() {
            file.note_lag(now);
            file.was_committed(committed);
        }
        for (number, block) in self.counters.iter().enumerate() {
            let files = || self.files.iter().filter(|file| file.block == number);
            block.followed_files.store(files().count() as u64, Ordering::Relaxed);
            let open = files().filter(|file| file.cursor.content.is_some()).count();
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
