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
//! A thread remembers combinations from batch to batch, up to some memory, and then begins anew. Where `math` is
//! all there is, nothing is remembered: numbers are computed from [numbers](super::number_pipes).

use super::computed_rows::{ComputedRows, Outcomes};
use super::group_step::GroupStep;
use super::number_pipes::NumberPipes;
use super::number_rows::NumberRows;
use super::value_numbers::{ABSENT, NO_NUMBER, ValueNumbers};
use super::values::Values;
use crate::answer::item::AnswerRow;
use crate::answer::row_pipes::{RowPipe, refused_text};
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

/// Memory of the combinations that a thread remembers of a slice: some sixty bytes each, and their values.
const REMEMBERED_BYTES: usize = 12 << 20;

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
    inputs: Vec<ValueNumbers>,
    steps: Vec<GroupStep>,
    /// What became of each combination, once it is known. A batch holds it as long as its rows are looked at.
    outcomes: Arc<Outcomes>,
    /// The names of the columns that are read, as columns of a row. Threads that shared them would wait for each other.
    names: Vec<Arc<str>>,
    bytes: usize,
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

    /// Begins the state of a thread.
    pub(super) fn start(&self) -> ComputedState {
        ComputedState {
            filters: self.filters.iter().map(|slice| slice.start(0)).collect(),
            columns: self.columns.iter().map(|slice| slice.start(0)).collect(),
            conditions: self
                .conditions
                .iter()
                .map(|slice| slice.as_ref().map(|slice| slice.start(0)).unwrap_or_default())
                .collect(),
        }
    }

    /// Removes the rows that a filter drops, and computes the columns of the others.
    pub(super) fn compute(
        &self,
        state: &mut ComputedState,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &mut RowSet,
    ) -> Result<ComputedBatch, ComputeError> {
        for (slice, state) in self.filters.iter().zip(&mut state.filters) {
            slice.compute(state, batch, table, rows)?.drop_from(rows);
        }
        let slices = self.columns.iter().zip(&mut state.columns);
        slices
            .map(|(slice, state)| slice.compute(state, batch, table, rows))
            .collect::<Result<_, _>>()
            .map(ComputedBatch)
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
        slice.compute(&mut state.conditions[aggregate], batch, table, rows)?.drop_from(&mut chosen);
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
        self.filters.iter().chain(&self.columns).chain(&self.conditions).map(|state| state.bytes).sum()
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
    fn start(&self, round: u64) -> SliceState {
        SliceState {
            inputs: self.inputs.iter().map(|_| ValueNumbers::exact()).collect(),
            steps: self.inputs.iter().map(|_| GroupStep::default()).collect(),
            outcomes: Arc::new(Outcomes::new(self.outputs.len(), round)),
            names: self.inputs.iter().map(|name| name.written().into()).collect(),
            bytes: 0,
        }
    }

    /// Computes what becomes of some rows.
    fn compute(
        &self,
        state: &mut SliceState,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &RowSet,
    ) -> Result<SliceRows, ComputeError> {
        let pipes = match &self.pipes {
            SlicePipes::Numbers(numbers) => return Ok(SliceRows::Numbers(numbers.compute(batch, table, rows)?)),
            SlicePipes::Combinations(pipes) => pipes,
        };
        // Nobody looks at the rows of the batch before any more, so it holds nothing.
        if state.bytes > REMEMBERED_BYTES || Arc::get_mut(&mut state.outcomes).is_none() {
            *state = self.start(state.outcomes.round + 1);
        }
        let mut combinations = vec![0u32; batch.len()];
        let mut numbers = vec![ABSENT; batch.len()];
        for (at, input) in self.inputs.iter().enumerate() {
            numbers.fill(ABSENT);
            let values = Values::of(input, batch, table)?;
            values.each_number(batch, rows, &mut state.inputs[at], None, |row, number| numbers[row] = number)?;
            let step = &mut state.steps[at];
            let mut last = (NO_NUMBER, NO_NUMBER, NO_NUMBER);
            rows.for_each(|row| {
                let (parent, value) = (combinations[row], numbers[row]);
                if (parent, value) != (last.0, last.1) {
                    let is_none = parent == NO_NUMBER || value == NO_NUMBER;
                    last = (parent, value, if is_none { NO_NUMBER } else { step.group(parent, value, true) });
                }
                combinations[row] = last.2;
            });
        }
        for row in rows.iter() {
            match combinations[row] {
                NO_NUMBER => return Err(too_many()),
                known if state.outcomes.is_known(known) => {}
                new => self.learn(pipes, state, new)?,
            }
        }
        state.bytes = state.outcomes.bytes()
            + state.inputs.iter().map(ValueNumbers::bytes).sum::<usize>()
            + state.steps.iter().map(GroupStep::bytes).sum::<usize>();
        Ok(SliceRows::Combinations(ComputedRows::new(combinations, state.outcomes.clone())))
    }

    /// Computes what becomes of a combination.
    fn learn(&self, pipes: &[RowPipe], state: &mut SliceState, combination: u32) -> Result<(), ComputeError> {
        let row = self.computed(pipes, state, combination as usize).map_err(ComputeError::Refused)?;
        let values = row.as_ref().map(|row| self.outputs.iter().map(|name| row.field(name)));
        let is_kept = Arc::get_mut(&mut state.outcomes).is_some_and(|outcomes| outcomes.set(combination, values));
        if is_kept { Ok(()) } else { Err(too_many()) }
    }

    /// The row that the pipes make of a combination of values; `None` if they drop it.
    fn computed(
        &self,
        pipes: &[RowPipe],
        state: &SliceState,
        combination: usize,
    ) -> Result<Option<AnswerRow>, TextRefusal> {
        let mut values = Vec::with_capacity(self.inputs.len());
        let mut number = combination;
        for (step, known) in state.steps.iter().zip(&state.inputs).rev() {
            let (parent, value) = step.parts(number);
            values.push(known.value(value));
            number = parent as usize;
        }
        let mut row = AnswerRow::default();
        for ((name, input), value) in state.names.iter().zip(&self.inputs).zip(values.into_iter().rev()) {
            // A record without a message or a source has an empty one.
            let is_always = matches!(input.column(), Column::Message | Column::Source);
            let empty = is_always.then(|| OwnedValue::String(String::new()));
            row.push(name.clone(), value.or(empty));
        }
        for pipe in pipes {
            if !pipe.apply(&mut row, &|| true)? {
                return Ok(None);
            }
        }
        Ok(Some(row))
    }
}

/// A batch has more combinations of values than there can be numbers.
fn too_many() -> ComputeError {
    ComputeError::Refused(TextRefusal::TooLong(REMEMBERED_BYTES))
}
