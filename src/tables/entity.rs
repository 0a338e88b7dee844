//! A row, owned: what crosses the border between a table store and whoever reads or writes it.
//!
//! `Time` is the key's time and `Severity` follows from `Level`, so neither is among the properties, whatever store the
//! row comes from.

use crate::key::RowKey;
use crate::property::Property;
use crate::record::Level;
use crate::store::Row;
use crate::time::Ticks;
use std::sync::Arc;

/// Properties that most rows have less of.
const USUAL: usize = 32;

/// A row that outlives its page.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    /// The PartitionKey.
    pub partition: Arc<str>,
    /// The RowKey.
    pub key: RowKey,
    /// Its level; items have none.
    pub level: Option<Level>,
    /// Its properties in the order they were written.
    pub properties: Vec<(String, OwnedValue)>,
}

/// A [`Property`] that outlives its page.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// UTF-8 text.
    String(String),
    /// A 64-bit whole number.
    Int64(i64),
    /// A 64-bit float.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A 32-bit whole number.
    Int32(i32),
    /// A point in time.
    DateTime(Ticks),
    /// A UUID, its bytes in the order of its text.
    Guid([u8; 16]),
    /// Bytes.
    Binary(Vec<u8>),
}

impl From<Property<'_>> for OwnedValue {
    fn from(property: Property<'_>) -> OwnedValue {
        match property {
            Property::String(text) => OwnedValue::String(text.into()),
            Property::Int64(n) => OwnedValue::Int64(n),
            Property::Double(n) => OwnedValue::Double(n),
            Property::Boolean(b) => OwnedValue::Boolean(b),
            Property::Int32(n) => OwnedValue::Int32(n),
            Property::DateTime(time) => OwnedValue::DateTime(time),
            Property::Guid(guid) => OwnedValue::Guid(guid),
            Property::Binary(bytes) => OwnedValue::Binary(bytes.into()),
        }
    }
}

impl OwnedValue {
    /// The value as it is written.
    pub fn as_property(&self) -> Property<'_> {
        match self {
            OwnedValue::String(text) => Property::String(text),
            OwnedValue::Int64(n) => Property::Int64(*n),
            OwnedValue::Double(n) => Property::Double(*n),
            OwnedValue::Boolean(b) => Property::Boolean(*b),
            OwnedValue::Int32(n) => Property::Int32(*n),
            OwnedValue::DateTime(time) => Property::DateTime(*time),
            OwnedValue::Guid(guid) => Property::Guid(*guid),
            OwnedValue::Binary(bytes) => Property::Binary(bytes),
        }
    }
}

impl Entity {
    /// A copy of a row.
    pub fn of(row: &Row) -> Entity {
        let mut properties = Vec::with_capacity(row.properties_max().min(USUAL));
        properties.extend(row.properties().map(|(name, value)| (name.to_owned(), value.into())));
        Entity { partition: row.partition.clone(), key: row.key(), level: row.level(), properties }
    }

    /// How many items follow it.
    pub fn items(&self) -> usize {
        let items = self.properties.iter().find(|(name, _)| name == "Items").map(|(_, value)| value);
        match items {
            Some(OwnedValue::Int32(n)) => usize::try_from(*n).unwrap_or(0),
            _ => 0,
        }
    }
}
