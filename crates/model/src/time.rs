//! Time as Azure Table counts it, and the only place that reads the wall clock.
//!
//! A tick is 100 ns since 0001-01-01T00:00:00Z, the unit of .NET's `DateTime` and of the row keys. Code that decides
//! by time takes `now` as an argument; only [`now`] asks the system.

use std::fmt;
use std::time::Duration;

/// Ticks from 0001-01-01 to the Unix epoch.
pub const UNIX_EPOCH_TICKS: i64 = 621_355_968_000_000_000;
/// The last tick that has a row key: `DateTime.MaxValue`, 9999-12-31T23:59:59.9999999Z.
pub const MAX_TICKS: i64 = 3_155_378_975_999_999_999;
/// Ticks in a second.
pub const TICKS_PER_SECOND: i64 = 10_000_000;
/// Ticks in a minute.
pub const TICKS_PER_MINUTE: i64 = 60 * TICKS_PER_SECOND;
/// Ticks in a day.
pub const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// The English names of the months.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The English names of the days of a week.
pub const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A point in time, in ticks of 100 ns since 0001-01-01 UTC; always within `0..=MAX_TICKS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(i64);

/// A date of the proleptic Gregorian calendar, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// 1 to 9999.
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl Ticks {
    /// The last point in time that has a row key.
    pub const MAX: Ticks = Ticks(MAX_TICKS);
    /// 0001-01-01T00:00:00Z.
    pub const MIN: Ticks = Ticks(0);
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Ticks = Ticks(UNIX_EPOCH_TICKS);

    /// The point `ticks` after 0001-01-01; `None` if it has no row key.
    pub const fn new(ticks: i64) -> Option<Ticks> {
        if ticks >= 0 && ticks <= MAX_TICKS { Some(Ticks(ticks)) } else { None }
    }

    /// Converts nanoseconds since the Unix epoch; `None` outside the years 1 to 9999.
    pub fn from_unix_nanos(nanos: i128) -> Option<Ticks> {
        i64::try_from(nanos.div_euclid(100) + i128::from(UNIX_EPOCH_TICKS)).ok().and_then(Ticks::new)
    }

    /// Converts seconds and nanoseconds since the Unix epoch.
    pub fn from_unix(seconds: i64, nanos: u32) -> Option<Ticks> {
        let ticks = seconds.checked_mul(TICKS_PER_SECOND)?.checked_add(i64::from(nanos / 100))?;
        Ticks::new(ticks.checked_add(UNIX_EPOCH_TICKS)?)
    }

    /// The start of a date; `None` if the date does not exist.
    pub fn from_date(year: i32, month: u32, day: u32) -> Option<Ticks> {
        if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return None;
        }
        Ticks::new(days_from_civil(year, month, day) * TICKS_PER_DAY + UNIX_EPOCH_TICKS)
    }

    /// Ticks since 0001-01-01.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        (self.0 - UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_SECOND)
    }

    /// Nanoseconds since the Unix epoch, at most what 64 bits hold.
    pub const fn unix_nanos(self) -> i64 {
        (self.0 - UNIX_EPOCH_TICKS).saturating_mul(100)
    }

    /// `MAX_TICKS` minus this value. Row keys begin with it, so that the newest record sorts first. It is its own
    /// inverse.
    pub const fn inverted(self) -> i64 {
        MAX_TICKS - self.0
    }

    /// This plus `duration`, at most [`Ticks::MAX`].
    pub fn plus(self, duration: Duration) -> Ticks {
        let ticks = i64::try_from(duration.as_nanos() / 100).unwrap_or(MAX_TICKS);
        Ticks(self.0.saturating_add(ticks).min(MAX_TICKS))
    }

    /// This minus `duration`, at least [`Ticks::MIN`].
    pub fn minus(self, duration: Duration) -> Ticks {
        let ticks = i64::try_from(duration.as_nanos() / 100).unwrap_or(MAX_TICKS);
        Ticks(self.0.saturating_sub(ticks).max(0))
    }

    /// The time from `earlier` to this point, or zero if `earlier` is later.
    pub fn since(self, earlier: Ticks) -> Duration {
        Duration::from_nanos(u64::try_from(self.0 - earlier.0).unwrap_or(0).saturating_mul(100))
    }

    /// The UTC date.
    pub fn date(self) -> Date {
        let (year, month, day) = civil_from_days((self.0 - UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_DAY));
        Date { year, month, day }
    }

    /// The hour of the UTC day, 0 to 23.
    pub fn hour(self) -> u32 {
        (self.0.rem_euclid(TICKS_PER_DAY) / (3600 * TICKS_PER_SECOND)) as u32
    }
}

/// RFC 3339 in UTC with 0, 3, 6 or 7 fractional digits, as many as the value needs.
impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.date();
        let rest = self.0.rem_euclid(TICKS_PER_DAY);
        let (seconds, fraction) = (rest / TICKS_PER_SECOND, rest % TICKS_PER_SECOND);
        // Every shown record has a time. Writing the digits directly takes a tenth of the time of `write!`.
        let mut text = *b"0000-00-00T00:00:00.0000000Z";
        put_digits(&mut text[..4], i64::from(year));
        put_digits(&mut text[5..7], i64::from(month));
        put_digits(&mut text[8..10], i64::from(day));
        put_digits(&mut text[11..13], seconds / 3600);
        put_digits(&mut text[14..16], seconds / 60 % 60);
        put_digits(&mut text[17..19], seconds % 60);
        put_digits(&mut text[20..27], fraction);
        let end = match fraction {
            0 => 19,
            _ if fraction % 10_000 == 0 => 23,
            _ if fraction % 10 == 0 => 26,
            _ => 27,
        };
        text[end] = b'Z';
        f.write_str(std::str::from_utf8(&text[..=end]).map_err(|_| fmt::Error)?)
    }
}

/// Writes the last digits of a non-negative number, as many as `room` holds.
fn put_digits(room: &mut [u8], mut number: i64) {
    for digit in room.iter_mut().rev() {
        *digit += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

/// Reads the wall clock. A clock outside the years 1 to 9999 is clamped to them.
pub fn now() -> Ticks {
    std::time::SystemTime::now().into()
}

impl From<std::time::SystemTime> for Ticks {
    fn from(time: std::time::SystemTime) -> Ticks {
        match time.duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Ticks::UNIX_EPOCH.plus(since),
            Err(before) => Ticks::UNIX_EPOCH.minus(before.duration()),
        }
    }
}

/// The number of days of a month in the Gregorian calendar; `month` is 1 to 12.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a valid date (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let month = i64::from(month);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i32, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days - era * 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    ((year_of_era + era * 400) as i32 + i32::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_papers_example() {
        let midnight = Ticks::from_date(2026, 11, 21).expect("a date");
        assert_eq!(midnight.get(), 639_308_160_000_000_000);
        assert_eq!(midnight.inverted(), 2_516_070_815_999_999_999);
        assert_eq!(midnight.to_string(), "2026-11-21T00:00:00Z");
    }

    #[test]
    fn edges() {
        assert_eq!(Ticks::MAX.to_string(), "9999-12-31T23:59:59.9999999Z");
        assert_eq!(Ticks::MIN.to_string(), "0001-01-01T00:00:00Z");
        assert_eq!(Ticks::from_date(2026, 2, 29), None);
        assert_eq!(Ticks::from_date(0, 1, 1), None);
        assert_eq!(Ticks::new(-1), None);
        assert_eq!(Ticks::from_unix(i64::MAX, 0), None);
        assert_eq!(Ticks::MAX.plus(Duration::from_secs(1)), Ticks::MAX);
    }

    proptest! {
        /// A date converts to ticks and back unchanged.
        #[test]
        fn dates_round_trip(year in 1i32..=9999, month in 1u32..=12, day in 1u32..=31) {
            prop_assume!(day <= days_in_month(year, month));
            let ticks = Ticks::from_date(year, month, day).expect("a date");
            prop_assert_eq!(ticks.date(), Date { year, month, day });
        }
    }
}
