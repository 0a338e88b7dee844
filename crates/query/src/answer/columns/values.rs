//! The values of a field in a batch.

use super::arrivals::Arrivals;
use super::computed_rows::ComputedRows;
use super::filter::{LAYOUT, MESSAGE_START, is_column_of, rows_with_layout};
use super::number_rows::NumberRows;
use super::value_numbers::ValueNumbers;
use daytable_logsql::query::ValueStep;
use daytable_logsql::{Column, FieldName};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::key::instance_of;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::STREAM;
use daytable_store::page::ValueReader;
use daytable_store::{BatchColumn, ColumnBatch, StoreError};
use std::sync::Arc;

/// Where the values of a field come from.
pub(super) enum Values<'b> {
    Time,
    Arrived(Arrivals<'b>),
    Level,
    Instance,
    Table(Arc<str>),
    /// Columns, and the rows of which the record has another value than they.
    Columns(Vec<BatchColumn<'b>>, RowSet),
    /// What pipes compute, and the number of the column among theirs.
    Computed(&'b ComputedRows, usize),
    /// Numbers that pipes compute, and the number of the column among theirs.
    Numbers(&'b NumberRows, usize),
}

/// Whether a column is read for the values of a field.
pub(super) fn is_value_of(field: &FieldName, name: &str, kind: PropertyKind) -> bool {
    match field.column() {
        Column::Time | Column::Level | Column::Instance | Column::Table => false,
        Column::Stream => (name, kind) == (STREAM, PropertyKind::String),
        Column::Message | Column::Line | Column::Anywhere => {
            kind == PropertyKind::String && (name == "Message" || LAYOUT.contains(&name))
        }
        Column::Field | Column::Source | Column::Arrived => is_column_of(field, name, kind),
    }
}

/// Whether a column has values of some fields, or shows that only the record has them.
pub(super) fn is_needed_for<'f>(
    mut fields: impl Iterator<Item = &'f FieldName>,
    name: &str,
    kind: PropertyKind,
) -> bool {
    MULTI_ROW_PROPERTIES.contains(&(name, kind)) || fields.any(|field| is_value_of(field, name, kind))
}

/// Those of some rows in which only the record has the value of one of the fields.
pub(super) fn open_rows<'f>(
    fields: impl Iterator<Item = &'f FieldName>,
    batch: &ColumnBatch,
    table: &Arc<str>,
    rows: &RowSet,
) -> Result<RowSet, StoreError> {
    let mut open = batch.spread()?;
    for field in fields {
        if let Some(of_field) = Values::of(field, batch, table)?.open() {
            open.add(of_field);
        }
    }
    open.keep(rows);
    Ok(open)
}

impl<'b> Values<'b> {
    /// The values of a field.
    pub(super) fn of(field: &FieldName, batch: &'b ColumnBatch, table: &Arc<str>) -> Result<Values<'b>, StoreError> {
        let mut open = RowSet::none(batch.len());
        let columns = match field.column() {
            Column::Time => return Ok(Values::Time),
            Column::Arrived => return Ok(Values::Arrived(Arrivals::of(batch)?)),
            Column::Level => return Ok(Values::Level),
            Column::Instance => return Ok(Values::Instance),
            Column::Table => return Ok(Values::Table(table.clone())),
            Column::Stream => batch.columns(|name, kind| (name, kind) == (STREAM, PropertyKind::String))?,
            Column::Message | Column::Line | Column::Anywhere => {
                let all = RowSet::all(batch.len());
                open = rows_with_layout(batch, &all, |layout| layout.contains(MESSAGE_START))?;
                batch.columns(|name, kind| (name, kind) == ("Message", PropertyKind::String))?
            }
            Column::Field | Column::Source => batch.columns(|name, kind| is_column_of(field, name, kind))?,
        };
        let mut present = RowSet::none(batch.len());
        if columns.len() > 1 {
            for column in &columns {
                let of_column = column.present();
                let mut twice = of_column.clone();
                twice.keep(&present);
                open.add(&twice);
                present.add(&of_column);
            }
        }
        Ok(Values::Columns(columns, open))
    }

    /// The rows whose value only the record has.
    pub(super) fn open(&self) -> Option<&RowSet> {
        match self {
            Values::Columns(_, open) => Some(open),
            _ => None,
        }
    }

    /// Passes on what `reader` makes of the values of some rows, once a value where there are few. False, without any, if columns
    /// do not have them.
    pub(super) fn read<T: Copy>(
        &self,
        rows: &RowSet,
        reader: &mut impl ValueReader<T>,
        mut each: impl FnMut(usize, T),
    ) -> bool {
        let Values::Columns(columns, _) = self else { return false };
        columns.iter().for_each(|column| column.read(rows, reader, &mut each));
        true
    }

    /// Passes on the numbers of the values of some rows, or of the steps that they are in.
    pub(super) fn each_number(
        &self,
        batch: &ColumnBatch,
        rows: &RowSet,
        numbers: &mut ValueNumbers,
        step: Option<&ValueStep>,
        mut each: impl FnMut(usize, u32),
    ) -> Result<(), StoreError> {
        if step.is_none() && self.read(rows, numbers, &mut each) {
            return Ok(());
        }
        match (self, step) {
            (Values::Computed(computed, column), None) => {
                computed.each_number(*column, rows, numbers, each);
                Ok(())
            }
            _ => self.each(batch, rows, |value| numbers.step_number(value, step), each),
        }
    }

    /// Passes the whole numbers of some rows on, and for other values what `read` makes of them.
    pub(super) fn each_whole<T: Copy>(
        &self,
        batch: &ColumnBatch,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, Result<i64, T>),
    ) -> Result<(), StoreError> {
        let columns = match self {
            Values::Columns(columns, _) => columns,
            Values::Numbers(numbers, column) => {
                numbers.each_whole(*column, rows, read, each);
                return Ok(());
            }
            _ => return self.each(batch, rows, read, |row, value| each(row, Err(value))),
        };
        for column in columns {
            if !column.each_whole(rows, |row, number| each(row, Ok(number))) {
                column.map(rows, &mut read, |row, value| each(row, Err(value)));
            }
        }
        Ok(())
    }

    /// Applies `read` to the values of some rows, once a value where there are few, and passes the results on.
    pub(super) fn each<T: Copy>(
        &self,
        batch: &ColumnBatch,
        rows: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) -> Result<(), StoreError> {
        match self {
            Values::Time => batch.each_time(rows, |row, time| each(row, read(Property::DateTime(time)))),
            Values::Arrived(arrivals) => arrivals.each(batch, rows, read, each),
            Values::Level => {
                let mut known: [Option<T>; 1 + Level::ALL.len()] = [None; 1 + Level::ALL.len()];
                batch.each_level(rows, |row, code| {
                    let Some(level) = Level::from_code(code) else { return };
                    let place = &mut known[usize::from(code)];
                    each(row, *place.get_or_insert_with(|| read(Property::String(level.name()))));
                })
            }
            Values::Instance => {
                let read = |partition: &str| read(Property::String(&instance_of(partition).0));
                batch.each_partition(rows, read, each);
                Ok(())
            }
            Values::Table(table) => {
                let value = read(Property::String(table));
                rows.iter().for_each(|row| each(row, value));
                Ok(())
            }
            Values::Columns(columns, _) => {
                columns.iter().for_each(|column| column.map(rows, &mut read, &mut each));
                Ok(())
            }
            Values::Computed(computed, column) => {
                computed.each(*column, rows, read, each);
                Ok(())
            }
            Values::Numbers(numbers, column) => {
                numbers.each(*column, rows, read, each);
                Ok(())
            }
        }
    }
}
