//! `daytable verify` accepts a whole folder after any rotation and kill, also beside a working daemon. It names each
//! kind of damage.

use crate::client;
use crate::place::{Daemon, PATIENCE, Place, append, wait_for};
use daytable_model::time::{Ticks, now};
use rusqlite::Connection;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The configuration. Hours are sealed and archived half a day after their end: [`long_ago`] at once, the present hour
/// in no test.
fn config(place: &Place) -> String {
    format!(
        "[lifecycle]\nschedule = \"* * * * * *\"\nseal_after = \"12h\"\nmin_tables = 0\n\
         [[table]]\nname = \"Log\"\nkeep = \"30d\"\nperiod = \"hour\"\narchive = \"file://{}\"\n\
         [[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n",
        place.path("archive").display()
    )
}

/// Ten minutes past an hour of more than a day ago: the minutes after it belong to the same table.
fn long_ago() -> Ticks {
    let hours = now().unix_seconds() / 3600 - 30;
    Ticks::from_unix(hours * 3600 + 600, 0).expect("a time")
}

/// The expected last line for a folder made by [`filled`]. The next hour's table exists ahead. At the turn of an hour
/// there is one more.
fn filled_is(place: &Place) -> String {
    let tables = place.json("tables", &[]).len();
    assert!(tables >= 3, "{tables}");
    format!("600 records in {tables} tables, 1 source, 1 archive")
}

/// The findings, as kind and text, and the verdict.
fn verified(place: &Place, args: &[&str]) -> (Vec<(String, String)>, Value) {
    let config = place.path("daytable.toml").display().to_string();
    verified_by(place, &[args, &["--config", &config]].concat())
}

/// The same, with only the arguments naming a configuration.
fn verified_by(place: &Place, args: &[&str]) -> (Vec<(String, String)>, Value) {
    let output = place.ask("verify", &[args, &["--json"]].concat());
    let said = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let verdict = lines.pop().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(if verdict["whole"] == true { 0 } else { 65 }), "{said}");
    let doubts = lines.iter().filter(|line| line["doubt"] == true).count();
    assert_eq!((&verdict["findings"], &verdict["doubts"]), (&(lines.len() - doubts).into(), &doubts.into()), "{said}");
    let text = |line: &Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let findings = lines.iter().map(|line| {
        assert!(!text(line, "advice").is_empty(), "{line}");
        let what = format!("{}: {}: {}", text(line, "where"), text(line, "file"), text(line, "found"));
        (text(line, "finding"), what)
    });
    (findings.collect(), verdict)
}

pub(crate) fn assert_whole(place: &Place, records: u64) {
    let (findings, verdict) = verified(place, &["--archives"]);
    assert_eq!((findings, &verdict["whole"]), (Vec::new(), &Value::Bool(true)), "{verdict}");
    assert_eq!(verdict["records"], records, "{verdict}");
}

/// A copy of the data folder as a kill left it. The daemon is restarted at once: lines rotated and compressed without a
/// daemon are lost to every collector.
pub(crate) struct AsKilled(tempfile::TempDir);

impl AsKilled {
    /// Copies the folder.
    pub(crate) fn of(place: &Place) -> AsKilled {
        let copy = tempfile::tempdir().expect("a folder");
        let data = place.data();
        for file in if data.exists() { crate::place::files_below(&data) } else { Vec::new() } {
            let to = copy.path().join(file.strip_prefix(&data).expect("below it"));
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            if fs::metadata(&file).is_ok_and(|file| file.is_file()) {
                fs::copy(&file, to).expect("copied");
            }
        }
        AsKilled(copy)
    }

    /// Asserts that the only finding is rotation. Skips a copy from before the data folder was complete.
    pub(crate) fn assert_whole(&self, seed: u64) {
        let ask = |command: &str| {
            let daytable = Command::new(crate::place::DAYTABLE)
                .arg(command)
                .arg("--json")
                .arg("--data")
                .arg(self.0.path())
                .output();
            daytable.expect("daytable can be run")
        };
        if !ask("tables").status.success() {
            return;
        }
        let said = String::from_utf8(ask("verify").stdout).expect("text");
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object a line"));
        let wrong: Vec<Value> = lines.filter(|line| line["whole"].is_null() && line["finding"] != "source").collect();
        assert!(wrong.is_empty(), "TESTS_SEED={seed}: {wrong:?}");
    }
}

/// Asserts a finding of this kind with this text, and no finding of another kind except `others`.
fn assert_found(place: &Place, args: &[&str], kind: &str, what: &str, others: &[&str]) {
    let (findings, verdict) = verified(place, args);
    assert_eq!(verdict["whole"], false, "nothing was found where {kind} was to be: {verdict}");
    assert!(findings.iter().any(|(found, text)| found == kind && text.contains(what)), "{kind} {what}: {findings:?}");
    let is_other = |(found, _): &&(String, String)| found != kind && !others.contains(&found.as_str());
    let other: Vec<_> = findings.iter().filter(is_other).collect();
    assert!(other.is_empty(), "{kind}: besides {other:?}");
}

/// A folder without a daemon: an open day, an empty future table, a sealed and archived day, and a source.
fn filled() -> Place {
    let place = Place::new();
    let (old, today) = (long_ago(), now());
    let lines = (0..300).map(|n| format!("{} INFO old {n} {}", old.plus(Duration::from_millis(n)), "x".repeat(60)));
    let young = (0..300).map(|n| format!("{today} INFO young {n} {}", "y".repeat(60)));
    place.write("app.log", &lines.chain(young).collect::<Vec<_>>());
    let daemon = place.start_with(&config(&place));
    wait_for("the old hour is archived", PATIENCE, || {
        place.json("tables", &[]).iter().any(|table| table["state"] == "archived").then_some(())
    });
    wait_records(&place, 600);
    daemon.stop();
    assert_whole(&place, 600);
    place
}

fn wait_records(place: &Place, records: usize) {
    wait_for("the records are there", PATIENCE, || (place.try_records().len() == records).then_some(()));
}

fn catalog(place: &Place) -> Connection {
    Connection::open(place.data().join("catalog.db")).expect("opened")
}

/// The live file of this role that has rows.
fn live(place: &Place, role: &str) -> PathBuf {
    let select = "SELECT name FROM file WHERE role = ?1 AND entities > 0";
    let name: String = catalog(place).query_row(select, [role], |row| row.get(0)).expect("one");
    place.data().join("tables").join(name)
}

fn sql(path: &PathBuf, statement: &str) {
    let connection = Connection::open(path).expect("opened");
    let changed = connection.execute(statement, []).expect(statement);
    assert!(changed > 0, "{statement} changed nothing");
}

fn flip(path: &PathBuf, at: impl Fn(&[u8]) -> usize) {
    let mut bytes = fs::read(path).expect("read");
    let at = at(&bytes);
    bytes[at] ^= 0x20;
    fs::write(path, bytes).expect("written");
}

#[test]
fn what_is_whole_is_said_to_be_in_one_line() {
    let place = filled();
    let said = place.said("verify", &["--archives"]);
    assert_eq!(said, format!("whole: {}\n", filled_is(&place)));
    let nowhere = Place::new();
    assert_eq!(nowhere.ask("verify", &[]).status.code(), Some(66));
}

#[test]
fn a_page_that_is_not_what_was_written_is_named() {
    let place = filled();
    let file = live(&place, "open");
    sql(&file, "UPDATE body SET bytes = zeroblob(length(bytes)) WHERE id = (SELECT min(id) FROM body)");
    assert_found(&place, &[], "page", "page ", &[]);
    let said = String::from_utf8(place.ask("verify", &[]).stdout).expect("text");
    let last = said.lines().last().expect("a line");
    assert_eq!(last, format!("not whole: 1 finding; {}", filled_is(&place)));
    sql(&file, "DELETE FROM body WHERE id = (SELECT min(id) FROM body)");
    assert_found(&place, &[], "page", "its body is missing", &[]);
}

#[test]
fn a_page_under_another_name_than_it_was_written_under_is_named_and_refused() {
    let place = filled();
    let file = live(&place, "open");
    for damage in ["UPDATE partition SET name = 'another'", "UPDATE page SET seq = seq - 1"] {
        let whole = fs::read(&file).expect("read");
        sql(&file, damage);
        assert_found(&place, &[], "page", "partition and commit", &[]);
        let query = place.ask("query", &["-n", "1000"]);
        let (said, error) = (String::from_utf8_lossy(&query.stdout), String::from_utf8_lossy(&query.stderr));
        assert!(!query.status.success() && error.contains("is damaged"), "{damage}: {error}");
        assert!(!said.contains("another"), "{damage}: {said}");
        fs::write(&file, whole).expect("written");
        assert_whole(&place, 600);
    }
}

#[test]
fn a_byte_that_is_another_is_found_wherever_it_lies_in_an_open_day() {
    let place = filled();
    let file = live(&place, "open");
    let whole = fs::read(&file).expect("read");
    let body: i64 = {
        let connection = Connection::open(&file).expect("opened");
        connection.query_row("SELECT max(length(bytes)) FROM body", [], |row| row.get(0)).expect("a body")
    };
    assert!(body > 100);
    // SQLite does not use every byte, and unused bytes may have any value.
    let mut found = 0;
    for at in (0..whole.len()).step_by(whole.len() / 50) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&file, bytes).expect("written");
        let (findings, verdict) = verified(&place, &[]);
        found += usize::from(verdict["whole"] == false);
        assert!(findings.iter().all(|(kind, _)| kind == "page" || kind == "table"), "{findings:?}");
    }
    assert!(found > 0);
    fs::write(&file, b"no database at all").expect("written");
    assert_found(&place, &[], "table", "Log", &[]);
    fs::remove_file(&file).expect("removed");
    assert_found(&place, &[], "table", "Log", &[]);
}

#[test]
fn a_row_that_was_deleted_is_missed() {
    let place = filled();
    sql(&live(&place, "open"), "DELETE FROM page WHERE id = (SELECT min(id) FROM page)");
    assert_found(&place, &[], "table", "rows, its total says", &[]);
    let place = filled();
    sql(&live(&place, "open"), "UPDATE total SET entities = entities - 7");
    assert_found(&place, &[], "table", "the catalog says", &[]);
}

#[test]
fn a_sealed_file_and_its_manifest_are_held_against_their_checksums() {
    let place = filled();
    let file = live(&place, "sealed");
    let whole = fs::read(&file).expect("read");
    for part in 1..20 {
        flip(&file, |bytes| bytes.len() * part / 20);
        let (findings, verdict) = verified(&place, &[]);
        assert_eq!(verdict["whole"], false, "byte {} of {}", whole.len() * part / 20, whole.len());
        assert!(findings.iter().all(|(kind, _)| kind == "sealed"), "{findings:?}");
        fs::write(&file, &whole).expect("written");
    }
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    assert_found(&place, &[], "sealed", "Log", &[]);
    fs::write(&file, &whole).expect("written");
    let manifest = file.with_extension("manifest.json");
    let text = fs::read_to_string(&manifest).expect("text");
    fs::write(&manifest, text.replace("\"rows\": 300", "\"rows\": 301")).expect("written");
    assert_found(&place, &[], "table", "its manifest says 301 rows", &[]);
    fs::remove_file(&manifest).expect("removed");
    assert_found(&place, &[], "table", "its manifest", &[]);
}

#[test]
fn an_archive_is_looked_for_and_read_back() {
    let place = filled();
    let objects = crate::place::files_below(&place.path("archive"));
    let data = objects.iter().find(|path| path.extension().is_some_and(|e| e == "parquet")).expect("a file");
    let whole = fs::read(data).expect("read");
    flip(data, |bytes| bytes.len() / 3);
    // The length is unchanged: only a full read finds the damage.
    assert_eq!(verified(&place, &[]).1["whole"], true);
    assert_found(&place, &["--archives"], "archive", "SHA-256", &[]);
    fs::write(data, &whole[1..]).expect("written");
    assert_found(&place, &[], "archive", "bytes", &[]);
    fs::remove_file(data).expect("removed");
    assert_found(&place, &[], "archive", "Log", &[]);
    fs::remove_dir_all(place.path("archive")).expect("removed");
    assert_found(&place, &[], "archive", "Log", &[]);
}

/// A kill during the removal of an archive leaves a part of it. A later archive has all its rows.
#[test]
fn what_is_missing_of_an_archive_that_was_replaced_is_no_finding() {
    let place = filled();
    let replaced = "INSERT INTO archive SELECT day, 1, url, bytes, sha256, rows, oldest, newest, verified, ?1,
                    replace(manifest, '\"generation\": 2', '\"generation\": 1') FROM archive WHERE generation = 2";
    for (is_superseded, findings) in [(true, 0), (false, 1)] {
        let catalog = catalog(&place);
        assert_eq!(catalog.execute(replaced, [is_superseded]).expect("inserted"), 1);
        let (found, verdict) = verified(&place, &[]);
        assert_eq!(found.len(), findings, "{found:?}");
        assert_eq!(verdict["archives"], 1 + findings, "{verdict}");
        catalog.execute("DELETE FROM archive WHERE generation = 1", []).expect("removed");
    }
}

#[test]
fn a_file_that_was_truncated_or_replaced_is_named() {
    let place = filled();
    let log = place.log("app.log");
    let whole = fs::read(&log).expect("read");
    fs::File::options().write(true).open(&log).expect("opened").set_len(100).expect("truncated");
    assert_found(&place, &[], "source", "it has 100 bytes", &[]);
    // Without a configuration it is unknown whether the file is still followed. A configuration may exclude it.
    let (doubts, verdict) = verified_by(&place, &[]);
    assert!(doubts.len() == 1 && verdict["whole"] == true && verdict["doubts"] == 1, "{doubts:?} {verdict}");
    let other = place.path("other.toml");
    fs::write(&other, "[[tail]]\ninclude = [\"/nowhere/*.log\"]\n").expect("written");
    let (findings, verdict) = verified_by(&place, &["--config", &other.display().to_string()]);
    assert!(findings.is_empty() && verdict["whole"] == true, "{findings:?} {verdict}");
    // The next daemon continues in a copy.
    fs::write(place.log("app.log.1"), &whole).expect("written");
    assert_whole(&place, 600);
    fs::remove_file(place.log("app.log.1")).expect("removed");
    // The same inode and length, other bytes.
    fs::write(&log, vec![b'z'; whole.len()]).expect("written");
    assert_found(&place, &[], "source", "it was replaced", &[]);
    fs::write(&log, &whole).expect("written");
    append(&log, b"more that nobody read yet\n");
    assert_whole(&place, 600);
    // A renamed file is found beside its path.
    fs::rename(&log, place.log("app.log.1")).expect("renamed");
    assert_whole(&place, 600);
    fs::write(place.log("app.log.1"), b"another\n").expect("written");
    assert_found(&place, &[], "source", "it has 8 bytes", &[]);
    fs::remove_file(place.log("app.log.1")).expect("removed");
    assert_whole(&place, 600);
}

#[test]
fn a_ledger_that_was_changed_is_out_of_balance() {
    let place = filled();
    let path = place.data().join("catalog.db");
    let change = |from: &str, to: &str| {
        sql(&path, &format!("UPDATE source SET ledger = replace(ledger, '{from}', '{to}')"));
    };
    change("\"records\":600", "\"records\":599");
    assert_found(&place, &[], "accounting", "599 records", &[]);
    change("\"records\":599", "\"records\":600");
    assert_whole(&place, 600);
    sql(&path, "UPDATE source SET position = position - 1");
    assert_found(&place, &[], "source", "its ledger comes to", &[]);
    sql(&path, "UPDATE source SET position = position + 1");
    sql(&path, "DELETE FROM file WHERE role = 'sealed'");
    assert_found(&place, &[], "accounting", "rows are stored", &["table"]);
    assert_found(&place, &[], "table", "300 rows, and the catalog does not name it", &["accounting"]);
    change("{", "[");
    let (findings, _) = verified(&place, &[]);
    assert!(findings.iter().any(|(kind, _)| kind == "accounting"), "{findings:?}");
}

#[test]
fn a_folder_without_a_catalog_that_can_be_read_is_looked_at_all_the_same() {
    let place = filled();
    let open = live(&place, "open");
    let catalog = place.data().join("catalog.db");
    let whole = fs::read(&catalog).expect("read");
    for cut in [100, 4096, 5000, whole.len() / 2] {
        fs::write(&catalog, &whole[..cut]).expect("written");
        let (findings, _) = verified(&place, &[]);
        assert!(!findings.is_empty(), "cut at {cut}");
    }
    fs::write(&catalog, b"this is no database").expect("written");
    assert_found(&place, &[], "catalog", "catalog.db", &[]);
    sql(&open, "DELETE FROM body WHERE id = (SELECT min(id) FROM body)");
    assert_found(&place, &[], "page", "its body is missing", &["catalog"]);
    fs::remove_file(&catalog).expect("removed");
    assert_found(&place, &[], "catalog", "no catalog.db", &["page"]);
}

/// A daemon under full load, with rotation, seals and archives, is verified again and again.
#[test]
fn a_daemon_at_work_is_no_finding() {
    let place = Place::new();
    let daemon = place.start_with(&config(&place));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let old = long_ago();
    let mut written = 0;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let at = if written % 3 == 0 { old } else { now() };
                let line = |n: usize| format!("{at} INFO record {} {}\n", written + n, "z".repeat(n % 90));
                append(&place.log("app.log"), (0..500).map(line).collect::<String>().as_bytes());
                written += 500;
                let push = client::over_unix(daemon.socket(), "POST", "/ingest", "one pushed line");
                assert!(push.is_ok_and(|answer| answer.status == 200));
                written += 1;
                if written % 5 == 0 {
                    // A file that is replaced before it was seen is lost to any reader.
                    wait_for("what was written is read", PATIENCE, || (counted(&place) == written).then_some(()));
                    let _ = fs::rename(place.log("app.log"), place.log("app.log.1"));
                }
            }
            written
        });
        for _ in 0..12 {
            let (findings, _) = verified(&place, &["--archives"]);
            assert_eq!(findings, Vec::new());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        written = writer.join().expect("written");
    });
    wait_for("all is there", 2 * PATIENCE, || (counted(&place) == written).then_some(()));
    daemon.stop();
    assert_whole(&place, written as u64);
}

fn counted(place: &Place) -> usize {
    let counts = place.json("count", &[]);
    counts.iter().filter_map(|count| count["records"].as_u64()).sum::<u64>() as usize
}

/// Losses and refusals of a listener are in the ledger after the daemon ended.
#[test]
fn losses_of_listeners_outlive_the_daemon() {
    let place = Place::new();
    let limits = "[[syslog]]\nname = \"udp\"\nlisten = \"udp://127.0.0.1:0\"\nper_sender = { records_per_s = 5 }\n";
    let daemon = place.start_with(limits);
    let address = crate::syslog::address(&daemon, "udp");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    wait_for("datagrams are over the rate", PATIENCE, || {
        socket.send_to(b"<14>a message", address).expect("sent");
        over(&daemon).filter(|count| *count > 0.0)
    });
    let refused = client::over_unix(daemon.socket(), "POST", "/v1/logs", "no protobuf at all").expect("answered");
    assert_eq!(refused.status, 415, "{}", refused.body);
    daemon.stop();
    let ledgers = || -> Vec<Value> {
        place.json("sources", &[]).into_iter().filter(|line| line["listener"].is_string()).collect()
    };
    let before = ledgers();
    let of = |name: &str| {
        let found = before.iter().find(|line| line["listener"] == name);
        found.unwrap_or_else(|| panic!("{name}: {before:?}")).clone()
    };
    let udp = of("udp");
    assert!(udp["records"].as_u64() > Some(0), "{udp}");
    assert!(udp["losses"].as_object().is_some_and(|losses| !losses.is_empty()), "{udp}");
    assert!(of("http/otlp")["losses"].as_object().is_some_and(|losses| !losses.is_empty()), "{before:?}");
    let records = place.records().len() as u64;
    assert_whole(&place, records);
    place.start_with(limits).stop();
    assert_eq!(ledgers(), before, "a start and a stop change nothing");
}

fn over(daemon: &Daemon) -> Option<f64> {
    let metrics = client::over_unix(daemon.socket(), "GET", "/metrics", "").ok()?.body;
    let dropped = metrics.lines().find(|line| {
        line.starts_with("daytable_records_dropped_total")
            && line.contains("source=\"udp\"")
            && !line.contains("stopped")
    })?;
    dropped.rsplit(' ').next()?.parse().ok()
}

/// The daemon verifies by itself, and reports.
#[test]
fn the_daemon_verifies_by_itself_and_counts_what_it_finds() {
    let place = filled();
    let verify = |place: &Place| config(place).replace("[lifecycle]", "[lifecycle]\nverify = \"* * * * * *\"");
    let daemon = place.start_with(&verify(&place));
    daemon.wait_said("verified: whole: 600 records in ");
    assert!(daemon.metric("daytable_verify_last_run_timestamp_seconds").is_some_and(|at| at > 0.0));
    assert_eq!(daemon.metric("daytable_verify_findings{kind=\"sealed\"}"), Some(0.0));
    flip(&live(&place, "sealed"), |bytes| bytes.len() - 100);
    wait_for("what was damaged is counted", PATIENCE, || {
        daemon.metric("daytable_verify_findings{kind=\"sealed\"}").filter(|found| *found == 1.0)
    });
    // The metric comes first, the message second.
    daemon.wait_said("not whole:");
    daemon.stop();
    // The next daemon does not verify, and knows the result.
    let last = || place.json("status", &[]).pop().expect("a status")["verify"].clone();
    let daemon = place.start_with(&config(&place).replace("[lifecycle]", "[lifecycle]\nverify = \"none\""));
    assert!(daemon.metric("daytable_verify_last_run_timestamp_seconds").is_some_and(|at| at > 0.0));
    assert_eq!(daemon.metric("daytable_verify_findings{kind=\"sealed\"}"), Some(1.0));
    assert!(last()["last"].is_string() && last()["findings"] == 1, "{}", last());
    daemon.kill();
    fs::write(place.data().join("verified.json"), "{").expect("written");
    let daemon = place.start_with(&config(&place).replace("[lifecycle]", "[lifecycle]\nverify = \"none\""));
    daemon.wait_said("failed to read the result of the last verification: it is unknown until the next one");
    assert!(last()["last"].is_null(), "{}", last());
    daemon.stop();
}

#[test]
fn what_is_verified_needs_no_write() {
    let place = filled();
    let shape = || -> Vec<_> {
        let mut files = crate::place::files_below(&place.data());
        files.retain(|path| !path.to_string_lossy().ends_with("-shm") && !path.to_string_lossy().ends_with("-wal"));
        files.into_iter().map(|path| (fs::read(&path).expect("read"), path)).collect()
    };
    let before = shape();
    assert_whole(&place, 600);
    assert!(before == shape(), "a file was changed");
}
