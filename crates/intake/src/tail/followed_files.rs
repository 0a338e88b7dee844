//! The files that are followed, with a bound on their open descriptors.

use super::file_content::{FileContent, FileStat, is_out_of_descriptors};
use super::followed_file::{FileAccess, FollowedFile};
use crate::counters::SourceCounters;
use daytable_model::source_id::SourceId;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// All followed files, by the identity of their source.
pub(super) struct FollowedFiles {
    /// Boxed, because a map of large values leaves much memory unused.
    followed: BTreeMap<SourceId, Box<FollowedFile>>,
    by_file: HashMap<(u64, u64), SourceId>,
    /// Files that may have a descriptor, in the order in which they lose it.
    holders: VecDeque<SourceId>,
    open_max: usize,
}

impl FollowedFiles {
    /// No files yet; at most `open_max` descriptors.
    pub(super) fn new(open_max: usize) -> FollowedFiles {
        FollowedFiles {
            followed: BTreeMap::new(),
            by_file: HashMap::new(),
            holders: VecDeque::new(),
            open_max: open_max.max(1),
        }
    }

    /// Sets the largest number of open descriptors.
    pub(super) fn set_open_max(&mut self, open_max: usize) {
        self.open_max = open_max.max(1);
    }

    /// The sources of all followed files.
    pub(super) fn identities(&self) -> Vec<SourceId> {
        self.followed.keys().copied().collect()
    }

    /// Follows a file.
    pub(super) fn insert(&mut self, file: FollowedFile) {
        let identity = file.state().identity;
        self.by_file.insert((file.stat.device, file.stat.inode), identity);
        self.holders.push_back(identity);
        self.followed.insert(identity, Box::new(file));
    }

    /// Follows the file no longer.
    pub(super) fn remove(&mut self, identity: SourceId) -> Option<Box<FollowedFile>> {
        let file = self.followed.remove(&identity)?;
        self.release(identity, &file.stat);
        Some(file)
    }

    /// The source has another file from now on.
    pub(super) fn moved(&mut self, identity: SourceId, old: &FileStat, new: &FileStat) {
        self.release(identity, old);
        self.by_file.insert((new.device, new.inode), identity);
    }

    /// Removes the file of a source. Another file may get the device and inode.
    pub(super) fn release(&mut self, identity: SourceId, stat: &FileStat) {
        let file = (stat.device, stat.inode);
        if self.by_file.get(&file) == Some(&identity) {
            self.by_file.remove(&file);
        }
    }

    /// The source of a followed file.
    pub(super) fn of_file(&self, stat: &FileStat) -> Option<SourceId> {
        self.by_file.get(&(stat.device, stat.inode)).copied()
    }

    pub(super) fn file(&self, identity: SourceId) -> Option<&FollowedFile> {
        self.followed.get(&identity).map(Box::as_ref)
    }

    pub(super) fn file_mut(&mut self, identity: SourceId) -> Option<&mut FollowedFile> {
        self.followed.get_mut(&identity).map(Box::as_mut)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FollowedFile> {
        self.followed.values().map(Box::as_ref)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut FollowedFile> {
        self.followed.values_mut().map(Box::as_mut)
    }

    /// The sources whose file has more to read, or is due for a check.
    pub(super) fn due(&self, now: Instant) -> Vec<SourceId> {
        let is_due = |file: &&FollowedFile| !file.has_ended() && (file.has_more || file.schedule.is_due(now));
        self.iter().filter(is_due).map(|file| file.state().identity).collect()
    }

    /// The time of the next check of any file; none if there is no file.
    pub(super) fn next_check(&self, now: Instant) -> Option<Instant> {
        let open = self.iter().filter(|file| !file.has_ended());
        open.map(|file| if file.has_more { now } else { file.schedule.latest() }).min()
    }

    /// Whether a file has more to read.
    pub(super) fn have_more(&self) -> bool {
        self.iter().any(|file| file.has_more)
    }

    /// Removes the files that were read to their end, once that is committed.
    pub(super) fn remove_ended(&mut self, committed: u64) {
        let is_over = |file: &&FollowedFile| file.has_ended() && !file.is_changed && file.submitted <= committed;
        let over: Vec<SourceId> = self.iter().filter(is_over).map(|file| file.state().identity).collect();
        for identity in over {
            self.remove(identity);
        }
    }

    /// Sets the gauges of a block.
    pub(super) fn measure(&self, block: usize, counters: &SourceCounters) {
        let files = || self.iter().filter(|file| file.block == block);
        let set = |gauge: &AtomicU64, value: u64| gauge.store(value, Ordering::Relaxed);
        set(&counters.followed_files, files().count() as u64);
        set(&counters.open_files, files().filter(|file| file.reader.content.is_some()).count() as u64);
        set(&counters.lag_bytes, files().map(FollowedFile::unread).max().unwrap_or(0));
        let since = files().filter_map(|file| file.lag.since()).min();
        set(&counters.unread_since, since.map_or(0, |since| since.get().unsigned_abs()));
    }

    /// Opens the file at `path`, after closing another file where too many are open. A file that has more to read, or
    /// was read recently, keeps its descriptor before a quiet file.
    pub(super) fn open_at(&mut self, path: &Path) -> io::Result<(FileContent, FileStat)> {
        while self.holders.len() >= self.open_max && self.close_one() {}
        match FileContent::open(path) {
            Err(error) if is_out_of_descriptors(&error) && self.close_one() => {
                // Other parts of the process need descriptors as well.
                for _ in 0..self.holders.len() / 2 {
                    self.close_one();
                }
                FileContent::open(path)
            }
            other => other,
        }
    }

    /// Opens a followed file again. Fails if its path now leads to another file.
    pub(super) fn reopen(&mut self, identity: SourceId) -> io::Result<()> {
        let Some(file) = self.followed.get(&identity) else { return Ok(()) };
        if file.reader.content.is_some() {
            return Ok(());
        }
        let path = file.path.clone();
        let (content, stat) = self.open_at(&path)?;
        self.holders.push_back(identity);
        match self.followed.get_mut(&identity) {
            Some(file) if file.stat.is_same_file(&stat) => {
                file.reader.content = Some(content);
                Ok(())
            }
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Closes the file that was unused for the longest time, approximately. False if no file can be closed.
    fn close_one(&mut self) -> bool {
        // Two passes: the first may find that every file was used recently.
        for _ in 0..2 * self.holders.len() {
            let Some(identity) = self.holders.pop_front() else { return false };
            let Some(file) = self.followed.get_mut(&identity).filter(|file| file.reader.content.is_some()) else {
                return true;
            };
            if !file.can_close() || std::mem::take(&mut file.is_in_use) {
                self.holders.push_back(identity);
                continue;
            }
            file.reader.content = None;
            return true;
        }
        false
    }

    /// The path of a source's file, and whether the path leads to it.
    pub(super) fn place(&self, identity: SourceId) -> Option<(&Path, FileAccess)> {
        self.followed.get(&identity).map(|file| (file.path.as_path(), file.access))
    }
}
