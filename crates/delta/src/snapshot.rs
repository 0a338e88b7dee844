//! The state of a table at a version, by replay of its log.

use crate::action::{AddedFile, AppTransaction, RemovedFile};
use crate::error::DeltaError;
use crate::metadata::{LogAction, ProtocolVersions, TableMetadata};
use crate::schema::TableColumn;
use object_store::ObjectMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Milliseconds for which snapshots and checkpoints keep removed files, as other writers do.
pub const TOMBSTONES_KEPT_MS: i64 = 7 * 86_400_000;

/// When files were removed that are forgotten at `now`.
pub(crate) fn forgotten(now: i64) -> i64 {
    now.saturating_sub(TOMBSTONES_KEPT_MS)
}

/// A table at a version. A copy shares the files with its original.
#[derive(Clone, Debug, Default)]
pub struct TableSnapshot {
    pub(crate) version: Option<u64>,
    /// Which object the last version is: a table that was made anew has another one of that name.
    pub(crate) head: Option<ObjectMark>,
    pub(crate) protocol: Option<ProtocolVersions>,
    pub(crate) metadata: Option<Arc<TableMetadata>>,
    pub(crate) files: BTreeMap<Arc<str>, Arc<AddedFile>>,
    pub(crate) removed: BTreeMap<Arc<str>, Arc<RemovedFile>>,
    pub(crate) transactions: BTreeMap<Arc<str>, AppTransaction>,
    /// Bytes of files and removed files in memory, roughly.
    pub(crate) weight: usize,
}

/// Equal tables, wherever they lie and however they were read.
impl PartialEq for TableSnapshot {
    fn eq(&self, other: &TableSnapshot) -> bool {
        let TableSnapshot { version, head: _, protocol, metadata, files, removed, transactions, weight } = self;
        (version, protocol, metadata, weight) == (&other.version, &other.protocol, &other.metadata, &other.weight)
            && (files, removed, transactions) == (&other.files, &other.removed, &other.transactions)
    }
}

/// What tells an object from another one that had its name before.
#[derive(Clone, Debug)]
pub(crate) struct ObjectMark {
    size: u64,
    /// Milliseconds since 1970.
    modified: i64,
    e_tag: Option<String>,
}

impl ObjectMark {
    pub(crate) fn new(object: &ObjectMeta) -> ObjectMark {
        // Some services put the tag into quotes in one answer, and not in another.
        let e_tag = object.e_tag.as_deref().map(|tag| tag.trim_start_matches("W/").trim_matches('"').to_owned());
        ObjectMark { size: object.size, modified: object.last_modified.timestamp_millis(), e_tag }
    }

    pub(crate) fn is_same(&self, other: &ObjectMark) -> bool {
        let is_tagged_alike = match (&self.e_tag, &other.e_tag) {
            (Some(one), Some(other)) => one == other,
            _ => self.modified == other.modified,
        };
        is_tagged_alike && self.size == other.size
    }
}

/// How much of a table is kept in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateLimits {
    pub(crate) files_max: usize,
    pub(crate) transactions_max: usize,
    pub(crate) bytes_max: usize,
    /// What was removed at this time or before is forgotten. Milliseconds since 1970.
    pub(crate) forgotten: i64,
}

impl TableSnapshot {
    /// The newest version. `None` if there is no table.
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// The table's own identifier.
    pub fn table_id(&self) -> Option<&str> {
        self.metadata.as_ref().map(|metadata| metadata.id.as_str())
    }

    /// The columns, partition columns among them.
    pub fn columns(&self) -> &[TableColumn] {
        self.metadata.as_ref().map_or(&[], |metadata| &metadata.columns)
    }

    /// The names of the partition columns.
    pub fn partition_columns(&self) -> &[String] {
        self.metadata.as_ref().map_or(&[], |metadata| &metadata.partition_columns)
    }

    /// The files of the table, by path.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Arc<AddedFile>> {
        self.files.values()
    }

    /// The file at a path, if it is in the table.
    pub fn file(&self, path: &str) -> Option<&Arc<AddedFile>> {
        self.files.get(path)
    }

    /// Files that were removed in the last seven days.
    pub fn removed(&self) -> impl ExactSizeIterator<Item = &Arc<RemovedFile>> {
        self.removed.values()
    }

    /// The removal of the file at a path, if it is known.
    pub fn removal(&self, path: &str) -> Option<&Arc<RemovedFile>> {
        self.removed.get(path)
    }

    /// How far an application is.
    pub fn transaction(&self, app_id: &str) -> Option<i64> {
        self.transactions.get(app_id).map(|transaction| transaction.version)
    }

    /// How far each application is.
    pub fn transactions(&self) -> impl Iterator<Item = (&str, i64)> {
        self.transactions.iter().map(|(app_id, transaction)| (&**app_id, transaction.version))
    }

    /// Applies the actions of `version`, whose object is `object`.
    pub(crate) fn apply(
        &mut self,
        version: u64,
        actions: Vec<LogAction>,
        limits: StateLimits,
        object: &str,
    ) -> Result<(), DeltaError> {
        for action in actions {
            match action {
                LogAction::Protocol(versions) => self.protocol = Some(versions),
                LogAction::Metadata(metadata) => self.metadata = Some(Arc::new(metadata)),
                LogAction::Txn(app_id, transaction) => {
                    self.transactions.insert(app_id.into(), transaction);
                }
                LogAction::Add(file) => {
                    self.forget(&file.path);
                    self.weight += file.weight();
                    self.files.insert(Arc::clone(&file.path), Arc::new(file));
                }
                LogAction::Remove(file) => {
                    self.forget(&file.path);
                    if file.deletion_time > limits.forgotten {
                        self.weight += file.weight();
                        self.removed.insert(Arc::clone(&file.path), Arc::new(file));
                    }
                }
            }
            self.check(limits, object)?;
        }
        self.version = Some(version);
        if self.protocol.is_none() || self.metadata.is_none() {
            return Err(DeltaError::damaged(object, "the table has no protocol or no metaData up to here"));
        }
        Ok(())
    }

    /// Forgets the files that were removed so long ago that no checkpoint would have them.
    pub(crate) fn forget_removed(&mut self, limits: StateLimits) {
        let mut weight = 0;
        self.removed.retain(|_, file| {
            let is_kept = file.deletion_time > limits.forgotten;
            weight += if is_kept { 0 } else { file.weight() };
            is_kept
        });
        self.weight -= weight;
    }

    fn forget(&mut self, path: &str) {
        let added = self.files.remove(path).map_or(0, |file| file.weight());
        let removed = self.removed.remove(path).map_or(0, |file| file.weight());
        self.weight -= added + removed;
    }

    fn check(&self, limits: StateLimits, object: &str) -> Result<(), DeltaError> {
        for (count, max, what) in [
            (self.files.len() + self.removed.len(), limits.files_max, "files"),
            (self.transactions.len(), limits.transactions_max, "transactions"),
            (self.weight, limits.bytes_max, "bytes of the table's state"),
        ] {
            if count > max {
                return Err(DeltaError::TooMany { object: object.to_owned(), what, max: max as u64 });
            }
        }
        Ok(())
    }

    /// Everything that a checkpoint at `now` has: removals that expired are left out.
    pub(crate) fn actions(&self, now: i64) -> Vec<LogAction> {
        let protocol = self.protocol.map(LogAction::Protocol);
        let metadata = self.metadata.as_deref().cloned().map(LogAction::Metadata);
        let transactions =
            self.transactions.iter().map(|(app_id, transaction)| LogAction::Txn((**app_id).to_owned(), *transaction));
        let kept = self.removed.values().filter(|file| file.deletion_time > forgotten(now));
        let removed = kept.map(|file| LogAction::Remove((**file).clone()));
        let files = self.files.values().map(|file| LogAction::Add((**file).clone()));
        protocol.into_iter().chain(metadata).chain(transactions).chain(removed).chain(files).collect()
    }
}
