//! The outbox in the catalog: whether the folder is one, and the times of commits.
//!
//! The age of a waiting row comes from the time of its commit. At most one commit a second records its time, in the
//! transaction of the commit point. That transaction also removes times that are no longer needed.

use super::database::Catalog;
use crate::StoreError;
use daytable_model::key::TableName;
use daytable_model::time::Ticks;
use rusqlite::{Connection, OptionalExtension, params};

/// The recorded time of a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitTime {
    pub(crate) at: Ticks,
    /// The oldest commit with waiting rows.
    pub(crate) oldest: i64,
}

/// Records the time of commit `seq`, and removes times older than all waiting rows.
pub(crate) fn put(connection: &Connection, seq: i64, stamp: CommitTime) -> rusqlite::Result<()> {
    let put = "INSERT OR REPLACE INTO commit_clock VALUES (?1, ?2)";
    connection.prepare_cached(put)?.execute(params![seq, stamp.at.get()])?;
    let forget = "DELETE FROM commit_clock WHERE seq < (SELECT max(seq) FROM commit_clock WHERE seq <= ?1)";
    connection.prepare_cached(forget)?.execute([stamp.oldest]).map(drop)
}

impl Catalog {
    /// Whether rows are forwarded to a remote store.
    pub(crate) fn is_outbox(&self) -> Result<bool, StoreError> {
        Ok(self.local_table()?.is_some())
    }

    /// The configured table that is not forwarded; none if forwarding is off.
    pub(crate) fn local_table(&self) -> Result<Option<TableName>, StoreError> {
        let found: Option<String> = self
            .connection()
            .query_row("SELECT local_table FROM state", [], |row| row.get(0))
            .map_err(StoreError::sqlite(&self.path))?;
        Ok(found.and_then(|name| TableName::new(&name).ok()))
    }

    /// Records that all tables but this one are forwarded.
    pub(crate) fn set_local_table(&self, stays: &TableName) -> Result<(), StoreError> {
        let set = "UPDATE state SET local_table = ?1 WHERE local_table IS NOT ?1";
        self.connection().execute(set, [stays.as_str()]).map(drop).map_err(StoreError::sqlite(&self.path))
    }

    /// Records that forwarding is off. Unsent rows become part of their day like any other.
    pub(crate) fn disable_forwarding(&self) -> Result<(), StoreError> {
        let none = "SELECT local_table IS NULL AND NOT EXISTS (SELECT 1 FROM file WHERE role = 'outbox') FROM state";
        let is_none: bool =
            self.connection().query_row(none, [], |row| row.get(0)).map_err(StoreError::sqlite(&self.path))?;
        if is_none {
            return Ok(());
        }
        let set = "BEGIN IMMEDIATE; UPDATE state SET local_table = NULL;
                   UPDATE file SET role = 'closed' WHERE role = 'outbox'; COMMIT;";
        self.connection().execute_batch(set).map_err(StoreError::sqlite(&self.path))
    }

    /// The time of commit `seq`, or of the nearest earlier commit with a recorded time; without one, the earliest
    /// recorded time.
    pub(crate) fn accepted_at(&self, seq: i64) -> Result<Option<Ticks>, StoreError> {
        let select = "SELECT coalesce((SELECT at FROM commit_clock WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1),
                                      (SELECT min(at) FROM commit_clock))";
        let found = (|| {
            let mut statement = self.connection().prepare_cached(select)?;
            statement.query_row([seq], |row| row.get::<_, Option<i64>>(0)).optional()
        })();
        let found = found.map_err(StoreError::sqlite(&self.path))?;
        Ok(found.flatten().and_then(Ticks::new))
    }
}
