//! Archives a sealed day and proves that the archive holds it.

use super::names::{ArchiveName, ArchiveObject};
use super::{Archive, ArchiveError, ArchiveUrl, ArchivedDay, PIECE_BYTES, folder};
use bytes::Bytes;
use daytable_model::key::DayTable;
use daytable_model::property::to_hex;
use daytable_store::sealed::Manifest;
use daytable_store::{OnProgress, Phase, Progress};
use object_store::{MultipartUpload, ObjectMeta, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum number of parts of one upload. S3 permits 10,000.
const PARTS_MAX: u64 = 9_000;

/// Proves that a day is in an archive: the archive was read back to the last byte and matched by length and SHA-256.
/// Only [`Archive::put`] and [`Archive::prove`] make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    archived: ArchivedDay,
    url: ArchiveUrl,
}

impl Proof {
    /// The archived day-table.
    pub fn table(&self) -> &DayTable {
        self.archived.table()
    }

    /// The archived day.
    pub fn archived(&self) -> &ArchivedDay {
        &self.archived
    }

    /// The address of the archive.
    pub fn url(&self) -> &ArchiveUrl {
        &self.url
    }
}

impl Archive {
    /// Archives a sealed day; see the module's head. A repeated call only reads back what exists already.
    ///
    /// # Errors
    ///
    /// Anything that prevents the proof: the store ([`ArchiveError::Unreachable`], [`ArchiveError::Denied`],
    /// [`ArchiveError::Unproven`]), another object under the name ([`ArchiveError::Occupied`]), or a sealed file that
    /// differs from its manifest ([`ArchiveError::Source`]), of which nothing is stored.
    pub fn put(&self, manifest: &Manifest, sealed: &Path, on: &mut OnProgress<'_>) -> Result<Proof, ArchiveError> {
        let source = |what: String| ArchiveError::Source { path: sealed.into(), what };
        let archived = ArchivedDay::new(manifest.clone()).map_err(|error| source(error.to_string()))?;
        if archived.generation() < 1 || manifest.bytes == 0 {
            return Err(source("a sealed day has a generation of at least 1, and bytes".into()));
        }
        let proof = self.wait(self.put_async(archived, sealed, on))?;
        daytable_platform::failpoint!("archive-before-log");
        self.enter(&proof.archived)?;
        daytable_platform::failpoint!("archive-in-log");
        Ok(proof)
    }

    /// Reads a whole archive again, and its manifest.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Missing`] and [`ArchiveError::Damaged`] for a missing or wrong archive, or an error of the
    /// store.
    pub fn prove(&self, archived: &ArchivedDay, on: &mut OnProgress<'_>) -> Result<Proof, ArchiveError> {
        self.wait(async {
            let there = self.same_manifest(archived).await?;
            self.read_whole(archived, Phase::ReadBack, on, |_| Ok(())).await?;
            Ok(self.proof(there))
        })
    }

    /// Checks that the store has the archive, with its manifest and the right length. This proves nothing about its
    /// bytes.
    ///
    /// # Errors
    ///
    /// As for [`Archive::prove`].
    pub fn check(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        self.wait(async {
            self.same_manifest(archived).await?;
            self.head(archived).await.map(drop)
        })
    }

    /// The stored manifest, which must describe this archive.
    async fn same_manifest(&self, archived: &ArchivedDay) -> Result<ArchivedDay, ArchiveError> {
        let name = &archived.name;
        let object = || self.address(name, ArchiveObject::Manifest);
        let json = self.manifest_bytes(name).await?.ok_or_else(|| ArchiveError::Missing { object: object() })?;
        let there = self.manifest_in(name, &json)?;
        if !same_content(&there, archived) {
            let what = format!("its SHA-256 is {}, not {}", there.manifest.sha256, archived.manifest.sha256);
            return Err(ArchiveError::Damaged { object: object(), what });
        }
        Ok(there)
    }

    fn proof(&self, archived: ArchivedDay) -> Proof {
        Proof { archived, url: self.url().clone() }
    }

    async fn put_async(
        &self,
        archived: ArchivedDay,
        sealed: &Path,
        on: &mut OnProgress<'_>,
    ) -> Result<Proof, ArchiveError> {
        if let Some(there) = self.existing(&archived).await? {
            match self.read_whole(&archived, Phase::ReadBack, on, |_| Ok(())).await {
                Ok(_) => return Ok(self.proof(there)),
                // The manifest is this day's, so the wrong file beside it belongs to this day too and can be
                // replaced.
                Err(error @ (ArchiveError::Missing { .. } | ArchiveError::Damaged { .. })) => {
                    tracing::warn!(%error, "an archive is wrong and is replaced from the sealed day");
                }
                Err(error) => return Err(error),
            }
        }
        let name = &archived.name;
        if let Some(file) = self.file(name, ArchiveObject::Data) {
            folder::make_parents(self.url(), &file)?;
            folder::remove_partial_uploads(&file)?;
        }
        daytable_platform::failpoint!("archive-before");
        self.upload(&archived, sealed, on).await?;
        daytable_platform::failpoint!("archive-uploaded");
        let read = self.read_whole(&archived, Phase::ReadBack, on, |_| Ok(())).await;
        let read = read.map_err(|error| unproven(error, self.address(name, ArchiveObject::Data)))?;
        daytable_platform::failpoint!("archive-read-back");
        self.put_manifest(&archived).await?;
        daytable_platform::failpoint!("archive-manifest");
        self.check_unchanged(&archived, &read).await?;
        Ok(self.proof(archived))
    }

    /// The archive with this content, if its manifest exists; an error if another manifest does.
    async fn existing(&self, archived: &ArchivedDay) -> Result<Option<ArchivedDay>, ArchiveError> {
        let name = &archived.name;
        let Some(json) = self.manifest_bytes(name).await? else { return Ok(None) };
        let what = match self.manifest_in(name, &json) {
            Ok(there) if same_content(&there, archived) => return Ok(Some(there)),
            Ok(there) => format!(
                "it is the manifest of another {} with the SHA-256 {}. If another daytable has a copy of this folder, \
                 `daytable join --new-origin` tells it apart, or give this one a prefix of its own. If this folder was put \
                 back to an earlier state, that archive was written after that state: move it and its manifest away to \
                 archive what the folder has now",
                name.table, there.manifest.sha256
            ),
            Err(error) => format!("{error}. Inspect the object, then move it away"),
        };
        Err(ArchiveError::Occupied { object: self.address(name, ArchiveObject::Manifest), what })
    }

    /// Sends the sealed file. The object gets its name only after all bytes were sent and match the manifest.
    pub(super) async fn upload(
        &self,
        archived: &ArchivedDay,
        sealed: &Path,
        on: &mut OnProgress<'_>,
    ) -> Result<(), ArchiveError> {
        let (name, total) = (&archived.name, archived.manifest.bytes);
        let mut file = File::open(sealed).map_err(ArchiveError::io(sealed))?;
        let mut piece = SealedReader { file: &mut file, hash: Sha256::new(), sealed, archived };
        let (path, size) = (self.path(name, ArchiveObject::Data), part_bytes(total));
        if total <= size {
            let bytes = piece.next(total)?;
            piece.end()?;
            self.store().put(&path, bytes.into()).await.map_err(self.put_failed(name, ArchiveObject::Data))?;
            return self.restrict_access(name, ArchiveObject::Data);
        }
        let mut upload = self.store().put_multipart(&path).await.map_err(self.put_failed(name, ArchiveObject::Data))?;
        let sent = async {
            let mut done = 0;
            while done < total {
                let bytes = piece.next(size.min(total - done))?;
                let (is_first, length) = (done == 0, bytes.len() as u64);
                let put = upload.put_part(bytes.into()).await;
                // Azure receives no request before the first part.
                put.map_err(|error| {
                    if is_first {
                        self.put_failed(name, ArchiveObject::Data)(error)
                    } else {
                        self.part_failed(name)(error)
                    }
                })?;
                done += length;
                daytable_platform::failpoint!("archive-part");
                if on(Progress { phase: Phase::Upload, done, total }).is_break() {
                    return Err(ArchiveError::Stopped);
                }
            }
            piece.end()?;
            match upload.complete().await {
                // A request whose answer was lost may have completed the upload. Reading back decides.
                Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.part_failed(name)(error)),
            }
        };
        match sent.await {
            Ok(()) => self.restrict_access(name, ArchiveObject::Data),
            Err(error) => {
                abort(&mut *upload).await;
                Err(error)
            }
        }
    }

    /// Writes the manifest and reads it back. A manifest that the store changed is removed, because the next run
    /// would take it for that of another archive.
    async fn put_manifest(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        let written = self.write_manifest(archived).await;
        if let Err(ArchiveError::Unproven { .. } | ArchiveError::Damaged { .. }) = &written {
            let dropped = self.store().delete(&self.path(&archived.name, ArchiveObject::Manifest)).await;
            if let Err(error) = dropped {
                tracing::debug!(%error, "failed to remove a manifest that the store changed");
            }
        }
        written
    }

    async fn write_manifest(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        let name = &archived.name;
        let json = Bytes::from(archived.manifest.to_json());
        let (path, payload) = (self.path(name, ArchiveObject::Manifest), PutPayload::from(json.clone()));
        self.store().put(&path, payload).await.map_err(self.put_failed(name, ArchiveObject::Manifest))?;
        self.restrict_access(name, ArchiveObject::Manifest)?;
        let unproven = |what: &str| ArchiveError::Unproven {
            object: self.address(name, ArchiveObject::Manifest),
            what: what.to_owned(),
        };
        match self.manifest_bytes(name).await? {
            Some(there) if there == json => Ok(()),
            Some(_) => Err(unproven("it differs")),
            None => Err(unproven("it is not there")),
        }
    }

    /// Checks that the object is still the one that was read back: another daytable could have replaced it.
    async fn check_unchanged(&self, archived: &ArchivedDay, read: &ObjectMeta) -> Result<(), ArchiveError> {
        let unproven =
            |what: String| ArchiveError::Unproven { object: self.address(&archived.name, ArchiveObject::Data), what };
        let now = self.head(archived).await.map_err(|error| unproven(error.to_string()))?;
        if now.e_tag != read.e_tag {
            return Err(unproven("it was replaced after it was read back".into()));
        }
        Ok(())
    }

    /// Restricts access to the file, if the archive is a folder.
    fn restrict_access(&self, name: &ArchiveName, part: ArchiveObject) -> Result<(), ArchiveError> {
        self.file(name, part).map_or(Ok(()), |file| folder::restrict(&file))
    }

    /// Maps an error of a part. "Not found" means that the store discarded the upload.
    fn part_failed(&self, name: &ArchiveName) -> impl FnOnce(object_store::Error) -> ArchiveError {
        let object = self.address(name, ArchiveObject::Data);
        |error| match ArchiveError::from_store(object.clone(), error) {
            ArchiveError::Missing { .. } => {
                let source = object_store::Error::Generic { store: "archive", source: "the upload is gone".into() };
                ArchiveError::Unreachable { object, source: Box::new(source) }
            }
            error => error,
        }
    }

    /// Maps an error of a write. "Not found" means the bucket.
    fn put_failed(&self, name: &ArchiveName, part: ArchiveObject) -> impl FnOnce(object_store::Error) -> ArchiveError {
        let (object, url) = (self.address(name, part), self.url().clone());
        |error| match error {
            object_store::Error::NotFound { .. } => {
                let what = "the bucket, container or folder is not there: make it, or correct its name".into();
                ArchiveError::Setup { url, what }
            }
            error => ArchiveError::from_store(object, error),
        }
    }
}

/// An object that is wrong after an upload was not stored as it was sent.
pub(super) fn unproven(error: ArchiveError, object: String) -> ArchiveError {
    match error {
        ArchiveError::Missing { .. } => ArchiveError::Unproven { object, what: "it is not there".into() },
        ArchiveError::Damaged { what, .. } => ArchiveError::Unproven { object, what },
        error => error,
    }
}

async fn abort(upload: &mut dyn MultipartUpload) {
    if let Err(error) = upload.abort().await {
        tracing::debug!(%error, "failed to abort an upload; the store removes it by its own rules");
    }
}

/// Whether two archives hold the same file. Other parts of their manifests may differ.
fn same_content(a: &ArchivedDay, b: &ArchivedDay) -> bool {
    (a.manifest.bytes, &a.manifest.sha256) == (b.manifest.bytes, &b.manifest.sha256)
}

/// Bytes of a part: [`PIECE_BYTES`], or more if there would be more than [`PARTS_MAX`] parts.
fn part_bytes(total: u64) -> u64 {
    total.div_ceil(PARTS_MAX).next_multiple_of(1 << 20).max(PIECE_BYTES)
}

/// Reads the sealed file piece by piece and compares it with its manifest.
struct SealedReader<'a> {
    file: &'a mut File,
    hash: Sha256,
    sealed: &'a Path,
    archived: &'a ArchivedDay,
}

impl SealedReader<'_> {
    fn wrong(&self, what: String) -> ArchiveError {
        ArchiveError::Source { path: self.sealed.into(), what }
    }

    fn next(&mut self, length: u64) -> Result<Bytes, ArchiveError> {
        let mut bytes = Vec::new();
        let read = self.file.take(length).read_to_end(&mut bytes).map_err(ArchiveError::io(self.sealed))?;
        if read as u64 != length {
            return Err(
                self.wrong(format!("it is shorter than the {} bytes of the manifest", self.archived.manifest.bytes))
            );
        }
        self.hash.update(&bytes);
        Ok(bytes.into())
    }

    /// Compares the whole file; called after the last piece.
    fn end(mut self) -> Result<(), ArchiveError> {
        let more = self.file.read(&mut [0]).map_err(ArchiveError::io(self.sealed))?;
        if more > 0 {
            return Err(
                self.wrong(format!("it is longer than the {} bytes of the manifest", self.archived.manifest.bytes))
            );
        }
        let (found, expected) = (to_hex(&std::mem::take(&mut self.hash).finalize()), &self.archived.manifest.sha256);
        if found == *expected { Ok(()) } else { Err(self.wrong(format!("its SHA-256 is {found}, not {expected}"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_file_so_that_there_are_never_too_many() {
        for (total, part) in [(1, 8 << 20), (72_000 << 20, 8 << 20), ((72_000 << 20) + 1, 9 << 20)] {
            assert_eq!(part_bytes(total), part, "{total}");
        }
        for total in [1u64 << 30, 1 << 40, 5 << 40] {
            assert!(total.div_ceil(part_bytes(total)) <= PARTS_MAX, "{total}");
        }
    }
}
