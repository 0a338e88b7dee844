//! The daily verification: when it is due, how gently it reads, and what is told of it.
//!
//! A run has a thread of its own at the lowest priority, reads at a bounded rate, and of sealed days and archives reads one in
//! [`PARTS`] to its last byte, each run the next part: daily, that is each of them once in four weeks, whatever their number. Books, open days, sources,
//! footers, manifests and the presence of archives are looked at every time. A run that was missed while nothing ran is not
//! made up.

use crate::config::{Config, LifecycleConfig};
use crate::metrics::Metrics;
use crate::verify::{Finding, FindingKind, Share, VerifyReport, VerifyRequest, verify};
use daytable_intake::tail::TailOptions;
use daytable_lifecycle::Schedule;
use daytable_model::time;
use daytable_platform::lock;
use daytable_platform::reloadable::Reloadable;
use daytable_query::Archives;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Parts that sealed days and archives are read in, one a run.
const PARTS: u64 = 28;
/// How long it sleeps at most before it looks at the clock and the configuration again.
const LOOK: Duration = Duration::from_secs(15);
/// What the thread of a run adds to its niceness: whatever else wants the CPU goes first.
const NICENESS: i32 = 19;
/// Findings of a run that are said in the log, a line each.
const SAID_MAX: usize = 20;

/// What a verification goes by.
pub(super) struct Verifying {
    lifecycle: LifecycleConfig,
    tails: Vec<TailOptions>,
    is_routed: bool,
}

impl Verifying {
    /// Of the configuration.
    pub(super) fn of(config: &Config) -> Verifying {
        Verifying { lifecycle: config.lifecycle.clone(), tails: config.tails.clone(), is_routed: config.is_routed() }
    }
}

/// What verifies.
pub(super) struct Verifier {
    pub(super) data_dir: PathBuf,
    pub(super) archives: Reloadable<Archives>,
    pub(super) verifying: Reloadable<Verifying>,
    pub(super) metrics: Arc<Metrics>,
}

impl Verifier {
    /// Works until the other end of `stopped` is gone.
    pub(super) async fn work(self, mut stopped: watch::Receiver<()>) {
        let verifier = Arc::new(self);
        let mut since = time::now();
        // Where it begins matters only in that restarts do not have the same part read each time.
        let mut part = u64::try_from(since.unix_seconds() / 86_400).unwrap_or(0);
        loop {
            let schedule = verifier.verifying.load().lifecycle.verify.clone();
            let due = schedule.and_then(|schedule: Schedule| schedule.next_after(since));
            let now = time::now();
            // A clock that was set back does not have the next run wait for it.
            since = since.min(now);
            match due {
                Some(due) if due <= now => {
                    // One that did not come to its end is to be done.
                    part += u64::from(verifier.clone().run_aside(part % PARTS, stopped.clone()).await);
                    since = time::now();
                }
                _ => {}
            }
            let wait = due.map_or(LOOK, |due| due.since(time::now()).min(LOOK)).max(Duration::from_millis(200));
            if tokio::time::timeout(wait, stopped.changed()).await.is_ok() {
                return;
            }
        }
    }

    /// Verifies on a thread of its own. Says whether it came to its end.
    async fn run_aside(self: Arc<Verifier>, part: u64, stopped: watch::Receiver<()>) -> bool {
        let (told, hears) = oneshot::channel();
        let thread = std::thread::Builder::new().name("verify".into()).spawn(move || {
            if let Err(error) = rustix::process::nice(NICENESS) {
                tracing::debug!(%error, "the verification runs at the usual priority");
            }
            // At the stop nobody hears any more.
            let _ = told.send(self.run(part, &stopped));
        });
        match thread {
            Ok(_) => hears.await.unwrap_or(false),
            Err(error) => {
                tracing::warn!(%error, "no thread to verify the data folder");
                false
            }
        }
    }

    /// Verifies, with this part. Says whether it came to its end.
    fn run(&self, part: u64, stopped: &watch::Receiver<()>) -> bool {
        let verifying = self.verifying.load();
        let access = match &*self.archives.load() {
            Archives::Read(access) => access.clone(),
            Archives::Skip => Default::default(),
        };
        let request = VerifyRequest {
            data_dir: &self.data_dir,
            access: &access,
            reads_archives: true,
            share: Share { parts: PARTS, part },
            bytes_per_second: Some(verifying.lifecycle.verify_bytes_per_s.get()),
            tails: Some(&verifying.tails),
            sequence: verifying.lifecycle.verify_sequence.as_deref(),
            is_routed: verifying.is_routed,
        };
        let start = Instant::now();
        let report = verify(&request, &mut |_| match stopped.has_changed() {
            Ok(false) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        match report {
            // What it had found by then may be half of it.
            Ok(report) if report.is_stopped => false,
            Ok(report) => {
                self.tell(&report, start.elapsed());
                true
            }
            Err(error) => {
                tracing::warn!(%error, "failed to verify the data folder");
                false
            }
        }
    }

    fn tell(&self, VerifyReport { findings, verdict, .. }: &VerifyReport, took: Duration) {
        let count =
            |kind: FindingKind| findings.iter().filter(|finding| finding.finding == kind && !finding.is_doubt).count();
        let mut totals = lock(&self.metrics.verify);
        totals.runs += 1;
        totals.bytes += verdict.bytes;
        totals.findings = FindingKind::ALL.map(|kind| (kind.name(), count(kind) as u64)).into();
        totals.seconds = took.as_secs_f64();
        totals.last_run = time::now().unix_seconds();
        drop(totals);
        for Finding { finding, place, file, found, advice, is_doubt } in findings.iter().take(SAID_MAX) {
            let file = file.as_deref().unwrap_or_default();
            match is_doubt {
                true => tracing::warn!(kind = finding.name(), place, file, advice, "cannot be told: {found}"),
                false => tracing::error!(kind = finding.name(), place, file, advice, "not whole: {found}"),
            }
        }
        tracing::info!(seconds = took.as_secs(), "verified: {verdict}");
    }
}
