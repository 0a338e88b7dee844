//! `daytable query`: records, newest first, or one record by its three keys.

use super::args::{Behind, Data, Filters, tell};
use super::exit::CliError;
use super::output::Output;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::now;
use daytable_query::{find_record, select};
use std::ops::ControlFlow;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    behind: Behind,
    /// So many records at most
    #[arg(short, value_name = "N")]
    n: Option<u64>,
    /// The one record with these keys: TABLE/PARTITIONKEY/ROWKEY
    #[arg(long, value_parser = Keys::parse, conflicts_with_all = ["instance", "since", "until", "level", "contains", "n"])]
    key: Option<Keys>,
    /// An object a line, with all keys and fields
    #[arg(long)]
    json: bool,
}

/// The three keys of a record. None of them can have a `/`.
#[derive(Clone, Debug)]
struct Keys {
    table: DayTable,
    partition: String,
    row: RowKey,
}

impl Keys {
    fn parse(text: &str) -> Result<Keys, String> {
        let [table, partition, row] = text.split('/').collect::<Vec<_>>()[..] else {
            return Err("three keys with / between them: TABLE/PARTITIONKEY/ROWKEY".into());
        };
        let table = DayTable::parse(table).map_err(|error| error.to_string())?;
        let row = RowKey::parse(row).map_err(|error| error.to_string())?;
        Ok(Keys { table, partition: partition.into(), row })
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let opened = args.behind.open(&args.data)?;
    let stores = opened.stores();
    let mut output = Output::new();
    if let Some(Keys { table, partition, row }) = args.key {
        let (record, told) = find_record(&stores, &table, &partition, row)?;
        if record.is_none() {
            tell(&told)?;
        }
        let record = record.ok_or_else(|| CliError::NotFound(format!("{table}/{partition}/{row}")))?;
        output.record(&record, args.json)?;
        output.flush()?;
        return tell(&told);
    }
    let mut written = Ok(());
    let told = select(&stores, &args.filters.at(now(), args.n), |record| {
        written = output.record(&record, args.json);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    output.flush()?;
    tell(&told)
}
