//! What is counted elsewhere, brought to [`crate::metrics`].

use super::api::ReaderPool;
use crate::config::Config;
use crate::http::Readiness;
use crate::metrics::{Metrics, raise_to, size};
use daytable_intake::journal::JournalCounters;
use daytable_intake::push::{EndpointCounters, Push};
use daytable_intake::rate_limit::LimitKind;
use daytable_intake::syslog::{self, ListenerCounters};
use daytable_intake::tail::{BlockCounters, TailCounters};
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

/// What all sources count. What was configured before is kept: a count never goes down.
#[derive(Clone, Default)]
pub(super) struct CounterRegistry {
    /// Of the blocks that are followed now.
    pub(super) tails: Arc<TailCounters>,
    /// Of the listeners that there are now.
    pub(super) listeners: Vec<Arc<syslog::Counters>>,
    /// Of all blocks that were ever followed, by their names.
    pub(super) blocks: Vec<Arc<BlockCounters>>,
    /// Of all listeners that there ever were.
    pub(super) all_listeners: Vec<Arc<ListenerCounters>>,
    /// Of all journals that were ever read.
    pub(super) journals: Vec<Arc<JournalCounters>>,
    /// Where the patterns of secrets count, by their names.
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

/// Has the counts of the sources and the state of the store fetched when somebody asks.
pub(super) fn fetch(metrics: &Metrics, counted: Reloadable<CounterRegistry>, push: Arc<Push>, intake: Intake) {
    // Series that stand at zero are there before the first event: a rate needs both ends.
    metrics.on_scrape(Box::new(move |metrics| {
        let counted = counted.load();
        let CounterRegistry { tails, listeners, blocks, all_listeners, journals, redactions, certificates } = &*counted;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sum = |of: fn(&BlockCounters) -> &AtomicU64| blocks.iter().map(|block| read(of(block))).sum::<u64>();
        let now = daytable_model::time::now();
        let mut late_early = std::collections::BTreeMap::new();
        for block in blocks {
            let metrics = metrics.source(&block.name);
            raise_to(&metrics.records_received, read(&block.records));
            raise_to(&metrics.bytes_received, read(&block.bytes));
            raise_to(&metrics.invalid_utf8, read(&block.invalid_utf8));
            raise_to(&metrics.files_rewritten, read(&block.rewritten));
            raise_to(&metrics.bytes_dropped("destroyed", false), read(&block.lost_bytes));
            raise_to(&metrics.bytes_dropped("skipped", true), read(&block.skipped_bytes));
            let since = i64::try_from(read(&block.unread_since)).ok().filter(|ticks| *ticks > 0).and_then(Ticks::new);
            metrics.lag_seconds.set(since.map_or(0.0, |since| now.since(since).as_secs_f64()));
            for (table, misplaced) in block.misplaced().iter() {
                let of_table = late_early.entry(table.clone()).or_insert([0; 2]);
                of_table[0] += misplaced[0];
                of_table[1] += misplaced[1];
            }
            metrics.lag_bytes.set(i64::try_from(read(&block.lag_bytes)).unwrap_or(i64::MAX));
        }
        for listener in listeners {
            fetch_listener(metrics, listener.read(), listener.is_udp());
        }
        for journal in journals {
            fetch_journal(metrics, journal, now);
        }
        raise_to(&metrics.own_records, daytable_intake::own_output::passed_over());
        metrics.push_held_bytes.set(size(push.bodies().held()));
        for endpoint in push.counters() {
            fetch_endpoint(metrics, endpoint);
        }
        // Of what was no file.
        let of_listeners = || all_listeners.iter().map(|listener| &listener.tally);
        let of_journals = || journals.iter().map(|journal| &journal.tally);
        let of_push = || push.counters().iter().map(|endpoint| &endpoint.tally);
        let tallies = || of_listeners().chain(of_journals()).chain(of_push());
        for tally in tallies() {
            for (table, misplaced) in tally.misplaced().iter() {
                let of_table = late_early.entry(table.clone()).or_insert([0; 2]);
                of_table[0] += misplaced[0];
                of_table[1] += misplaced[1];
            }
        }
        for (table, [late, early]) in late_early {
            let metrics = metrics.table(&table);
            raise_to(&metrics.late, late);
            raise_to(&metrics.early, early);
        }
        for (at, format) in Format::ALL.into_iter().enumerate() {
            let tailed: u64 = blocks.iter().map(|block| read(&block.by_format[at])).sum();
            let parsed = tailed + tallies().map(|tally| read(&tally.by_format[at])).sum::<u64>();
            raise_to(&metrics.format(format.label()), parsed);
        }
        raise_to(&metrics.records_truncated.with_label_values(&["line_bytes_max"]), sum(|b| &b.truncated));
        let cut = tallies().map(|tally| read(&tally.truncated)).sum();
        raise_to(&metrics.records_truncated.with_label_values(&["message_bytes_max"]), cut);
        let mut by_name = BTreeMap::<&str, u64>::new();
        for (name, matches) in redactions {
            *by_name.entry(name).or_default() += read(matches);
        }
        for (name, matches) in by_name {
            raise_to(&metrics.redactions.with_label_values(&[name]), matches);
        }
        let failed: u64 = journals.iter().map(|journal| read(&journal.failures)).sum();
        raise_to(&metrics.read_errors, sum(|b| &b.read_errors) + failed);
        let cut = journals.iter().map(|journal| read(&journal.tally.truncated)).sum();
        raise_to(&metrics.records_truncated.with_label_values(&["entry_bytes_max"]), cut);
        metrics.open_files.set(i64::try_from(read(&tails.open_files)).unwrap_or(i64::MAX));
        metrics.sources_followed.set(i64::try_from(read(&tails.followed_files)).unwrap_or(i64::MAX));
        metrics.intake_waiting_bytes.set(size(intake.waiting_bytes()));
        for (source, path) in certificates {
            // What cannot be read now is what `certificate_reloads_failed` tells of.
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

/// What the reader of a journal counts.
fn fetch_journal(metrics: &Metrics, journal: &JournalCounters, now: Ticks) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let source = metrics.source(&journal.name);
    raise_to(&source.records_received, read(&journal.tally.records));
    raise_to(&source.bytes_received, read(&journal.bytes));
    raise_to(&source.invalid_utf8, read(&journal.tally.invalid_utf8));
    raise_to(&source.records_dropped("vacuumed", false), read(&journal.tally.lost));
    raise_to(&metrics.journal_gaps.with_label_values(&[&journal.name]), read(&journal.gaps));
    let since = i64::try_from(read(&journal.unread_since)).ok().filter(|ticks| *ticks > 0).and_then(Ticks::new);
    source.lag_seconds.set(since.map_or(0.0, |since| now.since(since).as_secs_f64()));
}

/// What an endpoint of push counts.
fn fetch_endpoint(metrics: &Metrics, endpoint: &EndpointCounters) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let source = metrics.source(endpoint.name);
    raise_to(&source.records_received, read(&endpoint.tally.records));
    raise_to(&source.bytes_received, read(&endpoint.bytes));
    raise_to(&source.invalid_utf8, read(&endpoint.tally.invalid_utf8));
    raise_to(&source.records_dropped("refused", false), read(&endpoint.records_refused));
    raise_to(&metrics.push_body_bytes.with_label_values(&[endpoint.name]), read(&endpoint.body_bytes));
    raise_to(&metrics.pushes_repeated.with_label_values(&[endpoint.name]), read(&endpoint.repeated));
    for (reason, refused) in endpoint.refused() {
        raise_to(&metrics.push_bodies_refused.with_label_values(&[endpoint.name, reason]), refused);
    }
}

/// What a listener for syslog counts.
fn fetch_listener(metrics: &Metrics, listener: &syslog::ListenerCounters, is_udp: bool) {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let source = metrics.source(&listener.name);
    raise_to(&source.records_received, read(&listener.tally.records));
    raise_to(&source.bytes_received, read(&listener.bytes));
    raise_to(&source.invalid_utf8, read(&listener.tally.invalid_utf8));
    raise_to(&source.records_dropped("stopped", false), read(&listener.tally.lost));
    for reason in LimitKind::ALL {
        let (label, at) = (reason.label(), reason.index());
        if read(&listener.over[at]) > 0 {
            raise_to(&source.records_dropped(label, true), read(&listener.over[at]));
        }
        raise_to(&metrics.senders_paced.with_label_values(&[&listener.name, label]), read(&listener.paced[at]));
    }
    if is_udp {
        raise_to(&metrics.udp_drops.with_label_values(&[&listener.name]), read(&listener.kernel_drops));
        return;
    }
    let open = i64::try_from(read(&listener.connections)).unwrap_or(i64::MAX);
    metrics.connections.with_label_values(&[&listener.name]).set(open);
    raise_to(&metrics.connections_accepted.with_label_values(&[&listener.name]), read(&listener.accepted));
    for (reason, count) in listener.closed() {
        raise_to(&metrics.connections_refused.with_label_values(&[&listener.name, reason]), count);
    }
    let failed = read(&listener.reloads_failed);
    raise_to(&metrics.certificate_reloads_failed.with_label_values(&[&listener.name]), failed);
}
