//! The table store of a data folder. Any process can read it; only the one that holds the folder's lock writes.

use super::windows::{self, KeyRange, WINDOW_ROWS_MAX};
use super::{ContinuationToken, OwnedRow, RESULT_ROWS_MAX, RangeQuery, ResultPage, RowOrder, TableError, TableStore};
use daytable_model::batch::Batch;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use daytable_store::{Ack, CommitQueue, LifecycleSteps, Range, Reader, Row, Store, StoreError, Submission};
use std::path::Path;
use std::sync::{Arc, mpsc};

/// A data folder as a table store. For one thread at a time.
pub struct Embedded {
    reader: Reader,
    /// `None` if it is only read.
    writing: Option<(CommitQueue, LifecycleSteps)>,
}

impl Embedded {
    /// Opens the folder at `data_dir` to read.
    ///
    /// # Errors
    ///
    /// If there is no readable folder.
    pub fn open_to_read(data_dir: &Path) -> Result<Embedded, StoreError> {
        Ok(Embedded { reader: Reader::open(data_dir)?, writing: None })
    }

    /// The folder at `data_dir`, which `store` has open to write.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn of(store: &Store, data_dir: &Path) -> Result<Embedded, StoreError> {
        Ok(Embedded { reader: Reader::open(data_dir)?, writing: Some((store.commit_queue(), store.steps())) })
    }

    fn writing(&self) -> Result<&(CommitQueue, LifecycleSteps), TableError> {
        let refused = || StoreError::Refused("the data folder was opened to read".into());
        Ok(self.writing.as_ref().ok_or_else(refused)?)
    }

    fn stands(&self, table: &DayTable) -> Result<bool, StoreError> {
        Ok(self.reader.table_times()?.iter().any(|(standing, _)| standing == table))
    }

    /// The first rows of a range that have one of these keys, newest first.
    fn rows(
        &self,
        table: &DayTable,
        range: &Range,
        keys: KeyRange,
        rows_max: usize,
    ) -> Result<Vec<OwnedRow>, TableError> {
        let range = Range { to: keys.from.map_or(range.to, |from| from.time().min(range.to)), ..range.clone() };
        let is_of = |row: &Result<Row, StoreError>| row.as_ref().map_or(true, |row| keys.holds(row.key()));
        let rows = self.reader.scan(table, &range)?.filter(is_of).take(rows_max);
        rows.map(|row| Ok(OwnedRow::of(&row?))).collect()
    }
}

/// A range of one partition.
fn range(partition: &Arc<str>, from: Ticks, to: Ticks) -> Range {
    Range { partitions: Some(vec![partition.to_string()]), from, to, ..Range::all() }
}

/// The token after a full page; a partial page is the last.
fn behind(rows: &[OwnedRow], rows_max: usize) -> Option<ContinuationToken> {
    let last = rows.last().filter(|_| rows.len() >= rows_max)?;
    Some(ContinuationToken::After(last.partition.clone(), last.key))
}

impl TableStore for Embedded {
    fn create_table(&self, table: &DayTable) -> Result<bool, TableError> {
        let created = self.writing()?.1.create_table(table)?;
        if !created && !self.stands(table)? {
            return Err(StoreError::Refused(format!("{table} was dropped here, and its name is not used again")).into());
        }
        Ok(created)
    }

    fn drop_table(&self, table: &DayTable) -> Result<bool, TableError> {
        match self.writing()?.1.drop_table(table) {
            Ok(()) => Ok(true),
            Err(StoreError::TableGone(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn tables(&self) -> Result<Vec<DayTable>, TableError> {
        Ok(self.reader.table_times()?.into_iter().map(|(table, _)| table).collect())
    }

    fn write(&self, batch: Batch) -> Result<(), TableError> {
        let (intake, _) = self.writing()?;
        // Rows of a dropped table would go to today's.
        if !self.stands(&batch.table)? {
            return Err(TableError::NotThere(batch.table));
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let done = Ack::awaited(move |committed| {
            let _ = sender.send(committed);
        });
        let submission = Submission { batches: vec![batch], epoch: intake.epoch(), ack: done, ..Submission::default() };
        let refused = || StoreError::Refused("the rows were not committed".into());
        intake.submit(submission).map_err(|error| StoreError::Refused(error.to_string()))?;
        if receiver.recv() == Ok(true) { Ok(()) } else { Err(refused().into()) }
    }

    fn partitions(&self, table: &DayTable, instance: Option<&str>) -> Result<Vec<Arc<str>>, TableError> {
        Ok(match instance {
            Some(instance) => self.reader.partitions_of(table, instance)?.into_iter().map(Arc::from).collect(),
            None => self.reader.partitions(table)?,
        })
    }

    fn read_range(
        &self,
        table: &DayTable,
        wanted: &RangeQuery,
        at: Option<&ContinuationToken>,
    ) -> Result<ResultPage, TableError> {
        let rows_max = wanted.rows.clamp(1, RESULT_ROWS_MAX);
        match (wanted.order, at) {
            (RowOrder::NewestFirst, at) => {
                let after = match at {
                    Some(ContinuationToken::After(_, key)) => Some(*key),
                    _ => None,
                };
                let rows = range(&wanted.partition, wanted.from, wanted.to);
                let rows = self.rows(table, &rows, KeyRange::behind(after), rows_max)?;
                Ok(ResultPage { next: behind(&rows, rows_max), rows })
            }
            (RowOrder::OldestFirst, at) => {
                let window = match at {
                    Some(ContinuationToken::Window(_, window)) => Some(*window),
                    _ => None,
                };
                windows::page(wanted, window, WINDOW_ROWS_MAX, |from, to, keys| {
                    self.rows(table, &range(&wanted.partition, from, to), keys, WINDOW_ROWS_MAX + 1)
                })
            }
        }
    }

    fn read_table(&self, table: &DayTable, at: Option<&ContinuationToken>) -> Result<ResultPage, TableError> {
        let (partition, mut after) = match at {
            Some(ContinuationToken::After(partition, key)) => (Some(partition.clone()), Some(*key)),
            _ => (None, None),
        };
        let mut page = ResultPage::default();
        let is_left = |name: &Arc<str>| partition.as_ref().is_none_or(|partition| name >= partition);
        for name in self.reader.partitions(table)?.into_iter().filter(is_left) {
            let after = after.take().filter(|_| partition.as_ref() == Some(&name));
            let all = range(&name, Ticks::MIN, Ticks::MAX);
            page.rows.extend(self.rows(table, &all, KeyRange::behind(after), RESULT_ROWS_MAX - page.rows.len())?);
            if page.rows.len() >= RESULT_ROWS_MAX {
                break;
            }
        }
        page.next = behind(&page.rows, RESULT_ROWS_MAX);
        Ok(page)
    }
}
