//! Finds out how the account is reached: by a connection string in the configured file, otherwise in the environment; or by an
//! identity, with an address and no key.
//!
//! Secrets are read when a store is opened, and those of an identity when a token is asked for, so a new secret needs no restart.
//! No error contains one.

use super::identity::{Credentials, Identity, IdentityError, IdentityOptions};
use daytable_azure::{AccountError, StorageAccount};
use daytable_model::path_text::PathText;
use daytable_platform::small_file;
use daytable_query::tables::TableError;
use std::path::PathBuf;
use std::sync::Arc;

/// The environment variable, if no file is configured.
const ENVIRONMENT: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// Maximum size of the file.
const BYTES_MAX: u64 = 64 << 10;

/// How an account is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOptions {
    /// By a connection string, or by an identity.
    pub credentials: Credentials,
    /// The file with the connection string; `None` is the environment.
    pub connection_string_file: Option<PathBuf>,
    /// The address of the account's tables, for an identity.
    pub endpoint: Option<String>,
    /// The identity.
    pub identity: IdentityOptions,
}

/// Why the service cannot be reached with this configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", .path.escaped())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// No connection string is configured.
    #[error(
        "nothing says how the store is reached: set `connection_string_file` or `credentials` in [store], or {ENVIRONMENT}"
    )]
    Nothing,
    /// The text is not a connection string, or the address is not one of an account.
    #[error("{place}: {source}")]
    ConnectionString {
        /// The file, the variable or the key.
        place: String,
        /// The reason.
        source: AccountError,
    },
    /// An identity has no address to go to.
    #[error("`credentials` in [store] names an identity, which needs `endpoint`, the address of the account's tables")]
    Endpoint,
    /// A part of the identity is missing.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The client cannot be created.
    #[error(transparent)]
    Client(#[from] TableError),
}

/// The account of these options.
///
/// # Errors
///
/// If there is no usable connection string, or a part of the identity is missing.
pub fn account(options: &AccountOptions) -> Result<StorageAccount, ConnectError> {
    if options.credentials != Credentials::ConnectionString {
        let endpoint = options.endpoint.as_deref().ok_or(ConnectError::Endpoint)?;
        let identity = Identity::new(options.credentials, &options.identity, |name| std::env::var(name).ok())?;
        let unusable = |source| ConnectError::ConnectionString { place: "endpoint".into(), source };
        return StorageAccount::with_tokens(endpoint, Arc::new(identity)).map_err(unusable);
    }
    let (place, text) = match &options.connection_string_file {
        None => (ENVIRONMENT.to_owned(), std::env::var(ENVIRONMENT).map_err(|_| ConnectError::Nothing)?),
        Some(path) => {
            let text = small_file::read(path, BYTES_MAX);
            let text = text.map_err(|source| ConnectError::File { path: path.clone(), source })?;
            (path.text().into_owned(), text)
        }
    };
    text.parse().map_err(|source| ConnectError::ConnectionString { place, source })
}
