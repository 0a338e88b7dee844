//! A file that was read, looked at again: whether it still is what it was read as.

use super::content::{Content, Facts};
use super::follower::is_gone;
use super::identity::Likeness;
use super::search::{compare, copied, renamed};
use daytable_store::{SourceKind, SourceState, SourceStatus};
use std::path::{Path, PathBuf};

/// What a source's file is, as it is found now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
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
        /// Why.
        why: String,
    },
}

/// Looks at the file of a source: where it was seen last, or beside that under another name. Its head and the bytes before
/// its marks are read.
pub fn check(state: &SourceState) -> Found {
    if state.kind == SourceKind::Journal || state.status == SourceStatus::Ended {
        return Found::Nowhere;
    }
    let is_its = |facts: &Facts| (facts.device, facts.inode) == (state.device, state.inode);
    let path = match Facts::at(&state.path) {
        Ok(Some(facts)) if is_its(&facts) => state.path.clone(),
        Ok(_) => match renamed(&state.path, state.device, state.inode) {
            Some((path, _)) => path,
            None => return Found::Nowhere,
        },
        Err(error) if is_gone(&error) => match renamed(&state.path, state.device, state.inode) {
            Some((path, _)) => path,
            None => return Found::Nowhere,
        },
        Err(error) => return Found::Unreadable { path: state.path.clone(), why: error.to_string() },
    };
    compared(state, &path)
}

fn compared(state: &SourceState, path: &Path) -> Found {
    let opened = Content::open(path).and_then(|(mut content, facts)| Ok((compare(&mut content, state)?, facts)));
    let path = path.to_path_buf();
    match opened {
        Ok((Likeness::Same, _)) => Found::Same,
        Ok(_) if copied(state, &state.path, |_, _| false).is_some() => Found::Same,
        Ok((_, facts)) if facts.size < state.position && !is_compressed(&path) => {
            Found::Shorter { path, size: facts.size }
        }
        Ok(_) => Found::Different { path },
        Err(error) if is_gone(&error) => Found::Nowhere,
        Err(error) => Found::Unreadable { path, why: error.to_string() },
    }
}

/// Whether the size of a file does not tell how many bytes it has decoded.
fn is_compressed(path: &Path) -> bool {
    matches!(path.extension().and_then(|extension| extension.to_str()), Some("gz" | "zst"))
}
