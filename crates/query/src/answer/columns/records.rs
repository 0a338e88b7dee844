//! The matching records of a table, newest first, found by columns.
//!
//! The table is read in windows of time, the newest first. In each window, threads decide the filter on columns and make
//! the records that match, which are then sorted. Windows are short at first, because most questions want few records,
//! and grow. A window whose records need too much memory is cut.

use super::counted::{CountedFields, cannot_match};
use super::filter::{ColumnFilter, is_column_of};
use super::kept::bytes_of;
use super::matching::{self, FieldRow, Made};
use super::place::TablePlace;
use super::values::is_needed_for;
use crate::answer::item::FullRecord;
use crate::bounds::{Bounds, tables_of};
use crate::entity::OwnedRow;
use crate::record::StoredRecord;
use crate::select::{RecordStream, Selection, merge, records_by_rows};
use crate::tables::TableError;
use daytable_logsql::{FieldName, Predicate};
use daytable_model::key::RowKey;
use daytable_model::row_set::RowSet;
use daytable_model::time::{TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks};
use daytable_store::{ColumnBatch, ColumnTest, NeedsKeys, Part, PartFilter, PartVisitor, Range, StoreError};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Rows of a window, about: of the first where few records are wanted, and of any.
const WINDOW_ROWS: std::ops::RangeInclusive<usize> = 8 << 10..=1 << 22;
/// A limit up to which few records are wanted.
const FEW: u64 = 256;
/// Bytes of the records of a window, about.
const WINDOW_BYTES_MAX: usize = 24 << 20;
/// How many times longer than the last a window may be.
const LONGER_MAX: i64 = 16;
/// The same after so many matches that they tell how frequent they are.
const LONGER_AFTER_MANY_MAX: i64 = 256;
const MANY_MATCHES: usize = 64;
/// Ticks of the first window: three minutes. Few records of a page cost as much as many.
const FIRST_TICKS: i64 = 3 * TICKS_PER_MINUTE;
/// Ticks of the first window where all records are wanted: an hour. Each window reads the pages at its borders again.
const FIRST_TICKS_OF_ALL: i64 = 60 * TICKS_PER_MINUTE;
/// Ticks of the first window where the caller may stop at any record: two seconds.
const FIRST_TICKS_UNTIL_ENOUGH: i64 = 2 * TICKS_PER_SECOND;

/// How many of the matching records are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::answer) enum WantedRecords {
    /// All of them.
    All,
    /// At most this many, the newest.
    Newest(u64),
    /// Nobody knows: the caller stops when it has enough.
    UntilEnough,
}

/// Gives the records that match a predicate and the filter of a selection, newest first, until `each` breaks. Records may lack
/// fields that are not wanted.
pub(in crate::answer) fn select_matching(
    selection: &Selection<'_>,
    predicate: &Arc<Predicate>,
    wanted: WantedRecords,
    fields: WantedFields<'_>,
    each: impl FnMut(StoredRecord) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let tables = tables_of(selection.stores, selection.reading, selection.filter)?;
    let open = |bounds: &Bounds| -> Result<Option<RecordStream<'_>>, TableError> {
        if !bounds.is_remote {
            let records = ColumnRecords::begin(selection, predicate.clone(), (wanted, fields), bounds)?;
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
    counted_fields: CountedFields,
    fields: WantedFields<'a>,
    place: TablePlace,
    /// The newest time of the next window; `None` at the end.
    next: Option<Ticks>,
    ticks: i64,
    window_rows: usize,
    ready: VecDeque<FoundRecord>,
    /// How many records are wanted, if few are: then older ones are not made.
    few: Option<usize>,
    /// How many more records are wanted at most, where that is known.
    left: Option<usize>,
    /// Records of a window that columns cannot tell.
    by_rows: Option<RecordStream<'a>>,
}

/// The fields of records that matter; `None` if all of a record matters.
pub(in crate::answer) type WantedFields<'f> = Option<&'f [FieldName]>;

/// A matching record: made, or a row of which it is made.
enum FoundRecord {
    Record(Box<FullRecord>),
    Row(OwnedRow),
    Fields(FieldRow),
}

impl FoundRecord {
    fn order(&self) -> (RowKey, &Arc<str>) {
        match self {
            FoundRecord::Record(record) => (record.record().row_key, &record.record().partition_key),
            FoundRecord::Row(row) => (row.key, &row.partition),
            FoundRecord::Fields(row) => (row.key, &row.partition),
        }
    }
}

/// Sorts records, and drops those that are not among the newest this many, or as new as these. True if some were
/// dropped.
fn keep_newest(found: &mut Vec<FoundRecord>, few: Option<usize>) -> bool {
    found.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
    let Some(last) = few.and_then(|few| found.get(few.checked_sub(1)?)) else { return false };
    let oldest = last.order().0.time();
    let kept = found.partition_point(|found| found.order().0.time() >= oldest);
    let is_cut = kept < found.len();
    found.truncate(kept);
    is_cut
}

/// The oldest time of the newer half of some records, which were found in a part of a window that was too long. Records often come in bursts,
/// so half of the time may have all of them, or none.
fn newer_half(mut times: Vec<i64>, from: i64, to: i64) -> i64 {
    let half = times.len() / 2;
    let cut = if times.is_empty() { from } else { *times.select_nth_unstable_by(half, |one, other| other.cmp(one)).1 };
    if cut > from { cut } else { to - (to - from) / 4 }
}

/// The ticks of a window with a little more than `left` matches, if these are as frequent as in the last one.
fn length_for(left: usize, ticks: i64, matches: usize) -> i64 {
    let length = ticks as f64 * (left as f64 * 1.125 / matches as f64);
    (length as i64).max(FIRST_TICKS_UNTIL_ENOUGH)
}

/// Removes rows that are not among the newest this many of these rows and of the found records, before they are read.
/// True if there were some.
fn keep_newest_rows(
    rows: &mut RowSet,
    batch: &ColumnBatch,
    few: usize,
    found: &[FoundRecord],
) -> Result<bool, StoreError> {
    let Some(nth) = few.checked_sub(1) else { return Ok(false) };
    let mut times = Vec::with_capacity(rows.count());
    batch.each_time(rows, |row, time| times.push((time, row)))?;
    let mut oldest = found.get(nth).map(|found| found.order().0.time());
    if times.len() > few {
        let (_, (time, _), _) = times.select_nth_unstable_by(nth, |a, b| b.cmp(a));
        oldest = oldest.max(Some(*time));
    }
    let Some(oldest) = oldest else { return Ok(false) };
    let before = rows.count();
    times.iter().filter(|(time, _)| *time < oldest).for_each(|(_, row)| rows.remove(*row));
    Ok(rows.count() < before)
}

/// Finds and makes the matching records of a window.
struct Finding<'f> {
    columns: &'f ColumnFilter,
    counted_fields: &'f CountedFields,
    fields: WantedFields<'f>,
    few: Option<usize>,
    bytes: AtomicUsize,
    /// Rows that were looked at.
    rows: AtomicUsize,
    is_full: AtomicBool,
    falls_back_to_rows: AtomicBool,
    /// Of few records: older ones are not among them.
    oldest: AtomicI64,
    /// Whether pages were passed over because their records are older than that.
    is_cut: AtomicBool,
}

impl PartVisitor for Finding<'_> {
    /// The records, and whether some were dropped.
    type State = (Vec<FoundRecord>, bool);

    fn start(&self) -> Self::State {
        Self::State::default()
    }

    fn filter(&self) -> &dyn PartFilter {
        self.columns
    }

    fn is_newest_first(&self) -> bool {
        self.few.is_some()
    }

    fn counted_columns(&self) -> Option<ColumnTest<'_>> {
        self.counted_fields.columns()
    }

    fn read(&self, state: &mut Self::State, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        if part.times().1.get() < self.oldest.load(Ordering::Relaxed) {
            self.is_cut.store(true, Ordering::Relaxed);
            return Ok(ControlFlow::Continue(()));
        }
        part.take_values(|counted| cannot_match(self.columns, self.counted_fields, &counted))?;
        let Some((batch, decided)) = &self.batch(part)? else { return Ok(ControlFlow::Continue(())) };
        let (found, is_cut) = state;
        self.rows.fetch_add(batch.records().count(), Ordering::Relaxed);
        // Then each row that matches becomes a whole record.
        let is_all = self.few.is_none() && self.fields.is_none();
        let decided = match decided {
            Some(rows) => Some((rows.clone(), Vec::new())),
            None if is_all => matching::decide_and_make(self.columns, batch, batch.records())?,
            None => matching::decide(self.columns, batch, batch.records())?,
        };
        let Some((mut rows, records)) = decided else { return Ok(self.fall_back_to_rows()) };
        records.iter().for_each(|(row, _)| rows.remove(*row));
        let mut made_now = rows.clone();
        if !is_all {
            made_now.keep(&batch.spread()?);
        }
        let Made::Records(others) = matching::make(self.columns, batch, &made_now)? else {
            return Ok(self.fall_back_to_rows());
        };
        rows.subtract(&made_now);
        let flow = self.add(found, records.into_iter().chain(others));
        match (self.few, self.fields) {
            (Some(few), _) => {
                *is_cut |= keep_newest(found, self.few);
                *is_cut |= keep_newest_rows(&mut rows, batch, few, found)?;
                found.extend(batch.rows(&rows)?.iter().map(|row| FoundRecord::Row(OwnedRow::of(row))));
                *is_cut |= keep_newest(found, self.few);
                if let Some(last) = few.checked_sub(1).and_then(|last| found.get(last)) {
                    self.oldest.fetch_max(last.order().0.time().get(), Ordering::Relaxed);
                }
            }
            (None, Some(fields)) if flow.is_continue() => {
                let (made, bytes) = matching::make_rows(batch, &rows, fields)?;
                found.extend(made.into_iter().map(FoundRecord::Fields));
                return Ok(self.charge(bytes));
            }
            (None, _) => {}
        }
        Ok(flow)
    }
}

impl Finding<'_> {
    /// The columns that the filter and the wanted fields need, with the rows that match, where these are enough, and else all.
    fn batch(&self, part: &mut Part<'_>) -> Result<Option<(ColumnBatch, Option<RowSet>)>, StoreError> {
        let (None, Some(fields), Some(of_filter)) = (self.few, self.fields, self.columns.fields()) else {
            return Ok(part.batch()?.map(|batch| (batch, None)));
        };
        let needs = |name: &str, kind| {
            is_needed_for(of_filter.iter(), name, kind) || fields.iter().any(|field| is_column_of(field, name, kind))
        };
        let mut decided = None;
        let batch = part.batch_of(needs, NeedsKeys::Yes, |columns| {
            if columns.spread()?.is_empty() {
                decided = self.columns.decide_all(columns, columns.records())?;
            }
            Ok(decided.is_some())
        })?;
        Ok(batch.map(|batch| (batch, decided)))
    }

    /// Adds records that were made. Breaks if they need too much memory.
    fn add(&self, found: &mut Vec<FoundRecord>, records: impl Iterator<Item = (usize, FullRecord)>) -> ControlFlow<()> {
        let mut bytes = 0;
        found.extend(records.map(|(_, record)| {
            bytes += bytes_of(&record);
            FoundRecord::Record(record.into())
        }));
        self.charge(bytes)
    }

    /// Counts bytes of records of the window. Breaks if they are too many.
    fn charge(&self, bytes: usize) -> ControlFlow<()> {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > WINDOW_BYTES_MAX {
            self.is_full.store(true, Ordering::Relaxed);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn fall_back_to_rows(&self) -> ControlFlow<()> {
        self.falls_back_to_rows.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }
}

impl<'a> ColumnRecords<'a> {
    /// The records of a local table or an archive that match; `None` if the table has no rows of the instance, or is
    /// gone.
    fn begin(
        selection: &'a Selection<'a>,
        predicate: Arc<Predicate>,
        (wanted, fields): (WantedRecords, WantedFields<'a>),
        bounds: &Bounds,
    ) -> Result<Option<ColumnRecords<'a>>, TableError> {
        let Some(place) = TablePlace::of(selection, bounds)? else { return Ok(None) };
        let counted_fields = CountedFields::of([&*predicate], []);
        let columns = ColumnFilter::of(selection, predicate, bounds.table.to_string().into());
        let few = if let WantedRecords::Newest(limit @ 0..=FEW) = wanted { usize::try_from(limit).ok() } else { None };
        let is_until_enough = wanted == WantedRecords::UntilEnough;
        Ok(Some(ColumnRecords {
            selection,
            bounds: bounds.clone(),
            columns,
            counted_fields,
            fields,
            next: Some(place.range.to),
            place,
            ticks: match wanted {
                WantedRecords::All => FIRST_TICKS_OF_ALL,
                WantedRecords::Newest(_) => FIRST_TICKS,
                WantedRecords::UntilEnough => FIRST_TICKS_UNTIL_ENOUGH,
            },
            window_rows: if is_until_enough || few.is_some() { *WINDOW_ROWS.start() } else { *WINDOW_ROWS.end() },
            ready: VecDeque::new(),
            few,
            left: if let WantedRecords::Newest(limit) = wanted { usize::try_from(limit).ok() } else { None },
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
            counted_fields: &self.counted_fields,
            fields: self.fields,
            few: self.few,
            bytes: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            falls_back_to_rows: AtomicBool::new(false),
            oldest: AtomicI64::new(i64::MIN),
            is_cut: AtomicBool::new(false),
        };
        let walked = self.place.walk(self.selection, &self.bounds, &window, &finding, &|| ())?;
        if !(self.selection.go_on)() {
            return Err(TableError::Interrupted);
        }
        let is_full = finding.is_full.load(Ordering::Relaxed);
        let falls_back_to_rows = finding.falls_back_to_rows.load(Ordering::Relaxed);
        let rows = finding.rows.load(Ordering::Relaxed);
        if is_full && from < to {
            let found = walked.iter().flatten().flat_map(|(found, _)| found).map(|found| found.order().0.time().get());
            self.ticks = to.get() - newer_half(found.collect(), from.get(), to.get()) + 1;
            return Ok(true);
        }
        let (mut matches, mut rest_from, mut older_half) = (0, from, None);
        match walked.filter(|_| !is_full && !falls_back_to_rows) {
            Some(states) => {
                let mut is_cut = finding.is_cut.load(Ordering::Relaxed);
                let mut found = Vec::with_capacity(states.iter().map(|(of_thread, _)| of_thread.len()).sum());
                for (of_thread, is_cut_there) in states {
                    found.extend(of_thread);
                    is_cut |= is_cut_there;
                }
                is_cut |= keep_newest(&mut found, self.few);
                // What was dropped is older than every record that was kept.
                if let Some(oldest) = found.last().filter(|_| is_cut) {
                    rest_from = oldest.order().0.time();
                }
                matches = found.len();
                let time = |at: usize| found.get(at).map(|found| found.order().0.time().get());
                older_half = time(matches / 2).zip(time(matches.saturating_sub(1))).map(|(from, to)| from - to);
                self.ready = found.into();
            }
            None => {
                let bounds = Bounds { from, to, opens: to, ..self.bounds.clone() };
                self.by_rows = records_by_rows(self.selection, &bounds)?;
            }
        }
        let bytes = finding.bytes.load(Ordering::Relaxed);
        let ticks = to.get() - from.get() + 1;
        self.grow(ticks, rows, matches);
        if self.few.is_none() {
            self.bound_bytes(ticks, bytes, older_half);
        }
        self.next = Ticks::new(rest_from.get() - 1).filter(|_| rest_from > oldest);
        Ok(true)
    }

    /// Chooses the length of the next window by the rows of the last, and by how many of them matched.
    fn grow(&mut self, ticks: i64, rows: usize, matches: usize) {
        let most = *WINDOW_ROWS.end();
        self.left = self.left.map(|left| left.saturating_sub(matches));
        if let (None, Some(left), true) = (self.few, self.left, matches > 0) {
            let longer_max = if matches < MANY_MATCHES { LONGER_MAX } else { LONGER_AFTER_MANY_MAX };
            self.ticks = length_for(left, ticks, matches).min(ticks.saturating_mul(longer_max));
            return;
        }
        self.window_rows = match self.few {
            // A little more than are needed, if the next ones are as frequent.
            Some(few) if matches > 0 => (rows.saturating_mul(few) / matches * 5 / 4).clamp(*WINDOW_ROWS.start(), most),
            _ => (4 * self.window_rows).min(most),
        };
        let factor = i64::try_from(self.window_rows / rows.max(1)).unwrap_or(LONGER_MAX).clamp(1, LONGER_MAX);
        self.ticks = if rows > 2 * self.window_rows { (ticks / 2).max(1) } else { ticks.saturating_mul(factor) };
    }

    /// Bounds the length of the next window by the bytes of the records of the last, of which the older half came within
    /// `older_half`: a window that is cut was read for nothing. Records often come in bursts, so where these were many, the next ones
    /// are as dense as the last of them.
    fn bound_bytes(&mut self, ticks: i64, bytes: usize, older_half: Option<i64>) {
        if bytes == 0 {
            return;
        }
        let half = older_half.filter(|_| bytes > WINDOW_BYTES_MAX / 4).unwrap_or(i64::MAX);
        let ticks = ticks.min(half.saturating_mul(2).max(1));
        let most = ticks as f64 * (0.75 * WINDOW_BYTES_MAX as f64 / bytes as f64);
        self.ticks = self.ticks.min((most as i64).max(1));
    }
}

impl ColumnRecords<'_> {
    fn record_of(&self, row: OwnedRow) -> StoredRecord {
        StoredRecord::new(self.columns.table().clone(), row)
    }
}

impl Iterator for ColumnRecords<'_> {
    type Item = Result<StoredRecord, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.ready.pop_front() {
                Some(FoundRecord::Record(record)) => return Some(Ok(record.into_record())),
                Some(FoundRecord::Row(row)) => return Some(Ok(self.record_of(row))),
                Some(FoundRecord::Fields(row)) => return Some(Ok(self.record_of(row.into_row()))),
                None => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_long_as_the_matches_that_are_missing_suggest() {
        assert_eq!(length_for(8_000, 1_000_000_000, 1_000), 9_000_000_000);
        assert_eq!(length_for(80, 1_000_000_000, 1_000), 90_000_000);
        assert_eq!(length_for(0, 1_000, 1), FIRST_TICKS_UNTIL_ENOUGH, "never none");
        assert_eq!(length_for(usize::MAX, i64::MAX, 1), i64::MAX);
    }

    #[test]
    fn a_window_that_is_too_long_is_cut_where_half_of_the_records_are() {
        assert_eq!(newer_half(Vec::new(), 0, 100), 75, "nothing is known: the newest quarter");
        assert_eq!(newer_half(vec![1, 2, 3, 4, 90, 91], 0, 100), 3);
        assert_eq!(newer_half(vec![90; 9], 0, 100), 90, "a burst");
        assert_eq!(newer_half(vec![0; 9], 0, 100), 75, "all at the start: a shorter window at any rate");
        assert_eq!(newer_half(vec![7], 7, 8), 8);
    }
}
