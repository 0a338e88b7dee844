//! Push over real sockets: an acknowledged record is on disk, once, in any protocol and encoding. A refused record is
//! reported and counted, and delays no other sender.

use crate::client::{Answer, over};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, numbered, wait_for};
use prost::Message;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const INGEST: &str = "/ingest";
const OTLP: &str = "/v1/logs";
const LOKI: &str = "/loki/api/v1/push";
const BULK: &str = "/elasticsearch/_bulk";
const UPLOAD: &str = "/upload";

/// An `[http]` section with these further keys.
fn http(more: &str) -> String {
    format!("[http]\nlisten = \"127.0.0.1:0\"\n{more}\n")
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

fn try_post(to: SocketAddr, target: &str, headers: &str, body: &[u8]) -> io::Result<Answer> {
    let stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    over(stream, "POST", target, headers, body)
}

pub(crate) fn post(to: SocketAddr, target: &str, headers: &str, body: &[u8]) -> Answer {
    try_post(to, target, headers, body).expect("an answer")
}

pub(crate) fn media(media: &str) -> String {
    format!("Content-Type: {media}\r\n")
}

fn said(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory")
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(bytes).expect("memory")
}

/// The part of OTLP that one record needs.
#[derive(Clone, PartialEq, Message)]
struct Nested {
    #[prost(bytes = "vec", repeated, tag = "1")]
    one: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    two: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    five: Vec<Vec<u8>>,
}

fn nested(one: &[&[u8]], two: &[&[u8]], five: &[&[u8]]) -> Vec<u8> {
    let own = |parts: &[&[u8]]| parts.iter().map(|part| part.to_vec()).collect();
    Nested { one: own(one), two: own(two), five: own(five) }.encode_to_vec()
}

/// An `ExportLogsServiceRequest` with a record per message.
pub(crate) fn otlp(messages: &[&str]) -> Vec<u8> {
    let records: Vec<_> =
        messages.iter().map(|message| nested(&[], &[], &[&nested(&[message.as_bytes()], &[], &[])])).collect();
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    nested(&[&nested(&[], &[&nested(&[], &records, &[])], &[])], &[], &[])
}

/// A Loki `PushRequest` with an entry per message.
pub(crate) fn loki(messages: &[&str]) -> Vec<u8> {
    loki_entries(messages.iter().map(|message| nested(&[], &[message.as_bytes()], &[])).collect())
}

/// As [`loki`], with a nanosecond of 2025-11-20 for each message, so that no two are equal entries.
pub(crate) fn loki_at_times(messages: &[&str]) -> Vec<u8> {
    // Field 1 has the seconds, field 2 the nanoseconds, each as a number of seven bits a byte.
    let time = |nanos: u8| [&[0x08, 0x80, 0xb4, 0xf9, 0xc8, 0x06, 0x10], &[nanos][..]].concat();
    let entry = |(nanos, message): (u8, &&str)| nested(&[&time(nanos)], &[message.as_bytes()], &[]);
    assert!(messages.len() < 128, "a byte has seven bits");
    loki_entries((0..).zip(messages).map(entry).collect())
}

fn loki_entries(entries: Vec<Vec<u8>>) -> Vec<u8> {
    let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
    nested(&[&nested(&[b"{job=\"api\"}"], &entries, &[])], &[], &[])
}

pub(crate) fn journal(messages: &[&str]) -> Vec<u8> {
    let entry = |message: &&str| {
        let text = format!(
            "__CURSOR=c-{message}\n__REALTIME_TIMESTAMP=1763596800000000\n_HOSTNAME=epsilon\nPRIORITY=6\nMESSAGE\n"
        );
        [text.as_bytes(), &(message.len() as u64).to_le_bytes(), message.as_bytes(), b"\n\n"].concat()
    };
    messages.iter().flat_map(entry).collect()
}

/// The encoding of a body.
type Encode = fn(&[u8]) -> Vec<u8>;
/// Makes a body with one record of this message.
type Body = fn(&str) -> Vec<u8>;

#[test]
fn every_protocol_in_every_encoding_is_on_disk_when_it_is_answered() {
    let place = Place::new();
    // An acknowledged push does not wait for this interval.
    let daemon = place.start_with(&(http("") + "[store]\ncommit_interval = \"60s\"\n"));
    let to = daemon.address();
    let mut expected = BTreeSet::new();
    let mut number = 0;
    let mut next = || {
        number += 1;
        let message = format!("message {number}");
        expected.insert(message.clone());
        message
    };
    let encodings: [(&str, Encode); 5] = [
        ("identity", <[u8]>::to_vec),
        ("gzip", gzip),
        ("deflate", deflate),
        ("zstd", |bytes| zstd::encode_all(bytes, 1).expect("memory")),
        ("snappy", snappy),
    ];
    let bodies: [(&str, &str, u16, Body); 9] = [
        (INGEST, "application/x-ndjson", 200, |m| json!({ "message": m }).to_string().into_bytes()),
        (INGEST, "application/json", 200, |m| json!([{ "message": m }]).to_string().into_bytes()),
        (INGEST, "text/plain", 200, |m| m.as_bytes().to_vec()),
        (OTLP, "application/x-protobuf", 200, |m| otlp(&[m])),
        (OTLP, "application/json", 200, |m| {
            let record = json!({ "body": { "stringValue": m } });
            json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [record] }] }] }).to_string().into_bytes()
        }),
        (LOKI, "application/x-protobuf", 204, |m| snappy(&loki(&[m]))),
        (LOKI, "application/json", 204, |m| {
            json!({ "streams": [{ "stream": {}, "values": [["1763596800000000000", m]] }] }).to_string().into_bytes()
        }),
        (BULK, "application/x-ndjson", 200, |m| {
            format!("{{\"create\":{{}}}}\n{}\n", json!({ "message": m })).into_bytes()
        }),
        (UPLOAD, "application/vnd.fdo.journal", 200, |m| journal(&[m])),
    ];
    for (target, kind, status, body) in bodies {
        for (name, encode) in encodings {
            // A snappy block cannot be decoded as a stream.
            if target == UPLOAD && name == "snappy" {
                continue;
            }
            let message = next();
            let headers = format!("{}Content-Encoding: {name}\r\n", media(kind));
            let answer = post(to, target, &headers, &encode(&body(&message)));
            assert_eq!(answer.status, status, "{target} {kind} {name}: {answer:?}");
            assert!(place.messages().contains_key(&message), "{target} {kind} {name}: answered and not there");
        }
    }
    let messages: BTreeSet<_> = place.messages().into_keys().collect();
    assert_eq!(messages, expected);
    for (source, records) in
        [("ingest", 15.0), ("otlp", 10.0), ("loki", 10.0), ("elasticsearch", 5.0), ("journal", 4.0)]
    {
        let metric = format!("daytable_records_received_total{{source=\"http/{source}\"}}");
        assert_eq!(daemon.metric(&metric), Some(records), "{metric}");
    }
    daemon.stop();
}

#[test]
fn each_protocol_answers_in_its_own_words() {
    let place = Place::new();
    let daemon = place.start_with(&http(""));
    let to = daemon.address();
    let answer = post(
        to,
        "/ingest?instance=web-17",
        &media("application/x-ndjson"),
        b"{\"msg\":\"a\"}\nwords\n{\"msg\":\"b\"}\n",
    );
    assert_eq!(answer.status, 200);
    assert_eq!(
        said(&answer),
        json!({ "accepted": 2, "refused": 1, "errors": [{ "index": 1, "reason": "is not a JSON object" }] })
    );
    let answer = post(to, INGEST, &media("application/x-ndjson"), b"words");
    assert_eq!((answer.status, &said(&answer)["refused"]), (400, &json!(1)), "{answer:?}");
    for (kind, body) in [("image/png", &b"\x89PNG"[..]), ("application/xml", b"<a/>"), ("", b"<?xml version=\"1.0\"?>")]
    {
        assert_eq!(
            post(to, INGEST, &if kind.is_empty() { String::new() } else { media(kind) }, body).status,
            415,
            "{kind}"
        );
    }
    // As Fluent Bit sends it: a time, metadata and the record.
    let packed = b"\x92\x92\xd7\x00\x69\x1e\x5c\x2d\x00\x00\x00\x00\x80\x82\xa3log\xa1m\xa4host\xa6web-18";
    let answer = post(to, INGEST, &media("application/msgpack"), packed);
    assert_eq!((answer.status, &said(&answer)["accepted"]), (200, &json!(1)), "{answer:?}");
    let answer = post(to, INGEST, &media("application/json"), b"[{},{},");
    assert_eq!((answer.status, &said(&answer)["index"]), (400, &json!(2)), "{answer:?}");

    let whole =
        json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [{ "body": { "stringValue": "c" } }, 7] }] }] });
    let answer = post(to, OTLP, &media("application/json"), whole.to_string().as_bytes());
    assert_eq!(
        (answer.status, &said(&answer)["partialSuccess"]["rejectedLogRecords"]),
        (200, &json!("1")),
        "{answer:?}"
    );
    assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
    let answer = post(to, OTLP, &media("application/x-protobuf"), &otlp(&["d"]));
    assert!(
        answer.status == 200 && answer.body.is_empty() && answer.head.contains("application/x-protobuf"),
        "{answer:?}"
    );
    let answer = post(to, OTLP, &media("application/x-protobuf"), b"\x0a\xff");
    assert!(answer.status == 400 && answer.head.contains("application/x-protobuf"), "{answer:?}");
    assert_eq!(post(to, OTLP, &media("text/plain"), b"d").status, 415);

    let bulk = b"{\"index\":{\"_index\":\"i\",\"_id\":\"7\"}}\n{\"message\":\"e\"}\n{\"delete\":{\"_id\":\"7\"}}\n";
    let answer = post(to, "/elasticsearch/logs/_bulk", &media("application/x-ndjson"), bulk);
    let items = said(&answer);
    assert_eq!((answer.status, &items["errors"]), (200, &json!(true)), "{answer:?}");
    assert_eq!(
        (&items["items"][0]["index"]["status"], &items["items"][1]["delete"]["status"]),
        (&json!(201), &json!(400))
    );
    assert!(answer.head.contains("x-elastic-product: elasticsearch"), "{}", answer.head);
    for (method, target, status) in [
        ("GET", "/elasticsearch/", 200),
        ("HEAD", "/elasticsearch/", 200),
        ("GET", "/elasticsearch", 200),
        ("GET", "/elasticsearch/_license", 200),
        ("GET", "/elasticsearch/_xpack", 200),
        ("GET", "/elasticsearch/_cluster/health", 200),
        ("HEAD", "/elasticsearch/_index_template/filebeat", 200),
        ("PUT", "/elasticsearch/_ilm/policy/filebeat", 200),
        ("GET", "/elasticsearch/logs/_search", 404),
    ] {
        let answer = over(connect(to), method, target, "", b"").expect("an answer");
        assert_eq!(answer.status, status, "{method} {target}");
        assert!(answer.head.contains("x-elastic-product: elasticsearch"), "{method} {target}: {}", answer.head);
    }
    let records = place.records();
    let of = |message: &str| records.iter().find(|record| record["message"] == message).expect("there").clone();
    assert_eq!(of("a")["partition_key"], "web-17");
    assert_eq!((&of("e")["partition_key"], &of("e")["_index"]), (&json!("127.0.0.1"), &json!("i")));
    assert_eq!((&of("m")["partition_key"], &of("m")["time"]), (&json!("web-18"), &json!("2025-11-20T00:09:17Z")));
    assert_eq!(records.len(), 6);
    daemon.stop();
}

#[test]
fn a_repeat_with_its_key_changes_nothing_also_after_a_kill() {
    let place = Place::new();
    let daemon = place.start_with(&http(""));
    let to = daemon.address();
    let keyed = |key: &str| format!("Idempotency-Key: {key}\r\n{}", media("application/x-ndjson"));
    let body = b"{\"message\":\"a\"}\nwords\n{\"message\":\"b\"}\n";
    let first = post(to, INGEST, &keyed("one"), body);
    assert_eq!(first.status, 200);
    assert_eq!(post(to, INGEST, &keyed("one"), body).body, first.body);
    // The same body in another encoding; another body under the same key; the same key at another endpoint.
    let zipped = post(to, INGEST, &(keyed("one") + "Content-Encoding: gzip\r\n"), &gzip(body));
    assert_eq!((zipped.status, &zipped.body), (200, &first.body));
    assert_eq!(post(to, INGEST, &keyed("one"), b"{\"message\":\"c\"}\n").status, 422);
    assert_eq!(post(to, "/ingest?instance=other", &keyed("one"), body).status, 422);
    assert_eq!(post(to, LOKI, &keyed("one"), &snappy(&loki(&["d"]))).status, 204);
    assert_eq!(post(to, INGEST, "Idempotency-Key: \r\n", b"e").status, 400);
    // Many concurrent repeats are stored once.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(post(to, INGEST, &keyed("at once"), b"{\"message\":\"f\"}").status, 200));
        }
    });
    daemon.kill();
    let daemon = place.start_with(&http(""));
    let to = daemon.address();
    assert_eq!(post(to, INGEST, &keyed("one"), body).body, first.body);
    assert_eq!(post(to, INGEST, &keyed("at once"), b"{\"message\":\"f\"}").status, 200);
    let expected: BTreeMap<String, usize> = ["a", "b", "d", "f"].map(|message| (message.to_owned(), 1)).into();
    assert_eq!(place.messages(), expected);
    assert_eq!(daemon.metric("daytable_pushes_repeated_total{source=\"http/ingest\"}"), Some(2.0));
    daemon.stop();
}

/// A chunked request, whose length is unknown.
fn chunked(target: &str, headers: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!(
        "POST {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
    )
    .into_bytes();
    for piece in pieces {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// The status of the response on a stream.
fn status(mut stream: &TcpStream) -> Option<u16> {
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}

#[test]
fn what_is_over_a_limit_is_said_and_the_daemon_goes_on() {
    let place = Place::new();
    let limits =
        "body_bytes_max = \"64KiB\"\ndecoded_bytes_max = \"1MiB\"\nbodies_bytes_max = \"4MiB\"\nrecords_max = 100\n";
    let daemon = place.start_with(&http(limits));
    let to = daemon.address();
    let large = vec![b'x'; 65 << 10];
    assert_eq!(post(to, INGEST, "", &large).status, 413);
    let pieces: Vec<&[u8]> = large.chunks(1000).collect();
    let stream = connect(to);
    (&stream).write_all(&chunked(INGEST, "", &pieces)).expect("sent");
    assert_eq!(status(&stream), Some(413));
    // A client that sends `Expect: 100-continue` gets the refusal before the body.
    let stream = connect(to);
    write!(&stream, "POST {INGEST} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n")
        .expect("sent");
    assert_eq!(status(&stream), Some(413));
    let bomb = vec![b'a'; 32 << 20];
    for (name, bomb) in
        [("gzip", gzip(&bomb)), ("zstd", zstd::encode_all(&*bomb, 1).expect("memory")), ("deflate", deflate(&bomb))]
    {
        assert!(bomb.len() < 64 << 10, "{name} is {} bytes", bomb.len());
        let answer = post(to, INGEST, &format!("Content-Encoding: {name}\r\n"), &bomb);
        assert_eq!(answer.status, 413, "{name}: {answer:?}");
    }
    // The body claims 4 GiB.
    assert_eq!(post(to, LOKI, "", b"\xff\xff\xff\xff\x0f\x00").status, 413);
    for (target, kind, body) in [
        (INGEST, "application/x-ndjson", "{}\n".repeat(101).into_bytes()),
        (INGEST, "application/json", format!("[{}{{}}]", "{},".repeat(100)).into_bytes()),
        (OTLP, "application/x-protobuf", otlp(&["x"; 101])),
        (LOKI, "application/x-protobuf", snappy(&loki(&["x"; 101]))),
        (BULK, "application/x-ndjson", "{\"index\":{}}\n{}\n".repeat(101).into_bytes()),
    ] {
        assert_eq!(post(to, target, &media(kind), &body).status, 413, "{target} {kind}");
    }
    let deep = format!("{{\"message\":\"deep\",\"a\":{}1{}}}", "{\"a\":".repeat(5000), "}".repeat(5000));
    assert_eq!(post(to, INGEST, "", deep.as_bytes()).status, 200);
    let fields: Vec<String> = (0..3000).map(|n| format!("\"f{n}\":{n}")).collect();
    let many = format!("{{\"message\":\"many\",{}}}", fields.join(","));
    assert_eq!(post(to, INGEST, "", many.as_bytes()).status, 200);
    assert_eq!(post(to, INGEST, "", b"\xff\xfe 0000-00-00T99:99:99Z \x00 text\n").status, 200);
    for (name, code) in [("br", 415), ("gzip, gzip", 415)] {
        let answer = post(to, INGEST, &format!("Content-Encoding: {name}\r\n"), b"x");
        assert!(answer.status == code && answer.head.contains("accept-encoding: gzip, zstd"), "{answer:?}");
    }
    assert_eq!(post(to, INGEST, "Content-Encoding: gzip\r\n", b"no gzip").status, 400);
    assert_eq!(place.records().len(), 3);
    let too_large = "daytable_push_bodies_refused_total{reason=\"too_large\",source=\"http/ingest\"}";
    assert_eq!(daemon.metric(too_large), Some(8.0));
    daemon.stop();
}

#[test]
fn a_request_that_is_cut_at_any_byte_leaves_nothing_behind() {
    let place = Place::new();
    let daemon = place.start_with(&http(""));
    let to = daemon.address();
    let body = "{\"message\":\"whole\"}";
    let length = body.len();
    let plain =
        format!("POST {INGEST} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    let chunked = chunked(INGEST, "", &[&body.as_bytes()[..7], &body.as_bytes()[7..]]);
    let journal = self::chunked(UPLOAD, "", &[&journal(&["entry"])]);
    let expected = BTreeMap::from([("whole".to_owned(), 2), ("entry".to_owned(), 1)]);
    for request in [plain.as_bytes(), &chunked, &journal] {
        for cut in 0..request.len() {
            let mut stream = connect(to);
            stream.write_all(&request[..cut]).expect("sent");
            stream.shutdown(Shutdown::Write).expect("shut");
            // Until the daemon closes the connection.
            let _ = io::copy(&mut stream, &mut io::sink());
        }
    }
    // An upload is committed as it arrives: an entry that was whole before the cut is there, once.
    let messages = place.messages();
    assert!(!messages.contains_key("whole") && messages.get("entry").is_none_or(|count| *count == 1), "{messages:?}");
    for request in [plain.as_bytes(), &chunked, &journal] {
        let mut stream = connect(to);
        stream.write_all(request).expect("sent");
        assert_eq!(status(&stream), Some(200));
    }
    assert_eq!(place.messages(), expected);
    daemon.stop();
}

#[test]
fn slow_clients_are_told_and_hold_nobody() {
    let place = Place::new();
    let daemon = place.start_with(&http("body_timeout = \"1s\"\nconnections_max = 200\n"));
    let to = daemon.address();
    let slow: Vec<TcpStream> = (0..100)
        .map(|_| {
            let mut stream = connect(to);
            write!(stream, "POST {INGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx").expect("sent");
            stream
        })
        .collect();
    let mut upload = connect(to);
    write!(upload, "POST {UPLOAD} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n").expect("sent");
    // A connection that sends a byte now and then counts as slow.
    let trickling = std::thread::spawn(move || {
        let mut stream = connect(to);
        write!(stream, "POST {UPLOAD} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").expect("sent");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("set");
        wait_for("it is sent away", PATIENCE, || {
            // The connection may be closed already.
            let _ = stream.write_all(b"1\r\nA\r\n");
            status(&stream)
        })
    });
    let messages = numbered("meanwhile", 50);
    for message in &messages {
        assert_eq!(post(to, INGEST, "", message.as_bytes()).status, 200);
    }
    for stream in slow.iter().chain([&upload]) {
        assert_eq!(status(stream), Some(408));
    }
    assert_eq!(trickling.join().expect("no panic"), 408);
    let slow = "daytable_push_bodies_refused_total{reason=\"slow\",source=\"http/ingest\"}";
    assert_eq!(daemon.metric(slow), Some(100.0));
    daemon.stop();
    place.wait_for_messages(&messages);
}

#[test]
fn where_there_is_no_room_a_client_is_sent_away_and_comes_again() {
    let place = Place::new();
    // A body that grows has a second copy for a moment, so the second one needs more than half of the room.
    let limits = "body_bytes_max = \"64KiB\"\ndecoded_bytes_max = \"64KiB\"\nbodies_bytes_max = \"160KiB\"\n";
    let daemon = place.start_with(&http(limits));
    let to = daemon.address();
    let half = vec![b'x'; 60 << 10];
    let holding: Vec<TcpStream> = (0..2)
        .map(|_| {
            let mut stream = connect(to);
            write!(stream, "POST {INGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", half.len() + 1)
                .expect("sent");
            stream.write_all(&half).expect("sent");
            stream
        })
        .collect();
    wait_for("the room is used up", PATIENCE, || {
        (daemon.metric("daytable_push_held_bytes")? >= f64::from(120 << 10)).then_some(())
    });
    // Both wait for a while before they are refused.
    let larger = vec![b'y'; 30 << 10];
    let (refused, busy) = std::thread::scope(|scope| {
        let refused = scope.spawn(|| post(to, INGEST, "", &larger));
        let busy = scope.spawn(|| post(to, BULK, "", &larger));
        (refused.join().expect("no panic"), busy.join().expect("no panic"))
    });
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.head.contains("retry-after: 1"), "{refused:?}");
    assert_eq!((busy.status, &said(&busy)["error"]["type"]), (503, &json!("es_rejected_execution_exception")));
    assert_eq!(post(to, INGEST, "", b"a small one").status, 200);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| post(to, INGEST, "", &larger));
        drop(holding);
        assert_eq!(waiting.join().expect("no panic").status, 200, "there is room in time");
    });
    daemon.stop();
}

#[test]
fn what_was_answered_is_there_once_whenever_the_daemon_is_killed() {
    let place = Place::new();
    let (mut answered, mut sent) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..4 {
        let daemon = place.start_with(&http(""));
        let to = daemon.address();
        let (over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        let results: Vec<(Vec<String>, Vec<String>)> = std::thread::scope(|scope| {
            let pushing: Vec<_> = (0..4)
                .map(|sender| {
                    let (over, count) = (&over, &count);
                    scope.spawn(move || {
                        let (mut sent, mut answered) = (Vec::new(), Vec::new());
                        for n in 0.. {
                            if over.load(Ordering::Acquire) {
                                break;
                            }
                            let messages = numbered(&format!("round {round} sender {sender} request {n} record"), 5);
                            let body: String =
                                messages.iter().map(|m| format!("{}\n", json!({ "message": m }))).collect();
                            sent.extend(messages.clone());
                            match try_post(to, INGEST, "", body.as_bytes()) {
                                Ok(answer) if answer.status == 200 => answered.extend(messages),
                                _ => break,
                            }
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        (sent, answered)
                    })
                })
                .collect();
            wait_for("requests are under way", PATIENCE, || {
                (count.load(Ordering::Relaxed) > 20 + 30 * round).then_some(())
            });
            daemon.kill();
            over.store(true, Ordering::Release);
            pushing.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for (of_sender, answers) in results {
            sent.extend(of_sender);
            answered.extend(answers);
        }
    }
    let daemon = place.start_with(&http(""));
    let messages = place.messages();
    let missing: Vec<_> = answered.iter().filter(|message| !messages.contains_key(*message)).collect();
    assert!(missing.is_empty() && answered.len() > 400, "{} missing: {:?}", missing.len(), missing.first());
    assert!(messages.iter().all(|(message, count)| *count == 1 && sent.contains(message)), "twice, or never sent");
    // A request is there as a whole or not at all.
    let mut of_request: BTreeMap<&str, usize> = BTreeMap::new();
    for message in messages.keys() {
        *of_request.entry(message.rsplit_once(" record").expect("a record").0).or_default() += 1;
    }
    assert!(of_request.values().all(|count| *count == 5), "{of_request:?}");
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn a_journal_is_taken_in_pieces_and_its_repeat_changes_nothing() {
    let place = Place::new();
    let daemon = place.start_with(&http(""));
    let to = daemon.address();
    let messages = numbered("entry", 20_000);
    let borrowed: Vec<&str> = messages.iter().map(String::as_str).collect();
    let body = journal(&borrowed);
    let pieces: Vec<&[u8]> = body.chunks(5000).collect();
    let request = chunked(UPLOAD, &media("application/vnd.fdo.journal"), &pieces);
    // The connection is cut during the upload: entries before the cut are on disk without a response.
    let mut stream = connect(to);
    stream.write_all(&request[..request.len() * 3 / 4]).expect("sent");
    wait_for("the first pieces are on disk", PATIENCE, || (place.records().len() > 5000).then_some(()));
    drop(stream);
    daemon.kill();
    let daemon = place.start_with(&http(""));
    let to = daemon.address();
    for _ in 0..2 {
        let mut stream = connect(to);
        stream.write_all(&request).expect("sent");
        assert_eq!(status(&stream), Some(200));
    }
    let zipped = post(to, UPLOAD, "Content-Encoding: zstd\r\n", &zstd::encode_all(&*body, 1).expect("memory"));
    assert_eq!(zipped.status, 200);
    place.wait_for_messages(&messages);
    let record = &place.json("query", &["-n", "1"])[0];
    assert_eq!((&record["partition_key"], &record["level"]), (&json!("epsilon"), &json!("info")));
    let answer = post(to, UPLOAD, "", b"MESSAGE=whole\n\nno field\n");
    assert_eq!((answer.status, &said(&answer)["index"]), (400, &json!(1)), "{answer:?}");
    daemon.stop();
}

#[test]
fn a_stop_answers_what_is_under_way() {
    let place = Place::new();
    let daemon: Daemon = place.start_with(&http(""));
    let to = daemon.address();
    // At the stop, the body of a push is still incomplete, and a long upload is running.
    let mut stream = connect(to);
    write!(stream, "POST {INGEST} HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nthe ").expect("sent");
    let mut upload = connect(to);
    let entry = journal(&["uploaded"]);
    write!(upload, "POST {UPLOAD} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n", entry.len())
        .expect("sent");
    upload.write_all(&[&entry, &b"\r\n"[..]].concat()).expect("sent");
    wait_for("the upload has begun", PATIENCE, || {
        (daemon.metric("daytable_push_body_bytes_total{source=\"http/journal\"}")? > 0.0).then_some(())
    });
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(status(&upload), Some(503));
    stream.write_all(b"last").expect("sent");
    assert_eq!(status(&stream), Some(200));
    daemon.stop();
    place.wait_for_messages(&["the last".into(), "uploaded".into()]);
}

#[test]
fn a_credential_bound_to_tables_pushes_to_these() {
    let place = Place::new();
    let path = place.path("credentials.toml");
    let text =
        "[[credential]]\nname = \"web\"\ntoken = \"0123456789abcdef\"\ntables = [\"Audit\"]\ntenant = \"acme\"\n";
    std::fs::write(&path, text).expect("written");
    let config = http(&format!("credentials_file = \"{}\"", path.display()))
        + "[[table]]\nname = \"Audit\"\nwhen = \"level:>=fatal\"\n[[table]]\nname = \"Log\"\n";
    let daemon = place.start_with(&config);
    let to = daemon.address();
    assert_eq!(post(to, INGEST, "", b"nobody's").status, 401);
    assert_eq!(post(to, INGEST, "Authorization: Bearer 0123456789abcdef\r\n", b"hers").status, 200);
    let records = place.records();
    assert_eq!(records.len(), 1);
    assert!(records[0]["table"].as_str().is_some_and(|table| table.starts_with("Audit")), "{records:?}");
    assert_eq!(records[0]["tenant"], "acme");
    daemon.stop();
}

#[test]
fn secrets_are_replaced_whatever_they_are_pushed_in() {
    let place = Place::new();
    let config = place.configure(&http(""));
    let text = std::fs::read_to_string(&config).expect("a configuration");
    std::fs::write(&config, format!("redact = [\"email\"]\n{text}")).expect("written");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(config);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    let to = daemon.address();
    let secret = "of ann@example.com";
    let json = json!({ "message": secret, "host": "ann@example.com" }).to_string();
    let values = json!([["1763596800000000000", secret, { "user": secret }]]);
    let stream = json!({ "streams": [{ "stream": { "instance": "ann@example.com" }, "values": values }] }).to_string();
    for (target, kind, body) in [
        (INGEST, "application/x-ndjson", json.clone().into_bytes()),
        (INGEST, "text/plain", secret.into()),
        (BULK, "", format!("{{\"index\":{{\"_index\":\"ann@example.com\"}}}}\n{json}\n").into_bytes()),
        (OTLP, "application/x-protobuf", otlp(&[secret])),
        (LOKI, "application/json", stream.into_bytes()),
        (UPLOAD, "", journal(&[secret])),
    ] {
        assert!(post(to, target, &media(kind), &body).status < 300, "{target}");
    }
    let records = place.records();
    assert_eq!(records.len(), 6);
    assert!(records.iter().all(|record| !record.to_string().contains("example.com")), "{records:?}");
    daemon.stop();
}
