//! `daytable archive`: seals and archives one day-table now.

use super::args::{DataArgs, day_table};
use super::exit::CliError;
use super::folder::{DataFolder, RuleArgs, StepBar, ask_daemon};
use super::output::{self, bytes, counted};
use daytable_lifecycle::ArchiveRequirement;
use daytable_lifecycle::executor::ArchiveOutcome;
use daytable_model::key::DayTable;
use daytable_model::time::now;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    rules: RuleArgs,
    /// The day-table, such as Log20261121
    #[arg(value_parser = day_table)]
    table: DayTable,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let data_dir = args.rules.located(&args.data)?.data_dir;
    let outcome: ArchiveOutcome = match DataFolder::open(&data_dir, || args.rules.offline_config(&data_dir))? {
        // The name of a day-table has only letters and digits.
        DataFolder::Daemon(control) => ask_daemon(control, &format!("/-/archive?table={}", args.table), "")?,
        DataFolder::Offline(offline) => offline.run(|offline| {
            let rule = offline.rules()?.into_iter().find(|rule| rule.name == *args.table.table());
            let place = rule.and_then(|rule| match rule.archive {
                ArchiveRequirement::At(place) => Some(place),
                ArchiveRequirement::None => None,
            });
            let bar = StepBar::new();
            Ok(offline.executor.archive_now(&args.table, place.as_deref(), &mut |progress| bar.show(progress))?)
        })?,
    };
    let ArchiveOutcome { table, rows, bytes: size, archive } = outcome;
    let (rows, size) = (counted(rows, "row"), bytes(size));
    let goes_on = match args.table.end() > now() {
        true => "; its period continues: daytable adds the records to come after its end",
        false => "",
    };
    output::print(match archive {
        Some(place) => format!("archived {table} at {place}: {rows}, {size}{goes_on}"),
        None => format!("sealed {table}: {rows}, {size}; its table asks for no archive{goes_on}"),
    })
}
