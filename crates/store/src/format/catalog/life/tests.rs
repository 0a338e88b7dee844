//! What the catalogue keeps of lives, and the permit.

use super::*;
use crate::format::catalog::accounting::Entry;
use crate::format::catalog::{Rule, Touched};

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
fn catalogue(table: &DayTable) -> (tempfile::TempDir, Catalogue) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut catalogue = Catalogue::open_to_write(dir.path()).expect("opened");
    let file = format!("{table}.1.db");
    catalogue.create_day(table, 1, &file, Role::Open, Ticks::MIN, false).expect("created");
    let touched = [Touched { file: &file, entities: 5, times: None }];
    catalogue.commit(1, &touched, std::iter::empty(), [].iter(), None, Entry::default()).expect("committed");
    (dir, catalogue)
}

fn sealed(catalogue: &mut Catalogue, table: &DayTable, generation: i64, rows: u64) {
    let output = format!("{table}.{generation}.parquet");
    let inputs = catalogue.begin_seal(table, generation, &output).expect("begun");
    assert_eq!(catalogue.making().expect("read"), std::slice::from_ref(&output));
    catalogue.end_seal(table, &inputs, &output, &seal(rows)).expect("ended");
    assert_eq!(catalogue.making().expect("read"), inputs.iter().map(|input| &*input.name).collect::<Vec<_>>());
    inputs.iter().for_each(|input| catalogue.forget_making(&input.name).expect("forgotten"));
}

fn refusal(catalogue: &mut Catalogue, table: &DayTable) -> String {
    match catalogue.drop_day(table, Permit::Proven, Ticks::MIN) {
        Err(StoreError::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_day_is_dropped_with_the_proof_that_its_table_asks_for_and_not_before() {
    let table = day("Log20261120");
    let (_dir, mut catalogue) = catalogue(&table);
    catalogue.set_rules(&[rule(Some("file:///a"))]).expect("noted");
    assert!(refusal(&mut catalogue, &table).contains("5 of its rows are in no archive"));
    sealed(&mut catalogue, &table, 2, 5);
    assert!(refusal(&mut catalogue, &table).contains("no archive at file:///a"));
    for wrong in [
        archived(&table, 2, "file:///b", 5),
        archived(&table, 2, "file:///a", 4),
        archived(&day("Log20261119"), 2, "file:///a", 5),
    ] {
        catalogue.put_archive(&wrong).expect("noted");
        assert!(refusal(&mut catalogue, &table).contains("no archive at file:///a"), "{wrong:?}");
    }
    catalogue.put_archive(&archived(&table, 2, "file:///a", 5)).expect("noted");
    assert_eq!(catalogue.drop_day(&table, Permit::Proven, Ticks::MIN).expect("dropped"), ["Log20261120.2.parquet"]);
    assert_eq!(catalogue.files().expect("read"), []);
}

#[test]
fn what_came_after_the_archive_keeps_the_day() {
    let table = day("Log20261120");
    let (_dir, mut catalogue) = catalogue(&table);
    catalogue.set_rules(&[rule(Some("file:///a"))]).expect("noted");
    sealed(&mut catalogue, &table, 2, 5);
    catalogue.put_archive(&archived(&table, 2, "file:///a", 5)).expect("noted");
    catalogue.create_day(&table, 3, "Log20261120.3.db", Role::Open, Ticks::MIN, false).expect("created");
    catalogue
        .commit(
            2,
            &[Touched { file: "Log20261120.3.db", entities: 1, times: None }],
            std::iter::empty(),
            [].iter(),
            None,
            Entry::default(),
        )
        .expect("committed");
    assert!(refusal(&mut catalogue, &table).contains("1 of its rows"));
    sealed(&mut catalogue, &table, 4, 6);
    assert!(refusal(&mut catalogue, &table).contains("no archive"), "the archive is of an older generation");
    catalogue.put_archive(&archived(&table, 4, "file:///a", 6)).expect("noted");
    let superseded = |a: &Archived| (a.generation, a.is_superseded);
    assert_eq!(catalogue.archives().expect("read").iter().map(superseded).collect::<Vec<_>>(), [(2, true), (4, false)]);
    catalogue.drop_day(&table, Permit::Proven, Ticks::MIN).expect("dropped");
}

#[test]
fn a_table_that_asked_for_an_archive_until_lately_asks_still() {
    let table = day("Log20261120");
    let (_dir, mut catalogue) = catalogue(&table);
    let until = Ticks::new(1000).expect("in range");
    catalogue.set_rules(&[Rule { archive_before: Some(("file:///a".into(), until)), ..rule(None) }]).expect("noted");
    assert!(refusal(&mut catalogue, &table).contains("in no archive"));
    catalogue.drop_day(&table, Permit::Proven, until).expect("dropped");
}

#[test]
fn who_says_so_drops_without_an_archive() {
    let table = day("Log20261120");
    let (_dir, mut catalogue) = catalogue(&table);
    catalogue.set_rules(&[rule(Some("file:///a"))]).expect("noted");
    catalogue.drop_day(&table, Permit::WithoutArchive, Ticks::MIN).expect("dropped");
}

#[test]
fn a_day_that_was_dropped_while_it_was_sealed_stays_dropped() {
    let table = day("Log20261120");
    let (_dir, mut catalogue) = catalogue(&table);
    let inputs = catalogue.begin_seal(&table, 2, "Log20261120.2.parquet").expect("begun");
    catalogue.drop_day(&table, Permit::Proven, Ticks::MIN).expect("dropped");
    let ended = catalogue.end_seal(&table, &inputs, "Log20261120.2.parquet", &seal(5));
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    assert_eq!(catalogue.files().expect("read"), []);
}

#[test]
fn a_restored_day_needs_its_archive_to_go_and_takes_no_records() {
    let (table, copy) = (day("Log20261120"), day("Incident20261120"));
    let (_dir, mut catalogue) = catalogue(&table);
    sealed(&mut catalogue, &table, 2, 5);
    catalogue.put_archive(&archived(&table, 2, "file:///a", 5)).expect("noted");
    let expires = Ticks::new(500).expect("in range");
    catalogue.begin_making(&copy, 1, "Incident20261120.1.parquet").expect("begun");
    catalogue.end_restore(&copy, &table, "Incident20261120.1.parquet", &seal(5), expires, Ticks::MIN).expect("ended");
    assert_eq!(catalogue.closed().expect("read"), std::slice::from_ref(&copy));
    let state = |catalogue: &Catalogue| catalogue.days().expect("read").into_iter().find(|d| d.table == copy);
    let restored = |expires| DayState::Restored { expires, origin: table.clone() };
    assert_eq!(state(&catalogue).map(|day| day.state), Some(restored(expires)));
    let later = Ticks::new(700).expect("in range");
    catalogue.prolong(&copy, later).expect("prolonged");
    catalogue.prolong(&copy, expires).expect("prolonged");
    assert_eq!(state(&catalogue).map(|day| day.state), Some(restored(later)));
    catalogue.forget_archive(&table, 2, "file:///a").expect("forgotten");
    assert!(refusal(&mut catalogue, &copy).contains("no archive"));
    catalogue.put_archive(&archived(&table, 2, "s3://elsewhere/", 5)).expect("noted");
    catalogue.drop_day(&copy, Permit::Proven, Ticks::MIN).expect("dropped");
    assert_eq!(state(&catalogue).map(|day| day.state), Some(DayState::Dropped));
}

#[test]
fn only_what_is_left_alone_is_watched() {
    let table = day("Log20261120");
    let (_dir, mut catalogue) = catalogue(&table);
    let quiet = |catalogue: &Catalogue| catalogue.days().expect("read")[0].quiet;
    let seconds = Duration::from_secs;
    assert_eq!(quiet(&catalogue), None);
    catalogue.note_watch(seconds(10)).expect("noted");
    catalogue.note_watch(seconds(10)).expect("noted");
    assert_eq!(quiet(&catalogue), Some((1, seconds(10))));
    let touched = [Touched { file: "Log20261120.1.db", entities: 1, times: None }];
    catalogue.commit(2, &touched, std::iter::empty(), [].iter(), Ticks::new(77), Entry::default()).expect("committed");
    catalogue.note_watch(seconds(10)).expect("noted");
    assert_eq!(quiet(&catalogue), Some((2, seconds(30))));
    let watch = catalogue.watch().expect("read");
    assert_eq!(watch, Watch { watched: seconds(30), newest: Ticks::new(77), newest_since: seconds(30) });
    sealed(&mut catalogue, &table, 2, 6);
    catalogue.note_watch(seconds(10)).expect("noted");
    assert_eq!(quiet(&catalogue), Some((2, seconds(30))), "to be sealed is not to be written to");
}

#[test]
fn a_catalogue_of_the_format_before_is_read_and_goes_on() {
    let table = day("Log20261120");
    let (dir, catalogue) = catalogue(&table);
    catalogue.connection().execute_batch(&undone()).expect("made old");
    catalogue.connection().pragma_update(None, "user_version", 2).expect("made old");
    drop(catalogue);
    let reader = Catalogue::open_to_read(dir.path()).expect("opened");
    let days = reader.days().expect("read");
    assert_eq!((days[0].state.clone(), days[0].files.len(), days[0].files[0].role), (DayState::Open, 1, Role::Open));
    assert_eq!(reader.archives().expect("read"), []);
    assert_eq!(reader.rules().expect("read"), []);
    let mut writer = Catalogue::open_to_write(dir.path()).expect("opened");
    assert_eq!(reader.days().expect("read"), days);
    sealed(&mut writer, &table, 2, 5);
    assert_eq!(reader.files().expect("read")[0].seal, Some(seal(5)));
}
