//! A last line without an end: it becomes a record once, and what comes behind it is a record of its own.

use super::*;
use std::sync::atomic::Ordering;

const WAIT: Duration = Duration::from_millis(100);

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.options.unended_after = Some(WAIT);
    bench.start();
    bench
}

fn counts(bench: &Bench) -> [u64; 2] {
    [SourceEvent::LineUnended, SourceEvent::LineContinued].map(|event| bench.counters[0].event(event))
}

/// Keeps the first `length` bytes of a file.
fn shorten(bench: &Bench, name: &str, length: u64) {
    let file = OpenOptions::new().write(true).open(bench.path(name)).expect("opened");
    file.set_len(length).expect("shortened");
}

#[test]
fn a_line_without_an_end_becomes_a_record_once() {
    let mut bench = bench();
    bench.append("a.log", "one\ntwo");
    bench.expect(&["one", "two"]);
    bench.restart(|_| {});
    bench.expect(&["one", "two"]);
    bench.append("a.log", "+rest\nthree\n");
    bench.expect(&["one", "two", "+rest", "three"]);
    assert_eq!(["two", "+rest", "three"].map(|message| bench.record(message).position), [4, 7, 13]);
    assert_eq!((bench.identities(), counts(&bench)), (1, [1, 1]));
    assert_eq!(bench.source_of("one").ledger.bytes, 19);
}

#[test]
fn a_line_whose_end_comes_later_has_no_rest() {
    let mut bench = bench();
    bench.append("a.log", "one\ntwo");
    bench.expect(&["one", "two"]);
    bench.append("a.log", "\r\n");
    bench.until("the end", |bench| bench.source_of("two").position == 9);
    bench.append("a.log", "three\n");
    bench.expect(&["one", "two", "three"]);
    assert_eq!(counts(&bench), [1, 0]);
}

#[test]
fn a_file_whose_only_line_has_no_end_is_read() {
    let mut bench = bench();
    bench.append("a.log", "only");
    bench.expect(&["only"]);
    let state = bench.source_of("only");
    assert_eq!((state.position, state.status, state.head.length), (4, SourceStatus::Live, 4));
    bench.restart(|bench| bench.append("a.log", "+rest\nnext\n"));
    bench.expect(&["only", "+rest", "next"]);
    assert_eq!(bench.identities(), 1);
}

#[test]
fn a_line_waits_for_ever_where_that_is_asked_for() {
    let mut bench = Bench::new();
    bench.options.unended_after = None;
    bench.start();
    bench.append("a.log", "one\ntwo");
    bench.append("b.log", "only");
    bench.expect(&["one"]);
    // What waits is shown once a second.
    bench.until("it is shown", |bench| {
        let mut unended = bench.counters[0].unended();
        unended.retain(|(path, _)| !path.to_string_lossy().contains("sentinel"));
        unended.sort();
        unended == [(bench.path("a.log"), 3), (bench.path("b.log"), 4)]
    });
    bench.restart(|_| {});
    bench.expect(&["one"]);
    bench.append("a.log", "\n");
    bench.append("b.log", "\n");
    bench.expect(&["one", "two", "only"]);
    assert_eq!(counts(&bench), [0, 0]);
}

#[test]
fn a_writer_takes_its_unended_line_back() {
    for is_running in [true, false] {
        for start in [0, 4] {
            let mut bench = bench();
            let (before, expected): (&str, &[&str]) = if start == 0 { ("", &[]) } else { ("one\n", &["one"]) };
            bench.append("a.log", format!("{before}hal"));
            bench.expect(&[expected, &["hal"]].concat());
            let change = move |bench: &Bench| {
                shorten(bench, "a.log", start);
                bench.append("a.log", "other\nlast\n");
            };
            if is_running {
                change(&bench);
            } else {
                bench.restart(change);
            }
            bench.expect(&[expected, &["hal", "other", "last"]].concat());
        }
    }
}

#[test]
fn a_rotation_comes_before_or_after_the_line_was_read() {
    for is_read in [true, false] {
        let mut bench = bench();
        bench.append("a.log", "one\ntwo");
        if is_read {
            bench.expect(&["one", "two"]);
        }
        bench.rename("a.log", "a.log.1");
        bench.append("a.log", "new\n");
        bench.expect(&["one", "two", "new"]);
        bench.append("a.log.1", "+rest\n");
        bench.expect(&["one", "two", "new", "+rest"]);
        bench.gzip("a.log.1", "a.log.2.gz");
        bench.expect(&["one", "two", "new", "+rest"]);
        bench.restart(|_| {});
        bench.expect(&["one", "two", "new", "+rest"]);
    }
}

#[test]
fn a_copy_of_a_file_with_an_unended_line_is_no_other_file() {
    let mut bench = bench();
    bench.append("a.log", "one\ntwo");
    bench.expect(&["one", "two"]);
    fs::copy(bench.path("a.log"), bench.path("a.log.1")).expect("copied");
    bench.truncate("a.log");
    bench.append("a.log", "new\n");
    bench.expect(&["one", "two", "new"]);
}

#[test]
fn a_line_over_the_limit_without_an_end() {
    let mut bench = Bench::new();
    bench.options.unended_after = Some(WAIT);
    bench.options.line_bytes_max = 1000;
    bench.start();
    bench.append("a.log", format!("one\n{}", "x".repeat(700_000)));
    bench.expect(&["one", &"x".repeat(1000)]);
    bench.append("a.log", "+rest\n");
    bench.expect(&["one", &"x".repeat(1000), "+rest"]);
    assert_eq!((counts(&bench), bench.counters[0].truncated.load(Ordering::Relaxed)), ([1, 1], 1));
}

/// The object that a program left unfinished keeps what it has.
#[test]
fn an_unended_object_is_read_as_far_as_it_goes() {
    let mut bench = bench();
    bench.append(
        "a.log",
        "{\"ts\":\"2026-11-20T10:00:00Z\",\"msg\":\"one\"}\n{\"ts\":\"2026-11-20T10:00:07Z\",\"msg\":\"two of",
    );
    bench.expect(&["one", "two of"]);
    let time = Ticks::from_date(2026, 11, 20).expect("a date").plus(Duration::from_secs(36_007));
    assert_eq!(bench.record("two of").time, time);
}

#[test]
fn a_last_line_of_a_trace_is_a_record_behind_it() {
    let mut bench = bench();
    bench.options.reading.join.wait = Duration::from_millis(10);
    bench.append("a.log", "2026-11-20 10:00:00 ERROR no\n\tat a(1)\n\tat b");
    bench.until("both", |bench| bench.records().len() == 2);
    bench.append("a.log", "(2)\n2026-11-20 10:00:01 INFO up\n");
    bench.until("all", |bench| bench.messages().contains(&"up".into()));
    bench.settle();
    let mut records = bench.records();
    records.sort_by_key(|row| row.position);
    let positions: Vec<_> = records.iter().map(|row| row.position).collect();
    assert_eq!(positions, [0, 38, 43, 47], "{records:#?}");
}

/// What is too old is left out with its last line, until the file is written to.
#[test]
fn an_old_file_is_left_out_with_its_unended_line() {
    let mut bench = Bench::new();
    bench.options.unended_after = Some(WAIT);
    bench.options.ignore_older = Some(Duration::from_secs(3600));
    for (name, text) in [("a.log", "one\ntwo"), ("b.log", "only")] {
        bench.append(name, text);
        let old = std::time::SystemTime::now() - Duration::from_secs(7200);
        File::options().write(true).open(bench.path(name)).and_then(|file| file.set_modified(old)).expect("aged");
    }
    bench.start();
    bench.settle();
    bench.until("it would have been read", |bench| bench.source_of_path("a.log").is_some());
    let quiet = Instant::now();
    bench.until("the wait is over", |_| quiet.elapsed() > 3 * WAIT);
    bench.expect(&[]);
    bench.append("a.log", "+rest\n");
    bench.expect(&["two+rest"]);
}
