//! The headers of a group of pages (`page_groups`) as one row of the table `page_headers`.
//!
//! A count over a day needs the header of each page and no body. It reads a row a group instead of a row a page.
//!
//! ```text
//! headers := checksum u64 of the rest | [seq varint, commits, head]* page     partitions of shared pages are elsewhere
//! commits := before varint | newest signed, relative to that of the page before | span varint
//! head    := partition varint | entities varint | records varint | raw_bytes varint | codec u8
//!                                 | first RowKey | last RowKey, unless there is one entity | checksum u64
//!                                 | levels length varint | levels
//! ```
//!
//! The transaction that removes a page notes that in the row of its group, and the last page of a group removes the row.
//! Pages without a row, and those of a damaged one, are listed from `page`. If the rows do not have as many pages as
//! `page`, all are.

use super::commit_range::CommitRange;
use super::page::{ByteReader, PageError, PageHeader, put_signed, put_varint};
use super::page_groups::{self, PAGES_MAX, ids};
use super::page_rows::{HEADER_COLUMNS, PageLocation, PageRow, read_header};
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use rusqlite::{CachedStatement, Connection, params};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The schema of the table.
pub(crate) const SCHEMA: &str = "
    CREATE TABLE page_headers(
        first INTEGER PRIMARY KEY,           -- the id of its first page; the others follow
        pages INTEGER NOT NULL,
        gone INTEGER NOT NULL,               -- a bit for each page that was removed since
        headers BLOB NOT NULL                -- see the top of page_headers.rs
    );
";

/// Fewer pages have no row.
const PAGES_MIN: usize = 4;

/// The headers of pages in the order of their ids, each with its partition, commit and stored checksum.
#[derive(Default)]
pub(crate) struct PageHeadersBuilder<'p> {
    pages: Vec<(i64, i64, &'p PageHeader, u64)>,
}

impl<'p> PageHeadersBuilder<'p> {
    /// Adds the next page.
    pub(crate) fn push(&mut self, partition: i64, seq: i64, header: &'p PageHeader, checksum: u64) {
        self.pages.push((partition, seq, header, checksum));
    }

    /// Writes the rows of pages that were inserted with these ids, from `first` on.
    pub(crate) fn insert(self, connection: &Connection, first: i64) -> rusqlite::Result<()> {
        for (first, pages) in page_groups::groups(&self.pages, first).filter(|(_, pages)| pages.len() >= PAGES_MIN) {
            let mut out = vec![0; 8];
            let mut newest = 0;
            for (partition, seq, header, checksum) in pages {
                let commits = header.commits;
                put_varint(&mut out, seq.cast_unsigned());
                put_varint(&mut out, commits.before);
                put_signed(&mut out, commits.newest.get() - newest);
                put_varint(&mut out, commits.span);
                newest = commits.newest.get();
                put_head(&mut out, *partition, header, *checksum);
            }
            let checksum = xxh3_64(&out[8..]);
            out[..8].copy_from_slice(&checksum.to_le_bytes());
            let put = "INSERT INTO page_headers VALUES (?1, ?2, 0, ?3)";
            connection.prepare_cached(put)?.execute(params![first, pages.len() as i64, out])?;
        }
        Ok(())
    }
}

/// Notes that pages are removed.
pub(crate) fn remove(connection: &Connection, pages: impl IntoIterator<Item = i64>) -> rusqlite::Result<()> {
    let mut removed: Vec<i64> = pages.into_iter().collect();
    removed.sort_unstable();
    let (Some(least), Some(most)) = (removed.first(), removed.last()) else { return Ok(()) };
    let select = "SELECT first, pages, gone FROM page_headers WHERE first BETWEEN ?1 AND ?2";
    let mut select = connection.prepare_cached(select)?;
    let groups = select.query_map(params![least.saturating_sub(PAGES_MAX as i64), most], |row| {
        Ok((ids(row.get(0)?, row.get(1)?), row.get::<_, i64>(2)?.cast_unsigned()))
    })?;
    for (ids, gone) in groups.collect::<rusqlite::Result<Vec<_>>>()? {
        let from = removed.partition_point(|id| *id < ids.start);
        let of_group = removed[from..].iter().take_while(|id| **id < ids.end);
        let now = of_group.fold(gone, |gone, id| gone | 1 << (id - ids.start));
        if i64::from(now.count_ones()) == ids.end - ids.start {
            connection.prepare_cached("DELETE FROM page_headers WHERE first = ?1")?.execute([ids.start])?;
        } else if now != gone {
            let update = "UPDATE page_headers SET gone = ?2 WHERE first = ?1";
            connection.prepare_cached(update)?.execute(params![ids.start, now.cast_signed()])?;
        }
    }
    Ok(())
}

/// Removes the row with a page, which is no longer as it was. Its pages are listed from `page`.
pub(crate) fn remove_group_of(connection: &Connection, page: i64) -> rusqlite::Result<()> {
    let delete = "DELETE FROM page_headers WHERE first BETWEEN ?1 - ?2 AND ?1 AND first + pages > ?1";
    connection.prepare_cached(delete)?.execute(params![page, PAGES_MAX as i64]).map(drop)
}

/// Every page, by id.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<PageRow>> {
    let count: i64 = connection.prepare_cached("SELECT count(*) FROM page")?.query_row([], |row| row.get(0))?;
    let count = usize::try_from(count).unwrap_or(0);
    let mut pages = Vec::with_capacity(count);
    let mut select = select_pages(connection)?;
    let mut next = i64::MIN;
    each_group(connection, |ids, gone, headers| {
        if ids.start < next {
            return Ok(());
        }
        list(&mut select, next..ids.start, &mut pages)?;
        let before = pages.len();
        match decode(&ids, gone, headers, &mut pages) {
            Ok(()) => next = ids.end,
            Err(_) => {
                pages.truncate(before);
                next = ids.start;
            }
        }
        Ok(())
    })?;
    list(&mut select, next..i64::MAX, &mut pages)?;
    if pages.len() != count {
        pages.clear();
        list(&mut select, i64::MIN..i64::MAX, &mut pages)?;
    }
    Ok(pages)
}

/// The number of rows that have other headers than their pages.
pub(crate) fn count_wrong(connection: &Connection) -> rusqlite::Result<u64> {
    let (mut select, mut wrong) = (select_pages(connection)?, 0);
    each_group(connection, |ids, gone, headers| {
        let (mut of_row, mut stored) = (Vec::new(), Vec::new());
        let is_read = decode(&ids, gone, headers, &mut of_row).is_ok();
        list(&mut select, ids, &mut stored)?;
        wrong += u64::from(!is_read || of_row != stored);
        Ok(())
    })?;
    Ok(wrong)
}

fn each_group(
    connection: &Connection,
    mut each: impl FnMut(Range<i64>, u64, &[u8]) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let select = "SELECT first, pages, gone, headers FROM page_headers ORDER BY first";
    let mut statement = connection.prepare_cached(select)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let gone = row.get::<_, i64>(2)?.cast_unsigned();
        each(ids(row.get(0)?, row.get(1)?), gone, row.get_ref(3)?.as_blob()?)?;
    }
    Ok(())
}

fn select_pages(connection: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    connection.prepare_cached(&format!("SELECT {HEADER_COLUMNS} FROM page WHERE id >= ?1 AND id < ?2 ORDER BY id"))
}

fn list(select: &mut CachedStatement<'_>, ids: Range<i64>, pages: &mut Vec<PageRow>) -> rusqlite::Result<()> {
    if !ids.is_empty() {
        for page in select.query_map(params![ids.start, ids.end], read_header)? {
            pages.push(page?);
        }
    }
    Ok(())
}

/// Adds the pages of a row that are not gone.
fn decode(ids: &Range<i64>, gone: u64, bytes: &[u8], pages: &mut Vec<PageRow>) -> Result<(), PageError> {
    const WRONG: PageError = PageError::Damaged("its headers are not those of its pages");
    let (checksum, rest) = bytes.split_first_chunk::<8>().ok_or(WRONG)?;
    if u64::from_le_bytes(*checksum) != xxh3_64(rest) {
        return Err(WRONG);
    }
    let mut reader = ByteReader::new(rest);
    let mut newest = 0i64;
    for id in ids.clone() {
        let seq = reader.varint()?.cast_signed();
        let before = reader.varint()?;
        newest = newest.checked_add(reader.signed()?).ok_or(WRONG)?;
        let commits = CommitRange { before, newest: Ticks::new(newest).ok_or(WRONG)?, span: reader.varint()? };
        let (partition, header, levels) = read_head(&mut reader)?;
        if gone >> (id - ids.start) & 1 == 0 {
            let header = PageHeader { levels: levels.to_vec(), commits, ..header };
            pages.push(PageRow { place: PageLocation::Row(id), partition, seq, header, shared: None });
        }
    }
    if reader.rest().is_empty() { Ok(()) } else { Err(WRONG) }
}

/// Writes the header of a page with the stored checksum `noted`.
fn put_head(out: &mut Vec<u8>, partition: i64, header: &PageHeader, noted: u64) {
    let PageHeader { first, last, entities, records, levels, codec, raw_bytes, commits: _, checksum: _ } = header;
    put_varint(out, partition.cast_unsigned());
    for number in [*entities, *records, *raw_bytes] {
        put_varint(out, u64::from(number));
    }
    out.push(*codec);
    out.extend_from_slice(&first.to_bytes());
    if *entities != 1 {
        out.extend_from_slice(&last.to_bytes());
    }
    out.extend_from_slice(&noted.to_le_bytes());
    put_varint(out, levels.len() as u64);
    out.extend_from_slice(levels);
}

/// A partition, a header without levels, and the levels.
#[inline]
fn read_head<'h>(heads: &mut ByteReader<'h>) -> Result<(i64, PageHeader, &'h [u8]), PageError> {
    let partition = heads.varint()?.cast_signed();
    let (entities, records, raw_bytes) = (number(heads)?, number(heads)?, number(heads)?);
    let codec = heads.byte()?;
    let first = key(heads)?;
    let last = if entities == 1 { first } else { key(heads)? };
    let checksum = u64::from_le_bytes(heads.array()?);
    let levels = heads.varint()?;
    let levels = heads.take(usize::try_from(levels).unwrap_or(usize::MAX))?;
    let (levels_of, commits) = (Vec::new(), CommitRange::default());
    let header = PageHeader { first, last, entities, records, levels: levels_of, codec, raw_bytes, commits, checksum };
    Ok((partition, header, levels))
}

fn number(heads: &mut ByteReader<'_>) -> Result<u32, PageError> {
    u32::try_from(heads.varint()?).map_err(|_| PageError::Damaged("a number is larger than it can be"))
}

fn key(heads: &mut ByteReader<'_>) -> Result<RowKey, PageError> {
    RowKey::from_bytes(&heads.array::<{ RowKey::BYTES }>()?).ok_or(PageError::Damaged("a row key is invalid"))
}

#[cfg(test)]
mod tests {
    use super::super::page_rows::put_header;
    use super::*;
    use proptest::prelude::*;

    /// A step of a file's life.
    #[derive(Clone, Debug)]
    enum Change {
        /// This many pages are written by one transaction.
        Insert(usize),
        /// Pages are removed.
        Remove(Vec<prop::sample::Index>),
        /// A byte of a row changes.
        Damage(prop::sample::Index, prop::sample::Index),
        /// A page goes, and its group does not know.
        Lose(prop::sample::Index),
    }

    fn change() -> impl Strategy<Value = Change> {
        let remove = prop_oneof![
            prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            prop::collection::vec(any::<prop::sample::Index>(), 100..300)
        ];
        prop_oneof![
            6 => (0usize..150).prop_map(Change::Insert),
            6 => remove.prop_map(Change::Remove),
            1 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(row, at)| Change::Damage(row, at)),
            1 => any::<prop::sample::Index>().prop_map(Change::Lose),
        ]
    }

    fn header(n: i64) -> PageHeader {
        let key = |n: i64| RowKey::new(Ticks::from_unix(1_700_000_000 - n, 0).expect("in range"), n.cast_unsigned(), 0);
        let entities = if n % 3 == 0 { 1 } else { 2 + n as u32 };
        let last = if entities == 1 { key(n) } else { key(n + 9) };
        let (levels, raw_bytes) = (vec![n as u8; (n % 5) as usize], 1 << 17);
        let newest = Ticks::from_unix(1_700_000_000 + n % 7, 0).expect("in range");
        let commits = CommitRange { before: n as u64 % 3, newest, span: n as u64 % 5 };
        let checksum = n as u64 * 77;
        PageHeader { first: key(n), last, entities, records: 1, levels, codec: 2, raw_bytes, commits, checksum }
    }

    fn insert(connection: &Connection, first: i64, headers: &[PageHeader]) {
        let mut builder = PageHeadersBuilder::default();
        for (id, header) in (first..).zip(headers) {
            builder.push(id % 7, first, header, header.checksum);
            put_header(connection, id, id % 7, first, header, header.checksum).expect("a page");
        }
        builder.insert(connection, first).expect("rows");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// The listed pages are those of `page` after any changes. The check finds a damaged row, and nothing in sound ones.
        #[test]
        fn the_pages_are_those_of_the_table(changes in prop::collection::vec(change(), 1..12)) {
            let connection = Connection::open_in_memory().expect("a database");
            connection.execute_batch(SCHEMA).expect("a table");
            let page = "CREATE TABLE page(id INTEGER PRIMARY KEY, partition, first, last, seq, entities, records, codec,
                        raw_bytes, checksum, levels, commits, arrived, arrived_span)";
            connection.execute_batch(page).expect("a table");
            let (mut next, mut live, mut is_sound) = (1, Vec::new(), true);
            for change in changes {
                match change {
                    Change::Insert(count) => {
                        let headers: Vec<PageHeader> = (next..next + count as i64).map(header).collect();
                        insert(&connection, next, &headers);
                        live.extend(next..next + count as i64);
                        next += count as i64;
                    }
                    Change::Remove(of) if !live.is_empty() => {
                        let mut gone: Vec<i64> = of.iter().map(|of| *of.get(&live)).collect();
                        gone.dedup();
                        live.retain(|id| !gone.contains(id));
                        for id in &gone {
                            connection.execute("DELETE FROM page WHERE id = ?1", [id]).expect("removed");
                        }
                        remove(&connection, gone).expect("noted");
                    }
                    Change::Lose(of) if !live.is_empty() => {
                        let id = live.remove(of.index(live.len()));
                        connection.execute("DELETE FROM page WHERE id = ?1", [id]).expect("removed");
                        is_sound = false;
                    }
                    Change::Damage(of, at) => {
                        let mut rows = connection.prepare("SELECT first, headers FROM page_headers").expect("a query");
                        let rows: Vec<(i64, Vec<u8>)> = rows
                            .query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows")
                            .collect::<rusqlite::Result<_>>().expect("rows");
                        if !rows.is_empty() {
                            let (first, mut bytes) = of.get(&rows).clone();
                            let at = at.index(bytes.len());
                            bytes[at] ^= 1;
                            let update = "UPDATE page_headers SET headers = ?2 WHERE first = ?1";
                            connection.execute(update, params![first, bytes]).expect("damaged");
                            prop_assert!(!is_sound || count_wrong(&connection).expect("counted") == 1);
                            is_sound = false;
                        }
                    }
                    Change::Remove(_) | Change::Lose(_) => {}
                }
                let mut stored = Vec::new();
                let mut select = select_pages(&connection).expect("a query");
                list(&mut select, i64::MIN..i64::MAX, &mut stored).expect("listed");
                prop_assert_eq!(all(&connection).expect("listed"), stored);
                let stale = "SELECT count(*) FROM page_headers WHERE pages < 4 OR NOT EXISTS
                             (SELECT 1 FROM page WHERE id BETWEEN page_headers.first AND page_headers.first + pages - 1)";
                let stale: i64 = connection.query_row(stale, [], |row| row.get(0)).expect("counted");
                prop_assert!(stale == 0 || !is_sound);
                prop_assert!(!is_sound || count_wrong(&connection).expect("counted") == 0);
            }
        }

        /// Any bytes are headers or an error.
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300), count in 0i64..64) {
            let mut all = xxh3_64(&bytes).to_le_bytes().to_vec();
            all.extend(bytes);
            let _ = decode(&(5..5 + count), 0, &all, &mut Vec::new());
        }
    }
}
