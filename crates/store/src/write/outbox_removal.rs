//! What a sender asks of the committer: to remove rows that were sent, and to keep rows that no store accepts.

use crate::StoreError;
use crate::format::catalog::accounting::Taken;
use crate::outbox::Departure;
use crate::write::commit::{Committer, Intake};
use crate::write::queue::{Done, Submission};
use daytable_model::batch::Batch;

/// What a sender asks the committer for. Cheap to clone.
#[derive(Clone)]
pub struct Departures {
    pub(crate) intake: Intake,
}

impl Departures {
    /// Removes pages that were sent; `told` hears from the committer's thread when they are gone, or why not. What is not
    /// found is gone already, or was merged with other pages and is still to be sent.
    pub fn remove(
        &self,
        departures: Vec<Departure>,
        told: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) -> Result<(), StoreError> {
        let step = Box::new(move |committer: &mut Committer| told(committer.depart(&departures)));
        self.intake.aside(step).map_err(|_| StoreError::Closed)
    }

    /// Commits rows of a table that stays here, however full the outbox is. `done` hears what became of them.
    pub fn keep(&self, batches: Vec<Batch>, done: Done) -> Result<(), StoreError> {
        let step = Box::new(move |committer: &mut Committer| {
            let records = batches.iter().map(Batch::records).sum();
            let taken = vec![Taken::records("daytable", "dead_letters", records)];
            committer.keep(Submission { batches, done, taken, ..Submission::default() });
        });
        self.intake.aside(step).map_err(|_| StoreError::Closed)
    }
}
