//! A *sealed* day: all entities of a day-table in one Parquet file, and a manifest that describes the file.
//!
//! ```text
//! Log20261120.1.parquet         row groups, value counts, Bloom index | index | offset indexes | footer | its length | PAR1
//! Log20261120.1.manifest.json   counts, times, checksums, columns: an archive is compared with it
//! ```
//!
//! Any Parquet reader can read the file. A row is an entity, and rows are sorted by PartitionKey and RowKey:
//!
//! | column | type | content |
//! |---|---|---|
//! | `PartitionKey` | text | the instance, as [`daytable_model::key`] encodes it |
//! | `Time` | timestamp, microseconds, UTC | the record's time |
//! | `log_ticks` | INT32 | the 100 ns above the microsecond, 0 to 9 |
//! | `log_source`, `log_position`, `log_item` | text of 32 hex, INT64, INT32 | the rest of the RowKey, which is `printf('%019d-%s-%012x', 3155378975999999999 - ticks, source, 281474976710655 - position)`, and `_%04d` of the item if that is not 0 |
//! | `Level` | text | the level's name; `Severity` follows from it |
//! | a property's name | by its type | a column for each property and type that enough entities have, at most [`COLUMNS_MAX`] |
//! | `log_rest` | map of text to text | all others: `name:type` and the value as text |
//!
//! A property with two types in a day has two columns. The more frequent type has the plain name; the other is called
//! `name_type` ([`daytable_model::column_name`]). The same applies to a property whose name differs from an earlier column's
//! only by case, which many tools do not distinguish, and to one that is called like a column of daytable's own. The footer
//! states the property and type of each column.
//!
//! **Integrity.** A checksum covers every byte and is verified before the byte is used. Blocks of 16 KiB of the row
//! groups have sums in the index. The index and everything after it have a sum in the footer (`bytes`, `tail`). A
//! wrong byte is an error that names its place, never a wrong row.
//!
//! **Sealing** ([`seal`]) reads the day's files twice: once to choose the columns (`survey`), once to write them
//! (`open_day`, `merge`, `group`). The output is synced, read back and compared with the input by counts and by a checksum over
//! every value (`sum`), before it gets its name. Memory holds a few row groups and the pages of their rows, whatever the
//! day's size. Only the footer, the list of partitions and the counts by minute grow with the day, by a few dozen
//! bytes a column of a row group and a partition. A property that most entities lack takes memory and time for its values,
//! not for the entities, so a day may have as many names as values: see `block` and `format/listed_rows`.
//!
//! **Reading** (`file`, `columns`, `interned`, `prefilter`) decodes only the columns and pages of row groups that may
//! match.
//!
//! A file in an archive of many hosts is read with the fields that name its host: `host_fields`.
//!
//! **Counting.** `counted_parts` has numbers of records by value, so that a count by few values reads no column.
//!
//! **Searching.** The Bloom index (`bloom`) names the row groups that may have a word, and the columns that may have a part of a word
//! (`trigrams`), before any column is read. Parquet's own Bloom filters are of whole values, about whose parts they say
//! nothing.

pub(crate) mod block;
mod bytes;
pub(crate) mod columns;
mod compare;
pub(crate) mod counted_parts;
mod damage;
pub(crate) mod file;
mod frames;
mod gather;
mod group;
pub(crate) mod host_fields;
#[cfg(test)]
mod host_tests;
pub(crate) mod index;
mod layout;
mod manifest;
mod mapped;
mod merge;
mod interned;
mod open_day;
mod pages;
mod part;
mod seal;
mod bloom;
mod bloom_search;
mod slice;
#[cfg(test)]
mod bloom_tests;
mod prefilter;
mod sum;
mod survey;
mod tail;
#[cfg(test)]
mod tests;
mod text;
mod through;
mod trigrams;
mod writer;

pub(crate) use block::RowBlock;
pub use bytes::{LocalFile, RangeReader};
pub use file::SealedFile;
pub use host_fields::HOST_UNLESS_NAMED;
pub use layout::{FIXED_COLUMNS, PropertyColumn, REST};
pub use manifest::{ArchiveHome, Manifest, ManifestError};
pub(crate) use open_day::OpenInput;
pub(crate) use seal::seal_slice;
pub use seal::{SealJob, SealedDay, seal};
pub use slice::TimeSlice;
pub use sum::ContentChecksum;
pub use tail::with_sums;
pub use through::OnBytes;

/// Maximum number of properties with a column of their own.
pub const COLUMNS_MAX: usize = 512;
/// The format of a file and its manifest, the only one that this program knows.
pub const FORMAT: u32 = 2;

/// Maximum bytes of a row group's entities before encoding. A single larger entity forms a group alone.
const GROUP_BYTES: usize = 24 << 20;
/// Row counts that bound the parts of a sealed file, and the steps in which a file is read.
///
/// The default suits days of any size. Tests use [`SealedSizes::SMALL`], so that a few rows cross every boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedSizes {
    /// Maximum rows of a row group. An instance's hour is in one or two groups, and a query decodes only these.
    pub group_rows: usize,
    /// Maximum rows of a page of a column, which is decoded to read one row.
    pub page_rows: usize,
    /// Target rows of the first window of a scan.
    pub window_rows_first: usize,
    /// Maximum keys of a window.
    pub window_rows_max: usize,
    /// Rows of the first batch of a scan. Each further batch has four times as many, because most queries want few rows.
    pub batch_rows_first: usize,
    /// Maximum rows of a batch.
    pub batch_rows_max: usize,
    /// Times of a run that are read first to find the end of a window; then sixteen times as many.
    pub times_first: usize,
}

impl SealedSizes {
    /// Sizes for tests.
    pub const SMALL: SealedSizes = SealedSizes {
        group_rows: 128,
        page_rows: 32,
        window_rows_first: 16,
        window_rows_max: 60,
        batch_rows_first: 16,
        batch_rows_max: 64,
        times_first: 4,
    };
}

impl Default for SealedSizes {
    fn default() -> SealedSizes {
        SealedSizes {
            group_rows: 1 << 16,
            page_rows: 1 << 13,
            window_rows_first: 1 << 10,
            window_rows_max: 1 << 18,
            batch_rows_first: 128,
            batch_rows_max: 1 << 16,
            times_first: 1 << 10,
        }
    }
}

/// The name and version of the program, for files.
fn program() -> String {
    format!("{} {}", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
}

/// The suffix of a sealed file's name.
pub const EXTENSION: &str = ".parquet";

/// Whether a name is that of a sealed file.
pub fn is_sealed(name: &str) -> bool {
    name.ends_with(EXTENSION)
}
