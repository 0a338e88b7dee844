//! Formats from the configuration: a regular expression with named groups, or a grok pattern.
//!
//! The pattern must match the whole first line of a record, as if it began with `^` and ended with `$`. So the pattern
//! also decides where a record begins: another line continues the record before it, or is plain if there is none.
//!
//! * `time`, `level` and `message` fill these parts. `timestamp` and `loglevel` do too if the first name is missing. An
//!   unreadable time or level stays a field of that name.
//! * `pid` is a whole number if possible. Every other group is a text field, unless grok says `:int` or `:float`. A
//!   group that matched no text adds no field.
//! * Without a group `message`, the message is the whole text. With it, the following lines belong to the message.
//!
//! Matching takes time linear in the line (`regex` has neither look-around nor back references). The size of a compiled
//! pattern is bounded.
//!
//! * `pattern`: compiles patterns and locates errors in them.
//! * `grok`: expands references to one regular expression. `library`: the common patterns.

mod grok;
mod library;
mod pattern;

pub use pattern::LinePatternError;
pub(crate) use pattern::compile_part;

use super::timestamp::{TimestampDefaults, read_with};
use daytable_model::record::{Field, Level, Record, Value};
use regex::Regex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A compiled pattern. Cheap to clone; two are equal if their source texts are.
#[derive(Clone)]
pub struct Explicit(Arc<Compiled>);

struct Compiled {
    written: PatternText,
    regex: Regex,
    /// The named groups, by number.
    groups: Vec<Capture>,
    has_message: bool,
}

/// The source text of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternText {
    Regex(String),
    Grok(String, BTreeMap<String, String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Capture {
    number: usize,
    name: String,
    role: CaptureRole,
    kind: CaptureKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureRole {
    Time,
    Level,
    Message,
    Field,
}

/// The type of a group's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureKind {
    Text,
    Int,
    Float,
}

impl Explicit {
    /// A regular expression with named groups, `(?P<level>\w+)`.
    ///
    /// # Errors
    ///
    /// If the pattern is invalid or too large, or names no group.
    pub fn regex(pattern: &str) -> Result<Explicit, LinePatternError> {
        pattern::check(pattern)?;
        let regex = pattern::compile_whole(pattern, pattern)?;
        let kind_of = |name: &str| if name == "pid" { CaptureKind::Int } else { CaptureKind::Text };
        let named = regex.capture_names().enumerate().filter_map(|(number, name)| Some((number, name?)));
        let groups: Vec<_> = named.map(|(number, name)| (number, name.to_owned(), kind_of(name))).collect();
        if groups.is_empty() {
            return Err(LinePatternError::new(pattern, 0, "names no group, for example (?P<message>.*)"));
        }
        Ok(Explicit::new(PatternText::Regex(pattern.into()), regex, groups))
    }

    /// A grok pattern, `%{TIMESTAMP_ISO8601:time} %{GREEDYDATA:message}`. `patterns` extend the library and take
    /// precedence over it.
    ///
    /// # Errors
    ///
    /// If a reference is unknown or refers to itself, if the expansion is invalid or too large, or if it names no
    /// field. The error says whether the place is in `pattern` or in one of `patterns`.
    pub fn grok(pattern: &str, patterns: BTreeMap<String, String>) -> Result<Explicit, LinePatternError> {
        let expanded = grok::expand(pattern, &patterns)?;
        let regex = pattern::compile_whole(&expanded.regex, pattern)?;
        let named = regex.capture_names().enumerate().filter_map(|(number, name)| Some((number, name?)));
        let groups: Vec<_> = named
            .map(|(number, name)| match expanded.field(name) {
                Some((field, kind)) => (number, field.to_owned(), kind),
                None => (number, name.to_owned(), CaptureKind::Text),
            })
            .map(
                |(number, name, kind)| {
                    if name == "pid" { (number, name, CaptureKind::Int) } else { (number, name, kind) }
                },
            )
            .collect();
        if groups.is_empty() {
            return Err(LinePatternError::new(pattern, 0, "names no field, for example %{GREEDYDATA:message}"));
        }
        Ok(Explicit::new(PatternText::Grok(pattern.into(), patterns), regex, groups))
    }

    fn new(written: PatternText, regex: Regex, groups: Vec<(usize, String, CaptureKind)>) -> Explicit {
        let is_named = |wanted: &str| groups.iter().any(|(_, name, _)| name == wanted);
        let (has_time, has_level, has_message) = (is_named("time"), is_named("level"), is_named("message"));
        let role_of = |name: &str| match name {
            "time" => CaptureRole::Time,
            "timestamp" if !has_time => CaptureRole::Time,
            "level" => CaptureRole::Level,
            "loglevel" if !has_level => CaptureRole::Level,
            "message" => CaptureRole::Message,
            _ => CaptureRole::Field,
        };
        let group =
            |(number, name, kind): (usize, String, CaptureKind)| Capture { number, role: role_of(&name), name, kind };
        let groups = groups.into_iter().map(group).collect();
        Explicit(Arc::new(Compiled { written, regex, groups, has_message }))
    }

    /// Whether a line begins a record.
    pub fn begins(&self, line: &str) -> bool {
        self.0.regex.is_match(line)
    }

    /// Parses a text; `None` if its first line does not match.
    pub(super) fn record<'a>(&'a self, text: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
        let first = text.split('\n').next().unwrap_or(text);
        let mut found = self.0.regex.capture_locations();
        self.0.regex.captures_read(&mut found, first)?;
        let mut record = Record { fields: Vec::with_capacity(self.0.groups.len()), ..Record::default() };
        if !self.0.has_message {
            record.message = Cow::Borrowed(text);
        }
        for group in &self.0.groups {
            let Some((start, end)) = found.get(group.number).filter(|(start, end)| start < end) else { continue };
            let Some(value) = first.get(start..end) else { continue };
            match group.role {
                CaptureRole::Message if record.message.is_empty() => {
                    record.message = with_lines_below(text, first.len(), start, end);
                    continue;
                }
                CaptureRole::Time if record.time.is_none() => {
                    record.time = read_with(&Value::String(Cow::Borrowed(value.trim())), defaults);
                    if record.time.is_some() {
                        continue;
                    }
                }
                CaptureRole::Level if record.level.is_none() => {
                    record.level = Level::from_word(value.trim());
                    if record.level.is_some() {
                        continue;
                    }
                }
                _ => {}
            }
            record.fields.push(Field { name: Cow::Borrowed(&group.name), value: group.kind.value(value) });
        }
        if record.message.is_empty() && first.len() < text.len() {
            record.message = Cow::Borrowed(&text[first.len() + 1..]);
        }
        Some(record)
    }
}

/// The message at `start..end` of a first line of `length` bytes, together with the following lines.
fn with_lines_below(text: &str, length: usize, start: usize, end: usize) -> Cow<'_, str> {
    if end == length {
        return Cow::Borrowed(&text[start..]);
    }
    if length == text.len() {
        return Cow::Borrowed(&text[start..end]);
    }
    Cow::Owned([&text[start..end], &text[length..]].concat())
}

impl CaptureKind {
    /// Converts a text; an unreadable text stays text.
    fn value(self, text: &str) -> Value<'_> {
        let number = match self {
            CaptureKind::Text => None,
            CaptureKind::Int => text.parse().ok().map(Value::Int64),
            CaptureKind::Float => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Double),
        };
        number.unwrap_or(Value::String(Cow::Borrowed(text)))
    }
}

impl PartialEq for Explicit {
    fn eq(&self, other: &Explicit) -> bool {
        self.0.written == other.0.written
    }
}

impl Eq for Explicit {}

impl std::fmt::Debug for Explicit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.written.fmt(f)
    }
}

#[cfg(test)]
mod tests;
