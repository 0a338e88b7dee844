//! Checkpoints say the same as all commits before them.

use super::*;
use crate::RemovedFile;
use crate::checkpoint::{encode, multi_part};
use crate::snapshot::TOMBSTONES_KEPT_MS;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;

const VERSIONS: usize = 260;

/// A table with everything that a checkpoint has to keep: files with and without statistics and notes, values that are
/// null, removed files, files that came back, transactions, and a schema that grew.
async fn large_table(store: &Arc<dyn ObjectStore>) -> TableSnapshot {
    let log = log(store, options());
    let mut known = None;
    for number in 0..VERSIONS {
        let commit = log.commit(NOW + number as i64, known.as_ref(), |snapshot| {
            let mut file = file_of(["web-1", "a b+c%d", "höst"][number % 3], number);
            match number % 4 {
                0 => file.stats = Some(format!(r#"{{"numRecords":{number}}}"#)),
                1 => file.tags = BTreeMap::from([("origin".into(), "x".into()), ("b".into(), String::new())]),
                2 => file.partition_values = file.partition_values.keys().map(|name| (name.clone(), None)).collect(),
                _ => {}
            }
            let mut actions = vec![DeltaAction::AddFile(file), moved(&format!("app{}", number % 7), number)];
            if number % 50 == 0 {
                let more = (0..=number / 50).map(|at| TableColumn::new(format!("c{at}"), DeltaType::Double));
                actions.push(DeltaAction::SetSchema(columns().into_iter().chain(more).collect()));
            }
            if number % 5 == 4 {
                let files: Vec<_> = snapshot.files().collect();
                let file = files[number * 7 % files.len()];
                actions.push(DeltaAction::RemoveFile(file.removal(NOW + number as i64)));
            }
            if number % 20 == 19 {
                let back: Option<&Arc<RemovedFile>> = snapshot.removed().next();
                let back = back.expect("a removed file");
                let values = back.partition_values.clone().expect("its values");
                actions.push(DeltaAction::AddFile(AddedFile::new(
                    &back.path,
                    values,
                    back.size.expect("its size"),
                    NOW,
                )));
            }
            Ok::<_, Infallible>(actions)
        });
        let outcome = commit.await.expect("committed");
        assert!(outcome.checkpoint_error.is_none(), "{outcome:?}");
        known = Some(outcome.snapshot);
    }
    known.expect("a snapshot")
}

async fn names(store: &Arc<dyn ObjectStore>) -> Vec<String> {
    let names = log(store, options()).names_from(0).await.expect("names");
    let mut names: Vec<String> = names.into_iter().map(|(name, _)| name.text()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_checkpoint_is_read_as_all_commits_are() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let by_commits = large_table(&store).await;
    assert!(by_commits.removed().len() > 20 && by_commits.files().len() > 200);
    let log = log(&store, options());
    let checkpoints: Vec<String> = names(&store).await.into_iter().filter(|name| name.ends_with("parquet")).collect();
    assert_eq!(checkpoints, ["00000000000000000100.checkpoint.parquet", "00000000000000000200.checkpoint.parquet"]);
    let hint = get(&store, "_last_checkpoint").await;

    // All commits alone.
    let (first, second) = (get(&store, &checkpoints[0]).await, get(&store, &checkpoints[1]).await);
    for name in ["_last_checkpoint", &checkpoints[0], &checkpoints[1]] {
        delete(&store, name).await;
    }
    assert_eq!(log.snapshot(NOW, None).await.expect("a snapshot"), by_commits);

    // The checkpoint, with the hint and without it, the hint being old, new or garbage; then without the commits before it.
    put(&store, &checkpoints[0], first).await;
    put(&store, &checkpoints[1], second).await;
    for is_gone in [false, true] {
        if is_gone {
            for version in 0..200 {
                delete(&store, &format!("{version:020}.json")).await;
            }
        }
        for hint in [&hint[..], br#"{"version":100}"#, br#"{"version":999}"#, b"garbage"] {
            put(&store, "_last_checkpoint", hint.to_vec()).await;
            assert_eq!(log.snapshot(NOW, None).await.expect("a snapshot"), by_commits);
        }
        delete(&store, "_last_checkpoint").await;
        assert_eq!(log.snapshot(NOW, None).await.expect("a snapshot"), by_commits);
    }
}

#[tokio::test]
async fn a_damaged_checkpoint_is_passed_over_only_if_all_commits_are_there() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let whole = large_table(&store).await;
    let log = log(&store, options());
    let mut damaged = get(&store, "00000000000000000200.checkpoint.parquet").await.to_vec();
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0);
    put(&store, "00000000000000000200.checkpoint.parquet", damaged).await;
    assert_eq!(log.snapshot(NOW, None).await.expect("a snapshot"), whole);
    for version in 0..=100 {
        delete(&store, &format!("{version:020}.json")).await;
    }
    assert_eq!(log.snapshot(NOW, None).await.expect("by the older checkpoint"), whole);
    delete(&store, "00000000000000000150.json").await;
    let error = log.snapshot(NOW, None).await.expect_err("damaged").to_string();
    assert!(error.contains("00000000000000000200.checkpoint.parquet is damaged"), "{error}");
}

/// What was known long ago is caught up, by later commits or, where these are gone, by the checkpoint.
#[tokio::test]
async fn a_known_snapshot_catches_up() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, every(100_000));
    commit_once(&log, "h0", 0).await.expect("committed");
    let known = log.snapshot(NOW, None).await.expect("a snapshot");
    for number in 1..30 {
        commit_once(&log, "h0", number).await.expect("committed");
    }
    let whole = log.snapshot(NOW, None).await.expect("a snapshot");
    assert_eq!(log.snapshot(NOW, Some(&known)).await.expect("caught up"), whole);
    log.write_checkpoint(&whole, NOW).await.expect("a checkpoint");
    for version in 0..30 {
        delete(&store, &format!("{version:020}.json")).await;
    }
    assert_eq!(log.snapshot(NOW, Some(&known)).await.expect("anew"), whole);
    assert_eq!(log.snapshot(NOW, Some(&whole)).await.expect("as it was"), whole);
    assert_eq!(commit_once(&log, "h0", 30).await.expect("committed").version, Some(30));

    // A table that was made anew has fewer versions.
    let other: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let other = super::log(&other, options());
    let anew = commit_once(&other, "h1", 0).await.expect("committed").snapshot;
    assert_eq!(other.snapshot(NOW, Some(&whole)).await.expect("anew"), anew);
}

/// Neither after a commit of its own nor after a read is anything read again.
#[tokio::test]
async fn a_kept_snapshot_needs_no_earlier_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let local = LocalFileSystem::new_with_prefix(folder.path()).expect("a store");
    let stores: [Arc<dyn ObjectStore>; 2] = [Arc::new(InMemory::new()), Arc::new(local)];
    for store in stores {
        let log = log(&store, options());
        let committed = log.commit(NOW, None, |snapshot| once(snapshot, "h0", 0)).await.expect("committed").snapshot;
        let read = log.snapshot(NOW, None).await.expect("read");
        for number in 1..3 {
            log.commit(NOW, Some(&read), |snapshot| once(snapshot, "h0", number)).await.expect("committed");
        }
        let whole = log.snapshot(NOW, None).await.expect("read");
        for known in [&committed, &read] {
            assert_eq!(log.snapshot(NOW, Some(known)).await.expect("read"), whole);
        }
        let known = log.snapshot(NOW, Some(&committed)).await.expect("read");
        delete(&store, "00000000000000000000.json").await;
        delete(&store, "00000000000000000001.json").await;
        assert_eq!(log.snapshot(NOW, Some(&known)).await.expect("nothing is needed"), whole);
        let next = log.commit(NOW, Some(&known), |snapshot| once(snapshot, "h0", 3)).await.expect("committed");
        assert_eq!(log.snapshot(NOW, Some(&next.snapshot)).await.expect("nothing is needed"), next.snapshot);
    }
}

/// A reader that keeps its snapshot does not mix the files of a table with those of the one that took its place.
#[tokio::test]
async fn a_table_made_anew_with_as_many_versions_is_read_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let local = LocalFileSystem::new_with_prefix(folder.path()).expect("a store");
    let stores: [Arc<dyn ObjectStore>; 2] = [Arc::new(InMemory::new()), Arc::new(local)];
    for store in stores {
        let log = log(&store, every(4));
        let mut known = Vec::new();
        for number in 0..6 {
            // One was committed here, and one was read.
            known.push(commit_once(&log, "h0", number).await.expect("committed").snapshot);
            known.push(log.snapshot(NOW, None).await.expect("read"));
        }
        let whole = log.snapshot(NOW, None).await.expect("read");
        for known in &known {
            assert_eq!(log.snapshot(NOW, Some(known)).await.expect("read"), whole);
        }
        for name in names(&store).await {
            delete(&store, &name).await;
        }
        delete(&store, "_last_checkpoint").await;
        for number in 0..9 {
            commit_once(&log, "h1", number).await.expect("committed");
            let anew = log.snapshot(NOW, None).await.expect("read");
            for known in &known {
                assert_eq!(log.snapshot(NOW, Some(known)).await.expect("read"), anew);
            }
        }
    }
}

#[tokio::test]
async fn removals_leave_kept_snapshots_after_seven_days() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    // Two removed files at most are known, and there is no checkpoint.
    let log = log(&store, DeltaOptions { files_max: 4, ..options() });
    let (mut writer, mut reader) = (None, None);
    for day in 0..40 {
        let now = NOW + 4 * DAY_MS * day as i64;
        let proposed = |snapshot: &TableSnapshot| {
            let before: Vec<DeltaAction> =
                snapshot.files().map(|file| DeltaAction::RemoveFile(file.removal(now))).collect();
            once(snapshot, "h0", day).map(|actions| [before, actions].concat())
        };
        let commit = log.commit(now, writer.as_ref(), proposed).await.expect("committed").snapshot;
        let read = log.snapshot(now, reader.as_ref()).await.expect("read");
        assert_eq!(read, commit);
        assert_eq!((read.files().len(), read.removed().len()), (1, day.min(2)));
        (writer, reader) = (Some(commit), Some(read));
    }
    // What is counted of the bytes is of what is left.
    let anew = log.snapshot(NOW + 4 * DAY_MS * 39, None).await.expect("read");
    assert_eq!(Some(anew), reader);
}

#[tokio::test]
async fn removals_leave_checkpoints_after_seven_days() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, options());
    for number in 0..2 {
        commit_once(&log, "h0", number).await.expect("committed");
    }
    let removal = |number: usize, age: i64| DeltaAction::RemoveFile(file_of("h0", number).removal(NOW - age));
    let removed = commit_all(&log, vec![removal(0, TOMBSTONES_KEPT_MS), removal(1, TOMBSTONES_KEPT_MS - 1)]).await;
    assert_eq!(removed.snapshot.removed().len(), 1);
    log.write_checkpoint(&removed.snapshot, NOW).await.expect("a checkpoint");
    let read = log.snapshot(NOW, None).await.expect("a snapshot");
    assert_eq!(read.removed().map(|file| file.path.clone()).collect::<Vec<_>>(), [file_of("h0", 1).path]);
    assert_eq!((read.files().len(), read.version()), (0, Some(2)));
}

#[tokio::test]
async fn a_checkpoint_that_fails_does_not_fail_its_commit() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, DeltaOptions { checkpoint_bytes_max: 100, ..every(1) });
    commit_once(&log, "h0", 0).await.expect("committed");
    let outcome = commit_once(&log, "h0", 1).await.expect("committed");
    assert_eq!(outcome.version, Some(1));
    let error = outcome.checkpoint_error.expect("the limit").to_string();
    assert!(error.contains("more than the limit of 100"), "{error}");
    assert_eq!(names(&store).await, ["00000000000000000000.json", "00000000000000000001.json"]);
}

#[tokio::test]
async fn parts_of_a_checkpoint_are_read_if_all_are_there() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, options());
    for number in 0..9 {
        commit_once(&log, "h0", number).await.expect("committed");
    }
    let whole = log.snapshot(NOW, None).await.expect("a snapshot");
    for version in 0..8 {
        delete(&store, &format!("{version:020}.json")).await;
    }
    let (first, second) = multi_part(&whole, NOW);
    put(&store, "00000000000000000008.checkpoint.0000000001.0000000002.parquet", first).await;
    let error = log.snapshot(NOW, None).await.expect_err("a part is missing").to_string();
    assert!(error.contains("00000000000000000000.json is missing"), "{error}");
    put(&store, "00000000000000000008.checkpoint.0000000002.0000000002.parquet", second).await;
    assert_eq!(log.snapshot(NOW, None).await.expect("all parts"), whole);
    assert!(encode(&whole, NOW).len() > 1000);
}
