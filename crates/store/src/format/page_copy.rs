//! Pages of a day's file in a file of their own: who works on them for long holds no snapshot of the day meanwhile, which
//! would keep its journal from beginning again.

use super::day_file;
use super::page_rows::{HEADER_COLUMNS, PART_OF_PAGE, PageRow, read_header};
use super::shared_pages::{self, SHARED};
use crate::StoreError;
use crate::private_file;
use rusqlite::types::Value;
use rusqlite::{Connection, Statement, params_from_iter};
use std::collections::HashSet;
use std::path::Path;

/// Copies pages as they are, with the names of their partitions, to a new file. The file is not synced, and has no journal: it is
/// for the connection that is returned. An existing file is replaced.
pub(crate) fn copy_pages(
    (from, path): (&Connection, &Path),
    to: &Path,
    is_wanted: impl Fn(&PageRow) -> bool,
) -> Result<Connection, StoreError> {
    private_file::create_anew(to).map_err(StoreError::io(to))?;
    let copy = Connection::open(to).map_err(StoreError::sqlite(to))?;
    let created = copy.execute_batch(&format!(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN; {}",
        day_file::page_tables()
    ));
    created.map_err(StoreError::sqlite(to))?;
    let (mut ids, mut partitions) = (Vec::new(), HashSet::new());
    let mut find = || {
        let mut statement = from.prepare(&format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY id"))?;
        let mut pages = statement.query([])?;
        while let Some(page) = pages.next()? {
            let mut page = read_header(page)?;
            if !is_wanted(&page) {
                continue;
            }
            shared_pages::fill(from, [&mut page])?;
            match &page.shared {
                Some(shared) => partitions.extend(shared.iter().map(|(partition, _)| partition)),
                None => drop(partitions.insert(page.partition)),
            }
            ids.extend(page.id());
        }
        Ok(())
    };
    find().map_err(StoreError::sqlite(path))?;
    partitions.remove(&SHARED);
    let partitions: Vec<i64> = partitions.into_iter().collect();
    for (table, condition, wanted) in [
        ("page", "id = ?1", &ids),
        ("body", PART_OF_PAGE, &ids),
        ("shared_page", "page = ?1", &ids),
        ("partition", "id = ?1", &partitions),
    ] {
        let select = from.prepare(&format!("SELECT * FROM {table} WHERE {condition}"));
        let mut select = select.map_err(StoreError::sqlite(path))?;
        let places = vec!["?"; select.column_count()].join(", ");
        let insert = copy.prepare(&format!("INSERT INTO {table} VALUES ({places})"));
        let mut insert = insert.map_err(StoreError::sqlite(to))?;
        for id in wanted {
            for row in rows_of(&mut select, *id).map_err(StoreError::sqlite(path))? {
                insert.execute(params_from_iter(row)).map_err(StoreError::sqlite(to))?;
            }
        }
    }
    copy.execute_batch("COMMIT").map_err(StoreError::sqlite(to))?;
    Ok(copy)
}

fn rows_of(select: &mut Statement<'_>, id: i64) -> rusqlite::Result<Vec<Vec<Value>>> {
    let columns = select.column_count();
    select.query_map([id], |row| (0..columns).map(|column| row.get(column)).collect())?.collect()
}
