//! The reading routes of Loki: what Grafana's data source, Logs Drilldown and `logcli` ask, over the real daemon.
//!
//! The entries are made by `corpus`. What a question must answer is computed from the same list without daytable.

use crate::client::{Answer, encoded, over};
use crate::place::{Daemon, PATIENCE, Place, mebibytes};
use base64::Engine;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

const START: i64 = 1_795_168_800;
const SECONDS: i64 = 300;
const CATEGORIZE: &str = "X-Loki-Response-Encoding-Flags: categorize-labels\r\n";

/// An entry as it is pushed.
struct Pushed {
    labels: BTreeMap<&'static str, String>,
    nanos: i64,
    line: String,
    metadata: BTreeMap<&'static str, String>,
    level: &'static str,
}

/// Entries of every shape, three a second: JSON, logfmt with metadata, text with several lines.
fn corpus() -> Vec<Pushed> {
    const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
    let mut entries = Vec::new();
    for second in 0..SECONDS {
        for kind in 0..3 {
            let seed = second * 7 + kind * 3;
            let level = LEVELS[usize::try_from(seed % 4).expect("small")];
            // Below a tick of 100 ns, too.
            let nanos = (START + second) * 1_000_000_000 + kind * 300_000_000 + seed % 1000;
            let (labels, line, metadata, level) = match kind {
                0 => (
                    vec![("job", "web".to_owned()), ("host", format!("edge-{}", seed % 2))],
                    format!(
                        r#"{{"level":"{level}","status":{},"took":"{}ms","path":"/a\"b"}}"#,
                        200 + seed % 4 * 100,
                        seed
                    ),
                    vec![],
                    level,
                ),
                1 => (
                    vec![("app", "shop".to_owned())],
                    format!("level={level} msg=\"cart \\\"full\\\"\" order={seed} user=u{}", seed % 3),
                    vec![("trace_id", format!("{seed:032x}")), ("user", format!("u{}", seed % 5))],
                    level,
                ),
                _ => (
                    vec![("job", "legacy".to_owned())],
                    format!("step {seed} done\n\tat here {second}\n"),
                    vec![],
                    "unknown",
                ),
            };
            let (labels, metadata) = (labels.into_iter().collect(), metadata.into_iter().collect());
            entries.push(Pushed { labels, nanos, line, metadata, level });
        }
    }
    entries
}

fn start(place: &Place) -> Daemon {
    let path = place.path("token");
    fs::write(&path, "s3cret\n").expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("set");
    place.start_with(&format!("[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n", path.display()))
}

fn push(daemon: &Daemon, entries: &[Pushed]) {
    let value = |e: &Pushed| match e.metadata.is_empty() {
        true => json!([e.nanos.to_string(), e.line]),
        false => json!([e.nanos.to_string(), e.line, e.metadata]),
    };
    let streams: Vec<Value> = entries.iter().map(|e| json!({ "stream": e.labels, "values": [value(e)] })).collect();
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    let body = json!({ "streams": streams }).to_string();
    let answer = over(stream, "POST", "/loki/api/v1/push", "Content-Type: application/json\r\n", body.as_bytes());
    assert_eq!(answer.expect("an answer").status, 204);
}

/// The password of basic authentication, as Grafana sends it.
fn basic() -> String {
    format!("Authorization: Basic {}\r\n", base64::engine::general_purpose::STANDARD.encode("grafana:s3cret"))
}

fn ask(daemon: &Daemon, route: &str, params: &[(&str, &str)], headers: &str) -> Answer {
    let query: Vec<String> =
        params.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let headers = basic() + headers + "X-Scope-OrgID: tenant\r\nX-Query-Tags: Source=grafana-lokiexplore-app\r\n";
    over(stream, "GET", &format!("{route}?{}", query.join("&")), &headers, b"").expect("an answer")
}

fn whole<'p>(params: &[(&'p str, &'p str)], times: &'p [String; 2]) -> Vec<(&'p str, &'p str)> {
    [params, &[("start", times[0].as_str()), ("end", times[1].as_str())]].concat()
}

fn json_of(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// Asks a route below `/loki/api/v1/` about all entries.
fn about_all(daemon: &Daemon, route: &str, params: &[(&str, &str)], headers: &str) -> Value {
    let times = [format!("{START}000000000"), format!("{}000000000", START + SECONDS)];
    json_of(&ask(daemon, &format!("/loki/api/v1/{route}"), &whole(params, &times), headers))
}

/// The entries of an answer, by time: all labels, the line, and the labels by their origin.
fn entries_of(answer: &Value) -> BTreeMap<i64, (Value, String, Value)> {
    let mut entries = BTreeMap::new();
    for stream in answer["data"]["result"].as_array().expect("streams") {
        for value in stream["values"].as_array().expect("values") {
            let time: i64 = value[0].as_str().and_then(|text| text.parse().ok()).expect("nanoseconds as text");
            let line = value[1].as_str().expect("a line").to_owned();
            assert!(entries.insert(time, (stream["stream"].clone(), line, value[2].clone())).is_none(), "{time} twice");
        }
    }
    entries
}

/// Every entry comes back as it was pushed: labels, nanoseconds, the line to the byte, metadata.
#[test]
fn entries_come_back_as_they_were_pushed() {
    let (place, corpus) = (Place::new(), corpus());
    let daemon = start(&place);
    push(&daemon, &corpus);
    for direction in ["backward", "forward"] {
        let params = [("query", "{service_name=~\".+\"}"), ("limit", "5000"), ("direction", direction)];
        let found = entries_of(&about_all(&daemon, "query_range", &params, CATEGORIZE));
        assert_eq!(found.len(), corpus.len());
        for pushed in &corpus {
            let (stream, line, labels) = &found[&pushed.nanos];
            let mut expected = json!(pushed.labels);
            expected["service_name"] = json!(pushed.labels.get("app").or(pushed.labels.get("job")));
            assert_eq!((stream, line), (&expected, &pushed.line));
            let mut metadata = json!(pushed.metadata);
            metadata["detected_level"] = json!(pushed.level);
            assert_eq!(labels, &json!({ "structuredMetadata": metadata }), "{}", pushed.line);
        }
    }
    let oldest = entries_of(&about_all(
        &daemon,
        "query_range",
        &[("query", "{job=\"web\"}"), ("limit", "7"), ("direction", "forward")],
        "",
    ));
    let newest = entries_of(&about_all(&daemon, "query_range", &[("query", "{job=\"web\"}"), ("limit", "7")], ""));
    let web: Vec<i64> =
        corpus.iter().filter(|e| e.labels.get("job").is_some_and(|job| job == "web")).map(|e| e.nanos).collect();
    assert_eq!(oldest.into_keys().collect::<Vec<_>>(), web[..7]);
    assert_eq!(newest.into_keys().collect::<Vec<_>>(), web[web.len() - 7..]);
    daemon.stop();
}

/// A test of an entry, written in Rust.
type Wanted = fn(&Pushed) -> bool;

fn number(line: &str, before: &str) -> i64 {
    let digits = line.split_once(before).map_or("", |(_, rest)| rest);
    digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(-1)
}

/// Filters and counts agree with those of a plain list.
#[test]
fn answers_agree_with_a_plain_list() {
    let (place, corpus) = (Place::new(), corpus());
    let daemon = start(&place);
    push(&daemon, &corpus);
    let questions: [(&str, Wanted); 9] = [
        ("{job=\"web\"} | json | status >= 400", |e| number(&e.line, "\"status\":") >= 400),
        ("{job=\"web\", host!=\"edge-0\"} |= \"ms\"", |e| e.labels.get("host").is_some_and(|host| host != "edge-0")),
        ("{app=\"shop\"} | user=\"u2\"", |e| e.metadata.get("user").is_some_and(|user| user == "u2")),
        ("{app=\"shop\"} | logfmt | user_extracted=\"u1\" and order > 500", |e| {
            e.line.contains("user=u1") && number(&e.line, "order=") > 500
        }),
        ("{job=~\".+\"} | json | __error__=\"\" | took < 300ms", |e| (0..300).contains(&number(&e.line, "took\":\""))),
        ("{job=\"legacy\"} |~ \"step \\\\d+5 \"", |e| e.line.starts_with("step") && number(&e.line, "step ") % 10 == 5),
        ("{service_name=\"shop\"} | detected_level=\"error\"", |e| e.labels.contains_key("app") && e.level == "error"),
        ("{job=\"legacy\"} |> \"step <_> done<_>\"", |e| e.line.starts_with("step")),
        ("{job=\"none\"}", |_| false),
    ];
    for (query, wanted) in questions {
        let expected: BTreeSet<i64> = corpus.iter().filter(|entry| wanted(entry)).map(|entry| entry.nanos).collect();
        let found = entries_of(&about_all(&daemon, "query_range", &[("query", query), ("limit", "5000")], ""));
        assert_eq!(found.into_keys().collect::<BTreeSet<_>>(), expected, "{query}");
        let counted = about_all(
            &daemon,
            "query_range",
            &[("query", &format!("sum(count_over_time({query} [1m]))")), ("step", "30")],
            "",
        );
        let mut steps = Vec::new();
        for end in (START..=START + SECONDS).step_by(30) {
            let (from, to) = ((end - 60) * 1_000_000_000, end * 1_000_000_000);
            let count = expected.iter().filter(|time| **time > from && **time <= to).count();
            if count > 0 {
                steps.push(json!([end, count.to_string()]));
            }
        }
        let series = if steps.is_empty() { json!([]) } else { json!([{ "metric": {}, "values": steps }]) };
        assert_eq!(counted["data"]["result"], series, "{query}");
    }
    daemon.stop();
}

/// The requests of Explore, of Drilldown and of `logcli`, as these send them, and the shapes they rely on.
#[test]
fn what_grafana_and_logcli_ask_is_answered() {
    let (place, corpus) = (Place::new(), corpus());
    let daemon = start(&place);
    push(&daemon, &corpus);
    let asked = |route: &str, params: &[(&str, &str)]| json_of(&ask(&daemon, route, params, CATEGORIZE));
    let all = |route: &str, params: &[(&str, &str)]| about_all(&daemon, route, params, CATEGORIZE);

    // The health check of the data source.
    let health = asked("/loki/api/v1/query", &[("query", "vector(1)+vector(1)"), ("time", "4000000000")]);
    assert_eq!(health["data"]["result"], json!([{ "metric": {}, "value": [4_000_000_000i64, "2"] }]));
    assert_eq!(asked("/loki/api/v1/status/buildinfo", &[])["version"], "3.7.0");
    for path in [
        "/ready",
        "/prometheus/api/v1/rules",
        "/loki/api/v1/rules",
        "/prometheus/api/v1/alerts",
        "/loki/api/v1/drilldown-limits",
    ] {
        assert_eq!(ask(&daemon, path, &[], "").status, 200, "{path}");
    }
    // Labels.
    assert_eq!(all("labels", &[])["data"], json!(["app", "host", "job", "service_name"]));
    assert_eq!(all("label/host/values", &[("query", "{job=\"web\"}")])["data"], json!(["edge-0", "edge-1"]));
    assert_eq!(all("label/none/values", &[]), json!({ "status": "success" }));
    assert_eq!(
        all("series", &[("match[]", "{app=\"shop\"}")])["data"],
        json!([{ "app": "shop", "service_name": "shop" }])
    );
    // Entries and their histogram.
    let entries = all("query_range", &[("query", "{app=\"shop\"} | logfmt"), ("limit", "1"), ("step", "1000ms")]);
    assert_eq!(entries["data"]["encodingFlags"], json!(["categorize-labels"]));
    assert_eq!(entries["data"]["result"][0]["values"][0][2]["parsed"]["msg"], "cart \"full\"");
    let histogram = "sum by (level, detected_level) (count_over_time({service_name=~\".+\"} | drop __error__[15s]))";
    let histogram = all("query_range", &[("query", histogram), ("step", "15000ms")]);
    assert_eq!(histogram["data"]["result"].as_array().map(Vec::len), Some(5), "{histogram}");
    // Volumes.
    let stats = all("index/stats", &[("query", "{app=\"shop\"}")]);
    let bytes: usize = corpus.iter().filter(|e| e.labels.contains_key("app")).map(|e| e.line.len()).sum();
    assert_eq!(stats, json!({ "streams": 1, "chunks": 1, "bytes": bytes, "entries": SECONDS }));
    let volume = all("index/volume", &[("query", "{service_name=~\".+\"}"), ("limit", "5000")]);
    let shop = volume["data"]["result"]
        .as_array()
        .expect("a vector")
        .iter()
        .find(|v| v["metric"] == json!({ "service_name": "shop" }));
    assert_eq!(shop.map(|shop| shop["value"][1].clone()), Some(json!(bytes.to_string())));
    // A volume stands at the end of its step, and a stream without a label that is asked for has none.
    let range = all("index/volume_range", &[("query", "{app=\"shop\"}"), ("step", "60")])["data"].clone();
    assert_eq!(range["resultType"], "matrix");
    assert_eq!(range["result"][0]["values"][0][0], json!(START as f64 + 59.999), "{range}");
    let none = all("index/volume", &[("query", "{app=\"shop\"}"), ("targetLabels", "app,host")]);
    assert_eq!(none["data"]["result"], json!([]));
    // Fields and patterns.
    let labels = all("detected_labels", &[]);
    assert_eq!(labels["detectedLabels"][1], json!({ "label": "host", "cardinality": 2 }));
    let fields = all("detected_fields", &[("query", "{app=\"shop\"}"), ("line_limit", "1000")]);
    let field =
        |name: &str| fields["fields"].as_array().expect("fields").iter().find(|field| field["label"] == name).cloned();
    assert_eq!(field("trace_id").map(|field| field["parsers"].clone()), Some(Value::Null));
    assert_eq!(
        field("order").map(|field| (field["type"].clone(), field["parsers"].clone())),
        Some((json!("int"), json!(["logfmt"])))
    );
    assert_eq!(
        all("detected_field/user/values", &[("query", "{app=\"shop\"}")]),
        json!({ "values": ["u0", "u1", "u2", "u3", "u4"], "limit": 1000 })
    );
    let patterns = all("patterns", &[("query", "{job=\"legacy\"}"), ("step", "60s")]);
    assert_eq!(patterns["data"][0]["pattern"], "step <_> done", "{patterns}");
    let formatted = asked("/loki/api/v1/format_query", &[("query", "sum(rate({a=\"b\"}[5m]))by(c)")]);
    assert_eq!(formatted["data"], "sum by (c) (rate({a=\"b\"} [5m]))");
    // Drilldown's questions about fields.
    for query in [
        "sum by (user) (count_over_time({service_name=\"shop\"} | user!=\"\" [15s]))",
        "avg_over_time({service_name=\"shop\"} | logfmt | unwrap order | __error__=\"\" [15s]) by ()",
        "{service_name=\"web\"} | detected_level=\"error\" |~ \"(?i)took\" | json | logfmt | drop __error__, __error_details__ | status=\"500\"",
        "{service_name=\"legacy\"} |> `step <_> done<_>` | pattern `step <n> done` | keep n | line_format \"\"",
    ] {
        assert!(
            !all("query_range", &[("query", query), ("step", "15s")])["data"]["result"]
                .as_array()
                .expect("a list")
                .is_empty(),
            "{query}"
        );
    }
    // A form in a POST, as older clients send it.
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    let form = format!("match[]={}&start={START}&end={}", encoded("{job=\"legacy\"}"), START + SECONDS);
    let headers = basic() + "Content-Type: application/x-www-form-urlencoded\r\n";
    let series = over(stream, "POST", "/loki/api/v1/series", &headers, form.as_bytes()).expect("an answer");
    assert_eq!(json_of(&series)["data"], json!([{ "job": "legacy", "service_name": "legacy" }]));
    // What is refused, and why.
    for (route, query, reason) in [
        ("query_range", "{job=\"legacy\"", "parse error at line 1, col 14"),
        ("query_range", "{}", "at least one regexp or equality matcher"),
        ("query", "{job=\"legacy\"}", "log queries are not supported as an instant query type"),
        (
            "query_range",
            "sum by (a) (count_over_time({job=\"legacy\"} | json [1m]))",
            "pipeline error: 'JSONParserErr'",
        ),
    ] {
        let times = [format!("{START}000000000"), format!("{}000000000", START + SECONDS)];
        let refused = ask(&daemon, &format!("/loki/api/v1/{route}"), &whole(&[("query", query)], &times), "");
        assert!(refused.status == 400 && refused.body.contains(reason), "{query}: {refused:?}");
    }
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    assert_eq!(over(stream, "GET", "/loki/api/v1/labels", "", b"").expect("an answer").status, 401);
    daemon.stop();
}

/// The requests of `session.tsv` in their order: each is answered in the shape that its client takes apart, with contents.
#[test]
fn a_session_of_each_client_is_replayed() {
    let (place, corpus) = (Place::new(), corpus());
    let daemon = start(&place);
    push(&daemon, &corpus);
    let (begin, end) = (START, START + SECONDS);
    let rfc = |seconds: i64| daytable_model::time::Ticks::from_unix(seconds, 0).expect("a time").to_string();
    for line in include_str!("loki/session.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [_, request, params, kind, least] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let (method, route) = request.split_once(' ').expect("a method");
        let params = params
            .replace("START", &format!("{begin}000000000"))
            .replace("END", &format!("{end}000000000"))
            .replace("FROM", &rfc(begin))
            .replace("TO", &rfc(end));
        // A query may hold `=` and `&`; a parameter begins with a name.
        let mut pairs: Vec<(String, String)> = Vec::new();
        for part in params.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').expect("a name");
            pairs.push((name.to_owned(), value.to_owned()));
        }
        let form: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let (target, body) = match method {
            "GET" => (format!("/loki/api/v1/{route}?{}", form.join("&")), String::new()),
            _ => (format!("/loki/api/v1/{route}"), form.join("&")),
        };
        let stream = TcpStream::connect(daemon.address()).expect("connected");
        let headers = basic() + CATEGORIZE + "Content-Type: application/x-www-form-urlencoded\r\n";
        let answer = json_of(&over(stream, method, &target, &headers, body.as_bytes()).expect("an answer"));
        let found = match kind {
            "vector" | "matrix" | "streams" => {
                assert_eq!(answer["data"]["resultType"], kind, "{line}: {answer}");
                let value = if kind == "vector" { "value" } else { "values" };
                let result = answer["data"]["result"].as_array().expect("a list");
                assert!(result.iter().all(|one| one[value].as_array().is_some_and(|all| !all.is_empty())), "{answer}");
                result.len()
            }
            "list" => answer["data"].as_array().map_or(0, Vec::len),
            "text" => answer["data"].as_str().map_or(0, str::len),
            "nothing" => answer.get("data").map_or(0, |_| usize::MAX),
            _ => match &answer[kind.strip_prefix("object:").expect("a kind")] {
                Value::Array(all) => all.len(),
                Value::Number(number) => usize::try_from(number.as_u64().expect("whole")).expect("small"),
                Value::Null => panic!("{line}: {answer}"),
                _ => 1,
            },
        };
        let least: usize = least.parse().expect("a number");
        assert!(found >= least && (kind != "nothing" || found == 0), "{line}: {answer}");
    }
    daemon.stop();
}

/// Records that were not pushed by Loki's protocol have labels, too, and any field selects them.
#[test]
fn other_records_have_labels_and_fields() {
    let place = Place::new();
    let daemon = start(&place);
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    let body = "{\"level\":\"error\",\"msg\":\"disk full\",\"host\":\"web-1\",\"unit\":\"backup\",\"http.status\":507}";
    assert_eq!(
        over(stream, "POST", "/ingest", "Content-Type: application/x-ndjson\r\n", body.as_bytes())
            .expect("an answer")
            .status,
        200
    );
    for query in [
        "{instance=\"web-1\"}",
        "{service_name=\"backup\"}",
        "{level=\"error\"}",
        "{table=\"Log\"}",
        "{http_status=\"507\"}",
    ] {
        let answer = json_of(&ask(&daemon, "/loki/api/v1/query_range", &[("query", query)], CATEGORIZE));
        let stream = &answer["data"]["result"][0];
        assert_eq!(
            (&stream["stream"]["instance"], &stream["stream"]["level"]),
            (&json!("web-1"), &json!("error")),
            "{query}"
        );
        let metadata = &stream["values"][0][2]["structuredMetadata"];
        assert_eq!(
            (&metadata["http_status"], &metadata["detected_level"]),
            (&json!("507"), &json!("error")),
            "{query}"
        );
    }
    daemon.stop();
}

/// A condition at random, in LogQL and in the language of `/api/query`.
fn condition(draw: &mut impl FnMut(usize) -> usize) -> (String, String) {
    const TEXTS: [&str; 6] = ["done", "step 1", "\"user\":\"u2\"", "é", "7", "nowhere"];
    const PATTERNS: [&str; 5] = [r"step \d+ done", "(?i)STEP", "u[12]", r"^\{", "9 done"];
    let quoted = |text: &str| serde_json::to_string(text).expect("a text");
    let holds = |text: &str| format!("line:~{}", quoted(text));
    let text = TEXTS[draw(TEXTS.len())];
    let number = draw(120);
    match draw(8) {
        0 => (format!("|= {}", quoted(text)), holds(text)),
        1 => (format!("!= {}", quoted(text)), format!("-{}", holds(text))),
        2 => {
            let other = TEXTS[draw(TEXTS.len())];
            (format!("|= {} or {}", quoted(text), quoted(other)), format!("({} or {})", holds(text), holds(other)))
        }
        3 => {
            let pattern = PATTERNS[draw(PATTERNS.len())];
            let sign = ["|~", "!~"][number % 2];
            (format!("{sign} {}", quoted(pattern)), format!("{}line:~{}", ["", "-"][number % 2], quoted(pattern)))
        }
        4 => (format!("| user=\"u{}\"", number % 4), format!("user:=\"u{}\"", number % 4)),
        5 => (format!("| user!~\"u[{}x]\"", number % 4), format!("-user:~\"^u[{}x]$\"", number % 4)),
        6 => {
            let sign = [">", ">=", "<", "<="][draw(4)];
            (format!("| order{sign}{number}"), format!("order:{sign}{number}"))
        }
        _ => (
            format!("| order>{number} or user=\"u1\" and level!=\"warn\""),
            format!("(order:>{number} or (user:=\"u1\" -level:=warn))"),
        ),
    }
}

/// A query of LogQL for entries and its translation to the language of `/api/query` give the same records.
#[test]
fn a_query_and_its_translation_give_the_same_records() {
    let place = Place::new();
    let daemon = start(&place);
    let records: Vec<String> = (0..120)
        .map(|n| {
            let time = format!("2026-11-20T10:{:02}:{:02}.5Z", n / 60, n % 60);
            let level = ["info", "warn", "error"][n % 3];
            let user = if n % 5 == 0 { String::new() } else { format!(",\"user\":\"u{}\"", n % 4) };
            let order = if n % 7 == 0 { String::new() } else { format!(",\"order\":{n}") };
            format!("{{\"time\":\"{time}\",\"level\":\"{level}\",\"host\":\"web-{}\",\"msg\":\"step {n} done é\"{user}{order}}}", n % 2)
        })
        .collect();
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    let pushed =
        over(stream, "POST", "/ingest", "Content-Type: application/x-ndjson\r\n", records.join("\n").as_bytes());
    assert_eq!(pushed.expect("an answer").status, 200);
    let mut state = 7u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % n
    };
    let (begin, end) = (START, START + SECONDS);
    let range =
        [("start", format!("{begin}000000000")), ("end", format!("{end}000000000")), ("limit", "1000".to_owned())];
    let mut found = 0;
    for _ in 0..80 {
        let conditions: Vec<(String, String)> = (0..=draw(3)).map(|_| condition(&mut draw)).collect();
        let host = draw(2);
        let logql = conditions.iter().fold(format!("{{instance=\"web-{host}\"}}"), |query, (one, _)| query + " " + one);
        let own = conditions.iter().fold(format!("instance:=web-{host}"), |query, (_, one)| query + " " + one);
        let mut params = vec![("query", logql.as_str())];
        params.extend(range.iter().map(|(name, value)| (*name, value.as_str())));
        let entries = entries_of(&json_of(&ask(&daemon, "/loki/api/v1/query_range", &params, CATEGORIZE)));
        let answer = ask(&daemon, "/api/query", &[("q", &own), ("limit", "1000")], "");
        assert_eq!(answer.status, 200, "{own}: {answer:?}");
        let mut lines: Vec<String> = answer
            .body
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["time"].as_str().expect("a time").to_owned())
            .collect();
        lines.sort();
        let times: Vec<String> = entries
            .keys()
            .map(|nanos| daytable_model::time::Ticks::from_unix_nanos((*nanos).into()).expect("a time").to_string())
            .collect();
        assert_eq!(times, lines, "{logql}\n{own}");
        found += lines.len();
    }
    assert!(found > 200, "{found}");
    daemon.stop();
}

/// A websocket that follows the entries of a query.
fn websocket(daemon: &Daemon, query: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(daemon.address()).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let target = format!("/loki/api/v1/tail?query={}", encoded(query));
    let head = "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    stream.write_all(format!("GET {target} HTTP/1.1\r\n{head}{headers}\r\n").as_bytes()).expect("written");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the head of the answer");
        answer.push(byte[0]);
    }
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 101") && answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    stream
}

/// The first frame of a websocket. The position is fixed some time after the head, so `push` is called until one arrives.
fn first_frame(stream: &mut TcpStream, push: impl Fn()) -> Value {
    stream.set_nonblocking(true).expect("set");
    crate::place::wait_for("a frame", PATIENCE, || {
        push();
        stream.peek(&mut [0; 2]).ok().filter(|read| *read == 2)
    });
    stream.set_nonblocking(false).expect("set");
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("a frame");
    let length = match head[1] & 0x7f {
        126 => {
            let mut length = [0; 2];
            stream.read_exact(&mut length).expect("a length");
            usize::from(u16::from_be_bytes(length))
        }
        length => usize::from(length),
    };
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).expect("the frame");
    serde_json::from_slice(&payload).expect("JSON")
}

fn now_nanos() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos();
    i64::try_from(now).expect("before 2262")
}

/// Entries follow through a websocket, as they are committed.
#[test]
fn a_websocket_follows_entries() {
    let place = Place::new();
    let daemon = start(&place);
    let mut stream = websocket(&daemon, "{app=\"shop\"} |= \"two\"", &basic());
    let frame = first_frame(&mut stream, || {
        let nanos = now_nanos();
        let entry = |line: &str| Pushed {
            labels: BTreeMap::from([("app", "shop".to_owned())]),
            nanos,
            line: line.to_owned(),
            metadata: BTreeMap::new(),
            level: "unknown",
        };
        push(&daemon, &[entry("one"), entry("two")]);
    });
    assert_eq!(frame["streams"][0]["stream"]["app"], "shop", "{frame}");
    assert_eq!(frame["streams"][0]["values"][0][1], "two", "{frame}");
    drop(stream);
    daemon.stop();
}

/// Queries whose series explode are refused, or answered with the largest series and the number of the others. The daemon
/// stays below 150 MiB, with more instances in an open day than pages that are read at once.
#[test]
fn series_that_explode_take_bounded_memory() {
    const INSTANCES: usize = 6000;
    const MOST: usize = 150;
    let place = Place::new();
    let daemon = start(&place);
    let records: Vec<String> = (0..INSTANCES * 2)
        .map(|n| {
            let (second, host, seed) = (n * 600 / INSTANCES, n * 7 % INSTANCES, n * 7919 % 100_003);
            let time = format!("2026-11-20T10:{:02}:{:02}.{:03}Z", second / 60, second % 60, n % 1000);
            format!(
                "{{\"time\":\"{time}\",\"level\":\"info\",\"host\":\"i-{host}\",\"msg\":\"user {n} paid {seed} in {} ms\",\
                 \"user_id\":\"u{n:08}\",\"trace_id\":\"{seed:032x}\",\"size\":{seed},\"path\":\"/p/{n:x}/{seed:x}\"}}\n",
                n % 977
            )
        })
        .collect();
    for records in records.chunks(3000) {
        let stream = TcpStream::connect(daemon.address()).expect("connected");
        let head = "Content-Type: application/x-ndjson\r\n";
        let answer = over(stream, "POST", "/ingest", head, records.concat().as_bytes());
        assert_eq!(answer.expect("an answer").status, 200);
    }
    let all = r#"{table="Log"}"#;
    let (from, to) = (START.to_string(), (START + 1200).to_string());
    let ask = |route: &str, params: &[(&str, &str)]| {
        let params = [params, &[("start", &*from), ("end", &*to), ("time", &*to)]].concat();
        fs::write(format!("/proc/{}/clear_refs", daemon.pid()), "5").expect("the peak begins anew");
        let answer = ask(&daemon, &format!("/loki/api/v1/{route}"), &params, CATEGORIZE);
        let peak = mebibytes(daemon.pid(), "VmHWM");
        println!("{peak} MiB: {} {route} {params:?}", answer.status);
        assert!(peak < MOST, "{peak} MiB for {route} {params:?}");
        assert!([200, 400].contains(&answer.status), "{answer:?}");
        answer
    };
    // More points than fit are refused; of more series than fit, the others are counted.
    for (query, step, text) in [
        (format!("sum by (instance) (count_over_time({all}[10m]))"), "1", "points"),
        (format!("quantile_over_time(0.9, {all} | json | unwrap size [10m]) by (instance)"), "1", "points"),
        (format!("count_over_time({all} | json [20m])"), "60", "more series"),
        (
            format!("sum by (user_id) (count_over_time({all} | json [20m]))"),
            "1200",
            "\"warnings\":[\"11000 more series",
        ),
        (format!("sum by (instance) (count_over_time({all}[1m]))"), "60", "\"warnings\":[\"5000 more series"),
        (
            format!("sum by (instance) (rate({all}[20m])) / sum by (instance) (rate({all}[20m]))"),
            "600",
            "5000 more series",
        ),
        (format!("max_over_time({all} | json | unwrap size [20m]) by (trace_id)"), "1200", "more series"),
        (format!("sum(sum by (instance) (count_over_time({all}[20m])))"), "60", "matrix"),
    ] {
        let answer = ask("query_range", &[("query", &query), ("step", step)]);
        assert!(answer.body.contains(text), "{query}: {}", &answer.body[..answer.body.len().min(400)]);
    }
    let topk = format!("topk(3, sum by (path) (count_over_time({all} | json [20m])))");
    assert_eq!(json_of(&ask("query", &[("query", &topk)]))["data"]["result"].as_array().map(Vec::len), Some(3));
    let more = [("query", all), ("limit", "50000"), ("line_limit", "50000"), ("step", "1"), ("match[]", all)];
    for route in [
        "index/stats",
        "index/volume",
        "index/volume_range",
        "labels",
        "label/instance/values",
        "series",
        "detected_labels",
        "detected_field/trace_id/values",
        "patterns",
    ] {
        let more: Vec<_> =
            more.into_iter().filter(|(name, _)| !route.ends_with("values") || *name != "limit").collect();
        ask(route, &more);
    }
    assert_eq!(json_of(&ask("label/instance/values", &[]))["data"].as_array().map(Vec::len), Some(INSTANCES));
    let mut lines = vec![("query", all), ("limit", "5000")];
    ask("query_range", &lines);
    lines.push(("direction", "forward"));
    ask("query_range", &lines);
    daemon.stop();
}

/// The header and the token of a tenant guard every route.
#[test]
fn a_tenant_sees_its_own_records() {
    let place = Place::new();
    for (name, secret) in [("token", "s3cret"), ("web", "w3b")] {
        fs::write(place.path(name), secret).expect("written");
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).expect("set");
    }
    let daemon = place.start_with(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n\
         [[tenant]]\nname = \"web\"\ninstances = [\"web-*\"]\ntoken_file = \"{}\"\n\
         [[tenant]]\nname = \"db\"\ninstances = [\"db\"]\n\
         [[tenant]]\nname = \"nothing\"\ntables = [\"Log\"]\ninstances = [\"nowhere\"]\n",
        place.path("token").display(),
        place.path("web").display()
    ));
    let stream = |host: &str, n: i64| {
        let values: Vec<Value> = (0..n)
            .map(|n| json!([((START + n) * 1_000_000_000).to_string(), format!("secret-of-{host} {n}")]))
            .collect();
        json!({ "stream": { "host": host, "level": "info" }, "values": values })
    };
    let body = json!({ "streams": [stream("web-1", 3), stream("web-2", 5), stream("db", 7)] }).to_string();
    let call = |method: &str, path: &str, headers: &str, body: &[u8]| {
        let stream = TcpStream::connect(daemon.address()).expect("connected");
        over(stream, method, path, headers, body).expect("an answer")
    };
    let pushed = call("POST", "/loki/api/v1/push", "Content-Type: application/json\r\n", body.as_bytes());
    assert_eq!(pushed.status, 204, "{}", pushed.body);
    let get = |path: &str, headers: &str| call("GET", path, headers, b"");
    let (any, web) = ("Authorization: Bearer s3cret\r\n", "Authorization: Bearer w3b\r\n");
    let org = |auth: &str, tenants: &str| format!("{auth}X-Scope-OrgID: {tenants}\r\n");
    let times = format!("start={START}&end={}", START + 60);
    let (all, count) = (encoded(r#"{host=~".+"}"#), encoded(r#"sum(count_over_time({host=~".+"}[1m]))"#));
    let routes = [
        format!("query_range?query={all}&{times}"),
        format!("query_range?query={count}&{times}&step=60"),
        format!(
            "query_range?query={}&{times}&step=60",
            encoded(r#"sum by (host) (bytes_over_time({host=~".+"}[1m]))"#)
        ),
        format!("query?query={count}&time={}", START + 30),
        format!("labels?{times}"),
        format!("label/host/values?{times}"),
        format!("series?{times}&match[]={all}"),
        format!("index/stats?query={all}&{times}"),
        format!("index/volume?query={all}&{times}"),
        format!("index/volume_range?query={all}&{times}"),
        format!("detected_labels?{times}"),
        format!("detected_fields?query={all}&{times}"),
        format!("detected_field/host/values?query={all}&{times}"),
        format!("patterns?query={all}&{times}"),
    ];
    for route in routes.iter().map(|route| format!("/loki/api/v1/{route}")) {
        for (headers, status, reason) in [
            (any.to_owned(), 401, "X-Scope-OrgID is missing"),
            (org(any, "web|other"), 404, "there is no tenant \\\"other\\\""),
            (org(web, "db"), 403, "does not read the tenant"),
            (org(web, "web|other"), 403, "does not read the tenant"),
            (org("", "web"), 401, "Authorization"),
        ] {
            let answer = get(&route, &headers);
            assert!(answer.status == status && answer.body.contains(reason), "{route} {headers}: {}", answer.body);
        }
        for headers in [org(any, "web"), org(web, "web"), web.to_owned()] {
            let answer = get(&route, &headers);
            assert_eq!(answer.status, 200, "{route}: {}", answer.body);
            assert!(!answer.body.contains("db"), "{route}: {}", answer.body);
        }
        let nothing = get(&route, &org(any, "nothing")).body;
        assert!(!nothing.contains("web") && !nothing.contains("db"), "{route}: {nothing}");
    }
    let number = |route: &str, headers: &str| {
        let answer: Value = serde_json::from_str(&get(&format!("/loki/api/v1/{route}"), headers).body).expect("JSON");
        let value = &answer["data"]["result"][0]["value"][1];
        value.as_str().map_or(answer["entries"].as_i64().unwrap_or(0), |value| value.parse().expect("a number"))
    };
    for (headers, records) in [
        (org(any, "web"), 8),
        (web.to_owned(), 8),
        (org(any, "db"), 7),
        (org(any, "web|db"), 15),
        (org(any, "nothing"), 0),
    ] {
        assert_eq!(number(&routes[3], &headers), records, "{headers}");
        assert_eq!(number(&routes[7], &headers), records, "{headers}");
    }
    // A websocket gives the entries of the tenant alone. Those of others come first.
    let now = |host: &str| json!({ "stream": { "host": host }, "values": [[now_nanos().to_string(), host]] });
    for headers in [org(any, "web"), web.to_owned()] {
        let mut followed = websocket(&daemon, r#"{host=~".+"}"#, &headers);
        let frame = first_frame(&mut followed, || {
            let body = json!({ "streams": [now("db"), now("web-1")] }).to_string();
            let pushed = call("POST", "/loki/api/v1/push", "Content-Type: application/json\r\n", body.as_bytes());
            assert_eq!(pushed.status, 204, "{}", pushed.body);
        });
        let hosts: Vec<&Value> =
            frame["streams"].as_array().expect("streams").iter().map(|stream| &stream["stream"]["host"]).collect();
        assert!(!hosts.is_empty() && hosts.iter().all(|host| *host == "web-1"), "{frame}");
    }
    // The token of a tenant reads nothing else.
    for path in ["/api/query", "/api/tables", "/api/tail", "/api/status"] {
        assert_eq!(get(path, web).status, 401, "{path}");
        assert_ne!(get(&format!("{path}?n=x"), any).status, 401, "{path}");
    }
}

/// One selector finds what was pushed through Loki's protocol and what files have: a stream without the labels `instance`,
/// `level` or `table` is selected by what its records have, and shown as it was pushed.
#[test]
fn one_selector_finds_pushed_records_and_those_of_files() {
    let place = Place::new();
    let daemon = start(&place);
    let pushed = |seconds: i64, labels: &[(&'static str, &str)], level: &'static str| Pushed {
        labels: labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
        nanos: (START + seconds) * 1_000_000_000,
        line: format!("level={level} msg=\"pushed {seconds}\""),
        metadata: BTreeMap::new(),
        level,
    };
    push(
        &daemon,
        &[
            pushed(1, &[("app", "shop")], "error"),
            pushed(2, &[("app", "shop"), ("level", "other"), ("instance", "pod-1")], "error"),
            pushed(3, &[("app", "shop")], "info"),
        ],
    );
    place.write(
        "app.log",
        &["2026-11-20T10:00:04Z ERROR of a file".into(), "2026-11-20T10:00:05Z INFO of a file".into()],
    );
    place.said("import", &["--instance", "web-1", &place.log("app.log").display().to_string()]);
    let seconds = |selector: &str| -> Vec<i64> {
        let answer = about_all(&daemon, "query_range", &[("query", selector), ("limit", "100")], "");
        entries_of(&answer).keys().map(|time| time / 1_000_000_000 - START).collect()
    };
    for (selector, expected) in [
        (r#"{instance=~".+"}"#, &[1, 2, 3, 4, 5][..]),
        (r#"{table="Log"}"#, &[1, 2, 3, 4, 5]),
        (r#"{table=~"L.*",level="error"}"#, &[1, 4]),
        (r#"{level="other"}"#, &[2]),
        (r#"{level=~"error|other"} |= "pushed""#, &[1, 2]),
        (r#"{level!="error",app="shop"}"#, &[2, 3]),
        (r#"{instance="pod-1"}"#, &[2]),
        (r#"{instance="web-1"}"#, &[4, 5]),
        (r#"{table="Other"}"#, &[]),
    ] {
        assert_eq!(seconds(selector), expected, "{selector}");
    }
    let of_level = |selector: &str| {
        let query = format!("sum(count_over_time({selector}[1h]))");
        let time = (START + 600).to_string();
        let answer = json_of(&ask(&daemon, "/loki/api/v1/query", &[("query", &query), ("time", &time)], ""));
        answer["data"]["result"][0]["value"][1].as_str().map(str::to_owned)
    };
    assert_eq!(of_level(r#"{table="Log",level="error"}"#).as_deref(), Some("2"));
    // The labels that are shown are those that were pushed.
    let answer = about_all(&daemon, "query_range", &[("query", r#"{table="Log",app="shop",level="error"}"#)], "");
    let (_, (labels, ..)) = entries_of(&answer).pop_first().expect("an entry");
    let names: Vec<&String> = labels.as_object().expect("labels").keys().collect();
    assert!(names.iter().all(|name| ["app", "service_name", "detected_level"].contains(&name.as_str())), "{labels}");
    daemon.stop();
}
