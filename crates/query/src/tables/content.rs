//! Count and checksum of a table's rows: a checksum over every value of every row in the order of the keys.
//!
//! It equals the content checksum in a sealed file's manifest, so any table can be compared with an archive.

use super::OwnedRow;
use daytable_model::batch::Batch;
use daytable_store::sealed::{ContentChecksum, Manifest};

/// A count and a checksum. Add rows by PartitionKey and RowKey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableContent {
    /// Rows, items included.
    pub rows: u64,
    sum: ContentChecksum,
}

impl TableContent {
    /// Adds the next row.
    pub fn add(&mut self, row: &OwnedRow) {
        self.rows += 1;
        let values = row.properties.iter().map(|(name, value)| (name.as_str(), value.as_property()));
        self.sum.add_row(&row.partition, row.key, row.level, values);
    }

    /// The content of `rows` rows with this checksum.
    pub(super) fn of(rows: u64, sum: ContentChecksum) -> TableContent {
        TableContent { rows, sum }
    }

    /// Adds the rows of a batch, which must be the next ones.
    pub fn add_batch(&mut self, batch: &Batch) {
        for (number, row) in batch.rows().enumerate() {
            self.rows += 1;
            let values = row.properties().map(|(name, value)| (&*batch.names()[usize::from(name)], value));
            self.sum.add_row(batch.partition_of(number), row.key, row.level, values);
        }
    }

    /// The checksum as a manifest has it: 16 hexadecimal digits.
    pub fn hex(&self) -> String {
        self.sum.hex()
    }

    /// Whether a sealed file with this manifest holds the same rows.
    pub fn is_that_of(&self, manifest: &Manifest) -> bool {
        (self.rows, self.hex()) == (manifest.rows, manifest.content.clone())
    }
}
