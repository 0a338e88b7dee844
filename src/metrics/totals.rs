//! Counters of the daemon's own parts.

use super::histogram::BucketHistogram;
use std::collections::BTreeMap;

/// Counters of commits.
#[derive(Clone)]
pub struct CommitTotals {
    /// Records on disk, counted after the commit that holds them.
    pub records: u64,
    /// Batches handed to a commit.
    pub batches: u64,
    /// Commits that reached their commit point.
    pub commits: u64,
    /// Commits that failed.
    pub failures: u64,
    /// Pages that commits wrote.
    pub pages: u64,
    /// Small pages that compaction merged.
    pub pages_merged: u64,
    /// Replacements of pages that compaction refused.
    pub merges_refused: u64,
    /// Idempotency keys that were dropped early, because there were too many.
    pub keys_dropped: u64,
    /// Records a batch.
    pub batch_records: BucketHistogram,
    /// Seconds from the first insert to the commit point.
    pub seconds: BucketHistogram,
    /// Seconds of the final fsync.
    pub fsync_seconds: BucketHistogram,
    /// Bytes of a page as stored.
    pub page_bytes: BucketHistogram,
}

impl Default for CommitTotals {
    fn default() -> CommitTotals {
        CommitTotals {
            records: 0,
            batches: 0,
            commits: 0,
            failures: 0,
            pages: 0,
            pages_merged: 0,
            merges_refused: 0,
            keys_dropped: 0,
            batch_records: BucketHistogram::doubling(1.0, 8),
            seconds: BucketHistogram::doubling(0.000_5, 14),
            fsync_seconds: BucketHistogram::doubling(0.000_1, 16),
            page_bytes: BucketHistogram::doubling(256.0, 11),
        }
    }
}

/// Counters of the lifecycle's runs.
#[derive(Clone, Default)]
pub struct RunTotals {
    /// Runs, failed ones included.
    pub runs: u64,
    /// Day-tables that were dropped.
    pub dropped: u64,
    /// Day-tables that were sealed.
    pub sealed: u64,
    /// Day-tables that were archived and read back.
    pub archived: u64,
    /// Failed steps, by the step's name.
    pub failures: BTreeMap<&'static str, u64>,
    /// Unix time, in seconds, of the last run without a failed step; 0 before it.
    pub last_success: i64,
}

/// Counters of verifications.
#[derive(Clone, Default)]
pub struct VerifyTotals {
    /// Verifications that ran to their end.
    pub runs: u64,
    /// Bytes that were checked against their checksums.
    pub bytes: u64,
    /// Findings of the last verification, by kind.
    pub findings: Vec<(&'static str, u64)>,
    /// Duration of the last verification in seconds.
    pub seconds: f64,
    /// Unix time, in seconds, of the end of the last verification; 0 before it.
    pub last_run: i64,
}

/// Counters of reloads.
#[derive(Clone, Copy, Default)]
pub struct ReloadTotals {
    /// Reloads that succeeded.
    pub succeeded: u64,
    /// Reloads that failed.
    pub failed: u64,
}

/// Counters of transactions with the remote store.
#[derive(Clone)]
pub struct TransactionTotals {
    /// Entities of each transaction that succeeded.
    pub entities: BucketHistogram,
}

impl Default for TransactionTotals {
    fn default() -> TransactionTotals {
        TransactionTotals { entities: BucketHistogram::doubling(1.0, 7).with_bound(100.0) }
    }
}
