//! A file of an open day, opened to read: its snapshot, its pages, and the names of its partitions.

use super::SnapshotTimes;
use crate::StoreError;
use crate::format::catalog::{Catalog, Committed, LiveFile};
use crate::format::day_file::{Total, read_total};
use crate::format::page::{Page, PageAddress, PageSections, Prefilter, TableAddress, WantedColumns};
use crate::format::page_rows::{self, BodyReader, PageLocation, PageRow};
use crate::format::shared_pages::{self, SharedPage};
use crate::sqlite;
use rusqlite::{Connection, OptionalExtension, params};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A day's file, opened to read.
pub(crate) struct OpenDayFile {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    pub(crate) file: LiveFile,
    pub(super) table_address: TableAddress,
    pub(crate) bodies: RefCell<BodyReader>,
    /// When the last snapshot began.
    begun: Cell<Option<Instant>>,
    times: SnapshotTimes,
}

impl OpenDayFile {
    /// A file without a snapshot, by a connection to it.
    pub(super) fn of(connection: Connection, path: PathBuf, file: &LiveFile, times: SnapshotTimes) -> OpenDayFile {
        OpenDayFile {
            connection,
            path,
            file: file.clone(),
            table_address: TableAddress::new(&file.day),
            bodies: RefCell::default(),
            begun: Cell::default(),
            times,
        }
    }

    /// Whether it holds a snapshot.
    pub(crate) fn has_snapshot(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// How long a snapshot of the file may last by now.
    pub(crate) fn snapshot_max(&self) -> Duration {
        match sqlite::journal_bytes(&self.path) > sqlite::JOURNAL_BYTES_LONG {
            true => self.times.of_long_journal,
            false => self.times.usual,
        }
    }

    /// Whether it holds a snapshot that has lasted long enough.
    pub(crate) fn is_due(&self) -> bool {
        let age = self.begun.get().map_or(Duration::ZERO, |begun| begun.elapsed());
        self.has_snapshot() && age > self.times.of_long_journal && age > self.snapshot_max()
    }

    /// Whether its snapshot has a page as it was read from another one.
    pub(crate) fn has_page(&self, page: &PageRow) -> Result<bool, StoreError> {
        let found = self.connection.prepare_cached("SELECT 1 FROM page WHERE id = ?1 AND checksum = ?2");
        let found = found
            .and_then(|mut statement| statement.exists(params![page.place.page(), page.header.checksum.cast_signed()]));
        found.map_err(StoreError::sqlite(&self.path))
    }

    /// The name of the partition of a page.
    pub(crate) fn name_of(&self, page: &PageRow) -> Result<Arc<str>, StoreError> {
        page_rows::named_partition(&self.connection, &self.path, page)
    }

    /// The name of a partition with rows in a shared page, from `names` if it is there.
    pub(crate) fn name_in(
        &self,
        page: &PageRow,
        number: usize,
        names: &mut HashMap<i64, Arc<str>>,
    ) -> Result<Arc<str>, StoreError> {
        let partition = page.shared.as_ref().and_then(|shared| shared.partition(number));
        let partition = partition.ok_or_else(|| page_rows::unnamed_partition(&self.path, page))?;
        let name = match names.get(&partition) {
            Some(name) => name.clone(),
            None => {
                let name = page_rows::partition_name(&self.connection, partition);
                let name = name.map_err(StoreError::sqlite(&self.path))?;
                let name = name.ok_or_else(|| page_rows::unnamed_partition(&self.path, page))?;
                names.insert(partition, name.clone());
                name
            }
        };
        self.check_number(page, number, &name)?;
        Ok(name)
    }

    /// Fails if the rows with this number in a shared page may not be shown under a name.
    pub(crate) fn check_number(&self, page: &PageRow, number: usize, name: &str) -> Result<(), StoreError> {
        let Some(shared) = &page.shared else { return Ok(()) };
        shared_pages::check_name(&self.path, page, (shared, number), self.table_address, name)
    }

    /// Fails if the rows of a part of a shared page may not be shown under the name of its partition.
    pub(crate) fn check_part(&self, part: &PageRow, of: &SharedPage) -> Result<(), StoreError> {
        let PageLocation::Part { part: number, .. } = part.place else { return Ok(()) };
        of.check_name(&self.path, part, (number as usize, self.table_address), &self.name_of(part)?)
    }

    /// Reads a shared page and checks it, without the names of its partitions.
    pub(crate) fn read_shared(&self, page: &PageRow) -> Result<SharedPage, StoreError> {
        shared_pages::read(&self.connection, &self.path, self.table_address, page)
    }

    /// Reads a page of `partition`, or a shared one, and checks it.
    pub(crate) fn read_page(&self, partition: &str, page: &PageRow) -> Result<Page, StoreError> {
        let mut bodies = self.bodies.borrow_mut();
        page_rows::read_page(&self.connection, &self.path, self.address_of(partition, page), page, &mut bodies)
    }

    /// The address of a page of `partition`, or of a shared one.
    fn address_of(&self, partition: &str, page: &PageRow) -> PageAddress {
        match &page.shared {
            Some(shared) => shared.address(self.table_address),
            None => self.table_address.at(partition),
        }
    }

    /// Reads a page of `partition`, or a shared one, and checks it; none if the prefilter excludes all its rows.
    pub(crate) fn read_prefiltered(
        &self,
        partition: &str,
        page: &PageRow,
        prefilter: &Prefilter,
    ) -> Result<Option<Page>, StoreError> {
        let mut bodies = self.bodies.borrow_mut();
        let body = page_rows::read_body(&self.connection, &self.path, page, &mut bodies)?;
        let found = prefilter.decode_page(self.address_of(partition, page), page.seq, &page.header, body);
        let found = found.map_err(|error| page_rows::damaged(&self.path, page, error.to_string()))?;
        found.map(|found| page_rows::check_owners(&self.path, page, found)).transpose()
    }

    /// Checks the body of a page of `partition`, or of a shared one; `None` if `wants` refuses the page by its sections.
    pub(crate) fn decode_wanted(
        &self,
        partition: &str,
        page: &PageRow,
        body: &[u8],
        wants: impl FnOnce(&PageSections<'_>) -> bool,
    ) -> Result<Option<Page>, StoreError> {
        page_rows::decode_wanted(&self.path, self.address_of(partition, page), page, body, wants)
    }

    /// Reads what is wanted of a page of `partition`, or of a shared one. `None` if its body is missing.
    pub(crate) fn read_columns(
        &self,
        partition: &str,
        page: &PageRow,
        wanted: WantedColumns<'_>,
    ) -> Result<Option<Page>, StoreError> {
        let (mut bodies, home) = (self.bodies.borrow_mut(), self.address_of(partition, page));
        page_rows::read_columns((&self.connection, &self.path), home, page, &mut bodies, wanted)
    }

    fn mismatch(&self, total: &Total, noted: &LiveFile) -> StoreError {
        let what = format!(
            "its last commit is {} with {} entities, the catalog says {} with {}",
            total.last_seq, total.entities, noted.last_seq, noted.entities
        );
        let data = self.path.ancestors().nth(2).unwrap_or(Path::new(".")).into();
        StoreError::Mismatch { path: self.path.clone(), what, data }
    }
}

/// Ends the snapshot, if there is one.
pub(crate) fn end(connection: &Connection) {
    if !connection.is_autocommit() {
        // A failure does not matter: the transaction wrote nothing.
        let _ = run(connection, "COMMIT");
    }
}

fn run(connection: &Connection, statement: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(statement)?.execute([]).map(drop)
}

/// Begins a snapshot. The first read fixes it, so this function reads the total. The snapshot must have all that the
/// catalog recorded of the file before. Otherwise the file lost its journal, or is another file.
pub(crate) fn begin(opened: &OpenDayFile) -> Result<Total, StoreError> {
    let begun = run(&opened.connection, "BEGIN").and_then(|()| read_total(&opened.connection));
    let total = begun.map_err(StoreError::sqlite(&opened.path))?;
    opened.begun.set(Some(Instant::now()));
    let (noted, found) = (&opened.file, total.last_seq);
    let is_whole = found > noted.last_seq || (found, total.entities) == (noted.last_seq, noted.entities);
    if is_whole { Ok(total) } else { Err(opened.mismatch(&total, noted)) }
}

/// Fails if a snapshot has later commits than the catalog, or a commit that the catalog did not record for this file.
/// Then the file or the catalog is another one. `committed` must be read after the snapshot began.
pub(crate) fn check_snapshot(
    catalog: &Catalog,
    opened: &OpenDayFile,
    total: &Total,
    committed: &Committed,
) -> Result<(), StoreError> {
    if total.last_seq > committed.seq + 1 {
        return Err(opened.mismatch(total, &opened.file));
    }
    if total.last_seq == opened.file.last_seq || !committed.includes(total.last_seq) {
        return Ok(());
    }
    // A commit wrote to the file after the catalog was read. By now the catalog has that commit.
    let now = catalog.files_of(&opened.file.day)?;
    match now.into_iter().find(|file| file.name == opened.file.name) {
        Some(noted) if noted.last_seq < total.last_seq => Err(opened.mismatch(total, &noted)),
        _ => Ok(()),
    }
}

pub(super) fn partitions_of(opened: &OpenDayFile, instance: &str) -> Result<Vec<String>, StoreError> {
    let key = daytable_model::key::partition_key(instance, None);
    let found = (|| {
        // The name of a bucket is the key, `~` and two hex digits. No other name begins with the key and `~`.
        let select = "SELECT name FROM partition WHERE name = ?1 OR (name >= ?1 || '~' AND name < ?1 || '~g')";
        let mut statement = opened.connection.prepare_cached(select)?;
        let names = statement.query_map([&key], |row| row.get::<_, String>(0))?;
        let is_bucket = |name: &String| name.len() == key.len() || name.len() == key.len() + 3;
        Ok(names.collect::<rusqlite::Result<Vec<_>>>()?.into_iter().filter(is_bucket).collect())
    })();
    found.map_err(StoreError::sqlite(&opened.path))
}

pub(super) fn partition_id(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached("SELECT id FROM partition WHERE name = ?1")?;
    statement.query_row([name], |row| row.get(0)).optional()
}

pub(crate) fn partition_names(
    opened: &OpenDayFile,
    wanted: Option<&[String]>,
) -> Result<BTreeMap<i64, Arc<str>>, StoreError> {
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, String>(1)?.into()));
    let result = (|| match wanted {
        None => {
            let mut statement = opened.connection.prepare_cached("SELECT id, name FROM partition")?;
            statement.query_map([], read)?.collect()
        }
        Some(wanted) => {
            let mut statement = opened.connection.prepare_cached("SELECT id, name FROM partition WHERE name = ?1")?;
            let mut found = BTreeMap::new();
            for name in wanted {
                found.extend(statement.query_row([name], read).optional()?);
            }
            Ok(found)
        }
    })();
    result.map_err(StoreError::sqlite(&opened.path))
}
