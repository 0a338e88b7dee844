//! An archive comes back as a file, or goes.

use super::names::Part;
use super::{Archive, ArchiveError, ArchivedDay, folder};
use daytable_store::{OnProgress, Phase, private};
use object_store::ObjectStoreExt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

impl Archive {
    /// Writes an archive's file to `to`, whole and verified, or not at all: it gets its name when its SHA-256 matched
    /// and it is on the disk. What a call that was killed left beside it is replaced.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Missing`], [`ArchiveError::Damaged`], whatever keeps the store from being read, or
    /// [`ArchiveError::Io`] for the file here.
    pub fn fetch(&self, archived: &ArchivedDay, to: &Path, on: &mut OnProgress<'_>) -> Result<(), ArchiveError> {
        let mut partial = to.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let fetched = self.fetch_to(archived, &partial, on).and_then(|()| {
            std::fs::rename(&partial, to).map_err(ArchiveError::io(to))?;
            to.parent().map_or(Ok(()), folder::sync)
        });
        if fetched.is_err() {
            // What is left is replaced the next time; that it goes now only frees its space.
            let _ = std::fs::remove_file(&partial);
        }
        fetched
    }

    fn fetch_to(&self, archived: &ArchivedDay, to: &Path, on: &mut OnProgress<'_>) -> Result<(), ArchiveError> {
        let mut file = private::create_anew(to).map_err(ArchiveError::io(to))?;
        let read =
            self.read_whole(archived, Phase::Fetch, on, |piece| file.write_all(piece).map_err(ArchiveError::io(to)));
        self.wait(read)?;
        daytable_platform::failpoint!("fetch-written");
        file.sync_all().map_err(ArchiveError::io(to))
    }

    /// Drops an archive: its manifest first, so that nothing is left that looks like one. What is gone already is gone.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Occupied`] where another archive has its name, which is left; whatever keeps the store from
    /// dropping it.
    pub fn drop_archive(&self, archived: &ArchivedDay) -> Result<(), ArchiveError> {
        let name = &archived.name;
        let there = self.wait(self.manifest_bytes(name))?;
        let another = there.and_then(|json| self.manifest_in(name, &json).ok());
        if let Some(there) = another.filter(|there| there.manifest.sha256 != archived.manifest.sha256) {
            let what = format!("it is an archive with the SHA-256 {}, another one", there.manifest.sha256);
            return Err(ArchiveError::Occupied { object: self.address(name, Part::Manifest), what });
        }
        for part in [Part::Manifest, Part::Data] {
            match self.wait(self.store().delete(&self.path(name, part))) {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(ArchiveError::of(self.address(name, part), error)),
            }
            if let Some(folder) = self.file(name, part).as_deref().and_then(Path::parent) {
                match folder::sync(folder) {
                    Err(ArchiveError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                    synced => synced?,
                }
            }
            daytable_platform::failpoint!("archive-dropping");
        }
        Ok(())
    }
}
