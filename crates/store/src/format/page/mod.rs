//! A page: entities of one partition, newest first, column by column.
//!
//! Entities are small and alike, so they are not stored one by one: a page keeps the values of one property together,
//! each column in the form that takes the fewest bytes, and one checksum over all of it. [`PageBuilder`] makes pages of what
//! waits for a partition, [`Page`] reads one. What a query wants to know before it reads a body stands in the [`PageHeader`],
//! which the store keeps as columns of a table of its own.
//!
//! ```text
//! body     := packed length varint | strings length varint | meta length varint | packed | frame
//! frame    := strings | meta                 codec 5: as they are        codec 6: one zstd frame      (see `home`)
//! packed   := numbers at their exact width, and bytes that are random: no compression gains on them
//! strings  := names, dictionaries, texts, one behind the other
//! meta     := keys | levels ints | count varint | column *count
//! ```
//!
//! The parts are drawn where they are written: `keys`, `ints`, `column`, `strings`; the header's counts in `levels`.
//! Numbers are little-endian.
//!
//! Claims, each a property test: what is built decodes to the same rows; pages cover ranges of keys that do not
//! overlap, in order, each within [`PAGE_BYTES`] and [`PAGE_SPAN`]; a changed byte, of body or header, is an error, and so
//! is a page that is read as one of another day-table, partition or commit (`home`); no bytes at all make the decoder
//! panic or take more memory than the header allows.
//!
//! What is not done: rows keep no order of their properties (they come in that of the columns, which is the order of
//! first sight, newest row first), and nothing is remembered from page to page, so each can be read alone.

mod bits;
mod build;
mod column;
mod entries;
mod columns_builder;
mod hex;
mod address;
mod ints;
mod keys;
mod levels;
mod pattern;
mod read;
mod prefilter;
mod strings;
#[cfg(test)]
mod tests;

pub(crate) use address::{PageAddress, TableAddress};
pub(crate) use bits::{ByteReader, put_varint};
pub use build::{BuiltPages, PageBuilder};
pub(crate) use build::{build_only, release_memory};
pub(crate) use levels::encode_minutes;
pub use levels::{LevelMinute, level_minutes};
pub(crate) use prefilter::Prefilter;
pub use read::{ColumnRef, Page};

use daytable_model::key::RowKey;
use std::time::Duration;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Bytes of a page's entities before they are encoded, at most. Only a record with items may exceed it, or one that
/// does so alone.
pub const PAGE_BYTES: usize = 128 << 10;
/// Time between the first and the last entity of a page at most, so that a read of a range looks back a bounded way.
pub const PAGE_SPAN: Duration = Duration::from_secs(3600);

/// Bytes that a page's entities can have at most: more than the largest record with all its items.
const RAW_BYTES_MAX: usize = 1 << 28;
/// Bytes of an entity beside its properties.
const ROW_BYTES: usize = RowKey::BYTES;
/// Bytes of a value beside itself: of its name and kind, as a batch has them.
const VALUE_BYTES: usize = 3;

/// The frame is stored as it is.
const CODEC_STORED: u8 = 1;
/// The frame is zstd's.
const CODEC_ZSTD: u8 = 2;

/// What is kept of a page beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The first key, which is the newest.
    pub first: RowKey,
    /// The last key, which is the oldest.
    pub last: RowKey,
    /// Its entities, items included.
    pub entities: u32,
    /// Its records: entities that are no items.
    pub records: u32,
    /// Records a level and minute: see [`level_minutes`].
    pub levels: Vec<u8>,
    /// How the body is stored.
    pub codec: u8,
    /// Bytes of the entities before they were encoded. Bounds what decoding allocates.
    pub raw_bytes: u32,
    /// xxh3-64 of the body, seeded with that of the other parts of the header. What is noted of it in a day's file covers
    /// under which names the page lies there as well (`home`).
    pub checksum: u64,
}

/// A page as it is stored.
#[derive(Clone, Debug)]
pub struct EncodedPage {
    /// What is known without reading the body.
    pub header: PageHeader,
    /// The rest.
    pub body: Vec<u8>,
}

/// Why a page cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PageError {
    /// A byte of it is not what was written, or it was written as the page of another day-table, partition or commit.
    #[error("the page's checksum is {found:016x} where {expected:016x} was noted for this table, partition and commit")]
    Checksum {
        /// What the header says.
        expected: u64,
        /// What the bytes come to.
        found: u64,
    },
    /// Written by a newer version, or not at all.
    #[error("the page has the unknown codec {0}")]
    Codec(u8),
    /// The bytes are those that were noted, but no page.
    #[error("the page is damaged: {0}")]
    Damaged(&'static str),
}

impl PageHeader {
    /// The same with the checksum that belongs to `body`. For the properties of the tests, which tries what is behind it.
    pub fn checked(self, body: &[u8]) -> PageHeader {
        PageHeader { checksum: self.checksum_of(body), ..self }
    }

    /// The checksum that belongs to this header and `body`.
    fn checksum_of(&self, body: &[u8]) -> u64 {
        const FIXED: usize = 2 * RowKey::BYTES + 13;
        // A page of one record has hardly any levels: no memory is asked for.
        let (mut short, mut long) = ([0; 2 * FIXED], Vec::new());
        let length = FIXED + self.levels.len();
        let bytes = match short.get_mut(..length) {
            Some(bytes) => bytes,
            None => {
                long.resize(length, 0);
                &mut long[..]
            }
        };
        let (first, rest) = bytes.split_at_mut(RowKey::BYTES);
        let (last, rest) = rest.split_at_mut(RowKey::BYTES);
        let (numbers, levels) = rest.split_at_mut(FIXED - 2 * RowKey::BYTES);
        first.copy_from_slice(&self.first.to_bytes());
        last.copy_from_slice(&self.last.to_bytes());
        for (at, n) in numbers.chunks_exact_mut(4).zip([self.entities, self.records, self.raw_bytes]) {
            at.copy_from_slice(&n.to_le_bytes());
        }
        numbers[12] = self.codec;
        levels.copy_from_slice(&self.levels);
        xxh3_64_with_seed(body, xxh3_64(bytes))
    }
}
