//! Rows of the table `page`: headers, read and written, and their bodies.

use super::commit_range::CommitRange;
use super::page::{
    APART_MAX, EncodedPage, Page, PageAddress, PageError, PageHeader, PageSections, PartialPage, WantedColumns,
};
use super::shared_partitions::SharedPartitions;
use crate::StoreError;
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::path::Path;
use std::sync::Arc;

/// The location of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PageLocation {
    /// Its row, by id.
    Row(i64),
    /// The rows of one partition of a shared page, by the page's id and the partition's number in it.
    Part { page: i64, part: u32 },
}

impl PageLocation {
    /// The id of the row in `page`.
    pub(crate) fn page(self) -> i64 {
        match self {
            PageLocation::Row(page) | PageLocation::Part { page, .. } => page,
        }
    }
}

impl Ord for PageLocation {
    /// Pages are in the order of their writing.
    fn cmp(&self, other: &PageLocation) -> std::cmp::Ordering {
        let order = |place: &PageLocation| match place {
            PageLocation::Row(page) => (*page, None),
            PageLocation::Part { page, part } => (*page, Some(*part)),
        };
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for PageLocation {
    fn partial_cmp(&self, other: &PageLocation) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for PageLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageLocation::Row(id) => write!(f, "{id}"),
            PageLocation::Part { page, part } => write!(f, "{page}, partition {part}"),
        }
    }
}

/// A page's header and location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRow {
    pub(crate) place: PageLocation,
    pub(crate) partition: i64,
    pub(crate) seq: i64,
    /// With the stored checksum.
    pub(crate) header: PageHeader,
    /// The partitions of a shared page, where they were read.
    pub(crate) shared: Option<Arc<SharedPartitions>>,
}

impl PageRow {
    /// The partition of a row of this page, which was decoded.
    pub(crate) fn partition_at(&self, page: &Page, row: usize) -> Option<i64> {
        match &self.shared {
            Some(shared) => shared.partition(page.owner(row)?),
            None => Some(self.partition),
        }
    }

    /// Whether it is a shared page with rows of a partition.
    pub(crate) fn shares(&self, partition: i64) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.number_of(partition).is_some())
    }

    /// The id of its row, unless it is a part of another page.
    pub(crate) fn id(&self) -> Option<i64> {
        match self.place {
            PageLocation::Row(id) => Some(id),
            PageLocation::Part { .. } => None,
        }
    }
}

#[cfg(test)]
impl PageRow {
    /// A page of one record.
    pub(crate) fn alone(id: i64, checksum: u64) -> PageRow {
        let key = RowKey::new(Ticks::MIN, 0, 0);
        let (levels, codec, raw_bytes) = (Vec::new(), 1, 1);
        let commits = CommitRange::default();
        let header =
            PageHeader { first: key, last: key, entities: 1, records: 1, levels, codec, raw_bytes, commits, checksum };
        PageRow { place: PageLocation::Row(id), partition: 1, seq: 1, header, shared: None }
    }
}

/// Reads bodies of pages, into memory that it keeps.
#[derive(Default)]
pub(crate) struct BodyReader {
    body: Vec<u8>,
    section: Vec<u8>,
}

/// Reads sections that are rows of their own, into memory that the reader of bodies keeps.
pub(crate) struct SectionReader<'b> {
    connection: &'b Connection,
    page: i64,
    section: &'b mut Vec<u8>,
}

impl SectionReader<'_> {
    /// A section; empty if it is missing.
    pub(crate) fn read(&mut self, number: usize) -> rusqlite::Result<&[u8]> {
        read_part(self.connection, part_id(self.page, number + 1), self.section)?;
        Ok(self.section)
    }
}

/// How many ids of the table `body` are those of one page: its own number times this, and the next ones.
const PARTS: i64 = 4096;
const _: () = assert!(APART_MAX < PARTS as usize);

/// The page of a row of `body`.
pub(crate) const PAGE_OF_PART: &str = "id / 4096";
/// Whether a row of `body` is of the page `?1`.
pub(crate) const PART_OF_PAGE: &str = "id >= ?1 * 4096 AND id < (?1 + 1) * 4096";

/// The id of the row of a part of a body: its front is 0.
fn part_id(page: i64, part: usize) -> i64 {
    // A page has fewer than PARTS; only a damaged file has such numbers of pages.
    page.saturating_mul(PARTS).saturating_add(part as i64)
}

/// Reads a part of a body. False if it is missing.
fn read_part(connection: &Connection, id: i64, into: &mut Vec<u8>) -> rusqlite::Result<bool> {
    into.clear();
    let mut statement = connection.prepare_cached("SELECT bytes FROM body WHERE id = ?1")?;
    let found = statement.query_row([id], |row| {
        into.extend_from_slice(row.get_ref(0)?.as_blob()?);
        Ok(())
    });
    Ok(found.optional()?.is_some())
}

/// Removes the body of a page.
pub(crate) fn delete_body(connection: &Connection, page: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(&format!("DELETE FROM body WHERE {PART_OF_PAGE}"))?.execute([page]).map(drop)
}

impl BodyReader {
    /// The body of a page; `None` if it is missing.
    pub(crate) fn read(&mut self, connection: &Connection, page: i64) -> rusqlite::Result<Option<&[u8]>> {
        self.body.clear();
        let select = format!("SELECT bytes FROM body WHERE {PART_OF_PAGE} ORDER BY id");
        let mut statement = connection.prepare_cached(&select)?;
        let mut parts = statement.query([page])?;
        let mut is_missing = true;
        while let Some(part) = parts.next()? {
            self.body.extend_from_slice(part.get_ref(0)?.as_blob()?);
            is_missing = false;
        }
        Ok(if is_missing { None } else { Some(&self.body) })
    }

    /// The row of the front of a page, and a reader of those of its sections; `None` if it is missing.
    pub(crate) fn read_front<'b>(
        &'b mut self,
        connection: &'b Connection,
        page: i64,
    ) -> rusqlite::Result<Option<(&'b [u8], SectionReader<'b>)>> {
        if !read_part(connection, part_id(page, 0), &mut self.body)? {
            return Ok(None);
        }
        Ok(Some((&self.body, SectionReader { connection, page, section: &mut self.section })))
    }
}

/// The columns for [`read_header`], in its order.
pub(crate) const HEADER_COLUMNS: &str =
    "page.id, page.partition, page.first, page.last, page.seq, page.entities, page.records, page.codec, page.raw_bytes,
     page.checksum, page.levels, page.commits, page.arrived, page.arrived_span";
/// The number of these columns: the place of a column behind them.
pub(crate) const HEADER_COLUMNS_COUNT: usize = 14;

/// Writes the header of a page, with its stored checksum.
pub(crate) fn put_header(
    connection: &Connection,
    id: i64,
    partition: i64,
    seq: i64,
    header: &PageHeader,
    checksum: u64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO page(id, partition, first, last, seq, entities, records, codec, raw_bytes, checksum, levels,
                              commits, arrived, arrived_span)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            id,
            partition,
            header.first.to_bytes(),
            header.last.to_bytes(),
            seq,
            header.entities,
            header.records,
            header.codec,
            header.raw_bytes,
            checksum.cast_signed(),
            header.levels,
            header.commits.before.cast_signed(),
            header.commits.newest.get(),
            header.commits.span.cast_signed(),
        ])
        .map(drop)
}

/// Writes a page, and returns its stored checksum.
pub(crate) fn put_page(
    connection: &Connection,
    id: i64,
    (partition, home): (i64, PageAddress),
    seq: i64,
    page: &EncodedPage,
) -> rusqlite::Result<u64> {
    let header = &page.header;
    let checksum = home.stored_checksum(header, seq);
    put_header(connection, id, partition, seq, header, checksum)?;
    let (front, apart) = page.rows();
    for (number, part) in std::iter::once((0, front)).chain(apart.map(|(section, bytes)| (section + 1, bytes))) {
        let insert = "INSERT INTO body VALUES (?1, ?2)";
        connection.prepare_cached(insert)?.execute(params![part_id(id, number), part])?;
    }
    Ok(checksum)
}

/// Reads the range of commits of a page from three columns, of which `first` is the first.
pub(crate) fn read_commits(row: &Row<'_>, first: usize) -> rusqlite::Result<CommitRange> {
    let damaged = || {
        let what = "the time of a commit is out of range".into();
        rusqlite::Error::FromSqlConversionFailure(first + 1, rusqlite::types::Type::Integer, what)
    };
    Ok(CommitRange {
        before: row.get::<_, i64>(first)?.cast_unsigned(),
        newest: Ticks::new(row.get(first + 1)?).ok_or_else(damaged)?,
        span: row.get::<_, i64>(first + 2)?.cast_unsigned(),
    })
}

/// Reads a header from the columns of [`HEADER_COLUMNS`].
pub(crate) fn read_header(row: &Row<'_>) -> rusqlite::Result<PageRow> {
    let key = |column| {
        let bytes = row.get_ref(column)?.as_blob()?;
        let damaged =
            || rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, "no row key".into());
        RowKey::from_bytes(bytes).ok_or_else(damaged)
    };
    let header = PageHeader {
        first: key(2)?,
        last: key(3)?,
        entities: row.get(5)?,
        records: row.get(6)?,
        codec: row.get(7)?,
        raw_bytes: row.get(8)?,
        checksum: row.get::<_, i64>(9)?.cast_unsigned(),
        levels: row.get(10)?,
        commits: read_commits(row, 11)?,
    };
    Ok(PageRow {
        place: PageLocation::Row(row.get(0)?),
        partition: row.get(1)?,
        seq: row.get(4)?,
        header,
        shared: None,
    })
}

/// The name of a partition by its number. None if it has no name, which is damage if there are pages of it.
pub(crate) fn partition_name(connection: &Connection, partition: i64) -> rusqlite::Result<Option<Arc<str>>> {
    let mut statement = connection.prepare_cached("SELECT name FROM partition WHERE id = ?1")?;
    statement.query_row([partition], |row| Ok(row.get_ref(0)?.as_str()?.into())).optional()
}

/// The name of the partition of a page.
pub(crate) fn named_partition(connection: &Connection, path: &Path, page: &PageRow) -> Result<Arc<str>, StoreError> {
    let name = partition_name(connection, page.partition).map_err(StoreError::sqlite(path))?;
    name.ok_or_else(|| unnamed_partition(path, page))
}

/// Reads a page and checks it against its address `home`.
pub(crate) fn read_page(
    connection: &Connection,
    path: &Path,
    home: PageAddress,
    page: &PageRow,
    bodies: &mut BodyReader,
) -> Result<Page, StoreError> {
    decode(path, home, page, read_body(connection, path, page, bodies)?)
}

/// Reads the body of a page.
pub(crate) fn read_body<'b>(
    connection: &Connection,
    path: &Path,
    page: &PageRow,
    bodies: &'b mut BodyReader,
) -> Result<&'b [u8], StoreError> {
    let read = bodies.read(connection, page.place.page()).map_err(StoreError::sqlite(path))?;
    read.ok_or_else(|| damaged(path, page, "its body is missing".into()))
}

/// Checks the body of a page.
pub(crate) fn decode(path: &Path, home: PageAddress, page: &PageRow, body: &[u8]) -> Result<Page, StoreError> {
    let decoded = Page::decode_of(home, page.seq, &page.header, body);
    decoded
        .map_err(|error| damaged(path, page, error.to_string()))
        .and_then(|decoded| check_owners(path, page, decoded))
}

/// Fails if a page of one partition has rows of many, or the other way round.
pub(crate) fn check_owners(path: &Path, page: &PageRow, decoded: Page) -> Result<Page, StoreError> {
    match decoded.has_owners() == page.shared.is_some() {
        true => Ok(decoded),
        false => Err(damaged(path, page, "its rows are not of its partition".into())),
    }
}

/// The same; `None` if `wants` refuses the page by its sections.
pub(crate) fn decode_wanted(
    path: &Path,
    home: PageAddress,
    page: &PageRow,
    body: &[u8],
    wants: impl FnOnce(&PageSections<'_>) -> bool,
) -> Result<Option<Page>, StoreError> {
    let decoded = Page::decode_wanted(home, page.seq, &page.header, body, wants);
    let decoded = decoded.map_err(|error| damaged(path, page, error.to_string()))?;
    decoded.map(|decoded| check_owners(path, page, decoded)).transpose()
}

/// Reads what is wanted of a page, and checks it. `None` if its body is missing.
pub(crate) fn read_columns(
    (connection, path): (&Connection, &Path),
    home: PageAddress,
    page: &PageRow,
    bodies: &mut BodyReader,
    wanted: WantedColumns<'_>,
) -> Result<Option<Page>, StoreError> {
    let sql = |error| StoreError::sqlite(path)(error);
    let wrong = |error: PageError| damaged(path, page, error.to_string());
    let Some((front, mut sections)) = bodies.read_front(connection, page.place.page()).map_err(sql)? else {
        return Ok(None);
    };
    let mut partial = PartialPage::decode_front(home, page.seq, &page.header, front, wanted).map_err(wrong)?;
    for section in partial.read_near().map_err(wrong)? {
        partial.read(section, sections.read(section).map_err(sql)?).map_err(wrong)?;
    }
    let decoded = partial.finish().map_err(wrong)?;
    check_owners(path, page, decoded).map(Some)
}

/// The error of a page whose partition has no name.
pub(crate) fn unnamed_partition(path: &Path, page: &PageRow) -> StoreError {
    damaged(path, page, "its partition has no name".into())
}

/// The error of a damaged page.
pub(crate) fn damaged(path: &Path, page: &PageRow, what: String) -> StoreError {
    StoreError::Damaged { path: path.into(), page: page.place.to_string(), what }
}
