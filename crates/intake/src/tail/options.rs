//! Options of the tail: which files are read, and how.

use super::file_content::FileStat;
use crate::instance_template::InstanceTemplate;
use crate::path_fields::PathFields;
use crate::source::ReadFrom;
use daytable_model::time::Ticks;
use daytable_parse::ParseOptions;
use std::time::Duration;

/// Quiet after which a last line without an end becomes a record, by default.
const UNENDED_AFTER: Duration = Duration::from_secs(5);

/// One `[[tail]]` block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailOptions {
    /// The name of the block, and of its sources.
    pub name: String,
    /// Patterns of the files to read, for the whole path. `**` matches any number of folders.
    pub include: Vec<String>,
    /// Patterns of the files to leave out.
    pub exclude: Vec<String>,
    /// How lines are read.
    pub reading: ParseOptions,
    /// Where to begin in a file that exists at the first start.
    pub read_from: ReadFrom,
    /// A file is read from its end if it was not written to for so long at its discovery.
    pub ignore_older: Option<Duration>,
    /// Quiet after which a last line without an end becomes a record; `None` for never. A rotated file, which nobody goes on
    /// writing, does not wait for ever.
    pub unended_after: Option<Duration>,
    /// Bytes of a line that are kept, 2 MiB at most.
    pub line_bytes_max: usize,
    /// Files that may be open. Of several blocks, the largest number counts for all.
    pub open_files_max: usize,
    /// How changes are noticed.
    pub watch: WatchMode,
    /// How long a quiet file may wait for a check, if that is more than a second. A busy file is checked sooner.
    pub poll: Duration,
    /// How the instance of a record is named.
    pub instance: InstanceTemplate,
    /// The fields that a path adds to the records of its file.
    pub fields_from_path: Option<PathFields>,
    /// Whether the files are logs of containers, whose names and images are fields.
    pub containers: bool,
    /// Labels of containers that become fields, too.
    pub container_labels: Vec<String>,
    /// Fields of every record, as names and values.
    pub fields: Vec<(String, String)>,
}

impl TailOptions {
    /// A block with the defaults of the configuration.
    pub fn new(name: &str, include: Vec<String>) -> TailOptions {
        TailOptions {
            name: name.into(),
            include,
            exclude: Vec::new(),
            reading: ParseOptions::default(),
            read_from: ReadFrom::Beginning,
            ignore_older: None,
            unended_after: Some(UNENDED_AFTER),
            line_bytes_max: 1 << 20,
            open_files_max: 2048,
            watch: WatchMode::Auto,
            poll: Duration::from_millis(250),
            instance: InstanceTemplate::default(),
            fields_from_path: None,
            containers: false,
            container_labels: Vec::new(),
            fields: Vec::new(),
        }
    }
}

impl TailOptions {
    /// Whether a file was last written to so long ago that it is left out.
    pub(super) fn is_older(&self, stat: &FileStat, now: Ticks) -> bool {
        let age = now.unix_seconds() - stat.modified.0;
        self.ignore_older.is_some_and(|older| age > i64::try_from(older.as_secs()).unwrap_or(i64::MAX))
    }
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchMode {
    /// By the kernel's events and by polling.
    #[default]
    Auto,
    /// By polling alone: for network mounts, because a write on another host causes no event.
    Poll,
}

/// Waiting times. Only tests change them.
#[derive(Clone, Debug)]
pub(super) struct TailTimings {
    /// Between two checks of a file that is being written to.
    pub(super) poll_min: Duration,
    /// Between two checks of a quiet file.
    pub(super) poll_max: Duration,
    /// Between two checks of the modification times of folders.
    pub(super) folders: Duration,
    /// Between two walks through all folders.
    pub(super) rescan: Duration,
    /// Quiet after which the unfinished last line of a rotated file is final, where a block says that it never is.
    pub(super) line_final: Duration,
    /// Time after which zeros before other bytes are final.
    pub(super) zeros_final: Duration,
    /// Quiet after which a file that looks like the beginning of a copy becomes its own source.
    pub(super) copy_final: Duration,
    /// Quiet after which a rotated file is followed no longer.
    pub(super) rotated: Duration,
    /// Quiet after which the kernel reports the next write to a file.
    pub(super) watch_after: Duration,
    /// Quiet after which a watched file is polled rarely.
    pub(super) idle_after: Duration,
    /// Between two checks of an idle file.
    pub(super) idle_poll: Duration,
    /// Age at which even a few rows are submitted.
    pub(super) submit_after: Duration,
}

impl Default for TailTimings {
    fn default() -> TailTimings {
        TailTimings {
            poll_min: Duration::from_millis(10),
            poll_max: Duration::from_secs(1),
            folders: Duration::from_millis(500),
            rescan: Duration::from_secs(10),
            line_final: UNENDED_AFTER,
            zeros_final: Duration::from_secs(2),
            copy_final: Duration::from_secs(60),
            rotated: Duration::from_secs(3600),
            watch_after: Duration::from_millis(50),
            idle_after: Duration::from_secs(60),
            idle_poll: Duration::from_secs(30),
            submit_after: Duration::from_millis(100),
        }
    }
}
