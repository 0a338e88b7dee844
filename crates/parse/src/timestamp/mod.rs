//! Timestamps as logs write them. [`at_start`] reads the timestamp at the start of a text, in any form, and returns its
//! length and kind. [`read_with`] reads a value that is only a timestamp.
//!
//! ```text
//! 2026-11-20T00:05:45.607815Z   RFC 3339 and its variants (`iso`): T, t or a space; `.` or `,`; seconds may be left out
//! 1763596845.607                since the epoch (`epoch`): s, ms, µs or ns by their size, 10, 13, 16 or 19 digits
//! 20/Nov/2026:00:05:45 +0100    with a date of digits or names in another order (`date`, `named_date`), 12-hour clocks
//! Nov 20 00:05:45               without a year: the year that puts it nearest before the time of reading
//! ```
//!
//! The caller supplies the missing parts ([`TimestampDefaults`]): the zone of the source, and the time of reading. A
//! time may be a day ahead of the time of reading, because clocks differ and zones may be missing.
//!
//! The parser makes one pass and tries no list of patterns. The first bytes (the number of digits, the byte after them,
//! a name) select the form, and each form is read once from left to right. The caller decides whether a timestamp may
//! end where it ends.
//!
//! A timestamp must have a date. Years outside [`YEARS`], a 13th month or a 61st minute make a text no timestamp, so
//! such a line stays plain text. A leap second (`:60`) is the last tick of the second before it, so it stays before the
//! next minute.

mod clock;
mod date;
mod epoch;
mod iso;
mod language;
mod named_date;
mod offset;
mod written_zone;
pub(crate) mod zone;

pub(super) use epoch::read as epoch;

use daytable_model::record::Value;
use daytable_model::time::{TICKS_PER_DAY, TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks};
use std::ops::RangeInclusive;
use written_zone::WrittenZone;
use zone::Zone;

/// The years of a valid timestamp. Go and .NET write year 1 for a missing time, Windows 1601, other programs 9999.
const YEARS: RangeInclusive<i32> = 1970..=9998;

/// How much later than the time of reading a time of day may be that has no date.
const CLOCK_AHEAD: i64 = 5 * TICKS_PER_MINUTE;

/// The parts that a timestamp may omit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampDefaults {
    /// The time zone.
    pub zone: Zone,
    /// The time of reading: a time without a year gets the year that puts it nearest before this time.
    pub seen: Ticks,
    /// What comes first in a date with `/` between its numbers.
    pub order: DateOrder,
}

impl Default for TimestampDefaults {
    /// UTC, a time of reading that gives no year, and months first.
    fn default() -> TimestampDefaults {
        TimestampDefaults { zone: Zone::Utc, seen: Ticks::MIN, order: DateOrder::default() }
    }
}

/// What comes first in a date such as `05/11/2026`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// As [`DateOrder::Month`], unless the day first alone gives about the time of reading: nothing is known of the source.
    #[default]
    Unknown,
    /// The month, unless its number is above 12.
    Month,
    /// The day, unless the other number is above 12.
    Day,
    /// The month, or it is no date.
    OnlyMonth,
    /// The day, or it is no date.
    OnlyDay,
}

impl DateOrder {
    /// The month and the day of two numbers.
    fn month_and_day(self, first: u32, second: u32) -> (u32, u32) {
        let is_month_first = match self {
            DateOrder::Unknown | DateOrder::Month => first <= 12,
            DateOrder::Day => second > 12,
            DateOrder::OnlyMonth => true,
            DateOrder::OnlyDay => false,
        };
        if is_month_first { (first, second) } else { (second, first) }
    }
}

/// The form of a timestamp, as far as it says something about its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// RFC 3339: date, `T`, time and zone.
    Rfc3339,
    /// Year, month and day with a time after a space, as many programs write it.
    Iso,
    /// `Nov 20 00:05:45`, as syslog daemons write it.
    Bsd,
    /// Seconds, milliseconds, microseconds or nanoseconds since 1970.
    Epoch,
    /// A time of day without a date.
    Clock,
    /// Any other form.
    Other,
}

/// A timestamp in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) time: Ticks,
    /// Its length in bytes.
    pub(super) length: usize,
    pub(super) form: Form,
}

/// A timestamp with date, time and zone at the start of a line, in little memory: it is moved with each line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FullTime {
    ticks: i64,
    /// Its length; 0 without such a timestamp.
    length: u8,
}

impl FullTime {
    /// None for a timestamp of another form.
    pub(super) fn of(stamp: Stamp) -> FullTime {
        match u8::try_from(stamp.length) {
            Ok(length) if stamp.form == Form::Rfc3339 => FullTime { ticks: stamp.time.get(), length },
            _ => FullTime::default(),
        }
    }

    /// Whether there is one.
    pub(super) fn is_some(self) -> bool {
        self.length > 0
    }

    /// The timestamp.
    pub(super) fn stamp(self) -> Option<Stamp> {
        let time = Ticks::new(self.ticks).filter(|_| self.is_some())?;
        Some(Stamp { time, length: self.length.into(), form: Form::Rfc3339 })
    }
}

/// The timestamp at the start of `text`.
#[inline]
pub(super) fn at_start(text: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    match text {
        [b'0'..=b'9', ..] => iso::at_digit(text, defaults),
        [b'@', b'4', ..] => epoch::tai64n(text),
        [b'A'..=b'Z' | b'a'..=b'z', ..] => named_date::from_name(text, defaults),
        [0xe4..=0xe5, ..] => date::from_numbered_month(text, defaults),
        _ => None,
    }
}

/// The time of day at the start of `text`, without a date: `08:00:00.123`, `8:00AM`. It means the latest such time at
/// most [`CLOCK_AHEAD`] after the time of reading.
pub(super) fn clock_at_start(text: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    // `0:00:01.123456789` counts from the start of a program.
    if !matches!(text, [b'1'..=b'9', b':', ..] | [b'0'..=b'9', b'0'..=b'9', b':', ..]) {
        return None;
    }
    let mut cursor = clock::DigitCursor { bytes: text, at: 0 };
    let since_midnight = cursor.clock(b':', clock::Seconds::Optional)?;
    let has_seconds = text.get(..cursor.at)?.iter().filter(|byte| **byte == b':').count() > 1;
    let has_half = text.get(..cursor.at)?.ends_with(b"M");
    // `08:00 [Warning] text`
    (has_seconds || has_half || matches!(cursor.rest(), [b' ', b'[', b'A'..=b'Z' | b'a'..=b'z', ..])).then_some(())?;
    let (zone, length) = written_zone::zone(cursor.rest())?;
    cursor.at += length;
    // No record is of a year that no clock shows.
    let seen = defaults.seen.get().min(Ticks::from_date(9000, 1, 1)?.get());
    let read = TimestampDefaults { seen: Ticks::new(seen)?, ..*defaults };
    let tomorrow = seen.checked_add(TICKS_PER_DAY)?;
    let time = (0..4).find_map(|days| {
        let day = Ticks::new(tomorrow - days * TICKS_PER_DAY)?.date();
        let time = point((day.year, day.month, day.day), since_midnight, zone, &read)?;
        (time.get() <= seen + CLOCK_AHEAD).then_some(time)
    })?;
    Some(Stamp { time, length: cursor.at, form: Form::Clock })
}

/// Minutes east of UTC of a word that is only an offset: `+0100`.
pub(super) fn whole_offset(word: &str) -> Option<i64> {
    word.starts_with(['+', '-']).then_some(())?;
    offset::offset(word.as_bytes())
        .filter(|(_, length)| *length == word.len() && length > &3)
        .map(|(minutes, _)| minutes)
}

/// The time and length of a complete timestamp: RFC 3339 and its nearest variants, in UTC if they name no zone.
#[inline]
pub(super) fn leading(text: &str) -> Option<(Ticks, usize)> {
    iso::read(text.as_bytes(), &TimestampDefaults::default()).map(|stamp| (stamp.time, stamp.length))
}

/// The time of a value: a timestamp alone, or a number of seconds since the epoch, or of thousandths, millionths or
/// billionths; also as text.
pub(super) fn read_with(value: &Value<'_>, defaults: &TimestampDefaults) -> Option<Ticks> {
    match value {
        Value::String(text) => match at_start(text.as_bytes(), defaults) {
            Some(stamp) if stamp.length == text.len() => Some(stamp.time),
            _ => epoch::read(text).or_else(|| epoch::wrapped(text)).or_else(|| of_parts(text, defaults)),
        },
        Value::Int64(number) => epoch::of_whole(u64::try_from(*number).ok()?),
        // The shortest digits of this number are the written digits, up to microseconds. Arithmetic on the number
        // itself would be off by a few ticks.
        Value::Double(number) => epoch::read(&number.to_string()),
        Value::Boolean(_) | Value::Binary(_) => None,
    }
}

/// `[2025,11,21,8,0,1,123000000]`: the parts of a time of day from the year on, as Jackson writes them; seconds and nanoseconds
/// may be left out.
fn of_parts(text: &str, defaults: &TimestampDefaults) -> Option<Ticks> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let mut parts = [0u32; 7];
    let mut count = 0;
    for part in inner.split(',') {
        *parts.get_mut(count)? = part.trim_ascii().parse().ok()?;
        count += 1;
    }
    let [year, month, day, hour, minute, second, nanos] = parts;
    (count >= 5 && hour < 24 && minute < 60 && second < 60 && nanos < 1_000_000_000).then_some(())?;
    let since_midnight = i64::from(hour * 3600 + minute * 60 + second) * TICKS_PER_SECOND + i64::from(nanos / 100);
    point((i32::try_from(year).ok()?, month, day), since_midnight, WrittenZone::Unwritten, defaults)
}

/// The point in time at which clocks show this. `zone` is the zone in the timestamp.
#[inline]
fn point(date: (i32, u32, u32), since_midnight: i64, zone: WrittenZone, defaults: &TimestampDefaults) -> Option<Ticks> {
    let (year, month, day) = date;
    if !YEARS.contains(&year) {
        return None;
    }
    let shown = Ticks::from_date(year, month, day)?.get() + since_midnight;
    let east = |minutes: i64| Ticks::new(shown - minutes * TICKS_PER_MINUTE);
    match zone {
        WrittenZone::East(minutes) => east(minutes),
        WrittenZone::Unwritten => defaults.zone.to_utc(Ticks::new(shown)?, defaults.seen),
        WrittenZone::Named(zone) => zone.to_utc(Ticks::new(shown)?, defaults.seen),
        WrittenZone::Short(number) => {
            let (name, minutes) = written_zone::abbreviation(number);
            defaults.zone.to_utc_as(name, Ticks::new(shown)?).or_else(|| east(minutes))
        }
    }
}

/// The same without a year: the latest year that puts the time at most a day after the time of reading.
fn point_in_some_year(
    (month, day): (u32, u32),
    since_midnight: i64,
    zone: WrittenZone,
    defaults: &TimestampDefaults,
) -> Option<Ticks> {
    let seen = defaults.seen.date();
    let first = if month == 1 && seen.month == 12 { seen.year + 1 } else { seen.year };
    // The last 29th of February may be eight years ago.
    (first - 9..=first).rev().find_map(|year| {
        let time = point((year, month, day), since_midnight, zone, defaults)?;
        (time.get() <= defaults.seen.get() + TICKS_PER_DAY).then_some(time)
    })
}

#[cfg(test)]
mod tests;
