//! The records of all tables, newest first.
//!
//! A day-table says when its oldest and newest records are, and that may be any time: a late record lies in the table
//! of the day it came. So tables are merged, and each is opened only when its newest record could be the next: a
//! query for the newest hundred reads one table, however many there are.

use super::entity::{Entity, Joiner, join};
use super::filter::Filter;
use super::record::Record;
use crate::key::{DayTable, RowKey};
use crate::store::{Range, Reader, StoreError};
use crate::time::Ticks;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Gives the records that `filter` wants to `each`, newest first, until it breaks or there are no more.
pub fn select(
    reader: &Reader,
    filter: &Filter,
    mut each: impl FnMut(Record) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let (tables, sieve) = (tables_of(reader, filter)?, filter.sieve());
    let mut left = filter.limit.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    let open = |bounds: &Bounds| {
        let Some(range) = range_of(reader, filter, bounds)? else { return Ok(None) };
        let Some(scan) = unless_gone(reader.scan(&bounds.table, &range))? else { return Ok(None) };
        let rows = scan.filter_map(|row| match row {
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
    })
}

/// One record by its three keys, its items with it; reads the one page that it is in (and those of its items).
pub fn one(reader: &Reader, table: &DayTable, partition: &str, key: RowKey) -> Result<Option<Record>, StoreError> {
    let Some(row) = unless_gone(reader.row(table, partition, key.with_item(0)))?.flatten() else { return Ok(None) };
    let master = Entity::of(&row);
    let items = u16::try_from(master.items()).unwrap_or(u16::MAX).min(crate::key::ITEMS_MAX);
    let mut joiner = Joiner::default();
    let mut whole = joiner.push(master);
    for item in 1..=items {
        if let Some(row) = unless_gone(reader.row(table, partition, key.with_item(item)))?.flatten() {
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
}

/// The tables that can have records that `filter` wants, and between which times.
pub(super) fn tables_of(reader: &Reader, filter: &Filter) -> Result<Vec<Bounds>, StoreError> {
    let Some((from, to)) = filter.times() else { return Ok(Vec::new()) };
    let bounds = reader.table_times()?.into_iter().filter_map(|(table, times)| {
        // What is committed from now on is newer than the bound or belongs to the next query: the order stays true.
        let (oldest, newest) = times?;
        let (from, to) = (from.max(oldest), to.min(newest));
        (from <= to).then_some(Bounds { table, from, to })
    });
    Ok(bounds.collect())
}

/// What to read of a table; none where it has nothing of the wanted instance.
pub(super) fn range_of(reader: &Reader, filter: &Filter, bounds: &Bounds) -> Result<Option<Range>, StoreError> {
    let partitions = match &filter.instance {
        Some(instance) => unless_gone(reader.partitions_of(&bounds.table, instance))?,
        None => None,
    };
    if filter.instance.is_some() && partitions.as_ref().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let contains = filter.contains.clone().filter(|text| !text.is_empty());
    Ok(Some(Range { partitions, from: bounds.from, to: bounds.to, contains }))
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
        Some(Bounds { table, from: time(*seconds.iter().min()?), to: time(*seconds.iter().max()?) })
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
