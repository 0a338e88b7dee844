//! The catalog, opened.

use super::schema;
use super::source_log;
use super::source_rows::KnownSources;
use crate::StoreError;
use crate::lock::FileIdentity;
use crate::sqlite;
use rusqlite::Connection;
use rusqlite::Row;
use std::collections::HashMap;
use std::path::Path;
use std::path::PathBuf;

/// The catalog, opened.
pub struct Catalog {
    pub(super) connection: Connection,
    pub(crate) path: PathBuf,
    /// Records of the sources that this one forgot, by their identity: whoever has such a source in memory still may come
    /// back with its old ledger, which is then counted there again.
    pub(super) forgotten: HashMap<u64, i64>,
    /// The sources that have a row, with what it says for good, where this is opened to write.
    pub(super) known: KnownSources,
    /// What waits to be entered in their rows, where this is opened to write.
    pub(super) waiting: source_log::SourceLog,
    /// Commits after which the source log is checkpointed.
    pub(super) checkpoint_commits: u64,
    /// The files that were opened, where this is opened to write.
    pub(super) seen: Vec<FileIdentity>,
}

impl Catalog {
    /// The catalog's path in a data folder.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join("catalog.db")
    }

    /// Opens it for whoever looks whether it is whole before anything is done to it.
    pub(crate) fn open_to_repair(data_dir: &Path) -> Result<Catalog, StoreError> {
        let path = Catalog::path_in(data_dir);
        Ok(Catalog::new(sqlite::open_to_write(&path, &schema::SCHEMA)?, path))
    }

    pub(crate) fn open_to_read(data_dir: &Path) -> Result<Catalog, StoreError> {
        let path = Catalog::path_in(data_dir);
        // Not `exists`: a folder that may not be entered is not an empty one.
        if !path.try_exists().map_err(StoreError::io(&path))? {
            return Err(StoreError::NoStore(data_dir.into()));
        }
        Ok(Catalog::new(sqlite::open_to_read(&path)?, path))
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

    /// An error where its path leads to another file than the one that is written to.
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
