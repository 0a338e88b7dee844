//! `daytable tables`: lists the day-tables, oldest first.

use super::args::{JsonArgs, LakeArgs, OpenSources, ReadSources, RecordStores};
use super::exit::CliError;
use super::output::{Output, TextTable, bytes, cell};
use daytable_lifecycle::listing::table_list;
use daytable_lifecycle::progress::ProgressSnapshot;
use daytable_lifecycle::{View, plan, rules_of_last_run};
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_query::ShownTable;
use daytable_store::LifecycleState;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    sources: ReadSources,
    #[command(flatten)]
    output: JsonArgs,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let tables = tables(args)?;
    let mut output = Output::new();
    if args.output.json {
        tables.iter().try_for_each(|table| output.json(table))?;
    } else {
        let later = tables.iter().any(|table| table.next.is_some() || table.stays.is_some());
        match later {
            true => output.line(with_next(tables))?,
            false => output.line(columns(tables))?,
        }
    }
    output.flush()
}

/// The day-tables with their next steps: of the folder, or as the daemon says them to a user who cannot read it.
fn tables(args: &Args) -> Result<Vec<ShownTable>, CliError> {
    match args.sources.open_or_ask(&LakeArgs::default())? {
        RecordStores::Folder(sources) => tables_of(&sources),
        RecordStores::Daemon(daemon) => Ok(daemon.control.fetch("/api/tables")?.all("a line is not a day-table")?),
    }
}

/// The day-tables of a folder. The rules are those of the last daemon; for tables of a remote store, those of the
/// configuration.
fn tables_of(sources: &OpenSources) -> Result<Vec<ShownTable>, CliError> {
    let state = LifecycleState::of(sources.reader.catalog())?;
    let (rules, limits) = rules_of_last_run(&state);
    let view = View::of(&sources.data_dir, state.clone(), &rules, limits, time::now());
    let held_back = plan(&view).held_back.into_iter().map(|held| (held.table.to_string(), held.reason));
    let shown = ProgressSnapshot { held_back: held_back.collect(), ..ProgressSnapshot::default() };
    let local = table_list(&sources.reader, &view, &shown)?;
    let Some(remote) = sources.remote() else { return Ok(local) };
    let (rules, limits) = sources.rules().unwrap_or((rules, limits));
    Ok(remote.list_tables(local, state, &rules, limits)?)
}

/// The columns, and the next step or the reason why a day stays.
fn with_next(tables: Vec<ShownTable>) -> TextTable<'static, 8> {
    let next = |table: &ShownTable| match (&table.stays, table.next.as_deref(), &table.next_at) {
        (Some(reason), ..) => format!("stays: {reason}"),
        (None, None, _) => "-".into(),
        (None, Some(step), None) => format!("{} at the next run", step.replace('_', " ")),
        // The column before has the time.
        (None, Some(step), at) if *at == table.expires => step.replace('_', " "),
        (None, Some(step), Some(at)) => format!("{} at {at}", step.replace('_', " ")),
    };
    let next: Vec<String> = tables.iter().map(next).collect();
    let TextTable { heads: [a, b, c, d, e, f, g], right, rows } = columns(tables);
    let rows = rows.into_iter().zip(next);
    TextTable {
        heads: [a, b, c, d, e, f, g, "next"],
        right,
        rows: rows.map(|([a, b, c, d, e, f, g], next)| [a, b, c, d, e, f, g, next]).collect(),
    }
}

/// The rows with the late ones and those of earlier days, and after a plus the rows that wait to be sent to the table.
fn count(table: &ShownTable) -> String {
    let rows = table.rows.map_or("-".into(), |rows| rows.to_string());
    let late = table.late.map_or_else(String::new, |late| format!(" ({late} late)"));
    let waiting = table.waiting.map_or_else(String::new, |waiting| format!(" +{waiting}"));
    let earlier = table.earlier.map_or_else(String::new, |earlier| format!(" ({earlier} of earlier days)"));
    rows + &late + &earlier + &waiting
}

/// The state for people. A table of a period that has not begun is ready.
fn state(table: &ShownTable) -> String {
    let is_ahead = DayTable::parse(&table.table).is_ok_and(|day| day.start() > time::now());
    if is_ahead && table.rows == Some(0) { "ready".into() } else { table.state.to_string() }
}

fn columns(tables: Vec<ShownTable>) -> TextTable<'static, 7> {
    let heads = ["table", "state", "rows", "bytes", "first", "last", "expires"];
    TextTable::new(heads, &["rows", "bytes"], tables, |table| {
        let (rows, state) = (count(&table), state(&table));
        [
            table.table,
            state,
            rows,
            table.bytes.map_or("-".into(), bytes),
            cell(table.first_time),
            cell(table.last_time),
            cell(table.expires),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_a_table() {
        let table = ShownTable {
            table: "Log20261121".into(),
            state: "open".into(),
            rows: Some(12),
            bytes: Some(1536),
            first_time: Some("2026-11-21T00:00:00Z".into()),
            last_time: None,
            expires: None,
            ..ShownTable::default()
        };
        assert_eq!(
            columns(vec![table.clone()]).to_string(),
            "table        state  rows    bytes  first                 last  expires\n\
             Log20261121  open     12  1.5 KiB  2026-11-21T00:00:00Z  -     -"
        );
        let late = ShownTable { late: Some(2), waiting: Some(3), ..table.clone() };
        assert!(columns(vec![late]).to_string().contains("  12 (2 late) +3  "));
        let next =
            ShownTable { next: Some("seal".into()), next_at: Some("2026-11-22T06:00:00Z".into()), ..table.clone() };
        assert!(with_next(vec![next]).to_string().ends_with("-     -        seal at 2026-11-22T06:00:00Z"));
        let drop = ShownTable { next: Some("drop".into()), next_at: table.first_time.clone(), ..table.clone() };
        let drop = ShownTable { expires: table.first_time.clone(), ..drop };
        assert!(with_next(vec![drop]).to_string().ends_with("-     2026-11-21T00:00:00Z  drop"));
        let stays = ShownTable { next: Some("drop".into()), stays: Some("it has to".into()), ..table };
        assert!(with_next(vec![stays]).to_string().ends_with("-     -        stays: it has to"));
    }
}
