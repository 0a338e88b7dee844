//! Patterns: lines without their changing parts, counted.
//!
//! ```text
//! order 5888: connection to 10.1.0.7:5432 refused after 4 s
//! order <_>: connection to <_> refused after <_> s
//! ```
//!
//! A changing part is a word with a digit, or several that only `.`, `:`, `-` or `_` join. A short name with a version
//! (`v1`, `s3`) is no changing part. Of a record with several lines, only the first line counts. Texts are bounded, and
//! so is the number of patterns: records of further patterns count as *others*.

use super::record::StoredRecord;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt::Display;

/// The text for a changing part.
pub const GAP: &str = "<_>";
/// Characters of a line that count.
const LINE_CHARS_MAX: usize = 300;
/// Bytes of an example.
const EXAMPLE_BYTES_MAX: usize = 1000;
/// Patterns that are counted apart.
const PATTERNS_MAX: usize = 5000;

/// A pattern and its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinePattern {
    /// The text, with [`GAP`] for each changing part.
    pub pattern: String,
    /// The records.
    pub records: u64,
    /// The level that most of its records have; of two that equally many have, the worse one.
    #[serde(serialize_with = "level_name")]
    pub level: Option<Level>,
    /// Records by the code of their level; the first have none.
    #[serde(skip)]
    levels: [u64; Level::ALL.len() + 1],
    /// The time of its oldest record, RFC 3339.
    #[serde(serialize_with = "text")]
    pub first: Ticks,
    /// The time of its newest record, RFC 3339.
    #[serde(serialize_with = "text")]
    pub last: Ticks,
    /// A line.
    pub example: String,
    /// The filter that finds its records.
    pub query: String,
}

fn code(level: Option<Level>) -> usize {
    level.map_or(0, |level| level.code().into())
}

fn level_name<S: Serializer>(level: &Option<Level>, serializer: S) -> Result<S::Ok, S::Error> {
    level.map(Level::name).serialize(serializer)
}

fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Counts the patterns of records.
#[derive(Debug, Default)]
pub struct PatternCounter {
    patterns: HashMap<String, LinePattern>,
    records: u64,
    others: u64,
}

impl PatternCounter {
    /// Counts a record.
    pub fn add(&mut self, record: &StoredRecord) {
        self.records += 1;
        let (pattern, is_cut) = pattern_of(&record.message);
        let time = record.time();
        if let Some(known) = self.patterns.get_mut(&pattern) {
            known.records += 1;
            known.levels[code(record.level)] += 1;
            (known.first, known.last) = (known.first.min(time), known.last.max(time));
        } else if self.patterns.len() < PATTERNS_MAX {
            let example = record.message[..record.message.floor_char_boundary(EXAMPLE_BYTES_MAX)].to_owned();
            let query = query_of(&pattern, is_cut);
            let (first, last, level) = (time, time, record.level);
            let mut levels = [0; Level::ALL.len() + 1];
            levels[code(level)] = 1;
            let new = LinePattern { pattern: pattern.clone(), records: 1, level, levels, first, last, example, query };
            self.patterns.insert(pattern, new);
        } else {
            self.others += 1;
        }
    }

    /// The records so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The records of patterns that are not counted apart.
    pub fn others(&self) -> u64 {
        self.others
    }

    /// The most frequent patterns.
    pub fn top(self, count: usize) -> Vec<LinePattern> {
        let mut all: Vec<_> = self.patterns.into_values().collect();
        all.sort_by(|a, b| (b.records, &a.pattern).cmp(&(a.records, &b.pattern)));
        all.truncate(count);
        for pattern in &mut all {
            let most = [None].into_iter().chain(Level::ALL.map(Some)).max_by_key(|level| pattern.levels[code(*level)]);
            pattern.level = most.flatten();
        }
        all
    }
}

/// The pattern of the first line, and whether the text continues after it.
pub(crate) fn pattern_of(line: &str) -> (String, bool) {
    let first = line.lines().next().unwrap_or_default();
    let end = first.char_indices().nth(LINE_CHARS_MAX).map_or(first.len(), |(at, _)| at);
    let (mut pattern, mut rest) = (String::with_capacity(end), &first[..end]);
    while let Some(next) = rest.chars().next() {
        let length = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()).max(next.len_utf8());
        let (word, after) = rest.split_at(length);
        rest = after;
        if !is_changing(word) {
            pattern.push_str(word);
        } else if let Some(joint) = pattern.strip_suffix(['.', ':', '-', '_']).filter(|before| before.ends_with(GAP)) {
            pattern.truncate(joint.len());
        } else if !pattern.ends_with(GAP) {
            pattern.push_str(GAP);
        }
    }
    (pattern, end < line.len())
}

fn is_changing(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_version = word.len() <= 3 && digits == 1 && !word.starts_with(|c: char| c.is_ascii_digit());
    digits > 0 && !is_version
}

/// The filter for a pattern: a regular expression of the message.
fn query_of(pattern: &str, is_cut: bool) -> String {
    let mut regex = String::from("^");
    for (at, text) in pattern.split(GAP).enumerate() {
        if at > 0 {
            regex.push_str(r"\S+");
        }
        for c in text.chars() {
            if r"\.+*?()|[]{}^$".contains(c) {
                regex.push('\\');
            }
            regex.push(c);
        }
    }
    if !is_cut {
        regex.push('$');
    }
    format!("message:~{}", serde_json::Value::from(regex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_parts_are_removed() {
        for (line, pattern) in [
            (
                "order 5888: connection to 10.1.0.7:5432 refused after 4 s",
                "order <_>: connection to <_> refused after <_> s",
            ),
            ("GET /api/v1/orders/17 200 in 1.5 ms", "GET /api/v1/orders/<_> <_> in <_> ms"),
            ("id 0c7d2f70-1a2b-4c3d-8e9f-001122334455 is user-7", "id <_> is user-<_>"),
            ("a\tb=0x7ffe, at 2026-11-23T03:04:05.678Z", "a\tb=<_>, at <_>"),
            ("first 1\nsecond", "first <_>"),
            ("grün é 7", "grün é <_>"),
            ("", ""),
        ] {
            assert_eq!(pattern_of(line).0, pattern, "{line}");
        }
        let (long, is_cut) = pattern_of(&"é ".repeat(1000));
        assert!(is_cut && long.chars().count() == LINE_CHARS_MAX);
    }

    #[test]
    fn a_pattern_has_the_level_of_most_of_its_records() {
        let level_of = |levels: &[Option<Level>]| {
            let mut counter = PatternCounter::default();
            for (n, level) in levels.iter().enumerate() {
                let mut record = record();
                (record.level, record.message) = (*level, format!("order {n} done"));
                counter.add(&record);
            }
            counter.top(1).pop().and_then(|pattern| pattern.level)
        };
        let [info, error] = [Some(Level::Info), Some(Level::Error)];
        assert_eq!(level_of(&[info, info, error]), info);
        assert_eq!(level_of(&[info, error]), error);
        assert_eq!(level_of(&[None, None, error]), None);
    }

    fn record() -> StoredRecord {
        let key = daytable_model::key::RowKey::new(Ticks::UNIX_EPOCH, 0, 0);
        let row = crate::entity::OwnedRow { partition: "web".into(), key, level: None, properties: Vec::new() };
        StoredRecord::new("Log20261120".into(), row)
    }

    #[test]
    fn the_filter_of_a_pattern_finds_its_line() {
        assert_eq!(query_of("a <_> (b)", false), r#"message:~"^a \\S+ \\(b\\)$""#);
        assert_eq!(query_of("a \"<_>", true), r#"message:~"^a \"\\S+""#);
    }
}
