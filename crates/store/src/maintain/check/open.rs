//! Checks the file of an open day.
//!
//! Commits continue during the check. So the rows are counted in one snapshot of the file, and the catalog is read
//! after it. The snapshot agrees if the catalog has the same last commit, or the commit before it, whose commit point
//! is still to come. If the catalog has a later commit, the check takes a new snapshot. Pages are read a few at a time,
//! with their headers in the same snapshot, in the order of their ids. An id is never used twice, so pages that
//! compaction merges meanwhile are found again at higher ids.

use super::{CatalogEntry, FileFault, FileReport, OnBytes};
use crate::StoreError;
use crate::format::day_file::{Total, read_total};
use crate::format::page::TableAddress;
use crate::format::page_headers;
use crate::format::page_rows::{self, BodyReader, HEADER_COLUMNS, PAGE_OF_PART, PageRow, read_header};
use crate::format::shared_pages::{self, SHARED};
use crate::layout::parse_file_name;
use daytable_model::key::DayTable;
use rusqlite::{Connection, params};
use std::cmp::Ordering;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Snapshots that are compared with the catalog before the check reports that they disagree.
const SNAPSHOTS: usize = 100;
/// Pause between two snapshots.
const SNAPSHOT_WAIT: Duration = Duration::from_millis(20);
/// Bodies that are counted in one snapshot.
const BODIES_AT_A_TIME: i64 = 4096;
/// Pages that are read in one snapshot.
const PAGES_AT_A_TIME: usize = 32;

/// Checks the file at `path`. Stops early if `on` breaks.
pub fn open_file(
    path: &Path,
    catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
    on: OnBytes<'_>,
) -> FileReport {
    FileReport::new(examine(path, catalog_entry, on), catalog_entry)
}

/// Compares the number of rows in the pages of the file at `path` with its own total, and that with the catalog. Reads
/// headers alone.
pub fn open_rows(path: &Path, catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>) -> FileReport {
    let compared = crate::sqlite::open_to_read(path).and_then(|connection| rows(&connection, path, catalog_entry));
    FileReport::new(compared, catalog_entry)
}

/// Counts the rows of a file in one snapshot that agrees with the catalog.
fn rows(
    connection: &Connection,
    path: &Path,
    catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
) -> Result<FileReport, StoreError> {
    let mut checked = FileReport::default();
    match agreeing(connection, path, catalog_entry)? {
        Agreed::Gone => return Ok(FileReport::gone()),
        Agreed::Total(total, committed) => count(connection, total, committed, &mut checked),
        Agreed::Not(total, what) => {
            checked.count(what);
            count(connection, total, i64::MAX, &mut checked);
        }
    }
    let _ = connection.execute_batch("ROLLBACK");
    Ok(checked)
}

pub(super) fn examine(
    path: &Path,
    catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
    on: OnBytes<'_>,
) -> Result<FileReport, StoreError> {
    let connection = crate::sqlite::open_to_read(path)?;
    let Some(table) = table_of(path, catalog_entry)? else {
        let what = "its name is not that of a day's file".to_owned();
        return Ok(FileReport { faults: vec![FileFault::Unreadable(what)], ..FileReport::default() });
    };
    let mut checked = rows(&connection, path, catalog_entry)?;
    if checked.is_gone {
        return Ok(checked);
    }
    count_bodies(&connection, &mut checked, on);
    read_pages(&connection, path, TableAddress::new(&table), &mut checked, on);
    Ok(checked)
}

/// The day-table of the file, from the catalog; without a catalog, from the name of the file.
fn table_of(
    path: &Path,
    catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
) -> Result<Option<DayTable>, StoreError> {
    let named = || path.file_name().and_then(|name| parse_file_name(name.to_str()?));
    Ok(match catalog_entry()? {
        CatalogEntry::Live(live, _) => Some(live.day),
        CatalogEntry::Gone | CatalogEntry::Unknown => named().map(|(table, _)| table),
    })
}

/// How the open snapshot compares with the catalog.
enum Agreed {
    /// They agree up to the commit with this number, or there is no catalog.
    Total(Total, i64),
    /// They disagree, as described.
    Not(Total, String),
    /// The file is no longer live.
    Gone,
}

fn agreeing(
    connection: &Connection,
    path: &Path,
    catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
) -> Result<Agreed, StoreError> {
    let sql = |error| StoreError::sqlite(path)(error);
    let mut tries = 0;
    loop {
        connection.execute_batch("BEGIN").map_err(sql)?;
        let total = read_total(connection).map_err(sql)?;
        let (live, committed) = match catalog_entry()? {
            CatalogEntry::Unknown => return Ok(Agreed::Total(total, i64::MAX)),
            CatalogEntry::Gone => return Ok(Agreed::Gone),
            CatalogEntry::Live(live, committed) => (live, committed),
        };
        let expected = (live.last_seq, live.entities);
        let is_ahead = total.last_seq > committed && (total.seq_before, total.entities_before) == expected;
        if (total.last_seq, total.entities) == expected || is_ahead {
            return Ok(Agreed::Total(total, committed));
        }
        tries += 1;
        if tries == SNAPSHOTS || total.last_seq > committed + 1 {
            let Total { last_seq, entities, .. } = total;
            let what = format!(
                "its last commit is {last_seq} with {entities} rows, the catalog says {} with {}",
                expected.0, expected.1
            );
            return Ok(Agreed::Not(total, what));
        }
        connection.execute_batch("ROLLBACK").map_err(sql)?;
        sleep(SNAPSHOT_WAIT);
    }
}

/// Counts the rows of the open snapshot and compares them with the file's own total. Rows above `committed` never happened, so they
/// are part of that total and not of what the file has.
fn count(connection: &Connection, total: Total, committed: i64, checked: &mut FileReport) {
    let counted = (|| -> rusqlite::Result<()> {
        let sums = format!(
            "SELECT count(*), coalesce(sum(entities), 0),
             coalesce(sum(entities) FILTER (WHERE seq <= ?1), 0), coalesce(sum(records) FILTER (WHERE seq <= ?1), 0),
             coalesce(sum(partition <> {SHARED} AND partition NOT IN (SELECT id FROM partition)), 0) FROM page"
        );
        let (pages, rows, rows_committed, records, strange): (i64, i64, i64, i64, i64) =
            connection.query_row(&sums, [committed], |row| row.try_into())?;
        checked.rows = u64::try_from(rows_committed).unwrap_or(0);
        checked.records = u64::try_from(records).unwrap_or(0);
        let expected = total.entities - total.merged;
        let difference = format!("its pages have {rows} rows, its total says {expected}");
        match rows.cmp(&expected) {
            Ordering::Less => checked.count(difference),
            Ordering::Equal => {}
            Ordering::Greater => {
                let copies = format!("{difference}: pages were merged more than once");
                checked.faults.push(FileFault::Copies(copies));
            }
        }
        let alone = format!(
            "SELECT (SELECT count(*) FROM page WHERE partition = {SHARED} AND id NOT IN (SELECT page FROM shared_page)) +
                    (SELECT count(*) FROM shared_page WHERE page NOT IN
                       (SELECT id FROM page WHERE partition = {SHARED}))"
        );
        let alone: i64 = connection.query_row(&alone, [], |row| row.get(0))?;
        if alone > 0 {
            checked.count(format!("{alone} of its shared pages and lists of partitions have no counterpart"));
        }
        if strange > 0 {
            checked.count(format!("{strange} of its pages are of no partition"));
        }
        let by_name = "SELECT count(*) FROM partition AS one NOT INDEXED WHERE one.id IS NOT
                       (SELECT id FROM partition AS two WHERE two.name = one.name)";
        let unnamed: i64 = connection.query_row(by_name, [], |row| row.get(0))?;
        if unnamed > 0 {
            checked.count(format!("{unnamed} of its partitions are not found by their names"));
        }
        let wrong = page_headers::count_wrong(connection)?;
        if wrong > 0 {
            checked.count(format!("{wrong} of its rows of headers are not those of its pages"));
        }
        for index in ["page_of_partition", "page_by_time"] {
            let known = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?1)";
            if !connection.query_row(known, [index], |row| row.get::<_, bool>(0))? {
                continue;
            }
            let select = format!("SELECT count(*) FROM page INDEXED BY {index}");
            let found: i64 = connection.query_row(&select, [], |row| row.get(0))?;
            if found != pages {
                checked.count(format!("its index {index} knows {found} pages of {pages}"));
            }
        }
        Ok(())
    })();
    if let Err(error) = counted {
        checked.faults.push(FileFault::Unreadable(error.to_string()));
    }
}

/// Counts parts of bodies without a page. Most of the file is bodies, so they are read in small steps, each in a new snapshot:
/// an old one prevents checkpoints of the journal. One transaction writes or deletes a page together with its body.
fn count_bodies(connection: &Connection, checked: &mut FileReport, on: OnBytes<'_>) {
    let some = format!(
        "SELECT max(id), coalesce(sum(NOT EXISTS (SELECT 1 FROM page WHERE page.id = of_page)), 0)
         FROM (SELECT id, {PAGE_OF_PART} AS of_page FROM body WHERE id > ?1 ORDER BY id LIMIT ?2)"
    );
    let (mut after, mut strange) = (i64::MIN, 0);
    loop {
        let found = connection.prepare_cached(&some).and_then(|mut some| {
            some.query_row(params![after, BODIES_AT_A_TIME], |row| {
                Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, i64>(1)?))
            })
        });
        match found {
            Ok((Some(last), more)) => (after, strange) = (last, strange + more),
            Ok((None, _)) => break,
            Err(error) => return checked.faults.push(FileFault::Unreadable(error.to_string())),
        }
        if on(0).is_break() {
            return;
        }
    }
    if strange > 0 {
        checked.count(format!("{strange} parts of its bodies are of no page"));
    }
}

/// Reads every page and compares it with its checksum.
fn read_pages(
    connection: &Connection,
    path: &Path,
    table_address: TableAddress,
    checked: &mut FileReport,
    on: OnBytes<'_>,
) {
    let rows = format!("SELECT {HEADER_COLUMNS} FROM page WHERE page.id > ?1 ORDER BY page.id LIMIT {PAGES_AT_A_TIME}");
    let mut last = i64::MIN;
    loop {
        let pages = snapshot(connection, |connection| {
            let mut bodies = BodyReader::default();
            let mut pages: Vec<PageRow> = Vec::new();
            let mut statement = connection.prepare_cached(&rows)?;
            let mut found = statement.query(params![last])?;
            while let Some(row) = found.next()? {
                last = row.get(0)?;
                pages.push(read_header(row)?);
            }
            let mut bad = Vec::new();
            for page in &mut pages {
                let read = match page.partition {
                    SHARED => {
                        let filled = shared_pages::fill(connection, [&mut *page]).map_err(StoreError::sqlite(path));
                        let read = filled.and_then(|()| shared_pages::read(connection, path, table_address, page));
                        read.and_then(|_| shared_pages::names_of(connection, path, table_address, page).map(drop))
                    }
                    _ => page_rows::named_partition(connection, path, page).and_then(|name| {
                        let home = table_address.at(&name);
                        page_rows::read_page(connection, path, home, page, &mut bodies).map(drop)
                    }),
                };
                bad.extend(read.err().map(|error| description(&error)));
            }
            let bytes = pages.iter().map(|page| u64::from(page.header.raw_bytes)).sum::<u64>();
            Ok((pages.len(), bytes, bad))
        });
        let (read, bytes, bad) = match pages {
            Ok(pages) => pages,
            Err(error) => return checked.faults.push(FileFault::Unreadable(error.to_string())),
        };
        bad.into_iter().for_each(|what| checked.bytes(what));
        if on(bytes).is_break() || read == 0 {
            return;
        }
    }
}

/// Without the path, which the report shows beside it.
fn description(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { page, what, .. } => format!("page {page}: {what}"),
        error => error.to_string(),
    }
}

fn snapshot<T>(connection: &Connection, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    connection.execute_batch("BEGIN")?;
    let result = read(connection);
    connection.execute_batch("ROLLBACK")?;
    result
}
