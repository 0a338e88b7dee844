//! Positions of other collectors: where they stopped, so that daytable begins there.
//!
//! | who | what is read | a file is known by |
//! |---|---|---|
//! | Promtail, Alloy | `positions.yaml`, `positions.yml` | its path |
//! | Filebeat | the registry's folder: `log.json`, the checkpoint that `active.dat` names | device and inode, or fingerprint, or path |
//! | Vector | `checkpoints.json` of a `file` source | device and inode, or a checksum of its first lines |
//! | Fluent Bit | the `DB` of a `tail` input (SQLite) | inode and name |
//!
//! Here is what they wrote, and nothing else: [`crate::tail`] finds the file, verifies it and makes a source of it. What is
//! not understood in their files is an error with its place; nothing is guessed. A position of no file (a journal's cursor) is
//! left out.

mod filebeat;
mod fluent_bit;
mod positions;
mod vector;

pub(crate) use vector::crc64;

use daytable_model::path_text::PathText;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of a file of positions at most: a hundred thousand files take some ten million.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Whose positions.
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

/// How a file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileReference {
    /// By where it is alone.
    Path(PathBuf),
    /// By device and inode; where it was, if that is said.
    Inode {
        /// None where only the inode is known.
        device: Option<u64>,
        /// The inode.
        inode: u64,
        /// Where it was.
        path: Option<PathBuf>,
    },
    /// By the SHA-256 of some of its bytes (Filebeat's fingerprint: 1,024 from its start, unless configured otherwise).
    Sha256 {
        /// In hex.
        digest: String,
        /// Where it was.
        path: Option<PathBuf>,
    },
    /// By the CRC-64 (ECMA-182) of its first line (Vector's fingerprint, unless configured otherwise).
    FirstLine(u64),
}

/// How far a file was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPosition {
    /// Which file.
    pub file: FileReference,
    /// Offset of the first byte that was not.
    pub offset: u64,
}

/// Why positions are not read.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The file cannot be read.
    #[error("failed to read {}: {source}", .path.escaped())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not what its collector writes.
    #[error("{path}: {what}")]
    Format {
        /// The file, and the line where there is one.
        path: String,
        /// What is wrong.
        what: String,
    },
}

impl Collector {
    /// Reads what it left at `path`.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, or is not understood.
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
        Collector::Promtail => positions::parse(text).map_err(|(_, what)| what),
        Collector::Filebeat => filebeat::parse(text).map_err(|(_, what)| what),
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

fn format(path: impl std::fmt::Display, what: impl Into<String>) -> AdoptError {
    AdoptError::Format { path: path.to_string(), what: what.into() }
}
