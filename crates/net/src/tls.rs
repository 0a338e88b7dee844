//! TLS: certificates from files, which are read again after the files change.
//!
//! The files are checked before a handshake, at most once a second. If changed files cannot be used (for example, the
//! certificate is there before its key), daytable logs and counts that and keeps the previous certificate until the next
//! change. A key that other users can read is used all the same, with a warning.

mod der;
mod subject;
mod validity;

use daytable_model::path_text::PathText;
use daytable_platform::file_watch::{self, FileWatch};
use daytable_platform::small_file;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

pub use validity::expiry;

/// The files of a TLS listener, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The certificate of the listener, followed by its intermediate certificates.
    pub cert_file: PathBuf,
    /// The private key of the certificate.
    pub key_file: PathBuf,
    /// The authorities that sign certificates of clients. `None` means that clients need no certificate.
    pub client_ca_file: Option<PathBuf>,
}

/// How long a handshake may take.
pub const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or lacks the expected PEM block.
    #[error("{}: {source}", .path.escaped())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: pem::Error,
    },
    /// A file without a certificate.
    #[error("{}: has no certificate", .0.escaped())]
    Empty(PathBuf),
    /// Certificate and key do not match, or cannot be used.
    #[error("{}: {source}", .path.escaped())]
    Certificate {
        /// The file of the certificate.
        path: PathBuf,
        /// The cause.
        source: rustls::Error,
    },
    /// The authorities cannot be used.
    #[error("{}: {source}", .path.escaped())]
    Authority {
        /// Their file.
        path: PathBuf,
        /// The cause.
        source: VerifierBuilderError,
    },
}

/// The current certificates of a listener.
pub struct Certificates {
    listener: String,
    config: TlsOptions,
    acceptor: TlsAcceptor,
    watch: FileWatch,
}

impl Certificates {
    /// Reads the files. Log lines name `listener`.
    ///
    /// # Errors
    ///
    /// The files cannot be read or used.
    pub fn read(config: TlsOptions, listener: &str) -> Result<Certificates, TlsError> {
        let files = [Some(&config.cert_file), Some(&config.key_file), config.client_ca_file.as_ref()];
        // Before the files are read, so that a change during the read is noticed.
        let watch = FileWatch::new(files.into_iter().flatten().cloned());
        let acceptor = acceptor(&config)?;
        file_watch::warn_if_exposed(&config.key_file);
        Ok(Certificates { listener: listener.into(), config, acceptor, watch })
    }

    /// The acceptor for the next connection. Calls `failed` if changed files cannot be used.
    pub fn acceptor(&mut self, failed: impl FnOnce()) -> TlsAcceptor {
        if self.watch.have_changed() {
            let listener = &self.listener;
            match acceptor(&self.config) {
                Ok(acceptor) => {
                    self.acceptor = acceptor;
                    file_watch::warn_if_exposed(&self.config.key_file);
                    tracing::info!(listener, "certificates were read again");
                }
                Err(error) => {
                    failed();
                    tracing::warn!(listener, %error, "certificates changed and cannot be read");
                }
            }
        }
        self.acceptor.clone()
    }
}

/// The common name of the certificate that a client showed, which TLS has verified. `None` without one.
pub fn client_name<S>(stream: &tokio_rustls::server::TlsStream<S>) -> Option<String> {
    let shown = stream.get_ref().1.peer_certificates()?;
    subject::common_name(shown.first()?)
}

fn acceptor(config: &TlsOptions) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(&config.cert_file)?;
    let key = small_file::open(&config.key_file)
        .map_err(pem::Error::Io)
        .and_then(|file| PrivateKeyDer::from_pem_reader(BufReader::new(file)))
        .map_err(|source| TlsError::File { path: config.key_file.clone(), source })?;
    let provider = Arc::new(ring::default_provider());
    let unusable = |source| TlsError::Certificate { path: config.cert_file.clone(), source };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &config.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|source| TlsError::Certificate { path: path.clone(), source })?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
            builder.with_client_cert_verifier(
                verifier.map_err(|source| TlsError::Authority { path: path.clone(), source })?,
            )
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(unusable)?;
    Ok(Arc::new(config).into())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File { path: path.into(), source };
    let file = small_file::open(path).map_err(pem::Error::Io).map_err(failed)?;
    let read = CertificateDer::pem_reader_iter(BufReader::new(file));
    let certificates: Vec<_> = read.collect::<Result<_, _>>().map_err(failed)?;
    if certificates.is_empty() { Err(TlsError::Empty(path.into())) } else { Ok(certificates) }
}
