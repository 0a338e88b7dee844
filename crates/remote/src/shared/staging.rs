//! The temporary folder of a step, beside the data. A kill leaves the folder behind, and the next step removes it.

use daytable_store::StoreError;
use std::path::{Path, PathBuf};

/// Name of the folder beside the catalog.
const STAGING: &str = "staging";

/// A temporary folder, removed on drop.
pub(super) struct Staging(PathBuf);

impl Staging {
    /// Creates an empty folder.
    pub(super) fn new(data_dir: &Path) -> Result<Staging, StoreError> {
        let path = data_dir.join(STAGING);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(&path)(error)),
            _ => {}
        }
        std::fs::create_dir(&path).map_err(StoreError::io(&path))?;
        Ok(Staging(path))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // A leftover folder is removed before the next use.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the folder of a killed run.
pub(super) fn clear(data_dir: &Path) {
    drop(Staging(data_dir.join(STAGING)));
}
