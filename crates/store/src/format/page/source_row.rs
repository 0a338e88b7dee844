//! The rows that a page is built from: rows of a batch, or of a page that is merged.

use super::read::Page;
use super::{ROW_BYTES, VALUE_BYTES};
use daytable_model::batch::{Batch, RowRef};
use daytable_model::key::RowKey;
use daytable_model::line::LAYOUT;
use daytable_model::property::Property;
use daytable_model::record::Level;

/// The batch or page from which rows were pushed; it contains their names.
pub(super) enum RowSource<'a> {
    Batch(&'a Batch),
    Page(&'a Page),
}

/// A row with the number of its source.
#[derive(Clone, Copy)]
pub(super) enum SourceRow<'a> {
    OfBatch(RowRef<'a>, u32),
    OfPage(&'a Page, u32, u32),
}

impl SourceRow<'_> {
    pub(super) fn key(&self) -> RowKey {
        match self {
            SourceRow::OfBatch(row, _) => row.key,
            SourceRow::OfPage(page, row, _) => page.key(*row as usize),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let bytes = match self {
            SourceRow::OfBatch(row, _) => row.bytes(),
            SourceRow::OfPage(page, row, _) => {
                // A batch holds a layout once.
                let bytes =
                    |(number, value)| if page.name(number) == LAYOUT { VALUE_BYTES } else { value_bytes(value) };
                page.values(*row as usize).map(bytes).sum()
            }
        };
        ROW_BYTES + bytes
    }

    pub(super) fn level(&self) -> Option<Level> {
        match self {
            SourceRow::OfBatch(row, _) => row.level,
            SourceRow::OfPage(page, row, _) => page.level(*row as usize),
        }
    }

    pub(super) fn part(&self) -> usize {
        match self {
            SourceRow::OfBatch(_, part) | SourceRow::OfPage(_, _, part) => *part as usize,
        }
    }
}

/// The size of a value in a batch, so that pages made of pages are cut like those made of batches.
fn value_bytes(value: Property<'_>) -> usize {
    VALUE_BYTES
        + match value {
            Property::String(text) => 4 + text.len(),
            Property::Binary(bytes) => 4 + bytes.len(),
            Property::Int64(_) | Property::Double(_) | Property::DateTime(_) => 8,
            Property::Int32(_) => 4,
            Property::Guid(_) => 16,
            Property::Boolean(_) => 0,
        }
}
