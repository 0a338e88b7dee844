//! Headers of many shapes: table tests and properties.

use super::*;
use daytable_model::record::Level;
use daytable_model::time::{Ticks, now};
use proptest::prelude::*;

/// Reads a line as the first one of its source.
fn first(text: &str) -> Option<Parsed<'_>> {
    let defaults = TimestampDefaults { seen: now(), ..TimestampDefaults::default() };
    read(
        text,
        &mut LayoutContext {
            defaults,
            usual: None,
            is_unknown: true,
            habits: &mut Habits::default(),
            full_time: Default::default(),
        },
    )
}

fn field(parsed: &Parsed<'_>, name: &str) -> String {
    let found = parsed.record.fields.iter().find(|field| field.name == name);
    found.map(|field| shown(&field.value)).unwrap_or_default()
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Int64(number) => number.to_string(),
        Value::Double(number) => format!("{number:?}"),
        Value::Boolean(truth) => truth.to_string(),
        Value::Binary(bytes) => format!("{bytes:?}"),
    }
}

#[test]
fn a_time_without_a_header_leaves_the_line_whole() {
    for line in ["2026-11-20 00:05:45] foo", "[2026-11-20 00:05:45 foo", "tls 2.0 2026-11-20T00:05:45Z foo"] {
        let parsed = first(line).expect("a time");
        assert_eq!((parsed.record.time.is_some(), &*parsed.record.message), (true, line));
    }
}

#[test]
fn times_in_braces_and_behind_a_word_are_those_of_their_line() {
    for (line, level) in [
        ("{2026-11-20 00:05:45 ERROR} late", Some(Level::Error)),
        ("cluster 2026-11-20T00:05:45.123+0000 mon.a [WRN] late", Some(Level::Warn)),
        ("08:05 [Warning] late", Some(Level::Warn)),
        ("NOTE: late", Some(Level::Notice)),
        ("console.warn: late", Some(Level::Warn)),
    ] {
        let parsed = first(line).expect("a header");
        let has_time = !line.starts_with(['N', 'c']) || line.starts_with("cl");
        assert_eq!((parsed.record.level, parsed.record.time.is_some()), (level, has_time), "{line}");
    }
    assert!(first("Note: some files are old").is_none());
    for (message, level) in
        [("JS ERROR: late", Some(Level::Error)), ("SERVICE ALERT: late", None), ("A ERRORS: late", None)]
    {
        let line = format!("Nov 20 00:05:45 web-1 app[7]: {message}");
        assert_eq!(first(&line).expect("a header").record.level, level, "{message}");
    }
}

#[test]
fn levels_end_at_word_borders() {
    for (rest, level, message) in [
        ("", None, ""),
        (" ", None, ""),
        (" up", None, "up"),
        (" INFO up", Some(Level::Info), "up"),
        ("  info   up ", Some(Level::Info), "up "),
        ("\tWarning: low", Some(Level::Warn), "low"),
        (" [ERROR] bad", Some(Level::Error), "bad"),
        (" [Note] [main] up", Some(Level::Notice), "up"),
        (" main.INFO up", Some(Level::Info), "up"),
        (" [WARN ] bad", Some(Level::Warn), "bad"),
        (" [debug]: bad", Some(Level::Debug), "bad"),
        (" [info][main] up", Some(Level::Info), "up"),
        (" [main] INFO up", Some(Level::Info), "up"),
        (" [W] low", Some(Level::Warn), "low"),
        (" - ERROR - bad", Some(Level::Error), "bad"),
        (" level=error bad", Some(Level::Error), "bad"),
        (" PHP Warning:  low", Some(Level::Warn), "low"),
        (" [Debug#SQL] up", Some(Level::Debug), "up"),
        (" verbose hostd[7] [x@1] up", Some(Level::Trace), "hostd[7] [x@1] up"),
        (" verbose mode is on", None, "verbose mode is on"),
        (" <4711> -- verbose -- up", Some(Level::Trace), "up"),
        (" [ verbose shop.cart /src/cart.cpp:7 ] up", Some(Level::Trace), "up"),
        (" DDEBUG up", Some(Level::Debug), "up"),
        (" SUBDEBUG up", Some(Level::Debug), "up"),
        (" Ddebug up", None, "Ddebug up"),
        (" 0x1f3a     Fault       0x0 7 up", Some(Level::Critical), "0x0 7 up"),
        (" 0x1f3a     Default     0x0 7 up", Some(Level::Notice), "0x0 7 up"),
        (" Default       0x0 7 up", None, "Default       0x0 7 up"),
        (" 00000061 ServletWrappe E com.example.shop.Cart up", Some(Level::Error), "com.example.shop.Cart up"),
        (" Cannot read E com.example.shop.Cart", None, "Cannot read E com.example.shop.Cart"),
        (" e CartExecutor cart.cc(00145) : bad", Some(Level::Error), "CartExecutor cart.cc(00145) : bad"),
        (" e cart cart.cc(00145) : bad", None, "e cart cart.cc(00145) : bad"),
        (" dhcp,warning no address", Some(Level::Warn), "dhcp,warning no address"),
        (" It was read,info late", None, "It was read,info late"),
        (
            " ERROR> app.pl:12 main::run - failed (warning: low)",
            Some(Level::Error),
            "ERROR> app.pl:12 main::run - failed (warning: low)",
        ),
        (" <1> web-1(7) [main] up", None, "web-1(7) [main] up"),
        (" INFO", Some(Level::Info), ""),
        (" INFO-5 up", None, "INFO-5 up"),
        (" information_schema read", None, "information_schema read"),
        (" Error while options", None, "Error while options"),
        (" fine so far", None, "fine so far"),
        (" error while options", Some(Level::Error), "while options"),
        (" I am here", None, "I am here"),
        (" A thing: it happened", None, "A thing: it happened"),
        (" 3 retries left", None, "3 retries left"),
        (" Total ERROR count", None, "Total ERROR count"),
        (" Deploying at LEVEL INFO now", None, "Deploying at LEVEL INFO now"),
        (" [INFO up", None, "[INFO up"),
        (" \u{e9}", None, "\u{e9}"),
    ] {
        for stamp in ["2026-11-20 00:05:45", "[2026-11-20 00:05:45]"] {
            let line = format!("{stamp}{rest}");
            let parsed = first(&line).map(|parsed| (parsed.record.level, parsed.record.message.into_owned()));
            assert_eq!(parsed, Some((level, message.to_owned())), "{line}");
        }
    }
    for line in ["2026-11-20 00:05:45foo", "[", "I", "<", "1 "] {
        assert_eq!(first(line), None, "{line}");
    }
}

#[test]
fn place_and_letters_show_which_word_is_the_component() {
    for (rest, component, message) in [
        ("INFO dfs.DataNode$Xceiver: text", "dfs.DataNode$Xceiver", "text"),
        ("INFO WindowManager: text", "WindowManager", "text"),
        ("INFO my_crate::api: text", "my_crate::api", "text"),
        ("INFO Foo - text", "Foo", "text"),
        ("INFO c.e.App          : text", "c.e.App", "text"),
        ("INFO db.pool text", "db.pool", "text"),
        ("INFO NETWORK  [listener] text", "NETWORK", "text"),
        ("myapp.views - INFO - text", "myapp.views", "text"),
        ("host app[7] INFO text", "app", "text"),
        ("fail2ban.filter  [7]: INFO  text", "fail2ban.filter", "text"),
        ("[o.e.n.Node  ] INFO text", "o.e.n.Node", "text"),
        ("INFO text (kafka.server.Kafka)", "kafka.server.Kafka", "text"),
        ("INFO failed: text", "", "failed: text"),
        ("INFO example.com is away", "", "example.com is away"),
        ("INFO notes.txt was read", "", "notes.txt was read"),
        ("INFO http://a.b/c: text", "", "http://a.b/c: text"),
        ("INFO 10.0.0.1: text", "", "10.0.0.1: text"),
        ("INFO text (see above)", "", "text (see above)"),
        ("INFO [client 192.0.2.7] text", "", "[client 192.0.2.7] text"),
    ] {
        let line = format!("2026-11-20 00:05:45 {rest}");
        let parsed = first(&line).expect("a header");
        assert_eq!((&*field(&parsed, "component"), &*parsed.record.message), (component, message), "{rest}");
    }
}

#[test]
fn habits_distinguish_a_plain_word_from_a_component() {
    let mut habits = Habits::default();
    let line = "2026-11-20 00:05:45 INFO Remoting: text";
    let mut messages = Vec::new();
    for _ in 0..6 {
        let context = &mut LayoutContext {
            is_unknown: false,
            defaults: TimestampDefaults::default(),
            usual: Some(Format::Text),
            habits: &mut habits,
            full_time: Default::default(),
        };
        messages.push(read(line, context).expect("a header").record.message.len());
        let number = habits.number();
        assert_eq!(Habits::from_number(number), habits);
    }
    assert_eq!(messages, [14, 14, 14, 14, 4, 4]);
}

#[test]
fn the_places_of_time_and_level_are_reported() {
    for (line, time, level) in [
        ("2026-11-20 00:05:45 INFO up", "2026-11-20 00:05:45", "INFO"),
        ("[2026-11-20T00:05:45Z WARN a::b] up", "2026-11-20T00:05:45Z", "WARN"),
        ("I1120 00:05:45.5 7 a.go:3] up", "1120 00:05:45.5", "I"),
        ("<13>Nov 20 00:05:45 host app: up", "Nov 20 00:05:45", "<13>"),
        ("2026-11-20 00:05:45 [main/ERROR]: up", "2026-11-20 00:05:45", "ERROR"),
        (
            "- 1117838570 2005.06.03 R0-1 2005-06-03-15.42.50.675872 R0-1 RAS KERNEL INFO up",
            "2005-06-03-15.42.50.675872",
            "INFO",
        ),
    ] {
        let parsed = first(line).expect("a header");
        let cut = |place: Option<crate::PartPlace>| &line[place.expect("a place").bytes()];
        assert_eq!((cut(parsed.time_at), cut(parsed.level_at)), (time, level), "{line}");
    }
}

#[test]
fn seconds_since_the_epoch_take_their_fraction_from_the_time_beside_them() {
    for (line, expected) in [
        (
            "- 1117838570 2005.06.03 R0-1 2005-06-03-15.42.50.675872 R0-1 RAS KERNEL INFO up",
            "2005-06-03T22:42:50.675872Z",
        ),
        ("- 1131566461 2005.11.09 dn228 Nov 9 12:01:01 dn228 crond[2915]: up", "2005-11-09T20:01:01Z"),
        ("1763596845.25 up", "2025-11-20T00:00:45.250Z"),
    ] {
        let time = first(line).and_then(|parsed| parsed.record.time).map(|time: Ticks| time.to_string());
        assert_eq!(time.as_deref(), Some(expected), "{line}");
    }
}

#[test]
fn near_misses_of_syslog() {
    for (line, format, component, message) in [
        ("Nov 20 00:05:45 host app: up", Format::Syslog, "app", "up"),
        ("Nov 20 00:05:45 app[7]: up", Format::Syslog, "app", "up"),
        ("Nov 20 00:05:45 INFO mainLoop: up", Format::Text, "mainLoop", "up"),
        ("2026-11-20T00:05:45Z Failed request: timeout", Format::Text, "", "Failed request: timeout"),
        ("2026-11-20T00:05:45Z host app[7]: up", Format::Syslog, "app", "up"),
        ("<13>up", Format::Syslog, "", "up"),
        ("<13>1 2026-11-20T00:05:45Z host app 7 - [a b=\"c\" up", Format::Syslog, "app", "[a b=\"c\" up"),
        ("<13>1 2026-11-20T00:05:45Z host app 7 - - \u{feff}up", Format::Syslog, "app", "up"),
    ] {
        let parsed = first(line).expect("a header");
        let found = (parsed.format, field(&parsed, "component"), parsed.record.message.to_string());
        assert_eq!(found, (format, component.to_owned(), message.to_owned()), "{line}");
    }
    for line in ["<192>up", "<>up", "<1234>up", "<13", "Nov 20"] {
        assert_eq!(first(line), None, "{line}");
    }
}

/// Parts of headers, and near misses of such parts.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    let piece = prop_oneof![
        "INFO|WARN|error:|\\[ERROR\\]|I|Warning:|<info>|\\[main/INFO\\]:",
        "[0-9]{1,6}|\\[[0-9]{1,5}\\]|\\[#[0-9]{1,4}\\]",
        "[a-z]{1,7}|[A-Z]{2,6}|[A-Z][a-z]{1,6}",
        "[a-z]{2,5}(\\.[A-Za-z]{2,6}){1,3}:?|[a-z]{2,5}::[a-z]{2,4}:?",
        "\\[[a-z]{1,6}( [a-z0-9]{1,4}){0,2}\\]:?|\\([a-z]{1,4}\\)|\\{[a-z]{1,4}\\.py:[0-9]{1,3}\\}",
        "[a-z]{2,5}\\[[0-9]{1,5}\\]:?|[a-z]{1,5}\\.go:[0-9]{1,3}:?",
        "-|--|---|\\||:",
        "[a-z]{1,3}=[a-z0-9,]{0,4}|[a-z]{1,6}[:,]",
        "\\PC{1,3}",
    ];
    proptest::collection::vec(piece, 0..9)
}

/// The words of a text, without the words that mark levels and processes.
fn words(text: &str) -> Vec<String> {
    let marks = ["pid", "tid", "thread", "level"];
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty() && !marks.contains(word));
    words.filter(|word| shape::level_word(word).is_none()).map(str::to_owned).collect()
}

#[test]
fn the_day_of_a_year_is_a_date_near_the_time_of_reading_and_the_letter_before_it_is_no_level() {
    let seen = crate::rfc3339("2025-11-21T12:00:00Z").expect("a time");
    let defaults = TimestampDefaults { seen, ..TimestampDefaults::default() };
    let read = |line: &str| {
        let parsed = read_plain(line, &mut LayoutContext::alone(&defaults, &mut Habits::default()))?;
        Some((parsed.record.time?.to_string(), parsed.record.level))
    };
    let expected = Some(("2025-11-21T08:00:01.120Z".to_owned(), None));
    assert_eq!(read("N 4000000 SYS1     25325 08:00:01.12 JOB01234 00000090  IEF403I up"), expected);
    assert_eq!(read("N 4000000 SYS1     24001 08:00:01.12 JOB01234 00000090  IEF403I up"), None);
    assert_eq!(read("N 4000000 SYS1     25000 08:00:01.12 JOB01234 00000090  IEF403I up"), None);
}

#[test]
fn a_clock_alone_beside_lines_with_a_clock_and_a_level_is_the_time() {
    let options = crate::ParseOptions::default();
    let seen = crate::rfc3339("2025-11-21T12:00:00Z").expect("a time");
    let mut profile = crate::SourceProfile::default();
    for (line, time, level) in [
        ("08:00:03 ERROR it failed", "2025-11-21T08:00:03Z", Some(Level::Error)),
        ("[08:00:03.5] Running the build", "2025-11-21T08:00:03.500Z", None),
        ("08:00:04 it runs", "2025-11-21T08:00:04Z", None),
        ("words at 08:00:05 alone", "none", None),
    ] {
        let parsed = profile.record(line, Default::default(), &options, seen);
        let found = parsed.record.time.map_or("none".to_owned(), |time| time.to_string());
        assert_eq!((found.as_str(), parsed.record.level), (time, level), "{line}");
    }
}

#[test]
fn a_level_alone_stands_behind_the_number_of_a_line_or_the_stars_of_a_comment() {
    for (line, level) in [
        ("0 verbose cli /usr/bin/node", Some(Level::Trace)),
        ("24 silly fetch manifest", Some(Level::Trace)),
        ("# ** Warning: (vsim-3015) late", Some(Level::Warn)),
        ("# Warning: late", None),
        ("33 error code E404", Some(Level::Error)),
        ("1 error generated.", None),
        ("3 errors generated.", None),
        ("0 warning in all", None),
        ("java.lang.AssertionError: 42 INFO", None),
    ] {
        assert_eq!(first(line).and_then(|parsed| parsed.record.level), level, "{line}");
    }
}

#[test]
fn files_of_syslog_have_the_severity_that_a_daemon_or_a_device_wrote() {
    for (line, level, host, message) in [
        ("Nov 20 00:05:45 gw1 user.notice root: up", Level::Notice, "gw1", "up"),
        ("Nov 20 00:05:45 aix1 auth|security:info sshd[7]: up", Level::Info, "aix1", "up"),
        ("Nov 20 00:05:45 web1 [local0.err] shop[7]: up", Level::Error, "web1", "up"),
        ("Nov 20 00:05:45 fw1 %ASA-4-106023: up", Level::Warn, "fw1", "up"),
        ("Nov 20 00:05:45 fw1 : %ASA-6-302013: up", Level::Info, "fw1", "up"),
        ("Nov 20 00:05:45 192.0.2.7 45: *Nov 20 00:05:44.001: %LINK-3-UPDOWN: up", Level::Error, "192.0.2.7", "up"),
    ] {
        let parsed = first(line).unwrap_or_else(|| panic!("{line}"));
        let found = (parsed.record.level, field(&parsed, "host"), &*parsed.record.message);
        assert_eq!(found, (Some(level), host.to_owned(), message), "{line}");
    }
}

proptest! {
    /// No line makes the rules for daemons, devices and clocks panic.
    #[test]
    fn any_line_of_a_device(
        line in "(Nov 20 00:05:45 |08:00:01|2026-11-20|<131>|local0\\.err |%A-3-B: |: |45: |\\[ID 1 a\\.crit\\]|fail: a\\[1\\]|W \\(|,\"ERROR\",|[ .,:\\[\\]()\t]|h1 |\\PC){0,12}",
    ) {
        let _ = first(&line);
    }

    /// Every word of a line is in the time, in a field or in the message, and the message is the end of the line.
    #[test]
    fn every_word_of_a_line_is_kept(
        stamp in prop_oneof![
            Just("2026-11-20 00:05:45"), Just("2026-11-20T00:05:45.5Z"), Just("[2026-11-20 00:05:45,123]"),
            Just("Nov 20 00:05:45"), Just("17/06/09 20:10:40"), Just("20171223-22:15:29:606|"), Just("<13>Nov 20 00:05:45"),
        ],
        lead in prop_oneof![Just(""), Just("web_1 | "), Just("INFO "), Just("12 node-7 ")],
        pieces in pieces(),
    ) {
        let line = format!("{lead}{stamp} {}", pieces.join(" "));
        if let Some(parsed) = first(&line) {
            let record = &parsed.record;
            let mut kept = record.message.to_string();
            for field in &record.fields {
                kept.push_str(&format!(" {} {}", field.name, shown(&field.value)));
            }
            if let Some(at) = parsed.time_at {
                kept.push_str(&format!(" {}", &line[at.bytes()]));
            }
            let kept = words(&kept);
            for word in words(&line) {
                prop_assert!(kept.contains(&word) || line.starts_with('<') && word == "13", "{word:?} of {line:?} is not in {record:?}");
            }
        }
    }

    /// The lines below the first stay unchanged at the end of the message.
    #[test]
    fn lines_below_are_kept(pieces in pieces(), below in proptest::collection::vec("[ \t][a-z=]{0,6}( [a-z]{1,3})?", 1..4)) {
        let below = below.join("\n");
        let text = format!("2026-11-20 00:05:45 {}\n{below}", pieces.join(" "));
        let parsed = first(&text).expect("a time");
        prop_assert!(parsed.record.message.ends_with(&below), "{text:?} is {parsed:?}");
    }
}
