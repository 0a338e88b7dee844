//! What the catalog knows of an outbox: whether the folder is one, and when commits were.
//!
//! Of a row that waits it is asked how long ago it was accepted. So there is a note a second at most, in the transaction
//! that is the commit point; those that nobody can ask for go with the next.

use super::database::Catalog;
use crate::StoreError;
use daytable_model::key::TableName;
use daytable_model::time::Ticks;
use rusqlite::{Connection, OptionalExtension, params};

/// What a commit notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitTime {
    pub(crate) at: Ticks,
    /// The oldest commit that has rows which wait.
    pub(crate) oldest: i64,
}

/// Notes when commit `seq` was, and forgets what is older than all that waits.
pub(crate) fn put(connection: &Connection, seq: i64, stamp: CommitTime) -> rusqlite::Result<()> {
    let put = "INSERT OR REPLACE INTO commit_clock VALUES (?1, ?2)";
    connection.prepare_cached(put)?.execute(params![seq, stamp.at.get()])?;
    let forget = "DELETE FROM commit_clock WHERE seq < (SELECT max(seq) FROM commit_clock WHERE seq <= ?1)";
    connection.prepare_cached(forget)?.execute([stamp.oldest]).map(drop)
}

impl Catalog {
    /// Whether rows are sent elsewhere.
    pub(crate) fn is_outbox(&self) -> Result<bool, StoreError> {
        Ok(self.local_table()?.is_some())
    }

    /// The table whose rows stay here, where those of all others are sent elsewhere; none where nothing is.
    pub(crate) fn local_table(&self) -> Result<Option<TableName>, StoreError> {
        let found: Option<String> = self
            .connection()
            .query_row("SELECT local_table FROM state", [], |row| row.get(0))
            .map_err(StoreError::sqlite(&self.path))?;
        Ok(found.and_then(|name| TableName::new(&name).ok()))
    }

    /// Notes that rows are sent elsewhere, but for those of one table.
    pub(crate) fn set_local_table(&self, stays: &TableName) -> Result<(), StoreError> {
        let set = "UPDATE state SET local_table = ?1 WHERE local_table IS NOT ?1";
        self.connection().execute(set, [stays.as_str()]).map(drop).map_err(StoreError::sqlite(&self.path))
    }

    /// Notes that nothing is sent, and that what was to be is a part of its day like any other.
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

    /// When commit `seq` was, or the one before it of which that is known; where none is, the one after it.
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
