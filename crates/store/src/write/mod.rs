//! Writing: the queue of submissions, the one committer behind it, and the recovery of a folder at its opening.

pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod idempotency;
pub(crate) mod forwarding;
pub(crate) mod lifecycle_state;
pub(crate) mod lifecycle_steps;
pub(crate) mod options;
pub(crate) mod outbox_removal;
pub mod queue;
pub(crate) mod source_claim;
pub(crate) mod recovery;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod test_committer;
pub(crate) mod store;
