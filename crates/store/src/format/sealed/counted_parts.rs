//! Counts of records by value and level, of parts of the row groups of a sealed file.
//!
//! A question for the number of records with `status=500` reads these instead of a column. A filter that no record of a
//! part matches does not read the part. For the pages of an open day, `page_counts` does the same.
//!
//! A *part* is up to [`PART_ROWS`] adjacent rows of a row group: of one partition, or of several that have few rows.
//!
//! ```text
//! section := counts of a row group, one after the other, before each section of the Bloom index; the index has their places
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
    ByteReader, ColumnCounts, CountedValue, LEVELS, LevelNumbers, PageError, VALUES_MAX, ValueCounts,
    counted_bytes_max, is_filled, is_repeated, put_varint,
};
use crate::format::page_counts::{self, CountedPage, PageCounts};
use crate::format::page_groups::PAGES_MAX;
use crate::format::sealed::damage::{damaged, guard};
use ::bytes::Bytes;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::key::RowKey;
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
    /// Of properties without a column of their own, by part: the values that are not empty texts; `None` without a
    /// value.
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
        let rows_of = |slice: &RowSlice| {
            let part = &slice.mapped.part;
            let row = |row: usize| (part.keys()[row], part.level(row).map_or(0, Level::code));
            slice.rows.clone().map(row).collect::<Vec<_>>()
        };
        let all: Vec<(RowKey, u8)> = slices.iter().flat_map(rows_of).collect();
        let (mut parts, mut columns) = (Vec::new(), Vec::new());
        for rows in parts_of(&runs) {
            let of_part = &all[rows.clone()];
            let times = || of_part.iter().map(|(key, _)| key.time());
            let (Some(newest), Some(oldest)) = (times().max(), times().min()) else { continue };
            let mut levels = LevelNumbers::default();
            of_part.iter().for_each(|(_, code)| levels[usize::from(*code) % LEVELS] += 1);
            columns.push(of_part.iter().all(|(key, _)| key.item() == 0).then(Vec::new));
            parts.push(CountedPart { rows, newest, oldest, levels });
        }
        let levels = all.into_iter().map(|(_, code)| code).collect();
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
        if self.is_full {
            return;
        }
        let part = self.parts.partition_point(|part| part.rows.end <= row);
        let Some(columns) = self.columns.get_mut(part) else { return };
        let property = (name.to_owned(), value.kind());
        if !self.rest.contains_key(&property) && self.rest.len() == REST_MAX {
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

    fn is_countable(&self, value: Property<'_>) -> bool {
        counted_bytes_max(self.name).is_some_and(|bytes_max| match value {
            Property::String(text) => text.len() <= bytes_max,
            Property::Guid(_) | Property::Binary(_) => false,
            _ => true,
        })
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
    /// Reads counts of a row group with this many rows, of columns that `wants` accepts.
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
                return Err(PageError::Damaged("a time of its counted rows is out of range"));
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
        let counts = counts.ok_or(PageError::Damaged("its value counts cannot be read"))?;
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
            let bytes = guard(&self.opened.path, "value counts", || self.opened.bytes.get_bytes(start, length))?;
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
        counted.map_err(|error| damaged(&self.opened.path, "value counts", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sealed::bloom::BloomSection;
    use crate::format::sealed::index::{FileIndex, PartitionRun};
    use proptest::prelude::*;

    /// The claims of a part: rows, newest time, span, and records of each level.
    type Claims = (u64, i64, i64, Vec<u64>);

    /// Parts whose claims agree.
    fn sound() -> impl Strategy<Value = Vec<Claims>> {
        let levels = prop::collection::vec(0u64..9, LEVELS);
        let part = (0..1i64 << 60, 0..1i64 << 40, levels)
            .prop_map(|(oldest, span, levels)| (levels.iter().sum(), oldest + span, span, levels));
        prop::collection::vec(part, 1..4)
    }

    fn decoded(parts: &[Claims], group_rows: usize) -> Result<CountedParts, PageError> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, parts.len() as u64);
        for (rows, newest, span, levels) in parts {
            [*rows, newest.cast_unsigned(), span.cast_unsigned()].iter().for_each(|n| put_varint(&mut bytes, *n));
            levels.iter().for_each(|n| put_varint(&mut bytes, *n));
        }
        bytes.append(&mut page_counts::encode(&vec![(0, Some(&ValueCounts { columns: Vec::new() })); parts.len()]));
        CountedParts::decode(&bytes, group_rows, |_, _| true)
    }

    proptest! {
        /// The rows of parts are those of the group, and their levels count them. One wrong claim is an error.
        #[test]
        fn claims_of_parts_are_checked(parts in sound(), which in any::<prop::sample::Index>(), level in 0..LEVELS, by in 1u64..1 << 60, any in any::<i64>()) {
            let rows = parts.iter().map(|part| part.0 as usize).sum();
            let counted = decoded(&parts, rows).expect("sound");
            prop_assert_eq!(counted.parts().count(), parts.len());
            for ((part, _), (rows, newest, span, levels)) in counted.parts().zip(&parts) {
                prop_assert_eq!((part.rows.len() as u64, &part.levels[..]), (*rows, &levels[..]));
                prop_assert_eq!((part.newest.get(), part.oldest.get()), (*newest, newest - span));
            }
            let at = which.index(parts.len());
            let with = |change: &dyn Fn(&mut Claims)| {
                let mut wrong = parts.clone();
                change(&mut wrong[at]);
                decoded(&wrong, usize::MAX)
            };
            prop_assert!(with(&|part| part.0 += by).is_err(), "a row without a level");
            prop_assert!(with(&|part| part.3[level] += by).is_err(), "more records of a level than rows");
            prop_assert!(with(&|part| part.2 = i64::MAX).is_err(), "a time that is none");
            prop_assert!(rows == 0 || decoded(&parts, rows - 1).is_err(), "more rows than the group has");
            let _ = with(&|part| (part.1, part.2) = (any, by.cast_signed()));
        }
    }

    /// Places that overlap would make a small file take much memory.
    #[test]
    fn places_that_overlap_are_refused() {
        let run = |group: usize| PartitionRun {
            partition: "web-1".into(),
            group,
            rows: 0..1,
            newest: Ticks::MIN,
            oldest: Ticks::MIN,
        };
        let index = |counts: [Range<u64>; 2]| FileIndex {
            groups: vec![1, 1],
            runs: vec![run(0), run(1)],
            counts: counts.into(),
            bloom: vec![BloomSection { at: 0, layouts: 0, positions: 192, columns: Vec::new() }],
            sums: vec![7].into(),
            ..FileIndex::default()
        };
        let decoded =
            |counts| FileIndex::decode(&index(counts).encode().expect("encoded"), 100).map(|index| index.counts);
        assert_eq!(decoded([0..5, 5..12]), Ok(vec![0..5, 5..12]));
        assert_eq!(decoded([0..5, 9..9]), Ok(vec![0..5, 9..9]));
        for counts in [[0..5, 0..5], [0..5, 4..12], [9..12, 0..5], [0..5, 99..101]] {
            assert!(decoded(counts.clone()).is_err(), "{counts:?}");
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
