//! `daytable check`: checks whether a daemon can run with a configuration.

use super::exit::CliError;
use super::locate::{self, load_config};
use super::output;
use daytable_intake::tail::TailOptions;
use daytable_model::path_text::PathText;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration. Without a file, /etc/daytable/daytable.toml, or the environment and the defaults
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration, as the other commands name it
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let file = args.file.as_deref().or(args.config.as_deref()).or(locate::installed_file());
    let config = load_config(file)?;
    config.sources.tails.iter().for_each(warn_of_path_fields);
    let (tails, syslogs, tables) = (config.sources.tails.len(), config.sources.syslogs.len(), config.tables.len());
    let file = file.map_or_else(|| "the environment".into(), |path| path.text().into_owned());
    let syslogs = if syslogs > 0 { format!("[[syslog]]: {syslogs}, ") } else { String::new() };
    output::print(format_args!("{file}: good, [[tail]]: {tails}, {syslogs}[[table]]: {tables}"))
}

/// Warns of a pattern of fields that matches no file of its block.
fn warn_of_path_fields(tail: &TailOptions) {
    let Some(pattern) = &tail.fields_from_path else { return };
    if !tail.include.iter().any(|include| pattern.may_match(include)) {
        tracing::warn!(
            tail = tail.name,
            fields_from_path = %pattern,
            "no file of include can match this pattern, so its fields are never added: write the paths of include"
        );
    }
}
