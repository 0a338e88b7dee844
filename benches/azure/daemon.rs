//! The whole daemon: it reads lines from files, commits them to the outbox, and sends them.

use crate::client::Client;
use crate::process::Watched;
use crate::report::{Report, megabytes, micros_each, rate};
use crate::stub::Stub;
use crate::{azurite, connection_string};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Files, each with an instance and a partition.
const FILES: usize = 16;
/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(300);

/// A daemon with a remote store on a port, and its own log files.
struct Daemon {
    process: Watched,
    data: PathBuf,
    scratch: PathBuf,
}

impl Daemon {
    /// Starts a daemon on `records` records.
    fn start(name: &str, port: u16, records: usize) -> Result<Daemon> {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Leftovers of an earlier run.
        let _ = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir_all(scratch.join("logs"))?;
        for file in 0..FILES {
            let mut log = BufWriter::new(File::create(scratch.join(format!("logs/web-{file}.log")))?);
            for line in 0..records / FILES {
                let (second, milli) = (line / 1000 % 86_400, line % 1000);
                let time = format!("{:02}:{:02}:{:02}.{milli:03}", second / 3600, second / 60 % 60, second % 60);
                let text = "request handled for a user of the shop, from the cache";
                writeln!(log, "2026-11-20T{time}Z INFO http.server: {text} status=200 took_ms={milli} id={line:x}")?;
            }
            log.flush()?;
        }
        let (config, data, account) = (scratch.join("daytable.toml"), scratch.join("data"), scratch.join("account"));
        std::fs::write(&account, connection_string(port))?;
        // The records have a fixed day, which must never have expired.
        let text = format!(
            "[http]\nlisten = \"off\"\n[[tail]]\ninclude = ['{}/logs/*.log']\ninstance = '{{stem}}'\n[store]\nkind = \"azure\"\n\
             connection_string_file = '{}'\n[[table]]\nname = \"Log\"\nkeep = \"36500d\"\narchive = \"none\"\n",
            scratch.display(),
            account.display()
        );
        std::fs::write(&config, text)?;
        let log = File::create(scratch.join("log"))?;
        let mut run = Command::new(env!("CARGO_BIN_EXE_daytable"));
        run.args(["run", "--log", "warn", "--config"]).arg(config).arg("--data").arg(&data);
        let process = Watched::spawn(run.stdout(log.try_clone()?).stderr(log))?;
        Ok(Daemon { process, data, scratch })
    }

    /// Waits until `done`. Fails if the daemon ends first.
    fn wait_until(&mut self, what: &str, mut done: impl FnMut(&Daemon) -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !done(self)? {
            self.process.must_run().with_context(|| format!("see {}", self.scratch.join("log").display()))?;
            ensure!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The sum of a metric over its labels. `None` before the daemon's first answer.
    fn metric(&self, name: &str) -> Option<f64> {
        let metrics = Client::connect(&self.data).ok()?.get("/metrics").ok()?;
        let values = metrics.lines().filter(|line| line.starts_with(name));
        Some(values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }
}

pub(crate) fn against_stub(report: &mut Report, records: usize) -> Result<()> {
    let mut stub = Stub::start()?;
    let mut daemon = Daemon::start("azure-stub", stub.port, records)?;
    let begun = daemon.process.started();
    let mut taken = 0;
    daemon.wait_until("all is sent", |_| {
        taken = stub.taken()?.entities;
        Ok(taken >= records as u64)
    })?;
    let took = begun.elapsed();
    ensure!(taken == records as u64, "{taken} entities came of {records} records");
    let ended = daemon.process.stop()?;
    report.add("the whole daemon: records read, committed and sent", "100,000 /s", rate(taken, took));
    report.add("the whole daemon: CPU a record", "5 µs", micros_each(ended.cpu, taken));
    report.add("the whole daemon: memory at most", "", megabytes(ended.peak_rss));
    std::fs::remove_dir_all(daemon.scratch)?;
    Ok(())
}

pub(crate) fn against_azurite(report: &mut Report, lasts: Duration) -> Result<()> {
    let Some((_azurite, port)) = azurite()? else { return Ok(()) };
    let records = 320_000;
    let mut daemon = Daemon::start("azure-azurite", port, records)?;
    let committed = |daemon: &Daemon| daemon.metric("daytable_records_committed_total").unwrap_or(0.0);
    daemon.wait_until("all is committed", |daemon| Ok(committed(daemon) >= records as f64))?;
    // From here on the daemon only sends.
    let (before, begun) = (daemon.process.cpu()?, Instant::now());
    let left = daemon.metric("daytable_outbox_entities").context("a metric")?;
    std::thread::sleep(lasts);
    let (cpu, took) = (daemon.process.cpu()? - before, begun.elapsed());
    let sent = left - daemon.metric("daytable_outbox_entities").context("a metric")?;
    report.add("the whole daemon against Azurite", "", format!("{:.0} /s", sent / took.as_secs_f64()));
    report.add("CPU of one core, of that", "10 %", format!("{:.2} %", cpu.as_secs_f64() / took.as_secs_f64() * 100.0));
    daemon.process.stop()?;
    std::fs::remove_dir_all(daemon.scratch)?;
    Ok(())
}
