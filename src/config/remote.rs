//! The remote store of `[store]`, where `kind = "azure"`.

use daytable_model::units::{ByteSize, count};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

/// The remote store, and the outbox in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConfig {
    /// How the account is reached.
    pub account: AccountConfig,
    /// Whether this daytable archives and drops the remote days. Of several daytables with one account, one does.
    pub owner: bool,
    /// How long a transaction waits for more entities.
    pub fill: Duration,
    /// Transactions in flight at one time.
    pub transactions_max: NonZeroU16,
    /// Partitions of an instance that the service throttles. With 1, an instance has the buckets of its table.
    pub buckets_max: NonZeroU16,
    /// How long the service throttles an instance with a growing backlog, before the instance gets more partitions.
    pub grow_after: Duration,
    /// The order of the outbox.
    pub send_order: SendOrder,
    /// Bytes of waiting rows on disk at which the outbox is full.
    pub outbox_bytes_max: ByteSize,
    /// The age of the oldest waiting row at which the outbox is full, or `None` for no limit.
    pub outbox_age_max: Option<Duration>,
    /// The reaction to a full outbox.
    pub when_full: WhenFull,
    /// How long refused rows are kept after the end of the day of the refusal.
    pub dead_letters_keep: Duration,
}

/// How an account is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountConfig {
    /// By a connection string, or by an identity.
    pub credentials: CredentialKind,
    /// The file with the connection string, or `None` for the variable `AZURE_STORAGE_CONNECTION_STRING`.
    pub connection_string_file: Option<PathBuf>,
    /// The address of the account's tables, for an identity.
    pub endpoint: Option<String>,
    /// The tenant of an application or a workload.
    pub tenant_id: Option<String>,
    /// The client id of the application or of the workload, or of one of several identities of a machine.
    pub client_id: Option<String>,
    /// The file with the secret of an application.
    pub client_secret_file: Option<PathBuf>,
    /// The file with the token of a workload.
    pub federated_token_file: Option<PathBuf>,
}

impl AccountConfig {
    /// The account of the connection string in `file`; without a file, of the environment.
    pub fn of_connection_string(file: Option<PathBuf>) -> AccountConfig {
        AccountConfig { connection_string_file: file, ..AccountConfig::default() }
    }
}

/// The credentials with which an account is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CredentialKind {
    /// A connection string, with a key or a shared access signature.
    #[default]
    ConnectionString,
    /// The identity of the machine, the container or the function.
    ManagedIdentity,
    /// The identity of a workload with a federated token.
    WorkloadIdentity,
    /// A secret of an application.
    ClientSecret,
}

/// The order in which waiting rows are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendOrder {
    /// The oldest rows first.
    #[default]
    OldestFirst,
    /// The newest rows first: after an outage, current records are visible at once, and the backlog follows.
    NewestFirst,
}

/// The reaction to a full outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Sources wait until there is room.
    #[default]
    Wait,
    /// The oldest rows are dropped, and counted.
    DropOldest,
}

impl Default for RemoteConfig {
    fn default() -> RemoteConfig {
        RemoteConfig {
            account: AccountConfig::default(),
            owner: true,
            fill: Duration::from_secs(1),
            transactions_max: count(16),
            // Half as many use the whole rate of an account: 20,000 rows per second.
            buckets_max: count(32),
            grow_after: Duration::from_secs(30),
            send_order: SendOrder::OldestFirst,
            outbox_bytes_max: ByteSize::new(10 << 30),
            outbox_age_max: Some(Duration::from_secs(7 * 86_400)),
            when_full: WhenFull::Wait,
            dead_letters_keep: Duration::from_secs(30 * 86_400),
        }
    }
}
