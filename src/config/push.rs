//! The keys of `[http]` that bound what is pushed.

use super::section::Section;
use daytable_intake::push::Limits;
use daytable_model::units::ByteSize;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The least is what a handful of records take, the most what a machine can hold of several.
const BODY_BYTES: RangeInclusive<ByteSize> = ByteSize::new(64 << 10)..=ByteSize::new(1 << 30);
/// Of all bodies together.
const BODIES_BYTES: RangeInclusive<ByteSize> = ByteSize::new(64 << 10)..=ByteSize::new(64 << 30);
/// The least lets a slow link send a small body.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Reads them all.
pub(super) fn read(section: &mut Section<'_>) -> Limits {
    let default = Limits::default();
    let mut size = |key, default: usize, range| {
        let size = section.size(key, ByteSize::new(default as u64), range);
        usize::try_from(size.get()).unwrap_or(usize::MAX)
    };
    let limits = Limits {
        body_bytes_max: size("body_bytes_max", default.body_bytes_max, BODY_BYTES),
        decoded_bytes_max: size("decoded_bytes_max", default.decoded_bytes_max, BODY_BYTES),
        bodies_bytes_max: size("bodies_bytes_max", default.bodies_bytes_max, BODIES_BYTES),
        records_max: section
            .whole("records_max", 1..=1_000_000)
            .and_then(|records| usize::try_from(records).ok())
            .unwrap_or(default.records_max),
        body_timeout: section.duration("body_timeout", default.body_timeout, TIMEOUT),
        ..default
    };
    // A body is held as it came and decoded.
    let largest = limits.body_bytes_max.saturating_add(limits.decoded_bytes_max);
    if limits.bodies_bytes_max < largest
        && (section.has("bodies_bytes_max") || section.has("decoded_bytes_max") || section.has("body_bytes_max"))
    {
        section.problem("`bodies_bytes_max` must be at least `body_bytes_max` and `decoded_bytes_max` together");
    }
    limits
}
