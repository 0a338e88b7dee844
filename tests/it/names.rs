//! File names that are not UTF-8: such files are read, followed, imported and shown like others, and truncate no
//! response.

use crate::client::over_unix;
use crate::place::{DAYTABLE, Place, TAIL, append, message_of};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

/// The shown form of the name, with every byte.
const SHOWN: &str = r"bad-\xFF.log";

fn bad(place: &Place) -> PathBuf {
    place.path("logs").join(OsStr::from_bytes(b"bad-\xff.log"))
}

fn paths(sources: &[Value]) -> Vec<String> {
    let mut paths: Vec<String> = sources
        .iter()
        .filter_map(|source| source["path"].as_str())
        .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    paths.sort();
    paths
}

/// A file with such a name among others: its records come, and every list of ledgers is whole.
#[test]
fn a_name_that_is_no_utf_8_hides_no_ledger() {
    let place = Place::new();
    // Names before and after it in any sorted list.
    for name in ["a.log", "b.log", "y.log", "z.log"] {
        place.write(name, &[format!("from {name}")]);
    }
    append(&bad(&place), b"from the bad one\n");
    let names = ["a.log", "b.log", SHOWN, "y.log", "z.log"];
    let expected = ["from a.log", "from b.log", "from the bad one", "from y.log", "from z.log"].map(str::to_owned);
    let daemon = place.start();
    place.wait_for_messages(&expected);
    let whole = |sources: &[Value]| assert_eq!(paths(sources), names);
    whole(&place.json("sources", &[]));
    let answer = over_unix(daemon.socket(), "GET", "/api/sources", "").expect("an answer");
    assert_eq!(answer.status, 200);
    whole(&answer.body.lines().map(|line| serde_json::from_str(line).expect("an object")).collect::<Vec<_>>());
    assert!(place.said("sources", &[]).contains(SHOWN));
    // The record names its file.
    let record =
        place.records().into_iter().find(|record| message_of(record) == "from the bad one").expect("it is there");
    assert!(record["source"].as_str().is_some_and(|source| source.ends_with(SHOWN)), "{record}");
    // So does the daemon's log.
    daemon.wait_said(SHOWN);
    assert!(!daemon.said().contains('\u{fffd}'), "{}", daemon.said());
    daemon.stop();
    whole(&place.json("sources", &[]));
    // A removed file gives a finding with its name.
    std::fs::write(bad(&place), "another\n").expect("written");
    let config = place.configure(TAIL);
    let verified = place.ask("verify", &["--json", "--config", config.to_str().expect("a path")]);
    let said = String::from_utf8(verified.stdout).expect("text");
    assert!(said.contains(r"bad-\\xFF.log"), "{said}");
    place.finish(place.start(), TAIL, &[&expected[..], &["another".to_owned()]].concat());
}

/// An import by the daemon, which receives the path, and an import without a daemon.
#[test]
fn a_file_with_such_a_name_is_imported() {
    for is_running in [true, false] {
        let place = Place::new();
        append(&bad(&place), b"one\ntwo\n");
        let daemon = is_running.then(|| place.start_with(""));
        let output = place.command("import").arg(bad(&place)).output().expect("daytable can be run");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        place.wait_for_messages(&["one".into(), "two".into()]);
        assert_eq!(paths(&place.json("sources", &[])), [SHOWN]);
        let again = place.command("import").arg(bad(&place)).output().expect("daytable can be run");
        assert!(String::from_utf8_lossy(&again.stdout).contains("0 new records"));
        let missing = place.path("logs").join(OsStr::from_bytes(b"gone-\xfe.log"));
        let refused = place.command("import").arg(missing).output().expect("daytable can be run");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(r"gone-\xFE.log"), "{refused:?}");
        drop(daemon);
    }
}

/// `parse` and `doctor` name it as it is.
#[test]
fn what_looks_at_files_names_it_as_it_is() {
    let place = Place::new();
    append(&bad(&place), b"one\n");
    let parsed =
        Command::new(DAYTABLE).args(["parse", "--summary", "--explain"]).arg(bad(&place)).output().expect("run");
    assert!(parsed.status.success());
    for said in [parsed.stdout, parsed.stderr] {
        let said = String::from_utf8(said).expect("text");
        assert!(said.contains(SHOWN), "{said}");
    }
}
