//! Gathers rows of many small parts in blocks: writing a column costs something for each part.

use super::RowBlock;
use super::block::{BlockColumn, BlockValues};
use super::layout::ColumnLayout;
use super::mapped::{MappedRows, RowSlice};
use super::part::InputRows;
use super::sum::of_property;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use std::collections::HashMap;
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
    /// Their numbers, by hash of name and kind.
    rest_numbers: HashMap<u64, usize, foldhash::fast::RandomState>,
    runs: Vec<(Arc<str>, Range<usize>)>,
    bytes: usize,
}

/// Values, and the rows that have one.
struct GatheredColumn {
    rows: Vec<u32>,
    stored: BlockValues,
}

impl GatheredColumn {
    fn new(kind: PropertyKind) -> GatheredColumn {
        GatheredColumn { rows: Vec::new(), stored: BlockValues::new(kind) }
    }

    fn push(&mut self, row: usize, value: Property<'_>) {
        // A value of another type is not a value of this column. The file is then refused, because a value is missing.
        if self.stored.push(value) {
            // A block has few rows.
            self.rows.push(row as u32);
        }
    }

    /// The column of a block with this many rows; `None` without a value. Leaves an empty column.
    fn take(&mut self, name: &str, kind: PropertyKind, rows: usize) -> Option<BlockColumn> {
        let GatheredColumn { rows: with_value, stored } = std::mem::replace(self, GatheredColumn::new(kind));
        (stored.len() > 0).then(|| BlockColumn::listed(name.into(), kind, rows, with_value, stored))
    }
}

impl<'l> Gatherer<'l> {
    pub(super) fn new(layout: &'l ColumnLayout) -> Gatherer<'l> {
        let columns = layout.columns.iter().map(|column| GatheredColumn::new(column.kind)).collect();
        let (keys, levels, rest_numbers) = (Vec::new(), Vec::new(), HashMap::default());
        Gatherer { layout, keys, levels, columns, rest: Vec::new(), rest_numbers, runs: Vec::new(), bytes: 0 }
    }

    /// Adds a row of a part. Rows come in the order of the file.
    pub(super) fn push(&mut self, partition: &Arc<str>, mapped: &MappedRows, row: usize) {
        let at = self.keys.len();
        let part = &mapped.part;
        self.keys.push(part.keys()[row]);
        self.levels.push(part.level(row).map_or(0, Level::code));
        self.bytes += mapped.row_bytes;
        part.each_of_row(row, |(column, value)| match mapped.target(column) {
            Some(number) => self.columns[number].push(at, value),
            None => self.push_rest(at, part.name(column), value),
        });
        match self.runs.last_mut() {
            Some((last, rows)) if Arc::ptr_eq(last, partition) => rows.end = at + 1,
            _ => self.runs.push((partition.clone(), at..at + 1)),
        }
    }

    fn push_rest(&mut self, row: usize, (name, kind): (&str, PropertyKind), value: Property<'_>) {
        let property = of_property(name, kind);
        let is_its = |(known, of, column): &(Arc<str>, PropertyKind, GatheredColumn)| {
            let is_behind = column.rows.last().is_none_or(|last| (*last as usize) < row);
            **known == *name && *of == kind && is_behind
        };
        let known = self.rest_numbers.get(&property).copied();
        let number = known.filter(|number| self.rest.get(*number).is_some_and(is_its)).unwrap_or_else(|| {
            self.rest.push((name.into(), kind, GatheredColumn::new(kind)));
            self.rest_numbers.insert(property, self.rest.len() - 1);
            self.rest.len() - 1
        });
        self.rest[number].2.push(row, value);
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
        self.rest_numbers.clear();
        let (keys, levels) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.levels));
        let part = InputRows::Block(RowBlock::new(keys, levels, columns));
        let mapped = Arc::new(MappedRows::new(part, std::mem::take(&mut self.bytes), self.layout));
        let slice = |(partition, rows)| RowSlice { partition, mapped: mapped.clone(), rows };
        self.runs.drain(..).map(slice).collect()
    }
}
