//! What a commit may do, and what a table consists of.

use crate::schema::TableColumn;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Values of a file's partition columns, as Delta writes them: `2026-11-20` for a date. `None` is null.
pub type PartitionValues = BTreeMap<String, Option<String>>;

/// A data file of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedFile {
    /// The object's path below the table, not encoded; another writer's may be absolute.
    pub path: Arc<str>,
    /// A value for each partition column.
    pub partition_values: PartitionValues,
    /// Bytes of the file.
    pub size: u64,
    /// When the file was made, in milliseconds since 1970.
    pub modification_time: i64,
    /// Statistics of its columns, as JSON.
    pub stats: Option<String>,
    /// What the writer noted about it.
    pub tags: BTreeMap<String, String>,
}

impl AddedFile {
    /// A file without statistics and notes.
    pub fn new(path: &str, partition_values: PartitionValues, size: u64, modification_time: i64) -> AddedFile {
        AddedFile { path: path.into(), partition_values, size, modification_time, stats: None, tags: BTreeMap::new() }
    }

    /// Its removal at `now`, in milliseconds since 1970.
    pub fn removal(&self, now: i64) -> RemovedFile {
        RemovedFile {
            path: Arc::clone(&self.path),
            deletion_time: now,
            partition_values: Some(self.partition_values.clone()),
            size: Some(self.size),
        }
    }

    /// Bytes that it takes in memory, roughly.
    pub(crate) fn weight(&self) -> usize {
        let tags: usize = self.tags.iter().map(|(name, value)| ENTRY_BYTES + name.len() + value.len()).sum();
        let stats = self.stats.as_ref().map_or(0, String::len);
        ENTRY_BYTES + self.path.len() + values_weight(&self.partition_values) + stats + tags
    }
}

/// A file that was in the table. It stays known for some days, so that its object can be deleted late.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovedFile {
    /// The object's path below the table, not encoded; another writer's may be absolute.
    pub path: Arc<str>,
    /// When it was removed, in milliseconds since 1970; 0 if a writer did not say.
    pub deletion_time: i64,
    /// Its partition values, if its writer told them.
    pub partition_values: Option<PartitionValues>,
    /// Bytes of the file, if its writer told them.
    pub size: Option<u64>,
}

impl RemovedFile {
    /// Bytes that it takes in memory, roughly.
    pub(crate) fn weight(&self) -> usize {
        ENTRY_BYTES + self.path.len() + self.partition_values.as_ref().map_or(0, values_weight)
    }
}

/// Bytes of an entry of a map beside its texts, roughly.
const ENTRY_BYTES: usize = 128;

fn values_weight(values: &PartitionValues) -> usize {
    values.iter().map(|(name, value)| ENTRY_BYTES + name.len() + value.as_ref().map_or(0, String::len)).sum()
}

/// How far an application is: a commit that moves it makes a repeated commit recognisable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppTransaction {
    /// The application's own number.
    pub version: i64,
    /// When it was moved, in milliseconds since 1970.
    pub last_updated: Option<i64>,
}

/// An action of a proposed commit.
#[derive(Clone, Debug, PartialEq)]
pub enum DeltaAction {
    /// Adds a file, or replaces what is known of it. The object is there already.
    AddFile(AddedFile),
    /// Removes a file of the table. The object stays until it is swept.
    RemoveFile(RemovedFile),
    /// Moves an application to `version`.
    Txn {
        /// The application.
        app_id: String,
        /// Its new number.
        version: i64,
    },
    /// Sets the columns. The first commit of a table must do so.
    SetSchema(Vec<TableColumn>),
}
