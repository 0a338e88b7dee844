//! What was written comes back, whatever it was.

use super::*;
use crate::{Assembler, Ending, FormatChoice, ParseOptions, SourceProfile};
use proptest::prelude::*;

/// All bytes that the layouts of a file's records give.
fn written_again(bytes: &[u8], options: &ParseOptions) -> (Vec<u8>, Vec<String>) {
    let mut profile = SourceProfile::default();
    let mut records = Assembler::new(bytes, 0, 1 << 20, options, Ending::Closed).at_beginning(true);
    let (mut all, mut layouts) = (Vec::new(), Vec::new());
    while let Some(raw) = records.next(&profile, options) {
        let parsed = profile.raw_record(&raw, options, Ticks::MAX);
        let line = parsed.record.line.as_ref().expect("a line");
        let layout = LineLayout::parse(&line.layout);
        let mut text = Vec::new();
        layout.write_line(&RecordParts::of(&parsed.record), &line.verbatim, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), raw.text, "{} {:?}", &**line.layout, line.verbatim);
        layout.write_all(&RecordParts::of(&parsed.record), &line.verbatim, &mut all);
        let (layout, verbatim) = line.whole();
        text.clear();
        LineLayout::parse(&layout).write_line(&RecordParts::of(&parsed.record), &verbatim, &mut text);
        assert_eq!(String::from_utf8_lossy(&text), raw.text, "{layout}");
        let mut all_before = Vec::new();
        LineLayout::parse(&line.layout).write_all(&RecordParts::of(&parsed.record), &line.verbatim, &mut all_before);
        // A protocol gave another time, another level, or both.
        let (time, level) = (parsed.record.time.unwrap_or(Ticks::UNIX_EPOCH), parsed.record.level);
        for (time, level) in [(Ticks::UNIX_EPOCH, level), (time, None), (Ticks::UNIX_EPOCH, Some(Level::Alert))] {
            let other = Record { time: Some(time), level, ..parsed.record.clone() };
            let (layout, verbatim) = line.changed(time, level);
            let mut all_again = Vec::new();
            LineLayout::parse(&layout).write_all(&RecordParts::of(&other), &verbatim, &mut all_again);
            assert_eq!(String::from_utf8_lossy(&all_again), String::from_utf8_lossy(&all_before), "{layout}");
        }
        layouts.push(String::from(&**line.layout));
    }
    (all, layouts)
}

#[test]
fn a_changed_level_leaves_the_written_one_in_the_layout() {
    let text = "2026-11-21T08:00:00Z WARN disk full free=0";
    let mut profile = SourceProfile::default();
    let options = ParseOptions::default();
    let parsed = profile.record(text, crate::Envelope::default(), &options, Ticks::MAX);
    let line = parsed.record.line.as_deref().expect("a line");
    let (time, earlier) = (parsed.record.time.expect("a time"), Ticks::UNIX_EPOCH);
    for (time, level, layout, verbatim) in [
        (time, Some(Level::Error), "%T(0;Y-m-d'TH:M:S)Z WARN %<%m free=%(free)%>", ""),
        (time, None, "%T(0;Y-m-d'TH:M:S)Z WARN %<%m free=%(free)%>", ""),
        (earlier, Some(Level::Warn), "%vZ %L %<%m free=%(free)%>", "2026-11-21T08:00:00"),
        (earlier, Some(Level::Info), "%vZ WARN %<%m free=%(free)%>", "2026-11-21T08:00:00"),
    ] {
        assert_eq!(line.changed(time, level), (layout.to_owned(), verbatim.to_owned()));
    }
}

#[test]
fn layouts_of_usual_lines() {
    for (line, expected) in [
        ("just words", "%m"),
        (r#"{"a":-0.0,"b":-0,"c":1.5}"#, r#"{"a":%v,"b":%v,"c":%(c)}"#),
        ("2026-11-21 08:00:00 WARN disk full free=0 dev=sda1", "%T(0;Y-m-d H:M:S) %L %<%m free=%(free) dev=%(dev)%>"),
        ("08:00:01,123 INFO up", "%T(0;H:M:S,3) %L %m"),
        ("[08:00:01 INF] up", "[%T(0;H:M:S) INF] %m"),
        ("2026-11-21T08:00:00.123456789Z INFO up", "%T(0;Y-m-d'TH:M:S.7)%vZ %L %m"),
        (
            r#"{"time":"2026-11-21T08:00:00Z","level":"info","msg":"a\nb","n":-7,"x":1.50,"ok":true}"#,
            r#"%~{"time":"%T(0;Y-m-d'TH:M:S)Z","level":"%l","msg":"%j","n":%(n),"x":%.2(x),"ok":%(ok)}"#,
        ),
        (r#"{"time":"2026-11-21T08:00:00Z","level":"info","msg":"a","x":1.5,"n":007,"a":{"b":2}}"#, r#"%m"#),
        (
            r#"{"a":1,"a":2,"msg":"b","a.b":"c","a_b":"d"}"#,
            r#"{"a":%(a),"a":%(a_u0023_2),"msg":"%m","a.b":"%(a_u002E_b)","a_b":"%(a_b)"}"#,
        ),
        (
            r#"10.0.0.1 - - [21/Nov/2026:08:00:00 +0000] "GET / HTTP/1.1" 200 12"#,
            r#"%(client) - - [%T(0;d/b/Y:H:M:S) +0000] "%m" %(status) %(bytes)"#,
        ),
    ] {
        let (all, layouts) = written_again(format!("{line}\n").as_bytes(), &ParseOptions::default());
        assert_eq!(String::from_utf8_lossy(&all), format!("{line}\n"));
        assert_eq!(layouts, [expected], "{line}");
    }
}

/// Otherwise the layout of the odd number, which fits all later lines, would keep all later numbers as text.
#[test]
fn one_odd_number_does_not_make_later_numbers_verbatim() {
    let lines: String =
        [1.5, 2.25, 3.0, 4.5, 5.75].map(|took| format!("2026-11-21 08:00:00 INFO done took={took:?}\n")).concat();
    let (all, layouts) = written_again(lines.as_bytes(), &ParseOptions::default());
    assert_eq!(String::from_utf8_lossy(&all), lines);
    assert!(!layouts.iter().any(|layout| layout.contains("took=%v")), "{layouts:?}");
}

#[test]
fn levels_that_are_numbers_of_a_scale_come_back() {
    let line = |level: u8| {
        format!(
            "{{\"reqId\":\"x{level}\",\"level\":{level},\"time\":\"2026-11-21T08:00:0{level}+00:00\",\"remoteAddr\":\"\",\"message\":\"a\"}}\n"
        )
    };
    let lines = [3, 2, 2, 0, 4, 1, 5, 3].map(line).concat();
    let (all, _) = written_again(lines.as_bytes(), &ParseOptions::default());
    assert_eq!(String::from_utf8_lossy(&all), lines);
}

/// Numbers that a program writes with as many decimals each have one layout, also where the first ends in a zero. A first
/// line with a really odd number leaves later numbers alone.
#[test]
fn numbers_with_zeros_at_their_end_are_no_verbatim_text() {
    let line = |took: &str, rate: &str| {
        format!("{{\"time\":\"2026-11-21T08:00:00Z\",\"msg\":\"done\",\"took\":{took},\"rate\":{rate}}}\n")
    };
    let lines = [("853.20", "0.5"), ("1.25", "1.0"), ("0.00", "-1.0"), ("17.30", "7.0"), ("123456789.10", "0.125")];
    let lines: String = lines.map(|(took, rate)| line(took, rate)).concat();
    let (all, layouts) = written_again(lines.as_bytes(), &ParseOptions::default());
    assert_eq!(String::from_utf8_lossy(&all), lines);
    assert!(layouts.iter().all(|layout| !layout.contains("%v")), "{layouts:?}");
    assert!(layouts[2..].iter().all(|layout| layout.contains("%.2(took),\"rate\":%.1(rate)")), "{layouts:?}");
    let lines = [line("1e5", "1e-2"), line("1.25", "1.5"), line("2.5", "2.75")].concat();
    let (all, layouts) = written_again(lines.as_bytes(), &ParseOptions::default());
    assert_eq!(String::from_utf8_lossy(&all), lines);
    assert!(layouts[1..].iter().all(|layout| !layout.contains("%v")), "{layouts:?}");
}

#[test]
fn bytes_around_the_lines_come_back() {
    for bytes in [
        &b"\xef\xbb\xbfa\r\nb\r\n"[..],
        b"\n\n2026-11-21 08:00:00 a\n\n\tat b\n\n\n2026-11-21 08:00:01 c",
        b"2026-11-21 08:00:00 a\r\n\tat b\r\n2026-11-21 08:00:01 c\r\n",
        b"a\xff\xfeb\n\xc3\n\xef\xbf\xbd\xff\n",
        b"{\"a\":1}\n\n{\"a\":2}\n",
        b"2016-10-06T00:17:09.669794202Z stdout F text\n2016-10-06T00:17:09.669794203Z stdout F \n2016-10-06T00:17:09.669794203Z stdout P a\n2016-10-06T00:17:09.669794204Z stdout F b\n",
        b"2016-10-06T00:17:09.669794202Z stdout F a\n2016-10-06T00:17:09.669794203Z stderr F b\n2016-10-06T00:17:09.669794203Z stdout F \tat a\n2016-10-06T00:17:09.669794203Z stderr F \tat b\n\n",
        b"{\"log\":\"{\\\"a\\\":1}\\n\",\"stream\":\"stdout\",\"time\":\"2016-10-06T00:17:09.669794202Z\"}\n",
        b"{\"log\":\"text\\n\",\"stream\":\"stdout\",\"time\":\"2016-10-06T00:17:09.6697942Z\"}\n",
    ] {
        let (all, layouts) = written_again(bytes, &ParseOptions::default());
        assert_eq!(all, bytes, "{:?} is not {:?}: {layouts:?}", String::from_utf8_lossy(&all), String::from_utf8_lossy(bytes));
    }
}

proptest! {
    /// The bytes of any file come back, whatever the format is taken for.
    #[test]
    fn any_bytes_come_back(bytes in proptest::collection::vec(prop_oneof![
        4 => prop::sample::select(vec![&b"\n"[..], b"\r\n", b"2026-11-21 08:00:00 ", b"INFO ", b" n=1.50", b" k=\"v\\n\"", b"{\"a\":1,\"b\":[1],\"c\":1e5,\"c\":2}",
            b"{\"time\":\"2026-11-21T08:00:00.1234567891Z\",\"msg\":\"x\\u0041\",\"n\":-0}", b"\tat x", b"<34>Oct 11 22:14:15 host su[7]: ", b"%", b"\x1e1f\x1f", b"\0",
            b"1.2.3.4 - - [21/Nov/2026:08:00:00 +0100] \"GET / HTTP/1.1\" 200 12", b"ts=1795248309.5 level=warn msg=\"a b\" x=007"]).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..9),
    ], 0..12), format in prop::sample::select(FormatChoice::all().collect::<Vec<_>>())) {
        let bytes = bytes.concat();
        let options = ParseOptions { format, ..ParseOptions::default() };
        let (all, layouts) = written_again(&bytes, &options);
        // Empty lines alone are not a record.
        if !layouts.is_empty() {
            prop_assert_eq!(String::from_utf8_lossy(&all), String::from_utf8_lossy(&bytes), "{:?}", layouts);
            prop_assert_eq!(all, bytes);
        }
    }
}
