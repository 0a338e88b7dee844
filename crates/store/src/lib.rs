//! The embedded engine: open days in SQLite as pages of entities, sealed days in Parquet, and a catalog that says what is
//! true.
//!
//! ```text
//! catalog.db                the commit point: sources and their positions, day-tables, live files, format version
//! tables/Log20261121.1.db   an open day: pages                      (name, generation)
//! tables/Log20261120.2.parquet  a sealed day, Log20261120.2.manifest.json beside it
//! control.sock              while a daemon runs
//! lock                      the number of the one process that writes, which holds the folder itself locked
//! trash/                    what was dropped or set aside, being removed
//! ```
//!
//! The way in: [`intake`] is the bounded queue that sources submit to, [`commit`] the one committer behind it,
//! [`page`] what it makes of a partition's batches, `day` the file they go to, [`catalog`] the commit point,
//! compaction what merges small pages later. [`sealed`] makes one Parquet file of a day that is over. The way out is [`read`]
//! and [`scan`], in any process. What belongs to a source is [`source`], what belongs to a push that may be repeated
//! [`once`]. Where rows go on to a remote store, the files are its [`outbox`]. [`books`] counts records and rows twice, and
//! [`check`] compares. [`steps`]: what the lifecycle has the committer do. [`private`]: files that only their owner reads.
//! [`bytes`]: numbers as they lie on the disk. [`error`]: what fails, by what the caller can do.
//!
//! **Commit k**: (1) in every open day it touches, one transaction inserts pages marked `seq = k`; (2) in the
//! catalog, one transaction moves the positions, notes each touched file's last `seq` and number of entities, and
//! sets `committed = k`: this is the commit point; (3) acknowledge. Pages above `committed` never happened: readers
//! pass them over, and whoever opens the folder to write sets them aside before anything else is written.

pub mod error;
mod format;
mod layout;
mod lock;
mod maintain;
pub mod outbox;
pub mod private_file;
mod progress;
mod read;
pub mod source;
mod sqlite;
#[cfg(test)]
mod tests;
mod write;

pub use error::StoreError;

pub use format::catalog::accounting::{self, ListenerLedger, SourceReceipt};
pub use format::catalog::idempotency::{self, IdempotencyKey, StoredAnswer};
#[cfg(feature = "testing")]
pub use format::small_pages::assert_heads;
pub use format::{catalog, page, sealed};
pub use layout::control_socket;
pub use maintain::backup::{BackedUp, SealedFiles, backup};
pub use maintain::check;
#[cfg(feature = "testing")]
pub use maintain::compaction::compact_file;
pub use maintain::disk_usage;
pub use maintain::repair::repair;
pub use maintain::thresholds::Thresholds;
pub use outbox::{Forwarding, OutboxOptions};
pub use progress::{OnProgress, Phase, Progress};
pub use read::counts::CountBy;
pub use read::scan::Scan;
pub use read::{FollowPosition, MinuteCount, Range, Reader, Row, TableSummary};
pub use source::{Ledger, Mark, SourceKind, SourceState, SourceStatus};
pub use write::commit::{CommitQueue, RestoreTarget, SealTarget};
pub use write::lifecycle_steps::{LifecycleState, LifecycleSteps};
pub use write::options::{CommitReport, StoreOptions};
pub use write::outbox_removal::OutboxRemover;
pub use write::queue::{self, Ack, CommitOutcome, Submission, SubmitError};
pub use write::store::Store;
#[cfg(any(test, feature = "testing"))]
pub use write::test_committer::TestCommitter;
