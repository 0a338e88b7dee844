//! Data folders of every format that there was (`tests/formats`), as a kill left them: read as they are, then brought to the
//! format of today by a daemon, with every record in it once, before and after.

use crate::place::{PATIENCE, Place, message_of, numbered, wait_for};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A daemon that follows nothing of what the old one did.
const ELSEWHERE: &str =
    "[[tail]]\ninclude = [\"LOGS/new.log\"]\ninstance = \"new\"\n[[table]]\nname = \"Log\"\nkeep = \"36500d\"\n";

fn expected(format: u32) -> BTreeSet<String> {
    let json = (0..400).map(|n| format!("record {n} of format {format}"));
    let text = (0..40).map(|n| format!("plain {n} of format {format}"));
    json.chain(text).chain([format!("the newest of format {format}")]).collect()
}

/// The messages, none of which may be there twice.
fn messages(place: &Place) -> BTreeSet<String> {
    let records = place.records();
    let messages: BTreeSet<String> = records.iter().map(message_of).collect();
    assert_eq!(messages.len(), records.len(), "a record is there twice");
    messages
}

fn format_of(data: &Path) -> u8 {
    // SQLite's header keeps `user_version` at byte 60, big endian.
    fs::read(data.join("catalog.db")).expect("a catalog")[63]
}

#[test]
fn a_folder_of_each_format_is_read_as_it_is_and_brought_to_that_of_today() {
    for format in 1.. {
        let packed = format!("{}/tests/formats/format-{format}.tar.xz", env!("CARGO_MANIFEST_DIR"));
        if !Path::new(&packed).exists() {
            assert!(format > 6, "{packed} is missing");
            break;
        }
        let place = Place::new();
        let unpacked = Command::new("tar").args(["-xJf", &packed, "-C"]).arg(place.path(".")).status().expect("tar");
        assert!(unpacked.success());
        let mut expected = expected(format);
        assert_eq!(messages(&place), expected, "format {format}, read as it is");
        let level = place.json("query", &["--instance", "web-1", "--level", "error", "-n", "1000"]);
        assert!(!level.is_empty() && level.iter().all(|record| record["pod"] == "web-1"), "format {format}");

        let daemon = place.start_with(ELSEWHERE);
        place.write("new.log", &numbered("new", 3));
        expected.extend(numbered("new", 3));
        wait_for("new records are there", PATIENCE, || (place.records().len() == expected.len()).then_some(()));
        assert_eq!(messages(&place), expected, "format {format}, by a daemon");
        daemon.stop();
        assert_eq!(messages(&place), expected, "format {format}, after it");
        assert!(place.said("repair", &[]).contains("agree"), "format {format}");
        // What was not written to may stay as it is; the catalog is written to at every start.
        let newest = format_of(&place.data());
        assert_eq!(newest, 7, "format {format}");
        // Its books began with what was there.
        crate::verify::assert_whole(&place, expected.len() as u64);
    }
}
