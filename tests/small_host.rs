//! The program of `cargo build --no-default-features`, for a small host without the remote store.
//!
//! A file is read, a query is answered, a day is sealed and verified. Features of the remote store name the build that
//! has them. With the feature `azure` this file has no tests. The tests of `it` are about that program.

#![cfg(not(feature = "azure"))]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit for reading ten lines on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that ends with its test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn daytable(args: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daytable"));
    command.args(args).current_dir(folder).env_remove("DAYTABLE_DATA").stdin(Stdio::null());
    command.output().expect("daytable can be run")
}

fn printed(args: &[&str], folder: &Path) -> String {
    let output = daytable(args, folder);
    assert!(output.status.success(), "daytable {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn it_reads_files_answers_and_checks_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let lines: String = (0..10).map(|n| format!("2026-11-20T00:00:0{n}Z ERROR disk {n} is full\n")).collect();
    fs::write(folder.join("app.log"), lines).expect("a log");
    let config = "data_dir = \"data\"\n[http]\nlisten = \"127.0.0.1:0\"\n[[tail]]\ninclude = [\"app.log\"]\n";
    let config = config.replace("data\"", &format!("{}\"", folder.join("data").display()));
    let config = config.replace("app.log", &folder.join("app.log").display().to_string());
    fs::write(folder.join("daytable.toml"), config).expect("a configuration");

    let mut daemon = Command::new(env!("CARGO_BIN_EXE_daytable"));
    daemon.args(["run", "--config", "daytable.toml"]).current_dir(folder).stdin(Stdio::null());
    let daemon = Daemon(daemon.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("daytable can be run"));
    let deadline = Instant::now() + PATIENCE;
    let query = ["query", "--data", "data", "--contains", "is full"];
    while !folder.join("data/catalog.db").exists() || printed(&query, folder).lines().count() < 10 {
        assert!(Instant::now() < deadline, "ten records within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(daemon);
    assert_eq!(printed(&query, folder).lines().count(), 10);
    printed(&["verify", "--data", "data"], folder);
}

#[test]
fn it_says_how_to_get_the_remote_store() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("daytable.toml"), "[store]\nkind = \"azure\"\n").expect("a configuration");
    let output = daytable(&["check", "--config", "daytable.toml"], folder.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("build it with the feature \"azure\""), "{said}");
    let version = printed(&["--version"], folder.path());
    assert!(!version.contains("azure"), "{version}");
}
