//! Shared pages: pages with the few rows that a commit has of each of many partitions.
//!
//! A thousand instances that each write a record a second would make a thousand pages of one record in that second. A
//! page for each would cost many times its record: a header, a body, and entries in two indexes. So the rows of all
//! partitions that have little in a commit are in common pages, in the order of their keys. A shared page is a row of
//! the table `page` like any other, with the partition [`SHARED`]. Its header, its value counts and its filter of
//! words are those of all its rows. The table `shared_page` has the list of its partitions
//! (`shared_partitions`). The body has the number of each row's partition in that list.
//!
//! Compaction takes shared pages apart, partition by partition.

use super::page::{EncodedPage, Page, PageBuilder, PageError, PageHeader, TableAddress, build_rest};
use super::page_rows::{
    BodyReader, HEADER_COLUMNS, HEADER_COLUMNS_COUNT, PageLocation, PageRow, damaged, decode, delete_body,
    partition_name, put_page, read_body, read_header,
};
use super::shared_partitions::{SharedPartitions, has_any, stored_list};
use crate::StoreError;
use daytable_model::key::RowKey;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// The schema of the table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE shared_page(
        page INTEGER PRIMARY KEY,
        partitions BLOB NOT NULL             -- see the top of shared_partitions.rs
    );
";

/// What stands for the partition of a shared page. Partitions have numbers from 1.
pub(crate) const SHARED: i64 = 0;

/// Writes the list of a page.
pub(crate) fn put(connection: &Connection, page: i64, stored: &[u8]) -> rusqlite::Result<()> {
    connection.prepare_cached("INSERT INTO shared_page VALUES (?1, ?2)")?.execute(params![page, stored]).map(drop)
}

/// Removes the row of any page, its body, and its partitions. Returns the number of its entities; `None` if there is no
/// such page.
pub(crate) fn delete(connection: &Connection, id: i64) -> rusqlite::Result<Option<u64>> {
    let delete = "DELETE FROM page WHERE id = ?1 RETURNING entities";
    let entities = connection.prepare_cached(delete)?.query_row([id], |row| row.get::<_, i64>(0)).optional()?;
    delete_body(connection, id)?;
    connection.prepare_cached("DELETE FROM shared_page WHERE page = ?1")?.execute([id])?;
    Ok(entities.map(i64::cast_unsigned))
}

/// Removes the rows of some partitions from the page `id` of commit `seq`, which keeps its id. Returns the number of
/// removed entities, and the raw bytes that are left; `None` for the latter if the page was deleted. `None` if the page
/// has no such rows.
pub(crate) fn remove(
    connection: &Connection,
    path: &Path,
    table: TableAddress,
    (id, seq): (i64, i64),
    partitions: &HashSet<i64>,
) -> Result<Option<(u64, Option<u64>)>, StoreError> {
    let sql = |error| StoreError::sqlite(path)(error);
    let Some(row) = header(connection, id).map_err(sql)?.filter(|row| row.seq == seq) else { return Ok(None) };
    let Some(shared) = &row.shared else { return Ok(None) };
    let (mut removed, mut left) = (0, Vec::new());
    for (number, (partition, rows)) in shared.iter().enumerate() {
        match partitions.contains(&partition) {
            true => removed += u64::from(rows),
            false => left.push((number, partition, rows)),
        }
    }
    if removed == 0 {
        return Ok(None);
    }
    if left.is_empty() {
        // What the page has is removed, not what its list says.
        let entities = delete(connection, id).map_err(sql)?;
        return Ok(Some((entities.unwrap_or(0), None)));
    }
    let page = read(connection, path, table, &row)?;
    let names = names_of(connection, path, table, &row)?;
    let mut rows: Vec<(u32, i64)> = Vec::new();
    for ((number, ..), new) in left.iter().zip(0..) {
        rows.extend(page.rows_of(*number).iter().map(|row| (*row, new)));
    }
    rows.sort_unstable();
    let (rows, owners): (Vec<u32>, Vec<i64>) = rows.into_iter().unzip();
    let mut rest = build_rest(&page.page, &rows, &owners);
    rest.header.commits = row.header.commits;
    let (kept, before) = (u64::from(rest.header.entities), u64::from(row.header.entities));
    if kept + removed != before {
        let what = format!("page {id} has {before} entities, of which {removed} were to go and {kept} to stay");
        return Err(StoreError::Unequal { path: path.into(), what });
    }
    let list = stored_list(table, left.iter().map(|(number, partition, rows)| (*partition, &*names[*number], *rows)));
    let raw_bytes = rest.header.raw_bytes.into();
    let replaced = (|| {
        delete(connection, id)?;
        put(connection, id, &list)?;
        put_page(connection, id, (SHARED, table.of_many(&list)), seq, &rest)
    })();
    replaced.map_err(sql)?;
    Ok(Some((removed, Some(raw_bytes))))
}

/// Adds the partitions of those pages that are shared.
pub(crate) fn fill<'p>(
    connection: &Connection,
    pages: impl IntoIterator<Item = &'p mut PageRow>,
) -> rusqlite::Result<()> {
    for page in pages {
        if page.partition == SHARED && page.shared.is_none() {
            let mut statement = connection.prepare_cached("SELECT partitions FROM shared_page WHERE page = ?1")?;
            let parse = |row: &Row<'_>| parsed(page.place, row.get_ref(0)?.as_blob()?);
            let found = statement.query_row([page.place.page()], parse).optional()?;
            page.shared = Some(found.ok_or_else(|| unreadable(page.place, &"its partitions are missing"))?);
        }
    }
    Ok(())
}

fn parsed(place: PageLocation, stored: &[u8]) -> rusqlite::Result<Arc<SharedPartitions>> {
    SharedPartitions::parse(stored).map(Arc::new).map_err(|error| unreadable(place, &error))
}

fn unreadable(place: PageLocation, error: &dyn std::fmt::Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, format!("page {place}: {error}").into())
}

/// The shared pages that overlap `first..=last` and have rows of some of these partitions, by their first keys.
pub(crate) fn pages_with(
    connection: &Connection,
    first: RowKey,
    last: RowKey,
    partitions: &BTreeMap<i64, Arc<str>>,
) -> rusqlite::Result<Vec<PageRow>> {
    let select = format!(
        "SELECT {HEADER_COLUMNS}, partitions FROM page JOIN shared_page ON shared_page.page = page.id
         WHERE partition = {SHARED} AND first <= ?2 AND last >= ?1 ORDER BY first"
    );
    let mut statement = connection.prepare_cached(&select)?;
    let mut rows = statement.query(params![first.to_bytes(), last.to_bytes()])?;
    let mut pages = Vec::new();
    while let Some(row) = rows.next()? {
        let (place, stored) = (PageLocation::Row(row.get(0)?), row.get_ref(LIST)?.as_blob()?);
        if has_any(stored, |partition| partitions.contains_key(&partition))
            .map_err(|error| unreadable(place, &error))?
        {
            pages.push(PageRow { shared: Some(parsed(place, stored)?), ..read_header(row)? });
        }
    }
    Ok(pages)
}

/// The place of the list behind [`HEADER_COLUMNS`].
const LIST: usize = HEADER_COLUMNS_COUNT;

/// Passes the partitions of the shared pages up to a commit, some of them more than once.
pub(crate) fn each_partition(
    connection: &Connection,
    committed: i64,
    mut each: impl FnMut(i64),
) -> rusqlite::Result<()> {
    let select = format!(
        "SELECT id, partitions FROM page JOIN shared_page ON shared_page.page = page.id
         WHERE partition = {SHARED} AND seq <= ?1"
    );
    let mut statement = connection.prepare_cached(&select)?;
    let mut rows = statement.query([committed])?;
    while let Some(row) = rows.next()? {
        let of_page = parsed(PageLocation::Row(row.get(0)?), row.get_ref(1)?.as_blob()?)?;
        of_page.iter().for_each(|(partition, _)| each(partition));
    }
    Ok(())
}

/// The first commit with a row of `partition` in a shared page. Later commits have higher ids: in the order of ids, SQLite
/// reads no list behind the first one that has the partition.
pub(crate) fn oldest_of(connection: &Connection, partition: i64) -> rusqlite::Result<Option<i64>> {
    let select = format!(
        "SELECT seq, page.id, partitions FROM shared_page CROSS JOIN page ON page.id = shared_page.page
         WHERE partition = {SHARED} ORDER BY shared_page.page"
    );
    let mut statement = connection.prepare_cached(&select)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let place = PageLocation::Row(row.get(1)?);
        let stored = row.get_ref(2)?.as_blob()?;
        if has_any(stored, |of| of == partition).map_err(|error| unreadable(place, &error))? {
            return row.get(0).map(Some);
        }
    }
    Ok(None)
}

/// A shared page without its rows, for compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedRow {
    pub(crate) id: i64,
    pub(crate) seq: i64,
    pub(crate) raw_bytes: u64,
    /// The number of partitions; of a page of an earlier process, that of its entities.
    pub(crate) parts: u64,
}

/// All shared pages, the oldest first.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<SharedRow>> {
    let select = format!("SELECT id, seq, raw_bytes, entities FROM page WHERE partition = {SHARED} ORDER BY id");
    let mut statement = connection.prepare_cached(&select)?;
    let read = |row: &Row<'_>| {
        let (raw_bytes, parts): (u32, u32) = (row.get(2)?, row.get(3)?);
        Ok(SharedRow { id: row.get(0)?, seq: row.get(1)?, raw_bytes: raw_bytes.into(), parts: parts.into() })
    };
    statement.query_map([], read)?.collect()
}

/// The number of shared pages with rows of each partition, and about the raw bytes of these rows.
#[allow(clippy::type_complexity)]
pub(crate) fn bytes_by_partition(
    connection: &Connection,
) -> rusqlite::Result<HashMap<i64, (u64, u64), foldhash::quality::RandomState>> {
    let select = format!(
        "SELECT {HEADER_COLUMNS}, partitions FROM page JOIN shared_page ON shared_page.page = page.id
         WHERE partition = {SHARED}"
    );
    let mut statement = connection.prepare(&select)?;
    let mut rows = statement.query([])?;
    let mut by_partition: HashMap<i64, (u64, u64), _> = HashMap::default();
    while let Some(row) = rows.next()? {
        let page = read_header(row)?;
        let of_row = u64::from(page.header.raw_bytes / page.header.entities.max(1));
        for (partition, rows) in parsed(page.place, row.get_ref(LIST)?.as_blob()?)?.iter() {
            let (parts, bytes) = by_partition.entry(partition).or_default();
            *parts += 1;
            *bytes += of_row * u64::from(rows);
        }
    }
    Ok(by_partition)
}

/// Reads the header of a shared page; `None` if it is gone.
pub(crate) fn header(connection: &Connection, id: i64) -> rusqlite::Result<Option<PageRow>> {
    let select = format!("SELECT {HEADER_COLUMNS} FROM page WHERE id = ?1");
    let mut found = connection.prepare_cached(&select)?.query_row([id], read_header).optional()?;
    fill(connection, &mut found)?;
    Ok(found)
}

/// A decoded shared page, and the rows of each of its partitions.
#[derive(Debug)]
pub(crate) struct SharedPage {
    pub(crate) page: Arc<Page>,
    partitions: Arc<SharedPartitions>,
    /// Where the rows of each partition begin in `rows`, and where those of the last one end.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl SharedPage {
    /// Sorts the rows of a page by partition.
    pub(crate) fn new(page: Arc<Page>, partitions: Arc<SharedPartitions>) -> Result<SharedPage, PageError> {
        const WRONG: PageError = PageError::Damaged("its rows are not those of its partitions");
        let mut starts = vec![0; partitions.len() + 1];
        for row in 0..page.len() {
            let owner = page.owner(row).ok_or(WRONG)?;
            *starts.get_mut(owner + 1).ok_or(WRONG)? += 1;
        }
        if starts[1..].iter().zip(partitions.iter()).any(|(found, (_, rows))| *found != rows) {
            return Err(WRONG);
        }
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let (mut rows, mut next) = (vec![0; page.len()], starts.clone());
        for row in 0..page.len() {
            let next = &mut next[page.owner(row).unwrap_or_default()];
            rows[*next as usize] = u32::try_from(row).map_err(|_| WRONG)?;
            *next += 1;
        }
        Ok(SharedPage { page, partitions, starts, rows })
    }

    /// The rows of the partition with this number, newest first.
    pub(crate) fn rows_of(&self, number: usize) -> &[u32] {
        match self.starts.get(number..number + 2) {
            Some([start, end]) => &self.rows[*start as usize..*end as usize],
            _ => &[],
        }
    }

    /// The rows of each partition of the page `of` as pages.
    pub(crate) fn parts<'a>(&'a self, of: &'a PageRow) -> impl Iterator<Item = PageRow> + 'a {
        let keys = self.page.keys();
        self.partitions.iter().zip(0u32..).filter_map(move |((partition, _), part)| {
            let rows = self.rows_of(part as usize);
            let (first, last) = (*keys.get(*rows.first()? as usize)?, *keys.get(*rows.last()? as usize)?);
            let entities = u32::try_from(rows.len()).unwrap_or(u32::MAX);
            let share = u64::from(of.header.raw_bytes) * u64::from(entities) / u64::from(of.header.entities.max(1));
            let raw_bytes = u32::try_from(share).unwrap_or(u32::MAX);
            let header = PageHeader { first, last, entities, levels: Vec::new(), raw_bytes, ..of.header.clone() };
            let place = PageLocation::Part { page: of.place.page(), part };
            Some(PageRow { place, partition, seq: of.seq, header, shared: None })
        })
    }

    /// Fails if the rows of the partition with this number may not be shown under a name.
    pub(crate) fn check_name(
        &self,
        path: &Path,
        of: &PageRow,
        (number, table): (usize, TableAddress),
        name: &str,
    ) -> Result<(), StoreError> {
        check_name(path, of, (&self.partitions, number), table, name)
    }

    /// The rows of a partition as a page of their own.
    pub(crate) fn copy_of(&self, number: usize) -> Result<EncodedPage, PageError> {
        let mut builder = PageBuilder::new();
        builder.push_rows(&self.page, self.rows_of(number));
        let mut built = builder.build().pages;
        match (built.pop(), built.is_empty()) {
            (Some(only), true) => Ok(only),
            _ => Err(PageError::Damaged("its rows of a partition are too far apart")),
        }
    }
}

/// Fails if rows of a page would be shown under a name that its checksum does not cover.
pub(crate) fn check_name(
    path: &Path,
    page: &PageRow,
    (partitions, number): (&SharedPartitions, usize),
    table: TableAddress,
    name: &str,
) -> Result<(), StoreError> {
    match partitions.has_name(number, table, name) {
        true => Ok(()),
        false => Err(damaged(path, page, "its partition has another name".into())),
    }
}

/// Reads a shared page and checks it, without the names of its partitions.
pub(crate) fn read(
    connection: &Connection,
    path: &Path,
    table: TableAddress,
    row: &PageRow,
) -> Result<SharedPage, StoreError> {
    let shared = row.shared.as_ref().ok_or_else(|| damaged(path, row, "its partitions are missing".into()))?;
    let mut bodies = BodyReader::default();
    let body = read_body(connection, path, row, &mut bodies)?;
    let page = decode(path, shared.address(table), row, body)?;
    SharedPage::new(Arc::new(page), shared.clone()).map_err(|error| damaged(path, row, error.to_string()))
}

/// The names of the partitions of a shared page, by their numbers in the page. Fails where a name is another one.
pub(crate) fn names_of(
    connection: &Connection,
    path: &Path,
    table: TableAddress,
    row: &PageRow,
) -> Result<Vec<Arc<str>>, StoreError> {
    let Some(shared) = &row.shared else { return Ok(Vec::new()) };
    let name = |(number, (partition, _))| {
        let name = partition_name(connection, partition).map_err(StoreError::sqlite(path))?;
        let name = name.ok_or_else(|| damaged(path, row, "a partition of it has no name".into()))?;
        check_name(path, row, (shared, number), table, &name)?;
        Ok(name)
    };
    shared.iter().enumerate().map(name).collect()
}
