//! Requests of a sender to the committer: to remove sent rows, and to keep rows that the remote store refused.

use crate::StoreError;
use crate::format::catalog::accounting::SourceReceipt;
use crate::outbox::OutboxRemoval;
use crate::write::commit::{CommitQueue, Committer};
use crate::write::queue::{Ack, Submission};
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
        let step = Box::new(move |committer: &mut Committer| callback(committer.remove_sent(&removals)));
        self.queue.aside(step).map_err(|_| StoreError::Closed)
    }

    /// Commits rows of a local table, even if the outbox is full. `ack` receives the outcome.
    pub fn keep(&self, batches: Vec<Batch>, ack: Ack) -> Result<(), StoreError> {
        let step = Box::new(move |committer: &mut Committer| {
            let records = batches.iter().map(Batch::records).sum();
            let receipts = vec![SourceReceipt::records("daytable", "dead_letters", records)];
            committer.keep(Submission { batches, ack, receipts, ..Submission::default() });
        });
        self.queue.aside(step).map_err(|_| StoreError::Closed)
    }
}
