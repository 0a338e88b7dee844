//! Sockets are bound before any thread starts, so a listener that cannot be bound fails the start.

use daytable_model::path_text::PathText;
use daytable_net::KernelDrops;
use daytable_net::SocketFile;
use daytable_net::inherited::Inherited;
use rustix::fs::{Mode, chmod};
use rustix::net::{listen, sockopt};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a listener cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process listens there.
    #[error("{} is in use: another process answers there", .0.escaped())]
    InUse(PathBuf),
    /// A file other than a socket is in the way. daytable does not remove it.
    #[error("{} exists and is not a socket: move the file, or choose another path", .0.escaped())]
    InTheWay(PathBuf),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] super::TlsError),
    /// A system call failed.
    #[error("{at}: {source}")]
    Io {
        /// The address or path.
        at: String,
        /// The cause.
        source: io::Error,
    },
}

/// Options of a socket that another listener still serves. They are set after the successor has started: if the reload
/// fails, the other listener continues with an unchanged socket.
#[derive(Default)]
pub(super) struct DeferredOptions {
    /// The file of a unix socket, and its mode.
    mode: Option<(PathBuf, u32)>,
    receive_buffer: Option<usize>,
}

impl DeferredOptions {
    /// Applies the options, after the successor has started. `datagrams` is its socket if it reads datagrams.
    pub(super) fn apply(self, datagrams: Option<impl AsFd>) {
        if let (Some(bytes), Some(socket)) = (self.receive_buffer, datagrams) {
            enlarge(socket, bytes);
        }
        if let Some((path, mode)) = self.mode
            && let Err(error) = chmod(&path, Mode::from_raw_mode(mode))
        {
            // The old mode remains. That is not a reason to end the listener.
            tracing::warn!(path = %path.escaped(), %error, "failed to set the mode of the socket: the old mode stays");
        }
    }

    /// Enlarges the receive buffer: now, or after the other listener has left the socket.
    fn enlarge(&mut self, socket: impl AsFd, bytes: usize, is_served: bool) {
        match is_served {
            true => self.receive_buffer = Some(bytes),
            false => enlarge(socket, bytes),
        }
    }
}

fn failed(at: impl std::fmt::Display) -> impl FnOnce(io::Error) -> ListenError {
    let at = at.to_string();
    move |source| ListenError::Io { at, source }
}

/// The length of the queue of connections to accept. The system has its own limit (`net.core.somaxconn`).
const BACKLOG: i32 = 1024;

/// Binds a port. Whether the unspecified IPv6 address accepts IPv4 depends on the system.
pub(super) fn tcp(address: SocketAddr, inherited: &mut Inherited) -> Result<TcpListener, ListenError> {
    if let Some(listener) = inherited.claim_tcp(address) {
        return Ok(listener);
    }
    let listener = TcpListener::bind(address).map_err(failed(address))?;
    listener.set_nonblocking(true).map_err(failed(address))?;
    // The standard library uses a shorter queue.
    listen(&listener, BACKLOG).map_err(|error| failed(address)(error.into()))?;
    Ok(listener)
}

pub(super) fn udp(
    address: SocketAddr,
    receive_buffer: usize,
    inherited: &mut Inherited,
    later: &mut DeferredOptions,
) -> Result<(UdpSocket, Arc<KernelDrops>), ListenError> {
    if let Some((socket, drops)) = inherited.claim_udp(address) {
        later.enlarge(&socket, receive_buffer, inherited.is_served());
        return Ok((socket, drops));
    }
    let socket = UdpSocket::bind(address).map_err(failed(address))?;
    enlarge(&socket, receive_buffer);
    let drops = KernelDrops::new(&socket);
    Ok((socket, drops))
}

/// A socket of the service manager keeps its file and its mode.
pub(super) fn unix_datagram(
    path: &Path,
    mode: u32,
    receive_buffer: usize,
    inherited: &mut Inherited,
    later: &mut DeferredOptions,
) -> Result<(UnixDatagram, Option<Arc<SocketFile>>), ListenError> {
    if let Some((socket, file)) = inherited.claim_unix_datagram(path) {
        later.enlarge(&socket, receive_buffer, inherited.is_served());
        later.mode = file.as_ref().map(|_| (path.into(), mode));
        return Ok((socket, file));
    }
    let answers = |path: &Path| UnixDatagram::unbound()?.connect(path);
    clear(path, answers)?;
    let socket = UnixDatagram::bind(path).map_err(failed(path.escaped()))?;
    enlarge(&socket, receive_buffer);
    Ok((socket, Some(SocketFile::new(path, mode).map_err(failed(path.escaped()))?.into())))
}

/// As [`unix_datagram`].
pub(super) fn unix_stream(
    path: &Path,
    mode: u32,
    inherited: &mut Inherited,
    later: &mut DeferredOptions,
) -> Result<(UnixListener, Option<Arc<SocketFile>>), ListenError> {
    if let Some((listener, file)) = inherited.claim_unix_stream(path) {
        later.mode = file.as_ref().map(|_| (path.into(), mode));
        return Ok((listener, file));
    }
    clear(path, |path| UnixStream::connect(path).map(drop))?;
    let listener = UnixListener::bind(path).map_err(failed(path.escaped()))?;
    listener.set_nonblocking(true).map_err(failed(path.escaped()))?;
    Ok((listener, Some(SocketFile::new(path, mode).map_err(failed(path.escaped()))?.into())))
}

/// Enlarges the receive buffer: beyond the limit of the system if this process has the capability, else up to the limit.
fn enlarge(socket: impl AsFd, bytes: usize) {
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, bytes));
    // The kernel reports twice the requested size.
    let kept = sockopt::socket_recv_buffer_size(&socket).unwrap_or(0) / 2;
    if kept < bytes {
        tracing::info!(
            wanted = bytes,
            kept,
            "the receive buffer is smaller than configured: raise net.core.rmem_max, or grant CAP_NET_ADMIN"
        );
    }
}

/// Removes the socket file of a process that ended.
fn clear(path: &Path, answers: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), ListenError> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path.escaped())(error)),
        Ok(there) if !there.file_type().is_socket() => return Err(ListenError::InTheWay(path.into())),
        Ok(_) => {}
    }
    match answers(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed(path.escaped()))
        }
        // Another process listens, even if it refuses this kind of connection.
        _ => Err(ListenError::InUse(path.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_net::inherited::InheritedSocket;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_socket_file_has_its_mode_replaces_a_stale_file_and_is_removed_with_its_listener() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        drop(UnixDatagram::bind(&path).expect("what a killed daemon leaves"));
        let (own, later) = (&mut Inherited::default(), &mut DeferredOptions::default());
        let (socket, file) = unix_datagram(&path, 0o666, 1 << 16, own, later).expect("bound");
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o666);
        assert!(matches!(unix_datagram(&path, 0o666, 1 << 16, own, later), Err(ListenError::InUse(_))));
        assert!(matches!(unix_stream(&path, 0o666, own, later), Err(ListenError::InUse(_))));
        drop((socket, file));
        assert!(!path.exists());
        std::fs::write(&path, "dear diary").expect("written");
        assert!(matches!(unix_stream(&path, 0o666, own, later), Err(ListenError::InTheWay(_))));
    }

    #[test]
    fn the_options_of_a_served_socket_change_only_after_its_successor_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (own, later) = (&mut Inherited::default(), &mut DeferredOptions::default());
        let (socket, file) = unix_datagram(&path, 0o666, 1 << 16, own, later).expect("bound");
        let shown = |path: &Path| {
            let mode = path.metadata().expect("there").permissions().mode() & 0o777;
            (mode, sockopt::socket_recv_buffer_size(&socket).expect("known"))
        };
        let before = shown(&path);
        own.add(InheritedSocket::UnixDatagram(path.clone(), socket.try_clone().expect("cloned"), file));
        let (next, _file) = unix_datagram(&path, 0o600, 1 << 15, own, later).expect("taken over");
        assert_eq!(shown(&path), before);
        std::mem::take(later).apply(Some(&next));
        assert_eq!(shown(&path), (0o600, before.1 / 2));
    }
}
