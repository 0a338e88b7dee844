//! Gathers rows of many small parts in blocks: writing a column costs something for each part.

use super::RowBlock;
use super::block::{BlockColumn, BlockValues};
use super::layout::ColumnLayout;
use super::mapped::{MappedRows, RowSlice};
use super::part::InputRows;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use std::ops::Range;
use std::sync::Arc;

/// Maximum rows of a block.
const ROWS_MAX: usize = 1 << 12;
/// Bytes of rows from which a block is full.
const BYTES_MAX: usize = 1 << 20;

/// The next block.
pub(super) struct Gatherer<'l> {
    layout: &'l ColumnLayout,
    keys: Vec<RowKey>,
    levels: Vec<u8>,
    /// By the numbers of the layout.
    columns: Vec<GatheredColumn>,
    /// Columns that the layout lacks.
    rest: Vec<(Arc<str>, PropertyKind, GatheredColumn)>,
    runs: Vec<(Arc<str>, Range<usize>)>,
    bytes: usize,
}

/// Values, and for each row so far 1 if it has one. Rows at the end may be missing.
struct GatheredColumn {
    levels: Vec<i16>,
    stored: BlockValues,
}

impl GatheredColumn {
    fn new(kind: PropertyKind) -> GatheredColumn {
        GatheredColumn { levels: Vec::new(), stored: BlockValues::new(kind) }
    }

    fn push(&mut self, row: usize, value: Property<'_>) {
        self.levels.resize(row, 0);
        // A value of another type is no value of this column. The file is then refused, because a value is missing.
        self.levels.push(i16::from(self.stored.push(value)));
    }

    /// The column of a block with so many rows; `None` without a value. Leaves an empty column.
    fn take(&mut self, name: &str, kind: PropertyKind, rows: usize) -> Option<BlockColumn> {
        let GatheredColumn { mut levels, stored } = std::mem::replace(self, GatheredColumn::new(kind));
        levels.resize(rows, 0);
        (stored.len() > 0).then(|| BlockColumn::new(name.into(), kind, Some(&levels), None, stored))
    }
}

impl<'l> Gatherer<'l> {
    pub(super) fn new(layout: &'l ColumnLayout) -> Gatherer<'l> {
        let columns = layout.columns.iter().map(|column| GatheredColumn::new(column.kind)).collect();
        let (keys, levels) = (Vec::new(), Vec::new());
        Gatherer { layout, keys, levels, columns, rest: Vec::new(), runs: Vec::new(), bytes: 0 }
    }

    /// Adds a row of a part. Rows come in the order of the file.
    pub(super) fn push(&mut self, partition: &Arc<str>, mapped: &MappedRows, row: usize) {
        let at = self.keys.len();
        let part = &mapped.part;
        self.keys.push(part.keys()[row]);
        self.levels.push(part.level(row).map_or(0, Level::code));
        self.bytes += mapped.row_bytes;
        for (number, column) in &mapped.places {
            if let Some(value) = part.value(*column, row) {
                self.columns[*number].push(at, value);
            }
        }
        for column in &mapped.rest {
            let ((name, kind), Some(value)) = (part.name(*column), part.value(*column, row)) else { continue };
            let is_its = |(known, of, column): &(Arc<str>, PropertyKind, GatheredColumn)| {
                **known == *name && *of == kind && column.levels.len() <= at
            };
            let number = self.rest.iter().position(is_its).unwrap_or_else(|| {
                self.rest.push((name.into(), kind, GatheredColumn::new(kind)));
                self.rest.len() - 1
            });
            self.rest[number].2.push(at, value);
        }
        match self.runs.last_mut() {
            Some((last, rows)) if Arc::ptr_eq(last, partition) => rows.end = at + 1,
            _ => self.runs.push((partition.clone(), at..at + 1)),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.keys.len() >= ROWS_MAX || self.bytes >= BYTES_MAX
    }

    /// The rows so far, as a block.
    pub(super) fn take(&mut self) -> Vec<RowSlice> {
        let rows = self.keys.len();
        let of_layout = self.columns.iter_mut().zip(&self.layout.columns);
        let mut columns: Vec<BlockColumn> =
            of_layout.filter_map(|(column, of)| column.take(&of.property, of.kind, rows)).collect();
        columns.extend(self.rest.drain(..).filter_map(|(name, kind, mut column)| column.take(&name, kind, rows)));
        let (keys, levels) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.levels));
        let part = InputRows::Block(RowBlock { keys, levels, columns });
        let mapped = Arc::new(MappedRows::new(part, std::mem::take(&mut self.bytes), self.layout));
        let slice = |(partition, rows)| RowSlice { partition, mapped: mapped.clone(), rows };
        self.runs.drain(..).map(slice).collect()
    }
}
