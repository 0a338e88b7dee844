//! The embedded engine. An open *day-table* (the records of one table and day) is an SQLite file of compressed pages; a
//! *sealed* day-table is one Parquet file that never changes. The catalog names the files that are data.
//!
//! ```text
//! catalog.db                the commit point: sources and their positions, day-tables, live files, format version
//! tables/Log20261121.1.db   an open day: pages                      (name, generation)
//! tables/Log20261120.2.parquet  a sealed day, Log20261120.2.manifest.json beside it
//! alerts.json               how far alerts were evaluated; alert-deliveries.json: which actions heard of them;
//!                           verified.json: what the last daily verification found; forward-credentials.json: of this host
//! control.sock              while a daemon runs
//! lock                      the number of the one process that writes, which holds the folder itself locked
//! trash/                    dropped files and copies of unfinished commits, until they are removed
//! ```
//!
//! | folder | duty | uses |
//! |---|---|---|
//! | `format` | the files: [`page`], [`sealed`], the day file, the [`catalog`] | the modules below |
//! | `read` | readers in any process: scan, follow, count | `format` |
//! | [`entry`] | pushed entries, of which a repeat adds nothing | `read` |
//! | [`forward`] | pages of commits as they cross a wire, and become rows again | `format`, `read` |
//! | [`outbox`] | day files whose rows go to a remote store | `format`, `read` |
//! | `maintain` | compaction, [`check`], repair, backup, orphans | `format`, `outbox` |
//! | `write` | the bounded [`queue`], the committer behind it, recovery, the steps of the lifecycle | all of them |
//!
//! Below all of these are [`error`], `layout` (paths), `lock`, [`private_file`] (files that only their
//! owner reads), `sqlite`, `state_file`,
//! `worker_pool` and [`source`]. The modules have no circular dependencies.
//!
//! **Commit k** has three steps. (1) In each open day with new rows, one transaction inserts pages marked `seq = k`.
//! (2) In the catalog, one transaction updates the positions, the last `seq` and number of entities of each of these
//! files, and sets `committed = k`. This is the commit point. (3) The submissions are acknowledged. Pages above
//! `committed` are not data: readers skip them, and recovery moves them to `trash/` before anything else is written.

pub mod entry;
pub mod error;
mod format;
pub mod forward;
mod layout;
mod lock;
mod maintain;
pub mod outbox;
pub mod private_file;
mod progress;
mod read;
pub mod source;
mod sqlite;
mod state_file;
#[cfg(test)]
mod tests;
mod worker_pool;
mod write;

pub use error::StoreError;

pub use format::catalog::accounting::{self, ListenerLedger, SourceReceipt};
pub use format::catalog::forwarding::ForwardState;
pub use format::catalog::idempotency::{self, IdempotencyKey, StoredAnswer};
pub use format::commit_range::{CommitRange, SealedCommits};
pub use format::page_counts::{CountedPage, CountedValues};
#[cfg(feature = "testing")]
pub use format::shared_partitions::assert_partitions;
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
pub use read::columns::{BatchColumn, ColumnBatch, ColumnsFound, RowChooser, SealedColumn};
pub use read::counts::CountBy;
pub use read::held::release_snapshots;
pub use read::scan::Scan;
pub use read::slices::{DayMinutes, MinuteRows, SliceJob, WrittenSlice};
pub use read::walk::{
    ColumnTest, CountedRecords, EveryPart, NeedsKeys, Part, PartFilter, PartVisitor, RecordNumbers, RowsOf,
};
pub use read::{FollowPosition, MinuteCount, Range, Reader, Row, SnapshotTimes, TableSummary};
pub use source::{Ledger, Mark, SourceKind, SourceState, SourceStatus};
pub use state_file::StateFile;
pub use write::commit::{CommitQueue, RestoreTarget, SealTarget};
pub use write::forwarding::ForwardSteps;
pub use write::lifecycle_state::LifecycleState;
pub use write::lifecycle_steps::LifecycleSteps;
pub use write::options::{CommitReport, KNOWN_ENTRIES, StoreOptions};
pub use write::outbox_removal::OutboxRemover;
pub use write::queue::{self, Ack, CommitOutcome, Submission, SubmitError};
pub use write::source_claim::{SourceClaim, SourceReader};
pub use write::store::Store;
#[cfg(any(test, feature = "testing"))]
pub use write::test_committer::TestCommitter;
