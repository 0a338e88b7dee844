//! A histogram of durations: percentiles accurate to 1/16, in constant memory of a few kilobytes.

use std::time::Duration;

/// Buckets per power of two.
const STEPS: u64 = 16;
/// Up to 2^40 µs (twelve days); longer durations count as this value.
const POWERS: u64 = 40;

/// Counts by duration.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
    longest: Duration,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        let places = usize::try_from(STEPS * POWERS).expect("a few hundred");
        LatencyHistogram { counts: vec![0; places], total: 0, longest: Duration::ZERO }
    }
}

impl LatencyHistogram {
    /// Counts one duration.
    pub fn add(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let last = self.counts.len() - 1;
        let place = usize::try_from(place_of(micros)).unwrap_or(last).min(last);
        self.counts[place] += 1;
        self.total += 1;
        self.longest = self.longest.max(duration);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }

    /// Number of counted durations.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The longest duration.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// The smallest bound that covers `percent` of the durations; zero if there are no durations.
    pub fn percentile(&self, percent: u64) -> Duration {
        let wanted = self.total.saturating_mul(percent.min(100)).div_ceil(100).max(1);
        let mut seen = 0;
        for (place, count) in (0u64..).zip(&self.counts) {
            seen += count;
            if seen >= wanted {
                return Duration::from_micros(upper_of(place)).min(self.longest);
            }
        }
        Duration::ZERO
    }
}

/// The bucket of a number: the number itself below 16, otherwise its power of two and the next four bits.
fn place_of(micros: u64) -> u64 {
    if micros < STEPS {
        return micros;
    }
    let power = u64::from(micros.ilog2());
    (power - 3) * STEPS + (micros >> (power - 4)) - STEPS
}

/// The largest number of a bucket.
fn upper_of(place: u64) -> u64 {
    if place < STEPS {
        return place;
    }
    let (power, step) = (place / STEPS + 3, place % STEPS + STEPS);
    ((step + 1) << (power - 4)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.percentile(99), Duration::ZERO);
        for millis in 1..=100 {
            histogram.add(Duration::from_millis(millis));
        }
        for (percent, millis) in [(50, 50.0), (90, 90.0), (99, 99.0), (100, 100.0)] {
            let found = histogram.percentile(percent).as_secs_f64() * 1000.0;
            assert!(found >= millis && found <= millis * 17.0 / 16.0, "{percent}: {found}");
        }
        assert_eq!(histogram.longest(), Duration::from_millis(100));
        histogram.add(Duration::MAX);
        assert_eq!(histogram.total(), 101);
    }

    proptest! {
        /// The upper bound of a number's bucket exceeds the number by at most 1/16, and buckets keep the order of
        /// numbers.
        #[test]
        fn places(micros in 0u64..1 << 43) {
            let upper = upper_of(place_of(micros));
            prop_assert!(upper >= micros && upper <= micros + micros / 16, "{} {}", micros, upper);
            prop_assert!(place_of(micros + 1) >= place_of(micros));
        }
    }
}
