//! The edges: many instances, many days, many sources, many readers and many senders. `end_to_end` measures the middle.
//!
//! `cargo bench --bench edges -- [ROW…] [--records N] [--runs N]`
//!
//! Rows are `middle`, `latency`, `instances`, `days`, `tables`, `memory`, `questions`, `readers`, `syslog` and `pushes`; without a
//! name, all of them. Each figure is the median of all runs, with the least and the greatest. In each run, `zstd -1` of
//! the same file and rsyslog on the same text files are the yardsticks, and VictoriaLogs gets the same records where
//! `DAYTABLE_BENCH_VICTORIALOGS` names its binary. `DAYTABLE_BENCH_BINARY` names another binary of daytable to measure.
//! Without `--bench` the run is small, so that `cargo test --benches` shows that it still works.

#![allow(dead_code)]

#[path = "../end_to_end/client.rs"]
mod client;
#[path = "../end_to_end/corpus.rs"]
mod corpus;
#[path = "../end_to_end/daemon.rs"]
mod daemon;
mod latency;
mod lines;
mod middle;
#[path = "../end_to_end/peer.rs"]
mod peer;
#[path = "../end_to_end/process.rs"]
mod process;
#[path = "../end_to_end/push.rs"]
mod push;
mod questions;
mod readers;
#[path = "../end_to_end/report.rs"]
mod report;
#[path = "../end_to_end/scale.rs"]
mod scale;
mod senders;
#[path = "../end_to_end/stream.rs"]
mod stream;
mod syslog;
mod table;
#[path = "../end_to_end/url.rs"]
mod url;
#[path = "../end_to_end/victoria.rs"]
mod victoria;

use anyhow::Result;
use daemon::{Daemon, Folder};
use process::{Watched, bytes_below};
use scale::Scale;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use table::Table;

/// A question about levels by time.
const LEVELS: &str = "/api/count?by=level&every=5m";
/// A text that no record has.
const ABSENT: &str = "/api/query?contains=zyxwvut";
/// Questions that are asked of an open day.
const QUESTIONS: [(&str, &str); 3] = [("levels", LEVELS), ("absent text", ABSENT), ("newest 100", "/api/query?n=100")];

fn main() -> Result<()> {
    let scale = Scale::from_args([2000, 1_000_000], &[])?;
    let mut table = Table::default();
    for run in 1..=scale.runs {
        eprintln!("run {run} of {}", scale.runs);
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        measure(&scale, scratch.path(), &mut table)?;
    }
    println!("\n{} records, {} runs\n\n{table}", scale.records, scale.runs);
    Ok(())
}

fn measure(scale: &Scale, scratch: &Path, table: &mut Table) -> Result<()> {
    let records = scale.records;
    if scale.wants("middle") {
        middle::measure(table, scratch, records)?;
    }
    if scale.wants("latency") {
        let (lines, stream) = if scale.is_small { (2, 1000) } else { (40, 100_000) };
        latency::measure(table, scratch, lines, stream)?;
    }
    if scale.wants("instances") {
        instances(table, scratch, records, 50_000, ["500,000", "3.5", "90", "100"])?;
        instances(table, scratch, records, 1000, ["900,000", "1.6", "50", ""])?;
    }
    if scale.wants("days") {
        days(table, scratch, records, 30)?;
    }
    if scale.wants("tables") {
        let (days, sources) = if scale.is_small { (10, 20) } else { (400, 2000) };
        tables(table, scratch, days, sources)?;
    }
    if scale.wants("memory") {
        memory(table, scratch, records)?;
    }
    if scale.wants("questions") {
        questions::measure(table, scratch, records)?;
    }
    if scale.wants("readers") {
        readers::measure(table, scratch, records)?;
        let (seconds, rate) = if scale.is_small { (1, 1000) } else { (10, 200_000) };
        readers::measure_steady(table, scratch, seconds, rate)?;
    }
    if scale.wants("syslog") {
        let (messages, datagrams, seconds, idle_connections) =
            if scale.is_small { (20_000, 1000, 1, 100) } else { (2 * records, 300_000, 5, 10_000) };
        syslog::measure(table, scratch, &syslog::Load { messages, datagrams, seconds, idle_connections })?;
    }
    if scale.wants("pushes") {
        let (connections, requests) = if scale.is_small { (10, 2) } else { (1000, 20) };
        senders::measure(table, scratch, connections, requests)?;
    }
    Ok(())
}

/// Starts a daemon on files, and measures it until all records are committed.
fn ingest(table: &mut Table, what: &str, folder: &Folder, records: u64, targets: [&'static str; 4]) -> Result<Daemon> {
    let mut daemon = folder.start()?;
    let wall = daemon.wait_for(records)?;
    let [rate, cpu, bytes, memory] = targets;
    table.add(format!("{what}: ingest"), "/s", rate, records as f64 / wall.as_secs_f64());
    let micros = daemon.process.cpu()?.as_secs_f64() * 1e6;
    table.add(format!("{what}: CPU a record"), "µs", cpu, micros / records as f64);
    table.add(format!("{what}: on disk a record"), "B", bytes, bytes_below(&folder.data)? as f64 / records as f64);
    table.add(format!("{what}: RSS"), "MB", memory, daemon.process.rss()? as f64 / 1e6);
    Ok(daemon)
}

/// The CPU of `zstd -1` for a record of a file, in microseconds, after a run that brings the file into memory. `None`
/// where it is not installed.
fn yardstick(table: &mut Table, what: &str, file: &Path, records: u64) -> Option<f64> {
    let mut command = Command::new("zstd");
    command.args(["-1", "-q", "-c"]).arg(file).stdout(Stdio::null());
    let _ = Watched::spawn(&mut command).and_then(Watched::wait);
    let taken = Watched::spawn(&mut command).and_then(Watched::wait).ok()?;
    let micros = taken.cpu.as_secs_f64() * 1e6 / records as f64;
    table.add(format!("{what}: zstd -1"), "µs", "", micros);
    (micros > 0.0).then_some(micros)
}

/// One day of many instances: ingest, questions about the open day at once, the stop and the sealing.
fn instances(
    table: &mut Table,
    scratch: &Path,
    records: u64,
    instances: usize,
    targets: [&'static str; 4],
) -> Result<()> {
    let what = format!("{instances} instances");
    let file = scratch.join(format!("{instances}.ndjson"));
    lines::write(&file, records, instances, 1)?;
    yardstick(table, &what, &file, records);
    let folder = Folder::new(scratch, &format!("instances-{instances}"), &file, "{field:instance}")?;
    let mut daemon = ingest(table, &what, &folder, records, targets)?;
    for ((question, path), target) in QUESTIONS.into_iter().zip(["100", "100", ""]) {
        table.add(format!("{what}, open: {question}"), "ms", target, millis(asked(&mut daemon, path)?));
    }
    stop(table, &what, daemon, "")?;
    let began = Instant::now();
    let mut archive = folder.command(&["archive", &format!("Log{}", corpus::DAY)]);
    Watched::spawn(archive.stdout(Stdio::null()))?.wait()?;
    table.add(format!("{what}: sealing"), "/s", "500,000", records as f64 / began.elapsed().as_secs_f64());
    middle::victoria_logs(table, &what, &file, scratch, records)
}

/// One file with records of many days.
fn days(table: &mut Table, scratch: &Path, records: u64, days: u64) -> Result<()> {
    let what = format!("{days} days");
    let file = scratch.join("days.ndjson");
    lines::write(&file, records, corpus::INSTANCES, days)?;
    yardstick(table, &what, &file, records);
    let folder = Folder::new(scratch, "days", &file, "{field:instance}")?;
    let mut daemon = ingest(table, &what, &folder, records, ["1,200,000", "1.4", "", "100"])?;
    for (question, path) in QUESTIONS {
        table.add(format!("{what}, open: {question}"), "ms", "", millis(asked(&mut daemon, path)?));
    }
    stop(table, &what, daemon, "0.5")
}

/// Many files, each with a record a day: ingest, the next start, and the daemon when nothing happens.
fn tables(table: &mut Table, scratch: &Path, days: u64, sources: usize) -> Result<()> {
    let what = format!("{days} days of {sources} sources");
    let files = scratch.join("sources");
    lines::write_sources(&files, sources, days)?;
    let folder = Folder::new(scratch, "tables", &files.join("*.log"), "{stem}")?;
    let records = days * sources as u64;
    let daemon = ingest(table, &what, &folder, records, ["400,000", "4", "", ""])?;
    stop(table, &what, daemon, "")?;
    let daemon = folder.start()?;
    table.add(format!("{what}: start"), "ms", "40", millis(daemon.ready_after));
    std::thread::sleep(Duration::from_secs(2));
    let (before, since) = (daemon.process.cpu()?, Instant::now());
    std::thread::sleep(Duration::from_secs(3));
    let busy = (daemon.process.cpu()? - before).as_secs_f64() / since.elapsed().as_secs_f64();
    table.add(format!("{what}: idle CPU"), "%", "0.3", busy * 100.0);
    table.add(format!("{what}: idle RSS"), "MB", "25", daemon.process.rss()? as f64 / 1e6);
    stop(table, &what, daemon, "")
}

/// Memory after each question was asked many times of a sealed day.
fn memory(table: &mut Table, scratch: &Path, records: u64) -> Result<()> {
    let file = scratch.join("memory.ndjson");
    lines::write(&file, records, corpus::INSTANCES, 1)?;
    let folder = Folder::new(scratch, "memory", &file, "{field:instance}")?;
    let mut daemon = folder.start()?;
    daemon.wait_for(records)?;
    daemon.process.stop()?;
    let mut archive = folder.command(&["archive", &format!("Log{}", corpus::DAY)]);
    Watched::spawn(archive.stdout(Stdio::null()))?.wait()?;
    let mut daemon = folder.start()?;
    let questions =
        [LEVELS, "/api/count?by=instance", "/api/query?n=100", "/api/query?instance=worker-07&n=100", ABSENT];
    for question in questions {
        for _ in 0..50 {
            daemon.client.get(question)?;
        }
    }
    table.add("sealed, 50 of each question: RSS", "MB", "120", daemon.process.rss()? as f64 / 1e6);
    daemon.process.stop().map(drop)
}

/// The median time of three answers.
fn asked(daemon: &mut Daemon, path: &str) -> Result<Duration> {
    let mut took = Vec::new();
    daemon.client = daemon.connect()?;
    for _ in 0..3 {
        let began = Instant::now();
        daemon.client.get(path)?;
        took.push(began.elapsed());
    }
    process::median(took)
}

fn stop(table: &mut Table, what: &str, daemon: Daemon, target: &'static str) -> Result<()> {
    let began = Instant::now();
    let taken = daemon.process.stop()?;
    table.add(format!("{what}: stop"), "s", target, began.elapsed().as_secs_f64());
    table.add(format!("{what}: peak RSS"), "MB", "", taken.peak_rss as f64 / 1e6);
    Ok(())
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
