//! `[http]`: the TCP listener.

use super::key::{ConfigKey, bytes, count, duration, optional_text, table, text, whole};
use super::options::SectionOptions;
use super::section::Section;
use super::table::TableConfig;
use super::values::secret_file;
use super::{allowance, tls};
use daytable_intake::push;
use daytable_intake::rate_limit::SenderLimits;
use daytable_model::units::{self, ByteSize};
use daytable_net::tls::TlsOptions;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The minimum holds a few records, the maximum is what a machine can hold several times.
const BODY_BYTES: RangeInclusive<ByteSize> = ByteSize::new(64 << 10)..=ByteSize::new(1 << 30);
/// All bodies together.
const BODIES_BYTES: RangeInclusive<ByteSize> = ByteSize::new(64 << 10)..=ByteSize::new(64 << 30);
/// The minimum lets a slow link send a small body.
const TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// The TCP listener, and who may read and push through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpConfig {
    /// The address.
    pub listen: Listen,
    /// The files for TLS, or `None` for a listener without TLS.
    pub tls: Option<TlsOptions>,
    /// The file with the token for reading. Without a token, only the unix socket answers reads.
    pub token_file: Option<PathBuf>,
    /// The configured push access, if any; see [`HttpConfig::push_access`].
    pub push: Option<PushAccess>,
    /// The file with the credentials for pushing.
    pub credentials_file: Option<PathBuf>,
    /// The limits of each sender.
    pub per_sender: SenderLimits,
    /// The limits of a push.
    pub limits: push::PushLimits,
    /// Connections at one time; those of the unix socket do not count.
    pub connections_max: NonZeroU16,
}

/// The address of a listener, or no listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// No TCP listener.
    Off,
    /// This address and port; port 0 means a free port.
    Tcp(SocketAddr),
}

/// Who may push over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushAccess {
    /// Everyone who can connect.
    Open,
    /// Senders with a credential, or with a client certificate.
    Credentials,
    /// No sender.
    Off,
}

/// A listener that accepts records must not start, because its senders cannot be authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushAccessError {
    /// Everyone who reaches the address could push.
    #[error(
        "`listen` = \"{0}\" can be reached from other hosts, and no credentials are configured, so pushes cannot be \
         authenticated: set `credentials_file` (or `tls` with `client_ca_file`), or set `push` to \"open\" to accept records \
         from everyone, or to \"off\" to accept none"
    )]
    Unauthenticated(SocketAddr),
    /// Credentials are required, and there are none.
    #[error("`push` = \"credentials\" needs `credentials_file`, or `tls` with `client_ca_file`")]
    NoCredentials,
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

impl FromStr for PushAccess {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PushAccess, &'static str> {
        match text {
            "open" => Ok(PushAccess::Open),
            "credentials" => Ok(PushAccess::Credentials),
            "off" => Ok(PushAccess::Off),
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
            limits: push::PushLimits::default(),
            connections_max: units::count(2048),
        }
    }
}

impl SectionOptions for HttpConfig {
    const HEADER: &'static str = "[http]";
    const ABOUT: &'static str = "The listener for pushes, metrics, health and the reading API.";

    fn keys() -> Vec<ConfigKey<HttpConfig>> {
        let file = "an absolute path, or \"%d/NAME\"";
        vec![
            text("listen", "an address and a port, or \"off\"", |http: &mut HttpConfig| &mut http.listen, str::parse)
                .default("\"127.0.0.1:7878\"")
                .live(
                    "The TCP address for pushes, metrics, health and the reading API, or \"off\". The unix socket (DATA_DIR/control.sock) \
                     always listens, and everyone who can open it may do everything.",
                ),
            table(
                "tls",
                |http: &mut HttpConfig| &mut http.tls,
                || tls::keys(|tls: &mut Option<TlsOptions>| tls),
                |section, tls| tls::complete(section, tls, section.len().is_some()),
            )
            .example("{ cert_file = \"/etc/daytable/cert.pem\", key_file = \"/etc/daytable/key.pem\", client_ca_file = \"/etc/daytable/client-ca.pem\" }")
            .for_new_connections("TLS for the listener: certificate and key, and optionally the authorities of client certificates."),
            optional_text(
                "push",
                "\"open\", \"credentials\", \"off\"",
                |http: &mut HttpConfig| &mut http.push,
                str::parse,
            )
            .example("\"credentials\"")
            .live(
                "Who may push records over TCP. \"credentials\": senders with a credential of `credentials_file` (without that file, with a client certificate). \
                 \"open\": everyone who can connect. \"off\": no sender. The default is \"credentials\" where credentials are configured. Without credentials it \
                 is \"open\" on a loopback address, where every local user may write logs anyway; on any other address the daemon does not start.",
            ),
            optional_text("credentials_file", file, |http: &mut HttpConfig| &mut http.credentials_file, secret_file)
                .example("\"/etc/daytable/credentials.toml\"")
                .live(
                    "The file with the credentials of senders: bearer tokens, and users with passwords. A credential can be limited to tables or to a tenant. \
                     daytable reads a changed file again. Only the daemon should be able to read the file; a file that everyone can read is used, with a warning in the log.",
                ),
            allowance::key(|http: &mut HttpConfig| &mut http.per_sender).live(
                "Limits of each sender: a credential, or without credentials an IP address (IPv6: a /64 network). A sender above its limit \
                 gets the status 429 with Retry-After. A sender may exceed a rate by one second's worth. The daily count begins at midnight UTC, and after a restart. \
                 `connections` counts the connections of one address at one time; daytable closes any further connection.",
            ),
            bytes("body_bytes_max", |http: &mut HttpConfig| &mut http.limits.body_bytes_max, BODY_BYTES).live(
                "Bytes of the body of a push as it arrives. A larger body gets the status 413.",
            ),
            bytes("decoded_bytes_max", |http: &mut HttpConfig| &mut http.limits.decoded_bytes_max, BODY_BYTES)
                .live("Bytes of the body of a push after decompression. A larger body gets the status 413."),
            bytes("bodies_bytes_max", |http: &mut HttpConfig| &mut http.limits.bodies_bytes_max, BODIES_BYTES).live(
                "Bytes in memory for all pushes together: bodies, decompressed bodies, and their rows until the commit. Without room, a push waits for up to five seconds, in order of arrival, and then gets the status 503 with Retry-After.",
            ),
            whole("records_max", |http: &mut HttpConfig| &mut http.limits.records_max, 1..=1_000_000)
                .live("Records of one push. A push with more gets the status 413."),
            duration("body_timeout", |http: &mut HttpConfig| &mut http.limits.body_timeout, TIMEOUT).live(
                "How long the body of a push may take to arrive. A slower push gets the status 408. For the long uploads of systemd-journal-upload, the limit applies to every 16 KiB.",
            ),
            optional_text("token_file", file, |http: &mut HttpConfig| &mut http.token_file, secret_file)
                .example("\"/run/credentials/daytable.service/token\"")
                .live(
                    "A file with the token for reading (/api/*) over TCP: `Authorization: Bearer TOKEN`. Without a token, only the unix socket answers reads, \
                     because on loopback every local user could read root's logs. daytable reads a changed file again. In every key for a secret file, \"%d/NAME\" is a credential of systemd (LoadCredential=NAME:…).",
                ),
            count("connections_max", |http: &mut HttpConfig| &mut http.connections_max, u16::MAX)
                .for_new_connections(
                    "Connections at one time. A further connection waits. Then daytable closes the connection that has kept it waiting longest, \
                     for at least two seconds; else an idle connection ends after ten seconds.",
                ),
        ]
    }

    fn complete(&mut self, section: &Section<'_>, _: &[TableConfig]) {
        let limits = &self.limits;
        // A body is in memory twice: as it arrived, and decoded.
        let is_given = ["bodies_bytes_max", "decoded_bytes_max", "body_bytes_max"].iter().any(|key| section.has(key));
        if is_given && limits.bodies_bytes_max < limits.body_bytes_max.saturating_add(limits.decoded_bytes_max) {
            section.problem("`bodies_bytes_max` must be at least `body_bytes_max` and `decoded_bytes_max` together");
        }
        // A key that is given and wrong was reported already.
        let is_wrong = (section.has("tls") && self.tls.is_none())
            || (section.has("credentials_file") && self.credentials_file.is_none())
            || (section.has("push") && self.push.is_none());
        if let Err(error) = self.push_access()
            && !is_wrong
        {
            section.problem(error);
        }
    }
}

impl HttpConfig {
    /// Who may push.
    ///
    /// # Errors
    ///
    /// No credentials are configured, so senders cannot be authenticated. Each error says what to set.
    pub fn push_access(&self) -> Result<PushAccess, PushAccessError> {
        let has_client_ca = self.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
        let can_authenticate = self.credentials_file.is_some() || has_client_ca;
        match (self.push, self.listen) {
            (Some(PushAccess::Credentials), _) if !can_authenticate => Err(PushAccessError::NoCredentials),
            (Some(push), _) => Ok(push),
            (None, _) if can_authenticate => Ok(PushAccess::Credentials),
            (None, Listen::Tcp(address)) if !address.ip().to_canonical().is_loopback() => {
                Err(PushAccessError::Unauthenticated(address))
            }
            (None, _) => Ok(PushAccess::Open),
        }
    }
}
