//! The socket of the readers' group: its members ask what they would ask of the data folder, and change nothing.
//!
//! The commands of a member run as another user, which only root can start. Without root these tests say so.

use crate::client;
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, installed, wait_for};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A user who is nobody.
const USER: u32 = 65_534;
/// The readers' group, by its number: the host may have no name for it.
const GROUP: u32 = 4_242;

/// Starts a daemon with keys before the first section of its configuration.
fn start(place: &Place, top: &str, more: &str) -> Daemon {
    let path = place.configure(more);
    let text = fs::read_to_string(&path).expect("read");
    fs::write(&path, top.to_owned() + &text).expect("written");
    let mut command = Command::new(DAYTABLE);
    command.args(["run", "--config"]).arg(path);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    daemon
}

/// A daemon with a socket of readers, in folders that others may enter.
struct Shared {
    // Dropped before its folder.
    daemon: Daemon,
    place: Place,
    binary: PathBuf,
}

impl Shared {
    /// `None` without root.
    fn start(more: &str) -> Option<Shared> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("NOT SHOWN: commands of another user. Run the tests as root.");
            return None;
        }
        let place = Place::new();
        // A copy: the binary under test may lie where only root has access.
        let binary = place.path("daytable");
        fs::copy(DAYTABLE, &binary).expect("copied");
        fs::create_dir(place.path("run")).expect("a folder");
        for path in [place.path(""), place.path("run"), binary.clone()] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let socket = place.path("run").join("read.sock");
        let config = format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n{more}\n[[table]]\nname = \"Log\"\nkeep = \"3650d\"\n\
             [[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{{stem}}\"\n"
        );
        let daemon = start(&place, &format!("read_group = \"{GROUP}\"\nread_socket = {socket:?}\n"), &config);
        Some(Shared { place, daemon, binary })
    }

    fn wait_for_records(&self, records: usize) {
        let count = || text(&self.owner("count", &["--quiet"]).stdout).trim() == records.to_string();
        wait_for("the records are there", PATIENCE, || count().then_some(()));
    }

    fn socket(&self) -> PathBuf {
        self.place.path("run").join("read.sock")
    }

    /// A command of a user in this group.
    fn command_in(&self, group: u32, command: &str, words: &[&str]) -> Command {
        let mut setpriv = Command::new("setpriv");
        setpriv.args([format!("--reuid={USER}"), format!("--regid={USER}"), format!("--groups={group}")]).arg("--");
        setpriv.arg(&self.binary).arg(command).arg("--data").arg(self.place.data()).args(words);
        setpriv.env_remove("DAYTABLE_DATA").stdin(Stdio::null()).current_dir("/");
        setpriv
    }

    fn asked(&self, command: &str, words: &[&str]) -> Output {
        self.command_in(GROUP, command, words).output().expect("run")
    }

    /// The same of root, who reads the folder.
    fn owner(&self, command: &str, words: &[&str]) -> Output {
        self.place.command(command).args(words).output().expect("run")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines() -> Vec<String> {
    let line = |n: u32| {
        let level = ["INFO", "WARN", "ERROR"][n as usize % 3];
        format!(
            "2026-11-21T08:{:02}:{:02}Z {level} request {n} took={}.5 path=\"/a b\" status={}",
            n / 60,
            n % 60,
            n,
            200 + n
        )
    };
    (0..90).map(line).collect()
}

#[test]
fn a_member_gets_what_the_folder_has() {
    let Some(shared) = Shared::start("") else { return };
    shared.place.write("web-1.log", &lines());
    shared.place.write("web-2.log", &lines()[..7]);
    shared.wait_for_records(97);
    let key = {
        let record = text(&shared.owner("query", &["request 3 instance:=web-2", "--json"]).stdout);
        let record: serde_json::Value = serde_json::from_str(record.lines().next().expect("a record")).expect("JSON");
        let key = |name: &str| record[name].as_str().expect("a key").to_owned();
        [key("table"), key("partition_key"), key("row_key")].join("/")
    };
    let questions: &[(&str, &[&str])] = &[
        ("query", &[]),
        ("query", &["--json", "status:>=250"]),
        ("query", &["-n", "3", "--reverse"]),
        ("query", &["--oldest", "3"]),
        ("query", &["--raw", "--level", "error"]),
        ("query", &["--format", "csv", "request", "--instance", "web-2"]),
        ("query", &["* | stats by (level, instance) count() n, mean(took) took"]),
        ("query", &["* | stats by (level) count() n", "--json"]),
        ("query", &["request -C", "-C", "2", "--instance", "web-1", "--where", "status:=230"]),
        ("query", &["status:=230 or status:=260", "-C", "2"]),
        ("query", &["status:=230", "-C", "1", "--context-of", "instance", "--json"]),
        ("query", &["--key", &key]),
        ("query", &["--key", &key, "-A", "2"]),
        ("query", &["staus:>=500"]),
        ("query", &["nothing of the kind"]),
        ("query", &["nothing of the kind", "--quiet"]),
        ("query", &["status>=500"]),
        ("query", &["--since", "2026-11-21T08:01:00Z", "--until", "2026-11-21T08:01:05Z", "--utc"]),
        ("count", &[]),
        ("count", &["--by", "level,instance", "--every", "1m"]),
        ("count", &["--by", "level", "--json", "status:>=250"]),
        ("count", &["status:>=1000"]),
        ("sources", &["--json"]),
        ("hosts", &[]),
        ("export", &["--format", "ndjson"]),
        ("export", &["--raw", "--since", "2026-11-21T08:01:00Z"]),
        ("verify", &[]),
        ("verify", &["--json"]),
        ("verify", &["--archives"]),
    ];
    for (command, words) in questions {
        let (owner, asked) = (shared.owner(command, words), shared.asked(command, words));
        let said = format!("{command} {words:?}");
        assert_eq!(text(&asked.stdout), text(&owner.stdout), "{said}: {}", text(&asked.stderr));
        assert_eq!(text(&asked.stderr), text(&owner.stderr), "{said}");
        assert_eq!(asked.status.code(), owner.status.code(), "{said}");
    }
    // The daemon's list may have more than the folder's: what it tried last.
    let names = |output: Output| {
        let line = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        text(&output.stdout).lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(names(shared.asked("tables", &[])), names(shared.owner("tables", &[])));
    let file = shared.place.log("web-1.log").display().to_string();
    let again = shared.asked("export", &["--raw", "--source", &file]);
    let said = text(&again.stderr);
    assert!(
        !again.status.success() && said.contains("only the data folder has") && said.contains("--since 30d"),
        "{said}"
    );
    let status = shared.asked("status", &[]);
    assert!(status.status.success() && text(&status.stdout).contains("daemon    ready"), "{}", text(&status.stderr));
    let link = text(&shared.asked("open", &[]).stdout);
    assert!(link.starts_with("http://127.0.0.1:"), "{link}");
    // The commands find the socket by their configuration as well.
    let config = shared.place.path("daytable.toml").display().to_string();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).expect("set");
    let mut by_config = Command::new("setpriv");
    by_config.args([format!("--reuid={USER}"), format!("--regid={USER}"), format!("--groups={GROUP}")]).arg("--");
    by_config.arg(&shared.binary).args(["count", "--config", &config]).env_remove("DAYTABLE_DATA").current_dir("/");
    assert_eq!(text(&by_config.output().expect("run").stdout), "97\n");
    shared.daemon.stop();
}

/// The file that `duckdb` would get has the records of the daemon. The member runs a program that copies it, because the real
/// one may lie where only root has access.
#[test]
fn a_member_asks_in_sql() {
    let Some(shared) = Shared::start("") else { return };
    shared.place.write("web-1.log", &lines());
    shared.wait_for_records(90);
    let (folder, copy) = (shared.place.path("out"), shared.place.path("out/records.parquet"));
    fs::create_dir(&folder).expect("a folder");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("set");
    let script = format!(
        "#!/bin/sh\ncp \"$(printf %s \"$*\" | sed -n \"s/.*read_parquet('\\([^']*\\)').*/\\1/p\")\" {}\n",
        copy.display()
    );
    let program = folder.join("duckdb");
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let asked = shared.command_in(GROUP, "sql", &["SELECT 1"]).env("PATH", path).output().expect("run");
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    let statement = format!(
        "SELECT level, count(*)::INT n, max(status)::INT most FROM read_parquet('{}') GROUP BY ALL ORDER BY ALL",
        copy.display()
    );
    let found =
        Command::new(installed("target/venv/bin/duckdb")).args(["-csv", "-c", &statement]).output().expect("run");
    assert_eq!(text(&found.stdout).replace('\r', ""), "level,n,most\nerror,30,289\ninfo,30,287\nwarn,30,288\n");
    shared.daemon.stop();
}

#[test]
fn a_member_follows_and_the_end_of_the_daemon_is_an_error() {
    let Some(shared) = Shared::start("") else { return };
    shared.place.write("web-1.log", &["the first".into()]);
    shared.wait_for_records(1);
    let mut tail = shared.command_in(GROUP, "tail", &["-n", "1"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let tail = tail.as_mut().expect("run");
    let mut followed = BufReader::new(tail.stdout.take().expect("piped")).lines();
    let mut next = || followed.next().expect("a line").expect("text");
    assert!(next().ends_with("the first"));
    shared.place.write("web-1.log", &["the second".into()]);
    assert!(next().ends_with("the second"));
    let limited = shared.asked("tail", &["-n", "2", "--limit", "2", "--json"]);
    assert!(limited.status.success() && text(&limited.stdout).lines().count() == 2, "{}", text(&limited.stderr));
    let endless = shared.asked("tail", &["* | stats count() n"]);
    assert!(
        !endless.status.success() && text(&endless.stderr).contains("leave the pipe out"),
        "{}",
        text(&endless.stderr)
    );
    shared.daemon.stop();
    let ended = wait_for("tail ends with its daemon", PATIENCE, || tail.try_wait().expect("a process"));
    assert!(!ended.success());
}

#[test]
fn a_member_changes_nothing() {
    let Some(shared) = Shared::start("") else { return };
    shared.place.write("web-1.log", &lines());
    shared.wait_for_records(90);
    let file = shared.socket().metadata().expect("a socket");
    assert_eq!((file.mode() & 0o777, file.gid()), (0o660, GROUP));
    let changes = [
        ("POST", "/-/drop?table=Log20261121", ""),
        ("POST", "/-/drop?table=Log20261121&without_archive=true", ""),
        ("POST", "/-/reload", ""),
        ("POST", "/-/archive?table=Log20261121", ""),
        ("POST", "/-/restore", "{\"table\":\"Log20261121\",\"keep_seconds\":60}"),
        ("POST", "/-/import", "{\"paths\":[\"/etc/hostname\"]}"),
        ("POST", "/-/hosts/invite?name=web-1", ""),
        ("POST", "/-/hosts/enrol?name=web-1", ""),
        ("POST", "/-/hosts/revoke?name=web-1", ""),
        ("POST", "/-/hosts/forget?name=web-1", ""),
        ("POST", "/-/hosts/verify", ""),
        ("POST", "/ingest", "a record"),
        ("POST", "/loki/api/v1/push", "{}"),
        ("POST", "/v1/logs", "{}"),
        ("POST", "/elasticsearch/_bulk", "{}"),
        ("PUT", "/upload", "x"),
        ("POST", "/forward/v1/join", "{}"),
    ];
    for (method, target, body) in changes {
        let answer = client::over_unix(&shared.socket(), method, target, body).expect("an answer");
        assert!(matches!(answer.status, 403 | 405), "{method} {target}: {} {}", answer.status, answer.body);
    }
    for (command, words) in
        [("drop", &["Log20261121", "--yes"][..]), ("reload", &[]), ("backup", &["/tmp/backup-of-nobody"])]
    {
        let refused = shared.asked(command, words);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(77), "{command}: {said}");
        assert!(said.contains("sudo -u daytable daytable"), "{command}: {said}");
    }
    assert_eq!(text(&shared.owner("count", &[]).stdout), "90\n");
    // Somebody of another group reads nothing, and learns how to.
    for (command, words) in
        [("query", &[][..]), ("count", &[]), ("tail", &[]), ("status", &[]), ("sources", &[]), ("hosts", &[])]
    {
        let refused = shared.command_in(GROUP + 1, command, words).output().expect("run");
        let said = text(&refused.stderr);
        assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(77), String::new()), "{command}: {said}");
        assert!(said.contains("read_group"), "{command}: {said}");
    }
    let socket = shared.socket();
    shared.daemon.stop();
    assert!(!socket.exists());
}

#[test]
fn doctor_of_a_member_asks_the_daemon_and_that_of_others_says_what_it_leaves_out() {
    let Some(shared) = Shared::start("") else { return };
    shared.place.write("web-1.log", &lines());
    shared.wait_for_records(90);
    let config = shared.place.path("daytable.toml").display().to_string();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).expect("set");
    let doctor = |group| {
        let output = shared.command_in(group, "doctor", &["--config", &config]).output().expect("run");
        (output.status.code(), text(&output.stdout))
    };
    let (code, said) = doctor(GROUP);
    assert!(code == Some(0) && said.contains("the daemon answers") && said.contains("the daemon can read 1"), "{said}");
    assert!(said.contains("it runs and is ready") && !said.contains("FAIL"), "{said}");
    let (code, said) = doctor(GROUP + 1);
    assert!(code == Some(0) && said.contains("members of the group 4242 ask the daemon"), "{said}");
    assert!(!said.contains("none runs") && !said.contains("FAIL"), "{said}");
    shared.daemon.stop();
}

#[test]
fn there_is_no_such_socket_without_a_group_or_for_a_group_that_is_none() {
    let place = Place::new();
    let socket = place.path("read.sock");
    let http = "[http]\nlisten = \"127.0.0.1:0\"\n";
    let path = format!("read_socket = {socket:?}\n");
    let daemon = start(&place, &path, http);
    assert!(!socket.exists());
    daemon.stop();
    let daemon = start(&place, &(path + "read_group = \"no-such-group-here\"\n"), http);
    daemon.wait_said("the group of read_group does not exist");
    assert!(!socket.exists());
    daemon.stop();
}
