//! `daytable repair`: the catalogue, rebuilt from the files.

use super::args::Data;
use super::exit::CliError;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    // JOIN: crate::store::repair(&args.data.dir), and a line for what was accepted twice or is missing.
    Err(CliError::Unavailable(format!("this build cannot repair {}", args.data.dir.display())))
}
