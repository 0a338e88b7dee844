//! What is lost on a host is counted there, and named with its reason at the central.

use super::credentials::hosts;
use super::*;
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::now;

/// Lines of an hour that is over, and its day-table with tables of hours.
fn lines_of_hour(hours: u64, count: usize) -> (Vec<String>, String) {
    let start = Period::Hour.start(now().minus(Duration::from_secs(hours * 3600)));
    let line = |n: usize| {
        let random =
            |at: u64| (n as u64 * 8 + hours * 100_000 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        let words: String =
            (0..6).map(|at| format!(" {:016x}", random(at).wrapping_mul(0xbf58_476d_1ce4_e5b9))).collect();
        format!("{} INFO request{words} of {n}", start.plus(Duration::from_millis(n as u64)))
    };
    let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, start);
    ((0..count).map(line).collect(), table.to_string())
}

/// What the ledger of a host counts of rows that were dropped before they were forwarded.
fn unforwarded(place: &Place) -> BTreeMap<String, u64> {
    let ledgers = place.json("sources", &[]);
    let ledger = ledgers.iter().find(|ledger| ledger["listener"] == "unforwarded");
    let losses = ledger.and_then(|ledger| ledger["losses"].as_object().cloned()).unwrap_or_default();
    losses.into_iter().map(|(reason, count)| (reason, count.as_u64().expect("a number"))).collect()
}

/// What the central lists of the losses of a host, by reason.
fn losses_at(central: &Central, name: &str) -> BTreeMap<String, (Option<u64>, Option<u64>)> {
    let said = hosts(central, &["losses", name, "--json"]);
    let rows = said.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let row = |row: Value| {
        assert_eq!(row["host"], name);
        (row["reason"].as_str().expect("a reason").to_owned(), (row["records"].as_u64(), row["bytes"].as_u64()))
    };
    rows.map(row).collect()
}

/// The central is away, and the host has more than it may keep: it drops its oldest hours, and both sides say which, and how much.
#[test]
fn hours_that_were_dropped_before_they_were_forwarded_are_named_on_both_sides() {
    let central = Central::new();
    let host = {
        let running = central.start();
        let host = Host::new("web-1");
        let tables = "[lifecycle]\nschedule = \"* * * * * *\"\ngrace = \"0s\"\nseal_after = \"365d\"\n[[table]]\nname = \"Log\"\nperiod = \"hour\"\n";
        fs::write(host.file(), host.base() + tables).expect("a configuration");
        assert!(host.join(&central.invite("web-1"), &[]).status.success());
        running.stop();
        host
    };
    let hours: Vec<(Vec<String>, String)> = [9, 8, 7, 6].map(|hours| lines_of_hour(hours, 10_000)).into();
    hours.iter().for_each(|(lines, _)| host.write("app.log", lines));
    host.write("app.log", &[format!("{} INFO young", now())]);
    let daemon = host.start();
    let mut read = 0;
    wait_for("all is read", 2 * PATIENCE, || {
        read = host.place.json("count", &[]).first().and_then(|count| count["records"].as_u64()).unwrap_or(0);
        (read == 40_001).then_some(())
    });
    daemon.stop();
    let bounded = fs::read_to_string(host.file()).expect("a configuration");
    fs::write(host.file(), bounded.replace("period = \"hour\"\n", "period = \"hour\"\nmax_bytes = \"1MiB\"\n"))
        .expect("a configuration");
    let daemon = host.start();
    let is_gone = |name: &str| {
        !host.place.json("tables", &[]).iter().any(|table| table["table"] == name && table["state"] != "dropped")
    };
    let bytes = || -> u64 { host.place.json("tables", &[]).iter().filter_map(|table| table["bytes"].as_u64()).sum() };
    wait_for("the table is within its limit", PATIENCE, || (bytes() <= 1 << 20).then_some(()));
    assert!(is_gone(&hours[0].1));
    daemon.stop();
    let counted = unforwarded(&host.place);
    let dropped: Vec<&str> = hours.iter().map(|(_, name)| name.as_str()).filter(|name| is_gone(name)).collect();
    assert_eq!(counted.len(), 2 * dropped.len(), "{counted:?}");
    for name in &dropped {
        assert_eq!(counted.get(&format!("dropped before it was forwarded: {name}")), Some(&10_000), "{counted:?}");
        let bytes = counted.get(&format!("bytes of a day that was dropped before it was forwarded: {name}"));
        assert!(bytes.is_some_and(|bytes| (100_000..100_000_000).contains(bytes)), "{counted:?}");
    }
    let running = central.start();
    let daemon = host.start();
    let left = 40_001 - 10_000 * dropped.len() as u64;
    wait_for("the rest is there", 2 * PATIENCE, || (central.host("web-1")?["records"] == left).then_some(()));
    let named: BTreeMap<String, (Option<u64>, Option<u64>)> = counted
        .iter()
        .map(|(reason, count)| match reason.starts_with("bytes ") {
            true => (format!("forward: {reason}"), (None, Some(*count))),
            false => (format!("forward: {reason}"), (Some(*count), None)),
        })
        .collect();
    wait_for("the central names them", PATIENCE, || (losses_at(&central, "web-1") == named).then_some(()));
    let said = hosts(&central, &["losses", "web-1"]);
    assert!(said.contains(&format!("forward: dropped before it was forwarded: {}", dropped[0])), "{said}");
    let line = hosts(&central, &[]);
    assert!(line.contains(&format!("lost there {} records, ", 10_000 * dropped.len())), "{line}");
    daemon.stop();
    running.stop();
}

/// Whenever a drop is cut off, what is gone is counted, once, and what is not gone is not.
#[test]
fn a_kill_in_a_forced_drop_loses_no_count() {
    for (point, is_dropped) in [("drop-before", false), ("drop-hidden", true), ("drop-after", true)] {
        let central = Central::new();
        let running = central.start();
        let host = Host::joined(&central, "web-1");
        running.stop();
        host.write("app.log", &lines("request", 0..300));
        let mut run = Command::new(DAYTABLE);
        run.arg("run").arg("--config").arg(host.file()).env("DAYTABLE_FAILPOINT", point);
        let mut dying = host.place.spawn_command(run);
        dying.wait_ready();
        wait_for("all is read", PATIENCE, || (host.place.try_records().len() == 300).then_some(()));
        let killed = host.place.ask("drop", &["--yes", "Log20261127"]);
        assert!(!killed.status.success(), "{killed:?}");
        dying.ended();
        let daemon = host.start();
        assert_eq!(host.place.records().len(), if is_dropped { 0 } else { 300 }, "{point}");
        let reason = "dropped before it was forwarded: Log20261127";
        assert_eq!(unforwarded(&host.place).get(reason), is_dropped.then_some(&300), "{point}");
        if !is_dropped {
            host.place.said("drop", &["--yes", "Log20261127"]);
            assert_eq!(unforwarded(&host.place).get(reason), Some(&300), "{point}");
        }
        assert!(host.place.ask("verify", &[]).status.success(), "the accounts balance");
        daemon.stop();
    }
}

#[test]
fn the_central_tells_what_was_lost_on_a_host_and_why() {
    let central = Central::new();
    let running = central.start();
    let host = Host::new("web-1");
    let tail = "line_bytes_max = \"1KiB\"\nunended_after = \"off\"\n";
    fs::write(host.file(), host.base() + tail).expect("a configuration");
    assert!(host.join(&central.invite("web-1"), &[]).status.success());
    let quiet = Host::joined(&central, "web-2");
    let [daemon, other] = [&host, &quiet].map(Host::start);
    // A line that is cut, and a file that is truncated while a last line is being written that is too long to be kept meanwhile.
    host.write("app.log", &[format!("2026-11-27T10:00:00Z INFO {}", "x".repeat(5000))]);
    let unfinished = "x".repeat(20_000);
    append(&host.place.log("cut.log"), format!("2026-11-27T10:00:01Z INFO one\n{unfinished}").as_bytes());
    quiet.write("app.log", &lines("request", 0..5));
    wait_for("the records are there", PATIENCE, || (central.place.records().len() == 7).then_some(()));
    fs::File::create(host.place.log("cut.log")).expect("truncated");
    let path = host.place.log("cut.log").display().to_string();
    let lost = || -> u64 {
        let sources = host.place.json("sources", &[]);
        sources.iter().filter(|source| source["path"] == path).filter_map(|source| source["lost_bytes"].as_u64()).sum()
    };
    wait_for("the loss is counted", PATIENCE, || (lost() == 20_000).then_some(()));
    append(&host.place.log("cut.log"), b"2026-11-27T10:00:02Z INFO two\n");
    wait_for("the record is there", PATIENCE, || (central.place.records().len() == 8).then_some(()));
    // A host counts its losses once a minute, and when it starts.
    daemon.stop();
    let daemon = host.start();
    let expected = BTreeMap::from([
        ("tail: lost_bytes".to_owned(), (None, Some(20_000))),
        ("tail: truncated_bytes".to_owned(), (None, Some(5000 + 26 - 1024))),
        ("tail: truncated_records".to_owned(), (Some(1), None)),
    ]);
    wait_for("the central names them", PATIENCE, || (losses_at(&central, "web-1") == expected).then_some(()));
    let said = hosts(&central, &["losses"]);
    let words: Vec<Vec<&str>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.contains(&vec!["web-1", "1", "tail:", "truncated_records"]), "{said}");
    assert!(words.contains(&vec!["web-1", "19.5", "KiB", "tail:", "lost_bytes"]), "{said}");
    assert!(!said.contains("web-2"), "{said}");
    assert_eq!(hosts(&central, &["losses", "web-2"]), "nothing was lost, as far as the hosts have said\n");
    let unknown = central.place.ask("hosts", &["losses", "web-3"]);
    assert!(!unknown.status.success());
    // The page has what the list has, and so has a central that does not run.
    let listed = client::over_unix(running.socket(), "GET", "/api/hosts", "").expect("an answer");
    assert!(listed.body.contains("\"tail: lost_bytes\":20000"), "{}", listed.body);
    for daemon in [daemon, other, running] {
        daemon.stop();
    }
    assert_eq!(losses_at(&central, "web-1"), expected);
}
