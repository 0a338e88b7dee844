//! Over how many partitions an instance is spread, and from which time of its records on.
//!
//! A partition takes so many rows a second and no more. An instance that has more is spread over buckets, and over more of
//! them where that is not enough. The count is a function of day-table, instance and record time: steps `(from, buckets)`,
//! each for records that are as new as it says. A record that is read again so lands where it landed, whatever was decided
//! since. That holds only if a step begins behind all records that were placed without it. Nobody can ask all lanes what
//! they have in hand; so a lane asks here, before it places records, and is given a time up to which it may go by the
//! answer: a lease. A step begins where the last lease ends.
//!
//! ```text
//! records of web, by time ─────────────────────────────────────────────────►
//!    lane a  [ lease: 1 bucket ][ lease: 1 ]          [ lease: 4 buckets ...
//!    lane b  [ lease: 1 ]            [ lease: 1     ] [ lease: 4 ...
//!    a step to 4 buckets is decided ^    begins here ^ the end of the last lease
//! ```
//!
//! * A lease is of ten seconds of record time, so the lock is taken that seldom and a record costs no more than the look at
//!   the times of its place, which it had to have anyway.
//! * While a step is written down ([`BucketPlan::begin`] to [`BucketPlan::end`]) whoever wants to place a record behind its
//!   beginning waits: milliseconds, and only where records are as new as that.
//! * A table that takes a record of another day's time (it came too late, or is dated far ahead) takes it by the configured
//!   count: such times are in no lease, and so no record of the year 2099 puts a step off until then.
//! * What is leased is kept for 65,536 instances; beyond that only how far each day-table's leases went.
//!
//! It writes nothing down and asks nobody; who does is `daytable_remote::outbox`.

use crate::key::DayTable;
use crate::time::Ticks;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much of record time a lease is for.
const LEASE: Duration = Duration::from_secs(10);
/// Instances whose leases are known one by one, over all day-tables: some 10 MB.
const LEASES_MAX: usize = 65_536;
/// Day-tables of which it is known how far their leases went.
const DAYS_MAX: usize = 4096;

/// From a time on, so many buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketStep {
    /// The time of the first record that goes by it.
    pub from: Ticks,
    /// Partitions from then on.
    pub buckets: NonZeroU16,
    /// Whether the remote store has it: before that nothing is sent that was placed by it.
    pub is_remote: bool,
}

/// The steps of an instance in a day-table, the last decided last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceSteps {
    /// The day-table.
    pub table: DayTable,
    /// The instance, as its partition is called without buckets.
    pub partition: Arc<str>,
    /// Its steps; one at least.
    pub steps: Vec<BucketStep>,
}

/// Up to when a lane may place an instance's records without asking again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The times that it is for.
    pub times: Range<Ticks>,
    /// Partitions for records of these times.
    pub buckets: NonZeroU16,
}

/// See the module's head.
#[derive(Debug)]
pub struct BucketPlan {
    state: Mutex<State>,
    changed: Condvar,
    /// Instances with a step that the remote store does not have yet.
    held: AtomicUsize,
}

type Plans = HashMap<DayTable, HashMap<Arc<str>, Vec<BucketStep>>>;

#[derive(Debug, Default)]
struct State {
    /// Whether what earlier runs decided is known.
    is_known: bool,
    is_closed: bool,
    plans: Plans,
    leases: HashMap<DayTable, Leases>,
    /// Instances in `leases`.
    leased: usize,
    /// Whether day-tables were forgotten whose leases may still be out.
    has_forgotten: bool,
    pending: Option<PendingStep>,
}

/// How far the leases of a day-table went.
#[derive(Debug, Default)]
struct Leases {
    /// Those of instances that are not in `ends`.
    others: Option<Ticks>,
    ends: HashMap<Box<str>, Ticks, foldhash::quality::RandomState>,
}

/// A step that is being written down.
#[derive(Debug)]
struct PendingStep {
    table: DayTable,
    partition: Arc<str>,
    step: BucketStep,
}

impl BucketPlan {
    /// By these steps; none where nobody knows yet what earlier runs decided, until that is [learnt](BucketPlan::load).
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

    /// How records of an instance go that have `time`, which is one of the day-table's, and how long that is so. At least
    /// `least` buckets. Waits while a step is written down that may concern it.
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

    /// Begins a step to `buckets`, behind all that was leased and behind `newest`, the newest record that an earlier run
    /// placed. None where the day-table has no time left behind that, or another step is being written down. Whoever wants
    /// a lease for later times waits until the [`end`](BucketPlan::end).
    pub fn begin(
        &self,
        table: &DayTable,
        partition: &Arc<str>,
        buckets: NonZeroU16,
        newest: Option<Ticks>,
    ) -> Option<Ticks> {
        let mut state = self.lock();
        let leased = state.leased_until(table, partition);
        let behind = newest.map(|newest| Ticks::new(newest.get() + 1).unwrap_or(Ticks::MAX));
        let last = state.steps(table, partition).iter().map(|step| step.from).max();
        let from = [Some(table.start()), leased, behind, last].into_iter().flatten().max()?;
        if from >= table.end() || state.pending.is_some() {
            return None;
        }
        let step = BucketStep { from, buckets, is_remote: false };
        state.pending = Some(PendingStep { table: table.clone(), partition: partition.clone(), step });
        Some(from)
    }

    /// Ends what was begun: it is written down and holds from now on, or it never was.
    pub fn end(&self, is_written: bool) {
        let mut state = self.lock();
        if let Some(PendingStep { table, partition, step }) = state.pending.take().filter(|_| is_written) {
            state.plans.entry(table).or_default().entry(partition).or_default().push(step);
        }
        self.count_held(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// What earlier runs decided, which is known from now on, beside what is known already.
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
            // Each begins where the one before it did, or later; of two that begin at one time the later decided one holds.
            known.sort_by_key(|step| step.from);
        }
        state.is_known = true;
        self.count_held(&state);
        drop(state);
        self.changed.notify_all();
    }

    /// Whether what earlier runs decided is known.
    pub fn is_known(&self) -> bool {
        self.lock().is_known
    }

    /// All steps, with that which is being written down.
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

    /// The count that an instance has in a day-table since its last step; none without one.
    pub fn buckets(&self, table: &DayTable, partition: &str) -> Option<NonZeroU16> {
        self.lock().steps(table, partition).last().map(|step| step.buckets)
    }

    /// The remote store has these steps.
    pub fn mark_remote(&self, planned: &InstanceSteps) {
        let mut state = self.lock();
        let steps = state.plans.get_mut(&planned.table).and_then(|of| of.get_mut(&planned.partition));
        for step in steps.into_iter().flatten() {
            step.is_remote |= planned.steps.iter().any(|sent| (sent.from, sent.buckets) == (step.from, step.buckets));
        }
        self.count_held(&state);
    }

    /// Whether rows of an instance are not to be sent yet: the remote store does not know of its last step.
    pub fn is_held(&self, table: &DayTable, partition: &str) -> bool {
        self.held.load(Ordering::Acquire) > 0 && self.lock().steps(table, partition).iter().any(|step| !step.is_remote)
    }

    /// Forgets day-tables that take no records any more. Says whether any of them had steps.
    pub fn forget(&self, is_over: impl Fn(&DayTable) -> bool) -> bool {
        let mut state = self.lock();
        let before = state.plans.len();
        state.plans.retain(|table, _| !is_over(table));
        state.leases.retain(|table, _| !is_over(table));
        state.leased = state.leases.values().map(|leases| leases.ends.len()).sum();
        self.count_held(&state);
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

    /// Nobody waits here from now on: what would have been decided is not.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn count_held(&self, state: &State) {
        let instances = state.plans.values().flat_map(HashMap::values);
        let held = instances.filter(|steps| steps.iter().any(|step| !step.is_remote)).count();
        self.held.store(held, Ordering::Release);
    }
}

impl State {
    fn steps(&self, table: &DayTable, partition: &str) -> &[BucketStep] {
        self.plans.get(table).and_then(|of| of.get(partition)).map_or(&[], Vec::as_slice)
    }

    /// When the step begins that is being written down for an instance.
    fn pending(&self, table: &DayTable, partition: &str) -> Option<Ticks> {
        let pending = self.pending.as_ref()?;
        (pending.table == *table && *pending.partition == *partition).then_some(pending.step.from)
    }

    /// How far the leases of an instance went.
    fn leased_until(&self, table: &DayTable, partition: &str) -> Option<Ticks> {
        match self.leases.get(table) {
            Some(leases) => leases.ends.get(partition).copied().max(leases.others),
            None => self.has_forgotten.then(|| table.end()),
        }
    }

    /// Leases an instance at least up to behind `time`; says how far it is leased.
    fn extend(&mut self, table: &DayTable, partition: &str, time: Ticks) -> Ticks {
        let wanted = time.plus(LEASE).min(table.end());
        if let Some(end) = self.leases.get_mut(table).and_then(|leases| leases.ends.get_mut(partition)) {
            // Not for each of several lanes another one.
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

    /// Forgets who has which lease, and keeps how far they went, where there are too many.
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
        // Another lane, of a source that is behind: it shares the lease.
        assert_eq!(spread.lease(&day, "web", at(5), ONE).times, at(0)..at(110));
        assert_eq!(spread.begin(&day, &web, count(4), None), Some(at(110)));
        assert_eq!(spread.begin(&day, &web, count(8), None), None, "one at a time");
        // Written down, but nothing goes by it yet; older records need not wait for it.
        assert_eq!(spread.lease(&day, "web", at(109), ONE).times, at(0)..at(110));
        assert_eq!(spread.planned().len(), 1);
        assert_eq!(spread.buckets(&day, "web"), None);
        spread.end(true);
        assert_eq!(spread.lease(&day, "web", at(109), ONE), Lease { times: at(0)..at(110), buckets: ONE });
        assert_eq!(spread.lease(&day, "web", at(110), ONE), Lease { times: at(110)..at(120), buckets: count(4) });
        assert_eq!(spread.lease(&day, "web", at(110), count(9)).buckets, count(9), "the configured count is the least");
        // Other instances and days are none of its business.
        assert_eq!(spread.lease(&day, "db", at(500), ONE).buckets, ONE);
        assert_eq!(spread.lease(&table(22), "web", table(22).start(), ONE).buckets, ONE);
        // What was not written down never was.
        assert_eq!(spread.begin(&day, &web, count(8), None), Some(at(120)));
        spread.end(false);
        assert_eq!(spread.buckets(&day, "web"), Some(count(4)));
    }

    #[test]
    fn a_step_begins_behind_what_an_earlier_run_placed_and_never_behind_the_day() {
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
    fn what_the_remote_store_knows_more_is_added_to_what_is_known() {
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
    fn who_is_too_early_waits_for_the_step_to_be_written_down() {
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
        /// Whatever was placed by whichever lanes, and whenever a step was decided in between: who reads the same records
        /// again by the steps that were written down, in any order, places each where it was.
        #[test]
        fn a_record_that_is_read_again_lands_where_it_landed(
            acts in prop::collection::vec((0usize..3, 0u64..2000, prop::option::weighted(0.15, 1u16..64)), 1..120),
        ) {
            let (spread, web): (_, Arc<str>) = (BucketPlan::new(Some(Vec::new())), "web".into());
            let mut lanes: [Option<Lease>; 3] = Default::default();
            let mut placed = Vec::new();
            for (lane, seconds, grows) in acts {
                if let Some(buckets) = grows {
                    let _ = spread.begin(&table(21), &web, count(buckets), None);
                    spread.end(true);
                }
                let time = at(seconds);
                let held = lanes[lane].take().filter(|lease| lease.times.contains(&time));
                let lease = held.unwrap_or_else(|| spread.lease(&table(21), "web", time, ONE));
                prop_assert!(lease.times.contains(&time));
                placed.push((time, lease.buckets));
                lanes[lane] = Some(lease);
            }
            let again = BucketPlan::new(Some(spread.planned()));
            for (time, buckets) in placed.into_iter().rev() {
                prop_assert_eq!(again.lease(&table(21), "web", time, ONE).buckets, buckets, "{}", time);
            }
        }
    }
}
