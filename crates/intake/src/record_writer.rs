//! Records become rows: what every source has whose records come over a socket and cannot be read again.
//!
//! A record goes to the lane of its instance, with its own time or that of its arrival. Not that of the record before it,
//! as in a file: the one before may be another sender's, or of yesterday.

use crate::batcher::Batcher;
use crate::counters::{SourceCounters, count};
use crate::route::{Origin, RouteCaches, Router};
use daytable_model::batch::Batch;
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use daytable_model::window::Admission;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// 64 random bits: the identity of what has no name of its own.
pub fn random_identity() -> u64 {
    // Its keys are random, and it is built to give nothing away of them.
    RandomState::new().build_hasher().finish()
}

/// Rows that gather until they are handed over.
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
        count(&counters.records, 1);
        if admission != Admission::Own {
            counters.count_misplaced(lane.table(), admission);
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
