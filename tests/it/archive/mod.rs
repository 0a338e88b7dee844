//! Archives: what holds of a folder, of S3 and of Azure Blob Storage alike, and what happens where they fail or lie.
//!
//! * [`stores`]: the stores, each with a back door through which a test damages what is in them.
//! * [`stub`]: an S3 server of our own that fails, hangs, truncates and lies on demand.
//! * [`sealed`]: sealed days to archive.
//! * `conformance`: one suite, run against every store; `faults`: what a store does wrong, and that no proof comes of it.
//! * `query`: days of which there is only an archive, asked over the real binary.

mod conformance;
mod faults;
mod query;
mod sealed;
mod stores;
mod stub;
