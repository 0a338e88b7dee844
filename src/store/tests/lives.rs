//! Days with several files: sealed and late ones, what a failed commit does to a sealing, and repair.

use super::*;
use crate::store::catalogue::Seal;
use std::ops::ControlFlow;

/// Seals what a day has, as the lifecycle does.
fn write_sealed(store: &Store, at: Ticks) -> (Sealing, Seal) {
    let sealing = store.steps().begin_seal(&table(at)).expect("begun");
    let mut inputs = sealing.inputs.clone();
    inputs.sort_by_key(catalogue::LiveFile::generation);
    let folder = sealing.path.parent().expect("a folder");
    let what = sealed::Sealing {
        table: sealing.table.clone(),
        generation: sealing.generation,
        inputs: inputs.iter().map(|file| folder.join(&file.name)).collect(),
        committed: store.steps().committed().expect("read"),
        out: sealing.path.clone(),
    };
    let manifest = sealed::seal(&what, &mut |_| ControlFlow::Continue(())).expect("sealed");
    let (bytes, sha256, rows) = (manifest.bytes, manifest.sha256, manifest.rows);
    (sealing, Seal { bytes, sha256, rows, times: None, at: Ticks::MIN })
}

fn seal(store: &Store, at: Ticks) {
    let (sealing, sealed) = write_sealed(store, at);
    store.steps().end_seal(&sealing, &sealed).expect("ended");
}

fn files(folder: &Folder) -> Vec<String> {
    let files = std::fs::read_dir(folder.path().join("tables")).expect("a folder").flatten();
    let mut files: Vec<_> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    files.retain(|name| !name.ends_with("-wal") && !name.ends_with("-shm"));
    files.sort();
    files
}

#[test]
fn what_comes_while_a_day_is_sealed_goes_to_the_next_generation() {
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
fn a_folder_that_was_opened_anew_ends_a_sealing() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 50);
    let (sealing, sealed) = write_sealed(&store, day(0));
    store.close().expect("closed");
    // The file stood, whole and synced; it was no data, and is cleared away.
    let store = folder.open();
    assert_eq!(files(&folder), ["Log20261101.1.db"]);
    assert!(store.steps().end_seal(&sealing, &sealed).is_err());
    assert_eq!(folder.messages(day(0)), newest_first(0, 50));
    // Nor is a file that somebody puts there under its name.
    std::fs::write(&sealing.path, vec![0; usize::try_from(sealed.bytes).expect("small")]).expect("written");
    let ended = store.steps().end_seal(&sealing, &sealed);
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    write(&store, day(0), 50, 51);
    seal(&store, day(0));
    assert_eq!(folder.messages(day(0)), newest_first(0, 51));
    store.close().expect("closed");
}

#[test]
fn repair_keeps_sealed_and_late_rows() {
    for with_catalogue in [true, false] {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, day(0), 0, 50);
        seal(&store, day(0));
        write(&store, day(0), 50, 60);
        write(&store, day(1), 60, 70);
        store.close().expect("closed");
        if !with_catalogue {
            std::fs::remove_file(catalogue::Catalogue::path_in(&folder.path())).expect("removed");
        }
        let said = repair(&folder.path()).expect("repaired").join("\n");
        assert_eq!(said.is_empty(), with_catalogue, "{said}");
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
    let refused = Store::open(&folder.path(), Options::default()).err();
    let Some(error @ StoreError::Mismatch { .. }) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("Log20261101.2.parquet"), "{error}");
    std::fs::write(&path, &whole).expect("written");
    folder.open().close().expect("opened");
}
