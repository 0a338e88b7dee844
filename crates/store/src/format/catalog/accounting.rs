//! Accounting: accepted records and rows, stored rows, and rows that left, each counted by the responsible code, in its
//! own transaction.
//!
//! ```text
//! records   ledgers of sources + of listeners + of forgotten sources     =  records_before + records_in
//! rows      rows of live files + dropped + sent + replaced               =  rows_before + rows_in
//! ```
//!
//! The committer counts the right side, from the rows that it receives, in a row of the catalog that each commit writes
//! anyway. The left side comes from the sources and the files. A row lost between source and file, a replaced file, or
//! a ledger changed by hand therefore unbalances the accounts. One transaction reads all accounts, so concurrent
//! commits do not disturb the comparison.
//!
//! A transaction that moves rows between accounts also updates the accounts: `end_seal` counts the rows whose key a
//! later row has (`replaced`), `drop_day` counts `dropped`, the removal of an outbox file counts `sent`, and forgotten
//! sources are counted. Restored days are copies and are not counted. `records_before` and `rows_before` are the
//! opening balance: zero, unless `repair` set it to balance the accounts.

use super::database::Catalog;
use super::source_log::latest as latest_deltas;
use crate::StoreError;
use crate::format::forward_intervals::{HostAdvance, ReceivedCommits};
use crate::format::forward_position::FolderOrigin;
use crate::source::Ledger;
use daytable_model::key::DayTable;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Records of a listener, or of daytable itself, in one submission, and the losses since the submission before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceReceipt {
    /// The protocol, `syslog` or `push`. `daytable` for rows that daytable itself writes, and `outbox` for rows that the
    /// outbox did not send.
    pub kind: &'static str,
    /// The name of the block, or of the endpoint.
    pub name: Arc<str>,
    /// Records in the submission.
    pub records: u64,
    /// Bytes received since the receipt before.
    pub bytes: u64,
    /// Records lost or refused since the receipt before, by reason.
    pub losses: Vec<(String, u64)>,
}

impl SourceReceipt {
    /// A receipt without losses.
    pub fn records(kind: &'static str, name: impl Into<Arc<str>>, records: u64) -> SourceReceipt {
        SourceReceipt { kind, name: name.into(), records, bytes: 0, losses: Vec::new() }
    }
}

/// Whether a reason of a ledger counts bytes, not records.
pub fn counts_bytes(reason: &str) -> bool {
    reason.ends_with("_bytes") || reason.starts_with("bytes ")
}

/// The ledger of a listener: everything that it received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerLedger {
    /// The name of the block, or of the endpoint.
    pub listener: String,
    /// The protocol, as in [`SourceReceipt::kind`].
    pub kind: String,
    /// Committed records.
    pub records: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Records lost or refused, by reason. Written within a second, so a kill may lose the last counts.
    pub losses: BTreeMap<String, u64>,
}

/// The counts of a commit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommitEntry<'t> {
    pub(crate) stamp: Option<super::commit_clock::CommitTime>,
    pub(crate) records: u64,
    pub(crate) rows: u64,
    /// Rows without a place in a file, because a later row has the same key.
    pub(crate) replaced: u64,
    pub(crate) receipts: &'t [SourceReceipt],
    /// Expired days that an import keeps, and until when.
    pub(crate) kept: &'t [(DayTable, Ticks)],
    /// The checksum of all commits, with this one.
    pub(crate) checksum: u64,
    /// Hosts that forwarded rows of it.
    pub(crate) hosts: Option<&'t HashMap<FolderOrigin, HostAdvance<ReceivedCommits>, foldhash::quality::RandomState>>,
}

/// All accounts, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Records given to commits.
    pub records_in: i64,
    /// Records of the opening balance.
    pub records_before: i64,
    /// Committed records in the ledgers of sources.
    pub source_records: i64,
    /// Committed records of forgotten sources.
    pub forgotten_records: i64,
    /// Committed records in the ledgers of listeners.
    pub listener_records: i64,
    /// Rows given to commits.
    pub rows_in: i64,
    /// Rows of the opening balance.
    pub rows_before: i64,
    /// Rows of live files, duplicates included.
    pub live_rows: i64,
    /// Rows dropped with their day.
    pub dropped_rows: i64,
    /// Rows of removed files of an outbox. All rows of such a file were sent.
    pub sent_rows: i64,
    /// Rows replaced by a later row of the same key, if their file is sealed or never had them.
    pub replaced_rows: i64,
}

impl Accounts {
    /// Records committed according to the ledgers, minus records given to commits. Zero, if the accounts balance.
    pub fn records_surplus(&self) -> i64 {
        self.source_records + self.forgotten_records + self.listener_records - self.records_before - self.records_in
    }

    /// Rows stored or gone, minus rows given to commits. Zero, if the accounts balance.
    pub fn rows_surplus(&self) -> i64 {
        self.live_rows + self.dropped_rows + self.sent_rows + self.replaced_rows - self.rows_before - self.rows_in
    }
}

const READ: &str = "
    SELECT records_in, records_before, records_forgotten,
           (SELECT coalesce(sum(records), 0) FROM listener), rows_in, rows_before,
           (SELECT coalesce(sum(entities), 0) FROM file WHERE day NOT IN (SELECT name FROM day WHERE state = 'restored')),
           rows_dropped, rows_sent, rows_replaced FROM state";

/// Reads all accounts, in the open transaction.
fn read(connection: &Connection) -> rusqlite::Result<Accounts> {
    let accounts = connection.query_row(READ, [], |row| {
        Ok(Accounts {
            records_in: row.get(0)?,
            records_before: row.get(1)?,
            source_records: 0,
            forgotten_records: row.get(2)?,
            listener_records: row.get(3)?,
            rows_in: row.get(4)?,
            rows_before: row.get(5)?,
            live_rows: row.get(6)?,
            dropped_rows: row.get(7)?,
            sent_rows: row.get(8)?,
            replaced_rows: row.get(9)?,
        })
    });
    Ok(Accounts { source_records: source_records(connection)?, ..accounts? })
}

/// The committed records in the ledgers of sources.
fn source_records(connection: &Connection) -> rusqlite::Result<i64> {
    let latest = latest_deltas(connection)?;
    let mut statement = connection.prepare_cached("SELECT identity, ledger FROM source")?;
    let ledgers = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let mut records = 0;
    for ledger in ledgers {
        let (identity, ledger) = ledger?;
        let ledger = match latest.get(&SourceId::from_bytes(identity)) {
            Some(delta) => delta.ledger,
            None => ledger_in(&ledger)?,
        };
        records += ledger.records.cast_signed();
    }
    Ok(records)
}

/// Parses the ledger of a source.
pub(crate) fn ledger_in(text: &str) -> rusqlite::Result<Ledger> {
    let unreadable = |error| rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error));
    serde_json::from_str(text).map_err(unreadable)
}

/// Adds the receipts of a commit to the ledgers of listeners, in the transaction of the commit.
pub(crate) fn add(connection: &Connection, receipts: &[SourceReceipt]) -> rusqlite::Result<()> {
    for SourceReceipt { kind, name, records, bytes, losses } in receipts {
        let (records, bytes) = (records.cast_signed(), bytes.cast_signed());
        let update = "UPDATE listener SET records = records + ?3, bytes = bytes + ?4 WHERE kind = ?1 AND name = ?2";
        if connection.prepare_cached(update)?.execute(params![kind, name, records, bytes])? == 0 {
            let insert = "INSERT INTO listener VALUES (?1, ?2, ?3, ?4, '{}')";
            connection.execute(insert, params![kind, name, records, bytes])?;
        }
        if losses.is_empty() {
            continue;
        }
        let select = "SELECT losses FROM listener WHERE kind = ?1 AND name = ?2";
        let known: Option<String> = connection.query_row(select, params![kind, name], |row| row.get(0)).optional()?;
        let mut total: BTreeMap<String, u64> =
            known.and_then(|known| serde_json::from_str(&known).ok()).unwrap_or_default();
        for (reason, count) in losses {
            *total.entry(reason.clone()).or_default() += count;
        }
        let update = "UPDATE listener SET losses = ?3 WHERE kind = ?1 AND name = ?2";
        connection.execute(update, params![kind, name, serde_json::to_string(&total).unwrap_or_default()])?;
    }
    Ok(())
}

impl Catalog {
    /// All accounts, at one moment.
    pub fn accounts(&self) -> Result<Accounts, StoreError> {
        let accounts = self.connection().unchecked_transaction().and_then(|transaction| read(&transaction));
        accounts.map_err(StoreError::sqlite(&self.path))
    }

    /// The ledgers of all listeners.
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

    /// Balances the accounts by changing the opening balance, because `repair` keeps all rows found. Returns the
    /// earlier surplus of records and rows.
    pub(crate) fn balance_accounts(&self) -> Result<(i64, i64), StoreError> {
        let accounts = self.accounts()?;
        let (records, rows) = (accounts.records_surplus(), accounts.rows_surplus());
        let update = "UPDATE state SET records_before = records_before + ?1, rows_before = rows_before + ?2";
        let updated = self.connection().execute(update, params![records, rows]);
        updated.map(|_| (records, rows)).map_err(StoreError::sqlite(&self.path))
    }
}
