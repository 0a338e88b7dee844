//! What the tailer counts, for the metrics to show.

use daytable_model::window::Admission;
use daytable_parse::Format;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts of all blocks.
#[derive(Debug, Default)]
pub struct TailCounters {
    /// By block, in the order of the configuration.
    pub blocks: Vec<Arc<BlockCounters>>,
    /// Descriptors that are open now.
    pub open_files: AtomicU64,
    /// Files that are followed now.
    pub followed_files: AtomicU64,
}

/// Counts of one block.
#[derive(Debug, Default)]
pub struct BlockCounters {
    /// The block's name.
    pub name: String,
    /// Records that were read, and are read again after a failed commit.
    pub records: AtomicU64,
    /// Bytes that were read, newlines included.
    pub bytes: AtomicU64,
    /// Records by format, in the order of [`Format::ALL`].
    pub by_format: [AtomicU64; Format::ALL.len()],
    /// Records that were cut at the limit.
    pub truncated: AtomicU64,
    /// Records with bytes that are no UTF-8.
    pub invalid_utf8: AtomicU64,
    /// Records that went to today's table, by configured table: those whose day had expired, and those dated far ahead.
    misplaced: Mutex<BTreeMap<String, [u64; 2]>>,
    /// Failures to open or read a file or folder.
    pub read_errors: AtomicU64,
    /// Files that were rotated away or truncated.
    pub rotations: AtomicU64,
    /// Files that were written anew over their path with a line changed that was read: they are read again.
    pub rewritten: AtomicU64,
    /// Bytes known to have been destroyed before they were read.
    pub lost_bytes: AtomicU64,
    /// Bytes that were passed over as the configuration says.
    pub skipped_bytes: AtomicU64,
    /// Unread bytes of the file that has most of them, now.
    pub lag_bytes: AtomicU64,
    /// Since when the oldest unread byte of any file is there, in ticks; zero where everything is read.
    pub unread_since: AtomicU64,
}

impl TailCounters {
    /// All zero, for blocks of these names.
    pub fn new<'a>(blocks: impl IntoIterator<Item = &'a str>) -> TailCounters {
        TailCounters::continued(&[], blocks)
    }

    /// For blocks of these names, of which those that are `known` count on.
    pub fn continued<'a>(known: &[Arc<BlockCounters>], blocks: impl IntoIterator<Item = &'a str>) -> TailCounters {
        let block = |name: &str| match known.iter().find(|block| block.name == name) {
            Some(known) => known.clone(),
            None => Arc::new(BlockCounters { name: name.into(), ..BlockCounters::default() }),
        };
        TailCounters { blocks: blocks.into_iter().map(block).collect(), ..TailCounters::default() }
    }
}

impl BlockCounters {
    /// Records that went to today's table, late and early ones, by configured table.
    pub fn misplaced(&self) -> MutexGuard<'_, BTreeMap<String, [u64; 2]>> {
        self.misplaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn misplace(&self, table: &str, admission: Admission) {
        let at = match admission {
            Admission::Own => return,
            Admission::Late => 0,
            Admission::Early => 1,
        };
        self.misplaced().entry(table.to_owned()).or_default()[at] += 1;
    }

    /// Where records of a format are counted.
    pub fn of_format(&self, format: Format) -> &AtomicU64 {
        &self.by_format[format.number()]
    }
}

/// Counts up; no other order than its own is needed of a count.
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_and_early_records_are_counted_by_table() {
        let counters = BlockCounters::default();
        let came =
            [("Log", Admission::Late), ("Log", Admission::Own), ("Log", Admission::Early), ("Audit", Admission::Late)];
        for (table, admission) in came.into_iter().chain([("Log", Admission::Late)]) {
            counters.misplace(table, admission);
        }
        let counted: Vec<_> = counters.misplaced().iter().map(|(table, counts)| (table.clone(), *counts)).collect();
        assert_eq!(counted, [("Audit".to_owned(), [1, 0]), ("Log".to_owned(), [2, 1])]);
    }
}
