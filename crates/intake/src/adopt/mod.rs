//! Positions of other collectors: daytable resumes reading where the other collector stopped.
//!
//! | collector | file | identity of a log file |
//! |---|---|---|
//! | Promtail, Alloy | `positions.yaml`, `positions.yml` | its path |
//! | Filebeat | the registry's folder: `log.json`, the checkpoint that `active.dat` names | device and inode, or fingerprint, or path |
//! | Vector | `checkpoints.json` of a `file` source | device and inode, or a checksum of its first lines |
//! | Fluent Bit | the `DB` of a `tail` input (SQLite) | inode and name |
//!
//! This module only parses the positions. [`crate::tail`] finds and verifies each log file. An unknown form is an
//! error with its place, never a guess. A position outside files (the cursor of a journal) is skipped.

mod filebeat;
mod fluent_bit;
mod positions;
mod vector;

pub(crate) use vector::crc64;

use daytable_model::path_text::PathText;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum bytes of a file of positions. A hundred thousand log files need some ten million bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Another collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collector {
    /// Promtail, or Grafana Alloy.
    Promtail,
    /// Filebeat.
    Filebeat,
    /// Vector.
    Vector,
    /// Fluent Bit.
    FluentBit,
}

/// The identity of a log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReference {
    /// The path.
    Path(PathBuf),
    /// Device and inode.
    Inode {
        /// `None` if only the inode is known.
        device: Option<u64>,
        /// The inode.
        inode: u64,
        /// The last known path.
        path: Option<PathBuf>,
    },
    /// The SHA-256 of some bytes (Filebeat's fingerprint: the first 1,024 bytes by default).
    Sha256 {
        /// In hex.
        digest: String,
        /// The last known path.
        path: Option<PathBuf>,
    },
    /// The CRC-64 (ECMA-182) of the first line (Vector's default fingerprint).
    FirstLine(u64),
}

/// The position of another collector in a log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPosition {
    /// The log file.
    pub file: FileReference,
    /// The offset of the first unread byte.
    pub offset: u64,
}

/// Why positions cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The file cannot be read.
    #[error("failed to read {}: {source}", .path.escaped())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file has an unknown form.
    #[error("{path}: {reason}")]
    Format {
        /// The file, and the line if known.
        path: String,
        /// The error.
        reason: String,
    },
}

impl Collector {
    /// Reads the positions at `path`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has an unknown form.
    pub fn positions(self, path: &Path) -> Result<Vec<SavedPosition>, AdoptError> {
        match self {
            Collector::Promtail => positions::read(path),
            Collector::Filebeat => filebeat::read(path),
            Collector::Vector => vector::read(path),
            Collector::FluentBit => fluent_bit::read(path),
        }
    }
}

/// Reads `text` as the positions of this collector. Fluent Bit keeps them in a database, so its text has no positions.
#[cfg(feature = "testing")]
pub fn parse_positions(peer: Collector, text: &str) -> Result<Vec<SavedPosition>, String> {
    match peer {
        Collector::Promtail => positions::parse(text).map_err(|(_, reason)| reason),
        Collector::Filebeat => filebeat::parse(text).map_err(|(_, reason)| reason),
        Collector::Vector => vector::parse(text),
        Collector::FluentBit => Ok(Vec::new()),
    }
}

fn text(path: &Path) -> Result<String, AdoptError> {
    let failed = |source| AdoptError::Io { path: path.into(), source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FILE_BYTES_MAX {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    std::fs::read_to_string(path).map_err(failed)
}

fn format(path: impl std::fmt::Display, reason: impl Into<String>) -> AdoptError {
    AdoptError::Format { path: path.to_string(), reason: reason.into() }
}
