//! The file of an open day: pages of entities in SQLite, with headers apart from bodies.
//!
//! Headers are narrow rows. So "which pages does this range need" and "how many records by level and minute" are SQL
//! over a few hundred kilobytes, without bodies. The writing transaction updates `total`, so one row tells whether a
//! file of any size belongs to its catalog.
//!
//! Pages of a failed commit always have the highest `id`s: recovery removes them before anything else is written. Only
//! this module writes to such a file.

use crate::StoreError;
use crate::format::page::{EncodedPage, PageAddress, TableAddress};
use crate::format::page_bloom::{self, PageBloomBuilder};
use crate::format::page_counts::{self, PageCountsBuilder};
use crate::format::page_groups;
use crate::format::page_headers::{self, PageHeadersBuilder};
use crate::format::page_rows::{
    HEADER_COLUMNS, PageLocation, PageRow, named_partition, partition_name, put_page, read_header,
};
use crate::format::shared_pages::{self, SHARED, SharedPage, SharedRow};
use crate::format::shared_partitions::stored_list;
use crate::lock::FileIdentity;
use crate::sqlite::{self, Schema};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::path_text::PathText;
use daytable_model::time::Ticks;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// SQLite's page size in bytes, chosen among 4, 8 and 16 KiB by measurement (see `docs/architecture/pages.md`).
const SQLITE_PAGE_BYTES: u32 = 4096;
/// Partitions whose number is cached, per file.
const PARTITIONS_CACHED: usize = 50_000;

/// Raw bytes below which a page is tiny. Partitions with less than that in a commit share pages.
pub(crate) const TINY_BYTES: u32 = 4096;

/// Bytes of a journal from which the committer writes nothing until it is emptied, or [`JOURNAL_WAIT`] is over.
const JOURNAL_BYTES_MAX: u64 = 32 << 20;
/// Bytes that a journal grows by until that is tried again.
const JOURNAL_BYTES_MORE: u64 = 8 << 20;
/// How long the committer waits for readers to end their snapshots: ten times as long as these last by then.
const JOURNAL_WAIT: Duration = Duration::from_secs(1);
/// Time between two looks.
const JOURNAL_LOOK: Duration = Duration::from_millis(2);

/// About how many bytes a page adds to the journal, besides its body.
const PAGE_OVERHEAD_BYTES: u64 = 1024;
/// The same for a partition of a shared page.
const PART_OVERHEAD_BYTES: u64 = 16;

const SCHEMA: Schema = Schema {
    page_bytes: SQLITE_PAGE_BYTES,
    formats: [&[TABLES, shared_pages::SCHEMA, page_counts::SCHEMA, page_bloom::SCHEMA, page_headers::SCHEMA]],
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
        partition INTEGER NOT NULL,          -- 0 for a shared page (shared_pages.rs)
        first BLOB NOT NULL,                 -- RowKeys of the newest and the oldest entity, 32 bytes (key.rs)
        last BLOB NOT NULL,
        seq INTEGER NOT NULL,                -- the commit that wrote it, or the highest of those merged into it
        entities INTEGER NOT NULL,
        records INTEGER NOT NULL,            -- entities that are no items
        codec INTEGER NOT NULL,
        raw_bytes INTEGER NOT NULL,
        checksum INTEGER NOT NULL,           -- of body, header, commits and home (page/address.rs)
        levels BLOB NOT NULL,                -- records by level and minute (page.rs)
        commits INTEGER NOT NULL,            -- how many commits its first one is before seq (commit_range.rs)
        arrived INTEGER NOT NULL,            -- ticks of the latest of its commits
        arrived_span INTEGER NOT NULL        -- and from the earliest to that
    );
    CREATE INDEX page_of_partition ON page(partition, first);
    CREATE INDEX page_by_time ON page(first, partition);
    CREATE TABLE body(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);        -- its front, and what is apart: page_rows.rs
";

/// The tables of pages, for a file with copies of some.
pub(super) fn page_tables() -> String {
    [TABLES, shared_pages::SCHEMA].concat()
}

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
    /// The replaced rows of `page`, by id. Shared pages are deleted apart.
    pub(crate) old: Vec<i64>,
    pub(crate) new: Vec<EncodedPage>,
    /// The highest commit of the replaced pages.
    pub(crate) seq: i64,
    /// The number of entities that were stored twice.
    pub(crate) duplicates: u64,
    /// The number of entities that came from shared pages.
    pub(crate) shared_entities: u64,
}

/// The totals of a file, counted from its pages.
#[derive(Debug)]
pub(crate) struct Recounted {
    pub(crate) last_seq: i64,
    /// Duplicates included.
    pub(crate) entities: i64,
    /// The oldest and the newest time.
    pub(crate) times: Option<(Ticks, Ticks)>,
}

/// A page that is ready to be inserted.
pub(crate) struct Insert {
    pub(crate) owner: PageOwner,
    pub(crate) page: EncodedPage,
}

/// The partitions of a page.
pub(crate) enum PageOwner {
    /// All rows are of this partition.
    One(Arc<str>),
    /// A shared page: its partitions by their numbers in the page, each with its number of rows.
    Many(Vec<(Arc<str>, u32)>),
}

#[cfg(test)]
impl Insert {
    /// A page of one partition.
    pub(crate) fn of_one(partition: &Arc<str>, page: EncodedPage) -> Insert {
        Insert { owner: PageOwner::One(partition.clone()), page }
    }
}

impl Insert {
    fn overhead(&self) -> u64 {
        match &self.owner {
            PageOwner::One(_) => PAGE_OVERHEAD_BYTES,
            PageOwner::Many(partitions) => PAGE_OVERHEAD_BYTES + PART_OVERHEAD_BYTES * partitions.len() as u64,
        }
    }
}

/// The pages that a commit or a merge wrote, for compaction.
#[derive(Default)]
pub(crate) struct WrittenPages {
    /// Partition, first key and raw bytes of each page of one partition.
    pub(crate) rows: Vec<(i64, RowKey, u32)>,
    /// The shared pages.
    pub(crate) shared: Vec<SharedRow>,
    /// The partitions of the shared pages.
    pub(crate) partitions: Vec<i64>,
    /// The stored checksums of all pages of a commit, in their order.
    pub(crate) checksums: Vec<u64>,
}

/// The file of an open day, opened to write. Only the committer has one.
pub(crate) struct DayFile {
    connection: Connection,
    path: PathBuf,
    table_address: TableAddress,
    partitions: HashMap<Arc<str>, i64, foldhash::quality::RandomState>,
    /// About how many bytes went to the journal since its last checkpoint.
    journaled: u64,
    /// The length of the journal when it could not be emptied; 0 if it could.
    journal_kept: u64,
    /// The length at which that was last said in the log.
    journal_reported: u64,
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
        Ok(DayFile {
            connection,
            path: path.into(),
            table_address,
            partitions: HashMap::default(),
            journaled: 0,
            journal_kept: 0,
            journal_reported: 0,
            seen,
            cache_kib: 0,
        })
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

    /// The addresses of its day-table.
    pub(crate) fn table_address(&self) -> TableAddress {
        self.table_address
    }

    /// The page address of a partition, by its name.
    pub(crate) fn address_of(&self, partition: &str) -> PageAddress {
        self.table_address.at(partition)
    }

    /// The name of the partition of a page.
    pub(crate) fn name_of(&self, page: &PageRow) -> Result<Arc<str>, StoreError> {
        named_partition(&self.connection, &self.path, page)
    }

    /// Reads a shared page.
    pub(crate) fn read_shared(&self, id: i64) -> Result<(PageRow, SharedPage), StoreError> {
        let row = self.sql(shared_pages::header(&self.connection, id))?;
        let row = row.ok_or_else(|| StoreError::Damaged {
            path: self.path.clone(),
            page: id.to_string(),
            what: "it is missing".into(),
        })?;
        let page = shared_pages::read(&self.connection, &self.path, self.table_address, &row)?;
        Ok((row, page))
    }

    /// Fails if the rows of a part of a shared page may not be shown under a name.
    pub(crate) fn check_part(&self, part: &PageRow, of: &SharedPage, name: &str) -> Result<(), StoreError> {
        let PageLocation::Part { part: number, .. } = part.place else { return Ok(()) };
        of.check_name(&self.path, part, (number as usize, self.table_address), name)
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
        self.journaled += pages.iter().map(|insert| insert.page.body.len() as u64 + insert.overhead()).sum::<u64>();
        let result = insert(&mut self.connection, self.table_address, &mut self.partitions, seq, pages);
        if result.is_err() {
            // The transaction's new partition numbers do not exist.
            self.partitions.clear();
        }
        self.sql(result)
    }

    /// Whether the file has shared pages.
    pub(crate) fn has_shared_pages(&self) -> Result<bool, StoreError> {
        self.sql(self.connection.query_row("SELECT EXISTS (SELECT 1 FROM shared_page)", [], |row| row.get(0)))
    }

    /// Pages of commits above `committed`, which are the newest by id.
    pub(crate) fn uncommitted(&self, committed: i64) -> Result<Vec<PageRow>, StoreError> {
        let result = (|| {
            let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY id DESC");
            let mut statement = self.connection.prepare(&select)?;
            let mut rows = statement.query([])?;
            let mut pages = Vec::new();
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
            for id in pages.iter().filter_map(PageRow::id) {
                shared_pages::delete(&transaction, id)?;
            }
            forget(&transaction, pages.iter().filter_map(PageRow::id))?;
            transaction.execute(
                "UPDATE total SET last_seq = seq_before, entities = entities_before WHERE last_seq = ?1",
                [seq],
            )?;
            transaction.commit()
        })();
        self.partitions.clear();
        self.sql(result)
    }

    /// Replaces pages, and the `shared` ones, by the pages merged from them, in one transaction. Every entity that it removes
    /// it writes again, or counts as a duplicate; otherwise it changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unequal`] if a page is gone, or has other entities than when it was merged.
    pub(crate) fn replace(&mut self, merges: &[PageMerge], shared: &[i64]) -> Result<WrittenPages, StoreError> {
        let pages: usize = merges.iter().map(|merge| merge.old.len() / 8 + merge.new.len()).sum();
        let bytes: usize = merges.iter().flat_map(|merge| &merge.new).map(|page| page.body.len()).sum();
        self.journaled += pages as u64 * PAGE_OVERHEAD_BYTES + bytes as u64;
        let path = &self.path;
        let unequal = |what: String| Ok(Err(StoreError::Unequal { path: path.clone(), what }));
        let result = (|| {
            let transaction = self.connection.transaction()?;
            let mut written = WrittenPages::default();
            let first: i64 = transaction.query_row(NEXT_PAGE, [], |row| row.get(0))?;
            let (mut next, mut groups) = (first, GroupsBuilder::default());
            // The entities that the merges have of shared pages.
            let mut of_shared = 0;
            for PageMerge { partition, home, old, new, seq, duplicates, shared_entities } in merges {
                for page in new {
                    let checksum = put_page(&transaction, next, (*partition, *home), *seq, page)?;
                    groups.push(*partition, *seq, page, checksum);
                    written.rows.push((*partition, page.header.first, page.header.raw_bytes));
                    next += 1;
                }
                let mut read = *shared_entities;
                for id in old {
                    match shared_pages::delete(&transaction, *id)? {
                        Some(entities) => read += entities,
                        None => return unequal(format!("page {id} was merged, and is gone")),
                    }
                }
                let wrote = new.iter().map(|page| u64::from(page.header.entities)).sum::<u64>() + duplicates;
                if read != wrote {
                    let what = "the pages of partition";
                    return unequal(format!("{what} {partition} have {read} entities, of which {wrote} were merged"));
                }
                of_shared += shared_entities;
                if *duplicates > 0 {
                    let merged = i64::try_from(*duplicates).unwrap_or(i64::MAX);
                    transaction.prepare_cached("UPDATE total SET merged = merged + ?1")?.execute([merged])?;
                }
            }
            for id in shared {
                match shared_pages::delete(&transaction, *id)? {
                    Some(entities) if entities <= of_shared => of_shared -= entities,
                    Some(_) => return unequal(format!("the shared page {id} has more entities than were merged")),
                    None => return unequal(format!("the shared page {id} was split, and is gone")),
                }
            }
            if of_shared > 0 {
                return unequal(format!("{of_shared} entities of the merged pages are of no shared page"));
            }
            let replaced = merges.iter().flat_map(|merge| &merge.old).chain(shared).copied();
            forget(&transaction, replaced)?;
            groups.insert(&transaction, first)?;
            transaction.prepare_cached("UPDATE total SET last_page = ?1")?.execute([next - 1])?;
            transaction.commit()?;
            Ok(Ok(written))
        })();
        self.sql(result)?
    }

    /// Sets `total` to the totals of the pages.
    pub(crate) fn recount(&mut self) -> Result<Recounted, StoreError> {
        let result = (|| {
            let transaction = self.connection.transaction()?;
            let update = "UPDATE total SET last_seq = (SELECT coalesce(max(seq), 0) FROM page),
                                           entities = merged + (SELECT coalesce(sum(entities), 0) FROM page)
                          RETURNING last_seq, entities";
            let (last_seq, entities) = transaction.query_row(update, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let ends = "SELECT max(last), min(first) FROM page";
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

    /// Closes the file without a checkpoint: it is no longer data, or there is no room to make one.
    pub(crate) fn abandon(self) {
        self.keep_journal();
    }

    /// Lets closing make no checkpoint.
    pub(crate) fn keep_journal(&self) {
        // If the setting fails, closing makes a needless checkpoint.
        let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    }

    /// Whether a failure left it in a transaction, which holds a lock.
    pub(crate) fn is_locked(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// The length of the journal file. SQLite truncates it when it starts over ([`sqlite::JOURNAL_BYTES_KEPT`]).
    pub(crate) fn journal_bytes(&self) -> u64 {
        sqlite::journal_bytes(&self.path)
    }

    /// Whether the journal is so long that [`DayFile::bound_journal`] empties it.
    pub(crate) fn has_long_journal(&self) -> bool {
        let kept = if self.journal_kept > 0 { self.journal_kept + JOURNAL_BYTES_MORE } else { 0 };
        self.journal_bytes() >= JOURNAL_BYTES_MAX.max(kept)
    }

    /// Moves the journal into the file and empties it. While questions overlap, there is never a moment without a reader
    /// that needs the journal, so it would not begin again. But readers end their snapshots soon while a journal is
    /// long, and new snapshots need no journal of which nothing is left to move. So it is enough that nothing is written
    /// for a moment. Other programs, a backup for one, may hold a snapshot for longer: then the journal grows on, the log
    /// says so, and this is tried again later.
    pub(crate) fn bound_journal(&mut self) -> Result<(), StoreError> {
        let until = Instant::now() + JOURNAL_WAIT;
        while !self.empty_journal()? {
            if Instant::now() >= until {
                self.journal_kept = self.journal_bytes().max(1);
                if self.journal_kept >= 2 * self.journal_reported.max(JOURNAL_BYTES_MAX) {
                    self.journal_reported = self.journal_kept;
                    let (path, bytes) = (self.path.escaped(), self.journal_kept);
                    tracing::warn!(%path, bytes, "the journal of a day grows: a backup, or a reader that does not go on, has held a part of it for long");
                }
                return Ok(());
            }
            std::thread::sleep(JOURNAL_LOOK);
        }
        Ok(())
    }

    /// Moves the journal into the file and empties it, if no reader needs it now. Returns whether it did.
    pub(crate) fn empty_journal(&mut self) -> Result<bool, StoreError> {
        let is_emptied = self.sql(sqlite::empty_journal(&self.connection))?;
        if is_emptied && std::mem::take(&mut self.journal_reported) > 0 {
            tracing::info!(path = %self.path.escaped(), "the journal of a day is empty again");
        }
        self.journal_kept = if is_emptied { 0 } else { self.journal_kept };
        Ok(is_emptied)
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
    bloom: PageBloomBuilder<'p>,
    headers: PageHeadersBuilder<'p>,
}

impl<'p> GroupsBuilder<'p> {
    /// Adds the next page.
    fn push(&mut self, partition: i64, seq: i64, page: &'p EncodedPage, checksum: u64) {
        self.counts.push(checksum, page.counts.as_deref());
        self.bloom.push(checksum, page.header.entities, page.words.as_deref());
        self.headers.push(partition, seq, &page.header, checksum);
    }

    /// Writes the rows of pages that were inserted with these ids, from `first` on.
    fn insert(self, connection: &Connection, first: i64) -> rusqlite::Result<()> {
        self.counts.insert(connection, first)?;
        self.bloom.insert(connection, first)?;
        self.headers.insert(connection, first)
    }
}

/// Removes what stands beside pages that the transaction removed.
pub(crate) fn forget(connection: &Connection, pages: impl IntoIterator<Item = i64>) -> rusqlite::Result<()> {
    page_groups::remove_empty(connection, page_counts::TABLE)?;
    page_bloom::remove_empty(connection)?;
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
    let (mut written, mut entities) = (WrittenPages::default(), 0);
    let mut groups = GroupsBuilder::default();
    let mut number_of = |partition: &Arc<str>| -> rusqlite::Result<i64> {
        if let Some(&id) = partitions.get(partition) {
            return Ok(id);
        }
        let id = partition_id(&transaction, partition)?;
        partitions.insert(partition.clone(), id);
        Ok(id)
    };
    for (id, Insert { owner, page }) in (next..).zip(pages) {
        let (partition, checksum) = match owner {
            PageOwner::One(name) => {
                let partition = number_of(name)?;
                written.rows.push((partition, page.header.first, page.header.raw_bytes));
                (partition, put_page(&transaction, id, (partition, table_address.at(name)), seq, page)?)
            }
            PageOwner::Many(parts) => {
                let numbers = parts.iter().map(|(name, _)| number_of(name)).collect::<rusqlite::Result<Vec<i64>>>()?;
                let list = numbers.iter().zip(parts).map(|(number, (name, rows))| (*number, &**name, *rows));
                let list = stored_list(table_address, list);
                shared_pages::put(&transaction, id, &list)?;
                let (raw_bytes, parts) = (u64::from(page.header.raw_bytes), parts.len() as u64);
                written.shared.push(SharedRow { id, seq, raw_bytes, parts });
                written.partitions.extend(numbers);
                (SHARED, put_page(&transaction, id, (SHARED, table_address.of_many(&list)), seq, page)?)
            }
        };
        groups.push(partition, seq, page, checksum);
        written.checksums.push(checksum);
        entities += i64::from(page.header.entities);
    }
    groups.insert(&transaction, next)?;
    transaction
        .prepare_cached(
            "UPDATE total SET seq_before = last_seq, entities_before = entities, last_seq = ?1, entities = entities + ?2,
             last_page = ?3",
        )?
        .execute(params![seq, entities, next - 1 + pages.len() as i64])?;
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

/// Whether a file belongs to an outbox, by the indexes that only such files have.
pub(crate) fn is_outbox(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_master WHERE name = 'page_unsent'")?.exists([])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::commit_range::CommitRange;
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
            commits: CommitRange::default(),
            checksum: 0,
        };
        let mut seq = 0;
        let mut insert = |file: &mut DayFile| {
            seq += 1;
            let page = EncodedPage { header: header.clone(), body: vec![7; 1 << 20], counts: None, words: None };
            file.insert(seq, &[Insert::of_one(&"web-1".into(), page)]).expect("written");
        };
        insert(&mut file);
        let reader = sqlite::open_to_read(&path).expect("opened");
        let held = reader.unchecked_transaction().expect("begun");
        held.query_row("SELECT count(*) FROM page", [], |row| row.get::<_, i64>(0)).expect("read");
        let kept = sqlite::JOURNAL_BYTES_KEPT.cast_unsigned();
        while file.journal_bytes() < 2 * kept {
            insert(&mut file);
        }
        sqlite::checkpoint(&file.connection, false).expect("moved what can be");
        insert(&mut file);
        assert!(file.journal_bytes() > 2 * kept, "what the reader needs is there");
        drop(held);
        sqlite::checkpoint(&file.connection, false).expect("moved");
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
