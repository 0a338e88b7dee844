//! The records before and after one: those of its source, in the order of the source, or those of its whole instance, in
//! the order of time.
//!
//! Records of the same file or connection are ordered by their positions there, whatever their times say. Beyond the
//! ends of a file, the records of the same source path come in the order of time: the file before its rotation, or the
//! next one. Neighbours are looked for in all tables, because a late record lies in the table of the day it arrived.

use crate::archived::ArchiveReport;
use crate::entity::OwnedValue;
use crate::filter::Filter;
use crate::record::StoredRecord;
use crate::select::{find_record, select};
use crate::stores::Stores;
use crate::tables::TableError;
use daytable_model::column_name::LOG_HOST;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use std::cmp::{Ordering, Reverse};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Duration;

/// The most records on each side.
pub const CONTEXT_MAX: usize = 1000;

/// By how much the times of neighbours may disagree with their order.
const DISORDER: Duration = Duration::from_secs(600);

/// The least difference of two times.
const TICK: Duration = Duration::from_nanos(100);

/// How far after a record its successors are looked for, one range after the other.
const RANGES: [Duration; 5] = [
    Duration::from_secs(60),
    Duration::from_secs(3600),
    Duration::from_secs(86_400),
    Duration::from_secs(31 * 86_400),
    Duration::from_secs(100 * 366 * 86_400),
];

/// Which records are neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextScope {
    /// Those of the same source.
    #[default]
    Source,
    /// Those of the same instance, whatever their source.
    Instance,
}

impl ContextScope {
    /// Every scope.
    pub const ALL: [ContextScope; 2] = [ContextScope::Source, ContextScope::Instance];

    /// The word for the command line and for HTTP.
    pub fn name(self) -> &'static str {
        match self {
            ContextScope::Source => "source",
            ContextScope::Instance => "instance",
        }
    }

    /// Whether both of two records of one instance are in a scope.
    fn has_both(self, one: &StoredRecord, other: &StoredRecord) -> bool {
        self == ContextScope::Instance || one.source == other.source && host_of(one) == host_of(other)
    }

    /// By how much the times of neighbours may disagree with their order.
    fn disorder(self) -> Duration {
        match self {
            ContextScope::Source => DISORDER,
            ContextScope::Instance => Duration::ZERO,
        }
    }

    fn is_before(self, one: &StoredRecord, other: &StoredRecord) -> bool {
        match self {
            ContextScope::Source => Place::of(one).is_before(&Place::of(other)),
            // The newest record has the least key.
            ContextScope::Instance => one.row_key > other.row_key,
        }
    }

    fn sort(self, records: &mut Vec<StoredRecord>) {
        match self {
            ContextScope::Source => sort(records),
            ContextScope::Instance => records.sort_by_key(|record| Reverse(record.row_key)),
        }
    }
}

/// The host that sent or archived a record: sources of several hosts may be called alike.
fn host_of(record: &StoredRecord) -> Option<&str> {
    record.fields.iter().find_map(|(name, value)| match value {
        OwnedValue::String(host) if name == LOG_HOST => Some(host.as_str()),
        _ => None,
    })
}

/// A record with its neighbours.
#[derive(Clone, Debug)]
pub struct RecordContext {
    /// The records before it, oldest first.
    pub before: Vec<StoredRecord>,
    /// The record.
    pub record: StoredRecord,
    /// The records after it, oldest first.
    pub after: Vec<StoredRecord>,
}

/// The record with these keys and its neighbours; `None` if the record does not exist. At most [`CONTEXT_MAX`] on each
/// side.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn context(
    stores: &Stores<'_>,
    table: &DayTable,
    partition: &str,
    key: RowKey,
    before: usize,
    after: usize,
    scope: ContextScope,
) -> Result<(Option<RecordContext>, ArchiveReport), TableError> {
    let (record, report) = find_record(stores, table, partition, key)?;
    let Some(record) = record else { return Ok((None, report)) };
    let (found, report) = neighbours(stores, record, before, after, scope)?;
    Ok((Some(found), report))
}

/// A record with its neighbours, at most [`CONTEXT_MAX`] on each side.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn neighbours(
    stores: &Stores<'_>,
    record: StoredRecord,
    before: usize,
    after: usize,
    scope: ContextScope,
) -> Result<(RecordContext, ArchiveReport), TableError> {
    let (before_max, after_max) = (before.min(CONTEXT_MAX), after.min(CONTEXT_MAX));
    let (time, own) = (record.time(), Place::of(&record));
    let mut report = ArchiveReport::default();
    let mut add = |more: ArchiveReport| report = std::mem::take(&mut report).joined(more);
    let of_instance = Filter { instance: Some(record.instance()), ..Filter::default() };
    let is_neighbour = |other: &StoredRecord| scope.has_both(other, &record) && Place::of(other) != own;
    let disorder = scope.disorder();
    // Of records with one time all are needed, to put them in order.
    let until = time.plus(disorder).plus(TICK);
    let mut older: Vec<StoredRecord> = Vec::new();
    if before_max > 0 {
        let filter = Filter { until: Some(until), ..of_instance.clone() };
        // A record with an earlier time may still be nearer by its position.
        let mut enough = None;
        add(select(stores, &filter, |other| {
            let other_time = other.time();
            if enough.is_some_and(|enough| other_time < enough) {
                return ControlFlow::Break(());
            }
            if is_neighbour(&other) && scope.is_before(&other, &record) {
                older.push(other);
                if older.len() == before_max && enough.is_none() {
                    enough = Some(other_time.minus(disorder));
                }
            }
            // Oldest last: only the newest can be neighbours.
            if older.len() > 4 * CONTEXT_MAX {
                scope.sort(&mut older);
                older.drain(..older.len() - CONTEXT_MAX);
            }
            ControlFlow::Continue(())
        })?);
    }
    let mut newer: Vec<StoredRecord> = Vec::new();
    let mut from = time.minus(disorder);
    for range in RANGES {
        if newer.len() >= after_max {
            break;
        }
        let until = time.plus(disorder).plus(range);
        let filter = Filter { since: Some(from), until: Some(until), ..of_instance.clone() };
        add(select(stores, &filter, |other| {
            if is_neighbour(&other) && scope.is_before(&record, &other) {
                newer.push(other);
            }
            // Newest first: only the oldest can be neighbours.
            if newer.len() > 4 * CONTEXT_MAX {
                scope.sort(&mut newer);
                newer.truncate(CONTEXT_MAX);
            }
            ControlFlow::Continue(())
        })?);
        from = until;
        if until == Ticks::MAX {
            break;
        }
    }
    scope.sort(&mut older);
    scope.sort(&mut newer);
    let older = older.split_off(older.len().saturating_sub(before_max));
    newer.truncate(after_max);
    Ok((RecordContext { before: older, record, after: newer }, report))
}

/// Records and their neighbours in groups, the oldest first. A group has records of one source or instance, in its order.
/// Groups that would touch or overlap are one, and no record comes twice.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn groups_around(
    stores: &Stores<'_>,
    mut matches: Vec<StoredRecord>,
    before: usize,
    after: usize,
    scope: ContextScope,
) -> Result<(Vec<Vec<StoredRecord>>, ArchiveReport), TableError> {
    let mut report = ArchiveReport::default();
    let mut groups: Vec<Vec<StoredRecord>> = Vec::new();
    scope.sort(&mut matches);
    // A stable sort: the records of a source keep their order.
    matches.sort_by(|one, other| {
        let by_source = || match scope {
            ContextScope::Source => (&one.source, host_of(one)).cmp(&(&other.source, host_of(other))),
            ContextScope::Instance => Ordering::Equal,
        };
        one.instance().cmp(&other.instance()).then_with(by_source)
    });
    for matches in matches.chunk_by(|one, other| one.instance() == other.instance() && scope.has_both(one, other)) {
        let mut group: Vec<StoredRecord> = Vec::new();
        let mut known: HashSet<Place> = HashSet::new();
        for record in matches {
            // One more: it shows whether the record before touches the group.
            let (context, read) = neighbours(stores, record.clone(), before.saturating_add(1), after, scope)?;
            report = report.joined(read);
            let RecordContext { before: mut older, record, after: newer } = context;
            let touches = older.iter().chain([&record]).any(|other| known.contains(&Place::of(other)));
            if older.len() > before {
                older.remove(0);
            }
            if !touches && !group.is_empty() {
                scope.sort(&mut group);
                groups.push(std::mem::take(&mut group));
            }
            let all = older.into_iter().chain([record]).chain(newer);
            group.extend(all.filter(|other| known.insert(Place::of(other))));
        }
        scope.sort(&mut group);
        groups.push(group);
    }
    groups.sort_by_key(|group| group.first().map(StoredRecord::time));
    Ok((groups, report))
}

/// Sorts by time, and then gives the records of each file its places in the order of the file. Comparing positions and
/// times in one sort would be no order.
fn sort(records: &mut Vec<StoredRecord>) {
    // Of two sources, that which began later is the first in the order of keys.
    records.sort_by_key(|record| (record.time(), Reverse(record.row_key.source()), record.row_key.position()));
    let mut files: std::collections::BTreeMap<SourceId, Vec<usize>> = std::collections::BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        files.entry(record.row_key.source()).or_default().push(at);
    }
    let mut ordered: Vec<Option<StoredRecord>> = records.drain(..).map(Some).collect();
    let mut sorted: Vec<Option<StoredRecord>> = ordered.iter().map(|_| None).collect();
    for places in files.into_values() {
        let mut of_file: Vec<StoredRecord> = places.iter().filter_map(|at| ordered[*at].take()).collect();
        of_file.sort_by_key(|record| record.row_key.position());
        for (at, record) in places.into_iter().zip(of_file) {
            sorted[at] = Some(record);
        }
    }
    records.extend(sorted.into_iter().flatten());
}

/// A place in the order of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    time: Ticks,
    source: SourceId,
    position: u64,
}

impl Place {
    fn of(record: &StoredRecord) -> Place {
        let key = record.row_key;
        Place { time: key.time(), source: key.source(), position: key.position() }
    }
}

impl Place {
    /// Whether the record is before another: by position within a file, by time between files, and of one time by when
    /// their sources began.
    fn is_before(&self, other: &Place) -> bool {
        match self.source == other.source {
            true => self.position < other.position,
            false => (self.time, Reverse(self.source)) < (other.time, Reverse(other.source)),
        }
    }
}
