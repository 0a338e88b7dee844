//! OTLP out: a backend has every record at least once, whatever it answers and whatever is killed, and what it refuses is counted
//! and named.

use crate::authority::certificates;
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, append, installed, message_of, numbered, wait_for};
use crate::server::next_request;
use prost::Message;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The messages of OTLP, as another implementation of protocol buffers reads them.
mod schema {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Request {
        #[prost(message, repeated, tag = "1")]
        pub(super) resource_logs: Vec<ResourceLogs>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ResourceLogs {
        #[prost(message, optional, tag = "1")]
        pub(super) resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub(super) scope_logs: Vec<ScopeLogs>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(super) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ScopeLogs {
        #[prost(message, repeated, tag = "2")]
        pub(super) log_records: Vec<LogRecord>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct LogRecord {
        #[prost(fixed64, tag = "1")]
        pub(super) time: u64,
        #[prost(int32, tag = "2")]
        pub(super) severity: i32,
        #[prost(string, tag = "3")]
        pub(super) severity_text: String,
        #[prost(message, optional, tag = "5")]
        pub(super) body: Option<AnyValue>,
        #[prost(message, repeated, tag = "6")]
        pub(super) attributes: Vec<KeyValue>,
        #[prost(fixed64, tag = "11")]
        pub(super) observed: u64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct KeyValue {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(message, optional, tag = "2")]
        pub(super) value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct AnyValue {
        #[prost(oneof = "AnyKind", tags = "1, 2, 3, 4, 7")]
        pub(super) value: Option<AnyKind>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum AnyKind {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(bool, tag = "2")]
        Boolean(bool),
        #[prost(int64, tag = "3")]
        Int64(i64),
        #[prost(double, tag = "4")]
        Double(f64),
        #[prost(bytes, tag = "7")]
        Bytes(Vec<u8>),
    }
}

use schema::AnyKind;

/// A record as the collector has it.
#[derive(Clone, Debug, PartialEq)]
struct Collected {
    body: String,
    severity: i32,
    time: u64,
    observed: u64,
    attributes: BTreeMap<String, AnyKind>,
    resource: BTreeMap<String, AnyKind>,
}

impl Collected {
    fn text(&self, name: &str) -> &str {
        match self.attributes.get(name).or_else(|| self.resource.get(name)) {
            Some(AnyKind::Text(text)) => text,
            other => panic!("{name}: {other:?} in {self:?}"),
        }
    }
}

/// What the collector does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reply {
    /// Takes the records.
    Take,
    /// Takes the records, and says that it rejected so many of them.
    Reject(i64),
    /// This status, with these headers and this body, without an effect.
    Status(u16, &'static str, &'static str),
    /// Ends the connection without an effect.
    Cut,
    /// Takes the records, and ends the connection instead of an answer.
    LoseAnswer,
}

/// A request as it came.
struct Asked {
    head: String,
    /// Not compressed any more.
    body: Vec<u8>,
    records: Vec<Collected>,
}

type Plan = Box<dyn FnMut(usize, &Asked) -> Reply + Send>;

struct Collector {
    port: u16,
    state: Arc<Mutex<State>>,
}

struct State {
    plan: Plan,
    /// Requests with records.
    requests: usize,
    last_head: String,
    last_body: Vec<u8>,
    taken: Vec<Collected>,
}

impl Collector {
    fn start(plan: impl FnMut(usize, &Asked) -> Reply + Send + 'static) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let plan: Plan = Box::new(plan);
        let state = State { plan, requests: 0, last_head: String::new(), last_body: Vec::new(), taken: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Collector { port, state }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn plan(&self, plan: impl FnMut(usize, &Asked) -> Reply + Send + 'static) {
        self.lock().plan = Box::new(plan);
    }

    fn requests(&self) -> usize {
        self.lock().requests
    }

    /// The copies of each record, by what names it.
    fn copies(&self) -> BTreeMap<String, usize> {
        let mut copies = BTreeMap::new();
        for record in &self.lock().taken {
            *copies.entry(record.text("log.record.uid").to_owned()).or_default() += 1;
        }
        copies
    }

    fn bodies(&self) -> Vec<String> {
        let mut bodies: Vec<String> = self.lock().taken.iter().map(|record| record.body.clone()).collect();
        bodies.sort();
        bodies
    }
}

fn collected(body: &[u8]) -> Vec<Collected> {
    let request = schema::Request::decode(body).expect("a request of OTLP");
    let pairs = |pairs: &[schema::KeyValue]| -> BTreeMap<String, AnyKind> {
        let all =
            pairs.iter().map(|pair| (pair.key.clone(), pair.value.clone().and_then(|any| any.value).expect("a value")));
        let map: BTreeMap<_, _> = all.collect();
        assert_eq!(map.len(), pairs.len(), "a name twice: {pairs:?}");
        map
    };
    let mut found = Vec::new();
    for logs in &request.resource_logs {
        let resource = pairs(&logs.resource.clone().expect("a resource").attributes);
        for record in logs.scope_logs.iter().flat_map(|scope| &scope.log_records) {
            let body = match record.body.clone().and_then(|any| any.value) {
                Some(AnyKind::Text(text)) => text,
                None => String::new(),
                other => panic!("{other:?}"),
            };
            found.push(Collected {
                body,
                severity: record.severity,
                time: record.time,
                observed: record.observed,
                attributes: pairs(&record.attributes),
                resource: resource.clone(),
            });
        }
    }
    found
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    // A sender that was killed ends in the middle of one.
    while let Some((head, mut body)) = next_request(&mut reader) {
        if head.to_ascii_lowercase().contains("content-encoding: gzip") {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(body.as_slice()).read_to_end(&mut plain).expect("gzip");
            body = plain;
        }
        assert!(head.to_ascii_lowercase().contains("content-type: application/x-protobuf"), "{head}");
        let asked = Asked { records: collected(&body), head, body };
        let reply = {
            let mut state = state.lock().expect("no panic");
            let number = state.requests;
            let reply = (state.plan)(number, &asked);
            if !asked.records.is_empty() {
                state.requests += 1;
            }
            if matches!(reply, Reply::Take | Reply::Reject(_) | Reply::LoseAnswer) {
                state.taken.extend(asked.records.iter().cloned());
            }
            (state.last_head, state.last_body) = (asked.head.clone(), asked.body.clone());
            reply
        };
        let (status, headers, body) = match reply {
            Reply::Cut | Reply::LoseAnswer => return,
            Reply::Status(status, headers, body) => (status, headers, body.as_bytes().to_vec()),
            Reply::Take => (200, "Content-Type: application/x-protobuf\r\n", Vec::new()),
            Reply::Reject(count) => {
                let reason = b"too old for us";
                let count = u8::try_from(count).expect("few");
                let part = [&[0x08, count, 0x12, reason.len() as u8][..], reason].concat();
                let answer = [&[0x0a, part.len() as u8][..], &part].concat();
                (200, "Content-Type: application/x-protobuf\r\n", answer)
            }
        };
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        if stream.write_all(&[answer.as_bytes(), &body].concat()).is_err() {
            return;
        }
    }
}

/// The configuration of a host that sends to a backend.
fn config(port: u16, more: &str) -> String {
    format!(
        "host = \"web-1\"\n[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"shop\"\n\
         [[forward]]\nto = \"otlp+http://127.0.0.1:{port}\"\n{more}"
    )
}

/// `host` is a key of the top, so it stands before the others.
fn configured(place: &Place, config: &str) -> std::path::PathBuf {
    let (host, rest) = config.split_once('\n').expect("lines");
    let path = place.configure(rest);
    let text = fs::read_to_string(&path).expect("the configuration");
    fs::write(&path, format!("{host}\n{text}")).expect("written");
    path
}

fn spawn(place: &Place, config: &str) -> Daemon {
    let mut run = Command::new(DAYTABLE);
    run.arg("run").arg("--config").arg(configured(place, config));
    place.spawn_command(run)
}

fn start(place: &Place, config: &str) -> Daemon {
    let daemon = spawn(place, config);
    daemon.wait_ready();
    daemon
}

/// What names the records of a place.
fn uids(place: &Place) -> BTreeMap<String, String> {
    let uid = |record: &Value| {
        let text = |name: &str| record[name].as_str().expect("a key").to_owned();
        (format!("{}/{}", text("partition_key"), text("row_key")), message_of(record))
    };
    place.try_records().iter().map(uid).collect()
}

/// Waits until the collector has all records of the place, and returns how many copies it has of each.
fn wait_for_all(place: &Place, collector: &Collector, expected: usize) -> BTreeMap<String, usize> {
    wait_for("the host has read its files", PATIENCE, || (uids(place).len() == expected).then_some(()));
    let wanted = uids(place);
    wait_for("the collector has all records", PATIENCE, || {
        let copies = collector.copies();
        assert!(copies.keys().all(|uid| wanted.contains_key(uid)), "nobody wrote some of {copies:?}");
        (copies.len() == wanted.len()).then_some(copies)
    })
}

fn status(place: &Place) -> Value {
    let status = place.json("status", &[]).remove(0);
    status["forwards"][0].clone()
}

#[test]
fn a_collector_has_each_record_with_its_parts() {
    let collector = Collector::start(|_, _| Reply::Take);
    let place = Place::new();
    fs::write(place.path("headers"), "# of the tenant\nAuthorization: Bearer c2VjcmV0\nX-Scope: logs\n")
        .expect("written");
    let headers = format!("headers_file = \"{}\"\n", place.path("headers").display());
    let daemon = start(&place, &config(collector.port, &headers));
    place.write("app.log", &[
        "2026-11-21T08:00:00.1234567Z ERROR disk full path=/srv free=0 ratio=0.5 ok=false".into(),
        format!("{{\"time\":\"2026-11-21T08:00:01Z\",\"level\":\"info\",\"msg\":\"paid\",\"n\":7,\"x\":1.5,\"yes\":true,\"trace_id\":\"{}\",\"span_id\":\"00f067aa0ba902b7\",\"k8s.pod.name\":\"pay-1\",\"host\":\"db-7\",\"text\":\"é\"}}", "4bf92f3577b34da6a3ce929d0e0e4736"),
    ]);
    append(&place.log("long.log"), format!("2026-11-21T08:00:02Z INFO {}\n", "long ".repeat(20_000)).as_bytes());
    wait_for_all(&place, &collector, 3);
    let taken = collector.lock().taken.clone();
    let by_body = |part: &str| taken.iter().find(|record| record.body.contains(part)).expect(part).clone();
    let disk = by_body("disk full");
    assert_eq!(disk.severity, 17);
    assert_eq!(disk.time, 1_795_248_000_123_456_700);
    assert!(disk.observed > disk.time, "{disk:?}");
    assert_eq!(disk.attributes["free"], AnyKind::Int64(0));
    assert_eq!(disk.attributes["ratio"], AnyKind::Double(0.5));
    assert_eq!(disk.attributes["ok"], AnyKind::Boolean(false));
    assert_eq!(
        (disk.text("service.name"), disk.text("host.name"), disk.text("daytable.table")),
        ("shop", "web-1", "Log")
    );
    assert_eq!(disk.text("log.file.path"), place.log("app.log").display().to_string());
    let paid = by_body("paid");
    assert_eq!((paid.attributes["n"].clone(), paid.attributes["x"].clone()), (AnyKind::Int64(7), AnyKind::Double(1.5)));
    assert_eq!((paid.text("k8s.pod.name"), paid.text("host.name"), paid.text("text")), ("pay-1", "db-7", "é"));
    assert!(!paid.attributes.contains_key("trace_id") && !paid.attributes.contains_key("span_id"), "{paid:?}");
    // A record of several rows is one record.
    assert_eq!(by_body("long long").body.len(), "long ".len() * 20_000);
    let head = collector.lock().last_head.to_ascii_lowercase();
    for line in ["post /v1/logs ", "content-encoding: gzip", "authorization: bearer c2vjcmv0", "x-scope: logs"] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let said = daemon.said();
    assert!(!said.contains("c2VjcmV0"), "{said}");
    wait_for("the lag is gone", PATIENCE, || (status(&place)["behind_records"] == 0).then_some(()));
    let to = format!("daytable_forward_records_total{{to=\"otlp+http://127.0.0.1:{}\"}}", collector.port);
    assert_eq!(daemon.metric(&to), Some(3.0));
    daemon.stop();
    // What was delivered is not sent again.
    let requests = collector.requests();
    let daemon = start(&place, &config(collector.port, &headers));
    place.write("app.log", &["2026-11-21T08:00:03Z INFO the last".into()]);
    let copies = wait_for_all(&place, &collector, 4);
    assert!(copies.values().all(|copies| *copies == 1), "{copies:?}");
    assert_eq!(collector.requests(), requests + 1);
    daemon.stop();
}

#[test]
fn googles_protocol_buffers_read_the_requests() {
    let collector = Collector::start(|_, _| Reply::Take);
    let place = Place::new();
    let daemon = start(&place, &config(collector.port, ""));
    place.write(
        "app.log",
        &["{\"time\":\"2026-11-21T08:00:00Z\",\"level\":\"warn\",\"msg\":\"slow\",\"took\":7,\"é\":\"ü\"}".into()],
    );
    wait_for_all(&place, &collector, 1);
    daemon.stop();
    let body = collector.lock().last_body.clone();
    fs::write(place.path("body"), body).expect("written");
    let script = "import sys
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
request = ExportLogsServiceRequest()
request.ParseFromString(open(sys.argv[1], 'rb').read())
[logs] = request.resource_logs
[scope] = logs.scope_logs
[record] = scope.log_records
resource = {pair.key: pair.value.string_value for pair in logs.resource.attributes}
attributes = {pair.key: pair.value for pair in record.attributes}
print(resource['service.name'], resource['host.name'], record.severity_text, record.severity_number, record.time_unix_nano, attributes['took'].int_value, attributes['é'].string_value, record.body.string_value)";
    let mut python = Command::new(installed("venv/bin/python"));
    let read = python.args(["-c", script]).arg(place.path("body")).output().expect("Python can be run");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let said = String::from_utf8(read.stdout).expect("text");
    assert!(said.starts_with("shop web-1 warn 13 1795248000000000000 7 ü slow"), "{said}");
}

#[test]
fn another_daytable_takes_what_is_sent() {
    let (central, host) = (Place::new(), Place::new());
    let running = central.start_with("[http]\nlisten = \"127.0.0.1:0\"\npush = \"open\"\n");
    let daemon = start(&host, &config(running.address().port(), ""));
    host.write("app.log", &numbered("2026-11-21T08:00:00Z INFO request took=3 n", 2000));
    append(
        &host.log("app.log"),
        b"{\"level\":\"error\",\"message\":\"own\",\"n\":1.5,\"b\":true,\"log_host\":\"mine\"}\n",
    );
    wait_for("all records", PATIENCE, || (central.records().len() == 2001).then_some(()));
    let records = central.records();
    let mut uids: Vec<String> =
        records.iter().map(|record| record["log_record_uid"].as_str().expect("a name").to_owned()).collect();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), 2001);
    let own = records.iter().find(|record| record["message"] == "own").expect("the record");
    assert_eq!((&own["level"], &own["n"], &own["b"]), (&"error".into(), &1.5.into(), &true.into()), "{own}");
    let messages = |place: &Place| place.messages().into_keys().collect::<Vec<_>>();
    assert_eq!(messages(&central), messages(&host));
    daemon.stop();
    running.stop();
}

#[test]
fn a_backend_with_a_certificate_of_a_private_authority_gets_it_by_tls_alone() {
    let (central, host) = (Place::new(), Place::new());
    let (authority, certificate, key) = certificates(&central);
    fs::write(central.path("credentials"), "[[credential]]\nname = \"web-1\"\ntoken = \"0123456789abcdef-sent\"\n")
        .expect("written");
    let running = central.start_with(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\ntls = {{ cert_file = \"{}\", key_file = \"{}\" }}\ncredentials_file = \"{}\"\n",
        certificate.display(),
        key.display(),
        central.path("credentials").display(),
    ));
    fs::write(host.path("headers"), "Authorization: Bearer 0123456789abcdef-sent\n").expect("written");
    let block = |authority: &str| {
        let port = running.address().port();
        let headers = host.path("headers");
        format!(
            "host = \"web-1\"\n[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"shop\"\n[[forward]]\n\
             to = \"otlp+https://127.0.0.1:{port}\"\nheaders_file = \"{}\"\n{authority}",
            headers.display()
        )
    };
    host.write("app.log", &numbered("2026-11-21T08:00:00Z INFO request n", 20));
    let daemon = start(&host, &block(""));
    let trouble = || {
        let troubles = host.json("status", &[]).remove(0)["troubles"].to_string();
        troubles.contains("forward to otlp+https://").then_some(troubles)
    };
    let said = wait_for("a trouble", PATIENCE, trouble);
    assert!(said.contains("certificate"), "{said}");
    daemon.stop();
    assert_eq!(central.records().len(), 0);
    let daemon = start(&host, &block(&format!("ca_file = \"{}\"\n", authority.display())));
    wait_for("all records", PATIENCE, || (central.records().len() == 20).then_some(()));
    assert_eq!(trouble(), None);
    daemon.stop();
    running.stop();
}

#[test]
fn failures_that_pass_lose_nothing_and_only_a_lost_answer_repeats() {
    let collector = Collector::start(|number, _| match number {
        0 => Reply::Status(429, "Retry-After: 1\r\n", "slow down"),
        1 => Reply::Status(503, "", ""),
        2 => Reply::Status(500, "", "<html>"),
        3 => Reply::Cut,
        4 => Reply::LoseAnswer,
        5 => Reply::Status(504, "Retry-After: soon\r\n", ""),
        _ => Reply::Take,
    });
    let place = Place::new();
    let begun = Instant::now();
    place.write("app.log", &numbered("line", 300));
    let daemon = start(&place, &config(collector.port, ""));
    wait_for_all(&place, &collector, 300);
    let to = format!("{{to=\"otlp+http://127.0.0.1:{}\"}}", collector.port);
    wait_for("all are accepted", PATIENCE, || {
        (daemon.metric(&format!("daytable_forward_records_total{to}")) == Some(300.0)).then_some(())
    });
    let copies = collector.copies();
    assert!(begun.elapsed() >= Duration::from_secs(1), "the pause that was asked for");
    assert!(copies.values().all(|copies| *copies <= 2), "{copies:?}");
    assert!(copies.values().any(|copies| *copies == 2), "the lost answer: {copies:?}");
    assert_eq!(daemon.metric(&format!("daytable_forward_failures_total{to}")), Some(6.0));
    assert_eq!(status(&place)["refused"], 0);
    daemon.stop();
}

#[test]
fn a_record_that_is_refused_is_named_and_the_others_arrive() {
    let collector =
        Collector::start(|_, asked| match asked.records.iter().any(|record| record.body.contains("poison")) {
            true => {
                Reply::Status(400, "Content-Type: application/json\r\n", "{\"code\":3,\"message\":\"no poison here\"}")
            }
            false => Reply::Take,
        });
    let place = Place::new();
    let mut lines = numbered("line", 300);
    for at in [0, 17, 18, 299] {
        lines[at] = format!("poison {at}");
    }
    place.write("app.log", &lines);
    let daemon = start(&place, &config(collector.port, ""));
    wait_for("the others are there", PATIENCE, || (collector.bodies().len() == 296).then_some(()));
    wait_for("the refused ones are counted", PATIENCE, || (status(&place)["refused"] == 4).then_some(()));
    assert!(collector.copies().values().all(|copies| *copies == 1));
    let said = daemon.said();
    for (uid, message) in uids(&place) {
        assert_eq!(
            said.contains(&format!("record=\"{uid}\"")) || said.contains(&format!("record={uid}")),
            message.contains("poison"),
            "{uid} {message}\n{said}"
        );
    }
    let refusal = status(&place)["refusal"].as_str().expect("a refusal").to_owned();
    assert!(refusal.contains("the backend answers 400: no poison here"), "{refusal}");
    let refused = format!("daytable_forward_refused_total{{to=\"otlp+http://127.0.0.1:{}\"}}", collector.port);
    assert_eq!(daemon.metric(&refused), Some(4.0));
    // They are given up, and not sent again after a restart.
    wait_for("the lag is gone", PATIENCE, || (status(&place)["behind_records"] == 0).then_some(()));
    daemon.stop();
    let requests = collector.requests();
    let daemon = start(&place, &config(collector.port, ""));
    place.write("app.log", &["the last".into()]);
    wait_for("the last one", PATIENCE, || collector.bodies().contains(&"the last".to_owned()).then_some(()));
    assert_eq!(collector.requests(), requests + 1);
    daemon.stop();
}

#[test]
fn a_partial_success_is_counted_and_not_repeated() {
    let collector = Collector::start(|number, _| if number == 0 { Reply::Reject(7) } else { Reply::Take });
    let place = Place::new();
    place.write("app.log", &numbered("line", 50));
    let daemon = start(&place, &config(collector.port, ""));
    let copies = wait_for_all(&place, &collector, 50);
    wait_for("it is counted", PATIENCE, || (status(&place)["refused"] == 7).then_some(()));
    let refusal = status(&place)["refusal"].as_str().expect("a refusal").to_owned();
    assert!(refusal.contains("too old for us") && refusal.starts_with("7 of "), "{refusal}");
    assert!(daemon.said().contains("rejected records for good"), "{}", daemon.said());
    place.write("app.log", &["the last".into()]);
    let after = wait_for_all(&place, &collector, 51);
    assert!(copies.iter().all(|(uid, copies)| after[uid] == *copies), "some are repeated");
    daemon.stop();
}

#[test]
fn a_backend_that_takes_nothing_loses_nothing() {
    // Wrong headers, and then a backend that answers 400 to everything.
    let collector = Collector::start(|_, asked| match asked.head.to_ascii_lowercase().contains("bearer good") {
        true => Reply::Status(400, "", "who are you?"),
        false => Reply::Status(401, "", "no"),
    });
    let place = Place::new();
    fs::write(place.path("headers"), "Authorization: Bearer bad\n").expect("written");
    let headers = format!("headers_file = \"{}\"\n", place.path("headers").display());
    place.write("app.log", &numbered("line", 100));
    let daemon = start(&place, &config(collector.port, &headers));
    daemon.wait_said("the backend answers 401: no");
    let troubles = place.json("status", &[]).remove(0)["troubles"].to_string();
    assert!(troubles.contains("401: no; what is read waits here"), "{troubles}");
    let doctor = place.ask("doctor", &["--config", &place.path("daytable.toml").display().to_string()]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("FAIL  forward: otlp+http://127.0.0.1") && said.contains("headers_file"), "{said}");
    fs::write(place.path("headers"), "Authorization: Bearer good\n").expect("written");
    daemon.wait_said("nothing is given up");
    assert!(collector.bodies().is_empty());
    assert_eq!(status(&place)["refused"], 0);
    wait_for("the lag is shown", PATIENCE, || (status(&place)["behind_records"] == 100).then_some(()));
    collector.plan(|_, _| Reply::Take);
    let copies = wait_for_all(&place, &collector, 100);
    assert!(copies.values().all(|copies| *copies == 1), "{copies:?}");
    daemon.stop();
}

#[test]
fn a_backend_without_compression_gets_it_plain() {
    let collector = Collector::start(|_, asked| match asked.head.to_ascii_lowercase().contains("content-encoding") {
        true => Reply::Status(415, "", "no gzip"),
        false => Reply::Take,
    });
    let place = Place::new();
    place.write("app.log", &numbered("line", 10));
    let daemon = start(&place, &config(collector.port, ""));
    let copies = wait_for_all(&place, &collector, 10);
    assert!(copies.values().all(|copies| *copies == 1), "{copies:?}");
    daemon.stop();
}

#[cfg(feature = "failpoints")]
#[test]
fn a_kill_before_or_after_an_answer_loses_nothing() {
    for (point, copies_max) in [("otlp-before-send", 1), ("otlp-sent", 2), ("commit-between", 2), ("commit-after", 2)] {
        let collector = Collector::start(|_, _| Reply::Take);
        let place = Place::new();
        place.write("app.log", &numbered("step", 200));
        let mut run = Command::new(DAYTABLE);
        run.arg("run").arg("--config").arg(configured(&place, &config(collector.port, "")));
        run.env("DAYTABLE_FAILPOINT", point);
        place.spawn_command(run).ended();
        let daemon = start(&place, &config(collector.port, ""));
        let copies = wait_for_all(&place, &collector, 200);
        assert!(copies.values().all(|copies| *copies <= copies_max), "{point}: {copies:?}");
        daemon.stop();
    }
}

#[test]
fn kills_at_any_moment_lose_nothing() {
    let collector = Collector::start(|number, _| match number % 7 {
        3 => Reply::Status(503, "", ""),
        5 => Reply::LoseAnswer,
        _ => Reply::Take,
    });
    let place = Place::new();
    let mut daemon = spawn(&place, &config(collector.port, ""));
    let mut written = 0;
    for round in 0..12u64 {
        let count = 50 + usize::try_from(round * 37 % 300).expect("few");
        place.write(&format!("app-{}.log", round % 3), &numbered(&format!("round {round} line"), count));
        written += count;
        std::thread::sleep(Duration::from_millis(round * 83 % 500));
        daemon.kill();
        daemon = spawn(&place, &config(collector.port, ""));
    }
    wait_for_all(&place, &collector, written);
    daemon.stop();
    place.said("verify", &[]);
}

#[test]
fn what_was_there_before_is_sent_too_and_no_day_is_sealed_before() {
    let place = Place::new();
    let tail = "host = \"web-1\"\n[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"shop\"\n";
    let daemon = start(&place, tail);
    // Small commits, which are merged, and a day that is sealed, with late records beside it.
    for part in 0..8 {
        place.write("app.log", &numbered(&format!("2026-11-20T08:00:00Z INFO part {part} line"), 40));
        wait_for("it is read", PATIENCE, || (place.try_records().len() == (part + 1) * 40).then_some(()));
    }
    let table = place.json("tables", &[])[0]["table"].as_str().expect("a name").to_owned();
    place.said("archive", &[&table]);
    place.write("app.log", &["2026-11-20T08:00:00Z INFO a late one".into()]);
    wait_for("it is read", PATIENCE, || (place.try_records().len() == 321).then_some(()));
    daemon.stop();
    let collector = Collector::start(|_, _| Reply::Status(503, "", ""));
    let daemon = start(&place, &config(collector.port, ""));
    wait_for("it was tried", PATIENCE, || (collector.requests() > 0).then_some(()));
    let refused = place.ask("archive", &[&table]);
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && reason.contains("forwarded"),
        "a day that the backend lacks is sealed: {reason}"
    );
    collector.plan(|_, _| Reply::Take);
    wait_for_all(&place, &collector, 321);
    place.write("app.log", &numbered("2026-11-20T08:00:00Z INFO later line", 40));
    wait_for_all(&place, &collector, 361);
    wait_for("the day may be sealed", PATIENCE, || place.ask("archive", &[&table]).status.success().then_some(()));
    daemon.stop();
}
