//! `daytable completions`: prints the completions of a shell, from the same source as `--help`.

use super::Cli;
use super::exit::CliError;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    // The generator panics on a write error, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "daytable", &mut script);
    std::io::stdout().lock().write_all(&script).map_err(CliError::output)
}
