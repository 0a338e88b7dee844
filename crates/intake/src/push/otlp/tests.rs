//! OTLP's two forms give the same records. Unreadable records are refused alone.

use super::super::tests::{Taken, taken};
use super::*;
use crate::push::Endpoint;
use proptest::prelude::*;
use prost::Message;

mod schema {
    //! The messages in prost's form, to write what a client would write.

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct PushRequest {
        #[prost(message, repeated, tag = "1")]
        pub(super) resource_logs: Vec<ResourceLogs>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ResourceLogs {
        #[prost(message, optional, tag = "1")]
        pub(super) resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub(super) scope_logs: Vec<ScopeLogs>,
        #[prost(string, tag = "3")]
        pub(super) schema_url: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub(super) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ScopeLogs {
        #[prost(message, optional, tag = "1")]
        pub(super) scope: Option<Scope>,
        #[prost(message, repeated, tag = "2")]
        pub(super) log_records: Vec<LogRecord>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Scope {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) version: String,
        #[prost(message, repeated, tag = "3")]
        pub(super) attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct LogRecord {
        #[prost(fixed64, tag = "1")]
        pub(super) time_unix_nano: u64,
        #[prost(int32, tag = "2")]
        pub(super) severity_number: i32,
        #[prost(string, tag = "3")]
        pub(super) severity_text: String,
        #[prost(message, optional, tag = "5")]
        pub(super) body: Option<AnyValue>,
        #[prost(message, repeated, tag = "6")]
        pub(super) attributes: Vec<KeyValue>,
        #[prost(uint32, tag = "7")]
        pub(super) dropped_attributes_count: u32,
        #[prost(fixed32, tag = "8")]
        pub(super) flags: u32,
        #[prost(bytes = "vec", tag = "9")]
        pub(super) trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "10")]
        pub(super) span_id: Vec<u8>,
        #[prost(fixed64, tag = "11")]
        pub(super) observed_time_unix_nano: u64,
        #[prost(string, tag = "12")]
        pub(super) event_name: String,
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
        #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7")]
        pub(super) value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Value {
        #[prost(string, tag = "1")]
        Text(String),
        #[prost(bool, tag = "2")]
        Bool(bool),
        #[prost(int64, tag = "3")]
        Int(i64),
        #[prost(double, tag = "4")]
        Double(f64),
        #[prost(message, tag = "5")]
        Array(Array),
        #[prost(message, tag = "6")]
        Object(Object),
        #[prost(bytes, tag = "7")]
        Bytes(Vec<u8>),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Array {
        #[prost(message, repeated, tag = "1")]
        pub(super) values: Vec<AnyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Object {
        #[prost(message, repeated, tag = "1")]
        pub(super) values: Vec<KeyValue>,
    }
}

use schema::Value as V;

fn wrapped(value: V) -> schema::AnyValue {
    schema::AnyValue { value: Some(value) }
}

fn attribute(key: &str, value: V) -> schema::KeyValue {
    schema::KeyValue { key: key.into(), value: Some(wrapped(value)) }
}

fn text(text: &str) -> V {
    V::Text(text.into())
}

fn request(record: schema::LogRecord) -> schema::PushRequest {
    let resource = Some(schema::Resource {
        attributes: vec![attribute("service.name", text("api")), attribute("host.name", text("web-17"))],
    });
    let scope = Some(schema::Scope {
        name: "lib".into(),
        version: "1.2".into(),
        attributes: vec![attribute("s", V::Bool(true))],
    });
    let scope_logs = vec![schema::ScopeLogs { scope, log_records: vec![record] }];
    schema::PushRequest { resource_logs: vec![schema::ResourceLogs { resource, scope_logs, schema_url: "x".into() }] }
}

fn full() -> schema::LogRecord {
    let inner = schema::Object { values: vec![attribute("id", text("x")), attribute("n", V::Int(-7))] };
    let array = schema::Array {
        values: vec![
            wrapped(text("a\"")),
            wrapped(V::Double(0.5)),
            wrapped(V::Bytes(vec![1])),
            schema::AnyValue::default(),
        ],
    };
    schema::LogRecord {
        time_unix_nano: 1_763_596_800_007_000_000,
        severity_number: 18,
        severity_text: "ERROR2".into(),
        body: Some(wrapped(text("level=info is no header here"))),
        attributes: vec![
            attribute("text", text("t")),
            attribute("truth", V::Bool(false)),
            attribute("whole", V::Int(i64::MAX)),
            attribute("part", V::Double(1.5)),
            attribute("bytes", V::Bytes(vec![0xff, 0])),
            attribute("list", V::Array(array)),
            attribute("http", V::Object(inner)),
            attribute("none", V::Object(schema::Object::default())),
            schema::KeyValue { key: "empty".into(), value: None },
        ],
        dropped_attributes_count: 2,
        flags: 1,
        trace_id: vec![0x0a; 16],
        span_id: vec![0xf7; 8],
        observed_time_unix_nano: 1_763_596_801_000_000_000,
        event_name: "e".into(),
    }
}

const FULL_JSON: &str = r#"{"resourceLogs":[{"resource":{"attributes":[
    {"key":"service.name","value":{"stringValue":"api"}},{"key":"host.name","value":{"stringValue":"web-17"}}]},
  "scopeLogs":[{"scope":{"name":"lib","version":"1.2","attributes":[{"key":"s","value":{"boolValue":true}}]},
  "logRecords":[{"timeUnixNano":"1763596800007000000","observedTimeUnixNano":1763596801000000000,"severityNumber":18,
    "severityText":"ERROR2","traceId":"0A0a0a0a0a0a0a0a0a0a0a0a0a0a0a0A","spanId":"F7f7f7f7f7f7f7f7","flags":1,
    "body":{"stringValue":"level=info is no header here"},"droppedAttributesCount":2,"eventName":"e","unknown":[{}],
    "attributes":[{"key":"text","value":{"stringValue":"t"}},{"key":"truth","value":{"boolValue":false}},
      {"key":"whole","value":{"intValue":"9223372036854775807"}},{"key":"part","value":{"doubleValue":1.5}},
      {"key":"bytes","value":{"bytesValue":"/wA="}},
      {"key":"list","value":{"arrayValue":{"values":[{"stringValue":"a\""},{"doubleValue":"0.5"},{"bytesValue":"AQ=="},{}]}}},
      {"key":"http","value":{"kvlistValue":{"values":[{"key":"id","value":{"stringValue":"x"}},{"key":"n","value":{"intValue":-7}}]}}},
      {"key":"none","value":{"kvlistValue":{}}},{"key":"empty"}]}]}],"schemaUrl":"x"}]}"#;

fn export(form: OtlpFormat, body: &[u8]) -> Result<Taken, Refusal> {
    taken(Endpoint::Otlp, |writer| write(body, form, writer))
}

fn shown(record: schema::LogRecord) -> String {
    export(OtlpFormat::Protobuf, &request(record).encode_to_vec()).expect("taken").shown().remove(0)
}

#[test]
fn both_forms_say_the_same_and_all_of_it_is_kept() {
    let json = export(OtlpFormat::Json, FULL_JSON.as_bytes()).expect("taken").shown();
    assert_eq!(json, [shown(full())]);
    assert_eq!(
        json[0],
        "web-17 2025-11-20T00:00:00.007Z critical \"level=info is no header here\" text=\"t\" truth=false \
         whole=9223372036854775807 part=1.5 bytes=[ff 00] list=\"[\\\"a\\\\\\\"\\\",0.5,\\\"AQ==\\\",null]\" http_id=\"x\" http_n=-7 \
         none=\"{}\" event_name=\"e\" trace_id=\"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\" span_id=\"f7f7f7f7f7f7f7f7\" \
         severity_text=\"ERROR2\" observed_time=\"2025-11-20T00:00:01Z\" trace_flags=1 dropped_attributes_count=2 \
         scope_name=\"lib\" scope_version=\"1.2\" s=true component=\"api\" host=\"web-17\""
    );
}

#[test]
fn a_body_without_a_severity_is_a_line() {
    let line = |body: V| {
        shown(schema::LogRecord {
            body: Some(wrapped(body)),
            observed_time_unix_nano: 1_763_596_801_000_000_000,
            ..Default::default()
        })
    };
    let rest = "scope_name=\"lib\" scope_version=\"1.2\" s=true component=\"api\" host=\"web-17\"";
    let observed = "observed_time=\"2025-11-20T00:00:01Z\"";
    assert_eq!(
        line(text("2025-11-20T00:00:00Z WARN no room left")),
        format!("web-17 2025-11-20T00:00:00Z warn \"no room left\" {observed} {rest}")
    );
    assert_eq!(line(text("words")), format!("web-17 2025-11-20T00:00:01Z - \"words\" {rest}"));
    let object = schema::Object {
        values: vec![attribute("msg", text("up")), attribute("level", text("error")), attribute("n", V::Int(1))],
    };
    assert_eq!(line(V::Object(object)), format!("web-17 2025-11-20T00:00:01Z error \"up\" n=1 {rest}"));
    let bytes = |bytes: &[u8]| line(V::Bytes(bytes.to_vec()));
    assert_eq!(bytes(b"raw \xff"), format!("web-17 2025-11-20T00:00:01Z - \"cmF3IP8=\" {rest}"));
    assert_eq!(bytes("räw".as_bytes()), format!("web-17 2025-11-20T00:00:01Z - \"räw\" {rest}"));
}

#[test]
fn a_record_that_cannot_be_read_is_refused_alone() {
    let mut deep = text("x");
    for _ in 0..40 {
        deep = V::Array(schema::Array { values: vec![wrapped(deep)] });
    }
    let mut request = request(full());
    let records = &mut request.resource_logs[0].scope_logs[0].log_records;
    records.push(schema::LogRecord { body: Some(wrapped(deep)), ..Default::default() });
    records.push(schema::LogRecord { body: Some(wrapped(text(&"x".repeat(RECORD_BYTES_MAX)))), ..Default::default() });
    records.push(full());
    let taken = export(OtlpFormat::Protobuf, &request.encode_to_vec()).expect("taken");
    assert_eq!((taken.messages().len(), taken.refused().len()), (2, 2));
    assert_eq!(taken.refused()[0], (1, "values are nested too deeply"));
    let json = FULL_JSON.replace("\"logRecords\":[", "\"logRecords\":[{\"timeUnixNano\":\"noon\"},7,");
    let taken = export(OtlpFormat::Json, json.as_bytes()).expect("taken");
    assert_eq!((taken.messages().len(), taken.refused().len()), (1, 2));
    let nested = "{\"arrayValue\":{\"values\":[".repeat(10_000);
    let json = FULL_JSON
        .replace("\"logRecords\":[", &format!("\"logRecords\":[{{\"body\":{nested}{}}},", "]}}".repeat(10_000)));
    assert_eq!(export(OtlpFormat::Json, json.as_bytes()).expect("taken").refused().len(), 1);
}

#[test]
fn shared_parts_count_for_each_record() {
    let records = |bytes: usize, count: usize| {
        let mut request = request(schema::LogRecord::default());
        let logs = &mut request.resource_logs[0];
        logs.scope_logs[0].log_records = vec![schema::LogRecord::default(); count];
        let attributes = &mut logs.resource.as_mut().expect("a resource").attributes;
        attributes.push(attribute("long", text(&"x".repeat(bytes))));
        export(OtlpFormat::Protobuf, &request.encode_to_vec())
    };
    let taken = records(RECORD_BYTES_MAX, 3).expect("taken");
    assert_eq!((taken.messages().len(), taken.refused().len()), (0, 3));
    // 128 MiB of rows are the most: two bytes each would otherwise become 100,000 of half a MiB.
    assert_eq!(records(RECORD_BYTES_MAX / 2, 5).expect("few").messages().len(), 5);
    assert!(matches!(records(RECORD_BYTES_MAX / 2, 1000), Err(Refusal::TooLarge(_))));
}

#[test]
fn a_service_is_the_instance_before_the_id_of_its_process() {
    let id = ("service.instance.id", "627cc493-f310-47de-96bd-71410b7dec09");
    for (attributes, instance) in [
        (&[id, ("service.name", "api")][..], "api"),
        (&[id, ("service.name", "api"), ("service.namespace", "shop")], "shop%2Fapi"),
        (&[id, ("service.name", "api"), ("service.namespace", "")], "api"),
        (&[id, ("service.namespace", "shop")], id.1),
        (&[id, ("service.name", "api"), ("host.name", "web-17")], "web-17"),
    ] {
        let mut request = request(full());
        let attributes = attributes.iter().map(|(name, value)| attribute(name, text(value))).collect();
        request.resource_logs[0].resource = Some(schema::Resource { attributes });
        let shown = export(OtlpFormat::Protobuf, &request.encode_to_vec()).expect("taken").shown();
        assert!(shown[0].starts_with(&format!("{instance} ")) && shown[0].contains(id.1), "{shown:?}");
    }
}

#[test]
fn malformed_requests_are_refused_and_an_empty_one_has_no_records() {
    let whole = request(full()).encode_to_vec();
    for cut in 1..whole.len() {
        assert!(export(OtlpFormat::Protobuf, &whole[..cut]).is_err(), "cut at {cut}");
    }
    for body in ["", "[]", "{\"resourceLogs\":7}", "{\"resourceLogs\":[{\"scopeLogs\":{}}]}"] {
        assert!(matches!(export(OtlpFormat::Json, body.as_bytes()), Err(Refusal::Bad { .. })), "{body}");
    }
    for (form, body) in
        [(OtlpFormat::Protobuf, ""), (OtlpFormat::Json, "{}"), (OtlpFormat::Json, "{\"resourceLogs\":null}")]
    {
        assert!(export(form, body.as_bytes()).expect("nothing").messages().is_empty());
    }
    assert_eq!(OtlpFormat::read("text/plain").expect_err("none").status(), 415);
}

#[test]
fn older_names_and_those_of_the_protocol_buffers_say_the_same() {
    let now = r#"{"resourceLogs":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"h"}}]},
        "scopeLogs":[{"scope":{"name":"s"},"logRecords":[{"timeUnixNano":"1763596800000000000","severityNumber":17,
        "traceId":"0af7","eventName":"e","body":{"stringValue":"up"},
        "attributes":[{"key":"n","value":{"intValue":"7"}}]}]}]}]}"#;
    let older = now
        .replace("scopeLogs", "instrumentationLibraryLogs")
        .replace("\"scope\"", "\"instrumentationLibrary\"")
        .replace("logRecords", "logs")
        .replace("eventName", "name");
    let snake = [
        "resourceLogs",
        "scopeLogs",
        "logRecords",
        "timeUnixNano",
        "severityNumber",
        "traceId",
        "eventName",
        "stringValue",
        "intValue",
    ]
    .into_iter()
    .fold(now.to_owned(), |text, name| {
        let name_of = |c: char| if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.into() };
        text.replace(name, &name.chars().map(name_of).collect::<String>())
    });
    let [now, older, snake] =
        [now, &older, &snake].map(|body| export(OtlpFormat::Json, body.as_bytes()).expect("taken"));
    assert_eq!((now.messages(), now.unread()), (vec!["up".to_owned()], 0));
    assert_eq!((older.shown(), older.unread()), (now.shown(), 0));
    assert_eq!((snake.shown(), snake.unread()), (now.shown(), 0));
    // In protocol buffers, the scopes had the number 1000, and the name of an event the number 4.
    let field = |number: u64, bytes: &[u8]| {
        let mut message = Vec::new();
        put_bytes(&mut message, number, bytes);
        message
    };
    let mut record = schema::LogRecord { body: Some(wrapped(text("up"))), ..Default::default() }.encode_to_vec();
    record.extend(field(4, b"e"));
    let body = field(1, &field(1000, &field(2, &record)));
    let taken = export(OtlpFormat::Protobuf, &body).expect("taken");
    assert!(taken.shown()[0].contains(" \"up\" event_name=\"e\""), "{:?}", taken.shown());
    assert_eq!(taken.unread(), 0);
}

#[test]
fn what_is_not_known_is_counted_or_refused() {
    let record = r#"{"body":{"stringValue":"up"}}"#;
    let scope = format!(r#"{{"logRecords":[{record}]}}"#);
    // (body, messages, refused records, unread parts)
    for (body, messages, refused, unread) in [
        (r#"{"resourceSpans":[{"scopeSpans":[]}]}"#.to_owned(), 0, 1, 1),
        (r#"{"resourceLogs":[{"scopeSpans":[{"spans":[]}]}]}"#.to_owned(), 0, 1, 1),
        (format!(r#"{{"resourceLogs":[{{"scopeLogs":[{scope},{{"spans":[]}}]}}]}}"#), 1, 1, 1),
        (format!(r#"{{"resourceLogs":[{{"scopeLogs":[{scope}],"a":1}}],"b":2}}"#), 1, 0, 2),
        (r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"up"},"stuff":1}]}]}]}"#.into(), 1, 0, 1),
        (
            r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"up"},"attributes":[
                {"key":"a","value":{"uuidValue":"1"}},{"key":"b","val":1},{"key":"c","value":{"arrayValue":{"values":[{"x":1}]}}},
                {"key":"d"},{"key":"e","value":{}}]}]}]}]}"#
                .into(),
            1,
            0,
            3,
        ),
        (r#"{"resourceLogs":[{"schemaUrl":"u","scopeLogs":[{"schemaUrl":"u","logRecords":[]}]}]}"#.into(), 0, 0, 0),
    ] {
        let taken = export(OtlpFormat::Json, body.as_bytes()).expect("taken");
        assert_eq!((taken.messages().len(), taken.refused().len(), taken.unread()), (messages, refused, unread), "{body}");
    }
    let field = |number: u64, bytes: &[u8]| {
        let mut message = Vec::new();
        put_bytes(&mut message, number, bytes);
        message
    };
    let record = schema::LogRecord { body: Some(wrapped(text("up"))), ..Default::default() }.encode_to_vec();
    let scope = field(2, &record);
    for (body, messages, refused, unread) in [
        (field(7, b"x"), 0, 1, 1),
        (field(1, &field(7, b"x")), 0, 1, 1),
        // Spans and metrics look like records whose fields have other kinds.
        (field(1, &field(2, &field(2, &field(1, b"0123456789abcdef")))), 0, 1, 0),
        (field(1, &[field(2, &scope), field(2, &field(9, b"x"))].concat()), 1, 1, 1),
        (field(1, &field(2, &field(2, &[record.clone(), field(99, b"x")].concat()))), 1, 0, 1),
        (
            field(
                1,
                &field(
                    2,
                    &field(
                        2,
                        &[record.clone(), field(6, &[field(1, b"a"), field(2, &field(8, b"x"))].concat())].concat(),
                    ),
                ),
            ),
            1,
            0,
            1,
        ),
        (field(1, &[field(2, &scope), field(3, b"url")].concat()), 1, 0, 0),
    ] {
        let taken = export(OtlpFormat::Protobuf, &body).expect("taken");
        assert_eq!(
            (taken.messages().len(), taken.refused().len(), taken.unread()),
            (messages, refused, unread),
            "{body:?}"
        );
    }
}

#[test]
fn answers_are_written_as_the_request_was() {
    #[derive(Clone, PartialEq, Message)]
    struct Response {
        #[prost(message, optional, tag = "1")]
        partial: Option<Partial>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct Partial {
        #[prost(int64, tag = "1")]
        rejected: i64,
        #[prost(string, tag = "2")]
        message: String,
    }
    assert_eq!((OtlpFormat::Protobuf.response(0, ""), OtlpFormat::Json.response(0, "")), (vec![], b"{}".to_vec()));
    let said = Response::decode(&*OtlpFormat::Protobuf.response(300, "why")).expect("a message");
    assert_eq!(said.partial, Some(Partial { rejected: 300, message: "why".into() }));
    let said: serde_json::Value = serde_json::from_slice(&OtlpFormat::Json.response(300, "why")).expect("JSON");
    assert_eq!(said["partialSuccess"], serde_json::json!({"rejectedLogRecords": "300", "errorMessage": "why"}));
}

proptest! {
    /// Any bytes are records or none.
    #[test]
    fn any_bytes(bytes: Vec<u8>, is_json: bool) {
        let _ = export(if is_json { OtlpFormat::Json } else { OtlpFormat::Protobuf }, &bytes);
    }

    /// The same for a request with some changed bytes.
    #[test]
    fn changed_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        for (form, mut body) in [(OtlpFormat::Protobuf, request(full()).encode_to_vec()), (OtlpFormat::Json, FULL_JSON.as_bytes().to_vec())] {
            for (at, byte) in &changes {
                let at = at.index(body.len());
                body[at] = *byte;
            }
            let _ = export(form, &body);
        }
    }
}
