//! Tests: what a profile learns, and that it survives a restart.

use super::*;
use daytable_model::record::Level;
use daytable_model::time::now;
use proptest::prelude::*;

/// The profile after these lines, each a record.
fn learn<'a>(lines: impl IntoIterator<Item = &'a str>) -> SourceProfile {
    let (mut profile, options) = (SourceProfile::default(), ParseOptions::default());
    for line in lines {
        profile.record(line, Envelope::default(), &options, now());
    }
    profile
}

const TIMED: &str = "2026-11-20 00:05:45 INFO up";
const UNTIMED: &str = "[INFO] up";
const OBJECT: &str = "{\"msg\":\"up\"}";
const SYSLOG: &str = "Nov 20 00:05:45 host app[7]: up";

#[test]
fn the_usual_format_is_the_format_of_most_recent_records() {
    assert_eq!((SourceProfile::default().format(), SourceProfile::default().confidence()), (None, 0.0));
    let profile = learn([TIMED, TIMED, TIMED, "words", TIMED]);
    assert_eq!((profile.format(), profile.confidence()), (Some(Format::Text), 0.8));
    assert_eq!(learn(["words", OBJECT]).format(), Some(Format::Json));
    let changed = learn([[TIMED; 60], [OBJECT; 60]].concat());
    assert_eq!((changed.format(), changed.confidence()), (Some(Format::Json), 1.0));
}

/// A line is to be seen within a second, and reading, committing and forwarding need a part of that.
#[test]
fn a_record_waits_for_less_than_a_second_for_more_lines() {
    let options = ParseOptions::default();
    let wait = |lines: usize, open| learn(vec![TIMED; lines]).wait(open, &options);
    assert_eq!([wait(0, TIMED), wait(31, TIMED)], [Duration::from_millis(800); 2], "nothing is known of its source");
    assert_eq!([wait(32, TIMED), wait(0, "words")], [Duration::from_millis(100); 2]);
    assert_eq!(wait(32, "2026-11-20 00:05:45 INFO up\n  at"), Duration::from_millis(800), "it has two lines already");
}

#[test]
fn a_format_with_the_same_first_bytes_as_the_usual_one_is_found() {
    let other = "2024-01-02 03:04:05.678 UTC [123] ada@shop LOG:  text";
    let profile = learn([vec![TIMED; 40], vec![other; 200]].concat());
    assert_eq!(profile.format(), Some(Format::Postgresql));
}

#[test]
fn a_line_begins_a_record_if_it_begins_like_the_records_of_its_source() {
    for (before, line, begins) in [
        (TIMED, TIMED, true),
        (TIMED, "going on", false),
        (TIMED, "Caused by: x", false),
        (TIMED, "\tat x", false),
        (TIMED, OBJECT, true),
        (TIMED, "level=info msg=x", true),
        (TIMED, "[2026-11-20 00:05:45] other", true),
        (TIMED, "ERROR: of a trace", false),
        (SYSLOG, SYSLOG, true),
        (SYSLOG, "going on", false),
        (UNTIMED, UNTIMED, true),
        (UNTIMED, "BUILD FAILURE", true),
        (UNTIMED, "  symbol: x", false),
        (OBJECT, OBJECT, true),
        (OBJECT, "panic: x", true),
        (OBJECT, "}", false),
        ("words", "other words", true),
        ("words", "  indented", false),
        ("info: A.B[7]", "info: A.B[7]", true),
        ("info: A.B[7]", "      text", false),
        ("[    0.000000] up", "[    0.000001] up", true),
        ("[    0.000000] up", "going on", false),
        ("D/Tag( 7): up", "E/Tag( 7): up", true),
    ] {
        let profile = learn([before; 3]);
        assert_eq!(profile.begins(line, &ParseOptions::default()), begins, "{line:?} after {before:?}");
    }
}

#[test]
fn without_a_profile_the_open_record_shows_how_records_begin() {
    let (profile, options) = (SourceProfile::default(), ParseOptions::default());
    for (open, line, goes_on) in [
        (TIMED, "ValueError: x", true),
        (TIMED, TIMED, false),
        ("words", "ValueError: x", false),
        ("Traceback (most recent call last):\n  File x", "ValueError: x", true),
        ("panic: x", "goroutine 1 [running]:", true),
        ("panic: x\n\ngoroutine 1 [running]:", "main.main()", true),
        ("words", "goroutine 1 [running]:", false),
        (OBJECT, "goroutine 1 [running]:", false),
    ] {
        assert_eq!(profile.goes_on(open, line, &options), goes_on, "{line:?} after {open:?}");
    }
    let plain = ParseOptions { format: FormatChoice::Only(Format::Plain), ..ParseOptions::default() };
    assert!(
        profile.begins("  indented", &plain) && !profile.goes_on("Traceback (most recent call last):", " x", &plain)
    );
}

#[test]
fn objects_of_an_array_may_have_a_comma_behind_them() {
    let lines =
        ["[", "{\"level\":\"info\",\"msg\":\"a\"},", "  {\"level\":\"error\",\"msg\":\"b\"} ,", "{\"msg\":\"c\"}", "]"];
    let (mut profile, options) = (SourceProfile::default(), ParseOptions::default());
    let messages = lines.map(|line| {
        let raw = RawRecord::of_message(line.into(), line.as_bytes());
        let parsed = profile.raw_record(&raw, &options, Ticks::MIN);
        (parsed.record.level, parsed.record.message.into_owned())
    });
    let said = |level, text: &str| (level, text.to_owned());
    let [info, error] = [Some(Level::Info), Some(Level::Error)];
    assert_eq!(messages, [said(None, "["), said(info, "a"), said(error, "b"), said(None, "c"), said(None, "]")]);
}

#[test]
fn a_zone_is_that_of_the_source() {
    let options = ParseOptions { zone: "+02:00".parse().expect("a zone"), ..ParseOptions::default() };
    for line in [TIMED, "{\"time\":\"2026-11-20 00:05:45\"}", "time=\"2026-11-20 00:05:45\" n=1"] {
        let time = SourceProfile::default().record(line, Envelope::default(), &options, now()).record.time;
        assert_eq!(time.map(|time| time.to_string()).as_deref(), Some("2026-11-19T22:05:45Z"), "{line}");
    }
}

#[test]
fn a_profile_of_another_version_is_ignored() {
    for saved in ["", "0 text 1 1 1 0 0", "1", "1 text", "1 text x 1 1 0 0 0", "1 text 1 1 1 0 0 99999999", "{}"] {
        assert_eq!(SourceProfile::restore(saved), SourceProfile::default(), "{saved:?}");
    }
}

proptest! {
    /// A saved profile comes back unchanged, and continues to learn in the same way.
    #[test]
    fn a_profile_is_restored(lines in proptest::collection::vec(
        prop_oneof![Just(TIMED), Just(UNTIMED), Just(OBJECT), Just(SYSLOG), Just("words"), Just("time,level,msg"),
            Just("2026-11-20 00:05:45 INFO Remoting: up"), Just("#Fields: date time x")], 0..80), at in 0usize..80) {
        let (before, after) = lines.split_at(at.min(lines.len()));
        let mut restored = SourceProfile::restore(&learn(before.iter().copied()).save());
        let options = ParseOptions::default();
        for line in after {
            restored.record(line, Envelope::default(), &options, now());
        }
        prop_assert_eq!(restored, learn(lines.iter().copied()));
    }
}
