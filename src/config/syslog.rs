//! `[[syslog]]`: where messages of other programs and hosts come in.

use super::section::{Report, Section};
use super::tail::block_name;
use super::template::InstanceTemplate;
use super::units::{ByteSize, count};
use super::{TailConfig, limits, reading, secret_file};
use crate::fair::Allowance;
use crate::parse::{Reading, Zone};
use crate::redact::{Redaction, Redactor};
use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A listener and how what it takes is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyslogConfig {
    /// Its name among the metrics; no other block has it.
    pub name: String,
    /// Where it listens.
    pub listen: Endpoint,
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
    pub tls: Option<TlsConfig>,
    /// What each peer may send.
    pub per_sender: Allowance,
}

/// The files of a TLS listener, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Its certificate, and those between it and a known authority.
    pub cert_file: PathBuf,
    /// The key of its certificate.
    pub key_file: PathBuf,
    /// The authorities one of which has to have signed a client's certificate; none asks clients for nothing.
    pub client_ca_file: Option<PathBuf>,
}

/// Where a listener listens. Shown as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
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
pub enum EndpointError {
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
/// A message is a row or few: what a line may have.
const MESSAGE_BYTES: RangeInclusive<ByteSize> = ByteSize::new(1 << 10)..=ByteSize::new(2 << 20);
const RECEIVE_BUFFER: RangeInclusive<ByteSize> = ByteSize::new(64 << 10)..=ByteSize::new(1 << 30);

/// The socket of an endpoint, whatever is spoken over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A port for connections.
    Tcp(SocketAddr),
    /// A port for datagrams.
    Udp(SocketAddr),
    /// A path for connections.
    Stream(&'a Path),
    /// A path for datagrams.
    Datagram(&'a Path),
}

impl Endpoint {
    /// Where it listens: two endpoints of one place have one socket.
    pub fn place(&self) -> Place<'_> {
        match self {
            Endpoint::Udp(at) => Place::Udp(*at),
            Endpoint::Tcp(at) | Endpoint::Tls(at) | Endpoint::Relp(at) => Place::Tcp(*at),
            Endpoint::UnixDatagram(path) => Place::Datagram(path),
            Endpoint::UnixStream(path) => Place::Stream(path),
        }
    }

    /// Its scheme, without `://`.
    pub fn scheme(&self) -> &'static str {
        let at = match self {
            Endpoint::Udp(_) => 0,
            Endpoint::Tcp(_) => 1,
            Endpoint::Tls(_) => 2,
            Endpoint::Relp(_) => 3,
            Endpoint::UnixDatagram(_) => 4,
            Endpoint::UnixStream(_) => 5,
        };
        SCHEMES[at]
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Endpoint, EndpointError> {
        let (scheme, rest) = text.split_once("://").ok_or(EndpointError::Scheme)?;
        let scheme = SCHEMES.into_iter().find(|known| *known == scheme).ok_or(EndpointError::Scheme)?;
        let address = || rest.parse().map_err(|_| EndpointError::Address(scheme));
        let path = || match rest.starts_with('/') && rest.len() <= PATH_BYTES_MAX {
            true => Ok(PathBuf::from(rest)),
            false => Err(EndpointError::Path(scheme)),
        };
        Ok(match scheme {
            "udp" => Endpoint::Udp(address()?),
            "tcp" => Endpoint::Tcp(address()?),
            "tls" => Endpoint::Tls(address()?),
            "relp" => Endpoint::Relp(address()?),
            "unix-dgram" => Endpoint::UnixDatagram(path()?),
            _ => Endpoint::UnixStream(path()?),
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme();
        match self {
            Endpoint::Udp(at) | Endpoint::Tcp(at) | Endpoint::Tls(at) | Endpoint::Relp(at) => {
                write!(f, "{scheme}://{at}")
            }
            Endpoint::UnixDatagram(path) | Endpoint::UnixStream(path) => write!(f, "{scheme}://{}", path.display()),
        }
    }
}

impl SyslogConfig {
    /// A listener with the defaults of everything else.
    pub fn new(listen: Endpoint) -> SyslogConfig {
        SyslogConfig {
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
            per_sender: Allowance::default(),
        }
    }

    /// All of them. One without a name is called `syslog`, the next such one `syslog-2`; `tails` have names already,
    /// and `redact` are the patterns of the whole configuration.
    pub(super) fn read_all(
        sections: Vec<Section<'_>>,
        report: &Report<'_>,
        redact: &[Redaction],
        tails: &[TailConfig],
    ) -> Vec<SyslogConfig> {
        let mut blocks: Vec<SyslogConfig> = Vec::new();
        let mut unnamed = 0;
        for section in sections {
            let at = section.at();
            let mut next_name = || {
                unnamed += 1;
                if unnamed == 1 { "syslog".into() } else { format!("syslog-{unnamed}") }
            };
            let Some(block) = SyslogConfig::read(section, &mut next_name, redact) else { continue };
            let mut names = blocks.iter().map(|other| &other.name).chain(tails.iter().map(|tail| &tail.name));
            if names.any(|name| *name == block.name) {
                report.add(at, format!("[[syslog]]: two blocks are called {:?}; give this one a name", block.name));
            }
            blocks.push(block);
        }
        blocks
    }

    fn read(
        mut section: Section<'_>,
        next_name: &mut dyn FnMut() -> String,
        redact: &[Redaction],
    ) -> Option<SyslogConfig> {
        let listen = section.text("listen", str::parse::<Endpoint>);
        section.require("listen", "listen = \"udp://127.0.0.1:5514\"");
        let default = SyslogConfig::new(listen.clone().unwrap_or(Endpoint::UnixDatagram(PathBuf::new())));
        let config = SyslogConfig {
            name: section.text("name", block_name).unwrap_or_else(next_name),
            instance: section.text("instance", str::parse).unwrap_or(default.instance),
            reading: Reading {
                zone: section.text("zone", str::parse::<Zone>).unwrap_or_default(),
                redactor: {
                    let own = reading::read_redact(&mut section, redact.len());
                    Redactor::new(redact.iter().cloned().chain(own))
                },
                ..Reading::default()
            },
            message_bytes_max: section.size("message_bytes_max", default.message_bytes_max, MESSAGE_BYTES),
            connections_max: section.count("connections_max", default.connections_max, u16::MAX),
            idle_timeout: section.duration_or_off("idle_timeout"),
            receive_buffer: section.size("receive_buffer", default.receive_buffer, RECEIVE_BUFFER),
            mode: section.text("mode", mode).unwrap_or(default.mode),
            tls: TlsConfig::read(&mut section, listen.as_ref()),
            per_sender: limits::read(section.section("per_sender", "per_sender")),
            listen: default.listen,
        };
        config.refuse_what_has_no_meaning(&section);
        section.finish();
        listen.map(|_| config)
    }

    /// A key that changes nothing is a mistake: whoever wrote it believes that it does.
    fn refuse_what_has_no_meaning(&self, section: &Section<'_>) {
        let is_datagram = matches!(self.listen, Endpoint::Udp(_) | Endpoint::UnixDatagram(_));
        if is_datagram && self.per_sender.connections.is_some() {
            section.problem("`per_sender.connections` belongs to listeners with connections");
        }
        let is_unix = matches!(self.listen, Endpoint::UnixDatagram(_) | Endpoint::UnixStream(_));
        for (key, has_meaning, belongs_to) in [
            ("connections_max", !is_datagram, "listeners with connections"),
            ("idle_timeout", !is_datagram, "listeners with connections"),
            ("receive_buffer", is_datagram, "\"udp://\" and \"unix-dgram://\""),
            ("mode", is_unix, "\"unix-dgram://\" and \"unix-stream://\""),
        ] {
            if section.has(key) && section.has("listen") && !has_meaning {
                section.problem(format_args!("`{key}` belongs to {belongs_to}"));
            }
        }
    }
}

impl TlsConfig {
    /// The table `tls = { … }` of another listener.
    pub(super) fn read_table(mut section: Section<'_>) -> Option<TlsConfig> {
        let tls = TlsConfig::read_keys(&mut section, true);
        section.finish();
        tls
    }

    fn read_keys(section: &mut Section<'_>, is_wanted: bool) -> Option<TlsConfig> {
        let cert_file = section.text("cert_file", secret_file);
        let key_file = section.text("key_file", secret_file);
        let client_ca_file = section.text("client_ca_file", secret_file);
        if is_wanted {
            section.require("cert_file", "cert_file = \"/etc/daytable/cert.pem\"");
            section.require("key_file", "key_file = \"/etc/daytable/key.pem\"");
        }
        Some(TlsConfig { cert_file: cert_file?, key_file: key_file?, client_ca_file })
    }

    fn read(section: &mut Section<'_>, listen: Option<&Endpoint>) -> Option<TlsConfig> {
        let given = ["cert_file", "key_file", "client_ca_file"].into_iter().find(|key| section.has(key));
        let (may_have, must_have) = match listen {
            Some(Endpoint::Tls(_)) => (true, true),
            Some(Endpoint::Relp(_)) | None => (true, false),
            Some(_) => (false, false),
        };
        if let Some(key) = given.filter(|_| !may_have) {
            section.problem(format_args!("`{key}` belongs to \"tls://\" and \"relp://\""));
        }
        let is_wanted = must_have || (may_have && given.is_some());
        TlsConfig::read_keys(section, is_wanted).filter(|_| is_wanted)
    }
}

fn mode(text: &str) -> Result<u32, &'static str> {
    let digits = text.len() <= 4 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= 0o777);
    mode.ok_or("must be the mode of a file in octal, like \"0660\" or \"0666\"")
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
            let endpoint: Endpoint = text.parse().expect(text);
            assert_eq!(endpoint.to_string(), text);
            assert!(text.starts_with(endpoint.scheme()));
        }
        for (text, error) in [
            ("", EndpointError::Scheme),
            ("127.0.0.1:514", EndpointError::Scheme),
            ("http://127.0.0.1:514", EndpointError::Scheme),
            ("udp://127.0.0.1", EndpointError::Address("udp")),
            ("tcp://:514", EndpointError::Address("tcp")),
            ("relp://localhost:514", EndpointError::Address("relp")),
            ("unix-dgram://dev/log", EndpointError::Path("unix-dgram")),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(error), "{text}");
        }
        assert!(format!("unix-stream:///{}", "a".repeat(107)).parse::<Endpoint>().is_err());
    }

    #[test]
    fn modes() {
        assert_eq!((mode("0666"), mode("600"), mode("0")), (Ok(0o666), Ok(0o600), Ok(0)));
        for text in ["", "0888", "1777", "+660", "rw-rw----", "00660"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
