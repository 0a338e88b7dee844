//! What was published of open days, for metrics and the list of day-tables.

use super::failed_step::FailedStep;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The publishing thread writes; metrics and commands read.
#[derive(Default)]
pub struct PublishProgress {
    rows: AtomicU64,
    bytes: AtomicU64,
    parts: AtomicU64,
    failures: AtomicU64,
    shown: Mutex<PublishedTables>,
}

#[derive(Default)]
struct PublishedTables {
    /// Seconds since 1970 of the last time that all that was due of a table was in its archives' table.
    published: BTreeMap<String, i64>,
    failed: BTreeMap<String, FailedStep>,
}

/// Numbers since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishCounts {
    /// Rows of parts that were written. A row counts each time that it is written.
    pub rows: u64,
    /// Bytes of these parts.
    pub bytes: u64,
    /// These parts.
    pub parts: u64,
    /// Failures to publish a table.
    pub failures: u64,
    /// For each table the Unix time at which its open days were last published.
    pub last: Vec<(String, i64)>,
}

impl PublishProgress {
    fn lock(&self) -> MutexGuard<'_, PublishedTables> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers.
    pub fn counts(&self) -> PublishCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PublishCounts {
            rows: read(&self.rows),
            bytes: read(&self.bytes),
            parts: read(&self.parts),
            failures: read(&self.failures),
            last: self.lock().published.iter().map(|(table, at)| (table.clone(), *at)).collect(),
        }
    }

    pub(super) fn failed(&self) -> BTreeMap<String, FailedStep> {
        self.lock().failed.clone()
    }

    pub(super) fn wrote_part(&self, rows: u64, bytes: u64) {
        for (counter, more) in [(&self.rows, rows), (&self.bytes, bytes), (&self.parts, 1)] {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(super) fn has_published(&self, table: &str, at: i64) {
        let mut shown = self.lock();
        shown.failed.remove(table);
        shown.published.insert(table.to_owned(), at);
    }

    pub(super) fn has_failed(&self, table: &str, failed: FailedStep) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.lock().failed.insert(table.to_owned(), failed);
    }

    /// Forgets tables that are not published any more.
    pub(super) fn keep(&self, is_published: impl Fn(&str) -> bool) {
        let mut shown = self.lock();
        shown.published.retain(|table, _| is_published(table));
        shown.failed.retain(|table, _| is_published(table));
    }
}
