//! A row group: slices of parts, written column by column.
//!
//! A group is encoded in memory, so that several threads encode groups at once; [`EncodedGroup::append`] then writes them
//! in their order. Values are hashed while they are read from the parts, so the checksum covers the input, not the encoded
//! output.

use super::bloom::RowGroupWords;
use super::counted_parts::PartCounter;
use super::frames::FramedPages;
use super::layout::{ColumnLayout, REST_DEFINED, ZSTD_LEVEL};
use super::mapped::{MappedRows, RowSlice};
use super::sum;
use super::text;
use super::writer::ChecksumWriter;
use super::{GROUP_BYTES, SealedSizes};
use ::bytes::Bytes;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::time::UNIX_EPOCH_TICKS;
use parquet::basic::Type as Physical;
use parquet::column::page::PageWriter;
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::SchemaDescPtr;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Rows and entries of the map of further properties that are written at once, about.
const MAP_LEVELS: usize = 1 << 13;

/// The rows of the next group.
pub(super) struct RowGroup {
    pub(super) slices: Vec<RowSlice>,
    pub(super) rows: usize,
    bytes: usize,
    sizes: SealedSizes,
}

/// A row group as bytes of a file.
pub(super) struct EncodedGroup {
    pub(super) rows: usize,
    /// The hash of each entity.
    pub(super) entities: Vec<u64>,
    /// Number of values.
    pub(super) values: u64,
    pub(super) words: RowGroupWords,
    /// Its value counts.
    pub(super) counts: Vec<u8>,
    bytes: Bytes,
    columns: Vec<ColumnCloseResult>,
}

/// What all groups of a file have in common.
#[derive(Clone)]
pub(super) struct GroupFormat {
    pub(super) schema: SchemaDescPtr,
    pub(super) properties: WriterPropertiesPtr,
}

/// Encodes the columns of a group.
struct GroupEncoder {
    format: GroupFormat,
    out: TrackedWrite<Vec<u8>>,
    columns: Vec<ColumnCloseResult>,
}

impl GroupEncoder {
    /// Writes the next column.
    fn next(&mut self, write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<()>) -> Result<()> {
        let GroupFormat { schema, properties } = &self.format;
        let column = schema.columns().get(self.columns.len()).ok_or_else(unlike)?.clone();
        let is_of_texts = column.physical_type() == Physical::BYTE_ARRAY;
        let pages = SerializedPageWriter::new(&mut self.out);
        let pages: Box<dyn PageWriter> =
            if is_of_texts { Box::new(FramedPages::new(pages, ZSTD_LEVEL)) } else { Box::new(pages) };
        let mut writer = get_column_writer(column, properties.clone(), pages);
        write(&mut writer)?;
        self.columns.push(writer.close()?);
        Ok(())
    }
}

impl EncodedGroup {
    /// Writes the group to the file.
    pub(super) fn append(&mut self, out: &mut SerializedFileWriter<ChecksumWriter>) -> Result<()> {
        let mut group = out.next_row_group()?;
        for column in std::mem::take(&mut self.columns) {
            group.append_column(&self.bytes, column)?;
        }
        group.close().map(drop)
    }
}

/// The buffered values of one column.
enum ValueBuffer {
    /// The concatenated texts or bytes, and the end of each.
    Bytes(Vec<u8>, Vec<usize>),
    Int64(Vec<i64>),
    Int32(Vec<i32>),
    Double(Vec<f64>),
    Boolean(Vec<bool>),
    Guid(Vec<[u8; 16]>),
}

impl RowGroup {
    /// An empty group.
    pub(super) fn new(sizes: SealedSizes) -> RowGroup {
        RowGroup { slices: Vec::new(), rows: 0, bytes: 0, sizes }
    }

    /// Adds as much of `slice` as fits, and returns the rest; `None` if everything fits.
    pub(super) fn fill(&mut self, slice: RowSlice) -> Option<RowSlice> {
        let RowSlice { partition, mapped, rows } = slice;
        let by_bytes = GROUP_BYTES.saturating_sub(self.bytes) / mapped.row_bytes;
        let least = usize::from(self.rows == 0);
        let room = (self.sizes.group_rows - self.rows).min(by_bytes).max(least).min(rows.len());
        let cut = rows.start + room;
        if room > 0 {
            self.rows += room;
            self.bytes += room * mapped.row_bytes;
            let (partition, mapped) = (partition.clone(), mapped.clone());
            self.slices.push(RowSlice { partition, mapped, rows: rows.start..cut });
        }
        (cut < rows.end).then_some(RowSlice { partition, mapped, rows: cut..rows.end })
    }

    fn each_key(&self) -> impl Iterator<Item = RowKey> {
        self.slices.iter().flat_map(|slice| slice.mapped.part.keys()[slice.rows.clone()].iter().copied())
    }

    /// Adjacent rows of a part that are adjacent in the group, too: of one partition or more.
    fn stretches(&self) -> Vec<(&Arc<MappedRows>, Range<usize>)> {
        let mut all: Vec<(&Arc<MappedRows>, Range<usize>)> = Vec::new();
        for RowSlice { mapped, rows, .. } in &self.slices {
            match all.last_mut() {
                Some((last, before)) if Arc::ptr_eq(last, mapped) && before.end == rows.start => before.end = rows.end,
                _ => all.push((mapped, rows.clone())),
            }
        }
        all
    }

    /// Whether a row may have the property.
    pub(super) fn may_have(&self, property: &str) -> bool {
        self.stretches().iter().any(|(mapped, _)| mapped.part.has(property))
    }

    /// Encodes the group.
    pub(super) fn encode(&self, format: &GroupFormat, layout: &ColumnLayout) -> Result<EncodedGroup> {
        let (format, out) = (format.clone(), TrackedWrite::new(Vec::new()));
        let mut group = GroupEncoder { format, out, columns: Vec::new() };
        let mut words = RowGroupWords::new(self.sizes.group_rows, layout.columns.len());
        let stretches = self.stretches();
        // Rows of a property that are buffered before they are written.
        let buffer_rows = self.sizes.page_rows;
        let mut values = 0;
        let mut counter = PartCounter::new(&self.slices);
        self.write_fixed(&mut group)?;
        let mut sums = vec![0u64; self.rows];
        let mut rest = RestEntries::default();
        for (number, column) in layout.columns.iter().enumerate() {
            let property = sum::of_property(&column.property, column.kind);
            let mut gathered = ColumnRows::new(column.kind, buffer_rows);
            let mut counted = counter.column(&column.property, column.kind);
            group.next(|writer| {
                let (mut start, mut written) = (0, Ok(()));
                for (mapped, rows) in &stretches {
                    let Some(place) = mapped.place(number) else {
                        start += rows.len();
                        continue;
                    };
                    mapped.part.each_between(place, rows.clone(), |row, value| {
                        let at = start + row - rows.start;
                        let hash = sum::of_value(property, value);
                        sums[at] = sums[at].wrapping_add(hash);
                        words.add(number, &column.property, value, hash);
                        counted.add(at, value, hash);
                        let is_taken = match &written {
                            Ok(()) => gathered.push(at, value, writer),
                            Err(_) => return,
                        };
                        match is_taken {
                            Ok(true) => values += 1,
                            Ok(false) => rest.push(at, &column.property, value),
                            Err(error) => written = Err(error),
                        }
                    });
                    start += rows.len();
                }
                written?;
                gathered.finish(self.rows, writer)
            })?;
            counted.finish();
        }
        gather_rest(&stretches, &mut rest, &mut sums, &mut counter, (&mut words, layout.columns.len()));
        values += rest.entries.len();
        rest.write(self.rows, &mut group)?;
        let GroupEncoder { out, columns, .. } = group;
        let (rows, values, bytes) = (self.rows, values as u64, out.into_inner()?.into());
        let (entities, counts) = (self.entities(&sums), counter.finish());
        Ok(EncodedGroup { rows, entities, values, words, counts, bytes, columns })
    }

    fn write_fixed(&self, group: &mut GroupEncoder) -> Result<()> {
        let above_epoch = |key: &RowKey| key.time().get() - UNIX_EPOCH_TICKS;
        group.next(|writer| {
            let ColumnWriter::ByteArrayColumnWriter(writer) = writer else { return Err(unlike()) };
            for slices in self.slices.chunk_by(|a, b| a.partition == b.partition) {
                let mut left: usize = slices.iter().map(|slice| slice.rows.len()).sum();
                let name = ByteArray::from(Bytes::copy_from_slice(slices[0].partition.as_bytes()));
                let names = vec![name; left.min(self.sizes.page_rows)];
                while left > 0 {
                    let some = left.min(names.len());
                    writer.write_batch(&names[..some], None, None)?;
                    left -= some;
                }
            }
            Ok(())
        })?;
        let micros = self.each_key().map(|key| above_epoch(&key).div_euclid(10)).collect();
        group.next(|writer| ValueBuffer::Int64(micros).write(writer, None))?;
        // 0 to 9.
        let ticks = self.each_key().map(|key| above_epoch(&key).rem_euclid(10) as i32).collect();
        group.next(|writer| ValueBuffer::Int32(ticks).write(writer, None))?;
        group.next(|writer| {
            let ColumnWriter::ByteArrayColumnWriter(writer) = writer else { return Err(unlike()) };
            let (mut sources, mut last) = (Vec::with_capacity(self.rows), None);
            for key in self.each_key() {
                let text = match last.take() {
                    Some((source, text)) if source == key.source() => text,
                    _ => ByteArray::from(key.source().to_string().into_bytes()),
                };
                sources.push(text.clone());
                last = Some((key.source(), text));
            }
            writer.write_batch(&sources, None, None).map(drop)
        })?;
        // 48 bits.
        let positions = self.each_key().map(|key| key.position().cast_signed()).collect();
        group.next(|writer| ValueBuffer::Int64(positions).write(writer, None))?;
        let items = self.each_key().map(|key| i32::from(key.item())).collect();
        group.next(|writer| ValueBuffer::Int32(items).write(writer, None))?;
        group.next(|writer| {
            let ColumnWriter::ByteArrayColumnWriter(writer) = writer else { return Err(unlike()) };
            let (mut names, mut levels) = (Vec::with_capacity(self.rows), Vec::with_capacity(self.rows));
            for RowSlice { mapped, rows, .. } in &self.slices {
                for level in rows.clone().map(|row| mapped.part.level(row)) {
                    levels.push(i16::from(level.is_some()));
                    names.extend(level.map(|level| ByteArray::from(Bytes::from_static(level.name().as_bytes()))));
                }
            }
            writer.write_batch(&names, Some(&levels), None).map(drop)
        })
    }

    /// The hash of each entity, from the sums of their values.
    fn entities(&self, sums: &[u64]) -> Vec<u64> {
        let (mut sums, mut entities) = (sums.iter(), Vec::with_capacity(self.rows));
        for RowSlice { partition, mapped, rows } in &self.slices {
            let partition = sum::of_partition(partition);
            for (row, values) in rows.clone().zip(&mut sums) {
                entities.push(sum::entity(partition, &mapped.part.keys()[row], mapped.part.level(row), *values));
            }
        }
        entities
    }
}

/// Adds the properties without a column of their own.
fn gather_rest(
    stretches: &[(&Arc<MappedRows>, Range<usize>)],
    rest: &mut RestEntries,
    sums: &mut [u64],
    counter: &mut PartCounter,
    (words, of_rest): (&mut RowGroupWords, usize),
) {
    let mut start = 0;
    for (mapped, rows) in stretches {
        for column in &mapped.rest {
            let (name, kind) = mapped.part.name(*column);
            let property = sum::of_property(name, kind);
            mapped.part.each_between(*column, rows.clone(), |row, value| {
                let at = start + row - rows.start;
                let hash = sum::of_value(property, value);
                sums[at] = sums[at].wrapping_add(hash);
                words.add(of_rest, name, value, hash);
                counter.add_rest(at, name, value);
                rest.push(at, name, value);
            });
        }
        start += rows.len();
    }
}

/// A column of the group that is being written. Rows without a value are passed over.
struct ColumnRows {
    values: ValueBuffer,
    /// Of each row that is buffered, whether it has a value.
    levels: Vec<i16>,
    /// Rows that are buffered before they are written.
    buffer_rows: usize,
    /// Rows that were written.
    written: usize,
}

impl ColumnRows {
    fn new(kind: PropertyKind, buffer_rows: usize) -> ColumnRows {
        ColumnRows { values: ValueBuffer::new(kind), levels: Vec::with_capacity(buffer_rows), buffer_rows, written: 0 }
    }

    /// Adds the value of a row behind those before; false if the column cannot hold it exactly.
    #[inline]
    fn push(&mut self, row: usize, value: Property<'_>, writer: &mut ColumnWriter<'_>) -> Result<bool> {
        self.pass(row, writer)?;
        let is_taken = self.values.push(value);
        self.levels.push(i16::from(is_taken));
        self.write_full(writer)?;
        Ok(is_taken)
    }

    /// Adds rows without a value, up to `end`.
    #[inline]
    fn pass(&mut self, end: usize, writer: &mut ColumnWriter<'_>) -> Result<()> {
        while self.written + self.levels.len() < end {
            let some = (end - self.written).min(self.buffer_rows);
            self.levels.resize(some, 0);
            self.write_full(writer)?;
        }
        Ok(())
    }

    #[inline]
    fn write_full(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        if self.levels.len() == self.buffer_rows { self.write(writer) } else { Ok(()) }
    }

    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        self.written += self.levels.len();
        let written = self.values.write(writer, Some(&self.levels));
        self.levels.clear();
        written
    }

    /// Writes what is left of a column of this many rows.
    fn finish(mut self, rows: usize, writer: &mut ColumnWriter<'_>) -> Result<()> {
        self.pass(rows, writer)?;
        self.write(writer)
    }
}

/// The properties of a group without a column of their own: what the map of further properties has. A value takes the bytes
/// of its text and of an entry, whatever the names.
#[derive(Default)]
struct RestEntries {
    keys: Vec<ByteArray>,
    numbers: HashMap<String, u32, foldhash::quality::RandomState>,
    /// The last property, and the number of its key.
    last: Option<(String, PropertyKind, u32)>,
    entries: Vec<RestEntry>,
    /// The values, one after the other.
    text: String,
}

/// A value of a row.
#[derive(Clone, Copy)]
struct RestEntry {
    row: u32,
    key: u32,
    start: usize,
    end: usize,
}

impl RestEntries {
    fn push(&mut self, row: usize, name: &str, value: Property<'_>) {
        let key = match &self.last {
            Some((last, kind, key)) if last == name && *kind == value.kind() => *key,
            _ => {
                let text = text::key(name, value.kind());
                // A group has fewer values, and fewer rows, than 32 bits count.
                let next = self.keys.len() as u32;
                let key = *self.numbers.entry(text).or_insert_with_key(|text| {
                    self.keys.push(ByteArray::from(text.as_str()));
                    next
                });
                self.last = Some((name.to_owned(), value.kind(), key));
                key
            }
        };
        let start = self.text.len();
        text::write(value, &mut self.text);
        self.entries.push(RestEntry { row: row as u32, key, start, end: self.text.len() });
    }

    /// Writes the map of a group of this many rows.
    fn write(mut self, rows: usize, group: &mut GroupEncoder) -> Result<()> {
        self.entries.sort_unstable_by_key(|entry| (entry.row, entry.key, entry.start));
        let texts = |entries: &[RestEntry], of: &dyn Fn(&RestEntry) -> ByteArray| entries.iter().map(of).collect();
        let key = |entry: &RestEntry| self.keys[entry.key as usize].clone();
        let value = |entry: &RestEntry| ByteArray::from(&self.text[entry.start..entry.end]);
        let leaves: [&dyn Fn(&RestEntry) -> ByteArray; 2] = [&key, &value];
        for of in leaves {
            group.next(|writer| {
                let ColumnWriter::ByteArrayColumnWriter(writer) = writer else { return Err(unlike()) };
                each_part_of_map(rows, &self.entries, |entries, defined, repeated| {
                    let texts: Vec<ByteArray> = texts(entries, of);
                    writer.write_batch(&texts, Some(defined), Some(repeated)).map(drop)
                })
            })?;
        }
        Ok(())
    }
}

/// Passes the entries of adjacent rows with their definition and repetition levels.
fn each_part_of_map(
    rows: usize,
    entries: &[RestEntry],
    mut each: impl FnMut(&[RestEntry], &[i16], &[i16]) -> Result<()>,
) -> Result<()> {
    let (mut defined, mut repeated) = (Vec::new(), Vec::new());
    let mut left = entries.chunk_by(|a, b| a.row == b.row).peekable();
    let (mut row, mut start, mut end) = (0, 0, 0);
    while row < rows {
        match left.next_if(|of_row| of_row[0].row as usize == row) {
            Some(of_row) => {
                defined.resize(defined.len() + of_row.len(), REST_DEFINED);
                repeated.push(0);
                repeated.resize(repeated.len() + of_row.len() - 1, 1);
                end += of_row.len();
            }
            None => {
                defined.push(0);
                repeated.push(0);
            }
        }
        row += 1;
        if defined.len() >= MAP_LEVELS || row == rows {
            each(&entries[start..end], &defined, &repeated)?;
            (start, defined, repeated) = (end, Vec::new(), Vec::new());
        }
    }
    Ok(())
}

impl ValueBuffer {
    fn new(kind: PropertyKind) -> ValueBuffer {
        match kind {
            PropertyKind::String | PropertyKind::Binary => ValueBuffer::Bytes(Vec::new(), Vec::new()),
            PropertyKind::Int64 | PropertyKind::DateTime => ValueBuffer::Int64(Vec::new()),
            PropertyKind::Int32 => ValueBuffer::Int32(Vec::new()),
            PropertyKind::Double => ValueBuffer::Double(Vec::new()),
            PropertyKind::Boolean => ValueBuffer::Boolean(Vec::new()),
            PropertyKind::Guid => ValueBuffer::Guid(Vec::new()),
        }
    }

    /// Adds a value; false if the column cannot hold it exactly.
    #[inline]
    fn push(&mut self, value: Property<'_>) -> bool {
        let mut bytes = |added: &[u8]| {
            let ValueBuffer::Bytes(all, ends) = self else { return false };
            all.extend_from_slice(added);
            ends.push(all.len());
            true
        };
        match value {
            Property::String(text) => return bytes(text.as_bytes()),
            Property::Binary(binary) => return bytes(binary),
            _ => {}
        }
        match (self, value) {
            (ValueBuffer::Int64(all), Property::Int64(n)) => all.push(n),
            (ValueBuffer::Int64(all), Property::DateTime(time)) => {
                let ticks = time.get() - UNIX_EPOCH_TICKS;
                if ticks % 10 != 0 {
                    return false;
                }
                all.push(ticks / 10);
            }
            (ValueBuffer::Int32(all), Property::Int32(n)) => all.push(n),
            (ValueBuffer::Double(all), Property::Double(n)) => all.push(n),
            (ValueBuffer::Boolean(all), Property::Boolean(b)) => all.push(b),
            (ValueBuffer::Guid(all), Property::Guid(guid)) => all.push(guid),
            _ => return false,
        }
        true
    }

    /// Writes the buffered values and clears the buffer.
    fn write(&mut self, writer: &mut ColumnWriter<'_>, levels: Option<&[i16]>) -> Result<()> {
        match (&mut *self, writer) {
            (ValueBuffer::Bytes(all, ends), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let values = slices(std::mem::take(all), ends);
                writer.write_batch(&values, levels, None)
            }
            (ValueBuffer::Int64(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            (ValueBuffer::Int32(values), ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            (ValueBuffer::Double(values), ColumnWriter::DoubleColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            (ValueBuffer::Boolean(values), ColumnWriter::BoolColumnWriter(writer)) => {
                writer.write_batch(values, levels, None)
            }
            (ValueBuffer::Guid(values), ColumnWriter::FixedLenByteArrayColumnWriter(writer)) => {
                let ends: Vec<usize> = (1..=values.len()).map(|count| 16 * count).collect();
                let values = slices(std::mem::take(values).into_flattened(), &ends);
                let values: Vec<FixedLenByteArray> = values.into_iter().map(FixedLenByteArray::from).collect();
                writer.write_batch(&values, levels, None)
            }
            _ => Err(unlike()),
        }?;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        match self {
            ValueBuffer::Bytes(all, ends) => {
                all.clear();
                ends.clear();
            }
            ValueBuffer::Int64(all) => all.clear(),
            ValueBuffer::Int32(all) => all.clear(),
            ValueBuffer::Double(all) => all.clear(),
            ValueBuffer::Boolean(all) => all.clear(),
            ValueBuffer::Guid(all) => all.clear(),
        }
    }
}

/// Splits a buffer into texts without copying.
fn slices(all: Vec<u8>, ends: &[usize]) -> Vec<ByteArray> {
    let all = Bytes::from(all);
    let mut start = 0;
    let slice = |end: &usize| ByteArray::from(all.slice(std::mem::replace(&mut start, *end)..*end));
    ends.iter().map(slice).collect()
}

/// The columns disagree with [`ColumnLayout::schema`].
fn unlike() -> ParquetError {
    ParquetError::General("a column is not of the type that is written to it".into())
}
