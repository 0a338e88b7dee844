//! The life of the day-tables of a remote store, which several daytables may share: archived, verified, dropped, restored.
//!
//! ```text
//! expired, and no outbox has anything for it ──► archive ──► drop
//!                                                  │           └ read again: count and checksum are the archive's
//!                                                  └ read, sealed here, sent, read back
//! restored ──────────────────────────────────────► drop
//! ```
//!
//! * `notes`: what daytables tell each other, in a table of its own: what each one's outbox holds, what was restored.
//! * [`mod@plan`]: the pure function from tables, notes, archives, rules and the time to steps, and to the reason for
//!   each day that stays.
//! * `buckets`: over how many partitions each of them spreads its instances, in another.
//! * `hands`: takes the steps. * [`run`]: the thread that tells and plans.
//!
//! Tables are not created here: whoever sends creates them, also ahead.
//!
//! **Who may drop.** One of them all, the *owner*. It drops a day that has expired when each daytable that it knows of
//! has told, at least [`LANDS_WITHIN`](plan::LANDS_WITHIN) ago and after the day had expired, that its outbox holds nothing as old. After that
//! none of them admits anything for the day, for its window is over by its own clock, and all of its requests for it were
//! answered, or are too old to land. All of them are to have the same tables configured.
//!
//! **What is dropped is what is archived.** Just before a table goes it is read as a whole, and its rows and their
//! checksum have to be those that the archive's manifest has. What came later is archived first, as another generation.
//!
//! The service clears a dropped table away for a minute or so. A restored day whose name it has not let go of yet waits for it.

pub mod listing;
mod archive;
mod buckets;
mod executor;
mod merge;
mod notes;
pub mod plan;
mod restore;
pub mod run;

pub use buckets::{BUCKETS, Spreading};
pub use executor::SharedExecutor;
pub use notes::{Host, Notes, RestoredTable};
pub use plan::{SharedView, plan};
pub use run::Shared;
