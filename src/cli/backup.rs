//! `daytable backup`: copies the data folder as of one moment, beside a running daemon or without one.

use super::args::DataArgs;
use super::exit::CliError;
use super::output::{self, counted};
use daytable_model::path_text::PathText;
use daytable_store::{BackedUp, SealedFiles, backup};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Copy sealed days too. Otherwise they are hard links where both folders are on one disk
    #[arg(long)]
    copy: bool,
    /// The folder to create. An existing folder must be empty
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let sealed = if args.copy { SealedFiles::Copied } else { SealedFiles::Linked };
    let BackedUp { commit, files, bytes_copied, bytes_linked } = backup(&args.data.dir(), &args.folder, sealed)?;
    output::print(format_args!(
        "{}: {} of days as of commit {commit}, {} copied, {bytes_linked} linked",
        args.folder.escaped(),
        counted(files, "file"),
        counted(bytes_copied, "byte")
    ))
}
