//! The list of the partitions of a shared page (`shared_pages`), and its stored form.
//!
//! ```text
//! partitions := checksum u64 of the rest | [partition varint, name u32, rows varint]*     in the order of their numbers
//! ```
//!
//! The stored checksum of the page covers the list, and `name` is the checksum of a partition's name. A reader compares
//! `name` with the names under which it shows rows. So a page with a damaged list, or a partition with another name, is
//! an error and never a wrong row.

use super::page::{ByteReader, PageAddress, PageError, TableAddress, put_varint};
use xxhash_rust::xxh3::xxh3_64;

/// A partition of a shared page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    partition: i64,
    name: u32,
    rows: u32,
}

/// The partitions of a shared page, by their numbers in the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedPartitions {
    stored: Vec<u8>,
    parts: Vec<Part>,
}

impl SharedPartitions {
    /// Parses a stored list.
    pub(crate) fn parse(stored: &[u8]) -> Result<SharedPartitions, PageError> {
        let mut parts = Vec::with_capacity(stored.len() / 8);
        each_part(stored, |part| parts.push(part))?;
        if parts.is_empty() {
            return Err(PageError::Damaged("its list of partitions is empty"));
        }
        Ok(SharedPartitions { stored: stored.into(), parts })
    }

    /// Its stored form.
    pub(crate) fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// The address of the page.
    pub(crate) fn address(&self, table: TableAddress) -> PageAddress {
        table.of_many(&self.stored)
    }

    /// The number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The partitions by their numbers in the page, each with its number of rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, u32)> {
        self.parts.iter().map(|part| (part.partition, part.rows))
    }

    /// The number in the page of a partition.
    pub(crate) fn number_of(&self, partition: i64) -> Option<usize> {
        self.parts.iter().position(|part| part.partition == partition)
    }

    /// The partition with a number in the page.
    pub(crate) fn partition(&self, number: usize) -> Option<i64> {
        self.parts.get(number).map(|part| part.partition)
    }

    /// Whether the rows with this number may be shown under a name.
    pub(crate) fn has_name(&self, number: usize, table: TableAddress, name: &str) -> bool {
        self.parts.get(number).is_some_and(|part| part.name == table.name_check(name))
    }
}

/// The stored list of the partitions of a page, each with its number, name and rows.
pub(crate) fn stored_list<'p>(table: TableAddress, partitions: impl Iterator<Item = (i64, &'p str, u32)>) -> Vec<u8> {
    let mut out = vec![0; 8];
    for (partition, name, rows) in partitions {
        put_varint(&mut out, partition.cast_unsigned());
        out.extend_from_slice(&table.name_check(name).to_le_bytes());
        put_varint(&mut out, rows.into());
    }
    let checksum = xxh3_64(&out[8..]);
    out[..8].copy_from_slice(&checksum.to_le_bytes());
    out
}

fn each_part(stored: &[u8], mut each: impl FnMut(Part)) -> Result<(), PageError> {
    const DAMAGED: PageError = PageError::Damaged("its list of partitions is damaged");
    let (checksum, rest) = stored.split_first_chunk::<8>().ok_or(DAMAGED)?;
    if u64::from_le_bytes(*checksum) != xxh3_64(rest) {
        return Err(DAMAGED);
    }
    let mut reader = ByteReader::new(rest);
    while !reader.rest().is_empty() {
        let partition = reader.varint()?.cast_signed();
        let name = u32::from_le_bytes(reader.array()?);
        let rows = u32::try_from(reader.varint()?).map_err(|_| DAMAGED)?;
        each(Part { partition, name, rows });
    }
    Ok(())
}

/// Whether a stored list has a partition that `wants` accepts.
pub(crate) fn has_any(stored: &[u8], wants: impl Fn(i64) -> bool) -> Result<bool, PageError> {
    let mut has = false;
    each_part(stored, |part| has |= wants(part.partition))?;
    Ok(has)
}

/// Asserts that any bytes are a list of partitions or an error.
#[cfg(feature = "testing")]
pub fn assert_partitions(bytes: &[u8]) {
    let mut sound = xxh3_64(bytes).to_le_bytes().to_vec();
    sound.extend_from_slice(bytes);
    for stored in [bytes, &sound] {
        if let Ok(partitions) = SharedPartitions::parse(stored) {
            assert!(partitions.len() <= stored.len(), "more partitions than bytes");
            assert!(partitions.iter().all(|(partition, _)| partitions.number_of(partition).is_some()));
        }
    }
}
