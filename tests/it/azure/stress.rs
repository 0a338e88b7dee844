//! `daytable stress` against Azurite: the command reports the throughput, and leaves no table behind.

use super::emulator::{Azurite, wait};
use super::proxy::{Fault, Proxy};
use crate::place::{DAYTABLE, PATIENCE, wait_for};
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};

/// A run with two short loads.
fn stress(connection_string: &str, more: &[&str]) -> Command {
    let mut stress = Command::new(DAYTABLE);
    stress.args(["stress", "--peak", "400", "--partitions", "4", "--in-flight", "4", "--message-bytes", "50"]);
    if !more.contains(&"--for") {
        stress.args(["--for", "2s"]);
    }
    stress.args(more).env("AZURE_STORAGE_CONNECTION_STRING", connection_string).stdin(Stdio::null());
    stress
}

fn objects(output: &Output) -> Vec<Value> {
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{error}", output.status);
    said.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

/// The names of all tables.
fn tables(azurite: &Azurite) -> Vec<String> {
    wait(azurite.client().list_tables("")).expect("listed")
}

#[test]
fn a_load_is_measured_and_nothing_is_left() {
    let azurite = Azurite::start();
    let measured = objects(&stress(&azurite.connection_string(), &["--json"]).output().expect("it runs"));
    let [one, many, advice] = &measured[..] else { panic!("{measured:?}") };
    for (load, partitions) in [(one, 1), (many, 4)] {
        assert_eq!((&load["partitions"], &load["throttled"]), (&partitions.into(), &0.into()), "{load}");
        let number = |name: &str| load[name].as_u64().unwrap_or_else(|| panic!("{name} in {load}"));
        assert!(number("entities") >= 100 && number("entities").is_multiple_of(100), "{load}");
        assert!(number("entities_per_second") > 0, "{load}");
        let latency = |percent: &str| load["latency_seconds"][percent].as_f64().expect("a number");
        assert!(latency("50") > 0.0 && latency("50") <= latency("99") && latency("99") <= latency("100"), "{load}");
    }
    assert!(advice["buckets"].as_u64().is_some_and(|buckets| (1..=256).contains(&buckets)), "{advice}");
    assert_eq!(tables(&azurite), Vec::<String>::new());
    // Text output, a connection string from a file, and access through a configuration.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("azure");
    std::fs::write(&file, azurite.connection_string()).expect("written");
    let config = folder.path().join("daytable.toml");
    std::fs::write(&config, format!("[store]\nkind = \"azure\"\nconnection_string_file = \"{}\"\n", file.display()))
        .expect("written");
    for from in
        [["--connection-string-file", file.to_str().expect("text")], ["--config", config.to_str().expect("text")]]
    {
        let output = stress("", &from).output().expect("it runs");
        let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && said.contains("entities/s") && said.contains("buckets = "), "{said}{error}");
        assert!(error.contains("400 entities/s for 2 s to 1 partition of DaytableStress"), "{error}");
    }
    assert_eq!(tables(&azurite), Vec::<String>::new());
}

#[test]
fn what_is_throttled_is_counted_and_written_in_the_end() {
    let azurite = Azurite::start();
    let proxy = Proxy::start(azurite.port);
    proxy.forget_bodies();
    proxy.plan(|number, asked| (asked.is_transaction() && number % 3 == 1).then_some(Fault::Busy));
    let measured = objects(&stress(&proxy.connection_string(), &["--json"]).output().expect("it runs"));
    for load in &measured[..2] {
        assert!(load["throttled"].as_u64() > Some(0), "{load}");
        assert!(load["entities"].as_u64() >= Some(100), "{load}");
    }
    let (asked, throttled): (Vec<_>, u64) =
        (proxy.asked(), measured[..2].iter().filter_map(|load| load["throttled"].as_u64()).sum());
    let busy = asked.iter().filter(|asked| asked.fault == Some(Fault::Busy)).count();
    assert_eq!(u64::try_from(busy).expect("few"), throttled);
    assert_eq!(tables(&azurite), Vec::<String>::new());
}

#[test]
fn what_no_trying_helps_ends_it() {
    let azurite = Azurite::start();
    let proxy = Proxy::start(azurite.port);
    // First even the creation of the table fails, then every transaction.
    for is_wrong in [|_: &str| true, |target: &str| target.contains("$batch")] {
        proxy.plan(move |_, asked| is_wrong(&asked.target).then_some(Fault::Forbidden));
        let output = stress(&proxy.connection_string(), &[]).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{error}");
        assert!(
            error.contains("AuthenticationFailed") && !error.contains("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1"),
            "{error}"
        );
        assert_eq!(tables(&azurite), Vec::<String>::new());
    }
    let output = stress("AccountName=a", &[]).output().expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{error}");
    assert!(error.contains("AZURE_STORAGE_CONNECTION_STRING: has neither AccountKey"), "{error}");
}

#[test]
fn told_to_stop_it_drops_its_table() {
    let azurite = Azurite::start();
    let mut child: Child = stress(&azurite.connection_string(), &["--for", "1h"]).spawn().expect("it runs");
    wait_for("its table", PATIENCE, || {
        assert_eq!(child.try_wait().expect("a child"), None, "it ended by itself");
        (!tables(&azurite).is_empty()).then_some(())
    });
    let process = rustix::process::Pid::from_raw(child.id().try_into().expect("a number")).expect("a process");
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("told");
    assert_eq!(child.wait().expect("it ends").code(), Some(69));
    assert_eq!(tables(&azurite), Vec::<String>::new());
}
