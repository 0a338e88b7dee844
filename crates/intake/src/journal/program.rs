//! `journalctl` as a child: entries from a cursor on, as they are written.
//!
//! It is killed with its handle. Should the daemon be killed, it ends by itself: its pipe has no other end any more.

use daytable_model::record::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The program.
const PROGRAM: &str = "journalctl";
/// How long it may take to end when it has nothing more to say.
const EXIT: Duration = Duration::from_secs(1);
/// Bytes of what it says of its errors that are kept, the last ones.
const SAID_BYTES_MAX: usize = 1 << 10;

/// Which entries it is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalQuery {
    pub(super) directory: Option<PathBuf>,
    pub(super) units: Vec<String>,
    pub(super) level_at_least: Option<Level>,
}

/// Where in the journal it begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'a> {
    /// At the oldest entry.
    Beginning,
    /// At the entry of this cursor, or where that is gone at the next one that is left.
    At(&'a str),
    /// At the newest entry there is.
    Newest,
}

/// What became of the program.
pub(super) struct ProcessEnd {
    pub(super) is_success: bool,
    /// Its status, and what it said last.
    pub(super) how: String,
}

/// The program while it runs.
pub(super) struct JournalReader {
    child: Child,
    stdout: ChildStdout,
    /// Gathers the end of what it says of its errors.
    said: Option<JoinHandle<Vec<u8>>>,
}

/// This host, as its journal has it (machine-id(5)).
fn machine_id() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?.trim().to_owned();
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(id)
}

impl JournalQuery {
    /// Whether it passes entries over.
    pub(super) fn is_choosy(&self) -> bool {
        !self.units.is_empty() || self.level_at_least.is_some()
    }

    /// The same journal with all of its entries.
    pub(super) fn of_all(&self) -> JournalQuery {
        JournalQuery { directory: self.directory.clone(), ..JournalQuery::default() }
    }

    fn command(&self, start: Start<'_>) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(["--output=export", "--no-pager", "--quiet"]);
        if let Some(directory) = &self.directory {
            command.arg("--directory").arg(directory);
        }
        command.args(self.units.iter().map(|unit| format!("--unit={unit}")));
        if let Some(level) = self.level_at_least {
            command.arg(format!("--priority={}", priority(level)));
        }
        match start {
            Start::Beginning => {}
            // Not `--after-cursor`, which passes over an entry too many where the cursor is gone.
            Start::At(cursor) => drop(command.arg(format!("--cursor={cursor}"))),
            Start::Newest => drop(command.arg("--lines=1")),
        }
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it over all entries from `start` on, and those that are written from now on.
    pub(super) fn follow(&self, start: Start<'_>) -> io::Result<JournalReader> {
        let mut command = self.command(start);
        // To follow means the newest boot alone, unless journals are merged: after a reboot, what was not read before it
        // would never be. To merge means those of other machines as well, of which a host's own journal has none.
        command.args(["--follow", "--no-tail", "--merge"]);
        if let (None, Some(id)) = (&self.directory, machine_id()) {
            command.arg(format!("_MACHINE_ID={id}"));
        }
        JournalReader::of(&mut command)
    }

    /// Runs it over the entries from `start` on that there are.
    pub(super) fn once(&self, start: Start<'_>) -> io::Result<JournalReader> {
        JournalReader::of(&mut self.command(start))
    }
}

/// The scale of syslog, as `--priority=` has it.
fn priority(level: Level) -> u8 {
    match level {
        Level::Fatal => 0,
        Level::Alert => 1,
        Level::Critical => 2,
        Level::Error => 3,
        Level::Warn => 4,
        Level::Notice => 5,
        Level::Info => 6,
        Level::Debug | Level::Trace => 7,
    }
}

impl JournalReader {
    fn of(command: &mut Command) -> io::Result<JournalReader> {
        let mut child = command.spawn()?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (stdout, mut stderr) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        // Nobody else reads it, and a pipe that is full would hold the program.
        let said = std::thread::Builder::new().name("journal-stderr".into()).spawn(move || {
            let (mut said, mut buffer) = (Vec::new(), [0; 512]);
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                said.extend_from_slice(&buffer[..read]);
                let surplus = said.len().saturating_sub(SAID_BYTES_MAX);
                said.drain(..surplus);
            }
            said
        });
        match said {
            Ok(said) => Ok(JournalReader { child, stdout, said: Some(said) }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Reads what there is, as much as one call gives; 0 at its end. None where nothing comes within `patience`.
    pub(super) fn read(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        let seconds = i64::try_from(patience.as_secs()).unwrap_or(i64::MAX);
        let patience = Timespec { tv_sec: seconds, tv_nsec: patience.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&self.stdout, PollFlags::IN)], Some(&patience)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        match self.stdout.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            read => read.map(Some),
        }
    }

    /// What became of it, once all that it writes was read.
    pub(super) fn end(mut self) -> ProcessEnd {
        let deadline = Instant::now() + EXIT;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // It has ended by itself, most often.
        let _ = self.child.kill();
        let status = self.child.wait();
        let said = self.said.take().and_then(|said| said.join().ok()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        let is_success = status.as_ref().is_ok_and(ExitStatus::success);
        let how = status.map_or_else(|error| error.to_string(), |status| format!("{PROGRAM} ended with {status}"));
        ProcessEnd { is_success, how: if said.is_empty() { how } else { format!("{how}: {said}") } }
    }
}

impl Drop for JournalReader {
    fn drop(&mut self) {
        // Both fail where it has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
