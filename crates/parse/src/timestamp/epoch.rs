//! Numbers since the Unix epoch. Their size selects the unit.

use super::clock::fraction;
use super::{Form, Stamp};
use daytable_model::time::{TICKS_PER_SECOND, Ticks};

/// A text that is only a number: digits, and an optional fraction.
pub(crate) fn read(text: &str) -> Option<Ticks> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    parts(whole.parse().ok()?, fraction(part.as_bytes()).0)
}

/// `/Date(1763712001123)/` and `/Date(1763712001123+0100)/`: milliseconds, as .NET wrote them in JSON. The offset does
/// not change the point in time.
pub(super) fn wrapped(text: &str) -> Option<Ticks> {
    let inner = text.strip_prefix("/Date(")?.strip_suffix(")/")?;
    let length = inner.find(['+', '-']).filter(|at| inner.len() - at == 5).unwrap_or(inner.len());
    read(inner.get(..length)?)
}

/// A whole number.
pub(super) fn of_whole(number: u64) -> Option<Ticks> {
    parts(number, 0)
}

/// A number at the start of a text. There a number may be a count, so only numbers of 10, 13, 16 or 19 digits that
/// begin with 1 are times: 2001 to 2033.
pub(super) fn at_start(bytes: &[u8], digits: usize) -> Option<Stamp> {
    if !matches!(digits, 10 | 13 | 16 | 19) || bytes.first() != Some(&b'1') {
        return None;
    }
    let whole = std::str::from_utf8(bytes.get(..digits)?).ok()?.parse().ok()?;
    let rest = bytes.get(digits..)?;
    let (ticks, rest) = match rest {
        [b'.' | b',', after @ ..] if after.first().is_some_and(u8::is_ascii_digit) => fraction(after),
        [b'-' | b'_' | b'.' | b'/', ..] => return None,
        [byte, ..] if byte.is_ascii_alphabetic() => return None,
        _ => (0, rest),
    };
    Some(Stamp { time: parts(whole, ticks)?, length: bytes.len() - rest.len(), form: Form::Epoch })
}

/// The number of `digits` hexadecimal digits.
fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// `@4000000069201c0b0bebc200`: seconds of TAI from 2^62 on, and nanoseconds, as daemontools write them.
#[cold]
pub(super) fn tai64n(text: &[u8]) -> Option<Stamp> {
    let (label, rest) = text.strip_prefix(b"@")?.split_at_checked(24)?;
    let (seconds, nanos) = label.split_at(16);
    if rest.first().is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    // daemontools count ten seconds of TAI, and no leap seconds.
    let seconds = hex(seconds)?.checked_sub((1 << 62) + 10)?;
    let nanos = u32::try_from(hex(nanos)?).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let time = Ticks::from_unix(i64::try_from(seconds).ok()?, nanos)?;
    Some(Stamp { time, length: 25, form: Form::Epoch })
}

/// `69201c01.07735940 0x7f12…`: seconds and nanoseconds, as OpenLDAP writes them before a thread.
#[cold]
pub(super) fn hexadecimal(text: &[u8]) -> Option<Stamp> {
    let (stamp, rest) = text.split_at_checked(17)?;
    if stamp[8] != b'.' || !rest.starts_with(b" 0x") {
        return None;
    }
    let nanos = u32::try_from(hex(&stamp[9..])?).ok().filter(|nanos| *nanos < 1_000_000_000)?;
    let time = Ticks::from_unix(i64::try_from(hex(&stamp[..8])?).ok()?, nanos)?;
    Some(Stamp { time, length: 17, form: Form::Other })
}

/// A whole number since the epoch, and ten-millionths of one.
///
/// Each unit covers the same years, 1973 to 5138, so no number has two readings. Smaller numbers are not times: a field
/// `time` of 12 or 0.35 is a duration.
fn parts(whole: u64, ten_millionths: i64) -> Option<Ticks> {
    let ten_millionths = i128::from(whole) * i128::from(TICKS_PER_SECOND) + i128::from(ten_millionths);
    let per_second = match whole {
        100_000_000..100_000_000_000 => 1,
        100_000_000_000..100_000_000_000_000 => 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000_000,
        100_000_000_000_000_000.. => 1_000_000_000,
        _ => return None,
    };
    Ticks::from_unix_nanos(ten_millionths / per_second * 100)
}
