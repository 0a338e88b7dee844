//! The catalog, opened.

use super::schema;
use super::source_log;
use super::source_rows::KnownSources;
use crate::StoreError;
use crate::lock::FileIdentity;
use crate::sqlite;
use daytable_model::source_id::SourceId;
use rusqlite::Connection;
use rusqlite::Row;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

/// The catalog, opened.
pub struct Catalog {
    pub(super) connection: Connection,
    pub(crate) path: PathBuf,
    /// Records of removed sources, by identity. Such a source may still be in memory and return with its old ledger.
    /// Then its ledger counts these records again, and this entry is removed.
    pub(super) forgotten: HashMap<SourceId, i64>,
    /// The fixed values of each source with a row, if the catalog is opened to write.
    pub(super) known: KnownSources,
    /// The source log, if the catalog is opened to write.
    pub(super) waiting: source_log::SourceLog,
    /// Commits after which the source log is checkpointed.
    pub(super) checkpoint_commits: u64,
    /// The identities of the opened files, if the catalog is opened to write.
    pub(super) seen: Vec<FileIdentity>,
}

impl Catalog {
    /// The catalog's path in a data folder.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join("catalog.db")
    }

    /// Opens the catalog without any check of its contents, for `repair` and before a full opening.
    pub(crate) fn open_to_repair(data_dir: &Path) -> Result<Catalog, StoreError> {
        let path = Catalog::path_in(data_dir);
        Ok(Catalog::new(sqlite::open_to_write(&path, &schema::SCHEMA)?, path))
    }

    pub(crate) fn open_to_read(data_dir: &Path) -> Result<Catalog, StoreError> {
        let path = Catalog::path_in(data_dir);
        // Not `exists`: a folder without permission to enter is not an empty one.
        if !path.try_exists().map_err(StoreError::io(&path))? {
            return Err(StoreError::NoStore(data_dir.into()));
        }
        Ok(Catalog::new(sqlite::open_to_read(&path)?, path))
    }

    /// The catalog of a data folder without records.
    pub(crate) fn empty(data_dir: &Path) -> Result<Catalog, StoreError> {
        Ok(Catalog::new(sqlite::open_empty(&schema::SCHEMA)?, Catalog::path_in(data_dir)))
    }

    pub(super) fn new(connection: Connection, path: PathBuf) -> Catalog {
        let (known, waiting) = (KnownSources::default(), source_log::SourceLog::default());
        let checkpoint_commits = source_log::CHECKPOINT_COMMITS;
        Catalog { connection, path, forgotten: HashMap::new(), known, waiting, checkpoint_commits, seen: Vec::new() }
    }

    /// Sets the number of commits after which the source log is checkpointed.
    pub(crate) fn set_checkpoint_commits(&mut self, commits: u64) {
        self.checkpoint_commits = commits;
    }

    /// Fails if the path now leads to another file than the opened one.
    pub(crate) fn check_place(&self) -> Result<(), StoreError> {
        self.seen.iter().try_for_each(FileIdentity::check)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(StoreError::sqlite(&self.path))
    }

    pub(super) fn all<T>(
        &self,
        select: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let result = (|| {
            let mut statement = self.connection.prepare_cached(select)?;
            let rows = statement.query_map([], |row| read(row))?;
            rows.collect()
        })();
        self.sql(result)
    }

    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        })();
        self.sql(result)
    }
}
