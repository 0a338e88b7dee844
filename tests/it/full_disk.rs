//! A disk that is full when the daemon starts, after a kill in the middle of a commit: the remains of the commit cannot be
//! removed yet. The daemon runs all the same, and what makes room works.

use crate::client::{Answer, over};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, message_of, wait_for};
use crate::trouble::{SmallDisk, lines_of_noise};
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::{self, Ticks};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

const CONFIG: &str = "[[table]]\nname = \"Log\"\n";

/// The time of a day that is so many days over.
fn days_ago(days: u64) -> Ticks {
    time::now().minus(Duration::from_secs(days * 86_400))
}

/// The day-table of that day.
fn table(days: u64) -> String {
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, days_ago(days)).to_string()
}

/// Pushes records with these messages to each of some days.
fn push(daemon: &Daemon, days: impl IntoIterator<Item = u64>, messages: &[String]) -> std::io::Result<Answer> {
    let times: Vec<String> = days.into_iter().map(|days| days_ago(days).to_string()).collect();
    let records = times.iter().flat_map(|time| {
        messages.iter().map(move |message| {
            format!("{}\n", serde_json::json!({"time": time, "message": format!("{message} of {}", &time[..10])}))
        })
    });
    let body: String = records.collect();
    let stream = TcpStream::connect(daemon.address())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    over(stream, "POST", "/ingest?instance=a", "Content-Type: application/x-ndjson\r\n", body.as_bytes())
}

/// Fills the disk of the data folder with a file.
fn fill(place: &Place) {
    let mut file = File::create(place.data().join("fill")).expect("made");
    let bytes = vec![7; 64 << 10];
    let mut size = bytes.len();
    while size > 0 {
        if file.write(&bytes[..size]).is_err() {
            size /= 2;
        }
    }
}

/// Names and sizes of the files in `trash`.
fn trash(place: &Place) -> Vec<(String, u64)> {
    let files = fs::read_dir(place.data().join("trash")).expect("a folder").map(|file| file.expect("a file"));
    files.map(|file| (file.file_name().to_string_lossy().into_owned(), file.metadata().expect("read").len())).collect()
}

/// The number of records that a question finds.
fn count(place: &Place) -> u64 {
    let counted = place.json("query", &["* | stats count() n"]);
    let n = &counted[0]["n"];
    n.as_u64().or_else(|| n.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{counted:?}"))
}

/// A folder on a full disk, with a commit that was written to three of four days and not to the catalog. The last day has
/// most bytes. Returns the number of records that were committed.
fn torn_on_a_full_disk(place: &Place) -> u64 {
    let daemon = place.start_with(CONFIG);
    let first: Vec<String> = (0..10).map(|number| format!("first {number}")).collect();
    assert_eq!(push(&daemon, 0..4, &first).expect("an answer").status, 200);
    let noise = lines_of_noise();
    for noise in noise[..60_000].chunks(10_000) {
        assert_eq!(push(&daemon, [3], noise).expect("an answer").status, 200);
    }
    daemon.stop();
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(CONFIG)).env("DAYTABLE_FAILPOINT", "commit-between:1");
    let mut daemon = place.spawn_command(command);
    daemon.wait_ready();
    let torn: Vec<String> = noise[60_000..61_000].iter().map(|line| format!("torn {line}")).collect();
    // The daemon ends before it answers.
    assert!(!push(&daemon, 0..3, &torn).is_ok_and(|answer| answer.status == 200));
    daemon.ended();
    fill(place);
    60_040
}

/// The daemon starts, answers questions without the torn commit, and refuses pushes. No start takes any room. Dropping a
/// day makes room: then the torn commit is removed, and pushes are accepted.
#[test]
fn failpoint_a_torn_commit_on_a_full_disk_waits_for_room_which_a_drop_makes() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::mount(&place.data(), "16m") else { return };
    let committed = torn_on_a_full_disk(&place);
    let before = trash(&place);
    for _ in 0..3 {
        let daemon = place.spawn(CONFIG);
        daemon.wait_said("nothing is accepted until there is room on the disk");
        daemon.address();
        wait_for("the start is complete", PATIENCE, || daemon.said().contains(" ready").then_some(()));
        assert_eq!(count(&place), committed);
        let answer = push(&daemon, [0], &["early".into()]).expect("an answer");
        assert!(answer.status == 503 && answer.head.contains("retry-after:"), "{answer:?}");
        let status = place.said("status", &[]);
        assert!(status.contains("store cannot write since") && status.contains("is full"), "{status}");
        // The lifecycle does not wait for room.
        place.said("plan", &[]);
        assert_eq!(trash(&place), before);
        daemon.kill();
    }
    // Without a daemon, a day of the torn commit. It has too few bytes to go on.
    place.said("drop", &["--yes", &table(1)]);
    assert_eq!(count(&place), committed - 10);
    let daemon = place.spawn(CONFIG);
    daemon.wait_said("nothing is accepted until there is room on the disk");
    wait_for("the control socket", PATIENCE, || daemon.socket().exists().then_some(()));
    // What needs room fails, and does not wait.
    let refused = place.ask("archive", &[&*table(2)]);
    assert_eq!(refused.status.code(), Some(75), "{}", String::from_utf8_lossy(&refused.stderr));
    place.said("drop", &["--yes", &table(3)]);
    daemon.wait_ready();
    daemon.wait_said("removed the pages of an unfinished commit");
    assert_eq!(count(&place), 20);
    assert_eq!(push(&daemon, [0, 2], &["late".into()]).expect("an answer").status, 200);
    daemon.stop();
    assert_eq!(count(&place), 22);
    let messages: BTreeSet<String> = place.records().iter().map(message_of).collect();
    assert!(messages.len() == 22 && !messages.iter().any(|message| message.contains("torn")), "{messages:?}");
    place.said("verify", &[]);
    place.assert_no_key_twice();
}

/// Another program fills the disk while the daemon runs: a drop makes room.
#[test]
fn a_drop_makes_room_for_a_daemon_whose_disk_was_filled() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::mount(&place.data(), "16m") else { return };
    let daemon = place.start_with(CONFIG);
    let noise = lines_of_noise();
    for noise in noise[..60_000].chunks(10_000) {
        assert_eq!(push(&daemon, [1], noise).expect("an answer").status, 200);
    }
    assert_eq!(push(&daemon, [0], &["first".into()]).expect("an answer").status, 200);
    fill(&place);
    wait_for("a push is refused", PATIENCE, || {
        let answer = push(&daemon, [0], &noise[..100]).expect("an answer");
        assert_eq!(answer.status, 503, "{answer:?}");
        daemon.said().contains("is full").then_some(())
    });
    place.said("drop", &["--yes", &table(1)]);
    daemon.wait_ready();
    assert_eq!(push(&daemon, [0], &["second".into()]).expect("an answer").status, 200);
    daemon.stop();
    assert_eq!(count(&place), 2);
    place.said("verify", &[]);
}

/// Nothing is lost when the room is made from outside, while the daemon runs.
#[test]
fn failpoint_a_torn_commit_on_a_full_disk_is_removed_once_there_is_room() {
    let place = Place::new();
    let Some(disk) = SmallDisk::mount(&place.data(), "16m") else { return };
    let committed = torn_on_a_full_disk(&place);
    let daemon = place.spawn(CONFIG);
    daemon.wait_said("nothing is accepted until there is room on the disk");
    // A stop while it waits is no failure.
    daemon.address();
    wait_for("the start is complete", PATIENCE, || daemon.said().contains(" ready").then_some(()));
    daemon.stop();
    let daemon = place.spawn(CONFIG);
    daemon.wait_said("nothing is accepted until there is room on the disk");
    disk.grow("64m");
    daemon.wait_ready();
    assert_eq!(push(&daemon, 0..4, &["late".into()]).expect("an answer").status, 200);
    assert_eq!(count(&place), committed + 4);
    daemon.stop();
    let aside: Vec<String> = trash(&place).into_iter().map(|(name, _)| name).collect();
    assert!(
        aside.len() == 3 && aside.iter().all(|name| name.starts_with("set-aside-") && name.ends_with(".db")),
        "{aside:?}"
    );
    assert!(!place.records().iter().any(|record| message_of(record).contains("torn")));
    place.said("verify", &[]);
    place.assert_no_key_twice();
}
