//! The times of rows by group, in their order: what `sessions` and `gaps` look at.

use super::accumulator::{cell, compare_groups};
use super::answer_budget::AnswerBudget;
use super::item::{AnswerItem, AnswerRow, value_bytes};
use super::spill::{ExternalSort, GroupCells, SortItem, SpillStop};
use super::stage::PipelineContext;
use super::value_steps::time_of;
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::{FieldName, Fields};
use daytable_model::property::Property;
use daytable_model::time::Ticks;
use daytable_platform::budget::OverBudget;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The times of rows by group.
pub(super) struct GroupTimes<'q> {
    by: Vec<FieldName>,
    time: FieldName,
    sorted: Option<ExternalSort<'q, GroupTime>>,
    budget: AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
}

struct GroupTime {
    values: GroupCells,
    time: Ticks,
}

impl Spilled for GroupTime {
    fn write(&self, to: &mut Vec<u8>) {
        self.values.write(to);
        self.time.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<GroupTime> {
        Some(GroupTime { values: Spilled::read(from)?, time: Spilled::read(from)? })
    }
}

impl SortItem for GroupTime {
    fn bytes(&self) -> usize {
        let of_value = |value: &Option<OwnedValue>| size_of::<OwnedValue>() + value.as_ref().map_or(0, value_bytes);
        size_of::<GroupTime>() + self.values.iter().map(of_value).sum::<usize>()
    }
}

impl<'q> GroupTimes<'q> {
    pub(super) fn new(by: &[FieldName], context: &PipelineContext<'q>) -> GroupTimes<'q> {
        let groups = by.to_vec();
        let compare = move |one: &GroupTime, other: &GroupTime| {
            compare_groups(groups.iter(), one.values.iter().map(cell), other.values.iter().map(cell))
                .then_with(|| one.time.cmp(&other.time))
        };
        GroupTimes {
            by: by.to_vec(),
            time: FieldName::new("time"),
            sorted: Some(ExternalSort::new(compare, usize::MAX, &context.budget, "times")),
            budget: context.budget.clone(),
            go_on: context.go_on,
        }
    }

    /// The memory of the question.
    pub(super) fn budget(&self) -> &AnswerBudget {
        &self.budget
    }

    /// Adds the time of a row, if the row has one.
    pub(super) fn push(&mut self, item: &AnswerItem) -> Result<(), OverBudget> {
        let time = match item.field(&self.time) {
            Some(Property::DateTime(time)) => Some(time),
            Some(Property::String(text)) => time_of(text),
            _ => None,
        };
        let (Some(time), Some(sorted)) = (time, &mut self.sorted) else { return Ok(()) };
        let value = |name| item.field(name).filter(|value| *value != Property::String("")).map(OwnedValue::from);
        sorted.push(GroupTime { values: self.by.iter().map(value).collect(), time })
    }

    /// Passes on each time with the values of its group: group by group, and the times of a group in their order.
    pub(super) fn finish(
        &mut self,
        each: &mut dyn FnMut(GroupCells, Ticks) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SpillStop> {
        let Some(sorted) = self.sorted.take() else { return Ok(ControlFlow::Continue(())) };
        sorted.finish(self.go_on, &mut |GroupTime { values, time }| each(values, time))
    }

    /// The groups.
    pub(super) fn by(&self) -> &[FieldName] {
        &self.by
    }

    /// Names of columns: the groups, and others.
    pub(super) fn names<const N: usize>(&self, others: [&str; N]) -> Vec<Arc<str>> {
        self.by.iter().map(FieldName::written).chain(others).map(Arc::from).collect()
    }
}

/// Whether two groups are one.
pub(super) fn is_same(by: &[FieldName], one: &GroupCells, other: &GroupCells) -> bool {
    compare_groups(by.iter(), one.iter().map(cell), other.iter().map(cell)).is_eq()
}

/// A row of a group and other values.
pub(super) fn group_row<const N: usize>(names: &[Arc<str>], group: &GroupCells, others: [OwnedValue; N]) -> AnswerItem {
    let mut row = AnswerRow::default();
    for (name, value) in names.iter().zip(group.iter().cloned().chain(others.map(Some))) {
        row.push(name.clone(), value);
    }
    AnswerItem::Row(row)
}
