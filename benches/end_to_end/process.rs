//! The resources of a process, from `/proc`.
//!
//! CPU is the user and system time of all threads, in the kernel's steps of 10 ms. It is read after the end of the
//! process, before the kernel discards it. The peak of the memory (`VmHWM`) is gone by then, so it is sampled until the
//! end.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The resources of an ended process.
pub(crate) struct Taken {
    /// From the start to the end.
    pub(crate) wall: Duration,
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Peak memory in bytes.
    pub(crate) peak_rss: u64,
}

/// A process under observation. Dropping the value ends the process.
pub(crate) struct Watched {
    child: Child,
    pid: Pid,
    started: Instant,
}

impl Watched {
    /// Starts the process.
    pub(crate) fn spawn(command: &mut Command) -> Result<Watched> {
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).spawn().with_context(|| format!("failed to start {command:?}"))?;
        let pid = Pid::from_raw(child.id().try_into()?).context("a child has a number")?;
        Ok(Watched { child, pid, started })
    }

    /// The time of the start.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Present memory in bytes.
    pub(crate) fn rss(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// Fails if the process has ended.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("it ended by itself, with {status}"),
        }
    }

    /// Stops the process, and waits for its end.
    pub(crate) fn stop(self) -> Result<Taken> {
        rustix::process::kill_process(self.pid, Signal::TERM)?;
        self.wait()
    }

    /// Waits for the end of the process.
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
        // The second field is the name in brackets, which may contain any character.
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
        // After a failed measurement. For a finished child the kill fails, which does not matter.
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

/// The median of several measurements.
pub(crate) fn median<T: Ord + Copy>(mut of: Vec<T>) -> Result<T> {
    of.sort_unstable();
    of.get(of.len() / 2).copied().context("nothing was measured")
}
