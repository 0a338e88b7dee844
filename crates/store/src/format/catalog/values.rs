//! Values of columns.

use daytable_model::key::DayTable;
use rusqlite::Row;
use std::time::Duration;

/// A SHA-256 of a code or a credential.
pub type SecretHash = [u8; 32];

/// Fails unless a statement changed exactly one row. A damaged catalog may lack the row without an error of SQLite: a
/// commit would be acknowledged and lost.
pub(super) fn one(rows: usize) -> rusqlite::Result<()> {
    if rows == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(rows)) }
}

pub(super) fn from_sql(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}

pub(super) fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

pub(super) fn table_in(row: &Row<'_>, column: usize) -> rusqlite::Result<DayTable> {
    DayTable::parse(&row.get::<_, String>(column)?).map_err(|e| from_sql(column, e))
}
