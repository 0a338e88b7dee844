//! The identity of a source: what its row keys have between the time and the position of a record.
//!
//! ```text
//! b3d1f0a27c55 07e1 1f3a9c2e77b0d4a6      16 bytes, or 32 hexadecimal digits
//! │            │    └ hash, 64 bits       of what names the source; the host is part of it
//! │            └ host, 16 bits            a hash of the host's name
//! └ 2^48 − 1 − start, 48 bits             start: when the source began, in units of 10 µs since 2000, until 2089
//! ```
//!
//! The start is inverted, so of two records of one time that of the source that began last is the newer one, as the rest
//! of the key has it. A source whose name alone must give its keys (a journal, a document with an `_id`) has no start,
//! which is 0.
//!
//! Of a million sources that began at one time on one host, two are equal with a probability of 2.7 · 10⁻⁸.
//! `docs/decisions/0073` has the arithmetic.

use crate::time::{TICKS_PER_SECOND, Ticks};
use std::fmt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Ticks of one unit of a start: 10 µs.
const UNIT: i64 = TICKS_PER_SECOND / 100_000;
/// 2000-01-01, the start of count 0.
const EPOCH: i64 = crate::time::UNIX_EPOCH_TICKS + 946_684_800 * TICKS_PER_SECOND;
/// The latest start, 2089-03-04.
const START_MAX: u64 = (1 << 48) - 1;

/// When a source began. `Ord` is the order of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceStart(u64);

impl SourceStart {
    /// No start: earlier than every other one.
    pub const NONE: SourceStart = SourceStart(0);

    /// The start at a time. Times outside of 2000 to 2089 are the nearest of these.
    pub fn at(time: Ticks) -> SourceStart {
        let units = (time.get() - EPOCH).max(0) / UNIT;
        SourceStart(units.unsigned_abs().min(START_MAX))
    }

    /// The next start after this one.
    #[must_use]
    pub fn next(self) -> SourceStart {
        SourceStart((self.0 + 1).min(START_MAX))
    }

    /// Its time, rounded down to 10 µs; 2000-01-01 if there is no start.
    pub fn time(self) -> Ticks {
        Ticks::new(EPOCH + self.0.cast_signed() * UNIT).unwrap_or(Ticks::MAX)
    }

    /// The number of units since 2000.
    pub fn get(self) -> u64 {
        self.0
    }

    /// The inverse of [`SourceStart::get`]. Numbers beyond 48 bits are the latest start.
    pub fn new(units: u64) -> SourceStart {
        SourceStart(units.min(START_MAX))
    }
}

/// The host of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostId {
    hash: u64,
}

impl HostId {
    /// The host of this name. Names that differ give hosts that differ, but for a hash of 64 bits.
    pub fn of_name(name: &str) -> HostId {
        HostId { hash: xxh3_64(name.as_bytes()) }
    }

    /// The part of the host that each key shows.
    fn short(self) -> u16 {
        (self.hash >> 48) as u16
    }
}

/// The identity of a source. `Ord` is the order of keys: the source that began last is the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// The inverted start, and the host.
    head: u64,
    hash: u64,
}

impl SourceId {
    /// Bytes of [`SourceId::to_bytes`].
    pub const BYTES: usize = 16;
    /// The first in the order of keys. No source has it.
    pub const FIRST: SourceId = SourceId { head: 0, hash: 0 };
    /// The last in the order of keys.
    pub const LAST: SourceId = SourceId { head: u64::MAX, hash: u64::MAX };

    /// A source of `host` that began at `start`. `name` is the hash of what names it there.
    pub fn new(start: SourceStart, host: HostId, name: u64) -> SourceId {
        let hash = xxh3_64_with_seed(&name.to_le_bytes(), host.hash);
        SourceId { head: (START_MAX - start.0) << 16 | u64::from(host.short()), hash }
    }

    /// When it began.
    pub fn start(self) -> SourceStart {
        SourceStart(START_MAX - (self.head >> 16))
    }

    /// The inverted start and the host: equal for the sources of a host that began at one time.
    pub fn head(self) -> u64 {
        self.head
    }

    /// The part of its host that each key shows.
    pub fn short_host(self) -> u16 {
        self.head as u16
    }

    /// What tells the sources of one head apart.
    pub fn hash(self) -> u64 {
        self.hash
    }

    /// The source of these two parts.
    pub fn from_parts(head: u64, hash: u64) -> SourceId {
        SourceId { head, hash }
    }

    /// A form that sorts as sources do: head and hash, big-endian.
    pub fn to_bytes(self) -> [u8; SourceId::BYTES] {
        let mut bytes = [0; SourceId::BYTES];
        bytes[..8].copy_from_slice(&self.head.to_be_bytes());
        bytes[8..].copy_from_slice(&self.hash.to_be_bytes());
        bytes
    }

    /// The inverse of [`SourceId::to_bytes`].
    pub fn from_bytes(bytes: [u8; SourceId::BYTES]) -> SourceId {
        let [head, hash] = [&bytes[..8], &bytes[8..]].map(|word| word.iter().fold(0, |n, &b| n << 8 | u64::from(b)));
        SourceId { head, hash }
    }

    /// The inverse of `Display`. `None` for another text than 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<SourceId> {
        let is_hex = text.len() == 2 * SourceId::BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let word = |at: usize| u64::from_str_radix(text.get(at..at + 16)?, 16).ok();
        if is_hex { Some(SourceId { head: word(0)?, hash: word(16)? }) } else { None }
    }
}

impl From<u64> for SourceId {
    /// A source that has a number for a name, without start and host: those of tests and benchmarks.
    fn from(hash: u64) -> SourceId {
        SourceId { head: START_MAX << 16, hash }
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.head, self.hash)
    }
}

impl fmt::Debug for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source() -> impl Strategy<Value = SourceId> {
        (any::<u64>(), any::<u64>()).prop_map(|(head, hash)| SourceId::from_parts(head, hash))
    }

    #[test]
    fn starts_last_from_2000_to_2089() {
        let at = |year, month, day| SourceStart::at(Ticks::from_date(year, month, day).expect("a date"));
        assert_eq!([at(1970, 1, 1), at(2000, 1, 1)], [SourceStart::NONE; 2]);
        assert!(at(2089, 3, 1) < SourceStart(START_MAX) && at(2089, 3, 31) == SourceStart(START_MAX));
        assert_eq!(at(9999, 1, 1).next(), at(9999, 1, 1));
    }

    #[test]
    fn hosts_have_sources_of_their_own() {
        let [a, b] = ["web-1", "web-2"].map(|name| SourceId::new(SourceStart::NONE, HostId::of_name(name), 7));
        assert_ne!(a.head(), b.head());
        assert_ne!(a.hash(), b.hash(), "the short part of the host may be equal by chance");
    }

    proptest! {
        /// Of two sources, that which began later sorts first, in text, bytes and `Ord` alike.
        #[test]
        fn the_source_that_began_last_is_the_first(a in source(), b in source()) {
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
            prop_assert_eq!(a.cmp(&b), a.to_bytes().cmp(&b.to_bytes()));
            if a.start() > b.start() { prop_assert!(a < b); }
        }

        /// decode(encode(source)) is the source, as text and as bytes, and a start is kept to 10 µs.
        #[test]
        fn sources_round_trip(source in source(), ticks in EPOCH..EPOCH + 80 * 365 * crate::time::TICKS_PER_DAY, name in any::<u64>()) {
            prop_assert_eq!(SourceId::parse(&source.to_string()), Some(source));
            prop_assert_eq!(SourceId::from_bytes(source.to_bytes()), source);
            let time = Ticks::new(ticks).expect("in range");
            let id = SourceId::new(SourceStart::at(time), HostId::of_name("a"), name);
            prop_assert!(id.start().time() <= time && time.get() - id.start().time().get() < UNIT);
            prop_assert_eq!(SourceStart::new(id.start().get()), id.start());
        }
    }
}
