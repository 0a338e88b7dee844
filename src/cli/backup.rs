//! `daytable backup`: a whole copy of the data folder, while the daemon runs or when it does not.

use super::args::Data;
use super::exit::CliError;
use super::output::Output;
use daytable_model::path_text::PathText;
use daytable_store::{BackedUp, SealedFiles, backup};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    /// Copy sealed days, too, instead of giving them a second name where both folders are on one disk
    #[arg(long)]
    copy: bool,
    /// The folder to make; where it is there, it has to be empty
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let sealed = if args.copy { SealedFiles::Copied } else { SealedFiles::Linked };
    let BackedUp { commit, files, bytes_copied, bytes_linked } = backup(&args.data.dir, &args.folder, sealed)?;
    let mut output = Output::new();
    output.line(format_args!(
        "{}: {files} files of days as of commit {commit}, {bytes_copied} bytes copied, {bytes_linked} linked",
        args.folder.escaped()
    ))?;
    output.flush()
}
