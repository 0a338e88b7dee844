//! The rows of a day in a remote store, newest first over all its partitions.
//!
//! Each partition is a stream of pages, and the streams are merged; the buckets of an instance are just partitions.
//! The rows read ahead are bounded over all streams, so a day of many partitions is read in small pieces of each.

use super::filter::Filter;
use crate::tables::{
    ContinuationToken, OwnedRow, Projection, RESULT_ROWS_MAX, RangeQuery, RowOrder, TableError, TableStore,
};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;

/// Approximate number of rows read ahead over all partitions.
const AHEAD_ROWS: usize = 16 * RESULT_ROWS_MAX;
/// The smallest number of rows that one read of a partition requests.
const PAGE_ROWS_MIN: usize = 16;

/// The rows of a day, or of an instance's part of it.
pub(super) struct RemoteRows<'a> {
    store: &'a dyn TableStore,
    table: DayTable,
    /// The query of each partition.
    wanted: RangeQuery,
    streams: Vec<PartitionStream>,
    order: BinaryHeap<Reverse<(RowKey, usize)>>,
    /// The stream whose next row is not queued yet.
    behind: Option<usize>,
}

struct PartitionStream {
    wanted: RangeQuery,
    /// Rows before this one were returned already.
    from: Option<RowKey>,
    rows: VecDeque<OwnedRow>,
    next: Option<ContinuationToken>,
    is_over: bool,
}

impl<'a> RemoteRows<'a> {
    /// The rows between two times, both included, from `at` on. The partitions in `ours` are read even if the store
    /// has no rows of them yet.
    pub(super) fn begin(
        store: &'a dyn TableStore,
        table: DayTable,
        filter: &Filter,
        columns: Projection,
        (from, to): (Ticks, Ticks),
        at: Option<RowKey>,
        ours: &BTreeSet<Arc<str>>,
    ) -> Result<RemoteRows<'a>, TableError> {
        let found = store.partitions(&table, filter.instance.as_deref())?.into_iter();
        let mut partitions: BTreeSet<Arc<str>> =
            found.filter(|partition| filter.wants_partition(&table, partition)).collect();
        partitions.extend(ours.iter().cloned());
        let rows = (AHEAD_ROWS / partitions.len().max(1)).clamp(PAGE_ROWS_MIN, RESULT_ROWS_MAX);
        // A search text may occur in none of the first rows.
        let limit = filter.limit.filter(|_| filter.contains.as_ref().is_none_or(String::is_empty));
        let rows = rows.min(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(rows)).max(1);
        let (level, order) = (filter.level, RowOrder::NewestFirst);
        let wanted = RangeQuery { partition: "".into(), from, to, order, level, columns, rows };
        let mut remote_rows =
            RemoteRows { store, table, wanted, streams: Vec::new(), order: BinaryHeap::new(), behind: None };
        remote_rows.restart(&partitions, at)?;
        Ok(remote_rows)
    }

    /// Discards the rows read ahead of these partitions, and reads them again from `at` on, including that row.
    pub(super) fn restart(&mut self, partitions: &BTreeSet<Arc<str>>, at: Option<RowKey>) -> Result<(), TableError> {
        self.streams.retain(|stream| !partitions.contains(&stream.wanted.partition));
        for partition in partitions {
            let to = at.map_or(self.wanted.to, |key| key.time().min(self.wanted.to));
            let wanted = RangeQuery { partition: partition.clone(), to, ..self.wanted.clone() };
            self.streams.push(PartitionStream { wanted, from: at, rows: VecDeque::new(), next: None, is_over: false });
        }
        self.order.clear();
        self.behind = None;
        (0..self.streams.len()).try_for_each(|number| self.queue(number))
    }

    /// Queues the next row of a stream, reading a page if necessary.
    fn queue(&mut self, number: usize) -> Result<(), TableError> {
        let (store, table) = (self.store, &self.table);
        let stream = &mut self.streams[number];
        while stream.rows.is_empty() && !stream.is_over {
            let page = store.read_range(table, &stream.wanted, stream.next.as_ref())?;
            stream.is_over = page.next.is_none();
            stream.next = page.next;
            let from = stream.from;
            stream.rows.extend(page.rows.into_iter().filter(|row| from.is_none_or(|from| row.key >= from)));
        }
        if let Some(row) = stream.rows.front() {
            self.order.push(Reverse((row.key, number)));
        }
        Ok(())
    }

    /// Makes [`RemoteRows::head`] the next row.
    pub(super) fn fill(&mut self) -> Result<(), TableError> {
        while let Some(number) = self.behind.take() {
            self.queue(number)?;
        }
        Ok(())
    }

    /// The next row, without removing it.
    pub(super) fn head(&self) -> Option<&OwnedRow> {
        let Reverse((_, number)) = self.order.peek()?;
        self.streams[*number].rows.front()
    }

    /// Removes and returns the next row.
    pub(super) fn pop(&mut self) -> Option<OwnedRow> {
        let Reverse((_, number)) = self.order.pop()?;
        self.behind = Some(number);
        self.streams[number].rows.pop_front()
    }
}
