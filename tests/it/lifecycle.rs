//! Day-tables created ahead, and dropped when they expire, by the scheduler of a running daemon.

use crate::place::{PATIENCE, Place, message_of, wait_for};
use daytable_model::time::now;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// The lifecycle runs every second. The test sets `keep`.
fn config(period: &str, keep: &str) -> String {
    format!(
        "[lifecycle]\nschedule = \"* * * * * *\"\ngrace = \"0s\"\n[[table]]\nname = \"Log\"\nkeep = \"{keep}\"\nperiod = \"{period}\"\n\
         [[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n"
    )
}

/// A line whose time is `age` ago.
fn aged(age: Duration, message: &str) -> String {
    format!("{} INFO {message}", now().minus(age))
}

fn names(place: &Place) -> Vec<String> {
    let open = |table: &Value| (table["state"] == "open").then(|| table["table"].as_str().expect("a name").to_owned());
    place.json("tables", &[]).iter().filter_map(open).collect()
}

/// Tomorrow's table exists today, so that midnight is cheap.
#[test]
fn the_next_table_is_there_ahead() {
    for (period, length) in [("hour", HOUR), ("day", DAY)] {
        let place = Place::new();
        let before = now();
        let daemon = place.start_with(&config(period, "30d"));
        wait_for("two tables", PATIENCE, || (names(&place).len() >= 2).then_some(()));
        let digits = if period == "hour" { 10 } else { 8 };
        let suffix = |time: daytable_model::time::Ticks| {
            let text: String = time.to_string().chars().filter(char::is_ascii_digit).take(digits).collect();
            format!("Log{text}")
        };
        let expected = [suffix(before), suffix(before.plus(length))];
        // After the end of a period, the tables of the next period exist, too.
        let found = names(&place);
        assert!(expected.iter().all(|name| found.contains(name)), "{expected:?} are not in {found:?}");
        daemon.stop();
    }
}

/// A period older than `keep` is dropped, and younger periods stay. A record too late for its table goes to today's
/// table, with its own time.
#[test]
fn an_expired_table_is_dropped_and_stays_dropped() {
    let place = Place::new();
    let old = now().minus(3 * HOUR);
    place.write("app.log", &[format!("{old} INFO old"), aged(Duration::ZERO, "young")]);
    // The table exists before the rule that drops it.
    let daemon = place.start_with(&config("hour", "30d"));
    place.wait_for_messages(&["old".into(), "young".into()]);
    let of_old = place.json("query", &["--contains", "old"])[0]["table"].as_str().expect("a table").to_owned();
    assert!(names(&place).contains(&of_old));
    daemon.stop();
    let daemon = place.start_with(&config("hour", "1h"));
    wait_for("the table is dropped", PATIENCE, || (!names(&place).contains(&of_old)).then_some(()));
    place.wait_until_messages(&["young"]);
    place.write("app.log", &[format!("{old} INFO late")]);
    place.wait_for_messages(&["young".into(), "late".into()]);
    let late = place.json("query", &["--contains", "late"]).remove(0);
    let young = place.json("query", &["--contains", "young"]).remove(0);
    assert_ne!(late["table"], of_old.as_str());
    assert!(late["table"].as_str() >= young["table"].as_str(), "{late}");
    assert!(late.to_string().contains(&old.to_string()), "its own time is kept: {late}");
    assert!(!names(&place).contains(&of_old));
    assert!(daemon.metric("daytable_tables_dropped_total").is_some_and(|dropped| dropped >= 1.0));
    assert!(daemon.metric("daytable_records_late_total{table=\"Log\"}").is_some_and(|late| late >= 1.0));
    daemon.stop();
    let daemon = place.start_with(&config("hour", "1h"));
    place.wait_for_messages(&["young".into(), "late".into()]);
    assert!(!names(&place).contains(&of_old));
    daemon.stop();
}

/// Days are dropped like hours.
#[test]
fn an_expired_day_is_dropped() {
    let place = Place::new();
    place.write("app.log", &[aged(5 * DAY, "old"), aged(Duration::ZERO, "young")]);
    let daemon = place.start_with(&config("day", "30d"));
    place.wait_for_messages(&["old".into(), "young".into()]);
    daemon.stop();
    let daemon = place.start_with(&config("day", "1d"));
    place.wait_until_messages(&["young"]);
    daemon.stop();
}

/// Without a confirming record the clock is not trusted, and expired tables stay.
#[test]
fn nothing_is_dropped_on_the_word_of_the_clock_alone() {
    let place = Place::new();
    place.write("app.log", &[aged(5 * HOUR, "old")]);
    let daemon = place.start_with(&config("hour", "30d"));
    place.wait_for_messages(&["old".into()]);
    daemon.stop();
    let daemon = place.start_with(&config("hour", "1h"));
    let runs = || daemon.metric("daytable_lifecycle_runs_total");
    wait_for("three runs", PATIENCE, || runs().filter(|runs| *runs >= 3.0));
    place.wait_for_messages(&["old".into()]);
    // A record with the present time confirms the clock.
    place.write("app.log", &[aged(Duration::ZERO, "young")]);
    place.wait_until_messages(&["young"]);
    daemon.stop();
}

/// A reader of a table during its drop gets records, or an error with the reason: no partial line, no crash.
#[test]
fn a_reader_during_the_drop_ends_clean() {
    let place = Place::new();
    let time = now();
    let padding = "x".repeat(200);
    let lines: Vec<String> = (0..50_000).map(|n| format!("{time} INFO line {n} {padding}")).collect();
    place.write("app.log", &lines);
    let daemon = place.start_with(&config("day", "30d"));
    wait_for("all is read", PATIENCE, || {
        (daemon.metric("daytable_records_committed_total") == Some(50_000.0)).then_some(())
    });
    let table = place.json("query", &["-n", "1"])[0]["table"].as_str().expect("a table").to_owned();
    let mut query = place.command("query");
    query.args(["-n", "50000", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = query.spawn().expect("run");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    // The reader is inside the table now, blocked by its full pipe.
    let first: Value = serde_json::from_str(&lines.next().expect("a line").expect("read")).expect("a record");
    assert!(message_of(&first).starts_with("line"));
    place.said("drop", &["-y", &table]);
    assert_eq!(place.records().len(), 0, "whoever comes later finds nothing");
    let mut read = 1;
    for line in lines {
        let record: Value = serde_json::from_str(&line.expect("read")).expect("a whole record");
        assert_eq!(record["table"], table.as_str());
        read += 1;
    }
    let output = child.wait_with_output().expect("ended");
    let error = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => assert!(error.is_empty() && read <= 50_000, "{error}"),
        Some(66) => assert!(error.contains(&table) && error.contains("gone"), "{error}"),
        _ => panic!("{}: {error}", output.status),
    }
    daemon.stop();
}
