//! What the keys of records promise: records of one time stand as they came, a lost data folder gives the same keys again,
//! and two hosts have keys of their own.

use crate::client::over_unix;
use crate::place::{DAYTABLE, PATIENCE, Place, TAIL, append, message_of, wait_for};
use crate::syslog::{address, block};
use daytable_model::time::now;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

/// Rotations, connections and requests.
const ROUNDS: usize = 50;
/// Lines of a file, messages of a connection, records of a request.
const IN_ROUND: usize = 3;

/// The messages of an instance, the oldest first, as a query orders them.
fn messages_of(place: &Place, instance: &str) -> Vec<String> {
    let records = place.json("query", &["-n", "1000000", "--instance", instance]);
    records.iter().rev().map(message_of).collect()
}

/// Creates a file that is younger than another one by the clock of the file system, which goes on every few milliseconds.
fn create_after(place: &Place, name: &str, older: Option<&str>) {
    let born = |name: &str| fs::metadata(place.log(name)).and_then(|file| file.created()).expect("a time of birth");
    wait_for("a later birth", PATIENCE, || {
        fs::write(place.log(name), "").expect("a file");
        let is_later = older.is_none_or(|older| born(older) < born(name));
        if !is_later {
            fs::remove_file(place.log(name)).expect("removed");
        }
        is_later.then_some(())
    });
}

/// A file rotated by rename, connections and requests, with restarts in between: all records have one time of a second.
#[test]
fn records_of_one_time_stand_as_they_came() {
    let place = Place::new();
    let time = now().to_string()[..19].to_owned();
    let config = format!(
        "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"file\"\n{}",
        block("t", "tcp://127.0.0.1:0", "instance = \"connection\"")
    );
    let mut daemon = place.start_with(&config);
    let (mut written, mut older): (String, Option<String>) = (String::new(), None);
    for round in 0..ROUNDS {
        let steps = (0..IN_ROUND).map(|n| round * IN_ROUND + n);
        create_after(&place, "a.log", older.as_deref());
        let mut stream = TcpStream::connect(address(&daemon, "t")).expect("connected");
        let mut body = String::new();
        for step in steps {
            let line = format!("{time}Z INFO step {step}\n");
            append(&place.log("a.log"), line.as_bytes());
            written += &line;
            writeln!(stream, "<13>1 {time}Z h app - - - step {step}").expect("sent");
            body += &format!("{{\"time\":\"{time}Z\",\"msg\":\"step {step}\"}}\n");
        }
        drop(stream);
        let answer = over_unix(daemon.socket(), "POST", "/ingest?instance=request", &body).expect("answered");
        assert_eq!(answer.status, 200, "{}", answer.body);
        if round % 5 == 4 {
            let all = IN_ROUND * (round + 1);
            for instance in ["file", "connection", "request"] {
                wait_for(instance, PATIENCE, || (messages_of(&place, instance).len() == all).then_some(()));
            }
            daemon.stop();
            daemon = place.start_with(&config);
        }
        let rotated = format!("a.log.{}", ROUNDS - round);
        fs::rename(place.log("a.log"), place.log(&rotated)).expect("renamed");
        older = Some(rotated);
    }
    let expected: Vec<String> = (0..ROUNDS * IN_ROUND).map(|step| format!("step {step}")).collect();
    for instance in ["file", "connection", "request"] {
        assert_eq!(messages_of(&place, instance), expected, "{instance}");
    }
    let path = place.log("a.log").display().to_string();
    assert_eq!(place.said("export", &["--raw", "--source", &path]), written);
    let middle = place.json("query", &["--instance", "file", "-n", "1", "-C", "4", "\"step 72\""]);
    assert_eq!(middle.iter().map(message_of).collect::<Vec<_>>(), expected[68..=76], "the records around one");
    daemon.stop();
    assert_eq!(messages_of(&place, "request"), expected, "after the end");
}

/// The clock of the logs is set back and forth between rotations: the order is that of the files.
#[test]
fn the_parts_of_a_rotated_file_come_in_the_order_of_their_births() {
    let place = Place::new();
    let daemon = place.start();
    let (mut written, mut older) = (String::new(), None::<String>);
    for (round, time) in ["10:00", "09:30", "10:30", "08:00", "08:00"].into_iter().enumerate() {
        create_after(&place, "a.log", older.as_deref());
        let line = format!("2026-11-20T{time}:00Z INFO part {round}\n");
        append(&place.log("a.log"), line.as_bytes());
        written += &line;
        wait_for("the part", PATIENCE, || (messages_of(&place, "test").len() == round + 1).then_some(()));
        let rotated = format!("a.log.{}", 9 - round);
        fs::rename(place.log("a.log"), place.log(&rotated)).expect("renamed");
        older = Some(rotated);
    }
    let path = place.log("a.log").display().to_string();
    assert_eq!(place.said("export", &["--raw", "--source", &path]), written);
    daemon.stop();
}

/// The keys of all records, by message.
fn keys(place: &Place, host: &str) -> BTreeSet<(String, String)> {
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(TAIL)).env("DAYTABLE_HOST", host);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    wait_for("the records", PATIENCE, || (place.records().len() == 3).then_some(()));
    let records = place.records();
    daemon.stop();
    fs::remove_dir_all(place.data()).expect("lost");
    let key = |record: &Value| (message_of(record), record["row_key"].as_str().expect("a key").to_owned());
    records.iter().map(key).collect()
}

#[test]
fn a_lost_data_folder_gives_the_same_keys_again_and_another_host_gives_others() {
    let place = Place::new();
    let time = now();
    place.write("a.log", &[format!("{time} INFO one"), format!("{time} INFO two")]);
    place.write("b.log", &[format!("{time} INFO three")]);
    let first = keys(&place, "web-1");
    assert_eq!(keys(&place, "web-1"), first);
    let other = keys(&place, "web-2");
    assert_eq!(other.len(), first.len());
    assert!(other.is_disjoint(&first), "{first:?} {other:?}");
}
