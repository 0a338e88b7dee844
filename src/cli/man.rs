//! `daytable man`: the manual pages, a file a command, from what `--help` says.

use super::Cli;
use super::exit::CliError;
use clap::CommandFactory;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder to write them to; it is made where there is none
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let failed = |source| CliError::Write { path: args.folder.clone(), source };
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)
}
