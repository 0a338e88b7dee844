//! Which days of a table accept records, and which have expired.
//!
//! ```text
//!      expired            Own                    Early
//! ──────────────┬──────────────────────┬──────────────────►  start of the day
//!       end + keep <= now       one period ahead of today's
//! ```
//!
//! [`Window::admits`] asks [`Window::expired`] first, so a day is never both: no record can enter a day that is being
//! dropped. Both sides must use the same `now`, or the plan an earlier one.

use crate::key::{DayTable, Period};
use crate::time::Ticks;
use std::time::Duration;

/// The retention of one configured table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How long a day is kept after it has ended.
    pub keep: Duration,
    /// The length of a day: an hour, a day or a month.
    pub period: Period,
}

/// The day that a record enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The day of its own time.
    Own,
    /// Today's table, with its own time kept, because its day has expired.
    Late,
    /// Today's table, with its own time kept, because its day is more than one period ahead.
    Early,
}

impl Window {
    /// Whether a record of `day` may enter that day at `now`.
    pub fn admits(&self, day: &DayTable, now: Ticks) -> Admission {
        let tomorrow = self.period.next(self.period.start(now));
        if self.expired(day, now) {
            Admission::Late
        } else if day.start() > tomorrow {
            Admission::Early
        } else {
            Admission::Own
        }
    }

    /// When `day` expires: its end plus `keep`. `None` if that is beyond the year 9999, so `day` never expires.
    pub fn expires(&self, day: &DayTable) -> Option<Ticks> {
        let keep = i64::try_from(self.keep.as_nanos() / 100).ok()?;
        Ticks::new(day.end().get().checked_add(keep)?)
    }

    /// Whether `day` has expired at `now`.
    pub fn expired(&self, day: &DayTable, now: Ticks) -> bool {
        self.expires(day).is_some_and(|expires| expires <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::TableName;
    use crate::time::MAX_TICKS;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn log() -> TableName {
        TableName::new("Log").expect("a name")
    }

    #[test]
    fn a_day_from_ahead_to_expired() {
        let window = Window { keep: 2 * DAY, period: Period::Day };
        let day = DayTable::parse("Log20261121").expect("a day");
        let at =
            |day, hour: u64| Ticks::from_date(2026, 11, day).expect("a date").plus(Duration::from_secs(3600 * hour));
        for (now, expected) in [
            (at(19, 23), Admission::Early),
            (at(20, 0), Admission::Own),
            (at(21, 12), Admission::Own),
            (at(23, 23), Admission::Own),
            (at(24, 0), Admission::Late),
        ] {
            assert_eq!(window.admits(&day, now), expected, "{now}");
        }
        assert_eq!(window.expires(&day), Some(at(24, 0)));
    }

    #[test]
    fn a_day_kept_beyond_the_calendar_never_expires() {
        let window = Window { keep: Duration::MAX, period: Period::Day };
        let day = DayTable::at(&log(), Period::Day, Ticks::MIN);
        assert_eq!(window.expires(&day), None);
        assert_eq!(window.admits(&day, Ticks::MAX), Admission::Own);
    }

    proptest! {
        /// No day is both admitted and expired at any time, and today's and tomorrow's days always accept records.
        #[test]
        fn admitted_and_expired_exclude_each_other(
            record in 0..=MAX_TICKS, now in 0..=MAX_TICKS, keep in 0u64..4_000_000_000,
            period in prop_oneof![Just(Period::Hour), Just(Period::Day), Just(Period::Month)],
        ) {
            let (record, now) = (Ticks::new(record).expect("in range"), Ticks::new(now).expect("in range"));
            let window = Window { keep: Duration::from_secs(keep), period };
            let day = DayTable::at(&log(), period, record);
            prop_assert_eq!(window.admits(&day, now) == Admission::Late, window.expired(&day, now));
            let today = DayTable::at(&log(), period, now);
            if today.end() < Ticks::MAX {
                prop_assert_eq!(window.admits(&today, now), Admission::Own);
                prop_assert_eq!(window.admits(&today.next(), now), Admission::Own);
            }
        }

        /// Expiry is final: a plan that is executed late drops only days that had expired when it was made.
        #[test]
        fn expiry_is_final(record in 0..=MAX_TICKS, now in 0..=MAX_TICKS, later in 0..=MAX_TICKS, keep in 0u64..4_000_000_000) {
            let ticks = |t| Ticks::new(t).expect("in range");
            let window = Window { keep: Duration::from_secs(keep), period: Period::Day };
            let day = DayTable::at(&log(), Period::Day, ticks(record));
            let (first, second) = (now.min(later), now.max(later));
            prop_assert!(!window.expired(&day, ticks(first)) || window.expired(&day, ticks(second)));
        }
    }
}
