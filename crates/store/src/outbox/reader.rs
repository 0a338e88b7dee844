//! Reads waiting pages, beside the committer, in the order of its commits.

use super::SentPage;
use crate::StoreError;
use crate::format::catalog::{Committed, FileRole, LiveFile};
use crate::format::page::Page;
use crate::format::page_rows::{self, HEADER_COLUMNS, PageLocation, PageRow, partition_name, read_header};
use crate::format::shared_pages::{self, SHARED};
use crate::read::{OpenDayFile, Range, Reader, begin};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use rusqlite::params;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The most pages that one read returns.
const PAGES_PER_SCAN: usize = 2000;

/// The outbox, opened to read. For one thread.
pub struct OutboxReader {
    reader: Reader,
}

/// A waiting page without its rows.
#[derive(Clone, Debug)]
pub struct WaitingPage {
    page: PageRow,
    /// The rows of a part of a shared page. Its number changes when other partitions leave the page.
    body: Option<Vec<u8>>,
}

impl WaitingPage {
    /// The identity of the page, for its removal.
    pub fn sent(&self) -> SentPage {
        SentPage::of(&self.page)
    }

    /// The number of its partition in the file.
    pub fn partition(&self) -> i64 {
        self.page.partition
    }

    /// The commit of the page.
    pub fn seq(&self) -> i64 {
        self.page.seq
    }

    /// The number of its entities.
    pub fn entities(&self) -> u32 {
        self.page.header.entities
    }

    /// Bytes of its entities before encoding.
    pub fn raw_bytes(&self) -> u32 {
        self.page.header.raw_bytes
    }

    fn order(&self) -> (i64, PageLocation) {
        (self.page.seq, self.page.place)
    }
}

/// How far a file was read.
#[derive(Clone, Debug, Default)]
pub struct OutboxPosition {
    /// The last row of `page`; none before the first read.
    page: Option<i64>,
}

/// The pages of a file since the last read.
#[derive(Debug, Default)]
pub struct NewPages {
    /// New pages, in the order they were written.
    pub pages: Vec<WaitingPage>,
    /// Partitions, by number, with waiting pages outside `pages`.
    pub behind: BTreeSet<i64>,
    /// Whether another read would return more pages now.
    pub has_more: bool,
}

impl OutboxReader {
    /// Opens a data folder.
    pub fn open(data_dir: &Path) -> Result<OutboxReader, StoreError> {
        Ok(OutboxReader { reader: Reader::open(data_dir)? })
    }

    /// Closes files that are no longer live.
    pub fn forget_gone(&self) -> Result<(), StoreError> {
        self.reader.forget_gone()
    }

    /// The files of the outbox, the oldest day and generation first.
    pub fn files(&self) -> Result<Vec<LiveFile>, StoreError> {
        let mut files = self.reader.catalog().files()?;
        files.retain(|file| file.role == FileRole::Outbox);
        files.sort_by_key(|file| (file.day.start(), file.day.clone(), file.generation()));
        Ok(files)
    }

    /// The newest time in the text of any record that was ever committed.
    pub fn newest(&self) -> Result<Option<Ticks>, StoreError> {
        self.reader.catalog().newest()
    }

    /// The pages of `file` since `seen`, which advances. The first read returns no pages, only the partitions that have
    /// some.
    pub fn new_pages(&self, file: &LiveFile, seen: &mut OutboxPosition) -> Result<NewPages, StoreError> {
        self.with_snapshot(file, |opened, committed| match seen.page {
            None => first_scan(opened, committed, seen),
            Some(after) => next_scan(opened, committed, seen, after),
        })
    }

    /// The first `count` pages of a partition that are not in `known`, the oldest or the newest commit first. The flag
    /// tells whether there are more.
    pub fn pages_of(
        &self,
        file: &LiveFile,
        partition: i64,
        known: &HashSet<SentPage>,
        count: usize,
        newest_first: bool,
    ) -> Result<(Vec<WaitingPage>, bool), StoreError> {
        self.with_snapshot(file, |opened, committed| {
            let order = if newest_first { "DESC" } else { "ASC" };
            let select = format!(
                "SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?1 AND seq <= ?2
                 ORDER BY seq {order}, id {order} LIMIT ?3"
            );
            // One more page shows whether there are more.
            let limit = i64::try_from(known.len() + count + 1).unwrap_or(i64::MAX);
            let read = || {
                let mut statement = opened.connection.prepare_cached(&select)?;
                let rows = statement.query_map(params![partition, committed.seq, limit], read_header)?;
                let mut pages = rows.collect::<rusqlite::Result<Vec<PageRow>>>()?;
                let (first, last) = RowKey::range(Ticks::MIN, Ticks::MAX);
                let only = BTreeMap::from([(partition, Arc::from(""))]);
                pages.extend(shared_pages::pages_with(&opened.connection, first, last, &only)?);
                Ok(pages)
            };
            let mut pages = read().map_err(StoreError::sqlite(&opened.path))?;
            pages.retain(|page| committed.includes(page.seq) && !known.contains(&sent_of(page, partition)));
            pages.sort_by_key(|page| (page.seq, page.place));
            if newest_first {
                pages.reverse();
            }
            let mut waiting = Vec::with_capacity(count.min(pages.len()));
            for page in pages {
                if waiting.len() >= count {
                    return Ok((waiting, true));
                }
                add_waiting(opened, page, |of| of == partition, &mut waiting)?;
            }
            Ok((waiting, false))
        })
    }

    /// About how many entities of a partition wait, without those of shared pages.
    pub fn entities_of(&self, file: &LiveFile, partition: i64) -> Result<u64, StoreError> {
        self.with_snapshot(file, |opened, _| {
            let sum = "SELECT coalesce(sum(entities), 0) FROM page WHERE partition = ?1";
            let sum =
                opened.connection.prepare_cached(sum).and_then(|mut sum| sum.query_row([partition], |row| row.get(0)));
            sum.map_err(StoreError::sqlite(&opened.path))
        })
        .map(|entities: i64| u64::try_from(entities).unwrap_or(0))
    }

    /// The newest time of a waiting row of these partitions, between two times.
    pub fn newest_of(
        &self,
        table: &DayTable,
        partitions: &[String],
        (from, to): (Ticks, Ticks),
    ) -> Result<Option<Ticks>, StoreError> {
        let range = Range { partitions: Some(partitions.to_vec()), from, to, ..Range::all() };
        let row = match self.reader.scan(table, &range) {
            Ok(mut scan) => scan.next().transpose(),
            Err(error) => Err(error),
        };
        match row {
            Ok(row) => Ok(row.map(|row| row.key().time())),
            Err(StoreError::TableGone(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The name of a partition.
    pub fn partition(&self, file: &LiveFile, partition: i64) -> Result<Option<Arc<str>>, StoreError> {
        self.with_snapshot(file, |opened, _| {
            partition_name(&opened.connection, partition).map_err(StoreError::sqlite(&opened.path))
        })
    }

    /// The rows of a page; none if the page was removed, or merged with others.
    pub fn read(&self, file: &LiveFile, head: &WaitingPage) -> Result<Option<Page>, StoreError> {
        let opened = match self.reader.acquire(file) {
            Ok(opened) => opened,
            Err(StoreError::TableGone(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let read = (|| {
            begin(&opened)?;
            let name = opened.name_of(&head.page)?;
            if let Some(body) = &head.body {
                let page = Page::decode(&head.page.header, body);
                return page.map(Some).map_err(|error| page_rows::damaged(&opened.path, &head.page, error.to_string()));
            }
            let PageLocation::Row(id) = head.page.place else { return Ok(None) };
            let mut statement = opened
                .connection
                .prepare_cached("SELECT 1 FROM page WHERE id = ?1 AND checksum = ?2")
                .map_err(StoreError::sqlite(&opened.path))?;
            let is_there = statement.exists(params![id, head.page.header.checksum.cast_signed()]);
            drop(statement);
            match is_there.map_err(StoreError::sqlite(&opened.path))? {
                true => opened.read_page(&name, &head.page).map(Some),
                false => Ok(None),
            }
        })();
        self.reader.release(opened);
        read
    }

    /// Whether a local table has a row. False if it cannot be read.
    pub fn has_row(&self, table: &DayTable, partition: &str, key: RowKey) -> bool {
        self.reader.row(table, partition, key).is_ok_and(|row| row.is_some())
    }

    /// Reads in a snapshot of `file`. A removed file has no pages.
    pub(crate) fn with_snapshot<T: Default>(
        &self,
        file: &LiveFile,
        read: impl FnOnce(&OpenDayFile, &Committed) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // Read before the snapshot, so that the snapshot has every page up to it.
        let committed = self.reader.catalog().committed()?;
        let opened = match self.reader.acquire(file) {
            Ok(opened) => opened,
            Err(StoreError::TableGone(_)) => return Ok(T::default()),
            Err(error) => return Err(error),
        };
        let found = begin(&opened).and_then(|_| read(&opened, &committed));
        self.reader.release(opened);
        found
    }
}

fn first_scan(opened: &OpenDayFile, committed: &Committed, seen: &mut OutboxPosition) -> Result<NewPages, StoreError> {
    let mut read = || {
        let mut news = NewPages::default();
        let have = "SELECT id FROM partition WHERE EXISTS (SELECT 1 FROM page WHERE page.partition = partition.id)";
        let mut statement = opened.connection.prepare(have)?;
        for partition in statement.query_map([], |row| row.get(0))? {
            news.behind.insert(partition?);
        }
        shared_pages::each_partition(&opened.connection, committed.seq, |partition| {
            news.behind.insert(partition);
        })?;
        // Pages of an unfinished commit come last.
        let mut statement = opened.connection.prepare("SELECT id, seq FROM page ORDER BY id DESC")?;
        let mut rows = statement.query([])?;
        seen.page = Some(0);
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(1)? <= committed.seq {
                seen.page = Some(row.get(0)?);
                break;
            }
        }
        Ok(news)
    };
    read().map_err(StoreError::sqlite(&opened.path))
}

fn next_scan(
    opened: &OpenDayFile,
    committed: &Committed,
    seen: &mut OutboxPosition,
    after: i64,
) -> Result<NewPages, StoreError> {
    let mut news = NewPages::default();
    let read = || {
        let select = format!("SELECT {HEADER_COLUMNS} FROM page WHERE id > ?1 ORDER BY id LIMIT ?2");
        let mut statement = opened.connection.prepare_cached(&select)?;
        let limit = i64::try_from(PAGES_PER_SCAN).unwrap_or(i64::MAX);
        statement.query_map(params![after, limit], read_header)?.collect::<rusqlite::Result<Vec<_>>>()
    };
    let rows = read().map_err(StoreError::sqlite(&opened.path))?;
    news.has_more = rows.len() == PAGES_PER_SCAN;
    for mut page in rows {
        if page.seq > committed.seq {
            news.has_more = false;
            break;
        }
        if news.pages.len() >= PAGES_PER_SCAN {
            news.has_more = true;
            break;
        }
        if committed.includes(page.seq) {
            seen.page = Some(page.place.page());
            let filled = shared_pages::fill(&opened.connection, [&mut page]);
            if unless_damaged(filled.map_err(StoreError::sqlite(&opened.path)))?.is_some() {
                add_waiting(opened, page, |_| true, &mut news.pages)?;
            }
        } else {
            seen.page = Some(page.place.page());
        }
    }
    news.pages.sort_by_key(WaitingPage::order);
    Ok(news)
}

/// What is sent of a page for one of its partitions.
fn sent_of(page: &PageRow, partition: i64) -> SentPage {
    match page.partition {
        SHARED => SentPage::Part { page: page.place.page(), seq: page.seq, partition },
        _ => SentPage::of(page),
    }
}

/// What was read of a shared page; `None` if it is damaged. Then it stays in the outbox, as other damaged pages do.
fn unless_damaged<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(error) if error.is_damage() => {
            tracing::error!(%error, "a page of the outbox is damaged: its rows are not sent; run `daytable verify`");
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// Adds a page, or the wanted parts of a shared page with their rows. What is damaged of a shared page is left out, so that
/// the pages behind it are sent.
fn add_waiting(
    opened: &OpenDayFile,
    page: PageRow,
    wants: impl Fn(i64) -> bool,
    waiting: &mut Vec<WaitingPage>,
) -> Result<(), StoreError> {
    if page.partition != SHARED {
        waiting.push(WaitingPage { page, body: None });
        return Ok(());
    }
    let Some(shared) = unless_damaged(opened.read_shared(&page))? else { return Ok(()) };
    for part in shared.parts(&page).filter(|part| wants(part.partition)) {
        let PageLocation::Part { part: number, .. } = part.place else { continue };
        let copy = opened.check_part(&part, &shared).and_then(|()| {
            let copy = shared.copy_of(number as usize);
            copy.map_err(|error| page_rows::damaged(&opened.path, &part, error.to_string()))
        });
        let Some(copy) = unless_damaged(copy)? else { continue };
        waiting.push(WaitingPage { page: PageRow { header: copy.header, ..part }, body: Some(copy.body) });
    }
    Ok(())
}
