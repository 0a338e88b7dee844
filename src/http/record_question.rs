//! A question of the command line about records, and the lines of its answer. [`super::ask`] has the route.
//!
//! An item stands in a line with its bytes as they are in memory. That form belongs to one version of daytable.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_query::Count;
use daytable_query::answer::{AnswerEnd, AnswerItem, QueryConditions};
use serde::{Deserialize, Serialize};

/// The version of the form of items.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A question about records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordQuestion {
    /// The version of the program that asks.
    pub(super) version: String,
    /// The query with its conditions.
    pub conditions: QueryConditions,
    /// The most records or rows.
    pub limit: Option<u64>,
    /// Whether archived days are read.
    pub has_archives: bool,
    /// Whether a remote store is read.
    pub has_remote: bool,
    /// Whether nothing is to be said about the query.
    pub is_quiet: bool,
    /// What is asked.
    pub form: QuestionForm,
}

impl RecordQuestion {
    /// A question of this program.
    pub fn new(conditions: QueryConditions, limit: Option<u64>, form: QuestionForm) -> RecordQuestion {
        RecordQuestion {
            version: VERSION.into(),
            conditions,
            limit,
            has_archives: true,
            has_remote: true,
            is_quiet: false,
            form,
        }
    }
}

/// What is asked about records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum QuestionForm {
    /// The records, or the rows of the query's pipes.
    Answer,
    /// Records with their neighbours; those of the query, or one.
    Groups {
        /// Neighbours before each.
        before: usize,
        /// Neighbours after each.
        after: usize,
        /// The name of the scope of neighbours.
        of: String,
        /// The keys of the one record: TABLE/PARTITIONKEY/ROWKEY.
        key: Option<String>,
    },
    /// Counts.
    Count {
        /// Separately by level, instance.
        by: Vec<String>,
        /// The seconds and nanoseconds of a step of time.
        every: Option<(u64, u32)>,
        /// The zone in which days and hours begin.
        zone: String,
    },
    /// The newest records, and then records as they are committed.
    Follow {
        /// Records to begin with.
        first: u64,
    },
}

/// A line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AskedLine {
    /// A record or a row: its bytes in base64.
    Item(String),
    /// The end of a group of records.
    GroupEnd,
    /// What looks wrong in a query that is followed.
    Warnings(Vec<String>),
    /// A count.
    Count(AskedCount),
    /// The end of the answer, without which it is not whole.
    End(AnswerEnd),
}

/// A count, whose parts that were not asked for are absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AskedCount {
    /// The start of the step of time, in ticks.
    time: Option<i64>,
    /// The names of levels, of which a record without a level has none.
    levels: Option<Vec<String>>,
    instance: Option<String>,
    records: u64,
}

impl AskedCount {
    /// The form of a count.
    pub fn of(count: &Count) -> AskedCount {
        let Count { time, level, instance, records } = count;
        AskedCount {
            time: time.map(Ticks::get),
            levels: level.map(|level| level.iter().map(|level| level.name().to_owned()).collect()),
            instance: instance.clone(),
            records: *records,
        }
    }

    /// The count; `None` of other texts.
    pub fn count(self) -> Option<Count> {
        let AskedCount { time, levels, instance, records } = self;
        let time = time.map(|ticks| Ticks::new(ticks).ok_or(())).transpose().ok()?;
        let level = match levels.as_deref() {
            None => None,
            Some([]) => Some(None),
            Some([name]) => Some(Some(Level::from_word(name)?)),
            Some(_) => return None,
        };
        Some(Count { time, level, instance, records })
    }
}

impl AskedLine {
    /// The line of an item.
    pub fn of_item(item: &AnswerItem) -> AskedLine {
        AskedLine::Item(STANDARD_NO_PAD.encode(item.to_bytes()))
    }

    /// The item of the line; `None` of other text.
    pub fn item(text: &str) -> Option<AnswerItem> {
        AnswerItem::from_bytes(&STANDARD_NO_PAD.decode(text).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_back_as_they_were() {
        let time = Ticks::from_date(2026, 11, 21);
        for (level, instance) in [(None, None), (Some(None), Some("web-1".to_owned())), (Some(Some(Level::Warn)), None)]
        {
            for time in [None, time] {
                let count = Count { time, level, instance: instance.clone(), records: 7 };
                let line = serde_json::to_string(&AskedLine::Count(AskedCount::of(&count))).expect("plain data");
                let AskedLine::Count(read) = serde_json::from_str(&line).expect("a line") else { panic!("{line}") };
                assert_eq!(read.count(), Some(count));
            }
        }
        let wrong = AskedCount { time: Some(-1), levels: None, instance: None, records: 1 };
        assert_eq!(wrong.count(), None);
        let wrong = AskedCount { time: None, levels: Some(vec!["errror".into()]), instance: None, records: 1 };
        assert_eq!(wrong.count(), None);
    }

    #[test]
    fn bytes_that_are_no_item_are_none() {
        for text in ["", "A", "////", "AQAB"] {
            assert!(AskedLine::item(text).is_none(), "{text}");
        }
    }
}
