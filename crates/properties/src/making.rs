//! Makes the folder that `folder` damages. A new format of the folder requires a new one: `cargo test -p
//! daytable-properties --lib making -- --ignored`. Inputs of `fuzz/corpus/folders` then damage other places, and stay
//! useful.

use super::folder::{KEPT, time_of_open};
use daytable_archive::{Access, Archive, RetryPolicy};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_store::catalog::Seal;
use daytable_store::forward::position::FolderOrigin;
use daytable_store::{Ack, Store, StoreOptions, Submission, sealed, source};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SOURCE: u64 = 0xfeed;

fn day(n: u32) -> Ticks {
    Ticks::from_date(2026, 11, n).expect("a date")
}

fn table(at: Ticks) -> DayTable {
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, at)
}

/// Commits the records `from..to` of a day, to one instance or to five.
fn write(store: &Store, at: Ticks, from: u64, to: u64, instances: u64) {
    let mut batches: Vec<Batch> = (0..instances).map(|n| Batch::new(table(at), format!("web-{n}").into())).collect();
    for n in from..to {
        let levels = [Some(Level::Info), Some(Level::Error), None];
        let fields = [("status", Value::Int64(200 + (n % 4).cast_signed())), ("took", Value::Double(0.25 * n as f64))];
        let record = Record {
            level: levels[usize::try_from(n % 3).expect("small")],
            message: format!("record {n} of a day, {}", "x".repeat(usize::try_from(n % 17).expect("small"))).into(),
            fields: fields.map(|(name, value)| Field { name: name.into(), value }).into(),
            ..Record::default()
        };
        let key = RowKey::new(at.plus(Duration::from_secs(n)), SOURCE, n * 100);
        let batch = &mut batches[usize::try_from(n % instances).expect("small")];
        daytable_model::entity::append(batch, key, "/var/log/app.log", &record);
    }
    let (told, hears) = std::sync::mpsc::channel();
    let intake = store.commit_queue();
    let state = source::SourceState { position: to * 100, ..source::tests_state(SOURCE) };
    let done = Ack::awaited(move |committed| told.send(committed).expect("heard"));
    let submission =
        Submission { batches, advances: vec![state.into()], epoch: intake.epoch(), ack: done, ..Submission::default() };
    intake.submit(submission).expect("taken");
    assert!(hears.recv().expect("told"));
}

/// Seals a day as the lifecycle does. Returns the sealed file.
fn seal(store: &Store, at: Ticks) -> PathBuf {
    let sealing = store.steps().begin_seal(&table(at)).expect("begun");
    let what = sealing.to_write(store.steps().committed().expect("read"));
    let manifest = sealed::seal(&what, &mut |_| ControlFlow::Continue(())).expect("sealed").manifest;
    let (bytes, sha256, rows) = (manifest.bytes, manifest.sha256, manifest.rows);
    let times = Some((at, at.plus(Duration::from_secs(3600))));
    store.steps().end_seal(&sealing, &Seal { bytes, sha256, rows, times, at }).expect("ended");
    sealing.path
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_data = [".db", ".db-wal", ".parquet", ".json"].iter().any(|end| name.ends_with(end));
        if is_data && !to.join(&name).exists() {
            fs::create_dir_all(to).expect("made");
            fs::copy(entry.path(), to.join(&name)).expect("copied");
        }
    }
}

#[test]
#[ignore = "writes fuzz/folder anew"]
fn make() {
    let root = tempfile::tempdir().expect("a folder");
    let data = root.path().join("data");
    let options = || StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
    let store = Store::open(&data, options()).expect("opened");
    write(&store, day(1), 0, 60, 2);
    seal(&store, day(1));
    write(&store, day(1), 60, 66, 1);
    write(&store, day(3), 0, 40, 1);
    let path = seal(&store, day(3));
    let url = format!("file://{}", root.path().join("archive").display());
    let archive =
        Archive::open_to_write(&url.parse().expect("an address"), &Access::default(), &RetryPolicy::LIFECYCLE);
    let mut manifest = sealed::Manifest::read_beside(&path).expect("read");
    manifest.home = Some(sealed::ArchiveHome::new("web-1", FolderOrigin([7; 16])));
    archive.expect("opened").put(&manifest, &path, &mut |_| ControlFlow::Continue(())).expect("archived");
    for n in 0..8 {
        write(&store, time_of_open(), n * 10, (n + 1) * 10, 1 + n % 5);
    }
    store.close().expect("closed");
    // The following rows stay in the journals, because the files are copied before the store closes.
    let store = Store::open(&data, options()).expect("opened");
    write(&store, time_of_open(), 100, 180, 1);
    write(&store, time_of_open(), 180, 190, 5);
    let kept = Path::new(crate::ROOT).join("fuzz/folder");
    let _ = fs::remove_dir_all(&kept);
    copy(&data, &kept.join("data"));
    // The day has the pages of this commit. The catalog does not know the commit.
    write(&store, time_of_open(), 190, 200, 2);
    copy(&data.join("tables"), &kept.join("data/tables"));
    let folder = "archive/Log/log_day=2026-11-03/log_host=web-1";
    copy(&root.path().join(folder), &kept.join(folder));
    store.close().expect("closed");
}

/// The folder has every subject of damage, and does not return the unfinished commit.
#[test]
fn the_folder_has_days_of_each_kind() {
    let rows: Vec<(&str, usize)> = KEPT.tables.iter().map(|(name, rows)| (name.as_str(), rows.len())).collect();
    assert_eq!(rows, [("Log20261101", 66), ("Log20261102", 170), ("Log20261103", 40)]);
    let mut names: Vec<String> = KEPT.files.iter().map(|(path, _)| path.display().to_string()).collect();
    names.sort();
    let wanted = [
        "archive/Log/log_day=2026-11-03/log_host=web-1/Log20261103.2.07070707070707070707070707070707.manifest.json",
        "archive/Log/log_day=2026-11-03/log_host=web-1/Log20261103.2.07070707070707070707070707070707.parquet",
        "data/catalog.db",
        "data/catalog.db-wal",
        "data/tables/Log20261101.2.manifest.json",
        "data/tables/Log20261101.2.parquet",
        "data/tables/Log20261101.3.db",
        "data/tables/Log20261101.3.db-wal",
        "data/tables/Log20261102.1.db",
        "data/tables/Log20261102.1.db-wal",
        "data/tables/Log20261103.2.manifest.json",
        "data/tables/Log20261103.2.parquet",
    ];
    assert_eq!(names, wanted);
}

#[test]
#[ignore = "writes fuzz/corpus/forwards anew"]
fn make_bodies() {
    let folder = Path::new(crate::ROOT).join("fuzz/corpus/forwards");
    fs::create_dir_all(&folder).expect("a folder");
    for (number, rows) in [1, 7, 300].into_iter().enumerate() {
        let body = daytable_store::forward::samples::sample_body(rows);
        fs::write(folder.join(format!("p{number}")), body).expect("written");
        let body = daytable_store::forward::samples::sample_body_of_columns(rows);
        fs::write(folder.join(format!("c{number}")), body).expect("written");
    }
}
