//! The main job from start to end, as a user sees it: files in, day-tables out, queries, drop.
//!
//! `cargo bench --bench end_to_end -- [RECORDS] [--quiet-seconds N] [--quiet-speed N] [--no-quiet]`
//!
//! The benchmark runs the release binary on files that it writes first. The default is 5,000,000 records, which need
//! about 3 GB of disk below `target/tmp`. It prints each figure beside its target. `wc -l` and `zstd -1` of the same
//! file, and rsyslog on the same files, show the speed of the machine. The only assertion is that every record arrives,
//! because times depend on the machine. `cargo bench` passes `--bench`. Without it the run is small, so that `cargo
//! test --benches` shows that the benchmark still works.

mod client;
mod corpus;
mod daemon;
mod peer;
mod process;
mod push;
mod quiet;
mod reading;
mod report;
mod sealing;

use anyhow::{Context, Result};
use daemon::Folder;
use process::{Taken, Watched, bytes_below, median};
use quiet::Quiet;
use report::{Report, bytes_each, megabytes, micros_each, millis, rate};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Starts per median.
const STARTS: usize = 9;
/// Drops per median.
const DROPS: usize = 5;
const SMALL_DAY: u64 = 1000;

/// The size of the measurement.
struct Scale {
    records: u64,
    quiet: Option<Quiet>,
    quick: bool,
}

impl Scale {
    fn from_args() -> Result<Scale> {
        let mut arguments = std::env::args().skip(1).peekable();
        let mut scale = Scale {
            records: 5_000_000,
            quiet: Some(Quiet { instances: 1000, seconds: 3600, speed: 10 }),
            quick: !std::env::args().any(|argument| argument == "--bench"),
        };
        if scale.quick {
            scale.records = 2000;
            scale.quiet = Some(Quiet { instances: 100, seconds: 40, speed: 0 });
        }
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<u64> { Ok(arguments.next().context("a number is missing")?.parse()?) };
            match (&*argument, &mut scale.quiet) {
                ("--quiet-seconds", Some(quiet)) => quiet.seconds = number()?,
                ("--quiet-speed", Some(quiet)) => quiet.speed = number()?,
                ("--no-quiet", quiet) => *quiet = None,
                ("--bench" | "--test", _) => {}
                (records, _) => {
                    scale.records = records.replace([',', '_'], "").parse().with_context(|| records.to_owned())?;
                }
            }
        }
        Ok(scale)
    }
}

fn main() -> Result<()> {
    let scale = Scale::from_args()?;
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let scratch = scratch.path();
    let mut report = Report::default();

    eprintln!("writing {} records", scale.records);
    let (ndjson, text) = (scratch.join("app.ndjson"), scratch.join("text"));
    corpus::write_ndjson(&ndjson, scale.records)?;
    corpus::write_text(&text, scale.records)?;
    yardsticks(&mut report, &ndjson, scale.records)?;
    copied_by_rsyslog(&mut report, &text, scratch, scale.records);

    eprintln!("empty folder");
    let empty = Folder::new(scratch, "empty", &scratch.join("nothing/*.log"), "{host}")?;
    measure_start(&mut report, &empty, "an empty folder", scale.quick)?;

    let from_ndjson = Folder::new(scratch, "d1", &ndjson, "{field:instance}")?;
    ingest(&mut report, "one NDJSON file", &from_ndjson, scale.records)?;
    let from_text = Folder::new(scratch, "d2", &text.join("*.log"), "{stem}")?;
    ingest(&mut report, "64 text files", &from_text, scale.records)?;

    imported(&mut report, "one NDJSON file", scratch, &["--instance", "{field:instance}"], &[&ndjson], scale.records)?;
    let files = (0..corpus::INSTANCES).map(|instance| text.join(format!("worker-{instance:02}.log")));
    let files: Vec<PathBuf> = files.collect();
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    imported(&mut report, "64 text files", scratch, &["--instance", "{stem}"], &files, scale.records)?;

    eprintln!("with {} records", scale.records);
    measure_start(&mut report, &from_ndjson, "this folder", scale.quick)?;
    reads(&mut report, &from_ndjson, scale.quick)?;

    push::measure(&mut report, scratch, scale.records, scale.quick)?;

    if let Some(quiet) = scale.quiet {
        measure_quiet(&mut report, &scratch.join("quiet"), quiet)?;
    }
    sealing::measure(&mut report, &from_text, scratch, scale.records, scale.quick)?;
    drops(&mut report, scratch, [&from_ndjson, &from_text])?;
    println!("\n{} records\n\n{}", scale.records, report.table());
    Ok(())
}

/// The machine's speed on the same file.
fn yardsticks(report: &mut Report, file: &Path, records: u64) -> Result<()> {
    for (name, command) in [("wc -l", &["wc", "-l"][..]), ("zstd -1", &["zstd", "-1", "-q", "-c"])] {
        let mut command = {
            let mut whole = Command::new(command[0]);
            whole.args(&command[1..]).arg(file).stdout(Stdio::null());
            whole
        };
        // The first run loads the file into memory, for both programs.
        let _ = Watched::spawn(&mut command).and_then(Watched::wait);
        let measured = match Watched::spawn(&mut command).and_then(Watched::wait) {
            Ok(Taken { wall, cpu, .. }) => format!("{}, {}", rate(records, wall), micros_each(cpu, records)),
            Err(error) => format!("not measured: {error}"),
        };
        report.add(format!("yardstick: {name} of the NDJSON file"), "", measured);
    }
    Ok(())
}

/// The time of another collector to copy the text files. A missing collector is reported.
fn copied_by_rsyslog(report: &mut Report, text: &Path, scratch: &Path, records: u64) {
    let copied = bytes_below(text).and_then(|bytes| peer::rsyslog(text, bytes, scratch));
    let measured = match copied {
        Ok(Taken { wall, cpu, .. }) => format!("{}, {}", rate(records, wall), micros_each(cpu, records)),
        Err(error) => format!("not measured: {error:#}"),
    };
    report.add("yardstick: rsyslog copies the text files unparsed", "", measured);
}

/// Reads all files, and stops the daemon afterwards.
fn ingest(report: &mut Report, form: &str, folder: &Folder, records: u64) -> Result<()> {
    eprintln!("{form}");
    let mut daemon = folder.start()?;
    let wall = daemon.wait_for(records)?;
    let taken = daemon.process.stop()?;
    report.add(format!("{form}: durable and queryable"), "600,000 /s", rate(records, wall));
    report.add(format!("{form}: CPU a record"), "1.3 µs", micros_each(taken.cpu, records));
    report.add(format!("{form}: peak RSS"), "100 MB", megabytes(taken.peak_rss));
    let bytes = bytes_below(&folder.data)?;
    report.add(format!("{form}: on disk a record, stopped"), "46 B", bytes_each(bytes, records));
    Ok(())
}

/// The CPU of the command `import`, without a daemon.
fn imported(
    report: &mut Report,
    form: &str,
    scratch: &Path,
    options: &[&str],
    files: &[&Path],
    records: u64,
) -> Result<()> {
    let folder = Folder::new(scratch, "imported", &scratch.join("nothing/*.log"), "{host}")?;
    let mut import = folder.command(&[&["import"], options].concat());
    let taken = Watched::spawn(import.args(files).stdout(Stdio::null()))?.wait()?;
    report.add(format!("{form}: CPU a record of an import"), "1.3 µs", micros_each(taken.cpu, records));
    std::fs::remove_dir_all(&folder.data)?;
    Ok(())
}

fn measure_start(report: &mut Report, folder: &Folder, what: &str, quick: bool) -> Result<()> {
    let mut ready = Vec::new();
    for _ in 0..if quick { 1 } else { STARTS } {
        let daemon = folder.start()?;
        ready.push(daemon.ready_after);
        daemon.process.stop()?;
    }
    report.add(format!("start to ready, {what}"), "20 ms", millis(median(ready)?));
    let daemon = folder.start()?;
    std::thread::sleep(Duration::from_secs(if quick { 0 } else { 2 }));
    report.add(format!("idle RSS, {what}"), "16 MB", megabytes(daemon.process.rss()?));
    daemon.process.stop()?;
    Ok(())
}

fn reads(report: &mut Report, folder: &Folder, quick: bool) -> Result<()> {
    let mut daemon = folder.start()?;
    let with_target = [(&reading::NEWEST_OF_ONE, "0.5 ms"), (&reading::LEVELS, "50 ms")];
    for (query, target) in with_target.into_iter().chain(reading::OTHERS.iter().map(|query| (query, ""))) {
        let (took, lines) = reading::latency(&mut daemon.client, query, quick)?;
        let measured = if lines > 100 { format!("{} ({lines} rows)", millis(took)) } else { millis(took) };
        report.add(query.name, target, measured);
    }
    report.add("RSS after these queries", "", megabytes(daemon.process.rss()?));
    daemon.process.stop()?;
    Ok(())
}

fn measure_quiet(report: &mut Report, data: &Path, quiet: Quiet) -> Result<()> {
    let Quiet { instances, seconds, speed } = quiet;
    let took = quiet::run(data, quiet)?;
    let what = format!("{instances} instances, a record a second, {seconds} s at {speed}x");
    eprintln!("{what}: {:.0} s", took.wall.as_secs_f64());
    report.add(format!("{what}: on disk a record"), "60 B", bytes_each(took.bytes, took.records));
    report.add(format!("{what}: CPU a record"), "15 µs", micros_each(took.cpu, took.records));
    report.add(format!("{what}: journal at most"), "", megabytes(took.journal_bytes_max));
    Ok(())
}

/// A drop is one fsync, which also waits for other pending writes. Each drop therefore runs on a fully written copy.
fn drops(report: &mut Report, scratch: &Path, large: [&Folder; 2]) -> Result<()> {
    let small_file: PathBuf = scratch.join("small.ndjson");
    corpus::write_ndjson(&small_file, SMALL_DAY)?;
    let small = Folder::new(scratch, "small", &small_file, "{field:instance}")?;
    let mut daemon = small.start()?;
    daemon.wait_for(SMALL_DAY)?;
    daemon.process.stop()?;
    let days = [("1,000 rows", &small), ("all rows (open)", large[0]), ("all rows (sealed)", large[1])];
    for (what, folder) in days {
        let (mut unseen, mut answered) = (Vec::new(), Vec::new());
        for number in 0..DROPS {
            let copy = folder.copy(&format!("dropped-{number}"))?;
            let daemon = copy.start()?;
            let dropped = reading::drop_day(&daemon, &copy.data)?;
            unseen.push(dropped.unseen_after);
            answered.push(dropped.answered_after);
            daemon.process.stop()?;
            std::fs::remove_dir_all(&copy.data)?;
        }
        let measured = format!("{} (answered after {})", millis(median(unseen)?), millis(median(answered)?));
        report.add(format!("drop of {what}, until unseen"), "10 ms", measured);
    }
    Ok(())
}
