//! The clocks of senders whose records come as they are made: which one is off, and by how much.
//!
//! The *difference* of a record is its arrival less its time: how long it was under way, and how far the clock of its
//! sender is behind. One difference tells nothing, because a record may have waited for hours. So differences are taken
//! together as long as they are nearly the same. The differences of a clock that is off stay as they are; those of records
//! that waited shrink while the queue of the sender empties, and those of a batch are as far apart as its records. The
//! smallest difference is the one of the record that was under way for the shortest time.
//!
//! * A clock is off when `RECORDS_MIN` records, over `SPAN_MIN` of arrival, differ by less than `SPREAD_MAX` from
//!   each other and by more than [`CLOCK_RIGHT`] from their arrival.
//! * A sender that always passes records on after the same delay looks like one whose clock is behind by that delay.
//! * Files are not judged: their records may be of any age when they are read for the first time.

use daytable_model::time::{TICKS_PER_SECOND, Ticks};
use std::collections::HashMap;
use std::time::Duration;

/// Records that make a clock known.
const RECORDS_MIN: u64 = 10;
/// How long these records take to arrive, at least.
const SPAN_MIN: Duration = Duration::from_secs(20);
/// How far differences that are nearly the same are apart, at most.
const SPREAD_MAX: Duration = Duration::from_secs(10);
/// Within this difference a clock is right.
pub const CLOCK_RIGHT: Duration = Duration::from_secs(600);
/// Senders that are remembered; then the memory begins anew.
const SENDERS_MAX: usize = 4096;

/// The clocks of the senders of a listener, by instance.
#[derive(Debug, Default)]
pub struct SenderClocks {
    senders: HashMap<String, ClockDifferences, foldhash::quality::RandomState>,
}

/// Differences of one sender that are nearly the same, in ticks.
#[derive(Clone, Copy, Debug)]
struct ClockDifferences {
    least: i64,
    most: i64,
    records: u64,
    first: Ticks,
    last: Ticks,
}

/// A clock that is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockOff {
    /// The instance of the records.
    pub instance: String,
    /// How far the clock is from the clock of this host.
    pub by: Duration,
    /// Whether it is ahead of it, not behind.
    pub is_ahead: bool,
    /// The records that say so.
    pub records: u64,
    /// The arrival of the first of them.
    pub since: Ticks,
    /// The arrival of the last one.
    pub until: Ticks,
}

impl SenderClocks {
    /// Takes the time that a record of `instance` has, which arrived at `now`.
    pub fn record(&mut self, instance: &str, time: Ticks, now: Ticks) {
        let difference = now.get() - time.get();
        if let Some(sender) = self.senders.get_mut(instance) {
            return sender.add(difference, now);
        }
        if self.senders.len() >= SENDERS_MAX {
            self.senders.clear();
        }
        self.senders.insert(instance.to_owned(), ClockDifferences::new(difference, now));
    }

    /// The clocks that are off, by instance.
    pub fn off(&self) -> Vec<ClockOff> {
        let mut off: Vec<ClockOff> =
            self.senders.iter().filter_map(|(instance, sender)| sender.off(instance)).collect();
        off.sort_by(|a, b| a.instance.cmp(&b.instance));
        off
    }
}

impl ClockDifferences {
    fn new(difference: i64, now: Ticks) -> ClockDifferences {
        ClockDifferences { least: difference, most: difference, records: 1, first: now, last: now }
    }

    fn add(&mut self, difference: i64, now: Ticks) {
        let (least, most) = (self.least.min(difference), self.most.max(difference));
        if ticks(most - least) > SPREAD_MAX {
            *self = ClockDifferences::new(difference, now);
            return;
        }
        *self = ClockDifferences { least, most, records: self.records + 1, first: self.first, last: now };
    }

    fn off(&self, instance: &str) -> Option<ClockOff> {
        let is_known = self.records >= RECORDS_MIN && self.last.since(self.first) >= SPAN_MIN;
        (is_known && ticks(self.least) > CLOCK_RIGHT).then(|| ClockOff {
            instance: instance.to_owned(),
            by: ticks(self.least),
            is_ahead: self.least < 0,
            records: self.records,
            since: self.first,
            until: self.last,
        })
    }
}

/// The size of a difference.
fn ticks(difference: i64) -> Duration {
    Duration::from_micros(difference.unsigned_abs() / (TICKS_PER_SECOND.unsigned_abs() / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Ticks {
        Ticks::from_unix(1_800_000_000 + seconds, 0).expect("a time")
    }

    /// What is said of a sender whose records arrive and are of these seconds.
    fn off(records: impl IntoIterator<Item = (i64, i64)>) -> Option<(u64, bool, u64)> {
        let mut clocks = SenderClocks::default();
        records.into_iter().for_each(|(arrival, time)| clocks.record("web1", at(time), at(arrival)));
        clocks.off().pop().map(|clock| (clock.by.as_secs(), clock.is_ahead, clock.records))
    }

    #[test]
    fn a_clock_is_off_in_either_direction() {
        assert_eq!(off((0..30).map(|n| (n, n - 7200 - n % 3))), Some((7200, false, 30)));
        assert_eq!(off((0..30).map(|n| (n, n + 3600 - n % 3))), Some((3600, true, 30)));
        assert_eq!(off((0..30).map(|n| (n, n - 300))), None, "within ten minutes");
    }

    #[test]
    fn few_records_or_a_moment_tell_nothing() {
        assert_eq!(off((0..9).map(|n| (10 * n, 10 * n - 7200))), None);
        assert_eq!(off((0..1000).map(|n| (n / 100, n / 100 - 7200))), None);
    }

    #[test]
    fn records_that_waited_are_no_clock() {
        // A queue of two hours empties at twice the speed at which it was filled, and at a hundred times.
        for speed in [2, 100] {
            assert_eq!(off((0..7200 / speed).map(|n| (7200 + n, n * speed))), None, "{speed}");
        }
        // The records of an hour come every hour, for a day.
        assert_eq!(off((0..1440).map(|n| (3600 * (n / 60 + 1), 60 * n))), None);
        // Each tenth record waited.
        assert_eq!(off((0..100).map(|n| (n, n - if n % 10 == 0 { 7200 } else { 0 }))), None);
    }

    #[test]
    fn a_clock_that_was_set_is_right_at_once() {
        let behind = (0..60).map(|n| (n, n - 7200));
        assert_eq!(off(behind.clone()).map(|(by, ..)| by), Some(7200));
        assert_eq!(off(behind.chain((60..120).map(|n| (n, n)))), None);
    }
}
