//! Rows become records again: newest first, counted, or followed as they are committed.
//!
//! ```text
//! rows of a table ──► entity ──► joined ──► record ──► text, JSON
//!  newest first       owned      master +   of all tables,
//!                                items      newest first
//! ```
//!
//! * [`tables`]: the table-store trait, and the data folder behind it.
//! * [`when`]: points in time and ages as people write them.
//! * [`filter`]: which records are wanted. What can be told from a row's key and level is told before anything of the
//!   row is copied.
//! * [`entity`]: a row, owned; a master and its items put together.
//! * [`record`]: what a query gives, and its JSON form; [`text`] is the form for people.
//! * [`archived`]: days of which there is only an archive, read where they are.
//! * [`stores`]: where a query looks; `both`, `afar`: a day that is in a remote store and, not sent yet, in the data folder.
//! * [`mod@select`]: the records of all tables, newest first. A table is opened only when its newest row could be next.
//! * [`mod@count`]: how many, by time, level and instance, from page headers where they can tell.
//! * [`follow`]: records as they are committed.
//! * [`listing`]: what is shown of day-tables, sources and listeners.
//!
//! Everything but the three entry points works on iterators of entities and knows no store, so that the tests need
//! none. A table that is dropped while it is read has no more rows: what was read of it stays, nothing fails.
//!
//! Not done on purpose: no query language and no index but the key. What a filter cannot say, `jq` can.

pub mod tables;
pub mod when;
pub mod archived;
mod remote;
mod merged;
mod bounds;
pub mod stores;
pub mod filter;
pub mod entity;
pub mod record;
pub mod text;
pub mod select;
pub mod count;
pub mod follow;
pub mod listing;
#[cfg(test)]
mod tests;

pub use archived::{ArchiveReport, Archives};
pub use count::{Count, Grouping, count};
pub use entity::{OwnedRow, OwnedValue};
pub use filter::Filter;
pub use follow::RecordFollower;
pub use listing::{ShownListener, ShownSource, ShownTable};
pub use record::StoredRecord;
pub use select::{find_record, select};
pub use stores::Stores;
pub use when::{When, WhenError};
