//! daytable collects log records, stores each day's records in a separate table, and drops a day by dropping its table.
//!
//! This package is the program. Its parts are crates under `crates/`, so the compiler refuses circular dependencies;
//! `docs/architecture/index.md` has the picture. The modules here:
//!
//! * [`config`]: the configuration file, its defaults, its errors. It alone translates keys into the options of the parts.
//! * [`daemon`]: starts the parts, reloads them, drains and stops them.
//! * [`http`]: the listeners: metrics, health, the read API, pushes, the control socket.
//! * [`mcp`]: the tools of an agent.
//! * [`remote`]: the remote store, the feature `azure`.
//! * [`cli`]: the commands.
//! * [`verify`]: checks whether the data folder, the archives and the files that were read agree.
//! * [`metrics`]: one table of all metrics, by their Prometheus names.
//! * [`log`]: the log of the program itself.
//! * `generated`: compares generated tables of pages, in tests. `testing`: the private parts that properties need, with the feature `testing`.
//!
//! What does not exist, on purpose: sources do not know stores, and stores do not know sources (they meet in
//! [`Batch`](daytable_model::batch::Batch) and in [`CommitQueue`](daytable_store::CommitQueue)); a position is kept only in the commit that
//! holds its rows; no row is ever deleted to expire; only [`daytable_model::time`] asks for the time of day; only
//! `daytable-store` opens the data folder.

pub mod log;
pub mod verify;
pub mod metrics;
pub mod mcp;
pub mod http;
pub mod config;
pub mod remote;
pub mod daemon;
pub mod cli;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(test)]
mod generated;
