//! Dead letters: rows that the service rejects permanently, stored in the data folder with the reason.
//!
//! Their day-tables are named `DeadLetter` and the day of the rejection. A row keeps its partition, its row key and
//! its properties, so repeated writes store the row once. `dead_letter_table` and `dead_letter_reason` are added.
//! `daytable query`, `tables` and `count` show dead letters like all other rows.

use super::queued::QueuedRow;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, KeyError, Period, TableName};
use daytable_model::property::Property;
use daytable_model::time::Ticks;
use daytable_store::outbox::DEAD_LETTERS;
use std::sync::Arc;

/// The configured table of dead letters.
fn table() -> Result<TableName, KeyError> {
    TableName::new(DEAD_LETTERS)
}

/// The dead letters of the day before `now`, which may have rows rejected shortly before midnight.
pub(super) fn yesterday(now: Ticks) -> Option<DayTable> {
    let before = now.minus(std::time::Duration::from_secs(86_400));
    Some(DayTable::at(&table().ok()?, Period::Day, before))
}

/// Dead letters of a partition, with the reason.
pub(super) fn batch(
    rows: &[QueuedRow],
    table: &str,
    partition: &Arc<str>,
    reason: &str,
    now: Ticks,
) -> Result<Batch, KeyError> {
    let mut batch = Batch::new(DayTable::at(&self::table()?, Period::Day, now), partition.clone());
    for row in rows {
        let mut to = batch.begin(row.key(), row.page.level(row.index));
        for (name, value) in row.page.properties(row.index) {
            to.add(name, value);
        }
        if row.key().item() == 0 {
            to.add_field("dead_letter_table", Property::String(table));
            to.add_field("dead_letter_reason", Property::String(reason));
        }
        to.finish();
    }
    Ok(batch)
}
