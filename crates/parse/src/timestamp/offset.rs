//! Offsets from UTC in digits, and the digits and borders of times.

/// `+2`, `+2:00`: hours of one digit, which stand after `UTC` and `GMT` alone.
pub(super) fn short_offset(text: &[u8]) -> Option<(i64, usize)> {
    let [sign @ (b'+' | b'-'), hour @ b'0'..=b'9', rest @ ..] = text else { return None };
    let (minutes, length) = match rest {
        [b':', tens, ones, ..] => (two(*tens, *ones)?, 5),
        _ => (0, 2),
    };
    let east = i64::from(u32::from(hour - b'0') * 60 + minutes);
    (minutes < 60).then_some((if *sign == b'-' { -east } else { east }, length))
}

/// `+hh:mm`, `-hhmm` or `+hh`: minutes east of UTC, and the length.
pub(crate) fn offset(text: &[u8]) -> Option<(i64, usize)> {
    let [sign @ (b'+' | b'-'), tens, ones, rest @ ..] = text else { return None };
    let hours = two(*tens, *ones)?;
    let (minutes, length) = match rest {
        [b':', tens, ones, ..] => (two(*tens, *ones)?, 6),
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', ..] => (two(*tens, *ones)?, 5),
        _ => (0, 3),
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let east = i64::from(hours * 60 + minutes);
    Some((if *sign == b'-' { -east } else { east }, length))
}

/// Whether the text before `rest` ends at a word border.
pub(super) fn ends_word(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t' | b']' | b')' | b'>' | b',' | b':' | b'|'))
}

/// The number of two digits.
#[inline]
pub(super) fn two(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 { None } else { Some(u32::from(tens) * 10 + u32::from(ones)) }
}
