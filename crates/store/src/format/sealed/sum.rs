//! The content checksum, which proves that a sealed file has the entities of the open files.
//!
//! Each value is hashed with its property and type. The hashes of an entity are added, so that the order of its
//! properties does not matter, and mixed with its partition, key and level. The order of entities matters: each enters
//! the total after a multiplication. All hashes are 64-bit xxh3: they detect mistakes, not forgeries, for which the
//! manifest has a SHA-256.

use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The checksum over entities in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentChecksum(u64);

impl ContentChecksum {
    /// Adds the next entity's [`entity`] hash.
    pub(super) fn add(&mut self, entity: u64) {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(entity);
    }

    /// Adds the next entity by its keys, level and values.
    pub fn add_row<'p>(
        &mut self,
        partition: &str,
        key: RowKey,
        level: Option<Level>,
        values: impl Iterator<Item = (&'p str, Property<'p>)>,
    ) {
        let of = |(name, value): (&str, Property<'_>)| of_value(of_property(name, value.kind()), value);
        let values = values.map(of).fold(0, u64::wrapping_add);
        self.add(entity(of_partition(partition), &key, level, values));
    }

    /// The inverse of [`ContentChecksum::hex`].
    pub fn from_hex(hex: &str) -> Option<ContentChecksum> {
        let sum = u64::from_str_radix(hex, 16).ok().map(ContentChecksum)?;
        (sum.hex() == hex).then_some(sum)
    }

    /// The number.
    pub(crate) fn value(self) -> u64 {
        self.0
    }

    /// 16 hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Counts and checksums, computed while entities are written, and again while they are read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContentCounts {
    pub(super) rows: u64,
    pub(super) records: u64,
    pub(super) levels: BTreeMap<Option<Level>, u64>,
    pub(super) first: Option<(Arc<str>, RowKey)>,
    pub(super) last: Option<(Arc<str>, RowKey)>,
    pub(super) times: Option<(Ticks, Ticks)>,
    pub(super) content: ContentChecksum,
}

impl ContentCounts {
    /// Counts the next row.
    pub(super) fn add(&mut self, partition: &Arc<str>, key: RowKey, level: Option<Level>) {
        self.rows += 1;
        if key.item() == 0 {
            self.records += 1;
            *self.levels.entry(level).or_default() += 1;
        }
        let time = key.time();
        self.times = Some(self.times.map_or((time, time), |(oldest, newest)| (oldest.min(time), newest.max(time))));
        if self.first.is_none() {
            self.first = Some((partition.clone(), key));
        }
    }

    /// Adds the counts of the rows that follow, without their content.
    pub(super) fn append(&mut self, next: ContentCounts) {
        self.rows += next.rows;
        self.records += next.records;
        for (level, records) in next.levels {
            *self.levels.entry(level).or_default() += records;
        }
        self.first = self.first.take().or(next.first);
        self.last = next.last.or(self.last.take());
        let (oldest, newest) = self.times.into_iter().chain(next.times).unzip::<_, _, Vec<_>, Vec<_>>();
        self.times = oldest.into_iter().min().zip(newest.into_iter().max());
    }

    pub(super) fn ends_with(&mut self, partition: &Arc<str>, key: RowKey) {
        self.last = Some((partition.clone(), key));
    }
}

/// The seed for the values of a property.
pub(super) fn of_property(name: &str, kind: PropertyKind) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), 1 + kind as u64)
}

/// The seed for the entities of a partition.
pub(super) fn of_partition(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// Hashes a value with the seed of its property.
#[inline]
pub(super) fn of_value(property: u64, value: Property<'_>) -> u64 {
    match value {
        Property::String(text) => xxh3_64_with_seed(text.as_bytes(), property),
        Property::Binary(bytes) => xxh3_64_with_seed(bytes, property),
        Property::Guid(guid) => xxh3_64_with_seed(&guid, property),
        Property::Int64(n) => mix(property ^ n.cast_unsigned()),
        Property::Int32(n) => mix(property ^ i64::from(n).cast_unsigned()),
        Property::DateTime(time) => mix(property ^ time.get().cast_unsigned()),
        Property::Double(n) => mix(property ^ n.to_bits()),
        Property::Boolean(b) => mix(property ^ u64::from(b)),
    }
}

/// Hashes an entity: the seed of its partition, its key and level, and the sum of its values.
#[inline]
pub(super) fn entity(partition: u64, key: &RowKey, level: Option<Level>, values: u64) -> u64 {
    let level = level.map_or(0, |level| u64::from(level.code()));
    mix(xxh3_64_with_seed(&key.to_bytes(), partition) ^ mix(values.wrapping_add(level)))
}

/// Sebastiano Vigna's finalizer of SplitMix64.
#[inline]
fn mix(n: u64) -> u64 {
    let z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
