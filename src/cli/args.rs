//! Options that several commands take.

use super::exit::CliError;
use crate::config::{Config, ConfigError, TableConfig, environment};
use crate::remote::{self, QUERY_PATIENCE, RemoteError, RemoteStore};
use clap::Args;
use daytable_lifecycle::{LifecycleLimits, TableRule};
use daytable_model::record::Level;
use daytable_model::safe_text::SafeLines;
use daytable_model::time::Ticks;
use daytable_parse::Reading;
use daytable_query::tables::TableStore;
use daytable_query::{ArchiveReport, Archives, Filter, Stores, When};
use daytable_store::{Reader, StoreError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the data is.
#[derive(Debug, Args)]
pub(super) struct Data {
    /// The data folder
    #[arg(long = "data", value_name = "DIR", env = "DAYTABLE_DATA", default_value = "/var/lib/daytable")]
    pub(super) dir: PathBuf,
}

impl Data {
    /// Opens it to read, beside whoever writes.
    pub(super) fn open(&self) -> Result<Reader, StoreError> {
        Reader::open(&self.dir)
    }
}

/// The configuration that was named, or the defaults, and what the environment lays over it.
pub(super) fn configured(path: Option<&Path>) -> Result<Config, ConfigError> {
    Config::load_with(path, &environment::variables())
}

/// The configuration that was named, and what the environment lays over it, as it is for the daemon; none where none was.
pub(super) fn named(path: Option<&Path>) -> Result<Option<Config>, ConfigError> {
    path.map(|path| configured(Some(path))).transpose()
}

/// What is read besides the data folder.
#[derive(Debug, Args)]
pub(super) struct Behind {
    /// Do not read days of which there is only an archive
    #[arg(long)]
    no_archived: bool,
    /// Read what is in the data folder alone: of a remote store, what was not sent yet
    #[arg(long)]
    local: bool,
    /// The configuration that says how archives and a remote store are reached; else the environment does
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The data folder, and what is behind it.
pub(super) struct Opened {
    pub(super) reader: Reader,
    archives: Archives,
    remote: Option<Box<dyn RemoteStore>>,
    config: Option<Config>,
}

impl Opened {
    /// Where a query looks.
    pub(super) fn stores(&self) -> Stores<'_> {
        let remote = self.remote.as_deref().map(|remote| remote as &dyn TableStore);
        Stores { reader: &self.reader, archives: &self.archives, remote }
    }

    /// The remote store, where there is one.
    pub(super) fn remote(&self) -> Option<&dyn RemoteStore> {
        self.remote.as_deref()
    }

    /// The rules of the configuration that was named.
    pub(super) fn rules(&self) -> Option<(Vec<TableRule>, LifecycleLimits)> {
        let config = self.config.as_ref()?;
        Some((config.tables.iter().map(TableConfig::rule).collect(), config.lifecycle.limits))
    }
}

impl Behind {
    /// Opens all of it to read.
    pub(super) fn open(&self, data: &Data) -> Result<Opened, CliError> {
        let reader = data.open()?;
        let config = named(self.config.as_deref())?;
        let remote = match &config {
            _ if self.local => None,
            Some(config) => {
                let remote = config.store.remote();
                let file = remote.map(|remote| remote.connection_string_file.as_deref());
                file.map(|file| remote::connect(file, QUERY_PATIENCE)).transpose()?
            }
            None if reader.is_outbox()? => Some(without_config()?),
            None => None,
        };
        let archives = match self.no_archived {
            true => Archives::Skip,
            false => Archives::Read(config.as_ref().map(|config| config.archives.clone()).unwrap_or_default()),
        };
        Ok(Opened { reader, archives, remote, config })
    }
}

/// The remote store that the environment names. Without it, an answer from the data folder alone would lack records.
fn without_config() -> Result<Box<dyn RemoteStore>, CliError> {
    remote::connect(None, QUERY_PATIENCE).map_err(|error| match error {
        RemoteError::NoConnectionString => CliError::Unavailable(
            "the records of this data folder are in a remote store: name the configuration by --config, or set \
             AZURE_STORAGE_CONNECTION_STRING"
                .into(),
        ),
        error => error.into(),
    })
}

/// Tells on standard error what was read of the archives; what is missing makes the answer an incomplete one.
pub(super) fn tell(told: &ArchiveReport) -> Result<(), CliError> {
    if let Some(notice) = told.notice() {
        eprintln!("daytable: {}", SafeLines(notice));
    }
    told.missing().map_or(Ok(()), |missing| Err(CliError::Incomplete(missing)))
}

/// Which records.
#[derive(Debug, Args)]
pub(super) struct Filters {
    /// Records of this instance only
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// Not before this: 2026-11-21, "2026-11-21 08:00", RFC 3339, or an age such as 15m, 2h, 7d
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Before this, itself not included
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// Of this level or a worse one
    #[arg(long, value_parser = level)]
    level: Option<Level>,
    /// With this text in the message or in the value of a field, numbers too; case counts
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
}

impl Filters {
    /// The filter they make now, for at most `limit` records.
    pub(super) fn at(self, now: Ticks, limit: Option<u64>) -> Filter {
        Filter {
            instance: self.instance,
            since: self.since.map(|since| since.at(now)),
            until: self.until.map(|until| until.at(now)),
            level: self.level,
            contains: self.contains,
            limit,
        }
    }
}

fn level(word: &str) -> Result<Level, String> {
    let names = || Level::ALL.map(Level::name).join(", ");
    Level::from_word(word).ok_or_else(|| format!("the levels are {}", names()))
}

/// A format as `--format` takes it, which [`Reading::set_format`] reads.
pub(super) fn format(text: &str) -> Result<String, String> {
    Reading::default().set_format(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// A duration that is not zero.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let duration = daytable_model::units::parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("must be longer than nothing".into()) } else { Ok(duration) }
}
