//! The table store: the common interface of the embedded engine and Azure Table storage, on which copying, archiving
//! and reading are built.
//!
//! ```text
//! create_table, drop_table, tables        a table a day
//! write                                   up to 100 entities of one partition, atomically, an upsert
//! read_range                              one partition between two times, newest or oldest first
//! read_table                              a whole table, by PartitionKey and RowKey
//! ```
//!
//! Both reads return a [`ResultPage`] with a [`ContinuationToken`] for the next one; [`walk`] turns them into iterators. An
//! empty page may have a token: the service's pages do. Rows that are written during a read may be returned or not.
//! Rows that existed before and stay are returned once.
//!
//! * [`entity`]: a row, owned.
//! * [`embedded`]: a data folder. `daytable_remote::tables` is the service.
//! * [`rebatch`]: rows become batches again; [`content`]: count and checksum of a table's rows, to compare two
//!   tables.
//! * [`mod@copy`]: copies tables from one store to another.
//! * `windows`: oldest first, and any order if the store returns none, by windows of time.
//!
//! Calls block: they run on threads of their own, never in a task of a runtime.

pub mod content;
pub mod copy;
pub mod embedded;
pub mod entity;
pub mod rebatch;
pub mod walk;
pub mod windows;

pub use content::TableContent;
pub use embedded::Embedded;
pub use entity::{OwnedRow, OwnedValue};
pub use walk::{wanted_rows, whole_table};

use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_store::StoreError;
use std::sync::Arc;

/// Maximum rows of a page of results, the limit of the service.
pub const RESULT_ROWS_MAX: usize = 1000;

/// A store of tables. See the module's head.
pub trait TableStore {
    /// Creates `table`. Returns whether it was missing.
    ///
    /// # Errors
    ///
    /// [`TableError::BeingDropped`] if the name is not free yet, and errors of the store.
    fn create_table(&self, table: &DayTable) -> Result<bool, TableError>;

    /// Drops `table`: it is gone for every reader when this returns. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// Errors of the store; the table may be gone nevertheless.
    fn drop_table(&self, table: &DayTable) -> Result<bool, TableError>;

    /// All day-tables. Other tables in the store are ignored and never touched.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    fn tables(&self) -> Result<Vec<DayTable>, TableError>;

    /// Writes a batch of rows with different keys atomically. Existing rows are replaced; a repeated write changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`TableError::NotThere`] if the table is missing, and errors of the store. Without an answer, the batch may be
    /// written nevertheless.
    fn write(&self, batch: Batch) -> Result<(), TableError>;

    /// The partitions of `table` in order: all, or those of one instance.
    ///
    /// # Errors
    ///
    /// [`TableError::NotThere`] if the table is missing, and errors of the store.
    fn partitions(&self, table: &DayTable, instance: Option<&str>) -> Result<Vec<Arc<str>>, TableError>;

    /// A page of results, of a range of one partition, from its beginning or from `at` on.
    ///
    /// # Errors
    ///
    /// [`TableError::NotThere`] if the table is missing, [`TableError::Foreign`] if daytable did not write a row, and
    /// errors of the store.
    fn read_range(
        &self,
        table: &DayTable,
        wanted: &RangeQuery,
        at: Option<&ContinuationToken>,
    ) -> Result<ResultPage, TableError>;

    /// A page of results, of a whole table, by PartitionKey and RowKey, from its beginning or from `at` on.
    ///
    /// # Errors
    ///
    /// As for [`TableStore::read_range`].
    fn read_table(&self, table: &DayTable, at: Option<&ContinuationToken>) -> Result<ResultPage, TableError>;
}

/// A range of rows of one partition, and their order.
#[derive(Clone, Debug)]
pub struct RangeQuery {
    /// The PartitionKey.
    pub partition: Arc<str>,
    /// The oldest time, included.
    pub from: Ticks,
    /// The newest time, included.
    pub to: Ticks,
    /// The order.
    pub order: RowOrder,
    /// The minimum level: the store may omit other records and their items.
    pub level: Option<Level>,
    /// The columns that are read.
    pub columns: Projection,
    /// Approximate rows of a page of results; at most [`RESULT_ROWS_MAX`].
    pub rows: usize,
}

impl RangeQuery {
    /// All rows of a partition, newest first.
    pub fn all_of(partition: Arc<str>) -> RangeQuery {
        let (from, to, order) = (Ticks::MIN, Ticks::MAX, RowOrder::NewestFirst);
        RangeQuery { partition, from, to, order, level: None, columns: Projection::All, rows: RESULT_ROWS_MAX }
    }
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// The order of the keys.
    NewestFirst,
    /// The other one.
    OldestFirst,
}

/// The columns that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// All columns.
    All,
    /// Keys and level; the store may return more.
    Keys,
}

/// Rows, and where the next page begins.
#[derive(Clone, Debug, Default)]
pub struct ResultPage {
    /// The rows in the requested order.
    pub rows: Vec<OwnedRow>,
    /// The token of the next page; `None` at the end.
    pub next: Option<ContinuationToken>,
}

/// Where a read resumes. Belongs to the store and the range that returned it; only stores read its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContinuationToken {
    /// After this row.
    After(Arc<str>, RowKey),
    /// The service's own token, within the rows after a row if the read began after one.
    Service(Option<Box<(Arc<str>, RowKey)>>, ServiceToken),
    /// In this window of time, of this partition if the whole table is read.
    Window(Option<Arc<str>>, windows::TimeWindow),
}

/// The continuation token of the service, opaque to daytable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceToken {
    /// `NextPartitionKey`
    pub partition_key: String,
    /// `NextRowKey`
    pub row_key: Option<String>,
}

/// Why a call to a table store failed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// An error of the data folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error of the service.
    #[error(transparent)]
    Service(ServiceError),
    /// The service refuses access.
    #[error(transparent)]
    Denied(ServiceError),
    /// The client of the service cannot be set up.
    #[error(transparent)]
    Setup(ServiceError),
    /// The runtime of a client cannot be set up.
    #[error("failed to set up the runtime of a client: {0}")]
    Runtime(#[source] std::io::Error),
    /// The reader of the answer ended the query.
    #[error("the query was ended")]
    Interrupted,
    /// The table is missing.
    #[error("there is no table {0}")]
    NotThere(DayTable),
    /// The name is not free yet.
    #[error("{0} is being dropped by the service, which takes a minute or so")]
    BeingDropped(DayTable),
    /// A row that daytable did not write.
    #[error("{table} holds a row that is not daytable's: {what}")]
    Foreign {
        /// The table.
        table: DayTable,
        /// The row and the problem.
        what: String,
    },
    /// An unreadable note of another daytable.
    #[error(
        "{table}: the note of {host} cannot be read: use the same version of daytable on all hosts, or run `daytable hosts --forget {host}`"
    )]
    Note {
        /// The table of notes.
        table: &'static str,
        /// The daytable that wrote the note.
        host: String,
    },
    /// A row that exceeds the service's limits in any form.
    #[error("{table}: row {key} is too large for the service")]
    TooLarge {
        /// The table.
        table: DayTable,
        /// Its RowKey.
        key: RowKey,
    },
}

/// An error of a client of the service.
pub type ServiceError = Box<dyn std::error::Error + Send + Sync>;

impl TableError {
    /// Whether the table is missing.
    pub fn is_not_there(&self) -> bool {
        matches!(self, TableError::NotThere(_) | TableError::Store(StoreError::TableGone(_)))
    }
}
