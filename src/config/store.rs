//! `[store]`: where rows are kept, and how they get there.
//!
//! The keys of the remote store and its outbox count only where `kind = "azure"`; they are read and checked in any case,
//! so that the example can show them with their defaults.

use super::remote::{RemoteConfig, SendOrder, WhenFull};
use super::section::Section;
use super::{absolute, table::TableConfig};
use daytable_model::units::{ByteSize, parse_duration};
use daytable_store::outbox::DEAD_LETTERS;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Where rows are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// In what.
    pub kind: StoreKind,
    /// How long a record waits at most before a commit takes it.
    pub commit_interval: Duration,
    /// What counts where `kind` is [`StoreKind::Azure`].
    pub azure: RemoteConfig,
}

/// What rows are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// The engine within, in `data_dir`.
    #[default]
    Embedded,
    /// Azure Table storage, or what speaks its protocol, behind an outbox in `data_dir`.
    Azure,
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        let commit_interval = Duration::from_millis(250);
        StoreConfig { kind: StoreKind::Embedded, commit_interval, azure: RemoteConfig::default() }
    }
}

const COMMIT_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
/// The most still shows a record within a minute.
const FILL: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
/// The most is a part of the day that it is about.
const GROW_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(6 * 3600);
/// The least holds what is under way of a few partitions.
const OUTBOX_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 20)..=ByteSize::new(1 << 50);
/// The least is more than a service needs that is well.
const OUTBOX_AGE: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(36_500 * 86_400);
const KEEP: RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(36_500 * 86_400);

impl StoreConfig {
    /// The remote store; none where the store is embedded.
    pub fn remote(&self) -> Option<&RemoteConfig> {
        (self.kind == StoreKind::Azure).then_some(&self.azure)
    }

    pub(super) fn read(mut section: Section<'_>, tables: &[TableConfig]) -> StoreConfig {
        let default = StoreConfig::default();
        let kinds = [("embedded", StoreKind::Embedded), ("azure", StoreKind::Azure)];
        let config = StoreConfig {
            kind: section.choice("kind", default.kind, &kinds),
            commit_interval: section.duration("commit_interval", default.commit_interval, COMMIT_INTERVAL),
            azure: read_remote(&mut section),
        };
        if config.kind == StoreKind::Azure && !cfg!(feature = "azure") {
            section.problem(format_args!(
                "kind = \"azure\" is not compiled into this daytable: use a released daytable, or build it with the feature \"azure\""
            ));
        }
        let taken = tables.iter().find(|table| table.name.as_str().eq_ignore_ascii_case(DEAD_LETTERS));
        if let (StoreKind::Azure, Some(table)) = (config.kind, taken) {
            let name = &table.name;
            section.problem(format_args!(
                "the table {name} has the name under which rows are kept that the service refused: call it otherwise"
            ));
        }
        section.finish();
        config
    }
}

fn read_remote(section: &mut Section<'_>) -> RemoteConfig {
    let default = RemoteConfig::default();
    let orders = [("oldest_first", SendOrder::OldestFirst), ("newest_first", SendOrder::NewestFirst)];
    let when_full = [("wait", WhenFull::Wait), ("drop_oldest", WhenFull::DropOldest)];
    RemoteConfig {
        connection_string_file: section.text("connection_string_file", absolute),
        owner: section.truth("owner").unwrap_or(default.owner),
        fill: section.duration("fill", default.fill, FILL),
        transactions_max: section.count("transactions_max", default.transactions_max, 256),
        buckets_max: section.count("buckets_max", default.buckets_max, 256),
        grow_after: section.duration("grow_after", default.grow_after, GROW_AFTER),
        send_order: section.choice("send_order", default.send_order, &orders),
        outbox_bytes_max: section.size("outbox_bytes_max", default.outbox_bytes_max, OUTBOX_BYTES),
        outbox_age_max: section.text("outbox_age_max", age_or_off).unwrap_or(default.outbox_age_max),
        when_full: section.choice("when_full", default.when_full, &when_full),
        dead_letters_keep: section.duration("dead_letters_keep", default.dead_letters_keep, KEEP),
    }
}

/// A duration, or "off", which is none.
fn age_or_off(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" {
        return Ok(None);
    }
    match parse_duration(text) {
        Ok(age) if OUTBOX_AGE.contains(&age) => Ok(Some(age)),
        Ok(_) => Err("must be from \"1m\" to \"36500d\", or \"off\"".into()),
        Err(error) => Err(format!("{error}, or \"off\"")),
    }
}
