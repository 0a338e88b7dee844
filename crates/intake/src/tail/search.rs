//! Looking for a source's file beside its old path: by device and inode where it was renamed, by its bytes where it
//! was copied or compressed.

use super::file_content::{FileContent, FileStamp};
use super::identity::{Likeness, likeness};
use super::names::{is_made_from, is_next_of};
use daytable_store::SourceState;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// How the bytes of a file compare with those that were read from a source.
pub(super) fn compare(content: &mut FileContent, state: &SourceState) -> io::Result<Likeness> {
    let (head, marks) = content.fits(state.head, &state.marks)?;
    Ok(likeness(state, head, &marks))
}

/// The path in the folders of `path` that leads to the file of this device and inode. It is looked for once more where it
/// was not found: a name that is changed while a folder is read may be in none of what is read.
pub(super) fn renamed(path: &Path, device: u64, inode: u64) -> Option<(PathBuf, FileStamp)> {
    let look = || {
        let entries = folders(path).into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        entries.filter(|entry| entry.ino() == inode).find_map(|entry| {
            let stamp = FileStamp::at(&entry.path()).ok().flatten()?;
            ((stamp.device, stamp.inode) == (device, inode)).then(|| (entry.path(), stamp))
        })
    };
    look().or_else(look)
}

/// A file that was found.
pub(super) struct CopyCandidate {
    pub(super) path: PathBuf,
    pub(super) content: FileContent,
    pub(super) stamp: FileStamp,
}

/// The file beside `path` that has all that was read from a source: a copy of it, plain or compressed. The one with
/// most bytes, where there are several. `is_taken` says which files are someone else's.
pub(super) fn copied(
    state: &SourceState,
    path: &Path,
    is_taken: impl Fn(&mut FileContent, &FileStamp) -> bool,
) -> Option<CopyCandidate> {
    let mut best: Option<CopyCandidate> = None;
    for candidate in relatives(state, path) {
        let Ok((mut content, stamp)) = FileContent::open(&candidate) else { continue };
        if (stamp.device, stamp.inode) == (state.device, state.inode)
            || !matches!(compare(&mut content, state), Ok(Likeness::Same))
            || is_taken(&mut content, &stamp)
        {
            continue;
        }
        let rank = |content: &FileContent, stamp: &FileStamp| (!content.is_compressed(), stamp.size);
        if best.as_ref().is_none_or(|best| rank(&best.content, &best.stamp) < rank(&content, &stamp)) {
            best = Some(CopyCandidate { path: candidate, content, stamp });
        }
    }
    best
}

/// Files in the folders of `path` whose names may have been made from the source's.
fn relatives(state: &SourceState, path: &Path) -> Vec<PathBuf> {
    let names: BTreeSet<_> = [state.path.file_name(), path.file_name()].into_iter().flatten().collect();
    let entries = folders(path).into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_relative = |name: &std::ffi::OsStr| names.iter().any(|old| is_made_from(old, name) || is_next_of(old, name));
    entries.filter(|entry| is_relative(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// The folder of a path, and that of what it links to.
fn folders(path: &Path) -> BTreeSet<PathBuf> {
    let real = std::fs::canonicalize(path).ok();
    [Some(path.to_path_buf()), real]
        .into_iter()
        .flatten()
        .filter_map(|path| path.parent().map(Path::to_path_buf))
        .collect()
}
