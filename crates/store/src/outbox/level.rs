//! How much waits in the outbox: written by the committer, read by whoever asks.

use daytable_model::time::Ticks;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// How much waits, and what went because it was too much.
#[derive(Debug, Default)]
pub struct OutboxLevel {
    bytes: AtomicU64,
    entities: AtomicU64,
    /// Ticks at which the oldest of it was accepted; 0 where nothing waits.
    accepted: AtomicI64,
    is_full: AtomicBool,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

/// Why rows were dropped from the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// There were more bytes than it may have.
    Bytes,
    /// They had waited longer than they may.
    Age,
}

impl DropReason {
    /// Each.
    pub const ALL: [DropReason; 2] = [DropReason::Bytes, DropReason::Age];

    /// The key of the configuration that is the bound, which names the reason in metrics.
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

    /// Bytes on disk that it takes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Entities in it, those that were sent a moment ago included.
    pub fn entities(&self) -> u64 {
        self.entities.load(Ordering::Relaxed)
    }

    /// How long ago the oldest of it was accepted, to about a second; zero where nothing waits.
    pub fn age(&self, now: Ticks) -> Duration {
        match self.accepted.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            accepted => Ticks::new(accepted).map_or(Duration::ZERO, |accepted| now.since(accepted)),
        }
    }

    /// Whether nothing more is taken until something went.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Entities that went because there was too much, by why.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize].load(Ordering::Relaxed)
    }
}
