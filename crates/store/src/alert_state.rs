//! `alerts.json`: how far the alerts were evaluated, beside the catalog.
//!
//! The crate that evaluates alerts owns the content; this module owns the file. The file is replaced as a whole, so it has
//! the state after one evaluation or after the next. A backup does not have it: a folder that comes from a backup must not
//! resolve or repeat what was alerted since.

use crate::StoreError;
use crate::private_file;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest file that is read.
const STATE_BYTES_MAX: u64 = 64 << 20;

fn path_in(data_dir: &Path) -> PathBuf {
    data_dir.join("alerts.json")
}

/// The bytes of the last state, if there is one.
///
/// # Errors
///
/// The file cannot be read, or is larger than 64 MiB.
pub fn read(data_dir: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    let path = path_in(data_dir);
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
pub fn write(data_dir: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    private_file::replace(&path_in(data_dir), bytes)
}
