//! Files that are read again after they change: certificates and credentials.
//!
//! The files are checked when their content is needed, at most once a second. An unused file therefore costs nothing, and a
//! replaced file is in use a second later. A change is any difference in `stat`, so a file that is renamed into place counts
//! as changed, too.

use daytable_model::path_text::PathText;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The least time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Files, and their state at the last check.
pub struct FileWatch {
    files: Vec<PathBuf>,
    stamps: Vec<Option<FileState>>,
    checked: Instant,
}

/// Device, inode, size and time of modification.
type FileState = (u64, u64, u64, i64, i64);

impl FileWatch {
    /// Starts to watch. Call it before the files are read, so that a change during the read counts as a change.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> FileWatch {
        let files: Vec<_> = files.into_iter().collect();
        FileWatch { stamps: stamps(&files), files, checked: Instant::now() }
    }

    /// Whether a file changed since the previous call. Each change is reported once, so a file that cannot be used is
    /// logged once.
    pub fn have_changed(&mut self) -> bool {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return false;
        }
        self.checked = Instant::now();
        let now = stamps(&self.files);
        let have_changed = now != self.stamps;
        self.stamps = now;
        have_changed
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<FileState>> {
    let stamp = |path: &PathBuf| {
        let file = path.metadata().ok()?;
        Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}

/// Logs a warning if every user of this host can read a file with a secret. The file is used all the same: a container often
/// gets its secrets with exactly these permissions.
pub fn warn_if_exposed(path: &Path) {
    if path.metadata().is_ok_and(|file| file.mode() & 0o004 != 0) {
        tracing::warn!(file = %path.escaped(), "a file with a secret can be read by everybody on this host: chmod o-r");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_once_and_not_before_the_next_check() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "one").expect("written");
        let mut watch = FileWatch::new([path.clone()]);
        let check_now = |watch: &mut FileWatch| {
            watch.checked = Instant::now() - CHECK_INTERVAL;
            watch.have_changed()
        };
        assert!(!check_now(&mut watch));
        std::fs::write(folder.path().join("b"), "two").expect("written");
        std::fs::rename(folder.path().join("b"), &path).expect("renamed");
        assert!(!watch.have_changed(), "the last check was a moment ago");
        assert!(check_now(&mut watch));
        assert!(!check_now(&mut watch));
        std::fs::remove_file(&path).expect("removed");
        assert!(check_now(&mut watch));
        assert!(!check_now(&mut watch));
    }
}
