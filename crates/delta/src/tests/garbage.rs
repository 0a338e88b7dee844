//! Logs with changed bytes are read or refused; no bytes cause a panic of the reader.

use super::*;
use crate::checkpoint::encode;
use object_store::memory::InMemory;
use proptest::prelude::*;
use std::sync::LazyLock;

const CHECKPOINT: &str = "00000000000000000003.checkpoint.parquet";
const COMMIT: &str = "00000000000000000004.json";

/// A checkpoint and a commit after it.
static OBJECTS: LazyLock<(Vec<u8>, Vec<u8>, TableSnapshot)> = LazyLock::new(|| {
    runtime().block_on(async {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let log = log(&store, options());
        for number in 0..4 {
            commit_once(&log, "h0", number).await.expect("committed");
        }
        let snapshot = log.snapshot(NOW, None).await.expect("a snapshot");
        let actions = vec![
            DeltaAction::RemoveFile(file_of("h0", 0).removal(NOW)),
            DeltaAction::AddFile(file_of("h1", 0)),
            moved("h1", 0),
            DeltaAction::SetSchema(columns()),
        ];
        let after = commit_all(&log, actions).await.snapshot;
        (encode(&snapshot, NOW).to_vec(), get(&store, COMMIT).await.to_vec(), after)
    })
});

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn read(checkpoint: Vec<u8>, commit: Vec<u8>) -> Result<TableSnapshot, crate::DeltaError> {
    runtime().block_on(async {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        put(&store, CHECKPOINT, checkpoint).await;
        put(&store, COMMIT, commit).await;
        log(&store, options()).snapshot(NOW, None).await
    })
}

#[derive(Clone, Debug)]
enum Change {
    Set(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Drop(usize, usize),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        6 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        1 => any::<usize>().prop_map(Change::Cut),
        1 => (any::<usize>(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (any::<usize>(), 1..50_usize).prop_map(|(at, count)| Change::Drop(at, count)),
    ];
    prop::collection::vec(change, 1..6)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let length = bytes.len().max(1);
        match change {
            Change::Set(at, byte) => {
                if let Some(old) = bytes.get_mut(at % length) {
                    *old = *byte;
                }
            }
            Change::Cut(at) => bytes.truncate(at % length),
            Change::Insert(at, new) => drop(bytes.splice(at % length..at % length, new.iter().copied())),
            Change::Drop(at, count) => drop(bytes.drain(at % length..(at % length + count).min(bytes.len()))),
        }
    }
    bytes
}

#[test]
fn unchanged_objects_are_read() {
    let (checkpoint, commit, snapshot) = &*OBJECTS;
    assert_eq!(read(checkpoint.clone(), commit.clone()).expect("a snapshot"), *snapshot);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// A reader of a changed commit answers, and a refusal names the object.
    #[test]
    fn changed_commits_are_read_or_refused(changes in changes()) {
        let (checkpoint, commit, _) = &*OBJECTS;
        if let Err(error) = read(checkpoint.clone(), changed(commit.clone(), &changes)) {
            prop_assert!(error.to_string().contains(COMMIT), "{}", error);
        }
    }

    /// A reader of a changed checkpoint answers, and a refusal names the checkpoint.
    #[test]
    fn changed_checkpoints_are_read_or_refused(changes in changes()) {
        let (checkpoint, commit, _) = &*OBJECTS;
        if let Err(error) = read(changed(checkpoint.clone(), &changes), commit.clone()) {
            prop_assert!(error.to_string().contains(CHECKPOINT), "{}", error);
        }
    }

    /// Any bytes in place of both are refused.
    #[test]
    fn any_bytes_are_refused(checkpoint in prop::collection::vec(any::<u8>(), 0..300), commit in ".*") {
        prop_assert!(read(checkpoint, commit.into_bytes()).is_err());
    }
}
