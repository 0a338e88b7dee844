//! The golden files: lines as programs write them, `tests/golden/FORMAT/CASE.log`, and the output of `daytable parse` for
//! them, `CASE.expected.ndjson`. Each format has a folder. A new case is two files.
//!
//! `????` stands for the year of a time without one. That year depends on the day of the test.

use crate::place::{DAYTABLE, Place, message_of};
use daytable_model::time::now;
use daytable_parse::{ParseOptions, Records};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Folders of envelopes: the lines inside have other formats.
const ENVELOPES: [&str; 2] = ["cri", "docker"];

/// When each file was written last: 2026-11-21T12:00:00Z.
const WRITTEN: u64 = 1_795_262_400;

fn cases() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = walkdir::WalkDir::new(golden).sort_by_file_name().into_iter();
    let files = files.map(|file| file.expect("golden files can be listed").into_path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

/// A line without its year if the expected line has no year.
fn without_year(line: &str, expected: &str) -> String {
    const TIME: &str = "{\"time\":\"";
    match line.strip_prefix(TIME).and_then(|rest| rest.split_at_checked(4)) {
        Some((year, rest)) if expected.starts_with("{\"time\":\"????") => {
            let year: i32 = year.parse().expect("a year");
            let now = now().date().year;
            assert!((now - 1..=now + 1).contains(&year), "{line}");
            format!("{TIME}????{rest}")
        }
        _ => line.to_owned(),
    }
}

#[test]
fn golden_files_are_printed_as_expected() {
    let cases = cases();
    assert!(cases.len() > 50, "the golden files are there");
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("case.log");
    for case in cases {
        // The time of the file gives times without a date their day.
        fs::copy(&case, &copy).expect("the case can be copied");
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN);
        let file = File::options().write(true).open(&copy).expect("the copy can be opened");
        file.set_modified(written).expect("the copy has a time");
        let output = Command::new(DAYTABLE).arg("parse").arg(&copy).output().expect("daytable can be run");
        assert!(output.status.success(), "{}", case.display());
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let expected =
            fs::read_to_string(case.with_extension("expected.ndjson")).expect("each case has its expectation");
        let lines = printed.lines().zip(expected.lines()).enumerate();
        for (number, (printed, expected)) in lines {
            assert_eq!(without_year(printed, expected), expected, "record {} of {}", number + 1, case.display());
        }
        assert_eq!(printed.lines().count(), expected.lines().count(), "records of {}", case.display());
    }
}

#[test]
fn golden_files_have_the_format_of_their_folder() {
    for case in cases() {
        let folder = case.parent().and_then(Path::file_name).and_then(|name| name.to_str()).expect("a folder");
        let is_near_miss = case.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("near_miss"));
        if ENVELOPES.contains(&folder) || is_near_miss {
            continue;
        }
        let file = File::open(&case).expect("a case can be read");
        let mut records = Records::new(file, ParseOptions::default(), 1 << 20);
        while records.turn(now(), |_, _, _| {}).expect("a case can be read") {}
        let format = records.profile().format().map(|format| format.label());
        assert_eq!(format, Some(folder), "{}", case.display());
    }
}

/// When the datagrams of the golden list came: 2025-11-21T08:00:05Z.
const RELAYED: u64 = 1_763_712_005;

/// The datagrams of the golden list with a time of their own, as a relay keeps them: a line each.
fn relayed() -> String {
    let list = include_str!("../../crates/parse/golden/datagrams.txt");
    let entries =
        list.split("\n== ").skip(1).filter(|entry| !entry.lines().next().is_some_and(|head| head.contains('|')));
    let lines = entries.flat_map(|entry| {
        let lines: Vec<&str> =
            entry.lines().skip(1).filter(|line| !line.is_empty() && !line.starts_with("# ")).collect();
        let is_timed = |pair: &&[&str]| pair[1].starts_with("> ") && !pair[1].contains("none");
        lines.windows(2).filter(is_timed).map(|pair| format!("{}\n", pair[0])).collect::<Vec<_>>()
    });
    lines.collect()
}

#[test]
fn a_file_of_a_relay_means_the_same_when_it_is_compressed() {
    let lines = relayed();
    let gzip = || {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(lines.as_bytes()).expect("memory");
        encoder.finish().expect("memory")
    };
    let zstd = zstd::encode_all(lines.as_bytes(), 3).expect("memory");
    let files = [("relay.log", lines.clone().into_bytes()), ("relay.log.gz", gzip()), ("relay.log.zst", zstd)];
    let read = |(name, bytes): (&str, Vec<u8>)| {
        let place = Place::new();
        let path = place.path(name);
        fs::write(&path, bytes).expect("written");
        // When the last datagram came: a compressed file has no other year.
        let file = File::options().write(true).open(&path).expect("the file can be opened");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(RELAYED)).expect("the file has a time");
        place.said("import", &["--instance", "{field:host}", &path.display().to_string()]);
        let records = place.records();
        let shown = |name: &str, record: &serde_json::Value| record[name].to_string();
        let mut meant: Vec<_> = records
            .iter()
            .map(|record| (message_of(record), ["time", "level", "partition_key"].map(|name| shown(name, record))))
            .collect();
        meant.sort();
        meant
    };
    let [plain, gzip, zstd] = files.map(read);
    assert_eq!(plain.len(), lines.lines().count());
    assert!(plain.len() > 200, "{}", plain.len());
    assert_eq!(plain, gzip);
    assert_eq!(plain, zstd);
}
