//! The queue between sources and the committer. Its size in bytes is limited, and `submit` blocks when it is full.
//!
//! A [`Submission`] is committed as a whole or not at all: rows together with the positions of their sources. After a
//! failed commit, every waiting submission is refused and the [epoch](WorkQueue::epoch) rises. Each source then starts
//! again at its committed position ([`WorkQueue::sources`]). The queue refuses submissions of an older epoch, so rows
//! that were read before the failure cannot arrive after it.

use super::source_claim::{SourceClaims, SourceReader};
use crate::entry::PushedEntries;
use crate::format::catalog::accounting::SourceReceipt;
use crate::format::catalog::idempotency::{IdempotencyKey, Repeat, StoredAnswer};
use crate::forward::intervals::HostAdvance;
use crate::forward::received_page::ReceivedPage;
use crate::source::SourceState;
use daytable_model::batch::Batch;
use daytable_model::key::DayTable;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes of waiting submissions from which [`WorkQueue::submit`] blocks.
pub const WAITING_BYTES_MAX: usize = 16 << 20;

/// Rows and the new positions of their sources.
#[derive(Default)]
pub struct Submission {
    /// Rows. Several batches may have the same partition.
    pub batches: Vec<Batch>,
    /// Pages of a host that were made without their rows.
    pub pages: Vec<ReceivedPage>,
    /// The new state of each source that has rows in this submission or advanced without rows. A later state replaces
    /// an earlier one.
    pub advances: Vec<Arc<SourceState>>,
    /// The newest time among records whose own text has a time and whose day admits them. The clock is checked against
    /// it.
    pub newest: Option<Ticks>,
    /// Expired days whose records are imported on purpose, and until when these days are kept.
    pub kept: Vec<(DayTable, Ticks)>,
    /// The epoch in which the sources were read.
    pub epoch: u64,
    /// The listeners of rows without a source in `advances`, and the losses of these listeners.
    pub receipts: Vec<SourceReceipt>,
    /// The idempotency key, if a repeated submission must be written only once.
    pub idempotency: Option<IdempotencyKey>,
    /// The host that forwarded the rows, and how far it was received with them. The rows are written only if the host was
    /// received up to where this submission begins.
    pub host: Option<HostAdvance>,
    /// Entries among the rows that are left out if they are stored already. Their rows have one source, and their receipt is
    /// the only one.
    pub entries: PushedEntries,
    /// Completed when the outcome is known.
    pub ack: Ack,
}

/// The outcome of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The whole submission is on disk.
    Committed,
    /// The whole submission is on disk. This many of its entries were stored before, and are not stored twice.
    CommittedBefore(u64),
    /// The same key was committed before with the same body. No row was written. The answer is the earlier one.
    Repeated(StoredAnswer),
    /// The same key was committed before with another body. No row was written.
    OtherBody,
    /// The host was received up to another position than the one where the submission begins. No row was written.
    Misplaced,
    /// The submission is not on disk. If the commit failed in its last step, recovery may still find it. A repeat with
    /// the same key then gets the right answer.
    NotCommitted,
}

impl From<Repeat> for CommitOutcome {
    fn from(repeat: Repeat) -> CommitOutcome {
        match repeat {
            Repeat::SameBody(answer) => CommitOutcome::Repeated(answer),
            Repeat::OtherBody => CommitOutcome::OtherBody,
        }
    }
}

/// The acknowledgement of a submission: called once, when its outcome is known.
#[derive(Default)]
pub struct Ack {
    callback: Option<Box<dyn FnOnce(CommitOutcome) + Send>>,
    is_awaited: bool,
    /// Entries of the submission that were stored before.
    repeats: u64,
}

impl Ack {
    /// Calls `callback` from the committer's thread, so `callback` must be short. `true`: the whole submission is on
    /// disk. `false`: the commit failed or was refused ([`CommitOutcome::NotCommitted`], [`CommitOutcome::OtherBody`]).
    pub fn new(callback: impl FnOnce(bool) + Send + 'static) -> Ack {
        let mut done = Ack::awaited(callback);
        done.is_awaited = false;
        done
    }

    /// Like [`Ack::new`], but a client waits: the commit does not wait for its interval.
    pub fn awaited(callback: impl FnOnce(bool) + Send + 'static) -> Ack {
        Ack::with_outcome(move |outcome| {
            let is_stored = matches!(
                outcome,
                CommitOutcome::Committed | CommitOutcome::CommittedBefore(_) | CommitOutcome::Repeated(_)
            );
            callback(is_stored);
        })
    }

    /// Like [`Ack::awaited`], with the whole outcome.
    pub fn with_outcome(callback: impl FnOnce(CommitOutcome) + Send + 'static) -> Ack {
        Ack { callback: Some(Box::new(callback)), is_awaited: true, repeats: 0 }
    }

    pub(crate) fn complete(mut self, outcome: CommitOutcome) {
        self.complete_once(outcome);
    }

    /// Notes how many entries of the submission were stored before.
    pub(crate) fn note_repeats(&mut self, repeats: u64) {
        self.repeats = repeats;
    }

    /// Whether a client waits for the outcome.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Whether a callback is set.
    pub(crate) fn has_callback(&self) -> bool {
        self.callback.is_some()
    }

    fn complete_once(&mut self, outcome: CommitOutcome) {
        if let Some(callback) = self.callback.take() {
            callback(match outcome {
                CommitOutcome::Committed if self.repeats > 0 => CommitOutcome::CommittedBefore(self.repeats),
                outcome => outcome,
            });
        }
    }
}

/// A submission that is dropped before its commit was not committed.
impl Drop for Ack {
    fn drop(&mut self) {
        self.complete_once(CommitOutcome::NotCommitted);
    }
}

/// Why a submission was not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SubmitError {
    /// A commit failed after the sources were read. Read again from the committed positions.
    #[error("a commit failed meanwhile, read again from the committed positions")]
    Stale,
    /// The store is closing.
    #[error("the store is closing")]
    Closed,
}

/// A piece of work for the committer.
pub(crate) enum Work<S> {
    Rows(Box<Submission>),
    /// A step that runs between two commits.
    Step(S),
}

/// The queue in front of the committer, with steps of type `S`. A handle, cheap to clone.
pub struct WorkQueue<S> {
    queue: Arc<Queue<S>>,
}

impl<S> Clone for WorkQueue<S> {
    fn clone(&self) -> WorkQueue<S> {
        WorkQueue { queue: self.queue.clone() }
    }
}

struct Queue<S> {
    waiting_bytes_max: AtomicUsize,
    state: Mutex<State<S>>,
    changed: Condvar,
    /// The last commit of this process, and who waits for the next one.
    last_commit: Mutex<i64>,
    announced: Condvar,
    beats: AtomicU64,
    ended: AtomicBool,
    claims: SourceClaims,
}

struct State<S> {
    work: VecDeque<Work<S>>,
    /// Bytes of submissions that wait, or were received by the committer and not released yet.
    bytes: usize,
    epoch: u64,
    closed: bool,
    /// Whether the outbox is full, so that `submit` blocks.
    full: bool,
    /// Whether sources are stopping. Then `submit` accepts their last submissions even if the outbox is full.
    draining: bool,
    /// The committed state of each source, updated before [`Ack`] callbacks.
    sources: std::collections::HashMap<SourceId, Arc<SourceState>>,
}

impl Submission {
    /// The size that counts against the limit of the queue.
    pub fn bytes(&self) -> usize {
        let others = self.advances.len() + usize::from(self.idempotency.is_some());
        let rows = self.batches.iter().map(Batch::bytes).chain(self.pages.iter().map(ReceivedPage::bytes));
        rows.sum::<usize>() + others * 512 + self.entries.memory()
    }

    /// The number of rows, items included.
    pub fn rows(&self) -> usize {
        let of_pages = self.pages.iter().map(|page| page.page.header.entities as usize);
        self.batches.iter().map(Batch::len).chain(of_pages).sum()
    }
}

impl<S> WorkQueue<S> {
    pub(crate) fn new(sources: Vec<SourceState>) -> WorkQueue<S> {
        let state = State {
            work: VecDeque::new(),
            bytes: 0,
            epoch: 0,
            closed: false,
            full: false,
            draining: false,
            sources: sources.into_iter().map(|s| (s.identity, Arc::new(s))).collect(),
        };
        let beats = AtomicU64::new(0);
        let ended = AtomicBool::new(false);
        let waiting_bytes_max = AtomicUsize::new(WAITING_BYTES_MAX);
        let state = Mutex::new(state);
        let (last_commit, announced) = (Mutex::new(0), Condvar::new());
        WorkQueue {
            queue: Arc::new(Queue {
                waiting_bytes_max,
                state,
                changed: Condvar::new(),
                last_commit,
                announced,
                beats,
                ended,
                claims: SourceClaims::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // A panic leaves no half-made state: each change below is a few infallible assignments.
        self.queue.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lowers the limit of waiting bytes below [`WAITING_BYTES_MAX`], for hosts with little memory.
    pub fn bound(&self, bytes: usize) {
        self.queue.waiting_bytes_max.store(bytes.min(WAITING_BYTES_MAX), Ordering::Relaxed);
    }

    /// Adds a submission. Blocks while too many bytes wait or the outbox is full.
    ///
    /// # Errors
    ///
    /// If a commit failed since the rows were read, or the store is closing.
    pub fn submit(&self, submission: Submission) -> Result<(), SubmitError> {
        let bytes = submission.bytes();
        let mut state = self.lock();
        let has_room = |state: &State<S>| {
            let bytes_max = self.queue.waiting_bytes_max.load(Ordering::Relaxed);
            (!state.full || state.draining) && (state.bytes == 0 || state.bytes + bytes <= bytes_max)
        };
        while !has_room(&state) && !state.closed && state.epoch == submission.epoch {
            state = self.queue.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        if state.closed {
            return Err(SubmitError::Closed);
        }
        if state.epoch != submission.epoch {
            return Err(SubmitError::Stale);
        }
        state.bytes += bytes;
        state.work.push_back(Work::Rows(Box::new(submission)));
        drop(state);
        self.queue.changed.notify_all();
        Ok(())
    }

    /// Queues `step`, which the committer runs between two commits.
    pub(crate) fn step(&self, step: S) -> Result<(), SubmitError> {
        self.push(Work::Step(step))
    }

    /// Whether the outbox is full. Then only a stop ([`WorkQueue::drain`]) lets submissions through.
    pub fn is_full(&self) -> bool {
        self.lock().full
    }

    /// Sets whether the outbox is full.
    pub(crate) fn set_full(&self, full: bool) {
        let mut state = self.lock();
        let changed = std::mem::replace(&mut state.full, full) != full;
        drop(state);
        if changed {
            self.queue.changed.notify_all();
        }
    }

    /// Accepts submissions even if the outbox is full: sources are stopping, and each has one last submission.
    pub fn drain(&self) {
        self.lock().draining = true;
        self.queue.changed.notify_all();
    }

    fn push(&self, work: Work<S>) -> Result<(), SubmitError> {
        let mut state = self.lock();
        if state.closed {
            return Err(SubmitError::Closed);
        }
        state.work.push_back(work);
        drop(state);
        self.queue.changed.notify_all();
        Ok(())
    }

    /// The epoch. Every failed commit raises it by one.
    pub fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    /// The committed state of every source, and the epoch of that state.
    pub fn sources(&self) -> (u64, Vec<Arc<SourceState>>) {
        let state = self.lock();
        (state.epoch, state.sources.values().cloned().collect())
    }

    /// The committed state of a source.
    pub fn source(&self, identity: SourceId) -> Option<Arc<SourceState>> {
        self.lock().sources.get(&identity).cloned()
    }

    /// Another reader of sources.
    pub fn source_reader(&self) -> SourceReader {
        self.queue.claims.reader()
    }

    /// Whether work waits in the queue.
    pub(crate) fn has_work(&self) -> bool {
        !self.lock().work.is_empty()
    }

    /// Bytes that wait to be committed.
    pub fn waiting_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// A counter that the committer raises in each round, at least every second.
    pub fn beats(&self) -> u64 {
        self.queue.beats.load(Ordering::Relaxed)
    }

    pub(crate) fn beat(&self) {
        self.queue.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the committer's thread has ended, after a stop or a failure.
    pub fn has_ended(&self) -> bool {
        self.queue.ended.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.queue.ended.store(true, Ordering::Release);
        self.close();
        // Dropping a step wakes its caller, which may use the queue. So the queue must not be locked here.
        let work = std::mem::take(&mut self.lock().work);
        drop(work);
    }

    /// Whether [`WorkQueue::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether sources are stopping, or must stop.
    pub fn is_draining(&self) -> bool {
        let state = self.lock();
        state.draining || state.closed
    }

    /// Closes the queue: waiting submissions are still committed, later ones are refused.
    pub fn close(&self) {
        self.lock().closed = true;
        self.queue.changed.notify_all();
    }

    /// The next piece of work, or none after `timeout`. `Err` if the queue is closed and empty.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Work<S>>, SubmitError> {
        self.beat();
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if let Some(work) = state.work.pop_front() {
                return Ok(Some(work));
            }
            if state.closed {
                return Err(SubmitError::Closed);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let waited = self.queue.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Takes the first waiting step that is `wanted`, and leaves all other work. None after `timeout`, or when the queue is
    /// closed.
    pub(crate) fn next_step(&self, timeout: Duration, wanted: impl Fn(&S) -> bool) -> Option<S> {
        let until = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            let at = state.work.iter().position(|work| matches!(work, Work::Step(step) if wanted(step)));
            if let Some(Work::Step(step)) = at.and_then(|at| state.work.remove(at)) {
                return Some(step);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.closed {
                return None;
            }
            let waited = self.queue.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Frees room for more submissions: rows of these bytes became pages, or were committed.
    pub(crate) fn release(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        self.queue.changed.notify_all();
    }

    /// Records the committed state of sources.
    pub(crate) fn committed(&self, sources: impl IntoIterator<Item = Arc<SourceState>>) {
        let mut state = self.lock();
        for source in sources {
            state.sources.insert(source.identity, source);
        }
    }

    /// Tells those who wait that a commit is on disk.
    pub(crate) fn announce(&self, seq: i64) {
        *self.queue.last_commit.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = seq;
        self.queue.announced.notify_all();
    }

    /// Waits until a later commit than `after` is on disk, or until `timeout`, as long as `goes_on`, which is asked again after
    /// [`wake_followers`](Self::wake_followers). Returns the last commit, as far as this process made it: 0 before its first one.
    pub fn wait_for_commit(&self, after: i64, timeout: Duration, goes_on: impl Fn() -> bool) -> i64 {
        let last = self.queue.last_commit.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let waited = self.queue.announced.wait_timeout_while(last, timeout, |last| *last <= after && goes_on());
        *waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
    }

    /// Wakes those who wait for a commit.
    pub fn wake_followers(&self) {
        // Whoever has just asked whether to go on waits before this lock is free.
        drop(self.queue.last_commit.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        self.queue.announced.notify_all();
    }

    /// Removes sources that the catalog no longer has.
    pub(crate) fn forget(&self, identities: &[SourceId]) {
        let mut state = self.lock();
        for identity in identities {
            state.sources.remove(identity);
        }
    }

    /// Refuses what waits and moves no position of a source, where nothing can be committed for some time: whoever pushed it waits
    /// for an answer.
    pub(crate) fn refuse_pushed(&self) {
        self.refuse(|submission| submission.advances.is_empty(), |_| ());
    }

    /// Refuses every waiting submission after a failed commit, and begins a new epoch. Steps stay in the queue.
    pub(crate) fn fail(&self) {
        self.refuse(|_| true, |state| state.epoch += 1);
    }

    /// Refuses some of the waiting submissions, and makes a change with it. Nothing that was taken from the queue is held any more.
    fn refuse(&self, is_refused: impl Fn(&Submission) -> bool, change: impl FnOnce(&mut State<S>)) {
        let mut state = self.lock();
        change(&mut state);
        let (refused, kept): (VecDeque<Work<S>>, VecDeque<Work<S>>) = std::mem::take(&mut state.work)
            .into_iter()
            .partition(|work| matches!(work, Work::Rows(rows) if is_refused(rows)));
        let bytes_of = |work: &Work<S>| if let Work::Rows(rows) = work { rows.bytes() } else { 0 };
        state.bytes = kept.iter().map(bytes_of).sum();
        state.work = kept;
        drop(state);
        self.queue.changed.notify_all();
        drop(refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_was_pushed_is_refused_alone() {
        let queue: WorkQueue<u32> = WorkQueue::new(Vec::new());
        let (told, answers) = channel();
        let ack = Ack::new(move |stored| told.send(stored).expect("heard"));
        queue.submit(Submission { ack, ..Submission::default() }).expect("open");
        let of_source =
            || Submission { advances: vec![Arc::new(crate::source::tests_state(1))], ..Submission::default() };
        queue.submit(of_source()).expect("open");
        // Taken for a commit that failed: its bytes are not held any more.
        queue.submit(of_source()).expect("open");
        queue.step(7).expect("open");
        queue.refuse_pushed();
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), [false]);
        assert!(matches!(queue.next(Duration::ZERO), Ok(Some(Work::Rows(_)))));
        queue.refuse_pushed();
        assert_eq!(queue.waiting_bytes(), of_source().bytes());
        assert_eq!(queue.next_step(Duration::ZERO, |_| true), Some(7));
        assert!(queue.has_work(), "rows of a source wait until its positions are known");
    }
}
