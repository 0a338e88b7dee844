//! `daytable archive`: one day-table sealed and archived, now.

use super::args::Data;
use super::control::Control;
use super::exit::CliError;
use super::output::{Output, bytes};
use super::working::{Bar, Here, Rules, ask, rules_of};
use daytable_lifecycle::ArchiveRequirement;
use daytable_lifecycle::executor::ArchiveOutcome;
use daytable_model::key::{DayTable, KeyError};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    rules: Rules,
    /// The day-table, such as Log20261121
    #[arg(value_parser = |name: &str| -> Result<DayTable, KeyError> { DayTable::parse(name) })]
    table: DayTable,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let kept: ArchiveOutcome = match Control::connect(&args.data.dir)? {
        // The name of a day-table is letters and digits.
        Some(control) => ask(control, &format!("/-/archive?table={}", args.table), "")?,
        None => archive_here(args)?,
    };
    let mut output = Output::new();
    let ArchiveOutcome { table, rows, bytes: size, archive } = kept;
    match archive {
        Some(place) => output.line(format_args!("archived {table} at {place}: {rows} rows, {}", bytes(size)))?,
        None => {
            output.line(format_args!("sealed {table}: {rows} rows, {}; its table asks for no archive", bytes(size)))?
        }
    }
    output.flush()
}

/// Archives it where no daemon runs, under the folder's lock.
fn archive_here(args: &Args) -> Result<ArchiveOutcome, CliError> {
    let config = args.rules.config()?;
    let Here { store, executor } = Here::open(&args.data.dir, config.as_ref())?;
    let kept = store.steps().lifecycle_state().map_err(CliError::from).and_then(|state| {
        let (rules, _) = rules_of(config.as_ref(), &state);
        let rule = rules.into_iter().find(|rule| rule.name == *args.table.table());
        let place = rule.and_then(|rule| match rule.archive {
            ArchiveRequirement::At(place) => Some(place),
            ArchiveRequirement::None => None,
        });
        let bar = Bar::new();
        Ok(executor.archive_now(&args.table, place.as_deref(), &mut |working| bar.show(working))?)
    });
    store.close()?;
    kept
}
