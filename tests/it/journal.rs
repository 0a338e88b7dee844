//! The journal: a real journal made by `systemd-journal-remote` and read through `journalctl`, and a fake `journalctl`
//! for rare situations.

use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, message_of, numbered, wait_for};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// The path in Debian's package systemd-journal-remote, which `tests/setup` installs.
const JOURNAL_REMOTE: &str = "/lib/systemd/systemd-journal-remote";

/// An entry in the export format. Entries are a microsecond apart, the first one an hour ago.
pub(crate) fn entry(number: usize, fields: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
    let time = now - 3_600_000_000 + number as u128;
    format!(
        "__REALTIME_TIMESTAMP={time}\n__MONOTONIC_TIMESTAMP={}\n_BOOT_ID=11111111111111111111111111111111\n\
         _HOSTNAME=web-17\n{fields}\n\n",
        1000 + number
    )
}

/// Entries with these messages, of unit `app.service` and level info.
pub(crate) fn entries(first: usize, messages: &[String]) -> String {
    let fields =
        |message: &String| format!("PRIORITY=6\n_SYSTEMD_UNIT=app.service\n_TRANSPORT=stdout\nMESSAGE={message}");
    messages.iter().enumerate().map(|(n, message)| entry(first + n, &fields(message))).collect()
}

/// Appends entries to a journal file.
pub(crate) fn write(file: &Path, entries: &str) {
    let mut remote = Command::new(JOURNAL_REMOTE)
        .arg("--output")
        .arg(file)
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("systemd-journal-remote is there (tests/setup installs it)");
    remote.stdin.take().expect("it is piped").write_all(entries.as_bytes()).expect("written");
    assert!(remote.wait().expect("ended").success());
}

/// A folder for a journal, and the block that reads it.
fn journal(place: &Place, more: &str) -> (PathBuf, String) {
    let folder = place.path("journal");
    fs::create_dir_all(&folder).expect("a folder");
    let block = format!("[[journal]]\ndirectory = \"{}\"\n{more}\n", folder.display());
    (folder, block)
}

fn ledger(place: &Place) -> Value {
    let sources = place.json("sources", &[]);
    sources.into_iter().find(|source| source["kind"] == "journal").expect("the journal is a source")
}

fn wait_metric(daemon: &Daemon, name: &str, least: f64) {
    wait_for(&format!("{name} is {least}"), PATIENCE, || (daemon.metric(name)? >= least).then_some(()));
}

/// The `journalctl` process of a daemon.
fn journalctl_of(daemon: &Daemon) -> rustix::process::Pid {
    wait_for("the daemon runs journalctl", PATIENCE, || {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", daemon.pid())).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{}/task", daemon.pid())).ok()?;
        let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).ok();
        let all: String = threads.flatten().filter_map(of_thread).chain([children]).collect();
        all.split_whitespace().find_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?))
    })
}

#[test]
fn a_journal_is_read_once_whatever_is_killed() {
    let place = Place::new();
    let (folder, config) = journal(&place, "");
    let file = folder.join("remote.journal");
    let all = numbered("entry", 3000);
    write(&file, &entries(0, &all[..1000]));
    let daemon = place.start_with(&config);
    place.wait_for_messages(&all[..1000]);
    write(&file, &entries(1000, &all[1000..1500]));
    place.wait_for_messages(&all[..1500]);
    daemon.kill();
    write(&file, &entries(1500, &all[1500..2000]));
    // A kill during the reading: position and records stay consistent.
    for _ in 0..3 {
        let daemon = place.start_with(&config);
        daemon.kill();
    }
    let daemon = place.start_with(&config);
    place.wait_for_messages(&all[..2000]);
    rustix::process::kill_process(journalctl_of(&daemon), rustix::process::Signal::KILL).expect("killed");
    write(&file, &entries(2000, &all[2000..2500]));
    place.wait_for_messages(&all[..2500]);
    wait_metric(&daemon, "daytable_read_errors_total", 1.0);
    // A rotation: the file gets another name, and a new file begins.
    fs::rename(&file, folder.join("remote@0.journal")).expect("renamed");
    write(&file, &entries(2500, &all[2500..]));
    place.wait_for_messages(&all);
    daemon.stop();
    place.assert_no_key_twice();
    let ledger = ledger(&place);
    assert_eq!(
        (&ledger["records"], &ledger["lost_records"], &ledger["position"]),
        (&3000.into(), &0.into(), &3000.into())
    );
    assert!(ledger["cursor"].as_str().is_some_and(|cursor| cursor.starts_with("s=")), "{ledger}");
    let daemon = place.start_with(&config);
    write(&file, &entries(3000, &["the last".into()]));
    place.wait_for_messages(&[all, vec!["the last".into()]].concat());
    assert_eq!(daemon.metric("daytable_journal_gaps_total{source=\"journal\"}"), Some(0.0));
    daemon.stop();
}

/// Entries from before a reboot that were not read are read after the reboot.
#[test]
fn entries_of_every_boot_are_read() {
    let place = Place::new();
    let (folder, config) = journal(&place, "");
    let all = numbered("entry", 20);
    let file = folder.join("remote.journal");
    write(&file, &entries(0, &all[..10]));
    write(
        &file,
        &entries(10, &all[10..]).replace("11111111111111111111111111111111", "22222222222222222222222222222222"),
    );
    let daemon = place.start_with(&config);
    place.wait_for_messages(&all);
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn entries_keep_what_they_say() {
    let place = Place::new();
    let (folder, config) = journal(&place, "redact = [\"email\"]");
    let binary = |name: &str, value: &[u8]| {
        [name.as_bytes(), b"\n", &(value.len() as u64).to_le_bytes(), value]
            .concat()
            .iter()
            .map(|b| *b as char)
            .collect::<String>()
    };
    let file = folder.join("remote.journal");
    let several = binary("MESSAGE", b"a trace:\n  line 2\n  line 3");
    write(
        &file,
        &entry(
            0,
            &format!(
                "PRIORITY=3\nSYSLOG_IDENTIFIER=app\n_PID=42\n_SYSTEMD_UNIT=app.service\nSYSLOG_FACILITY=3\n{several}"
            ),
        ),
    );
    write(
        &file,
        &entry(1, "PRIORITY=6\n_TRANSPORT=stdout\n_COMM=api\nMESSAGE={\"level\":\"warn\",\"msg\":\"slow\",\"took\":7}"),
    );
    write(&file, &entry(2, "PRIORITY=5\nMESSAGE=mail to ann@example.com\nOWN_FIELD=x"));
    let daemon = place.start_with(&config);
    let record = |message: &str| {
        wait_for(message, PATIENCE, || place.try_records().into_iter().find(|record| message_of(record) == message))
    };
    let check = |record: &Value, fields: &[(&str, Value)]| {
        for (name, expected) in fields {
            assert_eq!(&record[name], expected, "{name} of {record}");
        }
    };
    let source = format!("journal:{}", folder.display());
    check(
        &record("a trace:\n  line 2\n  line 3"),
        &[
            ("partition_key", "web-17".into()),
            ("level", "error".into()),
            ("source", source.into()),
            ("component", "app".into()),
            ("pid", 42.into()),
            ("unit", "app.service".into()),
            ("facility", "daemon".into()),
            ("host", "web-17".into()),
        ],
    );
    check(
        &record("slow"),
        &[("level", "warn".into()), ("took", 7.into()), ("component", "api".into()), ("priority", 6.into())],
    );
    check(&record("mail to [redacted email]"), &[("level", "notice".into()), ("OWN_FIELD", "x".into())]);
    daemon.stop();
}

#[test]
fn units_and_levels_are_chosen_and_may_be_chosen_anew() {
    let place = Place::new();
    let (folder, config) = journal(&place, "units = [\"web*\"]\nlevel_at_least = \"warn\"");
    let file = folder.join("remote.journal");
    let mut number = 0;
    let mut more = |prefix: &str| {
        for (unit, priority) in [("web.service", 4), ("web.service", 5), ("web-2.service", 0), ("db.service", 3)] {
            let fields = format!("PRIORITY={priority}\n_SYSTEMD_UNIT={unit}\nMESSAGE={prefix} {unit} {priority}");
            write(&file, &entry(number, &fields));
            number += 1;
        }
    };
    more("first");
    let daemon = place.start_with(&config);
    let mut expected = vec!["first web.service 4".to_owned(), "first web-2.service 0".to_owned()];
    place.wait_for_messages(&expected);
    daemon.stop();
    more("second");
    // The last entry read belongs to no unit of this block.
    let (_, config) = journal(&place, "units = [\"db.service\"]");
    let daemon = place.start_with(&config);
    expected.push("second db.service 3".into());
    expected.push("first db.service 3".into());
    place.wait_for_messages(&expected);
    assert_eq!(daemon.metric("daytable_journal_gaps_total{source=\"journal\"}"), Some(0.0));
    daemon.stop();
}

#[test]
fn reading_may_begin_at_the_end() {
    let place = Place::new();
    let (folder, config) = journal(&place, "read_from = \"end\"");
    let file = folder.join("remote.journal");
    write(&file, &entries(0, &numbered("before", 10)));
    let daemon = place.start_with(&config);
    wait_for("the beginning is committed", PATIENCE, || {
        place.json("sources", &[]).iter().any(|source| source["kind"] == "journal").then_some(())
    });
    daemon.kill();
    // New entries are read, although a kill came before the first read.
    write(&file, &entries(10, &numbered("after", 10)));
    let daemon = place.start_with(&config);
    place.wait_for_messages(&numbered("after", 10));
    daemon.stop();
}

#[test]
fn a_journal_that_is_another_one_than_before_is_noticed() {
    let place = Place::new();
    let (folder, config) = journal(&place, "");
    let (old, new) = (numbered("old", 10), numbered("new", 10));
    write(&folder.join("old.journal"), &entries(0, &old));
    let daemon = place.start_with(&config);
    place.wait_for_messages(&old);
    daemon.stop();
    fs::remove_file(folder.join("old.journal")).expect("removed");
    write(&folder.join("new.journal"), &entries(10, &new));
    let daemon = place.start_with(&config);
    place.wait_for_messages(&[old, new].concat());
    wait_metric(&daemon, "daytable_journal_gaps_total{source=\"journal\"}", 1.0);
    daemon.wait_said("the journal is another one than before");
    daemon.stop();
}

/// A fake `journalctl` that prints the files `follow` and `once`, and a daemon that runs it.
fn start_with_fake(place: &Place, config: &str) -> Daemon {
    let bin = place.path("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >>{0}/calls\ncase \"$*\" in\n*--follow*) cat {0}/follow; exec sleep 1000 ;;\n*) cat {0}/once ;;\nesac\n",
        bin.display()
    );
    fs::write(bin.join("journalctl"), script).expect("written");
    fs::set_permissions(bin.join("journalctl"), fs::Permissions::from_mode(0o755)).expect("set");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(config));
    let path = std::env::var("PATH").expect("a path");
    let daemon = place.spawn_command({
        command.env("PATH", format!("{}:{path}", bin.display()));
        command
    });
    daemon.wait_ready();
    daemon
}

/// A real export, with fields that are text and fields that are bytes, is imported like any file: each entry once, also
/// when the file has grown, is compressed or is damaged at its end.
#[test]
fn an_export_is_imported_once() {
    let place = Place::new();
    let (folder, _) = journal(&place, "");
    let text = |name: &str, value: &[u8]| {
        let length = (value.len() as u64).to_le_bytes();
        String::from_utf8([name.as_bytes(), b"\n", &length, value].concat()).expect("text")
    };
    // The length of the value is 0x090101, whose bytes are text.
    let long = "x".repeat(0x9_0101 - "long\n".len());
    let fields = [
        "PRIORITY=3\n_SYSTEMD_UNIT=app.service\nMESSAGE=disk full free=1.50".to_owned(),
        text("MESSAGE", b"a trace:\n\n  line 3\n\n"),
        text("MESSAGE", format!("long\n{long}").as_bytes()),
    ];
    let file = folder.join("remote.journal");
    let all: String = fields.iter().enumerate().map(|(number, fields)| entry(number, fields)).collect();
    write(&file, &all);
    let export = |more: &[&str]| {
        let mut journalctl = Command::new("journalctl");
        journalctl.arg("--directory").arg(&folder).args(["--output=export", "--all", "--no-pager"]).args(more);
        journalctl.output().expect("journalctl is there").stdout
    };
    let path = place.log("host.export");
    let mut bytes = export(&[]);
    // A value of bytes, which no pipe of text carries.
    let at = bytes.windows(10).position(|part| part == b"PRIORITY=3").expect("the first entry");
    bytes.splice(at..at, *b"BLOB\n\x04\0\0\0\0\0\0\0\xff\n\n\x01\n");
    fs::write(&path, &bytes).expect("written");

    let import = || place.said("import", &[path.to_str().expect("a path")]);
    assert!(import().starts_with("3 new records from 1 file"));
    assert!(import().starts_with("0 new records"));
    let records = place.records();
    let found = |message: &str| records.iter().find(|record| message_of(record) == message).expect("the message");
    let first = found("disk full free=1.50");
    assert_eq!((&first["partition_key"], &first["level"]), (&"web-17".into(), &"error".into()));
    assert_eq!((&first["unit"], &first["BLOB"]), (&"app.service".into(), &"ff0a0a01".into()));
    assert_eq!(found("a trace:\n\n  line 3\n\n")["partition_key"], "web-17");
    assert_eq!(found(&format!("long\n{long}"))["host"], "web-17");

    // Entries that came later, in a compressed copy.
    write(&file, &entry(3, "MESSAGE=one more"));
    let cursor = String::from_utf8(export(&["--lines=1"])).expect("text");
    bytes.extend_from_slice(cursor.as_bytes());
    fs::write(&path, &bytes).expect("written");
    let copy = place.log("host.export.gz");
    fs::copy(&path, place.log("again.export")).expect("copied");
    crate::place::gzip(&place.log("again.export"), &copy);
    assert!(place.said("import", &[copy.to_str().expect("a path")]).starts_with("1 new record "));
    assert!(import().starts_with("0 new records"));

    // A file that ends within an entry: what is before it is kept, and the command says so.
    let cut = place.log("cut.export");
    fs::write(&cut, [with_cursor(7, "whole").as_bytes(), &bytes[..200]].concat()).expect("written");
    let output = place.ask("import", &[cut.to_str().expect("a path")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("it ends within a field"), "{error}");
    assert_eq!(place.records().len(), 5);
    place.assert_no_key_twice();
}

fn with_cursor(number: u32, message: &str) -> String {
    format!("__CURSOR=s=ab;i={number:x};b=1;m=1;t=1;x=1\n__REALTIME_TIMESTAMP=1795222800000000\nMESSAGE={message}\n\n")
}

/// The journal dropped its oldest entries, and the daemon had not read some of them.
#[test]
fn what_was_vacuumed_before_it_was_read_is_counted() {
    let place = Place::new();
    fs::create_dir_all(place.path("bin")).expect("a folder");
    let follow = |text: String| fs::write(place.path("bin/follow"), text).expect("written");
    follow([with_cursor(4, "four"), with_cursor(5, "five")].concat());
    let daemon = start_with_fake(&place, "[[journal]]\n");
    place.wait_for_messages(&["four".into(), "five".into()]);
    daemon.stop();
    follow([with_cursor(16, "sixteen"), with_cursor(17, "seventeen")].concat());
    let daemon = start_with_fake(&place, "[[journal]]\n");
    place.wait_for_messages(&["four", "five", "sixteen", "seventeen"].map(String::from));
    let dropped = "daytable_records_dropped_total{intentional=\"false\",reason=\"vacuumed\",source=\"journal\"}";
    wait_metric(&daemon, dropped, 10.0);
    assert_eq!(daemon.metric(dropped), Some(10.0));
    daemon.stop();
    assert_eq!(ledger(&place)["lost_records"], 10);
    let calls = fs::read_to_string(place.path("bin/calls")).expect("it was run");
    assert!(calls.lines().any(|call| call.contains("--cursor=s=ab;i=5;")), "{calls}");
    // The same entry always gets the same key.
    assert_eq!(place.records().len(), 4);
}

/// Bytes after an invalid entry are read again. Whole entries before it are kept.
#[test]
fn rubbish_ends_the_program_and_not_the_source() {
    let place = Place::new();
    fs::create_dir_all(place.path("bin")).expect("a folder");
    let follow = place.path("bin/follow");
    fs::write(&follow, with_cursor(1, "one") + "rubbish\n").expect("written");
    let daemon = start_with_fake(&place, "[[journal]]\n");
    daemon.wait_said("a malformed entry");
    fs::write(&follow, with_cursor(1, "one") + &with_cursor(2, "two")).expect("written");
    place.wait_for_messages(&["one".into(), "two".into()]);
    daemon.stop();
    assert_eq!(ledger(&place)["records"], 2);
}

#[test]
fn a_host_without_journalctl_is_told_and_the_rest_works() {
    let place = Place::new();
    place.write("app.log", &["a line".into()]);
    let mut command = Command::new(DAYTABLE);
    let config = format!("[[journal]]\n{}", crate::place::TAIL);
    command.arg("run").arg("--config").arg(place.configure(&config)).env("PATH", place.path("nowhere"));
    let daemon = place.spawn_command(command);
    daemon.wait_said("failed to run journalctl");
    place.wait_for_messages(&["a line".into()]);
    daemon.stop();
}
