//! The committer: the one thread that changes the store.
//!
//! The committer receives submissions from the [`CommitQueue`]. When the rows of a partition fill a page, it builds
//! that page. One commit writes all pages: when enough bytes wait, when [`StoreOptions::commit_interval`] is over, or
//! at once if a caller waits and the queue is empty. Steps of the lifecycle run between two commits. Compaction runs in
//! the remaining time.
//!
//! A failed commit leaves nothing half done. The committer refuses all waiting submissions, opens the folder again
//! (which removes what the commit wrote, see `open`), and only then accepts more. Where the disk has no room for that,
//! it waits, and takes only the steps that make room (`no_room`).

use crate::StoreError;
use crate::entry::known::KnownEntries;
use crate::format::catalog::accounting::CommitEntry;
use crate::format::catalog::{Catalog, FileRole, LiveFile, NewFile, Touched};
use crate::format::commit_range::CommitRange;
use crate::format::day_file::DayFile;
use crate::format::page;
use crate::layout::{self, FolderLayout};
use crate::lock::{self, Lock};
use crate::maintain::compaction::Compactor;
use crate::maintain::orphans::Opening;
use crate::outbox::{COMPACTED_AFTER, Forwarding};
use crate::read::Reader;
use crate::source::SourceState;
use crate::sqlite;
use crate::write::checkpoint;
use crate::write::options::{CommitReport, StoreOptions};
use crate::write::queue::{CommitOutcome, Submission, Work};
use crate::write::recovery::{self, FullFolder, Opened, RecoveredFolder};
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_platform::in_parallel::in_parallel;
use daytable_platform::memory;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

mod lifecycle;
mod no_room;
mod outbox_backlog;
mod forwarding;
mod pending;
mod repeats;
mod step;
mod take_step;
#[cfg(test)]
mod model;
#[cfg(test)]
mod idempotency_model;
#[cfg(test)]
mod outbox_model;

pub use lifecycle::{RestoreTarget, SealTarget};
pub use step::CommitQueue;
pub(crate) use step::{CommitStep, StepAnswer};

use forwarding::HostPlace;
use pending::Pending;

/// Waiting records from which the next commit starts [`INTERVAL_OF_MANY`] after the last one: then its cost is shared by
/// enough of them, and they are seen soon.
const MANY_RECORDS: u64 = 4096;
/// Time between two commits where many records wait.
const INTERVAL_OF_MANY: Duration = Duration::from_millis(80);
/// Time between two attempts to shorten the journals of files that are not written to.
const JOURNALS_SEEN: Duration = Duration::from_secs(2);
/// Commits after which the catalog's journal is checkpointed.
const CATALOG_COMMITS: i64 = 64;
/// Time between attempts to open a failed store again.
const REOPEN_AFTER: Duration = Duration::from_millis(500);
/// Days that are closed at once.
const CLOSED_AT_ONCE: usize = 8;
/// Pause of the committer between two steps of compaction.
const COMPACTION_WAIT: Duration = Duration::from_millis(20);
/// Time without commits after which the committer frees its buffers.
const MEMORY_KEPT: Duration = Duration::from_secs(10);
/// How long the last merges may take when the store closes.
const LAST_STEP_TIME: Duration = Duration::from_millis(300);
/// Time that the committer waits for work before it looks for idle days.
const IDLE_WAIT: Duration = Duration::from_secs(1);

/// The one writer of a data folder.
pub(crate) struct Committer {
    layout: FolderLayout,
    lock: Arc<Lock>,
    queue: CommitQueue,
    options: StoreOptions,
    catalog: Catalog,
    days: HashMap<DayTable, OpenDay>,
    /// The files of a folder that waits to be opened again.
    waiting: Vec<(DayTable, DayFile)>,
    /// Days that accept no records: dropped and restored ones.
    closed: HashSet<DayTable>,
    seq: i64,
    /// The checksum of all commits.
    checksum: u64,
    /// The last commit that all receivers have; none without receivers. Pages of later ones are neither merged nor sealed.
    held: Option<i64>,
    pending: Pending,
    /// Recent entries of pushes.
    entries: KnownEntries,
    /// Reads entries that are not recent.
    entry_reader: Option<Reader>,
    compactor: Compactor,
    checkpoints: checkpoint::Checkpointer,
    outbox: outbox_backlog::OutboxBacklog,
    /// When the last commit ended; none after its buffers were freed.
    last_commit: Option<Instant>,
    /// When the journals of days without writes were looked at.
    journals_seen: Instant,
    /// Whether many records come in, since the last commit or in it.
    is_busy: bool,
    /// Why no more records are accepted: the folder cannot be opened again.
    damage: Option<StoreError>,
    /// Whether the folder is open. If not, it waits for room on its disk, or the queue was closed meanwhile.
    is_open: bool,
    /// A commit whose number may not be used again, because its pages are there or were.
    unfinished: Option<i64>,
}

struct OpenDay {
    file: DayFile,
    name: String,
    used: Instant,
}

impl Committer {
    /// Opens the folder for writing.
    pub(crate) fn open(layout: FolderLayout, options: StoreOptions) -> Result<Committer, StoreError> {
        let lock = layout.lock()?;
        lock::refuse_shared(&Catalog::path_in(&layout.data))?;
        let (catalog, waiting, unfinished, opened) = match recovery::open(&layout, Opening::First)? {
            Opened::Whole(RecoveredFolder { catalog, days }) => (catalog, Vec::new(), None, Ok(days)),
            Opened::NoRoom(FullFolder { catalog, days, unfinished, error }) => (catalog, days, unfinished, Err(error)),
        };
        let thresholds = options.compaction;
        let queue = CommitQueue::new(catalog.sources()?);
        let checkpoints = checkpoint::Checkpointer::spawn()?;
        let mut committer = Committer {
            layout,
            lock: Arc::new(lock),
            queue,
            seq: catalog.committed()?.seq,
            checksum: 0,
            held: None,
            closed: catalog.closed()?.into_iter().collect(),
            catalog,
            days: HashMap::new(),
            waiting: Vec::new(),
            pending: Pending::default(),
            entries: KnownEntries::new(options.known_entries),
            entry_reader: None,
            compactor: Compactor::new(thresholds.settled_after, thresholds),
            checkpoints,
            outbox: outbox_backlog::OutboxBacklog::default(),
            last_commit: None,
            journals_seen: Instant::now(),
            is_busy: false,
            damage: None,
            is_open: true,
            unfinished,
            options,
        };
        committer.wait_with(waiting);
        match opened.and_then(|days| committer.begin(days)) {
            Err(error @ StoreError::Full(_)) if committer.options.waits_for_room => {
                tracing::error!(%error, "nothing is accepted until there is room on the disk");
                committer.is_open = false;
                (committer.options.on_failure)(&error);
            }
            begun => begun?,
        }
        Ok(committer)
    }

    /// Completes the opening of a folder.
    fn begin(&mut self, days: Vec<(LiveFile, DayFile)>) -> Result<(), StoreError> {
        self.decide()?;
        self.catalog.set_checkpoint_commits(self.options.checkpoint_commits);
        let thresholds = self.options.compaction;
        self.compactor = match self.options.forwarding {
            // Rows that soon will be sent are not worth merging.
            Forwarding::To(_) => Compactor::new(COMPACTED_AFTER, thresholds),
            Forwarding::AsRecorded | Forwarding::Disabled => Compactor::new(thresholds.settled_after, thresholds),
        };
        self.checksum = self.catalog.forward_state()?.checksum;
        self.hold_for_receivers()?;
        self.adopt_days(days)?;
        self.compactor.committed(self.seq);
        self.survey_outbox()
    }

    fn adopt_days(&mut self, days: Vec<(LiveFile, DayFile)>) -> Result<(), StoreError> {
        let used = Instant::now();
        for (live, file) in days {
            let taking = self.catalog.file_of(&live.day, self.role_of(&live.day))?;
            if taking.is_none_or(|taking| taking.name != live.name) {
                // The day accepts no more records and needs no journal.
                file.close()?;
                self.catalog.set_writable([(live.name.as_str(), false)])?;
                continue;
            }
            if file.has_shared_pages()? {
                self.compactor.opened(&live.day);
            }
            self.days.insert(live.day, OpenDay { file, name: live.name, used });
        }
        self.share_cache()
    }

    /// Divides the memory for caches among the open days.
    fn share_cache(&mut self) -> Result<(), StoreError> {
        let kib = sqlite::writer_cache_kib(self.days.len());
        self.days.values_mut().try_for_each(|open| open.file.set_cache(kib))
    }

    pub(crate) fn lock(&self) -> Arc<Lock> {
        self.lock.clone()
    }

    pub(crate) fn commit_queue(&self) -> CommitQueue {
        self.queue.clone()
    }

    /// Runs until the queue is closed and empty, then closes the folder. Returns an error if the folder is damaged and
    /// cannot be opened again after a failure.
    pub(crate) fn run(mut self) -> Result<(), StoreError> {
        if !self.is_open {
            self.open_again(Opening::First);
            self.queue.fail();
        }
        while !self.is_over() {
            let work = self.queue.next(self.patience());
            if let Err(error) = self.check_place() {
                self.fail(&error);
                if self.is_over() {
                    break;
                }
            }
            match work {
                Ok(Some(Work::Rows(submission))) => self.receive(*submission),
                Ok(Some(Work::Step(step))) => self.step(step),
                Ok(None) => self.rest(),
                Err(_) => break,
            }
            if self.is_over() {
                break;
            }
            if self.checkpoints.failed() {
                self.fail(&StoreError::Refused("a checkpoint failed".into()));
            } else if self.is_due() {
                self.commit_or_fail();
                if self.is_over() {
                    break;
                }
                // Needed here too: records may come without a pause.
                self.maintain_days();
            } else if self.pending.is_empty() {
                self.maintain_days();
                self.release_memory();
            }
        }
        if self.is_open {
            self.commit_or_fail();
        }
        match self.damage.take() {
            Some(error) => {
                self.catalog.rescue_journal();
                Err(error)
            }
            None if self.is_open => self.close(),
            None => self.close_unopened(),
        }
    }

    /// Whether nothing more can be committed by this process.
    fn is_over(&self) -> bool {
        self.damage.is_some() || !self.is_open
    }

    /// An error if the locked folder or its catalog was replaced.
    fn check_place(&self) -> Result<(), StoreError> {
        self.lock.check().and_then(|()| self.catalog.check_place())
    }

    fn patience(&self) -> Duration {
        match self.pending.since {
            Some(since) => {
                let since_last = self.last_commit.map_or(Duration::MAX, |at| at.elapsed());
                self.interval().saturating_sub(since.elapsed().max(since_last))
            }
            None if self.compactor.has_work() => COMPACTION_WAIT,
            None if self.is_busy => INTERVAL_OF_MANY,
            None => IDLE_WAIT,
        }
    }

    /// Keeps a CPU slot of the readers free during a commit, and while many records come in.
    fn reserve(&self, is_reserved: bool) {
        if let Some(reserve) = &self.options.reserve {
            reserve.set(usize::from(is_reserved));
        }
    }

    /// Nothing came in for a while.
    fn rest(&mut self) {
        if self.is_busy && self.pending.is_empty() {
            self.is_busy = false;
            self.reserve(false);
        }
    }

    /// The time from the end of a commit to the next one, which is shorter where many records wait.
    fn interval(&self) -> Duration {
        let interval = self.options.commit_interval;
        if self.pending.records < MANY_RECORDS { interval } else { interval.min(INTERVAL_OF_MANY) }
    }

    fn is_due(&self) -> bool {
        let Some(since) = self.pending.since else { return false };
        // With more submissions in the queue, their callers can share the two fsyncs.
        let is_alone = !self.queue.has_work();
        // After a pause, a commit does not wait for more records.
        let is_first = is_alone && self.last_commit.is_none_or(|at| at.elapsed() >= self.interval());
        let is_old = since.elapsed() >= self.options.commit_interval;
        is_first || self.pending.is_awaited && is_alone || self.pending.is_large() || is_old
    }

    fn receive(&mut self, mut submission: Submission) {
        self.queue.release(submission.bytes());
        self.make_room_for_entries(&submission);
        if submission.epoch != self.queue.epoch() || self.is_repeat(&mut submission) {
            return;
        }
        let received = match self.place_host(&mut submission) {
            HostPlace::Nowhere => return,
            HostPlace::NoHost => None,
            HostPlace::Follows(received) => Some(received),
        };
        // A dropped or restored day accepts no records. Its records go to today's table and keep their times.
        if submission.host.is_some() {
            self.leave_out_closed(&mut submission);
        }
        let of_batches = submission.batches.iter_mut().map(|batch| &mut batch.table);
        let of_pages = submission.pages.iter_mut().map(|page| &mut page.table);
        for table in of_batches.chain(of_pages).filter(|table| self.closed.contains(*table)) {
            *table = DayTable::at(table.table(), table.period(), time::now());
        }
        if !self.leave_out_repeats(&mut submission) {
            return;
        }
        self.pending.add(submission, received);
        if !self.is_busy && self.pending.records >= MANY_RECORDS {
            self.is_busy = true;
            self.reserve(true);
        }
    }

    /// Whether the idempotency key of a submission is known. Nothing is written then, and the sender gets the first
    /// result.
    fn is_repeat(&mut self, submission: &mut Submission) -> bool {
        let Some(idempotency) = &submission.idempotency else { return false };
        if let Some(outcome) = self.pending.keys.outcome_of(idempotency) {
            // The first submission is not on disk yet, so the result is not certain.
            self.pending.keys.add_repeat(std::mem::take(&mut submission.ack), outcome);
            return true;
        }
        match self.catalog.repeat_of(idempotency) {
            Ok(None) => false,
            Ok(Some(outcome)) => {
                std::mem::take(&mut submission.ack).complete(outcome.into());
                true
            }
            Err(error) => {
                self.fail(&error);
                true
            }
        }
    }

    fn step(&mut self, step: CommitStep) {
        if !step.waits_for_rows() {
            return self.take(step);
        }
        // It would keep the space of files that are removed.
        self.entry_reader = None;
        if !self.pending.is_empty() {
            self.commit_or_fail();
        }
        if !self.is_over() {
            self.take(step);
        }
    }

    fn commit_or_fail(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.is_busy = self.pending.records >= MANY_RECORDS;
        self.reserve(true);
        let committed = self.commit();
        // After a failure nothing is accepted for some time.
        self.is_busy &= committed.is_ok();
        self.reserve(self.is_busy);
        if let Err(error) = committed {
            self.fail(&error);
        }
    }

    /// Writes all pending pages, and then the catalog. The transaction of the catalog is the commit point.
    fn commit(&mut self) -> Result<(), StoreError> {
        let start = Instant::now();
        self.pending.build_rest();
        let bodies = self.pending.pages.values().flatten().map(|insert| insert.page.body.len() as u64);
        recovery::check_room(&self.layout, bodies.sum())?;
        let mut pending = std::mem::take(&mut self.pending);
        let (seq, now) = (self.seq + 1, time::now());
        if self.options.notes_arrival {
            let inserts = pending.pages.values_mut().flatten();
            inserts.for_each(|insert| insert.page.header.commits = CommitRange::at(now));
        }
        self.open_days(pending.pages.keys())?;
        let touched = self.days.iter_mut().filter_map(|(day, open)| Some((day, open, pending.pages.get(day)?)));
        let written = in_parallel(touched.collect(), |(day, open, pages)| -> Result<_, StoreError> {
            open.used = Instant::now();
            let written = open.file.insert(seq, pages)?;
            let headers = || pages.iter().map(|insert| &insert.page.header);
            let entities: i64 = headers().map(|header| i64::from(header.entities)).sum();
            let oldest = headers().map(|header| header.last.time()).min();
            let newest = headers().map(|header| header.first.time()).max();
            Ok((day.clone(), (open.name.clone(), entities, oldest.zip(newest)), written))
        });
        let written = written.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
        let days_written = start.elapsed();
        daytable_platform::failpoint!("commit-between");
        let touched: Vec<_> = written
            .iter()
            .map(|(_, (file, entities, times), _)| Touched { file, entities: *entities, times: *times })
            .collect();
        let checksum = self.checksum_of(&written);
        let (sources, keys) = (pending.sources.values(), pending.keys.keys());
        let stamp = self.stamp();
        let noted: i64 = touched.iter().map(|touched| touched.entities).sum();
        let (records, rows, receipts, kept) = (pending.records, pending.report.rows, &pending.receipts, &pending.kept);
        let replaced = rows.saturating_sub(noted.cast_unsigned());
        let hosts = Some(&pending.hosts);
        let entry = CommitEntry { stamp, records, rows, replaced, receipts, kept, checksum, hosts };
        let keys = self.catalog.commit(seq, &touched, sources, keys, pending.newest, entry)?;
        self.seq = seq;
        self.checksum = checksum;
        // After the commit point: acknowledged records are in the files that readers and the next start open.
        self.check_place()?;
        pending.pages.keys().filter_map(|day| self.days.get(day)).try_for_each(|open| open.file.check_place())?;
        self.last_commit = Some(start);
        daytable_platform::failpoint!("commit-after");

        self.entries.committed();
        self.queue.committed(pending.sources.into_values());
        for ack in pending.acks.drain(..) {
            ack.complete(CommitOutcome::Committed);
        }
        pending.keys.committed();
        self.queue.announce(seq);
        for (day, _, written) in written {
            self.compactor.written(&day, written);
            if let Some(open) = self.days.get_mut(&day) {
                self.checkpoints.consider(&mut open.file);
                if open.file.has_long_journal() {
                    // Readers need their slots to come to the end of their snapshots.
                    if let Some(reserve) = &self.options.reserve {
                        reserve.set(0);
                    }
                    open.file.bound_journal()?;
                }
            }
        }
        self.compactor.committed(seq);
        self.update_backlog(pending.pages.keys())?;
        if seq % CATALOG_COMMITS == 0 {
            self.checkpoints.queue(&Catalog::path_in(&self.layout.data));
        }
        let (pages_merged, merges_refused) = (self.compactor.take_merged(), self.compactor.take_refused());
        let (took, keys_dropped) = (start.elapsed(), keys.map_or(0, |keys| keys.dropped));
        let report = CommitReport { took, days_written, pages_merged, merges_refused, keys_dropped, ..pending.report };
        (self.options.on_commit)(&report);
        self.notify_sender();
        Ok(())
    }

    /// The open file of `day`, which is created or opened again if needed.
    fn writable_day(&mut self, day: &DayTable) -> Result<&mut OpenDay, StoreError> {
        self.open_days(std::iter::once(day))?;
        match self.days.get_mut(day) {
            Some(open) => {
                open.used = Instant::now();
                Ok(open)
            }
            None => Err(StoreError::TableGone(day.to_string())),
        }
    }

    /// Opens the files of days, or creates them. Each change of the catalog is one transaction for all of them.
    fn open_days<'d>(&mut self, days: impl Iterator<Item = &'d DayTable>) -> Result<(), StoreError> {
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for day in days.filter(|day| !self.days.contains_key(day)).collect::<Vec<_>>() {
            let role = self.role_of(day);
            match self.catalog.file_of(day, role)? {
                Some(live) => known.push((live, role)),
                None => new.push(self.new_file(day, role)?),
            }
        }
        let were_open = known.is_empty() && new.is_empty();
        if !known.is_empty() {
            let (layout, seq) = (&self.layout, self.seq);
            let opened = in_parallel(known, |(live, role)| -> Result<_, StoreError> {
                // Verified before the mark: otherwise, the next opening would treat foreign pages as a torn commit.
                let file = recovery::open_day(layout, &live, seq)?;
                Committer::prepare(&file, role)?;
                Ok((live, file))
            });
            let opened = opened.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
            // Marked before the first write: after a crash, the opening of the folder must find the files.
            self.catalog.set_writable(opened.iter().map(|(live, _)| (live.name.as_str(), true)))?;
            let used = Instant::now();
            self.days
                .extend(opened.into_iter().map(|(live, file)| (live.day, OpenDay { file, name: live.name, used })));
        }
        if !new.is_empty() {
            self.create(new)?;
        }
        if were_open { Ok(()) } else { self.share_cache() }
    }

    fn new_file(&self, day: &DayTable, role: FileRole) -> Result<NewFile, StoreError> {
        let generation = self.next_generation(day)?;
        // This clock stamps records without a time, and its today may be over.
        let today = DayTable::at(day.table(), day.period(), time::now());
        let is_behind = (*day == today || *day == today.next()) && self.catalog.has_later(day)?;
        if is_behind {
            tracing::warn!(table = %day, "the clock is behind: later days of this table exist, so this one is kept longer; set the clock");
        }
        let name = layout::file_name(day, generation);
        Ok(NewFile { day: day.clone(), generation, name, role, is_behind })
    }

    fn create(&mut self, new: Vec<NewFile>) -> Result<(), StoreError> {
        // Named before they exist: a kill leaves no file that the catalog does not know.
        self.catalog.begin_creating(&new)?;
        let layout = &self.layout;
        let created = in_parallel(new.iter().collect(), |new: &NewFile| -> Result<_, StoreError> {
            let file = DayFile::open(&layout.table_file(&new.name), &new.day)?;
            Committer::prepare(&file, new.role)?;
            Ok(file)
        });
        let created = created.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
        self.catalog.create_days(&new, time::now())?;
        for (NewFile { day, name, .. }, file) in new.into_iter().zip(created) {
            self.closed.remove(&day);
            self.compactor.created(&day);
            self.days.insert(day, OpenDay { file, name, used: Instant::now() });
        }
        Ok(())
    }

    /// Handles a failed commit or checkpoint: refuses all waiting submissions, opens the folder again, and only then
    /// accepts more.
    fn fail(&mut self, error: &StoreError) {
        tracing::error!(%error, "failed to commit: nothing is accepted until the store is opened again");
        (self.options.on_failure)(error);
        self.pending = Pending::default();
        self.entries.clear();
        self.entry_reader = None;
        let days = std::mem::take(&mut self.days);
        self.wait_with(days.into_iter().map(|(day, open)| (day, open.file)));
        self.checkpoints.reset();
        self.damage = error.displaced();
        self.is_open = false;
        if self.damage.is_none() {
            self.open_again(Opening::Again);
        }
        // Last, so that a source that sees the new epoch also sees its committed positions.
        self.queue.fail();
    }

    /// Opens the folder again, as often as it needs. Gives up if the folder is damaged, or the queue is closed.
    fn open_again(&mut self, opening: Opening) {
        let mut last_logged = Instant::now();
        while self.damage.is_none() {
            // A catalog whose journal lost its name would be opened as it was before the journal.
            let opened = self.check_place().and_then(|()| recovery::open(&self.layout, opening));
            let is_checked = opened.is_ok();
            let adopted = opened.and_then(|opened| match opened {
                Opened::Whole(folder) => self.adopt(folder),
                Opened::NoRoom(full) => self.adopt_full(full),
            });
            match adopted {
                Ok(sources) => {
                    self.is_open = true;
                    self.queue.committed(sources.into_iter().map(Arc::new));
                    (self.options.on_reopened)();
                    tracing::info!("the store was opened again");
                    break;
                }
                Err(error) if self.queue.is_closed() => {
                    tracing::error!(%error, "failed to open the store again");
                    break;
                }
                // The next opening finds the same fault.
                Err(error) if error.is_damage() || error.displaced().is_some() => {
                    tracing::error!(%error, "failed to open the store again: nothing more is accepted");
                    self.damage = Some(error);
                    break;
                }
                Err(error) => {
                    if last_logged.elapsed() > Duration::from_secs(10) {
                        tracing::error!(%error, "failed to open the store again");
                        last_logged = Instant::now();
                    }
                    self.queue.beat();
                    self.queue.refuse_pushed();
                    let lacks_room = is_checked && matches!(error, StoreError::Full(_));
                    self.take_without_room(&error, lacks_room, REOPEN_AFTER);
                }
            }
        }
    }

    /// Goes on with a folder that was opened again. Returns the committed positions of the sources.
    fn adopt(&mut self, folder: RecoveredFolder) -> Result<Vec<SourceState>, StoreError> {
        self.catalog = folder.catalog;
        // A number of which the pages were removed, or dropped with their day.
        if let Some(seq) = self.unfinished
            && seq > self.catalog.committed()?.seq
        {
            self.catalog.void(seq)?;
        }
        self.unfinished = None;
        self.waiting.clear();
        self.seq = self.catalog.committed()?.seq;
        self.closed = self.catalog.closed()?.into_iter().collect();
        self.begin(folder.days)?;
        self.catalog.sources()
    }

    /// Merges small pages, and closes days without writes.
    fn maintain_days(&mut self) {
        if let Err(error) = self.refresh_outbox() {
            return self.fail(&error);
        }
        if let Some(day) = self.compactor.next_day()
            && let Some(open) = self.days.get_mut(&day)
            && !self.checkpoints.is_moving(open.file.path())
            && let Err(error) = self.compactor.step(&day, &mut open.file)
        {
            return self.fail(&error);
        }
        for open in self.days.values_mut() {
            self.checkpoints.consider(&mut open.file);
        }
        if let Err(error) = self.shorten_idle_journals() {
            return self.fail(&error);
        }
        if let Err(error) = self.close_idle_days() {
            self.fail(&error);
        }
    }

    /// Empties journals that were long while they were read. A journal that is written to begins again by itself.
    fn shorten_idle_journals(&mut self) -> Result<(), StoreError> {
        if self.journals_seen.elapsed() < JOURNALS_SEEN {
            return Ok(());
        }
        self.journals_seen = Instant::now();
        let kept = sqlite::JOURNAL_BYTES_KEPT.cast_unsigned();
        let is_idle = |open: &&mut OpenDay| open.used.elapsed() >= JOURNALS_SEEN;
        for open in self.days.values_mut().filter(is_idle).filter(|open| open.file.journal_bytes() > kept) {
            open.file.empty_journal()?;
        }
        Ok(())
    }

    /// Closes some of the days that are over and have no writes, and in which nothing is worth a merge.
    fn close_idle_days(&mut self) -> Result<(), StoreError> {
        let now = time::now();
        let is_idle = |day: &DayTable, open: &OpenDay| {
            open.used.elapsed() > self.options.idle_day && !day.holds(now) && !self.compactor.wants(day)
        };
        let idle = self.days.iter().filter(|(day, open)| is_idle(day, open)).map(|(day, _)| day.clone());
        let mut closing = Vec::new();
        for day in idle.take(CLOSED_AT_ONCE).collect::<Vec<_>>() {
            if !self.remove_if_empty(&day)? {
                closing.extend(self.days.remove_entry(&day));
            }
        }
        let tried = in_parallel(closing, |(day, OpenDay { file, name, .. })| {
            file.close_unless_read().map(|still_open| (day, name, still_open))
        });
        let mut closed = Vec::new();
        for (day, name, still_open) in tried.into_iter().collect::<Result<Vec<_>, StoreError>>()? {
            match still_open {
                // Tried again after as long.
                Some(file) => drop(self.days.insert(day, OpenDay { file, name, used: Instant::now() })),
                None => {
                    self.compactor.forget(&day);
                    closed.push(name);
                }
            }
        }
        if closed.is_empty() {
            return Ok(());
        }
        self.catalog.end_attempts()?;
        self.catalog.set_writable(closed.iter().map(|name| (name.as_str(), false)))?;
        self.share_cache()
    }

    /// In a quiet daemon, these buffers and caches are larger than everything else.
    fn release_memory(&mut self) {
        if self.last_commit.take_if(|at| at.elapsed() >= MEMORY_KEPT).is_some() {
            self.entry_reader = None;
            self.entries.release_memory();
            page::release_memory();
            sqlite::release_memory(self.catalog.connection());
            self.days.values_mut().for_each(|open| open.file.release_memory());
            memory::release_free();
        }
    }

    fn close(mut self) -> Result<(), StoreError> {
        self.entry_reader = None;
        self.checkpoints.stop();
        let until = Instant::now() + LAST_STEP_TIME;
        self.compactor.finish(self.days.iter_mut().map(|(day, open)| (day, &mut open.file)).collect(), until)?;
        let closed =
            in_parallel(self.days.drain().collect(), |(day, open)| open.file.close().map(|()| (day, open.name)));
        let closed = closed.into_iter().collect::<Result<Vec<_>, StoreError>>()?;
        // Shared pages that are worth a split are split when the folder is opened again.
        let compactor = &self.compactor;
        self.catalog.set_writable(closed.iter().map(|(day, name)| (name.as_str(), compactor.wants(day))))?;
        self.catalog.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit or a merge fails for another reason, as on a full disk, before anybody saw that the journal lost its name.
    #[test]
    fn a_failure_opens_no_catalog_whose_journal_lost_its_name() {
        let place = tempfile::tempdir().expect("a folder");
        let layout = FolderLayout { data: place.path().into() };
        let mut committer = Committer::open(layout.clone(), StoreOptions::small()).expect("opened");
        let (journal, elsewhere) = (place.path().join("catalog.db-wal"), place.path().join("elsewhere"));
        std::fs::rename(&journal, &elsewhere).expect("renamed");
        committer.fail(&StoreError::Full(place.path().into()));
        assert!(matches!(&committer.damage, Some(StoreError::Displaced(path, _)) if *path == journal));
        assert!(!journal.exists(), "another journal was begun");
        assert!(matches!(committer.run(), Err(StoreError::Displaced(..))));
    }
}
