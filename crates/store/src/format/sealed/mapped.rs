//! Parts of a day on their way to the columns of a sealed file.

use super::layout::ColumnLayout;
use super::part::InputRows;
use std::ops::Range;
use std::sync::Arc;

/// A part, and the columns of the layout that its columns belong to.
pub(super) struct MappedRows {
    pub(super) part: InputRows,
    /// Pairs of a layout column and a part column, in the layout's order.
    pub(super) places: Vec<(usize, usize)>,
    /// Columns of the part that have no column in the layout.
    pub(super) rest: Vec<usize>,
    /// Average bytes of a row before encoding.
    pub(super) row_bytes: usize,
}

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
        let row_bytes = bytes / part.len().max(1) + 1;
        MappedRows { part, places, rest, row_bytes }
    }

    /// Number of values of a row.
    pub(super) fn values(&self, row: usize) -> u64 {
        (0..self.part.width()).filter(|column| self.part.value(*column, row).is_some()).count() as u64
    }

    /// The part's column for a column of the layout.
    pub(super) fn place(&self, number: usize) -> Option<usize> {
        let found = self.places.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.places[found].1)
    }
}
