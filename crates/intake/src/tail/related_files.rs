//! The relation of a file to the sources with similar names: a copy, the continuation, or another file. Also the path
//! from which a file was rotated.
//!
//! This module changes nothing: [`RelatedFiles`] is a view of the follower's state.

use super::discovery::Discovery;
use super::file_content::{FileContent, FileStat};
use super::followed_file::{FileAccess, FollowedFile};
use super::followed_files::FollowedFiles;
use super::identity::{Likeness, Relation, mark_at, relation};
use super::ignored_files::IgnoredFiles;
use super::names::{homes_of, is_made_from, is_next_of, uncompressed};
use super::search::{CopyCandidate, compare, copied, last_timed_line};
use super::source_index::SourceIndex;
use daytable_model::source_id::SourceId;
use daytable_parse::ParseOptions;
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How far the clock of a file system may be behind the clock of this process, in seconds.
const CLOCKS_APART: i64 = 10;

/// Whether the original of a compressed file still exists. Then the time of the compressed file is that of the
/// compression, and the original is examined by itself.
pub(super) fn is_being_compressed(path: &Path) -> bool {
    uncompressed(path).is_some_and(|original| original.exists())
}

/// The current place of a source's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Original {
    /// At its path, with everything that was read.
    InPlace,
    /// At no known path. The open descriptor has everything.
    Held {
        /// Whether the file has another name somewhere, so that a program may still write to it.
        has_name: bool,
    },
    Gone,
}

/// The relation of a file to the sources that begin with the same line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileMatch {
    /// It is related to this source.
    Related(SourceId, Relation),
    /// It is at the path of a source whose file is gone, and has its lines up to this position: the file was restored from
    /// a backup, or an editor saved it without its last lines.
    GoesBack(SourceId, u64),
    /// It was saved over the path of a source. Either bytes that were read are changed, or the source still has its own
    /// file. It is read from its beginning.
    Rewritten,
    /// It is unrelated.
    Unrelated,
}

/// A file and a source that begin with the same line.
#[derive(Clone, Copy, Debug)]
struct FilePair {
    /// The name is made from the source's: `app.log.1` from `app.log`.
    is_derived: bool,
    /// The name is the next one in a rotation: `app.log.2` after `app.log.1`.
    is_next: bool,
    /// The file has the path of the source and is another file, or was only imported, and lines of the source have a time.
    /// Without times, a restarted program may have written the same lines again.
    is_saved: bool,
    likeness: Likeness,
    /// The end of the last line with a time that file and source have, if the file was saved and lacks later ones.
    goes_back_to: Option<u64>,
    original: Original,
    /// Whether the source was followed under its path.
    is_live: bool,
}

/// The case of a [`FilePair`]. See [`FilePair::case`] for their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The file lacks lines that were read, and the source has no other file.
    GoesBack(u64),
    /// An editor or `rsync` saved the file with changes in lines that were read.
    SavedWithChanges,
    /// The same first line, and other bytes or another name.
    OtherFile,
    /// The file was saved over a source whose own file may still be written to under another name. The new file must
    /// not wait for the old one.
    SavedBesideOriginal,
    /// The next rotation renames the file itself, so a second file with the next name is not a copy.
    NextBesideOriginal,
    /// A copy, or the continuation: the bytes decide.
    Related,
}

impl FilePair {
    fn case(&self) -> Case {
        let FilePair { is_derived, is_next, is_saved, likeness, goes_back_to, original, is_live } = *self;
        let is_original_in_place = original == Original::InPlace;
        let can_be_written = is_original_in_place || original == Original::Held { has_name: true };
        match likeness {
            _ if !(is_derived || is_next || is_saved) => Case::OtherFile,
            _ if let (Some(position), false) = (goes_back_to, can_be_written) => Case::GoesBack(position),
            // A rotation also leaves another file at the path, and many logs begin with the same line.
            likeness if is_saved && likeness != Likeness::Same => match is_live && !is_original_in_place {
                true => Case::SavedWithChanges,
                false => Case::OtherFile,
            },
            Likeness::Different | Likeness::Parted { .. } => Case::OtherFile,
            _ if !is_derived && !is_next && can_be_written => Case::SavedBesideOriginal,
            _ if !is_derived && is_original_in_place => Case::NextBesideOriginal,
            Likeness::Same | Likeness::Shorter => Case::Related,
        }
    }
}

/// The files and sources of the follower.
pub(super) struct RelatedFiles<'a> {
    pub(super) files: &'a FollowedFiles,
    pub(super) sources: &'a SourceIndex,
    pub(super) ignored: &'a IgnoredFiles,
    pub(super) discovery: &'a Discovery,
}

impl<'a> RelatedFiles<'a> {
    /// The current state of a source, or its last submitted state.
    pub(super) fn state_of(&self, identity: SourceId) -> Option<&'a SourceState> {
        self.files.file(identity).map(FollowedFile::state).or_else(|| self.sources.source(identity).map(Arc::as_ref))
    }

    /// The copy of a source beside `path`, unless another source has the file.
    ///
    /// # Errors
    ///
    /// Nothing can be opened for now.
    pub(super) fn copy_of(&self, state: &SourceState, path: &Path) -> io::Result<Option<CopyCandidate>> {
        copied(state, path, |content, stat| {
            let is_rival = |identity: &SourceId| {
                let rival = self.state_of(*identity).filter(|rival| rival.position > state.position);
                rival.is_some_and(|rival| matches!(compare(content, rival), Ok(Likeness::Same)))
            };
            self.files.of_file(stat).is_some() || self.sources.of_file(stat.device, stat.inode).iter().any(is_rival)
        })
    }

    /// The path of a file before its rotation, if the file was written to since a source was last read there.
    pub(super) fn rotated_from(&self, path: &Path, stat: &FileStat) -> Option<PathBuf> {
        if is_being_compressed(path) {
            return None;
        }
        if let Some(home) = self.ignored.get(path).and_then(|ignored| ignored.home.clone()) {
            return Some(home);
        }
        let is_since = |(_, identity): &(PathBuf, SourceId)| {
            let seen = self.state_of(*identity).map(|state| state.seen.unix_seconds());
            seen.is_some_and(|seen| stat.modified.0 >= seen - CLOCKS_APART)
        };
        self.homes_of(path).into_iter().find(is_since).map(|(home, _)| home).or_else(|| self.appeared_from(path, stat))
    }

    /// Paths from which a file may have been rotated, each with the last source there. A source whose file is still at the
    /// path is newer than the rotated file, so another source comes first.
    fn homes_of(&self, path: &Path) -> Vec<(PathBuf, SourceId)> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let homes = path.file_name().map(homes_of).unwrap_or_default().into_iter().map(|name| folder.join(name));
        let last = |home: PathBuf| {
            let has_left = |identity: &SourceId| self.files.place(*identity) != Some((&*home, FileAccess::Path));
            let seen = |identity: &SourceId| (has_left(identity), self.state_of(*identity).map(|state| state.seen));
            let last = self.sources.of_path(&home).into_iter().max_by_key(seen);
            last.map(|identity| (home, identity))
        };
        homes.filter_map(last).collect()
    }

    /// The path of a file before its rotation, if the path has no known earlier source: the first file of a log may be
    /// renamed before it is discovered. The file came to its folder while the folder was watched, and was written to
    /// since. Compressed files are excluded, because their time may be that of the compression. Names with a number in
    /// the middle are excluded, because they may be other logs.
    fn appeared_from(&self, path: &Path, stat: &FileStat) -> Option<PathBuf> {
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
        let since = self.discovery.watched_since(path, stat.inode)?;
        (stat.modified.0 >= since.unix_seconds() - CLOCKS_APART).then_some(home)
    }

    /// The relation of the file at `path`, which begins with `head`, to the sources that begin with the same line.
    pub(super) fn find(
        &self,
        path: &Path,
        content: &mut FileContent,
        stat: &FileStat,
        head: &[u8],
    ) -> io::Result<FileMatch> {
        let mut finding = FileMatch::Unrelated;
        for identity in self.sources.of_head(mark_at(head.len() as u64, head).hash) {
            let Some(state) = self.state_of(identity) else { continue };
            let Some(pair) = self.pair(path, content, stat, state)? else { continue };
            match pair.case() {
                Case::OtherFile | Case::NextBesideOriginal => {}
                Case::GoesBack(position) => return Ok(FileMatch::GoesBack(identity, position)),
                Case::SavedWithChanges | Case::SavedBesideOriginal => finding = FileMatch::Rewritten,
                Case::Related => {
                    let size = (!content.is_compressed()).then_some(stat.size);
                    let has_original = pair.original != Original::Gone;
                    let must_begin_alike = has_original || pair.likeness == Likeness::Shorter;
                    if must_begin_alike && !self.is_beginning_of(content, size, state)? {
                        // It may have been truncated between both looks, behind a copy: then the file is looked at again.
                        if pair.original == Original::InPlace && self.original(state) != Original::InPlace {
                            return Ok(FileMatch::Related(identity, Relation::Unfinished));
                        }
                        continue;
                    }
                    match relation(pair.likeness, has_original, size) {
                        Relation::Stranger => {}
                        relation => return Ok(FileMatch::Related(identity, relation)),
                    }
                }
            }
        }
        Ok(finding)
    }

    /// Compares a file and a source; none if the file is in another folder, or its name is not derived from the
    /// source's.
    fn pair(
        &self,
        path: &Path,
        content: &mut FileContent,
        stat: &FileStat,
        state: &SourceState,
    ) -> io::Result<Option<FilePair>> {
        let name = path.file_name().unwrap_or_default();
        // The first and the current path of the source: a rotation makes a name from the name at that time.
        let now = self.files.place(state.identity).map_or(&*state.path, |(path, _)| path);
        let names = [&*state.path, now].map(|path| path.file_name().unwrap_or_default());
        let is_derived = names.iter().any(|old| is_made_from(old, name));
        let is_next = names.iter().any(|old| is_next_of(old, name));
        // Nothing was followed while a file was only imported, so it may have lost lines itself.
        let is_other = !stat.is_file_of(state) || state.kind == SourceKind::Import;
        let is_saved = [&*state.path, now].contains(&path) && is_other && state.last_time.is_some();
        if state.path.parent() != path.parent() || !is_derived && !is_next && !is_saved {
            return Ok(None);
        }
        let likeness = compare(content, state)?;
        // Usually the name and the likeness exclude another file. Then the original need not be read.
        let is_alike = matches!(likeness, Likeness::Same | Likeness::Shorter);
        let original = if is_alike || is_saved { self.original(state) } else { Original::Gone };
        let is_live = state.status == SourceStatus::Live;
        let goes_back_to = match likeness {
            Likeness::Shorter | Likeness::Parted { .. } if is_saved => {
                last_timed_line(content, state, &ParseOptions::default())?
            }
            _ => None,
        };
        Ok(Some(FilePair { is_derived, is_next, is_saved, likeness, goes_back_to, original, is_live }))
    }

    /// The current place of a source's file, if the file still has everything that was read.
    fn original(&self, state: &SourceState) -> Original {
        let path = match self.files.file(state.identity) {
            Some(file) if file.access == FileAccess::Descriptor => {
                return Original::Held { has_name: file.stat.links > 0 };
            }
            Some(file) => &file.path,
            None => &state.path,
        };
        let Ok((mut content, stat)) = FileContent::open(path) else { return Original::Gone };
        let is_same = stat.is_file_of(state) && matches!(compare(&mut content, state), Ok(Likeness::Same));
        if is_same { Original::InPlace } else { Original::Gone }
    }

    /// Whether a file equals the beginning of a source's file, by its first and last bytes. If the source's file is
    /// gone, or either is compressed, only marks can tell: then true.
    fn is_beginning_of(&self, content: &mut FileContent, size: Option<u64>, state: &SourceState) -> io::Result<bool> {
        const COMPARED: usize = 64 << 10;
        let path = self.files.place(state.identity).map_or(state.path.as_path(), |(path, _)| path);
        let (Some(size), Ok((mut original, stat))) = (size, FileContent::open(path)) else { return Ok(true) };
        if !stat.is_file_of(state) || original.is_compressed() {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_the_first_case_that_applies() {
        let (held, unnamed) = (Original::Held { has_name: true }, Original::Held { has_name: false });
        let (in_place, gone) = (Original::InPlace, Original::Gone);
        let (same, shorter, other) = (Likeness::Same, Likeness::Shorter, Likeness::Different);
        // (derived, next, saved), likeness, original, whether the source is live, the case.
        for (names, likeness, original, is_live, case) in [
            ((false, false, false), same, gone, true, Case::OtherFile),
            ((true, false, false), same, gone, true, Case::Related),
            ((true, false, false), shorter, in_place, true, Case::Related),
            ((true, false, false), other, gone, true, Case::OtherFile),
            ((true, false, false), Likeness::Parted { mark: 0 }, gone, true, Case::OtherFile),
            ((false, true, false), same, gone, true, Case::Related),
            ((false, true, false), same, held, true, Case::Related),
            ((false, true, false), same, in_place, true, Case::NextBesideOriginal),
            ((true, true, false), same, in_place, true, Case::Related),
            ((false, false, true), same, gone, true, Case::Related),
            ((false, false, true), same, unnamed, true, Case::Related),
            ((false, false, true), same, held, true, Case::SavedBesideOriginal),
            ((false, false, true), same, in_place, false, Case::SavedBesideOriginal),
            ((false, false, true), shorter, gone, true, Case::SavedWithChanges),
            ((false, false, true), other, unnamed, true, Case::SavedWithChanges),
            ((false, false, true), other, in_place, true, Case::OtherFile),
            ((false, false, true), other, gone, false, Case::OtherFile),
            ((false, true, true), shorter, gone, true, Case::SavedWithChanges),
            ((false, true, true), same, in_place, true, Case::NextBesideOriginal),
        ] {
            let (is_derived, is_next, is_saved) = names;
            let goes_back_to = None;
            let pair = FilePair { is_derived, is_next, is_saved, likeness, goes_back_to, original, is_live };
            assert_eq!(pair.case(), case, "{pair:?}");
        }
    }
}
