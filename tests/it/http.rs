//! The HTTP listeners: authentication, open routes, and the errors of wrong requests.

use crate::client::{Answer, follow, over_tcp, over_unix};
use crate::place::{Daemon, Lines, Place, TAIL, numbered};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

const API: [&str; 4] = ["/api/query", "/api/count", "/api/tables", "/api/sources"];

fn start(place: &Place, token: Option<&str>) -> Daemon {
    let token = token.map(|token| {
        let path = place.path("token");
        fs::write(&path, format!("{token}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
        format!("token_file = \"{}\"\n", path.display())
    });
    place.start_with(&format!("[http]\nlisten = \"127.0.0.1:0\"\n{}{TAIL}", token.unwrap_or_default()))
}

fn asked(daemon: &Daemon, target: &str) -> Answer {
    over_unix(daemon.socket(), "GET", target, "").expect("an answer")
}

/// Reading over TCP needs the configured token; without a configured token reading over TCP is refused.
#[test]
fn reading_over_tcp_needs_the_token() {
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let cases = [
        (None, String::new(), 403),
        (None, bearer("s3cret"), 403),
        (Some("s3cret"), String::new(), 401),
        (Some("s3cret"), bearer("s3cret "), 200),
        (Some("s3cret"), bearer("s3cre"), 401),
        (Some("s3cret"), bearer("s3crets"), 401),
        (Some("s3cret"), "Authorization: Basic s3cret\r\n".into(), 401),
        (Some("s3cret"), "Authorization: Basic OnMzY3JldA==\r\n".into(), 200),
    ];
    for token in [None, Some("s3cret")] {
        let place = Place::new();
        let daemon = start(&place, token);
        let address = daemon.address();
        for (_, header, status) in cases.iter().filter(|(configured, ..)| *configured == token) {
            for target in API {
                let answer = over_tcp(address, "GET", target, header).expect("an answer");
                assert_eq!(answer.status, *status, "{target} {header:?} with token {token:?}: {}", answer.body);
                // Whoever sent a password hears of passwords.
                let scheme = if header.contains("Basic") { "basic" } else { "bearer" };
                let challenges = answer.head.contains(&format!("www-authenticate: {scheme} "));
                assert_eq!(challenges, *status == 401, "{}", answer.head);
                if *status == 401 && scheme == "basic" {
                    assert!(answer.body.contains("the password is wrong"), "{}", answer.body);
                }
            }
        }
        for target in ["/metrics", "/healthz", "/readyz"] {
            assert_eq!(over_tcp(address, "GET", target, "").expect("an answer").status, 200, "{target}");
        }
        daemon.stop();
    }
}

/// Routes that change something are on the unix socket alone, which only its owner can open.
#[test]
fn control_routes_are_not_on_tcp() {
    let place = Place::new();
    let daemon = start(&place, Some("s3cret"));
    for target in ["/-/drop?table=Log20200101", "/-/import"] {
        let answer = over_tcp(daemon.address(), "POST", target, "Authorization: Bearer s3cret\r\n");
        assert_eq!(answer.expect("an answer").status, 404, "{target}");
    }
    let mode = fs::metadata(daemon.socket()).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    daemon.stop();
    assert!(!place.data().join("control.sock").exists(), "the socket goes with the daemon");
}

/// The unix socket needs no token and gives the same answers as the command line.
#[test]
fn the_unix_socket_gives_the_answers_of_the_command_line() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("line", 250);
    place.write("app.log", &lines);
    place.wait_for_messages(&lines);
    let objects = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
    };
    assert_eq!(objects(&asked(&daemon, "/api/query?n=1000").body), place.records());
    assert_eq!(objects(&asked(&daemon, "/api/query").body), place.json("query", &["-n", "100"]));
    assert_eq!(objects(&asked(&daemon, "/api/query?contains=line%2024").body).len(), 11);
    let count: Value = serde_json::from_str(&asked(&daemon, "/api/count").body).expect("a document");
    assert_eq!(count[0]["records"], 250);
    // Pipes that keep what records are counted by leave the count as it is; the others are refused.
    let hits = |query: &str| -> Value {
        serde_json::from_str(&asked(&daemon, &format!("/api/hits?step=1h&q={query}")).body).expect("a document")
    };
    let filtered = hits("*%20%7C%20filter%20%22line%2024%22*");
    assert_eq!(filtered["hits"], hits("%22line%2024%22*")["hits"]);
    assert_eq!(filtered["records"], 11);
    let names = |tables: Vec<Value>| tables.iter().map(|table| table["table"].clone()).collect::<Vec<_>>();
    assert_eq!(names(objects(&asked(&daemon, "/api/tables").body)), names(place.json("tables", &[])));
    assert_eq!(objects(&asked(&daemon, "/api/sources").body)[0]["records"], 250);
    daemon.stop();
}

/// The response to a wrong request names the error.
#[test]
fn the_response_to_a_wrong_request_names_the_error() {
    let place = Place::new();
    let daemon = place.start();
    for (target, status, says) in [
        ("/api/query?n=0", 400, "parameter n: "),
        ("/api/query?n=many", 400, "parameter n: "),
        ("/api/query?since=yesteryear", 400, "parameter since: "),
        ("/api/query?level=loud", 400, "parameter level: "),
        ("/api/query?colour=red", 400, "parameter colour: "),
        ("/api/query?n=1&n=2", 400, "is given twice"),
        ("/api/count?by=mood", 400, "parameter by: "),
        ("/api/count?every=often", 400, "parameter every: "),
        (
            "/api/hits?q=*%20%7C%20stats%20count()%20n",
            400,
            "behind `| stats count(*) as n` the rows do not have the time",
        ),
        ("/api/hits?q=*%20%7C%20fields%20message", 400, "behind `| fields message` the rows do not have the time"),
        ("/api/count?by=level&q=*%20%7C%20format%20x%20as%20level", 400, "the level of records"),
        ("/api/patterns?q=*%20%7C%20stats%20count()%20n", 400, "patterns are those of records"),
        ("/api/tables?n=1", 400, "parameter n: "),
        ("/api/nothing", 404, "no such route"),
    ] {
        let answer = asked(&daemon, target);
        let error: Value = serde_json::from_str(&answer.body).expect("JSON");
        let error = error["error"].as_str().expect("an error");
        assert_eq!(answer.status, status, "{target}: {error}");
        assert!(error.contains(says), "{target}: {error}");
    }
    let answer = over_unix(daemon.socket(), "PUT", "/api/query", "").expect("an answer");
    assert_eq!(answer.status, 405);
    for body in ["", "{}", "{\"paths\": []}", "{\"paths\": [\"relative\"]}", "{\"paths\": [\"/x\"], \"more\": 1}"] {
        let answer = over_unix(daemon.socket(), "POST", "/-/import", body).expect("an answer");
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    daemon.stop();
}

/// `promtool check metrics` finds no fault, before the first record and after records of each kind.
#[test]
fn metrics_are_clean_under_promtool() {
    let place = Place::new();
    let daemon = place.start();
    check_metrics(&asked(&daemon, "/metrics").body);
    place.write("app.log", &["plain".into(), "{\"message\":\"json\"}".into(), "a=1 b=2".into()]);
    place.wait_for_messages(&["plain".into(), "json".into(), String::new()]);
    let metrics = asked(&daemon, "/metrics").body;
    check_metrics(&metrics);
    for name in ["records_received_total", "records_committed_total", "commit_seconds_count", "build_info", "tables"] {
        let name = format!("daytable_{name}");
        assert!(metrics.lines().any(|line| line.starts_with(&name)), "{name} is not there:\n{metrics}");
    }
    assert!(!metrics.contains("app.log"), "a path is no label");
    assert_eq!(daemon.metric("daytable_records_committed_total"), Some(3.0));
    daemon.stop();
}

fn check_metrics(metrics: &str) {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool =
        command.spawn().expect("promtool is there (tests/setup installs it: Debian's package prometheus)");
    promtool.stdin.take().expect("piped").write_all(metrics.as_bytes()).expect("read");
    let output = promtool.wait_with_output().expect("ended");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success() && said.trim().is_empty(), "promtool: {}\n{said}", output.status);
}

/// A follower gets every record that is committed after its response began, and no earlier record.
#[test]
fn a_follower_gets_records_from_the_start_of_its_response_on() {
    let place = Place::new();
    let daemon = place.start();
    place.write("app.log", &["before".into()]);
    place.wait_for_messages(&["before".into()]);
    let (head, lines) = follow(daemon.socket(), "/api/tail?contains=line").expect("an answer");
    assert!(head.contains("200 ok") && head.contains("text/event-stream"), "{head}");
    let written = numbered("line", 50);
    place.write("app.log", &[&written[..25], &["something else".into()], &written[25..]].concat());
    let events = lines.filter_map(|line| {
        let record: Value = serde_json::from_str(line.strip_prefix("data: ")?).expect("a record");
        Some(record["message"].as_str().expect("a message").to_owned())
    });
    let mut seen: Vec<String> = events.take(50).collect();
    seen.sort();
    let mut expected = written.clone();
    expected.sort();
    assert_eq!(seen.concat_lines(), expected.concat_lines());
    daemon.stop();
}
