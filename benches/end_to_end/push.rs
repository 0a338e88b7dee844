//! Push over loopback: NDJSON in bodies of 1 MiB from 64 instances, over a few persistent connections. Each body is
//! acknowledged once it is on disk. Also the time of a single small push, beside two fsyncs in the same folder.
//!
//! Sender and daemon share the machine. The bodies are made first. The sender only writes bodies and reads responses,
//! and its CPU is reported, too. It has a thread per connection, and most threads wait.

use crate::corpus::{Corpus, SEED};
use crate::daemon::Folder;
use crate::process::median;
use crate::report::{Report, megabytes, micros_each, millis, rate};
use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Concurrent connections.
const CONNECTIONS: usize = 4;
/// Bytes of a body, up to whole records.
const BODY_BYTES: usize = 1 << 20;
/// Different bodies, sent in turn: making them is no part of the measurement.
const BODIES: usize = 64;
/// Small pushes, and fsyncs, per median.
const SINGLES: usize = 500;

/// Measures both, each on a new folder.
pub(crate) fn measure(report: &mut Report, scratch: &Path, records: u64, quick: bool) -> Result<()> {
    let target = target()?;
    ingest(report, &Folder::pushed_to(scratch, "pushed", target)?, target, records)?;
    singles(report, &Folder::pushed_to(scratch, "pushed-one", target)?, target, if quick { 5 } else { SINGLES })
}

/// A free port of loopback.
pub(crate) fn target() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Bodies, each with its number of records.
fn bodies(records: u64) -> Vec<(String, u64)> {
    let mut bodies = vec![(String::new(), 0)];
    for sample in Corpus::new(SEED, records) {
        if let Some((body, count)) = bodies.last_mut() {
            sample.write_json(body);
            *count += 1;
            if body.len() >= BODY_BYTES {
                bodies.push((String::new(), 0));
            }
        }
        if bodies.len() > BODIES {
            break;
        }
    }
    bodies.retain(|(_, count)| *count > 0);
    bodies
}

fn ingest(report: &mut Report, folder: &Folder, to: SocketAddr, records: u64) -> Result<()> {
    eprintln!("pushing {records} records");
    // Writes of earlier measurements must not delay this one.
    rustix::fs::sync();
    let bodies = bodies(records.min(1_000_000));
    let mut daemon = folder.start()?;
    let of_all: u64 = bodies.iter().map(|(_, count)| count).sum();
    let requests = usize::try_from(records.div_ceil(of_all))? * bodies.len();
    let next = AtomicUsize::new(0);
    let (cpu, began) = (own_cpu(), Instant::now());
    let sent = std::thread::scope(|scope| {
        let pushing: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(|| -> Result<u64> {
                    let (mut connection, mut sent) = (Connection::open(to)?, 0);
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= requests {
                            return Ok(sent);
                        }
                        let (body, count) = &bodies[number % bodies.len()];
                        connection.push(body)?;
                        sent += count;
                    }
                })
            })
            .collect();
        pushing
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked"))))
            .sum::<Result<u64>>()
    })?;
    let (wall, sender) = (began.elapsed(), own_cpu() - cpu);
    // Every body is acknowledged, so every record is on disk.
    daemon.wait_for(sent)?;
    let taken = daemon.process.stop()?;
    report.add(
        format!("push of {sent} records, 1 MiB each, {CONNECTIONS} connections"),
        "500,000 /s",
        rate(sent, wall),
    );
    report.add("push: CPU a record, daemon", "", micros_each(taken.cpu, sent));
    report.add("push: CPU a record, sender", "", micros_each(sender, sent));
    report.add("push: peak RSS", "", megabytes(taken.peak_rss));
    Ok(())
}

fn singles(report: &mut Report, folder: &Folder, to: SocketAddr, count: usize) -> Result<()> {
    let daemon = folder.start()?;
    let fsync = fsync(&folder.data, count)?;
    let mut connection = Connection::open(to)?;
    let mut took = Vec::new();
    for number in 0..count {
        let began = Instant::now();
        connection.push(&format!("{{\"message\":\"a small one\",\"number\":{number}}}\n"))?;
        took.push(began.elapsed());
    }
    let slow = {
        let mut sorted = took.clone();
        sorted.sort_unstable();
        sorted[sorted.len() * 99 / 100]
    };
    let target = 2 * fsync + Duration::from_millis(1);
    report.add("fsync of 4 KiB in the same folder, median", "", millis(fsync));
    report.add("one small push, median", &millis(target), millis(median(took)?));
    report.add("one small push, 99 of 100", "", millis(slow));
    daemon.process.stop()?;
    Ok(())
}

/// The time of an fsync in this folder, after a file grew by a page.
fn fsync(folder: &Path, count: usize) -> Result<Duration> {
    let path = folder.join("fsync-probe");
    let mut file = std::fs::File::create(&path)?;
    let mut took = Vec::new();
    for _ in 0..count {
        file.write_all(&[7; 4096])?;
        let began = Instant::now();
        file.sync_data()?;
        took.push(began.elapsed());
    }
    std::fs::remove_file(path)?;
    median(took)
}

/// CPU time of this process so far.
fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// A persistent connection.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Connects.
    pub(crate) fn open(to: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        Ok(Connection(BufReader::new(stream)))
    }

    /// Pushes a body and waits for the response. Retries on request of the daemon, which may come before the end of the
    /// body.
    pub(crate) fn push(&mut self, body: &str) -> Result<()> {
        loop {
            let to = self.0.get_ref().peer_addr()?;
            let head = format!(
                "POST /ingest HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            // Small bodies go out in one packet.
            let stream = self.0.get_mut();
            let sent = if body.len() < 1000 {
                stream.write_all((head + body).as_bytes())
            } else {
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()))
            };
            match self.answer().with_context(|| format!("no answer, and sent: {sent:?}"))? {
                200 => return Ok(()),
                503 => std::thread::sleep(Duration::from_millis(10)),
                other => anyhow::bail!("answered with {other}"),
            }
            *self = Connection::open(to)?;
        }
    }

    fn answer(&mut self) -> Result<u16> {
        let (mut line, mut length) = (String::new(), 0);
        self.0.read_line(&mut line)?;
        let status = line.split(' ').nth(1).context("no status")?.parse()?;
        loop {
            line.clear();
            ensure!(self.0.read_line(&mut line)? > 0, "the connection was closed");
            match line.trim_end().to_ascii_lowercase().split_once(": ") {
                None => break,
                Some(("content-length", bytes)) => length = bytes.parse()?,
                Some(_) => {}
            }
        }
        std::io::copy(&mut self.0.by_ref().take(length), &mut std::io::sink())?;
        Ok(status)
    }
}
