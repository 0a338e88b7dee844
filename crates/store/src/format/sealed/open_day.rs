//! An open day's file as an input of a sealing.
//!
//! Small pages lie in the order of their commits, but a sealed file needs them by partition. Read by partition, a row of
//! small pages would be unpacked again and again in a day of many instances. So the survey, which reads each row once
//! anyway, *scatters* small pages: it writes them, by partition, to *buckets* in a file without a name. A bucket has
//! adjacent partitions, and fits into memory. Pages of a partition with other rows, in this file or in another, stay
//! where they are, because such partitions are merged.

use super::gather::Gatherer;
use super::layout::ColumnLayout;
use super::mapped::{MappedRows, RowSlice};
use super::part::InputRows;
use super::survey::Survey;
use super::{SealedFile, columns::ColumnSet};
use crate::StoreError;
use crate::format::catalog::Committed;
use crate::format::day_file;
use crate::format::page::{ByteReader, Page, PageAddress, PageError, PageHeader, TableAddress, put_varint, unpack};
use crate::format::page_rows::{HEADER_COLUMNS, read_header};
use crate::format::small_pages::{self, BodyReader, PageLocation, PageRow, StoredRow};
use crate::private_file;
use daytable_model::key::RowKey;
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

/// Rows of small pages whose bodies are kept, 64 KiB each: a partition may have a page in each row.
const SMALL_ROWS_KEPT: usize = 512;
/// Least bytes of a bucket.
const BUCKET_BYTES: u64 = 4 << 20;
/// Maximum buckets. Those of larger days are larger.
const BUCKETS_MAX: u64 = 256;
/// Bytes of a scattered page beside its body, about.
const PAGE_HEAD_BYTES: u64 = 64;
/// Bytes of pages that are surveyed together, compressed.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of rows of small pages that are surveyed together, compressed.
const SMALL_CHUNK_BYTES: usize = 512 << 10;

pub(super) struct OpenInput {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) committed: Committed,
    pub(super) table_address: TableAddress,
    pub(super) partitions: BTreeMap<Arc<str>, i64>,
    /// Small pages that are not scattered, by partition, in the order of their first keys. The survey finds them.
    pub(super) small: HashMap<i64, Vec<PageRow>>,
    /// The scattered small pages.
    pub(super) scattered: Option<Arc<ScatteredPages>>,
    bodies: RefCell<BodyReader>,
}

/// A partition of an open day.
struct Home {
    name: Arc<str>,
    address: PageAddress,
    bucket: Option<usize>,
}

/// Where the pages of each partition belong.
#[derive(Default)]
pub(super) struct Homes {
    path: PathBuf,
    committed: Committed,
    by_id: HashMap<i64, Home, foldhash::fast::RandomState>,
    buckets: usize,
}

/// Small pages by bucket.
pub(super) struct ScatteredPages {
    homes: Arc<Homes>,
    file: File,
    buckets: Vec<Vec<Piece>>,
}

/// Collects the small pages of the survey.
pub(super) struct Scatter {
    homes: Arc<Homes>,
    file: Option<(File, u64)>,
    buckets: Vec<Vec<Piece>>,
}

/// Some pages of a bucket: their place in the file, and their bytes before compression.
struct Piece {
    start: u64,
    packed: usize,
    bytes: usize,
}

/// Parts of a day that are surveyed together.
pub(super) enum Chunk {
    Pages(Vec<(PageRow, Range<usize>)>, Vec<u8>),
    SmallRows(Vec<StoredRow>),
    Block(SealedFile, usize, Range<usize>),
}

/// What a chunk contains.
#[derive(Default)]
pub(super) struct Surveyed {
    pub(super) survey: Survey,
    pub(super) entities: u64,
    /// Small pages that are not scattered.
    small: Vec<PageRow>,
    /// Bytes of small pages that are, compressed and before compression, by bucket.
    pieces: Vec<(usize, Vec<u8>, usize)>,
}

/// A row of some pages: its key, its rank among equal keys, the number of its page, and its number there.
type RankedRow = (RowKey, Reverse<(i64, PageLocation)>, usize, usize);

/// The rows of a bucket, in the order of the sealed file.
pub(super) struct BucketRows {
    pub(super) slices: Vec<RowSlice>,
    pub(super) duplicates: u64,
    pub(super) duplicate_values: u64,
}

impl OpenInput {
    pub(super) fn open(
        path: &Path,
        table_address: TableAddress,
        committed: &Committed,
    ) -> Result<OpenInput, StoreError> {
        let connection = crate::sqlite::open_to_read(path)?;
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
            table_address,
            partitions,
            small: HashMap::new(),
            scattered: None,
            bodies: RefCell::new(BodyReader::keeping(SMALL_ROWS_KEPT)),
        })
    }

    pub(super) fn read_page(&self, address: PageAddress, page: &PageRow) -> Result<Page, StoreError> {
        day_file::read_page(&self.connection, &self.path, address, page, &mut self.bodies.borrow_mut())
    }

    /// Where its pages belong. Pages are scattered only if this file `is_only`.
    pub(super) fn homes(&self, is_only: bool) -> Result<Homes, StoreError> {
        let read = || {
            let bytes = if is_only { small_pages::bytes_by_partition(&self.connection)? } else { HashMap::default() };
            let mut others = self.connection.prepare("SELECT DISTINCT partition FROM page")?;
            let others = others.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<HashSet<i64>>>()?;
            Ok((bytes, others))
        };
        let (bytes, others) = read().map_err(StoreError::sqlite(&self.path))?;
        let bytes_of = |id: &i64| bytes.get(id).map(|(pages, bodies)| pages * PAGE_HEAD_BYTES + bodies);
        let all: u64 = bytes.keys().filter_map(bytes_of).sum();
        let (full, mut filled, mut buckets) = ((all / BUCKETS_MAX).max(BUCKET_BYTES), 0, 0);
        let mut by_id = HashMap::default();
        for (name, id) in &self.partitions {
            let bucket = bytes_of(id).filter(|_| !others.contains(id)).map(|bytes| {
                if buckets == 0 || filled >= full {
                    (filled, buckets) = (0, buckets + 1);
                }
                filled += bytes;
                buckets - 1
            });
            by_id.insert(*id, Home { name: name.clone(), address: self.table_address.at(name), bucket });
        }
        Ok(Homes { path: self.path.clone(), committed: self.committed.clone(), by_id, buckets })
    }

    /// Passes every page to `each`.
    pub(super) fn each_chunk(&self, each: &mut dyn FnMut(Chunk) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let sql = |error| StoreError::sqlite(&self.path)(error);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for row in small_pages::all(&self.connection).map_err(sql)? {
            let row = small_pages::stored(&self.connection, row.id).map_err(sql)?;
            bytes += row.bytes();
            rows.push(row);
            if bytes >= SMALL_CHUNK_BYTES {
                bytes = 0;
                each(Chunk::SmallRows(std::mem::take(&mut rows)))?;
            }
        }
        each(Chunk::SmallRows(rows))?;
        let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY id");
        let mut statement = self.connection.prepare(&select).map_err(sql)?;
        let mut found = statement.query([]).map_err(sql)?;
        let (mut pages, mut bodies) = (Vec::new(), Vec::new());
        while let Some(row) = found.next().map_err(sql)? {
            let page = read_header(row).map_err(sql)?;
            if !self.committed.includes(page.seq) {
                continue;
            }
            let start = bodies.len();
            let mut reader = self.bodies.borrow_mut();
            bodies.extend_from_slice(day_file::read_body(&self.connection, &self.path, &page, &mut reader)?);
            drop(reader);
            pages.push((page, start..bodies.len()));
            if bodies.len() >= CHUNK_BYTES {
                each(Chunk::Pages(std::mem::take(&mut pages), std::mem::take(&mut bodies)))?;
            }
        }
        each(Chunk::Pages(pages, bodies))
    }

    /// Keeps what a survey found.
    pub(super) fn keep(&mut self, scatter: Scatter, small: Vec<PageRow>) {
        for page in small {
            self.small.entry(page.partition).or_default().push(page);
        }
        self.small.values_mut().for_each(|pages| pages.sort_by_key(|page| page.header.first));
        let Scatter { homes, file, buckets } = scatter;
        self.scattered = file.map(|(file, _)| Arc::new(ScatteredPages { homes, file, buckets }));
    }
}

impl Homes {
    fn of(&self, page: &PageRow) -> Result<&Home, StoreError> {
        self.by_id.get(&page.partition).ok_or_else(|| day_file::unnamed_partition(&self.path, page))
    }

    /// Surveys a chunk, with a share of its values, and packs the pages that are scattered.
    pub(super) fn survey(&self, chunk: Chunk, share: f64) -> Result<Surveyed, StoreError> {
        let mut found = Surveyed::default();
        match chunk {
            Chunk::Block(file, group, rows) => {
                found.add(&InputRows::Block(file.block(group, &[rows], ColumnSet::All)?), share);
            }
            Chunk::Pages(pages, bodies) => {
                for (page, body) in pages {
                    let page = day_file::decode(&self.path, self.of(&page)?.address, &page, &bodies[body])?;
                    found.add(&InputRows::Page(page), share);
                }
            }
            Chunk::SmallRows(rows) => {
                let mut packed: Vec<Vec<u8>> = vec![Vec::new(); self.buckets];
                for row in rows {
                    let (pages, bodies) = row.unpack().map_err(StoreError::sqlite(&self.path))?;
                    for page in pages.into_iter().filter(|page| self.committed.includes(page.seq)) {
                        let home = self.of(&page)?;
                        let body = page.body_in(&bodies);
                        let body =
                            body.ok_or_else(|| day_file::damaged(&self.path, &page, "its body is missing".into()))?;
                        let decoded = day_file::decode(&self.path, home.address, &page, body)?;
                        found.add(&InputRows::Page(decoded), share);
                        match home.bucket {
                            Some(bucket) => put_page(&mut packed[bucket], &page, body),
                            None => found.small.push(page),
                        }
                    }
                }
                for (bucket, pages) in packed.iter().enumerate().filter(|(_, pages)| !pages.is_empty()) {
                    let packed = small_pages::compress(pages).ok_or_else(no_memory)?;
                    found.pieces.push((bucket, packed, pages.len()));
                }
            }
        }
        Ok(found)
    }
}

impl Surveyed {
    fn add(&mut self, part: &InputRows, share: f64) {
        self.survey.add(part, share);
        self.entities += part.len() as u64;
    }
}

impl Scatter {
    pub(super) fn new(homes: Arc<Homes>) -> Scatter {
        let buckets = std::iter::repeat_with(Vec::new).take(homes.buckets).collect();
        Scatter { homes, file: None, buckets }
    }

    /// Takes the small pages of a chunk. Writes those that are scattered to a file in `folder`, and adds others to `small`.
    pub(super) fn take(
        &mut self,
        surveyed: &mut Surveyed,
        small: &mut Vec<PageRow>,
        folder: &Path,
    ) -> Result<(), StoreError> {
        small.append(&mut surveyed.small);
        for (bucket, packed, bytes) in surveyed.pieces.drain(..) {
            let io = |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::StorageFull => StoreError::Full(folder.into()),
                _ => StoreError::io(folder)(error),
            };
            let (file, length) = match &mut self.file {
                Some(file) => file,
                None => self.file.insert((private_file::create_unnamed(folder).map_err(io)?, 0)),
            };
            file.write_all(&packed).map_err(io)?;
            self.buckets[bucket].push(Piece { start: *length, packed: packed.len(), bytes });
            *length += packed.len() as u64;
        }
        Ok(())
    }
}

impl ScatteredPages {
    /// Whether the rows of a partition are in a bucket.
    pub(super) fn has(&self, partition: i64) -> bool {
        self.homes.by_id.get(&partition).is_some_and(|home| home.bucket.is_some())
    }

    /// The number of buckets.
    pub(super) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Reads a bucket, and brings its rows in order. Of equal keys, the row of the later commit wins.
    pub(super) fn rows(&self, bucket: usize, layout: &ColumnLayout) -> Result<BucketRows, StoreError> {
        let path = &self.homes.path;
        let unreadable =
            |error: PageError| StoreError::Refused(format!("scattered pages of {}: {error}", path.display()));
        let mut bytes = Vec::new();
        for Piece { start, packed, bytes: length } in &self.buckets[bucket] {
            let mut piece = vec![0; *packed];
            self.file.read_exact_at(&mut piece, *start).map_err(StoreError::io(path))?;
            bytes.extend_from_slice(&unpack(&piece, *length).map_err(unreadable)?);
        }
        let mut pages = Vec::new();
        let mut reader = ByteReader::new(&bytes);
        while !reader.rest().is_empty() {
            let (page, body) = take_page(&mut reader).map_err(unreadable)?;
            pages.push((self.homes.of(&page)?, page, body));
        }
        pages.sort_by(|(a, ..), (b, ..)| a.name.cmp(&b.name));
        let mut gatherer = Gatherer::new(layout);
        let mut of_bucket = BucketRows { slices: Vec::new(), duplicates: 0, duplicate_values: 0 };
        for pages in pages.chunk_by(|(a, ..), (b, ..)| a.name == b.name) {
            let mut parts = Vec::with_capacity(pages.len());
            for (home, page, body) in pages {
                let part = InputRows::Page(day_file::decode(path, home.address, page, body)?);
                parts.push(MappedRows::new(part, page.header.raw_bytes as usize, layout));
            }
            let mut rows: Vec<RankedRow> = Vec::new();
            for (number, ((_, page, _), part)) in pages.iter().zip(&parts).enumerate() {
                let rank = Reverse((page.seq, page.place));
                rows.extend(part.part.keys().iter().enumerate().map(|(row, key)| (*key, rank, number, row)));
            }
            rows.sort_unstable();
            let mut last = None;
            for (key, _, part, row) in rows {
                if last.replace(key) == Some(key) {
                    of_bucket.duplicates += 1;
                    of_bucket.duplicate_values += parts[part].values(row);
                } else {
                    gatherer.push(&pages[0].0.name, &parts[part], row);
                    if gatherer.is_full() {
                        of_bucket.slices.append(&mut gatherer.take());
                    }
                }
            }
        }
        of_bucket.slices.append(&mut gatherer.take());
        Ok(of_bucket)
    }
}

/// Adds a page to a bucket.
fn put_page(out: &mut Vec<u8>, page: &PageRow, body: &[u8]) {
    let PageRow { place, partition, seq, header } = page;
    let PageHeader { first, last, entities, records, levels, codec, raw_bytes, checksum } = header;
    let (row, offset) = match place {
        PageLocation::Row(id) => (*id, 0),
        PageLocation::Shared { row, offset, .. } => (*row, *offset),
    };
    for number in [*partition, *seq, row] {
        put_varint(out, number.cast_unsigned());
    }
    for number in [offset, *entities, *records, *raw_bytes] {
        put_varint(out, number.into());
    }
    out.push(*codec);
    out.extend_from_slice(&first.to_bytes());
    out.extend_from_slice(&last.to_bytes());
    out.extend_from_slice(&checksum.to_le_bytes());
    for bytes in [levels, body] {
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

/// The inverse of [`put_page`].
fn take_page<'b>(from: &mut ByteReader<'b>) -> Result<(PageRow, &'b [u8]), PageError> {
    let damaged = || PageError::Damaged("their bytes changed");
    let (partition, seq, row) =
        (from.varint()?.cast_signed(), from.varint()?.cast_signed(), from.varint()?.cast_signed());
    let mut number = || u32::try_from(from.varint()?).map_err(|_| damaged());
    let (offset, entities, records, raw_bytes) = (number()?, number()?, number()?, number()?);
    let codec = from.byte()?;
    let mut key = || RowKey::from_bytes(&from.array::<{ RowKey::BYTES }>()?).ok_or_else(damaged);
    let (first, last) = (key()?, key()?);
    let checksum = u64::from_le_bytes(from.array()?);
    let mut bytes = || {
        let length = usize::try_from(from.varint()?).map_err(|_| damaged())?;
        from.take(length)
    };
    let (levels, body) = (bytes()?.to_vec(), bytes()?);
    let header = PageHeader { first, last, entities, records, levels, codec, raw_bytes, checksum };
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    Ok((PageRow { place: PageLocation::Shared { row, offset, length }, partition, seq, header }, body))
}

fn no_memory() -> StoreError {
    StoreError::Refused("there is no memory to compress pages".into())
}
