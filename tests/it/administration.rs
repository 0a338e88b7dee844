//! An administrator's view: a configuration without a file, and the doctor.

use crate::place::{DAYTABLE, PATIENCE, Place, numbered, wait_for};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

/// A sidecar without a file: all configuration comes from the environment, and an error names its variable.
#[test]
fn the_environment_is_enough() {
    let place = Place::new();
    let set = |command: &mut Command| {
        command
            .env("DAYTABLE_DATA_DIR", place.data())
            .env("DAYTABLE_TAIL_INCLUDE", place.log("*.log"))
            .env("DAYTABLE_TAIL_0_INSTANCE", "sidecar")
            .env("DAYTABLE_HTTP_LISTEN", "off")
            .env("DAYTABLE_TABLE_0_NAME", "Pod")
            .env("DAYTABLE_TABLE_0_KEEP", "2d")
            .env("DAYTABLE_SERVICE_HOST", "10.0.0.1")
            .env("DAYTABLE_PORT_7878_TCP", "tcp://10.0.0.1:7878");
    };
    let mut command = Command::new(DAYTABLE);
    command.arg("run").env_remove("DAYTABLE_CONFIG");
    set(&mut command);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    let lines = numbered("line", 10);
    place.write("app.log", &lines);
    place.wait_for_messages(&lines);
    let record = place.records().remove(0);
    assert!(record["table"].as_str().is_some_and(|table| table.starts_with("Pod20")), "{record}");
    assert_eq!(record["partition_key"], "sidecar");
    let mut healthy = Command::new(DAYTABLE);
    healthy.arg("healthcheck");
    set(&mut healthy);
    assert!(healthy.output().expect("run").status.success());
    daemon.stop();

    let mut check = Command::new(DAYTABLE);
    check.arg("check").env_remove("DAYTABLE_CONFIG").stdin(Stdio::null());
    set(&mut check);
    let output = check.env("DAYTABLE_HTTP_LISTN", "off").output().expect("run");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{error}");
    assert!(
        error.contains("DAYTABLE_HTTP_LISTN: unknown key \"listn\" in [http], did you mean \"listen\"?"),
        "{error}"
    );
}

fn doctor(place: &Place, config: &str) -> (Option<i32>, Vec<Value>) {
    let path = place.configure(config);
    let output = place.ask("doctor", &["--json", "--config", &path.display().to_string()]);
    let text = String::from_utf8(output.stdout).expect("text");
    (output.status.code(), text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect())
}

/// The doctor finds usual mistakes, each with advice. A good configuration gets no advice.
#[test]
fn the_doctor_finds_the_usual_mistakes() {
    let place = Place::new();
    place.write("app.log", &["line".into()]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let config = format!(
        "[http]\nlisten = \"{}\"\n[[tail]]\ninclude = [\"LOGS/*.log\", \"{}\"]\n[[tail]]\nname = \"none\"\ninclude = [\"LOGS/*.none\"]\n",
        taken.local_addr().expect("an address"),
        place.data().join("**/*.db").display()
    );
    let daemon = place.start_with("[http]\nlisten = \"off\"\n");
    wait_for("the folder is made", PATIENCE, || place.data().join("catalog.db").exists().then_some(()));
    daemon.stop();
    let (code, findings) = doctor(&place, &config);
    assert_eq!(code, Some(69), "{findings:#?}");
    let find = |check: &str, verdict: &str, found: &str| {
        let is_it = |finding: &&Value| {
            finding["check"] == check
                && finding["verdict"] == verdict
                && finding["found"].as_str().is_some_and(|text| text.contains(found))
        };
        let finding = findings.iter().find(is_it).unwrap_or_else(|| panic!("{check} {verdict} {found}: {findings:#?}"));
        assert_eq!(finding["advice"].is_null(), verdict == "ok", "{finding}");
    };
    find("port", "fail", "is taken");
    find("files", "fail", "reads the data folder itself");
    find("files", "warn", "[[tail]] \"none\" finds no file to read");
    find("files", "warn", "[[tail]] \"none\": no file matches");
    find("clock", "ok", "UTC");
    find("daemon", "warn", "none runs");
    // A good configuration, with a running daemon.
    let config = "[[tail]]\ninclude = [\"LOGS/*.log\"]\n";
    let daemon = place.start_with(config);
    let (code, findings) = doctor(&place, config);
    // The folder of a test may be on a tmpfs, which is a warning.
    assert_eq!(code, Some(0), "{findings:#?}");
    assert!(findings.iter().any(|finding| finding["found"] == "it runs and is ready"), "{findings:#?}");
    daemon.stop();
    fs::write(place.path("daytable.toml"), "nothing = 1\n").expect("written");
    let path = place.path("daytable.toml").display().to_string();
    let refused = place.ask("doctor", &["--config", &path]);
    let said = String::from_utf8_lossy(&refused.stdout);
    assert!(refused.status.code() == Some(69) && said.contains("FAIL  configuration: "), "{said}");
}
