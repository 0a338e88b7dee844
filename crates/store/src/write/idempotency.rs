//! Idempotency keys of the commit that is being collected.

use super::queue::{Ack, CommitOutcome};
use crate::format::catalog::idempotency::{IdempotencyKey, KeyHash};
use std::collections::HashMap;

/// Keys of the next commit, and submissions that repeat one of them.
#[derive(Default)]
pub(crate) struct PendingKeys {
    keys: HashMap<KeyHash, IdempotencyKey, foldhash::quality::RandomState>,
    repeats: Vec<(Ack, CommitOutcome)>,
}

impl PendingKeys {
    /// The outcome of a repeat of a key in this commit, if the commit succeeds; none if the key is not in it.
    pub(crate) fn outcome_of(&self, idempotency: &IdempotencyKey) -> Option<CommitOutcome> {
        self.keys.get(&idempotency.key).map(|first| first.compare(idempotency).into())
    }

    pub(crate) fn add(&mut self, idempotency: IdempotencyKey) {
        self.keys.insert(idempotency.key, idempotency);
    }

    /// Adds a repeat. It gets `outcome` after this commit, or [`CommitOutcome::NotCommitted`] if the commit fails.
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
