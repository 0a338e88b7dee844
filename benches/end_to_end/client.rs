//! A client of the control socket: one persistent connection, one request at a time.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A persistent connection.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the daemon of a data folder.
    pub(crate) fn connect(data_dir: &Path) -> Result<Client> {
        let stream = UnixStream::connect(data_dir.join("control.sock"))?;
        Ok(Client { stream: BufReader::with_capacity(1 << 16, stream) })
    }

    /// The response body of a GET.
    pub(crate) fn get(&mut self, path: &str) -> Result<String> {
        self.ask("GET", path)
    }

    /// The response body of a POST without a body.
    pub(crate) fn post(&mut self, path: &str) -> Result<String> {
        self.ask("POST", path)
    }

    fn ask(&mut self, method: &str, path: &str) -> Result<String> {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: daytable\r\nContent-Length: 0\r\n\r\n");
        self.stream.get_mut().write_all(head.as_bytes())?;
        let status = self.line()?;
        let (mut length, mut chunked) = (0, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            match line.split_once(": ") {
                None => break,
                Some(("content-length", bytes)) => length = bytes.parse()?,
                Some(("transfer-encoding", how)) => chunked = how == "chunked",
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if chunked {
            while self.chunk(&mut body)? {}
        } else {
            self.take(length, &mut body)?;
        }
        let body = String::from_utf8(body)?;
        ensure!(status.starts_with("HTTP/1.1 200 "), "{method} {path}: {status}: {body}");
        Ok(body)
    }

    fn chunk(&mut self, body: &mut Vec<u8>) -> Result<bool> {
        let size = usize::from_str_radix(&self.line()?, 16)?;
        self.take(size, body)?;
        ensure!(self.line()?.is_empty(), "a chunk does not end where it says");
        Ok(size > 0)
    }

    fn take(&mut self, bytes: usize, body: &mut Vec<u8>) -> Result<()> {
        let from = body.len();
        body.resize(from + bytes, 0);
        Ok(self.stream.read_exact(&mut body[from..])?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.strip_suffix("\r\n").context("the connection was closed")?.to_owned())
    }
}
