//! What the rows of a table come to: how many they are, and a checksum over every value of every row in the order of their keys.
//!
//! It is the one that a sealed file's manifest has, so a table of any store can be compared with an archive.

use super::OwnedRow;
use daytable_model::batch::Batch;
use daytable_store::sealed::{ContentChecksum, Manifest};

/// A count and a checksum. Rows are to be added by PartitionKey and RowKey.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableContent {
    /// Rows, items included.
    pub rows: u64,
    sum: ContentChecksum,
}

impl TableContent {
    /// Takes the next row.
    pub fn add(&mut self, row: &OwnedRow) {
        self.rows += 1;
        let values = row.properties.iter().map(|(name, value)| (name.as_str(), value.as_property()));
        self.sum.add_row(&row.partition, row.key, row.level, values);
    }

    /// So many rows that come to this.
    pub(super) fn of(rows: u64, sum: ContentChecksum) -> TableContent {
        TableContent { rows, sum }
    }

    /// Takes the rows of a batch, which are the next ones.
    pub fn add_batch(&mut self, batch: &Batch) {
        for row in batch.rows() {
            self.rows += 1;
            let values = row.properties().map(|(name, value)| (&*batch.names()[usize::from(name)], value));
            self.sum.add_row(&batch.partition, row.key, row.level, values);
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
