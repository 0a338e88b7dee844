//! Requests of a sender to the committer: to remove sent rows, and to keep rows that the remote store refused.

use crate::StoreError;
use crate::outbox::OutboxRemoval;
use crate::write::commit::{CommitQueue, CommitStep, StepAnswer};
use crate::write::queue::Ack;
use daytable_model::batch::Batch;

/// Sends requests of a sender to the committer. Cheap to clone.
#[derive(Clone)]
pub struct OutboxRemover {
    pub(crate) queue: CommitQueue,
}

impl OutboxRemover {
    /// Removes sent pages, then calls `callback` from the committer's thread. A page that is not found is already
    /// removed, or was merged with other pages and will be sent again.
    pub fn remove(
        &self,
        removals: Vec<OutboxRemoval>,
        callback: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let step = CommitStep::RemoveSent(removals, StepAnswer::to(callback));
        self.queue.step(step).map_err(|_| StoreError::Closed)
    }

    /// Commits rows of a local table, even if the outbox is full. `ack` receives the outcome.
    pub fn keep(&self, batches: Vec<Batch>, ack: Ack) -> Result<(), StoreError> {
        self.queue.step(CommitStep::KeepRefused(batches, ack)).map_err(|_| StoreError::Closed)
    }
}
