//! The remote store of `[store]`, where `kind = "azure"`.

use daytable_model::units::{ByteSize, count};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

/// The remote store, and the outbox in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConfig {
    /// The file with the connection string, or `None` for the variable `AZURE_STORAGE_CONNECTION_STRING`.
    pub connection_string_file: Option<PathBuf>,
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
            connection_string_file: None,
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
