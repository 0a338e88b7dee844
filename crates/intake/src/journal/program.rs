//! `journalctl` as a child process: entries from a cursor on, as they are written.
//!
//! A dropped handle kills the process. If the daemon is killed, the process ends by itself, because its pipe is broken.

use daytable_model::record::Level;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The program.
const PROGRAM: &str = "journalctl";
/// How long the process may take to end after its output ended.
const EXIT: Duration = Duration::from_secs(1);
/// The bytes of its error output that are kept, from the end.
const STDERR_BYTES_MAX: usize = 1 << 10;

/// The entries to read.
#[derive(Clone, Debug, Default)]
pub(super) struct JournalQuery {
    pub(super) directory: Option<PathBuf>,
    pub(super) units: Vec<String>,
    pub(super) level_at_least: Option<Level>,
}

/// The first entry to read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start<'a> {
    /// The oldest entry.
    Beginning,
    /// The entry of this cursor. If the entry is gone, the next entry.
    At(&'a str),
    /// The newest entry.
    Newest,
}

/// How the process ended.
pub(super) struct ProcessEnd {
    pub(super) is_success: bool,
    /// The status, and the end of the error output.
    pub(super) how: String,
}

/// The running process.
pub(super) struct JournalProcess {
    child: Child,
    stdout: ChildStdout,
    /// Collects the end of the error output.
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl JournalQuery {
    /// Whether the query filters entries.
    pub(super) fn is_choosy(&self) -> bool {
        !self.units.is_empty() || self.level_at_least.is_some()
    }

    /// All entries of the same journal.
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
            // Not `--after-cursor`, which skips one entry too many if the entry of the cursor is gone.
            Start::At(cursor) => drop(command.arg(format!("--cursor={cursor}"))),
            Start::Newest => drop(command.arg("--lines=1")),
        }
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Reads all entries from `start` on, and follows the journal.
    pub(super) fn follow(&self, start: Start<'_>) -> io::Result<JournalProcess> {
        let mut command = self.command(start);
        // `--follow` reads only the newest boot unless `--merge` is given, and would skip unread entries of earlier boots.
        // `--merge` adds the journals of other machines, of which a host's own journal has none.
        command.args(["--follow", "--no-tail", "--merge"]);
        if let (None, Some(id)) = (&self.directory, daytable_platform::host::machine_id()) {
            command.arg(format!("_MACHINE_ID={id}"));
        }
        JournalProcess::of(&mut command)
    }

    /// Reads the present entries from `start` on.
    pub(super) fn once(&self, start: Start<'_>) -> io::Result<JournalProcess> {
        JournalProcess::of(&mut self.command(start))
    }
}

/// The value of `--priority=`, on the scale of syslog.
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

impl JournalProcess {
    fn of(command: &mut Command) -> io::Result<JournalProcess> {
        let mut child = command.spawn()?;
        let pipes = child.stdout.take().zip(child.stderr.take());
        let (stdout, mut stderr) = pipes.ok_or_else(|| io::Error::other("it has no pipes"))?;
        // A full pipe would block the process.
        let stderr = std::thread::Builder::new().name("journal-stderr".into()).spawn(move || {
            let (mut text, mut buffer) = (Vec::new(), [0; 512]);
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                text.extend_from_slice(&buffer[..read]);
                let surplus = text.len().saturating_sub(STDERR_BYTES_MAX);
                text.drain(..surplus);
            }
            text
        });
        match stderr {
            Ok(stderr) => Ok(JournalProcess { child, stdout, stderr: Some(stderr) }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Reads once. Returns 0 at the end, and `None` if no byte comes within `patience`.
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

    /// How the process ended, after its output was read to the end.
    pub(super) fn end(mut self) -> ProcessEnd {
        let deadline = Instant::now() + EXIT;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Usually the process has already ended.
        let _ = self.child.kill();
        let status = self.child.wait();
        let stderr = self.stderr.take().and_then(|stderr| stderr.join().ok()).unwrap_or_default();
        let stderr = String::from_utf8_lossy(&stderr).trim().replace('\n', "; ");
        let is_success = status.as_ref().is_ok_and(ExitStatus::success);
        let how = status.map_or_else(|error| error.to_string(), |status| format!("{PROGRAM} ended with {status}"));
        ProcessEnd { is_success, how: if stderr.is_empty() { how } else { format!("{how}: {stderr}") } }
    }
}

impl Drop for JournalProcess {
    fn drop(&mut self) {
        // Both fail if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
