//! Copies tables from one store to another; resumable and verified.
//!
//! ```text
//! from ──pages by key──► batches ──► to            every few seconds, a file records the last written key, and the
//!                                    │              count and checksum of the rows up to that key
//!                                    └─ read back as a whole: the rows and the checksum match the rows that were read,
//!                                       and the current rows of the source
//! ```
//!
//! Rows are written by their keys, so a kill repeats some writes and duplicates no row. Keys are newest first. A row
//! that arrives while a table is read comes before the rows already read of its partition, and is skipped. The start of
//! the reading therefore matters: a table whose period had ended by then is resumed, and not read again once verified.
//! Any other table is copied again.

use super::rebatch::Rebatcher;
use super::{ContinuationToken, TableContent, TableError, TableStore, whole_table};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::path_text::PathText;
use daytable_model::time::{self, Ticks};
use daytable_store::sealed::ContentChecksum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the progress is recorded.
const NOTE_EVERY: Duration = Duration::from_secs(2);

/// Why a table was not copied or not verified.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// An error of one of the stores.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The state file cannot be read or written.
    #[error("{}: {source}", .path.escaped())]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The state file belongs to another copy.
    #[error("{} is of another copy, or damaged: {what}; name another file by --state, or move it away", .path.escaped())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The other copy, or the problem.
        what: String,
    },
    /// The copy differs from the source.
    #[error(
        "{table} is not what was copied: {rows} rows, checksum {content}, where {copied} of checksum {sum} were written: \
         it held other rows before, or somebody writes to it"
    )]
    Differs {
        /// The table.
        table: DayTable,
        /// Rows in it.
        rows: u64,
        /// Their checksum.
        content: String,
        /// Rows that were copied.
        copied: u64,
        /// Their checksum.
        sum: String,
    },
    /// The source changed while it was copied.
    #[error("{table} grew while it was copied; run it again, or leave it out by --until while it is written to")]
    Grew {
        /// The table.
        table: DayTable,
    },
    /// The caller stopped the copy.
    #[error("stopped before the end: the same command resumes")]
    Stopped,
}

/// The content of the state file.
#[derive(Debug, Serialize, Deserialize)]
struct CopyState {
    from: String,
    to: String,
    tables: BTreeMap<String, TablePosition>,
}

/// The progress of a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct TablePosition {
    rows: u64,
    /// 16 hexadecimal digits.
    content: String,
    /// PartitionKey and RowKey of the last written row; `None` once verified.
    last: Option<(String, String)>,
    /// The time of verification in ticks.
    verified: Option<i64>,
    /// The time in ticks at which reading began. A row that arrived later may come before the rows already read.
    begun: i64,
}

impl TablePosition {
    /// Whether the period of `table` was over when its reading began.
    fn began_behind(&self, table: &DayTable) -> bool {
        Ticks::new(self.begun).is_some_and(|begun| table.end() <= begun)
    }
}

/// The progress of the table that is being copied.
struct TableProgress {
    begun: Ticks,
    /// Where it resumes.
    at: Option<ContinuationToken>,
    /// The rows written so far.
    content: TableContent,
}

/// Copies tables and records the progress in a state file.
pub struct TableCopy<'a> {
    from: &'a dyn TableStore,
    to: &'a dyn TableStore,
    path: PathBuf,
    done: CopyState,
    noted: Instant,
}

/// The result for a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedTable {
    /// Rows in it, items included.
    pub rows: u64,
    /// Their checksum, 16 hexadecimal digits.
    pub content: String,
    /// Whether an earlier run copied it.
    pub was_done: bool,
}

impl<'a> TableCopy<'a> {
    /// Resumes from the state file at `path`, or begins without one. `names` identify the stores, and so the copy.
    ///
    /// # Errors
    ///
    /// An unreadable state file, or one of another copy.
    pub fn open(
        from: &'a dyn TableStore,
        to: &'a dyn TableStore,
        names: (&str, &str),
        path: &Path,
    ) -> Result<TableCopy<'a>, CopyError> {
        let foreign = |what: String| CopyError::Foreign { path: path.into(), what };
        let done = match std::fs::read(path) {
            Ok(json) => serde_json::from_slice::<CopyState>(&json).map_err(|error| foreign(error.to_string()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                CopyState { from: names.0.into(), to: names.1.into(), tables: BTreeMap::new() }
            }
            Err(source) => return Err(CopyError::State { path: path.into(), source }),
        };
        if (done.from.as_str(), done.to.as_str()) != names {
            return Err(foreign(format!("it is of the copy from {} to {}", done.from, done.to)));
        }
        Ok(TableCopy { from, to, path: path.into(), done, noted: Instant::now() })
    }

    /// Copies one table and verifies it. `on` receives the number of rows written, then of rows read back.
    ///
    /// # Errors
    ///
    /// Whatever prevented the copy, or a difference; the same call resumes.
    pub fn copy(
        &mut self,
        table: &DayTable,
        on: &mut dyn FnMut(&'static str, u64) -> ControlFlow<()>,
    ) -> Result<CopiedTable, CopyError> {
        let known = self.done.tables.get(&table.to_string()).cloned();
        let known = known.filter(|known| known.began_behind(table));
        if let Some(TablePosition { rows, content, verified: Some(_), .. }) = &known {
            return Ok(CopiedTable { rows: *rows, content: content.clone(), was_done: true });
        }
        let mut reading = self.start(table, known)?;
        self.to.create_table(table)?;
        let mut rebatcher = Rebatcher::new(table.clone());
        loop {
            let page = self.from.read_table(table, reading.at.as_ref())?;
            for row in page.rows {
                if let Some(batch) = rebatcher.push(row) {
                    self.write(table, batch, &mut reading)?;
                }
            }
            go_on(on("copy", reading.content.rows))?;
            reading.at = page.next;
            if reading.at.is_none() {
                break;
            }
        }
        for batch in rebatcher.finish() {
            self.write(table, batch, &mut reading)?;
        }
        let TableProgress { begun, content, .. } = reading;
        self.verify(table, &content, on)?;
        let verified = Some(time::now().get());
        let position =
            TablePosition { rows: content.rows, content: content.hex(), last: None, verified, begun: begun.get() };
        self.done.tables.insert(table.to_string(), position);
        self.note()?;
        Ok(CopiedTable { rows: content.rows, content: content.hex(), was_done: false })
    }

    /// Resumes a table from its recorded progress, or begins it.
    fn start(&self, table: &DayTable, known: Option<TablePosition>) -> Result<TableProgress, CopyError> {
        let Some(TablePosition { rows, content, last: Some((partition, key)), begun, .. }) = known else {
            return Ok(TableProgress { begun: time::now(), at: None, content: TableContent::default() });
        };
        let what = || CopyError::Foreign { path: self.path.clone(), what: format!("{table} has no valid position") };
        let key = RowKey::parse(&key).map_err(|_| what())?;
        let sum = ContentChecksum::from_hex(&content).ok_or_else(what)?;
        let at = Some(ContinuationToken::After(partition.as_str().into(), key));
        Ok(TableProgress { begun: Ticks::new(begun).ok_or_else(what)?, at, content: TableContent::of(rows, sum) })
    }

    fn write(&mut self, table: &DayTable, batch: Batch, reading: &mut TableProgress) -> Result<(), CopyError> {
        let mut after = reading.content;
        after.add_batch(&batch);
        let last = batch.rows().last().map(|row| (batch.partition.to_string(), row.key.to_string()));
        self.to.write(batch)?;
        daytable_platform::failpoint!("copy-written");
        reading.content = after;
        let position =
            TablePosition { rows: after.rows, content: after.hex(), last, verified: None, begun: reading.begun.get() };
        self.done.tables.insert(table.to_string(), position);
        if self.noted.elapsed() >= NOTE_EVERY {
            self.note()?;
        }
        Ok(())
    }

    /// Reads back the copy, and then the source: the copy must hold all its rows.
    fn verify(
        &mut self,
        table: &DayTable,
        copied: &TableContent,
        on: &mut dyn FnMut(&'static str, u64) -> ControlFlow<()>,
    ) -> Result<(), CopyError> {
        let read = sum_of(self.to, table, on)?;
        if read != *copied {
            let (table, content, sum) = (table.clone(), read.hex(), copied.hex());
            return Err(CopyError::Differs { table, rows: read.rows, content, copied: copied.rows, sum });
        }
        if sum_of(self.from, table, on)? != *copied {
            // The next run must read the skipped rows.
            self.done.tables.remove(&table.to_string());
            self.note()?;
            return Err(CopyError::Grew { table: table.clone() });
        }
        Ok(())
    }

    /// Writes the state file, under a temporary name first.
    fn note(&mut self) -> Result<(), CopyError> {
        let failed = |source| CopyError::State { path: self.path.clone(), source };
        let mut partial = self.path.clone().into_os_string();
        partial.push(".partial");
        let json = serde_json::to_vec_pretty(&self.done).map_err(|error| failed(error.into()))?;
        std::fs::write(&partial, json).and_then(|()| std::fs::rename(&partial, &self.path)).map_err(failed)?;
        self.noted = Instant::now();
        Ok(())
    }
}

/// Records the last progress, so that the next run resumes after it.
impl Drop for TableCopy<'_> {
    fn drop(&mut self) {
        if !self.done.tables.is_empty() {
            let _ = self.note();
        }
    }
}

fn go_on(flow: ControlFlow<()>) -> Result<(), CopyError> {
    if flow.is_break() { Err(CopyError::Stopped) } else { Ok(()) }
}

/// The content of a whole table.
fn sum_of(
    store: &dyn TableStore,
    table: &DayTable,
    on: &mut dyn FnMut(&'static str, u64) -> ControlFlow<()>,
) -> Result<TableContent, CopyError> {
    let mut read = TableContent::default();
    for row in whole_table(store, table) {
        read.add(&row?);
        if read.rows.is_multiple_of(1000) {
            go_on(on("compare", read.rows))?;
        }
    }
    Ok(read)
}
