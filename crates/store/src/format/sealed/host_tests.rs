//! A file that is read as that of a host has the fields that name it, in rows, in columns and for searches, and nothing else
//! differs.

use super::block::BlockColumn;
use super::host_fields::HOST_UNLESS_NAMED;
use super::tests::{Given, Place, Plain, difference, everything, lacking, may_contain, scanned, start, want};
use super::*;
use crate::format::page::{PatternBlock, ValueReader};
use crate::{EveryPart, Part, PartFilter, PartVisitor, Range, StoreError};
use daytable_model::column_name::{HOST, LOG_HOST};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::field_properties::property_after;
use daytable_model::key::RowKey;
use daytable_model::line::{LAYOUT, renamed_layout};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

const NAME: &str = "web-9";

/// A row as it is read as that of the host.
fn beside_host((partition, key, level, values): &Plain) -> Plain {
    let renamed = |name: &str| property_after(LOG_HOST, name);
    let mut seen: Vec<(String, PropertyKind, String)> = values
        .iter()
        .map(|(name, kind, text)| {
            let is_layout = (name.as_str(), *kind) == (LAYOUT, PropertyKind::String);
            let text =
                if is_layout { renamed_layout(text, renamed).unwrap_or_else(|| text.clone()) } else { text.clone() };
            (renamed(name).unwrap_or_else(|| name.clone()), *kind, text)
        })
        .collect();
    if key.item() == 0 {
        let is_spread = values.iter().any(|(name, kind, _)| MULTI_ROW_PROPERTIES.contains(&(name.as_str(), *kind)));
        if !values.iter().any(|(name, ..)| name == HOST) {
            let name = if is_spread { HOST_UNLESS_NAMED } else { HOST };
            seen.push((name.into(), PropertyKind::String, NAME.into()));
        }
        seen.push((LOG_HOST.into(), PropertyKind::String, NAME.into()));
    }
    seen.sort();
    (partition.clone(), *key, *level, seen)
}

fn sorted(mut rows: Vec<Plain>) -> Vec<Plain> {
    rows.iter_mut().for_each(|row| row.3.sort());
    rows
}

/// A value of a column: key, name, type and text.
type Cell = (RowKey, String, PropertyKind, String);

/// Passes on every value of every column.
struct Cells;

impl PartVisitor for Cells {
    type State = BTreeSet<Cell>;

    fn start(&self) -> BTreeSet<Cell> {
        BTreeSet::new()
    }

    fn filter(&self) -> &dyn PartFilter {
        &EveryPart
    }

    fn read(&self, cells: &mut BTreeSet<Cell>, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        let Some(batch) = part.batch()? else { return Ok(ControlFlow::Continue(())) };
        let (keys, names) = (batch.keys()?.to_vec(), batch.names()?);
        for (number, (name, kind)) in names.iter().enumerate() {
            // No two columns are of one name and type.
            assert!(!names[..number].contains(&(*name, *kind)), "{name}");
            let Some(column) = batch.column(number)? else { continue };
            assert_eq!((column.name(), column.kind()), (*name, *kind));
            let mut texts: Vec<(usize, usize)> = Vec::new();
            let mut known: Vec<String> = Vec::new();
            let read = |value: daytable_model::property::Property<'_>| {
                known.push(text::of(value));
                known.len() - 1
            };
            column.map(batch.records(), read, |row, text| texts.push((row, text)));
            let found: BTreeSet<usize> = texts.iter().map(|(row, _)| *row).collect();
            let mut present = column.present();
            present.keep(batch.records());
            assert_eq!(present.iter().collect::<BTreeSet<_>>(), found, "{name}");
            cells.extend(texts.into_iter().map(|(row, at)| (keys[row], (*name).to_owned(), *kind, known[at].clone())));
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn given() -> impl Strategy<Value = Given> {
    let name = prop::sample::select(vec![
        HOST,
        LOG_HOST,
        "log_host_u0023_2",
        "log_host_u0023_02",
        "Items",
        "Fields",
        "a",
        LAYOUT,
    ]);
    let value = prop_oneof![
        3 => "[ab]{0,2}|web-9|db-1".prop_map(|text| (PropertyKind::String, text)),
        2 => prop::sample::select(vec!["%(log_host) %v", "%%(log_host) %(a)", "%(log_host_u0023_2)%(log_host)"])
            .prop_map(|text| (PropertyKind::String, text.to_owned())),
        2 => (0..5i32).prop_map(|n| (PropertyKind::Int32, n.to_string())),
    ];
    let key = (0..3u8, 0..400i64, 0..3u64, prop_oneof![5 => Just(0u16), 1 => 1..3u16]);
    (key, (0u8..=9).prop_map(Level::from_code), prop::collection::btree_map(name.prop_map(str::to_owned), value, 0..4))
        .prop_map(|((partition, tick, position, item), level, values)| {
            let key = RowKey::new(Ticks::new(start().get() + tick).expect("in range"), u64::from(partition), position);
            Given { partition, key: key.with_item(item), level: if item > 0 { None } else { level }, values }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_columns_and_searches_know_the_host(
        commits in prop::collection::vec(prop::collection::vec(given(), 1..200), 1..3), needle in "[abwe9]|web|web-9|b-",
    ) {
        let place = Place::new();
        let (sealed, _) = place.seal(1, &[place.open_day("Log20261120.1.db", &commits)]).expect("sealed");
        let file = sealed.clone().of_host(NAME);
        let all: Vec<Plain> = want(&[commits]).iter().map(beside_host).collect();
        prop_assert_eq!(difference(&sorted(scanned(&file, &everything())), &all), None);

        let walked = file.walk(&everything(), 2, &|| true, &Cells).expect("walked");
        let cells: BTreeSet<Cell> = walked.into_iter().flatten().collect();
        let records = all.iter().filter(|row| row.1.item() == 0);
        let wanted = records.flat_map(|(_, key, _, values)| {
            let seen = values.iter().filter(|(name, ..)| name != HOST_UNLESS_NAMED);
            seen.map(|(name, kind, text)| (*key, name.clone(), *kind, text.clone()))
        });
        prop_assert_eq!(cells, wanted.collect::<BTreeSet<Cell>>());

        let text = Needle::new(&needle);
        let hits = sorted(scanned(&file, &Range { contains: Some(needle), ..Range::all() }));
        // A layout is not a value that is searched.
        let has_text = |row: &Plain| {
            let values = row.3.iter().filter(|(name, ..)| name != LAYOUT).cloned().collect();
            may_contain(&(row.0.clone(), row.1, row.2, values), &text)
        };
        prop_assert_eq!(lacking(&hits, &all, has_text), None);
    }
}

/// Whoever reads the texts of a column takes each for the value of a row: groups are made of them.
#[test]
fn a_text_that_no_row_has_is_in_no_column() {
    #[derive(Default)]
    struct Texts(Vec<String>);

    impl ValueReader<()> for Texts {
        fn read(&mut self, value: Property<'_>) {
            self.0.push(value.text().into());
        }

        fn pattern(&mut self, _: &str) -> Option<u32> {
            None
        }

        fn read_block(&mut self, _: &PatternBlock, _: &mut [Option<()>]) {}
    }

    let (none, all) = (RowSet::none(3), RowSet::all(3));
    let texts = |column: &BlockColumn| {
        let (mut texts, mut rows) = (Texts::default(), 0);
        column.read(&all, &mut texts, |_, ()| rows += 1);
        (texts.0, rows)
    };
    let own = BlockColumn::constant(HOST, 3, &all, "own");
    for (column, expected) in [
        (BlockColumn::constant(HOST, 3, &none, NAME), (vec![], 0)),
        (own.filled_with(3, &none, NAME).expect("room"), (vec!["own".to_owned()], 3)),
    ] {
        assert_eq!(texts(&column), expected);
    }
}
