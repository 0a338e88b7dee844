//! Parts of a day on their way to the columns of a sealed file.

use super::layout::ColumnLayout;
use super::part::InputRows;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a column of a part beside its values, about: a part of many names takes much more than its values.
const COLUMN_BYTES: usize = 256;

/// A part, and the columns of the layout that its columns belong to.
pub(super) struct MappedRows {
    pub(super) part: InputRows,
    /// Pairs of a layout column and a part column, in the layout's order.
    pub(super) places: Vec<(usize, usize)>,
    /// Columns of the part that have no column in the layout.
    pub(super) rest: Vec<usize>,
    /// For each column of the part the column of the layout, or [`NO_COLUMN`].
    targets: Vec<u32>,
    /// Average bytes of a row before encoding.
    pub(super) row_bytes: usize,
}

/// The layout has no column of its own for a column.
const NO_COLUMN: u32 = u32::MAX;

/// The next rows, all from one part.
pub(super) struct RowSlice {
    pub(super) partition: Arc<str>,
    pub(super) mapped: Arc<MappedRows>,
    pub(super) rows: Range<usize>,
}

impl MappedRows {
    pub(super) fn new(part: InputRows, bytes: usize, layout: &ColumnLayout) -> MappedRows {
        let (mut places, mut rest) = (Vec::with_capacity(part.width()), Vec::new());
        for column in 0..part.width() {
            let (name, kind) = part.name(column);
            match layout.number(name, kind) {
                Some(number) => places.push((number, column)),
                None => rest.push(column),
            }
        }
        places.sort_unstable();
        // A block has a second column of a property if some of its values came from the map.
        places.dedup_by(|later, first| {
            let is_second = later.0 == first.0;
            rest.extend(is_second.then_some(later.1));
            is_second
        });
        let mut targets = vec![NO_COLUMN; part.width()];
        // A layout has at most `COLUMNS_MAX` columns.
        places.iter().for_each(|(number, column)| targets[*column] = *number as u32);
        let row_bytes = (bytes + COLUMN_BYTES * part.width()) / part.len().max(1) + 1;
        MappedRows { part, places, rest, targets, row_bytes }
    }

    /// Number of values of a row.
    pub(super) fn values(&self, row: usize) -> u64 {
        let mut values = 0;
        self.part.each_of_row(row, |_| values += 1);
        values
    }

    /// The layout's column for a column of the part.
    pub(super) fn target(&self, column: usize) -> Option<usize> {
        let target = self.targets.get(column).filter(|target| **target != NO_COLUMN)?;
        Some(*target as usize)
    }

    /// The part's column for a column of the layout.
    pub(super) fn place(&self, number: usize) -> Option<usize> {
        let found = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.places[found].1)
    }
}
