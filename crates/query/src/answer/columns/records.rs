//! The matching records of a table, newest first, found by columns.
//!
//! The table is read in windows of time, the newest first. In each window, threads decide the filter on columns and make
//! the records that match, which are then sorted. Windows are short at first, because most questions want few records,
//! and grow. A window whose records need too much memory is cut.

use super::filter::ColumnFilter;
use super::matching::{self, Made};
use super::place::TablePlace;
use crate::answer::item::FullRecord;
use crate::bounds::{Bounds, tables_of};
use crate::entity::OwnedValue;
use crate::record::StoredRecord;
use crate::select::{RecordStream, Selection, merge, records_by_rows};
use crate::tables::TableError;
use daytable_logsql::Predicate;
use daytable_model::time::Ticks;
use daytable_store::page::PageHeader;
use daytable_store::{BatchVisitor, ColumnBatch, Range, RowsOf, StoreError};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Rows of a window, about: of the first where few records are wanted, and of any.
const WINDOW_ROWS: std::ops::RangeInclusive<usize> = 8 << 10..=1 << 20;
/// A limit up to which few records are wanted.
const FEW: u64 = 1000;
/// Bytes of the records of a window, about.
const WINDOW_BYTES_MAX: usize = 24 << 20;
/// Ticks of the first window: a minute.
const FIRST_TICKS: i64 = 600_000_000;

/// Gives the records that match a predicate and the filter of a selection, newest first, until `each` breaks. `limit` is
/// the number of wanted records, if that is limited.
pub(in crate::answer) fn select_matching(
    selection: &Selection<'_>,
    predicate: &Arc<Predicate>,
    limit: Option<u64>,
    each: impl FnMut(StoredRecord) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let tables = tables_of(selection.stores, selection.reading, selection.filter)?;
    let open = |bounds: &Bounds| -> Result<Option<RecordStream<'_>>, TableError> {
        if !bounds.is_remote {
            let records = ColumnRecords::begin(selection, predicate.clone(), limit, bounds)?;
            return Ok(records.map(|records| Box::new(records) as RecordStream<'_>));
        }
        let matches = |record: Result<StoredRecord, TableError>| match record {
            Ok(record) => {
                let record = FullRecord::new(record);
                predicate.matches(&record).then(|| Ok(record.into_record()))
            }
            Err(error) => Some(Err(error)),
        };
        let records = records_by_rows(selection, bounds)?;
        Ok(records.map(|records| Box::new(records.filter_map(matches)) as RecordStream<'_>))
    };
    merge(tables, open, each)
}

/// The matching records of one table. See the module's head.
struct ColumnRecords<'a> {
    selection: &'a Selection<'a>,
    bounds: Bounds,
    columns: ColumnFilter,
    place: TablePlace,
    /// The newest time of the next window; `None` at the end.
    next: Option<Ticks>,
    ticks: i64,
    window_rows: usize,
    ready: VecDeque<FullRecord>,
    /// Records of a window that columns cannot tell.
    by_rows: Option<RecordStream<'a>>,
}

/// Finds and makes the matching records of a window.
struct Finding<'f> {
    columns: &'f ColumnFilter,
    bytes: AtomicUsize,
    rows: AtomicUsize,
    is_full: AtomicBool,
    is_elsewhere: AtomicBool,
}

impl BatchVisitor for Finding<'_> {
    type State = Vec<FullRecord>;

    fn start(&self) -> Vec<FullRecord> {
        Vec::new()
    }

    fn wants(&self, rows: RowsOf<'_>, header: Option<&PageHeader>) -> bool {
        if let Some(header) = header {
            self.rows.fetch_add(header.entities as usize, Ordering::Relaxed);
        }
        self.columns.wants(rows, header)
    }

    fn visit(&self, found: &mut Vec<FullRecord>, batch: &ColumnBatch) -> Result<ControlFlow<()>, StoreError> {
        let decided = matching::decide(self.columns, batch, batch.records())?;
        let Some((mut rows, records)) = decided else { return Ok(self.elsewhere()) };
        records.iter().for_each(|(row, _)| rows.remove(*row));
        let Made::Records(others) = matching::make(self.columns, batch, &rows)? else { return Ok(self.elsewhere()) };
        let before = found.len();
        found.extend(records.into_iter().chain(others).map(|(_, record)| record));
        let bytes = found[before..].iter().map(bytes_of).sum();
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > WINDOW_BYTES_MAX {
            self.is_full.store(true, Ordering::Relaxed);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Finding<'_> {
    fn elsewhere(&self) -> ControlFlow<()> {
        self.is_elsewhere.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }
}

fn bytes_of(record: &FullRecord) -> usize {
    let record = record.record();
    let of_value = |value: &OwnedValue| match value {
        OwnedValue::String(text) => text.len(),
        OwnedValue::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    let fields = record.fields.iter().map(|(name, value)| 64 + name.len() + of_value(value));
    256 + record.message.len() + record.source.len() + fields.sum::<usize>()
}

impl<'a> ColumnRecords<'a> {
    /// The records of a local table or an archive that match; `None` if the table has no rows of the instance, or is
    /// gone. `limit` is the number of wanted records, if limited.
    fn begin(
        selection: &'a Selection<'a>,
        predicate: Arc<Predicate>,
        limit: Option<u64>,
        bounds: &Bounds,
    ) -> Result<Option<ColumnRecords<'a>>, TableError> {
        let Some(place) = TablePlace::of(selection, bounds)? else { return Ok(None) };
        let columns = ColumnFilter::new(predicate, selection.asked, bounds.table.to_string().into());
        let is_short = limit.is_some_and(|limit| limit <= FEW);
        Ok(Some(ColumnRecords {
            selection,
            bounds: bounds.clone(),
            columns,
            next: Some(place.range.to),
            place,
            ticks: FIRST_TICKS,
            window_rows: if is_short { *WINDOW_ROWS.start() } else { *WINDOW_ROWS.end() },
            ready: VecDeque::new(),
            by_rows: None,
        }))
    }

    /// Reads the next window; false at the end.
    fn next_window(&mut self) -> Result<bool, TableError> {
        let Some(to) = self.next else { return Ok(false) };
        let oldest = self.place.range.from;
        let from = Ticks::new(to.get().saturating_sub(self.ticks - 1)).unwrap_or(Ticks::MIN).max(oldest);
        let window = Range { from, to, ..self.place.range.clone() };
        let finding = Finding {
            columns: &self.columns,
            bytes: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            is_elsewhere: AtomicBool::new(false),
        };
        let walked = self.place.walk(self.selection, &self.bounds, &window, &finding)?;
        if !(self.selection.go_on)() {
            return Err(TableError::Interrupted);
        }
        let is_full = finding.is_full.load(Ordering::Relaxed);
        let is_elsewhere = finding.is_elsewhere.load(Ordering::Relaxed);
        let rows = finding.rows.load(Ordering::Relaxed);
        if is_full && from < to {
            self.ticks = ((to.get() - from.get() + 1) / 4).max(1);
            return Ok(true);
        }
        match walked.filter(|_| !is_full && !is_elsewhere) {
            Some(found) => {
                let mut found: Vec<FullRecord> = found.into_iter().flatten().collect();
                found.sort_by(|a, b| {
                    let (a, b) = (a.record(), b.record());
                    (a.row_key, &a.partition_key).cmp(&(b.row_key, &b.partition_key))
                });
                self.ready = found.into();
            }
            None => {
                let bounds = Bounds { from, to, opens: to, ..self.bounds.clone() };
                self.by_rows = records_by_rows(self.selection, &bounds)?;
            }
        }
        self.grow(from, to, rows);
        self.next = Ticks::new(from.get() - 1).filter(|_| from > oldest);
        Ok(true)
    }

    /// Chooses the length of the next window by the rows of the last.
    fn grow(&mut self, from: Ticks, to: Ticks, rows: usize) {
        let (ticks, wanted) = (to.get() - from.get() + 1, self.window_rows);
        self.window_rows = (4 * wanted).min(*WINDOW_ROWS.end());
        let factor = i64::try_from((self.window_rows / rows.max(1)).clamp(1, 16)).unwrap_or(1);
        self.ticks = if rows > 2 * self.window_rows { (ticks / 2).max(1) } else { ticks.saturating_mul(factor) };
    }
}

impl Iterator for ColumnRecords<'_> {
    type Item = Result<StoredRecord, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record.into_record()));
            }
            if let Some(by_rows) = &mut self.by_rows {
                match by_rows.next() {
                    Some(Ok(record)) => {
                        let record = FullRecord::new(record);
                        if self.columns.matches(&record) {
                            return Some(Ok(record.into_record()));
                        }
                        continue;
                    }
                    Some(Err(error)) => return Some(Err(error)),
                    None => self.by_rows = None,
                }
            }
            match self.next_window() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.next = None;
                    return Some(Err(error));
                }
            }
        }
    }
}
