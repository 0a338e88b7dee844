//! Files that were found and are no sources, or none yet.

use super::content::Facts;
use super::discover::Found;
use super::follower::{Follower, is_gone};
use super::options::Pace;
use super::search::renamed;
use crate::counters::SourceEvent;
use daytable_model::path_text::PathText;
use std::io;
use std::path::PathBuf;
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
    /// It is compressed, and what it is made from stands beside it.
    Compressing,
    /// It is where this daemon's own output goes.
    Own,
    /// It cannot be opened or read.
    Failed(std::io::ErrorKind),
}

/// A file that is not read, as it was when that was decided.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) why: Why,
    pub(super) block: usize,
    pub(super) facts: Facts,
    /// When it was seen to change last.
    pub(super) changed: Instant,
    pub(super) checked: Instant,
    /// Where it was rotated away from, if that was before it was found.
    pub(super) home: Option<PathBuf>,
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
    /// Whether it waits for its first line.
    pub(super) fn is_headless(&self) -> bool {
        matches!(self.why, Why::Headless { .. })
    }

    /// What to do when the file system says `facts`.
    pub(super) fn next(&self, facts: &Facts, now: Instant, pace: &Pace) -> Next {
        let quiet = now.saturating_duration_since(self.changed);
        let checked = now.saturating_duration_since(self.checked);
        let is_changed = *facts != Facts { links: facts.links, ..self.facts };
        match self.why {
            Why::Failed(_) if checked < pace.rescan => Next::Leave,
            Why::Failed(_) => Next::Examine,
            Why::Own if facts.is_same_file(&self.facts) => Next::Leave,
            _ if is_changed => Next::Examine,
            Why::Headless { is_rotated: true } if quiet >= pace.line_final && facts.size > 0 => Next::Complete,
            Why::Unfinished if quiet >= pace.copy_final => Next::Own,
            // What it is a copy of may be gone.
            Why::Copy | Why::Unfinished | Why::Compressing if checked >= pace.rescan => Next::Examine,
            _ => Next::Leave,
        }
    }
}

impl Follower {
    /// Looks whether files that are parked have changed.
    pub(super) fn look_at_parked(&mut self) {
        let now = Instant::now();
        // There may be many compressed ones, and nobody waits for them.
        let is_due = |parked: &Parked| {
            parked.why != Why::Compressed || now.saturating_duration_since(parked.checked) >= self.pace.rescan
        };
        let due = self.parked.iter_mut().filter(|(_, parked)| is_due(parked));
        let due: Vec<(PathBuf, Parked)> = due
            .map(|(path, parked)| {
                if parked.why == Why::Compressed {
                    parked.checked = now;
                }
                (path.clone(), parked.clone())
            })
            .collect();
        for (path, parked) in due {
            match Facts::at(&path) {
                Ok(Some(facts)) if facts.is_same_file(&parked.facts) || !parked.is_headless() => {
                    let next = parked.next(&facts, now, &self.pace);
                    if next == Next::Own && self.discovery.block_of(&path).is_none() {
                        self.parked.remove(&path);
                        continue;
                    }
                    self.examine_next(Found { path, block: parked.block }, &facts, next);
                }
                Err(error) if !is_gone(&error) => {}
                _ => self.missed_parked(path, parked),
            }
        }
    }

    /// A parked file is no longer where it was. One without a whole line may have been rotated away like that.
    pub(super) fn missed_parked(&mut self, path: PathBuf, parked: Parked) {
        self.parked.remove(&path);
        if parked.is_headless() && parked.facts.size > 0 {
            match renamed(&path, parked.facts.device, parked.facts.inode) {
                Some((path, facts)) => {
                    let why = Why::Headless { is_rotated: true };
                    self.parked.insert(path, Parked { why, facts, changed: Instant::now(), ..parked });
                }
                None => self.counters_of(parked.block).count(SourceEvent::BytesDestroyed, parked.facts.size),
            }
        }
        if let Some(block) = self.discovery.block_of(&path) {
            self.meet(Found { path, block });
        }
    }

    /// Leaves a file for later, or for good.
    pub(super) fn park(&mut self, path: PathBuf, block: usize, facts: Facts, why: Why, error: Option<io::Error>) {
        let now = Instant::now();
        let before = self.parked.get(&path);
        if let Some(error) = error {
            self.counters_of(block).count(SourceEvent::ReadError, 1);
            if before.is_none_or(|before| before.why != why) {
                tracing::warn!(path = %path.escaped(), %error, "cannot read file");
            }
        } else if why == Why::Own && before.is_none_or(|before| before.why != why) {
            tracing::warn!(path = %path.escaped(), "what this daemon says itself is written to this file: it is not read");
        } else if before.is_none() {
            tracing::debug!(path = %path.escaped(), ?why, "file is not read");
        }
        let is_same = |before: &&Parked| before.facts == Facts { links: before.facts.links, ..facts };
        let changed = before.filter(is_same).map_or(now, |before| before.changed);
        let home = before.and_then(|before| before.home.clone());
        self.parked.insert(path, Parked { why, block, facts, changed, checked: now, home });
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
            (Why::Compressing, facts, 9, Next::Leave),
            (Why::Compressing, facts, 10, Next::Examine),
            (Why::Own, grown, 1000, Next::Leave),
            (Why::Own, Facts { inode: 9, ..facts }, 0, Next::Examine),
            (Why::Failed(std::io::ErrorKind::PermissionDenied), grown, 9, Next::Leave),
            (Why::Failed(std::io::ErrorKind::PermissionDenied), facts, 10, Next::Examine),
        ] {
            let parked = Parked { why, block: 0, facts, changed: start, checked: start, home: None };
            let now = start + Duration::from_secs(seconds);
            assert_eq!(parked.next(&facts_now, now, &pace), next, "{why:?} after {seconds} s");
        }
    }
}
