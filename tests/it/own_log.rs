//! The log of the daemon: what the log must not contain, and that the daemon does not read it as a source.

use crate::client;
use crate::journal::{entry, write as write_journal};
use crate::place::{DAYTABLE, Place, numbered};
use crate::syslog::{block, by_message};
use serde_json::Value;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

/// Standard error goes to a file that a block follows: the daemon does not read the file, and says so.
#[test]
fn a_file_that_the_daemon_logs_to_is_not_read() {
    let place = Place::new();
    let config = format!(
        "[[tail]]\ninclude = [\"{}\", \"LOGS/*.log\"]\ninstance = \"test\"\njoin = {{ lines_max = 1 }}\n",
        place.path("daemon-*.log").display()
    );
    let daemon = place.start_with(&config);
    daemon.wait_said("file is not read: the daemon's own output goes to it path=");
    let lines = numbered("line", 20);
    place.write("app.log", &lines);
    place.wait_for_messages(&lines);
    daemon.stop();
    place.wait_for_messages(&lines);
}

/// Messages of the daemon come back through the journal and syslog: they are skipped, and messages of others are not.
#[test]
fn its_own_messages_are_skipped() {
    let place = Place::new();
    let (folder, socket) = (place.path("journal"), place.path("log"));
    fs::create_dir(&folder).expect("a folder");
    let config = [
        format!("[[journal]]\ndirectory = \"{}\"\n", folder.display()),
        block("local", &format!("unix-dgram://{}", socket.display()), ""),
        "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n".into(),
    ]
    .concat();
    let daemon = place.start_with(&config);
    let pid = daemon.pid();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot").trim().replace('-', "");
    let own = entry(0, &format!("PRIORITY=6\n_PID={pid}\n_COMM=daytable\nMESSAGE=own entry"));
    let own = own.replace("11111111111111111111111111111111", &boot);
    let other = entry(1, &format!("PRIORITY=6\n_PID={pid}\n_COMM=daytable\nMESSAGE=entry of another boot"));
    let host = entry(2, &format!("PRIORITY=6\n_PID={pid}\n_COMM=systemd\nMESSAGE=entry of another process"));
    let host = host.replace("11111111111111111111111111111111", &boot);
    write_journal(&folder.join("remote.journal"), &format!("{own}{other}{host}"));
    let local = UnixDatagram::unbound().expect("a socket");
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (from, message) in
        [(format!("daytable[{pid}]"), "own message"), (format!("daytable[{}]", pid + 1), "message of another daytable")]
    {
        local.send_to(format!("<13>Nov 21 08:00:00 {from}: {message}").as_bytes(), &socket).expect("sent");
        let line = format!("Nov 21 08:00:00 {host} {from}: {message} in a file");
        place.write("syslog.log", &[line, format!("Nov 21 08:00:00 elsewhere {from}: {message} of another host")]);
    }
    let expected = [
        "entry of another boot",
        "entry of another process",
        "message of another daytable",
        "message of another daytable in a file",
        "message of another daytable of another host",
        "own message of another host",
    ];
    place.wait_for_messages(&expected.map(str::to_owned));
    crate::syslog::wait_metric(&daemon, "daytable_own_records_passed_over_total", 3.0);
    daemon.stop();
}

/// After any error, and at any level, the log has no secret and no content of a record. In JSON every line is an object.
#[test]
fn the_log_has_no_secret_and_no_record() {
    const CANARY: &str = "canary4711secret";
    let place = Place::new();
    let token = place.path("token");
    fs::write(&token, format!("{CANARY}-token")).expect("written");
    let credentials = place.path("credentials.toml");
    fs::write(&credentials, format!("[[credential]]\nname = \"web\"\ntoken = \"{CANARY}-credential\"\n"))
        .expect("written");
    let config = [
        format!(
            "[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\ncredentials_file = \"{}\"\n",
            token.display(),
            credentials.display()
        ),
        block("tcp", &format!("unix-dgram://{}", place.path("log").display()), "message_bytes_max = \"1KiB\""),
        "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\nline_bytes_max = \"1KiB\"\nformat = \"json\"\n"
            .into(),
    ]
    .concat();
    let path = place.configure(&config);
    let text =
        fs::read_to_string(&path).expect("read").replace("level = \"debug\"", "level = \"trace\"\nformat = \"json\"");
    fs::write(&path, text).expect("written");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(&path);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    place.write(
        "app.log",
        &[format!("{{\"msg\":\"{CANARY}"), CANARY.repeat(500), format!("{{\"password\":\"{CANARY}\"}}")],
    );
    let local = UnixDatagram::unbound().expect("a socket");
    local.send_to(format!("<13>{}", CANARY.repeat(100)).as_bytes(), place.path("log")).expect("sent");
    for (target, body) in [
        ("/ingest", format!("[{{\"msg\":\"{CANARY}\"")),
        ("/v1/logs", CANARY.into()),
        ("/loki/api/v1/push", format!("{{\"streams\":[{{\"stream\":{{\"a\":\"{CANARY}\"}},\"values\":3}}]}}")),
        ("/elasticsearch/_bulk", format!("{{\"{CANARY}\":1}}\n")),
    ] {
        let answer = client::over_unix(daemon.socket(), "POST", target, &body).expect("answered");
        assert_ne!(answer.status, 500, "{target}: {}", answer.body);
    }
    let address = {
        let said = daemon.said();
        let line = said.lines().find(|line| line.contains("\"message\":\"listening\"")).expect("it listens").to_owned();
        let line: Value = serde_json::from_str(&line).expect("an object");
        line["address"].as_str().expect("an address").parse().expect("an address")
    };
    for headers in
        [format!("Authorization: Bearer {CANARY}-token\r\n"), format!("Authorization: Bearer {CANARY}-wrong\r\n")]
    {
        client::over_tcp(address, "GET", &format!("/api/query?contains={CANARY}"), &headers).expect("answered");
        client::over_tcp(address, "POST", "/ingest", &headers).expect("answered");
    }
    // Errors name a wrong file of secrets and do not quote it.
    fs::write(&credentials, format!("[[credential]]\nname = \"web\"\ntoken = \"{CANARY} two words\"\n"))
        .expect("written");
    let answer = client::over_unix(daemon.socket(), "POST", "/-/reload", "").expect("answered");
    assert!(answer.status == 409 && !answer.body.contains(CANARY), "{}", answer.body);
    by_message(&place, &CANARY.repeat(500)[..1024]);
    let said = daemon.said();
    daemon.stop();
    assert!(!said.contains(CANARY), "{}", said.lines().find(|line| line.contains(CANARY)).unwrap_or_default());
    for line in said.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(["time", "level", "message", "component"].iter().all(|key| line[key].is_string()), "{line}");
    }
    assert!(said.contains("\"level\":\"debug\""), "it says much");
}
