//! `daytable drop`: drops one day-table now.

use super::args::{DataArgs, day_table};
use super::exit::CliError;
use super::folder::DataFolder;
use super::output;
use daytable_model::key::DayTable;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Drop the day-table even if its table has an archive, and not all rows are archived
    #[arg(long)]
    without_archive: bool,
    /// The day-table, such as Log20261121
    #[arg(value_parser = day_table)]
    table: DayTable,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let table = &args.table;
    match DataFolder::open(&args.data.dir(), || Ok(None))? {
        DataFolder::Daemon(control) => {
            // The name of a day-table has only letters and digits.
            let without_archive = if args.without_archive { "&without_archive=true" } else { "" };
            let mut response = control.post(&format!("/-/drop?table={table}{without_archive}"), "")?;
            while response.next_line()?.is_some() {}
        }
        DataFolder::Offline(offline) => offline.run(|offline| {
            let steps = offline.store.steps();
            let dropped =
                if args.without_archive { steps.drop_without_archive(table) } else { steps.drop_table(table) };
            Ok(dropped?)
        })?,
    }
    output::print(format_args!("dropped {table}"))
}
