//! The remote store, as the program sees it.
//!
//! `daytable` keeps rows in its data folder, or sends them from there to Azure Table storage. The second way is the
//! feature `azure`, which is on by default. This module is the only place that knows whether the feature is compiled
//! in:
//!
//! ```text
//! config, daemon, cli ──► remote (traits) ──► azure   with the feature: crates/remote, crates/azure
//!                                         └─► connect and set_up return RemoteError::NotBuilt
//! ```
//!
//! * [`connect`] opens a remote store to read: a [`RemoteStore`].
//! * [`set_up`] is for the daemon: a [`RemoteSetup`], which becomes a [`RemoteOutbox`] that sends, and a
//!   [`RemoteLifecycle`] that archives and drops the day-tables of the remote store.

#[cfg(feature = "azure")]
mod azure;
mod status;

#[cfg(feature = "azure")]
pub(crate) use azure::account_options;
pub use status::{BucketStatus, OutboxStatus};

use crate::config::{AccountConfig, Config, StoreKind, TableConfig};
use crate::http::Readiness;
use crate::metrics::{Metrics, RemoteSample};
use daytable_lifecycle::executor::{ArchiveOutcome, OnStepProgress};
use daytable_lifecycle::{
    ArchiveRequirement, Executor, LifecycleLimits, PlanLine, RestoreOutcome, RestoreSpec, RunSummary, StepError,
    TableRule,
};
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::key::{DayTable, KeyError, Period, TableName};
use daytable_model::path_text::PathText;
use daytable_model::window::Window;
use daytable_query::ShownTable;
use daytable_query::tables::{TableError, TableStore};
use daytable_store::outbox::DEAD_LETTERS;
use daytable_store::{LifecycleState, OutboxOptions, Store, StoreError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// How long a query waits for a service that does not answer.
pub const QUERY_PATIENCE: Duration = Duration::from_secs(20);
/// How long the lifecycle and a copy wait for a service that does not answer.
pub const WORK_PATIENCE: Duration = Duration::from_secs(300);

/// Why a remote store cannot be used. Never contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The program was built without the feature `azure`.
    #[error(
        "this daytable was built without Azure Table storage: use a released daytable, or build it with the feature \"azure\""
    )]
    NotBuilt,
    /// The file with the connection string cannot be read.
    #[error("{} cannot be read: {source}", .path.escaped())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Neither the configuration nor the environment has a connection string.
    #[error(
        "nothing says how the store is reached: set `connection_string_file` or `credentials` in [store], or AZURE_STORAGE_CONNECTION_STRING"
    )]
    NoConnectionString,
    /// The connection string, or the identity, cannot be used.
    #[error("{0}")]
    ConnectionString(String),
    /// The client cannot be set up, or the service refuses a request.
    #[error(transparent)]
    Tables(#[from] TableError),
    /// The data folder cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name that is built in is not a table name.
    #[error(transparent)]
    Name(#[from] KeyError),
    /// The sender's thread or its runtime cannot be started.
    #[error("the sender cannot be started: {0}")]
    Start(#[from] std::io::Error),
}

/// A remote store that is open to read, and to copy to.
pub trait RemoteStore: TableStore + Send + Sync {
    /// Its address, without secrets.
    fn endpoint(&self) -> &str;

    /// The name of the credentials with which the store is reached, without secrets.
    fn identity(&self) -> &str;

    /// Whether rows can be written there, found out without a change.
    ///
    /// # Errors
    ///
    /// If they cannot be, or there is no telling.
    fn probe_write(&self) -> Result<(), TableError>;

    /// The day-tables of the remote store, together with `local`, those of the data folder that is its outbox.
    ///
    /// # Errors
    ///
    /// If the remote store cannot be read.
    fn list_tables(
        &self,
        local: Vec<ShownTable>,
        state: LifecycleState,
        rules: &[TableRule],
        limits: LifecycleLimits,
    ) -> Result<Vec<ShownTable>, TableError>;
}

/// The remote store of a daemon, before the data folder is open.
pub trait RemoteSetup: Send {
    /// The number of partitions of each instance. The router places rows by it.
    fn bucket_plan(&self) -> &Arc<BucketPlan>;

    /// The options that make the data folder the outbox of this store.
    ///
    /// # Errors
    ///
    /// If the name of the dead letters' table is not valid.
    fn outbox_options(&self) -> Result<OutboxOptions, RemoteError>;

    /// Loads the bucket plan that the last run wrote. Without one, as in a new folder, the service is asked first,
    /// unless instances never get more partitions.
    fn load_bucket_plan(&self);

    /// Opens the remote store to read, and for the lifecycle of its tables.
    ///
    /// # Errors
    ///
    /// If the system provides no sockets or threads.
    fn open(&self, local: &Arc<Executor>) -> Result<OpenRemote, RemoteError>;

    /// Starts to send.
    ///
    /// # Errors
    ///
    /// If the data folder cannot be read, or a thread cannot be started.
    fn start(
        self: Box<Self>,
        store: &Store,
        metrics: &Arc<Metrics>,
        readiness: &Readiness,
    ) -> Result<Box<dyn RemoteOutbox>, RemoteError>;
}

/// The remote store of a running daemon.
pub struct OpenRemote {
    /// For queries.
    pub store: Arc<dyn RemoteStore>,
    /// For the lifecycle of its tables.
    pub lifecycle: Arc<dyn RemoteLifecycle>,
}

/// The lifecycle of the day-tables of a remote store.
pub trait RemoteLifecycle: Send + Sync {
    /// The rules of the configured tables.
    fn rules(&self) -> &[TableRule];

    /// See [`RemoteStore::list_tables`].
    ///
    /// # Errors
    ///
    /// If the remote store cannot be read.
    fn list_tables(&self, local: Vec<ShownTable>, limits: LifecycleLimits) -> Result<Vec<ShownTable>, StepError>;

    /// The steps of the next run.
    ///
    /// # Errors
    ///
    /// If the remote store cannot be read.
    fn plan(&self, limits: LifecycleLimits) -> Result<Vec<PlanLine>, StepError>;

    /// Drops a table now. No outbox may hold rows for the table, and its archive must be verified unless
    /// `without_archive`.
    ///
    /// # Errors
    ///
    /// The reason why the table stays.
    fn drop_table(&self, table: &DayTable, limits: LifecycleLimits, without_archive: bool) -> Result<(), StepError>;

    /// Archives a table at `place` now.
    ///
    /// # Errors
    ///
    /// If the table cannot be read, or the archive cannot be written and verified.
    fn archive(&self, table: &DayTable, place: &str, on: &mut OnStepProgress<'_>) -> Result<ArchiveOutcome, StepError>;

    /// Restores an archived day to the remote store.
    ///
    /// # Errors
    ///
    /// If there is no archive, or the table cannot be written.
    fn restore(&self, wanted: &RestoreSpec, on: &mut OnStepProgress<'_>) -> Result<RestoreOutcome, StepError>;

    /// Notes the content of this outbox for the other daemons. On the owner, runs the lifecycle too. Returns when
    /// the other end of `stop` is dropped.
    fn work(&self, on_run: Box<dyn Fn(&RunSummary) + Send>, stop: Receiver<()>);
}

/// Reads the state of the outbox.
pub type StatusReader = Arc<dyn Fn() -> OutboxStatus + Send + Sync>;
/// Reads the counters for a scrape of the metrics.
pub type SampleReader = Box<dyn Fn() -> RemoteSample + Send + Sync>;
/// Reads how many rows left the outbox unsent since the start, by reason.
pub type LossReader = Box<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>;

/// The running sender of the outbox.
pub trait RemoteOutbox: Send + Sync {
    /// Whether one of its threads has ended, which happens only by a fault.
    fn has_ended(&self) -> bool;

    /// Wakes callers that wait for a decision of an ended thread. Has no effect while the threads run.
    fn release_waiters(&self);

    /// The state that `daytable sources` shows.
    fn status(&self) -> StatusReader;

    /// See [`SampleReader`].
    fn sample(&self) -> SampleReader;

    /// See [`LossReader`].
    fn losses(&self) -> LossReader;

    /// Sends for at most `grace`, without waiting for transactions to fill, and ends. The rest stays in the outbox.
    fn stop(self: Box<Self>, grace: Duration);
}

/// Opens the remote store that is reached in this way.
///
/// # Errors
///
/// If there is no usable connection string or identity, or the feature `azure` is not compiled in.
pub fn connect(account: &AccountConfig, patience: Duration) -> Result<Box<dyn RemoteStore>, RemoteError> {
    #[cfg(feature = "azure")]
    return Ok(Box::new(azure::connect(account, patience)?));
    #[cfg(not(feature = "azure"))]
    {
        let _ = (account, patience);
        Err(RemoteError::NotBuilt)
    }
}

/// The remote store of the configuration, or `None` if rows stay in the data folder.
///
/// # Errors
///
/// As for [`connect`].
pub fn set_up(config: &Config) -> Result<Option<Box<dyn RemoteSetup>>, RemoteError> {
    if config.store.kind == StoreKind::Embedded {
        return Ok(None);
    }
    #[cfg(feature = "azure")]
    return Ok(Some(Box::new(azure::AzureSetup::new(config)?)));
    #[cfg(not(feature = "azure"))]
    Err(RemoteError::NotBuilt)
}

/// The rules of the configured tables.
pub fn configured_rules(config: &Config) -> Vec<TableRule> {
    config.tables.iter().map(TableConfig::rule).collect()
}

/// The rules of the tables in the data folder. With a remote store, only dead letters (rows that the service refused)
/// stay.
pub fn local_rules(config: &Config) -> Vec<TableRule> {
    if config.store.kind == StoreKind::Embedded {
        return configured_rules(config);
    }
    let rule = |name| TableRule {
        name,
        window: Window { keep: config.store.azure.dead_letters_keep, period: Period::Day },
        archive: ArchiveRequirement::None,
        keep_archives: None,
        shortened: None,
        archive_before: None,
        archives_until: None,
        max_bytes: None,
        max_bytes_since: None,
    };
    TableName::new(DEAD_LETTERS).map(rule).into_iter().collect()
}

/// Limits of the lifecycle of the data folder. An outbox has its own limits.
pub fn local_limits(config: &Config) -> LifecycleLimits {
    let limits = config.limits();
    match config.store.kind {
        StoreKind::Embedded => limits,
        StoreKind::Azure => LifecycleLimits { max_bytes: None, ..limits },
    }
}

#[cfg(all(test, not(feature = "azure")))]
mod tests {
    use super::*;

    #[test]
    fn without_the_feature_a_remote_store_is_refused_and_the_error_says_how_to_get_it() {
        let error = Config::parse("[[table]]\nname = \"Log\"\n[store]\nkind = \"azure\"\n", "daytable.toml")
            .expect_err("refused")
            .to_string();
        assert!(error.contains("build it with the feature \"azure\""), "{error}");
        let Err(error) = connect(&AccountConfig::default(), QUERY_PATIENCE) else { panic!("there is no remote store") };
        assert!(error.to_string().contains("build it with the feature \"azure\""), "{error}");
        let mut config = Config::default();
        assert!(set_up(&config).expect("an embedded store needs no feature").is_none());
        config.store.kind = StoreKind::Azure;
        assert!(matches!(set_up(&config), Err(RemoteError::NotBuilt)));
    }
}
