//! `daytable reload`: the running daemon reads its configuration again; what `systemctl reload` runs.
//!
//! It returns when the new configuration is in use, and fails, with the place, where it is not: then the daemon goes on by
//! the one before.

use super::args::configured;
use super::control::{Control, ControlError};
use super::exit::CliError;
use super::output::Output;
use crate::daemon::Reloaded;
use daytable_model::path_text::PathText;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration that the daemon runs with: it says where the data folder is
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder, in place of the configured one
    #[arg(long = "data", value_name = "DIR", env = "DAYTABLE_DATA")]
    data_dir: Option<PathBuf>,
    /// What changed as an object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let data_dir = match args.data_dir {
        Some(data_dir) => data_dir,
        None => configured(args.config.as_deref())?.data_dir,
    };
    let control = Control::connect(&data_dir)?;
    let control = control.ok_or_else(|| {
        CliError::Unavailable(format!("no daemon runs on {}, there is nothing to reload", data_dir.escaped()))
    })?;
    let mut answer = control.post("/-/reload", "")?;
    let line = answer.next_line()?.unwrap_or_default();
    let reloaded: Reloaded =
        serde_json::from_str(&line).map_err(|_| ControlError::Protocol("it does not say what has changed"))?;
    let mut output = Output::new();
    if args.json {
        output.json(&reloaded)?;
        return output.flush();
    }
    if reloaded.changed.is_empty() {
        output.line("nothing has changed")?;
    }
    for change in &reloaded.changed {
        output.line(format_args!("changed: {change}"))?;
    }
    for key in &reloaded.needs_restart {
        output.line(format_args!("needs a restart: {key}"))?;
    }
    output.flush()
}
