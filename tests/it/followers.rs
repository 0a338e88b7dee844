//! Followers that send or do not read, and questions that make texts: the memory of the daemon stays bounded.

use crate::client::{encoded, over};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, mebibytes};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

const MIB: usize = 1 << 20;
/// What all of it may take. A debug build is larger than a release.
const PEAK_MIB: usize = 300;

fn start(place: &Place, global: &str) -> Daemon {
    let config = place.configure("");
    let configured = fs::read_to_string(&config).expect("a configuration");
    fs::write(&config, format!("{global}\n{configured}")).expect("written");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(config);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    daemon
}

/// A websocket that follows all entries, behind the head of its answer.
fn follower(daemon: &Daemon) -> UnixStream {
    let mut stream = UnixStream::connect(daemon.socket()).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    let head = "Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let target = "/loki/api/v1/tail?query=%7Binstance%3D~%22.%2B%22%7D";
    stream.write_all(format!("GET {target} HTTP/1.1\r\n{head}").as_bytes()).expect("written");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the head of the answer");
        answer.push(byte[0]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    stream
}

/// A client that sends a message without an end is cut off, instead of being kept.
#[test]
fn unfinished_messages_of_followers_are_not_kept() {
    let place = Place::new();
    let daemon = start(&place, "memory_max = \"128MiB\"");
    let mut followers: Vec<UnixStream> = (0..8).map(|_| follower(&daemon)).collect();
    let mut sent = 0;
    for stream in &mut followers {
        for part in 0..32u8 {
            let mut frame = vec![u8::from(part == 0), 255];
            frame.extend_from_slice(&(MIB as u64).to_be_bytes());
            frame.extend_from_slice(&[0; 4]);
            frame.resize(frame.len() + MIB, b'a');
            // The daemon closes a connection whose message is too long.
            if stream.write_all(&frame).is_err() {
                break;
            }
            sent += MIB;
        }
        let closed = stream.read_to_end(&mut Vec::new());
        assert!(closed.is_ok() || sent < 8 * 32 * MIB, "a message of any length is taken");
    }
    let peak = mebibytes(daemon.pid(), "VmHWM");
    assert!(peak < PEAK_MIB, "{peak} MiB");
    daemon.stop();
}

/// Frames for clients that do not read are bounded by bytes.
#[test]
fn frames_for_followers_that_do_not_read_are_bounded() {
    let place = Place::new();
    let daemon = start(&place, "");
    let followers: Vec<UnixStream> = (0..8).map(|_| follower(&daemon)).collect();
    for batch in 0..12 {
        let record = |n: usize| format!("{{\"msg\":\"{batch} {n} {}\"}}\n", "y".repeat(900_000));
        let body: String = (0..8).map(record).collect();
        let stream = UnixStream::connect(daemon.socket()).expect("connected");
        let headers = "Content-Type: application/x-ndjson\r\n";
        let answer = over(stream, "POST", "/ingest?instance=web", headers, body.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let peak = mebibytes(daemon.pid(), "VmHWM");
    assert!(peak < 2 * PEAK_MIB, "{peak} MiB");
    drop(followers);
    daemon.stop();
}

/// Texts that questions make of one record are refused with the reason, in both languages.
#[test]
fn texts_that_questions_make_are_refused() {
    let place = Place::new();
    let daemon = start(&place, "");
    let ask = |target: &str, body: &[u8]| {
        let stream = UnixStream::connect(daemon.socket()).expect("connected");
        let method = if body.is_empty() { "GET" } else { "POST" };
        over(stream, method, target, "Content-Type: application/x-www-form-urlencoded\r\n", body).expect("an answer")
    };
    let stream = UnixStream::connect(daemon.socket()).expect("connected");
    let pushed = over(
        stream,
        "POST",
        "/ingest?instance=web",
        "Content-Type: application/x-ndjson\r\n",
        b"{\"msg\":\"hello\"}\n",
    );
    assert_eq!(pushed.expect("an answer").status, 200);
    let pipe = format!("| format \"{}\" as message ", "<message>".repeat(32));
    let q = format!("* {}| len(message) as n", pipe.repeat(6));
    let refused = ask(&format!("/api/query?q={}", encoded(&q)), b"");
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(refused.body.contains("would be longer than 2MiB"), "{}", refused.body);
    let replaced = "{{ replace `b` (repeat 1000000 `c`) (repeat 1000000 `b`) }}";
    let logql = format!("{{instance=~\".+\"}} | line_format \"{replaced}\"");
    let refused = ask("/loki/api/v1/query_range", format!("query={}", encoded(&logql)).as_bytes());
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert!(refused.body.contains("would be longer than 2MiB"), "{}", refused.body);
    let peak = mebibytes(daemon.pid(), "VmHWM");
    assert!(peak < PEAK_MIB, "{peak} MiB");
    daemon.stop();
}

/// Rows and groups that outgrow the memory of a question are answered from a file, and what cannot be answered is refused
/// before its first line: by its status, also where an export is asked for.
#[test]
fn what_outgrows_the_memory_is_answered_or_refused_by_its_status() {
    const RECORDS: usize = 24_000;
    let place = Place::new();
    // A question has 48 MiB, and uses its file from 24 MiB on.
    let daemon = start(&place, "memory_max = \"192MiB\"");
    for part in 0..12 {
        let line = |n: usize| {
            let id = (part * (RECORDS / 12) + n).wrapping_mul(7_919) % RECORDS;
            format!("{{\"msg\":\"{}\",\"id\":\"id-{id:06}-{}\"}}\n", "x".repeat(900), "y".repeat(40))
        };
        let body: String = (0..RECORDS / 12).map(line).collect();
        let stream = UnixStream::connect(daemon.socket()).expect("connected");
        let headers = "Content-Type: application/x-ndjson\r\n";
        let answer = over(stream, "POST", "/ingest?instance=web", headers, body.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let ask = |q: &str| {
        let stream = UnixStream::connect(daemon.socket()).expect("connected");
        over(stream, "GET", &format!("/api/export?format=ndjson&q={}", encoded(q)), "", b"").expect("an answer")
    };
    for (q, rows) in [
        ("* | sort by (id) | fields id", RECORDS),
        ("* | stats by (id) count() n | sort by (id)", RECORDS),
        ("* | stats count_uniq(id) n", 1),
    ] {
        let answer = ask(q);
        assert_eq!(answer.status, 200, "{q}: {:.300}", answer.body);
        let lines: Vec<&str> = answer.body.lines().collect();
        assert_eq!(lines.len(), rows, "{q}: {:?}", lines.last());
        let is_sorted = lines.is_sorted();
        assert!(is_sorted, "{q}");
    }
    assert_eq!(ask("* | stats count_uniq(id) n").body.trim(), format!("{{\"n\":{RECORDS}}}"));
    for q in ["* | stats values(message) v", "* | sort by (id) | stats uniq_values(message) a, values(message) v"] {
        let refused = ask(q);
        assert_eq!(refused.status, 422, "{q}: {:.300}", refused.body);
        assert!(refused.body.contains("narrow the query") && refused.body.len() < 1000, "{q}: {:.300}", refused.body);
    }
    // The files are gone with their questions.
    let open = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("its files");
    let links = open.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let left: Vec<_> = links.filter(|link| link.to_string_lossy().contains("(deleted)")).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
    let peak = mebibytes(daemon.pid(), "VmHWM");
    assert!(peak < 2 * PEAK_MIB, "{peak} MiB");
    daemon.stop();
}

#[test]
fn too_little_memory_is_refused_at_the_start() {
    let place = Place::new();
    let config = place.configure("");
    let configured = fs::read_to_string(&config).expect("a configuration");
    fs::write(&config, format!("memory_max = \"63MiB\"\n{configured}")).expect("written");
    let refused = Command::new(DAYTABLE).arg("run").arg("--config").arg(config).output().expect("run");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("memory_max") && said.contains("64MiB"), "{said}");
}
