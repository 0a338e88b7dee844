//! Rows as the service has them, and back.
//!
//! The service keeps what derives from the key as well, for others who read it: `Time`, and `Severity` beside `Level`, of
//! each row that is a record and not an item. Coming back they are left out again. A row that has no key of daytable's, or
//! says of itself what its key does not, is not daytable's.

use daytable_azure as azure;
use daytable_azure::{DateTime, Value};
use daytable_model::batch::{Batch, RowRef};
use daytable_model::key::RowKey;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_query::tables::{OwnedRow, OwnedValue};
use std::sync::Arc;

/// The properties that the service keeps of a row of `batch`.
pub fn properties<'a>(batch: &'a Batch, row: &RowRef<'a>) -> impl Iterator<Item = (&'a str, Value<'a>)> {
    let time = Some(row.key.time()).filter(|time| row.key.item() == 0 && *time >= first_time());
    let time = time.map(|time| ("Time", Value::DateTime(DateTime::from_ticks(time.get()))));
    let level = row
        .level
        .into_iter()
        .flat_map(|level| [("Level", Value::from(level.name())), ("Severity", Value::Int32(level.severity()))]);
    let names = batch.names();
    let others = row.properties().map(|(name, value)| (&*names[usize::from(name)], value_of(value)));
    time.into_iter().chain(level).chain(others)
}

/// The first time that the service takes; an earlier one stands in the RowKey alone.
fn first_time() -> Ticks {
    Ticks::from_date(1601, 1, 1).unwrap_or(Ticks::MIN)
}

fn value_of(value: Property<'_>) -> Value<'_> {
    match value {
        Property::String(text) => Value::from(text),
        Property::Int64(n) => Value::Int64(n),
        Property::Double(n) => Value::Double(n),
        Property::Boolean(b) => Value::Boolean(b),
        Property::Int32(n) => Value::Int32(n),
        Property::DateTime(time) => Value::DateTime(DateTime::from_ticks(time.get())),
        Property::Guid(guid) => Value::Guid(guid),
        Property::Binary(bytes) => Value::from(bytes),
    }
}

/// The row that an entity of the service is; else what is wrong with it.
pub fn row_of(entity: azure::Entity, partition: &Arc<str>) -> Result<OwnedRow, String> {
    let azure::Entity { partition_key, row_key, properties, .. } = entity;
    let whose = |what: &str| format!("{partition_key:?} {row_key:?}: {what}");
    let key = RowKey::parse(&row_key).ok().filter(|key| key.to_string() == row_key);
    let key = key.ok_or_else(|| whose("its RowKey is not of the form of daytable's"))?;
    let partition = if **partition == *partition_key { partition.clone() } else { partition_key.as_str().into() };
    let mut row = OwnedRow { partition, key, level: None, properties: Vec::with_capacity(properties.len()) };
    for (name, value) in properties {
        match (name.as_str(), value) {
            ("Severity", _) => {}
            ("Time", Value::DateTime(time)) if time.ticks() == key.time().get() => {}
            ("Time", _) => return Err(whose("its Time is not that of its RowKey")),
            ("Level", Value::String(word)) => {
                let level = Level::ALL.into_iter().find(|level| level.name() == word);
                row.level = Some(level.ok_or_else(|| whose("its Level is none of daytable's"))?);
            }
            (_, value) => row.properties.push((name, owned(value).ok_or_else(|| whose("a time is out of range"))?)),
        }
    }
    Ok(row)
}

fn owned(value: Value<'static>) -> Option<OwnedValue> {
    Some(match value {
        Value::String(text) => OwnedValue::String(text.into_owned()),
        Value::Int64(n) => OwnedValue::Int64(n),
        Value::Double(n) => OwnedValue::Double(n),
        Value::Boolean(b) => OwnedValue::Boolean(b),
        Value::Int32(n) => OwnedValue::Int32(n),
        Value::DateTime(time) => OwnedValue::DateTime(Ticks::new(time.ticks())?),
        Value::Guid(guid) => OwnedValue::Guid(guid),
        Value::Binary(bytes) => OwnedValue::Binary(bytes.into_owned()),
    })
}
