//! `daytable check`: checks whether a daemon can run with a configuration.

use super::args::load_config;
use super::exit::CliError;
use super::output;
use daytable_model::path_text::PathText;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration. Without a file, the environment and the defaults
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = load_config(args.config.as_deref())?;
    let (tails, syslogs, tables) = (config.sources.tails.len(), config.sources.syslogs.len(), config.tables.len());
    let file = args.config.as_deref().map_or_else(|| "the environment".into(), |path| path.text().into_owned());
    let syslogs = if syslogs > 0 { format!("[[syslog]]: {syslogs}, ") } else { String::new() };
    output::print(format_args!("{file}: good, [[tail]]: {tails}, {syslogs}[[table]]: {tables}"))
}
