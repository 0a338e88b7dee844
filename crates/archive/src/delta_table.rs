//! Archives as a Delta table: its log names the files that are the table, and its schema the columns of all of them.
//!
//! ```text
//! claim_names: columns of a sealed day ──► names in the schema, before a file has them
//! put:         file, manifest, Proof of both ──► add (and remove of the generations before) ──► Proof
//! open_days:   parts of an open day ──► add and remove as the day grows; the `add` of `put` removes them all
//! drop:        remove ──► manifest deleted ──► the file a day later, by a sweep
//! ```
//!
//! * A file is in the table from its `add` on, in one commit with the `remove` of the day's earlier generation: whoever
//!   reads the table sees each record once. A repeated commit finds the file in the table and does nothing.
//! * A column's name means one field and one type in all files of the table. The schema notes both for each column
//!   ([`FIELD_NOTE`], [`TYPE_NOTE`]), so every daytable finds the name that another one has claimed.
//! * No file enters a table that does not know its columns by their names: it may have been made anew meanwhile.
//! * What is in the table leaves it before its file goes, whatever the configuration says by then.
//! * A removed file stays for [`REMOVED_FILE_GRACE`], because an engine may still read an older version of the table.

use super::names::{ArchiveName, ArchiveObject};
use super::{Archive, ArchiveError, ArchivedDay, folder};
use daytable_delta::{
    AddedFile, CommitError, DeltaAction, DeltaError, DeltaLog, DeltaOptions, DeltaType, ListedObject, TableColumn,
    TableSnapshot, sweepable,
};
use daytable_model::column_name::{ColumnNames, KnownNames, LOG_DAY, LOG_HOST, PARTITION_COLUMNS};
use daytable_model::key::{DayTable, TableName};
use daytable_model::property::PropertyKind;
use daytable_model::time::{self, Ticks};
use daytable_store::sealed::{ArchiveHome, FIXED_COLUMNS, Manifest, PropertyColumn, REST};
use object_store::path::Path as ObjectPath;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How long the file of an archive stays after the archive left the table.
pub const REMOVED_FILE_GRACE: Duration = Duration::from_secs(24 * 3600);
/// The note of a column with the name of the field that it has.
const FIELD_NOTE: &str = "daytable.field";
/// The note of a column with the type of the field's values.
const TYPE_NOTE: &str = "daytable.type";
/// Columns of a table at most. Fields beyond them are in the map of the rest.
const TABLE_COLUMNS_MAX: usize = 1_000;

/// The form of the archives of a table, beside their files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableFormat {
    /// Files and manifests alone.
    #[default]
    None,
    /// A Delta table.
    Delta,
}

impl Archive {
    /// Whether the archives are a table.
    pub fn is_table(&self) -> bool {
        self.0.format != TableFormat::None
    }

    pub(super) fn log(&self, table: &TableName) -> Option<DeltaLog> {
        self.is_table().then(|| self.log_of(table))
    }

    /// The log of a table, whether or not there is one.
    fn log_of(&self, table: &TableName) -> DeltaLog {
        let options = DeltaOptions {
            partition_columns: PARTITION_COLUMNS.map(str::to_owned).to_vec(),
            ..DeltaOptions::default()
        };
        let log = DeltaLog::new(Arc::clone(&self.0.store), &self.table_path(table), options);
        let log = log.with_check(self.0.check.clone());
        let Some(root) = self.0.url.folder().map(Path::to_owned) else { return log };
        let url = self.0.url.clone();
        let file = move |path: &ObjectPath| -> PathBuf { root.join(path.as_ref()) };
        let written = file.clone();
        let text = |error: ArchiveError| io::Error::other(error.to_string());
        let log = log.with_before_write(Arc::new(move |path| folder::make_parents(&url, &file(path)).map_err(text)));
        log.with_after_write(Arc::new(move |path| folder::restrict(&written(path)).map_err(text)))
    }

    /// The table as its log says, read with fewer requests than before. Without a version there is none.
    pub(super) fn table_now(&self, table: &TableName) -> Result<TableSnapshot, ArchiveError> {
        let known = self.seen(table);
        let snapshot = self.wait(self.log_of(table).snapshot(now(), known.as_ref()));
        let snapshot = snapshot.map_err(|error| self.log_failed(error.into()))?;
        self.saw(table, snapshot.clone());
        Ok(snapshot)
    }

    fn table_path(&self, table: &TableName) -> ObjectPath {
        self.0.prefix.clone().join(table.as_str())
    }

    /// The state of the table as it was last seen here, from which the newest one follows with fewer requests.
    fn seen(&self, table: &TableName) -> Option<TableSnapshot> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).get(table).cloned()
    }

    fn saw(&self, table: &TableName, snapshot: TableSnapshot) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(table.clone(), snapshot);
    }

    /// The names of columns in the archive's table as it was last seen here. `None` before it was seen.
    pub fn names_seen(&self, table: &TableName) -> Option<KnownNames> {
        let seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(table).filter(|snapshot| snapshot.version().is_some()).map(|snapshot| names_in(snapshot.columns()))
    }

    /// Claims a name in the archive's table for each of these columns of a sealed day, and returns the names of all
    /// columns. `None` if the archive is not a table: any names will do.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Log`] if the log of the table cannot be read or written.
    pub fn claim_names(
        &self,
        table: &TableName,
        columns: &[PropertyColumn],
    ) -> Result<Option<KnownNames>, ArchiveError> {
        let Some(log) = self.log(table) else { return Ok(None) };
        let snapshot = self.commit(table, &log, |snapshot| claimed(snapshot, columns))?;
        Ok(Some(names_in(snapshot.columns())))
    }

    /// Commits the file of an archive that was read back, in the place of the day's earlier generations.
    pub(super) fn enter(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        let table = archived.table().table();
        let Some(log) = self.log(table) else { return Ok(()) };
        let mut is_named = true;
        self.commit(table, &log, |snapshot| {
            is_named = has_columns(snapshot, &archived.manifest.columns);
            if is_named { entered(snapshot, archived) } else { Vec::new() }
        })?;
        match is_named {
            true => Ok(()),
            false => Err(ArchiveError::Renamed { url: self.0.url.clone(), day: archived.table().clone() }),
        }
    }

    /// Whether the table has a day of this daytable as an archive. Also where archives are no longer a table.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Log`] if the log of the table cannot be read.
    pub fn has_in_table(&self, day: &DayTable, home: &ArchiveHome) -> Result<bool, ArchiveError> {
        let snapshot = self.table_now(day.table())?;
        let is_it = |file: &Arc<AddedFile>| {
            let name = ArchiveName::parse(&format!("{}/{}", day.table(), file.path));
            name.is_some_and(|(of, _)| of.table == *day && of.home.origin() == home.origin() && of.part.is_none())
        };
        Ok(snapshot.files().any(is_it))
    }

    /// Removes an archive from the table that is at its address, whether or not archives are a table by the configuration: others
    /// read what the log says. Whether its file has to stay for a while, because it was in the table until now.
    pub(super) fn leave(&self, archived: &ArchivedDay) -> Result<bool, ArchiveError> {
        let table = archived.table().table();
        let path = path_in_table(&archived.name);
        let now_there = self.table_now(table)?;
        if now_there.file(&path).is_none() && now_there.removal(&path).is_none() {
            // What waits to be swept is what a table had, or is to have.
            return Ok(self.is_table() && now_there.version().is_some());
        }
        self.commit(table, &self.log_of(table), |snapshot| {
            let file = snapshot.file(&path);
            file.map(|file| DeltaAction::RemoveFile(file.removal(now()))).into_iter().collect()
        })?;
        Ok(true)
    }

    pub(super) fn commit(
        &self,
        table: &TableName,
        log: &DeltaLog,
        mut propose: impl FnMut(&TableSnapshot) -> Vec<DeltaAction>,
    ) -> Result<TableSnapshot, ArchiveError> {
        let known = self.seen(table);
        let done = self.wait(log.commit(now(), known.as_ref(), |snapshot| Ok::<_, Infallible>(propose(snapshot))));
        let done = done.map_err(|error| self.log_failed(error))?;
        if let Some(error) = done.checkpoint_error {
            tracing::warn!(table = table.as_str(), %error, "the log of the archive's table has no new checkpoint: reading it takes longer");
        }
        self.saw(table, done.snapshot.clone());
        Ok(done.snapshot)
    }

    pub(super) fn log_failed(&self, error: CommitError<Infallible>) -> ArchiveError {
        let url = self.0.url.clone();
        match error {
            CommitError::Log(DeltaError::NotConditional { .. }) => ArchiveError::Unfit { url },
            error => ArchiveError::Log { url, source: Box::new(error) },
        }
    }

    /// Deletes files of this daytable, whatever its host was called, that left the table long enough ago, and those of it that never
    /// were an archive: what has a manifest is left. Returns how many. Without a table there is nothing to delete, and with one
    /// there is, also where archives are no longer a table by the configuration.
    ///
    /// Ages are those of the store, as far as it tells them: nothing is older than the newest object of the table says. So
    /// where the clock of this host is ahead, files stay longer, and what was uploaded a moment ago is not deleted.
    ///
    /// # Errors
    ///
    /// An error of the store or of the log.
    pub fn sweep(&self, table: &TableName, home: &ArchiveHome) -> Result<usize, ArchiveError> {
        let log = self.log_of(table);
        if !self.is_table() && self.table_now(table)?.version().is_none() {
            return Ok(0);
        }
        let failed = |error| ArchiveError::from_store(format!("{}/{table}", self.0.url), error);
        let root = self.table_path(table);
        self.wait(async {
            let (mut files, mut manifests, mut newest) = (Vec::new(), BTreeSet::new(), i64::MIN);
            let mut objects = self.store().list(Some(&root));
            while let Some(object) = poll_fn(|context| objects.as_mut().poll_next(context)).await {
                let object = object.map_err(failed)?;
                let modified = object.last_modified.timestamp_millis();
                newest = newest.max(modified);
                match self.name_of(&object.location) {
                    Some((name, ArchiveObject::Manifest)) => drop(manifests.insert(name)),
                    Some((name, ArchiveObject::Data)) if name.home.origin() == home.origin() => {
                        files.push((ListedObject { path: path_in_table(&name), modified }, name));
                    }
                    _ => {}
                }
            }
            files.retain(|(_, name)| !manifests.contains(name));
            let now = now().min(newest);
            let snapshot = log.snapshot(now, None).await.map_err(|error| self.log_failed(error.into()))?;
            let grace = i64::try_from(REMOVED_FILE_GRACE.as_millis()).unwrap_or(i64::MAX);
            let old = sweepable(&snapshot, files.iter().map(|(listed, _)| listed), now, grace);
            let old: BTreeSet<&str> = old.iter().map(|old| old.path.as_str()).collect();
            let mut swept = 0;
            for (_, name) in files.iter().filter(|(listed, _)| old.contains(listed.path.as_str())) {
                self.delete(name, ArchiveObject::Data).await?;
                swept += 1;
            }
            Ok(swept)
        })
    }
}

/// The path of an archive's file below its table.
pub(super) fn path_in_table(name: &ArchiveName) -> String {
    let object = name.object(ArchiveObject::Data);
    object.split_once('/').map_or_else(String::new, |(_, path)| path.to_owned())
}

/// The present time, in milliseconds since 1970.
pub(super) fn now() -> i64 {
    i64::try_from(time::now().since(Ticks::UNIX_EPOCH).as_millis()).unwrap_or(i64::MAX)
}

/// The commit that gives each column a name.
fn claimed(snapshot: &TableSnapshot, columns: &[PropertyColumn]) -> Vec<DeltaAction> {
    let mut schema: Vec<TableColumn> = snapshot.columns().to_vec();
    let known = names_in(&schema);
    if schema.is_empty() {
        schema.extend(FIXED_COLUMNS.iter().map(|(name, kind)| TableColumn::new(*name, type_of(*kind))));
        schema.push(TableColumn::new(REST, DeltaType::StringMap));
        schema.push(TableColumn::new(LOG_DAY, DeltaType::Date));
        schema.push(TableColumn::new(LOG_HOST, DeltaType::String));
    }
    let before = schema.len();
    let mut names = ColumnNames::reserving(schema.iter().map(|column| column.name.as_str()));
    for PropertyColumn { property, kind, .. } in columns {
        if known.get(property, *kind).is_none() && schema.len() < TABLE_COLUMNS_MAX {
            let column = TableColumn::new(names.add(property, *kind), type_of(*kind));
            schema.push(column.with_metadata(FIELD_NOTE, property).with_metadata(TYPE_NOTE, kind.name()));
        }
    }
    let is_new = snapshot.columns().is_empty() || schema.len() > before;
    if is_new { vec![DeltaAction::SetSchema(schema)] } else { Vec::new() }
}

/// The names of the columns of fields.
fn names_in(schema: &[TableColumn]) -> KnownNames {
    let mut names = KnownNames::default();
    names.is_closed = schema.len() >= TABLE_COLUMNS_MAX;
    for column in schema {
        let field = column.metadata.get(FIELD_NOTE);
        let kind = column.metadata.get(TYPE_NOTE).and_then(|name| PropertyKind::named(name));
        if let (Some(field), Some(kind)) = (field, kind) {
            names.insert(field, kind, &column.name);
        }
    }
    names
}

fn type_of(kind: PropertyKind) -> DeltaType {
    match kind {
        PropertyKind::String => DeltaType::String,
        PropertyKind::Int64 => DeltaType::Long,
        PropertyKind::Int32 => DeltaType::Integer,
        PropertyKind::Double => DeltaType::Double,
        PropertyKind::Boolean => DeltaType::Boolean,
        PropertyKind::DateTime => DeltaType::Timestamp,
        // Delta has no type for the 16 bytes of a GUID.
        PropertyKind::Binary | PropertyKind::Guid => DeltaType::Binary,
    }
}

/// The commit that makes a file part of the table, in the place of all that the table has of its day from this daytable: earlier
/// generations and parts of the open day, also where the host had another name when they came. Nothing if it is there already, or
/// if a later generation is.
fn entered(snapshot: &TableSnapshot, archived: &ArchivedDay) -> Vec<DeltaAction> {
    let (name, manifest) = (&archived.name, &archived.manifest);
    let path = path_in_table(name);
    let of_day = |path: &str| {
        let (of, part) = ArchiveName::parse(&format!("{}/{path}", name.table.table()))?;
        let is_same = (&of.table, of.home.origin(), part) == (&name.table, name.home.origin(), ArchiveObject::Data);
        is_same.then_some(of.generation)
    };
    let others = snapshot.files().filter(|file| *file.path != *path);
    let others: Vec<_> = others.filter_map(|file| Some((of_day(&file.path)?, file))).collect();
    if others.iter().any(|(generation, _)| *generation > name.generation) {
        return Vec::new();
    }
    let added = snapshot.file(&path).is_none().then(|| DeltaAction::AddFile(added(name, manifest)));
    let removed = others.iter().map(|(_, file)| DeltaAction::RemoveFile(file.removal(now())));
    added.into_iter().chain(removed).collect()
}

/// Whether the table knows each of these columns of a file by its name.
pub(super) fn has_columns(snapshot: &TableSnapshot, columns: &[PropertyColumn]) -> bool {
    snapshot.version().is_some() && are_named(&names_in(snapshot.columns()), columns)
}

/// Whether columns are called by these names.
pub fn are_named(names: &KnownNames, columns: &[PropertyColumn]) -> bool {
    columns.iter().all(|column| names.get(&column.property, column.kind) == Some(&*column.name))
}

/// The file of an archive, or of a part of an open day, as the log adds it.
pub(super) fn added(name: &ArchiveName, manifest: &Manifest) -> AddedFile {
    let values = [(LOG_DAY, name.day()), (LOG_HOST, name.home.host().to_owned())];
    let values = values.map(|(column, value)| (column.to_owned(), Some(value))).into();
    let mut file = AddedFile::new(&path_in_table(name), values, manifest.bytes, now());
    file.stats = Some(statistics(manifest));
    file
}

/// Numbers and times of a file, so that engines open only files that may have what is asked for. Delta's times have
/// milliseconds: the last one is rounded up.
fn statistics(manifest: &Manifest) -> String {
    let milliseconds = |time: &Option<String>, up: Duration| {
        let time = chrono::DateTime::parse_from_rfc3339(time.as_deref()?).ok()?.to_utc() + up;
        Some(time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
    };
    let first = milliseconds(&manifest.first_time, Duration::ZERO);
    let last = milliseconds(&manifest.last_time, Duration::from_millis(1));
    let mut stats = serde_json::json!({"numRecords": manifest.rows});
    if let (Some(first), Some(last)) = (first, last) {
        let time = FIXED_COLUMNS[1].0;
        stats["minValues"] = serde_json::json!({time: first});
        stats["maxValues"] = serde_json::json!({time: last});
        stats["nullCount"] = serde_json::json!({time: 0});
    }
    stats.to_string()
}
