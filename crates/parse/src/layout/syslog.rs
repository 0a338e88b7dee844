//! Syslog lines.
//!
//! ```text
//! <134>1 2026-11-20T00:05:45.6Z web-17 sshd 1026 ID47 [a@1 k="v"] text        RFC 5424
//! <34>Oct 11 22:14:15 web-17 su[123]: text                                   RFC 3164
//! Oct 11 22:14:15 web-17 su[123]: text                                       the same in a file, without its priority
//! 2026-11-20T00:05:45.6+01:00 web-17 su[123]: text                           the same, as rsyslog writes it today
//! ```
//!
//! The priority gives level and facility. Without it the severity that a daemon writes in its place (`local0.err`), or
//! that of a device's mark (`%LINK-3-UPDOWN`), gives the level; a word in the text does not count. A tag ends with `:` or has a process after it. It may contain a version (`syslogd 1.4.1:`), and macOS
//! adds a second name in parentheses. Text without a tag stays in the message, so `last message repeated 2 times` stays
//! whole.

use super::facility::{facility_name, may_be_named, named_facility, named_severity};
use super::general::LineHeader;
use super::shape::{Token, WordKind, before_a_number, closing, token};
use super::sketch::Sketch;
use crate::level_names;
use crate::pairs::{skip_spaces, typed};
use crate::scan;
use crate::timestamp::{self, Form, TimestampDefaults};
use daytable_model::record::{Field, Level, Value};
use memchr::{memchr, memchr2, memrchr};
use std::borrow::Cow;

/// Bytes of a tag. RFC 3164 allows 32, which programs ignore.
const TAG_BYTES_MAX: usize = 128;

/// `<PRI>` at the start of a line, and the place after it.
pub(super) fn priority(line: &str) -> Option<(u8, usize)> {
    let bytes = line.as_bytes();
    let length = bytes.get(1..)?.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    let number: u8 = line.get(1..=length)?.parse().ok().filter(|number| *number < 192)?;
    (bytes.first() == Some(&b'<') && bytes.get(length + 1) == Some(&b'>')).then_some((number, length + 2))
}

/// Adds level and facility of a priority.
pub(super) fn add_priority(sketch: &mut Sketch<'_>, priority: u8, end: usize) {
    sketch.level(level_names::of_priority(priority), 0, end);
    if let Some(name) = facility_name(priority / 8) {
        sketch.text("facility", name);
    }
}

/// The severity of a device's mark among the first words after a time, and its place.
pub(super) fn mark_severity(line: &str, from: usize) -> Option<(Level, usize, usize)> {
    let rest = line.get(from..)?;
    let head = rest.as_bytes().get(..rest.len().min(ORIGIN_BYTES_MAX))?;
    let start = memchr(b'%', head).filter(|at| *at > 0)?;
    let mark = rest.get(start..)?.split([':', ' ']).next()?;
    let is_mark = rest.as_bytes()[start - 1] == b' ' && rest[start + mark.len()..].starts_with(':');
    Some((marked_severity(mark).filter(|_| is_mark)?, from + start, from + start + mark.len()))
}

/// The severity in the mark of a device: `%LINK-3-UPDOWN`, `%%10IFNET/3/PHY_UPDOWN`.
fn marked_severity(mark: &str) -> Option<Level> {
    let severity = |part: &str| match part.as_bytes() {
        [digit @ b'0'..=b'7'] => Some(level_names::of_priority(digit - b'0')),
        _ => None,
    };
    mark.strip_prefix('%')?.split(['-', '/']).skip(1).find_map(severity)
}

/// The severity behind the name of a program, in the header from `from` to `until`: `broker.err[0]: text`.
pub(super) fn tag_severity(line: &str, from: usize, until: usize) -> Option<(Level, usize, usize)> {
    let tag = line.as_bytes().get(from..until)?;
    let end = from + memchr(b'[', tag)?;
    let start = from + memrchr(b'.', &tag[..end - from])? + 1;
    let word = line.get(start..end).filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()))?;
    Some((Level::from_word(word)?, start, end))
}

/// A severity at `at`, perhaps in brackets, with its place and the place after it.
fn severity_at(line: &str, at: usize) -> Option<(Level, usize, usize)> {
    let first = *line.as_bytes().get(at)?;
    // The priority that a relay left behind its own header.
    if first == b'<'
        && let Some((priority, length)) = priority(line.get(at..)?)
    {
        // `<1> web-1(1234) [main] text`: a number of one digit before a process in round brackets is of another scale.
        if length == 3 && is_before_process(line, at + length) {
            return None;
        }
        return Some((level_names::of_priority(priority), at, at + length));
    }
    if matches!(first, b'[' | b'(' | b'{' | b'<') {
        let token = token(line, at).filter(|token| token.mark == 0)?;
        let WordKind::Group(word) = token.kind else { return None };
        return Some((named_severity(word)?, token.start, token.end));
    }
    let word = &line.as_bytes()[at..];
    if let Some((level, length)) = before_a_number(word) {
        return Some((level, at, at + length));
    }
    may_be_named(word).then_some(())?;
    let end = scan::space(line.as_bytes(), at);
    Some((named_severity(line.get(at..end)?)?, at, end))
}

/// Whether a name with the number of its process in round brackets follows, and a group behind that.
#[cold]
fn is_before_process(line: &str, at: usize) -> bool {
    let at = skip_spaces(line.as_bytes(), at);
    let (word, rest) = line.get(at..).and_then(|rest| rest.split_once(' ')).unwrap_or_default();
    let process = word.strip_suffix(')').and_then(|word| word.split_once('('));
    rest.starts_with('[') && process.is_some_and(|(_, process)| super::shape::is_number(process))
}

/// Reads the header after `VERSION `. Returns the place of the message, or `None` if the line is not RFC 5424.
pub(super) fn rfc_5424<'a>(
    line: &'a str,
    at: usize,
    defaults: &TimestampDefaults,
    sketch: &mut Sketch<'a>,
    is_lenient: bool,
) -> Option<usize> {
    let mut at = at;
    let mut word = || -> Option<&'a str> {
        let end = scan::space(line.as_bytes(), at);
        let word = line.get(at..end)?;
        at = end + 1;
        (!word.is_empty()).then_some(word)
    };
    let time = word()?;
    let (host, app, process, message_id) = (word()?, word()?, word()?, word()?);
    if time != "-" {
        let stamp = timestamp::at_start(time.as_bytes(), defaults).filter(|stamp| stamp.length == time.len())?;
        let start = time.as_ptr() as usize - line.as_ptr() as usize;
        sketch.stamp(start, stamp);
    }
    for (name, value) in [("host", host), ("component", app)] {
        if value != "-" && value != ":" {
            sketch.text(name, value);
        }
    }
    // Some devices leave all out that stands behind the program: `1 1763712001.123456789 MX84 flows src=192.0.2.4`.
    let is_text = |word: &str| word != "-" && !super::shape::is_number(word);
    let is_short = is_text(process) && message_id != "-" && !matches!(line.as_bytes().get(at), Some(b'-' | b'['));
    if is_lenient && is_short {
        return Some(process.as_ptr() as usize - line.as_ptr() as usize);
    }
    if process != "-" {
        sketch.pid(process);
    }
    if message_id != "-" {
        sketch.text("message_id", message_id);
    }
    // Some devices leave the structured data out, or write other text in its place.
    structured(line, at, sketch).or_else(|| is_lenient.then_some(at.min(line.len())))
}

/// Reads the structured data at `at`, and returns the place of the message.
fn structured<'a>(line: &'a str, at: usize, sketch: &mut Sketch<'a>) -> Option<usize> {
    let bytes = line.as_bytes();
    let mut at = at;
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    } else {
        while bytes.get(at) == Some(&b'[') {
            at = element(line, at + 1, sketch)?;
        }
    }
    match bytes.get(at) {
        None => Some(at),
        Some(b' ') => {
            let at = at + 1;
            Some(if line.get(at..).is_some_and(|rest| rest.starts_with('\u{feff}')) { at + 3 } else { at })
        }
        _ => None,
    }
}

/// Reads `id name="value" …]`, and returns the place after it.
fn element<'a>(line: &'a str, at: usize, sketch: &mut Sketch<'a>) -> Option<usize> {
    let bytes = line.as_bytes();
    let end = at + bytes.get(at..)?.iter().position(|byte| matches!(byte, b' ' | b']'))?;
    let id = line.get(at..end).filter(|id| !id.is_empty())?;
    let mut at = end;
    loop {
        at = skip_spaces(bytes, at);
        if bytes.get(at) == Some(&b']') {
            return Some(at + 1);
        }
        let equals = at + bytes.get(at..)?.iter().position(|byte| *byte == b'=')?;
        let name = line.get(at..equals).filter(|name| !name.contains([' ', ']', '"']))?;
        if bytes.get(equals + 1) != Some(&b'"') {
            return None;
        }
        let (start, mut close) = (equals + 2, equals + 2);
        loop {
            close += memchr2(b'"', b'\\', bytes.get(close..)?)?;
            if bytes.get(close) == Some(&b'"') {
                break;
            }
            close += 2;
        }
        let value = unescape(line.get(start..close)?);
        sketch.fields().push(Field { name: Cow::Owned(format!("{id}.{name}")), value: Value::String(value) });
        at = close + 1;
    }
}

/// Replaces `\"`, `\\` and `\]` by the character after the backslash.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match characters.peek() {
            Some(escaped @ ('"' | '\\' | ']')) if character == '\\' => {
                plain.push(*escaped);
                characters.next();
            }
            _ => plain.push(character),
        }
    }
    Cow::Owned(plain)
}

/// Reads what devices write before the time: counters, the host, a task and a mark, and the time itself.
///
/// ```text
/// 45: sw1: *Nov 21 08:00:01.123: %LINK-3-UPDOWN: text
/// 312: xr1 RP/0/RSP0/CPU0:Nov 21 08:00:01.123 : ifmgr[204]: text
/// : 2026 Nov 21 08:00:01 UTC: %ETHPORT-5-IF_UP: text
/// 99: 2w3d: %SYS-5-RESTART: text
/// ```
pub(super) fn before_the_time<'a>(header: &mut LineHeader<'a>, defaults: &TimestampDefaults) -> bool {
    let (line, from) = (header.line, header.at);
    let bytes = line.as_bytes();
    // In most messages the first word is neither a counter nor a name with a colon.
    let first = bytes.get(from..scan::space(bytes, from)).unwrap_or_default();
    if !first.iter().any(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'*' | b'.')) {
        return false;
    }
    let begins = |at: &usize| *at == from || matches!(bytes[*at - 1], b' ' | b':' | b'*' | b'.');
    // Each piece before the time must be a name or a number: behind another word none is searched.
    let may_follow = |at: usize| at == from || bytes[at - 1] != b' ' || line.get(from..at).is_some_and(is_origin);
    let found = (from..bytes.len().min(from + ORIGIN_BYTES_MAX))
        .take_while(|at| bytes[*at] != b'%' && may_follow(*at))
        .filter(begins)
        .find_map(|at| {
            let stamp = header.stamp_at(at, defaults).filter(|stamp| stamp.form != Form::Epoch || at > from)?;
            Some((at, stamp))
        });
    match found {
        Some((at, _)) if at == from => return false,
        Some((at, stamp)) if is_origin(line.get(from..at).unwrap_or_default()) => {
            add_origin(header, line.get(from..at).unwrap_or_default());
            header.at = at;
            header.take_stamp(stamp);
        }
        Some(_) => return false,
        None => {
            // A counter, or the time since the start of the device, before a mark.
            let head = line.get(from..line.floor_char_boundary(from + ORIGIN_BYTES_MAX)).unwrap_or_default();
            let before = head.split_once('%').map(|(before, _)| before).filter(|before| {
                before.starts_with(|first: char| first.is_ascii_digit()) && before.ends_with(": ") && is_origin(before)
            });
            let Some(before) = before else { return false };
            header.sketch.text("origin", before.trim_end_matches([':', ' ']));
            header.at = from + before.len();
            return true;
        }
    }
    header.skip();
    if bytes.get(header.at..).is_some_and(|rest| rest.starts_with(b": ")) {
        header.at += 1;
        header.skip();
    }
    true
}

/// Bytes before the time of a device.
const ORIGIN_BYTES_MAX: usize = 64;

/// The pieces of what stands before the time, without their marks.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').map(|piece| piece.trim_end_matches(':')).filter(|piece| !matches!(*piece, "" | "*" | "."))
}

/// Whether a text is a counter, a host or a task, each with a colon after it or with digits or marks in it.
fn is_origin(text: &str) -> bool {
    let in_name = |byte: &u8| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'.'..=b':' | b'_' | b'-' | b'*');
    let is_of_origin = |word: &[u8]| {
        (matches!(word.last(), Some(b':' | b'*' | b'.')) || word.iter().any(u8::is_ascii_digit))
            && word.iter().all(in_name)
    };
    let mut words = text.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.by_ref().take(4).all(is_of_origin) && words.next().is_none()
}

/// Adds the host and the other names before the time of a device. Counters tell nothing.
fn add_origin<'a>(header: &mut LineHeader<'a>, text: &'a str) {
    for piece in pieces(text) {
        match () {
            () if piece.bytes().all(|byte| byte.is_ascii_digit()) => {
                if let Ok(number) = piece.parse() {
                    header.sketch.add("sequence", Value::Int64(number));
                }
            }
            // `RP/0/RSP0/CPU0` is a part of a device.
            () if piece.starts_with('*') || piece.contains('/') || header.sketch.has_host => {
                header.sketch.text("context", piece);
            }
            // `101:45:eql1:SP`: counters before a name.
            () if piece.starts_with(|first: char| first.is_ascii_digit())
                && let Some(name) =
                    piece.split(':').find(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()))
                && piece.split(':').take_while(|part| *part != name).all(super::shape::is_number) =>
            {
                header.sketch.host(name);
                header.sketch.text("context", piece);
            }
            () => header.sketch.host(piece),
        }
    }
}

/// The host that a relay names in words: `Message forwarded from web-1: `.
fn forwarded<'a>(header: &mut LineHeader<'a>) -> bool {
    let rest = header.line.get(header.at..).unwrap_or_default();
    if !rest.starts_with(['M', 'F']) {
        return false;
    }
    let Some(named) = ["Message forwarded from ", "Forwarded from "].iter().find_map(|words| rest.strip_prefix(*words))
    else {
        return false;
    };
    let Some((host, _)) = named.split_once(": ").filter(|(host, _)| !host.contains(' ')) else { return false };
    header.sketch.host(host);
    header.at = header.line.len() - named.len() + host.len() + 2;
    true
}

/// Reads host, tag and process after a time, as syslog daemons write them. False for any other text.
///
/// `is_usual`: the previous lines were syslog, so a host without a tag is syslog too.
pub(super) fn after_the_time(header: &mut LineHeader<'_>, is_usual: bool, defaults: &TimestampDefaults) -> bool {
    header.skip();
    if forwarded(header) {
        tag_at(header);
        return true;
    }
    let has_priority = header.sketch.level.is_some();
    let severity = severity_at(header.line, header.at).filter(|_| !has_priority);
    let is_marked = severity.is_some();
    if let Some(severity) = severity {
        take_severity(header, severity);
        header.at = severity.2;
        header.skip();
    } else if has_priority && let Some(end) = named_again(header.line, header.at) {
        header.at = end;
    }
    let (line, at) = (header.line, header.at);
    if header.form != Form::Bsd && !is_usual && !is_marked && !has_tag_nearby(line, at) {
        return false;
    }
    let is_tag = |tag: &Tag<'_>| !is_level(tag.name) && (tag.pid.is_some() || header.form == Form::Bsd);
    if let Some(tag) = tag(line, at).filter(is_tag) {
        take_tag(header, tag);
        return true;
    }
    let Some(host) = token(line, at) else { return false };
    let WordKind::Word(name) = host.kind else { return false };
    // The token of an address that ends in colons is without its last one.
    let written = line.get(host.start..host.end).unwrap_or(name);
    let name = if written.ends_with("::") { written } else { name };
    // A name with `%` is a mark, and one with a bracket a process: `unbound[1234:0] error: text`.
    let is_mark = name.starts_with('%') || name.ends_with(']');
    if host.mark != 0 && !written.ends_with("::") || is_mark || has_priority && name.contains('=') {
        return false;
    }
    let next = skip_spaces(line.as_bytes(), host.end);
    if bytes_at(line, next).starts_with(b"|") {
        // A column.
        return false;
    }
    // The host may stand twice.
    let is_again = header.form == Form::Bsd
        && bytes_at(line, next).strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b" "));
    let next = if is_again { skip_spaces(line.as_bytes(), next + name.len()) } else { next };
    let severity = severity_at(line, next).filter(|_| !has_priority);
    let next = severity.map_or(next, |(_, _, end)| skip_spaces(line.as_bytes(), end));
    let next = has_priority.then(|| named_again(line, next)).flatten().unwrap_or(next);
    let found = tag(line, next)
        .filter(|tag| header.form == Form::Bsd || is_usual || tag.pid.is_some() && !tag.is_long)
        .filter(|tag| !(tag.name.bytes().all(|byte| byte.is_ascii_digit()) || has_priority && is_list(line, tag.end)));
    if !has_priority && found.is_none() && !is_level(name) && of_device(header, name, next, defaults) {
        return true;
    }
    // `bigip1 err mcpd[1234]: text`: a word for the severity behind the host.
    let said = || {
        let word = token(line, next).filter(|word| word.mark == 0)?;
        let WordKind::Word(level) = word.kind else { return None };
        let level = Level::from_word(level).filter(|_| level.bytes().all(|byte| byte.is_ascii_lowercase()))?;
        let tag = tag(line, skip_spaces(line.as_bytes(), word.end)).filter(|tag| tag.pid.is_some())?;
        Some(((level, word.start, word.end), tag))
    };
    if !has_priority
        && found.is_none()
        && header.form == Form::Bsd
        && !is_level(name)
        && let Some(((level, start, end), tag)) = said()
    {
        header.sketch.host(name);
        header.sketch.level(level, start, end);
        take_tag(header, tag);
        return true;
    }
    let is_marked = found.is_some() || severity.is_some() || is_named_pairs(line, name, next);
    if is_level(name) || !is_marked && !(is_usual && (header.form == Form::Bsd || has_priority)) {
        return false;
    }
    header.sketch.host(name);
    header.at = next;
    if let Some(severity) = severity {
        take_severity(header, severity);
    }
    if let Some(tag) = found {
        take_tag(header, tag);
    } else if has_priority && bytes_at(line, next).starts_with(b": ") {
        // `asa1 : %ASA-4-106023: text`
        header.at = skip_spaces(line.as_bytes(), next + 1);
        tag_at(header);
    } else if has_priority
        && let Some(word) = token(line, next)
        && let WordKind::Word(level) = word.kind
        && is_level(level)
        && word.mark == 0
        && let Some(tag) = tag(line, skip_spaces(line.as_bytes(), word.end)).filter(|tag| tag.pid.is_some())
    {
        // `bigip1 info tmm1[1234]: text` says the severity again.
        take_tag(header, tag);
    }
    true
}

/// The place after a word like `local0.info` at `at`, which says the priority of a datagram again.
fn named_again(line: &str, at: usize) -> Option<usize> {
    let end = scan::space(line.as_bytes(), at);
    named_severity(line.get(at..end)?.trim_end_matches([':', ',']))?;
    Some(skip_spaces(line.as_bytes(), end))
}

fn take_severity(header: &mut LineHeader<'_>, (level, start, end): (Level, usize, usize)) {
    header.sketch.level(level, start, end);
    let word = header.line.get(start..end).unwrap_or_default().trim_matches(['[', ']']);
    if let Some(facility) = named_facility(word) {
        header.sketch.text("facility", facility);
    }
}

/// What a device wrote behind the time and the host that a relay added: a counter, the device's own time, a mark.
///
/// ```text
/// Nov 21 08:00:02 192.0.2.7 123: *Nov 21 08:00:01.001: %LINK-3-UPDOWN: text
/// Nov 21 08:00:02 fw1 : %ASA-6-302013: text
/// ```
fn of_device<'a>(header: &mut LineHeader<'a>, host: &'a str, at: usize, defaults: &TimestampDefaults) -> bool {
    let before = header.at;
    let rest = bytes_at(header.line, at);
    if memchr(b'%', &rest[..rest.len().min(ORIGIN_BYTES_MAX + 32)]).is_none() {
        return false;
    }
    let is_spaced = rest.starts_with(b": ");
    header.at = if is_spaced { skip_spaces(header.line.as_bytes(), at + 1) } else { at };
    // The host is that of the relay's header, not what stands before the device's time.
    header.sketch.has_host = true;
    let is_found = before_the_time(header, defaults)
        || is_spaced && (bytes_at(header.line, header.at).starts_with(b"%") || header.stamp(defaults));
    header.sketch.has_host = false;
    if !is_found {
        header.at = before;
        return false;
    }
    header.sketch.host(host);
    header.skip();
    tag_at(header);
    true
}

/// Whether pairs alone follow a name that looks like that of a host.
fn is_named_pairs(line: &str, name: &str, at: usize) -> bool {
    let is_host = name.bytes().any(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    is_host && line.get(at..).is_some_and(|rest| super::is_pair(rest) && rest.matches('=').nth(2).is_some())
}

/// Whether one of the next two words ends like a tag with a process, or the second names a severity. A time that is not in
/// syslog's form needs one of them, or the mark of a device. This quick test runs before the full rules.
fn has_tag_nearby(line: &str, at: usize) -> bool {
    let bytes = line.as_bytes();
    let first = scan::space(bytes, at);
    let second = scan::space(bytes, skip_spaces(bytes, first));
    let is_device = || memchr(b'%', &bytes[second..bytes.len().min(second + 48)]).is_some();
    [first, second].iter().any(|end| bytes.get(..*end).is_some_and(|text| text.ends_with(b"]:")))
        || severity_at(line, skip_spaces(bytes, first)).is_some()
        || bytes.get(first + 1).is_some_and(|next| next.is_ascii_digit() || *next == b'%') && is_device()
}

/// `Severity: Informational, Category: Audit`: whether a word with a comma and a name with a colon follow a tag.
fn is_list(line: &str, at: usize) -> bool {
    let first = token(line, skip_spaces(line.as_bytes(), at)).filter(|token| token.mark == b',');
    first.and_then(|first| token(line, skip_spaces(line.as_bytes(), first.end))).is_some_and(|next| next.mark == b':')
}

fn bytes_at(line: &str, at: usize) -> &[u8] {
    line.as_bytes().get(at..).unwrap_or_default()
}

fn is_level(word: &str) -> bool {
    Level::from_word(word).is_some()
}

fn take_tag<'a>(header: &mut LineHeader<'a>, tag: Tag<'a>) {
    header.sketch.component(tag.name);
    if let Some(level) = marked_severity(tag.name).filter(|_| header.sketch.level.is_none()) {
        header.sketch.level(level, header.at, tag.end);
    }
    if let Some(pid) = tag.pid {
        header.sketch.has_pid = true;
        header.sketch.add("pid", typed(pid));
    }
    if let Some(context) = tag.context {
        header.sketch.text("context", context);
    }
    header.at = tag.end;
    header.skip();
    // Solaris: `sshd[123]: [ID 800047 auth.crit] text`
    if header.sketch.level.is_none()
        && bytes_at(header.line, header.at).starts_with(b"[ID ")
        && let Some(Token { kind: WordKind::Group(inner), start, end, .. }) = token(header.line, header.at)
        && let Some(level) = inner.rsplit(' ').next().and_then(named_severity)
    {
        header.sketch.level(level, start, end);
    }
}

/// The origin of a syslog message, as its tag names it.
pub(super) struct Tag<'a> {
    name: &'a str,
    pid: Option<&'a str>,
    /// The name in parentheses that macOS adds.
    context: Option<&'a str>,
    /// Whether the tag has more than one word.
    is_long: bool,
    end: usize,
}

/// Reads the tag at `at` of a line with a priority.
pub(super) fn tag_at<'a>(header: &mut LineHeader<'a>) -> bool {
    match tag(header.line, header.at) {
        Some(tag) => {
            take_tag(header, tag);
            true
        }
        None => false,
    }
}

/// The tag that begins at `at`.
fn tag(line: &str, at: usize) -> Option<Tag<'_>> {
    let bytes = line.as_bytes();
    let first_end = scan::space(bytes, at);
    let found = one_word(line, at, first_end);
    if found.is_some() || first_end - at > TAG_BYTES_MAX {
        return found;
    }
    // `syslogd 1.4.1:`, `-- root[2421]:` and `Microsoft Word[14413]:`
    let second = skip_spaces(bytes, first_end);
    let second_end = scan::space(bytes, second);
    let word = line.get(second..second_end)?;
    let is_upper = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_uppercase);
    let is_alphabetic = |from: usize, to: usize| bytes[from..to].iter().all(u8::is_ascii_alphabetic);
    let is_named = is_upper(at) && is_upper(second) && is_alphabetic(at, first_end);
    // `Oracle Unified Audit[12345]:`
    let third = skip_spaces(bytes, second_end);
    if is_named
        && is_upper(third)
        && third - second_end == 1
        && is_alphabetic(second, second_end)
        && let third_end = scan::space(bytes, third)
        && bytes.get(..third_end).is_some_and(|text| text.ends_with(b"]:"))
    {
        let found = one_word(line, third, third_end)?;
        let name_end = third + found.name.len();
        return Some(Tag { name: line.get(at..name_end)?, is_long: true, ..found });
    }
    let is_dashes = || bytes[at..first_end].iter().all(|byte| *byte == b'-');
    let is_version = word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.');
    let is_program = is_named && word.ends_with("]:");
    if first_end == at || second == first_end || !(is_version || is_program || is_dashes()) || second - first_end > 1 {
        return None;
    }
    let found = one_word(line, second, second_end)?;
    let name_end = second + found.name.len();
    Some(Tag { name: line.get(at..name_end)?, is_long: true, ..found })
}

/// `name:`, `name[123]:` or `name[123] (other):`.
fn one_word(line: &str, at: usize, end: usize) -> Option<Tag<'_>> {
    let bytes = line.as_bytes();
    let tag = |name, pid, end| Tag { name, pid, context: None, is_long: false, end };
    let word = line.get(at..end).filter(|word| word.len() > 1 && word.len() <= TAG_BYTES_MAX)?;
    let first = word.as_bytes()[0];
    if !(first.is_ascii_alphanumeric() || matches!(first, b'_' | b'/' | b'(' | b'%' | b'-')) {
        return None;
    }
    // `%%01IFNET/4/LINK_STATE(l)[12]:text` has no space after its colon.
    if word.starts_with("%%")
        && let Some(colon) = word.find(':').filter(|colon| *colon + 1 < word.len())
    {
        return Some(tag(line.get(at..at + colon)?, None, at + colon + 1));
    }
    if word.ends_with("::") && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') {
        // An address.
        return None;
    }
    let process = |word: &'_ str| word.strip_suffix(']').and_then(|word| word.find('['));
    if let Some(word) = word.strip_suffix(':') {
        let name_of = |from: usize, to: usize| line.get(at + from..at + to);
        return Some(match process(word).filter(|open| *open > 0) {
            // `util.py[WARNING]:` has a level and no process.
            Some(open) if is_level(name_of(open + 1, word.len() - 1)?) => return None,
            Some(open) => tag(name_of(0, open)?, Some(name_of(open + 1, word.len() - 1)?), end),
            None => tag(name_of(0, word.len())?, None, end),
        });
    }
    let open = process(word).filter(|open| *open > 0)?;
    let after = skip_spaces(bytes, end);
    if bytes.get(after) != Some(&b'(') {
        return None;
    }
    let close = closing(bytes, after)?;
    (bytes.get(close + 1) == Some(&b':')).then_some(())?;
    Some(Tag {
        context: line.get(after + 1..close),
        ..tag(word.get(..open)?, Some(word.get(open + 1..word.len() - 1)?), close + 2)
    })
}
