//! The state of the daemon on one screen, for `daytable status`.
//!
//! The pace of a table is the size of its largest day of the last week, or of today if that is larger. The forecast adds this
//! pace for each day, and subtracts each day-table when it expires. A disk with enough room for all days of `keep` never fills
//! up.

use super::alerts::{self, ShownAlert};
use super::forwarding::{ForwardStatus, ForwardingView};
use super::life::LifecycleApi;
use super::reader_pool::ReaderPool;
use super::verify::Verifying;
use crate::http::{ApiError, Readiness};
use crate::metrics::{CounterRegistry, Metrics};
use daytable_alert::AlertBoard;
use daytable_intake::counters::SourceEvent;
use daytable_intake::source::Source;
use daytable_intake::tail::Tail;
use daytable_lifecycle::{TableRule, View, today_exceeds};
use daytable_model::key::DayTable;
use daytable_model::path_text::PathText;
use daytable_model::time::{self, Ticks};
use daytable_parse::host_zone_doubt;
use daytable_platform::lock;
use daytable_platform::reloadable::Reloadable;
use daytable_query::{ShownSource, ShownTable};
use daytable_store::{Reader, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// Days that the forecast of the disk covers.
const FORECAST_DAYS: u32 = 366;
/// Ended days whose largest one is the pace of a table.
const PACE_DAYS: usize = 7;
/// Seconds of lag from which a source is in trouble.
const LAG_SECONDS: u64 = 60;

/// The state of a running daemon. Times are RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// The version of the daemon.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When it began to listen.
    pub since: String,
    /// The file of its configuration, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<String>,
    /// Why it is not ready; absent if it is.
    pub not_ready: Option<String>,
    /// Records committed since its start.
    pub records: u64,
    /// Records committed a second, over the last seconds.
    pub records_per_second: u64,
    /// How long the oldest unread byte of all sources waits.
    pub lag_seconds: u64,
    /// Sources and day-tables that need attention.
    pub troubles: Vec<Trouble>,
    /// The receivers of `[[forward]]`.
    #[serde(default)]
    pub forwards: Vec<ForwardStatus>,
    /// Alerts that last.
    #[serde(default)]
    pub alerts: Vec<ShownAlert>,
    /// The disk of the data folder.
    pub disk: DiskStatus,
    /// The next step of the lifecycle.
    pub next: Option<String>,
    /// The verification of the data folder.
    pub verify: VerifyStatus,
    /// Records and bytes that were lost or cut, by source and reason, since the data folder exists.
    pub losses: BTreeMap<String, BTreeMap<String, u64>>,
}

/// A source or day-table that needs attention.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The block of the source, or the day-table.
    pub place: String,
    /// The trouble.
    pub found: String,
}

/// The disk of the data folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// The data folder.
    pub data_dir: String,
    /// Bytes of the data folder.
    pub bytes: u64,
    /// Those of them that `max_bytes` does not count, because they are there for a while only: the journals of open days, and
    /// files that are being written.
    #[serde(default)]
    pub uncounted_bytes: u64,
    /// The limit `max_bytes`, above which the oldest days go.
    pub bytes_max: Option<u64>,
    /// Free bytes of the disk.
    pub free_bytes: Option<u64>,
    /// Bytes that a day adds; absent without records.
    pub bytes_per_day: Option<u64>,
    /// When the folder reaches `max_bytes`; absent if it does not within a year.
    pub at_limit: Option<String>,
    /// When the disk is full; absent if it is not within a year.
    pub full: Option<String>,
}

/// The verification of the data folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyStatus {
    /// When the last one of a daemon ended; absent before the first one.
    pub last: Option<String>,
    /// Its findings.
    pub findings: u64,
    /// When the next verification is due; absent if the configuration has none.
    pub next: Option<String>,
}

/// The parts of the daemon whose state is shown.
pub(super) struct StatusContext {
    pub(super) readers: Arc<ReaderPool>,
    pub(super) lifecycle: LifecycleApi,
    pub(super) counters: Reloadable<CounterRegistry>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) verifying: Reloadable<Verifying>,
    pub(super) alerts: AlertBoard,
    pub(super) forwarding: ForwardingView,
    /// When the daemon began to listen.
    pub(super) since: Ticks,
    /// The file of its configuration, if any.
    pub(super) config_file: Option<PathBuf>,
}

/// The state of the daemon.
pub(super) fn status(of: &StatusContext) -> Result<DaemonStatus, ApiError> {
    let now = time::now();
    let (records, per_second) = (lock(&of.metrics.commits).records, &of.metrics.records_per_second);
    let registry = of.counters.load();
    let oldest = registry.sources.iter().filter_map(|source| source.unread_for(now)).max();
    let (tables, view) = of.readers.with(|reader| of.lifecycle.listing(reader))?;
    let failure = of.readiness.store_failure();
    let store = failure.as_ref().map(|(since, reason)| Trouble {
        place: "store".into(),
        found: format!("cannot write since {}, so nothing is accepted: {reason}", shown(*since)),
    });
    // Sources that wait for the store do not measure how far they are behind.
    let waited = failure.as_ref().map(|(since, _)| now.since(*since));
    let zone = host_zone_doubt().map(|found| Trouble { place: "zone".into(), found: found.into() });
    let mut troubles: Vec<Trouble> = store.into_iter().chain(zone).chain(source_troubles(&registry, now)).collect();
    troubles.extend(
        today_exceeds(&view).iter().map(|excess| Trouble { place: "max_bytes".into(), found: excess.to_string() }),
    );
    troubles.extend(tables.iter().filter_map(table_trouble));
    let (alerts, alert_troubles) = alerts::state(&of.alerts);
    troubles.extend(alert_troubles.into_iter().map(|(place, found)| Trouble { place, found }));
    troubles.extend(of.forwarding.troubles().into_iter().map(|(place, found)| Trouble { place, found }));
    let (last, findings) = {
        let verify = lock(&of.metrics.verify);
        let last = Some(verify.last_run).filter(|last| *last > 0).and_then(|last| Ticks::from_unix(last, 0));
        (last, verify.findings.iter().map(|(_, count)| count).sum())
    };
    let next_verify = of.verifying.load().next_after(now);
    Ok(DaemonStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        since: shown(of.since),
        config_file: of.config_file.as_ref().map(|file| file.text().into_owned()),
        not_ready: of.readiness.check().err().map(str::to_owned),
        records,
        records_per_second: per_second.load(Ordering::Relaxed),
        lag_seconds: oldest.max(waited).unwrap_or_default().as_secs(),
        troubles,
        forwards: of.forwarding.receivers(),
        alerts,
        disk: disk(of, &view, now),
        next: next_step(&tables),
        verify: VerifyStatus {
            last: last.map(|last| last.to_string()),
            findings,
            next: next_verify.map(|next| next.to_string()),
        },
        losses: of.readers.with(losses)?,
    })
}

/// A time to the second.
fn shown(time: Ticks) -> String {
    Ticks::from_unix(time.unix_seconds(), 0).unwrap_or(time).to_string()
}

fn source_troubles(registry: &CounterRegistry, now: Ticks) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for source in &registry.sources {
        let mut add = |found| troubles.push(Trouble { place: source.name.clone(), found });
        if let Some(lag) = source.unread_for(now).map(|lag| lag.as_secs()).filter(|lag| *lag >= LAG_SECONDS) {
            add(format!("is {lag} s behind"));
        }
        match source.event(SourceEvent::ReadError) {
            0 => {}
            errors => add(format!("could not read {errors} times since the start: daytable doctor")),
        }
        if source.kind == Tail::KIND && source.followed_files.load(Ordering::Relaxed) == 0 {
            add("follows no file: daytable doctor".into());
        }
    }
    troubles
}

fn table_trouble(table: &ShownTable) -> Option<Trouble> {
    let found = match (&table.error, &table.stays) {
        (Some(error), _) => error.clone(),
        (None, Some(reason)) => format!("stays: {reason}"),
        (None, None) => return None,
    };
    Some(Trouble { place: table.table.clone(), found })
}

fn next_step(tables: &[ShownTable]) -> Option<String> {
    let due = tables.iter().filter_map(|table| Some((table.next_at.clone(), table.next.as_deref()?, &table.table)));
    let (at, step, table) = due.min()?;
    let at = at.map_or_else(|| "at the next run".into(), |at| format!("at {at}"));
    Some(format!("{} {table} {at}", step.replace('_', " ")))
}

/// The losses of the ledgers, which survive a restart.
fn losses(reader: &Reader) -> Result<BTreeMap<String, BTreeMap<String, u64>>, StoreError> {
    let mut losses: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut add = |source: &str, reason: &str, count| {
        if count > 0 {
            *losses.entry(source.to_owned()).or_default().entry(reason.to_owned()).or_default() += count;
        }
    };
    for source in reader.sources()? {
        let counts = ShownSource::loss_counts(&source.ledger);
        // The others are bytes that the configuration leaves out.
        let lost = counts.iter().filter(|(reason, _)| reason.starts_with("lost") || reason.starts_with("truncated"));
        lost.for_each(|(reason, count)| add(&source.block, reason, *count));
    }
    for ledger in reader.catalog().listeners()? {
        ledger.losses.iter().for_each(|(reason, count)| add(&ledger.listener, reason, *count));
    }
    Ok(losses)
}

fn disk(of: &StatusContext, view: &View, now: Ticks) -> DiskStatus {
    let sample = of.lifecycle.free_bytes();
    let uncounted = view.journal_bytes.saturating_add(view.other_bytes);
    let growth = growth(view, now);
    let per_day = growth.iter().map(|table| table.bytes_per_day).sum::<u64>();
    let when = |bound: Option<u64>| {
        // What is reached already is not a forecast.
        let bound = bound.filter(|bound| view.bytes < *bound);
        let day = bound.and_then(|bound| day_above(&growth, view.bytes, bound, now));
        day.map(|day| shown(now.plus(DAY * day)))
    };
    DiskStatus {
        data_dir: of.lifecycle.data_dir().text().into_owned(),
        bytes: view.bytes.saturating_add(uncounted),
        uncounted_bytes: uncounted,
        bytes_max: view.limits.max_bytes,
        free_bytes: sample,
        bytes_per_day: Some(per_day).filter(|bytes| *bytes > 0),
        at_limit: when(view.limits.max_bytes),
        full: when(sample.map(|free| view.bytes.saturating_add(free))),
    }
}

/// The growth of one configured table.
#[derive(Debug, PartialEq, Eq)]
struct Growth {
    bytes_per_day: u64,
    /// Days after which a new day-table is dropped.
    keep_days: u32,
    /// The day-tables: when each expires, and its bytes.
    tables: Vec<(Option<Ticks>, u64)>,
}

fn growth(view: &View, now: Ticks) -> Vec<Growth> {
    let of_rule = |rule: &TableRule| {
        let mut tables: Vec<(&DayTable, u64)> =
            view.tables.iter().filter(|state| *state.table.table() == rule.name).map(|s| (&s.table, s.bytes)).collect();
        tables.sort_by_key(|(table, _)| table.start());
        let per_day = |(table, bytes): &(&DayTable, u64)| {
            let seconds = table.end().since(table.start()).as_secs().max(1);
            u64::try_from(u128::from(*bytes) * 86_400 / u128::from(seconds)).unwrap_or(u64::MAX)
        };
        // Tables of the future are empty.
        let begun = tables.iter().rev().filter(|(table, _)| table.start() <= now);
        Growth {
            bytes_per_day: begun.take(PACE_DAYS + 1).map(per_day).max().unwrap_or(0),
            keep_days: u32::try_from(rule.window.keep.as_secs() / DAY.as_secs() + 1).unwrap_or(u32::MAX),
            tables: tables.iter().map(|(table, bytes)| (rule.window.expires(table), *bytes)).collect(),
        }
    };
    view.rules.iter().map(of_rule).collect()
}

/// The first future day on which a folder of `bytes` bytes is larger than `bound`, within [`FORECAST_DAYS`].
fn day_above(growth: &[Growth], bytes: u64, bound: u64, now: Ticks) -> Option<u32> {
    (0..=FORECAST_DAYS).find(|day| {
        let then = now.plus(DAY * *day);
        let added: u64 = growth.iter().map(|g| g.bytes_per_day.saturating_mul((*day).min(g.keep_days).into())).sum();
        let expired = |table: &&(Option<Ticks>, u64)| table.0.is_some_and(|expires| expires <= then && expires > now);
        let dropped: u64 = growth.iter().flat_map(|g| g.tables.iter().filter(expired)).map(|(_, bytes)| bytes).sum();
        bytes.saturating_add(added).saturating_sub(dropped) > bound
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_room_for_all_days_never_fills_up() {
        let now = Ticks::from_date(2026, 11, 21).expect("a date");
        let full = |bytes_per_day, keep_days, bound| {
            let tables = vec![(Some(now.plus(DAY * 2)), 100)];
            day_above(&[Growth { bytes_per_day, keep_days, tables }], 100, bound, now)
        };
        assert_eq!(full(10, 5, 90), Some(0), "already above");
        assert_eq!(full(10, 5, 105), Some(1));
        assert_eq!(full(10, 5, 110), None, "on the second day the old table is dropped, and five days are 50 bytes");
        assert_eq!(full(50, 4, 199), Some(4), "four days are 200 bytes");
        assert_eq!(full(0, 4, 100), None);
    }

    #[test]
    fn the_next_step_is_the_earliest() {
        let table = |name: &str, at: Option<&str>| ShownTable {
            table: name.into(),
            next: Some("remove_archive".into()),
            next_at: at.map(str::to_owned),
            ..ShownTable::default()
        };
        let later = table("Log20261121", Some("2026-11-23T06:00:00Z"));
        let sooner = table("Log20261120", Some("2026-11-22T06:00:00Z"));
        let steps = next_step(&[later.clone(), sooner]);
        assert_eq!(steps.as_deref(), Some("remove archive Log20261120 at 2026-11-22T06:00:00Z"));
        let due = next_step(&[later, table("Log20261119", None)]);
        assert_eq!(due.as_deref(), Some("remove archive Log20261119 at the next run"));
        assert_eq!(next_step(&[]), None);
    }
}
