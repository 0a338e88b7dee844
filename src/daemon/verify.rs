//! The daily verification: its schedule, its read rate and its report.
//!
//! A run has its own thread at the lowest priority and reads at a bounded rate. Each run reads one in [`PARTS`] of the
//! sealed days and archives completely. Daily runs so read each file once in four weeks, whatever the number of files.
//! Every run checks the ledgers, open days, sources, footers, manifests and the presence of archives. A run missed
//! while the daemon was down is not repeated. The result of the last run outlives the daemon in `verified.json`.

use crate::config::{Config, LifecycleConfig};
use crate::http::{ApiResult, ResponseWriter};
use crate::metrics::{Metrics, VerifyTotals};
use crate::verify::{Finding, FindingKind, Share, VerifyLine, VerifyReport, VerifyRequest, verify};
use daytable_archive::Access;
use daytable_intake::tail::TailOptions;
use daytable_lifecycle::Schedule;
use daytable_model::time::{self, Ticks};
use daytable_platform::lock;
use daytable_platform::reloadable::Reloadable;
use daytable_query::Archives;
use daytable_store::StateFile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};

/// Sealed days and archives are divided into this number of parts; each run reads one part.
const PARTS: u64 = 28;
/// Longest sleep before the clock and the configuration are read again.
const LOOK: Duration = Duration::from_secs(15);
/// How often a client hears of the progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Added to the niceness of the thread, so that other work gets the CPU first.
const NICENESS: i32 = 19;
/// Maximum findings of a run in the log, one line each.
const SAID_MAX: usize = 20;

/// Settings of the verification.
pub(super) struct Verifying {
    lifecycle: LifecycleConfig,
    tails: Vec<TailOptions>,
    is_routed: bool,
}

impl Verifying {
    /// The settings in a configuration.
    pub(super) fn of(config: &Config) -> Verifying {
        Verifying {
            lifecycle: config.lifecycle.clone(),
            tails: config.sources.tails.clone(),
            is_routed: config.is_routed(),
        }
    }
}

impl Verifying {
    /// A verification of this folder with these settings.
    fn request<'a>(
        &'a self,
        data_dir: &'a Path,
        access: &'a Access,
        reads_archives: bool,
        share: Share,
    ) -> VerifyRequest<'a> {
        VerifyRequest {
            data_dir,
            access,
            reads_archives,
            share,
            bytes_per_second: Some(self.lifecycle.verify_bytes_per_s.get()),
            tails: Some(&self.tails),
            sequence: self.lifecycle.verify_sequence.as_deref(),
            is_routed: self.is_routed,
        }
    }

    /// Verifies all of the folder for a client, at the rate of the daily verification.
    pub(super) fn answer(
        &self,
        data_dir: &Path,
        archives: &Archives,
        reads_archives: bool,
        out: &mut ResponseWriter,
    ) -> ApiResult {
        let access = access_of(archives);
        let request = self.request(data_dir, &access, reads_archives, Share::ALL);
        let mut said = Instant::now();
        let report = verify(&request, &mut |progress| {
            if said.elapsed() >= PROGRESS_EVERY {
                said = Instant::now();
                out.line(&VerifyLine::Progress(progress.clone()));
            }
            if out.is_wanted() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let findings = report.findings.into_iter().map(VerifyLine::Finding);
        out.lines(findings.chain([VerifyLine::Verdict(report.verdict)]));
        Ok(())
    }

    /// When the next verification is due.
    pub(super) fn next_after(&self, now: Ticks) -> Option<Ticks> {
        self.lifecycle.verify.as_ref()?.next_after(now)
    }
}

fn access_of(archives: &Archives) -> Access {
    match archives {
        Archives::Read(access) => access.clone(),
        Archives::Skip | Archives::Lake(_) => Access::default(),
    }
}

/// The content of `verified.json`.
#[derive(Serialize, Deserialize)]
struct SavedVerification {
    /// Unix time, in seconds, of the end.
    last_run: i64,
    seconds: f64,
    findings: BTreeMap<String, u64>,
}

/// Shows the last verification of an earlier daemon. A file that cannot be read is not an error: the next run replaces
/// it.
pub(super) fn restore_last(data_dir: &Path, totals: &mut VerifyTotals) {
    let saved = StateFile::Verified.read(data_dir).map_err(|error| error.to_string()).and_then(|bytes| match bytes {
        Some(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("verified.json: {error}")),
        None => Ok(None),
    });
    let SavedVerification { last_run, seconds, findings } = match saved {
        Ok(Some(saved)) => saved,
        Ok(None) => {
            totals.findings = FindingKind::ALL.map(|kind| (kind.name(), 0)).into();
            return;
        }
        Err(error) => {
            tracing::warn!(
                error,
                "failed to read the result of the last verification: it is unknown until the next one"
            );
            return;
        }
    };
    let count = |kind: FindingKind| findings.get(kind.name()).copied().unwrap_or_default();
    totals.findings = FindingKind::ALL.map(|kind| (kind.name(), count(kind))).into();
    (totals.last_run, totals.seconds) = (last_run, seconds);
}

/// The verification task and its inputs.
pub(super) struct Verifier {
    pub(super) data_dir: PathBuf,
    pub(super) archives: Reloadable<Archives>,
    pub(super) verifying: Reloadable<Verifying>,
    pub(super) metrics: Arc<Metrics>,
}

impl Verifier {
    /// Works until the other end of `stopped` is dropped.
    pub(super) async fn work(self, mut stopped: watch::Receiver<()>) {
        let verifier = Arc::new(self);
        let mut since = time::now();
        // The first part depends on the date, so that restarts do not repeat the same part.
        let mut part = u64::try_from(since.unix_seconds() / 86_400).unwrap_or(0);
        loop {
            let schedule = verifier.verifying.load().lifecycle.verify.clone();
            let due = schedule.and_then(|schedule: Schedule| schedule.next_after(since));
            let now = time::now();
            // After the clock was set back, the next run does not wait for the old time.
            since = since.min(now);
            match due {
                Some(due) if due <= now => {
                    // An interrupted run repeats its part.
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

    /// Verifies on a separate thread. Returns whether the run completed.
    async fn run_aside(self: Arc<Verifier>, part: u64, stopped: watch::Receiver<()>) -> bool {
        let (sender, receiver) = oneshot::channel();
        let thread = std::thread::Builder::new().name("verify".into()).spawn(move || {
            daytable_platform::lower_priority(NICENESS);
            // During a stop the receiver is dropped.
            let _ = sender.send(self.run(part, &stopped));
        });
        match thread {
            Ok(_) => receiver.await.unwrap_or(false),
            Err(error) => {
                tracing::warn!(%error, "failed to start a thread: the data folder is not verified");
                false
            }
        }
    }

    /// Verifies, with this part. Returns whether the run completed.
    fn run(&self, part: u64, stopped: &watch::Receiver<()>) -> bool {
        let verifying = self.verifying.load();
        let access = access_of(&self.archives.load());
        let request = verifying.request(&self.data_dir, &access, true, Share { parts: PARTS, part });
        let start = Instant::now();
        let report = verify(&request, &mut |_| match stopped.has_changed() {
            Ok(false) => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        });
        match report {
            // The report of an interrupted run is incomplete.
            Ok(report) if report.is_stopped => false,
            Ok(report) => {
                self.log_result(&report, start.elapsed());
                true
            }
            Err(error) => {
                tracing::warn!(%error, "failed to verify the data folder");
                false
            }
        }
    }

    fn log_result(&self, VerifyReport { findings, verdict, .. }: &VerifyReport, took: Duration) {
        let count =
            |kind: FindingKind| findings.iter().filter(|finding| finding.finding == kind && !finding.is_doubt).count();
        let mut totals = lock(&self.metrics.verify);
        totals.runs += 1;
        totals.bytes += verdict.bytes;
        totals.findings = FindingKind::ALL.map(|kind| (kind.name(), count(kind) as u64)).into();
        totals.seconds = took.as_secs_f64();
        totals.last_run = time::now().unix_seconds();
        let saved = SavedVerification {
            last_run: totals.last_run,
            seconds: totals.seconds,
            findings: totals.findings.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
        };
        drop(totals);
        let saved = serde_json::to_vec(&saved).expect("plain values are JSON");
        if let Err(error) = StateFile::Verified.write(&self.data_dir, &saved) {
            tracing::warn!(%error, "failed to store the result of this verification: a restart will not know it");
        }
        for Finding { finding, place, file, found, advice, is_doubt } in findings.iter().take(SAID_MAX) {
            let file = file.as_deref().unwrap_or_default();
            match is_doubt {
                true => tracing::warn!(kind = finding.name(), place, file, %advice, "could not be checked: {found}"),
                false => tracing::error!(kind = finding.name(), place, file, %advice, "not whole: {found}"),
            }
        }
        tracing::info!(seconds = took.as_secs(), "verified: {verdict}");
    }
}
