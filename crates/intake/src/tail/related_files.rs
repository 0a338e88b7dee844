//! Files beside a source, under names made from its own: copies of it, whole or not, and where it was rotated from.

use super::file_content::{FileContent, FileStamp};
use super::followed_file::FileAccess;
use super::follower::Follower;
use super::identity::{Likeness, Relation, mark_at, relation};
use super::ignored_files::IgnoreReason;
use super::names::{homes_of, is_made_from, is_next_of, uncompressed};
use super::search::{CopyCandidate, compare, copied};
use daytable_store::{SourceState, SourceStatus};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How far the clock of a file system may be behind this one, in seconds.
const CLOCKS_APART: i64 = 10;

/// Whether what a compressed file is made from stands beside it. Its time is that of this moment then, and what it is made
/// from is decided about by itself.
pub(super) fn is_being_compressed(path: &Path) -> bool {
    uncompressed(path).is_some_and(|original| original.exists())
}

/// Where the file is that a source was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Original {
    /// At its path.
    InPlace,
    /// At no path. It is read through the descriptor, which has everything.
    Held,
    Gone,
}

impl Follower {
    /// The copy of a source beside `path`, if it is no one else's file.
    pub(super) fn copy_of(&self, state: &SourceState, path: &Path) -> Option<CopyCandidate> {
        copied(state, path, |content, stamp| {
            let is_rival = |identity: &u64| {
                let rival = self.state_of(*identity).filter(|rival| rival.position > state.position);
                rival.is_some_and(|rival| matches!(compare(content, rival), Ok(Likeness::Same)))
            };
            self.files.of_file(stamp).is_some() || self.sources.of_file(stamp.device, stamp.inode).iter().any(is_rival)
        })
    }

    /// Paths that a file may have been rotated away from, with the sources that were there last. A source whose file is there
    /// still came after the file, where there was another before it.
    pub(super) fn homes_of(&self, path: &Path) -> Vec<(PathBuf, u64)> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let homes = path.file_name().map(homes_of).unwrap_or_default().into_iter().map(|name| folder.join(name));
        let last = |home: PathBuf| {
            let has_left = |identity: &u64| self.files.place(*identity) != Some((&*home, FileAccess::Path));
            let seen = |identity: &u64| (has_left(identity), self.state_of(*identity).map(|state| state.seen));
            let last = self.sources.of_path(&home).into_iter().max_by_key(seen);
            last.map(|identity| (home, identity))
        };
        homes.filter_map(last).collect()
    }

    /// The path that a file was at before it was rotated away, if that was since a source was seen there.
    pub(super) fn rotated_from(&self, path: &Path, stamp: &FileStamp) -> Option<PathBuf> {
        if is_being_compressed(path) {
            return None;
        }
        if let Some(home) = self.ignored.get(path).and_then(|ignored| ignored.home.clone()) {
            return Some(home);
        }
        let is_since = |(_, identity): &(PathBuf, u64)| {
            let seen = self.state_of(*identity).map(|state| state.seen.unix_seconds());
            seen.is_some_and(|seen| stamp.modified.0 >= seen - CLOCKS_APART)
        };
        self.homes_of(path).into_iter().find(is_since).map(|(home, _)| home).or_else(|| self.appeared_from(path, stamp))
    }

    /// The path that a file was at before it was rotated away, where nothing is known of that path but what is there now: the
    /// first file of a log may be renamed before it is seen. It came to its folder while that was watched, and was written to
    /// since. Not a compressed one: its time may be that of its compression. Nor one with a number amid its name, which may as
    /// well be another log.
    fn appeared_from(&self, path: &Path, stamp: &FileStamp) -> Option<PathBuf> {
        let name = path.file_name()?;
        if uncompressed(path).is_some() || self.discovery.block_of(path).is_some() {
            return None;
        }
        let is_first = |home: &PathBuf| {
            let is_there = |identity| self.files.place(identity) == Some((home, FileAccess::Path));
            self.discovery.block_of(home).is_some() && self.sources.of_path(home).into_iter().all(is_there)
        };
        let homes = homes_of(name).into_iter().filter(|home| name.as_bytes().starts_with(home.as_bytes()));
        let home = homes.map(|home| path.with_file_name(home)).find(is_first)?;
        let since = self.discovery.watched_since(path, stamp.inode)?;
        (stamp.modified.0 >= since.unix_seconds() - CLOCKS_APART).then_some(home)
    }

    /// The source beside a file that it may be a copy of. Notes where the file was written anew over the path of a source, with
    /// something changed of what was read.
    pub(super) fn relation_of(
        &mut self,
        path: &Path,
        content: &mut FileContent,
        stamp: &FileStamp,
        head: &[u8],
        is_rewritten: &mut bool,
    ) -> io::Result<Option<(u64, Relation)>> {
        let head = mark_at(head.len() as u64, head);
        let name = path.file_name().unwrap_or_default();
        for identity in self.sources.of_head(head.hash) {
            let Some(state) = self.state_of(identity) else { continue };
            // The names that its own file had, first and last: what is made of a file is called after what that is called then.
            let now = self.files.place(identity).map_or(&*state.path, |(path, _)| path);
            let old = [&*state.path, now].map(|path| path.file_name().unwrap_or_default());
            let is_made = old.iter().any(|old| is_made_from(old, name));
            let is_next = old.iter().any(|old| is_next_of(old, name));
            // Another file took its place with all that was read of it, times and all: what `rsync` or an editor saved. Where
            // no line has a time, a program that was begun anew may have written the same lines once more.
            let is_saved = [&*state.path, now].contains(&path)
                && (stamp.device, stamp.inode) != (state.device, state.inode)
                && state.last_time.is_some();
            if state.path.parent() != path.parent() || !is_made && !is_next && !is_saved {
                continue;
            }
            let state = state.clone();
            let likeness = compare(content, &state)?;
            if is_saved && likeness != Likeness::Same {
                // A rotation leaves another file there, too, and many logs begin with one and the same line.
                *is_rewritten |= state.status == SourceStatus::Live && self.original(&state) != Original::InPlace;
                continue;
            }
            if !matches!(likeness, Likeness::Same | Likeness::Shorter) {
                continue;
            }
            let original = self.original(&state);
            // What was saved goes on behind a file that is gone for good. One that has another name still may be written to, and
            // nobody knows for how long: the new file does not wait for it.
            if is_saved && !is_made && !is_next && (original == Original::InPlace || self.has_other_name(identity)) {
                *is_rewritten = true;
                continue;
            }
            // The next rotation moves the file itself. It makes another one beside it of one that it removed.
            if original == Original::InPlace && !is_made {
                continue;
            }
            let stands = original != Original::Gone;
            let size = (!content.is_compressed()).then_some(stamp.size);
            if (stands || likeness == Likeness::Shorter) && !self.is_beginning_of(content, size, &state)? {
                continue;
            }
            match relation(likeness, stands, size) {
                Relation::Stranger => {}
                relation => return Ok(Some((identity, relation))),
            }
        }
        Ok(None)
    }

    /// Whether the file of a source that is read through its descriptor has a name somewhere still.
    fn has_other_name(&self, identity: u64) -> bool {
        self.files.file(identity).is_some_and(|file| file.access == FileAccess::Descriptor && file.stamp.links > 0)
    }

    /// Where a source's own file is, with all that was read from it.
    fn original(&self, state: &SourceState) -> Original {
        let path = match self.files.place(state.identity) {
            Some((_, FileAccess::Descriptor)) => return Original::Held,
            Some((path, FileAccess::Path)) => path.to_path_buf(),
            None => state.path.clone(),
        };
        let Ok((mut content, stamp)) = FileContent::open(&path) else { return Original::Gone };
        let is_same = (stamp.device, stamp.inode) == (state.device, state.inode)
            && matches!(compare(&mut content, state), Ok(Likeness::Same));
        if is_same { Original::InPlace } else { Original::Gone }
    }

    /// Whether a file is the beginning of a source's file, or all of it, by its first and last bytes. Where that is gone
    /// or either is compressed, marks are all there is to go by.
    fn is_beginning_of(&self, content: &mut FileContent, size: Option<u64>, state: &SourceState) -> io::Result<bool> {
        const COMPARED: usize = 64 << 10;
        let path = self.files.place(state.identity).map_or(state.path.as_path(), |(path, _)| path);
        let (Some(size), Ok((mut original, stamp))) = (size, FileContent::open(path)) else { return Ok(true) };
        if (stamp.device, stamp.inode) != (state.device, state.inode) || original.is_compressed() {
            return Ok(true);
        }
        let (mut one, mut two) = (vec![0; COMPARED], vec![0; COMPARED]);
        for offset in [0, size.saturating_sub(COMPARED as u64)] {
            let n = content.read_at(offset, &mut one)?;
            let m = original.read_at(offset, &mut two)?;
            if m < n || one[..n] != two[..n] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn join(
        &mut self,
        identity: u64,
        relation: Relation,
        block: usize,
        path: PathBuf,
        content: FileContent,
        stamp: FileStamp,
    ) {
        match relation {
            Relation::Continues if self.files.file(identity).is_some() => {
                // It does not know yet that its file has gone.
                if let Some(file) = self.files.file_mut(identity) {
                    file.has_more = false;
                }
                self.ignore(path, block, stamp, IgnoreReason::Unfinished, None);
                self.check_file(identity);
            }
            Relation::Continues => {
                if let Some(state) = self.sources.source(identity) {
                    self.follow(SourceState::clone(state), block, path, content, stamp);
                }
            }
            Relation::Copy => self.ignore(path, block, stamp, IgnoreReason::Copy, None),
            Relation::Unfinished | Relation::Stranger => {
                self.ignore(path, block, stamp, IgnoreReason::Unfinished, None)
            }
        }
    }
}
