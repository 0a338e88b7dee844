//! Real senders in common use: every message of each sender is stored word for word.
//!
//! `tests/setup` installs the senders: Debian's packages, and PyPI's in `target/venv`. A test starts each of its
//! senders once. The tests use no other host.

mod logger;
mod page;
mod push;
mod relays;
mod upload;

use crate::place::{Daemon, PATIENCE, Place, installed, message_of, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

/// A `[[syslog]]` block on a free port, or at a path. Its name is the instance of its records.
fn block(name: &str, listen: &str, more: &str) -> String {
    format!("[[syslog]]\nname = \"{name}\"\nlisten = \"{listen}\"\ninstance = \"{name}\"\n{more}\n")
}

/// The port of a listener.
fn port(daemon: &Daemon, name: &str) -> u16 {
    let said = daemon.said();
    let line = said.lines().find(|line| line.contains("taking syslog") && line.contains(&format!("\"{name}\"")));
    let line = line.unwrap_or_else(|| panic!("{name} does not listen: {said}"));
    line.trim_end_matches('"').rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// Runs a sender to its end, which must be a success.
fn run(command: &mut Command) {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: sh tests/setup installs it"));
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
}

/// A running sender. Dropping the value kills the process.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Running {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Running(child.unwrap_or_else(|error| panic!("{program}: {error}: sh tests/setup installs it")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The records by instance.
fn by_instance(place: &Place) -> BTreeMap<String, Vec<Value>> {
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in place.try_records() {
        let instance = record["partition_key"].as_str().expect("an instance").to_owned();
        found.entry(instance).or_default().push(record);
    }
    found
}

/// Waits until each of these instances has exactly these messages, each once.
fn wait_for_all(place: &Place, instances: &[&str], messages: &[String]) {
    let mut expected = messages.to_vec();
    expected.sort();
    wait_for(&format!("{} messages each of {instances:?}", messages.len()), PATIENCE, || {
        let found = by_instance(place);
        let counts: Vec<_> = instances.iter().map(|of| (*of, found.get(*of).map_or(0, Vec::len))).collect();
        assert!(counts.iter().all(|(_, count)| *count <= messages.len()), "too many: {counts:?}");
        counts.iter().all(|(_, count)| *count == messages.len()).then_some(())
    });
    for (instance, records) in by_instance(place) {
        let mut found: Vec<String> = records.iter().map(message_of).collect();
        found.sort();
        assert_eq!(found, expected, "what {instance} has");
    }
}

/// Waits for the record with this message.
fn record(place: &Place, message: &str) -> Value {
    wait_for(message, PATIENCE, || {
        let mut found: Vec<Value> =
            place.try_records().into_iter().filter(|record| message_of(record) == message).collect();
        assert!(found.len() < 2, "{message} is there twice");
        found.pop()
    })
}
