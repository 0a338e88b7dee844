//! Small pages: the tiny pages of one commit, of all its partitions, in one row of the table `small_pages`.
//!
//! A thousand instances that each write a record a second make a thousand pages of one record in that second. As
//! separate rows, each page would cost many times its record: a header, a body, and entries in two indexes that no
//! neighbour shares. The small pages of a commit therefore share one row. Compaction merges them into pages of many
//! records within a minute. Until then, readers scan the heads of these few rows as they scan the headers of pages.
//!
//! ```text
//! heads  := head*        head := partition varint | entities varint | records varint | raw_bytes varint | codec u8
//!                                 | first RowKey | last RowKey, unless there is one entity | checksum u64
//!                                 | levels length varint | levels | body length varint
//! bodies := body*        in the order of the heads
//! ```
//!
//! Heads are separate from bodies, so looking for a partition reads a fifth of the row. A page is stored here only if
//! it is the commit's only page of its partition. Two pages of one commit therefore never disagree over a row.

use crate::format::page::{ByteReader, PageError, PageHeader, put_varint};
use daytable_model::key::RowKey;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::sync::Arc;

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
#[derive(Clone, Debug)]
pub(crate) struct PageRow {
    pub(crate) place: PageLocation,
    pub(crate) partition: i64,
    pub(crate) seq: i64,
    /// With the stored checksum.
    pub(crate) header: PageHeader,
}

/// The metadata of a row of small pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallPagesRow {
    pub(crate) id: i64,
    pub(crate) seq: i64,
    pub(crate) raw_bytes: u64,
}

/// Collects the small pages of a commit.
#[derive(Default)]
pub(crate) struct SmallPagesBuilder {
    heads: Vec<u8>,
    bodies: Vec<u8>,
    entities: i64,
    raw_bytes: u64,
    keys: Option<(RowKey, RowKey)>,
}

impl SmallPagesBuilder {
    /// Adds a page with the stored checksum `noted`.
    pub(crate) fn push(&mut self, partition: i64, header: &PageHeader, noted: u64, body: &[u8]) {
        let PageHeader { first, last, entities, records, levels, codec, raw_bytes, checksum: _ } = header;
        let out = &mut self.heads;
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
        put_varint(out, body.len() as u64);
        self.bodies.extend_from_slice(body);
        self.entities += i64::from(*entities);
        self.raw_bytes += u64::from(*raw_bytes);
        self.keys = Some(match self.keys {
            None => (*first, *last),
            Some((newest, oldest)) => (newest.min(*first), oldest.max(*last)),
        });
    }

    /// Writes the pushed pages, if any.
    pub(crate) fn insert(self, connection: &Connection, seq: i64) -> rusqlite::Result<Option<SmallPagesRow>> {
        let SmallPagesBuilder { heads, bodies, entities, raw_bytes, keys: Some((first, last)) } = self else {
            return Ok(None);
        };
        let raw = i64::try_from(raw_bytes).unwrap_or(i64::MAX);
        connection
            .prepare_cached(
                "INSERT INTO small_pages(seq, entities, raw_bytes, first, last, heads, bodies) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![seq, entities, raw, first.to_bytes(), last.to_bytes(), heads, bodies])?;
        Ok(Some(SmallPagesRow { id: connection.last_insert_rowid(), seq, raw_bytes }))
    }
}

impl SmallPagesBuilder {
    /// Replaces a row with the pushed pages, or deletes the row if there are none. Returns the raw bytes of the
    /// pages.
    pub(crate) fn replace(self, connection: &Connection, row: i64) -> rusqlite::Result<Option<u64>> {
        let SmallPagesBuilder { heads, bodies, entities, raw_bytes, keys } = self;
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
    let mut statement = connection.prepare("SELECT id, seq, raw_bytes FROM small_pages ORDER BY seq")?;
    let read = |row: &Row<'_>| {
        let raw_bytes = row.get::<_, i64>(2)?.cast_unsigned();
        Ok(SmallPagesRow { id: row.get(0)?, seq: row.get(1)?, raw_bytes })
    };
    statement.query_map([], read)?.collect()
}

/// The small pages that overlap `first..=last`, of these partitions or of all.
pub(crate) fn pages_in(
    connection: &Connection,
    first: RowKey,
    last: RowKey,
    partitions: Option<&BTreeMap<i64, Arc<str>>>,
) -> rusqlite::Result<Vec<PageRow>> {
    let mut statement = connection
        .prepare_cached("SELECT id, seq, heads FROM small_pages WHERE first <= ?2 AND last >= ?1 ORDER BY id")?;
    let mut rows = statement.query(params![first.to_bytes(), last.to_bytes()])?;
    let mut pages = Vec::new();
    while let Some(row) = rows.next()? {
        read_pages(row, &mut pages, |partition, newest, oldest| {
            partitions.is_none_or(|wanted| wanted.contains_key(&partition)) && newest <= last && oldest >= first
        })?;
    }
    Ok(pages)
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
        row.get(3)
    })
}

/// Reads the body of the page at `place` into `body`; false if it is missing.
pub(crate) fn read_body(connection: &Connection, place: PageLocation, body: &mut Vec<u8>) -> rusqlite::Result<bool> {
    body.clear();
    match place {
        PageLocation::Row(id) => {
            let mut statement = connection.prepare_cached("SELECT bytes FROM body WHERE page = ?1")?;
            let found = statement.query_row([id], |row| {
                body.extend_from_slice(row.get_ref(0)?.as_blob()?);
                Ok(())
            });
            Ok(found.optional()?.is_some())
        }
        PageLocation::Shared { row, offset, length } => {
            let bodies = connection.blob_open("main", "small_pages", "bodies", row, true)?;
            // The head may be damaged: no checksum covers where a page ends.
            if (length as usize).saturating_add(offset as usize) > bodies.len() {
                return Ok(false);
            }
            body.resize(length as usize, 0);
            Ok(bodies.read_at(body, offset as usize)? == length as usize)
        }
    }
}

/// Reads the heads of a row `id, seq, heads`. Keeps the pages that `wants` selects by partition, first and last key.
fn read_pages(
    row: &Row<'_>,
    pages: &mut Vec<PageRow>,
    wants: impl FnMut(i64, RowKey, RowKey) -> bool,
) -> rusqlite::Result<()> {
    let (id, seq): (i64, i64) = (row.get(0)?, row.get(1)?);
    read_heads(id, seq, row.get_ref(2)?.as_blob()?, pages, wants).map_err(|error| {
        let what = format!("small pages {id}: {error}");
        rusqlite::Error::FromSqlConversionFailure(2, Type::Blob, what.into())
    })
}

/// Parses the heads of a row.
fn read_heads(
    row: i64,
    seq: i64,
    heads: &[u8],
    pages: &mut Vec<PageRow>,
    mut wants: impl FnMut(i64, RowKey, RowKey) -> bool,
) -> Result<(), PageError> {
    let (mut heads, mut offset) = (ByteReader::new(heads), 0u32);
    while !heads.rest().is_empty() {
        let partition = heads.varint()?.cast_signed();
        let (entities, records, raw_bytes) = (number(&mut heads)?, number(&mut heads)?, number(&mut heads)?);
        let codec = heads.byte()?;
        let first = key(&mut heads)?;
        let last = if entities == 1 { first } else { key(&mut heads)? };
        let checksum = u64::from_le_bytes(heads.array()?);
        let levels = heads.varint()?;
        let levels = heads.take(usize::try_from(levels).unwrap_or(usize::MAX))?;
        let length = number(&mut heads)?;
        let place = PageLocation::Shared { row, offset, length };
        offset = offset.checked_add(length).ok_or(PageError::Damaged("its pages are too long"))?;
        if wants(partition, first, last) {
            let levels = levels.to_vec();
            let header = PageHeader { first, last, entities, records, levels, codec, raw_bytes, checksum };
            pages.push(PageRow { place, partition, seq, header });
        }
    }
    Ok(())
}

/// Asserts that any bytes are heads of small pages or an error, and that the pages are contiguous.
#[cfg(feature = "testing")]
pub fn assert_heads(heads: &[u8]) {
    let mut pages = Vec::new();
    let read = read_heads(1, 1, heads, &mut pages, |_, _, _| true);
    assert!(pages.len() <= heads.len());
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
