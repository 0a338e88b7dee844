//! The commands on a data folder, beside a running daemon and without one.

use crate::client::post_file;
use crate::place::{DAYTABLE, Lines, PATIENCE, Place, message_of, numbered, wait_for};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Records of two instances and three levels, a second apart, the last one now: `web 0`, `db 1`, `web 2`, ….
fn write_day(place: &Place, records: u64) {
    let now = daytable_model::time::now();
    let line = |n: u64| {
        let time = now.minus(std::time::Duration::from_secs(records - n));
        let (host, level) = (["web", "db"][n as usize % 2], ["info", "warn", "error"][n as usize % 3]);
        format!(
            "{{\"time\":\"{time}\",\"level\":\"{level}\",\"host\":\"{host}\",\"message\":\"{host} {n}\",\"n\":{n}}}"
        )
    };
    place.write("app.log", &(0..records).map(line).collect::<Vec<_>>());
}

const BY_HOST: &str = "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{field:host}\"\n";

/// Each command gives the same answer beside the daemon and after its stop.
#[test]
fn reading_is_the_same_beside_a_daemon_and_without_one() {
    let place = Place::new();
    write_day(&place, 60);
    let daemon = place.start_with(BY_HOST);
    wait_for("all is read", PATIENCE, || (place.records().len() == 60).then_some(()));
    let answers = || {
        let said = |command: &str, args: &[&str]| place.said(command, args);
        // Only tables with rows: the daemon creates tomorrow's table meanwhile.
        let rows = place.json("tables", &[]).into_iter().map(|table| table["rows"].clone());
        let tables: Vec<Value> = rows.filter(|rows| *rows != 0).collect();
        (
            said("query", &["--json"]),
            said("count", &["--by", "level,instance"]),
            tables,
            place.ledger("app.log")["records"].clone(),
        )
    };
    let beside = answers();
    daemon.stop();
    assert_eq!(answers(), beside);
    assert_eq!(beside.3, 60);
    assert_eq!(beside.2.iter().filter_map(Value::as_u64).sum::<u64>(), 60);
}

/// The newest record comes first, at most `-n` records come, and only those that pass the filters.
#[test]
fn query_filters() {
    let place = Place::new();
    write_day(&place, 60);
    let daemon = place.start_with(BY_HOST);
    wait_for("all is read", PATIENCE, || (place.records().len() == 60).then_some(()));
    daemon.stop();
    let numbers = |args: &[&str]| -> Vec<u64> {
        place.json("query", args).iter().map(|record| record["n"].as_u64().expect("a number")).collect()
    };
    let all: Vec<u64> = (0..60).rev().collect();
    let only = |keep: &dyn Fn(u64) -> bool| -> Vec<u64> { all.iter().copied().filter(|n| keep(*n)).collect() };
    assert_eq!(numbers(&["-n", "1000"]), all);
    assert_eq!(numbers(&["-n", "7"]), all[..7]);
    assert_eq!(numbers(&["--instance", "db"]), only(&|n| n % 2 == 1));
    assert!(numbers(&["--instance", "d"]).is_empty());
    assert_eq!(numbers(&["--level", "error"]), only(&|n| n % 3 == 2));
    assert_eq!(numbers(&["--level", "warn", "--instance", "web", "-n", "3"]), only(&|n| n % 3 > 0 && n % 2 == 0)[..3]);
    assert_eq!(numbers(&["--contains", "web 1"]), only(&|n| n % 2 == 0 && (n == 1 || n / 10 == 1)));
    let time = |n: u64| {
        place
            .json("query", &["--contains", &format!(" {n}"), "-n", "1000"])
            .iter()
            .find(|record| record["n"] == n)
            .expect("there")["time"]
            .as_str()
            .expect("a time")
            .to_owned()
    };
    assert_eq!(numbers(&["--since", &time(50)]), only(&|n| n >= 50));
    assert_eq!(numbers(&["--until", &time(50), "--since", &time(40)]), only(&|n| (40..50).contains(&n)));
    let counts = place.json("count", &["--by", "level"]);
    assert_eq!(
        counts.iter().filter_map(|count| count["records"].as_u64()).collect::<Vec<_>>(),
        [20, 20, 20],
        "{counts:?}"
    );
    assert_eq!(place.json("count", &["--instance", "web"])[0]["records"], 30);
    let every = place.json("count", &["--every", "10s"]);
    assert_eq!(every.iter().filter_map(|count| count["records"].as_u64()).sum::<u64>(), 60, "{every:?}");
    assert!((6..=7).contains(&every.len()), "{every:?}");
}

/// The three keys of a record find the record. Unknown keys end with `EX_NOINPUT`.
#[test]
fn one_record_by_its_three_keys() {
    let place = Place::new();
    write_day(&place, 20);
    let daemon = place.start_with(BY_HOST);
    wait_for("all is read", PATIENCE, || (place.records().len() == 20).then_some(()));
    daemon.stop();
    for record in place.records() {
        let key = ["table", "partition_key", "row_key"].map(|key| record[key].as_str().expect("a key").to_owned());
        assert_eq!(place.json("query", &["--key", &key.join("/")]), [record]);
        let other = [&key[0], "nobody", &key[2]].join("/");
        let output = place.ask("query", &["--key", &other]);
        assert_eq!(output.status.code(), Some(66), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Imported records are there once, even if a file is imported again, compressed or not, with or without the daemon.
#[test]
fn import_again_is_a_no_op() {
    for with_daemon in [false, true] {
        let place = Place::new();
        let lines = numbered("line", 5000);
        let plain = place.path("old.txt");
        fs::write(&plain, lines.concat_lines()).expect("written");
        let (gz, zst) = (place.path("old.txt.gz"), place.path("old.txt.zst"));
        let mut encoder =
            flate2::write::GzEncoder::new(File::create(&gz).expect("a file"), flate2::Compression::fast());
        encoder.write_all(lines.concat_lines().as_bytes()).expect("compressed");
        encoder.finish().expect("finished");
        fs::write(&zst, zstd::encode_all(lines.concat_lines().as_bytes(), 1).expect("compressed")).expect("written");
        let daemon = with_daemon.then(|| place.start());
        let import = |path: &std::path::Path| place.said("import", &[path.to_str().expect("a path")]);
        let first = import(&plain);
        assert!(first.contains("5000 new records from 1 file"), "{first}");
        place.wait_for_messages(&lines);
        for path in [&plain, &gz, &zst] {
            let again = import(path);
            assert!(again.contains("0 new records from 1 file"), "{again}");
        }
        place.wait_for_messages(&lines);
        let more = numbered("more", 100);
        let mut encoder =
            flate2::write::GzEncoder::new(File::create(&gz).expect("a file"), flate2::Compression::fast());
        encoder.write_all(more.concat_lines().as_bytes()).expect("compressed");
        encoder.finish().expect("finished");
        assert!(import(&gz).contains("100 new records"));
        place.wait_for_messages(&[lines, more].concat());
        if let Some(daemon) = daemon {
            daemon.stop();
        }
        place.assert_no_key_twice();
    }
}

/// The importing daemon reports its progress, which never decreases and ends at 100 %.
#[test]
fn import_tells_how_far_it_is() {
    let place = Place::new();
    let lines = numbered("a line of a file that takes more than one chunk to be read", 100_000);
    let file = place.path("old.txt");
    fs::write(&file, lines.concat_lines()).expect("written");
    let daemon = place.start();
    // The daemon reads the open file: under this path there is none.
    let body = serde_json::json!({ "paths": ["/nowhere/old.txt"] }).to_string();
    let file = fs::File::open(file).expect("open");
    let answer = post_file(daemon.socket(), "/-/import", &body, &file).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told: Vec<Value> = answer.body.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let read: Vec<u64> = told.iter().map(|told| told["bytes"].as_u64().expect("bytes")).collect();
    assert!(told.len() > 2 && read.is_sorted(), "{read:?}");
    let (last, size) = (&told[told.len() - 1], lines.concat_lines().len());
    assert_eq!((&last["bytes"], &last["bytes_total"], &last["records"]), (&size.into(), &size.into(), &100_000.into()));
    assert_eq!(place.json("count", &[])[0]["records"], 100_000, "the answer ends when all of it is committed");
    daemon.stop();
}

/// An import with a missing file names the file and imports no record.
#[test]
fn import_of_nothing() {
    let place = Place::new();
    let output = place.ask("import", &["/no/such/file"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(66), "{error}");
    assert!(error.contains("/no/such/file"), "{error}");
}

/// More files than one request carries are imported, and a file that cannot be read holds up no other.
#[test]
fn import_of_many_files() {
    for with_daemon in [false, true] {
        let place = Place::new();
        let daemon = with_daemon.then(|| place.start_with(""));
        let mut paths: Vec<String> =
            numbered("file", 100).iter().map(|name| place.path(name).display().to_string()).collect();
        paths.iter().for_each(|path| fs::write(path, format!("the line of {path}\n")).expect("written"));
        paths.insert(3, "/no/such/file".into());
        let output = place.ask("import", &paths.iter().map(String::as_str).collect::<Vec<_>>());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(66) && error.contains("/no/such/file"), "{error}");
        assert_eq!(place.records().len(), 100);
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
}

/// A dropped table is gone at once, with or without a daemon. A missing table ends with `EX_NOINPUT`.
#[test]
fn drop_takes_a_table_away() {
    for with_daemon in [false, true] {
        let place = Place::new();
        write_day(&place, 10);
        let daemon = place.start_with(BY_HOST);
        wait_for("all is read", PATIENCE, || (place.records().len() == 10).then_some(()));
        let table = place.records()[0]["table"].as_str().expect("a table").to_owned();
        let in_table = place.records().iter().filter(|record| record["table"] == table.as_str()).count();
        let daemon = if with_daemon {
            Some(daemon)
        } else {
            daemon.stop();
            None
        };
        assert_eq!(place.said("drop", &["--yes", &table]), format!("dropped {table}\n"));
        assert_eq!(place.records().len(), 10 - in_table);
        let tables = place.json("tables", &[]);
        assert!(tables.iter().all(|shown| shown["table"] != table.as_str() || shown["state"] != "open"), "{tables:?}");
        let output = place.ask("drop", &["--yes", "Log19990101"]);
        assert_eq!(output.status.code(), Some(66), "{}", String::from_utf8_lossy(&output.stderr));
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
}

/// A drop shows rows and times. On a terminal it asks; elsewhere it needs `--yes`.
#[test]
fn a_drop_asks_first() {
    let place = Place::new();
    write_day(&place, 10);
    place.said("import", &[&place.log("app.log").display().to_string()]);
    let records = place.records();
    let table = records[0]["table"].as_str().expect("a table").to_owned();
    let listed = place.json("tables", &[]).pop().expect("a table");
    assert!(listed["expires"].is_string(), "without a configuration its table keeps 30 days: {listed}");
    let shown = place.said("drop", &["--dry-run", &table]);
    let last = records[0]["time"].as_str().expect("a time");
    assert!(shown.starts_with(&format!("would drop {table}: ")) && shown.trim_end().ends_with(last), "{shown}");
    let old = place.said("drop", &["--older-than", "1h", "--dry-run"]);
    assert!(!old.contains(&table), "the day goes on: {old}");
    let refused = place.ask("drop", &[&table]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(64), "{error}");
    assert!(error.contains(&format!("`daytable drop --yes {table}`")), "{error}");
    let on_terminal = |answer| place.on_terminal(&format!("drop --data {} {table}", place.data().display()), answer);
    let (code, shown) = on_terminal("n\n");
    assert!(code == Some(64) && shown.contains("Drop for good? [y/N]") && shown.contains(last), "{code:?} {shown}");
    assert_eq!(place.records().len(), 10);
    let (code, shown) = on_terminal("y\n");
    assert!(code == Some(0) && shown.contains(&format!("dropped {table}")), "{code:?} {shown}");
    assert!(place.records().iter().all(|record| record["table"] != table.as_str()));
}

/// Days that are over go by their age, by the bytes to free, and by their tables.
#[test]
fn a_drop_by_a_rule_takes_the_oldest_days_that_are_over() {
    let place = Place::new();
    let lines: Vec<String> = (1..=5).map(|day| format!("2026-11-0{day}T08:00:00Z INFO of day {day}")).collect();
    fs::write(place.path("old.log"), lines.concat_lines()).expect("written");
    place.said("import", &["--keep-expired", &place.path("old.log").display().to_string()]);
    let planned = |options: &[&str]| {
        let shown = place.said("drop", &[options, &["--dry-run"]].concat());
        shown.lines().filter_map(|line| Some(line.strip_prefix("would drop ")?.split_once(':')?.0.to_owned())).collect()
    };
    let days = |days: std::ops::RangeInclusive<u32>| days.map(|day| format!("Log2026110{day}")).collect::<Vec<_>>();
    let all: Vec<String> = planned(&["--older-than", "0s"]);
    assert_eq!(all, days(1..=5));
    assert_eq!(planned(&["--bytes", "1B"]), days(1..=1));
    assert_eq!(planned(&["--bytes", "900GiB"]), days(1..=5));
    assert_eq!(planned(&["--bytes", "1B", "--table", "L*g"]), days(1..=1));
    assert!(planned(&["--older-than", "0s", "--table", "Acme*"]).is_empty());
    assert!(place.said("drop", &["--bytes", "1B", "--yes"]).contains("dropped Log20261101"));
    let told = place.said("query", &["--oldest", "2", "--since", "2026-11-03", "--format", "text"]);
    let messages: Vec<&str> = told.lines().filter_map(|line| line.split(" of ").nth(1)).collect();
    assert_eq!(messages, ["day 3", "day 4"], "{told}");
    let refused = place.ask("query", &["--oldest", "2", "* | stats count() n"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(64) && error.contains("first 2 by (_time)"), "{error}");
}

/// A daemon that is killed amid an import has each record once after the same import again.
#[cfg(feature = "failpoints")]
#[test]
fn an_import_into_a_killed_daemon_is_called_again() {
    for point in ["commit-between:2", "commit-after:2"] {
        let place = Place::new();
        let lines = numbered("a line of a file that takes several commits to be imported", 60_000);
        let file = place.path("old.txt");
        fs::write(&file, lines.concat_lines()).expect("written");
        let file = file.display().to_string();
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(place.configure("")).env("DAYTABLE_FAILPOINT", point);
        let mut daemon = place.spawn_command(command);
        daemon.wait_ready();
        assert!(!place.ask("import", &[&file]).status.success(), "{point} was not reached");
        assert!(!daemon.ended().success());
        let daemon = place.start_with("");
        place.said("import", &[&file]);
        assert_eq!(place.json("count", &[])[0]["records"], 60_000, "{point}");
        place.assert_no_key_twice();
        daemon.stop();
    }
}

/// `tail` prints records committed after its start, and ends after `--limit` records.
#[test]
fn tail_follows() {
    let place = Place::new();
    let daemon = place.start();
    place.write("app.log", &["before".into()]);
    place.wait_for_messages(&["before".into()]);
    let mut child =
        place.command("tail").args(["--json", "-n", "0", "--limit", "20"]).stdout(Stdio::piped()).spawn().expect("run");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    // `tail` ignores lines from before its start, so each line is written until `tail` shows a copy.
    let written = numbered("line", 20);
    let (sender, seen) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| {
            let record: Value = serde_json::from_str(&line).expect("a record");
            // The test may have ended.
            let _ = sender.send(message_of(&record));
        });
    });
    let mut probes = 0;
    let first = wait_for("tail looks", PATIENCE, || {
        place.write("probe.log", &[format!("probe {probes}")]);
        probes += 1;
        seen.recv_timeout(std::time::Duration::from_millis(500)).ok()
    });
    assert!(first.starts_with("probe"), "{first}");
    place.write("app.log", &written);
    let mut messages: Vec<String> = vec![first];
    while messages.len() < 20 {
        messages.push(seen.recv_timeout(PATIENCE).expect("a record that was committed"));
    }
    assert!(child.wait().expect("ended").success());
    reader.join().expect("read");
    let lines: Vec<&String> = messages.iter().filter(|message| message.starts_with("line")).collect();
    assert!(!lines.is_empty() && !messages.contains(&"before".to_owned()), "{messages:?}");
    daemon.stop();
}

/// A reader may close the pipe early: no message, no failure.
#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("line", 20_000);
    place.write("app.log", &lines);
    wait_for("all is read", PATIENCE, || {
        (daemon.metric("daytable_records_committed_total") == Some(20_000.0)).then_some(())
    });
    daemon.stop();
    for args in [&["-n", "20000"][..], &["-n", "20000", "--json"]] {
        let mut child =
            place.command("query").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("run");
        let mut some = [0; 100];
        child.stdout.take().expect("piped").read_exact(&mut some).expect("some of it");
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

/// `parse` prints the parse of each line and touches no data folder.
#[test]
fn parse_shows_what_a_line_gives() {
    let place = Place::new();
    let file = place.path("lines");
    fs::write(
        &file,
        "2026-11-21T08:00:00Z ERROR disk full\n{\"level\":\"warn\",\"message\":\"hot\",\"c\":81}\nplain\n",
    )
    .expect("written");
    let output = Command::new(DAYTABLE).arg("parse").arg(&file).output().expect("run");
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).expect("text");
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(lines[0]["time"], "2026-11-21T08:00:00Z");
    assert_eq!((&lines[0]["level"], &lines[0]["message"]), (&"error".into(), &"disk full".into()));
    assert_eq!((&lines[1]["level"], &lines[1]["message"], &lines[1]["c"]), (&"warn".into(), &"hot".into(), &81.into()));
    assert_eq!(lines[2], serde_json::json!({"message": "plain"}));
}

/// Commands report a folder without data. Only commands that write create a data folder.
#[test]
fn a_folder_that_is_none() {
    let place = Place::new();
    for command in ["query", "count", "tables", "sources", "tail"] {
        let output = place.ask(command, &[]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(66), "{command}: {error}");
        assert!(error.contains("not a data folder"), "{command}: {error}");
    }
    assert!(!place.data().exists());
}

/// An import says how many records are dated before `keep`: they stand in today's table.
#[test]
fn an_import_says_that_records_are_dated_before_keep() {
    let place = Place::new();
    let file = place.path("old.txt");
    fs::write(&file, "2001-01-01T00:00:00Z INFO first\n2001-01-02T00:00:00Z INFO second\n").expect("written");
    let said = place.said("import", &[file.to_str().expect("a path")]);
    assert!(said.contains("2 new records") && said.contains("2 dated before keep went to today's table"), "{said}");
    let again = place.said("import", &[file.to_str().expect("a path")]);
    assert!(!again.contains("dated before keep"), "{again}");
    // The lists say so as well.
    let sources = place.said("sources", &[]);
    assert!(sources.contains("late_records=2"), "{sources}");
    let tables = place.said("tables", &[]);
    assert!(tables.contains("2 (2 of earlier days)"), "{tables}");
    assert!(place.said("tables", &["--json"]).contains(r#""earlier":2"#));
}

/// An import that is told to keeps expired records in the days of their time, and these days for `keep` from then on.
#[test]
fn an_import_keeps_the_days_of_expired_records() {
    let place = Place::new();
    let file = place.path("old.txt");
    fs::write(&file, "2001-01-01T00:00:00Z INFO first\n2001-01-02T00:00:00Z INFO second\n").expect("written");
    let said = place.said("import", &["--keep-expired", file.to_str().expect("a path")]);
    assert!(said.contains("2 new records") && !said.contains("today's table"), "{said}");
    let tables = place.said("tables", &["--json"]);
    let found: Vec<serde_json::Value> = tables.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let days = ["Log20010101", "Log20010102"];
    for day in days {
        let table = found.iter().find(|table| table["table"] == day).expect("a day");
        assert_eq!((&table["rows"], &table["earlier"]), (&1.into(), &serde_json::Value::Null), "{tables}");
        let expires = table["expires"].as_str().expect("a time");
        assert!(expires > daytable_model::time::now().to_string().as_str(), "{expires}");
    }
    let sources = place.said("sources", &[]);
    assert!(!sources.contains("late_records"), "{sources}");
    // A daemon whose clock a new record confirms runs the lifecycle, and drops none of them.
    let new = place.path("new.txt");
    fs::write(&new, format!("{} INFO new\n", daytable_model::time::now())).expect("written");
    place.said("import", &[new.to_str().expect("a path")]);
    let plan = place.said("plan", &[]);
    assert!(!days.iter().any(|day| plan.contains(&format!("drop {day}"))), "{plan}");
    let raw = place.said("query", &["--raw", "--since", "2001-01-01"]);
    assert!(raw.contains("INFO first\n") && raw.contains("INFO second\n"), "{raw}");
}

/// An import names instances by the `_HOSTNAME` of what `journalctl --output=json` prints.
#[test]
fn the_host_of_an_entry_is_the_instance_of_an_imported_record() {
    let place = Place::new();
    let file = place.path("journal.json");
    fs::write(&file, "{\"_HOSTNAME\":\"web-17\",\"MESSAGE\":\"up\",\"_PID\":\"7\"}\n").expect("written");
    place.said("import", &["--instance", "{field:_HOSTNAME}", file.to_str().expect("a path")]);
    assert_eq!(place.records()[0]["partition_key"], "web-17");
}

/// `parse` recognises what `journalctl --output=export` prints, and knows host, level and time of an entry.
#[test]
fn an_export_of_the_journal_is_parsed() {
    let place = Place::new();
    let file = place.path("journal.export");
    let entries = b"__CURSOR=s=1;i=1\n__REALTIME_TIMESTAMP=1763596845607815\nPRIORITY=3\n_HOSTNAME=web-17\n\
        SYSLOG_IDENTIFIER=app\nMESSAGE\n\x09\0\0\0\0\0\0\0two\nlines\n\n\
        __CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=1763596846000000\n_HOSTNAME=web-18\nMESSAGE=up\n\n";
    fs::write(&file, entries).expect("written");
    let output = Command::new(DAYTABLE).arg("parse").arg(&file).output().expect("daytable can be run");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let records: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let parts = |record: &Value| ["time", "message", "host"].map(|name| record[name].clone());
    assert_eq!(parts(&records[0]), ["2025-11-20T00:00:45.607815Z", "two\nlines", "web-17"]);
    assert_eq!((&records[0]["level"], &records[0]["component"]), (&"error".into(), &"app".into()));
    assert_eq!(parts(&records[1]), ["2025-11-20T00:00:46Z", "up", "web-18"]);
    // A file that ends within an entry is an error, after the entries before it.
    fs::write(&file, &entries[..entries.len() - 3]).expect("written");
    let output = Command::new(DAYTABLE).arg("parse").arg(&file).output().expect("daytable can be run");
    assert!(!output.status.success() && output.stdout.starts_with(b"{"), "{output:?}");
}

/// Each file that cannot be read is named, and what the others gave is summed up.
#[test]
fn import_of_good_and_bad_files() {
    for with_daemon in [false, true] {
        let place = Place::new();
        let daemon = with_daemon.then(|| place.start_with(""));
        fs::write(place.path("wide.log"), b"\xff\xfeo\0n\0e\0\n\0").expect("written");
        fs::write(place.path("a.log.xz"), b"\xfd7zXZ\0\0\x04\xe6\n").expect("written");
        for name in ["first", "second"] {
            fs::write(place.path(name), format!("the line of {name}\n")).expect("written");
        }
        let files = ["wide.log", "first", "missing", "a.log.xz", "second"];
        let output = place.command("import").current_dir(place.path("")).args(files).output().expect("run");
        let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // A file that cannot be opened is the first to fail.
        assert_eq!(output.status.code(), Some(66), "{error}");
        assert!(said.starts_with("2 new records from 2 files"), "{said}{error}");
        for bad in ["missing: No such file", "wide.log: it is UTF-16", "a.log.xz: it is compressed by xz"] {
            assert_eq!(error.matches(bad).count(), 1, "{error}");
        }
        assert!(error.ends_with("daytable: 3 of 5 files could not be read to the end\n"), "{error}");
        assert_eq!(place.records().len(), 2);
        if let Some(daemon) = daemon {
            daemon.stop();
        }
    }
}
