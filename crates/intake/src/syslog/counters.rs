//! What listeners count, for the metrics to show.

use crate::rate_limit::LimitKind;
use crate::rows::Tally;
use daytable_platform::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one listener.
#[derive(Debug, Default)]
pub struct ListenerCounters {
    /// The block's name.
    pub name: String,
    /// Where it listens, as the configuration has it.
    listen: Mutex<String>,
    /// What became of its messages.
    pub tally: Tally,
    /// Records that were taken and are committed.
    pub committed: AtomicU64,
    /// Bytes that came, framing included and TLS not.
    pub bytes: AtomicU64,
    /// Connections that are open now.
    pub connections: AtomicU64,
    /// Connections that were accepted.
    pub accepted: AtomicU64,
    /// Connections that were closed because there were too many.
    pub too_many: AtomicU64,
    /// Connections that were closed because their peer had too many.
    pub too_many_of_peer: AtomicU64,
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
    /// Datagrams that were dropped because their peer was over its rate or quota, in the order of [`LimitKind::ALL`].
    pub over: [AtomicU64; LimitKind::ALL.len()],
    /// Times that a connection was not read from for a while because of that, in the same order.
    pub paced: [AtomicU64; LimitKind::ALL.len()],
}

impl ListenerCounters {
    /// All zero.
    pub fn new(name: &str, listen: &str) -> ListenerCounters {
        ListenerCounters { name: name.into(), listen: Mutex::new(listen.into()), ..ListenerCounters::default() }
    }

    /// Where it listens, as the configuration has it.
    pub fn listen(&self) -> String {
        lock(&self.listen).clone()
    }

    /// It listens there from now on, and counts on.
    pub fn moved(&self, listen: &str) {
        *lock(&self.listen) = listen.into();
    }

    /// Connections that were closed by this side, by reason.
    pub fn closed(&self) -> [(&'static str, u64); 5] {
        [
            ("connections_max", &self.too_many),
            ("per_sender", &self.too_many_of_peer),
            ("tls", &self.handshakes_failed),
            ("no_frame", &self.no_frames),
            ("idle_timeout", &self.idle),
        ]
        .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }
}
