//! Small files of state beside the catalog. Whoever owns the state knows its content; this module owns the files.
//!
//! A file is replaced as a whole, so it has one state or the next. A backup has none of these files: a folder that comes
//! from a backup must neither resolve nor repeat what was alerted since, it was not verified, and what was published since is
//! not its own; credentials of this host are not part of its records.

use crate::StoreError;
use crate::private_file;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest file that is read.
const STATE_BYTES_MAX: u64 = 64 << 20;

/// A file of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFile {
    /// `alerts.json`: how far the alerts were evaluated.
    Alerts,
    /// `alert-deliveries.json`: which actions were told of which alerts.
    AlertDeliveries,
    /// `verified.json`: what the last daily verification found.
    Verified,
    /// `published.json`: which change of the table of its archives each table made last with its open days.
    Published,
    /// `forward-credentials.json`: the credentials of this host that took the place of those in its configuration.
    ForwardCredentials,
}

impl StateFile {
    fn path_in(self, data_dir: &Path) -> PathBuf {
        data_dir.join(match self {
            StateFile::Alerts => "alerts.json",
            StateFile::AlertDeliveries => "alert-deliveries.json",
            StateFile::Verified => "verified.json",
            StateFile::Published => "published.json",
            StateFile::ForwardCredentials => "forward-credentials.json",
        })
    }

    /// The bytes of the last state, if there is one.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is larger than 64 MiB.
    pub fn read(self, data_dir: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path_in(data_dir);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(StoreError::io(&path))?,
        };
        let mut bytes = Vec::new();
        file.take(STATE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(StoreError::io(&path))?;
        if bytes.len() as u64 > STATE_BYTES_MAX {
            return Err(StoreError::Foreign(path, "it is too large".into()));
        }
        Ok(Some(bytes))
    }

    /// Replaces the state.
    ///
    /// # Errors
    ///
    /// The disk refuses it; the old state stays.
    pub fn write(self, data_dir: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        private_file::replace(&self.path_in(data_dir), bytes)
    }
}
