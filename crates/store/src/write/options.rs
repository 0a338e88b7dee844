//! How a store is run, and the report of each commit.

use crate::StoreError;
use crate::format::catalog::CHECKPOINT_COMMITS;
use crate::maintain::thresholds::Thresholds;
use crate::outbox::Forwarding;
use daytable_platform::scan_scheduler::SlotReserve;
use std::time::Duration;

/// Seven eighths of a power of two, as many as a hash table has without growing.
pub const KNOWN_ENTRIES: usize = (1 << 18) / 8 * 7;

/// How a store is run.
pub struct StoreOptions {
    /// How long a row waits for others before it is committed.
    pub commit_interval: Duration,
    /// Called after each commit, from the committer's thread.
    pub on_commit: Box<dyn Fn(&CommitReport) + Send>,
    /// Called on each failure, from the committer's thread. Submissions are refused until `on_reopened` is called.
    pub on_failure: Box<dyn Fn(&StoreError) + Send>,
    /// Called when the folder was opened again after a failure.
    pub on_reopened: Box<dyn Fn() + Send>,
    /// When small pages are merged.
    pub compaction: Thresholds,
    /// Commits after which the source log is checkpointed. With a larger number fewer rows are written, and a reader applies
    /// more of the log.
    pub checkpoint_commits: u64,
    /// A day that is over and was not written to for this long is closed, unless its pages are worth a merge. A closed file
    /// is complete without a journal; an open one costs memory, and a part of each start and stop.
    pub idle_day: Duration,
    /// Whether committed rows are forwarded to a remote store.
    pub forwarding: Forwarding,
    /// Whether rows arrive here, so that the times of their commits are those of their arrival. Not in a folder through which
    /// rows only pass.
    pub notes_arrival: bool,
    /// Recent entries of pushes in each of two generations, so that repeats are found without a look into the store: about 20
    /// bytes each.
    pub known_entries: usize,
    /// Whether a folder is opened although its disk has no room to remove the remains of a crash. Until there is room,
    /// nothing is accepted, and days can be dropped. Otherwise such an opening fails.
    pub waits_for_room: bool,
    /// CPU slots of readers that commits keep free, so that a core is theirs while they work.
    pub reserve: Option<SlotReserve>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            commit_interval: Duration::from_millis(250),
            on_commit: Box::new(|_| {}),
            on_failure: Box::new(|_| {}),
            on_reopened: Box::new(|| {}),
            compaction: Thresholds::default(),
            checkpoint_commits: CHECKPOINT_COMMITS,
            idle_day: Duration::from_secs(60),
            notes_arrival: true,
            known_entries: KNOWN_ENTRIES,
            reserve: None,
            waits_for_room: false,
            forwarding: Forwarding::AsRecorded,
        }
    }
}

#[cfg(test)]
impl StoreOptions {
    /// Options with small thresholds.
    pub(crate) fn small() -> StoreOptions {
        StoreOptions {
            compaction: Thresholds::small(),
            checkpoint_commits: 5,
            idle_day: Duration::ZERO,
            ..StoreOptions::default()
        }
    }
}

/// The report of a commit.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommitReport {
    /// Records in it.
    pub records: u64,
    /// Rows in it, items included.
    pub rows: u64,
    /// Batches in it, and pages that came as such.
    pub batches: u64,
    /// Pages of them.
    pub pages: u64,
    /// Bytes of those pages.
    pub page_bytes: u64,
    /// Small pages that were merged away since the commit before.
    pub pages_merged: u64,
    /// Replacements of pages since the commit before that were refused, because the merged pages had other entities.
    pub merges_refused: u64,
    /// From the beginning to the commit point.
    pub took: Duration,
    /// The part of `took` for writing and syncing day files.
    pub days_written: Duration,
    /// Idempotency keys that were removed early because there were too many.
    pub keys_dropped: u64,
}
