//! What the readers of journals count, for the metrics to show.

use crate::rows::Tally;
use std::sync::atomic::AtomicU64;

/// Counts of one block.
#[derive(Debug, Default)]
pub struct JournalCounters {
    /// The block's name.
    pub name: String,
    /// What became of its entries. They are counted again when they are read again after a failed commit; those that are
    /// lost are known to have been gone before they were read.
    pub tally: Tally,
    /// Bytes of their names and values.
    pub bytes: AtomicU64,
    /// How often the entry that reading was to go on behind was gone.
    pub gaps: AtomicU64,
    /// How often `journalctl` could not be run, or ended.
    pub failures: AtomicU64,
    /// The time of the last entry that was read while there was more to read, in ticks; zero where all is read.
    pub unread_since: AtomicU64,
}

impl JournalCounters {
    /// All zero.
    pub fn new(name: &str) -> JournalCounters {
        JournalCounters { name: name.into(), ..JournalCounters::default() }
    }
}
