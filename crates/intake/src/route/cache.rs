//! Remembered routes: one cache for the records of one instance and one source.

use super::{Candidates, Placement, Router, Subject};
use crate::batcher::{Batcher, Slot};
use daytable_model::key::{RowKey, partition_key};
use daytable_model::record::{Level, Record};
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use daytable_model::window::Admission;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The number of instances of one source that are remembered.
const INSTANCES_MAX: usize = 4096;

/// The route of the records of one instance from one source.
#[derive(Debug)]
pub struct RouteCache {
    instance: Box<str>,
    /// The partition of an instance without buckets.
    partition: Arc<str>,
    /// The partitions of the buckets that were needed so far.
    buckets: Vec<Option<Arc<str>>>,
    /// The candidates for each level, by its code. Code 0 is a record without a level.
    by_level: [Candidates; 10],
    last: Option<LastPlacement>,
}

/// The placement of the previous record.
#[derive(Debug)]
struct LastPlacement {
    placement: Placement,
    /// The batches of the day-table: the first belongs to the whole instance, the others belong to its buckets.
    slots: Vec<Option<Slot>>,
}

/// The origin of a record. The record's key and its route depend on that.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The identity of the source.
    pub identity: SourceId,
    /// The offset of the record's first byte in the source, or its number.
    pub position: u64,
    /// The path of the file, or the listener.
    pub source: &'a str,
    /// The tenant whose credentials sent the record.
    pub tenant: Option<&'a str>,
}

impl RouteCache {
    /// A cache for the records of an instance from one source.
    pub fn new(router: &Router, instance: &str, source: &str) -> RouteCache {
        let candidates = |code| router.candidates(Level::from_code(code as u8), instance, source);
        RouteCache {
            instance: instance.into(),
            partition: partition_key(instance, None).into(),
            buckets: Vec::new(),
            by_level: std::array::from_fn(candidates),
            last: None,
        }
    }

    /// Writes a record with the time `time` to its batch.
    pub fn push(
        &mut self,
        router: &Router,
        batcher: &mut Batcher,
        record: &Record<'_>,
        time: Ticks,
        origin: Origin<'_>,
        now: Ticks,
    ) -> Admission {
        let Origin { source, tenant, .. } = origin;
        let candidates = &self.by_level[usize::from(record.level.map_or(0, Level::code))];
        let route = candidates.route(&Subject { instance: &self.instance, source, tenant, record });
        let applies = |last: &Placement| last.route == route && last.times.contains(&time) && last.nows.contains(&now);
        let last = match &mut self.last {
            Some(last) if applies(&last.placement) => last,
            last => {
                let placement = router.place(route, time, now, &self.partition);
                let slots = last.take().filter(|last| last.placement.table == placement.table).map(|last| last.slots);
                last.insert(LastPlacement { placement, slots: slots.unwrap_or_default() })
            }
        };
        let bucket = bucket(last.placement.buckets, origin);
        let at = bucket.map_or(0, |bucket| usize::from(bucket) + 1);
        let slot = match last.slots.get(at) {
            Some(Some(slot)) if batcher.holds(*slot) => *slot,
            _ => {
                let partition = match bucket {
                    None => &self.partition,
                    Some(bucket) => bucket_partition(&self.instance, &mut self.buckets, bucket),
                };
                let slot = batcher.slot(&last.placement.table, partition);
                if last.slots.len() <= at {
                    last.slots.resize(at + 1, None);
                }
                last.slots[at] = Some(slot);
                slot
            }
        };
        batcher.push(slot, RowKey::new(time, origin.identity, origin.position), origin.source, record);
        last.placement.admission
    }

    /// The configured table of the previous record. Empty before the first record.
    pub fn table(&self) -> &str {
        self.last.as_ref().map_or("", |last| last.placement.table.table().as_str())
    }
}

fn bucket_partition<'p>(instance: &str, buckets: &'p mut Vec<Option<Arc<str>>>, bucket: u8) -> &'p Arc<str> {
    let at = usize::from(bucket);
    if buckets.len() <= at {
        buckets.resize(at + 1, None);
    }
    buckets[at].get_or_insert_with(|| partition_key(instance, Some(bucket)).into())
}

/// The bucket of a record. `None` for an instance without buckets.
fn bucket(buckets: NonZeroU16, origin: Origin<'_>) -> Option<u8> {
    if buckets == NonZeroU16::MIN {
        return None;
    }
    let mut bytes = [0; SourceId::BYTES + 8];
    bytes[..SourceId::BYTES].copy_from_slice(&origin.identity.to_bytes());
    bytes[SourceId::BYTES..].copy_from_slice(&origin.position.to_le_bytes());
    let bucket = xxhash_rust::xxh3::xxh3_64(&bytes) % u64::from(buckets.get());
    Some(u8::try_from(bucket).unwrap_or(u8::MAX))
}

/// The caches of one source whose records name their instances.
#[derive(Default)]
pub struct RouteCaches {
    /// The version of the routes in the caches.
    version: u64,
    numbers: HashMap<Box<str>, usize, foldhash::quality::RandomState>,
    caches: Vec<RouteCache>,
}

impl RouteCaches {
    /// The cache of an instance. `source` must be the same in each call.
    pub fn get(&mut self, router: &Router, instance: &str, source: &str) -> &mut RouteCache {
        if self.version != router.version() {
            *self = RouteCaches { version: router.version(), ..RouteCaches::default() };
        }
        let number = match self.numbers.get(instance) {
            Some(&number) => number,
            None => {
                // A field with a new value in every record must not fill the memory.
                if self.caches.len() >= INSTANCES_MAX {
                    self.numbers.clear();
                    self.caches.clear();
                }
                self.caches.push(RouteCache::new(router, instance, source));
                self.numbers.insert(instance.into(), self.caches.len() - 1);
                self.caches.len() - 1
            }
        };
        &mut self.caches[number]
    }
}
