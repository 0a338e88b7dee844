//! A backup from a running daemon is a whole data folder. A daemon on the backup continues as after a kill.

use crate::place::{DAYTABLE, PATIENCE, Place, TAIL, append, numbered, wait_for};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

fn daytable(args: &[&str]) -> (bool, String) {
    let output = Command::new(DAYTABLE).args(args).env_remove("DAYTABLE_DATA").output().expect("daytable can be run");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said.into_owned())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Records come all the time, over several days that are sealed meanwhile. Each backup is whole: `repair` changes
/// nothing. Each has the records of its moment, once. In the end a backup replaces the folder, and every record is
/// there once.
#[test]
fn each_of_several_backups_of_a_busy_folder_takes_its_place() {
    let place = Place::new();
    let config = format!(
        "{TAIL}[[table]]\nname = \"Log\"\nkeep = \"36500d\"\n[lifecycle]\nschedule = \"* * * * * *\"\nseal_after = \"0s\"\n"
    );
    let daemon = place.start_with(&config);
    // The end of a day counts only once a record confirms the clock.
    let now = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ INFO of today"]).output().expect("date").stdout;
    append(&place.log("app.log"), &now);
    let mut lines = vec!["of today".to_owned()];
    for round in 0..6 {
        // A day in the past, which is sealed within the second, and today's.
        let day = format!("2026-11-1{round}T08:00:00Z INFO old {round}");
        let more = numbered(&format!("a line of round {round}, number"), 3_000);
        append(&place.log("app.log"), format!("{day}\n").as_bytes());
        place.write("plain.log", &more);
        lines.push(format!("old {round}"));
        lines.extend(more);
        let folder = place.path(&format!("backup-{round}"));
        let (good, said) = daytable(&["backup", "--data", &text(&place.data()), &text(&folder)]);
        assert!(good, "{said}");
        // Another process reads while the daemon continues: no key comes twice.
        let (good, said) = daytable(&["query", "--data", &text(&folder), "--json", "-n", "1000000"]);
        assert!(good, "{said}");
        let (good, said) = daytable(&["repair", "--data", &text(&folder)]);
        assert!(good && said.contains("agree"), "{said}");
    }
    place.wait_for_messages(&lines);
    // The last backup comes after the seal of a day, with and without hard links.
    wait_for("a day is sealed", PATIENCE, || {
        place.json("tables", &[]).iter().any(|table| table["state"] == "sealed").then_some(())
    });
    for (how, links) in [("--copy", 1), ("--log=info", 2)] {
        let folder = place.path(&format!("backup{how}"));
        let (good, said) = daytable(&["backup", how, "--data", &text(&place.data()), &text(&folder)]);
        assert!(good, "{said}");
        let sealed = fs::read_dir(folder.join("tables")).expect("a folder").filter_map(Result::ok);
        let sealed: Vec<_> = sealed.filter(|entry| entry.path().extension().is_some_and(|e| e == "parquet")).collect();
        assert!(!sealed.is_empty());
        for file in sealed {
            assert!(file.metadata().expect("metadata").nlink() >= links, "{file:?}");
        }
    }
    daemon.stop();

    for round in [0, 3, 5] {
        fs::remove_dir_all(place.data()).expect("the folder is lost");
        fs::rename(place.path(&format!("backup-{round}")), place.data()).expect("brought back");
        let daemon = place.start_with(&config);
        place.wait_for_messages(&lines);
        place.assert_no_key_twice();
        daemon.stop();
    }
}

/// A backup overwrites no existing folder. A backup of another kind of folder fails and leaves no file.
#[test]
fn a_backup_goes_to_a_folder_of_its_own() {
    let place = Place::new();
    let (none, folder) = (place.path("none"), place.path("backup"));
    let (good, said) = daytable(&["backup", "--data", &text(&none), &text(&folder)]);
    assert!(!good && said.contains("not a data folder"), "{said}");
    assert!(!folder.exists());
    place.write("app.log", &numbered("line", 10));
    place.said("import", &[&text(&place.log("app.log"))]);
    fs::create_dir(&folder).expect("a folder");
    let (good, said) = daytable(&["backup", "--data", &text(&place.data()), &text(&folder)]);
    assert!(good, "{said}");
    let (good, said) = daytable(&["backup", "--data", &text(&place.data()), &text(&folder)]);
    assert!(!good && said.contains("not empty"), "{said}");
    let mode = fs::metadata(folder.join("catalog.db")).expect("metadata").mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// A daemon was killed in the middle of a commit and none was started since. The pages of that commit never happened: `verify` counts
/// none of their records, and a backup has what was committed. Needs a build with failpoints.
#[cfg(feature = "failpoints")]
#[test]
fn a_folder_whose_daemon_was_killed_in_a_commit_is_backed_up() {
    let place = Place::new();
    let first = numbered("of the first commit", 10);
    place.write("app.log", &first);
    let daemon = place.start_with(TAIL);
    place.wait_for_messages(&first);
    daemon.stop();
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(TAIL)).env("DAYTABLE_FAILPOINT", "commit-between:1");
    let mut daemon = place.spawn_command(command);
    let second = numbered("of the second commit", 7);
    place.write("app.log", &second);
    wait_for("the daemon is killed", PATIENCE, || daemon.has_ended().then_some(()));
    let whole = place.said("verify", &[]);
    assert!(whole.contains("whole: 10 records"), "{whole}");
    let folder = place.path("backup");
    let (good, said) = daytable(&["backup", "--data", &text(&place.data()), &text(&folder)]);
    assert!(good, "{said}");
    let (good, said) = daytable(&["count", "--data", &text(&folder)]);
    assert!(good && said.contains("10"), "{said}");
    // A daemon on the copy goes on from there.
    fs::remove_dir_all(place.data()).expect("the folder is removed");
    fs::rename(&folder, place.data()).expect("the copy takes its place");
    let daemon = place.start_with(TAIL);
    place.wait_for_messages(&[first, second].concat());
    daemon.stop();
    place.assert_no_key_twice();
}
