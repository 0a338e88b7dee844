//! The commit point, and opening the catalog to write.

use super::accounting;
use super::accounting::CommitEntry;
use super::commit_clock as clock;
use super::database::Catalog;
use super::files::Touched;
use super::forwarding;
use super::hosts;
use super::idempotency;
use super::idempotency::IdempotencyKey;
use super::source_log;
use super::source_rows::insert_source;
use super::source_rows::is_known;
use super::source_rows::read_known;
use super::values::one;
use crate::StoreError;
use crate::source::SourceState;
use crate::sqlite;
use daytable_model::time;
use daytable_model::time::Ticks;
use rusqlite::params;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// The commits that happened: which pages a reader may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The number of the last commit.
    pub seq: i64,
    /// Lower numbers of commits that never happened.
    pub void: BTreeSet<i64>,
}

impl Committed {
    /// Whether pages of commit `seq` are data.
    pub fn includes(&self, seq: i64) -> bool {
        seq <= self.seq && !self.void.contains(&seq)
    }
}

/// Numbers of failed commits that are kept, for readers whose snapshot still has their pages. No snapshot lives long
/// enough for older ones.
const VOID_MAX: usize = 1000;

impl Catalog {
    pub(crate) fn open_to_write(data_dir: &Path) -> Result<Catalog, StoreError> {
        let mut catalog = Catalog::open_to_repair(data_dir)?;
        catalog.known = catalog.sql(read_known(&catalog.connection))?;
        let latest = catalog.sql(source_log::latest(&catalog.connection))?;
        let changed = catalog.changed_sources(latest)?;
        catalog.waiting = catalog.sql(source_log::SourceLog::read(&catalog.connection, changed))?;
        catalog.seen = sqlite::seen(&catalog.path)?;
        Ok(catalog)
    }

    /// Reads which commits happened.
    pub fn committed(&self) -> Result<Committed, StoreError> {
        let (committed, states) = self.sql((|| {
            // One statement is one snapshot: a number is never seen committed without being seen void as well.
            let mut statement = self
                .connection
                .prepare_cached("SELECT committed, NULL FROM state UNION ALL SELECT NULL, seq FROM failed_commit")?;
            let mut rows = statement.query([])?;
            let (mut committed, mut states) = (Committed::default(), 0);
            while let Some(row) = rows.next()? {
                match row.get(1)? {
                    Some(seq) => drop(committed.void.insert(seq)),
                    None => (committed.seq, states) = (row.get(0)?, states + 1),
                }
            }
            Ok((committed, states))
        })())?;
        // SQLite does not notice if a page of the catalog was exchanged.
        let foreign = |what: &str| Err(StoreError::Foreign(self.path.clone(), what.into()));
        if states != 1 {
            return foreign("it does not say which commit was the last");
        }
        if committed.void.last().is_some_and(|void| *void > committed.seq) {
            return foreign("it says that a commit which is still to come never happened");
        }
        Ok(committed)
    }

    /// The newest time in the text of a record.
    pub fn newest(&self) -> Result<Option<Ticks>, StoreError> {
        let newest = self.connection.query_row("SELECT newest FROM state", [], |row| row.get::<_, Option<i64>>(0));
        // An earlier build wrote a zero where there was no such record.
        Ok(self.sql(newest)?.filter(|ticks| *ticks > 0).and_then(Ticks::new))
    }

    /// The commit point of commit `seq`. If the commit adds idempotency keys, returns how many are left.
    pub(crate) fn commit<'s>(
        &mut self,
        seq: i64,
        touched: &[Touched<'_>],
        sources: impl Iterator<Item = &'s Arc<SourceState>>,
        keys: impl ExactSizeIterator<Item = &'s IdempotencyKey>,
        newest: Option<Ticks>,
        entry: CommitEntry<'_>,
    ) -> Result<Option<idempotency::KeyCount>, StoreError> {
        let (mut back, mut begun) = (Vec::new(), Vec::new());
        let mut moves = source_log::SourceLogRow::new();
        let sources: Vec<&Arc<SourceState>> = sources.inspect(|source| moves.push(source)).collect();
        let is_entered = self.waiting.is_due_with(&moves, self.checkpoint_commits);
        let result = (|| {
            let emptying = is_entered.then(|| self.waiting.truncation(&self.connection)).transpose()?;
            let transaction = self.connection.transaction()?;
            for Touched { file, entities, times } in touched {
                let (oldest, newest) = times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
                let noted = transaction
                    .prepare_cached(
                        "UPDATE file SET last_seq = ?2, entities = entities + ?3,
                         oldest = min(coalesce(oldest, ?4), coalesce(?4, oldest)),
                         newest = max(coalesce(newest, ?5), coalesce(?5, newest)) WHERE name = ?1",
                    )?
                    .execute(params![file, seq, entities, oldest, newest])?;
                one(noted)?;
            }
            let mut remembered = 0;
            for source in &sources {
                if !is_known(&self.known, source) {
                    insert_source(&transaction, source)?;
                    begun.push((source.identity, (source.generation, source.block.as_str().into())));
                    // A source with fewer records is a new one.
                    let records = source.ledger.records.cast_signed();
                    if let Some(old) = self.forgotten.get(&source.identity).filter(|old| **old <= records) {
                        remembered += old;
                        back.push(source.identity);
                    }
                }
            }
            match emptying {
                Some(emptying) => self.waiting.enter(&transaction, &sources, emptying)?,
                None => moves.insert(&transaction, seq)?,
            }
            let noted = transaction
                .prepare_cached(
                    "UPDATE state SET committed = ?1, newest = max(coalesce(newest, ?2), coalesce(?2, newest)),
                     records_in = records_in + ?3, rows_in = rows_in + ?4, rows_replaced = rows_replaced + ?5,
                     records_forgotten = records_forgotten - ?6",
                )?
                .execute(params![
                    seq,
                    newest.map(Ticks::get),
                    entry.records.cast_signed(),
                    entry.rows.cast_signed(),
                    entry.replaced.cast_signed(),
                    remembered
                ])?;
            one(noted)?;
            accounting::add(&transaction, entry.receipts)?;
            for (day, until) in entry.kept {
                let keep = "UPDATE day SET expires = max(coalesce(expires, 0), ?2) WHERE name = ?1 AND state = 'open'";
                transaction.prepare_cached(keep)?.execute(params![day.to_string(), until.get()])?;
            }
            forwarding::put_checksum(&transaction, seq, entry.checksum)?;
            let mut advances = entry.hosts.into_iter().flat_map(HashMap::values);
            advances.try_for_each(|advance| hosts::put_received(&transaction, advance, time::now()))?;
            if let Some(stamp) = entry.stamp {
                clock::put(&transaction, seq, stamp)?;
            }
            let key_count =
                (keys.len() > 0).then(|| idempotency::keep(&transaction, keys, time::now(), idempotency::KEYS_MAX));
            let key_count = key_count.transpose()?;
            transaction.commit()?;
            Ok(key_count)
        })();
        match &result {
            Ok(_) => {
                for identity in back {
                    self.forgotten.remove(&identity);
                }
                self.known.extend(begun);
                match is_entered {
                    true => self.waiting = source_log::SourceLog::default(),
                    false => self.waiting.add(&moves, sources),
                }
            }
            Err(_) => self.waiting.mark_doubtful(),
        }
        self.sql(result)
    }

    /// Records that commit `seq` never happened, so that its number is never used again.
    pub(crate) fn void(&mut self, seq: i64) -> Result<(), StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            transaction.execute("INSERT OR IGNORE INTO failed_commit VALUES (?1)", [seq])?;
            transaction.execute(
                "DELETE FROM failed_commit WHERE seq NOT IN (SELECT seq FROM failed_commit ORDER BY seq DESC LIMIT ?1)",
                [VOID_MAX as i64],
            )?;
            transaction.execute("UPDATE state SET committed = max(committed, ?1)", [seq])?;
            transaction.commit()
        })();
        self.sql(result)
    }

    /// Moves the journal into the database as far as possible. SQLite does so when the last connection closes, but a reader
    /// of this process may be open, and the journal may have lost its name: the next start would not find it.
    pub(crate) fn rescue_journal(&self) {
        if let Err(error) = crate::sqlite::checkpoint(&self.connection, false) {
            tracing::error!(%error, "failed to move the catalog's journal into the catalog");
        }
    }

    /// Checkpoints the source log and the journal, and closes the database.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        let Catalog { mut connection, path, waiting, .. } = self;
        if !waiting.is_doubtful() {
            let entered = waiting.truncation(&connection).and_then(|emptying| {
                let transaction = connection.transaction()?;
                waiting.enter(&transaction, &[], emptying)?;
                transaction.commit()
            });
            // The next opening finds the source log as it is.
            if let Err(error) = entered {
                tracing::error!(%error, "failed to checkpoint the source log: it stays as it is");
            }
        }
        sqlite::checkpoint(&connection, true).map_err(StoreError::sqlite(&path))?;
        connection.close().map_err(|(_, e)| StoreError::sqlite(&path)(e))
    }
}
