//! Arguments that several commands have, as groups that a command flattens.

use super::asked::AskedDaemon;
use super::exit::CliError;
use super::hint::hint;
use super::locate::{self, Located, load_config, load_named_config, located, located_despite};
use super::zone::ReaderZone;
use crate::config::{AccountConfig, Config, ConfigError, TableConfig};
use crate::remote::{self, QUERY_PATIENCE, RemoteError, RemoteStore};
use clap::Args;
use daytable_archive::lake::CACHE_BYTES_MAX;
use daytable_archive::{Access, ArchiveUrl, Lake, LakeCache};
use daytable_lifecycle::{LifecycleLimits, StepError, TableRule};
use daytable_logsql::{ParsedQuery, Remarks};
use daytable_model::key::{DayTable, KeyError, TableName};
use daytable_model::level::{Level, unknown_level};
use daytable_model::path_text::PathText;
use daytable_model::safe_text::SafeLines;
use daytable_model::time::Ticks;
use daytable_parse::ParseOptions;
use daytable_query::answer::{AnswerEnd, AnswerOptions, AnswerReport, QueryConditions};
use daytable_query::tables::TableStore;
use daytable_query::{ArchiveReport, Archives, Stores, When};
use daytable_store::{Reader, StoreError};
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The data folder.
#[derive(Debug, Args)]
pub(super) struct DataArgs {
    /// The data folder, instead of that of /etc/daytable/daytable.toml or of the only running daemon
    #[arg(long = "data", aliases = ["data-dir", "dir"], value_name = "DIR", env = "DAYTABLE_DATA")]
    given: Option<PathBuf>,
}

impl DataArgs {
    /// The data folder.
    pub(super) fn dir(&self) -> PathBuf {
        self.given.clone().unwrap_or_else(locate::data_dir)
    }

    /// The data folder, which is that of a configuration that the command names, unless the command names the folder, too.
    pub(super) fn dir_of(&self, config: Option<&Config>) -> PathBuf {
        match (&self.given, config) {
            (None, Some(config)) => config.data_dir.clone(),
            _ => self.dir(),
        }
    }

    /// The data folder and the configuration in `file` of a command that can do without its settings.
    pub(super) fn located(&self, file: Option<&Path>) -> Result<Located, CliError> {
        located(self.given.as_deref(), file)
    }

    /// Opens the folder to read, beside a running daemon or without one.
    pub(super) fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(&self.dir())
    }
}

/// The data folder, also by the configuration that has it.
#[derive(Debug, Args)]
pub(super) struct FolderArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The configuration whose data folder is meant, unless --data names it
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
}

impl FolderArgs {
    /// The data folder, and the configuration that the command names.
    pub(super) fn located(&self) -> Result<Located, CliError> {
        self.data.located(self.config.as_deref())
    }
}

/// The configuration of a daemon, and its data folder.
#[derive(Clone, Debug, Args)]
pub(super) struct DaemonArgs {
    /// The configuration of the daemon. Without a file, /etc/daytable/daytable.toml, or the environment and the defaults
    #[arg(long = "config", value_name = "FILE", env = "DAYTABLE_CONFIG")]
    pub(super) file: Option<PathBuf>,
    /// The data folder, instead of the configured one
    #[arg(long = "data", aliases = ["data-dir", "dir"], value_name = "DIR", env = "DAYTABLE_DATA")]
    pub(super) data_dir: Option<PathBuf>,
}

impl DaemonArgs {
    /// The configuration, with the data folder of the command line.
    pub(super) fn config(&self) -> Result<Config, ConfigError> {
        let config = match (&self.file, &self.data_dir) {
            (Some(file), _) => load_config(Some(file))?,
            (None, None) => Config { data_dir: locate::data_dir(), ..locate::config()? },
            (None, Some(data_dir)) => locate::config_of(data_dir).map_or_else(|| load_config(None), Ok)?,
        };
        Ok(match &self.data_dir {
            Some(data_dir) => Config { data_dir: data_dir.clone(), ..config },
            None => config,
        })
    }

    /// The data folder. With `--data`, the configuration is not read.
    pub(super) fn data_dir(&self) -> Result<PathBuf, ConfigError> {
        self.data_dir.clone().map_or_else(|| Ok(self.config()?.data_dir), Ok)
    }

    /// The data folder, and the configuration unless it is wrong, for a command that can do without its settings.
    pub(super) fn located(&self) -> Result<Located, CliError> {
        match self.config() {
            Ok(config) => Ok(Located { data_dir: config.data_dir.clone(), named: Some(config), is_wrong: false }),
            Err(error) => located_despite(error, self.data_dir.as_deref(), self.named_file()),
        }
    }

    /// The file of the configuration, if any.
    pub(super) fn named_file(&self) -> Option<&Path> {
        self.file.as_deref().or(locate::installed_file())
    }
}

/// The form of the output.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct JsonArgs {
    /// Print a JSON object per line
    #[arg(long)]
    pub(super) json: bool,
}

/// The data folder, and the other sources of a read.
#[derive(Debug, Args)]
pub(super) struct ReadSources {
    #[command(flatten)]
    pub(super) data: DataArgs,
    /// Do not read days that exist only as archives
    #[arg(long)]
    no_archived: bool,
    /// Read only the data folder. Of a remote store, these are the rows that wait to be sent
    #[arg(long)]
    local: bool,
    /// On standard error, do not warn of a query that looks wrong, and do not describe a search that finds nothing
    #[arg(long)]
    quiet: bool,
    /// The configuration with the data folder, unless --data names it, and the access to archives and to the remote store. Without a file, /etc/daytable/daytable.toml, or the environment
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
}

/// A lake, instead of a data folder.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct LakeArgs {
    /// Read the archives of all hosts at this address instead of a data folder: s3://bucket/path, az://container/path, gs://bucket/path, or a folder. The access is that of [archives] in the configuration, or of the environment
    #[arg(long, value_name = "ADDRESS", value_parser = lake_address)]
    pub(super) lake: Option<ArchiveUrl>,
    /// With --lake: the folder for what is fetched again and again, instead of ~/.cache/daytable. It takes 1 GiB at most
    #[arg(long, value_name = "DIR", requires = "lake")]
    pub(super) cache: Option<PathBuf>,
}

/// The address of a lake, which may be the path of a folder.
fn lake_address(text: &str) -> Result<ArchiveUrl, String> {
    let address = match text.contains("://") {
        true => text.to_owned(),
        false => {
            let folder = std::fs::canonicalize(text)
                .map_err(|error| format!("{error}: a folder, or an address such as s3://bucket/path"))?;
            let folder = folder.to_str().ok_or("the path of the folder is not UTF-8")?;
            format!("file://{folder}")
        }
    };
    address.parse().map_err(|error: daytable_archive::UrlError| error.to_string())
}

impl LakeArgs {
    /// Opens the lake, if one is named.
    pub(super) fn open(&self, access: &Access, listed_for: Duration) -> Result<Option<Lake>, CliError> {
        let Some(address) = &self.lake else { return Ok(None) };
        let cache = match (&self.cache, cache_folder()) {
            (Some(dir), _) => Some(
                LakeCache::open(dir, CACHE_BYTES_MAX)
                    .map_err(|source| CliError::Write { path: dir.clone(), source })?,
            ),
            (None, Some(dir)) => LakeCache::open(&dir, CACHE_BYTES_MAX)
                .inspect_err(|error| {
                    hint(format_args!("daytable: no cache in {}, so all is fetched: {error}", dir.escaped()))
                })
                .ok(),
            (None, None) => None,
        };
        let opened = Lake::open(address, access, cache, listed_for);
        Ok(Some(opened.map_err(|error| CliError::Step(StepError::Archive(error)))?))
    }
}

/// The folder of caches of this user.
fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache"))).map(|dir| dir.join("daytable"))
}

/// The data folder, its archives and its remote store, open to read.
pub(super) struct OpenSources {
    pub(super) reader: Reader,
    pub(super) data_dir: PathBuf,
    archives: Archives,
    remote: Option<Box<dyn RemoteStore>>,
    config: Option<Config>,
    quiet: bool,
}

impl OpenSources {
    /// The stores for a query.
    pub(super) fn stores(&self) -> Stores<'_> {
        let remote = self.remote.as_deref().map(|remote| remote as &dyn TableStore);
        Stores { reader: &self.reader, archives: &self.archives, remote }
    }

    /// Whether a lake is read, instead of a data folder.
    pub(super) fn is_lake(&self) -> bool {
        matches!(self.archives, Archives::Lake(_))
    }

    /// Whether warnings of the query and the description of an empty search are left out.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// The remote store, if any.
    pub(super) fn remote(&self) -> Option<&dyn RemoteStore> {
        self.remote.as_deref()
    }

    /// The rules of the named configuration, if any.
    pub(super) fn rules(&self) -> Option<(Vec<TableRule>, LifecycleLimits)> {
        self.config.as_ref().map(rules_of_config)
    }
}

/// The rules of the lifecycle in a configuration.
pub(super) fn rules_of_config(config: &Config) -> (Vec<TableRule>, LifecycleLimits) {
    (config.tables.iter().map(TableConfig::rule).collect(), config.limits())
}

/// How long a command believes a list of a lake: all questions of a command are about the same files.
pub(super) const LISTED_FOR: Duration = Duration::from_secs(24 * 3600);

/// Where a command finds records.
pub(super) enum RecordStores {
    /// The data folder, its archives and its remote store; or a lake.
    Folder(Box<OpenSources>),
    /// The daemon, for a user who cannot read the folder.
    Daemon(AskedDaemon),
}

impl ReadSources {
    /// Opens a lake, if one is named, or all of these; or connects to the daemon if this user cannot read the data folder and is
    /// a member of the readers' group.
    pub(super) fn open_or_ask(&self, lake: &LakeArgs) -> Result<RecordStores, CliError> {
        if lake.lake.is_some() {
            return Ok(RecordStores::Folder(self.open_or(lake)?.into()));
        }
        let located = self.data.located(self.config.as_deref())?;
        let refused = match self.open_located(&located) {
            Ok(sources) => return Ok(RecordStores::Folder(sources.into())),
            // A running daemon has the settings that a wrong file does not say.
            Err(error) if is_denied(&error) || located.is_wrong => error,
            Err(error) => return Err(error),
        };
        match locate::connect(&located.data_dir, located.named.as_ref()) {
            Ok(Some(control)) => Ok(RecordStores::Daemon(AskedDaemon {
                control,
                has_archives: !self.no_archived,
                has_remote: !self.local,
                is_quiet: self.quiet,
            })),
            _ => Err(refused),
        }
    }

    /// Opens a lake, if one is named, or all of these.
    pub(super) fn open_or(&self, lake: &LakeArgs) -> Result<OpenSources, CliError> {
        if lake.lake.is_none() {
            return self.open();
        }
        for (given, option) in [(self.no_archived, "--no-archived"), (self.local, "--local")] {
            if given {
                return Err(CliError::Usage(format!("{option} leaves archives out, and --lake reads nothing else")));
            }
        }
        let access = lake_access(self.config.as_deref())?;
        let archives = lake.open(&access, LISTED_FOR)?.map_or(Archives::Skip, Archives::Lake);
        let data_dir = PathBuf::new();
        let reader = Reader::empty(&data_dir)?;
        Ok(OpenSources { reader, data_dir, archives, remote: None, config: None, quiet: self.quiet })
    }

    /// Opens all of them.
    pub(super) fn open(&self) -> Result<OpenSources, CliError> {
        self.open_located(&self.data.located(self.config.as_deref())?)
    }

    fn open_located(&self, located: &Located) -> Result<OpenSources, CliError> {
        let data_dir = located.data_dir.clone();
        let is_remote = located.named.as_ref().is_some_and(|config| config.store.remote().is_some());
        let reader = match Reader::open(&data_dir) {
            // Any host may ask a remote store, which has all records.
            Err(StoreError::NoStore(_)) if is_remote && !self.local && self.data.given.is_none() => {
                Reader::empty(&data_dir)?
            }
            reader => reader?,
        };
        let config = located.config();
        let remote = match &config {
            _ if self.local => None,
            Some(config) => {
                let remote = config.store.remote();
                remote.map(|remote| remote::connect(&remote.account, QUERY_PATIENCE)).transpose()?
            }
            None if located.is_wrong && reader.is_outbox()? => {
                return Err(CliError::Unavailable(
                    "the records of this data folder are in a remote store, and the configuration that says which one is wrong: \
                     correct it, or read by --local the rows that wait here"
                        .into(),
                ));
            }
            None if reader.is_outbox()? => Some(remote_of_environment()?),
            None => None,
        };
        let archives = match self.no_archived {
            true => Archives::Skip,
            false => Archives::Read(config.as_ref().map(|config| config.archives.clone()).unwrap_or_default()),
        };
        Ok(OpenSources { reader, data_dir, archives, remote, config, quiet: self.quiet })
    }
}

/// The access to the archives of a lake: that of the configuration, which may be the installed one, or of the environment.
pub(super) fn lake_access(config: Option<&Path>) -> Result<Access, CliError> {
    let config = match load_named_config(config)? {
        Some(config) => config,
        // Whoever cannot read the installed one has an environment.
        None => locate::config().or_else(|_| load_config(None))?,
    };
    Ok(config.archives)
}

/// The remote store of the environment. Without it, an answer from the data folder alone would lack records.
fn remote_of_environment() -> Result<Box<dyn RemoteStore>, CliError> {
    remote::connect(&AccountConfig::default(), QUERY_PATIENCE).map_err(|error| match error {
        RemoteError::NoConnectionString => CliError::Unavailable(
            "the records of this data folder are in a remote store: name the configuration by --config, or set \
             AZURE_STORAGE_CONNECTION_STRING"
                .into(),
        ),
        error => error.into(),
    })
}

/// Whether this user cannot read the data folder.
pub(super) fn is_denied(error: &CliError) -> bool {
    matches!(error, CliError::Store(StoreError::Io { source, .. }) if source.kind() == ErrorKind::PermissionDenied)
}

/// How long the names of a query are looked for in the records.
pub(super) const DOUBTS_TIME_MAX: Duration = Duration::from_secs(10);

/// Reports on standard error what an answer is based on, what in the query looks wrong, and why the answer is empty. A cut
/// answer is incomplete.
pub(super) fn report_answer(
    sources: &OpenSources,
    query: &ParsedQuery,
    remarks: &[Remarks],
    options: &AnswerOptions,
    report: &AnswerReport,
) -> Result<(), CliError> {
    report_end(&end_of(sources, query, remarks, options, report)?)
}

/// What is said behind an answer.
pub(super) fn end_of(
    sources: &OpenSources,
    query: &ParsedQuery,
    remarks: &[Remarks],
    options: &AnswerOptions,
    report: &AnswerReport,
) -> Result<AnswerEnd, CliError> {
    let doubts_max = (!sources.quiet).then_some(DOUBTS_TIME_MAX);
    Ok(AnswerEnd::of(&sources.stores(), query, remarks, options, report, doubts_max)?)
}

/// Reports the end of an answer on standard error.
pub(super) fn report_end(end: &AnswerEnd) -> Result<(), CliError> {
    let AnswerEnd { given: _, archives, warnings, incomplete, nothing } = end;
    if let Some(notice) = archives {
        hint(format_args!("daytable: {}", SafeLines(notice)));
    }
    warn_of(warnings);
    if let Some(incomplete) = incomplete {
        return Err(CliError::Incomplete(incomplete.clone()));
    }
    if let Some(nothing) = nothing {
        hint(format_args!("daytable: {}", SafeLines(nothing)));
    }
    Ok(())
}

/// Prints warnings on standard error.
pub(super) fn warn_of(warnings: &[impl Display]) {
    for warning in warnings {
        hint(format_args!("daytable: warning: {}", SafeLines(warning)));
    }
}

/// Reports on standard error which archives a query read. A missing archive makes the answer incomplete.
pub(super) fn report_archives(report: &ArchiveReport) -> Result<(), CliError> {
    if let Some(notice) = report.notice() {
        hint(format_args!("daytable: {}", SafeLines(notice)));
    }
    report.missing().map_or(Ok(()), |missing| Err(CliError::Incomplete(missing)))
}

/// The query, and conditions beside it.
#[derive(Debug, Args)]
pub(super) struct FilterArgs {
    /// Times are of UTC: those of --since and --until without a zone, and those that are shown. Otherwise TZ is their zone
    #[arg(long)]
    utc: bool,
    /// The query: a filter, and pipes after |. Without a query, all records
    #[arg(value_name = "QUERY", allow_hyphen_values = true, value_parser = query_text)]
    query: Option<String>,
    /// Records of this instance only; * stands for any text. Several instances are asked for by several options
    #[arg(long, aliases = ["host", "hostname", "node"], value_name = "NAME")]
    instance: Vec<String>,
    /// Records of this source only: the path of a file or a listener; * stands for any text
    #[arg(long, aliases = ["file", "path"], value_name = "SOURCE")]
    source: Vec<String>,
    /// Records of this table only, or of this day-table
    #[arg(long, alias = "index", value_name = "TABLE")]
    table: Vec<String>,
    /// Records that match this filter, too
    #[arg(long = "where", aliases = ["filter", "query", "search"], value_name = "FILTER")]
    also: Vec<String>,
    /// Records at or after this time: 2026-11-21, "2026-11-21 08:00", RFC 3339, 14:03, yesterday, or an age such as 15m, 2h30m, "2 days ago"
    #[arg(long, aliases = ["from", "start", "begin", "after", "last"], value_name = "TIME")]
    since: Option<When>,
    /// Records before this time
    #[arg(long, aliases = ["to", "end", "before"], value_name = "TIME")]
    until: Option<When>,
    /// Records of this level or a more severe one
    #[arg(long, aliases = ["severity", "priority", "lvl", "min-level"], value_parser = level)]
    level: Option<Level>,
    /// Records with this text in their line as it was written, or in the value of a field; case-sensitive
    #[arg(long, alias = "text", value_name = "TEXT")]
    contains: Option<String>,
}

impl FilterArgs {
    /// The query as it was written.
    pub(super) fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// The only condition, if it is one source without `*`.
    pub(super) fn only_source(&self) -> Option<&str> {
        let FilterArgs { utc: _, query, instance, source, table, also, since, until, level, contains } = self;
        let is_only = query.is_none() && instance.is_empty() && table.is_empty() && also.is_empty();
        let is_only = is_only && since.is_none() && until.is_none() && level.is_none() && contains.is_none();
        match source.as_slice() {
            [source] if is_only && !source.contains('*') => Some(source),
            _ => None,
        }
    }

    /// The zone of times without one.
    pub(super) fn zone(&self) -> ReaderZone {
        ReaderZone::new(self.utc)
    }

    /// The query with its conditions, with ages counted from `now`.
    pub(super) fn conditions(self, now: Ticks, zone: &ReaderZone) -> QueryConditions {
        QueryConditions {
            query: self.query.unwrap_or_default(),
            also: self.also,
            instances: self.instance,
            sources: self.source,
            tables: self.table,
            since: self.since.map(|since| since.at(now, &|time| zone.offset(time))),
            until: self.until.map(|until| until.at(now, &|time| zone.offset(time))),
            level: self.level,
            contains: self.contains,
            oldest: None,
        }
    }
}

/// The text of a query. A filter may begin with `-`, so an unknown option would be mistaken for a query.
fn query_text(text: &str) -> Result<String, String> {
    match text.strip_prefix("--") {
        Some(name) => {
            Err(format!("there is no option --{name}; a query that begins with -- needs quotes: \"--{name}\""))
        }
        None => Ok(text.to_owned()),
    }
}

fn level(word: &str) -> Result<Level, String> {
    Level::from_word(word).ok_or_else(|| unknown_level(word))
}

/// A `--format` that [`ParseOptions::set_format`] accepts.
pub(super) fn format(text: &str) -> Result<String, String> {
    ParseOptions::default().set_format(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// A duration of more than zero.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let duration = daytable_model::units::parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("must be longer than zero".into()) } else { Ok(duration) }
}

/// A day-table, such as Log20261121.
pub(super) fn day_table(name: &str) -> Result<DayTable, String> {
    DayTable::parse(name).map_err(|error| {
        let date: String = name.chars().filter(|letter| !matches!(letter, '-' | '/' | '.')).collect();
        let table =
            DayTable::parse(&format!("Log{date}")).map_or_else(|_| "Log20261121".into(), |table| table.to_string());
        format!("{error}, such as {table}: `daytable tables` lists those that are there")
    })
}

/// The name of a configured table.
pub(super) fn table_name(name: &str) -> Result<TableName, KeyError> {
    TableName::new(name)
}
