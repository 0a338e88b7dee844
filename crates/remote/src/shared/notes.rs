//! The notes that daemons with a shared store exchange: a table with a row for each daemon and each restored day.
//!
//! ```text
//! DaytableHosts   PartitionKey  RowKey                    properties
//!                 host          web-17-1f3a9c2e77b0d4a6   Host, Seen, Holds: `Debug=639…;Log=639…`, the oldest of each table
//!                 restored      Log20261101               Origin, Expires, Sha256
//! ```
//!
//! No day-table can have the name of this table.

use crate::tables::{AzureTables, service_error};
use daytable_azure::{Client, EdmValue, Entity, Error, ErrorKind, IfMatch, Pushed, Query, Transaction};
use daytable_model::key::{DayTable, TableName, partition_key};
use daytable_model::time::Ticks;
use daytable_query::tables::TableError;
use std::collections::BTreeMap;

/// The table of notes.
pub(super) const NOTES: &str = "DaytableHosts";
const HOST: &str = "host";
const RESTORED: &str = "restored";

/// The note of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name of its host, and a hash of its data folder.
    pub id: String,
    /// Time of the note, by the daemon's own clock.
    pub seen: Ticks,
    /// For each table with rows in its outbox: the start of the oldest period.
    pub holds: BTreeMap<TableName, Ticks>,
}

/// A day that was restored from an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredTable {
    /// The table.
    pub table: DayTable,
    /// The day-table whose archive it comes from.
    pub origin: DayTable,
    /// Time of its drop.
    pub expires: Ticks,
    /// SHA-256 of the archived file.
    pub sha256: String,
}

/// The notes of one store.
pub struct Notes<'a>(pub &'a AzureTables);

impl Notes<'_> {
    /// Writes the note of a daemon, replacing its earlier note.
    pub fn put_host(&self, host: &Host) -> Result<(), TableError> {
        let holds: Vec<String> = host.holds.iter().map(|(name, oldest)| format!("{name}={}", oldest.get())).collect();
        let holds = holds.join(";");
        let values = vec![
            ("Host", EdmValue::from(host.id.as_str())),
            ("Seen", time(host.seen)),
            ("Holds", EdmValue::from(holds.as_str())),
        ];
        self.put(NOTES, HOST, &partition_key(&host.id, None), values)
    }

    /// Removes the note of a daemon. Returns whether a note existed.
    pub fn forget_host(&self, id: &str) -> Result<bool, TableError> {
        self.remove(NOTES, HOST, &partition_key(id, None))
    }

    /// The notes of all daemons.
    pub fn hosts(&self) -> Result<Vec<Host>, TableError> {
        let host = |entity: &Entity| {
            let id = text(entity, "Host").unwrap_or_else(|| entity.row_key.clone());
            let holds = text(entity, "Holds").and_then(|holds| read_holds(&holds));
            // An unreadable note is an error: its daemon may hold rows.
            let (seen, holds) = ticks(entity, "Seen").zip(holds).ok_or(id.clone())?;
            Ok(Some(Host { id, seen, holds }))
        };
        self.all(NOTES, Query::partition(HOST), host)
    }

    /// Writes the note of a restored day, before or after the restore.
    pub fn put_restored(&self, restored: &RestoredTable) -> Result<(), TableError> {
        let RestoredTable { table, origin, expires, sha256 } = restored;
        let origin = origin.to_string();
        let values = vec![
            ("Origin", EdmValue::from(origin.as_str())),
            ("Expires", time(*expires)),
            ("Sha256", EdmValue::from(sha256.as_str())),
        ];
        self.put(NOTES, RESTORED, &table.to_string(), values)
    }

    /// Removes the note of a restored day that was dropped.
    pub fn forget_restored(&self, table: &DayTable) -> Result<bool, TableError> {
        self.remove(NOTES, RESTORED, &table.to_string())
    }

    /// All restored days.
    pub fn restored(&self) -> Result<Vec<RestoredTable>, TableError> {
        let restored = |entity: &Entity| {
            let Ok(table) = DayTable::parse(&entity.row_key) else { return Ok(None) };
            let origin = text(entity, "Origin").and_then(|origin| DayTable::parse(&origin).ok());
            let (origin, sha256) =
                (origin.unwrap_or_else(|| table.clone()), text(entity, "Sha256").unwrap_or_default());
            // A day with an unreadable time is never dropped.
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
        values: Vec<(&str, EdmValue<'_>)>,
    ) -> Result<(), TableError> {
        let mut transaction = Transaction::new(self.0.client().account(), table, partition);
        let pushed = transaction.push(row, values);
        debug_assert_eq!(pushed, Pushed::Added);
        let sealed = transaction.seal();
        self.with_table(table, async |client| client.transact(&sealed).await.map(drop))
    }

    pub(super) fn remove(&self, table: &'static str, partition: &str, row: &str) -> Result<bool, TableError> {
        let mut transaction = Transaction::new(self.0.client().account(), table, partition);
        let pushed = transaction.push_delete(row, IfMatch::Any);
        debug_assert_eq!(pushed, Pushed::Added);
        let sealed = transaction.seal();
        match self.0.ask(async |client| client.transact(&sealed).await) {
            Ok(_) => Ok(true),
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
                        let read = read(entity).map_err(|host| TableError::Note { table, host })?;
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

    /// Sends a request; if the table is missing, creates it and sends the request again.
    fn with_table<T>(
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

fn time(time: Ticks) -> EdmValue<'static> {
    EdmValue::Int64(time.get())
}

fn ticks(entity: &Entity, name: &str) -> Option<Ticks> {
    match entity.property(name)? {
        EdmValue::Int64(ticks) => Ticks::new(*ticks),
        _ => None,
    }
}

pub(super) fn text(entity: &Entity, name: &str) -> Option<String> {
    match entity.property(name)? {
        EdmValue::String(text) => Some(text.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_or_refused() {
        let name = |name| TableName::new(name).expect("a name");
        let ticks = |ticks| Ticks::new(ticks).expect("in range");
        assert_eq!(read_holds(""), Some(BTreeMap::new()));
        assert_eq!(read_holds("Debug=7;Log=9"), Some([(name("Debug"), ticks(7)), (name("Log"), ticks(9))].into()));
        for text in ["Log", "Log=", "Log=-1", "=1", "Log=1;x", "1=1"] {
            assert_eq!(read_holds(text), None, "{text}");
        }
    }
}
