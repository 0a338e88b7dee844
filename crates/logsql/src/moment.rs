//! Points in time as a query writes them: a period of the calendar, seconds since the Unix epoch, or `now`.
//!
//! ```text
//! 2026   2026-11   2026-11-21   2026-11-21T08   2026-11-21T08:30   2026-11-21T08:30:15   …15.25
//! …Z  …+01:00                 UTC without a zone
//! 1763712000                  seconds, milliseconds, microseconds or nanoseconds since the Unix epoch
//! now   now-1h   now+5m
//! ```
//!
//! A time without seconds means the whole minute, a date the whole day, and so on.

use crate::unit::duration_nanos;
use daytable_model::time::{MAX_TICKS, TICKS_PER_DAY, TICKS_PER_SECOND, Ticks, UNIX_EPOCH_TICKS};

/// A point in time, or a period of the calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The text in the query.
    pub text: String,
    /// The value.
    pub value: MomentValue,
}

/// The value of a [`Moment`], in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentValue {
    /// A period: its first tick, and the first tick after it.
    Period(i64, i64),
    /// This many ticks after now.
    Now(i64),
}

impl Moment {
    /// Reads a moment.
    pub fn parse(text: &str) -> Option<Moment> {
        let value = match text.strip_prefix("now") {
            Some("") => MomentValue::Now(0),
            Some(rest) => {
                let (sign, duration) = if let Some(duration) = rest.strip_prefix('-') {
                    (-1, duration)
                } else {
                    (1, rest.strip_prefix('+')?)
                };
                MomentValue::Now(sign * (duration_nanos(duration).filter(|nanos| *nanos >= 0)? / 100))
            }
            None => {
                let (start, end) = absolute(text)?;
                MomentValue::Period(start, end)
            }
        };
        Some(Moment { text: text.into(), value })
    }

    /// The first tick, and the first tick after it.
    pub fn period(&self, now: Ticks) -> (i64, i64) {
        match self.value {
            MomentValue::Period(start, end) => (start, end),
            MomentValue::Now(after) => {
                let at = now.get().saturating_add(after).clamp(0, MAX_TICKS);
                (at, at + 1)
            }
        }
    }
}

/// A number of exactly `digits` digits at the start of a text, and the rest.
fn digits(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((number.parse().ok()?, rest))
}

/// Like [`digits`], after one of the characters `before`.
fn part<'t>(text: &'t str, before: &[char]) -> Option<(u32, &'t str)> {
    digits(text.strip_prefix(before)?, 2)
}

/// The offset of a zone in seconds.
fn zone(text: &str) -> Option<i64> {
    let (sign, rest) = match text.as_bytes() {
        [] | [b'Z' | b'z'] => return Some(0),
        [b'+', ..] => (1, &text[1..]),
        [b'-', ..] => (-1, &text[1..]),
        _ => return None,
    };
    let (hours, rest) = digits(rest, 2)?;
    let (minutes, rest) = digits(rest.strip_prefix(':').unwrap_or(rest), 2)?;
    (rest.is_empty() && hours < 24 && minutes < 60).then(|| sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

/// The first tick of a written time, and the first tick after it.
pub fn absolute(text: &str) -> Option<(i64, i64)> {
    if text.len() >= 9 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return epoch(text);
    }
    let (year, rest) = digits(text, 4)?;
    let year = i32::try_from(year).ok()?;
    let of_date = |month, day| Ticks::from_date(year, month, day).map(Ticks::get);
    let Some((month, after)) = part(rest, &['-']).filter(|(month, _)| (1..=12).contains(month)) else {
        let seconds = zone(rest)?;
        let end = Ticks::from_date(year + 1, 1, 1).map_or(MAX_TICKS, Ticks::get);
        return shifted(of_date(1, 1)?, end, seconds);
    };
    // `2026-11:00` is not a zone of a year.
    let Some((day, rest)) = part(after, &['-']).filter(|_| after.get(3..4).is_none_or(|next| next != ":")) else {
        let seconds = zone(after)?;
        let next = if month == 12 { Ticks::from_date(year + 1, 1, 1) } else { Ticks::from_date(year, month + 1, 1) };
        return shifted(of_date(month, 1)?, next.map_or(MAX_TICKS, Ticks::get), seconds);
    };
    let midnight = of_date(month, day)?;
    let Some((hour, rest)) = part(rest, &['T', 't', ' ']) else {
        return shifted(midnight, midnight + TICKS_PER_DAY, zone(rest)?);
    };
    let minute_part = part(rest, &[':']);
    let (minute, rest) = minute_part.unwrap_or((0, rest));
    let second_part = minute_part.and_then(|_| part(rest, &[':']));
    let (second, rest) = second_part.unwrap_or((0, rest));
    let (fraction, length, rest) = match second_part.and_then(|_| rest.strip_prefix(['.', ','])) {
        Some(rest) => fraction(rest)?,
        None => (0, TICKS_PER_SECOND, rest),
    };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    let start = midnight + seconds * TICKS_PER_SECOND + fraction;
    let length = match (minute_part, second_part) {
        (None, _) => 3600 * TICKS_PER_SECOND,
        (_, None) => 60 * TICKS_PER_SECOND,
        _ => length,
    };
    shifted(start, start + length, zone(rest)?)
}

/// The fraction of a second in ticks, the length of its last digit in ticks, and the rest.
fn fraction(text: &str) -> Option<(i64, i64, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let (mut ticks, mut length) = (0, TICKS_PER_SECOND);
    for digit in text.bytes().take(count.min(7)) {
        length /= 10;
        ticks += i64::from(digit - b'0') * length;
    }
    (count > 0).then_some((ticks, length, &text[count..]))
}

fn shifted(start: i64, end: i64, zone_seconds: i64) -> Option<(i64, i64)> {
    let shift = zone_seconds * TICKS_PER_SECOND;
    let (start, end) = (start - shift, end - shift);
    (0..=MAX_TICKS).contains(&start).then_some((start, end))
}

/// Seconds, milliseconds, microseconds or nanoseconds since the Unix epoch, by the number of digits.
fn epoch(text: &str) -> Option<(i64, i64)> {
    let number: i128 = text.parse().ok()?;
    let (nanos, length) = match text.len() {
        9..=11 => (number * 1_000_000_000, TICKS_PER_SECOND),
        12..=14 => (number * 1_000_000, TICKS_PER_SECOND / 1000),
        15..=17 => (number * 1000, 10),
        _ => (number, 1),
    };
    let start = i64::try_from(nanos / 100 + i128::from(UNIX_EPOCH_TICKS)).ok()?;
    (start <= MAX_TICKS).then_some((start, start + length))
}
