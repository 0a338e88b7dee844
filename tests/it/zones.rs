//! Times without a zone are read in the zone of the host, and the program says so.

use crate::place::{DAYTABLE, PATIENCE, Place, append, wait_for};
use daytable_model::time;
use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Runs a command on a host with this zone.
fn daytable(zone: &str, args: &[&str]) -> Output {
    let mut command = Command::new(DAYTABLE);
    command.args(args).env("TZ", zone).env_remove("DAYTABLE_DATA").env_remove("DAYTABLE_CONFIG").stdin(Stdio::null());
    command.output().expect("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_time_without_a_zone_is_of_the_zone_of_the_host() {
    let place = Place::new();
    let file = place.path("app.log");
    // In Paris, clocks skip the second time, and show the third one twice.
    let times = ["2026-07-21 08:00:00", "2026-03-29 02:30:00", "2026-10-25 02:30:00", "2026-01-21T08:00:00Z"];
    let lines: Vec<String> = times.iter().map(|time| format!("{time} WARN disk full\n")).collect();
    fs::write(&file, lines.concat()).expect("written");
    let path = file.to_str().expect("text");
    for (zone, expected) in [
        ("UTC", ["2026-07-21T08:00:00Z", "2026-03-29T02:30:00Z", "2026-10-25T02:30:00Z"]),
        ("Europe/Paris", ["2026-07-21T06:00:00Z", "2026-03-29T01:30:00Z", "2026-10-25T01:30:00Z"]),
        ("EST5EDT", ["2026-07-21T12:00:00Z", "2026-03-29T06:30:00Z", "2026-10-25T06:30:00Z"]),
        ("CET-1CEST", ["2026-07-21T06:00:00Z", "2026-03-29T00:30:00Z", "2026-10-25T00:30:00Z"]),
        ("Mars/Olympus", ["2026-07-21T08:00:00Z", "2026-03-29T02:30:00Z", "2026-10-25T02:30:00Z"]),
    ] {
        let said = text(&daytable(zone, &["parse", path]).stdout);
        for (line, time) in said.lines().zip(expected.iter().chain(&["2026-01-21T08:00:00Z"])) {
            assert!(line.contains(time), "{zone}: {line} has not {time}");
        }
        assert_eq!(said.lines().count(), 4, "{said}");
    }
    let explained = text(&daytable("Europe/Paris", &["parse", "--explain", path]).stdout);
    let read_in = "2026-07-21T06:00:00Z, read in Europe/Paris (local, from TZ)";
    assert!(explained.contains(read_in) && explained.contains("2026-01-21T08:00:00Z\n"), "{explained}");
    let config = place.configure("[[tail]]\nname = \"app\"\ninclude = [\"LOGS/*.log\"]\nzone = \"+05:30\"\n");
    let said = text(&daytable("Mars/Olympus", &["check", config.to_str().expect("text")]).stdout);
    let expected =
        "times without a zone: UTC (local: TZ=\"Mars/Olympus\" is not a time zone); [[tail]] \"app\": +05:30\n";
    assert!(said.contains(expected), "{said}");
    assert!(
        said.contains(
            "warning: TZ=\"Mars/Olympus\" is not a time zone: times without a zone are read as UTC; set TZ to"
        ),
        "{said}"
    );
    let said = text(&daytable("CET-1CEST", &["check", config.to_str().expect("text")]).stdout);
    assert!(
        said.contains("warning: TZ=\"CET-1CEST\" names no dates on which clocks change: those of New York"),
        "{said}"
    );
    assert!(said.contains("max_bytes: ") && said.contains("a fifth of the disk of"), "{said}");
}

/// The daemon names its zone. Where a file has times of another zone, the doctor says so, and asks the daemon for the files.
#[test]
fn the_doctor_finds_a_wrong_zone() {
    let place = Place::new();
    let config = "[[tail]]\nname = \"app\"\ninclude = [\"LOGS/*.log\", \"LOGS/none/*.log\"]\n";
    let path = place.configure(config);
    let mut run = Command::new(DAYTABLE);
    run.args(["run", "--config", path.to_str().expect("text")]).env("TZ", "UTC");
    let daemon = place.spawn_command(run);
    daemon.wait_ready();
    // As a program writes it two hours east of UTC.
    let ahead = time::now().plus(Duration::from_secs(7200)).to_string();
    append(&place.log("app.log"), format!("{} WARN disk full\n", ahead[..19].replace('T', " ")).as_bytes());
    std::os::unix::fs::symlink("/nowhere/at/all", place.log("link.log")).expect("linked");
    fs::create_dir(place.log("folder.log")).expect("made");
    wait_for("the record is there", PATIENCE, || (place.try_records().len() == 1).then_some(()));
    let said = text(&daytable("UTC", &["doctor", "--config", path.to_str().expect("text")]).stdout);
    let wrong = format!("the newest record of {} is of ", place.log("app.log").display());
    for expected in [
        "the daemon can read 1".to_owned(),
        wrong,
        ", 2h after the file was last written".into(),
        format!("a link that leads nowhere: {}", place.log("link.log").display()),
        format!("a folder and no file: {}", place.log("folder.log").display()),
        format!("no such folder: {}", place.log("none").display()),
    ] {
        assert!(said.contains(&expected), "{expected} is not in\n{said}");
    }
    assert!(daemon.said().contains("local_zone=\"UTC (local, from TZ)\""), "{}", daemon.said());
    daemon.stop();
    let said = text(&daytable("UTC", &["doctor", "--config", path.to_str().expect("text")]).stdout);
    assert!(said.contains("warn  daemon: none runs on") && said.contains("start it: "), "{said}");
    assert!(said.contains("this user can read 1"), "{said}");
    let said = text(&daytable("CET-1CEST", &["doctor", "--config", path.to_str().expect("text")]).stdout);
    assert!(said.contains("warn  zone: TZ=\"CET-1CEST\" names no dates"), "{said}");
}

/// A file without times, one whose time has an unknown name, and a host in the future: who asks is told which.
#[test]
fn what_is_no_time_and_who_is_in_the_future_is_named() {
    let place = Place::new();
    let config = "[[tail]]\nname = \"app\"\ninclude = [\"LOGS/*.log\"]\ninstance = \"{stem}\"\n";
    let path = place.configure(config);
    append(&place.log("none.log"), b"{\"expires_at\":\"2026-11-21T08:00:00Z\",\"a\":1}\n");
    append(&place.log("named.log"), b"{\"published\":\"2026-11-21T08:00:00Z\",\"a\":1}\n");
    // 100 minutes and a few: no wrong zone explains it.
    let ahead = time::now().plus(Duration::from_secs(100 * 60)).to_string();
    append(&place.log("fast.log"), format!("{ahead} WARN disk full\n{ahead} WARN disk fuller\n").as_bytes());
    let daemon = place.start_with(config);
    wait_for("the records are there", PATIENCE, || (place.try_records().len() == 4).then_some(()));
    let (none, named) = (place.log("none.log").display().to_string(), place.log("named.log").display().to_string());
    let listed = place.said("sources", &[]);
    let untimed = format!("{none}: no record has a time, although expires_at looks like one");
    assert!(listed.contains(&untimed), "{listed}");
    assert!(listed.contains(&format!("{named}: the time is published\n")), "{listed}");
    let fast = place.log("fast.log").display().to_string();
    assert!(!listed.contains(&format!("{fast}:")), "{listed}");
    assert_eq!(place.ledger("named.log")["time_field"], "published");
    assert_eq!(place.ledger("none.log")["likely_time"], "expires_at");
    let said = text(&daytable("UTC", &["doctor", "--config", path.to_str().expect("text")]).stdout);
    let untimed = format!("no record of {none} has a time, although expires_at looks like one");
    for expected in
        [untimed, "warn  times: fast: 2 records are in the future, the newest of ".into(), format!(" now, from {fast}")]
    {
        assert!(said.contains(&expected), "{expected} is not in\n{said}");
    }
    daemon.stop();
    let other = place.path("other.log");
    fs::write(&other, "{\"expires_at\":\"2026-11-21T08:00:00Z\",\"b\":1}\n").expect("written");
    let said = place.said("import", &[other.to_str().expect("text")]);
    let untimed = "other.log: no record has a time, although expires_at looks like one";
    assert!(said.contains(untimed), "{said}");
}
