//! The index of a sealed file: the place of each partition, and the number of records by minute.
//!
//! ```text
//! index  := length varint | zstd frame of the following
//!           groups varint | rows varint *groups
//!           partitions varint | [length varint | name]*
//!           runs varint | [partition varint | group varint | rows varint | newest varint | newest − oldest varint]*
//!           minutes length varint | levels and minutes as in a page's header (without minutes: not kept)
//!           Bloom index sections varint | [start varint | bytes of layouts varint | positions varint
//!                                    | columns varint | [positions of trigrams varint]*]*
//!           [start of its value counts varint | length varint]* of each group
//!           sums varint | [xxh3-64]*
//! ```
//!
//! A **run** is the rows of one partition in one row group; runs are in the order of the file. The index is after the
//! row groups, where other Parquet readers skip it.

use super::bloom::{BloomSection, SECTION_GROUPS};
use super::bytes::BLOCK_BYTES;
use crate::format::page::{
    ByteReader, LevelMinute, PageError, add_streams, encode_minutes, has_streams, level_minutes, put_varint,
};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Maximum distinct minutes and levels: a day has 1,440 minutes, but a record may have any time.
const MINUTES_MAX: usize = 1 << 20;
/// Maximum bytes of the value counts of a row group. It has no numbers that would take more.
pub(super) const COUNTS_BYTES_MAX: usize = 1 << 20;
/// Maximum bytes of an index before compression.
const INDEX_BYTES_MAX: usize = 1 << 30;
/// Maximum ratio of the index to its compressed frame.
const RATIO_MAX: usize = 1 << 14;

/// The rows of one partition in one row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionRun {
    pub(crate) partition: Arc<str>,
    pub(crate) group: usize,
    /// Its rows within the group.
    pub(crate) rows: Range<usize>,
    pub(crate) newest: Ticks,
    pub(crate) oldest: Ticks,
}

/// The index; see the module's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileIndex {
    /// Rows of each row group.
    pub(crate) groups: Vec<usize>,
    pub(crate) runs: Vec<PartitionRun>,
    /// Records by minute and level; `None` if there were too many.
    pub(crate) minutes: Option<Vec<LevelMinute>>,
    /// The place of the value counts of each row group: see the top of `counted_parts.rs`. Some have none.
    pub(crate) counts: Vec<Range<u64>>,
    /// The sections of the Bloom index.
    pub(crate) bloom: Vec<BloomSection>,
    /// Whether a row may have the note of a stream.
    pub(crate) has_streams: bool,
    pub(crate) sums: Arc<[u64]>,
}

/// Records by minute and level while a file is written.
#[derive(Default)]
pub(crate) struct MinuteCounts {
    counts: BTreeMap<(i64, Option<Level>), MinuteRecords>,
    last: Option<((i64, Option<Level>), MinuteRecords)>,
}

/// Records of a minute, and those of them at its first tick.
type MinuteRecords = (u64, u64);

impl MinuteCounts {
    pub(crate) fn add(&mut self, time: Ticks, level: Option<Level>) {
        let key = (time.unix_seconds().div_euclid(60), level);
        let at_start = u64::from(Ticks::from_unix(key.0 * 60, 0) == Some(time));
        match &mut self.last {
            Some((last, (records, of_start))) if *last == key => {
                *records += 1;
                *of_start += at_start;
            }
            _ => {
                self.flush();
                self.last = Some((key, (1, at_start)));
            }
        }
    }

    fn flush(&mut self) {
        if let Some((key, (records, at_start))) = self.last.take()
            && self.counts.len() <= MINUTES_MAX
        {
            let count = self.counts.entry(key).or_default();
            *count = (count.0 + records, count.1 + at_start);
        }
    }

    /// Newest first; `None` if there are too many.
    pub(crate) fn finish(mut self) -> Option<Vec<LevelMinute>> {
        self.flush();
        let count = |(&(minute, level), &(records, at_start)): (&(i64, Option<Level>), &MinuteRecords)| {
            let (records, at_start) = (u32::try_from(records).ok()?, u32::try_from(at_start).ok()?);
            Some(LevelMinute { minute, level, records, at_start })
        };
        let all: Option<Vec<_>> = self.counts.iter().rev().map(count).collect();
        all.filter(|all| all.len() <= MINUTES_MAX)
    }
}

impl FileIndex {
    /// Encodes the index.
    pub(crate) fn encode(&self) -> std::io::Result<Vec<u8>> {
        let mut out = Vec::new();
        put_varint(&mut out, self.groups.len() as u64);
        self.groups.iter().for_each(|rows| put_varint(&mut out, *rows as u64));
        let mut names: Vec<&Arc<str>> = self.runs.iter().map(|run| &run.partition).collect();
        names.dedup();
        put_varint(&mut out, names.len() as u64);
        for name in &names {
            put_varint(&mut out, name.len() as u64);
            out.extend_from_slice(name.as_bytes());
        }
        put_varint(&mut out, self.runs.len() as u64);
        let mut number = 0;
        for run in &self.runs {
            if run.partition != *names[number] {
                number += 1;
            }
            let span = run.newest.get() - run.oldest.get();
            for n in [number as u64, run.group as u64, run.rows.len() as u64] {
                put_varint(&mut out, n);
            }
            put_varint(&mut out, run.newest.get().cast_unsigned());
            put_varint(&mut out, span.cast_unsigned());
        }
        let mut minutes = self.minutes.as_deref().map(encode_minutes).unwrap_or_default();
        if self.has_streams {
            add_streams(&mut minutes);
        }
        put_varint(&mut out, minutes.len() as u64);
        out.extend_from_slice(&minutes);
        put_varint(&mut out, self.bloom.len() as u64);
        for section in &self.bloom {
            let columns = section.columns.iter().map(|positions| *positions as u64);
            let counts = [section.layouts as u64, section.positions as u64, section.columns.len() as u64];
            [section.at].into_iter().chain(counts).chain(columns).for_each(|n| put_varint(&mut out, n));
        }
        for place in &self.counts {
            put_varint(&mut out, place.start);
            put_varint(&mut out, place.end - place.start);
        }
        put_varint(&mut out, self.sums.len() as u64);
        self.sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
        let mut framed = Vec::new();
        put_varint(&mut framed, out.len() as u64);
        framed.extend_from_slice(&zstd::bulk::compress(&out, 3)?);
        Ok(framed)
    }

    /// The inverse of [`FileIndex::encode`], for a file whose row groups end at `data_end`.
    pub(crate) fn decode(bytes: &[u8], data_end: u64) -> Result<FileIndex, PageError> {
        let mut framed = ByteReader::new(bytes);
        let length = usize::try_from(framed.varint()?).ok();
        // The claimed length is allocated, so it must be in proportion to the frame.
        let most = framed.rest().len().saturating_mul(RATIO_MAX).min(INDEX_BYTES_MAX);
        let length = length.filter(|length| *length <= most);
        let length = length.ok_or(PageError::Damaged("its index is too long"))?;
        let raw = zstd::bulk::decompress(framed.rest(), length);
        let raw = raw.map_err(|_| PageError::Damaged("its index cannot be decompressed"))?;
        let mut raw = ByteReader::new(&raw);
        let groups = (0..count(&mut raw)?).map(|_| number(&mut raw)).collect::<Result<Vec<_>, _>>()?;
        let name = |raw: &mut ByteReader<'_>| {
            let length = number(raw)?;
            let name = std::str::from_utf8(raw.take(length)?);
            name.map(Arc::<str>::from).map_err(|_| PageError::Damaged("a partition's name is not UTF-8"))
        };
        let names = (0..count(&mut raw)?).map(|_| name(&mut raw)).collect::<Result<Vec<_>, _>>()?;
        let mut at = (0, 0);
        let mut run = |raw: &mut ByteReader<'_>| {
            let (partition, group, rows) = (number(raw)?, number(raw)?, number(raw)?);
            let newest = Ticks::new(raw.varint()?.cast_signed());
            let span = raw.varint()?.cast_signed();
            let oldest = newest.and_then(|newest| Ticks::new(newest.get().checked_sub(span)?));
            let start = if at.0 == group { at.1 } else { 0 };
            let end = rows.checked_add(start).filter(|end| groups.get(group).is_some_and(|rows| end <= rows));
            let (Some(partition), Some(newest), Some(oldest), Some(end)) = (names.get(partition), newest, oldest, end)
            else {
                return Err(PageError::Damaged("a run of its index is invalid"));
            };
            at = (group, end);
            Ok(PartitionRun { partition: partition.clone(), group, rows: start..end, newest, oldest })
        };
        let runs = (0..count(&mut raw)?).map(|_| run(&mut raw)).collect::<Result<Vec<_>, _>>()?;
        let length = number(&mut raw)?;
        let minutes = raw.take(length)?;
        let has_streams = has_streams(minutes);
        let minutes = level_minutes(minutes).collect::<Result<Vec<_>, _>>()?;
        let section = |raw: &mut ByteReader<'_>| {
            let (at, layouts, positions) = (raw.varint()?, number(raw)?, number(raw)?);
            let columns = (0..count(raw)?).map(|_| number(raw)).collect::<Result<_, _>>()?;
            Ok(BloomSection { at, layouts, positions, columns })
        };
        let bloom = (0..count(&mut raw)?).map(|_| section(&mut raw)).collect::<Result<Vec<_>, PageError>>()?;
        let is_inside = |(section, groups): (&BloomSection, &[usize])| {
            let end = section.at.checked_add(section.bytes(groups.len())? as u64)?;
            (section.positions > 0 && end <= data_end).then_some(())
        };
        let sections = groups.chunks(SECTION_GROUPS);
        if bloom.len() != sections.len() || bloom.iter().zip(sections).any(|of| is_inside(of).is_none()) {
            return Err(PageError::Damaged("its Bloom index does not fit its row groups"));
        }
        let place = |raw: &mut ByteReader<'_>| {
            let (start, length) = (raw.varint()?, raw.varint()?);
            let end = start.checked_add(length).filter(|end| *end <= data_end && length <= COUNTS_BYTES_MAX as u64);
            end.map(|end| start..end).ok_or(PageError::Damaged("its value counts are outside of it"))
        };
        let counts = groups.iter().map(|_| place(&mut raw)).collect::<Result<Vec<_>, PageError>>()?;
        // So that all of them together take no more memory than the file has bytes.
        if !counts.is_sorted_by(|before, next| before.end <= next.start) {
            return Err(PageError::Damaged("its value counts are not one after the other"));
        }
        let sums = (0..count(&mut raw)?).map(|_| raw.array().map(u64::from_le_bytes));
        let sums = sums.collect::<Result<Arc<[u64]>, _>>()?;
        let in_order = runs.is_sorted_by_key(|run| (run.group, run.rows.start));
        let sum = |rows: &mut dyn Iterator<Item = usize>| rows.fold(0, usize::saturating_add);
        let whole = sum(&mut runs.iter().map(|run| run.rows.len())) == sum(&mut groups.iter().copied());
        if !raw.rest().is_empty() || !in_order || !whole || sums.len() as u64 != data_end.div_ceil(BLOCK_BYTES as u64) {
            return Err(PageError::Damaged("its index does not fit its row groups"));
        }
        let minutes = (!minutes.is_empty() || runs.is_empty()).then_some(minutes);
        Ok(FileIndex { groups, runs, minutes, has_streams, counts, bloom, sums })
    }
}

fn number(raw: &mut ByteReader<'_>) -> Result<usize, PageError> {
    usize::try_from(raw.varint()?).map_err(|_| PageError::Damaged("a number of its index is too large"))
}

/// A count of items that have at least one byte each.
fn count(raw: &mut ByteReader<'_>) -> Result<usize, PageError> {
    let count = number(raw)?;
    if count > raw.rest().len() { Err(PageError::Damaged("its index is cut off")) } else { Ok(count) }
}
