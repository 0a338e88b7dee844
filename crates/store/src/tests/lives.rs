//! Days with several files: sealed and late ones, a failed commit during a sealing, and repair.

use super::*;
use crate::format::catalog::Seal;
use crate::format::sealed::SealedDay;
use std::ops::ControlFlow;

/// Seals the rows of a day, as the lifecycle does.
pub(super) fn write_sealed(store: &Store, at: Ticks) -> (SealTarget, Seal) {
    let sealing = store.steps().begin_seal(&table(at)).expect("begun");
    let what = sealing.to_write(store.steps().committed().expect("read"));
    let manifest = sealed::seal(&what, &mut |_| ControlFlow::Continue(())).expect("sealed").manifest;
    let (bytes, sha256, rows) = (manifest.bytes, manifest.sha256, manifest.rows);
    (sealing, Seal { bytes, sha256, rows, times: None, at: Ticks::MIN })
}

/// Seals a day, and returns the number of copies that it had.
pub(super) fn seal_with_copies(store: &Store, at: Ticks) -> u64 {
    let sealing = store.steps().begin_seal(&table(at)).expect("begun");
    let what = sealing.to_write(store.steps().committed().expect("read"));
    let SealedDay { manifest, copies } = sealed::seal(&what, &mut |_| ControlFlow::Continue(())).expect("sealed");
    let (bytes, sha256, rows) = (manifest.bytes, manifest.sha256, manifest.rows);
    store.steps().end_seal(&sealing, &Seal { bytes, sha256, rows, times: None, at: Ticks::MIN }).expect("ended");
    copies
}

pub(super) fn seal(store: &Store, at: Ticks) {
    let (sealing, sealed) = write_sealed(store, at);
    store.steps().end_seal(&sealing, &sealed).expect("ended");
}

pub(super) fn files(folder: &Folder) -> Vec<String> {
    let files = std::fs::read_dir(folder.path().join("tables")).expect("a folder").flatten();
    let mut files: Vec<_> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    files.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
    files.sort();
    files
}

#[test]
fn records_during_sealing_go_to_the_next_generation() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 50);
    let (sealing, sealed) = write_sealed(&store, day(0));
    write(&store, day(0), 50, 60);
    assert_eq!(folder.messages(day(0)), newest_first(0, 60));
    store.steps().end_seal(&sealing, &sealed).expect("ended");
    assert_eq!(folder.messages(day(0)), newest_first(0, 60));
    store.close().expect("closed");
    assert_eq!(
        files(&folder),
        ["Log20261101.2.manifest.json", "Log20261101.2.parquet", "Log20261101.3.db"],
        "what it was made of is gone"
    );
    let store = folder.open();
    seal(&store, day(0));
    assert_eq!(folder.messages(day(0)), newest_first(0, 60));
    store.close().expect("closed");
    assert_eq!(files(&folder), ["Log20261101.4.manifest.json", "Log20261101.4.parquet"]);
}

#[test]
fn opening_the_folder_again_ends_a_sealing() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 50);
    let (sealing, sealed) = write_sealed(&store, day(0));
    store.close().expect("closed");
    // The file was complete and synced, but no data, and is removed.
    let store = folder.open();
    assert_eq!(files(&folder), ["Log20261101.1.db"]);
    assert!(store.steps().end_seal(&sealing, &sealed).is_err());
    assert_eq!(folder.messages(day(0)), newest_first(0, 50));
    // A foreign file under its name is not accepted either.
    std::fs::write(&sealing.path, vec![0; usize::try_from(sealed.bytes).expect("small")]).expect("written");
    let ended = store.steps().end_seal(&sealing, &sealed);
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    write(&store, day(0), 50, 51);
    seal(&store, day(0));
    assert_eq!(folder.messages(day(0)), newest_first(0, 51));
    store.close().expect("closed");
}

/// A kill between the transaction that makes a sealed file live and the removal of its inputs.
#[test]
fn inputs_of_a_sealing_are_removed_at_the_next_start() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 50);
    let (sealing, sealed) = write_sealed(&store, day(0));
    store.close().expect("closed");
    let mut catalog = catalog::Catalog::open_to_write(&folder.path()).expect("opened");
    catalog.end_seal(&sealing.table, &sealing.inputs, &sealing.output, &sealed).expect("ended");
    catalog.close().expect("closed");
    assert_eq!(files(&folder).len(), 3);
    folder.open().close().expect("closed");
    assert_eq!(files(&folder), ["Log20261101.2.manifest.json", "Log20261101.2.parquet"]);
    assert_eq!(folder.messages(day(0)), newest_first(0, 50));
}

#[test]
fn a_follower_sees_the_last_rows_before_its_day_was_sealed_or_dropped() {
    let folder = Folder::new();
    // A file that is closed meanwhile and opened again is missed.
    let options = StoreOptions { idle_day: Duration::from_secs(600), ..StoreOptions::small() };
    let store = Store::open(&folder.path(), options).expect("opened");
    write(&store, day(0), 0, 5);
    write(&store, day(1), 0, 5);
    let reader = folder.reader();
    let mut followed = reader.follow_from_now().expect("begun");
    let mut look = || {
        let mut seen = Vec::new();
        reader.follow(&mut followed, &mut |_, row| seen.push(message(&row))).expect("followed");
        seen.sort();
        seen
    };
    write(&store, day(0), 5, 6);
    assert_eq!(look(), ["record 5"]);
    write(&store, day(0), 6, 7);
    write(&store, day(1), 7, 8);
    seal(&store, day(0));
    store.steps().drop_table(&table(day(1))).expect("dropped");
    assert_eq!(look(), ["record 6", "record 7"]);
    assert_eq!(look(), [""; 0]);
    write(&store, day(0), 8, 9);
    assert_eq!(look(), ["record 8"]);
    seal(&store, day(0));
    assert_eq!(look(), [""; 0]);
}

/// The day was being sealed, and accepted a record meanwhile.
#[test]
fn repair_without_a_catalog_keeps_the_inputs_of_a_sealing() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 50);
    let (sealing, _) = write_sealed(&store, day(0));
    write(&store, day(0), 50, 51);
    store.close().expect("closed");
    std::fs::remove_file(&sealing.path).expect("not written yet");
    std::fs::remove_file(catalog::Catalog::path_in(&folder.path())).expect("removed");
    let said = repair(&folder.path()).expect("repaired").join("\n");
    assert_eq!(folder.messages(day(0)), newest_first(0, 51), "{said}");
    let store = folder.open();
    write(&store, day(0), 51, 52);
    seal(&store, day(0));
    assert_eq!(folder.messages(day(0)), newest_first(0, 52));
    store.close().expect("closed");
}

#[test]
fn repair_keeps_sealed_and_late_rows() {
    for with_catalog in [true, false] {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, day(0), 0, 50);
        seal(&store, day(0));
        write(&store, day(0), 50, 60);
        write(&store, day(1), 60, 70);
        store.close().expect("closed");
        if !with_catalog {
            std::fs::remove_file(catalog::Catalog::path_in(&folder.path())).expect("removed");
        }
        let said = repair(&folder.path()).expect("repaired").join("\n");
        assert_eq!(said.is_empty(), with_catalog, "{said}");
        assert_eq!(folder.messages(day(0)), newest_first(0, 60), "{said}");
        let store = folder.open();
        write(&store, day(0), 70, 71);
        seal(&store, day(0));
        assert_eq!(folder.messages(day(0)).len(), 61);
        assert_eq!(folder.messages(day(1)), newest_first(60, 70));
        store.close().expect("closed");
    }
}

#[test]
fn a_sealed_file_that_is_cut_short_is_refused_at_the_start() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 50);
    seal(&store, day(0));
    store.close().expect("closed");
    let path = folder.path().join("tables/Log20261101.2.parquet");
    let whole = std::fs::read(&path).expect("read");
    std::fs::write(&path, &whole[..whole.len() - 1]).expect("written");
    let refused = Store::open(&folder.path(), StoreOptions::small()).err();
    let Some(error @ StoreError::Mismatch { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("Log20261101.2.parquet"), "{error}");
    std::fs::write(&path, &whole).expect("written");
    folder.open().close().expect("opened");
}
