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
pub(crate) mod held;
pub(crate) mod open_scan;
mod overlaps;
pub(crate) mod scan;
pub(crate) mod sealed_scan;
pub(crate) mod slices;
mod superseded_keys;
pub(crate) mod walk;

use crate::StoreError;
use crate::format::catalog::{Catalog, Committed, LiveFile};
use crate::format::day_file::{Total, read_total};
use crate::format::page::{Page, PageAddress, PageSections, Prefilter, TableAddress, earliest_first_key};
use crate::format::page_rows::{self, BodyReader, HEADER_COLUMNS, PageLocation, PageRow, read_header};
use crate::format::sealed::{self, RowBlock, SealedFile, SealedSizes};
use crate::format::shared_pages::{self, SHARED, SharedPage};
use crate::read::columns::RowChooser;
use crate::read::scan::{CHANGES_MAX, Scan};
use crate::source::SourceState;
use crate::sqlite;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_platform::budget::MemoryBudget;
use rusqlite::{Connection, OptionalExtension, params};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// A row: an entity of a page of an open day, or of a block of a sealed one.
#[derive(Clone)]
pub struct Row {
    /// The PartitionKey.
    pub partition: Arc<str>,
    rows: Rows,
    index: usize,
}

#[derive(Clone)]
enum Rows {
    Page(Arc<Page>),
    RowBlock(Arc<RowBlock>),
}

impl Row {
    pub(crate) fn of_page(partition: Arc<str>, page: Arc<Page>, index: usize) -> Row {
        Row { partition, rows: Rows::Page(page), index }
    }

    pub(crate) fn of_block(partition: Arc<str>, block: Arc<RowBlock>, index: usize) -> Row {
        Row { partition, rows: Rows::RowBlock(block), index }
    }

    /// The RowKey.
    pub fn key(&self) -> RowKey {
        match &self.rows {
            Rows::Page(page) => page.key(self.index),
            Rows::RowBlock(block) => block.key(self.index),
        }
    }

    /// The level.
    pub fn level(&self) -> Option<Level> {
        match &self.rows {
            Rows::Page(page) => page.level(self.index),
            Rows::RowBlock(block) => block.level(self.index),
        }
    }

    /// The properties without `Time`, `Level` and `Severity` (see [`daytable_model::entity`]).
    pub fn properties(&self) -> impl Iterator<Item = (&str, Property<'_>)> {
        match &self.rows {
            Rows::Page(page) => Properties::Page(page.properties(self.index)),
            Rows::RowBlock(block) => Properties::RowBlock(block.properties(self.index)),
        }
    }

    /// Calls `each` for every property. Where few rows of a page are asked for, texts that are stored in another form are
    /// printed for these rows alone.
    pub fn each_property(&self, mut each: impl FnMut(&str, Property<'_>)) {
        match &self.rows {
            Rows::Page(page) => page.each_property(self.index, each),
            Rows::RowBlock(block) => block.properties(self.index).for_each(|(name, value)| each(name, value)),
        }
    }

    /// The largest possible number of properties.
    pub fn properties_max(&self) -> usize {
        match &self.rows {
            Rows::Page(page) => page.width(),
            Rows::RowBlock(block) => block.width(),
        }
    }
}

/// The properties of a row, from a page or a block.
enum Properties<P, B> {
    Page(P),
    RowBlock(B),
}

impl<T, P: Iterator<Item = T>, B: Iterator<Item = T>> Iterator for Properties<P, B> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Properties::Page(page) => page.next(),
            Properties::RowBlock(block) => block.next(),
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

/// A follower's position: how far it has read each day.
#[derive(Clone, Debug, Default)]
pub struct FollowPosition {
    seq: i64,
    /// The files read so far, by name.
    files: HashMap<String, Seen>,
}

impl FollowPosition {
    /// The number of the last commit that was seen. [`Reader::follow_after`] goes on from there in another process.
    pub fn commit(&self) -> i64 {
        self.seq
    }

    /// Whether a live file has no row beyond this position. A file that the committer closed is not opened to find that
    /// out: a folder may have hundreds of them.
    fn has_all_of(&self, file: &LiveFile) -> bool {
        file.last_seq <= self.seq && (!file.writable || self.files.contains_key(&file.name))
    }
}

/// A file that a follower has read.
#[derive(Clone, Debug)]
struct Seen {
    file: LiveFile,
    /// The last page that need not be read again.
    page: i64,
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
        }
    }

    /// Returns this reader for questions that share this memory: its scans end with an error where there is too little.
    pub fn with_memory(self, memory: MemoryBudget) -> Reader {
        Reader { memory: Some(memory), ..self }
    }

    /// Whether a scan that has so many bytes of pages gets no more.
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

    /// The rows of `range` in one table, newest first by row key, equal keys once. Rows are read on demand. If the
    /// table is dropped meanwhile, the scan ends with [`StoreError::TableGone`].
    pub fn scan(&self, table: &DayTable, range: &Range) -> Result<Scan<'_>, StoreError> {
        Scan::begin(self, table, range)
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

    /// The position of a follower that wants only later commits.
    pub fn follow_from_now(&self) -> Result<FollowPosition, StoreError> {
        let mut followed = FollowPosition { seq: self.catalog.committed()?.seq, files: HashMap::new() };
        self.each_new_page(&mut followed, &mut |_, _, _| Ok(()))?;
        Ok(followed)
    }

    /// The position after a commit, for a follower that another process began. Rows of days that were sealed meanwhile are
    /// not seen, so a daemon asks for the position before it seals anything. Rows that were merged with later ones may be
    /// seen again.
    pub fn follow_after(&self, commit: i64) -> Result<FollowPosition, StoreError> {
        let committed = self.catalog.committed()?.seq;
        let mut followed = FollowPosition { seq: commit.min(committed), files: HashMap::new() };
        let is_followed = |file: &LiveFile| !sealed::is_sealed(&file.name) && !followed.has_all_of(file);
        for file in self.catalog.files()?.into_iter().filter(is_followed).collect::<Vec<_>>() {
            // The connection is kept: the file can be read after its day was sealed.
            match self.acquire(&file) {
                Ok(opened) => self.release(opened),
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            }
            followed.files.insert(file.name.clone(), Seen { file, page: 0 });
        }
        Ok(followed)
    }

    /// Passes the rows committed since `followed` and advances it: the oldest table first, then page by page. The day
    /// of a file may be sealed or dropped after the last call, and rows may have been added just before. So such a file
    /// is read once more, through its cached connection. A file that was created or opened again, written and sealed
    /// between two calls is missed.
    pub fn follow(
        &self,
        followed: &mut FollowPosition,
        each: &mut dyn FnMut(&DayTable, Row),
    ) -> Result<(), StoreError> {
        self.follow_until(followed, Ticks::MAX, each)
    }

    /// As [`Reader::follow`], the oldest record of each page first, without pages whose rows are all newer than `newest`. Other rows that are newer may be among
    /// those that are given.
    pub fn follow_until(
        &self,
        followed: &mut FollowPosition,
        newest: Ticks,
        each: &mut dyn FnMut(&DayTable, Row),
    ) -> Result<(), StoreError> {
        self.each_new_page(followed, &mut |day, opened, page| {
            if page.header.last.time() > newest {
                return Ok(());
            }
            let names = match page.partition {
                SHARED => shared_pages::names_of(&opened.connection, &opened.path, opened.table_address, page)?,
                _ => vec![opened.name_of(page)?],
            };
            let page = Arc::new(opened.read_page(&names[0], page)?);
            // A page has its newest record first. A record comes before its items all the same.
            let mut end = page.len();
            for start in (0..page.len()).rev().filter(|index| *index == 0 || page.key(*index).item() == 0) {
                for index in start..std::mem::replace(&mut end, start) {
                    // The names of a shared page are as many as the owners of its rows.
                    let Some(name) = names.get(page.owner(index).unwrap_or(0)) else { continue };
                    each(day, Row::of_page(name.clone(), page.clone(), index));
                }
            }
            Ok(())
        })
    }

    fn each_new_page(
        &self,
        followed: &mut FollowPosition,
        each: &mut dyn FnMut(&DayTable, &OpenDayFile, &PageRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // Read before the snapshots, so that the snapshots have every page up to it.
        let committed = self.catalog.committed()?;
        let files = self.catalog.files()?;
        let is_live = |name: &String| files.iter().any(|file| file.name == *name);
        // Sealed or dropped since the last call, perhaps after more rows were added.
        let gone = followed.files.values().map(|seen| &seen.file).filter(|file| !is_live(&file.name));
        let gone: Vec<LiveFile> = gone.cloned().collect();
        for file in gone.iter().chain(files.iter().filter(|file| !sealed::is_sealed(&file.name))) {
            let is_gone = !is_live(&file.name);
            if !is_gone && followed.has_all_of(file) {
                continue;
            }
            let opened = match self.acquire(file) {
                Ok(opened) => opened,
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            };
            let read = (|| {
                begin(&opened)?;
                let after = followed.files.get(&file.name).map(|seen| seen.page);
                let pages = (|| {
                    let select = match after {
                        Some(_) => format!("SELECT {HEADER_COLUMNS} FROM page WHERE id > ?1 ORDER BY id"),
                        // The file is new to the follower, and its pages beyond `followed.seq` are at its end.
                        None => format!("SELECT {HEADER_COLUMNS} FROM page WHERE seq > ?1 ORDER BY id"),
                    };
                    let mut statement = opened.connection.prepare_cached(&select)?;
                    let rows = statement.query_map([after.unwrap_or(followed.seq)], read_header)?;
                    let mut pages = rows.collect::<rusqlite::Result<Vec<PageRow>>>()?;
                    shared_pages::fill(&opened.connection, &mut pages)?;
                    Ok(pages)
                })();
                let (mut seen, mut is_next) = (after.unwrap_or(0), true);
                for page in pages.map_err(StoreError::sqlite(&opened.path))? {
                    let is_later = page.seq > committed.seq;
                    // Rows after one that is not committed yet may be older: merges since `committed` was read.
                    is_next &= !is_later;
                    seen = if is_next { page.place.page() } else { seen };
                    if is_later {
                        continue;
                    }
                    if page.seq > followed.seq && committed.includes(page.seq) {
                        each(&file.day, &opened, &page)?;
                    }
                }
                followed.files.insert(file.name.clone(), Seen { file: file.clone(), page: seen });
                Ok(())
            })();
            self.release(opened);
            if let Err(error) = read
                && !is_gone
            {
                return Err(error);
            }
        }
        // Close removed files so that the file system frees their space.
        followed.files.retain(|name, _| is_live(name));
        self.connections.borrow_mut().retain(|name, _| is_live(name));
        self.sealed.borrow_mut().retain(|name, _| is_live(name));
        followed.seq = committed.seq;
        Ok(())
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
                opened => opened?,
            },
        };
        let (table_address, bodies) = (TableAddress::new(&file.day), RefCell::default());
        Ok(OpenDayFile {
            connection,
            path,
            file: file.clone(),
            table_address,
            bodies,
            begun: Cell::default(),
            times: self.snapshot_times,
        })
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

/// A day's file, opened to read.
pub(crate) struct OpenDayFile {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) file: LiveFile,
    table_address: TableAddress,
    pub(crate) bodies: RefCell<BodyReader>,
    /// When the last snapshot began.
    begun: Cell<Option<Instant>>,
    times: SnapshotTimes,
}

/// Begins a snapshot. The first read fixes it, so this function reads the total. The snapshot must have all that the
/// catalog recorded of the file before. Otherwise the file lost its journal, or is another file.
pub(crate) fn begin(opened: &OpenDayFile) -> Result<Total, StoreError> {
    let begun = run(&opened.connection, "BEGIN").and_then(|()| read_total(&opened.connection));
    let total = begun.map_err(StoreError::sqlite(&opened.path))?;
    opened.begun.set(Some(Instant::now()));
    let (noted, found) = (&opened.file, total.last_seq);
    let is_whole = found > noted.last_seq || (found, total.entities) == (noted.last_seq, noted.entities);
    if is_whole { Ok(total) } else { Err(opened.mismatch(&total, noted)) }
}

/// Fails if a snapshot has later commits than the catalog, or a commit that the catalog did not record for this file.
/// Then the file or the catalog is another one. `committed` must be read after the snapshot began.
pub(crate) fn check_snapshot(
    catalog: &Catalog,
    opened: &OpenDayFile,
    total: &Total,
    committed: &Committed,
) -> Result<(), StoreError> {
    if total.last_seq > committed.seq + 1 {
        return Err(opened.mismatch(total, &opened.file));
    }
    if total.last_seq == opened.file.last_seq || !committed.includes(total.last_seq) {
        return Ok(());
    }
    // A commit wrote to the file after the catalog was read. By now the catalog has that commit.
    let now = catalog.files_of(&opened.file.day)?;
    match now.into_iter().find(|file| file.name == opened.file.name) {
        Some(noted) if noted.last_seq < total.last_seq => Err(opened.mismatch(total, &noted)),
        _ => Ok(()),
    }
}

impl OpenDayFile {
    /// Whether it holds a snapshot.
    pub(crate) fn has_snapshot(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// How long a snapshot of the file may last by now.
    pub(crate) fn snapshot_max(&self) -> Duration {
        match sqlite::journal_bytes(&self.path) > sqlite::JOURNAL_BYTES_LONG {
            true => self.times.of_long_journal,
            false => self.times.usual,
        }
    }

    /// Whether it holds a snapshot that has lasted long enough.
    pub(crate) fn is_due(&self) -> bool {
        let age = self.begun.get().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.has_snapshot() && age > self.times.of_long_journal && age > self.snapshot_max()
    }

    /// Whether its snapshot has a page as it was read from another one.
    pub(crate) fn has_page(&self, page: &PageRow) -> Result<bool, StoreError> {
        let found = self.connection.prepare_cached("SELECT 1 FROM page WHERE id = ?1 AND checksum = ?2");
        let found = found
            .and_then(|mut statement| statement.exists(params![page.place.page(), page.header.checksum.cast_signed()]));
        found.map_err(StoreError::sqlite(&self.path))
    }

    /// The name of the partition of a page.
    pub(crate) fn name_of(&self, page: &PageRow) -> Result<Arc<str>, StoreError> {
        page_rows::named_partition(&self.connection, &self.path, page)
    }

    /// The name of a partition with rows in a shared page, from `names` if it is there.
    pub(crate) fn name_in(
        &self,
        page: &PageRow,
        number: usize,
        names: &mut HashMap<i64, Arc<str>>,
    ) -> Result<Arc<str>, StoreError> {
        let partition = page.shared.as_ref().and_then(|shared| shared.partition(number));
        let partition = partition.ok_or_else(|| page_rows::unnamed_partition(&self.path, page))?;
        let name = match names.get(&partition) {
            Some(name) => name.clone(),
            None => {
                let name = page_rows::partition_name(&self.connection, partition);
                let name = name.map_err(StoreError::sqlite(&self.path))?;
                let name = name.ok_or_else(|| page_rows::unnamed_partition(&self.path, page))?;
                names.insert(partition, name.clone());
                name
            }
        };
        self.check_number(page, number, &name)?;
        Ok(name)
    }

    /// Fails if the rows with this number in a shared page may not be shown under a name.
    pub(crate) fn check_number(&self, page: &PageRow, number: usize, name: &str) -> Result<(), StoreError> {
        let Some(shared) = &page.shared else { return Ok(()) };
        shared_pages::check_name(&self.path, page, (shared, number), self.table_address, name)
    }

    /// Fails if the rows of a part of a shared page may not be shown under the name of its partition.
    pub(crate) fn check_part(&self, part: &PageRow, of: &SharedPage) -> Result<(), StoreError> {
        let PageLocation::Part { part: number, .. } = part.place else { return Ok(()) };
        of.check_name(&self.path, part, (number as usize, self.table_address), &self.name_of(part)?)
    }

    /// Reads a shared page and checks it, without the names of its partitions.
    pub(crate) fn read_shared(&self, page: &PageRow) -> Result<SharedPage, StoreError> {
        shared_pages::read(&self.connection, &self.path, self.table_address, page)
    }

    /// Reads a page of `partition`, or a shared one, and checks it.
    pub(crate) fn read_page(&self, partition: &str, page: &PageRow) -> Result<Page, StoreError> {
        let mut bodies = self.bodies.borrow_mut();
        page_rows::read_page(&self.connection, &self.path, self.address_of(partition, page), page, &mut bodies)
    }

    /// The address of a page of `partition`, or of a shared one.
    fn address_of(&self, partition: &str, page: &PageRow) -> PageAddress {
        match &page.shared {
            Some(shared) => shared.address(self.table_address),
            None => self.table_address.at(partition),
        }
    }

    /// Reads a page of `partition`, or a shared one, and checks it; none if the prefilter excludes all its rows.
    pub(crate) fn read_sought(
        &self,
        partition: &str,
        page: &PageRow,
        prefilter: &Prefilter,
    ) -> Result<Option<Page>, StoreError> {
        let mut bodies = self.bodies.borrow_mut();
        let body = page_rows::read_body(&self.connection, &self.path, page, &mut bodies)?;
        let found = prefilter.decode_page(self.address_of(partition, page), page.seq, &page.header, body);
        let found = found.map_err(|error| page_rows::damaged(&self.path, page, error.to_string()))?;
        found.map(|found| page_rows::check_owners(&self.path, page, found)).transpose()
    }

    /// Checks the body of a page of `partition`, or of a shared one; `None` if `wants` refuses the page by its sections.
    pub(crate) fn decode_wanted(
        &self,
        partition: &str,
        page: &PageRow,
        body: &[u8],
        wants: impl FnOnce(&PageSections<'_>) -> bool,
    ) -> Result<Option<Page>, StoreError> {
        page_rows::decode_wanted(&self.path, self.address_of(partition, page), page, body, wants)
    }

    /// Checks the front of a page of `partition`, or of a shared one; `None` if `needs` accepts a column that is apart.
    pub(crate) fn decode_front(
        &self,
        partition: &str,
        page: &PageRow,
        front: &[u8],
        needs: impl Fn(&str, PropertyKind) -> bool,
    ) -> Result<Option<Page>, StoreError> {
        page_rows::decode_front(&self.path, self.address_of(partition, page), page, front, needs)
    }

    fn mismatch(&self, total: &Total, noted: &LiveFile) -> StoreError {
        let what = format!(
            "its last commit is {} with {} entities, the catalog says {} with {}",
            total.last_seq, total.entities, noted.last_seq, noted.entities
        );
        let data = self.path.ancestors().nth(2).unwrap_or(Path::new(".")).into();
        StoreError::Mismatch { path: self.path.clone(), what, data }
    }
}

/// Ends the snapshot, if there is one.
pub(crate) fn end(connection: &Connection) {
    if !connection.is_autocommit() {
        // A failure does not matter: the transaction wrote nothing.
        let _ = run(connection, "COMMIT");
    }
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

/// The generation of a file by its name: 2 for `Log20261120.2.db`.
fn generation_of(name: &str) -> u64 {
    name.rsplit('.').nth(1).and_then(|generation| generation.parse().ok()).unwrap_or(0)
}

fn partitions_of(opened: &OpenDayFile, instance: &str) -> Result<Vec<String>, StoreError> {
    let key = daytable_model::key::partition_key(instance, None);
    let found = (|| {
        // The name of a bucket is the key, `~` and two hex digits. No other name begins with the key and `~`.
        let select = "SELECT name FROM partition WHERE name = ?1 OR (name >= ?1 || '~' AND name < ?1 || '~g')";
        let mut statement = opened.connection.prepare_cached(select)?;
        let names = statement.query_map([&key], |row| row.get::<_, String>(0))?;
        let is_bucket = |name: &String| name.len() == key.len() || name.len() == key.len() + 3;
        Ok(names.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter(is_bucket).collect())
    })();
    found.map_err(StoreError::sqlite(&opened.path))
}

fn partition_id(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT id FROM partition WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}

pub(crate) fn partition_names(
    opened: &OpenDayFile,
    wanted: Option<&[String]>,
) -> Result<BTreeMap<i64, Arc<str>>, StoreError> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?.into()));
    let result = (|| match wanted {
        None => {
            let mut statement = opened.connection.prepare_cached("SELECT id, name FROM partition")?;
            statement.query_map([], read)?.collect()
        }
        Some(wanted) => {
            let mut statement = opened.connection.prepare_cached("SELECT id, name FROM partition WHERE name = ?1")?;
            let mut found = BTreeMap::new();
            for name in wanted {
                found.extend(statement.query_row([name], read).optional()?);
            }
            Ok(found)
        }
    })();
    result.map_err(StoreError::sqlite(&opened.path))
}
