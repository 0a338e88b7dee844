//! What the clocks of a place show, and where the steps of a count begin by them.
//!
//! ```text
//! clocks    … 00:00 ──────── 02:00│03:00 ──── 00:00 …     a day of 23 hours
//! steps     │      one day                    │
//! ```
//!
//! A step of days begins at midnight by the clocks, and one of weeks on a Monday. A shorter step begins where the clocks
//! show a multiple of it since midnight. Where clocks are put forward, the step that they skip is missing or short; where
//! they are put back, a day is longer, and an hour that they show twice is two hours.

use super::time::{TICKS_PER_DAY, TICKS_PER_MINUTE, Ticks, UNIX_EPOCH_TICKS};
use std::time::Duration;

/// A change of clocks: from then on they are so far ahead of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockChange {
    /// When clocks are put forward or back.
    pub from: Ticks,
    /// Ticks ahead of UTC, whole minutes.
    pub ahead: i64,
}

/// The clocks of a place; by default those of UTC. There are as many as zones, so they are kept for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneClock(&'static [ClockChange]);

impl ZoneClock {
    /// Clocks with these changes, oldest first; the first is from [`Ticks::MIN`] on.
    pub fn new(changes: &'static [ClockChange]) -> ZoneClock {
        ZoneClock(changes)
    }

    /// The begin of the step that contains `time`. A step shorter than a tick counts as one tick.
    pub fn step_start(self, time: Ticks, step: Duration) -> Ticks {
        let ticks = i64::try_from(step.as_nanos() / 100).unwrap_or(i64::MAX).max(1);
        let week = 7 * TICKS_PER_DAY;
        // The Unix epoch was a Thursday.
        let monday = if ticks % week == 0 { 3 * TICKS_PER_DAY } else { 0 };
        let floor = |shown: i64| shown - (shown - UNIX_EPOCH_TICKS + monday).rem_euclid(ticks);
        let within = |ticks: i64| Ticks::new(ticks.max(0)).unwrap_or(Ticks::MAX);
        let mut at = self.0.partition_point(|change| change.from <= time);
        let Some(last) = at.checked_sub(1).and_then(|last| self.0.get(last)) else { return within(floor(time.get())) };
        let shown_first = floor(time.get() + last.ahead);
        loop {
            at -= 1;
            let ClockChange { from, ahead } = self.0[at];
            let start = shown_first - ahead;
            let Some(before) = at.checked_sub(1).map(|before| self.0[before]) else { return within(start) };
            // The step may have begun before clocks were changed: then they had shown its begin already.
            let was_shown = from.get() + before.ahead > shown_first;
            if !was_shown || (start >= from.get() && ticks < TICKS_PER_DAY) {
                return within(start.max(from.get()));
            }
        }
    }

    /// The begin of the step after the one that begins at `start`.
    pub fn step_after(self, start: Ticks, step: Duration) -> Ticks {
        /// No change of clocks is between two of these.
        const QUARTER: Duration = Duration::from_nanos(15 * 100 * TICKS_PER_MINUTE.unsigned_abs());
        let mut probe = start.plus(step);
        loop {
            let next = self.step_start(probe, step);
            if next > start || probe == Ticks::MAX {
                return next;
            }
            probe = probe.plus(QUARTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60;

    fn at(text: &str) -> Ticks {
        let (date, clock) = text.split_once('T').expect("a T");
        let number = |text: &str| text.parse::<u32>().expect("a number");
        let (date, clock): (Vec<u32>, Vec<u32>) =
            (date.split('-').map(number).collect(), clock.split(':').map(number).collect());
        let midnight = Ticks::from_date(i32::try_from(date[0]).expect("a year"), date[1], date[2]).expect("a date");
        midnight.plus(Duration::from_secs(u64::from(clock[0] * 3600 + clock[1] * 60)))
    }

    /// Clocks that are `minutes` ahead from each time on.
    fn clock(first: i64, changes: &[(&str, i64)]) -> ZoneClock {
        let change = |from, minutes| ClockChange { from, ahead: minutes * TICKS_PER_MINUTE };
        let mut all = vec![change(Ticks::MIN, first)];
        all.extend(changes.iter().map(|(from, minutes)| change(at(from), *minutes)));
        ZoneClock::new(Vec::leak(all))
    }

    fn hours(hours: u64) -> Duration {
        Duration::from_secs(3600 * hours)
    }

    fn berlin() -> ZoneClock {
        clock(HOUR, &[("2026-03-29T01:00", 2 * HOUR), ("2026-10-25T01:00", HOUR)])
    }

    /// The begins of the steps of a range, each found from every minute of its step.
    fn starts(clock: ZoneClock, step: Duration, from: &str, to: &str) -> Vec<String> {
        let (mut time, to) = (clock.step_start(at(from), step), at(to));
        let mut starts = Vec::new();
        while time < to {
            let next = clock.step_after(time, step);
            assert!(next > time);
            let mut minute = time;
            while minute < next {
                assert_eq!(clock.step_start(minute, step), time, "{minute}");
                minute = minute.plus(Duration::from_secs(60));
            }
            starts.push(time.to_string());
            time = next;
        }
        starts
    }

    #[test]
    fn days_begin_at_midnight_and_have_23_24_or_25_hours() {
        let days = |from, to| starts(berlin(), hours(24), from, to);
        assert_eq!(
            days("2026-03-28T12:00", "2026-03-30T22:00"),
            ["2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"]
        );
        assert_eq!(
            days("2026-10-24T12:00", "2026-10-26T23:00"),
            ["2026-10-23T22:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"]
        );
    }

    #[test]
    fn a_midnight_that_clocks_skip_or_show_twice_is_one() {
        // Havana: at midnight it is one, and at one it is midnight again.
        let havana = clock(-5 * HOUR, &[("2026-03-08T05:00", -4 * HOUR), ("2026-11-01T05:00", -5 * HOUR)]);
        assert_eq!(
            starts(havana, hours(24), "2026-03-07T12:00", "2026-03-09T12:00"),
            ["2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"]
        );
        assert_eq!(
            starts(havana, hours(24), "2026-10-31T12:00", "2026-11-02T12:00"),
            ["2026-10-31T04:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"]
        );
    }

    #[test]
    fn hours_are_whole_by_the_clock_and_one_that_is_shown_twice_is_two() {
        assert_eq!(
            starts(berlin(), hours(1), "2026-10-25T00:10", "2026-10-25T03:00"),
            ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"]
        );
        assert_eq!(
            starts(berlin(), hours(6), "2026-03-29T00:00", "2026-03-29T16:00"),
            ["2026-03-28T23:00:00Z", "2026-03-29T04:00:00Z", "2026-03-29T10:00:00Z"]
        );
        let kolkata = clock(330, &[]);
        assert_eq!(starts(kolkata, hours(1), "2026-11-21T08:40", "2026-11-21T09:30"), ["2026-11-21T08:30:00Z"]);
        assert_eq!(starts(kolkata, hours(12), "2026-11-21T08:40", "2026-11-21T18:30"), ["2026-11-21T06:30:00Z"]);
        // Lord Howe: half an hour.
        let howe = clock(660, &[("2026-04-04T15:00", 630), ("2026-10-03T15:30", 660)]);
        for step in [1, 2, 3, 24, 48] {
            starts(howe, hours(step), "2026-04-03T00:00", "2026-04-06T00:00");
            starts(howe, hours(step), "2026-10-02T00:00", "2026-10-05T00:00");
        }
    }

    #[test]
    fn weeks_begin_on_monday_and_without_changes_steps_are_those_of_utc() {
        assert_eq!(
            starts(berlin(), hours(7 * 24), "2026-10-22T00:00", "2026-11-01T23:00"),
            ["2026-10-18T22:00:00Z", "2026-10-25T23:00:00Z"]
        );
        assert_eq!(
            starts(ZoneClock::default(), hours(7 * 24), "2026-11-22T00:00", "2026-11-23T00:00"),
            ["2026-11-16T00:00:00Z"]
        );
        assert_eq!(ZoneClock::default().step_start(at("1969-12-31T23:59"), hours(1)), at("1969-12-31T23:00"));
        assert_eq!(ZoneClock::default().step_start(Ticks::MIN, hours(48)), Ticks::MIN);
        assert_eq!(berlin().step_start(at("2026-11-21T08:00"), Duration::ZERO), at("2026-11-21T08:00"));
    }
}
