//! Sockets that the service manager bound before the daemon was started: systemd's socket activation.
//!
//! Such a socket belongs to the listener whose `listen` has its kind and address, and is used in place of one of the
//! daemon's own. So one configuration serves with and without a `.socket` unit, and what a socket is for is said in one
//! place: the kernel tells TCP from UDP, but only `listen` tells TLS and RELP from plain TCP. The names of descriptors
//! (`FileDescriptorName=`) are not asked for; all sockets of a unit have one.
//!
//! A socket that no listener takes is an error: it would accept what nobody ever reads.

use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

/// Why the sockets that were handed over cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// No listener takes it.
    #[error("no `listen` of the configuration is {0}, which the service manager has handed over")]
    Unclaimed(String),
    /// It is of no kind that there are listeners for.
    #[error("descriptor {number} that the service manager has handed over is of no use: {source}")]
    Unusable {
        /// Its number.
        number: usize,
        /// Why.
        source: io::Error,
    },
}

/// What was handed over and is not taken yet.
#[derive(Default)]
pub struct Inherited {
    tcp: Vec<(SocketAddr, TcpListener)>,
    udp: Vec<(SocketAddr, UdpSocket)>,
    streams: Vec<(PathBuf, UnixListener)>,
    datagrams: Vec<(PathBuf, UnixDatagram)>,
}

impl Inherited {
    /// Takes what the environment tells of (`LISTEN_PID`, `LISTEN_FDS`). To be called once, before there are threads.
    pub fn take() -> Result<Inherited, ActivationError> {
        let mut fds = listenfd::ListenFd::from_env();
        let mut inherited = Inherited::default();
        for number in 0..fds.len() {
            inherited.add(&mut fds, number).map_err(|source| {
                let number = number + 3;
                ActivationError::Unusable { number, source }
            })?;
        }
        Ok(inherited)
    }

    fn add(&mut self, fds: &mut listenfd::ListenFd, number: usize) -> io::Result<()> {
        let no_path = || io::Error::new(io::ErrorKind::InvalidInput, "its address is no path");
        // One that is of another kind stays where it is.
        if let Ok(Some(listener)) = fds.take_tcp_listener(number) {
            if !sockopt::socket_acceptconn(&listener)? {
                // A unit with `Accept=yes` starts a process a connection, and this is one.
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen (Accept=no is needed)"));
            }
            listener.set_nonblocking(true)?;
            self.tcp.push((listener.local_addr()?, listener));
        } else if let Ok(Some(socket)) = fds.take_udp_socket(number) {
            self.udp.push((socket.local_addr()?, socket));
        } else if let Ok(Some(listener)) = fds.take_unix_listener(number) {
            listener.set_nonblocking(true)?;
            let path = listener.local_addr()?.as_pathname().ok_or_else(no_path)?.to_owned();
            self.streams.push((path, listener));
        } else {
            let taken = fds.take_unix_datagram(number)?;
            let socket = taken.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
            let path = socket.local_addr()?.as_pathname().ok_or_else(no_path)?.to_owned();
            self.datagrams.push((path, socket));
        }
        Ok(())
    }

    /// The listener on this port.
    pub fn tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        take(&mut self.tcp, |at| *at == address)
    }

    /// The socket of datagrams on this port.
    pub fn udp(&mut self, address: SocketAddr) -> Option<UdpSocket> {
        take(&mut self.udp, |at| *at == address)
    }

    /// The listener at this path.
    pub fn unix_stream(&mut self, path: &Path) -> Option<UnixListener> {
        take(&mut self.streams, |at| at == path)
    }

    /// The socket of datagrams at this path.
    pub fn unix_datagram(&mut self, path: &Path) -> Option<UnixDatagram> {
        take(&mut self.datagrams, |at| at == path)
    }

    /// An error where something was not taken.
    pub fn finish(self) -> Result<(), ActivationError> {
        let tcp = self.tcp.iter().map(|(at, _)| format!("tcp://{at}"));
        let udp = self.udp.iter().map(|(at, _)| format!("udp://{at}"));
        let streams = self.streams.iter().map(|(at, _)| format!("unix-stream://{}", at.display()));
        let datagrams = self.datagrams.iter().map(|(at, _)| format!("unix-dgram://{}", at.display()));
        let left: Vec<String> = tcp.chain(udp).chain(streams).chain(datagrams).collect();
        if left.is_empty() { Ok(()) } else { Err(ActivationError::Unclaimed(left.join(" or "))) }
    }
}

fn take<A, S>(sockets: &mut Vec<(A, S)>, is_it: impl Fn(&A) -> bool) -> Option<S> {
    let at = sockets.iter().position(|(at, _)| is_it(at))?;
    Some(sockets.swap_remove(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_taken_by_its_address_and_none_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (tcp, udp) = (tcp.expect("bound"), udp.expect("bound"));
        let (tcp_at, udp_at) = (tcp.local_addr().expect("an address"), udp.local_addr().expect("an address"));
        let mut inherited = Inherited {
            tcp: vec![(tcp_at, tcp)],
            udp: vec![(udp_at, udp)],
            streams: vec![(path.clone(), UnixListener::bind(&path).expect("bound"))],
            ..Inherited::default()
        };
        assert!(inherited.unix_datagram(&path).is_none() && inherited.unix_stream(Path::new("/log")).is_none());
        assert!(inherited.tcp("[::1]:9".parse().expect("an address")).is_none());
        assert!(inherited.tcp(tcp_at).is_some() && inherited.tcp(tcp_at).is_none());
        assert!(inherited.unix_stream(&path).is_some());
        let error = inherited.finish().expect_err("one is left").to_string();
        assert!(error.contains(&format!("udp://{udp_at}, ")), "{error}");
        assert!(Inherited::default().finish().is_ok());
    }
}
