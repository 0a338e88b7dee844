//! Records as they are put together, in one go and piece by piece.
//!
//! The rules of the lines themselves are [`SourceProfile`]'s; here lines begin with a time or go on with an indent, as nearly
//! all do, and lines of a container are taken apart. In the texts `@` stands for the time.

use super::*;
use crate::{OutputStream, ParseOptions};
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::num::NonZeroU16;
use std::time::Duration;

const BYTES_MAX: usize = 500;
const TIME: &str = "2026-11-20 10:00:00";

fn timed(text: &str) -> String {
    text.replace('@', TIME)
}

/// What a test wants to know of a record.
type Shown = (usize, String, OutputStream, u32);

fn reading(lines_max: u16) -> ParseOptions {
    let join = Join { lines_max: NonZeroU16::new(lines_max).expect("not 0"), wait: Duration::from_secs(1) };
    ParseOptions { join, ..ParseOptions::default() }
}

/// Reads as a tailer does: `pieces` are written one after the other, what is not consumed is seen again.
fn read(pieces: &[&[u8]], reading: &ParseOptions) -> Vec<Shown> {
    let (mut learned, mut seen, mut at, mut shown) = (SourceProfile::default(), Vec::new(), 0, Vec::new());
    for (number, piece) in pieces.iter().enumerate() {
        seen.extend_from_slice(piece);
        let is_last = number + 1 == pieces.len();
        let data = &seen[at..];
        let whole = if is_last { data.len() } else { memchr::memrchr(b'\n', data).map_or(0, |newline| newline + 1) };
        let ending = if is_last { Ending::Closed } else { Ending::Open };
        let mut records = Assembler::new(&data[..whole], data.len() - whole, BYTES_MAX, reading, ending);
        while let Some(record) = records.next(&learned, reading) {
            learned.record(&record.text, record.envelope, reading, Ticks::UNIX_EPOCH);
            shown.push((at + record.start, record.text.into_owned(), record.envelope.stream, record.lines));
        }
        at += records.consumed();
    }
    assert_eq!(at, seen.len(), "all is consumed in the end");
    shown
}

fn texts(input: &str) -> Vec<String> {
    let shown = read(&[timed(input).as_bytes()], &reading(1000));
    shown.into_iter().map(|(_, text, ..)| text.replace(TIME, "@")).collect()
}

#[test]
fn indented_lines_go_on_with_the_record_before_them() {
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
fn a_record_that_lies_as_it_is_read_is_not_copied() {
    let (learned, reading) = (SourceProfile::default(), reading(1000));
    for (input, is_borrowed) in
        [("@ a\n\tb\n\n\tc\n", true), ("@ a\n", true), ("@ a\r\n", true), ("@ a\r\n\tb\r\n", false)]
    {
        let input = timed(input);
        let mut records = Assembler::new(input.as_bytes(), 0, BYTES_MAX, &reading, Ending::Closed);
        let record = records.next(&learned, &reading).expect("a record");
        assert_eq!(matches!(record.text, Cow::Borrowed(_)), is_borrowed, "{input:?}");
        assert_eq!(records.next(&learned, &reading), None);
    }
}

#[test]
fn what_may_go_on_is_open_and_what_may_not_is_not() {
    let (learned, reading) = (SourceProfile::default(), reading(1000));
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
        let mut assembler = Assembler::new(input.as_bytes(), 0, BYTES_MAX, &reading, Ending::Open);
        let given = std::iter::from_fn(|| assembler.next(&learned, &reading)).count();
        assert_eq!(
            (given, assembler.consumed(), assembler.open().is_some()),
            (records, consumed, is_open),
            "{input:?}"
        );
        assert_eq!(assembler.next(&learned, &reading), None);
    }
}

#[test]
fn at_a_limit_a_record_is_closed_and_the_next_goes_on_with_nothing_lost() {
    let lines = timed("@ a\n") + &"\tb\n".repeat(5);
    let shown = read(&[lines.as_bytes()], &reading(3));
    let lengths: Vec<_> = shown.iter().map(|(start, text, _, lines)| (*start, text.len(), *lines)).collect();
    assert_eq!(lengths, [(0, TIME.len() + 8, 3), (TIME.len() + 9, 8, 3)]);
    let long = format!("@ a\n\t{}\n\t{}\n", "b".repeat(400), "c".repeat(400));
    assert_eq!(texts(&long).iter().map(String::len).collect::<Vec<_>>(), [405, 401]);
    // A line that is too long for itself is the only one that is cut.
    let long = timed(&format!("@ a\n\t{}\n\tc\n", "b".repeat(600)));
    let (learned, reading) = (SourceProfile::default(), reading(1000));
    let mut records = Assembler::new(long.as_bytes(), 0, BYTES_MAX, &reading, Ending::Closed);
    let cuts: Vec<_> = std::iter::from_fn(|| records.next(&learned, &reading)).map(|r| (r.text.len(), r.cut)).collect();
    assert_eq!(cuts, [(TIME.len() + 2, 0), (500, 101), (2, 0)]);
}

#[test]
fn an_open_record_that_fills_the_limit_does_not_wait() {
    let (learned, reading) = (SourceProfile::default(), reading(1000));
    let chunk = timed(&format!("@ a\n\t{}\n", "b".repeat(450)));
    for (unfinished, is_open) in [(0, true), (BYTES_MAX - chunk.len(), true), (BYTES_MAX - chunk.len() + 1, false)] {
        let mut records = Assembler::new(chunk.as_bytes(), unfinished, BYTES_MAX, &reading, Ending::Open);
        assert_eq!(records.next(&learned, &reading).is_some(), !is_open, "{unfinished} bytes behind it");
        assert_eq!(records.open().is_some(), is_open);
    }
}

fn cri(second: f64, stream: &str, tag: &str, text: &str) -> String {
    let text = timed(text);
    format!("2026-11-20T00:{:02}:{:09.6}Z {stream} {tag} {text}\n", second as u32 / 60, second % 60.0)
}

#[test]
fn partial_lines_are_one_line_and_streams_are_apart() {
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
    let shown = read(&[input.concat().as_bytes()], &reading(1000));
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
fn an_object_in_pieces_is_whole_with_its_last() {
    let (learned, reading) = (SourceProfile::default(), reading(1000));
    let pieces = [
        cri(0.0, "stdout", "P", "{\"a\":"),
        cri(0.1, "stdout", "P", "1"),
        cri(0.1, "stdout", "F", "}"),
        cri(0.2, "stdout", "F", "\tb"),
    ];
    for (lines, given, is_open) in [(2, vec![], true), (3, vec!["{\"a\":1}"], false), (4, vec!["{\"a\":1}"], true)] {
        let chunk = pieces[..lines].concat();
        let mut records = Assembler::new(chunk.as_bytes(), 0, 1 << 20, &reading, Ending::Open);
        let texts: Vec<_> = std::iter::from_fn(|| records.next(&learned, &reading)).map(|record| record.text).collect();
        assert_eq!((texts, records.open().is_some()), (given.into_iter().map(Into::into).collect(), is_open));
    }
}

#[test]
fn interleaved_streams_do_not_hold_each_other_up() {
    let (learned, reading) = (SourceProfile::default(), reading(1000));
    let lines: Vec<_> =
        (0..20).map(|n| cri(0.01 * f64::from(n), ["stdout", "stderr"][n as usize % 2], "F", "@ x")).collect();
    let chunk = lines.concat();
    let mut records = Assembler::new(chunk.as_bytes(), 0, 1 << 20, &reading, Ending::Open);
    let given = std::iter::from_fn(|| records.next(&learned, &reading)).count();
    assert_eq!(given, 18, "only the last of each stream may go on");
}

#[test]
fn a_record_after_which_the_other_stream_went_on_for_long_is_closed() {
    let input = [
        cri(0.0, "stderr", "F", "@ e"),
        cri(0.9, "stdout", "F", "{}"),
        cri(1.1, "stdout", "F", "{}"),
        cri(1.2, "stderr", "F", "\tat e"),
    ];
    assert_eq!(read(&[input.concat().as_bytes()], &reading(1000)).len(), 4);
}

/// Text that is joined, torn, cut and passed over.
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

proptest! {
    /// Written in pieces that end anywhere, the records are those of the whole: each where it begins, with its lines.
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
        prop_assert_eq!(read(&pieces, &reading(lines_max)), read(&[&input], &reading(lines_max)));
    }

    /// OutputStream by stream, the records' texts are the lines that went in, in their order and each once: none is lost,
    /// none is there twice, and none is in a record of the other stream.
    #[test]
    fn every_line_is_in_one_record_of_its_stream(input in input(), lines_max in 1u16..9) {
        let (learned, reading) = (SourceProfile::default(), reading(lines_max));
        let shown = read(&[&input], &reading);
        for stream in [OutputStream::Only, OutputStream::Stdout, OutputStream::Stderr] {
            let mut lines = String::new();
            for line in Lines::new(&input, BYTES_MAX) {
                let piece = LinePiece::of(&line, &learned, &reading);
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

    /// No record is longer than a line may be, whatever was joined; U+FFFD takes three bytes for one.
    #[test]
    fn a_record_is_bounded_as_a_line_is(input in input()) {
        prop_assert!(read(&[&input], &reading(1000)).iter().all(|shown| shown.1.len() <= 3 * BYTES_MAX));
    }
}
