//! Servers that a test starts beside the daemon. Each has its own port, and ends with the test.

use crate::place::{PATIENCE, wait_for};
pub(crate) use daytable_torture::free_port;
use std::io::BufRead;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running server.
pub(crate) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a server, and waits until it accepts connections on `port`.
    pub(crate) fn start(mut command: Command, port: u16) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let program = format!("{command:?}");
        let started = command.spawn();
        let mut server =
            Server(started.unwrap_or_else(|error| panic!("{program}: {error}: sh tests/setup installs it")));
        wait_for(&program, PATIENCE, || {
            // Another program might answer at the port of a server that ended.
            assert!(server.0.try_wait().expect("a child").is_none(), "{program} ended");
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        server
    }
}

/// The head and the body of the next HTTP request or answer; `None` at the end of the connection.
pub(crate) fn next_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok().map(|()| (head, body))
}
