//! All forms but those of `iso`. The number of leading digits and the byte after them select the form, or a name does.
//!
//! ```text
//! 2005-06-03-15.42.50.675872   2026.11.21 08:00:00   2026-1-2 8:00           four digits
//! 1121/080000.123              1121 08:00:00.123                             month and day in four
//! 17/06/09 20:10:40            11/21/2026 8:00 AM    21.11.2026 08:00:00     two digits
//! 03-17 16:13:38.811           10.30 16:49:06        11/21 08:00:00          month and day
//! 20/Nov/2026:00:05:45 +0100   20-Nov-2026 00:05:45  20 Nov 2026 00:05:45
//! 081109 203615                070716 14:10:00      251121-08:00:01,123      six digits: year, month and day
//! 20171223-22:15:29:606        20261121T080000Z      20261121080000          eight, fourteen
//! Nov 20 00:05:45              Nov 20 2026 00:05:45  Sun Dec 04 04:47:44 2005  Sun, 06 Nov 1994 08:49:37 GMT
//! ```
//!
//! If the digits leave the order open, `/` means what its source is known for ([`DateOrder`]), else month before day, its
//! most common use, and `.` and `-` mean day before month. A number above 12 is always a day. Of three two-digit numbers, the
//! first or the last is the year, whichever gives the later date that is not in the future; without a time of reading the
//! first, or the last one where `.` stands between them.

use super::clock::{DigitCursor, Seconds, since_midnight};
use super::language;
use super::offset::{ends_word, two};
use super::written_zone::{WrittenZone, zone};
use super::{DateOrder, Form, Stamp, TimestampDefaults, epoch, point, point_in_some_year};
use daytable_model::time::{TICKS_PER_DAY, Ticks};

/// Days from the time of reading within which a date of an unknown order is that of a live source.
const NEAR_DAYS: i64 = 2;

/// How old seconds since 1970 may be that could also be a month, a day and a time of day: such numbers are of 2001 to 2009.
const EPOCH_AGE_MAX: i64 = 15 * 366 * TICKS_PER_DAY;

/// The written parts of a date.
#[derive(Clone, Copy)]
pub(super) enum WrittenDate {
    Full(i32, u32, u32),
    /// Month and day.
    Short(u32, u32),
}

/// The timestamp at the start of a text that begins with a digit, in all forms but those of `iso` and hexadecimal numbers.
pub(super) fn from_digits(bytes: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    let mut cursor = DigitCursor { bytes, at: 0 };
    let digits = cursor.run();
    let next = bytes.get(digits).copied();
    match (digits, next) {
        (4, Some(b'-' | b'/' | b'.')) => year_first(&mut cursor, defaults),
        (4, Some(b':')) if bytes.get(7) == Some(&b':') => year_first(&mut cursor, defaults),
        (4, Some(0xe5)) => east_asian(&mut cursor, defaults),
        (4, Some(b' ')) => {
            let digits = cursor.digits(4)?;
            cursor.at += 1;
            // `2025 11 21 08:00:01:123`
            if let [_, _, b' ', _, _, b' ', _, _, b':', ..] = cursor.rest() {
                let month = cursor.digits(2)?;
                cursor.at += 1;
                let date = WrittenDate::Full(signed(digits)?, month, cursor.digits(2)?);
                cursor.at += 1;
                return clock_after(date, &mut cursor, Seconds::Required, defaults);
            }
            // A time of day follows most such dates.
            if cursor.peek().is_some_and(|byte| !byte.is_ascii_digit())
                && let Some(month) = month(&mut cursor)
            {
                let _space = cursor.eat(b' ');
                let _padding = cursor.eat(b' ');
                let day = cursor.number(1, 2)?;
                let date = WrittenDate::Full(signed(digits)?, month, day);
                return if cursor.eat(b' ') {
                    clock_after(date, &mut cursor, Seconds::Required, defaults)
                } else {
                    None
                };
            }
            clock_after(WrittenDate::Short(digits / 100, digits % 100), &mut cursor, Seconds::Required, defaults)
        }
        (1 | 2, Some(b'/' | b'-' | b'.' | b' ')) => small_first(&mut cursor, defaults),
        (2, Some(b':')) => clock_first(&mut cursor, defaults),
        (2, Some(b'A'..=b'Z' | b'a'..=b'z')) => joined_name(&mut cursor, defaults),
        (1 | 2, Some(0xe6)) => from_numbered_month(bytes, defaults),
        (5, Some(b' ')) => day_of_year(&mut cursor, defaults),
        (6, Some(b' ' | b'/' | b'-' | b'_')) => {
            let date = two_digit_years(&mut cursor, defaults)?;
            cursor.at += 1;
            clock_after(date, &mut cursor, Seconds::Required, defaults)
        }
        (7, Some(b' ')) => {
            let year = signed(cursor.digits(4)?)?;
            let (month, day) = language::day_of_year(year, cursor.digits(3)?)?;
            cursor.at += 1;
            clock_after(WrittenDate::Full(year, month, day), &mut cursor, Seconds::Required, defaults)
        }
        (8, Some(b'-' | b'T' | b' ' | b'_' | b':' | b'.' | b'/')) => {
            let clock_digits = DigitCursor { bytes, at: 9 }.run();
            let is_packed = bytes.get(8) != Some(&b'.') || clock_digits == 6;
            is_packed.then_some(())?;
            // No year has a twentieth month: the day is first.
            let date = if bytes[4..6] == *b"20" {
                let (day, month) = (cursor.digits(2)?, cursor.digits(2)?);
                WrittenDate::Full(signed(cursor.digits(4)?)?, month, day)
            } else {
                WrittenDate::Full(signed(cursor.digits(4)?)?, cursor.digits(2)?, cursor.digits(2)?)
            };
            cursor.at += 1;
            if clock_digits == 8 {
                let since_midnight = cursor.hundredths()?;
                return with_zone(date, since_midnight, &mut cursor, Form::Other, defaults);
            }
            clock_after(date, &mut cursor, Seconds::Unpadded, defaults)
        }
        (14, _) => {
            let date = WrittenDate::Full(signed(cursor.digits(4)?)?, cursor.digits(2)?, cursor.digits(2)?);
            clock_after(date, &mut cursor, Seconds::Required, defaults)
        }
        (10, Some(b'|')) => before_a_bar(&mut cursor, defaults),
        (10 | 13 | 16 | 19, _) => epoch::at_start(bytes, digits),
        _ => None,
    }
}

/// `25325 08:00:01.12`: a year of two digits and the day in it, where that is within the year before the time of reading.
/// Other numbers of five digits are no dates.
#[cold]
fn day_of_year(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<Stamp> {
    matches!(cursor.bytes.get(6..), Some([_, _, b':', _, _, b':', ..])).then_some(())?;
    let year = near_year(cursor.digits(2)?, defaults);
    let (month, day) = language::day_of_year(year, cursor.digits(3)?)?;
    cursor.at += 1;
    let stamp = clock_after(WrittenDate::Full(year, month, day), cursor, Seconds::Required, defaults)?;
    // Questions that do not depend on the time of reading have the last one of all.
    let is_known = defaults.seen < Ticks::MAX;
    let before = defaults.seen.get().saturating_sub(stamp.time.get());
    (!is_known || (-TICKS_PER_DAY..=366 * TICKS_PER_DAY).contains(&before)).then_some(stamp)
}

/// `1121080001|sip  |text`: ten digits before a bar are seconds since 1970 if those are not long ago; else month, day and
/// time of day, as phones write them.
#[cold]
fn before_a_bar(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<Stamp> {
    let epoch = epoch::at_start(cursor.bytes, 10);
    let is_near = |stamp: &Stamp| {
        defaults.seen == Ticks::MAX || stamp.time.get().saturating_add(EPOCH_AGE_MAX) >= defaults.seen.get()
    };
    epoch.filter(is_near).or_else(|| {
        let date = WrittenDate::Short(cursor.digits(2)?, cursor.digits(2)?);
        clock_after(date, cursor, Seconds::Required, defaults)
    })
}

/// Reads a timestamp that begins with a numbered month, as Java writes it in Chinese and in Japanese:
/// `十一月 21, 2025 8:00:01 上午`, `11月 21, 2025 8:00:01 午前`.
#[cold]
pub(super) fn from_numbered_month(bytes: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    const NUMERALS: [&str; 12] = ["一", "二", "三", "四", "五", "六", "七", "八", "九", "十", "十一", "十二"];
    let mut cursor = DigitCursor { bytes, at: 0 };
    let month = match cursor.run() {
        0 => {
            let is_next = |numeral: &str| bytes.strip_prefix(numeral.as_bytes())?.strip_prefix("月".as_bytes());
            let (month, numeral) = (1..).zip(NUMERALS).find(|(_, numeral)| is_next(numeral).is_some())?;
            cursor.at = numeral.len();
            month
        }
        _ => cursor.number(1, 2)?,
    };
    cursor.text("月")?;
    let _space = cursor.eat(b' ');
    let day = cursor.number(1, 2)?;
    cursor.text(", ")?;
    let date = WrittenDate::Full(signed(cursor.number(4, 4)?)?, month, day);
    let _comma = cursor.eat(b',');
    cursor.eat(b' ').then_some(())?;
    clock_after(date, &mut cursor, Seconds::Optional, defaults)
}

/// Whether a text begins with the short English name of a month, which is the name of no weekday.
#[inline]
pub(super) fn is_short_month(bytes: &[u8]) -> bool {
    let [a, b, c, b' ' | b'-' | b'/', ..] = bytes else { return false };
    matches!(
        &[a | 0x20, b | 0x20, c | 0x20],
        b"jan" | b"feb" | b"mar" | b"apr" | b"may" | b"jun" | b"jul" | b"aug" | b"sep" | b"oct" | b"nov" | b"dec"
    )
}

/// Whether a text begins like the English name of a month or a weekday.
#[inline]
pub(super) fn begins_with_english(bytes: &[u8]) -> bool {
    let [a, b, c, ..] = bytes else { return false };
    matches!(
        &[a | 0x20, b | 0x20, c | 0x20],
        b"jan"
            | b"feb"
            | b"mar"
            | b"apr"
            | b"may"
            | b"jun"
            | b"jul"
            | b"aug"
            | b"sep"
            | b"oct"
            | b"nov"
            | b"dec"
            | b"mon"
            | b"tue"
            | b"wed"
            | b"thu"
            | b"fri"
            | b"sat"
            | b"sun"
    )
}

/// `2026-11-21` and a time; `:` separates its parts, or `.` if the date has `-` before the time.
fn year_first(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<Stamp> {
    let first = cursor.digits(4)?;
    let between = cursor.eat_any(b"-/.:")?;
    if between == b'-' && cursor.run() == 3 {
        let day = cursor.digits(3)?;
        let date = language::day_of_year(signed(first)?, day)?;
        cursor.eat_any(b"Tt ")?;
        return clock_after(WrittenDate::Full(signed(first)?, date.0, date.1), cursor, Seconds::Optional, defaults);
    }
    if between == b'/' && cursor.run() == 6 {
        let date = WrittenDate::Short(first / 100, first % 100);
        return clock_after(date, cursor, Seconds::Required, defaults);
    }
    let month = if cursor.run() == 0 { month(cursor)? } else { cursor.number(1, 2)? };
    if !cursor.eat(between) {
        return None;
    }
    let day = cursor.number(1, 2)?;
    let has_comma = cursor.eat(b',');
    dashes(cursor);
    // A date and a clock may be two cells.
    let separator = cursor.eat_any(b"Tt -_:.@[|;\t\"").or_else(|| has_comma.then_some(b','))?;
    let _padding = separator == b' ' && cursor.eat(b' ');
    let date = WrittenDate::Full(signed(first)?, month, day);
    if separator == b'-' && cursor.bytes.get(cursor.at + 2) == Some(&b'.') {
        let since_midnight = cursor.clock(b'.', Seconds::Required)?;
        // Db2 writes minutes east of UTC.
        if let &[sign @ (b'+' | b'-'), hundreds, tens, ones, ..] = cursor.rest()
            && !cursor.rest().get(4).is_some_and(u8::is_ascii_digit)
            && let (Some(high), Some(low)) = (two(b'0', hundreds), two(tens, ones))
        {
            let minutes = i64::from(high * 100 + low);
            cursor.at += 4;
            let zone = WrittenZone::East(if sign == b'-' { -minutes } else { minutes });
            return finish(date, since_midnight, zone, cursor, Form::Other, defaults);
        }
        return with_zone(date, since_midnight, cursor, Form::Other, defaults);
    }
    // `2025-11-21 08h00.01 utc`
    if let [_, _, b'h', _, _, b'.', ..] = cursor.rest() {
        let (hour, minute) = (cursor.number(2, 2)?, cursor.text("h").and_then(|()| cursor.number(2, 2))?);
        let second = cursor.text(".").and_then(|()| cursor.number(2, 2))?;
        let since_midnight = since_midnight(hour, minute, second, 0)?;
        let is_utc = cursor.rest().starts_with(b" utc");
        if is_utc {
            cursor.at += 4;
            return finish(date, since_midnight, WrittenZone::East(0), cursor, Form::Other, defaults);
        }
        return with_zone(date, since_midnight, cursor, Form::Other, defaults);
    }
    if separator == b'-' && cursor.run() == 1 {
        return clock_after(date, cursor, Seconds::Unpadded, defaults);
    }
    // `2025-11-21 08-00-01`
    if between == b'-' && matches!(cursor.rest(), [_, _, b'-', _, _, b'-', ..]) {
        let since_midnight = cursor.clock(b'-', Seconds::Required)?;
        return with_zone(date, since_midnight, cursor, Form::Other, defaults);
    }
    let since_midnight = cursor.clock(b':', Seconds::Optional)?;
    with_zone(date, since_midnight, cursor, Form::Iso, defaults)
}

/// Dashes, a bar or the border of two cells between a date and a clock: `2025/11/21 - 08:00:01`, `11/21/25","08:00:01`. The
/// last sign before the clock stays.
fn dashes(cursor: &mut DigitCursor<'_>) {
    let length = [&b" - "[..], b" -- ", b"] [", b" | ", b" at ", b"\",\""]
        .iter()
        .find(|dashes| cursor.rest().starts_with(dashes))
        .map_or(1, |d| d.len());
    cursor.at += length - 1;
}

/// `08:00:00 2026-11-21`, `08:00:00 Sat Nov 21 2026`
fn clock_first(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<Stamp> {
    if let [_, _, b':', _, _, b':', _, _, b',', b'0'..=b'9', ..] = cursor.bytes {
        // `08:00:01,21-NOV-2025`
        let clock = cursor.bytes.get(..8)?;
        let since_midnight = DigitCursor { bytes: clock, at: 0 }.clock(b':', Seconds::Required)?;
        cursor.at = 9;
        let day = cursor.number(1, 2)?;
        cursor.eat(b'-').then_some(())?;
        let month = month(cursor)?;
        cursor.eat(b'-').then_some(())?;
        let date = WrittenDate::Full(signed(cursor.number(4, 4)?)?, month, day);
        return finish(date, since_midnight, WrittenZone::Unwritten, cursor, Form::Other, defaults);
    }
    // Most lines with a clock have no date behind it.
    let after = cursor.bytes.get(cursor.bytes.iter().take(16).position(|byte| *byte == b' ')?..)?.trim_ascii_start();
    if after.get(4) != Some(&b'-') && !begins_with_english(after) {
        return None;
    }
    let since_midnight = cursor.clock(b':', Seconds::Optional)?;
    cursor.at = cursor.bytes.len() - after.len();
    let date = if after.first()?.is_ascii_digit() {
        let year = signed(cursor.number(4, 4)?)?;
        cursor.at += 1;
        let month = cursor.number(2, 2)?;
        cursor.eat(b'-').then_some(())?;
        WrittenDate::Full(year, month, cursor.number(2, 2)?)
    } else {
        if !is_short_month(after) && weekday(cursor) {
            let _comma = cursor.eat(b',');
            let _space = cursor.eat(b' ');
        }
        let month = month(cursor)?;
        cursor.eat(b' ').then_some(())?;
        let _padding = cursor.eat(b' ');
        let day = cursor.number(1, 2)?;
        let _comma = cursor.eat(b',');
        cursor.eat(b' ').then_some(())?;
        WrittenDate::Full(signed(cursor.number(4, 4)?)?, month, day)
    };
    with_zone(date, since_midnight, cursor, Form::Other, defaults)
}

/// `2025年11月21日 08:00:00`
#[cold]
fn east_asian(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<Stamp> {
    let year = cursor.digits(4)?;
    cursor.text("年")?;
    let month = cursor.number(1, 2)?;
    cursor.text("月")?;
    let day = cursor.number(1, 2)?;
    cursor.text("日")?;
    clock_after(WrittenDate::Full(signed(year)?, month, day), cursor, Seconds::Optional, defaults)
}

/// `21Nov2025 08:00:01.123`, `21NOV2025:08:00:01`
fn joined_name(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<Stamp> {
    let day = cursor.digits(2)?;
    let month = month(cursor)?;
    let year = match cursor.run() {
        2 => near_year(cursor.digits(2)?, defaults),
        _ => signed(cursor.number(4, 4)?)?,
    };
    cursor.eat_any(b" :_")?;
    clock_after(WrittenDate::Full(year, month, day), cursor, Seconds::Required, defaults)
}

/// A date that begins with one or two digits.
fn small_first(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<Stamp> {
    let padded = cursor.run() == 2;
    let first = cursor.number(1, 2)?;
    let between = cursor.eat_any(b"/-. ")?;
    if cursor.run() == 0 {
        let _space = between == b'.' && cursor.eat(b' ');
        let month = month(cursor)?;
        let _dot = cursor.rest().starts_with(b". ") && cursor.eat(b'.');
        let after_month = cursor.eat_any(b"/-., ")?;
        // `21 Nov  8:00:01`
        let _padding = after_month == b' ' && cursor.bytes.get(cursor.at + 2) == Some(&b':') && cursor.eat(b' ');
        let date = match after_month {
            _ if cursor.run() == 4 => WrittenDate::Full(signed(cursor.digits(4)?)?, month, first),
            b'-' | b'/' if cursor.run() == 2 => WrittenDate::Full(near_year(cursor.digits(2)?, defaults), month, first),
            // `Fri, 21 Nov 25 08:00:01 +0000`
            b' ' if cursor.run() == 2 && cursor.rest().get(2) == Some(&b' ') => {
                WrittenDate::Full(near_year(cursor.digits(2)?, defaults), month, first)
            }
            b' ' if cursor.run() <= 2 => {
                let seconds = if between == b'-' { Seconds::Optional } else { Seconds::Required };
                let since_midnight = cursor.clock(b':', seconds)?;
                let (offset, length) = zone(cursor.rest())?;
                cursor.at += length;
                let date = match trailing_year(cursor) {
                    Some(year) => WrittenDate::Full(year, month, first),
                    None => WrittenDate::Short(month, first),
                };
                return finish(date, since_midnight, offset, cursor, Form::Other, defaults);
            }
            _ => return None,
        };
        let _comma = cursor.eat(b',');
        // Erlang writes two colons.
        let _doubled = cursor.eat_any(b" :T-")? == b':' && cursor.eat(b':');
        return clock_after(date, cursor, Seconds::Optional, defaults);
    }
    if between == b' ' {
        // `21 11 2025 08:00:01`
        let [_, _, b' ', _, _, _, _, b' ', _, _, b':', _, _, b':', ..] = cursor.rest() else { return None };
        let month = cursor.number(2, 2)?;
        cursor.at += 1;
        let date = WrittenDate::Full(signed(cursor.number(4, 4)?)?, month, first);
        cursor.at += 1;
        return clock_after(date, cursor, Seconds::Required, defaults);
    }
    let second = cursor.number(1, 2)?;
    if !cursor.eat(between) {
        let is_joined = between == b'/' && cursor.eat(b'-') || between == b'-' && cursor.eat(b'|');
        if !padded || !(is_joined || cursor.eat_any(b" \t").is_some()) {
            return None;
        }
        let order = if between == b'/' { defaults.order } else { DateOrder::Month };
        let (month, day) = order.month_and_day(first, second);
        let date = WrittenDate::Short(month, day);
        // `11/21 08:00 (name) text`, `11/21 08:00 + tty`
        if let [_, _, b':', _, _, b' ', b'(' | b'+' | b'-', ..] = cursor.rest() {
            let since_midnight = cursor.clock(b':', Seconds::Optional)?;
            return finish(date, since_midnight, WrittenZone::Unwritten, cursor, Form::Other, defaults);
        }
        return clock_after(date, cursor, Seconds::Required, defaults);
    }
    let year_digits = cursor.run();
    let third = cursor.number(2, 4)?;
    let is_near =
        |stamp: &Stamp| stamp.time.get().saturating_sub(defaults.seen.get()).abs() <= NEAR_DAYS * TICKS_PER_DAY;
    let order = if between == b'/' { defaults.order } else { DateOrder::Day };
    let (month, day) = order.month_and_day(first, second);
    let has_comma = cursor.eat(b',');
    dashes(cursor);
    let separator = cursor.eat_any(b" T-:_[|;\t\"");
    if separator.is_none() && !has_comma {
        return None;
    }
    let _padding = separator == Some(b' ') && cursor.eat(b' ');
    if year_digits == 4 {
        let year = signed(third)?;
        let stamp = |month, day| {
            clock_after(WrittenDate::Full(year, month, day), &mut { *cursor }, Seconds::Optional, defaults)
        };
        let first = stamp(month, day);
        let is_open = order == DateOrder::Unknown && day <= 12 && month != day && !first.as_ref().is_some_and(is_near);
        return if is_open { stamp(day, month).filter(is_near).or(first) } else { first };
    }
    let begins_with_year = WrittenDate::Full(near_year(first, defaults), second, third);
    let ends_with_year = WrittenDate::Full(near_year(third, defaults), month, day);
    let before = *cursor;
    let since_midnight = cursor.clock(b':', Seconds::Required).or_else(|| {
        // Where cells follow, seconds may be missing.
        *cursor = before;
        cursor.clock(b':', Seconds::Optional).filter(|_| cursor.peek() == Some(b'\t'))
    })?;
    let [likely, other] =
        if between == b'.' { [ends_with_year, begins_with_year] } else { [begins_with_year, ends_with_year] };
    let stamp = |date| with_zone(date, since_midnight, &mut { *cursor }, Form::Other, defaults);
    let is_past = |stamp: &Stamp| {
        defaults.seen.get() == 0 || stamp.time.get() <= defaults.seen.get().saturating_add(TICKS_PER_DAY)
    };
    let found = match (stamp(likely).filter(|stamp| padded && is_past(stamp)), stamp(other)) {
        // Of two points in the past the later is meant.
        (Some(first), Some(second)) if defaults.seen.get() > 0 && second.time > first.time && is_past(&second) => {
            Some(second)
        }
        (first, second) => first.or(second),
    };
    // The day first, where that alone is about the time of reading.
    let is_open = order == DateOrder::Unknown && day <= 12 && month != day && !found.as_ref().is_some_and(is_near);
    let turned = || stamp(WrittenDate::Full(near_year(third, defaults), day, month)).filter(is_near);
    if is_open { turned().or(found) } else { found }
}

/// Year, month and day of two digits each.
fn two_digit_years(cursor: &mut DigitCursor<'_>, defaults: &TimestampDefaults) -> Option<WrittenDate> {
    Some(WrittenDate::Full(near_year(cursor.digits(2)?, defaults), cursor.digits(2)?, cursor.digits(2)?))
}

/// A time of day after its date, packed or with colons, and an optional zone.
pub(super) fn clock_after(
    date: WrittenDate,
    cursor: &mut DigitCursor<'_>,
    seconds: Seconds,
    defaults: &TimestampDefaults,
) -> Option<Stamp> {
    let _padding = cursor.eat(b' ');
    let since_midnight = if cursor.run() == 6 { cursor.packed_clock()? } else { cursor.clock(b':', seconds)? };
    with_zone(date, since_midnight, cursor, Form::Other, defaults)
}

fn with_zone(
    date: WrittenDate,
    since_midnight: i64,
    cursor: &mut DigitCursor<'_>,
    form: Form,
    defaults: &TimestampDefaults,
) -> Option<Stamp> {
    let (offset, length) = zone(cursor.rest())?;
    cursor.at += length;
    finish(date, since_midnight, offset, cursor, form, defaults)
}

pub(super) fn finish(
    date: WrittenDate,
    since_midnight: i64,
    offset: WrittenZone,
    cursor: &DigitCursor<'_>,
    form: Form,
    defaults: &TimestampDefaults,
) -> Option<Stamp> {
    let time = match date {
        WrittenDate::Full(year, month, day) => point((year, month, day), since_midnight, offset, defaults)?,
        WrittenDate::Short(month, day) => point_in_some_year((month, day), since_midnight, offset, defaults)?,
    };
    Some(Stamp { time, length: cursor.at, form })
}

/// A year after the time of day, as in `Sun Dec 04 04:47:44 2005`.
pub(super) fn trailing_year(cursor: &mut DigitCursor<'_>) -> Option<i32> {
    let mut after = *cursor;
    if !after.eat(b' ') {
        return None;
    }
    let year = signed(after.number(4, 4)?)?;
    // `2001:db8::1` begins an address.
    let is_address = matches!(after.rest(), [b':', next, ..] if next.is_ascii_hexdigit() || *next == b':');
    let is_year = (1970..2100).contains(&year) && ends_word(after.rest()) && !is_address;
    is_year.then(|| {
        *cursor = after;
        year
    })
}

/// The year of this century with these two digits, or of the last century if that is in the future.
fn near_year(digits: u32, defaults: &TimestampDefaults) -> i32 {
    let year = 2000 + i32::try_from(digits).unwrap_or(0);
    let known = defaults.seen.get() > 0;
    if known && year > defaults.seen.date().year + 1 || !known && year >= 2070 { year - 100 } else { year }
}

pub(super) fn signed(year: u32) -> Option<i32> {
    i32::try_from(year).ok()
}

/// The month whose name, short or full, comes next.
pub(super) fn month(cursor: &mut DigitCursor<'_>) -> Option<u32> {
    const LONG: [&[u8]; 12] = [
        b"january",
        b"february",
        b"march",
        b"april",
        b"may",
        b"june",
        b"july",
        b"august",
        b"september",
        b"october",
        b"november",
        b"december",
    ];
    let [a, b, c, rest @ ..] = cursor.rest() else { return None };
    let short = [a | 0x20, b | 0x20, c | 0x20];
    let number: usize = match &short {
        b"jan" => 1,
        b"feb" => 2,
        b"mar" => 3,
        b"apr" => 4,
        b"may" => 5,
        b"jun" => 6,
        b"jul" => 7,
        b"aug" => 8,
        b"sep" => 9,
        b"oct" => 10,
        b"nov" => 11,
        b"dec" => 12,
        _ => return language::month(cursor),
    };
    if rest.first().is_some_and(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii()) {
        let more = LONG[number - 1].get(3..)?;
        let is_whole = rest.get(..more.len()).is_some_and(|text| text.eq_ignore_ascii_case(more));
        if !is_whole {
            return language::month(cursor);
        }
        cursor.at += more.len();
    }
    cursor.at += 3;
    u32::try_from(number).ok()
}

/// Whether the name of a weekday, short or full, comes next.
pub(super) fn weekday(cursor: &mut DigitCursor<'_>) -> bool {
    let [a, b, c, ..] = cursor.rest() else { return false };
    if !b.is_ascii_alphabetic() || !matches!(cursor.rest().get(3), Some(b' ' | b',' | b'a'..=b'z' | b'A'..=b'Z')) {
        return language::weekday(cursor);
    }
    let long: &[u8] = match &[a | 0x20, b | 0x20, c | 0x20] {
        b"mon" => b"monday",
        b"tue" => b"tuesday",
        b"wed" => b"wednesday",
        b"thu" => b"thursday",
        b"fri" => b"friday",
        b"sat" => b"saturday",
        b"sun" => b"sunday",
        _ => return language::weekday(cursor),
    };
    let is_long = cursor.rest().get(..long.len()).is_some_and(|text| text.eq_ignore_ascii_case(long));
    cursor.at += if is_long { long.len() } else { 3 };
    true
}
