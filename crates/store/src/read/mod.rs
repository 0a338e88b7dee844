//! Reading a data folder, in any process, while another process writes it.
//!
//! A reader first opens its snapshot of a day, then reads `committed`, and ignores pages above it. It holds a snapshot
//! for some [`SnapshotTimes`], and longer only if it has not advanced yet: the journal begins again only when no reader
//! needs it. The length of the journal says in any process whether that is urgent. Scans whose caller does something
//! else, or waits, end their snapshots by way of [`held`]. A [`Scan`] reads rows, `counts` reads the headers of pages
//! and the footers of sealed files, and `row` reads one row by its three keys.
//!
//! A day has one or several live files: open files, a sealed file, or a sealed file and a file of late records. A file
//! may be removed while a reader opens it, because its day is sealed. So a reader compares the live files before and
//! after opening them, and starts again if they changed (`Reader::with_files`).

pub(crate) mod columns;
pub(crate) mod counts;
mod follow;
pub(crate) mod held;
mod open_day_file;
pub(crate) mod open_scan;
mod overlaps;
mod row;
pub(crate) mod scan;
pub(crate) mod sealed_scan;
pub(crate) mod slices;
mod superseded_keys;
pub(crate) mod walk;

pub use follow::FollowPosition;
pub(crate) use open_day_file::{OpenDayFile, begin, check_snapshot, end, partition_names};
pub use row::Row;

use crate::StoreError;
use crate::format::catalog::{Catalog, LiveFile};
use crate::format::day_file::read_total;
use crate::format::page::earliest_first_key;
use crate::format::page_rows::{HEADER_COLUMNS, PageRow, read_header};
use crate::format::sealed::{self, SealedFile, SealedSizes};
use crate::format::shared_pages;
use crate::source::SourceState;
use crate::sqlite;
use columns::RowChooser;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_platform::budget::MemoryBudget;
use open_day_file::{partition_id, partitions_of};
use rusqlite::{Connection, params};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a reader holds one snapshot of a day if it advances within that time.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotTimes {
    /// Usually.
    pub usual: Duration,
    /// While the journal of the day is longer than 24 MiB.
    pub of_long_journal: Duration,
}

impl Default for SnapshotTimes {
    fn default() -> SnapshotTimes {
        SnapshotTimes { usual: Duration::from_secs(5), of_long_journal: Duration::from_millis(100) }
    }
}

/// How often the live files may change in a row before that is an error.
pub(crate) const CHANGES_MAX: usize = 100;
/// Connections that a reader caches.
const CONNECTIONS_KEPT: usize = 64;
/// Sealed files that a reader keeps open, with their footers in memory: one or two megabytes each.
const SEALED_KEPT: usize = 8;

/// A data folder, opened to read. A reader belongs to one thread: each thread opens its own.
pub struct Reader {
    data: PathBuf,
    catalog: Catalog,
    connections: RefCell<HashMap<String, Vec<Connection>>>,
    sealed: RefCell<HashMap<String, SealedFile>>,
    sealed_sizes: SealedSizes,
    snapshot_times: SnapshotTimes,
    memory: Option<MemoryBudget>,
    /// The page cache of a connection to a day in KiB, if it is not the usual one.
    page_cache_kib: Option<i64>,
}

/// A day-table, as `tables` shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSummary {
    /// The day-table.
    pub table: DayTable,
    /// The number of rows, items included. A row that is in two files counts twice.
    pub rows: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// The time of its oldest record.
    pub first_time: Option<Ticks>,
    /// The time of its newest record.
    pub last_time: Option<Ticks>,
    /// `sealed` if all files are sealed, otherwise `open`.
    pub state: &'static str,
    /// When the table expires, by the rules of the last daemon; none if no rule covers it.
    pub expires: Option<Ticks>,
}

/// A selection of rows: of some or all partitions, between two times (both included).
#[derive(Clone)]
pub struct Range {
    /// PartitionKeys; none means all.
    pub partitions: Option<Vec<String>>,
    /// The oldest time.
    pub from: Ticks,
    /// The newest time.
    pub to: Ticks,
    /// If set, rows of records may be left out that cannot have this text in a value
    /// ([`Needle`](daytable_model::needle::Needle)).
    pub contains: Option<String>,
    /// If set, rows of records may be left out that have no level, or a less severe one.
    pub level: Option<Level>,
    /// If set, rows of records may be left out that it does not choose.
    pub chooser: Option<Arc<dyn RowChooser>>,
    /// If set, rows of later commits in open files are left out.
    pub up_to_commit: Option<i64>,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Range { partitions, from, to, contains, level, chooser, up_to_commit } = self;
        let chooser = chooser.is_some();
        let mut shown = f.debug_struct("Range");
        shown.field("partitions", partitions).field("from", from).field("to", to);
        shown.field("contains", contains).field("level", level).field("chooser", &chooser);
        shown.field("up_to_commit", up_to_commit).finish()
    }
}

impl Range {
    /// Every row.
    pub fn all() -> Range {
        Range {
            partitions: None,
            from: Ticks::MIN,
            to: Ticks::MAX,
            contains: None,
            level: None,
            chooser: None,
            up_to_commit: None,
        }
    }
}

/// The number of records of one partition, minute and level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteCount {
    /// The PartitionKey.
    pub partition: Arc<str>,
    /// Minutes since the Unix epoch.
    pub minute: i64,
    /// The level; none for records without a level.
    pub level: Option<Level>,
    /// The number of records.
    pub records: u64,
}

/// A day-table and the times of its oldest and newest records; none if it has no records.
pub(crate) type TableTimes = (DayTable, Option<(Ticks, Ticks)>);

impl Reader {
    /// Opens a data folder to read.
    pub fn open(data_dir: &Path) -> Result<Reader, StoreError> {
        Ok(Reader::of(data_dir, Catalog::open_to_read(data_dir)?))
    }

    /// A reader without records, in place of a data folder that does not exist: all records are in a remote store.
    pub fn empty(data_dir: &Path) -> Result<Reader, StoreError> {
        Ok(Reader::of(data_dir, Catalog::empty(data_dir)?))
    }

    fn of(data_dir: &Path, catalog: Catalog) -> Reader {
        Reader {
            data: data_dir.into(),
            catalog,
            connections: RefCell::default(),
            sealed: RefCell::default(),
            sealed_sizes: SealedSizes::default(),
            snapshot_times: SnapshotTimes::default(),
            memory: None,
            page_cache_kib: None,
        }
    }

    /// Returns this reader for questions that share this memory: its scans end with an error where there is too little.
    pub fn with_memory(self, memory: MemoryBudget) -> Reader {
        Reader { memory: Some(memory), ..self }
    }

    /// Whether a scan that has this many bytes of pages gets no more.
    pub(crate) fn is_short_for(&self, bytes: usize) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.is_short_for(bytes))
    }

    /// Returns this reader with other step sizes for sealed files.
    pub fn with_sealed_sizes(self, sealed_sizes: SealedSizes) -> Reader {
        Reader { sealed_sizes, ..self }
    }

    /// Returns this reader with other times of snapshots.
    pub fn with_snapshot_times(self, snapshot_times: SnapshotTimes) -> Reader {
        Reader { snapshot_times, ..self }
    }

    /// Returns this reader with another page cache, in KiB, of each connection to a day.
    pub(crate) fn with_page_cache(self, kib: i64) -> Reader {
        Reader { page_cache_kib: Some(kib), ..self }
    }

    /// Frees cached pages, and what else can be read again.
    pub(crate) fn release_memory(&self) {
        sqlite::release_memory(self.catalog.connection());
        self.connections.borrow().values().flatten().for_each(sqlite::release_memory);
        self.sealed.borrow_mut().clear();
    }

    /// How long a snapshot lasts.
    pub(crate) fn snapshot_times(&self) -> SnapshotTimes {
        self.snapshot_times
    }

    /// Every live day-table, the oldest first.
    pub fn tables(&self) -> Result<Vec<TableSummary>, StoreError> {
        let rules = self.catalog.rules()?;
        let kept = self.catalog.kept_days()?;
        let mut tables: Vec<TableSummary> = Vec::new();
        for file in self.catalog.files()? {
            let Some((rows, bytes)) = self.size_of(&file)? else { continue };
            let keep = rules.iter().find(|rule| rule.name == file.day.table().as_str()).map(|rule| rule.keep);
            let state = if sealed::is_sealed(&file.name) { "sealed" } else { "open" };
            let (first_time, last_time) = file.times.unzip();
            match tables.last_mut().filter(|table| table.table == file.day) {
                Some(table) => {
                    table.rows += rows;
                    table.bytes += bytes;
                    table.first_time = table.first_time.into_iter().chain(first_time).min();
                    table.last_time = table.last_time.max(last_time);
                    table.state = if table.state == state { state } else { "open" };
                }
                None => tables.push(TableSummary {
                    rows,
                    bytes,
                    first_time,
                    last_time,
                    state,
                    expires: keep
                        .map(|keep| file.day.end().plus(keep).max(kept.get(&file.day).copied().unwrap_or_default())),
                    table: file.day,
                }),
            }
        }
        Ok(tables)
    }

    /// The number of rows and bytes of a live file; none if the file is no longer live.
    fn size_of(&self, file: &LiveFile) -> Result<Option<(u64, u64)>, StoreError> {
        let size = |path: &Path| std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
        if sealed::is_sealed(&file.name) {
            return Ok(Some((u64::try_from(file.entities).unwrap_or(0), size(&self.path_of(file)))));
        }
        let opened = match self.acquire(file) {
            Ok(opened) => opened,
            Err(StoreError::TableGone(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let total = read_total(&opened.connection).map_err(StoreError::sqlite(&opened.path))?;
        let rows = u64::try_from(file.entities - total.merged).unwrap_or(0);
        let bytes = size(&opened.path) + size(&sqlite::journal_of(&opened.path));
        self.release(opened);
        Ok(Some((rows, bytes)))
    }

    /// The live day-tables, the oldest first, with the times of their oldest and newest records. Opens no file.
    pub fn table_times(&self) -> Result<Vec<TableTimes>, StoreError> {
        let mut tables: Vec<TableTimes> = Vec::new();
        for file in self.catalog.files()? {
            match tables.last_mut().filter(|(table, _)| *table == file.day) {
                Some((_, times)) => {
                    let (oldest, newest) = times.iter().chain(&file.times).copied().unzip::<_, _, Vec<_>, Vec<_>>();
                    *times = oldest.into_iter().min().zip(newest.into_iter().max());
                }
                None => tables.push((file.day, file.times)),
            }
        }
        Ok(tables)
    }

    /// Every source in the catalog.
    pub fn sources(&self) -> Result<Vec<SourceState>, StoreError> {
        self.catalog.sources()
    }

    /// Whether the folder is the outbox of a remote store, so that it has only a part of the records.
    pub fn is_outbox(&self) -> Result<bool, StoreError> {
        self.catalog.is_outbox()
    }

    /// The catalog, for all but tables and sources.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// One row by its three keys. Reads one page, or several if they have the same key.
    pub fn row(&self, table: &DayTable, partition: &str, key: RowKey) -> Result<Option<Row>, StoreError> {
        self.with_files(table, |files| {
            // The latest generation wins.
            for file in files.iter().rev() {
                let found = match self.sealed(file)? {
                    Some(sealed) => sealed.row(partition, key)?,
                    None => {
                        let opened = self.acquire(file)?;
                        let found = self.row_of(&opened, partition, key);
                        self.release(opened);
                        found?
                    }
                };
                if found.is_some() {
                    return Ok(found);
                }
            }
            Ok(None)
        })
    }

    fn row_of(&self, opened: &OpenDayFile, partition: &str, key: RowKey) -> Result<Option<Row>, StoreError> {
        begin(opened)?;
        let committed = self.catalog.committed()?;
        let from = earliest_first_key(key);
        let pages = (|| {
            let Some(id) = partition_id(&opened.connection, partition)? else { return Ok((0, Vec::new())) };
            let wanted = BTreeMap::from([(id, Arc::from(partition))]);
            let mut pages = shared_pages::pages_with(&opened.connection, key, key, &wanted)?;
            let select = format!(
                "SELECT {HEADER_COLUMNS} FROM page
                 WHERE partition = ?1 AND first BETWEEN ?2 AND ?3 AND last >= ?3"
            );
            let mut statement = opened.connection.prepare_cached(&select)?;
            for page in statement.query_map(params![id, from.to_bytes(), key.to_bytes()], read_header)? {
                pages.push(page?);
            }
            // Of several pages with the key, the page of the latest commit wins.
            pages.sort_by_key(|page: &PageRow| Reverse((page.seq, page.place)));
            Ok((id, pages))
        })();
        let (id, pages) = pages.map_err(StoreError::sqlite(&opened.path))?;
        for row in pages {
            if !committed.includes(row.seq) {
                continue;
            }
            let page = Arc::new(opened.read_page(partition, &row)?);
            if let Ok(index) = page.keys().binary_search(&key)
                && row.partition_at(&page, index) == Some(id)
            {
                opened.check_number(&row, page.owner(index).unwrap_or_default(), partition)?;
                return Ok(Some(Row::of_page(partition.into(), page, index)));
            }
        }
        Ok(None)
    }

    /// The partitions of `table` with records of an instance: the instance's own and its buckets.
    pub fn partitions_of(&self, table: &DayTable, instance: &str) -> Result<Vec<String>, StoreError> {
        self.with_files(table, |files| {
            let mut names = Vec::new();
            for file in files {
                names.extend(match self.sealed(file)? {
                    Some(sealed) => sealed.partitions_of(instance),
                    None => {
                        let opened = self.acquire(file)?;
                        let found = partitions_of(&opened, instance);
                        self.release(opened);
                        found?
                    }
                });
            }
            names.sort();
            names.dedup();
            Ok(names)
        })
    }

    /// Every partition of `table`, sorted.
    pub fn partitions(&self, table: &DayTable) -> Result<Vec<Arc<str>>, StoreError> {
        self.with_files(table, |files| {
            let mut names = Vec::new();
            for file in files {
                match self.sealed(file)? {
                    Some(sealed) => names.extend(sealed.partitions()),
                    None => {
                        let opened = self.acquire(file)?;
                        let found = partition_names(&opened, None);
                        self.release(opened);
                        names.extend(found?.into_values());
                    }
                }
            }
            names.sort();
            names.dedup();
            Ok(names)
        })
    }

    /// Closes files that are no longer live, so that the file system frees their space.
    pub(crate) fn forget_gone(&self) -> Result<(), StoreError> {
        let live: std::collections::HashSet<String> = self.catalog.files()?.into_iter().map(|file| file.name).collect();
        self.connections.borrow_mut().retain(|name, _| live.contains(name));
        self.sealed.borrow_mut().retain(|name, _| live.contains(name));
        Ok(())
    }

    /// The live files of a table, the oldest generation first; [`StoreError::TableGone`] if there are none.
    pub(crate) fn files_of(&self, table: &DayTable) -> Result<Vec<LiveFile>, StoreError> {
        let mut files = self.catalog.files_of(table)?;
        files.sort_by_key(|file| generation_of(&file.name));
        if files.is_empty() { Err(StoreError::TableGone(table.to_string())) } else { Ok(files) }
    }

    /// Opens the live files of a table with `open`, the oldest generation first. Repeats that if the live files changed
    /// meanwhile.
    pub(crate) fn with_files<T>(
        &self,
        table: &DayTable,
        mut open: impl FnMut(&[LiveFile]) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        for _ in 0..CHANGES_MAX {
            let files = self.files_of(table)?;
            let opened = open(&files);
            let now = self.files_of(table)?;
            if files.iter().map(|file| &file.name).eq(now.iter().map(|file| &file.name)) {
                return opened;
            }
        }
        Err(StoreError::Refused(format!("the files of {table} do not stay the same")))
    }

    fn path_of(&self, file: &LiveFile) -> PathBuf {
        self.data.join("tables").join(&file.name)
    }

    /// The sealed file; none if `file` is an open one.
    pub(crate) fn sealed(&self, file: &LiveFile) -> Result<Option<SealedFile>, StoreError> {
        if !sealed::is_sealed(&file.name) {
            return Ok(None);
        }
        if let Some(cached) = self.sealed.borrow().get(&file.name) {
            return Ok(Some(cached.clone()));
        }
        let path = self.path_of(file);
        let opened = SealedFile::open_local(&path)?.with_sizes(self.sealed_sizes);
        if let Some(seal) = &file.seal
            && (opened.rows(), opened.bytes()) != (seal.rows, seal.bytes)
        {
            let (rows, bytes) = (opened.rows(), opened.bytes());
            let what =
                format!("it has {rows} rows and {bytes} bytes, the catalog says {} and {}", seal.rows, seal.bytes);
            return Err(StoreError::Mismatch { path, what, data: self.data.clone() });
        }
        let mut cached = self.sealed.borrow_mut();
        // Close files that were dropped or sealed again, so that the file system frees their space.
        cached.retain(|name, _| self.catalog.is_live(name).unwrap_or(false));
        if cached.len() >= SEALED_KEPT {
            cached.clear();
        }
        cached.insert(file.name.clone(), opened.clone());
        Ok(Some(opened))
    }

    pub(crate) fn acquire(&self, file: &LiveFile) -> Result<OpenDayFile, StoreError> {
        let path = self.path_of(file);
        let cached = self.connections.borrow_mut().get_mut(&file.name).and_then(Vec::pop);
        let connection = match cached {
            Some(connection) => connection,
            None => match sqlite::open_to_read(&path) {
                // The catalog named the file a moment ago: it was dropped in between, or it is lost.
                Err(error) if !path.exists() => {
                    let is_live = self.catalog.is_live(&file.name)?;
                    return Err(if is_live { error } else { StoreError::TableGone(file.day.to_string()) });
                }
                opened => {
                    let connection = opened?;
                    if let Some(kib) = self.page_cache_kib {
                        let set = connection.pragma_update(None, "cache_size", -kib);
                        set.map_err(StoreError::sqlite(&path))?;
                    }
                    connection
                }
            },
        };
        Ok(OpenDayFile::of(connection, path, file, self.snapshot_times))
    }

    pub(crate) fn release(&self, opened: OpenDayFile) {
        end(&opened.connection);
        let mut connections = self.connections.borrow_mut();
        if connections.len() >= CONNECTIONS_KEPT {
            // This also closes the connections of days that are no longer read.
            connections.clear();
        }
        connections.entry(opened.file.name).or_default().push(opened.connection);
    }
}

/// The generation of a file by its name: 2 for `Log20261120.2.db`.
fn generation_of(name: &str) -> u64 {
    name.rsplit('.').nth(1).and_then(|generation| generation.parse().ok()).unwrap_or(0)
}
