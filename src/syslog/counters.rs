//! What listeners count, for the metrics to show.

use crate::lifecycle::Misplaced;
use crate::parse::Format;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one listener.
#[derive(Debug, Default)]
pub struct ListenerCounters {
    /// The block's name.
    pub name: String,
    /// Where it listens, as the configuration has it.
    pub listen: String,
    /// Records that were taken.
    pub records: AtomicU64,
    /// Records that were taken and are committed.
    pub committed: AtomicU64,
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
    /// Records that went to today's table.
    pub misplaced: Misplaced,
}

impl ListenerCounters {
    /// All zero.
    pub fn new(name: &str, listen: &str) -> ListenerCounters {
        ListenerCounters { name: name.into(), listen: listen.into(), ..ListenerCounters::default() }
    }

    /// Connections that were closed by this side, by reason.
    pub fn closed(&self) -> [(&'static str, u64); 4] {
        [
            ("connections_max", &self.too_many),
            ("tls", &self.handshakes_failed),
            ("no_frame", &self.no_frames),
            ("idle_timeout", &self.idle),
        ]
        .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }
}

/// Counts up; no other order than its own is needed of a count.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
