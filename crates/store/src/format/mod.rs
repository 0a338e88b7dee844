//! The files of a data folder: pages of open days, sealed days, and the catalog.

pub mod catalog;
pub(crate) mod day_file;
pub mod page;
pub(crate) mod page_counts;
pub(crate) mod page_groups;
pub(crate) mod page_headers;
pub(crate) mod page_rows;
pub(crate) mod page_sieve;
pub mod sealed;
pub(crate) mod shared_pages;
pub(crate) mod shared_partitions;
