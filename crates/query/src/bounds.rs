//! The tables that a query reads, and the times and rows within them.

use super::archived::{ArchiveSession, ArchivedPart};
use super::filter::Filter;
use super::stores::Stores;
use crate::tables::TableError;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use daytable_store::sealed::SealedFile;
use daytable_store::{Range, Reader, Row, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rows of a table, newest first.
pub(super) type Rows<'a> = Box<dyn Iterator<Item = Result<Row, StoreError>> + 'a>;
/// A table, and the range of its matching times, both included.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) table: DayTable,
    pub(super) from: Ticks,
    pub(super) to: Ticks,
    /// The table is opened when this time could be next.
    pub(super) opens: Ticks,
    /// Whether it is a local table. If it is dropped meanwhile, its archive is read.
    pub(super) stands: bool,
    /// Whether it may exist in the remote store.
    pub(super) is_remote: bool,
    pub(super) archived: Option<ArchivedPart>,
}

impl Bounds {
    /// The name of the day, for people.
    pub(super) fn shown(&self) -> String {
        self.archived.as_ref().map_or_else(|| self.table.to_string(), ArchivedPart::shown)
    }
}

/// The tables that may have matching records, with the times of these records: local tables, remote tables, and
/// archives.
pub(super) fn tables_of(
    stores: &Stores<'_>,
    reading: &ArchiveSession,
    filter: &Filter,
) -> Result<Vec<Bounds>, TableError> {
    let Some((from, to)) = filter.times() else { return Ok(Vec::new()) };
    // In this order: a day that is sent or dropped meanwhile appears elsewhere before it disappears, and is found
    // twice rather than never.
    let standing = stores.reader.table_times()?;
    let remote = stores.remote.map(|remote| remote.tables()).transpose()?;
    let mut archives = reading.latest(stores.reader)?;
    let mut found = Vec::new();
    let local = |table, times: Option<(Ticks, Ticks)>, stands, archived| {
        // Later commits are newer than the bound or belong to the next query, so the order stays right.
        let (oldest, newest) = times?;
        let (from, to) = (from.max(oldest), to.min(newest));
        (from <= to).then_some(Bounds { table, from, to, opens: to, stands, is_remote: false, archived })
    };
    let mut waiting: BTreeMap<DayTable, Option<(Ticks, Ticks)>> = BTreeMap::new();
    for (table, times) in standing {
        if remote.is_some() {
            waiting.insert(table, times);
        } else {
            let archived = archives.remove(&table).map(ArchivedPart::Catalog);
            found.extend(local(table, times, true, archived));
        }
    }
    let mut both: BTreeSet<DayTable> = remote.into_iter().flatten().collect();
    both.extend(waiting.keys().cloned());
    for table in both {
        let archived = archives.remove(&table).map(ArchivedPart::Catalog);
        let (stands, newest) = match waiting.get(&table) {
            Some(times) => (true, times.map(|(_, newest)| newest)),
            None => (false, None),
        };
        let end = Ticks::new(table.end().get() - 1).unwrap_or(Ticks::MAX);
        let opens = to.min(newest.map_or(end, |newest| newest.max(end)));
        // A late record is older than its day; a record that is dated ahead is found with the day of its arrival.
        if opens >= from {
            found.push(Bounds { table, from, to, opens, stands, is_remote: true, archived });
        }
    }
    for (table, archived) in archives {
        found.extend(local(table, archived.seal.times, false, Some(ArchivedPart::Catalog(archived))));
    }
    reading.look_beside(filter);
    for (file, times) in reading.lake_days(filter) {
        found.extend(local(file.table().clone(), Some(times), false, Some(ArchivedPart::Lake(file))));
    }
    Ok(found)
}

/// The times of the oldest and the newest record of the data folder, or of a lake; `None` without records.
///
/// # Errors
///
/// The data folder cannot be read.
pub fn times_of(stores: &Stores<'_>) -> Result<Option<(Ticks, Ticks)>, TableError> {
    let reading = ArchiveSession::new(stores.archives);
    let local = stores.reader.table_times()?.into_iter().filter_map(|(_, times)| times);
    let times = local.chain(reading.lake_days(&Filter::default()).into_iter().map(|(_, times)| times));
    Ok(times.reduce(|(first, last), (of, to)| (first.min(of), last.max(to))))
}

/// The range to read of a table; `None` if it has no partitions that the filter wants. [`StoreError::TableGone`] if the table is
/// gone.
pub(super) fn range_of(reader: &Reader, filter: &Filter, bounds: &Bounds) -> Result<Option<Range>, StoreError> {
    let partitions = match &filter.instance {
        Some(instance) => Some(reader.partitions_of(&bounds.table, instance)?),
        None if filter.partitions.is_some() => Some(texts(reader.partitions(&bounds.table)?.iter())),
        None => None,
    };
    Ok(range_within(filter, bounds, partitions))
}

fn texts<'p>(partitions: impl Iterator<Item = &'p Arc<str>>) -> Vec<String> {
    partitions.map(|partition| partition.to_string()).collect()
}

/// The range of a table with these partitions, as far as the filter wants them.
fn range_within(filter: &Filter, bounds: &Bounds, mut partitions: Option<Vec<String>>) -> Option<Range> {
    if let Some(partitions) = &mut partitions {
        partitions.retain(|partition| filter.wants_partition(&bounds.table, partition));
        if partitions.is_empty() {
            return None;
        }
    }
    let contains = filter.contains.clone().filter(|text| !text.is_empty());
    Some(Range { partitions, from: bounds.from, to: bounds.to, contains, level: filter.level, ..Range::all() })
}

/// The most partitions that a local day-table or an archive has of those that a filter wants.
///
/// # Errors
///
/// The data folder cannot be read.
pub fn partitions_max(stores: &Stores<'_>, filter: &Filter) -> Result<usize, TableError> {
    let reading = ArchiveSession::new(stores.archives);
    let mut most = 0;
    for bounds in tables_of(stores, &reading, filter)? {
        let partitions = unless_gone(stores.reader.partitions(&bounds.table))?.unwrap_or_default();
        most = most.max(partitions.iter().filter(|name| filter.wants_partition(&bounds.table, name)).count());
    }
    Ok(most)
}

/// A dropped table has no more rows.
pub(super) fn unless_gone<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::TableGone(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The rows after `last` in a day's archive.
pub(super) fn archived_rows<'a>(
    reader: &Reader,
    reading: &'a ArchiveSession,
    filter: &Filter,
    bounds: &Bounds,
    last: Option<RowKey>,
) -> Result<Option<Rows<'a>>, StoreError> {
    let Some((file, mut range)) = archived_range(reader, reading, filter, bounds)? else { return Ok(None) };
    range.to = last.map_or(range.to, |last| last.time());
    let name = bounds.shown();
    // An unreadable part of an archive is reported and ends its rows, not the query.
    let rows = file.scan(&range).map_while(move |row| row.map_err(|error| reading.unread(&name, error)).ok());
    Ok(Some(Box::new(rows.filter(move |row| last.is_none_or(|last| row.key() > last)).map(Ok))))
}

/// The archive of a day and the range to read; `None` without a readable archive or matching partitions. For a local
/// table the archive is looked up again, because it may be newer than the query.
pub(super) fn archived_range(
    reader: &Reader,
    reading: &ArchiveSession,
    filter: &Filter,
    bounds: &Bounds,
) -> Result<Option<(SealedFile, Range)>, StoreError> {
    let archived = match bounds.stands {
        true => reading.latest(reader)?.remove(&bounds.table).map(ArchivedPart::Catalog),
        false => bounds.archived.clone(),
    };
    let Some(file) = archived.and_then(|archived| reading.open(&archived)) else { return Ok(None) };
    let partitions = match &filter.instance {
        Some(instance) => Some(file.partitions_of(instance)),
        None => filter.partitions.as_ref().map(|_| texts(file.partitions().iter())),
    };
    Ok(range_within(filter, bounds, partitions).map(|range| (file, range)))
}
