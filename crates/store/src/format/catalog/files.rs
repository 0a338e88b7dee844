//! Live files, and files that are being made or removed.
//!
//! The catalog names a file in `pending_file` before the first byte of the file is written, and keeps the name there until the
//! file is live. When the folder is opened, a file in `pending_file` is what a kill left, and is removed. A file that is no longer
//! live stays in `pending_file` until its removal is on the disk. A file in neither list is a file that this catalog has lost.

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
    /// Its name below `tables/`.
    pub name: String,
    /// The table it belongs to.
    pub day: DayTable,
    /// The last commit that wrote to it.
    pub last_seq: i64,
    /// Entities that commits wrote to it.
    pub entities: i64,
    /// Whether it may have a journal.
    pub writable: bool,
    /// The oldest and the newest time of its records; none while it is empty.
    pub times: Option<(Ticks, Ticks)>,
    /// What it is for.
    pub role: FileRole,
    /// By what it is known, where it is sealed.
    pub seal: Option<Seal>,
}

impl LiveFile {
    /// The generation of its day that it is, by its name.
    pub fn generation(&self) -> i64 {
        self.name.rsplit('.').nth(1).and_then(|generation| generation.parse().ok()).unwrap_or(0)
    }
}

/// What a live file is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileRole {
    /// It takes records.
    #[default]
    Open,
    /// It takes none any more and is being sealed; it is read until that is done.
    Closed,
    /// A Parquet file that never changes.
    Sealed,
    /// The outbox of its day: it takes records, and they go to a remote store.
    Outbox,
}

impl FileRole {
    pub(super) fn name(self) -> &'static str {
        match self {
            FileRole::Open => "open",
            FileRole::Closed => "closed",
            FileRole::Sealed => "sealed",
            FileRole::Outbox => "outbox",
        }
    }

    pub(super) fn by_name(name: &str) -> FileRole {
        match name {
            "closed" => FileRole::Closed,
            "sealed" => FileRole::Sealed,
            "outbox" => FileRole::Outbox,
            _ => FileRole::Open,
        }
    }
}

/// By what a sealed file is known, wherever a copy of it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, 64 hex digits.
    pub sha256: String,
    /// Rows in it, items included.
    pub rows: u64,
    /// The oldest and the newest time in it.
    pub times: Option<(Ticks, Ticks)>,
    /// When it was made.
    pub at: Ticks,
}

impl Seal {
    /// A sealed file never changes; its length is that which it had. Its bytes are checked where they are read.
    pub(crate) fn check_length(&self, layout: &FolderLayout, path: &Path) -> Result<(), StoreError> {
        let bytes = std::fs::metadata(path).map_err(StoreError::io(path))?.len();
        let what = || format!("it has {bytes} bytes, the catalog says {}", self.bytes);
        if bytes == self.bytes { Ok(()) } else { Err(layout.mismatch(path, what())) }
    }
}

/// What one commit did to a file.
pub(crate) struct Touched<'a> {
    pub(crate) file: &'a str,
    pub(crate) entities: i64,
    /// The oldest and the newest time among them.
    pub(crate) times: Option<(Ticks, Ticks)>,
}

/// What the catalog says of the files in `tables/`, as of one moment.
pub(crate) struct NamedFiles {
    /// Files that are data, by name.
    pub(crate) live: HashMap<String, LiveFile>,
    /// Files that are none: not yet, or no more.
    pub(crate) making: HashSet<String>,
    /// Of days that were dropped, the highest generation that a file had. One that was restored was dropped before.
    pub(super) dropped: HashMap<DayTable, i64>,
}

impl NamedFiles {
    /// Whether a file of this day and generation went when its day was dropped.
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

    /// The live file of a day-table that takes its records, as a day that stays here or as the outbox of one that does
    /// not; none where there is none.
    pub fn file_of(&self, day: &DayTable, role: FileRole) -> Result<Option<LiveFile>, StoreError> {
        let of_role = self.files_of(day)?.into_iter().filter(|file| file.role == role);
        Ok(of_role.max_by_key(LiveFile::generation))
    }

    /// The live files of a day-table, by name; none where there is no such table.
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

    /// Notes whether `file` may have a journal from now on.
    pub(crate) fn set_writable(&self, file: &str, writable: bool) -> Result<(), StoreError> {
        let result = self.connection.execute("UPDATE file SET writable = ?2 WHERE name = ?1", params![file, writable]);
        self.sql(result).map(drop)
    }

    /// Files that were being made, or are to go.
    pub(crate) fn making(&self) -> Result<Vec<String>, StoreError> {
        self.all("SELECT name FROM pending_file", |row| row.get(0))
    }

    /// Notes that `output` is being made, as a generation of `day`.
    pub(crate) fn begin_making(&mut self, day: &DayTable, generation: i64, output: &str) -> Result<(), StoreError> {
        self.change(|transaction| make(transaction, day, generation, output))
    }

    /// Notes that the file of an open day is being made.
    pub(crate) fn begin_creating(&mut self, day: &DayTable, file: &str) -> Result<(), StoreError> {
        self.change(|transaction| insert_making(transaction, file, &day.to_string()))
    }

    /// Names `file`, as it is, as a live file of its day, which stands from now on unless it `stands_restored`.
    pub(crate) fn put_file(
        &mut self,
        file: &LiveFile,
        generation: i64,
        now: Ticks,
        stands_restored: bool,
    ) -> Result<(), StoreError> {
        let day = file.day.to_string();
        let state = if stands_restored { "restored" } else { "open" };
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

    /// Nothing is being made under this name any more.
    pub(crate) fn forget_making(&mut self, output: &str) -> Result<(), StoreError> {
        self.change(|transaction| transaction.execute("DELETE FROM pending_file WHERE name = ?1", [output]).map(drop))
    }

    /// Lets the empty file of an outbox go: it is live no more, and known as one that is to be removed.
    pub(crate) fn let_go(&mut self, day: &DayTable, file: &str) -> Result<(), StoreError> {
        self.change(|transaction| {
            let sent = "UPDATE state SET rows_sent = rows_sent
                        + coalesce((SELECT entities FROM file WHERE name = ?1 AND role = 'outbox'), 0)";
            transaction.execute(sent, [file])?;
            transaction.execute("DELETE FROM file WHERE name = ?1 AND role = 'outbox'", [file])?;
            insert_making(transaction, file, &day.to_string())
        })
    }

    /// What it says of the files in `tables/`.
    pub(crate) fn named(&self) -> Result<NamedFiles, StoreError> {
        // One moment, in which a file that changes from one list to the other is in one of them.
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

/// Ends the making of `output`. Fails where nothing of that name was being made: the folder was opened anew meanwhile,
/// which cleared away what there was of it.
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
