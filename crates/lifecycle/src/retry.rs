//! Retries of failed steps: after 5 s, then with a doubled delay each time, up to 15 minutes.
//!
//! Delays use the monotonic clock. When a whole service fails (an object store is down), each day waits separately:
//! the first success is soon followed by the other days.

use super::plan::LifecycleStep;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_secs(5);
const LAST: Duration = Duration::from_secs(900);

/// The delay after this many failures in a row.
pub(super) fn delay(attempts: u32) -> Duration {
    FIRST.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(LAST)
}

/// A failed step.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) attempts: u32,
    pub(super) reason: String,
    pub(super) again: Instant,
}

#[derive(Default)]
pub(super) struct Retries(HashMap<LifecycleStep, Failure>);

impl Retries {
    /// Whether `step` may run: it has not failed, or its delay is over.
    pub(super) fn allows(&self, step: &LifecycleStep, now: Instant) -> bool {
        self.0.get(step).is_none_or(|failure| failure.again <= now)
    }

    /// Records that `step` failed. Returns its delay.
    pub(super) fn failed(&mut self, step: &LifecycleStep, reason: String, now: Instant) -> Duration {
        let attempts = self.0.get(step).map_or(1, |failure| failure.attempts.saturating_add(1));
        let wait = delay(attempts);
        self.0.insert(step.clone(), Failure { attempts, reason, again: now + wait });
        wait
    }

    /// Records that `step` succeeded.
    pub(super) fn succeeded(&mut self, step: &LifecycleStep) {
        self.0.remove(step);
    }

    /// Removes steps that are no longer planned.
    pub(super) fn keep(&mut self, is_planned: impl Fn(&LifecycleStep) -> bool) {
        self.0.retain(|step, _| is_planned(step));
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&LifecycleStep, &Failure)> {
        self.0.iter()
    }

    /// Time until the first retry.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.0.values().map(|failure| failure.again.saturating_duration_since(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::DayTable;

    #[test]
    fn a_step_that_fails_waits_twice_as_long_each_time() {
        let step = LifecycleStep::Seal(DayTable::parse("Log20261121").expect("a name"));
        let (mut retries, start) = (Retries::default(), Instant::now());
        assert!(retries.allows(&step, start));
        let waits: Vec<u64> = (0..10).map(|_| retries.failed(&step, "no".into(), start).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]);
        assert!(!retries.allows(&step, start + Duration::from_secs(899)));
        assert!(retries.allows(&step, start + Duration::from_secs(900)));
        assert_eq!(retries.wait(start), Some(Duration::from_secs(900)));
        retries.succeeded(&step);
        assert!(retries.allows(&step, start));
        assert_eq!(retries.wait(start), None);
    }
}
