//! Idempotency keys of the commit that is being collected.

use super::queue::{Ack, CommitOutcome};
use crate::format::catalog::idempotency::{IdempotencyKey, KeyHash};
use std::collections::HashMap;

/// Keys of the commit that is gathered, and those that came with one of them again.
#[derive(Default)]
pub(crate) struct PendingKeys {
    keys: HashMap<KeyHash, IdempotencyKey, foldhash::quality::RandomState>,
    repeats: Vec<(Ack, CommitOutcome)>,
}

impl PendingKeys {
    /// What becomes of `once` when this commit is on disk, where its key is in it.
    pub(crate) fn outcome_of(&self, idempotency: &IdempotencyKey) -> Option<CommitOutcome> {
        self.keys.get(&idempotency.key).map(|first| first.compare(idempotency).into())
    }

    pub(crate) fn add(&mut self, idempotency: IdempotencyKey) {
        self.keys.insert(idempotency.key, idempotency);
    }

    /// Has `done` told `outcome` when this commit is on disk; that it is not committed, if it never is.
    pub(crate) fn add_repeat(&mut self, done: Ack, outcome: CommitOutcome) {
        self.repeats.push((done, outcome));
    }

    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &IdempotencyKey> {
        self.keys.values()
    }

    /// The commit is on disk.
    pub(crate) fn committed(self) {
        self.repeats.into_iter().for_each(|(done, outcome)| done.complete(outcome));
    }
}
