//! Records of several lines, in files that grow, are rotated, and are read again.

use super::*;
use std::sync::atomic::Ordering;

const TRACE: [&str; 3] = ["2026-11-20T10:00:00Z ERROR boom\n", "\tat one\n", "\tat two\n"];
const WHOLE: &str = "boom\n\tat one\n\tat two";
const NEXT: &str = "2026-11-20T10:00:01Z INFO next\n";

/// Nobody waits as long as a test runs.
fn patient() -> Bench {
    let mut bench = Bench::new();
    bench.options.reading.join.wait = Duration::from_secs(3600);
    bench
}

/// Nobody waits for long.
fn hasty() -> Bench {
    let mut bench = Bench::new();
    bench.options.reading.join.wait = Duration::from_millis(50);
    bench
}

#[test]
fn a_record_that_is_written_in_pieces_is_one() {
    let mut bench = patient();
    bench.start();
    for line in TRACE {
        let (first, second) = line.split_at(line.len() / 2);
        for piece in [first, second] {
            bench.append("a.log", piece);
            bench.settle();
        }
    }
    bench.expect(&[]);
    bench.append("a.log", NEXT);
    bench.expect(&[WHOLE]);
    assert_eq!(bench.record(WHOLE).position, 0);
    let state = bench.source_of(WHOLE);
    assert_eq!((state.position, state.ledger.records), (TRACE.concat().len() as u64, 1));
}

#[test]
fn an_open_record_is_final_after_the_wait_and_later_lines_are_another_record() {
    let mut bench = hasty();
    bench.start();
    bench.append("a.log", TRACE[..2].concat());
    bench.expect(&["boom\n\tat one"]);
    bench.append("a.log", TRACE[2]);
    bench.append("a.log", "\tat three\n");
    let late = bench.record("boom\n\tat one").time;
    bench.until("the rest", |bench| bench.source_of("boom\n\tat one").position == 32 + 8 + 8 + 10);
    let rest: Vec<_> = bench.records().into_iter().filter(|row| row.position > 0).collect();
    assert!(rest.iter().map(|row| row.message.as_str()).collect::<Vec<_>>().join("\n") == "\tat two\n\tat three");
    assert!(rest.iter().all(|row| row.time == late), "it has the time of the record before it");
}

#[test]
fn an_unfinished_line_does_not_keep_a_record_open() {
    let mut bench = hasty();
    bench.start();
    bench.append("a.log", TRACE.concat() + "2026-11-20T10:00:01Z INFO ne");
    bench.expect(&[WHOLE]);
    bench.append("a.log", "xt\n");
    bench.expect(&[WHOLE, "next"]);
}

#[test]
fn a_complete_record_does_not_wait() {
    let mut bench = patient();
    bench.start();
    bench.append("json.log", "{\"message\":\"json\"}\n");
    bench.append("logfmt.log", "level=info msg=logfmt\n");
    bench.append("access.log", "192.0.2.1 - - [20/Nov/2026:10:00:03 +0000] \"GET /x HTTP/1.1\" 200 5\n");
    bench.append("text.log", NEXT);
    bench.append("plain.log", "plain\n");
    bench.until("three records", |bench| bench.records().len() == 3);
    bench.settle();
    let messages = bench.messages();
    assert!(messages.len() == 3 && !messages.iter().any(|message| message == "next" || message == "plain"));
}

#[test]
fn a_restart_in_the_middle_of_a_record_changes_nothing() {
    let mut bench = patient();
    bench.start();
    bench.append("a.log", NEXT.to_owned() + TRACE[0]);
    bench.expect(&["next"]);
    bench.restart(|bench| bench.append("a.log", TRACE[1]));
    bench.settle();
    bench.restart(|bench| bench.append("a.log", TRACE[2].to_owned() + NEXT));
    bench.expect(&["next", WHOLE]);
    assert_eq!(bench.record(WHOLE).position, NEXT.len() as u64);
}

#[test]
fn a_failed_commit_in_the_middle_of_a_record_changes_nothing() {
    let mut bench = patient();
    bench.start();
    bench.append("a.log", NEXT.to_owned() + TRACE[0]);
    let queue = bench.queue.clone();
    let deadline = Instant::now() + PATIENCE;
    while queue.waiting_bytes() == 0 {
        assert!(Instant::now() < deadline, "nothing is handed over");
        std::thread::yield_now();
    }
    bench.append("a.log", TRACE[1]);
    bench.sink.fail();
    bench.expect(&["next"]);
    bench.append("a.log", TRACE[2].to_owned() + NEXT);
    bench.expect(&["next", WHOLE]);
    assert_eq!(bench.source_of("next").ledger.records, 2);
}

#[test]
fn a_record_continues_in_a_rotated_file_and_ends_with_it() {
    let mut bench = patient();
    bench.start();
    bench.append("a.log", TRACE[0]);
    bench.settle();
    bench.rename("a.log", "a.log.1");
    bench.append("a.log.1", TRACE[1]);
    bench.append("a.log", NEXT);
    bench.append("a.log.1", "\tat two");
    bench.expect(&[WHOLE]);
    assert_eq!(bench.source_of(WHOLE).status, SourceStatus::Rotated);
}

#[test]
fn a_record_continues_in_a_copy() {
    let mut bench = patient();
    bench.start();
    bench.append("a.log", NEXT.to_owned() + TRACE[0] + TRACE[1]);
    bench.expect(&["next"]);
    fs::copy(bench.path("a.log"), bench.path("a.log.1")).expect("copied");
    bench.truncate("a.log");
    bench.expect(&["next", "boom\n\tat one"]);
    assert_eq!(bench.identities(), 1);
    assert_eq!(bench.counters[0].event(SourceEvent::BytesDestroyed), 0);
}

#[test]
fn a_record_longer_than_a_chunk_is_complete_and_one_over_the_limit_continues_in_the_next() {
    let mut bench = patient();
    bench.options.reading.join.lines_max = NonZeroU16::MAX;
    bench.start();
    let line = format!("\tat {}\n", "x".repeat(35));
    let lines = |count: usize| TRACE[0].to_owned() + &line.repeat(count);
    bench.append("long.log", lines(10_000) + NEXT);
    bench.append("longer.log", lines(40_000) + NEXT);
    bench.until("the long ones", |bench| {
        let (_, sources) = bench.queue.sources();
        let records = |name| sources.iter().find(|state| state.path == bench.path(name)).map(|s| s.ledger.records);
        (records("long.log"), records("longer.log")) == (Some(1), Some(2))
    });
    let (_, sources) = bench.queue.sources();
    let read = |name| sources.iter().find(|state| state.path == bench.path(name)).map(|state| state.position);
    assert_eq!(read("long.log"), Some(32 + 400_000));
    // The position is a start of a line.
    assert_eq!(read("longer.log"), Some(32 + 1_600_000));
    assert_eq!(bench.counters[0].truncated.load(Ordering::Relaxed), 0);
}

#[test]
fn partial_lines_of_a_container_are_joined_and_its_streams_are_apart() {
    let mut bench = patient();
    bench.start();
    let line = |stream: &str, tag: &str, text: &str| format!("2026-11-20T10:00:00.1Z {stream} {tag} {text}\n");
    for text in [
        line("stdout", "P", "{\"message\":\"one"),
        line("stderr", "F", TRACE[0].trim_end()),
        line("stdout", "P", " and the"),
        line("stderr", "F", TRACE[1].trim_end()),
        line("stdout", "F", " same\"}"),
        line("stderr", "F", TRACE[2].trim_end()),
        line("stdout", "F", "{\"message\":\"two\"}"),
        line("stderr", "F", NEXT.trim_end()),
    ] {
        bench.append("a.log", text);
        bench.settle();
    }
    bench.expect(&["one and the same", WHOLE, "two"]);
}

#[test]
fn it_is_known_since_when_something_is_unread() {
    let mut bench = patient();
    let old = std::time::SystemTime::now() - Duration::from_secs(600);
    bench.append("a.log", NEXT.to_owned() + TRACE[0]);
    File::options().append(true).open(bench.path("a.log")).and_then(|file| file.set_modified(old)).expect("set");
    bench.start();
    let since = |bench: &Bench| {
        let ticks = bench.counters[0].unread_since.load(Ordering::Relaxed);
        Ticks::new(i64::try_from(ticks).expect("a time")).expect("a time")
    };
    let age = |bench: &Bench| daytable_model::time::now().since(since(bench)).as_secs();
    bench.until("its age", |bench| (600..700).contains(&age(bench)));
    bench.append("a.log", "{}\n");
    bench.until("no lag", |bench| since(bench) == Ticks::MIN);
}
