//! What the tailer is told: which files, and how they are read.

use crate::parse::FormatChoice;
use crate::record::{Record, Value};
use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

/// One `[[tail]]` block.
#[derive(Clone, Debug)]
pub struct TailOptions {
    /// Its name; the sources it begins carry it.
    pub name: String,
    /// Patterns of the files to follow, by their whole path. `**` is any number of folders.
    pub include: Vec<String>,
    /// Patterns of those of them to leave out.
    pub exclude: Vec<String>,
    /// How lines are read.
    pub format: FormatChoice,
    /// Where to begin with a file that is there when the daemon starts and is not known.
    pub read_from: ReadFrom,
    /// A file not written to for so long when it is found is read from its end.
    pub ignore_older: Option<Duration>,
    /// Bytes of a line that are kept at most; 2 MiB is the limit of this limit.
    pub line_bytes_max: usize,
    /// Descriptors held open at most; of several blocks, the largest number counts for all.
    pub open_files_max: usize,
    /// How changes are noticed.
    pub watch: Watch,
    /// How long a file that was just written to is left alone at most; one that stays quiet is looked at once a second.
    pub poll: Duration,
    /// How the instance of a record is named.
    pub instance: Instance,
}

/// Where to begin with a file that was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// At its first byte.
    #[default]
    Beginning,
    /// Behind its last line.
    End,
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watch {
    /// By events where they come, and by polling folders.
    #[default]
    Auto,
    /// By polling alone.
    Poll,
}

/// How the instance of a record is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instance {
    /// The name of this host.
    Host,
    /// The path of the file.
    Path,
    /// The name of the file without its extension.
    Stem,
    /// The same for every record.
    Text(String),
    /// A field of the record, and the name of this host for a record without it.
    Field(String),
}

impl Instance {
    /// The instance of a record of the file at `path`.
    pub fn render<'a>(&'a self, host: &'a str, path: &'a str, record: &'a Record<'_>) -> Cow<'a, str> {
        match self {
            Instance::Host => host.into(),
            Instance::Path => path.into(),
            Instance::Stem => Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or(path).into(),
            Instance::Text(text) => text.into(),
            Instance::Field(name) => {
                let value = record.fields.iter().find(|field| field.name == *name).map(|field| &field.value);
                match value {
                    Some(Value::String(text)) if !text.is_empty() => text.as_ref().into(),
                    Some(Value::Int64(n)) => n.to_string().into(),
                    Some(Value::Double(n)) => n.to_string().into(),
                    Some(Value::Boolean(b)) => b.to_string().into(),
                    Some(Value::String(_)) | None => host.into(),
                }
            }
        }
    }

    /// Whether every record of a file has the same.
    pub fn is_fixed(&self) -> bool {
        !matches!(self, Instance::Field(_))
    }
}

impl TailOptions {
    /// A block with the defaults of the configuration.
    pub fn new(name: &str, include: Vec<String>) -> TailOptions {
        TailOptions {
            name: name.into(),
            include,
            exclude: Vec::new(),
            format: FormatChoice::Auto,
            read_from: ReadFrom::Beginning,
            ignore_older: None,
            line_bytes_max: 1 << 20,
            open_files_max: 512,
            watch: Watch::Auto,
            poll: Duration::from_millis(250),
            instance: Instance::Host,
        }
    }
}

/// How long things are waited for. Only tests have other values than the default.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Between two looks at a file that is being written to.
    pub(super) look_min: Duration,
    /// Between two looks at a file that is quiet.
    pub(super) look_max: Duration,
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
    /// Age at which rows are handed over, whatever their number.
    pub(super) hand_over: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            look_min: Duration::from_millis(10),
            look_max: Duration::from_secs(1),
            folders: Duration::from_millis(500),
            rescan: Duration::from_secs(10),
            line_final: Duration::from_secs(5),
            copy_final: Duration::from_secs(60),
            rotated: Duration::from_secs(3600),
            hand_over: Duration::from_millis(100),
        }
    }
}
