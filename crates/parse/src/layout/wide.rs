//! Lines with a time where no header has one: `tls 2.0 2025-11-21T08:00:00 net/lb …`, `Started GET "/" at 2025-11-21 …`.
//!
//! It is the last that is tried, and only in a source that is new or whose first lines had no known format, or that had
//! such times before ([`super::Habits`]): in other sources a time in the text is text. The first whole point in time of the
//! line counts. The message is the whole line, because nothing says what the rest means.

use super::sketch::Sketch;
use super::{LayoutContext, late, shape};
use crate::timestamp::{self, Form, Stamp, TimestampDefaults};
use crate::{Format, Parsed, json};
use daytable_model::record::{Field, Level, Value};
use daytable_model::time::TICKS_PER_DAY;

/// Bytes of a line that are searched.
const WITHIN: usize = 256;
/// Bytes of a line in which a time of day without a date begins.
const CLOCK_WITHIN: usize = 64;
/// Words of letters alone that may stand before a time.
const WORDS_MAX: usize = 2;
/// Days before the time of reading that seconds since 1970 may be: any number may be such seconds.
const EPOCH_DAYS: i64 = 20 * 366;

/// Reads such a line.
pub(super) fn read<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    let is_open = context.is_unknown || context.habits.is_wide();
    // Tables have lines of their own for what they are: `#Date: …`.
    if !is_open || line.starts_with('#') && !line.starts_with("##") {
        return None;
    }
    if let Some(parsed) = labelled(text, context) {
        return Some(parsed);
    }
    let mut sketch = Sketch::default();
    let found = stamp(line, &context.defaults).or_else(|| stamp_at_end(line, &context.defaults)).or_else(|| {
        // What begins at midnight counts the time since the start of a program.
        clock(line, &context.defaults).filter(|(at, _)| context.habits.is_wide() || !line[*at..].starts_with("00:00"))
    });
    if let Some((at, found)) = found {
        sketch.stamp(at, found);
    }
    let header = if found.is_some() { line } else { line.get(..line.floor_char_boundary(48)).unwrap_or(line) };
    let level = match found {
        Some((at, stamp)) => late::level(line.get(..at)?, 0)
            .or_else(|| late::level(line, at + stamp.length))
            .or_else(|| late::level(line, 0))
            .or_else(|| late::in_angles(line, at + stamp.length)),
        None => late::level(header, 0),
    };
    let is_header = |start: usize| has_only_marks(line, start) || is_after_a_name(line, start);
    let level = level.filter(|(_, start, _)| found.is_some() || is_header(*start));
    if let Some((level, start, end)) = level {
        sketch.level(level, start, end);
    }
    (found.is_some() || level.is_some()).then(|| {
        context.habits.note_wide();
        sketch.finish(text, Format::Text)
    })
}

/// Whether a line has such a time.
pub(super) fn is_timed(line: &str, defaults: &TimestampDefaults) -> bool {
    stamp(line, defaults).or_else(|| clock(line, defaults)).is_some()
}

/// A time of day with seconds at the very start of a line, or one that a group of its own or the mark of GLib sets off.
fn clock(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    let bytes = line.as_bytes();
    let is_set_off = |at: usize| at == 0 || bytes[at - 1] == b'[' || bytes[..at].ends_with(b": ");
    let begins = |at: usize| {
        let has_padding = bytes.get(at + 2) == Some(&b':') && bytes.get(at + 5) == Some(&b':');
        // `8:00:01 AM text`
        let is_of_a_half = || bytes.get(1) == Some(&b':') && matches!(bytes.get(7..10), Some(b" AM" | b" PM"));
        has_padding || at == 0 && is_of_a_half()
    };
    let at = (0..bytes.len().min(CLOCK_WITHIN)).find(|at| begins(*at) && is_set_off(*at))?;
    let stamp = timestamp::clock_at_start(bytes.get(at..)?, defaults)?;
    let is_whole = matches!(bytes.get(at + stamp.length), Some(b' ' | b'\t' | b']' | b':' | b'|'));
    // A sentence may name a time of day.
    let is_header = ordinary_words(line.get(..at)?) < 2;
    (is_whole && is_header).then_some((at, stamp))
}

/// The first point in time in a line, and its place.
fn stamp(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    any_stamp(line, defaults, WORDS_MAX)
}

/// A point in time that brackets set off at the very end of a line: `text (20251121 08:00:01.123)`.
fn stamp_at_end(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    let inner = line.strip_suffix([')', ']'])?;
    let start = inner.rfind(['(', '['])? + 1;
    let text = inner.get(start..).filter(|text| text.len() <= CLOCK_WITHIN)?;
    let stamp = timestamp::at_start(text.as_bytes(), defaults)?;
    (stamp.length == text.len() && stamp.form != Form::Epoch).then_some((start, stamp))
}

/// The text of the first point in time in a line, also within a sentence.
pub(crate) fn likely<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<&'a str> {
    let (at, stamp) = any_stamp(line, defaults, usize::MAX)?;
    line.get(at..at + stamp.length)
}

/// The first point in time with at most this many ordinary words before it.
fn any_stamp(line: &str, defaults: &TimestampDefaults, words_max: usize) -> Option<(usize, Stamp)> {
    let bytes = line.as_bytes();
    let is_border = |byte: u8| {
        matches!(
            byte,
            b' ' | b'\t' | b'=' | b'(' | b'[' | b'<' | b'>' | b'"' | b'\'' | b'|' | b':' | b';' | b',' | b'@' | b'{'
        )
    };
    // `--2025-11-21 08:00:01--  text`
    let is_ruled = |at: usize| at == 2 && bytes.starts_with(b"--");
    (0..bytes.len().min(WITHIN)).filter(|at| *at == 0 || is_border(bytes[at - 1]) || is_ruled(*at)).find_map(|at| {
        let begins = bytes[at].is_ascii_digit() || bytes[at].is_ascii_uppercase();
        let found = begins.then(|| timestamp::at_start(bytes.get(at..)?, defaults)).flatten()?;
        let is_word = bytes.get(at + found.length).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let seen = defaults.seen.get();
        let is_near = found.form != Form::Epoch
            || found.time.get() <= seen.saturating_add(TICKS_PER_DAY)
                && found.time.get() >= seen.saturating_sub(EPOCH_DAYS * TICKS_PER_DAY);
        // Cells between bars are not a sentence: `INFO   | jvm 1    | main    | 2025/11/21 08:00:01 | text`.
        let before = line.get(..at)?;
        let bars = before.bytes().filter(|byte| *byte == b'|').count();
        let is_header = ordinary_words(before) <= words_max.saturating_add(bars);
        (is_word && is_near && is_header && line.is_char_boundary(at + found.length)).then_some((at, found))
    })
}

/// The words of letters alone before a time: a sentence has more of them than a header. A word that leads to the time does
/// not count, and behind other things, as in `Started GET "/" for 192.0.2.4 at `, more of them may stand.
fn ordinary_words(text: &str) -> usize {
    let leads = [" at ", " on ", " date ", " started: "].iter().any(|end| text.ends_with(end));
    let is_ordinary = |word: &str| word.trim_end_matches(':').bytes().all(|byte| byte.is_ascii_alphabetic());
    let words = || text.split([' ', '\t']).filter(|word| word.len() > 1);
    let ordinary = words().filter(|word| is_ordinary(word)).count();
    match leads {
        true => ordinary.saturating_sub(if ordinary < words().count() { WORDS_MAX } else { 1 }),
        false => ordinary,
    }
}

/// Whether groups, numbers and signs alone stand before a level, as in `[0.012s][info][gc] text`.
fn has_only_marks(line: &str, start: usize) -> bool {
    let before = line.get(..start).unwrap_or_default();
    // `2026-13-40 …` is not a number.
    let digits = before.trim_ascii_start().trim_start_matches(|c: char| c.is_ascii_digit());
    if digits.len() < before.trim_ascii_start().len() && !digits.starts_with([' ', '(']) && digits != ":" {
        return false;
    }
    let outer: String = {
        let mut depth = 0usize;
        before
            .chars()
            .filter(|c| {
                match c {
                    '[' | '(' => depth += 1,
                    ']' | ')' => depth = depth.saturating_sub(1),
                    _ => return depth == 0 && c.is_alphabetic(),
                }
                false
            })
            .collect()
    };
    outer.is_empty() || outer == "kern"
}

/// A level in capitals behind the name of a program or a task: `nsh_main: ERROR: text`.
pub(super) fn named_level(line: &str) -> Option<(Level, usize, usize)> {
    let is_capital = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    late::level(line, 0)
        .filter(|(_, start, end)| is_after_a_name(line, *start) && line.get(*start..*end).is_some_and(is_capital))
}

/// Whether the name of a program with its colon alone stands before a level: `guacd[1]: INFO: text`, `sst: [INFO] text`.
fn is_after_a_name(line: &str, start: usize) -> bool {
    let before = line.get(..start).unwrap_or_default().trim_end_matches(['[', '<', '(']);
    before.strip_suffix(": ").is_some_and(|name| {
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        shape::name(name) != shape::NameShape::Never && !name.contains(' ')
    })
}

/// An object after the name of a container: `web-1  | {…}`, as `docker compose logs` prints it.
fn labelled<'a>(text: &'a str, context: &LayoutContext<'_>) -> Option<Parsed<'a>> {
    let (label, object) = text.split_once(" | {").filter(|(label, _)| label.len() <= 64)?;
    let label = label.trim_ascii();
    if shape::name(label) == shape::NameShape::Never {
        return None;
    }
    let start = text.len() - object.len() - 1;
    let mut record = json::parse(text.get(start..)?, &context.defaults)?;
    record.fields.insert(0, Field { name: "container".into(), value: Value::String(label.into()) });
    Some(Parsed::of(record, Format::Text))
}
