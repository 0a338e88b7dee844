//! Live files, and files that are being created or removed.
//!
//! The catalog names a file in `pending_file` before the first byte of the file is written, and until the file is live.
//! When the folder is opened, files in `pending_file` are remains of a crash and are removed. A file that is no longer
//! live stays in `pending_file` until its removal is on the disk. A file in neither list is a file that this catalog
//! has lost.

use super::database::Catalog;
use super::values::from_sql;
use super::values::table_in;
use crate::StoreError;
use crate::layout::FolderLayout;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use rusqlite::Connection;
use rusqlite::OptionalExtension;
use rusqlite::Row;
use rusqlite::params;
use std::collections::HashMap;
use std::collections::HashSet;
use std::path::Path;

/// A live file of a day-table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveFile {
    /// The name below `tables/`.
    pub name: String,
    /// The day-table.
    pub day: DayTable,
    /// The last commit that wrote to the file.
    pub last_seq: i64,
    /// The number of entities that commits wrote to it.
    pub entities: i64,
    /// Whether the file may have a journal.
    pub writable: bool,
    /// The times of the oldest and newest records; none while the file is empty.
    pub times: Option<(Ticks, Ticks)>,
    /// The role.
    pub role: FileRole,
    /// The length, hash and row count of a sealed file.
    pub seal: Option<Seal>,
}

impl LiveFile {
    /// The generation, from the name.
    pub fn generation(&self) -> i64 {
        self.name.rsplit('.').nth(1).and_then(|generation| generation.parse().ok()).unwrap_or(0)
    }
}

/// A file that becomes the live file of an open day.
#[derive(Clone, Debug)]
pub(crate) struct NewFile {
    pub(crate) day: DayTable,
    pub(crate) generation: i64,
    pub(crate) name: String,
    pub(crate) role: FileRole,
    /// Whether the clock is behind.
    pub(crate) is_behind: bool,
}

/// The role of a live file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileRole {
    /// It accepts records.
    #[default]
    Open,
    /// It accepts no more records. It is read until its day is sealed.
    Closed,
    /// It takes none any more and stays in its pages: as a Parquet file it would be larger.
    Kept,
    /// A Parquet file that never changes.
    Sealed,
    /// The outbox of its day: it accepts records, which are sent to a remote store.
    Outbox,
}

impl FileRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            FileRole::Open => "open",
            FileRole::Closed => "closed",
            FileRole::Kept => "kept",
            FileRole::Sealed => "sealed",
            FileRole::Outbox => "outbox",
        }
    }

    pub(super) fn by_name(name: &str) -> FileRole {
        match name {
            "closed" => FileRole::Closed,
            "kept" => FileRole::Kept,
            "sealed" => FileRole::Sealed,
            "outbox" => FileRole::Outbox,
            _ => FileRole::Open,
        }
    }
}

/// The length, hash and row count of a sealed file. Every copy of the file has the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, 64 hex digits.
    pub sha256: String,
    /// The number of rows, items included.
    pub rows: u64,
    /// The oldest and the newest time in it.
    pub times: Option<(Ticks, Ticks)>,
    /// When the file was sealed.
    pub at: Ticks,
}

impl Seal {
    /// Fails if the file has another length. A sealed file never changes. Reading checks the bytes.
    pub(crate) fn check_length(&self, layout: &FolderLayout, path: &Path) -> Result<(), StoreError> {
        let bytes = std::fs::metadata(path).map_err(StoreError::io(path))?.len();
        let what = || format!("it has {bytes} bytes, the catalog says {}", self.bytes);
        if bytes == self.bytes { Ok(()) } else { Err(layout.mismatch(path, what())) }
    }
}

/// The rows that one commit wrote to a file.
pub(crate) struct Touched<'a> {
    pub(crate) file: &'a str,
    pub(crate) entities: i64,
    /// The oldest and newest time of these rows.
    pub(crate) times: Option<(Ticks, Ticks)>,
}

/// The files in `tables/` that the catalog names, at one moment.
pub(crate) struct NamedFiles {
    /// Live files by name.
    pub(crate) live: HashMap<String, LiveFile>,
    /// Files that are not data, or no longer.
    pub(crate) making: HashSet<String>,
    /// The highest generation of each dropped day. A restored day was dropped before.
    pub(super) dropped: HashMap<DayTable, i64>,
}

impl NamedFiles {
    /// Whether a file of this day and generation was removed with its day.
    pub(crate) fn is_dropped(&self, day: &DayTable, generation: i64) -> bool {
        self.dropped.get(day).is_some_and(|highest| generation <= *highest)
    }
}

const FILES: &str =
    "SELECT name, day, last_seq, entities, writable, oldest, newest, role, bytes, sha256, sealed_at FROM file";

impl Catalog {
    /// Live files, the oldest day first.
    pub fn files(&self) -> Result<Vec<LiveFile>, StoreError> {
        let mut files = self.all(FILES, read_file)?;
        files.sort_by(|a, b| (a.day.start(), &a.day, &a.name).cmp(&(b.day.start(), &b.day, &b.name)));
        Ok(files)
    }

    /// The live file that accepts the records of a day-table in this role, `Open` or `Outbox`; none if there is no such
    /// file.
    pub fn file_of(&self, day: &DayTable, role: FileRole) -> Result<Option<LiveFile>, StoreError> {
        let of_role = self.files_of(day)?.into_iter().filter(|file| file.role == role);
        Ok(of_role.max_by_key(LiveFile::generation))
    }

    /// The live files of a day-table, by name; empty if the table does not exist.
    pub fn files_of(&self, day: &DayTable) -> Result<Vec<LiveFile>, StoreError> {
        self.sql((|| {
            let mut statement = self.connection.prepare_cached(&format!("{FILES} WHERE day = ?1 ORDER BY name"))?;
            statement.query_map([day.to_string()], read_file)?.collect()
        })())
    }

    /// The live file of this name.
    pub fn file_named(&self, name: &str) -> Result<Option<LiveFile>, StoreError> {
        self.sql((|| {
            let mut statement = self.connection.prepare_cached(&format!("{FILES} WHERE name = ?1"))?;
            statement.query_row([name], read_file).optional()
        })())
    }

    /// Whether the file of this name is live.
    pub fn is_live(&self, name: &str) -> Result<bool, StoreError> {
        self.sql((|| {
            let mut statement = self.connection.prepare_cached("SELECT 1 FROM file WHERE name = ?1")?;
            statement.exists([name])
        })())
    }

    /// Sets whether files may have a journal.
    pub(crate) fn set_writable<'f>(
        &mut self,
        files: impl IntoIterator<Item = (&'f str, bool)>,
    ) -> Result<(), StoreError> {
        self.change(|transaction| {
            let mut update = transaction.prepare_cached("UPDATE file SET writable = ?2 WHERE name = ?1")?;
            files.into_iter().try_for_each(|(file, writable)| update.execute(params![file, writable]).map(drop))
        })
    }

    /// The names of files that are being created or removed.
    pub(crate) fn making(&self) -> Result<Vec<String>, StoreError> {
        self.all("SELECT name FROM pending_file", |row| row.get(0))
    }

    /// Records that `output` is being created as a generation of `day`.
    pub(crate) fn begin_making(&mut self, day: &DayTable, generation: i64, output: &str) -> Result<(), StoreError> {
        self.change(|transaction| make(transaction, day, generation, output))
    }

    /// Records that the files of open days are being created.
    pub(crate) fn begin_creating(&mut self, files: &[NewFile]) -> Result<(), StoreError> {
        self.change(|transaction| {
            files.iter().try_for_each(|new| insert_making(transaction, &new.name, &new.day.to_string()))
        })
    }

    /// Adds `file` as a live file of its day, which becomes an open day, or a restored one if `is_restored`.
    pub(crate) fn put_file(
        &mut self,
        file: &LiveFile,
        generation: i64,
        now: Ticks,
        is_restored: bool,
    ) -> Result<(), StoreError> {
        let day = file.day.to_string();
        let state = if is_restored { "restored" } else { "open" };
        self.change(|transaction| {
            transaction.execute(
                "INSERT INTO day(name, state, generation, changed) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (name) DO UPDATE SET state = ?2, generation = ?3, changed = ?4",
                params![day, state, generation, now.get()],
            )?;
            if let Some(seal) = &file.seal {
                return put_sealed(transaction, &day, &file.name, file.last_seq, seal);
            }
            let (oldest, newest) = file.times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
            let role = file.role.name();
            let insert = "INSERT INTO file(name, day, last_seq, entities, writable, oldest, newest, role)
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let LiveFile { name, last_seq, entities, writable, .. } = file;
            let values = params![name, day, last_seq, entities, writable, oldest, newest, role];
            transaction.execute(insert, values).map(drop)
        })
    }

    /// Removes a name from the files that are being created.
    pub(crate) fn forget_making(&mut self, output: &str) -> Result<(), StoreError> {
        self.change(|transaction| transaction.execute("DELETE FROM pending_file WHERE name = ?1", [output]).map(drop))
    }

    /// Makes the empty file of an outbox pending for removal instead of live.
    pub(crate) fn remove_outbox_file(&mut self, day: &DayTable, file: &str) -> Result<(), StoreError> {
        self.change(|transaction| {
            let sent = "UPDATE state SET rows_sent = rows_sent
                        + coalesce((SELECT entities FROM file WHERE name = ?1 AND role = 'outbox'), 0)";
            transaction.execute(sent, [file])?;
            transaction.execute("DELETE FROM file WHERE name = ?1 AND role = 'outbox'", [file])?;
            insert_making(transaction, file, &day.to_string())
        })
    }

    /// All files in `tables/` that the catalog names.
    pub(crate) fn named(&self) -> Result<NamedFiles, StoreError> {
        // One transaction, so that a file that changes lists is in one of them.
        let moment = self.connection.is_autocommit().then(|| self.connection.unchecked_transaction()).transpose();
        let _moment = self.sql(moment)?;
        let live = self.files()?.into_iter().map(|file| (file.name.clone(), file)).collect();
        let making = self.making()?;
        let dropped = self.all("SELECT name, generation FROM day WHERE state <> 'open'", |row| {
            Ok((table_in(row, 0)?, row.get(1)?))
        })?;
        Ok(NamedFiles { live, making: making.into_iter().collect(), dropped: dropped.into_iter().collect() })
    }
}

fn read_file(row: &Row<'_>) -> rusqlite::Result<LiveFile> {
    let day: String = row.get(1)?;
    let day = DayTable::parse(&day).map_err(|e| from_sql(1, e))?;
    let time = |column| row.get::<_, Option<i64>>(column).map(|ticks| ticks.and_then(Ticks::new));
    let times = time(5)?.zip(time(6)?);
    let (last_seq, entities, writable) = (row.get(2)?, row.get(3)?, row.get(4)?);
    let role = FileRole::by_name(&row.get::<_, String>(7)?);
    let bytes: Option<i64> = row.get(8)?;
    let seal = bytes.zip(row.get(9)?).zip(time(10)?).map(|((bytes, sha256), at)| {
        let rows: i64 = entities;
        Seal { bytes: bytes.cast_unsigned(), sha256, rows: rows.cast_unsigned(), times, at }
    });
    Ok(LiveFile { name: row.get(0)?, day, last_seq, entities, writable, times, role, seal })
}

pub(super) fn make(connection: &Connection, day: &DayTable, generation: i64, output: &str) -> rusqlite::Result<()> {
    let name = day.to_string();
    connection.execute(
        "INSERT INTO day(name, state, generation, changed) VALUES (?1, 'dropped', ?2, 0)
         ON CONFLICT (name) DO UPDATE SET generation = ?2",
        params![name, generation],
    )?;
    insert_making(connection, output, &name)
}

pub(super) fn insert_making(connection: &Connection, file: &str, day: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO pending_file VALUES (?1, ?2)", [file, day]).map(drop)
}

/// Ends the creation of `output`. Fails if no file of that name was being created: the folder was opened again
/// meanwhile, and recovery removed the file.
pub(super) fn finish_making(connection: &Connection, output: &str) -> rusqlite::Result<()> {
    match connection.execute("DELETE FROM pending_file WHERE name = ?1", [output])? {
        1 => Ok(()),
        _ => Err(rusqlite::Error::StatementChangedRows(0)),
    }
}

pub(super) fn put_sealed(
    connection: &Connection,
    day: &str,
    output: &str,
    last_seq: i64,
    seal: &Seal,
) -> rusqlite::Result<()> {
    let (oldest, newest) = seal.times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
    connection.execute(
        "INSERT INTO file(name, day, last_seq, entities, writable, oldest, newest, role, bytes, sha256, sealed_at)
         VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, 'sealed', ?7, ?8, ?9)",
        params![
            output,
            day,
            last_seq,
            seal.rows.cast_signed(),
            oldest,
            newest,
            seal.bytes.cast_signed(),
            seal.sha256,
            seal.at.get()
        ],
    )?;
    Ok(())
}
