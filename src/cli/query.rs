//! `daytable query`: prints the answer of a query: records, newest first, or rows; or one record by its three keys.

use super::args::{DataArgs, FilterArgs, JsonArgs, ReadSources, report_answer, report_archives};
use super::exit::CliError;
use super::output::Output;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::now;
use daytable_query::answer::{AnswerItem, answer};
use daytable_query::find_record;
use std::ops::ControlFlow;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    sources: ReadSources,
    /// At most this many records
    #[arg(short, value_name = "N")]
    n: Option<u64>,
    /// The record with these keys: TABLE/PARTITIONKEY/ROWKEY
    #[arg(long, value_parser = RecordKeys::parse, conflicts_with_all = ["query", "instance", "source", "table", "also", "since", "until", "level", "contains", "n"])]
    key: Option<RecordKeys>,
    #[command(flatten)]
    output: JsonArgs,
    /// Print the bytes of each record as its source wrote them
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

/// The three keys of a record. A key cannot contain a `/`.
#[derive(Clone, Debug)]
struct RecordKeys {
    table: DayTable,
    partition: String,
    row: RowKey,
}

impl RecordKeys {
    fn parse(text: &str) -> Result<RecordKeys, String> {
        let [table, partition, row] = text.split('/').collect::<Vec<_>>()[..] else {
            return Err("must be three keys with / between them: TABLE/PARTITIONKEY/ROWKEY".into());
        };
        let table = DayTable::parse(table).map_err(|error| error.to_string())?;
        let row = RowKey::parse(row).map_err(|error| error.to_string())?;
        Ok(RecordKeys { table, partition: partition.into(), row })
    }
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    let sources = args.sources.open(&args.data)?;
    let stores = sources.stores();
    let mut output = Output::new();
    if let Some(RecordKeys { table, partition, row }) = args.key {
        let (record, report) = find_record(&stores, &table, &partition, row)?;
        if record.is_none() {
            report_archives(&report)?;
        }
        let record = record.ok_or_else(|| CliError::NotFound(format!("{table}/{partition}/{row}")))?;
        if args.raw {
            output.raw(&record.raw())?
        } else {
            output.record(&record, args.output.json)?
        }
        output.flush()?;
        return report_archives(&report);
    }
    let mut written = Ok(());
    let (query, options) = args.filters.parse(now(), args.n)?;
    let report = answer(&stores, &query, &options, &|| true, &mut |item| {
        written = match &item {
            AnswerItem::Record(record) if args.raw => output.raw(&record.record().raw()),
            item => output.item(item, args.output.json),
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    written?;
    output.flush()?;
    report_answer(&sources, &query, &options, &report)
}
