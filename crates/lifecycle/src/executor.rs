//! Takes the steps of a plan. It decides nothing.
//!
//! The committer does the short beginning and the short end of a step, between two commits. The long part (a day is written as
//! one file, a copy is sent and read back) runs here, on the caller's thread. The scheduler and the commands share one lock,
//! so one long step runs at a time.
//!
//! A failed step has changed nothing that it does not report. Repeated, it starts again; an archive that exists is only read
//! back.

use super::plan::LifecycleStep;
use super::progress::{LifecycleProgress, StepBytes, StepProgress};
use daytable_archive as archive;
use daytable_archive::{Access, Archive, ArchiveError, ArchiveUrl, RetryPolicy};
use daytable_model::key::DayTable;
use daytable_model::time::{self, Ticks};
use daytable_platform::reloadable::Reloadable;
use daytable_query::tables::TableError;
use daytable_store::catalog::{Archived, FileRole, Seal};
use daytable_store::sealed::Manifest;
use daytable_store::{LifecycleSteps, StoreError};
use daytable_store::{Phase, Progress};
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

/// How often a long step says in the log how far it is.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive says no.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The remote store says no.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// An archive's address that cannot be used.
    #[error("{0} is no address of an archive: {1}")]
    Address(String, archive::UrlError),
    /// A manifest that the catalog keeps, or that lies beside a file, cannot be used.
    #[error("the manifest of {0} cannot be used: {1}")]
    Manifest(DayTable, String),
    /// There is no archive of the day.
    #[error("there is no archive of {0}{1}")]
    NoArchive(DayTable, String),
    /// It was told to stop.
    #[error("stopped before it was done")]
    Stopped,
}

/// Told how far a long step is.
pub type OnStepProgress<'a> = dyn FnMut(&StepProgress) + 'a;

/// What takes steps. Shared by the scheduler and the commands.
pub struct Executor {
    steps: LifecycleSteps,
    data_dir: PathBuf,
    access: Reloadable<Access>,
    progress: Arc<LifecycleProgress>,
    /// Held while a step that takes long is under way.
    one: Mutex<()>,
    stopped: AtomicBool,
}

impl Executor {
    /// Steps on the folder at `data_dir`; archives are reached as `access` says.
    pub fn new(steps: LifecycleSteps, data_dir: PathBuf, access: Access, progress: Arc<LifecycleProgress>) -> Executor {
        Executor {
            steps,
            data_dir,
            access: Reloadable::new(access),
            progress,
            one: Mutex::default(),
            stopped: AtomicBool::new(false),
        }
    }

    /// The steps that the committer takes.
    pub fn steps(&self) -> &LifecycleSteps {
        &self.steps
    }

    /// Archives that are opened from now on are reached in this way.
    pub fn reach(&self, access: Access) {
        self.access.store(access);
    }

    /// How archives are reached.
    pub fn access(&self) -> Arc<Access> {
        self.access.load()
    }

    /// What it is doing.
    pub fn progress(&self) -> &Arc<LifecycleProgress> {
        &self.progress
    }

    /// Has a long step end soon, and no other begin.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether a stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Waits until no other step is taken.
    ///
    /// # Errors
    ///
    /// Where a stop was asked for meanwhile.
    pub fn alone(&self) -> Result<MutexGuard<'_, ()>, StepError> {
        // What a panicking thread left behind is what a kill would have left.
        let one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_stopped() { Err(StepError::Stopped) } else { Ok(one) }
    }

    /// Takes one step.
    ///
    /// # Errors
    ///
    /// Whatever kept it from being taken, as a whole or in part; taken again it goes on.
    pub fn take(&self, step: &LifecycleStep, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        match step {
            LifecycleStep::Create(table) => self.steps.create_table(table).map(drop)?,
            LifecycleStep::Drop(table) => self.steps.drop_table(table)?,
            LifecycleStep::DropUnarchived(table) => self.steps.drop_without_archive(table)?,
            LifecycleStep::Seal(table) => self.seal(table, on)?,
            LifecycleStep::Archive(table, place) => self.archive(table, place, on)?,
            LifecycleStep::RemoveArchive(table, generation, place) => {
                self.remove_archive(table, *generation, place, |_| Ok(()))?;
            }
        }
        Ok(())
    }

    /// Copies the sealed file of `table` to `place`, reads the copy back, and notes it.
    fn archive(&self, table: &DayTable, place: &str, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        let _one = self.alone()?;
        let (path, seal) = self.sealed_file(table)?;
        let manifest = Manifest::read_beside(&path)?;
        if manifest.sha256 != seal.sha256 {
            let what = "it is that of another file".to_owned();
            return Err(StepError::Manifest(table.clone(), what));
        }
        let archive = Archive::open_to_write(&address(place)?, &self.access.load(), &RetryPolicy::LIFECYCLE)?;
        let mut reporter = self.reporter(table, on);
        let proof = archive.put(&manifest, &path, &mut |progress| reporter.report(progress))?;
        drop(reporter);
        let generation = proof.archived().generation();
        tracing::info!(%table, generation, place, bytes = seal.bytes, rows = seal.rows, "archived, and read back");
        self.steps.put_archive(Archived {
            table: table.clone(),
            generation,
            url: place.to_owned(),
            seal,
            verified: time::now(),
            is_superseded: false,
            manifest: manifest.to_json().into(),
        })?;
        Ok(())
    }

    /// Removes an archive, unless `look`, with all else standing still, says why not.
    pub fn remove_archive(
        &self,
        table: &DayTable,
        generation: i64,
        place: &str,
        look: impl FnOnce(&Archived) -> Result<(), StepError>,
    ) -> Result<(), StepError> {
        let _one = self.alone()?;
        let state = self.steps.lifecycle_state()?;
        let is_it = |archived: &&Archived| {
            archived.table == *table && archived.generation == generation && archived.url == place
        };
        let Some(archived) = state.archives.iter().find(is_it) else { return Ok(()) };
        look(archived)?;
        let archive = Archive::open(&address(place)?, &self.access.load(), &RetryPolicy::LIFECYCLE)?;
        archive.drop_archive(&described(archived)?)?;
        daytable_platform::failpoint!("archive-removed");
        self.steps.forget_archive(archived)?;
        tracing::info!(%table, generation, place, "removed an archive");
        Ok(())
    }

    /// The sealed file of a day that stands, and by what it is known.
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

    /// Reports how far a step on `table` is.
    pub fn reporter<'a>(&'a self, table: &DayTable, on: &'a mut OnStepProgress<'a>) -> ProgressReporter<'a> {
        ProgressReporter { executor: self, table: table.to_string(), on, said: Instant::now(), counted: (None, 0) }
    }
}

fn tables(data_dir: &Path) -> PathBuf {
    data_dir.join("tables")
}

/// The address of an archive, as the configuration has it.
///
/// # Errors
///
/// Where the text is no address of an archive.
pub fn address(place: &str) -> Result<ArchiveUrl, StepError> {
    place.parse().map_err(|error| StepError::Address(place.to_owned(), error))
}

/// What the catalog knows of an archive, as the archive wants to be asked for it.
pub fn described(archived: &Archived) -> Result<archive::ArchivedDay, StepError> {
    let failed = |what: String| StepError::Manifest(archived.table.clone(), what);
    let manifest = Manifest::from_json(archived.manifest.as_bytes()).map_err(|error| failed(error.to_string()))?;
    archive::ArchivedDay::new(manifest).map_err(|error| failed(error.to_string()))
}

/// Tells how far a long step is: the board each time, the log now and then.
pub struct ProgressReporter<'a> {
    executor: &'a Executor,
    table: String,
    on: &'a mut OnStepProgress<'a>,
    said: Instant,
    /// What is being done, and the bytes of it that were counted.
    counted: (Option<&'static str>, u64),
}

impl ProgressReporter<'_> {
    /// Reports the progress of sealing, or of a copy.
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

    /// Reports that `done` of `total` bytes or rows of an act are done.
    pub fn report_step(&mut self, act: &'static str, done: u64, total: u64) -> ControlFlow<()> {
        if self.counted.0 != Some(act) || done < self.counted.1 {
            self.counted = (Some(act), 0);
        }
        let bytes = &self.executor.progress.bytes;
        let counter = match act {
            "archive" => Some(&bytes.archived),
            "verify" => Some(&bytes.verified),
            "restore" => Some(&bytes.restored),
            // Rows are told of.
            _ => None,
        };
        if let Some(counter) = counter {
            StepBytes::add(counter, done - self.counted.1);
        }
        self.counted.1 = done;
        let working = StepProgress { table: self.table.clone(), act: act.into(), done, total };
        if self.said.elapsed() >= SAY_EVERY {
            tracing::info!(table = self.table, act, done, total, "at work");
            self.said = Instant::now();
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

/// By what the file is known that a manifest describes.
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
