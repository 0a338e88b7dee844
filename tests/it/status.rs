//! The state of the daemon on one screen, and commands that say what is not so.

use crate::place::{DAYTABLE, PATIENCE, Place, numbered, wait_for};
use std::process::Command;

/// `status` shows the daemon's records, disk, next step, troubles and losses. Without a daemon, it fails and names the next step.
#[test]
fn one_screen_shows_the_running_daemon() {
    let place = Place::new();
    place.write("app.log", &numbered("line", 50));
    let daemon = place.start_with(
        "[[tail]]\nname = \"app\"\ninclude = [\"LOGS/*.log\"]\n[[tail]]\nname = \"none\"\ninclude = [\"LOGS/*.none\"]\n\
         [lifecycle]\nmax_bytes = \"1GiB\"\n",
    );
    let status = wait_for("the records are counted", PATIENCE, || {
        place.json("status", &[]).pop().filter(|status| status["records"] == 50)
    });
    assert_eq!(status["troubles"][0]["place"], "none", "{status:#}");
    assert!(status["not_ready"].is_null() && status["next"].as_str().is_some_and(|next| next.contains("Log")));
    let disk = &status["disk"];
    assert!(disk["bytes_max"] == 1 << 30 && disk["bytes"].as_u64() > Some(0) && disk["free_bytes"].as_u64() > Some(0));
    let screen = place.said("status", &[]);
    let heads: Vec<&str> =
        screen.lines().filter_map(|line| line.split(' ').next()).filter(|head| !head.is_empty()).collect();
    assert_eq!(heads, ["daemon", "records", "disk", "next", "verified", "troubles", "losses"], "{screen}");
    wait_for("the table of tomorrow", PATIENCE, || place.said("tables", &[]).contains("ready").then_some(()));
    std::fs::remove_file(place.log("app.log")).expect("removed");
    daemon.stop();
    let gone = place.said("sources", &[]);
    assert!(!gone.contains(" live "), "{gone}");
    let output = place.ask("status", &[]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{error}");
    assert!(error.contains("no daemon runs on") && error.contains("start it: "), "{error}");
}

/// `check FILE` checks this file, whatever the environment names.
#[test]
fn check_takes_the_file_as_its_argument() {
    let place = Place::new();
    let config = place.configure("");
    let check = |args: &[&str]| Command::new(DAYTABLE).arg("check").args(args).output().expect("run");
    let config = config.display().to_string();
    let output = check(&[&config]);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).starts_with(&config), "{output:?}");
    std::fs::write(place.path("wrong.toml"), "nothing = 1\n").expect("written");
    let wrong = place.path("wrong.toml").display().to_string();
    let output = Command::new(DAYTABLE).args(["check", &wrong]).env("DAYTABLE_CONFIG", &config).output().expect("run");
    assert_eq!(output.status.code(), Some(78), "{output:?}");
}
