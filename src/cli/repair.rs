//! `daytable repair`: rebuilds the catalog from the files.

use super::args::DataArgs;
use super::exit::CliError;
use super::output::Output;
use daytable_store::repair;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let report = repair(&args.data.dir())?;
    let mut output = Output::new();
    if report.is_empty() {
        output.line("the catalog and the files agree")?;
    }
    report.iter().try_for_each(|line| output.line(line))?;
    output.flush()
}
