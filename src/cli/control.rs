//! The control socket of a running daemon: one request per connection, and a response that is read as it arrives.
//!
//! The protocol is the part of HTTP/1.1 that the listener of `daytable` speaks: a response with a length, in chunks, or up to the
//! end of the connection. Every line of a response is JSON.

use crate::http::PASSED_FILES_MAX;
use daytable_model::path_text::PathText;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of the head of a response.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// Bytes of a line of a response: of a record of the largest size, or a row with many values.
const LINE_BYTES_MAX: u64 = 256 << 20;
/// How long a read or write may wait for the daemon.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How long the first record of an answer may take: all records may be read for it.
const ANSWER_MAX: Duration = Duration::from_secs(3600);

/// The daemon did not do the request.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket does not work.
    #[error("failed to speak to the daemon at {}: {source}", .path.escaped())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The daemon refused the request.
    #[error("the daemon refuses: {reason}")]
    Refused {
        /// The status of the response.
        status: u16,
        /// The reason in the response.
        reason: String,
    },
    /// The daemon began the work, and failed.
    #[error("the daemon failed: {0}")]
    Failed(String),
    /// The daemon ended, or was killed, before it answered.
    #[error("the daemon ended before it answered: its log says why; what was asked for may be done or not")]
    Ended,
    /// The response is malformed.
    #[error("the response of the daemon cannot be read: {0}")]
    Protocol(&'static str),
}

/// A connection to the daemon of a data folder.
pub(super) struct Control {
    stream: UnixStream,
    path: PathBuf,
}

impl Control {
    /// Connects to the daemon of `data_dir`. `None` without a daemon: the socket is absent, or of an earlier daemon.
    pub(super) fn connect(data_dir: &Path) -> Result<Option<Control>, ControlError> {
        Control::at(daytable_store::control_socket(data_dir))
    }

    /// Connects to a socket of a daemon. `None` without a daemon.
    pub(super) fn at(path: PathBuf) -> Result<Option<Control>, ControlError> {
        let connected = UnixStream::connect(&path).and_then(|stream| {
            stream.set_read_timeout(Some(SILENCE_MAX))?;
            stream.set_write_timeout(Some(SILENCE_MAX))?;
            Ok(stream)
        });
        match connected {
            Ok(stream) => Ok(Some(Control { stream, path })),
            Err(source) => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(None),
                _ => Err(ControlError::Socket { path, source }),
            },
        }
    }

    /// The connection for a question that may take long.
    pub(super) fn patient(self) -> Result<Control, ControlError> {
        match self.stream.set_read_timeout(Some(ANSWER_MAX)) {
            Ok(()) => Ok(self),
            Err(source) => Err(ControlError::Socket { path: self.path, source }),
        }
    }

    /// Posts `body` to `target`, and returns the response if the daemon accepts the request.
    pub(super) fn post(self, target: &str, body: &str) -> Result<ControlResponse, ControlError> {
        self.post_with_files(target, body, &[])
    }

    /// Posts `body` together with open files, which the daemon can read then.
    pub(super) fn post_with_files(
        self,
        target: &str,
        body: &str,
        files: &[File],
    ) -> Result<ControlResponse, ControlError> {
        let length = body.len();
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        self.send(&request, files)
    }

    /// Gets `target`.
    pub(super) fn fetch(self, target: &str) -> Result<ControlResponse, ControlError> {
        self.send(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), &[])
    }

    fn send(self, request: &str, files: &[File]) -> Result<ControlResponse, ControlError> {
        let Control { mut stream, path } = self;
        let failed = |source| ControlError::Socket { path: path.clone(), source };
        let sent = if files.is_empty() { 0 } else { send_files(&stream, request.as_bytes(), files).map_err(failed)? };
        stream.write_all(&request.as_bytes()[sent..]).map_err(failed)?;
        let mut stream = BufReader::new(stream);
        let mut head = (&mut stream).take(HEAD_BYTES_MAX);
        let mut line = || {
            let mut line = String::new();
            head.read_line(&mut line).map_err(failed)?;
            if line.ends_with('\n') { Ok(line) } else { Err(ControlError::Ended) }
        };
        let status = line()?.split(' ').nth(1).and_then(|status| status.trim().parse::<u16>().ok());
        let status = status.ok_or(ControlError::Protocol("it has no status"))?;
        let (mut rest, mut warnings) = (BodyRest::UntilEnd, String::new());
        loop {
            let written = line()?;
            let line = written.to_ascii_lowercase();
            match line.trim().split_once(':') {
                // Its value is JSON, whose case matters.
                Some(("daytable-warnings", _)) => {
                    warnings = written.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default();
                }
                Some(("content-length", length)) => {
                    let length =
                        length.trim().parse().map_err(|_| ControlError::Protocol("its length is not a number"))?;
                    rest = BodyRest::Bytes(length);
                }
                Some(("transfer-encoding", encoding)) if encoding.trim() == "chunked" => rest = BodyRest::Chunk(0),
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut response = ControlResponse { body: BufReader::new(Body { stream, rest }), path, warnings };
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let line = response.line()?.unwrap_or_default();
        let reason = error_in(&line).unwrap_or_else(|| format!("status {status}"));
        Err(ControlError::Refused { status, reason })
    }
}

/// Sends files with the first bytes, and gives the number of these bytes.
fn send_files(stream: &UnixStream, bytes: &[u8], files: &[File]) -> io::Result<usize> {
    let descriptors: Vec<BorrowedFd<'_>> = files.iter().map(File::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files at once"));
    }
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// The response of the daemon, line by line.
pub(super) struct ControlResponse {
    body: BufReader<Body>,
    path: PathBuf,
    warnings: String,
}

impl ControlResponse {
    /// The next line without its newline, or `None` at the end. A line with an error becomes an error.
    pub(super) fn next_line(&mut self) -> Result<Option<String>, ControlError> {
        let Some(line) = self.line()? else { return Ok(None) };
        match only_error_in(&line) {
            Some(error) => Err(ControlError::Failed(error)),
            None => Ok(Some(line)),
        }
    }

    /// The next line as a `T`, or `None` at the end. `fault` says what the line is, if it is no `T`.
    pub(super) fn next<T: DeserializeOwned>(&mut self, fault: &'static str) -> Result<Option<T>, ControlError> {
        let Some(line) = self.next_line()? else { return Ok(None) };
        serde_json::from_str(&line).map(Some).map_err(|_| ControlError::Protocol(fault))
    }

    /// The only line as a `T`.
    pub(super) fn only<T: DeserializeOwned>(mut self, fault: &'static str) -> Result<T, ControlError> {
        self.next(fault)?.ok_or(ControlError::Protocol(fault))
    }

    /// What looks wrong in the request, as the header `daytable-warnings` has it; empty without one.
    pub(super) fn warnings(&self) -> &str {
        &self.warnings
    }

    /// All further lines.
    pub(super) fn all<T: DeserializeOwned>(mut self, fault: &'static str) -> Result<Vec<T>, ControlError> {
        std::iter::from_fn(|| self.next(fault).transpose()).collect()
    }

    /// The next line without its newline, whatever it says, or `None` at the end.
    pub(super) fn line(&mut self) -> Result<Option<String>, ControlError> {
        let mut line = String::new();
        let read = (&mut self.body).take(LINE_BYTES_MAX).read_line(&mut line);
        let read = read.map_err(|source| ControlError::Socket { path: self.path.clone(), source })?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }
}

/// The text of a line that has an error and nothing else. A day-table or an alert has an error among other things.
fn only_error_in(line: &str) -> Option<String> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    if object.len() == 1 { object.get("error")?.as_str().map(str::to_owned) } else { None }
}

/// The text of `{"error": "…"}`.
fn error_in(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line.get("error")?.as_str().map(str::to_owned)
}

/// The body of a response without the sizes of its chunks.
struct Body {
    stream: BufReader<UnixStream>,
    rest: BodyRest,
}

/// The part of the body that is not read yet.
enum BodyRest {
    /// This many bytes.
    Bytes(u64),
    /// This many bytes of a chunk, then its newline and the next chunk.
    Chunk(u64),
    /// All bytes until the end of the connection.
    UntilEnd,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let BodyRest::Chunk(0) = self.rest {
            self.rest = match self.next_chunk()? {
                0 => BodyRest::Bytes(0),
                length => BodyRest::Chunk(length),
            };
        }
        let (BodyRest::Bytes(rest) | BodyRest::Chunk(rest)) = &mut self.rest else { return self.stream.read(buffer) };
        if *rest == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let room = usize::try_from(*rest).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.stream.read(&mut buffer[..room])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *rest -= read as u64;
        if let BodyRest::Chunk(0) = self.rest {
            self.size_line()?;
        }
        Ok(read)
    }
}

impl Body {
    /// The length of the next chunk; 0 for the last chunk.
    fn next_chunk(&mut self) -> io::Result<u64> {
        let line = self.size_line()?;
        let size = line.split(';').next().unwrap_or_default().trim();
        u64::from_str_radix(size, 16).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a chunk without a size"))
    }

    /// A line between chunks.
    fn size_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(128).read_line(&mut line)?;
        if line.ends_with('\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread::JoinHandle;

    /// A daemon that sends one response, and returns the request that it received.
    fn daemon(response: &'static str) -> (tempfile::TempDir, JoinHandle<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("control.sock")).expect("bound");
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                request.push(byte[0]);
            }
            stream.write_all(response.as_bytes()).expect("heard");
            String::from_utf8(request).expect("text")
        });
        (folder, served)
    }

    fn ask(response: &'static str) -> Result<Vec<String>, ControlError> {
        let (folder, served) = daemon(response);
        let control = Control::connect(folder.path()).expect("no error").expect("a daemon");
        let mut lines = Vec::new();
        let asked = control.post("/-/import", r#"{"paths":[]}"#).and_then(|mut response| {
            while let Some(line) = response.next_line()? {
                lines.push(line);
            }
            Ok(())
        });
        let request = served.join().expect("no panic");
        assert!(request.starts_with("POST /-/import HTTP/1.1\r\n"), "{request}");
        assert!(request.ends_with("\r\nContent-Length: 12\r\nConnection: close\r\n\r\n{\"paths\":[]}"), "{request}");
        asked.map(|()| lines)
    }

    #[test]
    fn responses_are_read_in_every_framing() {
        for response in [
            "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"a\":1}\n{\"b\":2}\nbeyond",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\nd;x=y\r\n\":1}\n{\"b\":2}\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{\"a\":1}\n{\"b\":2}",
        ] {
            assert_eq!(ask(response).expect("an response"), [r#"{"a":1}"#, r#"{"b":2}"#], "{response:?}");
        }
    }

    #[test]
    fn refusals_and_failures_have_reasons() {
        let refused =
            ask("HTTP/1.1 404 Not Found\r\nContent-Length: 17\r\n\r\n{\"error\":\"gone\"}\n").expect_err("refused");
        assert_eq!(refused.to_string(), "the daemon refuses: gone");
        let bare = ask("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").expect_err("refused");
        assert!(matches!(bare, ControlError::Refused { status: 503, .. }));
        let failed = ask("HTTP/1.1 200 OK\r\n\r\n{\"a\":1}\n{\"error\":\"disk full\"}\n").expect_err("failed");
        assert_eq!(failed.to_string(), "the daemon failed: disk full");
        let of_a_day = r#"{"table":"Log20261121","error":"failed to seal: disk full"}"#;
        let lines = ask(format!("HTTP/1.1 200 OK\r\n\r\n{of_a_day}\n").leak()).expect("a day with an error");
        assert_eq!(lines, [of_a_day]);
    }

    #[test]
    fn a_truncated_response_is_an_error() {
        for response in [
            "",
            "HTTP/1.1 200",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"a\":1}\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"a\":1}\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        ] {
            assert!(ask(response).is_err(), "{response:?}");
        }
    }

    #[test]
    fn a_socket_without_a_listener_is_not_a_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Control::connect(folder.path()).expect("no error").is_none());
        std::mem::drop(UnixListener::bind(folder.path().join("control.sock")).expect("bound"));
        assert!(Control::connect(folder.path()).expect("no error").is_none());
    }
}
