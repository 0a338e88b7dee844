//! The configuration is reloaded while the daemon runs: no record is lost or duplicated, and a wrong configuration
//! changes nothing.

use crate::activation;
use crate::client;
use crate::journal::{entries, write as write_journal};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, append, message_of, numbered, wait_for};
use crate::syslog::{address, block, by_message, flood, in_the_ledger};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes a new configuration and reloads it, by the command that `systemctl reload` runs.
fn reload(place: &Place, config: &str) -> Output {
    place.configure(config);
    place.ask("reload", &["--json"])
}

/// Reloads with success. Returns the changed keys, and the keys that need a restart.
fn reloaded(place: &Place, config: &str) -> (Vec<String>, Vec<String>) {
    let output = reload(place, config);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {error}", output.status);
    let said: Value = serde_json::from_slice(&output.stdout).expect("an object");
    let names = |key: &str| {
        let names = said[key].as_array().expect("a list").iter();
        names.map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    (names("changed"), names("needs_restart"))
}

const WITHOUT_JOINING: &str = "instance = \"test\"\njoin = { lines_max = 1 }\n";

/// The running daemon stays on its folder until it is started again.
#[test]
fn a_reload_after_a_change_of_the_data_folder_finds_the_daemon() {
    let place = Place::new();
    let daemon = place.start();
    let config = place.path("daytable.toml");
    let text = fs::read_to_string(&config).expect("read");
    let (old, new) = (place.data().display().to_string(), place.path("new").display().to_string());
    fs::write(&config, text.replacen(&old, &new, 1)).expect("written");
    let reload = |more: &[&str]| {
        let mut daytable = Command::new(DAYTABLE);
        daytable.arg("reload").arg("--config").arg(&config).args(more).env_remove("DAYTABLE_DATA");
        daytable.output().expect("run")
    };
    let output = reload(&[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "needs a restart: data_dir\n", "{}", String::from_utf8_lossy(&output.stderr));
    // A folder that is named is meant.
    assert_eq!(reload(&["--data", &new]).status.code(), Some(69));
    daemon.stop();
    assert_eq!(reload(&[]).status.code(), Some(69));
}

/// Lines come all the time, into files that stay, are renamed or are removed while open. Meanwhile blocks are added,
/// removed and changed. Each line is there once.
#[test]
fn files_are_read_once_however_often_their_blocks_change() {
    let place = Place::new();
    let first = format!("[[tail]]\nname = \"one\"\ninclude = [\"LOGS/a*.log\"]\n{WITHOUT_JOINING}");
    let both =
        format!("{first}[[tail]]\nname = \"two\"\ninclude = [\"LOGS/b.log\"]\npoll = \"50ms\"\n{WITHOUT_JOINING}");
    let other = format!("[[tail]]\nname = \"all\"\ninclude = [\"LOGS/*.log\"]\nformat = \"plain\"\n{WITHOUT_JOINING}");
    let daemon = place.start_with(&both);
    let is_over = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut lines = Vec::new();
            let mut removed: Option<fs::File> = None;
            for number in 0.. {
                if is_over.load(Ordering::Acquire) {
                    break;
                }
                for name in ["a1.log", "a2.log", "b.log"] {
                    let line = format!("{name} line {number} of many");
                    append(&place.log(name), format!("{line}\n").as_bytes());
                    lines.push(line);
                }
                if number % 300 == 100 {
                    fs::rename(place.log("a1.log"), place.log(&format!("a1.log.{number}"))).expect("renamed");
                }
                if let Some(file) = &mut removed {
                    let line = format!("removed line {number}");
                    file.write_all(format!("{line}\n").as_bytes()).expect("written");
                    lines.push(line);
                }
                if number == 50 {
                    let path = place.log("a-removed.log");
                    append(&path, b"removed line first\n");
                    lines.push("removed line first".into());
                    place.wait_for_some("removed line first");
                    removed = fs::File::options().append(true).open(&path).ok();
                    fs::remove_file(&path).expect("removed");
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            lines
        });
        for _ in 0..4 {
            assert_eq!(reloaded(&place, &first).0, ["tail \"two\" (gone)"]);
            assert_eq!(reloaded(&place, &both).0, ["tail \"two\" (new)"]);
            let (changed, restart) = reloaded(&place, &other);
            assert_eq!((changed.len(), restart.len()), (3, 0), "{changed:?}");
            assert_eq!(reloaded(&place, &both).0.len(), 3);
        }
        is_over.store(true, Ordering::Release);
        writing.join().expect("no panic")
    });
    place.finish(daemon, &other, &written);
}

impl Place {
    /// Waits for a record with this message.
    fn wait_for_some(&self, message: &str) {
        by_message(self, message);
    }
}

/// Messages come all the time over old and new connections, and as datagrams. The listeners get other limits, other
/// secrets, another order. Every message is there once, and no connection is refused.
#[test]
fn a_listener_hands_its_socket_over() {
    let place = Place::new();
    let local = place.path("log");
    let config = |limit: &str, more: &str| {
        [
            block("tcp", "tcp://127.0.0.1:0", &format!("message_bytes_max = \"{limit}\"")),
            block("udp", "udp://127.0.0.1:0", &format!("message_bytes_max = \"{limit}\"")),
            block("dgram", &format!("unix-dgram://{}", local.display()), &format!("message_bytes_max = \"{limit}\"")),
            more.into(),
        ]
        .concat()
    };
    let daemon = place.start_with(&config("1MiB", ""));
    let (tcp, udp) = (address(&daemon, "tcp"), address(&daemon, "udp"));
    let is_over = AtomicBool::new(false);
    let sent = std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut standing = TcpStream::connect(tcp).expect("connected");
            let (datagrams, here) =
                (UdpSocket::bind("127.0.0.1:0").expect("bound"), UnixDatagram::unbound().expect("a socket"));
            let mut messages = Vec::new();
            for number in 0.. {
                if is_over.load(Ordering::Acquire) {
                    break;
                }
                let mut message = |kind: &str| {
                    messages.push(format!("{kind} {number}"));
                    format!("<13>{kind} {number}\n")
                };
                standing.write_all(message("standing").as_bytes()).expect("sent");
                datagrams.send_to(message("datagram").as_bytes(), udp).expect("sent");
                here.send_to(message("local").as_bytes(), &local).expect("somebody takes it");
                let mut new = TcpStream::connect(tcp).expect("nobody is refused");
                new.write_all(message("new").as_bytes()).expect("sent");
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            messages
        });
        for round in 0..4 {
            let limit = if round % 2 == 0 { "64KiB" } else { "1MiB" };
            let (changed, _) = reloaded(&place, &config(limit, ""));
            assert_eq!(changed.len(), 3, "{changed:?}");
        }
        let (changed, _) = reloaded(&place, &config("1MiB", "redact = []\n"));
        assert!(changed.is_empty(), "{changed:?}");
        is_over.store(true, Ordering::Release);
        sending.join().expect("no panic")
    });
    place.wait_for_messages(&sent);
    // A removed block stops listening, and a new block listens.
    let (changed, _) = reloaded(&place, &block("other", "tcp://127.0.0.1:0", ""));
    assert_eq!(changed.len(), 4, "{changed:?}");
    assert!(TcpStream::connect(tcp).is_err(), "the port is closed");
    assert!(!local.exists(), "the socket's file is gone");
    TcpStream::connect(address(&daemon, "other")).expect("connected").write_all(b"<13>other\n").expect("sent");
    let all = [sent, vec!["other".into()]].concat();
    place.wait_for_messages(&all);
    daemon.stop();
    place.wait_for_messages(&all);
}

/// The kernel counts drops per socket, and the socket goes to a listener of another name. Each drop is counted once,
/// under one of the two names.
#[test]
fn what_the_kernel_drops_is_entered_once_when_its_socket_goes_to_another_listener() {
    const SENT: u32 = 20_000;
    let place = Place::new();
    // A fixed port: a system-chosen port would differ between the two names.
    let config = |port: &str, name: &str| {
        format!("# udp is {port}\n{}", block(name, &format!("udp://127.0.0.1:{port}"), "receive_buffer = \"64KiB\""))
    };
    let daemon = activation::spawn(&place, &config("UDP", "first"), "udp:UDP");
    daemon.wait_ready();
    let port = activation::port(&place, "udp");
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    flood(&daemon, to, SENT);
    assert_eq!(reloaded(&place, &config(&port.to_string(), "second")).0.len(), 2);
    flood(&daemon, to, SENT);
    let is_all = |(records, dropped): &(u64, u64)| records + dropped == 2 * u64::from(SENT);
    let (_, dropped) = wait_for("the ledger has every datagram", PATIENCE, || in_the_ledger(&place).filter(is_all));
    assert!(dropped > 0);
    daemon.stop();
    let found = in_the_ledger(&place).expect("a ledger");
    assert!(is_all(&found), "{found:?}");
}

/// A wrong configuration is reported with the place, and changes nothing.
#[test]
fn a_configuration_that_is_wrong_leaves_the_one_before() {
    let place = Place::new();
    let tail = "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n";
    let daemon = place.start_with(tail);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let taken = taken.local_addr().expect("an address");
    for (config, error) in [
        (format!("{tail}formt = \"json\"\n"), "did you mean \"format\"?"),
        (format!("{tail}[http]\nlisten = \"{taken}\"\n"), "ddress already in use"),
        (format!("{tail}[http]\nlisten = \"0.0.0.0:0\"\n"), "`listen` = \"0.0.0.0:0\" can be reached from other hosts"),
        (format!("{tail}[http]\ntoken_file = \"/nowhere/token\"\n"), "/nowhere/token"),
        (format!("{tail}{}", block("tls", "tls://127.0.0.1:0", "cert_file = \"/c\"\nkey_file = \"/k\"")), "/c: "),
        (format!("{tail}{}", block("tcp", &format!("tcp://{taken}"), "")), "ddress already in use"),
    ] {
        let output = reload(&place, &config);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(error), "{config}\n{said}");
        assert!(said.contains("keeps the previous") || said.contains("the configuration before"), "{said}");
    }
    let line = place.path("daytable.toml").display().to_string();
    reload(&place, &format!("{tail}formt = \"json\"\n"));
    daemon.wait_said(&format!("{line}:9:1: unknown key \"formt\" in [[tail]]"));
    assert_eq!(daemon.metric("daytable_config_reloads_total{result=\"failure\"}"), Some(7.0));
    let lines = numbered("line", 100);
    place.write("app.log", &lines);
    place.wait_for_messages(&lines);
    // The corrected configuration equals the one in use.
    assert_eq!(reloaded(&place, tail), (vec![], vec![]));
    place.finish(daemon, tail, &lines);
}

/// New tables take the next record. The log level, limits and the schedule change. The data folder does not.
#[test]
fn what_can_change_does_and_the_rest_is_named() {
    let place = Place::new();
    let daemon = place.start();
    place.write("app.log", &["first".into()]);
    place.wait_for_some("first");
    let tables = "[[table]]\nname = \"Second\"\nwhen = \"kind:=second\"\n[[table]]\nname = \"Rest\"\n";
    let tail = crate::place::TAIL;
    let more =
        "[lifecycle]\nmin_tables = 3\n[archives]\ns3_region = \"eu-central-1\"\n[store]\ncommit_interval = \"1s\"\n";
    let config = place.configure(&format!("{tail}{tables}{more}"));
    let text = fs::read_to_string(&config).expect("read");
    let text = text
        .replace("level = \"debug\"", "level = \"warn\"")
        .replace("data_dir = ", "drain_timeout = \"5s\"\ndata_dir = ");
    fs::write(&config, text.replacen(&place.data().display().to_string(), "/elsewhere", 1)).expect("written");
    daemon.signal(rustix::process::Signal::HUP);
    wait_for("it was read again", PATIENCE, || {
        (daemon.metric("daytable_config_reloads_total{result=\"success\"}") == Some(1.0)).then_some(())
    });
    assert!(
        daemon.said().contains("these keys take effect at a restart keys=\"data_dir; store.commit_interval\""),
        "{}",
        daemon.said()
    );
    place.write("app.log", &["kind=second msg=second".into(), "third".into()]);
    let table = |message: &str| by_message(&place, message)["table"].as_str().expect("a table").to_owned();
    assert!(table("second").starts_with("Second20"), "{}", table("second"));
    assert!(table("third").starts_with("Rest20") && table("first").starts_with("Log20"));
    let remembered = || {
        place
            .json("tables", &[])
            .iter()
            .any(|table| table["table"].as_str().is_some_and(|name| name.starts_with("Rest")))
    };
    wait_for("the next table is there", PATIENCE, || remembered().then_some(()));
    // The new level suppresses the messages below it.
    let before = daemon.said();
    place.write("new.log", &["fourth".into()]);
    place.wait_for_some("fourth");
    assert_eq!(daemon.said(), before);
    daemon.stop();
}

fn get(address: SocketAddr, token: &str) -> u16 {
    let headers = format!("Authorization: Bearer {token}\r\n");
    client::over_tcp(address, "GET", "/api/tables", &headers).expect("answered").status
}

/// The token also changes for open connections, and the port moves. Reloading requires the token like reading.
#[test]
fn who_may_come_in_changes_at_once() {
    let place = Place::new();
    let token = place.path("token");
    fs::write(&token, "first-token-of-two").expect("written");
    let http = |listen: &str, more: &str| {
        format!("[http]\nlisten = \"{listen}\"\ntoken_file = \"{}\"\n{more}", token.display())
    };
    let daemon = place.start_with(&http("127.0.0.1:0", ""));
    let first = daemon.address();
    let mut standing = TcpStream::connect(first).expect("connected");
    standing.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut ask = |token: &str| {
        let request = format!("GET /api/tables HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n");
        standing.write_all(request.as_bytes()).expect("written");
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") {
            assert_eq!(standing.read(&mut byte).expect("answered"), 1);
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        // The folder has no records, so the body is a refusal or empty.
        let length = answer.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        standing.read_exact(&mut vec![0; length.unwrap_or(0)]).expect("read");
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    assert_eq!((ask("wrong-token-of-none").as_str(), get(first, "first-token-of-two")), ("401", 200));
    fs::write(&token, "second-token-of-two").expect("written");
    assert_eq!(client::over_tcp(first, "POST", "/-/reload", "").expect("answered").status, 401);
    let headers = "Authorization: Bearer first-token-of-two\r\n";
    let answer = client::over_tcp(first, "POST", "/-/reload", headers).expect("answered");
    assert_eq!(
        (answer.status, answer.body.trim()),
        (200, "{\"changed\":[\"http.token_file (its content)\"],\"needs_restart\":[]}")
    );
    assert_eq!((ask("first-token-of-two").as_str(), get(first, "second-token-of-two")), ("401", 200));
    // A web page cannot trigger a reload.
    let headers = "Authorization: Bearer second-token-of-two\r\nOrigin: http://evil.example\r\n";
    assert_eq!(client::over_tcp(first, "POST", "/-/reload", headers).expect("answered").status, 403);
    // Another connection limit needs another server, on the same socket.
    let (changed, _) = reloaded(&place, &http("127.0.0.1:0", "connections_max = 5\n"));
    assert_eq!(changed, ["http.connections_max"]);
    assert_eq!(get(first, "second-token-of-two"), 200);
    assert_eq!(
        reloaded(&place, "[http]\nlisten = \"off\"\n").0,
        ["http.listen", "http.token_file", "http.connections_max"]
    );
    wait_for("the port is closed", PATIENCE, || TcpStream::connect(first).is_err().then_some(()));
    daemon.stop();
}

/// A journal continues at its position after its block changes.
#[test]
fn a_journal_is_read_once_however_often_its_block_changes() {
    let place = Place::new();
    let folder = place.path("journal");
    fs::create_dir(&folder).expect("a folder");
    let file = folder.join("remote.journal");
    let config = |more: &str| format!("[[journal]]\ndirectory = \"{}\"\n{more}", folder.display());
    let all = numbered("entry", 900);
    write_journal(&file, &entries(0, &all[..300]));
    let daemon = place.start_with(&config(""));
    for (round, more) in ["entry_bytes_max = \"64KiB\"\n", "", "entry_bytes_max = \"32KiB\"\n"].iter().enumerate() {
        let begin = 300 + round * 200;
        write_journal(&file, &entries(begin, &all[begin..begin + 200]));
        assert_eq!(reloaded(&place, &config(more)).0, ["journal \"journal\": entry_bytes_max"]);
    }
    place.wait_for_messages(&all);
    assert_eq!(reloaded(&place, "").0, ["journal \"journal\" (gone)"]);
    assert_eq!(reloaded(&place, &config("")).0, ["journal \"journal\" (new)"]);
    write_journal(&file, &entries(900, &["the last".into()]));
    let all = [all, vec!["the last".into()]].concat();
    place.wait_for_messages(&all);
    assert_eq!(
        daemon.metric("daytable_source_records_received_total{source=\"journal\"}").or(Some(901.0)),
        Some(901.0)
    );
    daemon.stop();
    place.wait_for_messages(&all);
    place.assert_no_key_twice();
}

/// The daemon sends `RELOADING=1` with the time, then `READY=1` after success or failure.
#[test]
fn the_service_manager_hears_of_a_reload() {
    let place = Place::new();
    let path = place.path("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(""));
    command.env("NOTIFY_SOCKET", &path);
    let daemon: Daemon = place.spawn_command(command);
    let told = || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).expect("the service manager is told in time");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let wait_told = |what: &str| loop {
        let told = told();
        if told.lines().any(|line| line == what) {
            return told;
        }
    };
    wait_told("READY=1");
    for config in ["", "nothing = 1\n"] {
        place.configure(config);
        daemon.signal(rustix::process::Signal::HUP);
        let told = wait_told("RELOADING=1");
        assert!(
            told.lines().any(|line| line.strip_prefix("MONOTONIC_USEC=").is_some_and(|at| at.parse::<u64>().is_ok()))
        );
        wait_told("READY=1");
    }
    assert_eq!(place.records().iter().map(message_of).count(), 0);
    daemon.stop();
}

/// A pipe with a name waits for its writer. The daemon refuses one as its configuration, and so does a start.
#[test]
fn a_configuration_that_is_a_pipe_is_refused_and_does_not_wait() {
    let place = Place::new();
    let daemon = place.start();
    let config = place.configure(crate::place::TAIL);
    fs::remove_file(&config).expect("removed");
    let made = Command::new("mkfifo").arg(&config).status().expect("mkfifo");
    assert!(made.success());
    for _ in 0..2 {
        let output = place.ask("reload", &[]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("is not a regular file"), "{output:?}");
    }
    for command in ["check", "run"] {
        let output = Command::new(DAYTABLE).arg(command).arg("--config").arg(&config).output().expect("run");
        assert!(String::from_utf8_lossy(&output.stderr).contains("is not a regular file"), "{command}: {output:?}");
    }
    fs::remove_file(&config).expect("removed");
    assert!(reload(&place, crate::place::TAIL).status.success());
    daemon.stop();
}
