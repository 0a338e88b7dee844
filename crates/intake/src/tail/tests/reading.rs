//! Lines, limits, descriptors, failed commits.

use super::*;
use crate::source::ReadFrom;
use crate::tail::WatchMode;
use std::sync::atomic::Ordering;

#[test]
fn lines_become_records_with_their_positions() {
    let mut bench = Bench::started();
    bench.append("a.log", "{\"ts\":\"2026-11-20T10:00:00Z\",\"msg\":\"one\"}\n{\"msg\":\"two\"}\n\n");
    bench.append("a.log", "{\"msg\":\"three\"}\n");
    bench.expect(&["one", "two", "three"]);
    assert_eq!(["one", "two", "three"].map(|message| bench.record(message).position), [0, 42, 57]);
    assert_eq!(bench.identities(), 1);
    let time = Ticks::from_date(2026, 11, 20).expect("a date").plus(Duration::from_secs(36_000));
    assert_eq!(["one", "two", "three"].map(|message| bench.record(message).time), [time; 3], "the time before is kept");
    let state = bench.source_of("one");
    assert_eq!((state.position, state.ledger.records, state.ledger.bytes), (73, 3, 73));
    assert_eq!(state.marks.last().map(|mark| mark.position), Some(73));
    assert_eq!(bench.record("one").source, bench.path("a.log").to_string_lossy());
}

#[test]
fn file_grows_while_read() {
    let mut bench = Bench::started();
    let path = bench.path("a.log");
    let writer = std::thread::spawn(move || {
        let mut file = File::create(path).expect("created");
        for n in 0..20_000 {
            // Torn in two, so that lines are seen unfinished.
            write!(file, "line ").expect("written");
            writeln!(file, "{n}").expect("written");
        }
    });
    bench.until("all lines", |bench| bench.rows.len() >= 20_000);
    writer.join().expect("no panic");
    bench.settle();
    let expected: BTreeSet<String> = (0..20_000).map(|n| format!("line {n}")).collect();
    assert_eq!(bench.messages(), expected.into_iter().collect::<Vec<_>>());
}

/// In a container whose data is removed with it, no later process reads the last written lines.
#[test]
fn a_stop_reads_everything_written_before() {
    let mut bench = Bench::new();
    let never = Duration::from_secs(3600);
    bench.timings = TailTimings { poll_min: never, poll_max: never, folders: never, rescan: never, ..timings() };
    (bench.options.watch, bench.options.reading.join.wait) = (WatchMode::Poll, Duration::ZERO);
    bench.append("a.log", "{\"msg\":\"one\"}\n");
    bench.start();
    bench.until("the first line", |bench| bench.messages() == ["one"]);
    bench.append("a.log", "{\"msg\":\"two\"}\n");
    bench.append("b.log", "{\"msg\":\"three\"}\n");
    bench.stop();
    assert_eq!(bench.messages(), ["one", "three", "two"]);
}

#[test]
fn line_over_the_limit() {
    let mut bench = Bench::new();
    bench.options.line_bytes_max = 1000;
    bench.start();
    // Within a chunk; over several chunks; and at the limit exactly.
    let long = |length: usize, letter: &str| letter.repeat(length);
    let lines = [long(1001, "a"), "next".into(), long(900_000, "b"), long(1000, "c"), "last".into()];
    bench.append("a.log", lines.join("\n") + "\n");
    bench.expect(&[&long(1000, "a"), "next", &long(1000, "b"), &long(1000, "c"), "last"]);
    let truncated: Vec<_> = bench.records().into_iter().map(|row| row.is_truncated).collect();
    assert_eq!(truncated, [true, false, true, false, false]);
    assert_eq!(bench.record("last").position, 1002 + 5 + 900_001 + 1001);
    let ledger = bench.source_of("last").ledger;
    assert_eq!((ledger.truncated_records, ledger.truncated_bytes), (2, 1 + 899_000));
    assert_eq!(bench.counters[0].truncated.load(Ordering::Relaxed), 2);
}

/// Wherever an object is cut, and whether the names come before or behind the cut: within a chunk, over several chunks.
#[test]
fn an_object_over_the_limit_keeps_its_time_its_level_and_its_message() {
    let mut bench = Bench::new();
    bench.options.line_bytes_max = 1000;
    bench.start();
    let at = |second: u64| Ticks::from_date(2026, 11, 20).expect("a date").plus(Duration::from_secs(36_000 + second));
    let named = |second: usize| format!(r#""ts":"2026-11-20T10:00:0{second}Z","msg":"m{second}""#);
    let dump = |length: usize| format!(r#""dump":"{}""#, "S".repeat(length));
    let lines = [
        format!("{{{},{}}}", named(1), dump(2000)),
        format!("{{{},{}}}", dump(2000), named(2)),
        format!("{{{},{}}}", dump(900_000), named(3)),
        format!("{{{},{},\"end\":{{\"x\":1}}}}", named(4), dump(900_000)),
        format!("{{\"log\":\"{}\",\"stream\":\"stderr\",\"time\":\"2026-11-20T10:00:05Z\"}}", "x".repeat(5000)),
        format!("{{{}}}", named(6)),
    ];
    bench.append("a.log", lines.join("\n") + "\n");
    bench.until("the last", |bench| bench.messages().contains(&"m6".into()));
    for (second, message) in ["m1", "m2", "m3", "m4", &"x".repeat(992)].into_iter().zip(1..).map(|(m, s)| (s, m)) {
        let row = bench.record(message);
        assert_eq!((row.time, row.is_truncated), (at(second), true), "{message}");
    }
    assert_eq!(bench.source_of("m6").ledger.truncated_records, 5);
}

#[test]
fn a_line_longer_than_a_chunk_and_within_the_limit_is_whole() {
    let mut bench = Bench::started();
    let long = "x".repeat(700_000);
    bench.append("a.log", format!("first\n{long}\nlast\n"));
    bench.until("all", |bench| bench.rows.iter().any(|row| row.message == "last"));
    bench.settle();
    let rows: Vec<_> = bench.records().iter().map(|row| (row.position, row.is_truncated)).collect();
    // The record is too large for one entity: its items have its position.
    let positions: BTreeSet<_> = rows.iter().map(|row| row.0).collect();
    assert_eq!(positions.into_iter().collect::<Vec<_>>(), [0, 6, 700_007]);
    assert!(rows.iter().all(|row| !row.1));
}

#[test]
fn a_line_over_the_limit_is_read_again_after_a_restart() {
    let mut bench = Bench::new();
    bench.options.line_bytes_max = 1000;
    bench.start();
    bench.append("a.log", "first\n");
    bench.expect(&["first"]);
    bench.append("a.log", "b".repeat(600_000));
    bench.settle();
    assert_eq!(bench.source_of("first").position, 6);
    bench.restart(|bench| bench.append("a.log", "tail\nlast\n"));
    bench.expect(&["first", &"b".repeat(1000), "last"]);
    assert_eq!(bench.source_of("first").ledger.truncated_bytes, 600_004 - 1000);
}

#[test]
fn invalid_utf8() {
    let mut bench = Bench::started();
    bench.append("a.log", b"fine\nb\xffd\n\xe4\n");
    bench.expect(&["fine", "b\u{fffd}d", "\u{fffd}"]);
    assert_eq!(bench.source_of("fine").ledger.invalid_utf8_records, 2);
    assert_eq!(bench.counters[0].invalid_utf8.load(Ordering::Relaxed), 2);
}

#[test]
fn crlf() {
    let mut bench = Bench::started();
    bench.append("a.log", "one\r\n\r\ntwo\r\n");
    bench.expect(&["one", "two"]);
    assert_eq!(bench.record("two").position, 7);
}

/// Files of the kernel say that they are empty. Some give their bytes only once, to whoever reads them first.
#[test]
fn a_file_that_says_it_is_empty_is_not_read() {
    let mut bench = Bench::new();
    bench.options.include.push("/proc/version".into());
    assert!(!fs::read("/proc/version").expect("there").is_empty());
    bench.start();
    bench.append("a.log", "one\n");
    bench.expect(&["one"]);
    assert!(bench.queue.sources().1.iter().all(|state| !state.path.starts_with("/proc")));
}

#[test]
fn nul_bytes() {
    let mut bench = Bench::started();
    bench.append("a.log", b"a\0b\n\0\0\0\nc\n");
    bench.expect(&["a\0b", "\0\0\0", "c"]);
}

#[test]
fn unfinished_last_line_waits() {
    let mut bench = Bench::started();
    bench.append("a.log", "one\ntw");
    bench.append("b.log", "no newline yet");
    bench.expect(&["one"]);
    let deadline = Instant::now() + 2 * bench.timings.line_final;
    bench.until("time", |_| Instant::now() > deadline);
    bench.expect(&["one"]);
    bench.append("a.log", "o\n");
    bench.append("b.log", "\n");
    bench.expect(&["one", "two", "no newline yet"]);
}

#[test]
fn a_drowsy_file_wakes_with_the_first_write_and_dozes_again() {
    let mut bench = Bench::started();
    let mut expected = Vec::new();
    for n in 0..4 {
        bench.append("a.log", format!("line {n}\n"));
        expected.push(format!("line {n}"));
        bench.expect(&expected.iter().map(String::as_str).collect::<Vec<_>>());
        let drowsy = Instant::now() + 5 * bench.timings.idle_after;
        bench.until("time", |_| Instant::now() > drowsy);
    }
    fs::rename(bench.path("a.log"), bench.path("a.log.1")).expect("renamed");
    bench.append("a.log.1", "behind its new name\n");
    bench.append("a.log", "in its place\n");
    expected.extend(["behind its new name".into(), "in its place".into()]);
    bench.expect(&expected.iter().map(String::as_str).collect::<Vec<_>>());
}

/// No event reports the write, and the file and its folder are polled once an hour.
#[test]
fn a_drowsy_file_is_read_where_its_event_was_lost() {
    let (mut bench, elsewhere) = (Bench::new(), tempfile::tempdir().expect("a folder"));
    if !write_watches::is_of_this_machine(bench.folder.path()) {
        return;
    }
    // Listing a folder again checks its files.
    (bench.timings.folders, bench.timings.rescan) = (Duration::from_secs(3600), Duration::from_secs(3600));
    let mut follower = bench.follower();
    bench.append("a.log", "{\"message\":\"one\"}\n");
    bench.until("the file is drowsy", |_| {
        follower.round().expect("taken");
        follower.files.iter().any(|file| file.watch.is_some())
    });
    follower.watches = write_watches::fill(follower.watches, &elsewhere.path().join("b.log")).expect("events");
    bench.append("a.log", "{\"message\":\"two\"}\n");
    bench.until("both lines are read", |bench| {
        follower.round().expect("taken");
        bench.messages() == ["one", "two"]
    });
}

/// Listing the folder again would check the file, too.
#[test]
fn a_file_is_read_after_an_error_though_nothing_more_is_written() {
    let mut bench = Bench::new();
    (bench.timings.folders, bench.timings.rescan) = (Duration::from_secs(3600), Duration::from_secs(3600));
    let mut follower = bench.follower();
    bench.append("a.log", "{\"message\":\"one\"}\n");
    bench.until("the first line is read", |bench| {
        follower.round().expect("taken");
        bench.messages() == ["one"]
    });
    bench.append("a.log", "{\"message\":\"two\"}\n");
    // The kernel refuses to read from a descriptor for writing.
    let file = follower.files.iter_mut().next().expect("a file");
    let writer = File::options().append(true).open(bench.path("a.log")).expect("opened");
    file.reader.content = Some(file_content::FileContent::Plain(writer));
    bench.until("the file cannot be read", |bench| {
        follower.round().expect("taken");
        bench.counters[0].event(SourceEvent::ReadError) > 0
    });
    bench.until("both lines are read", |bench| {
        follower.round().expect("taken");
        bench.messages() == ["one", "two"]
    });
}

#[test]
fn read_from_end() {
    let mut bench = Bench::new();
    bench.options.read_from = ReadFrom::End;
    bench.append("old.log", "old one\nold two\nunfin");
    bench.start();
    bench.until("the first look", |bench| !bench.queue.sources().1.is_empty());
    bench.append("old.log", "ished\nappended\n");
    bench.append("new.log", "a new file is read from its start\n");
    bench.expect(&["unfinished", "appended", "a new file is read from its start"]);
    let ledger = bench.source_of("appended").ledger;
    assert_eq!((ledger.skipped_bytes, ledger.bytes), (16, 20));
    bench.restart(|bench| bench.append("old.log", "while it was down\n"));
    bench.expect(&["unfinished", "appended", "a new file is read from its start", "while it was down"]);
}

#[test]
fn ignore_older() {
    let mut bench = Bench::new();
    bench.options.ignore_older = Some(Duration::from_secs(3600));
    bench.append("old.log", "old\n");
    bench.append("young.log", "young\n");
    let old = std::time::SystemTime::now() - Duration::from_secs(7200);
    File::options().append(true).open(bench.path("old.log")).and_then(|file| file.set_modified(old)).expect("set");
    bench.start();
    bench.expect(&["young"]);
    bench.append("old.log", "appended\n");
    bench.expect(&["young", "appended"]);
    assert_eq!(bench.source_of("appended").ledger.skipped_bytes, 4);
}

#[test]
fn excluded() {
    let mut bench = Bench::new();
    bench.options.exclude = vec!["**/debug*.log".into()];
    bench.start();
    bench.append("debug-1.log", "no\n");
    bench.append("app.txt", "no\n");
    bench.append("app.log", "yes\n");
    bench.expect(&["yes"]);
}

#[test]
fn new_file_within_a_second() {
    let mut bench = Bench::new();
    bench.timings = TailTimings::default();
    bench.options.include = vec![bench.path("**/*.log").to_string_lossy().into_owned()];
    bench.start();
    bench.append("first.log", "first\n");
    bench.until("the first file", |bench| bench.rows.len() == 1);
    for watch in [WatchMode::Auto, WatchMode::Poll] {
        bench.options.watch = watch;
        bench.restart(|_| {});
        bench.until("it runs", |bench| bench.counters[0].followed_files.load(Ordering::Relaxed) > 0);
        let folder = format!("{watch:?}/sub");
        fs::create_dir_all(bench.path(&folder)).expect("created");
        bench.append(&format!("{folder}/new.log"), "new\n");
        let (start, rows) = (Instant::now(), bench.rows.len());
        bench.until("the new file", |bench| bench.rows.len() > rows);
        // With room for a machine that is busy with other tests.
        assert!(start.elapsed() < Duration::from_millis(1500), "{watch:?}: {:?}", start.elapsed());
    }
}

#[test]
fn many_files_few_descriptors() {
    let mut bench = Bench::new();
    bench.options.open_files_max = 8;
    let names: Vec<String> = (0..200).map(|n| format!("{n}.log")).collect();
    bench.start();
    for round in 0..3 {
        for name in &names {
            bench.append(name, format!("{name} {round}\n"));
        }
        bench.until("a round", |bench| bench.rows.len() == (round + 1) * names.len());
        assert!(open_descriptors(bench.folder.path()) <= 8);
    }
    // Closed or not, a file that was renamed or removed is followed to its end.
    for name in &names {
        bench.append(name, "last\n");
        bench.rename(name, &format!("{name}.1"));
    }
    bench.until("the rest", |bench| bench.rows.len() == 4 * names.len());
    bench.settle();
    assert_eq!(bench.records().len(), 4 * names.len());
}

fn open_descriptors(folder: &std::path::Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").expect("listed").flatten();
    links
        .filter_map(|link| fs::read_link(link.path()).ok())
        .filter(|target| target.starts_with(folder) && target != folder)
        .count()
}

#[test]
fn a_large_file_does_not_make_a_small_one_wait() {
    let mut bench = Bench::new();
    bench.append("large.log", "a line of a large file\n".repeat(400_000));
    bench.append("small.log", "small\n");
    bench.start();
    bench.until("the small file", |bench| bench.rows.iter().any(|row| row.message == "small"));
    assert!(bench.rows.len() < 100_000, "{}", bench.rows.len());
    // On a busy machine the whole takes long, but it never stands still.
    while bench.rows.len() < 400_001 {
        let rows = bench.rows.len();
        bench.until("more of the large file", |bench| bench.rows.len() > rows);
    }
    assert_eq!(bench.rows.len(), 400_001);
}

#[test]
fn an_unreadable_file_is_counted_and_the_others_are_read() {
    let mut bench = Bench::new();
    fs::create_dir(bench.path("folder.log")).expect("created");
    std::os::unix::fs::symlink(bench.path("nowhere"), bench.path("dangling.log")).expect("linked");
    std::os::unix::fs::symlink(bench.path("loop.log"), bench.path("loop.log")).expect("linked");
    bench.start();
    bench.append("a.log", "fine\n");
    bench.expect(&["fine"]);
    assert!(bench.counters[0].event(SourceEvent::ReadError) >= 1, "a link to itself cannot be read");
}

#[test]
fn commit_failure_rewinds() {
    let mut bench = Bench::started();
    bench.append("a.log", "committed\n");
    bench.expect(&["committed"]);
    bench.append("a.log", "refused\n");
    bench.append("b.log", "new and refused\n");
    let queue = bench.queue.clone();
    let deadline = Instant::now() + PATIENCE;
    while queue.waiting_bytes() == 0 {
        assert!(Instant::now() < deadline, "nothing is handed over");
        std::thread::yield_now();
    }
    bench.sink.fail();
    bench.expect(&["committed", "refused", "new and refused"]);
    assert_eq!(bench.source_of("committed").ledger.records, 2);
    assert_eq!(bench.record("refused").position, 10);
}

#[test]
fn a_removed_file_is_read_again_after_a_failed_commit() {
    let mut bench = Bench::started();
    bench.append("a.log", "one\n");
    bench.expect(&["one"]);
    bench.append("a.log", "two\nhalf");
    let queue = bench.queue.clone();
    let deadline = Instant::now() + PATIENCE;
    while queue.waiting_bytes() == 0 {
        assert!(Instant::now() < deadline, "nothing is handed over");
        std::thread::yield_now();
    }
    bench.remove("a.log");
    // Long enough for the file to be closed, if it were.
    let deadline = Instant::now() + 4 * bench.timings.line_final;
    while Instant::now() < deadline {
        std::thread::yield_now();
    }
    bench.sink.fail();
    bench.expect(&["one", "two", "half"]);
    bench.until("it is let go of", |bench| !holds_removed(bench.folder.path()));
}

fn holds_removed(folder: &std::path::Path) -> bool {
    let links = fs::read_dir("/proc/self/fd").expect("listed").flatten();
    let mut targets = links.filter_map(|link| fs::read_link(link.path()).ok());
    targets.any(|target| target.starts_with(folder) && target.to_string_lossy().ends_with(" (deleted)"))
}

#[test]
fn it_ends_when_the_store_closes() {
    let mut bench = Bench::started();
    bench.append("a.log", "one\n");
    bench.expect(&["one"]);
    bench.queue.close();
    bench.append("a.log", "two\n");
    bench.until("it ends", |bench| bench.tailer.as_ref().is_some_and(TailThread::has_ended));
}
