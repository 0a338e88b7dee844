//! The values of several fields, row by row.

use super::values::Values;
use crate::entity::OwnedValue;
use daytable_logsql::{Column, FieldName, Fields};
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_store::{ColumnBatch, StoreError};

/// The values of some fields in the rows of a batch.
pub(super) struct FieldsByRow<'f> {
    fields: &'f [FieldName],
    /// For each field its values, and for each row the place of its own among them, from 1 on; 0 is none.
    columns: Vec<(Vec<OwnedValue>, Vec<u32>)>,
}

impl<'f> FieldsByRow<'f> {
    /// Reads the values of some rows.
    pub(super) fn read(
        fields: &'f [FieldName],
        values: &[Values<'_>],
        batch: &ColumnBatch,
        rows: &RowSet,
    ) -> Result<FieldsByRow<'f>, StoreError> {
        let mut columns = Vec::with_capacity(values.len());
        for (field, values) in fields.iter().zip(values) {
            let (mut known, mut places) = (Vec::new(), vec![0u32; batch.len()]);
            // A record without a message or a source has an empty one; a row of a pipe has none.
            if matches!(field.column(), Column::Message | Column::Source) && matches!(values, Values::Columns(..)) {
                known.push(OwnedValue::String(String::new()));
                places.fill(1);
            }
            let read = |value: Property<'_>| {
                known.push(value.into());
                known.len() as u32
            };
            values.each(batch, rows, read, |row, place| places[row] = place)?;
            columns.push((known, places));
        }
        Ok(FieldsByRow { fields, columns })
    }

    /// A row, whose time is told where it matters.
    pub(super) fn row(&self, row: usize, time: Option<Ticks>) -> FieldsRow<'_> {
        FieldsRow { columns: self, row, time }
    }

    /// The value of a column in a row.
    pub(super) fn value(&self, column: usize, row: usize) -> Option<&OwnedValue> {
        let (known, places) = &self.columns[column];
        known.get((places[row] as usize).checked_sub(1)?)
    }

    /// Where the values of a row are: rows with the same places have the same values.
    pub(super) fn places(&self, row: usize) -> impl Iterator<Item = u32> {
        self.columns.iter().map(move |(_, places)| places[row])
    }

    /// The column of a field.
    fn position(&self, name: &FieldName) -> Option<usize> {
        self.fields.iter().position(|field| field.written() == name.written())
    }
}

/// A row of these fields.
pub(super) struct FieldsRow<'c> {
    columns: &'c FieldsByRow<'c>,
    row: usize,
    time: Option<Ticks>,
}

impl Fields for FieldsRow<'_> {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        match self.columns.position(name) {
            Some(column) => self.columns.value(column, self.row).map(OwnedValue::as_property),
            None if name.column() == Column::Time => self.time.map(Property::DateTime),
            None => None,
        }
    }

    /// Functions look at fields by their names alone.
    fn any_part(&self, _: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        false
    }
}
