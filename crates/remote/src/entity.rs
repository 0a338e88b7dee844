//! Rows as entities of the service, and back.
//!
//! The service also stores what derives from a row's key, for other programs that read it: `Time`, and `Severity` beside
//! `Level`, of each row that is a record. Items (the rows of a large record's parts) have only their own properties. These
//! properties are left out again when a row is read. An entity without a key of daytable's form, or with properties that
//! contradict its key, is not daytable's. A time before 1601, which the service refuses, stands in the RowKey alone.

use daytable_azure as azure;
use daytable_azure::{DateTime, EdmValue, Pushed, Transaction};
use daytable_model::batch::{Batch, RowRef};
use daytable_model::key::RowKey;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_query::tables::{OwnedRow, OwnedValue};
use daytable_store::page::Page;
use std::borrow::Cow;
use std::sync::Arc;

/// Adds row `index` of `page` to a transaction.
pub(crate) fn push(transaction: &mut Transaction, page: &Page, index: usize) -> Pushed {
    let key = page.key(index);
    let own = page.properties(index).map(|(name, property)| (name, value(property)));
    transaction.push(&key.to_string(), derived(key, page.level(index)).chain(own))
}

/// The properties of a row of `batch`.
pub(crate) fn properties<'a>(batch: &'a Batch, row: &RowRef<'a>) -> impl Iterator<Item = (&'a str, EdmValue<'a>)> {
    let names = batch.names();
    let own = row.properties().map(|(name, property)| (&*names[usize::from(name)], value(property)));
    derived(row.key, row.level).chain(own)
}

/// The properties that derive from a record's key and level.
fn derived<'a>(key: RowKey, level: Option<Level>) -> impl Iterator<Item = (&'a str, EdmValue<'a>)> {
    let is_record = key.item() == 0;
    let first = Ticks::from_date(1601, 1, 1).unwrap_or(Ticks::MIN);
    let time = Some(key.time()).filter(|time| is_record && *time >= first);
    let level = level.filter(|_| is_record);
    let properties = [
        ("Time", time.map(|time| EdmValue::DateTime(DateTime::from_ticks(time.get())))),
        ("Level", level.map(|level| EdmValue::from(level.name()))),
        ("Severity", level.map(|level| EdmValue::Int32(level.severity()))),
    ];
    properties.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

fn value(property: Property<'_>) -> EdmValue<'_> {
    match property {
        Property::String(text) => EdmValue::String(Cow::Borrowed(text)),
        Property::Int64(number) => EdmValue::Int64(number),
        Property::Double(number) => EdmValue::Double(number),
        Property::Boolean(truth) => EdmValue::Boolean(truth),
        Property::Int32(number) => EdmValue::Int32(number),
        Property::DateTime(time) => EdmValue::DateTime(DateTime::from_ticks(time.get())),
        Property::Guid(guid) => EdmValue::Guid(guid),
        Property::Binary(bytes) => EdmValue::Binary(Cow::Borrowed(bytes)),
    }
}

/// The row of an entity; otherwise, what is wrong with the entity.
pub(crate) fn row_of(entity: azure::Entity, partition: &Arc<str>) -> Result<OwnedRow, String> {
    let azure::Entity { partition_key, row_key, properties, .. } = entity;
    let at_row = |reason: &str| format!("{partition_key:?} {row_key:?}: {reason}");
    let key = RowKey::parse(&row_key).ok().filter(|key| key.to_string() == row_key);
    let key = key.ok_or_else(|| at_row("its RowKey is not of the form of daytable's"))?;
    let partition = if **partition == *partition_key { partition.clone() } else { partition_key.as_str().into() };
    let mut row = OwnedRow { partition, key, level: None, properties: Vec::with_capacity(properties.len()) };
    for (name, value) in properties {
        match (name.as_str(), value) {
            ("Severity", _) => {}
            ("Time", EdmValue::DateTime(time)) if time.ticks() == key.time().get() => {}
            ("Time", _) => return Err(at_row("its Time is not that of its RowKey")),
            ("Level", EdmValue::String(word)) => {
                let level = Level::ALL.into_iter().find(|level| level.name() == word);
                row.level = Some(level.ok_or_else(|| at_row("its Level is none of daytable's"))?);
            }
            (_, value) => row.properties.push((name, owned(value).ok_or_else(|| at_row("a time is out of range"))?)),
        }
    }
    Ok(row)
}

fn owned(value: EdmValue<'static>) -> Option<OwnedValue> {
    Some(match value {
        EdmValue::String(text) => OwnedValue::String(text.into_owned()),
        EdmValue::Int64(n) => OwnedValue::Int64(n),
        EdmValue::Double(n) => OwnedValue::Double(n),
        EdmValue::Boolean(b) => OwnedValue::Boolean(b),
        EdmValue::Int32(n) => OwnedValue::Int32(n),
        EdmValue::DateTime(time) => OwnedValue::DateTime(Ticks::new(time.ticks())?),
        EdmValue::Guid(guid) => OwnedValue::Guid(guid),
        EdmValue::Binary(bytes) => OwnedValue::Binary(bytes.into_owned()),
    })
}
