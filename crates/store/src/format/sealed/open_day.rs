//! An open day's file as an input of a sealing.
//!
//! Shared pages have rows of many partitions, but a sealed file needs rows by partition. Read by partition, a shared page
//! would be decoded again and again in a day of many instances. So the survey, which reads each page once anyway,
//! *shuffles* their rows: it writes them as pages to *segments* in a file without a name, for each shared page one page a
//! segment. A segment has adjacent partitions, and fits into memory. It is brought in order as a whole. Partitions that have
//! other pages, in this file or in another, are merged with these: they have pages of their own in the segment.

use super::gather::Gatherer;
use super::layout::ColumnLayout;
use super::mapped::{MappedRows, RowSlice};
use super::part::InputRows;
use super::slice::TimeSlice;
use super::survey::Survey;
use super::{SealedFile, columns::ColumnSet};
use crate::StoreError;
use crate::format::catalog::Committed;
use crate::format::commit_range::CommitRange;
use crate::format::page::{
    ByteReader, Page, PageAddress, PageError, PageHeader, TableAddress, build_rest, put_varint, unpack,
};
use crate::format::page_rows::{self, BodyReader, HEADER_COLUMNS, PageLocation, PageRow, read_header};
use crate::format::shared_pages::{self, SHARED, SharedPage};
use daytable_model::key::RowKey;
use daytable_platform::scratch::create_unnamed;
use rusqlite::Connection;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Least bytes of a segment.
const SEGMENT_BYTES: u64 = 4 << 20;
/// Maximum segments. Those of larger days are larger.
const SEGMENTS_MAX: u64 = 256;
/// Bytes of a shuffled page beside its body, about.
const PAGE_HEAD_BYTES: u64 = 64;
/// Bytes of pages that are surveyed together, compressed.
const CHUNK_BYTES: usize = 1 << 20;

/// An open day's file.
pub(crate) struct OpenInput {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(super) committed: Committed,
    /// Pages without a row of these times are passed over.
    pub(super) slice: TimeSlice,
    pub(super) table_address: TableAddress,
    pub(super) partitions: BTreeMap<Arc<str>, i64>,
    /// Parts of shared pages that are merged with other pages, by partition, in the order of their first keys. The survey
    /// finds them.
    pub(super) parts: HashMap<i64, Vec<PageRow>>,
    /// The shuffled rows of shared pages.
    pub(super) shuffled: Option<Arc<ShuffledPages>>,
    bodies: RefCell<BodyReader>,
    merged: RefCell<MergedParts>,
}

/// Parts of shared pages that are merged with other pages: those of one segment, by location.
#[derive(Default)]
struct MergedParts {
    segment: Option<usize>,
    pages: HashMap<PageLocation, (PageRow, Vec<u8>), foldhash::fast::RandomState>,
}

/// A partition of an open day.
struct ShuffleTarget {
    name: Arc<str>,
    address: PageAddress,
    /// Where its rows of shared pages are shuffled to.
    segment: Option<usize>,
    /// Whether it has other pages, too.
    is_merged: bool,
}

/// Where the pages of each partition belong.
#[derive(Default)]
pub(super) struct ShuffleTargets {
    path: PathBuf,
    table_address: TableAddress,
    by_id: HashMap<i64, ShuffleTarget, foldhash::fast::RandomState>,
    segments: usize,
}

/// Rows of shared pages, by segment.
pub(super) struct ShuffledPages {
    targets: Arc<ShuffleTargets>,
    file: File,
    segments: Vec<Vec<Piece>>,
    slice: TimeSlice,
}

/// Collects the rows of shared pages of the survey.
pub(super) struct ShuffleWriter {
    targets: Arc<ShuffleTargets>,
    file: Option<(File, u64)>,
    segments: Vec<Vec<Piece>>,
}

/// Some pages of a segment: their place in the file, and their bytes before compression.
struct Piece {
    start: u64,
    packed: usize,
    bytes: usize,
}

/// The rows of a shared page that belong to a segment.
#[derive(Default)]
struct SegmentPart {
    /// Its partitions, as they are stored, and how many they are.
    list: Vec<u8>,
    partitions: i64,
    /// The numbers of its rows in the page, and the number of the partition of each in the list.
    rows: Vec<u32>,
    owners: Vec<i64>,
}

/// Parts of a day that are surveyed together.
pub(super) enum Chunk {
    Pages(Vec<(PageRow, Range<usize>)>, Vec<u8>),
    Block(SealedFile, usize, Range<usize>),
}

/// What a chunk contains.
#[derive(Default)]
pub(super) struct Surveyed {
    pub(super) survey: Survey,
    pub(super) entities: u64,
    /// Parts of shared pages that are merged with other pages.
    parts: Vec<PageRow>,
    /// Bytes of the shuffled pages, compressed and before compression, by segment.
    pieces: Vec<(usize, Vec<u8>, usize)>,
}

/// A row of some pages: the rank of its partition, its key, its rank among equal keys, the number of its page, and its
/// number there.
type RankedRow = (u32, RowKey, Reverse<(i64, i64)>, u32, u32);

/// The rows of a segment, in the order of the sealed file.
pub(super) struct SegmentRows {
    pub(super) slices: Vec<RowSlice>,
    pub(super) duplicates: u64,
    pub(super) duplicate_values: u64,
}

impl OpenInput {
    pub(crate) fn open(
        path: &Path,
        table_address: TableAddress,
        committed: &Committed,
    ) -> Result<OpenInput, StoreError> {
        OpenInput::of(crate::sqlite::open_to_read(path)?, path, table_address, committed)
    }

    /// A file that is open.
    pub(crate) fn of(
        connection: Connection,
        path: &Path,
        table_address: TableAddress,
        committed: &Committed,
    ) -> Result<OpenInput, StoreError> {
        let read = (|| {
            connection.execute_batch("BEGIN")?;
            let mut names = connection.prepare("SELECT name, id FROM partition")?;
            let names = names.query_map([], |row| Ok((row.get::<_, String>(0)?.into(), row.get(1)?)))?;
            names.collect::<rusqlite::Result<BTreeMap<Arc<str>, i64>>>()
        })();
        let partitions = read.map_err(StoreError::sqlite(path))?;
        Ok(OpenInput {
            path: path.into(),
            connection,
            committed: committed.clone(),
            slice: TimeSlice::ALL,
            table_address,
            partitions,
            parts: HashMap::new(),
            shuffled: None,
            bodies: RefCell::default(),
            merged: RefCell::default(),
        })
    }

    /// Whether a page is data, and may have rows that are wanted.
    pub(super) fn has(&self, page: &PageRow) -> bool {
        self.committed.includes(page.seq) && self.slice.meets(&page.header)
    }

    /// Reads a page of a partition, or its part of a shared page.
    pub(super) fn read_page(&self, partition: &str, page: &PageRow) -> Result<Page, StoreError> {
        if let (PageLocation::Part { .. }, Some(shuffled)) = (page.place, &self.shuffled) {
            let mut merged = self.merged.borrow_mut();
            let segment = shuffled.targets.of(page)?.segment;
            if merged.segment != segment
                && let Some(segment) = segment
            {
                *merged = MergedParts { segment: Some(segment), pages: shuffled.merged(segment)? };
            }
            let found = merged.pages.get(&page.place);
            let (row, body) = found.ok_or_else(|| page_rows::damaged(&self.path, page, "it is missing".into()))?;
            return page_rows::decode(&self.path, self.table_address.at(partition), row, body);
        }
        let address = self.table_address.at(partition);
        page_rows::read_page(&self.connection, &self.path, address, page, &mut self.bodies.borrow_mut())
    }

    /// Where its pages belong. Without other files, it `is_only`.
    pub(super) fn targets(&self, is_only: bool) -> Result<ShuffleTargets, StoreError> {
        let read = || {
            let bytes = shared_pages::bytes_by_partition(&self.connection)?;
            let others = format!("SELECT DISTINCT partition FROM page WHERE partition <> {SHARED}");
            let mut others = self.connection.prepare(&others)?;
            let others = others.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<HashSet<i64>>>()?;
            Ok((bytes, others))
        };
        let (bytes, others) = read().map_err(StoreError::sqlite(&self.path))?;
        let bytes_of = |id: &i64| bytes.get(id).map(|(parts, bytes)| parts * PAGE_HEAD_BYTES + bytes);
        let all: u64 = bytes.keys().filter_map(bytes_of).sum();
        let (full, mut filled, mut segments) = ((all / SEGMENTS_MAX).max(SEGMENT_BYTES), 0, 0);
        let mut by_id = HashMap::default();
        for (name, id) in &self.partitions {
            let segment = bytes_of(id).map(|bytes| {
                if segments == 0 || filled >= full {
                    (filled, segments) = (0, segments + 1);
                }
                filled += bytes;
                segments - 1
            });
            by_id.insert(
                *id,
                ShuffleTarget {
                    name: name.clone(),
                    address: self.table_address.at(name),
                    segment,
                    is_merged: !is_only || others.contains(id),
                },
            );
        }
        Ok(ShuffleTargets { path: self.path.clone(), table_address: self.table_address, by_id, segments })
    }

    /// The last commit and the range of all; `None` without pages.
    pub(super) fn commits(&self) -> Result<Option<(i64, CommitRange)>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare("SELECT seq, commits, arrived, arrived_span FROM page")?;
            let pages = statement.query_map([], |row| Ok((row.get(0)?, page_rows::read_commits(row, 1)?)))?;
            pages.collect::<rusqlite::Result<Vec<_>>>()
        };
        let pages = read().map_err(StoreError::sqlite(&self.path))?;
        Ok(CommitRange::of_all(pages.into_iter().filter(|(seq, _)| self.committed.includes(*seq))))
    }

    /// Passes every page to `each`.
    pub(super) fn each_chunk(&self, each: &mut dyn FnMut(Chunk) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let sql = |error| StoreError::sqlite(&self.path)(error);
        let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY id");
        let mut statement = self.connection.prepare(&select).map_err(sql)?;
        let mut found = statement.query([]).map_err(sql)?;
        let (mut pages, mut bodies) = (Vec::new(), Vec::new());
        while let Some(row) = found.next().map_err(sql)? {
            let mut page = read_header(row).map_err(sql)?;
            if !self.has(&page) {
                continue;
            }
            shared_pages::fill(&self.connection, [&mut page]).map_err(sql)?;
            let start = bodies.len();
            let mut reader = self.bodies.borrow_mut();
            bodies.extend_from_slice(page_rows::read_body(&self.connection, &self.path, &page, &mut reader)?);
            drop(reader);
            pages.push((page, start..bodies.len()));
            if bodies.len() >= CHUNK_BYTES {
                each(Chunk::Pages(std::mem::take(&mut pages), std::mem::take(&mut bodies)))?;
            }
        }
        each(Chunk::Pages(pages, bodies))
    }

    /// Keeps what a survey found.
    pub(super) fn keep(&mut self, writer: ShuffleWriter, parts: Vec<PageRow>) {
        for part in parts {
            self.parts.entry(part.partition).or_default().push(part);
        }
        self.parts.values_mut().for_each(|parts| parts.sort_by_key(|part| part.header.first));
        let ShuffleWriter { targets, file, segments } = writer;
        let slice = self.slice;
        self.shuffled = file.map(|(file, _)| Arc::new(ShuffledPages { targets, file, segments, slice }));
    }
}

impl ShuffleTargets {
    fn of(&self, page: &PageRow) -> Result<&ShuffleTarget, StoreError> {
        self.by_id.get(&page.partition).ok_or_else(|| page_rows::unnamed_partition(&self.path, page))
    }

    /// Surveys a chunk, with a share of its values, and packs the pages that are shuffled.
    pub(super) fn survey(&self, chunk: Chunk, share: f64) -> Result<Surveyed, StoreError> {
        let mut found = Surveyed::default();
        match chunk {
            Chunk::Block(file, group, rows) => {
                found.add(&InputRows::Block(file.block(group, &[rows], ColumnSet::All)?), share);
            }
            Chunk::Pages(pages, bodies) => {
                let mut packed: Vec<Vec<u8>> = vec![Vec::new(); self.segments];
                for (page, body) in pages {
                    let body = &bodies[body];
                    let Some(shared) = &page.shared else {
                        let decoded = page_rows::decode(&self.path, self.of(&page)?.address, &page, body)?;
                        found.add(&InputRows::Page(decoded.into()), share);
                        continue;
                    };
                    let decoded = page_rows::decode(&self.path, shared.address(self.table_address), &page, body)?;
                    let damaged = |error: PageError| page_rows::damaged(&self.path, &page, error.to_string());
                    let of = SharedPage::new(decoded.into(), shared.clone()).map_err(damaged)?;
                    found.add(&InputRows::Page(of.page.clone()), share);
                    // The segment of each partition of the page.
                    let mut segments = vec![None; shared.len()];
                    for part in of.parts(&page) {
                        let PageLocation::Part { part: number, .. } = part.place else { continue };
                        let number = number as usize;
                        let target = self.of(&part)?;
                        of.check_name(&self.path, &part, (number, self.table_address), &target.name)?;
                        // Each partition of the list of a shared page has one.
                        let Some(segment) = target.segment else { continue };
                        if !target.is_merged {
                            segments[number] = Some(segment);
                            continue;
                        }
                        let copy = of.copy_of(number).map_err(damaged)?;
                        let checksum = target.address.stored_checksum(&copy.header, part.seq);
                        let header = PageHeader { checksum, ..copy.header };
                        found.parts.push(part.clone());
                        put_page(&mut packed[segment], &[], &PageRow { header, ..part }, &copy.body);
                    }
                    self.shuffle(&page, &of, &segments, &mut packed);
                }
                for (segment, pages) in packed.iter().enumerate().filter(|(_, pages)| !pages.is_empty()) {
                    let packed = compress(pages).ok_or_else(no_memory)?;
                    found.pieces.push((segment, packed, pages.len()));
                }
            }
        }
        Ok(found)
    }

    /// Writes the rows of a shared page to the segments of their partitions.
    fn shuffle(&self, page: &PageRow, of: &SharedPage, segments: &[Option<usize>], packed: &mut [Vec<u8>]) {
        let Some(shared) = &page.shared else { return };
        let mut parts: BTreeMap<usize, SegmentPart> = BTreeMap::new();
        let mut numbers = vec![0; segments.len()];
        for ((segment, (partition, _)), number) in segments.iter().zip(shared.iter()).zip(&mut numbers) {
            let Some(segment) = segment else { continue };
            let part = parts.entry(*segment).or_default();
            *number = part.partitions;
            part.partitions += 1;
            put_varint(&mut part.list, partition.cast_unsigned());
        }
        of.page.each_owner(|row, owner| {
            let Some(Some(segment)) = segments.get(owner) else { return };
            let Some(part) = parts.get_mut(segment) else { return };
            part.rows.push(u32::try_from(row).unwrap_or(u32::MAX));
            part.owners.push(numbers[owner]);
        });
        for (segment, SegmentPart { list, rows, owners, .. }) in parts {
            if rows.is_empty() {
                continue;
            }
            let part = build_rest(&of.page, &rows, &owners);
            let checksum = self.table_address.of_many(&list).stored_checksum(&part.header, page.seq);
            let header = PageHeader { checksum, ..part.header };
            let (place, seq) = (page.place, page.seq);
            let row = PageRow { place, partition: SHARED, seq, header, shared: None };
            put_page(&mut packed[segment], &list, &row, &part.body);
        }
    }
}

impl Surveyed {
    fn add(&mut self, part: &InputRows, share: f64) {
        self.survey.add(part, share);
        self.entities += part.len() as u64;
    }
}

impl ShuffleWriter {
    pub(super) fn new(targets: Arc<ShuffleTargets>) -> ShuffleWriter {
        let segments = std::iter::repeat_with(Vec::new).take(targets.segments).collect();
        ShuffleWriter { targets, file: None, segments }
    }

    /// Takes the parts of shared pages of a chunk. Writes those that are shuffled to a file in `folder`, and adds others to
    /// `parts`.
    pub(super) fn take(
        &mut self,
        surveyed: &mut Surveyed,
        parts: &mut Vec<PageRow>,
        folder: &Path,
    ) -> Result<(), StoreError> {
        parts.append(&mut surveyed.parts);
        for (segment, packed, bytes) in surveyed.pieces.drain(..) {
            let io = |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::StorageFull => StoreError::Full(folder.into()),
                _ => StoreError::io(folder)(error),
            };
            let (file, length) = match &mut self.file {
                Some(file) => file,
                None => self.file.insert((create_unnamed(folder).map_err(io)?, 0)),
            };
            file.write_all(&packed).map_err(io)?;
            self.segments[segment].push(Piece { start: *length, packed: packed.len(), bytes });
            *length += packed.len() as u64;
        }
        Ok(())
    }
}

impl ShuffledPages {
    /// Whether all rows of a partition are in a segment.
    pub(super) fn has(&self, partition: i64) -> bool {
        self.targets.by_id.get(&partition).is_some_and(|target| target.segment.is_some() && !target.is_merged)
    }

    /// The number of segments.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The bytes of a segment.
    fn bytes(&self, segment: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = Vec::new();
        for Piece { start, packed, bytes: length } in &self.segments[segment] {
            let mut piece = vec![0; *packed];
            self.file.read_exact_at(&mut piece, *start).map_err(StoreError::io(&self.targets.path))?;
            bytes.extend_from_slice(&unpack(&piece, *length).map_err(|error| self.unreadable(&error))?);
        }
        Ok(bytes)
    }

    fn unreadable(&self, error: &PageError) -> StoreError {
        StoreError::Refused(format!("shuffled pages of {}: {error}", self.targets.path.display()))
    }

    /// The pages of a segment that are merged with others.
    #[allow(clippy::type_complexity)]
    fn merged(
        &self,
        segment: usize,
    ) -> Result<HashMap<PageLocation, (PageRow, Vec<u8>), foldhash::fast::RandomState>, StoreError> {
        let bytes = self.bytes(segment)?;
        let (mut reader, mut pages) = (ByteReader::new(&bytes), HashMap::default());
        while !reader.rest().is_empty() {
            let (list, page, body) = take_page(&mut reader).map_err(|error| self.unreadable(&error))?;
            if list.is_empty() {
                pages.insert(page.place, (page, body.to_vec()));
            }
        }
        Ok(pages)
    }

    /// Reads a segment, and brings its rows in order, without those that are merged. Of equal keys, the row of the later
    /// commit wins. Rows of other times count as those that do not.
    pub(super) fn rows(&self, segment: usize, layout: &ColumnLayout) -> Result<SegmentRows, StoreError> {
        let path = &self.targets.path;
        let bytes = self.bytes(segment)?;
        let (mut parts, mut owned) = (Vec::new(), Vec::new());
        let mut partitions: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        let mut reader = ByteReader::new(&bytes);
        while !reader.rest().is_empty() {
            let (list, page, body) = take_page(&mut reader).map_err(|error| self.unreadable(&error))?;
            if list.is_empty() {
                continue;
            }
            let address = self.targets.table_address.of_many(list);
            let decoded = Page::decode_of(address, page.seq, &page.header, body);
            let decoded = decoded.map_err(|error| page_rows::damaged(path, &page, error.to_string()))?;
            let (mut names, mut list) = (Vec::new(), ByteReader::new(list));
            while !list.rest().is_empty() {
                let partition = list.varint().map_err(|error| self.unreadable(&error))?.cast_signed();
                let target =
                    self.targets.by_id.get(&partition).ok_or_else(|| page_rows::unnamed_partition(path, &page))?;
                partitions.insert(&target.name, 0);
                names.push(&target.name);
            }
            let raw_bytes = page.header.raw_bytes as usize;
            owned.push((names, (page.seq, page.place.page())));
            parts.push(MappedRows::new(InputRows::Page(decoded.into()), raw_bytes, layout));
        }
        partitions.values_mut().zip(0..).for_each(|(rank, number)| *rank = number);
        let mut rows: Vec<RankedRow> = Vec::new();
        for (number, ((names, rank), part)) in (0..).zip(owned.iter().zip(&parts)) {
            let ranks: Vec<u32> = names.iter().map(|name| partitions.get(name).copied().unwrap_or(0)).collect();
            let InputRows::Page(page) = &part.part else { continue };
            for (row, key) in (0..).zip(page.keys()) {
                let of = page.owner(row as usize).and_then(|owner| ranks.get(owner)).copied();
                let of = of.ok_or_else(|| self.unreadable(&PageError::Damaged("a row has no partition")))?;
                rows.push((of, *key, Reverse(*rank), number, row));
            }
        }
        rows.sort_unstable();
        let names: Vec<&Arc<str>> = partitions.into_keys().collect();
        let mut gatherer = Gatherer::new(layout);
        let mut of_segment = SegmentRows { slices: Vec::new(), duplicates: 0, duplicate_values: 0 };
        let mut last = None;
        for (partition, key, _, part, row) in rows {
            let (part, row) = (&parts[part as usize], row as usize);
            if !self.slice.contains(key.time()) || last.replace((partition, key)) == Some((partition, key)) {
                of_segment.duplicates += 1;
                of_segment.duplicate_values += part.values(row);
            } else {
                gatherer.push(names[partition as usize], part, row);
                if gatherer.is_full() {
                    of_segment.slices.append(&mut gatherer.take());
                }
            }
        }
        of_segment.slices.append(&mut gatherer.take());
        Ok(of_segment)
    }
}

/// Adds a page to a segment, with the stored list of its partitions, if it is not a part of one partition.
fn put_page(out: &mut Vec<u8>, list: &[u8], page: &PageRow, body: &[u8]) {
    let PageRow { place, partition, seq, header, .. } = page;
    // The ranges of commits were read before (`OpenInput::commits`), and copies of pages have none.
    let PageHeader { first, last, entities, records, levels, codec, raw_bytes, commits: _, checksum } = header;
    let (id, part) = match place {
        PageLocation::Row(id) => (*id, 0),
        PageLocation::Part { page, part } => (*page, *part),
    };
    for number in [*partition, *seq, id] {
        put_varint(out, number.cast_unsigned());
    }
    for number in [part, *entities, *records, *raw_bytes] {
        put_varint(out, number.into());
    }
    out.push(*codec);
    out.extend_from_slice(&first.to_bytes());
    out.extend_from_slice(&last.to_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    for bytes in [levels, list, body] {
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

/// The inverse of [`put_page`].
#[allow(clippy::type_complexity)]
fn take_page<'b>(from: &mut ByteReader<'b>) -> Result<(&'b [u8], PageRow, &'b [u8]), PageError> {
    let damaged = || PageError::Damaged("their bytes changed");
    let (partition, seq, id) =
        (from.varint()?.cast_signed(), from.varint()?.cast_signed(), from.varint()?.cast_signed());
    let mut number = || u32::try_from(from.varint()?).map_err(|_| damaged());
    let (part, entities, records, raw_bytes) = (number()?, number()?, number()?, number()?);
    let codec = from.byte()?;
    let mut key = || RowKey::from_bytes(&from.array::<{ RowKey::BYTES }>()?).ok_or_else(damaged);
    let (first, last) = (key()?, key()?);
    let checksum = u64::from_le_bytes(from.array()?);
    let mut bytes = || {
        let length = usize::try_from(from.varint()?).map_err(|_| damaged())?;
        from.take(length)
    };
    let (levels, list, body) = (bytes()?.to_vec(), bytes()?, bytes()?);
    let commits = CommitRange::default();
    let header = PageHeader { first, last, entities, records, levels, codec, raw_bytes, commits, checksum };
    let place = PageLocation::Part { page: id, part };
    Ok((list, PageRow { place, partition, seq, header, shared: None }, body))
}

/// Compresses with a context that this thread keeps. `None` without memory for one.
fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    }
    COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = zstd::bulk::Compressor::new(1).ok();
        }
        kept.as_mut()?.compress(bytes).ok()
    })
}

fn no_memory() -> StoreError {
    StoreError::Refused("there is no memory to compress pages".into())
}
