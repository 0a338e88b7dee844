//! `daytable drop`: drops day-tables now.
//!
//! 1. The command lists the day-tables with their rows and times.
//! 2. On a terminal it asks. Elsewhere it needs `--yes`. With `--dry-run` it ends here.
//! 3. The running daemon drops the day-tables one by one, or the command does so under the lock of the folder. With
//!    `--archives`, the archives of each go after the day-table itself; a day of which only archives are left is chosen, too.

use super::args::{DataArgs, day_table};
use super::control::Control;
use super::exit::CliError;
use super::folder::DataFolder;
use super::locate::{Located, load_named_config};
use super::output::{self, Output, asked, can_ask, counted};
use daytable_intake::glob::Pattern;
use daytable_lifecycle::listing::table_list;
use daytable_lifecycle::progress::ProgressSnapshot;
use daytable_lifecycle::{RemovedArchives, View, rules_of_last_run};
use daytable_model::key::DayTable;
use daytable_model::safe_text::SafeLine;
use daytable_model::time::{self, Ticks};
use daytable_model::units::{ByteSize, UnitError, parse_duration};
use daytable_store::{LifecycleState, Reader};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("rule").args(["older_than", "bytes"]).multiple(true)))]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Drop a day-table even if its table has an archive, and not all rows are archived
    #[arg(long)]
    without_archive: bool,
    /// Remove the archives of the day-tables as well, for good. Their bytes count for --bytes, and days count that are archives
    /// alone
    #[arg(long)]
    archives: bool,
    /// The configuration with the access to archives where no daemon runs, whose data folder is meant unless --data names it
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
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
    /// The address of its latest archive, and the bytes of all of them.
    archive: Option<String>,
    archive_bytes: Option<u64>,
}

impl ListedTable {
    /// Whether only archives are left of the day.
    fn is_archive(&self) -> bool {
        self.state == "dropped"
    }

    /// The bytes that go with the day.
    fn bytes_to_go(&self, with_archives: bool) -> Option<u64> {
        let local = self.bytes.filter(|_| !self.is_archive());
        let archived = self.archive_bytes.filter(|_| with_archives);
        if local.is_none() && archived.is_none() { None } else { Some(local.unwrap_or(0) + archived.unwrap_or(0)) }
    }
}

/// The number of bytes to free, which is more than zero.
fn bytes_to_free(text: &str) -> Result<ByteSize, String> {
    let bytes: ByteSize = text.parse().map_err(|error: UnitError| error.to_string())?;
    if bytes.get() == 0 { Err("must be more than zero".into()) } else { Ok(bytes) }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let located = args.data.located(args.config.as_deref())?;
    let data_dir = &located.data_dir;
    let listed = list(data_dir)?;
    let tables = match args.is_by_rule() {
        true => {
            let end = time::now().minus(args.older_than.unwrap_or_default());
            let older = older_tables(&listed, end, args.table.as_ref(), args.archives);
            match args.bytes {
                Some(bytes) => oldest_with(older, &listed, bytes.get(), args.archives),
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
    let lines: Vec<String> = tables.iter().map(|table| describe(table, &listed, args.archives)).collect();
    if args.dry_run {
        let mut output = Output::new();
        lines.iter().try_for_each(|line| output.line(format_args!("would drop {line}")))?;
        if args.is_by_rule() {
            let bytes = tables.iter().filter_map(|table| bytes_of(table, &listed, args.archives)).sum();
            let days = counted(tables.len() as u64, "day");
            output.line(format_args!("{} in all, of {days}", output::bytes(bytes)))?;
        }
        return output.flush();
    }
    if !args.yes {
        confirm(&lines, args)?;
    }
    for table in &tables {
        let is_archive = listed.iter().any(|listed| listed.is_archive() && listed.table == table.to_string());
        let removed = drop_table(&located, table, args)?;
        if !(args.archives && is_archive) {
            output::print(format_args!("dropped {table}"))?;
        }
        if let Some(RemovedArchives { archives, archive_bytes, are_swept_later }) = removed {
            let archives = counted(archives, "archive");
            let bytes = output::bytes(archive_bytes);
            let later = if are_swept_later {
                "; the Delta table lost them, and the files go when a day is archived a day from now"
            } else {
                ""
            };
            output::print(format_args!("removed {archives} of {table}, {bytes}{later}"))?;
        }
    }
    Ok(())
}

/// The day-tables. The running daemon knows those of the remote store as well.
fn list(data_dir: &Path) -> Result<Vec<ListedTable>, CliError> {
    let Some(control) = Control::connect(data_dir)? else {
        let reader = Reader::open(data_dir)?;
        let state = LifecycleState::of(reader.catalog())?;
        let (rules, limits) = rules_of_last_run(&state);
        let view = View::of(data_dir, state, &rules, limits, time::now());
        let listed = table_list(&reader, &view, &ProgressSnapshot::default())?.into_iter().map(|shown| ListedTable {
            table: shown.table,
            state: shown.state.into(),
            rows: shown.rows,
            bytes: shown.bytes,
            first_time: shown.first_time,
            last_time: shown.last_time,
            archive: shown.archive,
            archive_bytes: shown.archive_bytes,
        });
        return Ok(listed.collect());
    };
    Ok(control.fetch("/api/tables")?.all("a line is not a day-table")?)
}

/// The day-tables that ended before `end`, oldest first. A dropped day is listed for its archive, and chosen with archives
/// alone.
fn older_tables(listed: &[ListedTable], end: Ticks, name: Option<&Pattern>, with_archives: bool) -> Vec<DayTable> {
    let named = |table: &DayTable| name.is_none_or(|name| name.matches(table.table().as_str()));
    let standing = listed.iter().filter(|listed| with_archives || !listed.is_archive());
    let tables = standing.filter_map(|listed| DayTable::parse(&listed.table).ok());
    let mut tables: Vec<DayTable> = tables.filter(|table| table.end() <= end && named(table)).collect();
    tables.sort_by_key(|table| (table.start(), table.to_string()));
    tables
}

/// The first of these day-tables, until they have as many bytes together. Without this many bytes, all of them.
fn oldest_with(tables: Vec<DayTable>, listed: &[ListedTable], bytes: u64, with_archives: bool) -> Vec<DayTable> {
    let mut had = 0;
    let sized = tables.into_iter().filter_map(|table| Some((bytes_of(&table, listed, with_archives)?, table)));
    let needed = sized.take_while(|(of_table, _)| {
        let is_needed = had < bytes;
        had += of_table;
        is_needed
    });
    needed.map(|(_, table)| table).collect()
}

fn bytes_of(table: &DayTable, listed: &[ListedTable], with_archives: bool) -> Option<u64> {
    let name = table.to_string();
    listed.iter().find(|listed| listed.table == name)?.bytes_to_go(with_archives)
}

/// A day-table with its rows, times and archives.
fn describe(table: &DayTable, listed: &[ListedTable], with_archives: bool) -> String {
    let name = table.to_string();
    let Some(listed) = listed.iter().find(|listed| listed.table == name) else {
        return format!("{name}: it is not there");
    };
    let rows = match listed.rows {
        None => "its rows were not counted".into(),
        Some(rows) => counted(rows, "row"),
    };
    let times = match (&listed.first_time, &listed.last_time) {
        (Some(first), Some(last)) => format!(", from {first} to {last}"),
        _ => String::new(),
    };
    let archived = match (&listed.archive, listed.archive_bytes) {
        (Some(archive), Some(bytes)) if with_archives => {
            let only = if listed.is_archive() { "only archived" } else { "and archived" };
            format!(", {only}: {} in {}", output::bytes(bytes), SafeLine(archive))
        }
        _ => String::new(),
    };
    format!("{name}: {rows}{times}{archived}")
}

/// Asks on a terminal.
fn confirm(lines: &[String], args: &Args) -> Result<(), CliError> {
    if !can_ask() {
        let call = match args.is_by_rule() {
            true => "with the same options and --yes".to_owned(),
            false => {
                let tables: Vec<String> = args.tables.iter().map(ToString::to_string).collect();
                let archives = if args.archives { "--archives " } else { "" };
                format!("`daytable drop --yes {archives}{}`", tables.join(" "))
            }
        };
        return Err(CliError::Unconfirmed(format!(
            "nothing was dropped: without a terminal this command cannot ask. To drop {}, call it {call}",
            lines.join("; ")
        )));
    }
    match asked(&format!("{}\nDrop for good?", lines.join("\n")))? {
        true => Ok(()),
        false => Err(CliError::Unconfirmed("nothing was dropped: the answer was not yes".into())),
    }
}

/// Drops a day-table; with archives, gives those that were removed.
fn drop_table(located: &Located, table: &DayTable, args: &Args) -> Result<Option<RemovedArchives>, CliError> {
    let Args { without_archive, archives, .. } = *args;
    let settings = || match archives && located.is_wrong {
        // Archives are reached by settings.
        true => Ok(load_named_config(args.config.as_deref())?),
        false => Ok(located.config()),
    };
    match DataFolder::open_to_drop(&located.data_dir, settings)? {
        DataFolder::Daemon(control) => {
            // The name of a day-table has only letters and digits.
            let without_archive = if without_archive { "&without_archive=true" } else { "" };
            let archives_too = if archives { "&archives=true" } else { "" };
            let target = format!("/-/drop?table={table}{without_archive}{archives_too}");
            let mut response = control.patient()?.post(&target, "")?;
            let mut removed = None;
            while let Some(line) = response.next_line()? {
                removed = serde_json::from_str(&line).ok();
            }
            Ok(removed.filter(|_| archives))
        }
        DataFolder::Offline(offline) => offline.run(|offline| {
            let steps = offline.store.steps();
            if archives && steps.lifecycle_state()?.has_archives_alone(table) {
                return Ok(Some(offline.executor.remove_archives(table)?));
            }
            let dropped = if without_archive { steps.drop_without_archive(table) } else { steps.drop_table(table) };
            dropped?;
            Ok(if archives { Some(offline.executor.remove_archives(table)?) } else { None })
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
            archive: None,
            archive_bytes: None,
        }
    }

    #[test]
    fn ended_days_are_chosen_by_their_age() {
        let tables = ["Log20261121", "Log20261119", "Audit20261119", "Log20261120"].map(|table| listed(table, Some(1)));
        let chosen = |end: &str, name: Option<&str>| -> Vec<String> {
            let end = DayTable::parse(end).expect("a day").end();
            let name = name.map(|name| Pattern::instance(name).expect("a pattern"));
            older_tables(&tables, end, name.as_ref(), false).iter().map(ToString::to_string).collect()
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
        let older = older_tables(&tables, DayTable::parse("Log20261121").expect("a day").end(), None, false);
        let chosen = |bytes: u64| oldest_with(older.clone(), &tables, bytes, false).len();
        assert_eq!([1, 1 << 20, (1 << 20) + 1, 3 << 20, (3 << 20) + 1, 1 << 40].map(chosen), [1, 1, 2, 2, 3, 3]);
        let unknown = [listed("Log20261119", None), listed("Log20261120", Some(1))];
        let older = older_tables(&unknown, DayTable::parse("Log20261121").expect("a day").end(), None, false);
        assert_eq!(oldest_with(older, &unknown, 1, false), [DayTable::parse("Log20261120").expect("a day")]);
    }

    #[test]
    fn archives_count_where_they_are_asked_for() {
        let with_archive = |table: &str, state: &str, bytes| ListedTable {
            state: state.into(),
            archive: Some("file:///srv/a".into()),
            archive_bytes: Some(bytes),
            ..listed(table, Some(1))
        };
        let tables =
            [with_archive("Log20261119", "dropped", 5 << 20), with_archive("Log20261120", "archived", 7 << 20)];
        let end = DayTable::parse("Log20261121").expect("a day").end();
        let chosen = |with_archives| older_tables(&tables, end, None, with_archives);
        assert_eq!([chosen(false).len(), chosen(true).len()], [1, 2]);
        let bytes = |with_archives| -> Vec<_> {
            tables.iter().map(|table| table.bytes_to_go(with_archives).map(|bytes| bytes >> 20)).collect()
        };
        assert_eq!((bytes(false), bytes(true)), (vec![None, Some(1)], vec![Some(5), Some(8)]));
        assert_eq!(oldest_with(chosen(true), &tables, 5 << 20, true).len(), 1);
        assert_eq!(oldest_with(chosen(true), &tables, (5 << 20) + 1, true).len(), 2);
        let said = describe(&chosen(true)[0], &tables, true);
        assert!(said.ends_with(", only archived: 5.0 MiB in file:///srv/a"), "{said}");
        let said = describe(&chosen(true)[1], &tables, true);
        assert!(said.ends_with(", and archived: 7.0 MiB in file:///srv/a"), "{said}");
        assert!(!describe(&chosen(true)[1], &tables, false).contains("archived"));
    }

    #[test]
    fn a_day_is_described_by_its_rows_and_times() {
        let table = DayTable::parse("Log20261120").expect("a day");
        let described = |rows| describe(&table, &[listed("Log20261120", rows)], false);
        assert_eq!(described(Some(12)), "Log20261120: 12 rows, from 2026-11-20T01:00:00Z to 2026-11-20T02:00:00Z");
        assert!(described(None).contains("not counted") && described(Some(1)).contains(": 1 row,"));
        assert_eq!(describe(&table, &[], false), "Log20261120: it is not there");
    }
}
