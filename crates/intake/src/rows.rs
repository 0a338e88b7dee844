//! Records become rows: what every source has whose records come over a socket and cannot be read again.
//!
//! A record goes to the lane of its instance, with its own time or that of its arrival. Not that of the record before it,
//! as in a file: the one before may be another sender's, or of yesterday.

use crate::batcher::Batcher;
use crate::route::{Origin, RouteCaches, Router};
use daytable_model::batch::Batch;
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use daytable_model::window::Admission;
use daytable_parse::Format;
use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is counted of the records of one source.
#[derive(Debug, Default)]
pub struct Tally {
    /// Records that were taken.
    pub records: AtomicU64,
    /// Records by the format they were read as, in the order of [`Format::ALL`]; those that came with fields of their own
    /// are none.
    pub by_format: [AtomicU64; Format::ALL.len()],
    /// Records that were cut at a limit.
    pub truncated: AtomicU64,
    /// Records with bytes that are no UTF-8.
    pub invalid_utf8: AtomicU64,
    /// Records that were taken and could not be committed any more, because the store was closed.
    pub lost: AtomicU64,
    /// Records that went to today's table, by configured table: those whose day had expired, and those dated far ahead.
    misplaced: Mutex<BTreeMap<String, [u64; 2]>>,
}

impl Tally {
    /// Records that went to today's table, late and early ones, by configured table.
    pub fn misplaced(&self) -> MutexGuard<'_, BTreeMap<String, [u64; 2]>> {
        self.misplaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what another one counted as well.
    pub(crate) fn add(&self, other: &Tally) {
        let own = [&self.records, &self.truncated, &self.invalid_utf8, &self.lost].into_iter().chain(&self.by_format);
        let others = [&other.records, &other.truncated, &other.invalid_utf8, &other.lost].into_iter();
        for (own, other) in own.zip(others.chain(&other.by_format)) {
            let by = other.load(Ordering::Relaxed);
            if by > 0 {
                count(own, by);
            }
        }
        for (table, [late, early]) in other.misplaced().iter() {
            let mut all = self.misplaced();
            let of_table = all.entry(table.clone()).or_default();
            of_table[0] += late;
            of_table[1] += early;
        }
    }

    fn misplace(&self, table: &str, admission: Admission) {
        let at = match admission {
            Admission::Own => return,
            Admission::Late => 0,
            Admission::Early => 1,
        };
        self.misplaced().entry(table.to_owned()).or_default()[at] += 1;
    }
}

/// Counts up; no other order than its own is needed of a count.
pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// 64 random bits: the identity of what has no name of its own.
pub fn random_identity() -> u64 {
    // Its keys are random, and it is built to give nothing away of them.
    RandomState::new().build_hasher().finish()
}

/// Rows that gather until they are handed over.
pub(crate) struct Rows {
    router: Router,
    batcher: Batcher,
    newest: Option<Ticks>,
}

impl Rows {
    pub(crate) fn new(router: Router) -> Rows {
        Rows { router, batcher: Batcher::default(), newest: None }
    }

    /// Writes a record to the batch it belongs to. `lanes` are those of one source, `now` is the time of arrival.
    pub(crate) fn write(
        &mut self,
        lanes: &mut RouteCaches,
        instance: &str,
        record: &Record<'_>,
        origin: Origin<'_>,
        now: Ticks,
        tally: &Tally,
    ) {
        self.router.refresh();
        let time = record.time.unwrap_or(now);
        let lane = lanes.get(&self.router, instance, origin.source);
        let admission = lane.push(&self.router, &mut self.batcher, record, time, origin, now);
        count(&tally.records, 1);
        if admission != Admission::Own {
            tally.misplace(lane.table(), admission);
        }
        // One record from the year 9999 must not vouch for any clock.
        if admission != Admission::Early {
            self.newest = record.time.max(self.newest);
        }
    }

    /// Bytes of all that gathered.
    pub(crate) fn bytes(&self) -> usize {
        self.batcher.bytes()
    }

    /// Bytes that all of it takes in memory, with what is around rows: see [`Batcher::memory`].
    pub(crate) fn memory(&self) -> usize {
        self.batcher.memory()
    }

    /// All that gathered, and the newest time that a record among it gave by itself.
    pub(crate) fn take(&mut self) -> (Vec<Batch>, Option<Ticks>) {
        (self.batcher.take(), self.newest.take())
    }
}
