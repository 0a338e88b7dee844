//! Whether the newest commits write keys that earlier commits wrote.
//!
//! Of two rows with one key, the later one counts. A receiver that has the newest commits first stores an earlier row after the later
//! one. So before the backlog ends, a sender looks for keys that both have, which are few and rare: a file was imported again,
//! or read again after a repair. If there are any, whole pages are compared, in the order of their commits.

use crate::StoreError;
use crate::format::catalog::FileRole;
use crate::read::{Range, Reader};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use rusqlite::params;
use std::collections::BTreeMap;

/// Rows between two looks whether to go on.
const ROWS_AT_ONCE: u64 = 4096;

/// Rows of a day, by their number and times.
struct DayRows {
    entities: u64,
    oldest: Ticks,
    newest: Ticks,
}

/// Whether a key of a commit after `commit` is one of another commit, too. Their pages must not be merged. `None` if `goes_on` ends
/// it.
///
/// # Errors
///
/// The folder cannot be read.
pub fn repeats_keys(reader: &Reader, commit: i64, goes_on: &dyn Fn() -> bool) -> Result<Option<bool>, StoreError> {
    let last = reader.catalog().committed()?.seq;
    for (day, DayRows { entities, oldest, newest }) in rows_after(reader, commit, last)? {
        let count = |up_to| {
            let range = Range { from: oldest, to: newest, up_to_commit: Some(up_to), ..Range::all() };
            count_rows(reader, &day, &range, goes_on)
        };
        let (Some(before), Some(with)) = (count(commit)?, count(last)?) else { return Ok(None) };
        if with < before + entities {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

/// The rows of later commits, as they were written.
fn rows_after(reader: &Reader, commit: i64, last: i64) -> Result<BTreeMap<DayTable, DayRows>, StoreError> {
    let committed = reader.catalog().committed()?;
    let mut rows: BTreeMap<DayTable, DayRows> = BTreeMap::new();
    let files = reader.catalog().files()?.into_iter();
    for file in files.filter(|file| file.role != FileRole::Sealed && file.last_seq > commit) {
        let opened = match reader.acquire(&file) {
            Ok(opened) => opened,
            Err(StoreError::TableGone(_)) => continue,
            Err(error) => return Err(error),
        };
        // Keys begin with the newest.
        let select =
            "SELECT seq, sum(entities), min(first), max(last) FROM page WHERE seq > ?1 AND seq <= ?2 GROUP BY seq";
        let commits = opened.connection.prepare_cached(select).and_then(|mut statement| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?, row.get::<_, Vec<u8>>(3)?))
            };
            statement.query_map(params![commit, last], read)?.collect::<rusqlite::Result<Vec<_>>>()
        });
        let commits = commits.map_err(StoreError::sqlite(&opened.path));
        reader.release(opened);
        for (seq, entities, first, last) in commits? {
            let times = RowKey::from_bytes(&first).zip(RowKey::from_bytes(&last));
            let (Some((first, last)), true) = (times, committed.includes(seq)) else { continue };
            let (newest, oldest) = (first.time(), last.time());
            let day = rows.entry(file.day.clone()).or_insert(DayRows { entities: 0, oldest, newest });
            day.entities += entities.unsigned_abs();
            (day.oldest, day.newest) = (day.oldest.min(oldest), day.newest.max(newest));
        }
    }
    Ok(rows)
}

fn count_rows(
    reader: &Reader,
    day: &DayTable,
    range: &Range,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<u64>, StoreError> {
    let scan = match reader.scan(day, range) {
        Ok(scan) => scan,
        Err(StoreError::TableGone(_)) => return Ok(Some(0)),
        Err(error) => return Err(error),
    };
    let mut rows = 0u64;
    for row in scan {
        row?;
        rows += 1;
        if rows.is_multiple_of(ROWS_AT_ONCE) && !goes_on() {
            return Ok(None);
        }
    }
    Ok(Some(rows))
}
