//! The sources that are known but not followed now: those of earlier runs, and those that have ended.
//!
//! They are kept so that a file which turns up again, under whatever name, is not read twice.

use super::identity::identity_of;
use crate::store::SourceState;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Every source that is known, by identity, by its file, its first line and its path. Of those that are followed, the position
/// and what follows from it may be old here.
#[derive(Default)]
pub(super) struct Known {
    sources: HashMap<u64, SourceState>,
    by_file: HashMap<(u64, u64), Vec<u64>>,
    by_head: HashMap<u64, Vec<u64>>,
    by_path: HashMap<PathBuf, Vec<u64>>,
}

/// The inode of a source whose file was truncated or removed: no file has it.
pub(super) const NO_INODE: u64 = 0;

impl Known {
    /// What is committed.
    pub(super) fn new(sources: Vec<SourceState>) -> Known {
        let mut known = Known::default();
        sources.into_iter().for_each(|state| known.put(state));
        known
    }

    /// Adds a source, or replaces what was known of it.
    pub(super) fn put(&mut self, state: SourceState) {
        if let Some(old) = self.sources.remove(&state.identity) {
            let forget = |index: Option<&mut Vec<u64>>| {
                if let Some(identities) = index {
                    identities.retain(|identity| *identity != state.identity);
                }
            };
            forget(self.by_file.get_mut(&(old.device, old.inode)));
            forget(self.by_head.get_mut(&old.head.hash));
            forget(self.by_path.get_mut(&old.path));
        }
        self.by_file.entry((state.device, state.inode)).or_default().push(state.identity);
        self.by_head.entry(state.head.hash).or_default().push(state.identity);
        self.by_path.entry(state.path.clone()).or_default().push(state.identity);
        self.sources.insert(state.identity, state);
    }

    /// A source by its identity.
    pub(super) fn source(&self, identity: u64) -> Option<&SourceState> {
        self.sources.get(&identity)
    }

    /// Every source.
    pub(super) fn sources(&self) -> impl Iterator<Item = &SourceState> {
        self.sources.values()
    }

    /// The sources whose file had this device and inode.
    pub(super) fn of_file(&self, device: u64, inode: u64) -> Vec<u64> {
        self.by_file.get(&(device, inode)).cloned().unwrap_or_default()
    }

    /// The sources that begin with a line of this hash.
    pub(super) fn of_head(&self, hash: u64) -> Vec<u64> {
        self.by_head.get(&hash).cloned().unwrap_or_default()
    }

    /// The sources that were at this path first.
    pub(super) fn of_path(&self, path: &Path) -> Vec<u64> {
        self.by_path.get(path).cloned().unwrap_or_default()
    }

    /// The generation and identity of a new source: the first that no known one has.
    pub(super) fn next_identity(&self, device: u64, inode: u64, head: &[u8]) -> (u32, u64) {
        let identities = (0..=u32::MAX).map(|generation| (generation, identity_of(device, inode, generation, head)));
        let mut free = identities.filter(|(_, identity)| !self.sources.contains_key(identity));
        free.next().unwrap_or_default()
    }
}
