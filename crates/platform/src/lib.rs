//! What every part of daytable needs of its process and host.
//!
//! * [`budget`]: the memory that questions may use, and texts that are bounded before they are made.
//! * `over_budget`: the refusal of a question that needs more.
//! * [`scratch`]: room on disk for what outgrows the memory of a question.
//! * [`in_parallel`]: the same work for several things at once.
//! * [`memory`]: the allocator, and the memory limit of this process.
//! * [`host`]: the name of this host.
//! * [`group`]: the groups of this host.
//! * [`reloadable`]: a value that a reload of the configuration replaces.
//! * [`file_watch`]: files that are read again after they change.
//! * [`small_file`]: the text of a small file, such as a secret.
//! * [`error_text`]: errors with their causes.
//! * [`lower_priority`]: for threads that can wait.
//! * [`scan_scheduler`]: CPU slots, for long work.
//! * [`lock`]: a lock that survives a panic.
//! * [`mod@failpoint`]: points at which a test can stop the process.

pub mod budget;
pub mod error_text;
pub mod failpoint;
pub mod file_watch;
pub mod group;
pub mod host;
pub mod in_parallel;
pub mod memory;
pub mod reloadable;
pub mod scan_scheduler;
pub mod scratch;
pub mod small_file;
mod over_budget;
mod priority;
mod sync;

pub use priority::lower_priority;
pub use sync::lock;
