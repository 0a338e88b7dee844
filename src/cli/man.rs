//! `daytable man`: the manual pages, a file a command, from the same source as `--help`.

use super::command_reference;
use super::exit::CliError;
use super::output;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The folder to write the pages to. It is created if it does not exist
    #[arg(value_name = "DIR", required_unless_present = "reference")]
    folder: Option<PathBuf>,
    /// Print all commands as one page of Markdown instead
    #[arg(long, conflicts_with = "folder")]
    reference: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    match &args.folder {
        Some(folder) => write_pages(folder),
        None => output::print(command_reference::reference().trim_end()),
    }
}

fn write_pages(folder: &Path) -> Result<(), CliError> {
    let failed = |source| CliError::Write { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(command_reference::command_line(), folder).map_err(failed)
}
