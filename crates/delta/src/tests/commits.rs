//! Many writers, and what one commit does.

use super::*;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use std::io;
use std::sync::Mutex;

async fn twenty_writers(store: Arc<dyn ObjectStore>) {
    let mut writers = tokio::task::JoinSet::new();
    for host in 0..20 {
        let log = log(&store, every(25));
        writers.spawn(async move {
            let (host, mut known) = (format!("h{host}"), None);
            for number in 0..10 {
                let commit = log.commit(NOW, known.as_ref(), |snapshot| once(snapshot, &host, number)).await;
                let outcome = commit.expect("committed");
                assert!(outcome.version.is_some() && outcome.checkpoint_error.is_none(), "{outcome:?}");
                known = Some(outcome.snapshot);
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("a writer");
    }
    assert_each_once(&store, 20, 10).await;
    let snapshot = log(&store, options()).snapshot(NOW, None).await.expect("a snapshot");
    assert_eq!(snapshot.version(), Some(199));
    let last: serde_json::Value = serde_json::from_slice(&get(&store, "_last_checkpoint").await).expect("JSON");
    assert_eq!(last["version"], 175);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_writers_in_memory_commit_each_file_once() {
    twenty_writers(Arc::new(InMemory::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_writers_in_a_folder_commit_each_file_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = LocalFileSystem::new_with_prefix(folder.path()).expect("a store").with_fsync(true);
    twenty_writers(Arc::new(store)).await;
}

#[tokio::test]
async fn the_first_commit_makes_the_table_and_later_ones_keep_its_identifier() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, options());
    let none = log.snapshot(NOW, None).await.expect("no table");
    assert_eq!((none.version(), none.table_id(), none.files().len()), (None, None, 0));
    let first = commit_once(&log, "h0", 0).await.expect("committed").snapshot;
    assert_eq!((first.version(), first.columns()), (Some(0), &columns()[..]));
    assert_eq!(first.partition_columns(), ["log_day", "log_host"]);

    let lines = get(&store, "00000000000000000000.json").await;
    let lines: Vec<serde_json::Value> = std::str::from_utf8(&lines)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let kinds: Vec<&String> = lines.iter().filter_map(|line| line.as_object()?.keys().next()).collect();
    assert_eq!(kinds, ["commitInfo", "protocol", "metaData", "add", "txn"]);
    assert_eq!(lines[1]["protocol"], serde_json::json!({"minReaderVersion": 1, "minWriterVersion": 2}));

    let wider = [columns(), vec![TableColumn::new("level", DeltaType::String)]].concat();
    let file = first.files().next().expect("a file").removal(NOW + 5);
    let actions = vec![DeltaAction::SetSchema(wider.clone()), DeltaAction::RemoveFile(file.clone())];
    let second = commit_all(&log, actions).await.snapshot;
    assert_eq!((second.table_id(), second.columns()), (first.table_id(), &wider[..]));
    assert_eq!((second.files().len(), second.removal(&file.path).map(|removed| &**removed)), (0, Some(&file)));
    assert_eq!(log.snapshot(NOW, Some(&first)).await.expect("a snapshot"), second);
    assert_eq!(log.snapshot(NOW, None).await.expect("a snapshot"), second);
}

#[tokio::test]
async fn a_commit_that_is_there_already_is_not_repeated() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, options());
    assert_eq!(commit_once(&log, "h0", 0).await.expect("committed").version, Some(0));
    assert_eq!(commit_once(&log, "h0", 0).await.expect("nothing").version, None);
    assert_each_once(&store, 1, 1).await;
}

#[tokio::test]
async fn a_failed_proposal_writes_nothing() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let commit = log(&store, options()).commit(NOW, None, |_| Err::<Vec<DeltaAction>, _>("no")).await;
    assert!(matches!(commit, Err(CommitError::Proposal("no"))));
    assert_eq!(log(&store, options()).snapshot(NOW, None).await.expect("no table").version(), None);
}

/// Whoever is slower each time gets an end and a clear answer.
#[tokio::test]
async fn tries_have_an_end() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let slow = log(&store, DeltaOptions { tries_max: NonZeroU32::new(3).expect("3 is not zero"), ..options() });
    let versions = Mutex::new(Vec::new());
    let commit = slow.commit(NOW, None, |snapshot| {
        // Another writer's commit comes between the proposal and the write.
        let version = snapshot.version().map_or(0, |version| version + 1);
        versions.lock().expect("versions").push(version);
        let object = Path::from(format!("{TABLE}/_delta_log/{version:020}.json"));
        let body = crate::line::text(&actions_of_another(snapshot), "another", NOW).expect("lines");
        let store = Arc::clone(&store);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(store.put(&object, body.into())).expect("put");
        })
        .join()
        .expect("a thread");
        once(snapshot, "h0", 0)
    });
    let error = commit.await.expect_err("contended");
    assert_eq!(
        error.to_string(),
        format!("{TABLE}/_delta_log/00000000000000000003.json: other writers were faster 3 times")
    );
    assert_eq!(*versions.lock().expect("versions"), [0, 1, 2]);
}

fn actions_of_another(snapshot: &TableSnapshot) -> Vec<crate::metadata::LogAction> {
    use crate::metadata::{KNOWN_VERSIONS, LogAction, TableMetadata};
    if snapshot.version().is_some() {
        return Vec::new();
    }
    let metadata = TableMetadata {
        id: "another".into(),
        name: None,
        description: None,
        columns: columns(),
        partition_columns: options().partition_columns,
        configuration: BTreeMap::new(),
        created_time: None,
    };
    vec![LogAction::Protocol(KNOWN_VERSIONS), LogAction::Metadata(metadata)]
}

#[tokio::test]
async fn hooks_are_called_around_each_write_and_before_nothing_to_do_is_believed() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let calls = Arc::new(Mutex::new(Vec::new()));
    let call = |what: &'static str, fails: bool| -> crate::WriteHook {
        let calls = Arc::clone(&calls);
        Arc::new(move |path: &Path| {
            calls.lock().expect("calls").push(format!("{what} {}", path.filename().unwrap_or_default()));
            if fails { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
        })
    };
    let hooked = log(&store, every(1)).with_before_write(call("before", false)).with_after_write(call("after", false));
    commit_once(&hooked, "h0", 0).await.expect("committed");
    commit_once(&hooked, "h0", 1).await.expect("committed");
    commit_once(&hooked, "h0", 1).await.expect("nothing");
    let expected = [
        "before 00000000000000000000.json",
        "after 00000000000000000000.json",
        "before 00000000000000000001.json",
        "after 00000000000000000001.json",
        "before 00000000000000000001.checkpoint.parquet",
        "after 00000000000000000001.checkpoint.parquet",
        "before _last_checkpoint",
        "after _last_checkpoint",
        "after 00000000000000000001.json",
    ];
    assert_eq!(*calls.lock().expect("calls"), expected);

    // A commit that is not durable is not success, neither for its writer nor for who finds it.
    let failing = log(&store, options()).with_after_write(call("after", true));
    for _ in 0..2 {
        let error = commit_once(&failing, "h0", 2).await.expect_err("not durable").to_string();
        assert!(error.ends_with("00000000000000000002.json: the disk is gone"), "{error}");
    }
    assert_eq!(commit_once(&hooked, "h0", 2).await.expect("nothing").version, None);
    assert_each_once(&store, 1, 3).await;
}
