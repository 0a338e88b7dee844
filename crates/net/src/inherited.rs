//! Sockets that another owner bound: the service manager before the start, or another listener before a reload.
//!
//! systemd's socket activation ([`sd_listen_fds(3)`]) passes bound sockets to a new process. Such a socket belongs to the
//! listener whose `listen` has the socket's kind and address. The listener uses it instead of a socket of its own, so one
//! configuration works with and without a `.socket` unit. The names of descriptors (`FileDescriptorName=`) are ignored,
//! because all sockets of a unit have the same name.
//!
//! A socket that no listener claims is an error: it would accept connections that daytable never reads.
//!
//! A reload passes the sockets of changed listeners on in the same way. Data in the kernel's queue stays there, and no
//! connection is refused in between.
//!
//! [`sd_listen_fds(3)`]: https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html

use crate::{KernelDrops, SocketFile};
use daytable_model::path_text::PathText;
use rustix::net::sockopt;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why an inherited socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ActivationError {
    /// No listener claims the socket.
    #[error("no `listen` of the configuration is {0}, which the service manager has handed over")]
    Unclaimed(String),
    /// daytable has no listeners for a socket of this kind.
    #[error("descriptor {number} that the service manager has handed over cannot be used: {source}")]
    Unusable {
        /// The number of the descriptor.
        number: usize,
        /// The cause.
        source: io::Error,
    },
}

/// Inherited sockets that no listener has claimed yet.
#[derive(Default)]
pub struct Inherited {
    sockets: Vec<InheritedSocket>,
    /// Whether another listener of this process still serves the sockets.
    is_served: bool,
}

/// A bound socket with the address of its `listen`. Its port may be 0 there, so the socket's own address can differ.
pub enum InheritedSocket {
    /// A port for connections.
    Tcp(SocketAddr, TcpListener),
    /// A port for datagrams, and the datagrams that the kernel dropped.
    Udp(SocketAddr, UdpSocket, Arc<KernelDrops>),
    /// A path for connections. `None` if the service manager owns the file.
    UnixStream(PathBuf, UnixListener, Option<Arc<SocketFile>>),
    /// A path for datagrams. `None` if the service manager owns the file.
    UnixDatagram(PathBuf, UnixDatagram, Option<Arc<SocketFile>>),
}

impl InheritedSocket {
    /// The same socket by another descriptor. `None` if the system has no descriptor left.
    pub fn try_clone(&self) -> Option<InheritedSocket> {
        Some(match self {
            InheritedSocket::Tcp(at, socket) => InheritedSocket::Tcp(*at, socket.try_clone().ok()?),
            InheritedSocket::Udp(at, socket, drops) => {
                InheritedSocket::Udp(*at, socket.try_clone().ok()?, drops.clone())
            }
            InheritedSocket::UnixStream(at, socket, file) => {
                InheritedSocket::UnixStream(at.clone(), socket.try_clone().ok()?, file.clone())
            }
            InheritedSocket::UnixDatagram(at, socket, file) => {
                InheritedSocket::UnixDatagram(at.clone(), socket.try_clone().ok()?, file.clone())
            }
        })
    }
}

/// As `listen` is written.
impl fmt::Display for InheritedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InheritedSocket::Tcp(at, _) => write!(f, "tcp://{at}"),
            InheritedSocket::Udp(at, ..) => write!(f, "udp://{at}"),
            InheritedSocket::UnixStream(at, ..) => write!(f, "unix-stream://{}", at.escaped()),
            InheritedSocket::UnixDatagram(at, ..) => write!(f, "unix-dgram://{}", at.escaped()),
        }
    }
}

impl Inherited {
    /// The sockets of the service manager, from `LISTEN_PID` and `LISTEN_FDS`. Call it once, before any thread starts.
    ///
    /// # Errors
    ///
    /// [`ActivationError::Unusable`].
    pub fn from_env() -> Result<Inherited, ActivationError> {
        let mut fds = listenfd::ListenFd::from_env();
        let unusable = |number| move |source| ActivationError::Unusable { number: number + 3, source };
        let sockets = (0..fds.len())
            .map(|number| socket(&mut fds, number).map_err(unusable(number)))
            .collect::<Result<_, _>>()?;
        Ok(Inherited { sockets, is_served: false })
    }

    /// Adds the socket of a listener that still serves it.
    pub fn add(&mut self, socket: InheritedSocket) {
        self.is_served = true;
        self.sockets.push(socket);
    }

    /// Whether another listener of this process still serves the sockets and may go on to do so. If so, the options of the
    /// sockets must not change yet.
    pub fn is_served(&self) -> bool {
        self.is_served
    }

    /// The TCP socket with this address.
    pub fn claim_tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        match self.claim(|socket| matches!(socket, InheritedSocket::Tcp(at, _) if *at == address))? {
            InheritedSocket::Tcp(_, socket) => Some(socket),
            _ => None,
        }
    }

    /// The UDP socket with this address, and the datagrams that the kernel dropped.
    pub fn claim_udp(&mut self, address: SocketAddr) -> Option<(UdpSocket, Arc<KernelDrops>)> {
        match self.claim(|socket| matches!(socket, InheritedSocket::Udp(at, ..) if *at == address))? {
            InheritedSocket::Udp(_, socket, drops) => Some((socket, drops)),
            _ => None,
        }
    }

    /// The stream socket at this path. `None` in the pair if the service manager owns the file.
    pub fn claim_unix_stream(&mut self, path: &Path) -> Option<(UnixListener, Option<Arc<SocketFile>>)> {
        match self.claim(|socket| matches!(socket, InheritedSocket::UnixStream(at, ..) if at == path))? {
            InheritedSocket::UnixStream(_, socket, file) => Some((socket, file)),
            _ => None,
        }
    }

    /// The datagram socket at this path. `None` in the pair if the service manager owns the file.
    pub fn claim_unix_datagram(&mut self, path: &Path) -> Option<(UnixDatagram, Option<Arc<SocketFile>>)> {
        match self.claim(|socket| matches!(socket, InheritedSocket::UnixDatagram(at, ..) if at == path))? {
            InheritedSocket::UnixDatagram(_, socket, file) => Some((socket, file)),
            _ => None,
        }
    }

    fn claim(&mut self, is_wanted: impl Fn(&InheritedSocket) -> bool) -> Option<InheritedSocket> {
        let at = self.sockets.iter().position(is_wanted)?;
        Some(self.sockets.swap_remove(at))
    }

    /// Checks that every socket was claimed.
    ///
    /// # Errors
    ///
    /// [`ActivationError::Unclaimed`].
    pub fn finish(self) -> Result<(), ActivationError> {
        let left: Vec<String> = self.sockets.iter().map(InheritedSocket::to_string).collect();
        if left.is_empty() { Ok(()) } else { Err(ActivationError::Unclaimed(left.join(" or "))) }
    }
}

/// The socket with this number. Each call of `fds.take_…` leaves a socket of another kind where it is.
fn socket(fds: &mut listenfd::ListenFd, number: usize) -> io::Result<InheritedSocket> {
    let no_path = || io::Error::new(io::ErrorKind::InvalidInput, "its address is not a path");
    Ok(if let Ok(Some(socket)) = fds.take_tcp_listener(number) {
        if !sockopt::socket_acceptconn(&socket)? {
            // A unit with `Accept=yes` starts one process for each connection and passes the connection.
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it does not listen (Accept=no is needed)"));
        }
        socket.set_nonblocking(true)?;
        InheritedSocket::Tcp(socket.local_addr()?, socket)
    } else if let Ok(Some(socket)) = fds.take_udp_socket(number) {
        let drops = KernelDrops::from_now_on(&socket);
        InheritedSocket::Udp(socket.local_addr()?, socket, drops)
    } else if let Ok(Some(socket)) = fds.take_unix_listener(number) {
        socket.set_nonblocking(true)?;
        let path = socket.local_addr()?.as_pathname().ok_or_else(no_path)?.to_owned();
        InheritedSocket::UnixStream(path, socket, None)
    } else {
        let socket = fds.take_unix_datagram(number)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let path = socket.local_addr()?.as_pathname().ok_or_else(no_path)?.to_owned();
        InheritedSocket::UnixDatagram(path, socket, None)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_claimed_by_its_address_and_all_must_be_claimed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (tcp, udp) = (tcp.expect("bound"), udp.expect("bound"));
        let (tcp_at, udp_at) = (tcp.local_addr().expect("an address"), udp.local_addr().expect("an address"));
        let sockets = vec![
            InheritedSocket::Tcp(tcp_at, tcp),
            InheritedSocket::Udp(udp_at, udp.try_clone().expect("cloned"), KernelDrops::new(&udp)),
            InheritedSocket::UnixStream(path.clone(), UnixListener::bind(&path).expect("bound"), None),
        ];
        let mut inherited = Inherited { sockets, is_served: false };
        assert!(inherited.claim_unix_datagram(&path).is_none());
        assert!(inherited.claim_unix_stream(Path::new("/log")).is_none());
        assert!(inherited.claim_tcp("[::1]:9".parse().expect("an address")).is_none());
        assert!(inherited.claim_tcp(tcp_at).is_some() && inherited.claim_tcp(tcp_at).is_none());
        assert!(inherited.claim_unix_stream(&path).is_some());
        let error = inherited.finish().expect_err("one socket is left").to_string();
        assert!(error.contains(&format!("udp://{udp_at}, ")), "{error}");
        assert!(Inherited::default().finish().is_ok());
    }
}
