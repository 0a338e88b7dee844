//! `catalog.db`: which commits, files, day-tables and sources exist. A file that the catalog does not name is not data.
//!
//! The transaction that sets `committed = k` is the commit point of commit k (`commit`). One module has each duty; all
//! of them extend [`Catalog`], which is the open database (`database`).
//!
//! ```text
//! schema        the tables                       sources       sources, and their log (source_log, source_rows)
//! files         live files, files being made     accounting    records and rows, counted twice
//! days          day-tables                       idempotency   keys of pushes that may be repeated
//! lifecycle     seal, restore, drop              commit_clock  the outbox: whether there is one, times of commits
//! archives      archives that were read back     rules         state that a daemon leaves for the next one
//! attempts      steps that a kill interrupted                  forwarding    of a sender: its origin, checksums of commits
//! hosts         of a receiver: credentials, positions of senders
//! host_renewal  of a receiver: a credential takes the place of another one      table_bounds  which tables it may write (name_pattern)
//! ```

pub mod accounting;
mod archives;
mod attempts;
mod commit;
pub(crate) mod commit_clock;
mod database;
mod days;
mod files;
pub(crate) mod forwarding;
mod host_renewal;
pub mod hosts;
pub mod idempotency;
mod lifecycle;
pub mod name_pattern;
mod rules;
mod schema;
mod source_log;
mod source_rows;
mod sources;
pub mod table_bounds;
mod values;

pub use archives::Archived;
pub use attempts::InterruptedStep;
pub use commit::Committed;
pub use database::Catalog;
pub use days::{Day, DayState};
pub use files::{FileRole, LiveFile, Seal};
pub(crate) use files::{NamedFiles, NewFile, Touched};
pub use lifecycle::Permit;
pub use rules::{Rule, WatchedTime};
pub(crate) use source_log::CHECKPOINT_COMMITS;

#[cfg(test)]
mod tests;
