//! Logs failures at a limited rate, and the end of a long failure.

use crate::outbox::counters::OutboxCounters;
use daytable_azure::{Error, ErrorKind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Minimum interval between log lines about failures.
const LOG_EVERY: Duration = Duration::from_secs(60);
/// Minimum interval between log lines about dead letters.
const DEAD_LETTERS_EVERY: Duration = Duration::from_secs(1);
/// Minimum duration of a failure whose end is logged.
const LONG: Duration = Duration::from_secs(10);

/// Limits the log lines about failures.
#[derive(Default)]
pub(super) struct FailureLog {
    logged: Option<Instant>,
    dead_letters_logged: Option<Instant>,
    failing_since: Option<Instant>,
}

impl FailureLog {
    /// A request failed.
    pub(super) fn failed(&mut self, error: &Error, counters: &OutboxCounters, now: Instant) {
        counters.set_last_error(error.to_string());
        self.failing_since.get_or_insert(now);
        if matches!(error.kind(), ErrorKind::Throttled { .. }) {
            counters.throttled.fetch_add(1, Ordering::Relaxed);
        }
        if is_due(&mut self.logged, LOG_EVERY, now) {
            tracing::warn!(%error, "failed to send, retrying");
        }
    }

    /// A request succeeded.
    pub(super) fn succeeded(&mut self, counters: &OutboxCounters, now: Instant) {
        let was_denied = counters.is_denied.swap(false, Ordering::Relaxed);
        let failing_since = self.failing_since.take();
        let failed_for = failing_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if was_denied || failed_for >= LONG {
            tracing::info!(seconds = failed_for.as_secs(), "the remote store takes records again");
        }
        counters.failures.store(0, Ordering::Relaxed);
        counters.set_last_error(String::new());
    }

    /// Whether a log line about dead letters is due.
    pub(super) fn logs_dead_letters(&mut self, now: Instant) -> bool {
        is_due(&mut self.dead_letters_logged, DEAD_LETTERS_EVERY, now)
    }
}

fn is_due(last: &mut Option<Instant>, every: Duration, now: Instant) -> bool {
    let is_due = last.is_none_or(|at| at + every <= now);
    if is_due {
        *last = Some(now);
    }
    is_due
}
