//! When a record arrived: a sender with a wrong clock is seen by `_arrived`, whatever becomes of its records, and a right
//! clock leaves no trace.

use crate::forward::{Central, Host};
use crate::place::{Daemon, PATIENCE, Place, installed, message_of, wait_for};
use crate::push::{media, post};
use crate::syslog::{address, block, by_message};
use daytable_model::time::{Ticks, now};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// In the order of arrival, oldest first.
const IN_ORDER: &str = "* | sort by (_arrived) | fields message";
/// Whose clock is off, and by how much.
const WHOSE: &str = "* | math round(_arrived - _time, 1m) as off | filter off:!=0 \
                     | stats by (instance) count() n, min(off) least, max(off) most \
                     | format \"<duration:least>\" as least | format \"<duration:most>\" as most";

/// The time that a text is.
fn time_of(text: &str) -> Ticks {
    let start = daytable_logsql::moment::absolute(text).map(|(start, _)| start);
    start.and_then(Ticks::new).unwrap_or_else(|| panic!("{text} is no time"))
}

/// Sends one message, with a time as the clock of the sender has it, and waits until it is stored.
fn send(place: &Place, to: &mut TcpStream, host: &str, time: Ticks, message: &str) {
    to.write_all(format!("<14>1 {time} {host} app - - - {message}\n").as_bytes()).expect("sent");
    by_message(place, message);
}

/// Messages of a host with a right clock and of one that is two hours behind, one after the other. Returns their texts in
/// this order.
fn send_from_both(place: &Place, daemon: &Daemon) -> Vec<String> {
    let mut senders =
        ["right", "behind"].map(|host| (host, TcpStream::connect(address(daemon, "in")).expect("connected")));
    let mut sent = Vec::new();
    for n in 0..4 {
        for (host, stream) in &mut senders {
            let behind = if *host == "behind" { 2 * HOUR } else { Duration::ZERO };
            let message = format!("{host} {n}");
            send(place, stream, host, now().minus(behind), &message);
            sent.push(message);
        }
    }
    sent
}

/// Asks for the order of arrival, and for the clock that is off.
fn assert_seen(place: &Place, sent: &[String], arguments: &[&str], when: &str) {
    let ask = |query: &str| place.json("query", &[&[query], arguments].concat());
    let found: Vec<String> = ask(IN_ORDER).iter().map(message_of).collect();
    assert_eq!(found, sent, "{when}");
    let newest: Vec<String> =
        ask("* | sort by (_arrived desc) limit 3 | fields message").iter().map(message_of).collect();
    assert_eq!(newest, sent.iter().rev().take(3).cloned().collect::<Vec<_>>(), "{when}");
    let by_time: Vec<String> = ask("* | sort by (time) | fields message").iter().map(message_of).collect();
    assert!(by_time[..4].iter().all(|message| message.starts_with("behind")), "{when}: {by_time:?}");
    assert_eq!(ask(WHOSE), [json!({"instance": "behind", "n": 4, "least": "2h", "most": "2h"})], "{when}");
    for (query, count) in [
        ("_time:1h", 4),
        ("_arrived:1h", 8),
        ("_arrived:>=now-1h _time:<now-1h", 4),
        ("_arrived:<now-1h", 0),
        ("_arrived:1h instance:=behind", 4),
        ("!_arrived:1h or _arrived:offset 1h", 0),
    ] {
        assert_eq!(ask(&format!("{query} | stats count() n")), [json!({"n": count})], "{when}: {query}");
    }
    let by_hour: u64 =
        ask("* | stats by (_arrived:1h) count() n").iter().map(|row| row["n"].as_u64().expect("a number")).sum();
    assert_eq!(by_hour, 8, "{when}");
    if arguments.is_empty() {
        let counts = in_sql(place, "select count(Arrived) as n, count(*) as records from logs");
        assert_eq!(counts, json!([{"n": 4, "records": 8}]), "{when}");
    }
    // A record that is shown whole has its arrival where it was kept, and nobody lists it among the fields.
    for record in ask("*") {
        assert_eq!(
            record.get("_arrived").is_some(),
            record["instance"] == "behind" || record["partition_key"] == "behind"
        );
    }
    let names = ask("* | field_names");
    assert!(names.iter().all(|row| !row["name"].to_string().to_lowercase().contains("arrived")), "{when}: {names:?}");
}

/// The answer in SQL, of the days that are not archived alone.
fn in_sql(place: &Place, statement: &str) -> Value {
    let bin = installed("target/venv/bin/duckdb");
    let path = format!("{}:/usr/bin:/bin", bin.parent().expect("a folder").display());
    let output = place.command("sql").args(["--json", statement]).env("PATH", path).output().expect("run");
    assert!(output.status.success(), "{statement}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn wait_state(place: &Place, table: &Value, wanted: &str) {
    wait_for(&format!("{table} is {wanted}"), PATIENCE, || {
        let shown = place.json("tables", &[]).into_iter().find(|shown| shown["table"] == *table);
        (shown.as_ref().map_or("dropped", |shown| shown["state"].as_str().unwrap_or_default()) == wanted).then_some(())
    });
}

/// The hours of the sender that is behind are over, so they are sealed, archived and dropped while those of the other one
/// are open.
#[test]
fn a_sender_two_hours_behind_is_seen_in_open_sealed_and_archived_days() {
    let place = Place::new();
    let config = |lifecycle: &str, keep: &str| {
        format!(
            "{lifecycle}[[table]]\nname = \"Log\"\nkeep = \"{keep}\"\nperiod = \"hour\"\narchive = \"file://{}\"\n{}",
            place.path("archive").display(),
            block("in", "tcp://127.0.0.1:0", "")
        )
    };
    let at_once = "[lifecycle]\nschedule = \"* * * * * *\"\ngrace = \"0s\"\nseal_after = \"0s\"\nmin_tables = 0\n";
    let daemon = place.start_with(&config("", "30d"));
    let sent = send_from_both(&place, &daemon);
    assert_seen(&place, &sent, &[], "open");
    let behind = place.json("query", &["instance:=behind"]).remove(0)["table"].clone();
    daemon.stop();

    let daemon = place.start_with(&config(at_once, "30d"));
    wait_state(&place, &behind, "archived");
    assert_seen(&place, &sent, &[], "sealed");
    daemon.stop();

    let daemon = place.start_with(&config(at_once, "30m"));
    wait_state(&place, &behind, "dropped");
    let path = place.path("daytable.toml").display().to_string();
    assert_seen(&place, &sent, &["--config", &path], "archived");
    place.said("restore", &["--keep", "1d", behind.as_str().expect("a name")]);
    assert_seen(&place, &sent, &["--config", &path], "restored");
    daemon.stop();
}

/// What a host kept comes to its central daytable, which adds nothing: the records of the host are as old as it says.
#[test]
fn a_central_daytable_has_the_arrivals_of_its_hosts() {
    let central = Central::new();
    let running = central.start();
    let host = Host::joined(&central, "edge");
    host.configure(&block("in", "tcp://127.0.0.1:0", ""));
    let daemon = host.start();
    let sent = send_from_both(&host.place, &daemon);
    assert_seen(&host.place, &sent, &[], "host");
    central.place.wait_until_messages(&sent.iter().map(String::as_str).collect::<Vec<_>>());
    assert_seen(&central.place, &sent, &[], "central");
    let arrivals = |place: &Place| place.json("query", &["* | sort by (_arrived) | fields message, _arrived, time"]);
    assert_eq!(arrivals(&central.place), arrivals(&host.place));
    daemon.stop();
    running.stop();
}

/// Every protocol of pushes keeps the arrival of an old record and nothing of a young one. What is repeated keeps its first
/// arrival.
#[test]
fn pushes_keep_arrivals() {
    let place = Place::new();
    let daemon = place.start_with("[http]\nlisten = \"127.0.0.1:0\"\npush = \"open\"\n");
    let (to, began) = (daemon.address(), now());
    let nanos = |time: Ticks| time.unix_nanos();
    let json_media = media("application/json");
    for (age, time) in [("old", began.minus(2 * HOUR)), ("young", began)] {
        let ingest = format!("{}\n", json!({"time": time.to_string(), "message": format!("{age} ingest")}));
        let loki = json!({"streams": [{"stream": {"app": "shop"}, "values": [[nanos(time).to_string(), format!("{age} loki")]]}]});
        let otlp = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": [
            {"timeUnixNano": nanos(time).to_string(), "body": {"stringValue": format!("{age} otlp")}}]}]}]});
        let bulk = format!(
            "{}\n{}\n",
            json!({"create": {}}),
            json!({"@timestamp": time.to_string(), "message": format!("{age} bulk")})
        );
        for (target, media, body) in [
            ("/ingest", &media("application/x-ndjson"), ingest),
            ("/loki/api/v1/push", &json_media, loki.to_string()),
            // The same stream, nanosecond and line once more: nothing is stored.
            ("/loki/api/v1/push", &json_media, loki.to_string()),
            ("/v1/logs", &json_media, otlp.to_string()),
            ("/elasticsearch/_bulk", &json_media, bulk),
        ] {
            let answer = post(to, target, media, body.as_bytes());
            assert!((200..300).contains(&answer.status), "{target}: {answer:?}");
        }
    }
    let records = place.records();
    assert_eq!(records.len(), 8, "{records:?}");
    for record in &records {
        let is_old = message_of(record).starts_with("old");
        let arrived = record["_arrived"].as_str().map(time_of);
        assert_eq!(arrived.is_some(), is_old, "{record}");
        assert!(
            arrived.is_none_or(|arrived| began.minus(Duration::from_millis(1)) <= arrived && arrived <= now()),
            "{record}"
        );
    }
    let labels = crate::client::over_unix(daemon.socket(), "GET", "/loki/api/v1/labels", "").expect("an answer").body;
    assert!(!labels.to_lowercase().contains("arrived"), "{labels}");
    daemon.stop();
}
