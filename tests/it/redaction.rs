//! A secret is in no byte that is kept, however it is spelled, whatever it came in, and in each state of its day.

use crate::place::{DAYTABLE, PATIENCE, Place, files_below, wait_for};
use crate::push::{journal, loki_at_times, media, otlp, post};
use crate::syslog::address;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;

/// A part of the secret.
const HIDDEN: &str = "zq7hidden";
/// Spellings of `Bearer abcd/zq7hidden/wxyz` within a string of JSON.
const SPELLINGS: [&str; 3] = [
    r"Bearer abcd\/zq7hidden\/wxyz",
    r"\u0042earer abcd\u002fzq7\u0068idden\/wxyz",
    r"Bearer abcd/zq7hidd\u0065n/wxyz",
];
/// What holds a spelling: objects, and lines with strings as those of JSON.
const HOLDERS: [&str; 8] = [
    r#"{"msg":"marker SECRET","n":1}"#,
    r#"{"msg":"marker","list":["a",["SECRET"],{"SECRET":1}]}"#,
    r#"{"msg":"marker","SECRET":null,"o":{"SECRET":{"n":1}}}"#,
    r#"{"msg":"marker","msg":"SECRET","other":"SECRET"}"#,
    r#"{"msg":"marker {\"token\":\"TWICE\"}"}"#,
    r#"{"msg":"marker","author\u0069zation":"SECRET","deep":{"a":{"b":["TWICE"]}}}"#,
    r#"level=info msg="marker SECRET" token="SECRET" n=1"#,
    r#"2026-11-20T00:00:00Z WARN app: marker {"msg":"SECRET","cut":"#,
];

/// Each holder with each spelling.
fn lines() -> Vec<String> {
    let with = |holder: &str, spelling: &str| {
        holder.replace("SECRET", spelling).replace("TWICE", &spelling.replace('\\', r"\\"))
    };
    HOLDERS.iter().flat_map(|holder| SPELLINGS.map(|spelling| with(holder, spelling))).collect()
}

/// A text as it is read after its escapes were decoded once, twice and so on.
fn readings(text: &str) -> Vec<String> {
    let mut readings = vec![text.to_owned()];
    while readings.len() < 8 && readings.last().is_some_and(|text| text.contains('\\')) {
        let text = readings.last().map(String::as_str).unwrap_or_default();
        let (mut decoded, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((before, escape)) = rest.split_once('\\') {
            decoded.push_str(before);
            let code = escape.strip_prefix('u').and_then(|code| code.get(..4));
            let character = code.and_then(|code| char::from_u32(u32::from_str_radix(code, 16).ok()?));
            let length = match (character, escape.chars().next()) {
                (Some(character), _) => {
                    decoded.push(character);
                    5
                }
                (None, Some(next)) => {
                    decoded.push(next);
                    next.len_utf8()
                }
                (None, None) => 0,
            };
            rest = &escape[length..];
        }
        decoded.push_str(rest);
        readings.push(decoded);
    }
    readings
}

fn assert_hidden(what: &str, text: &str) {
    for reading in readings(text) {
        if let Some(at) = reading.find(HIDDEN) {
            let start = reading.floor_char_boundary(at.saturating_sub(200));
            let end = reading.floor_char_boundary((at + 100).min(reading.len()));
            panic!("the secret is in {what}: {}", &reading[start..end]);
        }
    }
}

/// Nothing that can be read of the records, and no file, has the secret; and the records are there.
fn assert_nowhere(place: &Place, when: &str, records: usize) {
    assert_eq!(place.records().len(), records, "{when}");
    let all: &[&str] = &["-n", "1000000"];
    let texts = [
        ("query --json", place.said("query", &[all, &["--json"]].concat())),
        ("query --raw", place.said("query", &[all, &["--raw"]].concat())),
        ("query", place.said("query", all)),
        ("export --raw", place.said("export", &["--raw"])),
        ("export", place.said("export", &[])),
        ("export of CSV", place.said("export", &["--format", "csv"])),
        ("sources", place.said("sources", &["--json"])),
        ("count by instance", place.said("count", &["--by", "instance"])),
    ];
    assert!(texts[1].1.matches("marker").count() >= records - 1, "{when}: the raw lines are not there");
    for (what, text) in texts {
        assert_hidden(&format!("{what}, {when}"), &text);
    }
    let mut files = files_below(&place.data());
    files.extend(files_below(&place.path("archive")));
    for file in files {
        // A file may go meanwhile.
        let bytes = fs::read(&file).unwrap_or_default();
        assert_hidden(&format!("{}, {when}", file.display()), &String::from_utf8_lossy(&bytes));
        assert_hidden(&format!("the name of a file, {when}"), &file.display().to_string());
    }
}

/// A text in MessagePack.
fn packed(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("short");
    [&[0xda][..], &length.to_be_bytes(), text.as_bytes()].concat()
}

#[test]
fn no_spelling_of_a_secret_is_kept_of_any_source_in_any_state() {
    let place = Place::new();
    fs::create_dir(place.path("archive")).expect("a folder");
    let config = place.configure(&format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n\
         [[table]]\nname = \"Log\"\nkeep = \"3650d\"\narchive = \"file://{}\"\n\
         [[tail]]\ninclude = [\"LOGS/*\"]\n\
         [[syslog]]\nname = \"tcp\"\nlisten = \"tcp://127.0.0.1:0\"\n\
         [[syslog]]\nname = \"udp\"\nlisten = \"udp://127.0.0.1:0\"\n",
        place.path("archive").display()
    ));
    let text = fs::read_to_string(&config).expect("a configuration");
    fs::write(&config, format!("redact = [\"bearer-token\", \"email\"]\n{text}")).expect("written");

    let lines = lines();
    let quoted = |text: &str| Value::from(text).to_string();
    let docker = |line: &String| {
        format!(r#"{{"log":{},"stream":"stdout","time":"2026-11-20T00:00:00Z"}}"#, quoted(&format!("{line}\n")))
    };
    // A runtime splits long lines, here within the secret.
    let split = |line: &String| {
        let at = line.find("hid").or_else(|| line.find("idden")).unwrap_or(line.len() / 2);
        format!("2026-11-20T00:00:00Z stdout P {}\n2026-11-20T00:00:00Z stdout F {}", &line[..at], &line[at..])
    };
    place.write("lines", &lines);
    place.write("docker", &lines.iter().map(docker).collect::<Vec<_>>());
    place.write("cri", &lines.iter().map(split).collect::<Vec<_>>());
    let table = ["time,level,message".to_owned(), format!("2026-11-20T00:00:00Z,info,\"marker {}\"", SPELLINGS[1])];
    place.write("table.csv", &table);
    place.write(
        "trace",
        &[
            "2026-11-20T00:00:00Z ERROR app: marker java.lang.IllegalStateException: no".to_owned(),
            format!("\tat a.b.C(C.java:1) {}", SPELLINGS[1]),
        ],
    );
    let mut expected = 3 * lines.len() + 2 + 1;

    let start = || {
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(&config);
        let daemon = place.spawn_command(command);
        daemon.wait_ready();
        daemon
    };
    let daemon = start();
    let mut tcp = TcpStream::connect(address(&daemon, "tcp")).expect("connected");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
    for line in &lines {
        let message = format!("<13>1 2026-11-20T00:00:00Z host app 1 - - {line}");
        tcp.write_all(format!("{message}\n").as_bytes()).expect("sent");
        udp.send_to(message.as_bytes(), address(&daemon, "udp")).expect("sent");
    }
    expected += 2 * lines.len();

    let to = daemon.address();
    let objects: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.starts_with("{\"")).collect();
    let all: Vec<&str> = lines.iter().map(String::as_str).collect();
    let bulk: String = objects.iter().map(|object| format!("{{\"create\":{{}}}}\n{object}\n")).collect();
    let labels = json!({ "instance": "marker", "authorization": HIDDEN, "who": format!("ann@{HIDDEN}.example") });
    // Each has a time of its own: lines that differ in a secret alone are equal entries.
    let value = |(nanos, line): (u64, &&str)| json!([nanos.to_string(), line, { "user": line }]);
    let values: Vec<_> = (1_763_596_800_000_000_000..).zip(&all).map(value).collect();
    let entries = json!({ "streams": [{ "stream": labels, "values": values }] });
    let text_value = |text: &str| json!({ "stringValue": text });
    let otlp_record = |line: &&str| {
        json!({ "body": text_value(line), "severityNumber": 9, "attributes": [
            { "key": "authorization", "value": text_value(HIDDEN) },
            { "key": "list", "value": { "arrayValue": { "values": [text_value(line)] } } },
        ]})
    };
    let records: Vec<_> = all.iter().map(otlp_record).collect();
    let export = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": records }] }] });
    let packs: Vec<u8> = all.iter().flat_map(|line| [&b"\x81\xa7message"[..], &packed(line)].concat()).collect();
    for (target, kind, body, count) in [
        ("/ingest", "application/x-ndjson", objects.join("\n").into_bytes(), objects.len()),
        ("/ingest", "application/json", format!("[{}]", objects.join(",")).into_bytes(), objects.len()),
        ("/ingest", "application/json", json!(all).to_string().into_bytes(), all.len()),
        ("/ingest?instance=ann@zq7hidden.example", "text/plain", all.join("\n").into_bytes(), all.len()),
        ("/ingest", "application/msgpack", packs, all.len()),
        ("/elasticsearch/ann@zq7hidden.example/_bulk", "", bulk.into_bytes(), objects.len()),
        ("/v1/logs", "application/x-protobuf", otlp(&all), all.len()),
        ("/v1/logs", "application/json", export.to_string().into_bytes(), all.len()),
        (
            "/loki/api/v1/push",
            "application/x-protobuf",
            snap::raw::Encoder::new().compress_vec(&loki_at_times(&all)).expect("memory"),
            all.len(),
        ),
        ("/loki/api/v1/push", "application/json", entries.to_string().into_bytes(), all.len()),
        ("/upload", "", journal(&all), all.len()),
    ] {
        let answer = post(to, target, &media(kind), &body);
        assert!(answer.status < 300, "{target}: {answer:?}");
        expected += count;
    }
    // Refused, perhaps with the body in the reason.
    post(to, "/elasticsearch/_bulk", "", format!("{{\"{}\":{{}}}}\n", SPELLINGS[0]).as_bytes());

    let mut found = 0;
    wait_for(&format!("{expected} records"), PATIENCE, || {
        found = place.records().len();
        (found >= expected).then_some(())
    });
    assert_nowhere(&place, "open", expected);
    assert!(daemon.metric("daytable_redactions_total{pattern=\"bearer-token\"}").is_some_and(|count| count > 100.0));
    let told = post(to, "/loki/api/v1/query_range?query=%7Binstance%3D~%22.%2B%22%7D&limit=5000&start=0", "", b"");
    assert_hidden("an answer to Grafana", &told.body);
    daemon.stop();
    assert_nowhere(&place, "stopped", expected);

    let daemon = start();
    let tables = place.json("tables", &[]);
    let with_rows = tables.iter().filter(|table| table["rows"].as_u64().is_some_and(|rows| rows > 0));
    let tables: Vec<&str> = with_rows.filter_map(|table| table["table"].as_str()).collect();
    for table in &tables {
        place.said("archive", &[table]);
    }
    assert_nowhere(&place, "sealed and archived", expected);
    for table in &tables {
        place.said("drop", &["-y", table]);
    }
    assert_nowhere(&place, "dropped", expected);
    daemon.stop();
    for file in files_below(&place.path("")).iter().filter(|file| file.to_string_lossy().contains("daemon-")) {
        let log = fs::read_to_string(file).expect("the daemon's own log");
        assert!(log.contains("ready"), "{log}");
        assert_hidden("what the daemon says", &log);
    }
}

/// The pattern that the configuration and the guide show hides a password however it is written.
#[test]
fn the_pattern_that_is_shown_hides_a_password_in_pairs_and_in_json() {
    let place = Place::new();
    let sample = fs::read_to_string("config/daytable.toml").expect("the sample");
    let words: Vec<&str> = sample.lines().map(|line| line.trim_start_matches("# ")).collect();
    let shown = words.join(" ");
    let regex = shown.split_once("regex = '").and_then(|(_, rest)| rest.split_once('\'')).expect("a pattern").0;
    let guide = fs::read_to_string("docs/guide/redaction.md").expect("the guide");
    assert!(guide.contains(&format!("regex = '{regex}'")), "the guide has {regex}");
    let pairs = ["password=SECRET", "password: SECRET,", "Password=\"SECRET SECRET\"", "a?password=SECRET&b=1"];
    let values = ["SECRET", r#"a \"SECRET"#, r"a \\SECRET", "SECRET {}, SECRET"];
    let of_pairs = pairs.map(|pair| format!("2026-11-20T00:00:00Z INFO marker {pair}"));
    let of_json =
        values.map(|value| format!(r#"{{"msg":"marker","db":{{"password": "{value}"}},"PASSWORD":"{value}"}}"#));
    let inner = r#"{"msg":"marker {\"password\":\"SECRET\"}"}"#.to_owned();
    let cut = r#"2026-11-20T00:00:00Z INFO marker {"password":"SECRET"#.to_owned();
    let lines: Vec<String> = of_pairs.into_iter().chain(of_json).chain([inner, cut]).collect();
    place.write("app.log", &lines.iter().map(|line| line.replace("SECRET", HIDDEN)).collect::<Vec<_>>());
    fs::create_dir_all(place.path("archive")).expect("a folder");
    let redact = format!("redact = [{{ name = \"password\", regex = '{regex}' }}]\n");
    let daemon = place.start_with(&format!("[[tail]]\ninclude = [\"LOGS/*.log\"]\n{redact}"));
    wait_for("the records", PATIENCE, || (place.records().len() == lines.len()).then_some(()));
    daemon.stop();
    assert_nowhere(&place, "with the pattern that is shown", lines.len());
}
