//! What is tortured: how it is started on a folder of files, and how what it kept is read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A collector that reads files and keeps their records. Whatever it needs lies in one folder.
pub(crate) trait Collector: Sync {
    /// Its name in what is printed.
    fn name(&self) -> &'static str;

    /// The program and its arguments, for `home` as its folder and `logs` as what it reads. It stays in the foreground and
    /// ends at SIGTERM.
    fn command(&self, home: &Path, logs: &Path) -> io::Result<Command>;

    /// The messages that it kept so far. An error where they cannot be read now.
    fn messages(&self, home: &Path) -> io::Result<Vec<String>>;

    /// What else has to be so at the end of a run, besides the records; the first thing that is not.
    fn fault(&self, home: &Path) -> io::Result<Option<String>>;
}

/// The collector of a name.
pub(crate) fn named(name: &str) -> Option<Box<dyn Collector>> {
    match name {
        "daytable" => Some(Box::new(Daytable)),
        "rsyslog" => Some(Box::new(Rsyslog)),
        _ => None,
    }
}

/// The binary of this repository.
struct Daytable;

const DAYTABLE: &str = env!("CARGO_BIN_EXE_daytable");

impl Daytable {
    fn ask(home: &Path, command: &str, args: &[&str]) -> io::Result<Vec<serde_json::Value>> {
        let output = Command::new(DAYTABLE)
            .args([command, "--json", "--data"])
            .arg(home.join("store/data"))
            .args(args)
            .stdin(Stdio::null())
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!(
                "daytable {command}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
    }
}

impl Collector for Daytable {
    fn name(&self) -> &'static str {
        "daytable"
    }

    /// Days are sealed and archived as soon as they are over, so a run goes through the whole life of a day: that of the
    /// records is over, `Short` has expired when it is made.
    fn command(&self, home: &Path, logs: &Path) -> io::Result<Command> {
        let (data, logs, archive) = (home.join("store/data"), logs.display(), home.join("store/archive"));
        let config = home.join("daytable.toml");
        let text = format!(
            r#"data_dir = "{}"
[http]
listen = "127.0.0.1:0"
[[tail]]
include = ["{logs}/*.log*"]
instance = "{{stem}}"
[[table]]
name = "Log"
keep = "36500d"
archive = "file://{}"
[lifecycle]
schedule = "* * * * * *"
seal_after = "0s"
grace = "0s"
[store]
commit_interval = "20ms"
"#,
            data.display(),
            archive.display()
        );
        if fs::read_to_string(&config).ok().as_ref() != Some(&text) {
            fs::write(&config, text)?;
        }
        let mut command = Command::new(DAYTABLE);
        command.arg("run").arg("--config").arg(config);
        Ok(command)
    }

    fn messages(&self, home: &Path) -> io::Result<Vec<String>> {
        if !home.join("store/data/catalog.db").exists() {
            return Ok(Vec::new());
        }
        let records = Daytable::ask(home, "query", &["-n", "1000000000"])?;
        Ok(records.iter().map(|record| record["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    fn fault(&self, home: &Path) -> io::Result<Option<String>> {
        let counted: u64 = Daytable::ask(home, "count", &[])?.iter().filter_map(|n| n["records"].as_u64()).sum();
        let queried = self.messages(home)?.len() as u64;
        if counted != queried {
            return Ok(Some(format!("count says {counted} records and query {queried}")));
        }
        Ok(None)
    }
}

/// rsyslog's `imfile` to one file, with what its documentation names to lose nothing: a persisted state after each
/// message, and a queue on the disk.
struct Rsyslog;

impl Rsyslog {
    fn kept(home: &Path) -> PathBuf {
        home.join("store/kept.log")
    }
}

impl Collector for Rsyslog {
    fn name(&self) -> &'static str {
        "rsyslog"
    }

    fn command(&self, home: &Path, logs: &Path) -> io::Result<Command> {
        let state = home.join("store/state");
        fs::create_dir_all(&state)?;
        let config = home.join("rsyslog.conf");
        let text = format!(
            r#"global(workDirectory="{state}" maxMessageSize="128k")
module(load="imfile" mode="inotify")
template(name="whole" type="string" string="%msg%\n")
ruleset(name="keep") {{
    action(type="omfile" file="{kept}" template="whole" asyncWriting="off" flushOnTXEnd="on" sync="on"
        queue.type="Direct")
}}
input(type="imfile" file="{logs}/*.log" tag="t" ruleset="keep" persistStateInterval="1" reopenOnTruncate="on"
    freshStartTail="off")
"#,
            state = state.display(),
            kept = Rsyslog::kept(home).display(),
            logs = logs.display(),
        );
        fs::write(&config, text)?;
        let mut command = Command::new("rsyslogd");
        command.arg("-n").arg("-f").arg(config).arg("-i").arg(home.join("rsyslogd.pid"));
        Ok(command)
    }

    fn messages(&self, home: &Path) -> io::Result<Vec<String>> {
        let kept = match fs::read(Rsyslog::kept(home)) {
            Ok(kept) => kept,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let message = |line: &str| {
            let record: serde_json::Value = serde_json::from_str(line.trim()).ok()?;
            record["message"].as_str().map(str::to_owned)
        };
        let text = String::from_utf8_lossy(&kept);
        Ok(text.lines().map(|line| message(line).unwrap_or_else(|| line.to_owned())).collect())
    }

    fn fault(&self, _home: &Path) -> io::Result<Option<String>> {
        Ok(None)
    }
}
