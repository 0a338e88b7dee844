//! Files that were found and are no sources, or none yet.

use super::discover::DiscoveredFile;
use super::file_content::FileStamp;
use super::follower::{Follower, is_gone};
use super::options::TailTimings;
use super::search::renamed;
use crate::counters::SourceEvent;
use daytable_model::path_text::PathText;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

/// IgnoreReason a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoreReason {
    /// It has no whole first line, so it cannot be told from others. `is_rotated`: it was renamed as it is.
    Headless { is_rotated: bool },
    /// It has nothing that is not read from the file it was copied from.
    Copy,
    /// It may become a copy of a file.
    Unfinished,
    /// It is compressed, and continues no source.
    Compressed,
    /// It is compressed, and what it is made from stands beside it.
    Compressing,
    /// It is where this daemon's own output goes.
    Own,
    /// It cannot be opened or read.
    Failed(std::io::ErrorKind),
}

/// A file that is not read, as it was when that was decided.
#[derive(Clone, Debug)]
pub(super) struct IgnoredFile {
    pub(super) reason: IgnoreReason,
    pub(super) block: usize,
    pub(super) stamp: FileStamp,
    /// When it was seen to change last.
    pub(super) changed: Instant,
    pub(super) checked: Instant,
    /// Where it was rotated away from, if that was before it was found.
    pub(super) home: Option<PathBuf>,
}

/// What to do about a parked file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IgnoredAction {
    /// Nothing changed.
    Leave,
    /// Decide again.
    Examine,
    /// It is a file of its own, whatever it looks like.
    Own,
    /// It is complete: its unfinished line is its first and last.
    Complete,
}

impl IgnoredFile {
    /// Whether it waits for its first line.
    pub(super) fn is_headless(&self) -> bool {
        matches!(self.reason, IgnoreReason::Headless { .. })
    }

    /// What to do when the file system says `facts`.
    pub(super) fn next(&self, stamp: &FileStamp, now: Instant, timings: &TailTimings) -> IgnoredAction {
        let quiet = now.saturating_duration_since(self.changed);
        let checked = now.saturating_duration_since(self.checked);
        let is_changed = *stamp != FileStamp { links: stamp.links, ..self.stamp };
        match self.reason {
            IgnoreReason::Failed(_) if checked < timings.rescan => IgnoredAction::Leave,
            IgnoreReason::Failed(_) => IgnoredAction::Examine,
            IgnoreReason::Own if stamp.is_same_file(&self.stamp) => IgnoredAction::Leave,
            _ if is_changed => IgnoredAction::Examine,
            IgnoreReason::Headless { is_rotated: true } if quiet >= timings.line_final && stamp.size > 0 => {
                IgnoredAction::Complete
            }
            IgnoreReason::Unfinished if quiet >= timings.copy_final => IgnoredAction::Own,
            // What it is a copy of may be gone.
            IgnoreReason::Copy | IgnoreReason::Unfinished | IgnoreReason::Compressing if checked >= timings.rescan => {
                IgnoredAction::Examine
            }
            _ => IgnoredAction::Leave,
        }
    }
}

impl Follower {
    /// Looks whether files that are parked have changed.
    pub(super) fn check_ignored(&mut self) {
        let now = Instant::now();
        // There may be many compressed ones, and nobody waits for them.
        let is_due = |ignored: &IgnoredFile| {
            ignored.reason != IgnoreReason::Compressed
                || now.saturating_duration_since(ignored.checked) >= self.timings.rescan
        };
        let due = self.ignored.iter_mut().filter(|(_, ignored)| is_due(ignored));
        let due: Vec<(PathBuf, IgnoredFile)> = due
            .map(|(path, ignored)| {
                if ignored.reason == IgnoreReason::Compressed {
                    ignored.checked = now;
                }
                (path.clone(), ignored.clone())
            })
            .collect();
        for (path, ignored) in due {
            match FileStamp::at(&path) {
                Ok(Some(stamp)) if stamp.is_same_file(&ignored.stamp) || !ignored.is_headless() => {
                    let next = ignored.next(&stamp, now, &self.timings);
                    if next == IgnoredAction::Own && self.discovery.block_of(&path).is_none() {
                        self.ignored.remove(&path);
                        continue;
                    }
                    self.examine_ignored(DiscoveredFile { path, block: ignored.block }, &stamp, next);
                }
                Err(error) if !is_gone(&error) => {}
                _ => self.ignored_file_moved(path, ignored),
            }
        }
    }

    /// A parked file is no longer where it was. One without a whole line may have been rotated away like that.
    pub(super) fn ignored_file_moved(&mut self, path: PathBuf, ignored: IgnoredFile) {
        self.ignored.remove(&path);
        if ignored.is_headless() && ignored.stamp.size > 0 {
            match renamed(&path, ignored.stamp.device, ignored.stamp.inode) {
                Some((path, stamp)) => {
                    let reason = IgnoreReason::Headless { is_rotated: true };
                    self.ignored.insert(path, IgnoredFile { reason, stamp, changed: Instant::now(), ..ignored });
                }
                None => self.counters_of(ignored.block).count(SourceEvent::BytesDestroyed, ignored.stamp.size),
            }
        }
        if let Some(block) = self.discovery.block_of(&path) {
            self.consider(DiscoveredFile { path, block });
        }
    }

    /// Leaves a file for later, or for good.
    pub(super) fn ignore(
        &mut self,
        path: PathBuf,
        block: usize,
        stamp: FileStamp,
        reason: IgnoreReason,
        error: Option<io::Error>,
    ) {
        let now = Instant::now();
        let before = self.ignored.get(&path);
        if let Some(error) = error {
            self.counters_of(block).count(SourceEvent::ReadError, 1);
            if before.is_none_or(|before| before.reason != reason) {
                tracing::warn!(path = %path.escaped(), %error, "cannot read file");
            }
        } else if reason == IgnoreReason::Own && before.is_none_or(|before| before.reason != reason) {
            tracing::warn!(path = %path.escaped(), "what this daemon says itself is written to this file: it is not read");
        } else if before.is_none() {
            tracing::debug!(path = %path.escaped(), ?reason, "file is not read");
        }
        let is_same = |before: &&IgnoredFile| before.stamp == FileStamp { links: before.stamp.links, ..stamp };
        let changed = before.filter(is_same).map_or(now, |before| before.changed);
        let home = before.and_then(|before| before.home.clone());
        self.ignored.insert(path, IgnoredFile { reason, block, stamp, changed, checked: now, home });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_done_about_a_parked_file() {
        let timings = TailTimings::default();
        let start = Instant::now();
        let stamp = FileStamp { device: 1, inode: 2, size: 3, modified: (4, 5), links: 1 };
        let grown = FileStamp { size: 4, ..stamp };
        let rotated = IgnoreReason::Headless { is_rotated: true };
        for (reason, stamp_now, seconds, next) in [
            (IgnoreReason::Headless { is_rotated: false }, stamp, 1000, IgnoredAction::Leave),
            (IgnoreReason::Headless { is_rotated: false }, grown, 1, IgnoredAction::Examine),
            (rotated, stamp, 1, IgnoredAction::Leave),
            (rotated, stamp, 5, IgnoredAction::Complete),
            (IgnoreReason::Copy, stamp, 9, IgnoredAction::Leave),
            (IgnoreReason::Copy, stamp, 10, IgnoredAction::Examine),
            (IgnoreReason::Unfinished, stamp, 59, IgnoredAction::Examine),
            (IgnoreReason::Unfinished, stamp, 60, IgnoredAction::Own),
            (IgnoreReason::Compressed, stamp, 1000, IgnoredAction::Leave),
            (IgnoreReason::Compressed, grown, 0, IgnoredAction::Examine),
            (IgnoreReason::Compressing, stamp, 9, IgnoredAction::Leave),
            (IgnoreReason::Compressing, stamp, 10, IgnoredAction::Examine),
            (IgnoreReason::Own, grown, 1000, IgnoredAction::Leave),
            (IgnoreReason::Own, FileStamp { inode: 9, ..stamp }, 0, IgnoredAction::Examine),
            (IgnoreReason::Failed(std::io::ErrorKind::PermissionDenied), grown, 9, IgnoredAction::Leave),
            (IgnoreReason::Failed(std::io::ErrorKind::PermissionDenied), stamp, 10, IgnoredAction::Examine),
        ] {
            let ignored = IgnoredFile { reason, block: 0, stamp, changed: start, checked: start, home: None };
            let now = start + Duration::from_secs(seconds);
            assert_eq!(ignored.next(&stamp_now, now, &timings), next, "{reason:?} after {seconds} s");
        }
    }
}
