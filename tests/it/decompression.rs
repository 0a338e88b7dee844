//! Small bodies that decode to large ones: the memory of pushes stays within its bound.

use crate::client::over;
use crate::place::{DAYTABLE, PATIENCE, Place, mebibytes};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

/// Concurrent clients.
const CLIENTS: usize = 24;
/// Bytes per record: large, so that a debug build has few records to read.
const RECORD_BYTES: usize = 512 << 10;
const MIB: usize = 1 << 20;

fn lines(bytes: usize) -> Vec<u8> {
    let line = [vec![b'x'; RECORD_BYTES - 1], b"\n".to_vec()].concat();
    line.repeat(bytes / RECORD_BYTES)
}

/// All clients push at once. Each body is accepted whole or refused with a clear code, and accepted records are there
/// once. The peak memory of the process stays below `most(idle memory)`, both in MiB.
fn thrown_at(global: &str, bytes: usize, most: impl Fn(usize) -> usize) {
    let place = Place::new();
    let config = place.configure("");
    let configured = fs::read_to_string(&config).expect("a configuration");
    fs::write(&config, format!("{global}\n{configured}")).expect("written");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(config);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    let to = daemon.address();
    let body = lines(bytes);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&body).expect("memory");
    let bombs = [("gzip", encoder.finish().expect("memory")), ("zstd", zstd::encode_all(&*body, 19).expect("memory"))];
    let idle = mebibytes(daemon.pid(), "VmRSS");
    let answers: Vec<(usize, u16, String)> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (encoding, bomb) = &bombs[number % 2];
                scope.spawn(move || {
                    let stream = TcpStream::connect(to).expect("connected");
                    stream.set_read_timeout(Some(PATIENCE)).expect("set");
                    let headers = format!("Content-Type: text/plain\r\nContent-Encoding: {encoding}\r\n");
                    let target = format!("/ingest?instance=client-{number}");
                    let answer = over(stream, "POST", &target, &headers, bomb).expect("an answer");
                    assert!(answer.status != 503 || answer.head.contains("retry-after:"), "{answer:?}");
                    (number, answer.status, answer.body)
                })
            })
            .collect();
        all.into_iter().map(|client| client.join().expect("no panic")).collect()
    });
    let peak = mebibytes(daemon.pid(), "VmHWM");
    let records = bytes / RECORD_BYTES;
    let mut expected = BTreeMap::new();
    for (number, status, body) in answers {
        match status {
            200 => drop(expected.insert(format!("client-{number}"), records)),
            413 | 429 | 503 => assert!(body.contains("\"error\""), "{body}"),
            _ => panic!("{status}: {body}"),
        }
    }
    assert!(!expected.is_empty(), "one of them is taken always");
    let mut found = BTreeMap::new();
    for record in place.records() {
        *found.entry(record["partition_key"].as_str().expect("a key").to_owned()).or_default() += 1_usize;
    }
    assert_eq!(found, expected);
    place.assert_no_key_twice();
    assert!(peak <= most(idle), "{peak} MiB, of which {idle} MiB before, within {} MiB", most(idle));
    daemon.stop();
}

#[test]
fn bombs_stay_within_the_bound_of_bodies() {
    // The default of `bodies_bytes_max`.
    thrown_at("", 48 * MIB, |idle| idle + 128);
}

#[test]
fn bombs_stay_within_the_memory_there_is() {
    thrown_at("memory_max = \"128MiB\"", 12 * MIB, |_| 128);
}
