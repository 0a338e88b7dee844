//! The thread that puts open days into the table of their archives, in parts, so that other engines see them after minutes.
//!
//! ```text
//! each interval, for each table with an archive:
//!   what the table has of each day (its log)  ┐
//!   which minutes have rows of later commits  ┴► plan_parts ──► a sealed file for each part ──► uploaded, read back
//!   position noted in the folder ──► one version of the log: remove, add, txn
//! ```
//!
//! * `parts`: which parts are written anew. `positions`: whose change the table has last.
//! * A part is a sealed file of some times, by the writer of sealed days: with their columns, statistics and Bloom indexes. It has rows
//!   that were committed, and no others.
//! * The log alone says which parts there are. A kill before a version leaves files that are swept; a kill after it is found by
//!   its position.
//! * When a day is archived, the version that adds its file removes its parts. From then on the day is not published.
//! * A day that is sealed and not archived yet stays as it was published last. One that is gone leaves the table.
//! * If the position is not one that is noted here, this folder is an older copy of itself, or has a copy: all that the table has
//!   of its open days is replaced by what the folder has.
//!
//! A store that fails, or does not answer, holds up this thread alone. A table whose publishing fails is tried again after a
//! delay that doubles.

mod parts;
mod positions;

use crate::executor::{Executor, NAMING_TRIES_MAX, StepError, address};
use crate::failed_step::FailedStep;
use crate::plan::{ArchiveRequirement, TableRule};
use crate::retry;
use daytable_archive::{
    Access, Archive, ArchiveError, DayChange, OpenDayPart, OpenDays, PublishedChange, RetryPolicy, TableFormat,
    UploadedPart, are_named,
};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time;
use daytable_platform::{failpoint, lower_priority};
use daytable_store::catalog::{DayState, FileRole};
use daytable_store::sealed::{ArchiveHome, PropertyColumn, TimeSlice};
use daytable_store::{LifecycleState, Reader, SliceJob, StoreError, WrittenSlice, private_file};
use parts::{PartRegion, PartSizes, plan_parts};
use positions::{NotedPosition, NotedPositions};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// The name of the step, where a failure is shown.
const PUBLISH: &str = "publish";
/// The folder below the data folder in which parts are written before they are sent.
const FOLDER: &str = "publish";
/// The interval while nothing is published. A changed configuration comes as an order.
const UNPUBLISHED: Duration = Duration::from_secs(86_400);
/// Shortest sleep.
const WAIT_MIN: Duration = Duration::from_millis(10);
/// A round waits at least this many times as long as the last one took.
const REST: u32 = 4;
/// What comes in goes before what goes out.
const NICENESS: i32 = 10;
/// Bits of a position that are random. The others are the commit.
const RANDOM_BITS: u32 = 20;

/// The publishing thread and its inputs.
pub struct Publisher {
    /// Knows the archives, and how to reach them.
    pub executor: Arc<Executor>,
    /// The data folder.
    pub data_dir: PathBuf,
    /// The tables that have archives.
    pub tables: ArchivedTables,
}

/// Tables that have archives, each with the address of these.
pub type ArchivedTables = BTreeSet<ArchivedTable>;

/// A table and the address of its archives.
type ArchivedTable = (TableName, String);

/// The tables that have archives by these rules.
pub fn archived_tables(rules: &[TableRule]) -> ArchivedTables {
    let place = |rule: &TableRule| match &rule.archive {
        ArchiveRequirement::At(place) => Some((rule.name.clone(), place.to_string())),
        ArchiveRequirement::None => None,
    };
    rules.iter().filter_map(place).collect()
}

/// Which tables a round publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundScope {
    All,
    /// Those that failed before, and whose delay is over.
    Failed,
}

/// State of the thread between rounds.
#[derive(Default)]
struct Rounds {
    /// Open archives, with the access that they were opened with.
    archives: HashMap<String, (Arc<Access>, Archive)>,
    /// Failures in a row, and when to try again.
    failed: HashMap<ArchivedTable, (u32, Instant)>,
}

impl Publisher {
    /// Publishes at once, after each interval, and when `orders` has the tables of a changed configuration. Returns when
    /// `orders` disconnects.
    pub fn work(mut self, orders: Receiver<ArchivedTables>) {
        lower_priority(NICENESS);
        // What a kill left, also where nothing is published any more.
        drop(PartFolder(self.data_dir.join(FOLDER)));
        let mut rounds = Rounds::default();
        let mut due = Instant::now();
        loop {
            let begun = Instant::now();
            if begun >= due {
                self.round(&mut rounds, RoundScope::All);
                let every = self.executor.access().publish_open.unwrap_or(UNPUBLISHED);
                due = begun + every.max(begun.elapsed() * (REST + 1));
            } else if rounds.failed.values().any(|(_, again)| *again <= begun) {
                self.round(&mut rounds, RoundScope::Failed);
            }
            if self.executor.is_stopped() {
                return;
            }
            let next = rounds.failed.values().map(|(_, again)| *again).fold(due, Instant::min);
            let wait = next.saturating_duration_since(Instant::now()).max(WAIT_MIN);
            match orders.recv_timeout(wait) {
                Ok(tables) => {
                    // Several changes are one.
                    self.tables = orders.try_iter().last().unwrap_or(tables);
                    rounds.failed.clear();
                    due = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Publishes tables.
    fn round(&self, rounds: &mut Rounds, scope: RoundScope) {
        let access = self.executor.access();
        let is_published = access.publish_open.is_some() && access.table_format != TableFormat::None;
        let wanted = if is_published { self.tables.clone() } else { BTreeSet::new() };
        let mut noted = match NotedPositions::read(&self.data_dir) {
            Ok(noted) => noted,
            Err(error) => return tracing::error!(%error, "failed to read what was published"),
        };
        // What is not to be published any more leaves its table.
        let left = noted.iter().filter_map(|(table, place)| Some((TableName::new(table).ok()?, place.to_owned())));
        let left: BTreeSet<ArchivedTable> = left.filter(|published| !wanted.contains(published)).collect();
        rounds.failed.retain(|published, _| wanted.contains(published) || left.contains(published));
        let progress = &self.executor.progress().publishing;
        progress.keep(|name| wanted.iter().chain(&left).any(|(table, _)| table.as_str() == name));
        for published in wanted.iter().chain(&left) {
            if self.executor.is_stopped() {
                return;
            }
            let is_due = match rounds.failed.get(published) {
                Some((_, again)) => *again <= Instant::now(),
                None => scope == RoundScope::All,
            };
            if !is_due {
                continue;
            }
            let done = match wanted.contains(published) {
                true => self.publish(rounds, &mut noted, &access, published),
                false => self.withdraw(rounds, &mut noted, &access, published),
            };
            let (table, place) = published;
            match done {
                Ok(()) => {
                    rounds.failed.remove(published);
                    progress.has_published(table.as_str(), time::now().unix_seconds());
                }
                Err(StepError::Stopped | StepError::Store(StoreError::Closed)) => {}
                Err(error) => {
                    let attempts = rounds.failed.get(published).map_or(1, |(attempts, _)| attempts.saturating_add(1));
                    let wait = retry::delay(attempts);
                    tracing::error!(%table, place, %error, again_in = ?wait, "failed to publish open days");
                    rounds.failed.insert(published.clone(), (attempts, Instant::now() + wait));
                    let again = time::now().plus(wait);
                    let failed = FailedStep { step: PUBLISH, reason: error.to_string(), attempts, again };
                    progress.has_failed(table.as_str(), failed);
                }
            }
        }
    }

    /// The archive at an address. It stays open, because it knows the log of the table then.
    fn archive(&self, rounds: &mut Rounds, access: &Arc<Access>, place: &str) -> Result<Archive, StepError> {
        if let Some((opened_with, archive)) = rounds.archives.get(place)
            && opened_with == access
        {
            return Ok(archive.clone());
        }
        // What was published has to be withdrawn also where archives are no longer a table.
        let as_table = Access { table_format: TableFormat::Delta, ..(**access).clone() };
        let archive = Archive::open_to_write(&address(place)?, &as_table, &RetryPolicy::LIFECYCLE)?;
        rounds.archives.insert(place.to_owned(), (access.clone(), archive.clone()));
        Ok(archive)
    }

    /// Publishes the open days of a table.
    fn publish(
        &self,
        rounds: &mut Rounds,
        noted: &mut NotedPositions,
        access: &Arc<Access>,
        published: &ArchivedTable,
    ) -> Result<(), StepError> {
        let (table, place) = published;
        let archive = self.archive(rounds, access, place)?;
        let home = self.executor.home()?;
        let reader = Reader::open(&self.data_dir)?;
        let state = LifecycleState::of(reader.catalog())?;
        let open = archive.open_days(table, &home)?;
        let is_own = noted.is_own(table.as_str(), place, open.position);
        if !is_own && !open.paths.is_empty() {
            tracing::warn!(%table, place, "the table of the archives has other parts of open days than this folder published last: they are replaced");
        }
        let folder = PartFolder::new(&self.data_dir)?;
        let writer = PartWriter { publisher: self, reader: &reader, archive: &archive, home: &home, folder: &folder };
        let here = state.days.iter().filter(|day| day.table.table() == table);
        let here: BTreeMap<&DayTable, bool> = here
            .map(|day| {
                let is_sealed = day.files.iter().any(|file| file.role == FileRole::Sealed);
                (&day.table, day.state == DayState::Open && !day.files.is_empty() && !is_sealed)
            })
            .collect();
        let days: BTreeSet<&DayTable> = here.keys().copied().chain(open.paths.keys()).collect();
        let mut log =
            PublishedLog { publisher: self, published, archive: &archive, home: &home, noted, at: open.position };
        let (mut changes, mut failed) = (Vec::new(), None);
        for day in days {
            let change = match here.get(day) {
                Some(true) if !open.archived.contains(day) => match writer.change_of(day, &open, is_own) {
                    // Other days need not wait for a damaged one.
                    Err(StepError::Store(error)) if !matches!(error, StoreError::Closed) => {
                        failed = failed.or(Some(error));
                        None
                    }
                    change => change?,
                },
                _ => change_of_past(day, &state, &open, is_own),
            };
            let change = match change {
                // What is not its own does not stay.
                None if !is_own => open.paths.get(day).map(|paths| leaving(day, paths)),
                change => change,
            };
            changes.extend(change.filter(|change| !change.removed.is_empty() || !change.added.is_empty()));
            // A long way of many days is gone day by day. After a change, all that the table has counts as its own.
            if is_own {
                log.make(std::mem::take(&mut changes))?;
            }
        }
        log.make(changes)?;
        self.executor.sweep(&archive, table, place);
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Takes the open days of a table out of the table of its archives.
    fn withdraw(
        &self,
        rounds: &mut Rounds,
        noted: &mut NotedPositions,
        access: &Arc<Access>,
        published: &ArchivedTable,
    ) -> Result<(), StepError> {
        let (table, place) = published;
        let archive = self.archive(rounds, access, place)?;
        let home = self.executor.home()?;
        let open = archive.open_days(table, &home)?;
        let mut log =
            PublishedLog { publisher: self, published, archive: &archive, home: &home, noted, at: open.position };
        let changes: Vec<DayChange> = open.paths.iter().map(|(day, paths)| leaving(day, paths)).collect();
        if !changes.is_empty() {
            log.make(changes)?;
            tracing::info!(%table, place, "open days are not published any more: they left the table of the archives");
        }
        rounds.archives.remove(place);
        // Without a note and without parts, nothing is taken for another's.
        Ok(noted.forget(&self.data_dir, table.as_str(), place)?)
    }
}

/// What becomes of the parts of a day that is not open here.
fn change_of_past(day: &DayTable, state: &LifecycleState, open: &OpenDays, is_own: bool) -> Option<DayChange> {
    let paths = open.paths.get(day)?;
    let of_state = state.days.iter().find(|of| of.table == *day);
    let waits = of_state.is_some_and(|of| of.state == DayState::Open && !of.files.is_empty());
    // It is sealed, and its archive will take the place of its parts.
    let stays = waits && is_own && !open.archived.contains(day);
    (!stays).then(|| leaving(day, paths))
}

/// A day whose parts leave the table.
fn leaving(day: &DayTable, paths: &BTreeSet<String>) -> DayChange {
    DayChange { table: day.clone(), before: paths.clone(), removed: paths.clone(), added: Vec::new() }
}

/// The table of the archives, which is changed one version after the other.
struct PublishedLog<'a> {
    publisher: &'a Publisher,
    published: &'a ArchivedTable,
    archive: &'a Archive,
    home: &'a ArchiveHome,
    noted: &'a mut NotedPositions,
    /// The position now.
    at: Option<i64>,
}

impl PublishedLog<'_> {
    /// Notes a change, and makes it, if there is anything to change.
    fn make(&mut self, days: Vec<DayChange>) -> Result<(), StepError> {
        if days.is_empty() {
            return Ok(());
        }
        let (table, place) = self.published;
        let data_dir = &self.publisher.data_dir;
        let (before, after) = (self.at, position(self.publisher.executor.steps().committed()?.seq));
        let added: usize = days.iter().map(|change| change.added.len()).sum();
        let removed: usize = days.iter().map(|change| change.removed.len()).sum();
        self.noted.note(data_dir, (table.as_str(), place), NotedPosition { before, after })?;
        failpoint!("publish-noted");
        let is_done = self.archive.publish(table, self.home, &PublishedChange { before, after, days })?;
        failpoint!("publish-in-log");
        if !is_done {
            let what = format!("the table {table} at {place} was changed meanwhile");
            return Err(StoreError::Refused(what).into());
        }
        self.at = Some(after);
        tracing::debug!(%table, place, added, removed, "published open days");
        Ok(())
    }
}

/// A position that no other change has.
fn position(commit: i64) -> i64 {
    let random = std::hash::RandomState::new().build_hasher().finish() & ((1 << RANDOM_BITS) - 1);
    commit.max(0).saturating_mul(1 << RANDOM_BITS).saturating_add_unsigned(random)
}

/// Writes and sends parts of open days.
struct PartWriter<'a> {
    publisher: &'a Publisher,
    reader: &'a Reader,
    archive: &'a Archive,
    home: &'a ArchiveHome,
    folder: &'a PartFolder,
}

impl PartWriter<'_> {
    /// Writes what is new of a day. `None` if it was sealed or dropped meanwhile.
    fn change_of(&self, day: &DayTable, open: &OpenDays, is_own: bool) -> Result<Option<DayChange>, StepError> {
        let before = open.paths.get(day).cloned().unwrap_or_default();
        let Some(minutes) = self.reader.day_minutes(day)? else { return Ok(None) };
        let parts = open.parts.get(day).cloned().flatten().filter(|parts| {
            let is_known = |part: &OpenDayPart| part.commit <= minutes.commit;
            is_own && parts.iter().all(is_known)
        });
        let mut removed = if parts.is_some() { BTreeSet::new() } else { before.clone() };
        let parts = parts.unwrap_or_default();
        let mut added = Vec::new();
        for PartRegion { replaced, slices } in plan_parts(&parts, &minutes, time::now(), &PartSizes::default()) {
            removed.extend(parts[replaced].iter().map(|part| part.path.clone()));
            let mut from = None;
            for slice in slices {
                // The times of a slice without rows belong to the next one.
                let slice = TimeSlice { from: from.unwrap_or(slice.from), ..slice };
                match self.put(day, slice)? {
                    None => return Ok(None),
                    Some(None) => from = Some(slice.from),
                    Some(Some(part)) => {
                        from = None;
                        added.push(part);
                    }
                }
            }
        }
        Ok(Some(DayChange { table: day.clone(), before, removed, added }))
    }

    /// Writes and sends a part. `None` if the day is not open any more, `Some(None)` if it has no rows of these times.
    fn put(&self, day: &DayTable, slice: TimeSlice) -> Result<Option<Option<UploadedPart>>, StepError> {
        let executor = &self.publisher.executor;
        let goes_on = || if executor.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        let Some(WrittenSlice { manifest, commit }) = self.write(day, slice)? else { return Ok(None) };
        if manifest.rows == 0 {
            return Ok(Some(None));
        }
        let at = (slice.from, commit);
        let sent = self.archive.put_part((&manifest, self.home), &self.folder.file(), at, &mut |_| goes_on());
        let part = match sent {
            Err(ArchiveError::Stopped) => return Err(StepError::Stopped),
            sent => sent?,
        };
        executor.progress().publishing.wrote_part(part.rows, part.bytes);
        failpoint!("publish-uploaded");
        Ok(Some(Some(part)))
    }

    /// Writes a part with the names of columns that the table has.
    fn write(&self, day: &DayTable, slice: TimeSlice) -> Result<Option<WrittenSlice>, StepError> {
        let executor = &self.publisher.executor;
        let table = day.table();
        // The table as it was read for this turn, because one at another address, or one before it, has other names. Makes the table,
        // if it is the first one here.
        let claim = |columns: &[PropertyColumn]| {
            Ok::<_, StepError>(self.archive.claim_names(table, columns)?.unwrap_or_default())
        };
        let mut names = Arc::new(self.archive.names_seen(table).map_or_else(|| claim(&[]), Ok)?);
        for _ in 0..NAMING_TRIES_MAX {
            let job = SliceJob { table: day.clone(), slice, out: self.folder.file(), names: Arc::clone(&names) };
            let written = self.reader.write_slice(&job, &mut |_| match executor.is_stopped() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            let written = match written {
                Err(StoreError::Closed) if executor.is_stopped() => return Err(StepError::Stopped),
                written => written?,
            };
            let Some(written) = written else { return Ok(None) };
            let columns = &written.manifest.columns;
            if are_named(&names, columns) {
                return Ok(Some(written));
            }
            names = Arc::new(claim(columns)?);
            if are_named(&names, columns) {
                return Ok(Some(written));
            }
        }
        let what = "it got new columns each time that it was written".to_owned();
        Err(StepError::Manifest(day.clone(), what))
    }
}

/// The folder in which a part is written. Removed with what is in it, also after a kill.
struct PartFolder(PathBuf);

impl PartFolder {
    fn new(data_dir: &Path) -> Result<PartFolder, StoreError> {
        let folder = PartFolder(data_dir.join(FOLDER));
        folder.remove().map_err(StoreError::io(&folder.0))?;
        private_file::create_folder(&folder.0)?;
        Ok(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("part.parquet")
    }

    fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for PartFolder {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::debug!(%error, "failed to remove a part that was sent; the next round does");
        }
    }
}
