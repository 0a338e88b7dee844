//! Chooses the configured table, the day and the partition of a record.
//!
//! The first table whose condition holds accepts the record, in the day-table of the record's own time (a *day-table*
//! holds the records of one configured table and one day). Two kinds of records go to today's day-table and keep their
//! own time: *late* records, whose day has expired, and *early* records, whose day begins more than one period after
//! today's. So a wrong clock can neither create a dropped day again nor fill a day far ahead.
//!
//! Most records of a file differ only in their level, and belong to the same day. A [`RouteCache`] remembers both answers,
//! so a further record costs a few comparisons and no allocation. Only conditions on fields, tenants and the line are
//! evaluated for each record.
//!
//! With a remote store, an *instance* (whatever writes logs: a host, a service) can have more partitions from some
//! record time on (see [`daytable_model::bucket_plan`]). A cache keeps its answer for the times of its lease.

mod cache;
pub mod condition;

pub use cache::{Origin, RouteCache, RouteCaches};
pub use condition::{Condition, Subject};

use daytable_logsql::PredicateNode;
use daytable_model::batch::Batch;
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::key::{DayTable, TableName};
use daytable_model::record::Level;
use daytable_model::source_id::HostId;
use daytable_model::time::Ticks;
use daytable_model::window::{Admission, Window};
use daytable_platform::lock;
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// One configured table, and the condition of its records.
#[derive(Clone, Debug)]
pub struct Route {
    /// The name of the table.
    pub table: TableName,
    /// How long a day-table accepts records, and how long it is kept.
    pub window: Window,
    /// The number of partitions of an instance, at most 256.
    pub buckets: NonZeroU16,
    /// The condition of the table's records.
    pub when: Condition,
}

/// The configured tables in their order. All clones share the published routes. Each clone uses them from its next
/// [`refresh`](Router::refresh) on.
#[derive(Clone, Debug)]
pub struct Router {
    routes: Arc<[Route]>,
    version: u64,
    published: Arc<PublishedRoutes>,
    plan: Option<Arc<BucketPlan>>,
    /// Whether records of expired days go to their own day.
    keeps_expired: bool,
    /// The host of the sources.
    host: HostId,
}

/// The current routes, which all clones of a router share.
#[derive(Debug)]
struct PublishedRoutes {
    version: AtomicU64,
    routes: Mutex<Arc<[Route]>>,
}

impl Router {
    /// Expects at least one route. The last route accepts every record that no other route accepts, whatever its
    /// condition.
    pub fn new(routes: Vec<Route>) -> Router {
        let routes: Arc<[Route]> = routes.into();
        let published = PublishedRoutes { version: AtomicU64::new(0), routes: Mutex::new(routes.clone()) };
        Router {
            routes,
            version: 0,
            published: Arc::new(published),
            plan: None,
            keeps_expired: false,
            host: HostId::default(),
        }
    }

    /// Returns the same routes for the sources of a host. Their keys contain it.
    pub fn of_host(self, host: HostId) -> Router {
        Router { host, ..self }
    }

    /// The host of the sources.
    pub fn host(&self) -> HostId {
        self.host
    }

    /// Returns the same routes with a bucket plan, which decides the number of partitions of each instance.
    pub fn with_bucket_plan(self, plan: Arc<BucketPlan>) -> Router {
        Router { plan: Some(plan), ..self }
    }

    /// Returns the same routes for an import that puts records of expired days into their own day. `None` with a remote
    /// store, which has no such days.
    pub fn keeping_expired(self) -> Option<Router> {
        self.plan.is_none().then_some(Router { keeps_expired: true, ..self })
    }

    /// Of the days of these batches, those that have expired at `now`, and until when they are kept: as long from now on
    /// as their table keeps a day after its end. None unless this router [keeps](Router::keeping_expired) them.
    pub(crate) fn kept_days(&self, batches: &[Batch], now: Ticks) -> Vec<(DayTable, Ticks)> {
        let days: BTreeSet<&DayTable> = batches.iter().map(|batch| &batch.table).collect();
        let kept = |day: &&DayTable| {
            let of_day = |route: &&Route| route.table == *day.table() && route.window.period == day.period();
            let window = self.routes.iter().find(of_day)?.window;
            window.expired(day, now).then(|| (DayTable::clone(day), now.plus(window.keep)))
        };
        if self.keeps_expired { days.iter().filter_map(kept).collect() } else { Vec::new() }
    }

    /// Whether the bucket plan of earlier runs is loaded. Until then, records that can be read again must wait.
    pub fn is_loaded(&self) -> bool {
        self.plan.as_ref().is_none_or(|plan| plan.is_loaded())
    }

    /// A router with other routes. [`publish`](Router::publish) passes them to all clones of this router.
    pub fn propose(&self, routes: Vec<Route>) -> Router {
        let version = self.published.version.load(Ordering::Acquire) + 1;
        Router {
            routes: routes.into(),
            version,
            published: self.published.clone(),
            plan: self.plan.clone(),
            keeps_expired: self.keeps_expired,
            host: self.host,
        }
    }

    /// Passes the routes of this [proposed](Router::propose) router to all clones.
    pub fn publish(&self) {
        let mut routes = lock(&self.published.routes);
        *routes = self.routes.clone();
        self.published.version.store(self.version, Ordering::Release);
    }

    /// Uses the published routes from now on. Costs one atomic load if they did not change.
    pub fn refresh(&mut self) {
        if self.published.version.load(Ordering::Acquire) != self.version {
            let routes = lock(&self.published.routes);
            self.routes = routes.clone();
            // Read under the lock, so that the version belongs to these routes.
            self.version = self.published.version.load(Ordering::Acquire);
        }
    }

    /// The version of the routes. A publication increases it, and so invalidates everything derived from older routes.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A router for these tables only, in their configured order. `None` if one of them is not configured.
    pub fn restricted_to(&self, tables: &[TableName]) -> Option<Router> {
        let is_wanted = |route: &&Route| tables.iter().any(|table| table.same(&route.table));
        let routes: Vec<Route> = self.routes.iter().filter(is_wanted).cloned().collect();
        let router = (!routes.is_empty() && routes.len() == tables.len()).then(|| Router::new(routes))?;
        Some(Router { plan: self.plan.clone(), keeps_expired: self.keeps_expired, host: self.host, ..router })
    }

    /// The routes that may accept records of a level.
    fn candidates(&self, level: Option<Level>, instance: &str, source: &str) -> Candidates {
        let last = self.routes.len() - 1;
        let (mut conditional, mut otherwise) = (Vec::new(), last);
        for (index, route) in self.routes[..last].iter().enumerate() {
            match route.when.reduced(instance, source, level) {
                PredicateNode::Always(false) => {}
                PredicateNode::Always(true) => {
                    otherwise = index;
                    break;
                }
                condition => conditional.push((index, condition)),
            }
        }
        Candidates { conditional: conditional.into(), otherwise }
    }

    fn place(&self, route: usize, time: Ticks, now: Ticks, partition: &str) -> Placement {
        let rule = &self.routes[route];
        let own = DayTable::at(&rule.table, rule.window.period, time);
        let today = DayTable::at(&rule.table, rule.window.period, now);
        let admission = match rule.window.admits(&own, now) {
            Admission::Late if self.keeps_expired => Admission::Own,
            admission => admission,
        };
        let (mut times, mut buckets) = (own.start()..own.end(), rule.buckets);
        let mut nows = today.start()..today.end();
        if let (Admission::Own, Some(expires)) = (admission, rule.window.expires(&own)) {
            // An expired day that is kept stays one.
            nows.end = if expires > now { nows.end.min(expires) } else { nows.end };
        }
        if let (Admission::Own, Some(plan)) = (admission, &self.plan) {
            let lease = plan.lease(&own, partition, time, buckets);
            (times, buckets) = (lease.times, lease.buckets);
        }
        let table = if admission == Admission::Own { own } else { today };
        Placement { route, times, nows, table, admission, buckets }
    }
}

/// The day-table for records of a route with a time in `times`, while the current time is in `nows`.
#[derive(Debug)]
struct Placement {
    route: usize,
    times: Range<Ticks>,
    nows: Range<Ticks>,
    table: DayTable,
    admission: Admission,
    /// The number of partitions of the instance.
    buckets: NonZeroU16,
}

/// The first route of `conditional` whose condition holds, otherwise `otherwise`.
#[derive(Debug)]
struct Candidates {
    conditional: Box<[(usize, PredicateNode)]>,
    otherwise: usize,
}

impl Candidates {
    fn route(&self, subject: &Subject<'_>) -> usize {
        let route = self.conditional.iter().find(|(_, condition)| condition.matches(subject));
        route.map_or(self.otherwise, |(route, _)| *route)
    }
}

#[cfg(test)]
mod tests;
