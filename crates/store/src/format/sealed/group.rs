//! A row group: slices of parts, written column by column.
//!
//! Memory holds one page of one column at a time, beside the parts that contain the rows. Values are hashed while
//! they are read from the parts, so the checksum covers the input, not the encoded output.

use super::layout::{ColumnLayout, REST_DEFINED};
use super::merge::RowSlice;
use super::sieve::SieveBuilder;
use super::sum::{self, ContentChecksum};
use super::text;
use super::writer::ChecksumWriter;
use super::{GROUP_BYTES, SealedSizes};
use ::bytes::Bytes;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::time::UNIX_EPOCH_TICKS;
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use std::collections::BTreeMap;

/// The rows of the next group.
pub(super) struct RowGroup {
    pub(super) slices: Vec<RowSlice>,
    pub(super) rows: usize,
    bytes: usize,
    sizes: SealedSizes,
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

    /// Writes the group, and adds its entities to `content` and its words to `sieve`. Returns the number of values.
    pub(super) fn write(
        &self,
        out: &mut SerializedFileWriter<ChecksumWriter>,
        layout: &ColumnLayout,
        content: &mut ContentChecksum,
        sieve: &mut SieveBuilder,
    ) -> Result<u64> {
        let mut group = out.next_row_group()?;
        // Rows of a property that are buffered before they are written.
        let buffer_rows = self.sizes.page_rows;
        let mut values = 0;
        self.write_fixed(&mut group)?;
        let mut sums = vec![0u64; self.rows];
        let mut rest: BTreeMap<usize, Vec<(String, String)>> = BTreeMap::new();
        for (number, column) in layout.columns.iter().enumerate() {
            let property = sum::of_property(&column.property, column.kind);
            let (mut gathered, mut levels) = (ValueBuffer::new(column.kind), Vec::with_capacity(buffer_rows));
            let mut at = 0;
            next(&mut group, |writer| {
                for RowSlice { mapped, rows, .. } in &self.slices {
                    let (place, mut rows) = (mapped.place(number), rows.clone());
                    while !rows.is_empty() {
                        let some = rows.start..rows.end.min(rows.start + buffer_rows - levels.len());
                        rows.start = some.end;
                        match place {
                            None => levels.resize(levels.len() + some.len(), 0),
                            Some(place) => {
                                for (at, row) in (at..).zip(some.clone()) {
                                    let Some(value) = mapped.part.value(place, row) else {
                                        levels.push(0);
                                        continue;
                                    };
                                    let hash = sum::of_value(property, value);
                                    sums[at] = sums[at].wrapping_add(hash);
                                    sieve.add(&column.property, value, hash);
                                    let is_taken = gathered.push(value);
                                    levels.push(i16::from(is_taken));
                                    values += usize::from(is_taken);
                                    if !is_taken {
                                        let entry = (text::key(&column.property, column.kind), text::of(value));
                                        rest.entry(at).or_default().push(entry);
                                    }
                                }
                            }
                        }
                        at += some.len();
                        if levels.len() == buffer_rows {
                            gathered.write(writer, Some(&levels))?;
                            levels.clear();
                        }
                    }
                }
                gathered.write(writer, Some(&levels))
            })?;
        }
        self.gather_rest(&mut rest, &mut sums, sieve);
        values += rest.values().map(Vec::len).sum::<usize>();
        write_rest(&mut group, self.rows, &rest)?;
        group.close()?;
        self.sum(&sums, content);
        Ok(values as u64)
    }

    fn write_fixed(&self, group: &mut SerializedRowGroupWriter<'_, ChecksumWriter>) -> Result<()> {
        let above_epoch = |key: &RowKey| key.time().get() - UNIX_EPOCH_TICKS;
        next(group, |writer| {
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
        next(group, |writer| ValueBuffer::Int64(micros).write(writer, None))?;
        // 0 to 9.
        let ticks = self.each_key().map(|key| above_epoch(&key).rem_euclid(10) as i32).collect();
        next(group, |writer| ValueBuffer::Int32(ticks).write(writer, None))?;
        next(group, |writer| {
            let ColumnWriter::ByteArrayColumnWriter(writer) = writer else { return Err(unlike()) };
            let (mut sources, mut last) = (Vec::with_capacity(self.rows), None);
            for key in self.each_key() {
                let text = match last.take() {
                    Some((source, text)) if source == key.source() => text,
                    _ => ByteArray::from(format!("{:016x}", key.source()).into_bytes()),
                };
                sources.push(text.clone());
                last = Some((key.source(), text));
            }
            writer.write_batch(&sources, None, None).map(drop)
        })?;
        // 48 bits.
        let positions = self.each_key().map(|key| key.position().cast_signed()).collect();
        next(group, |writer| ValueBuffer::Int64(positions).write(writer, None))?;
        let items = self.each_key().map(|key| i32::from(key.item())).collect();
        next(group, |writer| ValueBuffer::Int32(items).write(writer, None))?;
        next(group, |writer| {
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

    /// Adds the properties without a column of their own.
    fn gather_rest(
        &self,
        rest: &mut BTreeMap<usize, Vec<(String, String)>>,
        sums: &mut [u64],
        sieve: &mut SieveBuilder,
    ) {
        let mut start = 0;
        for RowSlice { mapped, rows, .. } in &self.slices {
            for column in &mapped.rest {
                let (name, kind) = mapped.part.name(*column);
                let property = sum::of_property(name, kind);
                for (at, row) in (start..).zip(rows.clone()) {
                    let Some(value) = mapped.part.value(*column, row) else { continue };
                    let hash = sum::of_value(property, value);
                    sums[at] = sums[at].wrapping_add(hash);
                    sieve.add(name, value, hash);
                    rest.entry(at).or_default().push((text::key(name, kind), text::of(value)));
                }
            }
            start += rows.len();
        }
    }

    fn sum(&self, sums: &[u64], content: &mut ContentChecksum) {
        let mut sums = sums.iter();
        for RowSlice { partition, mapped, rows } in &self.slices {
            let partition = sum::of_partition(partition);
            for (row, values) in rows.clone().zip(&mut sums) {
                content.add(sum::entity(partition, &mapped.part.keys()[row], mapped.part.level(row), *values));
            }
        }
    }
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

/// Writes the map of further properties.
fn write_rest(
    group: &mut SerializedRowGroupWriter<'_, ChecksumWriter>,
    rows: usize,
    rest: &BTreeMap<usize, Vec<(String, String)>>,
) -> Result<()> {
    let (mut defined, mut repeated) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut at = 0;
    for (row, entries) in rest {
        defined.resize(defined.len() + row - at, 0);
        defined.resize(defined.len() + entries.len(), REST_DEFINED);
        repeated.resize(repeated.len() + row - at + 1, 0);
        repeated.resize(repeated.len() + entries.len() - 1, 1);
        at = row + 1;
    }
    defined.resize(defined.len() + rows - at, 0);
    repeated.resize(repeated.len() + rows - at, 0);
    let array = |text: &String| ByteArray::from(text.as_str());
    let entries = || rest.values().flatten();
    for texts in [entries().map(|(key, _)| array(key)).collect(), entries().map(|(_, value)| array(value)).collect()] {
        let texts: Vec<ByteArray> = texts;
        next(group, |writer| {
            let ColumnWriter::ByteArrayColumnWriter(writer) = writer else { return Err(unlike()) };
            writer.write_batch(&texts, Some(&defined), Some(&repeated)).map(drop)
        })?;
    }
    Ok(())
}

/// Writes the next column.
fn next(
    group: &mut SerializedRowGroupWriter<'_, ChecksumWriter>,
    write: impl FnOnce(&mut ColumnWriter<'_>) -> Result<()>,
) -> Result<()> {
    let mut column = group.next_column()?.ok_or_else(unlike)?;
    write(column.untyped())?;
    column.close()
}

/// The columns disagree with [`ColumnLayout::schema`].
fn unlike() -> ParquetError {
    ParquetError::General("a column is not of the type that is written to it".into())
}
