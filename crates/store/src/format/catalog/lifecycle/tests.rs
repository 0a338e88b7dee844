//! The states of days in the catalog, and the permit.

use super::*;
use crate::format::catalog::accounting::CommitEntry;
use crate::format::catalog::{Archived, DayState, Seal, WatchedTime};
use crate::format::catalog::{Rule, Touched};
use std::time::Duration;

fn day(name: &str) -> DayTable {
    DayTable::parse(name).expect("a day-table")
}

fn seal(rows: u64) -> Seal {
    Seal {
        bytes: 10 * rows,
        sha256: format!("{rows:064x}"),
        rows,
        times: Ticks::new(3).zip(Ticks::new(9)),
        at: Ticks::MIN,
    }
}

fn rule(archive: Option<&str>) -> Rule {
    let keep = Duration::from_secs(60);
    Rule { name: "Log".into(), keep, archive: archive.map(str::to_owned), ..Rule::default() }
}

fn archived(table: &DayTable, generation: i64, url: &str, rows: u64) -> Archived {
    Archived {
        table: table.clone(),
        generation,
        url: url.into(),
        seal: seal(rows),
        verified: Ticks::MIN,
        is_superseded: false,
        manifest: "{}".into(),
    }
}

/// A folder with one day of five rows.
fn catalog(table: &DayTable) -> (tempfile::TempDir, Catalog) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut catalog = Catalog::open_to_write(dir.path()).expect("opened");
    let file = format!("{table}.1.db");
    catalog.create_day(table, 1, &file).expect("created");
    let touched = [Touched { file: &file, entities: 5, times: None }];
    catalog.commit(1, &touched, std::iter::empty(), [].iter(), None, CommitEntry::default()).expect("committed");
    (dir, catalog)
}

fn sealed(catalog: &mut Catalog, table: &DayTable, generation: i64, rows: u64) {
    let output = format!("{table}.{generation}.parquet");
    let inputs = catalog.begin_seal(table, generation, &output).expect("begun");
    assert_eq!(catalog.making().expect("read"), std::slice::from_ref(&output));
    catalog.end_seal(table, &inputs, &output, &seal(rows)).expect("ended");
    assert_eq!(catalog.making().expect("read"), inputs.iter().map(|input| &*input.name).collect::<Vec<_>>());
    inputs.iter().for_each(|input| catalog.forget_making(&input.name).expect("forgotten"));
}

fn refusal(catalog: &mut Catalog, table: &DayTable) -> String {
    match catalog.drop_day(table, Permit::Proven, Ticks::MIN, &[]) {
        Err(StoreError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_day_is_dropped_with_the_proof_that_its_table_asks_for_and_not_before() {
    let table = day("Log20261120");
    let (_dir, mut catalog) = catalog(&table);
    catalog.set_rules(&[rule(Some("file:///a"))]).expect("noted");
    assert!(refusal(&mut catalog, &table).contains("5 of its rows are in no archive"));
    sealed(&mut catalog, &table, 2, 5);
    assert!(refusal(&mut catalog, &table).contains("no archive at file:///a"));
    for wrong in [
        archived(&table, 2, "file:///b", 5),
        archived(&table, 2, "file:///a", 4),
        archived(&day("Log20261119"), 2, "file:///a", 5),
    ] {
        catalog.put_archive(&wrong).expect("noted");
        assert!(refusal(&mut catalog, &table).contains("no archive at file:///a"), "{wrong:?}");
    }
    catalog.put_archive(&archived(&table, 2, "file:///a", 5)).expect("noted");
    assert_eq!(catalog.drop_day(&table, Permit::Proven, Ticks::MIN, &[]).expect("dropped"), ["Log20261120.2.parquet"]);
    assert_eq!(catalog.files().expect("read"), []);
}

#[test]
fn rows_after_the_archive_prevent_the_drop() {
    let table = day("Log20261120");
    let (_dir, mut catalog) = catalog(&table);
    catalog.set_rules(&[rule(Some("file:///a"))]).expect("noted");
    sealed(&mut catalog, &table, 2, 5);
    catalog.put_archive(&archived(&table, 2, "file:///a", 5)).expect("noted");
    catalog.create_day(&table, 3, "Log20261120.3.db").expect("created");
    catalog
        .commit(
            2,
            &[Touched { file: "Log20261120.3.db", entities: 1, times: None }],
            std::iter::empty(),
            [].iter(),
            None,
            CommitEntry::default(),
        )
        .expect("committed");
    assert!(refusal(&mut catalog, &table).contains("1 of its rows"));
    sealed(&mut catalog, &table, 4, 6);
    assert!(refusal(&mut catalog, &table).contains("no archive"), "the archive is of an older generation");
    catalog.put_archive(&archived(&table, 4, "file:///a", 6)).expect("noted");
    let superseded = |a: &Archived| (a.generation, a.is_superseded);
    assert_eq!(catalog.archives().expect("read").iter().map(superseded).collect::<Vec<_>>(), [(2, true), (4, false)]);
    catalog.drop_day(&table, Permit::Proven, Ticks::MIN, &[]).expect("dropped");
}

#[test]
fn a_table_that_asked_for_an_archive_until_lately_asks_still() {
    let table = day("Log20261120");
    let (_dir, mut catalog) = catalog(&table);
    let until = Ticks::new(1000).expect("in range");
    catalog.set_rules(&[Rule { archive_before: Some(("file:///a".into(), until)), ..rule(None) }]).expect("noted");
    assert!(refusal(&mut catalog, &table).contains("in no archive"));
    catalog.drop_day(&table, Permit::Proven, until, &[]).expect("dropped");
}

#[test]
fn an_explicit_permit_drops_without_an_archive() {
    let table = day("Log20261120");
    let (_dir, mut catalog) = catalog(&table);
    catalog.set_rules(&[rule(Some("file:///a"))]).expect("noted");
    catalog.drop_day(&table, Permit::WithoutArchive, Ticks::MIN, &[]).expect("dropped");
}

#[test]
fn a_day_that_was_dropped_while_it_was_sealed_stays_dropped() {
    let table = day("Log20261120");
    let (_dir, mut catalog) = catalog(&table);
    let inputs = catalog.begin_seal(&table, 2, "Log20261120.2.parquet").expect("begun");
    catalog.drop_day(&table, Permit::Proven, Ticks::MIN, &[]).expect("dropped");
    let ended = catalog.end_seal(&table, &inputs, "Log20261120.2.parquet", &seal(5));
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    assert_eq!(catalog.files().expect("read"), []);
}

#[test]
fn a_restored_day_needs_its_archive_for_the_drop_and_accepts_no_records() {
    let (table, copy) = (day("Log20261120"), day("Incident20261120"));
    let (_dir, mut catalog) = catalog(&table);
    sealed(&mut catalog, &table, 2, 5);
    catalog.put_archive(&archived(&table, 2, "file:///a", 5)).expect("noted");
    let expires = Ticks::new(500).expect("in range");
    catalog.begin_making(&copy, 1, "Incident20261120.1.parquet").expect("begun");
    catalog.end_restore(&copy, &table, "Incident20261120.1.parquet", &seal(5), expires, Ticks::MIN).expect("ended");
    assert_eq!(catalog.closed().expect("read"), std::slice::from_ref(&copy));
    let state = |catalog: &Catalog| catalog.days().expect("read").into_iter().find(|d| d.table == copy);
    let restored = |expires| DayState::Restored { expires, origin: table.clone() };
    assert_eq!(state(&catalog).map(|day| day.state), Some(restored(expires)));
    let later = Ticks::new(700).expect("in range");
    catalog.extend_restore(&copy, later).expect("prolonged");
    catalog.extend_restore(&copy, expires).expect("prolonged");
    assert_eq!(state(&catalog).map(|day| day.state), Some(restored(later)));
    catalog.forget_archive(&table, 2, "file:///a").expect("forgotten");
    assert!(refusal(&mut catalog, &copy).contains("no archive"));
    catalog.put_archive(&archived(&table, 2, "s3://elsewhere/", 5)).expect("noted");
    catalog.drop_day(&copy, Permit::Proven, Ticks::MIN, &[]).expect("dropped");
    assert_eq!(state(&catalog).map(|day| day.state), Some(DayState::Dropped));
}

#[test]
fn only_unchanged_days_are_watched() {
    let table = day("Log20261120");
    let (_dir, mut catalog) = catalog(&table);
    let quiet = |catalog: &Catalog| catalog.days().expect("read")[0].quiet;
    let seconds = Duration::from_secs;
    assert_eq!(quiet(&catalog), None);
    catalog.note_watch(seconds(10)).expect("noted");
    catalog.note_watch(seconds(10)).expect("noted");
    assert_eq!(quiet(&catalog), Some((1, seconds(10))));
    let touched = [Touched { file: "Log20261120.1.db", entities: 1, times: None }];
    catalog
        .commit(2, &touched, std::iter::empty(), [].iter(), Ticks::new(77), CommitEntry::default())
        .expect("committed");
    catalog.note_watch(seconds(10)).expect("noted");
    assert_eq!(quiet(&catalog), Some((2, seconds(30))));
    let watch = catalog.watch().expect("read");
    assert_eq!(watch, WatchedTime { watched: seconds(30), newest: Ticks::new(77), newest_since: seconds(30) });
    sealed(&mut catalog, &table, 2, 6);
    catalog.note_watch(seconds(10)).expect("noted");
    assert_eq!(quiet(&catalog), Some((2, seconds(30))), "to be sealed is not to be written to");
}
