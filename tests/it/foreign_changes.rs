//! Other programs remove or replace files of the data folder: acknowledged records stay, a second daemon cannot start,
//! and losses are reported.

use crate::client;
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, TAIL, wait_for};
use crate::trouble::SmallDisk;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The exit code of a daemon whose folder another program changed, also at the start.
const NOT_WHAT_IT_WAS: i32 = 65;
const IN_USE: i32 = 75;

/// Pushes a line. Returns whether the push was acknowledged.
fn push(socket: &Path, line: &str) -> bool {
    client::over_unix(socket, "POST", "/ingest?instance=test", line).is_ok_and(|answer| answer.status == 200)
}

/// A daemon, and the records it acknowledged.
fn pushed(place: &Place) -> (Daemon, Vec<String>) {
    let daemon = place.start();
    let lines: Vec<String> = (0..20).map(|n| format!("pushed {n}")).collect();
    lines.iter().for_each(|line| assert!(push(daemon.socket(), line), "{line}"));
    (daemon, lines)
}

fn second(place: &Place) -> Output {
    let config = place.path("daytable.toml");
    Command::new(DAYTABLE).arg("run").arg("--config").arg(config).output().expect("daytable can be run")
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Pushes until the daemon ends. Returns the acknowledged records and the exit code.
fn push_to_the_end(daemon: &mut Daemon, socket: &Path) -> (Vec<String>, Option<i32>) {
    let mut acknowledged = Vec::new();
    let status = wait_for("the daemon notices and ends", PATIENCE, || {
        let line = format!("meanwhile {}", acknowledged.len());
        if push(socket, &line) {
            acknowledged.push(line);
        }
        daemon.try_ended()
    });
    (acknowledged, status.code())
}

/// Names, inodes and lengths of all files in the folder. A read-only process leaves them unchanged.
fn looks(place: &Place) -> Vec<(PathBuf, u64, u64)> {
    let is_data = |path: &PathBuf| !path.to_string_lossy().ends_with("-shm");
    let files = crate::place::files_below(&place.data()).into_iter().filter(is_data);
    files
        .map(|path| {
            let metadata = fs::symlink_metadata(&path).expect("there");
            (path, metadata.ino(), metadata.len())
        })
        .collect()
}

#[test]
fn a_lock_that_was_removed_lets_nobody_in() {
    let place = Place::new();
    let (mut daemon, mut lines) = pushed(&place);
    // The daemon stands still, so the folder does not change during the inspection.
    daemon.signal(rustix::process::Signal::STOP);
    fs::remove_file(place.data().join("lock")).expect("removed");
    let before = looks(&place);
    let output = second(&place);
    assert_eq!(output.status.code(), Some(IN_USE), "{}", error_of(&output));
    assert!(error_of(&output).contains("in use"), "{}", error_of(&output));
    assert_eq!(looks(&place), before, "the second one changed something");
    // A command that opens the folder for writing by itself does not start either.
    let output = place.ask("repair", &[]);
    assert_eq!(output.status.code(), Some(IN_USE), "{}", error_of(&output));
    assert_eq!(looks(&place), before);
    let socket = daemon.socket().to_owned();
    daemon.signal(rustix::process::Signal::CONT);
    let (meanwhile, code) = push_to_the_end(&mut daemon, &socket);
    assert_eq!(code, Some(NOT_WHAT_IT_WAS), "{}", daemon.said());
    assert!(daemon.said().contains("/lock"), "{}", daemon.said());
    lines.extend(meanwhile);
    drop(daemon);
    let daemon = place.start();
    place.wait_for_messages(&lines);
    daemon.stop();
    place.wait_for_messages(&lines);
}

/// After any removal, replacement or rename the daemon ends, and the acknowledged records are in its files.
#[test]
fn a_daemon_notices_that_its_folder_is_another() {
    type Act = fn(&Place);
    let acts: [(&str, Act); 5] = [
        ("lock is another file", |place| {
            fs::write(place.data().join("other"), "1\n").expect("written");
            fs::rename(place.data().join("other"), place.data().join("lock")).expect("renamed");
        }),
        ("the folder has another name", |place| {
            fs::rename(place.data(), place.path("moved")).expect("renamed");
        }),
        ("another folder has its name", |place| {
            fs::rename(place.data(), place.path("moved")).expect("renamed");
            fs::create_dir_all(place.data().join("tables")).expect("made");
        }),
        ("catalog.db has another name", |place| {
            fs::rename(place.data().join("catalog.db"), place.path("catalog.db")).expect("renamed");
        }),
        ("its journal has another name", |place| {
            fs::rename(place.data().join("catalog.db-wal"), place.path("catalog.db-wal")).expect("renamed");
        }),
    ];
    for (what, act) in acts {
        let place = Place::new();
        let (mut daemon, mut lines) = pushed(&place);
        let socket = daemon.socket().to_owned();
        daemon.signal(rustix::process::Signal::STOP);
        act(&place);
        daemon.signal(rustix::process::Signal::CONT);
        let (meanwhile, code) = push_to_the_end(&mut daemon, &socket);
        assert_eq!(code, Some(NOT_WHAT_IT_WAS), "{what}: {}", daemon.said());
        lines.extend(meanwhile);
        // Undo the change.
        if place.path("moved").exists() {
            let _ = fs::remove_dir_all(place.data());
            fs::rename(place.path("moved"), place.data()).expect("renamed");
        }
        if place.path("catalog.db").exists() {
            fs::rename(place.path("catalog.db"), place.data().join("catalog.db")).expect("renamed");
        }
        drop(daemon);
        let daemon = place.start();
        place.wait_for_messages(&lines);
        daemon.stop();
        assert_eq!(place.ask("verify", &[]).status.code(), Some(0), "{what}");
    }
}

/// The catalog's journal lost its name, and the disk is full: the journal cannot be moved into the catalog. The daemon says so
/// and ends. With room, and with the name, every acknowledged record is there.
#[test]
fn a_journal_that_cannot_be_rescued_is_left_as_it_is() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.data(), "32m") else { return };
    let (mut daemon, mut lines) = pushed(&place);
    let socket = daemon.socket().to_owned();
    // Keys make the catalog's journal longer than the catalog.
    let mut lengths = (0, 0);
    while lengths.0 <= lengths.1 || lines.len() < 300 {
        let line = format!("with a key {}", lines.len());
        let stream = std::os::unix::net::UnixStream::connect(&socket).expect("connected");
        let key = format!("Idempotency-Key: {line:0>60}\r\n");
        let answer = client::over(stream, "POST", "/ingest?instance=test", &key, line.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        lines.push(line);
        let length = |name: &str| fs::metadata(place.data().join(name)).expect("there").len();
        lengths = (length("catalog.db-wal"), length("catalog.db"));
    }
    daemon.signal(rustix::process::Signal::STOP);
    let filler = place.data().join("filler");
    let mut filling = fs::File::create(&filler).expect("made");
    while filling.write_all(&[0; 1 << 12]).is_ok() {}
    drop(filling);
    fs::rename(place.data().join("catalog.db-wal"), place.data().join("elsewhere")).expect("renamed");
    daemon.signal(rustix::process::Signal::CONT);
    let (acknowledged, code) = push_to_the_end(&mut daemon, &socket);
    assert_eq!((acknowledged, code), (Vec::new(), Some(NOT_WHAT_IT_WAS)), "{}", daemon.said());
    assert!(daemon.said().contains("failed to move the catalog's journal into the catalog"), "{}", daemon.said());
    drop(daemon);
    fs::remove_file(&filler).expect("removed");
    fs::rename(place.data().join("elsewhere"), place.data().join("catalog.db-wal")).expect("renamed");
    let daemon = place.start();
    place.wait_for_messages(&lines);
    daemon.stop();
    assert_eq!(place.ask("verify", &[]).status.code(), Some(0));
    drop(disk);
}

/// A removed file of a day takes its records along. The daemon acknowledges no further record for the day.
#[test]
fn a_daemon_acknowledges_nothing_into_a_file_that_was_removed() {
    let place = Place::new();
    let (mut daemon, lines) = pushed(&place);
    let socket = daemon.socket().to_owned();
    let file = crate::place::files_below(&place.data().join("tables"))
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "db") && has_rows(path))
        .expect("a day");
    let journal = PathBuf::from(format!("{}-wal", file.display()));
    for (path, name) in [(&file, "day.db"), (&journal, "day.db-wal")] {
        fs::rename(path, place.path(name)).expect("renamed");
    }
    let (acknowledged, code) = push_to_the_end(&mut daemon, &socket);
    assert_eq!((acknowledged, code), (Vec::new(), Some(NOT_WHAT_IT_WAS)), "{}", daemon.said());
    drop(daemon);
    assert_eq!(second(&place).status.code(), Some(NOT_WHAT_IT_WAS));
    for (path, name) in [(&file, "day.db"), (&journal, "day.db-wal")] {
        fs::rename(place.path(name), path).expect("renamed");
    }
    let daemon = place.start();
    wait_for("all that was acknowledged is there", PATIENCE, || {
        let messages = place.messages();
        lines.iter().all(|line| messages.get(line) == Some(&1)).then_some(())
    });
    daemon.stop();
}

fn has_rows(path: &Path) -> bool {
    let connection = rusqlite::Connection::open(path).expect("opened");
    connection.query_row("SELECT entities > 0 FROM total", [], |row| row.get(0)).expect("a total")
}

/// The daemon follows no link: the target stays unchanged.
#[test]
fn a_lock_that_leads_elsewhere_is_refused() {
    type Link = fn(&Path, &Path);
    let links: [(&str, Link); 2] = [
        ("symbolic", |to, at| symlink(to, at).expect("linked")),
        ("another name", |to, at| fs::hard_link(to, at).expect("linked")),
    ];
    for (what, link) in links {
        let place = Place::new();
        place.start().stop();
        let (lock, other) = (place.data().join("lock"), place.path("other"));
        fs::remove_file(&lock).expect("removed");
        fs::write(&other, "precious").expect("written");
        link(&other, &lock);
        let output = second(&place);
        assert_eq!(output.status.code(), Some(NOT_WHAT_IT_WAS), "{what}: {}", error_of(&output));
        assert!(error_of(&output).contains("/lock"), "{}", error_of(&output));
        assert_eq!(fs::read_to_string(&other).expect("still there"), "precious", "{what}");
        fs::remove_file(&lock).expect("removed");
        place.start().stop();
    }
}

/// Two folders share one catalog: each would have its own journal for the catalog.
#[test]
fn a_catalog_with_two_names_is_refused() {
    let place = Place::new();
    place.start().stop();
    let other = place.path("catalog.db");
    fs::hard_link(place.data().join("catalog.db"), &other).expect("linked");
    let output = second(&place);
    assert_eq!(output.status.code(), Some(NOT_WHAT_IT_WAS), "{}", error_of(&output));
    assert!(error_of(&output).contains("2 names"), "{}", error_of(&output));
    fs::remove_file(&other).expect("removed");
    place.start().stop();
}

/// Everything the catalog knows about the day is still in the journal. Without the journal the folder looks new.
#[test]
fn a_journal_that_is_lost_is_noticed_and_repaired() {
    let place = Place::new();
    let (daemon, lines) = pushed(&place);
    daemon.kill();
    fs::remove_file(place.data().join("catalog.db-wal")).expect("removed");
    let verify = place.ask("verify", &[]);
    let said = String::from_utf8_lossy(&verify.stdout).into_owned();
    assert_eq!(verify.status.code(), Some(NOT_WHAT_IT_WAS), "{said}");
    assert!(said.contains("20 rows, and the catalog does not name it"), "{said}");
    let before = looks(&place);
    let output = second(&place);
    assert_eq!(output.status.code(), Some(NOT_WHAT_IT_WAS), "{}", error_of(&output));
    assert!(error_of(&output).contains("daytable repair"), "{}", error_of(&output));
    let files = |looks: &[(PathBuf, u64, u64)]| {
        looks.iter().filter(|(path, ..)| path.starts_with(place.data().join("tables"))).cloned().collect::<Vec<_>>()
    };
    assert_eq!(files(&looks(&place)), files(&before), "nothing of the days was changed");
    let said = place.said("repair", &[]);
    assert!(said.contains("20 entities that the catalog did not name: kept"), "{said}");
    assert_eq!(place.ask("verify", &[]).status.code(), Some(0));
    place.wait_for_messages(&lines);
    let daemon = place.start_with(TAIL);
    daemon.stop();
    place.wait_for_messages(&lines);
}
