//! What every part needs of the process and its host.
//!
//! * [`memory`]: the allocator, and how much memory this process may take.
//! * [`host`]: this host's name.
//! * [`live`]: a value that a reload replaces.
//! * [`watched`]: files that are read again when they change.
//! * [`mod@failpoint`]: places where a test can stop the process.

pub mod failpoint;
pub mod host;
pub mod live;
pub mod memory;
pub mod watched;
