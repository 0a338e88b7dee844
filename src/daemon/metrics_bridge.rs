//! What is counted elsewhere, brought to [`crate::metrics`].

use super::api::ReaderPool;
use crate::config::Config;
use crate::http::Readiness;
use crate::metrics::{Metrics, raise_to, size};
use daytable_intake::counters::{SourceCounters, SourceEvent};
use daytable_intake::push::Push;
use daytable_lifecycle::RunSummary;
use daytable_model::time::Ticks;
use daytable_net::tls;
use daytable_parse::Format;
use daytable_parse::redact::Redactor;
use daytable_platform::reloadable::Reloadable;
use daytable_store::{Intake, Onward, Options};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A store that counts its commits, and tells whether it takes records.
pub(super) fn store_options(config: &Config, metrics: &Arc<Metrics>, readiness: &Arc<Readiness>) -> Options {
    let (committed, failed) = (metrics.clone(), metrics.clone());
    let (closed, opened) = (readiness.clone(), readiness.clone());
    Options {
        commit_interval: config.store.commit_interval,
        on_commit: Box::new(move |report| {
            let metrics = &committed;
            metrics.commits.inc();
            metrics.records_committed.inc_by(report.records);
            metrics.batches.inc_by(report.batches);
            if report.batches > 0 {
                metrics.batch_records.observe(report.rows as f64 / report.batches as f64);
            }
            metrics.pages_written.inc_by(report.pages);
            metrics.pages_merged.inc_by(report.pages_merged);
            metrics.keys_dropped.inc_by(report.keys_dropped);
            if report.pages > 0 {
                metrics.page_bytes.observe(report.page_bytes as f64 / report.pages as f64);
            }
            metrics.commit_seconds.observe(report.took.as_secs_f64());
            metrics.fsync_seconds.observe((report.took - report.days_written).as_secs_f64());
        }),
        on_failure: Box::new(move |_| {
            failed.commit_failures.inc();
            closed.store_open(false);
        }),
        on_reopened: Box::new(move || opened.store_open(true)),
        onward: Onward::Nowhere,
    }
}

/// Counts the lifecycle's runs, and has readers let go of what was dropped.
pub(super) fn on_run(metrics: &Arc<Metrics>, readers: Arc<ReaderPool>) -> Box<dyn Fn(&RunSummary) + Send> {
    let metrics = metrics.clone();
    Box::new(move |run| {
        metrics.lifecycle_runs.inc();
        metrics.tables_dropped.inc_by(run.dropped);
        metrics.tables_sealed.inc_by(run.sealed);
        metrics.tables_archived.inc_by(run.archived);
        // What was sealed stands in another file now.
        if run.dropped + run.sealed > 0 {
            readers.let_go();
        }
        for step in &run.failed {
            metrics.lifecycle_failures.with_label_values(&[step]).inc();
        }
        if run.failed.is_empty() {
            metrics.lifecycle_last_success.set(run.at.unix_seconds() as f64);
        }
    })
}

/// The counters of all sources. A block that left the configuration stays: a counter never falls.
#[derive(Clone, Default)]
pub(super) struct CounterRegistry {
    /// Of every block since the start.
    pub(super) sources: Vec<Arc<SourceCounters>>,
    /// Of those, the blocks of sources that cannot read their records again.
    pub(super) unreplayable: Vec<Arc<SourceCounters>>,
    /// Of the listeners that run now.
    pub(super) listeners: Vec<Arc<SourceCounters>>,
    /// Matches of the patterns for secrets, by the name of the pattern.
    pub(super) redactions: Vec<(String, Arc<AtomicU64>)>,
    /// The listeners that have a certificate now, and the file of each.
    pub(super) certificates: Vec<(String, PathBuf)>,
}

impl CounterRegistry {
    /// Adds where the patterns of a configuration count; blocks share those of the whole configuration.
    pub(super) fn add_redactions(&mut self, config: &Config) {
        let readings = config.tails.iter().map(|tail| &tail.reading);
        let readings = readings.chain(config.syslogs.iter().map(|syslog| &syslog.reading));
        let readings = readings.chain(config.journals.iter().map(|journal| &journal.reading));
        let of_blocks = readings.filter_map(|reading| reading.redactor.as_ref()).flat_map(Redactor::patterns);
        for pattern in of_blocks.chain(&config.redact) {
            let counter = pattern.counter();
            if !self.redactions.iter().any(|(_, known)| Arc::ptr_eq(known, &counter)) {
                self.redactions.push((pattern.name().to_owned(), counter));
            }
        }
    }
}

/// Brings the counters of the sources and the state of the store to the metrics at each scrape.
pub(super) fn fetch(metrics: &Metrics, counters: Reloadable<CounterRegistry>, push: Arc<Push>, intake: Intake) {
    // A series at zero is shown before the first event: a rate needs both ends.
    metrics.on_scrape(Box::new(move |metrics| {
        let counters = counters.load();
        let CounterRegistry { sources, redactions, certificates, .. } = &*counters;
        let now = daytable_model::time::now();
        sources.iter().for_each(|source| fetch_source(metrics, source, now));
        fetch_totals(metrics, sources);
        raise_to(&metrics.own_records, daytable_intake::own_output::passed_over());
        metrics.push_held_bytes.set(size(push.bodies().held()));
        let mut by_name = BTreeMap::<&str, u64>::new();
        for (name, matches) in redactions {
            *by_name.entry(name).or_default() += read(matches);
        }
        for (name, matches) in by_name {
            raise_to(&metrics.redactions.with_label_values(&[name]), matches);
        }
        metrics.intake_waiting_bytes.set(size(intake.waiting_bytes()));
        for (source, path) in certificates {
            // A certificate that cannot be read now is counted by `certificate_reloads_failed`.
            if let Some(ends) = tls::expiry(path) {
                metrics.certificate_expiry.with_label_values(&[source]).set(ends.unix_seconds() as f64);
            }
        }
    }));
}

/// The listeners that have a certificate, and the file of each.
pub(super) fn certificates(config: &Config) -> Vec<(String, PathBuf)> {
    let syslogs = config.syslogs.iter().map(|syslog| (syslog.name.as_str(), syslog.tls.as_ref()));
    let listeners = syslogs.chain([("http", config.http.tls.as_ref())]);
    listeners.filter_map(|(source, tls)| Some((source.to_owned(), tls?.cert_file.clone()))).collect()
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The metrics of one block.
fn fetch_source(metrics: &Metrics, counters: &SourceCounters, now: Ticks) {
    let (name, source) = (&*counters.name, metrics.source(&counters.name));
    raise_to(&source.records_received, read(&counters.records));
    raise_to(&source.bytes_received, read(&counters.bytes));
    raise_to(&source.invalid_utf8, read(&counters.invalid_utf8));
    let since = i64::try_from(read(&counters.unread_since)).ok().filter(|ticks| *ticks > 0).and_then(Ticks::new);
    source.lag_seconds.set(since.map_or(0.0, |since| now.since(since).as_secs_f64()));
    source.lag_bytes.set(gauge(read(&counters.lag_bytes)));
    for (event, count) in counters.events() {
        let counter = match event {
            // Counted over all blocks, or not shown.
            SourceEvent::ReadError | SourceEvent::Rotation => continue,
            SourceEvent::Rewrite => source.files_rewritten.clone(),
            SourceEvent::BytesDestroyed => source.bytes_dropped("destroyed", false),
            SourceEvent::BytesSkipped => source.bytes_dropped("skipped", true),
            SourceEvent::JournalGap => metrics.journal_gaps.with_label_values(&[name]),
            SourceEvent::RecordsDropped(reason) => source.records_dropped(reason, false),
            SourceEvent::RecordsLimited(limit) => source.records_dropped(limit, true),
            SourceEvent::SenderPaced(limit) => metrics.senders_paced.with_label_values(&[name, limit]),
            SourceEvent::KernelDrops => metrics.udp_drops.with_label_values(&[name]),
            SourceEvent::ConnectionAccepted => {
                metrics.connections.with_label_values(&[name]).set(gauge(read(&counters.connections)));
                metrics.connections_accepted.with_label_values(&[name])
            }
            SourceEvent::ConnectionClosed(reason) => metrics.connections_refused.with_label_values(&[name, reason]),
            SourceEvent::CertificateReloadFailed => metrics.certificate_reloads_failed.with_label_values(&[name]),
            SourceEvent::BodyBytes => metrics.push_body_bytes.with_label_values(&[name]),
            SourceEvent::BodyRefused(reason) => metrics.push_bodies_refused.with_label_values(&[name, reason]),
            SourceEvent::PushRepeated => metrics.pushes_repeated.with_label_values(&[name]),
        };
        raise_to(&counter, count);
    }
}

/// The metrics that are counted over all blocks.
fn fetch_totals(metrics: &Metrics, sources: &[Arc<SourceCounters>]) {
    let sum = |of: &dyn Fn(&SourceCounters) -> u64| sources.iter().map(|source| of(source)).sum::<u64>();
    let mut misplaced = BTreeMap::<String, [u64; 2]>::new();
    for source in sources {
        for (table, [late, early]) in source.misplaced().iter() {
            let of_table = misplaced.entry(table.clone()).or_default();
            *of_table = [of_table[0] + late, of_table[1] + early];
        }
    }
    for (table, [late, early]) in misplaced {
        let metrics = metrics.table(&table);
        raise_to(&metrics.late, late);
        raise_to(&metrics.early, early);
    }
    for (at, format) in Format::ALL.into_iter().enumerate() {
        raise_to(&metrics.format(format.label()), sum(&|source| read(&source.by_format[at])));
    }
    // By the setting that is the limit. An entry of a journal is a message, too.
    let truncated = |kinds: &[&str]| sum(&|source| u64::from(kinds.contains(&source.kind)) * read(&source.truncated));
    for (setting, kinds) in [
        ("line_bytes_max", &["tail"][..]),
        ("message_bytes_max", &["syslog", "journal", "push"]),
        ("entry_bytes_max", &["journal"]),
    ] {
        raise_to(&metrics.records_truncated.with_label_values(&[setting]), truncated(kinds));
    }
    raise_to(&metrics.read_errors, sum(&|source| source.event(SourceEvent::ReadError)));
    metrics.open_files.set(gauge(sum(&|source| read(&source.open_files))));
    metrics.sources_followed.set(gauge(sum(&|source| read(&source.followed_files))));
}
