//! Points in time as people write them: a time, a date, a time of the day, or an age.
//!
//! ```text
//! 2026-11-21T08:00:00.5+01:00     RFC 3339
//! 2026-11-21 08:00                in the zone of the caller; seconds and their fraction are optional
//! 2026-11-21                      the start of the day
//! 14:03  today  yesterday 14:03   of today, or of the day before
//! 15m  2h30m  7d  2 hours ago     a time before now: ms, s, m, h, d, w, or the words
//! 1763733600  @1763733600.5       seconds since 1970; with 13, 16 or 19 digits milli-, micro- or nanoseconds
//! now
//! ```
//!
//! A form without a zone keeps its date and its time of the day until [`When::at`] knows the zone.

use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use daytable_model::time::Ticks;
use std::str::FromStr;
use std::time::Duration;

/// A point in time, absolute or relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// An absolute time.
    At(Ticks),
    /// A time before now.
    Ago(Duration),
    /// A date and a time of the day, without a zone.
    Local(NaiveDateTime),
    /// A time of the day, this many days before today, without a zone.
    OfDay(u64, NaiveTime),
}

/// A text in none of the forms above.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a time: write 2026-11-21, \"2026-11-21 08:00\", 2026-11-21T08:00:00Z, 14:03, yesterday, an age such as \
     15m, 2h30m or \"2 hours ago\", seconds since 1970, or now"
)]
pub struct WhenError(pub String);

/// The zone of times without one: the seconds that its clocks are ahead of UTC at a time.
pub type ZoneOffset<'z> = &'z dyn Fn(Ticks) -> i64;

/// The zone UTC.
pub fn utc(_: Ticks) -> i64 {
    0
}

impl When {
    /// The point in time, given `now` and the zone of times without one.
    pub fn at(self, now: Ticks, zone: ZoneOffset<'_>) -> Ticks {
        match self {
            When::At(time) => time,
            When::Ago(age) => now.minus(age),
            When::Local(local) => in_zone(local, zone),
            When::OfDay(days, time) => {
                let today = DateTime::from_timestamp(now.unix_seconds().saturating_add(zone(now)), 0);
                let day = today.and_then(|today| today.date_naive().checked_sub_days(Days::new(days)));
                day.map_or(Ticks::MIN, |day| in_zone(day.and_time(time), zone))
            }
        }
    }
}

/// The time at which clocks of the zone show `local`. Of two such times, the earlier one.
fn in_zone(local: NaiveDateTime, zone: ZoneOffset<'_>) -> Ticks {
    let (seconds, nanos) = (local.and_utc().timestamp(), local.and_utc().timestamp_subsec_nanos());
    let ahead_by = |ahead: i64| Ticks::from_unix(seconds.saturating_sub(ahead), nanos);
    let Some(guess) = ahead_by(0) else { return if seconds < 0 { Ticks::MIN } else { Ticks::MAX } };
    let day = Duration::from_secs(86_400);
    // The offsets around the time: before and after a change of the clocks.
    let candidates = [zone(guess.minus(day)), zone(guess.plus(day))].map(ahead_by);
    let shows = |time: &Ticks| ahead_by(zone(*time)) == Some(*time);
    let exact = candidates.iter().flatten().filter(|time| shows(time)).min();
    exact.or(candidates[0].as_ref()).copied().unwrap_or(guess)
}

impl FromStr for When {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<When, WhenError> {
        let text = text.trim();
        let parsed = match text.to_ascii_lowercase().as_str() {
            "now" => Some(When::Ago(Duration::ZERO)),
            lower => age(lower).map(When::Ago).or_else(|| of_day(lower)),
        };
        let parsed = parsed.or_else(|| since_epoch(text).map(When::At)).or_else(|| written_out(text));
        parsed.ok_or_else(|| WhenError(text.into()))
    }
}

/// `15m`, `2h30m`, `1 day 2 hours ago`.
fn age(text: &str) -> Option<Duration> {
    let mut rest = text.strip_suffix("ago").map_or(text, str::trim_end);
    let mut milliseconds: Option<u64> = None;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number = match rest[..digits].parse::<u64>() {
            Ok(number) => number,
            // "an hour ago", "a day ago"
            Err(_) if digits == 0 && text.ends_with("ago") => {
                rest = rest.strip_prefix("an ").or_else(|| rest.strip_prefix("a "))?;
                1
            }
            Err(_) => return None,
        };
        rest = if digits > 0 { rest[digits..].trim_start() } else { rest };
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit: u64 = match &rest[..letters] {
            "ms" | "millisecond" | "milliseconds" => 1,
            "s" | "sec" | "secs" | "second" | "seconds" => 1000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000,
            "d" | "day" | "days" => 86_400_000,
            "w" | "week" | "weeks" => 7 * 86_400_000,
            _ => return None,
        };
        rest = rest[letters..].trim_start();
        milliseconds = Some(milliseconds.unwrap_or(0).checked_add(number.checked_mul(unit)?)?);
    }
    milliseconds.map(Duration::from_millis)
}

/// `today`, `yesterday`, `14:03`, `yesterday 14:03:20.5`.
fn of_day(text: &str) -> Option<When> {
    let (days, time) = match text.strip_prefix("yesterday") {
        Some(time) => (1, time),
        None => (0, text.strip_prefix("today").unwrap_or(text)),
    };
    let is_word = time.len() < text.len();
    if is_word && time.is_empty() {
        return Some(When::OfDay(days, NaiveTime::MIN));
    }
    // A word and a time have a space between them.
    let time = if is_word { time.strip_prefix(' ')?.trim_start() } else { time };
    let time = ["%H:%M:%S%.f", "%H:%M"].iter().find_map(|form| NaiveTime::parse_from_str(time, form).ok());
    time.map(|time| When::OfDay(days, time))
}

/// `1763733600`, `1763733600123`, `@1763733600.5`.
fn since_epoch(text: &str) -> Option<Ticks> {
    let (text, is_marked) = text.strip_prefix('@').map_or((text, false), |text| (text, true));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) || fraction.len() > 9 {
        return None;
    }
    let number: i128 = whole.parse().ok()?;
    let nanos: i128 = format!("{fraction:0<9}").parse().ok()?;
    let scale = match whole.len() {
        13 if fraction.is_empty() => 1_000_000,
        16 if fraction.is_empty() => 1000,
        19 if fraction.is_empty() => 1,
        10 => 1_000_000_000,
        1..10 if is_marked => 1_000_000_000,
        _ => return None,
    };
    Ticks::from_unix_nanos(number.checked_mul(scale)?.checked_add(nanos)?)
}

fn written_out(text: &str) -> Option<When> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        let time = time.with_timezone(&Utc);
        return Ticks::from_unix(time.timestamp(), time.timestamp_subsec_nanos()).map(When::At);
    }
    let forms = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"];
    let time = forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    let time = time.or_else(|| Some(NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_time(NaiveTime::MIN)))?;
    // A year beyond the calendar of keys is not a time.
    Ticks::from_unix(time.and_utc().timestamp(), 0).map(|_| When::Local(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_dates_and_ages() {
        let now = Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_secs(12 * 3600));
        for (text, time) in [
            ("now", "2026-11-21T12:00:00Z"),
            ("15m", "2026-11-21T11:45:00Z"),
            ("2h", "2026-11-21T10:00:00Z"),
            ("7d", "2026-11-14T12:00:00Z"),
            ("1w", "2026-11-14T12:00:00Z"),
            ("2026-11-21", "2026-11-21T00:00:00Z"),
            ("2026-11-21 08:00", "2026-11-21T08:00:00Z"),
            ("2026-11-21T08:00", "2026-11-21T08:00:00Z"),
            ("2026-11-21 08:00:07.25", "2026-11-21T08:00:07.250Z"),
            ("2026-11-21T08:00:07", "2026-11-21T08:00:07Z"),
            ("2026-11-21T08:00:00.1234567Z", "2026-11-21T08:00:00.1234567Z"),
            ("2026-11-21T08:00:00+01:30", "2026-11-21T06:30:00Z"),
            (" 2026-11-21 ", "2026-11-21T00:00:00Z"),
            ("2h30m", "2026-11-21T09:30:00Z"),
            ("1d 2h", "2026-11-20T10:00:00Z"),
            ("2 hours ago", "2026-11-21T10:00:00Z"),
            ("an hour ago", "2026-11-21T11:00:00Z"),
            ("5min ago", "2026-11-21T11:55:00Z"),
            ("14:03", "2026-11-21T14:03:00Z"),
            ("14:03:20.5", "2026-11-21T14:03:20.500Z"),
            ("today", "2026-11-21T00:00:00Z"),
            ("Yesterday", "2026-11-20T00:00:00Z"),
            ("yesterday 14:03", "2026-11-20T14:03:00Z"),
            ("1795262400", "2026-11-21T12:00:00Z"),
            ("1795262400.25", "2026-11-21T12:00:00.250Z"),
            ("1795262400123", "2026-11-21T12:00:00.123Z"),
            ("@5", "1970-01-01T00:00:05Z"),
        ] {
            assert_eq!(text.parse::<When>().map(|when| when.at(now, &utc).to_string()), Ok(time.into()), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "never",
            "15",
            "m",
            "ago",
            "1.5h",
            "-5m",
            "2026-02-29",
            "25:00",
            "99999999999999999999d",
            "yesterday14:03",
            "1 2h",
        ] {
            assert!(text.parse::<When>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_age_beyond_the_first_tick_is_the_first_tick() {
        let when: When = "9999999w".parse().expect("an age");
        assert_eq!(when.at(Ticks::UNIX_EPOCH, &utc), Ticks::MIN);
    }

    /// An hour ahead of UTC until 2026-11-21T12:00Z, then on UTC: an hour comes twice.
    #[test]
    fn times_without_a_zone_are_those_of_the_callers_clocks() {
        let noon = Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_secs(12 * 3600));
        let zone = |time: Ticks| if time < noon { 3600 } else { 0 };
        for (text, time) in [
            ("2026-11-21 08:00", "2026-11-21T07:00:00Z"),
            ("08:00", "2026-11-21T07:00:00Z"),
            ("14:00", "2026-11-21T14:00:00Z"),
            ("12:30", "2026-11-21T11:30:00Z"),
            ("today", "2026-11-20T23:00:00Z"),
            ("2026-11-21T08:00:00Z", "2026-11-21T08:00:00Z"),
        ] {
            let when: When = text.parse().expect("a time");
            assert_eq!(when.at(noon, &zone).to_string(), time, "{text}");
        }
    }

    proptest! {
        /// The text of any `Ticks` is read back as the same time.
        #[test]
        fn shown_times_are_read_back(ticks in 0..=daytable_model::time::MAX_TICKS) {
            let time = Ticks::new(ticks).expect("in range");
            prop_assert_eq!(time.to_string().parse(), Ok(When::At(time)));
        }

        /// No text makes it panic.
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = text.parse::<When>().map(|when| when.at(Ticks::MAX, &utc));
        }
    }
}
