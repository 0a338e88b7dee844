//! The simplest possible reader: a list of records, filtered one by one.

use super::records::{Written, printed};
use daytable_model::key::RowKey;
use daytable_model::record::Level;
use daytable_model::time::{Ticks, UNIX_EPOCH_TICKS};
use daytable_query::{Count, Filter, Grouping, StoredRecord};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The group of a count: time, level and instance.
type Group = (Option<Ticks>, Option<Option<Level>>, Option<String>);

/// The committed records. Of records with equal keys, the last.
#[derive(Default)]
pub(super) struct Plain(BTreeMap<(RowKey, Arc<str>), Written>);

/// A record for comparison, with its field values as printed, in any order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Read {
    pub(super) key: RowKey,
    partition: String,
    arrived: Option<Ticks>,
    level: Option<Level>,
    message: String,
    line: String,
    values: Vec<String>,
}

fn sorted(mut values: Vec<String>) -> Vec<String> {
    values.sort();
    values
}

impl From<&StoredRecord> for Read {
    fn from(record: &StoredRecord) -> Read {
        Read {
            key: record.row_key,
            partition: record.partition_key.to_string(),
            arrived: record.kept_arrival,
            level: record.level,
            message: record.message.clone(),
            line: record.line().into_owned(),
            values: sorted(record.fields.iter().map(|(_, value)| printed(value)).collect()),
        }
    }
}

impl From<&Written> for Read {
    fn from(written: &Written) -> Read {
        Read {
            key: written.key,
            partition: written.partition.to_string(),
            arrived: written.arrived,
            level: written.level,
            message: written.message.clone(),
            line: written.line.as_ref().map_or_else(|| written.message.clone(), |line| line.text.to_string()),
            values: sorted(written.printed.clone()),
        }
    }
}

/// Whether the filter, without its limit, accepts a record.
pub(super) fn wants(filter: &Filter, written: &Written) -> bool {
    let time = written.key.time();
    let contains = |needle: &str| {
        written.message.contains(needle)
            || written.printed.iter().any(|value| value.contains(needle))
            || written.line.as_ref().is_some_and(|line| line.text.contains(needle))
    };
    filter.instance.as_ref().is_none_or(|instance| instance == written.instance)
        && filter.since.is_none_or(|since| since <= time)
        && filter.until.is_none_or(|until| time < until)
        && filter.level.is_none_or(|level| written.level >= Some(level))
        && filter.contains.as_deref().is_none_or(contains)
}

impl Plain {
    pub(super) fn add(&mut self, written: &[Written]) {
        self.0.extend(written.iter().map(|one| ((one.key, one.partition.clone()), one.clone())));
    }

    /// All records, newest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Written> {
        self.0.values()
    }

    /// The answer to a query, newest first.
    pub(super) fn select(&self, filter: &Filter) -> Vec<Read> {
        let limit = usize::try_from(filter.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        self.all().filter(|written| wants(filter, written)).take(limit).map(Read::from).collect()
    }

    /// The answer to a count, in its order.
    pub(super) fn count(&self, filter: &Filter, grouping: Grouping) -> Vec<Count> {
        let mut counts: BTreeMap<Group, u64> = BTreeMap::new();
        if grouping == Grouping::default() {
            counts.insert((None, None, None), 0);
        }
        for written in self.all().filter(|written| wants(filter, written)) {
            let time = grouping.every.map(|every| {
                let step = i64::try_from(every.as_nanos() / 100).expect("short");
                let ticks = written.key.time().get() - UNIX_EPOCH_TICKS;
                Ticks::new(UNIX_EPOCH_TICKS + ticks / step * step).expect("in range")
            });
            let instance = grouping.instance.then(|| written.instance.to_owned());
            *counts.entry((time, grouping.level.then_some(written.level), instance)).or_default() += 1;
        }
        let count = |((time, level, instance), records)| Count { time, level, instance, records };
        counts.into_iter().map(count).collect()
    }
}
