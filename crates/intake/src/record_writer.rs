//! Records become rows in batches, for sources whose records come over a socket.
//!
//! A record without a time gets the time of its arrival. Not the time of the record before it, as in a file: that
//! record may be from another sender.

use crate::batcher::Batcher;
use crate::counters::SourceCounters;
use crate::route::{Origin, RouteCaches, Router};
use daytable_model::batch::Batch;
use daytable_model::record::Record;
use daytable_model::source_id::{HostId, SourceId, SourceStart};
use daytable_model::time::{self, Ticks};
use daytable_model::window::Admission;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// 64 random bits, to name what has no name of its own.
pub fn random_identity() -> u64 {
    // The keys of `RandomState` are random, and its hash does not reveal them.
    RandomState::new().build_hasher().finish()
}

/// A source of `host` without a name that begins now: a connection, or a request. Of two of them, the later one has the
/// later start, also if the clock is set back or did not go on in between.
pub fn begin_source(host: HostId) -> SourceId {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SourceStart::at(time::now());
    let after = |last: u64| Some(now.max(SourceStart::new(last).next()).get());
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_default();
    SourceId::new(now.max(SourceStart::new(last).next()), host, random_identity())
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

    /// The host of the sources.
    pub(crate) fn host(&self) -> HostId {
        self.router.host()
    }

    /// Writes a record to the batch it belongs to. `routes` are those of one source, `now` is the time of arrival.
    pub(crate) fn write(
        &mut self,
        routes: &mut RouteCaches,
        instance: &str,
        record: &Record<'_>,
        origin: Origin<'_>,
        now: Ticks,
        counters: &SourceCounters,
    ) {
        self.router.refresh();
        let time = record.time.unwrap_or(now);
        let route = routes.get(&self.router, instance, origin.source);
        let admission = route.push(&self.router, &mut self.batcher, record, time, origin, now);
        counters.count_record(record.level);
        if admission != Admission::Own {
            counters.count_misplaced(route.table(), admission);
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
