//! `daytable check`: whether the daemon could run with a configuration.

use super::exit::CliError;
use super::output::Output;
use crate::config::Config;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = Config::load(&args.config)?;
    let mut output = Output::new();
    let (tails, syslogs, tables) = (config.tails.len(), config.syslogs.len(), config.tables.len());
    let file = args.config.display();
    let syslogs = if syslogs > 0 { format!("[[syslog]]: {syslogs}, ") } else { String::new() };
    output.line(format_args!("{file}: good, [[tail]]: {tails}, {syslogs}[[table]]: {tables}"))?;
    output.flush()
}
