//! What a sender asks of the committer: to remove rows that were sent, and to keep rows that no store accepts.

use crate::StoreError;
use crate::format::catalog::accounting::SourceReceipt;
use crate::outbox::OutboxRemoval;
use crate::write::commit::{CommitQueue, Committer};
use crate::write::queue::{Ack, Submission};
use daytable_model::batch::Batch;

/// What a sender asks the committer for. Cheap to clone.
#[derive(Clone)]
pub struct OutboxRemover {
    pub(crate) queue: CommitQueue,
}

impl OutboxRemover {
    /// Removes pages that were sent; `told` hears from the committer's thread when they are gone, or why not. What is not
    /// found is gone already, or was merged with other pages and is still to be sent.
    pub fn remove(
        &self,
        removals: Vec<OutboxRemoval>,
        callback: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let step = Box::new(move |committer: &mut Committer| callback(committer.remove_sent(&removals)));
        self.queue.aside(step).map_err(|_| StoreError::Closed)
    }

    /// Commits rows of a table that stays here, however full the outbox is. `ack` receives what became of them.
    pub fn keep(&self, batches: Vec<Batch>, ack: Ack) -> Result<(), StoreError> {
        let step = Box::new(move |committer: &mut Committer| {
            let records = batches.iter().map(Batch::records).sum();
            let receipts = vec![SourceReceipt::records("daytable", "dead_letters", records)];
            committer.keep(Submission { batches, ack, receipts, ..Submission::default() });
        });
        self.queue.aside(step).map_err(|_| StoreError::Closed)
    }
}
