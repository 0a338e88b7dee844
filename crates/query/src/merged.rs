//! A day that is in a remote store and, if it is not completely sent, in the data folder: each row once, newest first.
//!
//! A row is removed from the data folder after it was sent. It may be in both places, but is never missing from both.
//! Two rules follow. Rows are merged by their keys, and equal ones are returned once. Rows that were read ahead from
//! the remote store must be younger than the snapshot of the data folder they are merged with: after each new snapshot,
//! the partitions of the folder are read again from the remote store, from the last row on.
//!
//! A rewritten record may be current in the folder and outdated in the remote store. The folder's version is valid, so
//! every row of the folder is read, even those that do not match.

use super::archived::{ArchiveSession, ArchivedPart};
use super::bounds::{Bounds, Rows, archived_rows, range_of, unless_gone};
use super::filter::{Filter, RowFilter};
use super::remote::RemoteRows;
use super::stores::Stores;
use crate::tables::{OwnedRow, Projection, TableError, TableStore};
use daytable_model::key::RowKey;
use daytable_store::{Range, Scan, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rows of one day from both places, or from its archive if it is dropped meanwhile.
pub(super) struct MergedRows<'a> {
    stores: &'a Stores<'a>,
    remote: &'a dyn TableStore,
    reading: &'a ArchiveSession,
    filter: &'a Filter,
    row_filter: &'a RowFilter<'a>,
    bounds: Bounds,
    columns: Projection,
    local: Option<Scan<'a>>,
    local_next: Option<NextRow>,
    /// The partitions that the data folder has, or had.
    local_partitions: BTreeSet<Arc<str>>,
    /// The number of snapshots of `local` at the last remote read.
    snapshots: u64,
    /// `None` while the table does not exist.
    remote_rows: Option<RemoteRows<'a>>,
    archive: Option<Rows<'a>>,
    archive_next: Option<OwnedRow>,
    /// The key of the last row, and the partitions that had it.
    last: Option<RowKey>,
    returned: Vec<Arc<str>>,
    is_over: bool,
}

/// The reason for an incomplete answer: another daytable dropped the table and knows its archive, this one does not.
const GONE: &str = "it was dropped while it was read, and no archive of it is known here";

/// The next row of one place.
struct NextRow {
    key: RowKey,
    partition: Arc<str>,
    /// `None` if it does not match; it still replaces equal rows of other places.
    row: Option<OwnedRow>,
}

impl NextRow {
    fn of(row: OwnedRow) -> NextRow {
        NextRow { key: row.key, partition: row.partition.clone(), row: Some(row) }
    }
}

/// The place of the next row.
enum Origin {
    Local,
    RemoteRows,
    Archive,
}

impl<'a> MergedRows<'a> {
    pub(super) fn begin(
        stores: &'a Stores<'a>,
        remote: &'a dyn TableStore,
        reading: &'a ArchiveSession,
        filter: &'a Filter,
        row_filter: &'a RowFilter<'a>,
        bounds: Bounds,
        columns: Projection,
    ) -> Result<MergedRows<'a>, TableError> {
        let range = if bounds.stands { unless_gone(range_of(stores.reader, filter, &bounds))?.flatten() } else { None };
        let every = |range| Range { contains: None, level: None, ..range };
        let scan = range.map(|range| stores.reader.scan(&bounds.table, &every(range))).transpose();
        let local = unless_gone(scan)?.flatten();
        let snapshots = local.as_ref().map_or(0, Scan::snapshots);
        let mut rows = MergedRows {
            stores,
            remote,
            reading,
            filter,
            row_filter,
            bounds,
            columns,
            local,
            local_next: None,
            local_partitions: BTreeSet::new(),
            snapshots,
            remote_rows: None,
            archive: None,
            archive_next: None,
            last: None,
            returned: Vec::new(),
            is_over: false,
        };
        // After the snapshot of the data folder.
        rows.reread_remote()?;
        Ok(rows)
    }

    /// Reads the next row of the data folder.
    fn read_local(&mut self) -> Result<(), TableError> {
        while self.local_next.is_none()
            && let Some(scan) = &mut self.local
        {
            let row = scan.next();
            let snapshots = scan.snapshots();
            let is_gone = matches!(row, Some(Err(StoreError::TableGone(_))));
            match row {
                Some(Ok(row)) => {
                    let is_wanted = self.row_filter.may_match(row.key(), row.level(), row.properties());
                    let entity = is_wanted.then(|| OwnedRow::of(&row));
                    self.local_next = Some(NextRow { key: row.key(), partition: row.partition, row: entity });
                }
                Some(Err(StoreError::TableGone(_))) | None => self.local = None,
                Some(Err(error)) => return Err(error.into()),
            }
            if is_gone || self.snapshots != snapshots {
                self.snapshots = snapshots;
                self.reread_remote()?;
            }
        }
        Ok(())
    }

    /// Discards the rows read ahead from the partitions that the data folder has, or had.
    fn reread_remote(&mut self) -> Result<(), TableError> {
        let table = &self.bounds.table;
        let local_partitions = unless_gone(self.stores.reader.partitions(table))?.unwrap_or_default();
        self.local_partitions
            .extend(local_partitions.into_iter().filter(|partition| self.filter.wants_partition(table, partition)));
        let read = match &mut self.remote_rows {
            Some(remote_rows) => remote_rows.restart(&self.local_partitions, self.last),
            None => {
                let (table, times) = (table.clone(), (self.bounds.from, self.bounds.to));
                let begun = RemoteRows::begin(
                    self.remote,
                    table,
                    self.filter,
                    self.columns,
                    times,
                    self.last,
                    &self.local_partitions,
                );
                begun.map(|remote_rows| self.remote_rows = Some(remote_rows))
            }
        };
        if unless_not_there(read)?.is_none() {
            self.read_archive_instead()?;
        }
        Ok(())
    }

    /// Skips rows of the remote store, or of the archive, until the next one matches.
    fn read_remote(&mut self) -> Result<(), TableError> {
        while let Some(remote_rows) = &mut self.remote_rows {
            if unless_not_there(remote_rows.fill())?.is_none() {
                self.read_archive_instead()?;
                break;
            }
            let Some(row) = remote_rows.head() else { break };
            let properties = row.properties.iter().map(|(name, value)| (name.as_str(), value.as_property()));
            if self.row_filter.may_match(row.key, row.level, properties) {
                break;
            }
            drop(remote_rows.pop());
        }
        while self.archive_next.is_none()
            && let Some(row) = self.archive.as_mut().and_then(Iterator::next).transpose()?
        {
            let is_wanted = self.row_filter.may_match(row.key(), row.level(), row.properties());
            self.archive_next = is_wanted.then(|| OwnedRow::of(&row));
        }
        Ok(())
    }

    /// The table is dropped, or not created yet: reads its archive.
    fn read_archive_instead(&mut self) -> Result<(), TableError> {
        let was_read = self.remote_rows.take().is_some();
        if self.archive.is_none() {
            let reader = self.stores.reader;
            let archived = self.reading.latest(reader)?.remove(&self.bounds.table).map(ArchivedPart::Catalog);
            if was_read && archived.is_none() {
                // The owner may have archived it; only the owner's catalog knows where.
                self.reading.unread(&self.bounds.shown(), GONE);
            }
            let bounds = Bounds { stands: false, archived, ..self.bounds.clone() };
            self.archive = archived_rows(reader, self.reading, self.filter, &bounds, self.last)?;
        }
        Ok(())
    }

    /// The next row, possibly one that was returned already.
    fn next_head(&mut self) -> Result<Option<NextRow>, TableError> {
        self.read_local()?;
        self.read_remote()?;
        let key_of = |row: &'_ OwnedRow| (row.key, row.partition.clone());
        let local = self.local_next.as_ref().map(|head| (head.key, head.partition.clone()));
        let remote_rows = self.remote_rows.as_ref().and_then(RemoteRows::head).map(key_of);
        let archive = self.archive_next.as_ref().map(key_of);
        let heads = [(local, Origin::Local), (remote_rows, Origin::RemoteRows), (archive, Origin::Archive)];
        let next = heads.into_iter().filter_map(|(key, place)| Some((key?, place)));
        // Of equal rows the first: the folder's.
        let Some((_, place)) = next.min_by(|(a, _), (b, _)| a.cmp(b)) else { return Ok(None) };
        Ok(match place {
            Origin::Local => self.local_next.take(),
            Origin::RemoteRows => self.remote_rows.as_mut().and_then(RemoteRows::pop).map(NextRow::of),
            Origin::Archive => self.archive_next.take().map(NextRow::of),
        })
    }

    fn next_row(&mut self) -> Result<Option<OwnedRow>, TableError> {
        while let Some(NextRow { key, partition, row }) = self.next_head()? {
            if self.last != Some(key) {
                self.returned.clear();
                self.last = Some(key);
            }
            if self.returned.contains(&partition) {
                continue;
            }
            self.returned.push(partition);
            if row.is_some() {
                return Ok(row);
            }
        }
        Ok(None)
    }
}

impl Iterator for MergedRows<'_> {
    type Item = Result<OwnedRow, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let row = self.next_row().transpose();
        self.is_over = !matches!(row, Some(Ok(_)));
        row
    }
}

/// A missing table has no rows.
fn unless_not_there<T>(result: Result<T, TableError>) -> Result<Option<T>, TableError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_there() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{ContinuationToken, OwnedValue, RESULT_ROWS_MAX, RangeQuery, ResultPage};
    use crate::{Archives, select};
    use daytable_model::batch::Batch;
    use daytable_model::key::DayTable;
    use daytable_model::time::Ticks;
    use daytable_store::{Reader, Store, StoreOptions};
    use std::cell::Cell;
    use std::ops::ControlFlow;
    use std::time::Duration;

    /// A store of one table, which disappears after its first page was read.
    struct Dropped {
        table: DayTable,
        pages: Cell<u32>,
    }

    impl TableStore for Dropped {
        fn create_table(&self, _: &DayTable) -> Result<bool, TableError> {
            Ok(false)
        }

        fn drop_table(&self, _: &DayTable) -> Result<bool, TableError> {
            Ok(false)
        }

        fn tables(&self) -> Result<Vec<DayTable>, TableError> {
            Ok(vec![self.table.clone()])
        }

        fn write(&self, _: Batch) -> Result<(), TableError> {
            Ok(())
        }

        fn partitions(&self, _: &DayTable, _: Option<&str>) -> Result<Vec<Arc<str>>, TableError> {
            Ok(vec!["web".into()])
        }

        fn read_range(
            &self,
            table: &DayTable,
            _: &RangeQuery,
            _: Option<&ContinuationToken>,
        ) -> Result<ResultPage, TableError> {
            if self.pages.replace(self.pages.get() + 1) > 0 {
                return Err(TableError::NotThere(table.clone()));
            }
            let row = |at: u64| OwnedRow {
                partition: "web".into(),
                key: RowKey::new(table.start().plus(Duration::from_secs(at)), 7, at),
                level: None,
                properties: vec![("Message".into(), OwnedValue::String(format!("record {at}")))],
            };
            let rows: Vec<OwnedRow> = (0..RESULT_ROWS_MAX as u64).rev().map(row).collect();
            let at = rows.last().map_or(RowKey::new(Ticks::MIN, 0, 0), |row| row.key);
            Ok(ResultPage { rows, next: Some(ContinuationToken::After("web".into(), at)) })
        }

        fn read_table(&self, _: &DayTable, _: Option<&ContinuationToken>) -> Result<ResultPage, TableError> {
            Ok(ResultPage::default())
        }
    }

    #[test]
    fn a_table_dropped_during_the_read_is_reported_as_missing() {
        let dir = tempfile::tempdir().expect("a folder");
        Store::open(dir.path(), StoreOptions::default()).expect("opened").close().expect("closed");
        let reader = Reader::open(dir.path()).expect("opened");
        let remote = Dropped { table: DayTable::parse("Log20261121").expect("a table"), pages: Cell::new(0) };
        let archives = Archives::Read(Default::default());
        let stores = Stores { reader: &reader, archives: &archives, remote: Some(&remote) };
        let mut records = 0;
        let count = |_| {
            records += 1;
            ControlFlow::Continue(())
        };
        let report = select(&stores, &Filter::default(), count).expect("read");
        assert_eq!(records, RESULT_ROWS_MAX);
        assert!(report.missing().is_some_and(|missing| missing.contains("Log20261121") && missing.contains("dropped")));
    }
}
