//! The account: address and secret, parsed from a connection string.
//!
//! ```text
//! DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=…;EndpointSuffix=core.windows.net
//! AccountName=acme;AccountKey=…;TableEndpoint=https://acme.table.cosmos.azure.com:443/
//! TableEndpoint=https://acme.table.core.windows.net;SharedAccessSignature=sv=…&sig=…
//! UseDevelopmentStorage=true
//! ```
//!
//! An account without a key has an address and a source of tokens ([`StorageAccount::with_tokens`]).
//!
//! Key names are those of Microsoft's clients, in any case. An address with a path (`http://127.0.0.1:10002/dev`) has
//! the form of the emulator: the account is in the path, not in the host.

use super::token::{SharedTokens, TokenSource};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The emulator's account and its public key.
const DEVELOPMENT_ACCOUNT: &str = "devstoreaccount1";
const DEVELOPMENT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const DEVELOPMENT_ENDPOINT: &str = "http://127.0.0.1:10002/devstoreaccount1";

/// An account: its name, its address, its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct StorageAccount {
    pub(super) name: String,
    /// Without a trailing `/`.
    pub(super) endpoint: String,
    pub(super) secret: Secret,
    flavour: Flavour,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Secret {
    Key(Vec<u8>),
    /// Without a leading `?`.
    Sas(String),
    /// Tokens of Entra ID.
    Tokens(SharedTokens),
}

/// The service behind the address. Both services use one protocol with different limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Azure Table storage, and Azurite.
    Storage,
    /// Cosmos DB's Table API. Table names are case-sensitive, a RowKey has at most 255 bytes, query results have no
    /// order, and throttling is status 429.
    Cosmos,
}

impl Flavour {
    /// Maximum bytes of a transaction, including its framing.
    pub const fn transaction_bytes_max(self) -> usize {
        match self {
            Flavour::Storage => 4 << 20,
            // The documentation says "2 MB"; the smaller reading is safe.
            Flavour::Cosmos => 2_000_000,
        }
    }

    /// Whether a query returns the entities of a partition in the order of their RowKeys.
    pub const fn is_sorted(self) -> bool {
        matches!(self, Flavour::Storage)
    }
}

/// Why a text is not a connection string. Contains no part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each says itself what it is")]
pub enum AccountError {
    #[error("is not a connection string: pairs of NAME=VALUE with \";\" between them")]
    Form,
    #[error("has no AccountName")]
    Name,
    #[error("has neither AccountKey nor SharedAccessSignature")]
    Secret,
    #[error("has an AccountKey that is not base64")]
    Key,
    #[error("has a SharedAccessSignature that is empty, or has characters that an address cannot have")]
    Sas,
    #[error("has a TableEndpoint that is not an address of the form https://HOST or http://HOST:PORT/ACCOUNT")]
    Endpoint,
    #[error("is not an address of the form https://ACCOUNT.table.core.windows.net")]
    Address,
    #[error("begins with http://, and a token is sent to another host over https:// alone")]
    Plain,
    #[error(
        "is an address of Cosmos DB, whose tables are reached with a connection string here and not with an identity"
    )]
    Cosmos,
}

impl StorageAccount {
    /// An account that is reached with tokens of an identity, and without a key. Tokens are sent over TLS, or to this host.
    ///
    /// # Errors
    ///
    /// The address is not one of a storage account's tables, or would need TLS.
    pub fn with_tokens(endpoint: &str, source: Arc<dyn TokenSource>) -> Result<StorageAccount, AccountError> {
        let secret = Secret::Tokens(SharedTokens::new(source));
        let account = StorageAccount::new(String::new(), endpoint.trim(), secret).map_err(|_| AccountError::Address)?;
        if account.flavour == Flavour::Cosmos {
            return Err(AccountError::Cosmos);
        }
        if account.endpoint.starts_with("http://") && !is_loopback(&account.endpoint) {
            return Err(AccountError::Plain);
        }
        let (_, rest) = account.endpoint.split_once("://").unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let name = if path.is_empty() { host.split(['.', ':']).next().unwrap_or_default() } else { path };
        Ok(StorageAccount { name: name.to_owned(), ..account })
    }

    /// The credentials with which the account is reached, as a text for people. Contains no secret.
    pub fn identity(&self) -> &str {
        match &self.secret {
            Secret::Key(_) => "the key of the account",
            Secret::Sas(_) => "a shared access signature",
            Secret::Tokens(tokens) => tokens.identity(),
        }
    }

    /// The account's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the account's tables, without secrets and without a trailing `/`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The service, as far as the address tells.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }
}

impl FromStr for StorageAccount {
    type Err = AccountError;

    fn from_str(text: &str) -> Result<StorageAccount, AccountError> {
        let pairs = text.trim().split(';').map(str::trim).filter(|pair| !pair.is_empty());
        // Keys and signatures contain `=` themselves.
        let pairs: Option<Vec<(&str, &str)>> = pairs.map(|pair| pair.split_once('=')).collect();
        let pairs = pairs.filter(|pairs| !pairs.is_empty()).ok_or(AccountError::Form)?;
        let value = |name: &str| {
            let found = pairs.iter().find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
        };
        if value("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return StorageAccount::new(DEVELOPMENT_ACCOUNT.into(), DEVELOPMENT_ENDPOINT, key(DEVELOPMENT_KEY)?);
        }
        let secret = match (value("AccountKey"), value("SharedAccessSignature")) {
            (Some(text), _) => key(text)?,
            (None, Some(sas)) => sas_of(sas)?,
            (None, None) => return Err(AccountError::Secret),
        };
        let name = value("AccountName");
        let endpoint = match (value("TableEndpoint"), name) {
            (Some(endpoint), _) => endpoint.to_owned(),
            (None, Some(name)) => {
                let protocol = value("DefaultEndpointsProtocol").unwrap_or("https");
                let suffix = value("EndpointSuffix").unwrap_or("core.windows.net");
                format!("{protocol}://{name}.table.{suffix}")
            }
            (None, None) => return Err(AccountError::Name),
        };
        // A shared access signature needs no name, so the first part of the host serves as the name.
        let name = match (name, &secret) {
            (Some(name), _) => name.to_owned(),
            (None, Secret::Sas(_)) => {
                let host = endpoint.split_once("://").map_or("", |(_, rest)| rest);
                host.split(['.', '/', ':']).next().unwrap_or_default().to_owned()
            }
            (None, Secret::Key(_) | Secret::Tokens(_)) => return Err(AccountError::Name),
        };
        StorageAccount::new(name, &endpoint, secret)
    }
}

impl StorageAccount {
    fn new(name: String, endpoint: &str, secret: Secret) -> Result<StorageAccount, AccountError> {
        let endpoint = endpoint.trim_end_matches('/');
        let url = reqwest::Url::parse(endpoint).map_err(|_| AccountError::Endpoint)?;
        let has_secret = !url.username().is_empty() || url.password().is_some();
        if !matches!(url.scheme(), "http" | "https") || has_secret || url.query().is_some() || url.fragment().is_some()
        {
            return Err(AccountError::Endpoint);
        }
        let host = url.host_str().ok_or(AccountError::Endpoint)?;
        let flavour = if host.contains(".table.cosmos") { Flavour::Cosmos } else { Flavour::Storage };
        // The normalized form, so that addresses inside a transaction equal the address of the request.
        let endpoint = url.as_str().trim_end_matches('/').to_owned();
        Ok(StorageAccount { name, endpoint, secret, flavour })
    }
}

/// Whether an address is one of this host.
pub(super) fn is_loopback(endpoint: &str) -> bool {
    let url = reqwest::Url::parse(endpoint).ok();
    let host = url.as_ref().and_then(reqwest::Url::host_str).unwrap_or_default();
    host == "localhost" || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn key(base64: &str) -> Result<Secret, AccountError> {
    BASE64_STANDARD.decode(base64).map(Secret::Key).map_err(|_| AccountError::Key)
}

fn sas_of(text: &str) -> Result<Secret, AccountError> {
    let sas = text.trim_start_matches('?');
    let is_query = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'"' | b'<' | b'>');
    if sas.is_empty() || !sas.bytes().all(is_query) {
        return Err(AccountError::Sas);
    }
    Ok(Secret::Sas(sas.to_owned()))
}

impl fmt::Debug for StorageAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StorageAccount { name, endpoint, secret: _, flavour } = self;
        f.debug_struct("Account")
            .field("name", name)
            .field("endpoint", endpoint)
            .field("flavour", flavour)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn connection_strings() {
        let cosmos = "AccountName=acme;AccountKey=c2VjcmV0;TableEndpoint=https://acme.table.cosmos.azure.com:443/;";
        for (text, name, endpoint, flavour) in [
            (
                "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=c2VjcmV0;EndpointSuffix=core.chinacloudapi.cn\n",
                "acme",
                "https://acme.table.core.chinacloudapi.cn",
                Flavour::Storage,
            ),
            (
                "accountname = acme; accountkey=c2VjcmV0",
                "acme",
                "https://acme.table.core.windows.net",
                Flavour::Storage,
            ),
            (cosmos, "acme", "https://acme.table.cosmos.azure.com", Flavour::Cosmos),
            ("UseDevelopmentStorage=true", DEVELOPMENT_ACCOUNT, DEVELOPMENT_ENDPOINT, Flavour::Storage),
            (
                "AccountName=dev;AccountKey=c2VjcmV0;TableEndpoint=http://127.0.0.1:1/dev/",
                "dev",
                "http://127.0.0.1:1/dev",
                Flavour::Storage,
            ),
            (
                "TableEndpoint=https://acme.table.core.windows.net/;SharedAccessSignature=?sv=1&sig=c2VjcmV0%3D",
                "acme",
                "https://acme.table.core.windows.net",
                Flavour::Storage,
            ),
        ] {
            let account: StorageAccount = text.parse().expect(text);
            assert_eq!((account.name(), account.endpoint(), account.flavour()), (name, endpoint, flavour), "{text}");
            assert!(!format!("{account:?}").contains("secret"), "{account:?}");
            assert!(!format!("{account:?}").contains("c2VjcmV0"), "{account:?}");
        }
    }

    #[test]
    fn what_is_no_connection_string_says_why_and_nothing_of_itself() {
        for (text, error) in [
            ("", AccountError::Form),
            ("AccountName", AccountError::Form),
            ("AccountKey=c2VjcmV0", AccountError::Name),
            ("AccountName=acme", AccountError::Secret),
            ("AccountName=acme;AccountKey=", AccountError::Secret),
            ("AccountName=acme;AccountKey=secret!", AccountError::Key),
            ("AccountName=acme;SharedAccessSignature=a b", AccountError::Sas),
            ("AccountName=acme;AccountKey=c2VjcmV0;TableEndpoint=ftp://acme", AccountError::Endpoint),
            ("AccountName=acme;AccountKey=c2VjcmV0;TableEndpoint=acme", AccountError::Endpoint),
            ("AccountName=acme;AccountKey=c2VjcmV0;TableEndpoint=https://user:secret@acme", AccountError::Endpoint),
            ("AccountName=acme;AccountKey=c2VjcmV0;TableEndpoint=https://acme?sig=secret", AccountError::Endpoint),
        ] {
            assert_eq!(text.parse::<StorageAccount>(), Err(error), "{text}");
            assert!(!error.to_string().contains("c2VjcmV0"));
        }
    }

    /// A source that is never asked.
    struct Unasked;

    impl TokenSource for Unasked {
        fn identity(&self) -> &str {
            "nobody"
        }

        fn fetch(&self) -> super::super::TokenFuture<'_> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn accounts_without_a_key() {
        for (endpoint, expected) in [
            ("https://acme.table.core.windows.net/", Ok(("acme", "https://acme.table.core.windows.net"))),
            ("https://127.0.0.1:10002/dev", Ok(("dev", "https://127.0.0.1:10002/dev"))),
            ("http://127.0.0.1:10002/dev", Ok(("dev", "http://127.0.0.1:10002/dev"))),
            ("http://acme.table.core.windows.net", Err(AccountError::Plain)),
            ("https://acme.table.cosmos.azure.com", Err(AccountError::Cosmos)),
            ("acme", Err(AccountError::Address)),
            ("https://user:secret@acme.table.core.windows.net", Err(AccountError::Address)),
            ("https://acme.table.core.windows.net?sv=1", Err(AccountError::Address)),
        ] {
            let account = StorageAccount::with_tokens(endpoint, Arc::new(Unasked));
            let found = account.as_ref().map(|account| (account.name(), account.endpoint()));
            assert_eq!(found, expected.as_ref().map(|found| *found), "{endpoint}");
            assert_eq!(account.as_ref().map_or("nobody", StorageAccount::identity), "nobody");
        }
    }

    #[test]
    fn hosts_of_this_machine() {
        for (endpoint, is) in [
            ("http://127.0.0.1:10002/dev", true),
            ("http://[::1]:10002/dev", true),
            ("http://localhost:1/dev", true),
            ("https://acme.table.core.windows.net", false),
        ] {
            assert_eq!(is_loopback(endpoint), is, "{endpoint}");
        }
    }

    proptest! {
        /// No text panics as a connection string.
        #[test]
        fn any_text(text in "((AccountName|AccountKey|TableEndpoint|SharedAccessSignature|UseDevelopmentStorage)?=?(https?://|[a-z/:.?#@%]|\\PC){0,12};?){0,6}") {
            let _ = text.parse::<StorageAccount>();
        }
    }
}
