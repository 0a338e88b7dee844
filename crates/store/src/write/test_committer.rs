//! A committer without a store behind it, for tests of sources.

use crate::source::SourceState;
use crate::write::commit::CommitQueue;
use crate::write::queue::{CommitOutcome, Submission, Work};
use std::time::Duration;

/// The receiving end of a [`CommitQueue`], for tests of sources: receives their submissions without a store.
pub struct TestCommitter(pub(crate) CommitQueue);

impl TestCommitter {
    /// An intake with nothing known, and its other end.
    pub fn new(sources: Vec<SourceState>) -> (CommitQueue, TestCommitter) {
        let intake = CommitQueue::new(sources);
        (intake.clone(), TestCommitter(intake))
    }

    /// Takes the next submission, as if it were committed at once.
    pub fn take(&self, timeout: Duration) -> Option<Submission> {
        match self.0.next(timeout) {
            Ok(Some(Work::Rows(mut submission))) => {
                self.0.release(submission.bytes());
                self.0.committed(submission.advances.clone());
                std::mem::take(&mut submission.ack).complete(CommitOutcome::Committed);
                Some(*submission)
            }
            _ => None,
        }
    }

    /// Fails a commit: everything that waits is refused.
    pub fn fail(&self) {
        self.0.fail();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::queue::{Ack, SubmitError, WAITING_BYTES_MAX};

    fn rows(epoch: u64, bytes: usize) -> Submission {
        // An advance counts 512 bytes.
        let state = crate::source::tests_state(1);
        Submission { advances: vec![state.into(); bytes / 512], epoch, ..Submission::default() }
    }

    #[test]
    fn a_full_queue_pushes_back_until_there_is_room() {
        let (intake, sink) = TestCommitter::new(vec![]);
        intake.submit(rows(0, WAITING_BYTES_MAX)).expect("room");
        let waiting = std::thread::spawn({
            let intake = intake.clone();
            move || intake.submit(rows(0, 1024))
        });
        while !waiting.is_finished() && !sink.0.has_work() {
            std::thread::yield_now();
        }
        assert!(intake.waiting_bytes() <= WAITING_BYTES_MAX);
        assert!(sink.take(Duration::from_secs(10)).is_some());
        waiting.join().expect("no panic").expect("taken once there is room");
        assert!(sink.take(Duration::from_secs(10)).is_some());
        assert_eq!(intake.waiting_bytes(), 0);
    }

    #[test]
    fn after_a_failure_rows_read_before_are_refused() {
        let (intake, sink) = TestCommitter::new(vec![]);
        let (told, hears) = std::sync::mpsc::channel();
        let mut submission = rows(0, 512);
        submission.ack = Ack::new(move |committed| told.send(committed).expect("heard"));
        intake.submit(submission).expect("room");
        sink.fail();
        assert_eq!(hears.recv(), Ok(false));
        assert_eq!(intake.submit(rows(0, 512)), Err(SubmitError::Stale));
        intake.submit(rows(intake.epoch(), 512)).expect("read anew");
    }

    #[test]
    fn closing_refuses_more_and_keeps_waiting_submissions() {
        let (intake, sink) = TestCommitter::new(vec![]);
        intake.submit(rows(0, 512)).expect("room");
        intake.close();
        assert_eq!(intake.submit(rows(0, 512)), Err(SubmitError::Closed));
        assert!(sink.take(Duration::ZERO).is_some());
        assert!(matches!(intake.next(Duration::ZERO), Err(SubmitError::Closed)));
    }
}
