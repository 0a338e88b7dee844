//! Sockets that the service manager bound before the daemon was started: systemd's socket activation.
//!
//! Such a socket belongs to the listener whose `listen` has its kind and address, and is used in place of one of the
//! daemon's own. So one configuration serves with and without a `.socket` unit, and what a socket is for is said in one
//! place: the kernel tells TCP from UDP, but only `listen` tells TLS and RELP from plain TCP. The names of descriptors
//! (`FileDescriptorName=`) are not asked for; all sockets of a unit have one.
//!
//! A socket that no listener takes is an error: it would accept what nobody ever reads.
//!
//! When the configuration is read again, the sockets of listeners that are to be changed are handed over in the same way,
//! from one listener to the next: what waits in the kernel's queue stays there, and nobody is refused in between.

use crate::SocketFile;
use crate::drops::Drops;
use daytable_model::path_text::PathText;
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    udp: Vec<(SocketAddr, (UdpSocket, Arc<Drops>))>,
    streams: Vec<(PathBuf, UnixListener)>,
    datagrams: Vec<(PathBuf, UnixDatagram)>,
    files: Vec<(PathBuf, Arc<SocketFile>)>,
    /// Whether a listener of ours still serves what it leaves.
    is_served: bool,
}

/// A socket that one listener leaves to the next.
pub enum Heirloom {
    /// With the address that its `listen` has: the port may have been left to the system.
    Tcp(SocketAddr, TcpListener),
    /// The same; and what the kernel dropped of it.
    Udp(SocketAddr, UdpSocket, Arc<Drops>),
    /// With its file, where that is not the service manager's.
    UnixStream(PathBuf, UnixListener, Option<Arc<SocketFile>>),
    /// The same.
    UnixDatagram(PathBuf, UnixDatagram, Option<Arc<SocketFile>>),
}

impl Heirloom {
    /// The same socket by another descriptor; none where there is none to be had.
    pub fn try_clone(&self) -> Option<Heirloom> {
        Some(match self {
            Heirloom::Tcp(at, listener) => Heirloom::Tcp(*at, listener.try_clone().ok()?),
            Heirloom::Udp(at, socket, drops) => Heirloom::Udp(*at, socket.try_clone().ok()?, drops.clone()),
            Heirloom::UnixStream(at, listener, file) => {
                Heirloom::UnixStream(at.clone(), listener.try_clone().ok()?, file.clone())
            }
            Heirloom::UnixDatagram(at, socket, file) => {
                Heirloom::UnixDatagram(at.clone(), socket.try_clone().ok()?, file.clone())
            }
        })
    }
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
            let drops = Drops::from_now_on(&socket);
            self.udp.push((socket.local_addr()?, (socket, drops)));
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

    /// Adds what another listener leaves.
    pub fn leave(&mut self, heirloom: Heirloom) {
        self.is_served = true;
        let mut keep = |path: &PathBuf, file: Option<Arc<SocketFile>>| {
            self.files.extend(file.map(|file| (path.clone(), file)));
        };
        match heirloom {
            Heirloom::Tcp(address, listener) => self.tcp.push((address, listener)),
            Heirloom::Udp(address, socket, drops) => self.udp.push((address, (socket, drops))),
            Heirloom::UnixStream(path, listener, file) => {
                keep(&path, file);
                self.streams.push((path, listener));
            }
            Heirloom::UnixDatagram(path, socket, file) => {
                keep(&path, file);
                self.datagrams.push((path, socket));
            }
        }
    }

    /// Whether a listener of ours serves its sockets still, and may go on to: they are to be left as they are.
    pub fn is_served(&self) -> bool {
        self.is_served
    }

    /// The file of a unix socket that was taken, where a listener left it.
    pub fn file(&mut self, path: &Path) -> Option<Arc<SocketFile>> {
        take(&mut self.files, |at| at == path)
    }

    /// The listener on this port.
    pub fn tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        take(&mut self.tcp, |at| *at == address)
    }

    /// The socket of datagrams on this port.
    pub fn udp(&mut self, address: SocketAddr) -> Option<(UdpSocket, Arc<Drops>)> {
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
        let streams = self.streams.iter().map(|(at, _)| format!("unix-stream://{}", at.escaped()));
        let datagrams = self.datagrams.iter().map(|(at, _)| format!("unix-dgram://{}", at.escaped()));
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
            udp: vec![(udp_at, (udp.try_clone().expect("cloned"), Drops::all(&udp)))],
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
