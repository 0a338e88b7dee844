//! A page: entities of one partition or of many, newest first, stored column by column.
//!
//! Entities are small and similar. A page therefore stores the values of one property together, each column in its
//! shortest form, with one checksum over everything. [`PageBuilder`] makes pages of the rows that wait for a
//! partition; [`Page`] reads one. The [`PageHeader`] contains what a query needs before it reads a body; the store
//! keeps headers as columns of a table of their own.
//!
//! ```text
//! body     := front | near* | apart*              front and near* are one row of a table, each apart is another: a question reads
//!                                                 what it needs
//! front    := directory | section                 with the meta of a page; the codec is in the header
//! directory := count varint | [length varint | checksum u64] *count         the sections beside the front, in their order
//! near     := codec u8 | section                  of the keys, or of one column: of less than 8 KiB
//! apart    := codec u8 | section                  the same: of 8 KiB or more
//! section  := packed length varint | wide length varint | strings length varint | meta length varint
//!             | packed | wide | frame
//! frame    := strings | meta                 codec 1: as they are        codec 2: one zstd frame
//! packed   := numbers at their exact width: compression gains nothing on them
//! wide     := random bytes: identifiers of fixed length
//! strings  := names, dictionaries, texts, one after the other
//! meta     := keys | levels ints | count varint | column *count | owners        of a page
//! owners   := ints       of a page of many partitions: for each row, the number of its partition in the page
//! ```
//!
//! Each part is drawn above its encoder: `keys`, `ints`, `column`, `strings`; the header's counts in `levels`,
//! and what it says of sources in `extents`.
//! Numbers are little-endian.
//!
//! Claims, each a property test:
//!
//! * A built page decodes to the same rows.
//! * Pages cover ranges of keys that do not overlap, in order, each within [`PAGE_BYTES`] and [`PAGE_SPAN`].
//! * A changed byte of body or header is an error. So is a page that is read as one of another day-table, partition
//!   or commit (`address`).
//! * No input makes the decoder panic, or take more memory than the header permits.
//!
//! A page may also be made of another one by column (`whole`), which the claims hold of as well.
//!
//! Left out on purpose: rows do not keep the order of their properties (they return in the order of the columns,
//! which is that of first occurrence), and pages share no state, so each can be read alone.

#[cfg(any(test, feature = "testing"))]
mod alike;
mod bits;
mod build;
mod column;
mod encoded;
mod entries;
mod extents;
mod columns_builder;
mod decode;
mod frame;
mod hex;
mod address;
mod ints;
mod keys;
mod levels;
mod pattern;
mod read;
mod prefilter;
mod section_cursor;
mod sections;
mod source_row;
mod strings;
mod survey;
mod value_counts;
mod whole;
mod words;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod whole_tests;

pub(crate) use address::{PageAddress, TableAddress};
#[cfg(any(test, feature = "testing"))]
pub(crate) use alike::assert_alike;
pub use bits::BLOCK_ROWS;
pub(crate) use bits::{ByteReader, put_signed, put_varint};
#[cfg(test)]
pub(crate) use build::waiting_rows;
pub use build::{BuiltPages, PageBuilder};
pub(crate) use build::{BuiltSharedPage, RowOfMany, WaitingRows, build_only, build_rest, build_shared, release_memory};
pub(crate) use decode::{PartialPage, WantedColumns};
pub use encoded::{PatternBlock, ValueReader};
pub(crate) use extents::KeyExtents;
pub use frame::PageSections;
pub(crate) use frame::unpack;
pub use levels::{LevelMinute, LevelNumbers, has_streams, level_minutes, level_numbers};
pub(crate) use levels::{add_streams, encode_minutes, may_have_minute, share_minute};
pub use pattern::{SHORT_PATTERN_BYTES, SHORT_PATTERN_NUMBERS, ShortPattern, TextSplitter};
pub(crate) use prefilter::Prefilter;
pub use prefilter::TextPrefilter;
pub use read::{ColumnRef, Page};
pub(crate) use sections::APART_MAX;
pub use value_counts::ValueCounts;
pub(crate) use value_counts::{
    ColumnCounts, CountedValue, LEVELS, VALUES_MAX, counted_bytes_max, is_filled, is_repeated,
};
pub(crate) use whole::WholePage;
pub use words::PageWords;
pub(crate) use words::{is_of_letters, word_key};

use super::commit_range::CommitRange;
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use std::time::Duration;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Maximum bytes of a page's entities before encoding. Only a record with items, a single large record, or the name of a host that a
/// page was received of may exceed it.
pub const PAGE_BYTES: usize = 512 << 10;
/// Maximum time between the first and the last entity of a page. It bounds how far a read of a range looks back.
pub const PAGE_SPAN: Duration = Duration::from_secs(6 * 3600);

/// The smallest first key of a page that can have `key`.
pub(crate) fn earliest_first_key(key: RowKey) -> RowKey {
    RowKey::range(Ticks::MIN, key.time().plus(PAGE_SPAN)).0
}

/// Upper bound of the bytes of a page's entities: more than the largest record with all its items.
const RAW_BYTES_MAX: usize = 1 << 28;
/// Raw bytes from which a page is full enough to be left alone.
pub(crate) const FULL_BYTES: u32 = PAGE_BYTES as u32 / 4;
/// Bytes of an entity without its properties.
const ROW_BYTES: usize = RowKey::BYTES;
/// Bytes of the name and kind of a value in a batch.
const VALUE_BYTES: usize = 3;

/// What is wrong with a page that has more, or other keys.
const WRONG_END: &str = "it does not end where it should";

/// The frame is stored as it is.
pub(crate) const CODEC_STORED: u8 = 1;
/// The frame is zstd's.
const CODEC_ZSTD: u8 = 2;

/// The metadata of a page, stored apart from its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The first key, which is the newest.
    pub first: RowKey,
    /// The last key, which is the oldest.
    pub last: RowKey,
    /// Number of entities, including items.
    pub entities: u32,
    /// Number of records: entities that are not items.
    pub records: u32,
    /// Records by level and minute: see [`level_minutes`]. Behind them, which sources and positions the rows have.
    pub levels: Vec<u8>,
    /// The codec of the body.
    pub codec: u8,
    /// Bytes of the entities before encoding. Bounds what decoding allocates.
    pub raw_bytes: u32,
    /// When its rows arrived. Set when the page is written: a page is built before its commit. The stored checksum covers it
    /// (`address`).
    pub commits: CommitRange,
    /// xxh3-64 of the front of the body, seeded with that of the other header fields. The front has the checksum of the
    /// rest. The checksum that a day's file stores also covers the page's address (`address`).
    pub checksum: u64,
}

/// An encoded page.
#[derive(Clone, Debug)]
pub struct EncodedPage {
    /// The header.
    pub header: PageHeader,
    /// The body.
    pub body: Vec<u8>,
    /// Numbers of its records by value, if they were counted.
    pub counts: Option<Box<ValueCounts>>,
    /// Its words, if they were gathered.
    pub words: Option<Box<PageWords>>,
}

/// Why a page cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PageError {
    /// A byte changed, or the page belongs to another day-table, partition or commit.
    #[error("the page's checksum is {found:016x} but {expected:016x} is stored for this table, partition and commit")]
    Checksum {
        /// The stored checksum.
        expected: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// A newer version wrote it, or the bytes are not a page.
    #[error("the page has the unknown codec {0}")]
    Codec(u8),
    /// The checksum is right, but the bytes are not a page.
    #[error("the page is damaged: {0}")]
    Damaged(&'static str),
}

impl EncodedPage {
    /// About the bytes that it has in memory.
    pub(crate) fn memory(&self) -> usize {
        let words = self.words.as_ref().map_or(0, |words| size_of_val(&*words.keys));
        let counts = self.counts.as_ref().map_or(0, |counts| counts.memory());
        size_of::<EncodedPage>() + self.header.levels.len() + self.body.len() + words + counts
    }

    /// The row of the front, and those of sections, with their numbers among all sections.
    pub(crate) fn rows<'p>(&'p self) -> (&'p [u8], impl Iterator<Item = (usize, &'p [u8])>) {
        let sections = frame::split(&self.body).apart.into_iter().map(|(_, section)| section);
        let apart: Vec<(usize, &'p [u8])> =
            sections.enumerate().filter(|(_, section)| !sections::is_near(section.len())).collect();
        let length: usize = apart.iter().map(|(_, section)| section.len()).sum();
        (&self.body[..self.body.len() - length], apart.into_iter())
    }
}

impl PageHeader {
    /// The same header with the checksum of `body`. Property tests use it to reach the decoder.
    pub fn checked(self, body: &[u8]) -> PageHeader {
        PageHeader { checksum: self.checksum_of(body), ..self }
    }

    /// The checksum of this header and of the front of `body`.
    fn checksum_of(&self, body: &[u8]) -> u64 {
        self.checksum_of_front(frame::split(body).front)
    }

    /// The checksum of this header and the front of a body.
    fn checksum_of_front(&self, front: &[u8]) -> u64 {
        const FIXED: usize = 2 * RowKey::BYTES + 13;
        // The header of a page of one record is short and needs no allocation.
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
        xxh3_64_with_seed(front, xxh3_64(bytes))
    }
}
