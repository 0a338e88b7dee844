//! A server that only frames and acknowledges: this program in a second process.

use crate::Killed;
use anyhow::{Context, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The stub server.
pub(crate) struct Stub {
    process: Killed,
    said: BufReader<ChildStdout>,
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
}

/// The received data.
pub(crate) struct Taken {
    /// Entities of all transactions.
    pub(crate) entities: u64,
    /// Bytes of all requests, with their heads.
    pub(crate) bytes: u64,
}

impl Stub {
    /// Starts the server.
    pub(crate) fn start() -> Result<Stub> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        Ok(Stub { process: Killed(child), said, port: line.trim().parse()? })
    }

    /// The data received so far.
    pub(crate) fn taken(&mut self) -> Result<Taken> {
        self.process.0.stdin.as_mut().context("a pipe")?.write_all(b"?\n")?;
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        let (entities, bytes) = line.trim().split_once(' ').context("two numbers")?;
        Ok(Taken { entities: entities.parse()?, bytes: bytes.parse()? })
    }
}

static ENTITIES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Runs the server in this process.
pub(crate) fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || acknowledge(&connection));
        }
    });
    // Each line of standard input asks for the counters. The end of the input ends the server.
    for _ in std::io::stdin().lock().lines() {
        println!("{} {}", ENTITIES.load(Relaxed), BYTES.load(Relaxed));
    }
    Ok(())
}

fn acknowledge(connection: &TcpStream) -> Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(256 << 10, connection);
    let (mut head, mut body) = (String::new(), Vec::new());
    loop {
        head.clear();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        body.resize(length.unwrap_or(0), 0);
        reader.read_exact(&mut body)?;
        let entities = memchr::memmem::find_iter(&body, b"\r\n--changeset_entities\r\n").count();
        ENTITIES.fetch_add(entities as u64, Relaxed);
        BYTES.fetch_add((head.len() + body.len()) as u64, Relaxed);
        let answer = if head.contains("/$batch") { answer(entities) } else { other(&head) };
        (&mut &*connection).write_all(&answer)?;
    }
}

/// The service's response to a transaction of this many entities.
fn answer(entities: usize) -> Vec<u8> {
    let mut body =
        String::from("--batchresponse_a\r\nContent-Type: multipart/mixed; boundary=changesetresponse_b\r\n\r\n");
    for _ in 0..entities {
        body.push_str(
            "--changesetresponse_b\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n\
             HTTP/1.1 204 No Content\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-cache\r\n\
             DataServiceVersion: 1.0;\r\nETag: W/\"datetime'2026-11-21T00%3A51%3A47.2034398Z'\"\r\n\r\n\r\n",
        );
    }
    body.push_str("--changesetresponse_b--\r\n--batchresponse_a--\r\n");
    let head = "HTTP/1.1 202 Accepted\r\nx-ms-version: 2020-12-06\r\nContent-Type: multipart/mixed; boundary=batchresponse_a\r\nContent-Length: ";
    format!("{head}{}\r\n\r\n{body}", body.len()).into_bytes()
}

/// The response to any other request: tables exist and are empty.
fn other(head: &str) -> Vec<u8> {
    let (status, body) = if head.starts_with("GET") { ("200 OK", "{\"value\":[]}") } else { ("204 No Content", "") };
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{length}\r\n{body}").into_bytes()
}
