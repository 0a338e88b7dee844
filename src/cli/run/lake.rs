//! `daytable run --lake`: the page, the API and Loki's routes over a lake, without a data folder.
//!
//! A folder for the control socket is all that such a daytable has: one in the runtime folder, which goes with it, or the one that
//! `--control` names. Its store stays empty. Whatever would read, receive, store or send records is refused at the start, and
//! left out with a warning at a reload.

use super::super::args::LakeArgs;
use super::super::exit::CliError;
use super::init_log;
use crate::config::{Config, ConfigError, PushAccess, SourceBlocks};
use daytable_model::path_text::PathText;
use daytable_store::{Reader, StoreError};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a list of the lake is believed.
const LISTED_FOR: Duration = Duration::from_secs(5);

/// Runs a daemon over the lake.
pub(super) fn run(
    lake: &LakeArgs,
    control: Option<PathBuf>,
    read: impl Fn() -> Result<Config, ConfigError> + Send + Sync + 'static,
) -> Result<(), CliError> {
    let config = read()?;
    let refused = refused(&config);
    if !refused.is_empty() {
        let refused = refused.join(", ");
        return Err(CliError::Usage(format!(
            "over a lake nothing is read, received, stored or sent, which the configuration asks for by {refused}: name a \
             configuration without that, or none"
        )));
    }
    let opened = lake.open(&config.archives, LISTED_FOR)?;
    let folder = ControlFolder::open(control)?;
    let config = answering(config, &folder.path);
    init_log(&config);
    let path = folder.path.clone();
    let load = move || {
        let config = read()?;
        for what in self::refused(&config) {
            tracing::warn!(what, "over a lake this part of the configuration has no effect");
        }
        Ok(answering(config, &path))
    };
    Ok(crate::daemon::run(config, Box::new(load), opened)?)
}

/// The parts of a configuration that are about more than answers.
fn refused(config: &Config) -> Vec<&'static str> {
    let pushes = config.http.push.is_some_and(|push| push != PushAccess::Off);
    let parts = [
        (config.sources != SourceBlocks::default(), "a block of a source"),
        (pushes, "http.push"),
        (!config.forward.is_empty(), "[[forward]]"),
        (!config.alert_rules.is_empty(), "[[alert]]"),
        (config.store.remote().is_some(), "store.kind"),
    ];
    parts.into_iter().filter_map(|(is_asked, name)| is_asked.then_some(name)).collect()
}

/// The configuration of a daemon that only answers.
fn answering(mut config: Config, folder: &Path) -> Config {
    config.data_dir = folder.to_owned();
    config.sources = SourceBlocks::default();
    config.http.push = Some(PushAccess::Off);
    config.tables = Config::default().tables;
    config.forward = Vec::new();
    config.alert_rules = Vec::new();
    config.store = Default::default();
    config
}

/// The folder of the control socket.
struct ControlFolder {
    path: PathBuf,
    /// Whether it goes with the process.
    is_ours: bool,
}

impl ControlFolder {
    fn open(control: Option<PathBuf>) -> Result<ControlFolder, CliError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| CliError::Write { path, source }
        };
        let Some(given) = control else {
            let path = runtime_folder().join(format!("daytable-lake-{}", std::process::id()));
            // Of an earlier process of this number, which was killed.
            match std::fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&path)(error)),
                _ => {}
            }
            DirBuilder::new().mode(0o700).create(&path).map_err(failed(&path))?;
            return Ok(ControlFolder { path, is_ours: true });
        };
        let path = std::path::absolute(&given).map_err(failed(&given))?;
        match Reader::open(&path) {
            Err(StoreError::NoStore(_)) => {}
            Err(error) => return Err(error.into()),
            // One that ran before left day-tables without records.
            Ok(reader) if reader.table_times()?.iter().all(|(_, times)| times.is_none()) => {}
            Ok(_) => {
                let shown = path.escaped();
                return Err(CliError::Usage(format!(
                    "{shown} is a data folder with records: name another folder for the socket, or ask this one without --lake"
                )));
            }
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed(&path))?;
        Ok(ControlFolder { path, is_ours: false })
    }
}

impl Drop for ControlFolder {
    fn drop(&mut self) {
        if self.is_ours {
            // What stays is empty, and the next process of this number removes it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The folder for sockets of this user or service.
fn runtime_folder() -> PathBuf {
    let named = |name: &str| {
        let value = std::env::var_os(name)?;
        // systemd names several with colons between them.
        let first = value.to_str()?.split(':').next().map(PathBuf::from)?;
        first.is_absolute().then_some(first)
    };
    named("RUNTIME_DIRECTORY").or_else(|| named("XDG_RUNTIME_DIR")).unwrap_or_else(std::env::temp_dir)
}
