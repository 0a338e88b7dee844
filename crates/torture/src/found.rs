//! The result of a mode, as one line that fits a table.

use crate::Options;
use crate::oracle::{Verdict, Written};
use crate::world::World;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Counters of a running mode.
pub(crate) struct Tally {
    began: Instant,
    records: AtomicU64,
    lost: AtomicU64,
    twice: AtomicU64,
    damaged: AtomicU64,
}

impl Tally {
    pub(crate) fn begin() -> Tally {
        let zero = || AtomicU64::new(0);
        Tally { began: Instant::now(), records: zero(), lost: zero(), twice: zero(), damaged: zero() }
    }

    /// Counts the faults of a verdict.
    pub(crate) fn count(&self, verdict: &Verdict) {
        let add = |counter: &AtomicU64, number: usize| _ = counter.fetch_add(number as u64, Ordering::Relaxed);
        add(&self.lost, verdict.lost.len());
        add(&self.twice, verdict.twice.len());
        add(&self.damaged, verdict.wrong.len());
    }

    /// Counts the records of a finished run.
    pub(crate) fn played(&self, world: &World) {
        self.wrote(&world.written);
    }

    /// Counts the records that a run must have.
    pub(crate) fn wrote(&self, written: &Written) {
        let records: usize = written.records.values().map(|(least, _)| least).sum();
        self.counted(records as u64);
    }

    /// Counts records that a run must have.
    pub(crate) fn counted(&self, records: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }

    /// The last line of a mode, and whether the mode failed. `what` is the action, such as "25 kills". `faults` are the
    /// failed runs.
    pub(crate) fn found(&self, options: &Options, mode: &str, what: &str, faults: &[String]) -> Found {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let report = format!(
            "{} {mode}: {what}, {} records, {} lost, {} twice, {} damaged, {} runs with a fault, seed {}, {} s",
            options.collector.name(),
            number(&self.records),
            number(&self.lost),
            number(&self.twice),
            number(&self.damaged),
            faults.len(),
            options.seed,
            self.began.elapsed().as_secs()
        );
        Found { report, failed: faults.len() }
    }
}

/// The result of a mode.
pub(crate) struct Found {
    pub(crate) report: String,
    pub(crate) failed: usize,
}
