//! The address of a table's archives, as the configuration writes it.
//!
//! ```text
//! file:///var/lib/daytable/archive     a folder
//! az://container/prefix                Azure Blob Storage; the connection string names the account
//! s3://bucket/prefix                   S3, or a server that speaks its protocol
//! gs://bucket/prefix                   Google Cloud Storage
//! ```
//!
//! An address names only a place: no user, key or query. Logs, listings and errors show it, so parts that could hold
//! a secret are refused and not quoted. Nothing in it is percent-encoded.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Maximum bytes of an address.
const URL_BYTES_MAX: usize = 1024;

/// An address of archives. Equal addresses have the same text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArchiveUrl(Location);

/// The place that an [`ArchiveUrl`] names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Location {
    /// An absolute folder of this host.
    Folder(PathBuf),
    /// A part of a bucket.
    Bucket {
        /// The service.
        service: Service,
        /// The name of the bucket or container.
        bucket: String,
        /// The prefix of all object names: parts with `/` between them, or empty.
        prefix: String,
    },
}

/// The service that holds a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Service {
    /// Azure Blob Storage.
    Azure,
    /// S3.
    S3,
    /// Google Cloud Storage.
    Google,
}

impl Service {
    fn all() -> impl Iterator<Item = Service> {
        std::iter::successors(Some(Service::Azure), |service| service.next())
    }

    /// The service behind this one. A match, so that the compiler asks for the place of a further one.
    fn next(self) -> Option<Service> {
        match self {
            Service::Azure => Some(Service::S3),
            Service::S3 => Some(Service::Google),
            Service::Google => None,
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Service::Azure => "az",
            Service::S3 => "s3",
            Service::Google => "gs",
        }
    }
}

/// Why an address is invalid; each message shows a valid one and quotes nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error("must be \"file:///path\", \"az://container/prefix\", \"s3://bucket/prefix\" or \"gs://bucket/prefix\"")]
    Scheme,
    /// A `?`, `#`, `@` or `;`, which could precede a secret.
    #[error(
        "must name a location only, without user, key or query: secrets come from the files that [archives] names, or from \
         the environment"
    )]
    Secret,
    /// A folder that is not absolute, or is on another host.
    #[error("must have an absolute path behind \"file://\", like \"file:///var/lib/daytable/archive\"")]
    Relative,
    /// The root of a file system.
    #[error("must be a folder of its own, not \"/\"")]
    Root,
    /// An empty part, `.`, `..`, or a character that stores treat differently.
    #[error("must have parts of letters, digits and \"-_.=+,\" between its \"/\", none of them empty, \".\" or \"..\"")]
    ArchiveObject,
    /// Not a valid bucket name.
    #[error("must name a bucket: 3 to 63 lower-case letters, digits, \"-\", \".\" and \"_\"")]
    Bucket,
    /// Longer than 1,024 bytes.
    #[error("is longer than 1024 bytes")]
    Long,
}

impl FromStr for ArchiveUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<ArchiveUrl, UrlError> {
        if text.len() > URL_BYTES_MAX {
            return Err(UrlError::Long);
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        if text.contains(['?', '#', '@', ';']) {
            return Err(UrlError::Secret);
        }
        if scheme == "file" {
            return folder(rest).map(ArchiveUrl);
        }
        let service = Service::all().find(|service| service.scheme() == scheme).ok_or(UrlError::Scheme)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '_');
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_name) {
            return Err(UrlError::Bucket);
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.=+,".contains(c);
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(is_plain);
        if !prefix.is_empty() && !prefix.split('/').all(is_part) {
            return Err(UrlError::ArchiveObject);
        }
        Ok(ArchiveUrl(Location::Bucket { service, bucket: bucket.into(), prefix: prefix.into() }))
    }
}

fn folder(path: &str) -> Result<Location, UrlError> {
    let parts = path.strip_prefix('/').ok_or(UrlError::Relative)?;
    let parts = parts.strip_suffix('/').unwrap_or(parts);
    if parts.is_empty() {
        return Err(UrlError::Root);
    }
    // The path is used literally, so percent-encoding and backslashes are refused.
    let is_plain = |c: char| !c.is_control() && !matches!(c, '%' | '\\');
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(is_plain);
    if !parts.split('/').all(is_part) {
        return Err(UrlError::ArchiveObject);
    }
    Ok(Location::Folder(format!("/{parts}").into()))
}

impl ArchiveUrl {
    pub(super) fn location(&self) -> &Location {
        &self.0
    }

    /// The folder, if the address names one of this host.
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Location::Folder(folder) => Some(folder),
            Location::Bucket { .. } => None,
        }
    }
}

/// The text that parses to the same address.
impl fmt::Display for ArchiveUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Location::Folder(folder) => write!(f, "file://{}", folder.display()),
            Location::Bucket { service, bucket, prefix } if prefix.is_empty() => {
                write!(f, "{}://{bucket}", service.scheme())
            }
            Location::Bucket { service, bucket, prefix } => write!(f, "{}://{bucket}/{prefix}", service.scheme()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_and_what_they_are_shown_as() {
        for (text, shown) in [
            ("file:///var/lib/daytable/archive", "file:///var/lib/daytable/archive"),
            ("file:///srv/müll und mehr/", "file:///srv/müll und mehr"),
            ("az://logs", "az://logs"),
            ("az://logs/", "az://logs"),
            ("s3://my.bucket-1/a/b=c/", "s3://my.bucket-1/a/b=c"),
            ("gs://bucket_1/host-7", "gs://bucket_1/host-7"),
        ] {
            assert_eq!(text.parse::<ArchiveUrl>().expect(text).to_string(), shown);
        }
    }

    #[test]
    fn addresses_that_are_refused() {
        for (text, error) in [
            ("", UrlError::Scheme),
            ("/var/lib/archive", UrlError::Scheme),
            ("https://account.blob.core.windows.net/logs", UrlError::Scheme),
            ("S3://bucket/a", UrlError::Scheme),
            ("az://logs/a?sv=2020&sig=abc", UrlError::Secret),
            ("s3://key:secret@bucket/a", UrlError::Secret),
            ("az://logs/AccountKey=abc;x", UrlError::Secret),
            ("https://account.blob.core.windows.net/logs?sig=abc", UrlError::Secret),
            ("file://host/srv", UrlError::Relative),
            ("file://srv", UrlError::Relative),
            ("file:///", UrlError::Root),
            ("file:///srv/../etc", UrlError::ArchiveObject),
            ("file:///srv//a", UrlError::ArchiveObject),
            ("file:///srv/a%20b", UrlError::ArchiveObject),
            ("s3://bucket//a", UrlError::ArchiveObject),
            ("s3://bucket/a/./b", UrlError::ArchiveObject),
            ("s3://bucket/a b", UrlError::ArchiveObject),
            ("s3://", UrlError::Bucket),
            ("s3://B/a", UrlError::Bucket),
            ("az://$logs/a", UrlError::Bucket),
        ] {
            assert_eq!(text.parse::<ArchiveUrl>(), Err(error), "{text}");
        }
        assert_eq!(format!("s3://bucket/{}", "a".repeat(1024)).parse::<ArchiveUrl>(), Err(UrlError::Long));
    }

    proptest! {
        /// Every text is an address or is refused, and an address parses back to itself.
        #[test]
        fn shown_and_read_back(text in "(file://|az://|s3://)?[a-z/.%é ]{0,12}|\\PC{0,16}") {
            if let Ok(url) = text.parse::<ArchiveUrl>() {
                prop_assert_eq!(url.to_string().parse(), Ok(url));
            }
        }
    }
}
