//! Loki's two forms give the same records, with everything that the request has.

use super::super::tests::{Taken, taken, with_setting};
use super::*;
use crate::push::Endpoint;
use proptest::prelude::*;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct PushRequest {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<StreamMessage>,
}

#[derive(Clone, PartialEq, Message)]
struct StreamMessage {
    #[prost(string, tag = "1")]
    labels: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<EntryMessage>,
    #[prost(uint64, tag = "3")]
    hash: u64,
}

#[derive(Clone, PartialEq, Message)]
struct EntryMessage {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<Timestamp>,
    #[prost(string, tag = "2")]
    line: String,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<Pair>,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
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

fn push(media: &str, body: &[u8]) -> Result<Taken, Refusal> {
    taken(Endpoint::Loki, |writer| with_setting(|settings| write(body, media, Encoding::Identity, settings, writer)))
}

fn proto(request: &PushRequest) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).expect("memory")
}

fn one(labels: &str, seconds: i64, line: &str) -> PushRequest {
    let timestamp = Some(Timestamp { seconds, nanos: 7_000_000 });
    let metadata = vec![Pair { name: "trace_id".into(), value: "0af7".into() }];
    let entries = vec![EntryMessage { timestamp, line: line.into(), metadata }];
    PushRequest { streams: vec![StreamMessage { labels: labels.into(), entries, hash: 9 }] }
}

#[test]
fn both_forms_say_the_same() {
    let line = "level=warn msg=\"a b\" n=7";
    let proto = push("application/x-protobuf", &proto(&one("{job=\"api\", host=\"web-17\"}", 1_763_596_800, line)))
        .expect("taken");
    let json = serde_json::json!({"streams": [{
        "stream": {"job": "api", "host": "web-17"},
        "values": [["1763596800007000000", line, {"trace_id": "0af7"}]],
    }]});
    let json = push("application/json", json.to_string().as_bytes()).expect("taken");
    assert_eq!(proto.shown(), json.shown());
    assert_eq!(
        proto.shown(),
        [concat!(
            "web-17 2025-11-20T00:00:00.007Z warn \"a b\" trace_id=\"0af7\" n=7 job=\"api\" host=\"web-17\" ",
            r#"Layout="level=%l msg=\"%m\" n=%(n)" "#,
            r#"Stream="[{\"host\":\"web-17\",\"job\":\"api\"},[\"trace_id\"]]""#
        )]
    );
}

#[test]
fn the_entry_says_when_and_another_time_of_its_text_stays() {
    let line = "2025-11-20T00:00:01Z INFO up";
    let taken = push("", &proto(&one("{}", 1_763_596_800, line))).expect("taken");
    let expected = "192.0.2.7 2025-11-20T00:00:00.007Z info \"up\" trace_id=\"0af7\" time=\"2025-11-20T00:00:01Z\" ";
    assert_eq!(
        taken.shown(),
        [expected.to_owned() + r#"Layout="%vZ %L %m" Verbatim="2025-11-20T00:00:01" Stream="[{},[\"trace_id\"]]""#]
    );
    let json = r#"{"streams":[{"stream":{"detected_level":"error"},"values":[["0","2025-11-20T00:00:01Z up"],["0","words\n"]]}]}"#;
    let taken = push("application/json", json.as_bytes()).expect("taken");
    assert!(taken.shown()[0].starts_with("192.0.2.7 2025-11-20T00:00:01Z error \"up\""), "{:?}", taken.shown());
    assert_eq!(taken.messages(), ["up", "words"]);
}

#[test]
fn labels_that_cannot_be_read_stay_as_they_are_written() {
    let taken = push("", &proto(&one("job=api", 1, "up"))).expect("taken");
    assert!(taken.shown()[0].contains(" labels=\"job=api\" "), "{:?}", taken.shown());
}

#[test]
fn labels_count_for_each_entry() {
    let entries = |labels: usize, metadata: usize, count: usize| {
        let mut request = one(&format!("{{job=\"{}\"}}", "x".repeat(labels)), 1, "up");
        let entries = &mut request.streams[0].entries;
        entries[0].metadata[0].value = "x".repeat(metadata);
        *entries = vec![entries[0].clone(); count];
        push("", &proto(&request))
    };
    assert_eq!(entries(RECORD_BYTES_MAX / 2, 7, 5).expect("few").messages().len(), 5);
    for (labels, metadata, count) in
        [(RECORD_BYTES_MAX, 7, 1), (7, RECORD_BYTES_MAX, 1), (RECORD_BYTES_MAX / 2, 7, 1000)]
    {
        assert!(matches!(entries(labels, metadata, count), Err(Refusal::TooLarge(_))), "{labels} {metadata} {count}");
    }
}

#[test]
fn malformed_push_requests_are_refused() {
    for (media, body) in [
        ("application/json", &b"{\"streams\":[{\"values\":[[\"1\"]]}]}"[..]),
        ("application/json", b"{\"streams\":[{\"values\":[[\"soon\",\"up\"]]}]}"),
        ("application/json", b"{\"streams\":[{\"values\":[[\"\",\"up\"]]}]}"),
        ("application/json", b"{\"streams\":[{\"values\":[[\"99999999999999999999999\",\"up\"]]}]}"),
        ("application/json", b"{\"streams\":[{\"labels\":\"{}\",\"entries\":[{\"ts\":\"today\",\"line\":\"up\"}]}]}"),
        ("application/json", b"[]"),
        ("application/json", b""),
        ("text/plain", b"{\"streams\":7}"),
        ("", b"no snappy"),
        ("", &snap::raw::Encoder::new().compress_vec(b"\x0a\xff\x01").expect("memory")),
    ] {
        assert!(matches!(push(media, body), Err(Refusal::Bad { .. })), "{media} {body:?}");
    }
    assert!(push("", &proto(&PushRequest::default())).expect("empty").messages().is_empty());
}

#[test]
fn the_form_before_the_first_version_says_the_same() {
    let new = r#"{"streams":[{"stream":{"job":"api"},"values":[["1763596800007000000","up",{"trace_id":"0af7"}],["1763596801000000000","down"]]}]}"#;
    let old = r#"{"streams":[{"labels":"{job=\"api\"}","entries":[
        {"ts":"2025-11-20T00:00:00.007Z","line":"up","structuredMetadata":[{"name":"trace_id","value":"0af7"}]},
        {"timestamp":"2025-11-20T01:00:01+01:00","line":"down"}]}]}"#;
    let [new, old] = [new, old].map(|body| push("application/json", body.as_bytes()).expect("taken"));
    assert_eq!(new.shown(), old.shown());
    assert_eq!((old.messages().len(), old.unread()), (2, 0));
}

#[test]
fn a_stream_of_which_nothing_is_known_refuses_the_body() {
    let stream = r#"{"stream":{"job":"api"},"values":[["1","up"]]}"#;
    for body in [
        r#"{"streams":[{"tags":{"job":"api"},"lines":["up"]}]}"#.to_owned(),
        format!(r#"{{"streams":[{stream},{{"stream":{{}},"points":[["1","down"]]}}]}}"#),
        r#"{"streams":[],"entries":[["1","up"]]}"#.to_owned(),
        r#"{"entries":[["1","up"]]}"#.to_owned(),
        r#"{"streams":[{"labels":"{}","entries":[{"ts":"2025-11-20T00:00:00Z","text":"up"}]}]}"#.to_owned(),
        // Prometheus' remote write has the same content type: its labels are messages, its samples numbers.
        r#"{"timeseries":[{"labels":[],"samples":[]}]}"#.to_owned(),
    ] {
        assert!(matches!(push("application/json", body.as_bytes()), Err(Refusal::Bad { .. })), "{body}");
    }
    let field =
        |number: u8, bytes: &[u8]| [&[number << 3 | 2, u8::try_from(bytes.len()).expect("short")], bytes].concat();
    let snappy = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).expect("memory");
    for body in [field(2, b"up"), field(1, &field(5, b"up")), field(1, &[field(1, b"{}"), field(9, b"up")].concat())] {
        assert!(matches!(push("", &snappy(&body)), Err(Refusal::Bad { .. })), "{body:?}");
    }
    for empty in [vec![], field(1, &[]), field(1, &field(1, b"{}"))] {
        assert!(push("", &snappy(&empty)).expect("nothing").messages().is_empty());
    }
}

#[test]
fn unknown_parts_beside_entries_are_counted() {
    let json = r#"{"streams":[{"stream":{"job":"api"},"values":[["1","up"]],"hash":7}],"tenant":"a"}"#;
    let taken = push("application/json", json.as_bytes()).expect("taken");
    assert_eq!((taken.messages(), taken.unread()), (vec!["up".to_owned()], 2));
    let mut bytes = one("{job=\"api\"}", 1, "up").encode_to_vec();
    bytes.extend(b"\x4a\x02up");
    let taken = push("", &snap::raw::Encoder::new().compress_vec(&bytes).expect("memory")).expect("taken");
    assert_eq!((taken.messages(), taken.unread()), (vec!["up".to_owned()], 1));
}

#[test]
fn a_header_may_name_the_compression_of_the_protocol() {
    let bytes = one("{job=\"api\"}", 1, "up").encode_to_vec();
    let decoded = |writer: &mut RequestWriter<'_>| {
        with_setting(|settings| write(&bytes, "application/x-protobuf", Encoding::Snappy, settings, writer))
    };
    assert_eq!(taken(Endpoint::Loki, decoded).expect("taken").messages(), ["up"]);
}

proptest! {
    /// Any bytes are entries or none.
    #[test]
    fn any_bytes(bytes: Vec<u8>, is_json: bool) {
        let body = if is_json { bytes } else { snap::raw::Encoder::new().compress_vec(&bytes).expect("memory") };
        let _ = push(if is_json { "application/json" } else { "" }, &body);
    }

    /// Lines keep their order with any labels.
    #[test]
    fn lines_come_back(lines in prop::collection::vec("x[a-z ]{0,8}y", 1..9), labels in "\\PC{0,9}") {
        let mut request = one(&labels, 1, "");
        let entry = request.streams[0].entries.remove(0);
        request.streams[0].entries.extend(lines.iter().map(|line| EntryMessage { line: line.clone(), ..entry.clone() }));
        prop_assert_eq!(push("", &proto(&request)).expect("taken").messages(), lines);
    }
}
