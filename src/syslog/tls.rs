//! TLS: certificates from files, read again when the files change.
//!
//! Before a handshake, once a second at most, the files are looked at. What changed and cannot be used (a certificate that
//! is there before its key is) is said and counted, and what was used before stays in use until the next change.

use super::counters::ListenerCounters;
use crate::config::TlsConfig;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM of what it should be.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// A file without a certificate.
    #[error("{0}: has no certificate")]
    Empty(PathBuf),
    /// Certificate and key do not go with each other, or are none that can be used.
    #[error("{path}: {source}")]
    Certificate {
        /// The file of the certificate.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// Authorities that cannot be used.
    #[error("{path}: {source}")]
    Authority {
        /// Their file.
        path: PathBuf,
        /// Why.
        source: VerifierBuilderError,
    },
}

/// The certificates of a listener, as they are now.
pub(super) struct Certificates {
    config: TlsConfig,
    acceptor: TlsAcceptor,
    facts: Facts,
    looked: Instant,
}

/// Device, inode, size and time of change of each file, where it is there.
type Facts = Vec<Option<(u64, u64, u64, i64, i64)>>;

impl Certificates {
    pub(super) fn read(config: TlsConfig) -> Result<Certificates, TlsError> {
        // Before they are read: what changes meanwhile is read again.
        let facts = facts(&config);
        let acceptor = acceptor(&config)?;
        Ok(Certificates { config, acceptor, facts, looked: Instant::now() })
    }

    /// What the next connection is accepted with.
    pub(super) fn acceptor(&mut self, counters: &ListenerCounters) -> TlsAcceptor {
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            let now = facts(&self.config);
            if now != self.facts {
                self.facts = now;
                match acceptor(&self.config) {
                    Ok(acceptor) => {
                        self.acceptor = acceptor;
                        tracing::info!(listener = counters.name, "certificates were read again");
                    }
                    Err(error) => {
                        count(&counters.reloads_failed, 1);
                        tracing::warn!(listener = counters.name, %error, "certificates changed and cannot be read");
                    }
                }
            }
        }
        self.acceptor.clone()
    }
}

fn facts(config: &TlsConfig) -> Facts {
    let files = [Some(&config.cert_file), Some(&config.key_file), config.client_ca_file.as_ref()];
    let facts = |path: &PathBuf| {
        let file = path.metadata().ok()?;
        Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
    };
    files.into_iter().flatten().map(facts).collect()
}

fn acceptor(config: &TlsConfig) -> Result<TlsAcceptor, TlsError> {
    let chain = certificates(&config.cert_file)?;
    let key = PrivateKeyDer::from_pem_file(&config.key_file)
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
    let read = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let certificates: Vec<_> = read.collect::<Result<_, _>>().map_err(failed)?;
    if certificates.is_empty() { Err(TlsError::Empty(path.into())) } else { Ok(certificates) }
}
