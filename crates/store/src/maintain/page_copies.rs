//! Drops entities that other pages have as well.
//!
//! An earlier daytable could merge the pages of a partition twice: then the day's file has some of its entities several
//! times, and more of them than its total says. Readers take each key once, so no answer is wrong, but the file grows and
//! its total does not match.
//!
//! An entity is dropped if it is superseded: another page of its partition has the same key of a later commit, or an equal
//! entity of the same commit. Of equal entities of one commit, that of the page with the highest number stays. A page that
//! has others as well is written again without the superseded ones. A page stays as it is if another page of its commit has
//! a different entity at one of its keys: written again, it would have the higher number and win.

use crate::StoreError;
use crate::format::day_file::{DayFile, PageMerge, read_total};
use crate::format::page::{Page, PageAddress, PageBuilder, earliest_first_key};
use crate::format::page_rows::{self, BodyReader, HEADER_COLUMNS, PageRow, read_header};
use crate::format::shared_pages::SHARED;
use daytable_model::property::Property;
use rusqlite::{Connection, params};

/// Pages that one transaction replaces.
const TRANSACTION_PAGES: usize = 64;

/// What was dropped of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedCopies {
    /// The number of pages that had copies.
    pub(crate) pages: u64,
    /// The number of dropped entities.
    pub(crate) entities: u64,
    /// Entities that the file still has beyond its total: rows of shared pages. Sealing resolves them.
    pub(crate) left: u64,
}

/// Drops the copies in a file that has more entities than its total says, and counts those that are left as duplicates that
/// are still to be merged. Changes nothing, and returns `None`, in any other file. After a kill it goes on where it was.
///
/// # Errors
///
/// An error of the file, or a damaged page. The file stays as good as it was.
pub(crate) fn drop_copies(file: &mut DayFile) -> Result<Option<DroppedCopies>, StoreError> {
    let path = file.path().to_owned();
    let sql = |error| StoreError::sqlite(&path)(error);
    let total = read_total(file.connection()).map_err(sql)?;
    let sum = "SELECT coalesce(sum(entities), 0) FROM page";
    let found: i64 = file.connection().query_row(sum, [], |row| row.get(0)).map_err(sql)?;
    let copies = found - (total.entities - total.merged);
    if copies <= 0 {
        return Ok(None);
    }
    let select = format!("SELECT {HEADER_COLUMNS} FROM page WHERE partition <> {SHARED} ORDER BY partition, id");
    let pages: Vec<PageRow> = (|| {
        let mut statement = file.connection().prepare(&select)?;
        statement.query_map([], read_header)?.collect::<rusqlite::Result<_>>()
    })()
    .map_err(sql)?;
    let (mut dropped, mut merges) = (DroppedCopies::default(), Vec::new());
    for page in &pages {
        let Some(merge) = without_superseded(file, page)? else { continue };
        dropped.pages += 1;
        dropped.entities += merge.duplicates;
        merges.push(merge);
        if merges.len() >= TRANSACTION_PAGES {
            file.replace(&std::mem::take(&mut merges), &[])?;
        }
    }
    file.replace(&merges, &[])?;
    let shared = format!("SELECT coalesce(sum(entities), 0) FROM page WHERE partition = {SHARED}");
    let shared: i64 = file.connection().query_row(&shared, [], |row| row.get(0)).map_err(sql)?;
    // After a kill, the copies are also those that were dropped before it.
    dropped.left = copies.min(shared).cast_unsigned().saturating_sub(dropped.entities);
    // What commits wrote stays as it was counted.
    let update = "UPDATE total SET merged = entities - (SELECT coalesce(sum(entities), 0) FROM page)";
    file.connection().execute(update, []).map_err(sql)?;
    Ok(Some(dropped))
}

/// The page without its superseded entities; `None` if it has none of these.
pub(crate) fn without_superseded(file: &DayFile, page: &PageRow) -> Result<Option<PageMerge>, StoreError> {
    let Some(id) = page.id() else { return Ok(None) };
    let later = later(file.connection(), page).map_err(StoreError::sqlite(file.path()))?;
    if later.is_empty() {
        return Ok(None);
    }
    let home = file.address_of(&file.name_of(page)?);
    let mut bodies = BodyReader::default();
    let rows = read(file, home, page, &mut bodies)?;
    let mut kept: Vec<u32> = (0..).take(rows.len()).collect();
    let mut has_rival = false;
    for other in &later {
        let found = read(file, home, other, &mut bodies)?;
        kept.retain(|row| {
            let row = *row as usize;
            let Ok(at) = found.keys().binary_search(&rows.key(row)) else { return true };
            let is_superseded = other.seq > page.seq || is_equal(&rows, row, &found, at);
            has_rival |= !is_superseded;
            !is_superseded
        });
        if kept.is_empty() {
            break;
        }
    }
    if has_rival || kept.len() == rows.len() {
        return Ok(None);
    }
    let mut builder = PageBuilder::new();
    builder.push_rows(&rows, &kept);
    let mut new = if kept.is_empty() { Vec::new() } else { builder.build().pages };
    new.iter_mut().for_each(|new| new.header.commits = page.header.commits);
    let duplicates = (rows.len() - kept.len()) as u64;
    let merge = PageMerge {
        partition: page.partition,
        home,
        old: vec![id],
        new,
        seq: page.seq,
        duplicates,
        shared_entities: 0,
    };
    Ok(Some(merge))
}

fn read(file: &DayFile, home: PageAddress, page: &PageRow, bodies: &mut BodyReader) -> Result<Page, StoreError> {
    page_rows::read_page(file.connection(), file.path(), home, page, bodies)
}

/// The pages of its partition, of later commits or of its commit with a higher number, that have keys between its first and
/// its last. So of two pages at most one is later than the other.
fn later(connection: &Connection, page: &PageRow) -> rusqlite::Result<Vec<PageRow>> {
    let (first, last) = (page.header.first, page.header.last);
    let from = earliest_first_key(first);
    let select = format!(
        "SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?1 AND first BETWEEN ?2 AND ?3 AND last >= ?4
         AND (seq > ?5 OR seq = ?5 AND id > ?6) ORDER BY id"
    );
    let bounds = params![page.partition, from.to_bytes(), last.to_bytes(), first.to_bytes(), page.seq, page.id()];
    connection.prepare_cached(&select)?.query_map(bounds, read_header)?.collect()
}

/// Whether two rows have the same properties.
fn is_equal(one: &Page, row: usize, other: &Page, at: usize) -> bool {
    fn sorted(page: &Page, row: usize) -> Vec<(&str, Property<'_>)> {
        let mut properties: Vec<_> = page.properties(row).collect();
        properties.sort_by_key(|(name, _)| *name);
        properties
    }
    one.level(row) == other.level(at) && sorted(one, row) == sorted(other, at)
}
