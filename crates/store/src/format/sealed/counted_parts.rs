//! Numbers of records by value and level, of parts of the row groups of a sealed file.
//!
//! A question for the number of records with `status=500` reads these instead of a column. A filter that no record of a
//! part matches does not read the part. For the pages of an open day, `page_counts` does the same.
//!
//! A *part* is up to [`PART_ROWS`] adjacent rows of a row group: of one partition, or of several that have few rows.
//!
//! ```text
//! section := counts of a row group, one after the other, before each section of the sieve; the index has their places
//! counts  := parts varint | part* | numbers of the parts, as a row of `page_counts` has them of pages
//! part    := rows varint | newest varint | newest − oldest varint | records varint of each level, that of none first
//! ```
//!
//! Parts follow each other from the first row on. Rows behind the last part are not counted.

use super::bytes::BLOCK_BYTES;
use super::file::SealedFile;
use super::index::COUNTS_BYTES_MAX;
use super::mapped::RowSlice;
use crate::StoreError;
use crate::format::IS_SMALL;
use crate::format::page::{
    ByteReader, ColumnCounts, CountedValue, LAYOUT_BYTES_MAX, LEVELS, LevelNumbers, PageError, VALUE_BYTES_MAX,
    VALUES_MAX, ValueCounts, is_repeated, put_varint,
};
use crate::format::page_counts::{self, CountedPage, PageCounts};
use crate::format::page_groups::PAGES_MAX;
use crate::format::sealed::damage::{damaged, guard};
use ::bytes::Bytes;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::line::LAYOUT;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use parquet::file::reader::ChunkReader;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most rows of a part.
const PART_ROWS: usize = if IS_SMALL { 32 } else { 1 << 13 };
/// Runs of fewer rows are in a part with others.
const SMALL_RUN: usize = PART_ROWS / 8;
/// Properties without a column of their own. A row group with more of them has no numbers.
const REST_MAX: usize = 256;

/// Counts the values of a row group, column by column.
pub(super) struct PartCounter {
    parts: Vec<CountedPart>,
    /// The code of each row's level.
    levels: Vec<u8>,
    /// The columns of each part; `None` where a record is not described by its row.
    columns: Vec<Option<Vec<ColumnCounts>>>,
    /// Of properties without a column of their own, by part: the values that are no empty texts; `None` without a value.
    rest: BTreeMap<(String, PropertyKind), Vec<Option<u32>>>,
    is_full: bool,
}

/// A part of a row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountedPart {
    /// Its rows within the row group.
    pub(crate) rows: Range<usize>,
    pub(crate) newest: Ticks,
    pub(crate) oldest: Ticks,
    pub(crate) levels: LevelNumbers,
}

/// Counts the values of one column.
pub(super) struct ColumnCounter<'c> {
    counter: &'c mut PartCounter,
    name: &'c str,
    kind: PropertyKind,
    /// The part of the last value.
    part: usize,
    /// The different values, and the hash of each apart, so that one is found soon.
    values: Vec<CountedValue>,
    hashes: Vec<u64>,
    /// The number of the last value among them.
    last: usize,
    has_many: bool,
    filled: u32,
    count: u32,
}

impl PartCounter {
    /// For the rows of a group.
    pub(super) fn new(slices: &[RowSlice]) -> PartCounter {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut at = 0;
        for slices in slices.chunk_by(|a, b| a.partition == b.partition) {
            let start = at;
            at += slices.iter().map(|slice| slice.rows.len()).sum::<usize>();
            runs.push(start..at);
        }
        let mut levels = Vec::with_capacity(at);
        let mut parts: Vec<CountedPart> = Vec::new();
        let mut left = parts_of(&runs).into_iter();
        let mut current = left.next();
        let mut columns = Vec::new();
        for slice in slices {
            for (key, row) in slice.mapped.part.keys()[slice.rows.clone()].iter().zip(slice.rows.clone()) {
                let (time, code) = (key.time(), slice.mapped.part.level(row).map_or(0, Level::code));
                let row = levels.len();
                levels.push(code);
                if current.as_ref().is_some_and(|rows| rows.end == row) {
                    current = left.next();
                }
                let Some(rows) = &current else { continue };
                if rows.start == row {
                    parts.push(CountedPart {
                        rows: rows.clone(),
                        newest: time,
                        oldest: time,
                        levels: LevelNumbers::default(),
                    });
                    columns.push(Some(Vec::new()));
                }
                if let (Some(part), Some(columns)) = (parts.last_mut(), columns.last_mut()) {
                    (part.newest, part.oldest) = (part.newest.max(time), part.oldest.min(time));
                    part.levels[usize::from(code) % LEVELS] += 1;
                    if key.item() > 0 {
                        *columns = None;
                    }
                }
            }
        }
        PartCounter { parts, levels, columns, rest: BTreeMap::new(), is_full: false }
    }

    /// Counts a column, whose values follow in the order of their rows.
    pub(super) fn column<'c>(&'c mut self, name: &'c str, kind: PropertyKind) -> ColumnCounter<'c> {
        ColumnCounter {
            counter: self,
            name,
            kind,
            part: 0,
            values: Vec::new(),
            hashes: Vec::new(),
            last: 0,
            has_many: false,
            filled: 0,
            count: 0,
        }
    }

    /// Adds a value that is in no column of its own.
    pub(super) fn add_rest(&mut self, row: usize, name: &str, value: Property<'_>) {
        let part = self.parts.partition_point(|part| part.rows.end <= row);
        let Some(columns) = self.columns.get_mut(part) else { return };
        let property = (name.to_owned(), value.kind());
        if self.is_full || !self.rest.contains_key(&property) && self.rest.len() == REST_MAX {
            self.is_full = true;
            return;
        }
        if MULTI_ROW_PROPERTIES.contains(&(name, value.kind())) {
            *columns = None;
        }
        let filled = self.rest.entry(property).or_default();
        filled.resize(filled.len().max(part + 1), None);
        *filled[part].get_or_insert(0) += u32::from(is_filled(value));
    }

    /// The counts as bytes; none if there are none.
    pub(super) fn finish(mut self) -> Vec<u8> {
        for ((name, kind), filled) in std::mem::take(&mut self.rest) {
            for (columns, filled) in self.columns.iter_mut().zip(filled) {
                let (Some(columns), Some(filled)) = (columns, filled) else { continue };
                match columns.iter_mut().find(|column| (&column.name, column.kind) == (&name, kind)) {
                    Some(column) => (column.filled, column.values) = (column.filled + filled, None),
                    None => columns.push(ColumnCounts { name: name.clone(), kind, filled, values: None }),
                }
            }
        }
        if self.is_full || self.columns.iter().all(Option::is_none) {
            return Vec::new();
        }
        let mut out = Vec::new();
        put_varint(&mut out, self.parts.len() as u64);
        for CountedPart { rows, newest, oldest, levels } in &self.parts {
            put_varint(&mut out, rows.len() as u64);
            put_varint(&mut out, newest.get().cast_unsigned());
            put_varint(&mut out, (newest.get() - oldest.get()).cast_unsigned());
            levels.iter().for_each(|records| put_varint(&mut out, *records));
        }
        let counts: Vec<_> = self.columns.into_iter().map(|columns| Some(ValueCounts { columns: columns? })).collect();
        let pages: Vec<(u64, Option<&ValueCounts>)> = counts.iter().map(|counts| (0, counts.as_ref())).collect();
        out.append(&mut page_counts::encode(&pages));
        if out.len() > COUNTS_BYTES_MAX { Vec::new() } else { out }
    }
}

/// The parts of a group with these runs: as many as a row of `page_counts` may have.
fn parts_of(runs: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut parts: Vec<(Range<usize>, bool)> = Vec::new();
    for run in runs {
        if run.len() < SMALL_RUN {
            match parts.last_mut() {
                Some((part, true)) if run.end - part.start <= PART_ROWS => part.end = run.end,
                _ => parts.push((run.clone(), true)),
            }
            continue;
        }
        let count = run.len().div_ceil(PART_ROWS);
        let end = |number: usize| run.start + run.len() * number / count;
        parts.extend((0..count).map(|number| (end(number)..end(number + 1), false)));
    }
    parts.truncate(PAGES_MAX);
    parts.into_iter().map(|(rows, _)| rows).collect()
}

fn is_filled(value: Property<'_>) -> bool {
    !matches!(value, Property::String(""))
}

impl ColumnCounter<'_> {
    /// Adds the value of a row. Equal values have the same `hash`.
    #[inline]
    pub(super) fn add(&mut self, row: usize, value: Property<'_>, hash: u64) {
        while self.counter.parts.get(self.part).is_some_and(|part| part.rows.end <= row) {
            self.end_part();
            self.part += 1;
        }
        self.count += 1;
        self.filled += u32::from(is_filled(value));
        if self.has_many {
            return;
        }
        if self.hashes.get(self.last) != Some(&hash) {
            self.last = match self.hashes.iter().position(|of| *of == hash) {
                Some(at) => at,
                None if self.values.len() == VALUES_MAX || !self.is_countable(value) => {
                    self.has_many = true;
                    return;
                }
                None => {
                    self.values.push((value.into(), [0; LEVELS]));
                    self.hashes.push(hash);
                    self.values.len() - 1
                }
            };
        }
        let (known, counts) = &mut self.values[self.last];
        if known.as_property() == value {
            counts[usize::from(self.counter.levels[row]) % LEVELS] += 1;
        } else {
            // Two values with one hash, or a number that is none.
            self.has_many = true;
        }
    }

    /// A question for messages compares whole messages, which are more than their column.
    fn is_countable(&self, value: Property<'_>) -> bool {
        let bytes_max = if self.name == LAYOUT { LAYOUT_BYTES_MAX } else { VALUE_BYTES_MAX };
        match value {
            Property::String(text) => self.name != "Message" && text.len() <= bytes_max,
            Property::Guid(_) | Property::Binary(_) => false,
            _ => true,
        }
    }

    fn end_part(&mut self) {
        let values = std::mem::take(&mut self.values);
        self.hashes.clear();
        let (count, filled) = (std::mem::take(&mut self.count), std::mem::take(&mut self.filled));
        let has_many = std::mem::take(&mut self.has_many) || !is_repeated(values.len(), count as usize);
        self.last = 0;
        if count == 0 {
            return;
        }
        let Some(columns) = self.counter.columns.get_mut(self.part) else { return };
        if MULTI_ROW_PROPERTIES.contains(&(self.name, self.kind)) {
            *columns = None;
        }
        if let Some(columns) = columns {
            let values = (!has_many).then_some(values);
            columns.push(ColumnCounts { name: self.name.to_owned(), kind: self.kind, filled, values });
        }
    }

    /// Ends the column.
    pub(super) fn finish(mut self) {
        self.end_part();
    }
}

/// The counts of a row group, of the columns that were read.
pub(crate) struct CountedParts {
    parts: Vec<CountedPart>,
    counts: PageCounts,
}

impl CountedParts {
    /// Reads counts of a row group with so many rows, of columns that `wants` accepts.
    pub(crate) fn decode(
        bytes: &[u8],
        group_rows: usize,
        wants: impl Fn(&str, PropertyKind) -> bool,
    ) -> Result<CountedParts, PageError> {
        let mut reader = ByteReader::new(bytes);
        let mut start = 0;
        let mut part = |reader: &mut ByteReader<'_>| {
            let rows = reader.count(group_rows - start)?;
            let newest = Ticks::new(reader.varint()?.cast_signed());
            let span = reader.varint()?.cast_signed();
            let oldest = newest.and_then(|newest| Ticks::new(newest.get().checked_sub(span)?));
            let (Some(newest), Some(oldest)) = (newest, oldest) else {
                return Err(PageError::Damaged("a time of its counted rows is none"));
            };
            let (mut levels, mut left) = (LevelNumbers::default(), rows);
            for records in &mut levels {
                let of_level = reader.count(left)?;
                left -= of_level;
                *records = of_level as u64;
            }
            if left > 0 {
                return Err(PageError::Damaged("a counted row has no level"));
            }
            let rows = start..start + rows;
            start = rows.end;
            Ok(CountedPart { rows, newest, oldest, levels })
        };
        let count = reader.count(PAGES_MAX)?;
        let parts = (0..count).map(|_| part(&mut reader)).collect::<Result<Vec<_>, _>>()?;
        let counts = PageCounts::decode(reader.rest(), &wants);
        let counts = counts.ok_or(PageError::Damaged("its numbers by value are none"))?;
        Ok(CountedParts { parts, counts })
    }

    /// The parts that are counted.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&CountedPart, CountedPage<'_>)> {
        self.parts.iter().enumerate().filter_map(|(bit, part)| Some((part, self.counts.page(bit)?)))
    }
}

impl SealedFile {
    /// The bytes of the counts of some row groups, which are sorted, by their numbers. Reads them section by section.
    pub(crate) fn read_counts(
        &self,
        groups: impl Iterator<Item = usize>,
    ) -> Result<BTreeMap<usize, Bytes>, StoreError> {
        let places = &self.opened.index.counts;
        let groups: Vec<(usize, Range<u64>)> = groups
            .filter_map(|group| Some((group, places.get(group).filter(|place| !place.is_empty())?.clone())))
            .collect();
        let mut read = BTreeMap::new();
        if !self.trusts_statistics {
            return Ok(read);
        }
        // Between sections are row groups.
        let is_near =
            |a: &Range<u64>, b: &Range<u64>| b.start.checked_sub(a.end).is_some_and(|gap| gap <= BLOCK_BYTES as u64);
        for section in groups.chunk_by(|(_, a), (_, b)| is_near(a, b)) {
            let (Some((_, first)), Some((_, last))) = (section.first(), section.last()) else { continue };
            let start = first.start;
            let length = usize::try_from(last.end - start).unwrap_or(usize::MAX);
            let bytes = guard(&self.opened.path, "numbers by value", || self.opened.bytes.get_bytes(start, length))?;
            // Within the bytes, whose length is a usize.
            let slice = |place: &Range<u64>| bytes.slice((place.start - start) as usize..(place.end - start) as usize);
            read.extend(section.iter().map(|(group, place)| (*group, slice(place))));
        }
        Ok(read)
    }

    /// Reads the counts of a row group.
    pub(crate) fn counted_parts(
        &self,
        group: usize,
        bytes: &[u8],
        wants: impl Fn(&str, PropertyKind) -> bool,
    ) -> Result<CountedParts, StoreError> {
        let counted = CountedParts::decode(bytes, self.opened.index.groups[group], wants);
        counted.map_err(|error| damaged(&self.opened.path, "numbers by value", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the parts claim, their rows are those of the group, and their levels count them.
        #[test]
        fn claims_of_parts_are_checked(
            parts in prop::collection::vec((prop_oneof![0u64..20, any::<u64>()], any::<i64>(), any::<i64>(), prop::collection::vec(prop_oneof![0u64..9, any::<u64>()], LEVELS)), 0..4),
            group_rows in 0usize..60,
        ) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, parts.len() as u64);
            for (rows, newest, span, levels) in &parts {
                [*rows, newest.cast_unsigned(), span.cast_unsigned()].iter().for_each(|n| put_varint(&mut bytes, *n));
                levels.iter().for_each(|n| put_varint(&mut bytes, *n));
            }
            bytes.append(&mut page_counts::encode(&vec![(0, Some(&ValueCounts { columns: Vec::new() })); parts.len()]));
            if let Ok(counted) = CountedParts::decode(&bytes, group_rows, |_, _| true) {
                prop_assert_eq!(counted.parts().count(), parts.len());
                for (part, _) in counted.parts() {
                    prop_assert!(part.rows.end <= group_rows);
                    prop_assert_eq!(part.levels.iter().sum::<u64>(), part.rows.len() as u64);
                }
            }
        }
    }

    #[test]
    fn runs_are_cut_into_parts_and_few_rows_are_put_together() {
        let runs: Vec<usize> = vec![70, 3, 2, 32, 1, 31, 2, 3];
        let mut at = 0;
        let runs: Vec<Range<usize>> = runs.into_iter().map(|rows| (at, at += rows).0..at).collect();
        let parts = parts_of(&runs);
        assert_eq!(parts, [0..23, 23..46, 46..70, 70..75, 75..107, 107..108, 108..139, 139..144]);
        let many: Vec<Range<usize>> = (0..100).map(|n| 4 * n..4 * n + 4).collect();
        assert_eq!(parts_of(&many).len(), PAGES_MAX, "rows behind the last part are not counted");
    }
}
