//! Reading, in any process, beside the one that writes.
//!
//! A reader opens its snapshot of a day first and reads `committed` after it, then passes over pages above it. It
//! holds no snapshot longer than [`SNAPSHOT_MAX`]: an old one would pin the journal, so a scan lets go and continues by
//! key. Before it does it looks whether the table is still there; one that is gone ends it with a clear error.
//!
//! Within a partition pages may overlap, so a [`Scan`] merges them by RowKey: of equal keys the later commit's row is
//! the row. A page is read only when its first key is next, so the newest hundred rows of a table of any size are one
//! page of each partition that has them.

use super::StoreError;
use super::catalogue::{Catalogue, Committed, LiveFile};
use super::day::{HEADER_COLUMNS, PageRow, read_header, read_total};
use super::page::{PAGE_SPAN, Page, level_minutes};
use super::source::SourceState;
use super::sqlite;
use super::tidy::read_page;
use crate::key::{DayTable, RowKey};
use crate::property::{Kind, Property};
use crate::record::Level;
use crate::time::Ticks;
use memchr::memmem::Finder;
use rusqlite::{Connection, OptionalExtension, params};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one snapshot of a day is held.
pub const SNAPSHOT_MAX: Duration = Duration::from_secs(5);
/// Headers that are read at a time: few at first, as the newest rows are in the first pages, then more and more.
const HEADERS: std::ops::RangeInclusive<usize> = 4..=256;
/// Connections that a reader keeps for later.
const CONNECTIONS_KEPT: usize = 64;

/// A data folder, opened to read. For one thread at a time; open as many as there are threads.
pub struct Reader {
    data: PathBuf,
    catalogue: Catalogue,
    connections: RefCell<HashMap<String, Vec<Connection>>>,
}

/// What `tables` shows of a day-table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSummary {
    /// Which.
    pub table: DayTable,
    /// Rows in it, items included.
    pub rows: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// The time of its oldest record.
    pub first_time: Option<Ticks>,
    /// The time of its newest record.
    pub last_time: Option<Ticks>,
    /// Where it is in its life: `open`, for now.
    pub state: &'static str,
    /// When it goes, by the rules of the last daemon; none where no rule covers it.
    pub expires: Option<Ticks>,
}

/// Which rows: of some partitions or all, between two times (both included).
#[derive(Clone, Debug)]
pub struct Range {
    /// PartitionKeys; none is all.
    pub partitions: Option<Vec<String>>,
    /// The oldest time.
    pub from: Ticks,
    /// The newest time.
    pub to: Ticks,
    /// Rows that surely do not have this text in a string may be left out.
    pub contains: Option<String>,
}

/// A row: an entity of a page.
#[derive(Clone)]
pub struct Row {
    /// The PartitionKey.
    pub partition: Arc<str>,
    page: Arc<Page>,
    index: usize,
}

impl Row {
    /// Its RowKey.
    pub fn key(&self) -> RowKey {
        self.page.key(self.index)
    }

    /// Its level.
    pub fn level(&self) -> Option<Level> {
        self.page.level(self.index)
    }

    /// Its properties; `Time`, `Level` and `Severity` are not among them (see [`crate::entity`]).
    pub fn properties(&self) -> impl Iterator<Item = (&str, Property<'_>)> {
        self.page.properties(self.index)
    }
}

/// How many records of a partition fall into a minute, by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteCount {
    /// The PartitionKey.
    pub partition: Arc<str>,
    /// Minutes since the Unix epoch.
    pub minute: i64,
    /// The level, none where records have none.
    pub level: Option<Level>,
    /// Records.
    pub records: u64,
}

/// Where a follower is: what it has seen of each day.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    seq: i64,
    /// The last page of each file that need not be looked at again.
    pages: HashMap<String, i64>,
}

/// A day-table, and between which times its records lie where it has any.
pub type TableTimes = (DayTable, Option<(Ticks, Ticks)>);

impl Reader {
    /// Opens a data folder to read.
    pub fn open(data_dir: &Path) -> Result<Reader, StoreError> {
        let catalogue = Catalogue::open_to_read(data_dir)?;
        Ok(Reader { data: data_dir.into(), catalogue, connections: RefCell::default() })
    }

    /// Every live day-table, the oldest first.
    pub fn tables(&self) -> Result<Vec<TableSummary>, StoreError> {
        let rules = self.catalogue.rules()?;
        let mut tables = Vec::new();
        for file in self.catalogue.files()? {
            let opened = match self.take(&file) {
                Ok(opened) => opened,
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            };
            let total = read_total(&opened.connection).map_err(StoreError::sqlite(&opened.path))?;
            let size = |path: &Path| std::fs::metadata(path).map(|m| m.len()).unwrap_or(0);
            let keep = rules.iter().find(|rule| rule.name == file.day.table().as_str()).map(|rule| rule.keep);
            tables.push(TableSummary {
                rows: u64::try_from(file.entities - total.merged).unwrap_or(0),
                bytes: size(&opened.path) + size(&sqlite::journal_of(&opened.path)),
                first_time: file.times.map(|(oldest, _)| oldest),
                last_time: file.times.map(|(_, newest)| newest),
                state: "open",
                expires: keep.map(|keep| file.day.end().plus(keep)),
                table: file.day.clone(),
            });
            self.give_back(opened);
        }
        Ok(tables)
    }

    /// The live day-tables, the oldest first, with the times of their oldest and newest records. Opens no file.
    pub fn table_times(&self) -> Result<Vec<TableTimes>, StoreError> {
        Ok(self.catalogue.files()?.into_iter().map(|file| (file.day, file.times)).collect())
    }

    /// Every source that the catalogue knows.
    pub fn sources(&self) -> Result<Vec<SourceState>, StoreError> {
        self.catalogue.sources()
    }

    /// What the catalogue says, beside tables and sources.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The rows of `range` in one table, newest first (by row key; equal keys once), read as they are asked for. When
    /// the table is dropped meanwhile the scan ends with [`StoreError::TableGone`].
    pub fn scan(&self, table: &DayTable, range: &Range) -> Result<Scan<'_>, StoreError> {
        let (first, last) = RowKey::range(range.from, range.to);
        let opened = self.take(&self.file_of(table)?)?;
        let mut scan = Scan {
            reader: self,
            opened: Some(opened),
            wanted: range.partitions.clone(),
            needle: range.contains.as_ref().map(|text| Finder::new(text.as_bytes()).into_owned()),
            resume: Resume::From(first),
            last,
            streams: Vec::new(),
            heap: BinaryHeap::new(),
            names: HashMap::new(),
            committed: Committed::default(),
            since: Instant::now(),
            done: false,
        };
        scan.begin()?;
        Ok(scan)
    }

    /// One row by its three keys; reads one page, or those that hold its key twice.
    pub fn row(&self, table: &DayTable, partition: &str, key: RowKey) -> Result<Option<Row>, StoreError> {
        let opened = self.take(&self.file_of(table)?)?;
        let found = (|| {
            begin(&opened)?;
            let committed = self.catalogue.committed()?;
            let from = RowKey::range(Ticks::MIN, key.time().plus(PAGE_SPAN)).0;
            let select = format!(
                "SELECT {HEADER_COLUMNS} FROM page WHERE partition = (SELECT id FROM partition WHERE name = ?1)
                 AND first BETWEEN ?2 AND ?3 AND last >= ?3 ORDER BY seq DESC, id DESC"
            );
            let pages = (|| {
                let mut statement = opened.connection.prepare_cached(&select)?;
                let rows = statement.query_map(params![partition, from.to_bytes(), key.to_bytes()], read_header)?;
                rows.collect::<rusqlite::Result<Vec<PageRow>>>()
            })();
            for page in pages.map_err(StoreError::sqlite(&opened.path))? {
                if !committed.includes(page.seq) {
                    continue;
                }
                let page = read_page(&opened.connection, &opened.path, &page)?;
                if let Ok(index) = page.keys().binary_search(&key) {
                    return Ok(Some(Row { partition: partition.into(), page: Arc::new(page), index }));
                }
            }
            Ok(None)
        })();
        self.give_back(opened);
        found
    }

    /// Records by partition, minute and level. Page headers say it where no other page can hold the same rows and the
    /// whole page is within `range`; other pages are decoded.
    pub fn counts(&self, table: &DayTable, range: &Range, each: &mut dyn FnMut(MinuteCount)) -> Result<(), StoreError> {
        let opened = self.take(&self.file_of(table)?)?;
        let counted = self.count_pages(&opened, range, each);
        self.give_back(opened);
        counted
    }

    fn count_pages(&self, opened: &Opened, range: &Range, each: &mut dyn FnMut(MinuteCount)) -> Result<(), StoreError> {
        begin(opened)?;
        let committed = self.catalogue.committed()?;
        let (first, last) = RowKey::range(range.from, range.to);
        let names = partition_names(opened, range.partitions.as_deref())?;
        let pages = headers_in(opened, range.partitions.is_some().then_some(&names), first, last)?;
        let mut pages = pages.into_iter().filter(|page| committed.includes(page.seq)).peekable();
        while let Some(page) = pages.next() {
            let Some(name) = names.get(&page.partition) else { continue };
            let mut cluster = vec![page];
            let mut end = cluster[0].header.last;
            while let Some(next) =
                pages.next_if(|next| next.partition == cluster[0].partition && next.header.first <= end)
            {
                end = end.max(next.header.last);
                cluster.push(next);
            }
            let whole = cluster[0].header.first >= first && end <= last;
            if let ([only], true) = (&*cluster, whole) {
                for count in level_minutes(&only.header.levels) {
                    let count = count.map_err(|e| damaged(opened, only, e.to_string()))?;
                    let records = u64::from(count.records);
                    each(MinuteCount { partition: name.clone(), minute: count.minute, level: count.level, records });
                }
            } else {
                count_rows(opened, &cluster, first, last, name, each)?;
            }
        }
        Ok(())
    }

    /// Partition keys of a table.
    pub fn partitions(&self, table: &DayTable) -> Result<Vec<Arc<str>>, StoreError> {
        let opened = self.take(&self.file_of(table)?)?;
        let names = partition_names(&opened, None).map(|names| names.into_values().collect());
        self.give_back(opened);
        names
    }

    /// The partitions of `table` that an instance's records are in: its own, and its buckets'.
    pub fn partitions_of(&self, table: &DayTable, instance: &str) -> Result<Vec<String>, StoreError> {
        let key = crate::key::partition_key(instance, None);
        let opened = self.take(&self.file_of(table)?)?;
        let found = (|| {
            // Buckets are the key, `~` and two hex digits: nothing else begins with the key and `~`.
            let select = "SELECT name FROM partition WHERE name = ?1 OR (name >= ?1 || '~' AND name < ?1 || '~g')";
            let mut statement = opened.connection.prepare_cached(select)?;
            let names = statement.query_map([&key], |row| row.get::<_, String>(0))?;
            let is_bucket = |name: &String| name.len() == key.len() || name.len() == key.len() + 3;
            Ok(names.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter(is_bucket).collect())
        })();
        let found = found.map_err(StoreError::sqlite(&opened.path));
        self.give_back(opened);
        found
    }

    /// Where a follower starts that wants only what is committed from now on.
    pub fn follow_from_now(&self) -> Result<Followed, StoreError> {
        let mut followed = Followed { seq: self.catalogue.committed()?.seq, pages: HashMap::new() };
        self.each_new_page(&mut followed, &mut |_, _, _, _| Ok(()))?;
        Ok(followed)
    }

    /// Rows committed since `followed`, which is moved on. By table, the oldest first, then page by page.
    pub fn follow(&self, followed: &mut Followed, each: &mut dyn FnMut(&DayTable, Row)) -> Result<(), StoreError> {
        self.each_new_page(followed, &mut |day, opened, page, names| {
            let Some(partition) = names(page.partition)? else { return Ok(()) };
            let page = Arc::new(read_page(&opened.connection, &opened.path, page)?);
            for index in 0..page.len() {
                each(day, Row { partition: partition.clone(), page: page.clone(), index });
            }
            Ok(())
        })
    }

    #[allow(clippy::type_complexity)]
    fn each_new_page(
        &self,
        followed: &mut Followed,
        each: &mut dyn FnMut(
            &DayTable,
            &Opened,
            &PageRow,
            &dyn Fn(i64) -> Result<Option<Arc<str>>, StoreError>,
        ) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // Read before the snapshots: every page up to it is in them.
        let committed = self.catalogue.committed()?;
        let files = self.catalogue.files()?;
        // What was dropped is let go, so that its space is free.
        let is_live = |name: &String| files.iter().any(|file| file.name == *name);
        followed.pages.retain(|name, _| is_live(name));
        self.connections.borrow_mut().retain(|name, _| is_live(name));
        for file in files {
            if file.last_seq <= followed.seq && followed.pages.contains_key(&file.name) {
                continue;
            }
            let opened = match self.take(&file) {
                Ok(opened) => opened,
                Err(StoreError::TableGone(_)) => continue,
                Err(error) => return Err(error),
            };
            let looked = (|| {
                begin(&opened)?;
                let name_of = |id: i64| {
                    let mut statement = opened.connection.prepare_cached("SELECT name FROM partition WHERE id = ?1")?;
                    statement.query_row([id], |row| row.get::<_, String>(0)).optional()
                };
                let names = |id| name_of(id).map(|name| name.map(Arc::from)).map_err(StoreError::sqlite(&opened.path));
                let after = followed.pages.get(&file.name).copied();
                let pages = (|| {
                    let select = match after {
                        Some(_) => format!("SELECT {HEADER_COLUMNS} FROM page WHERE id > ?1 ORDER BY id"),
                        // A file that is new to the follower: what it holds beyond `followed.seq` is at its end.
                        None => format!("SELECT {HEADER_COLUMNS} FROM page WHERE seq > ?1 ORDER BY id"),
                    };
                    let mut statement = opened.connection.prepare_cached(&select)?;
                    let rows = statement.query_map([after.unwrap_or(followed.seq)], read_header)?;
                    rows.collect::<rusqlite::Result<Vec<PageRow>>>()
                })();
                let mut seen = after.unwrap_or(0);
                for page in pages.map_err(StoreError::sqlite(&opened.path))? {
                    if page.seq > committed.seq {
                        break;
                    }
                    seen = page.id;
                    if page.seq > followed.seq && committed.includes(page.seq) {
                        each(&file.day, &opened, &page, &names)?;
                    }
                }
                followed.pages.insert(file.name.clone(), seen);
                Ok(())
            })();
            self.give_back(opened);
            looked?;
        }
        followed.seq = committed.seq;
        Ok(())
    }

    fn file_of(&self, table: &DayTable) -> Result<LiveFile, StoreError> {
        self.catalogue.file_of(table)?.ok_or_else(|| StoreError::TableGone(table.to_string()))
    }

    fn take(&self, file: &LiveFile) -> Result<Opened, StoreError> {
        let path = self.data.join("tables").join(&file.name);
        let kept = self.connections.borrow_mut().get_mut(&file.name).and_then(Vec::pop);
        let connection = match kept {
            Some(connection) => connection,
            None => match sqlite::open_to_read(&path) {
                // Named a moment ago: it was dropped in between, or it is lost.
                Err(error) if !path.exists() => {
                    let is_live = self.catalogue.is_live(&file.name)?;
                    return Err(if is_live { error } else { StoreError::TableGone(file.day.to_string()) });
                }
                opened => opened?,
            },
        };
        Ok(Opened { connection, path, file: file.clone() })
    }

    fn give_back(&self, opened: Opened) {
        end(&opened.connection);
        let mut connections = self.connections.borrow_mut();
        if connections.len() >= CONNECTIONS_KEPT {
            // Those of days that are not read any more go with the rest.
            connections.clear();
        }
        connections.entry(opened.file.name).or_default().push(opened.connection);
    }
}

/// A day's file, opened to read.
struct Opened {
    connection: Connection,
    path: PathBuf,
    file: LiveFile,
}

/// Begins a snapshot: the first read fixes it, so one is made.
fn begin(opened: &Opened) -> Result<(), StoreError> {
    let begun = run(&opened.connection, "BEGIN").and_then(|()| read_total(&opened.connection));
    begun.map(drop).map_err(StoreError::sqlite(&opened.path))
}

/// Lets a snapshot go, if there is one.
fn end(connection: &Connection) {
    if !connection.is_autocommit() {
        // Nothing was written, so it cannot fail in a way that matters.
        let _ = run(connection, "COMMIT");
    }
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

fn damaged(opened: &Opened, page: &PageRow, what: String) -> StoreError {
    StoreError::Damaged { path: opened.path.clone(), page: page.id, what }
}

fn partition_names(opened: &Opened, wanted: Option<&[String]>) -> Result<BTreeMap<i64, Arc<str>>, StoreError> {
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

/// Headers of the pages that overlap `first..=last`, by partition and first key.
fn headers_in(
    opened: &Opened,
    partitions: Option<&BTreeMap<i64, Arc<str>>>,
    first: RowKey,
    last: RowKey,
) -> Result<Vec<PageRow>, StoreError> {
    let from = look_back(first).to_bytes();
    let (first, last) = (first.to_bytes(), last.to_bytes());
    let result = (|| match partitions {
        None => {
            let select = format!("SELECT {HEADER_COLUMNS} FROM page WHERE first BETWEEN ?1 AND ?2 AND last >= ?3");
            let mut statement = opened.connection.prepare_cached(&select)?;
            let rows = statement.query_map(params![from, last, first], read_header)?;
            let mut pages = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            pages.sort_by_key(|page| (page.partition, page.header.first));
            Ok(pages)
        }
        Some(partitions) => {
            let select = format!(
                "SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?4 AND first BETWEEN ?1 AND ?2 AND last >= ?3 ORDER BY first"
            );
            let mut pages = Vec::new();
            for partition in partitions.keys() {
                let mut statement = opened.connection.prepare_cached(&select)?;
                for page in statement.query_map(params![from, last, first, partition], read_header)? {
                    pages.push(page?);
                }
            }
            Ok(pages)
        }
    })();
    result.map_err(StoreError::sqlite(&opened.path))
}

/// The least first key of a page that can hold `key`.
fn look_back(key: RowKey) -> RowKey {
    RowKey::range(Ticks::MIN, key.time().plus(PAGE_SPAN)).0
}

/// Counts the rows of overlapping pages, or of one that is cut by the range, each key once.
fn count_rows(
    opened: &Opened,
    cluster: &[PageRow],
    first: RowKey,
    last: RowKey,
    name: &Arc<str>,
    each: &mut dyn FnMut(MinuteCount),
) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for page in cluster {
        let decoded = read_page(&opened.connection, &opened.path, page)?;
        let keys =
            decoded.keys().iter().enumerate().filter(|(_, key)| **key >= first && **key <= last && key.item() == 0);
        rows.extend(keys.map(|(index, key)| (*key, Reverse((page.seq, page.id)), decoded.level(index))));
    }
    rows.sort_unstable_by_key(|&(key, later, _)| (key, later));
    rows.dedup_by_key(|row| row.0);
    let mut counts: HashMap<(i64, Option<Level>), u64> = HashMap::new();
    for (key, _, level) in rows {
        *counts.entry((key.time().unix_seconds().div_euclid(60), level)).or_default() += 1;
    }
    for ((minute, level), records) in counts {
        each(MinuteCount { partition: name.clone(), minute, level, records });
    }
    Ok(())
}

/// Where a scan goes on when it begins a new snapshot.
#[derive(Clone, Copy)]
enum Resume {
    /// With this key, in any partition.
    From(RowKey),
    /// Behind this key.
    After(RowKey),
}

impl Resume {
    fn key(self) -> RowKey {
        match self {
            Resume::From(key) | Resume::After(key) => key,
        }
    }

    fn wants(self, key: RowKey) -> bool {
        match self {
            Resume::From(from) => key >= from,
            Resume::After(after) => key > after,
        }
    }
}

/// Rows of one table, newest first. See [`Reader::scan`].
pub struct Scan<'r> {
    reader: &'r Reader,
    /// None only once the scan is over.
    opened: Option<Opened>,
    wanted: Option<Vec<String>>,
    needle: Option<Finder<'static>>,
    resume: Resume,
    last: RowKey,
    streams: Vec<Stream>,
    heap: BinaryHeap<Reverse<Next>>,
    names: HashMap<i64, Arc<str>>,
    committed: Committed,
    since: Instant,
    done: bool,
}

/// Headers in the order of their first key, of one partition or all.
struct Stream {
    partition: Option<i64>,
    headers: VecDeque<PageRow>,
    /// First key and id of the last header that was read, or where to begin.
    after: (RowKey, i64),
    chunk: usize,
    ended: bool,
}

/// A page that has rows to come: not read yet, or at one of its rows. Ordered by key; of equal keys the later commit's
/// first.
struct Next {
    key: RowKey,
    later: Reverse<(i64, i64)>,
    partition: i64,
    page: Pages,
}

enum Pages {
    Unread(Box<PageRow>),
    At(ReadPage, usize),
}

/// A page that was read, and which of its rows may be wanted.
#[derive(Clone)]
struct ReadPage {
    page: Arc<Page>,
    hits: Option<Arc<[bool]>>,
}

impl ReadPage {
    fn new(page: Page, needle: Option<&Finder<'_>>) -> ReadPage {
        // A text may lie over two rows of a record, or be written otherwise in the JSON of `Fields`.
        let spread = page.column("Items", Kind::Int32).is_some() || page.column("Fields", Kind::String).is_some();
        let hits = needle.filter(|_| !spread).map(|needle| page.any_string_contains(needle).into());
        ReadPage { page: Arc::new(page), hits }
    }

    fn may_be_wanted(&self, index: usize) -> bool {
        self.hits.as_ref().is_none_or(|hits| hits[index])
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Next) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Next) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Next) -> std::cmp::Ordering {
        (self.key, self.later).cmp(&(other.key, other.later))
    }
}

impl Scan<'_> {
    /// Begins a snapshot at `resume`.
    fn begin(&mut self) -> Result<(), StoreError> {
        let Some(opened) = &self.opened else { return Ok(()) };
        end(&opened.connection);
        if !self.reader.catalogue.is_live(&opened.file.name)? {
            return Err(StoreError::TableGone(opened.file.day.to_string()));
        }
        begin(opened)?;
        self.committed = self.reader.catalogue.committed()?;
        self.since = Instant::now();
        self.heap.clear();
        let stream = |partition| Stream {
            partition,
            headers: VecDeque::new(),
            after: (look_back(self.resume.key()), i64::MIN),
            chunk: *HEADERS.start(),
            ended: false,
        };
        self.streams = match &self.wanted {
            None => vec![stream(None)],
            Some(wanted) => {
                let names = partition_names(opened, Some(wanted))?;
                let streams = names.keys().map(|id| stream(Some(*id))).collect();
                self.names = names.into_iter().collect();
                streams
            }
        };
        Ok(())
    }

    /// Brings every page whose first key may be next into the heap.
    fn pull(&mut self) -> Result<(), StoreError> {
        let Some(opened) = &self.opened else { return Ok(()) };
        for stream in &mut self.streams {
            loop {
                if stream.headers.is_empty() && !stream.ended {
                    stream.read(opened, self.last)?;
                }
                let Some(page) = stream.headers.front() else { break };
                if self.heap.peek().is_some_and(|Reverse(next)| next.key < page.header.first) {
                    break;
                }
                let Some(page) = stream.headers.pop_front() else { break };
                if self.committed.includes(page.seq) && page.header.last >= self.resume.key() {
                    self.heap.push(Reverse(Next {
                        key: page.header.first.max(self.resume.key()),
                        later: Reverse((page.seq, page.id)),
                        partition: page.partition,
                        page: Pages::Unread(Box::new(page)),
                    }));
                }
            }
        }
        Ok(())
    }

    /// The least key that another page may come with.
    fn until(&self) -> Option<RowKey> {
        let pages = self.heap.peek().map(|Reverse(next)| next.key);
        let headers = self.streams.iter().filter_map(|stream| stream.headers.front()).map(|page| page.header.first);
        // Of headers that are not read yet nothing is known.
        let unknown = self.streams.iter().any(|stream| stream.headers.is_empty() && !stream.ended);
        if unknown { Some(self.resume.key()) } else { headers.chain(pages).min() }
    }

    fn step(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            if self.since.elapsed() > SNAPSHOT_MAX {
                self.begin()?;
            }
            self.pull()?;
            let Some(Reverse(next)) = self.heap.pop() else { return Ok(None) };
            let Next { key, later, partition, page } = next;
            let Some(opened) = &self.opened else { return Ok(None) };
            let (read, mut index) = match page {
                Pages::Unread(row) => {
                    let page = read_page(&opened.connection, &opened.path, &row)?;
                    let resume = self.resume;
                    let index = page.keys().partition_point(|key| !resume.wants(*key));
                    if index < page.len() {
                        // Its key may not be the least any more: another page may come first.
                        let key = page.key(index);
                        let page = Pages::At(ReadPage::new(page, self.needle.as_ref()), index);
                        self.heap.push(Reverse(Next { key, later, partition, page }));
                    }
                    continue;
                }
                Pages::At(page, index) => (page, index),
            };
            if key > self.last {
                return Ok(None);
            }
            // The same key from an earlier commit is not wanted any more.
            let mut is_wanted = self.resume.wants(key) && read.may_be_wanted(index);
            self.resume = Resume::After(key);
            // Rows up to the next page's first key can be passed over without asking anybody.
            if !is_wanted {
                let until = self.until().unwrap_or(self.last);
                while index + 1 < read.page.len() && read.page.key(index + 1) < until {
                    index += 1;
                    self.resume = Resume::After(read.page.key(index));
                    is_wanted = read.may_be_wanted(index);
                    if is_wanted {
                        break;
                    }
                }
            }
            if index + 1 < read.page.len() {
                let key = read.page.key(index + 1);
                self.heap.push(Reverse(Next { key, later, partition, page: Pages::At(read.clone(), index + 1) }));
            }
            if !is_wanted {
                continue;
            }
            let partition = match self.names.get(&partition) {
                Some(name) => name.clone(),
                None => {
                    let name = opened.connection.prepare_cached("SELECT name FROM partition WHERE id = ?1");
                    let name = name.and_then(|mut s| s.query_row([partition], |row| row.get::<_, String>(0)));
                    let name: Arc<str> = name.map_err(StoreError::sqlite(&opened.path))?.into();
                    self.names.insert(partition, name.clone());
                    name
                }
            };
            return Ok(Some(Row { partition, page: read.page, index }));
        }
    }
}

impl Stream {
    fn read(&mut self, opened: &Opened, last: RowKey) -> Result<(), StoreError> {
        let result = (|| {
            let (first, id) = self.after;
            let limit = i64::try_from(self.chunk).unwrap_or(i64::MAX);
            let rows = match self.partition {
                None => {
                    let select = format!(
                        "SELECT {HEADER_COLUMNS} FROM page WHERE (first, id) > (?1, ?2) AND first <= ?3 ORDER BY first, id LIMIT ?4"
                    );
                    let mut statement = opened.connection.prepare_cached(&select)?;
                    let rows =
                        statement.query_map(params![first.to_bytes(), id, last.to_bytes(), limit], read_header)?;
                    rows.collect::<rusqlite::Result<VecDeque<_>>>()?
                }
                Some(partition) => {
                    let select = format!(
                        "SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?5 AND (first, id) > (?1, ?2) AND first <= ?3
                         ORDER BY first, id LIMIT ?4"
                    );
                    let mut statement = opened.connection.prepare_cached(&select)?;
                    let rows = statement
                        .query_map(params![first.to_bytes(), id, last.to_bytes(), limit, partition], read_header)?;
                    rows.collect::<rusqlite::Result<VecDeque<_>>>()?
                }
            };
            Ok(rows)
        })();
        self.headers = result.map_err(StoreError::sqlite(&opened.path))?;
        self.ended = self.headers.len() < self.chunk;
        self.chunk = (self.chunk * 4).min(*HEADERS.end());
        if let Some(page) = self.headers.back() {
            self.after = (page.header.first, page.id);
        }
        Ok(())
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let row = self.step().transpose();
        self.done = !matches!(row, Some(Ok(_)));
        row
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.reader.give_back(opened);
        }
    }
}
