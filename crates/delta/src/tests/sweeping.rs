//! Which data files may be deleted.

use super::*;
use crate::{ListedObject, SweepReason, Sweepable, sweepable};
use object_store::memory::InMemory;

#[tokio::test]
async fn only_files_that_no_reader_needs_are_swept() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, options());
    for number in 0..4 {
        commit_once(&log, "h0", number).await.expect("committed");
    }
    let removal = |number: usize, age: i64| DeltaAction::RemoveFile(file_of("h0", number).removal(NOW - age));
    let snapshot =
        commit_all(&log, vec![removal(0, DAY_MS + 1), removal(1, DAY_MS), removal(2, DAY_MS + 1)]).await.snapshot;
    let listed = |path: &str, age: i64| ListedObject { path: path.to_owned(), modified: NOW - age };
    let of = |number: usize, age: i64| listed(&file_of("h0", number).path, age);
    let objects = [
        of(0, 5 * DAY_MS),
        // Removed just now.
        of(1, 5 * DAY_MS),
        // Removed, and written anew after that: its commit may come.
        of(2, DAY_MS),
        // In the table.
        of(3, 5 * DAY_MS),
        // Written and never committed: long ago, a day ago, in the future.
        of(7, DAY_MS + 1),
        of(8, DAY_MS),
        of(9, -DAY_MS),
        // No data files.
        listed("_delta_log/00000000000000000001.checkpoint.parquet", 9 * DAY_MS),
        listed("log_day=2026-11-20/log_host=h0/_hidden/7.parquet", 9 * DAY_MS),
        listed("log_day=2026-11-20/.7.parquet", 9 * DAY_MS),
        listed("log_day=2026-11-20/7.manifest.json", 9 * DAY_MS),
    ];
    let swept = |path: &ListedObject, reason| Sweepable { path: path.path.clone(), reason };
    let expected =
        [swept(&objects[0], SweepReason::Removed(NOW - DAY_MS - 1)), swept(&objects[4], SweepReason::Unknown)];
    assert_eq!(sweepable(&snapshot, &objects, NOW, DAY_MS), expected);
    assert_eq!(sweepable(&TableSnapshot::default(), &objects, NOW, DAY_MS), []);
    assert_eq!(sweepable(&snapshot, &objects, i64::MIN, DAY_MS), []);
}

/// A file that another writer named from the root of the store on is in the table, whatever its folder is there.
#[tokio::test]
async fn files_with_an_absolute_path_are_not_swept() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut snapshot = commit_once(&log(&store, options()), "h0", 0).await.expect("committed").snapshot;
    let file = AddedFile { path: "s3://logs/lake/Log/x y.parquet".into(), ..file_of("h0", 1) };
    snapshot.files.insert(file.path.clone(), Arc::new(file));
    let listed = ["x y.parquet", "y.parquet"].map(|path| ListedObject { path: path.into(), modified: 0 });
    let swept = sweepable(&snapshot, &listed, NOW, DAY_MS);
    assert_eq!(swept, [Sweepable { path: "y.parquet".into(), reason: SweepReason::Unknown }]);
}
