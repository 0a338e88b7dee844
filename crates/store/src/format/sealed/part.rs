//! Adjacent rows of one partition: a page of an open day, or a block of a sealed one.

use super::RowBlock;
use crate::format::page::Page;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use std::sync::Arc;

/// Rows in the order of their keys, by columns.
pub(crate) enum InputRows {
    /// Of an open day.
    Page(Arc<Page>),
    /// Of a sealed day.
    Block(RowBlock),
}

impl InputRows {
    pub(super) fn len(&self) -> usize {
        match self {
            InputRows::Page(page) => page.len(),
            InputRows::Block(block) => block.len(),
        }
    }

    pub(super) fn keys(&self) -> &[RowKey] {
        match self {
            InputRows::Page(page) => page.keys(),
            InputRows::Block(block) => block.keys(),
        }
    }

    pub(super) fn level(&self, row: usize) -> Option<Level> {
        match self {
            InputRows::Page(page) => page.level(row),
            InputRows::Block(block) => block.level(row),
        }
    }

    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        match self {
            InputRows::Page(page) => page.width(),
            InputRows::Block(block) => block.width(),
        }
    }

    /// The property and type of a column.
    pub(super) fn name(&self, column: usize) -> (&str, PropertyKind) {
        match self {
            InputRows::Page(page) => {
                page.column_at(column).map_or(("", PropertyKind::String), |column| (column.name(), column.kind()))
            }
            InputRows::Block(block) => block.name(column),
        }
    }

    /// Whether a row has the property.
    pub(super) fn has(&self, property: &str) -> bool {
        (0..self.width()).any(|column| self.name(column).0 == property && self.count(column) > 0)
    }

    /// Number of rows with a value in a column.
    pub(super) fn count(&self, column: usize) -> usize {
        match self {
            InputRows::Page(page) => page.column_at(column).map_or(0, |column| column.count()),
            InputRows::Block(block) => block.count(column),
        }
    }

    /// The value of a row.
    #[inline]
    pub(super) fn value(&self, column: usize, row: usize) -> Option<Property<'_>> {
        match self {
            InputRows::Page(page) => page.column_at(column)?.value(row),
            InputRows::Block(block) => block.value(column, row),
        }
    }
}
