//! Files that are replaced by a rename of another file with the same beginning, and files with a byte order mark.

use super::*;

fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.map(|n| format!("2026-11-22T10:00:{:02}Z INFO line {n}\n", n % 60)).collect()
}

/// As `rsync` and editors do: the new file is whole before it has the name.
fn save(bench: &Bench, text: &str) {
    fs::write(bench.path("new.tmp"), text).expect("written");
    bench.rename("new.tmp", "app.log");
}

#[test]
fn a_saved_file_with_the_same_beginning_is_resumed_after_it() {
    let mut bench = Bench::new();
    // How long a removed file is quiet before it ends, and before a copy is checked again.
    bench.timings.line_final = Duration::from_millis(50);
    bench.start();
    bench.append("app.log", lines(0..40));
    bench.until("all lines", |bench| bench.records().len() == 40);
    save(&bench, &lines(0..50));
    bench.until("the new lines", |bench| bench.records().len() >= 50);
    bench.settle();
    bench.append("app.log", lines(50..55));
    bench.until("what is written to it", |bench| bench.records().len() >= 55);
    bench.settle();
    assert_eq!((bench.records().len(), bench.identities()), (55, 1), "{:#?}", bench.messages());
    assert_eq!(bench.source_of("line 54").status, SourceStatus::Live);
    bench.restart(|bench| save(bench, &lines(0..58)));
    bench.until("what came while it was down", |bench| bench.records().len() >= 58);
    bench.settle();
    assert_eq!((bench.records().len(), bench.identities()), (58, 1), "{:#?}", bench.messages());
}

/// `sed -i` with a line changed that was read: it is another file, and that it is read again is counted, once.
#[test]
fn a_file_with_a_changed_line_is_read_again_and_counted() {
    let mut bench = Bench::started();
    bench.append("app.log", lines(0..3));
    bench.until("all lines", |bench| bench.records().len() == 3);
    save(&bench, &lines(0..3).replace("line 1", "LINE 1"));
    bench.until("the file again", |bench| bench.records().len() >= 6);
    bench.settle();
    let rewritten = bench.counters[0].event(SourceEvent::Rewrite);
    assert_eq!((bench.records().len(), bench.identities(), rewritten), (6, 2, 1), "{:#?}", bench.messages());
}

/// A backup that lacks the newest lines, or an editor that removed some, while the daemon runs and while it does not.
#[test]
fn a_file_without_its_last_lines_is_resumed_before_them() {
    let mut bench = Bench::new();
    bench.timings.line_final = Duration::from_millis(50);
    bench.start();
    bench.append("app.log", lines(0..40));
    bench.until("all lines", |bench| bench.records().len() == 40);
    save(&bench, &lines(0..30));
    bench.until("it is resumed", |bench| bench.counters[0].event(SourceEvent::Rewrite) == 1);
    bench.append("app.log", lines(50..53));
    bench.until("what is written to it", |bench| bench.messages().iter().any(|message| message == "line 52"));
    bench.restart(|bench| save(bench, &lines(0..25)));
    bench.until("it is resumed again", |bench| bench.counters[0].event(SourceEvent::Rewrite) == 2);
    bench.append("app.log", lines(54..56));
    bench.until("what is written to it", |bench| bench.messages().iter().any(|message| message == "line 55"));
    bench.settle();
    // A line that is read again has its former key.
    let keys: BTreeSet<_> =
        bench.records().into_iter().map(|row| (row.identity, row.position, row.time, row.message)).collect();
    assert_eq!((keys.len(), bench.identities()), (40 + 3 + 2, 1), "{keys:#?}");
}

/// A shorter line may be behind the shorter text, so that no mark of what was read shows a difference.
#[test]
fn a_line_behind_a_shorter_file_is_read_after_a_restart() {
    let mut bench = Bench::started();
    bench.append("app.log", lines(0..40));
    bench.until("all lines", |bench| bench.records().len() == 40);
    bench.restart(|bench| {
        fs::write(bench.path("app.log"), lines(0..38) + "2026-11-22T10:01:00Z INFO new\n").expect("written");
    });
    bench.until("the new line", |bench| bench.messages().iter().any(|message| message == "new"));
    bench.settle();
    let keys: BTreeSet<_> = bench.records().into_iter().map(|row| (row.identity, row.position, row.time)).collect();
    assert_eq!((keys.len(), bench.identities()), (41, 1), "{keys:#?}");
}

/// The old file still has another name, as a backup (`sed -i.bak`) or a hard link in another folder (`cp -al`). Its
/// replacement does not wait for its end.
#[test]
fn a_saved_file_does_not_wait_for_one_that_has_another_name() {
    for other in ["app.log~", "kept/app.log"] {
        let mut bench = Bench::started();
        fs::create_dir(bench.path("kept")).expect("made");
        bench.append("app.log", lines(0..3));
        bench.until("all lines", |bench| bench.records().len() == 3);
        fs::hard_link(bench.path("app.log"), bench.path(other)).expect("linked");
        save(&bench, &lines(0..4));
        bench.until("the file again", |bench| bench.records().len() >= 7);
        bench.append("app.log", lines(4..5));
        bench.until("what is written to it", |bench| bench.records().len() >= 8);
        bench.settle();
        let rewritten = bench.counters[0].event(SourceEvent::Rewrite);
        assert_eq!(
            (bench.records().len(), bench.identities(), rewritten),
            (8, 2, 1),
            "{other}: {:#?}",
            bench.messages()
        );
    }
}

#[test]
fn equal_lines_without_a_time_are_another_file() {
    let mut bench = Bench::started();
    bench.append("app.log", "one\ntwo\n");
    bench.expect(&["one", "two"]);
    save(&bench, "one\ntwo\n");
    bench.expect(&["one", "one", "two", "two"]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_record() {
    let mut bench = Bench::new();
    bench.append("json.log", "\u{feff}{\"message\":\"one\"}\n{\"message\":\"two\"}\n");
    bench.append("text.log", "\u{feff}2026-11-22T10:00:00Z ERROR three\n    at four\n");
    bench.append("mark.log", "\u{feff}");
    bench.start();
    bench.expect(&["one", "three\n    at four", "two"]);
    // Positions are those of the file.
    assert_eq!((bench.record("one").position, bench.record("two").position), (0, 21));
    assert_eq!(bench.source_of("one").position, 39);
}
