//! The files of a data folder: pages of open days, sealed days, and the catalog.

pub mod catalog;
pub(crate) mod commit_range;
pub(crate) mod day_file;
pub mod forward_intervals;
pub mod forward_position;
pub(crate) mod listed_rows;
pub mod page;
pub(crate) mod page_copy;
pub(crate) mod page_counts;
pub(crate) mod page_groups;
pub(crate) mod page_headers;
pub(crate) mod page_rows;
pub(crate) mod page_bloom;
pub mod sealed;
pub(crate) mod shared_pages;
pub(crate) mod shared_partitions;

/// Whether some sizes are small, so that few rows of a test cross their boundaries. Benchmarks measure the sizes of users,
/// although they are built with the features of tests.
pub(crate) const IS_SMALL: bool = cfg!(all(debug_assertions, any(test, feature = "testing")));
