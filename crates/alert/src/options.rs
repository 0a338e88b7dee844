//! Where and how alerts are sent: options, the client of requests, and what errors show.

use crate::board::Alert;
use crate::relay::MailRelay;
use daytable_net::http_client;
use daytable_platform::error_text::with_causes;
use daytable_platform::small_file;
use reqwest::{Client, StatusCode, Url};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limits of a connection and of a request.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const REQUEST_MAX: Duration = Duration::from_secs(15);
/// Bytes of a file with a secret or a certificate.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes of an answer that an error shows.
const ANSWER_SHOWN_MAX: usize = 200;
/// The path that daytable adds to the address of a receiver.
pub(crate) const PATH: &str = "/api/v2/alerts";
/// The first pause after a failure, and the longest.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(1);
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Where alerts are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryOptions {
    /// The addresses of the receivers, without `/api/v2/alerts`.
    pub receivers: Vec<String>,
    /// A file with a bearer token, or with the password of `user`.
    pub token_file: Option<PathBuf>,
    /// The user of basic authentication.
    pub user: Option<String>,
    /// Authorities of the receivers' certificates, in PEM, beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that is shown to receivers, in PEM, with its chain, and the file of its key.
    pub cert_file: Option<PathBuf>,
    /// See `cert_file`.
    pub key_file: Option<PathBuf>,
    /// Whether a secret may be sent without TLS.
    pub allow_http: bool,
    /// The time after which an alert that lasts is sent again.
    pub resend: Duration,
    /// The address of the page, for links to the records.
    pub page_url: Option<String>,
    /// The relay that takes the mail of rules.
    pub mail_relay: Option<MailRelay>,
    /// The sender of the mail.
    pub mail_from: Option<String>,
    /// The user at the relay.
    pub mail_user: Option<String>,
    /// A file with the password of `mail_user`.
    pub mail_password_file: Option<PathBuf>,
    /// Whether rules may run programs.
    pub allow_run: bool,
}

impl Default for DeliveryOptions {
    fn default() -> DeliveryOptions {
        DeliveryOptions {
            receivers: Vec::new(),
            token_file: None,
            user: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            allow_http: false,
            resend: Duration::from_secs(60),
            page_url: None,
            mail_relay: None,
            mail_from: None,
            mail_user: None,
            mail_password_file: None,
            allow_run: false,
        }
    }
}

/// An address of a receiver: `http://` or `https://`, without user, query and fragment, and without a slash at its end.
///
/// # Errors
///
/// The reason, without the address.
pub fn receiver_address(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "must be an address like \"http://alertmanager:9093\"")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("must begin with http:// or https:// and name a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user and no password: write `user` and `token_file`");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query");
    }
    if url.path().ends_with(PATH) {
        return Err("must end before /api/v2/alerts, which daytable adds");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

impl DeliveryOptions {
    /// A client for each message: a replaced certificate has effect at once, and messages are few. The certificate of
    /// `cert_file` is shown to receivers only.
    pub(crate) fn client(&self, shows_certificate: bool) -> Result<Client, String> {
        let mut builder = http_client::client(CONNECT_MAX, REQUEST_MAX);
        if let Some(file) = &self.ca_file {
            builder = http_client::trust(builder, file, FILE_BYTES_MAX)?;
        }
        if let (true, Some(cert_file), Some(key_file)) = (shows_certificate, &self.cert_file, &self.key_file) {
            builder = http_client::show(builder, cert_file, key_file, FILE_BYTES_MAX)?;
        }
        builder.build().map_err(|error| with_causes(&error))
    }

    /// Whether a secret may be sent to an address: by TLS, or where the configuration allows it.
    pub(crate) fn may_send_secret_to(&self, address: &str) -> bool {
        address.starts_with("https://") || self.allow_http
    }
}

/// The text of a small file. Errors name the file, never its content.
pub(crate) fn read_file(path: &Path) -> Result<String, String> {
    small_file::read_named(path, FILE_BYTES_MAX)
}

/// Whether a message was accepted; `not_found` is added where the path does not exist.
pub(crate) async fn check_answer(mut response: reqwest::Response, not_found: &str) -> Result<(), String> {
    let status = response.status();
    if status.is_success() {
        return Ok(());
    }
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() >= ANSWER_SHOWN_MAX {
            break;
        }
    }
    let shown: String =
        String::from_utf8_lossy(&body).chars().filter(|c| !c.is_control()).take(ANSWER_SHOWN_MAX).collect();
    let hint = if status == StatusCode::NOT_FOUND { not_found } else { "" };
    Err(format!("the receiver answered {status}{hint}: {shown}"))
}

/// The address of the page with the records of an alert, which stays that of these records.
pub(crate) fn link(page: &str, alert: &Alert) -> String {
    let page = page.trim_end_matches('/');
    let until = alert.ends_at.map(|until| ("until", until.to_string()));
    let params = [("q", alert.records.clone()), ("since", alert.from.to_string())].into_iter().chain(until);
    Url::parse_with_params(&format!("{page}/"), params).map_or_else(|_| page.into(), String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_receivers() {
        assert_eq!(receiver_address("http://am:9093/").as_deref(), Ok("http://am:9093"));
        assert_eq!(receiver_address("https://a.example/prefix").as_deref(), Ok("https://a.example/prefix"));
        for wrong in ["am:9093", "ftp://a", "http://u:p@a", "http://a/?q", "http://a/api/v2/alerts", "http://", ""] {
            assert!(receiver_address(wrong).is_err(), "{wrong}");
        }
    }
}
