//! Different files that look alike, and equal files that look different.

use super::*;

#[test]
fn several_files_with_the_same_first_line() {
    let mut bench = Bench::started();
    for name in ["a.log", "b.log", "a-1.log"] {
        bench.append(name, format!("# header\n{name}\n"));
    }
    bench.expect(&["# header", "# header", "# header", "a.log", "b.log", "a-1.log"]);
    assert_eq!(bench.identities(), 3);
}

#[test]
fn files_with_equal_content_are_two_sources() {
    let mut bench = Bench::new();
    bench.append("a.log", "one\ntwo\n");
    bench.append("b.log", "one\ntwo\n");
    bench.append("web-1.log", "one\n");
    bench.append("web-2.log", "one\n");
    bench.start();
    bench.expect(&["one", "one", "one", "one", "two", "two"]);
    assert_eq!(bench.identities(), 4);
    bench.restart(|bench| {
        bench.append("a.log", "three\n");
        bench.append("b.log", "three\n");
    });
    bench.expect(&["one", "one", "one", "one", "two", "two", "three", "three"]);
}

#[test]
fn inode_reuse() {
    let mut bench = Bench::started();
    bench.append("a.log", "one\ntwo\n");
    bench.expect(&["one", "two"]);
    // Written in place: certainly the same inode, as if the inode were reused.
    let first = bench.source_of("one");
    bench.restart(|bench| fs::write(bench.path("a.log"), "another first line\ntwo\nthree\n").expect("written"));
    bench.expect(&["one", "two", "another first line", "two", "three"]);
    let second = bench.source_of("three");
    assert_eq!((first.device, first.inode), (second.device, second.inode));
    assert_ne!(first.identity, second.identity);
}

#[test]
fn inode_reuse_with_the_same_first_line() {
    let mut bench = Bench::started();
    bench.append("a.log", "one\ntwo\n");
    bench.expect(&["one", "two"]);
    for n in 0..3 {
        bench.truncate("a.log");
        bench.until("the truncation is seen", |bench| {
            bench
                .queue
                .sources()
                .1
                .iter()
                .all(|state| !state.path.ends_with("a.log") || state.status == SourceStatus::Ended)
        });
        bench.append("a.log", "one\n");
        bench.until("the new file is read", |bench| bench.records().len() == 3 + n);
    }
    bench.expect(&["one", "two", "one", "one", "one"]);
    assert_eq!(bench.identities(), 4, "each is a generation of its own");
}

#[test]
fn backup_copy_is_not_read_twice() {
    let mut bench = Bench::of_all_names();
    bench.start();
    let lines: Vec<String> = (0..200).map(|n| format!("line number {n}")).collect();
    bench.append("app.log", lines.join("\n") + "\n");
    bench.until("all lines", |bench| bench.rows.len() == 200);
    fs::copy(bench.path("app.log"), bench.path("app.log.bak")).expect("copied");
    bench.settle();
    bench.append("app.log", "more\n");
    let deadline = Instant::now() + 2 * bench.timings.copy_final;
    bench.until("time", |_| Instant::now() > deadline);
    bench.restart(|bench| bench.append("app.log", "and more\n"));
    let deadline = Instant::now() + 2 * bench.timings.copy_final;
    bench.until("time", |_| Instant::now() > deadline);
    bench.settle();
    assert_eq!(bench.records().len(), 202, "{:#?}", bench.messages());
    // The content becomes another: it is read.
    fs::write(bench.path("app.log.bak"), "not a copy\n").expect("written");
    bench.until("it is read", |bench| bench.rows.iter().any(|row| row.message == "not a copy"));
}

#[test]
fn a_copy_that_is_still_being_written_is_not_read() {
    let mut bench = Bench::of_all_names();
    bench.start();
    bench.append("app.log", "one\ntwo\nthree\n");
    bench.expect(&["one", "two", "three"]);
    for part in ["one\n", "two\n", "three\n"] {
        bench.append("app.log.1", part);
        bench.settle();
    }
    bench.truncate("app.log");
    bench.append("app.log", "new one\n");
    bench.expect(&["one", "two", "three", "new one"]);
}

#[test]
fn a_file_that_only_begins_like_another_is_read_after_a_while() {
    let mut bench = Bench::started();
    bench.append("app.log", "# header\none\n");
    bench.append("app-1.log", "# header\n");
    bench.expect(&["# header", "one", "# header"]);
}

#[test]
fn hard_link() {
    let mut bench = Bench::new();
    bench.append("a.log", "one\n");
    fs::hard_link(bench.path("a.log"), bench.path("b.log")).expect("linked");
    std::os::unix::fs::symlink(bench.path("a.log"), bench.path("c.log")).expect("linked");
    bench.start();
    bench.expect(&["one"]);
    bench.append("b.log", "two\n");
    bench.expect(&["one", "two"]);
    bench.remove("a.log");
    bench.append("b.log", "three\n");
    bench.expect(&["one", "two", "three"]);
    assert_eq!(bench.identities(), 1);
}

#[test]
fn lost_tail_after_power_cut() {
    // The cut is within a line or between two lines, after one read or many, and also with a failing next commit.
    for (lost, kept, fails) in [(4, "line 98", false), (8, "line 98", false), (4, "line 98", true)] {
        let mut bench = Bench::started();
        let lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
        bench.append("app.log", lines.join("\n") + "\n");
        bench.until("all lines", |bench| bench.rows.len() == 100);
        let identity = bench.source_of("line 0").identity;
        bench.restart(|bench| {
            let file = File::options().write(true).open(bench.path("app.log")).expect("opened");
            let length = file.metadata().expect("known").len();
            file.set_len(length - lost).expect("cut");
        });
        if fails {
            let deadline = Instant::now() + PATIENCE;
            while bench.queue.waiting_bytes() == 0 {
                assert!(Instant::now() < deadline, "nothing is handed over");
                std::thread::yield_now();
            }
            bench.sink.fail();
        }
        bench.settle();
        bench.append("app.log", "\nnew\n");
        bench.until("the new line", |bench| bench.rows.iter().any(|row| row.message == "new"));
        bench.settle();
        let torn = if lost == 4 { 1 } else { 0 };
        assert_eq!(bench.records().len(), 101 + torn, "{:#?}", bench.messages());
        assert_eq!(bench.record("new").identity, identity);
        assert_eq!(bench.record(kept).identity, identity);
    }
}

#[test]
fn a_file_read_again_from_the_start_has_the_same_keys() {
    let mut bench = Bench::new();
    bench.append("a.log", "2026-11-20T10:00:00Z one\n2026-11-20T10:00:01Z two\n");
    bench.start();
    bench.expect(&["one", "two"]);
    let mut before = bench.records();
    bench.stop();
    bench.rows.clear();
    (bench.queue, bench.sink) = TestCommitter::new(vec![]);
    bench.start();
    bench.expect(&["one", "two"]);
    let mut after = bench.records();
    before.sort();
    after.sort();
    assert_eq!(before, after);
}
