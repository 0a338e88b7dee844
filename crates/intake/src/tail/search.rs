//! Looks for the file of a source beside its old path: by device and inode after a rename, by its bytes after a copy or
//! a compression.

use super::file_content::{FileContent, FileStat};
use super::identity::{Fit, Likeness, MARK_BYTES_MAX, likeness};
use super::names::{is_made_from, is_next_of};
use daytable_parse::{ParseOptions, SourceProfile, Unwrapped};
use daytable_store::SourceState;
use memchr::memrchr;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// Compares the bytes of a file with those that were read from a source.
pub(super) fn compare(content: &mut FileContent, state: &SourceState) -> io::Result<Likeness> {
    let (head, marks) = content.fits(state.head, &state.marks)?;
    Ok(likeness(state, head, &marks))
}

/// The end of the last line that was read from a source and that its file still has, with a time of its own: no program
/// writes such a line a second time.
pub(super) fn last_timed_line(
    content: &mut FileContent,
    state: &SourceState,
    reading: &ParseOptions,
) -> io::Result<Option<u64>> {
    let (head, fits) = content.fits(state.head, &state.marks)?;
    if head != Fit::Equal {
        return Ok(None);
    }
    let mut bytes = [0; MARK_BYTES_MAX];
    for (mark, _) in state.marks.iter().zip(fits).rev().filter(|(_, fit)| *fit == Fit::Equal) {
        let window = &mut bytes[..mark.length as usize];
        content.read_at(mark.position - u64::from(mark.length), window)?;
        let Some(lines) = window.strip_suffix(b"\n") else { continue };
        let line = memrchr(b'\n', lines).map_or(lines, |newline| &lines[newline + 1..]);
        let line = String::from_utf8_lossy(line);
        let mut profile = SourceProfile::restore(&state.profile);
        let Unwrapped { text, envelope } = profile.unwrap(&line, reading);
        if profile.record(&text, envelope, reading, state.seen).record.time.is_some() {
            return Ok(Some(mark.position));
        }
    }
    Ok(None)
}

/// The path beside `path` that leads to the file with this device and inode. The folder is read twice if necessary: one
/// reading may miss a name that changes meanwhile.
pub(super) fn renamed(path: &Path, device: u64, inode: u64) -> Option<(PathBuf, FileStat)> {
    let look = || {
        let entries = folders(path).into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
        entries.filter(|entry| entry.ino() == inode).find_map(|entry| {
            let stat = FileStat::at(&entry.path()).ok().flatten()?;
            ((stat.device, stat.inode) == (device, inode)).then(|| (entry.path(), stat))
        })
    };
    look().or_else(look)
}

/// A copy of a source's file.
pub(super) struct CopyCandidate {
    pub(super) path: PathBuf,
    pub(super) content: FileContent,
    pub(super) stat: FileStat,
}

/// The file beside `path` that has everything that was read from a source, plain or compressed; the largest, if there
/// are several. `is_taken` excludes files of other sources.
pub(super) fn copied(
    state: &SourceState,
    path: &Path,
    is_taken: impl Fn(&mut FileContent, &FileStat) -> bool,
) -> Option<CopyCandidate> {
    let mut best: Option<CopyCandidate> = None;
    for candidate in relatives(state, path) {
        let Ok((mut content, stat)) = FileContent::open(&candidate) else { continue };
        if stat.is_file_of(state)
            || !matches!(compare(&mut content, state), Ok(Likeness::Same))
            || is_taken(&mut content, &stat)
        {
            continue;
        }
        let rank = |content: &FileContent, stat: &FileStat| (!content.is_compressed(), stat.size);
        if best.as_ref().is_none_or(|best| rank(&best.content, &best.stat) < rank(&content, &stat)) {
            best = Some(CopyCandidate { path: candidate, content, stat });
        }
    }
    best
}

/// Files beside `path` whose names may be derived from the source's.
fn relatives(state: &SourceState, path: &Path) -> Vec<PathBuf> {
    let names: BTreeSet<_> = [state.path.file_name(), path.file_name()].into_iter().flatten().collect();
    let entries = folders(path).into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let is_relative = |name: &std::ffi::OsStr| names.iter().any(|old| is_made_from(old, name) || is_next_of(old, name));
    entries.filter(|entry| is_relative(&entry.file_name())).map(|entry| entry.path()).collect()
}

/// The folder of a path, and the folder of the target of a link.
fn folders(path: &Path) -> BTreeSet<PathBuf> {
    let real = std::fs::canonicalize(path).ok();
    [Some(path.to_path_buf()), real]
        .into_iter()
        .flatten()
        .filter_map(|path| path.parent().map(Path::to_path_buf))
        .collect()
}
