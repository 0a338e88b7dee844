//! All counters at the moment of a scrape.

use super::process::ProcessSample;
use super::registry::CounterRegistry;
use super::totals::{CommitTotals, ReloadTotals, RunTotals, TransactionTotals, VerifyTotals};
use crate::http::HttpCounters;
use daytable_alert::AlertBoard;
use daytable_alert::board::BoardContent;
use daytable_intake::counters::{IntakeKind, SourceCounters, SourceEvent};
use daytable_intake::push::Push;
use daytable_lifecycle::PublishCounts;
use daytable_model::time::{self, Ticks};
use daytable_platform::reloadable::Reloadable;
use daytable_store::CommitQueue;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The parts whose counters a scrape reads.
pub struct MetricSources {
    /// Sources that read and listen.
    pub counters: Reloadable<CounterRegistry>,
    /// Endpoints of push.
    pub push: Arc<Push>,
    /// The queue of commits.
    pub queue: CommitQueue,
    /// Reads the lifecycle's state.
    pub lifecycle: Box<dyn Fn() -> LifecycleSample + Send + Sync>,
    /// The current alerts.
    pub alerts: AlertBoard,
    /// Reads the state of the outbox, if there is a remote store.
    pub remote: Option<Box<dyn Fn() -> RemoteSample + Send + Sync>>,
    /// Reads the state of the senders, and of the hosts that forward here.
    pub forward: Box<dyn Fn() -> ForwardSample + Send + Sync>,
}

/// The senders of `[[forward]]`, and the hosts that forward here, at the moment of a scrape.
#[derive(Default)]
pub struct ForwardSample {
    /// Each sender.
    pub senders: Vec<SenderSample>,
    /// Each host, at most [`HOSTS_SHOWN_MAX`].
    pub hosts: Vec<HostSample>,
}

/// Hosts that have metrics of their own at most.
pub const HOSTS_SHOWN_MAX: usize = 2000;

/// A sender.
pub struct SenderSample {
    /// The address of its receiver.
    pub to: String,
    /// Records that were sent and stored.
    pub records: u64,
    /// Failed requests.
    pub failures: u64,
    /// Records that the receiver lacks.
    pub behind_records: u64,
    /// Those of them that are older than records that the receiver has.
    pub backlog_records: u64,
    /// Seconds since the oldest of the records that the receiver lacks was committed.
    pub behind_seconds: f64,
    /// Records that the receiver refused for good.
    pub refused: u64,
    /// Requests that the receiver refused because the credential is not for a table of them.
    pub forbidden: u64,
}

/// A host that forwards here.
pub struct HostSample {
    /// Its name.
    pub host: String,
    /// Records that were received of it.
    pub records: u64,
    /// Records that it has and that were not received, by its last report.
    pub behind_records: u64,
    /// Those of them that are older than records which were received.
    pub backlog_records: u64,
    /// Seconds since it was heard of.
    pub silent_seconds: f64,
    /// Requests that were refused because its credential is not for a table of them.
    pub refused_requests: u64,
}

/// The lifecycle of the data folder at the moment of a scrape.
#[derive(Default)]
pub struct LifecycleSample {
    /// Day-tables by state, and their bytes. Absent if the catalog cannot be read.
    pub tables: Option<([(&'static str, usize); 4], u64)>,
    /// The bound `max_bytes`; 0 without a bound.
    pub bytes_max: u64,
    /// Bytes that are free on the disk of the data folder.
    pub free_bytes: Option<u64>,
    /// The reason for each day-table that has expired and stays.
    pub held_back: Vec<&'static str>,
    /// The step of each failure that waits for its next attempt.
    pub waiting: Vec<&'static str>,
    /// The configured tables.
    pub names: Vec<String>,
    /// Bytes that steps have processed, by step.
    pub bytes: Vec<(&'static str, u64)>,
    /// What was published of open days.
    pub published: PublishCounts,
    /// The tables whose open days could not be published, and wait for the next attempt.
    pub unpublished: Vec<String>,
}

/// The outbox and the remote store at the moment of a scrape. All zero without a remote store.
#[derive(Default)]
pub struct RemoteSample {
    /// Entities that wait in the outbox.
    pub entities: u64,
    /// Bytes of the outbox on disk.
    pub bytes: u64,
    /// Seconds since the oldest entity was accepted.
    pub oldest_age_seconds: f64,
    /// Whether the outbox is full.
    pub is_full: bool,
    /// Requests by `code`: the status of the response, or `none`.
    pub requests: Vec<(String, u64)>,
    /// Requests that were sent again.
    pub retries: u64,
    /// Responses that asked daytable to slow down.
    pub throttled: u64,
    /// Entities that the remote store accepted.
    pub sent: u64,
    /// Instances of a day-table with more partitions than configured.
    pub spread_instances: u64,
    /// The most partitions of one instance.
    pub spread_buckets_max: u64,
    /// Times that an instance got more partitions.
    pub spread_steps: u64,
    /// Whether files and journals wait for the bucket plan.
    pub is_spread_pending: bool,
    /// Whether the service refuses this daytable.
    pub is_denied: bool,
    /// Entities that were set aside, by reason.
    pub dead_letters: Vec<(&'static str, u64)>,
    /// Rows that were dropped from the outbox unsent, by reason.
    pub dropped: Vec<(&'static str, u64)>,
}

/// The counters of one source.
pub(super) struct SourceSample {
    pub(super) counters: Arc<SourceCounters>,
    pub(super) events: BTreeMap<SourceEvent, u64>,
    /// Seconds since the oldest unread byte was seen; 0 where everything is read.
    pub(super) lag_seconds: f64,
}

/// All counters at the moment of a scrape.
#[derive(Default)]
pub(super) struct Snapshot {
    pub(super) commits: CommitTotals,
    pub(super) runs: RunTotals,
    pub(super) verify: VerifyTotals,
    pub(super) reloads: ReloadTotals,
    pub(super) transactions: TransactionTotals,
    pub(super) http: Arc<HttpCounters>,
    pub(super) process: ProcessSample,
    pub(super) registry: Arc<CounterRegistry>,
    pub(super) sources: Vec<SourceSample>,
    pub(super) held_bytes: u64,
    pub(super) waiting_bytes: u64,
    pub(super) lifecycle: LifecycleSample,
    pub(super) alerts: BoardContent,
    pub(super) remote: RemoteSample,
    pub(super) forward: ForwardSample,
}

pub(super) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Snapshot {
    /// Adds what the parts count.
    pub(super) fn add_parts(&mut self, sources: Option<&MetricSources>) {
        if let Some(MetricSources { counters, push, queue, lifecycle, alerts, remote, forward }) = sources {
            self.forward = forward();
            self.registry = counters.load();
            self.held_bytes = push.memory().reserved() as u64;
            self.waiting_bytes = queue.waiting_bytes() as u64;
            self.lifecycle = lifecycle();
            self.alerts = alerts.read();
            self.remote = remote.as_ref().map(|remote| remote()).unwrap_or_default();
            if remote.is_some() {
                self.add_source(outbox(&self.remote));
            }
        }
        let registry = self.registry.clone();
        registry.sources.iter().for_each(|source| self.add_source(source.clone()));
    }

    fn add_source(&mut self, counters: Arc<SourceCounters>) {
        let since = i64::try_from(read(&counters.unread_since)).ok().filter(|ticks| *ticks > 0).and_then(Ticks::new);
        let lag_seconds = since.map_or(0.0, |since| time::now().since(since).as_secs_f64());
        self.sources.push(SourceSample { events: counters.events(), lag_seconds, counters });
    }

    /// The sum of a counter over all sources.
    pub(super) fn sum(&self, counter: impl Fn(&SourceCounters) -> u64) -> u64 {
        self.sources.iter().map(|source| counter(&source.counters)).sum()
    }

    /// Records that were cut, by the setting that is the limit. A kind may have several names for one limit.
    pub(super) fn truncated(&self) -> BTreeMap<&'static str, u64> {
        let none = self.registry.kinds.iter().map(|kind| (kind.cut_at, 0));
        let cut = self.sources.iter().map(|source| (source.counters.kind.cut_at, read(&source.counters.truncated)));
        let mut sums = BTreeMap::new();
        for (settings, count) in none.chain(cut) {
            settings.iter().for_each(|setting| *sums.entry(*setting).or_default() += count);
        }
        sums
    }
}

/// The rows that left the outbox unsent, as the losses of a source.
fn outbox(remote: &RemoteSample) -> Arc<SourceCounters> {
    let counters = SourceCounters::new(IntakeKind { name: "outbox", cut_at: &[] }, "outbox");
    for (reason, count) in &remote.dropped {
        counters.declare([SourceEvent::RecordsLimited(reason)]);
        counters.count(SourceEvent::RecordsLimited(reason), *count);
    }
    Arc::new(counters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::text_of;
    use daytable_intake::source::Source;
    use daytable_intake::syslog::Syslog;
    use daytable_intake::tail::Tail;

    #[test]
    fn each_source_is_shown_with_its_records_and_losses() {
        let app =
            SourceCounters::with_events(Tail::KIND, "app", [SourceEvent::BytesSkipped, SourceEvent::BytesDestroyed]);
        app.records.store(7, Ordering::Relaxed);
        app.by_level[0].store(2, Ordering::Relaxed);
        app.by_level[6].store(5, Ordering::Relaxed);
        app.count(SourceEvent::BytesDestroyed, 12);
        app.count(SourceEvent::ReadError, 2);
        app.truncated.store(1, Ordering::Relaxed);
        let udp = SourceCounters::with_events(Syslog::KIND, "udp", [SourceEvent::KernelDrops]);
        udp.count(SourceEvent::RecordsLimited("quota"), 2);
        let tcp = SourceCounters::with_events(Syslog::KIND, "tcp", [SourceEvent::ConnectionAccepted]);
        tcp.connections.store(4, Ordering::Relaxed);
        tcp.count(SourceEvent::ConnectionClosed("tls"), 3);
        let mut snapshot = Snapshot::default();
        for source in [app, udp, tcp] {
            snapshot.add_source(Arc::new(source));
        }
        snapshot
            .add_source(outbox(&RemoteSample { dropped: vec![("age", 5), ("bytes", 0)], ..RemoteSample::default() }));
        let text = text_of(&snapshot);
        for line in [
            "daytable_records_received_total{source=\"app\"} 7\n",
            "daytable_records_received_total{source=\"udp\"} 0\n",
            "daytable_bytes_dropped_total{intentional=\"false\",reason=\"destroyed\",source=\"app\"} 12\n",
            "daytable_bytes_dropped_total{intentional=\"true\",reason=\"skipped\",source=\"app\"} 0\n",
            "daytable_records_dropped_total{intentional=\"true\",reason=\"quota\",source=\"udp\"} 2\n",
            "daytable_records_dropped_total{intentional=\"true\",reason=\"age\",source=\"outbox\"} 5\n",
            "daytable_records_dropped_total{intentional=\"true\",reason=\"bytes\",source=\"outbox\"} 0\n",
            "daytable_records_truncated_total{reason=\"line_bytes_max\"} 1\n",
            "daytable_records_truncated_total{reason=\"message_bytes_max\"} 0\n",
            "daytable_records_total{level=\"none\",source=\"app\"} 2\n",
            "daytable_records_total{level=\"error\",source=\"app\"} 5\n",
            "daytable_records_total{level=\"fatal\",source=\"app\"} 0\n",
            "daytable_read_errors_total 2\n",
            "daytable_source_lag_seconds{source=\"app\"} 0\n",
            "daytable_udp_drops_total{source=\"udp\"} 0\n",
            "daytable_connections{source=\"tcp\"} 4\n",
            "daytable_connections_refused_total{reason=\"tls\",source=\"tcp\"} 3\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        for absent in ["daytable_udp_drops_total{source=\"tcp\"}", "daytable_connections{source=\"udp\"}"] {
            assert!(!text.contains(absent), "{absent} is in\n{text}");
        }
    }
}
