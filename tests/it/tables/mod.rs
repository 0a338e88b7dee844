//! Properties of every table store: the same suite against a data folder and Azurite.
//!
//! * `conformance`: the suite.
//! * `stores`: the stores under test.
//! * `reading`: queries of a host with a remote store.
//! * `life`: the life of its tables.
//! * `copy`: tables are copied from store to store.

mod conformance;
mod copy;
mod life;
mod reading;
pub(crate) mod stores;
