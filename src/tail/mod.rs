//! Files are found, told apart, followed through rotation, and cut into lines.

mod content;
mod counters;
mod cursor;
mod discover;
mod hints;
mod identity;
mod lines;
mod names;
mod options;
mod patterns;

pub use counters::{BlockCounters, TailCounters};
pub use options::{Instance, ReadFrom, TailOptions, Watch};
