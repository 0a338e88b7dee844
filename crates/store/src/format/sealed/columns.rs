//! Reads columns of a sealed file: some rows of a row group, as values or as a [`RowBlock`].
//!
//! Callers pass rows as ranges within their group, sorted and disjoint; pages between them are skipped. Every value is
//! validated here, so a block contains only valid properties.

use super::block::{BlockColumn, BlockValues, RestColumn, RestNames, RowBlock};
use super::damage::{damaged, guard};
use super::file::{FileContents, SealedFile};
use super::index::PartitionRun;
use super::interned::{self, InternedPages, InternedTexts};
use super::layout::{ITEM, LEVEL, PARTITION, POSITION, PROPERTIES, REST_DEFINED, SOURCE, TICKS, TIME};
use super::pages::ColumnPages;
use crate::StoreError;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::source_id::SourceId;
use daytable_model::time::{Ticks, UNIX_EPOCH_TICKS};
use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, DataType, DoubleType, FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescPtr;
use std::ops::Range;
use std::sync::Arc;

/// BlockColumn, definition and repetition levels.
type ColumnRead<T> = (Vec<T>, Vec<i16>, Vec<i16>);

/// The columns of a block that a caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnSet {
    /// Only keys.
    Keys,
    /// Keys and levels.
    Levels,
    /// All.
    All,
}

impl SealedFile {
    /// Whether a column surely has no value in a group.
    pub(crate) fn is_absent(&self, group: usize, leaf: usize) -> bool {
        let column = self.opened.metadata.row_group(group).column(leaf);
        let nulls = column.statistics().and_then(Statistics::null_count_opt);
        self.trusts_statistics && nulls.is_some_and(|nulls| Ok(nulls) == u64::try_from(column.num_values()))
    }

    /// The values of some rows of a column, and its definition and repetition levels if it has any.
    fn read<T: DataType>(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
    ) -> Result<ColumnRead<T::T>, StoreError> {
        self.read_pages::<T>(group, leaf, ranges, |pages, _| Box::new(pages))
    }

    /// The same for a column of texts.
    pub(super) fn texts(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
    ) -> Result<(InternedTexts, Vec<i16>, Vec<i16>), StoreError> {
        let kept = interned::SharedPool::default();
        let (numbers, defined, repeated) = self.read_pages::<Int32Type>(group, leaf, ranges, |pages, descriptor| {
            Box::new(InternedPages::new(pages.keeping_frames(), descriptor, kept.clone()))
        })?;
        let texts = InternedTexts::new(&kept, numbers).ok_or_else(|| self.wrong(group, leaf, "a text is not there"))?;
        Ok((texts, defined, repeated))
    }

    /// The pages of a row group's column.
    pub(super) fn pages(&self, group: usize, leaf: usize) -> Result<ColumnPages, ParquetError> {
        let FileContents { bytes, metadata, index, .. } = &*self.opened;
        let pages = metadata.page_index_for_row_group(group).page_locations(leaf).cloned();
        ColumnPages::new(bytes.clone(), metadata.row_group(group).column(leaf), index.groups[group], pages)
    }

    fn read_pages<T: DataType>(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
        through: impl FnOnce(ColumnPages, ColumnDescPtr) -> Box<dyn PageReader>,
    ) -> Result<ColumnRead<T::T>, StoreError> {
        guard(&self.opened.path, &format!("row group {group}, column {leaf}"), || {
            let pages = self.pages(group, leaf)?;
            let descriptor = self.opened.metadata.row_group(group).column(leaf).column_descr_ptr();
            let (has_levels, repeats) = (descriptor.max_def_level() > 0, descriptor.max_rep_level() > 0);
            let mut reader = ColumnReaderImpl::<T>::new(descriptor.clone(), through(pages, descriptor));
            let rows = ranges.iter().map(Range::len).sum();
            let (mut values, mut repeated) = (Vec::with_capacity(rows), Vec::new());
            let mut defined = Vec::with_capacity(if has_levels { rows } else { 0 });
            let mut at = 0;
            for range in ranges {
                let skip = range.start - at;
                if skip > 0 && reader.skip_records(skip)? != skip {
                    return Err(ParquetError::EOF("there are fewer rows than it claims".into()));
                }
                let defined = has_levels.then_some(&mut defined);
                let repeated = repeats.then_some(&mut repeated);
                let (records, _, _) = reader.read_records(range.len(), defined, repeated, &mut values)?;
                if records != range.len() {
                    return Err(ParquetError::EOF("there are fewer rows than it claims".into()));
                }
                at = range.end;
            }
            Ok((values, defined, repeated))
        })
    }

    pub(super) fn wrong(&self, group: usize, leaf: usize, what: &str) -> StoreError {
        damaged(&self.opened.path, &format!("row group {group}, column {leaf}"), what.into())
    }

    /// A required INT32 column.
    pub(crate) fn small_numbers(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
    ) -> Result<Vec<i32>, StoreError> {
        let statistics = self.opened.metadata.row_group(group).column(leaf).statistics();
        if self.trusts_statistics
            && let Some(Statistics::Int32(of)) = statistics
            && let (Some(least), Some(most)) = (of.min_opt(), of.max_opt())
            && least == most
        {
            return Ok(vec![*least; ranges.iter().map(Range::len).sum()]);
        }
        Ok(self.read::<Int32Type>(group, leaf, ranges)?.0)
    }

    /// The times of some rows.
    pub(crate) fn times_of(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<Ticks>, StoreError> {
        let (micros, _, _) = self.read::<Int64Type>(group, TIME, ranges)?;
        let ticks = self.small_numbers(group, TICKS, ranges)?;
        let time = |(micros, ticks): (i64, i32)| {
            let above = i64::from(ticks);
            if !(0..10).contains(&above) {
                return None;
            }
            Ticks::new(micros.checked_mul(10)?.checked_add(UNIX_EPOCH_TICKS)?.checked_add(above)?)
        };
        let times = interned::all_of(micros.into_iter().zip(ticks).map(time));
        times.ok_or_else(|| self.wrong(group, TIME, "a time is invalid"))
    }

    /// The part of a run whose rows may lie between two times, judged by the least and greatest time of each page. The rows
    /// of a run are sorted, newest first.
    pub(crate) fn rows_between(&self, run: &PartitionRun, from: Ticks, to: Ticks) -> Range<usize> {
        let index = self.opened.metadata.page_index_for_row_group(run.group);
        let (Some(ColumnIndexMetaData::INT64(times)), Some(pages), true) =
            (index.column_index(TIME), index.page_locations(TIME), self.trusts_statistics)
        else {
            return run.rows.clone();
        };
        let micros = |time: Ticks| (time.get() - UNIX_EPOCH_TICKS).div_euclid(10);
        let start_of = |page: &PageLocation| usize::try_from(page.first_row_index).unwrap_or(usize::MAX);
        let rows_of = |page: usize| {
            let end = pages.get(page + 1).map_or(self.opened.index.groups[run.group], start_of);
            pages.get(page).map_or(end, start_of)..end
        };
        // A page at an end of the run has times of other runs, too.
        let is_whole = |page: &usize| {
            let rows = rows_of(*page);
            *page < pages.len() && run.rows.start <= rows.start && rows.end <= run.rows.end
        };
        let oldest_of = |page: usize| times.min_value(page).copied();
        let newest_of = |page: usize| times.max_value(page).copied();
        let mut found: Option<Range<usize>> = None;
        for page in 0..pages.len() {
            let rows = rows_of(page);
            let rows = rows.start.max(run.rows.start)..rows.end.min(run.rows.end);
            if rows.is_empty() {
                continue;
            }
            let before = page.checked_sub(1).filter(is_whole).and_then(oldest_of);
            let after = Some(page + 1).filter(is_whole).and_then(newest_of);
            let newest = newest_of(page).unwrap_or(i64::MAX).min(before.unwrap_or(i64::MAX));
            let oldest = oldest_of(page).unwrap_or(i64::MIN).max(after.unwrap_or(i64::MIN));
            if oldest <= micros(to) && micros(from) <= newest {
                found = Some(found.map_or(rows.start, |found| found.start)..rows.end);
            }
        }
        found.unwrap_or(run.rows.start..run.rows.start)
    }

    fn sources(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<SourceId>, StoreError> {
        let parse = |text: &[u8]| std::str::from_utf8(text).ok().and_then(SourceId::parse);
        let statistics = self.opened.metadata.row_group(group).column(SOURCE).statistics();
        if self.trusts_statistics
            && let Some(of @ Statistics::ByteArray(_)) = statistics
            && let (Some(least), Some(most)) = (of.min_bytes_opt(), of.max_bytes_opt())
            && least == most
            && let Some(source) = parse(least)
        {
            return Ok(vec![source; ranges.iter().map(Range::len).sum()]);
        }
        let (texts, _, _) = self.texts(group, SOURCE, ranges)?;
        texts.read(parse).ok_or_else(|| self.wrong(group, SOURCE, "a source is invalid"))
    }

    /// The keys of some rows.
    pub(crate) fn keys_of(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<RowKey>, StoreError> {
        let times = self.times_of(group, ranges)?;
        let sources = self.sources(group, ranges)?;
        let (positions, _, _) = self.read::<Int64Type>(group, POSITION, ranges)?;
        let items = self.small_numbers(group, ITEM, ranges)?;
        let mut keys = Vec::with_capacity(times.len());
        for (((time, source), position), item) in times.into_iter().zip(sources).zip(positions).zip(items) {
            let position =
                u64::try_from(position).ok().filter(|position| *position <= daytable_model::key::POSITION_MAX);
            let (Some(position), Ok(item)) = (position, u16::try_from(item)) else {
                return Err(self.wrong(group, POSITION, "a position is invalid"));
            };
            keys.push(RowKey::new(time, source, position).with_item(item));
        }
        Ok(keys)
    }

    /// The levels of some rows, as codes.
    pub(crate) fn levels_of(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<u8>, StoreError> {
        let (names, defined, _) = self.texts(group, LEVEL, ranges)?;
        let code = |name: &[u8]| {
            let level = Level::ALL.into_iter().find(|level| level.name().as_bytes() == name);
            level.map(Level::code)
        };
        let wrong = || self.wrong(group, LEVEL, "a level is invalid");
        let mut codes = names.read(code).ok_or_else(wrong)?.into_iter();
        let level = |has_one| if has_one == 0 { Some(0) } else { codes.next() };
        interned::all_of(defined.into_iter().map(level)).ok_or_else(wrong)
    }

    /// Checks that the rows of a group belong to the partitions that the index states.
    pub(crate) fn check_partitions(&self, group: usize) -> Result<(), StoreError> {
        let all = 0..self.opened.index.groups[group];
        let (names, _, _) = self.texts(group, PARTITION, &[all])?;
        let mut numbers = names.numbers();
        for run in self.runs_in(group) {
            let mut last = None;
            let mut is_its = |number: usize| {
                let is_its = last == Some(number) || names.text(number) == Some(run.partition.as_bytes());
                last = Some(number);
                is_its
            };
            // The runs of a group are adjacent.
            let mut of_run = numbers.by_ref().take(run.rows.len());
            if of_run.len() != run.rows.len() || !of_run.all(&mut is_its) {
                return Err(self.wrong(group, PARTITION, "the partition of a row differs from the index"));
            }
        }
        Ok(())
    }

    /// Some rows of a group in their order; `ranges` are sorted and disjoint.
    pub(crate) fn block(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        wanted: ColumnSet,
    ) -> Result<RowBlock, StoreError> {
        let keys = self.keys_of(group, ranges)?;
        let levels = if wanted == ColumnSet::Keys { vec![0; keys.len()] } else { self.levels_of(group, ranges)? };
        let mut columns = Vec::new();
        if wanted == ColumnSet::All {
            for number in 0..self.columns().len() {
                columns.extend(self.column_of(group, number, ranges)?);
            }
            columns.extend(self.rest(group, ranges)?);
            let records = RowSet::of(keys.len(), |row| keys[row].item() == 0);
            self.add_host(&mut columns, keys.len(), &records);
        }
        Ok(RowBlock::new(keys, levels, columns))
    }

    /// The values of some rows of a property's column, its levels, and the value of each row if rows share values.
    #[allow(clippy::type_complexity)]
    pub(crate) fn values(
        &self,
        group: usize,
        leaf: usize,
        kind: PropertyKind,
        ranges: &[Range<usize>],
    ) -> Result<(BlockValues, Vec<i16>, Option<Vec<u32>>), StoreError> {
        let mut stored = BlockValues::new(kind);
        let wrong = || self.wrong(group, leaf, "a value is not of its type");
        let (fits, levels) = match kind {
            PropertyKind::String | PropertyKind::Binary => {
                let (texts, levels, _) = self.texts(group, leaf, ranges)?;
                // A shared text is kept once, and an unused entry of the dictionary is not kept.
                let (mut all, mut ends) = (Vec::new(), Vec::new());
                let number = |text: &[u8]| {
                    all.extend_from_slice(text);
                    ends.push(u32::try_from(all.len()).ok()?);
                    u32::try_from(ends.len() - 1).ok()
                };
                let which = texts.read(number).ok_or_else(wrong)?;
                stored = match kind {
                    PropertyKind::String => BlockValues::strings(all, ends).ok_or_else(wrong)?,
                    _ => BlockValues::Binaries(all, ends),
                };
                let which = (which.len() != stored.len()).then_some(which);
                return Ok((stored, levels, which));
            }
            PropertyKind::Guid => {
                let (values, levels, _) = self.read::<FixedLenByteArrayType>(group, leaf, ranges)?;
                let push = |bytes: &[u8]| bytes.try_into().is_ok_and(|guid| stored.push(Property::Guid(guid)));
                (values.iter().map(|value| value.data()).all(push), levels)
            }
            PropertyKind::Int64 => {
                let (values, levels, _) = self.read::<Int64Type>(group, leaf, ranges)?;
                stored = BlockValues::Ints(values);
                (true, levels)
            }
            PropertyKind::DateTime => {
                let (values, levels, _) = self.read::<Int64Type>(group, leaf, ranges)?;
                let ticks = |micros: &i64| Ticks::new(micros.checked_mul(10)?.checked_add(UNIX_EPOCH_TICKS)?);
                let push = |micros| ticks(micros).is_some_and(|time| stored.push(Property::DateTime(time)));
                (values.iter().all(push), levels)
            }
            PropertyKind::Int32 => {
                let (values, levels, _) = self.read::<Int32Type>(group, leaf, ranges)?;
                stored = BlockValues::Ints(values.into_iter().map(i64::from).collect());
                (true, levels)
            }
            PropertyKind::Boolean => {
                let (values, levels, _) = self.read::<BoolType>(group, leaf, ranges)?;
                stored = BlockValues::Ints(values.into_iter().map(i64::from).collect());
                (true, levels)
            }
            PropertyKind::Double => {
                let (values, levels, _) = self.read::<DoubleType>(group, leaf, ranges)?;
                stored = BlockValues::Doubles(values);
                (true, levels)
            }
        };
        if fits { Ok((stored, levels, None)) } else { Err(wrong()) }
    }

    /// The column of a property, by its number; `None` if no row has a value.
    pub(crate) fn column_of(
        &self,
        group: usize,
        number: usize,
        ranges: &[Range<usize>],
    ) -> Result<Option<BlockColumn>, StoreError> {
        let (leaf, Some(column)) = (PROPERTIES + number, self.columns().get(number)) else { return Ok(None) };
        if self.is_absent(group, leaf) {
            return Ok(None);
        }
        let (stored, levels, which) = self.values(group, leaf, column.kind, ranges)?;
        let (name, stored) = (column.property.as_str().into(), self.values_beside_host(&column.property, stored));
        Ok(levels.contains(&1).then(|| BlockColumn::new(name, column.kind, Some(&levels), which, stored)))
    }

    /// The item number of some rows.
    pub(crate) fn items_of(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<i32>, StoreError> {
        self.small_numbers(group, ITEM, ranges)
    }

    /// Whether every row of a group surely is a record.
    pub(crate) fn has_no_items(&self, group: usize) -> bool {
        let statistics = self.opened.metadata.row_group(group).column(ITEM).statistics();
        let most = |of: &Statistics| if let Statistics::Int32(of) = of { of.max_opt().copied() } else { None };
        self.trusts_statistics && statistics.and_then(most) == Some(0)
    }

    /// The properties without a column in the file, as columns.
    pub(crate) fn rest(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<BlockColumn>, StoreError> {
        let keys = self.rest_keys(group, ranges)?;
        let all: Vec<usize> = (0..keys.names.len()).collect();
        self.rest_columns(group, ranges, &keys, &all)
    }

    /// Which properties without a column in the file some rows have.
    pub(crate) fn rest_keys(&self, group: usize, ranges: &[Range<usize>]) -> Result<RestKeys, StoreError> {
        let leaf = self.opened.layout.rest();
        let rows: usize = ranges.iter().map(Range::len).sum();
        if self.is_absent(group, leaf) {
            return Ok(RestKeys::default());
        }
        let (keys, defined, repeated) = self.texts(group, leaf, ranges)?;
        let mut names = RestNames::default();
        let numbers = keys.read(|key| names.number(std::str::from_utf8(key).ok()?));
        let wrong = || self.wrong(group, leaf, INVALID_ENTRY);
        let (mut numbers, mut entries, mut next) = (numbers.ok_or_else(wrong)?.into_iter(), Vec::new(), 0);
        for (defined, repeated) in defined.into_iter().zip(repeated) {
            next += usize::from(repeated == 0);
            if defined < REST_DEFINED {
                continue;
            }
            let row = next.checked_sub(1).filter(|row| *row < rows).and_then(|row| u32::try_from(row).ok());
            let (row, name) = row.zip(numbers.next()).ok_or_else(wrong)?;
            entries.push(RestEntry { row, name });
        }
        Ok(self.rest_beside_host(RestKeys { names: names.names, entries }))
    }

    /// The columns of some of these properties, by their numbers, which ascend. Reads the pages of their values alone.
    pub(crate) fn rest_columns(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        keys: &RestKeys,
        wanted: &[usize],
    ) -> Result<Vec<BlockColumn>, StoreError> {
        let leaf = self.opened.layout.rest() + 1;
        let wrong = || self.wrong(group, leaf, INVALID_ENTRY);
        let mut columns: Vec<Option<RestColumn>> = keys.names.iter().map(|_| None).collect();
        for number in wanted {
            columns[*number] = Some(RestColumn::new(keys.names[*number].1));
        }
        let is_wanted = |entry: &&RestEntry| columns[entry.name as usize].is_some();
        let mut with_value: Vec<usize> =
            keys.entries.iter().filter(is_wanted).map(|entry| entry.row as usize).collect();
        with_value.dedup();
        if !with_value.is_empty() {
            let (texts, _, _) = self.texts(group, leaf, &rows_of(ranges, with_value.iter().copied()))?;
            let mut texts = texts.iter();
            let (mut rows, mut last) = (with_value.iter().peekable(), None);
            for entry in &keys.entries {
                let row = entry.row as usize;
                if rows.next_if(|next| **next == row).is_some() {
                    last = Some(row);
                }
                if last != Some(row) {
                    continue;
                }
                // All entries of a row are read.
                let text = texts.next().flatten().ok_or_else(wrong)?;
                let Some(column) = &mut columns[entry.name as usize] else { continue };
                let text = std::str::from_utf8(text).ok();
                if !text.is_some_and(|text| column.push(entry.row, text)) {
                    return Err(wrong());
                }
            }
            if texts.next().is_some() {
                return Err(wrong());
            }
        }
        let rows = ranges.iter().map(Range::len).sum();
        let column = |number: &usize| {
            let (name, column) = (&keys.names[*number].0, columns[*number].take()?);
            Some(column.finish(name.clone(), rows, |values| self.values_beside_host(name, values)))
        };
        Ok(wanted.iter().filter_map(column).collect())
    }
}

const INVALID_ENTRY: &str = "an entry of the map is invalid";

/// The properties without a column in the file that some rows have.
#[derive(Default)]
pub(crate) struct RestKeys {
    pub(crate) names: Vec<(Arc<str>, PropertyKind)>,
    /// In the order of the rows.
    entries: Vec<RestEntry>,
}

/// An entry of the map: its row among those that were read, and the number of its name.
struct RestEntry {
    row: u32,
    name: u32,
}

/// The ranges of some rows that ascend, by their numbers among the rows of `ranges`.
pub(crate) fn rows_of(ranges: &[Range<usize>], rows: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let (mut found, mut of, mut before): (Vec<Range<usize>>, _, _) = (Vec::new(), ranges.iter().peekable(), 0);
    for row in rows {
        while let Some(range) = of.next_if(|range| before + range.len() <= row) {
            before += range.len();
        }
        let Some(range) = of.peek() else { break };
        let place = range.start + row - before;
        match found.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ => found.push(place..place + 1),
        }
    }
    found
}
