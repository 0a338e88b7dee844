//! Brings the events of the store and of the lifecycle to the counters of [`crate::metrics`].

use super::reader_pool::ReaderPool;
use crate::config::Config;
use crate::http::Readiness;
use crate::metrics::Metrics;
use daytable_lifecycle::RunSummary;
use daytable_model::time;
use daytable_platform::lock;
use daytable_store::{Forwarding, StoreOptions};
use std::sync::Arc;

/// The options of a store that counts its commits and reports whether it accepts records.
pub(super) fn store_options(config: &Config, metrics: &Arc<Metrics>, readiness: &Arc<Readiness>) -> StoreOptions {
    let (committed, failed) = (metrics.clone(), metrics.clone());
    let (wrote, closed, opened) = (readiness.clone(), readiness.clone(), readiness.clone());
    StoreOptions {
        commit_interval: config.store.commit_interval,
        on_commit: Box::new(move |report| {
            wrote.store_committed();
            let mut totals = lock(&committed.commits);
            totals.commits += 1;
            totals.records += report.records;
            totals.batches += report.batches;
            totals.pages += report.pages;
            totals.pages_merged += report.pages_merged;
            totals.merges_refused += report.merges_refused;
            totals.keys_dropped += report.keys_dropped;
            if report.batches > 0 {
                totals.batch_records.observe(report.rows as f64 / report.batches as f64);
            }
            if report.pages > 0 {
                totals.page_bytes.observe(report.page_bytes as f64 / report.pages as f64);
            }
            totals.seconds.observe(report.took.as_secs_f64());
            totals.fsync_seconds.observe((report.took - report.days_written).as_secs_f64());
        }),
        on_failure: Box::new(move |error| {
            lock(&failed.commits).failures += 1;
            closed.store_failed(time::now(), error.to_string());
        }),
        on_reopened: Box::new(move || opened.store_open(true)),
        forwarding: Forwarding::Disabled,
        waits_for_room: true,
        ..StoreOptions::default()
    }
}

/// Counts the lifecycle's runs, and closes the idle readers of files that a run replaced or dropped.
pub(super) fn on_run(metrics: &Arc<Metrics>, readers: Arc<ReaderPool>) -> Box<dyn Fn(&RunSummary) + Send> {
    let metrics = metrics.clone();
    Box::new(move |run| {
        let mut totals = lock(&metrics.runs);
        totals.runs += 1;
        totals.dropped += run.dropped;
        totals.sealed += run.sealed;
        totals.archived += run.archived;
        for step in &run.failed {
            *totals.failures.entry(step).or_default() += 1;
        }
        if run.failed.is_empty() {
            totals.last_success = run.at.unix_seconds();
        }
        drop(totals);
        // A sealed day is in another file now.
        if run.dropped + run.sealed > 0 {
            readers.clear();
        }
    })
}
