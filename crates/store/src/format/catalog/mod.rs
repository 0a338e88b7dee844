//! `catalog.db`: what is true.
//!
//! It says how far is committed, which files are live, and how far every source was read. What it does not name is
//! not data. Its transaction that sets `committed = k` is the commit point of commit k.

pub mod accounting;
pub(crate) mod commit_clock;
pub mod idempotency;
mod life;
mod schema;
mod source_log;

pub(crate) use life::NamedFiles;
pub use life::{Archived, Day, DayState, FileRole, Permit, Seal, WatchedTime};
pub(crate) use source_log::latest as latest_deltas;

use crate::StoreError;
use crate::error::SourceLogError;
use crate::format::catalog::accounting::CommitEntry;
use crate::format::catalog::commit_clock as clock;
use crate::format::catalog::idempotency::IdempotencyKey;
use crate::lock::FileIdentity;
use crate::source::{Ledger, MARKS_MAX, Mark, SourceKind, SourceState, SourceStatus};
use crate::sqlite;
use daytable_model::key::{DayTable, Period};
use daytable_model::time::{self, Ticks};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Commit numbers that never happened and are remembered, for readers whose snapshot still has their pages. Older
/// ones than this many are in no snapshot any more.
const VOID_MAX: usize = 1000;

/// The catalog, opened.
pub struct Catalog {
    connection: Connection,
    pub(crate) path: PathBuf,
    /// Records of the sources that this one forgot, by their identity: whoever has such a source in memory still may come
    /// back with its old ledger, which is then counted there again.
    forgotten: HashMap<u64, i64>,
    /// The sources that have a row, with what it says for good, where this is opened to write.
    known: KnownSources,
    /// What waits to be entered in their rows, where this is opened to write.
    waiting: source_log::SourceLog,
    /// The files that were opened, where this is opened to write.
    seen: Vec<FileIdentity>,
}

/// Generation and block of each source, by identity.
type KnownSources = HashMap<u64, (u32, Arc<str>), foldhash::quality::RandomState>;

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

/// What one commit did to a file.
pub(crate) struct Touched<'a> {
    pub(crate) file: &'a str,
    pub(crate) entities: i64,
    /// The oldest and the newest time among them.
    pub(crate) times: Option<(Ticks, Ticks)>,
}

/// How long a configured table is kept, as the last daemon knew it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The configured table's name.
    pub name: String,
    /// How long after its end a day is kept.
    pub keep: Duration,
    /// Where `keep` became shorter: since when, and what it was before.
    pub shortened: Option<(Ticks, Duration)>,
    /// Where its days are archived.
    pub archive: Option<String>,
    /// Where they were archived until lately, and until when a drop asks for an archive there.
    pub archive_before: Option<(String, Ticks)>,
    /// How long an archive is kept after the end of its day; none is for ever.
    pub keep_archives: Option<Duration>,
    /// Where `keep_archives` became shorter: since when.
    pub archives_since: Option<Ticks>,
    /// How long after its end a day waits for late records before it is sealed.
    pub seal_after: Duration,
    /// How long one of its day-tables takes records.
    pub period: Period,
    /// Whether it is configured no more; what stands of it is not dropped.
    pub is_removed: bool,
}

/// Which pages a reader may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The number of the last commit.
    pub seq: i64,
    /// Numbers below it that never happened.
    pub void: BTreeSet<i64>,
}

impl Committed {
    /// Whether pages of commit `seq` are data.
    pub fn includes(&self, seq: i64) -> bool {
        seq <= self.seq && !self.void.contains(&seq)
    }
}

/// An error unless it is one row that a statement found. A damaged catalog may have lost it without SQLite noticing: a
/// commit would be told as done and be nowhere.
fn one(rows: usize) -> rusqlite::Result<()> {
    if rows == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(rows)) }
}

impl Catalog {
    /// The catalog's path in a data folder.
    pub fn path_in(data_dir: &Path) -> PathBuf {
        data_dir.join("catalog.db")
    }

    pub(crate) fn open_to_write(data_dir: &Path) -> Result<Catalog, StoreError> {
        let mut catalog = Catalog::open_to_repair(data_dir)?;
        accounting::open(&mut catalog.connection).map_err(StoreError::sqlite(&catalog.path))?;
        catalog.known = catalog.sql(read_known(&catalog.connection))?;
        let latest = catalog.sql(source_log::latest(&catalog.connection))?;
        let moved = catalog.moved(latest)?;
        catalog.waiting = catalog.sql(source_log::SourceLog::read(&catalog.connection, moved))?;
        catalog.seen = sqlite::seen(&catalog.path)?;
        Ok(catalog)
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

    fn new(connection: Connection, path: PathBuf) -> Catalog {
        let (known, waiting) = (KnownSources::default(), source_log::SourceLog::default());
        Catalog { connection, path, forgotten: HashMap::new(), known, waiting, seen: Vec::new() }
    }

    /// An error where its path leads to another file than the one that is written to.
    pub(crate) fn check_place(&self) -> Result<(), StoreError> {
        self.seen.iter().try_for_each(FileIdentity::check)
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(StoreError::sqlite(&self.path))
    }

    /// How far is committed.
    pub fn committed(&self) -> Result<Committed, StoreError> {
        let (committed, states) = self.sql((|| {
            // One statement is one snapshot: a number is never seen committed without being seen void as well.
            let mut statement = self
                .connection
                .prepare_cached("SELECT committed, NULL FROM state UNION ALL SELECT NULL, seq FROM void")?;
            let mut rows = statement.query([])?;
            let (mut committed, mut states) = (Committed::default(), 0);
            while let Some(row) = rows.next()? {
                match row.get(1)? {
                    Some(seq) => drop(committed.void.insert(seq)),
                    None => (committed.seq, states) = (row.get(0)?, states + 1),
                }
            }
            Ok((committed, states))
        })())?;
        // SQLite notices neither where a page of it is another.
        let foreign = |what: &str| Err(StoreError::Foreign(self.path.clone(), what.into()));
        if states != 1 {
            return foreign("it does not say which commit was the last");
        }
        if committed.void.last().is_some_and(|void| *void > committed.seq) {
            return foreign("it says that a commit which is still to come never happened");
        }
        Ok(committed)
    }

    /// The newest time that a record gave by itself.
    pub fn newest(&self) -> Result<Option<Ticks>, StoreError> {
        let newest = self.connection.query_row("SELECT newest FROM state", [], |row| row.get::<_, Option<i64>>(0));
        Ok(self.sql(newest)?.and_then(Ticks::new))
    }

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

    /// Names of day-tables that were dropped: nothing brings them back by accident.
    pub fn dropped(&self) -> Result<Vec<DayTable>, StoreError> {
        self.all("SELECT name FROM day WHERE state = 'dropped'", |row| {
            DayTable::parse(&row.get::<_, String>(0)?).map_err(|e| from_sql(0, e))
        })
    }

    /// Names of day-tables that take no records: those that were dropped, and those that were restored.
    pub(crate) fn closed(&self) -> Result<Vec<DayTable>, StoreError> {
        self.all("SELECT name FROM day WHERE state <> 'open'", |row| {
            DayTable::parse(&row.get::<_, String>(0)?).map_err(|e| from_sql(0, e))
        })
    }

    /// Whether there is, or was, a day of the same table that begins after the one behind `day` has ended.
    pub(crate) fn has_later(&self, day: &DayTable) -> Result<bool, StoreError> {
        let ahead = day.next().end();
        let names: Vec<String> = self.all("SELECT name FROM day", |row| row.get(0))?;
        let days = names.iter().filter_map(|name| DayTable::parse(name).ok());
        let is_later =
            |other: DayTable| other.table() == day.table() && other.period() == day.period() && other.start() >= ahead;
        Ok(days.into_iter().any(is_later))
    }

    /// The highest generation that a file of `day` ever had.
    pub(crate) fn generation(&self, day: &DayTable) -> Result<i64, StoreError> {
        let found = self
            .connection
            .query_row("SELECT generation FROM day WHERE name = ?1", [day.to_string()], |row| row.get(0));
        Ok(self.sql(found.optional())?.unwrap_or(0))
    }

    /// Makes `file` the live file of `day` in this role, which is open from now on. `is_behind`: the clock is, which called it today.
    pub(crate) fn create_day(
        &mut self,
        day: &DayTable,
        generation: i64,
        file: &str,
        role: FileRole,
        now: Ticks,
        is_behind: bool,
    ) -> Result<(), StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            transaction.execute(
                "INSERT INTO day(name, state, generation, changed, behind) VALUES (?1, 'open', ?2, ?3, ?4)
                 ON CONFLICT (name) DO UPDATE SET state = 'open', generation = ?2, changed = ?3, behind = behind OR ?4",
                params![day.to_string(), generation, now.get(), is_behind],
            )?;
            let insert = "INSERT INTO file(name, day, last_seq, entities, writable, role) VALUES (?1, ?2, 0, 0, 1, ?3)";
            transaction.execute(insert, params![file, day.to_string(), role.name()])?;
            transaction.execute("DELETE FROM making WHERE name = ?1", [file])?;
            transaction.commit()
        })();
        self.sql(result)
    }

    /// Notes whether `file` may have a journal from now on.
    pub(crate) fn set_writable(&self, file: &str, writable: bool) -> Result<(), StoreError> {
        let result = self.connection.execute("UPDATE file SET writable = ?2 WHERE name = ?1", params![file, writable]);
        self.sql(result).map(drop)
    }

    /// What becomes of a submission with this key, where the key is known.
    pub(crate) fn repeat_of(&self, once: &IdempotencyKey) -> Result<Option<idempotency::Repeat>, StoreError> {
        self.sql(idempotency::repeat_of(&self.connection, once))
    }

    /// Whether a submission with this key was committed.
    pub fn knows(&self, once: &IdempotencyKey) -> Result<bool, StoreError> {
        Ok(self.repeat_of(once)?.is_some())
    }

    /// The commit point of commit `seq`. Says how many idempotency keys are left, where it brought some.
    pub(crate) fn commit<'s>(
        &mut self,
        seq: i64,
        touched: &[Touched<'_>],
        sources: impl Iterator<Item = &'s Arc<SourceState>>,
        keys: impl ExactSizeIterator<Item = &'s IdempotencyKey>,
        newest: Option<Ticks>,
        entry: CommitEntry<'_>,
    ) -> Result<Option<idempotency::KeyCount>, StoreError> {
        let (mut back, mut begun) = (Vec::new(), Vec::new());
        let mut moves = source_log::SourceLogRow::new();
        let sources: Vec<&Arc<SourceState>> = sources.inspect(|source| moves.push(source)).collect();
        let is_entered = self.waiting.is_due_with(&moves);
        let result = (|| {
            let emptying = is_entered.then(|| self.waiting.truncation(&self.connection)).transpose()?;
            let transaction = self.connection.transaction()?;
            for Touched { file, entities, times } in touched {
                let (oldest, newest) = times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
                let noted = transaction
                    .prepare_cached(
                        "UPDATE file SET last_seq = ?2, entities = entities + ?3,
                         oldest = min(coalesce(oldest, ?4), coalesce(?4, oldest)),
                         newest = max(coalesce(newest, ?5), coalesce(?5, newest)) WHERE name = ?1",
                    )?
                    .execute(params![file, seq, entities, oldest, newest])?;
                one(noted)?;
            }
            let mut remembered = 0;
            for source in &sources {
                if !is_known(&self.known, source) {
                    insert_source(&transaction, source)?;
                    begun.push((source.identity, (source.generation, source.block.as_str().into())));
                    // With fewer records it is a new one.
                    let records = source.ledger.records.cast_signed();
                    if let Some(old) = self.forgotten.get(&source.identity).filter(|old| **old <= records) {
                        remembered += old;
                        back.push(source.identity);
                    }
                }
            }
            match emptying {
                Some(emptying) => self.waiting.enter(&transaction, &sources, emptying)?,
                None => moves.insert(&transaction, seq)?,
            }
            let noted = transaction
                .prepare_cached(
                    "UPDATE state SET committed = ?1, newest = max(coalesce(newest, 0), coalesce(?2, newest, 0)),
                     records_in = records_in + ?3, rows_in = rows_in + ?4, rows_replaced = rows_replaced + ?5,
                     records_forgotten = records_forgotten - ?6",
                )?
                .execute(params![
                    seq,
                    newest.map(Ticks::get),
                    entry.records.cast_signed(),
                    entry.rows.cast_signed(),
                    entry.replaced.cast_signed(),
                    remembered
                ])?;
            one(noted)?;
            accounting::enter(&transaction, entry.taken)?;
            if let Some(stamp) = entry.stamp {
                clock::put(&transaction, seq, stamp)?;
            }
            let kept =
                (keys.len() > 0).then(|| idempotency::keep(&transaction, keys, time::now(), idempotency::KEYS_MAX));
            let kept = kept.transpose()?;
            transaction.commit()?;
            Ok(kept)
        })();
        match &result {
            Ok(_) => {
                for identity in back {
                    self.forgotten.remove(&identity);
                }
                self.known.extend(begun);
                match is_entered {
                    true => self.waiting = source_log::SourceLog::default(),
                    false => self.waiting.add(&moves, sources),
                }
            }
            Err(_) => self.waiting.mark_doubtful(),
        }
        self.sql(result)
    }

    /// Says that commit `seq` never happened, and that its number is not to be used again.
    pub(crate) fn void(&mut self, seq: i64) -> Result<(), StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            transaction.execute("INSERT OR IGNORE INTO void VALUES (?1)", [seq])?;
            transaction.execute(
                "DELETE FROM void WHERE seq NOT IN (SELECT seq FROM void ORDER BY seq DESC LIMIT ?1)",
                [VOID_MAX as i64],
            )?;
            transaction.execute("UPDATE state SET committed = max(committed, ?1)", [seq])?;
            transaction.commit()
        })();
        self.sql(result)
    }

    /// Every source that is known.
    pub fn sources(&self) -> Result<Vec<SourceState>, StoreError> {
        // What moved and what it is laid over are of one moment: that of whoever has one open already, or else of this.
        let moment = self.connection.is_autocommit().then(|| self.connection.unchecked_transaction()).transpose();
        let _moment = self.sql(moment)?;
        let mut sources = self.entered_sources()?;
        let mut latest = self.sql(source_log::latest(&self.connection))?;
        apply(&mut sources, &mut latest);
        Ok(sources)
    }

    /// Every source, as it was when what moved was entered last.
    pub(crate) fn entered_sources(&self) -> Result<Vec<SourceState>, StoreError> {
        let select = "SELECT identity, block, kind, path, device, inode, generation, head, position, marks, last_time,
                      status, ledger, seen, learned, cursor FROM source ORDER BY block, path";
        self.all(select, read_source)
    }

    /// The sources that moved since it was entered last, as they are now.
    fn moved(&self, mut latest: source_log::LatestDeltas) -> Result<Vec<SourceState>, StoreError> {
        if latest.is_empty() {
            return Ok(Vec::new());
        }
        let mut sources = self.entered_sources()?;
        sources.retain(|source| latest.contains_key(&source.identity));
        apply(&mut sources, &mut latest);
        for identity in latest.keys() {
            let identity = format!("{identity:016x}");
            tracing::error!(identity, "a source that moved is not in the catalog any more: who reads it begins anew");
        }
        Ok(sources)
    }

    /// An error where nothing can be said of what moved, or where a newer program wrote it. That it is damaged is none.
    pub(crate) fn check_moved(&self) -> Result<(), StoreError> {
        self.sql(source_log::readable(&self.connection)).map(drop)
    }

    /// Leaves out what cannot be read of what moved, and enters the rest: a source is then where it was before. Says what
    /// was left out.
    pub(crate) fn mend_moved(&mut self) -> Result<Vec<String>, StoreError> {
        let (latest, damaged) = self.sql(source_log::readable(&self.connection))?;
        if damaged.is_empty() {
            return Ok(Vec::new());
        }
        let sources = self.moved(latest)?;
        let mended = source_log::begin_anew(&mut self.connection, &sources);
        self.sql(mended)?;
        let left_out = |unread: SourceLogError| {
            format!("catalog.db: {unread}; left out: what was read with it may be read again from where it was before")
        };
        Ok(damaged.into_iter().map(left_out).collect())
    }

    /// Forgets sources that ended before `before`. Gives their identities.
    pub(crate) fn forget_sources(&mut self, before: Ticks) -> Result<Vec<u64>, StoreError> {
        let gone = "DELETE FROM source WHERE status = 'ended' AND kind = 'tail' AND seen < ?1
                    RETURNING identity, ledger";
        if self.waiting.is_doubtful() {
            return Err(StoreError::Refused("a commit failed, and the store was not opened again".into()));
        }
        let result = (|| {
            let emptying = self.waiting.truncation(&self.connection)?;
            let transaction = self.connection.unchecked_transaction()?;
            // By what they are now.
            self.waiting.enter(&transaction, &[], emptying)?;
            let forgotten: Vec<(i64, Ledger)> = {
                let mut statement = transaction.prepare(gone)?;
                let rows = statement.query_map([before.get()], |row| {
                    Ok((row.get(0)?, accounting::ledger_in(&row.get::<_, String>(1)?)?))
                })?;
                rows.collect::<rusqlite::Result<_>>()?
            };
            let records: i64 = forgotten.iter().map(|(_, ledger)| ledger.records.cast_signed()).sum();
            transaction.execute("UPDATE state SET records_forgotten = records_forgotten + ?1", [records])?;
            transaction.commit()?;
            let of = |(identity, ledger): (i64, Ledger)| (identity.cast_unsigned(), ledger.records.cast_signed());
            Ok(forgotten.into_iter().map(of).collect::<Vec<_>>())
        })();
        let forgotten = self.sql(result)?;
        self.waiting = source_log::SourceLog::default();
        forgotten.iter().for_each(|(identity, _)| drop(self.known.remove(identity)));
        self.forgotten.extend(forgotten.iter().copied());
        Ok(forgotten.into_iter().map(|(identity, _)| identity).collect())
    }

    /// The rules of the last daemon, and those of tables that are configured no more.
    pub fn rules(&self) -> Result<Vec<Rule>, StoreError> {
        let select = "SELECT name, keep_seconds, shorter_since, keep_before, archive, archive_before, archive_until,
                      keep_archives, archives_since, seal_after, removed, period FROM rule";
        self.all(select, |row| {
            let time = |column| row.get::<_, Option<i64>>(column).map(|ticks| ticks.and_then(Ticks::new));
            let duration = |column| row.get::<_, Option<i64>>(column).map(|length| length.map(seconds));
            Ok(Rule {
                name: row.get(0)?,
                keep: seconds(row.get(1)?),
                shortened: time(2)?.zip(duration(3)?),
                archive: row.get(4)?,
                archive_before: row.get::<_, Option<String>>(5)?.zip(time(6)?),
                keep_archives: duration(7)?,
                archives_since: time(8)?,
                seal_after: duration(9)?.unwrap_or_default(),
                is_removed: row.get(10)?,
                period: period_of(row.get::<_, Option<String>>(11)?.as_deref()),
            })
        })
    }

    /// Notes the rules of this daemon, all of them.
    pub(crate) fn set_rules(&mut self, rules: &[Rule]) -> Result<(), StoreError> {
        let length = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        let result = (|| {
            let transaction = self.connection.transaction()?;
            transaction.execute("DELETE FROM rule", [])?;
            for rule in rules {
                let (since, before) = rule.shortened.map(|(since, before)| (since.get(), length(before))).unzip();
                let (place, until) = rule.archive_before.as_ref().map(|(place, until)| (place, until.get())).unzip();
                transaction.execute(
                    "INSERT INTO rule(name, keep_seconds, shorter_since, keep_before, archive, archive_before,
                     archive_until, keep_archives, archives_since, seal_after, removed, period)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
                    params![
                        rule.name,
                        length(rule.keep),
                        since,
                        before,
                        rule.archive,
                        place,
                        until,
                        rule.keep_archives.map(length),
                        rule.archives_since.map(Ticks::get),
                        length(rule.seal_after),
                        rule.is_removed,
                        name_of_period(rule.period)
                    ],
                )?;
            }
            transaction.commit()
        })();
        self.sql(result)
    }

    /// When the lifecycle last ran to its end.
    pub fn last_run(&self) -> Result<Option<Ticks>, StoreError> {
        let found = self.connection.query_row("SELECT last_success FROM run", [], |row| row.get(0)).optional();
        Ok(self.sql(found)?.and_then(Ticks::new))
    }

    /// Notes that the lifecycle ran to its end.
    pub(crate) fn set_last_run(&self, at: Ticks) -> Result<(), StoreError> {
        self.sql(self.connection.execute("INSERT OR REPLACE INTO run VALUES (1, ?1)", [at.get()])).map(drop)
    }

    /// Enters what moved, moves the journal into the database and closes it.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        let Catalog { mut connection, path, waiting, .. } = self;
        if !waiting.is_doubtful() {
            let entered = waiting.truncation(&connection).and_then(|emptying| {
                let transaction = connection.transaction()?;
                waiting.enter(&transaction, &[], emptying)?;
                transaction.commit()
            });
            // Who opens the folder next finds it where it is.
            if let Err(error) = entered {
                tracing::error!(%error, "failed to enter how far sources moved: it stays where it is");
            }
        }
        sqlite::checkpoint(&connection, true).map_err(StoreError::sqlite(&path))?;
        connection.close().map_err(|(_, e)| StoreError::sqlite(&path)(e))
    }

    fn all<T>(&self, select: &str, read: impl Fn(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>, StoreError> {
        let result = (|| {
            let mut statement = self.connection.prepare_cached(select)?;
            let rows = statement.query_map([], |row| read(row))?;
            rows.collect()
        })();
        self.sql(result)
    }
}

const FILES: &str =
    "SELECT name, day, last_seq, entities, writable, oldest, newest, role, bytes, sha256, sealed_at FROM file";
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

fn name_of_period(period: Period) -> &'static str {
    match period {
        Period::Hour => "hour",
        Period::Day => "day",
        Period::Month => "month",
    }
}

fn period_of(name: Option<&str>) -> Period {
    let all = [Period::Hour, Period::Day, Period::Month];
    all.into_iter().find(|period| name == Some(name_of_period(*period))).unwrap_or_default()
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

fn from_sql(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}

fn name_of(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

fn by_name<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let name: String = row.get(column)?;
    serde_json::from_value(serde_json::Value::String(name)).map_err(|e| from_sql(column, e))
}

/// A mark is 20 bytes: position 8, length 4, hash 8, little-endian.
const MARK_BYTES: usize = 20;

fn mark_bytes(marks: &[Mark]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(marks.len() * MARK_BYTES);
    for mark in marks {
        bytes.extend_from_slice(&mark.position.to_le_bytes());
        bytes.extend_from_slice(&mark.length.to_le_bytes());
        bytes.extend_from_slice(&mark.hash.to_le_bytes());
    }
    bytes
}

fn marks_from(bytes: &[u8]) -> Vec<Mark> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
    let mark = |b: &[u8]| Mark { position: number(&b[..8]), length: number(&b[8..12]) as u32, hash: number(&b[12..]) };
    bytes.chunks_exact(MARK_BYTES).map(mark).take(MARKS_MAX).collect()
}

/// Nearly every source is known, and only goes on: what it is stays as it was written first.
fn is_known(known: &KnownSources, source: &SourceState) -> bool {
    known
        .get(&source.identity)
        .is_some_and(|(generation, block)| (*generation, &**block) == (source.generation, source.block.as_str()))
}

fn read_known(connection: &Connection) -> rusqlite::Result<KnownSources> {
    let mut statement = connection.prepare_cached("SELECT identity, generation, block FROM source")?;
    let rows = statement.query_map([], |row| {
        let block: Arc<str> = row.get_ref(2)?.as_str()?.into();
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), (row.get(1)?, block)))
    })?;
    rows.collect()
}

/// Puts down who a source is, and how far it was read.
fn insert_source(connection: &Connection, source: &SourceState) -> rusqlite::Result<()> {
    let insert = "INSERT OR REPLACE INTO source VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6, 0, x'', NULL, '', '', 0, '', '')";
    let (identity, kind, path) =
        (source.identity.cast_signed(), name_of(source.kind), source.path.as_os_str().as_bytes());
    let head = mark_bytes(&[source.head]);
    let known = params![identity, source.block, kind, path, source.generation, head];
    connection.prepare_cached(insert)?.execute(known)?;
    update_source(connection, source).map(drop)
}

/// Enters how far a source was read in its row; gives how many rows that was.
fn update_source(connection: &Connection, source: &SourceState) -> rusqlite::Result<usize> {
    let update = "UPDATE source SET position = ?2, marks = ?3, last_time = ?4, status = ?5, ledger = ?6, seen = ?7,
                  device = ?8, inode = ?9, learned = ?10, cursor = ?11 WHERE identity = ?1";
    let values = params![
        source.identity.cast_signed(),
        source.position.cast_signed(),
        mark_bytes(&source.marks),
        source.last_time.map(Ticks::get),
        name_of(source.status),
        serde_json::to_string(&source.ledger).unwrap_or_default(),
        source.seen.get(),
        source.device.cast_signed(),
        source.inode.cast_signed(),
        source.learned,
        source.cursor
    ];
    connection.prepare_cached(update)?.execute(values)
}

/// Lays what moved over sources as they were before, and takes it out.
fn apply(sources: &mut [SourceState], latest: &mut source_log::LatestDeltas) {
    for source in sources {
        if let Some(moved) = latest.remove(&source.identity) {
            moved.apply(source);
        }
    }
}

fn read_source(row: &Row<'_>) -> rusqlite::Result<SourceState> {
    let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let ledger: String = row.get(12)?;
    let ledger: Ledger = serde_json::from_str(&ledger).map_err(|e| from_sql(12, e))?;
    let (kind, status): (SourceKind, SourceStatus) = (by_name(row, 2)?, by_name(row, 11)?);
    Ok(SourceState {
        identity: number(0)?,
        block: row.get(1)?,
        kind,
        path: std::ffi::OsString::from_vec(row.get(3)?).into(),
        device: number(4)?,
        inode: number(5)?,
        generation: row.get(6)?,
        head: marks_from(&row.get::<_, Vec<u8>>(7)?).first().copied().unwrap_or_default(),
        position: number(8)?,
        marks: marks_from(&row.get::<_, Vec<u8>>(9)?),
        last_time: row.get::<_, Option<i64>>(10)?.and_then(Ticks::new),
        status,
        ledger,
        seen: Ticks::new(row.get(13)?).unwrap_or_default(),
        learned: row.get(14)?,
        cursor: row.get(15)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests_state;

    fn day(name: &str) -> DayTable {
        DayTable::parse(name).expect("a day-table")
    }

    #[test]
    fn a_commit_is_read_back_by_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut writer = Catalog::open_to_write(dir.path()).expect("opened");
        let (old, new) = (day("Log20261120"), day("Log20261121"));
        writer.create_day(&new, 1, "Log20261121.1.db", FileRole::Open, Ticks::MIN, false).expect("created");
        writer.create_day(&old, 1, "Log20261120.1.db", FileRole::Open, Ticks::MIN, false).expect("created");
        let source = SourceState { identity: u64::MAX - 1, position: 77, ..tests_state(1) };
        let touched = [Touched { file: "Log20261121.1.db", entities: 5, times: Ticks::new(3).zip(Ticks::new(9)) }];
        writer
            .commit(
                1,
                &touched,
                [&Arc::new(source.clone())].into_iter(),
                [].iter(),
                Ticks::new(9),
                CommitEntry::default(),
            )
            .expect("committed");
        let reader = Catalog::open_to_read(dir.path()).expect("opened");
        assert_eq!(reader.committed().expect("read").seq, 1);
        assert_eq!(reader.newest().expect("read"), Ticks::new(9));
        assert_eq!(reader.sources().expect("read"), [source]);
        let files = reader.files().expect("read");
        assert_eq!(files.iter().map(|f| &f.day).collect::<Vec<_>>(), [&old, &new]);
        assert_eq!((files[1].last_seq, files[1].entities), (1, 5));
        assert_eq!((files[0].times, files[1].times), (None, Ticks::new(3).zip(Ticks::new(9))));
        let touched = [Touched { file: "Log20261121.1.db", entities: 1, times: Ticks::new(1).zip(Ticks::new(4)) }];
        writer.commit(2, &touched, std::iter::empty(), [].iter(), None, CommitEntry::default()).expect("committed");
        assert_eq!(reader.files().expect("read")[1].times, Ticks::new(1).zip(Ticks::new(9)));

        assert_eq!(writer.drop_day(&old, Permit::Proven, Ticks::MIN).expect("dropped"), ["Log20261120.1.db"]);
        assert_eq!(reader.dropped().expect("read"), std::slice::from_ref(&old));
        assert_eq!(reader.files().expect("read").len(), 1);
        assert_eq!(reader.generation(&old).expect("read"), 1);
    }

    #[test]
    fn a_source_that_comes_back_after_it_was_forgotten_is_not_in_the_books_twice() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut catalog = Catalog::open_to_write(dir.path()).expect("opened");
        let mut source = SourceState { status: SourceStatus::Ended, ..tests_state(1) };
        let mut commit = |catalog: &mut Catalog, seq, records| {
            source.ledger.records += records;
            let entry = CommitEntry { records, ..CommitEntry::default() };
            catalog
                .commit(seq, &[], [&Arc::new(source.clone())].into_iter(), [].iter(), None, entry)
                .expect("committed");
        };
        let out = |catalog: &Catalog| catalog.books().expect("read").expect("books").records_out();
        commit(&mut catalog, 1, 7);
        let before = out(&catalog);
        for seq in [2, 4] {
            assert_eq!(catalog.forget_sources(Ticks::MAX).expect("forgotten").len(), 1);
            assert_eq!(out(&catalog), before);
            commit(&mut catalog, seq, 0);
            commit(&mut catalog, seq + 1, 2);
            assert_eq!(out(&catalog), before);
        }
    }

    #[test]
    fn a_number_that_never_happened_is_not_data_and_not_used_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut catalog = Catalog::open_to_write(dir.path()).expect("opened");
        catalog.commit(1, &[], std::iter::empty(), [].iter(), None, CommitEntry::default()).expect("committed");
        catalog.void(2).expect("voided");
        let committed = catalog.committed().expect("read");
        assert_eq!(committed.seq, 2);
        assert!(committed.includes(1) && !committed.includes(2) && !committed.includes(3));
    }

    #[test]
    fn a_newer_format_and_a_foreign_file_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(matches!(Catalog::open_to_read(dir.path()), Err(StoreError::NoStore(_))));
        let catalog = Catalog::open_to_write(dir.path()).expect("opened");
        catalog.connection.pragma_update(None, "user_version", 99).expect("set");
        drop(catalog);
        for error in [Catalog::open_to_write(dir.path()).err(), Catalog::open_to_read(dir.path()).err()] {
            assert!(matches!(error, Some(StoreError::NewerFormat { found: 99, .. })), "{error:?}");
        }
        let other = tempfile::tempdir().expect("a folder");
        let path = Catalog::path_in(other.path());
        Connection::open(&path).expect("opened").execute_batch("CREATE TABLE theirs(a)").expect("made");
        assert!(matches!(Catalog::open_to_write(other.path()), Err(StoreError::Foreign(..))));
        std::fs::write(&path, "this is no database, but a text of some length".repeat(100)).expect("written");
        let error = Catalog::open_to_write(other.path()).err();
        assert!(matches!(error, Some(StoreError::Foreign(..))), "{error:?}");
    }
}
