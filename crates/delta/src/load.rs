//! From the newest checkpoint and the commits after it to a snapshot.
//!
//! `_last_checkpoint` only says where the listing may begin. What counts is the listing: the newest version in it is the
//! table, and each version between the checkpoint and that one must be there.

use crate::checkpoint;
use crate::error::DeltaError;
use crate::line;
use crate::log::DeltaLog;
use crate::log_name::{LAST_CHECKPOINT, LAST_CHECKPOINT_BYTES_MAX, LastCheckpoint, LogName};
use crate::snapshot::{ObjectMark, TableSnapshot};
use bytes::Bytes;
use object_store::path::Path;
use std::collections::{BTreeMap, BTreeSet};
use tokio::task::JoinSet;

/// Commits that are fetched at a time.
const FETCHED_MAX: usize = 8;
/// How often the log is listed anew because objects went while it was read.
const LISTINGS_MAX: usize = 3;

/// Versions in the log.
#[derive(Default)]
struct Listing {
    commits: BTreeSet<u64>,
    /// Whole checkpoints: the objects of each.
    checkpoints: BTreeMap<u64, Vec<LogName>>,
    /// Which object the commit of a version is, or a part of its checkpoint where there is no commit.
    marks: BTreeMap<u64, ObjectMark>,
}

impl Listing {
    fn new(names: Vec<(LogName, ObjectMark)>) -> Listing {
        let mut listing = Listing::default();
        let mut parts: BTreeMap<(u64, u32), BTreeSet<u32>> = BTreeMap::new();
        for (name, mark) in names {
            match name {
                LogName::Commit(version) => {
                    listing.commits.insert(version);
                    listing.marks.insert(version, mark);
                }
                LogName::Checkpoint(version) => {
                    listing.checkpoints.insert(version, vec![name]);
                    listing.marks.entry(version).or_insert(mark);
                }
                LogName::CheckpointPart { version, part, parts: count } => {
                    parts.entry((version, count)).or_default().insert(part);
                }
            }
        }
        for ((version, parts), found) in parts {
            if found.len() == parts as usize {
                let names = found.into_iter().map(|part| LogName::CheckpointPart { version, part, parts });
                listing.checkpoints.entry(version).or_insert_with(|| names.collect());
            }
        }
        listing
    }

    /// The newest version.
    fn head(&self) -> Option<u64> {
        self.commits.last().copied().max(self.checkpoints.last_key_value().map(|(version, _)| *version))
    }

    /// The first version from `first` to `last` that has no commit.
    fn gap(&self, first: u64, last: u64) -> Option<u64> {
        (first..=last).find(|version| !self.commits.contains(version))
    }
}

/// Whether an object was listed, and is gone.
enum Load<T> {
    Done(T),
    Vanished(Path),
}

impl DeltaLog {
    /// The table as it is at `now`, in milliseconds since 1970. With `known`, only what came later is read, if the table is the same.
    pub async fn snapshot(&self, now: i64, known: Option<&TableSnapshot>) -> Result<TableSnapshot, DeltaError> {
        let mut vanished = None;
        for _ in 0..LISTINGS_MAX {
            let loaded = match known.and_then(|known| Some((known, known.version?))) {
                Some((known, version)) if vanished.is_none() => self.catch_up(now, known, version).await?,
                _ => self.load(now).await?,
            };
            match loaded {
                Load::Done(mut snapshot) => {
                    snapshot.forget_removed(self.state_limits(now));
                    return Ok(snapshot);
                }
                Load::Vanished(object) => vanished = Some(object),
            }
        }
        let object = vanished.map(|object| object.to_string()).unwrap_or_default();
        Err(DeltaError::Missing { object })
    }

    /// Reads what came after `version`. If that is not all there, or `version` is not what it was, the table is read anew: a
    /// checkpoint of a later version has replaced these commits, or the table was made anew and has as many versions again.
    async fn catch_up(&self, now: i64, known: &TableSnapshot, version: u64) -> Result<Load<TableSnapshot>, DeltaError> {
        let listing = Listing::new(self.names_from(version).await?);
        let is_known = match (&known.head, listing.marks.get(&version)) {
            (Some(known), Some(listed)) => known.is_same(listed),
            _ => false,
        };
        match listing.head() {
            Some(head) if is_known && listing.gap(version + 1, head).is_none() => {
                self.replay(now, known.clone(), (version + 1, head), &listing).await
            }
            _ => self.load(now).await,
        }
    }

    async fn load(&self, now: i64) -> Result<Load<TableSnapshot>, DeltaError> {
        let hint = self.read(&self.path(LAST_CHECKPOINT), LAST_CHECKPOINT_BYTES_MAX).await.ok().flatten();
        let hint = hint.and_then(|hint| serde_json::from_slice::<LastCheckpoint>(&hint).ok());
        if let Some(LastCheckpoint { version }) = hint {
            let listing = Listing::new(self.names_from(version).await?);
            if let Some((checkpoint, names)) = listing.checkpoints.last_key_value()
                && let Ok(loaded @ Load::Done(_)) = self.load_from(now, &listing, Some((*checkpoint, names))).await
            {
                return Ok(loaded);
            }
        }
        let listing = Listing::new(self.names_from(0).await?);
        let mut failed = None;
        for (version, names) in listing.checkpoints.iter().rev() {
            match self.load_from(now, &listing, Some((*version, names))).await {
                Err(error @ (DeltaError::Damaged { .. } | DeltaError::Missing { .. })) => {
                    failed.get_or_insert(error);
                }
                loaded => return loaded,
            }
        }
        match (self.load_from(now, &listing, None).await, failed) {
            // Without the damaged checkpoint, the first commits would be needed.
            (Err(DeltaError::Missing { .. }), Some(error)) => Err(error),
            (loaded, _) => loaded,
        }
    }

    /// A snapshot from a checkpoint, or from the first commit on.
    async fn load_from(
        &self,
        now: i64,
        listing: &Listing,
        checkpoint: Option<(u64, &Vec<LogName>)>,
    ) -> Result<Load<TableSnapshot>, DeltaError> {
        let Some(head) = listing.head() else { return Ok(Load::Done(TableSnapshot::default())) };
        let first = checkpoint.map_or(0, |(version, _)| version + 1);
        if let Some(missing) = listing.gap(first, head) {
            return Err(DeltaError::Missing { object: self.commit_path(missing).to_string() });
        }
        let mut snapshot = TableSnapshot::default();
        if let Some((version, names)) = checkpoint {
            let mut actions = Vec::new();
            let mut object = Path::default();
            for name in names {
                object = self.path(&name.text());
                let Some(bytes) = self.read(&object, self.options.checkpoint_bytes_max).await? else {
                    return Ok(Load::Vanished(object));
                };
                actions.extend(checkpoint::read(bytes, &object, &self.options).await?);
            }
            snapshot.apply(version, actions, self.state_limits(now), object.as_ref())?;
        }
        self.replay(now, snapshot, (first, head), listing).await
    }

    /// Applies the commits from `first` to `last`.
    async fn replay(
        &self,
        now: i64,
        mut snapshot: TableSnapshot,
        (first, last): (u64, u64),
        listing: &Listing,
    ) -> Result<Load<TableSnapshot>, DeltaError> {
        let mut next = first;
        while next <= last {
            let until = last.min(next + FETCHED_MAX as u64 - 1);
            let mut fetches = JoinSet::new();
            for version in next..=until {
                let log = self.clone();
                fetches.spawn(async move {
                    let object = log.commit_path(version);
                    (version, log.read(&object, log.options.commit_bytes_max).await)
                });
            }
            let mut bodies: BTreeMap<u64, Bytes> = BTreeMap::new();
            while let Some(fetched) = fetches.join_next().await {
                let (version, body) = fetched.map_err(|error| DeltaError::store(self.path(""), error.into()))?;
                match body? {
                    Some(body) => drop(bodies.insert(version, body)),
                    None => return Ok(Load::Vanished(self.commit_path(version))),
                }
            }
            for (version, body) in bodies {
                let object = self.commit_path(version);
                let actions = line::parse(&body).map_err(|fault| fault.in_object(&object))?;
                snapshot.apply(version, actions, self.state_limits(now), object.as_ref())?;
            }
            next = until + 1;
        }
        snapshot.head = snapshot.version.and_then(|version| listing.marks.get(&version).cloned());
        Ok(Load::Done(snapshot))
    }
}
