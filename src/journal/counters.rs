//! What the readers of journals count, for the metrics to show.

use crate::lifecycle::Misplaced;
use crate::parse::Format;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one block.
#[derive(Debug, Default)]
pub struct JournalCounters {
    /// The block's name.
    pub name: String,
    /// Entries that were read, and are read again after a failed commit.
    pub records: AtomicU64,
    /// Bytes of their names and values.
    pub bytes: AtomicU64,
    /// Records by format, in the order of [`Format::ALL`].
    pub by_format: [AtomicU64; Format::ALL.len()],
    /// Entries that were cut at the limit.
    pub truncated: AtomicU64,
    /// Entries with bytes that are no UTF-8.
    pub invalid_utf8: AtomicU64,
    /// Entries known to have been gone before they were read.
    pub lost: AtomicU64,
    /// How often the entry that reading was to go on behind was gone.
    pub gaps: AtomicU64,
    /// How often `journalctl` could not be run, or ended.
    pub failures: AtomicU64,
    /// The time of the last entry that was read while there was more to read, in ticks; zero where all is read.
    pub unread_since: AtomicU64,
    /// Records that went to today's table.
    pub misplaced: Misplaced,
}

impl JournalCounters {
    /// All zero.
    pub fn new(name: &str) -> JournalCounters {
        JournalCounters { name: name.into(), ..JournalCounters::default() }
    }
}

/// Counts up; no other order than its own is needed of a count.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
