//! The states of a function, by group.

use super::fields_by_row::FieldsByRow;
use super::group_extremes::Extremes;
use super::group_others::Others;
use super::group_quantiles::Quantiles;
use super::group_sums::Sums;
use super::group_uniq::DifferentValues;
use super::value_numbers::{ABSENT, NO_NUMBER, ValueNumbers};
use super::values::Values;
use crate::answer::accumulator::{Accumulator, EachField, measured_number, plain_number, uniq_hash};
use crate::answer::item::RecordPlace;
use daytable_logsql::Fields;
use daytable_logsql::number::Number;
use daytable_logsql::query::{Aggregate, Function};
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_store::{ColumnBatch, StoreError};

/// The states of one function, by group.
pub(super) enum States {
    Counts(Vec<u64>),
    Sums(Sums),
    Extremes(Extremes),
    Quantiles(Box<Quantiles>),
    Uniq(DifferentValues),
    Others(Others),
}

/// A value that may be the least or the greatest, and is no whole number.
#[derive(Clone, Copy)]
enum ExtremeValue {
    Float(f64),
    Time(Ticks),
    Other(u32),
}

impl States {
    pub(super) fn new(aggregate: &Aggregate) -> States {
        let function = aggregate.function;
        match function {
            Function::Count | Function::Rate | Function::CountEmpty | Function::SumLength => States::Counts(Vec::new()),
            Function::Sum | Function::Avg | Function::RateSum => States::Sums(Sums::default()),
            Function::Min | Function::Max => States::Extremes(Extremes::new(function)),
            Function::Quantile(_) => States::Quantiles(Box::default()),
            Function::CountUniq => States::Uniq(DifferentValues::default()),
            Function::Values | Function::UniqValues => States::Others(Others::new(function)),
            Function::Any | Function::First | Function::Last => States::Others(Others::new(function)),
            Function::RowAny | Function::RowMin | Function::RowMax => States::Others(Others::new(function)),
        }
    }

    /// States of the same function without groups.
    pub(super) fn empty(&self) -> States {
        match self {
            States::Counts(_) => States::Counts(Vec::new()),
            States::Sums(_) => States::Sums(Sums::default()),
            States::Extremes(extremes) => States::Extremes(extremes.empty()),
            States::Quantiles(_) => States::Quantiles(Box::default()),
            States::Uniq(_) => States::Uniq(DifferentValues::default()),
            States::Others(others) => States::Others(others.empty()),
        }
    }

    pub(super) fn resize(&mut self, groups: usize) {
        match self {
            States::Counts(counts) => counts.resize(groups, 0),
            States::Sums(sums) => sums.resize(groups),
            States::Extremes(extremes) => extremes.resize(groups),
            States::Uniq(different) => different.resize(groups),
            States::Quantiles(quantiles) => quantiles.resize(groups),
            States::Others(others) => others.resize(groups),
        }
    }

    /// Forgets all groups, and keeps the memory for others where it is of one piece.
    pub(super) fn reset(&mut self) {
        match self {
            States::Counts(counts) => counts.clear(),
            States::Sums(sums) => sums.clear(),
            States::Extremes(extremes) => extremes.clear(),
            States::Quantiles(_) | States::Uniq(_) | States::Others(_) => *self = self.empty(),
        }
    }

    /// Whether it keeps the different values of groups.
    pub(super) fn has_uniq(&self) -> bool {
        matches!(self, States::Uniq(_))
    }

    /// How many different values of groups it keeps.
    pub(super) fn different_values(&self) -> usize {
        match self {
            States::Uniq(different) => different.values(),
            _ => 0,
        }
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            States::Uniq(different) => different.bytes(),
            States::Quantiles(quantiles) => quantiles.bytes(),
            States::Counts(counts) => 8 * counts.capacity(),
            States::Sums(sums) => sums.bytes(),
            States::Extremes(extremes) => extremes.bytes(),
            States::Others(others) => others.bytes(),
        }
    }

    /// The memory that values of this many rows may take at once, where a table of them has to grow.
    pub(super) fn growth(&self, rows: usize) -> usize {
        match self {
            States::Uniq(different) => different.growth(rows),
            _ => 0,
        }
    }

    /// Adds the states of other groups, each to the group here that `groups` has for it.
    pub(super) fn merge(&mut self, other: &mut States, groups: &[u32]) {
        let group = |of: &u32| Some(*of as usize).filter(|_| *of != NO_NUMBER);
        match (self, other) {
            (States::Counts(counts), States::Counts(more)) => {
                for (of, more) in groups.iter().zip(more) {
                    group(of).into_iter().for_each(|of| counts[of] += *more);
                }
            }
            (States::Sums(sums), States::Sums(more)) => sums.merge(more, groups),
            (States::Extremes(extremes), States::Extremes(more)) => extremes.merge(more, groups),
            (States::Quantiles(quantiles), States::Quantiles(more)) => quantiles.merge(more, groups),
            (States::Others(others), States::Others(more)) => others.merge(more, |of| group(&groups[of])),
            (States::Uniq(different), States::Uniq(more)) => different.merge(more, groups),
            // A function has states of one kind.
            _ => {}
        }
    }

    /// The state of a group, which is left empty.
    pub(super) fn take(&mut self, group: usize) -> Accumulator {
        match self {
            States::Counts(counts) => Accumulator::Count(counts[group]),
            States::Sums(sums) => Accumulator::Sum(sums.sum(group)),
            States::Extremes(extremes) => Accumulator::Extreme(extremes.take(group)),
            States::Uniq(different) => Accumulator::Uniq(different.take(group)),
            States::Quantiles(quantiles) => quantiles.take(group),
            States::Others(others) => others.take(group),
        }
    }

    /// Adds the values of some rows to the states of their groups: [`NO_NUMBER`] of a row without one.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        batch: &ColumnBatch,
        fields: &[Values<'_>],
        rows: &RowSet,
        groups: &[u32],
    ) -> Result<(), StoreError> {
        let group = |row: usize| Some(groups[row] as usize).filter(|_| groups[row] != NO_NUMBER);
        let values = match (&mut *self, fields) {
            (States::Counts(counts), []) => {
                rows.for_each(|row| {
                    if let Some(count) = counts.get_mut(groups[row] as usize) {
                        *count += 1;
                    }
                });
                return Ok(());
            }
            (States::Others(others), _) => return others.add(aggregate, batch, fields, rows, group),
            (_, [values]) => values,
            _ => {
                let columns = FieldsByRow::read(&aggregate.fields, fields, batch, rows)?;
                for (row, group) in rows.iter().filter_map(|row| Some((row, group(row)?))) {
                    self.add_row(group, aggregate, &columns.row(row, None), None, &|_| ());
                }
                return Ok(());
            }
        };
        match self {
            States::Counts(counts) => match aggregate.function {
                Function::SumLength => values.each(
                    batch,
                    rows,
                    |value| value.text().len() as u64,
                    |row, length| {
                        group(row).into_iter().for_each(|group| counts[group] += length);
                    },
                ),
                function => {
                    let mut present = RowSet::none(batch.len());
                    values.each(
                        batch,
                        rows,
                        |value| value != Property::String(""),
                        |row, is_present| {
                            if is_present {
                                present.insert(row);
                            }
                        },
                    )?;
                    if function == Function::CountEmpty {
                        present = present.inverse();
                        present.keep(rows);
                    }
                    present.iter().filter_map(group).for_each(|group| counts[group] += 1);
                    Ok(())
                }
            },
            States::Sums(sums) => values.each_whole(batch, rows, plain_number, |row, number| {
                let number = number.map_or_else(|other| other, |whole| Some(Number::Whole(whole)));
                if let (Some(number), Some(group)) = (number, group(row)) {
                    sums.add(group, number);
                }
            }),
            States::Uniq(different) => {
                let hash = |value: Property<'_>| {
                    (value != Property::String("")).then(|| uniq_hash(std::iter::once(Some(&*value.text()))))
                };
                values.each(batch, rows, hash, |row, hash| {
                    if let (Some(hash), Some(group)) = (hash, group(row)) {
                        different.add(group, hash, aggregate.limit);
                    }
                })
            }
            // All their fields are added together.
            States::Others(_) => Ok(()),
            States::Extremes(extremes) => {
                let mut others = ValueNumbers::default();
                let mut found = Vec::new();
                let read = |value: Property<'_>| match value {
                    Property::Double(n) => ExtremeValue::Float(n),
                    Property::DateTime(time) => ExtremeValue::Time(time),
                    other => ExtremeValue::Other(others.number(other)),
                };
                values.each_whole(batch, rows, read, |row, value| match (value, group(row)) {
                    (Ok(n), Some(group)) => extremes.add_whole(group, n),
                    (Err(ExtremeValue::Float(n)), Some(group)) => extremes.add(group, Property::Double(n)),
                    (Err(ExtremeValue::Time(time)), Some(group)) => extremes.add(group, Property::DateTime(time)),
                    (Err(ExtremeValue::Other(number)), Some(group)) if number != ABSENT => found.push((group, number)),
                    _ => {}
                })?;
                found.dedup();
                for (group, number) in found {
                    if let Some(value) = others.value(number) {
                        extremes.add(group, value.as_property());
                    }
                }
                Ok(())
            }
            States::Quantiles(quantiles) => {
                values.each_whole(batch, rows, measured_number, |row, value| match (value, group(row)) {
                    (Ok(whole), Some(group)) => quantiles.add_whole(group, whole),
                    (Err(Some((number, is_duration))), Some(group)) => quantiles.add(group, number, is_duration),
                    _ => {}
                })
            }
        }
    }

    /// Adds a row to the state of a group. Whoever knows the [place](RecordPlace) and all fields of the row's record tells them.
    pub(super) fn add_row(
        &mut self,
        group: usize,
        aggregate: &Aggregate,
        row: &impl Fields,
        place: Option<RecordPlace<'_>>,
        each_field: EachField<'_>,
    ) {
        let fields = &aggregate.fields;
        let values = || fields.iter().filter_map(|field| row.field(field));
        let is_present = |value: &Property<'_>| *value != Property::String("");
        let has_value = || values().any(|value| is_present(&value));
        match self {
            States::Counts(counts) => {
                counts[group] += match aggregate.function {
                    Function::CountEmpty => u64::from(!has_value()),
                    Function::SumLength => values().map(|value| value.text().len() as u64).sum(),
                    _ => u64::from(fields.is_empty() || has_value()),
                }
            }
            States::Sums(sums) => values().filter_map(plain_number).for_each(|number| sums.add(group, number)),
            States::Extremes(extremes) => values().filter(is_present).for_each(|value| extremes.add(group, value)),
            States::Quantiles(quantiles) => values()
                .filter_map(measured_number)
                .for_each(|(number, is_duration)| quantiles.add(group, number, is_duration)),
            States::Uniq(different) => {
                if has_value() {
                    let texts: Vec<_> = fields.iter().map(|field| row.field(field).map(Property::text)).collect();
                    different.add(group, uniq_hash(texts.iter().map(Option::as_deref)), aggregate.limit);
                }
            }
            States::Others(others) => others.add_row(group, aggregate, row, place, each_field),
        }
    }
}
