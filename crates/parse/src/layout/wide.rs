//! Lines with a time where no header has one: `tls 2.0 2025-11-21T08:00:00 net/lb …`, `Started GET "/" at 2025-11-21 …`.
//!
//! It is the last that is tried, and only in a source that is new or whose first lines had no known format, or that had
//! such times before ([`super::Habits`]): in other sources a time in the text is text. The first whole point in time of the
//! line counts. The message is the whole line, because nothing says what the rest means.

use super::sketch::Sketch;
use super::{LayoutContext, is_column, is_counted, late, shape, trace};
use crate::timestamp::zone::Zone;
use crate::timestamp::{self, Form, Stamp, TimestampDefaults};
use crate::{Format, Parsed, PartPlace, json};
use daytable_model::record::{Field, Level, Value};
use daytable_model::time::{TICKS_PER_DAY, Ticks};

/// A level, and where it begins and ends.
type LevelPlace = (Level, usize, usize);

/// Bytes of a line that are searched.
const WITHIN: usize = 256;
/// Bytes of a line in which a time of day without a date begins.
const CLOCK_WITHIN: usize = 96;
/// Bytes of a line in which the name of a container ends.
const LABEL_WITHIN: usize = 66;
/// Bytes of an element in which an attribute may be its time.
const ATTRIBUTES_WITHIN: usize = 2048;
/// Bytes of a line without a time that may have a level.
const LEVEL_WITHIN: usize = 80;
/// Words of letters alone that may stand before a time.
const WORDS_MAX: usize = 2;
/// Lines below the first that are searched.
const BELOW_MAX: usize = 40;
/// Days before the time of reading that seconds since 1970 may be: any number may be such seconds.
const EPOCH_DAYS: i64 = 5 * 366;

/// Reads such a line.
pub(super) fn read<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    let may_be_timed = context.is_unknown || context.habits.is_wide();
    // Beside lines that begin with a level, others have theirs further within. Few lines without a time are records of their
    // own beside lines with one.
    let is_open = may_be_timed
        || context.usual == Some(Format::Text) && (!trace::is_inner(line) || is_column(line) || is_counted(line));
    let is_rare = may_be_timed || context.habits.is_timed();
    if !is_rare && memchr::memchr3(b':', b'[', b'!', line.as_bytes()).is_none() {
        return None;
    }
    // Tables have lines of their own for what they are: `#Date: …`. Simulators write `# ** Warning: text`.
    let is_of_table =
        || !matches!(line.as_bytes().get(1), Some(b'#' | b'@' | b'0'..=b'9')) && !line.starts_with("# ** ");
    if !is_open || line.starts_with('#') && is_of_table() {
        return None;
    }
    if let Some(parsed) = labelled(text, context) {
        return Some(with_time(parsed, line, context));
    }
    let mut sketch = Sketch::default();
    let anywhere = || {
        stamp(line, &context.defaults).or_else(|| stamp_at_end(line, &context.defaults)).or_else(|| {
            // What begins at midnight counts the time since the start of a program.
            clock(line, &context.defaults)
                .filter(|(at, _)| context.habits.is_wide() || !line[*at..].starts_with("00:00"))
                .or_else(|| attributes(line, &context.defaults))
                .or_else(|| attribute(line, &context.defaults))
        })
    };
    // Beside lines with a clock and a level, others have a clock alone.
    let at_start = || clock(line, &context.defaults).filter(|(at, _)| *at < 2);
    let found = match may_be_timed {
        true => anywhere(),
        false if context.habits.is_clock() => at_start(),
        false => None,
    };
    let (later, later_level) = match found {
        None if may_be_timed && text.len() > line.len() => below(text, line.len(), &context.defaults),
        _ => (None, None),
    };
    if let Some((at, found)) = found.or(later) {
        sketch.stamp(at, found);
    }
    let level = later_level.or_else(|| match found {
        Some((at, stamp)) => late::level(line.get(..at)?, 0)
            .or_else(|| late::level(line, at + stamp.length))
            .or_else(|| late::level(line, 0))
            .or_else(|| late::in_angles(line, at + stamp.length))
            .or_else(|| late::numbered(line, at + stamp.length))
            .or_else(|| letter_alone(line, at))
            .or_else(|| attribute_of_type(line)),
        None if later.is_some() => late::level(line, 0),
        None => level_alone(line),
    });
    if let Some((level, start, end)) = level {
        sketch.level(level, start, end);
    }
    (sketch.time.is_some() || level.is_some()).then(|| {
        if !may_be_timed && found.is_some() {
            context.habits.note_clock(true);
        }
        if may_be_timed {
            context.habits.note_wide();
            // The first lines of such records have no time.
            context.habits.note_clock(later.is_some());
        }
        sketch.finish(text, Format::Text)
    })
}

/// The level of a line without a time, and its place, if no more than a header stands before it.
pub(super) fn level_alone(line: &str) -> Option<LevelPlace> {
    let header = line.get(..line.floor_char_boundary(LEVEL_WITHIN))?;
    let named = || behind_a_process(header).or_else(|| behind_names(header)).or_else(|| behind_a_count(header));
    let level = late::level(header, 0).or_else(named)?;
    let (_, start, end) = level;
    // `java.lang.AssertionError: 42 INFO` says what was thrown.
    if trace::is_exception(line) {
        return None;
    }
    // `distcc[1234] (dcc_lock) ERROR: text`
    let lead = shape::token(line, 0).filter(|first| matches!(first.kind, shape::WordKind::Tagged(..)));
    let lead = lead.map_or(0, |first| first.end).min(start);
    let is_header = has_only_marks(&line[lead..], start - lead)
        || is_after_a_name(line, start)
        // `npm ERR! text`, `CMake Warning at CMakeLists.txt:3 (message):`
        || (line[end..].starts_with("! ") || line[end..].starts_with(" at ")) && ordinary_words(&line[..start]) < 2
        || named().is_some()
        || is_cell_of_names(line, start)
        || is_behind_a_path(line, start);
    is_header.then_some(level)
}

/// The time and the level in the lines below the first: alone, behind a name, or in an element.
///
/// ```text
/// Event[0]:                          <record>
///   Date: 2025-11-21T08:00:01.123      <date>2025-11-21T08:00:01Z</date>
///   Level: Error                       <level>WARNING</level>
/// ---
/// severity: ERROR
/// timestamp: '2025-11-21T08:00:01Z'
/// ```
#[cold]
fn below(text: &str, first: usize, defaults: &TimestampDefaults) -> (Option<(usize, Stamp)>, Option<LevelPlace>) {
    let (mut time, mut level) = (None, None);
    let mut at = first + 1;
    for line in text.get(at..).unwrap_or_default().split('\n').take(BELOW_MAX) {
        let start = at + line.len() - line.trim_ascii_start().len();
        at += line.len() + 1;
        let inner = line.trim_ascii_start();
        let is_name = |name: &str| name.len() <= 24 && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b' ');
        let named = match inner.strip_prefix('<') {
            Some(element) => element.split_once('>'),
            None => inner.split_once([':', '=']),
        };
        let named = named.filter(|(name, _)| !name.is_empty() && is_name(name));
        let (name, value) = named.unwrap_or(("", inner));
        let value = value.trim_ascii_start().trim_start_matches(['\'', '"']);
        let place = line.len() - value.len() + start - (line.len() - inner.len());
        if time.is_none()
            && let Some(stamp) = timestamp::at_start(value.as_bytes(), defaults)
            && stamp.form != Form::Epoch
            && value.as_bytes().get(stamp.length).is_none_or(|byte| b" \r<\t'\"".contains(byte))
            && (name.is_empty() || crate::time_fields::tells_time(name))
        {
            time = Some((place, stamp));
        }
        if level.is_none() && (name.eq_ignore_ascii_case("level") || name.eq_ignore_ascii_case("severity")) {
            let word = value.split(['<', ' ', '\r']).next().unwrap_or_default();
            level = Level::from_word(word).map(|level| (level, place, place + word.len()));
        }
    }
    (time, level.filter(|_| time.is_some()))
}

/// Whether a line has such a time.
pub(super) fn is_timed(line: &str, defaults: &TimestampDefaults) -> bool {
    let of_element = || attributes(line, defaults).or_else(|| attribute(line, defaults));
    stamp(line, defaults).or_else(|| clock(line, defaults)).or_else(of_element).is_some()
}

/// Whether a line has a point in time at its very end.
pub(super) fn is_timed_at_end(line: &str, defaults: &TimestampDefaults) -> bool {
    stamp_at_end(line, defaults).is_some()
}

/// Adds the time that stands further within a line: any in a source with such times, and one between bars or before a colon
/// in a new one: `ERROR: apport (pid 1234) Fri Nov 21 08:00:01 2025: text`.
pub(super) fn with_time<'a>(mut parsed: Parsed<'a>, line: &str, context: &mut LayoutContext<'_>) -> Parsed<'a> {
    let is_wide = context.habits.is_wide();
    if parsed.record.time.is_some() || !is_wide && !context.is_unknown {
        return parsed;
    }
    let is_set_off = |at: usize, end: usize| {
        let rest = line.get(end..).unwrap_or_default();
        rest.starts_with(": ")
            || line.get(..at).is_some_and(|before| before.ends_with(" Time: "))
            || rest.starts_with('|') && line.get(..at).is_some_and(|before| before.ends_with('|'))
    };
    let is_number_before = |at: usize| at > 0 && line.as_bytes()[at - 1].is_ascii_digit();
    if !is_wide && !memchr::memchr2_iter(b':', b'|', line.as_bytes()).any(is_number_before) {
        return parsed;
    }
    let found = stamp(line, &context.defaults).filter(|(at, found)| is_wide || is_set_off(*at, at + found.length));
    if let Some((at, found)) = found {
        context.habits.note_wide();
        parsed.record.time = Some(found.time);
        parsed.time_at = PartPlace::of(at..at + found.length);
    }
    parsed
}

/// A time of day with seconds at the very start of a line, or one that a group of its own or the mark of GLib sets off.
fn clock(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    let bytes = line.as_bytes();
    // `1234  08:00:01.123456 text`, `00000001.000 |08:00:01.123 |text`
    let is_number_before = |before: &str| {
        before.len() > 3
            && before.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'\t' | b'.' | b'|'))
    };
    // `NAME(4b8.1a2c) 08:00:01:123 text`
    let is_set_off = |at: usize| {
        at == 0
            || matches!(bytes[..at], [.., b'[' | b'('] | [.., b':' | b')', b' '] | [b' '])
            || is_number_before(&line[..at])
    };
    let begins = |at: usize| {
        if !bytes[at].is_ascii_digit() {
            return false;
        }
        let has_padding = bytes.get(at + 2) == Some(&b':') && bytes.get(at + 5) == Some(&b':');
        // `8:00:01 AM text`
        let is_of_a_half =
            || bytes.get(at + 1) == Some(&b':') && matches!(bytes.get(at + 7..at + 10), Some(b" AM" | b" PM"));
        // ` 8:00:01 text`
        let is_spaced = || bytes.get(at + 1) == Some(&b':') && bytes.get(at + 4) == Some(&b':') && bytes[..at] == *b" ";
        has_padding || is_of_a_half() || is_spaced()
    };
    let at = (0..bytes.len().min(CLOCK_WITHIN)).find(|at| begins(*at) && is_set_off(*at))?;
    let stamp = timestamp::clock_at_start(bytes.get(at..)?, defaults)?;
    let is_whole = matches!(bytes.get(at + stamp.length), Some(b' ' | b'\t' | b']' | b')' | b':' | b'|'));
    // A sentence may name a time of day.
    let is_header = ordinary_words(line.get(..at)?) < 2;
    (is_whole && is_header).then_some((at, stamp))
}

/// The first point in time in a line, and its place.
fn stamp(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    any_stamp(line, defaults, WORDS_MAX)
}

/// The attributes `time` and `date` of an element: `<time="08:00:01.123+000" date="11-21-2025" …>`. Up to three digits behind
/// a sign are minutes west of UTC. The time counts as read where the clock stands.
#[cold]
fn attributes(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    line.starts_with('<').then_some(())?;
    let value = |name: &str| {
        let start = line.find(name)? + name.len();
        Some((start, line.get(start..)?.split('"').next()?))
    };
    let ((at, clock), (_, date)) = (value("time=\"")?, value("date=\"")?);
    let (clock, zone) = match clock.rfind(['+', '-']).filter(|sign| (2..=4).contains(&(clock.len() - sign))) {
        Some(sign) => {
            let west: i16 = clock.get(sign + 1..)?.parse().ok()?;
            (&clock[..sign], Some(Zone::Offset(if clock[sign..].starts_with('-') { west } else { -west })))
        }
        None => (clock, None),
    };
    let both = format!("{date} {clock}");
    let stamp =
        timestamp::at_start(both.as_bytes(), &TimestampDefaults { zone: zone.unwrap_or(defaults.zone), ..*defaults })?;
    (stamp.length == both.len() && both.len() < CLOCK_WITHIN).then_some((at, Stamp { length: clock.len(), ..stamp }))
}

/// The first attribute of an element whose name speaks of a time and whose value is one: `<TimeCreated SystemTime='2025-11-21T…'/>`.
fn attribute(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    if !matches!(line.as_bytes(), [b'<', b'A'..=b'Z' | b'a'..=b'z', ..]) {
        return None;
    }
    let bytes = line.as_bytes().get(..line.len().min(ATTRIBUTES_WITHIN))?;
    memchr::memchr_iter(b'=', bytes).find_map(|equals| {
        let quote = *bytes.get(equals + 1).filter(|quote| matches!(quote, b'"' | b'\''))?;
        let name = line.get(..equals)?.rsplit(' ').next().filter(|name| crate::time_fields::tells_time(name))?;
        let start = equals + 2;
        let stamp = timestamp::at_start(bytes.get(start..)?, defaults)?;
        let is_whole = !name.is_empty() && bytes.get(start + stamp.length) == Some(&quote);
        (is_whole && stamp.form != Form::Epoch).then_some((start, stamp))
    })
}

/// A point in time at the very end of a line that brackets set off, or that words lead to: `text (20251121 08:00:01.123)`,
/// `text at Fri Nov 21 08:00:01 2025.`
fn stamp_at_end(line: &str, defaults: &TimestampDefaults) -> Option<(usize, Stamp)> {
    let last = line.bytes().rev().find(|byte| *byte != b'.')?;
    // The last number, `AM`, `p.m.` or the name of a zone: other texts end otherwise.
    let may_be_led = last.is_ascii_digit() || last.is_ascii_uppercase() || last == b'm';
    let led = || line.rfind(" at ").map(|at| at + " at ".len());
    if may_be_led
        && let Some(start) = led()
        && let Some(text) =
            line.get(start..).map(|text| text.trim_end_matches('.')).filter(|text| text.len() <= CLOCK_WITHIN)
        && let Some(stamp) = timestamp::at_start(text.as_bytes(), defaults)
        && stamp.length == text.len()
    {
        return Some((start, stamp));
    }
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

/// What a byte is to a time that stands anywhere in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StampByte {
    /// A digit or a capital, with which it may begin.
    Begins,
    /// A sign before which it may stand.
    Border,
    Other,
}

/// A table, because each byte of a line is asked.
const STAMP_BYTES: [StampByte; 256] = {
    let mut table = [StampByte::Other; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = match byte {
            b'0'..=b'9' | b'A'..=b'Z' => StampByte::Begins,
            b' ' | b'\t' | b'=' | b'(' | b'[' | b'<' | b'>' | b'"' | b'\'' | b'|' | b':' | b';' | b',' | b'@'
            | b'{' | b'#' | b'!' => StampByte::Border,
            _ => StampByte::Other,
        };
        byte += 1;
    }
    table
};

/// The first point in time with at most this many ordinary words before it.
fn any_stamp(line: &str, defaults: &TimestampDefaults, words_max: usize) -> Option<(usize, Stamp)> {
    let bytes = line.as_bytes();
    // `--2025-11-21 08:00:01--  text`
    let mut is_set_off = true;
    let begins = |(at, byte): (usize, &u8)| {
        let kind = STAMP_BYTES[usize::from(*byte)];
        let is_begun = kind == StampByte::Begins && (is_set_off || at == 2 && bytes.starts_with(b"--"));
        is_set_off = kind == StampByte::Border;
        is_begun.then_some(at)
    };
    bytes[..bytes.len().min(WITHIN)].iter().enumerate().filter_map(begins).find_map(|at| {
        let found = timestamp::at_start(bytes.get(at..)?, defaults)?;
        let is_in_element = at > 0 && bytes[at - 1] == b'>';
        let is_word = bytes.get(at + found.length).is_none_or(|byte| !byte.is_ascii_alphanumeric()) || is_in_element;
        let seen = defaults.seen.get();
        // Questions that do not depend on the time of reading have the last one of all.
        let is_near = found.form != Form::Epoch
            || defaults.seen == Ticks::MAX && bytes[at] == b'1'
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
    let unquoted = text.trim_end_matches(['\'', '"']);
    let leads = [" at ", " on ", " date ", " started: "].iter().any(|end| unquoted.ends_with(end));
    let is_ordinary = |word: &str| word.trim_end_matches(':').bytes().all(|byte| byte.is_ascii_alphabetic());
    let words = || text.split([' ', '\t']).filter(|word| word.len() > 1);
    // `md manage:   INFO:2025-11-21 08h00.12`: the name of a level is no word of a sentence.
    let is_level = |word: &str| shape::is_capital(shape::kinds_of(word)) && Level::from_word(word).is_some();
    let is_word = |word: &&str| is_ordinary(word) && !is_level(word.trim_end_matches(':'));
    let ordinary = words().filter(is_word).count();
    match leads {
        true => ordinary.saturating_sub(if ordinary < words().count() { WORDS_MAX } else { 1 }),
        false => ordinary,
    }
}

/// Whether groups, numbers and signs alone stand before a level, as in `[0.012s][info][gc] text`.
fn has_only_marks(line: &str, start: usize) -> bool {
    let before = line.get(..start).unwrap_or_default();
    // `2026-13-40 …` is not a number.
    let first = before.trim_ascii_start();
    let is_number = |text: &str| text.is_empty() || shape::is_number(text);
    let number = first.split([' ', '(', ':', '[']).next().unwrap_or_default();
    if first.starts_with(|c: char| c.is_ascii_digit()) && !number.split('.').all(is_number) {
        return false;
    }
    let mut depth = 0usize;
    let outer: String = before
        .chars()
        .filter(|c| {
            match c {
                '[' | '(' | '<' => depth += 1,
                ']' | ')' | '>' => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
        .collect();
    // A word in capitals before the level names what speaks: `--> FOAM Warning : text`.
    let is_level_marked =
        || line.get(start..).is_some_and(|rest| rest.split([':', ' ']).nth(1).is_some_and(str::is_empty));
    let is_speaker =
        |word: &str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()) && is_level_marked();
    let is_mark = |word: &str| {
        let has_letters = word.trim_end_matches(['s', ':']).contains(char::is_alphabetic);
        // `/src/Program.cs(3,5): error CS1002: text`
        let is_place = || word.ends_with(':') && word.contains(['/', '.']) || shape::source(word).is_some();
        word == "kern" || !has_letters || is_hexadecimal(word) || is_speaker(word) || is_place()
    };
    // The name of a program with a colon may stand first, with more behind it.
    let is_program =
        |word: &&str| word.ends_with(':') && shape::name(word.trim_end_matches(':')) == shape::NameShape::Surely;
    let outer = match outer.split(' ').next().filter(is_program) {
        Some(name) if outer.trim_end().len() > name.len() => outer[name.len()..].to_owned(),
        _ => outer,
    };
    let words = || outer.split(' ').filter(|word| !word.is_empty());
    words().all(is_mark) && words().filter(|word| is_speaker(word)).count() < 2
}

/// The number of an attribute `type` of an element in brackets, as viewers of Windows' traces read it: 1 to 3.
fn attribute_of_type(line: &str) -> Option<LevelPlace> {
    let start = line.starts_with("<![").then(|| line.find(" type=\""))?? + " type=\"".len();
    let level = match line.as_bytes().get(start..start + 2)? {
        b"1\"" => Level::Info,
        b"2\"" => Level::Warn,
        b"3\"" => Level::Error,
        _ => return None,
    };
    Some((level, start, start + 1))
}

/// The letter of a level in a column of its own at the start, or as the word before the time at `at`:
/// `E      hello  k3v9x1y2  2025-11-21 08:00:01.123  text`, `adb I 11-21 08:00:01 text`.
fn letter_alone(line: &str, at: usize) -> Option<LevelPlace> {
    let is_column = shape::token(line, 0).is_some_and(|first| first.gap > 1 && first.end == 1);
    let start = match line.as_bytes().get(..at)? {
        _ if is_column => 0,
        [.., b' ', b'D' | b'I' | b'W' | b'E' | b'F', b' '] => at - 2,
        _ => return None,
    };
    Some((shape::letter(line.as_bytes()[start])?, start, start + 1))
}

/// `0x55a1`
fn is_hexadecimal(word: &str) -> bool {
    word.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Whether a level in capitals touches the path of a logger: `shop [1a2b]: shop.tasks.worker:WARNING: text`.
fn is_behind_a_path(line: &str, start: usize) -> bool {
    let name = line.get(..start).and_then(|before| before.strip_suffix(':')?.rsplit(' ').next());
    name.is_some_and(|name| name.len() > 4 && shape::is_dotted(name))
        && line.as_bytes().get(start).is_some_and(u8::is_ascii_uppercase)
}

/// Whether a bar stands before a level in capitals, and names and numbers alone before that:
/// `00:12.345  cycles.device    | ERROR text`.
fn is_cell_of_names(line: &str, start: usize) -> bool {
    let before = line.get(..start).unwrap_or_default();
    before.strip_suffix("| ").is_some_and(|before| ordinary_words(before) == 0)
        && line.as_bytes().get(start).is_some_and(u8::is_ascii_uppercase)
}

/// The level in capitals behind a process on a host and the name of a library: `node1:1234:1240 [0] NAME INFO text`.
fn behind_a_process(line: &str) -> Option<LevelPlace> {
    let first = &line[..crate::scan::space(line.as_bytes(), 0)];
    let numbers = first.bytes().filter(|byte| *byte == b':').count();
    if numbers < 2 {
        return None;
    }
    let mut parts = first.split(':');
    let is_host = parts.next().is_some_and(|host| shape::name(host) != shape::NameShape::Never);
    if !is_host || !parts.all(shape::is_number) {
        return None;
    }
    let mut at = first.len();
    for _ in 0..3 {
        let token = shape::token(line, crate::pairs::skip_spaces(line.as_bytes(), at))?;
        match token.kind {
            shape::WordKind::Group(_) => {}
            shape::WordKind::Word(word) if shape::is_capital(token.kinds) => {
                if let Some(level) = Level::from_word(word) {
                    return Some((level, token.start, token.start + word.len()));
                }
            }
            _ => return None,
        }
        at = token.end;
    }
    None
}

/// The level before the first colon where all words before it are written as names: `OpenJDK 64-Bit Server VM warning: text`.
fn behind_names(line: &str) -> Option<LevelPlace> {
    let is_end = |colon: &usize| line.as_bytes().get(colon + 1) == Some(&b' ');
    let before = line.get(..memchr::memchr_iter(b':', line.as_bytes()).find(is_end)?)?;
    let (names, word) = before.rsplit_once(' ')?;
    let is_name = |word: &str| !word.starts_with(|first: char| first.is_ascii_lowercase());
    let is_level = word.bytes().all(|byte| byte.is_ascii_lowercase()) && names.split(' ').all(is_name);
    Some((Level::from_word(word).filter(|_| is_level)?, names.len() + 1, before.len()))
}

/// The level in small letters behind the number of a line: `24 silly fetch manifest`, `33 error code E404`. One error may be
/// found; of two and more a sentence says `errors`.
fn behind_a_count(line: &str) -> Option<LevelPlace> {
    line.as_bytes().first()?.is_ascii_digit().then_some(())?;
    let (number, rest) = line.split_once(' ').filter(|(number, _)| number.len() < 7 && shape::is_number(number))?;
    let word = rest.split(' ').next()?;
    let level = match word {
        "silly" => Level::Trace,
        "verbose" | "info" | "warn" => Level::from_word(word)?,
        "notice" | "warning" | "error" if !matches!(number, "0" | "1") => Level::from_word(word)?,
        _ => return None,
    };
    Some((level, number.len() + 1, number.len() + 1 + word.len()))
}

/// A level in capitals behind the name of a program or a task: `nsh_main: ERROR: text`.
pub(super) fn named_level(line: &str) -> Option<LevelPlace> {
    let is_capital = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    late::level(line, 0)
        .filter(|(_, start, end)| is_after_a_name(line, *start) && line.get(*start..*end).is_some_and(is_capital))
}

/// Whether the name of a program with its colon alone stands before a level: `guacd[1]: INFO: text`, `sst: [INFO] text`,
/// `x264 [info]: text`, `log4j:WARN text`.
fn is_after_a_name(line: &str, start: usize) -> bool {
    let (before, rest) = line.split_at(start);
    let is_marked_behind =
        || before.ends_with('[') && rest.split(']').nth(1).is_some_and(|rest| rest.starts_with(": "));
    let before = before.trim_end_matches(['[', '<', '(']);
    let is_capital = || rest.starts_with(|first: char| first.is_ascii_uppercase());
    let touching = before.strip_suffix(':').filter(|_| is_capital());
    before
        .strip_suffix(": ")
        .or(touching)
        .or_else(|| before.strip_suffix(' ').filter(|_| is_marked_behind()))
        .is_some_and(|name| {
            let name = name.split_once('[').map_or(name, |(name, _)| name);
            // `guix build: error: text`
            let is_small = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase());
            match name.split_once(' ') {
                Some((program, command)) => is_small(program) && is_small(command),
                None => shape::name(name) != shape::NameShape::Never,
            }
        })
}

/// The name of a container before an object, and where the object begins.
pub(super) fn label(text: &str) -> Option<(&str, usize)> {
    let bar = memchr::memchr(b'|', &text.as_bytes()[..text.len().min(LABEL_WITHIN)])?;
    let label = text.get(..bar)?.strip_suffix(' ')?.trim_ascii();
    let is_object = text.get(bar..)?.starts_with("| {") && shape::name(label) != shape::NameShape::Never;
    is_object.then_some((label, bar + "| ".len()))
}

/// An object after the name of a container: `web-1  | {…}`, as `docker compose logs` prints it.
fn labelled<'a>(text: &'a str, context: &LayoutContext<'_>) -> Option<Parsed<'a>> {
    let (label, start) = label(text)?;
    let mut record = json::parse(text.get(start..)?, &context.defaults)?;
    record.fields.insert(0, Field { name: "container".into(), value: Value::String(label.into()) });
    Some(Parsed::of(record, Format::Text))
}
