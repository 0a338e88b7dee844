//! Rows until their commit, for sources that cannot read their records again.
//!
//! A copy of each submission is kept until its commit. After a failed commit, all uncommitted submissions are submitted
//! again in their order, in the next epoch. The rows keep their keys. So a row that reached the disk despite the
//! failure is overwritten by itself.

use crate::counters::{SourceCounters, SourceEvent, count};
use daytable_model::batch::Batch;
use daytable_model::time::Ticks;
use daytable_store::{Ack, CommitQueue, SourceReceipt, Submission, SubmitError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// The bytes of copies from which a commit does not wait for its interval.
const COPIES_BYTES: usize = 16 << 20;
/// Records that could not be committed because the store was closed.
pub(crate) const LOST: SourceEvent = SourceEvent::RecordsDropped("stopped");

/// Submissions in their order, with numbers from 1.
pub(crate) struct Delivery {
    queue: CommitQueue,
    epoch: u64,
    number: u64,
    in_flight: VecDeque<PendingSubmission>,
    bytes: usize,
    progress: Arc<CommitProgress>,
}

struct PendingSubmission {
    number: u64,
    batches: Vec<Batch>,
    records: RecordCounts,
    newest: Option<Ticks>,
    bytes: usize,
}

/// The number of records of each block.
pub(crate) type RecordCounts = Arc<[(Arc<SourceCounters>, u64)]>;

/// The reports of the committer.
struct CommitProgress {
    /// The number of the last committed submission.
    committed: watch::Sender<u64>,
    /// The latest epoch with a refused submission, plus one.
    refused: AtomicU64,
}

impl Delivery {
    pub(crate) fn new(queue: CommitQueue) -> Delivery {
        let progress = CommitProgress { committed: watch::Sender::new(0), refused: AtomicU64::new(0) };
        let epoch = queue.epoch();
        Delivery { queue, epoch, number: 0, in_flight: VecDeque::new(), bytes: 0, progress: Arc::new(progress) }
    }

    /// The number of the next submission.
    pub(crate) fn next_number(&self) -> u64 {
        self.number + 1
    }

    /// The changing number of the last committed submission.
    pub(crate) fn committed(&self) -> watch::Receiver<u64> {
        self.progress.committed.subscribe()
    }

    /// Submits rows. Blocks while the commit queue is full.
    ///
    /// # Errors
    ///
    /// The store is closed.
    pub(crate) fn submit(
        &mut self,
        batches: Vec<Batch>,
        records: RecordCounts,
        newest: Option<Ticks>,
        is_awaited: bool,
    ) -> Result<(), SubmitError> {
        self.retry()?;
        self.number += 1;
        let bytes = batches.iter().map(Batch::bytes).sum();
        let pending = PendingSubmission { number: self.number, batches, records, newest, bytes };
        self.bytes += bytes;
        let is_awaited = is_awaited || self.bytes > COPIES_BYTES;
        let sent = self.send(&pending, is_awaited);
        self.in_flight.push_back(pending);
        match sent {
            Err(SubmitError::Stale) => self.resubmit(),
            sent => sent,
        }
    }

    /// Drops committed submissions, and repeats refused submissions.
    ///
    /// # Errors
    ///
    /// The store is closed.
    pub(crate) fn retry(&mut self) -> Result<(), SubmitError> {
        let committed = *self.progress.committed.borrow();
        while let Some(pending) = self.in_flight.pop_front_if(|pending| pending.number <= committed) {
            self.bytes -= pending.bytes;
        }
        let is_refused = self.progress.refused.load(Ordering::Acquire) > self.epoch && !self.in_flight.is_empty();
        if is_refused && self.queue.is_closed() {
            return Err(SubmitError::Closed);
        }
        // The next epoch begins after the store has recovered.
        if is_refused && self.queue.epoch() > self.epoch { self.resubmit() } else { Ok(()) }
    }

    /// Whether all submissions are committed.
    pub(crate) fn is_done(&self) -> bool {
        *self.progress.committed.borrow() == self.number
    }

    /// Whether the daemon stops, so waiting must be short.
    pub(crate) fn is_draining(&self) -> bool {
        self.queue.is_draining()
    }

    /// Counts uncommitted records as lost, because the store is closed.
    pub(crate) fn abandon(&mut self) {
        let committed = *self.progress.committed.borrow();
        for pending in self.in_flight.drain(..).filter(|pending| pending.number > committed) {
            pending.records.iter().for_each(|(counters, records)| counters.count(LOST, *records));
        }
    }

    fn resubmit(&mut self) -> Result<(), SubmitError> {
        loop {
            self.epoch = self.queue.epoch();
            let sent = self.in_flight.iter().try_for_each(|pending| self.send(pending, true));
            if sent != Err(SubmitError::Stale) {
                return sent;
            }
        }
    }

    fn send(&self, pending: &PendingSubmission, is_awaited: bool) -> Result<(), SubmitError> {
        let (progress, number, epoch) = (self.progress.clone(), pending.number, self.epoch);
        let records = pending.records.clone();
        let complete = move |is_committed| {
            if is_committed {
                records.iter().for_each(|(counters, records)| count(&counters.committed, *records));
                progress.committed.send_if_modified(|committed| {
                    let is_news = number > *committed;
                    *committed = number.max(*committed);
                    is_news
                });
            } else {
                progress.refused.fetch_max(epoch + 1, Ordering::Release);
            }
        };
        self.queue.submit(Submission {
            batches: pending.batches.clone(),
            newest: pending.newest,
            receipts: pending
                .records
                .iter()
                .map(|(of, records)| SourceReceipt::records(of.kind.name, &*of.name, *records))
                .collect(),
            epoch,
            ack: if is_awaited { Ack::awaited(complete) } else { Ack::new(complete) },
            ..Submission::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_store::TestCommitter;
    use std::time::Duration;

    #[test]
    fn submissions_of_a_failed_commit_are_repeated_in_their_order() {
        let (queue, sink) = TestCommitter::new(vec![]);
        let mut delivery = Delivery::new(queue);
        let counters = Arc::new(SourceCounters::default());
        let one = || RecordCounts::from([(counters.clone(), 1)]);
        for _ in 0..3 {
            delivery.submit(Vec::new(), one(), None, false).expect("taken");
        }
        assert!(sink.take(Duration::ZERO).is_some());
        sink.fail();
        assert!(sink.take(Duration::ZERO).is_none() && !delivery.is_done());
        delivery.retry().expect("submitted again");
        delivery.retry().expect("once");
        for _ in 0..2 {
            assert!(sink.take(Duration::ZERO).is_some());
        }
        assert!(sink.take(Duration::ZERO).is_none() && delivery.is_done());
        sink.fail();
        // Rows of the previous epoch are not lost.
        delivery.submit(Vec::new(), one(), None, true).expect("taken");
        assert!(sink.take(Duration::ZERO).is_some() && delivery.is_done());
        assert_eq!(counters.committed.load(Ordering::Relaxed), 4);
        delivery.submit(Vec::new(), one(), None, true).expect("taken");
        delivery.abandon();
        assert_eq!((counters.event(LOST), counters.committed.load(Ordering::Relaxed)), (1, 4));
    }
}
