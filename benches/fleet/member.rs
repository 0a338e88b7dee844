//! A daytable of the fleet: its folder, its configuration and its process.

use crate::client::Client;
use crate::daemon::binary;
use crate::process::Watched;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time limit for a step in which nothing moves.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The least time between two looks at a number of records.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The records have a fixed day, which must neither expire nor be sealed meanwhile.
const DAYS: &str = "[lifecycle]\nseal_after = \"365d\"\n[[table]]\nname = \"Log\"\nkeep = \"36500d\"\n";

/// A free port of loopback.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// One daytable.
pub(crate) struct Member {
    pub(crate) data: PathBuf,
    config: PathBuf,
}

impl Member {
    /// The central one.
    pub(crate) fn central(scratch: &Path, listen: SocketAddr) -> Result<Member> {
        let more = format!("[http]\nlisten = \"{listen}\"\npush = \"off\"\nconnections_max = 5000\n");
        Member::new(scratch, "central", &more)
    }

    /// A host that reads `include`.
    pub(crate) fn host(scratch: &Path, name: &str, include: &Path) -> Result<Member> {
        let include = include.display();
        let more = format!("[http]\nlisten = \"off\"\n[[tail]]\ninclude = ['{include}']\ninstance = \"{{stem}}\"\n");
        Member::new(scratch, name, &more)
    }

    fn new(scratch: &Path, name: &str, more: &str) -> Result<Member> {
        let (data, config) = (scratch.join(name), scratch.join(format!("{name}.toml")));
        std::fs::create_dir_all(&data)?;
        let credentials = scratch.join(format!("{name}.credentials"));
        std::fs::create_dir_all(credentials)?;
        std::fs::write(&config, format!("data_dir = \"{}\"\nhost = \"{name}\"\n{more}{DAYS}", data.display()))?;
        Ok(Member { data, config })
    }

    /// Gives this host a credential of a running central, and the block that forwards there.
    pub(crate) fn join(&self, central: &Member, listen: SocketAddr) -> Result<()> {
        let name = self.config.file_stem().context("a name")?.to_string_lossy().into_owned();
        let url = format!("http://{listen}");
        let invited =
            said(central.command("hosts").args(["invite", &name, "--url", &url, "--data"]).arg(&central.data))?;
        let code = invited.split_whitespace().last().context("no code")?.to_owned();
        let credential = self.config.with_extension("credentials").join("forward");
        let mut join = self.command("join");
        join.args([&url, &code, "--config"]).arg(&self.config).arg("--credential-file").arg(credential);
        said(&mut join).map(drop)
    }

    /// Lets this central take pushes of everyone on this machine.
    pub(crate) fn take_pushes(&self) -> Result<()> {
        let text = std::fs::read_to_string(&self.config)?;
        Ok(std::fs::write(&self.config, text.replace("push = \"off\"", "push = \"open\""))?)
    }

    /// Gives this host the block that sends to a backend of OpenTelemetry.
    pub(crate) fn send_by_otlp(&self, listen: SocketAddr) -> Result<()> {
        let text = std::fs::read_to_string(&self.config)?;
        Ok(std::fs::write(&self.config, format!("{text}[[forward]]\nto = \"otlp+http://{listen}\"\n"))?)
    }

    pub(crate) fn command(&self, command: &str) -> Command {
        let mut daytable = Command::new(binary());
        daytable.arg(command);
        daytable
    }

    /// Starts it, and waits until it is ready.
    pub(crate) fn start(&self) -> Result<Running> {
        let mut running = self.spawn()?;
        let deadline = Instant::now() + PATIENCE;
        while Client::connect(&self.data).and_then(|mut client| client.get("/readyz")).is_err() {
            running.process.must_run().with_context(|| format!("see {}", self.log().display()))?;
            ensure!(Instant::now() < deadline, "it does not get ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(running)
    }

    /// Starts it.
    pub(crate) fn spawn(&self) -> Result<Running> {
        let log = File::options().append(true).create(true).open(self.log())?;
        let mut run = self.command("run");
        run.args(["--log", "warn", "--config"]).arg(&self.config);
        let process = Watched::spawn(run.stdout(log.try_clone()?).stderr(log))?;
        Ok(Running { process, data: self.data.clone() })
    }

    fn log(&self) -> PathBuf {
        self.config.with_extension("log")
    }
}

/// What a command says. An error if it fails.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// A daytable that runs.
pub(crate) struct Running {
    pub(crate) process: Watched,
    data: PathBuf,
}

impl Running {
    /// Waits until it has committed so many records.
    pub(crate) fn wait_for(&mut self, records: u64) -> Result<()> {
        let (mut last, mut moved, begun) = (0, Instant::now(), Instant::now());
        loop {
            let committed = self.committed()?;
            if committed >= records {
                ensure!(committed == records, "{committed} records were committed of {records}");
                return Ok(());
            }
            if committed != last {
                (last, moved) = (committed, Instant::now());
            }
            self.process.must_run()?;
            ensure!(moved.elapsed() < PATIENCE, "nothing came after {committed} records of {records}");
            // Each look costs CPU, so a longer measurement is looked at less often.
            std::thread::sleep(LOOK_INTERVAL_MIN.max(begun.elapsed() / 100));
        }
    }

    fn committed(&self) -> Result<u64> {
        // A new connection: an older one may have been closed while idle.
        let metrics = Client::connect(&self.data)?.get("/metrics")?;
        let value = metrics.lines().find_map(|line| line.strip_prefix("daytable_records_committed_total "));
        Ok(value.context("no such metric")?.parse()?)
    }
}
