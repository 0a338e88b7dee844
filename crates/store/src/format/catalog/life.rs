//! What the catalog knows of the life of a day-table: which generation takes records, which is sealed, where a
//! verified archive of it is, and what may therefore be dropped.
//!
//! ```text
//! live files of a day          role     what changes it
//! Log20261120.1.db             open     begin_seal: closed; what comes later makes Log20261120.3.db
//! Log20261120.1.db             closed   end_seal: no longer live
//! Log20261120.2.parquet        sealed   the next end_seal: no longer live
//! ```
//!
//! Each change is one transaction. A file that is being made stands in `making` from before its first byte until it is
//! live: whatever has such a name when the folder is opened is what a kill left, and goes. So do files that are live no
//! more, until that they went is on the disk. What is in neither of the two is a file that this catalog has lost.
//!
//! **The permit.** [`Catalog::drop_day`] alone takes a day's files out of the live ones, and looks for the proof in
//! the same transaction: every row of the day lies in its sealed file, and an archive with that file's length, SHA-256
//! and rows was read back at the place that the table asks for. Nothing can come between the look and the drop.

use super::{Catalog, LiveFile, from_sql, seconds};
use crate::StoreError;
use crate::layout::FolderLayout;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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

/// A day-table: every one that there is or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// Which.
    pub table: DayTable,
    /// What has become of it.
    pub state: DayState,
    /// Its live files, by generation; none once it was dropped.
    pub files: Vec<LiveFile>,
    /// Its last commit when it was last looked at, and how long the daemon had watched when that was first seen.
    pub quiet: Option<(i64, Duration)>,
    /// Whether it was made while the clock was behind: later days of its table were known already.
    pub is_behind: bool,
}

/// What has become of a day-table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DayState {
    /// It stands.
    Open,
    /// It was brought back from an archive: it takes no records, and goes again.
    Restored {
        /// After this.
        expires: Ticks,
        /// The day-table whose archive it came from.
        origin: DayTable,
    },
    /// It was dropped; its name is remembered.
    Dropped,
}

/// An archive that was read back and matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The day-table it is of.
    pub table: DayTable,
    /// Its generation.
    pub generation: i64,
    /// The place, as configured.
    pub url: String,
    /// What was sealed, and read back.
    pub seal: Seal,
    /// When it was read back.
    pub verified: Ticks,
    /// Whether a later archive of the day has all that this one has.
    pub is_superseded: bool,
    /// The text of its manifest, by which it is found and read.
    pub manifest: Arc<str>,
}

/// Under what a day-table may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// If its table asks for an archive, there is one of all that it holds.
    Proven,
    /// Whatever it holds: somebody said so in as many words.
    WithoutArchive,
}

/// What the catalog says of the files in `tables/`, as of one moment.
pub(crate) struct NamedFiles {
    /// Files that are data, by name.
    pub(crate) live: HashMap<String, LiveFile>,
    /// Files that are none: not yet, or no more.
    pub(crate) making: HashSet<String>,
    /// Of days that were dropped, the highest generation that a file had. One that was restored was dropped before.
    dropped: HashMap<DayTable, i64>,
}

impl NamedFiles {
    /// Whether a file of this day and generation went when its day was dropped.
    pub(crate) fn is_dropped(&self, day: &DayTable, generation: i64) -> bool {
        self.dropped.get(day).is_some_and(|highest| generation <= *highest)
    }
}

/// How long a daemon has watched the folder, and since when no record gave a newer time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchedTime {
    /// In all, over every daemon that ran.
    pub watched: Duration,
    /// The newest record time when it was last looked at.
    pub newest: Option<Ticks>,
    /// How long had been watched when that was first seen.
    pub newest_since: Duration,
}

impl Catalog {
    /// Every day-table there is or was, the oldest first.
    pub fn days(&self) -> Result<Vec<Day>, StoreError> {
        let select = "SELECT name, state, expires, origin, quiet_mark, quiet_since, behind FROM day";
        let mut days = self.all(select, read_day)?;
        let mut files: HashMap<DayTable, Vec<LiveFile>> = HashMap::new();
        for file in self.files()? {
            files.entry(file.day.clone()).or_default().push(file);
        }
        for day in &mut days {
            day.files = files.remove(&day.table).unwrap_or_default();
        }
        days.sort_by(|a, b| (a.table.start(), &a.table).cmp(&(b.table.start(), &b.table)));
        Ok(days)
    }

    /// Archives that were read back, the oldest day first.
    pub fn archives(&self) -> Result<Vec<Archived>, StoreError> {
        let select = "SELECT day, generation, url, bytes, sha256, rows, oldest, newest, verified, superseded, manifest
                      FROM archive";
        let mut archives = self.all(select, read_archived)?;
        archives
            .sort_by(|a, b| (a.table.start(), &a.table, a.generation).cmp(&(b.table.start(), &b.table, b.generation)));
        Ok(archives)
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

    /// Closes what is open of `day`, so that what comes later goes to another file, and notes that `output` is being
    /// made of all that is live.
    pub(crate) fn begin_seal(
        &mut self,
        day: &DayTable,
        generation: i64,
        output: &str,
    ) -> Result<Vec<LiveFile>, StoreError> {
        let name = day.to_string();
        self.change(|transaction| {
            transaction
                .execute("UPDATE file SET role = 'closed', writable = 0 WHERE day = ?1 AND role = 'open'", [&name])?;
            make(transaction, day, generation, output)
        })?;
        Ok(self.files()?.into_iter().filter(|file| file.day == *day).collect())
    }

    /// Notes that `output` is being made, as a generation of `day`.
    pub(crate) fn begin_making(&mut self, day: &DayTable, generation: i64, output: &str) -> Result<(), StoreError> {
        self.change(|transaction| make(transaction, day, generation, output))
    }

    /// Notes that the file of an open day is being made.
    pub(crate) fn begin_creating(&mut self, day: &DayTable, file: &str) -> Result<(), StoreError> {
        self.change(|transaction| insert_making(transaction, file, &day.to_string()))
    }

    /// Files that were being made, or are to go.
    pub(crate) fn making(&self) -> Result<Vec<String>, StoreError> {
        self.all("SELECT name FROM making", |row| row.get(0))
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

    /// Nothing is being made under this name any more.
    pub(crate) fn forget_making(&mut self, output: &str) -> Result<(), StoreError> {
        self.change(|transaction| transaction.execute("DELETE FROM making WHERE name = ?1", [output]).map(drop))
    }

    /// Makes `output` the one that is live in place of `inputs`, from which it was sealed, and notes these as files that
    /// are to go. Refused where any of them is not what it was: the day was dropped meanwhile.
    pub(crate) fn end_seal(
        &mut self,
        day: &DayTable,
        inputs: &[LiveFile],
        output: &str,
        seal: &Seal,
    ) -> Result<(), StoreError> {
        let name = day.to_string();
        let is_whole = self.change(|transaction| {
            let (mut last_seq, mut rows) = (0, 0);
            for input in inputs {
                let gone = "DELETE FROM file WHERE name = ?1 AND role IN ('closed', 'sealed') AND last_seq = ?2";
                if transaction.execute(gone, params![input.name, input.last_seq])? != 1 {
                    // Nothing of it is committed.
                    return Err(rusqlite::Error::StatementChangedRows(0));
                }
                insert_making(transaction, &input.name, &name)?;
                last_seq = last_seq.max(input.last_seq);
                rows += input.entities;
            }
            let replaced = "UPDATE state SET rows_replaced = rows_replaced + ?1";
            transaction.execute(replaced, [rows - seal.rows.cast_signed()])?;
            finish_making(transaction, output)?;
            put_sealed(transaction, &name, output, last_seq, seal)
        });
        is_whole.map_err(|error| {
            superseded_error(error, || format!("{day} was dropped, or sealed again, while it was being sealed"))
        })
    }

    /// Makes `output`, which was brought back from an archive of `origin`, the one file of `day` until `expires`.
    pub(crate) fn end_restore(
        &mut self,
        day: &DayTable,
        origin: &DayTable,
        output: &str,
        seal: &Seal,
        expires: Ticks,
        now: Ticks,
    ) -> Result<(), StoreError> {
        let (name, origin) = (day.to_string(), origin.to_string());
        let is_whole = self.change(|transaction| {
            finish_making(transaction, output)?;
            put_sealed(transaction, &name, output, 0, seal)?;
            let update = "UPDATE day SET state = 'restored', expires = ?2, origin = ?3, changed = ?4 WHERE name = ?1";
            transaction.execute(update, params![name, expires.get(), origin, now.get()]).map(drop)
        });
        is_whole.map_err(|error| {
            superseded_error(error, || format!("what was brought back of {day} was cleared away meanwhile"))
        })
    }

    /// Has a restored day go at `expires`, unless it goes later anyway.
    pub(crate) fn extend_restore(&mut self, day: &DayTable, expires: Ticks) -> Result<(), StoreError> {
        let update = "UPDATE day SET expires = max(expires, ?2) WHERE name = ?1 AND state = 'restored'";
        self.change(|transaction| transaction.execute(update, params![day.to_string(), expires.get()]).map(drop))
    }

    /// Notes an archive that was read back. Those of the same day with a lower generation are superseded by it.
    pub(crate) fn put_archive(&mut self, archived: &Archived) -> Result<(), StoreError> {
        let Archived { table, generation, url, seal, verified, is_superseded, manifest } = archived;
        let (oldest, newest) = seal.times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
        let name = table.to_string();
        self.change(|transaction| {
            transaction.execute(
                "UPDATE archive SET superseded = 1 WHERE day = ?1 AND generation < ?2",
                params![name, generation],
            )?;
            transaction
                .execute(
                    "INSERT OR REPLACE INTO archive VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                    params![
                        name,
                        generation,
                        url,
                        seal.bytes.cast_signed(),
                        seal.sha256,
                        seal.rows.cast_signed(),
                        oldest,
                        newest,
                        verified.get(),
                        is_superseded,
                        manifest
                    ],
                )
                .map(drop)
        })
    }

    /// An archive that is no longer there.
    pub(crate) fn forget_archive(&mut self, table: &DayTable, generation: i64, url: &str) -> Result<(), StoreError> {
        let gone = "DELETE FROM archive WHERE day = ?1 AND generation = ?2 AND url = ?3";
        self.change(|transaction| transaction.execute(gone, params![table.to_string(), generation, url]).map(drop))
    }

    /// Drops `day`: none of its files is live any more, and they are noted as such that are to go. Gives their names. Refused, with what is missing, where it has
    /// not the permit that its table asks for.
    pub(crate) fn drop_day(&mut self, day: &DayTable, permit: Permit, now: Ticks) -> Result<Vec<String>, StoreError> {
        let name = day.to_string();
        let dropped = self.change(|transaction| {
            if permit == Permit::Proven
                && let Some(missing) = missing_proof(transaction, day, now)?
            {
                return Ok(Err(missing));
            }
            let dropped = "UPDATE state SET rows_dropped = rows_dropped
                + coalesce((SELECT sum(entities) FROM file WHERE day = ?1
                            AND day NOT IN (SELECT name FROM day WHERE state = 'restored')), 0)";
            transaction.execute(dropped, [&name])?;
            let files = {
                let mut statement = transaction.prepare("DELETE FROM file WHERE day = ?1 RETURNING name")?;
                statement.query_map([&name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?
            };
            files.iter().try_for_each(|file| insert_making(transaction, file, &name))?;
            let update = "UPDATE day SET state = 'dropped', changed = ?2, expires = NULL, origin = NULL, behind = 0
                          WHERE name = ?1";
            transaction.execute(update, params![name, now.get()])?;
            Ok(Ok(files))
        })?;
        dropped.map_err(|missing| StoreError::Refused(format!("{day} is not dropped: {missing}")))
    }

    /// How long was watched.
    pub fn watch(&self) -> Result<WatchedTime, StoreError> {
        let found = self.connection.query_row("SELECT seconds, newest, newest_since FROM watch", [], |row| {
            let newest = row.get::<_, Option<i64>>(1)?.and_then(Ticks::new);
            Ok(WatchedTime { watched: seconds(row.get(0)?), newest, newest_since: seconds(row.get(2)?) })
        });
        self.sql(found)
    }

    /// Notes that `more` was watched since the last time, and which days and record times changed meanwhile.
    pub(crate) fn note_watch(&mut self, more: Duration) -> Result<(), StoreError> {
        let Ok(more) = i64::try_from(more.as_secs()) else { return Ok(()) };
        self.change(|transaction| {
            transaction.execute("UPDATE watch SET seconds = seconds + ?1", [more])?;
            transaction.execute_batch(
                "UPDATE watch SET newest_since = seconds, newest = (SELECT newest FROM state)
                 WHERE newest IS NOT (SELECT newest FROM state);
                 UPDATE day SET quiet_since = (SELECT seconds FROM watch),
                                quiet_mark = (SELECT max(last_seq) FROM file WHERE file.day = day.name)
                 WHERE state <> 'dropped'
                   AND quiet_mark IS NOT (SELECT max(last_seq) FROM file WHERE file.day = day.name);",
            )
        })
    }

    /// The bound of the folder as the last daemon knew it, and since when.
    pub fn pressure(&self) -> Result<Option<(u64, Ticks)>, StoreError> {
        let found = self.connection.query_row("SELECT bytes_max, since FROM pressure", [], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), Ticks::new(row.get(1)?).unwrap_or_default()))
        });
        self.sql(found.optional())
    }

    /// Notes the bound of the folder.
    pub(crate) fn set_pressure(&mut self, pressure: Option<(u64, Ticks)>) -> Result<(), StoreError> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM pressure", [])?;
            if let Some((bytes_max, since)) = pressure {
                let values = params![bytes_max.cast_signed(), since.get()];
                transaction.execute("INSERT INTO pressure VALUES (1, ?1, ?2)", values)?;
            }
            Ok(())
        })
    }

    fn change<T>(&mut self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        })();
        self.sql(result)
    }
}

fn make(connection: &Connection, day: &DayTable, generation: i64, output: &str) -> rusqlite::Result<()> {
    let name = day.to_string();
    connection.execute(
        "INSERT INTO day(name, state, generation, changed) VALUES (?1, 'dropped', ?2, 0)
         ON CONFLICT (name) DO UPDATE SET generation = ?2",
        params![name, generation],
    )?;
    insert_making(connection, output, &name)
}

fn insert_making(connection: &Connection, file: &str, day: &str) -> rusqlite::Result<()> {
    connection.execute("INSERT OR REPLACE INTO making VALUES (?1, ?2)", [file, day]).map(drop)
}

/// Ends the making of `output`. Fails where nothing of that name was being made: the folder was opened anew meanwhile,
/// which cleared away what there was of it.
fn finish_making(connection: &Connection, output: &str) -> rusqlite::Result<()> {
    match connection.execute("DELETE FROM making WHERE name = ?1", [output])? {
        1 => Ok(()),
        _ => Err(rusqlite::Error::StatementChangedRows(0)),
    }
}

/// Says what came between, where that is why nothing was changed.
fn superseded_error(error: StoreError, what: impl FnOnce() -> String) -> StoreError {
    match error {
        StoreError::Sqlite { source: rusqlite::Error::StatementChangedRows(0), .. } => StoreError::Refused(what()),
        error => error,
    }
}

fn put_sealed(connection: &Connection, day: &str, output: &str, last_seq: i64, seal: &Seal) -> rusqlite::Result<()> {
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

/// What keeps `day` from being dropped, for people; none where nothing does.
fn missing_proof(connection: &Connection, day: &DayTable, now: Ticks) -> rusqlite::Result<Option<String>> {
    let name = day.to_string();
    let origin: Option<String> = connection
        .query_row("SELECT origin FROM day WHERE name = ?1 AND state = 'restored'", [&name], |row| row.get(0))
        .optional()?;
    let rule =
        "SELECT coalesce(archive, CASE WHEN archive_until > ?2 THEN archive_before END) FROM rule WHERE name = ?1";
    let place: Option<String> =
        connection.query_row(rule, params![day.table().as_str(), now.get()], |row| row.get(0)).optional()?.flatten();
    if origin.is_none() && place.is_none() {
        return Ok(None);
    }
    let unsealed: i64 = connection.query_row(
        "SELECT coalesce(sum(entities), 0) FROM file WHERE day = ?1 AND role <> 'sealed'",
        [&name],
        |row| row.get(0),
    )?;
    if unsealed > 0 {
        return Ok(Some(format!("{unsealed} of its rows are in no archive")));
    }
    // A restored day came from an archive, wherever that is.
    let (of, place) = match origin {
        Some(origin) => (origin, None),
        None => (name.clone(), place),
    };
    let unproven: i64 = connection.query_row(
        "SELECT count(*) FROM file WHERE day = ?1 AND role = 'sealed' AND NOT EXISTS (
            SELECT 1 FROM archive WHERE archive.day = ?2 AND archive.url = coalesce(?3, archive.url)
            AND archive.bytes = file.bytes AND archive.sha256 = file.sha256 AND archive.rows = file.entities)",
        params![name, of, place],
        |row| row.get(0),
    )?;
    let place = place.map_or(String::new(), |place| format!(" at {place}"));
    Ok((unproven > 0).then(|| format!("there is no archive{place} of all that it holds that was read back")))
}

fn table_in(row: &Row<'_>, column: usize) -> rusqlite::Result<DayTable> {
    DayTable::parse(&row.get::<_, String>(column)?).map_err(|e| from_sql(column, e))
}

fn read_day(row: &Row<'_>) -> rusqlite::Result<Day> {
    let state = match row.get::<_, String>(1)?.as_str() {
        "dropped" => DayState::Dropped,
        "restored" => DayState::Restored {
            expires: row.get::<_, Option<i64>>(2)?.and_then(Ticks::new).unwrap_or(Ticks::MAX),
            origin: table_in(row, 3)?,
        },
        _ => DayState::Open,
    };
    let quiet = row.get::<_, Option<i64>>(4)?.zip(row.get::<_, Option<i64>>(5)?.map(seconds));
    Ok(Day { table: table_in(row, 0)?, state, files: Vec::new(), quiet, is_behind: row.get(6)? })
}

fn read_archived(row: &Row<'_>) -> rusqlite::Result<Archived> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|ticks| ticks.and_then(Ticks::new));
    let count = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let verified = time(8)?.unwrap_or_default();
    let seal =
        Seal { bytes: count(3)?, sha256: row.get(4)?, rows: count(5)?, times: time(6)?.zip(time(7)?), at: verified };
    Ok(Archived {
        table: table_in(row, 0)?,
        generation: row.get(1)?,
        url: row.get(2)?,
        seal,
        verified,
        is_superseded: row.get(9)?,
        manifest: row.get::<_, String>(10)?.into(),
    })
}

#[cfg(test)]
mod tests;
