//! The states of a function without a form of its own: the values of a row are added to the state of its group, as they are of a
//! record.

use super::fields_by_row::FieldsByRow;
use super::values::Values;
use crate::answer::accumulator::{Accumulator, EachField};
use crate::answer::item::RecordPlace;
use daytable_logsql::Fields;
use daytable_logsql::query::{Aggregate, Function};
use daytable_model::row_set::RowSet;
use daytable_store::{ColumnBatch, StoreError};
use std::collections::HashSet;
use std::sync::Arc;

/// The states of a function, by group.
pub(super) struct Others {
    function: Function,
    states: Vec<Accumulator>,
    /// About the memory of what they keep.
    kept_bytes: usize,
}

impl Others {
    /// No groups yet.
    pub(super) fn new(function: Function) -> Others {
        Others { function, states: Vec::new(), kept_bytes: 0 }
    }

    /// States of the same function without groups.
    pub(super) fn empty(&self) -> Others {
        Others::new(self.function)
    }

    pub(super) fn resize(&mut self, groups: usize) {
        self.states.resize_with(groups, || Accumulator::new(self.function));
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Accumulator>() * self.states.len() + self.kept_bytes
    }

    /// Adds the states of other groups, each to the group here that `group` has for it.
    pub(super) fn merge(&mut self, other: &mut Others, group: impl Fn(usize) -> Option<usize>) {
        for (at, state) in std::mem::take(&mut other.states).into_iter().enumerate() {
            if let Some(own) = group(at) {
                self.kept_bytes += self.states[own].merge(state, self.function);
            }
        }
        other.kept_bytes = 0;
    }

    /// The state of a group, which is left empty.
    pub(super) fn take(&mut self, group: usize) -> Accumulator {
        std::mem::replace(&mut self.states[group], Accumulator::new(self.function))
    }

    /// Adds a row to the state of a group.
    pub(super) fn add_row(
        &mut self,
        group: usize,
        aggregate: &Aggregate,
        row: &impl Fields,
        place: Option<RecordPlace<'_>>,
        each_field: EachField<'_>,
    ) {
        self.kept_bytes += self.states[group].add(aggregate, row, place, each_field);
    }

    /// Adds the values of some rows to the states of their groups, which `group` tells.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        batch: &ColumnBatch,
        values: &[Values<'_>],
        rows: &RowSet,
        group: impl Fn(usize) -> Option<usize>,
    ) -> Result<(), StoreError> {
        let columns = FieldsByRow::read(&aggregate.fields, values, batch, rows)?;
        if self.function == Function::UniqValues {
            // Most rows of a group have the values of another one.
            let mut known: HashSet<(usize, Vec<u32>), foldhash::fast::RandomState> = HashSet::default();
            for row in rows.iter() {
                let Some(group) = group(row) else { continue };
                if known.insert((group, columns.places(row).collect())) {
                    self.add_row(group, aggregate, &columns.row(row, None), None, &|_| ());
                }
            }
            return Ok(());
        }
        let keys = batch.keys()?;
        let (mut partitions, mut of_rows): (Vec<Arc<str>>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
        let read = |partition: &str| {
            partitions.push(partition.into());
            partitions.len() - 1
        };
        batch.each_partition(rows, read, |row, partition| of_rows.push((row, partition)));
        for (row, partition) in of_rows {
            let Some(group) = group(row) else { continue };
            let key = keys[row];
            let place = Some((key, &partitions[partition]));
            self.add_row(group, aggregate, &columns.row(row, Some(key.time())), place, &|_| ());
        }
        Ok(())
    }
}

/// Whether a function chooses one of the records, of which the newest or the oldest is better where nothing else decides.
pub(super) fn is_chosen(function: Function) -> bool {
    matches!(
        function,
        Function::Any | Function::First | Function::Last | Function::RowAny | Function::RowMin | Function::RowMax
    )
}
