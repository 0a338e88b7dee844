//! Rows of a sealed file in memory, by columns.
//!
//! Values are copied out of the file's pages, so that a row does not keep its neighbours' pages in memory. The map of
//! further properties is split into columns here, so readers of a block do not distinguish the two. A column that most rows
//! lack lists its rows: it takes memory for its values, not for the rows of the block.

use super::text;
use crate::format::listed_rows::ListedRows;
use crate::format::page::ValueReader;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::key::RowKey;
use daytable_model::line::LAYOUT;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Marks a row without a value: see [`Presence::Indices`].
const NONE: u32 = u32::MAX;
/// A column lists its rows if at most one row of this many has a value.
const LISTED_SHARE: usize = 8;

/// Numbers whose results [`BlockColumn::map`] remembers.
const NUMBERS_KNOWN: usize = 64;

/// Rows of a sealed file.
#[derive(Debug, Default)]
pub(crate) struct RowBlock {
    pub(crate) keys: Vec<RowKey>,
    /// Level codes; 0 for no level.
    pub(crate) levels: Vec<u8>,
    columns: Vec<BlockColumn>,
    /// The values of columns that list their rows, once they were asked for by row.
    listed: OnceLock<ListedRows>,
}

/// The values of one property and type.
#[derive(Debug)]
pub(crate) struct BlockColumn {
    name: Arc<str>,
    kind: PropertyKind,
    present: Presence,
    /// For each row with a value, in the order of the rows: the index of its value. `None` if the values are in the
    /// order of the rows, or if `present` has the indices.
    which: Option<Box<[u32]>>,
    stored: BlockValues,
    count: usize,
}

/// The rows with a value.
#[derive(Debug)]
enum Presence {
    All,
    /// The index of the value of each row; [`NONE`] for a row without a value.
    Indices(Box<[u32]>),
    /// These rows, in order.
    Listed(Box<[u32]>),
}

#[derive(Debug)]
pub(crate) enum BlockValues {
    /// The concatenated values, and the end of each.
    Strings(String, Vec<u32>),
    Binaries(Vec<u8>, Vec<u32>),
    /// Int64, Int32, DateTime as ticks, Boolean.
    Ints(Vec<i64>),
    Doubles(Vec<f64>),
    Guids(Vec<[u8; 16]>),
}

impl BlockValues {
    pub(crate) fn new(kind: PropertyKind) -> BlockValues {
        match kind {
            PropertyKind::String => BlockValues::Strings(String::new(), Vec::new()),
            PropertyKind::Binary => BlockValues::Binaries(Vec::new(), Vec::new()),
            PropertyKind::Double => BlockValues::Doubles(Vec::new()),
            PropertyKind::Guid => BlockValues::Guids(Vec::new()),
            PropertyKind::Int64 | PropertyKind::Int32 | PropertyKind::DateTime | PropertyKind::Boolean => {
                BlockValues::Ints(Vec::new())
            }
        }
    }

    /// Texts, one after the other, each up to its end; `None` if one is not UTF-8.
    pub(super) fn strings(all: Vec<u8>, ends: Vec<u32>) -> Option<BlockValues> {
        // All of them are looked at at once: one after the other, a call each takes longer than the texts.
        let all = String::from_utf8(all).ok()?;
        let are_whole = all.is_ascii() || ends.iter().all(|end| all.is_char_boundary(*end as usize));
        are_whole.then_some(BlockValues::Strings(all, ends))
    }

    /// Adds a value; false for another type, or if the offsets exceed 32 bits.
    pub(crate) fn push(&mut self, value: Property<'_>) -> bool {
        let ends_at = |length: usize, ends: &mut Vec<u32>| {
            let end = u32::try_from(length);
            ends.push(end.unwrap_or(NONE));
            end.is_ok()
        };
        match (self, value) {
            (BlockValues::Strings(all, ends), Property::String(text)) => {
                all.push_str(text);
                return ends_at(all.len(), ends);
            }
            (BlockValues::Binaries(all, ends), Property::Binary(bytes)) => {
                all.extend_from_slice(bytes);
                return ends_at(all.len(), ends);
            }
            (BlockValues::Ints(all), Property::Int64(n)) => all.push(n),
            (BlockValues::Ints(all), Property::Int32(n)) => all.push(n.into()),
            (BlockValues::Ints(all), Property::DateTime(time)) => all.push(time.get()),
            (BlockValues::Ints(all), Property::Boolean(b)) => all.push(b.into()),
            (BlockValues::Doubles(all), Property::Double(n)) => all.push(n),
            (BlockValues::Guids(all), Property::Guid(guid)) => all.push(guid),
            _ => return false,
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            BlockValues::Strings(_, ends) | BlockValues::Binaries(_, ends) => ends.len(),
            BlockValues::Ints(all) => all.len(),
            BlockValues::Doubles(all) => all.len(),
            BlockValues::Guids(all) => all.len(),
        }
    }

    fn value(&self, kind: PropertyKind, index: usize) -> Option<Property<'_>> {
        let span = |ends: &[u32]| {
            let start = if index == 0 { 0 } else { *ends.get(index - 1)? as usize };
            Some(start..*ends.get(index)? as usize)
        };
        Some(match self {
            BlockValues::Strings(all, ends) => Property::String(all.get(span(ends)?)?),
            BlockValues::Binaries(all, ends) => Property::Binary(all.get(span(ends)?)?),
            BlockValues::Doubles(all) => Property::Double(*all.get(index)?),
            BlockValues::Guids(all) => Property::Guid(*all.get(index)?),
            BlockValues::Ints(all) => {
                let n = *all.get(index)?;
                match kind {
                    PropertyKind::Int32 => Property::Int32(i32::try_from(n).ok()?),
                    PropertyKind::DateTime => Property::DateTime(Ticks::new(n)?),
                    PropertyKind::Boolean => Property::Boolean(n != 0),
                    _ => Property::Int64(n),
                }
            }
        })
    }
}

impl BlockColumn {
    /// A column. `levels` marks the rows with a value (1 or 0); all rows without it. `which` selects the value of
    /// each such row; all values in order without it.
    pub(crate) fn new(
        name: Arc<str>,
        kind: PropertyKind,
        levels: Option<&[i16]>,
        which: Option<Vec<u32>>,
        stored: BlockValues,
    ) -> BlockColumn {
        let count = which.as_ref().map_or(stored.len(), Vec::len);
        let Some(levels) = levels.filter(|levels| levels.iter().min() == Some(&0)) else {
            return BlockColumn { name, kind, present: Presence::All, which: which.map(Vec::into), stored, count };
        };
        if count * LISTED_SHARE <= levels.len() {
            let rows = (0..).zip(levels).filter(|(_, level)| **level != 0).map(|(row, _)| row);
            let present = Presence::Listed(rows.collect());
            return BlockColumn { name, kind, present, which: which.map(Vec::into), stored, count };
        }
        let mut next = 0;
        let index = |level: &i16| {
            if *level == 0 {
                return NONE;
            }
            next += 1;
            match &which {
                None => next - 1,
                Some(which) => which.get(next as usize - 1).copied().unwrap_or(NONE),
            }
        };
        let present = Presence::Indices(levels.iter().map(index).collect());
        BlockColumn { name, kind, present, which: None, stored, count }
    }

    /// A column of a block of `rows` rows. Those of `listed`, which are in order, have a value each.
    pub(crate) fn listed(
        name: Arc<str>,
        kind: PropertyKind,
        rows: usize,
        listed: Vec<u32>,
        stored: BlockValues,
    ) -> BlockColumn {
        let count = stored.len();
        let present = if count * LISTED_SHARE <= rows {
            Presence::Listed(listed.into())
        } else if count == rows {
            Presence::All
        } else {
            let mut indices = vec![NONE; rows];
            listed.iter().zip(0..).for_each(|(row, index)| indices[*row as usize] = index);
            Presence::Indices(indices.into())
        };
        BlockColumn { name, kind, present, which: None, stored, count }
    }

    /// A column of texts in which each of these rows has the same one. A text that no row has is in no column.
    pub(crate) fn constant(name: &str, rows: usize, having: &RowSet, text: &str) -> BlockColumn {
        let mut stored = BlockValues::new(PropertyKind::String);
        if !having.is_empty() {
            stored.push(Property::String(text));
        }
        let levels: Vec<i16> = (0..rows).map(|row| having.contains(row).into()).collect();
        BlockColumn::new(name.into(), PropertyKind::String, Some(&levels), Some(vec![0; having.count()]), stored)
    }

    /// The same column of texts, in which these rows without a value have this one. `None` if there is no room for it.
    pub(crate) fn filled_with(&self, rows: usize, filled: &RowSet, text: &str) -> Option<BlockColumn> {
        let BlockValues::Strings(all, ends) = &self.stored else { return None };
        let mut stored = BlockValues::Strings(all.clone(), ends.clone());
        let mut add = || stored.push(Property::String(text));
        let added = u32::try_from(ends.len()).ok().filter(|_| filled.is_empty() || add())?;
        let mut indices = vec![NONE; rows];
        self.each(rows, |row, index| indices[row] = u32::try_from(index).unwrap_or(NONE));
        filled.for_each(|row| indices[row] = added);
        let count = indices.iter().filter(|index| **index != NONE).count();
        let present = Presence::Indices(indices.into());
        Some(BlockColumn { name: self.name.clone(), kind: self.kind, present, which: None, stored, count })
    }

    /// Whether rows with a value are of a record of several rows, or have fields in one text.
    pub(crate) fn is_of_many_rows(&self) -> bool {
        MULTI_ROW_PROPERTIES.contains(&(&*self.name, self.kind))
    }

    /// Marks the rows whose value satisfies `holds`, which is called once for a shared value.
    pub(crate) fn mark(&self, found: &mut [bool], mut holds: impl FnMut(Property<'_>) -> bool) {
        let hits = (0..self.stored.len()).map(|index| self.stored.value(self.kind, index).is_some_and(&mut holds));
        let hits: Vec<bool> = hits.collect();
        if hits.contains(&true) {
            self.each(found.len(), |row, index| found[row] |= hits.get(index) == Some(&true));
        }
    }

    pub(crate) fn name_and_kind(&self) -> (&str, PropertyKind) {
        (&self.name, self.kind)
    }

    /// The rows with a value, among `rows` rows.
    pub(crate) fn present(&self, rows: usize) -> RowSet {
        let mut present = RowSet::none(rows);
        match &self.present {
            Presence::All => return RowSet::all(rows),
            _ => self.each(rows, |row, _| present.insert(row)),
        }
        present
    }

    /// Which of this many rows have a value other than the empty text.
    pub(crate) fn filled(&self, rows: usize) -> RowSet {
        let BlockValues::Strings(_, ends) = &self.stored else { return self.present(rows) };
        let is_empty = |index: usize| ends[index] == index.checked_sub(1).map_or(0, |before| ends[before]);
        let mut filled = RowSet::none(rows);
        self.each(rows, |row, index| {
            if index < ends.len() && !is_empty(index) {
                filled.insert(row);
            }
        });
        filled
    }

    /// Applies `read` to the values of the rows `among`, once a shared value, and passes the results on in the order of
    /// the rows.
    pub(crate) fn map<T: Copy>(
        &self,
        among: &RowSet,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        let (stored, kind) = (&self.stored, self.kind);
        if stored.len() < self.count {
            let mut known: Vec<Option<Option<T>>> = vec![None; stored.len()];
            return self.each_index(among, |row, index| {
                let Some(place) = known.get_mut(index) else { return };
                let value = *place.get_or_insert_with(|| stored.value(kind, index).map(&mut read));
                value.into_iter().for_each(|value| each(row, value));
            });
        }
        match (stored, kind) {
            (BlockValues::Ints(all), PropertyKind::Int64) => {
                self.map_numbers(all, among, |n| Some(read(Property::Int64(n))), each);
            }
            (BlockValues::Ints(all), PropertyKind::Int32) => {
                let number = |n| i32::try_from(n).ok().map(|n| read(Property::Int32(n)));
                self.map_numbers(all, among, number, each);
            }
            (BlockValues::Doubles(all), _) => self.each_index(among, |row, index| {
                if let Some(n) = all.get(index) {
                    each(row, read(Property::Double(*n)));
                }
            }),
            _ => self.each_index(among, |row, index| {
                let value = stored.value(kind, index).map(&mut read);
                value.into_iter().for_each(|value| each(row, value));
            }),
        }
    }

    /// Passes the whole numbers of the rows `among` on, in the order of the rows. False, without any, if the values are of
    /// another type.
    pub(crate) fn each_whole(&self, among: &RowSet, mut each: impl FnMut(usize, i64)) -> bool {
        let BlockValues::Ints(all) = &self.stored else { return false };
        if self.kind != PropertyKind::Int64 {
            return false;
        }
        self.each_index(among, |row, index| {
            if let Some(number) = all.get(index) {
                each(row, *number);
            }
        });
        true
    }

    /// Reads the values of the rows `among`, once a shared value, and passes the results on in the order of the rows.
    pub(crate) fn read<T: Copy>(
        &self,
        among: &RowSet,
        reader: &mut impl ValueReader<T>,
        mut each: impl FnMut(usize, T),
    ) {
        if !matches!(self.stored, BlockValues::Strings(..)) {
            return self.map(among, |value| reader.read(value), each);
        }
        let text = |index: usize| match self.stored.value(self.kind, index) {
            Some(Property::String(text)) => text,
            _ => "",
        };
        if among.count() == among.length() {
            // Each text is the value of some row.
            let values = reader.read_texts((0..self.stored.len()).map(text));
            return self
                .each_index(among, |row, index| values.get(index).into_iter().for_each(|value| each(row, *value)));
        }
        if self.stored.len() < self.count {
            return self.map(among, |value| reader.read(value), each);
        }
        let mut wanted = Vec::with_capacity(among.count());
        self.each_index(among, |row, index| wanted.push((row, index)));
        wanted.retain(|(_, index)| *index < self.stored.len());
        let values = reader.read_texts(wanted.iter().map(|(_, index)| text(*index)));
        wanted.iter().zip(values).for_each(|((row, _), value)| each(*row, value));
    }

    /// Adds the rows of `among` whose value satisfies `holds`, which decides about few different values at once.
    pub(crate) fn add_where(&self, among: &RowSet, mut holds: impl FnMut(Property<'_>) -> bool, found: &mut RowSet) {
        let mut insert = |row, holds| {
            if holds {
                found.insert(row);
            }
        };
        if self.stored.len() >= self.count || self.stored.len() > among.count() {
            return self.map(among, holds, insert);
        }
        let verdict = |index| self.stored.value(self.kind, index).is_some_and(&mut holds);
        let verdicts: Vec<bool> = (0..self.stored.len()).map(verdict).collect();
        if verdicts.contains(&true) {
            self.each_index(among, |row, index| insert(row, verdicts.get(index) == Some(&true)));
        }
    }

    /// Applies `read` to the numbers of some rows. Few different numbers come again and again, so some are remembered.
    #[inline]
    fn map_numbers<T: Copy>(
        &self,
        all: &[i64],
        among: &RowSet,
        mut read: impl FnMut(i64) -> Option<T>,
        mut each: impl FnMut(usize, T),
    ) {
        let mut known: [(Option<i64>, Option<T>); NUMBERS_KNOWN] = [(None, None); NUMBERS_KNOWN];
        self.each_index(among, |row, index| {
            let Some(number) = all.get(index).copied() else { return };
            let place = &mut known[number.rem_euclid(NUMBERS_KNOWN as i64) as usize];
            if place.0 != Some(number) {
                *place = (Some(number), read(number));
            }
            if let Some(value) = place.1 {
                each(row, value);
            }
        });
    }

    /// Passes the rows of `among` that have a value, and the index of each value.
    #[inline]
    fn each_index(&self, among: &RowSet, mut each: impl FnMut(usize, usize)) {
        match &self.present {
            Presence::All => among.for_each(|row| each(row, self.chosen(row))),
            Presence::Indices(indices) => among.for_each(|row| {
                if let Some(index) = indices.get(row).filter(|index| **index != NONE) {
                    each(row, *index as usize);
                }
            }),
            Presence::Listed(listed) => {
                let rows = listed.iter().map(|row| *row as usize).enumerate();
                rows.filter(|(_, row)| among.contains(*row)).for_each(|(at, row)| each(row, self.chosen(at)));
            }
        }
    }

    /// Passes those of this many rows that have a value, and the index of each value.
    #[inline]
    fn each(&self, rows: usize, each: impl FnMut(usize, usize)) {
        self.each_between(0..rows, each);
    }

    /// Passes the rows of a range that have a value, and the index of each value.
    #[inline]
    fn each_between(&self, rows: Range<usize>, mut each: impl FnMut(usize, usize)) {
        match &self.present {
            Presence::All => rows.for_each(|row| each(row, self.chosen(row))),
            Presence::Indices(indices) => {
                for (row, index) in rows.clone().zip(indices.get(rows).unwrap_or_default()) {
                    if *index != NONE {
                        each(row, *index as usize);
                    }
                }
            }
            Presence::Listed(listed) => {
                let start = listed.partition_point(|row| (*row as usize) < rows.start);
                let some = listed[start..].iter().map(|row| *row as usize).take_while(|row| *row < rows.end);
                some.zip(start..).for_each(|(row, at)| each(row, self.chosen(at)));
            }
        }
    }

    /// The index of the value of a row.
    #[inline]
    fn index(&self, row: usize) -> Option<usize> {
        match &self.present {
            Presence::All => Some(self.chosen(row)),
            Presence::Indices(indices) => indices.get(row).filter(|index| **index != NONE).map(|index| *index as usize),
            Presence::Listed(listed) => {
                let at = listed.binary_search(&u32::try_from(row).ok()?).ok()?;
                Some(self.chosen(at))
            }
        }
    }

    /// The index of a row's value, by the number of values before it.
    #[inline]
    fn chosen(&self, number: usize) -> usize {
        match &self.which {
            None => number,
            // Beyond all values.
            Some(which) => which.get(number).map_or(usize::MAX, |index| *index as usize),
        }
    }

    fn rows_listed(&self) -> Option<&[u32]> {
        if let Presence::Listed(rows) = &self.present { Some(rows) } else { None }
    }

    /// Approximate bytes of its values; a shared text counts for every row.
    fn bytes(&self, rows: usize) -> usize {
        match &self.stored {
            BlockValues::Strings(_, ends) | BlockValues::Binaries(_, ends) => {
                let mut bytes = 0;
                self.each(rows, |_, index| {
                    let start = index.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied());
                    if let Some((start, end)) = start.zip(ends.get(index)) {
                        bytes += (end - start) as usize + 4;
                    }
                });
                bytes
            }
            BlockValues::Guids(all) => 16 * all.len(),
            other => 8 * other.len(),
        }
    }
}

impl RowBlock {
    /// Rows by their columns.
    pub(crate) fn new(keys: Vec<RowKey>, levels: Vec<u8>, columns: Vec<BlockColumn>) -> RowBlock {
        RowBlock { keys, levels, columns, listed: OnceLock::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn keys(&self) -> &[RowKey] {
        &self.keys
    }

    /// The key of a row. Panics if the row does not exist.
    pub(crate) fn key(&self, row: usize) -> RowKey {
        self.keys[row]
    }

    /// The level of a row.
    pub(crate) fn level(&self, row: usize) -> Option<Level> {
        self.levels.get(row).copied().and_then(Level::from_code)
    }

    /// The properties of a row, in the order of the columns.
    pub(crate) fn properties(&self, row: usize) -> impl Iterator<Item = (&str, Property<'_>)> {
        self.values(row).map(|(column, value)| (&*self.columns[column].name, value))
    }

    /// The values of a row with the numbers of their columns, in the order of the columns.
    pub(crate) fn values(&self, row: usize) -> impl Iterator<Item = (usize, Property<'_>)> {
        let listed = self.listed.get_or_init(|| ListedRows::of(self.columns.iter().map(BlockColumn::rows_listed)));
        let columns = (row < self.len()).then(|| listed.columns(row)).into_iter().flatten();
        columns.filter_map(move |(number, at)| {
            let column = &self.columns[number];
            let index = at.map_or_else(|| column.index(row), |at| Some(column.chosen(at)))?;
            Some((number, column.stored.value(column.kind, index)?))
        })
    }

    /// Bytes that tell which rows have the values.
    #[cfg(test)]
    pub(super) fn presence_bytes(&self) -> usize {
        let of = |column: &BlockColumn| match &column.present {
            Presence::All => 0,
            Presence::Indices(rows) | Presence::Listed(rows) => size_of_val(&**rows),
        };
        self.columns.iter().map(of).sum()
    }

    pub(crate) fn width(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn name(&self, column: usize) -> (&str, PropertyKind) {
        self.columns.get(column).map_or(("", PropertyKind::String), |column| (&column.name, column.kind))
    }

    pub(crate) fn count(&self, column: usize) -> usize {
        self.columns.get(column).map_or(0, |column| column.count)
    }

    /// The rows that a column lists, if it does.
    pub(crate) fn listed(&self, column: usize) -> Option<&[u32]> {
        self.columns.get(column)?.rows_listed()
    }

    #[inline]
    pub(crate) fn value(&self, column: usize, row: usize) -> Option<Property<'_>> {
        let column = self.columns.get(column)?;
        column.stored.value(column.kind, column.index(row)?)
    }

    /// Applies `read` to the values of a column and passes the results to `each`, row by row. A shared text is read
    /// once.
    pub(crate) fn each_value<T: Copy>(
        &self,
        column: usize,
        mut read: impl FnMut(Property<'_>) -> T,
        mut each: impl FnMut(usize, T),
    ) {
        let Some(column) = self.columns.get(column) else { return };
        let known = (0..column.stored.len()).map(|index| column.stored.value(column.kind, index).map(&mut read));
        let known: Vec<Option<T>> = known.collect();
        column.each(self.len(), |row, index| {
            if let Some(Some(value)) = known.get(index) {
                each(row, *value);
            }
        });
    }

    /// Passes the values of a column in some rows, in their order.
    pub(crate) fn each_between<'b>(
        &'b self,
        column: usize,
        rows: Range<usize>,
        mut each: impl FnMut(usize, Property<'b>),
    ) {
        let Some(column) = self.columns.get(column) else { return };
        column.each_between(rows, |row, index| {
            if let Some(value) = column.stored.value(column.kind, index) {
                each(row, value);
            }
        });
    }

    /// Approximate bytes of its values and keys; a shared text counts for every row.
    pub(crate) fn bytes(&self) -> usize {
        let values: usize = self.columns.iter().map(|column| column.bytes(self.len())).sum();
        values + RowKey::BYTES * self.len()
    }

    /// Marks the rows with a property that contains the needle, or may contain it.
    pub(crate) fn mark_containing(&self, needle: &Needle, found: &mut [bool]) {
        for column in &self.columns {
            let spread = MULTI_ROW_PROPERTIES.contains(&(&*column.name, column.kind));
            if spread || needle.may_be_in(column.kind) {
                let is_layout = &*column.name == LAYOUT;
                let crosses = |value: Property<'_>| matches!(value, Property::String(layout) if is_layout && needle.may_cross(layout));
                column.mark(found, |value| spread || needle.is_in(value) || crosses(value));
            }
        }
    }
}

/// Numbers the properties of the map of further properties by their keys.
#[derive(Default)]
pub(super) struct RestNames {
    pub(super) names: Vec<(Arc<str>, PropertyKind)>,
    numbers: HashMap<(Arc<str>, PropertyKind), u32, foldhash::quality::RandomState>,
}

impl RestNames {
    /// The number of the property of a key; `None` for an invalid key.
    pub(super) fn number(&mut self, key: &str) -> Option<u32> {
        let (name, kind) = text::split_key(key)?;
        let property = (Arc::from(name), kind);
        if let Some(number) = self.numbers.get(&property) {
            return Some(*number);
        }
        let number = u32::try_from(self.names.len()).ok()?;
        self.names.push(property.clone());
        self.numbers.insert(property, number);
        Some(number)
    }
}

/// The values of a property in the map of further properties, row by row.
pub(super) struct RestColumn {
    kind: PropertyKind,
    rows: Vec<u32>,
    stored: BlockValues,
}

impl RestColumn {
    pub(super) fn new(kind: PropertyKind) -> RestColumn {
        RestColumn { kind, rows: Vec::new(), stored: BlockValues::new(kind) }
    }

    /// Adds the value of a row behind those before; false if it is invalid.
    pub(super) fn push(&mut self, row: u32, value: &str) -> bool {
        if self.rows.last().is_some_and(|last| *last >= row) {
            return false;
        }
        self.rows.push(row);
        let mut is_pushed = false;
        text::read(self.kind, value, |value| is_pushed = self.stored.push(value)) && is_pushed
    }

    /// The column of a block of `rows` rows, whose values pass through `change`.
    pub(super) fn finish(
        self,
        name: Arc<str>,
        rows: usize,
        change: impl FnOnce(BlockValues) -> BlockValues,
    ) -> BlockColumn {
        BlockColumn::listed(name, self.kind, rows, self.rows, change(self.stored))
    }
}
