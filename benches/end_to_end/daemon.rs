//! The program under measurement: the binary of this build, run as a user runs it.

use crate::client::Client;
use crate::process::Watched;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The program of this build, or another one to compare with.
pub(crate) fn binary() -> String {
    std::env::var("DAYTABLE_BENCH_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_daytable").to_owned())
}

/// The corpus has a past day. Without this setting the daemon would seal the day during other measurements.
const LEFT_ALONE: &str = "[lifecycle]\nseal_after = \"365d\"\n\n";
/// Time limit for a daemon's answer or next commit. After it the measurement fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// The least time between two looks at the number of committed records.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// A data folder, and its configuration.
pub(crate) struct Folder {
    /// The folder.
    pub(crate) data: PathBuf,
    /// Its configuration.
    pub(crate) config: PathBuf,
}

impl Folder {
    /// A folder below `scratch`, for a daemon that tails `include` and names instances by `instance`.
    pub(crate) fn new(scratch: &Path, name: &str, include: &Path, instance: &str) -> Result<Folder> {
        let (data, config) = (scratch.join(name), scratch.join(format!("{name}.toml")));
        let include = include.to_str().context("the folder of the build has a name that is not UTF-8")?;
        // The records have a fixed day, which must never have expired.
        let text = format!(
            "[http]\nlisten = \"off\"\n\n[[tail]]\ninclude = ['{include}']\ninstance = '{instance}'\n\n\
             {LEFT_ALONE}[[table]]\nname = \"Log\"\nkeep = \"36500d\"\n"
        );
        std::fs::write(&config, text)?;
        Ok(Folder { data, config })
    }

    /// The same folder, with a configuration that reads no files and archives to `place`.
    pub(crate) fn archiving(&self, place: &Path) -> Result<Folder> {
        let config = self.config.with_extension("archiving.toml");
        let text = format!(
            "[http]\nlisten = \"off\"\n\n{LEFT_ALONE}[[table]]\nname = \"Log\"\nkeep = \"36500d\"\narchive = 'file://{}'\n",
            place.display()
        );
        std::fs::write(&config, text)?;
        Ok(Folder { data: self.data.clone(), config })
    }

    /// A copy of the folder, while no daemon runs. Afterwards no write to the disk is pending.
    pub(crate) fn copy(&self, name: &str) -> Result<Folder> {
        let data = self.data.with_file_name(name);
        let copied = Command::new("cp").arg("-a").args([&self.data, &data]).status()?;
        ensure!(copied.success(), "failed to copy {}", self.data.display());
        rustix::fs::sync();
        Ok(Folder { data, config: self.config.clone() })
    }

    /// A command on the folder, while no daemon runs.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(arguments).arg("--config").arg(&self.config).arg("--data").arg(&self.data);
        command
    }

    /// A folder below `scratch`, for a daemon that reads no files and accepts pushes at `listen`.
    pub(crate) fn pushed_to(scratch: &Path, name: &str, listen: SocketAddr) -> Result<Folder> {
        let (data, config) = (scratch.join(name), scratch.join(format!("{name}.toml")));
        let text =
            format!("[http]\nlisten = \"{listen}\"\n\n{LEFT_ALONE}[[table]]\nname = \"Log\"\nkeep = \"36500d\"\n");
        std::fs::write(&config, text)?;
        Ok(Folder { data, config })
    }

    /// Starts a daemon and waits until it is ready.
    pub(crate) fn start(&self) -> Result<Daemon> {
        let log = File::create(self.config.with_extension("log"))?;
        let mut run = Command::new(binary());
        run.args(["run", "--log", "warn", "--config"]).arg(&self.config).arg("--data").arg(&self.data);
        let mut process = Watched::spawn(run.stdout(log.try_clone()?).stderr(log))?;
        let client = loop {
            // A socket left by an earlier daemon refuses. A daemon that answers may not be ready yet.
            let ready = Client::connect(&self.data).and_then(|mut client| client.get("/readyz").map(|_| client));
            match ready {
                Ok(client) => break client,
                Err(error) => {
                    let log = self.config.with_extension("log");
                    process.must_run().with_context(|| format!("see {}", log.display()))?;
                    ensure!(process.started().elapsed() < PATIENCE, "it does not get ready: {error:#}");
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        Ok(Daemon { ready_after: process.started().elapsed(), process, client, data: self.data.clone() })
    }
}

/// A daemon that is ready.
pub(crate) struct Daemon {
    /// The process.
    pub(crate) process: Watched,
    /// A connection to the daemon.
    pub(crate) client: Client,
    /// From the start to the first successful readiness request.
    pub(crate) ready_after: Duration,
    data: PathBuf,
}

impl Daemon {
    /// Waits until the daemon has committed `records` records. Returns the time since the start.
    pub(crate) fn wait_for(&mut self, records: u64) -> Result<Duration> {
        // The first connection may have been idle for longer than the daemon permits.
        self.client = self.connect()?;
        let (mut last, mut moved) = (0, Instant::now());
        loop {
            let committed = self.committed()?;
            if committed >= records {
                ensure!(committed == records, "{committed} records were committed of {records}");
                return Ok(self.process.started().elapsed());
            }
            if committed != last {
                (last, moved) = (committed, Instant::now());
            }
            self.process.must_run()?;
            ensure!(moved.elapsed() < PATIENCE, "nothing was committed after {committed} records of {records}");
            // Each look costs the daemon CPU, so a longer measurement is looked at less often.
            std::thread::sleep(LOOK_INTERVAL_MIN.max(self.process.started().elapsed() / 50));
        }
    }

    fn committed(&mut self) -> Result<u64> {
        let metrics = self.client.get("/metrics")?;
        let value = metrics.lines().find_map(|line| line.strip_prefix("daytable_records_committed_total "));
        Ok(value.context("no such metric")?.parse()?)
    }

    /// A second connection.
    pub(crate) fn connect(&self) -> Result<Client> {
        Client::connect(&self.data)
    }
}
