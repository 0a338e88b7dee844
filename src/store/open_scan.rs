//! Rows of one open file of a day, newest first.
//!
//! Within a partition pages may overlap, so an [`OpenScan`] merges them by RowKey: of equal keys the later commit's row is
//! the row. A page is read only when its first key is next, so the newest hundred rows of a file of any size are one
//! page of each partition that has them. A snapshot is held for [`SNAPSHOT_MAX`] at most; then the scan lets go, looks
//! whether the file is still live, and continues by key.

use super::StoreError;
use super::catalogue::Committed;
use super::day::{HEADER_COLUMNS, read_header};
use super::pack::{self, PageRow, Place};
use super::page::Page;
use super::read::{Opened, Range, Reader, Row, SNAPSHOT_MAX, begin, check_snapshot, end, look_back, partition_names};
use crate::key::RowKey;
use crate::property::Kind;
use memchr::memmem::Finder;
use rusqlite::params;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Headers that are read at a time: few at first, as the newest rows are in the first pages, then more and more.
const HEADERS: std::ops::RangeInclusive<usize> = 4..=256;

/// Where a scan goes on.
#[derive(Clone, Copy)]
pub(super) enum Resume {
    /// With this key, in any partition.
    From(RowKey),
    /// Behind this key.
    After(RowKey),
}

impl Resume {
    pub(super) fn key(self) -> RowKey {
        match self {
            Resume::From(key) | Resume::After(key) => key,
        }
    }

    pub(super) fn wants(self, key: RowKey) -> bool {
        match self {
            Resume::From(from) => key >= from,
            Resume::After(after) => key > after,
        }
    }
}

/// Rows of one open file, newest first.
pub(super) struct OpenScan<'r> {
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
    snapshots: u64,
    done: bool,
}

/// Headers in the order of their first key: of one partition or all, or those of packed pages.
struct Stream {
    partition: Option<i64>,
    headers: VecDeque<PageRow>,
    /// First key, partition and id of the last header that was read, or where to begin.
    after: (RowKey, i64, i64),
    chunk: usize,
    ended: bool,
}

/// A page that has rows to come: not read yet, or at one of its rows. Ordered by key; of equal keys the later commit's
/// first.
struct Next {
    key: RowKey,
    later: Reverse<(i64, Place)>,
    partition: i64,
    page: Pages,
}

enum Pages {
    Unread(Box<PageRow>),
    At(ReadPage, usize),
}

/// A page that was read by its partition's name, and which of its rows may be wanted.
#[derive(Clone)]
struct ReadPage {
    partition: Arc<str>,
    page: Arc<Page>,
    hits: Option<Arc<[bool]>>,
}

impl ReadPage {
    fn new(partition: Arc<str>, page: Page, needle: Option<&Finder<'_>>) -> ReadPage {
        // A text may lie over two rows of a record, or be written otherwise in the JSON of `Fields`.
        let spread = page.column("Items", Kind::Int32).is_some() || page.column("Fields", Kind::String).is_some();
        let hits = needle.filter(|_| !spread).map(|needle| page.any_string_contains(needle).into());
        ReadPage { partition, page: Arc::new(page), hits }
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

impl<'r> OpenScan<'r> {
    /// The rows of `range` from `resume` on.
    pub(super) fn begin(
        reader: &'r Reader,
        opened: Opened,
        range: &Range,
        resume: Resume,
    ) -> Result<OpenScan<'r>, StoreError> {
        let last = RowKey::range(range.from, range.to).1;
        let mut scan = OpenScan {
            reader,
            opened: Some(opened),
            wanted: range.partitions.clone(),
            needle: range.contains.as_ref().map(|text| Finder::new(text.as_bytes()).into_owned()),
            resume,
            last,
            streams: Vec::new(),
            heap: BinaryHeap::new(),
            names: HashMap::new(),
            committed: Committed::default(),
            since: Instant::now(),
            snapshots: 0,
            done: false,
        };
        scan.begin_snapshot()?;
        Ok(scan)
    }

    /// Lets its snapshot go; [`OpenScan::renew`] comes before the next row.
    #[cfg(test)]
    pub(super) fn pause(&mut self) {
        self.opened.iter().for_each(|opened| end(&opened.connection));
    }

    /// Goes on in a new snapshot, as it does after [`SNAPSHOT_MAX`].
    #[cfg(test)]
    pub(super) fn renew(&mut self) {
        self.begin_snapshot().expect("a table");
    }

    /// How many snapshots it has begun.
    pub(super) fn snapshots(&self) -> u64 {
        self.snapshots
    }

    /// Begins a snapshot at `resume`.
    fn begin_snapshot(&mut self) -> Result<(), StoreError> {
        let Some(opened) = &self.opened else { return Ok(()) };
        end(&opened.connection);
        if !self.reader.catalogue().is_live(&opened.file.name)? {
            return Err(StoreError::TableGone(opened.file.day.to_string()));
        }
        let total = begin(opened)?;
        self.committed = self.reader.catalogue().committed()?;
        check_snapshot(self.reader.catalogue(), opened, &total, &self.committed)?;
        self.since = Instant::now();
        self.snapshots += 1;
        self.heap.clear();
        let stream = |partition, headers, ended| Stream {
            partition,
            headers,
            after: (look_back(self.resume.key()), i64::MIN, i64::MIN),
            chunk: *HEADERS.start(),
            ended,
        };
        let names = match &self.wanted {
            None => None,
            Some(wanted) => Some(partition_names(opened, Some(wanted))?),
        };
        let packed = pack::pages_in(&opened.connection, self.resume.key(), self.last, names.as_ref());
        let mut packed = packed.map_err(StoreError::sqlite(&opened.path))?;
        packed.sort_by_key(|page| page.header.first);
        self.streams = vec![stream(None, packed.into(), true)];
        match names {
            None => self.streams.push(stream(None, VecDeque::new(), false)),
            Some(names) => {
                self.streams.extend(names.keys().map(|id| stream(Some(*id), VecDeque::new(), false)));
                self.names = names.into_iter().collect();
            }
        }
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
                        later: Reverse((page.seq, page.place)),
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
                self.begin_snapshot()?;
            }
            self.pull()?;
            let Some(Reverse(next)) = self.heap.pop() else { return Ok(None) };
            let Next { key, later, partition, page } = next;
            let Some(opened) = &self.opened else { return Ok(None) };
            let (read, mut index) = match page {
                Pages::Unread(row) => {
                    let name = match self.names.get(&partition) {
                        Some(name) => name.clone(),
                        None => {
                            let name = opened.name_of(&row)?;
                            self.names.insert(partition, name.clone());
                            name
                        }
                    };
                    let page = opened.read_page(&name, &row)?;
                    let resume = self.resume;
                    let index = page.keys().partition_point(|key| !resume.wants(*key));
                    if index < page.len() {
                        // Its key may not be the least any more: another page may come first.
                        let key = page.key(index);
                        let page = Pages::At(ReadPage::new(name, page, self.needle.as_ref()), index);
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
                let is_next = |key: RowKey| key < until && key <= self.last;
                while index + 1 < read.page.len() && is_next(read.page.key(index + 1)) {
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
            return Ok(Some(Row::of_page(read.partition, read.page, index)));
        }
    }
}

impl Stream {
    fn read(&mut self, opened: &Opened, last: RowKey) -> Result<(), StoreError> {
        let result = (|| {
            let (first, partition, id) = self.after;
            let limit = i64::try_from(self.chunk).unwrap_or(i64::MAX);
            let of_partition = if self.partition.is_some() { "partition = ?6" } else { "?6 IS NULL" };
            let select = format!(
                "SELECT {HEADER_COLUMNS} FROM page WHERE {of_partition} AND first >= ?1
                 AND (first, partition, id) > (?1, ?2, ?3) AND first <= ?4 ORDER BY first, partition, id LIMIT ?5"
            );
            let mut statement = opened.connection.prepare_cached(&select)?;
            let bounds = params![first.to_bytes(), partition, id, last.to_bytes(), limit, self.partition];
            let rows = statement.query_map(bounds, read_header)?.collect::<rusqlite::Result<VecDeque<_>>>()?;
            Ok(rows)
        })();
        self.headers = result.map_err(StoreError::sqlite(&opened.path))?;
        self.ended = self.headers.len() < self.chunk;
        self.chunk = (self.chunk * 4).min(*HEADERS.end());
        if let Some(PageRow { place: Place::Row(id), partition, header, .. }) = self.headers.back() {
            self.after = (header.first, *partition, *id);
        }
        Ok(())
    }
}

impl Iterator for OpenScan<'_> {
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

impl Drop for OpenScan<'_> {
    fn drop(&mut self) {
        if let Some(opened) = self.opened.take() {
            self.reader.give_back(opened);
        }
    }
}
