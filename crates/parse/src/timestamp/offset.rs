//! The zone after a time of day: an offset, or a zone name that occurs in logs.

/// Zone names, with minutes east of UTC. A name for several zones (`IST`, `CST`, `BST`) has its most common meaning in
/// logs. If that is wrong for a source, its times must be written without a zone name.
const NAMES: [(&[u8], i64); 40] = [
    (b"UTC", 0),
    (b"GMT", 0),
    (b"UT", 0),
    (b"WET", 0),
    (b"WEST", 60),
    (b"BST", 60),
    (b"CET", 60),
    (b"MET", 60),
    (b"CEST", 120),
    (b"MEST", 120),
    (b"EET", 120),
    (b"SAST", 120),
    (b"EEST", 180),
    (b"MSK", 180),
    (b"TRT", 180),
    (b"GST", 240),
    (b"PKT", 300),
    (b"IST", 330),
    (b"WIB", 420),
    (b"HKT", 480),
    (b"SGT", 480),
    (b"AWST", 480),
    (b"JST", 540),
    (b"KST", 540),
    (b"ACST", 570),
    (b"AEST", 600),
    (b"ACDT", 630),
    (b"AEDT", 660),
    (b"NZST", 720),
    (b"NZDT", 780),
    (b"BRT", -180),
    (b"EDT", -240),
    (b"EST", -300),
    (b"CDT", -300),
    (b"CST", -360),
    (b"MDT", -360),
    (b"MST", -420),
    (b"PDT", -420),
    (b"PST", -480),
    (b"AKST", -540),
];

/// The zone at the start of `text`, in minutes east of UTC (`None` without a zone), and its length.
///
/// The result is `None` for an impossible offset like `+99:00`: then the whole text is not a timestamp.
#[inline]
pub(super) fn zone(text: &[u8]) -> Option<(Option<i64>, usize)> {
    match text {
        [] | [b']', ..] => Some((None, 0)),
        [b'Z' | b'z', ..] => Some((Some(0), 1)),
        [b'+' | b'-', ..] => offset(text).map(|(minutes, length)| (Some(minutes), length)),
        [b' ', rest @ ..] => Some(match after_space(rest) {
            Some((minutes, length)) => (Some(minutes), length + 1),
            None => (None, 0),
        }),
        _ => Some((None, 0)),
    }
}

/// After a space, a zone must also end at a word border, and two digits are not enough: they could begin the text.
#[inline]
fn after_space(text: &[u8]) -> Option<(i64, usize)> {
    let (minutes, length) = match text.first()? {
        b'+' | b'-' => offset(text).filter(|(_, length)| *length > 3)?,
        b'A'..=b'Z' => named(text)?,
        _ => return None,
    };
    ends_word(&text[length..]).then_some((minutes, length))
}

/// A name, with an optional offset as in `GMT+0100`.
fn named(text: &[u8]) -> Option<(i64, usize)> {
    let length = text.iter().take(5).take_while(|byte| byte.is_ascii_uppercase()).count();
    let name = text.get(..length)?;
    let (_, minutes) = NAMES.iter().find(|(known, _)| *known == name)?;
    match text.get(length..)? {
        rest @ [b'+' | b'-', ..] if *minutes == 0 => offset(rest).map(|(east, more)| (east, length + more)),
        _ => Some((*minutes, length)),
    }
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
    rest.first().is_none_or(|byte| matches!(byte, b' ' | b'\t' | b']' | b')' | b',' | b':' | b'|'))
}

/// The number of two digits.
#[inline]
pub(super) fn two(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 { None } else { Some(u32::from(tens) * 10 + u32::from(ones)) }
}
