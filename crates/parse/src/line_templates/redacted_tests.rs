//! Tests: no spelling of a secret stays in a record, in its line, or in what a source remembers.

use super::*;
use crate::redact::{Redaction, Redactor, Views};
use crate::{Assembler, Ending, ParseOptions, SourceProfile};
use daytable_model::line::LineLayout;
use daytable_model::record::Value;
use proptest::prelude::*;

/// What a record and its line say.
#[derive(Debug)]
struct Kept {
    format: Format,
    message: String,
    /// `name=value`
    fields: Vec<String>,
    /// The line, and all bytes that are kept.
    line: String,
    all: String,
    stored: String,
}

fn presets() -> Vec<Redaction> {
    Redaction::presets().filter_map(Redaction::preset).collect()
}

fn own(pattern: &str) -> Redaction {
    Redaction::regex("own", pattern, None).expect("a pattern")
}

fn options(patterns: Vec<Redaction>) -> ParseOptions {
    ParseOptions { redactor: Redactor::new(patterns), ..ParseOptions::default() }
}

/// The records of a file, and the profile that would be saved.
fn kept(bytes: &[u8], options: &ParseOptions) -> (Vec<Kept>, String) {
    let (mut profile, mut all) = (SourceProfile::default(), Vec::new());
    let mut assembler = Assembler::new(bytes, 0, 1 << 20, options, Ending::Closed).at_beginning(true);
    while let Some(raw) = assembler.next(&profile, options) {
        let parsed = profile.raw_record(&raw, options, Ticks::UNIX_EPOCH);
        let line = parsed.record.line.as_ref().expect("a line");
        let source = RecordParts::of(&parsed.record);
        let (mut written, mut whole) = (Vec::new(), Vec::new());
        let layout = LineLayout::parse(&line.layout);
        layout.write_line(&source, &line.verbatim, &mut written);
        layout.write_all(&source, &line.verbatim, &mut whole);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let written = text(written);
        assert_eq!(written, line.text, "the layout gives another line");
        all.push(Kept {
            format: parsed.format,
            message: parsed.record.message.to_string(),
            fields: parsed
                .record
                .fields
                .iter()
                .map(|field| format!("{}={}", field.name, shown(&field.value)))
                .collect(),
            line: written,
            all: text(whole),
            stored: format!("{}\n{}", &**line.layout, line.verbatim),
        });
    }
    (all, profile.save())
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

/// Whether some reading of a text has a secret.
fn reads(text: &str, secret: &str) -> bool {
    Views::of(text).0.iter().any(|view| view.text.contains(secret))
}

/// Every text that is kept of a file.
fn texts(kept: &(Vec<Kept>, String)) -> Vec<&str> {
    let mut texts = vec![kept.1.as_str()];
    for record in &kept.0 {
        texts.extend([&*record.message, &*record.line, &*record.all, &*record.stored]);
        texts.extend(record.fields.iter().map(String::as_str));
    }
    texts
}

fn holds_no(bytes: &[u8], options: &ParseOptions, secret: &str) -> (Vec<Kept>, String) {
    let kept = kept(bytes, options);
    for text in texts(&kept) {
        assert!(!reads(text, secret), "{secret} is in {text:?}, of {:?}", String::from_utf8_lossy(bytes));
    }
    kept
}

const TOKEN: &str = "abcdefgh/ijklmnop/qrstuvwx";

#[test]
fn a_secret_with_escapes_stays_in_no_part_of_an_object() {
    let docker = |inner: &str| {
        format!(
            r#"{{"log":{},"stream":"stdout","time":"2026-11-20T00:00:00Z"}}"#,
            serde_json::Value::from(format!("{inner}\n"))
        )
    };
    let plain = [
        r#"{"msg":"Bearer abcdefgh\/ijklmnop\/qrstuvwx"}"#,
        r#"{"msg":"Authorization: Bearer abcdefgh\/ijklmnop\/qrstuvwx","n":1}"#,
        r#"{"msg":"m","other":"Bearer abcdefgh\/ijklmnop\/qrstuvwx"}"#,
        r#"{"msg":"m","other":["a","Bearer abcdefgh\/ijklmnop\/qrstuvwx"]}"#,
        r#"{"msg":"m","a":[{"b":[["Bearer abcdefgh\/ijklmnop\/qrstuvwx"]]}]}"#,
        r#"{"msg":"m","a":{"b":{"c":"Bearer abcdefgh\/ijklmnop\/qrstuvwx"}}}"#,
        r#"{"msg":"m","Bearer abcdefgh\/ijklmnop\/qrstuvwx":null}"#,
        r#"{"msg":"m","Bearer abcdefgh\/ijklmnop\/qrstuvwx":1}"#,
        r#"{"msg":"m","a":{"Bearer abcdefgh\/ijklmnop\/qrstuvwx":{"b":true}}}"#,
        r#"{"msg":"one","msg":"Bearer abcdefgh\/ijklmnop\/qrstuvwx"}"#,
        r#"{"msg":"Bearer abcdefgh\/ijklmnop\/qrstuvwx","msg":"two"}"#,
        r#"{"msg":"\u0042earer \u0061bcdefgh/ijklmnop\u002fqrstuvwx"}"#,
        r#"{"msg":"body: {\"token\":\"Bearer abcdefgh\\/ijklmnop\\/qrstuvwx\"}"}"#,
        r#"{"msg":"body: {\"token\":\"Bearer abcdefgh\\u002fijklmnop\\u002fqrstuvwx\"}","x":"\n"}"#,
        r#"{"msg":"m","author\u0069zation":"abcdefgh\/ijklmnop\/qrstuvwx"}"#,
        r#"{"msg":"m","b":[{"author\u0069zation":"abcdefgh\/ijklmnop\/qrstuvwx"}]}"#,
        // No object: the line was cut, or is text with an object in it.
        r#"{"msg":"Bearer abcdefgh\/ijklmnop\/qrstuvwx","x":"#,
        r#"<34>Oct 11 22:14:15 host app[7]: {"msg":"Bearer abcdefgh\/ijklmnop\/qrstuvwx"}"#,
        r#"2026-11-20T00:00:00Z INFO app: {"msg":"Bearer abcdefgh\/ijklmnop\/qrstuvwx"}"#,
        r#"2026-11-20T00:00:00Z INFO app: sent body="Bearer abcdefgh\/ijklmnop\/qrstuvwx""#,
        r#"level=info msg="Bearer abcdefgh\/ijklmnop\/qrstuvwx" a=1"#,
        r#"level=info msg="\"Bearer abcdefgh\u002fijklmnop\/qrstuvwx\"" a=1"#,
        r#"1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 1 "-" "Bearer abcdefgh\x2fijklmnop\x2fqrstuvwx""#,
    ];
    let options = options(presets());
    // Here the name alone says that it is a secret.
    let named = r#"{"msg":"m","authorization":["abcdefgh\/ijklmnop\/qrstuvwx"]}"#;
    for line in [named.to_owned(), format!("2026-11-20T00:00:00Z stdout F {named}"), docker(named)] {
        holds_no(line.as_bytes(), &options, "ijklmnop");
    }
    for line in plain {
        let cri = format!("2026-11-20T00:00:00.123456789Z stdout F {line}");
        for line in [line.to_owned(), cri, docker(line), docker(&docker(line))] {
            for end in ["", "\n", "\r\n"] {
                holds_no(format!("{line}{end}").as_bytes(), &options, "ijklmnop");
            }
        }
        let syslog = format!("<13>1 2026-11-20T00:00:00Z host app 1 - - {line}");
        holds_no(syslog.as_bytes(), &options, TOKEN);
    }
}

#[test]
fn lines_keep_what_is_no_secret() {
    for (line, clean, message, fields) in [
        (
            r#"{"time":"2026-11-20T00:00:01Z","msg":"Bearer abcdefgh\/ijklmnop","path":"a\/b"}"#,
            r#"{"time":"2026-11-20T00:00:01Z","msg":"Bearer [redacted bearer-token]","path":"a\/b"}"#,
            "Bearer [redacted bearer-token]",
            &["path=a/b"][..],
        ),
        (
            r#"{"msg":"to\nann@example\u002ecom\tnow","list":["x\ny","ann@example.com"],"n":1.50}"#,
            r#"{"msg":"to\n[redacted email]\tnow","list":["x\ny","[redacted email]"],"n":1.50}"#,
            "to\n[redacted email]\tnow",
            &[r#"list=["x\ny","[redacted email]"]"#, "n=Double(1.5)"],
        ),
        (
            r#"{"msg":"up","card":4111111111111111,"ann@example.com":null,"n":7}"#,
            r#"{"msg":"up","card":"[redacted credit-card]","[redacted email]":null,"n":7}"#,
            "up",
            &["card=[redacted credit-card]", "n=Int64(7)"],
        ),
        (
            r#"{"msg":"up","x-api-key":12345,"authorization":null,"n":7}"#,
            r#"{"msg":"up","x-api-key":"[redacted bearer-token]","authorization":null,"n":7}"#,
            "up",
            &["x-api-key=[redacted bearer-token]", "n=Int64(7)"],
        ),
        (
            r#"level=info msg="to \"ann@example.com\"" user=ann@example.com n=7"#,
            r#"level=info msg="to \"[redacted email]\"" user=[redacted email] n=7"#,
            "to \"[redacted email]\"",
            &["user=[redacted email]", "n=Int64(7)"],
        ),
    ] {
        let (kept, _) = kept(line.as_bytes(), &options(presets()));
        assert_eq!((&*kept[0].line, &*kept[0].message), (clean, message));
        assert_eq!(kept[0].fields, fields, "{line}");
    }
}

/// A pattern may need the name before a value, which is not a part of the value.
#[test]
fn a_pattern_may_need_what_is_around_a_value() {
    for (pattern, line, clean, fields) in [
        (
            r"password=(\S+)",
            "level=info password=hunter2 user=bob",
            "level=info password=[redacted own] user=bob",
            &["password=[redacted own]", "user=bob"][..],
        ),
        (
            r"pin=(\d+)",
            "a=1 pin=4711 b=2",
            "a=1 pin=[redacted own] b=2",
            &["a=Int64(1)", "pin=[redacted own]", "b=Int64(2)"],
        ),
        (
            r"pin=(\d+)",
            "2026-11-20T00:00:00Z INFO app: up pin=4711 user=bob",
            "2026-11-20T00:00:00Z INFO app: up pin=[redacted own] user=bob",
            &["pin=[redacted own]", "user=bob"],
        ),
        (
            r#""pin":(\d+)"#,
            r#"{"msg":"up","pin":4711,"n":4712}"#,
            r#"{"msg":"up","pin":"[redacted own]","n":4712}"#,
            &["pin=[redacted own]", "n=Int64(4712)"],
        ),
        (
            r#""password":"([^"]+)"#,
            r#"{"msg":"up","password":"hunter2\/","n":1}"#,
            r#"{"msg":"up","password":"[redacted own]","n":1}"#,
            &["password=[redacted own]", "n=Int64(1)"],
        ),
        // It does not reach beyond a value.
        (
            r"pin=(\S+)",
            r#"{"msg":"pin=4711","user":"bob"}"#,
            r#"{"msg":"pin=[redacted own]","user":"bob"}"#,
            &["user=bob"],
        ),
        (
            r"pin=(\S+)",
            r#"level=info msg="pin=4711" user=bob"#,
            r#"level=info msg="pin=[redacted own]" user=bob"#,
            &["user=bob"],
        ),
        (
            r"^\d{9}$",
            r#"{"id":"12345678\u0039","list":["123456789"],"n":123456789}"#,
            r#"{"id":"[redacted own]","list":["[redacted own]"],"n":"[redacted own]"}"#,
            &["id=[redacted own]", r#"list=["[redacted own]"]"#, "n=[redacted own]"],
        ),
    ] {
        let (kept, _) = kept(line.as_bytes(), &options(vec![own(pattern)]));
        assert_eq!(kept[0].line, clean, "{pattern}");
        assert_eq!(kept[0].fields, fields, "{line}");
    }
}

/// Where the line writes a secret in a way that is not known, the line is not kept.
#[test]
fn a_line_without_a_known_place_is_written_anew() {
    let numbers: Vec<_> = "ann@example.com".bytes().map(|byte| byte.to_string()).collect();
    let message = format!(r#"{{"MESSAGE":[{}],"_PID":"7"}}"#, numbers.join(","));
    for (lines, clean) in [
        (message.as_str(), r#"{"message":"[redacted email]","pid":7}"#),
        (r#"{"msg":"up","card":4.111111111111111e15}"#, r#"{"message":"up","card":"[redacted credit-card]"}"#),
        (
            r#"{"@t":"2026-11-20T00:00:00Z","@mt":"{User}@{Host}","User":"ann","Host":"example.com"}"#,
            r#"{"time":"2026-11-20T00:00:00Z","level":"info","message":"[redacted email]","@mt":"{User}@{Host}","User":"ann","Host":"example.com"}"#,
        ),
    ] {
        let options = options(presets());
        let (kept, _) = kept(lines.as_bytes(), &options);
        assert_eq!(kept[0].line, clean);
        let counted = options
            .redactor
            .iter()
            .flat_map(Redactor::patterns)
            .map(|pattern| pattern.line_counter().load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(counted.sum::<u64>(), 1, "{lines}");
    }
    // A doubled quote within the secret.
    let table = "time,level,msg\n2026-11-20T00:00:00Z,info,\"key \"\"a\"\"b\"\n";
    let (kept, _) = kept(table.as_bytes(), &options(vec![own(r#"key (\S+)"#)]));
    assert_eq!(kept[1].line, r#"{"time":"2026-11-20T00:00:00Z","level":"info","message":"key [redacted own]"}"#);
}

/// Lines that a container runtime split, and lines of two outputs that come by turns.
#[test]
fn envelopes_keep_no_secret() {
    let options = options(presets());
    let entry = |log: &str, stream: &str, attrs: &str| {
        format!(
            "{{\"log\":{},\"stream\":\"{stream}\",{attrs}\"time\":\"2026-11-20T00:00:00Z\"}}\n",
            serde_json::Value::from(log)
        )
    };
    let time = "2026-11-20T00:00:00Z";
    for lines in [
        format!("{time} stdout P sent Bearer abcdefgh\\/ijk\n{time} stdout F lmnop\\/qrstuvwx\n"),
        format!("{time} stdout P {{\"msg\":\"Bearer abcdefgh\\/ijk\n{time} stdout F lmnop\\/qrstuvwx\"}}\n"),
        [entry("sent Bearer abcdefgh\\/ijk", "stdout", ""), entry("lmnop\\/qrstuvwx\n", "stdout", "")].concat(),
        [entry("{\"msg\":\"Bearer abcdefgh\\u002fijk", "stdout", ""), entry("lmnop\\/qrstuvwx\"}\n", "stdout", "")]
            .concat(),
        // Of two outputs, the first record has the bytes of both.
        format!(
            "{time} stdout P first \n{time} stderr P sent Bearer abcdefgh/ijk\n{time} stdout F half\n{time} stderr F lmnop/qrst\n"
        ),
        // What the runtime wrote around the line.
        format!("{time} stdout F:Bearer:ijklmnop1 up\n"),
        format!("{time} stdout F:Bearer=ijklmnop1 \n{time} stdout F up\n"),
        entry("up\n", "stdout", "\"attrs\":{\"tag\":\"Bearer \\u0069jklmnop1\"},"),
        entry("up\n", "stdout", "\"attrs\":{\"authorization\":\"ijklmnop\"},"),
    ] {
        let (records, _) = holds_no(lines.as_bytes(), &options, "ijklmnop");
        assert!(!records.is_empty() && records.iter().all(|record| !reads(&record.all, "lmnop")), "{records:?}");
    }
}

/// A secret that a limit halved goes with the word that the limit cut.
#[test]
fn no_half_of_a_secret_stays_where_a_line_was_cut() {
    let options = options(presets());
    let padding = "x".repeat(600);
    for tail in ["\"mail\":\"secret-name@exam", "\"card\":\"4111 1111 1111 11", "\"card\":41111111111111"] {
        for begin in ["{\"a\":1,", "{\"log\":\"{\\\"a\\\":1,"] {
            let line = format!("{begin}\"p\":\"{padding}\",{tail}");
            let raw = crate::cut_record(line.as_bytes(), line.len(), 50, None, &SourceProfile::default(), &options);
            assert!(!raw.text.contains("secret-name") && !raw.text.contains("4111"), "{}", raw.text);
        }
    }
}

/// A private key in an array of its lines, and in the lines of a record.
#[test]
fn a_private_key_of_several_lines_goes() {
    let options = options(presets());
    for lines in [
        r#"{"key":["-----BEGIN PRIVATE KEY-----","MIIEsecret","c2VjcmV0secret=","-----END PRIVATE KEY-----"],"n":7}"#,
        r#"{"a":"-----BEGIN PRIVATE KEY-----\nMIIEsecret\nc2VjcmV0secret=","n":7}"#,
        r#"{"a":"-----BEGIN PRIVATE\u0020KEY-----\u000aMIIEsecret\n-----END PRIVATE KEY-----","n":7}"#,
        "2026-11-20T00:00:00Z INFO app: key -----BEGIN PRIVATE KEY-----\nMIIEsecret\nc2VjcmV0secret==\n",
    ] {
        let (records, _) = holds_no(lines.as_bytes(), &options, "secret");
        if records[0].format == Format::Json {
            assert!(records[0].fields.contains(&"n=Int64(7)".to_owned()), "{records:?}");
        }
    }
}

/// A header with secrets in any spelling is not saved with the position of the source.
#[test]
fn a_header_keeps_no_secret() {
    for header in ["time,ann@example.com,level", "#Fields: date time ann@example.com", "time;\"ann@example.com\";level"]
    {
        holds_no(format!("{header}\n2026-11-20 00:00:00 x y\n").as_bytes(), &options(presets()), "example");
    }
}

/// A character of a secret in some spelling.
fn spelled(secret: &str, choices: &[u8]) -> String {
    let mut choices = choices.iter().cycle();
    let spell = |c: char| match choices.next().copied().unwrap_or_default() % 6 {
        0 | 1 => format!("\\u{:04x}", u32::from(c)),
        2 => format!("\\u{:04X}", u32::from(c)),
        3 if c == '/' => "\\/".to_owned(),
        _ => c.to_string(),
    };
    secret.chars().map(spell).collect()
}

/// An object with a string at some place, and the envelope of a container runtime around it, perhaps.
fn with_secret(place: u8, envelope: u8, string: &str, other: &str) -> String {
    let object = match place % 9 {
        0 => format!(r#"{{"msg":"{other} {string}","n":1}}"#),
        1 => format!(r#"{{"a":{{"b":"{string}"}},"msg":"{other}"}}"#),
        2 => format!(r#"{{"list":["{other}",["{string}"]],"msg":"{other}"}}"#),
        3 => format!(r#"{{"list":[{{"{string}":"{other}"}}],"msg":"{other}"}}"#),
        4 => format!(r#"{{"{string}":null,"msg":"{other}"}}"#),
        5 => format!(r#"{{"{string}":"{other}","msg":"{other}"}}"#),
        6 => format!(r#"{{"msg":"{other}","msg":"{string}","msg":"{other}"}}"#),
        7 => format!(r#"{{"msg":"{other}","o":{{"{string}":{{"n":1}}}}}}"#),
        _ => format!(r#"level=info msg="{other} {string}" a="{string}""#),
    };
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    match envelope % 7 {
        0 => format!("2026-11-20T00:00:00Z stdout F {object}"),
        1 => format!(r#"{{"log":{},"stream":"stderr","time":"2026-11-20T00:00:00Z"}}"#, quoted(&format!("{object}\n"))),
        2 => format!(r#"{{"msg":{},"n":1}}"#, quoted(&object)),
        3 => format!("<13>1 2026-11-20T00:00:00Z host app 1 - - {object}"),
        4 => format!(r#"2026-11-20T00:00:00Z WARN app: failed {object} n=1"#),
        5 => format!(r#"{{"list":[{}]}}"#, quoted(&quoted(&object))),
        _ => object,
    }
}

proptest! {
    /// However a secret is spelled, wherever it stands and whatever is around it, nothing that is kept can be read as it.
    #[test]
    fn no_spelling_of_a_secret_stays(
        secret in prop::sample::select(vec!["4111111111111111", "ann@example.com", "Bearer 0a1b/2c3d4e", "Authorization: Basic zzzz0000", "-----BEGIN PRIVATE KEY-----MIIEzz0000-----END PRIVATE KEY-----", "secret-🔑-0000"]),
        choices in prop::collection::vec(any::<u8>(), 1..40),
        (place, envelope) in any::<(u8, u8)>(),
        other in "[a-z]{0,4}(\\\\[nt/\"]|\\\\u00e9|[ ,a-z]){0,6} ?",
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut patterns = presets();
        patterns.push(own("secret-\\S-[0-9]{4}"));
        let options = options(patterns);
        let line = with_secret(place, envelope, &spelled(secret, &choices).replace('🔑', "\\ud83d\\udd11"), &other);
        // What the pattern replaces.
        let gone = secret.trim_start_matches("Bearer ").trim_start_matches("Authorization: ").trim_start_matches("Basic ");
        holds_no(line.as_bytes(), &options, gone);
        if is_cut {
            // A line that is not an object any more, with the secret or a part of it.
            let end = (0..=cut.index(line.len() + 1)).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            holds_no(&line.as_bytes()[..end], &options, gone);
        }
    }

    /// Lines without secrets come back as they are, whatever patterns there are.
    #[test]
    fn lines_without_secrets_stay(
        choices in prop::collection::vec(any::<u8>(), 1..40),
        (place, envelope) in any::<(u8, u8)>(),
        other in "[a-z]{0,4}(\\\\[nt/\"]|\\\\u00e9|[ ,a-z]){0,6} ?",
    ) {
        let line = format!("{}\n", with_secret(place, envelope, &spelled("nothing", &choices), &other));
        let mut patterns = presets();
        patterns.push(own("secret-\\S-[0-9]{4}"));
        let (kept, _) = kept(line.as_bytes(), &options(patterns));
        let all: String = kept.iter().map(|record| record.all.as_str()).collect();
        prop_assert_eq!(all, line);
    }
}
