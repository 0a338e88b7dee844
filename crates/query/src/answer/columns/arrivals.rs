//! When the records of a batch arrived: a column has what was kept, and the time tells it of the others.

use daytable_logsql::ARRIVED_COLUMN;
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use daytable_store::{BatchColumn, ColumnBatch, StoreError};

/// The arrivals that were kept.
pub(super) struct Arrivals<'b>(Vec<BatchColumn<'b>>);

impl<'b> Arrivals<'b> {
    /// Those of a batch.
    pub(super) fn of(batch: &'b ColumnBatch) -> Result<Arrivals<'b>, StoreError> {
        batch.columns(|name, kind| (name, kind) == ARRIVED_COLUMN).map(Arrivals)
    }

    /// Applies `read` to the arrival of some rows, and passes the results on.
    pub(super) fn each<T: Copy>(
        &self,
        batch: &ColumnBatch,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) -> Result<(), StoreError> {
        let mut others = rows.clone();
        for column in &self.0 {
            column.map(rows, &mut read, &mut each);
            others.subtract(&column.present());
        }
        batch.each_time(&others, |row, time| each(row, read(Property::DateTime(time))))
    }
}
