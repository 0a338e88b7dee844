//! Rows become batches again: adjacent rows of one partition, with a record and its items together.

use super::OwnedRow;
use daytable_model::batch::{Batch, ROWS_MAX};
use daytable_model::key::DayTable;

/// Maximum bytes of a copied batch: far below the limit of a transaction, even as JSON with everything escaped.
const BYTES_MAX: usize = 1 << 20;

/// Collects rows into batches of one table.
pub struct Rebatcher {
    table: DayTable,
    batch: Option<Batch>,
    bytes: usize,
    /// The last record and its items, which stay in one batch.
    record: Vec<OwnedRow>,
}

impl Rebatcher {
    /// An empty collector for `table`.
    pub fn new(table: DayTable) -> Rebatcher {
        Rebatcher { table, batch: None, bytes: 0, record: Vec::new() }
    }

    /// Adds the next row. Returns the batch that has no room for it.
    pub fn push(&mut self, row: OwnedRow) -> Option<Batch> {
        let is_item =
            |last: &OwnedRow| last.partition == row.partition && last.key.with_item(0) == row.key.with_item(0);
        let full = match self.record.last() {
            Some(last) if is_item(last) => None,
            _ => self.end_record(),
        };
        self.record.push(row);
        full
    }

    /// The remaining batches.
    pub fn finish(mut self) -> impl Iterator<Item = Batch> {
        let full = self.end_record();
        full.into_iter().chain(self.batch)
    }

    /// Adds the last record to the batch. Returns the previous batch if that had no room.
    fn end_record(&mut self) -> Option<Batch> {
        let first = self.record.first()?;
        let bytes: usize = self.record.iter().map(bytes_of).sum();
        let has_room = self.batch.as_ref().is_some_and(|batch| {
            let fits = batch.len() + self.record.len() <= ROWS_MAX && self.bytes + bytes <= BYTES_MAX;
            batch.partition == first.partition && fits
        });
        let full = if has_room { None } else { self.batch.take() };
        if !has_room {
            self.bytes = 0;
        }
        let batch = self.batch.get_or_insert_with(|| match &full {
            Some(before) if before.partition == first.partition => before.successor(),
            _ => Batch::new(self.table.clone(), first.partition.clone()),
        });
        for row in self.record.drain(..) {
            let mut writer = batch.begin(row.key, row.level);
            for (name, value) in &row.properties {
                writer.add(name, value.as_property());
            }
            writer.finish();
        }
        self.bytes += bytes;
        full
    }
}

fn bytes_of(row: &OwnedRow) -> usize {
    let of = |(name, value): &(String, super::OwnedValue)| {
        let value = match value {
            super::OwnedValue::String(text) => text.len(),
            super::OwnedValue::Binary(bytes) => bytes.len(),
            _ => 16,
        };
        name.len() + value
    };
    row.properties.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::OwnedValue;
    use daytable_model::key::RowKey;
    use daytable_model::time::Ticks;
    use proptest::prelude::*;

    fn table() -> DayTable {
        DayTable::parse("Log20261121").expect("a table")
    }

    proptest! {
        /// Every row is in one batch, in the original order. No batch has two partitions, more rows than a transaction
        /// allows, or only a part of a record.
        #[test]
        fn every_row_is_in_one_batch(records in proptest::collection::vec((0u8..3, 0u16..60, 0usize..30_000), 0..40)) {
            let (mut rows, mut partition) = (Vec::new(), 0);
            for ((step, items, length), position) in records.into_iter().zip(0..) {
                partition += step / 2;
                let key = RowKey::new(Ticks::UNIX_EPOCH, 1, 1000 - position);
                for item in 0..=items {
                    let properties = vec![("Message".to_owned(), OwnedValue::String("x".repeat(length)))];
                    let partition = format!("web-{partition}").as_str().into();
                    rows.push(OwnedRow { partition, key: key.with_item(item), level: None, properties });
                }
            }
            let mut rebatcher = Rebatcher::new(table());
            let mut batches: Vec<Batch> = rows.iter().cloned().filter_map(|row| rebatcher.push(row)).collect();
            batches.extend(rebatcher.finish());
            let got: Vec<_> =
                batches.iter().flat_map(|batch| batch.rows().map(|row| (batch.partition.clone(), row.key))).collect();
            let want: Vec<_> = rows.iter().map(|row| (row.partition.clone(), row.key)).collect();
            prop_assert_eq!(got, want);
            for batch in &batches {
                prop_assert!(batch.len() <= ROWS_MAX);
                prop_assert!(batch.rows().next().is_some_and(|row| row.key.item() == 0));
            }
        }
    }
}
