//! Other engines read what this crate writes, and this crate reads what another writer writes.
//!
//! `tests/setup` installs the engines into `target/lake`.

use super::*;
use object_store::local::LocalFileSystem;
use serde_json::{Value, json};
use std::path::{Path as FilePath, PathBuf};
use std::process::Command;

/// Writes tiny files: for each argument after the folder, a path, the first of three numbers, and whether the file has the
/// column that came later.
const WRITE_FILES: &str = r#"
import os, sys, pyarrow, pyarrow.parquet
folder, *files = sys.argv[1:]
for file in files:
    path, first, is_late = file.rsplit(",", 2)
    numbers = [int(first) + at for at in range(3)]
    columns = {
        "n": pyarrow.array(numbers, pyarrow.int64()),
        "rest": pyarrow.array([[("a", str(n))] if n % 2 else None for n in numbers], pyarrow.map_(pyarrow.string(), pyarrow.string())),
    }
    if is_late == "true":
        columns["level"] = pyarrow.array(["late"] * 3)
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
"#;

/// Makes a table with delta-rs, with a checkpoint of its own, and removes the commits before it.
const WRITE_TABLE: &str = r#"
import os, sys, pyarrow, deltalake
folder = sys.argv[1]
for at in range(6):
    table = pyarrow.table({"n": pyarrow.array([at], pyarrow.int64()), "host": ["a b" if at % 2 else "c"]})
    deltalake.write_deltalake(folder, table, partition_by=["host"], mode="append")
table = deltalake.DeltaTable(folder)
table.delete("n = 5")
table.create_checkpoint()
for version in range(table.version() + 1):
    os.remove(f"{folder}/_delta_log/{version:020}.json")
"#;

fn root() -> PathBuf {
    FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python(arguments: &[&str]) -> String {
    let output = Command::new(root().join("target/lake/bin/python")).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("target/lake/bin/python: {error}: sh tests/setup installs it"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// What each of the three engines answers.
fn ask(table: &str, sql: &str) -> Vec<Value> {
    let script = root().join("tests/it/read_lake.py");
    let said = python(&[script.to_str().expect("a path"), table, sql]);
    let mut answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), 3, "{said}");
    answers.iter_mut().map(|answer| answer["rows"].take()).collect()
}

fn local(folder: &FilePath) -> Arc<dyn ObjectStore> {
    Arc::new(LocalFileSystem::new_with_prefix(folder).expect("a store"))
}

/// 130 versions with a checkpoint; files that were removed, replaced and never committed; a host whose name needs encoding;
/// a column that came later. Three engines answer the same, with the commits before the checkpoint and without them.
#[tokio::test]
async fn three_engines_read_the_same() {
    const HOSTS: [&str; 3] = ["web-1", "a b+c", "h\u{f6}st%1"];
    const VERSIONS: usize = 130;
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join(TABLE);
    let store = local(folder.path());
    let log = log(&store, options());

    let path = |number: usize| file_of(HOSTS[number % 3], number).path;
    // The last file has no commit.
    let files = (0..=VERSIONS).map(|number| format!("{},{},{}", path(number), number * 10, number > 60));
    let mut arguments = vec!["-c".to_owned(), WRITE_FILES.to_owned(), table.display().to_string()];
    arguments.extend(files);
    python(&arguments.iter().map(String::as_str).collect::<Vec<_>>());

    let mut expected: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    let mut known = None;
    for number in 0..VERSIONS {
        let mut file = file_of(HOSTS[number % 3], number);
        file.size = std::fs::metadata(table.join(&*file.path)).expect("a file").len();
        file.stats = Some(format!(
            r#"{{"numRecords":3,"minValues":{{"n":{}}},"maxValues":{{"n":{}}}}}"#,
            number * 10,
            number * 10 + 2
        ));
        let commit = log.commit(NOW, known.as_ref(), |snapshot| {
            let mut actions = vec![DeltaAction::AddFile(file.clone()), moved("it", number)];
            if number == 0 {
                actions.push(DeltaAction::SetSchema(columns()));
            }
            if number == 60 {
                let level = TableColumn::new("level", DeltaType::String);
                actions.push(DeltaAction::SetSchema(columns().into_iter().chain([level]).collect()));
            }
            // Each tenth version replaces a file of some versions before, before the checkpoint and after it.
            if number % 10 == 9 {
                let old = snapshot.file(&path(number - 6)).expect("an old file");
                actions.push(DeltaAction::RemoveFile(old.removal(NOW)));
            }
            Ok::<_, Infallible>(actions)
        });
        known = Some(commit.await.expect("committed").snapshot);
    }
    let removed = |number: usize| number % 10 == 3;
    for number in (0..VERSIONS).filter(|number| !removed(*number)) {
        let host = expected.entry(HOSTS[number % 3]).or_default();
        host.0 += 3;
        host.1 += 3 * (number * 10 + 1);
        host.2 += if number > 60 { 3 } else { 0 };
    }
    let expected: Vec<Value> = expected
        .into_iter()
        .map(|(host, (rows, sum, late))| {
            json!({"log_day": "2026-11-20", "log_host": host, "records": rows, "total": sum, "late": late})
        })
        .collect();
    let by_host = "SELECT log_day, log_host, count(*) AS records, sum(n) AS total, count(level) AS late
        FROM lake GROUP BY log_day, log_host ORDER BY log_host";
    let one = "SELECT n, rest['a'] AS a FROM lake WHERE n = 1271";
    assert!(table.join("_delta_log/00000000000000000100.checkpoint.parquet").exists());
    for is_gone in [false, true] {
        if is_gone {
            for version in 0..=100 {
                std::fs::remove_file(table.join(format!("_delta_log/{version:020}.json"))).expect("removed");
            }
        }
        for (at, rows) in ask(table.to_str().expect("a path"), by_host).into_iter().enumerate() {
            assert_eq!(rows, Value::from(expected.clone()), "engine {at}, without commits: {is_gone}");
        }
    }
    let rows = ask(table.to_str().expect("a path"), one);
    assert!(rows.iter().all(|rows| *rows == json!([{"n": 1271, "a": "1271"}])), "{rows:?}");
    assert_eq!(log.snapshot(NOW, None).await.expect("a snapshot"), known.expect("a snapshot"));
}

#[tokio::test]
async fn a_checkpoint_of_delta_rs_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join(TABLE);
    std::fs::create_dir_all(&table).expect("a folder");
    python(&["-c", WRITE_TABLE, table.to_str().expect("a path")]);
    let store = local(folder.path());
    let options = DeltaOptions { partition_columns: vec!["host".into()], ..options() };
    let snapshot = log(&store, options.clone()).snapshot(NOW, None).await.expect("a snapshot");
    assert_eq!((snapshot.version(), snapshot.files().len(), snapshot.removed().len()), (Some(6), 5, 1));
    let types: Vec<_> = snapshot.columns().iter().map(|column| (column.name.as_str(), &column.data_type)).collect();
    assert_eq!(types, [("n", &DeltaType::Long), ("host", &DeltaType::String)]);
    assert_eq!(snapshot.partition_columns(), ["host"]);
    for file in snapshot.files() {
        assert_eq!(std::fs::metadata(table.join(&*file.path)).expect("its object").len(), file.size, "{file:?}");
        assert!(file.stats.as_deref().is_some_and(|stats| stats.contains("numRecords")), "{file:?}");
    }

    // And this crate goes on from there.
    let file = snapshot.files().next().expect("a file").removal(NOW);
    let log = log(&store, options);
    let commit = log.commit(NOW, None, |_| Ok::<_, Infallible>(vec![DeltaAction::RemoveFile(file.clone())]));
    assert_eq!(commit.await.expect("committed").version, Some(7));
    let rows = ask(table.to_str().expect("a path"), "SELECT count(*) AS records FROM lake");
    assert!(rows.iter().all(|rows| *rows == json!([{"records": 4}])), "{rows:?}");
}
