//! A sealed day goes to its archive, and is proved to be there.

use super::names::{Name, Part};
use super::{Archive, ArchiveError, ArchiveUrl, ArchivedDay, PIECE_BYTES, folder};
use bytes::Bytes;
use daytable_model::key::DayTable;
use daytable_store::sealed::Manifest;
use daytable_store::{OnProgress, Phase, Progress};
use object_store::{MultipartUpload, ObjectMeta, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Parts of one upload at most. S3 takes 10,000.
const PARTS_MAX: u64 = 9_000;

/// That a day is in an archive: it was read back from there to the last byte, and matched by length and SHA-256. Made
/// by [`Archive::put`] and [`Archive::prove`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    archived: ArchivedDay,
    url: ArchiveUrl,
}

impl Proof {
    /// The day-table that is archived.
    pub fn table(&self) -> &DayTable {
        self.archived.table()
    }

    /// What is archived.
    pub fn archived(&self) -> &ArchivedDay {
        &self.archived
    }

    /// Where.
    pub fn url(&self) -> &ArchiveUrl {
        &self.url
    }
}

impl Archive {
    /// Archives a sealed day: see the module's head. Again is the same; what is there already is only read back.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being proved: the store ([`ArchiveError::Unreachable`], [`ArchiveError::Denied`],
    /// [`ArchiveError::Unproven`]), something else under its name ([`ArchiveError::Occupied`]), or a sealed file that is
    /// not what its manifest says ([`ArchiveError::Source`]), of which nothing is kept.
    pub fn put(&self, manifest: &Manifest, sealed: &Path, on: &mut OnProgress<'_>) -> Result<Proof, ArchiveError> {
        let source = |what: String| ArchiveError::Source { path: sealed.into(), what };
        let archived = ArchivedDay::new(manifest.clone()).map_err(|error| source(error.to_string()))?;
        if archived.generation() < 1 || manifest.bytes == 0 {
            return Err(source("a sealed day has a generation of at least 1, and bytes".into()));
        }
        self.wait(self.put_now(archived, sealed, on))
    }

    /// Reads an archive again as a whole, and its manifest.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Missing`] and [`ArchiveError::Damaged`] for what is not there or not as it should be, or whatever
    /// keeps the store from being read.
    pub fn prove(&self, archived: &ArchivedDay, on: &mut OnProgress<'_>) -> Result<Proof, ArchiveError> {
        self.wait(async {
            let name = &archived.name;
            let json = self.manifest_bytes(name).await?;
            let json = json.ok_or_else(|| ArchiveError::Missing { object: self.address(name, Part::Manifest) })?;
            let there = self.manifest_in(name, &json)?;
            if !same_content(&there, archived) {
                let what = format!("its SHA-256 is {}, not {}", there.manifest.sha256, archived.manifest.sha256);
                return Err(ArchiveError::Damaged { object: self.address(name, Part::Manifest), what });
            }
            self.read_whole(archived, Phase::ReadBack, on, |_| Ok(())).await?;
            Ok(self.proof(there))
        })
    }

    /// Looks whether an archive is there, with its manifest and the length that this one says. It proves nothing.
    ///
    /// # Errors
    ///
    /// As for [`Archive::prove`].
    pub fn look(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        self.wait(async {
            let name = &archived.name;
            let json = self.manifest_bytes(name).await?;
            let json = json.ok_or_else(|| ArchiveError::Missing { object: self.address(name, Part::Manifest) })?;
            if !same_content(&self.manifest_in(name, &json)?, archived) {
                let what = "it describes another file than the one that was archived".to_owned();
                return Err(ArchiveError::Damaged { object: self.address(name, Part::Manifest), what });
            }
            self.head(archived).await.map(drop)
        })
    }

    fn proof(&self, archived: ArchivedDay) -> Proof {
        Proof { archived, url: self.url().clone() }
    }

    async fn put_now(
        &self,
        archived: ArchivedDay,
        sealed: &Path,
        on: &mut OnProgress<'_>,
    ) -> Result<Proof, ArchiveError> {
        if let Some(there) = self.same_that_stands(&archived).await? {
            match self.read_whole(&archived, Phase::ReadBack, on, |_| Ok(())).await {
                Ok(_) => return Ok(self.proof(there)),
                // Its manifest is this day's, so what is wrong beside it is this day's as well, and can be mended.
                Err(error @ (ArchiveError::Missing { .. } | ArchiveError::Damaged { .. })) => {
                    tracing::warn!(%error, "an archive is archived anew from the sealed day");
                }
                Err(error) => return Err(error),
            }
        }
        let name = &archived.name;
        if let Some(file) = self.file(name, Part::Data) {
            folder::make_parents(self.url(), &file)?;
            folder::drop_leftovers(&file)?;
        }
        daytable_platform::failpoint!("archive-before");
        self.upload(&archived, sealed, on).await?;
        daytable_platform::failpoint!("archive-uploaded");
        let read = self.read_whole(&archived, Phase::ReadBack, on, |_| Ok(())).await;
        let read = read.map_err(|error| unproven(error, self.address(name, Part::Data)))?;
        daytable_platform::failpoint!("archive-read-back");
        self.put_manifest(&archived).await?;
        daytable_platform::failpoint!("archive-manifest");
        self.still(&archived, &read).await?;
        Ok(self.proof(archived))
    }

    /// The archive of this very content, if its manifest stands already; an error where another's does.
    async fn same_that_stands(&self, archived: &ArchivedDay) -> Result<Option<ArchivedDay>, ArchiveError> {
        let name = &archived.name;
        let Some(json) = self.manifest_bytes(name).await? else { return Ok(None) };
        let what = match self.manifest_in(name, &json) {
            Ok(there) if same_content(&there, archived) => return Ok(Some(there)),
            Ok(there) => format!(
                "it is the manifest of another {} with the SHA-256 {}. Two daytables cannot share one address: give this \
                 one a prefix of its own",
                name.table, there.manifest.sha256
            ),
            Err(error) => format!("{error}. Look at what it is, then move it away"),
        };
        Err(ArchiveError::Occupied { object: self.address(name, Part::Manifest), what })
    }

    /// Sends the sealed file. It gets its name only when all of it was sent and is what its manifest says.
    async fn upload(&self, archived: &ArchivedDay, sealed: &Path, on: &mut OnProgress<'_>) -> Result<(), ArchiveError> {
        let (name, total) = (&archived.name, archived.manifest.bytes);
        let mut file = File::open(sealed).map_err(ArchiveError::io(sealed))?;
        let mut piece = Pieces { file: &mut file, sum: Sum::default(), sealed, archived };
        let (path, size) = (self.path(name, Part::Data), part_bytes(total));
        if total <= size {
            let bytes = piece.next(total)?;
            piece.end()?;
            self.store().put(&path, bytes.into()).await.map_err(self.not_put(name, Part::Data))?;
            return self.settle(name, Part::Data);
        }
        let mut upload = self.store().put_multipart(&path).await.map_err(self.not_put(name, Part::Data))?;
        let sent = async {
            let mut done = 0;
            while done < total {
                let bytes = piece.next(size.min(total - done))?;
                let (is_first, length) = (done == 0, bytes.len() as u64);
                let put = upload.put_part(bytes.into()).await;
                // Azure is asked nothing before the first part.
                put.map_err(
                    |error| if is_first { self.not_put(name, Part::Data)(error) } else { self.not_sent(name)(error) },
                )?;
                done += length;
                daytable_platform::failpoint!("archive-part");
                if on(Progress { phase: Phase::Upload, done, total }).is_break() {
                    return Err(ArchiveError::Stopped);
                }
            }
            piece.end()?;
            match upload.complete().await {
                // It may have been completed by a request whose answer was lost: what is read back says it.
                Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.not_sent(name)(error)),
            }
        };
        match sent.await {
            Ok(()) => self.settle(name, Part::Data),
            Err(error) => {
                abort(&mut *upload).await;
                Err(error)
            }
        }
    }

    /// Writes the manifest and reads it back. One that was not kept as it was sent is dropped again: it would be taken for
    /// another one's the next time.
    async fn put_manifest(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        let written = self.write_manifest(archived).await;
        if let Err(ArchiveError::Unproven { .. } | ArchiveError::Damaged { .. }) = &written {
            let dropped = self.store().delete(&self.path(&archived.name, Part::Manifest)).await;
            if let Err(error) = dropped {
                tracing::debug!(%error, "failed to drop a manifest that was not kept as it was sent");
            }
        }
        written
    }

    async fn write_manifest(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        let name = &archived.name;
        let json = Bytes::from(archived.manifest.to_json());
        let (path, payload) = (self.path(name, Part::Manifest), PutPayload::from(json.clone()));
        self.store().put(&path, payload).await.map_err(self.not_put(name, Part::Manifest))?;
        self.settle(name, Part::Manifest)?;
        let unproven =
            |what: &str| ArchiveError::Unproven { object: self.address(name, Part::Manifest), what: what.to_owned() };
        match self.manifest_bytes(name).await? {
            Some(there) if there == json => Ok(()),
            Some(_) => Err(unproven("it differs")),
            None => Err(unproven("it is not there")),
        }
    }

    /// Whether the file is still the object that was read back: another daytable could have written in between.
    async fn still(&self, archived: &ArchivedDay, read: &ObjectMeta) -> Result<(), ArchiveError> {
        let unproven = |what: String| ArchiveError::Unproven { object: self.address(&archived.name, Part::Data), what };
        let now = self.head(archived).await.map_err(|error| unproven(error.to_string()))?;
        if now.e_tag != read.e_tag {
            return Err(unproven("it was replaced after it was read back".into()));
        }
        Ok(())
    }

    /// What a folder's file needs besides its bytes.
    fn settle(&self, name: &Name, part: Part) -> Result<(), ArchiveError> {
        self.file(name, part).map_or(Ok(()), |file| folder::restrict(&file))
    }

    /// What is not found while parts are sent is the upload, which the store has let go of.
    fn not_sent(&self, name: &Name) -> impl FnOnce(object_store::Error) -> ArchiveError {
        let object = self.address(name, Part::Data);
        |error| match ArchiveError::of(object.clone(), error) {
            ArchiveError::Missing { .. } => {
                let source = object_store::Error::Generic { store: "archive", source: "the upload is gone".into() };
                ArchiveError::Unreachable { object, source: Box::new(source) }
            }
            error => error,
        }
    }

    /// What is not found when something is put is the bucket.
    fn not_put(&self, name: &Name, part: Part) -> impl FnOnce(object_store::Error) -> ArchiveError {
        let (object, url) = (self.address(name, part), self.url().clone());
        |error| match error {
            object_store::Error::NotFound { .. } => {
                let what = "the bucket, container or folder is not there: make it, or correct its name".into();
                ArchiveError::Setup { url, what }
            }
            error => ArchiveError::of(object, error),
        }
    }
}

/// What was read back after an upload and is not right was not kept as it was sent.
fn unproven(error: ArchiveError, object: String) -> ArchiveError {
    match error {
        ArchiveError::Missing { .. } => ArchiveError::Unproven { object, what: "it is not there".into() },
        ArchiveError::Damaged { what, .. } => ArchiveError::Unproven { object, what },
        error => error,
    }
}

async fn abort(upload: &mut dyn MultipartUpload) {
    if let Err(error) = upload.abort().await {
        tracing::debug!(%error, "failed to abort an upload: the store clears it by its own rules");
    }
}

/// Whether two archives hold the same file. Their manifests may differ in what does not matter.
fn same_content(a: &ArchivedDay, b: &ArchivedDay) -> bool {
    (a.manifest.bytes, &a.manifest.sha256) == (b.manifest.bytes, &b.manifest.sha256)
}

/// Bytes of a part: [`PIECE_BYTES`], or more where there would be more than [`PARTS_MAX`].
fn part_bytes(total: u64) -> u64 {
    total.div_ceil(PARTS_MAX).next_multiple_of(1 << 20).max(PIECE_BYTES)
}

/// The sealed file, piece by piece, held against its manifest.
struct Pieces<'a> {
    file: &'a mut File,
    sum: Sum,
    sealed: &'a Path,
    archived: &'a ArchivedDay,
}

impl Pieces<'_> {
    fn wrong(&self, what: String) -> ArchiveError {
        ArchiveError::Source { path: self.sealed.into(), what }
    }

    fn next(&mut self, length: u64) -> Result<Bytes, ArchiveError> {
        let mut bytes = Vec::new();
        let read = self.file.take(length).read_to_end(&mut bytes).map_err(ArchiveError::io(self.sealed))?;
        if read as u64 != length {
            return Err(self.wrong(format!("it is shorter than the {} bytes there", self.archived.manifest.bytes)));
        }
        self.sum.add(&bytes);
        Ok(bytes.into())
    }

    /// To be called behind the last piece.
    fn end(&mut self) -> Result<(), ArchiveError> {
        let more = self.file.read(&mut [0]).map_err(ArchiveError::io(self.sealed))?;
        if more > 0 {
            return Err(self.wrong(format!("it is longer than the {} bytes there", self.archived.manifest.bytes)));
        }
        let (found, expected) = (self.sum.hex(), &self.archived.manifest.sha256);
        if found == *expected { Ok(()) } else { Err(self.wrong(format!("its SHA-256 is {found}, not {expected}"))) }
    }
}

/// A SHA-256 that grows.
#[derive(Clone, Default)]
pub(super) struct Sum(Sha256);

impl Sum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// In lower-case hexadecimal, as manifests have it.
    pub(super) fn hex(&self) -> String {
        self.0.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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

    #[test]
    fn sums_are_written_as_others_write_them() {
        let mut sum = Sum::default();
        sum.add(b"a");
        sum.add(b"bc");
        assert_eq!(sum.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
