//! A record, or a row of columns, as pipes pass it on.

use crate::entity::OwnedValue;
use crate::record::StoredRecord;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::{Column, FieldName, Fields, passes_as_read, passes_as_value};
use daytable_model::arrival::ARRIVED_FIELD;
use daytable_model::field_properties;
use daytable_model::key::RowKey;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

/// A record whose fields a query can name.
#[derive(Clone, Debug)]
pub struct FullRecord {
    record: StoredRecord,
    instance: OnceCell<String>,
    line: OnceCell<String>,
}

impl FullRecord {
    /// Wraps a record.
    pub fn new(record: StoredRecord) -> FullRecord {
        FullRecord { record, instance: OnceCell::new(), line: OnceCell::new() }
    }

    /// The record.
    pub fn record(&self) -> &StoredRecord {
        &self.record
    }

    /// The record, unwrapped.
    pub fn into_record(self) -> StoredRecord {
        self.record
    }

    /// The record as a row of columns, in the order and with the names of its JSON form.
    pub fn into_row(self) -> AnswerRow {
        let instance = Some(self.instance.into_inner().unwrap_or_else(|| self.record.instance()));
        let StoredRecord { table, partition_key, row_key, level, message, source, fields, kept_arrival, .. } =
            self.record;
        let arrived = kept_arrival.is_none().then(|| row_key.time());
        let origin = RowOrigin { key: row_key, partition: partition_key.clone(), instance, arrived };
        let mut row = AnswerRow { columns: Vec::with_capacity(8 + fields.len()), origin: Some(origin.into()) };
        let text = |text: String| Some(OwnedValue::String(text));
        row.push("table".into(), text(table.to_string()));
        row.push("partition_key".into(), text(partition_key.to_string()));
        row.push("row_key".into(), text(row_key.to_string()));
        row.push("time".into(), Some(OwnedValue::DateTime(row_key.time())));
        row.push("level".into(), level.and_then(|level| text(level.name().into())));
        row.push("message".into(), text(message));
        row.push("source".into(), text(source));
        if let Some(arrived) = kept_arrival {
            row.push(ARRIVED_FIELD.into(), Some(OwnedValue::DateTime(arrived)));
        }
        for (name, value) in fields {
            let name = shown_name(&name);
            let name = if row.position(&name).is_some() { format!("{name}_").into() } else { name };
            row.push(name.into(), Some(value));
        }
        row
    }

    /// Each field that is present, with its name and value. The arrival is not among them: it is asked for by its name
    /// alone.
    pub fn each_field(&self, each: &mut dyn FnMut(&str, Property<'_>)) {
        let record = &self.record;
        each("time", Property::DateTime(record.time()));
        if let Some(level) = record.level {
            each("level", Property::String(level.name()));
        }
        for (name, text) in [("message", &record.message), ("instance", self.instance()), ("source", &record.source)] {
            if !text.is_empty() {
                each(name, Property::String(text));
            }
        }
        record.fields.iter().for_each(|(name, value)| each(&shown_name(name), value.as_property()));
    }

    fn instance(&self) -> &String {
        self.instance.get_or_init(|| self.record.instance())
    }
}

impl Fields for FullRecord {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        let record = &self.record;
        match name.column() {
            Column::Time => Some(Property::DateTime(record.time())),
            Column::Arrived => Some(Property::DateTime(record.arrived())),
            Column::Level => record.level.map(|level| Property::String(level.name())),
            Column::Instance => Some(Property::String(self.instance())),
            Column::Source => Some(Property::String(&record.source)),
            Column::Table => Some(Property::String(&record.table)),
            Column::Message => Some(Property::String(&record.message)),
            Column::Line | Column::Anywhere => {
                Some(Property::String(self.line.get_or_init(|| record.line().into_owned())))
            }
            Column::Stream => record.stream.as_ref().map(|note| Property::String(&note.text)),
            Column::Field => {
                let field = name.find_in(|wanted| record.fields.iter().find(|(known, _)| known == wanted));
                field.map(|(_, value)| value.as_property())
            }
        }
    }

    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        let fields = self.record.fields.iter().map(|(name, value)| (name.as_str(), value.as_property()));
        test(self.field(name)) || name.any_again(fields, test)
    }

    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        let record = &self.record;
        !record.message.is_empty() && passes_as_value(Property::String(&record.message), test)
            || record.fields.iter().any(|(_, value)| passes_as_value(value.as_property(), test))
            || passes_as_read(&record.line(), test)
    }
}

/// A row of an answer: columns in their order. A column without a value is null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerRow {
    columns: Vec<(Arc<str>, Option<OwnedValue>)>,
    origin: Option<Box<RowOrigin>>,
}

/// What a row that was a record keeps of it beside its columns.
#[derive(Clone, Debug, PartialEq)]
struct RowOrigin {
    key: RowKey,
    partition: Arc<str>,
    /// The instance, which is not a column of an answer unless it is asked for.
    instance: Option<String>,
    /// The same of the arrival that the time tells. One that was kept is a column.
    arrived: Option<Ticks>,
}

impl AnswerRow {
    /// A row without columns, at the place of an item.
    pub(super) fn at(item: &AnswerItem) -> AnswerRow {
        let origin = |(key, partition): RecordPlace<'_>| RowOrigin {
            key,
            partition: partition.clone(),
            instance: None,
            arrived: None,
        };
        let origin = item.place().map(origin);
        AnswerRow { columns: Vec::new(), origin: origin.map(Box::new) }
    }

    /// The columns.
    pub fn columns(&self) -> &[(Arc<str>, Option<OwnedValue>)] {
        &self.columns
    }

    /// The value of the column with exactly this name.
    pub fn get(&self, name: &str) -> Option<&OwnedValue> {
        self.columns.iter().find(|(known, _)| **known == *name).and_then(|(_, value)| value.as_ref())
    }

    /// Begins the row anew with these columns. What other columns it has stay, and none has a value.
    pub(super) fn restart(&mut self, names: &[Arc<str>]) {
        let is_alike = self.columns.len() >= names.len()
            && names.iter().zip(&self.columns).all(|(name, (known, _))| Arc::ptr_eq(name, known));
        self.origin = None;
        match is_alike {
            true => self.columns.iter_mut().for_each(|(_, value)| *value = None),
            false => self.columns = names.iter().map(|name| (name.clone(), None)).collect(),
        }
    }

    /// Puts a value into the column at a place.
    pub(super) fn put(&mut self, at: usize, value: Option<OwnedValue>) {
        self.columns[at].1 = value;
    }

    /// Puts a value into the column at a place that has none.
    pub(super) fn put_if_absent(&mut self, at: usize, value: impl FnOnce() -> OwnedValue) {
        self.columns[at].1.get_or_insert_with(value);
    }

    /// Adds a column, whose name must be new.
    pub fn push(&mut self, name: Arc<str>, value: Option<OwnedValue>) {
        self.columns.push((name, value));
    }

    /// Replaces or adds a column.
    pub fn set(&mut self, name: &FieldName, value: Option<OwnedValue>) {
        match self.position_of(name) {
            Some(at) => self.columns[at].1 = value,
            None => {
                self.columns.push((name.written().into(), value));
                self.take_hidden(name);
            }
        }
    }

    /// Replaces or adds the column of a field, beside one of another field whose name is stored alike.
    pub(super) fn set_field(&mut self, name: &FieldName, value: Option<OwnedValue>) {
        match name.column() == Column::Field && self.position(name.written()).is_none() {
            true => self.columns.push((name.written().into(), value)),
            false => self.set(name, value),
        }
    }

    /// Removes the columns for which `is_wanted` is false.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.columns.retain(|(name, _)| is_wanted(name));
        if !is_wanted("instance") {
            self.take_instance();
        }
        if !is_wanted(ARRIVED_FIELD) {
            self.take_arrival();
        }
    }

    fn take_instance(&mut self) -> Option<String> {
        self.origin.as_mut().and_then(|origin| origin.instance.take())
    }

    fn take_arrival(&mut self) -> Option<Ticks> {
        self.origin.as_mut().and_then(|origin| origin.arrived.take())
    }

    /// Takes what the row keeps of a column that it does not have: a column of this name stands for it, also after it is gone.
    fn take_hidden(&mut self, name: &FieldName) -> Option<OwnedValue> {
        match name.column() {
            Column::Instance => self.take_instance().map(OwnedValue::String),
            Column::Arrived => self.take_arrival().map(OwnedValue::DateTime),
            _ => None,
        }
    }

    /// Renames a column.
    pub(super) fn rename(&mut self, from: &FieldName, to: &FieldName) {
        if self.position_of(from).is_none()
            && let Some(hidden) = self.take_hidden(from)
        {
            self.columns.push((from.written().into(), Some(hidden)));
        }
        if let Some(at) = self.position_of(from) {
            let value = self.columns.remove(at).1;
            match self.position_of(to) {
                Some(known) => drop(self.columns.remove(known)),
                None => drop(self.take_hidden(to)),
            }
            self.columns.insert(at.min(self.columns.len()), (to.written().into(), value));
        } else {
            // The new name stands for a field that the row does not have.
            match self.position_of(to) {
                Some(known) => self.columns[known].1 = None,
                None => drop(self.take_hidden(to)),
            }
        }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|(known, _)| **known == *name)
    }

    /// The column that a query calls `name`: as written, as stored, or by another name of the same column.
    pub(super) fn position_of(&self, name: &FieldName) -> Option<usize> {
        self.position(name.written()).or_else(|| self.position(name.property())).or_else(|| {
            let column = name.column();
            let is_same = |known: &str| FieldName::new(known).column() == column;
            if column == Column::Field { None } else { self.columns.iter().position(|(known, _)| is_same(known)) }
        })
    }

    /// The bytes of all texts and blobs.
    pub(super) fn text_bytes(&self) -> usize {
        self.columns.iter().filter_map(|(_, value)| value.as_ref()).map(value_bytes).sum()
    }

    /// An estimate of the memory of the row.
    pub fn bytes(&self) -> usize {
        let value =
            |(name, value): &(Arc<str>, Option<OwnedValue>)| 80 + name.len() + value.as_ref().map_or(0, value_bytes);
        let origin = |origin: &RowOrigin| 96 + origin.instance.as_ref().map_or(0, String::len);
        64 + self.columns.iter().map(value).sum::<usize>() + self.origin.as_deref().map_or(0, origin)
    }
}

impl Spilled for AnswerRow {
    fn write(&self, to: &mut Vec<u8>) {
        self.columns.write(to);
        let origin = |origin: &RowOrigin| {
            let RowOrigin { key, partition, instance, arrived } = origin;
            ((*key, partition.clone()), (instance.clone(), *arrived))
        };
        self.origin.as_deref().map(origin).write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<AnswerRow> {
        let columns = Spilled::read(from)?;
        let origin = Option::<((RowKey, Arc<str>), (Option<String>, Option<Ticks>))>::read(from)?;
        let origin = origin
            .map(|((key, partition), (instance, arrived))| Box::new(RowOrigin { key, partition, instance, arrived }));
        Some(AnswerRow { columns, origin })
    }
}

/// Memory of a value beside its size.
pub(super) fn value_bytes(value: &OwnedValue) -> usize {
    match value {
        OwnedValue::String(text) => text.len(),
        OwnedValue::Binary(bytes) => bytes.len(),
        _ => 0,
    }
}

impl Fields for AnswerRow {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        match self.position_of(name) {
            Some(at) => self.columns[at].1.as_ref().map(OwnedValue::as_property),
            None => match name.column() {
                Column::Instance => self.origin.as_ref()?.instance.as_deref().map(Property::String),
                Column::Arrived => self.origin.as_ref()?.arrived.map(Property::DateTime),
                _ => None,
            },
        }
    }

    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        let columns = self.columns.iter().filter_map(|(name, value)| Some((&**name, value.as_ref()?.as_property())));
        test(self.field(name)) || name.any_again(columns, test)
    }

    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        self.columns
            .iter()
            .filter_map(|(_, value)| value.as_ref())
            .any(|value| passes_as_value(value.as_property(), test))
    }
}

impl Serialize for AnswerRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.columns.len()))?;
        for (name, value) in &self.columns {
            map.serialize_entry(&**name, value)?;
        }
        map.end()
    }
}

/// The name of a field where all fields are listed: one that has the name of a column gets a `_`.
pub(super) fn shown_name(property: &str) -> Cow<'_, str> {
    let name = field_properties::shown_name(property);
    if FieldName::new(&name).column() == Column::Field { name } else { format!("{name}_").into() }
}

/// The place of a record in the order of all records, newest first.
pub type RecordPlace<'r> = (RowKey, &'r Arc<str>);

/// A record, or a row that a pipe made.
#[derive(Clone, Debug)]
pub enum AnswerItem {
    /// A record, as it is stored.
    Record(Box<FullRecord>),
    /// A row of columns.
    Row(AnswerRow),
}

impl AnswerItem {
    /// The row; a record becomes one.
    pub fn into_row(self) -> AnswerRow {
        match self {
            AnswerItem::Record(record) => record.into_row(),
            AnswerItem::Row(row) => row,
        }
    }

    /// The place of a record in the order of all records, also after it became a row.
    pub(super) fn place(&self) -> Option<RecordPlace<'_>> {
        match self {
            AnswerItem::Record(record) => Some((record.record().row_key, &record.record().partition_key)),
            AnswerItem::Row(row) => row.origin.as_ref().map(|origin| (origin.key, &origin.partition)),
        }
    }

    /// The item as bytes, for [`AnswerItem::from_bytes`] of the same version of daytable.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    /// The item of these bytes; `None` of other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<AnswerItem> {
        let mut from = SpilledBytes::new(bytes);
        AnswerItem::read(&mut from).filter(|_| from.is_empty())
    }

    /// An estimate of the memory of the item.
    pub fn bytes(&self) -> usize {
        match self {
            AnswerItem::Row(row) => row.bytes(),
            AnswerItem::Record(record) => {
                let record = record.record();
                let field = |(name, value): &(String, OwnedValue)| 80 + name.len() + value_bytes(value);
                let texts = record.message.len() + record.source.len() + record.written_bytes();
                512 + texts + record.fields.iter().map(field).sum::<usize>()
            }
        }
    }

    /// Each field that is present, with its name and value.
    pub(super) fn each_field(&self, each: &mut dyn FnMut(&str, Property<'_>)) {
        match self {
            AnswerItem::Record(record) => record.each_field(each),
            AnswerItem::Row(row) => row.columns().iter().for_each(|(name, value)| {
                if let Some(value) = value {
                    each(name, value.as_property());
                }
            }),
        }
    }
}

impl Fields for AnswerItem {
    fn field(&self, name: &FieldName) -> Option<Property<'_>> {
        match self {
            AnswerItem::Record(record) => record.field(name),
            AnswerItem::Row(row) => row.field(name),
        }
    }

    fn any_value(&self, name: &FieldName, test: &mut dyn FnMut(Option<Property<'_>>) -> bool) -> bool {
        match self {
            AnswerItem::Record(record) => record.any_value(name, test),
            AnswerItem::Row(row) => row.any_value(name, test),
        }
    }

    fn any_part(&self, test: &mut dyn FnMut(Property<'_>) -> bool) -> bool {
        match self {
            AnswerItem::Record(record) => record.any_part(test),
            AnswerItem::Row(row) => row.any_part(test),
        }
    }
}

impl Spilled for AnswerItem {
    fn write(&self, to: &mut Vec<u8>) {
        match self {
            AnswerItem::Record(record) => {
                true.write(to);
                record.record().write(to);
            }
            AnswerItem::Row(row) => {
                false.write(to);
                row.write(to);
            }
        }
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<AnswerItem> {
        Some(match bool::read(from)? {
            true => AnswerItem::Record(FullRecord::new(StoredRecord::read(from)?).into()),
            false => AnswerItem::Row(AnswerRow::read(from)?),
        })
    }
}

/// As JSON: the record as it is stored, or the columns.
impl Serialize for AnswerItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AnswerItem::Record(record) => record.record().serialize(serializer),
            AnswerItem::Row(row) => row.serialize(serializer),
        }
    }
}

/// The severity of a level's name, for sorting.
pub(super) fn severity(value: Property<'_>) -> Option<u8> {
    match value {
        Property::String(name) => Level::from_word(name).map(Level::code),
        _ => None,
    }
}
