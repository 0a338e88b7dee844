//! Whether a file still has the bytes that were read from it.

use super::file_content::{FileContent, FileStat};
use super::follower::is_gone;
use super::identity::Likeness;
use super::search::{compare, copied, renamed};
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::path::{Path, PathBuf};

/// The state of a source's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCheck {
    /// The file, or a copy beside it, has all bytes that were read.
    Same,
    /// The file is gone, or the source has ended or has no file.
    Nowhere,
    /// The file ends before the position.
    Shorter {
        /// Its path.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// The file has other bytes than the source.
    Different {
        /// Its path.
        path: PathBuf,
    },
    /// The file cannot be read.
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// The error.
        why: String,
    },
}

/// Compares the file of a source, at its last path or renamed beside it, with the head and the marks of the source.
pub fn check(state: &SourceState) -> FileCheck {
    if state.kind == SourceKind::Journal || state.status == SourceStatus::Ended {
        return FileCheck::Nowhere;
    }
    let is_its = |stat: &FileStat| stat.is_file_of(state);
    let path = match FileStat::at(&state.path) {
        Ok(Some(stat)) if is_its(&stat) => state.path.clone(),
        Err(error) if !is_gone(&error) => {
            return FileCheck::Unreadable { path: state.path.clone(), why: error.to_string() };
        }
        _ => match renamed(&state.path, state.device, state.inode) {
            Ok(Some((path, _))) => path,
            Ok(None) => return FileCheck::Nowhere,
            Err(error) => return FileCheck::Unreadable { path: state.path.clone(), why: error.to_string() },
        },
    };
    compared(state, &path)
}

fn compared(state: &SourceState, path: &Path) -> FileCheck {
    let opened = FileContent::open(path).and_then(|(mut content, stat)| Ok((compare(&mut content, state)?, stat)));
    let path = path.to_path_buf();
    match opened {
        Ok((Likeness::Same, _)) => FileCheck::Same,
        Ok(_) if matches!(copied(state, &state.path, |_, _| false), Ok(Some(_))) => FileCheck::Same,
        Ok((_, stat)) if stat.size < state.position && !is_compressed(&path) => {
            FileCheck::Shorter { path, size: stat.size }
        }
        Ok(_) => FileCheck::Different { path },
        Err(error) if is_gone(&error) => FileCheck::Nowhere,
        Err(error) => FileCheck::Unreadable { path, why: error.to_string() },
    }
}

/// Whether the file is compressed, so that its size is not the number of decoded bytes.
fn is_compressed(path: &Path) -> bool {
    matches!(path.extension().and_then(|extension| extension.to_str()), Some("gz" | "zst"))
}
