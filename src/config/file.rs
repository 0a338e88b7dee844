//! The file as a whole.

use super::environment::{AppendedVariables, Variable};
use super::error::{ConfigError, Problem, line_and_column};
use super::key::{self, ConfigKey, KeyDraft, SectionDoc, SectionPlace, duration, text};
use super::parts::{ConfigPart, parts};
use super::section::{ProblemList, Section};
use super::values::{absolute, or_word, size_at_least};
use super::{Changes, HttpConfig, LifecycleConfig, SourceBlocks, StoreConfig, TableConfig, reading};
use crate::log::LogOptions;
use daytable_alert::{AlertRule, DeliveryOptions};
use daytable_archive::Access;
use daytable_lifecycle::LifecycleLimits;
use daytable_model::path_text::PathText;
use daytable_model::units::ByteSize;
use daytable_parse::ParseOptions;
use daytable_parse::redact::{Redaction, Redactor};
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;

/// Bytes of a configuration file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The minimum commits the accepted records on any working disk.
const DRAIN_TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// The whole configuration. `Default` is that of an empty file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder for all data.
    pub data_dir: PathBuf,
    /// How long a stop may take. Records that are not committed by then are read or sent again.
    pub drain_timeout: Duration,
    /// The memory of the process, or `None` for the limit of the control group.
    pub memory_max: Option<ByteSize>,
    /// The secrets that are replaced in every record. Blocks add their own.
    pub redact: Vec<Redaction>,
    /// `[http]`
    pub http: HttpConfig,
    /// The blocks of sources.
    pub sources: SourceBlocks,
    /// `[[table]]`, in the order of the file: at least one. The last one accepts all remaining records.
    pub tables: Vec<TableConfig>,
    /// `[archives]`
    pub archives: Access,
    /// `[alerts]`
    pub alerts: DeliveryOptions,
    /// `[[alert]]`, in the order of the file.
    pub alert_rules: Vec<AlertRule>,
    /// `[lifecycle]`
    pub lifecycle: LifecycleConfig,
    /// `[store]`
    pub store: StoreConfig,
    /// `[log]`
    pub log: LogOptions,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: "/var/lib/daytable".into(),
            drain_timeout: Duration::from_secs(25),
            memory_max: None,
            redact: Vec::new(),
            http: HttpConfig::default(),
            sources: SourceBlocks::default(),
            tables: TableConfig::defaults(),
            archives: Access::default(),
            alerts: DeliveryOptions::default(),
            alert_rules: Vec::new(),
            lifecycle: LifecycleConfig::default(),
            store: StoreConfig::default(),
            log: LogOptions::default(),
        }
    }
}

/// The keys before the first section.
pub(super) struct TopKeys;

impl ConfigPart for TopKeys {
    fn doc(&self) -> SectionDoc {
        SectionDoc::new("the file", SectionPlace::Top, keys(), &mut Config::default())
    }

    fn read(&self, file: &mut Section<'_>, config: &mut Config) {
        *config = key::read(&keys(), file, Config::default());
    }

    fn compare(&self, before: &mut Config, now: &mut Config, changes: &mut Changes) {
        let keys = key::compare(&keys(), before, now);
        keys.into_iter().for_each(|(key, needs_restart)| changes.add(key.into(), needs_restart));
    }
}

fn keys() -> Vec<ConfigKey<Config>> {
    vec![
        text("data_dir", "an absolute path", |config: &mut Config| &mut config.data_dir, absolute)
            .default("\"/var/lib/daytable\"")
            .at_restart("The folder for all data: day-tables, catalog, control socket. A folder has one daemon."),
        duration("drain_timeout", |config: &mut Config| &mut config.drain_timeout, DRAIN_TIMEOUT).live(
            "How long a stop may take. It has to be shorter than the time until a kill (Kubernetes 30s, the systemd unit 90s). daytable does not \
             acknowledge records that are not committed by then; they are read or sent again.",
        ),
        text(
            "memory_max",
            "a size of at least \"16MiB\", or \"auto\"",
            |config: &mut Config| &mut config.memory_max,
            |text| or_word("auto", text, |text| size_at_least(ByteSize::new(16 << 20), text)),
        )
        .default("\"auto\"")
        .at_restart(
            "The memory for daytable. \"auto\" is the limit of the control group (of the container, or MemoryMax=). Below 512MiB, daytable uses smaller \
             buffers: bodies of pushes, rows that wait for a commit, unfinished messages, concurrent scans.",
        ),
        KeyDraft::by_hand("redact", "a list of texts and tables", |config: &mut Config| &mut config.redact, |section, config| {
            config.redact = reading::read_redact(section, 0);
        })
        .default("[]")
        .live(
            "Secrets to replace in messages, fields and field names before anything is stored: any of \"credit-card\", \"email\", \"bearer-token\" \
             (Authorization headers and JSON web tokens) and \"private-key\", and your own patterns: \
             { name = \"password\", regex = 'password=(\\S+)', replace = \"***\" }. daytable_redactions_total{pattern} counts the replacements.",
        ),
    ]
}

impl Config {
    /// Reads a file, and the variables that replace its keys. Without a file, only the variables.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Read`] where the file cannot be read or is larger than 1 MiB; [`ConfigError::Invalid`] where the file or
    /// a variable has problems.
    pub fn load_with(path: Option<&Path>, variables: &[Variable]) -> Result<Config, ConfigError> {
        let text = path.map(read_file).transpose()?;
        let name = path.map_or_else(|| "the environment".into(), |path| path.text().into_owned());
        Config::parse_with(text.as_deref().unwrap_or_default(), &name, variables)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// As [`Config::load_with`].
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        Config::load_with(Some(path), &[])
    }

    /// Reads the text of a file. Problems have `file_name`.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with every problem. For a text that is not TOML, only the problems of the syntax.
    pub fn parse(text: &str, file_name: &str) -> Result<Config, ConfigError> {
        Config::parse_with(text, file_name, &[])
    }

    /// Reads the text of a file, and the variables that replace its keys.
    ///
    /// # Errors
    ///
    /// As [`Config::parse`].
    pub fn parse_with(text: &str, file_name: &str, variables: &[Variable]) -> Result<Config, ConfigError> {
        let appended = AppendedVariables::new(text, variables);
        let problems = ProblemList::with_variables(&appended.text, text.len());
        let (mut file, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            problems.add(error.span().map_or(0, |span| span.start), error.message());
        }
        let config = if errors.is_empty() {
            appended.apply(file.get_mut(), |at, text| problems.add(at, text));
            Config::read(Section::root(file.get_ref(), &problems))
        } else {
            Config::default()
        };
        let mut problems = problems.into_problems(file_name);
        for (at, problem) in &mut problems {
            if let Some((variable, _)) = appended.at(*at) {
                (problem.file, problem.line, problem.column) = (variable.into(), 0, 0);
            }
        }
        let problems: Vec<Problem> = problems.into_iter().map(|(_, problem)| problem).collect();
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(problems)) }
    }

    /// How lines are parsed without a block: those of an import, and of `--tail`.
    pub fn reading(&self) -> ParseOptions {
        ParseOptions { redactor: Redactor::new(self.redact.iter().cloned()), ..ParseOptions::default() }
    }

    /// The limits of the lifecycle, with the bound of this data folder.
    pub fn limits(&self) -> LifecycleLimits {
        LifecycleLimits { max_bytes: self.lifecycle.max_bytes.bytes(&self.data_dir), ..self.lifecycle.limits }
    }

    /// Whether the records of one source may be in several tables.
    pub fn is_routed(&self) -> bool {
        self.tables.len() > 1
    }

    pub(super) fn read(mut file: Section<'_>) -> Config {
        let mut config = Config::default();
        parts().iter().for_each(|part| part.read(&mut file, &mut config));
        file.finish();
        config
    }
}

/// The text of a file of at most 1 MiB.
pub(super) fn read_file(path: &Path) -> Result<String, ConfigError> {
    let failed = |source| ConfigError::Read { path: path.into(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(failed(std::io::Error::new(std::io::ErrorKind::FileTooLarge, "is larger than 1 MiB")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let (line, column) = line_and_column(&valid, valid.len());
        let (file, text) = (path.text().into_owned(), "is no UTF-8 from here on".into());
        ConfigError::Invalid(vec![Problem { file, line, column, text }])
    })
}
