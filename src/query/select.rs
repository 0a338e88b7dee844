//! The records of all tables, newest first.
//!
//! A day-table says when its oldest and newest records are, and that may be any time: a late record lies in the table
//! of the day it came. So tables are merged, and each is opened only when its newest record could be the next: a
//! query for the newest hundred reads one table, however many there are. Days of which there is only an archive are merged
//! with the others, and read where they are.

use super::archived::{Archives, Reading, Told};
use super::entity::{Entity, Joiner, join};
use super::filter::Filter;
use super::record::Record;
use crate::key::{DayTable, RowKey};
use crate::store::catalogue;
use crate::store::sealed::SealedFile;
use crate::store::{Range, Reader, Row, StoreError};
use crate::time::Ticks;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Gives the records that `filter` wants to `each`, newest first, until it breaks or there are no more. Says what was
/// read of `archives`, and what of them is missing because it could not be read.
pub fn select(
    reader: &Reader,
    archives: &Archives,
    filter: &Filter,
    mut each: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<Told, StoreError> {
    let reading = Reading::new(archives);
    let (tables, sieve) = (tables_of(reader, &reading, filter)?, filter.sieve());
    let mut left = filter.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(Told::default());
    }
    let open = |bounds: &Bounds| {
        let Some(rows) = rows_of(reader, &reading, filter, bounds)? else { return Ok(None) };
        let rows = rows.filter_map(|row| match row {
            Ok(row) => sieve.lets_through(row.key(), row.level(), row.properties()).then(|| Ok(Entity::of(&row))),
            Err(StoreError::TableGone(_)) => None,
            Err(error) => Some(Err(error)),
        });
        let name: Arc<str> = bounds.table.to_string().into();
        let records = join(rows).map(move |entity| entity.map(|entity| Record::new(name.clone(), entity)));
        Ok(Some(records.filter(|record| record.as_ref().map_or(true, |record| sieve.wants(record)))))
    };
    merge(tables, open, |record| {
        left -= 1;
        each(record)?;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(reading.told())
}

/// Rows of a table, newest first.
type Rows<'a> = Box<dyn Iterator<Item = Result<Row, StoreError>> + 'a>;

/// The rows that `filter` may want of a table that stands, or of its archive; none where it has nothing of the wanted
/// instance, or is gone. Of a table that is dropped while it is read, the rest comes from its archive.
fn rows_of<'a>(
    reader: &'a Reader,
    reading: &'a Reading,
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

/// The rows behind `last` of a day's archive.
fn archived_rows<'a>(
    reader: &Reader,
    reading: &'a Reading,
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
    reading: &Reading,
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

/// One record by its three keys, its items with it; reads the one page that it is in (and those of its items). Where its
/// table does not stand, its archive is read.
pub fn one(
    reader: &Reader,
    archives: &Archives,
    table: &DayTable,
    partition: &str,
    key: RowKey,
) -> Result<(Option<Record>, Told), StoreError> {
    let reading = Reading::new(archives);
    let stands = |row: RowKey| unless_gone(reader.row(table, partition, row)).map(Option::flatten);
    if let Some(record) = joined(table, key, stands)? {
        return Ok((Some(record), Told::default()));
    }
    let is_gone = !reader.table_times()?.iter().any(|(standing, _)| standing == table);
    let archived = if is_gone { reading.latest(reader)?.remove(table) } else { None };
    let file = archived.and_then(|archived| reading.open(&archived));
    let found = file.map(|file| joined(table, key, |row| file.row(partition, row)));
    let found = found.transpose().unwrap_or_else(|error| {
        reading.unread(table, error);
        None
    });
    Ok((found.flatten(), reading.told()))
}

/// The record under `key`, its items joined with it; `row` gives the row of a key.
fn joined(
    table: &DayTable,
    key: RowKey,
    row: impl Fn(RowKey) -> Result<Option<Row>, StoreError>,
) -> Result<Option<Record>, StoreError> {
    let Some(first) = row(key.with_item(0))? else { return Ok(None) };
    let master = Entity::of(&first);
    let items = u16::try_from(master.items()).unwrap_or(u16::MAX).min(crate::key::ITEMS_MAX);
    let mut joiner = Joiner::default();
    let mut whole = joiner.push(master);
    for item in 1..=items {
        if let Some(row) = row(key.with_item(item))? {
            whole = joiner.push(Entity::of(&row));
        }
    }
    let whole = whole.or_else(|| joiner.take_incomplete().next());
    Ok(whole.map(|entity| Record::new(table.to_string().into(), entity)))
}

/// A table and the times between which its wanted records are, both included.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) table: DayTable,
    pub(super) from: Ticks,
    pub(super) to: Ticks,
    /// Whether it is a table that stands. One that is dropped meanwhile is read from its archive.
    pub(super) stands: bool,
    pub(super) archived: Option<catalogue::Archived>,
}

/// The tables that can have records that `filter` wants, and between which times: those that stand, and those of which
/// there is only an archive.
pub(super) fn tables_of(reader: &Reader, reading: &Reading, filter: &Filter) -> Result<Vec<Bounds>, StoreError> {
    let Some((from, to)) = filter.times() else { return Ok(Vec::new()) };
    // In this order: a day that is dropped in between was archived before, and is found twice rather than never.
    let standing = reader.table_times()?;
    let mut archives = reading.latest(reader)?;
    let mut found = Vec::new();
    let mut add = |table, times: Option<(Ticks, Ticks)>, stands, archived| {
        // What is committed from now on is newer than the bound or belongs to the next query: the order stays true.
        let Some((oldest, newest)) = times else { return };
        let (from, to) = (from.max(oldest), to.min(newest));
        if from <= to {
            found.push(Bounds { table, from, to, stands, archived });
        }
    };
    for (table, times) in standing {
        let archived = archives.remove(&table);
        add(table, times, true, archived);
    }
    for (table, archived) in archives {
        add(table, archived.seal.times, false, Some(archived));
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
    Range { partitions, from: bounds.from, to: bounds.to, contains }
}

/// A table that was dropped meanwhile has nothing more to give.
pub(super) fn unless_gone<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::TableGone(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives the records of `tables` newest first; `open` is called for a table when its newest could be next.
fn merge<E, I: Iterator<Item = Result<Record, E>>>(
    mut tables: Vec<Bounds>,
    mut open: impl FnMut(&Bounds) -> Result<Option<I>, E>,
    mut each: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<(), E> {
    tables.sort_by_key(|bounds| bounds.to);
    let mut opened: Vec<I> = Vec::new();
    let mut heads: Vec<Option<Record>> = Vec::new();
    let mut order: BinaryHeap<Reverse<(RowKey, usize)>> = BinaryHeap::new();
    loop {
        let could_be_next = |bounds: &mut Bounds| order.peek().is_none_or(|Reverse((key, _))| bounds.to >= key.time());
        let next = if let Some(bounds) = tables.pop_if(could_be_next) {
            let Some(records) = open(&bounds)? else { continue };
            opened.push(records);
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
        if let Some(record) = opened[next].next().transpose()? {
            order.push(Reverse((record.row_key, next)));
            heads[next] = Some(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Period, TableName};
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
        Some(Bounds { table, from, to, stands: true, archived: None })
    }

    /// Records of table `day` at these seconds, newest first.
    fn records(day: usize, seconds: &[u32]) -> Vec<Record> {
        let mut keys: Vec<_> =
            seconds.iter().zip(0..).map(|(&s, position)| RowKey::new(time(s), day as u64, position)).collect();
        keys.sort();
        let record = |key| {
            let entity = Entity { partition: "web".into(), key, level: None, properties: vec![] };
            Record::new(day.to_string().into(), entity)
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
        /// Whatever times the tables hold, every record is given once and newest first.
        #[test]
        fn tables_are_merged_newest_first(tables in proptest::collection::vec(proptest::collection::vec(0u32..50, 0..8), 0..6)) {
            let mut all: Vec<RowKey> =
                tables.iter().enumerate().flat_map(|(day, s)| records(day, s)).map(|record| record.row_key).collect();
            all.sort();
            prop_assert_eq!(newest(&tables, usize::MAX).0, all);
        }
    }
}
