//! `daytable drop`: drops day-tables now.
//!
//! 1. The command lists the day-tables with their rows and times.
//! 2. On a terminal it asks. Elsewhere it needs `--yes`. With `--dry-run` it ends here.
//! 3. The running daemon drops the day-tables one by one, or the command does so under the lock of the folder.

use super::args::{DataArgs, day_table};
use super::control::Control;
use super::exit::CliError;
use super::folder::DataFolder;
use super::output::{self, Output};
use daytable_intake::glob::Pattern;
use daytable_model::key::DayTable;
use daytable_model::time::{self, Ticks};
use daytable_model::units::{ByteSize, UnitError, parse_duration};
use daytable_store::Reader;
use serde::Deserialize;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("rule").args(["older_than", "bytes"]).multiple(true)))]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Drop a day-table even if its table has an archive, and not all rows are archived
    #[arg(long)]
    without_archive: bool,
    /// Drop every day-table that ended longer ago than this: 30d, 12h; 0s means every one that is over
    #[arg(long, value_name = "AGE", value_parser = parse_duration, conflicts_with = "tables")]
    older_than: Option<Duration>,
    /// Drop the oldest day-tables that are over, until they had this many bytes: 500MiB, 20GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes_to_free, conflicts_with = "tables")]
    bytes: Option<ByteSize>,
    /// With --older-than or --bytes, only the day-tables of these tables; * stands for any text
    #[arg(long, value_name = "TABLE", value_parser = Pattern::instance, requires = "rule", conflicts_with = "tables")]
    table: Option<Pattern>,
    /// Print the day-tables that would be dropped, and change no data
    #[arg(long)]
    dry_run: bool,
    /// Do not ask. Without a terminal, the command needs this option
    #[arg(long, short)]
    yes: bool,
    /// The day-tables, such as Log20261121
    #[arg(value_name = "TABLE", value_parser = day_table, required_unless_present = "rule")]
    tables: Vec<DayTable>,
}

impl Args {
    /// Whether the day-tables are chosen by a rule, and not by their names.
    fn is_by_rule(&self) -> bool {
        self.older_than.is_some() || self.bytes.is_some()
    }
}

/// A day-table of the data folder or of the remote store, as `/api/tables` lists it.
#[derive(Debug, Deserialize)]
struct ListedTable {
    table: String,
    state: String,
    rows: Option<u64>,
    /// Bytes of the files in the data folder; a remote store does not say how many it has.
    bytes: Option<u64>,
    first_time: Option<String>,
    last_time: Option<String>,
}

/// The number of bytes to free, which is more than zero.
fn bytes_to_free(text: &str) -> Result<ByteSize, String> {
    let bytes: ByteSize = text.parse().map_err(|error: UnitError| error.to_string())?;
    if bytes.get() == 0 { Err("must be more than zero".into()) } else { Ok(bytes) }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let data_dir = args.data.dir();
    let listed = list(&data_dir)?;
    let tables = match args.is_by_rule() {
        true => {
            let end = time::now().minus(args.older_than.unwrap_or_default());
            let older = older_tables(&listed, end, args.table.as_ref());
            match args.bytes {
                Some(bytes) => oldest_with(older, &listed, bytes.get()),
                None => older,
            }
        }
        false => args.tables.clone(),
    };
    if tables.is_empty() {
        let which = if args.table.is_some() {
            "no day-table of this name is over and that old"
        } else {
            "no day-table is that old"
        };
        return output::print(format_args!("{which}: nothing was dropped"));
    }
    let lines: Vec<String> = tables.iter().map(|table| describe(table, &listed)).collect();
    if args.dry_run {
        let mut output = Output::new();
        lines.iter().try_for_each(|line| output.line(format_args!("would drop {line}")))?;
        if args.is_by_rule() {
            let bytes = tables.iter().filter_map(|table| bytes_of(table, &listed)).sum();
            output.line(format_args!("{} in all", output::bytes(bytes)))?;
        }
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
            bytes: Some(summary.bytes),
            first_time: shown(summary.first_time),
            last_time: shown(summary.last_time),
        });
        return Ok(listed.collect());
    };
    Ok(control.fetch("/api/tables")?.all("a line is not a day-table")?)
}

/// The day-tables that ended before `end`, oldest first. A dropped day is listed for its archive.
fn older_tables(listed: &[ListedTable], end: Ticks, name: Option<&Pattern>) -> Vec<DayTable> {
    let named = |table: &DayTable| name.is_none_or(|name| name.matches(table.table().as_str()));
    let standing = listed.iter().filter(|listed| listed.state != "dropped");
    let tables = standing.filter_map(|listed| DayTable::parse(&listed.table).ok());
    let mut tables: Vec<DayTable> = tables.filter(|table| table.end() <= end && named(table)).collect();
    tables.sort_by_key(|table| (table.start(), table.to_string()));
    tables
}

/// The first of these day-tables, until they have as many bytes together. Without so many bytes, all of them.
fn oldest_with(tables: Vec<DayTable>, listed: &[ListedTable], bytes: u64) -> Vec<DayTable> {
    let mut had = 0;
    let counted = tables.into_iter().filter_map(|table| Some((bytes_of(&table, listed)?, table)));
    let needed = counted.take_while(|(of_table, _)| {
        let is_needed = had < bytes;
        had += of_table;
        is_needed
    });
    needed.map(|(_, table)| table).collect()
}

fn bytes_of(table: &DayTable, listed: &[ListedTable]) -> Option<u64> {
    let name = table.to_string();
    listed.iter().find(|listed| listed.table == name)?.bytes
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
        let call = match args.is_by_rule() {
            true => "with the same options and --yes".to_owned(),
            false => {
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
        ListedTable {
            table,
            state,
            rows,
            bytes: rows.map(|rows| rows << 20),
            first_time: time("01"),
            last_time: time("02"),
        }
    }

    #[test]
    fn ended_days_are_chosen_by_their_age() {
        let tables = ["Log20261121", "Log20261119", "Audit20261119", "Log20261120"].map(|table| listed(table, Some(1)));
        let chosen = |end: &str, name: Option<&str>| -> Vec<String> {
            let end = DayTable::parse(end).expect("a day").end();
            let name = name.map(|name| Pattern::instance(name).expect("a pattern"));
            older_tables(&tables, end, name.as_ref()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(chosen("Log20261120", Some("Log")), ["Log20261119", "Log20261120"]);
        assert_eq!(chosen("Log20261119", None), ["Audit20261119", "Log20261119"]);
        assert_eq!(chosen("Log20261120", Some("L*")), ["Log20261119", "Log20261120"]);
        assert!(chosen("Log20261118", None).is_empty());
    }

    #[test]
    fn the_oldest_days_go_until_they_had_the_bytes() {
        let tables = [("Log20261121", 3), ("Log20261119", 1), ("Log20261120", 2)];
        let tables = tables.map(|(table, rows)| listed(table, Some(rows)));
        let older = older_tables(&tables, DayTable::parse("Log20261121").expect("a day").end(), None);
        let chosen = |bytes: u64| oldest_with(older.clone(), &tables, bytes).len();
        assert_eq!([1, 1 << 20, (1 << 20) + 1, 3 << 20, (3 << 20) + 1, 1 << 40].map(chosen), [1, 1, 2, 2, 3, 3]);
        let unknown = [listed("Log20261119", None), listed("Log20261120", Some(1))];
        let older = older_tables(&unknown, DayTable::parse("Log20261121").expect("a day").end(), None);
        assert_eq!(oldest_with(older, &unknown, 1), [DayTable::parse("Log20261120").expect("a day")]);
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
