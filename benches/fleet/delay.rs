//! From a line that is written on a host to an answer of the central that has it, beside a stream of records of the same host.

use crate::client::Client;
use crate::member::{Member, PATIENCE, free_address};
use crate::stream::write_stream;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use daytable_model::time::now;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Measures so many lines, beside so many records a second.
pub(crate) fn measure(table: &mut Table, scratch: &Path, lines: u32, stream: u32) -> Result<()> {
    let listen = free_address()?;
    let central = Member::central(scratch, listen)?;
    let receiving = central.start()?;
    let host = Member::host(scratch, "host", &scratch.join("*.log"))?;
    host.join(&central, listen)?;
    let running = host.start()?;
    let is_over = AtomicBool::new(false);
    let mut times = std::thread::scope(|scope| -> Result<Vec<Duration>> {
        let writer = scope.spawn(|| write_stream(&scratch.join("stream.log"), stream, &is_over));
        let times = (0..lines).map(|number| until_visible(&scratch.join("marks.log"), &central, number)).collect();
        is_over.store(true, Ordering::Relaxed);
        writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
        times
    })?;
    running.process.stop()?;
    receiving.process.stop()?;
    times.sort_unstable();
    for (percent, target) in [(50, ""), (99, "1,000")] {
        let time = times.get(times.len() * percent / 100).context("nothing was measured")?;
        let what = format!("a line until the central shows it, beside {stream} records/s: {percent} of 100");
        table.add(what, "ms", target, time.as_secs_f64() * 1e3);
    }
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

fn until_visible(path: &Path, central: &Member, number: u32) -> Result<Duration> {
    std::thread::sleep(Duration::from_millis(150 + u64::from(number * 37 % 100)));
    let mark = format!("mark-{number}-");
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let began = Instant::now();
    writeln!(file, "{} INFO {mark} was written", now())?;
    let mut client = Client::connect(&central.data)?;
    while !client.get("/api/query?instance=marks&n=1")?.contains(&mark) {
        ensure!(began.elapsed() < PATIENCE, "the central has no {mark}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(began.elapsed())
}
