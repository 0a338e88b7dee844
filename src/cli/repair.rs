//! `daytable repair`: the catalog, rebuilt from the files.

use super::args::Data;
use super::exit::CliError;
use super::output::Output;
use daytable_store::repair;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let said = repair(&args.data.dir)?;
    let mut output = Output::new();
    if said.is_empty() {
        output.line("the catalog and the files agree")?;
    }
    said.iter().try_for_each(|line| output.line(line))?;
    output.flush()
}
