//! Reading, in any process, beside the one that writes.
//!
//! A reader opens its snapshot of a day first and reads `committed` after it, then passes over pages above it. It
//! holds no snapshot longer than [`SNAPSHOT_MAX`]: it lets go and continues by key.

use super::StoreError;
use super::page::Page;
use super::source::SourceState;
use crate::key::{DayTable, RowKey};
use crate::property::Property;
use crate::record::Level;
use crate::time::Ticks;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long one snapshot of a day is held.
pub const SNAPSHOT_MAX: Duration = Duration::from_secs(5);

/// A data folder, opened to read. One thread at a time; open as many as there are threads.
pub struct Reader {}

/// What `tables` shows of a day-table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSummary {
    /// Which.
    pub table: DayTable,
    /// Rows in it, items included.
    pub rows: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// The time of its oldest record.
    pub first_time: Option<Ticks>,
    /// The time of its newest record.
    pub last_time: Option<Ticks>,
    /// Where it is in its life: `open`, for now.
    pub state: &'static str,
    /// When it expires, by the rule of its table that the catalogue remembers; none where it remembers none.
    pub expires: Option<Ticks>,
}

/// Which rows: of some partitions or all, between two times (both included).
#[derive(Clone, Debug)]
pub struct Range {
    /// PartitionKeys; none is all.
    pub partitions: Option<Vec<String>>,
    /// The oldest time.
    pub from: Ticks,
    /// The newest time.
    pub to: Ticks,
}

/// A row: an entity of a page.
#[derive(Clone)]
pub struct Row {
    /// The PartitionKey.
    pub partition: Arc<str>,
    page: Arc<Page>,
    index: usize,
}

impl Row {
    /// Its RowKey.
    pub fn key(&self) -> RowKey {
        unimplemented!()
    }

    /// Its level.
    pub fn level(&self) -> Option<Level> {
        unimplemented!()
    }

    /// Its properties; `Time`, `Level` and `Severity` are not among them (see [`crate::entity`]).
    pub fn properties(&self) -> impl Iterator<Item = (&str, Property<'_>)> {
        std::iter::empty()
    }
}

/// How many records of a partition fall into a minute, by level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteCount {
    /// The PartitionKey.
    pub partition: Arc<str>,
    /// Minutes since the Unix epoch.
    pub minute: i64,
    /// The level, none where records have none.
    pub level: Option<Level>,
    /// Records.
    pub records: u64,
}

/// Where a follower is: what it has seen of each day.
#[derive(Clone, Debug, Default)]
pub struct Followed {}

impl Reader {
    /// Opens a data folder to read.
    pub fn open(_data_dir: &Path) -> Result<Reader, StoreError> {
        unimplemented!()
    }

    /// Every live day-table, the oldest first.
    pub fn tables(&self) -> Result<Vec<TableSummary>, StoreError> {
        unimplemented!()
    }

    /// Every source that the catalogue knows.
    pub fn sources(&self) -> Result<Vec<SourceState>, StoreError> {
        unimplemented!()
    }

    /// The rows of `range` in one table, newest first (by row key; equal keys once). Bounded memory; lazily read.
    /// When the table is dropped meanwhile the scan ends with [`StoreError::TableGone`].
    pub fn scan(&self, _table: &DayTable, _range: &Range) -> Result<Scan<'_>, StoreError> {
        unimplemented!()
    }

    /// One row by its three keys; reads one page.
    pub fn row(&self, _table: &DayTable, _partition: &str, _key: RowKey) -> Result<Option<Row>, StoreError> {
        unimplemented!()
    }

    /// Records by partition, minute and level, from page headers where no page's rows can be in another as well.
    /// `range` is widened to whole minutes by nobody: where it cuts a minute, pages are decoded.
    pub fn counts(
        &self,
        _table: &DayTable,
        _range: &Range,
        _each: &mut dyn FnMut(MinuteCount),
    ) -> Result<(), StoreError> {
        unimplemented!()
    }

    /// Partition keys of a table.
    pub fn partitions(&self, _table: &DayTable) -> Result<Vec<Arc<str>>, StoreError> {
        unimplemented!()
    }

    /// Where a follower starts that wants only what is committed from now on.
    pub fn follow_from_now(&self) -> Result<Followed, StoreError> {
        unimplemented!()
    }

    /// Rows committed since `followed`, which is moved on; oldest commit first, within a commit newest first by page.
    pub fn follow(&self, _followed: &mut Followed, _each: &mut dyn FnMut(&DayTable, Row)) -> Result<(), StoreError> {
        unimplemented!()
    }
}

/// Rows, newest first.
pub struct Scan<'r> {
    reader: std::marker::PhantomData<&'r Reader>,
}

impl Iterator for Scan<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}
