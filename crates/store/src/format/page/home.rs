//! Whose page it is: the day-table, the partition and the commit that its place in a file says of it.
//!
//! None of these is among a page's own bytes. They are what SQLite has beside it: the file's name, a number that stands for
//! the partition, a column. SQLite's own pages have no checksums, so a bit that flips there, or a journal that is taken for
//! another file's, may bring a page under another name. So what is noted as the checksum of a page in a file is
//!
//! ```text
//! noted := own ^ xxh3-64(commit i64, seeded with home)       own: of header and body, see Header
//! home  := xxh3-64(partition's name, seeded with xxh3-64(day-table's name))
//! ```
//!
//! Whoever reads a page gives the names by which he will show its rows, so a page of another home is one with a wrong
//! checksum. The number of the partition in its file is not among them: it may be another where pages are written anew.
//!
//! Pages of formats 1 to 5 have their own checksum noted. Their codecs are others, and a codec lies under the checksum: a
//! page of the one kind never passes for one of the other.

use super::{Header, IN_HOME};
use daytable_model::key::DayTable;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The homes in one day-table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homes(u64);

/// A day-table and one of its partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home(u64);

impl Homes {
    /// Those of a day-table.
    pub(crate) fn of(table: &DayTable) -> Homes {
        Homes(xxh3_64(table.to_string().as_bytes()))
    }

    /// That of a partition, by its name.
    pub(crate) fn at(self, partition: &str) -> Home {
        Home(xxh3_64_with_seed(partition.as_bytes(), self.0))
    }
}

impl Home {
    /// What is noted as the checksum of a page that commit `seq` has here, by the page's own; and the page's own, by what is
    /// noted.
    pub(crate) fn noted(self, header: &Header, seq: i64) -> u64 {
        let of_home = if header.codec & IN_HOME == 0 { 0 } else { xxh3_64_with_seed(&seq.to_le_bytes(), self.0) };
        header.checksum ^ of_home
    }
}
