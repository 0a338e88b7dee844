//! One column: the values of one name and kind, and the rows that have one.
//!
//! ```text
//! column := head u8           kind | 8 if some rows lack it | form << 4
//!           name length varint                      the name lies in the strings
//!           [present]         a bit a row, the lowest first; only if some rows lack it
//!           values            ints               Boolean, Int32, Int64, DateTime
//!                             strings            String, see `strings`
//!                             exponent u8, ints  Double of form 1: value = int / 10^exponent
//!                             [8 bytes]*         Double of form 0
//!                             [16 bytes]*        Guid, wide
//!                             ints, bytes        Binary: lengths, then one after the other
//! ```

use super::PageError;
use super::bits::{SectionCursor, Sections, TextSpan, put_varint};
use super::entries::Fingerprint;
use super::ints::{self, Ints, IntsPlan};
use super::strings::{self, StringForm, Strings};
use super::value_counts::{ColumnCounts, CountedValue, count_few, counted_bytes_max, is_filled};
use daytable_model::line::LAYOUT;
use daytable_model::needle::Needle;
use daytable_model::property::{OwnedValue, Property, PropertyKind};
use daytable_model::time::Ticks;

const SPARSE: u8 = 8;
const DECIMAL: u8 = 1;
/// Maximum decimal places of a [`DECIMAL`] column.
const EXPONENT_MAX: u8 = 9;
/// Whole numbers up to this bound are exact in a double.
const EXACT: f64 = (1u64 << 53) as f64;

/// A column of a page that is being built.
pub(super) struct ColumnBuilder<'a> {
    pub(super) name: &'a str,
    pub(super) kind: PropertyKind,
    values: ColumnValues<'a>,
    count: usize,
    /// The next possible row: a row has one value of a name and kind.
    next: usize,
    /// A bit a row, used once a row lacks a value.
    present: Vec<u64>,
}

enum ColumnValues<'a> {
    Ints(Vec<i64>),
    Strings(Vec<&'a str>),
    Doubles(Vec<f64>),
    Guids(Vec<[u8; 16]>),
    Binaries(Vec<&'a [u8]>),
}

impl<'a> ColumnBuilder<'a> {
    /// An empty column for at most `rows` rows.
    pub(super) fn new(name: &'a str, kind: PropertyKind, rows: usize) -> ColumnBuilder<'a> {
        let values = match kind {
            PropertyKind::String => ColumnValues::Strings(Vec::with_capacity(rows)),
            PropertyKind::Double => ColumnValues::Doubles(Vec::with_capacity(rows)),
            PropertyKind::Guid => ColumnValues::Guids(Vec::with_capacity(rows)),
            PropertyKind::Binary => ColumnValues::Binaries(Vec::with_capacity(rows)),
            PropertyKind::Int64 | PropertyKind::Int32 | PropertyKind::Boolean | PropertyKind::DateTime => {
                ColumnValues::Ints(Vec::with_capacity(rows))
            }
        };
        ColumnBuilder { name, kind, values, count: 0, next: 0, present: Vec::new() }
    }

    /// Adds the value of `row`. Rows come in order; a second value of a row is ignored.
    // Inlined: otherwise each value is written to memory and read back at another width, which dominates the cost.
    #[inline(always)]
    pub(super) fn push(&mut self, row: usize, value: Property<'a>) {
        if row < self.next {
            return;
        }
        match (&mut self.values, value) {
            (ColumnValues::Strings(values), Property::String(text)) => values.push(text),
            (ColumnValues::Ints(values), Property::Int64(n)) => values.push(n),
            (ColumnValues::Ints(values), Property::Int32(n)) => values.push(n.into()),
            (ColumnValues::Ints(values), Property::Boolean(b)) => values.push(b.into()),
            (ColumnValues::Ints(values), Property::DateTime(time)) => values.push(time.get()),
            (ColumnValues::Doubles(values), Property::Double(n)) => values.push(n),
            (ColumnValues::Guids(values), Property::Guid(guid)) => values.push(guid),
            (ColumnValues::Binaries(values), Property::Binary(bytes)) => values.push(bytes),
            // The caller selects a column by the value's kind.
            _ => return,
        }
        if self.count < row && self.present.is_empty() {
            self.mark_all();
        }
        self.count += 1;
        self.next = row + 1;
        if !self.present.is_empty() {
            self.mark(row);
        }
    }

    fn mark(&mut self, row: usize) {
        if self.present.len() <= row / 64 {
            self.present.resize(row / 64 + 1, 0);
        }
        self.present[row / 64] |= 1 << (row % 64);
    }

    /// Records that every row so far has a value.
    fn mark_all(&mut self) {
        self.present.push(0);
        (0..self.count).for_each(|row| self.mark(row));
    }

    /// Counts its values, where `levels` has the code of each row's level.
    pub(super) fn counts(&self, levels: &[u8]) -> ColumnCounts {
        let values = counted_bytes_max(self.name).and_then(|bytes_max| self.count_few(levels, bytes_max));
        let is_filled = |(value, _): &&CountedValue| is_filled(value.as_property());
        let sum = |values: &Vec<CountedValue>| values.iter().filter(is_filled).flat_map(|(_, counts)| counts).sum();
        let filled = values.as_ref().map_or_else(|| self.filled(), sum);
        ColumnCounts { name: self.name.to_owned(), kind: self.kind, filled, values }
    }

    /// Counts its values by the level of their rows. `None` if they are too many, too long, or bytes.
    fn count_few(&self, levels: &[u8], bytes_max: usize) -> Option<Vec<CountedValue>> {
        let is_present = |row: &usize| self.present.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1);
        let rows = (0..levels.len()).filter(|row| self.present.is_empty() || is_present(row));
        let levels = rows.map(|row| levels[row]);
        match &self.values {
            ColumnValues::Ints(values) => {
                count_few(values, levels, i64::cast_unsigned, |n| whole(self.kind, n).map(OwnedValue::from))
            }
            ColumnValues::Strings(values) => {
                let owned = |text: &str| (text.len() <= bytes_max).then(|| OwnedValue::String(text.into()));
                count_few(values, levels, |text| Fingerprint::of(text.as_bytes()).mixed(), owned)
            }
            ColumnValues::Doubles(values) => {
                let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
                count_few(&bits, levels, |bits| bits, |bits| Some(OwnedValue::Double(f64::from_bits(bits))))
            }
            ColumnValues::Guids(_) | ColumnValues::Binaries(_) => None,
        }
    }

    /// The number of values that are no empty texts.
    fn filled(&self) -> u32 {
        let filled = match &self.values {
            ColumnValues::Strings(values) => values.iter().filter(|text| !text.is_empty()).count(),
            _ => self.count,
        };
        // A page has fewer rows than 32 bits count.
        u32::try_from(filled).unwrap_or(u32::MAX)
    }

    /// Writes the column of a page with `rows` rows.
    pub(super) fn encode(mut self, rows: usize, out: &mut Sections) {
        let sparse = self.count < rows;
        let head = out.meta.len();
        out.meta.push(self.kind as u8 | if sparse { SPARSE } else { 0 });
        put_varint(&mut out.meta, self.name.len() as u64);
        out.strings.extend_from_slice(self.name.as_bytes());
        if sparse {
            if self.present.is_empty() {
                self.mark_all();
            }
            self.present.resize(rows.div_ceil(64), 0);
            let bytes = self.present.iter().flat_map(|word| word.to_le_bytes());
            out.meta.extend(bytes.take(rows.div_ceil(8)));
        }
        let values = match &self.values {
            ColumnValues::Ints(values) => ValueSlice::Ints(values),
            ColumnValues::Strings(values) if self.name == LAYOUT => ValueSlice::Layouts(values),
            ColumnValues::Strings(values) => ValueSlice::Strings(values),
            ColumnValues::Doubles(values) => ValueSlice::Doubles(values),
            ColumnValues::Guids(values) => ValueSlice::Guids(values),
            ColumnValues::Binaries(values) => ValueSlice::Binaries(values),
        };
        out.meta[head] |= values.encode(out) << 4;
    }
}

/// Writes the column of a page with a single row, which has a value.
pub(super) fn encode_only(name: &str, value: Property<'_>, out: &mut Sections) {
    let head = out.meta.len();
    out.meta.push(value.kind() as u8);
    put_varint(&mut out.meta, name.len() as u64);
    out.strings.extend_from_slice(name.as_bytes());
    let form = match value {
        Property::String(text) => ValueSlice::Strings(&[text]).encode(out),
        Property::Int64(n) => ValueSlice::Ints(&[n]).encode(out),
        Property::Int32(n) => ValueSlice::Ints(&[n.into()]).encode(out),
        Property::Boolean(b) => ValueSlice::Ints(&[b.into()]).encode(out),
        Property::DateTime(time) => ValueSlice::Ints(&[time.get()]).encode(out),
        Property::Double(n) => ValueSlice::Doubles(&[n]).encode(out),
        Property::Guid(guid) => ValueSlice::Guids(&[guid]).encode(out),
        Property::Binary(bytes) => ValueSlice::Binaries(&[bytes]).encode(out),
    };
    out.meta[head] |= form << 4;
}

/// The values of a column.
enum ValueSlice<'s, 'a> {
    Ints(&'s [i64]),
    Strings(&'s [&'a str]),
    /// Texts that the rows share: see [`LAYOUT`].
    Layouts(&'s [&'a str]),
    Doubles(&'s [f64]),
    Guids(&'s [[u8; 16]]),
    Binaries(&'s [&'a [u8]]),
}

impl ValueSlice<'_, '_> {
    /// Writes the values and returns their form.
    fn encode(self, out: &mut Sections) -> u8 {
        match self {
            ValueSlice::Ints(values) => {
                ints::encode(values, out);
                0
            }
            ValueSlice::Strings(values) => strings::encode(values, out) as u8,
            ValueSlice::Layouts(values) => {
                out.words.add_layouts(values);
                strings::encode_as(values, false, out) as u8
            }
            ValueSlice::Doubles(values) => encode_doubles(values, out),
            ValueSlice::Guids(values) => {
                out.words.add_bytes();
                out.wide.extend(values.as_flattened());
                0
            }
            ValueSlice::Binaries(values) => {
                out.words.add_bytes();
                let lengths: Vec<i64> = values.iter().map(|bytes| bytes.len().cast_signed() as i64).collect();
                ints::encode(&lengths, out);
                values.iter().for_each(|bytes| out.meta.extend_from_slice(bytes));
                0
            }
        }
    }
}

fn encode_doubles(values: &[f64], out: &mut Sections) -> u8 {
    for exponent in 0..=EXPONENT_MAX {
        let scaled: Option<Vec<i64>> = values.iter().map(|&value| scale(value, exponent)).collect();
        let Some(scaled) = scaled else { continue };
        let plan = IntsPlan::new(&scaled);
        if plan.bits(scaled.len()) >= 64 * values.len() {
            break;
        }
        out.meta.push(exponent);
        plan.write(&scaled, out);
        return DECIMAL;
    }
    values.iter().for_each(|value| out.meta.extend_from_slice(&value.to_le_bytes()));
    0
}

/// The whole number from which [`unscale`] restores exactly `value`.
fn scale(value: f64, exponent: u8) -> Option<i64> {
    let scaled = (value * scale_of(exponent)).round();
    // The cast is exact below 2^53, and the comparison is false for NaN.
    let scaled = (scaled.abs() < EXACT).then_some(scaled as i64)?;
    (unscale(scaled, exponent).to_bits() == value.to_bits()).then_some(scaled)
}

fn unscale(scaled: i64, exponent: u8) -> f64 {
    scaled as f64 / scale_of(exponent)
}

/// The number by which the whole numbers of a [`DECIMAL`] column are divided.
pub(super) fn scale_of(exponent: u8) -> f64 {
    10f64.powi(exponent.into())
}

/// A decoded column.
#[derive(Debug)]
pub(super) struct PageColumn {
    pub(super) name: TextSpan,
    pub(super) kind: PropertyKind,
    present: Option<PresenceBits>,
    pub(super) values: EncodedValues,
}

#[derive(Debug)]
pub(super) enum EncodedValues {
    Ints(Ints),
    Decimals(Ints, u8),
    Strings(Strings),
    Doubles(Vec<f64>),
    Guids(usize),
    Binaries(Vec<Vec<u8>>),
    /// The column was not needed.
    Skipped,
}

/// The rows with a value, and the count of values before each group of 64 rows.
#[derive(Debug)]
struct PresenceBits {
    words: Vec<u64>,
    before: Vec<u32>,
}

impl PageColumn {
    /// Reads a column, or passes over it if `needs` does not accept its name and kind.
    pub(super) fn decode(
        rows: usize,
        cursor: &mut SectionCursor<'_>,
        needs: &dyn Fn(&str, PropertyKind) -> bool,
    ) -> Result<PageColumn, PageError> {
        let head = cursor.meta.byte()?;
        let kind = PropertyKind::from_code(head & 7).ok_or(PageError::Damaged("a column has no kind"))?;
        let name = cursor.meta.count(usize::MAX)?;
        let name = cursor.string(name)?;
        let (present, count) = if head & SPARSE == 0 {
            (None, rows)
        } else {
            let (present, count) = PresenceBits::decode(rows, cursor)?;
            (Some(present), count)
        };
        cursor.take_values(count)?;
        let form = head >> 4;
        let unknown = PageError::Damaged("a column has an unknown form");
        let is_needed = str::from_utf8(&cursor.text[name.range()]).is_ok_and(|name| needs(name, kind));
        let values = match (kind, form) {
            (PropertyKind::Boolean | PropertyKind::Int32 | PropertyKind::Int64 | PropertyKind::DateTime, 0)
                if !is_needed =>
            {
                Ints::locate(count, cursor)?;
                EncodedValues::Skipped
            }
            (PropertyKind::String, form) if !is_needed => {
                Strings::skip(StringForm::from_code(form).ok_or(unknown)?, count, cursor)?;
                EncodedValues::Skipped
            }
            (PropertyKind::Guid, 0) if !is_needed => {
                cursor.wide(count.saturating_mul(16))?;
                EncodedValues::Skipped
            }
            (PropertyKind::Double, DECIMAL) if !is_needed => {
                cursor.meta.byte()?;
                Ints::locate(count, cursor)?;
                EncodedValues::Skipped
            }
            (PropertyKind::Boolean | PropertyKind::Int32 | PropertyKind::Int64 | PropertyKind::DateTime, 0) => {
                let ints = Ints::decode(count, cursor)?;
                match kind {
                    PropertyKind::Boolean => ints.check(count, cursor.packed, |n| n == 0 || n == 1)?,
                    PropertyKind::Int32 => ints.check(count, cursor.packed, |n| i32::try_from(n).is_ok())?,
                    PropertyKind::DateTime => ints.check(count, cursor.packed, |n| Ticks::new(n).is_some())?,
                    _ => {}
                }
                EncodedValues::Ints(ints)
            }
            (PropertyKind::String, form) => {
                EncodedValues::Strings(Strings::decode(StringForm::from_code(form).ok_or(unknown)?, count, cursor)?)
            }
            (PropertyKind::Double, DECIMAL) => {
                let exponent = cursor.meta.byte()?;
                EncodedValues::Decimals(Ints::decode(count, cursor)?, exponent.min(EXPONENT_MAX))
            }
            (PropertyKind::Double, 0) => {
                let bytes = cursor.meta.take(count.saturating_mul(8))?;
                let (words, _) = bytes.as_chunks::<8>();
                EncodedValues::Doubles(words.iter().map(|word| f64::from_le_bytes(*word)).collect())
            }
            (PropertyKind::Guid, 0) => EncodedValues::Guids(cursor.wide(count.saturating_mul(16))?),
            (PropertyKind::Binary, 0) => {
                let lengths = Ints::decode(count, cursor)?;
                let mut values = Vec::with_capacity(count);
                for index in 0..count {
                    let length = usize::try_from(lengths.get(cursor.packed, index));
                    let length = length.map_err(|_| PageError::Damaged("a value has a negative length"))?;
                    values.push(cursor.meta.take(length)?.to_vec());
                }
                EncodedValues::Binaries(values)
            }
            _ => return Err(unknown),
        };
        Ok(PageColumn { name, kind, present, values })
    }

    /// The index of the value of `row`.
    #[inline]
    pub(super) fn index(&self, row: usize) -> Option<usize> {
        let Some(present) = &self.present else { return Some(row) };
        let (word, bit) = (*present.words.get(row / 64)?, row % 64);
        let below = (word & ((1 << bit) - 1)).count_ones();
        (word >> bit & 1 == 1).then(|| (present.before[row / 64] + below) as usize)
    }

    /// Whether a value may contain the needle.
    pub(super) fn may_contain(&self, needle: &Needle) -> bool {
        match (&self.values, self.kind) {
            (EncodedValues::Ints(ints), PropertyKind::Int64 | PropertyKind::Int32) => ints.may_contain(needle),
            _ => needle.may_be_in(self.kind),
        }
    }

    /// The value at `index`; a text that is stored in another form is printed to `room`.
    #[inline]
    pub(super) fn value_in<'p>(
        &'p self,
        index: usize,
        packed: &'p [u8],
        text: &'p str,
        room: &'p mut String,
    ) -> Option<Property<'p>> {
        match &self.values {
            EncodedValues::Strings(strings) => strings.value_in(packed, text, index, room).map(Property::String),
            _ => self.value(index, packed, text),
        }
    }

    /// Of the 64 rows from `64 * word` on those with a value, a bit a row, and the number of values before them.
    #[inline]
    pub(super) fn presence(&self, word: usize) -> (u64, usize) {
        match &self.present {
            None => (u64::MAX, 64 * word),
            Some(present) => {
                let before = present.before.get(word).map_or(0, |before| *before as usize);
                (present.words.get(word).copied().unwrap_or(0), before)
            }
        }
    }

    /// Whether its values are wide bytes.
    pub(super) fn is_wide(&self) -> bool {
        matches!(self.values, EncodedValues::Guids(_) | EncodedValues::Strings(Strings::Hex(_)))
    }

    /// Whether its values were not needed.
    pub(super) fn is_skipped(&self) -> bool {
        matches!(self.values, EncodedValues::Skipped)
    }

    /// Whether every row has a value.
    pub(super) fn has_all(&self) -> bool {
        self.present.is_none()
    }

    /// How many of `rows` have a value.
    pub(super) fn count(&self, rows: usize) -> usize {
        let marked = |present: &PresenceBits| present.words.iter().map(|word| word.count_ones() as usize).sum();
        self.present.as_ref().map_or(rows, marked)
    }

    /// The rows that have a value, in order.
    pub(super) fn rows(&self, rows: usize) -> impl Iterator<Item = usize> {
        (0..rows).filter(|&row| self.index(row).is_some())
    }

    /// The value at `index`, which [`PageColumn::index`] returned.
    #[inline]
    pub(super) fn value<'p>(&'p self, index: usize, packed: &'p [u8], text: &'p str) -> Option<Property<'p>> {
        Some(match &self.values {
            EncodedValues::Strings(strings) => Property::String(strings.value(packed, text, index)?),
            EncodedValues::Decimals(ints, exponent) => Property::Double(unscale(ints.get(packed, index), *exponent)),
            EncodedValues::Doubles(values) => Property::Double(*values.get(index)?),
            EncodedValues::Guids(start) => Property::Guid(*packed.get(start + 16 * index..)?.first_chunk()?),
            EncodedValues::Binaries(values) => Property::Binary(values.get(index)?),
            EncodedValues::Skipped => return None,
            EncodedValues::Ints(ints) => whole(self.kind, ints.get(packed, index))?,
        })
    }
}

/// A whole number as a value of a kind.
#[inline]
pub(super) fn whole(kind: PropertyKind, number: i64) -> Option<Property<'static>> {
    Some(match kind {
        PropertyKind::Boolean => Property::Boolean(number != 0),
        PropertyKind::Int32 => Property::Int32(i32::try_from(number).ok()?),
        PropertyKind::DateTime => Property::DateTime(Ticks::new(number)?),
        _ => Property::Int64(number),
    })
}

impl PresenceBits {
    /// Returns the bitmap and the number of rows with a value.
    fn decode(rows: usize, cursor: &mut SectionCursor<'_>) -> Result<(PresenceBits, usize), PageError> {
        let bytes = cursor.meta.take(rows.div_ceil(8))?;
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let words: Vec<u64> = bytes.chunks(8).map(word).collect();
        let mut count = 0;
        let mut before = Vec::with_capacity(words.len());
        for word in &words {
            before.push(count);
            count += word.count_ones();
        }
        let beyond = words.last().is_some_and(|word| !rows.is_multiple_of(64) && word >> (rows % 64) != 0);
        if count == 0 || beyond {
            return Err(PageError::Damaged("a column has values of no rows"));
        }
        Ok((PresenceBits { words, before }, count as usize))
    }
}
