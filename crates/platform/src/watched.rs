//! Files that are read again when they change: certificates, credentials.
//!
//! They are looked at when somebody needs what is in them, once a second at most: a file that nobody needs costs nothing,
//! and one that was exchanged is in use a second later. A change is one of what `stat` tells, so a file that is renamed
//! into place is noticed as one that is written to is.

use daytable_model::path_text::PathText;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Files, and what they were when they were looked at last.
pub struct Watched {
    files: Vec<PathBuf>,
    facts: Vec<Option<Facts>>,
    looked: Instant,
}

/// Device, inode, size and time of change.
type Facts = (u64, u64, u64, i64, i64);

impl Watched {
    /// To be made before the files are read: what changes meanwhile has changed.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Watched {
        let files: Vec<_> = files.into_iter().collect();
        Watched { facts: facts(&files), files, looked: Instant::now() }
    }

    /// Whether one of them has changed since this was asked last, as far as it was looked. True once a change, so one that
    /// cannot be used is said once.
    pub fn have_changed(&mut self) -> bool {
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        let now = facts(&self.files);
        let have_changed = now != self.facts;
        self.facts = now;
        have_changed
    }
}

fn facts(files: &[PathBuf]) -> Vec<Option<Facts>> {
    let facts = |path: &PathBuf| {
        let file = path.metadata().ok()?;
        Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    };
    files.iter().map(facts).collect()
}

/// Says where a file with a secret can be read by everybody. It is used all the same: those that a container is given often
/// cannot be made any other.
pub fn warn_if_exposed(path: &Path) {
    if path.metadata().is_ok_and(|file| file.mode() & 0o004 != 0) {
        tracing::warn!(file = %path.escaped(), "a file with a secret can be read by everybody on this host: chmod o-r");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_and_not_before_it_is_time_to_look() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "one").expect("written");
        let mut watched = Watched::new([path.clone()]);
        let look_now = |watched: &mut Watched| {
            watched.looked = Instant::now() - LOOK;
            watched.have_changed()
        };
        assert!(!look_now(&mut watched));
        std::fs::write(folder.path().join("b"), "two").expect("written");
        std::fs::rename(folder.path().join("b"), &path).expect("renamed");
        assert!(!watched.have_changed(), "it was looked at a moment ago");
        assert!(look_now(&mut watched));
        assert!(!look_now(&mut watched));
        std::fs::remove_file(&path).expect("removed");
        assert!(look_now(&mut watched));
        assert!(!look_now(&mut watched));
    }
}
