//! Opens the databases of the data folder, and recognises them as daytable's.

use crate::StoreError;
use crate::lock::FileIdentity;
use crate::private_file;
use daytable_model::path_text::PathText;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::{Duration, Instant};

/// The `application_id` of every database of daytable: "dayt".
const APPLICATION_ID: i64 = 0x6461_7974;
/// The `user_version`: the format of the data folder that this program writes, and the newest that it reads.
///
/// A later format N adds one entry to the `formats` of each [`Schema`]: the SQL that turns a database of format N - 1
/// into one of format N. [`open_to_write`] runs the missing entries in one transaction. A reader may open a database
/// that no writer has upgraded yet. So code that reads additions of format N first checks [`format`](fn@format).
const FORMAT: i64 = OLDEST_FORMAT - 1 + FORMATS as i64;
const FORMATS: usize = 1;
/// The oldest format that is read, and brought to the newest one. Those before were never released: row keys of format 1 have 49
/// characters, which no later key continues, and format 2 has bodies of pages in two columns.
const OLDEST_FORMAT: i64 = 3;
/// How long a connection waits for a lock. In WAL mode, writers never wait for readers. The time covers recovery of a
/// journal after a kill.
const BUSY: Duration = Duration::from_secs(5);
/// How long a reader waits for the tables of a database that is being made.
const FRESH: Duration = Duration::from_secs(1);

/// Prepared statements that a connection caches.
const STATEMENTS_KEPT: usize = 32;
/// The page cache of a writing connection in KiB: room for the leaves that tiny pages change.
const WRITER_CACHE_KIB: i64 = 8 << 10;
/// The page caches of all open days in KiB, unless there are more than 512 of them.
const WRITER_CACHES_KIB: i64 = 32 << 10;
/// The least page cache of an open day in KiB.
const WRITER_CACHE_KIB_MIN: i64 = 64;

/// Bytes that the file of a journal ([`journal_of`]) keeps when the journal starts over. A long-running reader makes it
/// longer than usual. Without a limit it would stay that long, and its length would look like unmoved contents.
pub(crate) const JOURNAL_BYTES_KEPT: i64 = 16 << 20;
/// Bytes of a journal from which readers let their snapshots go soon ([`crate::read`]).
pub(crate) const JOURNAL_BYTES_LONG: u64 = 24 << 20;

/// The schema of a database.
pub(crate) struct Schema {
    /// SQLite's page size.
    pub(crate) page_bytes: u32,
    /// The SQL that each format adds to the one before it.
    pub(crate) formats: [&'static [&'static str]; FORMATS],
}

/// Opens a database to write. Creates it with `schema` if it is missing, and upgrades an older format.
pub(crate) fn open_to_write(path: &Path, schema: &Schema) -> Result<Connection, StoreError> {
    let sql = |e| StoreError::sqlite(path)(e);
    create_private(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sql)?;
    connection.busy_timeout(BUSY).map_err(sql)?;
    prepare_once(&connection).map_err(sql)?;
    connection.pragma_update(None, "page_size", schema.page_bytes).map_err(sql)?;
    let fresh = is_fresh(&connection).map_err(sql)?;
    let format = if fresh { OLDEST_FORMAT - 1 } else { check_ours(&connection, path)? };
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).map_err(sql)?;
    if mode != "wal" {
        let what = format!("its file system cannot share memory between processes (journal mode {mode})");
        return Err(StoreError::Refused(format!("{}: {what}", path.escaped())));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(sql)?;
    // A separate thread makes checkpoints: inline they would stall commits.
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(sql)?;
    connection.pragma_update(None, "journal_size_limit", JOURNAL_BYTES_KEPT).map_err(sql)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB).map_err(sql)?;
    connection.pragma_update(None, "foreign_keys", false).map_err(sql)?;
    if format < FORMAT {
        let added =
            schema.formats.iter().skip(usize::try_from(format + 1 - OLDEST_FORMAT).unwrap_or(0)).copied().flatten();
        let added = added.copied().collect::<String>();
        let set_up = format!(
            "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; {added} COMMIT;"
        );
        connection.execute_batch(&set_up).map_err(sql)?;
        sync_folder(path)?;
    }
    Ok(connection)
}

/// The identities of an open database and its journal. SQLite keeps the files open and does not notice if other files
/// replace them.
pub(crate) fn seen(path: &Path) -> Result<Vec<FileIdentity>, StoreError> {
    Ok([FileIdentity::at(path)?, FileIdentity::at(&journal_of(path))?].into_iter().flatten().collect())
}

/// Opens a database of daytable to read.
pub(crate) fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let sql = |e| StoreError::sqlite(path)(e);
    if !path.exists() {
        return Err(StoreError::Io { path: path.into(), source: std::io::ErrorKind::NotFound.into() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(sql)?;
    connection.busy_timeout(BUSY).map_err(sql)?;
    prepare_once(&connection).map_err(sql)?;
    connection.pragma_update(None, "cache_size", -2048).map_err(sql)?;
    // The file is there a moment before its tables are.
    let until = Instant::now() + FRESH;
    while is_fresh(&connection).map_err(sql)? && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    check_ours(&connection, path)?;
    Ok(connection)
}

/// An empty database in memory, to read.
pub(crate) fn open_empty(schema: &Schema) -> Result<Connection, StoreError> {
    let sql = |e| StoreError::sqlite(Path::new(":memory:"))(e);
    let connection = Connection::open_in_memory().map_err(sql)?;
    prepare_once(&connection).map_err(sql)?;
    let tables: String = schema.formats.iter().copied().flatten().copied().collect();
    let set_up = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; {tables}");
    connection.execute_batch(&set_up).map_err(sql)?;
    Ok(connection)
}

/// Keeps prepared statements and their plans. By default SQLite looks at bound values for a better plan, and prepares
/// most of our statements again for each run. None of our statements has a plan that depends on a value.
fn prepare_once(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// The format of a database.
pub(crate) fn format(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

fn is_fresh(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) = 0 FROM sqlite_master", [], |row| row.get(0))
}

/// Checks that a database is daytable's, and returns its format.
fn check_ours(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let id: i64 =
        connection.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(StoreError::sqlite(path))?;
    if id != APPLICATION_ID {
        let what = match is_fresh(connection).map_err(StoreError::sqlite(path))? {
            true => "it is empty: a daytable began to make it, and did not go on",
            false => "another program made this database",
        };
        return Err(StoreError::Foreign(path.into(), what.into()));
    }
    let found = format(connection).map_err(StoreError::sqlite(path))?;
    if found > FORMAT {
        return Err(StoreError::NewerFormat { path: path.into(), found, known: FORMAT });
    }
    if found < OLDEST_FORMAT {
        return Err(StoreError::OlderFormat { path: path.into(), found, known: OLDEST_FORMAT });
    }
    Ok(found)
}

/// Creates an empty file that only its owner can read, if it is missing. SQLite gives its journals the same mode.
pub(crate) fn create_private(path: &Path) -> Result<(), StoreError> {
    match private_file::create_new(path) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(StoreError::io(path)(e)),
    }
}

/// Makes the entry of `path` in its folder durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), StoreError> {
    private_file::sync(path.parent().unwrap_or(Path::new(".")))
}

/// Moves the journal into the database. `truncate` also empties the journal's file. Returns the number of frames that
/// stay in the journal because a reader still needs them.
pub(crate) fn checkpoint(connection: &Connection, truncate: bool) -> rusqlite::Result<i64> {
    let mode = if truncate { "TRUNCATE" } else { "PASSIVE" };
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let (frames, checkpointed): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok(frames - checkpointed)
    })
}

/// Moves the journal into the database and empties it, if no reader needs the journal. Returns whether it did.
pub(crate) fn empty_journal(connection: &Connection) -> rusqlite::Result<bool> {
    connection.busy_timeout(Duration::ZERO)?;
    let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    connection.busy_timeout(BUSY)?;
    match emptied {
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(false),
        emptied => emptied.map(|is_busy| !is_busy),
    }
}

/// The page cache of each of this many open days in KiB.
pub(crate) fn writer_cache_kib(days: usize) -> i64 {
    // A power of two, so that one more day seldom changes the caches of the others.
    let days = i64::try_from(days.next_power_of_two()).unwrap_or(i64::MAX);
    (WRITER_CACHES_KIB / days).clamp(WRITER_CACHE_KIB_MIN, WRITER_CACHE_KIB)
}

/// Frees cached pages and other memory that SQLite can rebuild.
pub(crate) fn release_memory(connection: &Connection) {
    // A failure is harmless.
    let _ = connection.execute_batch("PRAGMA shrink_memory");
}

/// The length of a database's journal.
pub(crate) fn journal_bytes(path: &Path) -> u64 {
    std::fs::metadata(journal_of(path)).map(|journal| journal.len()).unwrap_or(0)
}

/// The path of a database's journal.
pub(crate) fn journal_of(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The options come from the environment of the build (`.cargo/config.toml`). A build without them would work, but
    /// would have more attack surface and slower syncs.
    #[test]
    fn sqlite_is_built_with_our_options() {
        let connection = Connection::open_in_memory().expect("opened");
        let mut statement = connection.prepare("PRAGMA compile_options").expect("a statement");
        let options = statement.query_map([], |row| row.get::<_, String>(0)).expect("options");
        let options: BTreeSet<String> = options.map(|option| option.expect("text")).collect();
        let wanted =
            ["DQS=0", "OMIT_LOAD_EXTENSION", "OMIT_JSON", "OMIT_DEPRECATED", "OMIT_SHARED_CACHE", "MAX_EXPR_DEPTH=0"];
        for option in wanted {
            assert!(options.contains(option), "{option} is missing: {options:?}");
        }
        for option in ["ENABLE_FTS3", "ENABLE_FTS5", "ENABLE_RTREE", "ENABLE_LOAD_EXTENSION", "SOUNDEX"] {
            assert!(!options.contains(option), "{option}: {options:?}");
        }
    }
}
