//! A folder with log files, a data folder, and the daemon between them.

use crate::client;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const DAYTABLE: &str = env!("CARGO_BIN_EXE_daytable");
/// Time limit for operations that take milliseconds: other tests keep the machine busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The `[[tail]]` block of most tests. `LOGS` stands for the folder of the log files.
pub(crate) const TAIL: &str = "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"test\"\n";

/// Waits until `look` returns a value. Panics with `what` at the deadline.
pub(crate) fn wait_for<T>(what: &str, patience: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {patience:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The folder of one test. Dropping the value removes the folder.
pub(crate) struct Place {
    root: tempfile::TempDir,
}

impl Place {
    /// An empty place with a folder for log files.
    pub(crate) fn new() -> Place {
        let place = Place { root: tempfile::tempdir().expect("a folder") };
        fs::create_dir(place.path("logs")).expect("a folder for logs");
        place
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// The path of a log file.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.path("logs").join(name)
    }

    /// Appends lines to a log file.
    pub(crate) fn write(&self, name: &str, lines: &[String]) {
        append(&self.log(name), lines.concat_lines().as_bytes());
    }

    /// Writes the configuration: the data folder, a free port, and `more`.
    pub(crate) fn configure(&self, more: &str) -> PathBuf {
        let (data, logs) = (self.data(), self.path("logs"));
        let listen = if more.contains("[http]") { "" } else { "[http]\nlisten = \"127.0.0.1:0\"\n" };
        let text = format!("data_dir = \"{}\"\n{listen}[log]\nlevel = \"debug\"\n{more}", data.display());
        let path = self.path("daytable.toml");
        fs::write(&path, text.replace("LOGS", &logs.display().to_string())).expect("a configuration");
        path
    }

    /// `daytable COMMAND --data DATA`.
    pub(crate) fn command(&self, command: &str) -> Command {
        let mut daytable = Command::new(DAYTABLE);
        daytable.arg(command).arg("--data").arg(self.data()).env_remove("DAYTABLE_DATA").stdin(Stdio::null());
        daytable
    }

    /// Runs a command on the data folder to its end.
    pub(crate) fn ask(&self, command: &str, args: &[&str]) -> Output {
        self.command(command).args(args).output().expect("daytable can be run")
    }

    /// The output of a command, which must succeed.
    pub(crate) fn said(&self, command: &str, args: &[&str]) -> String {
        let output = self.ask(command, args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "daytable {command} {args:?}: {}\n{error}", output.status);
        String::from_utf8(output.stdout).expect("text")
    }

    /// The exit code of a command with its arguments on a terminal on which `answer` is typed, and what it shows.
    pub(crate) fn on_terminal(&self, arguments: &str, answer: &str) -> (Option<i32>, String) {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{DAYTABLE} {arguments}"), "/dev/null"]);
        script.current_dir(self.path("")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = script.spawn().expect("script of util-linux");
        child.stdin.take().expect("piped").write_all(answer.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("run");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The objects printed by a command with `--json`.
    pub(crate) fn json(&self, command: &str, args: &[&str]) -> Vec<Value> {
        let said = self.said(command, &[args, &["--json"]].concat());
        said.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
    }

    /// Every record.
    pub(crate) fn records(&self) -> Vec<Value> {
        self.json("query", &["-n", "1000000000"])
    }

    /// Every record. Empty before the data folder exists.
    pub(crate) fn try_records(&self) -> Vec<Value> {
        if self.data().join("catalog.db").exists() { self.records() } else { Vec::new() }
    }

    /// The ledger (the account of read and stored records) of the source with this file name.
    pub(crate) fn ledger(&self, name: &str) -> Value {
        let path = self.log(name).display().to_string();
        let sources = self.json("sources", &[]);
        let found = sources.iter().find(|source| source["path"] == path);
        found.unwrap_or_else(|| panic!("{path} is no source: {sources:?}")).clone()
    }

    /// Starts the daemon on the usual [`TAIL`] block, and waits until it is ready.
    pub(crate) fn start(&self) -> Daemon {
        self.start_with(TAIL)
    }

    /// Starts the daemon with a configuration, and waits until it is ready.
    pub(crate) fn start_with(&self, config: &str) -> Daemon {
        let daemon = self.spawn(config);
        daemon.wait_ready();
        daemon
    }

    /// Starts the daemon with a configuration.
    pub(crate) fn spawn(&self, config: &str) -> Daemon {
        let config = self.configure(config);
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(config);
        self.spawn_command(command)
    }

    /// Starts a daemon on this folder by a given command.
    pub(crate) fn spawn_command(&self, mut command: Command) -> Daemon {
        let number = (0..).find(|n| !self.path(&format!("daemon-{n}.log")).exists()).expect("a free name");
        let log = self.path(&format!("daemon-{number}.log"));
        let stderr = File::create(&log).expect("a file for what the daemon says");
        command.env_remove("DAYTABLE_DATA").env_remove("JOURNAL_STREAM").stdin(Stdio::null()).stderr(stderr);
        let child = command.spawn().expect("daytable can be run");
        Daemon { child, log, socket: self.data().join("control.sock") }
    }

    /// Waits until the messages of all records are `expected`, with the same number of copies.
    pub(crate) fn wait_for_messages(&self, expected: &[String]) {
        let expected = counted(expected.iter().cloned());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.messages();
            if found == expected {
                return;
            }
            let (missing, surplus) = (without(&expected, &found), without(&found, &expected));
            let is_over = !surplus.is_empty() || Instant::now() >= deadline;
            assert!(
                !is_over,
                "{} missing: {}\n{} too many: {}",
                missing.len(),
                few(&missing),
                surplus.len(),
                few(&surplus)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the messages of all records are exactly `expected`. Other records may disappear meanwhile.
    pub(crate) fn wait_until_messages(&self, expected: &[&str]) {
        let expected = counted(expected.iter().map(|&message| message.to_owned()));
        wait_for("the rest is gone", PATIENCE, || (self.messages() == expected).then_some(()));
    }

    /// The messages of all records, each with its number of copies.
    pub(crate) fn messages(&self) -> BTreeMap<String, usize> {
        counted(self.records().iter().map(message_of))
    }

    /// The end of a test: each message of `expected` is there once, and stays so after a stop and a restart. The
    /// restart would read again every file that the daemon wrongly believes to be new.
    pub(crate) fn finish(&self, daemon: Daemon, config: &str, expected: &[String]) {
        self.wait_for_messages(expected);
        daemon.stop();
        self.wait_for_messages(expected);
        let daemon = self.start_with(config);
        // The daemon reads files from before its start before later files.
        self.write("sentinel.log", &["the sentinel".into()]);
        let expected = [expected, &["the sentinel".into()]].concat();
        self.wait_for_messages(&expected);
        daemon.stop();
        self.wait_for_messages(&expected);
        self.assert_no_key_twice();
    }

    /// No two records have the same three keys.
    pub(crate) fn assert_no_key_twice(&self) {
        let mut keys = HashSet::new();
        for record in self.records() {
            let key = [&record["table"], &record["partition_key"], &record["row_key"]].map(Value::to_string);
            assert!(keys.insert(key), "a key is there twice: {record}");
        }
    }
}

/// A running daemon. Dropping the value kills the process.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
    socket: PathBuf,
}

impl Daemon {
    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The control socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The output so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).expect("what the daemon says")
    }

    /// Waits until the output contains `text`.
    pub(crate) fn wait_said(&self, text: &str) {
        wait_for(&format!("the daemon says \"{text}\""), PATIENCE, || self.said().contains(text).then_some(()));
    }

    /// Waits until the daemon reports readiness.
    pub(crate) fn wait_ready(&self) {
        wait_for("the daemon is ready", PATIENCE, || {
            let answer = client::over_unix(&self.socket, "GET", "/readyz", "").ok()?;
            (answer.status == 200).then_some(())
        });
    }

    /// The TCP address of the HTTP listener.
    pub(crate) fn address(&self) -> SocketAddr {
        wait_for("the daemon listens over TCP", PATIENCE, || {
            let said = self.said();
            let address = said.split_once("listening address=")?.1.split_whitespace().next()?;
            address.parse().ok()
        })
    }

    /// The value of a metric, given with its labels as printed.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let answer = client::over_unix(&self.socket, "GET", "/metrics", "").ok()?;
        answer.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        rustix::process::kill_process(pid, signal).expect("a signal can be sent");
    }

    /// Kills the daemon, as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Stops the daemon, which must end within seconds and with success.
    pub(crate) fn stop(mut self) {
        self.signal(rustix::process::Signal::TERM);
        let status = self.ended();
        assert!(status.success(), "the daemon ended with {status}, signal {:?}\n{}", status.signal(), self.said());
    }

    /// Whether the daemon ended by itself.
    #[cfg(feature = "failpoints")]
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// The exit status, if the daemon ended.
    pub(crate) fn try_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child")
    }

    /// Waits for the daemon's own end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait_for("the daemon ends", PATIENCE, || self.child.try_wait().expect("a child"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process has often ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said();
            let lines: Vec<&str> = said.lines().collect();
            eprintln!("the daemon said last:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
    }
}

/// `prefix 0`, `prefix 1`, …: messages that no format splits.
pub(crate) fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix} {n}")).collect()
}

/// Appends bytes to a file, as a writer that reopens the file each time.
pub(crate) fn append(path: &Path, bytes: &[u8]) {
    let mut file = File::options().create(true).append(true).open(path).expect("a file to write to");
    file.write_all(bytes).expect("written");
}

/// Compresses a file as logrotate does: writes the whole copy first, then removes the original.
pub(crate) fn gzip(from: &Path, to: &Path) {
    let mut encoder = flate2::write::GzEncoder::new(File::create(to).expect("a file"), flate2::Compression::fast());
    encoder.write_all(&fs::read(from).expect("read")).expect("compressed");
    encoder.finish().expect("finished");
    fs::remove_file(from).expect("removed");
}

/// The message of a record.
pub(crate) fn message_of(record: &Value) -> String {
    record["message"].as_str().expect("a message").to_owned()
}

/// Lines, each with its newline.
pub(crate) trait Lines {
    /// The text of the lines.
    fn concat_lines(&self) -> String;
}

impl Lines for [String] {
    fn concat_lines(&self) -> String {
        self.iter().map(|line| format!("{line}\n")).collect()
    }
}

fn counted(messages: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    messages.for_each(|message| *counts.entry(message).or_default() += 1);
    counts
}

/// The messages that `these` has and `those` lacks, counting copies.
fn without(these: &BTreeMap<String, usize>, those: &BTreeMap<String, usize>) -> Vec<String> {
    let missing = |(message, count): (&String, &usize)| {
        let other = those.get(message).copied().unwrap_or(0);
        (*count > other).then(|| format!("{} x {message:?}", count - other))
    };
    these.iter().filter_map(missing).collect()
}

fn few(messages: &[String]) -> String {
    let shown: Vec<String> = messages.iter().take(8).map(|message| message.chars().take(100).collect()).collect();
    shown.join(", ")
}

/// A path below `target/`, where `tests/setup` installs programs.
pub(crate) fn installed(path: &str) -> PathBuf {
    let found = Path::new(DAYTABLE).ancestors().map(|folder| folder.join(path)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{path} is not there: sh tests/setup installs it"))
}

/// Every file below a folder, in order.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// A number of `/proc/PID/status` in MiB.
pub(crate) fn mebibytes(pid: u32, name: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the status");
    line.trim_matches(&[':', ' ', '\t', 'k', 'B'][..]).parse::<usize>().expect("a number") / 1024
}
