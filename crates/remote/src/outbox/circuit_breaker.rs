//! The limit of requests in flight, by the health of the whole service.
//!
//! A failure of one partition pauses its queue. If the service does not answer, throttles the account, or denies
//! access, the [circuit breaker](https://martinfowler.com/bliki/CircuitBreaker.html) opens: everything waits, and
//! after a pause one request probes the service. The limit halves with each failure and grows by one with each success
//! (AIMD, as in TCP).

use daytable_azure::{Backoff, Pauses};
use std::time::{Duration, Instant};

/// Pauses while access is denied, longer than others because an operator has to act.
const DENIED: Pauses =
    Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(60), named_longest: Duration::from_secs(300) };

/// The circuit breaker of a service.
pub(super) struct CircuitBreaker {
    max: usize,
    limit: usize,
    resume: Option<Instant>,
    backoff: Backoff,
    denied: Backoff,
}

impl CircuitBreaker {
    /// Closed, with at most `max` requests in flight.
    pub(super) fn new(max: usize, seed: u64) -> CircuitBreaker {
        let max = max.max(1);
        let (backoff, denied) = (Backoff::new(Pauses::default(), seed), Backoff::new(DENIED, seed));
        CircuitBreaker { max, limit: max, resume: None, backoff, denied }
    }

    /// Maximum requests in flight now.
    pub(super) fn limit(&self, now: Instant) -> usize {
        if self.resume.is_some_and(|resume| resume > now) { 0 } else { self.limit }
    }

    /// When requests may be sent again, if not now.
    pub(super) fn resume(&self, now: Instant) -> Option<Instant> {
        self.resume.filter(|resume| *resume > now)
    }

    /// Records a success.
    pub(super) fn succeeded(&mut self) {
        self.limit = (self.limit + 1).min(self.max);
        self.resume = None;
        self.backoff.succeeded();
        self.denied.succeeded();
    }

    /// Records that the service does not answer, or throttles the account. Simultaneous failures count as one.
    pub(super) fn failed(&mut self, now: Instant, named: Option<Duration>) {
        if self.resume(now).is_none() {
            self.limit = (self.limit / 2).max(1);
            self.resume = Some(now + self.backoff.failed(named));
        }
    }

    /// Records that the service denies access.
    pub(super) fn denied(&mut self, now: Instant) {
        if self.resume(now).is_none() {
            self.limit = 1;
            self.resume = Some(now + self.denied.failed(None).max(Duration::from_millis(500)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_wait_then_one_probes_then_the_limit_grows_by_one() {
        let now = Instant::now();
        let mut breaker = CircuitBreaker::new(8, 7);
        assert_eq!((breaker.limit(now), breaker.resume(now)), (8, None));
        // Eight simultaneous failures count as one.
        (0..8).for_each(|_| breaker.denied(now));
        assert_eq!(breaker.limit(now), 0);
        let later = breaker.resume(now).expect("a pause");
        assert!(later <= now + Duration::from_secs(2));
        assert_eq!(breaker.limit(later), 1);
        breaker.succeeded();
        assert_eq!(breaker.limit(later), 2);
        (0..20).for_each(|_| breaker.succeeded());
        assert_eq!(breaker.limit(later), 8);
        breaker.failed(later, Some(Duration::from_secs(3)));
        assert_eq!(breaker.limit(later + Duration::from_secs(2)), 0);
        assert_eq!(breaker.limit(later + Duration::from_secs(4)), 4);
    }
}
