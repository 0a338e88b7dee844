//! What a process takes, as the kernel says it in `/proc`.
//!
//! CPU is user and system time of all its threads, read when it has ended and before it is forgotten, in the kernel's
//! steps of 10 ms. The peak of its memory (`VmHWM`) is gone by then, so it is asked for until the end.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a process took until it ended.
pub(crate) struct Taken {
    /// From its start.
    pub(crate) wall: Duration,
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Bytes of memory it held at most.
    pub(crate) peak_rss: u64,
}

/// A process that is watched until it ends. It does not outlive this.
pub(crate) struct Watched {
    child: Child,
    pid: Pid,
    started: Instant,
}

impl Watched {
    /// Starts it.
    pub(crate) fn spawn(command: &mut Command) -> Result<Watched> {
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("failed to start {command:?}"))?;
        let pid = Pid::from_raw(child.id().try_into()?).context("a child has a number")?;
        Ok(Watched { child, pid, started })
    }

    /// When it was started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Bytes of memory it holds now.
    pub(crate) fn rss(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// Fails where it has ended.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("it ended by itself, with {status}"),
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(self) -> Result<Taken> {
        rustix::process::kill_process(self.pid, Signal::TERM)?;
        self.wait()
    }

    /// Waits until it has ended.
    pub(crate) fn wait(mut self) -> Result<Taken> {
        let mut peak_rss = 0;
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while rustix::process::waitid(WaitId::Pid(self.pid), ended)?.is_none() {
            peak_rss = self.status("VmHWM:").unwrap_or(peak_rss);
            std::thread::sleep(Duration::from_millis(1));
        }
        let wall = self.started.elapsed();
        let cpu = self.cpu()?;
        let status: ExitStatus = self.child.wait()?;
        ensure!(status.success(), "it ended with {status}");
        Ok(Taken { wall, cpu, peak_rss })
    }

    /// User and system time so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The second field is its name in brackets, which may hold anything.
        let fields = stat.rsplit_once(") ").context("no name in stat")?.1;
        let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().map_err(Into::into));
        let ticks = ticks.sum::<Result<u64>>()?;
        Ok(Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second())?)
    }

    fn status(&self, name: &str) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).context("it has ended")?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Where a measurement failed; a child that was waited for cannot be killed, which is an error that says nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes of all files below `folder`.
pub(crate) fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in walkdir::WalkDir::new(folder) {
        let metadata = entry?.metadata()?;
        bytes += if metadata.is_file() { metadata.len() } else { 0 };
    }
    Ok(bytes)
}

/// The middle one of several measurements.
pub(crate) fn median<T: Ord + Copy>(mut of: Vec<T>) -> Result<T> {
    of.sort_unstable();
    of.get(of.len() / 2).copied().context("nothing was measured")
}
