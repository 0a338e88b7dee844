//! What changes around a lake: its format, the names of its hosts, its address. Each record is there once all the same, and an
//! answer that lacks some says so.

use crate::lake::{Host, asked};
use crate::place::{Place, files_below};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const BY_HOST: &str = "SELECT log_host, COUNT(*) AS n FROM lake GROUP BY log_host ORDER BY log_host";

fn host_at(name: &str, format: &str, lake: &Path) -> Host {
    Host::at(name, &format!("table_format = \"{format}\"\n"), &format!("file://{}", lake.display()))
}

/// Lines of a day: so many behind the first ones.
fn lines(day: &str, first: usize, count: usize) -> Vec<String> {
    let line = |n: usize| {
        let time = format!("2026-11-{day}T10:{:02}:{:02}.5Z", n / 60 % 60, n % 60);
        json!({"time": time, "level": "info", "message": format!("request {n}"), "status": n}).to_string()
    };
    (first..first + count).map(line).collect()
}

fn change(host: &Host, from: &str, to: &str) {
    let text = fs::read_to_string(&host.config).expect("read");
    assert!(text.contains(from), "{text}");
    fs::write(&host.config, text.replace(from, to)).expect("written");
}

fn count(place: &Place, lake: &Path, question: &str) -> (Option<i32>, String, String) {
    let lake = lake.display().to_string();
    let mut command = place.command("count");
    let Output { status, stdout, stderr } =
        command.env("HOME", place.path("home")).args(["--lake", &lake, question]).output().expect("started");
    let [said, told] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text").trim().to_owned());
    (status.code(), said, told)
}

fn assert_count(place: &Place, lake: &Path, question: &str, records: usize) {
    let (code, said, told) = count(place, lake, question);
    assert_eq!((code, said), (Some(0), records.to_string()), "{question}: {told}");
}

fn files(lake: &Path, wanted: &[&str]) -> Vec<PathBuf> {
    let is_wanted = |path: &PathBuf| wanted.iter().all(|part| path.to_string_lossy().contains(part));
    files_below(lake).into_iter().filter(is_wanted).collect()
}

/// Makes files look as old as they would be some days later.
fn age(files: &[PathBuf], age: &str) {
    for file in files {
        let status = Command::new("touch").args(["-d", age]).arg(file).status().expect("started");
        assert!(status.success());
    }
}

fn newest_commit(lake: &Path) -> String {
    let commits = files(lake, &["_delta_log/0"]);
    fs::read_to_string(commits.last().expect("a commit")).expect("read")
}

/// Thirty records of each of these days of November, archived.
fn archive_days(host: &Host, days: &[&str]) {
    for day in days {
        host.import(&format!("{day}.log"), &lines(day, 0, 30));
        host.archive(&format!("Log202611{day}"));
    }
}

/// The configuration may say by then that archives are no table, or there is none: what counts is what the log says.
#[test]
fn an_archive_that_is_dropped_leaves_the_table_whatever_the_configuration_says() {
    let place = Place::new();
    let lake = place.path("lake");
    let (web, db) = (host_at("web-1", "delta", &lake), host_at("db-1", "delta", &lake));
    archive_days(&web, &["20", "21", "22"]);
    db.import("a.log", &lines("20", 0, 7));
    db.archive("Log20261120");
    change(&web, "\"delta\"", "\"none\"");

    // A later version of a day that the table has takes the place of the one before.
    web.import("late.log", &lines("22", 30, 1));
    web.archive("Log20261122");
    assert_count(&place, &lake, "*", 98);
    assert_eq!(asked(&lake, BY_HOST), [json!({"log_host": "db-1", "n": 7}), json!({"log_host": "web-1", "n": 91})]);

    let of_day = |day: &str| files(&lake, &[&format!("log_day=2026-11-{day}/log_host=web-1/"), ".parquet"]);
    web.place.said("drop", &["--config", &web.config, "--yes", "Log20261120"]);
    web.place.said("drop", &["--config", &web.config, "--yes", "Log20261121"]);
    let said = web.place.said("drop", &["--config", &web.config, "--yes", "--archives", "Log20261120"]);
    assert!(said.contains("removed 1 archive of Log20261120"), "{said}");
    assert!(newest_commit(&lake).contains("{\"remove\":{\"path\":\"log_day=2026-11-20/log_host=web-1/"));
    assert_count(&place, &lake, "*", 68);
    assert_eq!(asked(&lake, BY_HOST), [json!({"log_host": "db-1", "n": 7}), json!({"log_host": "web-1", "n": 61})]);
    assert_eq!(of_day("20").len(), 1, "an engine may still read it");

    // Without a configuration at all.
    let said = web.place.said("drop", &["--yes", "--archives", "Log20261121"]);
    assert!(said.contains("removed 1 archive of Log20261121"), "{said}");
    assert_count(&place, &lake, "*", 38);
    assert_eq!(asked(&lake, BY_HOST), [json!({"log_host": "db-1", "n": 7}), json!({"log_host": "web-1", "n": 31})]);
    assert_eq!(of_day("21").len(), 1);

    // What is archived from now on is no table, and goes at once.
    web.import("23.log", &lines("23", 0, 5));
    web.archive("Log20261123");
    assert_eq!(of_day("23").len(), 1);
    web.place.said("drop", &["--config", &web.config, "--yes", "Log20261123"]);
    web.place.said("drop", &["--config", &web.config, "--yes", "--archives", "Log20261123"]);
    assert_eq!(of_day("23").len(), 0);
    assert_count(&place, &lake, "*", 38);
}

/// A folder is the same one under another name.
#[test]
fn a_renamed_host_has_each_day_once() {
    for format in ["delta", "none"] {
        let place = Place::new();
        let lake = place.path("lake");
        let (web, other) = (host_at("web-1", format, &lake), host_at("web-1", format, &lake));
        archive_days(&web, &["20", "21"]);
        // Another folder of the old name is another host.
        other.import("20.log", &lines("20", 0, 4));
        other.archive("Log20261120");
        change(&web, "host = \"web-1\"", "host = \"web-2\"");
        web.import("late.log", &lines("20", 30, 1));
        web.archive("Log20261120");
        // The same generation under another name.
        web.archive("Log20261121");
        web.archive("Log20261120");
        assert_eq!(files(&lake, &["log_day=2026-11-21/", ".manifest.json"]).len(), 1);
        assert_count(&place, &lake, "*", 65);
        assert_count(&place, &lake, "log_host:=web-2 _time:2026-11-20", 31);
        assert_count(&place, &lake, "_time:2026-11-20", 35);
        assert_count(&place, &lake, "_time:2026-11-21", 30);
        if format == "delta" {
            let expected = [json!({"log_host": "web-1", "n": 4}), json!({"log_host": "web-2", "n": 61})];
            assert_eq!(asked(&lake, BY_HOST), expected);
        }
        // All of them are of this folder.
        let restored = web.place.said("drop", &["--config", &web.config, "--yes", "Log20261120"])
            + &web.place.said("restore", &["--config", &web.config, "Log20261120"]);
        assert!(restored.contains("31 rows"), "{restored}");
    }
}

#[test]
fn archives_that_the_table_does_not_have_are_missing_and_not_passed_over() {
    let place = Place::new();
    let lake = place.path("lake");
    let (web, db) = (host_at("web-1", "delta", &lake), host_at("db-1", "none", &lake));
    for (host, days) in [(&web, ["20", "21"]), (&db, ["20", "22"])] {
        for day in days {
            host.import(&format!("{day}.log"), &lines(day, 0, 10));
            host.archive(&format!("Log202611{day}"));
        }
    }
    // A later version of a day: the manifest of the earlier one is still there.
    web.import("late.log", &lines("21", 10, 1));
    web.archive("Log20261121");
    // A moment after it was archived, a day may be on its way into the table.
    assert_count(&place, &lake, "*", 21);
    age(&files(&lake, &["Log/log_day"]), "1 hour ago");
    for (question, code, records, names) in [
        ("*", 75, 21, &["Log20261120 of db-1", "Log20261122 of db-1"][..]),
        ("_time:2026-11-20", 75, 10, &["Log20261120 of db-1"]),
        ("_time:2026-11-22", 75, 0, &["Log20261122 of db-1"]),
        ("log_host:=db-1 table:=Log20261120", 75, 0, &["Log20261120 of db-1"]),
        ("_time:2026-11-21", 0, 11, &[]),
        ("log_host:=web-1", 0, 21, &[]),
        ("table:=Log20261121", 0, 11, &[]),
        ("_time:2026-10-01", 0, 0, &[]),
    ] {
        let (found, said, told) = count(&place, &lake, question);
        assert_eq!(found, Some(code), "{question}: {told}");
        assert_eq!(said, records.to_string(), "{question}: {told}");
        let missing = told.lines().find_map(|line| line.split_once("missing from this answer: "));
        assert_eq!(missing.is_some(), code == 75, "{question}: {told}");
        assert!(names.iter().all(|name| told.contains(name)), "{question}: {told}");
        assert_eq!(told.matches(" of db-1").count(), names.len(), "{question}: {told}");
    }
    let sql = place.ask("sql", &["--lake", lake.to_str().expect("a path"), "--json", "SELECT 1"]);
    let told = String::from_utf8_lossy(&sql.stderr).into_owned();
    assert!(told.contains("the archive of Log20261120 of db-1, which its table does not have"), "{told}");

    // The day that is still on its host gets into the table as the message says.
    change(&db, "\"none\"", "\"delta\"");
    db.archive("Log20261120");
    let (code, said, told) = count(&place, &lake, "*");
    assert_eq!((code, said), (Some(75), "31".into()), "{told}");
    assert!(!told.contains("Log20261120 of db-1") || told.contains("opened ("), "{told}");
    db.archive("Log20261122");
    assert_count(&place, &lake, "*", 41);
    // What was dropped a moment ago is not missed, wherever a kill left its manifest.
    db.place.said("drop", &["--config", &db.config, "--yes", "Log20261122"]);
    let mut killed = db.place.command("drop");
    killed
        .args(["--config", &db.config, "--yes", "--archives", "Log20261122"])
        .env("DAYTABLE_FAILPOINT", "archive-left-log");
    assert!(!killed.output().expect("started").status.success());
    assert_eq!(files(&lake, &["log_day=2026-11-22", ".manifest.json"]).len(), 1);
    assert_count(&place, &lake, "*", 31);
    let rows: Vec<Value> = asked(&lake, BY_HOST);
    assert_eq!(rows, [json!({"log_host": "db-1", "n": 10}), json!({"log_host": "web-1", "n": 21})]);
}
