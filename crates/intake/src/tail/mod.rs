//! Files are found, told apart, followed through rotation, and read record by record.
//!
//! One thread serves every `[[tail]]` block. What it knows it has from the store ([`Intake::sources`]), what it reads it
//! hands to the store ([`Intake::submit`]), rows and positions in one piece; it keeps nothing of its own on the disk.
//!
//! * `source`: all blocks of the section. `options`: their settings.
//! * `change`: other blocks, while it runs.
//! * `follower`: the loop. `files`, `followed`: what is followed, and how many descriptors that takes.
//! * `discover`, `patterns`, `hints`: which files there are. `drowsy`: those that nothing is written to.
//! * `adopt`, `kin`: what a file that was found is. `resume`, `rotation`: what became of one that was followed, while the
//!   daemon was down and while it runs. They get their facts from `search` and `content`, and their decisions from
//!   `identity` and `names`, which touch no file.
//! * `gzip`: what gzip(1) reads, and no less.
//! * `known`, `parked`: sources without a file, and files without a source.
//! * `cursor`: reading on in one file, and the records in what was read. `lag`: for how long something is not read.
//! * `import`: files that are read once, to their end. `begun`: sources that begin where another collector stopped.

mod adopt;
mod start_position;
mod check;
mod change;
mod file_content;
mod file_reader;
mod discover;
mod idle_files;
mod followed_files;
mod follower;
mod followed_file;
mod gzip;
mod wakeup;
mod identity;
mod import;
mod related_files;
mod source_index;
mod lag;
mod names;
mod options;
mod ignored_files;
mod path_patterns;
mod resume;
mod rotation;
mod search;
mod source;

pub use check::{FileCheck, check};
pub use import::{ImportError, ImportProgress, ImportSummary, import};
pub use options::{TailOptions, WatchMode};
pub use source::{PreparedTail, Tail};
pub use start_position::{AdoptedFile, StartPosition, matching_files, start_positions};

#[cfg(test)]
mod tests;
