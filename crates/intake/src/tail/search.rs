//! Looks for the file of a source beside its old path: by device and inode after a rename, by its bytes after a copy or
//! a compression.

use super::file_content::{FileContent, FileStat, is_out_of_descriptors};
use super::identity::{Fit, Likeness, MARK_BYTES_MAX, likeness};
use super::names::{is_made_from, is_next_of};
use daytable_model::time::Ticks;
use daytable_parse::{ParseOptions, SourceProfile, Unwrapped};
use daytable_store::{Mark, SourceState};
use memchr::memrchr;
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io;
use std::ops::Range;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

/// Bytes that are compared at once.
const COMPARED_BYTES: usize = 64 << 10;

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
        if time_of_line(line, state, reading).is_some() {
            return Ok(Some(mark.position));
        }
    }
    Ok(None)
}

/// The start of the last line with a time that was read from a source and that a file without the newest lines still has.
///
/// None for a file that has other lines instead: more than [`MARK_BYTES_MAX`] behind that line, a line differs from what
/// was read, and is not newer than all that was read. Its records would replace those of the same time at their places.
pub(super) fn before_missing_lines(
    content: &mut FileContent,
    state: &SourceState,
    reading: &ParseOptions,
) -> io::Result<Option<u64>> {
    let Some(newest) = state.last_time else { return Ok(None) };
    let (head, fits) = content.fits(state.head, &state.marks)?;
    if !matches!(likeness(state, head, &fits), Likeness::Shorter | Likeness::Parted { .. }) {
        return Ok(None);
    }
    let mut last_timed_line = |mark: &Mark| -> io::Result<Option<(u64, Ticks)>> {
        let mut bytes = [0; MARK_BYTES_MAX];
        let window = &mut bytes[..mark.length as usize];
        let start = mark.position - u64::from(mark.length);
        content.read_at(start, window)?;
        let line = last_whole_line(window, start == 0);
        let time = line.clone().and_then(|line| time_of_line(&window[line], state, reading));
        Ok(line.zip(time).map(|(line, time)| (start + line.start as u64, time)))
    };
    let known = state.marks.iter().zip(&fits).rev().filter(|(_, fit)| **fit == Fit::Equal).map(|(mark, _)| mark);
    let mut found = None;
    for mark in known.chain([&state.head]) {
        if let Some((start, _)) = last_timed_line(mark)? {
            found = Some((start, mark.position));
            break;
        }
    }
    let Some((start, end)) = found else { return Ok(None) };
    let is_far = |mark: &Mark| mark.position > end + MARK_BYTES_MAX as u64;
    for (mark, _) in state.marks.iter().zip(&fits).filter(|(mark, fit)| **fit == Fit::Different && is_far(mark)) {
        if last_timed_line(mark)?.is_none_or(|(_, time)| time <= newest) {
            return Ok(None);
        }
    }
    Ok(Some(start))
}

/// The last line with both its ends in `window`. `is_beginning` tells whether the window begins with a line.
fn last_whole_line(window: &[u8], is_beginning: bool) -> Option<Range<usize>> {
    let end = memrchr(b'\n', window)?;
    let before = memrchr(b'\n', &window[..end]).map(|newline| newline + 1);
    Some(before.or(is_beginning.then_some(0))?..end)
}

/// The time of a line of a source, if the line has one.
pub(super) fn time_of_line(line: &[u8], state: &SourceState, reading: &ParseOptions) -> Option<Ticks> {
    let line = String::from_utf8_lossy(line);
    let mut profile = SourceProfile::restore(&state.profile);
    let Unwrapped { text, envelope } = profile.unwrap(&line, reading);
    profile.record(&text, envelope, reading, state.seen).record.time
}

/// Whether a file equals the beginning of a source's own file, which is at its path and has everything that was read.
pub(super) fn is_beginning_of_original(content: &mut FileContent, state: &SourceState) -> io::Result<Option<bool>> {
    let Ok((mut original, stat)) = FileContent::open(&state.path) else { return Ok(None) };
    if !stat.is_file_of(state) || !matches!(compare(&mut original, state), Ok(Likeness::Same)) {
        return Ok(None);
    }
    let (mut one, mut two) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    let mut offset = 0;
    loop {
        let n = content.read_at(offset, &mut one)?;
        let m = original.read_at(offset, &mut two[..n])?;
        if one[..n] != two[..m] {
            return Ok(Some(false));
        }
        if n < COMPARED_BYTES {
            return Ok(Some(true));
        }
        offset += n as u64;
    }
}

/// The path beside `path` that leads to the file with this device and inode. The folder is read twice if necessary: one
/// reading may miss a name that changes meanwhile.
///
/// # Errors
///
/// No folder can be listed for now, so it is not known where the file is.
pub(super) fn renamed(path: &Path, device: u64, inode: u64) -> io::Result<Option<(PathBuf, FileStat)>> {
    let look = || {
        let entries = entries_beside(path)?;
        Ok(entries.into_iter().filter(|entry| entry.ino() == inode).find_map(|entry| {
            let stat = FileStat::at(&entry.path()).ok().flatten()?;
            ((stat.device, stat.inode) == (device, inode)).then(|| (entry.path(), stat))
        }))
    };
    match look()? {
        None => look(),
        found => Ok(found),
    }
}

/// A copy of a source's file.
pub(super) struct CopyCandidate {
    pub(super) path: PathBuf,
    pub(super) content: FileContent,
    pub(super) stat: FileStat,
}

/// The file beside `path` that has everything that was read from a source, plain or compressed; the largest, if there
/// are several. `is_taken` excludes files of other sources.
///
/// # Errors
///
/// Nothing can be opened for now, so it is not known whether there is a copy.
pub(super) fn copied(
    state: &SourceState,
    path: &Path,
    is_taken: impl Fn(&mut FileContent, &FileStat) -> bool,
) -> io::Result<Option<CopyCandidate>> {
    let mut best: Option<CopyCandidate> = None;
    for candidate in relatives(state, path)? {
        let (mut content, stat) = match FileContent::open(&candidate) {
            Ok(opened) => opened,
            Err(error) if is_out_of_descriptors(&error) => return Err(error),
            Err(_) => continue,
        };
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
    Ok(best)
}

/// Files beside `path` whose names may be derived from the source's.
fn relatives(state: &SourceState, path: &Path) -> io::Result<Vec<PathBuf>> {
    let names: BTreeSet<_> = [state.path.file_name(), path.file_name()].into_iter().flatten().collect();
    let is_relative = |name: &std::ffi::OsStr| names.iter().any(|old| is_made_from(old, name) || is_next_of(old, name));
    let entries = entries_beside(path)?.into_iter();
    Ok(entries.filter(|entry| is_relative(&entry.file_name())).map(|entry| entry.path()).collect())
}

/// The entries of the [folders] of a path. One that is not there, or may not be read, has none.
fn entries_beside(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for folder in folders(path) {
        match std::fs::read_dir(folder) {
            Ok(listed) => entries.extend(listed.flatten()),
            Err(error) if is_out_of_descriptors(&error) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(entries)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Runs in a process of its own, whose descriptors can be used up.
    #[test]
    fn a_file_is_not_gone_where_its_folder_cannot_be_listed() {
        const IS_CHILD: &str = "SEARCH_TESTS_FEW_DESCRIPTORS";
        if std::env::var_os(IS_CHILD).is_none() {
            let name = concat!(module_path!(), "::a_file_is_not_gone_where_its_folder_cannot_be_listed");
            let mut child = Command::new("/bin/sh");
            child.args(["-c", "ulimit -n 32; exec \"$0\" --exact \"$1\" --nocapture"]);
            child.arg(std::env::current_exe().expect("a path")).arg(name.split_once("::").expect("a crate").1);
            let output = child.env(IS_CHILD, "1").output().expect("run");
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let (before, now) = (folder.path().join("app.log"), folder.path().join("app.log.1"));
        std::fs::write(&now, "a line\n").expect("written");
        let stat = FileStat::at(&now).expect("a state").expect("a file");
        let find = || renamed(&before, stat.device, stat.inode).map(|found| found.map(|(path, _)| path));
        let mut held = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            held.push(file);
        }
        let without = find();
        drop(held);
        assert!(without.is_err_and(|error| is_out_of_descriptors(&error)));
        assert_eq!(find().expect("listed"), Some(now));
    }
}
