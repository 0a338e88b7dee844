//! Files beside a source, under names made from its own: copies of it, whole or not, and where it was rotated from.

use super::content::{Content, Facts};
use super::followed::Hold;
use super::follower::Follower;
use super::identity::{Kinship, Likeness, kinship, mark_at};
use super::names::{homes_of, is_made_from, is_next_of};
use super::parked::Why;
use super::search::{Candidate, compare, copied};
use crate::store::SourceState;
use std::io;
use std::path::{Path, PathBuf};

/// How far the clock of a file system may be behind this one, in seconds.
const CLOCKS_APART: i64 = 10;

impl Follower {
    /// The copy of a source beside `path`, if it is no one else's file.
    pub(super) fn copy_of(&self, state: &SourceState, path: &Path) -> Option<Candidate> {
        copied(state, path, |content, facts| {
            let is_rival = |identity: &u64| {
                let rival = self.state_of(*identity).filter(|rival| rival.position > state.position);
                rival.is_some_and(|rival| matches!(compare(content, rival), Ok(Likeness::Same)))
            };
            self.files.of_file(facts).is_some() || self.known.of_file(facts.device, facts.inode).iter().any(is_rival)
        })
    }

    /// Paths that a file may have been rotated away from, with the sources that were there last.
    pub(super) fn homes_of(&self, path: &Path) -> Vec<(PathBuf, u64)> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let homes = path.file_name().map(homes_of).unwrap_or_default().into_iter().map(|name| folder.join(name));
        let last = |home: PathBuf| {
            let seen = |identity: &u64| self.state_of(*identity).map(|state| state.seen);
            self.known.of_path(&home).into_iter().max_by_key(seen).map(|identity| (home, identity))
        };
        homes.filter_map(last).collect()
    }

    /// The path that a file was at before it was rotated away, if that was since a source was seen there.
    pub(super) fn rotated_from(&self, path: &Path, facts: &Facts) -> Option<PathBuf> {
        if let Some(home) = self.parked.get(path).and_then(|parked| parked.home.clone()) {
            return Some(home);
        }
        let is_since = |(_, identity): &(PathBuf, u64)| {
            let seen = self.state_of(*identity).map(|state| state.seen.unix_seconds());
            seen.is_some_and(|seen| facts.modified.0 >= seen - CLOCKS_APART)
        };
        self.homes_of(path).into_iter().find(is_since).map(|(home, _)| home)
    }

    /// The source beside a file that it may be a copy of.
    pub(super) fn kin_of(
        &mut self,
        path: &Path,
        content: &mut Content,
        facts: &Facts,
        head: &[u8],
    ) -> io::Result<Option<(u64, Kinship)>> {
        let head = mark_at(head.len() as u64, head);
        let name = path.file_name().unwrap_or_default();
        for identity in self.known.of_head(head.hash) {
            let Some(state) = self.state_of(identity) else { continue };
            let old = state.path.file_name().unwrap_or_default();
            let (is_made, is_next) = (is_made_from(old, name), is_next_of(old, name));
            if state.path.parent() != path.parent() || !is_made && !is_next {
                continue;
            }
            let state = state.clone();
            let likeness = compare(content, &state)?;
            if !matches!(likeness, Likeness::Same | Likeness::Shorter) {
                continue;
            }
            let stands = self.stands(&state);
            if stands && !is_made {
                continue;
            }
            let size = (!content.is_compressed()).then_some(facts.size);
            if (stands || likeness == Likeness::Shorter) && !self.is_beginning_of(content, size, &state)? {
                continue;
            }
            match kinship(likeness, stands, size) {
                Kinship::Stranger => {}
                kinship => return Ok(Some((identity, kinship))),
            }
        }
        Ok(None)
    }

    /// Whether a source's own file is where it was, with all that was read from it.
    fn stands(&mut self, state: &SourceState) -> bool {
        let path = match self.files.place(state.identity) {
            // It is read through the descriptor, which has everything.
            Some((_, Hold::Descriptor)) => return true,
            Some((path, Hold::Path)) => path.to_path_buf(),
            None => state.path.clone(),
        };
        let Ok((mut content, facts)) = Content::open(&path) else { return false };
        (facts.device, facts.inode) == (state.device, state.inode)
            && matches!(compare(&mut content, state), Ok(Likeness::Same))
    }

    /// Whether a file is the beginning of a source's file, or all of it, by its first and last bytes. Where that is gone
    /// or either is compressed, marks are all there is to go by.
    fn is_beginning_of(&self, content: &mut Content, size: Option<u64>, state: &SourceState) -> io::Result<bool> {
        const COMPARED: usize = 64 << 10;
        let path = self.files.place(state.identity).map_or(state.path.as_path(), |(path, _)| path);
        let (Some(size), Ok((mut original, facts))) = (size, Content::open(path)) else { return Ok(true) };
        if (facts.device, facts.inode) != (state.device, state.inode) || original.is_compressed() {
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
        kinship: Kinship,
        block: usize,
        path: PathBuf,
        content: Content,
        facts: Facts,
    ) {
        match kinship {
            Kinship::Continues if self.files.file(identity).is_some() => {
                // It does not know yet that its file has gone.
                if let Some(file) = self.files.file_mut(identity) {
                    file.has_more = false;
                }
                self.park(path, block, facts, Why::Unfinished, None);
                self.look(identity);
            }
            Kinship::Continues => {
                if let Some(state) = self.known.source(identity) {
                    self.follow(SourceState::clone(state), block, path, content, facts);
                }
            }
            Kinship::Copy => self.park(path, block, facts, Why::Copy, None),
            Kinship::Unfinished | Kinship::Stranger => self.park(path, block, facts, Why::Unfinished, None),
        }
    }
}
