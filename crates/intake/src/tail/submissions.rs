//! Rows and positions on their way to the store, and how far they are committed.
//!
//! Positions move only in the submission that has their rows. So after a failed commit everything that is not committed
//! is read again.

use super::followed_files::FollowedFiles;
use super::source_index::SourceIndex;
use crate::batcher::Batcher;
use daytable_model::source_id::SourceId;
use daytable_model::time::{self, Ticks};
use daytable_store::{Ack, CommitQueue, SourceClaim, SourceKind, SourceReader, SourceState, Submission, SubmitError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of rows that are submitted at once.
const SUBMISSION_BYTES: usize = 4 << 20;

/// The rows that were read, and the submissions before them.
pub(super) struct Submissions {
    queue: CommitQueue,
    sources: SourceReader,
    epoch: u64,
    batcher: Batcher,
    /// The newest time that a line gave.
    newest: Option<Ticks>,
    /// When the oldest row in `batcher` was read.
    oldest: Option<Instant>,
    /// States of sources without a file.
    detached: Vec<SourceState>,
    /// The number of the last submission, and of the last that is committed.
    last: u64,
    committed: Arc<AtomicU64>,
}

impl Submissions {
    /// No rows yet; and the sources that are committed.
    pub(super) fn new(queue: CommitQueue) -> (Submissions, Vec<Arc<SourceState>>) {
        let mut submissions = Submissions {
            sources: queue.source_reader(),
            queue,
            epoch: 0,
            batcher: Batcher::default(),
            newest: None,
            oldest: None,
            detached: Vec::new(),
            last: 0,
            committed: Arc::default(),
        };
        let sources = submissions.restart();
        (submissions, sources)
    }

    /// Drops unsubmitted rows and begins in the current epoch, after a failed commit. Returns the committed sources.
    pub(super) fn restart(&mut self) -> Vec<Arc<SourceState>> {
        let (epoch, sources) = self.queue.sources();
        self.epoch = epoch;
        self.batcher.take();
        self.newest = None;
        self.oldest = None;
        self.detached.clear();
        sources.into_iter().filter(is_of_file).collect()
    }

    /// The committed sources.
    pub(super) fn committed_sources(&self) -> Vec<Arc<SourceState>> {
        self.queue.sources().1.into_iter().filter(is_of_file).collect()
    }

    /// The right to read a source; none while it is imported.
    pub(super) fn claim(&self, identity: SourceId) -> Option<SourceClaim> {
        self.sources.claim(identity)
    }

    /// The state of a source as an import left it.
    pub(super) fn imported(&self, identity: SourceId) -> Option<Arc<SourceState>> {
        self.queue.source(identity).filter(|state| state.kind == SourceKind::Import)
    }

    /// The epoch in which rows are submitted.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether a commit has failed since the epoch began.
    pub(super) fn is_stale(&self) -> bool {
        self.queue.epoch() != self.epoch
    }

    /// Whether the commit queue is full.
    pub(super) fn is_queue_full(&self) -> bool {
        self.queue.is_full()
    }

    /// The batches of the rows, and the newest time of their lines.
    pub(super) fn rows(&mut self) -> (&mut Batcher, &mut Option<Ticks>) {
        (&mut self.batcher, &mut self.newest)
    }

    /// A file has a new position.
    pub(super) fn note_progress(&mut self) {
        self.oldest.get_or_insert_with(Instant::now);
    }

    /// The state of a source without a file is submitted with the next rows.
    pub(super) fn detach(&mut self, state: SourceState) {
        self.detached.push(state);
    }

    /// Whether there are enough rows for a submission.
    pub(super) fn are_large(&self) -> bool {
        self.batcher.bytes() >= SUBMISSION_BYTES
    }

    /// Whether the oldest row has waited for so long.
    pub(super) fn are_older_than(&self, age: Duration) -> bool {
        self.oldest.is_some_and(|oldest| oldest.elapsed() >= age)
    }

    /// The number of the last submission that is committed.
    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    /// Submits all rows, with the positions up to which they were read. Waits while the queue is full.
    pub(super) fn submit(&mut self, files: &mut FollowedFiles, sources: &mut SourceIndex) -> Result<(), SubmitError> {
        let (number, seen) = (self.last + 1, time::now());
        let mut advances: Vec<_> = self.detached.drain(..).map(Arc::new).collect();
        for file in files.iter_mut().filter(|file| file.is_changed) {
            file.is_changed = false;
            let state = file.submit(number, seen);
            sources.put(state.clone());
            advances.push(state);
        }
        self.oldest = None;
        if advances.is_empty() {
            return Ok(());
        }
        self.last = number;
        let committed = self.committed.clone();
        let claims: Vec<_> = advances.iter().map(|state| self.sources.claim(state.identity)).collect();
        let ack = Ack::new(move |is_committed| {
            drop(claims);
            if is_committed {
                committed.fetch_max(number, Ordering::Release);
            }
        });
        self.queue.submit(Submission {
            batches: self.batcher.take(),
            advances,
            newest: self.newest.take(),
            epoch: self.epoch,
            ack,
            ..Submission::default()
        })
    }
}

/// Sources that are files, also those that were imported: a file that is followed goes on where its import ended.
fn is_of_file(state: &Arc<SourceState>) -> bool {
    matches!(state.kind, SourceKind::Tail | SourceKind::Import)
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_store::TestCommitter;
    use daytable_store::source::tests_state;

    #[test]
    fn a_failed_commit_drops_unsubmitted_rows() {
        let (queue, sink) = TestCommitter::new(vec![tests_state(7)]);
        let (mut submissions, sources) = Submissions::new(queue);
        assert_eq!(sources.len(), 1);
        let (mut files, mut index) = (FollowedFiles::new(1), SourceIndex::default());
        submissions.detach(tests_state(8));
        submissions.submit(&mut files, &mut index).expect("taken");
        assert!(sink.take(Duration::ZERO).is_some());
        assert_eq!(submissions.committed(), 1);
        submissions.detach(tests_state(9));
        submissions.note_progress();
        sink.fail();
        assert!(submissions.is_stale() && submissions.are_older_than(Duration::ZERO));
        let committed: Vec<_> = submissions.restart().iter().map(|state| state.identity).collect();
        let has = |number: u64| committed.contains(&number.into());
        assert!(has(7) && has(8) && !has(9), "{committed:?}");
        assert!(!submissions.is_stale() && !submissions.are_older_than(Duration::ZERO));
    }
}
