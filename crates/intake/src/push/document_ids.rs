//! The ids of documents that are being written. At most one request writes a document at a time, and `create` writes no
//! document that exists.
//!
//! ```text
//! parse ─► reserve all ids of the request ─► look up existing rows ─► commit ─► release the ids ─► answer
//! ```
//!
//! A request reserves all its ids at once, so no two requests wait for each other. If another request has reserved an id, the
//! request waits until that one is committed or refused, for a bounded time. Readers see a commit before its ids are
//! released, so the next request with an id sees the row. A document exists if a row has the same key: the same index, `_id`
//! and time.

use super::Refusal;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::source_id::SourceId;
use daytable_platform::lock;
use daytable_store::{IdempotencyKey, StoreError};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Identity and position in the row key of a document with an `_id`.
pub(super) type DocumentId = (SourceId, u64);

/// Questions to the store about committed documents.
pub trait DocumentLookup: Send + Sync {
    /// Whether each of these rows exists.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    fn exist(&self, rows: &[(DayTable, Arc<str>, RowKey)]) -> Result<Vec<bool>, StoreError>;

    /// Whether a request with this idempotency key is committed.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    fn is_committed(&self, once: &IdempotencyKey) -> Result<bool, StoreError>;
}

/// The ids that requests have reserved.
#[derive(Clone, Default)]
pub(super) struct DocumentIds {
    shared: Arc<(Mutex<HashSet<DocumentId>>, Condvar)>,
}

/// The ids of one request. Dropping this releases them.
#[derive(Default)]
pub(super) struct IdReservation {
    ids: DocumentIds,
    own: HashSet<DocumentId>,
}

impl Drop for IdReservation {
    fn drop(&mut self) {
        if !self.own.is_empty() {
            let (reserved, released) = &*self.ids.shared;
            lock(reserved).retain(|id| !self.own.contains(id));
            released.notify_all();
        }
    }
}

impl DocumentIds {
    /// Reserves all ids, or no id.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] if another request keeps one of the ids for longer than `patience`.
    pub(super) fn reserve(&self, own: HashSet<DocumentId>, patience: Duration) -> Result<IdReservation, Refusal> {
        let (reserved, released) = &*self.shared;
        let is_taken = |reserved: &mut HashSet<DocumentId>| own.iter().any(|id| reserved.contains(id));
        let waited = released.wait_timeout_while(lock(reserved), patience, is_taken);
        let (mut reserved, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return Err(Refusal::Busy("documents of these ids are being written by another request"));
        }
        reserved.extend(&own);
        drop(reserved);
        Ok(IdReservation { ids: self.clone(), own })
    }
}

/// Removes the documents of `creates` that exist in the store from `batches`, and returns their ids.
pub(super) fn remove_existing<T>(
    batches: &mut Vec<Batch>,
    creates: &HashMap<DocumentId, T>,
    store: &dyn DocumentLookup,
) -> Result<HashSet<DocumentId>, StoreError> {
    let mut rows = Vec::new();
    for batch in &*batches {
        let keys = batch.rows().map(|row| row.key).enumerate();
        let created = keys.filter(|(_, key)| key.item() == 0 && creates.contains_key(&id_of(key)));
        rows.extend(created.map(|(row, key)| (batch.table.clone(), batch.partition_of(row).clone(), key)));
    }
    let exist = store.exist(&rows)?;
    let existing: HashSet<DocumentId> =
        rows.iter().zip(exist).filter(|(_, exists)| *exists).map(|((_, _, key), _)| id_of(key)).collect();
    if !existing.is_empty() {
        let kept = std::mem::take(batches).into_iter().map(|batch| batch.without(|key| existing.contains(&id_of(key))));
        *batches = kept.filter(|batch| !batch.is_empty()).collect();
    }
    Ok(existing)
}

fn id_of(key: &RowKey) -> DocumentId {
    (key.source(), key.position())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_at_a_time_has_an_id_and_reserves_all_of_its_ids_or_no_id() {
        let ids = DocumentIds::default();
        let set = |ids: &[u64]| ids.iter().map(|id| (SourceId::from(*id), 0)).collect::<HashSet<DocumentId>>();
        let first = ids.reserve(set(&[1, 2]), Duration::ZERO).unwrap_or_else(|_| panic!("free"));
        assert!(matches!(ids.reserve(set(&[2, 3]), Duration::ZERO), Err(Refusal::Busy(_))));
        // The failed reservation left the other id free.
        drop(ids.reserve(set(&[3]), Duration::ZERO).unwrap_or_else(|_| panic!("free")));
        let waiting = std::thread::spawn({
            let ids = ids.clone();
            move || ids.reserve(set(&[2]), Duration::from_secs(60)).is_ok()
        });
        drop(first);
        assert!(waiting.join().expect("no panic"));
        assert!(lock(&ids.shared.0).is_empty());
    }
}
