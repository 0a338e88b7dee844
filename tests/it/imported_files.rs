//! Files that are imported and followed, in any order: each line is one record, and the accounts agree.

use crate::place::{PATIENCE, Place, TAIL, append, gzip, numbered, wait_for};

/// The tables count as many rows as there are records, none of which is there twice, and `verify` finds all whole.
fn assert_each_once(place: &Place, expected: &[String]) {
    place.wait_for_messages(expected);
    let rows: u64 = place.json("tables", &[]).iter().filter_map(|table| table["rows"].as_u64()).sum();
    assert_eq!(rows, expected.len() as u64, "{}", place.said("tables", &[]));
    let verified = place.said("verify", &[]);
    assert!(verified.contains("whole"), "{verified}");
}

/// Lines without a time, whose records have that of their arrival; and lines with one.
fn write_both(place: &Place) -> Vec<String> {
    let (plain, timed) = (numbered("no time of its own", 3), numbered("with a time", 3));
    place.write("plain.log", &plain);
    let line = |(n, text): (usize, &String)| format!("2026-11-20T08:00:{n:02}Z INFO {text}");
    place.write("timed.log", &timed.iter().enumerate().map(line).collect::<Vec<_>>());
    [plain, timed].concat()
}

fn import(place: &Place, names: &[&str]) -> String {
    let paths: Vec<String> = names.iter().map(|name| place.log(name).display().to_string()).collect();
    place.said("import", &paths.iter().map(String::as_str).collect::<Vec<_>>()).trim().to_owned()
}

#[test]
fn a_file_that_is_followed_is_not_imported_as_well() {
    let place = Place::new();
    let mut expected = write_both(&place);
    let daemon = place.start_with(&kept());
    place.wait_for_messages(&expected);
    let said = import(&place, &["plain.log", "timed.log"]);
    assert!(said.starts_with("0 new records from 2 files"), "{said}");
    assert!(said.ends_with("; 2 of them are followed by the daemon, which reads them"), "{said}");
    assert_each_once(&place, &expected);
    place.write("plain.log", &["behind the import".to_owned()]);
    expected.push("behind the import".into());
    assert_each_once(&place, &expected);
    daemon.stop();

    // Without the daemon, an import reads on, and leaves a line without an end to who follows the file.
    append(&place.log("plain.log"), b"while nobody follows\nan unfini");
    assert!(import(&place, &["plain.log"]).starts_with("1 new record from 1 file"));
    assert!(import(&place, &["timed.log"]).starts_with("0 new records from 1 file"));
    let daemon = place.start_with(&kept());
    append(&place.log("plain.log"), b"shed line\n");
    expected.extend(["while nobody follows".into(), "an unfinished line".into()]);
    assert_each_once(&place, &expected);
    daemon.stop();
    let daemon = place.start_with(&kept());
    assert_each_once(&place, &expected);
    daemon.stop();
}

#[test]
fn a_file_that_was_imported_is_followed_from_its_end() {
    let place = Place::new();
    let mut expected = write_both(&place);
    let config = place.configure(&kept()).display().to_string();
    assert!(import(&place, &["plain.log", "timed.log", "--config", &config][..2]).starts_with("6 new records"));
    let daemon = place.start_with(&kept());
    place.write("plain.log", &["behind the import".to_owned()]);
    expected.push("behind the import".into());
    assert_each_once(&place, &expected);
    daemon.stop();
    // A rotation of it is no new file.
    std::fs::rename(place.log("plain.log"), place.log("plain.log.1")).expect("renamed");
    place.write("plain.log", &["in a new file".to_owned()]);
    expected.push("in a new file".into());
    let daemon = place.start_with(&kept());
    assert_each_once(&place, &expected);
    gzip(&place.log("plain.log.1"), &place.log("plain.log.1.gz"));
    assert!(import(&place, &["plain.log.1.gz"]).starts_with("0 new records"));
    assert_each_once(&place, &expected);
    daemon.stop();
}

#[test]
fn a_file_is_imported_into_a_daemon_that_follows_it_later() {
    let place = Place::new();
    let mut expected = write_both(&place);
    let nothing = kept().replace("LOGS/*.log", "LOGS/*.nothing");
    let daemon = place.start_with(&nothing);
    assert!(import(&place, &["plain.log", "timed.log"]).starts_with("6 new records"));
    assert_each_once(&place, &expected);
    place.configure(&kept());
    place.said("reload", &[]);
    place.write("plain.log", &["behind the import".to_owned()]);
    expected.push("behind the import".into());
    assert_each_once(&place, &expected);
    let followed = wait_for("both files are followed", PATIENCE, || {
        let said = import(&place, &["plain.log", "timed.log"]);
        said.contains("2 of them are followed").then_some(said)
    });
    assert!(followed.starts_with("0 new records"), "{followed}");
    assert_each_once(&place, &expected);
    daemon.stop();
}

/// What was read a moment ago may not be committed yet when its file is imported.
#[test]
fn a_file_that_is_followed_no_longer_is_imported_from_its_last_line() {
    let place = Place::new();
    let nothing = kept().replace("LOGS/*.log", "LOGS/*.nothing");
    let daemon = place.start_with(&kept());
    let mut expected = Vec::new();
    for round in 0..6 {
        let lines = numbered(&format!("round {round}"), 50);
        place.write("plain.log", &lines);
        expected.extend(lines);
        if round % 2 == 0 {
            wait_for("some of it is there", PATIENCE, || (place.try_records().len() > round * 50).then_some(()));
        }
        place.configure(&nothing);
        place.said("reload", &[]);
        import(&place, &["plain.log"]);
        place.configure(&kept());
        place.said("reload", &[]);
    }
    assert_each_once(&place, &expected);
    daemon.stop();
}

/// The usual block, and a table that keeps old days.
fn kept() -> String {
    format!("{TAIL}[[table]]\nname = \"Log\"\nkeep = \"4000d\"\n")
}
