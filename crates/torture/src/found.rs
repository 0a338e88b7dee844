//! What a mode found, in a line that a table can take.

use crate::Options;
use crate::oracle::{Verdict, Written};
use crate::world::World;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What is counted while a mode runs, by whoever plays its runs.
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

    /// Counts what was wrong when a collector was looked at.
    pub(crate) fn count(&self, verdict: &Verdict) {
        let add = |counter: &AtomicU64, number: usize| _ = counter.fetch_add(number as u64, Ordering::Relaxed);
        add(&self.lost, verdict.lost.len());
        add(&self.twice, verdict.twice.len());
        add(&self.damaged, verdict.wrong.len());
    }

    /// Counts the records of a run that is over.
    pub(crate) fn played(&self, world: &World) {
        self.wrote(&world.written);
    }

    /// Counts the records that a run has to have.
    pub(crate) fn wrote(&self, written: &Written) {
        let records: usize = written.records.values().map(|(least, _)| least).sum();
        self.records.fetch_add(records as u64, Ordering::Relaxed);
    }

    /// The last line of a mode, and whether it failed. `what` was done, such as "25 kills"; `faults` are the runs that
    /// failed.
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

/// What a mode found.
pub(crate) struct Found {
    pub(crate) report: String,
    pub(crate) failed: usize,
}
