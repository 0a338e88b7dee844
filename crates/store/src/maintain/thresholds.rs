//! When compaction does its work.

use crate::format::page::PAGE_BYTES;
use std::time::Duration;

/// Sizes and ages from which compaction acts. Tests use small ones, so that little data goes through every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Age from which a page is merged. A follower reads more often.
    pub settled_after: Duration,
    /// Tiny pages in a row that are worth a merge.
    pub run_pages_min: usize,
    /// Raw bytes of small pages that are worth a merge: about those of a full page.
    pub run_bytes_min: u64,
    /// Raw bytes that one merge reads at most.
    pub merge_bytes_max: u64,
    /// Age of the oldest shared page from which such pages are split, if there are several. With a longer age, a
    /// partition has more records in its first page, and a reader reads more page headers.
    pub split_after: Duration,
    /// In how many shared pages a partition must have rows about, on average, for a split before that age. With fewer, each record
    /// would be rewritten into a page that is hardly larger.
    pub split_pages_min: u64,
    /// Age from which any shared page is split.
    pub split_at_last: Duration,
    /// Raw bytes in shared pages from which they are split at any age if that is worthwhile. Also about the most that one
    /// split reads.
    pub shared_bytes_max: u64,
    /// How long merged pages wait for others before one transaction puts them in place. Pages of many partitions share the
    /// leaves of the B-tree that one transaction writes.
    pub replace_after: Duration,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            settled_after: Duration::from_secs(5),
            run_pages_min: 48,
            run_bytes_min: PAGE_BYTES as u64 * 9 / 10,
            merge_bytes_max: 2 * PAGE_BYTES as u64,
            split_after: Duration::from_secs(30),
            split_pages_min: 8,
            split_at_last: Duration::from_secs(500),
            shared_bytes_max: 16 << 20,
            replace_after: Duration::from_secs(10),
        }
    }
}

#[cfg(test)]
impl Thresholds {
    /// For tests.
    pub(crate) fn small() -> Thresholds {
        Thresholds {
            settled_after: Duration::from_secs(5),
            run_pages_min: 6,
            run_bytes_min: 24 << 10,
            merge_bytes_max: 64 << 10,
            split_after: Duration::from_secs(1),
            split_pages_min: 1,
            split_at_last: Duration::from_secs(7),
            shared_bytes_max: 16 << 20,
            replace_after: Duration::from_secs(1),
        }
    }
}
