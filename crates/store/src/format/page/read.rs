//! Reads a page: checks it and decompresses its texts. Numbers stay packed until they are used.

use super::bits::{BLOCK_ROWS, ByteReader, PADDING, SectionCursor};
use super::column::{EncodedValues, PageColumn};
use super::ints::Ints;
use super::keys::EncodedKeys;
use super::{CODEC_STORED, CODEC_ZSTD, PageAddress, PageError, PageHeader, RAW_BYTES_MAX, ROW_BYTES};
use crate::format::listed_rows::ListedRows;
use daytable_model::key::RowKey;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_64;

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
    /// The values of columns that list their rows, once they were asked for by row.
    listed: OnceLock<ListedRows>,
    /// The partition of each row by its number in the page, in a page of many partitions.
    owners: Option<Ints>,
    packed: Vec<u8>,
    text: String,
    /// Rows that were asked for alone.
    alone: AtomicUsize,
    /// Whether columns were not read.
    is_front: bool,
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

    /// Checks the bytes of a page without decoding it.
    pub(crate) fn check_of(address: PageAddress, seq: i64, header: &PageHeader, body: &[u8]) -> Result<(), PageError> {
        check(header, body, address.stored_checksum(header, seq))
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

    /// The same of the front of a page, and of the columns that `needs` accepts; `None` if one of them is apart.
    pub(crate) fn decode_front(
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        front: &[u8],
        needs: impl Fn(&str, PropertyKind) -> bool,
    ) -> Result<Option<Page>, PageError> {
        let (expected, found) = (address.stored_checksum(header, seq), header.checksum_of_front(front));
        if found != expected {
            return Err(PageError::Checksum { expected, found });
        }
        let mut page = Page::with_columns(header, PageFrame::open_front(header, front)?, &needs)?;
        let is_apart = page.is_front && page.columns.iter().any(PageColumn::is_wide);
        page.is_front |= page.columns.iter().any(PageColumn::is_skipped);
        Ok((!is_apart).then_some(page))
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
        Page::with_columns(header, frame, &|_, _| true)
    }

    /// Reads those columns that `needs` accepts.
    fn with_columns(
        header: &PageHeader,
        frame: PageFrame<'_>,
        needs: &dyn Fn(&str, PropertyKind) -> bool,
    ) -> Result<Page, PageError> {
        let damaged = |what| Err(PageError::Damaged(what));
        let PageFrame { rows, raw_bytes, packed, packed_length, wide, is_front, strings, meta } = frame;
        let mut cursor = SectionCursor::new((&packed, packed_length, wide), strings, &meta, raw_bytes);
        let encoded_keys = Box::new(EncodedKeys::parse(rows, header.first, &mut cursor)?);
        let levels = Ints::decode(rows, &mut cursor)?;
        let known = |code| code == 0 || u8::try_from(code).ok().and_then(Level::from_code).is_some();
        levels.check(rows, &packed, known)?;
        let count = cursor.meta.count(meta.len())?;
        let mut columns = Vec::with_capacity(count.min(COLUMNS_AT_ONCE));
        for _ in 0..count {
            columns.push(PageColumn::decode(rows, &mut cursor, needs)?);
        }
        let owners = if cursor.at_end() { None } else { Some(Ints::decode(rows, &mut cursor)?) };
        if !cursor.at_end() {
            return damaged(WRONG_END);
        }
        let text = String::from_utf8(cursor.text).map_err(|_| PageError::Damaged("its text is not UTF-8"))?;
        let PageHeader { first, last, .. } = *header;
        let page = Page {
            rows,
            first,
            last,
            encoded_keys,
            keys: OnceLock::new(),
            levels,
            columns,
            listed: OnceLock::new(),
            owners,
            packed,
            text,
            alone: AtomicUsize::new(0),
            is_front,
        };
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

    /// Passes the number in the page of each row's partition, in a page of many partitions.
    pub(crate) fn each_owner(&self, mut each: impl FnMut(usize, usize)) {
        let Some(owners) = &self.owners else { return };
        let mut block = [0; BLOCK_ROWS];
        for from in (0..self.rows).step_by(BLOCK_ROWS) {
            let block = &mut block[..BLOCK_ROWS.min(self.rows - from)];
            owners.unpack(&self.packed, from, block);
            for (row, owner) in (from..).zip(block) {
                // A number of no partition is beyond all of them.
                each(row, usize::try_from(*owner).unwrap_or(usize::MAX));
            }
        }
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

    /// About the bytes that it has in memory.
    pub(crate) fn memory(&self) -> usize {
        let keys = self.rows * size_of::<RowKey>();
        self.packed.len() + self.text.len() + keys + self.columns.len() * size_of::<PageColumn>()
    }

    /// Whether columns were not read: those that a question does not need.
    pub(crate) fn is_front(&self) -> bool {
        self.is_front
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

    /// Passes the time of each row, newest first, without decoding keys. An error if the times are not those of a page.
    pub(crate) fn each_time(&self, mut each: impl FnMut(usize, Ticks)) -> Result<(), PageError> {
        match self.keys.get() {
            Some(keys) => keys.iter().enumerate().for_each(|(row, key)| each(row, key.time())),
            None => self.encoded_keys.each_time(&self.packed, each)?,
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn encoded_times(&self, each: impl FnMut(usize, Ticks)) {
        self.encoded_keys.each_time(&self.packed, each).expect("times");
    }

    /// Passes the code of the level of each row of `among`, 0 for none.
    pub(crate) fn each_level(&self, among: &RowSet, mut each: impl FnMut(usize, u8)) {
        let mut block = [0; BLOCK_ROWS];
        for (start, wanted) in (0..self.len()).step_by(BLOCK_ROWS).zip(among.words()) {
            let codes = &mut block[..BLOCK_ROWS.min(self.len() - start)];
            if *wanted == 0 {
                continue;
            }
            self.levels.unpack(&self.packed, start, codes);
            for (row, code) in codes.iter().enumerate() {
                if wanted >> row & 1 == 1 {
                    // Codes were checked when the page was read.
                    each(start + row, u8::try_from(*code).unwrap_or(0));
                }
            }
        }
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
        for (number, index) in self.indices(row) {
            let column = &self.columns[number];
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
    pub(crate) fn values(&self, row: usize) -> impl Iterator<Item = (usize, Property<'_>)> {
        let value = |number: usize, index| self.columns[number].value(index, &self.packed, &self.text);
        self.indices(row).filter_map(move |(number, index)| Some((number, value(number, index)?)))
    }

    /// The columns with a value of a row, in their order, and the number of the value in each.
    fn indices(&self, row: usize) -> impl Iterator<Item = (usize, usize)> {
        let listed = self.listed.get_or_init(|| ListedRows::of(self.columns.iter().map(PageColumn::listed)));
        let columns = (row < self.len()).then(|| listed.columns(row)).into_iter().flatten();
        columns.filter_map(move |(number, index)| Some((number, index.or_else(|| self.columns[number].index(row))?)))
    }

    /// Bytes that tell which rows have the values.
    #[cfg(test)]
    pub(super) fn presence_bytes(&self) -> usize {
        self.columns.iter().map(PageColumn::presence_bytes).sum()
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

    /// Whether its values were not read.
    pub(crate) fn is_missing(&self) -> bool {
        self.column().is_skipped()
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

    /// The rows that it lists, if it does.
    pub(crate) fn listed(&self) -> Option<&'p [u32]> {
        self.column().listed()
    }

    /// Passes the values of some rows, in their order.
    pub(crate) fn each_between(&self, rows: Range<usize>, mut each: impl FnMut(usize, Property<'p>)) {
        let Some(listed) = self.listed() else {
            return rows.for_each(|row| self.value(row).into_iter().for_each(|value| each(row, value)));
        };
        let start = listed.partition_point(|row| (*row as usize) < rows.start);
        let some = listed[start..].iter().map(|row| *row as usize).take_while(|row| *row < rows.end);
        for (row, index) in some.zip(start..) {
            if let Some(value) = self.column().value(index, &self.page.packed, &self.page.text) {
                each(row, value);
            }
        }
    }

    /// The value of a row.
    pub fn value(&self, row: usize) -> Option<Property<'p>> {
        let index = if row < self.page.len() { self.column().index(row)? } else { return None };
        self.column().value(index, &self.page.packed, &self.page.text)
    }
}

pub(super) fn check(header: &PageHeader, body: &[u8], expected: u64) -> Result<(), PageError> {
    let (front, wide) = split(body);
    let found = header.checksum_of_front(front);
    if found != expected {
        return Err(PageError::Checksum { expected, found });
    }
    match wide.map(|(expected, wide)| (expected, xxh3_64(wide))) {
        Some((expected, found)) if found != expected => Err(PageError::Checksum { expected, found }),
        _ => Ok(()),
    }
}

/// The lengths of the sections of a body, at its beginning.
struct SectionLengths {
    packed: usize,
    wide: usize,
    strings: usize,
    meta: usize,
    /// The checksum of the wide bytes, if they are apart.
    apart: Option<u64>,
}

impl SectionLengths {
    fn read(reader: &mut ByteReader<'_>) -> Result<SectionLengths, PageError> {
        let packed = reader.count(RAW_BYTES_MAX)?;
        let wide = reader.count(2 * RAW_BYTES_MAX)?;
        let strings = reader.count(RAW_BYTES_MAX)?;
        let meta = reader.count(RAW_BYTES_MAX)?;
        let apart = if wide & 1 == 1 { Some(u64::from_le_bytes(reader.array()?)) } else { None };
        Ok(SectionLengths { packed, wide: wide >> 1, strings, meta, apart })
    }
}

/// The front of a body, and the wide bytes that are apart with their checksum. Any bytes have a front.
pub(super) fn split(body: &[u8]) -> (&[u8], Option<(u64, &[u8])>) {
    let Ok(SectionLengths { wide, apart: Some(checksum), .. }) = SectionLengths::read(&mut ByteReader::new(body))
    else {
        return (body, None);
    };
    match body.len().checked_sub(wide).and_then(|front| body.split_at_checked(front)) {
        Some((front, wide)) => (front, Some((checksum, wide))),
        None => (body, None),
    }
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
    /// Followed by the wide bytes, if they were read, and [`PADDING`].
    packed: Vec<u8>,
    packed_length: usize,
    wide: usize,
    /// Whether the wide bytes were not read.
    is_front: bool,
    strings: Vec<u8>,
    meta: Cow<'a, [u8]>,
}

impl<'a> PageFrame<'a> {
    pub(super) fn sections(&self) -> PageSections<'_> {
        PageSections { packed: &self.packed, strings: &self.strings, meta: &self.meta }
    }

    /// The sections of a body.
    pub(super) fn open(header: &PageHeader, body: &'a [u8]) -> Result<PageFrame<'a>, PageError> {
        let (front, apart) = split(body);
        match PageFrame::of(header, front, apart.map(|(_, wide)| wide))? {
            PageFrame { is_front: true, .. } => Err(PageError::Damaged("its wide bytes are missing")),
            frame => Ok(frame),
        }
    }

    /// The sections of the front of a body.
    pub(super) fn open_front(header: &PageHeader, front: &'a [u8]) -> Result<PageFrame<'a>, PageError> {
        PageFrame::of(header, front, None)
    }

    fn of(header: &PageHeader, front: &'a [u8], apart: Option<&[u8]>) -> Result<PageFrame<'a>, PageError> {
        let damaged = |what| Err(PageError::Damaged(what));
        let (Ok(rows), Ok(raw_bytes)) = (usize::try_from(header.entities), usize::try_from(header.raw_bytes)) else {
            return damaged("it is larger than memory can be");
        };
        if rows == 0 || raw_bytes > RAW_BYTES_MAX || rows > raw_bytes / ROW_BYTES {
            return damaged("it claims a size that no page has");
        }
        let mut reader = ByteReader::new(front);
        let lengths = SectionLengths::read(&mut reader)?;
        let SectionLengths { packed: packed_length, wide, strings: strings_length, meta: meta_length, .. } = lengths;
        if strings_length.saturating_add(meta_length) > raw_bytes {
            return damaged("it claims more text than it has");
        }
        let numbers = reader.take(packed_length)?;
        let wide_bytes = match (lengths.apart, apart) {
            (Some(_), apart) => apart.unwrap_or_default(),
            (None, _) => reader.take(wide)?,
        };
        let is_front = wide_bytes.len() < wide;
        let mut packed = Vec::with_capacity(packed_length + wide_bytes.len() + PADDING);
        packed.extend_from_slice(numbers);
        packed.extend_from_slice(wide_bytes);
        packed.resize(packed.len() + PADDING, 0);
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
        Ok(PageFrame { rows, raw_bytes, packed, packed_length, wide, is_front, strings, meta })
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
