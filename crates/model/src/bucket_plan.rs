//! The number of partitions (*buckets*) of an instance, by record time.
//!
//! A partition of the remote store accepts a limited number of rows a second, so a busy instance is spread over
//! several. The number of buckets is a function of day-table, instance and record time: a list of steps `(from,
//! buckets)`, each valid for records from its time on. A record that is read again gets the same bucket, whatever was
//! decided since.
//!
//! That requires a step to begin after all records that were already placed without it. The writers that place records do
//! not report which records they hold. Instead, each writer acquires a *lease* before it places records: the bucket
//! count, and the record times for which the writer may use it. A step begins where the last lease ends.
//!
//! ```text
//! records of web, by time ─────────────────────────────────────────────────►
//!    writer a  [ lease: 1 bucket ][ lease: 1 ]          [ lease: 4 buckets ...
//!    writer b  [ lease: 1 ]            [ lease: 1     ] [ lease: 4 ...
//!    a step to 4 buckets is decided ^    begins here ^ the end of the last lease
//! ```
//!
//! * A lease covers ten seconds of record time. So the lock is rarely taken, and a record costs only a comparison of
//!   times.
//! * While a step is being stored ([`BucketPlan::begin`] to [`BucketPlan::end`]), a writer that wants to place a record
//!   after the step's beginning waits. That takes milliseconds, and concerns only records that are as new.
//! * A record whose day has expired, or is far ahead, enters today's table with the configured count. Its time is in no
//!   lease, so a record of the year 2099 does not delay a step until then.
//! * Leases are known for 65,536 instances. Beyond that, only the end of the last lease of each day-table is known.
//!
//! This module does no I/O; `daytable_remote::outbox` stores the steps.

use crate::key::DayTable;
use crate::time::Ticks;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Record time that a lease covers.
const LEASE: Duration = Duration::from_secs(10);
/// Maximum number of instances with individually known leases, over all day-tables: about 10 MB.
const LEASES_MAX: usize = 65_536;
/// Maximum number of day-tables with a known last lease.
const DAYS_MAX: usize = 4096;

/// The number of buckets from a record time on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketStep {
    /// The first record time of the step.
    pub from: Ticks,
    /// The number of partitions from then on.
    pub buckets: NonZeroU16,
    /// Whether the remote store has the step. Until then, rows that were placed by the step are not sent.
    pub is_remote: bool,
}

/// The steps of an instance in a day-table, in the order of decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceSteps {
    /// The day-table.
    pub table: DayTable,
    /// The partition of the instance without a bucket.
    pub partition: Arc<str>,
    /// Its steps, at least one.
    pub steps: Vec<BucketStep>,
}

/// The record times for which a writer may place an instance's records without a new lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The record times.
    pub times: Range<Ticks>,
    /// The number of partitions for these times.
    pub buckets: NonZeroU16,
}

/// The bucket counts of all instances; see the module's head.
#[derive(Debug)]
pub struct BucketPlan {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of instances with a step that the remote store does not have yet.
    held: AtomicUsize,
}

type Plans = HashMap<DayTable, HashMap<Arc<str>, Vec<BucketStep>>>;

#[derive(Debug, Default)]
struct State {
    /// Whether the steps of earlier runs are loaded.
    is_loaded: bool,
    is_closed: bool,
    plans: Plans,
    leases: HashMap<DayTable, Leases>,
    /// Instances in `leases`.
    leased: usize,
    /// Whether the leases of some day-tables were forgotten and may still be in use.
    has_forgotten: bool,
    pending: Option<PendingStep>,
}

/// The ends of the leases of a day-table.
#[derive(Debug, Default)]
struct Leases {
    /// The last end among instances that are not in `ends`.
    others: Option<Ticks>,
    ends: HashMap<Box<str>, Ticks, foldhash::quality::RandomState>,
}

/// A step that is being stored.
#[derive(Debug)]
struct PendingStep {
    table: DayTable,
    partition: Arc<str>,
    step: BucketStep,
}

impl BucketPlan {
    /// A plan with these steps; `None` if the steps of earlier runs are unknown until they are
    /// [loaded](BucketPlan::load).
    pub fn new(planned: Option<Vec<InstanceSteps>>) -> BucketPlan {
        let spread = BucketPlan { state: Mutex::default(), changed: Condvar::new(), held: AtomicUsize::new(0) };
        if let Some(planned) = planned {
            spread.load(planned);
        }
        spread
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bucket count for records of an instance from `time` on, at least `least`, and how long it holds. `time`
    /// belongs to the day-table. Waits while a step that may concern it is being stored.
    pub fn lease(&self, table: &DayTable, partition: &str, time: Ticks, least: NonZeroU16) -> Lease {
        let mut state = self.lock();
        while state.pending(table, partition).is_some_and(|from| from <= time) && !state.is_closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut times, mut buckets) = (table.start()..table.end(), least);
        for step in state.steps(table, partition) {
            if step.from <= time {
                (times.start, buckets) = (times.start.max(step.from), step.buckets.max(least));
            } else {
                times.end = times.end.min(step.from);
            }
        }
        if let Some(from) = state.pending(table, partition).filter(|from| *from > time) {
            times.end = times.end.min(from);
        }
        let end = state.extend(table, partition, time);
        Lease { times: times.start..times.end.min(end), buckets }
    }

    /// Begins a step to `buckets`, after all leases and after `newest`, the newest record that an earlier run placed.
    /// Returns its time; `None` if the day-table has no time left after that, or another step is being stored. Leases
    /// for later times wait until [`end`](BucketPlan::end).
    pub fn begin(
        &self,
        table: &DayTable,
        partition: &Arc<str>,
        buckets: NonZeroU16,
        newest: Option<Ticks>,
    ) -> Option<Ticks> {
        let mut state = self.lock();
        let leased = state.leased_until(table, partition);
        let after_newest = newest.map(|newest| Ticks::new(newest.get() + 1).unwrap_or(Ticks::MAX));
        let last = state.steps(table, partition).iter().map(|step| step.from).max();
        let from = [Some(table.start()), leased, after_newest, last].into_iter().flatten().max()?;
        if from >= table.end() || state.pending.is_some() {
            return None;
        }
        let step = BucketStep { from, buckets, is_remote: false };
        state.pending = Some(PendingStep { table: table.clone(), partition: partition.clone(), step });
        Some(from)
    }

    /// Ends the step that was begun: it holds from now on if it is stored, and is discarded otherwise.
    pub fn end(&self, is_written: bool) {
        let mut state = self.lock();
        if let Some(PendingStep { table, partition, step }) = state.pending.take().filter(|_| is_written) {
            state.plans.entry(table).or_default().entry(partition).or_default().push(step);
        }
        self.update_held(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// Adds the steps of earlier runs.
    pub fn load(&self, planned: Vec<InstanceSteps>) {
        let mut state = self.lock();
        for InstanceSteps { table, partition, steps } in planned {
            let known = state.plans.entry(table).or_default().entry(partition).or_default();
            let ours = std::mem::replace(known, steps);
            for step in ours {
                match known.iter_mut().find(|known| (known.from, known.buckets) == (step.from, step.buckets)) {
                    Some(known) => known.is_remote |= step.is_remote,
                    None => known.push(step),
                }
            }
            // Each step begins at or after the one before it. Of two that begin at the same time, the later decided
            // one holds.
            known.sort_by_key(|step| step.from);
        }
        state.is_loaded = true;
        self.update_held(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether the steps of earlier runs are loaded.
    pub fn is_loaded(&self) -> bool {
        self.lock().is_loaded
    }

    /// All steps, including the one that is being stored.
    pub fn planned(&self) -> Vec<InstanceSteps> {
        let state = self.lock();
        let mut plans = state.plans.clone();
        if let Some(PendingStep { table, partition, step }) = &state.pending {
            let steps = plans.entry(table.clone()).or_default().entry(partition.clone()).or_default();
            steps.push(step.clone());
        }
        let of_table = |(table, instances): (DayTable, HashMap<_, _>)| {
            instances.into_iter().map(move |(partition, steps)| InstanceSteps {
                table: table.clone(),
                partition,
                steps,
            })
        };
        let mut planned: Vec<InstanceSteps> = plans.into_iter().flat_map(of_table).collect();
        planned
            .sort_by(|a, b| (a.table.start(), &a.table, &a.partition).cmp(&(b.table.start(), &b.table, &b.partition)));
        planned
    }

    /// The bucket count of an instance in a day-table since its last step; `None` without a step.
    pub fn buckets(&self, table: &DayTable, partition: &str) -> Option<NonZeroU16> {
        self.lock().steps(table, partition).last().map(|step| step.buckets)
    }

    /// Marks these steps as stored remotely.
    pub fn mark_remote(&self, planned: &InstanceSteps) {
        let mut state = self.lock();
        let steps = state.plans.get_mut(&planned.table).and_then(|of| of.get_mut(&planned.partition));
        for step in steps.into_iter().flatten() {
            step.is_remote |= planned.steps.iter().any(|sent| (sent.from, sent.buckets) == (step.from, step.buckets));
        }
        self.update_held(&state);
    }

    /// Whether rows of an instance must not be sent yet, because the remote store does not have its last step.
    pub fn is_held(&self, table: &DayTable, partition: &str) -> bool {
        self.held.load(Ordering::Acquire) > 0 && self.lock().steps(table, partition).iter().any(|step| !step.is_remote)
    }

    /// Removes day-tables that accept no more records. Returns whether any of them had steps.
    pub fn forget(&self, is_over: impl Fn(&DayTable) -> bool) -> bool {
        let mut state = self.lock();
        let before = state.plans.len();
        state.plans.retain(|table, _| !is_over(table));
        state.leases.retain(|table, _| !is_over(table));
        state.leased = state.leases.values().map(|leases| leases.ends.len()).sum();
        self.update_held(&state);
        state.plans.len() != before
    }

    /// Whether there is anything to [forget](BucketPlan::forget).
    pub fn is_empty(&self) -> bool {
        let state = self.lock();
        state.plans.is_empty() && state.leases.is_empty()
    }

    /// Whether it is [closed](BucketPlan::close).
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Ends all waiting. A step that is still being stored is ignored from now on.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn update_held(&self, state: &State) {
        let instances = state.plans.values().flat_map(HashMap::values);
        let held = instances.filter(|steps| steps.iter().any(|step| !step.is_remote)).count();
        self.held.store(held, Ordering::Release);
    }
}

impl State {
    fn steps(&self, table: &DayTable, partition: &str) -> &[BucketStep] {
        self.plans.get(table).and_then(|of| of.get(partition)).map_or(&[], Vec::as_slice)
    }

    /// The beginning of the step that is being stored for an instance.
    fn pending(&self, table: &DayTable, partition: &str) -> Option<Ticks> {
        let pending = self.pending.as_ref()?;
        (pending.table == *table && *pending.partition == *partition).then_some(pending.step.from)
    }

    /// The end of the last lease of an instance.
    fn leased_until(&self, table: &DayTable, partition: &str) -> Option<Ticks> {
        match self.leases.get(table) {
            Some(leases) => leases.ends.get(partition).copied().max(leases.others),
            None => self.has_forgotten.then(|| table.end()),
        }
    }

    /// Extends the lease of an instance beyond `time`, and returns its end.
    fn extend(&mut self, table: &DayTable, partition: &str, time: Ticks) -> Ticks {
        let wanted = time.plus(LEASE).min(table.end());
        if let Some(end) = self.leases.get_mut(table).and_then(|leases| leases.ends.get_mut(partition)) {
            // Several writers share one lease.
            if *end <= time {
                *end = wanted;
            }
            return *end;
        }
        self.make_room();
        let others = self.has_forgotten.then(|| table.end());
        let new = || Leases { others, ..Leases::default() };
        self.leases.entry(table.clone()).or_insert_with(new).ends.insert(partition.into(), wanted);
        self.leased += 1;
        wanted
    }

    /// If there are too many leases, keeps only the last end of each day-table.
    fn make_room(&mut self) {
        if self.leased >= LEASES_MAX {
            for leases in self.leases.values_mut() {
                leases.others = leases.ends.drain().map(|(_, end)| end).max().max(leases.others);
            }
            self.leased = 0;
        }
        if self.leases.len() >= DAYS_MAX {
            self.leases.clear();
            (self.leased, self.has_forgotten) = (0, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: NonZeroU16 = NonZeroU16::MIN;

    fn table(day: u32) -> DayTable {
        DayTable::parse(&format!("Log202611{day:02}")).expect("a day-table")
    }

    fn count(buckets: u16) -> NonZeroU16 {
        NonZeroU16::new(buckets).expect("not zero")
    }

    fn at(seconds: u64) -> Ticks {
        table(21).start().plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_step_begins_where_the_last_lease_ends_and_holds_for_newer_records_only() {
        let spread = BucketPlan::new(Some(Vec::new()));
        let (day, web): (_, Arc<str>) = (table(21), "web".into());
        assert_eq!(spread.lease(&day, "web", at(100), ONE), Lease { times: at(0)..at(110), buckets: ONE });
        // A writer of a slow source shares the lease.
        assert_eq!(spread.lease(&day, "web", at(5), ONE).times, at(0)..at(110));
        assert_eq!(spread.begin(&day, &web, count(4), None), Some(at(110)));
        assert_eq!(spread.begin(&day, &web, count(8), None), None, "one at a time");
        // The step is being stored and does not hold yet; older records need not wait for it.
        assert_eq!(spread.lease(&day, "web", at(109), ONE).times, at(0)..at(110));
        assert_eq!(spread.planned().len(), 1);
        assert_eq!(spread.buckets(&day, "web"), None);
        spread.end(true);
        assert_eq!(spread.lease(&day, "web", at(109), ONE), Lease { times: at(0)..at(110), buckets: ONE });
        assert_eq!(spread.lease(&day, "web", at(110), ONE), Lease { times: at(110)..at(120), buckets: count(4) });
        assert_eq!(spread.lease(&day, "web", at(110), count(9)).buckets, count(9), "the configured count is the least");
        // Other instances and days are unaffected.
        assert_eq!(spread.lease(&day, "db", at(500), ONE).buckets, ONE);
        assert_eq!(spread.lease(&table(22), "web", table(22).start(), ONE).buckets, ONE);
        // A step that was not stored is discarded.
        assert_eq!(spread.begin(&day, &web, count(8), None), Some(at(120)));
        spread.end(false);
        assert_eq!(spread.buckets(&day, "web"), Some(count(4)));
    }

    #[test]
    fn a_step_begins_after_records_of_earlier_runs_and_within_the_day() {
        let (spread, web): (_, Arc<str>) = (BucketPlan::new(Some(Vec::new())), "web".into());
        let newest = at(50_000);
        assert_eq!(spread.begin(&table(21), &web, count(2), Some(newest)).map(Ticks::get), Some(newest.get() + 1));
        spread.end(true);
        assert_eq!(spread.begin(&table(22), &web, count(2), None), Some(table(22).start()), "nothing is there yet");
        spread.end(true);
        let last = Ticks::new(table(21).end().get() - 1).expect("a time");
        assert_eq!(spread.begin(&table(21), &web, count(4), Some(last)), None);
        spread.lease(&table(23), "web", Ticks::new(table(23).end().get() - 1).expect("a time"), ONE);
        assert_eq!(spread.begin(&table(23), &web, count(2), None), None);
    }

    #[test]
    fn rows_wait_until_the_remote_store_has_the_step() {
        let (spread, web): (_, Arc<str>) = (BucketPlan::new(Some(Vec::new())), "web".into());
        spread.begin(&table(21), &web, count(2), None).expect("begun");
        assert!(!spread.is_held(&table(21), "web"), "nothing is placed by it");
        spread.end(true);
        assert!(spread.is_held(&table(21), "web") && !spread.is_held(&table(22), "web"));
        spread.planned().iter().for_each(|planned| spread.mark_remote(planned));
        assert!(!spread.is_held(&table(21), "web"));
        assert!(spread.forget(|table| table.to_string() == "Log20261121"));
        assert!(spread.planned().is_empty() && !spread.forget(|_| true));
    }

    #[test]
    fn loaded_steps_are_merged_with_known_ones() {
        let step = |seconds, buckets, is_remote| BucketStep { from: at(seconds), buckets: count(buckets), is_remote };
        let planned = |steps: Vec<BucketStep>| InstanceSteps { table: table(21), partition: "web".into(), steps };
        let spread = BucketPlan::new(Some(vec![planned(vec![step(10, 2, false), step(90, 8, false)])]));
        spread.load(vec![planned(vec![step(10, 2, true), step(50, 4, true)])]);
        let merged = vec![step(10, 2, true), step(50, 4, true), step(90, 8, false)];
        assert_eq!(spread.planned(), [planned(merged)]);
        assert!(spread.is_held(&table(21), "web"));
    }

    #[test]
    fn leases_of_days_that_are_over_make_room_for_those_of_others() {
        let spread = BucketPlan::new(Some(Vec::new()));
        spread.lease(&table(20), "web", table(20).start(), ONE);
        spread.lease(&table(21), "web", at(5), ONE);
        assert!(!spread.forget(|day| *day == table(20)), "none of them had steps");
        let state = spread.lock();
        assert_eq!((state.leases.len(), state.leased), (1, 1));
    }

    #[test]
    fn a_lane_that_is_too_early_waits_until_the_step_is_stored() {
        let (spread, web): (_, Arc<str>) = (Arc::new(BucketPlan::new(Some(Vec::new()))), "web".into());
        let from = spread.begin(&table(21), &web, count(2), None).expect("begun");
        let other = spread.clone();
        let waits = std::thread::spawn(move || other.lease(&table(21), "web", from, ONE).buckets);
        spread.end(true);
        assert_eq!(waits.join().expect("no panic"), count(2));
    }

    #[test]
    fn leases_of_too_many_instances_are_remembered_together() {
        let (spread, web): (_, Arc<str>) = (BucketPlan::new(Some(Vec::new())), "web".into());
        spread.lease(&table(21), "web", at(700), ONE);
        for n in 0..LEASES_MAX {
            spread.lease(&table(21), &format!("pod-{n}"), at(5), ONE);
        }
        assert!(spread.lock().leased <= LEASES_MAX);
        assert_eq!(spread.begin(&table(21), &web, count(2), None), Some(at(710)));
    }

    proptest! {
        /// With any writers, and any steps in between: the same records, read again with the stored steps in any order,
        /// get the same buckets.
        #[test]
        fn a_record_that_is_read_again_lands_where_it_landed(
            acts in prop::collection::vec((0usize..3, 0u64..2000, prop::option::weighted(0.15, 1u16..64)), 1..120),
        ) {
            let (spread, web): (_, Arc<str>) = (BucketPlan::new(Some(Vec::new())), "web".into());
            let mut writers: [Option<Lease>; 3] = Default::default();
            let mut placed = Vec::new();
            for (writer, seconds, grows) in acts {
                if let Some(buckets) = grows {
                    let _ = spread.begin(&table(21), &web, count(buckets), None);
                    spread.end(true);
                }
                let time = at(seconds);
                let held = writers[writer].take().filter(|lease| lease.times.contains(&time));
                let lease = held.unwrap_or_else(|| spread.lease(&table(21), "web", time, ONE));
                prop_assert!(lease.times.contains(&time));
                placed.push((time, lease.buckets));
                writers[writer] = Some(lease);
            }
            let again = BucketPlan::new(Some(spread.planned()));
            for (time, buckets) in placed.into_iter().rev() {
                prop_assert_eq!(again.lease(&table(21), "web", time, ONE).buckets, buckets, "{}", time);
            }
        }
    }
}
