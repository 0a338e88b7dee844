//! Pages as they cross a wire: the bytes of their files, with the names that the file has elsewhere.
//!
//! ```text
//! body    := "dtfw" | version u8 | head length varint | head, JSON | page* | 0 | checksum u64 of everything before
//! page    := 1 | table text | owner | commit varint | first key 32 | last key 32 | entities varint | records varint
//!          | codec u8 | raw bytes varint | commits before varint | newest i64 | span varint | levels text
//!          | stored checksum u64 | body text
//! owner   := 0 | partition text
//!          | 1 | stored list text | count varint | partition text *count          a shared page (shared_partitions.rs)
//! text    := length varint | bytes
//! ```
//!
//! Each page is checked as one from a file is: its stored checksum covers its bytes, day-table, partitions and commit. The
//! checksum at the end finds a body that was cut or changed on its way before any page is decoded.
//!
//! Claims, each a property test: a body decodes to the pages that were encoded; any bytes are a body or an error, without
//! more memory than [`BodyLimits`] permits.

use crate::format::commit_range::CommitRange;
use crate::format::page::{ByteReader, Page, PageAddress, PageError, PageHeader, TableAddress, WholePage, put_varint};
use crate::format::shared_partitions::SharedPartitions;
use bytes::Bytes;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const MAGIC: &[u8; 4] = b"dtfw";
/// The version of the layout.
pub const VERSION: u8 = 2;
/// Bytes of the head at most.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes of the name of a partition at most: 512 UTF-16 units.
const PARTITION_BYTES_MAX: usize = 512 * 3;
/// Bytes of a partition in the stored list of a shared page at least: its number, the check of its name, and its rows.
const PART_BYTES_MIN: usize = 6;
/// Bytes of a page, and of smaller ones together, from which they are a piece of a body.
const PIECE_BYTES_MIN: usize = 8 << 10;
/// Bytes of the name of a day-table at most.
const TABLE_BYTES_MAX: usize = 256;

/// What a receiver accepts.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Bytes of all entities before they were encoded.
    pub raw_bytes_max: u64,
    /// Pages.
    pub pages_max: usize,
}

/// Why a body is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BodyError {
    /// The bytes are not a body.
    #[error("the body is damaged: {0}")]
    Damaged(String),
    /// A newer daytable sent it.
    #[error(
        "the body has version {0}, and this daytable reads version {VERSION}: upgrade the older of the two, the receiver first"
    )]
    Version(u8),
    /// It is larger than the receiver accepts.
    #[error("the body has more than {0}")]
    Large(String),
}

impl From<PageError> for BodyError {
    fn from(error: PageError) -> BodyError {
        BodyError::Damaged(error.to_string())
    }
}

fn damaged(what: &str) -> BodyError {
    BodyError::Damaged(what.into())
}

/// A page on its way.
#[derive(Clone, Debug)]
pub struct WirePage {
    /// Its day-table.
    pub table: DayTable,
    pub(crate) owner: WireOwner,
    /// The commit of the sender that wrote it, or the last one of those merged into it.
    pub seq: i64,
    /// With the stored checksum.
    pub(crate) header: PageHeader,
    pub(crate) body: Bytes,
}

/// The partitions of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WireOwner {
    One(Arc<str>),
    /// The stored list of the partitions, and their names.
    Many(Vec<u8>, Vec<Arc<str>>),
}

impl WirePage {
    /// The times of its oldest and its newest row.
    pub fn times(&self) -> (Ticks, Ticks) {
        (self.header.last.time(), self.header.first.time())
    }

    /// The checksum that the page has in its file.
    pub fn stored_checksum(&self) -> u64 {
        self.header.checksum
    }

    /// Its records.
    pub fn records(&self) -> u32 {
        self.header.records
    }

    /// Bytes of its entities before they were encoded.
    pub fn raw_bytes(&self) -> u32 {
        self.header.raw_bytes
    }

    /// Bytes on the wire, about.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.header.levels.len() + 160
    }

    /// The latest time of its commits.
    pub fn arrived(&self) -> Ticks {
        self.header.commits.newest
    }

    pub(super) fn address(&self) -> PageAddress {
        let table = TableAddress::new(&self.table);
        match &self.owner {
            WireOwner::One(partition) => table.at(partition),
            WireOwner::Many(list, _) => table.of_many(list),
        }
    }

    /// Checks the bytes of the page.
    pub(crate) fn check(&self) -> Result<(), PageError> {
        Page::check_of(self.address(), self.seq, &self.header, &self.body)
    }

    /// Checks and decodes the page, and its partitions.
    pub(crate) fn decode(&self) -> Result<WholePage<'_>, BodyError> {
        let whole = WholePage::decode_of(self.address(), self.seq, &self.header, &self.body)?;
        let page = whole.page();
        let WireOwner::Many(list, names) = &self.owner else {
            return if page.has_owners() {
                Err(damaged("a page of one partition has rows of many"))
            } else {
                Ok(whole)
            };
        };
        let (partitions, table) = (SharedPartitions::parse(list)?, TableAddress::new(&self.table));
        let is_named = |(number, name): (usize, &Arc<str>)| partitions.has_name(number, table, name);
        if partitions.len() != names.len() || !names.iter().enumerate().all(is_named) {
            return Err(damaged("the partitions of a page have other names"));
        }
        let mut is_owned = page.has_owners();
        page.each_owner(|_, owner| is_owned &= owner < names.len());
        if is_owned { Ok(whole) } else { Err(damaged("the rows of a page are not of its partitions")) }
    }
}

/// A body: its head and its pages.
#[derive(Debug)]
pub struct Body<'b> {
    /// The head, as JSON.
    pub head: &'b str,
    /// The pages, in the order of their sending.
    pub pages: Vec<WirePage>,
    /// The checksum of the body.
    pub checksum: u64,
}

/// A body in the pieces in which it is sent. The bytes of a page are a piece as they are, so they are in memory once, and no longer than
/// until they are sent.
pub struct BodyPieces {
    /// Bytes of the pieces to come.
    bytes: usize,
    pieces: std::vec::IntoIter<Bytes>,
}

impl BodyPieces {
    /// A body with this head and these pages.
    pub fn new(head: &str, pages: Vec<WirePage>) -> BodyPieces {
        let (mut pieces, mut piece) = (Vec::new(), Vec::with_capacity(MAGIC.len() + head.len() + 16));
        piece.extend_from_slice(MAGIC);
        piece.push(VERSION);
        put_text(&mut piece, head.as_bytes());
        for page in pages {
            put_header(&mut piece, &page);
            if page.body.len() >= PIECE_BYTES_MIN {
                pieces.extend([std::mem::take(&mut piece).into(), page.body]);
                continue;
            }
            piece.extend_from_slice(&page.body);
            if piece.len() >= PIECE_BYTES_MIN {
                pieces.push(std::mem::take(&mut piece).into());
            }
        }
        piece.push(0);
        let mut checksum = Xxh3::new();
        pieces.iter().for_each(|piece: &Bytes| checksum.update(piece));
        checksum.update(&piece);
        piece.extend_from_slice(&checksum.digest().to_le_bytes());
        pieces.push(piece.into());
        BodyPieces { bytes: pieces.iter().map(Bytes::len).sum(), pieces: pieces.into_iter() }
    }

    /// Bytes of the pieces to come.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl Iterator for BodyPieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let piece = self.pieces.next()?;
        self.bytes -= piece.len();
        Some(piece)
    }
}

fn put_text(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Puts all of a page before the bytes of its body.
fn put_header(out: &mut Vec<u8>, page: &WirePage) {
    let WirePage { table, owner, seq, header, body } = page;
    out.push(1);
    put_text(out, table.to_string().as_bytes());
    match owner {
        WireOwner::One(partition) => {
            out.push(0);
            put_text(out, partition.as_bytes());
        }
        WireOwner::Many(list, names) => {
            out.push(1);
            put_text(out, list);
            put_varint(out, names.len() as u64);
            names.iter().for_each(|name| put_text(out, name.as_bytes()));
        }
    }
    put_varint(out, seq.cast_unsigned());
    out.extend_from_slice(&header.first.to_bytes());
    out.extend_from_slice(&header.last.to_bytes());
    put_varint(out, header.entities.into());
    put_varint(out, header.records.into());
    out.push(header.codec);
    put_varint(out, header.raw_bytes.into());
    put_varint(out, header.commits.before);
    out.extend_from_slice(&header.commits.newest.get().to_le_bytes());
    put_varint(out, header.commits.span);
    put_text(out, &header.levels);
    out.extend_from_slice(&header.checksum.to_le_bytes());
    put_varint(out, body.len() as u64);
}

/// Checks a body as a whole, and returns its head.
///
/// # Errors
///
/// The bytes are not a body of this version.
pub fn head(bytes: &[u8]) -> Result<&str, BodyError> {
    checked(bytes).map(|(head, _, _)| head)
}

/// The head, the rest after it without the checksum, and the checksum.
fn checked(bytes: &[u8]) -> Result<(&str, ByteReader<'_>, u64), BodyError> {
    let (content, checksum) = bytes.split_last_chunk::<8>().ok_or_else(|| damaged("it is too short"))?;
    let mut reader = ByteReader::new(content);
    if reader.array::<4>()? != *MAGIC {
        return Err(damaged("it does not begin as one"));
    }
    let version = reader.byte()?;
    if version != VERSION {
        return Err(BodyError::Version(version));
    }
    let checksum = u64::from_le_bytes(*checksum);
    if xxh3_64(content) != checksum {
        return Err(damaged("its checksum is wrong, so bytes were lost or changed on the way"));
    }
    let head = text(&mut reader, HEAD_BYTES_MAX)?;
    Ok((head, reader, checksum))
}

/// Decodes a body. The pages are not decoded yet: [`receive`](super::receive) checks and decodes one after the other.
///
/// # Errors
///
/// The bytes are not a body, or more than `limits` permits.
pub fn decode(bytes: &[u8], limits: BodyLimits) -> Result<Body<'_>, BodyError> {
    let (head, mut reader, checksum) = checked(bytes)?;
    let (mut pages, mut raw_bytes) = (Vec::new(), 0u64);
    loop {
        match reader.byte()? {
            0 if reader.rest().is_empty() => return Ok(Body { head, pages, checksum }),
            1 if pages.len() >= limits.pages_max => {
                return Err(BodyError::Large(format!("{} pages", limits.pages_max)));
            }
            1 => pages.push(read_page(&mut reader)?),
            _ => return Err(damaged("it does not end where it should")),
        }
        raw_bytes += pages.last().map_or(0, |page| u64::from(page.header.raw_bytes));
        if raw_bytes > limits.raw_bytes_max {
            return Err(BodyError::Large(format!("{} bytes of rows", limits.raw_bytes_max)));
        }
    }
}

fn bytes<'b>(reader: &mut ByteReader<'b>, most: usize) -> Result<&'b [u8], BodyError> {
    let length = reader.count(most.min(reader.rest().len()))?;
    Ok(reader.take(length)?)
}

fn text<'b>(reader: &mut ByteReader<'b>, most: usize) -> Result<&'b str, BodyError> {
    std::str::from_utf8(bytes(reader, most)?).map_err(|_| damaged("a text is not UTF-8"))
}

fn partition(reader: &mut ByteReader<'_>) -> Result<Arc<str>, BodyError> {
    let name = text(reader, PARTITION_BYTES_MAX)?;
    let is_key = |c: char| !matches!(c, '/' | '\\' | '#' | '?') && !c.is_control();
    if !name.is_empty() && name.chars().all(is_key) {
        Ok(name.into())
    } else {
        Err(damaged("a partition has an invalid name"))
    }
}

fn key(reader: &mut ByteReader<'_>) -> Result<RowKey, BodyError> {
    RowKey::from_bytes(&reader.array::<{ RowKey::BYTES }>()?).ok_or_else(|| damaged("a key is invalid"))
}

fn number<T: TryFrom<u64>>(reader: &mut ByteReader<'_>) -> Result<T, BodyError> {
    T::try_from(reader.varint()?).map_err(|_| damaged("a number is out of range"))
}

fn read_page(reader: &mut ByteReader<'_>) -> Result<WirePage, BodyError> {
    let table = text(reader, TABLE_BYTES_MAX)?;
    let table = DayTable::parse(table).map_err(|_| damaged("a day-table has an invalid name"))?;
    let owner = match reader.byte()? {
        0 => WireOwner::One(partition(reader)?),
        1 => {
            let list = bytes(reader, usize::MAX)?.to_vec();
            let count = reader.count(list.len() / PART_BYTES_MIN)?;
            let names = (0..count).map(|_| partition(reader)).collect::<Result<_, _>>()?;
            WireOwner::Many(list, names)
        }
        _ => return Err(damaged("a page has an unknown kind")),
    };
    let seq = number(reader)?;
    let (first, last) = (key(reader)?, key(reader)?);
    let (entities, records) = (number(reader)?, number(reader)?);
    let codec = reader.byte()?;
    let raw_bytes = number(reader)?;
    let before = reader.varint()?;
    let newest = Ticks::new(i64::from_le_bytes(reader.array()?)).ok_or_else(|| damaged("a time is out of range"))?;
    let commits = CommitRange { before, newest, span: reader.varint()? };
    let levels = bytes(reader, usize::MAX)?.to_vec();
    let checksum = u64::from_le_bytes(reader.array()?);
    let body = Bytes::copy_from_slice(bytes(reader, usize::MAX)?);
    let header = PageHeader { first, last, entities, records, levels, codec, raw_bytes, commits, checksum };
    Ok(WirePage { table, owner, seq, header, body })
}
