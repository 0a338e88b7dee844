//! Numbers that were computed for the rows of a batch.

use daytable_logsql::number::Number;
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;

/// Numbers that were computed for rows of a batch.
pub(super) struct NumberRows {
    /// The place of each row.
    pub(super) places: Vec<u32>,
    pub(super) columns: Vec<Vec<Number>>,
    /// The rows that a filter drops.
    pub(super) dropped: RowSet,
}

impl NumberRows {
    /// Removes the rows that the pipes drop.
    pub(super) fn drop_from(&self, rows: &mut RowSet) {
        rows.subtract(&self.dropped);
    }

    /// Passes on the numbers of a column of some rows.
    fn each_value(&self, column: usize, rows: &RowSet, mut each: impl FnMut(usize, Number)) {
        let numbers = &self.columns[column];
        rows.for_each(|row| each(row, numbers[self.places[row] as usize]));
    }

    /// Passes on the whole numbers of a column of some rows, and of others what `read` makes of them.
    pub(super) fn each_whole<T>(
        &self,
        column: usize,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, Result<i64, T>),
    ) {
        self.each_value(column, rows, |row, number| match number {
            Number::Whole(whole) => each(row, Ok(whole)),
            Number::Float(float) => each(row, Err(read(Property::Double(float)))),
        });
    }

    /// Applies `read` to the values of a column of some rows, and passes the results on.
    pub(super) fn each<T>(
        &self,
        column: usize,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        self.each_value(column, rows, |row, number| each(row, read(number.as_property())));
    }
}
