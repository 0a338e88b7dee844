//! docs/reference/metrics.md has every metric as it is: its name, its type, its labels, its text.

use super::tests::full;
use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = include_str!("../../docs/reference/metrics.md");

/// A metric as a row of the table: name, type, labels, text.
type Row = (String, String, BTreeSet<String>, String);

fn documented() -> Vec<Row> {
    let rows = TABLE.lines().filter(|line| line.starts_with("| `"));
    let cells =
        rows.map(|row| row.trim_matches('|').split(" |").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    let row = |cells: Vec<String>| match &*cells {
        [name, kind, labels, text] => {
            let labels = labels.split(',').map(|label| label.trim().trim_matches('`').to_owned());
            let labels = labels.filter(|label| !label.is_empty()).collect();
            (name.trim_matches('`').to_owned(), kind.clone(), labels, text.clone())
        }
        _ => unreachable!("a row has four cells: {cells:?}"),
    };
    cells.map(row).collect()
}

fn exported() -> Vec<Row> {
    let metrics = full();
    let text = metrics.render();
    let mut labels: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = sample.split_at(sample.find(['{', ' ']).unwrap_or(sample.len()));
        let of_sample = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(inside, _)| inside);
        let keys = of_sample.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, _)| key.to_owned());
        labels.entry(name).or_default().extend(keys.filter(|key| key != "le"));
    }
    let said = |what: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {what} {name} "))).map(str::to_owned);
        line.unwrap_or_else(|| unreachable!("{name} has no {what}; give it a child in `full`"))
    };
    let row = |name: &String| {
        let kind = said("TYPE", name);
        let sample = if kind == "histogram" { format!("{name}_count") } else { name.clone() };
        (name.clone(), kind, labels.get(&*sample).cloned().unwrap_or_default(), said("HELP", name))
    };
    let mut rows: Vec<Row> = metrics.names.iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn every_metric_is_in_the_table_and_nothing_else_is() {
    let (documented, exported) = (documented(), exported());
    let missing: Vec<&Row> = exported.iter().filter(|row| !documented.contains(row)).collect();
    let surplus: Vec<&Row> = documented.iter().filter(|row| !exported.contains(row)).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "not in docs/reference/metrics.md: {missing:#?}\nonly there: {surplus:#?}"
    );
    assert!(documented.is_sorted(), "the table is in the order of the names");
    let mut twice = documented.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    assert_eq!(twice.next(), None);
}
