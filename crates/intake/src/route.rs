//! Which configured table takes a record, which of its days, and which partition.
//!
//! A record goes to the first table whose condition it meets, there to the day of its own time. Where that day has
//! expired (late), or begins more than one period after today's (early), it goes to today's table with its own time
//! kept, so that no wrong clock brings a dropped day back or fills a day that nobody looks at.
//!
//! The records of a file meet the same conditions but for their level, and nearly all of them the same day. A [`Lane`]
//! remembers both, so that the next record of the file costs a few comparisons and no allocation. Conditions on fields
//! and tenants are asked of each record, where there are any.
//!
//! Where rows go to a remote store, an instance may have more partitions from some record time on ([`daytable_model::bucket_plan`]). A lane
//! then remembers its way for as long as its lease goes, and asks anew behind that.

pub mod condition;

pub use condition::{Condition, Literal, Subject, Test};
use daytable_model::bucket_plan::BucketPlan;

use crate::batcher::{Batcher, Slot};
use condition::Reduced;
use daytable_model::key::{DayTable, RowKey, TableName, partition_key};
use daytable_model::record::{Level, Record};
use daytable_model::time::Ticks;
use daytable_model::window::{Admission, Window};
use daytable_platform::lock;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

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
    spread: Option<Arc<BucketPlan>>,
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
        Router { routes, version: 0, newest: Arc::new(newest), spread: None }
    }

    /// The same, with instances spread over as many partitions as `spread` says.
    pub fn spreading(self, spread: Arc<BucketPlan>) -> Router {
        Router { spread: Some(spread), ..self }
    }

    /// Whether it is known over how many partitions instances were spread by earlier runs. Before that, what can be read
    /// again must not be placed.
    pub fn is_settled(&self) -> bool {
        self.spread.as_ref().is_none_or(|spread| spread.is_loaded())
    }

    /// One that goes by these routes already, which [`replace`](Router::replace) is to bring to all others.
    pub fn proposing(&self, routes: Vec<Route>) -> Router {
        let version = self.newest.version.load(Ordering::Acquire) + 1;
        Router { routes: routes.into(), version, newest: self.newest.clone(), spread: self.spread.clone() }
    }

    /// Brings the routes of this one, which was [proposed](Router::proposing), to all clones.
    pub fn replace(&self) {
        let mut routes = lock(&self.newest.routes);
        *routes = self.routes.clone();
        self.newest.version.store(self.version, Ordering::Release);
    }

    /// Goes by the newest routes from now on. Costs next to nothing where nothing has changed.
    pub fn renew(&mut self) {
        let version = self.newest.version.load(Ordering::Acquire);
        if version != self.version {
            let routes = lock(&self.newest.routes);
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
        let only = (!routes.is_empty() && routes.len() == tables.len()).then(|| Router::new(routes))?;
        Some(Router { spread: self.spread.clone(), ..only })
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

    fn place(&self, route: usize, time: Ticks, now: Ticks, partition: &str) -> Place {
        let rule = &self.routes[route];
        let own = DayTable::at(&rule.table, rule.window.period, time);
        let today = DayTable::at(&rule.table, rule.window.period, now);
        let admission = rule.window.admits(&own, now);
        let (mut times, mut buckets) = (own.start()..own.end(), rule.buckets);
        let mut nows = today.start()..today.end();
        if let (Admission::Own, Some(expires)) = (admission, rule.window.expires(&own)) {
            nows.end = nows.end.min(expires);
        }
        if let (Admission::Own, Some(spread)) = (admission, &self.spread) {
            let lease = spread.lease(&own, partition, time, buckets);
            (times, buckets) = (lease.times, lease.buckets);
        }
        let table = if admission == Admission::Own { own } else { today };
        Place { route, times, nows, table, admission, buckets }
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
    /// Partitions that they are spread over.
    buckets: NonZeroU16,
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
    last: Option<Last>,
}

/// Where the last record went.
#[derive(Debug)]
struct Last {
    place: Place,
    /// The batches of its table: the first of the whole instance, the others of its buckets.
    slots: Vec<Option<Slot>>,
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
        let last = match &mut self.last {
            Some(last)
                if last.place.route == route && last.place.times.contains(&time) && last.place.nows.contains(&now) =>
            {
                last
            }
            last => {
                let place = router.place(route, time, now, &self.whole);
                let slots = last.take().filter(|last| last.place.table == place.table).map(|last| last.slots);
                last.insert(Last { place, slots: slots.unwrap_or_default() })
            }
        };
        let bucket = bucket_of(last.place.buckets, origin);
        let at = bucket.map_or(0, |bucket| usize::from(bucket) + 1);
        let slot = match last.slots.get(at) {
            Some(Some(slot)) if batcher.holds(*slot) => *slot,
            _ => {
                let partition = partition(&self.instance, &self.whole, &mut self.buckets, bucket);
                let slot = batcher.slot(&last.place.table, partition);
                if last.slots.len() <= at {
                    last.slots.resize(at + 1, None);
                }
                last.slots[at] = Some(slot);
                slot
            }
        };
        batcher.push(slot, RowKey::new(time, origin.identity, origin.position), origin.source, record);
        last.place.admission
    }

    /// The configured table that took the last record; empty before the first.
    pub fn table(&self) -> &str {
        self.last.as_ref().map_or("", |last| last.place.table.table().as_str())
    }
}

/// The partition of a bucket, or of the whole instance.
fn partition<'p>(
    instance: &str,
    whole: &'p Arc<str>,
    buckets: &'p mut Vec<Option<Arc<str>>>,
    bucket: Option<u8>,
) -> &'p Arc<str> {
    let Some(bucket) = bucket else { return whole };
    let at = usize::from(bucket);
    if buckets.len() <= at {
        buckets.resize(at + 1, None);
    }
    buckets[at].get_or_insert_with(|| partition_key(instance, Some(bucket)).into())
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
    use crate::glob::Pattern;
    use daytable_model::batch::Batch;
    use daytable_model::key::Period;
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

    #[test]
    fn a_growing_instance_is_placed_by_the_times_of_its_records() {
        let spread = Arc::new(BucketPlan::new(Some(Vec::new())));
        let router = Router::new(vec![route("Log", Condition::Always)]).spreading(spread.clone());
        let placed = |router: &Router, lane: &mut Lane, batcher: &mut Batcher, seconds: u64| {
            for n in 0..40 {
                push(router, lane, batcher, None, at(21).plus(Duration::from_secs(seconds)), seconds * 100 + n);
            }
        };
        let (mut lane, mut batcher) = (router.lane("web", "s"), Batcher::default());
        placed(&router, &mut lane, &mut batcher, 1);
        let (day, web) = (DayTable::parse("Log20261121").expect("a table"), "web".into());
        spread.begin(&day, &web, NonZeroU16::new(2).expect("not zero"), None).expect("begun");
        spread.end(true);
        [2, 60, 3, 61].into_iter().for_each(|seconds| placed(&router, &mut lane, &mut batcher, seconds));
        // Too late for its own day: its time is not one of the day that takes it.
        push(&router, &mut lane, &mut batcher, None, at(18), 7);
        let rows = |batcher: &mut Batcher| {
            let of = |batch: &Batch| batch.rows().map(|row| (row.key, batch.partition.clone())).collect::<Vec<_>>();
            let mut rows: Vec<_> = batcher.take().iter().flat_map(of).collect();
            rows.sort();
            rows
        };
        let rows_before = rows(&mut batcher);
        for (key, partition) in &rows_before {
            let is_new = key.time() >= at(21).plus(Duration::from_secs(60));
            assert_eq!(&**partition == "web", !is_new, "{key} is in {partition}");
        }
        // A host that lost its folder reads all again, by the steps that it finds.
        let again = Router::new(vec![route("Log", Condition::Always)])
            .spreading(Arc::new(BucketPlan::new(Some(spread.planned()))));
        let (mut lane, mut batcher) = (again.lane("web", "s"), Batcher::default());
        [61, 1, 60, 2, 3].into_iter().for_each(|seconds| placed(&again, &mut lane, &mut batcher, seconds));
        push(&again, &mut lane, &mut batcher, None, at(18), 7);
        assert_eq!(rows(&mut batcher), rows_before);
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
