//! The sockets: a TCP port, with or without TLS, the control socket in the data folder, and the socket of readers.

use daytable_model::path_text::PathText;
use daytable_net::tls::TlsOptions;
use daytable_net::tls::{Certificates, TlsError};
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::{Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 256;

/// A bound listener.
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A port with TLS.
    Tls(TcpListener, Certificates),
    /// The control socket.
    Unix(ControlSocket),
    /// The socket of `read_group`, which answers questions and changes nothing.
    Readers(ControlSocket),
}

/// A unix socket of its owner, or of its owner and a group. The socket removes its file when dropped.
pub struct ControlSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file, so that the file of a later socket stays.
    file: (u64, u64),
}

/// Why a listener cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{} is in use: another process answers there", .0.escaped())]
    InUse(PathBuf),
    /// A file that is not a socket is in the way.
    #[error("{} exists and is not a socket: move the file, or choose another path", .0.escaped())]
    InTheWay(PathBuf),
    /// Others could put a socket of their own in the place of this one.
    #[error("{} can be written by others: choose a folder of the daemon's, such as /run/daytable", .0.escaped())]
    Shared(PathBuf),
    /// The operating system refuses.
    #[error("{at}: {source}")]
    Io {
        /// The address or path.
        at: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Listener {
    /// Binds `address`, a host or an IP address with a port.
    pub async fn tcp(address: &str) -> Result<Listener, BindError> {
        TcpListener::bind(address)
            .await
            .map(Listener::Tcp)
            .map_err(|source| BindError::Io { at: address.into(), source })
    }

    /// A listener over a port that is bound already. Within a runtime.
    pub fn from_std(listener: std::net::TcpListener) -> Result<Listener, BindError> {
        let at = listener.local_addr().map_or_else(|_| "a port".to_owned(), |at| at.to_string());
        let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
        listener.map(Listener::Tcp).map_err(|source| BindError::Io { at, source })
    }

    /// Adds TLS to a port, and reads the certificates.
    ///
    /// # Errors
    ///
    /// The certificates cannot be used.
    pub fn with_tls(self, config: TlsOptions) -> Result<Listener, TlsError> {
        let certificates = Certificates::read(config, "http")?;
        Ok(match self {
            Listener::Tcp(listener) => Listener::Tls(listener, certificates),
            other => other,
        })
    }

    /// Binds the control socket at `path`, and replaces the socket file of a killed daemon. The caller holds the lock of the
    /// data folder, so no other daemon is about to listen there.
    pub fn unix(path: &Path) -> Result<Listener, BindError> {
        clear(path)?;
        let failed = |source| BindError::Io { at: path.text().into_owned(), source };
        let (listener, file) = listen_private(path).map_err(failed)?;
        Ok(Listener::Unix(ControlSocket { listener, path: path.to_owned(), file }))
    }

    /// Binds the socket of readers at `path`, for the members of the group with this number, and replaces the socket file of a
    /// killed daemon.
    pub fn readers(path: &Path, group: u32) -> Result<Listener, BindError> {
        let failed = |source| BindError::Io { at: path.text().into_owned(), source };
        // Between the making of the file and the change of its group nobody else may replace it.
        let folder = path.parent().unwrap_or(Path::new("/"));
        if folder.metadata().map_err(failed)?.mode() & 0o022 != 0 {
            return Err(BindError::Shared(folder.into()));
        }
        clear(path)?;
        let (listener, file) = listen_private(path).map_err(failed)?;
        let socket = ControlSocket { listener, path: path.to_owned(), file };
        std::os::unix::fs::lchown(path, None, Some(group)).map_err(failed)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
        Ok(Listener::Readers(socket))
    }

    /// The address of a port, for example if the operating system chose the port.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener, _) => listener.local_addr().ok(),
            Listener::Unix(_) | Listener::Readers(_) => None,
        }
    }
}

/// Removes the socket file of a process that has ended.
fn clear(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::Io { at: path.text().into_owned(), source };
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(there) if !there.file_type().is_socket() => return Err(BindError::InTheWay(path.into())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(BindError::InUse(path.into())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

/// Sets the mode before the file exists, so that no other user can connect at any time.
fn listen_private(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    let listener = UnixListener::from_std(StdUnixListener::from(socket))?;
    Ok((listener, identity(&path.symlink_metadata()?)))
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|file| identity(&file) == self.file) {
            // A file that stays is harmless: the next daemon removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(path: &Path) -> Listener {
        Listener::unix(path).expect("bound")
    }

    #[tokio::test]
    async fn only_the_owner_can_connect_and_the_listener_removes_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let listener = bound(&path);
        assert_eq!(path.metadata().expect("there").permissions().mode() & 0o777, 0o600);
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn the_group_can_connect_to_the_socket_of_readers_and_its_folder_is_the_daemons_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("read.sock");
        let group = folder.path().metadata().expect("there").gid();
        let listener = Listener::readers(&path, group).expect("bound");
        let file = path.metadata().expect("there");
        assert_eq!((file.permissions().mode() & 0o777, file.gid()), (0o660, group));
        UnixStream::connect(&path).expect("it answers");
        drop(listener);
        assert!(!path.exists());
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("set");
        assert!(matches!(Listener::readers(&path, group), Err(BindError::Shared(_))));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        drop(StdUnixListener::bind(&path).expect("what a killed daemon leaves"));
        assert!(path.exists());
        let _listener = bound(&path);
        UnixStream::connect(&path).expect("the new socket answers");
    }

    #[tokio::test]
    async fn a_live_socket_and_another_file_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let _alive = bound(&path);
        assert!(matches!(Listener::unix(&path), Err(BindError::InUse(_))));
        UnixStream::connect(&path).expect("the first still answers");

        let file = folder.path().join("notes.txt");
        std::fs::write(&file, "dear diary").expect("written");
        assert!(matches!(Listener::unix(&file), Err(BindError::InTheWay(_))));
        assert_eq!(std::fs::read(&file).expect("still there"), b"dear diary");
    }

    #[tokio::test]
    async fn a_late_listener_keeps_the_file_of_its_successor() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("control.sock");
        let first = bound(&path);
        std::fs::remove_file(&path).expect("removed by hand");
        let _second = bound(&path);
        drop(first);
        UnixStream::connect(&path).expect("the second answers");
    }

    #[tokio::test]
    async fn an_error_names_a_port_in_use() {
        let first = Listener::tcp("127.0.0.1:0").await.expect("bound");
        let address = first.tcp_address().expect("a port").to_string();
        let error = Listener::tcp(&address).await.err().expect("taken");
        assert!(error.to_string().starts_with(&address), "{error}");
    }
}
