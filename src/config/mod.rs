//! The configuration: one TOML file becomes one checked [`Config`], or all that is wrong with it.
//!
//! The file is parsed, not validated: what comes out has types that cannot say anything wrong (`Duration`,
//! [`TableName`](daytable_model::key::TableName), [`Pattern`](daytable_intake::glob::Pattern),
//! [`InstanceTemplate`](daytable_intake::instance_template::InstanceTemplate)), so nobody checks it again. Every
//! [`Problem`] names the file, the line, the key and the fix; all of them are found in one go.
//!
//! * [`Config`] and the sections of a few keys are here; [`http`], [`tail`], [`syslog`], [`journal`], [`table`] and [`store`] have files
//!   of their own; [`credentials`] is a file of its own for users, too.
//! * `section` reads a table key by key: types, defaults, unknown keys. A key is named in two places, where it is read
//!   and in `config/daytable.toml`; a test holds the two together, and the defaults of both.
//! * [`changes`] says what differs between two of them.
//! * `condition` and `archives` read what [`daytable_intake::route`] and [`daytable_archive`] keep.
//! * The kinds of values come from the parts: [`daytable_model::units`], [`daytable_intake::instance_template`],
//!   [`daytable_intake::path_fields`] and [`daytable_intake::glob`].
//!
//! * [`environment`]: a variable a key. [`mod@reference`]: every key, as documentation.
//!
//! It knows nothing of the command line: whoever takes options sets the fields.

mod archives;
pub mod changes;
mod condition;
pub mod credentials;
pub mod environment;
pub mod error;
pub mod http;
pub mod journal;
mod limits;
mod push;
mod reading;
pub mod reference;
mod section;
pub mod remote;
pub mod store;
pub mod syslog;
pub mod table;
pub mod tail;

pub use changes::Changes;
pub use credentials::{CredentialConfig, Proof, load_credentials};
pub use environment::Variable;
pub use error::{ConfigError, Problem};
pub use http::{HttpConfig, Listen, Pushing};
pub use remote::{RemoteConfig, SendOrder, WhenFull};
pub use store::{StoreConfig, StoreKind};
pub use table::TableConfig;
pub use tail::TailConfig;

use crate::log::LogFormat;
use daytable_archive::Access;
use daytable_intake::journal::JournalOptions;
use daytable_intake::syslog::SyslogOptions;
use daytable_lifecycle::{LifecycleLimits, Schedule, ScheduleError};
use daytable_model::path_text::PathText;
use daytable_model::units::ByteSize;
use daytable_parse::Reading;
use daytable_parse::redact::{Redaction, Redactor};
use environment::Appended;
use error::line_and_column;
use section::{Report, Section};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;
use tracing::level_filters::LevelFilter;

/// Where systemd puts the credentials of the unit.
const CREDENTIALS: &str = "/run/credentials/daytable.service";
/// Bytes of a configuration file at most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The least lets what was taken be committed on any disk that works, the most is what nobody waits for.
const DRAIN_TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Everything that can be set. `Default` is what an empty file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The folder that holds all that is kept.
    pub data_dir: PathBuf,
    /// How long a stop may take: what is not committed by then is read again, or sent again.
    pub drain_timeout: Duration,
    /// How much memory there is to take; none is what the control group says.
    pub memory_max: Option<ByteSize>,
    /// The secrets that are replaced whatever a record came from; those of the blocks come besides.
    pub redact: Vec<Redaction>,
    /// `[http]`
    pub http: HttpConfig,
    /// `[[tail]]`, in the order of the file.
    pub tails: Vec<TailConfig>,
    /// `[[syslog]]`, in the order of the file.
    pub syslogs: Vec<SyslogOptions>,
    /// `[[journal]]`, in the order of the file.
    pub journals: Vec<JournalOptions>,
    /// `[[table]]`, in the order of the file; at least one, and the last takes what the others leave.
    pub tables: Vec<TableConfig>,
    /// `[archives]`
    pub archives: Access,
    /// `[lifecycle]`
    pub lifecycle: LifecycleConfig,
    /// `[store]`
    pub store: StoreConfig,
    /// `[log]`
    pub log: LogConfig,
}

/// When days are created and dropped, and how many at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleConfig {
    /// When.
    pub schedule: Schedule,
    /// When the data folder is verified; none is never.
    pub verify: Option<Schedule>,
    /// Bytes that are read a second for that.
    pub verify_bytes_per_s: ByteSize,
    /// The field that carries a number which goes up by one a record of an instance and source.
    pub verify_sequence: Option<String>,
    /// What bounds one run.
    pub limits: LifecycleLimits,
}

/// What the program says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How much.
    pub level: LevelFilter,
    /// In what form.
    pub format: LogFormat,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: "/var/lib/daytable".into(),
            drain_timeout: Duration::from_secs(25),
            memory_max: None,
            redact: Vec::new(),
            http: HttpConfig::default(),
            tails: Vec::new(),
            syslogs: Vec::new(),
            journals: Vec::new(),
            tables: TableConfig::all_by_default(),
            archives: Access::default(),
            lifecycle: LifecycleConfig::default(),
            store: StoreConfig::default(),
            log: LogConfig::default(),
        }
    }
}

impl Default for LifecycleConfig {
    fn default() -> LifecycleConfig {
        LifecycleConfig {
            schedule: Schedule::default(),
            verify: Schedule::parse(VERIFIED).ok(),
            verify_bytes_per_s: ByteSize::new(32 << 20),
            verify_sequence: None,
            limits: LifecycleLimits::default(),
        }
    }
}

/// 03:30:00 every day: when nothing is sealed and little comes.
const VERIFIED: &str = "0 30 3 * * *";

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { level: LevelFilter::INFO, format: LogFormat::Auto }
    }
}

impl Config {
    /// Reads a file, and what `variables` lay over it; without a file, these alone.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Read`] where the file cannot be read or is larger than 1 MiB, [`ConfigError::Invalid`] for what
    /// it says, or a variable.
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

    /// Reads the text of a file; `file_name` is what problems call it.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] with every problem that was found. Where the text is no TOML that is all that is said:
    /// what is left of it may not mean what was meant.
    pub fn parse(text: &str, file_name: &str) -> Result<Config, ConfigError> {
        Config::parse_with(text, file_name, &[])
    }

    /// The same, and what `variables` lay over it.
    ///
    /// # Errors
    ///
    /// As [`Config::parse`].
    pub fn parse_with(text: &str, file_name: &str, variables: &[Variable]) -> Result<Config, ConfigError> {
        let appended = Appended::new(text, variables);
        let report = Report::with_variables(&appended.text, text.len());
        let (mut file, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            report.add(error.span().map_or(0, |span| span.start), error.message());
        }
        let config = if errors.is_empty() {
            appended.lay_over(file.get_mut(), |at, text| report.add(at, text));
            Config::read(Section::root(file.get_ref(), &report), &report)
        } else {
            Config::default()
        };
        let mut problems = report.into_problems(file_name);
        for (at, problem) in &mut problems {
            if let Some((variable, _)) = appended.at(*at) {
                (problem.file, problem.line, problem.column) = (variable.into(), 0, 0);
            }
        }
        let problems: Vec<Problem> = problems.into_iter().map(|(_, problem)| problem).collect();
        if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(problems)) }
    }

    /// How lines are read where no block says so: an import's, a `--tail`'s.
    pub fn reading(&self) -> Reading {
        Reading { redactor: Redactor::new(self.redact.iter().cloned()), ..Reading::default() }
    }

    /// Whether the records of one source may be in several tables: each goes by what it says, so none has all of them.
    pub fn is_routed(&self) -> bool {
        self.tables.len() > 1
    }

    fn read<'a>(mut file: Section<'a>, report: &'a Report<'a>) -> Config {
        let data_dir = file.text("data_dir", absolute);
        let drain_timeout = file.duration("drain_timeout", Config::default().drain_timeout, DRAIN_TIMEOUT);
        let redact = reading::read_redact(&mut file, 0);
        let tails = TailConfig::read_all(file.sections("tail", "[[tail]]"), report, &redact);
        let syslogs = syslog::read_all(file.sections("syslog", "[[syslog]]"), report, &redact, &tails);
        let tail_names = tails.iter().map(|tail| tail.name.as_str());
        let names: Vec<_> = tail_names.chain(syslogs.iter().map(|syslog| syslog.name.as_str())).collect();
        let journals = journal::read_all(file.sections("journal", "[[journal]]"), report, &redact, &names);
        let tables = TableConfig::read_all(file.sections("table", "[[table]]"), report);
        let config = Config {
            data_dir: data_dir.unwrap_or_else(|| Config::default().data_dir),
            drain_timeout,
            memory_max: file.text("memory_max", size_or_auto).flatten(),
            http: HttpConfig::read(file.section("http", "[http]")),
            journals,
            syslogs,
            tails,
            archives: archives::read(file.section("archives", "[archives]")),
            lifecycle: LifecycleConfig::read(file.section("lifecycle", "[lifecycle]")),
            store: StoreConfig::read(file.section("store", "[store]"), &tables),
            log: LogConfig::read(file.section("log", "[log]")),
            tables,
            redact,
        };
        file.finish();
        config
    }
}

impl LifecycleConfig {
    fn read(mut section: Section<'_>) -> LifecycleConfig {
        let LifecycleConfig { schedule, verify, verify_bytes_per_s, limits, .. } = LifecycleConfig::default();
        let grace = Duration::ZERO..=Duration::from_secs(365 * 86_400);
        let config = LifecycleConfig {
            schedule: section.text("schedule", Schedule::parse).unwrap_or(schedule),
            verify: section.text("verify", schedule_or_none).unwrap_or(verify),
            verify_bytes_per_s: section.size(
                "verify_bytes_per_s",
                verify_bytes_per_s,
                ByteSize::new(1 << 20)..=ByteSize::new(64 << 30),
            ),
            verify_sequence: section.text("verify_sequence", field_name),
            limits: LifecycleLimits {
                grace: section.duration("grace", limits.grace, grace.clone()),
                drops_per_run_max: section.count("drops_per_run_max", limits.drops_per_run_max, u16::MAX),
                min_tables: section.whole("min_tables", 0..=u16::MAX).unwrap_or(limits.min_tables),
                seal_after: section.duration("seal_after", limits.seal_after, grace),
                max_bytes: section.text("max_bytes", bytes_or_off).flatten(),
                drop_unarchived: section.truth("drop_unarchived").unwrap_or(limits.drop_unarchived),
            },
        };
        section.finish();
        config
    }
}

impl LogConfig {
    fn read(mut section: Section<'_>) -> LogConfig {
        let levels = [
            ("error", LevelFilter::ERROR),
            ("warn", LevelFilter::WARN),
            ("info", LevelFilter::INFO),
            ("debug", LevelFilter::DEBUG),
            ("trace", LevelFilter::TRACE),
        ];
        let default = LogConfig::default();
        let formats = [("auto", LogFormat::Auto), ("json", LogFormat::Json)];
        let config = LogConfig {
            level: section.choice("level", default.level, &levels),
            format: section.choice("format", default.format, &formats),
        };
        section.finish();
        config
    }
}

/// A schedule, or "none".
fn schedule_or_none(text: &str) -> Result<Option<Schedule>, ScheduleError> {
    if text == "none" { Ok(None) } else { Schedule::parse(text).map(Some) }
}

/// The name of a field.
fn field_name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("must name a field") } else { Ok(text.to_owned()) }
}

/// A size of at least 1 MiB, or "off", which is none.
fn bytes_or_off(text: &str) -> Result<Option<u64>, String> {
    if text == "off" {
        return Ok(None);
    }
    match text.parse::<ByteSize>() {
        Ok(size) if size.get() >= 1 << 20 => Ok(Some(size.get())),
        Ok(_) => Err("must be at least \"1MiB\", or \"off\"".into()),
        Err(error) => Err(format!("{error}, or \"off\"")),
    }
}

/// A size of at least 16 MiB, or "auto", which is none.
fn size_or_auto(text: &str) -> Result<Option<ByteSize>, String> {
    if text == "auto" {
        return Ok(None);
    }
    match text.parse::<ByteSize>() {
        Ok(size) if size.get() >= 16 << 20 => Ok(Some(size)),
        Ok(_) => Err("must be at least \"16MiB\", or \"auto\"".into()),
        Err(error) => Err(format!("{error}, or \"auto\"")),
    }
}

/// The text of a file.
fn read_file(path: &Path) -> Result<String, ConfigError> {
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

/// The path of a file that may be one of systemd's credentials: `%d/NAME` is in their folder, as in a unit. That is
/// `CREDENTIALS_DIRECTORY`; without it, as for who checks the file by hand, that of the unit as it is installed.
fn secret_file(text: &str) -> Result<PathBuf, &'static str> {
    let Some(name) = text.strip_prefix("%d/") else { return absolute(text) };
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").unwrap_or_else(|| CREDENTIALS.into());
    Ok(PathBuf::from(folder).join(name))
}

/// A path that means the same from wherever the program is started.
fn absolute(text: &str) -> Result<PathBuf, &'static str> {
    if text.starts_with('/') { Ok(text.into()) } else { Err("must be an absolute path, beginning with \"/\"") }
}

#[cfg(test)]
mod tests;
