//! The rows of a page on its way, for a receiver that stores no pages.

use super::wire::{BodyError, WireOwner, WirePage};
use daytable_model::key::RowKey;
use daytable_model::property::Property;
use daytable_model::record::Level;
use std::sync::Arc;

/// A row of a page.
pub struct WireRow<'p> {
    /// The PartitionKey.
    pub partition: &'p Arc<str>,
    /// The RowKey.
    pub key: RowKey,
    /// Its level; items have none.
    pub level: Option<Level>,
    /// Its properties, in the order of writing.
    pub properties: Vec<(&'p str, Property<'p>)>,
}

impl WirePage {
    /// Passes the rows of the page in their order: those of a record follow each other, its master first.
    ///
    /// # Errors
    ///
    /// The page is damaged.
    pub fn each_row(&self, mut each: impl FnMut(WireRow<'_>)) -> Result<(), BodyError> {
        let whole = self.decode()?;
        let page = whole.page();
        let keys = page.keys();
        let mut owners = vec![0; page.len()];
        let names = match &self.owner {
            WireOwner::One(partition) => std::slice::from_ref(partition),
            WireOwner::Many(_, names) => {
                page.each_owner(|row, owner| owners[row] = owner);
                names.as_slice()
            }
        };
        for (row, (key, owner)) in keys.iter().zip(owners).enumerate() {
            let partition = names.get(owner).ok_or_else(|| BodyError::Damaged("a row has no partition".into()))?;
            each(WireRow { partition, key: *key, level: page.level(row), properties: page.properties(row).collect() });
        }
        Ok(())
    }
}
