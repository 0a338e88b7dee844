//! Servers that a test starts beside the daemon. Each has its own port, and ends with the test.

use crate::place::{PATIENCE, wait_for};
use std::net::{TcpListener, TcpStream};
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
        let server = Server(started.unwrap_or_else(|error| panic!("{program}: {error}: sh tests/setup installs it")));
        wait_for(&program, PATIENCE, || TcpStream::connect(("127.0.0.1", port)).ok());
        server
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}
