//! VictoriaLogs, where `DAYTABLE_BENCH_VICTORIALOGS` names its binary.

use crate::process::Watched;
use crate::url::encoded;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a request that brings records.
const INSERT_BYTES: usize = 8 << 20;
/// Time limit until a question finds all records.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with an empty folder.
pub(crate) struct VictoriaLogs {
    /// The process.
    pub(crate) process: Watched,
    port: u16,
}

impl VictoriaLogs {
    /// Starts the server with a folder below `scratch`.
    pub(crate) fn start(scratch: &Path) -> Result<VictoriaLogs> {
        let binary =
            std::env::var("DAYTABLE_BENCH_VICTORIALOGS").context("DAYTABLE_BENCH_VICTORIALOGS names no binary")?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new(binary);
        command
            .arg(format!("-storageDataPath={}", scratch.join("victoria").display()))
            .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
            .args(["-retentionPeriod=100y", "-search.maxQueryDuration=10m"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = VictoriaLogs { process: Watched::spawn(&mut command)?, port };
        let started = Instant::now();
        while server.request("GET", "/health", &[]).is_err() {
            ensure!(started.elapsed() < Duration::from_secs(30), "it does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Brings all records of a file by a connection a core, and waits until a question finds them all: the server
    /// answers a request before its records can be found.
    pub(crate) fn insert(&self, ndjson: &Path) -> Result<()> {
        let lines = Mutex::new(BufReader::with_capacity(1 << 20, File::open(ndjson)?));
        let connections = std::thread::available_parallelism().map_or(1, usize::from);
        let inserted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..connections).map(|_| scope.spawn(|| self.insert_from(&lines))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<Result<usize>>()
        })?;
        let began = Instant::now();
        loop {
            self.request("GET", "/internal/force_flush", &[])?;
            let answer = self.query("* | stats count() n")?;
            if answer.trim() == format!("{{\"n\":\"{inserted}\"}}") {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "it was given {inserted} records and answers {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Brings the next records of a file until there are no more. Returns their number.
    fn insert_from(&self, lines: &Mutex<BufReader<File>>) -> Result<usize> {
        let path = "/insert/jsonline?_time_field=time&_msg_field=message&_stream_fields=instance";
        let (mut body, mut records) = (Vec::new(), 0);
        loop {
            {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                while body.len() < INSERT_BYTES && lines.read_until(b'\n', &mut body)? > 0 {
                    records += 1;
                }
            }
            if body.is_empty() {
                return Ok(records);
            }
            self.request("POST", path, &body)?;
            body.clear();
        }
    }

    /// Asks, and reads the answer. Returns the number of its lines.
    pub(crate) fn ask(&self, query: &str) -> Result<usize> {
        Ok(self.query(query)?.lines().count())
    }

    fn query(&self, query: &str) -> Result<String> {
        self.request("GET", &format!("/select/logsql/query?query={}", encoded(query)), &[])
    }

    /// The body of the answer.
    fn request(&self, method: &str, path: &str, body: &[u8]) -> Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        ensure!(answer.get(9..12) == Some(b"200"), "{}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
        let body = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("an answer without a body")? + 4;
        Ok(String::from_utf8(answer.split_off(body))?)
    }
}

/// A filter of any field. The server looks for a word without a field in the message only, and knows no name for any
/// field.
pub(crate) fn any_field(filter: &str) -> String {
    let fields = ["_msg", "component", "method", "path", "client", "trace_id", "error"];
    let filters: Vec<String> = fields.iter().map(|field| format!("{field}:{filter}")).collect();
    format!("({})", filters.join(" or "))
}
