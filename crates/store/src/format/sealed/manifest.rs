//! The manifest of a sealed day: JSON beside its file, against which an archive is compared.
//!
//! `Log20261120.1.manifest.json` belongs to `Log20261120.1.parquet`. Checksums and keys are text, because
//! JavaScript's numbers are too small. Unknown fields are ignored, so that a later version may add some.

use super::super::commit_range::SealedCommits;
use super::{EXTENSION, FORMAT, layout::PropertyColumn};
use crate::StoreError;
use crate::format::forward_position::FolderOrigin;
use crate::private_file;
use crate::sqlite::sync_folder;
use daytable_model::key::DayTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The suffix of a manifest's name.
const MANIFEST: &str = ".manifest.json";
/// Maximum bytes of a manifest: 512 columns with the longest names have half of it.
const BYTES_MAX: usize = 1 << 20;

/// The description of a sealed day; see the module's head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format of file and manifest: [`FORMAT`].
    pub format: u32,
    /// The day-table, as `Log20261120`.
    pub table: String,
    /// The number of the sealing of that day, from 1.
    pub generation: i64,
    /// Number of entities, including items.
    pub rows: u64,
    /// Number of records: entities that are not items.
    pub records: u64,
    /// Bytes of the Parquet file.
    pub bytes: u64,
    /// SHA-256 of the Parquet file, in lower-case hexadecimal.
    pub sha256: String,
    /// The content checksum: over every entity in the order of the keys, 16 hexadecimal digits. Files with the same
    /// entities have the same checksum, in any encoding.
    pub content: String,
    /// PartitionKey and RowKey of the first entity; `None` for an empty day.
    pub first_key: Option<(String, String)>,
    /// PartitionKey and RowKey of the last entity.
    pub last_key: Option<(String, String)>,
    /// The oldest time, RFC 3339.
    pub first_time: Option<String>,
    /// The newest time, RFC 3339.
    pub last_time: Option<String>,
    /// When its rows arrived; `None` if that is not known, as of a table that was read from a remote store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<SealedCommits>,
    /// Records by level; those without a level under the empty name.
    pub levels: BTreeMap<String, u64>,
    /// The columns of properties, in the order of the file.
    pub columns: Vec<PropertyColumn>,
    /// The program that wrote the file, as `daytable 0.1.0`.
    pub program: String,
    /// Whose day it is; `None` beside a sealed file, which lies in the folder of its daytable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<ArchiveHome>,
}

/// Whose day an archive has: days of many daytables lie at one address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArchiveHome {
    /// The name of the host: 1 to [`ArchiveHome::HOST_CHARS_MAX`] letters, digits, `-`, `_` and `.`, as it stands in paths.
    host: String,
    /// The folder of the daytable. Two folders of one host, or two hosts of one name, differ in it.
    origin: FolderOrigin,
}

impl ArchiveHome {
    /// Maximum characters of a host in a path.
    pub const HOST_CHARS_MAX: usize = 64;

    /// A home. Characters of `host` that a path does not have become `-`.
    pub fn new(host: &str, origin: FolderOrigin) -> ArchiveHome {
        let plain = host.chars().take(ArchiveHome::HOST_CHARS_MAX);
        let host: String = plain.map(|c| if is_of_host(c) { c } else { '-' }).collect();
        // A segment of dots alone would be a folder.
        let is_name = host.contains(|c| c != '.');
        ArchiveHome { host: if is_name { host } else { "localhost".into() }, origin }
    }

    /// The name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The folder of the daytable.
    pub fn origin(&self) -> FolderOrigin {
        self.origin
    }

    /// Whether the host's name can stand in a path. What was read from elsewhere may be anything.
    pub fn is_valid(&self) -> bool {
        ArchiveHome::new(&self.host, self.origin) == *self
    }
}

fn is_of_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON, or not a manifest.
    #[error("the manifest is damaged: {0}")]
    Damaged(String),
    /// Written by a newer daytable.
    #[error("the manifest has format {0}, but this daytable knows formats up to {FORMAT}: use a newer daytable")]
    NewerFormat(u32),
    /// Of before the first release.
    #[error("the manifest has format {0}, of before the first release, but this daytable reads formats from {FORMAT}")]
    OlderFormat(u32),
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
        struct FormatField {
            format: u32,
        }
        let damaged = |error: serde_json::Error| ManifestError::Damaged(error.to_string());
        if json.len() > BYTES_MAX {
            return Err(ManifestError::Damaged(format!("it has more than {BYTES_MAX} bytes")));
        }
        let FormatField { format } = serde_json::from_slice(json).map_err(damaged)?;
        if format > FORMAT {
            return Err(ManifestError::NewerFormat(format));
        }
        if format < FORMAT {
            return Err(ManifestError::OlderFormat(format));
        }
        let manifest: Manifest = serde_json::from_slice(json).map_err(damaged)?;
        DayTable::parse(&manifest.table).map_err(|error| ManifestError::Damaged(error.to_string()))?;
        Ok(manifest)
    }

    /// The manifest as JSON text.
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps with text keys always have a JSON form.
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

    /// Writes the manifest beside a sealed file durably, under a temporary name first, so that it is whole or
    /// missing.
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
    fn a_manifest_is_beside_its_file() {
        let path = Manifest::path_of(Path::new("/data/tables/Log20261120.1.parquet"));
        assert_eq!(path, Path::new("/data/tables/Log20261120.1.manifest.json"));
    }

    #[test]
    fn malformed_manifests_are_refused_with_the_reason() {
        for (json, reason) in [
            ("", "damaged"),
            ("[]", "damaged"),
            ("{\"format\":2}", "missing field `table`"),
            ("{\"format\":3}", "use a newer daytable"),
            ("{\"format\":1}", "of before the first release"),
        ] {
            let error = Manifest::from_json(json.as_bytes()).expect_err(json);
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
