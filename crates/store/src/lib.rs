//! The embedded engine: open days in SQLite as pages of entities, sealed days in Parquet, and a catalogue that says what is
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
//! [`page`] what it makes of a partition's batches, `day` the file they go to, [`catalogue`] the commit point,
//! `tidy` what merges small pages later. [`sealed`] makes one Parquet file of a day that is over. The way out is [`read`]
//! and [`scan`], in any process. What belongs to a source is [`source`], what belongs to a push that may be repeated
//! [`once`]. Where rows go on to a remote store, the files are its [`outbox`]. [`books`] counts records and rows twice, and
//! [`check`] compares. [`steps`]: what the lifecycle has the committer do. [`private`]: files that only their owner reads.
//! [`bytes`]: numbers as they lie on the disk. [`error`]: what fails, by what the caller can do.
//!
//! **Commit k**: (1) in every open day it touches, one transaction inserts pages marked `seq = k`; (2) in the
//! catalogue, one transaction moves the positions, notes each touched file's last `seq` and number of entities, and
//! sets `committed = k`: this is the commit point; (3) acknowledge. Pages above `committed` never happened: readers
//! pass them over, and whoever opens the folder to write sets them aside before anything else is written.

pub mod error;
mod format;
mod lock;
mod maintain;
pub mod outbox;
pub mod private;
mod progress;
mod read;
pub mod source;
mod sqlite;
#[cfg(test)]
mod tests;
mod write;

pub use error::StoreError;
pub use format::catalog as catalogue;
pub use format::catalog::accounting::{self as books, ListenerLedger, Taken};
pub use format::catalog::idempotency::{self as once, Answer, Once};
#[cfg(feature = "testing")]
pub use format::pack::assert_heads;
pub use format::{page, sealed};
pub use maintain::backup::{BackedUp, SealedFiles, backup};
pub use maintain::check;
#[cfg(feature = "testing")]
pub use maintain::compaction::compact_file;
pub use maintain::disk_usage as bytes;
pub use maintain::repair::repair;
pub use outbox::{Departures, Onward, OutboxOptions};
pub use progress::{OnProgress, Phase, Progress};
pub use read::counts::CountBy;
pub use read::scan::Scan;
pub use read::{Followed, MinuteCount, Range, Reader, Row, TableSummary};
pub use source::{Ledger, Mark, SourceKind, SourceState, SourceStatus};
pub use write::commit::{Restoring, Sealing};
pub use write::lifecycle_steps::{LifecycleState, Steps};
pub use write::queue::{self as intake, Advance, Done, Intake, Outcome, Refused, Submission};

use lock::Lock;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use write::commit::Committer;

/// How a store is run.
pub struct Options {
    /// How long a row waits for others before it is committed.
    pub commit_interval: Duration,
    /// Told of every commit, from the committer's thread.
    pub on_commit: Box<dyn Fn(&CommitReport) + Send>,
    /// Told of every failure, from the committer's thread: nothing is accepted until `on_reopened` is called.
    pub on_failure: Box<dyn Fn(&StoreError) + Send>,
    /// Told when the folder was opened again after a failure.
    pub on_reopened: Box<dyn Fn() + Send>,
    /// Where what is committed goes on to.
    pub onward: Onward,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            commit_interval: Duration::from_millis(250),
            on_commit: Box::new(|_| {}),
            on_failure: Box::new(|_| {}),
            on_reopened: Box::new(|| {}),
            onward: Onward::AsBefore,
        }
    }
}

/// What a commit did.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitReport {
    /// Records in it.
    pub records: u64,
    /// Rows in it, items included.
    pub rows: u64,
    /// Batches it was made of.
    pub batches: u64,
    /// Pages that were made of them.
    pub pages: u64,
    /// Bytes of those pages.
    pub page_bytes: u64,
    /// Small pages that were merged away since the commit before.
    pub pages_merged: u64,
    /// From its begin to the commit point.
    pub took: Duration,
    /// The part of it in which the days' files were written and synced.
    pub days_written: Duration,
    /// Idempotency keys that went before their time, because there were too many.
    pub keys_dropped: u64,
}

/// A data folder, opened to write. Only one process has it open so at a time.
pub struct Store {
    intake: Intake,
    thread: JoinHandle<Result<(), StoreError>>,
    /// Held until this is closed, also where the thread ended early: whoever comes next finds all of it gone, sockets
    /// included.
    _lock: Arc<Lock>,
}

impl Store {
    /// Opens the folder to write; makes it where there is none. Sets aside what a crash left half-way.
    pub fn open(data_dir: &Path, options: Options) -> Result<Store, StoreError> {
        let committer = Committer::open(write::recovery::Layout { data: data_dir.into() }, options)?;
        let (intake, lock) = (committer.intake(), committer.lock());
        let ended = Ended(intake.clone());
        let thread = std::thread::Builder::new().name("commit".into()).spawn(move || {
            let _ended = ended;
            committer.run()
        });
        let thread = thread.map_err(StoreError::io("commit thread"))?;
        Ok(Store { intake, thread, _lock: lock })
    }

    /// Where sources hand over what they read.
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// The steps that change what is live.
    pub fn steps(&self) -> Steps {
        Steps { intake: self.intake.clone() }
    }

    /// What takes rows away that were sent elsewhere.
    pub fn departures(&self) -> Departures {
        Departures { intake: self.intake.clone() }
    }

    /// Has what sources have in hand be taken, however full the outbox is: they are about to stop.
    pub fn drain(&self) {
        self.intake.drain();
    }

    /// Commits what waits, and closes the folder so that every file is whole without its journal.
    pub fn close(self) -> Result<(), StoreError> {
        self.intake.close();
        self.thread.join().unwrap_or_else(|_| Err(StoreError::Refused("the committer ended early".into())))
    }
}

/// Says that the committer ended, however it did.
struct Ended(Intake);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Where a daemon's control socket is.
pub fn control_socket(data_dir: &std::path::Path) -> std::path::PathBuf {
    data_dir.join("control.sock")
}
