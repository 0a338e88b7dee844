//! Sources: the rows of the last checkpoint, with the source log applied.

use super::accounting;
use super::database::Catalog;
use super::source_log;
use super::source_rows::read_source;
use crate::StoreError;
use crate::error::SourceLogError;
use crate::source::Ledger;
use crate::source::SourceState;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;

impl Catalog {
    /// The current state of every source.
    pub fn sources(&self) -> Result<Vec<SourceState>, StoreError> {
        // Checkpoint and log must be read in one snapshot: the one that is open already, or a new one.
        let moment = self.connection.is_autocommit().then(|| self.connection.unchecked_transaction()).transpose();
        let _moment = self.sql(moment)?;
        let mut sources = self.entered_sources()?;
        let mut latest = self.sql(source_log::latest(&self.connection))?;
        apply(&mut sources, &mut latest);
        Ok(sources)
    }

    /// Every source at the last checkpoint.
    pub(crate) fn entered_sources(&self) -> Result<Vec<SourceState>, StoreError> {
        let select = "SELECT identity, block, kind, path, device, inode, generation, head, position, marks, last_time,
                      status, ledger, seen, profile, cursor FROM source ORDER BY block, path";
        self.all(select, read_source)
    }

    /// The current state of sources that advanced since the last checkpoint.
    pub(super) fn changed_sources(&self, mut latest: source_log::LatestDeltas) -> Result<Vec<SourceState>, StoreError> {
        if latest.is_empty() {
            return Ok(Vec::new());
        }
        let mut sources = self.entered_sources()?;
        sources.retain(|source| latest.contains_key(&source.identity));
        apply(&mut sources, &mut latest);
        for identity in latest.keys() {
            let identity = identity.to_string();
            tracing::error!(identity, "the catalog lacks the row of a source: its file is read as a new source");
        }
        Ok(sources)
    }

    /// Fails if the source log is unreadable, or a newer program wrote it. Damage is not a failure.
    pub(crate) fn check_source_log(&self) -> Result<(), StoreError> {
        self.sql(source_log::readable(&self.connection)).map(drop)
    }

    /// Removes the damaged part of the source log, and checkpoints the rest. A source then has an earlier position.
    /// Returns the errors of the removed rows.
    pub(crate) fn repair_source_log(&mut self) -> Result<Vec<String>, StoreError> {
        let (latest, damaged) = self.sql(source_log::readable(&self.connection))?;
        if damaged.is_empty() {
            return Ok(Vec::new());
        }
        let sources = self.changed_sources(latest)?;
        let mended = source_log::rebuild(&mut self.connection, &sources);
        self.sql(mended)?;
        let left_out = |unread: SourceLogError| {
            format!("catalog.db: {unread}; left out: its sources may be read again from earlier positions")
        };
        Ok(damaged.into_iter().map(left_out).collect())
    }

    /// Removes sources that ended before `before`. Returns their identities.
    pub(crate) fn forget_sources(&mut self, before: Ticks) -> Result<Vec<SourceId>, StoreError> {
        let delete = "DELETE FROM source WHERE status = 'ended' AND kind = 'tail' AND seen < ?1
                    RETURNING identity, ledger";
        if self.waiting.is_doubtful() {
            return Err(StoreError::Refused("a commit failed, and the store was not opened again".into()));
        }
        let result = (|| {
            let emptying = self.waiting.truncation(&self.connection)?;
            let transaction = self.connection.unchecked_transaction()?;
            // The deletion needs the current states.
            self.waiting.enter(&transaction, &[], emptying)?;
            let forgotten: Vec<([u8; SourceId::BYTES], Ledger)> = {
                let mut statement = transaction.prepare(delete)?;
                let rows = statement.query_map([before.get()], |row| {
                    Ok((row.get(0)?, accounting::ledger_in(&row.get::<_, String>(1)?)?))
                })?;
                rows.collect::<rusqlite::Result<_>>()?
            };
            let records: i64 = forgotten.iter().map(|(_, ledger)| ledger.records.cast_signed()).sum();
            transaction.execute("UPDATE state SET records_forgotten = records_forgotten + ?1", [records])?;
            transaction.commit()?;
            let of = |(identity, ledger): ([u8; SourceId::BYTES], Ledger)| {
                (SourceId::from_bytes(identity), ledger.records.cast_signed())
            };
            Ok(forgotten.into_iter().map(of).collect::<Vec<_>>())
        })();
        let forgotten = self.sql(result)?;
        self.waiting = source_log::SourceLog::default();
        forgotten.iter().for_each(|(identity, _)| drop(self.known.remove(identity)));
        self.forgotten.extend(forgotten.iter().copied());
        Ok(forgotten.into_iter().map(|(identity, _)| identity).collect())
    }
}

/// Applies the log to `sources`, and removes the applied entries.
pub(super) fn apply(sources: &mut [SourceState], latest: &mut source_log::LatestDeltas) {
    for source in sources {
        if let Some(delta) = latest.remove(&source.identity) {
            delta.apply(source);
        }
    }
}
