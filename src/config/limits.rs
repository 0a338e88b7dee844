//! `per_sender = { … }`: what one sender may send.

use super::section::Section;
use daytable_intake::rate_limit::SenderLimits;
use daytable_model::units::ByteSize;
use std::num::{NonZeroU32, NonZeroU64};

const MOST: ByteSize = ByteSize::new(1 << 50);

pub(super) fn read(mut section: Section<'_>) -> SenderLimits {
    let mut size = |key, least: u64| {
        let size = section.size(key, MOST, ByteSize::new(least)..=MOST);
        NonZeroU64::new(size.get()).filter(|_| section.has(key))
    };
    let (bytes_per_s, bytes_per_day) = (size("bytes_per_s", 1 << 10), size("bytes_per_day", 1 << 20));
    let records_per_s = section.whole("records_per_s", 1..=1_000_000_000).and_then(NonZeroU32::new);
    let connections = section.whole("connections", 1..=65_535).and_then(NonZeroU32::new);
    section.finish();
    SenderLimits { records_per_s, bytes_per_s, bytes_per_day, connections }
}
