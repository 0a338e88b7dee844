//! What holds of every table store: the same suite against a data folder and Azurite.
//!
//! * `conformance`: the suite.
//! * `stores`: the stores that it is run against.

mod conformance;
pub(crate) mod stores;
