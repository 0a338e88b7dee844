//! The remote store of `[store]`, where `kind = "azure"`.

use daytable_model::units::{ByteSize, count};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

/// The remote store, and the outbox in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConfig {
    /// The file that holds the connection string; none is the environment's `AZURE_STORAGE_CONNECTION_STRING`.
    pub connection_string_file: Option<PathBuf>,
    /// Whether this daytable archives and drops days there. Of several that share an account one does.
    pub owner: bool,
    /// How long a transaction waits for more entities before it goes.
    pub fill: Duration,
    /// Transactions that are under way at a time at most.
    pub transactions_max: NonZeroU16,
    /// Partitions that an instance is spread over at most, where the service throttles it; one is none but those of its table.
    pub buckets_max: NonZeroU16,
    /// How long an instance is throttled, while what waits for it grows, before it is spread over more partitions.
    pub grow_after: Duration,
    /// What goes first of what waits.
    pub send_order: SendOrder,
    /// Bytes on disk that wait to be sent, above which the outbox is full.
    pub outbox_bytes_max: ByteSize,
    /// How long the oldest row may have waited before the outbox is full; none is for ever.
    pub outbox_age_max: Option<Duration>,
    /// What is done when the outbox is full.
    pub when_full: WhenFull,
    /// How long rows that the service refused are kept, after the end of the day on which it did.
    pub dead_letters_keep: Duration,
}

/// What goes first of what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendOrder {
    /// What was accepted first.
    #[default]
    OldestFirst,
    /// What was accepted last: after an outage what happens now is seen at once, and the backlog follows.
    NewestFirst,
}

/// What is done when the outbox is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Nothing more is taken from the sources until there is room.
    #[default]
    Wait,
    /// What was accepted first goes, and is counted.
    DropOldest,
}

impl Default for RemoteConfig {
    fn default() -> RemoteConfig {
        RemoteConfig {
            connection_string_file: None,
            owner: true,
            fill: Duration::from_secs(1),
            transactions_max: count(16),
            // Half as many take what an account does: 20,000 rows a second.
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
