//! What the lifecycle is doing, and what keeps it from doing more: for metrics, `/api/tables` and the commands.

use super::plan::LifecycleStep;
use super::reason::HoldReason;
use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Shared by the thread that works and whoever looks.
#[derive(Default)]
pub struct LifecycleProgress {
    shown: Mutex<ProgressSnapshot>,
    /// Bytes that were sealed, archived, restored: what was read or copied, done or not.
    pub bytes: StepBytes,
}

/// Counts of bytes by what was done with them.
#[derive(Default)]
pub struct StepBytes {
    /// Of sealed files that were made.
    pub sealed: AtomicU64,
    /// Sent to archives.
    pub archived: AtomicU64,
    /// Read back from archives, to match them.
    pub verified: AtomicU64,
    /// Brought back.
    pub restored: AtomicU64,
}

/// What is shown of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Steps that failed, by the day-table's name.
    pub failed: BTreeMap<String, FailedStep>,
    /// Why days stay that have expired, by name.
    pub held_back: BTreeMap<String, HoldReason>,
    /// The long step that is under way.
    pub working: Option<StepProgress>,
    /// What is next, in words: `seal Log20261121 at 2026-11-22T06:00:00Z`.
    pub next: Option<String>,
}

/// A step that failed, and when it is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStep {
    /// Its name.
    pub step: &'static str,
    /// Why.
    pub reason: String,
    /// How often in a row.
    pub attempts: u32,
    /// When it is tried again.
    pub again: Ticks,
}

/// A long step, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepProgress {
    /// The day-table.
    pub table: String,
    /// What is done with it: `survey`, `seal`, `compare` (in rows), `archive`, `verify`, `restore` (in bytes).
    pub act: Cow<'static, str>,
    /// Bytes, or rows, that are done.
    pub done: u64,
    /// In all.
    pub total: u64,
}

impl LifecycleProgress {
    fn lock(&self) -> MutexGuard<'_, ProgressSnapshot> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is now.
    pub fn read(&self) -> ProgressSnapshot {
        self.lock().clone()
    }

    /// Whether a step is under way that may take long.
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
    /// Each with the name of what was done.
    pub fn read(&self) -> [(&'static str, u64); 4] {
        let StepBytes { sealed, archived, verified, restored } = self;
        [("seal", sealed), ("archive", archived), ("verify", verified), ("restore", restored)]
            .map(|(step, bytes)| (step, bytes.load(Ordering::Relaxed)))
    }

    pub(super) fn add(counter: &AtomicU64, bytes: u64) {
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}
