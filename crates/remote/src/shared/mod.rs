//! The lifecycle of the day-tables of a remote store, which several daemons may share: archive, verify, drop, restore.
//!
//! ```text
//! expired, and no outbox has rows for it ──► archive ──► drop
//!                                              │           └ read again: count and checksum are those of the archive
//!                                              └ read, sealed here, sent, read back
//! restored ──────────────────────────────────► drop
//! ```
//!
//! * `notes`: a table with the content of each outbox and with the restored days, for all daemons.
//! * `buckets`: a table with the number of partitions of each daemon's instances.
//! * [`mod@plan`]: the pure function from tables, notes, archives, rules and the time to steps, and to the reason for
//!   each day that stays.
//! * `executor`: takes the steps. * [`run`]: the thread that writes the notes and plans.
//!
//! Tables are not created here: the sender of the outbox creates them.
//!
//! **One daemon may drop**: the *owner*. It drops an expired day after each known daemon has noted, after the expiry
//! and at least [`LANDS_WITHIN`](plan::LANDS_WITHIN) ago, that its outbox holds no rows as old. From then on no
//! daytable admits rows for the day, because the window is over by its own clock, and all its requests for the day
//! were answered, or are too old to be carried out. All daemons must have the same tables configured.
//!
//! **A dropped day is in its archive.** Just before the drop the table is read as a whole: number and checksum of its
//! rows must be those of the archive's manifest. Rows that came after the archive are archived first, as another
//! generation.
//!
//! The service clears a dropped table away for about a minute. A restore under this name waits for that.

pub mod listing;
mod archive;
mod buckets;
mod executor;
mod merge;
mod notes;
pub mod plan;
mod restore;
pub mod run;

pub use buckets::{BUCKETS, HostBucketPlan};
pub use executor::SharedExecutor;
pub use notes::{Host, Notes, RestoredTable};
pub use plan::{SharedView, plan};
pub use run::SharedLifecycle;
