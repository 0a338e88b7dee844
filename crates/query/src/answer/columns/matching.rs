//! The records of a batch that match, made where columns cannot decide or where they are shown.

use super::filter::{ColumnFilter, DecidedRows};
use crate::answer::item::FullRecord;
use crate::entity::{Joiner, OwnedRow};
use crate::record::StoredRecord;
use daytable_model::row_set::RowSet;
use daytable_store::{ColumnBatch, StoreError};

/// The records of some rows. A record of several rows that are not all in the batch cannot be made: then the caller
/// reads rows.
pub(super) enum Made {
    /// The number of its row, and the record.
    Records(Vec<(usize, FullRecord)>),
    /// A row of a record is elsewhere.
    Elsewhere,
}

/// Makes the records of some rows.
pub(super) fn make(filter: &ColumnFilter, batch: &ColumnBatch, wanted: &RowSet) -> Result<Made, StoreError> {
    let record = |entity| FullRecord::new(StoredRecord::new(filter.table().clone(), entity));
    let mut made = Vec::with_capacity(wanted.count());
    for (number, row) in wanted.iter().zip(batch.rows(wanted)?) {
        let master = OwnedRow::of(&row);
        let items = master.items();
        if items == 0 {
            made.push((number, record(master)));
            continue;
        }
        // Items follow their master.
        let mut rows = RowSet::none(batch.len());
        (number + 1..batch.len().min(number + 1 + items)).for_each(|row| rows.insert(row));
        let mut joiner = Joiner::default();
        let mut whole = joiner.push(master);
        for item in batch
            .rows(&rows)?
            .iter()
            .filter(|item| item.key().with_item(0) == row.key() && item.partition == row.partition)
        {
            whole = joiner.push(OwnedRow::of(item)).or(whole);
        }
        match whole {
            Some(entity) => made.push((number, record(entity))),
            None => return Ok(Made::Elsewhere),
        }
    }
    Ok(Made::Records(made))
}

/// The rows of some records that match. What columns leave open is decided by the records, which are given where they
/// match. `None` if a record cannot be made.
#[allow(clippy::type_complexity)]
pub(super) fn decide(
    filter: &ColumnFilter,
    batch: &ColumnBatch,
    among: &RowSet,
) -> Result<Option<(RowSet, Vec<(usize, FullRecord)>)>, StoreError> {
    let DecidedRows { mut yes, maybe } = filter.decide(batch, among)?;
    let mut open = maybe;
    open.subtract(&yes);
    if open.is_empty() {
        return Ok(Some((yes, Vec::new())));
    }
    let Made::Records(mut records) = make(filter, batch, &open)? else { return Ok(None) };
    records.retain(|(_, record)| filter.matches(record));
    records.iter().for_each(|(row, _)| yes.insert(*row));
    Ok(Some((yes, records)))
}
