//! The pause before a retry.
//!
//! Full jitter: each pause is random between zero and a limit, which doubles with each failure up to a maximum. So
//! clients that failed together retry at different times. A pause requested by the service is the minimum, and the
//! random pause is added: otherwise all clients with the same request would retry together.

use std::time::Duration;

/// The limits of pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The limit of the first pause.
    pub first: Duration,
    /// The limit of every pause.
    pub longest: Duration,
    /// The longest pause that the service may request.
    pub named_longest: Duration,
}

impl Default for Pauses {
    /// 250 ms, 30 s, and 5 min for requested pauses.
    fn default() -> Pauses {
        Pauses {
            first: Duration::from_millis(250),
            longest: Duration::from_secs(30),
            named_longest: Duration::from_secs(300),
        }
    }
}

impl Pauses {
    /// The pause after `failures` successive failures. `named` is the pause that the service requested; `random` is a
    /// uniform random number. The result is at most `longest` plus `named_longest`.
    pub fn pause(&self, failures: u32, named: Option<Duration>, random: u64) -> Duration {
        let doubled = self.first.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        let limit = u64::try_from(doubled.min(self.longest).as_nanos()).unwrap_or(u64::MAX);
        // The upper half of the product is uniform between 0 and the limit.
        let drawn = (u128::from(limit) * u128::from(random)) >> 64;
        let drawn = Duration::from_nanos(u64::try_from(drawn).unwrap_or(limit));
        named.unwrap_or_default().min(self.named_longest) + drawn
    }
}

/// A sequence of pauses, which grow until a success.
#[derive(Clone, Debug)]
pub struct Backoff {
    pauses: Pauses,
    failures: u32,
    state: u64,
}

impl Backoff {
    /// The state before the first failure. Concurrent users need different seeds.
    pub fn new(pauses: Pauses, seed: u64) -> Backoff {
        Backoff { pauses, failures: 0, state: seed }
    }

    /// Records a failure and returns the pause. `named` is the pause that the service requested, from
    /// [`super::ErrorKind`].
    pub fn failed(&mut self, named: Option<Duration>) -> Duration {
        self.failures = self.failures.saturating_add(1);
        // SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators").
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut random = self.state;
        random = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        random = (random ^ random >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.pauses.pause(self.failures, named, random ^ random >> 31)
    }

    /// Records a success.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_double_up_to_the_longest() {
        let pauses = Pauses::default();
        let limits: Vec<u128> = (0..10).map(|failures| pauses.pause(failures, None, u64::MAX).as_millis()).collect();
        assert_eq!(limits, [249, 249, 499, 999, 1999, 3999, 7999, 15999, 29999, 29999]);
        assert_eq!(pauses.pause(u32::MAX, None, u64::MAX).as_millis(), 29999);
        assert_eq!(pauses.pause(5, None, 0), Duration::ZERO);
    }

    #[test]
    fn what_is_named_is_the_least() {
        let (pauses, named) = (Pauses::default(), Duration::from_secs(7));
        assert_eq!(pauses.pause(1, Some(named), 0), named);
        assert!(pauses.pause(9, Some(named), u64::MAX) > named + Duration::from_secs(29));
        assert_eq!(pauses.pause(1, Some(Duration::MAX), 0), pauses.named_longest);
    }

    #[test]
    fn a_success_begins_anew_and_seeds_differ() {
        let mut backoff = Backoff::new(Pauses::default(), 1);
        let first: Vec<Duration> = (0..8).map(|_| backoff.failed(None)).collect();
        assert_eq!(backoff.failures(), 8);
        backoff.succeeded();
        assert!(backoff.failed(None) < Duration::from_millis(250));
        let mut other = Backoff::new(Pauses::default(), 2);
        assert_ne!(first, (0..8).map(|_| other.failed(None)).collect::<Vec<_>>());
    }

    proptest! {
        /// No pause exceeds the sum of both limits, or is shorter than the requested pause within its limit.
        #[test]
        fn within_the_limits(failures in any::<u32>(), named in prop::option::of(0u64..1000), random in any::<u64>()) {
            let (pauses, named) = (Pauses::default(), named.map(Duration::from_secs));
            let pause = pauses.pause(failures, named, random);
            prop_assert!(pause <= pauses.longest + pauses.named_longest);
            prop_assert!(pause >= named.unwrap_or_default().min(pauses.named_longest));
        }
    }
}
