//! A level further within a line than the rules of headers look, if the signs around a word show that it is one.
//!
//! ```text
//! queries: info: client …        unbound[7:0] error: text       x.py[WARNING]: text       warning/ApiListener: text
//! NOTICE[123][C-1]: text         [main#critical] text           In(05) vmx - text         E! text       INFO| text
//! ```
//!
//! The words before it must belong to a header: names, numbers, groups, pairs, and at most one ordinary word. The level
//! stays in the message: what stands around it is of no known form.

use super::shape::{before_a_number, letter, two_letters};
use super::syslog;
use crate::level_names::{self, foreign};
use crate::pairs::skip_spaces;
use crate::scan;
use daytable_model::record::Level;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// Bytes of a line that are searched.
const WITHIN: usize = 160;
/// Words in which the number of a message is looked for.
const NUMBER_WORDS_MAX: usize = 4;
/// Bytes of the longest word for a level.
const LEVEL_BYTES_MAX: usize = 40;

/// The level of a line from `from` on, and its place.
pub(super) fn level(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    of_word(line, from).or_else(|| of_sign(line, from))
}

/// The level of a line from `from` on, behind the time of its header, by any of the rules.
pub(super) fn anywhere(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    let head = line.as_bytes().get(from..line.len().min(from + WITHIN))?;
    level(line, from).or_else(|| {
        // The signs without which three of the rules find nothing are looked for once.
        let has_sign = memchr::memchr3(b'%', b'<', b'[', head).is_some();
        let by_sign = || syslog::mark_severity(line, from).or_else(|| in_angles(line, from));
        let in_brackets = || in_brackets(line, from);
        let marked = has_sign.then(by_sign).flatten();
        marked
            .or_else(|| numbered(line, from))
            .or_else(|| paired(line, from))
            .or_else(|| has_sign.then(in_brackets).flatten())
            .or_else(|| of_number(line, from))
    })
}

/// The level of a sign that begins the text: ` ⚠ Fast Refresh had to perform a full reload`.
fn of_sign(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    const SIGNS: [(&str, Level); 6] = [
        ("⚠", Level::Warn),
        ("⨯", Level::Error),
        ("✖", Level::Error),
        ("✘", Level::Error),
        ("❌", Level::Error),
        ("ℹ", Level::Info),
    ];
    let text = line.get(from..)?.trim_ascii_start();
    if text.as_bytes().first()?.is_ascii() {
        return None;
    }
    let (sign, level) = SIGNS.iter().find(|(sign, _)| text.starts_with(sign))?;
    let start = line.len() - text.len();
    Some((*level, start, start + sign.len()))
}

fn of_word(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    let bytes = line.as_bytes();
    if matches!(bytes, [b'<', b'A'..=b'Z' | b'a'..=b'z', ..])
        && let Some(found) = of_element(line)
    {
        return Some(found);
    }
    let end = (from + WITHIN).min(bytes.len());
    let (mut at, mut plain, mut is_in_group) = (from, 0, false);
    while at < end {
        let first = bytes[at];
        if !is_letter(first) {
            is_in_group = first == b'[' || is_in_group && first != b']';
            at += 1;
            continue;
        }
        let start = at;
        if !first.is_ascii()
            && let Some(length) = symbol(&bytes[start..])
        {
            at = start + length;
            continue;
        }
        let (mut stop, mut all) = (start, 0);
        for byte in &bytes[start..] {
            if !is_letter(*byte) {
                break;
            }
            all |= byte;
            stop += 1;
        }
        let before = start.checked_sub(1).map(|before| bytes[before]);
        let after = bytes.get(stop).copied();
        let may_be = may_be_word_of_level(&bytes[start..stop], plain == 0, all.is_ascii());
        if !may_be && all.is_ascii() && matches!((before, after), (None | Some(b' '), Some(b' '))) {
            // Most words are ordinary ones.
            plain += usize::from(!is_in_group);
            if plain > 2 {
                return None;
            }
            at = stop + 1;
            continue;
        }
        let is_cell = matches!(before, Some(b'"' | b',' | b';' | b'\t')) && is_cell(bytes, start, stop);
        if may_be && let Some(level) = level_at(line, start, stop, plain, is_cell) {
            return Some((level, start, stop));
        }
        if is_cell {
            at = stop;
            continue;
        }
        // Text in quotes and sentences hold no header, and pairs after words are those of a text.
        let is_end = match after {
            Some(b'.' | b'!' | b'?') => bytes.get(stop + 1) == Some(&b' '),
            Some(b'=') => plain > 0,
            _ => false,
        };
        if is_end || matches!(before, Some(b'"' | b'\'')) {
            return None;
        }
        let is_alone =
            matches!(before, None | Some(b' ' | b'\t')) && matches!(after, None | Some(b' ' | b'\t' | b':' | b','));
        plain += usize::from(is_alone && !is_in_group && all.is_ascii());
        if plain > 2 {
            return None;
        }
        at = stop;
    }
    None
}

/// Whether the letters of a word allow a level: of most words the first of them show that they are none. Where no ordinary word
/// stands before it (`is_first`), words of other languages and kinds of warnings may be levels as well.
#[inline]
fn may_be_word_of_level(word: &[u8], is_first: bool, is_ascii: bool) -> bool {
    match word {
        _ if !is_ascii => true,
        [letter] => is_first || letter.is_ascii_uppercase(),
        [first, _] => first.is_ascii_uppercase(),
        [b'A'..=b'Z', ..] if is_first => {
            Level::may_begin(word) || level_names::may_be_foreign(word) || is_kind_of_warning(word)
        }
        _ => Level::may_begin(word),
    }
}

/// `DeprecationWarning`
#[inline]
fn is_kind_of_warning(word: &[u8]) -> bool {
    word.len() > 7 && word.ends_with(b"Warning") && word[0].is_ascii_uppercase()
}

/// The level of the word from `start` to `stop`, behind `plain` ordinary words.
fn level_at(line: &str, start: usize, stop: usize, plain: usize, is_cell: bool) -> Option<Level> {
    let bytes = line.as_bytes();
    let before = start.checked_sub(1).map(|before| bytes[before]);
    let after = bytes.get(stop).copied();
    let is_set_off = || {
        is_cell
            || is_message_of_glib(bytes, start, stop)
            || is_constant(bytes, start, stop)
            || is_of_channel(bytes, start, stop)
            || is_behind_a_place(bytes, start, stop)
    };
    if stop == start + 1
        && plain == 0
        && let Some(level) = small_letter(bytes, start)
    {
        return Some(level);
    }
    let may_be = || may_be_level(before, after, stop - start);
    let word = line.get(start..stop)?;
    let level = level_of(word, plain == 0 && (is_cell || may_be()))?;
    let is_level = (may_be() || is_set_off())
        // `SERVICE ALERT: text`
        && (level != Level::Alert || plain == 0 || matches!(bytes[..start], [.., b':' | b'['] | [.., b':', b' ']))
        && (is_marked(bytes, start, stop, word, plain) || word.len() > 2 && is_set_off());
    is_level.then_some(level)
}

/// The level of an element of XML: an attribute of its first tag, as log4j and log4net write it, or the number that events of Windows have.
fn of_element(line: &str) -> Option<(Level, usize, usize)> {
    const WITHIN: usize = 1024;
    let head = line.get(..line.floor_char_boundary(WITHIN))?;
    let tag = head.find('>').map_or(head, |end| &head[..end]);
    for name in [" level=", " Level=", " severity=", " Severity="] {
        let Some(at) = tag.find(name) else { continue };
        let start = at + name.len() + 1;
        let value = tag.get(start..)?;
        let length = value.find(['"', '\''])?;
        if let Some(level) = Level::from_word(&value[..length]) {
            return Some((level, start, start + length));
        }
    }
    let start = head.find("<Level>").or_else(|| head.find("<level>"))? + "<Level>".len();
    let word = head.get(start..)?.split('<').next()?;
    if let Some(level) = Level::from_word(word) {
        return Some((level, start, start + word.len()));
    }
    let level = match head.get(start..start + 2)? {
        "1<" => Level::Critical,
        "2<" => Level::Error,
        "3<" => Level::Warn,
        "4<" => Level::Info,
        "5<" => Level::Debug,
        _ => return None,
    };
    head.starts_with("<Event").then_some((level, start, start + 1))
}

/// A level alone in angle brackets before another group, whatever words stand before it: `1.0 Some Product <Info> (main): text`.
pub(super) fn in_angles(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    let bytes = line.as_bytes().get(from..line.len().min(from + WITHIN))?;
    let start = from + memchr::memchr(b'<', bytes)? + 1;
    let (word, rest) = line.get(start..)?.split_once('>')?;
    let next = rest.strip_prefix(' ')?;
    let is_place = || next.split(' ').next().is_some_and(|word| word.contains(".c") && word.contains(':'));
    let is_header = word.len() > 2 && (next.starts_with(['(', '[', '<']) || is_place());
    let level = Level::from_word(word).filter(|_| is_header)?;
    Some((level, start, start + word.len()))
}

/// The letter that ends the number of a message as IBM's programs write it, within the first words: `BIP2228E: text`.
pub(super) fn of_number(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    let bytes = line.as_bytes();
    let mut at = from;
    for _ in 0..NUMBER_WORDS_MAX {
        at = skip_spaces(bytes, at);
        let word = bytes.get(at..)?;
        // Few words begin with three capitals, and most with a small letter.
        if !word.first()?.is_ascii_uppercase() || !word.first_chunk::<3>()?.iter().all(u8::is_ascii_uppercase) {
            at = scan::space(bytes, at);
            continue;
        }
        let letters = word.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
        let digits = word[letters..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if (3..=6).contains(&letters) && (4..=6).contains(&digits) {
            let level = match word[letters + digits..] {
                [b'I', b':' | b' ', ..] => Level::Info,
                [b'W', b':' | b' ', ..] => Level::Warn,
                [b'E' | b'S', b':' | b' ', ..] => Level::Error,
                _ => return None,
            };
            return Some((level, at, at + letters + digits + 1));
        }
        at = scan::space(bytes, at);
    }
    None
}

/// A level in capitals alone in brackets within the first words of a message: `(?@192.0.2.4) [WARNING] text`.
pub(super) fn in_brackets(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    const WITHIN: usize = 64;
    let text = line.as_bytes().get(from..line.len().min(from + WITHIN))?;
    let start = from + memchr::memchr_iter(b'[', text).find(|at| *at > 0 && text[at - 1] == b' ')? + 1;
    let length = line.as_bytes()[start..].iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let word =
        line.get(start..start + length).filter(|word| word.len() > 2 && line[start + length..].starts_with("] "))?;
    Some((Level::from_word(word)?, start, start + length))
}

/// The level that a pair behind another pair names: `service(O): time="…" level=warning msg="text"`.
pub(super) fn paired(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    static NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(" level="));
    let text = line.as_bytes().get(from..line.len().min(from + WITHIN))?;
    let name = NAME.find(text)?;
    memchr::memchr(b'=', &text[..name])?;
    let start = from + name + NAME.needle().len();
    let value = line.get(start..)?;
    let start = start + usize::from(value.starts_with('"'));
    let word = line.get(start..)?.split([' ', '"']).next()?;
    Some((Level::from_word(word)?, start, start + word.len()))
}

/// The level in the first of the pairs of a message: `at=error code=H12 desc="Request timeout"`.
pub(super) fn first_paired(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    let word = line.get(from..)?.strip_prefix("at=")?.split(' ').next()?;
    let start = from + "at=".len();
    Some((Level::from_word(word)?, start, start + word.len()))
}

/// The severity of syslog behind the word for a log, as stunnel writes it after the time: `LOG3[0]: text`; or behind a
/// sign at the start of a line with columns: `%3|1763712001.123|text`.
pub(super) fn numbered(line: &str, after_time: usize) -> Option<(Level, usize, usize)> {
    if let [b'%', digit @ b'0'..=b'7', b'|', ..] = line.as_bytes() {
        return Some((crate::level_names::of_priority(digit - b'0'), 1, 2));
    }
    let start = skip_spaces(line.as_bytes(), after_time) + "LOG".len();
    let [b'L', b'O', b'G', digit @ b'0'..=b'7', b'[', ..] = line.as_bytes().get(start - "LOG".len()..)? else {
        return None;
    };
    Some((crate::level_names::of_priority(digit - b'0'), start, start + 1))
}

/// The bytes of a sign that is no letter, at the start of a text: a dot, an arrow, a frame, a picture.
#[inline]
fn symbol(text: &[u8]) -> Option<usize> {
    match text {
        [0xc2, last, ..] if !matches!(last, 0xaa | 0xb5 | 0xba) => Some(2),
        [0xe2, 0x80..=0xaf, _, ..] | [0xef, 0xb8, 0x8f, ..] => Some(3),
        [0xf0, 0x9f, _, _, ..] => Some(4),
        _ => None,
    }
}

/// The level of a small letter in a group of its own before another group: `[   0.012][e][ffmpeg] text`, `<e> [server] text`;
/// or before a place or a sentence: `w: file:///App.kt:3:5 text`, `w: Detected text`.
fn small_letter(bytes: &[u8], start: usize) -> Option<Level> {
    let is_set_off = match (&bytes[..start], bytes.get(start + 1..)?) {
        (before @ [.., b'['], [b']', b'[', b'a'..=b'z' | b'A'..=b'Z', ..]) => start == 1 || before.ends_with(b"]["),
        (b"<", [b'>', b' ', b'[', ..]) => true,
        (b"", rest) => {
            rest.starts_with(b": file:")
                || matches!(bytes[0], b'w' | b'e') && matches!(rest, [b':', b' ', b'A'..=b'Z', b'a'..=b'z', ..])
        }
        _ => false,
    };
    let byte = bytes[start];
    (is_set_off && byte.is_ascii_lowercase() && byte != b'a').then(|| letter(byte.to_ascii_uppercase())).flatten()
}

/// `file.c:12-warning: text`, `name[1234].WAR-file.cpp`, `|-INFO in text`
fn is_behind_a_place(bytes: &[u8], start: usize, stop: usize) -> bool {
    match (bytes[..start].last(), bytes.get(stop)) {
        (Some(b'-'), Some(b':')) => start > 1 && bytes[start - 2].is_ascii_digit(),
        (Some(b'.'), Some(b'-')) => start > 1 && bytes[start - 2] == b']',
        (Some(b'-'), Some(b' ')) => bytes[..start].ends_with(b"|-"),
        _ => false,
    }
}

#[inline]
fn is_letter(byte: u8) -> bool {
    LETTERS[usize::from(byte)]
}

/// Whether a byte belongs to a letter: a table, because each byte of a head is asked.
const LETTERS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < u8::MAX {
        table[byte as usize] = byte.is_ascii_alphabetic() || !byte.is_ascii();
        byte += 1;
    }
    table[u8::MAX as usize] = true;
    table
};

/// Whether the signs around a word allow a level: a cheap test before [`level_of`] and [`is_marked`].
#[inline]
fn may_be_level(before: Option<u8>, after: Option<u8>, length: usize) -> bool {
    length <= LEVEL_BYTES_MAX
        && !matches!(before, Some(b'0'..=b'9' | b'-' | b'_' | b'.' | b'"' | b'\''))
        && matches!(
            after,
            None | Some(
                b' ' | b'\t' | b']' | b')' | b'>' | b':' | b'[' | b'|' | b'!' | b'/' | b',' | b'(' | b'#' | b'.' | b'*'
            )
        )
}

/// The level of a word. Some words are levels only where nothing else stands before them.
fn level_of(word: &str, is_first: bool) -> Option<Level> {
    if let [first, second] = word.as_bytes() {
        return two_letters(*first, *second);
    }
    if word.len() == 1 {
        return letter(word.as_bytes()[0]);
    }
    Level::from_word(word)
        .or_else(|| foreign(word, is_first))
        .or_else(|| (is_first && is_kind_of_warning(word.as_bytes())).then_some(Level::Warn))
}

/// Whether the signs around a word show that it is a level.
fn is_marked(bytes: &[u8], start: usize, stop: usize, word: &str, plain: usize) -> bool {
    let before = start.checked_sub(1).map(|before| bytes[before]);
    let after = bytes.get(stop..).unwrap_or_default();
    let is_capital = word.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_named_large = word.starts_with(|first: char| first.is_ascii_uppercase());
    let is_bordered = before.is_none_or(|byte| {
        !byte.is_ascii_alphanumeric()
            && !matches!(byte, b'-' | b'_' | b'.' | b'"' | b'\'')
            // `=ERROR REPORT====`
            && (byte != b'=' || is_alone(bytes, start))
    });
    if !is_bordered {
        return matches!(after, [] | [b' ', ..]) && is_named(bytes, start);
    }
    let is_spaced = before.is_none_or(|byte| matches!(byte, b' ' | b'\t'));
    match word.len() {
        1 => {
            return is_spaced && matches!(after, [b'!' | b'>', b' ', ..]) && plain == 0
                // `E: text`
                || before.is_none() && after.starts_with(b": ") && matches!(word, "D" | "I" | "W" | "E" | "F")
                // `·W 0:03:12.633347 text`
                || plain == 0 && before.is_some_and(|byte| !byte.is_ascii()) && matches!(after, [b' ', b'0'..=b'9', ..])
                || before == Some(b'|') && after.starts_with(b"|")
                || plain == 0 && before == Some(b'\t') && matches!(after, [b' ', b'A'..=b'Z' | b'a'..=b'z', ..])
                // `[E::hts_open] text`
                || bytes[..start] == *b"[" && after.starts_with(b"::")
                // `E. 11/21 08:00:01. text`, `[ E | rpc | Nov 21 08:00:01 ] text`
                || before.is_none() && matches!(after, b". " | [b'.', b' ', b'0'..=b'9', ..])
                || bytes[..start] == *b"[ " && after.starts_with(b" |")
                // `[Parent 1234: Main Thread]: D/nsHttp text`
                || plain < 2 && word != "A" && matches!(bytes[..start], [.., b']', b':', b' '] | [.., b']', b' ']) && is_tag(after)
                // `app/shop.rb:3:5: W: text`
                || plain == 0 && matches!(bytes[..start], [.., b'0'..=b'9', b':', b' ']) && after.starts_with(b": ") && matches!(word, "I" | "W" | "E" | "F")
                // `0.00.123.456 I main: text`
                || plain == 0 && word != "A" && is_spaced && is_uptime(&bytes[..start]) && is_before_colon(after)
                // `[TASK_MANAGER    ]I: text`
                || plain == 0 && before == Some(b']') && after.starts_with(b": ") && matches!(word, "D" | "I" | "W" | "E" | "F")
                // A column of letters: `T-140   E BROKER`.
                || plain == 0 && word != "A" && bytes[..start].ends_with(b"  ") && matches!(after, [b' ', b'A'..=b'Z', ..]);
        }
        2 if is_capital => return before == Some(b'(') && after.starts_with(b") "),
        2 => return before_a_number(&bytes[start..]).is_some(),
        _ => {}
    }
    // `| WARN  | text`
    if before == Some(b' ') && matches!(after, [b' ', ..]) {
        let is_bar = |byte: Option<&u8>| byte == Some(&b'|');
        if is_bar(bytes[..start].iter().rfind(|byte| **byte != b' '))
            && is_bar(after.iter().find(|byte| **byte != b' '))
        {
            return true;
        }
    }
    let is_wide = |text: &[u8]| matches!(text, [b' ', b' ', ..] | [b'\t', ..]);
    let is_set_apart = before == Some(b'\t') || start > 1 && matches!(bytes.get(start - 2..start), Some(b"  "));
    match after {
        [b']' | b')' | b'>', ..] if !is_spaced => {
            matches!(before, Some(b'[' | b'(' | b'<' | b'#' | b':' | b'/' | b'|'))
        }
        // The bracket that holds the time: `[main(----) 2026.11.21 08:00:01.123 INF] text`.
        [b']', b' ', ..] => is_capital && plain < 2,
        // What stands before a time: `name:WARNING:2025-11-21 …`; `Proxy:INFO: text`.
        [b':'] | [b':', b' ', ..] if is_capital && before == Some(b':') => true,
        // `bpbkar Exit: ERR - text`, `EAL: Error - text`
        [b' ', b'-', b' ', ..] if is_named_large && bytes[..start].ends_with(b": ") => true,
        [b':'] | [b':', b' ' | b'\t', ..] => plain < 2 || plain == 2 && is_behind_a_name(&bytes[..start], is_capital),
        // `*ERROR* [thread] text`, `*ERROR*: text`
        [b'*', b' ' | b':', ..] | [b'*', b'*', b' ', ..] => before == Some(b'*'),
        [b':', b':', ..] => before == Some(b':'),
        // `0024:err:module:load text`, `0123.456:0024:warn:module:load text`
        [b':', next, ..] if next.is_ascii_alphabetic() && before == Some(b':') => {
            start > 1 && bytes[..start - 1].iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        }
        // `ERROR:core:connect: text`
        [b':', next, ..] if next.is_ascii_alphabetic() => plain == 0 && is_spaced && word.len() > 3,
        [b' ', rest @ ..] if rest.trim_ascii_start().starts_with(b":") => plain < 2,
        [b'[', b'0'..=b'9', ..] => plain == 0,
        [b'[', b'A'..=b'Z' | b'a'..=b'z', ..] => plain == 0 && is_capital && is_spaced,
        // `main.cpp:12     WARN| text`
        [b'|', b' ', ..] if is_capital && is_set_apart => plain < 2,
        // `(name) Warning! text`, `npm ERR! text`
        [b'!', b' ', ..] if is_spaced && (is_capital || matches!(bytes[..start], [.., b')' | b']', b' '])) => plain < 2,
        [b'|' | b'>' | b'!' | b'/', ..] => plain == 0 && (is_capital || before.is_none() || is_spaced),
        // `],123456, Info, Starter, text`
        [b',', b' ', ..] if (plain == 0 || is_capital && plain == 1) && bytes[..start].ends_with(b", ") => true,
        [b',', ..] => matches!(before, Some(b':')),
        [b'#', ..] => before == Some(b'#'),
        [b' ', b'(', b'0'..=b'9', b')', ..] => is_set_apart,
        // `Local/Sample/1234/Info(1051034)`
        [b'(', b'0'..=b'9', ..] if before == Some(b'/') => plain == 0,
        // `(P1234-T5678)Info ( 123): text`
        [b'(', b' ', ..] | [b' ', b'(', ..] if before == Some(b')') => plain == 0,
        // `Table output.0 - ERROR (version 9.4) : text`
        [b' ', b'(', ..] if is_capital && bytes[..start].ends_with(b" - ") => true,
        [b' ', b'[', ..] => plain < 2 && is_spaced,
        // `T:1234    info <general>: text`
        [b' ', b'<', b'a'..=b'z', rest @ ..] if plain < 2 && is_spaced => is_name_in_angles(rest),
        // `tar Info <5008>: text`
        [b' ', b'<', b'0'..=b'9', ..] => plain < 2 && is_spaced,
        // `Warning 1: text`
        [b' ', b'0'..=b'9', b':', b' ', ..] if start == 0 => true,
        // `CMake Warning at CMakeLists.txt:3 (message):`
        [b' ', b'a', b't', b' ', rest @ ..] if is_named_large && plain < 2 => is_with_a_colon(rest),
        // `error CS1002: text`
        [b' ', b'A'..=b'Z', rest @ ..] if is_code(rest) => plain < 2,
        // `docker: Error response from daemon: text`
        [b' ', rest @ ..] if is_named_large && is_from(rest) => start == 0 || bytes[..start].ends_with(b": "),
        // `Error in <File::open>: text`, `ERROR in ./src/x.js 3:5`
        [b' ', b'i', b'n', b' ', rest @ ..] if start == 0 => {
            is_place_of_error(rest) || rest.starts_with(b"/") || is_capital && rest.starts_with(b"./")
        }
        // `warn  - text`
        rest if plain == 0 && is_spaced && is_before_a_sign(rest) => true,
        rest if is_wide(rest) => is_set_apart || is_spaced && plain == 0 && (is_capital || is_named_large && start > 0),
        // `Fatal error: text`, `Warning message:`
        [b' ', rest @ ..] if rest.starts_with(b"error:") || rest.starts_with(b"message:") => plain < 2,
        [] | [b' ', ..] if is_named(bytes, start) => true,
        // `LedgerMaster:WRN text`
        [b' ', ..] if before == Some(b':') && is_capital && plain < 2 => true,
        // `1234 0x7f01 warning MediaObject text`, `[1] 2025-11-21T08:00:01.123Z catalog info Started`
        [b' ', b'A'..=b'Z', ..] if plain < 2 && is_alone(bytes, start) && start > 0 => {
            let last = bytes[..start - 1].rsplit(|byte| *byte == b' ').next().and_then(<[u8]>::first);
            plain == 0 || !is_named_large && last.is_some_and(u8::is_ascii_lowercase)
        }
        [] | [b' ', ..] => plain == 0 && (!word.is_ascii() || is_capital && is_alone(bytes, start)),
        _ => false,
    }
}

/// Whether a word with a colon stands before a level, padded or not, or a dash before one in capitals.
fn is_behind_a_name(before: &[u8], is_capital: bool) -> bool {
    before.ends_with(b" ") && before.trim_ascii_end().ends_with(b":") || is_capital && before.ends_with(b" - ")
}

/// Whether digits with dots between them are all that stands before a letter.
fn is_uptime(before: &[u8]) -> bool {
    let before = before.trim_ascii();
    before.len() > 6 && before.contains(&b'.') && before.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Whether the next word ends in a colon.
fn is_before_colon(after: &[u8]) -> bool {
    after.split(|byte| *byte == b' ').nth(1).is_some_and(|word| word.len() > 2 && word.ends_with(b":"))
}

/// Whether a slash and a name of three characters or more follow a letter: not in `I/O`.
fn is_tag(after: &[u8]) -> bool {
    matches!(after, [b'/', rest @ ..] if rest.iter().take(3).filter(|byte| byte.is_ascii_alphanumeric()).count() == 3)
}

/// Whether the word before a level names it: `LEVEL: Warning`, `level=warning`.
fn is_named(bytes: &[u8], start: usize) -> bool {
    let before = bytes.get(start.saturating_sub(10)..start).unwrap_or_default().to_ascii_lowercase();
    [&b"level: "[..], b"severity: ", b"level=", b"severity="].iter().any(|name| before.ends_with(name))
}

/// Whether a word is the whole text between two commas or semicolons, or the commas and quotes of such a text, without
/// spaces; or between two tabs, padded or not.
fn is_cell(bytes: &[u8], start: usize, stop: usize) -> bool {
    match (start.checked_sub(1).map(|before| bytes[before]), bytes.get(stop)) {
        (Some(b'"'), Some(b'"')) => {
            start.checked_sub(2).is_none_or(|before| bytes[before] == b',') && bytes.get(stop + 1) == Some(&b',')
        }
        (Some(b','), Some(b',')) | (Some(b';'), Some(b';')) => true,
        (Some(b','), Some(b' ')) => is_end_of_topics(&bytes[..start - 1]),
        (Some(b'\t'), Some(b'\t' | b' ')) => {
            bytes[stop..].iter().find(|byte| **byte != b' ').is_some_and(|byte| *byte == b'\t')
        }
        _ => false,
    }
}

/// Whether words in small letters with commas between them alone stand between a time and the last of them:
/// `08:00:05 interface,info text`.
fn is_end_of_topics(before: &[u8]) -> bool {
    let is_topic = |byte: &&u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b',');
    let topics = before.iter().rev().take(LEVEL_BYTES_MAX).take_while(is_topic).count();
    topics > 1 && matches!(before[..before.len() - topics], [.., b'0'..=b'9' | b'Z' | b']', b' '])
}

/// Whether a sign that is neither a letter nor a digit follows behind spaces.
fn is_before_a_sign(after: &[u8]) -> bool {
    let rest = after.trim_ascii_start();
    rest.len() < after.len() && rest.first().is_some_and(|next| !next.is_ascii_alphanumeric())
}

/// Whether the first word of a text has a colon within: `CMakeLists.txt:3`.
fn is_with_a_colon(text: &[u8]) -> bool {
    text.iter().take_while(|byte| **byte != b' ').any(|byte| *byte == b':')
}

/// Whether small letters, a closing angle and a colon go on a text.
fn is_name_in_angles(text: &[u8]) -> bool {
    let letters = text.iter().take(LEVEL_BYTES_MAX).take_while(|byte| byte.is_ascii_lowercase()).count();
    text[letters..].starts_with(b">: ")
}

/// Whether capitals, digits and a colon begin a text.
fn is_code(text: &[u8]) -> bool {
    let letters = text.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let digits = text[letters..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    letters < 6 && digits > 1 && text[letters + digits..].starts_with(b": ")
}

/// Whether words with a colon behind them say where an error comes from.
fn is_from(text: &[u8]) -> bool {
    let head = &text[..text.len().min(80)];
    memchr::memmem::find(head, b": ").is_some_and(|end| memchr::memmem::find(&head[..end], b"from ").is_some())
}

/// Whether one word with a colon behind it begins a text.
fn is_place_of_error(text: &[u8]) -> bool {
    let word = text.iter().take(80).take_while(|byte| **byte != b' ').count();
    matches!(&text[..word], [_, .., b':']) || text[word..].starts_with(b" : ")
}

/// `LOG_ERROR  root  text`, and `TL_ERROR(name) text` at the start of a line.
fn is_constant(bytes: &[u8], start: usize, stop: usize) -> bool {
    if let Some(name) = bytes[..start].strip_suffix(b"_").filter(|name| (2..=4).contains(&name.len())) {
        return name.iter().all(u8::is_ascii_uppercase) && bytes.get(stop) == Some(&b'(');
    }
    let before = bytes[..start].strip_suffix(b"LOG_");
    before.is_some_and(|before| matches!(before, [] | [.., b' ' | b'\t' | b'[']))
        && matches!(bytes.get(stop), Some(b' ' | b'\t' | b']'))
}

/// `[channel.ERROR]: text`
fn is_of_channel(bytes: &[u8], start: usize, stop: usize) -> bool {
    let Some(channel) = bytes[..start].strip_suffix(b".") else { return false };
    let name = channel.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    name > 0
        && channel[..channel.len() - name].ends_with(b"[")
        && bytes.get(stop) == Some(&b']')
        && bytes[start..stop].iter().all(u8::is_ascii_uppercase)
}

/// `Gjs-WARNING **: text`
fn is_message_of_glib(bytes: &[u8], start: usize, stop: usize) -> bool {
    start > 0 && bytes[start - 1] == b'-' && bytes[stop..].starts_with(b" **")
}

/// Whether a word stands at the start, after a space, or after the `=` that begins an Erlang report.
fn is_alone(bytes: &[u8], start: usize) -> bool {
    let is_space = |at: usize| matches!(bytes[at], b' ' | b'\t');
    match start {
        0 | 1 => true,
        _ => is_space(start - 1) || bytes[start - 1] == b'=' && is_space(start - 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_around_a_level_set_it_apart() {
        let level = |line| in_angles(line, 0).map(|found| found.0);
        assert_eq!(level("1.2 Some Large Product GE 14 <Warning> (thread=main): late"), Some(Level::Warn));
        assert_eq!(level("the page has an <error> in it"), None);
        assert_eq!(level("a < b"), None);
    }

    #[test]
    fn the_letter_behind_the_number_of_a_message_is_its_level() {
        let level = |line| of_number(line, 0).map(|found| found.0);
        assert_eq!(level(" BIP2228E: late"), Some(Level::Error));
        assert_eq!(level(" 1A2B main CWWKF0011I: ready"), Some(Level::Info));
        assert_eq!(level(" 1A2B server1 A   WSVR0001I: open"), Some(Level::Info));
        assert_eq!(level(" one two three four BIP2228E: late"), None);
        assert_eq!(level(" ABC1234X late"), None);
        assert_eq!(level(" ISO8601 late"), None);
    }

    #[test]
    fn the_signs_around_a_word_make_it_a_level() {
        for (line, expected) in [
            ("queries: info: client", Some(Level::Info)),
            ("unbound[7:0] error: text", Some(Level::Error)),
            ("x.py[WARNING]: text", Some(Level::Warn)),
            ("warning/ApiListener: text", Some(Level::Warn)),
            ("NOTICE[123][C-1]: text", Some(Level::Notice)),
            ("[main#critical] text", Some(Level::Critical)),
            ("In(05) vmx - text", Some(Level::Info)),
            ("E! text", Some(Level::Error)),
            ("ОШИБКА нет связи", Some(Level::Error)),
            ("the error: it was late", Some(Level::Error)),
            ("ERROR> app.pl:12", Some(Level::Error)),
            ("PHP Fatal error:  x", Some(Level::Fatal)),
            ("I1234E456    LEVEL: Warning", Some(Level::Warn)),
            ("=INFO REPORT==== x", Some(Level::Info)),
            ("\"10.0.0.1\",\"ERROR\",\"disk\" late", Some(Level::Error)),
            (",Warning,DAQmx,late", Some(Level::Warn)),
            ("(gjs:7): Gjs-WARNING **: late", Some(Level::Warn)),
            ("main#WARN#late", Some(Level::Warn)),
            ("::WARN::[news:7] late", Some(Level::Warn)),
            ("E. 11/21 08:00:01. late", Some(Level::Error)),
            ("oaeventd;error;late", Some(Level::Error)),
            ("- [Parent 1234: Main Thread]: D/nsHttp late", Some(Level::Debug)),
            ("[disk]: I/O error", None),
            ("0024:err:module:load late", Some(Level::Error)),
            ("E. coli", None),
            ("[ E | rpc  | 12 | Nov 21 08:00:01 ] late", Some(Level::Error)),
            ("w3wp.exe (0x1A)\tSome Product \tGeneral   \t8nca\tWarning \tlate", Some(Level::Warn)),
            ("[7] ERROR:core:connect: late", Some(Level::Error)),
            ("P-1234       T-140   E BROKER  0: late", Some(Level::Error)),
            ("1234 0x7f01 warning MediaObject late", Some(Level::Warn)),
            ("[web] a=1 level=warning late", Some(Level::Warn)),
            ("Text file input.0 - ERROR: late", Some(Level::Error)),
            ("E: late", Some(Level::Error)),
            ("C: late", None),
            ("main/103/init.lua I> late", Some(Level::Info)),
            ("[08:00:01] E/launcher - late", Some(Level::Error)),
            ("·W 0:03:12.633347 {main} late", Some(Level::Warn)),
            ("┌ Warning: late", Some(Level::Warn)),
            ("KID (shop) Warning! late", Some(Level::Warn)),
            ("PID[1234] Error       late", Some(Level::Error)),
            ("avtar Info <5008>: late", Some(Level::Info)),
            ("[main thread     ]             main.cpp:12     WARN| late", Some(Level::Warn)),
            ("Error in <File::open>: late", Some(Level::Error)),
            ("[   0.012][e][ffmpeg] late", Some(Level::Error)),
            ("<e> [server] late", Some(Level::Error)),
            ("[7] connection /src/connection.c:12-warning: late", Some(Level::Warn)),
            ("zmc_m1[1234].WAR-zm_monitor.cpp/42 [late]", Some(Level::Warn)),
            ("TL_ERROR(TF_PROTOCOL) [web-1] late", Some(Level::Error)),
            ("(P1234-T5678)Error( 456): late", Some(Level::Error)),
            ("Warning 1: late", Some(Level::Warn)),
            ("Error in the file", None),
            ("warning in /etc/local.zeek, line 12: late", Some(Level::Warn)),
            ("[DISK    ]E: late", Some(Level::Error)),
            ("a[i]E: late", Some(Level::Error)),
            ("a[i]X: late", None),
            ("warn  - late", Some(Level::Warn)),
            ("w: file:///App.kt:3:5 late", Some(Level::Warn)),
            ("w: 2", None),
            ("w: Detected late", Some(Level::Warn)),
            ("x: Detected late", None),
            ("npm ERR! late", Some(Level::Error)),
            ("EAL: Error - late", Some(Level::Error)),
            ("an error - late", None),
            ("Warning message:", Some(Level::Warn)),
            ("Error response from daemon: late", Some(Level::Error)),
            ("docker: Error response from daemon: late", Some(Level::Error)),
            ("Error rate of today: 1", None),
            ("/src/Program.cs(3,5): error CS1002: late", Some(Level::Error)),
            ("CMake Warning at CMakeLists.txt:3 (message):", Some(Level::Warn)),
            ("The Warning at noon", None),
            (" ⚠ late", Some(Level::Warn)),
            ("⨯ error: late", Some(Level::Error)),
            ("a ⚠ sign", None),
            ("app/shop.rb:3:5: W: late", Some(Level::Warn)),
            ("0.00.123.456 W main: late", Some(Level::Warn)),
            ("3.5 I think: late", None),
            ("(node:7) [DEP0040] DeprecationWarning: late", Some(Level::Warn)),
            ("a DeprecationWarning was written", None),
            (" =ERROR REPORT==== late", Some(Level::Error)),
            ("x=ERROR late", None),
            ("ERROR in ./src/x.js 3:5", Some(Level::Error)),
            ("bdev.c:12:register: *ERROR*: late", Some(Level::Error)),
            ("catalog info Late", Some(Level::Info)),
            ("The info Desk", None),
            ("[i][0] late", None),
            ("a[i][0] late", None),
            ("Disk error! late", None),
            ("general: alert: late", Some(Level::Alert)),
            ("T:1234 warning <general>: late", Some(Level::Warn)),
            ("T:1234 warning <general> late", None),
            ("Table output.0 - ERROR (version 9.4) : late", Some(Level::Error)),
            ("[ZONE-1022], 123, CHASSIS, INFO, sw1, late", Some(Level::Info)),
            ("one, two, info, late", None),
            ("SERVICE ALERT: late", None),
            ("there was an error: late", None),
            ("Total ERROR count", None),
            ("A thing", None),
            ("information_schema read", None),
            ("INFO-5 up", None),
            ("\"error: x\"", None),
            ("", None),
        ] {
            assert_eq!(level(line, 0).map(|found| found.0), expected, "{line}");
        }
    }
}
