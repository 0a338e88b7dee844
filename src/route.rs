//! Which configured table takes a record, which of its days, and which partition.
//!
//! A record goes to the first table whose condition it meets, there to the day of its own time. Where that day has
//! expired (late), or begins more than one period after today's (early), it goes to today's table with its own time
//! kept, so that no wrong clock brings a dropped day back or fills a day that nobody looks at.
//!
//! The records of a file meet the same conditions but for their level, and nearly all of them the same day. A [`Lane`]
//! remembers both, so that the next record of the file costs a few comparisons and no allocation. Conditions on fields
//! and tenants are asked of each record, where there are any.

pub mod condition;

pub use condition::{Condition, Literal, Subject, Test};

use crate::batcher::{Batcher, Slot};
use crate::key::{DayTable, RowKey, TableName, partition_key};
use crate::lifecycle::{Admission, Window};
use crate::record::{Level, Record};
use crate::time::Ticks;
use condition::Reduced;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One configured table and what it takes.
#[derive(Clone, Debug)]
pub struct Route {
    /// Its name.
    pub table: TableName,
    /// How long a day-table takes records, and how long it stands.
    pub window: Window,
    /// Partitions an instance is spread over; at most 256.
    pub buckets: NonZeroU16,
    /// Which records it takes.
    pub when: Condition,
}

/// The configured tables, in their order. All clones of one hear of it when the configuration has other tables, and each
/// goes by them from its next [`renew`](Router::renew) on.
#[derive(Clone, Debug)]
pub struct Router {
    routes: Arc<[Route]>,
    version: u64,
    newest: Arc<Newest>,
}

/// The routes as they are now, for all clones of a router.
#[derive(Debug)]
struct Newest {
    version: AtomicU64,
    routes: Mutex<Arc<[Route]>>,
}

impl Router {
    /// Routes in their order, one at least; the last takes the rest, whatever its condition says.
    pub fn new(routes: Vec<Route>) -> Router {
        let routes: Arc<[Route]> = routes.into();
        let newest = Newest { version: AtomicU64::new(0), routes: Mutex::new(routes.clone()) };
        Router { routes, version: 0, newest: Arc::new(newest) }
    }

    /// One that goes by these routes already, which [`replace`](Router::replace) is to bring to all others.
    pub fn proposing(&self, routes: Vec<Route>) -> Router {
        let version = self.newest.version.load(Ordering::Acquire) + 1;
        Router { routes: routes.into(), version, newest: self.newest.clone() }
    }

    /// Brings the routes of this one, which was [proposed](Router::proposing), to all clones.
    pub fn replace(&self) {
        let mut routes = self.newest.routes.lock().unwrap_or_else(PoisonError::into_inner);
        *routes = self.routes.clone();
        self.newest.version.store(self.version, Ordering::Release);
    }

    /// Goes by the newest routes from now on. Costs next to nothing where nothing has changed.
    pub fn renew(&mut self) {
        let version = self.newest.version.load(Ordering::Acquire);
        if version != self.version {
            let routes = self.newest.routes.lock().unwrap_or_else(PoisonError::into_inner);
            self.routes = routes.clone();
            // Under the lock: the version and the routes are those of one replacement.
            self.version = self.newest.version.load(Ordering::Acquire);
        }
    }

    /// Goes up with every replacement: what was made of older routes is made anew.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// These tables alone, in their configured order; the last of them takes the rest. None where one is not configured.
    pub fn only(&self, tables: &[TableName]) -> Option<Router> {
        let is_one = |route: &&Route| tables.iter().any(|table| table.same(&route.table));
        let routes: Vec<Route> = self.routes.iter().filter(is_one).cloned().collect();
        (!routes.is_empty() && routes.len() == tables.len()).then(|| Router::new(routes))
    }

    /// The way of an instance's records from one source.
    pub fn lane(&self, instance: &str, source: &str) -> Lane {
        Lane {
            instance: instance.into(),
            whole: partition_key(instance, None).into(),
            buckets: Vec::new(),
            by_level: std::array::from_fn(|code| self.way(Level::from_code(code as u8), instance, source)),
            last: None,
        }
    }

    /// The routes that records of a level can take.
    fn way(&self, level: Option<Level>, instance: &str, source: &str) -> Way {
        let mut asks = Vec::new();
        let last = self.routes.len() - 1;
        let mut known = last;
        for (index, route) in self.routes[..last].iter().enumerate() {
            match route.when.reduce(level, instance, source) {
                Reduced::Known(false) => {}
                Reduced::Known(true) => {
                    known = index;
                    break;
                }
                Reduced::Asks(condition) => asks.push((index, condition)),
            }
        }
        Way { asks: asks.into(), known }
    }

    fn place(&self, route: usize, time: Ticks, now: Ticks) -> Place {
        let rule = &self.routes[route];
        let own = DayTable::at(&rule.table, rule.window.period, time);
        let today = DayTable::at(&rule.table, rule.window.period, now);
        let admission = rule.window.admits(&own, now);
        let times = own.start()..own.end();
        let mut nows = today.start()..today.end();
        if let (Admission::Own, Some(expires)) = (admission, rule.window.expires(&own)) {
            nows.end = nows.end.min(expires);
        }
        let table = if admission == Admission::Own { own } else { today };
        Place { route, times, nows, table, admission }
    }
}

/// Where records of a route go: those with a time within `times`, as long as it is a time within `nows`.
#[derive(Debug)]
struct Place {
    route: usize,
    times: Range<Ticks>,
    nows: Range<Ticks>,
    table: DayTable,
    admission: Admission,
}

/// The way of one instance's records from one source.
#[derive(Debug)]
pub struct Lane {
    instance: Box<str>,
    whole: Arc<str>,
    /// The partitions it is spread over, as far as they were needed.
    buckets: Vec<Option<Arc<str>>>,
    /// The way of each level, by its code; 0 is a record without one.
    by_level: [Way; 10],
    last: Option<(Place, Option<u8>, Slot)>,
}

/// The first of `asks` whose condition holds, else `known`.
#[derive(Debug)]
struct Way {
    asks: Box<[(usize, Condition)]>,
    known: usize,
}

impl Way {
    fn route(&self, of: &Subject<'_>) -> usize {
        self.asks.iter().find(|(_, condition)| condition.holds(of)).map_or(self.known, |(route, _)| *route)
    }
}

/// What a record's key and way are made of, besides itself.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Identity of the source.
    pub identity: u64,
    /// Offset of the record's first byte in it.
    pub position: u64,
    /// The source's path, or the listener.
    pub source: &'a str,
    /// Whose it is, where it was sent with a tenant's credentials.
    pub tenant: Option<&'a str>,
}

impl Lane {
    /// Writes a record of time `time` to the batch it belongs to.
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
        let way = &self.by_level[usize::from(record.level.map_or(0, Level::code))];
        let route = way.route(&Subject { instance: &self.instance, source, tenant, record });
        let bucket = bucket_of(router.routes[route].buckets, origin);
        let key = RowKey::new(time, origin.identity, origin.position);
        let slot = match &self.last {
            Some((place, same, slot))
                if place.route == route
                    && place.times.contains(&time)
                    && place.nows.contains(&now)
                    && *same == bucket
                    && batcher.holds(*slot) =>
            {
                *slot
            }
            _ => {
                let place = router.place(route, time, now);
                let slot = batcher.slot(&place.table, self.partition(bucket));
                self.last = Some((place, bucket, slot));
                slot
            }
        };
        batcher.push(slot, key, origin.source, record);
        self.last.as_ref().map_or(Admission::Own, |(place, ..)| place.admission)
    }

    /// The configured table that took the last record; empty before the first.
    pub fn table(&self) -> &str {
        self.last.as_ref().map_or("", |(place, ..)| place.table.table().as_str())
    }

    fn partition(&mut self, bucket: Option<u8>) -> &Arc<str> {
        let Some(bucket) = bucket else { return &self.whole };
        let at = usize::from(bucket);
        if self.buckets.len() <= at {
            self.buckets.resize(at + 1, None);
        }
        self.buckets[at].get_or_insert_with(|| partition_key(&self.instance, Some(bucket)).into())
    }
}

/// Instances of one source that are remembered at most.
const LANES_MAX: usize = 4096;

/// The lanes of one source whose records name their instances.
#[derive(Default)]
pub struct Lanes {
    /// Of the routes that they were made of.
    version: u64,
    numbers: HashMap<Box<str>, usize, foldhash::quality::RandomState>,
    lanes: Vec<Lane>,
}

impl Lanes {
    /// The lane of an instance; `source` is the same each time.
    pub fn of(&mut self, router: &Router, instance: &str, source: &str) -> &mut Lane {
        if self.version != router.version() {
            *self = Lanes { version: router.version(), ..Lanes::default() };
        }
        let number = match self.numbers.get(instance) {
            Some(&number) => number,
            None => {
                // A field that names something else in every record must not fill the memory.
                if self.lanes.len() >= LANES_MAX {
                    self.numbers.clear();
                    self.lanes.clear();
                }
                self.lanes.push(router.lane(instance, source));
                self.numbers.insert(instance.into(), self.lanes.len() - 1);
                self.lanes.len() - 1
            }
        };
        &mut self.lanes[number]
    }
}

fn bucket_of(buckets: NonZeroU16, origin: Origin<'_>) -> Option<u8> {
    if buckets == NonZeroU16::MIN {
        return None;
    }
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&origin.identity.to_le_bytes());
    bytes[8..].copy_from_slice(&origin.position.to_le_bytes());
    let bucket = xxhash_rust::xxh3::xxh3_64(&bytes) % u64::from(buckets.get());
    Some(u8::try_from(bucket).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::config::Pattern;
    use crate::key::Period;
    use proptest::prelude::*;
    use std::time::Duration;

    fn route(name: &str, when: Condition) -> Route {
        let table = TableName::new(name).expect("a name");
        let keep = Duration::from_secs(2 * 86_400);
        Route { table, window: Window { keep, period: Period::Day }, buckets: NonZeroU16::MIN, when }
    }

    fn at(day: u32) -> Ticks {
        Ticks::from_date(2026, 11, day).expect("a date").plus(Duration::from_secs(3600))
    }

    fn push(
        router: &Router,
        lane: &mut Lane,
        batcher: &mut Batcher,
        level: Option<Level>,
        time: Ticks,
        n: u64,
    ) -> Admission {
        let origin = Origin { identity: 7, position: n, source: "/var/log/app.log", tenant: None };
        lane.push(router, batcher, &Record { level, ..Record::default() }, time, origin, at(21))
    }

    #[test]
    fn all_clones_go_by_new_routes_once_they_were_replaced() {
        let router = Router::new(vec![route("Log", Condition::Always)]);
        let (mut other, mut batcher, mut lanes) = (router.clone(), Batcher::default(), Lanes::default());
        let mut table = |router: &Router| {
            let lane = lanes.of(router, "web", "s");
            push(router, lane, &mut batcher, None, at(21), 0);
            lane.table().to_owned()
        };
        assert_eq!(table(&other), "Log");
        let proposed = router.proposing(vec![route("Other", Condition::Always)]);
        other.renew();
        assert_eq!(table(&other), "Log");
        proposed.replace();
        other.renew();
        assert_eq!((table(&other).as_str(), other.version()), ("Other", proposed.version()));
    }

    #[test]
    fn the_first_table_whose_condition_holds_takes_the_record() {
        let router = Router::new(vec![
            route("Debug", Condition::LevelAtMost(Level::Debug)),
            route("Audit", Condition::Instance(Pattern::instance("audit-*").expect("a glob"))),
            route("Nginx", Condition::Source(Pattern::source("/var/log/nginx/*").expect("a glob"))),
            route("Errors", Condition::LevelAtLeast(Level::Error)),
            route("Log", Condition::Always),
        ]);
        for (level, instance, source, table) in [
            (Some(Level::Trace), "audit-1", "/var/log/app.log", "Debug20261121"),
            (Some(Level::Info), "audit-1", "/var/log/nginx/a", "Audit20261121"),
            (None, "web", "/var/log/nginx/a", "Nginx20261121"),
            (Some(Level::Fatal), "web", "/var/log/app.log", "Errors20261121"),
            (None, "web", "/var/log/app.log", "Log20261121"),
            (Some(Level::Warn), "web", "/var/log/app.log", "Log20261121"),
        ] {
            let mut batcher = Batcher::default();
            push(&router, &mut router.lane(instance, source), &mut batcher, level, at(21), 0);
            let tables: Vec<_> = batcher.take().iter().map(|batch| batch.table.to_string()).collect();
            assert_eq!(tables, [table], "{level:?} {instance} {source}");
        }
    }

    #[test]
    fn late_and_early_records_go_to_today_and_the_others_to_their_own_day() {
        let router = Router::new(vec![route("Log", Condition::Always)]);
        let mut lane = router.lane("web", "s");
        for (day, table, admission) in [
            (18, "Log20261121", Admission::Late),
            (19, "Log20261119", Admission::Own),
            (21, "Log20261121", Admission::Own),
            (22, "Log20261122", Admission::Own),
            (23, "Log20261121", Admission::Early),
        ] {
            let mut batcher = Batcher::default();
            // Twice: the second takes the short way.
            for n in 0..2 {
                assert_eq!(push(&router, &mut lane, &mut batcher, None, at(day), n), admission, "{day}");
            }
            let batches = batcher.take();
            assert_eq!(batches.iter().map(|batch| batch.table.to_string()).collect::<Vec<_>>(), [table]);
            assert!(batches.iter().flat_map(Batch::rows).all(|row| row.key.time() == at(day)), "its own time is kept");
        }
    }

    #[test]
    fn buckets_spread_an_instance_and_are_the_same_when_it_is_read_again() {
        let rest = Route { buckets: NonZeroU16::new(4).expect("not zero"), ..route("Log", Condition::Always) };
        let router = Router::new(vec![rest]);
        let partitions = || {
            let (mut lane, mut batcher) = (router.lane("web", "s"), Batcher::default());
            for n in 0..1000 {
                push(&router, &mut lane, &mut batcher, None, at(21), n);
            }
            let mut rows: Vec<_> = batcher
                .take()
                .iter()
                .flat_map(|batch| batch.rows().map(|row| (row.key, batch.partition.clone())).collect::<Vec<_>>())
                .collect();
            rows.sort();
            rows
        };
        let rows = partitions();
        let names: std::collections::BTreeSet<_> = rows.iter().map(|(_, partition)| partition.to_string()).collect();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["web~00", "web~01", "web~02", "web~03"]);
        assert_eq!(rows, partitions());
    }

    proptest! {
        /// Whatever the conditions, and whichever way was remembered of the records before: the first table whose
        /// condition holds takes the record, and the last one what no other takes.
        #[test]
        fn the_short_way_is_the_long_one(
            conditions in proptest::collection::vec(condition::tests::any_condition(), 1..5),
            records in proptest::collection::vec(
                (condition::tests::any_record(), proptest::option::of("[ab]")), 1..6),
            instance in "[ab]", source in "[ab]",
        ) {
            let names = ["Aaa", "Bbb", "Ccc", "Ddd", "Eee"];
            let routes = conditions.iter().zip(names).map(|(when, name)| route(name, when.clone())).collect();
            let router = Router::new(routes);
            let (mut lane, mut batcher) = (router.lane(&instance, &source), Batcher::default());
            for ((record, tenant), position) in records.iter().zip(0..) {
                let tenant = tenant.as_deref();
                let origin = Origin { identity: 7, position, source: &source, tenant };
                lane.push(&router, &mut batcher, record, at(21), origin, at(21));
                let of = Subject { instance: &instance, source: &source, tenant, record };
                let first = conditions.iter().position(|condition| condition.holds(&of));
                prop_assert_eq!(lane.table(), names[first.unwrap_or(conditions.len() - 1)]);
            }
        }
    }
}
