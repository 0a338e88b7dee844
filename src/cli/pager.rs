//! Standard output that goes through a pager where it is longer than the screen.
//!
//! Output is held back until it is longer than the screen. Only then the pager starts, so a short answer stays on the
//! terminal. The pager is `$PAGER`, else `less`; an empty `PAGER`, `PAGER=cat` and a missing `less` mean none.

use super::exit::CliError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use terminal_size::{Height, Width, terminal_size_of};

/// Columns and rows of a terminal that does not say its size.
const SCREEN_DEFAULT: (usize, usize) = (80, 24);
/// Bytes that are written to a pipe at once.
const PIPE_BUF: usize = 4096;
/// How long a reader may take before scans let their snapshots go.
const SLOW_READER: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Exit codes of a shell that found no such program.
const NOT_FOUND: [i32; 2] = [126, 127];

/// Standard output, by way of a pager if need be.
pub(super) struct PagedOutput {
    /// What is held back, and the rows that it takes.
    pending: Vec<u8>,
    rows: usize,
    /// Columns and rows of the screen; `None` without a pager.
    screen: Option<(usize, usize)>,
    pager: Option<Child>,
}

impl PagedOutput {
    /// With a pager on a terminal, if the caller wants one.
    pub(super) fn new(wants_pager: bool) -> PagedOutput {
        let screen = (wants_pager && io::stdout().is_terminal()).then(|| match terminal_size_of(io::stdout()) {
            Some((Width(columns), Height(rows))) => (usize::from(columns.max(1)), usize::from(rows)),
            None => SCREEN_DEFAULT,
        });
        PagedOutput { pending: Vec::with_capacity(64 << 10), rows: 0, screen, pager: None }
    }

    /// Adds whole lines.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), CliError> {
        self.pending.extend_from_slice(lines);
        match (&self.pager, self.screen) {
            (None, Some((columns, rows))) => {
                let text = String::from_utf8_lossy(lines);
                self.rows += text.lines().map(|line| width(line).div_ceil(columns).max(1)).sum::<usize>();
                // The prompt of the shell needs a row.
                if self.rows < rows {
                    return Ok(());
                }
                self.screen = None;
                self.pager = start();
                self.flush()
            }
            _ if self.pending.len() >= 64 << 10 => self.flush(),
            _ => Ok(()),
        }
    }

    /// Writes what is held back.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        let mut stdin = self.pager.as_mut().and_then(|pager| pager.stdin.as_mut());
        let written = match &mut stdin {
            Some(stdin) => write_slowly(stdin, &self.pending),
            None => write_slowly(&mut io::stdout().lock(), &self.pending),
        };
        self.pending.clear();
        match written {
            Err(error) if stdin.is_some() => Err(self.pager_ended(error)),
            written => written.map_err(CliError::output),
        }
    }

    /// Writes the rest, and waits until the reader leaves the pager.
    pub(super) fn finish(mut self) -> Result<(), CliError> {
        self.flush()?;
        let Some(mut pager) = self.pager.take() else { return Ok(()) };
        drop(pager.stdin.take());
        let status = pager.wait().map_err(CliError::Output)?;
        if status.code().is_some_and(|code| NOT_FOUND.contains(&code)) { Err(no_pager()) } else { Ok(()) }
    }

    /// The pager reads no more: the reader left it, or it could not be run.
    fn pager_ended(&mut self, error: io::Error) -> CliError {
        let status = self.pager.take().and_then(|mut pager| pager.wait().ok());
        match status.and_then(|status| status.code()) {
            Some(code) if NOT_FOUND.contains(&code) => no_pager(),
            _ => CliError::output(error),
        }
    }
}

/// Writes to a reader who may take long to read on, such as a person at a pager. Meanwhile no scan holds a snapshot, which
/// would keep the journal of a daemon from beginning again.
fn write_slowly<W: Write + AsFd>(out: &mut W, bytes: &[u8]) -> io::Result<()> {
    // A pipe that has room has room for this many bytes.
    for bytes in bytes.chunks(PIPE_BUF) {
        let mut room = [PollFd::new(out, PollFlags::OUT)];
        // An error is that of the write, too.
        if let Ok(0) = poll(&mut room, Some(&SLOW_READER)) {
            daytable_store::release_snapshots();
        }
        out.write_all(bytes)?;
        out.flush()?;
    }
    Ok(())
}

/// The columns of a line, without its codes of colours.
fn width(line: &str) -> usize {
    let mut parts = line.split("\x1b[");
    let plain = parts.next().map_or(0, |first| first.chars().count());
    plain + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count())).sum::<usize>()
}

fn no_pager() -> CliError {
    let pager = std::env::var("PAGER").unwrap_or_default();
    CliError::Unavailable(format!("the pager PAGER={pager} cannot be run: set another one, or add --no-pager"))
}

/// The pager, or `None` if there is none.
fn start() -> Option<Child> {
    let named = std::env::var_os("PAGER");
    let mut command = match &named {
        Some(pager) if pager.is_empty() || pager == "cat" => return None,
        Some(pager) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(pager);
            shell
        }
        None => Command::new("less"),
    };
    if std::env::var_os("LESS").is_none() {
        // Colours pass, a short text needs no key, and the text stays on the screen.
        command.env("LESS", "FRX");
    }
    command.stdin(Stdio::piped()).spawn().ok()
}
