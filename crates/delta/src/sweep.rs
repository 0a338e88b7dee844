//! Data files below a table that the table no longer needs.

use crate::snapshot::TableSnapshot;
use crate::uri;

/// The ending of data files. Other objects beside them are never swept.
const DATA_SUFFIX: &str = ".parquet";

/// An object that a listing of the table's folder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its path below the table, not encoded.
    pub path: String,
    /// When it was written, in milliseconds since 1970.
    pub modified: i64,
}

/// Why an object may be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepReason {
    /// It was removed from the table at this time, in milliseconds since 1970.
    Removed(i64),
    /// The table does not know it: its commit never came, or it was removed so long ago that this is forgotten.
    Unknown,
}

/// An object that may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweepable {
    /// Its path below the table, not encoded.
    pub path: String,
    /// Why.
    pub reason: SweepReason,
}

/// The data files among `listed` that are in no version of the table that a reader may still hold: all that are not in the
/// table, were written more than `grace` ago, and were not removed since then. `now` and `grace` are in milliseconds.
///
/// List first, take the snapshot afterwards: a file that is committed in between is in the snapshot then. A writer has to
/// commit its file before `grace` is over, or write the file anew. Without a table, nothing is swept.
pub fn sweepable<'a>(
    snapshot: &TableSnapshot,
    listed: impl IntoIterator<Item = &'a ListedObject>,
    now: i64,
    grace: i64,
) -> Vec<Sweepable> {
    if snapshot.version().is_none() {
        return Vec::new();
    }
    let before = now.saturating_sub(grace.max(0));
    // Another writer may have named files from their store's root on.
    let absolute: Vec<&str> = snapshot.files.keys().filter(|path| uri::is_absolute(path)).map(|path| &**path).collect();
    let is_hidden = |path: &str| path.split('/').any(|part| part.starts_with(['_', '.']));
    let is_used = |path: &str| {
        snapshot.files.contains_key(path) || absolute.iter().any(|used| used.ends_with(&format!("/{path}")))
    };
    let old = listed.into_iter().filter(|object| object.modified < before);
    let data = old.filter(|object| object.path.ends_with(DATA_SUFFIX) && !is_hidden(&object.path));
    data.filter(|object| !is_used(&object.path))
        .filter_map(|object| {
            let reason = match snapshot.removal(&object.path) {
                Some(removed) if removed.deletion_time < before => SweepReason::Removed(removed.deletion_time),
                Some(_) => return None,
                None => SweepReason::Unknown,
            };
            Some(Sweepable { path: object.path.clone(), reason })
        })
        .collect()
}
