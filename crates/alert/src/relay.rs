//! The relay that takes mail, and addresses of people.

use lettre::message::Mailbox;

/// A relay: `smtp://HOST[:PORT]` or `smtps://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailRelay {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether TLS begins with the first byte.
    pub(crate) is_wrapped: bool,
}

impl MailRelay {
    /// Reads an address. The port is 25 without and 465 with TLS from the first byte.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn parse(text: &str) -> Result<MailRelay, &'static str> {
        const EXPECTED: &str = "must be an address like \"smtp://127.0.0.1:25\" or \"smtps://mail.example.org:465\"";
        let url = reqwest::Url::parse(text).map_err(|_| EXPECTED)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must have no user and no password: write `mail_user` and `mail_password_file`");
        }
        let is_wrapped = match url.scheme() {
            "smtp" => false,
            "smtps" => true,
            _ => return Err(EXPECTED),
        };
        let has_more = !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some();
        let host = url.host_str().filter(|host| !host.is_empty() && !has_more).ok_or(EXPECTED)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(MailRelay { host, port: url.port().unwrap_or(if is_wrapped { 465 } else { 25 }), is_wrapped })
    }

    /// Whether it is on this host.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// An address of a person: `ops@example.org`, or `Operations <ops@example.org>`.
///
/// # Errors
///
/// The reason.
pub fn mail_address(text: &str) -> Result<String, &'static str> {
    text.parse::<Mailbox>().map(|_| text.to_owned()).map_err(|_| "must be an address like \"ops@example.org\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_relays() {
        let relay = |host: &str, port, is_wrapped| Ok(MailRelay { host: host.into(), port, is_wrapped });
        assert_eq!(MailRelay::parse("smtp://127.0.0.1"), relay("127.0.0.1", 25, false));
        assert_eq!(MailRelay::parse("smtps://mail.example.org"), relay("mail.example.org", 465, true));
        assert_eq!(MailRelay::parse("smtp://[::1]:2525"), relay("::1", 2525, false));
        for wrong in ["127.0.0.1:25", "http://a", "smtp://u:p@a", "smtp://a/b", "smtp://", ""] {
            assert!(MailRelay::parse(wrong).is_err(), "{wrong}");
        }
        assert!(mail_address("Operations <ops@example.org>").is_ok());
        assert!(mail_address("ops").is_err());
    }
}
