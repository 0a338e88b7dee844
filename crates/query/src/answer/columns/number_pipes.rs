//! Numbers that `math` computes for the rows of a batch, from the numbers that columns have there.
//!
//! No value is printed, looked up or remembered: a column whose values all differ costs what its numbers cost.

use super::number_rows::NumberRows;
use super::values::Values;
use crate::answer::math::{MathExpression, NOT_A_NUMBER};
use daytable_logsql::effect::fields_of;
use daytable_logsql::number::Number;
use daytable_logsql::{Expression, FieldName, Fields, Pipe, Predicate};
use daytable_model::field_properties::first_property;
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_store::{ColumnBatch, StoreError};
use std::sync::Arc;

/// Pipes that compute numbers from numbers, and a filter that looks at these.
pub(super) struct NumberPipes {
    inputs: Vec<FieldName>,
    /// What is computed, one after the other: the places of what it reads, among the inputs and what was
    /// computed before.
    expressions: Vec<(MathExpression, Vec<usize>)>,
    /// The columns that are computed, by their places.
    filter: Option<(Predicate, Vec<(FieldName, usize)>)>,
    /// The places of the columns that are wanted.
    outputs: Vec<usize>,
}

impl NumberPipes {
    /// Prepares pipes. `None` if other pipes are among them, or a filter looks at something else than what
    /// they compute.
    pub(super) fn new<'p>(
        pipes: impl Iterator<Item = &'p Pipe>,
        filter: Option<&Expression>,
        inputs: &[FieldName],
        outputs: &[FieldName],
        now: Ticks,
    ) -> Option<NumberPipes> {
        let mut names = inputs.to_vec();
        let place =
            |names: &[FieldName], wanted: &FieldName| names.iter().rposition(|name| name.written() == wanted.written());
        let mut expressions = Vec::new();
        for pipe in pipes {
            let Pipe::Math(columns) = pipe else { return None };
            for (expression, name) in columns {
                let expression = MathExpression::new(expression, now);
                let reads = expression.reads().iter().map(|read| place(&names, read)).collect::<Option<_>>()?;
                expressions.push((expression, reads));
                names.push(name.clone());
            }
        }
        // A filter of a name also finds the later fields of that name.
        if names.iter().any(|name| first_property(name.written()).is_some()) {
            return None;
        }
        let computed = |name: &FieldName| place(&names, name).filter(|place| *place >= inputs.len());
        let filter = match filter {
            Some(filter) => {
                let fields = fields_of(filter);
                let places = fields.iter().map(computed).collect::<Option<Vec<_>>>()?;
                Some((Predicate::new(filter, now), fields.into_iter().zip(places).collect()))
            }
            None => None,
        };
        let outputs = outputs.iter().map(computed).collect::<Option<_>>()?;
        Some(NumberPipes { inputs: inputs.to_vec(), expressions, filter, outputs })
    }

    /// Computes the columns for some rows.
    pub(super) fn compute(
        &self,
        batch: &ColumnBatch,
        table: &Arc<str>,
        rows: &RowSet,
    ) -> Result<NumberRows, StoreError> {
        let (mut places, mut count) = (vec![0u32; batch.len()], 0u32);
        rows.for_each(|row| {
            places[row] = count;
            count += 1;
        });
        let count = count as usize;
        let mut columns: Vec<Vec<Number>> = Vec::with_capacity(self.inputs.len() + self.expressions.len());
        for input in &self.inputs {
            let mut numbers = vec![NOT_A_NUMBER; count];
            let values = Values::of(input, batch, table)?;
            values.each_whole(batch, rows, Number::of, |row, number| {
                numbers[places[row] as usize] =
                    number.map_or_else(|other| other.unwrap_or(NOT_A_NUMBER), Number::Whole);
            })?;
            columns.push(numbers);
        }
        for (expression, reads) in &self.expressions {
            let reads: Vec<&[Number]> = reads.iter().map(|place| &*columns[*place]).collect();
            columns.push(expression.values(count, &reads));
        }
        let mut dropped = RowSet::none(batch.len());
        if let Some((filter, fields)) = &self.filter {
            rows.for_each(|row| {
                if !filter.matches(&NumberRow { fields, columns: &columns, place: places[row] as usize }) {
                    dropped.insert(row);
                }
            });
        }
        let columns = self.outputs.iter().map(|output| columns[*output].clone()).collect();
        Ok(NumberRows { places, columns, dropped })
    }
}

/// A row of numbers, as a filter sees it.
struct NumberRow<'r> {
    fields: &'r [(FieldName, usize)],
    columns: &'r [Vec<Number>],
    place: usize,
}

impl Fields for NumberRow<'_> {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        let (_, column) = self.fields.iter().find(|(known, _)| known.written() == name.written())?;
        Some(self.columns[*column][self.place].as_property())
    }

    fn any_part(&self, _test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        // A bare word is looked for in columns that are no numbers, too, so no such filter comes here.
        false
    }
}
