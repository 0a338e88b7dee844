//! Every way in which a file is rotated, while the tailer runs and while it does not.

use super::*;
use crate::tail::WatchMode;

#[test]
fn rotation_by_rename() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\n");
    bench.expect(&["one"]);
    bench.append("app.log", "two\n");
    bench.rename("app.log", "app.log.1");
    bench.append("app.log", "new one\n");
    bench.append("app.log.1", "three, after the rename\n");
    bench.expect(&["one", "two", "three, after the rename", "new one"]);
    assert_eq!(bench.identities(), 2);
    assert_eq!(bench.source_of("two").status, SourceStatus::Rotated);
    assert_eq!(bench.source_of("new one").status, SourceStatus::Live);
    assert_eq!(bench.record("three, after the rename").source, bench.path("app.log").to_string_lossy());
    assert_eq!(bench.counters[0].event(SourceEvent::Rotation), 1);
}

#[test]
fn rotation_to_a_name_that_is_included() {
    let mut bench = Bench::of_all_names();
    bench.start();
    bench.append("app.log", "one\n");
    bench.expect(&["one"]);
    bench.rename("app.log", "app.log.1");
    bench.append("app.log", "one\n");
    bench.append("app.log.1", "two\n");
    bench.expect(&["one", "one", "two"]);
    assert_eq!(bench.record("two").position, 4);
    bench.restart(|bench| {
        bench.rename("app.log.1", "app.log.2");
        bench.rename("app.log", "app.log.1");
        bench.append("app.log", "three\n");
    });
    bench.expect(&["one", "one", "two", "three"]);
}

#[test]
fn rotation_while_down() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\n");
    bench.expect(&["one"]);
    bench.restart(|bench| {
        bench.append("app.log", "two\n");
        bench.rename("app.log", "app.log.1");
        bench.append("app.log", "new one\n");
    });
    bench.expect(&["one", "two", "new one"]);
    assert_eq!(bench.source_of("one").identity, bench.source_of("two").identity);
}

#[test]
fn rotation_while_down_and_gzipped() {
    for zstd in [false, true] {
        let mut bench = Bench::started();
        bench.append("app.log", "one\n");
        bench.expect(&["one"]);
        bench.restart(|bench| {
            bench.append("app.log", "two\nunfinished");
            bench.rename("app.log", "app.log.1");
            bench.append("app.log", "new one\n");
            if zstd {
                let bytes = zstd::encode_all(&fs::read(bench.path("app.log.1")).expect("read")[..], 1).expect("memory");
                fs::write(bench.path("app.log.1.zst"), bytes).expect("written");
                bench.remove("app.log.1");
            } else {
                bench.gzip("app.log.1", "app.log.1.gz");
            }
        });
        bench.expect(&["one", "two", "unfinished", "new one"]);
        assert_eq!(bench.source_of("one").identity, bench.source_of("two").identity);
        assert_eq!(bench.record("two").position, 4);
        bench.restart(|_| {});
        bench.expect(&["one", "two", "unfinished", "new one"]);
    }
}

#[test]
fn two_rotations_while_down() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\n");
    bench.expect(&["one"]);
    bench.append("app.log", "two\n");
    bench.rename("app.log", "app.log.1");
    bench.append("app.log", "three\n");
    bench.expect(&["one", "two", "three"]);
    bench.restart(|bench| {
        bench.append("app.log", "four\n");
        bench.append("app.log.1", "two and a half\n");
        bench.gzip("app.log.1", "app.log.2.gz");
        bench.rename("app.log", "app.log.1");
        bench.append("app.log", "five\n");
    });
    bench.expect(&["one", "two", "two and a half", "three", "four", "five"]);
    assert_eq!(bench.identities(), 3);
}

#[test]
fn a_file_that_came_and_went_while_down_is_read() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\n");
    // It is old before it has the name that it is seen by.
    bench.append("old.tmp", "was here before, and is not included\n");
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    File::options().append(true).open(bench.path("old.tmp")).and_then(|file| file.set_modified(old)).expect("set");
    bench.rename("old.tmp", "app.log.0");
    bench.expect(&["one"]);
    bench.restart(|bench| {
        bench.append("app.log", "two\n");
        bench.rename("app.log", "app.log.1");
        bench.append("app.log", "three\n");
        bench.gzip("app.log.1", "app.log.2.gz");
        bench.rename("app.log", "app.log.1");
        bench.append("app.log", "four\n");
        bench.gzip("app.log.1", "app.log.3.gz");
        bench.rename("app.log", "app.log.1");
        bench.append("app.log", "five\n");
        bench.append("app.log.notes", "not rotated\n");
    });
    bench.expect(&["one", "two", "three", "four", "five"]);
    assert_eq!(bench.record("three").source, bench.path("app.log").to_string_lossy());
    bench.restart(|_| {});
    bench.expect(&["one", "two", "three", "four", "five"]);
}

#[test]
fn rotated_twice_between_two_looks() {
    let mut bench = Bench::new();
    bench.timings.poll_max = Duration::from_millis(400);
    bench.timings.folders = Duration::from_millis(400);
    bench.options.watch = WatchMode::Poll;
    bench.start();
    bench.append("app.log", "one\n");
    bench.until("the first", |bench| bench.rows.len() == 1);
    for n in 0..4 {
        bench.rename("app.log", &format!("app.log.{n}"));
        bench.append("app.log", format!("new {n}\n"));
    }
    bench.expect(&["one", "new 0", "new 1", "new 2", "new 3"]);
}

#[test]
fn copytruncate() {
    let mut bench = Bench::started();
    bench.append("app.log", "header\none\n");
    bench.expect(&["header", "one"]);
    bench.append("app.log", "two\n");
    fs::copy(bench.path("app.log"), bench.path("app.log.1")).expect("copied");
    bench.truncate("app.log");
    bench.append("app.log", "header\nnew one\n");
    bench.expect(&["header", "one", "two", "header", "new one"]);
    assert_eq!(bench.identities(), 2);
    assert_eq!(bench.source_of("one").ledger.lost_bytes, 0);
}

#[test]
fn copytruncate_while_down() {
    let mut bench = Bench::started();
    bench.append("app.log", "header\none\n");
    bench.expect(&["header", "one"]);
    bench.restart(|bench| {
        bench.append("app.log", "two\nthree, which makes it longer than what follows\n");
        fs::copy(bench.path("app.log"), bench.path("app.log.1")).expect("copied");
        bench.truncate("app.log");
        bench.append("app.log", "header\nnew one\n");
    });
    bench.expect(&["header", "one", "two", "three, which makes it longer than what follows", "header", "new one"]);
    assert_eq!(bench.source_of("one").identity, bench.source_of("two").identity);
    assert_ne!(bench.source_of("one").identity, bench.source_of("new one").identity);
}

#[test]
fn copytruncate_and_gzip_while_down() {
    let mut bench = Bench::started();
    bench.append("app.log", "header\none\n");
    bench.expect(&["header", "one"]);
    bench.restart(|bench| {
        bench.append("app.log", "two\n");
        fs::copy(bench.path("app.log"), bench.path("app.log-20261121")).expect("copied");
        bench.gzip("app.log-20261121", "app.log-20261121.gz");
        bench.truncate("app.log");
        bench.append("app.log", "new one\n");
    });
    bench.expect(&["header", "one", "two", "new one"]);
}

#[test]
fn copytruncate_regrown_past_the_old_position() {
    let mut bench = Bench::started();
    bench.append("app.log", "header\none\n");
    bench.expect(&["header", "one"]);
    bench.append("app.log", "two\n");
    // In the time of one look.
    bench.stop();
    fs::copy(bench.path("app.log"), bench.path("app.log.1")).expect("copied");
    bench.truncate("app.log");
    bench.append("app.log", "header\nmore than there was before\nand more\n");
    bench.restart(|_| {});
    bench.expect(&["header", "one", "two", "header", "more than there was before", "and more"]);
}

#[test]
fn truncated_and_regrown_while_it_runs() {
    let mut bench = Bench::new();
    // One look at the file sees both at once.
    bench.timings.poll_min = Duration::from_millis(300);
    bench.timings.poll_max = Duration::from_millis(300);
    bench.start();
    bench.append("app.log", "header\none\n");
    bench.until("both", |bench| bench.rows.len() == 2);
    fs::write(bench.path("app.log"), "header\nmore than there was before\n").expect("written");
    bench.until("all", |bench| bench.rows.len() == 4);
    assert_eq!(bench.messages(), ["header", "header", "more than there was before", "one"]);
    assert_eq!(bench.identities(), 2);
}

#[test]
fn bytes_truncated_before_they_were_read_are_counted() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\nunfinished");
    bench.expect(&["one"]);
    bench.truncate("app.log");
    bench.append("app.log", "new one\n");
    bench.expect(&["one", "new one"]);
    let state = bench.source_of("one");
    assert_eq!((state.status, state.ledger.lost_bytes), (SourceStatus::Ended, 10));
    assert_eq!(bench.counters[0].event(SourceEvent::BytesDestroyed), 10);
}

#[test]
fn delete_and_create() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\n");
    bench.expect(&["one"]);
    for n in 0..20 {
        bench.append("app.log", format!("last {n}"));
        bench.remove("app.log");
        bench.append("app.log", format!("one\nnew {n}\n"));
        bench.until("the new file", |bench| bench.rows.iter().any(|row| row.message == format!("new {n}")));
    }
    let mut expected = vec!["one".to_string(); 21];
    expected.extend((0..20).map(|n| format!("new {n}")));
    // What was removed with an unfinished line: it is final, as nothing will follow it.
    expected.extend((0..20).map(|n| format!("last {n}")));
    bench.expect(&expected.iter().map(String::as_str).collect::<Vec<_>>());
    bench.until("old files are let go", |bench| {
        let (_, sources) = bench.intake.sources();
        sources.iter().filter(|state| state.status == SourceStatus::Ended).count() == 20
    });
}

#[test]
fn rotated_unfinished_line_is_final_after_quiet() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\ntwo, unfin");
    bench.expect(&["one"]);
    bench.rename("app.log", "app.log.1");
    bench.append("app.log", "new one\n");
    bench.expect(&["one", "new one", "two, unfin"]);
    bench.append("app.log.1", "ished\n");
    bench.expect(&["one", "new one", "two, unfin", "ished"]);
    assert_eq!(bench.record("ished").position, 14);
}

#[test]
fn a_file_without_a_whole_line_is_final_when_it_is_rotated() {
    let mut bench = Bench::started();
    bench.append("app.log", "unfinished");
    bench.expect(&[]);
    bench.rename("app.log", "app.log.1");
    bench.append("app.log", "new one\n");
    bench.expect(&["unfinished", "new one"]);
}

#[test]
fn symlink_swap() {
    let mut bench = Bench::new();
    bench.options.include = vec![
        bench.path("current.log").to_string_lossy().into_owned(),
        bench.path("sentinel*.log").to_string_lossy().into_owned(),
    ];
    fs::create_dir(bench.path("a")).expect("created");
    fs::create_dir(bench.path("b")).expect("created");
    bench.append("a/log", "one\n");
    bench.append("b/log", "one\n");
    std::os::unix::fs::symlink(bench.path("a/log"), bench.path("current.log")).expect("linked");
    bench.start();
    bench.expect(&["one"]);
    bench.append("a/log", "two\n");
    std::os::unix::fs::symlink(bench.path("b/log"), bench.path("next")).expect("linked");
    bench.rename("next", "current.log");
    bench.append("a/log", "three\n");
    bench.append("b/log", "new one\n");
    bench.expect(&["one", "two", "three", "one", "new one"]);
    assert_eq!(bench.identities(), 2);
}

#[test]
fn a_rotated_file_is_let_go_after_a_long_quiet_and_known_again() {
    let mut bench = Bench::of_all_names();
    bench.timings.rotated = Duration::from_millis(300);
    bench.start();
    bench.append("app.log", "one\n");
    bench.expect(&["one"]);
    bench.rename("app.log", "app.log.1");
    bench.until("it is let go", |bench| bench.source_of("one").status == SourceStatus::Ended);
    bench.append("app.log.1", "two\n");
    bench.until("it is known again", |bench| bench.rows.iter().any(|row| row.message == "two"));
    bench.gzip("app.log.1", "app.log.1.gz");
    bench.expect(&["one", "two"]);
    bench.restart(|bench| bench.rename("app.log.1.gz", "app.log.2.gz"));
    bench.expect(&["one", "two"]);
}
