//! Groups, and the states of their functions: the one table of all pipes that group, over columns and over rows.

use super::group_states::States;
use super::group_step::GroupStep;
use super::value_numbers::{ABSENT, NO_NUMBER, ValueNumbers};
use crate::answer::accumulator::{Accumulator, EachField};
use crate::answer::item::RecordPlace;
use crate::answer::spill::{GroupCell, GroupSource};
use daytable_logsql::query::{Aggregate, GroupField};
use daytable_logsql::{Fields, Predicate};
use daytable_model::property::Property;

/// Groups by the values of some fields, numbered from 0 on. Without fields there is always one.
pub(in crate::answer) struct GroupTable {
    /// The values of each field.
    pub(super) values: Vec<ValueNumbers>,
    /// For each field the group that a group of the fields before it and a value make.
    pub(super) steps: Vec<GroupStep>,
    /// The states of each function.
    pub(super) states: Vec<States>,
}

impl GroupTable {
    /// A table by this many fields, without groups.
    pub(in crate::answer) fn new(fields: usize, aggregates: &[Aggregate]) -> GroupTable {
        GroupTable::with(fields, aggregates.iter().map(States::new).collect())
    }

    fn with(fields: usize, states: Vec<States>) -> GroupTable {
        let values = (0..fields).map(|_| ValueNumbers::default()).collect();
        let steps = (0..fields).map(|_| GroupStep::default()).collect();
        let mut table = GroupTable { values, steps, states };
        table.resize_states();
        table
    }

    /// A table for the same groups and functions, without groups.
    fn empty(&self) -> GroupTable {
        GroupTable::with(self.values.len(), self.states.iter().map(States::empty).collect())
    }

    /// Takes all groups out of it.
    pub(in crate::answer) fn take(&mut self) -> GroupTable {
        let empty = self.empty();
        std::mem::replace(self, empty)
    }

    /// Forgets all groups, and keeps the memory for others.
    pub(super) fn reset(&mut self) {
        self.values.iter_mut().for_each(ValueNumbers::reset);
        self.steps.iter_mut().for_each(GroupStep::reset);
        self.states.iter_mut().for_each(States::reset);
        self.resize_states();
    }

    /// Gives each group a state of each function.
    pub(super) fn resize_states(&mut self) {
        let groups = self.len();
        self.states.iter_mut().for_each(|states| states.resize(groups));
    }

    /// Adds a row to its group, for the functions whose condition it meets.
    pub(in crate::answer) fn add_row(
        &mut self,
        (by, aggregates): (&[GroupField], &[Aggregate]),
        conditions: &[Option<Predicate>],
        row: &impl Fields,
        place: Option<RecordPlace<'_>>,
        each_field: EachField<'_>,
    ) {
        let (before, mut group) = (self.len(), 0);
        for ((by, values), step) in by.iter().zip(&mut self.values).zip(&mut self.steps) {
            let value = row.field(&by.field).map_or(ABSENT, |value| values.step_number(value, by.step.as_ref()));
            let is_none = group == NO_NUMBER || value == NO_NUMBER;
            group = if is_none { NO_NUMBER } else { step.group(group, value, true) };
        }
        if self.len() > before {
            self.resize_states();
        }
        for ((states, aggregate), condition) in self.states.iter_mut().zip(aggregates).zip(conditions) {
            if group != NO_NUMBER && condition.as_ref().is_none_or(|condition| condition.matches(row)) {
                states.add_row(group as usize, aggregate, row, place, each_field);
            }
        }
    }

    /// Adds the groups of another table, which are left empty.
    pub(in crate::answer) fn merge(&mut self, other: &mut GroupTable) {
        let values: Vec<Vec<u32>> =
            self.values.iter_mut().zip(&other.values).map(|(values, more)| values.merge(more)).collect();
        let mut groups: Vec<u32> = vec![0];
        for ((step, others), values) in self.steps.iter_mut().zip(&other.steps).zip(&values) {
            let group = |(parent, value): (u32, u32)| match (groups[parent as usize], values[value as usize]) {
                (NO_NUMBER, _) | (_, NO_NUMBER) => NO_NUMBER,
                (parent, value) => step.group(parent, value, true),
            };
            groups = others.all_parts().map(group).collect();
        }
        self.resize_states();
        for (states, more) in self.states.iter_mut().zip(&mut other.states) {
            states.merge(more, &groups);
        }
    }

    /// Whether groups with different numbers have different values. Else a text and a value of another type that is printed
    /// like it are two.
    pub(in crate::answer) fn are_apart(&self) -> bool {
        self.values.iter().all(ValueNumbers::are_alike)
    }

    /// The same groups by the texts of their values, so that they are apart. Those here are left empty.
    pub(in crate::answer) fn by_text(&mut self) -> GroupTable {
        let mut apart = self.empty();
        apart.values.iter_mut().for_each(|values| *values = ValueNumbers::by_text());
        apart.merge(self);
        apart
    }

    /// How many groups it has, and different values of them.
    pub(super) fn kept(&self) -> usize {
        self.len() + self.states.iter().map(States::different_values).sum::<usize>()
    }

    /// An estimate of its memory.
    pub(in crate::answer) fn memory(&self) -> usize {
        self.states.iter().map(States::bytes).sum::<usize>()
            + self.values.iter().map(ValueNumbers::bytes).sum::<usize>()
            + self.steps.iter().map(GroupStep::bytes).sum::<usize>()
    }

    /// The memory that values of this many rows may take at once, where a table of them has to grow.
    pub(in crate::answer) fn growth(&self, rows: usize) -> usize {
        self.states.iter().map(|states| states.growth(rows)).sum()
    }

    /// The records of a group, where the first function counts them.
    pub(in crate::answer) fn count(&self, group: usize) -> Option<u64> {
        match self.states.first() {
            Some(States::Counts(counts)) => counts.get(group).copied(),
            _ => None,
        }
    }

    /// The states of a group, which are left empty.
    pub(in crate::answer) fn take_states(&mut self, group: usize) -> Vec<Accumulator> {
        self.states.iter_mut().map(|states| states.take(group)).collect()
    }

    /// The least count of the `limit` groups with the greatest ones, where counts are all there is.
    pub(in crate::answer) fn least_of_top(&self, limit: usize) -> u64 {
        let [States::Counts(counts)] = &*self.states else { return 0 };
        if limit == 0 || counts.len() <= limit {
            return 0;
        }
        let mut counts = counts.clone();
        let at = counts.len() - limit;
        *counts.select_nth_unstable(at).1
    }

    /// Passes on the numbers of the values of a group.
    fn each_field(&self, group: usize, mut each: impl FnMut(&ValueNumbers, u32)) {
        for (at, known) in self.values.iter().enumerate() {
            // The group of the fields up to this one.
            let later = self.steps[at + 1..].iter().rev();
            let number = later.fold(group, |number, step| step.parts(number).0 as usize);
            each(known, self.steps[at].parts(number).1);
        }
    }
}

impl GroupSource for GroupTable {
    fn len(&self) -> usize {
        self.steps.last().map_or(1, GroupStep::len)
    }

    fn each_value(&self, group: usize, room: &mut String, each: &mut dyn FnMut(Option<Property<'_>>)) {
        self.each_field(group, |known, number| each(known.value_in(number, room)));
    }

    fn patterns(&self) -> Vec<Vec<String>> {
        self.values.iter().map(|known| known.patterns().map(str::to_owned).collect()).collect()
    }

    fn each_cell(&self, group: usize, each: &mut dyn FnMut(GroupCell<'_>)) {
        self.each_field(group, |known, number| each(known.cell(number)));
    }

    fn functions(&self) -> usize {
        self.states.len()
    }

    fn take_state(&mut self, group: usize, function: usize) -> Accumulator {
        self.states[function].take(group)
    }

    fn has_uniq(&self) -> bool {
        self.states.iter().any(States::has_uniq)
    }
}
