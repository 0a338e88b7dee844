//! The data folder of a command that writes: one way to open it.
//!
//! ```text
//! DataFolder::open ──┬── a daemon runs ──> Daemon(Control)         the daemon does the work and reports progress
//!                    └── no daemon runs ─> Offline(OfflineStore)   the command does the work, under the lock of the folder
//! ```
//!
//! Commands that read open the folder by [`DataArgs::reader`](super::args::DataArgs::reader) or
//! [`ReadSources`](super::args::ReadSources), beside a running daemon or without one.

use super::args::{DataArgs, rules_of_config};
use super::control::{Control, ControlError};
use super::exit::CliError;
use super::locate::{self, Located, load_named_config};
use crate::config::Config;
use daytable_lifecycle::progress::StepProgress;
use daytable_lifecycle::{Executor, LifecycleLimits, LifecycleProgress, TableRule, rules_of_last_run};
use daytable_store::{LifecycleState, Reader, Store, StoreOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The rules for a folder without a daemon.
#[derive(Debug, clap::Args)]
pub(super) struct RuleArgs {
    /// The configuration to use where no daemon runs, whose data folder is meant unless --data names it. Without a file, /etc/daytable/daytable.toml, or the rules of the last daemon
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
}

impl RuleArgs {
    /// The data folder, which is that of the named configuration, unless the command names the folder, too.
    pub(super) fn located(&self, data: &DataArgs) -> Result<Located, CliError> {
        data.located(self.config.as_deref())
    }

    /// The named configuration, or the installed one if it is that of `data_dir`.
    pub(super) fn offline_config(&self, data_dir: &Path) -> Result<Option<Config>, CliError> {
        Ok(load_named_config(self.config.as_deref())?.or_else(|| locate::config_of(data_dir)))
    }
}

/// The rules of a configuration, or the recorded rules of the catalog.
pub(super) fn rules_of(config: Option<&Config>, state: &LifecycleState) -> (Vec<TableRule>, LifecycleLimits) {
    config.map_or_else(|| rules_of_last_run(state), rules_of_config)
}

/// A data folder, with a running daemon or without one.
pub(super) enum DataFolder {
    Daemon(Control),
    Offline(Box<OfflineStore>),
}

impl DataFolder {
    /// Connects to the daemon, or opens an existing folder to write. `config` is read only without a daemon.
    pub(super) fn open(
        data_dir: &Path,
        config: impl FnOnce() -> Result<Option<Config>, CliError>,
    ) -> Result<DataFolder, CliError> {
        DataFolder::open_with(data_dir, config, StoreOptions::default())
    }

    /// Like [`DataFolder::open`], also where the disk is full, for a command that makes room.
    pub(super) fn open_to_drop(
        data_dir: &Path,
        config: impl FnOnce() -> Result<Option<Config>, CliError>,
    ) -> Result<DataFolder, CliError> {
        DataFolder::open_with(data_dir, config, StoreOptions { waits_for_room: true, ..StoreOptions::default() })
    }

    fn open_with(
        data_dir: &Path,
        config: impl FnOnce() -> Result<Option<Config>, CliError>,
        options: StoreOptions,
    ) -> Result<DataFolder, CliError> {
        if let Some(control) = Control::connect(data_dir)? {
            return Ok(DataFolder::Daemon(control));
        }
        let config = config()?;
        // Opening to write would create an absent folder.
        drop(Reader::open(data_dir)?);
        let store = Store::open(data_dir, options)?;
        let access = config.as_ref().map(|config| config.archives.clone()).unwrap_or_default();
        let executor = Executor::new(store.steps(), data_dir.into(), access, Arc::new(LifecycleProgress::default()))
            .named(config.as_ref().and_then(|config| config.host.as_deref()));
        Ok(DataFolder::Offline(Box::new(OfflineStore { store, executor, config })))
    }
}

/// A data folder without a daemon, open to write.
pub(super) struct OfflineStore {
    pub(super) store: Store,
    pub(super) executor: Executor,
    config: Option<Config>,
}

impl OfflineStore {
    /// The rules of the configuration, or the recorded rules of the catalog.
    pub(super) fn rules(&self) -> Result<Vec<TableRule>, CliError> {
        Ok(rules_of(self.config.as_ref(), &self.store.steps().lifecycle_state()?).0)
    }

    /// Does `work`, and closes the folder whether the work succeeds or not.
    pub(super) fn run<T>(self, work: impl FnOnce(&OfflineStore) -> Result<T, CliError>) -> Result<T, CliError> {
        let result = work(&self);
        drop(self.executor);
        self.store.close()?;
        result
    }
}

/// Posts a request to the daemon, and shows its progress. The last line of the response is the result.
pub(super) fn ask_daemon<T: DeserializeOwned>(control: Control, target: &str, body: &str) -> Result<T, CliError> {
    let mut response = control.post(target, body)?;
    let bar = StepBar::new();
    let mut last = None;
    while let Some(line) = response.next_line()? {
        match serde_json::from_str::<StepProgress>(&line) {
            Ok(progress) => bar.show(&progress),
            Err(_) => last = Some(line),
        }
    }
    drop(bar);
    let last = last.and_then(|line| serde_json::from_str(&line).ok());
    Ok(last.ok_or(ControlError::Protocol("it has no result"))?)
}

/// A progress bar on standard error, if that is a terminal.
pub(super) struct StepBar(ProgressBar);

impl StepBar {
    pub(super) fn new() -> StepBar {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{msg:8} {bar:30} {percent:>3}%  {eta} left");
        StepBar(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    pub(super) fn show(&self, progress: &StepProgress) {
        self.0.set_message(progress.act.clone());
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
    }
}

impl Drop for StepBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
