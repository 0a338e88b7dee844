//! Entries that a client of Loki's protocol pushes again are stored once, after whatever the client did not hear.

use crate::place::{DAYTABLE, Daemon, Place};
use crate::push::{media, post};
use prost::Message;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;

const PUSH: &str = "/loki/api/v1/push";
const HTTP: &str = "[http]\nlisten = \"127.0.0.1:0\"\n";
const REPEATED: &str = "daytable_push_entries_repeated_total{source=\"http/loki\"}";

#[derive(Clone, PartialEq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(message, optional, tag = "1")]
    time: Option<Time>,
    #[prost(string, tag = "2")]
    line: String,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct Stream {
    #[prost(string, tag = "1")]
    labels: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<Stream>,
}

/// The value of the label `app`, the nanoseconds, the line, and a value of metadata.
type Pushed = (&'static str, i64, String, Option<&'static str>);

fn entry(app: &'static str, nanos: i64, line: &str) -> Pushed {
    (app, nanos, line.to_owned(), None)
}

fn as_json(entries: &[Pushed]) -> Vec<u8> {
    let value = |(_, nanos, line, user): &Pushed| match user {
        Some(user) => json!([nanos.to_string(), line, { "user": user }]),
        None => json!([nanos.to_string(), line]),
    };
    let streams =
        entries.iter().map(|entry| json!({ "stream": { "app": entry.0, "host": "h" }, "values": [value(entry)] }));
    json!({ "streams": streams.collect::<Vec<Value>>() }).to_string().into_bytes()
}

fn as_protobuf(entries: &[Pushed]) -> Vec<u8> {
    let mut streams: BTreeMap<&str, Vec<Entry>> = BTreeMap::new();
    for (app, nanos, line, user) in entries {
        let (seconds, nanos) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
        streams.entry(app).or_default().push(Entry {
            time: Some(Time { seconds, nanos: i32::try_from(nanos).expect("below a second") }),
            line: line.clone(),
            metadata: user.iter().map(|user| Pair { name: "user".into(), value: (*user).into() }).collect(),
        });
    }
    // In another order than that of the JSON's names.
    let labels = |app| format!("{{host=\"h\", app={app:?}}}");
    let streams = streams.into_iter().map(|(app, entries)| Stream { labels: labels(app), entries });
    let message = Request { streams: streams.collect() }.encode_to_vec();
    snap::raw::Encoder::new().compress_vec(&message).expect("memory")
}

fn push_json(daemon: &Daemon, entries: &[Pushed]) {
    assert_eq!(post(daemon.address(), PUSH, &media("application/json"), &as_json(entries)).status, 204);
}

fn push_protobuf(daemon: &Daemon, entries: &[Pushed]) {
    let answer = post(daemon.address(), PUSH, &media("application/x-protobuf"), &as_protobuf(entries));
    assert_eq!(answer.status, 204, "{answer:?}");
}

/// Nanoseconds of today, so that no retention matters.
fn now() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    i64::try_from(since.as_nanos()).expect("before 2262") / 1_000_000_000 * 1_000_000_000
}

/// Entries of every shape.
fn corpus(now: i64) -> Vec<Pushed> {
    let mut entries = vec![
        entry("web", now, "plain text"),
        entry("web", now + 1, "plain text"),
        entry("web", now + 100, "plain text"),
        entry("shop", now, "plain text"),
        entry("web", now, r#"{"level":"warn","msg":"a \"quoted\" one","n":1e5,"deep":{"a":[1]}}"#),
        entry("web", now, "level=info msg=\"logfmt\" took=1.50s"),
        entry("web", now + 7, "ends in a newline\n"),
        entry("web", now + 7, "ends in a newline"),
        entry("web", now + 8, ""),
        entry("web", now + 9, "many lines\n\tat one\n\tat two"),
        entry("web", now + 10, "café \u{1f980} \u{7}"),
        entry("web", now + 11, &"long ".repeat(20_000)),
        entry("web", now + 12, "2026-01-02T03:04:05Z ERROR with a time of its own"),
        entry("web", now + 13, r#"10.0.0.1 - - [02/Jan/2026:03:04:05 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#),
    ];
    let many: String = (0..300).map(|n| format!(",\"k{n}\":{n}")).collect();
    entries.push(entry("web", now + 14, &format!("{{\"msg\":\"many fields\"{many}}}")));
    entries.push(("web", now + 15, "with metadata".into(), Some("ann")));
    entries
}

fn assert_stored(place: &Place, count: usize) {
    let records = place.records();
    assert_eq!(records.len(), count, "{records:#?}");
    place.assert_no_key_twice();
}

#[test]
fn a_repeated_entry_adds_nothing() {
    let place = Place::new();
    let daemon = place.start_with(HTTP);
    let now = now();
    let corpus = corpus(now);
    assert_eq!(daemon.metric(REPEATED), Some(0.0));
    push_json(&daemon, &corpus);
    assert_stored(&place, corpus.len());
    assert_eq!(daemon.metric(REPEATED), Some(0.0), "entries that differ in one nanosecond, one byte or one label");
    push_json(&daemon, &corpus);
    push_protobuf(&daemon, &corpus);
    assert_stored(&place, corpus.len());
    assert_eq!(daemon.metric(REPEATED), Some(2.0 * corpus.len() as f64));

    // Twice in one body, late without being a repeat, and other metadata.
    let late = entry("web", now - 3_000_000_000, "late");
    push_protobuf(&daemon, &[late.clone(), entry("web", now - 2_000_000_000, "late"), late]);
    push_json(&daemon, &[("web", now + 15, "with metadata".into(), Some("bob"))]);
    assert_stored(&place, corpus.len() + 2);
    let users: Vec<Value> = place.records().iter().filter_map(|record| record.get("user").cloned()).collect();
    assert_eq!(users, ["ann"], "the first entry counts");
    assert_eq!(daemon.metric(REPEATED), Some(2.0 * corpus.len() as f64 + 2.0));

    // The store decides where the memory is gone.
    daemon.stop();
    let daemon = place.start_with(HTTP);
    push_protobuf(&daemon, &corpus);
    daemon.kill();
    let daemon = place.start_with(HTTP);
    push_json(&daemon, &corpus);
    push_json(&daemon, &[entry("web", now - 1, "new, and late"), entry("web", now + 1_000_000_000, "new")]);
    assert_stored(&place, corpus.len() + 4);
    assert_eq!(daemon.metric(REPEATED), Some(corpus.len() as f64));
    daemon.stop();
    let verified = place.ask("verify", &[]);
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn bodies_that_come_at_once_are_stored_once() {
    let place = Place::new();
    let daemon = place.start_with(HTTP);
    let (now, body) = (now(), 50);
    let entries: Vec<Pushed> = (0..body).map(|n| entry("web", now + n / 2, &format!("entry {n}"))).collect();
    for round in 0..5 {
        let entries: Vec<Pushed> = entries
            .iter()
            .map(|(app, nanos, line, user)| (*app, *nanos, format!("{line} of {round}"), *user))
            .collect();
        std::thread::scope(|scope| {
            for sender in 0..8 {
                let (daemon, entries) = (&daemon, &entries);
                scope.spawn(move || match sender % 2 {
                    0 => push_json(daemon, entries),
                    _ => push_protobuf(daemon, entries),
                });
            }
        });
    }
    assert_stored(&place, 5 * entries.len());
    assert_eq!(daemon.metric(REPEATED), Some(5.0 * 7.0 * entries.len() as f64));
    daemon.stop();
    assert!(place.ask("verify", &[]).status.success());
}

/// An entry whose day is over goes to today's table, and its repeat finds it there. Files have lines, not entries.
#[test]
fn an_entry_of_an_expired_day_is_stored_once() {
    let place = Place::new();
    let config = format!("{HTTP}[[table]]\nname = \"Log\"\nkeep = \"1d\"\n[[tail]]\ninclude = [\"LOGS/*.log\"]\n");
    let old = vec![entry("web", now() - 20 * 86_400_000_000_000, "old")];
    for _ in 0..2 {
        let daemon = place.start_with(&config);
        push_json(&daemon, &old);
        push_protobuf(&daemon, &old);
        daemon.stop();
    }
    assert_stored(&place, 1);
    place.write("a.log", &["equal".to_owned(), "equal".to_owned()]);
    let daemon = place.start_with(&config);
    crate::place::wait_for("both lines", crate::place::PATIENCE, || (place.records().len() == 3).then_some(()));
    daemon.stop();
}

/// Secrets are replaced before entries are compared, and what is stored has none of them.
#[test]
fn a_repeat_with_a_secret_is_found() {
    let place = Place::new();
    let entries = vec![
        entry("web", now(), "Authorization: Bearer abcdefghijklmnop"),
        entry("web", now() + 1, r#"{"msg":"Authorization: Bearer abcdefghijklmnop","n":1}"#),
    ];
    for _ in 0..2 {
        let config = place.configure(HTTP);
        let text = std::fs::read_to_string(&config).expect("a configuration");
        std::fs::write(&config, format!("redact = [\"bearer-token\"]\n{text}")).expect("written");
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(config);
        let daemon = place.spawn_command(command);
        daemon.wait_ready();
        push_json(&daemon, &entries);
        push_protobuf(&daemon, &entries);
        daemon.stop();
    }
    assert_stored(&place, 2);
    assert!(place.records().iter().all(|record| !record.to_string().contains("abcdefghijklmnop")));
}

/// The client did not hear the answer, and does not know whether the commit happened.
#[cfg(feature = "failpoints")]
#[test]
fn a_push_without_an_answer_is_repeated_whichever_part_of_its_commit_is_the_last() {
    for point in ["commit-between:1", "commit-after:1", "commit-between:3", "commit-after:3"] {
        let place = Place::new();
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(place.configure(HTTP)).env("DAYTABLE_FAILPOINT", point);
        let mut daemon = place.spawn_command(command);
        daemon.wait_ready();
        let now = now();
        let bodies: Vec<Vec<Pushed>> = (0..4)
            .map(|body| (0..20).map(|n| entry("web", now + body * 1000 + n, &format!("entry {n} of {body}"))).collect())
            .collect();
        let to = daemon.address();
        let mut unanswered = Vec::new();
        for body in &bodies {
            let stream = std::net::TcpStream::connect(to);
            let answer = stream.and_then(|stream| {
                crate::client::over(stream, "POST", PUSH, &media("application/json"), &as_json(body))
            });
            if !answer.is_ok_and(|answer| answer.status == 204) {
                unanswered.push(body);
            }
        }
        assert!(!daemon.ended().success(), "{point} was not reached");
        assert!(!unanswered.is_empty(), "nobody was left without an answer");
        drop(daemon);
        let daemon = place.start_with(HTTP);
        unanswered.iter().for_each(|body| push_json(&daemon, body));
        assert_stored(&place, 80);
        let is_committed = point.starts_with("commit-after");
        assert_eq!(daemon.metric(REPEATED), Some(if is_committed { 20.0 } else { 0.0 }), "{point}");
        daemon.stop();
        assert!(place.ask("verify", &[]).status.success());
    }
}
