//! The keys of a page, each relative to the one before.
//!
//! ```text
//! keys := ints                              ticks to the key before, all but the first
//!         count varint                      sources
//!         [source u64, position varint]*    all but the first, with their newest position
//!         [index, as many bits as the last source has]*   packed
//!         ints                              bytes to the position before of the same source, all but each one's first
//!         0 | 1 ints                        item numbers, if there are any
//! ```
//!
//! The page's header contains the first key. Records of one source follow each other at distances that are much
//! smaller than their positions.

use super::PageError;
use super::bits::{SectionCursor, Sections, pack, put_varint, width_of};
use super::ints::{self, Ints};
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use std::collections::HashMap;

type SourceIndex = HashMap<u64, usize, foldhash::fast::FixedState>;

/// Writes `keys`, which must ascend.
pub(super) fn encode(keys: &[RowKey], out: &mut Sections) {
    if let [key] = keys {
        return encode_only(*key, out);
    }
    let ticks: Vec<i64> = keys.windows(2).map(|pair| pair[0].time().get() - pair[1].time().get()).collect();
    ints::encode(&ticks, out);

    let mut sources: Vec<(u64, i64)> = Vec::new();
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
    for ((source, _), first) in sources.iter().zip(firsts).skip(1) {
        out.meta.extend_from_slice(&source.to_le_bytes());
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

/// Writes a single key, which the header contains: only the count and the item number.
fn encode_only(key: RowKey, out: &mut Sections) {
    put_varint(&mut out.meta, 1);
    out.meta.push(u8::from(key.item() > 0));
    if key.item() > 0 {
        ints::encode(&[i64::from(key.item())], out);
    }
}

/// Reads `count` keys beginning with `first`. Keys that do not ascend are an error.
pub(super) fn decode(count: usize, first: RowKey, cursor: &mut SectionCursor<'_>) -> Result<Vec<RowKey>, PageError> {
    let damaged = || PageError::Damaged("a key is out of range");
    let ticks = Ints::decode(count.saturating_sub(1), cursor)?;
    let number = cursor.meta.count(count)?;
    if (count, number) == (1, 1) {
        let item = match cursor.meta.byte()? {
            0 => 0,
            1 => Ints::decode(1, cursor)?.get(cursor.packed, 0),
            _ => return Err(PageError::Damaged("its items are neither there nor not there")),
        };
        return Ok(vec![first.with_item(u16::try_from(item).map_err(|_| damaged())?)]);
    }
    let mut sources: Vec<(u64, Option<i64>)> = Vec::with_capacity(number);
    let mut firsts = Vec::with_capacity(number);
    for index in 0..number {
        let (source, position) = match index {
            0 => (first.source(), first.position()),
            _ => (u64::from_le_bytes(cursor.meta.array()?), cursor.meta.varint()?),
        };
        sources.push((source, None));
        firsts.push(i64::try_from(position).map_err(|_| damaged())?);
    }
    let indices = cursor.bits(count, width_of(number.saturating_sub(1) as u64))?;
    let distances = Ints::decode(count.saturating_sub(number), cursor)?;
    let items = match cursor.meta.byte()? {
        0 => None,
        1 => Some(Ints::decode(count, cursor)?),
        _ => return Err(PageError::Damaged("its items are neither there nor not there")),
    };

    let packed = cursor.packed;
    let mut keys: Vec<RowKey> = Vec::with_capacity(count);
    let mut time = first.time().get();
    let mut far = 0;
    for at in 0..count {
        if at > 0 {
            time = time.checked_sub(ticks.get(packed, at - 1)).ok_or_else(damaged)?;
        }
        let index = usize::try_from(indices.get(packed, at)).map_err(|_| damaged())?;
        let (source, before) = sources.get_mut(index).ok_or_else(damaged)?;
        let position = match before {
            None => firsts[index],
            Some(before) => {
                far += 1;
                before.checked_sub(distances.get(packed, far - 1)).ok_or_else(damaged)?
            }
        };
        *before = Some(position);
        let position =
            u64::try_from(position).ok().filter(|&p| p <= daytable_model::key::POSITION_MAX).ok_or_else(damaged)?;
        let item = items.as_ref().map_or(0, |items| items.get(packed, at));
        let item = u16::try_from(item).map_err(|_| damaged())?;
        let key = RowKey::new(Ticks::new(time).ok_or_else(damaged)?, *source, position).with_item(item);
        if keys.last().is_some_and(|before| *before >= key) {
            return Err(PageError::Damaged("its keys are out of order"));
        }
        keys.push(key);
    }
    Ok(keys)
}
