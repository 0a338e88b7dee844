//! Queries: rows become records again, newest first, counted, or followed as they are committed.
//!
//! ```text
//! rows of a table ──► entity ──► joined ──► record ──► text, JSON
//!  newest first       owned      master +   of all tables,
//!                                items      newest first
//! ```
//!
//! * [`tables`]: the table-store trait, and the data folder behind it.
//! * [`when`]: points in time and ages as people write them.
//! * [`filter`]: which records match. The key and level of a row are tested before anything is copied.
//! * [`entity`]: joins a master row and its items.
//! * [`record`]: the result of a query, and its JSON form; [`text`] is the form for people, with [`highlight`] for what
//!   matched.
//! * [`archived`]: days that exist only as archives, read there.
//! * `lake_days`: the archives of all hosts at one address, without a data folder.
//! * [`stores`]: where a query reads; `merged`, `remote`: a day that is in a remote store and, if not yet sent, in the
//!   data folder.
//! * [`mod@select`]: the records of all tables, newest first. A table is opened only when its newest row could be next.
//! * [`export`]: an answer as a table: CSV, Parquet.
//! * [`mod@count`]: numbers of records by time, level and instance, from page headers if possible.
//! * [`follow`]: records as they are committed.
//! * [`patterns`]: lines without their changing parts, counted.
//! * [`answer`]: the answer of a query of the language: records, or the rows of its pipes.
//! * [`listing`]: the shown form of day-tables, sources and listeners.
//!
//! Everything except the entry points works on iterators of entities and knows no store, so tests need no store. A
//! table that is dropped while it is read yields no more rows, without an error.

pub mod tables;
pub mod when;
pub mod archived;
mod lake_days;
mod remote;
mod merged;
mod bounds;
pub mod stores;
pub mod filter;
pub mod entity;
pub mod record;
pub mod highlight;
pub mod text;
pub mod select;
mod spilled;
pub mod answer;
pub mod export;
pub mod count;
pub mod follow;
pub mod patterns;
pub mod listing;
#[cfg(test)]
mod tests;

pub use archived::{ArchiveReport, Archives};
pub use bounds::{partitions_max, times_of};
pub use count::{Count, Grouping, count};
pub use entity::{OwnedRow, OwnedValue};
pub use filter::{DayChooser, Filter, PartitionChooser};
pub use follow::{RecordFollower, records_since};
pub use lake_days::LakeReport;
pub use listing::{ShownClock, ShownListener, ShownSource, ShownStatus, ShownTable, ShownUnended};
pub use record::StoredRecord;
pub use select::{find_record, select, select_while};
pub use stores::Stores;
pub use when::{When, WhenError};
