//! Idle readers of the data folder.
//!
//! A reader keeps its connections and SQLite's cache, so the second query of a day is fast. A few readers stay open; the
//! rest close after a burst of queries, and all close after a drop.

use daytable_intake::push::DocumentLookup;
use daytable_model::key::{DayTable, RowKey};
use daytable_platform::budget::MemoryBudget;
use daytable_platform::lock;
use daytable_store::{IdempotencyKey, Reader, StoreError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// Idle readers of the data folder.
pub(super) struct ReaderPool {
    data_dir: PathBuf,
    /// The memory of all questions.
    questions: MemoryBudget,
    idle: Mutex<IdleReaders>,
    idle_max: usize,
}

#[derive(Default)]
struct IdleReaders {
    readers: Vec<Reader>,
    /// Rises with each [`ReaderPool::clear`], so that a reader in use then does not return to the pool.
    generation: u64,
}

impl ReaderPool {
    /// An empty pool for the data folder at `data_dir`, which keeps at most `idle_max` readers for `questions`.
    pub(super) fn new(data_dir: PathBuf, questions: MemoryBudget, idle_max: usize) -> Arc<ReaderPool> {
        Arc::new(ReaderPool { data_dir, questions, idle: Mutex::default(), idle_max })
    }

    /// Closes every reader: an open reader of a dropped day keeps the disk space of its files.
    pub(super) fn clear(&self) {
        let mut idle = lock(&self.idle);
        idle.readers.clear();
        idle.generation += 1;
    }

    /// Calls `read` with a reader.
    pub(super) fn with<T, E: From<StoreError>>(&self, read: impl FnOnce(&Reader) -> Result<T, E>) -> Result<T, E> {
        let (reader, generation) = {
            let mut idle = lock(&self.idle);
            (idle.readers.pop(), idle.generation)
        };
        let reader = match reader {
            Some(reader) => reader,
            None => Reader::open(&self.data_dir)?.with_memory(self.questions.clone()),
        };
        let result = read(&reader);
        let mut idle = lock(&self.idle);
        if idle.generation == generation && idle.readers.len() < self.idle_max {
            idle.readers.push(reader);
        }
        result
    }
}

impl DocumentLookup for ReaderPool {
    fn exist(&self, rows: &[(DayTable, Arc<str>, RowKey)]) -> Result<Vec<bool>, StoreError> {
        self.with(|reader| {
            let exists =
                |(table, partition, key): &(DayTable, Arc<str>, RowKey)| match reader.row(table, partition, *key) {
                    Ok(row) => Ok(row.is_some()),
                    Err(StoreError::TableGone(_)) => Ok(false),
                    Err(error) => Err(error),
                };
            rows.iter().map(exists).collect()
        })
    }

    fn is_committed(&self, key: &IdempotencyKey) -> Result<bool, StoreError> {
        self.with(|reader| reader.catalog().knows(key))
    }
}
