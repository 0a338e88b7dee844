//! Files that the catalog does not name: remains of a kill or a power cut, or lost days.

use super::lives::{seal, write_sealed};
use super::*;
use crate::maintain::unnamed_files::{self, UnnamedKind};

/// The unnamed files with their rows, if they are data.
fn unnamed(folder: &Folder) -> Vec<(String, Option<u64>)> {
    let catalog = catalog::Catalog::open_to_read(&folder.path()).expect("opened");
    let files = unnamed_files::find(&folder.path().join("tables"), &catalog).expect("looked");
    assert!(files.iter().all(|file| !matches!(file.what, UnnamedKind::Unreadable(_))), "{files:?}");
    files.into_iter().map(|file| (file.name.clone(), file.rows())).collect()
}

fn refused(folder: &Folder, name: &str) {
    let refused = Store::open(&folder.path(), StoreOptions::small()).err();
    let Some(error @ StoreError::Mismatch { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains(name) && error.to_string().contains("daytable repair"), "{error}");
}

fn put(folder: &Folder, from: &Folder, name: &str) {
    let tables = folder.path().join("tables");
    std::fs::copy(from.path().join("tables").join(name), tables.join(name)).expect("copied");
}

fn catalog_of(folder: &Folder) -> PathBuf {
    catalog::Catalog::path_in(&folder.path())
}

/// An older catalog beside later days, open and sealed: their rows are refused, then repaired.
#[test]
fn days_that_an_older_catalog_does_not_name_are_refused_and_repaired() {
    for is_sealed in [false, true] {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, day(0), 0, 10);
        store.close().expect("closed");
        let older = std::fs::read(catalog_of(&folder)).expect("read");
        let store = folder.open();
        write(&store, day(1), 10, 20);
        if is_sealed {
            seal(&store, day(1));
        }
        store.close().expect("closed");
        std::fs::write(catalog_of(&folder), older).expect("written");
        let name = if is_sealed { "Log20261102.2.parquet" } else { "Log20261102.1.db" };
        assert_eq!(unnamed(&folder), [(name.to_owned(), Some(10))]);
        refused(&folder, name);
        let said = repair(&folder.path()).expect("repaired").join("\n");
        assert!(said.contains(&format!("{name}: 10 entities that the catalog did not name: kept")), "{said}");
        folder.open().close().expect("opened");
        assert_eq!(folder.messages(day(1)), newest_first(10, 20));
        assert_eq!(folder.messages(day(0)), newest_first(0, 10));
    }
}

/// A power cut may restore a removed file, if an earlier version did not wait for the removal.
#[test]
fn a_removed_file_that_came_back_is_a_leftover() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    write(&store, day(1), 10, 20);
    store.close().expect("closed");
    let before = copy_of(&folder, |_| true);
    let store = folder.open();
    seal(&store, day(0));
    store.steps().drop_table(&table(day(1))).expect("dropped");
    write(&store, day(0), 20, 25);
    store.close().expect("closed");
    let sealed = copy_of(&folder, |_| true);
    for name in ["Log20261101.1.db", "Log20261102.1.db"] {
        put(&folder, &before, name);
    }
    let leftovers = ["Log20261101.1.db", "Log20261102.1.db"].map(|name| (name.to_owned(), None));
    assert_eq!(unnamed(&folder), leftovers);
    let store = folder.open();
    assert_eq!(unnamed(&folder), []);
    seal(&store, day(0));
    store.close().expect("closed");
    put(&folder, &sealed, "Log20261101.2.parquet");
    put(&folder, &sealed, "Log20261101.2.manifest.json");
    assert_eq!(unnamed(&folder), [("Log20261101.2.parquet".to_owned(), None)]);
    folder.open().close().expect("opened");
    let mut messages = newest_first(20, 25);
    messages.extend(newest_first(0, 10));
    assert_eq!(folder.messages(day(0)), messages);
}

/// A kill at each of these steps leaves a file that the catalog still names: one that is being created or removed.
#[test]
fn files_being_created_or_removed_are_named() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    write(&store, day(1), 10, 20);
    let (sealing, sealed) = write_sealed(&store, day(0));
    store.close().expect("closed");
    assert_eq!(unnamed(&folder), []);
    let copy = copy_of(&folder, |_| true);
    let mut catalog = catalog::Catalog::open_to_write(&copy.path()).expect("opened");
    let inputs: Vec<_> = catalog.files_of(&table(day(0))).expect("read");
    catalog.end_seal(&sealing.table, &inputs, &sealing.output, &sealed).expect("ended");
    catalog.drop_day(&table(day(1)), catalog::Permit::WithoutArchive, day(9), &[]).expect("dropped");
    let (name, role) = ("Log20261103.1.db".to_owned(), catalog::FileRole::Open);
    let new = catalog::NewFile { day: table(day(2)), generation: 1, name, role, is_behind: false };
    catalog.begin_creating(&[new]).expect("begun");
    drop(crate::format::day_file::DayFile::open(&copy.file(day(2)), &table(day(2))).expect("made"));
    catalog.close().expect("closed");
    assert_eq!(unnamed(&copy), []);
    copy.open().close().expect("opened");
    assert_eq!(lives::files(&copy), ["Log20261101.2.manifest.json", "Log20261101.2.parquet"]);
}

/// The catalog is older than the sealing, and an input of the sealing is gone already: the sealed file is the day.
#[test]
fn repair_uses_a_sealed_file_instead_of_its_missing_inputs() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    seal(&store, day(0));
    write(&store, day(0), 10, 20);
    store.close().expect("closed");
    let before = copy_of(&folder, |_| true);
    let store = folder.open();
    seal(&store, day(0));
    store.close().expect("closed");
    std::fs::copy(catalog_of(&before), catalog_of(&folder)).expect("copied");
    // One of its inputs still exists, as after a kill between their removals.
    put(&folder, &before, "Log20261101.3.db");
    assert!(Store::open(&folder.path(), StoreOptions::small()).is_err());
    let said = repair(&folder.path()).expect("repaired").join("\n");
    assert_eq!(folder.messages(day(0)), newest_first(0, 20), "{said}");
    assert!(said.contains("Log20261101.4.parquet has its rows"), "{said}");
    folder.open().close().expect("opened");
    assert_eq!(folder.messages(day(0)), newest_first(0, 20));
}

/// All inputs of the sealed file exist: they are the day, and the sealed file is put aside.
#[test]
fn repair_puts_unused_files_aside() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    store.close().expect("closed");
    let older = std::fs::read(catalog_of(&folder)).expect("read");
    let store = folder.open();
    let before = copy_of(&folder, |_| true);
    seal(&store, day(0));
    store.close().expect("closed");
    std::fs::write(catalog_of(&folder), older).expect("written");
    put(&folder, &before, "Log20261101.1.db");
    refused(&folder, "Log20261101.2.parquet");
    let said = repair(&folder.path()).expect("repaired").join("\n");
    assert!(said.contains("Log20261101.2.parquet: 10 entities that were not used"), "{said}");
    for name in ["Log20261101.2.parquet", "Log20261101.2.manifest.json"] {
        assert!(folder.path().join("aside").join(name).exists(), "{name}");
    }
    folder.open().close().expect("opened");
    assert_eq!(folder.messages(day(0)), newest_first(0, 10));
}

/// Before the first commit, a copy of the folder may lack empty folders.
#[test]
fn a_folder_without_tables_has_no_unnamed_files() {
    let folder = Folder::new();
    folder.open().close().expect("closed");
    std::fs::remove_dir(folder.path().join("tables")).expect("empty");
    assert_eq!(unnamed(&folder), []);
    folder.open().close().expect("opened");
}
