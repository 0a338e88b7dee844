//! A folder as the outbox of a remote store: who only adds to it leaves it one, and who ends that keeps its rows.

use super::*;
use crate::format::catalog::FileRole;
use crate::outbox::{OutboxLevel, OutboxOptions, OutboxPosition, OutboxReader};
use std::collections::HashSet;
use std::sync::Arc;

fn open(folder: &Folder, forwarding: Forwarding) -> Store {
    let options = StoreOptions { commit_interval: Duration::from_millis(1), forwarding, ..StoreOptions::small() };
    Store::open(&folder.path(), options).expect("opened")
}

fn to(bytes_max: u64, level: &Arc<OutboxLevel>) -> Forwarding {
    Forwarding::To(OutboxOptions {
        stays: TableName::new("DeadLetter").expect("a name"),
        bytes_max,
        age_max: None,
        drops_oldest: false,
        level: level.clone(),
        on_commit: Box::new(|| {}),
    })
}

fn roles(folder: &Folder) -> Vec<FileRole> {
    folder.reader().catalog().files().expect("read").into_iter().map(|file| file.role).collect()
}

#[test]
fn adding_to_an_outbox_keeps_it_and_disabling_it_keeps_its_rows() {
    let folder = Folder::new();
    let level = Arc::new(OutboxLevel::default());
    let store = open(&folder, to(u64::MAX, &level));
    write(&store, day(0), 0, 10);
    // The level is updated after the commit, and before the next step.
    store.steps().committed().expect("read");
    assert_eq!(level.entities(), 10);
    store.close().expect("closed");
    // An import, without a configuration.
    let store = open(&folder, Forwarding::AsRecorded);
    write(&store, day(1), 10, 20);
    write(&store, day(0), 20, 30);
    assert!(matches!(store.steps().drop_table(&table(day(0))), Err(StoreError::Refused(_))));
    store.close().expect("closed");
    assert_eq!(roles(&folder), [FileRole::Outbox, FileRole::Outbox]);
    let store = open(&folder, to(u64::MAX, &level));
    assert_eq!(level.entities(), 30);
    assert!(matches!(store.steps().begin_seal(&table(day(0))), Err(StoreError::Refused(_))));
    assert!(matches!(store.steps().drop_table(&table(day(0))), Err(StoreError::Refused(_))));
    store.close().expect("closed");
    // Rows are no longer sent.
    let store = open(&folder, Forwarding::Disabled);
    assert_eq!(roles(&folder), [FileRole::Closed, FileRole::Closed]);
    write(&store, day(0), 30, 40);
    assert_eq!(folder.messages(day(0)).len(), 30);
    assert_eq!(store.steps().begin_seal(&table(day(0))).expect("begun").inputs.len(), 2);
    store.close().expect("closed");
    let store = open(&folder, Forwarding::AsRecorded);
    write(&store, day(2), 40, 50);
    store.close().expect("closed");
    assert_eq!(roles(&folder).last(), Some(&FileRole::Open));
}

#[test]
fn a_lost_catalog_is_rebuilt_and_unsent_rows_still_wait() {
    let folder = Folder::new();
    let level = Arc::new(OutboxLevel::default());
    let store = open(&folder, to(u64::MAX, &level));
    write(&store, day(0), 0, 10);
    store.close().expect("closed");
    for name in ["catalog.db", "catalog.db-wal", "catalog.db-shm"] {
        let _ = std::fs::remove_file(folder.path().join(name));
    }
    crate::maintain::repair::repair(&folder.path()).expect("repaired");
    assert_eq!(roles(&folder), [FileRole::Outbox]);
    let store = open(&folder, to(u64::MAX, &level));
    assert_eq!(level.entities(), 10);
    store.close().expect("closed");
}

#[test]
fn what_is_behind_a_damaged_page_is_sent() {
    let folder = Folder::new();
    let level = Arc::new(OutboxLevel::default());
    let store = open(&folder, to(u64::MAX, &level));
    let reader = OutboxReader::open(&folder.path()).expect("opened");
    let mut seen = OutboxPosition::default();
    for n in 0..4 {
        let row = [(day(0).plus(seconds(n)), n, "a record")];
        assert!(commit(&store, vec![batch(day(0), "web-1", &row), batch(day(0), "web-2", &row)], n + 1));
        if n == 0 {
            // The pages of earlier processes are read by partition.
            let file = reader.files().expect("read").remove(0);
            reader.new_pages(&file, &mut seen).expect("read");
        }
    }
    store.close().expect("closed");
    let file = crate::format::day_file::DayFile::open(&folder.file(day(0)), &table(day(0))).expect("opened");
    let damage = "UPDATE body SET bytes = zeroblob(length(bytes)) WHERE id / 4096 = 4";
    assert_eq!(file.connection().execute(damage, []).expect("damaged"), 1);
    file.close().expect("closed");
    let reader = OutboxReader::open(&folder.path()).expect("opened");
    let file = reader.files().expect("read").remove(0);
    let news = reader.new_pages(&file, &mut seen).expect("read");
    assert_eq!((news.pages.len(), news.has_more), (5, false), "all of three commits but the damaged one");
    let behind = reader.new_pages(&file, &mut OutboxPosition::default()).expect("read").behind;
    let of = |partition| reader.pages_of(&file, partition, &HashSet::new(), 10, false).expect("read");
    let mut found: Vec<(usize, bool)> =
        behind.into_iter().map(of).map(|(pages, has_more)| (pages.len(), has_more)).collect();
    found.sort();
    assert_eq!(found, [(3, false), (4, false)]);
}

#[test]
fn a_full_outbox_accepts_nothing_until_sources_stop() {
    let folder = Folder::new();
    let level = Arc::new(OutboxLevel::default());
    let store = open(&folder, to(1, &level));
    write(&store, day(0), 0, 10);
    // The commit is acknowledged before the level is updated.
    while !level.is_full() {
        std::thread::yield_now();
    }
    let intake = store.commit_queue();
    let waiting = std::thread::spawn(move || {
        let batches = vec![batch(day(0), "web-1", &[(day(0), 99, "late")])];
        intake.submit(Submission { batches, epoch: intake.epoch(), ..Submission::default() })
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!waiting.is_finished());
    store.drain();
    waiting.join().expect("no panic").expect("taken");
    store.close().expect("closed");
    assert_eq!(folder.messages(day(0)).len(), 11);
}
