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
//! * `view`: reads the input of the plan. `executor`: takes the steps; `staging` is the folder for the files of a step.
//! * [`run`]: the thread that writes the notes and plans.
//!
//! Tables are not created here: the sender of the outbox creates them.
//!
//! **One daemon may drop**: the *owner*. The owner drops an expired day only after every known daemon has noted that
//! its outbox has no rows as old. Each note must be later than the expiry, and at least
//! [`LANDS_WITHIN`](plan::LANDS_WITHIN) old. After its note, no daemon admits rows for the day, because the window is
//! over by its own clock. All its requests for the day were answered, or are too old to be executed. All daemons must
//! have the same tables configured.
//!
//! **A dropped day is in its archive.** Just before the drop the whole table is read. The number and checksum of its
//! rows must match the archive's manifest. Later rows are archived first, as another generation.
//!
//! The service needs about a minute to delete a dropped table. A restore under the same name waits.

pub mod listing;
mod archive;
mod buckets;
mod executor;
mod merge;
mod notes;
pub mod plan;
mod restore;
pub mod run;
mod staging;
mod view;

pub use buckets::{BUCKETS, HostBucketPlan};
pub use executor::SharedExecutor;
pub use notes::{Host, Notes, RestoredTable};
pub use plan::{SharedView, plan};
pub use run::SharedLifecycle;
