//! What the sender counts, for metrics and `daytable sources`.

use daytable_model::bucket_plan::InstanceSteps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Why a row was set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetAside {
    /// The service refused it for what it is.
    Refused,
    /// It is too large for a request.
    TooLarge,
    /// Its day expired before it was sent.
    Expired,
}

impl SetAside {
    /// Each.
    pub const ALL: [SetAside; 3] = [SetAside::Refused, SetAside::TooLarge, SetAside::Expired];

    /// What metrics call it.
    pub fn label(self) -> &'static str {
        match self {
            SetAside::Refused => "refused",
            SetAside::TooLarge => "too_large",
            SetAside::Expired => "expired",
        }
    }
}

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Entities that are there.
    pub sent: AtomicU64,
    /// Of these, those that are not removed from the outbox yet.
    pub settling: AtomicU64,
    /// Requests that were sent again.
    pub retries: AtomicU64,
    /// Answers that said that there is too much.
    pub throttled: AtomicU64,
    /// Times that an instance was spread over more partitions.
    pub spread_steps: Arc<AtomicU64>,
    /// Whether the service refuses this daytable: key, clock, address or rights are not in order.
    pub is_denied: AtomicBool,
    /// Requests in a row that got no answer, or one of a service that is not well; zero after one that succeeded.
    pub failures: AtomicU64,
    set_aside: [AtomicU64; SetAside::ALL.len()],
    codes: Mutex<BTreeMap<u16, u64>>,
    said: Mutex<String>,
}

impl Counters {
    /// Entities that were set aside, by why.
    pub fn set_aside(&self, why: SetAside) -> u64 {
        self.set_aside[why as usize].load(Ordering::Relaxed)
    }

    pub(super) fn count_set_aside(&self, why: SetAside, entities: u64) {
        self.set_aside[why as usize].fetch_add(entities, Ordering::Relaxed);
    }

    /// Requests by the status of their answer, that of the part which failed where one did; 0 is none.
    pub fn codes(&self) -> BTreeMap<u16, u64> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn count_code(&self, code: u16) {
        *self.codes.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
    }

    /// What the last request that failed was told; empty once one succeeded.
    pub fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn say(&self, text: String) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// The outbox, as `daytable sources` and `/api/sources` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownOutbox {
    /// `outbox`.
    pub block: String,
    /// `azure`.
    pub kind: String,
    /// Where it sends to, without anything secret.
    pub endpoint: String,
    /// `sending`, `idle`, `failing`, `denied` or `full`; `asking` while files and journals wait for the store to say how
    /// instances are spread.
    pub state: String,
    /// Entities that wait.
    pub entities: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Seconds since the oldest was accepted.
    pub age_seconds: u64,
    /// Entities that were sent since the start.
    pub sent: u64,
    /// Entities that were set aside or dropped since the start, by why.
    pub losses: BTreeMap<String, u64>,
    /// What the last request that failed was told; empty where all is well.
    pub said: String,
    /// Instances that have more partitions than is configured.
    #[serde(default)]
    pub spread: Vec<ShownSpread>,
}

/// Over how many partitions an instance is spread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownSpread {
    /// The day-table.
    pub table: String,
    /// The instance, as its partition is called.
    pub instance: String,
    /// Partitions that it has now.
    pub buckets: NonZeroU16,
    /// From which time of its records on.
    pub from: String,
}

impl ShownSpread {
    /// As it is shown.
    pub fn of(planned: &InstanceSteps) -> ShownSpread {
        let last = planned.steps.last();
        ShownSpread {
            table: planned.table.to_string(),
            instance: planned.partition.to_string(),
            buckets: last.map_or(NonZeroU16::MIN, |step| step.buckets),
            from: last.map_or_else(String::new, |step| step.from.to_string()),
        }
    }
}

impl ShownOutbox {
    /// Its losses, each with its number, and what the last request was told that failed; empty where nothing was lost.
    pub fn losses(&self) -> String {
        let losses = self.losses.iter().map(|(reason, count)| format!("{reason}={count}"));
        let said = Some(self.said.clone()).filter(|said| !said.is_empty());
        losses.chain(said).collect::<Vec<_>>().join(" ")
    }
}
