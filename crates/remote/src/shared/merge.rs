//! Merges the rows of two sealed files of one day, ordered by PartitionKey and RowKey. For equal keys, the row of the
//! first file wins.

use daytable_model::key::RowKey;
use daytable_query::tables::OwnedRow;
use daytable_store::Range;
use daytable_store::StoreError;
use daytable_store::sealed::SealedFile;
use std::iter::Peekable;
use std::sync::Arc;

/// The merged rows. Ends after an error.
pub(super) fn rows<'a>(
    first: &'a SealedFile,
    other: &'a SealedFile,
) -> impl Iterator<Item = Result<OwnedRow, StoreError>> + 'a {
    let (mut first, mut other) = (all(first).peekable(), all(other).peekable());
    std::iter::from_fn(move || {
        match (key(&mut first), key(&mut other)) {
            (Some(one), Some(two)) if one == two => {
                drop(other.next());
                first.next()
            }
            (Some(one), Some(two)) if two < one => other.next(),
            // An unreadable row has no key and sorts first.
            (Some(_), _) => first.next(),
            (None, _) => other.next(),
        }
    })
}

type Key = Option<(Arc<str>, RowKey)>;

/// The key of the next row. `None` if there is no row or the row is unreadable.
fn key(rows: &mut Peekable<impl Iterator<Item = Result<OwnedRow, StoreError>>>) -> Option<Key> {
    rows.peek().map(|row| row.as_ref().ok().map(|row| (row.partition.clone(), row.key)))
}

/// All rows of a file.
fn all(file: &SealedFile) -> impl Iterator<Item = Result<OwnedRow, StoreError>> + '_ {
    let mut partitions = file.partitions();
    partitions.sort();
    partitions.into_iter().flat_map(move |partition| {
        let partitions = Some(vec![partition.to_string()]);
        let range = Range { partitions, ..Range::all() };
        file.scan(&range).map(|row| row.map(|row| OwnedRow::of(&row)))
    })
}
