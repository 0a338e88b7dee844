//! Documents that are to be created: at most one request writes a document of an `_id` at a time, and `create` writes none that
//! stands already.
//!
//! ```text
//! take apart ─► reserve all ids of the request ─► look which rows stand ─► commit ─► answer, ids are free
//! ```
//!
//! Ids are reserved all at once, so no two requests wait for each other; whoever finds one reserved waits until its request
//! is committed or refused, for a bounded time. A commit is to be seen by readers before its answer, so whoever reserves an id
//! next sees the row. What is looked for is a row of the same key: of the same index, `_id` and time.

use super::Refusal;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey};
use daytable_store::{Once, StoreError};
use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Identity and position of a row that has a name of its own.
pub(super) type Id = (u64, u64);

/// What stands in the store.
pub trait Stored: Send + Sync {
    /// Of each of these rows, whether it stands.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    fn has(&self, rows: &[(DayTable, Arc<str>, RowKey)]) -> Result<Vec<bool>, StoreError>;

    /// Whether a request with this idempotency key was committed.
    ///
    /// # Errors
    ///
    /// Where the store cannot be read.
    fn knows(&self, once: &Once) -> Result<bool, StoreError>;
}

/// The ids of requests that are on their way.
#[derive(Clone, Default)]
pub(super) struct Ids {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    reserved: Mutex<HashSet<Id>>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, HashSet<Id>> {
        daytable_platform::lock(&self.reserved)
    }
}

/// The ids of one request, free again when it is dropped.
#[derive(Default)]
pub(super) struct Reserved {
    of: Option<(Ids, HashSet<Id>)>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some((ids, own)) = self.of.take() {
            let mut reserved = ids.inner.lock();
            reserved.retain(|id| !own.contains(id));
            drop(reserved);
            ids.inner.changed.notify_all();
        }
    }
}

impl Ids {
    /// Reserves all of them, or none.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] where one of them stays reserved for so long.
    pub(super) fn reserve(&self, own: HashSet<Id>, patience: Duration) -> Result<Reserved, Refusal> {
        if own.is_empty() {
            return Ok(Reserved::default());
        }
        let deadline = Instant::now() + patience;
        let mut reserved = self.inner.lock();
        while own.iter().any(|id| reserved.contains(id)) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Refusal::Busy("documents of these ids are being written by another request"));
            }
            reserved = self.inner.changed.wait_timeout(reserved, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        reserved.extend(&own);
        drop(reserved);
        Ok(Reserved { of: Some((self.clone(), own)) })
    }
}

/// Takes those of `creates` out of `batches` that stand in the store, and says which these are.
pub(super) fn without_standing(
    batches: &mut Vec<Batch>,
    creates: &HashSet<Id>,
    stored: &dyn Stored,
) -> Result<HashSet<Id>, StoreError> {
    let mut rows = Vec::new();
    for batch in &*batches {
        let keys = batch.rows().map(|row| row.key).filter(|key| key.item() == 0 && creates.contains(&id_of(key)));
        rows.extend(keys.map(|key| (batch.table.clone(), batch.partition.clone(), key)));
    }
    let stand = stored.has(&rows)?;
    let standing: HashSet<Id> =
        rows.iter().zip(stand).filter(|(_, stands)| *stands).map(|((_, _, key), _)| id_of(key)).collect();
    if !standing.is_empty() {
        let kept = std::mem::take(batches).into_iter().map(|batch| batch.without(|key| standing.contains(&id_of(key))));
        *batches = kept.filter(|batch| !batch.is_empty()).collect();
    }
    Ok(standing)
}

fn id_of(key: &RowKey) -> Id {
    (key.source(), key.position())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_request_s_at_a_time_and_all_are_reserved_or_none() {
        let ids = Ids::default();
        let set = |ids: &[u64]| ids.iter().map(|id| (*id, 0)).collect::<HashSet<Id>>();
        let first = ids.reserve(set(&[1, 2]), Duration::ZERO).unwrap_or_else(|_| panic!("free"));
        assert!(matches!(ids.reserve(set(&[2, 3]), Duration::ZERO), Err(Refusal::Busy(_))));
        // The other one of them was not taken on the way.
        drop(ids.reserve(set(&[3]), Duration::ZERO).unwrap_or_else(|_| panic!("free")));
        let waiting = std::thread::spawn({
            let ids = ids.clone();
            move || ids.reserve(set(&[2]), Duration::from_secs(60)).is_ok()
        });
        drop(first);
        assert!(waiting.join().expect("no panic"));
        assert!(ids.inner.lock().is_empty());
    }
}
