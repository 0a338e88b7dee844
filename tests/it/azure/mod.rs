//! Azure Table storage, played by Azurite, and the possible faults between it and daytable.
//!
//! * [`emulator`]: Azurite's tables on a port of their own, and Microsoft's client for Python, which reads them back.
//! * [`proxy`]: a proxy before Azurite, which records requests and fails on demand.
//! * `identity`: accounts without keys.
//! * `client`: the client of `daytable_azure` against both.

pub(crate) mod emulator;
#[allow(dead_code, reason = "not every fault is told to by every test")]
pub(crate) mod proxy;

mod client;
mod identity;
