//! Maintenance of a data folder: compaction, checks, repair, backup, and the removal of orphans.

pub(crate) mod backup;
pub mod check;
pub(crate) mod compaction;
pub mod disk_usage;
pub(crate) mod orphans;
pub(crate) mod page_copies;
pub(crate) mod repair;
pub(crate) mod thresholds;
pub(crate) mod unnamed_files;
