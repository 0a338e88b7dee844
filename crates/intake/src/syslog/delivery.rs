//! RecordWriter on their way into a commit.
//!
//! What came from a socket cannot be read again. So a copy of what was submitted is kept until it is committed; when a
//! commit fails all that is not is submitted once more, in its order, in the next epoch. RecordWriter keep their keys, so one
//! that was on disk all the same is written over by itself.

use crate::counters::{SourceCounters, SourceEvent, count};
use daytable_model::batch::Batch;
use daytable_model::time::Ticks;
use daytable_store::{Ack, CommitQueue, SourceReceipt, Submission, SubmitError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// Bytes of copies from which the commit is asked not to wait for its interval.
const COPIES_BYTES: usize = 16 << 20;
/// RecordCounts that could not be committed because the store was closed.
pub(super) const LOST: SourceEvent = SourceEvent::RecordsDropped("stopped");

/// Submissions that are numbered from 1 and committed in this order.
pub(super) struct Delivery {
    intake: CommitQueue,
    epoch: u64,
    number: u64,
    under_way: VecDeque<PendingSubmission>,
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

/// How many records there are of each listener.
pub(super) type RecordCounts = Arc<[(Arc<SourceCounters>, u64)]>;

/// What the committer said.
struct CommitProgress {
    /// The last submission that is committed.
    committed: watch::Sender<u64>,
    /// One more than the latest epoch in which a submission was refused.
    refused: AtomicU64,
}

impl Delivery {
    pub(super) fn new(intake: CommitQueue) -> Delivery {
        let progress = CommitProgress { committed: watch::Sender::new(0), refused: AtomicU64::new(0) };
        let epoch = intake.epoch();
        Delivery { intake, epoch, number: 0, under_way: VecDeque::new(), bytes: 0, progress: Arc::new(progress) }
    }

    /// The number that the next submission has.
    pub(super) fn next_number(&self) -> u64 {
        self.number + 1
    }

    /// The number of the last submission that is committed, as it changes.
    pub(super) fn committed(&self) -> watch::Receiver<u64> {
        self.progress.committed.subscribe()
    }

    /// Hands rows over, and waits while too much waits already. An error where the store takes nothing any more.
    pub(super) fn submit(
        &mut self,
        batches: Vec<Batch>,
        records: RecordCounts,
        newest: Option<Ticks>,
        is_awaited: bool,
    ) -> Result<(), SubmitError> {
        self.settle()?;
        self.number += 1;
        let bytes = batches.iter().map(Batch::bytes).sum();
        let pending = PendingSubmission { number: self.number, batches, records, newest, bytes };
        self.bytes += bytes;
        let is_awaited = is_awaited || self.bytes > COPIES_BYTES;
        let sent = self.send(&pending, is_awaited);
        self.under_way.push_back(pending);
        match sent {
            Err(SubmitError::Stale) => self.again(),
            sent => sent,
        }
    }

    /// Lets go of what is committed, and submits again what was refused.
    pub(super) fn settle(&mut self) -> Result<(), SubmitError> {
        let committed = *self.progress.committed.borrow();
        while let Some(pending) = self.under_way.pop_front_if(|pending| pending.number <= committed) {
            self.bytes -= pending.bytes;
        }
        let is_refused = self.progress.refused.load(Ordering::Acquire) > self.epoch && !self.under_way.is_empty();
        if is_refused && self.intake.is_closed() {
            return Err(SubmitError::Closed);
        }
        // The next epoch begins once the store stands again.
        if is_refused && self.intake.epoch() > self.epoch { self.again() } else { Ok(()) }
    }

    /// Whether all that was submitted is committed.
    pub(super) fn is_done(&self) -> bool {
        *self.progress.committed.borrow() == self.number
    }

    /// Whether the daemon stops, so that nobody can wait for long.
    pub(super) fn is_draining(&self) -> bool {
        self.intake.is_draining()
    }

    /// Counts what is under way still as lost: the store takes nothing any more.
    pub(super) fn give_up(&mut self) {
        let committed = *self.progress.committed.borrow();
        for pending in self.under_way.drain(..).filter(|pending| pending.number > committed) {
            pending.records.iter().for_each(|(counters, records)| counters.count(LOST, *records));
        }
    }

    fn again(&mut self) -> Result<(), SubmitError> {
        loop {
            self.epoch = self.intake.epoch();
            let sent = self.under_way.iter().try_for_each(|pending| self.send(pending, true));
            if sent != Err(SubmitError::Stale) {
                return sent;
            }
        }
    }

    fn send(&self, pending: &PendingSubmission, is_awaited: bool) -> Result<(), SubmitError> {
        let (progress, number, epoch) = (self.progress.clone(), pending.number, self.epoch);
        let records = pending.records.clone();
        let tell = move |is_committed| {
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
        self.intake.submit(Submission {
            batches: pending.batches.clone(),
            newest: pending.newest,
            receipts: pending
                .records
                .iter()
                .map(|(of, records)| SourceReceipt::records("syslog", &*of.name, *records))
                .collect(),
            epoch,
            ack: if is_awaited { Ack::awaited(tell) } else { Ack::new(tell) },
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
    fn what_a_failed_commit_refused_is_submitted_again_in_its_order() {
        let (intake, sink) = TestCommitter::new(vec![]);
        let mut delivery = Delivery::new(intake);
        let counters = Arc::new(SourceCounters::default());
        let one = || RecordCounts::from([(counters.clone(), 1)]);
        for _ in 0..3 {
            delivery.submit(Vec::new(), one(), None, false).expect("taken");
        }
        assert!(sink.take(Duration::ZERO).is_some());
        sink.fail();
        assert!(sink.take(Duration::ZERO).is_none() && !delivery.is_done());
        delivery.settle().expect("submitted again");
        delivery.settle().expect("once");
        for _ in 0..2 {
            assert!(sink.take(Duration::ZERO).is_some());
        }
        assert!(sink.take(Duration::ZERO).is_none() && delivery.is_done());
        sink.fail();
        // Built in the epoch before, and not lost by that.
        delivery.submit(Vec::new(), one(), None, true).expect("taken");
        assert!(sink.take(Duration::ZERO).is_some() && delivery.is_done());
        assert_eq!(counters.committed.load(Ordering::Relaxed), 4);
        delivery.submit(Vec::new(), one(), None, true).expect("taken");
        delivery.give_up();
        assert_eq!((counters.event(LOST), counters.committed.load(Ordering::Relaxed)), (1, 4));
    }
}
