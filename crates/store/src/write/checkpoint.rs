//! The thread that checkpoints journals and empties `trash/`, so that commits need not wait for it. After a failed
//! checkpoint, the committer accepts nothing until the folder was opened again.

use crate::StoreError;
use crate::format::day_file::DayFile;
use crate::layout::SET_ASIDE;
use crate::sqlite;
use daytable_model::path_text::PathText;
use rusqlite::{Connection, OpenFlags};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that go to a journal before its checkpoint.
const JOURNAL_BYTES: u64 = 4 << 20;
/// How long a copy of a torn commit stays in `trash/`.
const SET_ASIDE_KEPT: Duration = Duration::from_secs(7 * 86_400);

enum Task {
    Checkpoint(PathBuf),
    Sweep(PathBuf),
}

/// A handle to the thread.
pub(crate) struct Checkpointer {
    tasks: Option<mpsc::Sender<Task>>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    failed: AtomicBool,
    queued: Mutex<HashSet<PathBuf>>,
}

impl Shared {
    fn queued(&self) -> std::sync::MutexGuard<'_, HashSet<PathBuf>> {
        self.queued.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Checkpointer {
    pub(crate) fn spawn() -> Result<Checkpointer, StoreError> {
        let (tasks, work) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn({
            let shared = shared.clone();
            move || run(&work, &shared)
        });
        let thread = thread.map_err(StoreError::io("checkpoint thread"))?;
        Ok(Checkpointer { tasks: Some(tasks), shared, thread: Some(thread) })
    }

    /// Queues a checkpoint of the file if its journal is long.
    pub(crate) fn consider(&self, file: &mut DayFile) {
        if file.has_journaled(JOURNAL_BYTES) {
            self.queue(file.path());
        }
    }

    /// Whether a checkpoint of `path` is running or queued. Writers that can wait write nothing meanwhile: a journal
    /// starts over only after a complete checkpoint.
    pub(crate) fn is_moving(&self, path: &Path) -> bool {
        self.shared.queued().contains(path)
    }

    /// Queues a checkpoint of the journal of `path`.
    pub(crate) fn queue(&self, path: &Path) {
        if self.shared.queued().insert(path.into()) {
            self.send(Task::Checkpoint(path.into()));
        }
    }

    /// Queues the removal of the files in `trash`.
    pub(crate) fn sweep(&self, trash: PathBuf) {
        self.send(Task::Sweep(trash));
    }

    fn send(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // The thread outlives this handle's sender.
            let _ = tasks.send(task);
        }
    }

    /// Whether a checkpoint failed since [`Checkpointer::reset`].
    pub(crate) fn failed(&self) -> bool {
        self.shared.failed.load(Ordering::Acquire)
    }

    /// Forgets a failure, after the folder was opened again.
    pub(crate) fn reset(&self) {
        self.shared.failed.store(false, Ordering::Release);
    }

    /// Finishes the queued tasks.
    pub(crate) fn stop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(work: &mpsc::Receiver<Task>, shared: &Shared) {
    for task in work {
        match task {
            Task::Checkpoint(path) => {
                if let Err(error) = checkpoint(&path) {
                    tracing::error!(path = %path.escaped(), %error, "failed to move the journal into its database");
                    shared.failed.store(true, Ordering::Release);
                }
                shared.queued().remove(&path);
            }
            Task::Sweep(trash) => sweep(&trash),
        }
    }
}

fn checkpoint(path: &Path) -> rusqlite::Result<()> {
    // Does not create the file: the day may have been dropped meanwhile.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match Connection::open_with_flags(path, flags) {
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) && !path.exists() => return Ok(()),
        opened => opened?,
    };
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    match sqlite::checkpoint(&connection, false) {
        Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(()),
        // The day was dropped in between.
        Err(_) if !path.exists() => Ok(()),
        done => done.map(drop),
    }
}

fn sweep(trash: &Path) {
    let Ok(entries) = std::fs::read_dir(trash) else { return };
    for entry in entries.flatten() {
        let kept = entry.file_name().to_string_lossy().starts_with(SET_ASIDE)
            && entry.metadata().and_then(|m| m.modified()).is_ok_and(|t| t.elapsed().is_ok_and(|e| e < SET_ASIDE_KEPT));
        if kept {
            continue;
        }
        if let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::warn!(path = %entry.path().escaped(), %error, "failed to remove a file of trash/");
        }
    }
}
