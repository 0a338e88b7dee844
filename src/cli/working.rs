//! What commands share that have a day sealed, archived or restored: a bar on a terminal, and who does it.
//!
//! With a daemon on the data folder, the daemon does it and tells how far it is, a line a [`StepProgress`], the last line
//! being what became of it. Without one it is done here, under the folder's lock.

use super::args::named;
use super::control::{Control, ControlError};
use super::exit::CliError;
use crate::config::{Config, TableConfig};
use daytable_lifecycle::progress::StepProgress;
use daytable_lifecycle::{Executor, LifecycleLimits, LifecycleProgress, TableRule, rules_of_last_run};
use daytable_store::{LifecycleState, Reader, Store, StoreOptions};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which configuration counts where no daemon runs.
#[derive(Debug, clap::Args)]
pub(super) struct Rules {
    /// The configuration, where no daemon runs; without one, what the last daemon went by
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Rules {
    /// The configuration that was named.
    pub(super) fn config(&self) -> Result<Option<Config>, CliError> {
        Ok(named(self.config.as_deref())?)
    }
}

/// The rules of a configuration, or those that the catalog remembers.
pub(super) fn rules_of(config: Option<&Config>, state: &LifecycleState) -> (Vec<TableRule>, LifecycleLimits) {
    match config {
        Some(config) => (config.tables.iter().map(TableConfig::rule).collect(), config.lifecycle.limits),
        None => rules_of_last_run(state),
    }
}

/// What takes steps on a folder that no daemon runs on.
pub(super) struct Here {
    pub(super) store: Store,
    pub(super) executor: Executor,
}

impl Here {
    /// Opens the folder to write, which has to be there.
    pub(super) fn open(data_dir: &Path, config: Option<&Config>) -> Result<Here, CliError> {
        // Opening to write would make a folder where there is none.
        drop(Reader::open(data_dir)?);
        let store = Store::open(data_dir, StoreOptions::default())?;
        let access = config.map(|config| config.archives.clone()).unwrap_or_default();
        let executor = Executor::new(store.steps(), data_dir.into(), access, Arc::new(LifecycleProgress::default()));
        Ok(Here { store, executor })
    }
}

/// The last line of the daemon's answer; the others tell how far it is.
pub(super) fn ask<T: DeserializeOwned>(control: Control, target: &str, body: &str) -> Result<T, CliError> {
    let mut answer = control.post(target, body)?;
    let bar = Bar::new();
    let mut last = None;
    while let Some(line) = answer.next_line()? {
        match serde_json::from_str::<StepProgress>(&line) {
            Ok(working) => bar.show(&working),
            Err(_) => last = Some(line),
        }
    }
    drop(bar);
    let last = last.and_then(|line| serde_json::from_str(&line).ok());
    Ok(last.ok_or(ControlError::Protocol("it does not say what became of it"))?)
}

/// A bar on standard error; nothing where that is no terminal.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{msg:8} {bar:30} {percent:>3}%  {eta} left");
        Bar(match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        })
    }

    pub(super) fn show(&self, working: &StepProgress) {
        self.0.set_message(working.act.clone());
        self.0.set_length(working.total);
        self.0.set_position(working.done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
