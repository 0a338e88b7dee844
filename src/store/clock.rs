//! When commits were: of a row in an outbox it is asked how long ago it was accepted.
//!
//! A note a second at most, in the transaction that is the commit point; those that nobody can ask for go with the next.

use super::StoreError;
use super::catalogue::Catalogue;
use crate::time::Ticks;
use rusqlite::{Connection, OptionalExtension, params};

/// Format 4 keeps it.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE commit_clock(
        seq INTEGER PRIMARY KEY,             -- a commit,
        at INTEGER NOT NULL                  -- and its ticks
    );
";

/// What a commit notes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) at: Ticks,
    /// The oldest commit that has rows which wait.
    pub(crate) oldest: i64,
}

/// Notes when commit `seq` was, and forgets what is older than all that waits.
pub(crate) fn put(connection: &Connection, seq: i64, stamp: Stamp) -> rusqlite::Result<()> {
    let put = "INSERT OR REPLACE INTO commit_clock VALUES (?1, ?2)";
    connection.prepare_cached(put)?.execute(params![seq, stamp.at.get()])?;
    let forget = "DELETE FROM commit_clock WHERE seq < (SELECT max(seq) FROM commit_clock WHERE seq <= ?1)";
    connection.prepare_cached(forget)?.execute([stamp.oldest]).map(drop)
}

impl Catalogue {
    /// Whether a commit was ever noted: only the outbox of a remote store does.
    pub(crate) fn has_stamps(&self) -> Result<bool, StoreError> {
        let found = (|| {
            // A catalogue of an earlier format has no such table.
            let known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'commit_clock'";
            let is_known = self.connection().prepare_cached(known)?.exists([])?;
            Ok(is_known && self.connection().prepare_cached("SELECT 1 FROM commit_clock LIMIT 1")?.exists([])?)
        })();
        found.map_err(StoreError::sqlite("catalog.db"))
    }

    /// When commit `seq` was, or the one before it of which that is known; where none is, the one after it.
    pub(crate) fn accepted_at(&self, seq: i64) -> Result<Option<Ticks>, StoreError> {
        let select = "SELECT coalesce((SELECT at FROM commit_clock WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1),
                                      (SELECT min(at) FROM commit_clock))";
        let found = (|| {
            let mut statement = self.connection().prepare_cached(select)?;
            statement.query_row([seq], |row| row.get::<_, Option<i64>>(0)).optional()
        })();
        let found = found.map_err(StoreError::sqlite("catalog.db"))?;
        Ok(found.flatten().and_then(Ticks::new))
    }
}
