//! Where a listener listens, and how its messages are read.

use crate::instance_template::InstanceTemplate;
use crate::rate_limit::SenderLimits;
use daytable_model::units::{ByteSize, count};
use daytable_net::tls::TlsOptions;
use daytable_parse::Reading;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A listener and how what it takes is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogOptions {
    /// Its name among the metrics; no other block has it.
    pub name: String,
    /// Where it listens.
    pub listen: ListenAddress,
    /// How the instance of a record is named; `{host}` stands for the peer.
    pub instance: InstanceTemplate,
    /// The zone of times that name none, and the secrets that are replaced.
    pub reading: Reading,
    /// A longer message is kept up to here and marked.
    pub message_bytes_max: ByteSize,
    /// Connections at one time at most.
    pub connections_max: NonZeroU16,
    /// A connection on which nothing comes for so long is closed; none closes no quiet one.
    pub idle_timeout: Option<Duration>,
    /// What the kernel is asked to keep of datagrams that are not read yet.
    pub receive_buffer: ByteSize,
    /// Who may connect to a unix socket: the mode of its file.
    pub mode: u32,
    /// What TLS needs; none where it is not spoken.
    pub tls: Option<TlsOptions>,
    /// What each peer may send.
    pub per_sender: SenderLimits,
}

impl SyslogOptions {
    /// A listener with the defaults of everything else.
    pub fn new(listen: ListenAddress) -> SyslogOptions {
        SyslogOptions {
            name: "syslog".into(),
            listen,
            instance: InstanceTemplate::of_field("host"),
            reading: Reading::default(),
            message_bytes_max: ByteSize::new(1 << 20),
            connections_max: count(1024),
            idle_timeout: None,
            receive_buffer: ByteSize::new(16 << 20),
            mode: 0o660,
            tls: None,
            per_sender: SenderLimits::default(),
        }
    }
}

/// Where a listener listens. Shown as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `udp://`
    Udp(SocketAddr),
    /// `tcp://`
    Tcp(SocketAddr),
    /// `tls://`: TCP with TLS.
    Tls(SocketAddr),
    /// `relp://`: RELP over TCP, or over TLS where the block has a certificate.
    Relp(SocketAddr),
    /// `unix-dgram://`
    UnixDatagram(PathBuf),
    /// `unix-stream://`
    UnixStream(PathBuf),
}

/// A `listen` that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddressError {
    /// Nothing is called so.
    #[error(
        "must begin with \"udp://\", \"tcp://\", \"tls://\", \"relp://\", \"unix-dgram://\" or \"unix-stream://\", for \
         example \"udp://127.0.0.1:5514\""
    )]
    Scheme,
    /// No address and port.
    #[error("must have an IP address and a port, like \"{0}://127.0.0.1:5514\" or \"{0}://[::]:5514\"")]
    Address(&'static str),
    /// No absolute path.
    #[error("must have an absolute path, like \"{0}:///run/daytable/syslog\"")]
    Path(&'static str),
}

const SCHEMES: [&str; 6] = ["udp", "tcp", "tls", "relp", "unix-dgram", "unix-stream"];
/// Bytes of a unix socket's path that the kernel takes.
const PATH_BYTES_MAX: usize = 107;
/// The socket of an endpoint, whatever is spoken over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKey<'a> {
    /// A port for connections.
    Tcp(SocketAddr),
    /// A port for datagrams.
    Udp(SocketAddr),
    /// A path for connections.
    Stream(&'a Path),
    /// A path for datagrams.
    Datagram(&'a Path),
}

impl ListenAddress {
    /// Where it listens: two endpoints of one place have one socket.
    pub fn socket_key(&self) -> SocketKey<'_> {
        match self {
            ListenAddress::Udp(at) => SocketKey::Udp(*at),
            ListenAddress::Tcp(at) | ListenAddress::Tls(at) | ListenAddress::Relp(at) => SocketKey::Tcp(*at),
            ListenAddress::UnixDatagram(path) => SocketKey::Datagram(path),
            ListenAddress::UnixStream(path) => SocketKey::Stream(path),
        }
    }

    /// Its scheme, without `://`.
    pub fn scheme(&self) -> &'static str {
        let at = match self {
            ListenAddress::Udp(_) => 0,
            ListenAddress::Tcp(_) => 1,
            ListenAddress::Tls(_) => 2,
            ListenAddress::Relp(_) => 3,
            ListenAddress::UnixDatagram(_) => 4,
            ListenAddress::UnixStream(_) => 5,
        };
        SCHEMES[at]
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        let (scheme, rest) = text.split_once("://").ok_or(ListenAddressError::Scheme)?;
        let scheme = SCHEMES.into_iter().find(|known| *known == scheme).ok_or(ListenAddressError::Scheme)?;
        let address = || rest.parse().map_err(|_| ListenAddressError::Address(scheme));
        let path = || match rest.starts_with('/') && rest.len() <= PATH_BYTES_MAX {
            true => Ok(PathBuf::from(rest)),
            false => Err(ListenAddressError::Path(scheme)),
        };
        Ok(match scheme {
            "udp" => ListenAddress::Udp(address()?),
            "tcp" => ListenAddress::Tcp(address()?),
            "tls" => ListenAddress::Tls(address()?),
            "relp" => ListenAddress::Relp(address()?),
            "unix-dgram" => ListenAddress::UnixDatagram(path()?),
            _ => ListenAddress::UnixStream(path()?),
        })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme();
        match self {
            ListenAddress::Udp(at) | ListenAddress::Tcp(at) | ListenAddress::Tls(at) | ListenAddress::Relp(at) => {
                write!(f, "{scheme}://{at}")
            }
            ListenAddress::UnixDatagram(path) | ListenAddress::UnixStream(path) => {
                write!(f, "{scheme}://{}", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_shown_as_they_are_written() {
        for text in [
            "udp://127.0.0.1:5514",
            "tcp://[::]:514",
            "tls://192.0.2.7:6514",
            "relp://[::1]:2514",
            "unix-dgram:///dev/log",
            "unix-stream:///run/log",
        ] {
            let endpoint: ListenAddress = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), text);
            assert!(text.starts_with(endpoint.scheme()));
        }
        for (text, error) in [
            ("", ListenAddressError::Scheme),
            ("127.0.0.1:514", ListenAddressError::Scheme),
            ("http://127.0.0.1:514", ListenAddressError::Scheme),
            ("udp://127.0.0.1", ListenAddressError::Address("udp")),
            ("tcp://:514", ListenAddressError::Address("tcp")),
            ("relp://localhost:514", ListenAddressError::Address("relp")),
            ("unix-dgram://dev/log", ListenAddressError::Path("unix-dgram")),
        ] {
            assert_eq!(text.parse::<ListenAddress>(), Err(error), "{text}");
        }
        assert!(format!("unix-stream:///{}", "a".repeat(107)).parse::<ListenAddress>().is_err());
    }
}
