//! A row as it was read, whatever file it comes from.

use crate::format::page::Page;
use crate::format::sealed::RowBlock;
use daytable_model::key::RowKey;
use daytable_model::property::Property;
use daytable_model::record::Level;
use std::sync::Arc;

/// A row: an entity of a page of an open day, or of a block of a sealed one.
#[derive(Clone)]
pub struct Row {
    /// The PartitionKey.
    pub partition: Arc<str>,
    rows: Rows,
    index: usize,
}

#[derive(Clone)]
enum Rows {
    Page(Arc<Page>),
    RowBlock(Arc<RowBlock>),
}

impl Row {
    pub(crate) fn of_page(partition: Arc<str>, page: Arc<Page>, index: usize) -> Row {
        Row { partition, rows: Rows::Page(page), index }
    }

    pub(crate) fn of_block(partition: Arc<str>, block: Arc<RowBlock>, index: usize) -> Row {
        Row { partition, rows: Rows::RowBlock(block), index }
    }

    /// The RowKey.
    pub fn key(&self) -> RowKey {
        match &self.rows {
            Rows::Page(page) => page.key(self.index),
            Rows::RowBlock(block) => block.key(self.index),
        }
    }

    /// The level.
    pub fn level(&self) -> Option<Level> {
        match &self.rows {
            Rows::Page(page) => page.level(self.index),
            Rows::RowBlock(block) => block.level(self.index),
        }
    }

    /// The properties without `Time`, `Level` and `Severity` (see [`daytable_model::entity`]).
    pub fn properties(&self) -> impl Iterator<Item = (&str, Property<'_>)> {
        match &self.rows {
            Rows::Page(page) => Properties::Page(page.properties(self.index)),
            Rows::RowBlock(block) => Properties::RowBlock(block.properties(self.index)),
        }
    }

    /// Calls `each` for every property. Where few rows of a page are asked for, texts that are stored in another form are
    /// printed for these rows alone.
    pub fn each_property(&self, mut each: impl FnMut(&str, Property<'_>)) {
        match &self.rows {
            Rows::Page(page) => page.each_property(self.index, each),
            Rows::RowBlock(block) => block.properties(self.index).for_each(|(name, value)| each(name, value)),
        }
    }

    /// The largest possible number of properties.
    pub fn properties_max(&self) -> usize {
        match &self.rows {
            Rows::Page(page) => page.width(),
            Rows::RowBlock(block) => block.width(),
        }
    }
}

/// The properties of a row, from a page or a block.
enum Properties<P, B> {
    Page(P),
    RowBlock(B),
}

impl<T, P: Iterator<Item = T>, B: Iterator<Item = T>> Iterator for Properties<P, B> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Properties::Page(page) => page.next(),
            Properties::RowBlock(block) => block.next(),
        }
    }
}
