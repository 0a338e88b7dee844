//! A page as it was read. Numbers stay packed until they are used.

use super::bits::BLOCK_ROWS;
use super::column::{EncodedValues, PageColumn};
use super::ints::Ints;
use super::keys::EncodedKeys;
use super::{PageError, WRONG_END};
use crate::format::listed_rows::ListedRows;
use daytable_model::key::RowKey;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The share of a page's rows that are printed alone. More rows are printed faster all together.
const ALONE_SHARE: usize = 32;

/// A decoded page. Rows are numbered from 0, the newest first. Methods may panic for a missing row, like a slice, if
/// their documentation states it.
#[derive(Debug)]
pub struct Page {
    rows: usize,
    first: RowKey,
    last: RowKey,
    encoded_keys: EncodedKeys,
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
    /// Whether columns or keys were not read.
    is_front: bool,
}

/// What a page is made of.
pub(super) struct PageParts {
    pub(super) rows: usize,
    /// The first and the last key.
    pub(super) ends: (RowKey, RowKey),
    pub(super) encoded_keys: EncodedKeys,
    pub(super) levels: Ints,
    pub(super) columns: Vec<PageColumn>,
    pub(super) owners: Option<Ints>,
    pub(super) packed: Vec<u8>,
    pub(super) text: Vec<u8>,
}

impl Page {
    /// A page of what was read.
    pub(super) fn of_parts(parts: PageParts) -> Result<Page, PageError> {
        let PageParts { rows, ends: (first, last), encoded_keys, levels, columns, owners, packed, text } = parts;
        let text = String::from_utf8(text).map_err(|_| PageError::Damaged("its text is not UTF-8"))?;
        let is_front = encoded_keys.are_apart() || columns.iter().any(PageColumn::is_skipped);
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

    /// Whether columns or keys were not read: those that a question does not need.
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
