//! The table store: what the embedded engine and Azure Table storage have in common, and all that copying, archiving
//! from afar and reading from afar need of either.
//!
//! ```text
//! create_table, drop_table, tables        a table a day
//! write                                   up to 100 entities of one partition, all or none, an upsert
//! read_range                              one partition between two times, newest or oldest first
//! read_table                              a whole table, by PartitionKey and RowKey
//! ```
//!
//! Both reads give a [`RowPage`] and a [`PageToken`] to ask for the next one with; [`walk`] makes iterators of them. A page
//! that is empty may have a continuation: the service's pages do. Rows that are written while somebody reads may be in
//! what is read or not; rows that were there before and stay are in it, once.
//!
//! * [`entity`]: a row, owned.
//! * [`embedded`]: a data folder. The service is `daytable_remote::tables`.
//! * [`rebatch`]: rows become batches again; [`content`]: what a table's rows come to, by which two are compared.
//! * [`mod@copy`]: tables go from one store to another.
//! * `windows`: oldest first, and any order at all where the service gives none: by windows of time.
//!
//! Calls block: they belong to threads of their own, never to a task of a runtime.

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

/// Rows of a page at most: what the service gives at most.
pub const PAGE_ROWS_MAX: usize = 1000;

/// A store of tables. See the module's head.
pub trait TableStore {
    /// Creates `table`; says whether it was not there.
    ///
    /// # Errors
    ///
    /// [`TableError::BeingDropped`] where the name is not free again, and whatever keeps the store from answering.
    fn create_table(&self, table: &DayTable) -> Result<bool, TableError>;

    /// Drops `table`: gone for every reader when this returns. Says whether it was there.
    ///
    /// # Errors
    ///
    /// Whatever keeps the store from answering; the table may be gone all the same then.
    fn drop_table(&self, table: &DayTable) -> Result<bool, TableError>;

    /// Every day-table there is. What else the store holds is none, and never touched.
    ///
    /// # Errors
    ///
    /// Whatever keeps the store from answering.
    fn tables(&self) -> Result<Vec<DayTable>, TableError>;

    /// Writes a batch, whose rows have different keys, all or none; of rows that are there the new one counts. Written
    /// again it changes nothing.
    ///
    /// # Errors
    ///
    /// [`TableError::NotThere`] where the table is not, and whatever keeps the batch from being written; what was not
    /// answered may be there all the same.
    fn write(&self, batch: Batch) -> Result<(), TableError>;

    /// The partitions of `table`, in order: all, or those of one instance.
    ///
    /// # Errors
    ///
    /// [`TableError::NotThere`] where the table is not, and whatever keeps the store from answering.
    fn partitions(&self, table: &DayTable, instance: Option<&str>) -> Result<Vec<Arc<str>>, TableError>;

    /// A page of a range of one partition: from its begin, or where `at` says.
    ///
    /// # Errors
    ///
    /// [`TableError::NotThere`] where the table is not, [`TableError::Foreign`] where a row is not daytable's, and
    /// whatever keeps the store from answering.
    fn read_range(&self, table: &DayTable, wanted: &RangeQuery, at: Option<&PageToken>) -> Result<RowPage, TableError>;

    /// A page of a whole table, by PartitionKey and RowKey: from its begin, or where `at` says.
    ///
    /// # Errors
    ///
    /// As for [`TableStore::read_range`].
    fn read_table(&self, table: &DayTable, at: Option<&PageToken>) -> Result<RowPage, TableError>;
}

/// Which rows of a partition, and in which order.
#[derive(Clone, Debug)]
pub struct RangeQuery {
    /// The PartitionKey.
    pub partition: Arc<str>,
    /// The oldest time,
    pub from: Ticks,
    /// and the newest, both included.
    pub to: Ticks,
    /// Which comes first.
    pub order: RowOrder,
    /// Records of a lesser level, or of none, may be left out with their items.
    pub level: Option<Level>,
    /// What of a row is wanted.
    pub columns: Projection,
    /// Rows of a page, about; [`PAGE_ROWS_MAX`] at most.
    pub rows: usize,
}

impl RangeQuery {
    /// All rows of a partition, newest first.
    pub fn all_of(partition: Arc<str>) -> RangeQuery {
        let (from, to, order) = (Ticks::MIN, Ticks::MAX, RowOrder::NewestFirst);
        RangeQuery { partition, from, to, order, level: None, columns: Projection::All, rows: PAGE_ROWS_MAX }
    }
}

/// Which row comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// The order of the keys.
    NewestFirst,
    /// The other one.
    OldestFirst,
}

/// What of a row is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// All of it.
    All,
    /// Its keys and its level; there may be more.
    Keys,
}

/// Rows, and where the next ones begin.
#[derive(Clone, Debug, Default)]
pub struct RowPage {
    /// The rows, in the order that was asked for.
    pub rows: Vec<OwnedRow>,
    /// What to ask for the next page with; none at the end.
    pub next: Option<PageToken>,
}

/// Where a read resumes. Belongs to the store and the range that returned it; only stores look inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageToken {
    /// After this row.
    After(Arc<str>, RowKey),
    /// Where the service says, within the rows after a row if the read began after one.
    Service(Option<Box<(Arc<str>, RowKey)>>, ServiceToken),
    /// In this window of time, of this partition if the whole table is read.
    Window(Option<Arc<str>>, windows::TimeWindow),
}

/// What the service gave to go on with; it alone understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceToken {
    /// `NextPartitionKey`
    pub partition_key: String,
    /// `NextRowKey`
    pub row_key: Option<String>,
}

/// Why a table store did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The data folder says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The service says no.
    #[error(transparent)]
    Service(ServiceError),
    /// The service says that this client may not.
    #[error(transparent)]
    Denied(ServiceError),
    /// There is no client of the service.
    #[error(transparent)]
    Setup(ServiceError),
    /// The system gives no means to wait for the service.
    #[error("failed to set up the runtime of a client: {0}")]
    Runtime(#[source] std::io::Error),
    /// The table is not there.
    #[error("there is no table {0}")]
    NotThere(DayTable),
    /// The name is not free again.
    #[error("{0} is being dropped by the service, which takes a minute or so")]
    BeingDropped(DayTable),
    /// A row that daytable did not write.
    #[error("{table} holds a row that is not daytable's: {what}")]
    Foreign {
        /// The table.
        table: DayTable,
        /// Which row, and what is wrong with it.
        what: String,
    },
    /// A note of another daytable that cannot be read.
    #[error(
        "{table}: what {whose} tells of itself cannot be read: use the same daytable on all hosts, or forget that one"
    )]
    Note {
        /// The table of notes.
        table: &'static str,
        /// Whose it is.
        whose: String,
    },
    /// A row that the service takes in no way.
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
    /// Whether it says that the table is not there.
    pub fn is_not_there(&self) -> bool {
        matches!(self, TableError::NotThere(_) | TableError::Store(StoreError::TableGone(_)))
    }
}
