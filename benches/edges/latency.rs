//! From a line that is written to an answer that has it: by `/api/query` and by `daytable tail`.

use crate::client::Client;
use crate::daemon::{Folder, binary};
use crate::stream::write_stream;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use daytable_model::time::now;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time limit until a line is seen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures lines of both kinds, idle and beside a stream of so many records a second. Of fewer than a hundred lines, the
/// 99th of 100 is the slowest.
pub(crate) fn measure(table: &mut Table, scratch: &Path, lines: usize, stream: u32) -> Result<()> {
    for stream in [0, stream] {
        let state = if stream == 0 { "idle".to_owned() } else { format!("beside {stream} records/s") };
        let (logs, is_over) = (scratch.join(format!("latency-{stream}")), AtomicBool::new(false));
        std::fs::create_dir(&logs)?;
        for kind in ["text", "ndjson"] {
            // The daemon learns the form of the files from these lines.
            let first: String = (0..100).map(|number| line(kind, number)).collect();
            std::fs::write(logs.join(format!("{kind}.log")), first)?;
        }
        let folder = Folder::new(&logs, "data", &logs.join("*.log"), "{stem}")?;
        let daemon = folder.start()?;
        let seen = Mutex::new(HashMap::new());
        let (seen, is_over) = (&seen, &is_over);
        std::thread::scope(|scope| -> Result<()> {
            let mut tails = Vec::new();
            for kind in ["text", "ndjson"] {
                let mut tail = Tail::start(&folder.data, kind)?;
                let printed = tail.printed()?;
                scope.spawn(move || note_lines(printed, seen));
                tails.push(tail);
            }
            scope.spawn(|| write_stream(&logs.join("stream.log"), stream, is_over));
            let measured = ["text", "ndjson"].iter().try_for_each(|kind| {
                let times = lines_of(&logs, kind, lines, &mut daemon.connect()?, seen)?;
                for (reader, mut times) in ["query", "tail"].into_iter().zip(times) {
                    times.sort_unstable();
                    let targets = if *kind == "text" { ["200", "400"] } else { ["100", "250"] };
                    for (percent, target) in [50, 99].into_iter().zip(targets) {
                        let at = times.len() * percent / 100;
                        let time = times.get(at).context("nothing was measured")?;
                        let what = format!("a line of {kind} until {reader} has it, {state}: {percent} of 100");
                        table.add(what, "ms", target, time.as_secs_f64() * 1000.0);
                    }
                }
                Ok(())
            });
            is_over.store(true, Ordering::Relaxed);
            // Their end closes the pipes, and so ends the threads that read them.
            drop(tails);
            measured
        })?;
        daemon.process.stop()?;
    }
    Ok(())
}

/// Writes lines, one after the other, and measures each until both readers have it.
fn lines_of(
    logs: &Path,
    kind: &str,
    lines: usize,
    client: &mut Client,
    seen: &Mutex<HashMap<String, Instant>>,
) -> Result<[Vec<Duration>; 2]> {
    let mut file = OpenOptions::new().append(true).open(logs.join(format!("{kind}.log")))?;
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..lines {
        std::thread::sleep(Duration::from_millis(200 + (number * 37 % 100) as u64));
        let mark = format!("mark-{kind}-{number}-");
        let text = line(kind, number).replace("request", &mark);
        let began = Instant::now();
        file.write_all(text.as_bytes())?;
        while !client.get(&format!("/api/query?instance={kind}&n=1"))?.contains(&mark) {
            ensure!(began.elapsed() < PATIENCE, "no query finds {mark}");
            std::thread::sleep(Duration::from_millis(1));
        }
        times[0].push(began.elapsed());
        let printed = loop {
            if let Some(at) = seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&mark) {
                break *at;
            }
            ensure!(began.elapsed() < PATIENCE, "tail does not print {mark}");
            std::thread::sleep(Duration::from_millis(1));
        };
        times[1].push(printed.duration_since(began));
    }
    Ok(times)
}

/// A line with the time of now.
fn line(kind: &str, number: usize) -> String {
    let time = now();
    match kind {
        "text" => format!("{time} INFO worker[12]: request {number} handled in 12 ms\n"),
        _ => format!("{{\"time\":\"{time}\",\"level\":\"info\",\"message\":\"request {number} handled\"}}\n"),
    }
}

/// `daytable tail` of an instance.
struct Tail(std::process::Child);

impl Tail {
    fn start(data: &Path, instance: &str) -> Result<Tail> {
        let mut command = Command::new(binary());
        command
            .args(["tail", "--json", "--instance", instance, "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let tail = Tail(command.spawn()?);
        // It follows from its start, which must be before the first line.
        std::thread::sleep(Duration::from_millis(500));
        Ok(tail)
    }

    fn printed(&mut self) -> Result<std::process::ChildStdout> {
        self.0.stdout.take().context("no output")
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Notes when each marked line was printed.
fn note_lines(printed: std::process::ChildStdout, seen: &Mutex<HashMap<String, Instant>>) {
    for line in BufReader::new(printed).lines().map_while(Result::ok) {
        let Some(from) = line.find("mark-") else { continue };
        // A mark has three parts, each with a dash at its end.
        let Some((end, _)) = line[from..].match_indices('-').nth(2) else { continue };
        let mark = line[from..=from + end].to_owned();
        seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(mark, Instant::now());
    }
}
