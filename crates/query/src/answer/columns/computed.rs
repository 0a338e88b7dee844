//! Columns that pipes compute in front of a pipe that needs all records, without the records.
//!
//! ```text
//! a:  1 7 1 1 7                  (1, x) ──┐ the pipes,      (1, x) → s = "1 of x"
//! b:  x y x y x   different      (7, y) ──┤ once each       (7, y) → s = "7 of y"
//!                 ────────────►  (1, y) ──┤ ───────────►    (1, y) → dropped by a filter
//!                                (7, x) ──┘                 …
//! ```
//!
//! What the pipes make of a record follows from the few columns that they look at. So they work once on each combination of
//! values, on a row of these columns alone, and the rows of a batch have the number of their combination. The pipes are the
//! ones that work on records, so both have one meaning.
//!
//! A *slice* is what of the pipes a column needs that they make, or a filter among them: fewer columns have fewer
//! combinations. Columns that no pipe changes are read as they are.
//!
//! A thread remembers combinations from batch to batch, up to some memory. Rows with other ones are computed one by one. If those are
//! most, as where texts do not come again, nothing is remembered for a while, and then it is tried anew. Where `math` is all there
//! is, nothing is remembered either: numbers are computed from [numbers](super::number_pipes).

use super::combinations::Combinations;
use super::computed_rows::{ComputedRows, MadeValues, UNKNOWN};
use super::fields_by_row::FieldsByRow;
use super::number_pipes::NumberPipes;
use super::number_rows::NumberRows;
use super::value_numbers::NO_NUMBER;
use super::values::Values;
use crate::answer::item::AnswerRow;
use crate::answer::row_pipes::{RowPipe, refused_text};
use crate::answer::threads::threads;
use crate::entity::OwnedValue;
use daytable_logsql::effect::{KeptColumns, PipeEffect, RowFlow, fields_of, may_be_same};
use daytable_logsql::query::{Aggregate, FieldPattern};
use daytable_logsql::{Column, Expression, FieldName, Fields, Pipe};
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_platform::budget::{OverBudget, TextRefusal};
use daytable_store::{ColumnBatch, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Memory of the combinations that all threads remember of a slice, at most: some forty bytes each, and what was made of them.
const REMEMBERED_BYTES: usize = 24 << 20;
/// The part of a question's memory that this is at most.
const REMEMBERED_PART: usize = 4;
/// Memory of a combination, about.
const COMBINATION_BYTES: usize = 128;
/// As long as there is room for combinations, it is seen after this part of as many rows as could be remembered how many had one
/// that was known. Where more than one of this many has, there are hardly more combinations than can be remembered.
const ROOM_PART: usize = 8;
const ROOM_KNOWN: usize = 16;
/// Once there is no room, it is seen after all of them, and more than one of this many is enough.
const FULL_KNOWN: usize = 4;
/// If there were fewer, nothing is remembered for so many times as many rows.
const LEFT_ALONE_TIMES: usize = 16;
/// Bytes of texts that pipes may make of a batch at once, at most: rows for which there is no room come later.
const MADE_AT_ONCE_BYTES: usize = 8 << 20;
/// The part of a question's memory that this is at most.
const MADE_AT_ONCE_PART: usize = 8;

/// What a thread may remember and make.
#[derive(Clone, Copy, Default)]
struct ComputeLimits {
    remembered_bytes: usize,
    made_at_once_bytes: usize,
    tried_rows: usize,
}

impl ComputeLimits {
    /// Those of a question with so much memory.
    fn of(question_bytes: usize) -> ComputeLimits {
        let remembered_bytes = REMEMBERED_BYTES.min(question_bytes / REMEMBERED_PART) / threads();
        ComputeLimits {
            remembered_bytes,
            made_at_once_bytes: MADE_AT_ONCE_BYTES.min(question_bytes / MADE_AT_ONCE_PART),
            tried_rows: remembered_bytes / COMBINATION_BYTES,
        }
    }
}

/// The pipes in front of a pipe that needs all records, each of which looks at one record at a time.
#[derive(Default)]
pub(in crate::answer) struct ComputedColumns {
    /// What drops records, in the order of the filters.
    filters: Vec<Slice>,
    /// What makes columns.
    columns: Vec<Slice>,
    /// The condition of each function that looks at columns which the pipes change.
    conditions: Vec<Option<Slice>>,
}

/// The pipes that make some columns, or those in front of a filter and the filter.
struct Slice {
    inputs: Vec<FieldName>,
    pipes: SlicePipes,
    outputs: Vec<FieldName>,
}

/// How a slice works.
enum SlicePipes {
    /// Once a combination of values.
    Combinations(Vec<RowPipe>),
    /// On numbers alone.
    Numbers(Box<NumberPipes>),
}

/// What a thread remembers of each slice.
#[derive(Default)]
pub(super) struct ComputedState {
    filters: Vec<SliceState>,
    columns: Vec<SliceState>,
    conditions: Vec<SliceState>,
}

/// What a thread remembers of a slice.
#[derive(Default)]
struct SliceState {
    /// The combinations that it met, with what became of them.
    known: Combinations,
    /// What the pipes made. A batch holds it as long as its rows are looked at.
    made: Arc<MadeValues>,
    /// The names of the columns that are read, as columns of a row. Threads that shared them would wait for each other.
    names: Vec<Arc<str>>,
    /// The row of a combination: the next one has its columns.
    row: AnswerRow,
    met: MetRows,
    limits: ComputeLimits,
}

/// How often rows have a combination that is known.
#[derive(Default)]
struct MetRows {
    rows: usize,
    /// Those with another one.
    others: usize,
    /// Rows for which nothing is remembered.
    left_alone: usize,
}

impl MetRows {
    /// Whether combinations are looked for among those that are known.
    fn is_worthwhile(&self) -> bool {
        self.left_alone == 0
    }

    /// Counts rows, and those whose combination was not known before.
    fn count(&mut self, rows: usize, others: usize, is_full: bool, limits: ComputeLimits) {
        self.rows += rows;
        self.others += others;
        let (tried, known) = match is_full {
            true => (limits.tried_rows, FULL_KNOWN),
            false => (limits.tried_rows / ROOM_PART, ROOM_KNOWN),
        };
        if self.rows < tried {
            return;
        }
        if self.rows - self.others < self.rows / known {
            self.left_alone = LEFT_ALONE_TIMES * self.rows;
        }
        (self.rows, self.others) = (0, 0);
    }

    /// Counts rows for which nothing was looked for.
    fn leave_alone(&mut self, rows: usize) {
        self.left_alone = self.left_alone.saturating_sub(rows);
    }
}

impl SliceState {
    /// An estimate of the memory.
    fn bytes(&self) -> usize {
        self.known.bytes() + self.made.bytes()
    }
}

/// What all slices compute for the rows of a batch.
#[derive(Default)]
pub(super) struct ComputedBatch(Vec<SliceRows>);

/// What a slice computes for the rows of a batch.
enum SliceRows {
    Combinations(ComputedRows),
    Numbers(NumberRows),
}

impl SliceRows {
    /// Removes the rows that the pipes drop.
    fn drop_from(&self, rows: &mut RowSet) {
        match self {
            SliceRows::Combinations(computed) => computed.drop_from(rows),
            SliceRows::Numbers(numbers) => numbers.drop_from(rows),
        }
    }

    /// The values of a column of the slice.
    fn values(&self, column: usize) -> Values<'_> {
        match self {
            SliceRows::Combinations(computed) => Values::Computed(computed, column),
            SliceRows::Numbers(numbers) => Values::Numbers(numbers, column),
        }
    }
}

/// Why a batch cannot be computed.
pub(super) enum ComputeError {
    Store(StoreError),
    /// A value is too long.
    Refused(TextRefusal),
}

impl From<StoreError> for ComputeError {
    fn from(error: StoreError) -> ComputeError {
        ComputeError::Store(error)
    }
}

impl ComputeError {
    /// Why the answer is cut, if it is not the store that failed.
    pub(super) fn over(self) -> Result<Option<OverBudget>, StoreError> {
        match self {
            ComputeError::Store(error) => Err(error),
            ComputeError::Refused(refusal) => Ok(refused_text(refusal)),
        }
    }
}

impl ComputedColumns {
    /// What has to be computed for a question about the columns `uses`, behind these pipes. `None` if columns are not enough.
    pub(in crate::answer) fn new<'u>(
        pipes: &[Pipe],
        uses: impl IntoIterator<Item = &'u FieldName>,
        aggregates: &[Aggregate],
        now: Ticks,
    ) -> Option<ComputedColumns> {
        if pipes.is_empty() {
            return Some(ComputedColumns::default());
        }
        let effects: Vec<PipeEffect> = pipes.iter().map(Pipe::effect).collect();
        if !effects.iter().all(|effect| matches!(effect.flow, RowFlow::Each | RowFlow::Chosen)) {
            return None;
        }
        let mut computed = ComputedColumns::default();
        for (at, pipe) in pipes.iter().enumerate() {
            if let Pipe::Filter(filter) = pipe {
                computed.filters.push(Slice::of_condition(&pipes[..at], &effects[..at], filter, now)?);
            }
        }
        let mut parts: Vec<(SliceNeeds, Vec<FieldName>)> = Vec::new();
        for name in uses {
            if !name.is_alike_in_rows() {
                return None;
            }
            let is_known = parts.iter().any(|(_, outputs)| outputs.contains(name));
            if is_known || !effects.iter().any(|effect| effect.may_change(name)) {
                continue;
            }
            let needs = SliceNeeds::of(&effects, vec![name.clone()])?;
            // Columns of the same combinations are made together: a pipe that makes one of them leaves the others.
            match parts.iter_mut().find(|(known, _)| known.inputs == needs.inputs) {
                Some((known, outputs)) => {
                    known.pipes.extend(needs.pipes);
                    outputs.push(name.clone());
                }
                None => parts.push((needs, vec![name.clone()])),
            }
        }
        computed.columns =
            parts.into_iter().map(|(needs, outputs)| Slice::new(pipes, needs, None, outputs, now)).collect();
        for aggregate in aggregates {
            let fields = aggregate.condition.as_ref().map(fields_of).unwrap_or_default();
            let is_changed = |name: &FieldName| {
                let drops_again = |effect: &PipeEffect| effect.drops_again() && name.column() == Column::Field;
                effects.iter().any(|effect| effect.may_change(name) || drops_again(effect))
            };
            if !fields.iter().all(FieldName::is_alike_in_rows) {
                return None;
            }
            let slice = match &aggregate.condition {
                Some(condition) if fields.iter().any(is_changed) => {
                    Some(Slice::of_condition(pipes, &effects, condition, now)?)
                }
                _ => None,
            };
            computed.conditions.push(slice);
        }
        Some(computed)
    }

    /// Whether nothing is computed.
    pub(super) fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.columns.is_empty() && self.conditions.iter().all(Option::is_none)
    }

    /// Whether a column is computed.
    pub(super) fn makes(&self, name: &FieldName) -> bool {
        self.columns.iter().any(|slice| slice.outputs.contains(name))
    }

    /// Whether the condition of a function looks at what is computed.
    pub(super) fn has_condition(&self, aggregate: usize) -> bool {
        self.conditions.get(aggregate).is_some_and(Option::is_some)
    }

    /// The columns that are read.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &FieldName> {
        let slices = self.filters.iter().chain(&self.columns).chain(self.conditions.iter().flatten());
        slices.flat_map(|slice| &slice.inputs)
    }

    /// Begins the state of a thread, for a question with so much memory.
    pub(super) fn start(&self, question_bytes: usize) -> ComputedState {
        let limits = ComputeLimits::of(question_bytes);
        ComputedState {
            filters: self.filters.iter().map(|slice| slice.start(0, limits)).collect(),
            columns: self.columns.iter().map(|slice| slice.start(0, limits)).collect(),
            conditions: self
                .conditions
                .iter()
                .map(|slice| slice.as_ref().map(|slice| slice.start(0, limits)).unwrap_or_default())
                .collect(),
        }
    }

    /// Forgets what a thread remembers.
    pub(super) fn forget(&self, state: &mut ComputedState) {
        let conditions =
            self.conditions.iter().zip(&mut state.conditions).filter_map(|(of, state)| Some((of.as_ref()?, state)));
        let columns = self.columns.iter().zip(&mut state.columns);
        for (slice, state) in self.filters.iter().zip(&mut state.filters).chain(columns).chain(conditions) {
            slice.restart(state);
        }
    }

    /// Removes the rows that a filter drops.
    pub(super) fn filter(
        &self,
        state: &mut ComputedState,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &mut RowSet,
    ) -> Result<(), ComputeError> {
        let slices = self.filters.iter().zip(&mut state.filters);
        slices.into_iter().try_for_each(|(slice, state)| slice.filter(state, batch, table, rows))
    }

    /// Computes the columns of rows that the filters passed on. Removes those for which there is no room now, and returns them: they are
    /// to be computed once nobody looks at the others any more.
    pub(super) fn compute(
        &self,
        state: &mut ComputedState,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &mut RowSet,
    ) -> Result<(ComputedBatch, RowSet), ComputeError> {
        let (mut computed, mut later) = (Vec::with_capacity(self.columns.len()), RowSet::none(batch.len()));
        for (slice, state) in self.columns.iter().zip(&mut state.columns) {
            let (of_slice, left) = slice.compute(state, batch, table, rows)?;
            computed.push(of_slice);
            later.add(&left);
        }
        rows.subtract(&later);
        let first = later.iter().next().filter(|_| rows.is_empty());
        if let Some(first) = first {
            // Each slice left other rows. There is always room for one.
            computed.clear();
            later.remove(first);
            rows.insert(first);
            for (slice, state) in self.columns.iter().zip(&mut state.columns) {
                computed.push(slice.compute(state, batch, table, rows)?.0);
            }
        }
        Ok((ComputedBatch(computed), later))
    }

    /// The rows that satisfy the condition of a function; `None` if it looks at nothing that is computed.
    pub(super) fn condition(
        &self,
        aggregate: usize,
        state: &mut ComputedState,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &RowSet,
    ) -> Result<Option<RowSet>, ComputeError> {
        let Some(Some(slice)) = self.conditions.get(aggregate) else { return Ok(None) };
        let mut chosen = rows.clone();
        slice.filter(&mut state.conditions[aggregate], batch, table, &mut chosen)?;
        Ok(Some(chosen))
    }

    /// The values of a column: computed, or as they are read.
    pub(super) fn values<'b>(
        &self,
        field: &FieldName,
        batch: &'b ColumnBatch,
        table: &Arc<str>,
        computed: &'b ComputedBatch,
    ) -> Result<Values<'b>, StoreError> {
        for (slice, rows) in self.columns.iter().zip(&computed.0) {
            if let Some(column) = slice.outputs.iter().position(|output| output == field) {
                return Ok(rows.values(column));
            }
        }
        Values::of(field, batch, table)
    }
}

impl ComputedState {
    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.filters.iter().chain(&self.columns).chain(&self.conditions).map(SliceState::bytes).sum()
    }
}

/// What a slice needs: the numbers of pipes, and the columns in front of them.
struct SliceNeeds {
    pipes: BTreeSet<usize>,
    inputs: BTreeSet<InputName>,
}

/// A column in the order of names.
#[derive(Clone, Debug)]
struct InputName(FieldName);

impl PartialEq for InputName {
    fn eq(&self, other: &InputName) -> bool {
        self.0.written() == other.0.written()
    }
}

impl Eq for InputName {}

impl PartialOrd for InputName {
    fn partial_cmp(&self, other: &InputName) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InputName {
    fn cmp(&self, other: &InputName) -> std::cmp::Ordering {
        self.0.written().cmp(other.0.written())
    }
}

impl SliceNeeds {
    /// What some columns need that are wanted behind pipes. `None` if a column goes by several names, or if it depends on the
    /// names of all columns which pipes change it.
    fn of(effects: &[PipeEffect], wanted: Vec<FieldName>) -> Option<SliceNeeds> {
        // A word in any field asks for all that are left, so none of them can be left out.
        if !wanted.iter().all(FieldName::is_alike_in_rows) {
            return None;
        }
        let mut needed = wanted;
        let mut pipes = BTreeSet::new();
        for (at, effect) in effects.iter().enumerate().rev() {
            if effect.flow != RowFlow::Each || !needed.iter().any(|name| effect.may_change(name)) {
                continue;
            }
            let patterns: &[FieldPattern] = match &effect.kept {
                KeptColumns::Only(patterns) | KeptColumns::Without(patterns) => patterns,
                KeptColumns::All | KeptColumns::None => &[],
            };
            if patterns.iter().any(|pattern| pattern.is_prefix) {
                return None;
            }
            let named = patterns.iter().map(|pattern| &pattern.name).chain(effect.written.iter().map(|(name, _)| name));
            let has_other_name = |name: &FieldName| needed.iter().any(|known| is_other_name(known, name));
            if named.chain(effect.reads()).any(has_other_name) {
                return None;
            }
            pipes.insert(at);
            needed.retain(|name| {
                let is_set = effect.written.iter().any(|(written, is_always)| *is_always && written == name);
                let is_named = patterns.iter().any(|pattern| pattern.name == *name);
                let is_gone = match &effect.kept {
                    KeptColumns::Only(_) => !is_named,
                    KeptColumns::Without(_) => is_named,
                    KeptColumns::All | KeptColumns::None => false,
                };
                !is_set && !is_gone
            });
            needed.extend(effect.reads().cloned());
        }
        let is_single = |name: &FieldName| !needed.iter().any(|known| is_other_name(known, name));
        let can = needed.iter().all(|name| name.is_alike_in_rows() && is_single(name));
        can.then(|| SliceNeeds { pipes, inputs: needed.into_iter().map(InputName).collect() })
    }
}

/// Whether two names may mean one column, and are not the same.
fn is_other_name(one: &FieldName, other: &FieldName) -> bool {
    one.written() != other.written() && may_be_same(one, other)
}

impl Slice {
    fn new(
        pipes: &[Pipe],
        needs: SliceNeeds,
        filter: Option<&Expression>,
        outputs: Vec<FieldName>,
        now: Ticks,
    ) -> Slice {
        let inputs: Vec<FieldName> = needs.inputs.into_iter().map(|InputName(name)| name).collect();
        let of_slice = || needs.pipes.iter().map(|at| &pipes[*at]);
        let of_numbers =
            NumberPipes::new(of_slice(), filter, &inputs, &outputs, now).map(Box::new).map(SlicePipes::Numbers);
        let of_combinations = || {
            let filter = filter.map(|filter| RowPipe::new(&Pipe::Filter(filter.clone()), now));
            SlicePipes::Combinations(of_slice().map(|pipe| RowPipe::new(pipe, now)).chain(filter).collect())
        };
        Slice { pipes: of_numbers.unwrap_or_else(of_combinations), inputs, outputs }
    }

    /// What decides which records satisfy a condition behind pipes.
    fn of_condition(pipes: &[Pipe], effects: &[PipeEffect], condition: &Expression, now: Ticks) -> Option<Slice> {
        let needs = SliceNeeds::of(effects, fields_of(condition))?;
        Some(Slice::new(pipes, needs, Some(condition), Vec::new(), now))
    }

    /// The state of a thread that remembers nothing, which it became for the `round`-th time.
    fn start(&self, round: u64, limits: ComputeLimits) -> SliceState {
        SliceState {
            known: Combinations::new(self.inputs.len(), self.outputs.len()),
            made: Arc::new(MadeValues::new(self.outputs.len(), round)),
            names: self.inputs.iter().map(|name| name.written().into()).collect(),
            row: AnswerRow::default(),
            met: MetRows::default(),
            limits,
        }
    }

    /// Forgets what a thread remembers, but not how much that helped.
    fn restart(&self, state: &mut SliceState) {
        let met = std::mem::take(&mut state.met);
        *state = SliceState { met, ..self.start(state.made.round + 1, state.limits) };
    }

    /// Removes the rows that the pipes drop.
    fn filter(
        &self,
        state: &mut SliceState,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &mut RowSet,
    ) -> Result<(), ComputeError> {
        let mut later = rows.clone();
        while !later.is_empty() {
            let (computed, left) = self.compute(state, batch, table, &later)?;
            computed.drop_from(rows);
            later = left;
        }
        Ok(())
    }

    /// Computes what becomes of some rows. Returns those for which there was no room, which nothing is known of.
    fn compute(
        &self,
        state: &mut SliceState,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &RowSet,
    ) -> Result<(SliceRows, RowSet), ComputeError> {
        let mut later = RowSet::none(batch.len());
        let pipes = match &self.pipes {
            SlicePipes::Numbers(numbers) => {
                return Ok((SliceRows::Numbers(numbers.compute(batch, table, rows)?), later));
            }
            SlicePipes::Combinations(pipes) => pipes,
        };
        // Nobody looks at the rows of the batch before any more, so it holds nothing.
        let limits = state.limits;
        let is_full = state.made.is_of_batch() || state.made.bytes() > limits.remembered_bytes / 2;
        if !state.met.is_worthwhile() {
            state.made = Arc::new(MadeValues::of_batch(self.outputs.len(), state.made.round));
        } else if is_full || Arc::get_mut(&mut state.made).is_none() {
            self.restart(state);
        }
        if state.known.bytes() + state.made.bytes() > limits.remembered_bytes {
            state.known.freeze();
        }
        let values: Vec<Values<'_>> =
            self.inputs.iter().map(|input| Values::of(input, batch, table)).collect::<Result<_, _>>()?;
        let SliceState { known, made, names, row, met, .. } = state;
        let Some(made) = Arc::get_mut(made) else { return Err(too_many()) };
        let mut numbers = vec![UNKNOWN; batch.len() * made.width()];
        let room = limits.made_at_once_bytes;
        let mut maker = Maker { slice: self, pipes, names, row, made, numbers: &mut numbers, room: Some(room) };
        if met.is_worthwhile() {
            let (added, unknown) = maker.add_known(known, &values, batch, rows)?;
            if !unknown.is_empty() {
                maker.add_alone(&values, batch, &unknown)?;
            }
            met.count(rows.count(), added + unknown.count(), known.is_frozen(), limits);
            if !met.is_worthwhile() {
                *known = Combinations::new(self.inputs.len(), self.outputs.len());
            }
        } else {
            maker.add_alone(&values, batch, rows)?;
            met.leave_alone(rows.count());
        }
        if maker.room.is_none() {
            let width = maker.made.width();
            rows.iter().filter(|row| maker.numbers[row * width] == UNKNOWN).for_each(|row| later.insert(row));
        }
        Ok((SliceRows::Combinations(ComputedRows::new(numbers, state.made.clone())), later))
    }
}

/// Applies the pipes of a slice to the rows of a batch.
struct Maker<'s> {
    slice: &'s Slice,
    pipes: &'s [RowPipe],
    names: &'s [Arc<str>],
    row: &'s mut AnswerRow,
    made: &'s mut MadeValues,
    /// What stands for what the pipes make of each row.
    numbers: &'s mut [u32],
    /// Bytes of texts that may still be made; `None` once there were too many.
    room: Option<usize>,
}

impl Maker<'_> {
    /// Computes the rows whose combination is known, or becomes known. Returns how many became known, and the rows with other
    /// ones, for which there is no room.
    fn add_known(
        &mut self,
        combinations: &mut Combinations,
        values: &[Values<'_>],
        batch: &ColumnBatch,
        rows: &RowSet,
    ) -> Result<(usize, RowSet), ComputeError> {
        let of_rows = combinations.of_rows(values, batch, rows)?;
        let (width, mut unknown, mut added) = (self.made.width(), RowSet::none(batch.len()), 0);
        for row in rows.iter() {
            let combination = of_rows[row];
            if combination == NO_NUMBER {
                unknown.insert(row);
                continue;
            }
            if !combinations.is_known(combination) {
                if self.room.is_none() {
                    continue;
                }
                self.row.restart(self.names);
                combinations.each_value(combination, |at, value| self.row.put(at, value));
                self.make(combinations.made_mut(combination))?;
                added += 1;
            }
            let of_row = &mut self.numbers[row * width..][..width];
            of_row.iter_mut().zip(combinations.made(combination)).for_each(|(to, number)| *to = *number);
        }
        Ok((added, unknown))
    }

    /// Computes rows on their own: each, or of one column each value of the batch.
    fn add_alone(&mut self, values: &[Values<'_>], batch: &ColumnBatch, rows: &RowSet) -> Result<(), ComputeError> {
        let width = self.made.width();
        if let [values] = values {
            let (mut made, mut outcome) = (Vec::new(), Ok(()));
            let mut make = |maker: &mut Self, value: &dyn Fn() -> Option<OwnedValue>| {
                let at = made.len();
                made.resize(at + width, UNKNOWN);
                if outcome.is_ok() && maker.room.is_some() {
                    maker.row.restart(maker.names);
                    maker.row.put(0, value());
                    outcome = maker.make(&mut made[at..]);
                }
                at
            };
            let mut found = Vec::with_capacity(rows.count());
            let mut absent = rows.clone();
            values.each(batch, rows, |value| make(self, &|| Some(value.into())), |row, at| found.push((row, at)))?;
            found.iter().for_each(|(row, _)| absent.remove(*row));
            if !absent.is_empty() {
                let at = make(self, &|| None);
                found.extend(absent.iter().map(|row| (row, at)));
            }
            outcome?;
            for (row, at) in found {
                self.numbers[row * width..][..width].copy_from_slice(&made[at..][..width]);
            }
            return Ok(());
        }
        let columns = FieldsByRow::read(&self.slice.inputs, values, batch, rows)?;
        let mut of_row = vec![UNKNOWN; width];
        for row in rows.iter() {
            if self.room.is_none() {
                break;
            }
            self.row.restart(self.names);
            (0..values.len()).for_each(|at| self.row.put(at, columns.value(at, row).cloned()));
            self.make(&mut of_row)?;
            self.numbers[row * width..][..width].copy_from_slice(&of_row);
        }
        Ok(())
    }

    /// Applies the pipes to the row, and puts what stands for what they make to `numbers`.
    fn make(&mut self, numbers: &mut [u32]) -> Result<(), ComputeError> {
        for (at, input) in self.slice.inputs.iter().enumerate() {
            // A record without a message or a source has an empty one.
            if matches!(input.column(), Column::Message | Column::Source) {
                self.row.put_if_absent(at, || OwnedValue::String(String::new()));
            }
        }
        let mut is_passed_on = true;
        for pipe in self.pipes {
            is_passed_on = pipe.apply(self.row, &|| true).map_err(ComputeError::Refused)?;
            if !is_passed_on {
                break;
            }
        }
        let row = &*self.row;
        self.room = self.room.and_then(|room| room.checked_sub(row.text_bytes()));
        let values = is_passed_on.then(|| self.slice.outputs.iter().map(|name| row.field(name)));
        if self.made.keep(values, numbers) { Ok(()) } else { Err(too_many()) }
    }
}

/// There are more different values than there can be numbers.
fn too_many() -> ComputeError {
    ComputeError::Refused(TextRefusal::TooLong(REMEMBERED_BYTES))
}
