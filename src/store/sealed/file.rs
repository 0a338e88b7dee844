//! A sealed file, opened: its footer and index in memory, its columns read as they are asked for.
//!
//! Opening reads the end of the file and verifies it; a row group's column is read page by page, and pages without
//! wanted rows are passed over. What the Parquet reader makes of bytes that it does not expect is an error here, also
//! where it panics: bytes are verified first, so that is for files that somebody made, not for damaged ones.

use super::FORMAT;
use super::block::{Block, Rest, Stored, Values};
use super::bytes::{Checked, Ranged};
use super::index::{Index, Run};
use super::layout::{self, Column, ITEM, LEVEL, Layout, PARTITION, POSITION, PROPERTIES, SOURCE, TICKS, TIME};
use crate::key::{DayTable, RowKey};
use crate::property::{Kind, Property};
use crate::record::Level;
use crate::store::StoreError;
use crate::time::{Ticks, UNIX_EPOCH_TICKS};
use ::bytes::Bytes;
use memchr::memmem::Finder;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use serde::{Deserialize, Serialize};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// The footer's key for [`Header`], and for the line that begins with [`TAIL`].
pub(super) const HEADER_KEY: &str = "daytable";
/// See [`HEADER_KEY`].
pub(super) const TAIL_KEY: &str = "daytable.tail";
/// What the line begins with that says where the tail begins and what its checksum is.
const TAIL: &str = "daytable-tail:";
/// Digits of the checksum in it.
const SUM_DIGITS: usize = 16;
const MAGIC: &[u8; 4] = b"PAR1";

/// What the footer says of the day.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: u32,
    pub(super) table: String,
    pub(super) generation: i64,
    pub(super) rows: u64,
    pub(super) records: u64,
    pub(super) content: String,
    pub(super) columns: Vec<Column>,
}

/// The line of the footer that says where the tail begins; its checksum is put in when all else is written.
pub(super) fn tail_line(sum: u64, data_end: u64, index_bytes: u64) -> String {
    format!("{TAIL}{sum:0SUM_DIGITS$x}:{data_end:020}:{index_bytes:020}")
}

/// Where the checksum's digits lie within a tail.
pub(super) fn sum_place(tail: &[u8]) -> Option<Range<usize>> {
    let start = memchr::memmem::rfind(tail, TAIL.as_bytes())? + TAIL.len();
    tail.get(start..start + SUM_DIGITS).map(|_| start..start + SUM_DIGITS)
}

/// The checksum of a tail, its own place counting as zeros.
pub(super) fn sum_of(tail: &[u8], place: Range<usize>) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&tail[..place.start]);
    sum.update(&[b'0'; SUM_DIGITS]);
    sum.update(&tail[place.end..]);
    sum.digest()
}

/// Which columns of a block are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Keys alone.
    Keys,
    /// Keys and levels.
    Levels,
    /// All.
    All,
}

/// A sealed file, opened to read. Cheap to clone.
#[derive(Clone)]
pub struct SealedFile {
    opened: Arc<Opened>,
    /// Whether the footer's statistics may stand for values: not while the file is compared with what it was made of.
    trusts_statistics: bool,
}

struct Opened {
    path: PathBuf,
    bytes: Arc<Checked>,
    metadata: ParquetMetaData,
    header: Header,
    table: DayTable,
    layout: Layout,
    index: Index,
}

impl std::fmt::Debug for SealedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SealedFile").field(&self.opened.path).finish()
    }
}

impl SealedFile {
    /// Opens what `source` holds. `path` is what it is called in errors.
    pub fn open(source: Arc<dyn Ranged>, path: &Path) -> Result<SealedFile, StoreError> {
        let (checked, index_bytes) = open_tail(source, path)?;
        let foreign = |what: &str| StoreError::Foreign(path.into(), what.into());
        let metadata = guard(path, "footer", || {
            ParquetMetaDataReader::new().with_offset_index_policy(PageIndexPolicy::Required).parse_and_finish(&checked)
        })?;
        let pairs = metadata.file_metadata().key_value_metadata();
        let header = pairs.into_iter().flatten().find(|pair| pair.key == HEADER_KEY);
        let header = header.and_then(|pair| pair.value.as_deref()).ok_or_else(|| foreign("it is not of daytable"))?;
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let unreadable = |error: serde_json::Error| foreign(&error.to_string());
        let Format { format } = serde_json::from_str(header).map_err(unreadable)?;
        if format > FORMAT {
            let (found, known) = (format.into(), FORMAT.into());
            return Err(StoreError::NewerFormat { path: path.into(), found, known });
        }
        let header: Header = serde_json::from_str(header).map_err(unreadable)?;
        let table = DayTable::parse(&header.table).map_err(|error| foreign(&error.to_string()))?;
        let layout = Layout::of(header.columns.clone());
        let schema = guard(path, "schema", || layout.schema())?;
        if metadata.file_metadata().schema_descr().root_schema() != &*schema {
            return Err(damaged(path, "schema", "it has other columns than it says".into()));
        }
        let index = Index::decode(checked.tail.get(..index_bytes).unwrap_or_default(), checked.data_end);
        let index = index.map_err(|error| damaged(path, "index", error.to_string()))?;
        let rows = |group: usize| usize::try_from(metadata.row_group(group).num_rows()).ok();
        let same = metadata.num_row_groups() == index.groups.len()
            && index.groups.iter().enumerate().all(|(group, count)| rows(group) == Some(*count))
            && index.groups.iter().sum::<usize>() as u64 == header.rows;
        if !same {
            return Err(damaged(path, "index", "it counts other rows than the footer".into()));
        }
        let bytes = Arc::new(Checked { sums: index.sums.clone(), ..checked });
        let opened = Opened { path: path.into(), bytes, metadata, header, table, layout, index };
        Ok(SealedFile { opened: Arc::new(opened), trusts_statistics: true })
    }

    /// Opens a file of this machine.
    pub fn open_local(path: &Path) -> Result<SealedFile, StoreError> {
        let file = super::LocalFile::open(path).map_err(StoreError::io(path))?;
        SealedFile::open(Arc::new(file), path)
    }

    /// The same file, read without believing what the footer says of values.
    pub(super) fn doubting(&self) -> SealedFile {
        SealedFile { opened: self.opened.clone(), trusts_statistics: false }
    }

    /// What it is called in errors.
    pub fn path(&self) -> &Path {
        &self.opened.path
    }

    /// The day-table whose entities it holds.
    pub fn table(&self) -> &DayTable {
        &self.opened.table
    }

    /// Which sealing of that day it is.
    pub fn generation(&self) -> i64 {
        self.opened.header.generation
    }

    /// Entities in it, items included.
    pub fn rows(&self) -> u64 {
        self.opened.header.rows
    }

    /// Records in it.
    pub fn records(&self) -> u64 {
        self.opened.header.records
    }

    /// The checksum of its content, as the manifest has it.
    pub fn content(&self) -> &str {
        &self.opened.header.content
    }

    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        parquet::file::reader::Length::len(&*self.opened.bytes)
    }

    /// The oldest and the newest time in it; none where it is empty.
    pub fn times(&self) -> Option<(Ticks, Ticks)> {
        let runs = self.runs();
        Some((runs.iter().map(|run| run.oldest).min()?, runs.iter().map(|run| run.newest).max()?))
    }

    pub(super) fn index(&self) -> &Index {
        &self.opened.index
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.opened.index.runs
    }

    /// The runs of one partition, newest first.
    pub(super) fn runs_of(&self, partition: &str) -> &[Run] {
        let runs = self.runs();
        let start = runs.partition_point(|run| &*run.partition < partition);
        let length = runs[start..].iter().take_while(|run| &*run.partition == partition).count();
        &runs[start..start + length]
    }

    /// The partitions of an instance: its own, and its buckets'.
    pub fn partitions_of(&self, instance: &str) -> Vec<String> {
        let filter = crate::query::Filter { instance: Some(instance.into()), ..Default::default() };
        let mut names: Vec<String> = Vec::new();
        for run in self.runs() {
            if filter.wants_partition(&run.partition) && names.last().is_none_or(|last| **last != *run.partition) {
                names.push(run.partition.to_string());
            }
        }
        names
    }

    /// The runs of one row group.
    pub(super) fn runs_in(&self, group: usize) -> &[Run] {
        let runs = self.runs();
        let start = runs.partition_point(|run| run.group < group);
        &runs[start..start + runs[start..].partition_point(|run| run.group == group)]
    }

    /// Bytes of a row of a group, on average: encoded, but not compressed.
    pub(super) fn row_bytes(&self, group: usize) -> usize {
        let bytes = usize::try_from(self.opened.metadata.row_group(group).total_byte_size()).unwrap_or(0);
        bytes / self.opened.index.groups[group].max(1) + 1
    }

    /// For each of some rows whether the text of any of its String properties may have the needle in it.
    pub(super) fn may_contain(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        needle: &Finder<'_>,
    ) -> Result<Vec<bool>, StoreError> {
        let rows = ranges.iter().map(Range::len).sum();
        let mut found = vec![false; rows];
        for (number, column) in self.opened.layout.columns.iter().enumerate() {
            let leaf = PROPERTIES + number;
            // A text may lie over two rows of a record, or be written otherwise in the JSON of `Fields`.
            let spread = matches!((&*column.property, column.kind), ("Items", Kind::Int32) | ("Fields", Kind::String));
            if column.kind != Kind::String && !spread || self.is_absent(group, leaf) {
                continue;
            }
            if spread {
                let levels = self.values(group, leaf, column.kind, ranges)?.1;
                found.iter_mut().zip(levels).for_each(|(found, level)| *found |= level > 0);
                continue;
            }
            let (texts, levels, _) = self.read::<ByteArrayType>(group, leaf, ranges)?;
            let mut texts = texts.iter();
            for (found, level) in found.iter_mut().zip(levels) {
                if level > 0
                    && let Some(text) = texts.next()
                {
                    *found = *found || needle.find(text.data()).is_some();
                }
            }
        }
        let rest = Block { keys: Vec::new(), levels: Vec::new(), columns: self.rest(group, ranges, rows)? };
        rest.mark_containing(needle, &mut found);
        Ok(found)
    }

    /// Whether a column surely has no value in a group.
    fn is_absent(&self, group: usize, leaf: usize) -> bool {
        let column = self.opened.metadata.row_group(group).column(leaf);
        let nulls = column.statistics().and_then(Statistics::null_count_opt);
        self.trusts_statistics && nulls.is_some_and(|nulls| Ok(nulls) == u64::try_from(column.num_values()))
    }

    /// The values of some rows of a column, its definition and its repetition levels where it has any.
    #[allow(clippy::type_complexity)]
    fn read<T: DataType>(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
    ) -> Result<(Vec<T::T>, Vec<i16>, Vec<i16>), StoreError> {
        let Opened { path, bytes, metadata, .. } = &*self.opened;
        let place = format!("row group {group}, column {leaf}");
        guard(path, &place, || {
            let row_group = metadata.row_group(group);
            let column = row_group.column(leaf);
            let rows = self.opened.index.groups[group];
            let pages = metadata.page_index_for_row_group(group).page_locations(leaf).cloned();
            let pages = SerializedPageReader::new(bytes.clone(), column, rows, pages)?;
            let descriptor = column.column_descr_ptr();
            let (has_levels, repeats) = (descriptor.max_def_level() > 0, descriptor.max_rep_level() > 0);
            let mut reader = ColumnReaderImpl::<T>::new(descriptor, Box::new(pages));
            let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
            let mut at = 0;
            for range in ranges {
                let skip = range.start - at;
                if skip > 0 && reader.skip_records(skip)? != skip {
                    return Err(ParquetError::EOF("there are fewer rows than it says".into()));
                }
                let defined = has_levels.then_some(&mut defined);
                let repeated = repeats.then_some(&mut repeated);
                let (records, _, _) = reader.read_records(range.len(), defined, repeated, &mut values)?;
                if records != range.len() {
                    return Err(ParquetError::EOF("there are fewer rows than it says".into()));
                }
                at = range.end;
            }
            Ok((values, defined, repeated))
        })
    }

    fn wrong(&self, group: usize, leaf: usize, what: &str) -> StoreError {
        damaged(&self.opened.path, &format!("row group {group}, column {leaf}"), what.into())
    }

    /// A required INT32 column.
    fn small_numbers(&self, group: usize, leaf: usize, ranges: &[Range<usize>]) -> Result<Vec<i32>, StoreError> {
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
    pub(super) fn times_of(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<Ticks>, StoreError> {
        let (micros, _, _) = self.read::<Int64Type>(group, TIME, ranges)?;
        let ticks = self.small_numbers(group, TICKS, ranges)?;
        let time = |(micros, ticks): (i64, i32)| {
            let above = i64::from(ticks);
            if !(0..10).contains(&above) {
                return None;
            }
            Ticks::new(micros.checked_mul(10)?.checked_add(UNIX_EPOCH_TICKS)?.checked_add(above)?)
        };
        let times: Option<Vec<Ticks>> = micros.into_iter().zip(ticks).map(time).collect();
        times.ok_or_else(|| self.wrong(group, TIME, "a time is none"))
    }

    fn sources(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<u64>, StoreError> {
        let parse = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 16)?;
            u64::from_str_radix(text, 16).ok()
        };
        let statistics = self.opened.metadata.row_group(group).column(SOURCE).statistics();
        if self.trusts_statistics
            && let Some(of @ Statistics::ByteArray(_)) = statistics
            && let (Some(least), Some(most)) = (of.min_bytes_opt(), of.max_bytes_opt())
            && least == most
            && let Some(source) = parse(least)
        {
            return Ok(vec![source; ranges.iter().map(Range::len).sum()]);
        }
        let (texts, _, _) = self.read::<ByteArrayType>(group, SOURCE, ranges)?;
        let mut sources = Vec::with_capacity(texts.len());
        let (mut last, mut known): (&[u8], u64) = (&[], 0);
        for text in &texts {
            if text.data() != last {
                known = parse(text.data()).ok_or_else(|| self.wrong(group, SOURCE, "a source is none"))?;
                last = text.data();
            }
            sources.push(known);
        }
        Ok(sources)
    }

    /// The keys of some rows.
    pub(super) fn keys_of(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<RowKey>, StoreError> {
        let times = self.times_of(group, ranges)?;
        let sources = self.sources(group, ranges)?;
        let (positions, _, _) = self.read::<Int64Type>(group, POSITION, ranges)?;
        let items = self.small_numbers(group, ITEM, ranges)?;
        let mut keys = Vec::with_capacity(times.len());
        for (((time, source), position), item) in times.into_iter().zip(sources).zip(positions).zip(items) {
            let position = u64::try_from(position).ok().filter(|position| *position <= crate::key::POSITION_MAX);
            let (Some(position), Ok(item)) = (position, u16::try_from(item)) else {
                return Err(self.wrong(group, POSITION, "a position is none"));
            };
            keys.push(RowKey::new(time, source, position).with_item(item));
        }
        Ok(keys)
    }

    /// The levels of some rows, as codes.
    fn levels_of(&self, group: usize, ranges: &[Range<usize>]) -> Result<Vec<u8>, StoreError> {
        let (names, defined, _) = self.read::<ByteArrayType>(group, LEVEL, ranges)?;
        let mut names = names.iter();
        let (mut last, mut known): (&[u8], u8) = (&[], 0);
        let mut levels = Vec::with_capacity(defined.len());
        for has_one in defined {
            if has_one == 0 {
                levels.push(0);
                continue;
            }
            let name = names.next().map(|name| name.data()).unwrap_or_default();
            if name != last {
                let level = Level::ALL.into_iter().find(|level| level.name().as_bytes() == name);
                known = level.ok_or_else(|| self.wrong(group, LEVEL, "a level is none"))?.code();
                last = name;
            }
            levels.push(known);
        }
        Ok(levels)
    }

    /// An error unless the rows of a group belong to the partitions that the index says.
    pub(super) fn check_partitions(&self, group: usize) -> Result<(), StoreError> {
        let all = 0..self.opened.index.groups[group];
        let (names, _, _) = self.read::<ByteArrayType>(group, PARTITION, &[all])?;
        for run in self.runs_in(group) {
            let is_its = |name: &parquet::data_type::ByteArray| name.data() == run.partition.as_bytes();
            if !names.get(run.rows.clone()).is_some_and(|names| names.iter().all(is_its)) {
                return Err(self.wrong(group, PARTITION, "a row is of another partition than the index says"));
            }
        }
        Ok(())
    }

    /// Some rows of a group, in their order: `ranges` are in order and apart.
    pub(super) fn block(&self, group: usize, ranges: &[Range<usize>], wanted: Wanted) -> Result<Block, StoreError> {
        let keys = self.keys_of(group, ranges)?;
        let levels = if wanted == Wanted::Keys { vec![0; keys.len()] } else { self.levels_of(group, ranges)? };
        let mut columns = Vec::new();
        if wanted == Wanted::All {
            for (number, column) in self.opened.layout.columns.iter().enumerate() {
                let leaf = PROPERTIES + number;
                if self.is_absent(group, leaf) {
                    continue;
                }
                let (stored, levels) = self.values(group, leaf, column.kind, ranges)?;
                if levels.contains(&1) {
                    columns.push(Values::new(column.property.as_str().into(), column.kind, Some(&levels), stored));
                }
            }
            columns.extend(self.rest(group, ranges, keys.len())?);
        }
        Ok(Block { keys, levels, columns })
    }

    fn values(
        &self,
        group: usize,
        leaf: usize,
        kind: Kind,
        ranges: &[Range<usize>],
    ) -> Result<(Stored, Vec<i16>), StoreError> {
        let mut stored = Stored::new(kind);
        let wrong = || self.wrong(group, leaf, "a value is not of its type");
        let (fits, levels) = match kind {
            Kind::String => {
                let (values, levels, _) = self.read::<ByteArrayType>(group, leaf, ranges)?;
                let push =
                    |text: &[u8]| std::str::from_utf8(text).is_ok_and(|text| stored.push(Property::String(text)));
                (values.iter().map(|value| value.data()).all(push), levels)
            }
            Kind::Binary => {
                let (values, levels, _) = self.read::<ByteArrayType>(group, leaf, ranges)?;
                (values.iter().all(|value| stored.push(Property::Binary(value.data()))), levels)
            }
            Kind::Guid => {
                let (values, levels, _) = self.read::<FixedLenByteArrayType>(group, leaf, ranges)?;
                let push = |bytes: &[u8]| bytes.try_into().is_ok_and(|guid| stored.push(Property::Guid(guid)));
                (values.iter().map(|value| value.data()).all(push), levels)
            }
            Kind::Int64 => {
                let (values, levels, _) = self.read::<Int64Type>(group, leaf, ranges)?;
                stored = Stored::Ints(values);
                (true, levels)
            }
            Kind::DateTime => {
                let (values, levels, _) = self.read::<Int64Type>(group, leaf, ranges)?;
                let ticks = |micros: &i64| Ticks::new(micros.checked_mul(10)?.checked_add(UNIX_EPOCH_TICKS)?);
                let push = |micros| ticks(micros).is_some_and(|time| stored.push(Property::DateTime(time)));
                (values.iter().all(push), levels)
            }
            Kind::Int32 => {
                let (values, levels, _) = self.read::<Int32Type>(group, leaf, ranges)?;
                stored = Stored::Ints(values.into_iter().map(i64::from).collect());
                (true, levels)
            }
            Kind::Boolean => {
                let (values, levels, _) = self.read::<BoolType>(group, leaf, ranges)?;
                stored = Stored::Ints(values.into_iter().map(i64::from).collect());
                (true, levels)
            }
            Kind::Double => {
                let (values, levels, _) = self.read::<DoubleType>(group, leaf, ranges)?;
                stored = Stored::Doubles(values);
                (true, levels)
            }
        };
        if fits { Ok((stored, levels)) } else { Err(wrong()) }
    }

    /// The columns of properties that have none in the file.
    fn rest(&self, group: usize, ranges: &[Range<usize>], rows: usize) -> Result<Vec<Values>, StoreError> {
        let leaf = self.opened.layout.rest();
        if self.is_absent(group, leaf) {
            return Ok(Vec::new());
        }
        let (keys, defined, repeated) = self.read::<ByteArrayType>(group, leaf, ranges)?;
        let (values, _, _) = self.read::<ByteArrayType>(group, leaf + 1, ranges)?;
        let (mut rest, mut entries, mut next) = (Rest::default(), keys.iter().zip(&values), 0);
        for (defined, repeated) in defined.into_iter().zip(repeated) {
            next += usize::from(repeated == 0);
            if defined < layout::REST_DEFINED {
                continue;
            }
            let texts = entries.next().and_then(|(key, value)| {
                Some((std::str::from_utf8(key.data()).ok()?, std::str::from_utf8(value.data()).ok()?))
            });
            let row = next.checked_sub(1).filter(|row| *row < rows);
            let is_pushed = texts.zip(row).is_some_and(|((key, value), row)| rest.push(row, key, value));
            if !is_pushed {
                return Err(self.wrong(group, leaf, "an entry of the map is none"));
            }
        }
        Ok(rest.finish(rows).collect())
    }
}

/// The verified tail of a file, and how many bytes of it are the index.
fn open_tail(source: Arc<dyn Ranged>, path: &Path) -> Result<(Checked, usize), StoreError> {
    let io = |error: io::Error| StoreError::io(path)(error);
    let foreign = |what: &str| StoreError::Foreign(path.into(), what.into());
    let length = source.length().map_err(io)?;
    let footer = length.checked_sub(8).ok_or_else(|| foreign("it is too short to be Parquet"))?;
    let last = source.read(footer, 8).map_err(io)?;
    let (footer_length, magic) = last.split_at(4);
    let footer_length = footer_length.iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    let footer_start = footer.checked_sub(footer_length).filter(|_| magic == MAGIC);
    let footer_start = footer_start.ok_or_else(|| foreign("it does not end as Parquet does"))?;
    let read = |start: u64| {
        let length = usize::try_from(length - start).map_err(|_| io::ErrorKind::OutOfMemory.into());
        length.and_then(|length| source.read(start, length)).map_err(io)
    };
    let line = {
        let footer = read(footer_start)?;
        let place = sum_place(&footer).ok_or_else(|| foreign("it is Parquet, but not of daytable"))?;
        let line = footer.get(place.end..place.end + 42).unwrap_or_default();
        std::str::from_utf8(line).unwrap_or_default().to_owned()
    };
    let damaged = || damaged(path, "footer", "its checksum is not the one that was noted".into());
    let mut numbers = line.split(':').skip(1).map(str::parse::<u64>);
    let (Some(Ok(data_end)), Some(Ok(index_bytes))) = (numbers.next(), numbers.next()) else { return Err(damaged()) };
    if data_end > footer_start || index_bytes > footer_start - data_end {
        return Err(damaged());
    }
    let tail: Bytes = read(data_end)?;
    let place = sum_place(&tail).ok_or_else(damaged)?;
    if tail[place.clone()] != *format!("{:0SUM_DIGITS$x}", sum_of(&tail, place)).as_bytes() {
        return Err(damaged());
    }
    let index_bytes = usize::try_from(index_bytes).map_err(|_| damaged())?;
    Ok((Checked { source, data_end, tail, sums: Arc::new([]) }, index_bytes))
}

/// Runs the Parquet reader over bytes of `path`: an error where it fails, and where it panics.
fn guard<T>(path: &Path, place: &str, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(error))) => match error.downcast::<io::Error>() {
            Ok(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged(path, place, error.to_string())),
            Ok(error) => Err(StoreError::io(path)(*error)),
            Err(error) => Err(damaged(path, place, error.to_string())),
        },
        Ok(Err(error)) => Err(damaged(path, place, error.to_string())),
        Err(_) => Err(damaged(path, place, "its bytes are not what a reader of Parquet takes".into())),
    }
}

fn damaged(path: &Path, place: &str, what: String) -> StoreError {
    StoreError::SealedDamaged { path: path.into(), place: place.into(), what }
}
