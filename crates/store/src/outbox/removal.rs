//! Removes sent pages from their file: pages of one partition by id, commit and checksum, rows of a partition out of a
//! shared page.

use crate::StoreError;
use crate::format::day_file::{self, DayFile};
use crate::format::page::TableAddress;
use crate::format::page_headers;
use crate::format::page_rows::{PageLocation, PageRow, delete_body};
use crate::format::shared_pages::{self, SHARED};
use daytable_model::key::DayTable;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// A page, as its sender knew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SentPage {
    /// A page of one partition.
    Page {
        /// Its number in the file.
        id: i64,
        /// Its commit.
        seq: i64,
        /// The checksum of header and body.
        checksum: u64,
    },
    /// The rows of a partition in a shared page.
    Part {
        /// The number of the page in the file.
        page: i64,
        /// Its commit.
        seq: i64,
        /// The partition's number in the file.
        partition: i64,
    },
}

impl SentPage {
    pub(super) fn of(page: &PageRow) -> SentPage {
        match page.place {
            PageLocation::Row(id) => SentPage::Page { id, seq: page.seq, checksum: page.header.checksum },
            PageLocation::Part { page: id, .. } => {
                SentPage::Part { page: id, seq: page.seq, partition: page.partition }
            }
        }
    }
}

/// Pages to remove from one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRemoval {
    /// The day-table.
    pub day: DayTable,
    /// The name of its file below `tables/`.
    pub file: String,
    /// The pages.
    pub pages: Vec<SentPage>,
}

/// How much of a file waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// Used bytes of the file; zero if it has no rows.
    pub(crate) bytes: u64,
    pub(crate) entities: u64,
    /// The oldest commit with rows in the file.
    pub(crate) oldest: Option<i64>,
}

/// The removed pages, for compaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovedPages {
    pub(crate) entities: u64,
    /// Rows of `page`, by id.
    pub(crate) pages: HashSet<i64>,
    /// Shared pages by id, with their remaining raw bytes; none if the page was deleted.
    pub(crate) shared: Vec<(i64, Option<u64>)>,
}

/// How much of a file waits. Reads only a few of its pages.
pub(crate) fn waiting(connection: &Connection) -> rusqlite::Result<Backlog> {
    let entities: i64 = connection.query_row("SELECT entities - merged FROM total", [], |row| row.get(0))?;
    if entities <= 0 {
        return Ok(Backlog::default());
    }
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let bytes = (number("page_count")? - number("freelist_count")?) * number("page_size")?;
    let oldest = connection.query_row("SELECT min(seq) FROM page", [], |row| row.get(0))?;
    Ok(Backlog { bytes: bytes.cast_unsigned(), entities: entities.cast_unsigned(), oldest })
}

impl DayFile {
    /// Indexes pages by partition and commit, and by commit.
    pub(crate) fn index_unsent(&self) -> Result<(), StoreError> {
        let indexes = "CREATE INDEX IF NOT EXISTS page_unsent_of_partition ON page(partition, seq);
                       CREATE INDEX IF NOT EXISTS page_unsent ON page(seq);";
        self.connection().execute_batch(indexes).map_err(StoreError::sqlite(self.path()))
    }

    /// Removes pages that were sent, in one transaction that is not synced.
    pub(crate) fn remove_sent(&mut self, sent: &[SentPage]) -> Result<RemovedPages, StoreError> {
        let (path, table_address) = (self.path().to_owned(), self.table_address());
        self.unsynced(|connection| remove(connection, sent, &path, table_address))
    }

    /// Removes the oldest pages with all their rows, at most `limit`. None is read: a damaged one goes like any other.
    pub(crate) fn remove_oldest(&mut self, limit: usize) -> Result<RemovedPages, StoreError> {
        let path = self.path().to_owned();
        self.unsynced(|connection| remove_oldest(connection, limit).map_err(StoreError::sqlite(path)))
    }

    /// Runs a transaction that is not synced.
    fn unsynced<T>(&mut self, run: impl FnOnce(&mut Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let path = self.path().to_owned();
        let connection = self.connection_mut();
        let synchronous = |connection: &Connection, how: &str| {
            connection.pragma_update(None, "synchronous", how).map_err(StoreError::sqlite(&path))
        };
        synchronous(connection, "NORMAL")?;
        let done = run(connection);
        synchronous(connection, "FULL")?;
        done
    }
}

fn remove_oldest(connection: &mut Connection, limit: usize) -> rusqlite::Result<RemovedPages> {
    let transaction = connection.transaction()?;
    let select = "SELECT id, partition FROM page ORDER BY seq, id LIMIT ?1";
    let mut statement = transaction.prepare_cached(select)?;
    let oldest =
        statement.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let oldest: Vec<(i64, i64)> = oldest.collect::<rusqlite::Result<_>>()?;
    drop(statement);
    let mut removed = RemovedPages::default();
    for (id, partition) in oldest {
        removed.entities += shared_pages::delete(&transaction, id)?.unwrap_or(0);
        match partition {
            SHARED => removed.shared.push((id, None)),
            _ => drop(removed.pages.insert(id)),
        }
    }
    finish(transaction, removed)
}

/// Notes what was removed beside the pages and in the total, and commits.
fn finish(transaction: Transaction<'_>, removed: RemovedPages) -> rusqlite::Result<RemovedPages> {
    let deleted = removed.shared.iter().filter(|(_, left)| left.is_none()).map(|(id, _)| *id);
    day_file::forget(&transaction, removed.pages.iter().copied().chain(deleted))?;
    // Pages that were written again have other headers than their group.
    let mut rewritten = removed.shared.iter().filter(|(_, left)| left.is_some());
    rewritten.try_for_each(|(id, _)| page_headers::remove_group_of(&transaction, *id))?;
    let merged = i64::try_from(removed.entities).unwrap_or(i64::MAX);
    transaction.prepare_cached("UPDATE total SET merged = merged + ?1")?.execute([merged])?;
    transaction.commit()?;
    Ok(removed)
}

fn remove(
    connection: &mut Connection,
    sent: &[SentPage],
    path: &Path,
    table_address: TableAddress,
) -> Result<RemovedPages, StoreError> {
    let transaction = connection.transaction().map_err(StoreError::sqlite(path))?;
    let (mut removed, mut shared) = (RemovedPages::default(), BTreeMap::<(i64, i64), HashSet<i64>>::new());
    for page in sent {
        match *page {
            SentPage::Part { page, seq, partition } => {
                shared.entry((page, seq)).or_default().insert(partition);
            }
            SentPage::Page { id, seq, checksum } => {
                let entities = remove_page(&transaction, id, seq, checksum).map_err(StoreError::sqlite(path))?;
                if let Some(entities) = entities {
                    removed.entities += entities;
                    removed.pages.insert(id);
                }
            }
        }
    }
    for ((id, seq), partitions) in shared {
        match shared_pages::remove(&transaction, path, table_address, (id, seq), &partitions) {
            Ok(None) => {}
            Ok(Some((entities, left))) => {
                removed.entities += entities;
                removed.shared.push((id, left));
            }
            // The page stays, so that its readers see the error.
            Err(error) if error.is_damage() || matches!(error, StoreError::Unequal { .. }) => {
                tracing::error!(%error, "a page of the outbox is damaged: its sent rows stay in it; run `daytable verify`");
            }
            Err(error) => return Err(error),
        }
    }
    finish(transaction, removed).map_err(StoreError::sqlite(path))
}

/// Removes a page of one partition, and returns the number of its entities; `None` if it is gone.
fn remove_page(connection: &Connection, id: i64, seq: i64, checksum: u64) -> rusqlite::Result<Option<u64>> {
    let delete = format!(
        "DELETE FROM page WHERE id = ?1 AND seq = ?2 AND checksum = ?3 AND partition <> {SHARED} RETURNING entities"
    );
    let mut delete = connection.prepare_cached(&delete)?;
    let entities = delete.query_row(params![id, seq, checksum.cast_signed()], |row| row.get::<_, i64>(0)).optional()?;
    if entities.is_some() {
        delete_body(connection, id)?;
    }
    Ok(entities.map(i64::cast_unsigned))
}
