//! Whose page it is: the day-table, the partition and the commit that its place in a file says of it.
//!
//! None of these is among a page's own bytes. They are what SQLite has beside it: the file's name, a number that stands for
//! the partition, a column. SQLite's own pages have no checksums, so a bit that flips there, or a journal that is taken for
//! another file's, may bring a page under another name. So what is noted as the checksum of a page in a file is
//!
//! ```text
//! noted := own ^ xxh3-64(commit i64, seeded with home)       own: of header and body, see PageHeader
//! home  := xxh3-64(partition's name, seeded with xxh3-64(day-table's name))
//! ```
//!
//! Whoever reads a page gives the names by which he will show its rows, so a page of another home is one with a wrong
//! checksum. The number of the partition in its file is not among them: it may be another where pages are written anew.
//!
//! Pages of formats 1 to 5 have their own checksum noted. Their codecs are others, and a codec lies under the checksum: a
//! page of the one kind never passes for one of the other.

use super::PageHeader;
use daytable_model::key::DayTable;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The table_address in one day-table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableAddress(u64);

/// A day-table and one of its partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageAddress(u64);

impl TableAddress {
    /// Those of a day-table.
    pub(crate) fn new(table: &DayTable) -> TableAddress {
        TableAddress(xxh3_64(table.to_string().as_bytes()))
    }

    /// That of a partition, by its name.
    pub(crate) fn at(self, partition: &str) -> PageAddress {
        PageAddress(xxh3_64_with_seed(partition.as_bytes(), self.0))
    }
}

impl PageAddress {
    /// What is noted as the checksum of a page that commit `seq` has here, by the page's own; and the page's own, by what is
    /// noted.
    pub(crate) fn noted(self, header: &PageHeader, seq: i64) -> u64 {
        header.checksum ^ xxh3_64_with_seed(&seq.to_le_bytes(), self.0)
    }
}
