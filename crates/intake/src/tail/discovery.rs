//! Discovers files: folders are listed once, and again when they change.
//!
//! The modification time of each folder is checked twice a second, even without events. All folders are listed every
//! ten seconds, because some file systems keep no such times. A symbolic link to a file is a file. A link to a folder
//! is followed only in the part of a pattern without wildcards, so there are no loops.

use super::names::homes_of;
use super::options::TailTimings;
use super::path_patterns::PathPatterns;
use super::wakeup::{FolderChanges, FolderEvents, Wakeup};
use daytable_model::path_text::PathText;
use daytable_model::time::{self, Ticks};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A path that a block includes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DiscoveredFile {
    pub(super) path: PathBuf,
    /// The number of the first block that includes it.
    pub(super) block: usize,
}

/// The files of the folders that changed.
#[derive(Debug, Default)]
pub(super) struct FolderListing {
    /// Files that a block includes, in the order of their paths.
    pub(super) included: Vec<DiscoveredFile>,
    /// Other files, under names that a rotation makes.
    pub(super) rotated: Vec<PathBuf>,
    /// The folders that changed; empty after a walk through all folders.
    pub(super) folders: Vec<PathBuf>,
}

/// The folders that are listed, and when they changed.
pub(super) struct Discovery {
    patterns: Vec<PathPatterns>,
    events: FolderEvents,
    folders: HashMap<PathBuf, Folder>,
    looked: Option<Instant>,
    walked: Option<Instant>,
    /// When the first folder was listed.
    began: Option<Ticks>,
    errors: Vec<u64>,
}

struct Folder {
    /// The inodes of rotated files that existed when the folder was first listed, if they still exist. Empty if the
    /// folder is newer than the daemon; none before it can be listed.
    old: Option<HashSet<u64>>,
    modified: Option<(i64, i64)>,
    /// When the folder was listed. A change shortly after its modification time may have left that time as it was.
    listed: Instant,
    is_settled: bool,
    failed: Option<io::ErrorKind>,
}

/// The resolution of modification times, with room to spare.
const TIME_GRAIN: Duration = Duration::from_millis(50);

impl Discovery {
    /// A discovery without listed folders. `wakeup` receives the folders' events, if they are wanted.
    pub(super) fn new(patterns: Vec<PathPatterns>, wakeup: Option<&Wakeup>) -> Discovery {
        let events = FolderEvents::new(wakeup);
        let errors = vec![0; patterns.len()];
        Discovery { patterns, events, folders: HashMap::new(), looked: None, walked: None, began: None, errors }
    }

    /// The first block that includes a path.
    pub(super) fn block_of(&self, path: &Path) -> Option<usize> {
        self.patterns.iter().position(|patterns| patterns.includes(path))
    }

    /// Whether a block includes a path.
    pub(super) fn follows(&self, block: usize, path: &Path) -> bool {
        self.patterns.get(block).is_some_and(|patterns| patterns.includes(path))
    }

    /// Since when the folder of a file is watched; none if the file existed before.
    pub(super) fn watched_since(&self, path: &Path, inode: u64) -> Option<Ticks> {
        let folder = self.folders.get(path.parent()?)?;
        let is_new = folder.old.as_ref().is_some_and(|old| !old.contains(&inode));
        self.began.filter(|_| is_new)
    }

    /// How often a folder of each block could not be listed.
    pub(super) fn errors(&self) -> &[u64] {
        &self.errors
    }

    /// Whether it is time for [`list_changed`](Discovery::list_changed).
    pub(super) fn is_due(&self, now: Instant, timings: &TailTimings) -> bool {
        self.looked.is_none_or(|looked| now.duration_since(looked) >= timings.folders)
    }

    /// Makes the next listing due at once.
    pub(super) fn force_due(&mut self) {
        self.looked = None;
    }

    /// Lists each folder that changed; all folders the first time, and every `timings.rescan`.
    pub(super) fn list_changed(
        &mut self,
        folder_changes: &FolderChanges,
        now: Instant,
        timings: &TailTimings,
    ) -> FolderListing {
        let is_walk = self.walked.is_none_or(|walked| now.duration_since(walked) >= timings.rescan);
        let is_poll = self.is_due(now, timings);
        let began = self.began.unwrap_or_else(time::now);
        let (mut found, mut changed) = (BTreeMap::new(), Vec::new());
        if is_walk || folder_changes.is_all {
            self.walked = Some(now);
            self.looked = Some(now);
            let roots: Vec<PathBuf> = self.patterns.iter().flat_map(|patterns| patterns.roots.clone()).collect();
            for root in roots {
                self.list(&root, true, now, &mut found);
            }
        } else {
            changed = if is_poll {
                self.looked = Some(now);
                self.folders
                    .iter()
                    .filter(|(path, folder)| folder.has_changed(path))
                    .map(|(path, _)| path.clone())
                    .collect()
            } else {
                folder_changes.folders.iter().filter(|folder| self.folders.contains_key(*folder)).cloned().collect()
            };
            for folder in &changed {
                self.list(folder, false, now, &mut found);
            }
        }
        self.began = Some(began);
        let mut listed = FolderListing { folders: changed, ..FolderListing::default() };
        for (path, block) in found {
            match block {
                Some(block) => listed.included.push(DiscoveredFile { path, block }),
                None => listed.rotated.push(path),
            }
        }
        listed
    }

    /// Lists a folder and those below it: only new ones, or all.
    fn list(&mut self, path: &Path, is_walk: bool, now: Instant, found: &mut BTreeMap<PathBuf, Option<usize>>) {
        let mut left = vec![path.to_path_buf()];
        while let Some(path) = left.pop() {
            if self.folders.get(&path).is_some_and(|folder| is_walk && folder.listed == now) {
                continue;
            }
            let modified = modified(&path);
            match std::fs::read_dir(&path) {
                Ok(entries) => {
                    let mut rotated = HashSet::new();
                    for entry in entries.flatten() {
                        let Ok(kind) = entry.file_type() else { continue };
                        let path = entry.path();
                        if kind.is_dir() {
                            let is_wanted = self.patterns.iter().any(|patterns| patterns.may_be_below(&path));
                            if is_wanted && (is_walk || !self.folders.contains_key(&path)) {
                                left.push(path);
                            }
                        } else if let block @ Some(_) = self.block_of(&path) {
                            found.insert(path, block);
                        } else if !homes_of(&entry.file_name()).is_empty() {
                            rotated.insert(entry.ino());
                            found.insert(path, None);
                        }
                    }
                    let old = self.old(&path, rotated);
                    self.listed(path, modified, None, now, Some(old));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_root(&path) => {
                    self.events.unwatch(&path);
                    self.folders.remove(&path);
                }
                Err(error) => {
                    for (patterns, errors) in self.patterns.iter().zip(&mut self.errors) {
                        *errors += u64::from(patterns.roots.contains(&path) || patterns.may_be_below(&path));
                    }
                    let before = self.folders.get_mut(&path).and_then(|folder| folder.old.take());
                    // Files of a folder that does not exist yet are newer than the daemon.
                    let old = before.or_else(|| (error.kind() == io::ErrorKind::NotFound).then(HashSet::new));
                    self.listed(path, modified, Some(error), now, old);
                }
            }
        }
    }

    fn is_root(&self, path: &Path) -> bool {
        self.patterns.iter().any(|patterns| patterns.roots.iter().any(|root| root == path))
    }

    /// Which of the `rotated` files of a folder existed when it was watched first.
    fn old(&mut self, path: &Path, rotated: HashSet<u64>) -> HashSet<u64> {
        let is_first_look = self.began.is_none();
        match self.folders.get_mut(path).map(|folder| folder.old.take()) {
            Some(Some(mut old)) => {
                old.retain(|inode| rotated.contains(inode));
                old
            }
            Some(None) => rotated,
            None if is_first_look => rotated,
            None => HashSet::new(),
        }
    }

    fn listed(
        &mut self,
        path: PathBuf,
        modified: Option<(i64, i64)>,
        error: Option<io::Error>,
        now: Instant,
        old: Option<HashSet<u64>>,
    ) {
        let failed = error.as_ref().map(io::Error::kind);
        let before = self.folders.get(&path);
        // Watches a folder once it exists, and again when it was created again.
        if failed.is_none() && before.is_none_or(|before| before.failed.is_some()) {
            self.events.watch(&path);
        }
        if let Some(error) = error.filter(|_| before.is_none_or(|before| before.failed != failed)) {
            tracing::warn!(folder = %path.escaped(), %error, "failed to list a folder: files that are new in it are not seen, retrying");
        }
        let is_settled = before.is_some_and(|before| before.modified == modified);
        self.folders.insert(path, Folder { old, modified, listed: now, is_settled, failed });
    }
}

impl Folder {
    fn has_changed(&self, path: &Path) -> bool {
        !self.is_settled && self.listed.elapsed() >= TIME_GRAIN || modified(path) != self.modified
    }
}

fn modified(path: &Path) -> Option<(i64, i64)> {
    std::fs::metadata(path).ok().map(|metadata| (metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::super::options::TailOptions;
    use super::*;
    use std::fs;

    fn discovery(include: &Path) -> Discovery {
        let options = TailOptions::new("t", vec![include.to_string_lossy().into_owned()]);
        Discovery::new(vec![PathPatterns::new(&options).expect("patterns")], None)
    }

    #[test]
    fn only_folders_that_changed_are_listed_again() {
        let root = tempfile::tempdir().expect("a folder");
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("a/b")).expect("created");
        fs::create_dir(path("c")).expect("created");
        for file in ["a/one.log", "a/b/two.log", "c/three.log", "a/four.txt"] {
            fs::write(path(file), "").expect("written");
        }
        let mut discovery = discovery(&path("**/*.log"));
        let timings = TailTimings { folders: Duration::ZERO, ..TailTimings::default() };
        let mut look = || -> Vec<PathBuf> {
            discovery
                .list_changed(&FolderChanges::default(), Instant::now(), &timings)
                .included
                .into_iter()
                .map(|found| found.path)
                .collect()
        };
        assert_eq!(look(), [path("a/b/two.log"), path("a/one.log"), path("c/three.log")]);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !look().is_empty() {
            assert!(Instant::now() < deadline, "folders never settle");
        }
        // Until the modification times surely differ.
        while look().is_empty() {
            assert!(Instant::now() < deadline, "a change is never seen");
            fs::write(path("a/new.log"), "").expect("written");
            fs::remove_file(path("a/new.log")).expect("removed");
        }
        fs::create_dir_all(path("d/e")).expect("created");
        fs::write(path("d/e/five.log"), "").expect("written");
        while !look().contains(&path("d/e/five.log")) {
            assert!(Instant::now() < deadline, "a new folder is never seen");
        }
    }

    #[test]
    fn a_later_folder_is_found_and_loops_are_ignored() {
        let root = tempfile::tempdir().expect("a folder");
        let late = root.path().join("late");
        let mut discovery = discovery(&late.join("**/*.log"));
        let timings = TailTimings { folders: Duration::ZERO, ..TailTimings::default() };
        assert!(discovery.list_changed(&FolderChanges::default(), Instant::now(), &timings).included.is_empty());
        fs::create_dir(&late).expect("created");
        std::os::unix::fs::symlink(&late, late.join("loop")).expect("linked");
        fs::write(late.join("a.log"), "").expect("written");
        let found = discovery.list_changed(&FolderChanges::default(), Instant::now(), &timings).included;
        assert_eq!(found.into_iter().map(|found| found.path).collect::<Vec<_>>(), [late.join("a.log")]);
    }
}
