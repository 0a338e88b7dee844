//! `daytable complete`: what a shell offers for an option, from the data folder. Completion scripts run it; it is hidden.
//!
//! A folder that cannot be read offers nothing: a shell has no place for an error.

use super::args::DataArgs;
use super::exit::CliError;
use super::output::Output;
use clap::ValueEnum;
use daytable_model::field_properties::shown_name;
use daytable_model::key::instance_of;
use daytable_model::path_text::PathText;
use daytable_model::record::Level;
use daytable_query::{Archives, Filter, Stores, select};
use daytable_store::Reader;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Values that are offered.
const VALUES_MAX: usize = 1000;
/// The newest day-tables whose instances are offered, and the newest records whose fields are.
const TABLES_READ: usize = 7;
const RECORDS_READ: u64 = 1000;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What to offer
    #[arg(value_enum)]
    kind: Completed,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Completed {
    Tables,
    Instances,
    Levels,
    Sources,
    Fields,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let values = match args.kind {
        Completed::Levels => Level::ALL.map(|level| level.name().to_owned()).to_vec(),
        kind => args.data.reader().ok().map(|reader| values(kind, &reader)).unwrap_or_default(),
    };
    let mut output = Output::new();
    // A name with a newline would be offered as two.
    for value in values.iter().filter(|value| !value.contains('\n')).take(VALUES_MAX) {
        output.line(value)?;
    }
    output.flush()
}

fn values(kind: Completed, reader: &Reader) -> Vec<String> {
    let mut values = BTreeSet::new();
    let tables = || reader.tables().unwrap_or_default();
    match kind {
        Completed::Tables => {
            let names =
                |table: &daytable_store::TableSummary| [table.table.table().to_string(), table.table.to_string()];
            values.extend(tables().iter().flat_map(names));
        }
        Completed::Instances => {
            for table in tables().iter().rev().take(TABLES_READ) {
                let partitions = reader.partitions(&table.table).unwrap_or_default();
                values.extend(partitions.iter().map(|partition| instance_of(partition).0));
            }
        }
        Completed::Sources => {
            values.extend(
                reader.sources().unwrap_or_default().into_iter().map(|source| source.path.escaped().to_string()),
            );
        }
        Completed::Levels => {}
        Completed::Fields => {
            values.extend(
                ["_time", "_arrived", "level", "instance", "source", "table", "message", "line"].map(str::to_owned),
            );
            let filter = Filter { limit: Some(RECORDS_READ), ..Filter::default() };
            // What was read until an error is offered.
            let _ = select(&Stores::local(reader, &Archives::Skip), &filter, |record| {
                values.extend(record.fields.into_iter().map(|(name, _)| shown_name(&name).into_owned()));
                ControlFlow::Continue(())
            });
        }
    }
    values.into_iter().collect()
}
