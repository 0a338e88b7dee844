//! The zone after a time of day: an offset, an abbreviation or a name, or an offset with one of them.

use super::offset::{ends_word, offset, short_offset};
use super::zone::Zone;

/// Abbreviations, with minutes east of UTC. One abbreviation may stand for several zones (`IST`, `CST`, `BST`). It means
/// the zone of the source where that zone uses it at that time, and otherwise what is here: its most common meaning in
/// logs.
const NAMES: [(&[u8], i64); 51] = [
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
    (b"AKDT", -480),
    (b"HST", -600),
    (b"AST", -240),
    (b"ADT", -180),
    (b"NST", -210),
    (b"NDT", -150),
    (b"IDT", 180),
    (b"EAT", 180),
    (b"CAT", 120),
    (b"WAT", 60),
    (b"WITA", 480),
];

/// A zone as a timestamp writes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum WrittenZone {
    /// No zone: that of the source.
    Unwritten,
    /// Minutes east of UTC.
    East(i64),
    /// An abbreviation: its number in [`NAMES`]. It means the zone of the source where that zone uses it at that time.
    Short(usize),
    /// A name of the IANA database.
    Named(Zone),
}

/// An abbreviation, and the minutes east of UTC that it means where the zone of the source does not use it.
pub(super) fn abbreviation(number: usize) -> (&'static str, i64) {
    NAMES.get(number).map_or(("UTC", 0), |(name, minutes)| (std::str::from_utf8(name).unwrap_or("UTC"), *minutes))
}

/// The zone at the start of `text`, and its length.
///
/// The result is `None` for an impossible offset like `+99:00`: then the whole text is not a timestamp.
#[inline]
pub(super) fn zone(text: &[u8]) -> Option<(WrittenZone, usize)> {
    match text {
        [] | [b']', ..] => Some((WrittenZone::Unwritten, 0)),
        [b'Z' | b'z', ..] => Some((WrittenZone::East(0), 1)),
        // `--2025-11-21 08:00:01--  text`
        [b'-', b'-', ..] => Some((WrittenZone::Unwritten, 0)),
        [b'+' | b'-', ..] => offset(text).map(|(minutes, length)| (WrittenZone::East(minutes), length)),
        [b' ', b'Z', rest @ ..] if ends_word(rest) => Some((WrittenZone::East(0), 2)),
        [b'(', ..] | [b' ', b'(', ..] => Some(in_brackets(text).unwrap_or((WrittenZone::Unwritten, 0))),
        [b' ', rest @ ..] => Some(match after_space(rest) {
            Some((zone, length)) => (zone, length + 1),
            None => (WrittenZone::Unwritten, 0),
        }),
        _ => Some((WrittenZone::Unwritten, 0)),
    }
}

/// `(+0000)`, ` (UTC+0100)`, ` (CET)`
#[cold]
fn in_brackets(text: &[u8]) -> Option<(WrittenZone, usize)> {
    let open = text.iter().position(|byte| *byte == b'(')? + 1;
    let close = open + text[open..].iter().take(12).position(|byte| *byte == b')')?;
    let (zone, length) = match text[open..close] {
        ref within @ [b'+' | b'-', ..] => {
            offset(within).map(|(minutes, length)| (WrittenZone::East(minutes), length))?
        }
        ref within @ [b'A'..=b'Z', ..] => named(within)?,
        _ => return None,
    };
    (length == close - open).then_some((zone, close + 1))
}

/// After a space, a zone must also end at a word border.
#[inline]
fn after_space(text: &[u8]) -> Option<(WrittenZone, usize)> {
    let (zone, length) = match text.first()? {
        sign @ (b'+' | b'-') => {
            let (minutes, length) = offset(text)?;
            let rest = text.get(length..)?;
            // `-10 degrees` goes on as text does, `+03 [123] LOG:` does not.
            let is_text = length == 3 && *sign == b'-' && matches!(rest, [b' ', b'a'..=b'z', ..]);
            let is_possible = length > 3 || (-12 * 60..=14 * 60).contains(&minutes) && !is_text;
            is_possible.then_some(())?;
            (WrittenZone::East(minutes), length + after_offset(rest))
        }
        b'A'..=b'Z' => named(text)?,
        _ => return None,
    };
    ends_word(&text[length..]).then_some((zone, length))
}

/// The rest of a time of Go's `Time.String()` after its offset: ` CET`, ` +03`, ` m=+0.123`.
fn after_offset(text: &[u8]) -> usize {
    let mut length = 0;
    if let [b' ', rest @ ..] = text {
        let name = rest.iter().take(5).take_while(|byte| byte.is_ascii_uppercase()).count();
        let named = rest.get(..name).filter(|word| NAMES.iter().any(|(known, _)| known == word)).map(<[u8]>::len);
        let length_of = named.or_else(|| offset(rest).map(|(_, length)| length));
        length = length_of.filter(|length| ends_word(&rest[*length..])).map_or(0, |length| length + 1);
    }
    if let Some([b' ', b'm', b'=', b'+' | b'-', digits @ ..]) = text.get(length..) {
        let run = digits.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        length += if run > 0 && ends_word(&digits[run..]) { run + 4 } else { 0 };
    }
    length
}

/// A name, with an optional offset as in `GMT+0100` and `UTC+2:00`.
fn named(text: &[u8]) -> Option<(WrittenZone, usize)> {
    let length = text.iter().take(5).take_while(|byte| byte.is_ascii_uppercase()).count();
    let name = text.get(..length)?;
    // Cheap tests for the levels and names that follow most times.
    if length == 1 {
        return if matches!(name, b"A" | b"E" | b"I" | b"P") { iana(text) } else { None };
    }
    if !matches!(name.last(), Some(b'A' | b'B' | b'C' | b'K' | b'T')) {
        return None;
    }
    let number = NAMES.iter().position(|(known, _)| *known == name)?;
    match text.get(length..)? {
        rest @ [b'+' | b'-', ..] if NAMES[number].1 == 0 => {
            offset(rest).or_else(|| short_offset(rest)).map(|(east, more)| (WrittenZone::East(east), length + more))
        }
        // These are the same in every zone that uses them.
        _ if matches!(name, b"UTC" | b"GMT") => Some((WrittenZone::East(0), length)),
        _ => Some((WrittenZone::Short(number), length)),
    }
}

/// `Europe/Paris`. Only the areas of the database are looked up: other words with `/` are text.
#[cold]
fn iana(text: &[u8]) -> Option<(WrittenZone, usize)> {
    const AREAS: [&[u8]; 10] = [
        b"Africa/",
        b"America/",
        b"Antarctica/",
        b"Asia/",
        b"Atlantic/",
        b"Australia/",
        b"Europe/",
        b"Indian/",
        b"Pacific/",
        b"Etc/",
    ];
    if !AREAS.iter().any(|area| text.starts_with(area)) {
        return None;
    }
    let in_name = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+');
    let length = text.iter().take(40).take_while(in_name).count();
    let zone = super::zone::named(std::str::from_utf8(text.get(..length)?).ok()?)?;
    Some((WrittenZone::Named(Zone::Named(zone)), length))
}
