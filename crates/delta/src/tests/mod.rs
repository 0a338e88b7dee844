//! Tests of the whole log: in memory, in a folder, in stores that fail, and with other engines.

mod checkpoints;
mod commits;
mod engines;
mod garbage;
mod killed;
mod refusals;
mod round_trips;
mod store;
mod sweeping;
mod trouble;

use crate::{
    AddedFile, CommitError, DeltaAction, DeltaCommit, DeltaLog, DeltaOptions, DeltaType, TableColumn, TableSnapshot,
};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

const TABLE: &str = "lake/Log";
const DAY_MS: i64 = 86_400_000;
/// Some day in 2026.
const NOW: i64 = 1_795_000_000_000;

/// Patience without an end, so that no test fails by chance, and no long wait.
fn options() -> DeltaOptions {
    DeltaOptions {
        partition_columns: vec!["log_day".into(), "log_host".into()],
        tries_max: NonZeroU32::MAX,
        questions_max: NonZeroU32::new(4).expect("4 is not zero"),
        wait_min: Duration::from_millis(1),
        wait_max: Duration::from_millis(20),
        ..DeltaOptions::default()
    }
}

fn every(versions: u64) -> DeltaOptions {
    DeltaOptions { checkpoint_every: NonZeroU64::new(versions).expect("not zero"), ..options() }
}

fn log(store: &Arc<dyn ObjectStore>, options: DeltaOptions) -> DeltaLog {
    DeltaLog::new(Arc::clone(store), &Path::from(TABLE), options)
}

fn columns() -> Vec<TableColumn> {
    vec![
        TableColumn::new("n", DeltaType::Long),
        TableColumn::new("rest", DeltaType::StringMap),
        TableColumn::new("log_day", DeltaType::Date),
        TableColumn::new("log_host", DeltaType::String).with_metadata("field", "host"),
    ]
}

fn file_of(host: &str, number: usize) -> AddedFile {
    let path = format!("log_day=2026-11-20/log_host={host}/{number}.parquet");
    let values = BTreeMap::from([
        ("log_day".to_owned(), Some("2026-11-20".to_owned())),
        ("log_host".to_owned(), Some(host.to_owned())),
    ]);
    AddedFile::new(&path, values, 100 + number as u64, NOW)
}

fn moved(app_id: &str, version: usize) -> DeltaAction {
    DeltaAction::Txn { app_id: app_id.into(), version: version as i64 }
}

/// The commit of a file that is made once, whoever repeats it.
fn once(snapshot: &TableSnapshot, host: &str, number: usize) -> Result<Vec<DeltaAction>, Infallible> {
    if snapshot.transaction(host).is_some_and(|version| version >= number as i64) {
        return Ok(Vec::new());
    }
    let schema = snapshot.version().is_none().then(|| DeltaAction::SetSchema(columns()));
    let file = DeltaAction::AddFile(file_of(host, number));
    Ok(schema.into_iter().chain([file, moved(host, number)]).collect())
}

async fn commit_once(log: &DeltaLog, host: &str, number: usize) -> Result<DeltaCommit, CommitError<Infallible>> {
    log.commit(NOW, None, |snapshot| once(snapshot, host, number)).await
}

async fn commit_all(log: &DeltaLog, actions: Vec<DeltaAction>) -> DeltaCommit {
    let commit = log.commit(NOW, None, |_| Ok::<_, Infallible>(actions.clone())).await;
    commit.expect("committed")
}

/// How often each path is added in all commits, by their text alone.
async fn times_added(store: &Arc<dyn ObjectStore>) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for version in 0.. {
        let object = Path::from(format!("{TABLE}/_delta_log/{version:020}.json"));
        let Ok(found) = store.get(&object).await else { break };
        let body = found.bytes().await.expect("bytes");
        for line in std::str::from_utf8(&body).expect("text").lines() {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            if let Some(path) = line["add"]["path"].as_str() {
                *times.entry(path.to_owned()).or_default() += 1;
            }
        }
    }
    times
}

/// Checks that each of `hosts` × `numbers` was committed once, and that a new reader sees just these files.
async fn assert_each_once(store: &Arc<dyn ObjectStore>, hosts: usize, numbers: usize) {
    let times = times_added(store).await;
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let snapshot = log(store, options()).snapshot(NOW, None).await.expect("a snapshot");
    let expected =
        (0..hosts).flat_map(|host| (0..numbers).map(move |number| file_of(&format!("h{host}"), number).path));
    let mut expected: Vec<_> = expected.collect();
    expected.sort();
    assert_eq!(snapshot.files().map(|file| file.path.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(times.len(), expected.len());
    for host in 0..hosts {
        assert_eq!(snapshot.transaction(&format!("h{host}")), Some(numbers as i64 - 1));
    }
}

async fn put(store: &Arc<dyn ObjectStore>, name: &str, body: impl Into<bytes::Bytes>) {
    let object = Path::from(format!("{TABLE}/_delta_log/{name}"));
    store.put(&object, body.into().into()).await.expect("put");
}

async fn get(store: &Arc<dyn ObjectStore>, name: &str) -> bytes::Bytes {
    let object = Path::from(format!("{TABLE}/_delta_log/{name}"));
    store.get(&object).await.expect("got").bytes().await.expect("bytes")
}

async fn delete(store: &Arc<dyn ObjectStore>, name: &str) {
    store.delete(&Path::from(format!("{TABLE}/_delta_log/{name}"))).await.expect("deleted");
}
