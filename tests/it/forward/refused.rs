//! Hosts that send what is not theirs, or too much: they are refused, and others go on.

use super::gate::Gate;
use super::*;
use crate::place::mebibytes;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends bytes over a connection of its own, and returns the status of the answer; 0 if there was none.
fn status_of(central: &Central, request: &[u8]) -> u16 {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", central.port)) else { return 0 };
    stream.set_read_timeout(Some(PATIENCE)).expect("a bound");
    // A refusal may come before all was sent.
    let _ = stream.write_all(request);
    let mut answer = [0; 32];
    let read = stream.read(&mut answer).unwrap_or(0);
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A host has the requests of another one, and sends them with its own credential.
#[test]
fn rows_of_another_host_are_refused_with_ones_own_credential() {
    let central = Central::new();
    let running = central.start();
    let gate = Gate::new(central.port);
    gate.widen();
    let (_, code) = central.invite("web-1");
    let victim = Host::new("web-1");
    assert!(victim.join(&(gate.url(), code), &[]).status.success());
    let thief = Host::joined(&central, "web-2");
    let [first, second] = [&victim, &thief].map(Host::start);
    victim.write("app.log", &lines("secret", 0..50));
    thief.write("app.log", &lines("own", 0..50));
    wait_for_all(&central, &[&victim, &thief], 100);
    let word = |host: &Host| fs::read_to_string(host.place.path("forward")).expect("a credential").trim().to_owned();
    let (own, of_victim) = (word(&thief), word(&victim));
    let seen = gate.requests();
    assert!(!seen.is_empty());
    for request in &seen {
        // As it was, it is a repeat, which changes nothing; with the credential of another folder it is none.
        assert!(matches!(status_of(&central, request), 200 | 409));
        let at =
            request.windows(of_victim.len()).position(|bytes| bytes == of_victim.as_bytes()).expect("a credential");
        let mut stolen = request.clone();
        stolen.splice(at..at + of_victim.len(), own.bytes());
        assert_eq!(status_of(&central, &stolen), 403);
    }
    // Nor with one that nobody has used: it does not become that of the other folder, whose own goes on.
    let (_, code) = central.invite("web-3");
    let fresh = Host::new("web-3");
    assert!(fresh.join(&(central.url(), code), &[]).status.success());
    let unused = word(&fresh);
    let mut stolen = seen[0].clone();
    let at = stolen.windows(of_victim.len()).position(|bytes| bytes == of_victim.as_bytes()).expect("a credential");
    stolen.splice(at..at + of_victim.len(), unused.bytes());
    assert_eq!(status_of(&central, &stolen), 409);
    // Both go on, each with its own records.
    victim.write("app.log", &lines("after", 0..50));
    thief.write("app.log", &lines("after", 0..50));
    wait_for_all(&central, &[&victim, &thief], 200);
    assert_eq!(central.place.json("query", &["log_host:=web-3", "-n", "10"]).len(), 0);
    for daemon in [first, second, running] {
        daemon.stop();
    }
}

/// A host floods with bodies beyond all bounds, over many connections; another one goes on, and the memory is bounded.
#[test]
fn a_host_that_floods_harms_no_other() {
    let central = Central::new();
    let bounds = "body_bytes_max = \"1MiB\"\ndecoded_bytes_max = \"4MiB\"\nbodies_bytes_max = \"16MiB\"\n";
    let running = central.place.start_with(&(central.config() + bounds));
    let (calm, wild) = (Host::joined(&central, "web-1"), Host::joined(&central, "web-2"));
    let daemon = calm.start();
    calm.write("app.log", &lines("before", 0..100));
    wait_for_all(&central, &[&calm], 100);
    let credential = fs::read_to_string(wild.place.path("forward")).expect("a credential").trim().to_owned();
    let head = |length: usize| {
        format!(
            "POST /forward/v1/rows HTTP/1.1\r\nHost: central\r\nAuthorization: Bearer {credential}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let statuses = std::thread::scope(|scope| {
        let flooding: Vec<_> = (0..24usize)
            .map(|at| {
                let (is_over, head, central) = (&is_over, &head, &central);
                scope.spawn(move || {
                    let mut statuses = Vec::new();
                    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        // More than there may be, as much as there may be, and the beginning of a page that never ends.
                        let length = [1 << 30, 15 << 20, 2 << 20][at % 3];
                        let body = [b"dtfw\x02".as_slice(), &vec![0x7f; (4 << 20).min(length - 5)]].concat();
                        statuses.push(status_of(central, &[head(length).as_bytes(), &body].concat()));
                    }
                    statuses
                })
            })
            .collect();
        for round in 0..5 {
            calm.write("app.log", &lines(&format!("round {round}"), 0..100));
            std::thread::sleep(Duration::from_millis(300));
        }
        wait_for_all(&central, &[&calm], 600);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        flooding.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect::<Vec<u16>>()
    });
    assert!(statuses.len() >= 24, "{statuses:?}");
    let is_refusal = |status: &u16| matches!(status, 0 | 408 | 413 | 422 | 429 | 503);
    assert!(statuses.iter().all(is_refusal), "{statuses:?}");
    assert!(statuses.contains(&413), "{statuses:?}");
    let used = mebibytes(running.pid(), "VmHWM");
    assert!(used < 256, "{used} MiB");
    assert!(!running.said().contains("panicked"), "{}", running.said());
    daemon.stop();
    running.stop();
    assert_eq!(central.place.json("hosts", &[]).len(), 2);
}

/// `repair` makes the catalog anew as far as it can, and keeps how far the forwarding is, on either side.
#[test]
fn repair_on_either_side_keeps_the_place() {
    let (central, running, host, daemon) = fleet_of_one("before", 200);
    daemon.stop();
    running.stop();
    for (round, repaired) in [&central.place, &host.place].into_iter().enumerate() {
        let said = repaired.said("repair", &[]);
        assert!(!said.is_empty());
        let (running, daemon) = (central.start(), host.start());
        host.write("app.log", &lines(&format!("after repair {round}"), 0..100));
        wait_for_all(&central, &[&host], 300 + 100 * round);
        assert!(!daemon.said().contains("so pages are compared"), "the place is the same: {}", daemon.said());
        let verified = central.place.ask("verify", &["--fleet"]);
        assert!(verified.status.success(), "{verified:?}");
        daemon.stop();
        running.stop();
    }
}
