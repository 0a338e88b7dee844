//! How much a remote store takes: a peak load is offered to one partition, then the same to many.
//!
//! The load is an open one: transactions of 100 entities are due at fixed times, whether those before are answered or not,
//! until as many are under way as is allowed; from then on it is offered what the service takes. What is throttled or
//! fails is sent again after a pause, as the daemon does. Both rates together say how many hash buckets an instance needs
//! that writes at that peak ([`recommend`]).
//!
//! ```text
//! peak 5,000/s ──► one partition     1,900/s, 4,100 throttled ──┐
//!              └─► 16 partitions     5,000/s                  ──┴──► 3 buckets
//! ```
//!
//! It writes to a table of its own, whose name no day-table has, and drops it in the end, whatever comes of it.

mod histogram;
mod offer;

pub use histogram::LatencyHistogram;
pub use offer::{Load, Measured, StressError, left_behind, stress};

use std::num::NonZeroU16;

/// Buckets that a partition can have at most: two hexadecimal digits behind its name.
const BUCKETS_MAX: u64 = 256;

/// How many buckets an instance needs that writes `peak` entities a second at most, where one partition took `one` a second
/// and many took `many`.
///
/// More than what many partitions took altogether does not become less by parting it, so it asks for no buckets; and within
/// a twentieth of the peak it was reached.
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
            // Nothing is gained by parting what nobody takes.
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
