//! Records joined from a whole input, and from the input in pieces.
//!
//! [`SourceProfile`] decides about single lines. Here lines begin with a time or continue with an indent, as nearly all
//! do, or have a container's envelope. In the texts `@` stands for the time.

mod runtimes;

use super::*;
use crate::{OutputStream, ParseOptions};
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::borrow::Cow;
use std::num::NonZeroU16;
use std::time::Duration;

const BYTES_MAX: usize = 500;
const TIME: &str = "2026-11-20 10:00:00";

fn timed(text: &str) -> String {
    text.replace('@', TIME)
}

/// The parts of a record that these tests compare.
type Shown = (usize, String, OutputStream, u32);

fn options(lines_max: u16) -> ParseOptions {
    let join = Join { lines_max: NonZeroU16::new(lines_max).expect("not 0"), wait: Duration::from_secs(1) };
    ParseOptions { join, ..ParseOptions::default() }
}

/// Reads as a tailer does: the `pieces` arrive one by one, and unconsumed bytes are read again. Passes where the bytes of each
/// reading begin, and their records.
fn arrive(pieces: &[&[u8]], options: &ParseOptions, mut each: impl FnMut(usize, &mut Assembler<'_>)) {
    let (mut seen, mut at) = (Vec::new(), 0);
    for (number, piece) in pieces.iter().enumerate() {
        seen.extend_from_slice(piece);
        let is_last = number + 1 == pieces.len();
        let data = &seen[at..];
        let whole = if is_last { data.len() } else { memchr::memrchr(b'\n', data).map_or(0, |newline| newline + 1) };
        let ending = if is_last { Ending::Closed } else { Ending::Open };
        let mut records = Assembler::new(&data[..whole], data.len() - whole, BYTES_MAX, options, ending);
        each(at, &mut records);
        at += records.consumed();
    }
    assert_eq!(at, seen.len(), "all is consumed in the end");
}

fn read(pieces: &[&[u8]], options: &ParseOptions) -> Vec<Shown> {
    let (mut profile, mut shown) = (SourceProfile::default(), Vec::new());
    arrive(pieces, options, |at, records| {
        while let Some(record) = records.next(&profile, options) {
            profile.record(&record.text, record.envelope.clone(), options, Ticks::UNIX_EPOCH);
            shown.push((at + record.start, record.text.into_owned(), record.envelope.stream, record.lines));
        }
    });
    shown
}

fn texts(input: &str) -> Vec<String> {
    let shown = read(&[timed(input).as_bytes()], &options(1000));
    shown.into_iter().map(|(_, text, ..)| text.replace(TIME, "@")).collect()
}

#[test]
fn indented_lines_continue_the_record_before_them() {
    for (input, expected) in [
        ("@ a\n\tb\n\tc\n@ d\n", &["@ a\n\tb\n\tc", "@ d"][..]),
        ("\tb\n\tc\n@ d\n", &["\tb\n\tc", "@ d"]),
        ("@ a\r\n\tb\r\n\r\n\tc\r\n", &["@ a\n\tb\n\n\tc"]),
        ("@ a\n\n\tb\n\n\n@ c\n\n", &["@ a\n\n\tb", "@ c"]),
        ("\n\n@ a\n", &["@ a"]),
        ("@ a\n\tunfinished", &["@ a\n\tunfinished"]),
        ("{}\n\tb\nwords\n\tc\n", &["{}", "\tb", "words\n\tc"]),
        ("\n\r\n", &[]),
        ("", &[]),
    ] {
        assert_eq!(texts(input), expected, "{input:?}");
    }
}

#[test]
fn a_level_set_off_at_the_margin_begins_a_record_below_one_with_a_level() {
    for (input, expected) in [
        ("@ INFO a\nERROR: b\n@ INFO c\n", &["@ INFO a", "ERROR: b", "@ INFO c"][..]),
        ("@ INFO a\n[error] b\n", &["@ INFO a", "[error] b"]),
        ("@ INFO  a\n                    WARNING  b\n", &["@ INFO  a", "                    WARNING  b"]),
        ("@ ERROR a\nError: b\n    at c (/a.js:1:2)\n", &["@ ERROR a\nError: b\n    at c (/a.js:1:2)"]),
        ("@ ERROR a\nerror: b\n    at c (/a.js:1:2)\n", &["@ ERROR a\nerror: b\n    at c (/a.js:1:2)"]),
        ("@ 192.0.2.4 GET /a\n[ ERROR ] b\n", &["@ 192.0.2.4 GET /a\n[ ERROR ] b"]),
        ("@ org.example.A b\nSEVERE: c\n", &["@ org.example.A b\nSEVERE: c"]),
        ("@ INFO a\n\tpanic: b\n", &["@ INFO a\n\tpanic: b"]),
        (
            "@ ERROR a\nx.AssertionError: 42 INFO\n\tat b(B.java:1)\n",
            &["@ ERROR a\nx.AssertionError: 42 INFO\n\tat b(B.java:1)"],
        ),
        ("@ a\n 712.300 Error b.cpp:91: c\n@ d\n", &["@ a", " 712.300 Error b.cpp:91: c", "@ d"]),
        ("@ a\n 712.300 Error b: c\n 7 Error b.cpp:91: c\n", &["@ a\n 712.300 Error b: c\n 7 Error b.cpp:91: c"]),
    ] {
        assert_eq!(texts(input), expected, "{input:?}");
    }
}

#[test]
fn the_end_that_a_name_tells_belongs_to_its_start() {
    let block = "Start-Date: @\nCommandline: a\nEnd-Date: @";
    assert_eq!(texts(&format!("{block}\n\n{block}\n")), [block, block]);
    assert_eq!(texts("Start-Date: @\nEnd-Time: @\n"), ["Start-Date: @", "End-Time: @"]);
}

#[test]
fn the_end_of_a_request_is_no_part_of_its_last_record() {
    let id = "8f507cfc-1234-4697-b07a-ac58fc914c95";
    let (record, end) = (format!("@ {id} INFO a\nb"), format!("END RequestId: {id}"));
    assert_eq!(texts(&format!("{record}\n{end}\n")), [record, end]);
    let other = format!("@ INFO a\n{}", format_args!("END RequestId: {id}"));
    assert_eq!(texts(&format!("{other}\n")), [other]);
}

#[test]
fn a_trace_belongs_to_what_a_program_writes_beside_its_access_log() {
    let access = "192.0.2.4 - bob [20/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 500 7";
    let trace = "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: b";
    for head in ["[@] ERROR in app: c", "@ ERROR c"] {
        let failed = format!("{head}\n{trace}");
        let expected = [access, &failed, access, "[@] d"];
        assert_eq!(texts(&format!("{}\n", expected.join("\n"))), expected);
    }
}

#[test]
fn lines_whose_time_is_within_them_stay_apart_however_many_they_are() {
    for line in [
        r#"web-1  | {"level":"warn","msg":"one two three","time":"2026-11-20T10:00:00Z"}"#,
        "1763712001|1763711990.12|support|NONE|ENTERQUEUE||1001|1",
        "%3|1763712001.123|FAIL|rdkafka#producer-1| [thrd:a]: late",
        "cpu,host=a usage=0.5 1763712001123456789",
        "signal time=1763712001.123456 sender=a",
        "SST: [INFO] Streaming (20261120 08:00:01.123)",
    ] {
        // In 2025, when the numbers are those of the present.
        let (options, seen) = (options(1000), crate::rfc3339("2025-11-21T12:00:00Z").expect("a time"));
        let text = format!("{line}\n").repeat(5);
        let mut records = crate::Records::new(text.as_bytes(), options, 1 << 20);
        let mut lines = Vec::new();
        while records
            .turn(seen, |_, raw, parsed| lines.push((raw.lines, parsed.record.time.is_some())))
            .expect("a text")
        {}
        assert_eq!(lines, [(1, true); 5], "{line}");
    }
}

#[test]
fn a_document_of_yaml_is_one_record() {
    let document = "---\nid: a\nlabels:\n  x: y\nitems:\n- z\ntime: '@'";
    assert_eq!(texts(&format!("{document}\n{document}\n")), [document, document]);
    assert_eq!(texts("---\nwords alone\n---\n"), ["---", "words alone", "---"]);
}

#[test]
fn a_trace_belongs_to_the_record_above_it_where_times_have_no_date() {
    let failed =
        "08:00:02.123 | ERROR | it failed\nTraceback (most recent call last):\n  File \"a.py\", line 1\nValueError: b";
    assert_eq!(texts(&format!("08:00:01.123 | INFO | a\n{failed}\n")), ["08:00:01.123 | INFO | a", failed]);
}

#[test]
fn an_unchanged_record_is_borrowed() {
    let (profile, options) = (SourceProfile::default(), options(1000));
    for (input, is_borrowed) in
        [("@ a\n\tb\n\n\tc\n", true), ("@ a\n", true), ("@ a\r\n", true), ("@ a\r\n\tb\r\n", false)]
    {
        let input = timed(input);
        let mut records = Assembler::new(input.as_bytes(), 0, BYTES_MAX, &options, Ending::Closed);
        let record = records.next(&profile, &options).expect("a record");
        assert_eq!(matches!(record.text, Cow::Borrowed(_)), is_borrowed, "{input:?}");
        assert_eq!(records.next(&profile, &options), None);
    }
}

#[test]
fn only_a_record_that_may_continue_is_open() {
    let (profile, options) = (SourceProfile::default(), options(1000));
    for (input, records, consumed, is_open) in [
        ("@ a\n", 0, 0, true),
        ("\n@ a\n\tb\n", 0, 1, true),
        ("@ a\n@ b\n", 1, TIME.len() + 3, true),
        ("{}\n{}\n", 2, 6, false),
        ("{}\n\n", 1, 4, false),
        ("words\n", 0, 0, true),
        ("@ a\n{}\n", 2, TIME.len() + 6, false),
        ("\n\n", 0, 2, false),
    ] {
        let input = timed(input);
        let mut assembler = Assembler::new(input.as_bytes(), 0, BYTES_MAX, &options, Ending::Open);
        let given = std::iter::from_fn(|| assembler.next(&profile, &options)).count();
        assert_eq!(
            (given, assembler.consumed(), assembler.open().is_some()),
            (records, consumed, is_open),
            "{input:?}"
        );
        assert_eq!(assembler.next(&profile, &options), None);
    }
}

#[test]
fn at_a_limit_a_record_closes_and_the_next_has_the_rest() {
    let lines = timed("@ a\n") + &"\tb\n".repeat(5);
    let shown = read(&[lines.as_bytes()], &options(3));
    let lengths: Vec<_> = shown.iter().map(|(start, text, _, lines)| (*start, text.len(), *lines)).collect();
    assert_eq!(lengths, [(0, TIME.len() + 8, 3), (TIME.len() + 9, 8, 3)]);
    let long = format!("@ a\n\t{}\n\t{}\n", "b".repeat(400), "c".repeat(400));
    assert_eq!(texts(&long).iter().map(String::len).collect::<Vec<_>>(), [405, 401]);
    // A single line over the limit is the only one that loses bytes.
    let long = timed(&format!("@ a\n\t{}\n\tc\n", "b".repeat(600)));
    let (profile, options) = (SourceProfile::default(), options(1000));
    let mut records = Assembler::new(long.as_bytes(), 0, BYTES_MAX, &options, Ending::Closed);
    let cuts: Vec<_> =
        std::iter::from_fn(|| records.next(&profile, &options)).map(|r| (r.text.len(), r.cut_bytes())).collect();
    assert_eq!(cuts, [(TIME.len() + 2, 0), (500, 101), (2, 0)]);
}

#[test]
fn an_open_record_that_fills_the_limit_does_not_wait() {
    let (profile, options) = (SourceProfile::default(), options(1000));
    let chunk = timed(&format!("@ a\n\t{}\n", "b".repeat(450)));
    for (unfinished, is_open) in [(0, true), (BYTES_MAX - chunk.len(), true), (BYTES_MAX - chunk.len() + 1, false)] {
        let mut records = Assembler::new(chunk.as_bytes(), unfinished, BYTES_MAX, &options, Ending::Open);
        assert_eq!(records.next(&profile, &options).is_some(), !is_open, "{unfinished} bytes after it");
        assert_eq!(records.open().is_some(), is_open);
    }
}

fn cri(second: f64, stream: &str, tag: &str, text: &str) -> String {
    let text = timed(text);
    format!("2026-11-20T00:{:02}:{:09.6}Z {stream} {tag} {text}\n", second as u32 / 60, second % 60.0)
}

#[test]
fn partial_lines_become_one_line_in_each_stream() {
    let input = [
        cri(0.0, "stdout", "P", "@ o"),
        cri(0.1, "stderr", "F", "@ e"),
        cri(0.2, "stdout", "P", "u"),
        cri(0.3, "stderr", "F", "\tat e"),
        cri(0.4, "stdout", "F", "t"),
        cri(0.5, "stdout", "F", "\tat out"),
        cri(0.6, "stderr", "F", ""),
        cri(0.7, "stderr", "F", "\tat e2"),
        cri(0.8, "stdout", "F", "{}"),
    ];
    let shown = read(&[input.concat().as_bytes()], &options(1000));
    let shown: Vec<_> = shown.into_iter().map(|shown| (shown.1.replace(TIME, "@"), shown.2, shown.3)).collect();
    let shown: Vec<_> = shown.iter().map(|(text, stream, lines)| (text.as_str(), *stream, *lines)).collect();
    let expected = [
        ("@ out\n\tat out", OutputStream::Stdout, 4),
        ("@ e\n\tat e\n\n\tat e2", OutputStream::Stderr, 3),
        ("{}", OutputStream::Stdout, 1),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_split_object_is_complete_with_its_last_part() {
    let (profile, options) = (SourceProfile::default(), options(1000));
    let pieces = [
        cri(0.0, "stdout", "P", "{\"a\":"),
        cri(0.1, "stdout", "P", "1"),
        cri(0.1, "stdout", "F", "}"),
        cri(0.2, "stdout", "F", "\tb"),
    ];
    for (lines, given, is_open) in [(2, vec![], true), (3, vec!["{\"a\":1}"], false), (4, vec!["{\"a\":1}"], true)] {
        let chunk = pieces[..lines].concat();
        let mut records = Assembler::new(chunk.as_bytes(), 0, 1 << 20, &options, Ending::Open);
        let texts: Vec<_> = std::iter::from_fn(|| records.next(&profile, &options)).map(|record| record.text).collect();
        assert_eq!((texts, records.open().is_some()), (given.into_iter().map(Into::into).collect(), is_open));
    }
}

#[test]
fn interleaved_streams_do_not_delay_each_other() {
    let (profile, options) = (SourceProfile::default(), options(1000));
    let lines: Vec<_> =
        (0..20).map(|n| cri(0.01 * f64::from(n), ["stdout", "stderr"][n as usize % 2], "F", "@ x")).collect();
    let chunk = lines.concat();
    let mut records = Assembler::new(chunk.as_bytes(), 0, 1 << 20, &options, Ending::Open);
    let given = std::iter::from_fn(|| records.next(&profile, &options)).count();
    assert_eq!(given, 18, "only the last of each stream may go on");
}

#[test]
fn a_record_closes_when_the_other_stream_continued_past_the_wait() {
    let input = [
        cri(0.0, "stderr", "F", "@ e"),
        cri(0.7, "stdout", "F", "{}"),
        cri(0.9, "stdout", "F", "{}"),
        cri(1.2, "stderr", "F", "\tat e"),
    ];
    assert_eq!(read(&[input.concat().as_bytes()], &options(1000)).len(), 4);
}

/// Text that is joined, split, cut and skipped.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "@ [a-c]{0,3}",
        4 => "\t[a-c]{0,3}",
        1 => "[a-c{]{1,3}",
        1 => Just(String::new()),
        1 => Just("\t".repeat(BYTES_MAX / 2)),
        1 => Just("2".repeat(BYTES_MAX + 3)),
        6 => (0u32..3, prop::bool::ANY, prop::bool::ANY, "(@ |\t|\\{|)[a-c]{0,3}").prop_map(|(second, is_out, is_part, text)| {
            let line = cri(f64::from(second), if is_out { "stdout" } else { "stderr" }, if is_part { "P" } else { "F" }, &text);
            line.trim_end_matches('\n').to_owned()
        }),
    ];
    let end = prop_oneof![8 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\u{e4}\n")];
    let text = proptest::collection::vec((line, end), 0..40)
        .prop_map(|lines| lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect::<String>())
        .prop_map(|text| timed(&text).into_bytes());
    let any = proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\t'), Just(b'2'), any::<u8>()], 0..300);
    prop_oneof![9 => text, 1 => any]
}

/// What is known of the records of an input in pieces, the profile after it, and how many records were read by layout.
/// `by_layout`: whether objects may be.
fn parsed(pieces: &[&[u8]], by_layout: bool) -> (Vec<String>, SourceProfile, usize) {
    let (options, mut profile) = (options(1000), SourceProfile::default());
    let (mut shown, mut read) = (Vec::new(), 0);
    arrive(pieces, &options, |at, records| {
        let mut show = |start: usize, parsed: Parsed<'_>| {
            let line = parsed.record.line.as_deref().expect("a line");
            let known = format!("{:?} {:?} {:?}", line.text, line.message, line.made_with);
            let mut rest = parsed.clone();
            rest.record.line = None;
            shown.push(format!("{} {known} {rest:?}", at + start));
        };
        loop {
            if by_layout
                && let Some((start, parsed)) = records.next_by_layout(&mut profile, &options, Ticks::UNIX_EPOCH)
            {
                read += 1;
                show(start, parsed);
                continue;
            }
            let Some(raw) = records.next(&profile, &options) else { break };
            let start = raw.start;
            show(start, profile.raw_record(&raw, &options, Ticks::UNIX_EPOCH));
        }
        profile.note_gap(records.gap());
    });
    (shown, profile, read)
}

/// Objects of a few layouts, some with a text around them or between them.
fn objects() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        8 => "\\{\"time\":\"2026-11-2[12]T0[0-9]:00:0[0-9]Z\",\"level\":\"(info|warn|odd)\",\"msg\":\"[ab]{0,2}\",\"n\":(1|20|0.5|1.50|-3)\\} ?",
        4 => "\\{\"log\":\"[ab]{1,3}(\\\\n)?\",\"stream\":\"(stdout|stderr|x)\",\"time\":\"2026-11-21T00:00:0[0-9]Z\"\\}",
        4 => "\\{\"stream\":\"(stdout|x)\",\"a\":\"[ab]{1,2}\"\\}",
        1 => "\\{\"a\":\"b\"|\\}|\tat x|@ a|[ab]{1,3} [ab]",
    ];
    let end =
        prop_oneof![12 => Just("\n"), 1 => Just("\r\n"), 1 => Just("\n\n"), 1 => Just("\n\r\n"), 1 => Just("\n \n")];
    proptest::collection::vec((line, end), 0..40)
        .prop_map(|lines| lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect::<String>().into_bytes())
}

#[test]
fn objects_of_one_layout_are_read_without_the_joining_of_lines() {
    let object = |n: usize| format!("{{\"time\":\"2026-11-21T00:00:{:02}Z\",\"level\":\"info\",\"n\":{n}}}\n", n % 60);
    let input: String = (0..100).map(object).collect();
    let (shown, _, read) = parsed(&[input.as_bytes()], true);
    assert_eq!((shown.len(), read), (100, 99));
}

proptest! {
    /// Objects that are read by their layout give the records that joining and parsing give, with the same places, and
    /// the profile learns the same.
    #[test]
    fn objects_are_read_by_layout_as_they_are_joined_and_parsed(input in objects(), cuts in proptest::collection::vec(0usize..2000, 0..4)) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % (input.len() + 1)).chain([0, input.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|ends| &input[ends[0]..ends[1]]).collect();
        let (shown, profile, _) = parsed(&pieces, true);
        let (expected, expected_profile, _) = parsed(&pieces, false);
        prop_assert_eq!(shown, expected);
        prop_assert_eq!(profile, expected_profile);
    }

    /// An input in any pieces gives the same records as the whole: the same starts and the same lines.
    #[test]
    fn pieces_do_not_matter(input in input(), cuts in proptest::collection::vec(0usize..1000, 0..8), lines_max in 1u16..9) {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % (input.len() + 1)).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&input[from..cut]);
            from = cut;
        }
        pieces.push(&input[from..]);
        prop_assert_eq!(read(&pieces, &options(lines_max)), read(&[&input], &options(lines_max)));
    }

    /// In each stream, the texts of the records are the lines of the input in order. Every line occurs once, and in a
    /// record of its own stream.
    #[test]
    fn every_line_is_in_one_record_of_its_stream(input in input(), lines_max in 1u16..9) {
        let (profile, options) = (SourceProfile::default(), options(lines_max));
        let shown = read(&[&input], &options);
        for stream in [OutputStream::Only, OutputStream::Stdout, OutputStream::Stderr] {
            let mut lines = String::new();
            for line in Lines::new(&input, BYTES_MAX) {
                let piece = LinePiece::of(&line, &profile, &options);
                if piece.envelope.stream == stream {
                    lines += &piece.text;
                }
            }
            let texts: String = shown.iter().filter(|shown| shown.2 == stream).map(|shown| shown.1.as_str()).collect();
            prop_assert_eq!(texts.replace('\n', ""), lines.replace('\n', ""));
        }
        let counted: usize = shown.iter().map(|shown| shown.3 as usize).sum();
        prop_assert!(counted <= Lines::new(&input, BYTES_MAX).count());
        prop_assert!(shown.iter().all(|shown| shown.3 <= lines_max.into()));
    }

    /// A record is never longer than the limit for a line. U+FFFD takes three bytes for one.
    #[test]
    fn a_record_has_the_limit_of_a_line(input in input()) {
        prop_assert!(read(&[&input], &options(1000)).iter().all(|shown| shown.1.len() <= 3 * BYTES_MAX));
    }
}
