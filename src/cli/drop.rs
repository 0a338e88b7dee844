//! `daytable drop`: one day-table, now.

use super::args::Data;
use super::control::Control;
use super::exit::CliError;
use super::output::Output;
use daytable_model::key::{DayTable, KeyError};
use daytable_store::{Reader, Store, StoreOptions};
use std::path::Path;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    /// Also where its table asks for an archive, and there is none of all that it holds
    #[arg(long)]
    without_archive: bool,
    /// The day-table, such as Log20261121
    #[arg(value_parser = |name: &str| -> Result<DayTable, KeyError> { DayTable::parse(name) })]
    table: DayTable,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let table = &args.table;
    match Control::connect(&args.data.dir)? {
        Some(control) => {
            // The name of a day-table is letters and digits.
            let without_archive = if args.without_archive { "&without_archive=true" } else { "" };
            let mut answer = control.post(&format!("/-/drop?table={table}{without_archive}"), "")?;
            while answer.next_line()?.is_some() {}
        }
        None => drop_here(&args.data.dir, table, args.without_archive)?,
    }
    let mut output = Output::new();
    output.line(format_args!("dropped {table}"))?;
    output.flush()
}

/// Drops it where no daemon runs, under the folder's lock.
fn drop_here(data_dir: &Path, table: &DayTable, without_archive: bool) -> Result<(), CliError> {
    // Opening to write would make a folder where there is none.
    std::mem::drop(Reader::open(data_dir)?);
    let store = Store::open(data_dir, StoreOptions::default())?;
    let dropped = match without_archive {
        true => store.steps().drop_without_archive(table),
        false => store.steps().drop_table(table),
    };
    store.close()?;
    Ok(dropped?)
}
