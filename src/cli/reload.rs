//! `daytable reload`: the running daemon reads its configuration again; `systemctl reload` runs this command.
//!
//! The command ends when the new configuration is in use. It fails, with the place, if the configuration has a problem.
//! The daemon then keeps the previous one.

use super::args::{DaemonArgs, JsonArgs};
use super::exit::CliError;
use super::locate;
use super::output::Output;
use crate::daemon::Reloaded;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(flatten)]
    output: JsonArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let control = locate::daemon_of(&args.daemon.data_dir()?)?;
    let reloaded: Reloaded = control.post("/-/reload", "")?.only("it does not name the changes")?;
    let mut output = Output::new();
    if args.output.json {
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
