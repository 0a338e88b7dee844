//! When an instance gets more partitions: decided from what the service answers, and nothing else.
//!
//! An instance is hot while the service throttles a partition of it, and it alone: not while nobody answers, and not
//! while the whole account is throttled. Where that goes on for as long as is configured, and what waits for the instance
//! grows all that time, it gets twice the partitions, or as many as what comes needs. What was throttled but drains
//! needs no more partitions: rows that wait stay where they were placed.
//!
//! More partitions help, or they do not: the service may be short of something else. Where no more rows land than did
//! before, eight times as long passes before there is another step. A count never falls within a day; the next day
//! begins with what the last hour needed, and at least with half.

use daytable_model::key::DayTable;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Entities a second that a partition takes, says the service.
pub(super) const PARTITION_RATE: u64 = 2000;
/// Rows by which what waits has to grow: less is a transaction more or less.
const GROWS_BY: u64 = 100;
/// How long ago the last refusal may be of a partition that is throttled still. The longest pause between two tries is 30 s.
const STILL: Duration = Duration::from_secs(35);
/// Refusals that a partition has to give in that time.
const OFTEN: u64 = 3;
/// By how much more has to land for a step to have helped,
const HELPED: f64 = 1.25;
/// and by how much longer the next one takes where it did not.
const DOUBTED: u32 = 8;
const DOUBTED_MAX: u32 = 4096;
/// What the count of the next day is measured over, and in which pieces.
const MEASURED: Duration = Duration::from_secs(3600);
const PIECE: Duration = Duration::from_secs(60);

/// An instance's day: the table, and the partition that it has without buckets.
pub(super) type Key = (DayTable, Arc<str>);

/// What decides.
pub(super) struct Growth {
    after: Duration,
    max: NonZeroU16,
    hot: HashMap<Key, Hot>,
}

/// What is known of an instance that was throttled, or has more partitions.
struct Hot {
    /// Since when it is watched without a break, and what waited for it then.
    since: Instant,
    waited: Option<u64>,
    /// Rows that landed since then.
    landed: u64,
    throttled: Option<Instant>,
    /// How often it was since `since`.
    refusals: u64,
    /// What landed in a second before the last step, and how many partitions that was to give.
    before: Option<(f64, NonZeroU16)>,
    doubt: u32,
    measure: Measure,
}

/// The most that landed in a minute of the last hour or two.
struct Measure {
    begun: Instant,
    piece: (Instant, u64),
    hour: Instant,
    peaks: [u64; 2],
}

impl Measure {
    fn new(now: Instant) -> Measure {
        Measure { begun: now, piece: (now, 0), hour: now, peaks: [0; 2] }
    }

    fn add(&mut self, rows: u64, now: Instant) {
        if now >= self.piece.0 + PIECE {
            self.piece = (now, 0);
        }
        if now >= self.hour + MEASURED {
            (self.hour, self.peaks) = (now, [0, self.peaks[0]]);
        }
        self.piece.1 += rows;
        self.peaks[0] = self.peaks[0].max(self.piece.1);
    }

    fn peak_a_second(&self) -> u64 {
        self.peaks[0].max(self.peaks[1]).div_ceil(PIECE.as_secs())
    }
}

impl Growth {
    /// To `max` partitions at most; after an instance was throttled for so long.
    pub(super) fn new(after: Duration, max: NonZeroU16) -> Growth {
        Growth { after, max, hot: HashMap::new() }
    }

    fn of(&mut self, key: &Key, now: Instant) -> &mut Hot {
        self.hot.entry(key.clone()).or_insert_with(|| Hot {
            since: now,
            waited: None,
            landed: 0,
            throttled: None,
            refusals: 0,
            before: None,
            doubt: 1,
            measure: Measure::new(now),
        })
    }

    /// Has it measured what an instance needs that has more partitions.
    pub(super) fn measure(&mut self, key: &Key, now: Instant) {
        self.of(key, now);
    }

    /// The service throttles a partition of it.
    pub(super) fn throttled(&mut self, key: &Key, now: Instant) {
        if self.max > NonZeroU16::MIN {
            let hot = self.of(key, now);
            hot.throttled = Some(now);
            hot.refusals += 1;
        }
    }

    /// Rows of it landed.
    pub(super) fn landed(&mut self, key: &Key, rows: u64, now: Instant) {
        if let Some(hot) = self.hot.get_mut(key) {
            hot.landed += rows;
            hot.measure.add(rows, now);
        }
    }

    /// Whether it watches nobody.
    pub(super) fn is_idle(&self) -> bool {
        self.hot.is_empty()
    }

    /// Whether there is anything to look at.
    pub(super) fn is_calm(&self) -> bool {
        self.hot.values().all(|hot| hot.throttled.is_none())
    }

    /// Those that get more partitions now, and how many. `waits` is how many rows wait for one, about; `has` how many partitions
    /// it has.
    pub(super) fn look(
        &mut self,
        now: Instant,
        mut waits: impl FnMut(&Key) -> u64,
        has: impl Fn(&Key) -> NonZeroU16,
    ) -> Vec<(Key, NonZeroU16)> {
        let mut grow = Vec::new();
        for (key, hot) in &mut self.hot {
            let Some(throttled) = hot.throttled else { continue };
            let waited = *hot.waited.get_or_insert_with(|| waits(key));
            let elapsed = now.saturating_duration_since(hot.since);
            if elapsed < self.after.saturating_mul(hot.doubt) {
                continue;
            }
            let waiting = waits(key);
            // Once is nothing: a new table is slow at first.
            let often = (self.after.as_secs() / 10).clamp(1, OFTEN);
            let is_hot = now.saturating_duration_since(throttled) <= STILL
                && hot.refusals >= often
                && waiting >= waited + GROWS_BY;
            let (landed, seconds) = (hot.landed, elapsed.as_secs_f64().max(0.001));
            (hot.since, hot.waited, hot.landed, hot.refusals) = (now, Some(waiting), 0, 0);
            if !is_hot {
                if now.saturating_duration_since(throttled) > STILL {
                    (hot.throttled, hot.waited) = (None, None);
                }
                continue;
            }
            let rate = landed as f64 / seconds;
            let now_has = has(key);
            let is_of = |(before, to): (f64, NonZeroU16)| now_has >= to && rate < before * HELPED;
            let is_doubted = hot.doubt == 1 && hot.before.is_some_and(is_of);
            if is_doubted {
                tracing::warn!(table = %key.0, instance = %key.1, "more partitions did not help: the next step is put off");
                hot.doubt = hot.doubt.saturating_mul(DOUBTED).min(DOUBTED_MAX);
                continue;
            }
            let comes = landed.saturating_add(waiting - waited) / elapsed.as_secs().max(1);
            let to = count_for(comes).max(now_has.saturating_mul(NonZeroU16::MIN.saturating_add(1))).min(self.max);
            if to > now_has {
                (hot.before, hot.doubt) = (Some((rate, to)), 1);
                grow.push((key.clone(), to));
            }
        }
        self.hot.retain(|_, hot| hot.throttled.is_some() || hot.before.is_some() || hot.measure.piece.1 > 0);
        grow
    }

    /// With how many partitions the next day begins of an instance that has `has` today.
    pub(super) fn next_day(&self, key: &Key, has: NonZeroU16, now: Instant) -> NonZeroU16 {
        let Some(hot) = self.hot.get(key) else { return has };
        // Of an hourly table there is no whole hour before the next one begins.
        let length = key.0.end().since(key.0.start());
        let lately = |at: Instant| now.saturating_duration_since(at) < MEASURED.min(length / 2);
        if lately(hot.measure.begun) || hot.throttled.is_some_and(lately) {
            return has;
        }
        let half = NonZeroU16::new(has.get() / 2).unwrap_or(NonZeroU16::MIN);
        count_for(hot.measure.peak_a_second()).max(half).min(has)
    }

    /// Forgets days that nothing is decided of any more.
    pub(super) fn forget(&mut self, is_over: impl Fn(&DayTable) -> bool) {
        self.hot.retain(|(table, _), _| !is_over(table));
    }
}

/// Partitions for so many rows a second: a power of two.
fn count_for(rate: u64) -> NonZeroU16 {
    let count = rate.div_ceil(PARTITION_RATE).clamp(1, 256).next_power_of_two();
    u16::try_from(count).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
}

/// A partition's name without its bucket, and whether it has one. Only a bucket ends in `~` and two hex digits.
pub(super) fn whole_of(partition: &str) -> (&str, bool) {
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

    fn key() -> Key {
        (DayTable::parse("Log20261121").expect("a day-table"), "web".into())
    }

    /// An instance that is watched second by second.
    struct Watched {
        growth: Growth,
        now: Instant,
        has: NonZeroU16,
        waits: u64,
    }

    impl Watched {
        fn new(max: u16) -> Watched {
            Watched { growth: Growth::new(AFTER, count(max)), now: Instant::now(), has: count(1), waits: 0 }
        }

        /// So many seconds of the same: what lands and what is added to what waits in each, and whether it is throttled.
        fn pass(&mut self, seconds: u64, lands: u64, waits: i64, is_throttled: bool) -> Vec<u16> {
            let mut steps = Vec::new();
            for _ in 0..seconds {
                self.now += Duration::from_secs(1);
                self.waits = self.waits.saturating_add_signed(waits);
                if is_throttled {
                    self.growth.throttled(&key(), self.now);
                }
                self.growth.landed(&key(), lands, self.now);
                let (waits, has) = (self.waits, self.has);
                for (_, to) in self.growth.look(self.now, |_| waits, |_| has) {
                    steps.push(to.get());
                    self.has = to;
                }
            }
            steps
        }
    }

    #[test]
    fn only_what_is_throttled_for_long_and_falls_behind_gets_more() {
        assert_eq!(Watched::new(64).pass(40, 2000, 500, true), [2]);
        assert_eq!(Watched::new(64).pass(25, 2000, 500, true), [0; 0], "not for long yet");
        assert_eq!(Watched::new(64).pass(300, 2000, -10, true), [0; 0], "it drains");
        assert_eq!(Watched::new(64).pass(300, 2000, 0, true), [0; 0], "it keeps up");
        assert_eq!(Watched::new(64).pass(300, 2000, 500, false), [0; 0], "it is slow, and nothing says why");
        let mut once = Watched::new(64);
        once.pass(2, 2000, 500, true);
        assert_eq!(once.pass(29, 2000, 500, false), [0; 0], "twice is not often");
        assert_eq!(Watched::new(1).pass(300, 2000, 500, true), [0; 0], "it is not to");
        let mut watched = Watched::new(64);
        watched.pass(20, 2000, 500, true);
        watched.pass(100, 2000, -100, false);
        assert_eq!(watched.pass(25, 2000, 500, true), [0; 0], "that was long ago");
    }

    #[test]
    fn a_step_is_as_large_as_what_comes_needs_and_no_larger_than_allowed() {
        assert_eq!(Watched::new(64).pass(40, 2000, 9000, true), [8]);
        assert_eq!(Watched::new(4).pass(40, 2000, 9000, true), [4]);
        // A service that takes less a partition than it says is found by doubling.
        let mut slow = Watched::new(64);
        assert_eq!(slow.pass(31, 10, 90, true), [2]);
        assert_eq!(slow.pass(30, 20, 80, true), [4]);
        assert_eq!(slow.pass(30, 40, 60, true), [8]);
        assert_eq!(slow.pass(300, 100, 0, true), [0; 0]);
    }

    #[test]
    fn steps_that_do_not_help_become_rare() {
        let mut watched = Watched::new(64);
        assert_eq!(watched.pass(35, 10, 90, true), [2]);
        assert_eq!(watched.pass(200, 10, 90, true), [0; 0]);
        assert_eq!(watched.pass(120, 10, 90, true), [4]);
    }

    #[test]
    fn the_next_day_begins_with_what_the_last_hour_needed() {
        let mut watched = Watched::new(64);
        watched.has = count(16);
        watched.growth.measure(&key(), watched.now);
        watched.pass(1800, 100, 0, false);
        assert_eq!(watched.growth.next_day(&key(), watched.has, watched.now), count(16), "half an hour says nothing");
        watched.pass(1900, 100, 0, false);
        assert_eq!(watched.growth.next_day(&key(), watched.has, watched.now), count(8), "half at least");
        watched.pass(90, 25_000, 0, false);
        assert_eq!(watched.growth.next_day(&key(), watched.has, watched.now), count(16), "it was needed");
        watched.pass(7300, 100, 0, false);
        watched.growth.throttled(&key(), watched.now);
        assert_eq!(watched.growth.next_day(&key(), watched.has, watched.now), count(16), "it is throttled");
    }

    #[test]
    fn an_hour_is_measured_over_its_half() {
        let start = Instant::now();
        let mut growth = Growth::new(AFTER, count(64));
        let hour: Key = (DayTable::parse("Log2026112107").expect("an hour's table"), "web".into());
        growth.measure(&hour, start);
        let after = |minutes: u64| start + Duration::from_secs(60 * minutes);
        assert_eq!(growth.next_day(&hour, count(16), after(29)), count(16));
        assert_eq!(growth.next_day(&hour, count(16), after(30)), count(8));
    }

    #[test]
    fn a_bucket_is_known_by_its_name() {
        let long = "x".repeat(600);
        for instance in ["web", "a~7e", "a~", "", "web~00", "é~ff", &long] {
            let whole = partition_key(instance, None);
            assert_eq!(whole_of(&whole), (&*whole, false), "{instance}");
            let bucket = partition_key(instance, Some(0x3f));
            assert_eq!(whole_of(&bucket), (&*whole, true), "{instance}");
        }
    }
}
