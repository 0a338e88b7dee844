//! Points in time as people write them: a time, a date, or an age.
//!
//! ```text
//! 2026-11-21T08:00:00.5+01:00    RFC 3339
//! 2026-11-21 08:00               UTC, like all forms without a zone; seconds and their fraction are optional
//! 2026-11-21                     its first tick
//! 15m  2h  7d  now               a time before now: ms, s, m, h, d, w
//! ```

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};
use daytable_model::time::Ticks;
use daytable_model::units::parse_duration;
use std::str::FromStr;
use std::time::Duration;

/// A point in time, absolute or relative to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// An absolute time.
    At(Ticks),
    /// A time before now.
    Ago(Duration),
}

/// A text in none of the forms above.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no time: write 2026-11-21, \"2026-11-21 08:00\", 2026-11-21T08:00:00Z, an age such as 15m, or now")]
pub struct WhenError(pub String);

impl When {
    /// The point in time, given `now`.
    pub fn at(self, now: Ticks) -> Ticks {
        match self {
            When::At(time) => time,
            When::Ago(age) => now.minus(age),
        }
    }
}

impl FromStr for When {
    type Err = WhenError;

    fn from_str(text: &str) -> Result<When, WhenError> {
        let text = text.trim();
        if text == "now" {
            return Ok(When::Ago(Duration::ZERO));
        }
        if let Ok(age) = parse_duration(text) {
            return Ok(When::Ago(age));
        }
        written_out(text).map(When::At).ok_or_else(|| WhenError(text.into()))
    }
}

fn written_out(text: &str) -> Option<Ticks> {
    let time = DateTime::parse_from_rfc3339(text).map(|time| time.with_timezone(&Utc)).ok();
    let time = time.or_else(|| {
        let forms = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"];
        forms.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok()).map(|time| time.and_utc())
    });
    let time = time.or_else(|| {
        let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
        Some(date.and_hms_opt(0, 0, 0)?.and_utc())
    })?;
    Ticks::from_unix(time.timestamp(), time.timestamp_subsec_nanos())
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
        ] {
            assert_eq!(text.parse::<When>().map(|when| when.at(now).to_string()), Ok(time.into()), "{text:?}");
        }
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in
            ["", "yesterday", "15", "m", "1.5h", "-5m", "2026-02-29", "2026-11-21 25:00", "99999999999999999999d"]
        {
            assert!(text.parse::<When>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_age_beyond_the_first_tick_is_the_first_tick() {
        let when: When = "9999999w".parse().expect("an age");
        assert_eq!(when.at(Ticks::UNIX_EPOCH), Ticks::MIN);
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
            let _ = text.parse::<When>();
        }
    }
}
