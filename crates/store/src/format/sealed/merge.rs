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
use super::mapped::{MappedRows, RowSlice};
use super::open_day::{Chunk, OpenInput, ShuffleTargets, ShuffleWriter, ShuffledPages};
use super::part::InputRows;
use super::slice::TimeSlice;
use super::{SealedSizes, is_sealed};
use crate::StoreError;
use crate::format::catalog::Committed;
use crate::format::commit_range::{CommitRange, FooterCommits};
use crate::format::day_file;
use crate::format::page::TableAddress;
use crate::format::page_rows::{HEADER_COLUMNS, read_header};
use crate::format::page_rows::{PageLocation, PageRow};
use daytable_model::key::{DayTable, RowKey};
use rusqlite::{Connection, params};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Headers that are read at a time.
const HEADERS: usize = 256;

/// The files of a day, the oldest generation first.
pub(super) struct Inputs {
    files: Vec<Input>,
    /// The times of the rows that are wanted.
    slice: TimeSlice,
}

/// The entities that the files of a day claim.
#[derive(Clone, Copy, Default)]
pub(super) struct ClaimedEntities {
    /// Those in the pages, duplicates included that were not merged.
    pub(super) left: u64,
    /// Those that commits wrote, all duplicates included.
    pub(super) written: u64,
}

enum Input {
    Open(Box<OpenInput>),
    Sealed(SealedFile),
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
                OpenInput::open(path, table_address, committed).map(Box::new).map(Input::Open)
            }
        };
        Ok(Inputs { files: paths.iter().map(open).collect::<Result<_, _>>()?, slice: TimeSlice::ALL })
    }

    /// The rows of some times alone, of pages that were opened: whatever else their files have is passed over. `committed`
    /// was read after they were opened.
    pub(super) fn sliced(pages: Vec<OpenInput>, slice: TimeSlice, committed: &Committed) -> Inputs {
        let open = |mut day: OpenInput| {
            day.slice = slice;
            day.committed = committed.clone();
            Input::Open(Box::new(day))
        };
        Inputs { files: pages.into_iter().map(open).collect(), slice }
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

    /// The commits of the day; `None` if their times are not known.
    pub(super) fn commits(&self) -> Result<Option<FooterCommits>, StoreError> {
        let mut ranges = Vec::new();
        for input in &self.files {
            match input {
                Input::Open(day) => ranges.extend(day.commits()?),
                Input::Sealed(file) => match file.commits().and_then(FooterCommits::range) {
                    Some(range) => ranges.push(range),
                    None => return Ok(None),
                },
            }
        }
        Ok(CommitRange::of_all(ranges).and_then(FooterCommits::new))
    }

    /// The entities that the files claim.
    pub(super) fn entities(&self) -> Result<ClaimedEntities, StoreError> {
        let mut claimed = ClaimedEntities::default();
        for input in &self.files {
            let (left, written) = match input {
                Input::Sealed(file) => (file.rows(), file.rows()),
                Input::Open(day) => {
                    let total = day_file::read_total(&day.connection).map_err(StoreError::sqlite(&day.path))?;
                    let number = |entities: i64| u64::try_from(entities).unwrap_or(0);
                    (number(total.entities - total.merged), number(total.entities))
                }
            };
            claimed.left += left;
            claimed.written += written;
        }
        Ok(claimed)
    }

    /// Where the pages of each file belong; of a sealed file, nowhere.
    pub(super) fn targets(&self) -> Result<Vec<Arc<ShuffleTargets>>, StoreError> {
        let of = |input: &Input| match input {
            Input::Open(day) => day.targets(self.files.len() == 1).map(Arc::new),
            Input::Sealed(_) => Ok(Arc::default()),
        };
        self.files.iter().map(of).collect()
    }

    /// Passes every part of every file to `each`, with the number of the file.
    pub(super) fn each_chunk(
        &self,
        each: &mut dyn FnMut(usize, Chunk) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for (number, input) in self.files.iter().enumerate() {
            match input {
                Input::Open(day) => day.each_chunk(&mut |chunk| each(number, chunk))?,
                Input::Sealed(file) => {
                    for (group, rows) in file.index().groups.iter().enumerate() {
                        for start in (0..*rows).step_by(file.sizes.page_rows) {
                            let rows = start..(start + file.sizes.page_rows).min(*rows);
                            each(number, Chunk::Block(file.clone(), group, rows))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Keeps what the survey found in each file.
    pub(super) fn keep(&mut self, found: Vec<(ShuffleWriter, Vec<PageRow>)>) {
        for (input, (writer, small)) in self.files.iter_mut().zip(found) {
            if let Input::Open(day) = input {
                day.keep(writer, small);
            }
        }
    }

    /// The shuffled pages, if those of a partition are among them. Only a day of one file has any.
    pub(super) fn shuffled(&self, partition: &str) -> Option<&Arc<ShuffledPages>> {
        let [Input::Open(day)] = self.files.as_slice() else { return None };
        let id = day.partitions.get(partition)?;
        day.shuffled.as_ref().filter(|pages| pages.has(*id))
    }

    /// The rows of one partition in order.
    pub(super) fn merge<'a>(&'a self, partition: &Arc<str>, layout: &'a ColumnLayout) -> PartitionMerge<'a> {
        let mut streams = Vec::new();
        for (file, input) in self.files.iter().enumerate() {
            match input {
                Input::Open(day) => {
                    let Some(&id) = day.partitions.get(partition) else { continue };
                    let source = Source::Rows { day, id, after: None, ended: false };
                    streams.push(InputStream { file, source, headers: VecDeque::new(), next: None });
                    let headers: VecDeque<PageRow> = day.parts.get(&id).cloned().unwrap_or_default().into();
                    streams.push(InputStream { file, source: Source::Parts(day), headers, next: None });
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
            slice: self.slice,
            streams,
            open: BinaryHeap::new(),
            last: None,
            duplicates: 0,
            duplicate_values: 0,
        }
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
    Rows {
        day: &'a OpenInput,
        id: i64,
        after: Option<(RowKey, i64)>,
        ended: bool,
    },
    /// Parts of shared pages.
    Parts(&'a OpenInput),
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
                    self.headers.extend(read.into_iter().filter(|page| day.has(page)));
                }
            }
            Source::Parts(day) => {
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
    fn take(&mut self, partition: &str) -> Result<Option<(InputRows, Rank, usize)>, StoreError> {
        let day = match &self.source {
            Source::Rows { day, .. } | Source::Parts(day) => day,
            Source::Sealed(..) => {
                let Some(part) = self.next.take() else { return Ok(None) };
                let bytes = if let InputRows::Block(block) = &part { block.bytes() } else { 0 };
                return Ok(Some((part, (self.file, i64::MIN, None), bytes)));
            }
        };
        let Some(page) = self.headers.pop_front() else { return Ok(None) };
        let part = InputRows::Page(day.read_page(partition, &page)?.into());
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
    slice: TimeSlice,
    streams: Vec<InputStream<'a>>,
    open: BinaryHeap<Reverse<OpenRows>>,
    last: Option<RowKey>,
    /// Rows that a later one with the same key replaced, or that are of other times, and the number of their values.
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
            let Some((part, rank, bytes)) = self.streams[number].take(&self.partition)? else { return Ok(Some(key)) };
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
                self.duplicate_values += mapped.values(at);
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
                let rows = self.slice.rows_within(mapped.part.keys(), at..end);
                for row in (at..rows.start).chain(rows.end..end) {
                    self.duplicates += 1;
                    self.duplicate_values += mapped.values(row);
                }
                if !rows.is_empty() {
                    return Ok(Some(RowSlice { partition: self.partition.clone(), mapped, rows }));
                }
            }
        }
    }
}
