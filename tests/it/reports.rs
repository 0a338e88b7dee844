//! The program's own reports: health, version, manual pages, completions.

use crate::client;
use crate::place::{DAYTABLE, Place};
use std::process::{Command, Output, Stdio};

fn daytable(args: &[&str]) -> Output {
    let mut command = Command::new(DAYTABLE);
    command.args(args).env_remove("DAYTABLE_DATA").env_remove("DAYTABLE_CONFIG").stdin(Stdio::null());
    command.output().expect("daytable can be run")
}

fn said(args: &[&str]) -> String {
    let output = daytable(args);
    assert!(output.status.success(), "{args:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// `healthcheck` succeeds while the daemon is ready, over the socket and over TCP. Without a daemon it fails and names
/// the address.
#[test]
fn a_health_check_asks_whoever_answers() {
    let place = Place::new();
    let daemon = place.start_with("");
    let (data, address) = (place.data().display().to_string(), daemon.address().to_string());
    for asked in [&["--data", &data][..], &["--data", &data, "--live"], &["--address", &address]] {
        assert!(daytable(&[&["healthcheck"], asked].concat()).status.success(), "{asked:?}");
    }
    // Users without access to the socket use the configured listener.
    let config = place.path("other.toml");
    std::fs::write(&config, format!("data_dir = \"/nowhere\"\n[http]\nlisten = \"{address}\"\n")).expect("written");
    assert!(daytable(&["healthcheck", "--config", &config.display().to_string()]).status.success());
    // A folder that is named has no daemon, whatever listens at the address.
    let other = daytable(&["healthcheck", "--data", "/nowhere", "--config", &config.display().to_string()]);
    assert_eq!(other.status.code(), Some(69), "{other:?}");
    assert_eq!(client::over_unix(daemon.socket(), "GET", "/readyz", "").expect("answered").status, 200);
    daemon.stop();
    let gone = daytable(&["healthcheck", "--config", &config.display().to_string()]);
    let error = String::from_utf8_lossy(&gone.stderr);
    assert_eq!(gone.status.code(), Some(69), "{error}");
    assert!(error.contains("not healthy: /nowhere/control.sock: ") && error.contains(&address), "{error}");
}

#[test]
fn the_version_says_what_it_was_built_from() {
    assert_eq!(said(&["-V"]), format!("daytable {}\n", env!("CARGO_PKG_VERSION")));
    let version = said(&["--version"]);
    let lines: Vec<&str> = version.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(lines, ["daytable", "commit:", "features:", "target:"], "{version}");
}

/// Each command has a page, and `man` reads it without a warning. Everything in `--help` is there.
#[test]
fn manual_pages_are_those_of_the_commands() {
    let place = Place::new();
    let folder = place.path("man");
    said(&["man", &folder.display().to_string()]);
    let pages: Vec<String> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|page| page.expect("a page").file_name().to_string_lossy().into_owned())
        .collect();
    let help = said(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for command in commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
        if !command.is_empty() && command != "help" {
            assert!(pages.contains(&format!("daytable-{command}.1")), "{command}: {pages:?}");
        }
    }
    let run = std::fs::read_to_string(folder.join("daytable-run.1")).expect("the page of run");
    assert!(run.contains(".TH") && run.contains("\\-\\-config"), "{run}");
}

/// The shell itself loads the completions.
#[test]
fn completions_are_read_by_the_shell() {
    let place = Place::new();
    let path = place.path("completions.bash");
    std::fs::write(&path, said(&["completions", "bash"])).expect("written");
    let script = ". \"$1\"; COMP_WORDS=(daytable healthch); COMP_CWORD=1; _daytable daytable healthch daytable; echo ${COMPREPLY[@]}";
    let output = Command::new("bash").args(["-c", script, "bash"]).arg(&path).output().expect("bash is there");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "healthcheck\n", "{output:?}");
    for shell in ["zsh", "fish"] {
        assert!(said(&["completions", shell]).contains("healthcheck"), "{shell}");
    }
}
