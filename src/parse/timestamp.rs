//! Timestamps: RFC 3339 and what is written in its stead, and numbers of seconds since the Unix epoch.
//!
//! ```text
//! YYYY-MM-DD or YYYY/MM/DD
//!   T, t or a space
//!     HH:MM
//!       :SS                                     may be left out
//!         . or , and digits                     may be left out; what is finer than 100 ns is cut
//!           Z, z, +hh:mm, -hhmm, +hh            nothing means UTC
//!           or after a space: UTC, GMT, +hh:mm, -hhmm
//! ```
//!
//! Only what has a date counts. A leap second (`:60`) is the last tick of the second before it, so that it stays
//! before the minute that follows.

use crate::record::Value;
use crate::time::{TICKS_PER_SECOND, Ticks};

/// Bytes of `YYYY-MM-DDTHH:MM`, the least that is a timestamp.
const SHORTEST: usize = 16;
/// Digits of a second that a tick has.
const TICK_DIGITS: u32 = TICKS_PER_SECOND.ilog10();

/// The time that a value gives: a timestamp and nothing else, or a number of seconds since the epoch or of
/// thousandths, millionths or billionths of them, also as text.
pub(super) fn read(value: &Value<'_>) -> Option<Ticks> {
    match value {
        Value::String(text) => match leading(text) {
            Some((time, length)) if length == text.len() => Some(time),
            _ => epoch(text),
        },
        Value::Int64(number) => epoch_parts(u64::try_from(*number).ok()?, 0),
        // The shortest digits that make this number are those that were written, as long as there were no more than
        // microseconds of them; arithmetic on the number itself would be off by a few ticks.
        Value::Double(number) => epoch(&number.to_string()),
        Value::Boolean(_) => None,
    }
}

/// The timestamp that `text` begins with, and its length in bytes. Whether it may end there is for the caller to say.
#[inline]
pub(super) fn leading(text: &str) -> Option<(Ticks, usize)> {
    let bytes = text.as_bytes();
    let (head, rest) = bytes.split_first_chunk::<SHORTEST>()?;
    let separated = (head[4] == b'-' && head[7] == b'-' || head[4] == b'/' && head[7] == b'/')
        && matches!(head[10], b'T' | b't' | b' ')
        && head[13] == b':';
    if !separated {
        return None;
    }
    let year = two(head[0], head[1])? * 100 + two(head[2], head[3])?;
    let date = Ticks::from_date(i32::try_from(year).ok()?, two(head[5], head[6])?, two(head[8], head[9])?)?;
    let (hour, minute) = (two(head[11], head[12])?, two(head[14], head[15])?);
    if hour > 23 || minute > 59 {
        return None;
    }
    let (second, fraction, rest) = seconds(rest)?;
    let (offset_minutes, rest) = zone(rest)?;
    let seconds = i64::from(hour * 3600 + minute * 60 + second) - offset_minutes * 60;
    let time = Ticks::new(date.get() + seconds * TICKS_PER_SECOND + fraction)?;
    Some((time, bytes.len() - rest.len()))
}

/// `:SS` and a fraction, if there are any: seconds, ticks and what is left; none where there is no such second.
fn seconds(text: &[u8]) -> Option<(u32, i64, &[u8])> {
    let [b':', tens, ones, rest @ ..] = text else { return Some((0, 0, text)) };
    let second = two(*tens, *ones)?;
    let (fraction, rest) = match rest {
        [b'.' | b',', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => ticks(digits),
        _ => (0, rest),
    };
    match second {
        0..=59 => Some((second, fraction, rest)),
        60 => Some((59, TICKS_PER_SECOND - 1, rest)),
        _ => None,
    }
}

/// Leading digits as a fraction of a second, in ticks, and what is left after all of them.
fn ticks(text: &[u8]) -> (i64, &[u8]) {
    let (mut ticks, mut missing, mut length) = (0, TICK_DIGITS, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if missing > 0 {
            ticks = ticks * 10 + i64::from(digit);
            missing -= 1;
        }
        length += 1;
    }
    (ticks * 10i64.pow(missing), &text[length..])
}

/// Minutes east of UTC and what is left; no zone is UTC; none where there is no such offset.
fn zone(text: &[u8]) -> Option<(i64, &[u8])> {
    match text {
        [b'Z' | b'z', rest @ ..] => Some((0, rest)),
        [b' ', b'U', b'T', b'C', rest @ ..] | [b' ', b'G', b'M', b'T', rest @ ..] if ends_here(rest) => Some((0, rest)),
        [sign @ (b'+' | b'-'), rest @ ..] => offset(*sign, rest),
        // After a space only four digits are an offset: two could be the first word of the text.
        [b' ', sign @ (b'+' | b'-'), after @ ..] => match offset(*sign, after) {
            Some((minutes, rest)) if after.len() - rest.len() > 2 && ends_here(rest) => Some((minutes, rest)),
            _ => Some((0, text)),
        },
        _ => Some((0, text)),
    }
}

/// `hh:mm`, `hhmm` or `hh` after its sign: minutes east of UTC and what is left.
fn offset(sign: u8, text: &[u8]) -> Option<(i64, &[u8])> {
    let [tens, ones, rest @ ..] = text else { return None };
    let hours = two(*tens, *ones)?;
    let (minutes, rest) = match rest {
        [b':', tens, ones, rest @ ..] => (two(*tens, *ones)?, rest),
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] => (two(*tens, *ones)?, rest),
        _ => (0, rest),
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let east = i64::from(hours * 60 + minutes);
    Some((if sign == b'-' { -east } else { east }, rest))
}

fn ends_here(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t' | b']'))
}

/// The number that two digits make.
#[inline]
fn two(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 { None } else { Some(u32::from(tens) * 10 + u32::from(ones)) }
}

/// A number since the epoch as it is written: digits, and a fraction if it has one.
fn epoch(text: &str) -> Option<Ticks> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let (fraction, _) = ticks(fraction.as_bytes());
    epoch_parts(whole.parse().ok()?, fraction)
}

/// A whole number since the epoch, and ten-millionths of one.
///
/// Its size tells the unit. Each unit then covers the same years, 1973 to 5138, and no number has two readings; what
/// is smaller is no time: a field `time` that holds 12 or 0.35 is how long something took.
fn epoch_parts(whole: u64, fraction: i64) -> Option<Ticks> {
    let ten_millionths = i128::from(whole) * i128::from(TICKS_PER_SECOND) + i128::from(fraction);
    let per_second = match whole {
        100_000_000..100_000_000_000 => 1,
        100_000_000_000..100_000_000_000_000 => 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
        100_000_000_000_000_000.. => 1_000_000_000,
        _ => return None,
    };
    Ticks::from_unix_nanos(ten_millionths / per_second * 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::MAX_TICKS;
    use proptest::prelude::*;

    fn text(text: &str) -> Option<String> {
        read(&Value::String(text.into())).map(|time| time.to_string())
    }

    #[test]
    fn cousins_of_rfc_3339() {
        for (written, meant) in [
            ("2026-11-20T00:05:45Z", "2026-11-20T00:05:45Z"),
            ("2026-11-20t00:05:45z", "2026-11-20T00:05:45Z"),
            ("2026-11-20T00:05:45.607815Z", "2026-11-20T00:05:45.607815Z"),
            ("2026-11-20 00:05:45,607", "2026-11-20T00:05:45.607Z"),
            ("2026-11-20 00:05:45.6", "2026-11-20T00:05:45.600Z"),
            ("2026/11/20 00:05:45", "2026-11-20T00:05:45Z"),
            ("2026-11-20T00:05", "2026-11-20T00:05:00Z"),
            ("2026-11-20T00:05Z", "2026-11-20T00:05:00Z"),
            ("2026-11-20T00:05:45+02:00", "2026-11-19T22:05:45Z"),
            ("2026-11-20T00:05:45-0230", "2026-11-20T02:35:45Z"),
            ("2026-11-20T00:05:45.25+02", "2026-11-19T22:05:45.250Z"),
            ("2026-11-20 00:05:45 UTC", "2026-11-20T00:05:45Z"),
            ("2026-11-20 00:05:45 +0200", "2026-11-19T22:05:45Z"),
            ("2026-11-20T00:05:45.1234567899999Z", "2026-11-20T00:05:45.1234567Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.9999999Z"),
            ("2016-12-31T23:59:60.5Z", "2016-12-31T23:59:59.9999999Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.9999999Z"),
        ] {
            assert_eq!(text(written).as_deref(), Some(meant), "{written}");
        }
    }

    #[test]
    fn what_is_no_timestamp() {
        for written in [
            "",
            "2026-11-20",
            "00:05:45",
            "2026-11-20T00",
            "2026-11/20T00:05:45Z",
            "0000-01-01T00:00:00Z",
            "2026-00-20T00:05:45Z",
            "2026-13-20T00:05:45Z",
            "2026-02-29T00:05:45Z",
            "2026-11-31T00:05:45Z",
            "2026-11-20T24:05:45Z",
            "2026-11-20T00:60:45Z",
            "2026-11-20T00:05:61Z",
            "2026-11-20T00:05:45.Z",
            "2026-11-20T00:05:45+24:00",
            "2026-11-20T00:05:45+2",
            "2026-11-20T00:05:45Zulu",
            "2026-11-20 00:05:45 CET",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59-01:00",
            "２０２６-11-20T00:05:45Z",
        ] {
            assert_eq!(text(written), None, "{written}");
        }
    }

    #[test]
    fn numbers_since_the_epoch_are_told_apart_by_size() {
        for (value, meant) in [
            (Value::Int64(1_763_596_800), "2025-11-20T00:00:00Z"),
            (Value::Int64(1_763_596_800_123), "2025-11-20T00:00:00.123Z"),
            (Value::Int64(1_763_596_800_123_456), "2025-11-20T00:00:00.123456Z"),
            (Value::Int64(1_763_596_800_123_456_789), "2025-11-20T00:00:00.1234567Z"),
            (Value::Double(1_763_596_800.123_456), "2025-11-20T00:00:00.123456Z"),
            (Value::Double(1_763_596_800_123.5), "2025-11-20T00:00:00.123500Z"),
            (Value::String("1763596800".into()), "2025-11-20T00:00:00Z"),
            (Value::String("1763596800.120".into()), "2025-11-20T00:00:00.120Z"),
            (Value::String("1763596800.123456789".into()), "2025-11-20T00:00:00.1234567Z"),
            (Value::String("1763596800123.4567891".into()), "2025-11-20T00:00:00.1234567Z"),
        ] {
            assert_eq!(read(&value).map(|time| time.to_string()).as_deref(), Some(meant), "{value:?}");
        }
        for value in [Value::Int64(0), Value::Int64(12), Value::Int64(-1), Value::Double(0.35), Value::Double(f64::NAN)]
        {
            assert_eq!(read(&value), None, "{value:?}");
        }
        for written in ["1763596800.", ".5", "-1763596800", "+1763596800", "1.763e9", "99999999999999999999"] {
            assert_eq!(text(written), None, "{written}");
        }
    }

    proptest! {
        /// What a point in time is shown as reads as that point.
        #[test]
        fn shown_times_read_back(ticks in 0..=MAX_TICKS) {
            let time = Ticks::new(ticks).expect("in range");
            prop_assert_eq!(leading(&time.to_string()), Some((time, time.to_string().len())));
        }

        /// No number panics, and one that is a time is of a year from 1973 to 5138.
        #[test]
        fn any_number_is_a_near_time_or_none(number in any::<i64>(), double in any::<f64>()) {
            for value in [Value::Int64(number), Value::Double(double), Value::String(double.to_string().into())] {
                if let Some(time) = read(&value) {
                    prop_assert!((1973..=5138).contains(&time.date().year), "{value:?} is {time}");
                }
            }
        }

        /// The length is that of the timestamp alone, whatever comes after a space.
        #[test]
        fn the_rest_is_left(rest in " [a-zA-Z0-9].*") {
            prop_assume!(!rest.starts_with(" UTC") && !rest.starts_with(" GMT"));
            let line = format!("2026-11-20 00:05:45.607{rest}");
            prop_assert_eq!(leading(&line).map(|(_, length)| length), Some(23));
        }
    }
}
