//! rsyslog that sends to rsyslog by RELP, set to lose nothing: state of the file after each batch, a queue on disk with syncs, retries
//! without end.

use crate::corpus;
use crate::member::{PATIENCE, free_address};
use crate::process::Watched;
use crate::table::Table;
use anyhow::{Result, ensure};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the lines of a file may take.
const TIME_MAX: Duration = Duration::from_secs(30);

/// A sender or a receiver.
pub(crate) struct Rsyslog {
    config: PathBuf,
}

impl Rsyslog {
    /// Reads the files of `include` and sends them.
    pub(crate) fn sender(scratch: &Path, include: &Path, to: SocketAddr) -> Result<Rsyslog> {
        let (state, include, port) = (scratch.join("sender"), include.display(), to.port());
        std::fs::create_dir_all(&state)?;
        let text = format!(
            r#"global(workDirectory="{state}" maxMessageSize="64k")
module(load="imfile" mode="inotify")
module(load="omrelp")
template(name="raw" type="string" string="<13>1 - - - - - - %msg%\n")
ruleset(name="send") {{
    action(type="omrelp" target="127.0.0.1" port="{port}" template="raw" timeout="10" action.resumeRetryCount="-1"
        action.resumeInterval="1" queue.type="LinkedList" queue.filename="relp" queue.saveOnShutdown="on"
        queue.syncQueueFiles="on" queue.checkpointInterval="1" queue.size="100000")
}}
input(type="imfile" file="{include}" tag="t" ruleset="send" persistStateInterval="1" freshStartTail="off")
"#,
            state = state.display(),
        );
        Rsyslog::new(scratch, "sender", &text)
    }

    /// Receives and writes to one file.
    pub(crate) fn receiver(scratch: &Path, listen: SocketAddr) -> Result<Rsyslog> {
        let (state, port) = (scratch.join("receiver"), listen.port());
        std::fs::create_dir_all(&state)?;
        let text = format!(
            r#"global(workDirectory="{state}" maxMessageSize="64k")
module(load="imrelp" ruleset="keep")
template(name="raw" type="string" string="%msg%\n")
ruleset(name="keep" queue.type="Direct") {{
    action(type="omfile" file="{kept}" template="raw" asyncWriting="off" flushOnTXEnd="on" sync="on" queue.type="Direct")
}}
input(type="imrelp" port="{port}")
"#,
            state = state.display(),
            kept = kept(scratch).display(),
        );
        Rsyslog::new(scratch, "receiver", &text)
    }

    fn new(scratch: &Path, name: &str, text: &str) -> Result<Rsyslog> {
        let config = scratch.join(format!("{name}.conf"));
        std::fs::write(&config, text)?;
        Ok(Rsyslog { config })
    }

    pub(crate) fn spawn(&self) -> Result<Watched> {
        let mut command = Command::new("rsyslogd");
        let pid = self.config.with_extension("pid");
        let _ = std::fs::remove_file(&pid);
        command.arg("-n").arg("-f").arg(&self.config).arg("-i").arg(pid);
        Watched::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }
}

/// What the receiver wrote.
pub(crate) fn kept(scratch: &Path) -> PathBuf {
    scratch.join("kept.log")
}

/// Whether it can be run here.
pub(crate) fn is_there() -> bool {
    let folders = ["/usr/lib/x86_64-linux-gnu/rsyslog", "/usr/lib/aarch64-linux-gnu/rsyslog", "/usr/lib/rsyslog"];
    let is_there = folders.iter().any(|folder| Path::new(folder).join("omrelp.so").exists());
    if !is_there {
        eprintln!("rsyslog with omrelp is not there, it is left out");
    }
    is_there
}

/// A file that is there already, from rsyslog to rsyslog.
pub(crate) fn throughput(table: &mut Table, scratch: &Path, records: u64) -> Result<()> {
    if !is_there() {
        return Ok(());
    }
    // It is slower by far, so it gets fewer lines, and some time.
    let records = records / 10;
    let log = scratch.join("files.log");
    corpus::write_ndjson(&log, records)?;
    let listen = free_address()?;
    let receiver = Rsyslog::receiver(scratch, listen)?.spawn()?;
    let began = Instant::now();
    let sender = Rsyslog::sender(scratch, &log, listen)?.spawn()?;
    let mut lines = 0;
    while lines < records && (lines == 0 || began.elapsed() < TIME_MAX) {
        std::thread::sleep(Duration::from_millis(100));
        lines = count_lines(&kept(scratch));
        ensure!(lines > 0 || began.elapsed() < PATIENCE, "rsyslog writes nothing");
    }
    let took = began.elapsed().as_secs_f64();
    let (received, sent) = (receiver.cpu()?, sender.cpu()?);
    sender.stop()?;
    receiver.stop()?;
    table.add("rsyslog to rsyslog by RELP: records", "/s", "", lines as f64 / took);
    table.add(
        "rsyslog to rsyslog by RELP: CPU of the receiver a record",
        "µs",
        "",
        received.as_secs_f64() * 1e6 / lines as f64,
    );
    table.add(
        "rsyslog to rsyslog by RELP: CPU of the sender a record",
        "µs",
        "",
        sent.as_secs_f64() * 1e6 / lines as f64,
    );
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

fn count_lines(path: &Path) -> u64 {
    std::fs::read(path).map_or(0, |bytes| memchr::memchr_iter(b'\n', &bytes).count() as u64)
}
