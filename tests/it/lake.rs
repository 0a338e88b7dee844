//! Archives of several hosts at one address as a Delta table: other engines read each record once, whatever late records,
//! drops and kills do to a day.

use crate::place::{DAYTABLE, Place, files_below, installed};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The engines that `read_lake.py` asks.
const ENGINES: [&str; 3] = ["delta-rs", "duckdb", "clickhouse"];

/// A host with a data folder of its own that archives to a shared address.
pub(crate) struct Host {
    pub(crate) place: Place,
    pub(crate) config: String,
}

impl Host {
    fn new(name: &str, archive: &Path) -> Host {
        Host::at(name, "table_format = \"delta\"\n", &format!("file://{}", archive.display()))
    }

    /// A host that archives to an address, with these keys of `[archives]`.
    pub(crate) fn at(name: &str, archives: &str, address: &str) -> Host {
        let place = Place::new();
        let config = place.configure(&format!(
            "[archives]\n{archives}[[table]]\nname = \"Other\"\nkeep = \"4000d\"\nwhen = \"level:=fatal\"\n\
             [[table]]\nname = \"Log\"\nkeep = \"4000d\"\narchive = \"{address}\"\n"
        ));
        let text = fs::read_to_string(&config).expect("read");
        fs::write(&config, format!("host = \"{name}\"\n{text}")).expect("written");
        let config = config.display().to_string();
        Host { place, config }
    }

    /// Imports a file of these lines.
    pub(crate) fn import(&self, file: &str, lines: &[String]) {
        self.place.write(file, lines);
        let path = self.place.log(file).display().to_string();
        self.place.said("import", &["--config", &self.config, "--instance", "app", &path]);
    }

    pub(crate) fn archive(&self, table: &str) {
        self.place.said("archive", &["--config", &self.config, table]);
    }
}

/// What each engine answers to a question about the table, which all must answer equally.
pub(crate) fn asked(archive: &Path, sql: &str) -> Vec<Value> {
    asked_at(&archive.join("Log").display().to_string(), &[], sql)
}

/// The same of a table at an address, with variables that the address needs.
pub(crate) fn asked_at(table: &str, variables: &[(&str, &str)], sql: &str) -> Vec<Value> {
    let mut answers = asked_in(&ENGINES, table, variables, sql);
    let (_, first) = answers.swap_remove(0);
    for (engine, rows) in answers {
        assert_eq!(rows, first, "{sql}: {engine}");
    }
    first
}

/// What some engines answer, with the name of each.
pub(crate) fn asked_in(
    engines: &[&str],
    table: &str,
    variables: &[(&str, &str)],
    sql: &str,
) -> Vec<(String, Vec<Value>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/read_lake.py");
    let mut command = Command::new(installed("lake/bin/python"));
    command.arg(script).args([table, sql]).args(engines).envs(variables.iter().copied());
    let output = command.output().expect("started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{sql}: {said}{}", String::from_utf8_lossy(&output.stderr));
    let answers = said.lines().map(|line| {
        let mut answer: Value = serde_json::from_str(line).expect("JSON");
        let Value::Array(rows) = answer["rows"].take() else { panic!("{sql}: {line}") };
        (answer["engine"].as_str().expect("a name").to_owned(), rows)
    });
    let answers: Vec<(String, Vec<Value>)> = answers.collect();
    assert_eq!(answers.iter().map(|(engine, _)| engine.as_str()).collect::<Vec<_>>(), engines, "{said}");
    answers
}

/// Lines of JSON of a day, with a field that one host has as a number, and the other as a text.
fn lines(day: &str, count: usize, status: impl Fn(usize) -> Value) -> Vec<String> {
    let line = |n: usize| {
        let time = format!("2026-11-{day}T10:{:02}:{:02}.5Z", n / 60 % 60, n % 60);
        json!({"time": time, "level": "info", "message": format!("request {n}"), "status": status(n), "Status": "kept"})
            .to_string()
    };
    (0..count).map(line).collect()
}

#[test]
fn engines_read_the_days_of_all_hosts_as_one_table() {
    let place = Place::new();
    let archive = place.path("lake");
    let (web, db) = (Host::new("web-1", &archive), Host::new("db-1", &archive));
    web.import("a.log", &lines("20", 500, |n| json!(200 + n % 3)));
    web.import("b.log", &lines("21", 300, |n| json!(200 + n % 3)));
    db.import("a.log", &lines("20", 400, |n| json!(if n % 4 == 0 { "slow" } else { "ok" })));
    web.archive("Log20261120");
    web.archive("Log20261121");
    db.archive("Log20261120");
    let by_host = "SELECT log_host, CAST(log_day AS VARCHAR) AS log_day, COUNT(*) AS n FROM lake GROUP BY log_host, log_day \
                   ORDER BY log_host, log_day";
    let row = |host: &str, day: &str, n: usize| json!({"log_host": host, "log_day": day, "n": n});
    let expected = [row("db-1", "2026-11-20", 400), row("web-1", "2026-11-20", 500), row("web-1", "2026-11-21", 300)];
    assert_eq!(asked(&archive, by_host), expected);

    // One name has one type in all files, and names that differ by case only are two columns.
    let by_status = "SELECT status_int64, status_string, \"Status\", COUNT(*) AS n FROM lake \
                     WHERE status_int64 = 200 OR status_string = 'slow' \
                     GROUP BY status_int64, status_string, \"Status\" ORDER BY n";
    let group = |number: Value, text: Value, n: usize| json!({"status_int64": number, "status_string": text, "Status": "kept", "n": n});
    assert_eq!(
        asked(&archive, by_status),
        [group(Value::Null, json!("slow"), 100), group(json!(200), Value::Null, 267)]
    );

    // A late record makes another version of its day: what was there stays, once.
    web.import("late.log", &lines("20", 501, |n| json!(n)).split_off(500));
    web.archive("Log20261120");
    let expected = [row("db-1", "2026-11-20", 400), row("web-1", "2026-11-20", 501), row("web-1", "2026-11-21", 300)];
    assert_eq!(asked(&archive, by_host), expected);
    web.archive("Log20261120");
    assert_eq!(asked(&archive, by_host), expected, "archived once more");

    // What the hosts have themselves agrees, and a day of another host is restored by its name.
    for host in [&web, &db] {
        let verified = host.place.said("verify", &["--config", &host.config, "--archives"]);
        assert!(verified.contains("whole"), "{verified}");
    }
    // Its archive is of a later generation, and does not stand among those of this host, which it would supersede.
    for late in 0..3 {
        db.import(&format!("late{late}.log"), &lines("20", 601 + late, |n| json!(n)).split_off(600 + late));
        db.archive("Log20261120");
    }
    let archives = |host: &Host| {
        let verified = host.place.json("verify", &["--config", &host.config, "--archives"]);
        verified.iter().find_map(|line| line["archives"].as_u64()).expect("a number of archives")
    };
    let before = archives(&web);
    let restore = ["--config", &web.config, "--host", "db-1", "--as", "Other", "Log20261120"];
    let said = web.place.said("restore", &restore);
    assert!(said.contains("403 rows"), "{said}");
    assert_eq!(archives(&web), before);
    web.place.said("drop", &["-y", "--without-archive", "Other20261120"]);
    let nobody = web.place.ask("restore", &["--config", &web.config, "--host", "db-9", "Log20261120"]);
    let said = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert_eq!(nobody.status.code(), Some(66), "{said}");
    assert!(said.contains("no archive of Log20261120 of the host \"db-9\""), "{said}");
}

#[test]
fn a_kill_at_any_line_leaves_each_record_once() {
    let place = Place::new();
    let archive = place.path("lake");
    let (web, db) = (Host::new("web-1", &archive), Host::new("db-1", &archive));
    db.import("a.log", &lines("20", 10, |_| json!("ok")));
    db.archive("Log20261120");
    let points = ["archive-uploaded", "archive-manifest", "archive-before-log", "archive-in-log", "archive-noted"];
    for (number, point) in points.into_iter().enumerate() {
        // Each round brings a late record, so each archives another version of the day.
        let line = lines("20", number + 1, |n| json!(n)).split_off(number);
        web.import(&format!("{number}.log"), &line);
        let mut command = web.place.command("archive");
        let killed = command.args(["--config", &web.config, "Log20261120"]).env("DAYTABLE_FAILPOINT", point);
        assert!(!killed.output().expect("started").status.success(), "{point}");
        web.archive("Log20261120");
        let by_host = "SELECT log_host, COUNT(*) AS n FROM lake GROUP BY log_host ORDER BY log_host";
        let expected = [json!({"log_host": "db-1", "n": 10}), json!({"log_host": "web-1", "n": number + 1})];
        assert_eq!(asked(&archive, by_host), expected, "{point}");
    }
}

/// What is dropped with its archives leaves the table of the archives first, and its file then.
#[test]
fn archives_are_dropped_where_asked_and_leave_the_table() {
    let place = Place::new();
    let archive = place.path("lake");
    let (web, db) = (Host::new("web-1", &archive), Host::new("db-1", &archive));
    web.import("a.log", &lines("20", 500, |n| json!(n)));
    web.import("b.log", &lines("21", 300, |n| json!(n)));
    db.import("a.log", &lines("20", 40, |n| json!(n)));
    for (host, day) in [(&web, "Log20261120"), (&web, "Log20261121"), (&db, "Log20261120")] {
        host.archive(day);
    }
    // A late record: the day has two archives.
    web.import("late.log", &lines("20", 501, |n| json!(n)).split_off(500));
    web.archive("Log20261120");
    let by_day = "SELECT log_host, CAST(log_day AS VARCHAR) AS log_day, COUNT(*) AS n FROM lake GROUP BY log_host, log_day \
                  ORDER BY log_host, log_day";
    let row = |host: &str, day: &str, n: usize| json!({"log_host": host, "log_day": day, "n": n});
    let all = [row("db-1", "2026-11-20", 40), row("web-1", "2026-11-20", 501), row("web-1", "2026-11-21", 300)];
    assert_eq!(asked(&archive, by_day), all);
    let drop = |more: &[&str]| {
        let output = web.place.ask("drop", &[&["--config", &web.config][..], more].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{more:?}: {said}");
        said
    };
    let shown = drop(&["--older-than", "0s", "--archives", "--dry-run"]);
    assert!(shown.contains("Log20261120: 501 rows") && shown.contains("and archived: "), "{shown}");
    assert!(shown.trim_end().ends_with("of 2 days"), "{shown}");
    assert_eq!(asked(&archive, by_day), all, "a dry run changes nothing");

    // Without the option the archive stays, and is still found by the option.
    drop(&["--yes", "Log20261121"]);
    assert_eq!(asked(&archive, by_day), all);
    assert!(drop(&["--older-than", "0s", "--dry-run"]).contains("Log20261120"));
    let shown = drop(&["--older-than", "0s", "--table", "L*", "--archives", "--dry-run"]);
    assert!(shown.contains("Log20261121: 300 rows") && shown.contains("only archived: "), "{shown}");

    // Killed between the table and the file: nothing is asked of a file that is gone, and a repetition ends it.
    let mut killed = web.place.command("drop");
    killed
        .args(["--config", &web.config, "--yes", "--archives", "Log20261121"])
        .env("DAYTABLE_FAILPOINT", "archive-removed");
    assert!(!killed.output().expect("started").status.success());
    assert_eq!(asked(&archive, by_day), all[..2]);
    assert!(drop(&["--yes", "--archives", "Log20261121"]).contains("removed 1 archive of Log20261121"));
    let said = drop(&["--yes", "--archives", "Log20261120"]);
    assert!(said.contains("dropped Log20261120") && said.contains("removed 2 archives of Log20261120"), "{said}");
    assert_eq!(asked(&archive, by_day), all[..1]);
    assert!(said.contains("the files go when a day is archived"), "{said}");
    let has_manifest = |path: &std::path::PathBuf| {
        let path = path.display().to_string();
        path.contains("log_host=web-1") && path.ends_with(".json")
    };
    assert!(!files_below(&archive).iter().any(has_manifest));
    assert!(drop(&["--older-than", "0s", "--archives", "--yes"]).contains("nothing was dropped"));
    let verified = web.place.said("verify", &["--config", &web.config, "--archives"]);
    assert!(verified.contains("whole"), "{verified}");
    assert_eq!(
        web.place.ask("drop", &["--config", &web.config, "--yes", "--archives", "Log19990101"]).status.code(),
        Some(66)
    );

    // A running daemon does the same.
    db.import("b.log", &lines("21", 5, |n| json!(n)));
    db.archive("Log20261121");
    let mut run = Command::new(DAYTABLE);
    run.args(["run", "--config", &db.config]);
    let daemon = db.place.spawn_command(run);
    daemon.wait_ready();
    let said = db.place.said("drop", &["--yes", "--archives", "Log20261120"]);
    assert!(said.contains("dropped Log20261120") && said.contains("removed 1 archive of Log20261120"), "{said}");
    assert_eq!(asked(&archive, by_day), [row("db-1", "2026-11-21", 5)]);
    let unknown = db.place.ask("drop", &["--yes", "--archives", "Log19990101"]);
    assert_eq!(unknown.status.code(), Some(66), "{}", String::from_utf8_lossy(&unknown.stderr));
    daemon.stop();
}
