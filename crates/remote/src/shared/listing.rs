//! The list of day-tables of a remote store, with the state of each.

use super::SharedView;
use daytable_model::key::DayTable;
use daytable_query::ShownTable;
use std::collections::BTreeMap;

/// The list `here` of the data folder (the outbox), with the tables of the remote store added.
pub fn remote_table_list(local: Vec<ShownTable>, view: &SharedView) -> Vec<ShownTable> {
    let planned = super::plan(view);
    let mut tables: BTreeMap<String, ShownTable> =
        local.into_iter().map(|table| (table.table.clone(), table)).collect();
    for day in &view.tables {
        let name = day.to_string();
        let waiting = tables.remove(&name).filter(|table| table.state != "dropped").and_then(|table| table.rows);
        let restored = view.restored.iter().find(|restored| restored.table == *day);
        let rule = view.rules.iter().find(|rule| rule.name == *day.table());
        let expires = restored.map(|restored| restored.expires).or_else(|| rule?.window.expires(day));
        let step = planned.steps.iter().find(|planned| planned.step.table() == day);
        let held = planned.held_back.iter().find(|held| held.table == *day);
        let table = ShownTable {
            table: name.clone(),
            state: view.state_name(day).into(),
            waiting: waiting.filter(|rows| *rows > 0),
            expires: expires.map(|expires| expires.to_string()),
            next: step.map(|planned| planned.step.name().into()),
            archive: view.archive_of(day, None).map(|archived| archived.url.clone()),
            stays: held.map(|held| held.reason.to_string()),
            ..ShownTable::default()
        };
        tables.insert(name, table);
    }
    let mut tables: Vec<ShownTable> = tables.into_values().collect();
    tables.sort_by_cached_key(|table| (DayTable::parse(&table.table).ok().map(|day| day.start()), table.table.clone()));
    tables
}
