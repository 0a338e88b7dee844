//! [Patterns](daytable_logsql::line_pattern) of the messages of records, counted. Texts are bounded, and so is the number of
//! patterns: records of further patterns count as *others*.

use super::record::StoredRecord;
use daytable_logsql::line_pattern::pattern_of;
use daytable_logsql::query::Expression;
use daytable_logsql::{FieldName, Test};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::fmt::Display;

/// Bytes of an example.
const EXAMPLE_BYTES_MAX: usize = 1000;
/// Patterns that are counted apart.
const PATTERNS_MAX: usize = 5000;

/// A pattern and its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinePattern {
    /// The text, with [`GAP`](daytable_logsql::line_pattern::GAP) for each changing part.
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
        let pattern = pattern_of(&record.message);
        let time = record.time();
        if let Some(known) = self.patterns.get_mut(&pattern) {
            known.records += 1;
            known.levels[code(record.level)] += 1;
            (known.first, known.last) = (known.first.min(time), known.last.max(time));
        } else if self.patterns.len() < PATTERNS_MAX {
            let example = record.message[..record.message.floor_char_boundary(EXAMPLE_BYTES_MAX)].to_owned();
            let query = query_of(&pattern);
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

    /// The most frequent patterns, and the records of all others.
    pub fn top(self, count: usize) -> (Vec<LinePattern>, u64) {
        let mut all: Vec<_> = self.patterns.into_values().collect();
        all.sort_by(|a, b| (b.records, &a.pattern).cmp(&(a.records, &b.pattern)));
        let rest = all.iter().skip(count).map(|pattern| pattern.records).sum::<u64>();
        all.truncate(count);
        for pattern in &mut all {
            let most = [None].into_iter().chain(Level::ALL.map(Some)).max_by_key(|level| pattern.levels[code(*level)]);
            pattern.level = most.flatten();
        }
        (all, self.others + rest)
    }
}

/// The filter for a pattern.
fn query_of(pattern: &str) -> String {
    Expression::Field(FieldName::new("message"), Test::Pattern(pattern.to_owned())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_level_of_most_of_its_records() {
        let level_of = |levels: &[Option<Level>]| {
            let mut counter = PatternCounter::default();
            for (n, level) in levels.iter().enumerate() {
                let mut record = record();
                (record.level, record.message) = (*level, format!("order {n} done"));
                counter.add(&record);
            }
            counter.top(1).0.pop().and_then(|pattern| pattern.level)
        };
        let [info, error] = [Some(Level::Info), Some(Level::Error)];
        assert_eq!(level_of(&[info, info, error]), info);
        assert_eq!(level_of(&[info, error]), error);
        assert_eq!(level_of(&[None, None, error]), None);
    }

    #[test]
    fn each_record_is_of_a_shown_pattern_or_of_the_others() {
        let counted = |shown: usize| {
            let mut counter = PatternCounter::default();
            for (word, times) in [("a", 4), ("b", 3), ("c", 2), ("d", 1)] {
                for n in 0..times {
                    let mut record = record();
                    record.message = format!("{word} {n} done");
                    counter.add(&record);
                }
            }
            let (patterns, others) = counter.top(shown);
            (patterns.iter().map(|pattern| pattern.records).collect::<Vec<_>>(), others)
        };
        assert_eq!(counted(2), (vec![4, 3], 3));
        assert_eq!(counted(4), (vec![4, 3, 2, 1], 0));
    }

    fn record() -> StoredRecord {
        let key = daytable_model::key::RowKey::new(Ticks::UNIX_EPOCH, 0, 0);
        let row = crate::entity::OwnedRow { partition: "web".into(), key, level: None, properties: Vec::new() };
        StoredRecord::new("Log20261120".into(), row)
    }

    #[test]
    fn the_filter_of_a_pattern_finds_the_records_that_it_counts() {
        let texts = ["a 7 (b)", "a 8 (b)\n  at c.d(E.java:7)", "a x y (b)", "a <_> (b)", "a \"q\" 1", "a \\ 1*"];
        for text in texts {
            let filter = query_of(&pattern_of(text));
            let query = daytable_logsql::ParsedQuery::parse(&filter).expect("a query");
            let Expression::Field(_, test) = &query.filter else { panic!("{filter}") };
            let matcher = daytable_logsql::Matcher::new(&FieldName::new("message"), test);
            for other in texts {
                assert_eq!(matcher.matches_text(other), pattern_of(other) == pattern_of(text), "{filter} {other}");
            }
        }
    }
}
