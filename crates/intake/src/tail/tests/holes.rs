//! Zeros: where lines will be, and where nothing will ever be.

use super::*;
use crate::source::ReadFrom;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

/// The limit of a line, and bytes that are over it and over a chunk.
const LINE_BYTES_MAX: usize = 4096;
const OVER_A_LINE: u64 = 300_000;

/// A bench with that limit.
fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.options.line_bytes_max = LINE_BYTES_MAX;
    bench
}

fn started() -> Bench {
    let mut bench = bench();
    bench.start();
    bench
}

fn write_at(bench: &Bench, name: &str, offset: u64, bytes: &str) {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(bench.path(name)).expect("opened");
    file.write_all_at(bytes.as_bytes(), offset).expect("written");
}

fn set_size(bench: &Bench, name: &str, size: u64) {
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(bench.path(name)).expect("opened");
    file.set_len(size).expect("allocated");
}

#[test]
fn a_file_that_was_allocated_before_is_read_as_it_is_filled() {
    for size in [20, 1000, OVER_A_LINE, 4 << 30] {
        let mut bench = started();
        set_size(&bench, "a.log", size);
        bench.settle();
        write_at(&bench, "a.log", 0, "one");
        bench.settle();
        write_at(&bench, "a.log", 3, "\ntw");
        bench.expect(&["one"]);
        write_at(&bench, "a.log", 6, "o\n");
        bench.expect(&["one", "two"]);
        let lag = |bench: &mut Bench| bench.counters[0].lag_bytes.load(Ordering::Relaxed);
        bench.until("no lag", |bench| lag(bench) == 0);
        // The last line has no newline, and its file gets no more bytes.
        write_at(&bench, "a.log", 8, "end");
        bench.rename("a.log", "a.log.1");
        bench.expect(&["one", "two", "end"]);
        bench.remove("a.log.1");
        bench.until("the end", |bench| bench.source_of("one").status == SourceStatus::Ended);
        let state = bench.source_of("one");
        assert_eq!((state.ledger.lost_bytes, state.position, bench.identities()), (0, 11, 1), "{size}");
    }
}

#[test]
fn lines_behind_a_hole_are_read_without_it() {
    for before in [100, 5000, OVER_A_LINE] {
        let mut bench = started();
        let mut file = File::create(bench.path("a.log")).expect("created");
        let mut lines = String::new();
        while (lines.len() as u64) < before {
            lines += &format!("2026-11-20T10:00:00Z old {}\n", lines.len());
        }
        file.write_all(lines.as_bytes()).expect("written");
        let count = lines.lines().count();
        bench.until("the old lines", |bench| bench.records().len() == count);
        // The program keeps its offset.
        file.set_len(0).expect("truncated");
        file.write_all(b"2026-11-20T10:00:01Z new one\n2026-11-20T10:00:02Z new two\n").expect("written");
        bench.until("the new lines", |bench| bench.records().len() >= count + 2);
        file.write_all(b"2026-11-20T10:00:03Z new three\n").expect("written");
        bench.until("the last line", |bench| bench.records().len() >= count + 3);
        bench.restart(|_| ());
        file.write_all(b"2026-11-20T10:00:04Z new four\n").expect("written");
        bench.until("a line after the restart", |bench| bench.records().len() >= count + 4);
        bench.settle();
        let new: Vec<_> = bench.records().into_iter().filter(|row| row.message.contains("new")).collect();
        let mut said: Vec<_> = new.iter().map(|row| (row.message.as_str(), row.time.date().day)).collect();
        said.sort();
        assert_eq!(said, [("new four", 20), ("new one", 20), ("new three", 20), ("new two", 20)], "{before}");
        assert_eq!((bench.records().len(), bench.source_of("old 0").ledger.lost_bytes), (count + 4, 0), "{before}");
        assert_eq!(bench.record("new one").position, lines.len() as u64);
    }
}

#[test]
fn a_line_ends_at_a_hole() {
    for hole in [64, 4096, OVER_A_LINE] {
        let mut bench = started();
        write_at(&bench, "a.log", 0, "first\nbroken o");
        bench.expect(&["first"]);
        write_at(&bench, "a.log", 14 + hole, "next\nlast\n");
        bench.expect(&["first", "broken o", "next", "last"]);
        assert_eq!(bench.record("next").position, 14 + hole);
        let state = bench.source_of("first");
        assert_eq!((state.position, state.ledger.position(), state.ledger.lost_bytes), (24 + hole, 24 + hole, 0));
    }
}

/// The parts of a file may come in any order, as from another host.
#[test]
fn zeros_are_not_passed_before_they_are_final() {
    for (hole, middle) in [(100, 40), (OVER_A_LINE, OVER_A_LINE / 2)] {
        let mut bench = bench();
        bench.timings.zeros_final = Duration::from_secs(3600);
        bench.start();
        write_at(&bench, "a.log", 0, "one\n");
        bench.expect(&["one"]);
        write_at(&bench, "a.log", 4 + hole, "three\n");
        bench.settle();
        write_at(&bench, "a.log", middle, "\n");
        bench.expect(&["one"]);
        let two = "x".repeat(usize::try_from(hole).expect("small") - 1) + "\n";
        write_at(&bench, "a.log", 4, &two);
        bench.until("the second line", |bench| {
            // A large write changes the time of the file before its bytes, which these hours of waiting would hide.
            let file = File::options().write(true).open(bench.path("a.log")).expect("opened");
            file.set_modified(std::time::SystemTime::now()).expect("set");
            bench.records().iter().any(|row| row.message.starts_with('x') && row.position == 4)
        });
        // The last line may wait for more of its record, as long as the file changes.
        bench.until("the last line", |bench| bench.records().iter().any(|row| row.message == "three"));
        let state = bench.source_of("one");
        assert_eq!((state.position, state.ledger.lost_bytes), (10 + hole, 0));
    }
}

#[test]
fn zeros_in_the_first_line_are_waited_for() {
    let mut bench = bench();
    bench.timings.zeros_final = Duration::from_secs(3600);
    bench.start();
    write_at(&bench, "a.log", 30, "two\n");
    bench.settle();
    write_at(&bench, "a.log", 0, "one, which takes thirty bytes\n");
    bench.expect(&["one, which takes thirty bytes", "two"]);
    assert_eq!(bench.identities(), 1);
    bench.stop();
    // Here they are final at once.
    let mut bench = started();
    write_at(&bench, "a.log", 3000, "two\n");
    bench.expect(&["two"]);
}

#[test]
fn few_zeros_within_a_line_are_bytes_of_it() {
    let mut bench = started();
    bench.append("a.log", b"a\0\0b\n\0c\n");
    bench.expect(&["a\0\0b", "\0c"]);
}

#[test]
fn reading_begins_at_the_end_of_what_was_written() {
    let mut bench = bench();
    bench.options.read_from = ReadFrom::End;
    write_at(&bench, "a.log", 0, "one\ntwo\n");
    set_size(&bench, "a.log", OVER_A_LINE);
    bench.start();
    bench.until("the first look", |bench| !bench.queue.sources().1.is_empty());
    write_at(&bench, "a.log", 8, "three\n");
    bench.expect(&["three"]);
    assert_eq!(bench.source_of("three").ledger.skipped_bytes, 8);
}
