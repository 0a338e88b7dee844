//! What listeners count, for the metrics to show.

use crate::lifecycle::Admission;
use crate::parse::Format;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts of one listener.
#[derive(Debug, Default)]
pub struct ListenerCounters {
    /// The block's name.
    pub name: String,
    /// Records that were taken.
    pub records: AtomicU64,
    /// Bytes that came, framing included and TLS not.
    pub bytes: AtomicU64,
    /// Records by format, in the order of [`Format::ALL`].
    pub by_format: [AtomicU64; Format::ALL.len()],
    /// Messages that were cut at the limit, or by the end of their connection.
    pub truncated: AtomicU64,
    /// Messages with bytes that are no UTF-8.
    pub invalid_utf8: AtomicU64,
    /// Records that were taken and could not be committed any more, because the store was closed.
    pub lost: AtomicU64,
    /// Connections that are open now.
    pub connections: AtomicU64,
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// Connections that were closed because there were too many.
    pub too_many: AtomicU64,
    /// Connections whose TLS handshake failed or took too long.
    pub handshakes_failed: AtomicU64,
    /// Connections that were closed because they sent no frames.
    pub no_frames: AtomicU64,
    /// Connections that were closed because nothing came for too long.
    pub idle: AtomicU64,
    /// Datagrams that the kernel dropped before they were read, as it was said last.
    pub kernel_drops: AtomicU64,
    /// Certificates that changed and could not be read.
    pub reloads_failed: AtomicU64,
    /// Records that went to today's table, by configured table: those whose day had expired, and those dated far ahead.
    misplaced: Mutex<BTreeMap<String, [u64; 2]>>,
}

impl ListenerCounters {
    /// All zero.
    pub fn new(name: &str) -> ListenerCounters {
        ListenerCounters { name: name.into(), ..ListenerCounters::default() }
    }

    /// Records that went to today's table, late and early ones, by configured table.
    pub fn misplaced(&self) -> MutexGuard<'_, BTreeMap<String, [u64; 2]>> {
        self.misplaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn misplace(&self, table: &str, admission: Admission) {
        let at = match admission {
            Admission::Own => return,
            Admission::Late => 0,
            Admission::Early => 1,
        };
        self.misplaced().entry(table.to_owned()).or_default()[at] += 1;
    }
}

/// Counts up; no other order than its own is needed of a count.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
