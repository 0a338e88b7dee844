//! Files that are renamed, copied, compressed, truncated, replaced and swapped, and what is in them: whatever happens to
//! a file, each of its lines is one record.
//!
//! The oracle of every test is the same: the messages of all records, each as often as its line was written. It is
//! asked again after a stop and after another start (see `Place::finish`), which would read again what was not known.

use crate::place::{Lines, PATIENCE, Place, TAIL, append, gzip, message_of, numbered, wait_for};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, Instant, SystemTime};

/// The file goes away by a rename and is written on; the new one takes its name.
#[test]
fn rename() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("line", 30);
    place.write("app.log", &lines[..10]);
    place.wait_for_messages(&lines[..10]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    place.write("app.log.1", &lines[10..20]);
    place.write("app.log", &lines[20..]);
    place.finish(daemon, TAIL, &lines);
}

/// The first file of a log is renamed before it is seen, and the new one stays empty: the rotated one is read all the same,
/// though the pattern does not cover it.
#[test]
fn renamed_before_it_was_seen() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("line", 20);
    append(&place.path("elsewhere"), lines.iter().map(|line| format!("{line}\n")).collect::<String>().as_bytes());
    fs::rename(place.path("elsewhere"), place.log("app.log.1")).expect("renamed");
    append(&place.log("app.log"), b"");
    place.wait_for_messages(&lines);
    place.finish(daemon, TAIL, &lines);
}

/// What was written before and after the rename, none of it seen, is read from the old file before it is forgotten.
#[test]
fn rename_while_down() {
    let place = Place::new();
    let lines = numbered("line", 40);
    place.write("app.log", &lines[..10]);
    let daemon = place.start();
    place.wait_for_messages(&lines[..10]);
    daemon.stop();
    place.write("app.log", &lines[10..20]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    place.write("app.log.1", &lines[20..30]);
    place.write("app.log", &lines[30..]);
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// The same, and the old file is to be had only compressed.
#[test]
fn rename_while_down_and_gzipped() {
    let place = Place::new();
    let lines = numbered("line", 30);
    place.write("app.log", &lines[..10]);
    let daemon = place.start();
    place.wait_for_messages(&lines[..10]);
    daemon.stop();
    place.write("app.log", &lines[10..20]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    gzip(&place.log("app.log.1"), &place.log("app.log.1.gz"));
    place.write("app.log", &lines[20..]);
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// Compressed while it runs, after it was read: the compressed file gives nothing, also where the pattern covers it.
#[test]
fn gzipped_while_running() {
    let place = Place::new();
    let config = TAIL.replace("*.log", "*");
    let daemon = place.start_with(&config);
    let lines = numbered("line", 20);
    place.write("app.log", &lines[..10]);
    place.wait_for_messages(&lines[..10]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    gzip(&place.log("app.log.1"), &place.log("app.log.1.gz"));
    place.write("app.log", &lines[10..]);
    place.finish(daemon, &config, &lines);
}

/// Met while it is still being compressed, so early that not even its first line is whole: it is no file of its own.
#[test]
fn met_with_half_a_line_compressed() {
    let place = Place::new();
    let config = TAIL.replace("*.log", "*");
    let long: String = (0..400u32).map(|n| format!("{:08x}", n.wrapping_mul(0x9e37_79b9))).collect();
    let lines = vec![format!("2026-11-20T10:00:00Z INFO {long}")];
    place.write("app.log", &lines);
    let daemon = place.start_with(&config);
    place.wait_for_messages(std::slice::from_ref(&long));
    daemon.stop();
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    // A new file that nobody has read would be met first.
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

/// The known file is two names further on, the one between was never seen; the pattern covers both.
#[test]
fn two_rotations_while_down() {
    let place = Place::new();
    let config = TAIL.replace("*.log", "*");
    let lines = numbered("line", 50);
    place.write("app.log", &lines[..10]);
    let daemon = place.start_with(&config);
    place.wait_for_messages(&lines[..10]);
    daemon.stop();
    place.write("app.log", &lines[10..20]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    place.write("app.log", &lines[20..40]);
    fs::rename(place.log("app.log.1"), place.log("app.log.2")).expect("renamed");
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    place.write("app.log", &lines[40..]);
    let daemon = place.start_with(&config);
    place.finish(daemon, &config, &lines);
}

/// The pattern covers the live name alone; the known file, two names further on and compressed, is found all the same.
#[test]
fn two_rotations_while_down_beyond_the_pattern() {
    let place = Place::new();
    let lines = numbered("line", 30);
    place.write("app.log", &lines[..10]);
    let daemon = place.start();
    place.wait_for_messages(&lines[..10]);
    daemon.stop();
    place.write("app.log", &lines[10..20]);
    fs::rename(place.log("app.log"), place.log("app.log.1")).expect("renamed");
    gzip(&place.log("app.log.1"), &place.log("app.log.2.gz"));
    place.write("app.log", &lines[20..]);
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// A copy is made and the file is emptied in place: the copy gives nothing again, the file goes on from its beginning.
#[test]
fn copytruncate() {
    let place = Place::new();
    let config = TAIL.replace("*.log", "*");
    let daemon = place.start_with(&config);
    let lines = numbered("line", 30);
    place.write("app.log", &lines[..20]);
    place.wait_for_messages(&lines[..20]);
    fs::copy(place.log("app.log"), place.log("app.log.1")).expect("copied");
    File::options().write(true).open(place.log("app.log")).expect("there").set_len(0).expect("emptied");
    place.write("app.log", &lines[20..]);
    place.finish(daemon, &config, &lines);
}

/// The same while nobody reads: the copy has what was not read yet.
#[test]
fn copytruncate_while_down() {
    let place = Place::new();
    let lines = numbered("line", 40);
    place.write("app.log", &lines[..20]);
    let daemon = place.start();
    place.wait_for_messages(&lines[..20]);
    daemon.stop();
    place.write("app.log", &lines[20..30]);
    fs::copy(place.log("app.log"), place.log("app.log.1")).expect("copied");
    File::options().write(true).open(place.log("app.log")).expect("there").set_len(0).expect("emptied");
    place.write("app.log", &lines[30..]);
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// The file is removed, and another one is made under its name.
#[test]
fn delete_and_create() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("line", 20);
    place.write("app.log", &lines[..10]);
    place.wait_for_messages(&lines[..10]);
    fs::remove_file(place.log("app.log")).expect("removed");
    place.write("app.log", &lines[10..]);
    place.finish(daemon, TAIL, &lines);
}

/// Another file, longer than what was read of the one before, has its name and its inode.
#[test]
fn inode_reuse() {
    let place = Place::new();
    let lines = numbered("line", 40);
    place.write("app.log", &lines[..10]);
    let daemon = place.start();
    place.wait_for_messages(&lines[..10]);
    daemon.stop();
    replace_with_same_inode(&place, "app.log", &lines[10..]);
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// The same, and the other file begins with the same line: what follows it tells them apart.
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

/// Removes a file and makes another one, as often as it takes for its inode to come back; where the file system never
/// gives one twice, the file is written anew in place, which leaves the reader with the same facts.
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

/// Files that begin alike are as many sources: also when one of them is as far as another was read.
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

/// A symbolic link is made to lead to another file, in one step.
#[test]
fn symlink_swap() {
    let place = Place::new();
    let daemon = place.start();
    let lines = numbered("line", 30);
    for (target, lines) in [("first.txt", &lines[..10]), ("second.txt", &lines[10..20]), ("third.txt", &lines[20..])] {
        place.write(target, lines);
        symlink(place.log(target), place.log("new-link")).expect("linked");
        fs::rename(place.log("new-link"), place.log("app.log")).expect("swapped");
        let read = lines[9].trim_start_matches("line ").parse::<usize>().expect("a number") + 1;
        place.wait_for_messages(&numbered("line", read));
    }
    place.finish(daemon, TAIL, &lines);
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

/// A line over the limit is kept up to it, marked and counted, and the file goes on behind it.
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

/// Bytes that are no text cost the line nothing but themselves.
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

/// A carriage return before the newline belongs to the end of the line; another one belongs to the line.
#[test]
fn crlf() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), b"one\r\ntwo\r\n\r\nthree \r here\n");
    place.finish(daemon, TAIL, &["one", "two", "three \r here"].map(str::to_owned));
}

/// A NUL is a character like any other, also where a crash left a hole of them.
#[test]
fn nul_bytes() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), b"a\0b\n\0\0\0\0after a hole\nc\n");
    place.finish(daemon, TAIL, &["a\0b", "\0\0\0\0after a hole", "c"].map(str::to_owned));
}

/// A line without its newline is no record yet, however long it stays so.
#[test]
fn unfinished_last_line_waits_for_its_newline() {
    let place = Place::new();
    let daemon = place.start();
    append(&place.log("app.log"), b"whole\nunfin");
    place.wait_for_messages(&["whole".into()]);
    // Longer than the quiet after which the last line of a rotated file is final.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(7) {
        place.wait_for_messages(&["whole".into()]);
    }
    append(&place.log("app.log"), b"ished\n");
    place.finish(daemon, TAIL, &["whole".into(), "unfinished".into()]);
}

/// Rotated away, it is final after 5 s of quiet; what comes behind it then is a record of its own.
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

/// A file that lost its tail goes on at the last position that still matches.
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
    // Not as far as it was read before.
    place.write("app.log", &lines[30..]);
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// `read_from = "end"` passes over what is there at the first start, and nothing that comes later.
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

/// A file that was not written to for long is not begun; when it is written to, that is read.
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

/// What is excluded is no source, whatever includes it.
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

/// A new file is found within a second, also in a folder that is new as well.
#[test]
fn new_file_within_a_second() {
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
    // A second to find it, a commit interval, a query; the median, because the machine has other things to do.
    assert!(took[2] < Duration::from_millis(1750), "found after {took:?}");
    place.finish(daemon, &config, &expected);
}

/// 3,000 files at a time are followed through 64 descriptors, whichever of them grows.
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
    // The store, the listeners and the runtime have some as well.
    assert!(most <= 64 + 48, "{most} descriptors");
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    let peak: u64 = peak.expect("a peak of memory");
    assert!(peak < 200 << 10, "{peak} KiB of memory");
    place.finish(daemon, &config, &expected);
}

/// A file with much to read does not hold up one with a line.
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
