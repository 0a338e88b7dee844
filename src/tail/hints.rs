//! What wakes the tailer before its time: the file system's events, the wish that it stops, and what
//! else it is told.
//!
//! Events only say where to look. One that is lost costs half a second: folders are looked at anyway.

use notify::{Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Shared by the tailer, the watcher's thread and whoever stops the tailer.
#[derive(Clone, Default)]
pub(super) struct Hints(Arc<(Mutex<Noted>, Condvar)>);

#[derive(Default)]
struct Noted {
    folders: HashSet<PathBuf>,
    /// Events were lost: everything may have changed.
    is_all: bool,
    is_stopping: bool,
    /// Somebody has something to say to the tailer.
    is_called: bool,
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Asks the tailer to stop.
    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.0.1.notify_all();
    }

    /// Has the tailer look for what it is told.
    pub(super) fn call(&self) {
        self.lock().is_called = true;
        self.0.1.notify_all();
    }

    /// Whether somebody called since the last time this was asked.
    pub(super) fn was_called(&self) -> bool {
        std::mem::take(&mut self.lock().is_called)
    }

    /// Whether it was asked to.
    pub(super) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// The folders that changed, and whether all of them may have.
    pub(super) fn take(&self) -> (HashSet<PathBuf>, bool) {
        let mut noted = self.lock();
        (std::mem::take(&mut noted.folders), std::mem::take(&mut noted.is_all))
    }

    /// Waits for something to be noted, at most for `timeout`.
    pub(super) fn wait(&self, timeout: Duration) {
        let noted = self.lock();
        let quiet =
            |noted: &mut Noted| noted.folders.is_empty() && !noted.is_all && !noted.is_stopping && !noted.is_called;
        drop(self.0.1.wait_timeout_while(noted, timeout, quiet));
    }

    fn heard(&self, event: notify::Result<Event>) {
        let mut noted = self.lock();
        match event {
            Ok(event) if !event.need_rescan() => {
                noted.folders.extend(event.paths.iter().filter_map(|path| path.parent()).map(Path::to_path_buf));
            }
            _ => noted.is_all = true,
        }
        drop(noted);
        self.0.1.notify_all();
    }
}

/// The kernel's events of folders: what is created in them, removed and renamed. Not what is written: such events
/// would more than double the time that a program takes to write a line.
pub(super) struct FolderEvents {
    watcher: Option<RecommendedWatcher>,
}

impl FolderEvents {
    /// None are watched yet. Where there can be no events at all, polling is all there is.
    pub(super) fn new(hints: &Hints, is_wanted: bool) -> FolderEvents {
        if !is_wanted {
            return FolderEvents { watcher: None };
        }
        let kinds = EventKindMask::CREATE | EventKindMask::REMOVE | EventKindMask::MODIFY_NAME;
        let config = notify::Config::default().with_event_kinds(kinds).with_follow_symlinks(false);
        let hints = hints.clone();
        let watcher = RecommendedWatcher::new(move |event| hints.heard(event), config);
        if let Err(error) = &watcher {
            tracing::info!(%error, "no file system events, folders are polled");
        }
        FolderEvents { watcher: watcher.ok() }
    }

    /// Watches a folder, until it is gone.
    pub(super) fn watch(&mut self, folder: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        match watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {}
            Err(error) if matches!(error.kind, notify::ErrorKind::MaxFilesWatch) => {
                tracing::warn!(
                    "the limit of watched folders is reached (fs.inotify.max_user_watches), they are polled"
                );
                self.watcher = None;
            }
            Err(error) => tracing::debug!(folder = %folder.display(), %error, "folder is polled"),
        }
    }

    /// Forgets a folder that is gone.
    pub(super) fn unwatch(&mut self, folder: &Path) {
        if let Some(watcher) = &mut self.watcher {
            // The kernel has forgotten it already, in most cases.
            let _ = watcher.unwatch(folder);
        }
    }
}
