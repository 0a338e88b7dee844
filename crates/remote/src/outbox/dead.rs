//! Dead letters: rows that the service will never take, kept in the data folder with the reason.
//!
//! They lie in day-tables of their own, `DeadLetter` and the day on which they were refused, under their own partition and
//! row key, so the same row twice is one. Each has all that it had, and `dead_letter_table` and `dead_letter_reason`
//! besides. `daytable query`, `tables` and `count` show them as they do all others.

use super::flight::RowAt;
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

/// The day-table before that of `now`: what was refused at midnight may be there already.
pub(super) fn yesterday(now: Ticks) -> Option<DayTable> {
    let before = now.minus(std::time::Duration::from_secs(86_400));
    Some(DayTable::at(&table().ok()?, Period::Day, before))
}

/// Rows of a partition that were refused today, with the reason.
pub(super) fn batch(
    rows: &[RowAt],
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
