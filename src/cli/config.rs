//! `daytable config`: every key with its default, as a file to begin with or as a reference.

use super::exit::CliError;
use super::output::Output;
use crate::config::reference::{reference, sample};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// As Markdown: what each key takes, its default, and what a reload does to it
    #[arg(long)]
    reference: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut output = Output::new();
    let text = if args.reference { reference() } else { sample() };
    output.line(text.trim_end())?;
    output.flush()
}
