//! Files that were found and are no sources, or none yet.

use super::content::Facts;
use super::options::Pace;
use std::time::Instant;

/// Why a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It has no whole first line, so it cannot be told from others. `is_rotated`: it was renamed as it is.
    Headless { is_rotated: bool },
    /// It has nothing that is not read from the file it was copied from.
    Copy,
    /// It may become a copy of a file.
    Unfinished,
    /// It is compressed, and continues no source.
    Compressed,
    /// It cannot be opened or read.
    Failed(std::io::ErrorKind),
}

/// A file that is not read, as it was when that was decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parked {
    pub(super) why: Why,
    pub(super) block: usize,
    pub(super) facts: Facts,
    /// When it was seen to change last.
    pub(super) changed: Instant,
    pub(super) checked: Instant,
}

/// What to do about a parked file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing changed.
    Leave,
    /// Decide again.
    Examine,
    /// It is a file of its own, whatever it looks like.
    Own,
    /// It is complete: its unfinished line is its first and last.
    Complete,
}

impl Parked {
    /// What to do when the file system says `facts`.
    pub(super) fn next(&self, facts: &Facts, now: Instant, pace: &Pace) -> Next {
        let quiet = now.saturating_duration_since(self.changed);
        let checked = now.saturating_duration_since(self.checked);
        let is_changed = *facts != Facts { links: facts.links, ..self.facts };
        match self.why {
            Why::Failed(_) if checked < pace.rescan => Next::Leave,
            Why::Failed(_) => Next::Examine,
            _ if is_changed => Next::Examine,
            Why::Headless { is_rotated: true } if quiet >= pace.line_final && facts.size > 0 => Next::Complete,
            Why::Unfinished if quiet >= pace.copy_final => Next::Own,
            // What it is a copy of may be gone.
            Why::Copy | Why::Unfinished if checked >= pace.rescan => Next::Examine,
            _ => Next::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_done_about_a_parked_file() {
        let pace = Pace::default();
        let start = Instant::now();
        let facts = Facts { device: 1, inode: 2, size: 3, modified: (4, 5), links: 1 };
        let grown = Facts { size: 4, ..facts };
        let rotated = Why::Headless { is_rotated: true };
        for (why, facts_now, seconds, next) in [
            (Why::Headless { is_rotated: false }, facts, 1000, Next::Leave),
            (Why::Headless { is_rotated: false }, grown, 1, Next::Examine),
            (rotated, facts, 1, Next::Leave),
            (rotated, facts, 5, Next::Complete),
            (Why::Copy, facts, 9, Next::Leave),
            (Why::Copy, facts, 10, Next::Examine),
            (Why::Unfinished, facts, 59, Next::Examine),
            (Why::Unfinished, facts, 60, Next::Own),
            (Why::Compressed, facts, 1000, Next::Leave),
            (Why::Compressed, grown, 0, Next::Examine),
            (Why::Failed(std::io::ErrorKind::PermissionDenied), grown, 9, Next::Leave),
            (Why::Failed(std::io::ErrorKind::PermissionDenied), facts, 10, Next::Examine),
        ] {
            let parked = Parked { why, block: 0, facts, changed: start, checked: start };
            let now = start + Duration::from_secs(seconds);
            assert_eq!(parked.next(&facts_now, now, &pace), next, "{why:?} after {seconds} s");
        }
    }
}
