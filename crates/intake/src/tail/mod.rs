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
mod begun;
mod check;
mod change;
mod content;
mod cursor;
mod discover;
mod drowsy;
mod files;
mod follower;
mod followed;
mod gzip;
mod hints;
mod identity;
mod import;
mod kin;
mod known;
mod lag;
mod names;
mod options;
mod parked;
mod patterns;
mod resume;
mod rotation;
mod search;
mod source;

pub use begun::{Adoptee, Begun, begin, matches};
pub use check::{Found, check};
pub use import::{ImportError, Imported, Progress, import};
pub use options::{TailOptions, Watch};
pub use source::{PreparedTail, Tail};

#[cfg(test)]
mod tests;
