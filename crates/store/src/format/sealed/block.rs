//! Rows of a sealed file in memory, by columns.
//!
//! Values are copied out of the file's pages, so that a row does not keep its neighbours' pages in memory. The map of
//! further properties is split into columns here, so readers of a block do not distinguish the two.

use super::text;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::key::RowKey;
use daytable_model::line::LAYOUT;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use std::collections::HashMap;
use std::sync::Arc;

/// Marks a row without a value: see [`BlockColumn::index`].
const NONE: u32 = u32::MAX;

/// Numbers whose results [`BlockColumn::map`] remembers.
const NUMBERS_KNOWN: usize = 64;

/// Rows of a sealed file.
#[derive(Debug, Default)]
pub(crate) struct RowBlock {
    pub(crate) keys: Vec<RowKey>,
    /// Level codes; 0 for no level.
    pub(crate) levels: Vec<u8>,
    pub(crate) columns: Vec<BlockColumn>,
}

/// The values of one property and type.
#[derive(Debug)]
pub(crate) struct BlockColumn {
    name: Arc<str>,
    kind: PropertyKind,
    /// For each row the index of its value; `None` if every row has one.
    index: Option<Vec<u32>>,
    stored: BlockValues,
    count: usize,
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
        let Some(levels) = levels.filter(|levels| levels.contains(&0)) else {
            return BlockColumn { name, kind, index: which, stored, count };
        };
        let mut next = 0;
        let number = |level: &i16| {
            if *level == 0 {
                return NONE;
            }
            next += 1;
            match &which {
                None => next - 1,
                Some(which) => which.get(next as usize - 1).copied().unwrap_or(NONE),
            }
        };
        let index = Some(levels.iter().map(number).collect());
        BlockColumn { name, kind, index, stored, count }
    }

    /// Marks the rows whose value satisfies `holds`, which is called once for a shared value.
    pub(crate) fn mark<'f>(
        &self,
        found: impl Iterator<Item = &'f mut bool>,
        mut holds: impl FnMut(Property<'_>) -> bool,
    ) {
        let mut hold = |index| self.stored.value(self.kind, index).is_some_and(&mut holds);
        let hits: Vec<bool> = (0..self.stored.len()).map(&mut hold).collect();
        for (row, found) in found.enumerate() {
            *found |= self.index(row).and_then(|index| hits.get(index)).is_some_and(|hit| *hit);
        }
    }

    pub(crate) fn name_and_kind(&self) -> (&str, PropertyKind) {
        (&self.name, self.kind)
    }

    /// The rows with a value, among `rows` rows.
    pub(crate) fn present(&self, rows: usize) -> RowSet {
        match &self.index {
            None => RowSet::all(rows),
            Some(_) => RowSet::of(rows, |row| self.index(row).is_some()),
        }
    }

    /// The rows of so many that have a value that is no empty text.
    pub(crate) fn filled(&self, rows: usize) -> RowSet {
        let BlockValues::Strings(_, ends) = &self.stored else { return self.present(rows) };
        let is_empty = |index: usize| ends[index] == index.checked_sub(1).map_or(0, |before| ends[before]);
        RowSet::of(rows, |row| self.index(row).is_some_and(|index| index < ends.len() && !is_empty(index)))
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
        match &self.index {
            None => among.for_each(|row| each(row, row)),
            Some(index) => among.for_each(|row| {
                if let Some(index) = index.get(row).filter(|index| **index != NONE) {
                    each(row, *index as usize);
                }
            }),
        }
    }

    #[inline]
    fn index(&self, row: usize) -> Option<usize> {
        match &self.index {
            None => Some(row),
            Some(index) => index.get(row).copied().filter(|index| *index != NONE).map(|index| index as usize),
        }
    }
}

impl RowBlock {
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
        self.columns.iter().filter_map(move |column| {
            let index = column.index(row)?;
            Some((&*column.name, column.stored.value(column.kind, index)?))
        })
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
        for row in 0..self.len() {
            if let Some(value) = column.index(row).and_then(|index| *known.get(index)?) {
                each(row, value);
            }
        }
    }

    /// Approximate bytes of its values and keys; a shared text counts for every row.
    pub(crate) fn bytes(&self) -> usize {
        let of = |column: &BlockColumn| match &column.stored {
            BlockValues::Strings(_, ends) | BlockValues::Binaries(_, ends) => {
                let length = |row| {
                    let index = column.index(row)?;
                    let start = if index == 0 { 0 } else { *ends.get(index - 1)? };
                    Some((*ends.get(index)? - start) as usize + 4)
                };
                (0..self.len()).filter_map(length).sum()
            }
            BlockValues::Guids(all) => 16 * all.len(),
            other => 8 * other.len(),
        };
        self.columns.iter().map(of).sum::<usize>() + RowKey::BYTES * self.len()
    }

    /// Marks the rows with a property that contains the needle, or may contain it.
    pub(crate) fn mark_containing(&self, needle: &Needle, found: &mut [bool]) {
        for column in &self.columns {
            let spread = MULTI_ROW_PROPERTIES.contains(&(&*column.name, column.kind));
            if spread || needle.may_be_in(column.kind) {
                let is_layout = &*column.name == LAYOUT;
                let crosses = |value: Property<'_>| matches!(value, Property::String(layout) if is_layout && needle.may_cross(layout));
                column.mark(found.iter_mut(), |value| spread || needle.is_in(value) || crosses(value));
            }
        }
    }
}

/// Splits the map of further properties into columns, row by row.
#[derive(Default)]
pub(crate) struct RestColumns {
    columns: Vec<(Arc<str>, PropertyKind, Vec<i16>, BlockValues)>,
    numbers: HashMap<String, usize>,
}

impl RestColumns {
    /// Adds an entry of a row; false for an invalid entry.
    pub(crate) fn push(&mut self, row: usize, key: &str, value: &str) -> bool {
        let number = match self.numbers.get(key) {
            Some(number) => *number,
            None => {
                let Some((name, kind)) = text::split_key(key) else { return false };
                self.columns.push((name.into(), kind, Vec::new(), BlockValues::new(kind)));
                self.numbers.insert(key.to_owned(), self.columns.len() - 1);
                self.columns.len() - 1
            }
        };
        let (_, kind, levels, stored) = &mut self.columns[number];
        if levels.len() > row {
            return false;
        }
        levels.resize(row, 0);
        levels.push(1);
        let mut is_pushed = false;
        text::read(*kind, value, |value| is_pushed = stored.push(value)) && is_pushed
    }

    /// The columns of a block of `rows` rows.
    pub(crate) fn finish(self, rows: usize) -> impl Iterator<Item = BlockColumn> {
        self.columns.into_iter().map(move |(name, kind, mut levels, stored)| {
            levels.resize(rows, 0);
            BlockColumn::new(name, kind, Some(&levels), None, stored)
        })
    }
}
