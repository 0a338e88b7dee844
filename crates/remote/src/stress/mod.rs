//! Measures the throughput of a remote store: offers a peak load to one partition, then to many.
//!
//! The load is open: transactions of 100 entities are due at fixed times, independent of earlier answers. At the limit
//! of requests in flight, the service sets the pace. Throttled and failed requests are retried after a pause, as in
//! the daemon. Both rates together give the number of hash buckets for an instance with this peak ([`recommend`]).
//!
//! ```text
//! peak 5,000/s ──► one partition     1,900/s, 4,100 throttled ──┐
//!              └─► 16 partitions     5,000/s                  ──┴──► 3 buckets
//! ```
//!
//! The test writes to its own table, whose name no day-table has, and always drops the table.

mod histogram;
mod offer;

pub use histogram::LatencyHistogram;
pub use offer::{Load, Measured, StressError, left_behind, stress};

use std::num::NonZeroU16;

/// Maximum buckets of a partition: the suffix has two hexadecimal digits.
const BUCKETS_MAX: u64 = 256;

/// Recommended buckets for an instance with `peak` entities per second. `one` and `many` are the measured rates of one
/// partition and of many.
///
/// Buckets cannot raise the rate above `many`, so a higher peak gets no extra buckets. A rate within 1/20 of the peak
/// counts as reached.
pub fn recommend(peak: u64, one: u64, many: u64) -> NonZeroU16 {
    let wanted = peak.min(many.max(one));
    if wanted <= one.saturating_add(wanted / 20) {
        return NonZeroU16::MIN;
    }
    let buckets = wanted.div_ceil(one.max(1)).min(BUCKETS_MAX);
    u16::try_from(buckets).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_for_a_peak() {
        for (peak, one, many, buckets) in [
            (5000, 5000, 5000, 1),
            (5000, 4800, 5000, 1),
            (5000, 1900, 5000, 3),
            (5000, 2000, 4000, 2),
            // Buckets do not help if many partitions have the same rate as one.
            (5000, 300, 310, 1),
            (5000, 400, 310, 1),
            (1_000_000, 2000, 1_000_000, 256),
            (100, 0, 100, 100),
            (100, 0, 0, 1),
        ] {
            assert_eq!(recommend(peak, one, many).get(), buckets, "{peak} {one} {many}");
        }
    }
}
