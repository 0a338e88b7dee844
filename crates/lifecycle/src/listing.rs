//! The list of day-tables: the state of each, its next step and time, and the reason it waits. Days that exist only as
//! an archive are listed too.

use crate::plan::{TableState, View, next};
use crate::progress::ProgressSnapshot;
use crate::reason::HoldReason;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use daytable_query::ShownTable;
use daytable_store::catalog::{Archived, DayState};
use daytable_store::{Reader, StoreError, TableSummary};

/// Day-tables, oldest first, and dropped days that have an archive. `shown` is the progress of a running daemon.
pub fn table_list(reader: &Reader, view: &View, shown: &ProgressSnapshot) -> Result<Vec<ShownTable>, StoreError> {
    let summaries = reader.tables()?;
    let listed = summaries.iter().map(|summary| ShownTable::of(summary, reader)).collect::<Result<_, _>>()?;
    Ok(with_lives(&summaries, listed, view, shown))
}

fn with_lives(
    summaries: &[TableSummary],
    listed: Vec<ShownTable>,
    view: &View,
    shown: &ProgressSnapshot,
) -> Vec<ShownTable> {
    let mut tables: Vec<(Ticks, ShownTable)> = Vec::with_capacity(summaries.len());
    for (summary, mut table) in summaries.iter().zip(listed) {
        if let Some(state) = view.tables.iter().find(|state| state.table == summary.table) {
            add_life(&mut table, view, state);
        }
        add_trouble(&mut table, shown);
        tables.push((summary.table.start(), table));
    }
    let exists = |archived: &Archived| summaries.iter().any(|summary| summary.table == archived.table);
    let latest = view.archives.iter().filter(|archived| !archived.is_superseded && !exists(archived));
    tables.extend(latest.map(|archived| (archived.table.start(), only_archived(view, archived, shown))));
    tables.sort_by(|(a, x), (b, y)| (a, &x.table).cmp(&(b, &y.table)));
    tables.into_iter().map(|(_, table)| table).collect()
}

fn add_life(table: &mut ShownTable, view: &View, state: &TableState) {
    let archive = view.archives.iter().rfind(|archived| archived.table == state.table && !archived.is_superseded);
    table.archive = archive.map(|archived| archived.url.clone());
    table.archive_bytes = archive_bytes(view, &state.table);
    table.state = view.state_name(state).into();
    table.late = Some(state.unsealed_rows).filter(|rows| *rows > 0 && state.sealed.is_some());
    table.expires = match &state.state {
        DayState::Restored { expires, .. } => Some(expires.to_string()),
        // A table without a configured rule stays.
        _ => table.expires.take().filter(|_| view.rule_of(&state.table).is_some()),
    };
    if let Some(next) = next(view, state) {
        table.next = Some(next.step.into());
        table.next_at = next.at.map(|at| at.to_string());
    }
}

fn add_trouble(table: &mut ShownTable, shown: &ProgressSnapshot) {
    let held = shown.held_back.get(&table.table);
    table.stays = held.map(|reason| reason.to_string());
    // A day that waits in order has no trouble.
    table.error =
        held.filter(|reason| matches!(reason, HoldReason::Interrupted { .. })).map(|reason| reason.to_string());
    // Days that are not over yet, and those that are not sealed, are published.
    let unpublished = DayTable::parse(&table.table).ok().filter(|_| table.state == "open");
    let unpublished = unpublished.and_then(|day| shown.unpublished.get(day.table().as_str()));
    if let Some(failed) = shown.failed.get(&table.table).or(unpublished) {
        table.error = Some(format!("failed to {}: {}", failed.step.replace('_', " "), failed.reason));
        table.retry_at = Some(failed.again.to_string());
    }
}

/// The bytes of all archives of a day; `None` without one.
fn archive_bytes(view: &View, table: &DayTable) -> Option<u64> {
    let of_day = view.archives.iter().filter(|archived| archived.table == *table);
    of_day.map(|archived| archived.seal.bytes).reduce(|one, other| one + other)
}

fn only_archived(view: &View, archived: &Archived, shown: &ProgressSnapshot) -> ShownTable {
    let keep = view.rule_of(&archived.table).and_then(|rule| rule.keep_archives);
    let expires = keep.map(|keep| archived.table.end().plus(keep).to_string());
    let mut table = ShownTable {
        table: archived.table.to_string(),
        state: "dropped".into(),
        rows: Some(archived.seal.rows),
        bytes: Some(archived.seal.bytes),
        first_time: archived.seal.times.map(|(oldest, _)| oldest.to_string()),
        last_time: archived.seal.times.map(|(_, newest)| newest.to_string()),
        next: expires.is_some().then(|| "remove_archive".into()),
        next_at: expires.clone(),
        expires,
        archive: Some(archived.url.clone()),
        archive_bytes: archive_bytes(view, &archived.table),
        ..ShownTable::default()
    };
    add_trouble(&mut table, shown);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::plan::SealedGeneration;
    use crate::{ArchiveRequirement, LifecycleLimits, TableRule};
    use daytable_model::key::{Period, TableName};
    use daytable_model::window::Window;
    use daytable_store::catalog::Seal;
    use std::time::Duration;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(day: u32) -> Ticks {
        Ticks::from_date(2026, 11, day).expect("a date")
    }

    fn day(name: &str) -> DayTable {
        DayTable::parse(name).expect("a day-table")
    }

    fn summary(name: &str) -> TableSummary {
        let (rows, bytes) = (7, 700);
        TableSummary { table: day(name), rows, bytes, first_time: None, last_time: None, state: "open", expires: None }
    }

    fn archived(name: &str) -> Archived {
        let seal = Seal { bytes: 300, sha256: "ab".into(), rows: 7, times: None, at: at(2) };
        let (table, url, manifest) = (day(name), "file:///a".to_owned(), "".into());
        Archived { table, generation: 2, url, seal, verified: at(2), is_superseded: false, manifest }
    }

    #[test]
    fn each_table_says_where_it_is_and_what_is_next() {
        let sealed = |name: &str| TableState {
            sealed: Some(SealedGeneration { generation: 2, seal: archived(name).seal }),
            ..TableState::empty(day(name))
        };
        let open = TableState { unsealed_rows: 7, ..TableState::empty(day("Log20261120")) };
        let copy = DayState::Restored { expires: at(25), origin: day("Log20261110") };
        let rule = TableRule {
            name: TableName::new("Log").expect("a name"),
            window: Window { keep: 10 * DAY, period: Period::Day },
            archive: ArchiveRequirement::At("file:///a".into()),
            keep_archives: Some(100 * DAY),
            shortened: None,
            archive_before: None,
            archives_until: None,
            max_bytes: None,
            max_bytes_since: None,
        };
        let names = ["Log20261117", "Log20261118", "Log20261120", "Incident20261110"];
        let tables = vec![sealed(names[0]), sealed(names[1]), open, TableState { state: copy, ..sealed(names[3]) }];
        let view = View {
            tables,
            archives: ["Log20261110", "Log20261117"].map(archived).to_vec(),
            rules: vec![rule],
            limits: LifecycleLimits::default(),
            clock: Clock { now: at(21), ..Clock::default() },
            bytes: 0,
            journal_bytes: 0,
            other_bytes: 0,
            pressure_since: Ticks::MIN,
            dropped: 0,
        };
        let mut shown = ProgressSnapshot::default();
        shown.held_back.insert(names[1].into(), HoldReason::NoPermit);
        let summaries = names.map(summary);
        let listed = summaries.iter().map(ShownTable::from).collect();
        let found = with_lives(&summaries, listed, &view, &shown);
        let found: Vec<_> = found
            .iter()
            .map(|t| (&*t.table, &*t.state, t.next.as_deref(), t.next_at.as_deref(), t.stays.is_some()))
            .collect();
        assert_eq!(
            found,
            [
                ("Incident20261110", "restored", Some("drop"), Some("2026-11-25T00:00:00Z"), false),
                ("Log20261110", "dropped", Some("remove_archive"), Some("2027-02-19T00:00:00Z"), false),
                ("Log20261117", "archived", Some("drop"), Some("2026-11-28T00:00:00Z"), false),
                ("Log20261118", "sealed", Some("archive"), None, true),
                ("Log20261120", "open", Some("seal"), Some("2026-11-21T06:00:00Z"), false),
            ]
        );
    }
}
