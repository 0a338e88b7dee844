//! daytable takes log records in, writes each day's records to a table of its own, and drops a day with one drop.
//!
//! This package is the program. Its parts are crates under `crates/`, which the compiler keeps from depending on each other
//! in circles; `docs/architecture/index.md` has the picture. The modules here:
//!
//! * [`config`]: the configuration file, its defaults, its errors. It alone translates keys into the options of the parts.
//! * [`daemon`]: starts the parts, connects them, drains and stops them.
//! * [`http`]: the listeners: metrics, health, the reading API, pushes, the control socket.
//! * [`remote`]: the remote store, the feature `azure`.
//! * [`cli`]: the commands.
//! * [`verify`]: checks whether the data folder, the archives and the files that were read agree.
//! * [`metrics`]: every metric, by its Prometheus name.
//! * [`log`]: what the program logs about itself.
//! * `testing`: what properties need of private parts, with the feature `testing`.
//!
//! What does not exist, on purpose: sources do not know stores, and stores do not know sources (they meet in
//! [`Batch`](daytable_model::batch::Batch) and in [`CommitQueue`](daytable_store::CommitQueue)); a position is kept only in the commit that
//! holds its rows; no row is ever deleted to expire; only [`daytable_model::time`] asks for the time of day; only
//! `daytable-store` opens the data folder.

pub mod log;
pub mod verify;
pub mod metrics;
pub mod http;
pub mod config;
pub mod remote;
pub mod daemon;
pub mod cli;
#[cfg(feature = "testing")]
pub mod testing;
