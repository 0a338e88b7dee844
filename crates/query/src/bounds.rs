//! Which tables a query reads, between which times, and which of their rows.

use super::archived::ArchiveSession;
use super::filter::Filter;
use super::stores::Stores;
use crate::tables::TableError;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use daytable_store::catalog;
use daytable_store::sealed::SealedFile;
use daytable_store::{Range, Reader, Row, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of a table, newest first.
pub(super) type Rows<'a> = Box<dyn Iterator<Item = Result<Row, StoreError>> + 'a>;
/// A table and the times between which its wanted records are, both included.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) table: DayTable,
    pub(super) from: Ticks,
    pub(super) to: Ticks,
    /// It is opened when this could be the next time.
    pub(super) opens: Ticks,
    /// Whether it is a table that stands here. One that is dropped meanwhile is read from its archive.
    pub(super) stands: bool,
    /// Whether it may stand in the remote store.
    pub(super) is_remote: bool,
    pub(super) archived: Option<catalog::Archived>,
}

/// The tables that can have records that `filter` wants, and between which times: those that stand, and those of which
/// there is only an archive.
pub(super) fn tables_of(
    stores: &Stores<'_>,
    reading: &ArchiveSession,
    filter: &Filter,
) -> Result<Vec<Bounds>, TableError> {
    let Some((from, to)) = filter.times() else { return Ok(Vec::new()) };
    // In this order: a day that is sent, or dropped, in between is elsewhere before it goes, and is found twice rather
    // than never.
    let standing = stores.reader.table_times()?;
    let remote = stores.remote.map(|remote| remote.tables()).transpose()?;
    let mut archives = reading.latest(stores.reader)?;
    let mut found = Vec::new();
    let local = |table, times: Option<(Ticks, Ticks)>, stands, archived| {
        // What is committed from now on is newer than the bound or belongs to the next query: the order stays true.
        let (oldest, newest) = times?;
        let (from, to) = (from.max(oldest), to.min(newest));
        (from <= to).then_some(Bounds { table, from, to, opens: to, stands, is_remote: false, archived })
    };
    let mut waiting: BTreeMap<DayTable, Option<(Ticks, Ticks)>> = BTreeMap::new();
    for (table, times) in standing {
        if remote.is_some() {
            waiting.insert(table, times);
        } else {
            let archived = archives.remove(&table);
            found.extend(local(table, times, true, archived));
        }
    }
    let mut both: BTreeSet<DayTable> = remote.into_iter().flatten().collect();
    both.extend(waiting.keys().cloned());
    for table in both {
        let archived = archives.remove(&table);
        let (stands, newest) = match waiting.get(&table) {
            Some(times) => (true, times.map(|(_, newest)| newest)),
            None => (false, None),
        };
        let end = Ticks::new(table.end().get() - 1).unwrap_or(Ticks::MAX);
        let opens = to.min(newest.map_or(end, |newest| newest.max(end)));
        // What came late is older than its day; what is dated ahead is found with the day that it came on.
        if opens >= from {
            found.push(Bounds { table, from, to, opens, stands, is_remote: true, archived });
        }
    }
    for (table, archived) in archives {
        found.extend(local(table, archived.seal.times, false, Some(archived)));
    }
    Ok(found)
}

/// What to read of a table; none where it has nothing of the wanted instance. [`StoreError::TableGone`] where it is gone.
pub(super) fn range_of(reader: &Reader, filter: &Filter, bounds: &Bounds) -> Result<Option<Range>, StoreError> {
    let partitions = match &filter.instance {
        Some(instance) => Some(reader.partitions_of(&bounds.table, instance)?),
        None => None,
    };
    if partitions.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    Ok(Some(range_within(filter, bounds, partitions)))
}

fn range_within(filter: &Filter, bounds: &Bounds, partitions: Option<Vec<String>>) -> Range {
    let contains = filter.contains.clone().filter(|text| !text.is_empty());
    Range { partitions, from: bounds.from, to: bounds.to, contains, level: filter.level }
}

/// A table that was dropped meanwhile has nothing more to give.
pub(super) fn unless_gone<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::TableGone(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The rows behind `last` of a day's archive.
pub(super) fn archived_rows<'a>(
    reader: &Reader,
    reading: &'a ArchiveSession,
    filter: &Filter,
    bounds: &Bounds,
    last: Option<RowKey>,
) -> Result<Option<Rows<'a>>, StoreError> {
    let Some((file, mut range)) = archived_range(reader, reading, filter, bounds)? else { return Ok(None) };
    range.to = last.map_or(range.to, |last| last.time());
    let table = bounds.table.clone();
    // What cannot be read of an archive is said, and ends its rows, not the query.
    let rows = file.scan(&range).map_while(move |row| row.map_err(|error| reading.unread(&table, error)).ok());
    Ok(Some(Box::new(rows.filter(move |row| last.is_none_or(|last| row.key() > last)).map(Ok))))
}

/// The archive of a day and what to read of it; none where it has no archive that can be read, or nothing that is
/// wanted. Of a table that stood when the query began the archive is looked up anew: it may be younger than that.
pub(super) fn archived_range(
    reader: &Reader,
    reading: &ArchiveSession,
    filter: &Filter,
    bounds: &Bounds,
) -> Result<Option<(SealedFile, Range)>, StoreError> {
    let archived = if bounds.stands { reading.latest(reader)?.remove(&bounds.table) } else { bounds.archived.clone() };
    let Some(file) = archived.and_then(|archived| reading.open(&archived)) else { return Ok(None) };
    let partitions = filter.instance.as_ref().map(|instance| file.partitions_of(instance));
    if partitions.as_ref().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    Ok(Some((file, range_within(filter, bounds, partitions))))
}
