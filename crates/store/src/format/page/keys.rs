//! The keys of a page, each relative to the one before.
//!
//! ```text
//! keys := ints                              ticks to the key before, all but the first
//!         are apart u8                      whether the rest is apart: few questions need more than times
//!         count varint                      sources
//!         [source, position varint]*        all but the first, with their newest position
//!         source := start signed | host u16, if it is another than that before | hash u64
//!                   start := (inverted start − that of the source before) << 1 | whether the host is another
//!         [index, as many bits as the last source has]*   packed
//!         ints                              bytes to the position before of the same source, all but each one's first
//!         0 | 1 ints                        item numbers, if there are any
//! ```
//!
//! The page's header contains the first key. Records of one source follow each other at distances that are much
//! smaller than their positions.

use super::PageError;
use super::bits::{BLOCK_ROWS, Bits, ByteReader, pack, put_signed, put_varint, width_of};
use super::ints::{self, Ints};
use super::section_cursor::SectionCursor;
use super::sections::Sections;
use daytable_model::key::RowKey;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use std::collections::HashMap;

/// A key beyond what keys can be.
const OUT_OF_RANGE: PageError = PageError::Damaged("a key is out of range");

type SourceIndex = HashMap<SourceId, usize, foldhash::fast::FixedState>;

/// Writes `keys`, which must ascend.
pub(super) fn encode(keys: &[RowKey], out: &mut Sections) {
    if let [key] = keys {
        return encode_only(*key, out);
    }
    let ticks: Vec<i64> = keys.windows(2).map(|pair| pair[0].time().get() - pair[1].time().get()).collect();
    ints::encode(&ticks, out);
    let head = out.meta.len();
    out.meta.push(0);
    let rest = out.mark();
    encode_rest(keys, out);
    out.meta[head] = out.close_apart(&rest).into();
}

/// Writes what else than their times tells the keys.
fn encode_rest(keys: &[RowKey], out: &mut Sections) {
    let mut sources: Vec<(SourceId, i64)> = Vec::new();
    let mut by_source = SourceIndex::default();
    let mut indices = Vec::with_capacity(keys.len());
    let mut distances = Vec::with_capacity(keys.len());
    let mut firsts = Vec::new();
    let mut last = 0;
    for key in keys {
        let position = key.position().cast_signed();
        if sources.get(last).is_none_or(|(source, _)| *source != key.source()) {
            last = *by_source.entry(key.source()).or_insert(sources.len());
        }
        indices.push(last as u64);
        match sources.get_mut(last) {
            Some((_, before)) => {
                distances.push(*before - position);
                *before = position;
            }
            None => {
                sources.push((key.source(), position));
                firsts.push(key.position());
            }
        }
    }
    put_varint(&mut out.meta, sources.len() as u64);
    for (pair, first) in sources.windows(2).zip(firsts.into_iter().skip(1)) {
        put_source(&mut out.meta, pair[1].0, pair[0].0);
        put_varint(&mut out.meta, first);
    }
    pack(&mut out.packed, width_of(sources.len().saturating_sub(1) as u64), indices.into_iter());
    ints::encode(&distances, out);

    let items = keys.iter().any(|key| key.item() > 0);
    out.meta.push(u8::from(items));
    if items {
        let items: Vec<i64> = keys.iter().map(|key| i64::from(key.item())).collect();
        ints::encode(&items, out);
    }
}

/// The inverted start of a source, and the bits of its host.
fn start_and_host(source: SourceId) -> (i64, u16) {
    ((source.head() >> 16).cast_signed(), (source.head() & 0xffff) as u16)
}

/// Writes a source relative to the one before: many requests of one host follow each other.
fn put_source(out: &mut Vec<u8>, source: SourceId, before: SourceId) {
    let ((start, host), (start_before, host_before)) = (start_and_host(source), start_and_host(before));
    put_signed(out, (start - start_before) << 1 | i64::from(host != host_before));
    if host != host_before {
        out.extend_from_slice(&host.to_le_bytes());
    }
    out.extend_from_slice(&source.hash().to_le_bytes());
}

fn read_source(meta: &mut ByteReader<'_>, before: SourceId) -> Result<SourceId, PageError> {
    let (start_before, host_before) = start_and_host(before);
    let number = meta.signed()?;
    let start =
        start_before.checked_add(number >> 1).filter(|start| (0..1 << 48).contains(start)).ok_or(OUT_OF_RANGE)?;
    let host = if number & 1 == 1 { u16::from_le_bytes(meta.array()?) } else { host_before };
    Ok(SourceId::from_parts(start.cast_unsigned() << 16 | u64::from(host), u64::from_le_bytes(meta.array()?)))
}

/// Writes a single key, which the header contains: only the count and the item number.
fn encode_only(key: RowKey, out: &mut Sections) {
    out.meta.push(0);
    put_varint(&mut out.meta, 1);
    out.meta.push(u8::from(key.item() > 0));
    if key.item() > 0 {
        ints::encode(&[i64::from(key.item())], out);
    }
}

/// Numbers in their order, unpacked a block at a time; 0 after the last one.
struct InOrder<'p> {
    ints: &'p Ints,
    packed: &'p [u8],
    count: usize,
    next: usize,
    block: [i64; BLOCK_ROWS],
}

impl<'p> InOrder<'p> {
    fn new(ints: &'p Ints, packed: &'p [u8], count: usize) -> InOrder<'p> {
        InOrder { ints, packed, count, next: 0, block: [0; BLOCK_ROWS] }
    }

    #[inline]
    fn next(&mut self) -> i64 {
        let at = self.next;
        if at >= self.count {
            return 0;
        }
        if at.is_multiple_of(BLOCK_ROWS) {
            self.ints.unpack(self.packed, at, &mut self.block[..BLOCK_ROWS.min(self.count - at)]);
        }
        self.next += 1;
        self.block[at % BLOCK_ROWS]
    }
}

/// The keys of a page as they are stored. Most questions need none of them.
#[derive(Debug)]
pub(super) struct EncodedKeys {
    count: usize,
    first: RowKey,
    ticks: Ints,
    rest: EncodedRest,
}

/// What else than their times tells the keys.
#[derive(Debug)]
enum EncodedRest {
    Here(Box<EncodedPositions>),
    /// In a section of its own, which was not read.
    Apart,
}

#[derive(Debug)]
struct EncodedPositions {
    /// Each source, and the position of its newest row.
    sources: Vec<(SourceId, i64)>,
    indices: Bits,
    distances: Ints,
    items: Option<Ints>,
}

impl EncodedKeys {
    /// Reads where `count` keys are that begin with `first`.
    pub(super) fn parse(count: usize, first: RowKey, cursor: &mut SectionCursor<'_>) -> Result<EncodedKeys, PageError> {
        let ticks = Ints::decode(count.saturating_sub(1), cursor)?;
        let rest = match cursor.meta.byte()? {
            0 => EncodedRest::Here(Box::new(EncodedPositions::parse(count, first, cursor)?)),
            1 => EncodedRest::Apart,
            _ => return Err(PageError::Damaged("its keys are neither here nor apart")),
        };
        Ok(EncodedKeys { count, first, ticks, rest })
    }

    /// Whether all but their times is in a section of its own.
    pub(super) fn are_apart(&self) -> bool {
        matches!(self.rest, EncodedRest::Apart)
    }

    /// Reads that section.
    pub(super) fn parse_rest(&mut self, cursor: &mut SectionCursor<'_>) -> Result<(), PageError> {
        let positions = EncodedPositions::parse(self.count, self.first, cursor)?;
        self.rest = EncodedRest::Here(Box::new(positions));
        Ok(())
    }

    /// Passes the time of each row, newest first.
    pub(super) fn each_time(&self, packed: &[u8], mut each: impl FnMut(usize, Ticks)) -> Result<(), PageError> {
        let mut time = self.first.time().get();
        each(0, self.first.time());
        let mut block = [0; BLOCK_ROWS];
        for from in (1..self.count).step_by(BLOCK_ROWS) {
            let block = &mut block[..BLOCK_ROWS.min(self.count - from)];
            self.ticks.unpack(packed, from - 1, block);
            for (row, ticks) in (from..).zip(block) {
                time = time.checked_sub(*ticks).ok_or(OUT_OF_RANGE)?;
                each(row, Ticks::new(time).ok_or(OUT_OF_RANGE)?);
            }
        }
        Ok(())
    }

    /// The keys. Keys that do not ascend are an error.
    pub(super) fn decode(&self, packed: &[u8]) -> Result<Vec<RowKey>, PageError> {
        let EncodedRest::Here(rest) = &self.rest else { return Err(PageError::Damaged("its keys were not read")) };
        let mut sources: Vec<(SourceId, i64, bool)> = rest.sources.iter().map(|of| (of.0, of.1, true)).collect();
        let mut keys: Vec<RowKey> = Vec::with_capacity(self.count);
        let mut time = self.first.time().get();
        let mut distances = InOrder::new(&rest.distances, packed, self.count.saturating_sub(rest.sources.len()));
        let mut ticks = InOrder::new(&self.ticks, packed, self.count.saturating_sub(1));
        let mut indices = [0; BLOCK_ROWS];
        for at in 0..self.count {
            if at > 0 {
                time = time.checked_sub(ticks.next()).ok_or(OUT_OF_RANGE)?;
            }
            if at.is_multiple_of(BLOCK_ROWS) {
                rest.indices.unpack(packed, at, &mut indices[..BLOCK_ROWS.min(self.count - at)]);
            }
            let index = usize::try_from(indices[at % BLOCK_ROWS]).map_err(|_| OUT_OF_RANGE)?;
            let (source, position, is_first) = sources.get_mut(index).ok_or(OUT_OF_RANGE)?;
            if !std::mem::take(is_first) {
                *position = position.checked_sub(distances.next()).ok_or(OUT_OF_RANGE)?;
            }
            let position = u64::try_from(*position)
                .ok()
                .filter(|&p| p <= daytable_model::key::POSITION_MAX)
                .ok_or(OUT_OF_RANGE)?;
            let mut key = RowKey::new(Ticks::new(time).ok_or(OUT_OF_RANGE)?, *source, position);
            if let Some(items) = &rest.items {
                key = key.with_item(u16::try_from(items.get(packed, at)).map_err(|_| OUT_OF_RANGE)?);
            }
            if keys.last().is_some_and(|before| *before >= key) {
                return Err(PageError::Damaged("its keys are out of order"));
            }
            keys.push(key);
        }
        Ok(keys)
    }
}

impl EncodedPositions {
    fn parse(count: usize, first: RowKey, cursor: &mut SectionCursor<'_>) -> Result<EncodedPositions, PageError> {
        let number = cursor.meta.count(count)?;
        let mut sources = Vec::with_capacity(number);
        let is_only = (count, number) == (1, 1);
        let mut before = first.source();
        for index in 0..number {
            let (source, position) = match index {
                0 => (first.source(), first.position()),
                _ => (read_source(&mut cursor.meta, before)?, cursor.meta.varint()?),
            };
            before = source;
            sources.push((source, i64::try_from(position).map_err(|_| OUT_OF_RANGE)?));
        }
        let (indices, distances) = match is_only {
            true => (cursor.bits(0, 0)?, Ints::decode(0, cursor)?),
            false => {
                let indices = cursor.bits(count, width_of(number.saturating_sub(1) as u64))?;
                (indices, Ints::decode(count.saturating_sub(number), cursor)?)
            }
        };
        let items = match cursor.meta.byte()? {
            0 => None,
            1 => Some(Ints::decode(count, cursor)?),
            _ => return Err(PageError::Damaged("its items are neither there nor not there")),
        };
        Ok(EncodedPositions { sources, indices, distances, items })
    }
}
