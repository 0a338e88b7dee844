//! Where a host forwards to.

use reqwest::Url;
use std::net::IpAddr;
use std::path::PathBuf;

/// A receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardOptions {
    /// Its address, without a slash at its end.
    pub to: String,
    /// The file with the credential. Backends of OpenTelemetry have none, nor have hosts with a certificate.
    pub credential_file: PathBuf,
    /// The file with a code by which this host joins by itself.
    pub code_file: Option<PathBuf>,
    /// The file with the headers of a backend of OpenTelemetry.
    pub headers_file: Option<PathBuf>,
    /// Authorities of its certificate in PEM, beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The certificate that this host shows in PEM: its credential, if it has no `credential_file`.
    pub cert_file: Option<PathBuf>,
    /// The key of `cert_file` in PEM.
    pub key_file: Option<PathBuf>,
    /// Whether records may be sent without TLS to another host.
    pub allow_plain: bool,
}

impl ForwardOptions {
    /// Whether a certificate is all that this host shows.
    pub fn shows_certificate_alone(&self) -> bool {
        self.cert_file.is_some() && self.credential_file.as_os_str().is_empty()
    }
}

/// The address of a receiver: `http://` or `https://`, without user, query and fragment, and without a slash at its end.
///
/// # Errors
///
/// The reason, without the address.
pub fn receiver_address(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).map_err(|_| "must be an address like \"https://logs.example:7878\"")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("must begin with http:// or https:// and name a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must have no user and no password: `credential_file` has the credential");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Whether an address needs `allow_plain`: it has no TLS, and names another host.
pub fn is_plain(address: &str) -> bool {
    let Ok(url) = Url::parse(address) else { return false };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    url.scheme() == "http" && !is_here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_receivers() {
        assert_eq!(receiver_address("https://logs.example:7878/").as_deref(), Ok("https://logs.example:7878"));
        for wrong in ["logs:7878", "ftp://a", "http://u:p@a", "http://a/?q", "http://a/#x", "http://", ""] {
            assert!(receiver_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_this_host_needs_no_tls() {
        for (address, plain) in [
            ("http://127.0.0.1:7878", false),
            ("http://localhost:7878", false),
            ("http://[::1]:7878", false),
            ("https://logs.example", false),
            ("http://logs.example", true),
            ("http://10.0.0.7:7878", true),
            ("http://127.0.0.1.example", true),
            ("http://localhost.example", true),
        ] {
            assert_eq!(is_plain(address), plain, "{address}");
        }
    }
}
