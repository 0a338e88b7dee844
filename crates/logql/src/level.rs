//! The label `detected_level`, which Loki gives to each entry.
//!
//! The level is that of the first of these: a label of the stream, then structured metadata with a name of a level; a
//! severity number of OpenTelemetry; a member of the line, if the line is a JSON object or pairs of logfmt; the first word of
//! the line that is a level. Else the level is `unknown`.

use crate::labels::Labels;
use crate::stages::json::{Halt, Raw, members};
use crate::stages::logfmt::Pairs;

/// The name of the label.
pub const DETECTED_LEVEL: &str = "detected_level";

/// Names of fields that have the level, by priority.
const FIELDS: [&str; 14] = [
    "level",
    "LEVEL",
    "Level",
    "log.level",
    "severity",
    "SEVERITY",
    "Severity",
    "SeverityText",
    "lvl",
    "LVL",
    "Lvl",
    "severity_text",
    "Severity_Text",
    "SEVERITY_TEXT",
];

/// The metadata with the severity number of OpenTelemetry.
const SEVERITY_NUMBER: &str = "severity_number";

/// Objects within each other that are searched for a member.
const DEPTH_MAX: u8 = 2;

/// Words that are levels wherever they stand in a line.
const WORDS: [(&str, &str); 9] = [
    ("trace", "trace"),
    ("debug", "debug"),
    ("fatal", "fatal"),
    ("critical", "critical"),
    ("error", "error"),
    ("err", "error"),
    ("warning", "warn"),
    ("warn", "warn"),
    ("info", "info"),
];

/// Further words that are levels as values of a field.
const SHORT_WORDS: [(&str, &str); 5] =
    [("trc", "trace"), ("dbg", "debug"), ("inf", "info"), ("information", "info"), ("wrn", "warn")];

/// The value of the first label with a name of a level.
fn value_in(labels: &Labels) -> Option<&str> {
    FIELDS.iter().find_map(|name| labels.get(name))
}

/// The level of all entries of a stream whose structured metadata lack [`DETECTED_LEVEL`], if the stream tells it.
pub fn level_of_stream(stream: &Labels) -> Option<&str> {
    value_in(stream).map(|value| level_of(value).unwrap_or(value))
}

/// The level of an entry.
pub fn detected_level<'v>(line: &'v str, stream: &'v Labels, metadata: &'v Labels) -> &'v str {
    level_of_labels(stream, metadata).unwrap_or_else(|| of_line(line))
}

/// The level of an entry whose labels tell it.
pub fn level_of_labels<'v>(stream: &'v Labels, metadata: &'v Labels) -> Option<&'v str> {
    match metadata.get(DETECTED_LEVEL).or_else(|| value_in(stream)).or_else(|| value_in(metadata)) {
        Some(value) => Some(level_of(value).unwrap_or(value)),
        None => metadata.get(SEVERITY_NUMBER).map(of_severity),
    }
}

/// Whether the level may stand in a field of this name, whatever its case.
pub fn is_level_field(name: &str) -> bool {
    name == SEVERITY_NUMBER || FIELDS.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Whether the level may stand in a field that becomes this label.
pub fn is_level_label(name: &str) -> bool {
    name == DETECTED_LEVEL || name == "log_level" || is_level_field(name)
}

/// The level of a line that is an object of JSON, where a member of it tells the level: other members do not matter.
pub fn level_of_members(line: &str) -> Option<&'static str> {
    let trimmed = line.trim();
    let is_object = trimmed.starts_with('{') && trimmed.ends_with('}');
    is_object.then(|| of_member(trimmed))?
}

/// Whether a part of a line may tell a level, by a word or by a name before it.
pub fn may_tell_level(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_at =
        |at: usize, part: &[u8]| bytes.get(at..at + part.len()).is_some_and(|text| text.eq_ignore_ascii_case(part));
    // Each word and each name of a field has one of these parts.
    (0..bytes.len()).any(|at| match bytes[at].to_ascii_lowercase() {
        b't' => is_at(at, b"trac") || is_at(at, b"trc"),
        b'd' => is_at(at, b"debu") || is_at(at, b"dbg"),
        b'f' => is_at(at, b"fata"),
        b'c' => is_at(at, b"crit"),
        b'e' => is_at(at, b"err"),
        b'w' => is_at(at, b"warn") || is_at(at, b"wrn"),
        b'i' => is_at(at, b"inf"),
        b'l' => is_at(at, b"level") || is_at(at, b"lvl"),
        b's' => is_at(at, b"sever"),
        _ => false,
    })
}

/// The level that a word is a name of.
fn level_of(word: &str) -> Option<&'static str> {
    let mut words = WORDS.iter().chain(&SHORT_WORDS);
    words.find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, level)| *level)
}

/// The level of a severity number: four numbers a level.
fn of_severity(number: &str) -> &'static str {
    match number.parse::<i64>() {
        Err(_) => "info",
        Ok(0) | Ok(25..) => "unknown",
        Ok(..5) => "trace",
        Ok(5..9) => "debug",
        Ok(9..13) => "info",
        Ok(13..17) => "warn",
        Ok(17..21) => "error",
        Ok(21..25) => "fatal",
    }
}

fn of_line(line: &str) -> &'static str {
    let trimmed = line.trim();
    let value = if trimmed.starts_with('{') && trimmed.ends_with('}') {
        of_member(trimmed)
    } else if line.contains('=') {
        pair(line).as_deref().and_then(level_of)
    } else {
        None
    };
    value.or_else(|| word(line)).unwrap_or("unknown")
}

fn of_member(object: &str) -> Option<&'static str> {
    let mut found = None;
    let _ = member(object, 0, &mut found);
    found.and_then(level_of)
}

/// The first text of a JSON object whose name is that of a level.
fn member<'l>(object: &'l str, depth: u8, found: &mut Option<&'l str>) -> Result<(), Halt> {
    if depth == DEPTH_MAX {
        return Ok(());
    }
    members(object, &mut |key, value| match value {
        Raw::String(text) if FIELDS.contains(&&*key) => {
            *found = Some(text);
            Err(Halt::Enough)
        }
        Raw::Object(inner) => member(inner, depth + 1, found),
        _ => Ok(()),
    })
}

/// The value of the pair of logfmt with the best name. A mistake ends the pairs.
fn pair(line: &str) -> Option<std::borrow::Cow<'_, str>> {
    let rank = |key: &str| FIELDS.iter().position(|name| name.eq_ignore_ascii_case(key));
    let ranked = Pairs::of(line).map_while(Result::ok).filter_map(|(key, value)| Some((rank(key)?, value)));
    ranked.min_by_key(|(rank, _)| *rank).and_then(|(_, value)| value)
}

/// The first word of a line that is a level.
fn word(line: &str) -> Option<&'static str> {
    let bytes = line.as_bytes();
    let is_begin = |at: usize| at == 0 || b" \t\n[({\"=".contains(&bytes[at - 1]);
    let is_end = |at: usize| bytes.get(at).is_none_or(|byte| b" \t\n[](){}:,!\"=".contains(byte));
    (0..bytes.len()).filter(|at| is_begin(*at)).find_map(|at| {
        let mut words = WORDS.iter();
        let is_here = |word: &str| {
            bytes[at..].get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word.as_bytes()))
                && is_end(at + word.len())
        };
        words.find(|(word, _)| is_here(word)).map(|(_, level)| *level)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_no_level_has_none() {
        for word in WORDS.iter().chain(&SHORT_WORDS).map(|(word, _)| *word).chain(FIELDS).chain([SEVERITY_NUMBER]) {
            assert!(may_tell_level(&format!("a {}=b", word.to_ascii_uppercase())), "{word}");
        }
        for text in ["/api/v1/items/12", "GET", "", "10.0.0.1", "é"] {
            assert!(!may_tell_level(text), "{text}");
        }
        assert_eq!(level_of_members(r#"{"a":"error","lvl":"warn"}"#), Some("warn"));
        assert_eq!(level_of_members(r#"{"a":"error"}"#), None);
        assert_eq!(level_of_members("lvl=warn"), None);
    }

    #[test]
    fn levels_of_lines_and_labels() {
        for (line, level) in [
            (r#"{"a":1,"level":"WARN"}"#, "warn"),
            (r#"{"lvl": "err"}"#, "error"),
            (r#"{"msg":"an error"}"#, "error"),
            (r#"{"a":{"severity":"fatal","level":"info"}}"#, "fatal"),
            (r#"{"a":{"b":{"level":"wrn"}}}"#, "unknown"),
            (r#"{"level":"odd","msg":"see error"}"#, "error"),
            (r#"severity=error LEVEL=info"#, "info"),
            ("a=1 misc:error", "unknown"),
            ("error: a, warn", "error"),
            (r#"level=debug msg="error""#, "debug"),
            (r#"a=b severity="fatal""#, "fatal"),
            ("ERROR worker failed", "error"),
            ("[warning] x", "warn"),
            ("x=1 lvl=inf", "info"),
            ("information desk", "unknown"),
            ("GET /errors 200", "unknown"),
            ("", "unknown"),
        ] {
            assert_eq!(detected_level(line, &Labels::default(), &Labels::default()), level, "{line}");
        }
        let of = |name: &str, value: &str| Labels::new(vec![(name.into(), value.into())]);
        assert_eq!(detected_level("error", &of("level", "Info"), &Labels::default()), "info");
        assert_eq!(detected_level("error", &of("level", "info"), &of("detected_level", "x")), "x");
        assert_eq!(detected_level("error", &of("lvl", "info"), &of("level", "warn")), "info");
        assert_eq!(detected_level("error", &Labels::default(), &of("severity_number", "9")), "info");
        assert_eq!(detected_level("error", &of("level", "odd"), &Labels::default()), "odd");
    }
}
