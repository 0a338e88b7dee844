//! Wakes the tail thread: events of the file system, a stop, and replaced blocks.
//!
//! Events only say which folders to list. A lost event costs half a second, because folders are polled as well.

use daytable_model::path_text::PathText;
use notify::{Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Shared by the tail thread, the thread of the watcher, and the handle of the tail thread.
#[derive(Clone)]
pub(super) struct Wakeup(Arc<WakeupState>);

struct WakeupState {
    reasons: Mutex<WakeupReasons>,
    /// Readable after a wakeup. It is a descriptor, because the tail thread waits for the kernel's events at the same
    /// time.
    bell: OwnedFd,
}

#[derive(Default)]
struct WakeupReasons {
    folder_changes: FolderChanges,
    is_stopping: bool,
    /// Other blocks wait to be followed.
    is_called: bool,
}

/// The folders with events since the last time.
#[derive(Default)]
pub(super) struct FolderChanges {
    /// Folders in which a file was created, removed or renamed.
    pub(super) folders: HashSet<PathBuf>,
    /// Events were lost: every folder may have changed.
    pub(super) is_all: bool,
}

impl Wakeup {
    /// A wakeup without events. Fails if the process has no descriptor left.
    pub(super) fn new() -> io::Result<Wakeup> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Wakeup(Arc::new(WakeupState { reasons: Mutex::default(), bell })))
    }

    fn lock(&self) -> MutexGuard<'_, WakeupReasons> {
        self.0.reasons.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn ring(&self) {
        // The write fails only after 2^64 wakeups without a read.
        let _ = rustix::io::write(&self.0.bell, &1_u64.to_ne_bytes());
    }

    /// Asks the thread to stop.
    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.ring();
    }

    /// Tells the thread that other blocks wait.
    pub(super) fn call(&self) {
        self.lock().is_called = true;
        self.ring();
    }

    /// Whether `call` was called since the last time.
    pub(super) fn was_called(&self) -> bool {
        std::mem::take(&mut self.lock().is_called)
    }

    /// Whether `stop` was called.
    pub(super) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    /// The folders with events since the last time.
    pub(super) fn take_folder_changes(&self) -> FolderChanges {
        std::mem::take(&mut self.lock().folder_changes)
    }

    /// Waits for a wakeup, or for `events` to become readable, for at most `timeout`. Returns whether there was a wakeup.
    pub(super) fn wait(&self, timeout: Duration, events: Option<BorrowedFd<'_>>) -> bool {
        let events = events.unwrap_or_else(|| self.0.bell.as_fd());
        let mut waited = [PollFd::new(&self.0.bell, PollFlags::IN), PollFd::from_borrowed_fd(events, PollFlags::IN)];
        // A signal interrupts the wait: the next round waits again.
        let _ = poll(&mut waited, Timespec::try_from(timeout).ok().as_ref());
        // A later wakeup makes the descriptor readable again; an earlier one is found by the caller.
        rustix::io::read(&self.0.bell, &mut [0; 8]).is_ok()
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

/// The kernel's events of folders: files that are created, removed and renamed. Not writes: such events would more than
/// double the time that a program takes to write a line.
pub(super) struct FolderEvents {
    watcher: Option<RecommendedWatcher>,
}

impl FolderEvents {
    /// A watcher without folders. Without `wakeup`, or if the kernel has no events, folders are only polled.
    pub(super) fn new(wakeup: Option<&Wakeup>) -> FolderEvents {
        let Some(wakeup) = wakeup else { return FolderEvents { watcher: None } };
        let kinds = EventKindMask::CREATE | EventKindMask::REMOVE | EventKindMask::MODIFY_NAME;
        let config = notify::Config::default().with_event_kinds(kinds).with_follow_symlinks(false);
        let wakeup = wakeup.clone();
        let watcher = RecommendedWatcher::new(move |event| wakeup.folder_changes(event), config);
        if let Err(error) = &watcher {
            tracing::info!(%error, "failed to watch folders: they are polled");
        }
        FolderEvents { watcher: watcher.ok() }
    }

    /// Watches a folder until it is removed.
    pub(super) fn watch(&mut self, folder: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        match watcher.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => {}
            Err(error) if matches!(error.kind, notify::ErrorKind::MaxFilesWatch) => {
                tracing::warn!(
                    "the limit of watched folders is reached: they are polled; raise fs.inotify.max_user_watches"
                );
                self.watcher = None;
            }
            Err(error) => tracing::debug!(folder = %folder.escaped(), %error, "folder is polled"),
        }
    }

    /// Ends the watch of a removed folder.
    pub(super) fn unwatch(&mut self, folder: &Path) {
        if let Some(watcher) = &mut self.watcher {
            // The kernel has ended the watch already, in most cases.
            let _ = watcher.unwatch(folder);
        }
    }
}
