//! Records become rows in batches, for sources whose records come over a socket.
//!
//! A record without a time gets the time of its arrival. Not the time of the record before it, as in a file: that
//! record may be from another sender.

use crate::batcher::Batcher;
use crate::counters::SourceCounters;
use crate::route::{Origin, RouteCaches, Router};
use daytable_model::batch::Batch;
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use daytable_model::window::Admission;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// 64 random bits, as the identity of a source without a name.
pub fn random_identity() -> u64 {
    // The keys of `RandomState` are random, and its hash does not reveal them.
    RandomState::new().build_hasher().finish()
}

/// Rows that wait for their submission.
pub(crate) struct RecordWriter {
    router: Router,
    batcher: Batcher,
    newest: Option<Ticks>,
}

impl RecordWriter {
    pub(crate) fn new(router: Router) -> RecordWriter {
        RecordWriter { router, batcher: Batcher::default(), newest: None }
    }

    /// Writes a record to the batch it belongs to. `lanes` are those of one source, `now` is the time of arrival.
    pub(crate) fn write(
        &mut self,
        lanes: &mut RouteCaches,
        instance: &str,
        record: &Record<'_>,
        origin: Origin<'_>,
        now: Ticks,
        counters: &SourceCounters,
    ) {
        self.router.refresh();
        let time = record.time.unwrap_or(now);
        let lane = lanes.get(&self.router, instance, origin.source);
        let admission = lane.push(&self.router, &mut self.batcher, record, time, origin, now);
        counters.count_record(record.level);
        if admission != Admission::Own {
            counters.count_misplaced(lane.table(), admission);
        }
        // A record from the year 9999 must not vouch for any clock.
        if admission != Admission::Early {
            self.newest = record.time.max(self.newest);
        }
    }

    /// Bytes of all rows.
    pub(crate) fn bytes(&self) -> usize {
        self.batcher.bytes()
    }

    /// Memory of all rows in bytes: see [`Batcher::memory`].
    pub(crate) fn memory(&self) -> usize {
        self.batcher.memory()
    }

    /// All rows, and the newest time that one of their records gave.
    pub(crate) fn take(&mut self) -> (Vec<Batch>, Option<Ticks>) {
        (self.batcher.take(), self.newest.take())
    }
}
