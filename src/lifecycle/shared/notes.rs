//! What daytables that share a store tell each other: a table with a row each.
//!
//! ```text
//! DaytableHosts   PartitionKey  RowKey                    properties
//!                 host          web-17-1f3a9c2e77b0d4a6   Host, Seen, Oldest (none where the outbox is empty)
//!                 restored      Log20261101               Origin, Expires, Sha256
//! ```
//!
//! Its name is none that a day-table can have.

use crate::azure::{Client, Entity, Error, Kind, Pushed, Query, Transaction, Value};
use crate::key::{DayTable, partition_key};
use crate::tables::{AzureTables, TableError};
use crate::time::Ticks;

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
    /// When the oldest period begins that its outbox holds something for.
    pub oldest: Option<Ticks>,
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
        let mut values = vec![("Host", Value::from(host.id.as_str())), ("Seen", time(host.seen))];
        values.extend(host.oldest.map(|oldest| ("Oldest", time(oldest))));
        self.put(HOST, &partition_key(&host.id, None), values)
    }

    /// Forgets a daytable; says whether it was known.
    pub fn forget_host(&self, id: &str) -> Result<bool, TableError> {
        self.remove(HOST, &partition_key(id, None))
    }

    /// Every daytable that told of itself.
    pub fn hosts(&self) -> Result<Vec<Host>, TableError> {
        let host = |entity: &Entity| {
            let id = text(entity, "Host").unwrap_or_else(|| entity.row_key.clone());
            // One that tells nothing of its time was never heard of.
            let seen = ticks(entity, "Seen").unwrap_or(Ticks::MIN);
            Some(Host { id, seen, oldest: ticks(entity, "Oldest") })
        };
        self.all(HOST, host)
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
        self.put(RESTORED, &table.to_string(), values)
    }

    /// Forgets a table that was brought back and is gone.
    pub fn forget_restored(&self, table: &DayTable) -> Result<bool, TableError> {
        self.remove(RESTORED, &table.to_string())
    }

    /// Every table that was brought back.
    pub fn restored(&self) -> Result<Vec<RestoredTable>, TableError> {
        let restored = |entity: &Entity| {
            let table = DayTable::parse(&entity.row_key).ok()?;
            let origin = text(entity, "Origin").and_then(|origin| DayTable::parse(&origin).ok());
            let (origin, sha256) =
                (origin.unwrap_or_else(|| table.clone()), text(entity, "Sha256").unwrap_or_default());
            // What nobody can read of it must not let it go.
            let expires = ticks(entity, "Expires").unwrap_or(Ticks::MAX);
            Some(RestoredTable { table, origin, expires, sha256 })
        };
        self.all(RESTORED, restored)
    }

    fn put(&self, partition: &str, row: &str, values: Vec<(&str, Value<'_>)>) -> Result<(), TableError> {
        let mut transaction = Transaction::new(self.0.client().account(), NOTES, partition);
        let pushed = transaction.push(row, values);
        debug_assert_eq!(pushed, Pushed::Added);
        let sealed = transaction.seal();
        self.there(async |client| client.transact(&sealed).await)
    }

    fn remove(&self, partition: &str, row: &str) -> Result<bool, TableError> {
        let mut transaction = Transaction::new(self.0.client().account(), NOTES, partition);
        let pushed = transaction.push_delete(row);
        debug_assert_eq!(pushed, Pushed::Added);
        let sealed = transaction.seal();
        match self.0.ask(async |client| client.transact(&sealed).await) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::TableNotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn all<T>(&self, partition: &str, read: impl Fn(&Entity) -> Option<T>) -> Result<Vec<T>, TableError> {
        let (query, mut found, mut next) = (Query::partition(partition), Vec::new(), None);
        loop {
            match self.0.ask(async |client| client.query(NOTES, &query, next.as_ref()).await) {
                Ok(page) => {
                    found.extend(page.entities.iter().filter_map(&read));
                    next = page.next;
                }
                Err(error) if error.kind() == Kind::TableNotFound => return Ok(found),
                Err(error) => return Err(error.into()),
            }
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    /// Asks, and once more behind the creation of the table where it is not there.
    fn there<T>(&self, request: impl AsyncFn(&Client) -> Result<T, Error>) -> Result<T, TableError> {
        match self.0.ask(&request) {
            Err(error) if error.kind() == Kind::TableNotFound => {
                match self.0.ask(async |client| client.create_table(NOTES).await) {
                    Err(error) if error.kind() != Kind::TableAlreadyExists => return Err(error.into()),
                    _ => {}
                }
                Ok(self.0.ask(&request)?)
            }
            asked => Ok(asked?),
        }
    }
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

fn text(entity: &Entity, name: &str) -> Option<String> {
    match entity.property(name)? {
        Value::String(text) => Some(text.to_string()),
        _ => None,
    }
}
