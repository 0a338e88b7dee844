//! The rows of a day in a remote store, newest first over all its partitions.
//!
//! Each partition is a stream of pages, and the streams are merged: the buckets of an instance are just partitions. What
//! is read ahead of all streams together is bounded, so a day of many partitions is read in small pieces of each.

use super::filter::Filter;
use crate::key::{DayTable, RowKey};
use crate::tables::{Columns, Continuation, Entity, Order, PAGE_ROWS_MAX, TableError, TableStore, Wanted};
use crate::time::Ticks;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Rows that are read ahead of all partitions together, about.
const AHEAD_ROWS: usize = 16 * PAGE_ROWS_MAX;
/// Rows that are read of a partition at a time, at least.
const PAGE_ROWS_MIN: usize = 16;

/// The rows of a day, or of an instance's part of it.
pub(super) struct Afar<'a> {
    store: &'a dyn TableStore,
    table: DayTable,
    filter: &'a Filter,
    columns: Columns,
    from: Ticks,
    to: Ticks,
    /// Rows before this one were given.
    resume: Option<RowKey>,
    streams: Vec<Stream>,
    order: BinaryHeap<Reverse<(RowKey, usize)>>,
}

struct Stream {
    wanted: Wanted,
    rows: VecDeque<Entity>,
    next: Option<Continuation>,
    is_over: bool,
}

impl<'a> Afar<'a> {
    /// The rows between two times, both included; from `at` on, where that is not the first.
    pub(super) fn begin(
        store: &'a dyn TableStore,
        table: DayTable,
        filter: &'a Filter,
        columns: Columns,
        (from, to): (Ticks, Ticks),
        at: Option<RowKey>,
    ) -> Result<Afar<'a>, TableError> {
        let (streams, order) = (Vec::new(), BinaryHeap::new());
        let mut afar = Afar { store, table, filter, columns, from, to, resume: None, streams, order };
        afar.restart(at)?;
        Ok(afar)
    }

    /// Reads anew from `at` on, that row included: all that was read ahead is forgotten.
    pub(super) fn restart(&mut self, at: Option<RowKey>) -> Result<(), TableError> {
        (self.streams, self.order) = (Vec::new(), BinaryHeap::new());
        self.resume = at.or(self.resume);
        let partitions = self.store.partitions(&self.table, self.filter.instance.as_deref())?;
        let rows = (AHEAD_ROWS / partitions.len().max(1)).clamp(PAGE_ROWS_MIN, PAGE_ROWS_MAX);
        // What is looked for inside of rows may be in none of the first.
        let limit = self.filter.limit.filter(|_| self.filter.contains.as_ref().is_none_or(String::is_empty));
        let rows = rows.min(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(rows)).max(1);
        for partition in partitions {
            let to = self.resume.map_or(self.to, |key| key.time().min(self.to));
            let (from, level, columns, order) = (self.from, self.filter.level, self.columns, Order::NewestFirst);
            let wanted = Wanted { partition, from, to, order, level, columns, rows };
            self.streams.push(Stream { wanted, rows: VecDeque::new(), next: None, is_over: false });
        }
        (0..self.streams.len()).try_for_each(|number| self.queue(number))
    }

    /// Puts the next row of a stream in order, which reads a page where there is none.
    fn queue(&mut self, number: usize) -> Result<(), TableError> {
        let (store, table, resume) = (self.store, &self.table, self.resume);
        let stream = &mut self.streams[number];
        while stream.rows.is_empty() && !stream.is_over {
            let page = store.read_range(table, &stream.wanted, stream.next.as_ref())?;
            stream.is_over = page.next.is_none();
            stream.next = page.next;
            stream.rows.extend(page.rows.into_iter().filter(|row| resume.is_none_or(|resume| row.key >= resume)));
        }
        if let Some(row) = stream.rows.front() {
            self.order.push(Reverse((row.key, number)));
        }
        Ok(())
    }

    /// The next row.
    pub(super) fn next(&mut self) -> Result<Option<Entity>, TableError> {
        let Some(Reverse((_, number))) = self.order.pop() else { return Ok(None) };
        let row = self.streams[number].rows.pop_front();
        self.queue(number)?;
        Ok(row)
    }
}
