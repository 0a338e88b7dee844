//! `Edm.DateTime`: ticks of 100 ns, written with seven decimals.

use chrono::{Datelike, NaiveDate};
use std::fmt;

const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// 9999-12-31T23:59:59.9999999Z.
const TICKS_MAX: i64 = 3_155_378_975_999_999_999;

/// A point in time in ticks of 100 ns since 0001-01-01 UTC, up to the end of the year 9999. The service accepts times
/// from the year 1601 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(i64);

/// A date and a time of day, UTC.
pub(super) struct Civil {
    pub(super) date: NaiveDate,
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
    /// Ticks of the second.
    pub(super) fraction: u32,
}

impl DateTime {
    /// Converts ticks since 0001-01-01. Times outside the years 1 to 9999 become the nearest valid time.
    pub fn from_ticks(ticks: i64) -> DateTime {
        DateTime(ticks.clamp(0, TICKS_MAX))
    }

    /// Ticks since 0001-01-01.
    pub fn ticks(self) -> i64 {
        self.0
    }

    pub(super) fn civil(self) -> Civil {
        let days = i32::try_from(self.0 / TICKS_PER_DAY).expect("ten thousand years are less than four million days");
        let date = NaiveDate::from_num_days_from_ce_opt(days + 1).expect("within the years 1 to 9999");
        let rest = self.0 % TICKS_PER_DAY;
        let (seconds, fraction) = (rest / TICKS_PER_SECOND, rest % TICKS_PER_SECOND);
        let part = |number: i64| u8::try_from(number).expect("a part of a day is less than 60");
        Civil {
            date,
            hour: part(seconds / 3600),
            minute: part(seconds / 60 % 60),
            second: part(seconds % 60),
            fraction: u32::try_from(fraction).expect("a second has ten million ticks"),
        }
    }

    /// Writes the form of the service: `2026-11-21T15:00:00.0000000Z`.
    pub(super) fn write(self, to: &mut Vec<u8>) {
        let civil = self.civil();
        let mut text = *b"0000-00-00T00:00:00.0000000Z";
        let mut put = |at: std::ops::Range<usize>, mut number: u32| {
            for digit in text[at].iter_mut().rev() {
                *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
                number /= 10;
            }
        };
        put(0..4, civil.date.year().unsigned_abs());
        put(5..7, civil.date.month());
        put(8..10, civil.date.day());
        put(11..13, civil.hour.into());
        put(14..16, civil.minute.into());
        put(17..19, civil.second.into());
        put(20..27, civil.fraction);
        to.extend_from_slice(&text);
    }

    /// Parses the form of the service, with up to seven decimals.
    pub(super) fn parse(text: &str) -> Option<DateTime> {
        let bytes = text.as_bytes();
        let number = |at: std::ops::Range<usize>| -> Option<u32> {
            let digits = text.get(at).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
            digits.parse().ok()
        };
        let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if marks.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
            return None;
        }
        let date = NaiveDate::from_ymd_opt(number(0..4)?.try_into().ok()?, number(5..7)?, number(8..10)?)?;
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let fraction = match text.get(19..)?.strip_suffix('Z')? {
            "" => 0,
            rest => {
                let digits = rest.strip_prefix('.').filter(|digits| (1..=7).contains(&digits.len()))?;
                number(20..20 + digits.len())? * 10u32.pow(u32::try_from(7 - digits.len()).ok()?)
            }
        };
        let days = i64::from(date.num_days_from_ce()) - 1;
        let seconds = i64::from(hour * 3600 + minute * 60 + second);
        let ticks = days * TICKS_PER_DAY + seconds * TICKS_PER_SECOND + i64::from(fraction);
        (0..=TICKS_MAX).contains(&ticks).then_some(DateTime(ticks))
    }
}

/// The form of the service.
impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_of_the_service() {
        for (text, ticks) in [
            ("2026-11-21T00:00:00Z", 639_308_160_000_000_000),
            ("2026-11-21T00:00:00.0000001Z", 639_308_160_000_000_001),
            ("2026-11-21T00:00:00.5Z", 639_308_160_005_000_000),
            ("0001-01-01T00:00:00.0000000Z", 0),
            ("9999-12-31T23:59:59.9999999Z", TICKS_MAX),
            ("1970-01-01T00:00:00.000Z", 621_355_968_000_000_000),
        ] {
            assert_eq!(DateTime::parse(text), Some(DateTime(ticks)), "{text}");
        }
        for text in
            ["", "2026-11-21", "2026-11-21T00:00:00", "2026-02-29T00:00:00Z", "2026-11-21T00:00:00.12345678Z", "é"]
        {
            assert_eq!(DateTime::parse(text), None, "{text}");
        }
        assert_eq!(DateTime::from_ticks(-1).ticks(), 0);
        assert_eq!(DateTime::from_ticks(i64::MAX).ticks(), TICKS_MAX);
    }

    proptest! {
        /// Every tick survives a round trip.
        #[test]
        fn round_trip(ticks in 0..=TICKS_MAX) {
            let text = DateTime(ticks).to_string();
            prop_assert_eq!(DateTime::parse(&text), Some(DateTime(ticks)), "{}", text);
        }

        /// No text panics.
        #[test]
        fn any_text(text in "[0-9TZ:.é-]{0,30}") {
            let _ = DateTime::parse(&text);
        }
    }
}
