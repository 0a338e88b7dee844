//! How much waits in the outbox. The committer writes it.

use daytable_model::time::Ticks;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// How much waits, and how much was dropped.
#[derive(Debug, Default)]
pub struct OutboxLevel {
    bytes: AtomicU64,
    entities: AtomicU64,
    /// When the oldest waiting row was accepted, in ticks; 0 if nothing waits.
    accepted: AtomicI64,
    is_full: AtomicBool,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

/// Why rows were dropped from the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The outbox had too many bytes.
    Bytes,
    /// The rows waited too long.
    Age,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 2] = [DropReason::Bytes, DropReason::Age];

    /// The configuration key of the limit. Metrics use it as the reason.
    pub fn label(self) -> &'static str {
        match self {
            DropReason::Bytes => "outbox_bytes_max",
            DropReason::Age => "outbox_age_max",
        }
    }
}

impl OutboxLevel {
    pub(crate) fn set(&self, bytes: u64, entities: u64, accepted: Option<Ticks>) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.entities.store(entities, Ordering::Relaxed);
        self.accepted.store(accepted.map_or(0, Ticks::get), Ordering::Relaxed);
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    pub(crate) fn count_dropped(&self, reason: DropReason, entities: u64) {
        self.dropped[reason as usize].fetch_add(entities, Ordering::Relaxed);
    }

    /// The used bytes on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of entities, including those sent in the last seconds.
    pub fn entities(&self) -> u64 {
        self.entities.load(Ordering::Relaxed)
    }

    /// The age of the oldest waiting row, to about a second; zero if nothing waits.
    pub fn age(&self, now: Ticks) -> Duration {
        match self.accepted.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            accepted => Ticks::new(accepted).map_or(Duration::ZERO, |accepted| now.since(accepted)),
        }
    }

    /// Whether no more rows are accepted until some are removed.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The number of dropped entities for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Ordering::Relaxed)
    }
}
