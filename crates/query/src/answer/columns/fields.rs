//! `field_names` and `facets` over columns: which fields the matching records have, and their values.
//!
//! A field is dropped from the facets once it has too many values, or one that is too long. So a column of identifiers
//! is looked at in few batches.

use super::counted::{CountedFields, PageValueCounts};
use super::filter::{ColumnFilter, LAYOUT, MESSAGE_START, NO_FIELDS, rows_with_layout};
use super::kept::KeptRecords;
use super::matching::{self, Made};
use super::place::TableVisitor;
use super::value_numbers::{ABSENT, NO_NUMBER, ValueNumbers};
use crate::answer::field_list::{FieldQuestion, FoundField};
use crate::answer::item::shown_name;
use crate::entity::OwnedValue;
use daytable_model::key::instance_of;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_platform::budget::QuestionBudget;
use daytable_store::page::LevelNumbers;
use daytable_store::{
    ColumnBatch, ColumnTest, CountedRecords, CountedValues, Part, PartFilter, PartVisitor, StoreError,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Gathers the fields of the matching records of a table.
pub(super) struct FieldAggregation<'q> {
    pub(super) columns: ColumnFilter,
    pub(super) counted_fields: CountedFields,
    pub(super) question: FieldQuestion,
    pub(super) memory: &'q QuestionBudget,
    pub(super) is_full: &'q AtomicBool,
    pub(super) falls_back_to_rows: AtomicBool,
}

/// The fields that one thread found.
#[derive(Default)]
pub(super) struct ThreadFields {
    pub(super) matched: u64,
    /// Records that columns do not describe.
    pub(super) records: KeptRecords,
    fields: HashMap<String, FieldCounts, foldhash::fast::RandomState>,
    bytes: usize,
}

/// Records with a field, by value where values are asked.
#[derive(Default)]
struct FieldCounts {
    records: u64,
    values: ValueNumbers,
    counts: Vec<u64>,
    is_dropped: bool,
}

impl TableVisitor for FieldAggregation<'_> {
    fn columns(&self) -> &ColumnFilter {
        &self.columns
    }

    fn falls_back_to_rows(&self) -> bool {
        self.falls_back_to_rows.load(Ordering::Relaxed)
    }
}

impl PartVisitor for FieldAggregation<'_> {
    type State = ThreadFields;

    fn start(&self) -> ThreadFields {
        ThreadFields::default()
    }

    fn filter(&self) -> &dyn PartFilter {
        &self.columns
    }

    fn counted_columns(&self) -> Option<ColumnTest<'_>> {
        if self.question != FieldQuestion::Names {
            return self.counted_fields.columns();
        }
        let is_named = |name: &str, kind| shown_field(name, kind).is_some() || name == LAYOUT[0];
        Some(Box::new(move |name, kind| is_named(name, kind) || self.counted_fields.wants(name, kind)))
    }

    fn read(&self, state: &mut ThreadFields, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        part.take_values(|counted| {
            let Some(numbers) = PageValueCounts::of(&self.counted_fields, &counted) else { return false };
            let is_exact = counted.is_exact && self.question == FieldQuestion::Names;
            is_exact && self.add_names(state, &numbers, &counted) || !numbers.may_match(&self.columns)
        })?;
        let Some(batch) = &part.batch()? else { return Ok(ControlFlow::Continue(())) };
        let Some((mut rows, _)) = matching::decide(&self.columns, batch, batch.records())? else {
            return Ok(self.fall_back_to_rows());
        };
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        state.matched += rows.count() as u64;
        let mut spread = batch.spread()?;
        spread.keep(&rows);
        if !spread.is_empty() {
            let Made::Records(records) = matching::make(&self.columns, batch, &spread)? else {
                return Ok(self.fall_back_to_rows());
            };
            rows.subtract(&spread);
            if !state.records.add(records.into_iter().map(|(_, record)| record)) {
                return Ok(self.fall_back_to_rows());
            }
        }
        self.add_keys(state, batch, &rows)?;
        for (number, (name, kind)) in batch.names()?.into_iter().enumerate() {
            let Some(shown) = shown_field(name, kind) else { continue };
            let field = state.field(&shown);
            if field.is_dropped {
                continue;
            }
            let Some(column) = batch.column(number)? else { continue };
            if shown != "message" {
                field.add(self.question, |read, each| column.map(&rows, read, each), || column.filled(&rows).count());
                continue;
            }
            // The whole message of these is more than its column.
            let longer = rows_with_layout(batch, &rows, |layout| layout.contains(MESSAGE_START))?;
            let mut others = rows.clone();
            others.subtract(&longer);
            field.add(self.question, |read, each| column.map(&others, read, each), || column.filled(&others).count());
            self.add_messages(field, batch, &longer)?;
        }
        if !batch.names()?.contains(&("Message", PropertyKind::String)) {
            let longer = rows_with_layout(batch, &rows, |layout| layout.contains(MESSAGE_START))?;
            self.add_messages(state.field("message"), batch, &longer)?;
        }
        self.charge(state);
        Ok(ControlFlow::Continue(()))
    }
}

/// The name of the field whose values a column has; `None` if it has none of a field.
fn shown_field(name: &str, kind: PropertyKind) -> Option<String> {
    match (name, kind) {
        ("Message", PropertyKind::String) => Some("message".into()),
        ("Source", PropertyKind::String) => Some("source".into()),
        named if NO_FIELDS.contains(&named) || LAYOUT.contains(&name) => None,
        _ => Some(shown_name(name).into_owned()),
    }
}

impl FieldAggregation<'_> {
    /// Adds the names of a page's fields by its numbers. False, without any of them, if the numbers do not tell all.
    fn add_names(
        &self,
        state: &mut ThreadFields,
        numbers: &PageValueCounts<'_>,
        CountedRecords { rows, counted, .. }: &CountedRecords<'_>,
    ) -> bool {
        let Some(levels) = numbers.all_match(&self.columns) else { return false };
        let has_start = |value: &OwnedValue| matches!(value, OwnedValue::String(text) if text.contains(MESSAGE_START));
        // The whole message of such a record is more than its column.
        let is_longer = |column: CountedValues<'_>| {
            column.name() == LAYOUT[0] && column.groups().is_none_or(|mut of| of.any(|(value, ..)| has_start(value)))
        };
        if counted.columns().any(is_longer) {
            return false;
        }
        let records: u64 = levels.iter().sum();
        state.matched += records;
        self.add_key_numbers(state, &levels, rows.partition.into_iter().map(|partition| (partition, records)));
        for column in counted.columns() {
            if let Some(shown) = shown_field(column.name(), column.kind()) {
                state.field(&shown).records += column.filled();
            }
        }
        self.charge(state);
        true
    }

    fn fall_back_to_rows(&self) -> ControlFlow<()> {
        self.falls_back_to_rows.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    /// Adds time, level and instance.
    fn add_keys(&self, state: &mut ThreadFields, batch: &ColumnBatch, rows: &RowSet) -> Result<(), StoreError> {
        let mut levels = LevelNumbers::default();
        batch.each_level(rows, |_, code| levels[usize::from(code)] += 1)?;
        let (mut partitions, mut counts) = (Vec::new(), Vec::new());
        let read = |partition: &str| {
            partitions.push(partition.to_owned());
            partitions.len() - 1
        };
        batch.each_partition(rows, read, |_, partition| {
            counts.resize(counts.len().max(partition + 1), 0);
            counts[partition] += 1;
        });
        self.add_key_numbers(state, &levels, partitions.iter().map(String::as_str).zip(counts));
        Ok(())
    }

    fn add_key_numbers<'p>(
        &self,
        state: &mut ThreadFields,
        levels: &LevelNumbers,
        partitions: impl Iterator<Item = (&'p str, u64)>,
    ) {
        if self.question == FieldQuestion::Names {
            state.field("time").records += levels.iter().sum::<u64>();
        }
        for level in Level::ALL {
            let count = levels[usize::from(level.code())];
            if count > 0 {
                state.field("level").add_value(self.question, Property::String(level.name()), count);
            }
        }
        for (partition, count) in partitions {
            let instance = instance_of(partition).0;
            if count > 0 && !instance.is_empty() {
                state.field("instance").add_value(self.question, Property::String(&instance), count);
            }
        }
    }

    /// Adds the messages of records whose columns have a part of them.
    fn add_messages(&self, field: &mut FieldCounts, batch: &ColumnBatch, rows: &RowSet) -> Result<(), StoreError> {
        if rows.is_empty() || field.is_dropped {
            return Ok(());
        }
        let Made::Records(records) = matching::make(&self.columns, batch, rows)? else { return Ok(()) };
        for (_, record) in records {
            let message = &record.record().message;
            if !message.is_empty() {
                field.add_value(self.question, Property::String(message), 1);
            }
        }
        Ok(())
    }

    /// Takes the memory that the state grew by. Where there is no more, no values are added.
    fn charge(&self, state: &mut ThreadFields) {
        let bytes: usize = state.fields.values().map(|field| 128 + field.values.bytes() + 8 * field.counts.len()).sum();
        let more = bytes.saturating_sub(state.bytes);
        let charged = more == 0 || self.memory.charge(more, "values").is_ok();
        state.bytes += if charged { more } else { 0 };
        if !charged || self.is_full.load(Ordering::Relaxed) {
            self.is_full.store(true, Ordering::Relaxed);
            state.fields.values_mut().for_each(|field| field.values.is_frozen = true);
        }
    }
}

impl ThreadFields {
    /// The memory that was charged for it.
    pub(super) fn charged(&self) -> usize {
        self.bytes
    }

    fn field(&mut self, name: &str) -> &mut FieldCounts {
        if !self.fields.contains_key(name) {
            self.fields.insert(name.to_owned(), FieldCounts::default());
        }
        self.fields.entry(name.to_owned()).or_default()
    }

    /// Passes on what was found of each field.
    pub(super) fn finish(self, mut each: impl FnMut(&str, FoundField)) {
        for (name, field) in self.fields {
            if field.is_dropped {
                each(&name, FoundField::Dropped);
            } else if field.records > 0 {
                each(&name, FoundField::Present(field.records));
            }
            let counts = field.counts.iter().zip(0u32..).filter(|(count, _)| !field.is_dropped && **count > 0);
            for (count, number) in counts {
                if let Some(value) = field.values.value(number) {
                    each(&name, FoundField::Value(value, *count));
                }
            }
        }
    }
}

impl FieldCounts {
    fn add_value(&mut self, question: FieldQuestion, value: Property<'_>, records: u64) {
        let FieldQuestion::Values { values_max, length_max } = question else {
            self.records += records;
            return;
        };
        if self.is_dropped || value.text().len() as u64 > length_max {
            return self.drop_values();
        }
        let number = self.values.number(value);
        self.count(number, records);
        if self.values.distinct_min() as u64 > values_max {
            self.drop_values();
        }
    }

    fn count(&mut self, number: u32, records: u64) {
        // A value for which there is no memory is left out, and the answer says so.
        if number == ABSENT || number == NO_NUMBER {
            return;
        }
        let place = number as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += records;
    }

    /// Adds the values that `map` passes, or the number of those that are not empty.
    fn add(
        &mut self,
        question: FieldQuestion,
        map: impl FnOnce(&mut dyn FnMut(Property<'_>) -> u32, &mut dyn FnMut(usize, u32)),
        filled: impl FnOnce() -> usize,
    ) {
        let FieldQuestion::Values { values_max, length_max } = question else {
            self.records += filled() as u64;
            return;
        };
        let (mut is_long, mut found) = (false, Vec::new());
        let values = &mut self.values;
        let mut read = |value: Property<'_>| {
            if is_long || matches!(value, Property::String(text) if text.len() as u64 > length_max) {
                is_long = true;
                return ABSENT;
            }
            values.number(value)
        };
        map(&mut read, &mut |_, number| found.push(number));
        if is_long || self.values.distinct_min() as u64 > values_max {
            return self.drop_values();
        }
        found.into_iter().for_each(|number| self.count(number, 1));
    }

    fn drop_values(&mut self) {
        *self = FieldCounts { is_dropped: true, ..FieldCounts::default() };
    }
}
