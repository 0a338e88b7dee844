//! A line that is read by a layout gives what the parser gives.

use super::*;
use crate::timestamp::zone::Zone;
use crate::{Envelope, FormatChoice, ParseOptions, SourceProfile};
use proptest::prelude::*;

impl LayoutCache {
    /// Leaves the next lines to the parser.
    pub(crate) fn forget_readers(&mut self) {
        self.templates.iter_mut().for_each(|template| template.reader = None);
    }
}

/// Reads lines with and without readers, compares everything, and returns how many lines the readers read.
fn compared(lines: &[String], options: &ParseOptions) -> usize {
    compared_after(&[], options, lines, options)
}

/// The same, with the layouts of the lines of another source.
fn compared_after(others: &[String], other_options: &ParseOptions, lines: &[String], options: &ParseOptions) -> usize {
    let seen = Ticks::UNIX_EPOCH.plus(std::time::Duration::from_secs(1_790_000_000));
    let mut other = SourceProfile::default();
    others.iter().for_each(|line| drop(other.record(line, Envelope::default(), other_options, seen)));
    let (mut reading, mut parsing) = (SourceProfile::with_layouts_of(other), SourceProfile::default());
    let mut read = 0;
    for (number, line) in lines.iter().enumerate() {
        let known = {
            let mut copy = reading.clone();
            let defaults = TimestampDefaults { zone: options.zone, seen, ..TimestampDefaults::default() };
            copy.read_by_layout(line, &Envelope::default(), options, &defaults, FullTime::default()).is_some()
        };
        read += usize::from(known);
        let by_reader = reading.record(line, Envelope::default(), options, seen);
        parsing.layouts_mut().forget_readers();
        let by_parser = parsing.record(line, Envelope::default(), options, seen);
        let without_line = |parsed: &Parsed<'_>| {
            format!("{:?}", Parsed { record: Record { line: None, ..parsed.record.clone() }, ..parsed.clone() })
        };
        assert_eq!(without_line(&by_reader), without_line(&by_parser), "line {number} of {lines:#?}");
        let whole = |parsed: &Parsed<'_>| {
            let line = parsed.record.line.as_deref().expect("a line");
            let mut written = Vec::new();
            let message = LineLayout::parse(&line.layout).write_line(
                &RecordParts::of(&parsed.record),
                &line.verbatim,
                &mut written,
            );
            (String::from_utf8_lossy(&written).into_owned(), message, line.message.clone())
        };
        assert_eq!(whole(&by_reader), whole(&by_parser), "line {number} of {lines:#?}");
        assert_eq!(whole(&by_reader).0, *line);
        assert_eq!(reading, parsing, "after line {number} of {lines:#?}");
    }
    read
}

#[test]
fn the_first_line_of_a_source_is_read_by_a_layout_of_another_source() {
    let line = |n: u32| format!(r#"{{"time":"2026-11-21T08:00:0{n}Z","level":"info","msg":"up","n":{n}}}"#);
    let lines: Vec<String> = (0..4).map(line).collect();
    let options = ParseOptions::default();
    assert_eq!(compared_after(&lines[..2], &options, &lines[2..], &options), 2);
    assert_eq!(compared(&lines[2..], &options), 1);
    // Long ones are not kept.
    let names: String = (0..200).map(|n| format!(r#","name{n}":{n}"#)).collect();
    let long: Vec<String> = lines.iter().map(|line| line.replace('}', &format!("{names}}}"))).collect();
    assert_eq!(compared(&long, &options), 3);
    assert_eq!(compared_after(&long[..2], &options, &long[2..], &options), 1);
}

#[test]
fn usual_lines_are_read_without_the_parser() {
    let options = ParseOptions::default();
    for (lines, expected) in [
        (
            [
                r#"{"time":"2026-11-21T08:00:00.000001Z","level":"info","msg":"up","http":{"status":200},"took":1.5,"ok":true,"none":null,"e":""}"#,
                r#"{"time":"2026-11-21T09:10:11.123456Z","level":"warn","msg":"é","http":{"status":404},"took":20.25,"ok":false,"none":null,"e":""}"#,
                r#"{"time":"2026-11-22T09:10:11.123456Z","level":"info","msg":"c","http":{"status":-1},"took":3,"ok":true,"none":null,"e":""}"#,
            ],
            2,
        ),
        (
            [
                "ts=2026-11-21T08:00:00+01:00 level=info msg=\"a b\" n=1 host=web x=abc",
                "ts=2026-11-21T08:00:59+01:00 level=error msg=\"c\" n=2.5 host=db x=-7",
                "ts=2026-11-21T23:59:59+01:00 level=info msg=\"d=e\" n=true host=w x=007",
            ],
            2,
        ),
    ] {
        assert_eq!(compared(&lines.map(str::to_owned), &options), expected, "{lines:#?}");
    }
    let request = |level: usize| {
        format!(r#"{{"reqId":"x","level":{level},"time":"2026-11-21T08:00:00+00:00","remoteAddr":"","message":"a"}}"#)
    };
    let lines: Vec<_> = [3, 2, 2, 3, 0, 4, 1, 2, 5, 3, 3].map(request).into();
    assert!(compared(&lines, &options) < lines.len());
    let text = |second: usize, component: &str| {
        format!(
            "2026-11-21T08:00:{second:02}.5Z INFO {component} request handled path=/a/{second} n={second} q=\"a b\""
        )
    };
    let lines: Vec<_> = (0..60).map(|second| text(second, ["http.server", "db.pool"][second % 2])).collect();
    assert!(compared(&lines, &options) > 50);
    let lines: Vec<_> = (0..60).map(|second| text(second, ["app:", "my_crate::api:"][second % 2])).collect();
    assert!(compared(&lines, &options) > 50);
    let lines: Vec<_> = (10..60).map(|second| format!("2026-11-21T08:00:{second}Z INFO words and {second}")).collect();
    assert!(compared(&lines, &options) > 40);
}

/// What may stand for a value. Most are of the first kinds, so that most lines have the layout of others.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => "[a-z]{1,6}".prop_map(|text| format!("\"{text}\"")),
        8 => "(0|[1-9][0-9]{0,5})",
        4 => "[1-9][0-9]{0,3}\\.[0-9]{1,3}",
        4 => "\"2026-11-2[12][T ][0-2][0-9]:[0-5][0-9]:[0-6][0-9](\\.[0-9]{3}|,5)?(Z|\\+01:00|\\+0100| UTC)?\"",
        4 => prop::sample::select(vec![
            "true", "false", "null", "\"\"", "\"a\\n\"", "\"\\u00e9\"", "-0", "1e5", "1.50", "-0.0", "[1,\"a\"]", "{}",
            "{\"a\":1}", "1790000000.5", "1790000000123", "12345678901234567890", "\"info\"", "\"WARN\"", "\"Error\"",
            "\"warning\"", "30", "3", "\"a=b\"", "\"a::b\"", "\"17\"", "\" \"", "\"a,\"", "\"é\"", "0.00001", "\"I\"",
            "\"{\"", "\"x\u{a0}\"",
        ]).prop_map(str::to_owned),
    ]
}

const NAMES: [&str; 27] = [
    "time",
    "ts",
    "level",
    "lvl",
    "severity",
    "msg",
    "message",
    "a",
    "b",
    "c",
    "s",
    "t",
    "pid",
    "_PID",
    "host",
    "hostname",
    "logger",
    "component",
    "name",
    "target",
    "channel",
    "a.b",
    "@t",
    "@mt",
    "timestamp",
    "short_message",
    "PRIORITY",
];

/// Lines of one kind: the same names in each, and mostly the same values as in the line before.
fn lines() -> impl Strategy<Value = Vec<String>> {
    let names = proptest::collection::vec(prop::sample::select(NAMES.to_vec()), 1..7);
    let lines = proptest::collection::vec(proptest::collection::vec(prop::option::weighted(0.4, value()), 7), 2..9);
    let first = proptest::collection::vec(value(), 7);
    let faults = proptest::collection::vec(prop::option::weighted(0.08, (0usize..120, any::<char>())), 9);
    (names, first, lines, faults, 0usize..4).prop_map(|(names, mut values, lines, faults, kind)| {
        let mut written = Vec::new();
        for (line, fault) in lines.into_iter().zip(faults) {
            for (value, new) in values.iter_mut().zip(line) {
                if let Some(new) = new {
                    *value = new;
                }
            }
            let bare = |value: &String| match value.trim_matches('"') {
                text if text.contains(' ') || text.is_empty() => value.clone(),
                text => text.to_owned(),
            };
            let pairs = names.iter().zip(&values).map(|(name, value)| format!("{name}={}", bare(value)));
            let pairs = pairs.collect::<Vec<_>>().join(" ");
            let words =
                format!("{} INFO {} {}", values[0].trim_matches('"'), values[1].trim_matches('"'), bare(&values[2]));
            let mut text = match kind {
                0 => {
                    let members = names.iter().zip(&values).map(|(name, value)| format!("\"{name}\":{value}"));
                    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
                }
                1 => pairs,
                2 => format!(
                    "2026-11-21T08:00:0{}Z INFO {} {} {pairs}",
                    values[5].len() % 10,
                    bare(&values[3]),
                    bare(&values[4])
                ),
                _ => format!("{words} {pairs}"),
            };
            if let Some((at, c)) = fault {
                let at = text.floor_char_boundary(at);
                if at < text.len() {
                    let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
                    text.replace_range(at..end, c.encode_utf8(&mut [0; 4]));
                }
            }
            if !text.is_empty() {
                written.push(text);
            }
        }
        written
    })
}

/// Lines of text whose header is mostly that of the usual path.
fn text_lines() -> impl Strategy<Value = Vec<String>> {
    let line = (
        "2026-11-2[12]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]\\.[0-9]{3}(Z|Z|\\+01:00)",
        prop::sample::select(vec!["INFO", "INFO", "WARN", "ERROR", "DEBUG", "FINE", "HOST", "Info"]),
        prop::sample::select(vec![
            "http.server ",
            "db.pool ",
            "app.log ",
            "",
            "",
            "main: ",
            "main: ",
            "a::b: ",
            "info: ",
            "x/y: ",
        ]),
        "[a-z]{1,5} [a-z]{1,5}|[a-z]{1,3}|Up [0-9]|[a-z]{1,3} a=b c|[a-z]{1,4} \\([a-z.]{5}\\)|x, y",
        prop::sample::select(vec![
            "",
            " n=1",
            " n=2",
            " n=x",
            " n=1,",
            " n=\"a b\"",
            " n=\"a\\\"b\"",
            " n=1.5",
            " n=1.50",
            " n={}",
            " n=",
        ]),
        prop::sample::select(vec![
            "",
            " path=/a",
            " path=/b/c",
            " path=007",
            " path=\"q;\"",
            " path=é",
            " path=x\u{a0}",
            " path=true ",
            "  path=1",
        ]),
    );
    let line = line.prop_map(|(time, level, component, message, first, second)| {
        format!("{time} {level} {component}{message}{first}{second}")
    });
    proptest::collection::vec(line, 6..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Whatever the values of lines with the same names are, readers and the parser agree.
    #[test]
    fn readers_agree_with_the_parser(
        lines in lines(),
        format in prop::sample::select(vec![FormatChoice::Auto, FormatChoice::Auto, FormatChoice::Only(Format::Json), FormatChoice::Only(Format::Logfmt)]),
        zone in prop::sample::select(vec![Zone::Utc, Zone::Offset(90), "Europe/Paris".parse().expect("a zone")]),
    ) {
        compared(&lines, &ParseOptions { format, zone, ..ParseOptions::default() });
    }

    /// So do readers of the lines of another source.
    #[test]
    fn readers_of_another_source_agree_with_the_parser(
        others in prop_oneof![lines(), text_lines()],
        lines in prop_oneof![lines(), text_lines()],
        formats in prop::sample::select(vec![
            [FormatChoice::Auto; 2],
            [FormatChoice::Auto, FormatChoice::Only(Format::Json)],
            [FormatChoice::Only(Format::Json), FormatChoice::Auto],
        ]),
        before in prop::sample::select(vec!["", "", " ", "\t", "\r", "\u{c}"]),
    ) {
        let options = formats.map(|format| ParseOptions { format, ..ParseOptions::default() });
        compared_after(&others, &options[0], &lines, &options[1]);
        // Lines of the same kinds, so that readers have something to read.
        let lines: Vec<String> = lines.iter().map(|line| format!("{before}{line}")).collect();
        compared_after(&lines, &options[0], &lines, &options[1]);
    }

    /// The same for lines of text.
    #[test]
    fn readers_agree_with_the_parser_on_text(lines in text_lines()) {
        compared(&lines, &ParseOptions::default());
    }
}
