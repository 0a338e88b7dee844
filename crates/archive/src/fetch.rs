//! Fetches an archive as a file, and removes archives.

use super::names::{ArchiveName, ArchiveObject};
use super::{Archive, ArchiveError, ArchivedDay, folder};
use daytable_store::{OnProgress, Phase, private_file};
use object_store::ObjectStoreExt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

impl Archive {
    /// Writes an archive's file to `to`, whole and verified, or not at all: the file gets its name after its SHA-256
    /// matched and it is on the disk. The partial file of a killed call is replaced.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Missing`], [`ArchiveError::Damaged`], an error of the store, or [`ArchiveError::Io`] for the
    /// file here.
    pub fn fetch(&self, archived: &ArchivedDay, to: &Path, on: &mut OnProgress<'_>) -> Result<(), ArchiveError> {
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let fetched = self.fetch_to(archived, &partial, on).and_then(|()| {
            std::fs::rename(&partial, to).map_err(ArchiveError::io(to))?;
            to.parent().map_or(Ok(()), folder::sync)
        });
        if fetched.is_err() {
            // The next call would replace the partial file; removing it now frees its space.
            let _ = std::fs::remove_file(&partial);
        }
        fetched
    }

    fn fetch_to(&self, archived: &ArchivedDay, to: &Path, on: &mut OnProgress<'_>) -> Result<(), ArchiveError> {
        let mut file = private_file::create_anew(to).map_err(ArchiveError::io(to))?;
        let read =
            self.read_whole(archived, Phase::Fetch, on, |piece| file.write_all(piece).map_err(ArchiveError::io(to)));
        self.wait(read)?;
        daytable_platform::failpoint!("fetch-written");
        file.sync_all().map_err(ArchiveError::io(to))
    }

    /// Removes an archive, its manifest first, so that nothing remains that looks like an archive. A missing archive
    /// is not an error. What a table at this address has leaves it before, and its file stays until a sweep: then this is true.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Occupied`] if another archive has its name; that one stays. Otherwise an error of the store.
    pub fn drop_archive(&self, archived: &ArchivedDay) -> Result<bool, ArchiveError> {
        let name = &archived.name;
        let there = self.wait(self.manifest_bytes(name))?;
        let another = there.and_then(|json| self.manifest_in(name, &json).ok());
        if let Some(there) = another.filter(|there| there.manifest.sha256 != archived.manifest.sha256) {
            let what = format!("it is another archive, with the SHA-256 {}", there.manifest.sha256);
            return Err(ArchiveError::Occupied { object: self.address(name, ArchiveObject::Manifest), what });
        }
        let stays = self.leave(archived)?;
        daytable_platform::failpoint!("archive-left-log");
        for part in [ArchiveObject::Manifest, ArchiveObject::Data] {
            // An engine may read the file until it is swept.
            if part == ArchiveObject::Manifest || !stays {
                self.wait(self.delete(name, part))?;
            }
            daytable_platform::failpoint!("archive-dropping");
        }
        Ok(stays)
    }

    /// Deletes an object. A missing one is not an error.
    pub(super) async fn delete(&self, name: &ArchiveName, part: ArchiveObject) -> Result<(), ArchiveError> {
        match self.store().delete(&self.path(name, part)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(ArchiveError::from_store(self.address(name, part), error)),
        }
        if let Some(folder) = self.file(name, part).as_deref().and_then(Path::parent) {
            match folder::sync(folder) {
                Err(ArchiveError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                synced => synced?,
            }
        }
        Ok(())
    }
}
