//! `daytable tables`: the day-tables, the oldest first.

use super::args::Data;
use super::exit::CliError;
use super::output::{Columns, Output, bytes, cell};
use crate::query::ShownTable;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    /// An object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let tables: Vec<ShownTable> = args.data.open()?.tables()?.iter().map(ShownTable::from).collect();
    let mut output = Output::new();
    if args.json {
        tables.iter().try_for_each(|table| output.json(table))?;
    } else {
        output.line(columns(tables))?;
    }
    output.flush()
}

fn columns(tables: Vec<ShownTable>) -> Columns<'static, 7> {
    let row = |table: ShownTable| {
        [
            table.table,
            table.state.into(),
            table.rows.to_string(),
            bytes(table.bytes),
            cell(table.first_time),
            cell(table.last_time),
            cell(table.expires),
        ]
    };
    Columns {
        heads: ["table", "state", "rows", "bytes", "first", "last", "expires"],
        right: &["rows", "bytes"],
        rows: tables.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_table() {
        let table = ShownTable {
            table: "Log20261121".into(),
            state: "open",
            rows: 12,
            bytes: 1536,
            first_time: Some("2026-11-21T00:00:00Z".into()),
            last_time: None,
            expires: None,
        };
        assert_eq!(
            columns(vec![table]).to_string(),
            "table        state  rows    bytes  first                 last  expires\n\
             Log20261121  open     12  1.5 KiB  2026-11-21T00:00:00Z  -     -"
        );
    }
}
