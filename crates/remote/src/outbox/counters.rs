//! Counters of the sender, for metrics and `daytable sources`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Why a row became a dead letter. A dead letter stays in the data folder and is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterReason {
    /// The service refused the content of the row.
    Refused,
    /// The row is too large for a request.
    TooLarge,
    /// The day of the row expired before the row was sent.
    Expired,
}

impl DeadLetterReason {
    /// All reasons.
    pub const ALL: [DeadLetterReason; 3] =
        [DeadLetterReason::Refused, DeadLetterReason::TooLarge, DeadLetterReason::Expired];

    /// The label in metrics.
    pub fn label(self) -> &'static str {
        match self {
            DeadLetterReason::Refused => "refused",
            DeadLetterReason::TooLarge => "too_large",
            DeadLetterReason::Expired => "expired",
        }
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub struct OutboxCounters {
    /// Entities that the service took.
    pub sent: AtomicU64,
    /// Sent entities that are still in the outbox's files.
    pub settling: AtomicU64,
    /// Requests that were sent again.
    pub retries: AtomicU64,
    /// Throttled requests.
    pub throttled: AtomicU64,
    /// How often an instance got more partitions.
    pub bucket_steps: Arc<AtomicU64>,
    /// Whether the service denies access: key, clock, address or rights are wrong.
    pub is_denied: AtomicBool,
    /// Requests that failed since the last success.
    pub failures: AtomicU64,
    dead_letters: [AtomicU64; DeadLetterReason::ALL.len()],
    codes: Mutex<BTreeMap<u16, u64>>,
    last_error: Mutex<String>,
}

impl OutboxCounters {
    /// Entities that became dead letters for this reason.
    pub fn dead_letters(&self, reason: DeadLetterReason) -> u64 {
        self.dead_letters[reason as usize].load(Ordering::Relaxed)
    }

    pub(super) fn count_dead_letters(&self, reason: DeadLetterReason, entities: u64) {
        self.dead_letters[reason as usize].fetch_add(entities, Ordering::Relaxed);
    }

    /// Requests by HTTP status: of the failed part, if a part failed; 0 without an answer.
    pub fn codes(&self) -> BTreeMap<u16, u64> {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn count_code(&self, code: u16) {
        *self.codes.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
    }

    /// The error of the last request that failed; empty after a success.
    pub fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_last_error(&self, text: String) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}
