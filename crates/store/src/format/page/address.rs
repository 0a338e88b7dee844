//! The address of a page: its day-table, partition and commit.
//!
//! None of them is part of the page's bytes. SQLite stores them beside the page: the name of the file, the number of
//! the partition, a column. SQLite's own pages have no checksums. A flipped bit there, or a journal that is mistaken
//! for another file's, may therefore place a page under another address. The stored checksum of a page is
//!
//! ```text
//! stored  := own ^ xxh3-64(commit i64 | range of commits, seeded with address)      own: of header and body, see PageHeader
//! address := xxh3-64(partition's name, seeded with xxh3-64(day-table's name))
//!          | xxh3-64(list of partitions, …)      of a page of many partitions, see shared_pages.rs
//! ```
//!
//! A reader passes the names under which it will show the rows, so a page of another address has a wrong checksum.
//! The number of the partition in its file is not covered: it may change when pages are rewritten.

use super::super::commit_range::CommitRange;
use super::PageHeader;
use daytable_model::key::DayTable;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The common part of all addresses in one day-table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TableAddress(u64);

/// The address of one partition of a day-table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageAddress(u64);

impl TableAddress {
    /// The addresses of a day-table.
    pub(crate) fn new(table: &DayTable) -> TableAddress {
        TableAddress(xxh3_64(table.to_string().as_bytes()))
    }

    /// The address of a partition, by its name.
    pub(crate) fn at(self, partition: &str) -> PageAddress {
        PageAddress(self.hash(partition.as_bytes()))
    }

    /// The address of a page of many partitions, by the stored list of them.
    pub(crate) fn of_many(self, partitions: &[u8]) -> PageAddress {
        PageAddress(self.hash(partitions))
    }

    /// What such a list has of the name of a partition.
    pub(crate) fn name_check(self, partition: &str) -> u32 {
        (self.hash(partition.as_bytes()) >> 32) as u32
    }

    fn hash(self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.0)
    }
}

impl PageAddress {
    /// Converts the own checksum of a page of commit `seq` into the stored one, and the stored one into the own.
    pub(crate) fn stored_checksum(self, header: &PageHeader, seq: i64) -> u64 {
        let mut bytes = [0; 8 + CommitRange::BYTES];
        bytes[..8].copy_from_slice(&seq.to_le_bytes());
        bytes[8..].copy_from_slice(&header.commits.to_bytes());
        header.checksum ^ xxh3_64_with_seed(&bytes, self.0)
    }
}
