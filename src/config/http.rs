//! `[http]`: the listener.

use super::section::Section;
use super::{limits, push as push_limits, secret_file};
use daytable_intake::rate_limit::SenderLimits;
use daytable_model::units::count;
use daytable_net::tls::TlsOptions;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

/// What listens over TCP, and who may read and push through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// Where.
    pub listen: Listen,
    /// What TLS needs; none where it is not spoken.
    pub tls: Option<TlsOptions>,
    /// The file of the token that reading asks for. Without one nothing is read over TCP, only over the unix socket.
    pub token_file: Option<PathBuf>,
    /// Who may push, where the configuration says so; see [`HttpConfig::pushing`].
    pub push: Option<Pushing>,
    /// The file of the credentials that pushing asks for.
    pub credentials_file: Option<PathBuf>,
    /// What each sender may push.
    pub per_sender: SenderLimits,
    /// What bounds a push.
    pub limits: daytable_intake::push::Limits,
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

/// Who may push over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushing {
    /// Whoever can connect.
    Open,
    /// Whoever has a credential, or a certificate where that is what is asked for.
    Credentials,
    /// Nobody.
    Off,
}

/// Why a listener that takes records is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NobodyIsAsked {
    /// Everybody who can reach it could push.
    #[error(
        "`listen` = \"{0}\" is beyond loopback, and nobody who pushes records is asked who he is: set `credentials_file` \
         (or `tls` with `client_ca_file`), or say what is meant: `push` = \"open\" takes records from everybody, \"off\" \
         from nobody"
    )]
    Beyond(SocketAddr),
    /// There are no credentials.
    #[error("`push` = \"credentials\" needs `credentials_file`, or `tls` with `client_ca_file`")]
    ByAnything,
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

impl FromStr for Pushing {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Pushing, &'static str> {
        match text {
            "open" => Ok(Pushing::Open),
            "credentials" => Ok(Pushing::Credentials),
            "off" => Ok(Pushing::Off),
            _ => Err("must be one of \"open\", \"credentials\", \"off\""),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> HttpConfig {
        HttpConfig {
            listen: Listen::Tcp((Ipv4Addr::LOCALHOST, 7878).into()),
            tls: None,
            token_file: None,
            push: None,
            credentials_file: None,
            per_sender: SenderLimits::default(),
            limits: daytable_intake::push::Limits::default(),
            connections_max: count(256),
        }
    }
}

impl HttpConfig {
    pub(super) fn read(mut section: Section<'_>) -> HttpConfig {
        let default = HttpConfig::default();
        let tls = section.section("tls", "tls");
        let tls = section.has("tls").then(|| super::syslog::read_tls_table(tls));
        let config = HttpConfig {
            listen: section.text("listen", str::parse).unwrap_or(default.listen),
            token_file: section.text("token_file", secret_file),
            connections_max: section.count("connections_max", default.connections_max, u16::MAX),
            per_sender: limits::read(section.section("per_sender", "per_sender")),
            push: section.text("push", str::parse),
            credentials_file: section.text("credentials_file", secret_file),
            limits: push_limits::read(&mut section),
            tls: tls.flatten(),
        };
        // What is given and wrong is said already.
        let is_wrong = (section.has("tls") && config.tls.is_none())
            || (section.has("credentials_file") && config.credentials_file.is_none())
            || (section.has("push") && config.push.is_none());
        if let Err(refused) = config.pushing()
            && !is_wrong
        {
            section.problem(refused);
        }
        section.finish();
        config
    }

    /// Who may push.
    ///
    /// # Errors
    ///
    /// Where nobody would be asked who he is, or there is nothing to ask by; each says what to set.
    pub fn pushing(&self) -> Result<Pushing, NobodyIsAsked> {
        let by_certificate = self.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
        let can_ask = self.credentials_file.is_some() || by_certificate;
        match (self.push, self.listen) {
            (Some(Pushing::Credentials), _) if !can_ask => Err(NobodyIsAsked::ByAnything),
            (Some(push), _) => Ok(push),
            (None, _) if can_ask => Ok(Pushing::Credentials),
            (None, Listen::Tcp(address)) if !address.ip().to_canonical().is_loopback() => {
                Err(NobodyIsAsked::Beyond(address))
            }
            (None, _) => Ok(Pushing::Open),
        }
    }
}
