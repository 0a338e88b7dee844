//! Why the daemon ends.

use crate::http::{BindError, PushAuthError, ReadTokenError};
use crate::remote::RemoteError;
use daytable_intake::source::SourceError;
use daytable_net::inherited::ActivationError;
use daytable_net::tls::TlsError;
use daytable_store::StoreError;

/// Why the daemon ended, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The data folder cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sockets of the service manager do not fit the configuration.
    #[error("failed to listen: {0}")]
    Activation(#[from] ActivationError),
    /// A listener cannot be bound.
    #[error("failed to listen: {0}")]
    Bind(#[from] BindError),
    /// A source cannot be started.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The token for reading cannot be read.
    #[error("failed to read http.token_file: {0}")]
    ReadToken(#[from] ReadTokenError),
    /// The token of a tenant cannot be read.
    #[error("failed to read the token_file of a [[tenant]]: {0}")]
    TenantToken(ReadTokenError),
    /// Pushes cannot be authenticated.
    #[error("failed to set up the authentication of pushes: {0}")]
    PushAuth(#[from] PushAuthError),
    /// The certificates of the HTTP listener cannot be used.
    #[error("failed to read http.tls: {0}")]
    Tls(#[from] TlsError),
    /// The certificates of a block cannot be used.
    #[error("failed to read the certificates of {block}: {error}")]
    BlockTls {
        /// The block, by its header and name.
        block: String,
        /// Why.
        error: TlsError,
    },
    /// The remote store cannot be used.
    #[error("failed to reach the remote store: {0}")]
    Remote(#[from] RemoteError),
    /// A thread cannot be started, or a signal cannot be handled.
    #[error("failed to start: {0}")]
    Start(#[from] std::io::Error),
    /// A thread that the daemon needs has ended.
    #[error(
        "a thread that commits, follows files, reads a journal or listens ended by a fault of daytable: start it again, and it goes on from the last commit"
    )]
    Died,
}
