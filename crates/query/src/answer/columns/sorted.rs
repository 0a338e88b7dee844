//! The first records of an order, by the columns that they are sorted by.
//!
//! Of each batch, the columns of the keys are read. A row that comes behind as many rows as are wanted is passed over, and
//! only the others become records. The last of these is the *bound*, which all threads share: once it is known, one
//! comparison a distinct value of the first key excludes nearly all rows.
//!
//! The records go to the stage of the pipe, which sorts them: it also has those that columns do not describe.

use super::computed::{ComputeError, ComputedBatch, ComputedColumns, ComputedState};
use super::counted::{CountedFields, cannot_match};
use super::filter::ColumnFilter;
use super::kept::KeptRecords;
use super::matching;
use super::place::TableVisitor;
use super::values::{Values, is_needed_for, open_rows};
use crate::answer::accumulator::cell;
use crate::answer::order::compare_by;
use crate::entity::{OwnedRow, OwnedValue};
use daytable_logsql::query::SortKey;
use daytable_logsql::{Column, FieldName, Pipe};
use daytable_model::property::{Property, PropertyKind};
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_platform::lock;
use daytable_store::{BatchColumn, ColumnBatch, ColumnTest, NeedsKeys, Part, PartFilter, PartVisitor, StoreError};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Order};
use std::sync::{Arc, Mutex};

/// The most records that each thread keeps. More are sorted as they come.
const KEPT_MAX: u64 = 16 << 10;
/// So few records are put in order after each batch, so that the bound is near.
const FEW: usize = 256;

/// The first records of an order.
pub(in crate::answer) struct SortQuestion {
    pub(super) by: Vec<SortKey>,
    pub(super) kept: usize,
    /// What pipes in front of it compute.
    pub(super) computed: ComputedColumns,
}

impl SortQuestion {
    /// The question of a `sort` behind pipes that look at one record at a time; `None` if columns cannot tell it.
    pub(in crate::answer) fn new(pipes: &[Pipe], sort: &Pipe, now: Ticks) -> Option<SortQuestion> {
        let Pipe::Sort { by, offset, limit: Some(limit), .. } = sort else { return None };
        let kept = limit.checked_add(*offset).filter(|kept| (1..=KEPT_MAX).contains(kept))?;
        if by.is_empty() || by.iter().any(|key| key.field.column() == Column::Line) {
            return None;
        }
        let computed = ComputedColumns::new(pipes, by.iter().map(|key| &key.field), &[], now)?;
        Some(SortQuestion { by: by.clone(), kept: usize::try_from(kept).ok()?, computed })
    }

    fn compare<'k>(
        &self,
        one: impl Fn(usize) -> Option<Property<'k>>,
        other: impl Fn(usize) -> Option<Property<'k>>,
    ) -> Ordering {
        let mut keys = self.by.iter().enumerate().map(|(at, key)| compare_by(key, one(at), other(at)));
        keys.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Sorts rows, and drops those behind the ones that are wanted. True if all that are wanted are there.
    pub(super) fn truncate(&self, rows: &mut Vec<SortedRow>) -> bool {
        rows.sort_by(|a, b| {
            let order = self.compare(|at| cell(&a.keys[at]), |at| cell(&b.keys[at]));
            order.then_with(|| (a.row.key, &a.row.partition).cmp(&(b.row.key, &b.row.partition)))
        });
        rows.truncate(self.kept);
        rows.len() == self.kept
    }
}

/// A row with its keys.
pub(super) struct SortedRow {
    keys: Vec<Option<OwnedValue>>,
    pub(super) table: Arc<str>,
    pub(super) row: OwnedRow,
}

/// The last of the rows that are wanted, as far as is known.
pub(super) struct SortBound {
    keys: Vec<Option<OwnedValue>>,
    time: Ticks,
}

/// Finds the first rows of a table.
pub(super) struct Sorting<'q> {
    pub(super) question: &'q SortQuestion,
    pub(super) columns: ColumnFilter,
    pub(super) counted_fields: CountedFields,
    pub(super) memory: &'q QuestionBudget,
    /// The memory that threads charged for rows of this table, which are not passed on yet, and for what pipes remember.
    pub(super) charged: AtomicUsize,
    pub(super) bound: &'q Mutex<Option<Arc<SortBound>>>,
    pub(super) refused: &'q Mutex<Option<OverBudget>>,
    pub(super) falls_back_to_rows: AtomicBool,
}

/// The rows of one thread.
pub(super) struct ThreadRows {
    /// Records that matched.
    pub(super) matched: u64,
    /// Those of them that columns do not describe.
    pub(super) records: KeptRecords,
    pub(super) rows: Vec<SortedRow>,
    computed: ComputedState,
    /// The memory that was charged for rows.
    pub(super) bytes: usize,
    /// The memory that was charged for what pipes remember.
    pub(super) remembered: usize,
}

impl TableVisitor for Sorting<'_> {
    fn columns(&self) -> &ColumnFilter {
        &self.columns
    }

    fn falls_back_to_rows(&self) -> bool {
        self.falls_back_to_rows.load(Order::Relaxed)
    }

    fn is_over(&self) -> bool {
        lock(self.refused).is_some()
    }

    fn restart(&self) {
        self.memory.release(self.charged.swap(0, Order::Relaxed));
    }
}

impl PartVisitor for Sorting<'_> {
    type State = ThreadRows;

    fn start(&self) -> ThreadRows {
        let computed = self.question.computed.start(self.memory.bytes_max());
        ThreadRows { matched: 0, records: KeptRecords::default(), rows: Vec::new(), computed, bytes: 0, remembered: 0 }
    }

    fn filter(&self) -> &dyn PartFilter {
        &self.columns
    }

    /// Of equal keys the newest record is first.
    fn is_newest_first(&self) -> bool {
        true
    }

    fn counted_columns(&self) -> Option<ColumnTest<'_>> {
        self.counted_fields.columns()
    }

    fn read(&self, state: &mut ThreadRows, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        part.take_values(|counted| cannot_match(&self.columns, &self.counted_fields, &counted))?;
        let (batch, behind) = self.batch(part)?;
        state.matched += behind;
        let Some(batch) = &batch else { return Ok(ControlFlow::Continue(())) };
        let Some((mut rows, records)) = matching::decide(&self.columns, batch, batch.records())? else {
            return Ok(self.fall_back_to_rows());
        };
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        state.matched += rows.count() as u64;
        let by_record = self.by_record(batch, &rows)?;
        if !by_record.is_empty() {
            rows.subtract(&by_record);
            let Some(records) = matching::make_rest(&self.columns, batch, &by_record, records)? else {
                return Ok(self.fall_back_to_rows());
            };
            if !state.records.add(records) {
                return Ok(self.fall_back_to_rows());
            }
        }
        let (table, computed) = (self.columns.table(), &self.question.computed);
        if let Err(error) = computed.filter(&mut state.computed, batch, table, &mut rows) {
            return self.refuse(error);
        }
        while !rows.is_empty() {
            let (made, later) = match computed.compute(&mut state.computed, batch, table, &mut rows) {
                Ok(made) => made,
                Err(error) => return self.refuse(error),
            };
            self.charge_remembered(state);
            let within = self.within_bound(batch, &rows, &made)?;
            if !within.is_empty() && self.add(state, batch, &within, &made)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            rows = later;
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl Sorting<'_> {
    /// All columns of a part, or how many of its records match where its columns tell that none is among the first ones.
    fn batch(&self, part: &mut Part<'_>) -> Result<(Option<ColumnBatch>, u64), StoreError> {
        let Some(of_filter) = self.columns.fields().filter(|_| self.question.computed.is_empty()) else {
            return Ok((part.batch()?, 0));
        };
        let needs = |name: &str, kind| is_needed_for(self.fields().chain(of_filter), name, kind);
        let mut behind = None;
        let batch = part.batch_of(needs, NeedsKeys::No, |front| {
            let Some(rows) = self.columns.decide_all(front, front.records())? else { return Ok(false) };
            let are_behind = self.by_record(front, &rows)?.is_empty()
                && self.within_bound(front, &rows, &ComputedBatch::default())?.is_empty();
            behind = are_behind.then(|| rows.count() as u64);
            Ok(are_behind)
        })?;
        Ok(match behind {
            Some(behind) => (None, behind),
            None => (batch, 0),
        })
    }

    /// The fields that are read for the keys.
    fn fields(&self) -> impl Iterator<Item = &FieldName> {
        let SortQuestion { by, computed, .. } = self.question;
        by.iter().map(|key| &key.field).filter(|field| !computed.makes(field)).chain(computed.inputs())
    }

    /// The rows whose values columns do not have as the record has them.
    fn by_record(&self, batch: &ColumnBatch, rows: &RowSet) -> Result<RowSet, StoreError> {
        open_rows(self.fields(), batch, self.columns.table(), rows)
    }

    fn fall_back_to_rows(&self) -> ControlFlow<()> {
        self.falls_back_to_rows.store(true, Order::Relaxed);
        ControlFlow::Break(())
    }

    /// Ends the walk, because a value cannot be computed.
    fn refuse(&self, error: ComputeError) -> Result<ControlFlow<()>, StoreError> {
        *lock(self.refused) = error.over()?;
        Ok(ControlFlow::Break(()))
    }

    /// Takes the memory of what pipes remember. Where there is none, it is forgotten.
    fn charge_remembered(&self, state: &mut ThreadRows) {
        let more = state.computed.bytes().saturating_sub(state.remembered);
        if more == 0 {
            return;
        }
        if self.memory.charge(more, "sorted records").is_err() {
            self.question.computed.forget(&mut state.computed);
            self.memory.release(state.remembered);
            self.charged.fetch_sub(std::mem::take(&mut state.remembered), Order::Relaxed);
            return;
        }
        self.charged.fetch_add(more, Order::Relaxed);
        state.remembered += more;
    }

    /// The rows that are not behind the bound. A key is read of those rows alone whose keys before it are those of the bound.
    fn within_bound(&self, batch: &ColumnBatch, rows: &RowSet, computed: &ComputedBatch) -> Result<RowSet, StoreError> {
        let Some(bound) = lock(self.bound).clone() else { return Ok(rows.clone()) };
        let (mut within, mut alike) = (RowSet::none(batch.len()), rows.clone());
        for (key, last) in self.question.by.iter().zip(&bound.keys) {
            if alike.is_empty() {
                break;
            }
            let values = self.question.computed.values(&key.field, batch, self.columns.table(), computed)?;
            alike = beside(key, cell(last), batch, &values, alike, &mut within)?;
        }
        // Older records with the same keys are behind the bound.
        if batch.times().is_none_or(|(_, newest)| newest >= bound.time) {
            within.add(&alike);
        }
        Ok(within)
    }

    /// Makes rows of those that may be among the first.
    fn add(
        &self,
        state: &mut ThreadRows,
        batch: &ColumnBatch,
        rows: &RowSet,
        computed: &ComputedBatch,
    ) -> Result<ControlFlow<()>, StoreError> {
        let SortQuestion { by, kept, .. } = self.question;
        // The values of each key, and the place of each row's value among them; 0 is none.
        let mut keys: Vec<(Vec<OwnedValue>, Vec<u32>)> = Vec::with_capacity(by.len());
        for key in by {
            let (mut values, mut places) = (Vec::new(), vec![0u32; batch.len()]);
            let of_key = self.question.computed.values(&key.field, batch, self.columns.table(), computed)?;
            let read = |value: Property<'_>| {
                values.push(value.into());
                values.len() as u32
            };
            of_key.each(batch, rows, read, |row, place| places[row] = place)?;
            keys.push((values, places));
        }
        let key = |row: usize, at: usize| {
            let (values, places) = &keys[at];
            Some(values[places[row].checked_sub(1)? as usize].as_property())
        };
        let mut found: Vec<(usize, Ticks)> = Vec::with_capacity(rows.count());
        batch.each_time(rows, |row, time| found.push((row, time)))?;
        let order = |(one, time): &(usize, Ticks), (other, other_time): &(usize, Ticks)| {
            let order = self.question.compare(|at| key(*one, at), |at| key(*other, at));
            order.then_with(|| other_time.cmp(time))
        };
        if let Some(bound) = lock(self.bound).clone() {
            found.retain(|(row, time)| {
                let order = self.question.compare(|at| key(*row, at), |at| cell(&bound.keys[at]));
                order.then_with(|| bound.time.cmp(time)).is_le()
            });
        }
        if *kept < found.len() {
            let last = *found.select_nth_unstable_by(kept - 1, order).1;
            // Of records of one time the key decides.
            found.retain(|found| order(found, &last).is_le());
        }
        let mut chosen = RowSet::none(batch.len());
        found.iter().for_each(|(row, _)| chosen.insert(*row));
        let mut bytes = 0;
        for (row, made) in chosen.iter().zip(batch.rows(&chosen)?) {
            let of_row = |at: usize| key(row, at).map(OwnedValue::from);
            let (keys, row) = ((0..by.len()).map(of_row).collect(), OwnedRow::of(&made));
            let sorted = SortedRow { keys, table: self.columns.table().clone(), row };
            bytes += sorted_bytes(&sorted);
            state.rows.push(sorted);
        }
        if self.memory.charge(bytes, "sorted records").is_err() {
            // The stage of the pipe sorts them in a temporary file.
            return Ok(self.fall_back_to_rows());
        }
        self.charged.fetch_add(bytes, Order::Relaxed);
        state.bytes += bytes;
        let is_enough = state.rows.len() >= *kept && (*kept <= FEW || state.rows.len() >= 2 * kept);
        if is_enough && self.question.truncate(&mut state.rows) {
            let left = state.rows.iter().map(sorted_bytes).sum();
            let dropped = state.bytes.saturating_sub(left);
            self.memory.release(dropped);
            self.charged.fetch_sub(dropped, Order::Relaxed);
            state.bytes = left;
            self.tighten(&state.rows);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Makes the last of these rows the bound, if it is before the bound.
    fn tighten(&self, rows: &[SortedRow]) {
        let Some(last) = rows.last() else { return };
        let time = last.row.key.time();
        let mut bound = lock(self.bound);
        let is_before = bound.as_ref().is_none_or(|bound| {
            let order = self.question.compare(|at| cell(&last.keys[at]), |at| cell(&bound.keys[at]));
            order.then_with(|| bound.time.cmp(&time)).is_lt()
        });
        if is_before {
            *bound = Some(Arc::new(SortBound { keys: last.keys.clone(), time }));
        }
    }
}

/// Those of some rows whose value of a key is that of the bound. Those whose value is before it are added to `before`.
fn beside(
    key: &SortKey,
    last: Option<Property<'_>>,
    batch: &ColumnBatch,
    values: &Values<'_>,
    rows: RowSet,
    before: &mut RowSet,
) -> Result<RowSet, StoreError> {
    let order = |value: Option<Property<'_>>| compare_by(key, value, last);
    let whole_last = match last {
        Some(Property::Int64(last)) if key.field.column() != Column::Level => Some(last),
        _ => None,
    };
    let order_of_whole = |number: i64| match whole_last {
        Some(last) if key.is_descending => last.cmp(&number),
        Some(last) => number.cmp(&last),
        None => order(Some(Property::Int64(number))),
    };
    // No number between two that are behind the bound is before it.
    let is_behind = |column: &BatchColumn<'_>| {
        let ends = column.bounds().filter(|_| column.kind() == PropertyKind::Int64);
        ends.is_some_and(|(least, most)| order_of_whole(least).is_gt() && order_of_whole(most).is_gt())
    };
    let (mut less, mut same) = (RowSet::none(batch.len()), RowSet::none(batch.len()));
    let mut without = rows.clone();
    match values {
        Values::Columns(columns, _) if columns.iter().all(is_behind) => {
            columns.iter().for_each(|column| without.subtract(&column.present()));
        }
        _ => {
            let mut put = |row, order| match order {
                Ordering::Less => less.insert(row),
                Ordering::Equal => same.insert(row),
                Ordering::Greater => {}
            };
            let order_of = |value: Result<i64, Ordering>| value.map_or_else(|order| order, order_of_whole);
            match values {
                Values::Columns(columns, _) => {
                    columns.iter().for_each(|column| without.subtract(&column.present()));
                    values.each_whole(
                        batch,
                        &rows,
                        |value| order(Some(value)),
                        |row, value| put(row, order_of(value)),
                    )?;
                }
                _ => values.each_whole(
                    batch,
                    &rows,
                    |value| order(Some(value)),
                    |row, value| {
                        without.remove(row);
                        put(row, order_of(value));
                    },
                )?,
            }
        }
    }
    // Rows without a value are not passed on.
    match order(None) {
        Ordering::Less => less.add(&without),
        Ordering::Equal => same.add(&without),
        Ordering::Greater => {}
    }
    before.add(&less);
    Ok(same)
}

/// About the memory of a row.
pub(super) fn sorted_bytes(sorted: &SortedRow) -> usize {
    let of_value = |value: &OwnedValue| match value {
        OwnedValue::String(text) => text.len(),
        OwnedValue::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    let keys = sorted.keys.iter().map(|key| 32 + key.as_ref().map_or(0, of_value));
    let properties = sorted.row.properties.iter().map(|(name, value)| 64 + name.len() + of_value(value));
    160 + keys.sum::<usize>() + properties.sum::<usize>()
}
