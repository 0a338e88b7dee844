//! Makes the layout of a line: finds the place of each part of the record, and keeps the text between.
//!
//! The search need not find everything: whatever it misses stays text of the layout, or verbatim text, and the caller
//! compares the line that the layout gives with the line that was read.

use super::decimals::{decimal_length, stays_text};
use super::template::LinePart;
use crate::Parsed;
use daytable_model::field_properties::field_properties;
use daytable_model::line::{
    LevelCase, PIECE_END, TIGHT, TimePattern, escape_json, push_literal, push_piece, write_value,
};
use daytable_model::property::Property;
use daytable_model::record::{Record, Value};
use daytable_model::time::{TICKS_PER_MINUTE, Ticks};
use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of a line that are searched for a time.
const TIME_WITHIN: usize = 4096;
/// Text between parts that is longer than this is kept as it is, if a part was not found.
const GAP_BYTES_MAX: usize = 24;

/// How eagerly text between the parts is kept out of the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapRule {
    /// Everything is text of the layout.
    Literal,
    /// Words with digits are not: the layouts of this source were new too often.
    Digits,
}

/// The properties that a row gives to the fields of a record.
pub(super) fn properties_of(record: &Record<'_>) -> Vec<Box<str>> {
    field_properties(record.fields.iter().map(|field| &*field.name))
}

/// A layout and the verbatim text of the line it was made of.
pub(super) struct MadeLayout {
    pub(super) layout: String,
    pub(super) parts: Vec<LinePart>,
    /// The places of the parts that are not literals, in the line of which the layout was made.
    pub(super) places: Vec<Range<usize>>,
    pub(super) verbatim: String,
}

/// The places of the parts in a text.
struct Places<'t> {
    text: &'t str,
    /// In the order of the text, without overlaps.
    holes: Vec<(Range<usize>, LinePart)>,
}

/// Makes a layout. `message` is where the whole message lies, if that is more than the message of the record.
pub(super) fn make(
    text: &str,
    parsed: &Parsed<'_>,
    message: Option<&Range<usize>>,
    minutes_east: i64,
    rule: GapRule,
) -> MadeLayout {
    let record = &parsed.record;
    let mut places = Places { text, holes: Vec::with_capacity(record.fields.len() + 4) };
    if let Some(at) = place_of(text, &record.message).filter(|at| !at.is_empty()) {
        places.add(at, LinePart::Message);
    }
    for (number, field) in record.fields.iter().enumerate() {
        if let Value::String(value) = &field.value
            && let Some(at) = place_of(text, value).filter(|at| !at.is_empty())
        {
            places.add(at, LinePart::Field(number));
        }
    }
    let mut misses_text = places.find_fields(record);
    if !record.message.is_empty() && !places.has(&LinePart::Message) {
        misses_text |= !places.find_message(&record.message);
    }
    places.find_time(parsed, minutes_east);
    places.find_level(parsed);
    places.keep_gaps(rule, misses_text);
    let is_tight = places.is_tight(record);
    let mut made = places.finish(&properties_of(record), message);
    if is_tight {
        made.layout.insert_str(0, TIGHT);
    }
    made
}

/// The place of a part that was borrowed from the text.
pub(super) fn place_of(text: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let bytes = start..start.checked_add(part.len())?;
    (bytes.end <= text.len()).then_some(bytes)
}

/// The pattern of a time of day at `at`, and its place. As it has no date, only its place tells that it is the time.
fn clock_pattern(text: &str, at: usize, time: Ticks) -> Option<(TimePattern, Range<usize>)> {
    let written = text.as_bytes().get(at..)?;
    let &[hour, hours, b':', minute, minutes, b':', _, _, ref rest @ ..] = written else { return None };
    let number = |tens: u8, ones: u8| i64::from(tens) * 10 + i64::from(ones) - 11 * i64::from(b'0');
    let shown = number(hour, hours) * 60 + number(minute, minutes);
    let minutes_east = (shown - time.get() / TICKS_PER_MINUTE + 12 * 60).rem_euclid(24 * 60) - 12 * 60;
    let fraction = rest.iter().skip(1).take(7).take_while(|byte| byte.is_ascii_digit()).count();
    let fraction = match rest.first() {
        Some(sign @ (b'.' | b',')) if fraction > 0 => format!("{}{fraction}", char::from(*sign)),
        _ => String::new(),
    };
    let pattern = TimePattern::parse(&format!("{minutes_east};H:M:S{fraction}"))?;
    let mut clock = Vec::with_capacity(16);
    pattern.write(time, &mut clock);
    written.starts_with(&clock).then(|| (pattern, at..at + clock.len()))
}

/// The decimal places of a number that was written with zeros at its end: 2 for `1.50`.
fn decimals_of(written: &str, number: f64) -> Option<u8> {
    let (_, fraction) = written.split_once('.')?;
    let decimals = u8::try_from(fraction.len()).ok()?;
    (decimal_length(written.as_bytes(), number, decimals)? == written.len()).then_some(decimals)
}

impl Places<'_> {
    /// Adds a hole, unless an earlier one overlaps it. A hole that covers others replaces them.
    fn add(&mut self, at: Range<usize>, part: LinePart) -> bool {
        let first = self.holes.partition_point(|(hole, _)| hole.end <= at.start);
        let last = self.holes.partition_point(|(hole, _)| hole.start < at.end);
        let covers = self.holes[first..last].iter().all(|(hole, _)| at.start <= hole.start && hole.end <= at.end);
        if covers {
            self.holes.splice(first..last, [(at, part)]);
        }
        covers
    }

    fn has(&self, part: &LinePart) -> bool {
        self.holes.iter().any(|(_, hole)| hole == part)
    }

    fn is_free(&self, at: &Range<usize>) -> bool {
        let first = self.holes.partition_point(|(hole, _)| hole.end <= at.start);
        self.holes.get(first).is_none_or(|(hole, _)| hole.start >= at.end)
    }

    /// The text between the holes.
    fn gaps(&self) -> Vec<Range<usize>> {
        let mut gaps = Vec::with_capacity(self.holes.len() + 1);
        let mut at = 0;
        for (hole, _) in &self.holes {
            gaps.push(at..hole.start);
            at = hole.end;
        }
        gaps.push(at..self.text.len());
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// Whether a word may begin in one part and go on beside it.
    fn is_tight(&self, record: &Record<'_>) -> bool {
        let bytes = self.text.as_bytes();
        let is_letter = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphabetic);
        self.holes.iter().enumerate().any(|(number, (at, part))| {
            let may_end_in_letter = match part {
                LinePart::Escaped(_) | LinePart::EscapedMessage => return true,
                LinePart::Digits | LinePart::Decimals(..) => false,
                LinePart::Field(field) => {
                    let value = record.fields.get(*field).map(|field| &field.value);
                    !matches!(value, Some(Value::Int64(_) | Value::Double(_)))
                }
                LinePart::Time(pattern) => pattern.text().ends_with(['b', 'B', 'a', 'A', 'p', 'P']),
                _ => true,
            };
            let touches = self.holes.get(number + 1).is_some_and(|(next, _)| next.start == at.end);
            may_end_in_letter && (touches || is_letter(at.start.checked_sub(1)) || is_letter(Some(at.end)))
        })
    }

    /// Finds the fields whose values were converted or unescaped. True if a text was not found.
    fn find_fields(&mut self, record: &Record<'_>) -> bool {
        let (mut cursor, mut misses_text) = (0, false);
        for (number, field) in record.fields.iter().enumerate() {
            let known = self.holes.iter().find(|(_, part)| *part == LinePart::Field(number));
            if let Some((at, _)) = known {
                cursor = cursor.max(at.end);
                continue;
            }
            let mut written = Vec::new();
            let is_text = match &field.value {
                // The message, or another field, contains it.
                Value::String(value) if place_of(self.text, value).is_some_and(|at| !at.is_empty()) => continue,
                Value::String(value) => {
                    escape_json(value.as_bytes(), false, &mut written);
                    true
                }
                Value::Int64(value) => {
                    write_value(Property::Int64(*value), &mut written);
                    false
                }
                Value::Double(value) => {
                    write_value(Property::Double(*value), &mut written);
                    false
                }
                Value::Boolean(value) => {
                    write_value(Property::Boolean(*value), &mut written);
                    false
                }
                Value::Binary(_) => continue,
            };
            if written.is_empty() {
                continue;
            }
            let part = if is_text { LinePart::Escaped(number) } else { LinePart::Field(number) };
            // Not every store keeps the sign of a zero.
            let is_kept = !matches!(field.value, Value::Double(number) if stays_text(number));
            let named = self.value_after(&field.name, cursor).filter(|at| !at.is_empty() && self.is_free(at));
            if let Some(at) = named {
                let is_as_written = self.text.as_bytes()[at.clone()] == *written && is_kept;
                let part = match &field.value {
                    _ if is_as_written => part,
                    Value::Double(value) => match decimals_of(&self.text[at.clone()], *value) {
                        Some(decimals) => LinePart::Decimals(number, decimals),
                        None => LinePart::Verbatim,
                    },
                    _ => LinePart::Verbatim,
                };
                cursor = at.end;
                self.add(at, part);
                continue;
            }
            let found = self.find_written(&written, cursor, !is_text).filter(|_| is_kept);
            match found {
                Some(at) => {
                    cursor = at.end;
                    self.add(at, part);
                }
                // A name that the parser itself gave need not be in the text.
                None => misses_text |= matches!(&field.value, Value::String(Cow::Owned(_))),
            }
        }
        misses_text
    }

    /// The value after a name: `name=value`, `"name": value`.
    fn value_after(&self, name: &str, from: usize) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let end = match place_of(self.text, name).filter(|at| !at.is_empty()) {
            Some(at) => at.end,
            None => {
                let last = name.rsplit('.').next().filter(|last| !last.is_empty())?;
                let found = memmem::find_iter(&bytes[from..], last.as_bytes()).map(|at| from + at + last.len());
                let is_name =
                    |end: &usize| matches!(bytes.get(*end..), Some([b'=', ..] | [b'"', b':', ..] | [b'"', b' ', ..]));
                found.into_iter().find(is_name)?
            }
        };
        let mut at = end + usize::from(matches!(bytes.get(end), Some(b'"' | b'\'')));
        let spaces =
            |at: usize| bytes[at.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        at += spaces(at);
        if !matches!(bytes.get(at), Some(b'=' | b':')) {
            return None;
        }
        at += 1;
        at += spaces(at);
        match bytes.get(at)? {
            quote @ (b'"' | b'\'') => {
                let mut end = at + 1;
                loop {
                    match bytes.get(end)? {
                        b'\\' => end += 2,
                        byte if byte == quote => break,
                        _ => end += 1,
                    }
                }
                Some(at + 1..end)
            }
            b'{' | b'[' => None,
            _ => {
                let is_end =
                    |byte: &u8| matches!(byte, b' ' | b',' | b';' | b'}' | b']' | b')' | b'\t' | b'\n' | b'\r' | b'"');
                let length = bytes[at..].iter().position(is_end).unwrap_or(bytes.len() - at);
                Some(at..at + length)
            }
        }
    }

    /// The first free place of a written value. `is_word`: no letter or digit stands beside it.
    fn find_written(&self, written: &[u8], from: usize, is_word: bool) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let is_beside = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        memmem::find_iter(&bytes[from..], written).map(|at| from + at..from + at + written.len()).find(|at| {
            let before = at.start.checked_sub(1).and_then(|before| bytes.get(before));
            self.is_free(at) && !(is_word && (is_beside(before) || is_beside(bytes.get(at.end))))
        })
    }

    /// Finds a message that was copied.
    fn find_message(&mut self, message: &str) -> bool {
        if let Some(at) = self.find_written(message.as_bytes(), 0, false) {
            return self.add(at, LinePart::Message);
        }
        let mut escaped = Vec::with_capacity(message.len() + 16);
        escape_json(message.as_bytes(), false, &mut escaped);
        self.find_written(&escaped, 0, false).is_some_and(|at| self.add(at, LinePart::EscapedMessage))
    }

    fn find_time(&mut self, parsed: &Parsed<'_>, minutes_east: i64) {
        let Some(time) = parsed.record.time else { return };
        let bytes = self.text.as_bytes();
        let reported = parsed.time_at.map(|at| at.bytes().start);
        if let Some((pattern, at)) = reported.and_then(|at| clock_pattern(self.text, at, time)) {
            self.add(at, LinePart::Time(pattern));
            return;
        }
        for gap in self.gaps() {
            let gap = gap.start..gap.end.min(TIME_WITHIN);
            let begins = |at: &usize| {
                bytes[*at].is_ascii_alphanumeric() && (*at == 0 || !bytes[*at - 1].is_ascii_alphanumeric())
                    || reported == Some(*at)
            };
            let learn =
                |at: usize| TimePattern::learn(&bytes[at..gap.end], time, minutes_east).map(|found| (at, found));
            let Some((at, (pattern, length))) = gap.clone().filter(begins).find_map(learn) else { continue };
            let end = at + length;
            let digits = bytes[end..gap.end].iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.add(at..end, LinePart::Time(pattern));
            // Zeros are what programs with coarser clocks write; they are text of the layout.
            if digits > 0 && bytes[end..end + digits].iter().any(|byte| *byte != b'0') {
                self.add(end..end + digits, LinePart::Digits);
            }
            return;
        }
    }

    fn find_level(&mut self, parsed: &Parsed<'_>) {
        let Some(level) = parsed.record.level else { return };
        for case in LevelCase::ALL {
            if let Some(at) = self.find_written(case.name(level).as_bytes(), 0, true) {
                self.add(at, LinePart::Level(case));
                return;
            }
        }
    }

    /// Keeps text between the holes as it is, where it probably differs from line to line.
    fn keep_gaps(&mut self, rule: GapRule, misses_text: bool) {
        for gap in self.gaps() {
            if misses_text && gap.len() > GAP_BYTES_MAX {
                self.add(gap, LinePart::Verbatim);
                continue;
            }
            if rule == GapRule::Literal {
                continue;
            }
            let bytes = self.text.as_bytes();
            let mut at = gap.start;
            while at < gap.end {
                let run = bytes[at..gap.end].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
                if bytes[at..at + run].iter().any(u8::is_ascii_digit) {
                    self.add(at..at + run, LinePart::Verbatim);
                }
                at += run.max(1);
            }
        }
    }

    fn finish(self, properties: &[Box<str>], message: Option<&Range<usize>>) -> MadeLayout {
        let mut made = MadeLayout {
            layout: String::with_capacity(self.text.len() / 2),
            parts: Vec::with_capacity(2 * self.holes.len() + 4),
            places: Vec::with_capacity(self.holes.len() + 2),
            verbatim: String::new(),
        };
        let mut marks =
            message.into_iter().flat_map(|at| [(at.start, LinePart::MessageStart), (at.end, LinePart::MessageEnd)]);
        let mut mark = marks.next();
        let mut at = 0;
        let mut has_piece = false;
        let text = self.text;
        let end = (text.len()..text.len(), LinePart::Literal(Box::default()));
        for (hole, part) in self.holes.into_iter().chain([end]) {
            while let Some((place, _)) = mark.as_ref().filter(|(place, _)| *place <= hole.start) {
                made.literal(text.get(at..*place).unwrap_or_default());
                at = at.max(*place);
                if let Some((_, part)) = mark.take() {
                    made.layout.push_str(if part == LinePart::MessageStart { "%<" } else { "%>" });
                    made.parts.push(part);
                    made.places.push(at..at);
                }
                mark = marks.next();
            }
            made.literal(text.get(at..hole.start).unwrap_or_default());
            at = hole.end;
            made.places.push(hole.clone());
            let name = |number: usize| properties.get(number).map(|name| &**name).unwrap_or_default();
            let piece = match &part {
                LinePart::Literal(_) => continue,
                LinePart::Field(number) => format!("%({})", name(*number)),
                LinePart::Decimals(number, decimals) => format!("%.{decimals}({})", name(*number)),
                LinePart::Escaped(number) => format!("%[{}]", name(*number)),
                LinePart::Message => "%m".into(),
                LinePart::EscapedMessage => "%j".into(),
                LinePart::Time(pattern) => format!("%T({})", pattern.text()),
                LinePart::Level(case) => format!("%{}", case.code()),
                LinePart::Digits | LinePart::Verbatim => {
                    if has_piece {
                        made.verbatim.push(PIECE_END);
                    }
                    has_piece = true;
                    push_piece(&mut made.verbatim, text[hole].as_bytes());
                    "%v".into()
                }
                LinePart::MessageStart | LinePart::MessageEnd => continue,
            };
            made.layout.push_str(&piece);
            made.parts.push(part);
        }
        made
    }
}

impl MadeLayout {
    fn literal(&mut self, text: &str) {
        if !text.is_empty() {
            push_literal(&mut self.layout, text);
            self.parts.push(LinePart::Literal(text.into()));
        }
    }
}
