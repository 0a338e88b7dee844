//! Archives: common properties of a folder, S3 and Azure Blob Storage, and the effects of failing or lying stores.
//!
//! * [`stores`]: the stores, with direct access, through which a test damages objects.
//! * [`stub`]: an S3 server that fails, hangs, truncates and lies on demand.
//! * [`sealed`]: sealed days to archive.
//! * `conformance`: one suite for every store. `faults`: wrong behaviour of a store gives no proof.
//! * `query`: queries of archived days that are no longer local, with the real binary.

mod conformance;
mod faults;
mod query;
mod sealed;
pub(crate) mod stores;
pub(crate) mod stub;
