//! When the lifecycle runs: a cron expression, in UTC.
//!
//! Six fields: second, minute, hour, day of month, month, day of week. An optional seventh field gives the years. Five
//! fields are a crontab expression with second 0. Two differences from crontab:
//!
//! * The `cron` crate counts Sunday as 1; crontab counts Sunday as 0 or 7. A number would select the wrong day, so
//!   weekdays are names: `MON`, `MON-FRI`, `SAT,SUN`.
//! * If both the day of month and the weekday are given, both must match (crontab: either).

use chrono::{DateTime, Utc};
use daytable_model::time::Ticks;
use std::fmt;
use std::str::FromStr;

/// A valid cron expression with at least one future match. Equality compares the text.
#[derive(Clone)]
pub struct Schedule {
    text: String,
    cron: cron::Schedule,
}

/// Why an expression is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ScheduleError {
    /// Wrong number of fields.
    #[error(
        "a schedule has 6 fields (second minute hour day month weekday), or 5 without the second, not {0}: \
         for example \"0 15 0 * * *\" for 00:15:00 every day"
    )]
    Fields(usize),
    /// A weekday given as a number, which programs interpret differently.
    #[error("a weekday is written by its name, like MON or MON-FRI: {0:?} means another day here than in a crontab")]
    NumericWeekday(String),
    /// An unreadable field.
    #[error("{0:?} is not a schedule: \"0 15 0 * * *\" is 00:15:00 every day")]
    Expression(String),
    /// The expression matches no date.
    #[error("{0:?} never comes")]
    Never(String),
}

impl Schedule {
    /// Maximum length of an expression.
    const BYTES_MAX: usize = 256;

    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Schedule, ScheduleError> {
        let text = text.trim();
        if text.len() > Schedule::BYTES_MAX {
            return Err(ScheduleError::Expression(text.chars().take(20).collect()));
        }
        let mut fields: Vec<&str> = text.split_whitespace().collect();
        match fields.len() {
            1 if text.starts_with('@') => {}
            5 => fields.insert(0, "0"),
            6 | 7 => {}
            count => return Err(ScheduleError::Fields(count)),
        }
        // The number after `/` is an interval, not a weekday.
        let weekday = fields.get(5).copied().unwrap_or_default();
        let days = weekday.split(',').map(|part| part.split('/').next().unwrap_or_default());
        if days.into_iter().any(|days| days.contains(|c: char| c.is_ascii_digit())) {
            return Err(ScheduleError::NumericWeekday(weekday.into()));
        }
        let cron = fields.join(" ").parse::<cron::Schedule>().map_err(|_| ScheduleError::Expression(text.into()))?;
        let schedule = Schedule { text: text.into(), cron };
        if schedule.next_after(Ticks::UNIX_EPOCH).is_none() {
            return Err(ScheduleError::Never(schedule.text));
        }
        Ok(schedule)
    }

    /// The first match after `now`, or `None` after the last year (at most 2100).
    pub fn next_after(&self, now: Ticks) -> Option<Ticks> {
        // The `cron` crate starts in 1970.
        let now = DateTime::<Utc>::from_timestamp(now.max(Ticks::UNIX_EPOCH).unix_seconds(), 0)?;
        let next = self.cron.after(&now).next()?;
        Ticks::from_unix(next.timestamp(), 0)
    }

    /// Whether a run was missed since `last_run`. True if no run was recorded.
    pub fn missed(&self, last_run: Option<Ticks>, now: Ticks) -> bool {
        match last_run {
            None => true,
            Some(last_run) => self.next_after(last_run).is_some_and(|due| due <= now),
        }
    }
}

/// 00:15:00 every day: late enough for the last records of the day before.
impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::parse("0 15 0 * * *").expect("a test parses it")
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleError> {
        Schedule::parse(text)
    }
}

impl PartialEq for Schedule {
    fn eq(&self, other: &Schedule) -> bool {
        self.text == other.text
    }
}

impl Eq for Schedule {}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn at(day: u32, seconds: u64) -> Ticks {
        Ticks::from_date(2026, 11, day).expect("a date").plus(Duration::from_secs(seconds))
    }

    #[test]
    fn expressions_and_their_next_time() {
        // 2026-11-21 is a Saturday.
        let noon = at(21, 12 * 3600);
        for (text, next) in [
            ("0 15 0 * * *", at(22, 900)),
            ("15 0 * * *", at(22, 900)),
            ("  0   0 12 * * * ", at(22, 12 * 3600)),
            ("30 0 12 * * *", at(21, 12 * 3600 + 30)),
            ("0 0 0 * * MON-FRI", at(23, 0)),
            ("0 0 * * sun,sat", at(22, 0)),
            ("0 */10 * * * *", at(21, 12 * 3600 + 600)),
            ("0 0 0 */2 * */3", at(25, 0)),
            ("@hourly", at(21, 13 * 3600)),
            ("0 0 0 30 NOV ? 2026", at(30, 0)),
        ] {
            let schedule = Schedule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(schedule.next_after(noon), Some(next), "{text}");
        }
        assert_eq!(Schedule::default().to_string(), "0 15 0 * * *");
    }

    #[test]
    fn expressions_that_are_refused() {
        for (text, error) in [
            ("", ScheduleError::Fields(0)),
            ("0 0 * *", ScheduleError::Fields(4)),
            ("0 0 0 * * 1", ScheduleError::NumericWeekday("1".into())),
            ("0 0 * * 1-5", ScheduleError::NumericWeekday("1-5".into())),
            ("0 0 * * MON,3", ScheduleError::NumericWeekday("MON,3".into())),
            ("0 60 0 * * *", ScheduleError::Expression("0 60 0 * * *".into())),
            ("*/0 * * * * *", ScheduleError::Expression("*/0 * * * * *".into())),
            ("@fortnightly", ScheduleError::Expression("@fortnightly".into())),
            ("0 0 0 30 FEB *", ScheduleError::Never("0 0 0 30 FEB *".into())),
        ] {
            assert_eq!(Schedule::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_run_is_missed_once_its_time_has_passed() {
        let daily = Schedule::default();
        let due = at(22, 900);
        assert!(daily.missed(None, due));
        assert!(!daily.missed(Some(at(21, 900)), at(22, 899)));
        assert!(daily.missed(Some(at(21, 900)), due));
        assert!(!daily.missed(Some(due), due));
        assert!(!daily.missed(Some(at(25, 0)), due), "a clock that was set back owes nothing");
        let over = Schedule::parse("0 0 0 * * * 2020").expect("a schedule");
        assert_eq!(over.next_after(due), None);
        assert!(!over.missed(Some(at(21, 0)), due));
    }

    proptest! {
        /// No text panics, and the next time is always later, so a waiting loop makes progress.
        #[test]
        fn the_next_time_is_later(text in "([0-9*/,?@-]{1,4}|[A-Z]{3}|4294967296)( ([0-9*/,?-]{1,4}|[A-Z]{3}|MON-FRI)){4,6}",
                                  now in 0..=daytable_model::time::MAX_TICKS) {
            let now = Ticks::new(now).expect("in range");
            for schedule in [Schedule::parse(&text).ok(), Some(Schedule::default())].into_iter().flatten() {
                prop_assert!(schedule.next_after(now).is_none_or(|next| next > now));
            }
        }
    }
}
