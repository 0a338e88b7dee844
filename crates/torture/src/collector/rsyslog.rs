//! rsyslog as Debian ships it: `imfile` writes to one file.

use super::{Collector, Stage};
use crate::world::Abilities;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// rsyslog's `imfile`, which writes to one file. The configuration follows the documentation's advice against loss: a
/// persisted state after each message, and a queue on disk.
pub(super) struct Rsyslog;

impl Rsyslog {
    fn kept(home: &Path) -> PathBuf {
        home.join("store/kept.log")
    }
}

impl Collector for Rsyslog {
    fn name(&self) -> &'static str {
        "rsyslog"
    }

    /// `imfile` reads growing files. It knows neither the line format of container runtimes nor compression.
    fn abilities(&self) -> Abilities {
        Abilities { cri: false, gzip: false, copies: true }
    }

    /// `imfile` reads a file after a notification and never scans for missed files. A short limit avoids a useless wait
    /// after each loss.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn command(&self, home: &Path, logs: &Path) -> io::Result<Command> {
        let state = home.join("store/state");
        fs::create_dir_all(&state)?;
        let config = home.join("rsyslog.conf");
        let text = format!(
            r#"global(workDirectory="{state}" maxMessageSize="2m")
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

    fn stage(&self, _home: &Path, _days: &[String]) -> io::Result<Stage> {
        Ok(Stage::Done)
    }

    fn let_go(&self, _home: &Path, _logs: &Path) -> io::Result<()> {
        Ok(())
    }

    fn errand(&self, _home: &Path, _day: &str) -> Option<Command> {
        None
    }

    fn fault(&self, _home: &Path, _count: usize) -> io::Result<Option<String>> {
        Ok(None)
    }
}
