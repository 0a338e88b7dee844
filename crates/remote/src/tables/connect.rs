//! How the service is reached: by the connection string in the file that the configuration names, else in the environment.
//!
//! It is read when a store is opened, so that a new secret needs no restart of whoever opens one; it is in no error.

use daytable_azure::{AccountError, StorageAccount};
use daytable_model::path_text::PathText;
use daytable_query::tables::TableError;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a connection string is looked for that no file is named for.
const ENVIRONMENT: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// Bytes of a file with a connection string at most.
const BYTES_MAX: u64 = 64 << 10;

/// Why a service cannot be reached as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", .path.escaped())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Nothing says how.
    #[error("nothing says how the store is reached: set `connection_string_file` in [store], or {ENVIRONMENT}")]
    Nothing,
    /// What was found is no connection string.
    #[error("{place}: {source}")]
    ConnectionString {
        /// The file, or the variable.
        place: String,
        /// Why.
        source: AccountError,
    },
    /// There is no client.
    #[error(transparent)]
    Client(#[from] TableError),
}

/// The account of the connection string in `file`; without a file, of that in the environment.
///
/// # Errors
///
/// Where there is no usable connection string.
pub fn account(file: Option<&Path>) -> Result<StorageAccount, ConnectError> {
    let (place, text) = match file {
        None => (ENVIRONMENT.to_owned(), std::env::var(ENVIRONMENT).map_err(|_| ConnectError::Nothing)?),
        Some(path) => {
            let failed = |source| ConnectError::File { path: path.into(), source };
            let mut text = String::new();
            let file = std::fs::File::open(path).map_err(failed)?;
            file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
            (path.text().into_owned(), text)
        }
    };
    text.parse().map_err(|source| ConnectError::ConnectionString { place, source })
}
