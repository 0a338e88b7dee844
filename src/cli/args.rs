//! Options that several commands take.

use super::exit::CliError;
use crate::config::{Config, ConfigError, environment};
use crate::parse::Reading;
use crate::query::{Archives, Filter, Told, When};
use crate::record::Level;
use crate::store::{Reader, StoreError};
use crate::time::Ticks;
use clap::Args;
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

/// What of the archives is read.
#[derive(Debug, Args)]
pub(super) struct FromArchives {
    /// Do not read days of which there is only an archive
    #[arg(long)]
    no_archived: bool,
    /// The configuration that says how archives in object stores are reached; else the environment does
    #[arg(long, value_name = "FILE", conflicts_with = "no_archived")]
    config: Option<PathBuf>,
}

impl FromArchives {
    /// How they are reached.
    pub(super) fn archives(&self) -> Result<Archives, ConfigError> {
        if self.no_archived {
            return Ok(Archives::PassedOver);
        }
        let config = self.config.as_deref().map(Config::load).transpose()?;
        Ok(Archives::Read(config.map(|config| config.archives).unwrap_or_default()))
    }
}

/// Tells on standard error what was read of the archives; what is missing makes the answer an incomplete one.
pub(super) fn tell(told: &Told) -> Result<(), CliError> {
    if let Some(notice) = told.notice() {
        eprintln!("daytable: {notice}");
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
    /// With this text in the message or a field; case counts
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
    let duration = crate::config::units::parse_duration(text).map_err(|error| error.to_string())?;
    if duration.is_zero() { Err("must be longer than nothing".into()) } else { Ok(duration) }
}
