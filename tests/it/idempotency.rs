//! Idempotency keys with the real binary: a push repeated until its response is there once, despite kills.

use crate::client::{Answer, over};
use crate::place::{Daemon, Place};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

/// Records per push.
const RECORDS: usize = 3;

/// Pushes under a key. `None` if the daemon ends before the response.
fn push(to: SocketAddr, key: usize, body: &str) -> Option<Answer> {
    let headers = format!("Idempotency-Key: key {key}\r\nContent-Type: application/x-ndjson\r\n");
    let stream = TcpStream::connect(to).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    over(stream, "POST", "/ingest?instance=test", &headers, body.as_bytes()).ok()
}

fn body(key: usize) -> String {
    (0..RECORDS).map(|n| format!("{{\"message\":\"push {key} record {n}\"}}\n")).collect()
}

/// Pushes each key over two connections at once until the daemon ends. Removes answered keys from
/// `open`.
fn push_all(to: SocketAddr, open: &Mutex<Vec<usize>>) {
    while let Some(key) = { open.lock().expect("no panic").last().copied() } {
        let (one, other) = std::thread::scope(|scope| {
            let one = scope.spawn(|| push(to, key, &body(key)));
            (push(to, key, &body(key)), one.join().expect("no panic"))
        });
        let answers: Vec<Answer> = [one, other].into_iter().flatten().collect();
        // A failing store refuses, and an ended daemon sends no response.
        let taken: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 200).collect();
        if let Some(first) = taken.first() {
            assert!(taken.iter().all(|answer| answer.body == first.body), "one answer for both: {answers:?}");
            open.lock().expect("no panic").retain(|other| *other != key);
        }
        if answers.len() < 2 {
            return;
        }
    }
}

/// Every push is there once, its repeats get the first response, and another body is refused.
fn assert_once(place: &Place, daemon: Daemon, keys: usize) {
    let to = daemon.address();
    let first = push(to, 0, &body(0)).expect("an answer");
    assert_eq!(first.status, 200, "{first:?}");
    for key in 0..keys {
        let answer = push(to, key, &body(key)).expect("an answer");
        assert_eq!((answer.status, &answer.body), (200, &first.body), "{answer:?}");
    }
    let other = push(to, 0, &body(1)).expect("an answer");
    assert_eq!(other.status, 422, "{other:?}");
    daemon.stop();
    let all = |key: usize| (0..RECORDS).map(move |n| format!("push {key} record {n}"));
    place.wait_for_messages(&(0..keys).flat_map(all).collect::<Vec<_>>());
    place.assert_no_key_twice();
}

#[test]
fn a_push_is_there_once_whatever_is_killed() {
    let place = Place::new();
    let keys = 400;
    let open = Mutex::new((0..keys).collect::<Vec<_>>());
    for pause in (0..).map(|round| 20 + round * 37 % 150) {
        let daemon = place.start_with("");
        let to = daemon.address();
        std::thread::scope(|scope| {
            let pushing = scope.spawn(|| push_all(to, &open));
            std::thread::sleep(Duration::from_millis(pause));
            daemon.kill();
            pushing.join().expect("no panic");
        });
        if open.lock().expect("no panic").is_empty() {
            break;
        }
    }
    assert_once(&place, place.start_with(""), keys);
}

/// Between the two fsyncs, and between the commit point and the answer.
#[cfg(feature = "failpoints")]
#[test]
fn a_push_is_there_once_whichever_part_of_its_commit_is_the_last() {
    use crate::place::DAYTABLE;
    for point in ["commit-between", "commit-after"] {
        for times in 1..=4 {
            let place = Place::new();
            let open = Mutex::new((0..20).collect::<Vec<_>>());
            let mut command = std::process::Command::new(DAYTABLE);
            command.arg("run").arg("--config").arg(place.configure(""));
            command.env("DAYTABLE_FAILPOINT", format!("{point}:{times}"));
            let mut daemon = place.spawn_command(command);
            daemon.wait_ready();
            push_all(daemon.address(), &open);
            assert!(!daemon.ended().success(), "{point} was not reached");
            assert!(!open.lock().expect("no panic").is_empty(), "nobody was left without an answer");
            drop(daemon);
            let daemon = place.start_with("");
            push_all(daemon.address(), &open);
            assert!(open.lock().expect("no panic").is_empty());
            assert_once(&place, daemon, 20);
        }
    }
}
