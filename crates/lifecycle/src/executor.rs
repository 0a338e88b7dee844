//! Takes the steps of a plan. Decides no step itself.
//!
//! The committer performs the short beginning and the short end of a step, between two commits. The long part (writing
//! a sealed file, sending and verifying a copy) runs on the caller's thread. The scheduler and the commands share one
//! lock, so one long step runs at a time.
//!
//! A failed step reports every change it made. A repeated step starts again; an existing archive is only verified.

use super::plan::{ARCHIVE, LifecycleStep};
use super::progress::{LifecycleProgress, StepBytes, StepProgress};
use daytable_archive as archive;
use daytable_archive::{Access, Archive, ArchiveError, ArchiveUrl, RetryPolicy, TableFormat, are_named};
use daytable_model::column_name::KnownNames;
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::{self, Ticks};
use daytable_platform::reloadable::Reloadable;
use daytable_query::tables::TableError;
use daytable_store::catalog::{Archived, FileRole, Seal};
use daytable_store::sealed::{ArchiveHome, Manifest, PropertyColumn};
use daytable_store::{LifecycleSteps, StoreError};
use daytable_store::{Phase, Progress};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod archive_now;
mod restore;
mod seal;

pub use archive_now::ArchiveOutcome;
pub use restore::{RestoreOutcome, RestoreSpec};

/// How often a day is sealed for its archive at most: each time, late rows may bring columns.
pub(crate) const NAMING_TRIES_MAX: usize = 3;
/// Log interval for the progress of a long step.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Error of the archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Error of the remote store.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// Invalid address of an archive.
    #[error("{0} is not the address of an archive: {1}")]
    Address(String, archive::UrlError),
    /// Invalid manifest, in the catalog or beside a file.
    #[error("the manifest of {0} cannot be used: {1}")]
    Manifest(DayTable, String),
    /// The day has no archive.
    #[error("there is no archive of {0}{1}")]
    NoArchive(DayTable, String),
    /// A stop was requested.
    #[error("stopped before it was done")]
    Stopped,
}

/// Callback for the progress of a long step.
pub type OnStepProgress<'a> = dyn FnMut(&StepProgress) + 'a;

/// Takes steps. Shared by the scheduler and the commands.
pub struct Executor {
    steps: LifecycleSteps,
    data_dir: PathBuf,
    access: Reloadable<Access>,
    progress: Arc<LifecycleProgress>,
    /// The name of this host in archives.
    host: String,
    /// How columns are called in the tables of archives, by the table's name and the address: learnt when a day is archived. A
    /// guess, which spares a sealed day that it is sealed again; the table itself is asked before a file gets into it.
    names: Mutex<HashMap<(TableName, ArchiveUrl), Arc<KnownNames>>>,
    /// When files of which table and place were swept.
    swept: Mutex<HashMap<(TableName, String), Instant>>,
    /// Held during a long step.
    one: Mutex<()>,
    stopped: AtomicBool,
}

/// Archives that were removed by hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedArchives {
    /// How many; a day has one for each time that it was archived anew.
    pub archives: u64,
    /// The bytes of their files.
    pub archive_bytes: u64,
    /// Whether files stay for a day because they were in a Delta table, which an engine may still read.
    pub are_swept_later: bool,
}

impl Executor {
    /// Creates an executor for the folder at `data_dir`. `access` says how to reach archives.
    pub fn new(steps: LifecycleSteps, data_dir: PathBuf, access: Access, progress: Arc<LifecycleProgress>) -> Executor {
        Executor {
            steps,
            data_dir,
            access: Reloadable::new(access),
            progress,
            host: daytable_platform::host::name(),
            names: Mutex::default(),
            swept: Mutex::default(),
            one: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Names this host in archives. Without it, the machine's name does.
    pub fn named(mut self, host: Option<&str>) -> Executor {
        if let Some(host) = host {
            host.clone_into(&mut self.host);
        }
        self
    }

    /// Whose days this executor archives.
    ///
    /// # Errors
    ///
    /// Error of the store.
    pub fn home(&self) -> Result<ArchiveHome, StepError> {
        Ok(ArchiveHome::new(&self.host, self.steps.origin()?))
    }

    /// The steps that the committer performs.
    pub fn steps(&self) -> &LifecycleSteps {
        &self.steps
    }

    /// Replaces the access for archives that are opened from now on.
    pub fn reach(&self, access: Access) {
        self.access.store(access);
    }

    /// The current access to archives.
    pub fn access(&self) -> Arc<Access> {
        self.access.load()
    }

    /// Current progress.
    pub fn progress(&self) -> &Arc<LifecycleProgress> {
        &self.progress
    }

    /// Ends the current long step soon, and starts no other step.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits until no other step runs.
    ///
    /// # Errors
    ///
    /// If a stop is requested meanwhile.
    pub fn alone(&self) -> Result<MutexGuard<'_, ()>, StepError> {
        // A panicked thread leaves the same state as a kill, so a poisoned lock is safe.
        let one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_stopped() { Err(StepError::Stopped) } else { Ok(one) }
    }

    /// Takes one step.
    ///
    /// # Errors
    ///
    /// The error of the failed part. The step can be repeated.
    pub fn take(&self, step: &LifecycleStep, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        match step {
            LifecycleStep::Create(table) => self.steps.create_table(table).map(drop)?,
            LifecycleStep::Drop(table) => self.steps.drop_table(table)?,
            LifecycleStep::DropUnarchived(table) => self.steps.drop_without_archive(table)?,
            LifecycleStep::Seal(table) => self.seal(table, seal::SealedSize::Smaller, on)?,
            LifecycleStep::Archive(table, place) => self.archive(table, place, on)?,
            LifecycleStep::RemoveArchive(table, generation, place) => {
                self.remove_archive(table, *generation, place, |_| Ok(()))?;
            }
        }
        Ok(())
    }

    /// Does the long part of a step, which is noted until it has ended: whatever ended this process meanwhile may have
    /// been the step. The plan leaves a step that was interrupted again and again; a command does not.
    fn attempt<T>(
        &self,
        table: &DayTable,
        step: &'static str,
        work: impl FnOnce() -> Result<T, StepError>,
    ) -> Result<T, StepError> {
        self.steps.begin_attempt(table, step)?;
        let done = work();
        if let Err(error) = self.steps.end_attempt(table, step) {
            tracing::warn!(%table, step, %error, "failed to store that a step ended: the next start counts it as interrupted");
        }
        done
    }

    /// Copies the sealed file of `table` to `place`, verifies the copy, and records it.
    fn archive(&self, table: &DayTable, place: &str, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        let _one = self.alone()?;
        self.attempt(table, ARCHIVE, || self.put_archive(table, place, on))
    }

    fn put_archive(&self, table: &DayTable, place: &str, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        let archive = self.archive_for(table, place)?;
        let (path, seal, mut manifest) = self.file_to_archive(table, &archive, on)?;
        manifest.home = Some(self.home()?);
        let mut reporter = self.reporter(table, on);
        let proof = archive.put(&manifest, &path, &mut |progress| reporter.report(progress))?;
        drop(reporter);
        let generation = proof.archived().generation();
        tracing::info!(%table, generation, place, bytes = seal.bytes, rows = seal.rows, "archived, and read back");
        let same = |known: &Archived| known.table == *table && known.generation == generation && known.url == place;
        let before = self.steps.lifecycle_state()?.archives.into_iter().find(same);
        self.steps.put_archive(Archived {
            table: table.clone(),
            generation,
            url: place.to_owned(),
            seal,
            verified: time::now(),
            is_superseded: false,
            manifest: proof.archived().manifest().to_json().into(),
        })?;
        if let Some(before) = before {
            self.remove_under_other_name(&archive, &before);
        }
        self.sweep(&archive, table.table(), place);
        Ok(())
    }

    /// Removes an archive that the catalog has under the present name of the host now. Nobody else would: the catalog has one
    /// archive of a generation at a place.
    fn remove_under_other_name(&self, archive: &Archive, before: &Archived) {
        let removed = described(before).and_then(|before| match self.home()? == *before.home() {
            true => Ok(()),
            false => Ok(archive.drop_archive(&before).map(drop)?),
        });
        if let Err(error) = removed {
            let table = &before.table;
            tracing::warn!(%table, %error, "failed to remove the archive of this day under an earlier name of the host");
        }
    }

    /// The archive for a day. A day that a table has stays in it: its later version takes the place of the earlier one also where
    /// archives are no longer a table by the configuration.
    fn archive_for(&self, table: &DayTable, place: &str) -> Result<Archive, StepError> {
        let (url, access) = (address(place)?, self.access.load());
        let archive = Archive::open_to_write(&url, &access, &RetryPolicy::LIFECYCLE)?;
        if archive.is_table() {
            return Ok(archive);
        }
        match archive.has_in_table(table, &self.home()?) {
            Ok(true) => {
                let access = Access { table_format: TableFormat::Delta, ..(*access).clone() };
                Ok(Archive::open_to_write(&url, &access, &RetryPolicy::LIFECYCLE)?)
            }
            Ok(false) => Ok(archive),
            // An archive without a table needs no log.
            Err(error) => {
                tracing::debug!(%table, place, %error, "whether a table has this day is not known");
                Ok(archive)
            }
        }
    }

    /// The sealed file of `table`, with the names of columns that its archive's table has. A file with other names is
    /// sealed anew.
    fn file_to_archive(
        &self,
        table: &DayTable,
        archive: &Archive,
        on: &mut OnStepProgress<'_>,
    ) -> Result<(PathBuf, Seal, Manifest), StepError> {
        for _ in 0..NAMING_TRIES_MAX {
            let (path, seal) = self.sealed_file(table)?;
            let manifest = Manifest::read_beside(&path)?;
            if manifest.sha256 != seal.sha256 {
                let what = "it is that of another file".to_owned();
                return Err(StepError::Manifest(table.clone(), what));
            }
            if self.claim_names(archive, table.table(), &manifest.columns)? {
                return Ok((path, seal, manifest));
            }
            tracing::info!(%table, "a day is sealed again: some of its columns have other names in the table of its archive");
            self.write_sealed(table, seal::SealedSize::Renamed, Some(archive.url()), on)?;
        }
        let what = "it got new columns each time that it was sealed".to_owned();
        Err(StepError::Manifest(table.clone(), what))
    }

    /// Deletes files that the table of an archive no longer has, once in a while. Fails without consequence: the next sweep
    /// finds them again.
    pub(crate) fn sweep(&self, archive: &Archive, table: &TableName, place: &str) {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (table.clone(), place.to_owned());
        if swept.get(&key).is_some_and(|at| at.elapsed() < archive::REMOVED_FILE_GRACE) {
            return;
        }
        swept.insert(key, Instant::now());
        drop(swept);
        let home = self.home();
        match home.and_then(|home| Ok(archive.sweep(table, &home)?)) {
            Ok(0) => {}
            Ok(files) => tracing::info!(%table, place, files, "deleted files that the archive's table no longer has"),
            Err(error) => {
                tracing::warn!(%table, place, %error, "files that the archive's table no longer has stay for now")
            }
        }
    }

    /// Claims names of columns in the table of an archive, and learns them. Whether the columns are called so; also if the archive is
    /// no table.
    fn claim_names(&self, archive: &Archive, table: &TableName, columns: &[PropertyColumn]) -> Result<bool, StepError> {
        let Some(names) = archive.claim_names(table, columns)? else { return Ok(true) };
        let is_named = are_named(&names, columns);
        let key = (table.clone(), archive.url().clone());
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::new(names));
        Ok(is_named)
    }

    /// How columns are probably called in the table of the archives at an address.
    fn names_of(&self, table: &TableName, place: &ArchiveUrl) -> Arc<KnownNames> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&(table.clone(), place.clone())).cloned().unwrap_or_default()
    }

    /// Removes an archive, unless `check` gives a reason against it while all other steps wait. Returns whether its file stays
    /// for now, because it was in a Delta table.
    pub fn remove_archive(
        &self,
        table: &DayTable,
        generation: i64,
        place: &str,
        check: impl FnOnce(&Archived) -> Result<(), StepError>,
    ) -> Result<bool, StepError> {
        let _one = self.alone()?;
        let state = self.steps.lifecycle_state()?;
        let is_it = |archived: &&Archived| {
            archived.table == *table && archived.generation == generation && archived.url == place
        };
        let Some(archived) = state.archives.iter().find(is_it) else { return Ok(false) };
        check(archived)?;
        let archive = Archive::open(&address(place)?, &self.access.load(), &RetryPolicy::LIFECYCLE)?;
        let stays = archive.drop_archive(&described(archived)?)?;
        daytable_platform::failpoint!("archive-removed");
        self.steps.forget_archive(archived)?;
        tracing::info!(%table, generation, place, "removed an archive");
        Ok(stays)
    }

    /// Removes all archives of a day, which must not stand in the data folder: it would be archived again. An archive in a Delta
    /// table leaves the table first. What a kill leaves, a repetition removes.
    ///
    /// # Errors
    ///
    /// The day stands, or an archive cannot be removed; those before it are.
    pub fn remove_archives(&self, table: &DayTable) -> Result<RemovedArchives, StepError> {
        let state = self.steps.lifecycle_state()?;
        if state.has_day(table) {
            let reason = format!("{table} is in the data folder, so it would be archived again: drop it first");
            return Err(StoreError::Refused(reason).into());
        }
        let mut removed = RemovedArchives::default();
        for archived in state.archives.iter().filter(|archived| archived.table == *table) {
            removed.are_swept_later |= self.remove_archive(table, archived.generation, &archived.url, |_| Ok(()))?;
            removed.archives += 1;
            removed.archive_bytes += archived.seal.bytes;
        }
        Ok(removed)
    }

    /// The sealed file of an existing day, and its seal.
    fn sealed_file(&self, table: &DayTable) -> Result<(PathBuf, Seal), StepError> {
        let state = self.steps.lifecycle_state()?;
        let day = state.days.into_iter().find(|day| day.table == *table);
        let mut files = day.map(|day| day.files).unwrap_or_default();
        files.retain(|file| file.role == FileRole::Sealed);
        let newest = files.into_iter().max_by_key(|file| file.generation());
        let sealed = newest.and_then(|file| Some((self.path_of(&file.name), file.seal?)));
        sealed.ok_or_else(|| StoreError::Refused(format!("{table} is not sealed")).into())
    }

    fn path_of(&self, name: &str) -> PathBuf {
        tables(&self.data_dir).join(name)
    }

    /// A reporter for a step on `table`.
    pub fn reporter<'a>(&'a self, table: &DayTable, on: &'a mut OnStepProgress<'a>) -> ProgressReporter<'a> {
        ProgressReporter {
            executor: self,
            table: table.to_string(),
            on,
            reported_at: Instant::now(),
            counted: (None, 0),
        }
    }
}

fn tables(data_dir: &Path) -> PathBuf {
    data_dir.join("tables")
}

/// Parses the address of an archive from the configuration.
///
/// # Errors
///
/// If the text is not an archive address.
pub fn address(place: &str) -> Result<ArchiveUrl, StepError> {
    place.parse().map_err(|error| StepError::Address(place.to_owned(), error))
}

/// Converts a catalog entry to the type of the archive crate.
pub fn described(archived: &Archived) -> Result<archive::ArchivedDay, StepError> {
    let failed = |what: String| StepError::Manifest(archived.table.clone(), what);
    let manifest = Manifest::from_json(archived.manifest.as_bytes()).map_err(|error| failed(error.to_string()))?;
    archive::ArchivedDay::new(manifest).map_err(|error| failed(error.to_string()))
}

/// Reports the progress of a long step: always to the shared progress, periodically to the log.
pub struct ProgressReporter<'a> {
    executor: &'a Executor,
    table: String,
    on: &'a mut OnStepProgress<'a>,
    reported_at: Instant,
    /// The current activity and its counted bytes.
    counted: (Option<&'static str>, u64),
}

impl ProgressReporter<'_> {
    /// Reports the progress of a seal or a copy.
    pub fn report(&mut self, progress: Progress) -> ControlFlow<()> {
        let act = match progress.phase {
            Phase::Survey => "survey",
            Phase::Write => "seal",
            Phase::Compare => "compare",
            Phase::Upload => "archive",
            Phase::ReadBack => "verify",
            Phase::Fetch => "restore",
        };
        self.report_step(act, progress.done, progress.total)
    }

    /// Reports that `done` of `total` bytes or rows are completed.
    pub fn report_step(&mut self, act: &'static str, done: u64, total: u64) -> ControlFlow<()> {
        if self.counted.0 != Some(act) || done < self.counted.1 {
            self.counted = (Some(act), 0);
        }
        let bytes = &self.executor.progress.bytes;
        let counter = match act {
            "archive" => Some(&bytes.archived),
            "verify" => Some(&bytes.verified),
            "restore" => Some(&bytes.restored),
            // Rows are not counted.
            _ => None,
        };
        if let Some(counter) = counter {
            StepBytes::add(counter, done - self.counted.1);
        }
        self.counted.1 = done;
        let working = StepProgress { table: self.table.clone(), act: act.into(), done, total };
        if self.reported_at.elapsed() >= SAY_EVERY {
            tracing::info!(table = self.table, act, done, total, "at work");
            self.reported_at = Instant::now();
        }
        (self.on)(&working);
        self.executor.progress.working(Some(working));
        if self.executor.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for ProgressReporter<'_> {
    fn drop(&mut self) {
        self.executor.progress.working(None);
    }
}

/// The seal of the file that a manifest describes.
pub fn seal_of(manifest: &Manifest, at: Ticks) -> Seal {
    let time = |text: &Option<String>| {
        let time = chrono::DateTime::parse_from_rfc3339(text.as_deref()?).ok()?;
        Ticks::from_unix(time.timestamp(), time.timestamp_subsec_nanos())
    };
    Seal {
        bytes: manifest.bytes,
        sha256: manifest.sha256.clone(),
        rows: manifest.rows,
        times: time(&manifest.first_time).zip(time(&manifest.last_time)),
        at,
    }
}
