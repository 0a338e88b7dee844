//! Rows that come together, by column: groups, as the pipes behind them look at them.
//!
//! A filter drops rows, `math` adds a column, and whoever orders or groups the rows reads the columns that it
//! needs. A row is made once it is kept or shown, and the values of a group are printed once somebody looks at them.

use super::item::AnswerRow;
use super::math::{MathExpression, NOT_A_NUMBER};
use super::spill::GroupSource;
use crate::entity::OwnedValue;
use daytable_logsql::number::Number;
use daytable_logsql::{FieldName, Fields};
use daytable_model::field_properties::first_property;
use daytable_model::property::Property;
use std::cell::OnceCell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// So many rows come together.
pub(super) const BATCH_ROWS: usize = 256;

/// Rows by column.
pub(super) struct RowBatch<'b> {
    /// The names of the columns, as a row without values.
    names: AnswerRow,
    columns: Vec<RowColumn>,
    groups: &'b dyn GroupSource,
    /// The group of each row.
    numbers: Vec<usize>,
    /// The values of the groups, once somebody looked at them.
    printed: OnceCell<Vec<Vec<Option<OwnedValue>>>>,
    /// The rows that are left.
    rows: Vec<usize>,
    /// Whether a filter may find a column by another name than its own.
    has_odd_names: bool,
}

/// Where the values of a column are.
enum RowColumn {
    /// The value of the group in this place.
    Group(usize),
    Values(Vec<Option<OwnedValue>>),
}

impl<'b> RowBatch<'b> {
    /// Groups with their numbers among all of them: `by` has the names of their values, and `columns` the
    /// columns behind these.
    pub(super) fn new(
        groups: &'b dyn GroupSource,
        numbers: Vec<usize>,
        by: &[Arc<str>],
        columns: Vec<(Arc<str>, Vec<Option<OwnedValue>>)>,
    ) -> RowBatch<'b> {
        let mut names = AnswerRow::default();
        let mut all: Vec<RowColumn> = (0..by.len()).map(RowColumn::Group).collect();
        by.iter().for_each(|name| names.push(name.clone(), None));
        for (name, values) in columns {
            names.push(name, None);
            all.push(RowColumn::Values(values));
        }
        let rows = (0..numbers.len()).collect();
        let has_odd_names = names.columns().iter().any(|(name, _)| is_odd(name));
        RowBatch { names, columns: all, groups, numbers, printed: OnceCell::new(), rows, has_odd_names }
    }

    /// The rows that are left.
    pub(super) fn rows(&self) -> impl Iterator<Item = BatchRow<'_>> {
        self.rows.iter().map(|row| BatchRow { batch: self, row: *row })
    }

    /// Drops rows. False if none is left.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&BatchRow<'_>) -> bool) -> bool {
        let mut rows = std::mem::take(&mut self.rows);
        rows.retain(|row| is_wanted(&BatchRow { batch: self, row: *row }));
        self.rows = rows;
        !self.rows.is_empty()
    }

    /// Computes a column.
    pub(super) fn compute(&mut self, expression: &MathExpression, name: &FieldName) {
        let numbers = |read: &FieldName| -> Vec<Number> {
            self.rows().map(|row| row.field(read).and_then(Number::of).unwrap_or(NOT_A_NUMBER)).collect()
        };
        let reads: Vec<Vec<Number>> = expression.reads().iter().map(numbers).collect();
        let reads: Vec<&[Number]> = reads.iter().map(Vec::as_slice).collect();
        let mut values = vec![None; self.numbers.len()];
        for (row, number) in self.rows.iter().zip(expression.values(self.rows.len(), &reads)) {
            values[*row] = Some(number.as_property().into());
        }
        match self.names.position_of(name) {
            Some(at) => self.columns[at] = RowColumn::Values(values),
            None => {
                self.has_odd_names |= is_odd(name.written());
                self.names.push(name.written().into(), None);
                self.columns.push(RowColumn::Values(values));
            }
        }
    }

    /// Passes the rows on, until `each` breaks.
    pub(super) fn each_row(&self, mut each: impl FnMut(AnswerRow) -> ControlFlow<()>) -> ControlFlow<()> {
        self.rows().try_for_each(|row| each(row.to_row()))
    }

    fn value(&self, row: usize, column: usize) -> Option<Property<'_>> {
        let value = match self.columns.get(column)? {
            RowColumn::Values(values) => &values[row],
            RowColumn::Group(at) => {
                let printed = self
                    .printed
                    .get_or_init(|| self.numbers.iter().map(|number| self.groups.values(*number)).collect());
                &printed[row][*at]
            }
        };
        value.as_ref().map(OwnedValue::as_property)
    }
}

/// Whether a column may be what a filter asks for by another name: a later field of that name, or letters in a code.
fn is_odd(name: &str) -> bool {
    first_property(name).is_some() || !name.is_ascii() || name.contains("_u")
}

/// A row of a batch.
pub(super) struct BatchRow<'r> {
    batch: &'r RowBatch<'r>,
    row: usize,
}

impl BatchRow<'_> {
    /// The values of the first columns.
    pub(super) fn first_values(&self, count: usize) -> impl Iterator<Item = Option<Property<'_>>> + Clone {
        (0..count).map(|column| self.batch.value(self.row, column))
    }

    /// The row by itself.
    pub(super) fn to_row(&self) -> AnswerRow {
        let BatchRow { batch, row } = self;
        let mut group = match batch.printed.get() {
            Some(printed) => printed[*row].clone(),
            None => batch.groups.values(batch.numbers[*row]),
        };
        let mut made = AnswerRow::default();
        for ((name, _), column) in batch.names.columns().iter().zip(&batch.columns) {
            let value = match column {
                RowColumn::Group(at) => group[*at].take(),
                RowColumn::Values(values) => values[*row].clone(),
            };
            made.push(name.clone(), value);
        }
        made
    }
}

impl Fields for BatchRow<'_> {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        self.batch.value(self.row, self.batch.names.position_of(name)?)
    }

    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        match self.batch.has_odd_names {
            true => self.to_row().any_value(name, test),
            false => test(self.field(name)),
        }
    }

    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        self.to_row().any_part(test)
    }
}
