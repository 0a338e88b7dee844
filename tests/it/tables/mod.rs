//! What holds of every table store: the same suite against a data folder and Azurite.
//!
//! * `conformance`: the suite.
//! * `stores`: the stores that it is run against.
//! * `reading`: a host whose store is remote is asked. * `life`: the life of its tables.
//! * `copy`: tables go from one store to another.

mod conformance;
mod copy;
mod life;
mod reading;
pub(crate) mod stores;
