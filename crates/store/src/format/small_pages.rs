//! Small pages: the tiny pages of one commit, of all its partitions, in few rows of the table `small_pages`.
//!
//! A thousand instances that each write a record a second make a thousand pages of one record in that second. As
//! separate rows, each page would cost many times its record: a header, a body, and entries in two indexes that no
//! neighbour shares. The small pages of a commit therefore share rows. Compaction merges them into pages of many
//! records within a minute. Until then, readers scan the heads of these few rows as they scan the headers of pages.
//!
//! A row has about [`ROW_BYTES`] of bodies, the newest pages first. A larger commit writes several rows. So a page is
//! read without walking through megabytes of overflow pages, and a reader of a time range reads few rows. Bodies
//! resemble each other, so they are compressed together: each for itself would be larger, and cost more.
//!
//! ```text
//! heads  := head* | 0 | flags u8 | length of body* varint | checksum of body* u64 | length of head* varint | zstd(head*)
//! bodies := body* | zstd(body*)           the latter if heads begin with 0: partitions have numbers from 1
//! flags  := 1 if no body is compressed for itself
//! head*  := [head, body length varint]*
//! head   := partition varint | entities varint | records varint | raw_bytes varint | codec u8
//!                                 | first RowKey | last RowKey, unless there is one entity | checksum u64
//!                                 | levels length varint | levels
//! body*  in the order of head*
//! ```
//!
//! Heads are separate from bodies, so looking for a partition reads a fifth of the row. A page is stored here only if
//! it is the commit's only page of its partition. Two pages of one commit therefore never disagree over a row.

use crate::format::page::{ByteReader, CODEC_STORED, PageError, PageHeader, PageSections, put_varint, unpack};
use daytable_model::key::RowKey;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of bodies from which a row is full.
const ROW_BYTES: usize = 64 << 10;
/// Bytes of bodies from which a row is compressed.
const PACKED_MIN: usize = 1 << 10;
/// Maximum bytes of the bodies, or of the heads, of a compressed row.
const UNPACKED_MAX: usize = 16 << 20;
/// The flag of a row in which no body is compressed for itself.
const PLAIN: u8 = 1;

/// The schema of the table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE small_pages(
        id INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,                -- the commit that wrote it
        entities INTEGER NOT NULL,
        raw_bytes INTEGER NOT NULL,
        first BLOB NOT NULL,                 -- the newest and the oldest RowKey in it
        last BLOB NOT NULL,
        heads BLOB NOT NULL,                 -- see the top of small_pages.rs
        bodies BLOB NOT NULL
    );
";

/// The location of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PageLocation {
    /// Its own row, by id.
    Row(i64),
    /// In the bodies of a row of small pages.
    Shared { row: i64, offset: u32, length: u32 },
}

impl std::fmt::Display for PageLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageLocation::Row(id) => write!(f, "{id}"),
            PageLocation::Shared { row, offset, .. } => write!(f, "{row}+{offset} (small)"),
        }
    }
}

/// A page's header and location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRow {
    pub(crate) place: PageLocation,
    pub(crate) partition: i64,
    pub(crate) seq: i64,
    /// With the stored checksum.
    pub(crate) header: PageHeader,
}

impl PageRow {
    /// The id of its row, unless it shares one.
    pub(crate) fn id(&self) -> Option<i64> {
        match self.place {
            PageLocation::Row(id) => Some(id),
            PageLocation::Shared { .. } => None,
        }
    }
}

#[cfg(test)]
impl PageRow {
    /// A page of one record, in a row of its own.
    pub(crate) fn alone(id: i64, checksum: u64) -> PageRow {
        let key = RowKey::new(daytable_model::time::Ticks::MIN, 0, 0);
        let (levels, codec, raw_bytes) = (Vec::new(), 1, 1);
        let header = PageHeader { first: key, last: key, entities: 1, records: 1, levels, codec, raw_bytes, checksum };
        PageRow { place: PageLocation::Row(id), partition: 1, seq: 1, header }
    }
}

/// The metadata of a row of small pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallPagesRow {
    pub(crate) id: i64,
    pub(crate) seq: i64,
    pub(crate) raw_bytes: u64,
    /// The number of pages; of a row of an earlier process, that of its entities.
    pub(crate) pages: u64,
}

/// Collects the small pages of a row.
#[derive(Default)]
pub(crate) struct SmallPagesBuilder {
    heads: Vec<u8>,
    bodies: Vec<u8>,
    pages: u64,
    /// Whether a body is compressed for itself.
    has_frames: bool,
    entities: i64,
    raw_bytes: u64,
    keys: Option<(RowKey, RowKey)>,
}

impl SmallPagesBuilder {
    /// Adds a page with the stored checksum `noted`.
    pub(crate) fn push(&mut self, partition: i64, header: &PageHeader, noted: u64, body: &[u8]) {
        let PageHeader { first, last, entities, codec, raw_bytes, .. } = header;
        put_head(&mut self.heads, partition, header, noted);
        put_varint(&mut self.heads, body.len() as u64);
        self.bodies.extend_from_slice(body);
        self.pages += 1;
        self.has_frames |= *codec != CODEC_STORED;
        self.entities += i64::from(*entities);
        self.raw_bytes += u64::from(*raw_bytes);
        self.keys = Some(match self.keys {
            None => (*first, *last),
            Some((newest, oldest)) => (newest.min(*first), oldest.max(*last)),
        });
    }

    /// Whether the next page belongs to another row.
    pub(crate) fn is_full(&self) -> bool {
        self.bodies.len() >= ROW_BYTES
    }

    /// Heads and bodies as they are stored.
    fn pack(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (heads, bodies) = (std::mem::take(&mut self.heads), std::mem::take(&mut self.bodies));
        if bodies.len() < PACKED_MIN || heads.len().max(bodies.len()) > UNPACKED_MAX {
            return (heads, bodies);
        }
        // Without memory for a context, the row is stored as it is.
        let (Some(packed_heads), Some(packed_bodies)) = (compress(&heads), compress(&bodies)) else {
            return (heads, bodies);
        };
        let mut out = vec![0, if self.has_frames { 0 } else { PLAIN }];
        put_varint(&mut out, bodies.len() as u64);
        out.extend_from_slice(&xxh3_64(&bodies).to_le_bytes());
        put_varint(&mut out, heads.len() as u64);
        out.extend_from_slice(&packed_heads);
        (out, packed_bodies)
    }

    /// Writes the pushed pages, if any.
    pub(crate) fn insert(mut self, connection: &Connection, seq: i64) -> rusqlite::Result<Option<SmallPagesRow>> {
        let (heads, bodies) = self.pack();
        let SmallPagesBuilder { entities, raw_bytes, pages, keys: Some((first, last)), .. } = self else {
            return Ok(None);
        };
        let raw = i64::try_from(raw_bytes).unwrap_or(i64::MAX);
        connection
            .prepare_cached(
                "INSERT INTO small_pages(seq, entities, raw_bytes, first, last, heads, bodies) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![seq, entities, raw, first.to_bytes(), last.to_bytes(), heads, bodies])?;
        Ok(Some(SmallPagesRow { id: connection.last_insert_rowid(), seq, raw_bytes, pages }))
    }

    /// Replaces a row with the pushed pages, or deletes the row if there are none. Returns the raw bytes of the
    /// pages.
    pub(crate) fn replace(mut self, connection: &Connection, row: i64) -> rusqlite::Result<Option<u64>> {
        let (heads, bodies) = self.pack();
        let SmallPagesBuilder { entities, raw_bytes, keys, .. } = self;
        let Some((first, last)) = keys else {
            connection.prepare_cached("DELETE FROM small_pages WHERE id = ?1")?.execute([row])?;
            return Ok(None);
        };
        let raw = i64::try_from(raw_bytes).unwrap_or(i64::MAX);
        let update =
            "UPDATE small_pages SET entities = ?2, raw_bytes = ?3, first = ?4, last = ?5, heads = ?6, bodies = ?7
                      WHERE id = ?1";
        let values = params![row, entities, raw, first.to_bytes(), last.to_bytes(), heads, bodies];
        connection.prepare_cached(update)?.execute(values)?;
        Ok(Some(raw_bytes))
    }
}

/// All rows, the oldest first.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<SmallPagesRow>> {
    let mut statement = connection.prepare("SELECT id, seq, raw_bytes, entities FROM small_pages ORDER BY seq, id")?;
    let read = |row: &Row<'_>| {
        let raw_bytes = row.get::<_, i64>(2)?.cast_unsigned();
        let pages = row.get::<_, i64>(3)?.cast_unsigned();
        Ok(SmallPagesRow { id: row.get(0)?, seq: row.get(1)?, raw_bytes, pages })
    };
    statement.query_map([], read)?.collect()
}

/// Pages and bytes of bodies by partition.
pub(crate) fn bytes_by_partition(
    connection: &Connection,
) -> rusqlite::Result<HashMap<i64, (u64, u64), foldhash::fast::RandomState>> {
    let mut statement = connection.prepare("SELECT id, seq, heads FROM small_pages")?;
    let mut rows = statement.query([])?;
    let (mut pages, mut by_partition) = (Vec::new(), HashMap::default());
    while let Some(row) = rows.next()? {
        read_pages(row, &mut pages, |_, _, _| true)?;
        for page in pages.drain(..) {
            let (count, bytes): &mut (u64, u64) = by_partition.entry(page.partition).or_default();
            *count += 1;
            *bytes += page.length();
        }
    }
    Ok(by_partition)
}

/// A row as it is stored.
pub(crate) struct StoredRow {
    id: i64,
    seq: i64,
    heads: Vec<u8>,
    bodies: Vec<u8>,
}

/// Reads one row.
pub(crate) fn stored(connection: &Connection, row: i64) -> rusqlite::Result<StoredRow> {
    let mut statement = connection.prepare_cached("SELECT id, seq, heads, bodies FROM small_pages WHERE id = ?1")?;
    statement.query_row([row], |row| {
        Ok(StoredRow { id: row.get(0)?, seq: row.get(1)?, heads: row.get(2)?, bodies: row.get(3)? })
    })
}

impl StoredRow {
    /// Number of its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.heads.len() + self.bodies.len()
    }

    /// Its pages, and the bodies in which [`PageRow::body_in`] finds theirs.
    pub(crate) fn unpack(&self) -> rusqlite::Result<(Vec<PageRow>, Cow<'_, [u8]>)> {
        let mut pages = Vec::new();
        let read = read_heads(self.id, self.seq, &self.heads, &mut pages, |_, _, _| true);
        let bodies = read.and_then(|()| unpack_bodies(&self.heads, &self.bodies));
        let (bodies, _) = bodies.map_err(|error| unreadable(self.id, &error))?;
        Ok((pages, bodies))
    }
}

impl PageRow {
    /// Bytes of its body; 0 for a page with a row of its own.
    fn length(&self) -> u64 {
        if let PageLocation::Shared { length, .. } = self.place { length.into() } else { 0 }
    }

    /// The body of the page among the bodies of its row; `None` if it is missing.
    pub(crate) fn body_in<'b>(&self, bodies: &'b [u8]) -> Option<&'b [u8]> {
        let PageLocation::Shared { offset, length, .. } = self.place else { return None };
        bodies.get(offset as usize..)?.get(..length as usize)
    }
}

/// The small pages that overlap `first..=last`, of these partitions or of all.
pub(crate) fn pages_in(
    connection: &Connection,
    first: RowKey,
    last: RowKey,
    partitions: Option<&BTreeMap<i64, Arc<str>>>,
) -> rusqlite::Result<Vec<PageRow>> {
    let mut pages = Vec::new();
    for (_, row) in rows_in(connection, first, last)? {
        pages_of_row(
            connection,
            row,
            (first, last),
            |partition| partitions.is_none_or(|of| of.contains_key(&partition)),
            &mut pages,
        )?;
    }
    Ok(pages)
}

/// The rows that overlap `first..=last`: their first keys and ids, sorted.
pub(crate) fn rows_in(
    connection: &Connection,
    first: RowKey,
    last: RowKey,
) -> rusqlite::Result<VecDeque<(RowKey, i64)>> {
    let select = "SELECT first, id FROM small_pages WHERE first <= ?2 AND last >= ?1 ORDER BY first, id";
    let mut statement = connection.prepare_cached(select)?;
    let read = |row: &Row<'_>| {
        let first = RowKey::from_bytes(row.get_ref(0)?.as_blob()?);
        let damaged = || rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, "no row key".into());
        Ok((first.ok_or_else(damaged)?, row.get(1)?))
    };
    statement.query_map(params![first.to_bytes(), last.to_bytes()], read)?.collect()
}

/// Adds the pages of one row that overlap `first..=last`, of the wanted partitions.
pub(crate) fn pages_of_row(
    connection: &Connection,
    row: i64,
    (first, last): (RowKey, RowKey),
    wants: impl Fn(i64) -> bool,
    pages: &mut Vec<PageRow>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("SELECT id, seq, heads FROM small_pages WHERE id = ?1")?;
    statement.query_row([row], |row| {
        read_pages(row, pages, |partition, newest, oldest| newest <= last && oldest >= first && wants(partition))
    })
}

/// The small pages of all commits after `seq`, in the order of writing.
pub(crate) fn pages_since(connection: &Connection, seq: i64) -> rusqlite::Result<Vec<PageRow>> {
    let mut statement =
        connection.prepare_cached("SELECT id, seq, heads FROM small_pages WHERE seq > ?1 ORDER BY seq")?;
    let mut rows = statement.query([seq])?;
    let mut pages = Vec::new();
    while let Some(row) = rows.next()? {
        read_pages(row, &mut pages, |_, _, _| true)?;
    }
    Ok(pages)
}

/// The first commit with a small page of `partition`.
pub(crate) fn oldest_of(connection: &Connection, partition: i64) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT id, seq, heads FROM small_pages ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut pages = Vec::new();
    while let Some(row) = rows.next()? {
        read_pages(row, &mut pages, |found, _, _| found == partition)?;
        if let Some(page) = pages.first() {
            return Ok(Some(page.seq));
        }
    }
    Ok(None)
}

/// Adds the pages of one row to `pages`, and returns its bodies.
pub(crate) fn split(connection: &Connection, row: i64, pages: &mut Vec<PageRow>) -> rusqlite::Result<Vec<u8>> {
    let mut statement = connection.prepare_cached("SELECT id, seq, heads, bodies FROM small_pages WHERE id = ?1")?;
    statement.query_row([row], |row| {
        read_pages(row, pages, |_, _, _| true)?;
        let (bodies, _) = unpack_bodies(row.get_ref(2)?.as_blob()?, row.get_ref(3)?.as_blob()?)
            .map_err(|error| unreadable(row_id(row), &error))?;
        Ok(bodies.into_owned())
    })
}

/// Reads bodies of pages in one snapshot. Keeps the bodies of the last rows of small pages that it read.
pub(crate) struct BodyReader {
    body: Vec<u8>,
    rows: VecDeque<RowBodies>,
    rows_max: usize,
}

struct RowBodies {
    row: i64,
    bytes: Vec<u8>,
    /// Whether the bytes have one checksum, and no body is compressed for itself.
    is_plain: bool,
}

impl Default for BodyReader {
    fn default() -> BodyReader {
        BodyReader::keeping(4)
    }
}

impl BodyReader {
    /// A reader that keeps the bodies of this many rows.
    pub(crate) fn keeping(rows_max: usize) -> BodyReader {
        BodyReader { body: Vec::new(), rows: VecDeque::new(), rows_max }
    }

    /// Forgets all rows: in another snapshot, a row may have other pages.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }

    /// The body of the page at `place`; `None` if it is missing.
    pub(crate) fn read(&mut self, connection: &Connection, place: PageLocation) -> rusqlite::Result<Option<&[u8]>> {
        match place {
            PageLocation::Row(id) => {
                let mut statement = connection.prepare_cached("SELECT bytes, wide FROM body WHERE page = ?1")?;
                let body = &mut self.body;
                body.clear();
                let found = statement.query_row([id], |row| {
                    body.extend_from_slice(row.get_ref(0)?.as_blob()?);
                    body.extend_from_slice(row.get_ref(1)?.as_blob_or_null()?.unwrap_or_default());
                    Ok(())
                });
                Ok(found.optional()?.map(|()| self.body.as_slice()))
            }
            // The head may be damaged: no checksum covers where a page ends.
            PageLocation::Shared { row, offset, length } => {
                let bytes = self.row(connection, row)?.map(|row| row.bytes.as_slice());
                Ok(bytes.and_then(|bytes| bytes.get(offset as usize..)?.get(..length as usize)))
            }
        }
    }

    /// The front of the body of a page in a row of its own; `None` if it is missing.
    pub(crate) fn read_front(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<Option<&[u8]>> {
        // SQLite does not read the columns after the last one that is asked for.
        let mut statement = connection.prepare_cached("SELECT bytes FROM body WHERE page = ?1")?;
        let body = &mut self.body;
        body.clear();
        let found = statement.query_row([id], |row| {
            body.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        Ok(found.optional()?.map(|()| self.body.as_slice()))
    }

    /// All bytes of a row's bodies as the sections of a page: what they lack, each page of the row lacks. `None` if the
    /// bytes do not show that.
    pub(crate) fn sections(&mut self, connection: &Connection, row: i64) -> rusqlite::Result<Option<PageSections<'_>>> {
        let found = self.row(connection, row)?.filter(|row| row.is_plain);
        Ok(found.map(|row| PageSections::of_bytes(&row.bytes)))
    }

    fn row(&mut self, connection: &Connection, row: i64) -> rusqlite::Result<Option<&RowBodies>> {
        match self.rows.iter().position(|known| known.row == row) {
            Some(at) => Ok(self.rows.get(at)),
            None => {
                let mut statement = connection.prepare_cached("SELECT heads, bodies FROM small_pages WHERE id = ?1")?;
                let read = statement.query_row([row], |of| {
                    let (bytes, is_plain) = unpack_bodies(of.get_ref(0)?.as_blob()?, of.get_ref(1)?.as_blob()?)
                        .map_err(|error| unreadable(row, &error))?;
                    Ok(RowBodies { row, bytes: bytes.into_owned(), is_plain })
                });
                let Some(read) = read.optional()? else { return Ok(None) };
                self.rows.truncate(self.rows_max.saturating_sub(1));
                self.rows.push_front(read);
                Ok(self.rows.front())
            }
        }
    }
}

thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses with a context that this thread keeps. `None` without memory for one.
pub(crate) fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = zstd::bulk::Compressor::new(1).ok();
        }
        kept.as_mut()?.compress(bytes).ok()
    })
}

/// Frees the buffers of this thread until it writes the next row.
pub(crate) fn release_memory() {
    COMPRESSOR.take();
}

/// What the heads of a compressed row begin with.
struct PackedRow<'a> {
    is_plain: bool,
    bodies: usize,
    checksum: u64,
    heads: usize,
    frame: &'a [u8],
}

impl PackedRow<'_> {
    /// `None` if the row is not compressed.
    fn of(heads: &[u8]) -> Result<Option<PackedRow<'_>>, PageError> {
        let Some(([0], rest)) = heads.split_first_chunk() else { return Ok(None) };
        let mut reader = ByteReader::new(rest);
        let is_plain = reader.byte()? & PLAIN != 0;
        let bodies = number(&mut reader)? as usize;
        let checksum = u64::from_le_bytes(reader.array()?);
        let heads = number(&mut reader)? as usize;
        if heads.max(bodies) > UNPACKED_MAX {
            return Err(PageError::Damaged("it claims a size that no row has"));
        }
        Ok(Some(PackedRow { is_plain, bodies, checksum, heads, frame: reader.rest() }))
    }
}

/// The bodies of a row, and whether they have one checksum and none is compressed for itself.
fn unpack_bodies<'a>(heads: &[u8], bodies: &'a [u8]) -> Result<(Cow<'a, [u8]>, bool), PageError> {
    let Some(packed) = PackedRow::of(heads)? else { return Ok((bodies.into(), false)) };
    let bytes = unpack(bodies, packed.bodies)?;
    let (expected, found) = (packed.checksum, xxh3_64(&bytes));
    if expected == found { Ok((bytes, packed.is_plain)) } else { Err(PageError::Checksum { expected, found }) }
}

fn row_id(row: &Row<'_>) -> i64 {
    row.get(0).unwrap_or_default()
}

fn unreadable(row: i64, error: &PageError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(2, Type::Blob, format!("small pages {row}: {error}").into())
}

/// Reads the heads of a row `id, seq, heads`. Keeps the pages that `wants` selects by partition, first and last key.
fn read_pages(
    row: &Row<'_>,
    pages: &mut Vec<PageRow>,
    wants: impl FnMut(i64, RowKey, RowKey) -> bool,
) -> rusqlite::Result<()> {
    let (id, seq): (i64, i64) = (row.get(0)?, row.get(1)?);
    read_heads(id, seq, row.get_ref(2)?.as_blob()?, pages, wants).map_err(|error| unreadable(id, &error))
}

/// Parses the heads of a row.
fn read_heads(
    row: i64,
    seq: i64,
    heads: &[u8],
    pages: &mut Vec<PageRow>,
    mut wants: impl FnMut(i64, RowKey, RowKey) -> bool,
) -> Result<(), PageError> {
    let heads = match PackedRow::of(heads)? {
        None => Cow::Borrowed(heads),
        Some(packed) if packed.heads > 0 => unpack(packed.frame, packed.heads)?,
        Some(_) => return Err(PageError::Damaged("it has no pages")),
    };
    let (mut heads, mut offset) = (ByteReader::new(&heads), 0u32);
    while !heads.rest().is_empty() {
        let (partition, header, levels) = read_head(&mut heads)?;
        let length = number(&mut heads)?;
        let place = PageLocation::Shared { row, offset, length };
        offset = offset.checked_add(length).ok_or(PageError::Damaged("its pages are too long"))?;
        if wants(partition, header.first, header.last) {
            let header = PageHeader { levels: levels.to_vec(), ..header };
            pages.push(PageRow { place, partition, seq, header });
        }
    }
    Ok(())
}

/// Writes the header of a page with the stored checksum `noted`.
pub(crate) fn put_head(out: &mut Vec<u8>, partition: i64, header: &PageHeader, noted: u64) {
    let PageHeader { first, last, entities, records, levels, codec, raw_bytes, checksum: _ } = header;
    put_varint(out, partition.cast_unsigned());
    for number in [*entities, *records, *raw_bytes] {
        put_varint(out, u64::from(number));
    }
    out.push(*codec);
    out.extend_from_slice(&first.to_bytes());
    if *entities != 1 {
        out.extend_from_slice(&last.to_bytes());
    }
    out.extend_from_slice(&noted.to_le_bytes());
    put_varint(out, levels.len() as u64);
    out.extend_from_slice(levels);
}

/// A partition, a header without levels, and the levels.
#[inline]
pub(crate) fn read_head<'h>(heads: &mut ByteReader<'h>) -> Result<(i64, PageHeader, &'h [u8]), PageError> {
    let partition = heads.varint()?.cast_signed();
    let (entities, records, raw_bytes) = (number(heads)?, number(heads)?, number(heads)?);
    let codec = heads.byte()?;
    let first = key(heads)?;
    let last = if entities == 1 { first } else { key(heads)? };
    let checksum = u64::from_le_bytes(heads.array()?);
    let levels = heads.varint()?;
    let levels = heads.take(usize::try_from(levels).unwrap_or(usize::MAX))?;
    let header = PageHeader { first, last, entities, records, levels: Vec::new(), codec, raw_bytes, checksum };
    Ok((partition, header, levels))
}

/// Asserts that any bytes are heads of small pages or an error, and that the pages are contiguous.
#[cfg(feature = "testing")]
pub fn assert_heads(heads: &[u8]) {
    let mut pages = Vec::new();
    let read = read_heads(1, 1, heads, &mut pages, |_, _, _| true);
    assert!(pages.len() <= heads.len().max(UNPACKED_MAX));
    let mut end = 0;
    for page in &pages {
        let PageLocation::Shared { offset, length, .. } = page.place else {
            unreachable!("{} is no small page", page.place)
        };
        assert_eq!(offset, end, "{} begins elsewhere", page.place);
        end += length;
    }
    assert_eq!(read.is_ok() && pages.is_empty(), heads.is_empty(), "heads of no page");
}

fn number(heads: &mut ByteReader<'_>) -> Result<u32, PageError> {
    u32::try_from(heads.varint()?).map_err(|_| PageError::Damaged("a number is larger than it can be"))
}

fn key(heads: &mut ByteReader<'_>) -> Result<RowKey, PageError> {
    RowKey::from_bytes(&heads.array::<{ RowKey::BYTES }>()?).ok_or(PageError::Damaged("a row key is invalid"))
}
