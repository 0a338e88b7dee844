//! One column: the values of one name and kind, and the rows that have one.
//!
//! ```text
//! column := head u8           kind | 8 if some rows lack it | form << 4 | 64 if its values are apart
//!                             | 128 if it lists its rows
//!           name length varint                      the name lies in the strings
//!           [present]         only if some rows lack it: a bit a row, the lowest first; or, where few rows have it,
//!                             their number varint, and for each the number of rows between it and the one before, varint
//!           [values]          here, or in a section of their own
//! values := ints              Boolean, Int32, Int64, DateTime
//!                             strings            String, see `strings`
//!                             exponent u8, ints  Double of form 1: value = int / 10^exponent
//!                             [8 bytes]*         Double of form 0
//!                             [16 bytes]*        Guid, wide
//!                             ints, bytes        Binary: lengths, then one after the other
//! ```

use super::PageError;
use super::bits::{TextSpan, put_varint};
use super::entries::Fingerprint;
use super::ints::{self, Ints, IntsPlan};
use super::section_cursor::SectionCursor;
use super::sections::Sections;
use super::strings::{self, StringForm, Strings};
use super::value_counts::{ColumnCounts, CountedValue, count_few, counted_bytes_max, is_filled};
use daytable_model::line::LAYOUT;
use daytable_model::needle::Needle;
use daytable_model::property::{OwnedValue, Property, PropertyKind};
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;

const SPARSE: u8 = 8;
/// The values are in a section of their own.
const APART: u8 = 64;
/// The column lists its rows. It is [`SPARSE`], too.
const LISTED: u8 = 128;
/// A column lists its rows if at most one row of this many has a value. The list is then shorter than bits.
const LISTED_SHARE: usize = 32;
/// The form of a column is none that is known.
const UNKNOWN_FORM: PageError = PageError::Damaged("a column has an unknown form");
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
    /// The number of rows of the page, at most.
    rows: usize,
    present: BuiltPresence,
}

/// The rows so far that have a value.
enum BuiltPresence {
    All,
    /// These: few of the page's rows.
    Rows(Vec<u32>),
    /// A bit a row.
    Bits(Vec<u64>),
}

enum ColumnValues<'a> {
    Ints(Vec<i64>),
    Strings(Vec<&'a str>),
    Doubles(Vec<f64>),
    Guids(Vec<[u8; 16]>),
    Binaries(Vec<&'a [u8]>),
}

impl<'a> ColumnBuilder<'a> {
    /// An empty column of a page with at most `rows` rows, with room for this many values.
    pub(super) fn new(name: &'a str, kind: PropertyKind, rows: usize, room: usize) -> ColumnBuilder<'a> {
        let values = match kind {
            PropertyKind::String => ColumnValues::Strings(Vec::with_capacity(room)),
            PropertyKind::Double => ColumnValues::Doubles(Vec::with_capacity(room)),
            PropertyKind::Guid => ColumnValues::Guids(Vec::with_capacity(room)),
            PropertyKind::Binary => ColumnValues::Binaries(Vec::with_capacity(room)),
            PropertyKind::Int64 | PropertyKind::Int32 | PropertyKind::Boolean | PropertyKind::DateTime => {
                ColumnValues::Ints(Vec::with_capacity(room))
            }
        };
        ColumnBuilder { name, kind, values, count: 0, next: 0, rows, present: BuiltPresence::All }
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
        self.next = row + 1;
        if !matches!(self.present, BuiltPresence::All) || self.count < row {
            self.mark(row);
        }
        self.count += 1;
    }

    /// Records that `row` has a value, and some row has none.
    fn mark(&mut self, row: usize) {
        if matches!(self.present, BuiltPresence::All) {
            // A page has fewer rows than 32 bits count.
            self.present = BuiltPresence::Rows((0..self.count as u32).collect());
        }
        if let BuiltPresence::Rows(rows) = &mut self.present {
            if (rows.len() + 1) * LISTED_SHARE <= self.rows {
                return rows.push(row as u32);
            }
            let mut bits = vec![0; self.rows.div_ceil(64)];
            rows.iter().for_each(|row| bits[*row as usize / 64] |= 1 << (row % 64));
            self.present = BuiltPresence::Bits(bits);
        }
        if let BuiltPresence::Bits(bits) = &mut self.present {
            bits[row / 64] |= 1 << (row % 64);
        }
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
        match &self.present {
            BuiltPresence::All => self.count_values(levels.iter().copied(), bytes_max),
            BuiltPresence::Rows(rows) => self.count_values(rows.iter().map(|row| levels[*row as usize]), bytes_max),
            BuiltPresence::Bits(bits) => {
                let is_present = |row: &usize| bits.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1);
                self.count_values((0..levels.len()).filter(is_present).map(|row| levels[row]), bytes_max)
            }
        }
    }

    /// The same, where `levels` are those of the rows with a value.
    fn count_values(&self, levels: impl Iterator<Item = u8>, bytes_max: usize) -> Option<Vec<CountedValue>> {
        match &self.values {
            ColumnValues::Ints(values) => count_whole(self.kind, values, levels),
            ColumnValues::Strings(values) => count_texts(values, levels, bytes_max),
            ColumnValues::Doubles(values) => count_doubles(values, levels),
            ColumnValues::Guids(_) | ColumnValues::Binaries(_) => None,
        }
    }

    /// The number of values that are not empty texts.
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
        if self.count < rows && matches!(self.present, BuiltPresence::All) {
            // Only the rows at the end lack it.
            self.present = match self.count * LISTED_SHARE <= rows {
                true => BuiltPresence::Rows((0..self.count as u32).collect()),
                false => BuiltPresence::Bits(RowSet::of(rows, |row| row < self.count).words().to_vec()),
            };
        }
        let head = out.meta.len();
        let presence = match &self.present {
            BuiltPresence::All => 0,
            BuiltPresence::Rows(_) => SPARSE | LISTED,
            BuiltPresence::Bits(_) => SPARSE,
        };
        out.meta.push(self.kind as u8 | presence);
        put_varint(&mut out.meta, self.name.len() as u64);
        out.strings.extend_from_slice(self.name.as_bytes());
        match &self.present {
            BuiltPresence::All => {}
            BuiltPresence::Rows(listed) => {
                put_varint(&mut out.meta, listed.len() as u64);
                let mut next = 0;
                for row in listed {
                    put_varint(&mut out.meta, u64::from(row - next));
                    next = row + 1;
                }
            }
            BuiltPresence::Bits(bits) => {
                let bytes = bits.iter().flat_map(|word| word.to_le_bytes());
                out.meta.extend(bytes.take(rows.div_ceil(8)));
            }
        }
        let values = match &self.values {
            ColumnValues::Ints(values) => ValueSlice::Ints(values),
            ColumnValues::Strings(values) if self.name == LAYOUT => ValueSlice::Layouts(values),
            ColumnValues::Strings(values) => ValueSlice::Strings(values),
            ColumnValues::Doubles(values) => ValueSlice::Doubles(values),
            ColumnValues::Guids(values) => ValueSlice::Guids(values),
            ColumnValues::Binaries(values) => ValueSlice::Binaries(values),
        };
        let start = out.mark();
        let form = values.encode(out) << 4;
        let apart = if out.close_apart(&start) { APART } else { 0 };
        out.meta[head] |= form | apart;
    }
}

/// Counts whole numbers of a kind by the level of their rows, as [`ColumnBuilder::counts`] does.
pub(super) fn count_whole(
    kind: PropertyKind,
    values: &[i64],
    levels: impl Iterator<Item = u8>,
) -> Option<Vec<CountedValue>> {
    count_few(values, levels, i64::cast_unsigned, |n| whole(kind, n).map(OwnedValue::from))
}

/// The same of texts, of which none may be longer.
pub(super) fn count_texts(
    values: &[&str],
    levels: impl Iterator<Item = u8>,
    bytes_max: usize,
) -> Option<Vec<CountedValue>> {
    let owned = |text: &str| (text.len() <= bytes_max).then(|| OwnedValue::String(text.into()));
    count_few(values, levels, |text| Fingerprint::of(text.as_bytes()).mixed(), owned)
}

/// The same of doubles.
pub(super) fn count_doubles(values: &[f64], levels: impl Iterator<Item = u8>) -> Option<Vec<CountedValue>> {
    let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
    count_few(&bits, levels, |bits| bits, |bits| Some(OwnedValue::Double(f64::from_bits(bits))))
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

/// Writes a column of which every row of the page has this text.
pub(super) fn encode_same(name: &str, text: &str, out: &mut Sections) {
    encode_only(name, Property::String(text), out);
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

pub(super) fn unscale(scaled: i64, exponent: u8) -> f64 {
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
    present: Presence,
    pub(super) values: EncodedValues,
}

/// The rows with a value.
#[derive(Debug)]
enum Presence {
    All,
    Bits(PresenceBits),
    /// These, in order. Never empty.
    Listed(Box<[u32]>),
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

/// What the head of a column tells of its values.
#[derive(Clone, Copy, Debug)]
struct ValuesHead {
    kind: PropertyKind,
    form: u8,
    count: usize,
}

/// Values that are apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApartValues {
    /// Whether the column is needed.
    pub(super) is_wanted: bool,
    head: ValuesHead,
}

impl EncodedValues {
    /// Reads the values of a column.
    fn decode(head: ValuesHead, cursor: &mut SectionCursor<'_>) -> Result<EncodedValues, PageError> {
        let ValuesHead { kind, form, count } = head;
        Ok(match (kind, form) {
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
                let form = StringForm::from_code(form).ok_or(UNKNOWN_FORM)?;
                EncodedValues::Strings(Strings::decode(form, count, cursor)?)
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
            _ => return Err(UNKNOWN_FORM),
        })
    }

    /// Passes over the values of a column, where that is less work than to read them.
    fn skip(head: ValuesHead, cursor: &mut SectionCursor<'_>) -> Result<EncodedValues, PageError> {
        let ValuesHead { kind, form, count } = head;
        match (kind, form) {
            (PropertyKind::Boolean | PropertyKind::Int32 | PropertyKind::Int64 | PropertyKind::DateTime, 0) => {
                Ints::locate(count, cursor)?;
            }
            (PropertyKind::String, form) => {
                Strings::skip(StringForm::from_code(form).ok_or(UNKNOWN_FORM)?, count, cursor)?;
            }
            (PropertyKind::Double, DECIMAL) => {
                cursor.meta.byte()?;
                Ints::locate(count, cursor)?;
            }
            _ => return EncodedValues::decode(head, cursor),
        }
        Ok(EncodedValues::Skipped)
    }
}

/// A bit for each row, and the count of values before each group of 64 rows.
#[derive(Debug)]
struct PresenceBits {
    words: Vec<u64>,
    before: Vec<u32>,
}

impl PageColumn {
    /// Reads a column, or passes over it if `needs` does not accept its name and kind. Values that are apart are read later.
    pub(super) fn decode(
        rows: usize,
        cursor: &mut SectionCursor<'_>,
        needs: &dyn Fn(&str, PropertyKind) -> bool,
    ) -> Result<(PageColumn, Option<ApartValues>), PageError> {
        let head = cursor.meta.byte()?;
        let kind = PropertyKind::from_code(head & 7).ok_or(PageError::Damaged("a column has no kind"))?;
        let name = cursor.meta.count(usize::MAX)?;
        let name = cursor.string(name)?;
        let (present, count) = match head & (SPARSE | LISTED) {
            0 => (Presence::All, rows),
            SPARSE => PresenceBits::decode(rows, cursor)?,
            LISTED => return Err(PageError::Damaged("a column lists rows that it does not lack")),
            _ => listed_rows(rows, cursor)?,
        };
        cursor.take_values(count)?;
        let of_values = ValuesHead { kind, form: (head & !(LISTED | APART)) >> 4, count };
        let is_needed = str::from_utf8(&cursor.text[name.range()]).is_ok_and(|name| needs(name, kind));
        let apart = (head & APART != 0).then_some(ApartValues { is_wanted: is_needed, head: of_values });
        let values = match (apart, is_needed) {
            (Some(_), _) => EncodedValues::Skipped,
            (None, true) => EncodedValues::decode(of_values, cursor)?,
            (None, false) => EncodedValues::skip(of_values, cursor)?,
        };
        Ok((PageColumn { name, kind, present, values }, apart))
    }

    /// Reads its values, which are apart.
    pub(super) fn read_values(
        &mut self,
        values: &ApartValues,
        cursor: &mut SectionCursor<'_>,
    ) -> Result<(), PageError> {
        self.values = EncodedValues::decode(values.head, cursor)?;
        Ok(())
    }

    /// The index of the value of `row`.
    #[inline]
    pub(super) fn index(&self, row: usize) -> Option<usize> {
        let present = match &self.present {
            Presence::All => return Some(row),
            Presence::Listed(rows) => return rows.binary_search(&u32::try_from(row).ok()?).ok(),
            Presence::Bits(present) => present,
        };
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
            Presence::All => (u64::MAX, 64 * word),
            Presence::Bits(present) => {
                let before = present.before.get(word).map_or(0, |before| *before as usize);
                (present.words.get(word).copied().unwrap_or(0), before)
            }
            Presence::Listed(rows) => {
                let before = rows.partition_point(|row| (*row as usize) < 64 * word);
                let of_word = rows[before..].iter().take_while(|row| **row as usize / 64 == word);
                (of_word.fold(0, |bits, row| bits | 1 << (row % 64)), before)
            }
        }
    }

    /// The words of rows of the page that may have a value, in order.
    #[inline]
    pub(super) fn words_with_values(&self, rows: usize) -> impl Iterator<Item = usize> {
        let (listed, words) = match &self.present {
            Presence::Listed(listed) => (&listed[..], 0),
            _ => (&[][..], rows.div_ceil(64)),
        };
        let of_listed = listed.chunk_by(|a, b| a / 64 == b / 64).filter_map(|of_word| of_word.first());
        (0..words).chain(of_listed.map(|row| *row as usize / 64))
    }

    /// Bytes that tell which rows have the values.
    #[cfg(test)]
    pub(super) fn presence_bytes(&self) -> usize {
        match &self.present {
            Presence::All => 0,
            Presence::Bits(present) => size_of_val(&*present.words) + size_of_val(&*present.before),
            Presence::Listed(rows) => size_of_val(&**rows),
        }
    }

    /// The rows that it lists, if it does.
    pub(super) fn listed(&self) -> Option<&[u32]> {
        if let Presence::Listed(rows) = &self.present { Some(rows) } else { None }
    }

    /// Whether its values were not needed.
    pub(super) fn is_skipped(&self) -> bool {
        matches!(self.values, EncodedValues::Skipped)
    }

    /// Whether every row has a value.
    pub(super) fn has_all(&self) -> bool {
        matches!(self.present, Presence::All)
    }

    /// How many of `rows` have a value.
    pub(super) fn count(&self, rows: usize) -> usize {
        match &self.present {
            Presence::All => rows,
            Presence::Bits(present) => present.words.iter().map(|word| word.count_ones() as usize).sum(),
            Presence::Listed(rows) => rows.len(),
        }
    }

    /// The rows that have a value, in order.
    pub(super) fn rows(&self, rows: usize) -> impl Iterator<Item = usize> {
        let listed = self.listed();
        let dense = if listed.is_some() { 0..0 } else { 0..rows };
        let listed = listed.unwrap_or_default().iter().map(|row| *row as usize);
        dense.filter(|&row| self.index(row).is_some()).chain(listed)
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
    fn decode(rows: usize, cursor: &mut SectionCursor<'_>) -> Result<(Presence, usize), PageError> {
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
        Ok((Presence::Bits(PresenceBits { words, before }), count as usize))
    }
}

/// Returns the list of the rows with a value, and their number.
fn listed_rows(rows: usize, cursor: &mut SectionCursor<'_>) -> Result<(Presence, usize), PageError> {
    // Each takes a byte, so a damaged page claims no more than it has.
    let count = cursor.meta.count(cursor.meta.rest().len())?;
    let (mut listed, mut next) = (Vec::with_capacity(count), 0);
    for _ in 0..count {
        let gap = cursor.meta.count(rows)?;
        let row = next + gap;
        if row >= rows {
            return Err(PageError::Damaged("a column has values of no rows"));
        }
        // A page has fewer rows than 32 bits count.
        listed.push(row as u32);
        next = row + 1;
    }
    if listed.is_empty() {
        return Err(PageError::Damaged("a column has values of no rows"));
    }
    Ok((Presence::Listed(listed.into()), count))
}
