//! Files: discovered, identified, followed through rotation, and read record by record.
//!
//! One thread reads all `[[tail]]` blocks. The thread keeps nothing on disk of its own: it gets its positions from the store
//! ([`CommitQueue::sources`](daytable_store::CommitQueue::sources)), and submits rows together with the positions behind them
//! ([`CommitQueue::submit`](daytable_store::CommitQueue::submit)).
//!
//! * `source`: all blocks of the section. `options`: their settings. `change`: other blocks while the thread runs.
//! * `follower`: the loop, which connects the parts below. `blocks`: options and counters by block.
//! * `discovery`, `path_patterns`, `wakeup`: which files exist, and when a folder changed. `write_watches`: quiet files,
//!   whose next write the kernel reports. `ignored_files`: files that are not read, and why.
//! * `discovered_files`, `related_files`: which source a discovered file is. `resume`, `rotation`: where the file of a known
//!   source is, after a pause and while the thread runs. They look at files through `search` and `file_content`. `identity`
//!   and `names` decide, and touch no file. `source_index`: all known sources, by their file, first line and path.
//! * `followed_files`, `followed_file`: the files that are read, their descriptors, and when each is checked. `lag`: since
//!   when a file has unread bytes.
//! * `chunk_reader`, `file_reader`: a chunk of one file becomes rows. `holes`: zeros, where nothing was written. `from_start`, `gzip`: compressed files. `submissions`:
//!   rows and positions on their way into a commit.
//! * `import`: files that are read once. `imported_sources`: which source such a file is. `start_position`: sources that begin where another collector stopped. `check`: does
//!   a file still have what was read of it? `binary_data`: files without lines.

mod binary_data;
mod blocks;
mod change;
mod check;
mod chunk_reader;
mod containers;
mod discovered_files;
mod discovery;
mod file_content;
mod file_reader;
mod followed_file;
mod followed_files;
mod follower;
mod from_start;
mod gzip;
mod holes;
mod identity;
mod write_watches;
mod ignored_files;
mod import;
mod imported_sources;
mod lag;
mod names;
mod options;
mod path_patterns;
mod related_files;
mod resume;
mod rotation;
mod search;
mod source;
mod source_index;
mod start_position;
mod submissions;
mod survey;
mod wakeup;

pub use check::{FileCheck, check};
pub use import::{ImportError, ImportFile, ImportProgress, ImportSummary, UNTIMED_FILES_MAX, UntimedFile, import};
pub use options::{TailOptions, WatchMode};
pub use path_patterns::PathPatterns;
pub use source::{PreparedTail, Tail};
pub use start_position::{AdoptedFile, StartPosition, start_positions};
pub use survey::{SurveyedPath, UnreadReason, survey};

#[cfg(test)]
mod tests;
