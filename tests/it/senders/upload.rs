//! `systemd-journal-upload`, with a journal made by `systemd-journal-remote`.

use super::run;
use crate::journal::{entries, entry, write};
use crate::place::{Place, message_of, numbered};
use std::process::Command;

/// Where Debian puts it (package systemd-journal-remote).
pub(super) const JOURNAL_UPLOAD: &str = "/lib/systemd/systemd-journal-upload";

#[test]
fn a_journal_is_uploaded_and_what_is_sent_again_is_there_once() {
    let place = Place::new();
    let folder = place.path("journal");
    std::fs::create_dir(&folder).expect("a folder");
    let file = folder.join("remote.journal");
    let mut lines = numbered("entry", 2000);
    write(&file, &entries(0, &lines));
    let daemon = place.start_with("");
    let upload = || {
        let mut upload = Command::new(JOURNAL_UPLOAD);
        upload.arg("--follow=no");
        upload.arg(format!("--url=http://{}", daemon.address()));
        upload.arg("--directory").arg(&folder).arg(format!("--save-state={}", place.path("state").display()));
        run(&mut upload);
    };
    upload();
    place.wait_for_messages(&lines);
    // The upload continues at its position. Without its state it sends every entry again.
    write(&file, &entry(2000, "PRIORITY=4\nSYSLOG_IDENTIFIER=app\n_PID=42\nMESSAGE=one more"));
    lines.push("one more".into());
    upload();
    place.wait_for_messages(&lines);
    std::fs::remove_file(place.path("state")).expect("removed");
    upload();
    place.wait_for_messages(&lines);
    daemon.stop();
    let records = place.records();
    let record = records.iter().find(|record| message_of(record) == "one more").expect("it is there");
    for (field, expected) in [("partition_key", "web-17"), ("level", "warn"), ("component", "app"), ("host", "web-17")]
    {
        assert_eq!(record[field], expected, "{field} of {record}");
    }
    // The same entries read from the files are rows of their own: an upload cannot overwrite local rows.
    let keys = |place: &Place| {
        let mut keys: Vec<String> = place.records().iter().map(|record| record["row_key"].to_string()).collect();
        keys.sort();
        keys
    };
    let uploaded = keys(&place);
    let daemon = place.start_with(&format!("[[journal]]\ndirectory = \"{}\"\n", folder.display()));
    crate::place::wait_for("the journal was read", crate::place::PATIENCE, || {
        let received = daemon.metric("daytable_records_received_total{source=\"journal\"}")?;
        (received == 2001.0).then_some(())
    });
    daemon.stop();
    let mut both = keys(&place);
    assert_eq!(both.len(), 2 * uploaded.len());
    both.dedup();
    assert_eq!(both.len(), 2 * uploaded.len());
    assert!(uploaded.iter().all(|key| both.contains(key)));
}
