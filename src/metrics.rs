//! Everything that is counted, by its Prometheus name: `daytable_`, a noun, a unit.
//!
//! Handles are made once. Code that counts on the way of a record keeps the handle of its own label set
//! ([`Metrics::source`], [`Metrics::format`], [`Metrics::table`]), so that counting is one atomic addition and no
//! look-up. What is already counted elsewhere in an atomic, or is a state rather than an event, is fetched when
//! somebody asks: [`Metrics::on_scrape`] takes a function that is called before each [`Metrics::render`].
//!
//! Labels have few values: `source` is the name of a config block and never a path, `table` the name of a configured
//! table and never of a day. Lag is the largest of a block's files, because a sum would hide the one that hangs.

#[cfg(test)]
mod documented;
mod naming;
mod process;
mod remote;

pub use remote::RemoteMetrics;

use naming::{Naming, powers};
use process::Process;
use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry, TextEncoder};
use std::sync::{Mutex, PoisonError};

/// The media type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of a process, and their registry.
pub struct Metrics {
    /// Records on disk: counted after the commit that holds them.
    pub records_committed: IntCounter,
    /// Records kept in part, by `reason`.
    pub records_truncated: IntCounterVec,
    /// Batches that were handed to the commit.
    pub batches: IntCounter,
    /// Records a batch.
    pub batch_records: Histogram,
    /// Commits that reached their commit point.
    pub commits: IntCounter,
    /// Commits that did not; what they held was read again.
    pub commit_failures: IntCounter,
    /// Seconds a commit took, from the first insert to the commit point.
    pub commit_seconds: Histogram,
    /// Seconds of one transaction's end, the fsync in it.
    pub fsync_seconds: Histogram,
    /// Pages that commits wrote.
    pub pages_written: IntCounter,
    /// Bytes of a page's body as it is stored.
    pub page_bytes: Histogram,
    /// Small pages that tidying merged into larger ones.
    pub pages_merged: IntCounter,
    /// Day-tables, by `state`.
    pub tables: IntGaugeVec,
    /// Day-tables that stay although they have expired, by `reason`.
    pub tables_held_back: IntGaugeVec,
    /// Day-tables that were dropped.
    pub tables_dropped: IntCounter,
    /// Days that were sealed.
    pub tables_sealed: IntCounter,
    /// Days that were archived, and read back.
    pub tables_archived: IntCounter,
    /// Bytes of the days, as the bound `max_bytes` counts them.
    pub store_bytes: IntGauge,
    /// That bound; zero where there is none.
    pub store_bytes_max: IntGauge,
    /// Records and journal entries that this daemon wrote itself, passed over.
    pub own_records: IntCounter,
    /// Readings of the configuration while the daemon runs, by `result`: `success` or `failure`.
    pub config_reloads: IntCounterVec,
    /// Bytes that are free on the disk of the data folder.
    pub store_free_bytes: IntGauge,
    /// Bytes that the lifecycle has sealed, archived, read back, restored, by `step`.
    pub lifecycle_bytes: IntCounterVec,
    /// Steps that failed and wait to be tried again, by `step`.
    pub lifecycle_waiting: IntGaugeVec,
    /// Runs of the lifecycle, failed ones included.
    pub lifecycle_runs: IntCounter,
    /// Steps of the lifecycle that failed, by `step`.
    pub lifecycle_failures: IntCounterVec,
    /// Unix time of the last run in which no step failed.
    pub lifecycle_last_success: Gauge,
    /// Verifications that ran to their end.
    pub verify_runs: IntCounter,
    /// What the last of them found, by `kind`.
    pub verify_findings: IntGaugeVec,
    /// Unix time at which it ended.
    pub verify_last_run: Gauge,
    /// Seconds that it took.
    pub verify_seconds: Gauge,
    /// Bytes that they read.
    pub verify_bytes: IntCounter,
    /// Files that are followed.
    pub sources_followed: IntGauge,
    /// Files that are held open to be read.
    pub open_files: IntGauge,
    /// Bytes that were submitted and are not committed.
    pub intake_waiting_bytes: IntGauge,
    /// Reads of a source that failed.
    pub read_errors: IntCounter,
    /// Secrets that were replaced, by `pattern`, its name in the configuration.
    pub redactions: IntCounterVec,
    /// Connections that are open, by `source`.
    pub connections: IntGaugeVec,
    /// Connections that were accepted, by `source`.
    pub connections_accepted: IntCounterVec,
    /// Connections that were closed by this side, by `source` and `reason`.
    pub connections_refused: IntCounterVec,
    /// Datagrams that the kernel dropped because they were not read in time, by `source`.
    pub udp_drops: IntCounterVec,
    /// How often the entry of a journal that reading was to go on behind was gone, by `source`.
    pub journal_gaps: IntCounterVec,
    /// Certificates that changed and could not be read, by `source`.
    pub certificate_reloads_failed: IntCounterVec,
    /// Unix time at which the first certificate of a listener's file ends, by `source`.
    pub certificate_expiry: GaugeVec,
    /// Files of credentials that changed and could not be used.
    pub credential_reloads_failed: IntCounter,
    /// Pushes that were refused before their body was read, by `reason`.
    pub pushes_refused: IntCounterVec,
    /// Senders that were not read from for a while, because they were over their rate or quota, by `source` and `reason`.
    pub senders_paced: IntCounterVec,
    /// Bytes of bodies, as they came and decoded, that are in memory.
    pub push_held_bytes: IntGauge,
    /// Bytes of bodies as they came, by `source`.
    pub push_body_bytes: IntCounterVec,
    /// Pushes that were refused as a whole once their head was read, by `source` and `reason`.
    pub push_bodies_refused: IntCounterVec,
    /// Pushes that repeated one of the same idempotency key, by `source`.
    pub pushes_repeated: IntCounterVec,
    /// Idempotency keys that went before their time, because there were too many.
    pub keys_dropped: IntCounter,
    /// The outbox and the remote store.
    pub remote: RemoteMetrics,
    sources: BySource,
    parsed: IntCounterVec,
    late: IntCounterVec,
    early: IntCounterVec,
    http_requests: IntCounterVec,
    process: Process,
    registry: Registry,
    fetched: Mutex<Vec<Fetch>>,
    #[cfg(test)]
    names: Vec<String>,
}

/// Fetches values that are kept elsewhere.
pub type Fetch = Box<dyn Fn(&Metrics) + Send + Sync>;

/// What is counted by config block.
struct BySource {
    records_received: IntCounterVec,
    bytes_received: IntCounterVec,
    records_dropped: IntCounterVec,
    bytes_dropped: IntCounterVec,
    invalid_utf8: IntCounterVec,
    lag_bytes: IntGaugeVec,
    files_rewritten: IntCounterVec,
    lag_seconds: GaugeVec,
}

/// What is counted of one config block. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct SourceMetrics {
    /// Records that were read.
    pub records_received: IntCounter,
    /// Bytes that were read, decoded, newlines included.
    pub bytes_received: IntCounter,
    /// Records with bytes that are no UTF-8.
    pub invalid_utf8: IntCounter,
    /// Bytes of the file that lags most, between its end and what is committed of it.
    pub lag_bytes: IntGauge,
    /// Seconds since the oldest unread byte of any file was seen; zero where everything is read.
    pub lag_seconds: Gauge,
    /// Files that were written anew over their path with a line changed that was read.
    pub files_rewritten: IntCounter,
    name: String,
    records_dropped: IntCounterVec,
    bytes_dropped: IntCounterVec,
}

/// What is counted of one configured table. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct TableMetrics {
    /// Records that came after their day was dropped and went to today's table.
    pub late: IntCounter,
    /// Records dated too far ahead that went to today's table.
    pub early: IntCounter,
}

impl SourceMetrics {
    /// Records that are not kept, for `reason`; `intentional` where the configuration asks for it.
    pub fn records_dropped(&self, reason: &str, intentional: bool) -> IntCounter {
        self.records_dropped.with_label_values(&[&self.name, reason, truth(intentional)])
    }

    /// Bytes that are not kept, for `reason`; `intentional` where the configuration asks for it.
    pub fn bytes_dropped(&self, reason: &str, intentional: bool) -> IntCounter {
        self.bytes_dropped.with_label_values(&[&self.name, reason, truth(intentional)])
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// A registry with every metric in it, all at zero.
    pub fn new() -> Metrics {
        let all = Naming::new();
        let build = all.gauges("build_info", "Always 1; the labels say which build this is.", &["version"]);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Metrics {
            records_committed: all.counter("records_committed_total", "Records that are on disk."),
            records_truncated: all.counters("records_truncated_total", "Records kept in part.", &["reason"]),
            batches: all.counter("batches_total", "Batches handed to the commit."),
            batch_records: all.histogram("batch_records", "Records a batch.", powers(1.0, 2.0, 8)),
            commits: all.counter("commits_total", "Commits that reached their commit point."),
            commit_failures: all.counter("commit_failures_total", "Commits that failed; their sources are read again."),
            commit_seconds: all.histogram("commit_seconds", "Seconds a commit took.", powers(0.000_5, 2.0, 14)),
            fsync_seconds: all.histogram("fsync_seconds", "Seconds an fsync took.", powers(0.000_1, 2.0, 16)),
            pages_written: all.counter("pages_written_total", "Pages written by commits."),
            page_bytes: all.histogram("page_bytes", "Bytes of a page as it is stored.", powers(256.0, 2.0, 11)),
            pages_merged: all.counter("pages_merged_total", "Small pages that were merged into larger ones."),
            tables: all.gauges("tables", "Day-tables.", &["state"]),
            tables_held_back: all.gauges("tables_held_back", "Day-tables that expired and stay.", &["reason"]),
            tables_dropped: all.counter("tables_dropped_total", "Day-tables that were dropped."),
            tables_sealed: all.counter("tables_sealed_total", "Days that were sealed."),
            tables_archived: all.counter("tables_archived_total", "Days that were archived and read back."),
            store_bytes: all.gauge("store_bytes", "Bytes of the days in the data folder."),
            store_bytes_max: all.gauge("store_bytes_max", "Bytes above which the oldest days go; 0 is no bound."),
            own_records: all
                .counter("own_records_passed_over_total", "Records that the daemon wrote itself, not read."),
            config_reloads: {
                let reloads =
                    all.counters("config_reloads_total", "Times the configuration was read again.", &["result"]);
                // A rate needs both ends.
                ["success", "failure"].iter().for_each(|result| drop(reloads.with_label_values(&[result])));
                reloads
            },
            store_free_bytes: all.gauge("store_free_bytes", "Bytes free on the disk of the data folder."),
            lifecycle_bytes: all.counters("lifecycle_bytes_total", "Bytes sealed, archived, restored.", &["step"]),
            lifecycle_waiting: all.gauges("lifecycle_steps_waiting", "Steps that failed and wait.", &["step"]),
            lifecycle_runs: all.counter("lifecycle_runs_total", "Runs of the lifecycle."),
            lifecycle_failures: all.counters("lifecycle_failures_total", "Steps that failed.", &["step"]),
            lifecycle_last_success: all.float(
                "lifecycle_last_success_timestamp_seconds",
                "Unix time of the last run of the lifecycle in which no step failed.",
            ),
            verify_runs: all.counter("verify_runs_total", "Verifications that ran to their end."),
            verify_findings: all.gauges(
                "verify_findings",
                "Things that the last verification found not whole.",
                &["kind"],
            ),
            verify_last_run: all
                .float("verify_last_run_timestamp_seconds", "Unix time at which the last verification ended."),
            verify_seconds: all.float("verify_duration_seconds", "Seconds that the last verification took."),
            verify_bytes: all
                .counter("verify_read_bytes_total", "Bytes that verifications held against their checksums."),
            sources_followed: all.gauge("sources_followed", "Files that are followed."),
            open_files: all.gauge("open_files", "Files that are held open to be read."),
            intake_waiting_bytes: all.gauge("intake_waiting_bytes", "Bytes that wait to be committed."),
            read_errors: all.counter("read_errors_total", "Reads of a source that failed."),
            redactions: all.counters("redactions_total", "Secrets that were replaced.", &["pattern"]),
            connections: all.gauges("connections", "Connections that are open.", &["source"]),
            connections_accepted: all.counters("connections_accepted_total", "Connections accepted.", &["source"]),
            connections_refused: all.counters(
                "connections_refused_total",
                "Connections that were closed by this side, too many ones among them.",
                &["source", "reason"],
            ),
            udp_drops: all.counters("udp_drops_total", "Datagrams dropped by the kernel.", &["source"]),
            journal_gaps: all.counters(
                "journal_gaps_total",
                "Times that a journal lacked the entry to go on behind.",
                &["source"],
            ),
            certificate_reloads_failed: all.counters(
                "certificate_reloads_failed_total",
                "Certificates that changed and could not be read.",
                &["source"],
            ),
            certificate_expiry: all.floats(
                "certificate_expiry_timestamp_seconds",
                "Unix time at which the first certificate of the file ends.",
                &["source"],
            ),
            credential_reloads_failed: all
                .counter("credential_reloads_failed_total", "Files of credentials that changed and could not be used."),
            pushes_refused: all.counters(
                "pushes_refused_total",
                "Pushes that were refused before their body was read.",
                &["reason"],
            ),
            senders_paced: all.counters(
                "senders_paced_total",
                "Times that a sender was not read from because it was over its rate or quota.",
                &["source", "reason"],
            ),
            push_held_bytes: all
                .gauge("push_held_bytes", "Bytes of pushed bodies that are in memory, and of what they become."),
            push_body_bytes: all.counters("push_body_bytes_total", "Bytes of bodies as they came.", &["source"]),
            push_bodies_refused: all.counters(
                "push_bodies_refused_total",
                "Pushes that were refused as a whole for what they are or because there was no room.",
                &["source", "reason"],
            ),
            pushes_repeated: all.counters(
                "pushes_repeated_total",
                "Pushes that repeated one of the same idempotency key.",
                &["source"],
            ),
            keys_dropped: all.counter(
                "idempotency_keys_dropped_total",
                "Idempotency keys that went before their time, because there were too many.",
            ),
            remote: RemoteMetrics::new(&all),
            sources: BySource::new(&all),
            parsed: all.counters("records_parsed_total", "Records by the format they were read as.", &["format"]),
            late: all.counters("records_late_total", "Records later than their day's table.", &["table"]),
            early: all.counters("records_early_total", "Records dated too far ahead for a table.", &["table"]),
            http_requests: all.counters("http_requests_total", "Requests that were answered.", &["code", "route"]),
            process: Process::new(&all),
            registry: all.registry,
            fetched: Mutex::default(),
            #[cfg(test)]
            names: all.names.into_inner(),
        }
    }

    /// The metrics of the config block `name`, which are shown from now on.
    pub fn source(&self, name: &str) -> SourceMetrics {
        let of = &self.sources;
        SourceMetrics {
            records_received: of.records_received.with_label_values(&[name]),
            bytes_received: of.bytes_received.with_label_values(&[name]),
            invalid_utf8: of.invalid_utf8.with_label_values(&[name]),
            lag_bytes: of.lag_bytes.with_label_values(&[name]),
            lag_seconds: of.lag_seconds.with_label_values(&[name]),
            files_rewritten: of.files_rewritten.with_label_values(&[name]),
            name: name.to_owned(),
            records_dropped: of.records_dropped.clone(),
            bytes_dropped: of.bytes_dropped.clone(),
        }
    }

    /// The metrics of the configured table `name`, which are shown from now on.
    pub fn table(&self, name: &str) -> TableMetrics {
        TableMetrics { late: self.late.with_label_values(&[name]), early: self.early.with_label_values(&[name]) }
    }

    /// Records that were read as `format`.
    pub fn format(&self, format: &str) -> IntCounter {
        self.parsed.with_label_values(&[format])
    }

    /// Requests to `route` that were answered with the status `code`.
    pub fn http_request(&self, code: &str, route: &str) -> IntCounter {
        self.http_requests.with_label_values(&[code, route])
    }

    /// Has `fetch` called before each [`Metrics::render`], one call at a time. It must not call this again.
    pub fn on_scrape(&self, fetch: Fetch) {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner).push(fetch);
    }

    /// Everything in Prometheus's text format ([`CONTENT_TYPE`]). Reads `/proc`, so it blocks for a moment.
    pub fn render(&self) -> String {
        // Two scrapes at once would both add the same difference to a counter: one at a time.
        let fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        for fetch in fetched.iter() {
            fetch(self);
        }
        self.process.read();
        let families = self.registry.gather();
        drop(fetched);
        TextEncoder::new().encode_to_string(&families).unwrap_or_else(|error| {
            tracing::error!(%error, "failed to write the metrics down");
            String::new()
        })
    }
}

/// Brings a counter up to a total that is kept elsewhere. A total that went down (its owner started anew) is passed
/// over until it is above the counter again, because a counter never goes down.
pub fn raise_to(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// A size as a gauge takes it.
pub fn size(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

impl BySource {
    fn new(all: &Naming) -> BySource {
        let why = ["source", "reason", "intentional"];
        BySource {
            records_received: all.counters("records_received_total", "Records that were read.", &["source"]),
            bytes_received: all.counters("bytes_received_total", "Bytes that were read.", &["source"]),
            records_dropped: all.counters("records_dropped_total", "Records that are not kept.", &why),
            bytes_dropped: all.counters("bytes_dropped_total", "Bytes that are not kept.", &why),
            invalid_utf8: all.counters("records_invalid_utf8_total", "Records that are not UTF-8.", &["source"]),
            lag_bytes: all.gauges("source_lag_bytes", "Bytes not yet committed of the file most behind.", &["source"]),
            files_rewritten: all.counters(
                "files_rewritten_total",
                "Files that were written anew over their path with a line changed that was read, and are read again.",
                &["source"],
            ),
            lag_seconds: all.floats("source_lag_seconds", "Age of the oldest byte not yet read.", &["source"]),
        }
    }
}

fn truth(it_is: bool) -> &'static str {
    if it_is { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// With a child of every family, so that none is left out of what is shown.
    pub(super) fn full() -> Metrics {
        let metrics = Metrics::new();
        let source = metrics.source("app");
        source.records_dropped("ignore_older", true).inc();
        source.bytes_dropped("truncated", false).inc_by(12);
        metrics.table("Log").late.inc();
        metrics.format("json").inc();
        metrics.http_request("200", "/metrics").inc();
        metrics.redactions.with_label_values(&["email"]).inc();
        metrics.records_truncated.with_label_values(&["line_bytes_max"]).inc();
        metrics.tables.with_label_values(&["open"]).set(3);
        metrics.tables_held_back.with_label_values(&["grace"]).set(1);
        metrics.lifecycle_failures.with_label_values(&["drop"]).inc();
        metrics.verify_findings.with_label_values(&["page"]).set(1);
        metrics.lifecycle_waiting.with_label_values(&["drop"]).set(1);
        metrics.lifecycle_bytes.with_label_values(&["seal"]).inc();
        metrics.commit_seconds.observe(0.004);
        metrics.connections.with_label_values(&["syslog"]).set(1);
        metrics.connections_accepted.with_label_values(&["syslog"]).inc();
        metrics.connections_refused.with_label_values(&["syslog", "tls"]).inc();
        metrics.udp_drops.with_label_values(&["syslog"]).inc();
        metrics.journal_gaps.with_label_values(&["journal"]).inc();
        metrics.certificate_reloads_failed.with_label_values(&["syslog"]).inc();
        metrics.certificate_expiry.with_label_values(&["syslog"]).set(1.9e9);
        metrics.pushes_refused.with_label_values(&["rate_limited"]).inc();
        metrics.push_body_bytes.with_label_values(&["http/ingest"]).inc();
        metrics.push_bodies_refused.with_label_values(&["http/ingest", "bad"]).inc();
        metrics.pushes_repeated.with_label_values(&["http/ingest"]).inc();
        metrics.senders_paced.with_label_values(&["syslog", "quota"]).inc();
        metrics.remote.requests.with_label_values(&["202"]).inc();
        metrics.remote.dead_letters.with_label_values(&["refused"]).inc();
        metrics
    }

    #[test]
    fn promtool_finds_nothing() {
        let promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut promtool = promtool.expect("this test needs promtool: apt-get install -y prometheus");
        let mut stdin = promtool.stdin.take().expect("it is piped");
        stdin.write_all(full().render().as_bytes()).expect("promtool reads");
        drop(stdin);
        let said = promtool.wait_with_output().expect("promtool ends");
        let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && text.is_empty(), "{text}");
    }

    #[test]
    fn everything_of_the_design_is_there() {
        let text = full().render();
        for name in [
            "daytable_records_received_total{source=\"app\"} 0",
            "daytable_bytes_received_total{source=\"app\"} 0",
            "daytable_records_committed_total 0",
            "daytable_records_dropped_total{intentional=\"true\",reason=\"ignore_older\",source=\"app\"} 1",
            "daytable_commit_seconds_count 1",
            "daytable_fsync_seconds_count 0",
            "daytable_records_parsed_total{format=\"json\"} 1",
            "daytable_tables{state=\"open\"} 3",
            "daytable_source_lag_seconds{source=\"app\"} 0",
            "daytable_build_info{version=",
        ] {
            assert!(text.contains(name), "{name} is not in\n{text}");
        }
    }

    #[test]
    fn a_total_kept_elsewhere_is_shown_once_however_often_it_is_asked_for() {
        let metrics = Metrics::new();
        let total = Arc::new(AtomicU64::new(5));
        let kept = total.clone();
        metrics.on_scrape(Box::new(move |metrics| raise_to(&metrics.read_errors, kept.load(Ordering::Relaxed))));
        for (now, shown) in [(5, 5), (5, 5), (9, 9), (2, 9), (10, 10)] {
            total.store(now, Ordering::Relaxed);
            let text = metrics.render();
            assert!(text.contains(&format!("\ndaytable_read_errors_total {shown}\n")), "{now} is shown as\n{text}");
        }
    }
}
