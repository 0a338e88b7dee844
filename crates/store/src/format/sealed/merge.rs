//! Merges the entities of a day in the order of a sealed file: by PartitionKey and RowKey, each key once.
//!
//! The inputs are closed files: generations of the open form, and a sealed file of the day if late records followed
//! it. They no longer change, so a snapshot may be held for any time without pinning a journal. Of equal keys, the
//! later generation's row wins, and within one generation the later commit's.
//!
//! For each partition, a file is a stream of parts (pages, blocks) in the order of their first keys, which may
//! overlap. A part is decoded when its first key may be next. The output is slices of parts that no other part
//! overlaps.

use super::columns::ColumnSet;
use super::file::SealedFile;
use super::layout::ColumnLayout;
use super::part::InputRows;
use super::{SealedSizes, is_sealed};
use crate::StoreError;
use crate::format::catalog::Committed;
use crate::format::day_file::{self, HEADER_COLUMNS, read_header};
use crate::format::page::{Page, PageAddress, TableAddress};
use crate::format::small_pages::{self, BodyReader, PageLocation, PageRow};
use daytable_model::key::{DayTable, RowKey};
use rusqlite::{Connection, params};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Headers that are read at a time.
const HEADERS: usize = 256;
/// Rows of small pages whose bodies are kept, 64 KiB each: a partition may have a page in each row.
const SMALL_ROWS_KEPT: usize = 512;

/// The files of a day, the oldest generation first.
pub(super) struct Inputs {
    files: Vec<Input>,
}

enum Input {
    Open(Box<OpenDay>),
    Sealed(SealedFile),
}

struct OpenDay {
    path: PathBuf,
    connection: Connection,
    committed: Committed,
    table_address: TableAddress,
    partitions: BTreeMap<Arc<str>, i64>,
    /// Small pages by partition, in the order of their first keys.
    small: HashMap<i64, Vec<PageRow>>,
    bodies: RefCell<BodyReader>,
}

/// A part, and the columns of the layout that its columns belong to.
pub(super) struct MappedRows {
    pub(super) part: InputRows,
    /// Pairs of a layout column and a part column, in the layout's order.
    pub(super) places: Vec<(usize, usize)>,
    /// Columns of the part that have no column in the layout.
    pub(super) rest: Vec<usize>,
    /// Average bytes of a row before encoding.
    pub(super) row_bytes: usize,
}

/// The next rows, all from one part.
pub(super) struct RowSlice {
    pub(super) partition: Arc<str>,
    pub(super) mapped: Arc<MappedRows>,
    pub(super) rows: Range<usize>,
}

impl Inputs {
    /// Opens `paths`, files of `table`. Pages of commits that are not in `committed` are skipped.
    pub(super) fn open(
        table: &DayTable,
        paths: &[PathBuf],
        committed: &Committed,
        sizes: SealedSizes,
    ) -> Result<Inputs, StoreError> {
        let table_address = TableAddress::new(table);
        let open = |path: &PathBuf| {
            if is_sealed(&path.to_string_lossy()) {
                SealedFile::open_local(path).map(|file| Input::Sealed(file.with_sizes(sizes)))
            } else {
                OpenDay::open(path, table_address, committed).map(Box::new).map(Input::Open)
            }
        };
        Ok(Inputs { files: paths.iter().map(open).collect::<Result<_, _>>()? })
    }

    /// Every partition, in order.
    pub(super) fn partitions(&self) -> BTreeSet<Arc<str>> {
        let of = |input: &Input| -> Vec<Arc<str>> {
            match input {
                Input::Open(day) => day.partitions.keys().cloned().collect(),
                Input::Sealed(file) => file.runs().iter().map(|run| run.partition.clone()).collect(),
            }
        };
        self.files.iter().flat_map(of).collect()
    }

    /// The entities that the files claim, including duplicates.
    pub(super) fn entities(&self) -> Result<u64, StoreError> {
        let mut entities = 0;
        for input in &self.files {
            entities += match input {
                Input::Sealed(file) => file.rows(),
                Input::Open(day) => {
                    let total = day_file::read_total(&day.connection).map_err(StoreError::sqlite(&day.path))?;
                    u64::try_from(total.entities - total.merged).unwrap_or(0)
                }
            };
        }
        Ok(entities)
    }

    /// Passes every part of every file to `each`, in any order.
    pub(super) fn each_part(
        &self,
        each: &mut dyn FnMut(&InputRows) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for input in &self.files {
            match input {
                Input::Open(day) => day.each_part(each)?,
                Input::Sealed(file) => {
                    for (group, rows) in file.index().groups.iter().enumerate() {
                        for start in (0..*rows).step_by(file.sizes.page_rows) {
                            let rows = start..(start + file.sizes.page_rows).min(*rows);
                            each(&InputRows::Block(file.block(group, &[rows], ColumnSet::All)?))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The rows of one partition in order.
    pub(super) fn merge<'a>(&'a self, partition: &Arc<str>, layout: &'a ColumnLayout) -> PartitionMerge<'a> {
        let mut streams = Vec::new();
        for (file, input) in self.files.iter().enumerate() {
            match input {
                Input::Open(day) => {
                    let Some(&id) = day.partitions.get(partition) else { continue };
                    let address = day.table_address.at(partition);
                    let source = Source::Rows { day, address, id, after: None, ended: false };
                    streams.push(InputStream { file, source, headers: VecDeque::new(), next: None });
                    let headers: VecDeque<PageRow> = day.small.get(&id).cloned().unwrap_or_default().into();
                    streams.push(InputStream { file, source: Source::SmallPages(day, address), headers, next: None });
                }
                Input::Sealed(sealed) => {
                    let mut pieces = VecDeque::new();
                    for run in sealed.runs_of(partition) {
                        let mut start = run.rows.start;
                        while start < run.rows.end {
                            let end = (start + 1).next_multiple_of(sealed.sizes.page_rows).min(run.rows.end);
                            pieces.push_back((run.group, start..end));
                            start = end;
                        }
                    }
                    let source = Source::Sealed(sealed, pieces);
                    streams.push(InputStream { file, source, headers: VecDeque::new(), next: None });
                }
            }
        }
        PartitionMerge {
            partition: partition.clone(),
            layout,
            streams,
            open: BinaryHeap::new(),
            last: None,
            duplicates: 0,
            duplicate_values: 0,
        }
    }
}

impl OpenDay {
    fn open(path: &Path, table_address: TableAddress, committed: &Committed) -> Result<OpenDay, StoreError> {
        let connection = crate::sqlite::open_to_read(path)?;
        let read = (|| {
            connection.execute_batch("BEGIN")?;
            let mut names = connection.prepare("SELECT name, id FROM partition")?;
            let names = names.query_map([], |row| Ok((row.get::<_, String>(0)?.into(), row.get(1)?)))?;
            let partitions = names.collect::<rusqlite::Result<BTreeMap<Arc<str>, i64>>>()?;
            let mut small: HashMap<i64, Vec<PageRow>> = HashMap::new();
            for page in small_pages::pages_since(&connection, i64::MIN)? {
                small.entry(page.partition).or_default().push(page);
            }
            small.values_mut().for_each(|pages| pages.sort_by_key(|page| page.header.first));
            Ok((partitions, small))
        })();
        let (partitions, small) = read.map_err(StoreError::sqlite(path))?;
        let bodies = RefCell::new(BodyReader::keeping(SMALL_ROWS_KEPT));
        Ok(OpenDay {
            path: path.into(),
            connection,
            committed: committed.clone(),
            table_address,
            partitions,
            small,
            bodies,
        })
    }

    fn read_page(&self, address: PageAddress, page: &PageRow) -> Result<Page, StoreError> {
        day_file::read_page(&self.connection, &self.path, address, page, &mut self.bodies.borrow_mut())
    }

    fn each_part(&self, each: &mut dyn FnMut(&InputRows) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let table_address: HashMap<i64, PageAddress> =
            self.partitions.iter().map(|(name, id)| (*id, self.table_address.at(name))).collect();
        let mut look = |page: &PageRow| {
            if !self.committed.includes(page.seq) {
                return Ok(());
            }
            let address =
                table_address.get(&page.partition).ok_or_else(|| day_file::unnamed_partition(&self.path, page))?;
            each(&InputRows::Page(self.read_page(*address, page)?))
        };
        let mut small: Vec<&PageRow> = self.small.values().flatten().collect();
        small.sort_unstable_by_key(|page| page.place);
        small.into_iter().try_for_each(&mut look)?;
        let sql = |error| StoreError::sqlite(&self.path)(error);
        let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY id");
        let mut statement = self.connection.prepare(&select).map_err(sql)?;
        let mut rows = statement.query([]).map_err(sql)?;
        while let Some(row) = rows.next().map_err(sql)? {
            look(&read_header(row).map_err(sql)?)?;
        }
        Ok(())
    }
}

/// The parts of one partition of one file, in the order of their first keys.
struct InputStream<'a> {
    file: usize,
    source: Source<'a>,
    headers: VecDeque<PageRow>,
    /// The next block of a sealed file: its first key is known only after reading.
    next: Option<InputRows>,
}

enum Source<'a> {
    Rows { day: &'a OpenDay, address: PageAddress, id: i64, after: Option<(RowKey, i64)>, ended: bool },
    SmallPages(&'a OpenDay, PageAddress),
    Sealed(&'a SealedFile, VecDeque<(usize, Range<usize>)>),
}

/// The precedence among equal keys: the greatest rank wins.
type Rank = (usize, i64, Option<PageLocation>);

impl InputStream<'_> {
    /// The first key of the next part.
    fn first(&mut self) -> Result<Option<RowKey>, StoreError> {
        match &mut self.source {
            Source::Rows { day, id, after, ended, .. } => {
                while self.headers.is_empty() && !*ended {
                    let read = read_headers(&day.connection, *id, *after).map_err(StoreError::sqlite(&day.path))?;
                    *ended = read.len() < HEADERS;
                    if let Some(PageRow { place: PageLocation::Row(id), header, .. }) = read.last() {
                        *after = Some((header.first, *id));
                    }
                    self.headers.extend(read.into_iter().filter(|page| day.committed.includes(page.seq)));
                }
            }
            Source::SmallPages(day, _) => {
                while self.headers.pop_front_if(|page| !day.committed.includes(page.seq)).is_some() {}
            }
            Source::Sealed(file, pieces) => {
                if self.next.is_none()
                    && let Some((group, rows)) = pieces.pop_front()
                {
                    self.next = Some(InputRows::Block(file.block(group, &[rows], ColumnSet::All)?));
                }
                return Ok(self.next.as_ref().and_then(|part| part.keys().first().copied()));
            }
        }
        Ok(self.headers.front().map(|page| page.header.first))
    }

    /// The next part, with its rank and bytes.
    fn take(&mut self) -> Result<Option<(InputRows, Rank, usize)>, StoreError> {
        let (day, address) = match &self.source {
            Source::Rows { day, address, .. } | Source::SmallPages(day, address) => (day, address),
            Source::Sealed(..) => {
                let Some(part) = self.next.take() else { return Ok(None) };
                let bytes = if let InputRows::Block(block) = &part { block.bytes() } else { 0 };
                return Ok(Some((part, (self.file, i64::MIN, None), bytes)));
            }
        };
        let Some(page) = self.headers.pop_front() else { return Ok(None) };
        let part = InputRows::Page(day.read_page(*address, &page)?);
        let bytes = usize::try_from(page.header.raw_bytes).unwrap_or(usize::MAX);
        Ok(Some((part, (self.file, page.seq, Some(page.place)), bytes)))
    }
}

fn read_headers(connection: &Connection, id: i64, after: Option<(RowKey, i64)>) -> rusqlite::Result<Vec<PageRow>> {
    let (first, page) = after.map_or((Vec::new(), i64::MIN), |(key, page)| (key.to_bytes().to_vec(), page));
    let select = format!(
        "SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?1 AND first >= ?2 AND (first, id) > (?2, ?3)
         ORDER BY first, id LIMIT {HEADERS}"
    );
    connection.prepare_cached(&select)?.query_map(params![id, first, page], read_header)?.collect()
}

/// A part with remaining rows. Ordered by key, and among equal keys the winner first.
struct OpenRows {
    key: RowKey,
    rank: Reverse<Rank>,
    at: usize,
    mapped: Arc<MappedRows>,
}

impl PartialEq for OpenRows {
    fn eq(&self, other: &OpenRows) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OpenRows {}

impl PartialOrd for OpenRows {
    fn partial_cmp(&self, other: &OpenRows) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OpenRows {
    fn cmp(&self, other: &OpenRows) -> std::cmp::Ordering {
        (self.key, self.rank).cmp(&(other.key, other.rank))
    }
}

/// The rows of one partition as slices.
pub(super) struct PartitionMerge<'a> {
    partition: Arc<str>,
    layout: &'a ColumnLayout,
    streams: Vec<InputStream<'a>>,
    open: BinaryHeap<Reverse<OpenRows>>,
    last: Option<RowKey>,
    /// Rows that a later one with the same key replaced, and the number of their values.
    pub(super) duplicates: u64,
    pub(super) duplicate_values: u64,
}

impl PartitionMerge<'_> {
    /// Opens every part whose first key may be next; returns the first key of the remaining ones.
    fn pull(&mut self) -> Result<Option<RowKey>, StoreError> {
        loop {
            let mut least = None;
            for (number, stream) in self.streams.iter_mut().enumerate() {
                if let Some(key) = stream.first()?
                    && least.is_none_or(|(least, _)| key < least)
                {
                    least = Some((key, number));
                }
            }
            let Some((key, number)) = least else { return Ok(None) };
            if self.open.peek().is_some_and(|Reverse(open)| open.key < key) {
                return Ok(Some(key));
            }
            let Some((part, rank, bytes)) = self.streams[number].take()? else { return Ok(Some(key)) };
            let Some(key) = part.keys().first().copied() else { continue };
            let mapped = Arc::new(MappedRows::new(part, bytes, self.layout));
            self.open.push(Reverse(OpenRows { key, rank: Reverse(rank), at: 0, mapped }));
        }
    }

    /// The next slice.
    pub(super) fn next(&mut self) -> Result<Option<RowSlice>, StoreError> {
        loop {
            let unread = self.pull()?;
            let Some(Reverse(OpenRows { key, rank, at, mapped })) = self.open.pop() else { return Ok(None) };
            let keys = mapped.part.keys();
            let is_duplicate = self.last.is_some_and(|last| key <= last);
            let end = if is_duplicate {
                self.duplicates += 1;
                let part = &mapped.part;
                self.duplicate_values += (0..part.width()).filter(|c| part.value(*c, at).is_some()).count() as u64;
                at + 1
            } else {
                let others = self.open.peek().map(|Reverse(open)| open.key);
                let bound = [unread, others].into_iter().flatten().min();
                let until = bound.map_or(keys.len(), |bound| at + keys[at..].partition_point(|key| *key < bound));
                until.max(at + 1)
            };
            let last = keys[end - 1];
            if let Some(key) = keys.get(end).copied() {
                self.open.push(Reverse(OpenRows { key, rank, at: end, mapped: mapped.clone() }));
            }
            if !is_duplicate {
                self.last = Some(last);
                return Ok(Some(RowSlice { partition: self.partition.clone(), mapped, rows: at..end }));
            }
        }
    }
}

impl MappedRows {
    fn new(part: InputRows, bytes: usize, layout: &ColumnLayout) -> MappedRows {
        let (mut places, mut rest) = (Vec::new(), Vec::new());
        let mut is_taken = HashSet::new();
        for column in 0..part.width() {
            let (name, kind) = part.name(column);
            // A block has a second column of a property if some of its values came from the map.
            match layout.number(name, kind).filter(|number| is_taken.insert(*number)) {
                Some(number) => places.push((number, column)),
                None => rest.push(column),
            }
        }
        places.sort_unstable();
        let row_bytes = bytes / part.len().max(1) + 1;
        MappedRows { part, places, rest, row_bytes }
    }

    /// The part's column for a column of the layout.
    pub(super) fn place(&self, number: usize) -> Option<usize> {
        let found = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.places[found].1)
    }
}
