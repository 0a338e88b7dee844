//! Every metric, by its Prometheus name.
//!
//! ```text
//! counters of the parts ──► Snapshot ──► TABLE: one row a metric ──► text
//! ```
//!
//! 1. Each part of the program owns its counters, and counting never waits for a scrape.
//! 2. A scrape reads all counters once, into a `Snapshot`.
//! 3. `table` has one row a metric. The exposition and `docs/reference/metrics.md` follow from that row.
//! 4. A counter never goes down while the process lives: [`CounterRegistry`] keeps the counters of sources that are gone.
//!
//! Labels have few values: `source` is the name of a configuration block and never a path, `table` the name of a configured
//! table and never of a day. Lag is the largest of a block's files, because a sum would hide a file that hangs.

mod family;
mod histogram;
mod process;
mod registry;
mod snapshot;
mod table;
mod totals;

#[cfg(test)]
mod reference;

pub use histogram::BucketHistogram;
pub use registry::CounterRegistry;
pub use snapshot::{
    ForwardSample, HOSTS_SHOWN_MAX, HostSample, LifecycleSample, MetricSources, RemoteSample, SenderSample,
};
pub use totals::{CommitTotals, ReloadTotals, RunTotals, TransactionTotals, VerifyTotals};

use crate::http::HttpCounters;
use daytable_platform::lock;
use family::Family;
use process::ProcessSample;
use snapshot::Snapshot;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use table::TABLE;

/// The counters of the daemon itself, and access to the counters of its parts.
#[derive(Default)]
pub struct Metrics {
    /// Commits.
    pub commits: Mutex<CommitTotals>,
    /// Runs of the lifecycle.
    pub runs: Mutex<RunTotals>,
    /// Verifications.
    pub verify: Mutex<VerifyTotals>,
    /// Reloads of the configuration.
    pub reloads: Mutex<ReloadTotals>,
    /// Transactions with the remote store.
    pub transactions: Mutex<TransactionTotals>,
    /// Records committed a second, over the last seconds.
    pub records_per_second: AtomicU64,
    /// The HTTP listeners.
    pub http: Arc<HttpCounters>,
    sources: OnceLock<MetricSources>,
}

impl Metrics {
    /// Adds the parts whose counters each scrape reads. Only the first call counts.
    pub fn connect(&self, sources: MetricSources) {
        let _ = self.sources.set(sources);
    }

    /// All metrics in Prometheus's text format. Reads `/proc` and the catalog, so the call blocks for a moment.
    pub fn render(&self) -> String {
        let mut snapshot = Snapshot {
            commits: lock(&self.commits).clone(),
            runs: lock(&self.runs).clone(),
            verify: lock(&self.verify).clone(),
            reloads: *lock(&self.reloads),
            transactions: lock(&self.transactions).clone(),
            http: self.http.clone(),
            process: ProcessSample::read(),
            ..Snapshot::default()
        };
        snapshot.add_parts(self.sources.get());
        text_of(&snapshot)
    }
}

fn text_of(snapshot: &Snapshot) -> String {
    let mut text = String::with_capacity(32 << 10);
    for metric in TABLE {
        let mut family = Family::new(metric.labels);
        (metric.collect)(snapshot, &mut family);
        family.write(metric, &mut text);
    }
    text
}
