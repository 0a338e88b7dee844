//! The credentials of a file, and which of them a request shows.
//!
//! Of tokens and passwords there are digests here and nothing else; all of a file are compared, in constant time.

use super::push_auth::{AuthRefusal, PushAuthError};
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

/// The sender that has a credential, and how it is known again.
pub(super) struct Credential {
    sender: PushSender,
    secret: CredentialDigest,
}

enum CredentialDigest {
    Bearer([u8; 32]),
    Basic([u8; 32]),
}

impl CredentialStore {
    /// Reads a file; the tables that it names are among `routes`.
    pub(super) fn read(path: &Path, routes: &Router) -> Result<CredentialStore, PushAuthError> {
        // Before it is read: what changes meanwhile is read again.
        let watch = FileWatch::new([path.to_owned()]);
        let known = CredentialStore { path: path.to_owned(), watch, credentials: Arc::new([]) };
        let credentials = known.read_again(routes)?;
        Ok(CredentialStore { credentials, ..known })
    }

    /// The credentials as they are now; an error where the file changed and cannot be used, once a change.
    pub(super) fn renew(&mut self, routes: &Router) -> Result<(), PushAuthError> {
        if self.watch.have_changed() {
            self.credentials = self.read_again(routes)?;
            tracing::info!(credentials = self.credentials.len(), "credentials were read again");
        }
        Ok(())
    }

    pub(super) fn credentials(&self) -> Arc<[Credential]> {
        self.credentials.clone()
    }

    fn read_again(&self, routes: &Router) -> Result<Arc<[Credential]>, PushAuthError> {
        let credentials = load_credentials(&self.path)?;
        file_watch::warn_if_exposed(&self.path);
        let keep = |credential: CredentialConfig| {
            let CredentialConfig { name, secret, tables, tenant } = credential;
            let only = |tables: Vec<TableName>| routes.restricted_to(&tables).ok_or(());
            let Ok(tables) = tables.map(only).transpose() else {
                return Err(PushAuthError::Table { path: self.path.clone(), name });
            };
            let secret = match secret {
                CredentialSecret::Token(digest) => CredentialDigest::Bearer(digest),
                CredentialSecret::Password(user, digest) => CredentialDigest::Basic(basic(user.as_bytes(), &digest)),
            };
            Ok(Credential { sender: PushSender::new(&name, tables, tenant.as_deref()), secret })
        };
        credentials.into_iter().map(keep).collect()
    }
}

/// Which of these made a request.
pub(super) fn identify(known: &[Credential], request: &Parts) -> Result<PushSender, AuthRefusal> {
    let mut given = request.headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return Err(if request.headers.contains_key(header::AUTHORIZATION) {
            AuthRefusal::Wrong
        } else {
            AuthRefusal::Missing
        });
    };
    let value = value.to_str().map_err(|_| AuthRefusal::Wrong)?;
    let (scheme, rest) = value.trim().split_once(' ').ok_or(AuthRefusal::Wrong)?;
    let rest = rest.trim_start();
    let given = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => CredentialDigest::Bearer(Sha256::digest(rest).into()),
        "basic" | "apikey" => {
            let pair = BASE64_STANDARD.decode(rest).map_err(|_| AuthRefusal::Wrong)?;
            let colon = pair.iter().position(|byte| *byte == b':').ok_or(AuthRefusal::Wrong)?;
            CredentialDigest::Basic(basic(&pair[..colon], &Sha256::digest(&pair[colon + 1..]).into()))
        }
        _ => return Err(AuthRefusal::Wrong),
    };
    let mut found = None;
    for kept in known {
        // Not the first that is the same: all of them are compared.
        if bool::from(kept.secret.is(&given)) {
            found = Some(kept);
        }
    }
    found.map(|kept| kept.sender.clone()).ok_or(AuthRefusal::Wrong)
}

/// What stands for a user and his password. Neither has a colon between that could be moved: users have none.
fn basic(user: &[u8], password: &[u8; 32]) -> [u8; 32] {
    Sha256::new().chain_update(user).chain_update(b":").chain_update(password).finalize().into()
}

impl CredentialDigest {
    fn is(&self, given: &CredentialDigest) -> subtle::Choice {
        match (self, given) {
            (CredentialDigest::Bearer(kept), CredentialDigest::Bearer(given))
            | (CredentialDigest::Basic(kept), CredentialDigest::Basic(given)) => kept.ct_eq(given),
            _ => 0.into(),
        }
    }
}
