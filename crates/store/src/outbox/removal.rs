//! Removes sent pages from their file: pages of their own row by id, commit and checksum, small pages out of a shared row.

use crate::StoreError;
use crate::format::day_file::{self, DayFile};
use crate::format::page_rows::{HEADER_COLUMNS, read_header};
use crate::format::small_pages::{self, PageLocation, PageRow, SmallPagesBuilder};
use daytable_model::key::DayTable;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, HashSet};

/// A page, as its sender knew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SentPage {
    /// A page in a row of its own.
    Page {
        /// Its number in the file.
        id: i64,
        /// Its commit.
        seq: i64,
        /// The checksum of header and body.
        checksum: u64,
    },
    /// The page of a partition in a commit's rows of small pages, which hold at most one page a partition.
    Shared {
        /// The commit.
        seq: i64,
        /// The partition's number in the file.
        partition: i64,
    },
}

impl SentPage {
    pub(super) fn of(page: &PageRow) -> SentPage {
        match page.place {
            PageLocation::Row(id) => SentPage::Page { id, seq: page.seq, checksum: page.header.checksum },
            PageLocation::Shared { .. } => SentPage::Shared { seq: page.seq, partition: page.partition },
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
    /// Rows of `small_pages` by id, with their remaining raw bytes; none if the row was deleted.
    pub(crate) small_rows: Vec<(i64, Option<u64>)>,
}

/// How much of a file waits. Reads only a few of its pages.
pub(crate) fn waiting(connection: &Connection) -> rusqlite::Result<Backlog> {
    let entities: i64 = connection.query_row("SELECT entities - merged FROM total", [], |row| row.get(0))?;
    if entities <= 0 {
        return Ok(Backlog::default());
    }
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let bytes = (number("page_count")? - number("freelist_count")?) * number("page_size")?;
    let oldest = "SELECT min(seq) FROM (SELECT min(seq) AS seq FROM page UNION ALL SELECT min(seq) FROM small_pages)";
    let oldest = connection.query_row(oldest, [], |row| row.get(0))?;
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
        let path = self.path().to_owned();
        let connection = self.connection_mut();
        let removed = (|| {
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            let removed = remove(connection, sent);
            connection.pragma_update(None, "synchronous", "FULL")?;
            removed
        })();
        removed.map_err(StoreError::sqlite(path))
    }

    /// The oldest pages: at most `limit`, and the rest of the last small row.
    pub(crate) fn oldest_unsent(&self, limit: usize) -> Result<Vec<SentPage>, StoreError> {
        let result = (|| {
            let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY seq LIMIT ?1");
            let mut statement = self.connection().prepare_cached(&select)?;
            let mut pages: Vec<PageRow> = statement
                .query_map([i64::try_from(limit).unwrap_or(i64::MAX)], read_header)?
                .collect::<rusqlite::Result<_>>()?;
            let newest = pages.last().map_or(i64::MAX, |page| page.seq);
            let small_rows = small_pages::all(self.connection())?;
            for row in small_rows.iter().take_while(|row| row.seq <= newest).take(limit) {
                small_pages::split(self.connection(), row.id, &mut pages)?;
            }
            Ok(pages)
        })();
        let mut pages: Vec<PageRow> = result.map_err(StoreError::sqlite(self.path()))?;
        pages.sort_by_key(|page| page.seq);
        let last = pages.get(limit.saturating_sub(1)).map_or(i64::MAX, |page| page.seq);
        Ok(pages.iter().take_while(|page| page.seq <= last).map(SentPage::of).collect())
    }
}

fn remove(connection: &mut Connection, sent: &[SentPage]) -> rusqlite::Result<RemovedPages> {
    let transaction = connection.transaction()?;
    let (mut removed, mut small) = (RemovedPages::default(), BTreeMap::<i64, HashSet<i64>>::new());
    for page in sent {
        match *page {
            SentPage::Shared { seq, partition } => {
                small.entry(seq).or_default().insert(partition);
            }
            SentPage::Page { id, seq, checksum } => {
                let delete = "DELETE FROM page WHERE id = ?1 AND seq = ?2 AND checksum = ?3 RETURNING entities";
                let mut delete = transaction.prepare_cached(delete)?;
                let removed_pages =
                    delete.query_row(params![id, seq, checksum.cast_signed()], |row| row.get::<_, i64>(0));
                if let Some(entities) = removed_pages.optional()? {
                    transaction.prepare_cached("DELETE FROM body WHERE page = ?1")?.execute([id])?;
                    removed.entities += entities.cast_unsigned();
                    removed.pages.insert(id);
                }
            }
        }
    }
    for (seq, partitions) in small {
        let find = "SELECT id FROM small_pages WHERE seq = ?1";
        let mut statement = transaction.prepare_cached(find)?;
        let rows = statement.query_map([seq], |row| row.get::<_, i64>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
        for id in rows {
            remove_small(&transaction, id, &partitions, &mut removed)?;
        }
    }
    day_file::forget(&transaction, removed.pages.iter().copied())?;
    let merged = i64::try_from(removed.entities).unwrap_or(i64::MAX);
    transaction.prepare_cached("UPDATE total SET merged = merged + ?1")?.execute([merged])?;
    transaction.commit()?;
    Ok(removed)
}

/// Removes the pages of `partitions` from a row of small pages.
fn remove_small(
    connection: &Connection,
    id: i64,
    partitions: &HashSet<i64>,
    removed: &mut RemovedPages,
) -> rusqlite::Result<()> {
    let mut pages = Vec::new();
    let bodies = small_pages::split(connection, id, &mut pages)?;
    let (removed_pages, left): (Vec<PageRow>, Vec<PageRow>) =
        pages.into_iter().partition(|page| partitions.contains(&page.partition));
    if removed_pages.is_empty() {
        return Ok(());
    }
    removed.entities += removed_pages.iter().map(|page| u64::from(page.header.entities)).sum::<u64>();
    let mut builder = SmallPagesBuilder::default();
    for page in left {
        let PageLocation::Shared { offset, length, .. } = page.place else { continue };
        let (from, length) = (offset as usize, length as usize);
        // A page without its body is damaged. It stays, so that its readers see an error.
        let body = bodies.get(from..from + length).unwrap_or_default();
        builder.push(page.partition, &page.header, page.header.checksum, body);
    }
    removed.small_rows.push((id, builder.replace(connection, id)?));
    Ok(())
}
