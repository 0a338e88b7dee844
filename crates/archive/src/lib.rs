//! Archives: verified copies of sealed days elsewhere, and reading them back from there.
//!
//! An archive is a sealed day's Parquet file and its manifest in a folder, in Azure Blob Storage, in S3 or in Google
//! Cloud Storage ([`url`]), under names that say day and generation (`names`). The manifest is written last, after the
//! file was read back whole from there and matched by length and SHA-256: **what has no manifest is no archive**. So a
//! kill at any line leaves nothing that could be taken for one, and the next run replaces what it left.
//!
//! ```text
//! put:  manifest there? ──same──► read back ──► Proof            nothing is sent twice
//!            │ none
//!            ▼
//!       upload 8 MiB parts ──► read back, length and SHA-256 ──► manifest ──► read back ──► still the same? ──► Proof
//! ```
//!
//! A [`Proof`] is what lets a day go that has to be archived. It is made at the end of [`Archive::put`] or
//! [`Archive::prove`] and nowhere else. A store that fails, is slow, or lies about what it kept costs a retry, never a day.
//!
//! * [`Archive::put`], [`Archive::prove`]: a day is archived; an archive is read again to its last byte.
//! * [`Archive::list`]: what is there, and what only looks as if it were.
//! * [`Archive::fetch`], [`Archive::reader`]: a whole file, verified while it is written; a few ranges of it for a query.
//! * [`Archive::drop_archive`]: an archive goes, its manifest first.
//!
//! * [`access`]: credentials and clients of the stores. [`reader`]: ranges of an archive, for a query. [`error`]: what fails.
//!
//! Calls block: they belong to threads of their own, never to a task of a runtime. What they hold in memory does not
//! depend on the size of a day. One daytable writes under one address; what another one wrote there is noticed and left.
//!
//! Not done on purpose: encryption and compression of our own (Parquet is compressed; stores encrypt), and the clearing
//! of multipart uploads that a kill left unfinished: only the store knows them, and a rule of the bucket ends them
//! (`AbortIncompleteMultipartUpload`; Azure does so by itself after a week).

pub mod access;
pub mod error;
mod fetch;
mod folder;
mod list;
mod names;
mod put;
pub mod reader;
pub mod url;

pub use access::{Access, RetryPolicy};
pub use error::{ArchiveError, Remedy};
pub use list::{Faulty, Listing};
pub use put::Proof;
pub use reader::ArchiveReader;
pub use url::{ArchiveUrl, UrlError};

use bytes::Bytes;
use daytable_model::key::{DayTable, KeyError};
use daytable_store::sealed::Manifest;
use daytable_store::{OnProgress, Phase, Progress};
use names::{Name, Part};
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Runtime;
use url::Place;

/// Bytes that are sent, read back or fetched at a time.
const PIECE_BYTES: u64 = 8 << 20;
/// Bytes of a manifest at most, as it is read from an archive.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// Asserts that the name of an archive with this manifest is read back as itself.
#[cfg(feature = "testing")]
pub fn assert_name(manifest: &Manifest) {
    let Ok(ArchivedDay { name, .. }) = ArchivedDay::new(manifest.clone()) else { return };
    // A generation below 1 has none.
    for part in [Part::Data, Part::Manifest].into_iter().filter(|_| name.generation > 0) {
        assert_eq!(Name::parse(&name.object(part)), Some((name.clone(), part)));
    }
}

/// A place that archives are kept in. Cheap to clone; all clones share their connections.
#[derive(Clone)]
pub struct Archive(Arc<Opened>);

struct Opened {
    url: ArchiveUrl,
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// None only while it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Does not wait, so that an archive may be let go of anywhere.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A day that is archived, as its manifest describes it: what has to be there. It proves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedDay {
    name: Name,
    manifest: Manifest,
}

impl ArchivedDay {
    /// The archive that a sealed day has, or would have.
    ///
    /// # Errors
    ///
    /// Where the manifest names no day-table.
    pub fn new(manifest: Manifest) -> Result<ArchivedDay, KeyError> {
        let name = Name { table: DayTable::parse(&manifest.table)?, generation: manifest.generation };
        Ok(ArchivedDay { name, manifest })
    }

    /// The day-table that was archived.
    pub fn table(&self) -> &DayTable {
        &self.name.table
    }

    /// Which sealing of that day it is. The latest has all that the ones before have.
    pub fn generation(&self) -> i64 {
        self.name.generation
    }

    /// What is in it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

impl Archive {
    /// Opens an archive to read. Asks no remote store yet; a folder has to be there.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Setup`] for what is wrong with credentials or endpoint, [`ArchiveError::Io`] for a folder that is
    /// not there.
    pub fn open(url: &ArchiveUrl, access: &Access, patience: &RetryPolicy) -> Result<Archive, ArchiveError> {
        let setup = |what: String| ArchiveError::Setup { url: url.clone(), what };
        let store = access::connect(url, access, patience)?;
        let prefix = match url.place() {
            Place::Folder(_) => ObjectPath::default(),
            Place::Bucket { prefix, .. } => ObjectPath::parse(prefix).map_err(|error| setup(error.to_string()))?,
        };
        // One thread, the caller's, drives all; a second one reads and syncs the files of a folder.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime = Some(runtime.map_err(|error| setup(error.to_string()))?);
        Ok(Archive(Arc::new(Opened { url: url.clone(), store, prefix, runtime })))
    }

    /// Opens an archive to write; makes the folder, readable by its owner alone, where it is one that is not there.
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

    /// Where it is.
    pub fn url(&self) -> &ArchiveUrl {
        &self.0.url
    }

    /// Runs to its end, on this thread.
    fn wait<F: Future>(&self, future: F) -> F::Output {
        self.0.runtime.as_ref().expect("it is there until the archive is dropped").block_on(future)
    }

    fn store(&self) -> &dyn ObjectStore {
        &*self.0.store
    }

    /// The object's name in the store.
    fn path(&self, name: &Name, part: Part) -> ObjectPath {
        // Letters, digits, dots and slashes need no encoding.
        let object = name.object(part);
        object.split('/').fold(self.0.prefix.clone(), |path, part| path.join(part))
    }

    /// The object's address, for messages.
    fn address(&self, name: &Name, part: Part) -> String {
        format!("{}/{}", self.0.url, name.object(part))
    }

    /// The object's file, where the archive is a folder.
    fn file(&self, name: &Name, part: Part) -> Option<PathBuf> {
        self.0.url.folder().map(|folder| folder.join(name.object(part)))
    }

    fn failed(&self, name: &Name, part: Part) -> impl FnOnce(object_store::Error) -> ArchiveError {
        let object = self.address(name, part);
        |error| ArchiveError::of(object, error)
    }

    /// The manifest that an archive has, as it is there; none where there is none.
    async fn manifest_bytes(&self, name: &Name) -> Result<Option<Bytes>, ArchiveError> {
        let (part, path) = (Part::Manifest, self.path(name, Part::Manifest));
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

    /// The manifest in these bytes, if it is that of `name`.
    fn manifest_in(&self, name: &Name, json: &[u8]) -> Result<ArchivedDay, ArchiveError> {
        let damaged = |what: String| ArchiveError::Damaged { object: self.address(name, Part::Manifest), what };
        let manifest = Manifest::from_json(json).map_err(|error| damaged(error.to_string()))?;
        let archived = ArchivedDay::new(manifest).map_err(|error| damaged(error.to_string()))?;
        if archived.name != *name {
            let (table, generation) = (&archived.name.table, archived.name.generation);
            return Err(damaged(format!("it describes {table}.{generation}")));
        }
        Ok(archived)
    }

    /// What the store says of an archive's file, which has to have the right length.
    async fn head(&self, archived: &ArchivedDay) -> Result<ObjectMeta, ArchiveError> {
        let name = &archived.name;
        let head = self.store().head(&self.path(name, Part::Data)).await;
        let meta = head.map_err(self.failed(name, Part::Data))?;
        let bytes = archived.manifest.bytes;
        if meta.size != bytes {
            let what = format!("it has {} bytes, its manifest says {bytes}", meta.size);
            return Err(ArchiveError::Damaged { object: self.address(name, Part::Data), what });
        }
        Ok(meta)
    }

    /// Bytes of an archive's file as they are in the store now.
    async fn range(&self, name: &Name, range: Range<u64>) -> Result<(Bytes, ObjectMeta), ArchiveError> {
        let length = range.end - range.start;
        let options = GetOptions::new().with_range(Some(range.clone()));
        let result = self.store().get_opts(&self.path(name, Part::Data), options).await;
        let result = result.map_err(self.failed(name, Part::Data))?;
        if let (0, GetResultPayload::File(file, _)) = (range.start, &result.payload) {
            // What is read is to come from the disk; where the hint is not taken it is read all the same.
            let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
        }
        let meta = result.meta.clone();
        let bytes = result.bytes().await.map_err(self.failed(name, Part::Data))?;
        if bytes.len() as u64 != length {
            let what = format!("{} bytes came of the {length} from {} on", bytes.len(), range.start);
            return Err(ArchiveError::Damaged { object: self.address(name, Part::Data), what });
        }
        Ok((bytes, meta))
    }

    /// Reads an archive's file whole, piece by piece, and matches length and SHA-256 with its manifest. What the store
    /// says of the object stays the same from the first piece to the last.
    async fn read_whole(
        &self,
        archived: &ArchivedDay,
        phase: Phase,
        on: &mut OnProgress<'_>,
        mut each: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<ObjectMeta, ArchiveError> {
        let (name, total) = (&archived.name, archived.manifest.bytes);
        let damaged = |what: String| ArchiveError::Damaged { object: self.address(name, Part::Data), what };
        let head = self.head(archived).await?;
        let mut sum = put::Sum::default();
        let mut done = 0;
        while done < total {
            let (bytes, meta) = self.range(name, done..total.min(done + PIECE_BYTES)).await?;
            if (meta.size, &meta.e_tag) != (head.size, &head.e_tag) {
                return Err(damaged("it was replaced while it was read".into()));
            }
            sum.add(&bytes);
            each(&bytes)?;
            done += bytes.len() as u64;
            if on(Progress { phase, done, total }).is_break() {
                return Err(ArchiveError::Stopped);
            }
        }
        let (found, expected) = (sum.hex(), &archived.manifest.sha256);
        if found != *expected {
            return Err(damaged(format!("its SHA-256 is {found}, its manifest says {expected}")));
        }
        Ok(head)
    }
}
