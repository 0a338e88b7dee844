//! Damage to the catalog's table `source_log`, the changes of the latest commits. A working daemon rewrites the table. After
//! a kill the damage is named and refused, and `daytable repair` omits it and keeps all else.

use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, numbered, wait_for};
use crate::verify::assert_whole;
use rusqlite::Connection;
use std::process::{Command, Output};

const TAIL: &str = "\
[[tail]]
include = [\"LOGS/*.log\"]
instance = \"{stem}\"
join = { wait = \"10ms\" }
[store]
commit_interval = \"1ms\"
";

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn catalog(place: &Place) -> Connection {
    let connection = Connection::open(place.data().join("catalog.db")).expect("opened");
    connection.busy_timeout(PATIENCE).expect("set");
    connection
}

/// Flips a bit in the changes of the last commit.
fn damage(place: &Place) {
    let connection = catalog(place);
    let last = "SELECT seq, sources FROM source_log ORDER BY seq DESC LIMIT 1";
    let (seq, mut row): (i64, Vec<u8>) =
        connection.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("a row");
    let at = row.len() / 2;
    row[at] ^= 0x10;
    connection.execute("UPDATE source_log SET sources = ?2 WHERE seq = ?1", (seq, row)).expect("damaged");
}

/// Writes lines one by one, each committed before the next.
fn write_slowly(place: &Place, daemon: &Daemon, name: &str, lines: &[String]) {
    for line in lines {
        let records = || daemon.metric("daytable_records_committed_total").unwrap_or_default();
        let before = records();
        place.write(name, std::slice::from_ref(line));
        wait_for("it is committed", PATIENCE, || (records() > before).then_some(()));
    }
}

/// Whether there are more commits before the stop than one checkpoint covers, or fewer.
#[test]
fn a_daemon_at_work_writes_what_was_damaged_anew() {
    for more in [3, 90] {
        let place = Place::new();
        let daemon = place.start_with(TAIL);
        let lines = numbered("line", 10 + more);
        write_slowly(&place, &daemon, "app.log", &lines[..10]);
        damage(&place);
        write_slowly(&place, &daemon, "app.log", &lines[10..]);
        assert_eq!(daemon.metric("daytable_commit_failures_total"), Some(0.0));
        place.finish(daemon, TAIL, &lines);
        assert_whole(&place, lines.len() as u64 + 1);
    }
}

#[test]
fn what_a_kill_left_is_refused_until_it_is_repaired_and_only_its_commit_is_read_again() {
    let place = Place::new();
    let daemon = place.start_with(TAIL);
    // The lines have no time of their own: a line read twice is there twice.
    let (a, b) = (numbered("of a", 8), numbered("of b", 6));
    write_slowly(&place, &daemon, "a.log", &a[..4]);
    write_slowly(&place, &daemon, "b.log", &b);
    write_slowly(&place, &daemon, "a.log", &a[4..]);
    let address = daemon.address();
    let push = |key: &str| {
        let stream = std::net::TcpStream::connect(address).expect("connected");
        let head = format!("Idempotency-Key: {key}\r\nContent-Type: text/plain\r\n");
        crate::client::over(stream, "POST", "/ingest", &head, b"pushed\n").expect("an answer")
    };
    assert_eq!(push("once").status, 200);
    daemon.kill();
    damage(&place);

    let config = place.configure(TAIL);
    let run = Command::new(DAYTABLE).arg("run").arg("--config").arg(config).output().expect("run");
    for output in [run, place.ask("sources", &[])] {
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(65), "{error}");
        for word in ["catalog.db: the source log of commit", "is damaged", "daytable repair --data"] {
            assert!(error.contains(word), "does not say {word}: {error}");
        }
    }
    let verified = place.ask("verify", &[]);
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert_eq!(verified.status.code(), Some(65), "{said}");
    assert_eq!(said.matches("is damaged: its checksum is another").count(), 1, "{said}");
    assert!(said.contains("daytable repair") && said.contains("not whole: 1 finding;"), "{said}");

    let said = place.said("repair", &[]);
    for word in ["is kept as", "the source log of commit", "left out", "may be read again", "out by -1 records"] {
        assert!(said.contains(word), "does not say {word}: {said}");
    }
    assert!(!said.contains("created again"), "{said}");
    assert!(place.said("repair", &[]).contains("agree"), "the second time there is nothing to repair");
    let pushed = ["pushed".to_owned()];
    assert_whole(&place, 15);
    let daemon = place.start_with(TAIL);
    // The damaged commit had the last line of a.
    let all = [&a[..], &b, &pushed, &a[7..]].concat();
    place.finish(daemon, TAIL, &all);
    assert_whole(&place, all.len() as u64 + 1);
}

/// A commit also fails, so the daemon opens the folder again and finds the damage. A retry would find the same damage.
#[test]
fn a_daemon_that_cannot_open_its_folder_again_ends_and_says_what_to_do() {
    let place = Place::new();
    let mut daemon = place.start_with(TAIL);
    write_slowly(&place, &daemon, "app.log", &numbered("line", 3));
    damage(&place);
    catalog(&place).execute("DELETE FROM file", []).expect("damaged");
    place.write("app.log", &["one more".into()]);
    let status = daemon.ended();
    let said = daemon.said();
    assert_eq!(status.code(), Some(65), "{said}");
    let last = said.lines().last().expect("it says something");
    assert!(last.contains("is damaged") && last.contains("daytable repair --data"), "{said}");
    place.said("repair", &[]);
    place.start_with(TAIL).stop();
}
