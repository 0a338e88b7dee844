//! What the sender counts, for metrics and `daytable sources`.

use std::collections::BTreeMap;
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
