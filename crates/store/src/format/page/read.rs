//! Reads a page: checks it and decompresses its texts. Numbers stay packed until they are used.

use super::bits::{ByteReader, PADDING, SectionCursor};
use super::column::{EncodedValues, PageColumn};
use super::ints::Ints;
use super::keys::EncodedKeys;
use super::{CODEC_STORED, CODEC_ZSTD, PageAddress, PageError, PageHeader, RAW_BYTES_MAX, ROW_BYTES};
use daytable_model::key::RowKey;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Columns for which memory is reserved at first: a damaged page may claim more than it has.
const COLUMNS_AT_ONCE: usize = 32;
/// What is wrong with a page that has more, or other keys.
const WRONG_END: &str = "it does not end where it should";
/// The share of a page's rows that are printed alone. More rows are printed faster all together.
const ALONE_SHARE: usize = 32;

/// A decoded page. Rows are numbered from 0, the newest first. Methods may panic for a missing row, like a slice, if
/// their documentation states it.
#[derive(Debug)]
pub struct Page {
    rows: usize,
    first: RowKey,
    last: RowKey,
    encoded_keys: Box<EncodedKeys>,
    /// The keys, once they were decoded.
    keys: OnceLock<Vec<RowKey>>,
    levels: Ints,
    columns: Vec<PageColumn>,
    /// The partition of each row by its number in the page, in a page of many partitions.
    owners: Option<Ints>,
    packed: Vec<u8>,
    text: String,
    /// Rows that were asked for alone.
    alone: AtomicUsize,
}

impl Page {
    /// Reads a page that was just built. An error if a byte of header or body changed.
    pub fn decode(header: &PageHeader, body: &[u8]) -> Result<Page, PageError> {
        Page::decode_checked(header, body, header.checksum)
    }

    /// Reads a page from a file, as a page of `address` that commit `seq` wrote. An error if it belongs to another
    /// address.
    pub(crate) fn decode_of(
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        body: &[u8],
    ) -> Result<Page, PageError> {
        Page::decode_checked(header, body, address.stored_checksum(header, seq))
    }

    /// The same; `None` if `wants` refuses the page by its sections. Its keys are decoded by [`Page::read_keys`].
    pub(crate) fn decode_wanted(
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        body: &[u8],
        wants: impl FnOnce(&PageSections<'_>) -> bool,
    ) -> Result<Option<Page>, PageError> {
        check(header, body, address.stored_checksum(header, seq))?;
        let frame = PageFrame::open(header, body)?;
        if wants(&frame.sections()) { Page::without_keys(header, frame).map(Some) } else { Ok(None) }
    }

    fn decode_checked(header: &PageHeader, body: &[u8], expected: u64) -> Result<Page, PageError> {
        check(header, body, expected)?;
        Page::decode_unchecked(header, body)
    }

    /// Reads a page whose checksum is right. Nevertheless accepts any bytes.
    pub(super) fn decode_unchecked(header: &PageHeader, body: &[u8]) -> Result<Page, PageError> {
        Page::of(header, PageFrame::open(header, body)?)
    }

    pub(super) fn of(header: &PageHeader, frame: PageFrame<'_>) -> Result<Page, PageError> {
        let page = Page::without_keys(header, frame)?;
        page.read_keys()?;
        Ok(page)
    }

    fn without_keys(header: &PageHeader, frame: PageFrame<'_>) -> Result<Page, PageError> {
        let damaged = |what| Err(PageError::Damaged(what));
        let PageFrame { rows, raw_bytes, packed, strings, meta } = frame;
        let mut cursor = SectionCursor::new(&packed, strings, &meta, raw_bytes);
        let encoded_keys = Box::new(EncodedKeys::parse(rows, header.first, &mut cursor)?);
        let levels = Ints::decode(rows, &mut cursor)?;
        let known = |code| code == 0 || u8::try_from(code).ok().and_then(Level::from_code).is_some();
        levels.check(rows, &packed, known)?;
        let count = cursor.meta.count(meta.len())?;
        let mut columns = Vec::with_capacity(count.min(COLUMNS_AT_ONCE));
        for _ in 0..count {
            columns.push(PageColumn::decode(rows, &mut cursor)?);
        }
        let owners = if cursor.at_end() { None } else { Some(Ints::decode(rows, &mut cursor)?) };
        if !cursor.at_end() {
            return damaged(WRONG_END);
        }
        let text = String::from_utf8(cursor.text).map_err(|_| PageError::Damaged("its text is not UTF-8"))?;
        let PageHeader { first, last, .. } = *header;
        let (keys, alone) = (OnceLock::new(), AtomicUsize::new(0));
        let page = Page { rows, first, last, encoded_keys, keys, levels, columns, owners, packed, text, alone };
        page.check_texts()?;
        Ok(page)
    }

    /// Checks that every text begins and ends at a character boundary.
    fn check_texts(&self) -> Result<(), PageError> {
        let whole = |at: u32| self.text.is_char_boundary(at as usize);
        let ascii = self.text.is_ascii();
        let fits = ascii
            || self.columns.iter().all(|column| {
                whole(column.name.start)
                    && whole(column.name.end)
                    && match &column.values {
                        EncodedValues::Strings(strings) => strings.is_whole(whole),
                        _ => true,
                    }
            });
        if fits { Ok(()) } else { Err(PageError::Damaged("a text ends within a character")) }
    }

    /// The number in the page of a row's partition; `None` in a page of one partition.
    pub(crate) fn owner(&self, row: usize) -> Option<usize> {
        usize::try_from(self.owners.as_ref()?.get(&self.packed, row)).ok()
    }

    /// Whether its rows are of many partitions.
    pub(crate) fn has_owners(&self) -> bool {
        self.owners.is_some()
    }

    /// Number of entities.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Always false: a page has at least one entity.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Its oldest and its newest time, without its keys.
    pub(crate) fn times(&self) -> (Ticks, Ticks) {
        (self.last.time(), self.first.time())
    }

    /// The keys of its rows, newest first; decoded on the first call. An error if they are not those of a page.
    pub(crate) fn read_keys(&self) -> Result<&[RowKey], PageError> {
        if let Some(keys) = self.keys.get() {
            return Ok(keys);
        }
        let keys = self.encoded_keys.decode(&self.packed)?;
        if keys.last() != Some(&self.last) {
            return Err(PageError::Damaged(WRONG_END));
        }
        Ok(self.keys.get_or_init(|| keys))
    }

    /// The keys of its rows, newest first. Empty only if they cannot be read.
    pub fn keys(&self) -> &[RowKey] {
        self.read_keys().unwrap_or_default()
    }

    /// The key of a row. Panics if the row does not exist.
    pub fn key(&self, row: usize) -> RowKey {
        self.keys()[row]
    }

    /// The level of a row; `None` for items and for records without a level.
    pub fn level(&self, row: usize) -> Option<Level> {
        let known = |code| u8::try_from(code).ok().and_then(Level::from_code);
        if row < self.len() { known(self.levels.get(&self.packed, row)) } else { None }
    }

    /// The properties of a row in the order of the columns; empty for a missing row.
    pub fn properties(&self, row: usize) -> impl Iterator<Item = (&str, Property<'_>)> {
        self.values(row).map(|(number, value)| (self.name(number), value))
    }

    /// Passes the properties of a row in the order of the columns. Texts that are stored in another form are printed
    /// for this row alone, until many rows were asked for.
    pub fn each_property(&self, row: usize, mut each: impl FnMut(&str, Property<'_>)) {
        let is_alone = self.alone.fetch_add(1, Ordering::Relaxed) < self.len() / ALONE_SHARE;
        let mut room = String::new();
        for (number, column) in self.columns.iter().enumerate() {
            let Some(index) = (row < self.len()).then(|| column.index(row)).flatten() else { continue };
            let value = match is_alone {
                true => column.value_in(index, &self.packed, &self.text, &mut room),
                false => column.value(index, &self.packed, &self.text),
            };
            if let Some(value) = value {
                each(self.name(number), value);
            }
        }
    }

    /// The properties of a row with the numbers of their columns.
    pub(super) fn values(&self, row: usize) -> impl Iterator<Item = (usize, Property<'_>)> {
        let columns = if row < self.len() { self.columns.as_slice() } else { &[] };
        let value = move |(number, column): (usize, &'_ PageColumn)| Some((number, column.index(row)?));
        columns
            .iter()
            .enumerate()
            .filter_map(value)
            .filter_map(|(number, index)| Some((number, self.columns[number].value(index, &self.packed, &self.text)?)))
    }

    /// Number of columns.
    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    /// The name of a column; empty for a missing one.
    pub(super) fn name(&self, number: usize) -> &str {
        self.columns.get(number).and_then(|column| self.text.get(column.name.range())).unwrap_or_default()
    }

    /// The columns. A property with two kinds has two columns.
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

    /// For each row, whether any of its properties contains the needle. A shared text is searched once, and adjacent
    /// texts in one pass. Columns of numbers that cannot contain the needle are skipped.
    pub fn any_value_contains(&self, needle: &Needle) -> RowSet {
        let (all, mut found) = (RowSet::all(self.len()), RowSet::none(self.len()));
        for column in self.columns() {
            column.add_containing(needle, &all, &mut found);
        }
        found
    }

    /// Whether the names, dictionaries, patterns and texts of the page have this text.
    pub(crate) fn has_text(&self, text: &memchr::memmem::Finder<'_>) -> bool {
        text.find(self.text.as_bytes()).is_some()
    }

    pub(super) fn packed(&self) -> &[u8] {
        &self.packed
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// A column of a page.
#[derive(Clone, Copy)]
pub struct ColumnRef<'p> {
    page: &'p Page,
    number: usize,
}

impl<'p> ColumnRef<'p> {
    pub(super) fn page(&self) -> &'p Page {
        self.page
    }

    pub(super) fn column(&self) -> &'p PageColumn {
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

    /// Number of rows with a value.
    pub fn count(&self) -> usize {
        self.column().count(self.page.len())
    }

    /// The value of a row.
    pub fn value(&self, row: usize) -> Option<Property<'p>> {
        let index = if row < self.page.len() { self.column().index(row)? } else { return None };
        self.column().value(index, &self.page.packed, &self.page.text)
    }
}

pub(super) fn check(header: &PageHeader, body: &[u8], expected: u64) -> Result<(), PageError> {
    let found = header.checksum_of(body);
    if found == expected { Ok(()) } else { Err(PageError::Checksum { expected, found }) }
}

/// The sections of a page before its columns are read.
#[derive(Clone, Copy, Debug)]
pub struct PageSections<'p> {
    pub(super) packed: &'p [u8],
    pub(super) strings: &'p [u8],
    pub(super) meta: &'p [u8],
}

/// The sections of a page before they are parsed.
pub(super) struct PageFrame<'a> {
    rows: usize,
    raw_bytes: usize,
    /// Followed by [`PADDING`].
    packed: Vec<u8>,
    strings: Vec<u8>,
    meta: Cow<'a, [u8]>,
}

impl<'a> PageFrame<'a> {
    pub(super) fn sections(&self) -> PageSections<'_> {
        PageSections { packed: &self.packed, strings: &self.strings, meta: &self.meta }
    }

    pub(super) fn open(header: &PageHeader, body: &'a [u8]) -> Result<PageFrame<'a>, PageError> {
        let damaged = |what| Err(PageError::Damaged(what));
        let (Ok(rows), Ok(raw_bytes)) = (usize::try_from(header.entities), usize::try_from(header.raw_bytes)) else {
            return damaged("it is larger than memory can be");
        };
        if rows == 0 || raw_bytes > RAW_BYTES_MAX || rows > raw_bytes / ROW_BYTES {
            return damaged("it claims a size that no page has");
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

/// Decompresses a frame of zstd to exactly `length` bytes, which the caller has bounded.
pub(crate) fn unpack(frame: &[u8], length: usize) -> Result<Cow<'_, [u8]>, PageError> {
    decompress(CODEC_ZSTD, frame, length)
}

/// Decompresses a frame to exactly `length` bytes, which the caller has bounded.
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
