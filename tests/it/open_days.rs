//! Open days in the table of the archives (`publish_open`): engines see records before their day is over, and each record once in
//! every version of the table, whatever late records, seals, kills, drops and older copies of the folder do.

use crate::archive::stores::Store;
use crate::client::over_unix;
use crate::lake::{Host, asked};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, files_below, installed, numbered, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of each version of a table: its rows, its different keys, and its files.
const VERSIONS: &str = "
import json, sys
from deltalake import DeltaTable, QueryBuilder
key = '\"PartitionKey\", \"Time\", log_ticks, log_source, log_position, log_item'
for version in range(int(sys.argv[2]), DeltaTable(sys.argv[1]).version() + 1):
    table = DeltaTable(sys.argv[1], version=version)
    files = len(table.file_uris())
    ask = f'SELECT count(*) AS n, count(DISTINCT k) AS d FROM (SELECT concat_ws(chr(1), {key}) AS k FROM lake)'
    answer = QueryBuilder().register('lake', table).execute(ask).read_all() if files else None
    rows, keys = (answer['n'][0].as_py(), answer['d'][0].as_py()) if files else (0, 0)
    print(json.dumps([version, rows, keys, files]))
";

/// A version of the table: its rows and its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    rows: usize,
    files: usize,
}

/// A host that publishes its open days in a folder.
struct Publishing {
    host: Host,
    lake: PathBuf,
    _place: Place,
}

impl Publishing {
    fn new(more: &str) -> Publishing {
        let place = Place::new();
        let lake = place.path("lake");
        fs::create_dir(&lake).expect("a folder");
        let host = publishing_host("", &format!("file://{}", lake.display()), more);
        Publishing { host, lake, _place: place }
    }

    fn table(&self) -> PathBuf {
        self.lake.join("Log")
    }

    fn start(&self) -> Daemon {
        let mut command = Command::new(DAYTABLE);
        command.args(["run", "--config", &self.host.config]);
        let daemon = self.host.place.spawn_command(command);
        daemon.wait_ready();
        daemon
    }

    /// Publishes now: a reload does so.
    fn reload(&self) {
        self.host.place.said("reload", &[]);
    }

    /// Waits until the newest version of the table has so many rows, by the numbers in its log.
    fn wait_rows(&self, rows: usize) {
        wait_for(&format!("{rows} rows in the table"), PATIENCE, || (newest(&self.table()).rows == rows).then_some(()));
    }

    /// Each version from `first` on, in each of which no key is twice. By an engine.
    fn versions_from(&self, first: usize) -> Vec<Version> {
        let mut command = Command::new(installed("lake/bin/python"));
        let output = command.args(["-c", VERSIONS]).arg(self.table()).arg(first.to_string()).output().expect("started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let versions = said.lines().map(|line| {
            let [version, rows, keys, files] = serde_json::from_str::<[usize; 4]>(line).expect("four numbers");
            assert_eq!(rows, keys, "version {version} has a key twice");
            Version { rows, files }
        });
        versions.collect()
    }

    /// What daytable says over the lake, and over the folder.
    fn lake_and_folder(&self, filter: &str) -> [String; 2] {
        let lake = self.lake.display().to_string();
        let output = Command::new(DAYTABLE).args(["count", "--lake", &lake, filter]).output().expect("started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let over_lake = String::from_utf8(output.stdout).expect("text");
        [over_lake, self.host.place.said("count", &[filter])]
    }
}

/// A host that publishes its open days at an address, with more keys of `[archives]` and more blocks.
fn publishing_host(keys: &str, address: &str, more: &str) -> Host {
    let keys = format!("table_format = \"delta\"\npublish_open = \"1d\"\n{keys}");
    let host = Host::at("web-1", &keys, address);
    let text = fs::read_to_string(&host.config).expect("read");
    let text = text + &more.replace("LOGS", &host.place.path("logs").display().to_string());
    // A month goes on while a test runs, so nothing is sealed by itself.
    let text = text.replace("keep = \"4000d\"\narchive", "keep = \"4000d\"\nperiod = \"month\"\narchive");
    fs::write(&host.config, text).expect("written");
    host
}

/// The newest version of a table, as its log says.
fn newest(table: &Path) -> Version {
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for version in 0.. {
        let Ok(text) = fs::read_to_string(table.join(format!("_delta_log/{version:020}.json"))) else { break };
        for line in text.lines() {
            let action: Value = serde_json::from_str(line).expect("JSON");
            if let Some(path) = action["remove"]["path"].as_str() {
                files.remove(path);
            }
            if let Some(path) = action["add"]["path"].as_str() {
                let stats: Value =
                    serde_json::from_str(action["add"]["stats"].as_str().expect("numbers")).expect("JSON");
                files.insert(path.to_owned(), stats["numRecords"].as_u64().expect("a number") as usize);
            }
        }
    }
    Version { rows: files.values().sum(), files: files.len() }
}

/// Lines of JSON of this month, from a minute on.
fn lines(minute: usize, count: usize) -> Vec<String> {
    let now = daytable_model::time::now().date();
    let line = |n: usize| {
        let minute = minute + n / 10;
        let time =
            format!("{:04}-{:02}-01T{:02}:{:02}:{:02}.5Z", now.year, now.month, minute / 60 % 24, minute % 60, n % 10);
        json!({"time": time, "level": "info", "message": format!("request {n} at {minute}"), "status": n}).to_string()
    };
    (0..count).map(line).collect()
}

/// The month that is open now.
fn month() -> String {
    let now = daytable_model::time::now().date();
    format!("Log{:04}{:02}", now.year, now.month)
}

#[test]
fn engines_see_open_days_and_each_record_once() {
    let publishing = Publishing::new("[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n");
    let place = &publishing.host.place;
    place.write("a.log", &lines(600, 300));
    let daemon = publishing.start();
    let stored = |count: usize| {
        wait_for("stored", PATIENCE, || place.said("count", &[]).trim().eq(&count.to_string()).then_some(()));
    };
    stored(300);
    publishing.reload();
    publishing.wait_rows(300);
    // Newer ones, older ones than all, and some between them.
    let mut all = 300;
    for (minute, count) in [(640, 200), (300, 40), (610, 60), (900, 1), (0, 5)] {
        place.write("a.log", &lines(minute, count));
        all += count;
        stored(all);
        publishing.reload();
        publishing.wait_rows(all);
        let [lake, folder] = publishing.lake_and_folder("status:<7");
        assert_eq!(lake, folder);
    }
    let by_host = "SELECT log_host, COUNT(*) AS n, COUNT(DISTINCT status) AS s FROM lake GROUP BY log_host";
    assert_eq!(asked(&publishing.lake, by_host), [json!({"log_host": "web-1", "n": all, "s": 300})]);
    // Nothing new: no version.
    let versions = publishing.versions_from(0);
    publishing.reload();
    assert!(daemon.metric("daytable_publish_rows_total").is_some_and(|rows| rows >= all as f64));
    assert_eq!(daemon.metric("daytable_publish_failures_total"), Some(0.0));
    assert_eq!(publishing.versions_from(0), versions);
    assert!(versions.is_sorted_by_key(|version| version.rows), "{versions:?}");

    // The archive takes the place of the parts in one version, and later records wait for the next one.
    place.said("archive", &["--config", &publishing.host.config, &month()]);
    assert_eq!(newest(&publishing.table()), Version { rows: all, files: 1 });
    let [lake, folder] = publishing.lake_and_folder("*");
    assert_eq!(lake, folder);
    place.write("a.log", &lines(700, 30));
    stored(all + 30);
    publishing.reload();
    place.said("archive", &["--config", &publishing.host.config, &month()]);
    assert_eq!(newest(&publishing.table()), Version { rows: all + 30, files: 1 });
    let versions = publishing.versions_from(versions.len());
    assert!(versions.is_sorted_by_key(|version| version.rows), "{versions:?}");
    assert!(versions.iter().all(|version| [all, all + 30].contains(&version.rows)), "{versions:?}");
    let verified = place.said("verify", &["--config", &publishing.host.config, "--archives"]);
    assert!(verified.contains("whole"), "{verified}");
    daemon.stop();
}

/// Commits, merges of pages and publications go on beside each other.
#[test]
fn every_version_beside_the_intake_has_each_record_once() {
    let tail = "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{stem}\"\n";
    let publishing = Publishing::new(tail);
    let place = &publishing.host.place;
    let daemon = publishing.start();
    let mut all = 0;
    for round in 0..12 {
        for file in 0..30 {
            // Each file is an instance of a few rows, and one has many.
            let count = if file == 0 { 900 } else { 7 };
            place.write(&format!("i{file}.log"), &lines(60 * file + 3 * round, count));
            all += count;
        }
        publishing.reload();
    }
    let stored = |all: usize| {
        wait_for("stored", PATIENCE, || place.said("count", &[]).trim().eq(&all.to_string()).then_some(()));
    };
    stored(all);
    publishing.reload();
    publishing.wait_rows(all);
    assert_eq!(publishing.lake_and_folder("instance:=i3").map(|count| count.trim().to_owned()), ["84", "84"]);
    // A publication, and at once the seal and the archive.
    place.write("i1.log", &lines(30, 90));
    all += 90;
    stored(all);
    publishing.reload();
    place.said("archive", &["--config", &publishing.host.config, &month()]);
    publishing.reload();
    publishing.wait_rows(all);
    daemon.stop();
    assert_eq!(newest(&publishing.table()), Version { rows: all, files: 1 });
    let versions = publishing.versions_from(0);
    assert!(versions.is_sorted_by_key(|version| version.rows), "{versions:?}");
    assert_eq!(versions.last().map(|version| version.rows), Some(all));
}

#[test]
fn a_kill_at_any_line_of_publishing_leaves_each_record_once() {
    let publishing = Publishing::new("");
    let place = &publishing.host.place;
    let points = [
        "publish-uploaded",
        "publish-noted",
        "delta-proposed",
        "delta-written",
        "publish-in-log",
        "seal-written",
        "publish-uploaded:2",
        "archive-before-log",
        "archive-in-log",
    ];
    let mut all = 0;
    for (number, point) in points.into_iter().enumerate() {
        // Late ones among them, so parts are replaced.
        publishing.host.import(&format!("{number}.log"), &lines(900 - 40 * number, 120));
        all += 120;
        let is_archive = point.starts_with("archive");
        let mut command = place.command(if is_archive { "archive" } else { "run" });
        command.args(["--config", &publishing.host.config]).env("DAYTABLE_FAILPOINT", point);
        let mut killed = match is_archive {
            true => place.spawn_command({
                command.arg(month());
                command
            }),
            false => place.spawn_command(command),
        };
        if point == "publish-uploaded:2" {
            // There is one part, so nothing is killed.
            publishing.wait_rows(all);
            killed.kill();
        } else {
            killed.ended();
        }
        if !is_archive {
            let daemon = publishing.start();
            publishing.wait_rows(all);
            daemon.stop();
        } else {
            publishing.host.archive(&month());
            publishing.wait_rows(all);
        }
    }
    let versions = publishing.versions_from(0);
    assert!(versions.is_sorted_by_key(|version| version.rows), "{versions:?}");
    assert!(versions.iter().all(|version| version.rows % 120 == 0), "{versions:?}");
}

/// What a kill left goes a day later, and what is in the table stays.
#[test]
fn a_part_without_its_version_is_swept() {
    let publishing = Publishing::new("");
    let place = &publishing.host.place;
    publishing.host.import("a.log", &lines(600, 100));
    let mut command = place.command("run");
    command.args(["--config", &publishing.host.config]).env("DAYTABLE_FAILPOINT", "publish-uploaded");
    place.spawn_command(command).ended();
    let parts = || -> Vec<PathBuf> {
        let files = files_below(&publishing.lake).into_iter();
        files.filter(|path| path.to_string_lossy().contains(".open-")).collect()
    };
    let left = parts();
    assert_eq!(left.len(), 1);
    assert!(place.data().join("publish").exists());
    let aged = |path: &PathBuf| {
        let status = Command::new("touch").args(["-d", "3 days ago"]).arg(path).status().expect("started");
        assert!(status.success());
    };
    left.iter().for_each(aged);
    let daemon = publishing.start();
    publishing.wait_rows(100);
    wait_for("it is swept", PATIENCE, || (!left[0].exists()).then_some(()));
    wait_for("what was written is removed", PATIENCE, || (!place.data().join("publish").exists()).then_some(()));
    daemon.stop();
    // A part that is old and in the table stays, and so does one that left the table a moment ago.
    let published = parts();
    assert_eq!(published.len(), 1);
    published.iter().for_each(aged);
    publishing.host.import("b.log", &lines(600, 110).split_off(100));
    let daemon = publishing.start();
    publishing.wait_rows(110);
    daemon.stop();
    assert!(published[0].exists());
    assert_eq!(publishing.versions_from(0).last().map(|version| version.rows), Some(110));
}

/// What was published is then ahead of the folder, or beside it.
#[test]
fn an_older_copy_of_the_folder_publishes_what_it_has() {
    let publishing = Publishing::new("");
    let place = &publishing.host.place;
    let publish = |rows: usize| {
        let daemon = publishing.start();
        publishing.wait_rows(rows);
        daemon.stop();
    };
    publishing.host.import("a.log", &lines(600, 100));
    publish(100);
    let copy = place.path("copy");
    copy_folder(&place.data(), &copy);
    let backup = place.path("backup");
    place.said("backup", &[&backup.display().to_string()]);
    for (minute, file) in [(620, "b.log"), (300, "c.log")] {
        publishing.host.import(file, &lines(minute, 50));
    }
    publish(200);
    // The copy has fewer commits than what was published.
    let newer = place.path("newer");
    fs::rename(place.data(), &newer).expect("moved");
    copy_folder(&copy, &place.data());
    publish(100);
    // It has as many, and others.
    fs::remove_dir_all(place.data()).expect("removed");
    fs::rename(&newer, place.data()).expect("moved");
    publish(200);
    fs::remove_dir_all(place.data()).expect("removed");
    fs::rename(&copy, place.data()).expect("moved");
    for number in 0..5 {
        publishing.host.import(&format!("d{number}.log"), &lines(400 + number, 7));
    }
    publish(135);
    // A backup does not know what was published.
    fs::remove_dir_all(place.data()).expect("removed");
    fs::rename(&backup, place.data()).expect("moved");
    publish(100);
    let versions = publishing.versions_from(0);
    let versions: Vec<usize> = versions.iter().map(|version| version.rows).skip_while(|rows| *rows == 0).collect();
    // Nothing is in the table twice, and nothing is missing, from one version to the next.
    assert_eq!(versions, [100, 200, 100, 200, 135, 100]);
    let [lake, folder] = publishing.lake_and_folder("*");
    assert_eq!(lake, folder);
}

fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("started");
    assert!(status.success());
}

#[test]
fn object_storage_has_open_days() {
    has_open_days(&Store::s3());
}

#[test]
fn blob_storage_has_open_days() {
    has_open_days(&Store::azure());
}

fn has_open_days(store: &Store) {
    let address = store.url.to_string();
    let host = publishing_host(&store.access_keys(), &address, "");
    host.import("a.log", &lines(600, 300));
    let mut command = Command::new(DAYTABLE);
    command.args(["run", "--config", &host.config]);
    let daemon = host.place.spawn_command(command);
    daemon.wait_ready();
    let count = || {
        let asked = ["--config", &host.config, "--lake", &address, "status:>=100"];
        let output =
            Command::new(DAYTABLE).arg("count").args(asked).env("XDG_CACHE_HOME", host.place.path("cache")).output();
        String::from_utf8_lossy(&output.expect("started").stdout).trim().to_owned()
    };
    wait_for("published", PATIENCE, || (count() == "200").then_some(()));
    let parts = || store.objects().into_iter().filter(|object| object.contains(".open-")).count();
    assert!(parts() > 0);
    daemon.stop();
    host.archive(&month());
    assert_eq!(count(), "200");
    assert!(parts() > 0, "files stay for a day");
}

#[test]
fn what_is_dropped_or_not_published_any_more_leaves_the_table() {
    let publishing = Publishing::new("");
    let place = &publishing.host.place;
    publishing.host.import("a.log", &lines(600, 100));
    let daemon = publishing.start();
    publishing.wait_rows(100);
    place.said("drop", &["--yes", "--without-archive", &month()]);
    publishing.reload();
    publishing.wait_rows(0);
    assert_eq!(newest(&publishing.table()).files, 0);
    daemon.stop();
    publishing.host.import("b.log", &lines(600, 30));
    let daemon = publishing.start();
    publishing.wait_rows(30);
    let text = fs::read_to_string(&publishing.host.config).expect("read");
    fs::write(&publishing.host.config, text.replace("publish_open = \"1d\"", "publish_open = \"off\""))
        .expect("written");
    publishing.reload();
    publishing.wait_rows(0);
    fs::write(&publishing.host.config, text).expect("written");
    publishing.reload();
    publishing.wait_rows(30);
    daemon.stop();
}

/// Columns are called as in the lake that they go to: another one, and one that was begun anew at the same address, may have other
/// names.
#[test]
fn another_lake_and_one_begun_anew_get_the_open_days_under_their_own_names() {
    let publishing = Publishing::new("");
    let other = publishing.lake.with_file_name("other");
    let table = other.join("Log");
    // A text, where the other host has a number.
    let db = Host::at("db-1", "table_format = \"delta\"\n", &format!("file://{}", other.display()));
    db.import("a.log", &[json!({"time": "2026-11-20T10:00:00Z", "message": "a", "status": "ok"}).to_string()]);
    db.archive("Log20261120");
    publishing.host.import("a.log", &lines(600, 100));
    let daemon = publishing.start();
    publishing.wait_rows(100);
    let text = fs::read_to_string(&publishing.host.config).expect("read");
    let (from, to) = (format!("file://{}\"", publishing.lake.display()), format!("file://{}\"", other.display()));
    assert!(text.contains(&from), "{text}");
    fs::write(&publishing.host.config, text.replace(&from, &to)).expect("written");
    publishing.reload();
    let wait = |rows: usize| {
        wait_for(&format!("{rows} rows in the other table"), PATIENCE, || {
            (table.exists() && newest(&table).rows == rows).then_some(())
        });
    };
    wait(101);
    publishing.wait_rows(0);
    let typed = "SELECT COUNT(status_int64) AS numbers, COUNT(status) AS texts FROM lake";
    assert_eq!(asked(&other, typed), [json!({"numbers": 100, "texts": 1})]);

    // Begun anew by this host.
    fs::remove_dir_all(&table).expect("removed");
    publishing.reload();
    wait(100);
    let numbers = "SELECT COUNT(status) AS numbers, MAX(status) AS last FROM lake";
    assert_eq!(asked(&other, numbers), [json!({"numbers": 100, "last": 99})]);
    // And by another one.
    fs::remove_dir_all(&table).expect("removed");
    db.archive("Log20261120");
    publishing.host.import("b.log", &lines(700, 20));
    publishing.reload();
    wait(121);
    assert_eq!(asked(&other, typed), [json!({"numbers": 120, "texts": 1})]);
    daemon.stop();
}

#[test]
fn a_store_that_fails_stops_nothing_else_and_is_named() {
    let publishing = Publishing::new("[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n");
    let place = &publishing.host.place;
    let away = publishing.lake.with_extension("away");
    fs::rename(&publishing.lake, &away).expect("moved");
    fs::write(&publishing.lake, "no folder").expect("written");
    place.write("a.log", &numbered("line", 50));
    let daemon = publishing.start();
    wait_for("stored", PATIENCE, || place.said("count", &[]).trim().eq("50").then_some(()));
    publishing.reload();
    let waiting = "daytable_publish_waiting{table=\"Log\"}";
    wait_for("a failure", PATIENCE, || (daemon.metric(waiting) == Some(1.0)).then_some(()));
    assert!(daemon.metric("daytable_publish_failures_total").is_some_and(|failures| failures >= 1.0));
    let tables = over_unix(daemon.socket(), "GET", "/api/tables", "").expect("an answer").body;
    assert!(tables.contains("failed to publish: "), "{tables}");
    let status = place.ask("status", &[]);
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(said.contains("failed to publish"), "{said}");
    fs::remove_file(&publishing.lake).expect("removed");
    fs::rename(&away, &publishing.lake).expect("moved");
    publishing.reload();
    publishing.wait_rows(50);
    wait_for("no failure", PATIENCE, || daemon.metric(waiting).is_none_or(|waiting| waiting == 0.0).then_some(()));
    daemon.stop();
}
