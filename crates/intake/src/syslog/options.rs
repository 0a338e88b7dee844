//! The options of a listener.

use crate::instance_template::InstanceTemplate;
use crate::rate_limit::SenderLimits;
use daytable_model::units::{ByteSize, count};
use daytable_net::tls::TlsOptions;
use daytable_parse::ParseOptions;
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A listener, and how its messages are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogOptions {
    /// The unique name in metrics.
    pub name: String,
    /// The address.
    pub listen: ListenAddress,
    /// The instance of a record. `{host}` is the peer.
    pub instance: InstanceTemplate,
    /// The formats, the zone of times without a zone, and the secrets to replace.
    pub reading: ParseOptions,
    /// A longer message is cut and marked.
    pub message_bytes_max: ByteSize,
    /// The largest number of concurrent connections.
    pub connections_max: NonZeroU16,
    /// A connection that stays idle for so long is closed. `None` keeps idle connections.
    pub idle_timeout: Option<Duration>,
    /// The receive buffer for datagrams.
    pub receive_buffer: ByteSize,
    /// The mode of the file of a unix socket.
    pub mode: u32,
    /// The certificate. `None` means no TLS.
    pub tls: Option<TlsOptions>,
    /// The limits of each peer.
    pub per_sender: SenderLimits,
}

impl SyslogOptions {
    /// A listener with default options.
    pub fn new(listen: ListenAddress) -> SyslogOptions {
        SyslogOptions {
            name: "syslog".into(),
            listen,
            instance: InstanceTemplate::of_field("host"),
            reading: ParseOptions::default(),
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

/// The address of a listener. It is displayed as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `udp://`
    Udp(SocketAddr),
    /// `tcp://`
    Tcp(SocketAddr),
    /// `tls://`: TCP with TLS.
    Tls(SocketAddr),
    /// `relp://`: RELP over TCP, or over TLS if the block has a certificate.
    Relp(SocketAddr),
    /// `unix-dgram://`
    UnixDatagram(PathBuf),
    /// `unix-stream://`
    UnixStream(PathBuf),
}

/// Why a `listen` is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddressError {
    /// The scheme is unknown.
    #[error(
        "must begin with \"udp://\", \"tcp://\", \"tls://\", \"relp://\", \"unix-dgram://\" or \"unix-stream://\", for \
         example \"udp://127.0.0.1:5514\""
    )]
    Scheme,
    /// The address or the port is missing.
    #[error("must have an IP address and a port, like \"{0}://127.0.0.1:5514\" or \"{0}://[::]:5514\"")]
    Address(&'static str),
    /// The path is not absolute, or too long.
    #[error("must have an absolute path, like \"{0}:///run/daytable/syslog\"")]
    Path(&'static str),
}

const SCHEMES: [&str; 6] = ["udp", "tcp", "tls", "relp", "unix-dgram", "unix-stream"];
/// The bytes of a unix socket's path, as the kernel limits them.
const PATH_BYTES_MAX: usize = 107;
/// The socket of an address, independent of the protocol.
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
    /// The socket. Two addresses with equal keys share one socket.
    pub fn socket_key(&self) -> SocketKey<'_> {
        match self {
            ListenAddress::Udp(at) => SocketKey::Udp(*at),
            ListenAddress::Tcp(at) | ListenAddress::Tls(at) | ListenAddress::Relp(at) => SocketKey::Tcp(*at),
            ListenAddress::UnixDatagram(path) => SocketKey::Datagram(path),
            ListenAddress::UnixStream(path) => SocketKey::Stream(path),
        }
    }

    /// The scheme, without `://`.
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
    fn addresses_are_displayed_as_they_are_written() {
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
