//! Questions to columns as they are encoded, instead of to rows.
//!
//! A filter is decided for the rows of a batch at once. What columns cannot decide stays open, and is decided by the
//! record itself: a record of several rows, or a condition over the whole line. So a filter has one meaning, that of
//! its predicate on records; columns only say which records need not be made.

mod filter;

pub(crate) use filter::ColumnFilter;
