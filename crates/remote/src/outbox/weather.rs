//! How well the service is as a whole: how many requests may be under way, and whether any may be sent now.
//!
//! What concerns one partition is its lane's. What concerns all: nobody answers, the account is throttled, or the service
//! does not know us. Then everything waits, and one request looks after a pause how it is; each that succeeds lets one more
//! be under way. Halves and grows by one, as TCP does.

use daytable_azure::{Backoff, Pauses};
use std::time::{Duration, Instant};

/// The longest pause where the service does not let us in: a key is put right by people.
const DENIED: Pauses =
    Pauses { first: Duration::from_secs(1), longest: Duration::from_secs(60), named_longest: Duration::from_secs(300) };

/// See the module's head.
pub(super) struct Weather {
    max: usize,
    limit: usize,
    resume: Option<Instant>,
    backoff: Backoff,
    denied: Backoff,
}

impl Weather {
    /// Fair, for so many requests at a time.
    pub(super) fn new(max: usize, seed: u64) -> Weather {
        let max = max.max(1);
        let (backoff, denied) = (Backoff::new(Pauses::default(), seed), Backoff::new(DENIED, seed));
        Weather { max, limit: max, resume: None, backoff, denied }
    }

    /// Requests that may be under way now.
    pub(super) fn limit(&self, now: Instant) -> usize {
        if self.resume.is_some_and(|resume| resume > now) { 0 } else { self.limit }
    }

    /// When requests may be sent again, where they may not now.
    pub(super) fn resume(&self, now: Instant) -> Option<Instant> {
        self.resume.filter(|resume| *resume > now)
    }

    /// A request was done.
    pub(super) fn succeeded(&mut self) {
        self.limit = (self.limit + 1).min(self.max);
        self.resume = None;
        self.backoff.succeeded();
        self.denied.succeeded();
    }

    /// Nobody answers, or the account is throttled. Requests that were under way together fail together: that is one failure.
    pub(super) fn failed(&mut self, now: Instant, named: Option<Duration>) {
        if self.resume(now).is_none() {
            self.limit = (self.limit / 2).max(1);
            self.resume = Some(now + self.backoff.failed(named));
        }
    }

    /// The service does not let us in.
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
    fn all_wait_then_one_looks_then_one_more_at_a_time() {
        let now = Instant::now();
        let mut weather = Weather::new(8, 7);
        assert_eq!((weather.limit(now), weather.resume(now)), (8, None));
        // Eight that fail at once are one failure.
        (0..8).for_each(|_| weather.denied(now));
        assert_eq!(weather.limit(now), 0);
        let later = weather.resume(now).expect("a pause");
        assert!(later <= now + Duration::from_secs(2));
        assert_eq!(weather.limit(later), 1);
        weather.succeeded();
        assert_eq!(weather.limit(later), 2);
        (0..20).for_each(|_| weather.succeeded());
        assert_eq!(weather.limit(later), 8);
        weather.failed(later, Some(Duration::from_secs(3)));
        assert_eq!(weather.limit(later + Duration::from_secs(2)), 0);
        assert_eq!(weather.limit(later + Duration::from_secs(4)), 4);
    }
}
