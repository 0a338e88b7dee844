//! What the tailer is told: which files, and how they are read.

use super::path_patterns::PathPatterns;
use crate::instance_template::InstanceTemplate;
use crate::path_fields::PathFields;
use crate::source::ReadFrom;
use daytable_parse::Reading;
use std::path::Path;
use std::time::Duration;

/// One `[[tail]]` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailOptions {
    /// Its name; the sources it begins carry it.
    pub name: String,
    /// Patterns of the files to follow, by their whole path. `**` is any number of folders.
    pub include: Vec<String>,
    /// Patterns of those of them to leave out.
    pub exclude: Vec<String>,
    /// How lines are read.
    pub reading: Reading,
    /// Where to begin with a file that is there when the daemon starts and is not known.
    pub read_from: ReadFrom,
    /// A file not written to for so long when it is found is read from its end.
    pub ignore_older: Option<Duration>,
    /// Bytes of a line that are kept at most; 2 MiB is the limit of this limit.
    pub line_bytes_max: usize,
    /// Descriptors held open at most; of several blocks, the largest number counts for all.
    pub open_files_max: usize,
    /// How changes are noticed.
    pub watch: WatchMode,
    /// How long a quiet file is left alone at most, where that is more than a second; a busy one is looked at sooner.
    pub poll: Duration,
    /// How the instance of a record is named.
    pub instance: InstanceTemplate,
    /// What the path of a file gives to its records.
    pub fields_from_path: Option<PathFields>,
}

impl TailOptions {
    /// A block with the defaults of the configuration.
    pub fn new(name: &str, include: Vec<String>) -> TailOptions {
        TailOptions {
            name: name.into(),
            include,
            exclude: Vec::new(),
            reading: Reading::default(),
            read_from: ReadFrom::Beginning,
            ignore_older: None,
            line_bytes_max: 1 << 20,
            open_files_max: 2048,
            watch: WatchMode::Auto,
            poll: Duration::from_millis(250),
            instance: InstanceTemplate::default(),
            fields_from_path: None,
        }
    }

    /// Whether the block reads the file at `path`.
    pub fn includes(&self, path: &Path) -> bool {
        PathPatterns::new(self).is_ok_and(|patterns| patterns.take(path))
    }
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// By the kernel's events where they come, by polling where they do not.
    #[default]
    Auto,
    /// By polling alone: for network mounts, whose other writers cause no events.
    Poll,
}

/// How long things are waited for. Only tests have other values than the default.
#[derive(Clone, Debug)]
pub(super) struct TailTimings {
    /// Between two looks at a file that is being written to.
    pub(super) poll_min: Duration,
    /// Between two looks at a file that is quiet.
    pub(super) poll_max: Duration,
    /// Between two looks at the times of the folders.
    pub(super) folders: Duration,
    /// Between two walks through all folders.
    pub(super) rescan: Duration,
    /// Quiet after which the unfinished last line of a rotated file is final.
    pub(super) line_final: Duration,
    /// Quiet after which a file that looks like the beginning of a copy is a file of its own.
    pub(super) copy_final: Duration,
    /// Quiet after which a rotated file is no longer watched.
    pub(super) rotated: Duration,
    /// Quiet after which the kernel is asked to tell of a file.
    pub(super) idle_after: Duration,
    /// Between two looks at a file of which the kernel tells.
    pub(super) idle_poll: Duration,
    /// Age at which rows are handed over, whatever their number.
    pub(super) submit_after: Duration,
}

impl Default for TailTimings {
    fn default() -> TailTimings {
        TailTimings {
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_secs(1),
            folders: Duration::from_millis(500),
            rescan: Duration::from_secs(10),
            line_final: Duration::from_secs(5),
            copy_final: Duration::from_secs(60),
            rotated: Duration::from_secs(3600),
            idle_after: Duration::from_secs(60),
            idle_poll: Duration::from_secs(30),
            submit_after: Duration::from_millis(100),
        }
    }
}
