//! Finds the connection string: in the configured file, otherwise in the environment.
//!
//! The string is read when a store is opened, so a new secret needs no restart. No error contains the string.

use daytable_azure::{AccountError, StorageAccount};
use daytable_model::path_text::PathText;
use daytable_platform::small_file;
use daytable_query::tables::TableError;
use std::path::{Path, PathBuf};

/// The environment variable, if no file is configured.
const ENVIRONMENT: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// Maximum size of the file.
const BYTES_MAX: u64 = 64 << 10;

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
    #[error("nothing says how the store is reached: set `connection_string_file` in [store], or {ENVIRONMENT}")]
    Nothing,
    /// The text is not a connection string.
    #[error("{place}: {source}")]
    ConnectionString {
        /// The file or the variable.
        place: String,
        /// The reason.
        source: AccountError,
    },
    /// The client cannot be created.
    #[error(transparent)]
    Client(#[from] TableError),
}

/// The account of the connection string in `file`; without a file, of the string in the environment.
///
/// # Errors
///
/// If there is no usable connection string.
pub fn account(file: Option<&Path>) -> Result<StorageAccount, ConnectError> {
    let (place, text) = match file {
        None => (ENVIRONMENT.to_owned(), std::env::var(ENVIRONMENT).map_err(|_| ConnectError::Nothing)?),
        Some(path) => {
            let text = small_file::read(path, BYTES_MAX);
            let text = text.map_err(|source| ConnectError::File { path: path.into(), source })?;
            (path.text().into_owned(), text)
        }
    };
    text.parse().map_err(|source| ConnectError::ConnectionString { place, source })
}
