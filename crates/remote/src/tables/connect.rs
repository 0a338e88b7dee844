//! How the service is reached: by the connection string in the file that the configuration names, else in the environment.
//!
//! It is read when a store is opened, so that a new secret needs no restart of whoever opens one; it is in no error.

use super::AzureTables;
use crate::options::RemoteOptions;
use daytable_azure::{Account, AccountError};
use daytable_model::path_text::PathText;
use daytable_query::tables::TableError;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a connection string is looked for that no file is named for.
pub const ENVIRONMENT: &str = "AZURE_STORAGE_CONNECTION_STRING";
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
    Account {
        /// The file, or the variable.
        place: String,
        /// Why.
        source: AccountError,
    },
    /// There is no client.
    #[error(transparent)]
    Client(#[from] TableError),
}

/// The account of a connection string in a file; without one, of that in the environment.
///
/// # Errors
///
/// Where neither gives one.
pub fn account(file: Option<&Path>) -> Result<Account, ConnectError> {
    let place = || file.map_or_else(|| ENVIRONMENT.to_owned(), |path| path.text().into_owned());
    connection_string(file)?.parse().map_err(|source| ConnectError::Account { place: place(), source })
}

/// The connection string in a file; without one, that of the environment.
///
/// # Errors
///
/// Where neither has one.
pub fn connection_string(file: Option<&Path>) -> Result<String, ConnectError> {
    let Some(path) = file else { return std::env::var(ENVIRONMENT).map_err(|_| ConnectError::Nothing) };
    let failed = |source| ConnectError::File { path: path.into(), source };
    let mut text = String::new();
    let opened = std::fs::File::open(path).map_err(failed)?;
    opened.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The service that the options name.
///
/// # Errors
///
/// Where it does not say how it is reached.
pub fn connect(options: &RemoteOptions, patience: Duration) -> Result<AzureTables, ConnectError> {
    Ok(AzureTables::new(account(options.connection_string_file.as_deref())?, patience)?)
}
