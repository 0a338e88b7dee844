//! `[[tail]]`: the files to read.

use super::reading;
use super::section::{Report, Section};
use daytable_intake::glob::Pattern;
use daytable_intake::instance_template::InstanceTemplate;
use daytable_intake::path_fields::{PathFields, PathFieldsError};
use daytable_intake::source::ReadFrom;
use daytable_intake::tail::{TailOptions, Watch};
use daytable_model::units::{ByteSize, count};
use daytable_parse::Reading;
use daytable_parse::redact::Redaction;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A set of files and how they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailConfig {
    /// Its name among the metrics; no two are the same.
    pub name: String,
    /// The files, new ones included as they appear. At least one pattern.
    pub include: Vec<Pattern>,
    /// Of these, the ones to leave out.
    pub exclude: Vec<Pattern>,
    /// How the instance of a record is named.
    pub instance: InstanceTemplate,
    /// What the path of a file gives to its records.
    pub fields_from_path: Option<PathFields>,
    /// How lines are read.
    pub reading: Reading,
    /// Where to begin in a file that is found when the daemon starts for the first time.
    pub read_from: ReadFrom,
    /// Files that were not written to for so long are not begun; none begins all.
    pub ignore_older: Option<Duration>,
    /// A longer line is kept up to here and marked.
    pub line_bytes_max: ByteSize,
    /// Files held open at one time at most; the others take turns.
    pub open_files_max: NonZeroU16,
    /// How often a file is looked at where no event tells of it. One that stays quiet is looked at less and less often,
    /// down to once a second.
    pub poll: Duration,
    /// How changes are noticed.
    pub watch: Watch,
}

const NAME_MAX: usize = 64;
const LINE_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
const POLL: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

impl Default for TailConfig {
    fn default() -> TailConfig {
        TailConfig {
            name: "tail".into(),
            include: Vec::new(),
            exclude: Vec::new(),
            instance: InstanceTemplate::default(),
            fields_from_path: None,
            reading: Reading::default(),
            read_from: ReadFrom::Beginning,
            ignore_older: None,
            line_bytes_max: ByteSize::new(1 << 20),
            open_files_max: count(2048),
            poll: Duration::from_millis(250),
            watch: Watch::Auto,
        }
    }
}

impl TailConfig {
    /// All of them; `redact` are the patterns of the whole configuration. A block without a name is called `tail`, the next such one `tail-2`.
    pub(super) fn read_all(sections: Vec<Section<'_>>, report: &Report<'_>, redact: &[Redaction]) -> Vec<TailConfig> {
        let mut tails: Vec<TailConfig> = Vec::new();
        let mut unnamed = 0;
        for section in sections {
            let at = section.at();
            let mut next_name = || {
                unnamed += 1;
                if unnamed == 1 { "tail".into() } else { format!("tail-{unnamed}") }
            };
            let tail = TailConfig::read(section, &mut next_name, redact);
            if tails.iter().any(|other| other.name == tail.name) {
                report.add(at, format!("[[tail]]: two of them are called {:?}; give this one a name", tail.name));
            }
            tails.push(tail);
        }
        tails
    }

    fn read(mut section: Section<'_>, next_name: &mut dyn FnMut() -> String, redact: &[Redaction]) -> TailConfig {
        let default = TailConfig::default();
        let config = TailConfig {
            name: section.text("name", block_name).unwrap_or_else(next_name),
            include: section.texts("include", 1, Pattern::include).unwrap_or_default(),
            exclude: section.texts("exclude", 0, Pattern::exclude).unwrap_or_default(),
            instance: section.text("instance", str::parse).unwrap_or(default.instance),
            fields_from_path: section.text("fields_from_path", path_fields).unwrap_or_default(),
            reading: reading::read(&mut section, redact),
            read_from: section.choice(
                "read_from",
                default.read_from,
                &[("beginning", ReadFrom::Beginning), ("end", ReadFrom::End)],
            ),
            ignore_older: section.duration_or_off("ignore_older"),
            line_bytes_max: section.size("line_bytes_max", default.line_bytes_max, LINE_BYTES),
            open_files_max: section.count("open_files_max", default.open_files_max, u16::MAX),
            poll: section.duration("poll", default.poll, POLL),
            watch: section.choice("watch", default.watch, &[("auto", Watch::Auto), ("poll", Watch::Poll)]),
        };
        section.require("include", "include = [\"/var/log/*.log\"]");
        section.finish();
        config
    }
}

impl From<&TailConfig> for TailOptions {
    fn from(config: &TailConfig) -> TailOptions {
        let texts = |patterns: &[Pattern]| patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect();
        TailOptions {
            name: config.name.clone(),
            include: texts(&config.include),
            exclude: texts(&config.exclude),
            reading: config.reading.clone(),
            read_from: config.read_from,
            ignore_older: config.ignore_older,
            line_bytes_max: usize::try_from(config.line_bytes_max.get()).unwrap_or(2 << 20),
            open_files_max: config.open_files_max.get().into(),
            watch: config.watch,
            poll: config.poll,
            instance: config.instance.clone(),
            fields_from_path: config.fields_from_path.clone(),
        }
    }
}

fn path_fields(text: &str) -> Result<Option<PathFields>, PathFieldsError> {
    if text == "off" { Ok(None) } else { text.parse().map(Some) }
}

/// The name of a block of sources.
pub(super) fn block_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = (1..=NAME_MAX).contains(&text.len()) && text.chars().all(plain);
    if fits {
        Ok(text.into())
    } else {
        Err(format!("a name has 1 to {NAME_MAX} letters, digits, \"-\", \"_\" and \".\""))
    }
}
