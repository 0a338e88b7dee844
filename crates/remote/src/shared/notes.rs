//! What daytables that share a store tell each other: a table with a row each.
//!
//! ```text
//! DaytableHosts   PartitionKey  RowKey                    properties
//!                 host          web-17-1f3a9c2e77b0d4a6   Host, Seen, Holds: `Debug=639…;Log=639…`, the oldest of each table
//!                 restored      Log20261101               Origin, Expires, Sha256
//! ```
//!
//! Its name is none that a day-table can have.

use crate::tables::{AzureTables, service_error};
use daytable_azure::{Client, Entity, Error, ErrorKind, Pushed, Query, Transaction, Value};
use daytable_model::key::{DayTable, TableName, partition_key};
use daytable_model::time::Ticks;
use daytable_query::tables::TableError;
use std::collections::BTreeMap;

/// The table of notes.
pub(super) const NOTES: &str = "DaytableHosts";
const HOST: &str = "host";
const RESTORED: &str = "restored";

/// What a daytable tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name and what tells it from another on the same host.
    pub id: String,
    /// When it told, by its own clock.
    pub seen: Ticks,
    /// When the oldest period begins that its outbox holds something for, of each table that it does.
    pub holds: BTreeMap<TableName, Ticks>,
}

/// A table that was brought back from an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredTable {
    /// The table.
    pub table: DayTable,
    /// The day-table whose archive it comes from.
    pub origin: DayTable,
    /// When it goes again.
    pub expires: Ticks,
    /// SHA-256 of the archived file.
    pub sha256: String,
}

/// The notes of one store.
pub struct Notes<'a>(pub &'a AzureTables);

impl Notes<'_> {
    /// Tells of a daytable, in place of what it told before.
    pub fn put_host(&self, host: &Host) -> Result<(), TableError> {
        let holds: Vec<String> = host.holds.iter().map(|(name, oldest)| format!("{name}={}", oldest.get())).collect();
        let holds = holds.join(";");
        let values = vec![
            ("Host", Value::from(host.id.as_str())),
            ("Seen", time(host.seen)),
            ("Holds", Value::from(holds.as_str())),
        ];
        self.put(NOTES, HOST, &partition_key(&host.id, None), values)
    }

    /// Forgets a daytable; says whether it was known.
    pub fn forget_host(&self, id: &str) -> Result<bool, TableError> {
        self.remove(NOTES, HOST, &partition_key(id, None))
    }

    /// Every daytable that told of itself.
    pub fn hosts(&self) -> Result<Vec<Host>, TableError> {
        let host = |entity: &Entity| {
            let id = text(entity, "Host").unwrap_or_else(|| entity.row_key.clone());
            let holds = text(entity, "Holds").and_then(|holds| read_holds(&holds));
            // Of one that cannot be read nobody knows what it holds.
            let (seen, holds) = ticks(entity, "Seen").zip(holds).ok_or(id.clone())?;
            Ok(Some(Host { id, seen, holds }))
        };
        self.all(NOTES, Query::partition(HOST), host)
    }

    /// Notes a table that is, or is about to be, brought back.
    pub fn put_restored(&self, restored: &RestoredTable) -> Result<(), TableError> {
        let RestoredTable { table, origin, expires, sha256 } = restored;
        let origin = origin.to_string();
        let values = vec![
            ("Origin", Value::from(origin.as_str())),
            ("Expires", time(*expires)),
            ("Sha256", Value::from(sha256.as_str())),
        ];
        self.put(NOTES, RESTORED, &table.to_string(), values)
    }

    /// Forgets a table that was brought back and is gone.
    pub fn forget_restored(&self, table: &DayTable) -> Result<bool, TableError> {
        self.remove(NOTES, RESTORED, &table.to_string())
    }

    /// Every table that was brought back.
    pub fn restored(&self) -> Result<Vec<RestoredTable>, TableError> {
        let restored = |entity: &Entity| {
            let Ok(table) = DayTable::parse(&entity.row_key) else { return Ok(None) };
            let origin = text(entity, "Origin").and_then(|origin| DayTable::parse(&origin).ok());
            let (origin, sha256) =
                (origin.unwrap_or_else(|| table.clone()), text(entity, "Sha256").unwrap_or_default());
            // What nobody can read of it must not let it go.
            let expires = ticks(entity, "Expires").unwrap_or(Ticks::MAX);
            Ok(Some(RestoredTable { table, origin, expires, sha256 }))
        };
        self.all(NOTES, Query::partition(RESTORED), restored)
    }

    pub(super) fn put(
        &self,
        table: &'static str,
        partition: &str,
        row: &str,
        values: Vec<(&str, Value<'_>)>,
    ) -> Result<(), TableError> {
        let mut transaction = Transaction::new(self.0.client().account(), table, partition);
        let pushed = transaction.push(row, values);
        debug_assert_eq!(pushed, Pushed::Added);
        let sealed = transaction.seal();
        self.there(table, async |client| client.transact(&sealed).await)
    }

    pub(super) fn remove(&self, table: &'static str, partition: &str, row: &str) -> Result<bool, TableError> {
        let mut transaction = Transaction::new(self.0.client().account(), table, partition);
        let pushed = transaction.push_delete(row);
        debug_assert_eq!(pushed, Pushed::Added);
        let sealed = transaction.seal();
        match self.0.ask(async |client| client.transact(&sealed).await) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::TableNotFound) => Ok(false),
            Err(error) => Err(service_error(error)),
        }
    }

    pub(super) fn all<T>(
        &self,
        table: &'static str,
        query: Query,
        read: impl Fn(&Entity) -> Result<Option<T>, String>,
    ) -> Result<Vec<T>, TableError> {
        let (mut found, mut next) = (Vec::new(), None);
        loop {
            match self.0.ask(async |client| client.query(table, &query, next.as_ref()).await) {
                Ok(page) => {
                    for entity in &page.entities {
                        let read = read(entity).map_err(|whose| TableError::Note { table, whose })?;
                        found.extend(read);
                    }
                    next = page.next;
                }
                Err(error) if error.kind() == ErrorKind::TableNotFound => return Ok(found),
                Err(error) => return Err(service_error(error)),
            }
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    /// Asks, and once more behind the creation of the table where it is not there.
    fn there<T>(
        &self,
        table: &'static str,
        request: impl AsyncFn(&Client) -> Result<T, Error>,
    ) -> Result<T, TableError> {
        match self.0.ask(&request) {
            Err(error) if error.kind() == ErrorKind::TableNotFound => {
                match self.0.ask(async |client| client.create_table(table).await) {
                    Err(error) if error.kind() != ErrorKind::TableAlreadyExists => return Err(service_error(error)),
                    _ => {}
                }
                self.0.ask(&request).map_err(service_error)
            }
            asked => asked.map_err(service_error),
        }
    }
}

fn read_holds(text: &str) -> Option<BTreeMap<TableName, Ticks>> {
    let pairs = text.split(';').filter(|pair| !pair.is_empty());
    let read = |pair: &str| {
        let (name, ticks) = pair.split_once('=')?;
        Some((TableName::new(name).ok()?, Ticks::new(ticks.parse().ok()?)?))
    };
    pairs.map(read).collect()
}

fn time(time: Ticks) -> Value<'static> {
    Value::Int64(time.get())
}

fn ticks(entity: &Entity, name: &str) -> Option<Ticks> {
    match entity.property(name)? {
        Value::Int64(ticks) => Ticks::new(*ticks),
        _ => None,
    }
}

pub(super) fn text(entity: &Entity, name: &str) -> Option<String> {
    match entity.property(name)? {
        Value::String(text) => Some(text.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_daytable_holds_is_read_or_is_no_note() {
        let name = |name| TableName::new(name).expect("a name");
        let ticks = |ticks| Ticks::new(ticks).expect("in range");
        assert_eq!(read_holds(""), Some(BTreeMap::new()));
        assert_eq!(read_holds("Debug=7;Log=9"), Some([(name("Debug"), ticks(7)), (name("Log"), ticks(9))].into()));
        for text in ["Log", "Log=", "Log=-1", "=1", "Log=1;x", "1=1"] {
            assert_eq!(read_holds(text), None, "{text}");
        }
    }
}
