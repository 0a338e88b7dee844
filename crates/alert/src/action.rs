//! The actions of a rule, beside the messages to Alertmanagers: a webhook, mail, and a program.
//!
//! `checks` checks them with their rule, so that a mistake is found when the configuration is read and not at night.

use reqwest::Url;
use std::fmt;
use std::path::PathBuf;

/// What happens when an alert of a rule begins and ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionOptions {
    /// The address that gets a POST.
    pub webhook: Option<Webhook>,
    /// A file with a bearer token for the address.
    pub webhook_token_file: Option<PathBuf>,
    /// The body, with places in braces; `None` is a JSON document of everything.
    pub webhook_body: Option<String>,
    /// Addresses of people.
    pub mail: Vec<String>,
    /// The absolute path of a program and its arguments, with places in braces.
    pub run: Vec<String>,
}

/// Where the address of a webhook is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// In the configuration.
    Address(WebhookAddress),
    /// In a file, because the address is a secret.
    File(PathBuf),
}

/// An `http://` or `https://` address. Its path may be a secret, so `Debug` and messages show the host only.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookAddress(String);

impl WebhookAddress {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// The reason, without the address.
    pub fn parse(text: &str) -> Result<WebhookAddress, &'static str> {
        let text = text.trim();
        let url = Url::parse(text).map_err(|_| "must be an address like \"https://hooks.example.org/alerts\"")?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err("must begin with http:// or https:// and name a host");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must have no user and no password: `webhook_token_file` names a file with a token");
        }
        Ok(WebhookAddress(text.to_owned()))
    }

    /// The whole address, for a request.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }

    /// Scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        Url::parse(&self.0).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
    }
}

impl fmt::Debug for WebhookAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/…", self.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_not_shown() {
        let address = WebhookAddress::parse("https://hooks.example.org:8443/T0/secret?token=1").expect("an address");
        assert_eq!(format!("{address:?}"), "https://hooks.example.org:8443/…");
        for wrong in ["hooks.example.org", "ftp://a/", "https://u:p@a/", "http://", ""] {
            assert!(WebhookAddress::parse(wrong).is_err(), "{wrong}");
        }
    }
}
