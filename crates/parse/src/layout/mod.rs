//! Lines written for people: reads their headers, whatever program wrote them.
//!
//! [`read`] uses the first bytes and the profile of the source to choose one or two layouts. Each layout reads a header
//! from left to right and returns the place of the message. The message is the rest of the record, as written.
//!
//! * `usual`: the fast path for most lines. `general`: time, level, component, process and thread in the orders that
//!   logging libraries use.
//! * `syslog` (and `facility`), `klog`, `logcat`, `kernel`, `dotnet`: layouts with a grammar of their own. `untimed`: levels without
//!   times.
//! * `shape`: the shape of a word. `habits`: the habits of the previous lines. `sketch`: the record under construction.
//! * `late`: a level further within a line. `wide`: a time anywhere in a line of an unknown format.
//! * `trailing`: pairs after the message. `ansi`: removes colours first. `trace`: lines that continue a record.

mod ansi;
mod dotnet;
mod facility;
mod general;
mod habits;
mod kernel;
mod klog;
mod late;
mod logcat;
mod shape;
mod sketch;
pub(crate) mod syslog;
pub(super) mod trace;
mod trailing;
mod untimed;
mod usual;
pub(crate) mod wide;

pub use facility::facility_name;
pub(super) use habits::Habits;
pub(crate) use usual::{colon_name, is_usual_colon_component, is_usual_component, usual_level};

use super::pairs::skip_spaces;
use super::timestamp::{Form, FullTime, TimestampDefaults};
use super::{Format, Parsed, haproxy, json, logfmt};
use daytable_model::record::{Level, Record, Value};
use daytable_model::time::Ticks;
use general::LineHeader;
use memchr::{memchr, memchr2};
use sketch::Sketch;
use std::borrow::Cow;

/// Bytes of a level and its marks behind a tag.
const LEVEL_BYTES_MAX: usize = 16;

/// Bytes of a message of syslog in which its program may have written a header. They bound how often messages may be within messages.
const MESSAGE_BYTES_MAX: usize = 256;

/// The context for reading a record.
pub(super) struct LayoutContext<'g> {
    pub(super) defaults: TimestampDefaults,
    /// The usual format of the source.
    pub(super) usual: Option<Format>,
    /// Whether the source is new, or its few lines so far had no format.
    pub(super) is_unknown: bool,
    pub(super) habits: &'g mut Habits,
    /// The full time at the start of the record, if that was read before.
    pub(super) full_time: FullTime,
}

impl<'g> LayoutContext<'g> {
    /// The context of a line of which nothing else is known.
    fn alone(defaults: &TimestampDefaults, habits: &'g mut Habits) -> LayoutContext<'g> {
        LayoutContext { defaults: *defaults, usual: None, is_unknown: false, habits, full_time: FullTime::default() }
    }
}

/// Reads a record whose first line has a known header; `None` for any other record.
pub(super) fn read<'a>(text: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    // Most records have one line and no colours: neither is asked again.
    if memchr2(b'\n', ansi::ESCAPE, text.as_bytes()).is_none() {
        let by_rules = |context: &mut LayoutContext<'_>| {
            read_by_first_bytes(text, text, context).or_else(|| wide::read(text, text, context))
        };
        return usual::read(text, context).or_else(|| by_rules(context));
    }
    if ansi::has_escapes(text) {
        let plain = ansi::strip(text);
        return read_plain(&plain, context).map(owned);
    }
    read_plain(text, context).or_else(|| wide::read(text, first_line(text), context))
}

/// Whether [`read`] reads this format.
pub(super) fn is_layout(format: Format) -> bool {
    matches!(
        format,
        Format::Text | Format::Syslog | Format::Klog | Format::Logcat | Format::Cbs | Format::Kernel | Format::Dotnet
    )
}

/// Whether a line without an indent begins a record, in a source with this usual format.
///
/// If records begin with a header, only a line with a header or a whole object begins one. Otherwise every line does.
pub(super) fn begins(usual: Option<Format>, habits: Habits, text: &str, defaults: &TimestampDefaults) -> bool {
    let Some(usual) = usual else { return true };
    let line = first_line(text);
    match usual {
        Format::Json
        | Format::Logfmt
        | Format::Plain
        | Format::Explicit
        | Format::Csv
        | Format::Cri
        | Format::Docker => true,
        Format::Dotnet => dotnet::read(text).is_some() || timed_format(line, defaults).is_some(),
        // `[  OK  ] Started a service.` stands between lines of the kernel on a console.
        Format::Kernel => line.starts_with(['[', '<']),
        Format::Logcat => logcat::untimed(line).is_some() || timed_format(line, defaults).is_some(),
        _ if !habits.is_timed() => true,
        _ if habits.is_wide() && (wide::is_timed(line, defaults) || wide::is_timed_at_end(line, defaults)) => true,
        _ => {
            timed_format(line, defaults).is_some()
                || matches!(line.as_bytes(), [b'{', b'"' | b' ', .., b'}'] | b"{}")
                || line.ends_with('}') && wide::label(line).is_some()
                || is_pair(line)
                || LineHeader::clocked(line, defaults, &Habits::default()).is_some()
        }
    }
}

/// The full time at the start of a text: date, time and zone, which need no defaults.
#[inline]
pub(super) fn full_time(text: &str, defaults: &TimestampDefaults) -> FullTime {
    let bytes = text.as_bytes();
    if bytes.get(10) != Some(&b'T') {
        return FullTime::default();
    }
    super::timestamp::at_start(bytes, defaults).map(FullTime::of).unwrap_or_default()
}

/// Whether an open record may be a stack trace: it begins with neither a time, a priority nor an object.
pub(super) fn may_be_trace(open: &str, defaults: &TimestampDefaults) -> bool {
    match open.as_bytes() {
        [b'{', ..] => false,
        // Most lines need no closer look.
        [_, _, _, _, b'-' | b'/', b'0'..=b'9', _, b'-' | b'/', b'0'..=b'9', ..] => false,
        [_, _, _, b' ', b' ' | b'0'..=b'9', b'0'..=b'9', b' ', _, _, b':', ..] => false,
        [b'<', b'0'..=b'9', ..] => syslog::priority(open).is_none(),
        bytes => super::timestamp::at_start(bytes, defaults).is_none(),
    }
}

/// Whether a line begins with a level and has no time.
pub(super) fn is_untimed(line: &str) -> bool {
    // Any time of reading gives a time of day its date.
    let defaults = TimestampDefaults { seen: Ticks::MAX, ..TimestampDefaults::default() };
    untimed::untimed(line, line, &mut LayoutContext::alone(&defaults, &mut Habits::default())).is_some()
}

/// Whether a line with an indent begins a record: it has a time near its start or begins with a column of levels, and so does
/// the open record. Below a record without a time,
/// a column of levels behind one space is enough.
///
/// ```text
///    info 2025-11-21 08:00:01.123   gsvc   text
///  WARN  text
///  8:00:01 text
/// ```
pub(super) fn begins_with_indent(open: &str, text: &str, defaults: &TimestampDefaults) -> bool {
    let is_timed = |line: &str| timed_format(line, defaults).is_some();
    let begins = |line: &str| {
        is_column(line)
            || is_starred(line)
            || is_counted(line)
            || is_timed(line)
            || wide::is_timed(line, defaults)
            || LineHeader::clocked(line, defaults, &Habits::default()).is_some()
    };
    // ` ✓ Ready in 12ms`: no trace has an indent of one space.
    let is_by_one = |line: &str| matches!(line.as_bytes(), [b' ', second, ..] if !second.is_ascii_whitespace());
    match trace::is_inner(open) {
        true => begins(text) && begins(open) || is_by_one(text) && is_by_one(open),
        false => {
            (!text.starts_with("  ") || is_listed(text)) && is_column(text) && !is_timed(open)
                || is_counted_finely(text)
        }
    }
}

/// Whether a line begins with a column of levels: `WARN  text`, ` INFO text` beside `DEBUG text`, `  error • text`.
fn is_column(line: &str) -> bool {
    let (word, rest) = line.trim_start_matches(' ').split_once(' ').unwrap_or_default();
    let is_right = || line.len() - word.len() - rest.len() == 2 && word.len() == 4;
    let is_set_off = (rest.starts_with(' ') || is_right()) && shape::is_capital(shape::kinds_of(word));
    (is_set_off || rest.starts_with(": ") || is_listed(line))
        && (Level::from_word(word).is_some() || crate::level_names::foreign(word, true).is_some())
}

/// Whether a sign that is no letter follows the first word: `  error • text`.
fn is_listed(line: &str) -> bool {
    let sign = line.trim_start().split_once(' ').and_then(|(_, rest)| rest.chars().next());
    sign.is_some_and(|sign| !sign.is_ascii() && !sign.is_alphanumeric())
}

/// `   1.234 Info main.cpp:12: text`: a time since the start, and a level.
fn is_counted(line: &str) -> bool {
    line.trim_start().starts_with(|first: char| first.is_ascii_digit()) && wide::level_alone(line).is_some()
}

/// `   4.811 Info main.cpp:12: text`: the same with thousandths, or with a date behind them, below a line with a time too.
fn is_counted_finely(line: &str) -> bool {
    let (number, rest) = line.trim_start().split_once(' ').unwrap_or_default();
    let is_fine = number
        .split_once('.')
        .is_some_and(|(whole, part)| part.len() == 3 && shape::is_number(whole) && shape::is_number(part));
    let place = || rest.split(' ').nth(1).unwrap_or_default().trim_end_matches(':');
    let is_date = || matches!(rest.as_bytes(), [b'1'..=b'2', _, _, b'0'..=b'9', b'-', _, _, b'-', ..]);
    let has_level = || rest.split(' ').next().is_some_and(|word| Level::from_word(word).is_some());
    is_fine && (is_date() || has_level() && shape::source(place()).is_some())
}

/// ` ***WARNING: text`
fn is_starred(line: &str) -> bool {
    let word = line.trim_start().strip_prefix("***").and_then(|rest| rest.trim_start().split(':').next());
    word.is_some_and(|word| shape::is_capital(shape::kinds_of(word)) && Level::from_word(word).is_some())
}

/// Whether the first line of a record has a level, and one that a line below it does not only say again as the answer of a
/// server does: `ERROR: relation "bar" does not exist` below a record with an error.
pub(super) fn has_other_level(record: &str, below: &str, defaults: &TimestampDefaults) -> bool {
    // Each line below may ask, so only the head is read.
    let line = first_line(record);
    let head = line.get(..line.floor_char_boundary(MESSAGE_BYTES_MAX)).unwrap_or(line);
    let parsed = read_plain(head, &mut LayoutContext::alone(defaults, &mut Habits::default()));
    let level = parsed.and_then(|parsed| parsed.record.level);
    let said = below.split_once(": ").and_then(|(word, _)| Level::from_word(word));
    level.is_some() && level != said
}

/// Whether a line without a time has a level in capitals or brackets in its header, or in a column. In a trace `Error: text` is the
/// name of what was thrown.
pub(super) fn has_level_alone(line: &str) -> bool {
    let is_set_off = |(_, start, end): (Level, usize, usize)| {
        line[start..end].bytes().all(|byte| byte.is_ascii_uppercase()) || line[..start].ends_with('[')
    };
    if trace::is_inner(line) { is_column(line) } else { wide::level_alone(line).is_some_and(is_set_off) }
}

/// The time in the header of a line.
pub(super) fn header_time(line: &str, defaults: &TimestampDefaults) -> Option<Ticks> {
    let at = syslog::priority(line).map_or(0, |(_, at)| at);
    let line = line.get(at..)?;
    let header =
        LineHeader::timed(line, defaults).or_else(|| LineHeader::clocked(line, defaults, &Habits::default()))?;
    header.sketch.time
}

/// Whether a line has a time where no header has one.
pub(super) fn is_wide(line: &str, defaults: &TimestampDefaults) -> bool {
    timed_format(line, defaults).is_none() && wide::is_timed(line, defaults)
}

/// The format of a line with a time in its header. The check is only precise enough to know that there is a time.
pub(super) fn timed_format(line: &str, defaults: &TimestampDefaults) -> Option<Format> {
    match line.as_bytes() {
        [] => None,
        [b'<', ..] if syslog::priority(line).is_some() => Some(Format::Syslog),
        [b'A'..=b'Z', b'0'..=b'9' | b'[', ..] => klog::read(line, defaults).map(|_| Format::Klog),
        [0x1b, ..] => LineHeader::is_timed(&ansi::strip(line), defaults).then_some(Format::Text),
        _ => LineHeader::is_timed(line, defaults).then_some(Format::Text),
    }
}

/// Whether a line begins with `key=`.
pub(super) fn is_pair(line: &str) -> bool {
    let bytes = line.as_bytes();
    super::pairs::key_end(bytes, 0).is_some_and(|end| bytes.get(end) == Some(&b'='))
}

/// Reads with the general rules only.
pub(super) fn read_general<'a>(text: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    let line = first_line(text);
    let mut header = LineHeader::timed(line, &context.defaults)?;
    header.after_the_time(context.habits);
    Some(finish(text, header, context))
}

fn read_plain<'a>(text: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    read_by_first_bytes(text, first_line(text), context)
}

/// Reads a record with this first line.
fn read_by_first_bytes<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    match *line.as_bytes().first()? {
        b'<' => with_priority(text, line, context)
            .or_else(|| timed(text, line, context))
            .or_else(|| untimed(text, line, context)),
        b'[' => {
            let mut sketch = Sketch::default();
            if let Some(at) = kernel::read(line, 0, &mut sketch) {
                let rest = line.get(at..).unwrap_or_default();
                if let Some((level, start, end)) = wide::named_level(rest).or_else(|| late::in_angles(rest, 0)) {
                    sketch.level(level, at + start, at + end);
                }
                return Some(sketch.finish(text_after(text, at), Format::Kernel));
            }
            timed(text, line, context).or_else(|| untimed(text, line, context))
        }
        b'A'..=b'Z' | b'a'..=b'z' => {
            if line.as_bytes().get(1).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'[')
                && let Some((sketch, at)) = klog::read(line, &context.defaults)
            {
                return Some(structured(sketch, text_after(text, at), Format::Klog));
            }
            if line.as_bytes().get(1) == Some(&b'/')
                && let Some((sketch, at)) = logcat::untimed(line)
            {
                return Some(sketch.finish(text_after(text, at), Format::Logcat));
            }
            if let Some((sketch, message)) = dotnet::read(text) {
                return Some(sketch.finish(message, Format::Dotnet));
            }
            timed(text, line, context).or_else(|| untimed(text, line, context))
        }
        b'1' if line.as_bytes().get(1) == Some(&b' ') => {
            let mut sketch = Sketch::default();
            match syslog::rfc_5424(line, 2, &context.defaults, &mut sketch, false) {
                Some(at) if sketch.time.is_some() => Some(inner(sketch, text_after(text, at), true, &context.defaults)),
                _ => timed(text, line, context),
            }
        }
        _ => timed(text, line, context).or_else(|| untimed::time_of_day(text, line, context)),
    }
}

/// Reads a line that begins with a level. In a source with times anywhere, it may have its time behind that.
fn untimed<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    untimed::untimed(text, line, context).map(|parsed| wide::with_time(parsed, line, context))
}

/// Reads a line with a time near its start.
fn timed<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    let mut header = LineHeader::timed_as_known(line, context.full_time, &context.defaults)?;
    context.habits.note_clock(false);
    let is_usual = context.usual == Some(Format::Syslog);
    let may_be_syslog = match header.form {
        Form::Bsd => true,
        Form::Rfc3339 | Form::Iso => header.is_only_time(),
        _ => false,
    };
    if may_be_syslog && syslog::after_the_time(&mut header, is_usual, &context.defaults) {
        // A program that writes its own file names no host, and perhaps a level beside its name or within its tag.
        let until = header.line.len().min(header.at + LEVEL_BYTES_MAX);
        let head = header.line.get(..until).unwrap_or_default();
        let tag = head.get(header.after_time..header.at).unwrap_or_default();
        if (!header.sketch.has_host || memchr(b'(', tag.as_bytes()).is_some())
            && let Some((level, start, end)) = late::level(head, header.after_time)
            && (start < header.at || start == header.at && !header.sketch.has_host)
        {
            header.sketch.level(level, start, end);
        }
        if header.sketch.level.is_none()
            && let Some((level, start, end)) = level_of_message(header.line, header.at, &context.defaults)
                .or_else(|| late::numbered(header.line, header.after_time))
                .or_else(|| syslog::tag_severity(header.line, header.after_time, header.at))
                .or_else(|| late::paired(header.line, header.at))
                .or_else(|| late::first_paired(header.line, header.at))
                .or_else(|| late::in_brackets(header.line, header.at))
        {
            header.sketch.level(level, start, end);
        }
        return Some(inner(header.sketch, text_after(text, header.at), false, &context.defaults));
    }
    if matches!(header.form, Form::Other | Form::Iso) && header.is_only_time() && logcat::after_the_time(&mut header) {
        return Some(header.sketch.finish(text_after(text, header.at), Format::Logcat));
    }
    if header.is_only_time()
        && let Some(message) = dotnet::read_at(text, skip_spaces(line.as_bytes(), header.at), &mut header.sketch)
    {
        return Some(header.sketch.finish(message, Format::Text));
    }
    header.after_the_time(context.habits);
    Some(finish(text, header, context))
}

/// The level of a message of syslog, and its place: a first word in capitals, or the level of the header that the program wrote
/// itself: `WARNING controller ct1 is not reachable`, `error: text`, `<info>  text`, `2025-11-21 08:00:01,123 INFO text`.
fn level_of_message(line: &str, at: usize, defaults: &TimestampDefaults) -> Option<(Level, usize, usize)> {
    let bytes = line.as_bytes().get(at..)?;
    let open = usize::from(matches!(bytes, [b'[' | b'<' | b'(', ..]));
    let letters = bytes[open..].iter().take(LEVEL_BYTES_MAX).take_while(|byte| byte.is_ascii_alphabetic()).count();
    // Most messages are sentences.
    let is_header = match (letters, bytes.get(open + letters)?) {
        (0, _) => bytes.iter().take_while(|byte| **byte != b' ').filter(|byte| b"-/:".contains(byte)).count() > 1,
        (1, next) => next.is_ascii_digit(),
        (2.., b':' | b' ' | b']' | b'>') => {
            let word = &line[at + open..at + open + letters];
            let is_capital = open == 0 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            let level = (open == 1 || is_capital || bytes[letters] == b':').then(|| Level::from_word(word)).flatten();
            if let Some(level) = level.filter(|_| is_capital && letters > 2) {
                return Some((level, at, at + letters));
            }
            // `JS ERROR: text`, but `SERVICE ALERT: text`
            let second = line.get(at + letters + 1..).filter(|_| is_capital && bytes[letters] == b' ');
            if let Some((word, _)) = second.and_then(|rest| rest.split_once(": "))
                && word.bytes().all(|byte| byte.is_ascii_uppercase())
                && let Some(level) = Level::from_word(word).filter(|level| *level != Level::Alert)
            {
                return Some((level, at + letters + 1, at + letters + 1 + word.len()));
            }
            level.is_some()
        }
        _ => false,
    };
    is_header.then_some(())?;
    let message = line.get(at..line.floor_char_boundary(at + MESSAGE_BYTES_MAX))?;
    let parsed = read_plain(message, &mut LayoutContext::alone(defaults, &mut Habits::default()))?;
    let place = parsed.level_at?.bytes();
    Some((parsed.record.level?, at + place.start, at + place.end))
}

fn finish<'a>(text: &'a str, header: LineHeader<'a>, context: &mut LayoutContext<'_>) -> Parsed<'a> {
    if let Some(colon) = header.colon {
        context.habits.note_colon(colon);
    }
    let (form, is_padded) = (header.form, header.is_padded);
    let mut sketch = header.sketch;
    let mut message = text_after(text, header.at);
    if let Some(below) = level_below(text, header.line.len(), header.at, &mut sketch) {
        return sketch.finish(below, Format::Text);
    }
    if sketch.level.is_none()
        && let Some((level, start, end)) = late::anywhere(header.line, header.after_time)
    {
        sketch.level(level, start, end);
    }
    let is_table = is_padded && sketch.has_component;
    // `kubectl logs --timestamps`: what stands behind the time is the record.
    if sketch.is_bare()
        && sketch.level.is_none()
        && message.starts_with('{')
        && let Some(record) = json::parse(message, &context.defaults)
    {
        sketch.time = record.time.or(sketch.time);
        sketch.level = record.level;
        sketch.fields().extend(record.fields);
        return sketch.finish(record.message, Format::Text);
    }
    if text.len() == header.line.len() {
        if sketch.level.is_some() && !sketch.has_component {
            message = trailing_component(&mut sketch, message);
        }
        let has_pairs = form == Form::Rfc3339 || matches!(form, Form::Iso | Form::Other) && sketch.is_bare();
        if let Some(before) = trailing::object(message, sketch.fields()) {
            message = before;
        } else if has_pairs {
            message = trailing::pairs(message, sketch.fields());
        }
    }
    sketch.finish(message, if is_table { Format::Cbs } else { Format::Text })
}

/// Java's own logging writes the class and its method after the time, and level and message on the line below. Other
/// libraries write the thread before the class:
///
/// ```text
/// Nov 21, 2026 8:00:00 AM org.example.Main start
/// INFO: text
/// 2026-11-21 08:00:00 [main] org.example.Main.start()
/// INFO: text
/// ```
fn level_below<'a>(text: &'a str, end: usize, at: usize, sketch: &mut Sketch<'a>) -> Option<&'a str> {
    if sketch.level.is_some() || text.len() == end {
        return None;
    }
    let below = shape::token(text, end + 1).filter(|token| token.mark == b':')?;
    let shape::WordKind::Word(word) = below.kind else { return None };
    let level =
        shape::level_word(word).or_else(|| crate::level_names::foreign(word, true)).filter(|_| word.len() > 1)?;
    let mut words = text.get(at..end)?.split(' ').peekable();
    let thread = words.next_if(|word| word.starts_with('[') && word.ends_with(']'));
    let (class, method, more) = (words.next()?.trim_end_matches("()"), words.next(), words.next());
    if !shape::is_dotted(class) || more.is_some() {
        return None;
    }
    sketch.component(class);
    if let Some(thread) = thread {
        sketch.thread(thread.trim_matches(['[', ']']));
    }
    if let Some(method) = method {
        sketch.text("method", method);
    }
    sketch.level(level, below.start, below.start + word.len());
    Some(text.get(below.end..)?.trim_start())
}

/// `text (kafka.server.KafkaServer)`: a component in parentheses after the message.
fn trailing_component<'a>(sketch: &mut Sketch<'a>, message: &'a str) -> &'a str {
    let Some(before) = message.strip_suffix(')') else { return message };
    match before.rsplit_once(" (") {
        Some((before, name)) if name.split('.').count() > 2 && shape::is_dotted(name) => {
            sketch.component(name);
            before
        }
        _ => message,
    }
}

/// Reads a line with a priority.
fn with_priority<'a>(text: &'a str, line: &'a str, context: &mut LayoutContext<'_>) -> Option<Parsed<'a>> {
    let (priority, at) = syslog::priority(line)?;
    if line.as_bytes().get(at..)?.starts_with(b"1 ") {
        let mut sketch = Sketch::default();
        syslog::add_priority(&mut sketch, priority, at);
        if let Some(at) = syslog::rfc_5424(line, at + 2, &context.defaults, &mut sketch, true) {
            return Some(inner(sketch, text_after(text, at), true, &context.defaults));
        }
    }
    let mut sketch = Sketch::default();
    syslog::add_priority(&mut sketch, priority, at);
    if let Some(at) = kernel::read(line, at, &mut sketch) {
        return Some(sketch.finish(text_after(text, at), Format::Kernel));
    }
    let mut header = LineHeader::at(line, at);
    header.sketch = sketch;
    header.skip();
    let has_origin = syslog::before_the_time(&mut header, &context.defaults);
    if has_origin || header.stamp(&context.defaults) || header.stamp_in_brackets(&context.defaults) {
        if has_origin && header.sketch.has_host {
            syslog::tag_at(&mut header);
        } else if !syslog::after_the_time(&mut header, true, &context.defaults) {
            header.skip();
        }
        // A relay leaves the counter and the time of a device before the mark.
        if syslog::before_the_time(&mut header, &context.defaults) {
            syslog::tag_at(&mut header);
        }
    } else {
        header.at = skip_spaces(line.as_bytes(), at);
        syslog::tag_at(&mut header);
    }
    Some(inner(header.sketch, text_after(text, header.at), false, &context.defaults))
}

/// A syslog line whose message may be a record of its own: an object (perhaps after `@cee:`), logfmt, or a line of
/// HAProxy. `is_structured`: pairs may stand after the message. The members of an object after the message become
/// fields, and the object stays in the message.
fn inner<'a>(
    mut sketch: Sketch<'a>,
    message: &'a str,
    is_structured: bool,
    defaults: &TimestampDefaults,
) -> Parsed<'a> {
    let record = match message.as_bytes().first() {
        Some(b'{') => json::parse(message, defaults),
        Some(b'@') if message.starts_with("@cee:") => json::parse(message.get(5..).unwrap_or_default(), defaults),
        Some(b'0'..=b'9' | b':' | b'a'..=b'f') if let Some((_, record)) = haproxy::message(message) => Some(record),
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'@' | b'_') if memchr(b'=', message.as_bytes()).is_some() => {
            let is_record = |record: &Record<'_>| {
                let has = |name: &str| record.fields.iter().any(|field| field.name == name);
                record.level.is_some()
                    || !record.message.is_empty()
                    || sketch.time.is_none() && (record.time.is_some() || has("date") && has("time"))
            };
            logfmt::parse(message, defaults).filter(is_record)
        }
        _ => None,
    };
    let Some(record) = record else {
        let message = if is_structured && memchr(b'\n', message.as_bytes()).is_none() {
            // A message of pairs alone stays whole.
            Some(trailing::pairs(message, sketch.fields())).filter(|before| !before.is_empty()).unwrap_or(message)
        } else {
            message
        };
        trailing::members(message, sketch.fields());
        return sketch.finish(message, Format::Syslog);
    };
    sketch.time = record.time.or(sketch.time);
    sketch.level = record.level.or(sketch.level);
    sketch.fields().extend(record.fields);
    sketch.finish(record.message, Format::Syslog)
}

/// A message that may be in quotes with pairs after it, as klog's structured calls write it.
fn structured<'a>(mut sketch: Sketch<'a>, text: &'a str, format: Format) -> Parsed<'a> {
    if text.starts_with('"')
        && !text.contains('\n')
        && let Some(pair) = super::pairs::quoted_at(text, 0)
    {
        let before = sketch.fields().len();
        let rest = trailing::pairs(text.get(pair.len()..).unwrap_or_default(), sketch.fields());
        if rest.is_empty() {
            return sketch.finish(super::pairs::unquote(pair), format);
        }
        sketch.fields().truncate(before);
    }
    sketch.finish(text, format)
}

pub(super) fn first_line(text: &str) -> &str {
    memchr(b'\n', text.as_bytes()).and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The message: the text after the header, with the lines below.
fn text_after(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    rest.strip_prefix('\n').unwrap_or(rest)
}

/// Copies a record of a temporary text.
fn owned<'a>(parsed: Parsed<'_>) -> Parsed<'a> {
    let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    let fields = parsed.record.fields.into_iter().map(|field| daytable_model::record::Field {
        name: text(field.name),
        value: match field.value {
            Value::String(value) => Value::String(text(value)),
            Value::Int64(number) => Value::Int64(number),
            Value::Double(number) => Value::Double(number),
            Value::Boolean(truth) => Value::Boolean(truth),
            Value::Binary(bytes) => Value::Binary(Cow::Owned(bytes.into_owned())),
        },
    });
    let record = Record {
        time: parsed.record.time,
        level: parsed.record.level,
        message: text(parsed.record.message),
        fields: fields.collect(),
        ..Record::default()
    };
    // Places in the text without colours do not apply to the original text.
    Parsed { record, format: parsed.format, time_at: None, level_at: None }
}

#[cfg(test)]
mod tests;
