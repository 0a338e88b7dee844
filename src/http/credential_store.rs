//! The credentials of a file, and the credential that a request shows.
//!
//! The store has digests of tokens and passwords, and never the secrets. All credentials are compared, in constant time.

use super::push_refusal::{AuthRefusal, PushAuthError};
use crate::config::{CredentialConfig, CredentialSecret, load_credentials};
use axum::http::header;
use axum::http::request::Parts;
use base64::prelude::{BASE64_STANDARD, Engine};
use daytable_intake::push::PushSender;
use daytable_intake::route::Router;
use daytable_model::key::TableName;
use daytable_platform::file_watch::{self, FileWatch};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The credentials of a file.
pub(super) struct CredentialStore {
    path: PathBuf,
    watch: FileWatch,
    credentials: Arc<[Credential]>,
}

/// A sender, and the digest that identifies it.
pub(super) struct Credential {
    sender: PushSender,
    digest: CredentialDigest,
}

enum CredentialDigest {
    Bearer([u8; 32]),
    Basic([u8; 32]),
}

impl CredentialStore {
    /// Reads a file. The tables that the file names are tables of `router`.
    pub(super) fn read(path: &Path, router: &Router) -> Result<CredentialStore, PushAuthError> {
        // The watch starts before the file is read, so a change in between is read as well.
        let watch = FileWatch::new([path.to_owned()]);
        Ok(CredentialStore { path: path.to_owned(), watch, credentials: read_file(path, router)? })
    }

    /// Reads the file again if it changed. Each change that cannot be used is reported once.
    pub(super) fn refresh(&mut self, router: &Router) -> Result<(), PushAuthError> {
        if self.watch.have_changed() {
            self.credentials = read_file(&self.path, router)?;
            tracing::info!(credentials = self.credentials.len(), "credentials were read again");
        }
        Ok(())
    }

    pub(super) fn credentials(&self) -> Arc<[Credential]> {
        self.credentials.clone()
    }
}

fn read_file(path: &Path, router: &Router) -> Result<Arc<[Credential]>, PushAuthError> {
    let configs = load_credentials(path)?;
    file_watch::warn_if_exposed(path);
    let credential = |config: CredentialConfig| {
        let CredentialConfig { name, secret, tables, tenant } = config;
        let only = |tables: Vec<TableName>| router.restricted_to(&tables).ok_or(());
        let Ok(tables) = tables.map(only).transpose() else {
            return Err(PushAuthError::Table { path: path.to_owned(), name });
        };
        let digest = match secret {
            CredentialSecret::Token(digest) => CredentialDigest::Bearer(digest),
            CredentialSecret::Password(user, digest) => CredentialDigest::Basic(basic(user.as_bytes(), &digest)),
        };
        Ok(Credential { sender: PushSender::new(&name, tables, tenant.as_deref()), digest })
    };
    configs.into_iter().map(credential).collect()
}

/// The sender whose credential a request shows.
pub(super) fn identify(credentials: &[Credential], request: &Parts) -> Result<PushSender, AuthRefusal> {
    let mut values = request.headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (None, _) => return Err(AuthRefusal::Missing),
        (Some(_), Some(_)) => return Err(AuthRefusal::Wrong),
    };
    let value = value.to_str().map_err(|_| AuthRefusal::Wrong)?;
    let (scheme, rest) = value.trim().split_once(' ').ok_or(AuthRefusal::Wrong)?;
    let rest = rest.trim_start();
    let shown = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => CredentialDigest::Bearer(Sha256::digest(rest).into()),
        "basic" | "apikey" => {
            let pair = BASE64_STANDARD.decode(rest).map_err(|_| AuthRefusal::Wrong)?;
            let colon = pair.iter().position(|byte| *byte == b':').ok_or(AuthRefusal::Wrong)?;
            CredentialDigest::Basic(basic(&pair[..colon], &Sha256::digest(&pair[colon + 1..]).into()))
        }
        _ => return Err(AuthRefusal::Wrong),
    };
    // Every credential is compared, so the time does not show which one matches.
    let matching = credentials.iter().fold(None, |matching, credential| {
        if bool::from(credential.digest.is(&shown)) { Some(credential) } else { matching }
    });
    matching.map(|credential| credential.sender.clone()).ok_or(AuthRefusal::Wrong)
}

/// The digest of a user and the digest of a password. A user contains no colon, so the pair is unambiguous.
fn basic(user: &[u8], password: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(user).chain_update(b":").chain_update(password).finalize().into()
}

impl CredentialDigest {
    fn is(&self, shown: &CredentialDigest) -> subtle::Choice {
        match (self, shown) {
            (CredentialDigest::Bearer(own), CredentialDigest::Bearer(shown))
            | (CredentialDigest::Basic(own), CredentialDigest::Basic(shown)) => own.ct_eq(shown),
            _ => 0.into(),
        }
    }
}
