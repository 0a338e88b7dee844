//! The queue between sources and the committer. It is bounded in bytes, and it pushes back.
//!
//! A [`Submission`] is committed whole or not at all: its rows together with the positions up to which they were read. When a
//! commit fails, every waiting submission is refused and the [epoch](WorkQueue::epoch) goes up. Each source then starts again
//! at the committed positions ([`WorkQueue::sources`]). A submission of an older epoch is refused, so rows that were read before
//! the failure cannot arrive after it.

use crate::format::catalog::accounting::SourceReceipt;
use crate::format::catalog::idempotency::{IdempotencyKey, Repeat, StoredAnswer};
use crate::source::SourceState;
use daytable_model::batch::Batch;
use daytable_model::time::Ticks;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes of waiting submissions from which [`WorkQueue::submit`] blocks.
pub const WAITING_BYTES_MAX: usize = 12 << 20;

/// Rows, and the positions up to which their sources were read.
#[derive(Default)]
pub struct Submission {
    /// Rows; several batches may be of one partition.
    pub batches: Vec<Batch>,
    /// The state of each source that has rows here or moved without any. A later one of a source replaces an earlier.
    pub advances: Vec<Arc<SourceState>>,
    /// The newest time that a record here had in its own text and that its day admitted. The clock is checked against it.
    pub newest: Option<Ticks>,
    /// The epoch that the sources were read in.
    pub epoch: u64,
    /// The listeners whose rows these are, where no source in `advances` has them, and what the listeners lost.
    pub receipts: Vec<SourceReceipt>,
    /// The idempotency key under which all of it is written once.
    pub idempotency: Option<IdempotencyKey>,
    /// Completed when the outcome is known.
    pub ack: Ack,
}

/// The outcome of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// All of it is on disk.
    Committed,
    /// Its key was committed before, with the same body. No row was written; this is the answer of then.
    Repeated(StoredAnswer),
    /// Its key was committed before, with another body. No row was written.
    OtherBody,
    /// It is not on disk. After a commit that failed at its very end, recovery may find that it is; a repeat with the same
    /// key gets the right answer.
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
}

impl Ack {
    /// Calls `callback` from the committer's thread, which waits for it: keep it short. `true` says that the whole submission is
    /// on disk, `false` that it is not and never will be.
    pub fn new(callback: impl FnOnce(bool) + Send + 'static) -> Ack {
        let mut done = Ack::awaited(callback);
        done.is_awaited = false;
        done
    }

    /// As [`Ack::new`], where a client waits: the commit does not wait for its interval.
    pub fn awaited(callback: impl FnOnce(bool) + Send + 'static) -> Ack {
        Ack::with_outcome(move |outcome| {
            callback(matches!(outcome, CommitOutcome::Committed | CommitOutcome::Repeated(_)))
        })
    }

    /// As [`Ack::awaited`], with the whole outcome.
    pub fn with_outcome(callback: impl FnOnce(CommitOutcome) + Send + 'static) -> Ack {
        Ack { callback: Some(Box::new(callback)), is_awaited: true }
    }

    pub(crate) fn complete(mut self, outcome: CommitOutcome) {
        self.complete_once(outcome);
    }

    /// Whether somebody waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Whether a callback is set.
    pub(crate) fn has_callback(&self) -> bool {
        self.callback.is_some()
    }

    fn complete_once(&mut self, outcome: CommitOutcome) {
        if let Some(callback) = self.callback.take() {
            callback(outcome);
        }
    }
}

/// A submission that is dropped on the way was not committed.
impl Drop for Ack {
    fn drop(&mut self) {
        self.complete_once(CommitOutcome::NotCommitted);
    }
}

/// Why a submission was not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SubmitError {
    /// A commit failed since its sources were read: read again from what is committed.
    #[error("a commit failed meanwhile, read again from what is committed")]
    Stale,
    /// The store is closing.
    #[error("the store is closing")]
    Closed,
}

/// A piece of work for the committer.
pub(crate) enum Work<S> {
    Rows(Submission),
    /// A step of the lifecycle, or another change of what is live: it runs between two commits.
    Step(S),
    /// A step that does not concern waiting rows, so they are not committed before it.
    Aside(S),
}

/// The queue in front of the committer, whose steps are of type `S`. A handle, cheap to clone.
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
    beats: AtomicU64,
    ended: AtomicBool,
}

struct State<S> {
    work: VecDeque<Work<S>>,
    bytes: usize,
    epoch: u64,
    /// Submissions that were taken out and are not committed yet count as well.
    closed: bool,
    /// Whether nothing is taken for now: there is no room where it would go.
    full: bool,
    /// Whether sources are stopping: what they have in hand is taken all the same.
    draining: bool,
    /// What is committed of each source, brought up to date before `done` is called.
    sources: std::collections::HashMap<u64, Arc<SourceState>>,
}

impl Submission {
    /// Bytes that count against the queue's bound.
    pub fn bytes(&self) -> usize {
        let others = self.advances.len() + usize::from(self.idempotency.is_some());
        self.batches.iter().map(Batch::bytes).sum::<usize>() + others * 512
    }

    /// Records and items in it.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(Batch::len).sum()
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
        WorkQueue { queue: Arc::new(Queue { waiting_bytes_max, state, changed: Condvar::new(), beats, ended }) }
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        // What a panicking thread left behind is whole: every change below is made in one go.
        self.queue.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Has fewer bytes wait than [`WAITING_BYTES_MAX`], where there is little memory.
    pub fn bound(&self, bytes: usize) {
        self.queue.waiting_bytes_max.store(bytes.min(WAITING_BYTES_MAX), Ordering::Relaxed);
    }

    /// Adds a submission. Blocks while too many bytes wait, and while the outbox is full.
    ///
    /// # Errors
    ///
    /// Where a commit failed since the rows were read, or the store is closing.
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
        state.work.push_back(Work::Rows(submission));
        drop(state);
        self.queue.changed.notify_all();
        Ok(())
    }

    /// Has `step` run by the committer, between two commits.
    pub(crate) fn step(&self, step: S) -> Result<(), SubmitError> {
        self.push(Work::Step(step))
    }

    /// The same for what does not concern rows that wait to be committed.
    pub(crate) fn aside(&self, step: S) -> Result<(), SubmitError> {
        self.push(Work::Aside(step))
    }

    /// Whether the outbox is full, so that nothing is taken but for a stop.
    pub fn is_full(&self) -> bool {
        self.lock().full
    }

    /// From now on nothing is taken, or something again.
    pub(crate) fn set_full(&self, full: bool) {
        let mut state = self.lock();
        let changed = std::mem::replace(&mut state.full, full) != full;
        drop(state);
        if changed {
            self.queue.changed.notify_all();
        }
    }

    /// Takes what is handed over also where there is no room: sources are stopping, and each has one submission in hand.
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

    /// Goes up by one with every commit that fails.
    pub fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    /// Every source as it is committed, with the epoch in which that is so.
    pub fn sources(&self) -> (u64, Vec<Arc<SourceState>>) {
        let state = self.lock();
        (state.epoch, state.sources.values().cloned().collect())
    }

    /// Whether there is work that was not taken out yet.
    pub(crate) fn has_work(&self) -> bool {
        !self.lock().work.is_empty()
    }

    /// Bytes that wait to be committed.
    pub fn waiting_bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Goes up whenever the committer comes round, which it does every second at least.
    pub fn beats(&self) -> u64 {
        self.queue.beats.load(Ordering::Relaxed)
    }

    pub(crate) fn beat(&self) {
        self.queue.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the committer has ended, by itself or by a fault.
    pub fn has_ended(&self) -> bool {
        self.queue.ended.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.queue.ended.store(true, Ordering::Release);
        self.close();
        // Whoever waits for a step hears that nobody will take it, and may ask the intake something then.
        let work = std::mem::take(&mut self.lock().work);
        drop(work);
    }

    /// Whether [`WorkQueue::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether sources are stopping, or are to.
    pub fn is_draining(&self) -> bool {
        let state = self.lock();
        state.draining || state.closed
    }

    /// Closes the queue: waiting submissions are still committed, later ones are refused.
    pub fn close(&self) {
        self.lock().closed = true;
        self.queue.changed.notify_all();
    }

    /// The next piece of work, or none after `timeout`. `Err` when the intake is closed and empty.
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

    /// Gives room back for work that was taken out: its rows have become pages, or were committed.
    pub(crate) fn release(&self, bytes: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        self.queue.changed.notify_all();
    }

    /// Notes what is committed now.
    pub(crate) fn committed(&self, sources: impl IntoIterator<Item = Arc<SourceState>>) {
        let mut state = self.lock();
        for source in sources {
            state.sources.insert(source.identity, source);
        }
    }

    /// Forgets sources that the catalog no longer keeps.
    pub(crate) fn forget(&self, identities: &[u64]) {
        let mut state = self.lock();
        for identity in identities {
            state.sources.remove(identity);
        }
    }

    /// A commit failed: every waiting submission is refused and a new epoch begins. Steps stay in the queue.
    pub(crate) fn fail(&self) {
        let mut state = self.lock();
        state.epoch += 1;
        let (refused, kept): (VecDeque<Work<S>>, VecDeque<Work<S>>) =
            std::mem::take(&mut state.work).into_iter().partition(|work| matches!(work, Work::Rows(_)));
        state.work = kept;
        state.bytes = 0;
        drop(state);
        self.queue.changed.notify_all();
        drop(refused);
    }
}
