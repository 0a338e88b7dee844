//! The combinations of values that pipes work on, by small numbers.

use super::computed_rows::UNKNOWN;
use super::group_step::GroupStep;
use super::value_numbers::{ABSENT, NO_NUMBER, ValueNumbers};
use super::values::Values;
use crate::entity::OwnedValue;
use daytable_model::row_set::RowSet;
use daytable_store::{ColumnBatch, StoreError};

/// Combinations of values, with the numbers that stand for what the pipes made of each.
#[derive(Default)]
pub(super) struct Combinations {
    inputs: Vec<ValueNumbers>,
    steps: Vec<GroupStep>,
    /// As many numbers for each combination as there are columns that the pipes make, and one where there is none.
    made: Vec<u32>,
    width: usize,
    is_frozen: bool,
}

impl Combinations {
    /// None yet of this many columns that are read, from which as many others are made.
    pub(super) fn new(inputs: usize, outputs: usize) -> Combinations {
        Combinations {
            inputs: (0..inputs).map(|_| ValueNumbers::exact()).collect(),
            steps: (0..inputs).map(|_| GroupStep::default()).collect(),
            made: Vec::new(),
            width: outputs.max(1),
            is_frozen: false,
        }
    }

    /// From now on no combination is added.
    pub(super) fn freeze(&mut self) {
        self.inputs.iter_mut().for_each(|values| values.is_frozen = true);
        self.is_frozen = true;
    }

    /// Whether no combination is added.
    pub(super) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// The combination of each of some rows; [`NO_NUMBER`] of one that is new and not added.
    pub(super) fn of_rows(
        &mut self,
        values: &[Values<'_>],
        batch: &ColumnBatch,
        rows: &RowSet,
    ) -> Result<Vec<u32>, StoreError> {
        let (mut combinations, mut numbers) = (vec![0u32; batch.len()], vec![ABSENT; batch.len()]);
        let adds = !self.is_frozen;
        for ((values, known), step) in values.iter().zip(&mut self.inputs).zip(&mut self.steps) {
            numbers.fill(ABSENT);
            values.each_number(batch, rows, known, None, |row, number| numbers[row] = number)?;
            let mut last = (NO_NUMBER, NO_NUMBER, NO_NUMBER);
            rows.for_each(|row| {
                let (parent, value) = (combinations[row], numbers[row]);
                if (parent, value) != (last.0, last.1) {
                    let is_none = parent == NO_NUMBER || value == NO_NUMBER;
                    last = (parent, value, if is_none { NO_NUMBER } else { step.group(parent, value, adds) });
                }
                combinations[row] = last.2;
            });
        }
        Ok(combinations)
    }

    fn place(&self, combination: u32) -> std::ops::Range<usize> {
        let at = combination as usize * self.width;
        at..at + self.width
    }

    /// Whether it is known what the pipes make of a combination.
    pub(super) fn is_known(&self, combination: u32) -> bool {
        self.made.get(self.place(combination).start).is_some_and(|number| *number != UNKNOWN)
    }

    /// What stands for what the pipes made of a combination that is known.
    pub(super) fn made(&self, combination: u32) -> &[u32] {
        &self.made[self.place(combination)]
    }

    /// The place of what stands for what the pipes make of a combination.
    pub(super) fn made_mut(&mut self, combination: u32) -> &mut [u32] {
        let place = self.place(combination);
        if self.made.len() < place.end {
            self.made.resize(place.end, UNKNOWN);
        }
        &mut self.made[place]
    }

    /// Passes on the values of a combination, each with the number of its column.
    pub(super) fn each_value(&self, combination: u32, mut each: impl FnMut(usize, Option<OwnedValue>)) {
        let mut group = combination;
        for (at, (step, known)) in self.steps.iter().zip(&self.inputs).enumerate().rev() {
            let (parent, value) = step.parts(group as usize);
            each(at, known.value(value));
            group = parent;
        }
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        4 * self.made.capacity()
            + self.inputs.iter().map(ValueNumbers::bytes).sum::<usize>()
            + self.steps.iter().map(GroupStep::bytes).sum::<usize>()
    }
}
