//! The records of a batch that match, made where columns cannot decide or where they are shown.

use super::filter::{ColumnFilter, NO_FIELDS, TernaryRows, is_column_of};
use crate::answer::item::{FullRecord, value_bytes};
use crate::entity::{Joiner, OwnedRow, OwnedValue};
use crate::record::{StoredRecord, with_layout};
use daytable_logsql::{Column, FieldName, Fields, passes_as_read, passes_as_value};
use daytable_model::arrival::ARRIVED;
use daytable_model::key::{RowKey, instance_of};
use daytable_model::line::{LAYOUT, RowParts, VERBATIM};
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::STREAM;
use daytable_model::time::Ticks;
use daytable_store::{ColumnBatch, StoreError};
use std::cell::OnceCell;
use std::sync::Arc;

/// The records of some rows. A record of several rows that are not all in the batch cannot be made: then the caller
/// reads rows.
pub(super) enum Made {
    /// The number of its row, and the record.
    Records(Vec<(usize, FullRecord)>),
    /// A row of a record is elsewhere.
    Elsewhere,
}

/// Makes the records of some rows.
pub(super) fn make(filter: &ColumnFilter, batch: &ColumnBatch, wanted: &RowSet) -> Result<Made, StoreError> {
    let record = |entity| FullRecord::new(StoredRecord::new(filter.table().clone(), entity));
    let mut made = Vec::with_capacity(wanted.count());
    for (number, row) in wanted.iter().zip(batch.rows(wanted)?) {
        let master = OwnedRow::of(&row);
        let items = master.items();
        if items == 0 {
            made.push((number, record(master)));
            continue;
        }
        // Items follow their master.
        let mut rows = RowSet::none(batch.len());
        (number + 1..batch.len().min(number + 1 + items)).for_each(|row| rows.insert(row));
        let mut joiner = Joiner::default();
        let mut whole = joiner.push(master);
        for item in batch
            .rows(&rows)?
            .iter()
            .filter(|item| item.key().with_item(0) == row.key() && item.partition == row.partition)
        {
            whole = joiner.push(OwnedRow::of(item)).or(whole);
        }
        match whole {
            Some(entity) => made.push((number, record(entity))),
            None => return Ok(Made::Elsewhere),
        }
    }
    Ok(Made::Records(made))
}

/// Some fields of records that are rows of one batch. A value that rows share is there once.
struct FieldRows(Vec<FieldColumn>);

struct FieldColumn {
    name: String,
    values: Vec<OwnedValue>,
    /// The number of the value of each row; [`ABSENT`] for a row without one.
    of_rows: Vec<u32>,
}

/// Marks a row without a value.
const ABSENT: u32 = u32::MAX;

/// Some fields of a record, which become a row when it is passed on.
pub(super) struct FieldRow {
    pub(super) key: RowKey,
    pub(super) partition: Arc<str>,
    level: Option<Level>,
    fields: Arc<FieldRows>,
    row: usize,
}

impl FieldRow {
    /// The row.
    pub(super) fn into_row(self) -> OwnedRow {
        let value = |column: &FieldColumn| {
            let number = *column.of_rows.get(self.row)?;
            let value = column.values.get(usize::try_from(number).ok()?)?;
            Some((column.name.clone(), value.clone()))
        };
        let properties = self.fields.0.iter().filter_map(value).collect();
        OwnedRow { partition: self.partition, key: self.key, level: self.level, properties }
    }
}

/// Some fields of some records that are of one row each, and their memory, about. Of these, columns are read, and nothing
/// else.
pub(super) fn make_rows(
    batch: &ColumnBatch,
    wanted: &RowSet,
    fields: &[FieldName],
) -> Result<(Vec<FieldRow>, usize), StoreError> {
    if let Some(narrow) = batch.narrowed(wanted) {
        return make_rows_of(&narrow, narrow.records(), fields);
    }
    make_rows_of(batch, wanted, fields)
}

fn make_rows_of(
    batch: &ColumnBatch,
    wanted: &RowSet,
    fields: &[FieldName],
) -> Result<(Vec<FieldRow>, usize), StoreError> {
    let mut at = vec![0; batch.len()];
    wanted.iter().enumerate().for_each(|(number, row)| at[row] = number);
    let count = wanted.count();
    let mut bytes = count * size_of::<FieldRow>();
    let mut columns = Vec::new();
    for column in batch.columns(|name, kind| fields.iter().any(|field| is_column_of(field, name, kind)))? {
        let (mut values, mut of_rows): (Vec<OwnedValue>, Vec<u32>) = (Vec::new(), vec![ABSENT; count]);
        let number = |value: Property<'_>| {
            let value = OwnedValue::from(value);
            bytes += size_of::<OwnedValue>() + value_bytes(&value);
            values.push(value);
            u32::try_from(values.len() - 1).unwrap_or(ABSENT)
        };
        column.map(wanted, number, |row, value| of_rows[at[row]] = value);
        bytes += count * size_of::<u32>();
        columns.push(FieldColumn { name: column.name().to_owned(), values, of_rows });
    }
    let (fields, keys) = (Arc::new(FieldRows(columns)), batch.keys()?);
    let mut names: Vec<Arc<str>> = Vec::new();
    let number = |name: &str| {
        names.push(name.into());
        names.len() - 1
    };
    let mut of_rows = vec![0; count];
    batch.each_partition(wanted, number, |row, name| of_rows[at[row]] = name);
    let mut made = Vec::with_capacity(count);
    for (number, row) in wanted.iter().enumerate() {
        let partition = names.get(of_rows[number]).cloned().unwrap_or_default();
        made.push(FieldRow { key: keys[row], partition, level: None, fields: fields.clone(), row: number });
    }
    batch.each_level(wanted, |row, code| made[at[row]].level = Level::from_code(code))?;
    Ok((made, bytes))
}

/// The records of some rows, of which `decided` has those that were made to decide. `None` if a record cannot be made.
pub(super) fn make_rest(
    filter: &ColumnFilter,
    batch: &ColumnBatch,
    wanted: &RowSet,
    decided: Vec<(usize, FullRecord)>,
) -> Result<Option<Vec<FullRecord>>, StoreError> {
    let mut rest = wanted.clone();
    decided.iter().for_each(|(row, _)| rest.remove(*row));
    let Made::Records(rest) = make(filter, batch, &rest)? else { return Ok(None) };
    let own = decided.into_iter().filter(|(row, _)| wanted.contains(*row));
    Ok(Some(own.chain(rest).map(|(_, record)| record).collect()))
}

/// The rows of some records that match, and records that match because columns leave them open.
type DecidedRecords = (RowSet, Vec<(usize, FullRecord)>);

/// The rows of some records that match. What columns leave open is decided by the rows, or by the records, which are given
/// where they match. `None` if a record cannot be made.
pub(super) fn decide(
    filter: &ColumnFilter,
    batch: &ColumnBatch,
    among: &RowSet,
) -> Result<Option<DecidedRecords>, StoreError> {
    decide_open(filter, batch, among, None)
}

/// The same where each record that matches is wanted. A row that decides becomes the record, so that it is read once.
pub(super) fn decide_and_make(
    filter: &ColumnFilter,
    batch: &ColumnBatch,
    among: &RowSet,
) -> Result<Option<DecidedRecords>, StoreError> {
    let mut made = Vec::new();
    let decided = decide_open(filter, batch, among, Some(&mut made))?;
    Ok(decided.map(|(rows, mut records)| {
        records.append(&mut made);
        (rows, records)
    }))
}

fn decide_open(
    filter: &ColumnFilter,
    batch: &ColumnBatch,
    among: &RowSet,
    mut made: Option<&mut Vec<(usize, FullRecord)>>,
) -> Result<Option<DecidedRecords>, StoreError> {
    let TernaryRows { mut yes, maybe } = filter.decide(batch, among)?;
    let mut open = maybe;
    open.subtract(&yes);
    if open.is_empty() {
        return Ok(Some((yes, Vec::new())));
    }
    if let Some(predicate) = filter.row_predicate() {
        let mut of_rows = open.clone();
        of_rows.subtract(&batch.spread()?);
        open.subtract(&of_rows);
        for (number, row) in of_rows.iter().zip(batch.rows(&of_rows)?) {
            // A borrowed row would print the texts of its whole page.
            let row = OwnedRow::of(&row);
            if predicate.matches(&RowFields::new(&row, filter.table())) {
                yes.insert(number);
                if let Some(made) = &mut made {
                    made.push((number, FullRecord::new(StoredRecord::new(filter.table().clone(), row))));
                }
            }
        }
    }
    let Made::Records(mut records) = make(filter, batch, &open)? else { return Ok(None) };
    records.retain(|(_, record)| filter.matches(record));
    records.iter().for_each(|(row, _)| yes.insert(*row));
    Ok(Some((yes, records)))
}

/// The fields of a record of one row. Unlike a [`FullRecord`], they are not sorted out before one is asked for.
struct RowFields<'r> {
    parts: RowParts<'r>,
    table: &'r str,
    instance: String,
    /// The line and the whole message, where the row has a layout.
    written: OnceCell<(String, Option<String>)>,
}

impl<'r> RowFields<'r> {
    fn new(row: &'r OwnedRow, table: &'r str) -> RowFields<'r> {
        let properties = row.properties.iter().map(|(name, value)| (name.as_str(), value.as_property())).collect();
        let parts = RowParts { key: row.key, level: row.level, properties };
        RowFields { parts, table, instance: instance_of(&row.partition).0, written: OnceCell::new() }
    }

    fn written(&self) -> &(String, Option<String>) {
        self.written.get_or_init(|| {
            let mut line = Vec::new();
            let verbatim = self.parts.text(VERBATIM).unwrap_or_default();
            let whole = with_layout(self.parts.text(LAYOUT).unwrap_or_default(), |layout| {
                let at = layout.write_line(&self.parts, verbatim, &mut line);
                at.filter(|_| layout.has_message())
            });
            let whole = whole.and_then(|at| line.get(at));
            let whole = whole.map(|whole| String::from_utf8_lossy(whole).into_owned());
            let line = String::from_utf8(line);
            (line.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()), whole)
        })
    }

    fn has_layout(&self) -> bool {
        self.parts.text(LAYOUT).is_some_and(|layout| !layout.is_empty())
    }

    fn message(&self) -> &str {
        let whole = if self.has_layout() { self.written().1.as_deref() } else { None };
        whole.or_else(|| self.parts.text("Message")).unwrap_or_default()
    }

    fn line(&self) -> &str {
        if self.has_layout() { &self.written().0 } else { self.message() }
    }

    fn arrived(&self) -> Ticks {
        let kept = self.parts.properties.iter().find_map(|(name, value)| match value {
            Property::DateTime(arrived) if *name == ARRIVED => Some(*arrived),
            _ => None,
        });
        kept.unwrap_or_else(|| self.parts.key.time())
    }

    fn fields(&self) -> impl Iterator<Item = (&'r str, Property<'r>)> + Clone {
        let is_field = |(name, value): &(&str, Property<'_>)| {
            !NO_FIELDS.contains(&(*name, value.kind())) && ![LAYOUT, VERBATIM].contains(name)
        };
        self.parts.properties.iter().copied().filter(is_field)
    }
}

impl Fields for RowFields<'_> {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        match name.column() {
            Column::Time => Some(Property::DateTime(self.parts.key.time())),
            Column::Arrived => Some(Property::DateTime(self.arrived())),
            Column::Level => self.parts.level.map(|level| Property::String(level.name())),
            Column::Instance => Some(Property::String(&self.instance)),
            Column::Source => Some(Property::String(self.parts.text("Source").unwrap_or_default())),
            Column::Table => Some(Property::String(self.table)),
            Column::Message => Some(Property::String(self.message())),
            Column::Line | Column::Anywhere => Some(Property::String(self.line())),
            Column::Stream => self.parts.text(STREAM).map(Property::String),
            Column::Field => name.find_in(|wanted| self.fields().find(|(known, _)| *known == wanted)).map(|(_, v)| v),
        }
    }

    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        test(self.field(name)) || name.any_again(self.fields(), test)
    }

    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        let message = self.message();
        !message.is_empty() && passes_as_value(Property::String(message), test)
            || self.fields().any(|(_, value)| passes_as_value(value, test))
            || passes_as_read(self.line(), test)
    }
}
