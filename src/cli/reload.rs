//! `daytable reload`: the running daemon reads its configuration again; `systemctl reload` runs this command.
//!
//! The command ends when the new configuration is in use. It fails, with the place, if the configuration has a problem.
//! The daemon then keeps the previous one.

use super::args::{DaemonArgs, JsonArgs};
use super::control::Control;
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

/// The daemon of the data folder. Without one, the daemon whose configuration this is: its folder changes at its next start.
fn daemon(args: &DaemonArgs) -> Result<Control, CliError> {
    let data_dir = args.data_dir()?;
    if let Some(control) = Control::connect(&data_dir)? {
        return Ok(control);
    }
    let file = args.named_file().filter(|_| args.data_dir.is_none());
    let with_file = file.and_then(locate::daemon_with);
    with_file.ok_or_else(|| CliError::Unavailable(locate::no_daemon(&data_dir)))
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let control = daemon(&args.daemon)?;
    let reloaded: Reloaded = control.post("/-/reload", "")?.only("it does not name the changes")?;
    let mut output = Output::new();
    if args.output.json {
        output.json(&reloaded)?;
        return output.flush();
    }
    if reloaded.changed.is_empty() && reloaded.needs_restart.is_empty() {
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
