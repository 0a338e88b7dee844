//! Groups of pages: up to 64 pages with consecutive ids that one transaction writes. Tables beside `page` have a row a
//! group: value counts (`page_counts`), filters of words (`page_bloom`), and headers (`page_headers`).
//!
//! Such a row is a copy. Where it is missing or damaged, or has another checksum for a page, the page itself is read.

use super::page_rows::PageRow;
use rusqlite::{Connection, params};
use std::ops::Range;

/// Pages of a group, which are bits of a mask.
pub(crate) const PAGES_MAX: usize = u64::BITS as usize;

/// A table with a row a group: its name, and the column of its bytes. The columns `first` and `pages` say which pages.
pub(crate) type GroupTable = (&'static str, &'static str);

/// The groups of pages that are inserted with ids from `first` on, each with the id of its first page.
pub(crate) fn groups<T>(pages: &[T], first: i64) -> impl Iterator<Item = (i64, &[T])> {
    (first..).step_by(PAGES_MAX).zip(pages.chunks(PAGES_MAX))
}

/// The low half of a stored checksum.
pub(crate) fn low(checksum: u64) -> u32 {
    (checksum & u64::from(u32::MAX)) as u32
}

/// The ids of a group of this many pages.
pub(crate) fn ids(first: i64, pages: i64) -> Range<i64> {
    first..first.saturating_add(pages.clamp(0, PAGES_MAX as i64))
}

/// Removes the rows of a table of which no page is left. Returns their first ids.
pub(crate) fn remove_empty(connection: &Connection, (table, _): GroupTable) -> rusqlite::Result<Vec<i64>> {
    let delete = format!(
        "DELETE FROM {table} WHERE NOT EXISTS
           (SELECT 1 FROM page WHERE id BETWEEN {table}.first AND {table}.first + pages - 1)
         RETURNING first"
    );
    connection.prepare_cached(&delete)?.query_map([], |row| row.get(0))?.collect()
}

/// The contents of the rows of a table, by the ids of their pages.
#[derive(Debug)]
pub(crate) struct PageGroups<T> {
    groups: Vec<(Range<i64>, T)>,
}

impl<T> Default for PageGroups<T> {
    fn default() -> PageGroups<T> {
        PageGroups { groups: Vec::new() }
    }
}

impl<T> PageGroups<T> {
    /// Reads the rows of some of these pages. `read` gets the ids of a row, and passes over a damaged one.
    pub(crate) fn read(
        connection: &Connection,
        (table, column): GroupTable,
        pages: &[PageRow],
        mut read: impl FnMut(&Range<i64>, &[u8]) -> rusqlite::Result<Option<T>>,
    ) -> rusqlite::Result<PageGroups<T>> {
        let mut wanted: Vec<i64> = pages.iter().filter_map(PageRow::id).collect();
        wanted.sort_unstable();
        let mut found = PageGroups::default();
        let (Some(least), Some(most)) = (wanted.first(), wanted.last()) else { return Ok(found) };
        let select = format!("SELECT first, pages, {column} FROM {table} WHERE first BETWEEN ?1 AND ?2 ORDER BY first");
        let mut statement = connection.prepare_cached(&select)?;
        let mut rows = statement.query(params![least.saturating_sub(PAGES_MAX as i64), most])?;
        while let Some(row) = rows.next()? {
            let ids = ids(row.get(0)?, row.get(1)?);
            if wanted.get(wanted.partition_point(|id| *id < ids.start)).is_some_and(|id| *id < ids.end)
                && let Some(group) = read(&ids, row.get_ref(2)?.as_blob()?)?
            {
                found.groups.push((ids, group));
            }
        }
        Ok(found)
    }

    /// The group of a page, and the place of the page in it.
    pub(crate) fn of(&self, page: &PageRow) -> Option<(&T, usize)> {
        let id = page.id()?;
        let (ids, group) = self.groups.get(self.groups.partition_point(|(ids, _)| ids.end <= id))?;
        let place = usize::try_from(id.checked_sub(ids.start)?).ok()?;
        Some((group, place))
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}
