//! The main promise: after any kill at any moment, every record is in exactly one row.
//!
//! A writer appends to several files, each in its own format, and rotates them. Meanwhile the daemon is killed with
//! SIGKILL again and again, after pauses from a seeded generator. `DAYTABLE_KILLS` sets the number of kills (default
//! 40), `TESTS_SEED` the seed, which a failure prints.

use crate::place::{PATIENCE, Place, append, gzip, message_of, wait_for};
use crate::verify::AsKilled;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The writer's pauses are shorter than the wait of a record, so split records are joined again.
const TAIL: &str = "\
[[tail]]
include = [\"LOGS/*.log*\"]
exclude = [\"LOGS/*.tmp\"]
instance = \"{stem}\"
join = { wait = \"10s\" }
";
/// Concurrent files.
const STREAMS: usize = 5;
/// Rotated files kept per stream. Older files are removed once they are read.
const KEPT: usize = 6;

/// An xorshift generator: the same seed gives the same test as far as the machine allows.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[test]
fn every_record_is_there_exactly_once_whatever_is_killed() {
    let kills = from_environment("DAYTABLE_KILLS", 40);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = from_environment("TESTS_SEED", now.as_nanos() as u64 | 1);
    println!("TESTS_SEED={seed} DAYTABLE_KILLS={kills}");
    let mut random = Random(seed);
    let place = Arc::new(Place::new());
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (place, stop) = (place.clone(), stop.clone());
        std::thread::spawn(move || write_until(&place, &stop, Random(seed.rotate_left(17) | 1)))
    };
    let mut killed = Vec::new();
    for _ in 0..kills {
        let daemon = place.spawn(TAIL);
        // The moment of a kill ranges from "before the first open" to "in the middle of the work".
        let pause = Duration::from_millis(if random.below(4) == 0 { random.below(30) } else { random.below(700) });
        std::thread::sleep(pause);
        daemon.kill();
        killed.push(AsKilled::of(&place));
        if random.below(4) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(300)));
        }
    }
    let daemon = place.start_with(TAIL);
    stop.store(true, Ordering::Relaxed);
    let expected = writer.join().expect("the writer fails nothing");
    assert_exactly(&place, &expected, seed);
    daemon.stop();
    // A start without new lines gives no new records.
    let daemon = place.start_with(TAIL);
    append(&place.log("sentinel.log"), b"the sentinel\n");
    wait_for("the sentinel is read", PATIENCE, || {
        (!place.json("query", &["--contains", "the sentinel"]).is_empty()).then_some(())
    });
    daemon.stop();
    fs::remove_file(place.log("sentinel.log")).expect("removed");
    let expected: BTreeSet<String> = expected.into_iter().chain(["the sentinel".into()]).collect();
    assert_exactly(&place, &expected, seed);
    crate::verify::assert_whole(&place, expected.len() as u64);
    killed.iter().for_each(|folder| folder.assert_whole(seed));
    place.assert_no_key_twice();
}

/// Waits for the expected number of records, then compares each record.
fn assert_exactly(place: &Place, expected: &BTreeSet<String>, seed: u64) {
    let deadline = Instant::now() + 2 * PATIENCE;
    while total(place) < expected.len() as u64 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    let records = place.records();
    let mut seen = BTreeSet::new();
    let twice: Vec<&Value> = records.iter().filter(|record| !seen.insert(identity(record))).collect();
    let missing: Vec<_> = expected.difference(&seen).collect();
    let unknown: Vec<_> = seen.difference(expected).collect();
    assert!(
        twice.is_empty() && missing.is_empty() && unknown.is_empty(),
        "TESTS_SEED={seed}: of {} records {} are there twice: {:?}, {} missing: {:?}, {} never written: {:?}",
        expected.len(),
        twice.len(),
        &twice[..twice.len().min(5)],
        missing.len(),
        &missing[..missing.len().min(10)],
        unknown.len(),
        &unknown[..unknown.len().min(10)],
    );
    assert_eq!(total(place), expected.len() as u64, "TESTS_SEED={seed}: count and query do not agree");
}

/// The number of records, or 0 before the data folder exists.
fn total(place: &Place) -> u64 {
    let said = place.ask("count", &["--json"]).stdout;
    let counts = String::from_utf8_lossy(&said).into_owned();
    let counts = counts.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    counts.filter_map(|count| count["records"].as_u64()).sum()
}

/// The identity of a record: its message has the stream and the number.
fn identity(record: &Value) -> String {
    message_of(record)
}

/// Appends records to every stream and rotates the streams until `stop`. Returns the written records.
fn write_until(place: &Place, stop: &AtomicBool, mut random: Random) -> BTreeSet<String> {
    let mut written = BTreeSet::new();
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let stream = random.below(STREAMS as u64) as usize;
        let mut text = String::new();
        for _ in 0..=random.below(60) {
            number += 1;
            let mut message = format!("record {number} of stream {stream}");
            if stream.is_multiple_of(4) && random.below(3) == 0 {
                message.push_str(&format!("\n\tat line {number}\n\n\tat another").repeat(1 + random.below(3) as usize));
            }
            text.push_str(&line_of(stream, &message));
            written.insert(message);
        }
        let path = place.log(&format!("s{stream}.log"));
        // Two writes. The first ends anywhere in a line.
        let (first, second) = text.as_bytes().split_at(random.below(text.len() as u64) as usize);
        append(&path, first);
        std::thread::sleep(Duration::from_millis(random.below(5)));
        append(&path, second);
        if random.below(25) == 0 {
            rotate(place, stream, written.len() as u64, &mut random);
        }
        std::thread::sleep(Duration::from_millis(random.below(12)));
    }
    written
}

/// A line in the format of the stream: with or without a time, in one or several lines.
fn line_of(stream: usize, message: &str) -> String {
    let now = daytable_model::time::now();
    match stream % 4 {
        0 => format!("{now} INFO {message}\n"),
        1 => format!("{message}\n"),
        2 => format!("{{\"time\":\"{now}\",\"level\":\"warn\",\"message\":\"{message}\",\"n\":7}}\n"),
        _ => format!("{{\"message\":\"{message}\"}}\n"),
    }
}

/// Renames `s.log.1` to `s.log.2` or `s.log.2.gz`, and so on. Then renames the live file, or copies and truncates it.
fn rotate(place: &Place, stream: usize, written: u64, random: &mut Random) {
    let name = |n: usize, suffix: &str| place.log(&format!("s{stream}.log.{n}{suffix}"));
    for oldest in [name(KEPT, ""), name(KEPT, ".gz")] {
        if oldest.exists() {
            // Every collector loses a file removed before it is read, so the writer waits. On a busy machine no life of a daemon may
            // be long enough to read it, so the wait has to outlast all kills.
            wait_for("what is rotated out is read", 10 * PATIENCE, || (total(place) == written).then_some(()));
            fs::remove_file(oldest).expect("removed");
        }
    }
    for n in (1..KEPT).rev() {
        for suffix in ["", ".gz"] {
            let from = name(n, suffix);
            if from.exists() {
                fs::rename(from, name(n + 1, suffix)).expect("renamed");
            }
        }
    }
    if name(2, "").exists() && random.below(2) == 0 {
        // Compression writes to a temporary name first: a half-written file must not look complete.
        let half = name(2, ".gz.tmp");
        let plain = name(2, "");
        let aside = name(2, ".tmp");
        fs::copy(&plain, &aside).expect("copied");
        gzip(&aside, &half);
        fs::rename(half, name(2, ".gz")).expect("renamed");
        fs::remove_file(plain).expect("removed");
    }
    let live = place.log(&format!("s{stream}.log"));
    if stream == 4 {
        // No line is written between copy and truncate: copytruncate loses such lines.
        fs::copy(&live, name(1, "")).expect("copied");
        File::options().write(true).open(&live).expect("there").set_len(0).expect("emptied");
    } else {
        fs::rename(&live, name(1, "")).expect("renamed");
    }
}

/// A last line without an end is one record, and its rest another, wherever the daemon is killed meanwhile; and the file
/// comes back as it was written.
#[cfg(feature = "failpoints")]
#[test]
fn a_kill_at_each_failpoint_reads_a_line_without_an_end_once() {
    use crate::place::{DAYTABLE, Daemon};
    let config = "[[tail]]\ninclude = [\"LOGS/*.log\"]\nformat = \"plain\"\nunended_after = \"200ms\"\n";
    for only in [true, false] {
        for point in ["commit-between", "commit-after"] {
            for times in 1..=3 {
                let place = Place::new();
                let mut written = if only { String::new() } else { "whole\n".to_owned() };
                let mut messages = if only { Vec::new() } else { vec!["whole".to_owned()] };
                append(&place.log("app.log"), written.as_bytes());
                let mut write = |text: &str| {
                    append(&place.log("app.log"), text.as_bytes());
                    written.push_str(text);
                    messages.push(text.trim_end().to_owned());
                    messages.clone()
                };
                let mut command = std::process::Command::new(DAYTABLE);
                command.arg("run").arg("--config").arg(place.configure(config));
                command.env("DAYTABLE_FAILPOINT", format!("{point}:{times}"));
                let mut daemon = place.spawn_command(command);
                let is_there = |daemon: &mut Daemon| (daemon.socket().exists() || daemon.has_ended()).then_some(());
                wait_for("the folder", PATIENCE, || is_there(&mut daemon));
                // Each of these is a commit of its own, if the daemon lives that long.
                for text in ["piece", "+more", "+rest\n"] {
                    let expected = write(text);
                    wait_for(point, PATIENCE, || {
                        let is_read = place.try_records().len() == expected.len();
                        (is_read || daemon.has_ended()).then_some(())
                    });
                }
                drop(daemon);
                let daemon = place.start_with(config);
                let mut lines: Vec<String> = place.try_records().iter().map(message_of).collect();
                // Pieces that came while nobody read are one line.
                wait_for("all of it", PATIENCE, || {
                    lines = place.try_records().iter().map(message_of).collect();
                    (lines.concat().len() == messages.concat().len()).then_some(())
                });
                place.finish(daemon, config, &lines);
                let source = place.log("app.log");
                let raw = place.said("export", &["--raw", "--source", &source.to_string_lossy()]);
                assert_eq!(raw, written, "{point}:{times}");
                assert_eq!(fs::read_to_string(source).expect("there"), written);
            }
        }
    }
}

/// Kills at the most dangerous places, one by one. Needs a build with failpoints.
#[cfg(feature = "failpoints")]
#[test]
fn a_kill_at_each_failpoint_loses_and_doubles_nothing() {
    use crate::place::{DAYTABLE, numbered};
    for point in ["commit-between", "commit-after", "compaction-before", "drop-after"] {
        for times in 1..=3 {
            let place = Place::new();
            let mut command = std::process::Command::new(DAYTABLE);
            command.arg("run").arg("--config").arg(place.configure(TAIL));
            command.env("DAYTABLE_FAILPOINT", format!("{point}:{times}"));
            let mut daemon = place.spawn_command(command);
            let mut lines = Vec::new();
            let mut write = || {
                let batch = numbered(&format!("{point}-{}", lines.len()), 50);
                place.write("app.log", &batch);
                lines.extend(batch);
                std::thread::sleep(Duration::from_millis(100));
            };
            if point.starts_with("commit") {
                // On a busy machine one commit has several batches, so lines come until the failpoint is reached.
                wait_for(point, PATIENCE, || {
                    write();
                    daemon.has_ended().then_some(())
                });
                assert!(!daemon.ended().success(), "{point} was not reached");
            } else {
                (0..10).for_each(|_| write());
            }
            drop(daemon);
            let daemon = place.start_with(TAIL);
            place.finish(daemon, TAIL, &lines);
        }
    }
}
