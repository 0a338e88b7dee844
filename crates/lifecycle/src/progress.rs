//! The current work of the lifecycle and the reasons it waits, for metrics, `/api/tables` and the commands.

use super::failed_step::FailedStep;
use super::plan::LifecycleStep;
use super::publish_progress::PublishProgress;
use super::reason::HoldReason;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The lifecycle thread writes; metrics and commands read.
#[derive(Default)]
pub struct LifecycleProgress {
    shown: Mutex<ProgressSnapshot>,
    /// Bytes that steps have processed, including unfinished steps.
    pub bytes: StepBytes,
    /// How open days are published.
    pub publishing: PublishProgress,
}

/// Bytes by kind of step.
#[derive(Default)]
pub struct StepBytes {
    /// Bytes of sealed files written.
    pub sealed: AtomicU64,
    /// Bytes sent to archives.
    pub archived: AtomicU64,
    /// Bytes read back from archives and compared.
    pub verified: AtomicU64,
    /// Bytes restored.
    pub restored: AtomicU64,
}

/// A snapshot of the progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Failed steps, by day-table.
    pub failed: BTreeMap<String, FailedStep>,
    /// Tables whose open days cannot be published, by their name.
    pub unpublished: BTreeMap<String, FailedStep>,
    /// Why expired days stay, by day-table.
    pub held_back: BTreeMap<String, HoldReason>,
    /// The long step in progress.
    pub working: Option<StepProgress>,
    /// The next step as text: `seal Log20261121 at 2026-11-22T06:00:00Z`.
    pub next: Option<String>,
}

/// A long step and its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepProgress {
    /// The day-table.
    pub table: String,
    /// The activity: `survey`, `seal`, `compare` (in rows), `archive`, `verify`, `restore` (in bytes).
    pub act: Cow<'static, str>,
    /// Bytes or rows completed.
    pub done: u64,
    /// Bytes or rows in total.
    pub total: u64,
}

impl LifecycleProgress {
    fn lock(&self) -> MutexGuard<'_, ProgressSnapshot> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current state.
    pub fn read(&self) -> ProgressSnapshot {
        ProgressSnapshot { unpublished: self.publishing.failed(), ..self.lock().clone() }
    }

    /// Whether a long step is in progress.
    pub fn is_working(&self) -> bool {
        self.lock().working.is_some()
    }

    pub(super) fn held_back<'r>(&self, held_back: impl Iterator<Item = (String, &'r HoldReason)>) {
        self.lock().held_back = held_back.map(|(table, reason)| (table, reason.clone())).collect();
    }

    pub(super) fn failed(&self, failed: impl Iterator<Item = (LifecycleStep, FailedStep)>) {
        self.lock().failed = failed.map(|(step, failed)| (step.table().to_string(), failed)).collect();
    }

    pub(super) fn next(&self, next: Option<String>) {
        self.lock().next = next;
    }

    pub(super) fn working(&self, working: Option<StepProgress>) {
        self.lock().working = working;
    }
}

impl StepBytes {
    /// Each count with its name.
    pub fn read(&self) -> [(&'static str, u64); 4] {
        let StepBytes { sealed, archived, verified, restored } = self;
        [("seal", sealed), ("archive", archived), ("verify", verified), ("restore", restored)]
            .map(|(step, bytes)| (step, bytes.load(Ordering::Relaxed)))
    }

    pub(super) fn add(counter: &AtomicU64, bytes: u64) {
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}
