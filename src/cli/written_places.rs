//! The places outside of this host that the daemon writes to: by whom, and whether it may. For `check` and `doctor`.

use crate::config::{AccountConfig, Config};
use crate::remote::{self, QUERY_PATIENCE, RemoteStore};
use daytable_archive::{Access, Archive, ArchiveError, ArchiveUrl, RetryPolicy};
use daytable_query::tables::TableError;
use std::collections::BTreeSet;

/// Why a place cannot be written to.
pub(super) enum Unwritten {
    /// The identity may not, or is not known.
    Denied(String),
    /// It may, and the place cannot have a table.
    Unfit(String),
    /// There is no telling.
    Untold(String),
}

/// The remote store, or a bucket of archives.
pub(super) enum WrittenPlace<'c> {
    Store(&'c AccountConfig),
    Archive(&'c ArchiveUrl, &'c Access),
}

/// A place, and by whom it is written.
pub(super) struct Writer {
    /// The name of the check.
    pub(super) kind: &'static str,
    /// The address, without secrets.
    pub(super) address: String,
    pub(super) identity: String,
    open: OpenPlace,
}

enum OpenPlace {
    Store(Box<dyn RemoteStore>),
    Archive(Box<Archive>),
}

/// All places outside of this host.
pub(super) fn written_places(config: &Config) -> Vec<WrittenPlace<'_>> {
    let store = config.store.remote().map(|remote| WrittenPlace::Store(&remote.account));
    let archives: BTreeSet<&ArchiveUrl> = config.tables.iter().filter_map(|table| table.archive.as_ref()).collect();
    let buckets = archives.into_iter().filter(|url| url.folder().is_none());
    store.into_iter().chain(buckets.map(|url| WrittenPlace::Archive(url, &config.archives))).collect()
}

impl WrittenPlace<'_> {
    /// The name of the check.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            WrittenPlace::Store(_) => "store",
            WrittenPlace::Archive(..) => "archive",
        }
    }

    /// Opens it, without a request.
    pub(super) fn writer(&self) -> Result<Writer, String> {
        let kind = self.kind();
        match self {
            WrittenPlace::Store(account) => {
                let store = remote::connect(account, QUERY_PATIENCE).map_err(|error| error.to_string())?;
                let (address, identity) = (store.endpoint().to_owned(), store.identity().to_owned());
                Ok(Writer { kind, address, identity, open: OpenPlace::Store(store) })
            }
            WrittenPlace::Archive(url, access) => {
                let unusable = |error: ArchiveError| error.to_string();
                let identity = daytable_archive::identity(url, access).map_err(unusable)?;
                let archive = Archive::open(url, access, &RetryPolicy::QUERY).map_err(unusable)?;
                let open = OpenPlace::Archive(Box::new(archive));
                Ok(Writer { kind, address: url.to_string(), identity, open })
            }
        }
    }
}

impl Writer {
    /// Whether the identity may write there, and the place can have a table, if archives are one. Nothing of it stays.
    pub(super) fn probe(&self) -> Result<(), Unwritten> {
        match &self.open {
            OpenPlace::Store(store) => store.probe_write().map_err(|error| match error {
                TableError::Denied(_) => Unwritten::Denied(error.to_string()),
                error => Unwritten::Untold(error.to_string()),
            }),
            OpenPlace::Archive(archive) => archive.probe_write().map_err(|error| match error {
                ArchiveError::Denied { .. } => Unwritten::Denied(error.to_string()),
                ArchiveError::Unfit { .. } => Unwritten::Unfit(error.to_string()),
                error => Unwritten::Untold(error.to_string()),
            }),
        }
    }
}
