//! Shows which bytes of a text became which part of its record. It serves people who try a format; the pipeline does
//! not use it.
//!
//! A borrowed part is located by its address in the text. A parser may report the places of the time and the level.
//! Other parts were copied (a text with escapes) or converted (a number, a time, a level), so the text is searched for
//! them: a number after its name, a time or a level as the first piece with that value. A part that is not found has
//! no place.

use super::timestamp::zone::Zone;
use super::timestamp::{TimestampDefaults, at_start};
use super::{Parsed, PartPlace};
use daytable_model::record::{Level, Value};
use std::ops::Range;

/// Bytes that are searched for a time.
const TIME_WITHIN: usize = 4096;

/// A part of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedPart {
    /// `time`, `level`, `message`, or the name of a field.
    pub name: String,
    /// The value made of the bytes.
    pub value: String,
    /// The bytes; `None` if they were not found.
    pub bytes: Option<Range<usize>>,
    /// The zone of a time that names none.
    pub zone: Option<Zone>,
}

impl ExplainedPart {
    fn new(name: impl Into<String>, value: impl Into<String>, bytes: Option<Range<usize>>) -> ExplainedPart {
        ExplainedPart { name: name.into(), value: value.into(), bytes, zone: None }
    }
}

/// The parts of a record that was parsed from `text`, in the order of the text. Parts without a place come last.
pub fn explain(text: &str, parsed: &Parsed<'_>, defaults: &TimestampDefaults) -> Vec<ExplainedPart> {
    let record = &parsed.record;
    let mut parts = Vec::new();
    for field in &record.fields {
        let named = place_of(text, &field.name);
        let after = named.map_or(0, |named| named.end);
        let (value, bytes) = match &field.value {
            Value::String(value) => (value.to_string(), place_of(text, value)),
            Value::Int64(number) => written(text, after, number.to_string()),
            Value::Double(number) => written(text, after, number.to_string()),
            Value::Boolean(is) => written(text, after, is.to_string()),
            Value::Binary(bytes) => (String::from_utf8_lossy(bytes).into_owned(), None),
        };
        parts.push(ExplainedPart::new(&*field.name, value, bytes));
    }
    let taken: Vec<Range<usize>> = parts.iter().filter_map(|part| part.bytes.clone()).collect();
    if let Some(time) = record.time {
        let reported = parsed.time_at.and_then(|reported| reported_place(text, reported));
        let starts = text.char_indices().map(|(at, _)| at).take_while(|at| *at < TIME_WITHIN);
        let read = |at: usize| at_start(&text.as_bytes()[at..], defaults).filter(|stamp| stamp.time == time);
        let bytes = starts.filter(|at| begins_word(text, *at)).find_map(|at| Some(at..at + read(at)?.length));
        let bytes = reported.or(bytes);
        let zone = bytes.as_ref().and_then(|bytes| text.get(bytes.clone())).and_then(|text| zone_of(text, defaults));
        parts.push(ExplainedPart { zone, ..ExplainedPart::new("time", time.to_string(), bytes) });
    }
    if let Some(level) = record.level {
        let reported = parsed.level_at.and_then(|reported| reported_place(text, reported));
        let bytes = reported.or_else(|| level_in(text, level, &taken));
        parts.push(ExplainedPart::new("level", level.name(), bytes));
    }
    if !record.message.is_empty() {
        parts.push(ExplainedPart::new("message", &*record.message, place_of(text, &record.message)));
    }
    parts.sort_by_key(|part| part.bytes.as_ref().map_or((usize::MAX, 0), |bytes| (bytes.start, bytes.end)));
    parts
}

/// The zone in which a time was read: that of the source, if the time means another point in another zone.
fn zone_of(time: &str, defaults: &TimestampDefaults) -> Option<Zone> {
    let read_in = |zone| at_start(time.as_bytes(), &TimestampDefaults { zone, ..*defaults }).map(|stamp| stamp.time);
    (read_in(Zone::Utc)? != read_in(Zone::Offset(60))?).then_some(defaults.zone)
}

/// The place that the parser reported.
fn reported_place(text: &str, reported: PartPlace) -> Option<Range<usize>> {
    let bytes = reported.bytes();
    text.get(bytes.clone()).map(|_| bytes)
}

/// The place of a part that was borrowed from the text; a copied part lies elsewhere in memory.
fn place_of(text: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let bytes = start..start.checked_add(part.len())?;
    (bytes.end <= text.len() && !part.is_empty()).then_some(bytes)
}

/// A value as written, and its first place at or after `from`.
fn written(text: &str, from: usize, value: String) -> (String, Option<Range<usize>>) {
    let is_alone = |at: &usize| {
        let after = text.as_bytes().get(at + value.len());
        begins_word(text, *at) && !after.is_some_and(u8::is_ascii_alphanumeric)
    };
    let found = text.get(from..).into_iter().flat_map(|rest| rest.match_indices(value.as_str()));
    let place = found.map(|(at, _)| from + at).find(is_alone).map(|at| at..at + value.len());
    (value, place)
}

fn begins_word(text: &str, at: usize) -> bool {
    text.as_bytes()[at].is_ascii_alphanumeric() && (at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric())
}

/// The first word that means the level and became no field.
fn level_in(text: &str, level: Level, taken: &[Range<usize>]) -> Option<Range<usize>> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric();
    let mut at = 0;
    while let Some(start) = text[at..].find(is_of_word).map(|start| at + start) {
        let end = text[start..].find(|c| !is_of_word(c)).map_or(text.len(), |length| start + length);
        let is_taken = taken.iter().any(|taken| taken.start <= start && end <= taken.end);
        let first = &text[start..end];
        let letter = "TDINWEFC".contains(first.get(..1).unwrap_or("-")) && Level::from_word(first).is_none();
        if !is_taken && Level::from_word(first) == Some(level) {
            return Some(start..end);
        }
        // `I1121`, `E`: a letter that means the level.
        if !is_taken
            && letter
            && level.name().to_ascii_uppercase().starts_with(&first[..1])
            && first[1..].bytes().all(|b| b.is_ascii_digit())
        {
            return Some(start..start + 1);
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FormatChoice, parse};
    use proptest::prelude::*;

    #[test]
    fn bytes_and_the_parts_they_became() {
        for (text, expected) in [
            (
                "2026-11-21 08:00:00 WARN disk full free=0 dev=sda1",
                &[
                    ("2026-11-21 08:00:00", "time", "2026-11-21T08:00:00Z"),
                    ("WARN", "level", "warn"),
                    ("disk full", "message", "disk full"),
                    ("0", "free", "0"),
                    ("sda1", "dev", "sda1"),
                ][..],
            ),
            (
                r#"{"n":7,"time":"2026-11-21T08:00:00Z","level":"error","msg":"a\nb","ok":true}"#,
                &[
                    ("7", "n", "7"),
                    ("2026-11-21T08:00:00Z", "time", "2026-11-21T08:00:00Z"),
                    ("error", "level", "error"),
                    ("true", "ok", "true"),
                    ("", "message", "a\nb"),
                ],
            ),
            ("just words", &[("just words", "message", "just words")]),
        ] {
            let parts = explain(text, &parse(text, FormatChoice::Auto), &TimestampDefaults::default());
            let shown: Vec<_> = parts
                .iter()
                .map(|part| (&text[part.bytes.clone().unwrap_or(0..0)], part.name.as_str(), part.value.as_str()))
                .collect();
            assert_eq!(shown, expected, "{text}");
        }
    }

    proptest! {
        /// Every place lies within the text, and a borrowed part reads there as its value.
        #[test]
        fn places_lie_in_the_text(text in "(2026-11-21 08:00:00 |INFO |a=1 |b=\"x\" |\\{\"c\":2.5\\}|\\PC){0,8}") {
            for part in explain(&text, &parse(&text, FormatChoice::Auto), &TimestampDefaults::default()) {
                let Some(bytes) = part.bytes else { continue };
                let there = text.get(bytes).expect("a place");
                prop_assert!(part.name == "time" || part.name == "level" || there == part.value, "{} is {}", part.name, there);
            }
        }
    }
}
