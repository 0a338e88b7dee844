//! A daytable of a fleet: its folders, its process, and what happens to both.

use super::proxy::Proxy;
use super::small_disk::SmallDisk;
use crate::Options;
use crate::collector::Daytable;
use crate::free_port;
use crate::run;
use crate::troubles::at_another_time;
use daytable_crash::random::Random;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The failpoints of forwarding, of each side, and those of each commit. A program without failpoints knows none.
const POINTS: [&str; 10] = [
    "forward-before-send",
    "forward-sent",
    "forward-received",
    "forward-stored",
    "commit-between",
    "commit-after",
    "forward-before-join",
    "forward-after-join",
    "forward-received-join",
    "forward-stored-join",
];
/// How long a failpoint is waited for: the side may have nothing to do.
const POINT_PATIENCE: Duration = Duration::from_millis(700);
/// How long a command of a member may take on a busy machine.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);

/// How a member is started.
#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    Usual,
    /// It ends at one of [`POINTS`].
    Failing(u64),
    /// Its clock is wrong.
    AtAnotherTime(u64),
}

/// One daytable.
pub(super) struct Member {
    pub(super) name: String,
    home: PathBuf,
    pub(super) daytable: Daytable,
    child: Option<Child>,
    is_failing: bool,
    /// Absent where no disk can be mounted.
    disk: Option<SmallDisk>,
    is_full: bool,
}

impl Member {
    fn new(options: &Options, home: PathBuf, name: &str, config: &str) -> io::Result<Member> {
        let mut member = Member {
            name: name.into(),
            daytable: options.daytable(),
            child: None,
            is_failing: false,
            disk: None,
            is_full: false,
            home,
        };
        for folder in [member.store(), member.logs()] {
            fs::create_dir_all(folder)?;
        }
        fs::write(member.config(), config)?;
        member.disk = SmallDisk::mount(&member.store());
        Ok(member)
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.home.join("logs")
    }

    fn store(&self) -> PathBuf {
        self.home.join("store")
    }

    fn config(&self) -> PathBuf {
        self.home.join("daytable.toml")
    }

    fn backup(&self) -> PathBuf {
        self.home.join("backup")
    }

    /// The number of its records.
    pub(super) fn count(&self) -> io::Result<u64> {
        Ok(self.daytable.ask(&self.home, "count", &[])?.iter().filter_map(|count| count["records"].as_u64()).sum())
    }

    pub(super) fn start(&mut self, start: Start) -> io::Result<()> {
        let mut command = self.daytable.command("run");
        command.arg("--config").arg(self.config());
        match start {
            Start::Usual => {}
            Start::Failing(number) => {
                let points = POINTS.len() as u64;
                _ = command.env("DAYTABLE_FAILPOINT", POINTS[(number % points) as usize]);
            }
            Start::AtAnotherTime(number) => command = at_another_time(command, &mut Random::new(number)),
        }
        self.is_failing = matches!(start, Start::Failing(_));
        let said = File::options().append(true).create(true).open(self.home.join("said.log"))?;
        self.child = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn()?);
        Ok(())
    }

    /// Kills it. One that has to fail by itself gets some time for it.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let until = Instant::now() + POINT_PATIENCE;
        while self.is_failing && child.try_wait()?.is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.check_end(&mut child)?;
        run::end(&mut child)
    }

    /// Stops it as a service manager does.
    pub(super) fn terminate(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        self.check_end(&mut child)?;
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        run::terminate(&mut child)
    }

    /// A daemon that was not killed runs, unless it had to fail or its disk is full.
    fn check_end(&self, child: &mut Child) -> io::Result<()> {
        match child.try_wait()? {
            Some(status) if !self.is_failing && !self.is_full => {
                Err(io::Error::other(format!("{} ended by itself: {status}", self.name)))
            }
            _ => Ok(()),
        }
    }

    /// Stops its process for a while, without its knowing.
    pub(super) fn hold(&mut self, time: Duration) -> io::Result<()> {
        let Some(child) = &self.child else { return Ok(()) };
        let process = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        let send = |signal| match kill(process, signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(error) => Err(io::Error::from(error)),
        };
        send(Signal::SIGSTOP)?;
        std::thread::sleep(time);
        send(Signal::SIGCONT)
    }

    /// Makes a backup while it runs.
    pub(super) fn back_up(&mut self) -> io::Result<()> {
        let (next, backup) = (self.home.join("backup.next"), self.backup());
        let mut command = self.daytable.command_on(&self.home, "backup");
        command.arg("--copy").arg(&next);
        retried(|| {
            // It may have ended by a failure that it was started with.
            if self.check().is_err() {
                self.start_anew()?;
            }
            remove(&next)?;
            succeed(&mut command)
        })?;
        remove(&backup)?;
        fs::rename(next, backup)
    }

    /// Puts it back to its backup, and starts it.
    pub(super) fn put_back(&mut self) -> io::Result<()> {
        self.kill()?;
        let data = Daytable::data(&self.home);
        remove(&data)?;
        // The backup may be needed again.
        let mut copy = Command::new("cp");
        succeed(copy.arg("-a").arg(self.backup()).arg(&data))?;
        self.start(Start::Usual)
    }

    pub(super) fn fill(&mut self) -> io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        disk.fill()?;
        self.is_full = true;
        Ok(())
    }

    pub(super) fn free(&mut self) -> io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        disk.free()?;
        // A daemon that did not start for want of room is started again.
        self.kill()?;
        self.is_full = false;
        self.start(Start::Usual)
    }

    /// Starts it again without any disturbance.
    pub(super) fn start_anew(&mut self) -> io::Result<()> {
        self.kill()?;
        self.start(Start::Usual)
    }

    /// Ends it, and keeps its store for inspection.
    pub(super) fn keep(&mut self) -> io::Result<()> {
        if let Some(child) = &mut self.child {
            run::end(child)?;
        }
        if let Some(disk) = self.disk.take() {
            let kept = self.home.join("store.kept");
            succeed(Command::new("cp").arg("-a").arg(self.store()).arg(&kept))?;
            drop(disk);
            fs::remove_dir(self.store())?;
            fs::rename(kept, self.store())?;
        }
        Ok(())
    }

    /// An error if it ended.
    pub(super) fn check(&mut self) -> io::Result<()> {
        match self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
            None => Ok(()),
            Some(status) => Err(io::Error::other(format!("{} ended by itself: {status}", self.name))),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = run::end(child);
        }
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Repeats what fails: a daemon that was started a moment ago may not answer yet.
fn retried(mut act: impl FnMut() -> io::Result<String>) -> io::Result<String> {
    let until = Instant::now() + COMMAND_PATIENCE;
    loop {
        match act() {
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
            done => return done,
        }
    }
}

/// Runs a command to its end, and returns what it said.
fn succeed(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(said(&output.stdout)),
        false => Err(io::Error::other(format!("{command:?}: {} {}", output.status, said(&output.stderr)))),
    }
}

/// What both sides do with days.
const DAYS: &str = r#"[lifecycle]
schedule = "* * * * * *"
seal_after = "0s"
grace = "0s"
min_tables = 0
[store]
commit_interval = "20ms"
"#;

/// The central daytable.
pub(super) struct Central {
    pub(super) member: Member,
    pub(super) address: SocketAddr,
}

impl Central {
    pub(super) fn new(options: &Options, folder: &Path) -> io::Result<Central> {
        // The port stays the same over restarts.
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let home = folder.join("central");
        let config = format!(
            "data_dir = \"{}\"\n[http]\nlisten = \"{address}\"\npush = \"off\"\n[log]\nlevel = \"debug\"\n{}{DAYS}",
            Daytable::data(&home).display(),
            table(&home),
        );
        Ok(Central { member: Member::new(options, home, "central", &config)?, address })
    }
}

fn table(home: &Path) -> String {
    let archive = home.join("archive");
    format!("[[table]]\nname = \"Log\"\nkeep = \"36500d\"\narchive = \"file://{}\"\n", archive.display())
}

/// A host, with the proxy before it.
pub(super) struct Host {
    pub(super) number: u64,
    pub(super) member: Member,
    pub(super) proxy: Proxy,
}

impl Host {
    /// A host that has a credential, and is not started yet.
    pub(super) fn joined(options: &Options, folder: &Path, number: u64, central: &Central) -> io::Result<Host> {
        let (name, home) = (format!("host-{number}"), folder.join(format!("host-{number}")));
        let logs = home.join("logs");
        let config = format!(
            r#"data_dir = "{data}"
host = "{name}"
[http]
listen = "off"
[log]
level = "debug"
[[tail]]
include = ["{logs}/bare-*.log*"]
instance = "bare"
format = "plain"
poll = "50ms"
unended_after = "off"
[[tail]]
include = ["{logs}/app-*.log*", "{logs}/cri-*.log*"]
exclude = ["{logs}/*.tmp", "{logs}/*.next"]
# No part of a name: a host that was put back meets a file first under the name that it has after a rotation.
instance = "app-{{field:worker}}"
line_bytes_max = "2MiB"
poll = "50ms"
unended_after = "off"
join = {{ wait = "1s" }}
{table}{DAYS}"#,
            data = Daytable::data(&home).display(),
            logs = logs.display(),
            table = table(&home),
        );
        let member = Member::new(options, home, &name, &config)?;
        let proxy = Proxy::start(central.address, number)?;
        let mut invite = member.daytable.command("hosts");
        invite.args(["invite", &name, "--url", &proxy.url(), "--data"]).arg(Daytable::data(central.member.home()));
        let invited = retried(|| succeed(&mut invite))?;
        let code = invited.split_whitespace().last().unwrap_or_default();
        let mut join = member.daytable.command("join");
        join.args([&proxy.url(), code, "--config"]).arg(member.config());
        retried(|| succeed(&mut join))?;
        Ok(Host { number, member, proxy })
    }
}
