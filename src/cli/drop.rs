//! `daytable drop`: drops day-tables now.
//!
//! 1. The command lists the day-tables with their rows and times.
//! 2. On a terminal it asks. Elsewhere it needs `--yes`. With `--dry-run` it ends here.
//! 3. The running daemon drops the day-tables one by one, or the command does so under the lock of the folder.

use super::args::{DataArgs, day_table, interval, table_name};
use super::control::Control;
use super::exit::CliError;
use super::folder::DataFolder;
use super::output::{self, Output};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::{self, Ticks};
use daytable_store::Reader;
use serde::Deserialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Drop a day-table even if its table has an archive, and not all rows are archived
    #[arg(long)]
    without_archive: bool,
    /// Drop every day-table that ended longer ago than this: 30d, 12h
    #[arg(long, value_name = "AGE", value_parser = interval, conflicts_with = "tables")]
    older_than: Option<Duration>,
    /// With --older-than, only the day-tables of this table
    #[arg(long, value_name = "TABLE", value_parser = table_name, requires = "older_than", conflicts_with = "tables")]
    table: Option<TableName>,
    /// Print the day-tables that would be dropped, and change no data
    #[arg(long)]
    dry_run: bool,
    /// Do not ask. Without a terminal, the command needs this option
    #[arg(long, short)]
    yes: bool,
    /// The day-tables, such as Log20261121
    #[arg(value_name = "TABLE", value_parser = day_table, required_unless_present = "older_than")]
    tables: Vec<DayTable>,
}

/// A day-table of the data folder or of the remote store, as `/api/tables` lists it.
#[derive(Debug, Deserialize)]
struct ListedTable {
    table: String,
    state: String,
    rows: Option<u64>,
    first_time: Option<String>,
    last_time: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let data_dir = args.data.dir();
    let listed = list(&data_dir)?;
    let tables = match args.older_than {
        Some(age) => older_tables(&listed, time::now().minus(age), args.table.as_ref()),
        None => args.tables.clone(),
    };
    if tables.is_empty() {
        return output::print("no day-table is that old: nothing was dropped");
    }
    let lines: Vec<String> = tables.iter().map(|table| describe(table, &listed)).collect();
    if args.dry_run {
        let mut output = Output::new();
        lines.iter().try_for_each(|line| output.line(format_args!("would drop {line}")))?;
        return output.flush();
    }
    if !args.yes {
        confirm(&lines, args)?;
    }
    for table in &tables {
        drop_table(&data_dir, table, args.without_archive)?;
        output::print(format_args!("dropped {table}"))?;
    }
    Ok(())
}

/// The day-tables. The running daemon knows those of the remote store as well.
fn list(data_dir: &Path) -> Result<Vec<ListedTable>, CliError> {
    let Some(control) = Control::connect(data_dir)? else {
        let tables = Reader::open(data_dir)?.tables()?;
        let shown = |time: Option<Ticks>| time.map(|time| time.to_string());
        let listed = tables.into_iter().map(|summary| ListedTable {
            table: summary.table.to_string(),
            state: summary.state.into(),
            rows: Some(summary.rows),
            first_time: shown(summary.first_time),
            last_time: shown(summary.last_time),
        });
        return Ok(listed.collect());
    };
    Ok(control.fetch("/api/tables")?.all("a line is no day-table")?)
}

/// The day-tables that ended before `end`, oldest first. A dropped day is listed for its archive.
fn older_tables(listed: &[ListedTable], end: Ticks, name: Option<&TableName>) -> Vec<DayTable> {
    let named = |table: &DayTable| name.is_none_or(|name| name == table.table());
    let standing = listed.iter().filter(|listed| listed.state != "dropped");
    let tables = standing.filter_map(|listed| DayTable::parse(&listed.table).ok());
    let mut tables: Vec<DayTable> = tables.filter(|table| table.end() <= end && named(table)).collect();
    tables.sort_by_key(|table| (table.start(), table.to_string()));
    tables
}

/// A day-table with its rows and times.
fn describe(table: &DayTable, listed: &[ListedTable]) -> String {
    let name = table.to_string();
    let Some(listed) = listed.iter().find(|listed| listed.table == name) else {
        return format!("{name}: it is not there");
    };
    let rows = match listed.rows {
        None => "its rows were not counted".into(),
        Some(1) => "1 row".into(),
        Some(rows) => format!("{rows} rows"),
    };
    match (&listed.first_time, &listed.last_time) {
        (Some(first), Some(last)) => format!("{name}: {rows}, from {first} to {last}"),
        _ => format!("{name}: {rows}"),
    }
}

/// Asks on a terminal.
fn confirm(lines: &[String], args: &Args) -> Result<(), CliError> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let call = match args.older_than {
            Some(_) => "with the same options and --yes".to_owned(),
            None => {
                let tables: Vec<String> = args.tables.iter().map(ToString::to_string).collect();
                format!("`daytable drop --yes {}`", tables.join(" "))
            }
        };
        return Err(CliError::Unconfirmed(format!(
            "nothing was dropped: without a terminal this command cannot ask. To drop {}, call it {call}",
            lines.join("; ")
        )));
    }
    let mut error = io::stderr().lock();
    let asked = lines
        .iter()
        .try_for_each(|line| writeln!(error, "{line}"))
        .and_then(|()| write!(error, "Drop for good? [y/N] ").and_then(|()| error.flush()));
    let mut answer = String::new();
    asked.and_then(|()| io::stdin().read_line(&mut answer)).map_err(CliError::Output)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(CliError::Unconfirmed("nothing was dropped: the answer was not yes".into())),
    }
}

fn drop_table(data_dir: &Path, table: &DayTable, without_archive: bool) -> Result<(), CliError> {
    match DataFolder::open(data_dir, || Ok(None))? {
        DataFolder::Daemon(control) => {
            // The name of a day-table has only letters and digits.
            let without_archive = if without_archive { "&without_archive=true" } else { "" };
            let mut response = control.post(&format!("/-/drop?table={table}{without_archive}"), "")?;
            while response.next_line()?.is_some() {}
            Ok(())
        }
        DataFolder::Offline(offline) => offline.run(|offline| {
            let steps = offline.store.steps();
            let dropped = if without_archive { steps.drop_without_archive(table) } else { steps.drop_table(table) };
            Ok(dropped?)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(table: &str, rows: Option<u64>) -> ListedTable {
        let time = |hour| Some(format!("2026-11-20T{hour}:00:00Z"));
        let (table, state) = (table.into(), "open".into());
        ListedTable { table, state, rows, first_time: time("01"), last_time: time("02") }
    }

    #[test]
    fn ended_days_are_chosen_by_their_age() {
        let tables = ["Log20261121", "Log20261119", "Audit20261119", "Log20261120"].map(|table| listed(table, Some(1)));
        let chosen = |end: &str, name: Option<&str>| -> Vec<String> {
            let end = DayTable::parse(end).expect("a day").end();
            let name = name.map(|name| TableName::new(name).expect("a name"));
            older_tables(&tables, end, name.as_ref()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(chosen("Log20261120", Some("Log")), ["Log20261119", "Log20261120"]);
        assert_eq!(chosen("Log20261119", None), ["Audit20261119", "Log20261119"]);
        assert!(chosen("Log20261118", None).is_empty());
    }

    #[test]
    fn a_day_is_described_by_its_rows_and_times() {
        let table = DayTable::parse("Log20261120").expect("a day");
        let described = |rows| describe(&table, &[listed("Log20261120", rows)]);
        assert_eq!(described(Some(12)), "Log20261120: 12 rows, from 2026-11-20T01:00:00Z to 2026-11-20T02:00:00Z");
        assert!(described(None).contains("not counted") && described(Some(1)).contains(": 1 row,"));
        assert_eq!(describe(&table, &[]), "Log20261120: it is not there");
    }
}
