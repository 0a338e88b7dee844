//! Rows of one open file of a day, newest first.
//!
//! Pages of a partition may overlap, so an [`OpenScan`] merges them by RowKey. Of rows with equal keys, the row of the
//! later commit wins. A shared page has rows of many partitions in the order of their keys. A scan reads a page only
//! when the page's first key is next. So the newest hundred rows of a file of any size need one page of each partition
//! that has them. A search for a text or a level merges only rows that may match. Such a row is dropped if a page that
//! was skipped has a later version of it. A scan holds a snapshot for some time
//! ([`SnapshotTimes`](super::SnapshotTimes)), or longer if it needs that long to advance at all (see `is_over`). Then
//! it ends the snapshot, checks that the file is still live, and continues by key.

use crate::StoreError;
use crate::format::catalog::Committed;
use crate::format::page::{Page, Prefilter, earliest_first_key};
use crate::format::page_rows::{self, HEADER_COLUMNS, PageRow, read_header};
use crate::format::shared_pages::{self, SHARED};
use crate::read::columns::{ColumnBatch, RowChooser};
use crate::read::superseded_keys::{Later, PageKeys, SupersededKeys};
use crate::read::{OpenDayFile, Range, Reader, Row, begin, check_snapshot, end, held, partition_names};
use daytable_model::key::RowKey;
use daytable_model::row_set::RowSet;
use daytable_platform::scan_scheduler;
use rusqlite::params;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Headers that are read at once: few at first, because the newest rows are in the first pages, then more.
const HEADERS: std::ops::RangeInclusive<usize> = 4..=256;

/// The most partitions whose headers are read by themselves. Of more, all headers are read, and those of others skipped.
const STREAMS_MAX: usize = 32;

/// Where a scan resumes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Resume {
    /// At this key, in any partition.
    From(RowKey),
    /// After this key.
    After(RowKey),
}

impl Resume {
    pub(crate) fn key(self) -> RowKey {
        match self {
            Resume::From(key) | Resume::After(key) => key,
        }
    }

    pub(crate) fn wants(self, key: RowKey) -> bool {
        match self {
            Resume::From(from) => key >= from,
            Resume::After(after) => key > after,
        }
    }
}

/// Rows of one open file, newest first.
pub(crate) struct OpenScan<'r> {
    reader: &'r Reader,
    /// None only after the scan ended.
    opened: Option<Rc<OpenDayFile>>,
    wanted: Option<Vec<String>>,
    prefilter: Option<Prefilter>,
    chooser: Option<Arc<dyn RowChooser>>,
    resume: Resume,
    /// The value of `resume` at the start of the snapshot.
    begun: Resume,
    /// When the first row of the snapshot was requested.
    asked: Option<Instant>,
    /// How long after that request the scan advanced.
    settled: Option<Duration>,
    /// Whether the scan begins snapshots as often as possible.
    #[cfg(test)]
    is_hasty: bool,
    last: RowKey,
    streams: Vec<Stream>,
    heap: BinaryHeap<Reverse<Next>>,
    /// Bytes of the pages in it that were read.
    merged: usize,
    passed: SupersededKeys,
    names: HashMap<i64, Arc<str>>,
    committed: Committed,
    /// Later commits are left out.
    up_to_commit: i64,
    since: Instant,
    /// How long the snapshot may last.
    lasting: Duration,
    snapshots: u64,
    done: bool,
}

/// Headers sorted by first key: of one partition, of all, or of shared pages with rows of wanted partitions.
struct Stream {
    partition: Option<i64>,
    headers: VecDeque<PageRow>,
    /// First key, partition and id of the last header that was read, or the start.
    after: (RowKey, i64, i64),
    chunk: usize,
    ended: bool,
}

/// A page with remaining rows, not read yet or at one of its rows. Sorted by key; of equal keys, the later commit comes
/// first.
struct Next {
    key: RowKey,
    later: Later,
    page: Pages,
}

enum Pages {
    Unread(Box<PageRow>),
    At(ReadPage, usize),
}

/// A page with its header, and its rows that may match; none means all.
#[derive(Clone)]
struct ReadPage {
    row: Arc<PageRow>,
    page: Arc<Page>,
    wanted: Option<Arc<[usize]>>,
}

impl ReadPage {
    /// `names` has the name of the partition, or of each partition of a shared page by its number; an empty one where no
    /// row is wanted.
    fn new(
        row: Box<PageRow>,
        names: &[Arc<str>],
        page: Page,
        prefilter: Option<&Prefilter>,
        chooser: Option<&Arc<dyn RowChooser>>,
    ) -> Result<ReadPage, StoreError> {
        let mut wanted = prefilter.and_then(|prefilter| prefilter.rows_of(&page));
        let page = Arc::new(page);
        let is_named = |at: usize| page.owner(at).is_none_or(|owner| names.get(owner).is_some_and(|of| !of.is_empty()));
        if page.has_owners() {
            wanted = Some(
                wanted.unwrap_or_else(|| (0..page.len()).collect()).into_iter().filter(|at| is_named(*at)).collect(),
            );
        }
        if let Some(chooser) = chooser {
            let is_record = |row: usize| page.key(row).item() == 0 && is_named(row);
            let batch = ColumnBatch::of_page(names, page.clone(), RowSet::of(page.len(), is_record), None);
            let chosen = chooser.choose(&batch)?;
            let is_wanted = |row: &usize| chosen.contains(*row) || !is_record(*row) && is_named(*row);
            wanted = Some(wanted.unwrap_or_else(|| (0..page.len()).collect()).into_iter().filter(is_wanted).collect());
        }
        Ok(ReadPage { row: row.into(), page, wanted: wanted.map(Arc::from) })
    }

    /// The first row from `index` on that may match.
    fn next(&self, index: usize) -> Option<usize> {
        match &self.wanted {
            None => (index < self.page.len()).then_some(index),
            Some(wanted) => wanted.get(wanted.partition_point(|&row| row < index)).copied(),
        }
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
    pub(crate) fn begin(
        reader: &'r Reader,
        opened: OpenDayFile,
        range: &Range,
        resume: Resume,
    ) -> Result<OpenScan<'r>, StoreError> {
        let last = RowKey::range(range.from, range.to).1;
        let mut scan = OpenScan {
            reader,
            opened: Some(Rc::new(opened)),
            wanted: range.partitions.clone(),
            prefilter: Prefilter::new(range.contains.as_deref(), range.level),
            chooser: range.chooser.clone(),
            resume,
            begun: resume,
            asked: None,
            settled: None,
            #[cfg(test)]
            is_hasty: false,
            last,
            streams: Vec::new(),
            heap: BinaryHeap::new(),
            merged: 0,
            passed: SupersededKeys::default(),
            names: HashMap::new(),
            committed: Committed::default(),
            up_to_commit: range.up_to_commit.unwrap_or(i64::MAX),
            since: Instant::now(),
            lasting: reader.snapshot_times().usual,
            snapshots: 0,
            done: false,
        };
        scan.opened.iter().for_each(held::add);
        scan.begin_snapshot()?;
        Ok(scan)
    }

    /// Ends the snapshot. Call [`OpenScan::renew`] before the next row.
    #[cfg(test)]
    pub(crate) fn pause(&mut self) {
        self.skip_excluded().expect("a table");
        self.opened.iter().for_each(|opened| end(&opened.connection));
    }

    /// Sets whether the scan begins snapshots as often as possible.
    #[cfg(test)]
    pub(crate) fn hurry(&mut self, is_hasty: bool) {
        self.is_hasty = is_hasty;
    }

    /// Continues in a new snapshot, as after some time.
    #[cfg(test)]
    pub(crate) fn renew(&mut self) {
        self.begin_snapshot().expect("a table");
    }

    /// The number of snapshots so far.
    pub(crate) fn snapshots(&self) -> u64 {
        self.snapshots
    }

    /// Begins a snapshot at `resume`.
    fn begin_snapshot(&mut self) -> Result<(), StoreError> {
        let Some(opened) = &self.opened else { return Ok(()) };
        end(&opened.connection);
        if !self.reader.catalog().is_live(&opened.file.name)? {
            return Err(StoreError::TableGone(opened.file.day.to_string()));
        }
        let total = begin(opened)?;
        self.committed = self.reader.catalog().committed()?;
        check_snapshot(self.reader.catalog(), opened, &total, &self.committed)?;
        self.committed.seq = self.committed.seq.min(self.up_to_commit);
        (self.since, self.begun) = (Instant::now(), self.resume);
        self.lasting = self.reader.snapshot_times().usual;
        (self.asked, self.settled) = (None, None);
        self.snapshots += 1;
        self.heap.clear();
        self.merged = 0;
        self.passed = SupersededKeys::default();
        let stream = |partition, headers, ended| Stream {
            partition,
            headers,
            after: (earliest_first_key(self.resume.key()), i64::MIN, i64::MIN),
            chunk: *HEADERS.start(),
            ended,
        };
        let names = match &self.wanted {
            None => None,
            Some(wanted) => Some(partition_names(opened, Some(wanted))?),
        };
        self.streams = Vec::new();
        match &names {
            Some(names) if names.len() <= STREAMS_MAX => {
                let shared = shared_pages::pages_with(&opened.connection, self.resume.key(), self.last, names);
                let shared = shared.map_err(StoreError::sqlite(&opened.path))?;
                self.streams.push(stream(None, shared.into(), true));
                self.streams.extend(names.keys().map(|id| stream(Some(*id), VecDeque::new(), false)));
            }
            _ => self.streams.push(stream(None, VecDeque::new(), false)),
        }
        if let Some(names) = names {
            self.names = names.into_iter().collect();
        }
        Ok(())
    }

    /// Pushes every page whose first key may be next to the heap.
    fn pull(&mut self) -> Result<(), StoreError> {
        let Some(opened) = &self.opened else { return Ok(()) };
        let is_wanted = |partition| self.wanted.is_none() || self.names.contains_key(&partition);
        let wants = |page: &PageRow| match &page.shared {
            Some(shared) => shared.iter().any(|(partition, _)| is_wanted(partition)),
            None => is_wanted(page.partition),
        };
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
                if wants(&page) && self.committed.includes(page.seq) && page.header.last >= self.resume.key() {
                    self.heap.push(Reverse(Next {
                        key: page.header.first.max(self.resume.key()),
                        later: Reverse((page.seq, page.place)),
                        page: Pages::Unread(Box::new(page)),
                    }));
                }
            }
        }
        Ok(())
    }

    /// Whether a new snapshot is due. If so, `resume` is after all returned and skipped rows. A snapshot lasts until
    /// the scan passes its first key, and then as long again at least. Reading all pages that overlap at one key may
    /// take longer than that, and every new snapshot has to repeat it.
    fn is_over(&mut self) -> Result<bool, StoreError> {
        let Some(settled) = self.settled else { return Ok(false) };
        let is_due = self.since.elapsed() > self.lasting.max(2 * settled);
        #[cfg(test)]
        let is_due = is_due || self.is_hasty;
        if !is_due {
            return Ok(false);
        }
        self.skip_excluded()?;
        Ok(self.resume != self.begun)
    }

    /// Advances `resume` past skipped rows.
    fn skip_excluded(&mut self) -> Result<(), StoreError> {
        if self.prefilter.is_some() || self.chooser.is_some() {
            self.pull()?;
            if let Some(Reverse(next)) = self.heap.peek().filter(|Reverse(next)| next.key > self.resume.key()) {
                self.resume = Resume::From(next.key);
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            let is_released = self.opened.as_ref().is_some_and(|opened| !opened.has_snapshot());
            if is_released || self.is_over()? {
                self.begin_snapshot()?;
            }
            let asked = *self.asked.get_or_insert_with(Instant::now);
            self.pull()?;
            let Some(Reverse(next)) = self.heap.pop() else { return Ok(None) };
            let Next { key, later, page } = next;
            if self.settled.is_none() && key > self.begun.key() {
                self.settled = Some(asked.elapsed());
            }
            let Some(opened) = &self.opened else { return Ok(None) };
            let (read, index) = match page {
                Pages::Unread(row) => {
                    scan_scheduler::yield_now();
                    if self.reader.is_short_for(self.merged) {
                        return Err(StoreError::NoMemory);
                    }
                    if self.since.elapsed() > self.reader.snapshot_times().of_long_journal {
                        self.lasting = opened.snapshot_max();
                        held::end_due(opened);
                    }
                    // Of the rows of a shared page, only those are named that are shown, or looked at by columns.
                    let names: Vec<Arc<str>> = match &row.shared {
                        None => vec![name_of(&mut self.names, opened, &row)?],
                        Some(shared) => {
                            let mut names = Vec::with_capacity(shared.len());
                            for (number, (partition, _)) in shared.iter().enumerate() {
                                let is_wanted = self.wanted.is_none() || self.names.contains_key(&partition);
                                names.push(match is_wanted {
                                    true => opened.name_in(&row, number, &mut self.names)?,
                                    false => "".into(),
                                });
                            }
                            names
                        }
                    };
                    let page = match &self.prefilter {
                        None => Some(opened.read_page(&names[0], &row)?),
                        Some(prefilter) => opened.read_prefiltered(&names[0], &row, prefilter)?,
                    };
                    let Some(page) = page else {
                        self.passed.add_unread(row, key);
                        continue;
                    };
                    let resume = self.resume;
                    let first = page.keys().partition_point(|key| !resume.wants(*key));
                    let read = ReadPage::new(row, &names, page, self.prefilter.as_ref(), self.chooser.as_ref())?;
                    if read.wanted.as_ref().is_some_and(|wanted| wanted.len() < read.page.len()) {
                        self.passed.add_read(&read.row, PageKeys::of(&read.row, &read.page), key);
                    }
                    if let Some(index) = read.next(first) {
                        // Another page may now have a smaller key.
                        let key = read.page.key(index);
                        self.merged += read.page.memory();
                        self.heap.push(Reverse(Next { key, later, page: Pages::At(read, index) }));
                    }
                    continue;
                }
                Pages::At(page, index) => (page, index),
            };
            if key > self.last {
                return Ok(None);
            }
            // Skip the same key of an earlier commit.
            let keys = |row: &PageRow| {
                let name = if row.partition == SHARED { Arc::from("") } else { opened.name_of(row)? };
                Ok(PageKeys::of(row, &opened.read_page(&name, row)?))
            };
            let partition = read.row.partition_at(&read.page, index);
            let partition = partition.ok_or_else(|| page_rows::unnamed_partition(&opened.path, &read.row))?;
            let is_wanted = self.resume.wants(key) && !self.passed.replace(partition, key, later, keys)?;
            self.resume = Resume::After(key);
            match read.next(index + 1) {
                Some(next) => {
                    let key = read.page.key(next);
                    self.heap.push(Reverse(Next { key, later, page: Pages::At(read.clone(), next) }));
                }
                None => self.merged = self.merged.saturating_sub(read.page.memory()),
            }
            if is_wanted {
                let name = match read.page.owner(index) {
                    Some(number) => opened.name_in(&read.row, number, &mut self.names)?,
                    None => name_of(&mut self.names, opened, &read.row)?,
                };
                return Ok(Some(Row::of_page(name, read.page, index)));
            }
        }
    }
}

/// The name of the partition of a page, from `names` if it is there.
fn name_of(names: &mut HashMap<i64, Arc<str>>, opened: &OpenDayFile, page: &PageRow) -> Result<Arc<str>, StoreError> {
    match names.get(&page.partition) {
        Some(name) => Ok(name.clone()),
        None => {
            let name = opened.name_of(page)?;
            names.insert(page.partition, name.clone());
            Ok(name)
        }
    }
}

impl Stream {
    fn read(&mut self, opened: &OpenDayFile, last: RowKey) -> Result<(), StoreError> {
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
            let mut rows = statement.query_map(bounds, read_header)?.collect::<rusqlite::Result<VecDeque<_>>>()?;
            shared_pages::fill(&opened.connection, &mut rows)?;
            Ok(rows)
        })();
        self.headers = result.map_err(StoreError::sqlite(&opened.path))?;
        self.ended = self.headers.len() < self.chunk;
        self.chunk = (self.chunk * 4).min(*HEADERS.end());
        if let Some(PageRow { place, partition, header, .. }) = self.headers.back() {
            self.after = (header.first, *partition, place.page());
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
            // Nothing else holds it for longer than a call.
            if let Ok(opened) = Rc::try_unwrap(opened) {
                self.reader.release(opened);
            }
        }
    }
}
