//! The records of all tables, newest first.
//!
//! A day-table states the times of its oldest and newest records, which may be any time: a late record is in the table
//! of the day it arrived. So tables are merged, and each is opened only when its newest record could be next. A query
//! for the newest hundred records reads one table, however many exist. Days that exist only as archives are merged with
//! the others and read in place.
//!
//! The newest record of a remote table is known only after a request to each of its partitions. A remote table is
//! opened when the end of its period could be next. A record that is dated ahead of its day, and is only in the remote
//! store, is therefore returned when that day is read.

use super::archived::{ArchiveReport, ArchiveSession, ArchivedPart};
use super::bounds::{Bounds, Rows, archived_rows, range_of, tables_of, unless_gone};
use super::entity::{Joiner, OwnedRow, join};
use super::filter::{DayChooser, Filter, RowFilter};
use super::merged::MergedRows;
use super::record::StoredRecord;
use super::stores::Stores;
use crate::tables::{Projection, RangeQuery, TableError, TableStore, wanted_rows};
use daytable_model::key::{DayTable, RowKey};
use daytable_store::{Reader, Row, StoreError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The least difference of two times.
const TICK: Duration = Duration::from_nanos(100);

/// Passes the records that match `filter` to `each`, newest first, until `each` breaks or there are no more. Reports
/// the archives that were read, and those that are missing because they could not be read.
///
/// # Errors
///
/// The data folder or the remote store cannot be read: the records passed until then are incomplete.
pub fn select(
    stores: &Stores<'_>,
    filter: &Filter,
    each: impl FnMut(StoredRecord) -> ControlFlow<()>,
) -> Result<ArchiveReport, TableError> {
    select_while(stores, filter, &|| true, each)
}

/// Like [`select`], but ends when `go_on` returns false. `go_on` is called repeatedly.
///
/// # Errors
///
/// Those of [`select`].
pub fn select_while(
    stores: &Stores<'_>,
    filter: &Filter,
    go_on: &dyn Fn() -> bool,
    mut each: impl FnMut(StoredRecord) -> ControlFlow<()>,
) -> Result<ArchiveReport, TableError> {
    let (reading, row_filter) = (ArchiveSession::new(stores.archives), filter.row_filter().asking(go_on));
    let mut left = filter.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(ArchiveReport::default());
    }
    let selection = Selection::of(stores, &reading, filter, &row_filter, go_on);
    let tables = tables_of(stores, &reading, filter)?;
    let merged = merge(
        tables,
        // A table may be read without a row, where a text is nowhere.
        |bounds| if go_on() { records_by_rows(&selection, bounds) } else { Err(TableError::Interrupted) },
        |record| {
            if row_filter.is_interrupted() {
                return ControlFlow::Break(());
            }
            left -= 1;
            each(record)?;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    match merged {
        Ok(()) | Err(TableError::Interrupted) => Ok(reading.into_report()),
        Err(error) => Err(error),
    }
}

/// The filter and the stores of a selection.
#[derive(Clone, Copy)]
pub(super) struct Selection<'a> {
    pub(super) stores: &'a Stores<'a>,
    pub(super) reading: &'a ArchiveSession,
    /// The conditions that stores can decide.
    pub(super) filter: &'a Filter,
    /// The conditions beside the query.
    pub(super) asked: &'a Filter,
    /// Whether each record that matches the query has the text of these conditions.
    pub(super) is_text_implied: bool,
    pub(super) row_filter: &'a RowFilter<'a>,
    /// Called repeatedly; false ends the selection.
    pub(super) go_on: &'a dyn Fn() -> bool,
}

impl<'a> Selection<'a> {
    /// A selection without a query.
    pub(super) fn of(
        stores: &'a Stores<'a>,
        reading: &'a ArchiveSession,
        filter: &'a Filter,
        row_filter: &'a RowFilter<'a>,
        go_on: &'a dyn Fn() -> bool,
    ) -> Selection<'a> {
        Selection { stores, reading, filter, asked: filter, is_text_implied: false, row_filter, go_on }
    }
}

/// Records of a table, newest first.
pub(super) type RecordStream<'a> = Box<dyn Iterator<Item = Result<StoredRecord, TableError>> + 'a>;

/// The records of a table that match the filter of a selection, made row by row.
pub(super) fn records_by_rows<'a>(
    selection: &Selection<'a>,
    bounds: &Bounds,
) -> Result<Option<RecordStream<'a>>, TableError> {
    let Selection { stores, reading, filter, row_filter, .. } = *selection;
    let Some(rows) = entities_of(stores, reading, filter, row_filter, bounds, Projection::All)? else {
        return Ok(None);
    };
    let name: Arc<str> = bounds.table.to_string().into();
    let records = join(rows).map(move |entity| entity.map(|entity| StoredRecord::new(name.clone(), entity)));
    Ok(Some(Box::new(records.filter(|record| record.as_ref().map_or(true, |record| row_filter.matches(record))))))
}

/// Rows of a table, newest first and owned.
pub(super) type Entities<'a> = Box<dyn Iterator<Item = Result<OwnedRow, TableError>> + 'a>;

/// The entities of a table that may match, from any place; `None` if the table has no rows of the instance, or is gone.
pub(super) fn entities_of<'a>(
    stores: &'a Stores<'a>,
    reading: &'a ArchiveSession,
    filter: &'a Filter,
    row_filter: &'a RowFilter<'a>,
    bounds: &Bounds,
    columns: Projection,
) -> Result<Option<Entities<'a>>, TableError> {
    if let Some(remote) = stores.remote.filter(|_| bounds.is_remote) {
        return Ok(Some(Box::new(MergedRows::begin(
            stores,
            remote,
            reading,
            filter,
            row_filter,
            bounds.clone(),
            columns,
        )?)));
    }
    let Some(rows) = rows_of(stores.reader, reading, filter, bounds)? else { return Ok(None) };
    let entity = |row: Result<Row, StoreError>| match row {
        Ok(_) if row_filter.is_interrupted() => Some(Err(TableError::Interrupted)),
        Ok(row) => row_filter.may_match(row.key(), row.level(), row.properties()).then(|| Ok(OwnedRow::of(&row))),
        Err(StoreError::TableGone(_)) => None,
        Err(error) => Some(Err(error.into())),
    };
    Ok(Some(Box::new(rows.filter_map(entity))))
}

/// The rows of a local table, or of its archive, that may match; `None` if the table has no rows of the instance, or
/// is gone. If a table is dropped while it is read, the rest comes from its archive.
fn rows_of<'a>(
    reader: &'a Reader,
    reading: &'a ArchiveSession,
    filter: &'a Filter,
    bounds: &Bounds,
) -> Result<Option<Rows<'a>>, StoreError> {
    if !bounds.stands {
        return archived_rows(reader, reading, filter, bounds, None);
    }
    let scan = range_of(reader, filter, bounds)
        .and_then(|range| range.map(|range| reader.scan(&bounds.table, &range)).transpose());
    let Some(scan) = unless_gone(scan)? else { return archived_rows(reader, reading, filter, bounds, None) };
    let (bounds, mut last) = (bounds.clone(), None);
    let mut rows: Option<Rows<'a>> = scan.map(|scan| Box::new(scan) as Rows<'a>);
    Ok(Some(Box::new(std::iter::from_fn(move || {
        let mut next = rows.as_mut()?.next();
        if let Some(Err(StoreError::TableGone(_))) = next {
            rows = match archived_rows(reader, reading, filter, &bounds, last) {
                Ok(rows) => rows,
                Err(error) => return Some(Err(error)),
            };
            next = rows.as_mut()?.next();
        }
        if let Some(Ok(row)) = &next {
            last = Some(row.key());
        }
        next
    }))))
}

/// Finds one record by its three keys, with its items. Reads only the pages that contain them; reads the archive if
/// the table is not local. If several hosts of a lake have a record with these keys, it is that of one of them.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn find_record(
    stores: &Stores<'_>,
    table: &DayTable,
    partition: &str,
    key: RowKey,
) -> Result<(Option<StoredRecord>, ArchiveReport), TableError> {
    let (reader, reading) = (stores.reader, ArchiveSession::new(stores.archives));
    let stands = |row: RowKey| unless_gone(reader.row(table, partition, row)).map(Option::flatten);
    if let Some(record) = joined(table, key, stands)? {
        return Ok((Some(record), ArchiveReport::default()));
    }
    // In this order: a row that is sent meanwhile is in the remote store before it leaves the folder.
    if let Some(remote) = stores.remote
        && let Some(record) = remote_one(remote, table, partition, key)?
    {
        return Ok((Some(record), ArchiveReport::default()));
    }
    let is_gone = !reader.table_times()?.iter().any(|(standing, _)| standing == table);
    let archived = if is_gone { reading.latest(reader)?.remove(table) } else { None };
    let of_table = table.clone();
    let days = Some(DayChooser::new(move |table, _| *table == of_table));
    let until = key.time().plus(TICK);
    let at_time = Filter { since: Some(key.time()), until: Some(until), days, ..Filter::default() };
    reading.look_beside(&at_time);
    let of_lake = reading.lake_days(&at_time).into_iter().map(|(file, _)| ArchivedPart::Lake(file));
    for part in archived.map(ArchivedPart::Catalog).into_iter().chain(of_lake) {
        let Some(file) = reading.open(&part) else { continue };
        match joined(table, key, |row| file.row(partition, row)) {
            Ok(None) => {}
            Ok(found) => return Ok((found, reading.into_report())),
            Err(error) => reading.unread(&part.shown(), error),
        }
    }
    Ok((None, reading.into_report()))
}

/// Finds one record in a remote store. Reads the few rows of its partition with its time.
fn remote_one(
    remote: &dyn TableStore,
    table: &DayTable,
    partition: &str,
    key: RowKey,
) -> Result<Option<StoredRecord>, TableError> {
    let (from, to) = (key.time(), key.time());
    let wanted = RangeQuery { from, to, ..RangeQuery::all_of(partition.into()) };
    let mut joiner = Joiner::default();
    for row in wanted_rows(remote, table, &wanted) {
        let row = match row {
            Ok(row) => row,
            Err(error) if error.is_not_there() => break,
            Err(error) => return Err(error),
        };
        if row.key.with_item(0) == key.with_item(0)
            && let Some(entity) = joiner.push(row)
        {
            return Ok(Some(StoredRecord::new(table.to_string().into(), entity)));
        }
    }
    Ok(joiner.drain_incomplete().next().map(|entity| StoredRecord::new(table.to_string().into(), entity)))
}

/// The record under `key`, joined with its items; `row` returns the row of a key.
fn joined(
    table: &DayTable,
    key: RowKey,
    row: impl Fn(RowKey) -> Result<Option<Row>, StoreError>,
) -> Result<Option<StoredRecord>, StoreError> {
    let Some(first) = row(key.with_item(0))? else { return Ok(None) };
    let master = OwnedRow::of(&first);
    let items = u16::try_from(master.items()).unwrap_or(u16::MAX).min(daytable_model::key::ITEMS_MAX);
    let mut joiner = Joiner::default();
    let mut whole = joiner.push(master);
    for item in 1..=items {
        if let Some(row) = row(key.with_item(item))? {
            whole = joiner.push(OwnedRow::of(&row));
        }
    }
    let whole = whole.or_else(|| joiner.drain_incomplete().next());
    Ok(whole.map(|entity| StoredRecord::new(table.to_string().into(), entity)))
}

/// Returns the records of `tables` newest first; `open` is called for a table when its newest could be next.
pub(super) fn merge<E, I: Iterator<Item = Result<StoredRecord, E>>>(
    mut tables: Vec<Bounds>,
    mut open: impl FnMut(&Bounds) -> Result<Option<I>, E>,
    mut each: impl FnMut(StoredRecord) -> ControlFlow<()>,
) -> Result<(), E> {
    tables.sort_by_key(|bounds| bounds.opens);
    // A table without further records is closed.
    let mut opened: Vec<Option<I>> = Vec::new();
    let mut heads: Vec<Option<StoredRecord>> = Vec::new();
    let mut order: BinaryHeap<Reverse<(RowKey, usize)>> = BinaryHeap::new();
    loop {
        let could_be_next =
            |bounds: &mut Bounds| order.peek().is_none_or(|Reverse((key, _))| bounds.opens >= key.time());
        let next = if let Some(bounds) = tables.pop_if(could_be_next) {
            let Some(records) = open(&bounds)? else { continue };
            opened.push(Some(records));
            heads.push(None);
            opened.len() - 1
        } else if let Some(Reverse((_, at))) = order.pop() {
            if let Some(record) = heads[at].take()
                && each(record).is_break()
            {
                return Ok(());
            }
            at
        } else {
            return Ok(());
        };
        match opened[next].as_mut().and_then(Iterator::next).transpose()? {
            Some(record) => {
                order.push(Reverse((record.row_key, next)));
                heads[next] = Some(record);
            }
            None => opened[next] = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::{Period, TableName};
    use daytable_model::time::Ticks;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::convert::Infallible;

    fn time(seconds: u32) -> Ticks {
        Ticks::from_unix(i64::from(seconds), 0).expect("in range")
    }

    fn bounds(day: usize, seconds: &[u32]) -> Option<Bounds> {
        let start = Ticks::from_unix(i64::try_from(day).expect("small") * 86_400, 0).expect("in range");
        let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, start);
        let (from, to) = (time(*seconds.iter().min()?), time(*seconds.iter().max()?));
        Some(Bounds { table, from, to, opens: to, stands: true, is_remote: false, archived: None })
    }

    /// Records of table `day` at these seconds, newest first.
    fn records(day: usize, seconds: &[u32]) -> Vec<StoredRecord> {
        let mut keys: Vec<_> =
            seconds.iter().zip(0..).map(|(&s, position)| RowKey::new(time(s), day as u64, position)).collect();
        keys.sort();
        let record = |key| {
            let entity = OwnedRow { partition: "web".into(), key, level: None, properties: vec![] };
            StoredRecord::new(day.to_string().into(), entity)
        };
        keys.into_iter().map(record).collect()
    }

    /// The keys that the newest `limit` records have, and the tables that were opened for them.
    fn newest(tables: &[Vec<u32>], limit: usize) -> (Vec<RowKey>, usize) {
        let (opened, mut keys) = (RefCell::new(0), Vec::new());
        let all: Vec<Bounds> = tables.iter().enumerate().filter_map(|(day, seconds)| bounds(day, seconds)).collect();
        let open = |bounds: &Bounds| {
            *opened.borrow_mut() += 1;
            let day = usize::try_from(bounds.table.start().unix_seconds() / 86_400).expect("small");
            Ok::<_, Infallible>(Some(records(day, &tables[day]).into_iter().map(Ok)))
        };
        let merged = merge(all, open, |record| {
            keys.push(record.row_key);
            if keys.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        merged.expect("infallible");
        (keys, opened.into_inner())
    }

    #[test]
    fn the_newest_few_open_one_table() {
        let days: Vec<Vec<u32>> = (0..30).map(|day| (0..10).map(|n| day * 100 + n).collect()).collect();
        assert_eq!(newest(&days, 10), (records(29, &days[29]).iter().map(|r| r.row_key).collect(), 1));
        assert_eq!(newest(&days, 11).1, 2);
    }

    #[test]
    fn a_late_record_comes_in_its_own_place() {
        // The table of the second day has a record of the first.
        let (keys, opened) = newest(&[vec![10, 20, 30], vec![15, 110]], usize::MAX);
        let seconds: Vec<_> = keys.iter().map(|key| key.time().unix_seconds()).collect();
        assert_eq!((seconds, opened), (vec![110, 30, 20, 15, 10], 2));
    }

    proptest! {
        /// With any times in the tables, every record is returned once and newest first.
        #[test]
        fn tables_are_merged_newest_first(tables in proptest::collection::vec(proptest::collection::vec(0u32..50, 0..8), 0..6)) {
            let mut all: Vec<RowKey> =
                tables.iter().enumerate().flat_map(|(day, s)| records(day, s)).map(|record| record.row_key).collect();
            all.sort();
            prop_assert_eq!(newest(&tables, usize::MAX).0, all);
        }
    }
}
