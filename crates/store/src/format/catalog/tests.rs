//! The catalog as a whole.

use super::accounting::CommitEntry;
use super::*;
use crate::StoreError;
use crate::source::tests_state;
use crate::source::{SourceState, SourceStatus};
use daytable_model::key::DayTable;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use rusqlite::Connection;
use std::sync::Arc;

fn day(name: &str) -> DayTable {
    DayTable::parse(name).expect("a day-table")
}

#[test]
fn a_commit_is_read_back_by_another() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut writer = Catalog::open_to_write(dir.path()).expect("opened");
    let (old, new) = (day("Log20261120"), day("Log20261121"));
    writer.create_day(&new, 1, "Log20261121.1.db").expect("created");
    writer.create_day(&old, 1, "Log20261120.1.db").expect("created");
    let source = SourceState { identity: SourceId::LAST, position: 77, ..tests_state(1) };
    let touched = [Touched { file: "Log20261121.1.db", entities: 5, times: Ticks::new(3).zip(Ticks::new(9)) }];
    writer
        .commit(1, &touched, [&Arc::new(source.clone())].into_iter(), [].iter(), Ticks::new(9), CommitEntry::default())
        .expect("committed");
    let reader = Catalog::open_to_read(dir.path()).expect("opened");
    assert_eq!(reader.committed().expect("read").seq, 1);
    assert_eq!(reader.newest().expect("read"), Ticks::new(9));
    assert_eq!(reader.sources().expect("read"), [source]);
    let files = reader.files().expect("read");
    assert_eq!(files.iter().map(|f| &f.day).collect::<Vec<_>>(), [&old, &new]);
    assert_eq!((files[1].last_seq, files[1].entities), (1, 5));
    assert_eq!((files[0].times, files[1].times), (None, Ticks::new(3).zip(Ticks::new(9))));
    let touched = [Touched { file: "Log20261121.1.db", entities: 1, times: Ticks::new(1).zip(Ticks::new(4)) }];
    writer.commit(2, &touched, std::iter::empty(), [].iter(), None, CommitEntry::default()).expect("committed");
    assert_eq!(reader.files().expect("read")[1].times, Ticks::new(1).zip(Ticks::new(9)));

    assert_eq!(writer.drop_day(&old, Permit::Proven, Ticks::MIN, &[]).expect("dropped"), ["Log20261120.1.db"]);
    assert_eq!(reader.dropped().expect("read"), std::slice::from_ref(&old));
    assert_eq!(reader.files().expect("read").len(), 1);
    assert_eq!(reader.generation(&old).expect("read"), 1);
}

#[test]
fn records_without_a_time_of_their_own_give_the_catalog_none() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut catalog = Catalog::open_to_write(dir.path()).expect("opened");
    let mut newest_after = |seq, newest| {
        catalog.commit(seq, &[], std::iter::empty(), [].iter(), newest, CommitEntry::default()).expect("committed");
        catalog.newest().expect("read")
    };
    assert_eq!(newest_after(1, None), None);
    assert_eq!(newest_after(2, Ticks::new(9)), Ticks::new(9));
    assert_eq!(newest_after(3, Ticks::new(4)), Ticks::new(9));
    assert_eq!(newest_after(4, None), Ticks::new(9));
    // An earlier build wrote a zero.
    catalog.connection.execute("UPDATE state SET newest = 0", []).expect("changed");
    assert_eq!(catalog.newest().expect("read"), None);
}

#[test]
fn a_source_that_comes_back_after_it_was_forgotten_is_not_counted_twice() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut catalog = Catalog::open_to_write(dir.path()).expect("opened");
    let mut source = SourceState { status: SourceStatus::Ended, ..tests_state(1) };
    let mut commit = |catalog: &mut Catalog, seq, records| {
        source.ledger.records += records;
        let entry = CommitEntry { records, ..CommitEntry::default() };
        catalog.commit(seq, &[], [&Arc::new(source.clone())].into_iter(), [].iter(), None, entry).expect("committed");
    };
    let out = |catalog: &Catalog| catalog.accounts().expect("read").records_surplus();
    commit(&mut catalog, 1, 7);
    let before = out(&catalog);
    for seq in [2, 4] {
        assert_eq!(catalog.forget_sources(Ticks::MAX).expect("forgotten").len(), 1);
        assert_eq!(out(&catalog), before);
        commit(&mut catalog, seq, 0);
        commit(&mut catalog, seq + 1, 2);
        assert_eq!(out(&catalog), before);
    }
}

#[test]
fn a_number_that_never_happened_is_not_data_and_not_used_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut catalog = Catalog::open_to_write(dir.path()).expect("opened");
    catalog.commit(1, &[], std::iter::empty(), [].iter(), None, CommitEntry::default()).expect("committed");
    catalog.void(2).expect("voided");
    let committed = catalog.committed().expect("read");
    assert_eq!(committed.seq, 2);
    assert!(committed.includes(1) && !committed.includes(2) && !committed.includes(3));
}

#[test]
fn another_format_and_a_foreign_file_are_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    assert!(matches!(Catalog::open_to_read(dir.path()), Err(StoreError::NoStore(_))));
    let catalog = Catalog::open_to_write(dir.path()).expect("opened");
    catalog.connection.pragma_update(None, "user_version", 99).expect("set");
    drop(catalog);
    for error in [Catalog::open_to_write(dir.path()).err(), Catalog::open_to_read(dir.path()).err()] {
        assert!(matches!(error, Some(StoreError::NewerFormat { found: 99, .. })), "{error:?}");
    }
    let connection = Connection::open(Catalog::path_in(dir.path())).expect("opened");
    connection.pragma_update(None, "user_version", 1).expect("set");
    drop(connection);
    for error in [Catalog::open_to_write(dir.path()).err(), Catalog::open_to_read(dir.path()).err()] {
        assert!(matches!(error, Some(StoreError::OlderFormat { found: 1, .. })), "{error:?}");
    }
    let other = tempfile::tempdir().expect("a folder");
    let path = Catalog::path_in(other.path());
    Connection::open(&path).expect("opened").execute_batch("CREATE TABLE theirs(a)").expect("made");
    assert!(matches!(Catalog::open_to_write(other.path()), Err(StoreError::Foreign(..))));
    std::fs::write(&path, "this is no database, but a text of some length".repeat(100)).expect("written");
    let error = Catalog::open_to_write(other.path()).err();
    assert!(matches!(error, Some(StoreError::Foreign(..))), "{error:?}");
}
