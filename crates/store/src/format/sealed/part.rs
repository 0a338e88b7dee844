//! Adjacent rows of one partition: a page of an open day, or a block of a sealed one.

use super::RowBlock;
use crate::format::page::Page;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use std::ops::Range;
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

    /// Some values of a column, to judge how much they differ: those of every `step`th row.
    pub(super) fn sample(&self, column: usize, step: usize) -> impl Iterator<Item = Property<'_>> {
        let listed = match self {
            InputRows::Page(page) => page.column_at(column).and_then(|column| column.listed()),
            InputRows::Block(block) => block.listed(column),
        };
        let all = if listed.is_some() { 0..0 } else { 0..self.len() };
        let listed = listed.unwrap_or_default().iter().map(|row| *row as usize);
        all.step_by(step).chain(listed.step_by(step)).filter_map(move |row| match self {
            InputRows::Page(page) => page.column_at(column)?.value(row),
            InputRows::Block(block) => block.value(column, row),
        })
    }

    /// Passes the values of a column in some rows, in their order.
    #[inline]
    pub(super) fn each_between<'r>(&'r self, column: usize, rows: Range<usize>, each: impl FnMut(usize, Property<'r>)) {
        match self {
            InputRows::Page(page) => {
                if let Some(column) = page.column_at(column) {
                    column.each_between(rows, each);
                }
            }
            InputRows::Block(block) => block.each_between(column, rows, each),
        }
    }

    /// Passes the values of a row with the numbers of their columns.
    pub(super) fn each_of_row<'r>(&'r self, row: usize, each: impl FnMut((usize, Property<'r>))) {
        match self {
            InputRows::Page(page) => page.values(row).for_each(each),
            InputRows::Block(block) => block.values(row).for_each(each),
        }
    }
}
