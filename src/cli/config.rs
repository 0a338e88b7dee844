//! `daytable config`: prints every key with its default, as a sample file or as a reference.

use super::exit::CliError;
use super::output;
use crate::config::reference::{reference, sample};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the reference as Markdown: the values of each key, its default, and the effect of a reload
    #[arg(long)]
    reference: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let text = if args.reference { reference() } else { sample() };
    output::print(text.trim_end())
}
