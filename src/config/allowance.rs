//! `per_sender = { … }`: the limits of each sender.

use super::key::{ConfigKey, KeyDraft, SectionDoc, SectionPlace, sizes, table};
use daytable_intake::rate_limit::SenderLimits;
use daytable_model::units::ByteSize;
use std::num::{NonZeroU32, NonZeroU64};
use std::ops::RangeInclusive;

/// Bytes, and the number that a rate has at least to be of use.
const PER_SECOND: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(1 << 50);
const PER_DAY: RangeInclusive<ByteSize> = ByteSize::new(1 << 20)..=ByteSize::new(1 << 50);

fn keys() -> Vec<ConfigKey<SenderLimits>> {
    vec![
        whole("records_per_s", |allowance| &mut allowance.records_per_s, 1_000_000_000).live("Records per second."),
        size("bytes_per_s", |allowance| &mut allowance.bytes_per_s, PER_SECOND).live("Bytes per second."),
        size("bytes_per_day", |allowance| &mut allowance.bytes_per_day, PER_DAY)
            .live("Bytes per day. The count begins at midnight UTC, and after a restart."),
        whole("connections", |allowance| &mut allowance.connections, 65_535).live("Connections at one time."),
    ]
}

/// The key of a section that takes records from the network.
pub(super) fn key<T: 'static>(field: impl Fn(&mut T) -> &mut SenderLimits + Copy + 'static) -> KeyDraft<T> {
    let example = "{ records_per_s = 10000, bytes_per_s = \"10MiB\", bytes_per_day = \"10GiB\", connections = 100 }";
    table("per_sender", field, keys, |_, _| ()).example(example)
}

pub(super) fn doc() -> SectionDoc {
    SectionDoc {
        within: "`[http]` and `[[syslog]]`",
        about: "An absent key sets no limit.",
        ..SectionDoc::new("per_sender", SectionPlace::Inline, keys(), &mut SenderLimits::default())
    }
}

fn whole(
    name: &'static str,
    field: fn(&mut SenderLimits) -> &mut Option<NonZeroU32>,
    max: u32,
) -> KeyDraft<SenderLimits> {
    let takes = format!("a whole number from 1 to {max}");
    KeyDraft::new(name, takes, field, move |section| section.whole(name, &(1..=max)).map(NonZeroU32::new))
}

fn size(
    name: &'static str,
    field: fn(&mut SenderLimits) -> &mut Option<NonZeroU64>,
    range: RangeInclusive<ByteSize>,
) -> KeyDraft<SenderLimits> {
    KeyDraft::new(name, sizes(&range), field, move |section| {
        section.size(name, &range).map(|size| NonZeroU64::new(size.get()))
    })
}
