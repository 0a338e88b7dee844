//! The collector `daytable`: the program of this repository.

use super::{Collector, Stage};
use crate::world::Abilities;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time limit for a request whose answer is only a hint.
const PATIENCE: Duration = Duration::from_secs(5);

/// The program `daytable`, with the same configuration in all runs.
pub(crate) struct Daytable {
    binary: PathBuf,
}

impl Daytable {
    pub(crate) fn new(binary: &Path) -> Daytable {
        Daytable { binary: binary.into() }
    }

    /// The data folder.
    pub(crate) fn data(home: &Path) -> PathBuf {
        home.join("store/data")
    }

    /// A `daytable` command.
    pub(crate) fn command(&self, command: &str) -> Command {
        let mut daytable = Command::new(&self.binary);
        daytable.arg(command).stdin(Stdio::null());
        daytable
    }

    /// A `daytable` command on a data folder.
    pub(crate) fn command_on(&self, home: &Path, command: &str) -> Command {
        let mut daytable = self.command(command);
        daytable.arg("--data").arg(Daytable::data(home));
        daytable
    }

    /// The JSON lines that a `daytable` command prints about a data folder.
    pub(crate) fn ask(&self, home: &Path, command: &str, args: &[&str]) -> io::Result<Vec<Value>> {
        self.ask_each(home, command, args, |value| value)
    }

    /// What `each` makes of these lines. A day of a load has a million, and not all are in memory at a time.
    fn ask_each<T>(&self, home: &Path, command: &str, args: &[&str], each: impl Fn(Value) -> T) -> io::Result<Vec<T>> {
        let mut command_on = self.command_on(home, command);
        if home.join("store.toml").exists() && command != "sources" {
            command_on.arg("--config").arg(home.join("daytable.toml"));
        }
        let mut child = command_on.arg("--json").args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let values: io::Result<Vec<T>> = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?)
            .lines()
            .map(|line| Ok(each(serde_json::from_str(&line?)?)))
            .collect();
        let output = child.wait_with_output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("daytable {command}: {}", said.trim())));
        }
        values
    }

    /// The number of records that a running daemon reports.
    fn counted(&self, home: &Path) -> io::Result<u64> {
        let mut daemon = UnixStream::connect(Daytable::data(home).join("control.sock"))?;
        daemon.set_read_timeout(Some(PATIENCE))?;
        daemon.write_all(b"GET /api/count HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        daemon.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let counts: Vec<Value> = serde_json::from_str(body)?;
        Ok(counts.iter().filter_map(|count| count["records"].as_u64()).sum())
    }

    /// Compares each log that still has its first name with the bytes that `daytable export --raw` writes of it. The
    /// export has the rotated parts first.
    fn changed_bytes(&self, home: &Path) -> io::Result<Option<String>> {
        let sources = self.ask(home, "sources", &[])?;
        // Rotated files may have the name that they had first.
        let paths: BTreeSet<&str> = sources.iter().filter_map(|source| source["path"].as_str()).collect();
        for path in paths.into_iter().filter(|path| path.ends_with(".log")) {
            let Ok(content) = fs::read(path) else { continue };
            let mut export = self.command_on(home, "export");
            if home.join("store.toml").exists() {
                export.arg("--config").arg(home.join("daytable.toml"));
            }
            let export = export.args(["--raw", "--source", path]).output()?;
            if !export.stdout.ends_with(&content) {
                let (exported, said) = (export.stdout.len(), String::from_utf8_lossy(&export.stderr));
                return Ok(Some(format!("{path} differs from the {exported} bytes of its export: {said}")));
            }
        }
        Ok(None)
    }

    /// Writes the configuration. The daemon seals and archives each day as soon as the day is over, unless
    /// `lifecycle.toml` says otherwise, and keeps it for `keep`.
    fn configure(home: &Path, logs: &Path, keep: &str) -> io::Result<PathBuf> {
        let (data, logs, archive) = (Daytable::data(home), logs.display(), home.join("store/archive"));
        // Settings that some modes need in addition.
        let [more, store] =
            ["more.toml", "store.toml"].map(|name| fs::read_to_string(home.join(name)).unwrap_or_default());
        let lifecycle = fs::read_to_string(home.join("lifecycle.toml")).unwrap_or_else(|_| LIFECYCLE.to_owned());
        let config = home.join("daytable.toml");
        let text = format!(
            r#"data_dir = "{data}"
[http]
listen = "off"
[log]
level = "debug"
[[tail]]
include = ["{logs}/bare-*.log*"]
instance = "{{stem}}"
format = "plain"
poll = "20ms"
# The writers are stopped in the middle of their lines, for as long as the machine likes.
unended_after = "off"
[[tail]]
include = ["{logs}/app-*.log*", "{logs}/cri-*.log*", "{logs}/only-*.log"]
exclude = ["{logs}/*.tmp", "{logs}/*.next"]
instance = "{{stem}}-{{field:worker}}"
line_bytes_max = "2MiB"
poll = "20ms"
unended_after = "off"
join = {{ wait = "1s" }}
{more}[[table]]
name = "Log"
keep = "{keep}"
archive = "file://{archive}"
[lifecycle]
{lifecycle}[store]
commit_interval = "20ms"
{store}"#,
            data = data.display(),
            archive = archive.display(),
        );
        if fs::read_to_string(&config).ok().as_ref() != Some(&text) {
            // Replaced in one step: a daemon may be reading the file.
            let next = home.join("daytable.toml.next");
            fs::write(&next, text)?;
            fs::rename(next, &config)?;
        }
        Ok(config)
    }
}

/// What the daemon does with days.
const LIFECYCLE: &str = "schedule = \"* * * * * *\"\nseal_after = \"0s\"\ngrace = \"0s\"\nmin_tables = 0\n";
/// Longer than a run.
const FOR_EVER: &str = "36500d";

impl Collector for Daytable {
    fn name(&self) -> &'static str {
        "daytable"
    }

    fn abilities(&self) -> Abilities {
        Abilities { cri: true, gzip: true, copies: true }
    }

    fn takes_pushes(&self) -> bool {
        true
    }

    fn command(&self, home: &Path, logs: &Path) -> io::Result<Command> {
        let mut command = Command::new(&self.binary);
        command.arg("run").arg("--config").arg(Daytable::configure(home, logs, FOR_EVER)?);
        Ok(command)
    }

    /// Messages of the day-tables, and of the archives of dropped days.
    fn messages(&self, home: &Path) -> io::Result<Vec<String>> {
        if !Daytable::data(home).join("catalog.db").exists() {
            return Ok(Vec::new());
        }
        self.ask_each(home, "query", &["-n", "1000000000"], |record| {
            record["message"].as_str().unwrap_or_default().to_owned()
        })
    }

    fn stage(&self, home: &Path, days: &[String]) -> io::Result<Stage> {
        let tables = self.ask(home, "tables", &[])?;
        let tables = days.iter().filter_map(|day| tables.iter().find(|table| table["table"] == format!("Log{day}")));
        let now = daytable_model::time::now().to_string();
        Ok(tables.fold(Stage::Done, |stage, table| match (stage, table["state"].as_str()) {
            (Stage::Busy, _) => Stage::Busy,
            (stage, Some("dropped")) => stage,
            (_, Some("archived")) => Stage::Kept,
            // The day received records after its seal. The next seal is a day away, so this run sees no further change.
            (stage, _) if table["next_at"].as_str().is_some_and(|at| at[..19] > now[..19]) => stage,
            _ => Stage::Busy,
        }))
    }

    fn let_go(&self, home: &Path, logs: &Path) -> io::Result<()> {
        Daytable::configure(home, logs, "1m").map(drop)
    }

    fn errand(&self, home: &Path, day: &str) -> Option<Command> {
        let mut archive = self.command_on(home, "archive");
        archive.arg(format!("Log{day}")).stdout(Stdio::null()).stderr(Stdio::null());
        Some(archive)
    }

    fn seems_to_have(&self, home: &Path, count: usize) -> bool {
        // Counting the rows of a remote store is slow.
        home.join("store.toml").exists() || self.counted(home).is_ok_and(|counted| counted >= count as u64)
    }

    fn fault(&self, home: &Path, count: usize) -> io::Result<Option<String>> {
        let counted: u64 = self.ask(home, "count", &[])?.iter().filter_map(|n| n["records"].as_u64()).sum();
        if counted != count as u64 {
            return Ok(Some(format!("count says {counted} records and query {count}")));
        }
        let verify = self.command_on(home, "verify").args(["--archives", "--json"]).output()?;
        let said = String::from_utf8_lossy(&[verify.stdout, verify.stderr].concat()).into_owned();
        if !verify.status.success() {
            return Ok(Some(format!("daytable verify says: {said}")));
        }
        self.changed_bytes(home)
    }
}
