//! Whether the clock is believed: what must agree before anything is dropped.
//!
//! The wall clock alone drops nothing: one bad answer of a time server, or a battery that is empty, would drop all
//! there is. It is believed where something that cannot be wrong in the same way confirms it:
//!
//! * **a record**: a time that was parsed from a record, not dated far ahead itself, is at most one period behind the
//!   clock. Or, where records carry no times,
//! * **patience**: a daemon has itself watched, by a clock that nobody can set (`CLOCK_MONOTONIC`), for as long as the
//!   day is kept and one period more, and in all that time nothing was written to the day and no record gave a newer
//!   time. So whatever the clock says, the day is at least as old as it has to be.
//!
//! A day that was made while the clock was behind (later days of its table were known already) has records that may be
//! of a minute ago under a name of long ago. It goes by patience alone.
//!
//! A clock that is ten years ahead is contradicted by every record with a time, and drops nothing however long. Where
//! no record has one, what goes has been left alone for its whole `keep`, by a clock that counts seconds only: a right
//! clock would have dropped it too. What was not watched does not count, so a wrong clock, or a daemon that was down,
//! delays a drop and never causes one.

use super::reason::HoldReason;
use daytable_model::key::Period;
use daytable_model::time::Ticks;
use std::time::Duration;

/// The wall clock, and what it is held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// What the wall clock says.
    pub now: Ticks,
    /// The newest time parsed from a record that was not dated far ahead, over all tables.
    pub newest_record: Option<Ticks>,
    /// How long was watched since that last changed.
    pub newest_watched: Duration,
}

impl Clock {
    /// Why the clock is not believed about something of `period` that was left alone for `watched`, and would have to
    /// be for `patience`; none where it is.
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

/// Why a day that was made while the clock was behind may not go: it was not left alone for long enough.
pub(super) fn behind(period: Period, now: Ticks, watched: Duration, patience: Duration) -> Option<HoldReason> {
    let patience = patience.saturating_add(length(period, now));
    (watched < patience).then_some(HoldReason::ClockWasBehind)
}

/// How long the period is that `time` lies in.
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
            // Records contradict it still: no patience helps.
            (clock(far, Some(newest), DAY), 999 * DAY, Some("clock_ahead")),
            (clock(far, None, 999 * DAY), 30 * DAY, Some("no_record_time")),
            (clock(far, None, 31 * DAY), 31 * DAY, None),
        ] {
            assert_eq!(doubt(clock, watched), expected, "{clock:?} {watched:?}");
        }
    }
}
