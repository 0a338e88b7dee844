//! A page is read: checked, its texts decompressed, its numbers left packed until they are asked for.

use super::bits::{ByteReader, PADDING, SectionCursor};
use super::column::{EncodedValues, PageColumn};
use super::ints::Ints;
use super::prefilter::Prefilter;
use super::strings::Strings;
use super::{CODEC_STORED, CODEC_ZSTD, PageAddress, PageError, PageHeader, RAW_BYTES_MAX, ROW_BYTES, keys};
use daytable_model::key::RowKey;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use std::borrow::Cow;
use std::cell::RefCell;

/// Columns that there is room for at first: the page may say more than it has.
const COLUMNS_AT_ONCE: usize = 32;

/// A page in memory. Rows are numbered from 0, the newest first; asking for a row that is not there panics, as with a
/// slice, where that is said.
#[derive(Debug)]
pub struct Page {
    keys: Vec<RowKey>,
    levels: Ints,
    columns: Vec<PageColumn>,
    packed: Vec<u8>,
    text: String,
}

impl Page {
    /// Reads a page that was made just now. An error if a byte of header or body is not what was written.
    pub fn decode(header: &PageHeader, body: &[u8]) -> Result<Page, PageError> {
        Page::decode_checked(header, body, header.checksum)
    }

    /// Reads a page that lies in a file, as one of `home` that commit `seq` wrote. An error if it is another's, too.
    pub(crate) fn decode_of(home: PageAddress, seq: i64, header: &PageHeader, body: &[u8]) -> Result<Page, PageError> {
        Page::decode_checked(header, body, home.noted(header, seq))
    }

    /// Reads a page that lies in a file, as [`Page::decode_of`] does, unless no row of it can have what is prefilter.
    pub(crate) fn decode_matching(
        home: PageAddress,
        seq: i64,
        header: &PageHeader,
        body: &[u8],
        prefilter: &Prefilter,
    ) -> Result<Option<Page>, PageError> {
        check(header, body, home.noted(header, seq))?;
        if !prefilter.may_have_level(header) {
            return Ok(None);
        }
        let frame = PageFrame::open(header, body)?;
        if prefilter.may_have_text(&frame.strings) { Page::of(header, frame).map(Some) } else { Ok(None) }
    }

    fn decode_checked(header: &PageHeader, body: &[u8], expected: u64) -> Result<Page, PageError> {
        check(header, body, expected)?;
        Page::decode_unchecked(header, body)
    }

    /// Reads a page whose checksum is right. Takes any bytes nevertheless.
    pub(super) fn decode_unchecked(header: &PageHeader, body: &[u8]) -> Result<Page, PageError> {
        Page::of(header, PageFrame::open(header, body)?)
    }

    fn of(header: &PageHeader, frame: PageFrame<'_>) -> Result<Page, PageError> {
        let damaged = |what| Err(PageError::Damaged(what));
        let PageFrame { rows, raw_bytes, packed, strings, meta } = frame;
        let mut cursor = SectionCursor::new(&packed, strings, &meta, raw_bytes);
        let keys = keys::decode(rows, header.first, &mut cursor)?;
        let levels = Ints::decode(rows, &mut cursor)?;
        let known = |code| code == 0 || u8::try_from(code).ok().and_then(Level::from_code).is_some();
        levels.check(rows, &packed, known)?;
        let count = cursor.meta.count(meta.len())?;
        let mut columns = Vec::with_capacity(count.min(COLUMNS_AT_ONCE));
        for _ in 0..count {
            columns.push(PageColumn::decode(rows, &mut cursor)?);
        }
        if !cursor.at_end() || keys.last() != Some(&header.last) {
            return damaged("it does not end where it should");
        }
        let text = String::from_utf8(cursor.text).map_err(|_| PageError::Damaged("its text is not UTF-8"))?;
        let page = Page { keys, levels, columns, packed, text };
        page.check_texts()?;
        Ok(page)
    }

    /// An error unless every text begins and ends between characters.
    fn check_texts(&self) -> Result<(), PageError> {
        let whole = |at: u32| self.text.is_char_boundary(at as usize);
        let ascii = self.text.is_ascii();
        let fits = ascii
            || self.columns.iter().all(|column| {
                whole(column.name.start)
                    && whole(column.name.end)
                    && match &column.values {
                        EncodedValues::Strings(Strings::Constant(span)) => whole(span.start) && whole(span.end),
                        EncodedValues::Strings(Strings::Dictionary { entries, .. }) => {
                            entries.iter().all(|span| whole(span.start) && whole(span.end))
                        }
                        EncodedValues::Strings(Strings::Plain { start, ends }) => {
                            whole(*start) && ends.iter().copied().all(whole)
                        }
                        _ => true,
                    }
            });
        if fits { Ok(()) } else { Err(PageError::Damaged("a text ends within a character")) }
    }

    /// Its entities.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Never: a page has at least one entity.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys of its rows, newest first.
    pub fn keys(&self) -> &[RowKey] {
        &self.keys
    }

    /// The key of a row. Panics if there is no such row.
    pub fn key(&self, row: usize) -> RowKey {
        self.keys[row]
    }

    /// The level of a row; items and records without a level have none.
    pub fn level(&self, row: usize) -> Option<Level> {
        let known = |code| u8::try_from(code).ok().and_then(Level::from_code);
        if row < self.len() { known(self.levels.get(&self.packed, row)) } else { None }
    }

    /// The properties of a row, in the order of the columns; none for a row that is not there.
    pub fn properties(&self, row: usize) -> impl Iterator<Item = (&str, Property<'_>)> {
        self.values(row).map(|(number, value)| (self.name(number), value))
    }

    /// The properties of a row with the number of their column.
    pub(super) fn values(&self, row: usize) -> impl Iterator<Item = (usize, Property<'_>)> {
        let columns = if row < self.len() { self.columns.as_slice() } else { &[] };
        let value = move |(number, column): (usize, &'_ PageColumn)| Some((number, column.index(row)?));
        columns
            .iter()
            .enumerate()
            .filter_map(value)
            .filter_map(|(number, index)| Some((number, self.columns[number].value(index, &self.packed, &self.text)?)))
    }

    /// How many columns it has.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// The name of a column; empty for one that is not there.
    pub(super) fn name(&self, number: usize) -> &str {
        self.columns.get(number).and_then(|column| self.text.get(column.name.range())).unwrap_or_default()
    }

    /// Its columns. A property that comes with two kinds is two of them.
    pub fn columns(&self) -> impl Iterator<Item = ColumnRef<'_>> {
        (0..self.width()).map(|number| ColumnRef { page: self, number })
    }

    /// A column by its number.
    pub(crate) fn column_at(&self, number: usize) -> Option<ColumnRef<'_>> {
        (number < self.width()).then_some(ColumnRef { page: self, number })
    }

    /// The column of one property and kind.
    pub fn column(&self, name: &str, kind: PropertyKind) -> Option<ColumnRef<'_>> {
        self.columns().find(|column| column.kind() == kind && column.name() == name)
    }

    /// For each row whether any of its properties contains the needle. A text that many rows share is searched once, and
    /// texts that lie one behind the other in one go; numbers that cannot contain it are not looked at.
    pub fn any_value_contains(&self, needle: &Needle) -> Vec<bool> {
        let mut found = vec![false; self.len()];
        for column in self.columns() {
            column.mark_containing(needle, &mut found);
        }
        found
    }
}

/// A column of a page.
#[derive(Clone, Copy)]
pub struct ColumnRef<'p> {
    page: &'p Page,
    number: usize,
}

impl<'p> ColumnRef<'p> {
    fn column(&self) -> &'p PageColumn {
        &self.page.columns[self.number]
    }

    /// The property's name.
    pub fn name(&self) -> &'p str {
        self.page.name(self.number)
    }

    /// The type of all its values.
    pub fn kind(&self) -> PropertyKind {
        self.column().kind
    }

    /// How many rows have a value.
    pub fn count(&self) -> usize {
        self.column().count(self.page.len())
    }

    /// The value of a row, if it has one.
    pub fn value(&self, row: usize) -> Option<Property<'p>> {
        let index = if row < self.page.len() { self.column().index(row)? } else { return None };
        self.column().value(index, &self.page.packed, &self.page.text)
    }

    /// Marks the rows whose value contains the needle.
    pub fn mark_containing(&self, needle: &Needle, found: &mut [bool]) {
        let (column, finder) = (self.column(), needle.finder());
        let (packed, text) = (&self.page.packed, self.page.text.as_bytes());
        let EncodedValues::Strings(strings) = &column.values else {
            if column.may_contain(needle) {
                self.mark_values_containing(needle, found);
            }
            return;
        };
        let rows = column.rows(self.page.len()).zip(0..);
        match strings {
            Strings::Constant(span) => {
                if finder.find(&text[span.range()]).is_some() {
                    rows.for_each(|(row, _)| found[row] = true);
                }
            }
            Strings::Dictionary { entries, indices } => {
                let hits: Vec<bool> = entries.iter().map(|span| finder.find(&text[span.range()]).is_some()).collect();
                if !hits.contains(&true) {
                    return;
                }
                for (row, index) in rows {
                    let entry = usize::try_from(indices.get(packed, index)).ok();
                    found[row] |= entry.and_then(|entry| hits.get(entry)).is_some_and(|&hit| hit);
                }
            }
            Strings::Fixed { .. } | Strings::Plain { .. } => {
                // The next place of the needle at or after where the row begins; rows before it need no look.
                let mut next = None;
                for (row, index) in rows {
                    let span = strings.span(packed, index);
                    if next.is_none_or(|next| next < span.start) {
                        match finder.find(&text[span.start..]) {
                            Some(at) => next = Some(span.start + at),
                            None => return,
                        }
                    }
                    found[row] |= next.is_some_and(|next| next + finder.needle().len() <= span.end);
                }
            }
        }
    }
}

impl ColumnRef<'_> {
    /// The same for values that are no strings: one by one. Of equal ones in a row the first alone is printed.
    fn mark_values_containing(&self, needle: &Needle, found: &mut [bool]) {
        let column = self.column();
        let mut last: Option<(Property<'_>, bool)> = None;
        for (row, index) in column.rows(self.page.len()).zip(0..) {
            let Some(value) = column.value(index, &self.page.packed, &self.page.text) else { continue };
            let is_in = match last {
                // Zeros of both signs are equal and printed otherwise.
                Some((known, is_in)) if known == value && column.kind != PropertyKind::Double => is_in,
                _ => needle.is_in(value),
            };
            last = Some((value, is_in));
            found[row] |= is_in;
        }
    }
}

fn check(header: &PageHeader, body: &[u8], expected: u64) -> Result<(), PageError> {
    let found = header.checksum_of(body);
    if found == expected { Ok(()) } else { Err(PageError::Checksum { expected, found }) }
}

/// The sections of a page, none of them read yet.
struct PageFrame<'a> {
    rows: usize,
    raw_bytes: usize,
    /// With [`PADDING`] behind it.
    packed: Vec<u8>,
    strings: Vec<u8>,
    meta: Cow<'a, [u8]>,
}

impl<'a> PageFrame<'a> {
    fn open(header: &PageHeader, body: &'a [u8]) -> Result<PageFrame<'a>, PageError> {
        let damaged = |what| Err(PageError::Damaged(what));
        let (Ok(rows), Ok(raw_bytes)) = (usize::try_from(header.entities), usize::try_from(header.raw_bytes)) else {
            return damaged("it is larger than memory can be");
        };
        if rows == 0 || raw_bytes > RAW_BYTES_MAX || rows > raw_bytes / ROW_BYTES {
            return damaged("it says it is of a size that no page has");
        }
        let mut reader = ByteReader::new(body);
        let packed_length = reader.count(body.len())?;
        let strings_length = reader.count(raw_bytes)?;
        let meta_length = reader.count(raw_bytes - strings_length)?;
        let mut packed = Vec::with_capacity(packed_length + PADDING);
        packed.extend_from_slice(reader.take(packed_length)?);
        packed.resize(packed_length + PADDING, 0);
        let (strings, meta) = match decompress(header.codec, reader.rest(), strings_length + meta_length)? {
            Cow::Borrowed(stored) => {
                let (strings, meta) = stored.split_at(strings_length);
                (strings.to_vec(), Cow::Borrowed(meta))
            }
            Cow::Owned(mut strings) => {
                let meta = strings.split_off(strings_length);
                (strings, Cow::Owned(meta))
            }
        };
        Ok(PageFrame { rows, raw_bytes, packed, strings, meta })
    }
}

/// The frame's bytes before compression: exactly `length`, which the caller has checked.
fn decompress(codec: u8, frame: &[u8], length: usize) -> Result<Cow<'_, [u8]>, PageError> {
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let damaged = |_| PageError::Damaged("its text cannot be decompressed");
    let bytes = match codec {
        CODEC_STORED => Cow::Borrowed(frame),
        CODEC_ZSTD => DECOMPRESSOR.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Some(zstd::bulk::Decompressor::new().map_err(damaged)?);
            }
            let decompressor = kept.as_mut().ok_or(PageError::Damaged("there is no memory to decompress it"))?;
            decompressor.decompress(frame, length).map(Cow::Owned).map_err(damaged)
        })?,
        _ => return Err(PageError::Codec(codec)),
    };
    if bytes.len() == length { Ok(bytes) } else { Err(PageError::Damaged("its text has another length")) }
}
