//! Records of several lines: whole, once, and without a delay for records of one line.

use crate::place::{PATIENCE, Place, append, message_of, wait_for};
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// A block with a wait longer than any test.
const PATIENT: &str = "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\njoin = { wait = \"1m\" }\n";
const TRACE: &str = "\
2026-11-20 10:00:01,250 ERROR [main] com.example.Shop - order 7 failed
java.lang.IllegalStateException: no stock
\tat com.example.Stock.take(Stock.java:41)
\tat com.example.Shop.order(Shop.java:107)
Caused by: java.net.ConnectException: refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
\t... 12 more
";
/// The end of the trace in its record's message, after the fields of its first line were removed.
const REST: &str = "order 7 failed
java.lang.IllegalStateException: no stock
\tat com.example.Stock.take(Stock.java:41)
\tat com.example.Shop.order(Shop.java:107)
Caused by: java.net.ConnectException: refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
\t... 12 more";

fn line(second: u32, text: &str) -> String {
    format!("2026-11-20 10:00:{second:02},000 INFO [main] com.example.Shop - {text}\n")
}

/// Waits until the messages of all records have these ends, oldest first.
fn wait_for_ends(place: &Place, expected: &[&str]) -> Vec<Value> {
    let mut records = Vec::new();
    let is_there = |records: &[Value]| {
        records.len() == expected.len()
            && records.iter().zip(expected).all(|(record, end)| message_of(record).ends_with(end))
    };
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        records = place.try_records();
        records.reverse();
        assert!(records.len() <= expected.len(), "more than {expected:?}: {records:#?}");
        if is_there(&records) {
            return records;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{expected:?} is not what there is: {records:#?}");
}

#[test]
fn a_stack_trace_written_slowly_is_one_record_with_its_message_whole() {
    let place = Place::new();
    let daemon = place.start_with(PATIENT);
    append(&place.log("app.log"), line(0, "before").as_bytes());
    // Pieces that end anywhere. The daemon has read each of them: it reports the unread bytes.
    for piece in TRACE.as_bytes().chunks(37) {
        append(&place.log("app.log"), piece);
        let size = fs::metadata(place.log("app.log")).expect("there").len();
        wait_for("the piece was seen", PATIENCE, || {
            let unread = daemon.metric("daytable_source_lag_bytes{source=\"tail\"}")? as u64;
            let read = daemon.metric("daytable_bytes_received_total{source=\"tail\"}")? as u64;
            (unread + read == size).then_some(())
        });
    }
    append(&place.log("app.log"), line(2, "after").as_bytes());
    append(&place.log("end.log"), b"{\"time\":\"2026-11-20T10:00:03Z\",\"message\":\"end\"}\n");
    let records = wait_for_ends(&place, &["before", REST, "end"]);
    assert_eq!(records[1]["level"], "error");
    assert_eq!(records[1]["time"], "2026-11-20T10:00:01.250Z");
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn killed_in_the_middle_of_an_open_record_it_reads_that_once_and_whole() {
    let place = Place::new();
    let (first, rest) = TRACE.split_at(150);
    append(&place.log("app.log"), (line(0, "before") + first).as_bytes());
    let daemon = place.start_with(PATIENT);
    // The record is committed because the first line of the trace was read. The trace stays open.
    wait_for_ends(&place, &["before"]);
    daemon.kill();
    let daemon = place.start_with(PATIENT);
    append(&place.log("app.log"), &rest.as_bytes()[..60]);
    append(&place.log("end.log"), b"{\"time\":\"2026-11-20T10:00:09Z\",\"message\":\"end\"}\n");
    wait_for_ends(&place, &["before", "end"]);
    daemon.kill();
    append(&place.log("app.log"), &rest.as_bytes()[60..]);
    let daemon = place.start_with(PATIENT);
    append(&place.log("app.log"), line(2, "after").as_bytes());
    wait_for_ends(&place, &["before", REST, "end"]);
    daemon.stop();
    // Without the wait its last record comes, too, and no other record.
    let daemon = place.start();
    wait_for_ends(&place, &["before", REST, "after", "end"]);
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn a_stack_trace_goes_on_in_the_rotated_file() {
    let place = Place::new();
    let daemon = place.start_with(PATIENT);
    let (first, rest) = TRACE.split_at(150);
    append(&place.log("app.log"), (line(0, "before") + first).as_bytes());
    wait_for_ends(&place, &["before"]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    append(&place.log("app.log.1"), rest.as_bytes());
    append(&place.log("app.log"), (line(2, "after") + &line(3, "last")).as_bytes());
    // After five seconds of quiet the rotated file is final, and so is its open record.
    wait_for_ends(&place, &["before", REST, "after"]);
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn lines_of_a_container_are_joined_by_stream() {
    let place = Place::new();
    let daemon = place.start_with(PATIENT);
    let cri = |n: u32, stream: &str, tag: &str, text: &str| {
        format!("2026-11-20T10:00:{:02}.{:03}000000Z {stream} {tag} {text}\n", n / 10, n % 10 * 100)
    };
    let mut text = String::new();
    for (n, trace) in (0..).zip(TRACE.lines()) {
        text += &cri(2 * n, "stderr", "F", trace);
        text += &cri(2 * n + 1, "stdout", if n % 2 == 0 { "P" } else { "F" }, &format!("line {n},"));
    }
    text += &cri(20, "stderr", "F", "2026-11-20 10:00:05,000 INFO [main] com.example.Shop - after");
    append(&place.log("pod.log"), text.as_bytes());
    let records = wait_for("the trace", PATIENCE, || {
        let records = place.try_records();
        records.iter().any(|record| message_of(record).ends_with(REST)).then_some(records)
    });
    for record in &records {
        let message = message_of(record);
        assert!(message.contains("line") != message.contains("com.example"), "{message}");
    }
    let joined = records.iter().filter(|record| message_of(record) == "line 0,line 1,").count();
    assert_eq!(joined, 1, "{records:#?}");
    daemon.stop();
}

#[test]
fn an_open_record_is_committed_after_the_wait() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), TRACE.as_bytes());
    let records = wait_for_ends(&place, &[REST]);
    append(&place.log("app.log"), b"\tat late.Line(Late.java:1)\n");
    let later = wait_for_ends(&place, &[REST, "\tat late.Line(Late.java:1)"]);
    assert_eq!(later[0], records[0], "what is committed is not written again");
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn a_restart_keeps_what_was_learnt() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("table.log"), b"time,level,user,message\n");
    append(&place.log("table.log"), b"2026-11-20T10:00:01Z,info,anna,one\n2026-11-20T10:00:02Z,warn,bert,two\n");
    wait_for("the table", PATIENCE, || (place.try_records().len() >= 2).then_some(()));
    daemon.kill();
    let daemon = place.start();
    // A header alone does not confirm the format of its parts.
    append(&place.log("table.log"), b"2026-11-20T10:00:03Z,error,carl,three\n");
    let record = wait_for("the last line", PATIENCE, || {
        place.try_records().into_iter().find(|record| record.to_string().contains("three"))
    });
    assert_eq!(
        (&record["user"], &record["level"], &record["message"]),
        (&"carl".into(), &"error".into(), &"three".into())
    );
    daemon.stop();
}

#[test]
fn what_is_open_is_behind_and_nothing_else_is() {
    let place = Place::new();
    let daemon = place.start_with(PATIENT);
    append(&place.log("app.log"), line(0, "before").as_bytes());
    let lag = || daemon.metric("daytable_source_lag_seconds{source=\"tail\"}");
    wait_for("it is behind for a while", PATIENCE, || lag().filter(|seconds| (1.0..60.0).contains(seconds)));
    append(&place.log("app.log"), b"{\"message\":\"alone\"}\n");
    wait_for("nothing is unread", PATIENCE, || lag().filter(|seconds| *seconds == 0.0));
    daemon.stop();
}

#[test]
fn a_record_of_one_line_does_not_wait() {
    let place = Place::new();
    let daemon = place.start_with(PATIENT);
    let lines: [(&str, &[u8]); 3] = [
        ("json.log", b"{\"time\":\"2026-11-20T10:00:01Z\",\"message\":\"json\"}\n"),
        ("logfmt.log", b"time=2026-11-20T10:00:02Z level=info msg=logfmt\n"),
        ("access.log", b"192.0.2.1 - - [20/Nov/2026:10:00:03 +0000] \"GET /x HTTP/1.1\" 200 5\n"),
    ];
    for (name, line) in lines {
        append(&place.log(name), line);
    }
    // The wait is a minute, like a test's patience, which would not cover three waits.
    wait_for("three records", Duration::from_secs(20), || (place.try_records().len() == 3).then_some(()));
    daemon.stop();
}
