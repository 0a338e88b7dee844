//! A host is a source of a central daytable: every record of it is there once, whatever is killed, repeated or put back.

mod certificates;
mod chart;
mod credentials;
mod gate;
mod keys;
mod losses;
mod newest;
mod refused;
mod tables;
mod told;

use crate::client;
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, append, message_of, wait_for};
use crate::server::free_port;
use crate::syslog::Authority;
use crate::trouble::{SmallDisk, lines_of_noise};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A central daytable at a port that stays the same over restarts.
pub(crate) struct Central {
    pub(crate) place: Place,
    port: u16,
    /// What its configuration has beside the listener.
    more: &'static str,
}

impl Central {
    pub(crate) fn new() -> Central {
        Central { place: Place::new(), port: free_port(), more: "" }
    }

    fn config(&self) -> String {
        format!("[http]\nlisten = \"127.0.0.1:{}\"\npush = \"open\"\n{}", self.port, self.more)
    }

    pub(crate) fn start(&self) -> Daemon {
        self.place.start_with(&self.config())
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The URL and the code of an invitation.
    fn invite(&self, name: &str) -> (String, String) {
        let output = Command::new(DAYTABLE)
            .args(["hosts", "invite", name, "--data"])
            .arg(self.place.data())
            .output()
            .expect("daytable can be run");
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stdout).expect("text");
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(&words[..2], ["daytable", "join"], "{said}");
        (words[2].to_owned(), words[3].to_owned())
    }

    /// What `daytable hosts` says of a host.
    fn host(&self, name: &str) -> Option<Value> {
        self.place.json("hosts", &[]).into_iter().find(|host| host["host"] == name)
    }
}

/// A host with its own name.
pub(crate) struct Host {
    pub(crate) place: Place,
    name: &'static str,
}

impl Host {
    fn new(name: &'static str) -> Host {
        Host { place: Place::new(), name }
    }

    /// The configuration without what `join` appends.
    fn base(&self) -> String {
        format!(
            "data_dir = \"{}\"\nhost = \"{}\"\n[http]\nlisten = \"off\"\n[log]\nlevel = \"debug\"\n[[tail]]\ninclude = [\"{}/*.log\"]\ninstance = \"app\"\n",
            self.place.data().display(),
            self.name,
            self.place.path("logs").display()
        )
    }

    fn file(&self) -> std::path::PathBuf {
        self.place.path("host.toml")
    }

    fn join(&self, (url, code): &(String, String), more: &[&str]) -> std::process::Output {
        if !self.file().exists() {
            fs::write(self.file(), self.base()).expect("a configuration");
        }
        Command::new(DAYTABLE)
            .args(["join", url, code, "--config"])
            .arg(self.file())
            .args(more)
            .output()
            .expect("daytable can be run")
    }

    pub(crate) fn joined(central: &Central, name: &'static str) -> Host {
        let host = Host::new(name);
        let joined = host.join(&central.invite(name), &[]);
        assert!(joined.status.success(), "{joined:?}");
        host
    }

    /// A copy of its folder, which forwards with the same credential.
    fn copied(&self, central: &Central) -> Host {
        let copy = Host::new(self.name);
        copy_folder(&self.place.data(), &copy.place.data());
        let credential = copy.place.path("forward");
        fs::copy(self.place.path("forward"), &credential).expect("the credential");
        let block =
            format!("\n[[forward]]\nto = \"{}\"\ncredential_file = \"{}\"\n", central.url(), credential.display());
        fs::write(copy.file(), copy.base() + &block).expect("a configuration");
        copy
    }

    fn spawn(&self) -> Daemon {
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(self.file());
        self.place.spawn_command(command)
    }

    /// Appends to its configuration.
    pub(crate) fn configure(&self, more: &str) {
        append(&self.file(), more.as_bytes());
    }

    pub(crate) fn start(&self) -> Daemon {
        let daemon = self.spawn();
        daemon.wait_ready();
        daemon
    }

    fn write(&self, name: &str, lines: &[String]) {
        self.place.write(name, lines);
    }
}

/// A central and a host that run, where the central has as many lines of the host.
fn fleet_of_one(what: &str, count: usize) -> (Central, Daemon, Host, Daemon) {
    let central = Central::new();
    let running = central.start();
    let host = Host::joined(&central, "web-1");
    let daemon = host.start();
    host.write("app.log", &lines(what, 0..count));
    wait_for_all(&central, &[&host], count);
    (central, running, host, daemon)
}

fn lines(what: &str, count: std::ops::Range<usize>) -> Vec<String> {
    count.map(|n| format!("2026-11-27T10:00:{:02}Z INFO {what} number {n} took={}ms", n % 60, n * 7)).collect()
}

/// The records of a place by sender and line, each with its number of copies.
fn stored(place: &Place) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for record in place.records() {
        let host = record["log_host"].as_str().unwrap_or("-").to_owned();
        *found.entry((host, message_of(&record))).or_insert(0) += 1;
    }
    found
}

/// The messages that a host has itself.
fn own(host: &Host) -> BTreeMap<(String, String), usize> {
    let mut found = BTreeMap::new();
    for record in host.place.records() {
        *found.entry((host.name.to_owned(), message_of(&record))).or_insert(0) += 1;
    }
    found
}

/// Waits until the central has exactly the records of these hosts, each once, and then compares the counts.
fn wait_for_all(central: &Central, hosts: &[&Host], expected: usize) {
    let mut wanted = BTreeMap::new();
    wait_for("the hosts have read their files", PATIENCE, || {
        wanted = hosts.iter().flat_map(|host| own(host)).collect();
        (wanted.values().sum::<usize>() == expected).then_some(())
    });
    assert!(wanted.values().all(|copies| *copies == 1), "each line is there once at its host");
    let mut found = BTreeMap::new();
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        found.clear();
        found.extend(stored(&central.place));
        if found == wanted {
            break;
        }
        let surplus: Vec<_> = found.iter().filter(|(key, copies)| wanted.get(*key) != Some(copies)).take(3).collect();
        let missing: Vec<_> = wanted.iter().filter(|(key, _)| !found.contains_key(*key)).take(3).collect();
        assert!(
            std::time::Instant::now() < deadline && surplus.is_empty(),
            "{} of {} are there; missing: {missing:?}, too many: {surplus:?}",
            found.len(),
            wanted.len()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    central.place.assert_no_key_twice();
}

#[test]
fn two_hosts_are_sources_of_a_central_daytable() {
    let central = Central::new();
    let running = central.start();
    let (one, two) = (Host::joined(&central, "web-1"), Host::joined(&central, "web-2"));
    let mode = fs::metadata(one.place.path("forward")).expect("a credential").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (first, second) = (one.start(), two.start());
    // The same name of a file and the same lines on two hosts are two records each.
    for host in [&one, &two] {
        host.write("app.log", &lines("request", 0..300));
        append(
            &host.place.log("app.log"),
            b"{\"host\":\"db-7\",\"log_host\":\"mine\",\"message\":\"own\",\"n\":1.50}\n",
        );
    }
    wait_for_all(&central, &[&one, &two], 602);
    let records = central.place.records();
    let own_host = |record: &&Value| record["message"].as_str().is_some_and(|message| message.contains("request"));
    for record in records.iter().filter(own_host) {
        assert_eq!(record["host"], record["log_host"], "a record without a host has that of its sender: {record}");
    }
    let named = records.iter().find(|record| record["message"] == "own" && record["log_host"] == "web-1");
    let named = named.expect("the record with fields of these names");
    assert_eq!((&named["host"], &named["log_host#2"]), (&"db-7".into(), &"mine".into()), "{named}");
    // Filters know the field.
    assert_eq!(central.place.json("query", &["log_host:=web-2", "-n", "100000"]).len(), 301);
    assert_eq!(central.place.json("query", &["host:=web-2", "-n", "100000"]).len(), 300);
    // Grafana lists the hosts, and selects by them.
    let asked = |path: &str| -> Value {
        let answer =
            client::over_unix(running.socket(), "GET", &format!("/loki/api/v1/{path}"), "").expect("an answer");
        serde_json::from_str::<Value>(&answer.body).expect("JSON")["data"].clone()
    };
    let day = "start=2026-11-27T00:00:00Z&end=2026-11-28T00:00:00Z";
    assert_eq!(asked(&format!("label/log_host/values?{day}")), serde_json::json!(["web-1", "web-2"]));
    let entries = asked(&format!("query_range?query=%7Blog_host%3D%22web-2%22%7D&{day}&limit=1000"));
    let streams = entries["result"].as_array().expect("streams");
    assert_eq!(streams.iter().filter_map(|stream| stream["values"].as_array()).map(Vec::len).sum::<usize>(), 301);
    // The files come back from the central, byte for byte.
    for host in [&one, &two] {
        let path = host.place.log("app.log");
        let out = central.place.path(host.name);
        let source = path.display().to_string();
        central.place.said("export", &["--raw", "--source", &source, "--output", &out.display().to_string()]);
        assert!(fs::read(&path).expect("the file") == fs::read(&out).expect("the copy"), "{}", host.name);
    }
    let host = central.host("web-1").expect("a host");
    assert_eq!((host["records"].as_u64(), host["revoked"].as_bool()), (Some(301), Some(false)), "{host}");
    first.stop();
    second.stop();
    running.stop();
    wait_for_all(&central, &[&one, &two], 602);
    // Without a daemon, the list is an old one.
    let listed = central.place.ask("hosts", &[]);
    let [said, warned] = [&listed.stdout, &listed.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(said.matches("when it was heard of last").count(), 2, "{said}");
    assert!(warned.contains("no daemon runs on") && warned.contains("as of its end"), "{warned}");
}

#[test]
fn a_code_works_once_and_a_revoked_credential_no_more() {
    let central = Central::new();
    let running = central.start();
    let invited = central.invite("web-1");
    let host = Host::new("web-1");
    assert!(host.join(&invited, &[]).status.success());
    let before = fs::read_to_string(host.file()).expect("a configuration");
    let again = Host::new("web-1");
    let used = again.join(&invited, &[]);
    assert!(!used.status.success());
    assert!(String::from_utf8_lossy(&used.stderr).contains("used already"), "{used:?}");
    assert!(!again.place.path("forward").exists() && !again.place.path("forward.partial").exists());
    let other = Host::new("db-1");
    let named = other.join(&central.invite("web-9"), &[]);
    assert!(String::from_utf8_lossy(&named.stderr).contains("called web-9"), "{named:?}");

    let daemon = host.start();
    host.write("app.log", &lines("first", 0..10));
    wait_for_all(&central, &[&host], 10);
    let revoke = |what: &str, name: &str| {
        let mut command = Command::new(DAYTABLE);
        command.args(["hosts", what, name, "--data"]).arg(central.place.data()).status().expect("run")
    };
    assert!(revoke("revoke", "web-1").success());
    assert!(!revoke("revoke", "web-1").success(), "it has none any more");
    host.write("app.log", &lines("second", 0..10));
    wait_for("the host is refused", PATIENCE, || daemon.said().contains("revoked").then_some(()));
    assert_eq!(central.place.records().len(), 10);
    assert_eq!(central.host("web-1").expect("a host")["revoked"], true);
    let fleet = central.place.said("verify", &["--fleet"]);
    assert!(fleet.contains("the records of 1 revoked host are not compared\nwhole: 0 hosts"), "{fleet}");
    // Joining again goes on where it was.
    assert!(host.join(&central.invite("web-1"), &[]).status.success());
    assert_eq!(fs::read_to_string(host.file()).expect("a configuration"), before, "the block is there already");
    wait_for_all(&central, &[&host], 20);
    daemon.stop();
    running.stop();
}

/// An xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Both sides are killed at random moments. `TESTS_SEED` repeats a run.
#[test]
fn every_record_arrives_once_whatever_is_killed() {
    let seed = std::env::var("TESTS_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let seed: u64 = seed.unwrap_or(now.as_nanos() as u64 | 1);
    println!("TESTS_SEED={seed}");
    let mut random = Random(seed);
    let central = Central::new();
    let mut running = central.start();
    let hosts = [Host::joined(&central, "web-1"), Host::joined(&central, "web-2")];
    let mut daemons: Vec<Daemon> = hosts.iter().map(Host::spawn).collect();
    let mut written = 0;
    for round in 0..20 {
        for host in &hosts {
            let count = 1 + random.below(400) as usize;
            host.write(&format!("app-{}.log", round % 3), &lines(&format!("round {round}"), 0..count));
            written += count;
        }
        std::thread::sleep(Duration::from_millis(random.below(500)));
        match random.below(3) {
            0 => {
                running.kill();
                std::thread::sleep(Duration::from_millis(random.below(200)));
                running = central.place.spawn(&central.config());
            }
            at => {
                let at = at as usize - 1;
                daemons.remove(at).kill();
                daemons.insert(at, hosts[at].spawn());
            }
        }
    }
    wait_for_all(&central, &[&hosts[0], &hosts[1]], written);
    for daemon in daemons {
        daemon.stop();
    }
    running.stop();
    wait_for_all(&central, &[&hosts[0], &hosts[1]], written);
    central.place.said("verify", &[]);
    hosts[0].place.said("verify", &[]);
}

/// Starts both sides, of which the central or the host is killed at a point, and that one again after `meanwhile`. Returns its daemon, and
/// that of the other side.
fn killed_and_started(
    central: &Central,
    host: &Host,
    (point, at_central): (&str, bool),
    meanwhile: impl FnOnce(),
) -> (Daemon, Daemon) {
    let mut run = Command::new(DAYTABLE);
    let config = central.place.configure(&central.config());
    run.arg("run").arg("--config").arg(if at_central { config } else { host.file() });
    run.env("DAYTABLE_FAILPOINT", point);
    let (mut dying, other) = match at_central {
        true => {
            let dying = central.place.spawn_command(run);
            dying.wait_ready();
            (dying, host.spawn())
        }
        false => {
            let running = central.start();
            (host.place.spawn_command(run), running)
        }
    };
    dying.ended();
    meanwhile();
    (if at_central { central.start() } else { host.spawn() }, other)
}

#[test]
fn a_kill_between_the_steps_neither_loses_nor_repeats() {
    for ((point, at_central), count) in [
        ("forward-received", true),
        ("commit-between", true),
        ("commit-after", true),
        ("forward-stored", true),
        ("forward-before-send", false),
        ("forward-sent", false),
    ]
    .into_iter()
    // Few rows are taken one by one, and a page of many is taken as a whole.
    .flat_map(|step| [(step, 200), (step, 5000)])
    {
        let central = Central::new();
        let host = {
            let running = central.start();
            let host = Host::joined(&central, "web-1");
            running.stop();
            host
        };
        host.write("app.log", &lines("step", 0..count));
        let (again, other) = killed_and_started(&central, &host, (point, at_central), || ());
        wait_for_all(&central, &[&host], count);
        again.stop();
        other.stop();
        wait_for_all(&central, &[&host], count);
    }
}

#[test]
fn a_central_that_is_put_back_asks_for_what_it_lacks() {
    let central = Central::new();
    let running = central.start();
    let hosts = [Host::joined(&central, "web-1"), Host::joined(&central, "web-2")];
    let daemons: Vec<Daemon> = hosts.iter().map(Host::start).collect();
    hosts.iter().for_each(|host| host.write("app.log", &lines("before", 0..150)));
    wait_for_all(&central, &[&hosts[0], &hosts[1]], 300);
    running.stop();
    let backup = central.place.path("backup");
    copy_folder(&central.place.data(), &backup);
    let running = central.start();
    hosts.iter().for_each(|host| host.write("app.log", &lines("after", 0..150)));
    wait_for_all(&central, &[&hosts[0], &hosts[1]], 600);
    running.stop();
    fs::remove_dir_all(central.place.data()).expect("lost");
    fs::rename(&backup, central.place.data()).expect("put back");
    let running = central.start();
    hosts.iter().for_each(|host| host.write("app.log", &lines("later", 0..50)));
    wait_for_all(&central, &[&hosts[0], &hosts[1]], 700);
    for daemon in daemons {
        daemon.stop();
    }
    running.stop();
    wait_for_all(&central, &[&hosts[0], &hosts[1]], 700);
}

#[test]
fn a_host_whose_folder_is_put_back_goes_on() {
    let (central, running, host, daemon) = fleet_of_one("before", 100);
    daemon.stop();
    let backup = host.place.path("backup");
    copy_folder(&host.place.data(), &backup);
    let daemon = host.start();
    host.write("app.log", &lines("since", 0..100));
    wait_for_all(&central, &[&host], 200);
    daemon.stop();
    fs::remove_dir_all(host.place.data()).expect("lost");
    fs::rename(&backup, host.place.data()).expect("put back");
    let daemon = host.start();
    // The lines since then are read again from the file, and have the same keys.
    host.write("app.log", &lines("later", 0..100));
    wait_for_all(&central, &[&host], 300);
    daemon.stop();
    running.stop();
}

#[test]
fn a_copied_folder_is_refused_until_it_has_an_origin_of_its_own() {
    let (central, running, host, daemon) = fleet_of_one("first", 50);
    daemon.stop();
    let copy = host.copied(&central);
    let (original, copied) = (host.start(), copy.start());
    host.write("app.log", &lines("second", 0..50));
    copy.write("other.log", &lines("copied", 0..50));
    wait_for("one of them is refused", 2 * PATIENCE, || {
        let is_refused = |daemon: &Daemon| daemon.said().contains("is a copy of another one");
        (is_refused(&original) || is_refused(&copied)).then_some(())
    });
    copied.stop();
    // The original goes on.
    host.write("app.log", &lines("third", 0..50));
    let has = |what: &str, count: usize| {
        let found = central.place.json("query", &["--contains", what, "-n", "1000"]);
        (found.len() == count).then_some(())
    };
    wait_for("the records of the original", 2 * PATIENCE, || has("second number", 50).and(has("third number", 50)));
    let joined = copy.join(&central.invite("web-1"), &["--new-origin"]);
    assert!(joined.status.success(), "{joined:?}");
    let copied = copy.start();
    copy.write("other.log", &lines("apart", 0..50));
    wait_for("the records of the copy", 2 * PATIENCE, || has("copied number", 50).and(has("apart number", 50)));
    assert_eq!(central.place.json("hosts", &[]).len(), 2, "two origins of one name");
    central.place.assert_no_key_twice();
    copied.stop();
    original.stop();
    running.stop();
}

/// A copy that was refused stays refused when the central is started again, also if it is heard of before the original.
#[test]
fn a_copy_stays_refused_when_the_central_is_started_again() {
    let (central, running, host, daemon) = fleet_of_one("first", 50);
    daemon.stop();
    let copy = host.copied(&central);
    let original = host.start();
    host.write("app.log", &lines("second", 0..50));
    wait_for_all(&central, &[&host], 100);
    let copied = copy.start();
    let refusals = || copied.said().matches("is a copy of another one").count();
    wait_for("the copy is refused", 2 * PATIENCE, || (refusals() > 0).then_some(()));
    running.stop();
    wait_for("the copy notices", 2 * PATIENCE, || copied.said().contains("Connection refused").then_some(()));
    let before = refusals();
    original.signal(Signal::STOP);
    copy.write("other.log", &lines("copied", 0..50));
    let running = central.start();
    let has = |what: &str| central.place.json("query", &["--contains", what, "-n", "1000"]).len();
    wait_for("the copy is refused again", 2 * PATIENCE, || {
        assert_eq!(has("copied number"), 0, "the copy is listened to");
        (refusals() > before).then_some(())
    });
    original.signal(Signal::CONT);
    host.write("app.log", &lines("third", 0..50));
    wait_for("the records of the original", 2 * PATIENCE, || (has("third number") == 50).then_some(()));
    assert_eq!(has("copied number"), 0);
    assert!(!original.said().contains("is a copy of another one"));
    for daemon in [copied, original, running] {
        daemon.stop();
    }
}

/// A host with nothing to send says so on the connection that is there, and none of its requests fails.
#[test]
fn a_host_without_news_keeps_its_connection() {
    let (central, running, _host, daemon) = fleet_of_one("first", 10);
    let hellos =
        || running.metric("daytable_http_requests_total{code=\"200\",route=\"/forward/v1/hello\"}").unwrap_or(0.0);
    let before = hellos();
    wait_for("three messages", PATIENCE, || (hellos() >= before + 3.0).then_some(()));
    let failures = format!("daytable_forward_failures_total{{to=\"{}\"}}", central.url());
    assert_eq!((daemon.metric(&failures), daemon.said().matches(" forwarding to=").count()), (Some(0.0), 1));
    daemon.stop();
    running.stop();
}

/// A host that runs gets another name; a code for another name does not take the place of a host that is silent.
#[test]
fn a_host_gets_another_name_while_it_runs_and_nobody_else_gives_it_one() {
    let (central, running, host, daemon) = fleet_of_one("first", 50);
    let renamed = fs::read_to_string(host.file()).expect("a configuration").replace("\"web-1\"", "\"web-2\"");
    fs::write(host.file(), renamed).expect("written");
    assert!(host.join(&central.invite("web-2"), &[]).status.success());
    wait_for("the new name", 2 * PATIENCE, || central.host("web-2").filter(|host| !host["origin"].is_null()));
    host.write("app.log", &lines("second", 0..50));
    wait_for("the records of the new name", 2 * PATIENCE, || {
        (central.place.json("query", &["log_host:=web-2", "-n", "1000"]).len() == 50).then_some(())
    });
    daemon.stop();
    running.stop();
    // A central that was started again has heard of nobody, so it is as if the host was silent for long.
    let running = central.start();
    let other = Host::new("web-3");
    copy_folder(&host.place.data(), &other.place.data());
    assert!(other.join(&central.invite("web-3"), &[]).status.success());
    let refused = other.start();
    wait_for("the other is refused", 2 * PATIENCE, || {
        refused.said().contains("this data folder is known here as web-2").then_some(())
    });
    refused.stop();
    let daemon = host.start();
    host.write("app.log", &lines("third", 0..50));
    wait_for("the host goes on", 2 * PATIENCE, || {
        (central.place.json("query", &["log_host:=web-2", "-n", "1000"]).len() == 100).then_some(())
    });
    daemon.stop();
    running.stop();
}

#[test]
fn a_copy_that_joins_ends_no_credential_of_the_original() {
    let (central, running, host, daemon) = fleet_of_one("first", 50);
    daemon.stop();
    let copy = Host::new("web-2");
    copy_folder(&host.place.data(), &copy.place.data());
    let original = host.start();
    host.write("app.log", &lines("second", 0..50));
    wait_for_all(&central, &[&host], 100);
    assert!(copy.join(&central.invite("web-2"), &[]).status.success());
    let copied = copy.start();
    wait_for("the copy is refused", 2 * PATIENCE, || copied.said().contains("is a copy of another one").then_some(()));
    copied.stop();
    // The same daemon takes a credential of its own anew, without a pause.
    assert!(host.join(&central.invite("web-1"), &[]).status.success());
    host.place.said("reload", &[]);
    host.write("app.log", &lines("third", 0..50));
    wait_for_all(&central, &[&host], 150);
    assert!(!original.said().contains("is a copy of another one"));
    let hosts: Vec<String> = central.place.json("hosts", &[]).iter().map(|host| host["host"].to_string()).collect();
    assert!(hosts.contains(&"\"web-1\"".to_owned()), "{hosts:?}");
    original.stop();
    running.stop();
}

#[test]
fn a_central_with_little_memory_gets_smaller_requests() {
    let central = Central::new();
    let small =
        central.config() + "body_bytes_max = \"64KiB\"\ndecoded_bytes_max = \"256KiB\"\nbodies_bytes_max = \"4MiB\"\n";
    let running = central.place.start_with(&small);
    let host = Host::new("web-1");
    fs::write(host.file(), host.base()).expect("a configuration");
    let daemon = host.start();
    // Texts that compress badly, in many pages.
    let mut seed = 7u64;
    let mut word = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{seed:016x}")
    };
    let texts: Vec<String> = (0..16_000)
        .map(|n| format!("2026-11-27T10:00:{:02}Z INFO {n} {}", n % 60, (0..24).map(|_| word()).collect::<String>()))
        .collect();
    host.write("app.log", &texts);
    wait_for("read", PATIENCE, || (host.place.try_records().len() == texts.len()).then_some(()));
    assert!(host.join(&central.invite("web-1"), &[]).status.success());
    host.place.said("reload", &[]);
    wait_for_all(&central, &[&host], texts.len());
    assert!(daemon.said().contains("smaller requests are sent"), "the first ones were too large");
    daemon.stop();
    running.stop();
}

#[test]
fn what_happened_before_the_join_is_sent_too() {
    let central = Central::new();
    let running = central.start();
    let host = Host::new("web-1");
    fs::write(host.file(), host.base()).expect("a configuration");
    let daemon = host.start();
    host.write("app.log", &lines("old", 0..2000));
    wait_for("read", PATIENCE, || (host.place.try_records().len() == 2000).then_some(()));
    let table = host.place.json("tables", &[])[0]["table"].as_str().expect("a table").to_owned();
    host.place.said("archive", &[&table]);
    append(&host.place.log("app.log"), b"2026-11-27T10:00:00Z INFO late one\n");
    wait_for("read", PATIENCE, || (host.place.try_records().len() == 2001).then_some(()));
    assert!(host.join(&central.invite("web-1"), &[]).status.success());
    host.place.said("reload", &[]);
    wait_for_all(&central, &[&host], 2001);
    daemon.stop();
    running.stop();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            copy_folder(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), &target).expect("copied");
        }
    }
}

/// Posts a body of rows.
fn post(to: SocketAddr, credential: &str, body: &[u8]) -> client::Answer {
    let stream = std::net::TcpStream::connect(to).expect("a connection");
    let headers = format!("Authorization: Bearer {credential}\r\n");
    client::over(stream, "POST", "/forward/v1/rows", &headers, body).expect("an answer")
}

#[test]
fn damaged_bodies_are_refused_and_nothing_else_is_harmed() {
    let central = Central::new();
    let running = central.start();
    let host = Host::joined(&central, "web-1");
    let credential = fs::read_to_string(host.place.path("forward")).expect("a credential").trim().to_owned();
    let to: SocketAddr = format!("127.0.0.1:{}", central.port).parse().expect("an address");
    for body in [&b""[..], b"dtfw", b"dtfw\x02", &[0; 100], b"dtfw\x03 a newer one", &[0xff; 70_000]] {
        let answer = post(to, &credential, body);
        assert!(matches!(answer.status, 422 | 426), "{answer:?}");
    }
    assert_eq!(post(to, "guessed", b"dtfw").status, 401);
    let daemon = host.start();
    host.write("app.log", &lines("fine", 0..20));
    wait_for_all(&central, &[&host], 20);
    daemon.stop();
    running.stop();
}

#[test]
fn over_tls_with_an_authority_of_its_own() {
    let central = Central::new();
    let authority = Authority::new();
    let (pem, key) = authority.sign("localhost");
    let [cert, key_file, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| central.place.path(name));
    for (path, text) in [(&cert, &pem), (&key_file, &key), (&ca, &authority.pem)] {
        fs::write(path, text).expect("written");
    }
    let tls = format!("tls = {{ cert_file = \"{}\", key_file = \"{}\" }}\n", cert.display(), key_file.display());
    let running = central.place.start_with(&(central.config() + &tls));
    let (_, code) = central.invite("web-1");
    let invited = (format!("https://localhost:{}", central.port), code);
    let host = Host::new("web-1");
    let unknown = host.join(&invited, &[]);
    assert!(!unknown.status.success(), "nobody vouches for the certificate");
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("certificate"), "{unknown:?}");
    let joined = host.join(&invited, &["--ca-file", &ca.display().to_string()]);
    assert!(joined.status.success(), "the code was not used: {joined:?}");
    let daemon = host.start();
    host.write("app.log", &lines("secret", 0..50));
    wait_for_all(&central, &[&host], 50);
    daemon.stop();
    running.stop();
}

#[test]
fn a_central_without_room_gets_the_rest_when_it_has_some() {
    let central = Central::new();
    let Some(disk) = SmallDisk::mount(&central.place.data(), "32m") else { return };
    let running = central.start();
    let host = Host::joined(&central, "web-1");
    let daemon = host.start();
    host.write("app.log", &lines("before", 0..50));
    wait_for_all(&central, &[&host], 50);
    let used = rustix::fs::statvfs(central.place.data()).expect("a disk");
    let room = (used.f_bavail * used.f_frsize).saturating_sub(256 << 10);
    fs::write(central.place.data().join("ballast"), vec![1; usize::try_from(room).expect("small")]).expect("written");
    let noise = lines_of_noise().into_iter().take(20_000).map(|line| format!("2026-11-27T10:01:00Z INFO {line}\n"));
    append(&host.place.log("app.log"), noise.collect::<String>().as_bytes());
    wait_for("the host says why it waits", 2 * PATIENCE, || {
        let said = host.place.ask("status", &[]);
        String::from_utf8_lossy(&said.stdout).contains("waits here").then_some(())
    });
    fs::remove_file(central.place.data().join("ballast")).expect("removed");
    wait_for_all(&central, &[&host], 20_050);
    daemon.stop();
    running.stop();
    assert!(central.place.ask("verify", &[]).status.success(), "the folder is whole");
    drop(disk);
}

#[test]
fn a_silent_host_is_an_alert_without_a_rule() {
    let central = Central::new();
    let config = central.config() + "[hosts]\nsilent_after = \"1m\"\n";
    let running = central.place.start_with(&config);
    let hosts = [Host::joined(&central, "web-1"), Host::joined(&central, "web-2")];
    let [first, second] = [0, 1].map(|at: usize| hosts[at].start());
    hosts.iter().for_each(|host| host.write("app.log", &lines("request", 0..5)));
    wait_for_all(&central, &[&hosts[0], &hosts[1]], 10);
    // A host says how far it is behind with the next thing that it says.
    let of = |listed: &str, name: &str| listed.lines().find(|line| line.starts_with(name)).expect("a line").to_owned();
    let list = || central.place.said("hosts", &[]);
    wait_for("its word", PATIENCE, || of(&list(), "web-1").contains("behind by nothing").then_some(()));
    first.stop();
    let silent = |running: &Daemon| -> Vec<String> {
        let answer = client::over_unix(running.socket(), "GET", "/api/alerts", "").expect("an answer");
        let document: Value = serde_json::from_str(&answer.body).expect("JSON");
        let alerts = document["alerts"].as_array().expect("a list").clone();
        alerts.iter().map(|alert| format!("{} {}", alert["alert"], alert["labels"]["log_host"])).collect()
    };
    let wanted = ["\"HostSilent\" \"web-1\"".to_owned()];
    wait_for("the alert", 2 * PATIENCE, || (silent(&running) == wanted).then_some(()));
    // The list says it as well, without being told of the configuration.
    let said = ["web-1", "web-2"].map(|name| central.host(name).expect("listed")["silent"].clone());
    assert_eq!(said, [Value::Bool(true), Value::Bool(false)]);
    let listed = list();
    assert!(of(&listed, "web-1").starts_with("web-1  silent for "), "{listed}");
    assert!(of(&listed, "web-1").contains("behind by nothing when it was heard of last"), "{listed}");
    assert!(!of(&listed, "web-2").contains("silent"), "{listed}");
    // A central that was away knows of no silence of its own accord, and forgets none.
    running.stop();
    let running = central.place.start_with(&config);
    wait_for("the alert goes on", PATIENCE, || (silent(&running) == wanted).then_some(()));
    let first = hosts[0].start();
    wait_for("the alert ends", PATIENCE, || silent(&running).is_empty().then_some(()));
    for daemon in [first, second, running] {
        daemon.stop();
    }
}

/// What a host lacks is what it said, without what came since. A host that was killed says nothing more, and a central that was
/// started again has only what it wrote down.
#[test]
fn a_host_is_behind_by_what_did_not_come_since_it_was_heard_of() {
    let central = Central::new();
    let running = central.start();
    let hosts = [Host::new("web-1"), Host::new("web-2")];
    // They have their records before they join, and say so with their first words.
    for host in &hosts {
        fs::write(host.file(), host.base()).expect("a configuration");
        host.write("app.log", &lines("request", 0..500));
        let daemon = host.start();
        wait_for("the records", PATIENCE, || (host.place.try_records().len() == 500).then_some(()));
        daemon.stop();
    }
    let joined = [0, 1].map(|at: usize| hosts[at].join(&central.invite(hosts[at].name), &[]));
    assert!(joined.iter().all(|joined| joined.status.success()), "{joined:?}");
    let [first, second] = [0, 1].map(|at: usize| hosts[at].start());
    wait_for_all(&central, &[&hosts[0], &hosts[1]], 1000);
    let behind = |name: &str| {
        let host = central.host(name).expect("listed");
        let numbers = ["records", "behind_records", "backlog_records", "behind_bytes", "behind_seconds"];
        numbers.map(|number| host[number].as_u64().expect("a number"))
    };
    assert_eq!(["web-1", "web-2"].map(behind), [[500, 0, 0, 0, 0]; 2]);
    second.kill();
    running.stop();
    assert_eq!(behind("web-2"), [500, 0, 0, 0, 0], "by the catalog");
    let running = central.start();
    assert_eq!(behind("web-2"), [500, 0, 0, 0, 0], "by a daemon that did not hear of it");
    wait_for("the other host", PATIENCE, || {
        (central.host("web-1").expect("listed")["silent_seconds"].as_u64() < Some(10)).then_some(())
    });
    let output = central.place.ask("verify", &["--fleet"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(75), "{said}");
    assert!(said.contains("whole as far as hosts answered: 1 of 2 hosts, 500 records"), "{said}");
    first.stop();
    running.stop();
}

#[test]
fn verify_compares_with_what_the_hosts_have() {
    let central = Central::new();
    let running = central.start();
    let hosts = [Host::joined(&central, "web-1"), Host::joined(&central, "web-2")];
    let daemons: Vec<Daemon> = hosts.iter().map(Host::start).collect();
    hosts.iter().for_each(|host| host.write("app.log", &lines("request", 0..100)));
    append(&hosts[0].place.log("app.log"), b"{\"log_host\":\"mine\",\"message\":\"own\",\"n\":1.50}\n");
    wait_for_all(&central, &[&hosts[0], &hosts[1]], 201);
    let verdict = || {
        let output = central.place.ask("verify", &["--fleet"]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = verdict();
    assert_eq!((code, said.trim()), (Some(0), "whole: 2 hosts, 201 records"));
    // While a host writes, the commits that both have are compared.
    let log = hosts[0].place.log("app.log");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let (code, said) = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                append(&log, format!("2026-11-27T11:00:00Z INFO meanwhile {n}\n").as_bytes());
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let verdict = verdict();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        verdict
    });
    assert!(code == Some(0) && said.contains("whole: 2 hosts"), "{said}");
    let table = central.place.json("tables", &[])[0]["table"].as_str().expect("a table").to_owned();
    central.place.said("drop", &["--yes", &table]);
    let (code, said) = verdict();
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("web-1 has ") && said.contains("web-2 has 100 records"), "{said}");
    for daemon in daemons {
        daemon.stop();
    }
    running.stop();
    assert_eq!(verdict().0, Some(75), "no host can be asked");
}

/// The host has tables that the central does not know: their records are in its last one, and are compared there.
#[test]
fn verify_compares_tables_that_are_called_otherwise() {
    let central = Central::new();
    let running = central.start();
    let host = Host::new("web-1");
    let tables = "[[table]]\nname = \"Errors\"\nwhen = 'message:request'\nkeep = \"30d\"\n[[table]]\nname = \"App\"\nkeep = \"30d\"\nperiod = \"hour\"\n";
    fs::write(host.file(), host.base() + tables).expect("a configuration");
    assert!(host.join(&central.invite("web-1"), &[]).status.success());
    let daemon = host.start();
    host.write("app.log", &lines("request", 0..40));
    host.write("app.log", &lines("other", 0..60));
    wait_for_all(&central, &[&host], 100);
    let names: Vec<String> = host
        .place
        .json("tables", &[])
        .iter()
        .map(|table| table["table"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(["Errors20261127", "App2026112710"].iter().all(|name| names.contains(&(*name).to_owned())), "{names:?}");
    let verdict = || {
        let output = central.place.ask("verify", &["--fleet"]);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = verdict();
    assert_eq!((code, said.trim()), (Some(0), "whole: 1 host, 100 records"));
    central.place.said("drop", &["--yes", "Log20261127"]);
    let (code, said) = verdict();
    assert_eq!(code, Some(65), "{said}");
    assert!(
        said.contains("web-1 has 100 records in App2026112710, Errors20261127 (Log20261127 here), and 0 of them"),
        "{said}"
    );
    daemon.stop();
    running.stop();
}

#[test]
fn two_centrals_each_get_everything_and_no_day_is_sealed_before() {
    let centrals = [Central::new(), Central::new()];
    let [near, far] = [0, 1].map(|at: usize| centrals[at].start());
    let host = Host::joined(&centrals[0], "web-1");
    let joined = host.join(&centrals[1].invite("web-1"), &[]);
    assert!(joined.status.success(), "{joined:?}");
    assert!(host.place.path("forward-2").exists(), "each has a credential of its own");
    far.stop();
    let daemon = host.start();
    host.write("app.log", &lines("request", 0..500));
    wait_for_all(&centrals[0], &[&host], 500);
    let table = host.place.json("tables", &[])[0]["table"].as_str().expect("a table").to_owned();
    let refused = host.place.ask("archive", &[&table]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("forwarded"), "{refused:?}");
    let far = centrals[1].start();
    wait_for_all(&centrals[1], &[&host], 500);
    wait_for("the day may be sealed", PATIENCE, || host.place.ask("archive", &[&table]).status.success().then_some(()));
    host.write("app.log", &lines("after", 0..10));
    centrals.iter().for_each(|central| wait_for_all(central, &[&host], 510));
    for daemon in [daemon, near, far] {
        daemon.stop();
    }
}

/// A container mounts its configuration read-only: variables have the block, and the credential is in the data folder.
#[test]
fn a_host_with_a_read_only_configuration_joins_by_variables() {
    let central = Central::new();
    let running = central.start();
    let host = Host::new("node-7");
    let folder = host.place.path("etc");
    let Some(disk) = SmallDisk::mount(&folder, "1m") else {
        eprintln!("NOT SHOWN: a read-only configuration. It takes a mount; run the tests as root.");
        return running.stop();
    };
    let file = folder.join("daytable.toml");
    fs::write(&file, host.base().replace("host = \"node-7\"\n", "")).expect("a configuration");
    disk.remount("ro");
    let program = |arguments: &[&str]| {
        let mut command = Command::new(DAYTABLE);
        command.args(arguments).arg("--config").arg(&file);
        command
    };
    let mut enrol = Command::new(DAYTABLE);
    enrol.args(["hosts", "enrol", "node-*", "--expires", "1d", "--data"]).arg(central.place.data());
    let enrolled = String::from_utf8(enrol.output().expect("run").stdout).expect("text");
    let words: Vec<&str> = enrolled.split_whitespace().collect();
    let (url, code) = (words[2], words[3]);
    let refused = program(&["join", url, code]).output().expect("run");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&format!("DAYTABLE_FORWARD_TO={url}")), "{said}");
    let credential = host.place.data().join("forward");
    let with_variables = |mut command: Command| {
        command.env("DAYTABLE_FORWARD_TO", url).env("DAYTABLE_FORWARD_CREDENTIAL_FILE", &credential);
        command.env("DAYTABLE_HOST", "node-7");
        command
    };
    let daemon = host.place.spawn_command(with_variables(program(&["run"])));
    daemon.wait_ready();
    host.write("app.log", &lines("request", 0..5));
    let joined = with_variables(program(&["join", url, code])).output().expect("run");
    assert!(joined.status.success(), "{joined:?}");
    assert!(String::from_utf8_lossy(&joined.stdout).contains("the configuration has its block already"), "{joined:?}");
    wait_for_all(&central, &[&host], 5);
    daemon.stop();
    running.stop();
}
