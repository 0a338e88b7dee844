//! The file of an open day: pages of entities in SQLite, with headers apart from bodies.
//!
//! Headers are narrow rows. So "which pages does this range need" and "how many records by level and minute" are SQL
//! over a few hundred kilobytes, without bodies. The writing transaction updates `total`, so one row tells whether a
//! file of any size belongs to its catalog.
//!
//! Pages of a failed commit always have the highest `id`s: recovery removes them before anything else is written. Only
//! this module writes to such a file.

use crate::StoreError;
use crate::format::page::{EncodedPage, Page, PageAddress, PageSections, TableAddress};
use crate::format::page_counts::{self, PageCountsBuilder};
use crate::format::page_groups;
use crate::format::page_headers::{self, PageHeadersBuilder};
use crate::format::page_rows::{HEADER_COLUMNS, put_header, read_header};
use crate::format::page_sieve::{self, PageSieveBuilder};
use crate::format::small_pages::{self, BodyReader, PageLocation, PageRow, SmallPagesBuilder, SmallPagesRow};
use crate::lock::FileIdentity;
use crate::sqlite::{self, Schema};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::property::PropertyKind;
use daytable_model::time::Ticks;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// SQLite's page size in bytes, chosen among 4, 8 and 16 KiB by measurement (see `docs/architecture/pages.md`).
const SQLITE_PAGE_BYTES: u32 = 4096;
/// Partitions whose number is cached, per file.
const PARTITIONS_CACHED: usize = 50_000;

/// Raw bytes below which a page is tiny. If it is the only page of its partition in a commit, it becomes a small page.
pub(crate) const TINY_BYTES: u32 = 4096;

/// About how many bytes a page in its own row adds to the journal, besides its body.
const PAGE_OVERHEAD_BYTES: u64 = 1024;
/// The same for a small page.
const SMALL_PAGE_OVERHEAD_BYTES: u64 = 64;

const SCHEMA: Schema = Schema {
    page_bytes: SQLITE_PAGE_BYTES,
    formats: [&[TABLES, small_pages::SCHEMA, page_counts::SCHEMA, page_sieve::SCHEMA, page_headers::SCHEMA]],
};

const TABLES: &str = "
    CREATE TABLE total(
        one INTEGER PRIMARY KEY CHECK (one = 1),
        last_seq INTEGER NOT NULL,           -- the last commit that wrote here
        entities INTEGER NOT NULL,           -- all that commits wrote, including those removed since
        merged INTEGER NOT NULL,             -- those removed since: duplicates, and entities that an outbox sent
        seq_before INTEGER NOT NULL,         -- last_seq and entities before that commit
        entities_before INTEGER NOT NULL,
        last_page INTEGER NOT NULL           -- the highest id that a page ever had: a follower knows new pages by it
    );
    INSERT INTO total VALUES (1, 0, 0, 0, 0, 0, 0);
    CREATE TABLE partition(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
    CREATE TABLE page(
        id INTEGER PRIMARY KEY,
        partition INTEGER NOT NULL,
        first BLOB NOT NULL,                 -- RowKeys of the newest and the oldest entity, 24 bytes (key.rs)
        last BLOB NOT NULL,
        seq INTEGER NOT NULL,                -- the commit that wrote it, or the highest of those merged into it
        entities INTEGER NOT NULL,
        records INTEGER NOT NULL,            -- entities that are no items
        codec INTEGER NOT NULL,
        raw_bytes INTEGER NOT NULL,
        checksum INTEGER NOT NULL,           -- of body, header and home (page/home.rs)
        levels BLOB NOT NULL                 -- records by level and minute (page.rs)
    );
    CREATE INDEX page_of_partition ON page(partition, first);
    CREATE INDEX page_by_time ON page(first, partition);
    CREATE TABLE body(page INTEGER PRIMARY KEY, bytes BLOB NOT NULL, wide BLOB);   -- its front, and what is apart
";

/// The number of the next page.
const NEXT_PAGE: &str = "SELECT 1 + max(last_page, (SELECT coalesce(max(id), 0) FROM page)) FROM total";

/// A file's own total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) last_seq: i64,
    pub(crate) entities: i64,
    pub(crate) merged: i64,
    pub(crate) seq_before: i64,
    pub(crate) entities_before: i64,
}

/// Pages of a partition, and the pages merged from them.
pub(crate) struct PageMerge {
    pub(crate) partition: i64,
    pub(crate) home: PageAddress,
    /// The replaced rows of `page`, by id. Small pages are deleted with their row.
    pub(crate) old: Vec<i64>,
    pub(crate) new: Vec<EncodedPage>,
    /// The highest commit of the replaced pages.
    pub(crate) seq: i64,
    /// The number of entities that were stored twice.
    pub(crate) duplicates: u64,
}

/// The totals of a file, counted from its pages.
pub(crate) struct Recounted {
    pub(crate) last_seq: i64,
    /// Duplicates included.
    pub(crate) entities: i64,
    /// The oldest and the newest time.
    pub(crate) times: Option<(Ticks, Ticks)>,
}

/// A page that is ready to be inserted.
pub(crate) struct Insert {
    pub(crate) partition: Arc<str>,
    pub(crate) page: EncodedPage,
    /// Whether the commit has no other page of this partition.
    pub(crate) is_alone: bool,
}

impl Insert {
    fn is_small(&self) -> bool {
        self.is_alone && self.page.header.raw_bytes < TINY_BYTES
    }
}

/// The pages that a commit or a merge wrote, for compaction.
#[derive(Default)]
pub(crate) struct WrittenPages {
    /// Partition, first key and raw bytes of each page in a row of its own.
    pub(crate) rows: Vec<(i64, RowKey, u32)>,
    /// The rows with the other pages.
    pub(crate) small_rows: Vec<SmallPagesRow>,
    /// The partitions of these pages.
    pub(crate) small_partitions: Vec<i64>,
}

/// The file of an open day, opened to write. Only the committer has one.
pub(crate) struct DayFile {
    connection: Connection,
    path: PathBuf,
    table_address: TableAddress,
    partitions: HashMap<Arc<str>, i64, foldhash::quality::RandomState>,
    /// About how many bytes went to the journal since its last checkpoint.
    journaled: u64,
    /// The identities of the files behind the connection.
    seen: Vec<FileIdentity>,
    /// The size of the page cache; 0 until it is set.
    cache_kib: i64,
}

impl DayFile {
    /// Opens the file at `path` of `table`, or creates it.
    pub(crate) fn open(path: &Path, table: &DayTable) -> Result<DayFile, StoreError> {
        let connection = sqlite::open_to_write(path, &SCHEMA)?;
        let (seen, table_address) = (sqlite::seen(path)?, TableAddress::new(table));
        let partitions = HashMap::default();
        Ok(DayFile { connection, path: path.into(), table_address, partitions, journaled: 0, seen, cache_kib: 0 })
    }

    /// Fails if the path now leads to another file than the opened one.
    pub(crate) fn check_place(&self) -> Result<(), StoreError> {
        self.seen.iter().try_for_each(FileIdentity::check)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// The page address of a partition; none if the partition has no name.
    pub(crate) fn address_of(&self, partition: i64) -> Result<Option<PageAddress>, StoreError> {
        let name = self.sql(partition_name(&self.connection, partition))?;
        Ok(name.map(|name| self.table_address.at(&name)))
    }

    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(StoreError::sqlite(&self.path))
    }

    /// The file's own total.
    pub(crate) fn total(&self) -> Result<Total, StoreError> {
        self.sql(read_total(&self.connection))
    }

    /// Writes the pages of commit `seq`, in one transaction with an fsync at its end.
    pub(crate) fn insert(&mut self, seq: i64, pages: &[Insert]) -> Result<WrittenPages, StoreError> {
        if self.partitions.len() > PARTITIONS_CACHED {
            self.partitions.clear();
        }
        let overhead =
            |insert: &Insert| if insert.is_small() { SMALL_PAGE_OVERHEAD_BYTES } else { PAGE_OVERHEAD_BYTES };
        self.journaled += pages.iter().map(|insert| insert.page.body.len() as u64 + overhead(insert)).sum::<u64>();
        let result = insert(&mut self.connection, self.table_address, &mut self.partitions, seq, pages);
        if result.is_err() {
            // The transaction's new partition numbers do not exist.
            self.partitions.clear();
        }
        self.sql(result)
    }

    /// Whether the file has small pages.
    pub(crate) fn has_small_pages(&self) -> Result<bool, StoreError> {
        self.sql(self.connection.query_row("SELECT EXISTS (SELECT 1 FROM small_pages)", [], |row| row.get(0)))
    }

    /// Pages of commits above `committed`, which are the newest by id.
    pub(crate) fn uncommitted(&self, committed: i64) -> Result<Vec<PageRow>, StoreError> {
        let result = (|| {
            let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY id DESC");
            let mut statement = self.connection.prepare(&select)?;
            let mut rows = statement.query([])?;
            let mut pages = small_pages::pages_since(&self.connection, committed)?;
            while let Some(row) = rows.next()? {
                let page = read_header(row)?;
                if page.seq <= committed {
                    break;
                }
                pages.push(page);
            }
            Ok(pages)
        })();
        self.sql(result)
    }

    /// Removes the pages of commit `seq`, which was never completed.
    pub(crate) fn remove_commit(&mut self, seq: i64, pages: &[PageRow]) -> Result<(), StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            for page in pages {
                let PageLocation::Row(id) = page.place else { continue };
                transaction.prepare_cached("DELETE FROM page WHERE id = ?1 AND seq = ?2")?.execute(params![id, seq])?;
                transaction.prepare_cached("DELETE FROM body WHERE page = ?1")?.execute([id])?;
            }
            forget(&transaction, pages.iter().filter_map(PageRow::id))?;
            transaction.execute("DELETE FROM small_pages WHERE seq = ?1", [seq])?;
            transaction.execute(
                "UPDATE total SET last_seq = seq_before, entities = entities_before WHERE last_seq = ?1",
                [seq],
            )?;
            transaction.commit()
        })();
        self.partitions.clear();
        self.sql(result)
    }

    /// Replaces pages, and the rows `small_rows`, by the pages merged from them, in one transaction.
    pub(crate) fn replace(&mut self, merges: &[PageMerge], small_rows: &[i64]) -> Result<WrittenPages, StoreError> {
        let pages: usize = merges.iter().map(|merge| merge.old.len() / 8 + merge.new.len()).sum();
        let bytes: usize = merges.iter().flat_map(|merge| &merge.new).map(|page| page.body.len()).sum();
        self.journaled += pages as u64 * PAGE_OVERHEAD_BYTES + bytes as u64;
        let result = (|| {
            let transaction = self.connection.transaction()?;
            let mut written = WrittenPages::default();
            let first: i64 = transaction.query_row(NEXT_PAGE, [], |row| row.get(0))?;
            let (mut next, mut groups) = (first, GroupsBuilder::default());
            for PageMerge { partition, home, old, new, seq, duplicates } in merges {
                for page in new {
                    let checksum = put_page(&transaction, next, (*partition, *home), *seq, page)?;
                    groups.push(*partition, *seq, page, checksum);
                    written.rows.push((*partition, page.header.first, page.header.raw_bytes));
                    next += 1;
                }
                for id in old {
                    transaction.prepare_cached("DELETE FROM page WHERE id = ?1")?.execute([id])?;
                    transaction.prepare_cached("DELETE FROM body WHERE page = ?1")?.execute([id])?;
                }
                if *duplicates > 0 {
                    let merged = i64::try_from(*duplicates).unwrap_or(i64::MAX);
                    transaction.prepare_cached("UPDATE total SET merged = merged + ?1")?.execute([merged])?;
                }
            }
            for id in small_rows {
                transaction.prepare_cached("DELETE FROM small_pages WHERE id = ?1")?.execute([id])?;
            }
            forget(&transaction, merges.iter().flat_map(|merge| merge.old.iter().copied()))?;
            groups.insert(&transaction, first)?;
            transaction.prepare_cached("UPDATE total SET last_page = ?1")?.execute([next - 1])?;
            transaction.commit()?;
            Ok(written)
        })();
        self.sql(result)
    }

    /// Sets `total` to the totals of the pages.
    pub(crate) fn recount(&mut self) -> Result<Recounted, StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            let update = "WITH every(seq, entities) AS
                            (SELECT seq, entities FROM page UNION ALL SELECT seq, entities FROM small_pages)
                          UPDATE total SET last_seq = (SELECT coalesce(max(seq), 0) FROM every),
                                           entities = merged + (SELECT coalesce(sum(entities), 0) FROM every)
                          RETURNING last_seq, entities";
            let (last_seq, entities) = transaction.query_row(update, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let ends = "SELECT max(last), min(first) FROM
                          (SELECT first, last FROM page UNION ALL SELECT first, last FROM small_pages)";
            let time = |bytes: Option<Vec<u8>>| bytes.and_then(|b| RowKey::from_bytes(&b)).map(|key| key.time());
            let times = transaction.query_row(ends, [], |row| Ok(time(row.get(0)?).zip(time(row.get(1)?))))?;
            transaction.commit()?;
            Ok(Recounted { last_seq, entities, times })
        })();
        self.sql(result)
    }

    /// Sets the size of the page cache in KiB.
    pub(crate) fn set_cache(&mut self, kib: i64) -> Result<(), StoreError> {
        if self.cache_kib != kib {
            self.sql(self.connection.pragma_update(None, "cache_size", -kib))?;
            self.cache_kib = kib;
        }
        Ok(())
    }

    /// Frees what can be read again.
    pub(crate) fn release_memory(&mut self) {
        self.partitions = HashMap::default();
        sqlite::release_memory(&self.connection);
    }

    /// Whether `bytes` or more were journaled since this method last returned true.
    pub(crate) fn has_journaled(&mut self, bytes: u64) -> bool {
        let is_full = self.journaled >= bytes;
        if is_full {
            self.journaled = 0;
        }
        is_full
    }

    /// Closes the file without a checkpoint: the file is no longer data.
    pub(crate) fn abandon(self) {
        // If the setting fails, closing makes a needless checkpoint.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    /// The length of the journal file. SQLite truncates it when it starts over ([`sqlite::JOURNAL_BYTES_KEPT`]).
    pub(crate) fn journal_bytes(&self) -> u64 {
        std::fs::metadata(sqlite::journal_of(&self.path)).map(|m| m.len()).unwrap_or(0)
    }

    /// Moves the journal into the file while nothing else is written. Does not wait for readers, which may keep a part
    /// of it.
    pub(crate) fn checkpoint(&self) -> Result<(), StoreError> {
        match sqlite::checkpoint(&self.connection, false) {
            Err(e) if e.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => Ok(()),
            done => self.sql(done).map(drop),
        }
    }

    /// Closes the file as [`DayFile::close`] does, or returns it if a reader needs the journal. Waits for no reader: commits
    /// would wait, too.
    pub(crate) fn close_unless_read(self) -> Result<Option<DayFile>, StoreError> {
        let is_free = self.sql(sqlite::empty_journal(&self.connection))?;
        if is_free { self.close().map(|()| None) } else { Ok(Some(self)) }
    }

    /// Moves the journal into the file and closes both, so that the file is complete without its journal.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        let DayFile { connection, path, .. } = self;
        sqlite::checkpoint(&connection, true).map_err(StoreError::sqlite(&path))?;
        connection.close().map_err(|(_, e)| StoreError::sqlite(&path)(e))
    }
}

/// What is written beside pages, by their groups.
#[derive(Default)]
struct GroupsBuilder<'p> {
    counts: PageCountsBuilder<'p>,
    sieve: PageSieveBuilder<'p>,
    headers: PageHeadersBuilder<'p>,
}

impl<'p> GroupsBuilder<'p> {
    /// Adds the next page.
    fn push(&mut self, partition: i64, seq: i64, page: &'p EncodedPage, checksum: u64) {
        self.counts.push(checksum, page.counts.as_deref());
        self.sieve.push(checksum, page.header.entities, page.words.as_deref());
        self.headers.push(partition, seq, &page.header, checksum);
    }

    /// Writes the rows of pages that were inserted with these ids, from `first` on.
    fn insert(self, connection: &Connection, first: i64) -> rusqlite::Result<()> {
        self.counts.insert(connection, first)?;
        self.sieve.insert(connection, first)?;
        self.headers.insert(connection, first)
    }
}

/// Removes what stands beside pages that the transaction removed.
pub(crate) fn forget(connection: &Connection, pages: impl IntoIterator<Item = i64>) -> rusqlite::Result<()> {
    page_groups::remove_empty(connection, page_counts::TABLE)?;
    page_sieve::remove_empty(connection)?;
    page_headers::remove(connection, pages)
}

fn insert(
    connection: &mut Connection,
    table_address: TableAddress,
    partitions: &mut HashMap<Arc<str>, i64, foldhash::quality::RandomState>,
    seq: i64,
    pages: &[Insert],
) -> rusqlite::Result<WrittenPages> {
    let transaction = connection.transaction()?;
    let next: i64 = transaction.prepare_cached(NEXT_PAGE)?.query_row([], |row| row.get(0))?;
    let (mut small, mut written, mut entities) = (Vec::new(), WrittenPages::default(), 0);
    let mut groups = GroupsBuilder::default();
    for insert in pages {
        let Insert { partition, page, .. } = insert;
        let id = match partitions.get(partition) {
            Some(&id) => id,
            None => {
                let id = partition_id(&transaction, partition)?;
                partitions.insert(partition.clone(), id);
                id
            }
        };
        let home = table_address.at(partition);
        if insert.is_small() {
            small.push((page, id, home));
        } else {
            let checksum = put_page(&transaction, next + written.rows.len() as i64, (id, home), seq, page)?;
            groups.push(id, seq, page, checksum);
            written.rows.push((id, page.header.first, page.header.raw_bytes));
        }
        entities += i64::from(page.header.entities);
    }
    groups.insert(&transaction, next)?;
    small.sort_unstable_by_key(|(page, ..)| page.header.first);
    written.small_partitions.extend(small.iter().map(|(_, partition, _)| partition));
    let mut builder = SmallPagesBuilder::default();
    for (page, id, home) in small {
        builder.push(id, &page.header, home.stored_checksum(&page.header, seq), &page.body);
        if builder.is_full() {
            written.small_rows.extend(std::mem::take(&mut builder).insert(&transaction, seq)?);
        }
    }
    written.small_rows.extend(builder.insert(&transaction, seq)?);
    transaction
        .prepare_cached(
            "UPDATE total SET seq_before = last_seq, entities_before = entities, last_seq = ?1, entities = entities + ?2,
             last_page = ?3",
        )?
        .execute(params![seq, entities, next - 1 + written.rows.len() as i64])?;
    transaction.commit()?;
    Ok(written)
}

fn partition_id(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    let find = "SELECT id FROM partition WHERE name = ?1";
    let found = connection.prepare_cached(find)?.query_row([name], |row| row.get(0)).optional()?;
    match found {
        // A damaged index would put rows of one partition into another.
        Some(id) if partition_name(connection, id)?.as_deref() != Some(name) => {
            let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            Err(rusqlite::Error::SqliteFailure(
                corrupt,
                Some(format!("the index of partitions leads elsewhere for {name:?}")),
            ))
        }
        Some(id) => Ok(id),
        None => {
            connection.prepare_cached("INSERT INTO partition(name) VALUES (?1)")?.execute([name])?;
            Ok(connection.last_insert_rowid())
        }
    }
}

/// The name of a partition by its number. None if it has no name, which is damage if there are pages of it.
pub(crate) fn partition_name(connection: &Connection, partition: i64) -> rusqlite::Result<Option<Arc<str>>> {
    let mut statement = connection.prepare_cached("SELECT name FROM partition WHERE id = ?1")?;
    statement.query_row([partition], |row| Ok(row.get_ref(0)?.as_str()?.into())).optional()
}

/// Writes a page, and returns its stored checksum.
fn put_page(
    connection: &Connection,
    id: i64,
    (partition, home): (i64, PageAddress),
    seq: i64,
    page: &EncodedPage,
) -> rusqlite::Result<u64> {
    let header = &page.header;
    let checksum = home.stored_checksum(header, seq);
    put_header(connection, id, partition, seq, header, checksum)?;
    let (front, wide) = page.front_and_wide();
    connection.prepare_cached("INSERT INTO body VALUES (?1, ?2, ?3)")?.execute(params![id, front, wide])?;
    Ok(checksum)
}

pub(crate) fn read_total(connection: &Connection) -> rusqlite::Result<Total> {
    let select = "SELECT last_seq, entities, merged, seq_before, entities_before FROM total";
    connection.prepare_cached(select)?.query_row([], |row| {
        Ok(Total {
            last_seq: row.get(0)?,
            entities: row.get(1)?,
            merged: row.get(2)?,
            seq_before: row.get(3)?,
            entities_before: row.get(4)?,
        })
    })
}

/// Reads a page and checks it against its address `home`.
pub(crate) fn read_page(
    connection: &Connection,
    path: &Path,
    home: PageAddress,
    page: &PageRow,
    bodies: &mut BodyReader,
) -> Result<Page, StoreError> {
    decode(path, home, page, read_body(connection, path, page, bodies)?)
}

/// Reads the body of a page.
pub(crate) fn read_body<'b>(
    connection: &Connection,
    path: &Path,
    page: &PageRow,
    bodies: &'b mut BodyReader,
) -> Result<&'b [u8], StoreError> {
    let read = bodies.read(connection, page.place).map_err(StoreError::sqlite(path))?;
    read.ok_or_else(|| damaged(path, page, "its body is missing".into()))
}

/// Checks the body of a page.
pub(crate) fn decode(path: &Path, home: PageAddress, page: &PageRow, body: &[u8]) -> Result<Page, StoreError> {
    Page::decode_of(home, page.seq, &page.header, body).map_err(|error| damaged(path, page, error.to_string()))
}

/// The same; `None` if `wants` refuses the page by its sections.
pub(crate) fn decode_wanted(
    path: &Path,
    home: PageAddress,
    page: &PageRow,
    body: &[u8],
    wants: impl FnOnce(&PageSections<'_>) -> bool,
) -> Result<Option<Page>, StoreError> {
    let decoded = Page::decode_wanted(home, page.seq, &page.header, body, wants);
    decoded.map_err(|error| damaged(path, page, error.to_string()))
}

/// Checks the front of a page; `None` if `needs` accepts a column that is apart.
pub(crate) fn decode_front(
    path: &Path,
    home: PageAddress,
    page: &PageRow,
    front: &[u8],
    needs: impl Fn(&str, PropertyKind) -> bool,
) -> Result<Option<Page>, StoreError> {
    let decoded = Page::decode_front(home, page.seq, &page.header, front, needs);
    decoded.map_err(|error| damaged(path, page, error.to_string()))
}

/// The error of a page whose partition has no name.
pub(crate) fn unnamed_partition(path: &Path, page: &PageRow) -> StoreError {
    damaged(path, page, "its partition has no name".into())
}

/// The error of a damaged page.
pub(crate) fn damaged(path: &Path, page: &PageRow, what: String) -> StoreError {
    StoreError::Damaged { path: path.into(), page: page.place.to_string(), what }
}

/// Whether a file belongs to an outbox, by the indexes that only such files have.
pub(crate) fn is_outbox(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_master WHERE name = 'page_unsent'")?.exists([])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::PageHeader;

    /// Otherwise every later commit would checkpoint, and wait for two more fsyncs.
    #[test]
    fn a_journal_is_short_again_after_a_long_reader_ends() {
        let dir = tempfile::tempdir().expect("a folder");
        let table = DayTable::parse("Log20261101").expect("a table");
        let path = dir.path().join("day.db");
        let mut file = DayFile::open(&path, &table).expect("opened");
        let key = RowKey::new(table.start(), 1, 0);
        let header = PageHeader {
            first: key,
            last: key,
            entities: 1,
            records: 1,
            levels: vec![],
            codec: 1,
            raw_bytes: 1 << 20,
            checksum: 0,
        };
        let mut seq = 0;
        let mut insert = |file: &mut DayFile| {
            seq += 1;
            let page = EncodedPage { header: header.clone(), body: vec![7; 1 << 20], counts: None, words: None };
            file.insert(seq, &[Insert { partition: "web-1".into(), page, is_alone: true }]).expect("written");
        };
        insert(&mut file);
        let reader = sqlite::open_to_read(&path).expect("opened");
        let held = reader.unchecked_transaction().expect("begun");
        held.query_row("SELECT count(*) FROM page", [], |row| row.get::<_, i64>(0)).expect("read");
        let kept = sqlite::JOURNAL_BYTES_KEPT.cast_unsigned();
        while file.journal_bytes() < 2 * kept {
            insert(&mut file);
        }
        file.checkpoint().expect("moved what can be");
        insert(&mut file);
        assert!(file.journal_bytes() > 2 * kept, "what the reader needs is there");
        drop(held);
        file.checkpoint().expect("moved");
        insert(&mut file);
        assert_eq!(file.journal_bytes(), kept);
    }

    /// An index that finds another name models a damaged index.
    #[test]
    fn a_partition_found_by_another_name_is_damage() {
        let connection = Connection::open_in_memory().expect("a database");
        let schema = "CREATE TABLE partition(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE COLLATE NOCASE)";
        connection.execute_batch(schema).expect("a table");
        let id = partition_id(&connection, "web-1").expect("an id");
        assert_eq!(partition_id(&connection, "web-1").expect("the same"), id);
        let error = partition_id(&connection, "WEB-1").expect_err("another name");
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseCorrupt));
    }
}
