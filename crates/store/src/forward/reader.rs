//! Reads the commits of this folder, beside the committer, in their order.
//!
//! The pages of a commit that a receiver lacks stand in their files as the commit wrote them: the committer neither merges nor
//! seals them (`Committer::held`). Their order is that of the commits; within one, that of the names of the
//! files, and then of the pages' numbers. The committer computed the checksum of each commit in the same order, so a reader
//! that has read a commit knows whether it has all of it: [`ForwardError::Incomplete`] means that pages were merged or sealed,
//! and that the receiver has to compare.

use super::intervals::HeadInterval;
use super::position::{ForwardPosition, checksum_with};
use super::wire::{WireOwner, WirePage};
use crate::StoreError;
use crate::format::catalog::forwarding::ForwardState;
use crate::format::catalog::{Committed, DayState, FileRole, LiveFile};
use crate::format::commit_range::CommitRange;
use crate::format::page::{PageBuilder, TableAddress};
use crate::format::page_rows::{self, HEADER_COLUMNS, PageRow, read_header};
use crate::format::shared_pages::{self, SHARED};
use crate::read::{OpenDayFile, Range, Reader, Row, begin};
use bytes::Bytes;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use rusqlite::params;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Headers of pages that one look at a file reads at first, and of how many requests the rows are. More are read if one commit has more.
const HEADERS_AT_ONCE: usize = 512;
const REQUESTS_AT_ONCE: usize = 4;
/// The page cache of a connection in KiB. Bodies are read once, and a commit of another connection makes the cache void.
const CACHE_KIB: i64 = 256;

/// Why commits cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The folder cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The commits after the position are no longer in their pages. Whole pages have to be compared.
    #[error("the pages of commit {0} are not as that commit wrote them")]
    Incomplete(i64),
}

/// About how much a request has. It has one page at least, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Bytes on the wire.
    pub bytes: usize,
    /// Bytes of rows before they were encoded.
    pub raw_bytes: usize,
    /// Pages.
    pub pages: usize,
}

impl RequestLimits {
    /// Half of it, for a receiver that refused as much. `None` for a request of one page.
    pub fn half(self) -> Option<RequestLimits> {
        let half = RequestLimits { bytes: self.bytes / 2, raw_bytes: self.raw_bytes / 2, pages: self.pages / 2 };
        (half.pages > 0).then_some(half)
    }

    /// Twice of it, at most `most`.
    pub fn twice(self, most: RequestLimits) -> RequestLimits {
        RequestLimits {
            bytes: self.bytes.saturating_mul(2).min(most.bytes),
            raw_bytes: self.raw_bytes.saturating_mul(2).min(most.raw_bytes),
            pages: self.pages.saturating_mul(2).min(most.pages),
        }
    }

    fn are_reached(&self, pages: &[WirePage], (bytes, raw_bytes): (usize, usize)) -> bool {
        bytes >= self.bytes || raw_bytes >= self.raw_bytes || pages.len() >= self.pages
    }
}

/// Pages, and the position after them.
#[derive(Debug)]
pub struct CommitPages {
    /// In the order of their commits.
    pub pages: Vec<WirePage>,
    /// The position after them.
    pub to: ForwardPosition,
    /// Pages whose bytes are damaged here. They are not sent.
    pub damaged: u64,
    /// Whether these are all that were committed when they were read, or all up to the commit that was asked for.
    pub is_all: bool,
}

/// The commits of a folder, opened to read. For one thread.
pub struct ForwardReader {
    reader: Reader,
    /// Of each file: all pages up to this number are of commits that were read.
    read: HashMap<String, i64>,
}

/// Pages of a comparison.
#[derive(Debug, Default)]
pub struct CopiedPages {
    /// With all rows of commits after the one that was asked for, and perhaps with earlier ones.
    pub pages: Vec<WirePage>,
    /// Pages whose bytes are damaged here. They are not sent.
    pub damaged: u64,
}

/// Where a comparison of a whole folder stands.
#[derive(Clone, Debug, Default)]
pub struct CopyCursor {
    /// The file that is read, and those before it.
    file: Option<String>,
    /// The last page of an open file.
    page: i64,
    /// The last row of a sealed file.
    row: Option<RowKey>,
}

impl ForwardReader {
    /// Opens a data folder.
    pub fn open(data_dir: &Path) -> Result<ForwardReader, StoreError> {
        let reader = Reader::open(data_dir)?.with_page_cache(CACHE_KIB);
        Ok(ForwardReader { reader, read: HashMap::new() })
    }

    /// Frees what can be read again, while there is nothing to read.
    pub fn release_memory(&self) {
        self.reader.release_memory();
    }

    /// The origin and the last commit.
    pub fn state(&self) -> Result<ForwardState, StoreError> {
        self.reader.catalog().forward_state()
    }

    /// The checksum after a commit, if it is kept.
    pub fn checksum_of(&self, commit: i64) -> Result<Option<u64>, StoreError> {
        self.reader.catalog().checksum_of(commit)
    }

    /// Begins at another position than the one that was read last.
    pub fn rewind(&mut self) {
        self.read.clear();
    }

    /// The pages after `from`, about as many as `limits` says. `to` equals `from` if there are none.
    pub fn pages_after(&mut self, from: ForwardPosition, limits: RequestLimits) -> Result<CommitPages, ForwardError> {
        self.pages_between(from, i64::MAX, limits)
    }

    /// The pages after `from` of commits up to `until`, about as many as `limits` says. `to` equals `from` if there are none.
    pub fn pages_between(
        &mut self,
        from: ForwardPosition,
        until: i64,
        limits: RequestLimits,
    ) -> Result<CommitPages, ForwardError> {
        let taken = self.with_headers_after((from, until), limits, |reader, opened, headers, horizon| {
            reader.take(opened, headers, horizon, from, limits)
        })?;
        Ok(taken.unwrap_or(CommitPages { pages: Vec::new(), to: from, damaged: 0, is_all: true }))
    }

    /// The checksum after this many pages of the next commit, if it has as many.
    pub fn checksum_within(&mut self, from: ForwardPosition, pages: u32) -> Result<Option<u64>, ForwardError> {
        let count = pages as usize;
        let limits = RequestLimits { bytes: usize::MAX, raw_bytes: usize::MAX, pages: count };
        let found = self.with_headers_after((from, i64::MAX), limits, |_, _, headers, _| {
            let of_one =
                headers.len() >= count && headers.iter().take(count).all(|(_, page)| page.seq == headers[0].1.seq);
            let sum = |sum, (_, page): &(usize, PageRow)| checksum_with(sum, page.header.checksum);
            Ok(of_one.then(|| headers.iter().take(count).fold(from.checksum, sum)))
        });
        found.map(Option::flatten)
    }

    /// Passes the headers of pages after `from`, those of a request at least if there are as many, with the last commit that
    /// they have as a whole, and the last one that there is up to `until`. `None` without a later commit.
    fn with_headers_after<T>(
        &mut self,
        (from, until): (ForwardPosition, i64),
        limits: RequestLimits,
        pass: impl Fn(&ForwardReader, &[OpenDayFile], Vec<(usize, PageRow)>, (i64, i64)) -> Result<T, ForwardError>,
    ) -> Result<Option<T>, ForwardError> {
        // Before the files, so that their snapshots have all of these commits.
        let committed = self.reader.catalog().committed()?;
        let last = committed.seq.min(until);
        if last <= from.commit {
            return Ok(None);
        }
        let files = self.files_after(from.commit)?;
        let (pages, raw_bytes) = (HEADERS_AT_ONCE.max(limits.pages), limits.raw_bytes.saturating_mul(REQUESTS_AT_ONCE));
        let mut limit = (pages, raw_bytes);
        loop {
            let mut opened = Vec::with_capacity(files.len());
            let found = self.headers_after(&files, (&committed, last), from, limit, &mut opened);
            let result = found.and_then(|found| match found {
                None => Ok(None),
                Some((headers, horizon)) => pass(self, &opened, headers, (horizon, last)).map(Some),
            });
            opened.into_iter().for_each(|file| self.reader.release(file));
            match result? {
                Some(passed) => return Ok(Some(passed)),
                // One commit has more pages in a file.
                None => limit = (limit.0 * 4, limit.1.saturating_mul(4)),
            }
        }
    }

    /// Files with pages of commits after `commit`, by name.
    fn files_after(&mut self, commit: i64) -> Result<Vec<LiveFile>, StoreError> {
        let mut files = self.reader.catalog().files()?;
        files.retain(|file| file.role != FileRole::Sealed && file.last_seq > commit);
        files.sort_by(|a, b| a.name.cmp(&b.name));
        if self.read.len() > files.len() + 64 {
            self.read.retain(|name, _| files.iter().any(|file| file.name == *name));
        }
        Ok(files)
    }

    /// The headers of pages after a position, each with its file, and the last commit that they have as a whole. `None` if
    /// they have not even one.
    #[allow(clippy::type_complexity)]
    fn headers_after(
        &mut self,
        files: &[LiveFile],
        (committed, last): (&Committed, i64),
        from: ForwardPosition,
        (pages, raw_bytes): (usize, usize),
        opened: &mut Vec<OpenDayFile>,
    ) -> Result<Option<(Vec<(usize, PageRow)>, i64)>, ForwardError> {
        let (mut headers, mut horizon) = (Vec::new(), last);
        for file in files {
            let open = match self.reader.acquire(file) {
                Ok(open) => open,
                // It was sealed or dropped since.
                Err(StoreError::TableGone(_)) => return Err(ForwardError::Incomplete(from.commit + 1)),
                Err(error) => return Err(error.into()),
            };
            opened.push(open);
            let open = &opened[opened.len() - 1];
            begin(open)?;
            let read_to = self.read.get(&file.name).copied().unwrap_or(0);
            let select = format!("SELECT {HEADER_COLUMNS} FROM page WHERE id > ?1 AND seq > ?2 ORDER BY id");
            let mut read = || {
                let mut statement = open.connection.prepare_cached(&select)?;
                let (mut found, mut raw) = (Vec::new(), 0usize);
                for row in statement.query_map(params![read_to, from.commit], read_header)? {
                    let row: PageRow = row?;
                    if found.len() >= pages || raw >= raw_bytes {
                        // Its commit may have pages before it.
                        horizon = horizon.min(row.seq - 1);
                        break;
                    }
                    raw = raw.saturating_add(row.header.raw_bytes as usize);
                    found.push(row);
                }
                Ok(found)
            };
            let found: Vec<PageRow> = read().map_err(StoreError::sqlite(&open.path))?;
            // What is behind the first page after the position is not read again.
            if let Some(first) = found.iter().filter_map(PageRow::id).min() {
                self.read.insert(file.name.clone(), first - 1);
            }
            let number = opened.len() - 1;
            headers.extend(found.into_iter().filter(|page| committed.includes(page.seq)).map(|page| (number, page)));
        }
        if horizon <= from.commit {
            return Ok(None);
        }
        headers.retain(|(_, page)| page.seq <= horizon);
        headers.sort_by_key(|(file, page)| (page.seq, *file, page.place));
        Ok(Some((headers, horizon)))
    }

    fn take(
        &self,
        opened: &[OpenDayFile],
        headers: Vec<(usize, PageRow)>,
        (horizon, last): (i64, i64),
        from: ForwardPosition,
        limits: RequestLimits,
    ) -> Result<CommitPages, ForwardError> {
        let mut taken = CommitPages {
            pages: Vec::new(),
            to: ForwardPosition {
                commit: from.commit,
                pages: from.pages,
                checksum: from.checksum,
                ..ForwardPosition::default()
            },
            damaged: 0,
            is_all: false,
        };
        // A merged page has the rows of several commits.
        if let Some((_, merged)) = headers.iter().find(|(_, page)| page.header.commits.before > 0) {
            return Err(ForwardError::Incomplete(merged.seq));
        }
        // The first commit may have been begun by an earlier request.
        let (mut bytes, mut raw_bytes) = (0, 0);
        let mut headers = headers.into_iter().skip(from.pages as usize).peekable();
        while let Some((file, page)) = headers.next() {
            let seq = page.seq;
            taken.to.checksum = checksum_with(taken.to.checksum, page.header.checksum);
            match wire_page(&opened[file], page) {
                Ok(page) => {
                    bytes += page.bytes();
                    raw_bytes += page.raw_bytes() as usize;
                    taken.pages.push(page);
                }
                Err(error) if error.is_damage() => {
                    tracing::error!(%error, "a page is damaged: its rows are not forwarded; run `daytable verify`");
                    taken.damaged += 1;
                }
                Err(error) => return Err(error.into()),
            }
            if headers.peek().is_none_or(|(_, next)| next.seq > seq) {
                taken.to.commit = seq;
                taken.to.pages = 0;
                self.check(taken.to)?;
            } else {
                taken.to.pages += 1;
            }
            if limits.are_reached(&taken.pages, (bytes, raw_bytes)) {
                break;
            }
        }
        if headers.peek().is_none() && taken.to.pages == 0 {
            // Commits without pages move positions of sources only.
            taken.to.commit = horizon;
            self.check(taken.to)?;
            taken.is_all = horizon == last;
        }
        Ok(taken)
    }

    /// The end of the commit after which the newest pages begin, about as many as a request has. `None` if all pages after `from`
    /// are no more than that.
    pub fn before_newest(&self, from: i64, limits: RequestLimits) -> Result<Option<ForwardPosition>, StoreError> {
        let committed = self.reader.catalog().committed()?;
        // Of each file, the commits and bytes of its last pages.
        let mut newest: Vec<(i64, usize)> = Vec::new();
        let files = self.reader.catalog().files()?.into_iter();
        for file in files.filter(|file| file.role != FileRole::Sealed && file.last_seq > from) {
            let opened = match self.reader.acquire(&file) {
                Ok(opened) => opened,
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            };
            let select = "SELECT seq, raw_bytes FROM page WHERE seq > ?1 AND seq <= ?2 ORDER BY id DESC LIMIT ?3";
            let pages = opened.connection.prepare_cached(select).and_then(|mut statement| {
                let limit = i64::try_from(limits.pages.saturating_add(1)).unwrap_or(i64::MAX);
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, u32>(1)? as usize));
                statement.query_map(params![from, committed.seq, limit], read)?.collect::<rusqlite::Result<Vec<_>>>()
            });
            let pages = pages.map_err(StoreError::sqlite(&opened.path));
            self.reader.release(opened);
            newest.extend(pages?.into_iter().filter(|(seq, _)| committed.includes(*seq)));
        }
        newest.sort_unstable_by(|a, b| b.cmp(a));
        let mut raw_bytes = 0usize;
        let is_over = |(at, (_, bytes)): &(usize, &(i64, usize))| {
            raw_bytes = raw_bytes.saturating_add(*bytes);
            raw_bytes > limits.raw_bytes || *at >= limits.pages
        };
        let Some((_, (commit, _))) = newest.iter().enumerate().find(is_over) else { return Ok(None) };
        let checksum = self.checksum_of(*commit)?;
        Ok(checksum.map(|checksum| ForwardPosition { commit: *commit, checksum, ..ForwardPosition::default() }))
    }

    /// Compares the checksum of the pages that were read with that of the commit.
    fn check(&self, to: ForwardPosition) -> Result<(), ForwardError> {
        let is_whole = self.checksum_of(to.commit)?.is_none_or(|checksum| checksum == to.checksum);
        if is_whole { Ok(()) } else { Err(ForwardError::Incomplete(to.commit)) }
    }

    /// Pages with all rows of commits after `commit`, and perhaps rows of commits before, to be compared. `None` at the end.
    pub fn copy_after(
        &mut self,
        commit: i64,
        cursor: &mut CopyCursor,
        limits: RequestLimits,
    ) -> Result<Option<CopiedPages>, ForwardError> {
        loop {
            let Some(file) = self.next_copied(commit, cursor)? else { return Ok(None) };
            let copied = match file.role {
                FileRole::Sealed => self.copy_of_sealed(&file, cursor, limits),
                _ => self.copy_of_open(&file, commit, cursor, limits),
            };
            let (copied, is_over) = match copied {
                // It was sealed since: the sealed file is among those to come, or the cursor goes on behind it.
                Err(StoreError::TableGone(_)) => return Err(ForwardError::Incomplete(commit + 1)),
                copied => copied?,
            };
            if is_over {
                *cursor = CopyCursor { file: Some(file.name.clone()), page: i64::MAX, row: None };
            }
            if !copied.pages.is_empty() || copied.damaged > 0 {
                return Ok(Some(copied));
            }
        }
    }

    /// The file to read next. Restored days are copies, and their rows were forwarded when they came.
    fn next_copied(&self, commit: i64, cursor: &CopyCursor) -> Result<Option<LiveFile>, StoreError> {
        let restored: Vec<DayTable> = self
            .reader
            .catalog()
            .days()?
            .into_iter()
            .filter(|day| matches!(day.state, DayState::Restored { .. }))
            .map(|day| day.table)
            .collect();
        let mut files = self.reader.catalog().files()?;
        files.retain(|file| file.last_seq > commit && !restored.contains(&file.day));
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let is_left = |file: &LiveFile| match &cursor.file {
            None => true,
            Some(last) if *last == file.name => cursor.page < i64::MAX,
            Some(last) => file.name > *last,
        };
        Ok(files.into_iter().find(is_left))
    }

    fn copy_of_open(
        &mut self,
        file: &LiveFile,
        commit: i64,
        cursor: &mut CopyCursor,
        limits: RequestLimits,
    ) -> Result<(CopiedPages, bool), StoreError> {
        let headers_max = limits.pages.max(1);
        let committed = self.reader.catalog().committed()?;
        let after = if cursor.file.as_deref() == Some(&file.name) { cursor.page } else { 0 };
        let opened = self.reader.acquire(file)?;
        let read = (|| {
            begin(&opened)?;
            let select = format!("SELECT {HEADER_COLUMNS} FROM page WHERE id > ?1 AND seq > ?2 ORDER BY id LIMIT ?3");
            let headers = (|| {
                let mut statement = opened.connection.prepare_cached(&select)?;
                let limit = i64::try_from(headers_max).unwrap_or(i64::MAX);
                statement.query_map(params![after, commit, limit], read_header)?.collect::<rusqlite::Result<Vec<_>>>()
            })()
            .map_err(StoreError::sqlite(&opened.path))?;
            let (mut is_over, mut copied) = (headers.len() < headers_max, CopiedPages::default());
            let (mut bytes, mut raw_bytes) = (0, 0);
            let mut headers = headers.into_iter().peekable();
            while let Some(page) = headers.next() {
                cursor.file = Some(file.name.clone());
                cursor.page = page.place.page();
                if !committed.includes(page.seq) {
                    continue;
                }
                match wire_page(&opened, page) {
                    Ok(page) => {
                        bytes += page.bytes();
                        raw_bytes += page.raw_bytes() as usize;
                        copied.pages.push(page);
                    }
                    Err(error) if error.is_damage() => {
                        tracing::error!(%error, "a page is damaged: its rows are not forwarded; run `daytable verify`");
                        copied.damaged += 1;
                    }
                    Err(error) => return Err(error),
                }
                if limits.are_reached(&copied.pages, (bytes, raw_bytes)) && headers.peek().is_some() {
                    is_over = false;
                    break;
                }
            }
            Ok((copied, is_over))
        })();
        self.reader.release(opened);
        read
    }

    fn copy_of_sealed(
        &mut self,
        file: &LiveFile,
        cursor: &mut CopyCursor,
        limits: RequestLimits,
    ) -> Result<(CopiedPages, bool), StoreError> {
        let from = if cursor.file.as_deref() == Some(&file.name) { cursor.row } else { None };
        let to = from.map_or(Ticks::MAX, |key| key.time());
        // A scan has the rows of all partitions in the order of their keys. Keys of two partitions may be equal: the rows of
        // the last time are sent again.
        let mut scan = self.reader.scan(&file.day, &Range { to, ..Range::all() })?;
        let (mut rows, mut bytes, mut last, mut is_over) = (Vec::<Row>::new(), 0, None::<RowKey>, true);
        // Each partition has a page at least.
        let mut partitions = HashSet::new();
        for row in &mut scan {
            let row = row?;
            let is_next_time = last.is_none_or(|last| last.time() != row.key().time());
            let is_full = bytes >= limits.raw_bytes || partitions.len() >= limits.pages;
            if is_full && is_next_time && from.is_none_or(|from| row.key().time() < from.time()) {
                is_over = false;
                break;
            }
            bytes += row.properties().map(|(name, value)| name.len() + value.text().len() + 16).sum::<usize>();
            last = Some(row.key());
            if !partitions.contains(&row.partition) {
                partitions.insert(row.partition.clone());
            }
            rows.push(row);
        }
        drop(scan);
        let pages = built_pages(&file.day, file.last_seq, &rows);
        cursor.file = Some(file.name.clone());
        cursor.row = last;
        Ok((CopiedPages { pages, damaged: 0 }, is_over))
    }

    /// Closes files that are no longer live.
    pub fn forget_gone(&self) -> Result<(), StoreError> {
        self.reader.forget_gone()
    }

    /// Records and bytes of open files that a receiver lacks, about: the commits between its position and the last one, without
    /// those of its head, and the time of the first of them.
    pub fn behind(&self, from: i64, head: Option<HeadInterval>) -> Result<Behind, StoreError> {
        let (after, up_to) = head.map_or((i64::MAX, i64::MAX), |head| (head.begin.commit, head.end.commit));
        let mut behind = Behind::default();
        let committed = self.reader.catalog().committed()?;
        if committed.seq <= from {
            return Ok(behind);
        }
        for file in
            self.reader.catalog().files()?.iter().filter(|file| file.role != FileRole::Sealed && file.last_seq > from)
        {
            let opened = match self.reader.acquire(file) {
                Ok(opened) => opened,
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            };
            let read_to = self.read.get(&file.name).copied().unwrap_or(0);
            let select = "SELECT coalesce(sum(records), 0), coalesce(sum(raw_bytes), 0), min(arrived - arrived_span),
                               coalesce(sum(records) FILTER (WHERE seq <= ?4), 0) FROM page
                          WHERE id > ?1 AND seq > ?2 AND seq <= ?3 AND (seq <= ?4 OR seq > ?5)";
            let sums = opened.connection.prepare_cached(select).and_then(|mut statement| {
                statement.query_row(params![read_to, from, committed.seq, after, up_to], |row| {
                    Ok((
                        row.get::<_, i64>(0)?,
                        row.get::<_, i64>(1)?,
                        row.get::<_, Option<i64>>(2)?,
                        row.get::<_, i64>(3)?,
                    ))
                })
            });
            let sums = sums.map_err(StoreError::sqlite(&opened.path));
            self.reader.release(opened);
            let (records, bytes, oldest, backlog) = sums?;
            behind.records += records.unsigned_abs();
            behind.backlog += if head.is_some() { backlog.unsigned_abs() } else { 0 };
            behind.bytes += bytes.unsigned_abs();
            let oldest = oldest.and_then(Ticks::new);
            behind.oldest = behind.oldest.into_iter().chain(oldest).min();
        }
        Ok(behind)
    }
}

/// Records of a day after a commit, and their bytes before they were encoded.
///
/// # Errors
///
/// The folder cannot be read.
pub fn day_after(data_dir: &Path, day: &DayTable, commit: i64) -> Result<(u64, u64), StoreError> {
    let reader = Reader::open(data_dir)?;
    let (mut records, mut bytes) = (0u64, 0u64);
    for file in reader.files_of(day)?.iter().filter(|file| file.last_seq > commit) {
        if let (FileRole::Sealed, Some(seal)) = (file.role, &file.seal) {
            // A sealed file does not know the commits of its rows.
            records += seal.rows;
            bytes += seal.bytes;
            continue;
        }
        let opened = reader.acquire(file)?;
        let select = "SELECT coalesce(sum(records), 0), coalesce(sum(raw_bytes), 0) FROM page WHERE seq > ?1";
        let sums =
            opened.connection.query_row(select, [commit], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        let sums = sums.map_err(StoreError::sqlite(&opened.path));
        reader.release(opened);
        let (of_file, raw) = sums?;
        records += of_file.unsigned_abs();
        bytes += raw.unsigned_abs();
    }
    Ok((records, bytes))
}

/// How much a receiver lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// Records.
    pub records: u64,
    /// Those of them that are older than records which the receiver has: the newest were sent first.
    pub backlog: u64,
    /// Bytes of the rows before they were encoded.
    pub bytes: u64,
    /// When the first of them was committed.
    pub oldest: Option<Ticks>,
}

/// A page of an open file with all that the wire needs.
fn wire_page(opened: &OpenDayFile, mut page: PageRow) -> Result<WirePage, StoreError> {
    let owner = if page.partition == SHARED {
        let filled = shared_pages::fill(&opened.connection, [&mut page]);
        filled.map_err(StoreError::sqlite(&opened.path))?;
        let table = TableAddress::new(&opened.file.day);
        let names = shared_pages::names_of(&opened.connection, &opened.path, table, &page)?;
        let list = page.shared.as_ref().map(|shared| shared.stored().to_vec()).unwrap_or_default();
        WireOwner::Many(list, names)
    } else {
        WireOwner::One(opened.name_of(&page)?)
    };
    let body = {
        let mut bodies = opened.bodies.borrow_mut();
        Bytes::copy_from_slice(page_rows::read_body(&opened.connection, &opened.path, &page, &mut bodies)?)
    };
    let wire = WirePage { table: opened.file.day.clone(), owner, seq: page.seq, header: page.header.clone(), body };
    // What is damaged here is said here, and does not stop the forwarding.
    wire.check().map_err(|error| page_rows::damaged(&opened.path, &page, error.to_string()))?;
    Ok(wire)
}

/// Pages of rows that are in none, for a comparison.
fn built_pages(table: &DayTable, seq: i64, rows: &[Row]) -> Vec<WirePage> {
    let mut by_partition: HashMap<&Arc<str>, Vec<&Row>> = HashMap::new();
    for row in rows {
        by_partition.entry(&row.partition).or_default().push(row);
    }
    let mut pages = Vec::new();
    for (partition, rows) in by_partition {
        let mut batches: Vec<Batch> = vec![Batch::new(table.clone(), partition.clone())];
        for row in rows {
            if row.key().item() == 0 && batches.last().is_some_and(|batch| !batch.has_room(100, 0)) {
                batches.push(Batch::new(table.clone(), partition.clone()));
            }
            let Some(batch) = batches.last_mut() else { continue };
            let mut writer = batch.begin(row.key(), row.level());
            for (name, value) in row.properties() {
                writer.add(name, value);
            }
            writer.finish();
        }
        let mut builder = PageBuilder::new();
        batches.iter().for_each(|batch| builder.push_batch(batch));
        let address = TableAddress::new(table).at(partition);
        for page in builder.build().pages {
            let mut header = page.header;
            header.commits = CommitRange::default();
            header.checksum = address.stored_checksum(&header, seq);
            pages.push(WirePage {
                table: table.clone(),
                owner: WireOwner::One(partition.clone()),
                seq,
                header,
                body: page.body.into(),
            });
        }
    }
    pages
}
