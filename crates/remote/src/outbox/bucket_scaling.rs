//! Decides when an instance gets more partitions (buckets), based only on the answers of the service.
//!
//! An *instance* is a source of records, such as a host. Its rows of a day share one partition, or several buckets. An
//! instance is hot while the service throttles one of its partitions. An unreachable service or a throttled account
//! does not count. If an instance is hot for the configured time and its backlog grows, its partitions double, or rise
//! to the number that the load needs. A shrinking backlog needs no more partitions, because waiting rows keep their
//! partition.
//!
//! More partitions do not help if the service has another bottleneck. If the rate does not rise, the next step waits
//! eight times as long. The number never falls within a day. The next day starts with the number that the last hour
//! needed, and at least with half.

use super::context::Context;
use super::page_removal::PageRemoval;
use super::partition_queue::PartitionQueue;
use super::queues::Queues;
use super::table_creation::is_needed_soon;
use daytable_model::key::DayTable;
use daytable_model::time::{self, Ticks};
use daytable_store::outbox::OutboxReader;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time between two decisions.
const DECIDE_EVERY: Duration = Duration::from_secs(1);
/// Entities per second of a partition, by the documentation of the service.
const PARTITION_RATE: u64 = 2000;
/// Minimum growth of the backlog that counts; less is noise of a transaction.
const GROWS_BY: u64 = 100;
/// A partition counts as throttled for this time after a refusal. The longest pause between two attempts is 30 s.
const THROTTLED_FOR: Duration = Duration::from_secs(35);
/// Refusals in that time that make an instance hot.
const REFUSALS_MIN: u64 = 3;
/// A step helped if the rate grew by at least this factor.
const HELPED: f64 = 1.25;
/// Factor by which the next step waits longer, if the last step did not help.
const DELAY_FACTOR: u32 = 8;
const DELAY_MAX: u32 = 4096;
/// The load of the next day is estimated from this time span.
const MEASURED: Duration = Duration::from_secs(3600);
/// The length of one sample of the load.
const SAMPLE: Duration = Duration::from_secs(60);

/// An instance in a day-table: the table, and the partition name without a bucket.
pub(super) type InstanceKey = (DayTable, Arc<str>);

/// The scaling decisions and their observations.
pub(super) struct BucketScaling {
    after: Duration,
    max: NonZeroU16,
    instances: HashMap<InstanceKey, LoadHistory>,
    last: Instant,
}

/// The load of an instance that was throttled, or has more partitions than configured.
struct LoadHistory {
    /// The start of the observation, and the backlog at that time.
    since: Instant,
    waited: Option<u64>,
    /// Rows that the service accepted since then.
    landed: u64,
    throttled: Option<Instant>,
    /// Refusals since then.
    refusals: u64,
    /// Rows per second before the last step, and the partitions of that step.
    before: Option<(f64, NonZeroU16)>,
    /// Factor by which the next step waits longer than configured.
    delay: u32,
    peak: PeakLoad,
}

/// The highest number of rows per minute in the last one to two hours.
struct PeakLoad {
    start: Instant,
    sample: (Instant, u64),
    hour: Instant,
    peaks: [u64; 2],
}

impl PeakLoad {
    fn new(now: Instant) -> PeakLoad {
        PeakLoad { start: now, sample: (now, 0), hour: now, peaks: [0; 2] }
    }

    fn add(&mut self, rows: u64, now: Instant) {
        if now >= self.sample.0 + SAMPLE {
            self.sample = (now, 0);
        }
        if now >= self.hour + MEASURED {
            (self.hour, self.peaks) = (now, [0, self.peaks[0]]);
        }
        self.sample.1 += rows;
        self.peaks[0] = self.peaks[0].max(self.sample.1);
    }

    fn rows_a_second(&self) -> u64 {
        self.peaks[0].max(self.peaks[1]).div_ceil(SAMPLE.as_secs())
    }
}

impl BucketScaling {
    /// Gives an instance up to `max` partitions, after it was throttled for the time `after`.
    pub(super) fn new(after: Duration, max: NonZeroU16) -> BucketScaling {
        BucketScaling { after, max, instances: HashMap::new(), last: Instant::now() }
    }

    fn entry(&mut self, key: &InstanceKey, now: Instant) -> &mut LoadHistory {
        self.instances.entry(key.clone()).or_insert_with(|| LoadHistory {
            since: now,
            waited: None,
            landed: 0,
            throttled: None,
            refusals: 0,
            before: None,
            delay: 1,
            peak: PeakLoad::new(now),
        })
    }

    /// Observes the load of an instance from now on.
    fn watch(&mut self, key: &InstanceKey, now: Instant) {
        self.entry(key, now);
    }

    /// Records that the service throttled a partition of the instance.
    pub(super) fn throttled(&mut self, key: &InstanceKey, now: Instant) {
        if self.max > NonZeroU16::MIN {
            let hot = self.entry(key, now);
            hot.throttled = Some(now);
            hot.refusals += 1;
        }
    }

    /// Records that the service accepted rows of the instance.
    pub(super) fn landed(&mut self, key: &InstanceKey, rows: u64, now: Instant) {
        if let Some(hot) = self.instances.get_mut(key) {
            hot.landed += rows;
            hot.peak.add(rows, now);
        }
    }

    /// Whether no instance is observed.
    pub(super) fn is_idle(&self) -> bool {
        self.instances.is_empty()
    }

    /// Requests more partitions for the instances that need them.
    pub(super) fn run(
        &mut self,
        queues: &Queues,
        unsent: &OutboxReader,
        removal: &PageRemoval,
        context: &Context,
        now: Instant,
    ) {
        if self.is_calm() || now < self.last + DECIDE_EVERY {
            return;
        }
        self.last = now;
        let is_of = |queue: &PartitionQueue, (day, instance): &InstanceKey| {
            queues.file(queue).is_some_and(|file| file.day == *day) && instance_of(queue.partition()).0 == &**instance
        };
        let waits = |key: &InstanceKey| {
            let waiting = queues.iter().filter(|(_, queue)| is_of(queue, key)).map(|(_, queue)| {
                let rows = queues.file(queue).map(|file| unsent.entities_of(file, queue.partition_id()));
                rows.and_then(Result::ok).unwrap_or(0)
            });
            // Sent pages stay in the file for a while.
            let sent = removal.entities_sent(|id| queues.get(id).is_some_and(|queue| is_of(queue, key)));
            waiting.sum::<u64>().saturating_sub(sent)
        };
        let today = time::now();
        for ((table, instance), buckets) in self.decide(now, waits, |(day, instance)| context.buckets(day, instance)) {
            let next = table.next();
            if is_needed_soon(&next, today) {
                context.order_buckets(next, &instance, buckets);
            }
            context.order_buckets(table, &instance, buckets);
        }
    }

    /// Requests the partitions for the start of the next period, and removes days that are over.
    pub(super) fn plan_ahead(&mut self, queues: &Queues, context: &Context, today: Ticks, now: Instant) {
        for planned in context.bucket_plan.planned() {
            let (table, next) = (planned.table.clone(), planned.table.next());
            let Some(has) = planned.steps.last().map(|step| step.buckets) else { continue };
            if (table.start()..table.end()).contains(&today) {
                let key = (table, planned.partition.clone());
                self.watch(&key, now);
                if is_needed_soon(&next, today) && context.bucket_plan.buckets(&next, &planned.partition).is_none() {
                    context.order_buckets(next, &planned.partition, self.next_day(&key, has, now));
                }
            }
        }
        // A day with waiting rows stays, because its backlog may need more partitions.
        self.forget(|table| {
            let is_over = context.windows.get(table.table()).is_none_or(|window| window.expired(table, today));
            table.end() <= today.minus(Duration::from_secs(86_400)) && (is_over || !queues.waits_for(table))
        });
    }

    /// Whether no instance is throttled.
    fn is_calm(&self) -> bool {
        self.instances.values().all(|hot| hot.throttled.is_none())
    }

    /// The instances that get more partitions now, with the new number. `waits` gives the approximate backlog of an
    /// instance, `has` its partitions.
    fn decide(
        &mut self,
        now: Instant,
        mut waits: impl FnMut(&InstanceKey) -> u64,
        has: impl Fn(&InstanceKey) -> NonZeroU16,
    ) -> Vec<(InstanceKey, NonZeroU16)> {
        let mut grow = Vec::new();
        for (key, hot) in &mut self.instances {
            let Some(throttled) = hot.throttled else { continue };
            let waited = *hot.waited.get_or_insert_with(|| waits(key));
            let elapsed = now.saturating_duration_since(hot.since);
            if elapsed < self.after.saturating_mul(hot.delay) {
                continue;
            }
            let waiting = waits(key);
            // A new table is slow at first, so one refusal does not count.
            let often = (self.after.as_secs() / 10).clamp(1, REFUSALS_MIN);
            let is_hot = now.saturating_duration_since(throttled) <= THROTTLED_FOR
                && hot.refusals >= often
                && waiting >= waited + GROWS_BY;
            let (landed, seconds) = (hot.landed, elapsed.as_secs_f64().max(0.001));
            (hot.since, hot.waited, hot.landed, hot.refusals) = (now, Some(waiting), 0, 0);
            if !is_hot {
                if now.saturating_duration_since(throttled) > THROTTLED_FOR {
                    (hot.throttled, hot.waited) = (None, None);
                }
                continue;
            }
            let rate = landed as f64 / seconds;
            let now_has = has(key);
            let is_of = |(before, to): (f64, NonZeroU16)| now_has >= to && rate < before * HELPED;
            let is_useless = hot.delay == 1 && hot.before.is_some_and(is_of);
            if is_useless {
                tracing::warn!(table = %key.0, instance = %key.1, "more partitions did not help: the next step is put off");
                hot.delay = hot.delay.saturating_mul(DELAY_FACTOR).min(DELAY_MAX);
                continue;
            }
            let comes = landed.saturating_add(waiting - waited) / elapsed.as_secs().max(1);
            let to = count_for(comes).max(now_has.saturating_mul(NonZeroU16::MIN.saturating_add(1))).min(self.max);
            if to > now_has {
                (hot.before, hot.delay) = (Some((rate, to)), 1);
                grow.push((key.clone(), to));
            }
        }
        self.instances.retain(|_, hot| hot.throttled.is_some() || hot.before.is_some() || hot.peak.sample.1 > 0);
        grow
    }

    /// The partitions at the start of the next day, for an instance that has `has` today.
    fn next_day(&self, key: &InstanceKey, has: NonZeroU16, now: Instant) -> NonZeroU16 {
        let Some(hot) = self.instances.get(key) else { return has };
        // An hourly table has less than an hour of observations before the next period begins.
        let length = key.0.end().since(key.0.start());
        let lately = |at: Instant| now.saturating_duration_since(at) < MEASURED.min(length / 2);
        if lately(hot.peak.start) || hot.throttled.is_some_and(lately) {
            return has;
        }
        let half = NonZeroU16::new(has.get() / 2).unwrap_or(NonZeroU16::MIN);
        count_for(hot.peak.rows_a_second()).max(half).min(has)
    }

    /// Removes days that need no further decision.
    fn forget(&mut self, is_over: impl Fn(&DayTable) -> bool) {
        self.instances.retain(|(table, _), _| !is_over(table));
    }
}

/// Partitions for `rate` rows per second: a power of two.
fn count_for(rate: u64) -> NonZeroU16 {
    let count = rate.div_ceil(PARTITION_RATE).clamp(1, 256).next_power_of_two();
    u16::try_from(count).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
}

/// A partition's name without its bucket, and whether it has a bucket. Only a bucket ends in `~` and two hex digits.
pub(super) fn instance_of(partition: &str) -> (&str, bool) {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match partition.as_bytes() {
        [.., b'~', first, second] if is_hex(first) && is_hex(second) => (&partition[..partition.len() - 3], true),
        _ => (partition, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::partition_key;

    const AFTER: Duration = Duration::from_secs(30);

    fn count(buckets: u16) -> NonZeroU16 {
        NonZeroU16::new(buckets).expect("not zero")
    }

    fn key() -> InstanceKey {
        (DayTable::parse("Log20261121").expect("a day-table"), "web".into())
    }

    /// An instance observed second by second.
    struct WatchedInstance {
        scaling: BucketScaling,
        now: Instant,
        has: NonZeroU16,
        waits: u64,
    }

    impl WatchedInstance {
        fn new(max: u16) -> WatchedInstance {
            WatchedInstance {
                scaling: BucketScaling::new(AFTER, count(max)),
                now: Instant::now(),
                has: count(1),
                waits: 0,
            }
        }

        /// Simulates seconds with equal load: rows landed and rows added to the backlog in each, and whether the
        /// service throttles.
        fn pass(&mut self, seconds: u64, lands: u64, waits: i64, is_throttled: bool) -> Vec<u16> {
            let mut steps = Vec::new();
            for _ in 0..seconds {
                self.now += Duration::from_secs(1);
                self.waits = self.waits.saturating_add_signed(waits);
                if is_throttled {
                    self.scaling.throttled(&key(), self.now);
                }
                self.scaling.landed(&key(), lands, self.now);
                let (waits, has) = (self.waits, self.has);
                for (_, to) in self.scaling.decide(self.now, |_| waits, |_| has) {
                    steps.push(to.get());
                    self.has = to;
                }
            }
            steps
        }
    }

    #[test]
    fn only_an_instance_that_is_throttled_for_long_and_falls_behind_gets_more_partitions() {
        assert_eq!(WatchedInstance::new(64).pass(40, 2000, 500, true), [2]);
        assert_eq!(WatchedInstance::new(64).pass(25, 2000, 500, true), [0; 0], "not for long yet");
        assert_eq!(WatchedInstance::new(64).pass(300, 2000, -10, true), [0; 0], "it drains");
        assert_eq!(WatchedInstance::new(64).pass(300, 2000, 0, true), [0; 0], "it keeps up");
        assert_eq!(WatchedInstance::new(64).pass(300, 2000, 500, false), [0; 0], "it is slow, and nothing says why");
        let mut once = WatchedInstance::new(64);
        once.pass(2, 2000, 500, true);
        assert_eq!(once.pass(29, 2000, 500, false), [0; 0], "twice is not often");
        assert_eq!(WatchedInstance::new(1).pass(300, 2000, 500, true), [0; 0], "it is not to");
        let mut watched = WatchedInstance::new(64);
        watched.pass(20, 2000, 500, true);
        watched.pass(100, 2000, -100, false);
        assert_eq!(watched.pass(25, 2000, 500, true), [0; 0], "that was long ago");
    }

    #[test]
    fn a_step_is_as_large_as_the_load_needs_and_no_larger_than_allowed() {
        assert_eq!(WatchedInstance::new(64).pass(40, 2000, 9000, true), [8]);
        assert_eq!(WatchedInstance::new(4).pass(40, 2000, 9000, true), [4]);
        // Doubling finds the limit of a service with less throughput than documented.
        let mut slow = WatchedInstance::new(64);
        assert_eq!(slow.pass(31, 10, 90, true), [2]);
        assert_eq!(slow.pass(30, 20, 80, true), [4]);
        assert_eq!(slow.pass(30, 40, 60, true), [8]);
        assert_eq!(slow.pass(300, 100, 0, true), [0; 0]);
    }

    #[test]
    fn steps_that_do_not_help_become_rare() {
        let mut watched = WatchedInstance::new(64);
        assert_eq!(watched.pass(35, 10, 90, true), [2]);
        assert_eq!(watched.pass(200, 10, 90, true), [0; 0]);
        assert_eq!(watched.pass(120, 10, 90, true), [4]);
    }

    #[test]
    fn the_next_day_begins_with_what_the_last_hour_needed() {
        let mut watched = WatchedInstance::new(64);
        watched.has = count(16);
        watched.scaling.watch(&key(), watched.now);
        watched.pass(1800, 100, 0, false);
        assert_eq!(watched.scaling.next_day(&key(), watched.has, watched.now), count(16), "half an hour says nothing");
        watched.pass(1900, 100, 0, false);
        assert_eq!(watched.scaling.next_day(&key(), watched.has, watched.now), count(8), "half at least");
        watched.pass(90, 25_000, 0, false);
        assert_eq!(watched.scaling.next_day(&key(), watched.has, watched.now), count(16), "it was needed");
        watched.pass(7300, 100, 0, false);
        watched.scaling.throttled(&key(), watched.now);
        assert_eq!(watched.scaling.next_day(&key(), watched.has, watched.now), count(16), "it is throttled");
    }

    #[test]
    fn an_hour_is_measured_over_its_half() {
        let start = Instant::now();
        let mut scaling = BucketScaling::new(AFTER, count(64));
        let hour: InstanceKey = (DayTable::parse("Log2026112107").expect("an hour's table"), "web".into());
        scaling.watch(&hour, start);
        let after = |minutes: u64| start + Duration::from_secs(60 * minutes);
        assert_eq!(scaling.next_day(&hour, count(16), after(29)), count(16));
        assert_eq!(scaling.next_day(&hour, count(16), after(30)), count(8));
    }

    #[test]
    fn a_bucket_is_known_by_its_name() {
        let long = "x".repeat(600);
        for instance in ["web", "a~7e", "a~", "", "web~00", "é~ff", &long] {
            let instance_key = partition_key(instance, None);
            assert_eq!(instance_of(&instance_key), (&*instance_key, false), "{instance}");
            let bucket = partition_key(instance, Some(0x3f));
            assert_eq!(instance_of(&bucket), (&*instance_key, true), "{instance}");
        }
    }
}
