//! `field_names` and `facets` over columns: which fields the matching records have, and their values.
//!
//! A field is dropped from the facets once it has too many values, or one that is too long. So a column of identifiers
//! is looked at in few batches.

use super::filter::{ColumnFilter, LAYOUT, MESSAGE_START, NO_FIELDS, rows_with_layout};
use super::matching::{self, Made};
use super::place::TableVisitor;
use super::values::{ABSENT, ValueNumbers};
use crate::answer::field_list::{FieldQuestion, FoundField};
use crate::answer::item::{FullRecord, shown_name};
use daytable_model::key::instance_of;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_store::page::{PageHeader, PageSections};
use daytable_store::sealed::SealedFile;
use daytable_store::{BatchVisitor, ColumnBatch, RowsOf, StoreError};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Records that a thread keeps to be added one by one, before the caller reads rows instead.
const RECORDS_MAX: usize = 20_000;

/// Gathers the fields of the matching records of a table.
pub(super) struct FieldGathering<'q> {
    pub(super) columns: ColumnFilter,
    pub(super) question: FieldQuestion,
    pub(super) bytes_left: &'q AtomicUsize,
    pub(super) is_full: &'q AtomicBool,
    pub(super) is_elsewhere: AtomicBool,
}

/// The fields that one thread found.
#[derive(Default)]
pub(super) struct ThreadFields {
    pub(super) matched: u64,
    /// Records that columns do not describe.
    pub(super) records: Vec<FullRecord>,
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

impl TableVisitor for FieldGathering<'_> {
    fn columns(&self) -> &ColumnFilter {
        &self.columns
    }

    fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed)
    }
}

impl BatchVisitor for FieldGathering<'_> {
    type State = ThreadFields;

    fn start(&self) -> ThreadFields {
        ThreadFields::default()
    }

    fn wants(&self, rows: RowsOf<'_>, header: Option<&PageHeader>) -> bool {
        self.columns.wants(rows, header)
    }

    fn wants_page(&self, page: &PageSections<'_>) -> bool {
        self.columns.wants_page(page)
    }

    fn wants_group(&self, file: &SealedFile, group: usize) -> Result<bool, StoreError> {
        self.columns.wants_group(file, group)
    }

    fn visit(&self, state: &mut ThreadFields, batch: &ColumnBatch) -> Result<ControlFlow<()>, StoreError> {
        let Some((mut rows, _)) = matching::decide(&self.columns, batch, batch.records())? else {
            return Ok(self.elsewhere());
        };
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        state.matched += rows.count() as u64;
        let mut spread = batch.spread()?;
        spread.keep(&rows);
        if !spread.is_empty() {
            let Made::Records(records) = matching::make(&self.columns, batch, &spread)? else {
                return Ok(self.elsewhere());
            };
            state.records.extend(records.into_iter().map(|(_, record)| record));
            rows.subtract(&spread);
            if state.records.len() > RECORDS_MAX {
                return Ok(self.elsewhere());
            }
        }
        self.add_keys(state, batch, &rows)?;
        for (number, (name, kind)) in batch.names()?.into_iter().enumerate() {
            let shown = match (name, kind) {
                ("Message", PropertyKind::String) => "message".into(),
                ("Source", PropertyKind::String) => "source".into(),
                named if NO_FIELDS.contains(&named) || LAYOUT.contains(&name) => continue,
                _ => shown_name(name),
            };
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

impl FieldGathering<'_> {
    fn elsewhere(&self) -> ControlFlow<()> {
        self.is_elsewhere.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    /// Adds time, level and instance.
    fn add_keys(&self, state: &mut ThreadFields, batch: &ColumnBatch, rows: &RowSet) -> Result<(), StoreError> {
        if self.question == FieldQuestion::Names {
            state.field("time").records += rows.count() as u64;
        }
        let mut levels = [0u64; 1 + Level::ALL.len()];
        batch.each_level(rows, |_, code| levels[usize::from(code)] += 1)?;
        for level in Level::ALL {
            let count = levels[usize::from(level.code())];
            if count > 0 {
                state.field("level").add_value(self.question, Property::String(level.name()), count);
            }
        }
        for (partition, of_partition) in batch.partitions() {
            let mut within = RowSet::none(batch.len());
            of_partition.clone().for_each(|row| within.insert(row));
            within.keep(rows);
            let (count, instance) = (within.count() as u64, instance_of(partition).0);
            if count > 0 && !instance.is_empty() {
                state.field("instance").add_value(self.question, Property::String(&instance), count);
            }
        }
        Ok(())
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
        state.bytes = state.bytes.max(bytes);
        let taken = self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(more));
        if taken.is_err() || self.is_full.load(Ordering::Relaxed) {
            self.is_full.store(true, Ordering::Relaxed);
            state.fields.values_mut().for_each(|field| field.values.is_frozen = true);
        }
    }
}

impl ThreadFields {
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
        if number == ABSENT || number == super::values::NO_NUMBER {
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
