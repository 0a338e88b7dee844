//! Archives: verified copies of sealed days in another place, and reading them back.
//!
//! An archive is a sealed day's Parquet file and its manifest in a folder, in Azure Blob Storage, in S3 or in Google
//! Cloud Storage ([`url`]). The names of both contain the day, the host, its daytable and the generation (`names`). The manifest is written
//! last, after the file was read back whole and matched by length and SHA-256: **a file without a manifest is not an
//! archive**. A kill at any line therefore leaves nothing that looks like an archive, and the next run replaces what
//! the kill left.
//!
//! ```text
//! put:  manifest there? ──same──► read back ──► Proof            nothing is sent twice
//!            │ no
//!            ▼
//!       upload 8 MiB parts ──► read back, length and SHA-256 ──► manifest ──► read back ──► still the same? ──► Proof
//! ```
//!
//! A [`Proof`] permits the removal of a day that must be archived first. Only [`Archive::put`] and [`Archive::prove`]
//! make one. A store that fails, is slow, or misreports what it stored costs a retry, never a day.
//!
//! * [`Archive::put`], [`Archive::prove`]: archive a day; read an archive again to its last byte.
//! * [`Archive::list`]: the archives that exist, and objects that only resemble one.
//! * [`Archive::fetch`], [`Archive::reader`]: a whole file, verified while it is written; some ranges of it for a
//!   query.
//! * [`Archive::drop_archive`]: removes an archive, its manifest first.
//! * [`lake`]: the archives of all hosts at an address, to be read without a data folder.
//! * `delta_table`: archives as a table that other engines read; `store_checks`: whether a place can have one. [`open_days`]: parts of open days in it.
//! * [`access`]: credentials and clients of the stores. [`reader`]: ranges of an archive, for a query. [`error`]: the
//!   errors.
//!
//! Calls block: they run on threads of their own, never in a task of a runtime. Their memory does not depend on the
//! size of a day. Days of many daytables lie side by side at one address: each has names of its own, and leaves those of
//! others untouched.
//!
//! Left out on purpose: encryption and compression (Parquet is compressed; stores encrypt), and the removal of
//! unfinished multipart uploads. Only the store knows those; a bucket rule ends them
//! (`AbortIncompleteMultipartUpload`; Azure does so by itself after a week).

pub mod access;
pub mod error;
mod delta_table;
mod fetch;
mod folder;
mod identity;
pub mod lake;
mod list;
mod names;
pub mod open_days;
mod put;
pub mod reader;
mod store_checks;
pub mod url;

pub use access::{Access, RetryPolicy};
pub use delta_table::{REMOVED_FILE_GRACE, TableFormat, are_named};
pub use error::ArchiveError;
pub use identity::identity;
pub use lake::{Lake, LakeCache, LakeFile, LakeTraffic, LeftOutArchive};
pub use list::{FaultyArchive, Listing};
pub use open_days::{DayChange, OpenDayPart, OpenDays, PublishedChange, UploadedPart};
pub use put::Proof;
pub use reader::ArchiveReader;
pub use url::{ArchiveUrl, UrlError};

use bytes::Bytes;
use daytable_delta::{StoreCheck, TableSnapshot};
use daytable_model::key::{DayTable, KeyError, TableName};
use daytable_model::property::to_hex;
use daytable_platform::scan_scheduler;
use daytable_store::sealed::{ArchiveHome, Manifest};
use daytable_store::{OnProgress, Phase, Progress};
use names::{ArchiveName, ArchiveObject};
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;
use url::Location;

/// Bytes per request when a file is sent, read back or fetched.
const PIECE_BYTES: u64 = 8 << 20;
/// What begins the name of an upload that is never completed.
const PROBE: &str = "daytable-probe-";
/// Maximum bytes of a manifest that is read from an archive.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// Asserts that the name of an archive with this manifest is read back as itself.
#[cfg(feature = "testing")]
pub fn assert_name(manifest: &Manifest) {
    let Ok(ArchivedDay { name, .. }) = ArchivedDay::new(manifest.clone()) else { return };
    // A generation below 1 has none.
    for part in [ArchiveObject::Data, ArchiveObject::Manifest].into_iter().filter(|_| name.generation > 0) {
        assert_eq!(ArchiveName::parse(&name.object(part)), Some((name.clone(), part)));
    }
}

/// A place that holds archives. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Archive(Arc<Connection>);

struct Connection {
    url: ArchiveUrl,
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    format: TableFormat,
    /// Whether the store was found fit for tables, in this process.
    check: StoreCheck,
    /// The table of each name as it was last seen.
    seen: Mutex<HashMap<TableName, TableSnapshot>>,
    /// `None` only during `drop`.
    runtime: Option<Runtime>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Does not block, so an archive may be dropped anywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Why a manifest does not describe an archive.
#[derive(Debug, thiserror::Error)]
pub enum NotArchived {
    /// It names no day-table.
    #[error(transparent)]
    Table(#[from] KeyError),
    /// It does not say whose day it is, or not so that it can stand in a path.
    #[error("it does not name the host whose day it is")]
    NoHome,
}

/// A day as an archive should hold it, described by its manifest. It does not prove that the archive exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedDay {
    name: ArchiveName,
    manifest: Manifest,
}

impl ArchivedDay {
    /// Describes the archive of a sealed day.
    ///
    /// # Errors
    ///
    /// If the manifest names no day-table, or not whose day it is.
    pub fn new(manifest: Manifest) -> Result<ArchivedDay, NotArchived> {
        let home = manifest.home.clone().filter(ArchiveHome::is_valid).ok_or(NotArchived::NoHome)?;
        let (table, generation) = (DayTable::parse(&manifest.table)?, manifest.generation);
        let name = ArchiveName { table, home, generation, part: None };
        Ok(ArchivedDay { name, manifest })
    }

    /// Whose day it is.
    pub fn home(&self) -> &ArchiveHome {
        &self.name.home
    }

    /// The day-table.
    pub fn table(&self) -> &DayTable {
        &self.name.table
    }

    /// The number of the sealing of that day. The latest one contains all rows of those before.
    pub fn generation(&self) -> i64 {
        self.name.generation
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

impl Archive {
    /// Opens an archive to read. Sends no request yet; a folder must exist.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Setup`] for wrong credentials or a wrong endpoint, [`ArchiveError::Io`] for a missing folder.
    pub fn open(url: &ArchiveUrl, access: &Access, patience: &RetryPolicy) -> Result<Archive, ArchiveError> {
        Archive::open_through(url, access, patience, |store| store)
    }

    /// The same, with a store between this one and its requests.
    fn open_through(
        url: &ArchiveUrl,
        access: &Access,
        patience: &RetryPolicy,
        between: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>,
    ) -> Result<Archive, ArchiveError> {
        let setup = |what: String| ArchiveError::Setup { url: url.clone(), what };
        let store = between(access::connect(url, access, patience)?);
        let prefix = match url.location() {
            Location::Folder(_) => ObjectPath::default(),
            Location::Bucket { prefix, .. } => ObjectPath::parse(prefix).map_err(|error| setup(error.to_string()))?,
        };
        // The caller's thread drives everything; a second one reads and syncs the files of a folder.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime = Some(runtime.map_err(|error| setup(error.to_string()))?);
        let check = store_checks::store_check(url, access);
        let (url, format, seen) = (url.clone(), access.table_format, Mutex::default());
        Ok(Archive(Arc::new(Connection { url, store, prefix, format, check, seen, runtime })))
    }

    /// Opens an archive to write. Creates a missing folder, readable only by its owner.
    ///
    /// # Errors
    ///
    /// As for [`Archive::open`].
    pub fn open_to_write(url: &ArchiveUrl, access: &Access, patience: &RetryPolicy) -> Result<Archive, ArchiveError> {
        if let Some(path) = url.folder() {
            folder::refuse_within_data(url, path)?;
            folder::make(path)?;
        }
        Archive::open(url, access, patience)
    }

    /// The address of the archive.
    pub fn url(&self) -> &ArchiveUrl {
        &self.0.url
    }

    /// Runs a future to its end on this thread.
    fn wait<F: Future>(&self, future: F) -> F::Output {
        let runtime = self.0.runtime.as_ref().expect("it is there until the archive is dropped");
        scan_scheduler::pause(|| runtime.block_on(future))
    }

    fn store(&self) -> &dyn ObjectStore {
        &*self.0.store
    }

    /// The object's path in the store.
    fn path(&self, name: &ArchiveName, part: ArchiveObject) -> ObjectPath {
        // Letters, digits, dots and slashes need no encoding.
        let object = name.object(part);
        object.split('/').fold(self.0.prefix.clone(), |path, part| path.join(part))
    }

    /// The object's address, for messages.
    fn address(&self, name: &ArchiveName, part: ArchiveObject) -> String {
        format!("{}/{}", self.0.url, name.object(part))
    }

    /// The object's file, if the archive is a folder.
    fn file(&self, name: &ArchiveName, part: ArchiveObject) -> Option<PathBuf> {
        self.0.url.folder().map(|folder| folder.join(name.object(part)))
    }

    fn failed(&self, name: &ArchiveName, part: ArchiveObject) -> impl FnOnce(object_store::Error) -> ArchiveError {
        let object = self.address(name, part);
        |error| ArchiveError::from_store(object, error)
    }

    /// The stored manifest of an archive; `None` if there is none.
    async fn manifest_bytes(&self, name: &ArchiveName) -> Result<Option<Bytes>, ArchiveError> {
        let (part, path) = (ArchiveObject::Manifest, self.path(name, ArchiveObject::Manifest));
        let result = match self.store().get(&path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            result => result.map_err(self.failed(name, part))?,
        };
        if result.meta.size > MANIFEST_BYTES_MAX {
            let what = format!("it has {} bytes, more than a manifest has", result.meta.size);
            return Err(ArchiveError::Damaged { object: self.address(name, part), what });
        }
        result.bytes().await.map(Some).map_err(self.failed(name, part))
    }

    /// Parses a manifest, which must be that of `name`.
    fn manifest_in(&self, name: &ArchiveName, json: &[u8]) -> Result<ArchivedDay, ArchiveError> {
        let damaged =
            |what: String| ArchiveError::Damaged { object: self.address(name, ArchiveObject::Manifest), what };
        let manifest = Manifest::from_json(json).map_err(|error| damaged(error.to_string()))?;
        let archived = ArchivedDay::new(manifest).map_err(|error| damaged(error.to_string()))?;
        if archived.name != *name {
            let (table, generation) = (&archived.name.table, archived.name.generation);
            return Err(damaged(format!("it describes {table}.{generation}")));
        }
        Ok(archived)
    }

    /// Asks the store for the metadata of an archive's file, whose length must be right.
    async fn head(&self, archived: &ArchivedDay) -> Result<ObjectMeta, ArchiveError> {
        let name = &archived.name;
        let head = self.store().head(&self.path(name, ArchiveObject::Data)).await;
        let meta = head.map_err(self.failed(name, ArchiveObject::Data))?;
        let bytes = archived.manifest.bytes;
        if meta.size != bytes {
            let what = format!("it has {} bytes, its manifest says {bytes}", meta.size);
            return Err(ArchiveError::Damaged { object: self.address(name, ArchiveObject::Data), what });
        }
        Ok(meta)
    }

    /// Reads bytes of an archive's file from the store.
    async fn range(&self, name: &ArchiveName, range: Range<u64>) -> Result<(Bytes, ObjectMeta), ArchiveError> {
        let length = range.end - range.start;
        let options = GetOptions::new().with_range(Some(range.clone()));
        let result = self.store().get_opts(&self.path(name, ArchiveObject::Data), options).await;
        let result = result.map_err(self.failed(name, ArchiveObject::Data))?;
        if let (0, GetResultPayload::File(file, _)) = (range.start, &result.payload) {
            // The bytes must come from the disk. If the kernel ignores the hint, they are read nevertheless.
            let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
        }
        let meta = result.meta.clone();
        let bytes = result.bytes().await.map_err(self.failed(name, ArchiveObject::Data))?;
        if bytes.len() as u64 != length {
            let what = format!("{} bytes came of the {length} from {} on", bytes.len(), range.start);
            return Err(ArchiveError::Damaged { object: self.address(name, ArchiveObject::Data), what });
        }
        Ok((bytes, meta))
    }

    /// Reads an archive's file whole, piece by piece, and compares length and SHA-256 with its manifest. The object
    /// must be the same from the first piece to the last.
    async fn read_whole(
        &self,
        archived: &ArchivedDay,
        phase: Phase,
        on: &mut OnProgress<'_>,
        mut each: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<ObjectMeta, ArchiveError> {
        let (name, total) = (&archived.name, archived.manifest.bytes);
        let damaged = |what: String| ArchiveError::Damaged { object: self.address(name, ArchiveObject::Data), what };
        let head = self.head(archived).await?;
        let mut hash = Sha256::new();
        let mut done = 0;
        while done < total {
            let (bytes, meta) = self.range(name, done..total.min(done + PIECE_BYTES)).await?;
            if (meta.size, &meta.e_tag) != (head.size, &head.e_tag) {
                return Err(damaged("it was replaced while it was read".into()));
            }
            hash.update(&bytes);
            each(&bytes)?;
            done += bytes.len() as u64;
            if on(Progress { phase, done, total }).is_break() {
                return Err(ArchiveError::Stopped);
            }
        }
        let (found, expected) = (to_hex(&hash.finalize()), &archived.manifest.sha256);
        if found != *expected {
            return Err(damaged(format!("its SHA-256 is {found}, its manifest says {expected}")));
        }
        Ok(head)
    }
}
