//! `[http]`: the listener.

use super::absolute;
use super::section::Section;
use super::units::count;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

/// What listens over TCP, and who may read through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where.
    pub listen: Listen,
    /// The file of the token that reading asks for. Without one nothing is read over TCP, only over the unix socket.
    pub token_file: Option<PathBuf>,
    /// Connections at one time at most, the unix socket's not counted.
    pub connections_max: NonZeroU16,
}

/// An address, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// No listener over TCP.
    Off,
    /// This address and port; port 0 takes a free one.
    Tcp(SocketAddr),
}

impl FromStr for Listen {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Listen, &'static str> {
        match text {
            "off" => Ok(Listen::Off),
            _ => text
                .parse()
                .map(Listen::Tcp)
                .map_err(|_| "must be an address and a port, like \"127.0.0.1:7878\" or \"[::]:7878\", or \"off\""),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> HttpConfig {
        HttpConfig {
            listen: Listen::Tcp((Ipv4Addr::LOCALHOST, 7878).into()),
            token_file: None,
            connections_max: count(256),
        }
    }
}

impl HttpConfig {
    pub(super) fn read(mut section: Section<'_>) -> HttpConfig {
        let default = HttpConfig::default();
        let config = HttpConfig {
            listen: section.text("listen", str::parse).unwrap_or(default.listen),
            token_file: section.text("token_file", absolute),
            connections_max: section.count("connections_max", default.connections_max, u16::MAX),
        };
        section.finish();
        config
    }
}
