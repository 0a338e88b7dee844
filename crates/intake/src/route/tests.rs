//! The router: the table and day of a record, and the decisions that its caches remember.

use super::condition::tests::condition;
use super::*;
use crate::batcher::Batcher;
use daytable_model::batch::Batch;
use daytable_model::key::Period;
use daytable_model::record::Record;
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
    cache: &mut RouteCache,
    batcher: &mut Batcher,
    level: Option<Level>,
    time: Ticks,
    n: u64,
) -> Admission {
    let origin = Origin { identity: 7.into(), position: n, source: "/var/log/app.log", tenant: None };
    cache.push(router, batcher, &Record { level, ..Record::default() }, time, origin, at(21))
}

#[test]
fn all_clones_use_new_routes_once_they_are_published() {
    let router = Router::new(vec![route("Log", Condition::ALWAYS)]);
    let (mut other, mut batcher, mut caches) = (router.clone(), Batcher::default(), RouteCaches::default());
    let mut table = |router: &Router| {
        let cache = caches.get(router, "web", "s");
        push(router, cache, &mut batcher, None, at(21), 0);
        cache.table().to_owned()
    };
    assert_eq!(table(&other), "Log");
    let proposed = router.propose(vec![route("Other", Condition::ALWAYS)]);
    other.refresh();
    assert_eq!(table(&other), "Log");
    proposed.publish();
    other.refresh();
    assert_eq!((table(&other).as_str(), other.version()), ("Other", proposed.version()));
}

#[test]
fn the_first_table_whose_condition_holds_accepts_the_record() {
    let router = Router::new(vec![
        route("Debug", condition("level:<=debug")),
        route("Audit", condition("instance:=audit-*")),
        route("Nginx", condition("source:=/var/log/nginx/*")),
        route("Errors", condition("level:>=error")),
        route("Log", Condition::ALWAYS),
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
        push(&router, &mut RouteCache::new(&router, instance, source), &mut batcher, level, at(21), 0);
        let tables: Vec<_> = batcher.take().iter().map(|batch| batch.table.to_string()).collect();
        assert_eq!(tables, [table], "{level:?} {instance} {source}");
    }
}

#[test]
fn late_and_early_records_go_to_today_and_other_records_to_their_own_day() {
    let router = Router::new(vec![route("Log", Condition::ALWAYS)]);
    let mut cache = RouteCache::new(&router, "web", "s");
    for (day, table, admission) in [
        (18, "Log20261121", Admission::Late),
        (19, "Log20261119", Admission::Own),
        (21, "Log20261121", Admission::Own),
        (22, "Log20261122", Admission::Own),
        (23, "Log20261121", Admission::Early),
    ] {
        let mut batcher = Batcher::default();
        // Twice: the cache places the second record.
        for n in 0..2 {
            assert_eq!(push(&router, &mut cache, &mut batcher, None, at(day), n), admission, "{day}");
        }
        let batches = batcher.take();
        assert_eq!(batches.iter().map(|batch| batch.table.to_string()).collect::<Vec<_>>(), [table]);
        assert!(
            batches.iter().flat_map(Batch::rows).all(|row| row.key.time() == at(day)),
            "a record keeps its own time"
        );
    }
}

#[test]
fn a_record_that_is_read_again_gets_the_same_bucket() {
    let rest = Route { buckets: NonZeroU16::new(4).expect("not zero"), ..route("Log", Condition::ALWAYS) };
    let router = Router::new(vec![rest]);
    let partitions = || {
        let (mut cache, mut batcher) = (RouteCache::new(&router, "web", "s"), Batcher::default());
        for n in 0..1000 {
            push(&router, &mut cache, &mut batcher, None, at(21), n);
        }
        let mut rows: Vec<_> = batcher
            .take()
            .iter()
            .flat_map(|batch| {
                (0..batch.len()).map(|row| (batch.row(row).key, batch.partition_of(row).clone())).collect::<Vec<_>>()
            })
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
fn a_bucket_step_applies_by_the_times_of_the_records() {
    let plan = Arc::new(BucketPlan::new(Some(Vec::new())));
    let router = Router::new(vec![route("Log", Condition::ALWAYS)]).with_bucket_plan(plan.clone());
    let placed = |router: &Router, cache: &mut RouteCache, batcher: &mut Batcher, seconds: u64| {
        for n in 0..40 {
            push(router, cache, batcher, None, at(21).plus(Duration::from_secs(seconds)), seconds * 100 + n);
        }
    };
    let (mut cache, mut batcher) = (RouteCache::new(&router, "web", "s"), Batcher::default());
    placed(&router, &mut cache, &mut batcher, 1);
    let (day, web) = (DayTable::parse("Log20261121").expect("a table"), "web".into());
    plan.begin(&day, &web, NonZeroU16::new(2).expect("not zero"), None).expect("begun");
    plan.end(true);
    [2, 60, 3, 61].into_iter().for_each(|seconds| placed(&router, &mut cache, &mut batcher, seconds));
    // Too late for its own day, so its time is outside the day that accepts it.
    push(&router, &mut cache, &mut batcher, None, at(18), 7);
    let rows = |batcher: &mut Batcher| {
        let of = |batch: &Batch| {
            (0..batch.len()).map(|row| (batch.row(row).key, batch.partition_of(row).clone())).collect::<Vec<_>>()
        };
        let mut rows: Vec<_> = batcher.take().iter().flat_map(of).collect();
        rows.sort();
        rows
    };
    let rows_before = rows(&mut batcher);
    for (key, partition) in &rows_before {
        let is_new = key.time() >= at(21).plus(Duration::from_secs(60));
        assert_eq!(&**partition == "web", !is_new, "{key} is in {partition}");
    }
    // A host that lost its folder reads everything again, with the bucket steps of the remote store.
    let again = Router::new(vec![route("Log", Condition::ALWAYS)])
        .with_bucket_plan(Arc::new(BucketPlan::new(Some(plan.planned()))));
    let (mut cache, mut batcher) = (RouteCache::new(&again, "web", "s"), Batcher::default());
    [61, 1, 60, 2, 3].into_iter().for_each(|seconds| placed(&again, &mut cache, &mut batcher, seconds));
    push(&again, &mut cache, &mut batcher, None, at(18), 7);
    assert_eq!(rows(&mut batcher), rows_before);
}

proptest! {
    /// The first table whose condition holds accepts the record, otherwise the last table, whatever earlier records the
    /// cache has seen.
    #[test]
    fn a_cached_route_is_the_same_route(
        conditions in proptest::collection::vec(condition::tests::any_condition(), 1..5),
        records in proptest::collection::vec(
            (condition::tests::any_record(), proptest::option::of("[ab]")), 1..6),
        instance in "[ab]", source in "[ab]",
    ) {
        let names = ["Aaa", "Bbb", "Ccc", "Ddd", "Eee"];
        let conditions: Vec<Condition> = conditions.iter().map(|text| condition(text)).collect();
        let routes = conditions.iter().zip(names).map(|(when, name)| route(name, when.clone())).collect();
        let router = Router::new(routes);
        let (mut cache, mut batcher) = (RouteCache::new(&router, &instance, &source), Batcher::default());
        for ((record, tenant), position) in records.iter().zip(0..) {
            let tenant = tenant.as_deref();
            let origin = Origin { identity: 7.into(), position, source: &source, tenant };
            cache.push(&router, &mut batcher, record, at(21), origin, at(21));
            let of = Subject { instance: &instance, source: &source, tenant, record };
            let first = conditions.iter().position(|condition| condition.holds(&of));
            prop_assert_eq!(cache.table(), names[first.unwrap_or(conditions.len() - 1)]);
        }
    }
}
