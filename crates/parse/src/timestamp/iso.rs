//! RFC 3339 and its variants: the form of most logs, so the reader makes as few tests as possible.

use super::clock::{fraction, half, hour_of_half, leap};
use super::offset::{ends_word, two};
use super::written_zone::{WrittenZone, zone};
use super::{Form, Stamp, TimestampDefaults, date, epoch, point};
use daytable_model::time::TICKS_PER_SECOND;

/// Bytes of `YYYY-MM-DDTHH:MM`, the shortest timestamp.
const SHORTEST: usize = 16;

/// The timestamp at the start of a text that begins with a digit.
#[inline]
pub(super) fn at_digit(text: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    match text {
        [_, _, _, _, b'-' | b'/', _, _, b'-' | b'/', _, _, b'T' | b't' | b' ', b'0'..=b'9', _, b':', ..] => {
            read(text, defaults)
        }
        _ => date::from_digits(text, defaults).or_else(|| epoch::hexadecimal(text)),
    }
}

#[inline]
pub(super) fn read(bytes: &[u8], defaults: &TimestampDefaults) -> Option<Stamp> {
    let (head, rest) = bytes.split_first_chunk::<SHORTEST>()?;
    let separated = (head[4] == b'-' && head[7] == b'-' || head[4] == b'/' && head[7] == b'/')
        && matches!(head[10], b'T' | b't' | b' ')
        && head[13] == b':';
    if !separated {
        return None;
    }
    let year = two(head[0], head[1])? * 100 + two(head[2], head[3])?;
    let date = (i32::try_from(year).ok()?, two(head[5], head[6])?, two(head[8], head[9])?);
    let (hour, minute) = (two(head[11], head[12])?, two(head[14], head[15])?);
    if hour > 23 || minute > 59 {
        return None;
    }
    let (second, fraction, rest) = seconds(rest)?;
    // Where the letters AM and PM contradict the hour, they belong to the text.
    let (offset, length) = match rest {
        [b'Z', ..] => (WrittenZone::East(0), 1),
        _ if half(rest).is_some_and(|(is_afternoon, _)| hour_of_half(hour, is_afternoon).is_some()) => {
            return date::from_digits(bytes, defaults);
        }
        _ => zone(rest)?,
    };
    let since_midnight = i64::from(hour * 3600 + minute * 60 + second) * TICKS_PER_SECOND + fraction;
    let time = point(date, since_midnight, offset, defaults)?;
    let is_rfc_3339 = matches!(head[10], b'T' | b't') && !matches!(offset, WrittenZone::Unwritten);
    let form = if is_rfc_3339 { Form::Rfc3339 } else { Form::Iso };
    Some(Stamp { time, length: bytes.len() - rest.len() + length, form })
}

/// Whether a clock may end before this: at the border of a word, or before a zone.
fn ends_clock(rest: &[u8]) -> bool {
    ends_word(rest) || matches!(rest, [b'Z', ..] | [b'+' | b'-', b'0'..=b'9', b'0'..=b'9', ..])
}

/// `:SS` and a fraction, both optional: seconds, ticks and the rest; `None` for an impossible second.
#[inline]
fn seconds(text: &[u8]) -> Option<(u32, i64, &[u8])> {
    let [b':', tens, ones, rest @ ..] = text else { return Some((0, 0, text)) };
    let second = two(*tens, *ones)?;
    let (ticks, rest) = match rest {
        [b'.' | b',', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => fraction(digits),
        // Milliseconds after a colon.
        [b':', digits @ ..] if matches!(digits, [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9', rest @ ..] if ends_clock(rest)) => {
            fraction(digits)
        }
        _ => (0, rest),
    };
    let (second, ticks) = leap(second, ticks)?;
    Some((second, ticks, rest))
}
