//! VictoriaLogs, where `DAYTABLE_BENCH_VICTORIALOGS` names its binary.

use crate::process::Watched;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of a request that brings records.
const INSERT_BYTES: usize = 8 << 20;

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

    /// Brings all records of a file, and waits until questions find them.
    pub(crate) fn insert(&self, ndjson: &Path) -> Result<()> {
        let path = "/insert/jsonline?_time_field=time&_msg_field=message&_stream_fields=instance";
        let mut lines = BufReader::with_capacity(1 << 20, File::open(ndjson)?);
        let mut body = Vec::new();
        loop {
            let read = lines.read_until(b'\n', &mut body)?;
            if body.len() >= INSERT_BYTES || read == 0 && !body.is_empty() {
                self.request("POST", path, &body)?;
                body.clear();
            }
            if read == 0 {
                break;
            }
        }
        self.request("GET", "/internal/force_flush", &[]).map(drop)
    }

    /// Asks, and reads the answer. Returns its bytes.
    pub(crate) fn ask(&self, query: &str) -> Result<usize> {
        self.request("GET", &format!("/select/logsql/query?query={}", encoded(query)), &[])
    }

    fn request(&self, method: &str, path: &str, body: &[u8]) -> Result<usize> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        ensure!(answer.get(9..12) == Some(b"200"), "{}", String::from_utf8_lossy(&answer[..answer.len().min(300)]));
        Ok(answer.len())
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
