//! The memory of incomplete messages, which all listeners share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of incomplete messages of all listeners, with a limit. Cheap to clone.
#[derive(Clone)]
pub(super) struct HeldBytes {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl HeldBytes {
    /// Starts at zero.
    pub(super) fn new(most: usize) -> HeldBytes {
        HeldBytes { held: Arc::default(), most }
    }

    /// The bytes up to the limit.
    fn left(&self) -> usize {
        self.most.saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Replaces the bytes of one connection.
    fn change(&self, before: usize, now: usize) {
        self.held.fetch_add(now, Ordering::Relaxed);
        self.held.fetch_sub(before, Ordering::Relaxed);
    }
}

/// The incomplete message of one connection, counted with the messages of all connections.
pub(super) struct HeldShare<'a> {
    all: &'a HeldBytes,
    own: usize,
}

impl<'a> HeldShare<'a> {
    pub(super) fn new(all: &'a HeldBytes) -> HeldShare<'a> {
        HeldShare { all, own: 0 }
    }

    /// The maximum bytes of a message now, and at most `limit`.
    pub(super) fn limit(&self, limit: usize) -> usize {
        limit.min(self.own + self.all.left())
    }

    pub(super) fn set(&mut self, held: usize) {
        if held != self.own {
            self.all.change(self.own, held);
        }
        self.own = held;
    }
}

impl Drop for HeldShare<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}
