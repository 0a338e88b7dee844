//! All sources that are known: followed now, from earlier runs, and ended ones.
//!
//! They are kept so that a file which comes back under any name is not read twice.

use super::file_content::FileStat;
use super::identity::{first_time, identity_of, mark_at, start_of};
use super::options::TailOptions;
use daytable_model::source_id::{HostId, SourceId};
use daytable_model::time::Ticks;
use daytable_store::{SourceKind, SourceState};
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Every source, by identity, file, first line and path. The position of a followed source is that of its last
/// submission.
///
/// There may be tens of thousands. So states are shared with their other owners, and an index needs a few words per
/// source.
#[derive(Default)]
pub(super) struct SourceIndex {
    sources: HashMap<SourceId, Arc<SourceState>>,
    by_file: BTreeSet<(u64, u64, SourceId)>,
    by_head: BTreeSet<(u64, SourceId)>,
    /// By the hash of the path; a lookup compares the path itself.
    by_path: BTreeSet<(u64, SourceId)>,
    hasher: RandomState,
    /// The host of new sources.
    host: HostId,
}

/// The inode of a source without a file. No file has it.
pub(super) const NO_INODE: u64 = 0;

impl SourceIndex {
    /// The sources that are committed. New sources are of `host`.
    pub(super) fn new(sources: impl IntoIterator<Item = Arc<SourceState>>, host: HostId) -> SourceIndex {
        let mut known = SourceIndex { host, ..SourceIndex::default() };
        sources.into_iter().for_each(|state| known.put(state));
        known
    }

    /// The host of new sources.
    pub(super) fn host(&self) -> HostId {
        self.host
    }

    /// Adds a source, or replaces its state.
    pub(super) fn put(&mut self, state: impl Into<Arc<SourceState>>) {
        let state = state.into();
        let identity = state.identity;
        let is_found_alike = |old: &SourceState| {
            (old.device, old.inode, old.head.hash, &old.path)
                == (state.device, state.inode, state.head.hash, &state.path)
        };
        match self.sources.insert(identity, state.clone()) {
            Some(old) if is_found_alike(&old) => return,
            Some(old) => {
                let path = self.hasher.hash_one(&old.path);
                self.by_file.remove(&(old.device, old.inode, identity));
                self.by_head.remove(&(old.head.hash, identity));
                self.by_path.remove(&(path, identity));
            }
            None => {}
        }
        self.by_file.insert((state.device, state.inode, identity));
        self.by_head.insert((state.head.hash, identity));
        self.by_path.insert((self.hasher.hash_one(&state.path), identity));
    }

    /// A source by its identity.
    pub(super) fn source(&self, identity: SourceId) -> Option<&Arc<SourceState>> {
        self.sources.get(&identity)
    }

    /// Every source.
    pub(super) fn sources(&self) -> impl Iterator<Item = &Arc<SourceState>> {
        self.sources.values()
    }

    /// The sources whose file had this device and inode.
    pub(super) fn of_file(&self, device: u64, inode: u64) -> Vec<SourceId> {
        let found = self.by_file.range((device, inode, SourceId::FIRST)..=(device, inode, SourceId::LAST));
        found.map(|(.., identity)| *identity).collect()
    }

    /// The sources whose first line has this hash.
    pub(super) fn of_head(&self, hash: u64) -> Vec<SourceId> {
        self.by_head.range((hash, SourceId::FIRST)..=(hash, SourceId::LAST)).map(|(_, identity)| *identity).collect()
    }

    /// The sources whose first path was this.
    pub(super) fn of_path(&self, path: &Path) -> Vec<SourceId> {
        let hash = self.hasher.hash_one(path);
        let found = self.by_path.range((hash, SourceId::FIRST)..=(hash, SourceId::LAST)).map(|(_, identity)| *identity);
        found.filter(|identity| self.source(*identity).is_some_and(|state| state.path == path)).collect()
    }

    /// A new source of a file whose first path is `path`, from its beginning. `options` are those of its block.
    pub(super) fn begin(
        &self,
        kind: SourceKind,
        options: &TailOptions,
        path: PathBuf,
        stat: &FileStat,
        head: &[u8],
    ) -> SourceState {
        let (generation, identity) = self.next_identity(stat, head, first_time(head, &options.reading));
        SourceState {
            device: stat.device,
            inode: stat.inode,
            generation,
            head: mark_at(head.len() as u64, head),
            ..SourceState::new(identity, kind, options.name.clone(), path)
        }
    }

    /// The generation and identity of a new source: the first that no known source has.
    fn next_identity(&self, stat: &FileStat, head: &[u8], first: Option<Ticks>) -> (u32, SourceId) {
        let start = start_of(stat.born, first);
        let identity = |generation| {
            let name = identity_of(stat.device, stat.inode, generation, head);
            SourceId::new(start, self.host, name)
        };
        let is_free = |generation: &u32| !self.sources.contains_key(&identity(*generation));
        let generation = (0..=u32::MAX).find(is_free).unwrap_or_default();
        (generation, identity(generation))
    }
}
