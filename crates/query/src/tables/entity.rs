//! A row, owned: what table stores and their users exchange.
//!
//! `Time` is the key's time and `Severity` follows from `Level`, so neither is among the properties, in any store.

use daytable_model::key::RowKey;
pub use daytable_model::property::OwnedValue;
use daytable_model::record::Level;
use daytable_store::Row;
use std::sync::Arc;

/// A capacity that suffices for most rows.
const USUAL: usize = 32;

/// A row that outlives its page.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedRow {
    /// The PartitionKey.
    pub partition: Arc<str>,
    /// The RowKey.
    pub key: RowKey,
    /// Its level; items have none.
    pub level: Option<Level>,
    /// The properties in the order of writing.
    pub properties: Vec<(String, OwnedValue)>,
}

impl OwnedRow {
    /// A copy of a row.
    pub fn of(row: &Row) -> OwnedRow {
        let mut properties = Vec::with_capacity(row.properties_max().min(USUAL));
        row.each_property(|name, value| properties.push((name.to_owned(), value.into())));
        OwnedRow { partition: row.partition.clone(), key: row.key(), level: row.level(), properties }
    }

    /// The number of items that follow it.
    pub fn items(&self) -> usize {
        let items = self.properties.iter().find(|(name, _)| name == "Items").map(|(_, value)| value);
        match items {
            Some(OwnedValue::Int32(n)) => usize::try_from(*n).unwrap_or(0),
            _ => 0,
        }
    }
}
