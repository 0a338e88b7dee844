//! The states of a function, by group.

use super::fields_by_row::FieldsByRow;
use super::group_extremes::Extremes;
use super::group_others::Others;
use super::group_quantiles::Quantiles;
use super::group_sums::Sums;
use super::value_numbers::{ABSENT, NO_NUMBER, ValueNumbers};
use super::values::Values;
use crate::answer::accumulator::{Accumulator, UniqHashes, measured_number, plain_number, uniq_bytes, uniq_hash};
use daytable_logsql::number::Number;
use daytable_logsql::query::{Aggregate, Function};
use daytable_model::property::Property;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_store::{ColumnBatch, StoreError};
use std::collections::HashSet;

/// The states of one function, by group.
pub(super) enum States {
    Counts(Vec<u64>),
    Sums(Sums),
    Extremes(Extremes),
    Quantiles(Box<Quantiles>),
    Uniq(Vec<UniqHashes>),
    Others(Others),
}

/// Different values whose table takes a megabyte. Where tables are small, few of many become full at once.
const LARGE_TABLE: usize = 50_000;

/// A value that may be the least or the greatest, and is no whole number.
#[derive(Clone, Copy)]
enum ExtremeValue {
    Float(f64),
    Time(Ticks),
    Other(u32),
}

impl States {
    pub(super) fn new(aggregate: &Aggregate) -> States {
        let (function, is_one) = (aggregate.function, aggregate.fields.len() == 1);
        match function {
            Function::Sum | Function::Avg | Function::RateSum if is_one => States::Sums(Sums::default()),
            Function::Min | Function::Max if is_one => States::Extremes(Extremes::new(function)),
            Function::Quantile(_) if is_one => States::Quantiles(Box::default()),
            Function::CountUniq => States::Uniq(Vec::new()),
            Function::Count | Function::Rate if aggregate.fields.is_empty() => States::Counts(Vec::new()),
            Function::Count | Function::Rate | Function::CountEmpty | Function::SumLength if is_one => {
                States::Counts(Vec::new())
            }
            _ => States::Others(Others::new(function)),
        }
    }

    /// States of the same function without groups.
    pub(super) fn empty(&self) -> States {
        match self {
            States::Counts(_) => States::Counts(Vec::new()),
            States::Sums(_) => States::Sums(Sums::default()),
            States::Extremes(extremes) => States::Extremes(extremes.empty()),
            States::Quantiles(_) => States::Quantiles(Box::default()),
            States::Uniq(_) => States::Uniq(Vec::new()),
            States::Others(others) => States::Others(others.empty()),
        }
    }

    pub(super) fn resize(&mut self, groups: usize) {
        match self {
            States::Counts(counts) => counts.resize(groups, 0),
            States::Sums(sums) => sums.resize(groups),
            States::Extremes(extremes) => extremes.resize(groups),
            States::Uniq(hashes) => hashes.resize_with(groups, UniqHashes::default),
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
            States::Uniq(hashes) => hashes.iter().map(HashSet::len).sum(),
            _ => 0,
        }
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            States::Uniq(hashes) => hashes.iter().map(uniq_bytes).sum(),
            States::Quantiles(quantiles) => quantiles.bytes(),
            States::Counts(counts) => 8 * counts.capacity(),
            States::Sums(sums) => sums.bytes(),
            States::Extremes(extremes) => extremes.bytes(),
            States::Others(others) => others.bytes(),
        }
    }

    /// The memory that values of this many rows may take at once: a table that becomes full is copied to one twice as large.
    pub(super) fn growth(&self, rows: usize) -> usize {
        let may_be_full = |hashes: &&UniqHashes| hashes.len() > LARGE_TABLE && hashes.capacity() - hashes.len() < rows;
        match self {
            States::Uniq(hashes) => hashes.iter().filter(may_be_full).map(|hashes| 2 * uniq_bytes(hashes)).sum(),
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
            (States::Uniq(hashes), States::Uniq(more)) => {
                for (of, more) in groups.iter().zip(more) {
                    let Some(of) = group(of) else { continue };
                    let mut more = std::mem::take(more);
                    if hashes[of].len() < more.len() {
                        std::mem::swap(&mut hashes[of], &mut more);
                    }
                    hashes[of].extend(more);
                }
            }
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
            States::Uniq(hashes) => Accumulator::Uniq(std::mem::take(&mut hashes[group])),
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
        let Some(values) = fields.first() else {
            if let States::Counts(counts) = self {
                rows.for_each(|row| {
                    if let Some(count) = counts.get_mut(groups[row] as usize) {
                        *count += 1;
                    }
                });
            }
            return Ok(());
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
            States::Others(others) => others.add(aggregate, batch, fields, rows, group),
            States::Uniq(hashes) if fields.len() > 1 => {
                let columns = FieldsByRow::read(&aggregate.fields, fields, batch, rows)?;
                for (row, group) in rows.iter().filter_map(|row| Some((row, group(row)?))) {
                    let text = |column| columns.value(column, row).map(|value| value.as_property().text());
                    let texts: Vec<_> = (0..fields.len()).map(text).collect();
                    let is_wanted = is_below_limit(&hashes[group], aggregate);
                    if is_wanted && texts.iter().flatten().any(|text| !text.is_empty()) {
                        hashes[group].insert(uniq_hash(texts.iter().map(Option::as_deref)));
                    }
                }
                Ok(())
            }
            States::Uniq(hashes) => {
                let hash = |value: Property<'_>| {
                    (value != Property::String("")).then(|| uniq_hash(std::iter::once(Some(&*value.text()))))
                };
                values.each(batch, rows, hash, |row, hash| {
                    if let (Some(hash), Some(group)) = (hash, group(row))
                        && is_below_limit(&hashes[group], aggregate)
                    {
                        hashes[group].insert(hash);
                    }
                })
            }
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
}

/// Whether further different values are counted.
fn is_below_limit(hashes: &UniqHashes, aggregate: &Aggregate) -> bool {
    aggregate.limit.is_none_or(|limit| (hashes.len() as u64) < limit)
}
