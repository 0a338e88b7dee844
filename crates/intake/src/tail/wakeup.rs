//! What wakes the tailer before its time: the file system's events, the wish that it stops, and what
//! else it is told.
//!
//! Events only say where to look. One that is lost costs half a second: folders are looked at anyway.

use daytable_model::path_text::PathText;
use notify::{Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Shared by the tailer, the watcher's thread and whoever stops the tailer.
#[derive(Clone)]
pub(super) struct Wakeup(Arc<WakeupState>);

struct WakeupState {
    reasons: Mutex<WakeupReasons>,
    /// Readable since something was noted: a descriptor, because the tailer waits for the kernel's events at the same time.
    bell: OwnedFd,
}

#[derive(Default)]
struct WakeupReasons {
    folder_changes: FolderChanges,
    is_stopping: bool,
    /// Somebody has something to say to the tailer.
    is_called: bool,
}

/// What events said since they were asked for last.
#[derive(Default)]
pub(super) struct FolderChanges {
    /// Folders in which something was created, removed or renamed.
    pub(super) folders: HashSet<PathBuf>,
    /// Events were lost: everything may have changed.
    pub(super) is_all: bool,
}

impl Wakeup {
    /// Nothing is noted yet. An error where there is no descriptor to be had.
    pub(super) fn new() -> io::Result<Wakeup> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Wakeup(Arc::new(WakeupState { reasons: Mutex::default(), bell })))
    }

    fn lock(&self) -> MutexGuard<'_, WakeupReasons> {
        self.0.reasons.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn ring(&self) {
        // It fails only where nobody has listened for 2^64 rings.
        let _ = rustix::io::write(&self.0.bell, &1_u64.to_ne_bytes());
    }

    /// Asks the tailer to stop.
    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.ring();
    }

    /// Has the tailer look for what it is told.
    pub(super) fn call(&self) {
        self.lock().is_called = true;
        self.ring();
    }

    /// Whether somebody called since the last time this was asked.
    pub(super) fn was_called(&self) -> bool {
        std::mem::take(&mut self.lock().is_called)
    }

    /// Whether it was asked to.
    pub(super) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// What was heard since the last time.
    pub(super) fn take_folder_changes(&self) -> FolderChanges {
        std::mem::take(&mut self.lock().folder_changes)
    }

    /// Waits for something to be noted, or for `events` to become readable, at most for `timeout`.
    pub(super) fn wait(&self, timeout: Duration, events: Option<BorrowedFd<'_>>) {
        let events = events.unwrap_or_else(|| self.0.bell.as_fd());
        let mut waited = [PollFd::new(&self.0.bell, PollFlags::IN), PollFd::from_borrowed_fd(events, PollFlags::IN)];
        // An error is that of a signal: nothing was waited for, and the next round waits again.
        let _ = poll(&mut waited, Timespec::try_from(timeout).ok().as_ref());
        // What is noted from here on rings again; what was noted before is found.
        let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
    }

    fn folder_changes(&self, event: notify::Result<Event>) {
        let mut reasons = self.lock();
        match event {
            Ok(event) if !event.need_rescan() => {
                reasons
                    .folder_changes
                    .folders
                    .extend(event.paths.iter().filter_map(|path| path.parent()).map(Path::to_path_buf));
            }
            _ => reasons.folder_changes.is_all = true,
        }
        drop(reasons);
        self.ring();
    }
}

/// The kernel's events of folders: what is created in them, removed and renamed. Not what is written: such events
/// would more than double the time that a program takes to write a line.
pub(super) struct FolderEvents {
    watcher: Option<RecommendedWatcher>,
}

impl FolderEvents {
    /// None are watched yet. Where nobody is to hear of them, and where there can be no events at all, polling is all there is.
    pub(super) fn new(wakeup: Option<&Wakeup>) -> FolderEvents {
        let Some(wakeup) = wakeup else { return FolderEvents { watcher: None } };
        let kinds = EventKindMask::CREATE | EventKindMask::REMOVE | EventKindMask::MODIFY_NAME;
        let config = notify::Config::default().with_event_kinds(kinds).with_follow_symlinks(false);
        let wakeup = wakeup.clone();
        let watcher = RecommendedWatcher::new(move |event| wakeup.folder_changes(event), config);
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
            Err(error) => tracing::debug!(folder = %folder.escaped(), %error, "folder is polled"),
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
