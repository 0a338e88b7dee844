//! Timestamps as logs have them. [`at_start`] reads the one that a text begins with, in whatever form, and says how long
//! it is and of what kind; [`read_with`] is for a value that is a timestamp and nothing else.
//!
//! ```text
//! 2026-11-20T00:05:45.607815Z   RFC 3339 and its cousins (`iso`): T, t or a space; `.` or `,`; seconds may be left out
//! 1763596845.607                since the epoch (`epoch`): s, ms, µs or ns by their size, 10, 13, 16 or 19 digits
//! 20/Nov/2026:00:05:45 +0100    with a date of digits or names in another order (`date`), 12-hour clocks
//! Nov 20 00:05:45               without a year: the year that puts it nearest before the time of reading
//! ```
//!
//! What a timestamp does not say ([`TimestampDefaults`]) comes from outside: the zone of its source, and the time of reading. A
//! time may be a day ahead of that, for clocks that differ and zones that were not said.
//!
//! There is one pass and no list of patterns to try: the first bytes (how many digits, what comes after them, which
//! name) say the form, and each form is then read from left to right once. Whether a timestamp may end where it ends is
//! for the caller to say.
//!
//! Only what has a date counts. Years outside [`YEARS`], a 13th month or a 61st minute are no time at all, so that such
//! a line stays plain text. A leap second (`:60`) is the last tick of the second before it, so that it stays before the
//! minute that follows.

mod clock;
mod date;
mod epoch;
mod iso;
mod offset;
pub(crate) mod zone;

pub(super) use epoch::read as epoch;

use daytable_model::record::Value;
use daytable_model::time::{TICKS_PER_DAY, Ticks};
use std::ops::RangeInclusive;
use zone::Zone;

/// Years that a log can be of. Year 1 is what Go and .NET show for no time, 1601 what Windows does, 9999 what others do.
const YEARS: RangeInclusive<i32> = 1970..=9998;

/// What a timestamp may leave defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampDefaults {
    /// Its zone.
    pub zone: Zone,
    /// When it was read: a time without a year is of the year that puts it nearest before that.
    pub seen: Ticks,
}

impl Default for TimestampDefaults {
    /// UTC, and no time that could give a year.
    fn default() -> TimestampDefaults {
        TimestampDefaults { zone: Zone::Utc, seen: Ticks::MIN }
    }
}

/// What a timestamp looked like, where that says something of the line that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// RFC 3339: date, `T`, time and zone.
    Rfc3339,
    /// Year, month and day with a time after a space, as many programs write it.
    Iso,
    /// `Nov 20 00:05:45`, as syslog daemons write it.
    Bsd,
    /// Seconds, or parts of them, since 1970.
    Epoch,
    /// Any other.
    Other,
}

/// A timestamp that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) time: Ticks,
    /// In bytes.
    pub(super) length: usize,
    pub(super) form: Form,
}

/// The timestamp that `text` begins with.
#[inline]
pub(super) fn at_start(text: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    match text {
        [b'0'..=b'9', _, _, _, b'-' | b'/', _, _, b'-' | b'/', _, _, b'T' | b't' | b' ', b'0'..=b'9', _, b':', ..] => {
            iso::read(text, defaults)
        }
        [b'0'..=b'9', ..] => date::from_digits(text, defaults),
        [b'A'..=b'Z' | b'a'..=b'z', ..] => date::from_name(text, defaults),
        _ => None,
    }
}

/// The time and length of a timestamp that says all: RFC 3339 and its nearest cousins, UTC where they name no zone.
#[inline]
pub(super) fn leading(text: &str) -> Option<(Ticks, usize)> {
    iso::read(text.as_bytes(), &TimestampDefaults::default()).map(|stamp| (stamp.time, stamp.length))
}

/// The time that a value gives: a timestamp and nothing else, or a number of seconds since the epoch or of
/// thousandths, millionths or billionths of them, also as text.
pub(super) fn read_with(value: &Value<'_>, defaults: &TimestampDefaults) -> Option<Ticks> {
    match value {
        Value::String(text) => match at_start(text.as_bytes(), defaults) {
            Some(stamp) if stamp.length == text.len() => Some(stamp.time),
            _ => epoch::read(text),
        },
        Value::Int64(number) => epoch::of_whole(u64::try_from(*number).ok()?),
        // The shortest digits that make this number are those that were written, as long as there were no more than
        // microseconds of them; arithmetic on the number itself would be off by a few ticks.
        Value::Double(number) => epoch::read(&number.to_string()),
        Value::Boolean(_) | Value::Binary(_) => None,
    }
}

/// The point in time at which clocks show this. `offset` is that of the timestamp, in minutes east of UTC.
#[inline]
fn point(
    date: (i32, u32, u32),
    since_midnight: i64,
    offset: Option<i64>,
    defaults: &TimestampDefaults,
) -> Option<Ticks> {
    let (year, month, day) = date;
    if !YEARS.contains(&year) {
        return None;
    }
    let shown = Ticks::from_date(year, month, day)?.get() + since_midnight;
    match offset {
        Some(minutes) => Ticks::new(shown - minutes * (TICKS_PER_DAY / (24 * 60))),
        None => defaults.zone.to_utc(Ticks::new(shown)?),
    }
}

/// The same without a year: the last one in which it is not more than a day after the time of reading.
fn point_in_some_year(
    (month, day): (u32, u32),
    since_midnight: i64,
    offset: Option<i64>,
    defaults: &TimestampDefaults,
) -> Option<Ticks> {
    let seen = defaults.seen.date();
    let first = if month == 1 && seen.month == 12 { seen.year + 1 } else { seen.year };
    // A 29th of February may be eight years back.
    (first - 9..=first).rev().find_map(|year| {
        let time = point((year, month, day), since_midnight, offset, defaults)?;
        (time.get() <= defaults.seen.get() + TICKS_PER_DAY).then_some(time)
    })
}

#[cfg(test)]
mod tests;
