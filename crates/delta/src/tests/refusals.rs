//! What is refused: tables that need more than this crate knows, tables with gaps, and commits that are not valid.

use super::*;
use object_store::memory::InMemory;

const FIRST: &str = "00000000000000000000.json";
const PROTOCOL: &str = r#"{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}"#;
const METADATA: &str = r#"{"metaData":{"id":"i","format":{"provider":"parquet","options":{}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["log_day","log_host"],"configuration":{}}}"#;
const ADD: &str = r#"{"add":{"path":"a%20b.parquet","partitionValues":{"log_day":"","log_host":null},"size":1,"modificationTime":2,"dataChange":true}}"#;

/// What a reader answers to a log with this first commit.
async fn read(lines: &[&str]) -> Result<TableSnapshot, String> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    put(&store, FIRST, lines.join("\n")).await;
    log(&store, options()).snapshot(NOW, None).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn tables_of_others_are_read_or_refused() {
    let unknown = r#"{"domainMetadata":{"domain":"d","configuration":"","removed":false}}"#;
    let snapshot = read(&[PROTOCOL, METADATA, "", ADD, unknown, r#"{"commitInfo":{"anything":[1,{}]}}"#]).await;
    let snapshot = snapshot.expect("read");
    let file = snapshot.file("a b.parquet").expect("decoded");
    assert!(file.partition_values.values().all(Option::is_none), "{file:?}");

    let with = |old: &str, new: &str| [PROTOCOL, METADATA, ADD].map(|line| line.replace(old, new));
    for (lines, expected) in [
        (with(r#""minReaderVersion":1"#, r#""minReaderVersion":2"#), "needs version 2 of the protocol for readers"),
        (
            with(
                r#""minReaderVersion":1"#,
                r#""minReaderVersion":3,"readerFeatures":["deletionVectors","v2Checkpoint"]"#,
            ),
            "needs the features deletionVectors, v2Checkpoint of readers",
        ),
        (
            with(r#""size":1"#, r#""size":1,"deletionVector":{"storageType":"u"}"#),
            "needs deletion vectors, which daytable does not know: let daytable alone write it",
        ),
        (
            with(r#""configuration":{}"#, r#""configuration":{"delta.columnMapping.mode":"name"}"#),
            "needs column mapping by \"name\"",
        ),
        (with(r#""provider":"parquet""#, r#""provider":"orc""#), "needs files of the format \"orc\""),
        (with(r#""size":1"#, r#""size":-1"#), "is damaged: line 3: "),
        (with("a%20b", "%2"), "\"%2.parquet\" is not the path of a file"),
        (with("a%20b", "../b"), "is not the path of a file"),
        (with(r#"{"protocol""#, r#"{"x""#), "has no protocol or no metaData"),
        (with(r#"{"metaData""#, r#"{"x""#), "has no protocol or no metaData"),
        (with("\\\"fields\\\":[]", ""), "is damaged: line 2: its schema"),
        (with("modificationTime", "\u{0}"), "is damaged: line 3: "),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let error = read(&lines).await.expect_err(expected);
        assert!(error.starts_with(&format!("{TABLE}/_delta_log/{FIRST}")) && error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_table_for_newer_writers_is_read_and_not_written() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for (old, new, expected) in [
        (r#""minWriterVersion":2"#, r#""minWriterVersion":7"#, "version 7 of the protocol for writers"),
        (r#""log_day","log_host""#, r#""log_day""#, "the partition columns [\"log_day\"]"),
        (r#""configuration":{}"#, r#""configuration":{"delta.appendOnly":"true"}"#, "that files are only added"),
    ] {
        put(&store, FIRST, [PROTOCOL, METADATA, ADD].join("\n").replace(old, new)).await;
        let log = log(&store, options());
        let snapshot = log.snapshot(NOW, None).await.expect("read");
        let file = snapshot.files().next().expect("a file").removal(NOW);
        let commit = log.commit(NOW, None, |_| Ok::<_, Infallible>(vec![DeltaAction::RemoveFile(file.clone())]));
        let error = commit.await.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_gap_is_no_end() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, options());
    for number in 0..4 {
        commit_once(&log, "h0", number).await.expect("committed");
    }
    let known = log.snapshot(NOW, None).await.expect("a snapshot");
    delete(&store, "00000000000000000002.json").await;
    for known in [None, Some(&TableSnapshot { version: Some(1), ..known.clone() })] {
        let error = log.snapshot(NOW, known).await.expect_err("a gap").to_string();
        assert!(error.contains("00000000000000000002.json is missing"), "{error}");
    }
    let error = commit_once(&log, "h0", 9).await.expect_err("a gap").to_string();
    assert!(error.contains("the table cannot be read as a whole"), "{error}");
}

#[tokio::test]
async fn each_limit_is_kept_and_named() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for number in 0..4 {
        commit_once(&log(&store, every(3)), "h0", number).await.expect("committed");
    }
    commit_once(&log(&store, options()), "h1", 0).await.expect("committed");
    for (limited, expected) in [
        (DeltaOptions { files_max: 4, ..options() }, "more than 4 files"),
        (DeltaOptions { transactions_max: 1, ..options() }, "more than 1 transactions"),
        (DeltaOptions { state_bytes_max: 1000, ..options() }, "more than 1000 bytes of the table's state"),
        (DeltaOptions { objects_max: 2, ..options() }, "more than 2 objects"),
        (DeltaOptions { commit_bytes_max: 50, ..options() }, "more than the limit of 50"),
        (DeltaOptions { checkpoint_bytes_max: 60, ..options() }, "more than the limit of 60"),
    ] {
        let limited = log(&store, limited);
        let error = limited.snapshot(NOW, None).await.expect_err(expected).to_string();
        assert!(error.contains(TABLE) && error.contains(expected), "{error}");
    }
    // A commit that its own readers would refuse is not made.
    let limited = log(&store, DeltaOptions { files_max: 5, ..options() });
    let error = commit_once(&limited, "h0", 9).await.expect_err("too many").to_string();
    assert!(error.contains("more than 5 files"), "{error}");
    assert_eq!(limited.snapshot(NOW, None).await.expect("as before").version(), Some(4));
}

#[tokio::test]
async fn proposals_that_are_no_valid_commit_are_refused() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let log = log(&store, options());
    let refused = async |actions: Vec<DeltaAction>| {
        let commit = log.commit(NOW, None, |_| Ok::<_, Infallible>(actions.clone())).await;
        commit.expect_err("refused").to_string()
    };
    let add = |file: AddedFile| DeltaAction::AddFile(file);
    let error = refused(vec![add(file_of("h0", 0))]).await;
    assert!(error.contains("sets no schema"), "{error}");
    let error = refused(vec![DeltaAction::SetSchema(columns()[..3].to_vec())]).await;
    assert!(error.contains("\"log_host\" is not in the schema"), "{error}");

    commit_once(&log, "h0", 0).await.expect("committed");
    let file = || file_of("h0", 1);
    let mut without = file();
    without.partition_values.remove("log_day");
    for (actions, expected) in [
        (vec![add(file()), add(file())], "has two actions"),
        (vec![add(file_of("h0", 0)), DeltaAction::RemoveFile(file_of("h0", 0).removal(NOW))], "has two actions"),
        (vec![DeltaAction::RemoveFile(file().removal(NOW))], "is not in the table"),
        (vec![moved("a", 1), moved("a", 2)], "is moved twice"),
        (vec![add(without)], "needs a value for each of"),
        (vec![add(AddedFile { path: "/a.parquet".into(), ..file() })], "is not a path below the table"),
        (vec![add(AddedFile { path: "s3://b/a.parquet".into(), ..file() })], "is not a path below the table"),
        (vec![DeltaAction::SetSchema(columns()), DeltaAction::SetSchema(columns())], "the schema is set twice"),
        (vec![DeltaAction::SetSchema(columns()[1..].to_vec())], "the column \"n\" would go"),
    ] {
        let error = refused(actions).await;
        assert!(error.starts_with("the proposed commit is not valid: ") && error.contains(expected), "{error}");
    }
    assert_each_once(&store, 1, 1).await;
}
