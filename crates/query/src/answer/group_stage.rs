//! `stats`, `top`, `uniq` and `field_values`: groups of rows, and functions of each group.
//!
//! Rows come one by one, or groups that were gathered by columns: both are kept in the same [table](GroupTable). Groups that
//! outgrow the memory go to the [temporary file](super::spill) of the question, where those of columns are, too.

use super::accumulator::{Accumulator, EachField, cell, compare_groups};
use super::answer_budget::AnswerBudget;
use super::columns::GroupTable;
use super::item::{AnswerItem, AnswerRow, RecordPlace};
use super::order::compare_values;
use super::row_batch::{BATCH_ROWS, BatchRow, RowBatch};
use super::spill::{
    ExternalSort, FirstGroups, Group, GroupCells, GroupOrdering, GroupRuns, GroupSource, ReadsCells, SpillStop,
    each_merged,
};
use super::stage::{Groups, Next, PipeStage, PipelineContext, StageInput, stopped};
use crate::entity::OwnedValue;
use daytable_logsql::query::{Aggregate, Function, GroupField, SortKey, ValueStep, ValueStepSize};
use daytable_logsql::{FieldName, Fields, Predicate};
use daytable_model::property::Property;
use daytable_platform::budget::OverBudget;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The order and the columns of the rows of a [`GroupStage`].
pub(super) enum GroupOrder {
    /// By the groups.
    Groups,
    /// The greatest numbers first.
    Top { limit: u64, rank: Option<String> },
    /// By the groups, with or without numbers.
    Uniq { limit: Option<u64>, has_hits: bool },
}

/// How often a list of values is there while it becomes a text of the answer.
const LIST_COPIES: usize = 3;
/// This many groups are kept as the first ones of an order. More are sorted as they come.
const FIRST_MAX: usize = 4096;

impl GroupSource for Vec<Group> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn each_value(&self, group: usize, _room: &mut String, each: &mut dyn FnMut(Option<Property<'_>>)) {
        self[group].values.iter().for_each(|value| each(cell(value)));
    }

    fn functions(&self) -> usize {
        self.first().map_or(0, |group| group.states.len())
    }

    fn take_state(&mut self, group: usize, function: usize) -> Accumulator {
        std::mem::replace(&mut self[group].states[function], Accumulator::Count(0))
    }

    fn has_uniq(&self) -> bool {
        self.first().is_some_and(|group| group.states.iter().any(|state| matches!(state, Accumulator::Uniq(_))))
    }
}

/// `stats`, `top`, `uniq` and `field_values` at work.
pub(super) struct GroupStage<'q> {
    by: Vec<GroupField>,
    aggregates: Vec<Aggregate>,
    conditions: Vec<Option<Predicate>>,
    /// The groups in memory.
    table: GroupTable,
    /// What was charged for them.
    held: usize,
    /// The groups that are in the file.
    runs: GroupRuns,
    order: GroupOrder,
    comparison: GroupComparison,
    /// The order of which only the first groups are wanted, and how many.
    first: Option<(GroupComparison, usize)>,
    /// Whether the order of the rows makes a difference behind the stage.
    is_ordered: bool,
    seconds: Option<f64>,
    budget: AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
}

impl<'q> GroupStage<'q> {
    pub(super) fn new(
        by: Vec<GroupField>,
        aggregates: Vec<Aggregate>,
        order: GroupOrder,
        context: &PipelineContext<'q>,
    ) -> GroupStage<'q> {
        let condition = |aggregate: &Aggregate| aggregate.condition.as_ref().map(|c| Predicate::new(c, context.now));
        let mut stage = GroupStage {
            conditions: aggregates.iter().map(condition).collect(),
            table: GroupTable::new(by.len(), &aggregates),
            held: 0,
            runs: GroupRuns::default(),
            comparison: GroupComparison {
                by: by.iter().map(|by| by.field.clone()).collect(),
                keys: match order {
                    GroupOrder::Top { .. } => {
                        vec![GroupKey { of: KeyOf::Function(0), name: None, is_descending: true }]
                    }
                    _ => Vec::new(),
                },
                aggregates: aggregates.clone(),
                seconds: context.seconds,
            },
            first: None,
            order,
            is_ordered: true,
            seconds: context.seconds,
            budget: context.budget.clone(),
            go_on: context.go_on,
            by,
            aggregates,
        };
        // A time step is the time of its group.
        for field in &stage.by {
            if let (
                daytable_logsql::Column::Time | daytable_logsql::Column::Arrived,
                Some(ValueStep { size: ValueStepSize::Number(nanos), .. }),
            ) = (field.field.column(), &field.step)
            {
                stage.seconds = Some(nanos / 1e9);
            }
        }
        stage.comparison.seconds = stage.seconds;
        stage
    }

    /// Adds a row to its group.
    fn add(
        &mut self,
        row: &impl Fields,
        place: Option<RecordPlace<'_>>,
        each_field: EachField<'_>,
    ) -> Result<(), OverBudget> {
        self.table.add_row((&self.by, &self.aggregates), &self.conditions, row, place, each_field);
        self.charge()
    }

    /// Charges what the groups took. If there is no memory for it, or none for the next row, they go to the file.
    fn charge(&mut self) -> Result<(), OverBudget> {
        let more = self.table.memory().saturating_sub(self.held);
        let (question, growth) = (self.budget.question(), self.table.growth(1));
        if more == 0 && growth == 0 {
            return Ok(());
        }
        if question.charge(more, "groups").is_err() {
            return self.write_groups();
        }
        self.held += more;
        if self.budget.spill().is_due(question, self.held, growth) { self.write_groups() } else { Ok(()) }
    }

    /// Moves the groups to the file.
    fn write_groups(&mut self) -> Result<(), OverBudget> {
        if self.table.len() > 0 {
            self.runs.append(self.budget.spill().write_groups(&mut self.table.take())?);
        }
        self.budget.question().release(std::mem::take(&mut self.held));
        Ok(())
    }

    /// Sees to it that groups with different numbers have different values.
    fn set_apart(&mut self) -> Result<(), OverBudget> {
        if self.table.are_apart() {
            return Ok(());
        }
        // For a while both are there.
        let bytes = self.table.memory();
        if self.budget.question().charge(bytes, "groups").is_err() {
            return self.write_groups();
        }
        self.table = self.table.by_text();
        self.budget.question().release(bytes);
        self.charge()
    }

    /// The groups that are passed on at most.
    fn limit(&self) -> usize {
        let limit = match &self.order {
            GroupOrder::Groups => None,
            GroupOrder::Top { limit, .. } => Some(*limit),
            GroupOrder::Uniq { limit, .. } => *limit,
        };
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.by.iter().map(|by| by.field.written().into()).collect()
    }

    /// Passes on the row of a group.
    fn pass_row(
        &self,
        names: &[Arc<str>],
        group: Group,
        rank: u64,
        next: Next<'_>,
    ) -> Result<ControlFlow<()>, OverBudget> {
        let mut row = AnswerRow::default();
        for (name, value) in names.iter().zip(group.values) {
            row.push(name.clone(), value);
        }
        let lists = LIST_COPIES * group.states.iter().map(Accumulator::list_bytes).sum::<usize>();
        if lists > 0 {
            self.budget.question().charge(lists, "values")?;
        }
        if !matches!(self.order, GroupOrder::Uniq { has_hits: false, .. }) {
            for (aggregate, state) in self.aggregates.iter().zip(group.states) {
                row.push(aggregate.name.as_str().into(), state.finish(aggregate, self.seconds));
            }
        }
        if let GroupOrder::Top { rank: Some(name), .. } = &self.order {
            row.push(name.as_str().into(), Some(super::accumulator::whole(rank)));
        }
        let flow = next(row.into());
        // Who keeps the row charges it.
        self.budget.question().release(lists);
        Ok(flow)
    }

    /// The columns of the functions, for the rows of some groups.
    fn function_columns(
        &self,
        groups: impl Iterator<Item = Vec<Accumulator>>,
    ) -> Vec<(Arc<str>, Vec<Option<OwnedValue>>)> {
        let has_functions = !matches!(self.order, GroupOrder::Uniq { has_hits: false, .. });
        let functions = if has_functions { &*self.aggregates } else { &[] };
        let column = |of: &Aggregate| (of.name.as_str().into(), Vec::with_capacity(BATCH_ROWS));
        let mut columns: Vec<(Arc<str>, Vec<_>)> = functions.iter().map(column).collect();
        for states in groups {
            for ((column, state), aggregate) in columns.iter_mut().zip(states).zip(functions) {
                column.1.push(state.finish(aggregate, self.seconds));
            }
        }
        columns
    }

    /// Passes on groups that come together, and forgets them.
    fn pass_groups(&self, names: &[Arc<str>], groups: &mut Vec<Group>, next: Next<'_>) -> ControlFlow<()> {
        let columns = self.function_columns(groups.iter_mut().map(|group| std::mem::take(&mut group.states)));
        let flow = next(StageInput::Rows(RowBatch::new(groups, (0..groups.len()).collect(), names, columns)));
        groups.clear();
        flow
    }

    /// The numbers of the groups that may be wanted.
    fn wanted(&self, table: &GroupTable) -> Vec<usize> {
        let least = match &self.order {
            GroupOrder::Top { .. } => table.least_of_top(self.limit()),
            _ => 0,
        };
        let is_wanted = |number: &usize| least == 0 || table.count(*number).is_none_or(|count| count >= least);
        (0..table.len()).filter(is_wanted).collect()
    }

    /// Passes on the groups of a table, in no order.
    fn pass_table(&self, names: &[Arc<str>], mut table: GroupTable, next: Next<'_>) -> ControlFlow<()> {
        self.wanted(&table).chunks(BATCH_ROWS).try_for_each(|numbers| {
            let columns = self.function_columns(numbers.iter().map(|number| table.take_states(*number)));
            next(StageInput::Rows(RowBatch::new(&table, numbers.to_vec(), names, columns)))
        })
    }

    /// Passes on the groups that are in the file, or else those of a table, in no order: of those that `first` tells, at least
    /// the first ones.
    fn each_group(
        &self,
        mut table: GroupTable,
        runs: GroupRuns,
        first: Option<FirstGroups<'_>>,
        each: &mut dyn FnMut(Group) -> Result<ControlFlow<()>, SpillStop>,
    ) -> Result<ControlFlow<()>, SpillStop> {
        if !runs.is_empty() {
            return each_merged(runs, &self.aggregates, first, &self.budget, self.go_on, each);
        }
        let (mut kept, mut room) = (first.map(|first| (first, first.sorted(&self.budget))), GroupCells::new());
        for number in self.wanted(&table) {
            let mut states = table.take_states(number);
            states.iter_mut().for_each(Accumulator::settle);
            if let Some((first, kept)) = &mut kept {
                let mut read = |room: &mut GroupCells| {
                    *room = table.values(number);
                    Ok(())
                };
                if first.may_have(kept, &states, &mut room, &mut read)? {
                    kept.push(Group { values: table.values(number), states })?;
                }
            } else if each(Group { values: table.values(number), states })?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let (Some((_, kept)), mut refused) = (kept, None) else { return Ok(ControlFlow::Continue(())) };
        let flow = kept.finish(self.go_on, &mut |group| {
            each(group).unwrap_or_else(|stop| {
                refused = Some(stop);
                ControlFlow::Break(())
            })
        })?;
        refused.map_or(Ok(flow), Err)
    }

    fn pass_on(&mut self, next: Next<'_>) -> Result<ControlFlow<()>, SpillStop> {
        if self.runs.is_empty() {
            self.set_apart()?;
        }
        // Where some groups are in the file, the others go there as well.
        if !self.runs.is_empty() {
            self.write_groups()?;
        }
        let (table, runs, held) = (self.table.take(), std::mem::take(&mut self.runs), std::mem::take(&mut self.held));
        let flow = self.pass_groups_on(table, runs, next);
        self.budget.question().release(held);
        flow
    }

    /// Passes on the groups that are in the file, or else those of a table.
    fn pass_groups_on(&self, table: GroupTable, runs: GroupRuns, next: Next<'_>) -> Result<ControlFlow<()>, SpillStop> {
        let (stage, names, limit) = (self, self.names(), self.limit());
        if !stage.is_ordered && limit == usize::MAX {
            // The texts that lists become are charged row by row.
            let has_lists =
                stage.aggregates.iter().any(|of| matches!(of.function, Function::Values | Function::UniqValues));
            if runs.is_empty() && !has_lists {
                return Ok(stage.pass_table(&names, table, next));
            }
            let first = stage.first.as_ref().map(|(order, wanted)| FirstGroups { wanted: *wanted, order });
            let mut waiting = Vec::new();
            let flow = stage.each_group(table, runs, first, &mut |group| {
                if has_lists {
                    return Ok(stage.pass_row(&names, group, 0, next)?);
                }
                waiting.push(group);
                match waiting.len() < BATCH_ROWS {
                    true => Ok(ControlFlow::Continue(())),
                    false => Ok(stage.pass_groups(&names, &mut waiting, next)),
                }
            })?;
            let is_over = flow.is_break() || waiting.is_empty();
            return Ok(if is_over { flow } else { stage.pass_groups(&names, &mut waiting, next) });
        }
        let compare = |a: &Group, b: &Group| stage.comparison.compare(a, b);
        let mut sorted = ExternalSort::new(compare, limit, &stage.budget, "groups");
        let first = FirstGroups { wanted: limit, order: &stage.comparison };
        // It goes on to the end.
        let _ = stage.each_group(table, runs, Some(first).filter(|_| limit <= FIRST_MAX), &mut |group| {
            sorted.push(group)?;
            Ok(ControlFlow::Continue(()))
        })?;
        let (mut rank, mut refused) = (0, None);
        let flow = sorted.finish(stage.go_on, &mut |group| {
            rank += 1;
            stage.pass_row(&names, group, rank, next).unwrap_or_else(|over| {
                refused = Some(over);
                ControlFlow::Break(())
            })
        })?;
        refused.map_or(Ok(flow), |over| Err(over.into()))
    }
}

/// The order of groups: by keys, and then by their values.
struct GroupComparison {
    by: Vec<FieldName>,
    keys: Vec<GroupKey>,
    aggregates: Vec<Aggregate>,
    seconds: Option<f64>,
}

/// What groups are ordered by.
struct GroupKey {
    of: KeyOf,
    /// What the query calls it; `None` if it is the number of records.
    name: Option<FieldName>,
    is_descending: bool,
}

/// What the value of a key is.
#[derive(Clone, Copy)]
enum KeyOf {
    /// The value of the group in this place.
    Value(usize),
    /// What this function gives.
    Function(usize),
}

impl GroupComparison {
    /// The order of two groups by a function.
    fn compare_by(&self, key: &GroupKey, function: usize, one: &[Accumulator], other: &[Accumulator]) -> Ordering {
        let order = match (one.get(function), other.get(function)) {
            // What is counted comes in its order, also by the second.
            (Some(Accumulator::Count(one)), Some(Accumulator::Count(other))) => one.cmp(other),
            (Some(one), Some(other)) => {
                let aggregate = &self.aggregates[function];
                let [one, other] = [one, other].map(|state| state.clone().finish(aggregate, self.seconds));
                let [one, other] = [&one, &other].map(|value| value.as_ref().map(OwnedValue::as_property));
                key.name.as_ref().map_or(Ordering::Equal, |name| compare_values(name, one, other))
            }
            _ => Ordering::Equal,
        };
        if key.is_descending { order.reverse() } else { order }
    }
}

impl GroupComparison {
    /// The order of two groups by their states and values.
    fn compare_parts<'v>(
        &self,
        (states, values): (&[Accumulator], impl Iterator<Item = Option<Property<'v>>> + Clone),
        other: &'v Group,
    ) -> Ordering {
        let others = other.values.iter().map(cell);
        let by_key = |key: &GroupKey| match (key.of, &key.name) {
            (KeyOf::Function(function), _) => self.compare_by(key, function, states, &other.states),
            (KeyOf::Value(at), Some(name)) => {
                let value = |of: &mut dyn Iterator<Item = Option<Property<'v>>>| of.nth(at).flatten();
                let order = compare_values(name, value(&mut values.clone()), value(&mut others.clone()));
                if key.is_descending { order.reverse() } else { order }
            }
            (KeyOf::Value(_), None) => Ordering::Equal,
        };
        let by_key = self.keys.iter().map(by_key).find(|order| order.is_ne());
        by_key.unwrap_or_else(|| compare_groups(self.by.iter(), values.clone(), others.clone()))
    }
}

impl GroupOrdering for GroupComparison {
    fn compare(&self, one: &Group, other: &Group) -> Ordering {
        self.compare_parts((&one.states, one.values.iter().map(cell)), other)
    }

    fn compare_states(
        &self,
        states: &[Accumulator],
        room: &mut GroupCells,
        read: ReadsCells<'_>,
        other: &Group,
    ) -> Result<Ordering, OverBudget> {
        for key in &self.keys {
            let KeyOf::Function(function) = key.of else { break };
            let order = self.compare_by(key, function, states, &other.states);
            if order.is_ne() {
                return Ok(order);
            }
        }
        read(room)?;
        Ok(self.compare_parts((states, room.iter().map(cell)), other))
    }
}

impl Groups for GroupStage<'_> {
    fn grouping(&self) -> (&[GroupField], &[Aggregate]) {
        (&self.by, &self.aggregates)
    }

    fn set_ordered(&mut self, is_ordered: bool) {
        self.is_ordered = is_ordered;
    }

    fn set_first(&mut self, by: &[SortKey], wanted: u64) {
        let names = self.names().into_iter().chain(self.aggregates.iter().map(|of| of.name.as_str().into()));
        let mut row = AnswerRow::default();
        names.for_each(|name| row.push(name, None));
        let key = |key: &SortKey| {
            let at = row.position_of(&key.field)?;
            let of = at.checked_sub(self.by.len()).map_or(KeyOf::Value(at), KeyOf::Function);
            Some(GroupKey { of, name: Some(key.field.clone()), is_descending: key.is_descending })
        };
        let keys = by.iter().map(key).collect::<Option<_>>();
        let wanted = usize::try_from(wanted).ok().filter(|wanted| *wanted <= FIRST_MAX);
        let GroupComparison { by, aggregates, .. } = &self.comparison;
        let (by, aggregates, seconds) = (by.clone(), aggregates.clone(), self.seconds);
        let order = keys.map(|keys| GroupComparison { by, keys, aggregates, seconds });
        self.first = order.zip(wanted).filter(|_| matches!(self.order, GroupOrder::Groups));
    }

    fn add_runs(&mut self, runs: GroupRuns) {
        self.runs.append(runs);
    }

    fn add_table(&mut self, mut table: GroupTable, charged: usize) {
        // The fewer are added to the more.
        if self.table.len() < table.len() {
            std::mem::swap(&mut self.table, &mut table);
        }
        self.table.merge(&mut table);
        self.held += charged;
        if let Err(over) = self.charge() {
            self.budget.refuse(over);
        }
    }
}

impl<'q> PipeStage<'q> for GroupStage<'q> {
    fn as_groups(&mut self) -> Option<&mut dyn Groups> {
        Some(self)
    }

    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        match self.add(&item, item.place(), &|each| item.each_field(each)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => stopped(over, &self.budget),
        }
    }

    fn push_rows(&mut self, rows: RowBatch<'_>, _next: Next<'_>) -> ControlFlow<()> {
        let add = |row: BatchRow<'_>| self.add(&row, None, &|each| AnswerItem::Row(row.to_row()).each_field(each));
        match { rows.rows() }.try_for_each(add) {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => stopped(over, &self.budget),
        }
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        self.pass_on(next).unwrap_or_else(|stop| stopped(stop, &self.budget))
    }
}
