//! What pipes compute for the rows of a batch: an outcome for each combination of values, and its place for each row.

use crate::entity::OwnedValue;
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use std::sync::Arc;

/// The columns that the pipes make; `None` of a record that they drop.
pub(super) type Outcome = Option<Arc<[Option<OwnedValue>]>>;

/// What pipes compute for the rows of a batch.
pub(super) struct ComputedRows {
    /// The place of each row's outcome.
    places: Vec<u32>,
    outcomes: Vec<Outcome>,
}

impl ComputedRows {
    /// The outcomes of a batch, and the place of each row's one among them.
    pub(super) fn new(places: Vec<u32>, outcomes: Vec<Outcome>) -> ComputedRows {
        ComputedRows { places, outcomes }
    }

    /// Removes the rows that the pipes drop.
    pub(super) fn drop_from(&self, rows: &mut RowSet) {
        let dropped: Vec<usize> =
            rows.iter().filter(|row| self.outcomes[self.places[*row] as usize].is_none()).collect();
        dropped.into_iter().for_each(|row| rows.remove(row));
    }

    /// Applies `read` to the values of a column of some rows, once an outcome, and passes the results on.
    pub(super) fn each<T: Copy>(
        &self,
        column: usize,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        let mut known: Vec<Option<T>> = vec![None; self.outcomes.len()];
        rows.for_each(|row| {
            let place = self.places[row] as usize;
            let value = self.outcomes[place].as_ref().and_then(|values| values[column].as_ref());
            if let Some(value) = value {
                each(row, *known[place].get_or_insert_with(|| read(value.as_property())));
            }
        });
    }
}
