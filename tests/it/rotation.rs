//! Files that are renamed, copied, compressed, truncated, replaced and swapped, and odd content: each line is one
//! record.
//!
//! Every test compares the messages of all records with the numbered lines that it wrote. The comparison is repeated
//! after a stop and a restart (see `Place::finish`), because a restart would read a forgotten file again.

use crate::place::{Daemon, Lines, PATIENCE, Place, TAIL, append, gzip, message_of, numbered, wait_for};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, Instant, SystemTime};

/// An action on the files of a place, or an expectation. Lines are those of [`numbered`], by number.
enum Step {
    /// Starts the daemon, and waits until every written line is read.
    Start,
    /// Stops the daemon.
    Stop,
    /// Waits until every written line is read.
    Read,
    /// Appends the next lines to a file.
    Write(&'static str, usize),
    Rename(&'static str, &'static str),
    /// Compresses the first file to the second and removes the first.
    Gzip(&'static str, &'static str),
    /// Copies the first file to the second and empties the first.
    CopyTruncate(&'static str, &'static str),
    Remove(&'static str),
    /// Replaces the first file by a file with the next lines and, if possible, with the same inode.
    SameInode(&'static str, usize),
    /// Makes a symbolic link to the first file, and renames the link to the second name.
    Link(&'static str, &'static str),
}

use Step::*;

/// Which files the block includes.
#[derive(Clone, Copy)]
enum Include {
    /// `*.log`
    Logs,
    /// `*`
    All,
}

/// Runs the steps, and asserts that every line is one record, also after a stop and a restart.
fn each_line_is_one_record(include: Include, steps: &[Step]) {
    let place = Place::new();
    let config = match include {
        Include::Logs => TAIL.to_owned(),
        Include::All => TAIL.replace("*.log", "*"),
    };
    let (all, mut written, mut daemon) = (numbered("line", 60), 0, None);
    for step in steps {
        let mut next = |count: usize| {
            written += count;
            &all[written - count..written]
        };
        match *step {
            Start => {
                daemon = Some(place.start_with(&config));
                place.wait_for_messages(&all[..written]);
            }
            Stop => daemon.take().map_or_else(|| panic!("no daemon runs"), Daemon::stop),
            Read => place.wait_for_messages(&all[..written]),
            Write(name, count) => place.write(name, next(count)),
            Rename(from, to) => fs::rename(place.log(from), place.log(to)).expect("renamed"),
            Gzip(from, to) => gzip(&place.log(from), &place.log(to)),
            CopyTruncate(from, to) => {
                fs::copy(place.log(from), place.log(to)).expect("copied");
                File::options().write(true).open(place.log(from)).expect("there").set_len(0).expect("emptied");
            }
            Remove(name) => fs::remove_file(place.log(name)).expect("removed"),
            SameInode(name, count) => replace_with_same_inode(&place, name, next(count)),
            Link(target, name) => {
                symlink(place.log(target), place.log("new-link")).expect("linked");
                fs::rename(place.log("new-link"), place.log(name)).expect("swapped");
            }
        }
    }
    let daemon = daemon.unwrap_or_else(|| place.start_with(&config));
    place.finish(daemon, &config, &all[..written]);
}

/// A scenario is a test of its own: its name, the files that the block includes, and the steps.
macro_rules! scenarios {
    ($($(#[$doc:meta])* $name:ident: $include:ident, [$($step:expr),* $(,)?];)*) => {
        $($(#[$doc])* #[test] fn $name() { each_line_is_one_record(Include::$include, &[$($step),*]); })*
    };
}

scenarios! {
    /// The program continues to write to the renamed file, and then creates a new file.
    rename: Logs, [
        Start, Write("app.log", 10), Read,
        Rename("app.log", "app.log.1"), Write("app.log.1", 10), Write("app.log", 10),
    ];

    /// Lines from before and after the rename, unread at the stop, are read from the renamed file.
    rename_while_down: Logs, [
        Write("app.log", 10), Start, Stop,
        Write("app.log", 10), Rename("app.log", "app.log.1"), Write("app.log.1", 10), Write("app.log", 10),
    ];

    /// The renamed file is compressed as well.
    rename_while_down_and_gzipped: Logs, [
        Write("app.log", 10), Start, Stop,
        Write("app.log", 10), Rename("app.log", "app.log.1"), Gzip("app.log.1", "app.log.1.gz"), Write("app.log", 10),
    ];

    /// A file that was read and then compressed gives no duplicates, although the block includes the compressed file.
    gzipped_while_running: All, [
        Start, Write("app.log", 10), Read,
        Rename("app.log", "app.log.1"), Gzip("app.log.1", "app.log.1.gz"), Write("app.log", 10),
    ];

    /// The known file is two names further on. The file between was never read. The block includes both.
    two_rotations_while_down: All, [
        Write("app.log", 10), Start, Stop,
        Write("app.log", 10), Rename("app.log", "app.log.1"), Write("app.log", 20),
        Rename("app.log.1", "app.log.2"), Rename("app.log", "app.log.1"), Write("app.log", 10),
    ];

    /// The block includes only the live name. The known file, two names further on and compressed, is found.
    two_rotations_while_down_beyond_the_pattern: Logs, [
        Write("app.log", 10), Start, Stop,
        Write("app.log", 10), Rename("app.log", "app.log.1"), Gzip("app.log.1", "app.log.2.gz"), Write("app.log", 10),
    ];

    /// The copy gives no duplicates, and the emptied file is read from its beginning.
    copytruncate: All, [
        Start, Write("app.log", 20), Read, CopyTruncate("app.log", "app.log.1"), Write("app.log", 10),
    ];

    /// The copy has the lines that were not read before the stop.
    copytruncate_while_down: Logs, [
        Write("app.log", 20), Start, Stop,
        Write("app.log", 10), CopyTruncate("app.log", "app.log.1"), Write("app.log", 10),
    ];

    /// A file is removed, and another file is created under its name.
    delete_and_create: Logs, [
        Start, Write("app.log", 10), Read, Remove("app.log"), Write("app.log", 10),
    ];

    /// A file longer than the read position has the name and the inode of the old file.
    inode_reuse: Logs, [
        Write("app.log", 10), Start, Stop, SameInode("app.log", 30),
    ];

    /// A symbolic link gets another target, in one step.
    symlink_swap: Logs, [
        Start,
        Write("first.txt", 10), Link("first.txt", "app.log"), Read,
        Write("second.txt", 10), Link("second.txt", "app.log"), Read,
        Write("third.txt", 10), Link("third.txt", "app.log"), Read,
    ];
}

/// The first file of a log is renamed before it is discovered, and the new file stays empty. The rotated file is read,
/// although no block includes its name.
#[test]
fn renamed_before_it_was_seen() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("line", 20);
    // The first discovery is over: a rotated file that it finds was there before the daemon.
    place.write("other.log", &["first".into()]);
    place.wait_until_messages(&["first"]);
    append(&place.path("elsewhere"), lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes());
    fs::rename(place.path("elsewhere"), place.log("app.log.1")).expect("renamed");
    append(&place.log("app.log"), b"");
    let expected = [lines, vec!["first".into()]].concat();
    place.wait_for_messages(&expected);
    place.finish(daemon, TAIL, &expected);
}

/// A file is discovered while it is being compressed, with half of its first line: it is not a source of its own.
#[test]
fn discovered_with_half_a_line_compressed() {
    let place = Place::new();
    let config = TAIL.replace("*.log", "*");
    let long: String = (0..400u32).map(|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9))).collect();
    let lines = vec![format!("2026-11-20T10:00:00Z INFO {long}")];
    place.write("app.log", &lines);
    let daemon = place.start_with(&config);
    place.wait_for_messages(std::slice::from_ref(&long));
    daemon.stop();
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    // The daemon would discover a new, unread file first.
    place.write("app.log", &["2026-11-20T10:00:01Z INFO next".into()]);
    let (original, packed) = (place.path("original"), place.log("app.log.1.gz"));
    fs::copy(place.log("app.log.1"), &original).expect("copied");
    gzip(&original, &packed);
    let whole = fs::read(&packed).expect("read");
    fs::write(&packed, &whole[..whole.len() / 2]).expect("written");
    let daemon = place.start_with(&config);
    let messages = [long, "next".into()];
    place.wait_for_messages(&messages);
    daemon.stop();
    fs::write(&packed, &whole).expect("written");
    fs::remove_file(place.log("app.log.1")).expect("removed");
    let daemon = place.start_with(&config);
    place.finish(daemon, &config, &messages);
}

/// Another file has the inode and the first line of the file before: the lines after the first tell them apart.
#[test]
fn inode_reuse_with_the_same_first_line() {
    let place = Place::new();
    let header = ["the header".to_owned()];
    let (old, new) = (numbered("old", 10), numbered("new", 30));
    place.write("app.log", &[&header[..], &old].concat());
    let daemon = place.start();
    place.wait_for_messages(&[&header[..], &old].concat());
    daemon.stop();
    replace_with_same_inode(&place, "app.log", &[&header[..], &new].concat());
    let daemon = place.start();
    place.finish(daemon, TAIL, &[&header[..], &old, &header, &new].concat());
}

/// Removes a file and creates another file, until the inode is reused. If the file system does not reuse inodes, the
/// test continues with another inode.
fn replace_with_same_inode(place: &Place, name: &str, lines: &[String]) {
    let path = place.log(name);
    let inode = fs::metadata(&path).expect("there").ino();
    for _ in 0..64 {
        fs::remove_file(&path).expect("removed");
        place.write(name, lines);
        if fs::metadata(&path).expect("there").ino() == inode {
            return;
        }
    }
    eprintln!("this file system gives no inode twice: written anew in place");
    fs::remove_file(&path).expect("removed");
    fs::write(&path, lines.concat_lines()).expect("written");
}

/// Files with the same first line are separate sources, even with equal lengths.
#[test]
fn several_files_with_the_same_first_line() {
    let place = Place::new();
    let daemon = place.start();
    let mut expected = Vec::new();
    for file in ["a", "b", "c", "d", "e"] {
        let lines = [vec!["# the same header".to_owned()], numbered(file, 10)].concat();
        place.write(&format!("{file}.log"), &lines);
        expected.extend(lines);
    }
    place.finish(daemon, TAIL, &expected);
}

/// Lines come in pieces while the file is read.
#[test]
fn file_grows_while_read() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("a line that is written in pieces", 20_000);
    let text = lines.concat_lines();
    for piece in text.as_bytes().chunks(997) {
        append(&place.log("app.log"), piece);
    }
    place.finish(daemon, TAIL, &lines);
}

/// A line over the limit is cut at the limit, marked and counted. Reading continues after the line.
#[test]
fn line_over_the_limit() {
    let place = Place::new();
    let config = format!("{TAIL}line_bytes_max = \"1KiB\"\n");
    let daemon = place.start_with(&config);
    let (long, kept) = ("x".repeat(300_000), "x".repeat(1024));
    place.write("app.log", &["before".into(), long, "after".into()]);
    place.wait_for_messages(&["before".into(), kept.clone(), "after".into()]);
    let marked: Vec<_> = place.records().into_iter().filter(|record| record["truncated"] == true).collect();
    assert_eq!(marked.iter().map(message_of).collect::<Vec<_>>(), [kept.as_str()]);
    let ledger = place.ledger("app.log");
    assert_eq!((&ledger["truncated_records"], &ledger["truncated_bytes"]), (&1.into(), &298_976.into()));
    assert_eq!(daemon.metric("daytable_records_truncated_total{reason=\"line_bytes_max\"}"), Some(1.0));
    place.finish(daemon, &config, &["before".into(), kept, "after".into()]);
}

/// Bytes that are not UTF-8 are replaced. The rest of the line is kept.
#[test]
fn invalid_utf8() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), b"good\nbad \xff\xfe byte\ngood again\n");
    let expected = ["good", "bad \u{fffd}\u{fffd} byte", "good again"].map(str::to_owned);
    place.wait_for_messages(&expected);
    assert_eq!(place.ledger("app.log")["invalid_utf8_records"], 1);
    place.finish(daemon, TAIL, &expected);
}

/// A carriage return before the newline belongs to the line end. Any other belongs to the line.
#[test]
fn crlf() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), b"one\r\ntwo\r\n\r\nthree \r here\n");
    place.finish(daemon, TAIL, &["one", "two", "three \r here"].map(str::to_owned));
}

/// A NUL is kept like any character; only a long run, as a crash leaves it, is none of a line.
#[test]
fn nul_bytes() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), b"a\0b\n\0\0\0\0after a hole\nc\n");
    place.finish(daemon, TAIL, &["a\0b", "\0\0\0\0after a hole", "c"].map(str::to_owned));
}

/// With `unended_after = "off"` a line without its newline is not a record yet, however old.
#[test]
fn unfinished_last_line_waits_for_its_newline() {
    let place = Place::new();
    let config = format!("{TAIL}unended_after = \"off\"\n");
    let daemon = place.start_with(&config);
    append(&place.log("app.log"), b"whole\nunfin");
    place.wait_for_messages(&["whole".into()]);
    // Longer than the quiet time after which the last line of a rotated file is final.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(7) {
        place.wait_for_messages(&["whole".into()]);
    }
    let waiting = place.json("sources", &[]).into_iter().find(|source| source["unended_bytes"] == 5);
    assert!(waiting.is_some_and(|waiting| waiting["path"] == *place.log("app.log").to_string_lossy()));
    append(&place.log("app.log"), b"ished\n");
    place.finish(daemon, &config, &["whole".into(), "unfinished".into()]);
}

/// The unfinished line of a rotated file is final after 5 s of quiet. Later bytes are a record of their own.
#[test]
fn unfinished_last_line_of_a_rotated_file_becomes_final() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), b"whole\nthe last words");
    place.wait_for_messages(&["whole".into()]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    place.write("app.log", &["of the new file".into()]);
    let expected = ["whole", "of the new file", "the last words"].map(str::to_owned);
    place.wait_for_messages(&expected);
    append(&place.log("app.log.1"), b" and more\n");
    place.finish(daemon, TAIL, &[&expected[..], &[" and more".into()]].concat());
}

/// In a file that lost its end, reading continues at the last position that still matches.
#[test]
fn lost_tail() {
    let place = Place::new();
    let lines = numbered("line", 36);
    let daemon = place.start();
    for batch in lines[..30].chunks(10) {
        let before = fs::metadata(place.log("app.log")).map_or(0, |file| file.len());
        place.write("app.log", batch);
        let size = before + batch.concat_lines().len() as u64;
        wait_for("the batch is committed", PATIENCE, || {
            let read = place.json("sources", &[]).iter().any(|source| source["position"] == size);
            read.then_some(())
        });
    }
    daemon.kill();
    let kept = lines[..20].concat_lines().len() as u64;
    File::options().write(true).open(place.log("app.log")).expect("there").set_len(kept).expect("cut");
    // A shorter content than before.
    place.write("app.log", &lines[30..]);
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// `read_from = "end"` skips only the lines from before the first start.
#[test]
fn read_from_end() {
    let place = Place::new();
    let config = format!("{TAIL}read_from = \"end\"\n");
    place.write("old.log", &numbered("before", 10));
    let daemon = place.start_with(&config);
    wait_for("the old file is known", PATIENCE, || (!place.json("sources", &[]).is_empty()).then_some(()));
    assert_eq!(place.ledger("old.log")["skipped_bytes"], numbered("before", 10).concat_lines().len());
    let lines = numbered("line", 20);
    place.write("old.log", &lines[..10]);
    place.write("new.log", &lines[10..]);
    place.finish(daemon, &config, &lines);
}

/// An old file is skipped up to its end. Later lines are read.
#[test]
fn ignore_older() {
    let place = Place::new();
    let config = format!("{TAIL}ignore_older = \"1d\"\n");
    let lines = numbered("line", 20);
    place.write("old.log", &numbered("before", 10));
    let long_ago = SystemTime::now() - Duration::from_secs(2 * 86_400);
    File::options().append(true).open(place.log("old.log")).expect("there").set_modified(long_ago).expect("set");
    place.write("young.log", &lines[..10]);
    let daemon = place.start_with(&config);
    place.wait_for_messages(&lines[..10]);
    wait_for("the old file is known", PATIENCE, || (place.json("sources", &[]).len() == 2).then_some(()));
    place.write("old.log", &lines[10..]);
    place.finish(daemon, &config, &lines);
}

/// An excluded file is not a source, whichever pattern includes it.
#[test]
fn exclude() {
    let place = Place::new();
    let config = format!("{TAIL}exclude = [\"LOGS/debug*.log\", \"**/secret.log\"]\n");
    place.write("debug-1.log", &["not this".into()]);
    place.write("secret.log", &["nor this".into()]);
    place.write("app.log", &["this".into()]);
    let daemon = place.start_with(&config);
    place.finish(daemon, &config, &["this".into()]);
    assert!(!place.said("sources", &[]).contains("secret"));
}

/// A new file is discovered soon, also in a new folder.
#[test]
fn a_new_file_is_found_soon() {
    let place = Place::new();
    let config = TAIL.replace("*.log", "**/*.log");
    let daemon = place.start_with(&config);
    let mut expected = Vec::new();
    let mut took = Vec::new();
    for (number, path) in ["a.log", "new/b.log", "new/deep/er/c.log", "d.log", "other/e.log"].iter().enumerate() {
        fs::create_dir_all(place.log(path).parent().expect("a folder")).expect("a folder");
        expected.push(format!("file {number}"));
        let began = Instant::now();
        place.write(path, &expected[number..]);
        place.wait_for_messages(&expected);
        took.push(began.elapsed());
    }
    took.sort();
    // A second to find the file, a commit interval, and a query; much more on a busy machine.
    assert!(took[2] < PATIENCE / 4, "found after {took:?}");
    place.finish(daemon, &config, &expected);
}

/// 3,000 files are followed through 64 descriptors, whichever file grows.
#[test]
fn thousands_of_files() {
    const FILES: usize = 3000;
    let place = Place::new();
    let config = format!("{TAIL}open_files_max = 64\n");
    let mut expected = Vec::new();
    for file in 0..FILES {
        let lines = numbered(&format!("file {file} line"), 3);
        place.write(&format!("{file}.log"), &lines);
        expected.extend(lines);
    }
    let daemon = place.start_with(&config);
    let mut most = 0;
    let mut look = |daemon: &crate::place::Daemon| {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("a process");
        most = most.max(descriptors.count());
    };
    wait_for("every file is read", Duration::from_secs(120), || {
        look(&daemon);
        (daemon.metric("daytable_records_committed_total") == Some(expected.len() as f64)).then_some(())
    });
    place.wait_for_messages(&expected);
    for file in (0..FILES).step_by(30) {
        let lines = numbered(&format!("file {file} more"), 2);
        place.write(&format!("{file}.log"), &lines);
        expected.extend(lines);
        look(&daemon);
    }
    place.wait_for_messages(&expected);
    look(&daemon);
    // The store, the listeners and the runtime have descriptors, too.
    assert!(most <= 64 + 48, "{most} descriptors");
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    let peak: u64 = peak.expect("a peak of memory");
    assert!(peak < 200 << 10, "{peak} KiB of memory");
    place.finish(daemon, &config, &expected);
}

/// A large file does not delay a file with one line.
#[test]
fn a_large_file_does_not_hold_up_a_small_one() {
    let place = Place::new();
    let large = "a line of a file that takes its time, or so it is to be hoped by the one that waits\n".repeat(400_000);
    fs::write(place.log("a-large.log"), &large).expect("written");
    place.write("z-small.log", &["the small one".into()]);
    let daemon = place.start();
    wait_for("the small file is read", PATIENCE, || {
        let small = place.json("query", &["--contains", "the small one"]);
        (!small.is_empty()).then_some(())
    });
    let behind = place.ledger("a-large.log")["lag_bytes"].as_u64().expect("a lag");
    assert!(behind > 0, "the large file was read first");
    daemon.stop();
}
