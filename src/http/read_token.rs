//! The token for reading over TCP: a bearer token (RFC 6750), or the password of basic authentication (RFC 7617).

use axum::http::{HeaderMap, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use daytable_model::path_text::PathText;
use daytable_platform::file_watch::{self, FileWatch};
use daytable_platform::{lock, small_file};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use subtle::ConstantTimeEq;

/// A bearer token. The daemon keeps only its SHA-256 and compares digests in constant time, so the time of a refusal shows
/// neither the bytes nor the length of the token.
#[derive(Clone)]
pub struct ReadToken([u8; 32]);

/// Why a token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadTokenError {
    /// The token is empty, or has characters that a header cannot contain.
    #[error("the token must be one word of printable ASCII")]
    Malformed,
    /// The file of the token cannot be read.
    #[error("{}: {source}", .path.escaped())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

impl ReadToken {
    /// A token. White space around it, such as a final newline, is ignored.
    pub fn new(text: &str) -> Result<ReadToken, ReadTokenError> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ReadTokenError::Malformed);
        }
        Ok(ReadToken(digest(text)))
    }

    /// Reads the token from a file.
    pub fn read(path: &Path) -> Result<ReadToken, ReadTokenError> {
        let text = small_file::open(path)
            .and_then(std::io::read_to_string)
            .map_err(|source| ReadTokenError::Unreadable { path: path.to_owned(), source })?;
        file_watch::warn_if_exposed(path);
        ReadToken::new(&text)
    }

    /// Whether `headers` carry this token.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(given) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
            return false;
        };
        match given.trim().split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                digest(token.trim_start()).ct_eq(&self.0).into()
            }
            // Grafana's data sources offer a password. Any user has it.
            Some((scheme, credentials)) if scheme.eq_ignore_ascii_case("basic") => {
                let decoded = STANDARD.decode(credentials.trim_start()).unwrap_or_default();
                let decoded = String::from_utf8(decoded).unwrap_or_default();
                decoded.split_once(':').is_some_and(|(_, password)| digest(password).ct_eq(&self.0).into())
            }
            _ => false,
        }
    }
}

/// The token of a file, which is read again after the file changes. A file that cannot be used is reported once, and the token
/// before stays.
pub struct ReadTokenFile(Mutex<WatchedToken>);

struct WatchedToken {
    path: PathBuf,
    watch: FileWatch,
    token: ReadToken,
}

impl ReadTokenFile {
    /// Reads the token, and begins to watch its file.
    pub fn open(path: &Path) -> Result<ReadTokenFile, ReadTokenError> {
        // The watch starts before the file is read, so a change in between is read as well.
        let watch = FileWatch::new([path.to_owned()]);
        Ok(ReadTokenFile(Mutex::new(WatchedToken { path: path.to_owned(), watch, token: ReadToken::read(path)? })))
    }

    /// A token whose file does not exist.
    #[cfg(test)]
    pub(super) fn without_file(token: ReadToken) -> ReadTokenFile {
        let (path, watch) = (PathBuf::new(), FileWatch::new([]));
        ReadTokenFile(Mutex::new(WatchedToken { path, watch, token }))
    }

    /// The token at present.
    pub fn token(&self) -> ReadToken {
        let watched = &mut *lock(&self.0);
        if watched.watch.have_changed() {
            let file = watched.path.escaped().to_string();
            match ReadToken::read(&watched.path) {
                Ok(token) => {
                    watched.token = token;
                    tracing::info!(file, "a token for reading was read again");
                }
                Err(error) => tracing::error!(file, %error, "failed to read a token again: the token before stays"),
            }
        }
        watched.token.clone()
    }
}

/// Compares digests in constant time.
impl PartialEq for ReadToken {
    fn eq(&self, other: &ReadToken) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

pub(super) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carries(token: &ReadToken, value: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
        token.is_in(&headers)
    }

    #[test]
    fn only_the_whole_token_after_its_scheme_passes() {
        let token = ReadToken::new("s3cret\n").expect("a token");
        for right in
            ["Bearer s3cret", "bearer s3cret", "BEARER   s3cret", "Basic YW5uOnMzY3JldA==", "basic OnMzY3JldA=="]
        {
            assert!(carries(&token, right), "{right}");
        }
        for wrong in [
            "s3cret",
            "Basic s3cret",
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Bearer s3crett",
            "Bearer s3cret x",
            "Basic YW5uOnM=",
            "Basic s3cret",
        ] {
            assert!(!carries(&token, wrong), "{wrong}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }

    #[test]
    fn an_empty_file_and_a_sentence_are_refused() {
        for text in ["", " \n", "two words", "grün"] {
            assert!(ReadToken::new(text).is_err(), "{text:?}");
        }
        let error = ReadToken::read(Path::new("/nowhere/token")).err().expect("no such file");
        assert!(error.to_string().starts_with("/nowhere/token: "), "{error}");
    }
}
