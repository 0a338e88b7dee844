//! Whether the clock is trusted: the conditions for every drop.
//!
//! The wall clock alone drops no day: one wrong answer of a time server, or an empty battery, would drop every day.
//! The clock is trusted only if independent evidence confirms it:
//!
//! * **a record**: the newest timestamp parsed from a record is at most one period behind the clock, and is not dated
//!   far ahead itself. Or, if records have no timestamps,
//! * **patience**: a daemon has watched the day for its `keep` plus one period, by a clock that cannot be set
//!   (`CLOCK_MONOTONIC`). In that time no row was written to the day and no record had a newer timestamp.
//!   So the day has at least its required age, whatever the wall clock says.
//!
//! A day that was created while the clock was behind (later days of its table already existed) may hold recent records
//! under an old name. Only patience confirms such a day.
//!
//! Every record with a timestamp contradicts a clock that is ten years ahead, so that clock never causes a drop.
//! Without timestamps, a dropped day was idle for its whole `keep` by a clock that only counts seconds. A correct
//! clock would have dropped the day too. Unwatched time does not count, so a wrong clock or a stopped daemon delays a
//! drop and never causes one.

use super::reason::HoldReason;
use daytable_model::key::Period;
use daytable_model::time::Ticks;
use std::time::Duration;

/// The wall clock and its evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Time of the wall clock.
    pub now: Ticks,
    /// The newest timestamp parsed from a record, over all tables. Timestamps far ahead do not count.
    pub newest_record: Option<Ticks>,
    /// Watched time since `newest_record` last changed.
    pub newest_watched: Duration,
}

impl Clock {
    /// Why the clock is not trusted for a table of `period` that was idle for `watched` and needs `patience`. `None`:
    /// trusted.
    pub fn doubt(&self, period: Period, watched: Duration, patience: Duration) -> Option<HoldReason> {
        let confirmed = |newest: Ticks| self.now <= newest.plus(length(period, newest));
        if self.newest_record.is_some_and(confirmed) {
            return None;
        }
        let patience = patience.saturating_add(length(period, self.now));
        if watched >= patience && self.newest_watched >= patience {
            return None;
        }
        Some(
            self.newest_record
                .map_or(HoldReason::NoRecordTime, |newest_record| HoldReason::ClockAhead { newest_record }),
        )
    }
}

/// Why a day that was created while the clock was behind may not be dropped: it was not idle long enough.
pub(super) fn behind(period: Period, now: Ticks, watched: Duration, patience: Duration) -> Option<HoldReason> {
    let patience = patience.saturating_add(length(period, now));
    (watched < patience).then_some(HoldReason::ClockWasBehind)
}

/// Length of the period that contains `time`.
pub fn length(period: Period, time: Ticks) -> Duration {
    let start = period.start(time);
    period.next(start).since(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_record_or_patience_confirms_a_clock() {
        let newest = Ticks::from_date(2026, 11, 21).expect("a date");
        let clock = |now, newest_record, newest_watched| Clock { now, newest_record, newest_watched };
        let doubt = |clock: Clock, watched| clock.doubt(Period::Day, watched, 30 * DAY).map(|reason| reason.name());
        let (soon, far) = (newest.plus(DAY), newest.plus(3652 * DAY));
        for (clock, watched, expected) in [
            (clock(soon, Some(newest), Duration::ZERO), Duration::ZERO, None),
            (clock(newest.minus(99 * DAY), Some(newest), Duration::ZERO), Duration::ZERO, None),
            (clock(far, Some(newest), Duration::ZERO), Duration::ZERO, Some("clock_ahead")),
            // Records contradict the clock, so patience does not help.
            (clock(far, Some(newest), DAY), 999 * DAY, Some("clock_ahead")),
            (clock(far, None, 999 * DAY), 30 * DAY, Some("no_record_time")),
            (clock(far, None, 31 * DAY), 31 * DAY, None),
        ] {
            assert_eq!(doubt(clock, watched), expected, "{clock:?} {watched:?}");
        }
    }
}
