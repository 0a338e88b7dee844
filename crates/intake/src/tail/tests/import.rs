//! Files that are imported, and imported again.

use super::*;
use crate::tail::{ImportError, ImportFile, ImportSummary, import};

/// Imports files with the known `sources`. Returns the rows and the sources afterwards.
fn run(
    sources: Vec<SourceState>,
    paths: &[PathBuf],
    fails: bool,
) -> (Result<ImportSummary, ImportError>, Vec<Row>, Vec<SourceState>) {
    let (queue, sink) = TestCommitter::new(sources);
    let mut rows = Vec::new();
    let imported = std::thread::scope(|scope| {
        let options = TailOptions::new("import", vec![]);
        let own = queue.clone();
        let files = paths.iter().map(|path| ImportFile::open(path).expect("it can be opened")).collect();
        let thread = scope.spawn(move || import(files, &options, &router(), "host", &own, |_| {}));
        while !thread.is_finished() {
            if fails && queue.waiting_bytes() > 0 {
                sink.fail();
            } else if let Some(submission) = (!fails).then(|| sink.take(Duration::from_millis(1))).flatten() {
                rows.extend(submission.batches.iter().flat_map(rows_of));
            }
        }
        thread.join().expect("no panic")
    });
    let sources = queue.sources().1.iter().map(|state| SourceState::clone(state)).collect();
    (imported, rows, sources)
}

fn messages(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.message.as_str()).collect()
}

#[test]
fn a_repeated_import_reads_only_new_lines() {
    let bench = Bench::new();
    let path = bench.path("a.log");
    bench.append("a.log", "one\ntwo\n");
    let (imported, rows, sources) = run(vec![], std::slice::from_ref(&path), false);
    let progress = imported.expect("imported").progress;
    assert_eq!((progress.files, progress.records, progress.bytes, progress.bytes_total), (1, 2, 8, 8));
    assert_eq!(messages(&rows), ["one", "two"]);

    let (_, rows, sources) = run(sources, std::slice::from_ref(&path), false);
    assert_eq!(messages(&rows), [""; 0]);
    bench.append("a.log", "three\nunfinished");
    let (_, rows, sources) = run(sources, std::slice::from_ref(&path), false);
    assert_eq!(messages(&rows), ["three", "unfinished"]);

    // Its copies, plain and compressed, have nothing new.
    fs::copy(&path, bench.path("a.log.1")).expect("copied");
    bench.gzip("a.log.1", "a.log.1.gz");
    fs::copy(&path, bench.path("a.log.2")).expect("copied");
    let (_, rows, sources) = run(sources, &[bench.path("a.log.1.gz"), bench.path("a.log.2"), path], false);
    assert_eq!(messages(&rows), [""; 0]);
    assert_eq!(sources.len(), 1);
}

/// Imported bytes give the same records as bytes parsed without an import.
#[test]
fn records_of_several_lines_are_imported_as_they_are_read_elsewhere() {
    let bench = Bench::new();
    let trace = |n: u32| format!("2026-11-20T10:00:{:02}Z ERROR boom {n}\n\tat one\n\n\tat {n}\n", n % 60);
    let text: String = (0..20_000).map(trace).collect();
    bench.append("a.log", &text);
    let path = bench.path("a.log");
    let (imported, rows, sources) = run(vec![], std::slice::from_ref(&path), false);
    assert_eq!(imported.expect("imported").progress.records, 20_000);
    let mut records = daytable_parse::Records::new(text.as_bytes(), TailOptions::new("", vec![]).reading, 1 << 20);
    let mut read = Vec::new();
    let mut each = |offset: u64, raw: &daytable_parse::RawRecord<'_>, parsed: daytable_parse::Parsed<'_>| {
        read.push((offset + raw.start as u64, parsed.record.message.into_owned()));
    };
    while records.turn(Ticks::UNIX_EPOCH, &mut each).expect("memory") {}
    let mut shown: Vec<_> = rows.iter().map(|row| (row.position, row.message.clone())).collect();
    shown.sort();
    assert_eq!(shown[7].1, "boom 7\n\tat one\n\n\tat 7");
    assert!(shown == read, "they differ");

    // A record that was final at its import is not continued.
    bench.append("a.log", "\tat late\n");
    let (_, rows, sources) = run(sources, std::slice::from_ref(&path), false);
    assert_eq!(rows.iter().map(|row| row.position).collect::<Vec<_>>(), [text.len() as u64]);
    assert_eq!(sources[0].ledger.records, 20_001);
}

#[test]
fn compressed_files_are_read_and_equal_ones_of_other_names_are_others() {
    let bench = Bench::new();
    bench.append("a", "one\ntwo");
    let zstd = zstd::encode_all(&b"one\ntwo"[..], 1).expect("memory");
    fs::write(bench.path("b.zst"), zstd).expect("written");
    bench.append("c", "");
    bench.gzip("a", "a.gz");
    let paths = ["a.gz", "b.zst", "c"].map(|name| bench.path(name));
    let (imported, rows, sources) = run(vec![], &paths, false);
    assert_eq!(messages(&rows), ["one", "two", "one", "two"]);
    assert_eq!(sources.len(), 2);
    let imported = imported.expect("imported");
    assert_eq!(imported.progress.bytes, imported.progress.bytes_total);
}

/// A truncated copy must not pass for the whole file, nor leave half a line in place of the whole one.
#[test]
fn a_truncated_compressed_file_is_reported_and_later_resumed_at_its_next_line() {
    let text: String = (0..20_000).map(|n| format!("line {n} {:x}\n", n * 7919 % 10_007)).collect();
    let bench = Bench::new();
    bench.append("a", &text);
    bench.gzip("a", "a.gz");
    fs::write(bench.path("b.zst"), zstd::encode_all(text.as_bytes(), 1).expect("memory")).expect("written");
    for name in ["a.gz", "b.zst"] {
        let path = bench.path(name);
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() * 2 / 3]).expect("written");
        let (imported, first, sources) = run(vec![], std::slice::from_ref(&path), false);
        let error = imported.expect("no store failed").errors().next().expect("it is cut");
        assert!(error.to_string().ends_with("its compressed content is incomplete"), "{error}");

        fs::write(&path, &whole).expect("written");
        let (imported, second, _) = run(sources, std::slice::from_ref(&path), false);
        assert_eq!(imported.expect("no store failed").errors().count(), 0, "it is whole");
        assert!(!first.is_empty() && !second.is_empty(), "{name}");
        let all: String = messages(&first).iter().chain(&messages(&second)).map(|line| format!("{line}\n")).collect();
        assert!(all == text, "{name}: a line is broken, missing or there twice");
    }
}

#[test]
fn an_irregular_file_is_reported() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder")).expect("made");
    let refused = |path: &std::path::Path| ImportFile::open(path).expect_err("no file").to_string();
    assert_eq!(refused(&bench.path("folder")), "it is a folder");
    assert!(refused(&bench.path("missing")).starts_with("No such file"));
    let (imported, _, _) = run(vec![], &["/dev/null".into()], false);
    let error = imported.expect("no store failed").errors().next().expect("a device");
    assert!(error.to_string().ends_with("it is not a regular file"), "{error}");
}

#[test]
fn unreadable_formats_are_refused_with_a_remedy() {
    let bench = Bench::new();
    for (name, bytes, what) in [
        ("utf16.log", &b"\xff\xfeo\0n\0e\0\n\0"[..], "iconv -f UTF-16"),
        ("a.log.xz", b"\xfd7zXZ\0\0\x04\xe6\n", "compressed by xz"),
        ("a.log.bz2", b"BZh91AY&SY\x12\n", "compressed by bzip2"),
    ] {
        fs::write(bench.path(name), bytes).expect("written");
        let (imported, rows, _) = run(vec![], &[bench.path(name)], false);
        let error = imported.expect("no store failed").errors().next().expect(name);
        assert!(error.to_string().contains(what) && rows.is_empty(), "{name}: {error}");
    }
}

/// Like gzip(1), padding is accepted, and garbage after the content is reported.
#[test]
fn a_gzip_file_with_something_behind_it() {
    let bench = Bench::new();
    for (name, behind, lost) in [("zeros.gz", &[0; 600][..], 0), ("garbage.gz", b"garbage", 7)] {
        let path = bench.path(name);
        fs::write(&path, [&gzipped(b"one\ntwo\n")[..], behind].concat()).expect("written");
        let (imported, rows, sources) = run(vec![], std::slice::from_ref(&path), false);
        assert_eq!(imported.expect("no store failed").errors().count(), 0, "{name}");
        assert_eq!(messages(&rows), ["one", "two"], "{name}");
        assert_eq!(sources[0].ledger.lost_bytes, lost, "{name}");
        let (_, rows, sources) = run(sources, std::slice::from_ref(&path), false);
        assert_eq!((rows.len(), sources[0].ledger.lost_bytes), (0, lost), "{name} again");
    }
}

#[test]
fn a_failed_commit_is_reported_and_the_next_import_reads_everything() {
    let bench = Bench::new();
    bench.append("a.log", "one\ntwo\n");
    let paths = [bench.path("a.log")];
    let (imported, _, sources) = run(vec![], &paths, true);
    assert!(matches!(imported, Err(ImportError::Refused(SubmitError::Stale))));
    let (_, rows, _) = run(sources, &paths, false);
    assert_eq!(messages(&rows), ["one", "two"]);
}

#[test]
fn an_export_of_the_journal_ends_whatever_its_last_entry_has() {
    let bench = Bench::new();
    let path = bench.path("host.export");
    bench.append("host.export", "__CURSOR=s=1;i=1\nMESSAGE=one\n\n\nMESSAGE=two\n\nlower=1\n\n");
    let (imported, rows, sources) = run(vec![], std::slice::from_ref(&path), false);
    assert_eq!(imported.expect("imported").progress.records, 2);
    assert_eq!(messages(&rows), ["one", "two"]);
    bench.append("host.export", "MESSAGE=three\n\nMESSAGE");
    let (imported, rows, _) = run(sources, std::slice::from_ref(&path), false);
    assert_eq!(messages(&rows), ["three"]);
    assert_eq!(imported.expect("what is whole").failed.len(), 1);
}
