//! The books: what came in, what stands and what went, each counted by whoever did it, in the transaction that did it.
//!
//! ```text
//! records   ledgers of sources + listeners + sources that are forgotten   =  records_before + records_in
//! rows      files that are live + dropped + sent + replaced               =  rows_before + rows_in
//! ```
//!
//! The right side is counted by the committer, of the rows that it was given: one row of the catalog that every commit
//! writes anyway. The left side is what sources say of themselves, and the files. So a row that is lost between source
//! and file, a file that is swapped, and a ledger that was changed by hand each leave the books out of balance; and as
//! all of it is in the catalog, one transaction reads it as it was at one moment, whatever is committed meanwhile.
//!
//! What moves rows from one account to another does so in its own transaction: `end_seal` (what a later row with the same key took the place
//! of is `replaced`), `drop_day` (`dropped`), the file of an outbox that is let go (`sent`), sources that are forgotten. Restored days
//! are copies and stand outside. A folder of an earlier format has an opening balance, `records_before` and `rows_before`:
//! what it held when it was brought to this one; and so has one that `repair` changed.

use super::database::Catalog;
use super::source_log::latest as latest_deltas;
use crate::StoreError;
use crate::source::Ledger;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one who listens, or this program itself, gave to a submission, and what it lost since the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceReceipt {
    /// What it speaks: `syslog` or `push`; `daytable` for rows that this program writes of itself, `outbox` for those that it
    /// did not send.
    pub kind: &'static str,
    /// The name of its block, or of its endpoint.
    pub name: Arc<str>,
    /// Its records in the submission.
    pub records: u64,
    /// Bytes that came since it was said last.
    pub bytes: u64,
    /// What was lost or refused since it was said last, by reason.
    pub losses: Vec<(String, u64)>,
}

impl SourceReceipt {
    /// Records, and nothing that was lost.
    pub fn records(kind: &'static str, name: impl Into<Arc<str>>, records: u64) -> SourceReceipt {
        SourceReceipt { kind, name: name.into(), records, bytes: 0, losses: Vec::new() }
    }
}

/// What the ledger keeps of a listener: all that it ever took, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerLedger {
    /// The name of its block, or of its endpoint.
    pub listener: String,
    /// What it speaks.
    pub kind: String,
    /// Records that are committed.
    pub records: u64,
    /// Bytes that came.
    pub bytes: u64,
    /// What was lost or refused, by reason. Written a second after it happened: a kill may take the last ones along.
    pub losses: BTreeMap<String, u64>,
}

/// What a commit enters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommitEntry<'t> {
    pub(crate) stamp: Option<super::commit_clock::CommitTime>,
    pub(crate) records: u64,
    pub(crate) rows: u64,
    /// Rows that were given, less those that files were noted to have: a later one with the same key took their place.
    pub(crate) replaced: u64,
    pub(crate) taken: &'t [SourceReceipt],
}

/// All accounts, as they were at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Records that commits were given.
    pub records_in: i64,
    /// Records before there were books.
    pub records_before: i64,
    /// What the sources say they committed,
    pub of_sources: i64,
    /// and those that the catalog forgot,
    pub forgotten: i64,
    /// and the listeners.
    pub of_listeners: i64,
    /// Rows that commits were given.
    pub rows_in: i64,
    /// Rows before there were books.
    pub rows_before: i64,
    /// Rows of files that are live, gross.
    pub standing: i64,
    /// Rows that went with their day.
    pub dropped: i64,
    /// Rows of files of an outbox that were let go, all sent.
    pub sent: i64,
    /// Rows that a later one with the same key took the place of, as far as their file is sealed or never had them.
    pub replaced: i64,
}

impl Accounts {
    /// How many records more the sources say they committed than commits were given. None is how it should be.
    pub fn records_out(&self) -> i64 {
        self.of_sources + self.forgotten + self.of_listeners - self.records_before - self.records_in
    }

    /// How many rows more there are, or went, than commits were given.
    pub fn rows_out(&self) -> i64 {
        self.standing + self.dropped + self.sent + self.replaced - self.rows_before - self.rows_in
    }
}

const READ: &str = "
    SELECT records_in, records_before, records_forgotten,
           (SELECT coalesce(sum(records), 0) FROM listener), rows_in, rows_before,
           (SELECT coalesce(sum(entities), 0) FROM file WHERE day NOT IN (SELECT name FROM day WHERE state = 'restored')),
           rows_dropped, rows_sent, rows_replaced FROM state WHERE books_opened";

/// Reads all accounts, in the transaction that is open; none where the books were not opened yet.
fn read(connection: &Connection) -> rusqlite::Result<Option<Accounts>> {
    let books = connection.query_row(READ, [], |row| {
        Ok(Accounts {
            records_in: row.get(0)?,
            records_before: row.get(1)?,
            of_sources: 0,
            forgotten: row.get(2)?,
            of_listeners: row.get(3)?,
            rows_in: row.get(4)?,
            rows_before: row.get(5)?,
            standing: row.get(6)?,
            dropped: row.get(7)?,
            sent: row.get(8)?,
            replaced: row.get(9)?,
        })
    });
    let Some(books) = books.optional()? else { return Ok(None) };
    Ok(Some(Accounts { of_sources: of_sources(connection)?, ..books }))
}

/// What the sources say they committed.
fn of_sources(connection: &Connection) -> rusqlite::Result<i64> {
    let latest = latest_deltas(connection)?;
    let mut statement = connection.prepare_cached("SELECT identity, ledger FROM source")?;
    let ledgers = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let mut records = 0;
    for ledger in ledgers {
        let (identity, ledger) = ledger?;
        let ledger = match latest.get(&identity.cast_unsigned()) {
            Some(moved) => moved.ledger,
            None => ledger_in(&ledger)?,
        };
        records += ledger.records.cast_signed();
    }
    Ok(records)
}

/// The ledger in the text that a source has.
pub(crate) fn ledger_in(text: &str) -> rusqlite::Result<Ledger> {
    let unreadable = |error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error));
    serde_json::from_str(text).map_err(unreadable)
}

/// Opens the books of a catalog that has none yet: what it says now is what they begin with. Done before anything is
/// committed to it, so a kill in between has it done by the next.
pub(crate) fn open(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let is_open = transaction.query_row("SELECT books_opened FROM state", [], |row| row.get::<_, bool>(0));
    // Without the row whoever opens the catalog refuses it.
    if is_open.optional()?.unwrap_or(true) {
        return Ok(());
    }
    let records = of_sources(&transaction)?;
    transaction.execute(
        "UPDATE state SET books_opened = 1, records_before = ?1,
             rows_before = (SELECT coalesce(sum(entities), 0) FROM file
                            WHERE day NOT IN (SELECT name FROM day WHERE state = 'restored'))",
        [records],
    )?;
    transaction.commit()
}

/// Enters what a commit brings, in its transaction.
pub(crate) fn enter(connection: &Connection, taken: &[SourceReceipt]) -> rusqlite::Result<()> {
    for SourceReceipt { kind, name, records, bytes, losses } in taken {
        let (records, bytes) = (records.cast_signed(), bytes.cast_signed());
        let add = "UPDATE listener SET records = records + ?3, bytes = bytes + ?4 WHERE kind = ?1 AND name = ?2";
        if connection.prepare_cached(add)?.execute(params![kind, name, records, bytes])? == 0 {
            let begin = "INSERT INTO listener VALUES (?1, ?2, ?3, ?4, '{}')";
            connection.execute(begin, params![kind, name, records, bytes])?;
        }
        if losses.is_empty() {
            continue;
        }
        let find = "SELECT losses FROM listener WHERE kind = ?1 AND name = ?2";
        let known: Option<String> = connection.query_row(find, params![kind, name], |row| row.get(0)).optional()?;
        let mut all: BTreeMap<String, u64> =
            known.and_then(|known| serde_json::from_str(&known).ok()).unwrap_or_default();
        for (reason, count) in losses {
            *all.entry(reason.clone()).or_default() += count;
        }
        let put = "UPDATE listener SET losses = ?3 WHERE kind = ?1 AND name = ?2";
        connection.execute(put, params![kind, name, serde_json::to_string(&all).unwrap_or_default()])?;
    }
    Ok(())
}

impl Catalog {
    /// The books; none where no daemon of this version has opened the folder yet.
    pub fn books(&self) -> Result<Option<Accounts>, StoreError> {
        // One transaction: all of it as it was at one moment.
        let books = self.connection().unchecked_transaction().and_then(|transaction| read(&transaction));
        books.map_err(StoreError::sqlite(&self.path))
    }

    /// What the ledger keeps of listeners.
    pub fn listeners(&self) -> Result<Vec<ListenerLedger>, StoreError> {
        let read = || {
            let select = "SELECT kind, name, records, bytes, losses FROM listener ORDER BY kind, name";
            let mut statement = self.connection().prepare(select)?;
            let listeners = statement.query_map([], |row| {
                let number = |at| row.get::<_, i64>(at).map(|number| u64::try_from(number).unwrap_or(0));
                let losses: String = row.get(4)?;
                Ok(ListenerLedger {
                    kind: row.get(0)?,
                    listener: row.get(1)?,
                    records: number(2)?,
                    bytes: number(3)?,
                    losses: serde_json::from_str(&losses).unwrap_or_default(),
                })
            })?;
            listeners.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(StoreError::sqlite(&self.path))
    }

    /// Balances the books by their opening: what `repair` found is what there is. Says by how many records and rows
    /// they were out.
    pub(crate) fn balance_books(&self) -> Result<(i64, i64), StoreError> {
        let Some(books) = self.books()? else { return Ok((0, 0)) };
        let (records, rows) = (books.records_out(), books.rows_out());
        let set = "UPDATE state SET records_before = records_before + ?1, rows_before = rows_before + ?2";
        let set = self.connection().execute(set, params![records, rows]);
        set.map(|_| (records, rows)).map_err(StoreError::sqlite(&self.path))
    }
}
