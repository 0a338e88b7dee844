//! Turns pages into iterators: a page is read when the one before is used up.

use super::{ContinuationToken, OwnedRow, RangeQuery, ResultPage, TableError, TableStore};
use daytable_model::key::DayTable;

/// The rows of a range of one partition, in its order. Ends after an error.
pub fn wanted_rows<'a>(
    store: &'a dyn TableStore,
    table: &'a DayTable,
    wanted: &'a RangeQuery,
) -> impl Iterator<Item = Result<OwnedRow, TableError>> + 'a {
    walk(move |at| store.read_range(table, wanted, at))
}

/// The rows of a whole table, by PartitionKey and RowKey. Ends after an error.
pub fn whole_table<'a>(
    store: &'a dyn TableStore,
    table: &'a DayTable,
) -> impl Iterator<Item = Result<OwnedRow, TableError>> + 'a {
    walk(move |at| store.read_table(table, at))
}

fn walk(
    mut read: impl FnMut(Option<&ContinuationToken>) -> Result<ResultPage, TableError>,
) -> impl Iterator<Item = Result<OwnedRow, TableError>> {
    let (mut rows, mut at, mut is_over) = (Vec::new().into_iter(), None, false);
    std::iter::from_fn(move || {
        loop {
            if let Some(row) = rows.next() {
                return Some(Ok(row));
            }
            if is_over {
                return None;
            }
            match read(at.as_ref()) {
                Ok(page) => {
                    is_over = page.next.is_none();
                    (rows, at) = (page.rows.into_iter(), page.next);
                }
                Err(error) => {
                    is_over = true;
                    return Some(Err(error));
                }
            }
        }
    })
}
