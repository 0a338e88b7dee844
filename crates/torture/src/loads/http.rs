//! Requests to the daemon at its socket.

use super::PATIENCE;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

/// A connection that stays open from request to request, and is made anew after an error.
pub(crate) struct Connection {
    socket: PathBuf,
    stream: Option<BufReader<UnixStream>>,
}

impl Connection {
    pub(crate) fn to(socket: &Path) -> Connection {
        Connection { socket: socket.into(), stream: None }
    }

    /// Sends a request. Returns the status of the answer, and its body.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = UnixStream::connect(&self.socket)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                BufReader::new(stream)
            }
        };
        stream.get_mut().write_all(request)?;
        let first = line(&mut stream)?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no answer of HTTP: {first:?}")))?;
        let mut length = None;
        loop {
            let header = line(&mut stream)?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            length = header.strip_prefix("content-length:").and_then(|length| length.trim().parse().ok()).or(length);
        }
        let mut body = Vec::new();
        match length {
            Some(length) => {
                body.resize(length, 0);
                stream.read_exact(&mut body)?;
                self.stream = Some(stream);
            }
            None => drop(stream.read_to_end(&mut body)?),
        }
        Ok((status, body))
    }

    /// Sends a request without a body, on a connection of its own.
    pub(crate) fn get(&mut self, target: &str) -> io::Result<(u16, Vec<u8>)> {
        self.stream = None;
        let answer =
            self.ask(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes());
        self.stream = None;
        answer
    }
}

/// A line of the head, without its end.
fn line(stream: &mut BufReader<UnixStream>) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// Waits until a daemon that was just started takes requests.
pub(crate) fn is_ready(socket: &Path, child: &mut Child) -> io::Result<()> {
    const OK: u16 = 200;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Connection::to(socket).get("/readyz") {
            Ok((OK, _)) => return Ok(()),
            _ if Instant::now() >= deadline => return Err(io::Error::other("it does not become ready")),
            _ => {}
        }
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it ended at its start: {status}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
