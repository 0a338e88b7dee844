//! `daytable restore`: restores an archived day as a table for a limited time.

use super::args::{DataArgs, day_table, interval, table_name};
use super::exit::CliError;
use super::folder::{DataFolder, RuleArgs, StepBar, ask_daemon};
use super::output::{self, counted};
use crate::http::RestoreRequest;
use daytable_lifecycle::{ArchiveRequirement, RestoreOutcome, RestoreSpec};
use daytable_model::key::{DayTable, TableName};
use std::path::Path;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    rules: RuleArgs,
    /// The name of the restored table: with Incident, Log20261121 becomes Incident20261121. The default is its own name
    #[arg(long = "as", value_name = "NAME", value_parser = table_name)]
    name: Option<TableName>,
    /// The host whose day it is, where several hosts archive to one address. The default is this host
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// How long the restored table stays, such as 12h or 7d
    #[arg(long, value_name = "TIME", default_value = "2d", value_parser = interval)]
    keep: Duration,
    /// The archived day-table, such as Log20261121. A backup of a folder is put back by `mv`, and then `daytable repair`
    #[arg(value_parser = archived_table)]
    table: DayTable,
}

/// A day-table. A folder is taken for a backup, which is put back in another way.
fn archived_table(text: &str) -> Result<DayTable, String> {
    day_table(text).map_err(|error| match Path::new(text).is_dir() {
        true => format!(
            "this is a folder, and `restore` is for a day of an archive; a backup is put back with the daemon stopped: \
             move it to the place of the data folder (mv {text} DIR), then daytable repair --data DIR"
        ),
        false => error.to_string(),
    })
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let data_dir = args.rules.located(&args.data)?.data_dir;
    let restored: RestoreOutcome = match DataFolder::open(&data_dir, || args.rules.offline_config(&data_dir))? {
        DataFolder::Daemon(control) => {
            let (table, name) = (args.table.to_string(), args.name.as_ref().map(TableName::to_string));
            let (host, keep_seconds) = (args.host.clone(), args.keep.as_secs());
            let body = serde_json::to_string(&RestoreRequest { table, name, host, keep_seconds });
            ask_daemon(control, "/-/restore", &body.unwrap_or_default())?
        }
        DataFolder::Offline(offline) => offline.run(|offline| {
            let places = offline.rules()?.into_iter().filter_map(|rule| match rule.archive {
                ArchiveRequirement::At(place) => Some(place.to_string()),
                ArchiveRequirement::None => None,
            });
            let (origin, name, keep) = (args.table.clone(), args.name.clone(), args.keep);
            let spec = RestoreSpec { origin, name, keep, host: args.host.clone(), places: places.collect() };
            let bar = StepBar::new();
            Ok(offline.executor.restore(&spec, &mut |progress| bar.show(progress))?)
        })?,
    };
    let RestoreOutcome { table, rows, expires, stood } = restored;
    let verb = if stood { "exists already" } else { "restored" };
    output::print(format_args!("{verb}: {table} with {}, until {expires}", counted(rows, "row")))?;
    let is_beside = DayTable::parse(&table).is_ok_and(|table| table != args.table);
    match is_beside {
        true => output::print(format_args!(
            "Until then a question about all tables has these records twice, as {} and as {table}: write table:={table} for one of them",
            args.table
        )),
        false => Ok(()),
    }
}
