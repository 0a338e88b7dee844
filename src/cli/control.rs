//! The socket of a running daemon: a request, and an answer that is read as it comes.
//!
//! HTTP/1.1, one request a connection, as much of it as `daytable`'s own listener speaks: an answer with a length, in
//! chunks, or up to the end of the connection. An answer is read line by line, each of which is JSON.

use daytable_model::path_text::PathText;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of an answer's head at most.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// Bytes of a line of an answer at most.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// How long the daemon may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Why the daemon did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket cannot be spoken to.
    #[error("failed to speak to the daemon at {}: {source}", .path.escaped())]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It says no.
    #[error("the daemon refuses: {reason}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it says.
        reason: String,
    },
    /// It began, and then failed.
    #[error("the daemon failed: {0}")]
    Failed(String),
    /// What it says is not understood.
    #[error("the daemon's answer is not understood: {0}")]
    Protocol(&'static str),
}

/// A connection to the daemon of a data folder.
pub(super) struct Control {
    stream: UnixStream,
    path: PathBuf,
}

impl Control {
    /// Connects to the daemon that runs on `data_dir`; none where none does, its socket being absent or left behind.
    pub(super) fn connect(data_dir: &Path) -> Result<Option<Control>, ControlError> {
        let path = data_dir.join("control.sock");
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

    /// Posts `body` to `target`, and gives the answer where the daemon does not refuse.
    pub(super) fn post(self, target: &str, body: &str) -> Result<Answer, ControlError> {
        let length = body.len();
        self.ask(&format!(
            "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        ))
    }

    /// What is at `target`.
    pub(super) fn fetch(self, target: &str) -> Result<Answer, ControlError> {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    fn ask(self, request: &str) -> Result<Answer, ControlError> {
        let Control { mut stream, path } = self;
        let failed = |source| ControlError::Socket { path: path.clone(), source };
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut stream = BufReader::new(stream);
        let mut head = (&mut stream).take(HEAD_BYTES_MAX);
        let mut line = || {
            let mut line = String::new();
            head.read_line(&mut line).map_err(failed)?;
            if line.ends_with('\n') { Ok(line) } else { Err(ControlError::Protocol("its head is cut short")) }
        };
        let status = line()?.split(' ').nth(1).and_then(|status| status.trim().parse::<u16>().ok());
        let status = status.ok_or(ControlError::Protocol("it has no status"))?;
        let mut left = Left::UntilEnd;
        loop {
            let line = line()?.to_ascii_lowercase();
            match line.trim().split_once(':') {
                Some(("content-length", length)) => {
                    let length =
                        length.trim().parse().map_err(|_| ControlError::Protocol("its length is no number"))?;
                    left = Left::Bytes(length);
                }
                Some(("transfer-encoding", encoding)) if encoding.trim() == "chunked" => left = Left::Chunk(0),
                None if line.trim().is_empty() => break,
                _ => {}
            }
        }
        let mut answer = Answer { body: BufReader::new(Body { stream, left }), path };
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let said = answer.line()?.unwrap_or_default();
        let reason = error_in(&said).unwrap_or_else(|| format!("status {status}"));
        Err(ControlError::Refused { status, reason })
    }
}

/// What the daemon says, line by line.
pub(super) struct Answer {
    body: BufReader<Body>,
    path: PathBuf,
}

impl Answer {
    /// The next line without its newline; none at the end. A line that tells of an error is one.
    pub(super) fn next_line(&mut self) -> Result<Option<String>, ControlError> {
        let Some(line) = self.line()? else { return Ok(None) };
        match error_in(&line) {
            Some(error) => Err(ControlError::Failed(error)),
            None => Ok(Some(line)),
        }
    }

    fn line(&mut self) -> Result<Option<String>, ControlError> {
        let mut line = String::new();
        let read = (&mut self.body).take(LINE_BYTES_MAX).read_line(&mut line);
        let read = read.map_err(|source| ControlError::Socket { path: self.path.clone(), source })?;
        Ok((read > 0).then(|| line.trim_end().to_owned()))
    }
}

/// The text of `{"error": "…"}`.
fn error_in(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    line.get("error")?.as_str().map(str::to_owned)
}

/// The body of an answer without the marks between its chunks.
struct Body {
    stream: BufReader<UnixStream>,
    left: Left,
}

/// What is still to come.
enum Left {
    /// So many bytes.
    Bytes(u64),
    /// So many bytes of this chunk, then its newline and the next one.
    Chunk(u64),
    /// Whatever comes before the connection ends.
    UntilEnd,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Left::Chunk(0) = self.left {
            self.left = match self.next_chunk()? {
                0 => Left::Bytes(0),
                length => Left::Chunk(length),
            };
        }
        let (Left::Bytes(left) | Left::Chunk(left)) = &mut self.left else { return self.stream.read(buffer) };
        if *left == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let room = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.stream.read(&mut buffer[..room])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= read as u64;
        if let Left::Chunk(0) = self.left {
            self.size_line()?;
        }
        Ok(read)
    }
}

impl Body {
    /// The length of the next chunk; 0 is the last.
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

    /// A daemon that gives one answer, and the request that it got.
    fn daemon(answer: &'static str) -> (tempfile::TempDir, JoinHandle<String>) {
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
            stream.write_all(answer.as_bytes()).expect("heard");
            String::from_utf8(request).expect("text")
        });
        (folder, served)
    }

    fn ask(answer: &'static str) -> Result<Vec<String>, ControlError> {
        let (folder, served) = daemon(answer);
        let control = Control::connect(folder.path()).expect("no error").expect("a daemon");
        let mut lines = Vec::new();
        let asked = control.post("/-/import", r#"{"paths":[]}"#).and_then(|mut answer| {
            while let Some(line) = answer.next_line()? {
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
    fn answers_are_read_however_they_are_framed() {
        for answer in [
            "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"a\":1}\n{\"b\":2}\nbeyond",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\nd;x=y\r\n\":1}\n{\"b\":2}\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n{\"a\":1}\n{\"b\":2}",
        ] {
            assert_eq!(ask(answer).expect("an answer"), [r#"{"a":1}"#, r#"{"b":2}"#], "{answer:?}");
        }
    }

    #[test]
    fn refusals_and_failures_say_why() {
        let refused =
            ask("HTTP/1.1 404 Not Found\r\nContent-Length: 17\r\n\r\n{\"error\":\"gone\"}\n").expect_err("refused");
        assert_eq!(refused.to_string(), "the daemon refuses: gone");
        let bare = ask("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").expect_err("refused");
        assert!(matches!(bare, ControlError::Refused { status: 503, .. }));
        let failed = ask("HTTP/1.1 200 OK\r\n\r\n{\"a\":1}\n{\"error\":\"disk full\"}\n").expect_err("failed");
        assert_eq!(failed.to_string(), "the daemon failed: disk full");
    }

    #[test]
    fn an_answer_that_is_cut_short_is_an_error() {
        for answer in [
            "",
            "HTTP/1.1 200",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"a\":1}\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"a\":1}\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        ] {
            assert!(ask(answer).is_err(), "{answer:?}");
        }
    }

    #[test]
    fn a_socket_that_nobody_listens_on_is_no_daemon() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(Control::connect(folder.path()).expect("no error").is_none());
        std::mem::drop(UnixListener::bind(folder.path().join("control.sock")).expect("bound"));
        assert!(Control::connect(folder.path()).expect("no error").is_none());
    }
}
