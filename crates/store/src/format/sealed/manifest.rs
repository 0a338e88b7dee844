//! The manifest of a sealed day: JSON beside its file, what an archive is matched against.
//!
//! `Log20261120.1.manifest.json` belongs to `Log20261120.1.parquet`. Numbers that may be larger than JavaScript's are
//! text: checksums and keys. Unknown fields are passed over, so a later version may say more.

use super::{EXTENSION, FORMAT, layout::PropertyColumn};
use crate::StoreError;
use crate::private_file;
use crate::sqlite::sync_folder;
use daytable_model::key::DayTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The end of a manifest's name.
const MANIFEST: &str = ".manifest.json";
/// Bytes of a manifest at most: 512 columns with the longest names are half of it.
const BYTES_MAX: usize = 1 << 20;

/// What a sealed day is: see the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of file and manifest: [`FORMAT`].
    pub format: u32,
    /// The day-table, as `Log20261120`.
    pub table: String,
    /// Which sealing of that day it is, from 1.
    pub generation: i64,
    /// Entities in it, items included.
    pub rows: u64,
    /// Records in it: entities that are no items.
    pub records: u64,
    /// Bytes of the Parquet file.
    pub bytes: u64,
    /// SHA-256 of the Parquet file, in lower-case hexadecimal.
    pub sha256: String,
    /// Checksum over the content of every entity in the order of their keys, 16 hexadecimal digits. Two files with the
    /// same entities have the same, however they are encoded.
    pub content: String,
    /// PartitionKey and RowKey of the first entity; none in an empty day.
    pub first_key: Option<(String, String)>,
    /// PartitionKey and RowKey of the last entity.
    pub last_key: Option<(String, String)>,
    /// The oldest time, RFC 3339.
    pub first_time: Option<String>,
    /// The newest time, RFC 3339.
    pub last_time: Option<String>,
    /// Records by level; those without one under the empty name.
    pub levels: BTreeMap<String, u64>,
    /// The columns that hold properties, in the order of the file.
    pub columns: Vec<PropertyColumn>,
    /// The program that wrote it, as `daytable 0.1.0`.
    pub program: String,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON, or not of this form.
    #[error("the manifest is damaged: {0}")]
    Damaged(String),
    /// Written by a newer daytable.
    #[error("the manifest has format {0}, this daytable knows {FORMAT} and older: use a newer daytable")]
    NewerFormat(u32),
}

impl Manifest {
    /// The path of the manifest that belongs to a sealed file.
    pub fn path_of(sealed: &Path) -> PathBuf {
        let name = sealed.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.strip_suffix(EXTENSION).unwrap_or(&name);
        sealed.with_file_name(format!("{stem}{MANIFEST}"))
    }

    /// Reads the text of a manifest.
    pub fn from_json(json: &[u8]) -> Result<Manifest, ManifestError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let damaged = |error: serde_json::Error| ManifestError::Damaged(error.to_string());
        if json.len() > BYTES_MAX {
            return Err(ManifestError::Damaged(format!("it has more than {BYTES_MAX} bytes")));
        }
        let Format { format } = serde_json::from_slice(json).map_err(damaged)?;
        if format > FORMAT {
            return Err(ManifestError::NewerFormat(format));
        }
        let manifest: Manifest = serde_json::from_slice(json).map_err(damaged)?;
        DayTable::parse(&manifest.table).map_err(|error| ManifestError::Damaged(error.to_string()))?;
        Ok(manifest)
    }

    /// Its text, as it is written.
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps with text for keys always have a JSON form.
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }

    /// Reads the manifest beside a sealed file.
    pub fn read_beside(sealed: &Path) -> Result<Manifest, StoreError> {
        let path = Manifest::path_of(sealed);
        let json = std::fs::read(&path).map_err(StoreError::io(&path))?;
        Manifest::from_json(&json).map_err(|error| StoreError::Foreign(path, error.to_string()))
    }

    /// Writes it beside a sealed file, durably: under another name first, so that it is whole or not there.
    pub fn write_beside(&self, sealed: &Path) -> Result<(), StoreError> {
        let path = Manifest::path_of(sealed);
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let written = private_file::create_anew(&partial).and_then(|mut file| {
            file.write_all(self.to_json().as_bytes())?;
            file.sync_all()
        });
        written.map_err(StoreError::io(&partial))?;
        std::fs::rename(&partial, &path).map_err(StoreError::io(&path))?;
        sync_folder(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_lies_beside_its_file() {
        let path = Manifest::path_of(Path::new("/data/tables/Log20261120.1.parquet"));
        assert_eq!(path, Path::new("/data/tables/Log20261120.1.manifest.json"));
    }

    #[test]
    fn what_is_no_manifest_is_refused_with_the_reason() {
        for (json, reason) in [
            ("", "damaged"),
            ("[]", "damaged"),
            ("{\"format\":1}", "missing field `table`"),
            ("{\"format\":2}", "use a newer daytable"),
        ] {
            let error = Manifest::from_json(json.as_bytes()).expect_err(json);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
