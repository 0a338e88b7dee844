//! `daytable restore`: an archived day as a table again, for a while.

use super::args::Data;
use super::control::Control;
use super::exit::CliError;
use super::output::Output;
use super::working::{Bar, Here, Rules, ask, rules_of};
use crate::http::RestoreRequest;
use daytable_lifecycle::{ArchiveRequirement, RestoreOutcome, RestoreSpec};
use daytable_model::key::{DayTable, KeyError, TableName};
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    rules: Rules,
    /// The name it comes back under, in place of its own: Incident makes Incident20261121 of Log20261121
    #[arg(long = "as", value_name = "NAME", value_parser = |name: &str| -> Result<TableName, KeyError> { TableName::new(name) })]
    name: Option<TableName>,
    /// How long it stands before it goes again, such as 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "2d", value_parser = super::args::interval)]
    keep: Duration,
    /// The day-table that was archived, such as Log20261121
    #[arg(value_parser = |name: &str| -> Result<DayTable, KeyError> { DayTable::parse(name) })]
    table: DayTable,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let restored: RestoreOutcome = match Control::connect(&args.data.dir)? {
        Some(control) => {
            let (table, name) = (args.table.to_string(), args.name.as_ref().map(TableName::to_string));
            let body = serde_json::to_string(&RestoreRequest { table, name, keep_seconds: args.keep.as_secs() });
            ask(control, "/-/restore", &body.unwrap_or_default())?
        }
        None => restore_here(args)?,
    };
    let RestoreOutcome { table, rows, expires, stood } = restored;
    let what = if stood { "stands already" } else { "restored" };
    let mut output = Output::new();
    output.line(format_args!("{what}: {table} with {rows} rows, until {expires}"))?;
    output.flush()
}

/// Restores it where no daemon runs, under the folder's lock.
fn restore_here(args: &Args) -> Result<RestoreOutcome, CliError> {
    let config = args.rules.config()?;
    let Here { store, executor } = Here::open(&args.data.dir, config.as_ref())?;
    let restored = store.steps().lifecycle_state().map_err(CliError::from).and_then(|state| {
        let (rules, _) = rules_of(config.as_ref(), &state);
        let places = rules.into_iter().filter_map(|rule| match rule.archive {
            ArchiveRequirement::At(place) => Some(place.to_string()),
            ArchiveRequirement::None => None,
        });
        let (origin, name, keep) = (args.table.clone(), args.name.clone(), args.keep);
        let wanted = RestoreSpec { origin, name, keep, places: places.collect() };
        let bar = Bar::new();
        Ok(executor.restore(&wanted, &mut |working| bar.show(working))?)
    });
    store.close()?;
    restored
}
