//! Files that are not read: for now, or for good.

use super::file_content::FileStat;
use super::options::TailTimings;
use daytable_model::path_text::PathText;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Why a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreReason {
    /// The file has no whole first line, so it cannot be identified. `is_rotated`: it was renamed in that state.
    NoWholeLine { is_rotated: bool },
    /// There are zeros in its first line, before other bytes: it may still be written. `is_rotated` as above.
    Zeros { is_rotated: bool },
    /// The file is a copy, and everything in it is read from the original.
    Copy,
    /// The file may become a copy of another file.
    Unfinished,
    /// The file is compressed, and continues no source.
    Compressed,
    /// The file is compressed, and the original still exists.
    Compressing,
    /// The output of this daemon is written to the file.
    OwnOutput,
    /// The file cannot be opened or read.
    Failed(std::io::ErrorKind),
}

/// A file that is not read, as it was at that decision.
#[derive(Clone, Debug)]
pub(super) struct IgnoredFile {
    pub(super) reason: IgnoreReason,
    pub(super) block: usize,
    pub(super) stat: FileStat,
    /// When the file was last seen to change.
    pub(super) changed: Instant,
    pub(super) checked: Instant,
    /// Since when it is ignored for this reason, and its size then.
    pub(super) since: Instant,
    pub(super) size_since: u64,
    /// The path from which the file was rotated, if that was before its discovery.
    pub(super) home: Option<PathBuf>,
}

/// The next action for an ignored file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoredAction {
    /// Leave it: it has not changed.
    Leave,
    /// Examine it again.
    Examine,
    /// Read it as its own source, whatever its content.
    Own,
    /// Read it as complete: its unfinished line is the only one.
    Complete,
    /// Read it although its first line has no end, which may still come.
    Unended,
    /// Examine it again: the zeros in its first line are final.
    ZerosFinal,
}

impl IgnoredFile {
    /// Whether the file waits for its first line.
    pub(super) fn has_no_whole_line(&self) -> bool {
        matches!(self.reason, IgnoreReason::NoWholeLine { .. } | IgnoreReason::Zeros { .. })
    }

    /// The action for the current `stat`. `unended_after`: how long a line without an end waits, in the block of the file.
    pub(super) fn next(
        &self,
        stat: &FileStat,
        now: Instant,
        timings: &TailTimings,
        unended_after: Option<Duration>,
    ) -> IgnoredAction {
        let quiet = now.saturating_duration_since(self.changed);
        let checked = now.saturating_duration_since(self.checked);
        let is_changed = !stat.is_same_content(&self.stat);
        match self.reason {
            IgnoreReason::Failed(_) if checked < timings.rescan => IgnoredAction::Leave,
            IgnoreReason::Failed(_) => IgnoredAction::Examine,
            IgnoreReason::OwnOutput if stat.is_same_file(&self.stat) => IgnoredAction::Leave,
            IgnoreReason::Zeros { is_rotated: false }
                if now.saturating_duration_since(self.since) >= timings.zeros_final =>
            {
                IgnoredAction::ZerosFinal
            }
            _ if is_changed => IgnoredAction::Examine,
            IgnoreReason::NoWholeLine { is_rotated: true } | IgnoreReason::Zeros { is_rotated: true }
                if quiet >= unended_after.unwrap_or(timings.line_final) && stat.size > 0 =>
            {
                IgnoredAction::Complete
            }
            IgnoreReason::NoWholeLine { is_rotated: false }
                if stat.size > 0 && unended_after.is_some_and(|after| quiet >= after) =>
            {
                IgnoredAction::Unended
            }
            IgnoreReason::Unfinished if quiet >= timings.copy_final => IgnoredAction::Own,
            // The original may be removed.
            IgnoreReason::Copy | IgnoreReason::Unfinished | IgnoreReason::Compressing if checked >= timings.rescan => {
                IgnoredAction::Examine
            }
            _ => IgnoredAction::Leave,
        }
    }
}

/// The files that are ignored now, by their path.
#[derive(Default)]
pub(super) struct IgnoredFiles(HashMap<PathBuf, IgnoredFile>);

impl IgnoredFiles {
    pub(super) fn get(&self, path: &Path) -> Option<&IgnoredFile> {
        self.0.get(path)
    }

    pub(super) fn remove(&mut self, path: &Path) {
        self.0.remove(path);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Ignores a file from now on, or still, for this reason. If the file is the same as before, the time of its last
    /// change and its home are kept. Logs problems that the user can fix, once.
    pub(super) fn insert(
        &mut self,
        path: PathBuf,
        block: usize,
        stat: FileStat,
        reason: IgnoreReason,
        error: Option<io::Error>,
    ) {
        let now = Instant::now();
        let before = self.0.get(&path);
        let is_news = before.is_none_or(|before| before.reason != reason);
        match error {
            Some(error) if is_news => tracing::warn!(path = %path.escaped(), %error, "failed to read a file, retrying"),
            Some(_) => {}
            None if reason == IgnoreReason::OwnOutput && is_news => {
                tracing::warn!(path = %path.escaped(), "file is not read: the daemon's own output goes to it");
            }
            None if before.is_none() => tracing::debug!(path = %path.escaped(), ?reason, "file is not read"),
            None => {}
        }
        let is_same = |before: &&IgnoredFile| before.stat.is_same_content(&stat);
        let changed = before.filter(is_same).map_or(now, |before| before.changed);
        let is_still = |before: &&IgnoredFile| before.reason == reason && before.stat.is_same_file(&stat);
        let first = before.filter(is_still).map(|before| (before.since, before.size_since));
        let (since, size_since) = first.unwrap_or((now, stat.size));
        let home = before.and_then(|before| before.home.clone());
        self.0.insert(path, IgnoredFile { reason, block, stat, changed, checked: now, since, size_since, home });
    }

    /// Records the path of an ignored file before its rotation.
    pub(super) fn set_home(&mut self, path: &Path, home: &Path) {
        if let Some(file) = self.0.get_mut(path) {
            file.home = Some(home.to_path_buf());
        }
    }

    /// A file without a whole first line was renamed to `path`: the line is final after a while.
    pub(super) fn insert_renamed(&mut self, path: PathBuf, stat: FileStat, file: IgnoredFile) {
        let reason = IgnoreReason::NoWholeLine { is_rotated: true };
        let now = Instant::now();
        self.0.insert(path, IgnoredFile { reason, stat, changed: now, since: now, size_since: stat.size, ..file });
    }

    /// The files that wait for the end of their first line, with their blocks and sizes.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&Path, usize, u64)> {
        let waiting = self.0.iter().filter(|(_, file)| file.has_no_whole_line() && file.stat.size > 0);
        waiting.map(|(path, file)| (path.as_path(), file.block, file.stat.size))
    }

    /// The files to check now. Compressed files are checked rarely: there may be many, and no program writes to them.
    pub(super) fn due(&mut self, now: Instant, timings: &TailTimings) -> Vec<(PathBuf, IgnoredFile)> {
        let mut due = Vec::new();
        for (path, file) in &mut self.0 {
            if file.reason == IgnoreReason::Compressed {
                if now.saturating_duration_since(file.checked) < timings.rescan {
                    continue;
                }
                file.checked = now;
            }
            due.push((path.clone(), file.clone()));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn actions_for_an_ignored_file() {
        let timings = TailTimings::default();
        let start = Instant::now();
        let stat = FileStat { device: 1, inode: 2, size: 3, modified: (4, 5), links: 1, ..FileStat::default() };
        let grown = FileStat { size: 4, ..stat };
        let rotated = IgnoreReason::NoWholeLine { is_rotated: true };
        for (reason, stamp_now, seconds, next) in [
            (IgnoreReason::NoWholeLine { is_rotated: false }, stat, 1000, IgnoredAction::Leave),
            (IgnoreReason::NoWholeLine { is_rotated: false }, grown, 1, IgnoredAction::Examine),
            (rotated, stat, 1, IgnoredAction::Leave),
            (rotated, stat, 5, IgnoredAction::Complete),
            (IgnoreReason::Zeros { is_rotated: false }, stat, 1, IgnoredAction::Leave),
            (IgnoreReason::Zeros { is_rotated: false }, grown, 1, IgnoredAction::Examine),
            (IgnoreReason::Zeros { is_rotated: false }, grown, 2, IgnoredAction::ZerosFinal),
            (IgnoreReason::Zeros { is_rotated: true }, stat, 5, IgnoredAction::Complete),
            (IgnoreReason::Copy, stat, 9, IgnoredAction::Leave),
            (IgnoreReason::Copy, stat, 10, IgnoredAction::Examine),
            (IgnoreReason::Unfinished, stat, 59, IgnoredAction::Examine),
            (IgnoreReason::Unfinished, stat, 60, IgnoredAction::Own),
            (IgnoreReason::Compressed, stat, 1000, IgnoredAction::Leave),
            (IgnoreReason::Compressed, grown, 0, IgnoredAction::Examine),
            (IgnoreReason::Compressing, stat, 9, IgnoredAction::Leave),
            (IgnoreReason::Compressing, stat, 10, IgnoredAction::Examine),
            (IgnoreReason::OwnOutput, grown, 1000, IgnoredAction::Leave),
            (IgnoreReason::OwnOutput, FileStat { inode: 9, ..stat }, 0, IgnoredAction::Examine),
            (IgnoreReason::Failed(std::io::ErrorKind::PermissionDenied), grown, 9, IgnoredAction::Leave),
            (IgnoreReason::Failed(std::io::ErrorKind::PermissionDenied), stat, 10, IgnoredAction::Examine),
        ] {
            let ignored = IgnoredFile {
                reason,
                block: 0,
                stat,
                changed: start,
                checked: start,
                since: start,
                size_since: 0,
                home: None,
            };
            let now = start + Duration::from_secs(seconds);
            let never = ignored.next(&stamp_now, now, &timings, None);
            assert_eq!(never, next, "{reason:?} after {seconds} s");
            let is_unended = reason == IgnoreReason::NoWholeLine { is_rotated: false } && seconds > 5;
            let next = if is_unended { IgnoredAction::Unended } else { next };
            let after = ignored.next(&stamp_now, now, &timings, Some(timings.line_final));
            assert_eq!(after, next, "{reason:?} after {seconds} s");
        }
    }
}
