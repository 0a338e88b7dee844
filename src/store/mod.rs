//! The embedded engine: open days in SQLite as pages of entities, and a catalogue that says what is true.
//!
//! ```text
//! catalog.db                the commit point: sources and their positions, day-tables, live files, format version
//! tables/Log20261121.1.db   an open day: pages                      (name, generation)
//! control.sock              while a daemon runs
//! lock                      held by the one process that writes
//! trash/                    what was dropped or set aside, being removed
//! ```
//!
//! The way in: [`intake`] is the bounded queue that sources submit to, [`commit`] the one committer behind it,
//! [`page`] what it makes of a partition's batches, [`day`] the file they go to, [`catalogue`] the commit point,
//! [`tidy`] what merges small pages later. The way out is [`read`], in any process. What belongs to a source is
//! [`source`].
//!
//! **Commit k**: (1) in every open day it touches, one transaction inserts pages marked `seq = k`; (2) in the
//! catalogue, one transaction moves the positions, notes each touched file's last `seq` and number of entities, and
//! sets `committed = k`: this is the commit point; (3) acknowledge. Pages above `committed` never happened: readers
//! pass them over, and whoever opens the folder to write sets them aside before anything else is written.

pub mod catalogue;
pub mod commit;
pub mod error;
pub mod intake;
pub mod page;
pub mod read;
pub mod source;
mod sqlite;

pub use error::StoreError;
pub use intake::{Advance, Done, Intake, Refused, Submission};
pub use read::{Followed, MinuteCount, Range, Reader, Row, Scan, TableSummary};
pub use source::{Ledger, Mark, SourceKind, SourceState, SourceStatus};
