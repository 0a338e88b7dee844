//! Tests: the records that patterns make of lines.

use super::*;
use daytable_model::time::Ticks;
use proptest::prelude::*;

fn regex(pattern: &str) -> Explicit {
    Explicit::regex(pattern).unwrap_or_else(|error| panic!("{error}"))
}

fn grok(pattern: &str) -> Explicit {
    Explicit::grok(pattern, BTreeMap::new()).unwrap_or_else(|error| panic!("{error}"))
}

/// A record as one line, its parts in display order.
fn shown(pattern: &Explicit, text: &str) -> Option<String> {
    let defaults =
        TimestampDefaults { seen: Ticks::from_date(2026, 11, 22).expect("a date"), ..TimestampDefaults::default() };
    let record = pattern.record(text, &defaults)?;
    let mut parts: Vec<String> = record.time.iter().map(Ticks::to_string).collect();
    parts.extend(record.level.map(|level| level.name().to_owned()));
    parts.push(format!("{:?}", record.message));
    parts.extend(record.fields.iter().map(|field| match &field.value {
        Value::String(text) => format!("{}={text:?}", field.name),
        Value::Int64(number) => format!("{}={number}", field.name),
        Value::Double(number) => format!("{}={number:?}", field.name),
        Value::Boolean(is) => format!("{}={is}", field.name),
        Value::Binary(bytes) => format!("{}={bytes:?}", field.name),
    }));
    Some(parts.join(" "))
}

#[test]
fn groups_fill_the_parts_they_name() {
    let pattern = regex(r"(?P<time>\S+ \S+) (?P<level>\w+) \[(?P<pid>\w+)\] (?:(?P<user>\w+): )?(?P<message>.*)");
    for (line, record) in [
        ("2026-11-21 08:00:00,5 WARN [7] ann: hot", "2026-11-21T08:00:00.500Z warn \"hot\" pid=7 user=\"ann\""),
        ("2026-11-21 08:00:00 INFO [7] up", "2026-11-21T08:00:00Z info \"up\" pid=7"),
        // Unreadable values stay fields.
        ("yesterday night loud [main] x", "\"x\" time=\"yesterday night\" level=\"loud\" pid=\"main\""),
    ] {
        assert_eq!(shown(&pattern, line).as_deref(), Some(record), "{line}");
    }
    assert_eq!(shown(&pattern, "no such line"), None);
    assert_eq!(shown(&pattern, "x 2026-11-21 08:00:00 INFO [7] up"), None, "the whole line has to match");
}

#[test]
fn following_lines_belong_to_the_message() {
    for (pattern, text, record) in [
        (r"(?P<level>\w+) (?P<message>.*)", "ERROR a\n  at b\n  at c", "error \"a\\n  at b\\n  at c\""),
        (r"(?P<message>\w+) (?P<level>\w+)", "a ERROR\n  at b", "error \"a\\n  at b\""),
        (r"(?P<level>\w+)(?: (?P<message>.*))?", "ERROR\n  at b", "error \"  at b\""),
        // Without a group `message`, the message is the whole text.
        (r"(?P<level>\w+) .*", "ERROR a\n  at b", "error \"ERROR a\\n  at b\""),
    ] {
        assert_eq!(shown(&regex(pattern), text).as_deref(), Some(record), "{pattern}");
    }
}

#[test]
fn library_patterns_for_whole_lines() {
    for (pattern, line, record) in [
        (
            "%{COMBINEDAPACHELOG}",
            "10.0.0.1 - ann [21/Nov/2026:08:00:00 +0100] \"GET /a?b=c HTTP/1.1\" 200 - \"-\" \"curl/8\"",
            "2026-11-21T07:00:00Z \"10.0.0.1 - ann [21/Nov/2026:08:00:00 +0100] \\\"GET /a?b=c HTTP/1.1\\\" 200 - \\\"-\\\" \
             \\\"curl/8\\\"\" clientip=\"10.0.0.1\" ident=\"-\" auth=\"ann\" verb=\"GET\" request=\"/a?b=c\" httpversion=\"1.1\" \
             response=200 referrer=\"\\\"-\\\"\" agent=\"\\\"curl/8\\\"\"",
        ),
        (
            "%{SYSLOGLINE}",
            "Nov 21 08:00:00 web-1 sshd[123]: Failed password for root",
            "2026-11-21T08:00:00Z \"Failed password for root\" host=\"web-1\" component=\"sshd\" pid=123",
        ),
        (
            "%{HTTPD_ERRORLOG}",
            "[Sat Nov 21 08:00:00.123456 2026] [core:error] [pid 7:tid 9] [client 10.0.0.1:4711] AH1: no",
            "2026-11-21T08:00:00.123456Z error \"AH1: no\" component=\"core\" pid=7 tid=9 clientip=\"10.0.0.1\" clientport=4711",
        ),
        (
            "%{TIMESTAMP_ISO8601:timestamp} %{LOGLEVEL:loglevel} %{NUMBER:[http][seconds]:float} (?<rest>.*)",
            "2026-11-21T08:00:00Z warn 0.25 slow",
            "2026-11-21T08:00:00Z warn \"2026-11-21T08:00:00Z warn 0.25 slow\" http.seconds=0.25 rest=\"slow\"",
        ),
    ] {
        assert_eq!(shown(&grok(pattern), line).as_deref(), Some(record), "{pattern}");
    }
}

#[test]
fn patterns_of_the_configuration_come_first() {
    let own = [("WORD".to_owned(), "[a-z]+-%{INT}".to_owned())].into();
    let pattern = Explicit::grok("%{WORD:job}: %{GREEDYDATA:message}", own).expect("a pattern");
    assert_eq!(shown(&pattern, "copy-7: done").as_deref(), Some("\"done\" job=\"copy-7\""));
    assert!(!pattern.begins("copy: done"));
}

#[test]
fn a_pattern_without_named_parts_is_refused() {
    let regex = Explicit::regex(r"\w+ (.*)").expect_err("no names").to_string();
    assert_eq!(regex, "names no group, for example (?P<message>.*)\n    \\w+ (.*)\n    ^");
    let grok = Explicit::grok("%{WORD} x", BTreeMap::new()).expect_err("no names").to_string();
    assert!(grok.starts_with("names no field, for example %{GREEDYDATA:message}\n"), "{grok}");
}

proptest! {
    /// Every value of a record stands in its text.
    #[test]
    fn every_value_comes_from_the_text(text in "([A-Z]{1,5} \\[[a-z0-9]{0,3}\\] \\PC{0,9}|\\PC{0,20})(\n\\PC{0,9}){0,3}") {
        let pattern = regex(r"(?P<kind>[A-Z]+) \[(?P<pid>[^\]]*)\] (?P<message>.*)");
        if let Some(record) = pattern.record(&text, &TimestampDefaults::default()) {
            prop_assert!(pattern.begins(text.split('\n').next().unwrap_or_default()));
            prop_assert!(text.ends_with(&*record.message));
            for field in &record.fields {
                let Value::String(value) = &field.value else { continue };
                prop_assert!(text.contains(&**value));
            }
        }
    }
}
