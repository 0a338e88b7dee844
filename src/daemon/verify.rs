//! The daily verification: when it is due, how gently it reads, and what is told of it.
//!
//! It runs on a thread of its own at the lowest priority, reads at a bounded rate, and of sealed days and archives reads one in
//! [`PARTS`] a day to its last byte: each of them once in four weeks, whatever their number. Books, open days, sources,
//! footers, manifests and the presence of archives are looked at every time. A run that was missed while nothing ran is not
//! made up.

use crate::config::LifecycleConfig;
use crate::lifecycle::Schedule;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::query::Archives;
use crate::time::{self, Ticks};
use crate::verify::{Ask, Finding, Kind, Report, Share, verify};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Parts that sealed days and archives are read in, one a day.
const PARTS: u64 = 28;
/// How long the thread sleeps at most before it looks at the clock and the configuration again.
const LOOK: Duration = Duration::from_secs(15);
/// What the thread adds to its niceness: whatever else wants the CPU goes first.
const NICENESS: i32 = 19;
/// Findings of a run that are said in the log, a line each.
const SAID_MAX: usize = 20;

/// What verifies.
pub(super) struct Verifier {
    pub(super) data_dir: PathBuf,
    pub(super) archives: Live<Archives>,
    pub(super) lifecycle: Live<LifecycleConfig>,
    pub(super) metrics: Arc<Metrics>,
}

impl Verifier {
    /// Works until the other end of `stopped` is gone.
    pub(super) fn work(self, stopped: Receiver<()>) {
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::debug!(%error, "the verification runs at the usual priority");
        }
        let mut since = time::now();
        loop {
            let due = self.lifecycle.now().verify.as_ref().and_then(|schedule: &Schedule| schedule.next_after(since));
            let now = time::now();
            // A clock that was set back does not have the next run wait for it.
            since = since.min(now);
            match due {
                Some(due) if due <= now => {
                    self.run(now, &stopped);
                    since = time::now();
                }
                _ => {}
            }
            let wait = due.map_or(LOOK, |due| due.since(time::now()).min(LOOK)).max(Duration::from_millis(200));
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    fn run(&self, now: Ticks, stopped: &Receiver<()>) {
        let access = match &*self.archives.now() {
            Archives::Read(access) => access.clone(),
            Archives::PassedOver => Default::default(),
        };
        let part = u64::try_from(now.unix_seconds() / 86_400).unwrap_or(0) % PARTS;
        let ask = Ask {
            data_dir: &self.data_dir,
            access: &access,
            reads_archives: true,
            share: Share { parts: PARTS, part },
            bytes_per_second: Some(self.lifecycle.now().verify_bytes_per_s.get()),
        };
        let start = Instant::now();
        let report = verify(&ask, &mut |_| match stopped.try_recv() {
            Err(TryRecvError::Empty) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        match report {
            // What it had found by then may be half of it.
            Ok(report) if report.is_stopped => {}
            Ok(report) => self.tell(&report, start.elapsed()),
            Err(error) => tracing::warn!(%error, "failed to verify the data folder"),
        }
    }

    fn tell(&self, Report { findings, verdict, .. }: &Report, took: Duration) {
        let metrics = &self.metrics;
        for kind in Kind::ALL {
            let found = findings.iter().filter(|finding| finding.finding == kind).count();
            metrics.verify_findings.with_label_values(&[kind.name()]).set(i64::try_from(found).unwrap_or(i64::MAX));
        }
        metrics.verify_bytes.inc_by(verdict.bytes);
        metrics.verify_seconds.set(took.as_secs_f64());
        metrics.verify_last_run.set(time::now().unix_seconds() as f64);
        metrics.verify_runs.inc();
        for Finding { finding, place, file, found, advice } in findings.iter().take(SAID_MAX) {
            let file = file.as_deref().unwrap_or_default();
            tracing::error!(kind = finding.name(), place, file, advice, "not whole: {found}");
        }
        tracing::info!(seconds = took.as_secs(), "verified: {verdict}");
    }
}
