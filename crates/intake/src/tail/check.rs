//! A file that was read, looked at again: whether it still is what it was read as.

use super::file_content::{FileContent, FileStamp};
use super::follower::is_gone;
use super::identity::Likeness;
use super::search::{compare, copied, renamed};
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::path::{Path, PathBuf};

/// What a source's file is, as it is found now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileCheck {
    /// It has all that was read of it, or a copy beside it has, in which whoever follows it goes on.
    Same,
    /// It is no longer there, or the source is over or has no file.
    Nowhere,
    /// It ends before the position.
    Shorter {
        /// Where it is.
        path: PathBuf,
        /// Bytes of it.
        size: u64,
    },
    /// Its bytes are others than those that were read.
    Different {
        /// Where it is.
        path: PathBuf,
    },
    /// It cannot be read.
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// IgnoreReason.
        why: String,
    },
}

/// Looks at the file of a source: where it was seen last, or beside that under another name. Its head and the bytes before
/// its marks are read.
pub fn check(state: &SourceState) -> FileCheck {
    if state.kind == SourceKind::Journal || state.status == SourceStatus::Ended {
        return FileCheck::Nowhere;
    }
    let is_its = |stamp: &FileStamp| (stamp.device, stamp.inode) == (state.device, state.inode);
    let path = match FileStamp::at(&state.path) {
        Ok(Some(stamp)) if is_its(&stamp) => state.path.clone(),
        Ok(_) => match renamed(&state.path, state.device, state.inode) {
            Some((path, _)) => path,
            None => return FileCheck::Nowhere,
        },
        Err(error) if is_gone(&error) => match renamed(&state.path, state.device, state.inode) {
            Some((path, _)) => path,
            None => return FileCheck::Nowhere,
        },
        Err(error) => return FileCheck::Unreadable { path: state.path.clone(), why: error.to_string() },
    };
    compared(state, &path)
}

fn compared(state: &SourceState, path: &Path) -> FileCheck {
    let opened = FileContent::open(path).and_then(|(mut content, stamp)| Ok((compare(&mut content, state)?, stamp)));
    let path = path.to_path_buf();
    match opened {
        Ok((Likeness::Same, _)) => FileCheck::Same,
        Ok(_) if copied(state, &state.path, |_, _| false).is_some() => FileCheck::Same,
        Ok((_, stamp)) if stamp.size < state.position && !is_compressed(&path) => {
            FileCheck::Shorter { path, size: stamp.size }
        }
        Ok(_) => FileCheck::Different { path },
        Err(error) if is_gone(&error) => FileCheck::Nowhere,
        Err(error) => FileCheck::Unreadable { path, why: error.to_string() },
    }
}

/// Whether the size of a file does not tell how many bytes it has decoded.
fn is_compressed(path: &Path) -> bool {
    matches!(path.extension().and_then(|extension| extension.to_str()), Some("gz" | "zst"))
}
