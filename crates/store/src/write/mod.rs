//! How rows are committed: the queue, the committer behind it, and the recovery of a folder that is opened.

pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod lifecycle_steps;
pub mod queue;
pub(crate) mod recovery;
