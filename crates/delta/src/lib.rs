//! The log of a [Delta table](https://github.com/delta-io/delta/blob/master/PROTOCOL.md) in object storage, written and
//! read by hand: which Parquet files are the table now.
//!
//! ```text
//! Log/                                              the table
//!   log_day=2026-11-20/log_host=web-1/….parquet     data files: the caller writes them before the commit
//!   _delta_log/
//!     00000000000000000000.json                     version 0: protocol, schema, first files. One action a line
//!     00000000000000000001.json                     version 1: written only if it is absent
//!     …
//!     00000000000000000100.checkpoint.parquet       the whole state after version 100
//!     _last_checkpoint                              where readers may begin: a hint
//! ```
//!
//! * [`error`]: what can go wrong.
//! * [`schema`]: columns, and which changes of them are permitted.
//! * [`action`]: what a commit may do: add files, remove files, move a transaction, set the schema.
//! * `metadata`: the table's own description and the versions of the protocol.
//! * `line`: actions as lines of JSON.
//! * `uri`: paths of files as the log writes them.
//! * `log_name`: names of objects in `_delta_log`.
//! * [`snapshot`]: the state of the table at a version, by replay.
//! * `checkpoint`: a snapshot as a Parquet file.
//! * [`log`]: the log in its store, its limits, and the objects in it.
//! * `load`: from the checkpoint and later commits to a snapshot.
//! * `commit`: the next version, by one writer of many.
//! * [`mod@sweep`]: data files that the table no longer needs.
//!
//! What holds:
//!
//! * The crate knows no record, no day, no host and no configuration.
//! * A version is written once. A writer that loses the race for a version proposes again on what came meanwhile.
//! * A commit whose answer is lost is looked up, never guessed: it is not written a second time.
//! * A snapshot is whole or an error. A gap between versions is an error, a damaged checkpoint is passed over if all
//!   commits are there. A kept snapshot is continued only where its last version is the same object as before.
//! * A table that needs what this crate does not know is refused, not misread.
//! * The size of each object is compared with its limit before the object is read.
//!
//! What is not done: deletion vectors, column mapping, other table features, checkpoints of version 2, removal of old
//! commits, and columns of statistics in checkpoints.

pub mod action;
pub mod error;
pub mod log;
pub mod schema;
pub mod snapshot;
pub mod sweep;
mod checkpoint;
mod commit;
mod line;
mod load;
mod log_name;
mod metadata;
mod uri;
#[cfg(test)]
mod tests;

pub use action::{AddedFile, AppTransaction, DeltaAction, RemovedFile};
pub use commit::DeltaCommit;
pub use error::{CommitError, DeltaError};
pub use log::{DeltaLog, DeltaOptions, StoreCheck, WriteHook, check_store};
pub use schema::{DeltaType, TableColumn};
pub use snapshot::TableSnapshot;
pub use sweep::{ListedObject, SweepReason, Sweepable, sweepable};
